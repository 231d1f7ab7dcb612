/* dealt.cuh: streams of random words, ours and TensorFlow's, as kernels walk through them. */
#ifndef DFLOW_CUDA_DEALT_CUH
#define DFLOW_CUDA_DEALT_CUH
#include "kernel.cuh"
#include "../philox.h"

template <class P> DFC_INLINE dfk_stream stream_of(const P &p) {
  dfk_stream s;
  s.key[0] = p.key[0]; s.key[1] = p.key[1];
  s.tag[0] = p.tag[0]; s.tag[1] = p.tag[1];
  return s;
}
/* Word i of those from the counter p.tag, p.start on, which is of 128 bits. */
struct dealt { dfk_stream s; uint64_t start; };
template <class P> DFC_INLINE dealt dealt_of(const P &p) {
  dealt d;
  d.s = stream_of(p);
  d.start = p.start;
  return d;
}
DFK_ELEMENT uint32_t word(const dealt &d, uint64_t i) {
  dfk_stream s = d.s;
  uint32_t w[4];
  const uint64_t block = d.start + i / 4;
  if (block < d.start && ++s.tag[0] == 0) ++s.tag[1];
  dfk_philox(&s, block, 0, w);
  return w[i % 4];
}
DFK_ELEMENT float one_to_two(uint32_t w) {
  union { uint32_t bits; float f; } u;
  u.bits = 127u << 23 | (w & 0x7fffffu);
  return u.f;
}
DFK_ELEMENT double one_to_two(uint32_t high, uint32_t low) {
  union { uint64_t bits; double d; } u;
  u.bits = (uint64_t)1023 << 52 | (uint64_t)(high & 0xfffffu) << 32 | low;
  return u.d;
}
/* Box and Muller's pair from the two numbers that begin at word i: the first or the second of it. */
DFK_ELEMENT float of_pair(float u, float v, bool second) {
  u = u < 1e-7f ? 1e-7f : u;
  v *= (float)6.283185307179586;
  const float r = sqrtf(-2.0f * logf(u));
  return (second ? cosf(v) : sinf(v)) * r;
}
DFK_ELEMENT double of_pair(double u, double v, bool second) {
  u = u < 1e-7 ? 1e-7 : u;
  v *= 6.283185307179586;
  const double r = sqrt(-2 * log(u));
  return (second ? cos(v) : sin(v)) * r;
}
#endif
