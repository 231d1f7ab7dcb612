/* rejection_sampling.cu: random numbers that are drawn until they fit, and classes: each begins at a place of its own
 * in the stream, so one thread draws one number, and what it throws away moves no other. Parameters are in double. */
#include "dealt.cuh"
#include "rejection_sampling.h"
#include "functions.cuh"
#include "../truncated.h"

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

DFK_ELEMENT void two_normal(draws *d, double pair[2]) {
  const double u = next_double(d), v = next_double(d);
  pair[0] = of_pair(u, v, false);
  pair[1] = of_pair(u, v, true);
}
#include "../rejection.h"

/* by: count and probability. One of a small mean begins 42 blocks for each number before it. */
DFC_KERNEL(k_binomial_numbers, dfc_rejection_sampling) {
  const dealt stream = dealt_of(p);
  DFC_EACH(i, p.n) {
    const double count = p.by[i / p.each * 2], chance = p.by[i / p.each * 2 + 1];
    draws d = draws_of(stream, i);
    if (!large_mean(count, chance)) d.at = (uint64_t)i * 42 * 4;
    put(p.z, p.dtype, i % p.each * p.parameters + i / p.each, binomial_number(&d, count, chance));
  }
}
#define DRAWN(name) \
  DFC_KERNEL(k_##name##_numbers, dfc_rejection_sampling) { \
    const dealt stream = dealt_of(p); \
    DFC_EACH(i, p.n) { \
      draws d = draws_of(stream, i); \
      put(p.z, p.dtype, i % p.each * p.parameters + i / p.each, name##_number(&d, p.by[i / p.each])); \
    } \
  }
DRAWN(gamma)
DRAWN(poisson)

/* ---- normal numbers between two bounds: number e has block e of the stream, as ../truncated.h says ----------- */
DFC_KERNEL(k_truncated_numbers, dfc_rejection_sampling) {
  const dfk_stream s = stream_of(p);
  DFC_EACH(e, p.n) {
    const double *by = p.by + e / p.each * 4;
    const double x = by[0] + by[1] * between(&s, e, (by[2] - by[0]) / by[1], (by[3] - by[0]) / by[1]);
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
