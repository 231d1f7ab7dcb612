/* kernel.h: what a kernel is given and what it returns. The only header of the runtime that kernels/ sees
 * besides dflow.h.
 *
 * A kernel computes the outputs of one op from its inputs. It knows neither graph nor frame. Inputs are
 * borrowed and immutable; rank-0 inputs look like any other tensor (their data lies in the slot). Outputs are
 * made with dfk_out (fresh memory), dfk_out_reuse (the memory of an input that has no other reader, when that
 * is possible) or dfk_out_forward (the input itself, perhaps reshaped). An output that is not made is an error.
 * A kernel returns DF_OK, or a code after filling k->error with dfk_fail. It may run on any thread, several
 * calls at once.
 */
#ifndef DFLOW_KERNEL_H
#define DFLOW_KERNEL_H
#include "../runtime/dflow.h"

/* A tensor, laid open for kernels. Row-major, no strides. Strings: data is an array of df_str. Variants: an array of
 * `void *`, handles that the buffer owns, or NULL. */
typedef struct df_buffer df_buffer;
struct df_tensor {
  int32_t    refs;      /* atomic; of this header */
  uint8_t    dtype;
  int8_t     rank;
  uint8_t    view;      /* 1: a view made for one kernel call, on the stack; never retained, see dfk_own */
  int64_t    size;      /* elements */
  int64_t    dims[DF_MAX_RANK];
  void      *data;      /* 64-byte aligned when size * element >= 64 */
  df_buffer *buffer;    /* holds one reference; NULL for views */
};
typedef struct df_str { char *bytes; int64_t length; } df_str; /* bytes owned by the buffer, not 0-terminated */

/* Are elements of this dtype mere bytes? Strings and variants own what they point at. */
static inline bool dfk_plain(uint8_t dtype) { return !((1u << DF_STRING | 1u << DF_VARIANT) >> dtype & 1); }

static inline bool dfk_is_complex(int32_t dtype) { return dtype == DF_COMPLEX64 || dtype == DF_COMPLEX128; }
/* Numbers that the fast kernels leave to the reference: short and unsigned integers, complex numbers. */
static inline bool dfk_is_rare(int32_t dtype) {
  return dtype == DF_INT16 || dtype == DF_UINT16 || dtype == DF_UINT32 || dtype == DF_UINT64 || dfk_is_complex(dtype);
}

/* An attribute's value. Which field is meant is fixed by the op's entry. */
typedef struct df_attr {
  int64_t     i;        /* int, bool, dtype; length of s; count of ints; rank of a shape (-1: unknown) */
  double      f;
  const char *s;        /* string, borrowed from the graph */
  int64_t    *ints;     /* ints; dims of a shape (-1: unknown) */
  df_tensor  *tensor;
} df_attr;

typedef struct df_kernel {
  const df_attr   *attrs;      /* in the order of the entry's attrs; defaults filled in */
  int32_t          nin, nout;
  const df_tensor *const *in;  /* nin; NULL for a handle */
  const df_value  *const *raw; /* nin; the values themselves: handles are here */
  df_value        *out;        /* nout; written by dfk_out and its fellows, or directly for handles */
  const uint8_t   *out_dtype;  /* nout; as inferred when the node was built */
  uint32_t         reusable;   /* bit i: input i is not read after this kernel */
  df_tensor       *scratch;    /* nout headers for rank-0 outputs */
  void            *run;        /* the executor's own; passed back to dfk_run_* */
  df_error        *error;
  struct dfk_loop *asked;      /* NULL; else an elementwise kernel writes here how it computes, and does not: chain.h */
} df_kernel;
typedef int32_t (*df_kernel_fn)(df_kernel *k);

/* The fast path: all inputs unboxed rank-0 numbers, one output, payload only (the executor sets kind and dtype).
 * Returning false means "ask the general kernel", which then reports the error. b and c may be garbage. */
typedef bool (*df_scalar_fn)(df_value *out, const df_value *a, const df_value *b, const df_value *c);

/* Outputs. The data pointer to write to is out->data (for rank 0 it points into k->out[i]). NULL: error is filled. */
df_tensor *dfk_out(df_kernel *k, int32_t i, int32_t dtype, int32_t rank, const int64_t *dims);
/* dfk_out with the dtype and dims of a tensor. */
df_tensor *dfk_out_like(df_kernel *k, int32_t i, const df_tensor *like);
/* As dfk_out, but in the memory of input `from` where that may be overwritten and has that dtype and size; of the first
 * such input for DFK_ANY_INPUT. The result's data may then equal k->in[from]->data: element i of the output may be
 * written once element i of the input was read. */
enum { DFK_ANY_INPUT = -1 };
df_tensor *dfk_out_reuse(df_kernel *k, int32_t i, int32_t from, int32_t dtype, int32_t rank, const int64_t *dims);
/* Output i is input `from`, with other dims of the same size (dims NULL: the same). No copy. */
int32_t    dfk_out_forward(df_kernel *k, int32_t i, int32_t from, int32_t rank, const int64_t *dims);
/* Output i is the elements of input `from` from `first` on, as many as dims say, in place: the storage is shared.
 * False: that does not pay, or they do not lie as kernels want them; nothing was done, and the kernel copies them. */
