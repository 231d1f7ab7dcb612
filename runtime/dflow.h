/* dflow.h: the one public header of libdflow.
 *
 * Plain C that C, C++ and a LuaJIT `ffi.cdef` can all take: opaque structs, fixed-width integers, enums instead of
 * macros. The library calls back for two things: custom gradients while a graph is built, host calls while it runs.
 * An output is a pair of int32: {node id, index}. Lists of outputs are arrays of such pairs.
 *
 * These rules hold wherever a function says nothing else.
 *
 *   ownership  An argument is borrowed: the caller's, and not used after the call. A result is owned where the function
 *              says so: the caller releases it (df_tensor_release, df_value_release, df_graph_release, ...). A consumed
 *              argument is taken from the caller, also when the call fails. A returned text is borrowed and lives as
 *              long as what was asked.
 *   errors     A function that can fail by what it is given takes `df_error *err` last. It returns a df_code (0 is
 *              success), a negative number or NULL, and `err` says what was found, what was expected and where.
 *   units      Bytes, and seconds as a double. Times of events (`at`, `took`) are nanoseconds.
 *   buffers    `capacity` is how many elements of `out` may be written, or bytes of a text with its final 0. The
 *              function returns how many there are, so it can be called with capacity 0 and out NULL first. A text is
 *              cut at capacity - 1 bytes.
 *
 *   functions of                            threads
 *   tensors, values                         any; a tensor is written by one, before others have it
 *   files, folders, images, ops, devices    any; a df_file: one at a time
 *   graphs, nodes, control flow, gradients, one at a time for each graph; its sessions run it from others meanwhile
 *     imports, exports, checks
 *   sessions, runs, snapshots               any; the last release comes when no other thread is in a call
 *   the cluster                             any; starting and ending one wait for each other
 *   df_interrupt…, the status line          any; df_interrupt and df_interrupt_calls also signal handlers
 */
#ifndef DFLOW_H
#define DFLOW_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* TensorFlow's status codes, with TensorFlow's numbers. */
typedef enum df_code {
  DF_OK = 0, DF_CANCELLED = 1, DF_UNKNOWN = 2, DF_INVALID_ARGUMENT = 3, DF_DEADLINE_EXCEEDED = 4,
  DF_NOT_FOUND = 5, DF_ALREADY_EXISTS = 6, DF_PERMISSION_DENIED = 7, DF_RESOURCE_EXHAUSTED = 8,
  DF_FAILED_PRECONDITION = 9, DF_ABORTED = 10, DF_OUT_OF_RANGE = 11, DF_UNIMPLEMENTED = 12,
  DF_INTERNAL = 13, DF_UNAVAILABLE = 14, DF_DATA_LOSS = 15
} df_code;

/* What went wrong. Fields that do not apply are empty strings. Plain data: copy it freely. */
typedef struct df_error {
  int32_t code;          /* df_code */
  char    message[1024]; /* found, expected; holds nothing that a terminal would obey, whatever names and files do */
  char    op[160];       /* the node's name and op type, as `name (Type)` */
  char    frame[256];    /* such as `while/1:17`: iteration 17 of frame while/1 */
  char    source[256];   /* `file:line` of the Lua call that built the op */
  int32_t rank;          /* DF_UNAVAILABLE: 1 + the rank that is dead, hung or cannot be reached; 0: none is */
  char    host[64];      /* where that runs; means nothing where rank is 0 */
} df_error;

/* TensorFlow's DataType numbers. DF_RESOURCE is a variable or a TensorArray: it never leaves a run. The elements of a
 * DF_VARIANT tensor are such handles too, or nothing. Complex elements are two floats or doubles: real, imaginary. */
typedef enum df_dtype {
  DF_INVALID = 0, DF_FLOAT32 = 1, DF_FLOAT64 = 2, DF_INT32 = 3, DF_UINT8 = 4, DF_INT16 = 5, DF_INT8 = 6,
  DF_STRING = 7, DF_COMPLEX64 = 8, DF_INT64 = 9, DF_BOOL = 10, DF_QINT8 = 11, DF_QUINT8 = 12, DF_QINT32 = 13,
  DF_BFLOAT16 = 14, DF_QINT16 = 15, DF_QUINT16 = 16, DF_UINT16 = 17, DF_COMPLEX128 = 18, DF_FLOAT16 = 19,
  DF_RESOURCE = 20, DF_VARIANT = 21, DF_UINT32 = 22, DF_UINT64 = 23
} df_dtype;

enum { DF_MAX_RANK = 8 };

typedef struct df_tensor  df_tensor;  /* a dense array on the host, reference-counted, immutable once shared */
typedef struct df_graph   df_graph;   /* nodes, contexts; grows, never shrinks */
typedef struct df_session df_session; /* variables' values and compiled plans */
typedef struct df_run     df_run;     /* one run in the background */

/* A value as it lies in a slot: 16 bytes, rank-0 numbers unboxed (but for complex ones). */
typedef enum df_kind { DF_EMPTY = 0, DF_SCALAR = 1, DF_TENSOR = 2, DF_HANDLE = 3 } df_kind;
typedef struct df_value {
  uint8_t  kind;  /* df_kind */
  uint8_t  dtype; /* df_dtype */
  uint8_t  dead;  /* the token is dead: nothing below means anything */
  uint8_t  flags; /* the executor's own */
  uint32_t uses;  /* the executor's own: readers still to come */
  union {
    bool b;
    int8_t i8;
    uint8_t u8;
    int16_t i16;
    uint16_t u16;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
    float f32;
    double f64;
    df_tensor *tensor; /* kind DF_TENSOR: holds one reference */
    void      *handle; /* kind DF_HANDLE: a variable or a TensorArray, holds one reference */
  } as;
} df_value;

const char *df_version(void);               /* "0.1.0" */
const char *df_code_name(int32_t code);     /* "invalid_argument"; never NULL */
const char *df_dtype_name(int32_t dtype);   /* "float32"; "invalid" for what is none */
int32_t     df_dtype_of(const char *name);  /* DF_INVALID for what is none */
int32_t     df_dtype_bytes(int32_t dtype);  /* bytes of an element; 16 for DF_STRING, 8 for DF_VARIANT */

/* ---- tensors ------------------------------------------------------------------------------- */
/* A new tensor, owned; numbers uninitialised, strings empty. NULL when the dims are bad or memory is out. */
df_tensor  *df_tensor_new(int32_t dtype, int32_t rank, const int64_t *dims, df_error *err);
df_tensor  *df_tensor_retain(df_tensor *t);           /* owned; the same tensor */
void        df_tensor_release(df_tensor *t);          /* NULL is allowed */
int32_t     df_tensor_dtype(const df_tensor *t);
int32_t     df_tensor_rank(const df_tensor *t);
int64_t     df_tensor_dim(const df_tensor *t, int32_t axis); /* axis from 0; -1 when out of range */
int64_t     df_tensor_size(const df_tensor *t);       /* elements */
int64_t     df_tensor_bytes(const df_tensor *t);      /* bytes of storage this tensor keeps alive */
/* borrowed; NULL for strings and variants. Write only before sharing */
void       *df_tensor_data(const df_tensor *t);
const char *df_tensor_string(const df_tensor *t, int64_t i, int64_t *length); /* borrowed */
int32_t     df_tensor_set_string(df_tensor *t, int64_t i, const char *bytes, int64_t length, df_error *err);
/* owned; shares storage */
df_tensor  *df_tensor_reshape(df_tensor *t, int32_t rank, const int64_t *dims, df_error *err);
df_tensor  *df_tensor_cast(df_tensor *t, int32_t dtype, df_error *err); /* owned; as the op Cast */
/* Elements as numbers, whatever the dtype. get: 0 for strings; of complex ones the real part; get_int: a uint64 past
 * INT64_MAX wraps. set: false when the dtype cannot hold v; a complex element's imaginary part becomes 0. */
