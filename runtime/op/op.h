/* op.h: one op, one entry. Everything the library knows about an op is in its entry: the Lua function, the
 * arity and dtype checks, `?matmul`, the shape rule, the gradient, the kernels. A new op is an entry, the
 * functions it names, and a test in spec/. Entries live in runtime/ops/, a family each.
 *
 *   { .type = "MatMul", .lua = "matmul", .in = "a:T b:T", .out = "product:T", .types = "T=float|int32|int64",
 *     .attrs = "transpose_a:bool=false transpose_b:bool=false",
 *     .doc   = "T[m,n] = matmul(a T[m,k], b T[k,n]); transpose_a, transpose_b read that side transposed",
 *     .shape = shape_matmul, .grad = grad_matmul, .cost = cost_matmul,
 *     .kernel = { [DF_REF] = ref_matmul, [DF_CPU] = cpu_matmul } },
 *
 * Grammar. in/out: words `name:TYPE`, where TYPE is a type variable (one capital or a word such as DstT), a dtype
 * name, a union such as `int32|int64`, `handle` (DF_RESOURCE), `any` (all but handles) or `all` (handles too).
 * `name:T*` is a list of any length, all of one dtype; in `any*` and `all*` each element has its own. Lists
 * in `in` are of one length. In `out` `name:T*attr` has as
 * many as the int attribute says, `name:T*` as many as the input list, `name:T*-attr` as many as that less the
 * attribute. Outputs of type `any` or `all` begin with the dtype of input 0 (in a list: of the list's element with the
 * same number); the shape function may change it. `name:T?` may be left out from Lua (the front end then passes the
 * attribute default; used by no kernel: the entry's Lua adapter supplies it).
 * types: words `T=a|b|c` of dtype names or classes: float (float16 bfloat16 float32 float64), int (int8 uint8 int16
 * uint16 int32 uint32 int64 uint64), number (float and int), complex (complex64 complex128), quantized (qint8 quint8
 * qint16 quint16 qint32), any (all but handles), all. A type variable that no input binds is the dtype attribute of
 * that name. A list `name:attr*`, where attr is a `types` attribute, has its dtypes: in `out` as many outputs as it
 * says; in `in` it must say what was given, and says so by itself when it is left out.
 * attrs: words `name:type=default`, type one of int float bool string dtype shape tensor ints types (dtypes) shapes;
 * without a default it must be given. `name:int[1..]=default` and `int[-1..8]` say between which numbers it lies, of
 * `ints[1..]` each of them, and `string[NHWC|NCHW]` which words it may be; a node with another value cannot be made,
 * wherever it comes from. Defaults: ints, types and
 * shapes as `[1,2]` or `[]`, shape as `?` (unknown rank)
 * or `[2,-1]`, string as '' or 'word', dtype as its name or `invalid`, tensor only as `none`.
 */
#ifndef DFLOW_OP_H
#define DFLOW_OP_H
#include "device/work.h"
#include "op/node.h"

enum { DF_REF = 0, DF_CPU = 1, DF_CUDA = 2, DF_DEVICES = 3 };

/* How the executor treats a node. Everything but DF_PLAIN is one of the primitives. */
typedef enum df_flow {
  DF_PLAIN = 0, DF_SWITCH, DF_MERGE, DF_ENTER, DF_EXIT, DF_NEXT_ITERATION, DF_LOOP_COND, DF_CONSTANT, DF_FEED, DF_NO_OP,
  DF_TRIGGER,  /* runs after its control inputs, dead or alive */
  /* functions that call themselves: ops/function_ops.c */
  DF_CALL, DF_FUNCTION_BEGIN, DF_FUNCTION_ARG, DF_FUNCTION_RETURN,
  DF_TRANSFER  /* from device to device; only plans have them: plan/cut.c */
} df_flow;

/* What is asked of an op besides, by plans, gradients, checks and inspectors: each is in its entry, and nowhere is a
   list of names. */
