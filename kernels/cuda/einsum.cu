/* einsum.cu: sums of products in Einstein's notation, one thread for each result, which walks over the labels that are
 * summed. Two operands are the common case; more are multiplied at once. What is a plain product goes to product.cu. */
#include "complex.cuh"

template <class T> struct sum_of { typedef T type; };
template <> struct sum_of<c64> { typedef c128 type; };
template <> struct sum_of<f16> { typedef float type; };
template <> struct sum_of<b16> { typedef float type; };
template <> struct sum_of<int32_t> { typedef uint32_t type; };
template <> struct sum_of<int64_t> { typedef uint64_t type; };

/* sizes[label], then step[input][label]: the labels of the result come first. */
template <class T> DFC_INLINE void einsum(const dfc_einsum &p) {
  typedef typename sum_of<T>::type A;
  const int64_t *size = p.table, *step = p.table + p.labels;
  DFC_EACH(e, p.n) {
    int64_t base[DFC_EINSUM_INPUTS];
    for (int i = 0; i < p.inputs; i++) base[i] = 0;
    int64_t left = e;
    for (int l = p.kept - 1; l >= 0; l--) {
      const int64_t at = left % size[l];
      left /= size[l];
      for (int i = 0; i < p.inputs; i++) base[i] += at * step[i * p.labels + l];
    }
    A sum = 0;
    for (int64_t t = 0; t < p.terms; t++) {
      A product = 1;
      for (int i = 0; i < p.inputs; i++) {
        int64_t at = base[i], rest = t;
        for (int l = p.labels - 1; l >= p.kept; l--) {
          at += rest % size[l] * step[i * p.labels + l];
          rest /= size[l];
        }
        product *= (A)((const T *)p.in[i])[at];
      }
      sum += product;
    }
    ((T *)p.z)[e] = (T)sum;
  }
}
DFC_KERNEL(k_einsum_f32, dfc_einsum) { einsum<float>(p); }
DFC_KERNEL(k_einsum_f64, dfc_einsum) { einsum<double>(p); }
DFC_KERNEL(k_einsum_f16, dfc_einsum) { einsum<f16>(p); }
DFC_KERNEL(k_einsum_b16, dfc_einsum) { einsum<b16>(p); }
DFC_KERNEL(k_einsum_i32, dfc_einsum) { einsum<int32_t>(p); }
DFC_KERNEL(k_einsum_i64, dfc_einsum) { einsum<int64_t>(p); }
DFC_KERNEL(k_einsum_c64, dfc_einsum) { einsum<c64>(p); }
DFC_KERNEL(k_einsum_c128, dfc_einsum) { einsum<c128>(p); }
