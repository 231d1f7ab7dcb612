/* device.h: what the runtime and the kernels of a device that is not the host know of each other: the door of
 * kernels/cuda/.
 *
 * Memory of such a device is not the host's. A tensor there has its head on the host and its elements on the device,
 * and nothing but the device's kernels reads them. Beside the head lie DFI_NOTE_BYTES in which the device notes when
 * the elements may be read and when their memory may be used again: work is only enqueued, and the host goes on.
 *
 * The plug-in (libdflow_cuda.so) is loaded when a session first names a gpu. It links to nothing of libdflow and to
 * nothing of CUDA: it opens the driver itself, and calls the runtime through dfi_gpu_host.
 */
#ifndef DFLOW_KERNELS_DEVICE_H
#define DFLOW_KERNELS_DEVICE_H
#include "chain.h"
#include "kernel.h"
#include "update.h"
#include "persistent.h"
#include "window.h"

enum { DFI_NOTE_BYTES = 64 };

/* One step of an optimizer on n elements of one float dtype; see update.h. at[0] is the variable, then its slots,
 * then the gradient. */
enum { DFI_STEP_DESCENT = 0, DFI_STEP_MOMENTUM, DFI_STEP_ADAM };
typedef struct dfi_remote_step {
  int32_t kind, dtype, count;             /* count: of at[] */
  int64_t n;
  void   *at[4], *note[4];
  double  rate, momentum;                 /* of descent and momentum */
  dfk_adam adam;
  bool    nesterov;
} dfi_remote_step;

/* A step by one of train.h's rules on rows of a variable and its slots, all of one float dtype. Lists are the host's
 * and may change when the call returns. */
enum { DFI_TRAIN_VARS = 4, DFI_TRAIN_NUMBERS = 6 };
typedef struct dfi_remote_train {
  int32_t rule, dtype, vars;              /* dfk_rule; vars: the variable and its slots */
  bool    flag, in_turn;                  /* in_turn: a row may come twice, so one is stepped after the other */
  int64_t rows, columns;
  const int64_t *row;                     /* which rows of the variable; NULL: all, in their order */
  /* the gradient of rows[i] is the sum of its rows order[begin[i]] to order[begin[i + 1]]; NULL: its row i */
  const int64_t *begin, *order;
  int64_t norder;
  void   *at[DFI_TRAIN_VARS + 1], *note[DFI_TRAIN_VARS + 1];      /* the last: the gradient */
  double  number[DFI_TRAIN_NUMBERS];
} dfi_remote_train;

/* Row index[i] of `to` op= row i of `from`, n of them, each of `row` elements; `one`: of the same element each. The
 * list is the host's and may change when the call returns; apart: no two are the same. */
typedef struct dfi_remote_place {
  dfk_update_op op;
  int32_t dtype;
  bool    one, apart;
  int64_t n, row;
  const int64_t *index;
  void   *to, *to_note;
  const void *from;
  void   *from_note;
} dfi_remote_place;

/* A product of two matrices of one float dtype, to each row of which a vector is added. */
typedef struct dfi_remote_biased {
  int32_t dtype;
  bool    a_t, b_t;                       /* that side lies transposed */
  int64_t m, n, k;                        /* rows and columns of the result, and what is summed over */
  const void *a, *b, *bias;
  void   *a_note, *b_note, *bias_note;
  void   *to, *to_note;
} dfi_remote_biased;

/* A convolution of images, to whose channels a vector is added, of one float dtype; relu: and of that what is above 0.
 * `how` has no tensors. */
typedef struct dfi_remote_convolved {
  int32_t  dtype;
  bool     relu;
  dfk_conv how;
  const void *in, *filter, *bias;
  void    *in_note, *filter_note, *bias_note;
  void    *to, *to_note;
} dfi_remote_convolved;

/* Dtypes of which a device changes parts. */
static inline bool dfi_places(int32_t dtype) {
  switch (dtype) {
    case DF_FLOAT32: case DF_FLOAT64: case DF_FLOAT16: case DF_BFLOAT16:
    case DF_INT32: case DF_INT64: case DF_INT8: case DF_UINT8: return true;
    default: return false;
  }
}

/* What is counted of a loop within a graph: does it go on, how many iterations there were, how many there may be, was a
 * loop inside cut off; and for each node that chooses a side, how often that was the first. */
