/* move.cu: elements from place to place, whatever they mean: one thread for each element, by its width. Then what
 * changes elements where they lie: one thread for each element of a row, which goes through the rows in their order,
 * so that two that name one place come one after the other. */
#include "complex.cuh"

#define MOVE(width, T) \
  DFC_KERNEL(k_move_##width, dfc_moving) { \
    DFC_EACH(i, p.n) { \
      int64_t to = 0, from = 0, left = i; \
      for (int d = (int)p.rank - 1; d > 0; d--) { \
        const int64_t next = left / p.dims[d], here = left - next * p.dims[d]; \
        to += here * p.to_step[d]; \
        from += here * p.from_step[d]; \
        left = next; \
      } \
      if (p.rank) { to += left * p.to_step[0]; from += left * p.from_step[0]; } \
      ((T *)p.to)[to] = p.from ? ((const T *)p.from)[from] : from_bits<T>(p.bits); \
    } \
  }
MOVE(8, uint8_t)
MOVE(16, uint16_t)
MOVE(32, uint32_t)
MOVE(64, uint64_t)
MOVE(128, wide16)

/* to[block, i, :] = from[block, index[i], :]; limit: rows of a block of `from`. A negative index: zeros. */
#define PICK(bits, T) \
  DFC_KERNEL(k_pick_##bits, dfc_picking) { \
    DFC_EACH(e, p.blocks * p.n * p.row) { \
      const int64_t column = e % p.row, i = e / p.row % p.n, block = e / p.row / p.n, at = p.index[i]; \
      ((T *)p.to)[e] = at < 0 ? (T)0 : ((const T *)p.from)[(block * p.limit + at) * p.row + column]; \
    } \
  }
PICK(8, uint8_t)
PICK(16, uint16_t)
PICK(32, uint32_t)
PICK(64, uint64_t)
PICK(128, wide16)

/* to[index[i], :] = from[i, :] (op: from[0, :]), where no index comes twice; rows of a negative one go nowhere. */
#define SET(bits, T) \
  DFC_KERNEL(k_set_##bits, dfc_picking) { \
    DFC_EACH(e, p.n * p.row) { \
      const int64_t column = e % p.row, i = e / p.row, at = p.index[i]; \
      if (at >= 0) ((T *)p.to)[at * p.row + column] = ((const T *)p.from)[p.op ? column : e]; \
    } \
  }
SET(8, uint8_t)
SET(16, uint16_t)
SET(32, uint32_t)
SET(64, uint64_t)
SET(128, wide16)

DFC_INLINE float quotient(float a, float b) { return a / b; }
DFC_INLINE double quotient(double a, double b) { return a / b; }
DFC_INLINE int64_t quotient(int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? wrap_sub(0, a) : a / b; }
/* As dfk_update_op has them. */
template <class W> DFC_INLINE W updated(int op, W x, W y) {
  switch (op) {
    case 1: return wrap_add(x, y);
    case 2: return wrap_sub(x, y);
    case 3: return wrap_mul(x, y);
    case 4: return quotient(x, y);
    case 5: return x < y || x != x ? x : y;
    case 6: return x > y || x != x ? x : y;
    default: return y;
  }
}
template <> DFC_INLINE c128 updated<c128>(int op, c128 x, c128 y) {
  return op == 1 ? x + y : op == 2 ? x - y : op == 3 ? x * y : op == 4 ? x / y : y;
}
/* to[block, index[i], :] op= from[block, i, :] */
template <class T> DFC_INLINE void place(const dfc_picking &p) {
  typedef typename calc_of<T>::type W;
  DFC_EACH(e, p.blocks * p.row) {
    const int64_t column = e % p.row, block = e / p.row;
    for (int64_t i = 0; i < p.n; i++) {
      if (p.index[i] < 0) continue;
      T *to = (T *)p.to + (block * p.limit + p.index[i]) * p.row + column;
      *to = (T)updated<W>(p.op, (W)*to, (W)((const T *)p.from)[(block * p.n + i) * p.row + column]);
    }
  }
}
/* The same for parts of variables: one thread for each element where no place comes twice, else for each of a row. */
template <class T> DFC_INLINE void put(const dfc_placing &p) {
  typedef typename calc_of<T>::type W;
  const int64_t times = p.apart ? 1 : p.n;
  DFC_EACH(e, (p.apart ? p.n : 1) * p.row) {
    for (int64_t t = 0; t < times; t++) {
      const int64_t i = (p.apart ? e / p.row : t), column = e % p.row;
      T *to = (T *)p.to + p.index[i] * p.row + column;
      *to = (T)updated<W>(p.op, (W)*to, (W)((const T *)p.from)[p.one ? 0 : i * p.row + column]);
    }
  }
}
template <class T> DFC_INLINE void update(const dfc_updating &p) {
  typedef typename calc_of<T>::type W;
  DFC_EACH(i, p.n) ((T *)p.to)[i] = (T)updated<W>(p.op, (W)((const T *)p.a)[i], (W)((const T *)p.b)[p.one_b ? 0 : i]);
}
#define ADD(s, T) \
  DFC_KERNEL(k_place_##s, dfc_picking) { place<T>(p); } \
  DFC_KERNEL(k_update_##s, dfc_updating) { update<T>(p); }
#define CHANGE(s, T) ADD(s, T) DFC_KERNEL(k_put_##s, dfc_placing) { put<T>(p); }
ADD(c64, c64)
ADD(c128, c128)
CHANGE(f32, float)
CHANGE(f64, double)
CHANGE(f16, f16)
CHANGE(b16, b16)
CHANGE(i32, int32_t)
CHANGE(i64, int64_t)
CHANGE(i8, int8_t)
CHANGE(u8, uint8_t)

/* ---- steps of optimizers: update.h has the formulas -------------------------------------------------------------- */
template <class T> DFC_INLINE void step(const dfc_stepping &p) {
  typedef typename calc_of<T>::type W;
  DFC_EACH(i, p.n) {
    T *var = (T *)p.at[0] + i;
    if (p.kind == 0) { *var = (T)((W)*var - (W)p.rate * (W)((const T *)p.at[1])[i]); continue; }
    if (p.kind == 1) {
      const W grad = (W)((const T *)p.at[2])[i], a = (W)p.momentum * (W)((T *)p.at[1])[i] + grad;
      ((T *)p.at[1])[i] = (T)a;
      *var = (T)((W)*var - (W)p.rate * (p.nesterov ? grad + (W)p.momentum * a : a));
      continue;
    }
    const W g = (W)((const T *)p.at[3])[i], b1 = (W)p.beta1, b2 = (W)p.beta2;
    const W m0 = (W)((T *)p.at[1])[i], v0 = (W)((T *)p.at[2])[i], m = m0 + (g - m0) * (1 - b1),
            v = v0 + (g * g - v0) * (1 - b2);
    ((T *)p.at[1])[i] = (T)m;
    ((T *)p.at[2])[i] = (T)v;
    *var = (T)((W)*var - (W)p.rate * (p.nesterov ? b1 * m + (1 - b1) * g : m) / ((W)sqrt(v) + (W)p.epsilon));
  }
}
DFC_KERNEL(k_step_f32, dfc_stepping) { step<float>(p); }
DFC_KERNEL(k_step_f64, dfc_stepping) { step<double>(p); }
DFC_KERNEL(k_step_f16, dfc_stepping) { step<f16>(p); }
DFC_KERNEL(k_step_b16, dfc_stepping) { step<b16>(p); }
