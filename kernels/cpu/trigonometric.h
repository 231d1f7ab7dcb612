/* trigonometric.h: sin and cos of a vector of float32, in line, as exponential.h has exp.
 *
 * |x| = n pi/2 + r + l, |r| <= pi/4, where l is what r was rounded by. The quarter n says whether it is sin r or cos r,
 * and the sign. Within 0.88 ulp of the true value (every third float below 65536 tried); lanes beyond that are
 * SLEEF's, and so is a machine without fused multiply-add. SLEEF's takes 1.2 and 1.5 times as long.
 */
#ifndef DFLOW_CPU_TRIGONOMETRIC_H
#define DFLOW_CPU_TRIGONOMETRIC_H
#include "exponential.h"

#if DFLOW_FUSED_F32
/* sin of a + turn pi/2, 0 <= a < DFK_ANGLE_MOST. */
static inline vf32 turned_f32(vf32 a, int32_t turn) {
  static const float s[] = DFK_SIN, c[] = DFK_COS;
  const vf32 zero = { 0 }, whole = zero + DFK_PERSISTENT, t = fused_f32(a, zero + DFK_PER_TURN, whole), n = t - whole;
  const vi32 quarter = (vi32)t - DFK_PERSISTENT_BITS + turn;
  const vf32 high = fused_f32(n, zero + DFK_TURN_HIGH, a), mid = n * DFK_TURN_MID, r = high + mid, d = r - high;
  const vf32 low = fused_f32(n, zero + DFK_TURN_LOW, fused_f32(n, zero + DFK_TURN_MID, zero - mid));
  const vf32 l = (mid - d) + low, z = r * r;
  const vf32 p = fused_f32(fused_f32(z, zero + s[0], zero + s[1]), z, zero + s[2]);
  const vf32 q = fused_f32(fused_f32(z, zero + c[0], zero + c[1]), z, zero + c[2]);
  const vf32 half = z * 0.5f, w = 1 - half;
  const vf32 sine = r + fused_f32(z * r, p, l);
  const vf32 cosine = w + fused_f32(zero - r, l, fused_f32(z * z, q, (1 - w) - half));
  return (vf32)((vi32)pick_f32((quarter & 1) != 0, cosine, sine) ^ ((quarter & 2) << 30));
}
static inline vf32 sin_f32(vf32 x) {
  const vf32 a = size_f32(x);
  const vi32 near = a < DFK_ANGLE_MOST;
  const vf32 r = (vf32)((vi32)turned_f32(a, 0) ^ ((vi32)x & INT32_MIN));
  return any_i32(~near) ? pick_f32(near, r, (vf32)SLEEF32(sin, u10)(x)) : r;
}
static inline vf32 cos_f32(vf32 x) {
  const vf32 a = size_f32(x);
  const vi32 near = a < DFK_ANGLE_MOST;
  const vf32 r = turned_f32(a, 1);
  return any_i32(~near) ? pick_f32(near, r, (vf32)SLEEF32(cos, u10)(x)) : r;
}
#else
static inline vf32 sin_f32(vf32 x) { return (vf32)SLEEF32(sin, u10)(x); }
static inline vf32 cos_f32(vf32 x) { return (vf32)SLEEF32(cos, u10)(x); }
#endif
#endif