enum { DFI_TALLY_ON = 0, DFI_TALLY_COUNT, DFI_TALLY_MOST, DFI_TALLY_CUT, DFI_TALLY_SIDES };

/* Which sides were taken: word `at` * width + which is 1 where the first was. at < 0: the iteration that the tally
 * counts. */
typedef struct dfi_remote_sides { void *to, *note; int64_t at, width; } dfi_remote_sides;
/* An element of an array: n words of `width` bytes. sum, tally: NULL: there is none. */
typedef struct dfi_remote_element {
  const void *where;
  void       *where_note;
  void       *own, *own_note;
  const void *sum, *tally;
  void       *sum_note, *tally_note;
  int32_t     width;
  int64_t     n;
} dfi_remote_element;

/* One launch of a loop that is one kernel. A number is its bits, a tensor its address, with its note. */
typedef struct dfi_remote_persistent {
  uint64_t *in; void **in_note;           /* by variable, then by input; a variable's number becomes what it is then */
  void    **to, **to_note;                /* by variable: where a tensor goes, perhaps where it lay */
  int64_t   most;                         /* iterations */
  int64_t   ran;                          /* set: how many there were */
  dfk_persistent_end end;                 /* set: why no more */
  int64_t  *yes;                          /* set, by cond: how often it was true */
} dfi_remote_persistent;

/* Memory that the host cannot read, and what works on it. `note` and its like are NULL for memory of the host's.
 * False: the device failed, and `error` says how. Any thread. */