enum {
  DFO_PASSES         = 1 << 0,    /* its output is its first input as it is: plans read the value where that lies */
  /* elementwise or a matter of shapes: to compute it again costs no more than to save and read it */
  DFO_CHEAP          = 1 << 1,
  DFO_CURVE          = 1 << 2,    /* the same, at tens of instructions an element: cheap while there are few */
  DFO_RANDOM         = 1 << 3,    /* draws from the session's generator: another value in each run and iteration */
  /* stateful only so that it is not folded: with the same inputs it gives the same again */
  DFO_REPEATS        = 1 << 4,
  DFO_VARIABLE       = 1 << 5,    /* its one output names a variable of the session */
  DFO_READS_VARIABLE = 1 << 6,    /* gives the variable's value, and does nothing else */
  DFO_GRAD_PASSES    = 1 << 7,    /* the gradient of its first input is that of its output, which may be sparse */
  /* The TensorArray ops, by what they do with the array of input 0. */
  DFO_ARRAY_NEW      = 1 << 8,    /* makes one */
  DFO_ARRAY_GRAD     = 1 << 9,    /* gives its gradient array */
  DFO_ARRAY_FILLS    = 1 << 10,   /* writes locations and hands the array on */
  DFO_ARRAY_TAKES    = 1 << 11,   /* reads locations that it names */
  DFO_ARRAY_WHOLE    = 1 << 12,   /* reads all of it, or its size */
  DFO_RESHAPES       = 1 << 13,   /* its output has the elements of its first input, in their order */
  DFO_ARRAY          = 1 << 14,   /* a TensorArray op: it changes nothing but the array */
  DFO_ARRAY_READS    = 1 << 15,   /* takes the one location that input 1 names */
  DFO_ARRAY_WRITES   = 1 << 16,   /* fills the one location that input 1 names, with input 2 */
  DFO_ARRAY_JOINS    = 1 << 17,   /* its output is the array of any of its inputs */
  /* What a function's call keeps for its gradient: ops on the tape of the call. */
  DFO_TAPE           = 1 << 18,
  DFO_TAPE_LOADS     = 1 << 19,   /* gives the value that was kept in the attributes' function and slot */
  DFO_ADDS           = 1 << 20,   /* its output is the sum of its inputs */
  DFO_SUBTRACTS      = 1 << 21,   /* its output is its first input less its second */
  DFO_STOPS          = 1 << 22,   /* gradients end at it because its author wants that */
  DFO_OWN_GRADIENT   = 1 << 23,   /* its gradient is the user's function of that id, of its first nx inputs */
  DFO_TELLS          = 1 << 24,   /* its output is its first input; besides, it tells the user, first_n times */
  DFO_ASSIGNS        = 1 << 25,   /* a variable becomes its second input, which is its output */
  DFO_BITS           = 1 << 26,   /* its output is the bits of its input: a value of another dtype has others */
  DFO_READS_REFERENCE = 1 << 27,  /* given a reference, it reads the value: the graph puts it where one is wanted */
  DFO_HOST           = 1 << 28,   /* the thread that its function belongs to computes it */
  /* changes the variables whose handles it has, and nothing else: wholly, or, where it fails, not at all */
  DFO_CHANGES        = 1 << 29,
  DFO_DEMANDS        = 1 << 30,   /* stops the run where its first input is false, and does nothing else */
};

/* How its value is known while the graph is built (graph/known_values.c). By default a plain op of constants is
   computed by its kernel. */
enum dfi_fold {
  DFI_FOLD_DEFAULT = 0,
  DFI_FOLD_KERNEL,
  DFI_FOLD_PASS /* input 0 */,
  DFI_FOLD_SHAPE,
  DFI_FOLD_SIZE,
  DFI_FOLD_RANK /* of input 0 */
};

typedef struct dfi_infer dfi_infer;     /* below */
typedef struct dfi_grad  dfi_grad;      /* grad.h */