double      df_tensor_get(const df_tensor *t, int64_t i);
int64_t     df_tensor_get_int(const df_tensor *t, int64_t i);
bool        df_tensor_set(df_tensor *t, int64_t i, double v);
bool        df_tensor_set_int(df_tensor *t, int64_t i, int64_t v);
double      df_tensor_imaginary(const df_tensor *t, int64_t i);                /* 0 unless complex */
bool        df_tensor_set_complex(df_tensor *t, int64_t i, double re, double im); /* false unless complex */
void        df_value_release(df_value *v);            /* drops what v holds and empties it */
/* What a tensor of real numbers holds; min, mean, max and deviation (the square root of the mean square distance from
   the mean) are those of its finite elements. False for other dtypes. */
enum { DF_SUMMARY_BINS = 16 };
typedef struct df_summary {
  double  min, mean, max, deviation;
  int64_t finite, nan, inf;
  int64_t histogram[DF_SUMMARY_BINS];  /* of the finite ones, from min to max; zeros when all are equal */
} df_summary;
bool        df_tensor_summary(const df_tensor *t, df_summary *out);

/* Bytes of the host device: what is in use, its peak, its limit (0: none), and the sum ever allocated. */
void    df_memory(int64_t *in_use, int64_t *peak, int64_t *limit, int64_t *allocated);
void    df_memory_reset_peak(void);         /* the peak begins anew from what is in use now */
void    df_memory_set_limit(int64_t bytes);
/* For tests of programs that must live through the end of memory: of all that the library allocates from now on, for
 * tensors and for itself, the nth and `times` - 1 more after it are refused; 0: none, -1: counting ends. Returns how
 * many allocations there were since the last call. The system's refusals are answered the same way. */
int64_t df_memory_fail(int64_t n, int64_t times);
/* How many pieces of memory the library has for itself; 0 but in debug builds. */
int64_t df_memory_pieces(void);

/* A file's bytes as a uint8[n] tensor, owned; a gzip file comes unpacked. NULL: err is filled (DF_NOT_FOUND,
   DF_DATA_LOSS, ...). */
df_tensor *df_read_file(const char *path, df_error *err);
/* A raw deflate stream of n bytes that unpacks to `size` bytes, as a uint8[size] tensor, owned. NULL: err is filled
   (DF_DATA_LOSS). */
df_tensor *df_inflate(const char *bytes, int64_t n, int64_t size, df_error *err);
int64_t    df_crc32(const char *bytes, int64_t n);   /* zip's checksum */
int64_t    df_crc32c(const char *bytes, int64_t n);  /* Castagnoli's, of TFRecord and event files */

/* The datasets of an HDF5 file, whose bytes are a uint8[n] tensor, as string[n, 2], owned: the name of each and
 * "float32 2 3", its dtype and dimensions, or "!" and why it is not read. NULL: err is filled, with DF_UNIMPLEMENTED
 * where libhdf5 is not there. */
df_tensor *df_hdf5_list(const df_tensor *bytes, df_error *err);
df_tensor *df_hdf5_read(const df_tensor *bytes, const char *name, df_error *err);   /* one of them, owned */

/* How long a file is, as it lies there. -1: err is filled. */
int64_t    df_file_size(const char *path, df_error *err);
/* The bytes of a file from `offset` on (as they lie there, nothing is unpacked) as a tensor of this dtype and shape,
 * owned. Not for strings and variants. NULL: err is filled, with DF_DATA_LOSS where the file ends before the tensor
 * does. */
df_tensor *df_file_read(const char *path, int64_t offset, int32_t dtype, int32_t rank, const int64_t *dims,
                        df_error *err);
/* A PNG, JPEG or PNM picture as uint8[height, width, channels], owned; channels 0: as many as it has, else 1 to 4.
 * NULL: err is filled, with DF_DATA_LOSS where it is damaged, DF_UNIMPLEMENTED where the library that reads it is not
 * there. */
df_tensor *df_decode_image(const char *bytes, int64_t n, int32_t channels, df_error *err);
/* The names in a folder, sorted, as a string[n] tensor, owned; those of folders end in '/'. NULL: err is filled. */
df_tensor *df_folder_list(const char *path, df_error *err);

/* A file that is there whole or not at all: what is written takes the name `path` in df_file_commit, in one step and
 * when it is on the disk; before, and when anything fails, what was there stays. Links are followed, permissions kept.
 * Errors name the path and the system's reason: DF_PERMISSION_DENIED, DF_NOT_FOUND, DF_RESOURCE_EXHAUSTED (the disk is
 * full), .... One thread at a time. */
typedef struct df_file df_file;
df_file *df_file_create(const char *path, df_error *err);                               /* owned; NULL: err is filled */
int32_t  df_file_write(df_file *f, const void *bytes, int64_t n, df_error *err);         /* a df_code */
int32_t  df_file_commit(df_file *f, df_error *err);  /* consumes f, also when it fails */
void     df_file_discard(df_file *f);  /* consumes f; NULL is ignored */
/* The text of this header: a LuaJIT ffi.cdef declares this one function, and then has all of them. */
const char *df_header(void);

/* ---- the op registry: what help, the Lua functions and the specs are made of ------------------ */
int32_t     df_op_count(void);
int32_t     df_op_find(const char *type_or_lua_name);    /* -1 when there is none */
const char *df_op_type(int32_t op);                      /* "MatMul" */
const char *df_op_lua(int32_t op);                       /* "matmul"; "" for internal ops */
const char *df_op_doc(int32_t op);
const char *df_op_inputs(int32_t op);                    /* "a:T b:T" ; see runtime/op/op.h for the grammar */
const char *df_op_outputs(int32_t op);                   /* "product:T" */
const char *df_op_types(int32_t op);                     /* "T=float" */
const char *df_op_attrs(int32_t op);                     /* "transpose_a:bool=false transpose_b:bool=false" */
/* What else is known of it: `what` is "output" (what the example prints), "see", "derivative", "domain" (of its
   gradient's test), "onnx", "reads" (what it gives the value of, where it is stateful and does nothing else), "passes"
   (what it hands on as it is), "primitive" (which one it is, RefSwitch a Switch; "" for ops with a kernel), "variable"
   (what names one), "random" (it draws from the session's generator), "elementwise" (its inputs are broadcast, its
   output's elements come of theirs), "reduces" (the axes that its second input names), "parts" (all taken apart:
   runtime/op/parts.c) or "gpu": "kernel" (once a GPU is open, it has one), "moves" (values, wherever they lie), "looks"
   (at shapes alone), "flow" (the engine does it); "": the host runs it; or "hosted" (asked to run on a GPU, it runs on
   the host). */
const char *df_op_about(int32_t op, const char *what);      /* "" when it says nothing */
const char *df_op_example(int32_t op);                   /* a line of Lua, or "" */
bool        df_op_has_gradient(int32_t op);
bool        df_op_is_stateful(int32_t op);

/* ---- building a graph ------------------------------------------------------------------------ */
df_graph *df_graph_new(void);
df_graph *df_graph_retain(df_graph *g);
void      df_graph_release(df_graph *g);
int32_t   df_graph_nodes(const df_graph *g);           /* node ids run from 0 to this - 1 */
void      df_graph_set_seed(df_graph *g, int64_t seed);

/* One node: begin, then its inputs, attributes and name in any order, then end. `where` is the Lua
 * `file:line`, borrowed, may be NULL. Attributes are copied. Only one node is open at a time. An input from
 * an outer context is captured (Switch or Enter); one from an inner context is an error.
 * df_node_end returns the node's id, or -1; then nothing was added. */
