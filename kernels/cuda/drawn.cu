/* drawn.cu: random numbers that are drawn until they fit, and classes: each begins at a place of its own in the stream,
 * so one thread draws one number, and what it throws away moves no other. Parameters are in double. */
#include "dealt.cuh"
#include "drawn.h"
#include "functions.cuh"

enum { OF_F32 = 1, OF_F64 = 2, OF_I32 = 3, OF_I64 = 9, OF_B16 = 14, OF_F16 = 19 };      /* as in dflow.h */
DFK_ELEMENT void put(void *z, int dtype, int64_t i, double v) {
  switch (dtype) {
    case OF_F32: ((float *)z)[i] = (float)v; break;
    case OF_F64: ((double *)z)[i] = v; break;
    case OF_F16: ((f16 *)z)[i] = cast_f16(v); break;
    case OF_B16: ((b16 *)z)[i] = cast_b16(v); break;
    case OF_I32: ((int32_t *)z)[i] = whole_of<int32_t>(v); break;
    default: ((int64_t *)z)[i] = whole_of<int64_t>(v);
  }
}

/* ---- TensorFlow's: words one after the other, from 256 blocks for each number before ----------------------------- */
/* Uniform doubles come in twos, the second one first. */
struct draws { dealt d; uint64_t at; double two[2]; int left; };
DFK_ELEMENT draws draws_of(const dealt &d, int64_t number) {
  draws s;
  s.d = d;
  s.at = (uint64_t)number * 1024;
  s.left = 0;
  return s;
}
DFK_ELEMENT double next_double(draws *s) {
  const double v = one_to_two(word(s->d, s->at), word(s->d, s->at + 1)) - 1.0;
  s->at += 2;
  return v;
}
DFK_ELEMENT double uniform(draws *s) {
  if (!s->left) {
    s->two[0] = next_double(s);
    s->two[1] = next_double(s);
    s->left = 2;
  }
  return s->two[--s->left];
}

