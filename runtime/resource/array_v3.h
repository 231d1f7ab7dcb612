/* array_v3.h: the array that one TensorArrayV3 op of a TensorFlow graph made in one run.
 *
 * Handle and flow are two values there: the handle only names the array, and what must happen first is said by the
 * flow, a float that every change hands on. So unlike our own arrays (tensor_array.h) this one keeps to TensorFlow's
 * rules word by word: reads clear unless told otherwise, a location that was read cannot be written, a location
 * never written reads as zeros where the element shape is known in full, gradient arrays are made once per source.
 *
 * A forward array owns its gradient arrays until its own end. All calls happen on the run's owner thread.
 */
#ifndef DFLOW_ARRAY_V3_H
#define DFLOW_ARRAY_V3_H
#include "op/op.h"

/* A location. */
typedef struct dfi_cell {
  df_value value;       /* kind DF_EMPTY: zeros of `dims` where it is written, nothing where it is not */
  int64_t *dims;        /* owned; of a written location without a value; NULL for rank 0 */
  int8_t   rank;
  bool     written, read, cleared;
} dfi_cell;

typedef struct dfi_array_v3 dfi_array_v3;
struct dfi_array_v3 {
  dfi_handle    base;
  uint8_t       dtype;
  bool          dynamic, clear_after_read, identical, closed;
  bool          accumulates;   /* a gradient array */
  dfi_shape     element;       /* what every element must fit */
  /* marked: locations when it was split, or -1: what a gradient's concat joins */
  int64_t       size, capacity, marked;
  dfi_cell     *cell;          /* owned */
  const char   *name;          /* borrowed from the graph */
  char         *source;        /* owned; of a gradient array */
  dfi_array_v3 *gradients, *next;   /* owned list: one reference each */
};

/* One reference, owned. NULL: err is filled. */
dfi_array_v3 *dfi_array_v3_new(uint8_t dtype, int64_t size, const dfi_shape *element, const char *name, df_error *err);
/* The gradient array of this source, found or made; borrowed. From now on the array does not grow. `prefix` (may be
 * NULL): dims before those of each element. */
dfi_array_v3 *dfi_array_v3_gradient(dfi_array_v3 *a, const char *source, const dfi_shape *prefix, df_error *err);
int32_t dfi_array_v3_write(dfi_array_v3 *a, int64_t i, const df_value *v, df_error *err);      /* v borrowed */
int32_t dfi_array_v3_read(dfi_array_v3 *a, int64_t i, df_value *out, df_error *err);           /* out owned */
/* The elements from now on fit `shape` too. */
int32_t dfi_array_v3_narrow(dfi_array_v3 *a, const dfi_shape *shape, df_error *err);
int32_t dfi_array_v3_check_open(const dfi_array_v3 *a, df_error *err);
/* Makes room up to location `size` - 1 in an array that grows. False: there is no memory for it, and err says so. */
bool    dfi_array_v3_grow(dfi_array_v3 *a, int64_t size, df_error *err);
void    dfi_array_v3_close(dfi_array_v3 *a);
char   *dfi_array_v3_title(const dfi_array_v3 *a, char buffer[160]);
#endif
