/* complex.cuh: complex numbers: c64 is stored, c128 stored and computed in, as on the CPU: results are rounded once.
 * What names functions of ../expressions.h has for floats is here as name_c. Products and quotients are C's: what is
 * infinite stays so. Inverse functions are Kahan's (Branch cuts for complex elementary functions). */
#ifndef DFLOW_CUDA_COMPLEX_CUH
#define DFLOW_CUDA_COMPLEX_CUH
#include "kernel.cuh"

struct c128 {
  double re, im;
  c128() = default;
  __device__ c128(double a, double b = 0) : re(a), im(b) {}
};
struct c64 {
  float re, im;
  c64() = default;
  __device__ c64(c128 x) : re((float)x.re), im((float)x.im) {}
  __device__ operator c128() const { return c128(re, im); }
};
template <> struct wide_of<c64> { typedef c128 type; };
template <> struct calc_of<c64> { typedef c128 type; };
template <> struct calc_of<c128> { typedef c128 type; };
template <> struct acc_of<c64> { typedef c128 type; };
template <> struct acc_of<c128> { typedef c128 type; };
template <> DFC_INLINE c64 from_bits<c64>(uint64_t bits) {
  union { uint64_t all; float part[2]; } u;
  u.all = bits;
  return c64(c128(u.part[0], u.part[1]));
}
/* Of two doubles a number of the host's has no place in an operand: it is brought over. */
template <> DFC_INLINE c128 from_bits<c128>(uint64_t) { return c128(0); }

DFK_ELEMENT bool infinite(double x) { return x - x != 0 && x == x; }
/* An infinity as 1, what is finite as 0, with its sign. */
DFK_ELEMENT double boxed(double x) { return copysign(infinite(x) ? 1.0 : 0.0, x); }
DFK_ELEMENT double no_nan(double x) { return x != x ? copysign(0.0, x) : x; }

DFC_INLINE c128 operator+(c128 a, c128 b) { return c128(a.re + b.re, a.im + b.im); }
DFC_INLINE c128 operator-(c128 a, c128 b) { return c128(a.re - b.re, a.im - b.im); }
DFC_INLINE c128 operator-(c128 a) { return c128(-a.re, -a.im); }
DFC_INLINE bool operator==(c128 a, c128 b) { return a.re == b.re && a.im == b.im; }
DFC_INLINE bool operator!=(c128 a, c128 b) { return !(a == b); }
/* A product of infinities that became no number, once more with what is infinite as 1 and what is not as 0. */
DFK_ELEMENT c128 recovered(c128 a, c128 b) {
  bool again = false;
  const double ac = a.re * b.re, bd = a.im * b.im, ad = a.re * b.im, bc = a.im * b.re;
  if (infinite(a.re) || infinite(a.im)) {
    a = c128(boxed(a.re), boxed(a.im));
    b = c128(no_nan(b.re), no_nan(b.im));
    again = true;
  }
  if (infinite(b.re) || infinite(b.im)) {
    b = c128(boxed(b.re), boxed(b.im));
    a = c128(no_nan(a.re), no_nan(a.im));
    again = true;
  }
  if (!again && (infinite(ac) || infinite(bd) || infinite(ad) || infinite(bc))) {
    a = c128(no_nan(a.re), no_nan(a.im));
    b = c128(no_nan(b.re), no_nan(b.im));
    again = true;
  }
  if (!again) return c128(NAN, NAN);
  return c128(INFINITY * (a.re * b.re - a.im * b.im), INFINITY * (a.re * b.im + a.im * b.re));
}
DFC_INLINE c128 operator*(c128 a, c128 b) {
  const c128 z(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
  return z.re != z.re && z.im != z.im ? recovered(a, b) : z;
}
/* Smith's quotient, by the larger part. */
DFC_INLINE c128 operator/(c128 a, c128 b) {
  const bool by_im = fabs(b.re) < fabs(b.im);
  const double ratio = by_im ? b.re / b.im : b.im / b.re, size = by_im ? b.re * ratio + b.im : b.im * ratio + b.re;
  const c128 z = by_im ? c128((a.re * ratio + a.im) / size, (a.im * ratio - a.re) / size)
                       : c128((a.im * ratio + a.re) / size, (a.im - a.re * ratio) / size);
  if (z.re == z.re || z.im == z.im) return z;
  const bool far = infinite(a.re) || infinite(a.im), wide = infinite(b.re) || infinite(b.im);
  if (b.re == 0 && b.im == 0 && (a.re == a.re || a.im == a.im)) {
    const double all = copysign(INFINITY, b.re);
    return c128(all * a.re, all * a.im);
  }
  if (far && !wide && b.re == b.re && b.im == b.im) {
    const double x = boxed(a.re), y = boxed(a.im);
    return c128(INFINITY * (x * b.re + y * b.im), INFINITY * (y * b.re - x * b.im));
  }
  if (wide && !far && a.re == a.re && a.im == a.im) {
    const double x = boxed(b.re), y = boxed(b.im);
    return c128(0.0 * (a.re * x + a.im * y), 0.0 * (a.im * x - a.re * y));
  }
  return z;
}
DFC_INLINE c128 operator+=(c128 &a, c128 b) { return a = a + b; }
DFC_INLINE c128 operator*=(c128 &a, c128 b) { return a = a * b; }
DFC_INLINE c128 wrap_add(c128 a, c128 b) { return a + b; }
DFC_INLINE c128 wrap_sub(c128 a, c128 b) { return a - b; }
DFC_INLINE c128 wrap_mul(c128 a, c128 b) { return a * b; }
DFC_INLINE c128 conj_of(c128 x) { return c128(x.re, -x.im); }
#endif