/* Marsaglia's and Tsang's: a cube of a normal number, thrown away now and then. */
DFK_ELEMENT double gamma_number(draws *d, double alpha) {
  if (alpha == 1) return -log1p(-uniform(d));
  const bool small = alpha < 1;
  const double top = alpha + (small ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / sqrt(top);
  double normal[2];
  int left = 0;
  for (;;) {
    if (!left) {
      const double u = next_double(d), v = next_double(d);
      normal[0] = of_pair(u, v, false);
      normal[1] = of_pair(u, v, true);
      left = 2;
    }
    const double x = normal[--left];
    double v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    const double u = uniform(d);
    if (u >= 1 - 0.0331 * (x * x) * (x * x) && log(u) >= 0.5 * x * x + top * (1 - v + log(v))) continue;
    return small ? top * v * pow(uniform(d), 1 / alpha) : top * v;
  }
}
/* Knuth's product of uniform numbers; from 10 on Hoermann's transformed rejection. */
DFK_ELEMENT double poisson_number(draws *d, double rate) {
  if (rate != rate || rate < 0) return NAN;
  if (rate - rate != 0) return INFINITY;
  if (rate < 10) {
    const double end = exp(-rate);
    double product = 1, x = 0;
    for (;; x++)
      if ((product *= uniform(d)) <= end) return x;
  }
  const double log_rate = log(rate), b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b,
               inverse = 1.1239 + 1.1328 / (b - 3.4);
  for (;;) {
    const double u = uniform(d) - 0.5, v = uniform(d), us = 0.5 - fabs(u);
    const double x = floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return x;
    if (x < 0 || (us < 0.013 && v > us)) continue;
    if (log(v * inverse / (a / (us * us) + b)) <= -rate + x * log_rate - lgamma(x + 1)) return x;
  }
}
/* How many times of `count` something of probability p < 1/2 happens: the waits between are geometric. */
DFK_ELEMENT double small_binomial(draws *d, double count, double p) {
  double sum = 0, n = 0;
  for (;; n++)
    if ((sum += ceil(log(uniform(d)) / log1p(-p))) > count) return n;
}
/* What Stirling's formula lacks of log(k!). */
DFK_ELEMENT double stirling_tail(double k) {
  const double square = (k + 1) * (k + 1);
  switch (k <= 9 ? (int)k : 10) {
    case 0: return 0.0810614667953272;
    case 1: return 0.0413406959554092;
    case 2: return 0.0276779256849983;
    case 3: return 0.02079067210376509;
    case 4: return 0.0166446911898211;
    case 5: return 0.0138761288230707;
    case 6: return 0.0118967099458917;
    case 7: return 0.0104112652619720;
    case 8: return 0.00925546218271273;
    case 9: return 0.00833056343336287;
    default: return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
  }
}
/* Hoermann's transformed rejection with a squeeze, for count * p from 10 on. */
DFK_ELEMENT double large_binomial(draws *d, double count, double p) {
  const double deviation = sqrt(count * p * (1 - p)), b = 1.15 + 2.53 * deviation,
               a = -0.0873 + 0.0248 * b + 0.01 * p, c = count * p + 0.5, v_r = 0.92 - 4.2 / b, r = p / (1 - p),
               alpha = (2.83 + 5.1 / b) * deviation, m = floor((count + 1) * p);
  for (;;) {
    const double u = uniform(d) - 0.5, v = uniform(d), us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + c);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || k > count) continue;
    const double bound = (m + 0.5) * log((m + 1) / (r * (count - m + 1))) +
                         (count + 1) * log((count - m + 1) / (count - k + 1)) +
                         (k + 0.5) * log(r * (count - k + 1) / (k + 1)) + stirling_tail(m) +
                         stirling_tail(count - m) - stirling_tail(k) - stirling_tail(count - k);
    if (log(v * alpha / (a / (us * us) + b)) <= bound) return k;
  }
}
/* by: count and probability. One of a small mean begins 42 blocks for each number before it. */
DFC_KERNEL(k_binomial_numbers, dfc_drawn) {
  const dealt stream = dealt_of(p);
  DFC_EACH(i, p.n) {
    const double count = p.by[i / p.each * 2], chance = p.by[i / p.each * 2 + 1];
    const bool other = chance > 0.5, large = count * (other ? 1 - chance : chance) >= 10;
    draws d = draws_of(stream, i);
    if (!large) d.at = (uint64_t)i * 42 * 4;
    double v;
    if (count <= 0 || chance <= 0) v = 0;
    else if (chance >= 1) v = count;
    else if (count != count || chance != chance) v = NAN;
    else {
      const double q = other ? 1 - chance : chance;
      v = large ? large_binomial(&d, count, q) : small_binomial(&d, count, q);
      v = other ? count - v : v;
    }
    put(p.z, p.dtype, i % p.each * p.parameters + i / p.each, v);
  }
}
#define DRAWN(name) \
  DFC_KERNEL(k_##name##_numbers, dfc_drawn) { \
    const dealt stream = dealt_of(p); \
    DFC_EACH(i, p.n) { \
      draws d = draws_of(stream, i); \
      put(p.z, p.dtype, i % p.each * p.parameters + i / p.each, name##_number(&d, p.by[i / p.each])); \
    } \
  }
DRAWN(gamma)
DRAWN(poisson)

/* ---- normal numbers between two bounds: number e has block e of the stream, as ../ref/truncated.c says ----------- */
enum { ATTEMPTS = 65535, AROUND = 0, CLOSE, TAIL };

/* Between low < high, in deviations: from the normal curve itself, a uniform one, or in a tail an exponential one. */
DFK_ELEMENT double between(const dfk_stream &s, int64_t e, double low, double high) {
  if (!(low < high)) return low;
  const bool below = high <= 0;
  if (below) { const double other = -high; high = -low; low = other; }
  const bool close = low <= 0 ? high - low <= 1.25 : (high - low) * low < 1.25 && high - low < 1.25;
  const int curve = close ? CLOSE : low <= 0 ? AROUND : TAIL;
  const double top = fmin(fmax(0.0, low), high), rate = (low + sqrt(low * low + 4)) / 2;
  for (uint32_t n = 0; n < ATTEMPTS; n++) {
    uint32_t w[4];
    dfk_philox(&s, (uint64_t)e, n, w);
    const double u = dfk_unit_double(w[0], w[1]), v = dfk_unit_double(w[2], w[3]);
    const double x = curve == AROUND ? sqrt(-2 * log1p(-u)) * cos(2 * 3.14159265358979323846 * v)
                     : curve == CLOSE ? low + u * (high - low) : low - log1p(-u) / rate;
    const bool fits = curve == AROUND ? x >= low && x <= high
                      : curve == CLOSE ? v <= exp((top * top - x * x) / 2)
                                       : x <= high && v <= exp(-(x - rate) * (x - rate) / 2);
    if (fits) return below ? -x : x;
  }
  return below ? -top : top;
}
DFC_KERNEL(k_truncated_numbers, dfc_drawn) {
  const dfk_stream s = stream_of(p);
  DFC_EACH(e, p.n) {
    const double *by = p.by + e / p.each * 4;
    const double x = by[0] + by[1] * between(s, e, (by[2] - by[0]) / by[1], (by[3] - by[0]) / by[1]);
    put(p.z, p.dtype, e, fmin(fmax(x, by[2]), by[3]));
  }
}

/* ---- classes: a block for each row: parts of the sum of exp(logit - max), then a search for each sample ---------- */
enum { BLOCK = DFC_CLASSES_BLOCK };
DFK_ELEMENT double logit(const void *x, int dtype, int64_t i) {
  switch (dtype) {
    case OF_F32: return ((const float *)x)[i];
    case OF_F64: return ((const double *)x)[i];
    case OF_F16: return (float)((const f16 *)x)[i];
    case OF_B16: return (float)((const b16 *)x)[i];
    case OF_I32: return ((const int32_t *)x)[i];
    default: return (double)((const int64_t *)x)[i];
  }
}
DFC_KERNEL(k_classes, dfc_classes) {
  DFC_SHARED double top[BLOCK];
  DFC_SHARED int64_t bad[BLOCK];
  const dealt stream = dealt_of(p);
  const int t = (int)threadIdx.x;
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    double most = -INFINITY, *sum = p.sum + row * p.classes;
    int64_t wrong = 0;
    for (int64_t c = t; c < p.classes; c += BLOCK) {
      const double v = logit(p.x, p.dtype, row * p.classes + c);
      if (v - v == 0 || (!p.dealt && v > most)) most = v > most ? v : most;
      if (v != v || v == INFINITY) wrong = 2 * (c + 1) + (v == v);
    }
    top[t] = most;
    bad[t] = wrong;
    __syncthreads();
    for (int half = BLOCK / 2; half; half >>= 1) {
      if (t < half) {
        top[t] = top[t] > top[t + half] ? top[t] : top[t + half];
        bad[t] = bad[t] > bad[t + half] ? bad[t] : bad[t + half];
      }
      __syncthreads();
    }
    most = top[0];
    wrong = p.dealt ? 0 : bad[0] ? bad[0] : most == -INFINITY ? -1 : 0;
    __syncthreads();
    for (int64_t c = t; c < p.classes; c += BLOCK) {
      const double v = logit(p.x, p.dtype, row * p.classes + c);
      sum[c] = v - v == 0 ? exp(v - most) : 0;
    }
    __syncthreads();
    if (t == 0) {                                         /* in the order of the classes, as the CPU adds */
      double all = 0;
      for (int64_t c = 0; c < p.classes; c++) sum[c] = all += sum[c];
      if (p.trouble) p.trouble[row] = wrong;
    }
    __syncthreads();
    for (int64_t i = t; i < p.samples && !wrong; i += BLOCK) {
      const int64_t e = row * p.samples + i;
      uint32_t w[4];
      double u;
      if (p.dealt) u = one_to_two(word(stream, 2 * e), word(stream, 2 * e + 1)) - 1.0;
      else {
        dfk_philox(&stream.s, (uint64_t)(e / 2), 0, w);
        u = dfk_unit_double(w[2 * (e % 2)], w[2 * (e % 2) + 1]);
      }
      u *= sum[p.classes - 1];
      int64_t low = 0, high = p.classes - (p.dealt ? 0 : 1);
      while (low < high) {
        const int64_t mid = (low + high) / 2;
        if (sum[mid] > u) high = mid; else low = mid + 1;
      }
      if (p.wide) ((int64_t *)p.z)[e] = low; else ((int32_t *)p.z)[e] = (int32_t)low;
    }
    __syncthreads();
  }
}