void    df_node_begin(df_graph *g, int32_t op, const char *where);
void    df_node_input(df_graph *g, int32_t node, int32_t index);
void    df_node_control(df_graph *g, int32_t node);
void    df_node_name(df_graph *g, const char *name);
void    df_node_int(df_graph *g, const char *attr, int64_t v);
void    df_node_float(df_graph *g, const char *attr, double v);
void    df_node_bool(df_graph *g, const char *attr, bool v);
void    df_node_string(df_graph *g, const char *attr, const char *bytes, int64_t length);
void    df_node_dtype(df_graph *g, const char *attr, int32_t dtype);
void    df_node_shape(df_graph *g, const char *attr, int32_t rank, const int64_t *dims); /* rank -1: unknown */
void    df_node_tensor(df_graph *g, const char *attr, df_tensor *t);                      /* retained */
/* Lists of ints; lists of dtypes as their numbers; lists of shapes as rank, dims, rank, dims, … with rank -1 for
   unknown. */
void    df_node_ints(df_graph *g, const char *attr, int32_t n, const int64_t *v);
int32_t df_node_end(df_graph *g, df_error *err);
/* Shortcuts: a Const node from a value (borrowed), and any op without attributes. `io` is pairs. */
int32_t df_constant(df_graph *g, const df_value *v, const char *name, const char *where, df_error *err);
int32_t df_add_node(df_graph *g, int32_t op, int32_t n, const int32_t *io, const char *where, df_error *err);

/* What applies to nodes that are built. Each push is undone by its pop. Control with n = -1: none until the pop. A
 * scope's name is made unique (`a`, then `a_1`); one that ends in a slash is entered exactly (`a/b/`), and "" is the
 * outermost. */
void df_push_control(df_graph *g, int32_t n, const int32_t *nodes); void df_pop_control(df_graph *g);
void df_push_scope(df_graph *g, const char *name);                  void df_pop_scope(df_graph *g);
void df_push_device(df_graph *g, const char *spec);                 void df_pop_device(df_graph *g);

/* The device that a node asks for, after it was built. */
void df_node_set_device(df_graph *g, int32_t node, const char *spec);

/* Looking at nodes. Strings are borrowed and live as long as the graph. */
const char *df_node_type_of(df_graph *g, int32_t node);
const char *df_node_name_of(df_graph *g, int32_t node);
const char *df_node_where_of(df_graph *g, int32_t node);  /* "" when not known */
/* A number that the caller keeps with a node, as of the frames that called the line which built it; 0: none. */
void        df_node_set_callers(df_graph *g, int32_t node, int32_t callers);
int32_t     df_node_callers(df_graph *g, int32_t node);
int32_t     df_node_by_name(df_graph *g, const char *name); /* -1 when there is none */
int32_t     df_node_outputs(df_graph *g, int32_t node);
int32_t     df_node_inputs(df_graph *g, int32_t node);
void        df_node_input_of(df_graph *g, int32_t node, int32_t i, int32_t *in_node, int32_t *in_index);
int32_t     df_output_dtype(df_graph *g, int32_t node, int32_t index);
int32_t     df_output_rank(df_graph *g, int32_t node, int32_t index);  /* -1: unknown */
int64_t     df_output_dim(df_graph *g, int32_t node, int32_t index, int32_t axis); /* -1: unknown */
df_tensor  *df_output_constant(df_graph *g, int32_t node, int32_t index); /* owned; NULL unless known while building */
int32_t df_output_set_shape(df_graph *g, int32_t node, int32_t index, int32_t rank, const int64_t *dims, df_error *err);
/* StopGradient, or an Exit of a loop with back_prop = false */
bool        df_node_stops_gradient(df_graph *g, int32_t node);
int32_t     df_node_context(df_graph *g, int32_t node);  /* id of the node's control-flow context; 0 is the top level */
int32_t     df_current_context(df_graph *g);
/* Builds in that context until the pop, also where it has ended: a gradient's function that was given to one of its
 * nodes belongs there. One that is not there is the current one. */
void        df_push_context(df_graph *g, int32_t context);
void        df_pop_context(df_graph *g);
int64_t     df_graph_effects(df_graph *g);  /* how many side effects were built so far */
/* Puts effects and reads of variables that were built at the top level from node `first` on in program order, as they
 * are in a body. Returns the last effect, or what leaves the cond or loop that it is in; -1: there is none. */
int32_t     df_graph_order(df_graph *g, int32_t first);
/* Builds at the top level, whatever is open (a variable made in a body lives outside it); pop goes back. */
void        df_push_top(df_graph *g);
void        df_pop_top(df_graph *g);
/* The control flow that a Merge or an Exit belongs to, as it was built, as numbers (nodes are -1 where there is none):
 *   cond:  1, its number, predicate (node, index), n, then for each result: Merge, true side's (node, index), false
 *          side's (node, index)
 *   loop:  2, its number, predicate (node, index), n, then for each variable: Exit, Merge, Switch, first value (node,
 *          index), next (node, index)
 * How many there are, 0 for other nodes; those that fit are written. */
int32_t     df_flow_describe(df_graph *g, int32_t node, int32_t capacity, int32_t *out);
const char *df_flow_name(df_graph *g, int32_t node);      /* of that cond or loop; "" when there is none */
/* All conds, then all loops of the graph: how many; those that fit are written. Texts are borrowed and live as
   long as the graph. */
typedef struct df_flow_info {
  int32_t kind;                    /* 1 cond, 2 loop */
  int32_t number;                  /* among those of its kind, from 0 */
  int32_t parent;  /* the context that it is in: df_node_context; -1 of what was begun and given up */
  int32_t inside[2];  /* its own contexts: a cond's false and true branch, a loop's predicate and body; -1: none */
  int32_t pred_node, pred_index;   /* -1: none */
  int32_t gradient_of;             /* the cond or loop whose gradient it is; -1: none */
  int32_t repeats;                 /* the loop whose iterations it runs again for a gradient; -1: none */
  int32_t pass;                    /* df_node_pass */
  int64_t parallel_iterations;     /* 0 of a cond */
  const char *name, *where, *save; /* save: "keep", "swap", "recompute"; "" of a cond */
} df_flow_info;
int32_t df_flows(df_graph *g, int32_t capacity, df_flow_info *out);
/* What each node of the graph is in a cond or loop: three numbers a node, `out` holds all: its role, the number of that
 * cond or loop, and which variable, capture or result it is of. */
enum {
  DF_ROLE_NONE = 0,
  DF_ROLE_ENTER,
  DF_ROLE_VARIABLE /* the Merge */,
  DF_ROLE_SWITCH,
  DF_ROLE_NEXT,
  DF_ROLE_EXIT,
  DF_ROLE_CAPTURE,
  DF_ROLE_LOOP_COND,
  DF_ROLE_PIVOT,
  DF_ROLE_RESULT /* a cond's Merge */,
  DF_ROLE_DONE
};
void        df_flow_roles(df_graph *g, int32_t *out);
/* its name: `h`, `2`; "" when it has none */
const char *df_loop_variable(df_graph *g, int32_t loop, int32_t variable);
/* The nodes that a node waits for without taking a value of them: how many; those that fit are written. */
int32_t     df_node_controls(df_graph *g, int32_t node, int32_t capacity, int32_t *out);
const char *df_node_device(df_graph *g, int32_t node);    /* the device asked for; "" for none */
int32_t     df_node_pass(df_graph *g, int32_t node);      /* which call of df_gradients made it, from 1; 0: none did */
int32_t     df_node_gradient_of(df_graph *g, int32_t node);  /* the node of whose gradient it is a part; -1: of none */
/* What a run of these fetches and feeds makes of each node: two numbers a node, `out` holds all: DF_LOWERED_* and its
 * frame as the plan counts them (0 the top level, -1 none). Returns how many nodes have tokens; -1: there is no
 * such run, and err says why. */
