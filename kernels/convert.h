/* convert.h: elements of one dtype as elements of another, every pair that Cast knows. The fast kernels have loops of
 * their own for the usual dtypes; tensors and the rare dtypes come here.
 */
#ifndef DFLOW_CONVERT_H
#define DFLOW_CONVERT_H
#include "kernel.h"

/* The integers that quantized numbers are made of; other dtypes are what they are. */
static inline uint8_t dfk_underlying(uint8_t dtype) {
  switch (dtype) {
    case DF_QINT8:   return DF_INT8;
    case DF_QUINT8:  return DF_UINT8;
    case DF_QINT16:  return DF_INT16;
    case DF_QUINT16: return DF_UINT16;
    case DF_QINT32:  return DF_INT32;
    default:         return dtype;
  }
}

/* n elements at `from` as elements of another dtype at `to`. Numbers and bool: a float becomes an integer without its
 * fraction, saturates where it is out of range, 0 from NaN; integers wrap; of a complex number the real part is taken.
 * */
void dfk_convert(uint8_t from_dtype, const void *from, uint8_t to_dtype, void *to, int64_t n);
#endif
