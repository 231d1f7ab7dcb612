/* float8.cu: float32 as 8 bits with one scale for all (E4M3: four bits of exponent, three of mantissa, no infinity),
 * for products that may round so. The scale makes the greatest finite magnitude 448; a maximum does not depend on the
 * order. What is not finite becomes NaN. Three launches: one block for each part's maximum, one block for the scale,
 * a thread an element. */
#include "block.cuh"
#include "float8.h"

enum { BLOCK = DFC_FLOAT8_BLOCK };
static_assert(BLOCK == DFC_FLOAT8_PARTS, "one block reduces all parts");

DFK_ELEMENT int64_t place_of(const dfc_float8 &p, int64_t i) {
  const int64_t matrix = i / (p.rows * p.k), in = i % (p.rows * p.k);
  return matrix * p.step + in / p.k * p.row + in % p.k * p.column;
}
/* The bits of the nearest E4M3, of two as near the even one; |x| <= 448, or NaN. */
DFK_ELEMENT uint8_t float8_of(float x) {
  union { float f; uint32_t u; } v;
  v.f = x;
  const uint32_t sign = v.u >> 24 & 0x80, size = v.u & 0x7fffffff;
  if (size > 0x7f800000) return 0x7f;
  if (size < 0x3c800000) return (uint8_t)(sign | (uint32_t)rintf(fabsf(x) * 512));     /* below 2^-6: steps of 2^-9 */
  const uint32_t near = size + 0x7ffff + (size >> 20 & 1), bits = (near >> 20) - (120 << 3);
  return (uint8_t)(sign | (bits < 0x7e ? bits : 0x7e));
}

DFC_KERNEL(k_float8_most, dfc_float8) {
  DFC_SHARED float part[BLOCK];
  float most = 0;
  DFC_EACH(i, p.count * p.rows * p.k) {
    const float size = fabsf(p.x[place_of(p, i)]);
    if (size > most && size < INFINITY) most = size;
  }
  most = block_most<BLOCK>(most, part);
  if (threadIdx.x == 0) p.part[blockIdx.x] = most;
}
/* A scale is a normal number, so that dividing by it and multiplying with it lose nothing more. */
DFC_KERNEL(k_float8_scale, dfc_float8) {
  DFC_SHARED float part[BLOCK];
  const float most = block_most<BLOCK>(threadIdx.x < p.parts ? p.part[threadIdx.x] : 0.f, part);
  if (threadIdx.x == 0) *p.scale = most > 0 ? fmaxf(most / DFC_FLOAT8_MOST, 1.17549435e-38f) : 1;
}
DFC_KERNEL(k_float8_round, dfc_float8) {
  const float scale = *p.scale;
  DFC_EACH(i, p.count * p.rows * p.k) {
    const float x = p.x[place_of(p, i)];
    p.z[i] = float8_of(fabsf(x) < INFINITY ? x / scale : NAN);
  }
}
