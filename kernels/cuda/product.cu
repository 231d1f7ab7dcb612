/* product.cu: products of matrices, one block of 16 x 16 threads' worth (256) for each tile of 16 x 16 results; both
 * sides come by way of shared memory. For shapes and dtypes that cuBLASLt is not asked for, and for the driver for
 * tests. */
#include "complex.cuh"

enum { TILE = 16 };
template <class T> struct sum_of { typedef T type; };
template <> struct sum_of<c64> { typedef c128 type; };
template <> struct sum_of<f16> { typedef float type; };
template <> struct sum_of<b16> { typedef float type; };
template <> struct sum_of<int32_t> { typedef uint32_t type; };
template <> struct sum_of<int64_t> { typedef uint64_t type; };

template <class T>
DFC_INLINE void product(const dfc_product &p, typename sum_of<T>::type (*as)[TILE],
                        typename sum_of<T>::type (*bs)[TILE + 1]) {
  typedef typename sum_of<T>::type A;
  const int tx = (int)threadIdx.x % TILE, ty = (int)threadIdx.x / TILE;
  const int64_t rows = (p.m + TILE - 1) / TILE, columns = (p.n + TILE - 1) / TILE;
  for (int64_t tile = blockIdx.x; tile < rows * columns * p.count; tile += gridDim.x) {
    const int64_t matrix = tile / (rows * columns), row = tile % (rows * columns) / columns * TILE + ty,
                  column = tile % columns * TILE + tx;
    const T *a = (const T *)p.a + (p.at ? p.at[matrix] : 0), *b = (const T *)p.b + (p.at ? p.at[p.count + matrix] : 0);
    A sum = 0;
    for (int64_t k = 0; k < p.k; k += TILE) {
      as[ty][tx] = row < p.m && k + tx < p.k ? (A)a[row * p.a_row + (k + tx) * p.a_col] : (A)0;
      bs[ty][tx] = column < p.n && k + ty < p.k ? (A)b[(k + ty) * p.b_row + column * p.b_col] : (A)0;
      __syncthreads();
      for (int i = 0; i < TILE; i++) sum += as[ty][i] * bs[i][tx];
      __syncthreads();
    }
    if (row < p.m && column < p.n) {
      T *c = (T *)p.c + (matrix * p.m + row) * p.n + column;
      *c = (T)(p.add ? (A)*c + sum : sum);
    }
  }
}
#define PRODUCT(s, T) \
  DFC_KERNEL(k_product_##s, dfc_product) { \
    DFC_SHARED typename sum_of<T>::type as[TILE][TILE], bs[TILE][TILE + 1]; \
    product<T>(p, as, bs); \
  }
PRODUCT(f32, float)
PRODUCT(f64, double)
PRODUCT(f16, f16)
PRODUCT(b16, b16)
PRODUCT(i32, int32_t)
PRODUCT(i64, int64_t)
#define COMPLEX_PRODUCT(s, T) \
  DFC_KERNEL(k_product_##s, dfc_product) { \
    DFC_SHARED double as[TILE][2 * TILE], bs[TILE][2 * TILE + 2]; \
    product<T>(p, (c128(*)[TILE])as, (c128(*)[TILE + 1])bs); \
  }
COMPLEX_PRODUCT(c64, c64)
COMPLEX_PRODUCT(c128, c128)