enum {
  DF_LOWERED_UNNEEDED = 0, /* nothing that is fetched depends on it */
  DF_LOWERED_FED,          /* its value is given */
  DF_LOWERED_KERNEL,
  DF_LOWERED_SCALAR /* a function on the numbers in the slots */,
  DF_LOWERED_FLOW /* moves tokens */,
  DF_LOWERED_IN_PLACE,  /* a constant, a variable's handle or a loop constant that is read where it lies */
  DF_LOWERED_PASSED,    /* hands its value on: its readers read the value's own slot */
  DF_LOWERED_MERGED,    /* a loop's Merge: its Enter and NextIteration deliver for it */
  DF_LOWERED_DUPLICATE, /* a Switch of what another Switch sends on already */
  DF_LOWERED_UNUSED
}; /* only what needs no token hangs on it */
int32_t df_plan_describe(df_graph *g, int32_t nfetch, const int32_t *fetches, int32_t nfeed, const int32_t *feeds,
                         int32_t *out, df_error *err);
/* True when the node only brings an outer value into a branch or a loop; then `from` is that value. */
bool        df_node_capture(df_graph *g, int32_t node, int32_t *from_node, int32_t *from_index);
/* Attributes that differ from their defaults, `transpose_b=true axis=1`; the length of what was
   written. */
int32_t     df_node_attrs_text(df_graph *g, int32_t node, int32_t capacity, char *out);
/* One attribute of a node: the first letter of its type (int, float, bool, string, dtype; h shape, l ints, y types), 0
 * when there is no such attribute or it is of another type. Numbers, bools and dtypes are in *number; strings and lists
 * are borrowed, *n long (a shape of unknown rank: -1). */
typedef struct df_attr_value { double number; int64_t n; const char *bytes; const int64_t *ints; } df_attr_value;
int32_t     df_node_attr(df_graph *g, int32_t node, const char *name, df_attr_value *out);
/* True when a run of this output needs no feed and has no side effect: a prompt may run it to show its value. */
bool        df_output_needs_nothing(df_graph *g, int32_t node, int32_t index);

/* ---- ops that the program computes (HostCall): fn belongs to the thread that opens the host. A run on that thread
 * calls it at once; one in the background waits until the thread waits for it (df_run_wait, df_run_settle), asks
 * df_run_done, or runs something that has to wait. in: borrowed values, no handles. out: nout tensors to be filled,
 * owned by the caller afterwards. What it returns is DF_OK, or a code after filling err->message. It may run other
 * things. Close it when fn can be called no more. */
typedef int32_t (*df_host_fn)(void *user, int64_t id, int32_t nin, df_value *in, int32_t nout, df_tensor **out,
                              df_error *err);
int32_t df_host_open(df_host_fn fn, void *user);
void    df_host_close(int32_t host);

/* ---- graph functions: begin; build the body from the arguments; end(results); call. A body may call functions that
 * are begun and not ended, itself among them, if what they return was said (nresults -1: it was not). begin gives a
 * number and writes the n argument nodes; -1: an error. call gives the id of a node whose first outputs are the
 * results, behind them one that is the library's own; -1. A body that is given up is left by df_flow_abort, and its
 * function cannot be called. ------------------- */
int32_t df_function_begin(df_graph *g, const char *name, int32_t n, const int32_t *dtypes, int32_t nresults,
                          const int32_t *results, const char *where, int32_t *args, df_error *err);
int32_t df_function_end(df_graph *g, int32_t n, const int32_t *results, df_error *err);
int32_t df_function_call(df_graph *g, int32_t function, int32_t n, const int32_t *args, const char *name,
                         const char *where, df_error *err);

/* ---- control flow: begin … end, no callbacks. After a failed call or a Lua error in a branch or body, call
 * df_flow_abort with the depth from before: what was built stays, unreachable; or df_graph_undo. ------------------ */
int32_t df_flow_depth(df_graph *g);
void    df_flow_abort(df_graph *g, int32_t depth);
/* A part of building that may fail as a whole: a mark before it, then keep, or undo when it failed. Marks nest. undo
 * gives up what was begun since and takes away again what was built: nodes, conds, loops, names; it leaves it where
 * something may know of it already (a variable, a function, a run). It returns how many nodes the graph has then. */
int32_t df_graph_mark(df_graph *g);
void    df_graph_keep(df_graph *g, int32_t mark);
int32_t df_graph_undo(df_graph *g, int32_t mark);
/* To add anything is an error from now on (DF_FAILED_PRECONDITION). */
void    df_graph_finalize(df_graph *g);

/* What is open while a graph is built: contexts, scopes, devices, control dependencies. A caller that may leave the
 * middle of building by a jump (a Lua error) reads it before; df_graph_unwind then gives up what was begun since. */
typedef struct df_build_state { int32_t flow, scopes, devices, controls; } df_build_state;
void    df_graph_build_state(df_graph *g, df_build_state *out);
void    df_graph_unwind(df_graph *g, const df_build_state *to);

/* cond: begin(pred); build the true branch; branch_end(outputs); build the false branch; branch_end(outputs); end.
 * Each branch gives n outputs (pairs). end writes n pairs (the Merges) to `out`.
 * A branch without outputs gives n = 0; its side effects still run: others wait for the op that df_cond_end returns. */
int32_t df_cond_begin(df_graph *g, int32_t pred_node, int32_t pred_index, const char *name, const char *where,
                      df_error *err);
int32_t df_cond_branch_end(df_graph *g, int32_t n, const int32_t *outputs, df_error *err);
/* Before the branches end, nodes may be built in either: `side` true is the true branch. For results whose dtype the
 * other branch decides. */
int32_t df_cond_select_branch(df_graph *g, bool side, df_error *err);
int32_t df_cond_end(df_graph *g, int32_t *out, df_error *err); /* returns the id of an op that runs when the cond has */

/* while_loop: begin(initial values) gives the variables as the predicate sees them; build the predicate;
 * pred_end(predicate) gives them as the body sees them; build the body; end(body's results) gives the exits.
 * `vars` and `exits` receive n pairs. `maximum_iterations` < 0: none. `save` is "keep", "swap" or "recompute".
 * Shape invariants: before begin, df_while_invariant for the variables that have one. */
void    df_while_invariant(df_graph *g, int32_t var, int32_t rank, const int64_t *dims);
/* Names for messages: variable `var` is called this (`h`, `2`). */
void    df_while_var_name(df_graph *g, int32_t var, const char *name);
int32_t df_while_begin(df_graph *g, int32_t n, const int32_t *init, int64_t parallel_iterations,
                       int64_t maximum_iterations, bool back_prop, const char *save, const char *name,
                       const char *where, int32_t *vars, df_error *err);
int32_t df_while_pred_end(df_graph *g, int32_t pred_node, int32_t pred_index, int32_t *vars, df_error *err);
int32_t df_while_end(df_graph *g, int32_t n, const int32_t *results, int32_t *exits, df_error *err);
/* In a body: one more loop variable, as map_fn's results are, whose dtype only the body knows. Its initial value is
 * built between df_push_outer and df_pop_outer, in the context around the loop. add_var gives its number, or -1, and
 * the pair `var` that the body sees; close_var takes its value at the end of the body and gives its exit. Not counted
 * in df_while_end's n. */
void    df_push_outer(df_graph *g);
void    df_pop_outer(df_graph *g);
int32_t df_while_add_var(df_graph *g, int32_t init_node, int32_t init_index, int32_t *var, df_error *err);
int32_t df_while_close_var(df_graph *g, int32_t number, int32_t result_node, int32_t result_index, int32_t *exit,
                           df_error *err);

