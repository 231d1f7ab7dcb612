/* tensor_array.h: the array that one TensorArray op made in one run.
 *
 * A location is empty, written, or cleared (read once, under clear_after_read). Where the elements lie:
 *   numbers  rank-0 numbers, packed: an element's bytes and one byte of state each
 *   rows     small tensors of one shape, packed likewise: what compiled loops write
 *   tensors  references
 *   handles  other arrays
 *   whole    locations 0 … rows - 1 are the rows of one tensor that was unstacked; no copy was made
 *   flat     tensors, one behind the other in one piece of a device's memory: where graphs write
 *            (engine/cudagraph/cudagraph.h)
 * Packed elements and references lie in chunks that never move: a few small ones first, then 4096 locations each.
 *
 * A gradient array belongs to a forward array. It is as long as that one, adds up what is written to a location, and
 * where nothing was written reads as zeros of the shape that the forward array's element has. Named ones (a gradient
 * call each) are found again: while one is held it holds its forward array, and when none is the
 * forward array keeps it until its own end.
 *
 * All calls happen on the run's owner thread; only the count of references is atomic.
 */
#ifndef DFLOW_TENSOR_ARRAY_H
#define DFLOW_TENSOR_ARRAY_H
#include "op/op.h"

enum { DFI_SLOT_EMPTY = 0, DFI_SLOT_WRITTEN = 1, DFI_SLOT_CLEARED = 2, DFI_SLOT_LET_GO = 3 /* to be computed again */ };
enum { DFI_SWAP_NEVER = 0, DFI_SWAP_WANTED, DFI_SWAP_UNSAID /* as the session has it */,
       DFI_SWAP_AUTO /* kept, swapped or computed again, as costs say once memory is short */ };
typedef enum dfi_store {
  DFI_STORE_NONE = 0,
  DFI_STORE_NUMBERS,
  DFI_STORE_TENSORS,
  DFI_STORE_HANDLES,
  DFI_STORE_ROWS
} dfi_store;
enum { DFI_ROW_BYTES = 4096 };   /* of a packed tensor, at most */

typedef struct dfi_tensor_array dfi_tensor_array;
struct dfi_tensor_array {
  dfi_handle  base;
  uint8_t     dtype;             /* of the elements; DF_RESOURCE: arrays */
  uint8_t     store;             /* dfi_store: what the chunks hold; NONE until the first write */
  uint8_t     first_log2;        /* chunk 0 has 2^this locations */
  bool        dynamic, clear_after_read;
  bool        mixed;             /* its tensors were not to be packed: of several shapes, or there was no memory */
  bool        accumulates;       /* a gradient array */
  uint8_t     swap;              /* DFI_SWAP_: may its elements leave the memory of their device? */
  bool        saved;             /* made by the gradient pass: elements of any shape; pushes and pops are counted */
  bool        outlines;          /* of arrays that it is given it holds outlines */
  dfi_tensor_array *outline;     /* owned: the last of them, for all that are alike; nothing is written to one */
  int64_t     size;              /* locations; a gradient array's own count, see dfi_tensor_array_size */
  int64_t     cell;              /* bytes of a location in a chunk, without its state */
  dfi_shape   row;               /* of packed tensors: the shape of each */
  dfi_shape   element;           /* what every element must fit; unknown rank until the first write unless given */
  int32_t     nchunks;
  void      **chunk;             /* `few`, or owned; NULL where nothing was written yet */
  void       *few[10];           /* chunks of the first 8192 locations at least: most arrays need no more */
  df_tensor  *whole;             /* owned, or NULL */
  df_tensor  *flat;              /* owned, or NULL: [rows, elements] of a device's: dfi_tensor_array_place */
  int64_t     flat_first;        /* the location of its row 0 */
  bool        scattered;         /* it has room for elements that lie elsewhere: dfi_tensor_array_together */
  int64_t     lanes;             /* of df.vmap: place p of lane l is p * lanes + l; 0: none, -1: unknown */
  const char *name;              /* borrowed from the graph; "" for none */
  df_node    *node;              /* the TensorArray op that made it, whose name stands in for `name`; may be NULL */
  dfi_tensor_array *forward;     /* of a gradient array: one reference while this one has any */
  char       *source;            /* owned; NULL: it is not looked for */
  dfi_tensor_array *gradients;   /* named gradient arrays of this one; those without references are owned */
  dfi_tensor_array *next;        /* in the forward array's list */
  /* Of an array whose elements may be let go and computed again: engine/memory/remat.c. */
  struct dfi_remat *remat;       /* computes them; told when the array goes */
  void      (*gone)(struct dfi_remat *remat, dfi_tensor_array *a);
  int64_t     sum;               /* counts_down: of an element's index and its iteration's number */
  bool        linked, counts_down;   /* it is known which iteration writes which element */
  bool        second;            /* made by an iteration that runs a second time */
  uint32_t    put_back;          /* of a run that is recorded: the event that put an element back last; 0: none has */
  dfi_shape  *shape_let_go;  /* owned; of the first element that was let go: others have their own where it differs */
};