bool       dfk_out_part(df_kernel *k, int32_t i, int32_t from, int64_t first, int32_t rank, const int64_t *dims);
/* Output i is this tensor (consumed). Rank-0 numbers are unboxed. */
void       dfk_out_tensor(df_kernel *k, int32_t i, df_tensor *t);
/* A reference of one's own to input i: retained, or copied when it is a view of a slot. NULL: error is filled. */
df_tensor *dfk_own(df_kernel *k, int32_t i);
/* Scratch memory that dies with the call. NULL: error is filled. Free with dfk_free. */
void      *dfk_scratch(df_kernel *k, int64_t bytes);
void       dfk_free(void *p);
/* A copy of t in an order that suits a kernel, kept until t's storage is written to or let go. `how` tells the ways
 * apart; its words that are not used are 0. NULL, but *room is set: fill its `bytes` bytes, then call dfk_packed_done,
 * and it is what the next one gets. Both NULL: do without; nothing is kept of what is read so for the first time. Any
 * thread. */
typedef struct dfk_packing { int64_t words[4]; } dfk_packing;
const void *dfk_packed(const df_tensor *t, const dfk_packing *how, int64_t bytes, void **room);
void        dfk_packed_done(const df_tensor *t, const void *room);
/* Strings. bytes are copied. The tensor must be fresh (from dfk_out). False: out of memory, error is filled. */
bool       dfk_set_string(df_kernel *k, df_tensor *t, int64_t i, const char *bytes, int64_t length);
/* Variants: element i of a fresh tensor becomes this handle (borrowed; may be NULL). */
void       dfk_set_variant(df_tensor *t, int64_t i, void *handle);

/* Fills k->error and returns code. printf's format. Say what was found and what was expected. */
int32_t dfk_fail(df_kernel *k, int32_t code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* "float32[2,3]" in a buffer of the caller's; returns it. */
char   *dfk_shape_text(const df_tensor *t, char *buffer, size_t bytes);

/* Splits [0, n) over the worker threads in pieces of at least `grain`; runs fn(arg, begin, end). Runs here and now when
 * n <= grain or no thread is idle. grain 0: each of the n takes so long that a thread that sleeps is woken for it. fn
 * must not fail. Results must not depend on how it was split. */
typedef void (*df_range_fn)(void *arg, int64_t begin, int64_t end);
void dfk_parallel(df_kernel *k, int64_t n, int64_t grain, df_range_fn fn, void *arg);
/* How many threads share such work, at most: to cut it into as many equal parts. */
int32_t dfk_threads(const df_kernel *k);

/* A kernel that waits (a full or empty queue). The op's entry says .waits; then k outlives the call, and the kernel may
 * put it into a list of its resource, call dfk_on_stop, and return DFK_PENDING. No thread is blocked meanwhile.
 * dfk_complete ends the call, from any thread, exactly once: status DF_OK with the outputs made, or a code with
 * k->error filled; k is gone afterwards. When the run has to stop first, its owner calls fn(k, user) once: it takes k
 * out of the list and completes it with DF_CANCELLED, or does nothing when another thread has already taken k out to
 * complete it. `what` says in one line what is waited for; it is called by the owner too, and takes the resource's lock
 * like fn. A resource's lock is taken before the run's inbox, never the other way. */
enum { DFK_PENDING = -1 };
typedef void (*dfk_stop_fn)(df_kernel *k, void *user);
typedef void (*dfk_what_fn)(df_kernel *k, void *user, char *text, size_t bytes);
void dfk_on_stop(df_kernel *k, dfk_stop_fn fn, dfk_what_fn what, void *user);
void dfk_complete(df_kernel *k, int32_t status);
/* Has the run of this call been told to end (fn has not been called yet, or is about to be)? A call from then on gets
 * nothing that would be lost with the run. From any thread, while the call has not been completed. */
bool dfk_stopping(const df_kernel *k);

/* The tag of this call as a number: equal for the same (run number, frame path, iterations) and nothing else, whatever
 * the threads. Random ops make their Philox counter of it. `seed` is the graph's. */
uint64_t dfk_tag(const df_kernel *k);
int64_t  dfk_graph_seed(const df_kernel *k);
/* May the kernel open the file of that path (n bytes), to read or to write? A graph may come from anywhere, so a kernel
 * that opens a path asks first. The session answers: no, for a node of an imported graph, unless the graph was given
 * leave to touch files or the path begins with a string that the run was fed. input: the input that the path comes
 * from; -1: an attribute of the graph. False: k->error is filled (permission_denied). */
bool     dfk_may_touch(df_kernel *k, int32_t input, const char *path, int64_t n);
/* Writes a line to standard error, whole, in program order (df.print). */
void     dfk_print(df_kernel *k, const char *bytes, int64_t length);

static inline int64_t     dfk_int(const df_kernel *k, int32_t a)    { return k->attrs[a].i; }
static inline bool        dfk_bool(const df_kernel *k, int32_t a)   { return k->attrs[a].i != 0; }
static inline double      dfk_float(const df_kernel *k, int32_t a)  { return k->attrs[a].f; }
static inline const char *dfk_string(const df_kernel *k, int32_t a) { return k->attrs[a].s; }
/* Element i of an int32 or int64 tensor (indices, shapes, axes). */
static inline int64_t dfk_index(const df_tensor *t, int64_t i) {
  return t->dtype == DF_INT64 ? ((const int64_t *)t->data)[i] : ((const int32_t *)t->data)[i];
}
/* Input i, which is called `name`, as the one integer it must be. False: it is none, and the error says so. */
static inline bool dfk_integer(df_kernel *k, int32_t i, const char *name, int64_t *out) {
  const df_tensor *t = k->in[i];
  if (t->rank != 0) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "%s must be one integer, it has rank %d and %lld elements", name, t->rank,
             (long long)t->size);
    return false;
  }
  *out = dfk_index(t, 0);
  return true;
}
#endif