/* ---- TensorFlow's graphs -------------------------------------------------------------------------- */
/* Adds the nodes of a TensorFlow graph to g, at the top level: a GraphDef, or the first graph of a MetaGraphDef or
 * SavedModel, in binary or text form, gzipped or not.
 *   bytes    borrowed; n of them
 *   prefix   NULL, or what comes before all names: `p` makes `p/x` of `x`
 *   map      nmap inputs as the graph names them (`x:0`, `^init`) and the pairs of g that replace them; {node, -1} for
 *            a control
 *   variables  NULL, or becomes int32[n,4], owned: of each variable among the new nodes its node, whether it is
 *              trainable (1, 0, or -1
 *            where the file does not say), and the node and index of what it begins with (-1, -1: the file does not
 *            say)
 * When it fails, g is as it was. */
int32_t df_import_graph_def(df_graph *g, const char *bytes, int64_t n, const char *prefix, int32_t nmap,
                            const char *const *map_name, const int32_t *map_to, const char *where,
                            df_tensor **variables, df_error *err);
/* TensorFlow's checkpoints, PREFIX.index and the data files beside it.
 *   names  string[n], in byte order, owned; NULL: err is filled
 *   read   the tensor of that name, owned; NULL: err is filled. part: NULL or empty for all of it, or which part, as
 *          TensorFlow says it of a partitioned variable: `4 10 0,2:0,10` is the first two rows of [4,10]
 *   write  n tensors under n names that differ; what was there is whole until all is written, and its files go then */
df_tensor *df_checkpoint_names(const char *prefix, df_error *err);
df_tensor *df_checkpoint_read(const char *prefix, const char *name, const char *part, df_error *err);
int32_t df_checkpoint_write(const char *prefix, int32_t n, const char *const *names, df_tensor *const *tensors,
                            df_error *err);
/* From now on nodes of g that came from a file may read and write files by themselves; without it only under a path
   that a run is fed. */
void df_graph_allow_files(df_graph *g);
/* How a graph is written: the forms that it may have, one or'ed with another.
 *   context  a MetaGraphDef, with the conds and loops as TensorFlow's gradients need them, and the collections of
 *            variables
 *   text     in text form
 *   frozen   variables are constants, which have the values that are given; what changes a variable is left out, with
 *            all that depends on it, or an error where an output needs it
 *   clear_devices  nothing is said of where nodes were asked to run */
typedef enum df_export_form {
  DF_EXPORT_CONTEXT = 1,
  DF_EXPORT_TEXT = 2,
  DF_EXPORT_FROZEN = 4,
  DF_EXPORT_CLEAR_DEVICES = 8
} df_export_form;
/* The bytes of a GraphDef, uint8, owned, with the nodes that the n outputs depend on: pairs of node and index, index -1
 * for an operation. n -1: all of the graph. Nodes that TensorFlow has no words for are one error that lists them. NULL:
 * err is filled.
 *   variable  nvariable pairs of a variable's node and whether it is trainable
 *   value     borrowed; NULL, or for each variable its value or NULL: what the operation `init` gives it, in the place
 *             of its initial value */
df_tensor *df_export_graph_def(df_graph *g, int32_t n, const int32_t *outputs, int32_t form, int32_t nvariable,
                               const int32_t *variable, df_tensor *const *value, df_error *err);

/* ---- gradients --------------------------------------------------------------------------------- */
/* Called while building, for a CustomGradient node: `id` is its attribute, dy are n pairs ({-1,0}: none), fill
 * dx with m pairs ({-1,0}: none). Returns 0, or a code with err filled. */
typedef int32_t (*df_custom_gradient_fn)(void *user, int64_t id, int32_t n, const int32_t *dy, int32_t m, int32_t *dx,
                                         df_error *err);
void df_graph_on_custom_gradient(df_graph *g, df_custom_gradient_fn fn, void *user);
/* dx of the sum of ys (weighted by grad_ys; pair {-1,0} means ones), one per x. An x is an output or a variable's
 * handle. unconnected: 0 error, 1 zero, 2 none. A result is 6 int32: {node,index} of the dense gradient or of the
 * values, then {node,index} of indices and {node,index} of dense_shape, -1 where there is none. */
int32_t df_gradients(df_graph *g, int32_t ny, const int32_t *ys, const int32_t *grad_ys, int32_t nx, const int32_t *xs,
                     int32_t nstop, const int32_t *stops, int32_t unconnected, const char *where, int32_t *out,
                     df_error *err);

/* What the gradients built so far save of the loops and conds that the node depends on, and what they compute again.
 * Six numbers a row: the loop's Exit or the cond's Merge (df_flow_name, df_node_where_of), its policy (0 keep, 1 swap,
 * 2 recompute), how (1 saved by each iteration, 2 carried backwards, 3 computed again, 4 counted, 5 a loop constant, 6
 * a variable kept now and then, 7 saved because running it again would give another value), the value (node, index),
 * and the node whose gradient asks for it. How many numbers there are; those that fit are written. */
int32_t df_saved(df_graph *g, int32_t node, int32_t capacity, int32_t *out);

/* ---- checking gradients: what df.check_gradients is made of ------------------------------------- */
/* A copy, owned, with the same nodes under the same ids; it grows on its own and prints nothing. wide: all floats that
 * the `nneed` outputs depend on are float64; DF_UNIMPLEMENTED when an op among them cannot. NULL: err is filled. */
df_graph *df_graph_copy(df_graph *g, bool wide, int32_t nneed, const int32_t *need, df_error *err);
/* The graph's own form, as another process gets it: uint8 bytes, owned. NULL: err is filled (DF_UNIMPLEMENTED: it holds
 * a constant that has no meaning elsewhere). */
df_tensor *df_graph_pack(df_graph *g, df_error *err);
/* The graph of such bytes, owned, the same node for node; DF_DATA_LOSS where they are not what was packed. Bytes of any
 * kind do no harm. `trusting` leaves out the sum at their end, for fuzzing what is behind it. */
df_graph *df_graph_unpack(const void *bytes, int64_t n, bool trusting, df_error *err);
/* All loops so far: how many iterations overlap (0: as they are), what becomes of saved values (NULL: as it is). */
void      df_graph_set_loops(df_graph *g, int64_t parallel_iterations, const char *save);
/* Ids, in order, of all nodes that the n outputs depend on, to `nodes` (df_graph_nodes of them). How many. */
int32_t   df_graph_needs(df_graph *g, int32_t n, const int32_t *outputs, int32_t *nodes);
/* From now on runs of g can be recorded: which way its loops and conds went and what its random ops drew. Once more
 * after new loops were built. df_graph_record(true) forgets what was recorded and records from then on. */
int32_t   df_graph_prepare(df_graph *g, df_error *err);
void      df_graph_record(df_graph *g, bool on);
/* The n outputs without loops and conds: nodes at the top level for each iteration of the run that was recorded, and
 * constants for what random ops drew. What depends on neither, and the xs, stay what they are. Writes n pairs to `out`.
 * DF_RESOURCE_EXHAUSTED: more than `most` nodes. */
int32_t   df_graph_unroll(df_graph *g, int32_t n, const int32_t *outputs, int32_t nx, const int32_t *xs, int64_t most,
                          int32_t *out, df_error *err);
/* The node that this node is an unrolled copy of (itself when it is none), and the iteration, such as `while:3`. */
int32_t     df_node_origin(df_graph *g, int32_t node);
const char *df_node_iteration(df_graph *g, int32_t node);
/* For specs that check the checker: gradients of ops of this type come out `factor` times too large. op -1: none. */
void      df_op_break_gradient(int32_t op, double factor);