/* An op as TensorFlow's registry has it: see tensorflow/export_table.c for the words. */
typedef struct dfi_tensorflow_op { const char *in, *out, *attrs; } dfi_tensorflow_op;

/* What the CPU's kernel does with elements that lie where the host cannot read them (base/remote_memory.h). */
typedef enum dfi_remote_use {
  DFI_REMOTE_NO = 0,      /* reads and writes them: a GPU needs a kernel of its own (kernels/cuda/) */
  /* hands references on, or copies by base/remote_memory.h: it runs as it is, with the device's memory */
  DFI_REMOTE_MOVES,
  DFI_REMOTE_LOOKS        /* reads dims alone; what it makes is the host's */
} dfi_remote_use;

typedef struct df_op {
  const char *type, *lua, *in, *out, *types, *attrs, *doc, *example;
  df_flow  flow;
  uint32_t traits;        /* DFO_*: above */
  uint8_t  fold;          /* enum dfi_fold */
  bool     stateful;      /* reads or changes something beyond its inputs: never folded, merged or pruned in a body */
  bool     effect;        /* changes something (assign, print, assert, enqueue): in a body it runs in program order */
  /* reads what others change: in a body it keeps its place among the effects (so do reads of variables) */
  bool     ordered;
  bool     expensive;     /* may run long whatever its inputs' size */
  bool     waits;         /* its kernel may return DFK_PENDING, see kernel.h */
  uint8_t  remote;        /* dfi_remote_use */
  /* all that it touches is the host's, in TensorFlow's kernel for GPUs, too: where it is asked to run on one, the host
     runs it */
  bool     hosted;
  uint32_t host_in;       /* bit i, DFI_ALL_IN: input i is read on the host even so (a shape, an axis, an index) */
  uint32_t host_out;      /* bit i: output i is written on the host even so (a count, a length) */
  int32_t  (*shape)(dfi_infer *c);                                                 /* NULL: shapes unknown */
  int32_t  (*grad)(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx);   /* NULL: see no_grad */
  bool     no_grad;       /* its gradient is zero everywhere or meaningless (comparisons, indices): stops silently */
  double   (*cost)(const df_kernel *k);  /* ns; NULL: 1 ns per input element */
  dfi_work *work;         /* flops and bytes for the virtual clock (device/work.h); NULL: an operation per element */
  df_kernel_fn kernel[DF_DEVICES];                                                 /* CPU falls back to REF */
  /* For help, gradient checks and exports; where an entry has none of these, their own tables are asked. */
  const char *output;     /* what .example prints */
  const char *see;        /* Lua names of related ops */
  const char *derivative; /* `x = dy * y; y = …`: Lua of inputs, outputs, attributes and dy; or `none: why`; or words */
  const char *domain;     /* `-0.9 0.9`: where the inputs lie when its gradient is compared with differences */
  const dfi_tensorflow_op *tensorflow;     /* NULL: as export_table.c has it, if it has */
  const char *onnx;       /* the ONNX op of the same inputs and outputs, without attributes */
  df_scalar_fn (*scalar)(const uint8_t *in_dtypes, uint8_t out_dtype);             /* NULL, or may return NULL */
  int32_t  (*check)(dfi_infer *c);  /* extra build-time checks; may be NULL */
} df_op;

/* A table of entries, registered at load. */
typedef struct dfi_op_table { const df_op *ops; int32_t n; } dfi_op_table;
/* The families, one table each in ops/ (and check/trace.c). */
#define DFI_OP_TABLES(X) \
  X(flow) X(state) X(math) X(reduce) X(nn) X(array) \
  X(index) X(random) X(tensor_array) X(linalg) X(decompose) X(grad) X(convert) \
  X(string) X(v1) X(segment) X(blocks) X(search) X(window) \
  X(function) X(host) X(array_v3) X(ref) X(train) X(resource) X(lstm) \
  X(list) X(sparse) X(sparse_tensor) X(ragged) X(optional) X(unknown) X(batch_norm) X(checkpoint) X(queue) \
  X(stack) X(table) X(trace) X(elementwise) X(candidate) X(summary) X(quantize) X(accumulator) \
  X(staging) X(sets) X(bands) X(image) X(files) \
  X(barrier) X(mutex) X(attention) X(ctc) X(example) X(quantized) X(integrals)
