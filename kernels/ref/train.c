/* train.c: the optimizers' formulas, one element at a time. */
#include "../half.h"
#include "../train.h"
#include <math.h>

static double sign(double x) { return (x > 0) - (x < 0); }

/* What the proximal rules make of a step to `to` at this rate. */
static double shrink(double to, double rate, double l1, double l2) {
  if (l1 > 0) to = sign(to) * fmax(fabs(to) - rate * l1, 0);
  return to / (1 + l2 * rate);
}

static void ftrl(double *x, double g, double lr, double l1, double l2, double shrinkage, double power, bool by_lr) {
  double accum = x[1] + g * g, with = g + 2 * shrinkage * x[0];
  double now = power == -0.5 ? sqrt(accum) : pow(accum, -power), was = power == -0.5 ? sqrt(x[1]) : pow(x[1], -power);
  double scale = by_lr ? lr : 1;
  x[2] += with * scale - (now - was) * scale / lr * x[0];
  double edge = l1 * scale, quadratic = now * scale / lr + 2 * l2 * scale;
  x[0] = fabs(x[2]) > edge ? (edge * sign(x[2]) - x[2]) / quadratic : 0;
  x[1] = accum;
}

static void step(dfk_rule rule, double *x, double g, const double *h, bool flag) {
  switch (rule) {
    case DFK_DESCENT: x[0] -= h[0] * g; break;
    case DFK_PROXIMAL_DESCENT: x[0] = shrink(x[0] - h[0] * g, h[0], h[1], h[2]); break;
    case DFK_MOMENTUM:
      x[1] = x[1] * h[1] + g;
      x[0] -= h[0] * (flag ? g + x[1] * h[1] : x[1]);
      break;
    case DFK_KERAS_MOMENTUM:
      x[1] = x[1] * h[1] - h[0] * g;
      x[0] += flag ? x[1] * h[1] - h[0] * g : x[1];
      break;
    case DFK_ADAGRAD:
      if (flag) x[1] += g * g;
      x[0] -= h[0] * g / sqrt(x[1]);
      break;
    case DFK_ADAGRAD_V2:
      if (flag) x[1] += g * g;
      x[0] -= h[0] * g / (sqrt(x[1]) + h[1]);
      break;
    case DFK_PROXIMAL_ADAGRAD: {
      x[1] += g * g;
      double rate = h[0] / sqrt(x[1]);
      x[0] = shrink(x[0] - g * rate, rate, h[1], h[2]);
      break;
    }
    case DFK_ADAGRAD_DA: {
      x[1] += g;
      x[2] += g * g;
      double sum = h[1] > 0 ? sign(x[1]) * fmax(fabs(x[1]) - h[1] * h[3], 0) : x[1];
      x[0] = -h[0] * sum / (h[2] * h[3] * h[0] + sqrt(x[2]));
      break;
    }
    case DFK_ADADELTA: {
      x[1] = x[1] * h[1] + g * g * (1 - h[1]);
      double by = sqrt(x[2] + h[2]) / sqrt(x[1] + h[2]) * g;
      x[0] -= by * h[0];
      x[2] = x[2] * h[1] + by * by * (1 - h[1]);
      break;
    }
    case DFK_RMSPROP:
      x[1] += (g * g - x[1]) * (1 - h[1]);
      x[2] = x[2] * h[2] + g * h[0] / sqrt(x[1] + h[3]);
      x[0] -= x[2];
      break;
    case DFK_CENTERED_RMSPROP:
      x[2] += (g * g - x[2]) * (1 - h[1]);
      x[1] += (g - x[1]) * (1 - h[1]);
      x[3] = x[3] * h[2] + g * h[0] / sqrt(x[2] - x[1] * x[1] + h[3]);
      x[0] -= x[3];
      break;
    case DFK_FTRL: ftrl(x, g, h[0], h[1], h[2], 0, h[3], flag); break;
    case DFK_FTRL_V2: ftrl(x, g, h[0], h[1], h[2], h[3], h[4], flag); break;
    case DFK_ADAM: {
      double rate = h[2] * sqrt(1 - h[1]) / (1 - h[0]);
      x[1] += (g - x[1]) * (1 - h[3]);
      x[2] += (g * g - x[2]) * (1 - h[4]);
      x[0] -= rate * (flag ? h[3] * x[1] + (1 - h[3]) * g : x[1]) / (sqrt(x[2]) + h[5]);
      break;
    }
    case DFK_ADAMAX:
      x[1] += (g - x[1]) * (1 - h[2]);
      x[2] = fmax(h[3] * x[2], fabs(g));
      x[0] -= h[1] / (1 - h[0]) * x[1] / (x[2] + h[4]);
      break;
    case DFK_ADD_SIGN:
      x[1] = x[1] * h[3] + g * (1 - h[3]);
      x[0] -= h[0] * (h[1] + h[2] * sign(g) * sign(x[1])) * g;
      break;
    case DFK_POWER_SIGN:
      x[1] = x[1] * h[3] + g * (1 - h[3]);
      x[0] -= h[0] * exp(h[1] * h[2] * sign(g) * sign(x[1])) * g;
      break;
  }
}

static int32_t slots_of(dfk_rule rule) {
  switch (rule) {
    case DFK_DESCENT: case DFK_PROXIMAL_DESCENT: return 0;
    case DFK_MOMENTUM: case DFK_KERAS_MOMENTUM: case DFK_ADAGRAD: case DFK_ADAGRAD_V2: case DFK_PROXIMAL_ADAGRAD:
    case DFK_ADD_SIGN: case DFK_POWER_SIGN: return 1;
    case DFK_CENTERED_RMSPROP: return 3;
    default: return 2;
  }
}

#define STEP_EACH(GET, SET)                                                    \
  for (int64_t i = 0; i < n; i++) {                                            \
    double e[DFK_TRAIN_VARS];                                                  \
    for (int32_t s = 0; s <= slots; s++) e[s] = GET(x[s], i);                  \
    step(rule, e, GET(grad, i), h, flag);                                      \
    for (int32_t s = 0; s <= slots; s++) SET(x[s], i, e[s]);                   \
  }                                                                            \
  break
#define GET_F32(p, i)        ((const float *)(p))[i]
#define SET_F32(p, i, v)     ((float *)(p))[i] = (float)(v)
#define GET_F64(p, i)        ((const double *)(p))[i]
#define SET_F64(p, i, v)     ((double *)(p))[i] = (v)
#define GET_F16(p, i)        dfk_from_float16(((const uint16_t *)(p))[i])
#define SET_F16(p, i, v)     ((uint16_t *)(p))[i] = dfk_to_float16((float)(v))
#define GET_BF16(p, i)       dfk_from_bfloat16(((const uint16_t *)(p))[i])
#define SET_BF16(p, i, v)    ((uint16_t *)(p))[i] = dfk_to_bfloat16((float)(v))

void dfk_train(dfk_rule rule, int32_t dtype, int64_t n, void *const *x, const void *grad, const double *h, bool flag) {
  int32_t slots = slots_of(rule);
  switch (dtype) {
    case DF_FLOAT32:  STEP_EACH(GET_F32, SET_F32);
    case DF_FLOAT64:  STEP_EACH(GET_F64, SET_F64);
    case DF_FLOAT16:  STEP_EACH(GET_F16, SET_F16);
    case DF_BFLOAT16: STEP_EACH(GET_BF16, SET_BF16);
    default: break;
  }
}
