/* internal.h: what everything in runtime/ stands on: errors, memory, tensors, shapes, handles, maps, workers. Knows of
 * ops and graphs that outputs point at nodes, and no more. */
#ifndef DFLOW_INTERNAL_H
#define DFLOW_INTERNAL_H
#include "dflow.h"
#include "kernels/kernel.h"
#include "base/locks.h"
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef DFLOW_DEBUG
#define df_assert(x) assert(x)      /* what we promised each other; on in debug builds and under spec/ */
#else
#define df_assert(x) ((void)0)
#endif
#define DFI_LIKELY(x)   __builtin_expect(!!(x), 1)
#define DFI_UNLIKELY(x) __builtin_expect(!!(x), 0)

typedef struct df_node df_node;          /* op/node.h */
typedef struct df_output { df_node *node; int32_t index; } df_output;   /* node NULL: none */
typedef struct dfi_shape { int8_t rank; int64_t dims[DF_MAX_RANK]; } dfi_shape; /* rank -1, dim -1: unknown */

#define DFI_NONE ((df_output){ NULL, 0 })
static inline bool dfi_same(df_output a, df_output b) { return a.node == b.node && a.index == b.index; }

/* ---- errors (error.c) ---------------------------------------------------------------------- */
/* Fills err (may be NULL) and returns code. `where` may be NULL. */
int32_t dfi_errno_code(int number);           /* the df_code of an errno */
/* Opens for reading, without waiting for a writer: pipes with a path, sockets and folders are refused.
 * *s is what is there; the caller closes it. -1: err is filled. */
