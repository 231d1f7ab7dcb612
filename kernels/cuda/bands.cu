/* bands.cu: bands of diagonals, packed and back: one thread for each element that is made. */
#include "kernel.cuh"

DFK_ELEMENT int64_t length_of(const dfc_packing &p, int64_t d) {
  const int64_t down = p.rows + (d < 0 ? d : 0), across = p.cols - (d > 0 ? d : 0);
  return down < across ? down : across;
}
/* Where diagonal d begins in its row. */
DFK_ELEMENT int64_t begin_of(const dfc_packing &p, int64_t d) {
  const bool left = (d >= 0 && p.left_above) || (d <= 0 && p.left_below);
  return left ? 0 : p.width - length_of(p, d);
}

template <class T> DFC_INLINE void pack(const dfc_packing &p) {
  const int64_t of = (p.high - p.low + 1) * p.width;
  DFC_EACH(e, p.n) {
    const int64_t d = p.high - e % of / p.width, at = e % p.width - begin_of(p, d);
    const int64_t i = at + (d < 0 ? -d : 0), j = at + (d > 0 ? d : 0);
    const bool inside = at >= 0 && at < length_of(p, d);
    ((T *)p.z)[e] = inside ? ((const T *)p.x)[(e / of * p.rows + i) * p.cols + j] : load<T>(p.rest, 0);
  }
}
/* Matrices of the band x, and of what it does not hold: `rest`, one element or (x too) as many as there are. */
template <class T> DFC_INLINE void unpack(const dfc_packing &p) {
  const int64_t size = p.rows * p.cols, of = (p.high - p.low + 1) * p.width;
  DFC_EACH(e, p.n) {
    const int64_t i = e % size / p.cols, j = e % p.cols, d = j - i;
    const bool held = d >= p.low && d <= p.high;
    ((T *)p.z)[e] = held ? ((const T *)p.x)[e / size * of + (p.high - d) * p.width + begin_of(p, d) + (i < j ? i : j)]
                         : load<T>(p.rest, p.whole ? e : 0);
  }
}
#define BANDS(bits, T) \
  DFC_KERNEL(k_pack_##bits, dfc_packing) { pack<T>(p); } \
  DFC_KERNEL(k_unpack_##bits, dfc_packing) { unpack<T>(p); }
BANDS(8, uint8_t)
BANDS(16, uint16_t)
BANDS(32, uint32_t)
BANDS(64, uint64_t)
BANDS(128, wide16)
