/* norm.cu: batch normalisation of [outer, channels, inner]: one block for each channel; sums in double, pair by pair,
 * in an order that follows from the shape. */
#include "block.cuh"

enum { BLOCK = 256 };

/* Where element i of channel c lies. */
DFC_INLINE int64_t element(const dfc_norm &p, int64_t c, int64_t i) {
  return (i / p.inner * p.channels + c) * p.inner + i % p.inner;
}

/* What is told of a channel beside the result. */
template <class T>
DFC_INLINE void tell(const dfc_norm &p, int64_t c, double mean, double unbiased, double variance) {
  const double f = p.factor;
  ((T *)p.out[0])[c] = (T)(p.moving ? (1 - f) * (double)((const T *)p.mean)[c] + f * mean : mean);
  ((T *)p.out[1])[c] = (T)(p.moving ? (1 - f) * (double)((const T *)p.variance)[c] + f * unbiased : unbiased);
  ((T *)p.out[2])[c] = (T)mean;
  ((T *)p.out[3])[c] = (T)variance;
}

template <class T> DFC_INLINE void normalise(const dfc_norm &p, double *part) {
  const T *x = (const T *)p.x;
  const int64_t n = p.outer * p.inner;
  for (int64_t c = blockIdx.x; c < p.channels; c += gridDim.x) {
    double mean = 0, variance = 0, unbiased = 0;
    if (p.training) {
      for (int64_t i = threadIdx.x; i < n; i += BLOCK) mean += (double)x[element(p, c, i)];
      mean = block_sum<BLOCK>(mean, part);
      if (n) mean /= (double)n;
      for (int64_t i = threadIdx.x; i < n; i += BLOCK) {
        const double d = (double)x[element(p, c, i)] - mean;
        variance += d * d;
      }
      variance = block_sum<BLOCK>(variance, part);
      unbiased = n > 1 ? variance / (double)(n - 1) : variance;
      if (n) variance /= (double)n;
    } else {
      mean = (double)((const T *)p.mean)[c];
      variance = unbiased = (double)((const T *)p.variance)[c];
    }
    const double by = (double)((const T *)p.scale)[c] / sqrt(variance + p.epsilon);
    const double shift = (double)((const T *)p.offset)[c] - mean * by;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) {
      const int64_t at = element(p, c, i);
      ((T *)p.z)[at] = (T)((double)x[at] * by + shift);
    }
    if (threadIdx.x == 0) tell<T>(p, c, mean, unbiased, variance);
  }
}

template <class T> DFC_INLINE void normalise_back(const dfc_norm &p, double *part) {
  const T *x = (const T *)p.x, *dy = (const T *)p.dy;
  const int64_t n = p.outer * p.inner;
  for (int64_t c = blockIdx.x; c < p.channels; c += gridDim.x) {
    const double mean = (double)((const T *)p.mean)[c];
    const double inverse = 1 / sqrt((double)((const T *)p.variance)[c] + p.epsilon);
    double sum = 0, dot = 0;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) {
      const int64_t at = element(p, c, i);
      sum += (double)dy[at];
      dot += (double)dy[at] * ((double)x[at] - mean) * inverse;
    }
    sum = block_sum<BLOCK>(sum, part);
    dot = block_sum<BLOCK>(dot, part);
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) {
      const int64_t at = element(p, c, i);
      const double d = (double)dy[at];
      const double centred = d - sum / (double)n - ((double)x[at] - mean) * inverse * dot / (double)n;
      ((T *)p.z)[at] = (T)((double)((const T *)p.scale)[c] * inverse * (p.training ? centred : d));
    }
    if (threadIdx.x) continue;
    ((T *)p.out[0])[c] = (T)dot;
    ((T *)p.out[1])[c] = (T)sum;
  }
}
/* Where a library has normalised: x are the means that it found, or was given, dy the variances, unbiased in training.
 * One thread for each channel. */
template <class T> DFC_INLINE void told(const dfc_norm &p) {
  const double n = (double)(p.outer * p.inner);
  DFC_EACH(c, p.channels) {
    const double unbiased = (double)((const T *)p.dy)[c];
    tell<T>(p, c, (double)((const T *)p.x)[c], unbiased, p.training ? unbiased * (n - 1) / n : unbiased);
  }
}
/* 1 / deviation, as it wants it on the way back. */
template <class T> DFC_INLINE void inverse(const dfc_norm &p) {
  DFC_EACH(c, p.channels) ((T *)p.z)[c] = (T)(1 / sqrt((double)((const T *)p.variance)[c] + p.epsilon));
}
#define NORM(s, T) \
  DFC_KERNEL(k_batch_norm_told_##s, dfc_norm) { told<T>(p); } \
  DFC_KERNEL(k_batch_norm_inverse_##s, dfc_norm) { inverse<T>(p); } \
  DFC_KERNEL(k_batch_norm_##s, dfc_norm) { \
    DFC_SHARED double part[BLOCK]; \
    normalise<T>(p, part); \
  } \
  DFC_KERNEL(k_batch_norm_grad_##s, dfc_norm) { \
    DFC_SHARED double part[BLOCK]; \
    normalise_back<T>(p, part); \
  }
NORM(f32, float)
NORM(f64, double)