#define X(name) extern const dfi_op_table dfi_ops_##name;
DFI_OP_TABLES(X)
#undef X

/* The entry taken apart, made once when the library loads. */
typedef struct dfi_arg {
  char     name[32];
  uint8_t  dtype;                      /* the one dtype it has, or DF_INVALID */
  int8_t   var;                        /* its type variable, or -1 */
  bool     list, optional;
  bool     ref;                        /* an input that wants the reference itself, an output that is one: `name:&T` */
  int16_t  types_attr;                 /* the attribute that lists the dtypes, or -1 */
  int16_t  count_attr;                 /* an output list: attr index; -1: as the input list; -2 - a: that less attr a */
  uint64_t allowed;                    /* without a variable: bit per dtype number */
  const char *said; int32_t nsaid;     /* its type, in the entry's words: `T`, `int32|int64` */
} dfi_arg;
typedef struct dfi_attr_def {
  char name[40];
  char type; /* i f b s d h(shape) t l(ints) y(types) p(shapes) */
  bool required, bounded;
  int64_t low, high;                   /* bounded: of the int, or of each of the ints */
  char choices[80];                    /* bounded: the words that a string may be, with `|` between */
  df_attr value;
  const char *said; int32_t nsaid;     /* its default, in the entry's words */
} dfi_attr_def;
typedef struct dfi_op_info {
  const df_op *op;
  int32_t  id;
  int32_t  nin, nout, nattr, nvar;     /* args, not outputs of a node */
  bool     in_list;                    /* there is a list among them */
  bool     out_list;                   /* a list is among them */
  bool     in_types;                   /* an attribute lists the dtypes of a list of inputs */
  int32_t  lists;                      /* how many: all of one length */
  bool     needs_attr;                 /* an attr without a default */
  bool     bounds_attr;                /* an attr with bounds */
  uint32_t traits;                     /* the entry's */
  uint8_t  fold;                       /* how constants are known while building: enum dfi_fold, fold.c */
  df_attr *defaults;                   /* nattr; what a node without attributes of its own points at */
  dfi_arg  in[18], out[12];
  dfi_attr_def attr[16];
  struct {
    char name[24];
    uint64_t allowed;                  /* bit per dtype number */
    int8_t attr;
    const char *said; int32_t nsaid;   /* in the entry's words; NULL: it is named as an attribute alone */
  } var[8];
  _Atomic(char *) parts;               /* dfi_op_parts, from the first call on */
} dfi_op_info;
/* parts.c: the entry taken apart, as df_op_about(op, "parts") has it. Owned. */
char *dfi_op_parts(const dfi_op_info *o);
/* `int`, `shape`: what the grammar calls an attribute of type `i`, `h`. */
const char *dfi_attr_word(char type);
const dfi_op_info *dfi_op_info_at(int32_t id);              /* borrowed, for ever */
const dfi_op_info *dfi_op_find(const char *type);           /* by type; NULL when there is none */
/* May a node have so many inputs? */
static inline bool dfi_arity_fits(const dfi_op_info *o, int32_t nin) {
  const int32_t single = o->nin - o->lists;
  return !o->in_list ? nin == o->nin : nin >= single && (nin - single) % o->lists == 0;
}
/* How long the lists among nin inputs are; there are such. */
static inline int32_t dfi_list_length(const dfi_op_info *o, int32_t nin) {
  return (nin - o->nin + o->lists) / o->lists;
}
/* The argument of the entry that input i of a node with nin inputs is one of: a list's, or its own. */
static inline const dfi_arg *dfi_input_arg(const dfi_op_info *o, int32_t nin, int32_t i) {
  const dfi_arg *a = o->in;
  if (!o->in_list) return a + i;
  const int32_t length = dfi_list_length(o, nin);
  for (int32_t count; i >= (count = a->list ? length : 1); a++) i -= count;
  return a;
}
/* How many outputs of a node with nin inputs and these attributes the entry's argument a is: one, or its list's. */
int64_t dfi_output_count(const dfi_op_info *o, const dfi_arg *a, int32_t nin, const df_attr *attrs);
/* The argument of the entry that output i of n is one of. */
const dfi_arg *dfi_output_arg(const df_node *n, int32_t i);
/* Does input i of n want the reference itself (`name:&T`) and not the value it refers to? */
bool dfi_input_is_reference(const df_node *n, int32_t i);
bool dfi_op_takes_reference(const dfi_op_info *o, int32_t nin, int32_t i);         /* a node of op o with nin inputs */
static inline bool dfi_has_trait(const df_node *n, uint32_t traits) {
  return (dfi_op_info_at(n->op)->traits & traits) != 0;
}
static inline bool dfi_is_variable(const df_node *n) { return dfi_has_trait(n, DFO_VARIABLE); }
/* Does it fill one location and hand the array on? TensorFlow's newer writes hand on a flow. */
static inline bool dfi_writes_array(const df_op *op) {
  return op->traits & DFO_ARRAY_WRITES && op->traits & DFO_ARRAY_FILLS;
}
int32_t dfi_op_attr_index(const dfi_op_info *o, const char *name);  /* -1 when there is none */

