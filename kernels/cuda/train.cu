/* train.cu: one step of an optimizer on the rows that a gradient has, by the rules of ../train.h, in double: one thread
 * for each element of a row where each row is stepped once; else one for each column, which takes the rows one after
 * the other. */
#include "kernel.cuh"

DFK_ELEMENT double sign_of(double x) { return (double)(x > 0) - (double)(x < 0); }
/* What the proximal rules make of a step to `to` at this rate. */
DFK_ELEMENT double shrunk(double to, double rate, double l1, double l2) {
  const double size = fabs(to) - rate * l1;
  return (l1 > 0 ? sign_of(to) * (size > 0 ? size : 0) : to) / (1 + l2 * rate);
}
DFK_ELEMENT double to_power(double x, double power) { return power == -0.5 ? sqrt(x) : pow(x, -power); }
DFK_ELEMENT void ftrl(double *x, double g, const double *h, double shrinkage, double power, bool by_rate) {
  const double accum = x[1] + g * g, with = g + 2 * shrinkage * x[0], scale = by_rate ? h[0] : 1;
  const double now = to_power(accum, power), was = to_power(x[1], power);
  x[2] += with * scale - (now - was) * scale / h[0] * x[0];
  const double edge = h[1] * scale, quadratic = now * scale / h[0] + 2 * h[2] * scale;
  x[0] = fabs(x[2]) > edge ? (edge * sign_of(x[2]) - x[2]) / quadratic : 0;
  x[1] = accum;
}
/* x: the variable and its slots; h: the rule's numbers. */
DFK_ELEMENT void take_step(int rule, double *x, double g, const double *h, bool flag) {
  switch (rule) {
    case DFC_DESCENT: x[0] -= h[0] * g; return;
    case DFC_PROXIMAL_DESCENT: x[0] = shrunk(x[0] - h[0] * g, h[0], h[1], h[2]); return;
    case DFC_MOMENTUM:
      x[1] = x[1] * h[1] + g;
      x[0] -= h[0] * (flag ? g + x[1] * h[1] : x[1]);
      return;
    case DFC_KERAS_MOMENTUM:
      x[1] = x[1] * h[1] - h[0] * g;
      x[0] += flag ? x[1] * h[1] - h[0] * g : x[1];
      return;
    case DFC_ADAGRAD: case DFC_ADAGRAD_V2:
      if (flag) x[1] += g * g;
      x[0] -= h[0] * g / (sqrt(x[1]) + (rule == DFC_ADAGRAD_V2 ? h[1] : 0));
      return;
    case DFC_PROXIMAL_ADAGRAD: {
      x[1] += g * g;
      const double rate = h[0] / sqrt(x[1]);
      x[0] = shrunk(x[0] - g * rate, rate, h[1], h[2]);
      return;
    }
    case DFC_ADAGRAD_DA: {
      x[1] += g;
      x[2] += g * g;
      const double size = fabs(x[1]) - h[1] * h[3];
      const double sum = h[1] > 0 ? sign_of(x[1]) * (size > 0 ? size : 0) : x[1];
      x[0] = -h[0] * sum / (h[2] * h[3] * h[0] + sqrt(x[2]));
      return;
    }
    case DFC_ADADELTA: {
      x[1] = x[1] * h[1] + g * g * (1 - h[1]);
      const double by = sqrt(x[2] + h[2]) / sqrt(x[1] + h[2]) * g;
      x[0] -= by * h[0];
      x[2] = x[2] * h[1] + by * by * (1 - h[1]);
      return;
    }
    case DFC_RMSPROP:
      x[1] += (g * g - x[1]) * (1 - h[1]);
      x[2] = x[2] * h[2] + g * h[0] / sqrt(x[1] + h[3]);
      x[0] -= x[2];
      return;
    case DFC_CENTERED_RMSPROP:
      x[2] += (g * g - x[2]) * (1 - h[1]);
      x[1] += (g - x[1]) * (1 - h[1]);
      x[3] = x[3] * h[2] + g * h[0] / sqrt(x[2] - x[1] * x[1] + h[3]);
      x[0] -= x[3];
      return;
    case DFC_FTRL: ftrl(x, g, h, 0, h[3], flag); return;
    case DFC_FTRL_V2: ftrl(x, g, h, h[3], h[4], flag); return;
    case DFC_ADAM: {
      const double rate = h[2] * sqrt(1 - h[1]) / (1 - h[0]);
      x[1] += (g - x[1]) * (1 - h[3]);
      x[2] += (g * g - x[2]) * (1 - h[4]);
      x[0] -= rate * (flag ? h[3] * x[1] + (1 - h[3]) * g : x[1]) / (sqrt(x[2]) + h[5]);
      return;
    }
    case DFC_ADAMAX:
      x[1] += (g - x[1]) * (1 - h[2]);
      x[2] = h[3] * x[2] > fabs(g) ? h[3] * x[2] : fabs(g);
      x[0] -= h[1] / (1 - h[0]) * x[1] / (x[2] + h[4]);
      return;
    default:
      x[1] = x[1] * h[3] + g * (1 - h[3]);
      const double agreed = h[2] * sign_of(g) * sign_of(x[1]);
      x[0] -= h[0] * (rule == DFC_ADD_SIGN ? h[1] + agreed : exp(h[1] * agreed)) * g;
  }
}

template <class T> DFC_INLINE void step_row(const dfc_training &p, int64_t named, int64_t column) {
  double x[DFC_TRAIN_VARS];
  const int64_t at = (p.row ? p.row[named] : named) * p.columns + column;
  const int64_t begin = p.begin ? p.begin[named] : named, end = p.begin ? p.begin[named + 1] : named + 1;
  for (int v = 0; v < p.vars; v++) x[v] = (double)((const T *)p.at[v])[at];
  double sum = 0;
  for (int64_t i = begin; i < end; i++) {
    const double g = (double)((const T *)p.grad)[(p.order ? p.order[i] : i) * p.columns + column];
    sum = (double)(T)(sum + g);
  }
  take_step(p.rule, x, sum, p.number, p.flag != 0);
  for (int v = 0; v < p.vars; v++) ((T *)p.at[v])[at] = (T)x[v];
}
template <class T> DFC_INLINE void train(const dfc_training &p) {
  if (!p.in_turn) {
    DFC_EACH(e, p.rows * p.columns) step_row<T>(p, e / p.columns, e % p.columns);
  } else {
    DFC_EACH(column, p.columns)
      for (int64_t r = 0; r < p.rows; r++) step_row<T>(p, r, column);
  }
}
DFC_KERNEL(k_train_f32, dfc_training) { train<float>(p); }
DFC_KERNEL(k_train_f64, dfc_training) { train<double>(p); }
DFC_KERNEL(k_train_f16, dfc_training) { train<f16>(p); }
DFC_KERNEL(k_train_b16, dfc_training) { train<b16>(p); }