/* ---- running ------------------------------------------------------------------------------------ */
/* A session of g, owned. options: NULL, or words such as "threads=2 engine=tokens timeout=2.5" in any order:
 *   threads=N         of the session, 1 to 1024; otherwise as many as the machine has cores
 *   owners=N          threads that take part in each run, with devices of their own, 1 to 1024; 1 at first
 *   engine=WORD       auto, tokens, native (loops are compiled before their first iteration) or primitives (every
 *                     node of the graph fires on its own)
 *   kernels=WORD      cpu, or ref: the reference kernels
 *   timeout=S         seconds that a run may take; 0: any
 *   timeout_rank=S    seconds after which a rank that gives no sign is hung; otherwise as df_cluster_timeout says
 *   device=TEXT       a device of the session, with its settings behind commas; once for each, the default one first
 *   soft=WORD         yes: what cannot run where it was asked to runs elsewhere
 *   clock=WORD        real, or virtual: times of simulated devices by a cost model; virtual_owners: the same, but
 *                     each owner has a window of parallel iterations of its own, as in real time
 *   memory=BYTES      the most that the host's device may hold while runs go on
 *   plans=BYTES       the most that plans and the states of their runs may take
 *   save=WORD         for loops that say nothing, what becomes of values that gradients need: keep, swap, recompute or
 *                     auto
 *   simplify=WORD     no: plans do not merge, fold or move nodes
 *   batch=WORD        yes, no or auto: ready nodes of different calls are computed together
 *   lone=WORD         yes: the thread that calls df_session_run starts all other runs, too */
df_session *df_session_new(df_graph *g, const char *options, df_error *err);
void        df_session_release(df_session *s);      /* cancels what runs, waits for it; see df_run_release */
/* variables uninitialised again: the next run that needs them sets them */
void        df_session_reset(df_session *s);
/* The caller has warned that the graph grows from run to run: the session does not warn of it again. */
void        df_session_told_growth(df_session *s);
/* Runs what the fetches need. A fetch {node, -1} is an operation: it only has to run, and its result is empty.
 *   feeds    nfeed pairs; values borrowed (a scalar may come unboxed)
 *   results  nfetch values, owned (df_value_release); all empty when the run fails
 *   timeout  seconds; <= 0: the session's own */
int32_t df_session_run(df_session *s, int32_t nfetch, const int32_t *fetches, int32_t nfeed, const int32_t *feeds,
                       const df_value *values, double timeout, df_value *results, df_error *err);
/* The same on a thread of its own. NULL when the fetches or feeds are bad.
 *   options  NULL, or words: "paused=yes" stops before the first token; "log=tokens" keeps an event for every token
 *            (df_run_events), at most as many as "events=N" says, else 8,388,608; "log=values" the recent values too
 *            (df_run_value); "primitives=yes": every node fires on its own, as with engine=primitives;
 *            "remains=yes": see df_run_forget; "at_once=yes": returns without the moment in which runs that are started
 *            one after the other come to a queue in that order */
df_run *df_session_start(df_session *s, int32_t nfetch, const int32_t *fetches, int32_t nfeed, const int32_t *feeds,
                         const df_value *values, double timeout, const char *options, df_error *err);
/* once; as df_session_run would have returned; a paused run: an error */
int32_t df_run_wait(df_run *r, df_value *results, df_error *err);
bool    df_run_done(df_run *r);
void    df_run_cancel(df_run *r);
/* A run that has not been waited for is cancelled and ends between two kernels; what is in the middle of a long one
   after 0.1 s is left to a thread in the background, which then frees what it held. */
void    df_run_release(df_run *r);
/* Of a run begun with "remains=yes": when it is over, frames that a failure left open, the last tokens and values stay,
 * so that it can be inspected like a paused one, until it is forgotten or released or its session is closed. */
void    df_run_forget(df_run *r);
/* Bytes that it holds then; -1: it is not over, or does not remain. */
int64_t df_run_remains(df_run *r);

/* ---- several processes: ranks of one cluster ------------------------------------------------------
 * This process is rank 0, the driver; the others are workers on this host, which hold sessions like its own and turn
 * their part of its runs. Devices are `/rank:2/cpu:0`; a bare `cpu:0` is rank 0's. */
/* Starts n - 1 workers. program: a dflow program; NULL: this process's, the one beside the library, or the one in PATH.
 * A cluster of n that runs already is what was asked for; one of another size is DF_FAILED_PRECONDITION. */
int32_t df_cluster_start(int32_t n, const char *program, df_error *err);
/* New workers in the place of those that are dead or hung. Variables that they held are uninitialised. */
int32_t df_cluster_restart(df_error *err);
/* Ends it; no run goes on. Where every rank runs the program, rank 0 waits for the others to do the same; status is
 * what this one will end with. Returns 0, or on rank 0 the status of the first that will end with another one. */
int32_t df_cluster_stop(int32_t status);
/* Of how many ranks mpirun or srun started this process as one; 1: it was not started so. */
int32_t df_cluster_launched(void);
/* Where it was: the ranks of a job find each other. Rank 0 returns as from df_cluster_start. Another one is a worker,
 * which returns only when the program is to run on it, too (spmd), and ends the process when rank 0 ends. */
int32_t df_cluster_join(df_error *err);
/* From now on every rank runs the program, and all make the same runs: before the first one. A rank other than 0 runs
 * it already. DF_FAILED_PRECONDITION: there is no cluster, or the others cannot run it. */
int32_t df_cluster_spmd(df_error *err);
bool    df_cluster_is_spmd(void);
/* The same with ranks 1, 2, … on these hosts, `a,b`: each is started there by `ssh host dflow --host` (DFLOW_RSH is run
 * in place of ssh), and reached over a ZeroMQ connection that is encrypted. A host may be named more than once. */
int32_t df_cluster_hosts(const char *hosts, const char *program, df_error *err);
/* What `dflow --host` is: a worker for a driver on another host. Returns its exit status. */
int32_t df_cluster_host(void);
int32_t df_cluster_size(void);                       /* ranks; 1: no cluster */
int32_t df_cluster_rank(void);                       /* of this process */
int32_t df_cluster_most(void);                       /* ranks, at most */
/* Which ranks the tasks of jobs are, as `ps=3;worker=0,1,2`; without it task k of any job is rank k. */
int32_t df_cluster_jobs(const char *text, df_error *err);
/* A rank that gives no sign for so many seconds is hung; 2 at first. */
void    df_cluster_timeout(double seconds);
typedef enum df_rank_state { DF_RANK_STARTING = 0, DF_RANK_ALIVE, DF_RANK_HUNG, DF_RANK_DEAD } df_rank_state;
typedef struct df_rank_info {
  int32_t rank, state;             /* df_rank_state */
  int64_t pid;                     /* on `host` */
  int64_t messages_out, bytes_out; /* from this process to that rank, */
  int64_t messages_in, bytes_in;   /* and from it */
  double  latency;                 /* seconds that a message takes to it; 0 or less: not known */
  int32_t waits_for;               /* the rank whose value a run waits for there, longest of all; -1: none does */
  double  waits_seconds;
  char    waits_what[200], host[64], why[200];     /* "": nothing; why: what ended it */
} df_rank_info;
/* Fills out with what is known of ranks 0 … capacity - 1, as far as there are these. Gives how many ranks there are;
 * 0: no cluster. Where capacity > 0 each rank is asked for an echo, which takes a moment. Any thread. */
int32_t df_cluster_ranks(int32_t capacity, df_rank_info *out);
/* What `dflow --worker` is: returns its exit status when it could not begin, or -1: the program is to run here, too.
 * program: it could, as its words follow. */
int32_t df_cluster_worker(bool program);

/* ---- looking at a run --------------------------------------------------------------------------------
 * A run stops between two tokens, so what one sees is a consistent cut; workers finish the kernels they have. Nothing
 * here changes what the run computes or how many iterations may be open. Frames are known by their serial number: 0 is
 * the top level, the others are counted as they open. */
