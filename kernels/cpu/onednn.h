/* onednn.h: oneDNN, loaded when the first work that is worth it asks for it.
 *
 * A primitive is code that the library makes for one shape, in 0.1 to 0.7 ms. It is made when its shape first comes, by
 * size alone and not by how often it comes, so that a number never depends on what ran before; the last few hundred are
 * kept. A primitive is made for one thread and runs on the thread that calls it: the work is split before, into parts
 * that depend on the shapes alone. Where the library is missing, is not version 2, or has no generated code for the
 * processor, dfk_dnn_get gives NULL, and our own kernels do the work.
 */
#ifndef DFLOW_CPU_ONEDNN_H
#define DFLOW_CPU_ONEDNN_H
#include "../kernel.h"
#if defined(__has_include)
#if __has_include(<dnnl.h>)
#include <dnnl.h>
#if DNNL_VERSION_MAJOR == 2
#define DFLOW_ONEDNN 1
#endif
#endif
#endif

typedef enum dfk_done { DFK_NOT_DONE, DFK_DONE, DFK_FAILED } dfk_done;

#ifdef DFLOW_ONEDNN
/* The calls that our kernels make, under their names without dnnl_. */
#define DFK_DNN_CALLS(X) \
  X(engine_create) X(stream_create) X(stream_destroy) X(memory_create) X(memory_destroy) X(memory_desc_init_by_tag) \
  X(memory_desc_init_by_strides) X(memory_desc_get_size) X(primitive_attr_create) X(primitive_attr_destroy) \
  X(primitive_attr_set_scratchpad_mode) X(primitive_desc_create) X(primitive_desc_destroy) X(primitive_desc_query) \
  X(primitive_desc_query_md) X(primitive_create) X(primitive_destroy) X(primitive_execute) \
    X(reorder_primitive_desc_create) \
  X(dilated_convolution_forward_desc_init) X(dilated_convolution_backward_data_desc_init) \
  X(dilated_convolution_backward_weights_desc_init) X(matmul_desc_init)

typedef struct dfk_dnn {
#define CALL(name) __typeof__(dnnl_##name) *name;
  DFK_DNN_CALLS(CALL)
#undef CALL
  void (*set_threads)(int);          /* OpenMP's, of the calling thread */
  int  (*max_threads)(void);
  dnnl_engine_t engine;
} dfk_dnn;

/* What says a primitive apart from all others; words that are not used are 0. */
typedef struct dfk_dnn_key { int64_t words[26]; } dfk_dnn_key;

/* A primitive with what it reads and writes. args[i] are DNNL_ARG_…, md[i] their layouts. */
enum { DFK_DNN_ARGS = 4 };
typedef struct dfk_dnn_primitive {
  dfk_dnn_key        key;
  dnnl_primitive_t   primitive;      /* NULL: the library has no fast one; use ours */
  bool               is_product;     /* it may be what the library calls a gemm: elsewhere that is slower than ours */
  int                nargs, args[DFK_DNN_ARGS];
  dnnl_memory_desc_t md[DFK_DNN_ARGS];
  int64_t            scratch_bytes;
  int64_t            used;           /* a count of calls; guarded by the list's lock, like refs */
  int32_t            refs;
} dfk_dnn_primitive;

/* Fills in args and md from a primitive description that it makes with attr; returns it, or NULL where the library
   knows none. */
typedef dnnl_primitive_desc_t (*dfk_dnn_make)(const dfk_dnn *d, const void *what, dnnl_primitive_attr_t attr,
                                              dfk_dnn_primitive *p);

const dfk_dnn *dfk_dnn_calls(void);       /* the library, or NULL; loads it */
/* The primitive of this key, made if need be. NULL: there is none, or no library. Give it back with dfk_dnn_put. Any
   thread. */
const dfk_dnn_primitive *dfk_dnn_get(const dfk_dnn_key *key, dfk_dnn_make make, const void *what);
void dfk_dnn_put(const dfk_dnn_primitive *p);
/* Runs it here and now; data[i] belongs to args[i]. False: out of memory. */
bool dfk_dnn_run(const dfk_dnn_primitive *p, void *const *data);
/* One that copies from a layout to another. */
const dfk_dnn_primitive *dfk_dnn_reorder(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to);
int64_t dfk_dnn_layout(const dnnl_memory_desc_t *md);     /* a layout as a word for a key; NULL: 0 */
#endif
#endif