/* One reference, owned. NULL: err is filled. `element` is copied, `name` borrowed for the array's life. */
dfi_tensor_array *dfi_tensor_array_new(uint8_t dtype, int64_t size, bool dynamic, bool clear_after_read,
                                       const dfi_shape *element, const char *name, df_error *err);
int64_t dfi_tensor_array_size(const dfi_tensor_array *a);
/* What can be told of it; frame and iteration are the caller's to say. */
void dfi_tensor_array_info(const dfi_tensor_array *a, df_array_info *out);
/* The gradient array that `source` names, found or made; "" makes a new one. Owned. */
dfi_tensor_array *dfi_tensor_array_grad(dfi_tensor_array *a, const char *source, df_error *err);
/* A new array with the same elements. Owned. */
dfi_tensor_array *dfi_tensor_array_copy(dfi_tensor_array *a, df_error *err);
/* Adds the elements of `other` to those of `a`, both gradient arrays, unless they are one. */
int32_t dfi_tensor_array_join(dfi_tensor_array *a, dfi_tensor_array *other, df_error *err);

/* v borrowed. A gradient array adds. */
int32_t dfi_tensor_array_write(dfi_tensor_array *a, int64_t i, const df_value *v, df_error *err);
/* The same of a small tensor whose elements lie at data (on the host, borrowed). If `pack` allows it the array packs
 * its tensors from then on, where all are of this shape. */
int32_t dfi_tensor_array_write_row(dfi_tensor_array *a, int64_t i, const dfi_shape *shape, const void *data, bool pack,
                                   df_error *err);
/* Where dfi_tensor_array_write_row will put element i, which was never written, so that it can be computed there; NULL:
   that is not known ahead. */
void *dfi_tensor_array_spot(dfi_tensor_array *a, int64_t i, const dfi_shape *shape);
/* out owned. */
int32_t dfi_tensor_array_read(dfi_tensor_array *a, int64_t i, df_value *out, df_error *err);

/* Where element i, a tensor of this shape, is to lie in the arena that is this thread's: in memory that the array has
 * for many of them, row by row, so that they need not be copied to be stacked. Owned; NULL: no memory. */
df_tensor *dfi_tensor_array_place(dfi_tensor_array *a, int64_t i, const dfi_shape *shape);
/* Elements that were written before come to lie there, too, unless that has been done. */
void dfi_tensor_array_together(dfi_tensor_array *a);
/* For looking ahead (engine/cudagraph/cudagraph_arrays.c). A write to location i is taken back, of an array that had
 * `size` locations; a read that cleared it, of t (consumed; NULL: a number); a tensor is put in the place of another
 * one. */
void dfi_tensor_array_unwrite(dfi_tensor_array *a, int64_t i, int64_t size);
void dfi_tensor_array_unclear(dfi_tensor_array *a, int64_t i, df_tensor *t);
/* What location i, one of the array's, is: DFI_SLOT_… */
uint8_t dfi_tensor_array_state(const dfi_tensor_array *a, int64_t i);

/* The elements `index` names (NULL: 0 … n - 1), stacked; owned. `hint` is the element shape if there is no element. */
df_tensor *dfi_tensor_array_gather(dfi_tensor_array *a, df_kernel *k, int64_t n, const df_tensor *index,
                                   const dfi_shape *hint);
/* The rows of t (borrowed) become elements 0, 1, …, or those that `index` names. */
int32_t dfi_tensor_array_unstack(dfi_tensor_array *a, df_tensor *t, df_error *err);
int32_t dfi_tensor_array_scatter(dfi_tensor_array *a, const df_tensor *index, df_tensor *t, df_error *err);
/* The first n elements joined along axis 0, owned. lengths (int64[n], fresh) receives their rows. `known` gives the
 * rows of elements that a gradient array has no shape for; NULL: none. `hint` is the element shape if there is no
 * element. */
df_tensor *dfi_tensor_array_concat(dfi_tensor_array *a, df_kernel *k, int64_t n, const df_tensor *known,
                                   const dfi_shape *hint, int64_t *lengths);
int32_t dfi_tensor_array_split(dfi_tensor_array *a, df_tensor *t, const df_tensor *lengths, df_error *err);

/* ---- what tensor_array.c and tensor_array_move.c share ----------------------------------------------------------- */

