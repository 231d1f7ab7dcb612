/* fourier.cu: Fourier transforms, in double, as the CPU's. One block takes some lines at a time, up to 1024 numbers of
 * theirs in shared memory, and transforms them by Stockham's passes of radix 4, 2 and odd primes: a line of up to 1024
 * in one launch, longer ones by several that each do up to 128 of the length; 32 bytes moved per number and launch. A
 * length with a large prime factor is a convolution of another one. */
#include "complex.cuh"
#include "numerics.h"

enum { BLOCK = DFC_FOURIER_BLOCK, ROOM = DFC_FOURIER_ROOM };

/* Without C's care for infinities, which no transform has a meaning for. */
DFK_ELEMENT c128 turned(c128 a, c128 w) { return c128(a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re); }

/* One radix for all lanes, from x to y; `left` is what is left of the radix of the pass, s what lies between neighbours
 * of a butterfly. every: how often a turn of this pass goes into one of the table. */
DFK_ELEMENT void by_four(const c128 *x, c128 *y, int left, int s, int lanes, const c128 *turn, int64_t every,
                         int back) {
  for (int i = (int)threadIdx.x; i < left * s; i += BLOCK) {
    const int p = i / s, q = i % s, step = s * left;
    const int64_t at = (int64_t)p * (s / lanes) * every;
    const c128 a = x[i], b = x[i + step], c = x[i + 2 * step], d = x[i + 3 * step], bd = b - d;
    const c128 ac = a + c, both = b + d, other = a - c, turn_bd = back ? c128(-bd.im, bd.re) : c128(bd.im, -bd.re);
    c128 *to = y + q + s * 4 * p;
    to[0] = ac + both;
    to[s] = turned(other + turn_bd, turn[at]);
    to[2 * s] = turned(ac - both, turn[2 * at]);
    to[3 * s] = turned(other - turn_bd, turn[3 * at]);
  }
}
/* A thread for each result, which adds up r numbers. */
DFK_ELEMENT void by_any(const c128 *x, c128 *y, int r, int left, int s, int lanes, const c128 *turn, int64_t every,
                        int64_t n) {
  const int step = s * left;
  for (int i = (int)threadIdx.x; i < step * r; i += BLOCK) {
    const int k = i / step, p = i % step / s, q = i % s;
    c128 sum = x[i % step];
    for (int j = 1, jk = k; j < r; j++, jk = jk + k < r ? jk + k : jk + k - r)
      sum = sum + turned(x[i % step + step * j], turn[n / r * jk]);
    y[q + s * (r * p + k)] = turned(sum, turn[(int64_t)p * k * (s / lanes) * every]);
  }
}

DFC_KERNEL(k_fourier_pass, dfc_fourier_pass) {
  DFC_SHARED double here[2 * ROOM], there[2 * ROOM];
  c128 *const one = (c128 *)here, *const two = (c128 *)there;
  const int radix = p.radix, lanes = p.lanes, t = (int)threadIdx.x;
  const c128 *turn = (const c128 *)p.turn;
  const int64_t many = p.n / radix, step = many * p.inner, own = p.apart / p.inner;
  for (int64_t first = (int64_t)blockIdx.x * lanes; first < p.lines; first += (int64_t)gridDim.x * lanes) {
    for (int i = t; i < radix * lanes; i += BLOCK) {
      const int lane = step > 1 ? i % lanes : i / radix, j = step > 1 ? i / lanes : i % radix;
      const int64_t line = first + lane;
      if (line >= p.lines) { one[j * lanes + lane] = c128(0); continue; }
      one[j * lanes + lane] = ((const c128 *)p.x)[line / step * step * radix + line % step + step * j];
    }
    __syncthreads();
    c128 *a = one, *b = two;
    int left = radix, s = lanes;
    for (int f = 0; f < p.factors; f++) {
      const int r = p.factor[f];
      left /= r;
      if (r == 4) by_four(a, b, left, s, lanes, turn, many, p.back);
      else by_any(a, b, r, left, s, lanes, turn, many, p.n);
      s *= r;
      c128 *swap = a; a = b; b = swap;
      __syncthreads();
    }
    for (int i = t; i < radix * lanes; i += BLOCK) {
      const int lane = step > 1 ? i % lanes : i / radix, k = step > 1 ? i / lanes : i % radix;
      const int64_t line = first + lane, rest = line % step, q = rest % p.apart, at = rest / p.apart;
      if (line >= p.lines) continue;
      ((c128 *)p.y)[line / step * step * radix + q + p.apart * (radix * at + k)] =
          turned(a[k * lanes + lane], turn[at * k * own]);
    }
    __syncthreads();
  }
}