struct stat;
int dfi_file_open(const char *path, struct stat *s, df_error *err);
/* Before its commit: all of the file is on the disk, under a name of its own. For files that take theirs together. */
int32_t dfi_file_settle(df_file *f, df_error *err);
/* Gives it the permissions of the file at that path, if there is one: it takes its place under another name. */
void dfi_file_like(df_file *f, const char *path);
/* Copies what fits of a text, with what a terminal would take for a command as digits: names may hold anything. */
void dfi_show(char *to, size_t room, const char *from);
int32_t dfi_fail(df_error *err, int32_t code, const char *where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- interrupts (interrupt.c): how often df_interrupt was called; how often that or df_interrupt_calls was ---- */
extern _Atomic int64_t dfi_interrupts, dfi_calls_interrupted;

/* ---- standard error (console.c): whole lines, above df_status_line's; a newline is added where it lacks ---- */
void dfi_print(const char *bytes, int64_t length);

/* ---- sums (crc.c): CRC-32C of what has the sum `sum` (0: nothing) with n bytes more ---- */
uint32_t dfi_crc32c(uint32_t sum, const void *bytes, size_t n);

/* ---- memory (memory.c): aligned, counted, cached, with stress switches ----------------------- */
void *dfi_alloc(int64_t bytes);        /* 64-byte aligned tensor memory; NULL when out of memory or past the limit */
#define DFI_ADDRESSES ((double)((int64_t)1 << 47))      /* no more bytes than these does a process address */
void *dfi_fence_alloc(int64_t bytes);  /* the same, behind a fence (fence.c); for memory.c */
void  dfi_fence_release(void *p, int64_t bytes);
void  dfi_cgroup_begin(void);          /* finds the limit of the control group, if there is one */
/* So much more, where tensors have `has`, would be the end of the process. Any thread. */
bool  dfi_cgroup_refuses(int64_t bytes, int64_t has);
bool  dfi_cgroup_refuses_more(size_t bytes);           /* the same of bookkeeping */
/* Bytes of tensors and of what is kept for them, on the host and in arenas. */
int64_t dfi_memory_given(void);
extern _Atomic int64_t dfi_arena_bytes;      /* of these, in arenas: devmem.c */
void  dfi_release(void *p, int64_t bytes);
/* Bookkeeping (bookkeeping.c): never NULL. When memory has ended it comes from a reserve, and the thread's dfi_short is
 * set: a function that can fail looks at it at its end, as below, and takes back what was made. */
void *dfi_xmalloc(size_t bytes);
void *dfi_xcalloc(size_t n, size_t bytes);
void *dfi_xrealloc(void *p, size_t bytes);
/* Room for one more in a list of n. */
#define DFI_GROW(list, n, cap) \
  do { if ((n) == (cap)) { (cap) = (cap) ? 2 * (cap) : 8; \
    (list) = dfi_xrealloc((list), sizeof *(list) * (size_t)(cap)); } } while (0)
/* Memory is limited to so many bytes from begin to end, which other runs may do meanwhile too: the least counts. The
   caller's own, which stays where it is. */
/* The most that was in use between a begin and an end: of the host, or of a device's own memory (devmem.h). */
typedef struct dfi_peak { int64_t most; struct dfi_peak *next, **link; } dfi_peak;
void    dfi_peak_begin(dfi_peak *p);             /* borrowed until it ends. Any thread, as all of these */
int64_t dfi_peak_end(dfi_peak *p);
int64_t dfi_peak_so_far(const dfi_peak *p);
void    dfi_peaks_raise(dfi_peak *list, int64_t most);       /* for the two lists of them */
void    dfi_peaks_add(dfi_peak **list, dfi_peak *p, int64_t in_use);
void    dfi_peaks_remove(dfi_peak *p);
extern _Atomic int64_t dfi_peak_epoch;           /* how often all peaks have begun anew: df_memory_reset_peak */
typedef struct dfi_memory_hold { int64_t bytes; struct dfi_memory_hold *next, **link; } dfi_memory_hold;
void  dfi_memory_hold_begin(dfi_memory_hold *h, int64_t bytes);
void  dfi_memory_hold_end(dfi_memory_hold *h);
void *dfi_xaligned(size_t align, size_t bytes);      /* align: a power of two, 16 at least */
char *dfi_xstrdup(const char *s);
void  dfi_free(void *p);               /* what these gave; NULL is nothing */
void *dfi_malloc(size_t bytes);        /* the same, but NULL when memory has ended: of what may be large */
/* Will there be memory for n slots of `each` bytes, so much that the machine is asked first? What they are of: "a
   TensorList". False: err is filled (resource_exhausted). */
bool  dfi_slots_for(int64_t n, size_t each, const char *what, df_error *err);
bool  dfi_memory_for(size_t bytes);    /* will so many bytes of bookkeeping be had? Asked before much is taken */
extern __thread bool dfi_short __attribute__((tls_model("initial-exec")));
/* dfi_short is over: the error of what could not be made. */
int32_t dfi_short_fail(df_error *err, const char *where, const char *what);
static inline int32_t dfi_check_memory(int32_t code, df_error *err, const char *where, const char *what) {
  return DFI_UNLIKELY(dfi_short) ? (code ? (dfi_short = false, code) : dfi_short_fail(err, where, what)) : code;
}
/* For df_memory_fail: is it on; shall this allocation, which is counted, fail? */
bool  dfi_bookkeeping_tested(void);
bool  dfi_bookkeeping_refuses(void);

/* The size classes of both: which one holds so many bytes, and how many it holds. 112 and up: too large to be kept. */
int32_t dfi_size_class(int64_t bytes);
int64_t dfi_size_class_bytes(int32_t size_class);

/* The memory of a device that has its own (devmem.h). While one is a thread's own, the tensors that the thread makes
   lie in it. */
typedef struct dfi_devmem dfi_devmem;
extern __thread dfi_devmem *dfi_devmem_here __attribute__((tls_model("initial-exec")));
static inline dfi_devmem *dfi_devmem_use(dfi_devmem *a) {
  dfi_devmem *before = dfi_devmem_here;
  dfi_devmem_here = a;
  return before;
}

/* The function that is asked to make room before an allocation of this thread is refused: arena NULL is the host's
   memory. False: no room could be made. It does not allocate there itself. */
typedef struct dfi_rescue { bool (*fn)(void *user, dfi_devmem *arena, int64_t bytes); void *user; } dfi_rescue;
extern __thread dfi_rescue dfi_rescue_here __attribute__((tls_model("initial-exec")));

/* owns: DF_STRING or DF_VARIANT where the elements own what they point at, otherwise 0. arena: where it lies; NULL: on
   the host. */
/* packed: dfi_packed_forget has something to forget. remote: the host cannot read the data: base/remote_memory.h. */
struct df_buffer {
  int32_t refs; /* atomic */
  uint8_t owns, packed, remote;
  uint8_t swapped; /* it was moved here to make room on a device: engine/memory/swap.c */
  int64_t bytes;
  void *data;
  dfi_devmem *arena;
};
/* One plain tensor, its buffer of its own; as df_tensor_new but without a df_error. NULL: out of memory. */
df_tensor *dfi_tensor_make(uint8_t dtype, int32_t rank, const int64_t *dims);
void       dfi_settle_bools(df_tensor *t);      /* bytes of a file are any: a bool is 1 where its byte is not 0 */
/* Elements [first, first + size of dims) of t as a tensor of its own header, sharing t's storage; owned. NULL: out of
 * memory. The caller sees to it that the data keep the alignment that kernel.h promises. */
df_tensor *dfi_tensor_view(df_tensor *t, int64_t first, int32_t rank, const int64_t *dims);
/* Forgets what dfk_packed keeps of a buffer that has no other reader. */
void dfi_packed_forget(struct df_buffer *b);
/* Is the caller's the only reference to t? It is going to write to t: cached copies in another layout are dropped. */
static inline bool dfi_tensor_exclusive(const df_tensor *t) {
  if (__atomic_load_n(&t->refs, __ATOMIC_ACQUIRE) != 1 || __atomic_load_n(&t->buffer->refs, __ATOMIC_ACQUIRE) != 1)
    return false;
  if (DFI_UNLIKELY(t->buffer->packed)) dfi_packed_forget(t->buffer);
  return true;
}
df_tensor *dfi_tensor_from_scalar(const df_value *v);               /* owned; rank 0 */
bool       dfi_value_from_tensor(df_value *out, df_tensor *t);       /* consumes t; unboxes rank-0 numbers */
df_value   dfi_value_copy(const df_value *v);                        /* retains what it holds */
static inline void dfi_value_drop(df_value *v) {
  if (v->kind >= DF_TENSOR) df_value_release(v);
}
/* Hashes: of a text, and of h and one value more. */
static inline uint32_t dfi_text_hash(const char *s) {
  uint32_t h = 2166136261u;
  for (; *s; s++) h = (h ^ (uint8_t)*s) * 16777619u;
  return h ^ h >> 15;
}
static inline uint64_t dfi_hash_mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15u;
  h ^= h >> 29; h *= 0xbf58476d1ce4e5b9u; h ^= h >> 32;
  return h;
}
/* Handles: variables and TensorArrays begin with this. */
typedef struct dfi_handle {
  int32_t refs; /* atomic */
  int32_t type;
  void (*destroy)(struct dfi_handle *h);
} dfi_handle;
enum {
  DFI_VARIABLE = 1,
  DFI_TENSOR_ARRAY = 2,
  DFI_QUEUE = 3,
  DFI_STACK = 4,
  DFI_ARRAY_V3 = 16,
  DFI_LIST = 17,
  DFI_BOX = 18,
  DFI_RAGGED = 19,
  DFI_OPTIONAL = 20,
  DFI_TAPE = 21,
  DFI_TABLE = 32,
  DFI_ACCUMULATOR = 33,
  DFI_SAMPLER = 34,
  DFI_BARRIER = 35,
  DFI_MUTEX = 36,
  DFI_LOCK = 37,
  DFI_EVENTS = 38
};
static inline void *dfi_handle_retain(void *h) {
  __atomic_add_fetch(&((dfi_handle *)h)->refs, 1, __ATOMIC_RELAXED);
  return h;
}
static inline void dfi_handle_release(void *h) {
  dfi_handle *p = h;
  if (__atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) == 0) p->destroy(p);
}
extern const uint8_t dfi_dtype_size[32];
static inline bool dfi_is_float(uint8_t t) {
  return t == DF_FLOAT32 || t == DF_FLOAT64 || t == DF_FLOAT16 || t == DF_BFLOAT16;
}
static inline bool dfi_is_int(uint8_t t) {
  return t == DF_INT32 || t == DF_INT64 || t == DF_INT8 || t == DF_UINT8 || t == DF_INT16 || t == DF_UINT16 ||
         t == DF_UINT32 || t == DF_UINT64;
}
static inline bool dfi_is_complex(uint8_t t) { return dfk_is_complex(t); }
/* Does a rank-0 value of this dtype lie in the slot itself? */
static inline bool dfi_unboxed(uint8_t t) {
  return !((1u << DF_STRING | 1u << DF_VARIANT | 1u << DF_COMPLEX64 | 1u << DF_COMPLEX128) >> t & 1);
}