/* An element laid open. data NULL: nothing is there (state says why). Borrowed until the array changes. */
typedef struct dfi_element {
  const void      *data;
  uint8_t          state;
  int8_t           rank;
  const int64_t   *dims;
  df_tensor       *tensor;       /* where it lies in a tensor of its own */
  struct df_buffer *in;          /* the storage it is a part of; NULL: it is packed */
} dfi_element;
/* Element i, a tensor of its own, is let go; its shape is remembered. It is put back: false where there is no memory.
   */
void dfi_tensor_array_let_go(dfi_tensor_array *a, int64_t i);
bool dfi_tensor_array_put_back(dfi_tensor_array *a, int64_t i, const df_value *v);
/* Where the tensor of a written element lies, to be exchanged for an equal one; NULL: it is not written, or no tensor
   of its own. */
df_tensor **dfi_tensor_array_element(const dfi_tensor_array *a, int64_t i);
void dfi_element_look(const dfi_tensor_array *a, int64_t i, dfi_element *e);   /* not for handles */
/* The shape that location i has or would have; false when it is not known. */
bool dfi_element_shape(const dfi_tensor_array *a, int64_t i, dfi_shape *s);
/* Why location i cannot be read: fills err. `state` is that of the location. */
int32_t dfi_element_missing(const dfi_tensor_array *a, int64_t i, uint8_t state, df_error *err);
void dfi_element_clear(dfi_tensor_array *a, int64_t i);
int32_t dfi_index_fail(const dfi_tensor_array *a, int64_t i, bool write, df_error *err);
char *dfi_array_index(const dfi_tensor_array *a, int64_t i, char buffer[64]);  /* "index 3", "index 1 of lane 2" */
char *dfi_tensor_array_title(const dfi_tensor_array *a, char buffer[128]);     /* "TensorArray 'rows'" */
int32_t dfi_array_no_memory(const dfi_tensor_array *a, df_error *err);    /* fails: it takes more than there is */
/* Row i of t as a value, owned: sharing t's storage where the row is aligned as kernel.h promises. False: out of
   memory. */
bool dfi_row_value(df_tensor *t, int64_t i, df_value *out);
/* Elements [first, first + size of dims) of t, shared or copied as a row is; owned. NULL: out of memory. */
df_tensor *dfi_tensor_part(df_tensor *t, int64_t first, int32_t rank, const int64_t *dims);

/* Where location i lies: its chunk and the place in it. */
static inline void dfi_slot_at(const dfi_tensor_array *a, int64_t i, int64_t *chunk, int64_t *at) {
  if (i >> a->first_log2 == 0) { *chunk = 0; *at = i; return; }
  if (i < 4096) {
    int32_t log2 = 63 - __builtin_clzll((uint64_t)i);
    *chunk = log2 - a->first_log2 + 1;
    *at = i - ((int64_t)1 << log2);
    return;
  }
  *chunk = 12 - a->first_log2 + (i >> 12);
  *at = i & 4095;
}
static inline int64_t dfi_chunk_begin(const dfi_tensor_array *a, int64_t chunk) {
  if (chunk == 0) return 0;
  int64_t small = 12 - a->first_log2;
  return chunk <= small ? (int64_t)1 << (a->first_log2 + chunk - 1) : (chunk - small) << 12;
}
/* Are the elements bytes in the chunks themselves? */
static inline bool dfi_packed(const dfi_tensor_array *a) {
  return a->store == DFI_STORE_NUMBERS || a->store == DFI_STORE_ROWS;
}
/* Locations of a chunk: full, but for the last one of an array that cannot grow. */
static inline int64_t dfi_chunk_slots(const dfi_tensor_array *a, int64_t chunk) {
  int64_t small = 12 - a->first_log2;
  int64_t n = chunk == 0       ? (int64_t)1 << a->first_log2
              : chunk <= small ? (int64_t)1 << (a->first_log2 + chunk - 1)
                               : 4096;
  if (a->dynamic) return n;
  int64_t left = a->size - dfi_chunk_begin(a, chunk);
  return left < n ? left : n;
}
/* How many of the n states from `at` on, up or down (step 1 or -1), are this one, before the first that is not. */
static inline int64_t dfi_same_states(const uint8_t *at, int64_t step, int64_t n, uint8_t state) {
  const uint64_t all = 0x0101010101010101u * state;
  int64_t k = 0;
  for (uint64_t eight; k + 8 <= n; k += 8) {
    memcpy(&eight, step > 0 ? at + k : at - k - 7, 8);
    if (eight != all) break;
  }
  while (k < n && at[step * k] == state) k++;
  return k;
}
static inline uint8_t *dfi_chunk_states(const dfi_tensor_array *a, int64_t chunk) {
  return (uint8_t *)a->chunk[chunk] + dfi_chunk_slots(a, chunk) * a->cell;
}
#endif