typedef enum df_run_state { DF_RUN_NEW = 0, DF_RUN_RUNNING, DF_RUN_PAUSED, DF_RUN_OVER } df_run_state;
typedef enum df_stop_reason { DF_STOP_ASKED = 0, DF_STOP_STEP, DF_STOP_BREAK } df_stop_reason;
typedef struct df_stop {
  int32_t reason;         /* df_stop_reason */
  int32_t breakpoint;     /* DF_STOP_BREAK: which */
  int32_t node;  /* the node that runs next (after a breakpoint on what was made: that made it); -1: nothing is ready */
  int32_t frame;
  int64_t iteration;
  bool    dead;
} df_stop;
typedef enum df_step { DF_STEP_NONE = 0, DF_STEP_TOKEN, DF_STEP_NODE, DF_STEP_ITERATION, DF_STEP_FRAME } df_step;
/* Pauses the run, or finds it paused or over; the state. `stop` says where it paused; may be NULL. DF_RUN_RUNNING when
 * it did not pause in time (df_run_patience) or waiting for that was interrupted: then it pauses as soon as it can,
 * unless df_run_resume comes first. */
int32_t df_run_pause(df_run *r, df_stop *stop);
/* How many seconds the functions here wait for a run to come to the end of a kernel, where it can pause; then
 * they fail with DF_DEADLINE_EXCEEDED. < 0, as at first: for as long as it takes. */
void    df_run_patience(df_run *r, double seconds);
/* The node whose kernel was called last, which may run still; -1: there is none: its variables are initialised first,
   or it is over. */
int32_t df_run_at(df_run *r);
/* Lets a run go on that is paused, or was asked to: for good (DF_STEP_NONE), or n tokens, live nodes, iterations of the
 * frame it is in, or until n frames have opened or ended. */
void    df_run_resume(df_run *r, int32_t step, int64_t n);
/* Waits until the run is paused or over, at most `seconds`, or until interrupted; the state then. */
int32_t df_run_settle(df_run *r, double seconds, df_stop *stop);
/* Stops before a token of these nodes (nnodes < 0: any), in the frame of this name or tag, such as `outer:4/inner`
 * (NULL: any), or, of nodes that are named, in a loop inside of it, in this iteration (< 0: any), if it is dead
 * (DF_IF_DEAD), or after a live one that made a value (DF_IF_MADE) or one that holds a NaN or an infinity (DF_IF_NAN,
 * DF_IF_INF). A node that only passes its input on has no token; the break is then at the node that made the value.
 * Gives the breakpoint's number, from 1; 0: err is filled. */
enum { DF_IF_DEAD = 1, DF_IF_NAN = 2, DF_IF_INF = 4, DF_IF_MADE = 8 };
int32_t df_run_break(df_run *r, int32_t nnodes, const int32_t *nodes, const char *frame, int64_t iteration,
                     int32_t conditions, df_error *err);
bool    df_run_unbreak(df_run *r, int32_t breakpoint);      /* 0: all */

/* What is alive at one moment. Strings are the graph's. */
typedef struct df_frame_info {
  int32_t id, parent;              /* parent -1: the top level */
  int64_t parent_iteration;
  int64_t first, next, limit;      /* open iterations are first … next - 1; limit: parallel_iterations */
  int32_t enters_missing;          /* Enters that have not come */
  int32_t deferred;                /* values for the next iteration that wait for the window to move */
  /* of all its iterations: tokens ready to run, and those of them that are dead; 0 from df_run_frames */
  int32_t live, dead;
  int32_t running, partial;
  int32_t iterations;              /* where its first one is in the snapshot's list */
  int32_t around;                  /* its parent's place in the snapshot's list; -1 */
  /* the place there of the first frame opened by its iterations, which are next to each other, and how many */
  int32_t inside, ninside;
  const char *name, *where;        /* "" for the top level; the Lua line of the loop */
} df_frame_info;
typedef struct df_iteration_info {
  int32_t frame, ready, dead;      /* tokens ready to run, and those of them that are dead */
  int32_t running;                 /* kernels with workers, and calls that wait */
  int32_t partial, children;       /* nodes that have some of their inputs; open child frames */
  int32_t outstanding;             /* the executor's own count: ready + running + children */
  int64_t number;
} df_iteration_info;
typedef enum df_token_state {
  DF_TOKEN_READY = 0,
  DF_TOKEN_RUNNING,
  DF_TOKEN_WAITING,
  DF_TOKEN_PARTIAL,
  DF_TOKEN_RAN
} df_token_state;
typedef struct df_token_info {
  int32_t node, frame;
  int64_t iteration;
  int32_t state;                   /* df_token_state; PARTIAL: some inputs have come */
  int32_t missing;                 /* inputs still to come */
  bool    dead;
} df_token_info;
typedef struct df_array_info {     /* a TensorArray that a live frame holds */
  int32_t node, frame;             /* where it was found; node -1: not known */
  int64_t iteration, size, written;
  int64_t bytes;                   /* of the elements that are written, not of those still to come */
  int32_t dtype;
  bool    saved;                   /* made to save values for a gradient */
  uint64_t at;                     /* tells one array from another */
  char    name[80];
  const char *where;
} df_array_info;
typedef struct df_snapshot {
  int32_t nframes, niterations, ntokens, narrays;
  df_frame_info     *frame;        /* the top level, then what it opened, then what these opened, … */
  df_iteration_info *iteration;    /* by frame, by number */
  df_token_info     *token;
  df_array_info     *array;
} df_snapshot;
/* A snapshot, owned (df_snapshot_release); pauses the run for it where it is not paused. NULL: err is filled (the run
   is over). */
df_snapshot *df_run_look(df_run *r, df_error *err);
void         df_snapshot_release(df_snapshot *s);
/* Sums over n frames next to each other, from place `first`, and over all inside them: live to partial, deferred, and
 * in `next` the iterations in flight. How many frames they are. */
int32_t      df_snapshot_sum(const df_snapshot *s, int32_t first, int32_t n, df_frame_info *out);
/* The same of the frames alone, which is quick in a run of very many iterations: of all, or of one and those around it
   (none, if it has ended). */
df_snapshot *df_run_frames(df_run *r, int32_t frame /* < 0: all */, df_error *err);
/* The books of a run at one moment: all tokens there have been, and where they are. ran, died, merged, ended and the
 * last two are counted as the run goes; what is alive is found. sent == ran + died + live + dead; nodes_run == ran +
 * merged; dead_tokens == died + ended; pending == owed + lost. */
typedef struct df_ledger {
  int64_t sent;                    /* tokens that made a node ready to run */
  int64_t ran, died;               /* whose turn has come: of nodes that ran, or run still; dead ones */
  int64_t live, dead;              /* whose turn comes */
  int64_t running;                 /* calls that are not done */
  int64_t merged;                  /* values that loops' Merges passed on: they have no tokens of their own */
  int64_t ended;                   /* dead Exits, told by the end of their frame */
  int64_t pending;                 /* inputs that nodes of open iterations wait for */
  int64_t owed, lost;  /* what nodes that have not run will send there; what never comes, as of dead NextIterations */
  int64_t open_frames, open_iterations;
  int64_t nodes_run, dead_tokens;  /* as df_run_stats says */
} df_ledger;
/* Closes the books, node by node of every open iteration. DF_INTERNAL: they do not balance, and where: the engine or
 * the snapshot is wrong. DF_FAILED_PRECONDITION: the run is over. Pauses the run for it where it is not paused. */
