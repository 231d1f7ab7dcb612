/* numerics.h: what the kernels of Fourier transforms and of matrices are given; as params.h, but for these files alone:
 * whoever changes it waits for few kernels to be compiled. */
#ifndef DFLOW_CUDA_NUMERICS_H
#define DFLOW_CUDA_NUMERICS_H
#include <stdint.h>

/* A block transforms lines of so many numbers at a time, in shared memory. */
enum { DFC_FOURIER_BLOCK = 128, DFC_FOURIER_ROOM = 1024, DFC_FOURIER_FACTORS = 10 };
/* One of Stockham's passes over y[outer, n, inner]: by `radix`, the product of `factor`, after passes whose product is
 * apart / inner. turn: exp(sign 2 pi i j / n) of j < n. lines: n / radix for each of outer and inner; lanes: how many
 * a block has at a time; back: the sign is positive. */
typedef struct dfc_fourier_pass {
  const void *x, *turn; void *y;
  int64_t lines, n, inner, apart;
  int32_t radix, lanes, factors, factor[DFC_FOURIER_FACTORS], back;
} dfc_fourier_pass;
/* z[j] = exp(sign 2 pi i (j^step mod of) / of): units of a circle, or a chirp */
typedef struct dfc_fourier_units { void *z; int64_t n, of; int32_t sign, squares; } dfc_fourier_units;
/* Rows of `given` numbers, of which the first `most` count, as lines of n complex doubles, and back as `made`. `real`:
 * so are they; `wide`: in double; half: they are the first half of a transform whose other half is its conjugate. */
typedef struct dfc_fourier_lines {
  const void *x; void *z;
  int64_t rows, n, given, most, made;
  double  by;
  int32_t real, wide, half, twice;
} dfc_fourier_lines;
enum { DFC_FOURIER_IMAGE = 0, DFC_FOURIER_IN, DFC_FOURIER_BETWEEN, DFC_FOURIER_OUT };
/* Bluestein's: between x[outer, n, inner] and lines of m; with: the chirp, or its transform. */
typedef struct dfc_fourier_chirp {
  const void *x, *with; void *z;
  int64_t outer, n, inner, m;
  int32_t what, pad;
} dfc_fourier_chirp;
#endif