typedef struct dfi_remote {
  void *device;
  void *(*alloc)(void *device, int64_t bytes, void *note);      /* NULL: it has no more. The note is all zeros */
  void  (*free)(void *device, void *p, void *note);             /* once what was enqueued has run */
  /* `from` may change when it returns */
  bool  (*from_host)(void *device, void *to, void *to_note, const void *from, int64_t bytes);
  /* `to` is filled when it returns. False without an error: it took too long, and the run gives up */
  bool  (*to_host)(void *device, void *to, const void *from, void *from_note, int64_t bytes);
  /* From another GPU of the same plug-in, without the host's part. NULL: by way of the host */
  bool  (*across)(void *device, void *to, void *to_note, void *other, const void *from, void *from_note, int64_t bytes);
  bool  (*within)(void *device, void *to, void *to_note, const void *from, void *from_note, int64_t bytes);
  bool  (*fill)(void *device, void *to, void *to_note, int32_t byte, int64_t bytes);
  bool  (*update)(void *device, dfk_update_op op, int32_t dtype, int64_t n, void *to, void *to_note, const void *a,
      void *a_note,
                  const void *b, void *b_note, bool one_b);
  bool  (*step)(void *device, const dfi_remote_step *s);
  /* A chain of elementwise steps as one kernel, in two steps, so that results are made only where there is one.
   * `on_host`, bit i: input i is a number of the host's. times: how often it was wanted since it was last asked for,
   * this time too; at_once: it is worth compiling. NULL: not yet, or none: each op runs alone; what is there is so for
   * ever, for this chain and these on_host and run->input[].how. NULL functions: it has no such kernels. */
  void *(*fused)(void *device, const dfk_chain_run *run, uint64_t on_host, int64_t n, int64_t times, bool at_once);
  bool  (*fused_run)(void *device, void *kernel, const dfk_chain_run *run, int64_t n, void *const *in_note,
                     void *const *out_note);
  /* A loop as one kernel, in two steps. It would have saved saved_ns by now; at_once as above. NULL: not yet, or none.
   * persistent_run: when it returns the launch is over. NULL functions: it has no such kernels. */
  void *(*persistent)(void *device, const dfk_persistent *w, int64_t saved_ns, bool at_once);
  bool  (*persistent_run)(void *device, void *kernel, const dfk_persistent *w, dfi_remote_persistent *run);
  /* In one, with the bits of the two ops. False: it cannot; each op runs alone. NULL: as if false. */
  bool  (*biased)(void *device, const dfi_remote_biased *l);
  bool  (*convolved)(void *device, const dfi_remote_convolved *l);       /* as biased */
  bool  (*train)(void *device, const dfi_remote_train *t);
  bool  (*place)(void *device, const dfi_remote_place *p);       /* of a dtype that dfi_places */
  /* Graphs. From `capture` to `captured` what this thread enqueues is kept, not run: it becomes the graph (NULL: a new
   * one), in place of what that was, with memory of its own for what is made and let go meanwhile. NULL functions:
   * there are none. `captured`: NULL: it cannot be, `why` says the reason, and the graph is gone; *changed: what there
   * was has been changed, and is not made anew. `replay` runs it, in
   * order with all else; replays_left: how many of its replays are not over, -1: the device failed. */
  void *(*capture)(void *device, void *graph);                   /* NULL: it cannot be; the graph is gone */
  void *(*captured)(void *device, void *graph, int64_t *bytes, bool *changed, char *why, size_t room);
  bool  (*replay)(void *device, void *graph);
  /* A loop whose predicate is the device's, within a graph. `tally`: of int64 there, as DFI_TALLY_ says. decide: where
   * *pred is false it goes on no longer; else there is one more. keep: `to` becomes what `from` is, where it goes on.
   * turn: `to` becomes the n words of `from` that are of the iteration at hand. NULL functions: there are no such
   * graphs. */
  bool  (*decide)(void *device, void *tally, void *tally_note, const void *pred, void *pred_note, uint64_t condition);
  bool  (*turn)(void *device, const void *tally, void *tally_note, void *to, void *to_note, const void *from,
                void *from_note, int64_t n);
  bool  (*keep)(void *device, const void *tally, void *tally_note, void *to, void *to_note, const void *from,
                void *from_note, int64_t bytes);
  /* Conditional nodes of such a graph. condition: what one goes by, 0: there are none; `again`: it goes on at first.
   * open: what is captured from here on is what the node does, again and again, or where its condition holds;
   * otherwise: where it does not; close: and behind the node. decide is given a node's condition, or 0. choose: *pred
   * is the condition's (0: of none), and counted beside the tally where it is true. After false the graph cannot
   * be. */
  uint64_t (*condition)(void *device, bool again);
  bool  (*open)(void *device, uint64_t condition, bool again);
  bool  (*otherwise)(void *device);
  bool  (*close)(void *device);
  bool  (*choose)(void *device, void *tally, void *tally_note, const void *pred, void *pred_note, uint64_t condition,
                  int32_t which, const dfi_remote_sides *sides);
  /* A loop inside such a loop, with tallies of their own, in one buffer. begin: it goes on where the one around it
   * does, for as many iterations as it may have; so does the node of the condition (0: there is none). end: where it
   * still goes on it was cut off, and what is around it goes on no longer. */
  bool  (*begin)(void *device, void *tally, const void *around, void *note, uint64_t condition);
  bool  (*end)(void *device, const void *tally, void *around, void *note);
  /* Elements of arrays, within such a graph: *e->where is the address of one, which the host writes before a launch.
   * fetch: e->own becomes the element. store: the element becomes e->own, or e->sum where the word behind the address
   * is not 0; nothing, where a tally says that the loop goes on no longer. */
  bool  (*fetch)(void *device, const dfi_remote_element *e);
  bool  (*store)(void *device, const dfi_remote_element *e);
  bool  (*await)(void *device, void *note);      /* what is enqueued from now on comes after copies to this tensor */
  int32_t (*replays_left)(void *device, void *graph);
  void  (*graph_free)(void *device, void *graph);
  bool  (*wait)(void *device);                                   /* for all that was enqueued */
  const char *(*error)(void *device);                            /* the first that it met; "" for none */
} dfi_remote;

/* A kernel of an op for GPUs. */
enum {                                   /* in host_in */
  DFI_LAST_IN = 1 << 30,                 /* the last input */
  DFI_FIRST_HALF_IN = 1 << 29,           /* the first half of the inputs: of two lists the first */
  DFI_BUT_LAST_IN = 1 << 28,             /* all inputs but the last */
  DFI_BUT_FIRST_IN = 1 << 27,            /* all inputs but the first */
  DFI_ALL_IN = DFI_LAST_IN | DFI_BUT_LAST_IN
};
/* Does host_in name input i of n? */
static inline bool dfi_on_host(uint32_t host_in, int32_t i, int32_t n) {
  return (i < 27 && (host_in >> i & 1)) || (host_in & DFI_BUT_FIRST_IN && i > 0) ||
         (host_in & DFI_LAST_IN && i == n - 1) || (host_in & DFI_FIRST_HALF_IN && i < n / 2) ||
         (host_in & DFI_BUT_LAST_IN && i < n - 1);
}
typedef struct dfi_gpu_kernel {
  const char *op;                        /* the entry's type */
  /* Enqueues. Inputs that host_in names lie on the host, tensors among the others on the device; numbers may be in a
     slot. */
  int32_t   (*run)(df_kernel *k);
  uint32_t    host_in;                   /* bit i < 27: input i is read by the host (a shape, an axis, indices) */
  uint32_t    host_out;                  /* bit i: output i is made on the host */
  /* has it a kernel for these dtypes? */
  bool      (*takes)(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out);
} dfi_gpu_kernel;