DFC_KERNEL(k_fourier_units, dfc_fourier_units) {
  DFC_EACH(j, p.n) {
    const int64_t k = p.squares ? j * j % p.of : j, near = 2 * k > p.of ? k - p.of : k;
    const double angle = p.sign * 6.283185307179586 * ((double)near / (double)p.of);
    ((c128 *)p.z)[j] = c128(cos(angle), sin(angle));
  }
}

DFK_ELEMENT c128 number_at(const dfc_fourier_lines &p, int64_t i) {
  if (p.real) return c128(p.wide ? ((const double *)p.x)[i] : (double)((const float *)p.x)[i]);
  return p.wide ? ((const c128 *)p.x)[i] : (c128)((const c64 *)p.x)[i];
}
DFC_KERNEL(k_fourier_fill, dfc_fourier_lines) {
  DFC_EACH(e, p.rows * p.n) {
    const int64_t i = e % p.n, row = e / p.n, from = p.half && i > p.n / 2 ? p.n - i : i;
    c128 v = from < p.given && from < p.most ? number_at(p, row * p.given + from) : c128(0);
    if (p.half && from != i) v = conj_of(v);
    if (p.half && (i == 0 || 2 * i == p.n)) v.im = 0;
    ((c128 *)p.z)[e] = v;
  }
}
/* Those behind n, and (half) behind its first half, are 0. twice: each stands for the conjugate beside it, too. */
DFC_KERNEL(k_fourier_give, dfc_fourier_lines) {
  DFC_EACH(e, p.rows * p.made) {
    const int64_t i = e % p.made, row = e / p.made;
    const bool there = i < p.n && (!p.half || i <= p.n / 2);
    c128 v = there ? ((const c128 *)p.x)[row * p.n + i] : c128(0);
    const double by = p.twice && i && 2 * i != p.n ? p.by / 2 : p.by;
    if (p.twice && (i == 0 || 2 * i == p.n)) v.im = 0;
    v = c128(v.re / by, v.im / by);
    if (p.real) { if (p.wide) ((double *)p.z)[e] = v.re; else ((float *)p.z)[e] = (float)v.re; }
    else if (p.wide) ((c128 *)p.z)[e] = v;
    else ((c64 *)p.z)[e] = (c64)v;
  }
}

/* The way back is a transform of what is conjugate. */
DFC_KERNEL(k_fourier_chirp, dfc_fourier_chirp) {
  const c128 *x = (const c128 *)p.x, *with = (const c128 *)p.with;
  const int64_t length = p.what == DFC_FOURIER_OUT ? p.n : p.m;
  DFC_EACH(e, p.outer * length * p.inner) {
    const int64_t column = e % p.inner, i = e / p.inner % length, row = e / p.inner / length;
    c128 v(0);
    if (p.what == DFC_FOURIER_IMAGE) {
      if (i < p.n) v = conj_of(with[i]);
      else if (p.m - i < p.n) v = conj_of(with[p.m - i]);
    } else if (p.what == DFC_FOURIER_IN) {
      if (i < p.n) v = turned(x[(row * p.n + i) * p.inner + column], with[i]);
    } else if (p.what == DFC_FOURIER_BETWEEN) v = conj_of(turned(x[e], with[i]));
    else {
      v = turned(conj_of(x[(row * p.m + i) * p.inner + column]), with[i]);
      v = c128(v.re / (double)p.m, v.im / (double)p.m);
    }
    ((c128 *)p.z)[e] = v;
  }
}