/* ---- shape inference: what a .shape function is given. Output dtypes are filled before it is called. ------------ */
struct dfi_infer {
  df_graph *graph;
  df_node  *node;            /* inputs and attrs are final; outputs are being made */
  df_error *error;
};
static inline const dfi_shape *dfi_in_shape(const dfi_infer *c, int32_t i) {
  return &c->node->in[i].node->out[c->node->in[i].index].shape;
}
static inline uint8_t dfi_in_dtype(const dfi_infer *c, int32_t i) {
  return c->node->in[i].node->out[c->node->in[i].index].dtype;
}
static inline dfi_shape *dfi_set_shape(dfi_infer *c, int32_t i)   { return &c->node->out[i].shape; }
static inline char *dfi_in_text(const dfi_infer *c, int32_t i, char *text) {      /* "float32[2,3]" */
  return dfi_typed_shape_text(dfi_in_dtype(c, i), dfi_in_shape(c, i), text);
}
/* What the shape function and the check of n say of inputs as they are when it runs: true where they refuse them, and
 * err has their words, without the op's type. So what is wrong with an argument is worded once, whenever it is known.
 * in: n's inputs, borrowed; NULL or what the host cannot read is not looked at. Any thread. */
bool dfi_infer_refuses(const df_node *n, const df_tensor *const *in, df_error *err);
/* The value of input i where it is known while building (a Const, or small integer arithmetic, Shape, Pack of such);
 * NULL otherwise. Borrowed. */
const df_tensor *dfi_in_const(const dfi_infer *c, int32_t i);
/* The input as a shape: from its constant, or partly known (a Pack of constants and unknowns, Shape of a partly known
   shape). Unknown rank when nothing is known. */
dfi_shape dfi_in_as_shape(const dfi_infer *c, int32_t i);
/* DF_INVALID_ARGUMENT */
int32_t dfi_infer_fail(dfi_infer *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ready-made .shape functions. */
int32_t dfi_shape_same(dfi_infer *c);        /* every output as input 0 */
int32_t dfi_shape_binary(dfi_infer *c);      /* broadcast of inputs 0 and 1; error names both shapes */
int32_t dfi_shape_ternary(dfi_infer *c);     /* broadcast of inputs 0, 1 and 2 */
int32_t dfi_shape_equality(dfi_infer *c);    /* as binary; a scalar where attribute 0 allows shapes that do not fit */
int32_t dfi_shape_all_scalar(dfi_infer *c);
#endif