/* ---- static shapes (shape.c) ------------------------------------------------------------------------- */
/* Shapes. Text goes to the caller's buffer of 160 bytes: "float32[2,?]" or "[2,?]". */
dfi_shape dfi_shape_unknown(void);
dfi_shape dfi_shape_scalar(void);
dfi_shape dfi_shape_of(int32_t rank, const int64_t *dims);
dfi_shape dfi_shape_vector(int64_t n);
bool   dfi_shape_known(const dfi_shape *s);                    /* rank and every dim */
bool   dfi_shape_equal(const dfi_shape *a, const dfi_shape *b);
/* both must hold; false: they contradict */
bool   dfi_shape_merge(const dfi_shape *a, const dfi_shape *b, dfi_shape *out);
void   dfi_shape_relax(const dfi_shape *a, const dfi_shape *b, dfi_shape *out);  /* either may hold */
bool   dfi_shape_broadcast(const dfi_shape *a, const dfi_shape *b, dfi_shape *out);
int64_t dfi_shape_size(const dfi_shape *s);                    /* -1 when not known */
char  *dfi_shape_text(const dfi_shape *s, char *buffer);
char  *dfi_typed_shape_text(uint8_t dtype, const dfi_shape *s, char *buffer);
/* A `shapes` attribute: how many there are, and shape i. It lies in ints as rank, dims, rank, dims, …; rank -1:
   unknown. */