/* Services of the runtime, as kernel.h describes them. */
typedef struct dfi_gpu_host {
  df_tensor *(*out)(df_kernel *k, int32_t i, int32_t dtype, int32_t rank, const int64_t *dims);
  df_tensor *(*out_like)(df_kernel *k, int32_t i, const df_tensor *like);
  df_tensor *(*out_reuse)(df_kernel *k, int32_t i, int32_t from, int32_t dtype, int32_t rank, const int64_t *dims);
  int32_t    (*out_forward)(df_kernel *k, int32_t i, int32_t from, int32_t rank, const int64_t *dims);
  void      *(*scratch)(df_kernel *k, int64_t bytes);
  void       (*free)(void *p);
  int32_t    (*fail)(df_kernel *k, int32_t code, const char *format, ...);
  char      *(*shape_text)(const df_tensor *t, char *buffer, size_t bytes);
  uint64_t   (*tag)(const df_kernel *k);
  int64_t    (*graph_seed)(const df_kernel *k);
  const char *(*dtype_name)(int32_t dtype);
  int32_t    (*dtype_bytes)(int32_t dtype);
  df_tensor *(*tensor_new)(int32_t dtype, int32_t rank, const int64_t *dims, df_error *err);      /* on the device */
  void       (*tensor_release)(df_tensor *t);
  void      *(*device)(const df_kernel *k);        /* dfi_remote.device of the device that the call runs on */
  void      *(*note)(const df_tensor *t);          /* of its elements; NULL: they are on the host */
  bool      (*gives_up)(void);                     /* shall this thread wait no longer for the device? */
  bool      (*makes_room)(void);                   /* has memory of the call's device been given back just now? */
} dfi_gpu_host;

typedef struct dfi_gpu_about {
  char    name[128];
  int64_t memory_bytes, launches, copies_in, copies_out;
  int64_t fused;                         /* launches of kernels for several ops at once, among the launches */
  int64_t graphs;                        /* launches of graphs, beside these */
  int64_t copies_across;                 /* from other GPUs */
  int32_t major, minor;
  char    libraries[960];                /* what computes with which of them, and which is missing: a line each */
} dfi_gpu_about;

enum { DFI_GPU_VERSION = 15 };
typedef struct dfi_gpu_api {
  int32_t version;
  /* Opens the driver. NULL: it is there. Else why it is not and what to do, one line in static memory. Called once. */
  const char *(*open)(const dfi_gpu_host *host);
  int32_t     (*count)(void);                                                    /* GPUs, virtual ones too */
  /* borrowed, for ever; NULL: error says why not */
  const dfi_remote *(*device)(int32_t number, char *error, size_t room);
  void        (*about)(const dfi_remote *r, dfi_gpu_about *out);
  const dfi_gpu_kernel *(*kernels)(int32_t *n);                                  /* static */
  /* May a chain have a step of this op, with these dtypes? *element: what the device's code calls it; *attr: which of
   * the op's attributes is its last operand, a float, -1: none. An op that adds a list is asked for two of it. NULL:
   * none. */
  bool        (*fuses)(const char *op, int32_t nin, const uint8_t *in, int32_t out, const char **element,
                       int32_t *attr);
  /* The same of an op on numbers that the host computes elsewhere, in a loop that is one kernel: may it have this, with
   * the host's bits? *care: what the host would refuse. NULL: none. */
  bool        (*counts)(const char *op, int32_t nin, const uint8_t *in, int32_t out, const char **element,
                        dfk_persistent_care *care);
} dfi_gpu_api;
#define DFI_GPU_SYMBOL "dflow_gpu"       /* of type dfi_gpu_api */
#endif