int32_t df_run_ledger(df_run *r, df_ledger *out, df_error *err);
/* The tokens that ran last, newest first, at most n; how many there are. Paused runs only, else 0. */
int32_t df_run_history(df_run *r, int32_t n, df_token_info *out);
/* The value that an output has in an iteration of a frame, owned. DF_NOT_FOUND: not computed yet, or no longer kept
 * (message). A dead one: DF_OK and out->dead. Paused runs only. */
int32_t df_run_value(df_run *r, int32_t node, int32_t index, int32_t frame, int64_t iteration, df_value *out,
                     df_error *err);
/* The state of a node in an iteration, and the inputs that have not come: pairs (node, index; index -1: a control
 * edge), at most n of them in `missing`; their number, or -1 with err filled. Paused runs only. */
int32_t df_run_waits_for(df_run *r, int32_t node, int32_t frame, int64_t iteration, int32_t *state, int32_t n,
                         int32_t *missing, df_error *err);
/* What was logged. */
typedef enum df_event_kind { DF_EVENT_TOKEN = 0, DF_EVENT_DONE, DF_EVENT_FRAME_OPEN, DF_EVENT_FRAME_END } df_event_kind;
typedef struct df_event {
  int64_t at, took;  /* ns since the run began; of a TOKEN: how long its node took, 0 when it came back as DONE */
  int64_t iteration;               /* FRAME_OPEN, FRAME_END: of the parent */
  int64_t memory;                  /* bytes in use when it was over */
  int32_t node, frame;             /* FRAME_OPEN, FRAME_END: node is the frame's parent */
  int32_t scope;                   /* number of the loop: equal for all instances of a loop */
  uint8_t kind, dead;
  int16_t device;    /* of a node: where it runs, a place in df_run_report's `memory` lines; of a message -1 - the place
                        of its link in the `transfer` lines */
} df_event;
/* Events from `first` on, at most n of them into out; how many there are from there on. Runs in progress too. */
int64_t df_run_events(df_run *r, int64_t first, int64_t n, df_event *out);
/* Events that were lost because the log was full: it ends before the run does. */
int64_t df_run_events_lost(df_run *r);
/* Name and Lua line of the loop `scope`; NULL when there is none. Borrowed. */
const char *df_run_scope(df_run *r, int32_t scope, const char **where);
/* Asks every run of the process to stop, and what df_interrupt_calls does. Safe in a signal handler, as that is. */
void    df_interrupt(void);
/* Asks what threads are in the middle of to end early: runs that are a call of their own (df_session_run), gradients,
 * imports, plans, and waiting for a run to pause. Runs in the background go on. */
void    df_interrupt_calls(void);
/* df_session_run and df_run_wait for programs without a SIGINT handler of their own: meanwhile Ctrl-C is df_interrupt;
 * at other times, and the second time, it does what it did before. df_sigint_guard(false) makes them leave SIGINT
 * alone. */
int32_t df_session_run_guarded(df_session *s, int32_t nfetch, const int32_t *fetches, int32_t nfeed,
                               const int32_t *feeds, const df_value *values, double timeout, df_value *results,
                               df_error *err);
int32_t df_run_wait_guarded(df_run *r, df_value *results, df_error *err);
void    df_sigint_guard(bool on);
/* A line about what is going on, on standard error, which is a terminal: it is below the cursor, and
 * below what df.print writes, until it is wiped away (NULL or ""). */
void    df_status_line(const char *text);

/* Counters, of the session since it began (s) or of one run (r): see the names. */
typedef struct df_stats {
  int64_t runs, nodes_run, dead_tokens, frames, iterations, stack_pushes, stack_pops;
} df_stats;
void df_session_stats(df_session *s, df_stats *out);
void df_run_stats(df_run *r, df_stats *out);
int32_t df_session_plans(df_session *s);            /* plans compiled so far */
/* What became of the loops of the session's plans as machine code, or as graphs of a GPU: a line for each (with which
 * types of variables and how fast, in how many launches, or why not), or the code of those that were compiled. `loop`
 * is the name of one, or NULL for all. Returns how long all of it is. */
typedef enum df_native { DF_NATIVE_SUMMARY = 0, DF_NATIVE_LLVM, DF_NATIVE_MACHINE } df_native;
int32_t     df_session_native(df_session *s, int32_t what, const char *loop, int32_t capacity, char *out);

/* Devices. Each of these gives lines of text, and returns how long all of it is.
 * devices    `KIND memory NAME in_use peak limit`, the host first; of a GPU `gpu NAME launches copies_in copies_out
 *            its name`, and `library NAME what computes with which of CUDA's libraries, or which is missing`
 * placement  where the nodes run that the fetches need: `node TAB op TAB device TAB id TAB why`; -1: there is no such
 *            run, and err says why
 * report     `seconds S`, `memory NAME in_use peak limit`, `transfer FROM -> TO messages bytes dead`, and
 *            `swap bytes_out bytes_in tensors_out tensors_in resident_bytes stall_seconds`, `again iterations`, where a
 *            GPU ran loops `graphs captures entries launches iterations persistent_launches persistent_iterations`, and
 *            of each value that a gradient needs `saved value TAB line TAB policy TAB tensors TAB bytes TAB swapped TAB
 *            let go TAB why`, of a run that is over or of the session since it began */
int32_t df_session_devices(df_session *s, int32_t capacity, char *out);
/* Names that a graph may give a device without a word of its session's, a blank after each: the host's first, then
 * simulated and real accelerators. Its length, as above. */
int32_t df_device_names(int32_t capacity, char *out);
int32_t df_session_placement(df_session *s, int32_t nfetch, const int32_t *fetches, int32_t capacity, char *out,
                             df_error *err);
int32_t df_session_report(df_session *s, int32_t capacity, char *out);
int32_t df_run_report(df_run *r, int32_t capacity, char *out);
/* How long a run that was started with "record=yes" and is over would take on other devices, by the virtual clock.
 * options: words bandwidth=, latency=, speed= (of all simulated devices), parallel_iterations= (of all loops), devices=
 * (as many simulated ones), replace=1 (nodes are placed anew for those devices, by a new plan; else they stay where the
 * run had them). `seconds S`, then of each step of the critical path `op TAB iteration TAB device TAB
 * seconds`; with timeline=1 then of all that takes time, in the order of its beginning, `event TAB number TAB kind TAB
 * node TAB device TAB other device TAB frame TAB iteration TAB begin TAB end TAB bytes TAB number of its cause TAB
 * flops`: kind is work, message or copy (of save = 'swap'). -1: err says why not. */
int32_t df_run_whatif(df_run *r, const char *options, int32_t capacity, char *out, df_error *err);

/* A variable's value in a session: owned (df_value_release), or DF_FAILED_PRECONDITION before it is initialised. */
int32_t df_session_variable(df_session *s, int32_t handle_node, df_value *out, df_error *err);
/* Gives a variable a value in a session, as a run that assigns it would: dtype and shape must be its own. value is
   borrowed. */
int32_t df_session_set_variable(df_session *s, int32_t handle_node, const df_value *value, df_error *err);
/* Where the session's random ops are: in how many runs each has drawn. Writes the first `capacity` of them to nodes and
   times (in runs), and returns how many there are; nodes that are not named have not drawn; node -1 stands for all that
   are not named. A session of a graph built alike that is put there draws what this one would.
   DF_INVALID_ARGUMENT: a node that the graph does not have, or a negative number. */
int32_t df_session_position(df_session *s, int32_t capacity, int32_t *nodes, int64_t *times);
int32_t df_session_seek(df_session *s, int32_t n, const int32_t *nodes, const int64_t *times, df_error *err);
/* Tells a variable how it is initialised: `init` is the output assigned before the first run that needs it. */
int32_t df_variable_set_init(df_graph *g, int32_t handle_node, int32_t init_node, int32_t init_index, df_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