int32_t   dfi_shapes_count(const df_attr *a);
dfi_shape dfi_shapes_at(const df_attr *a, int32_t i);

/* ---- worker threads (pool.c) ------------------------------------------------------------------ */
typedef struct dfi_pool dfi_pool;
dfi_pool *dfi_pool_get(int32_t threads);  /* borrowed, for ever; the pool with that many workers beside the caller */
int32_t dfi_pool_threads(const dfi_pool *p);     /* its workers and the caller */
void dfi_pool_range(dfi_pool *p, int64_t n, int64_t grain, df_range_fn fn, void *arg);   /* as dfk_parallel */
/* Runs fn(arg) on a worker when one is idle: true. Otherwise false, and nothing happened. */
bool dfi_pool_try(dfi_pool *p, void (*fn)(void *), void *arg);
/* fn(arg) on a thread of its own, which may take long or wait; threads are kept for the next. False: none could be
   made. */
bool dfi_background(void (*fn)(void *), void *arg);
/* Other threads that want the core have it first. False: one did not long ago, for so long that the waiter shall sleep.
   */
bool dfi_yield(void);

/* ---- the end of the process (ending.c) --------------------------------------------------------------- */
extern atomic_bool dfi_ending;                 /* exit() was called: threads begin nothing new */
/* For constructors: `busy` says whether threads are at work, in libraries that exit() may take down. It takes no lock
   that such a thread may hold for long. */
void dfi_ending_probe(bool (*busy)(void));
/* Around a run on a thread that is not ours. */
void dfi_run_entered(void);
void dfi_run_left(void);

/* ---- fork (fork.c) ------------------------------------------------------------------------------- */
/* For constructors: a fork waits until this lock is free, so that it is open in the child, where `in_child` (NULL:
   nothing) is called under it. Not for locks under which one waits. */
void dfi_fork_guard(pthread_mutex_t *lock, void (*in_child)(void));

/* ---- maps (map.c) --------------------------------------------------------------------------------- */
uint32_t  dfi_hash_name(const char *s, size_t n);      /* of n bytes: for tables of names */
struct dfi_map;                        /* (node, index) -> (node, index); insertion order is kept */
struct dfi_map *dfi_map_new(void);
void      dfi_map_free(struct dfi_map *m);
df_output dfi_map_get(const struct dfi_map *m, df_output key);           /* DFI_NONE when absent */
void      dfi_map_put(struct dfi_map *m, df_output key, df_output value);
/* Forgets the pairs that keep(key, value, arg) is false of. m may be NULL. */
void      dfi_map_filter(struct dfi_map *m, bool (*keep)(df_output key, df_output value, int64_t arg), int64_t arg);
int32_t   dfi_map_count(const struct dfi_map *m);
void      dfi_map_at(const struct dfi_map *m, int32_t i, df_output *key, df_output *value);
#endif
