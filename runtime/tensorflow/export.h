/* export.h: a graph as TensorFlow's GraphDef.
 *
 * Every node that is needed becomes one NodeDef of the same op, or a few whose last has the node's name, so that output
 * i of a node is `name:i` on both sides. What needs more words than the table of TensorFlow's ops has is in
 * export_op.c; TensorArrays, which are one value here and a handle and a flow there, are in export_array.c.
 */
#ifndef DFLOW_EXPORT_H
#define DFLOW_EXPORT_H
#include "tensorflow/functions.h"
#include "op/op.h"

/* Ops of TensorFlow that have the same arguments and attributes, by their names: see export_table.c. */
typedef struct dfi_export_row { dfi_tensorflow_op op; const char *types; } dfi_export_row;
extern const dfi_export_row dfi_export_table[];
extern const int32_t dfi_export_table_size;

/* An attribute that takes fewer dtypes in TensorFlow, in these ops: bit n is dtype n. */
typedef struct dfi_export_narrow { const char *attr; uint32_t dtypes; const char *types; } dfi_export_narrow;
extern const dfi_export_narrow dfi_export_narrows[];
extern const int32_t dfi_export_narrows_size;

/* One NodeDef: the context it lies in, and how many outputs TensorFlow's op has. */
typedef struct dfi_export_place { df_context *context; int32_t outputs; const df_node *node; } dfi_export_place;

/* A variable: what is said of it, and, once they are written, the names of what gives it its value and of a read of it.
   */
typedef struct dfi_export_variable {
  df_node *node;
  bool trainable;
  const df_tensor *value;       /* borrowed; NULL: not given */
  const char *initializer, *initial, *snapshot;      /* NULL: there is none */
} dfi_export_variable;

typedef struct dfi_export {
  df_graph     *graph;
  df_error     *err;
  dfi_graphdef *d;              /* the arena */
  dfi_lower     l;              /* the nodes so far */
  dfi_export_place *place;      /* as many as l.n; owned */
  size_t        place_cap;
  const df_node *current;       /* the node that is being written */
  df_node     **need; int32_t nneed, need_cap;    /* owned; in no order */
  uint8_t      *needed;         /* by id; owned */
  const char  **name;           /* by id: the name in the GraphDef, or NULL */
  uint8_t      *array;          /* by id: is its handle a TensorArray's? dfi_export_is_array */
  /* by id, of a Merge: the arrays that come together there are not one; and of what brings them there */
  bool         *moves;
  df_output    *element;        /* by id, of what makes an array: a handle that is written to it, or none */
  const dfi_shape **element_shape;      /* by id, of the same: the shape of what is written to it; NULL: nothing is */
  uint8_t      *recursive;      /* by the function's id: 2: it calls itself, 1: it does not, 0: not asked yet */
  const char  **taken; uint32_t ntaken, taken_mask;   /* names; open addressing; owned */
  struct { const df_node *node; const char *why; } *refused; int32_t nrefused, refused_cap;   /* owned */
  dfi_export_variable *variable; int32_t nvariable;                     /* owned */
  bool          frozen;         /* variables are constants */
  bool          failed;
} dfi_export;
/* Zeros that live as long as the GraphDef. */
static inline void *dfi_export_take(dfi_export *e, size_t bytes) {
  return memset(dfi_arena_take(&e->d->arena, bytes), 0, bytes);
}

/* ---- export.c ------------------------------------------------------------------------------------------ */
/* Starts a NodeDef in the context of the current node. `outputs`: how many TensorFlow's op has. */
Pb__NodeDef *dfi_export_node(dfi_export *e, const char *op, const char *name, int32_t outputs);
/* As printf, and not taken yet. */
const char  *dfi_export_name(dfi_export *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* How an input that is this output is written. */
const char  *dfi_export_ref(dfi_export *e, df_output o);
/* The current node cannot be written. `why` lives as long as the export. */
void         dfi_export_refuse(dfi_export *e, const char *why);
/* The control edges of the current node; hang: something in a context that has no token of its own waits for the
   context's pivot. */
void         dfi_export_controls(dfi_export *e, Pb__NodeDef *n);
void         dfi_export_hang(dfi_export *e, Pb__NodeDef *n);
/* A new Const beside the current node, which hangs on its context; its name. */
const char  *dfi_export_ints(dfi_export *e, const char *name, uint8_t dtype, int32_t rank, int32_t n, const int64_t *v);
const char  *dfi_export_number(dfi_export *e, const char *name, uint8_t dtype, double v);
/* export_attr.c */
void dfi_export_tensor(dfi_export *e, Pb__NodeDef *n, const char *key, const df_tensor *t);
void dfi_export_shape(dfi_export *e, Pb__NodeDef *n, const char *key, int32_t rank, const int64_t *dims);
/* Says what shape a Merge has: TensorFlow would have to see the loop's other side to know. */
void dfi_export_output_shapes(dfi_export *e, Pb__NodeDef *n, const dfi_shape *first);
/* All attributes, inputs and controls of the current node, as the table has them. */
void dfi_export_plain(dfi_export *e, const char *type, const char *name);       /* as TensorFlow's op of this type */
/* Refuses nodes of dtypes that TensorFlow's ops do not take. */
void dfi_export_check_dtypes(dfi_export *e);
/* export_device.c: where the nodes, which are all written, were asked to run. */
void dfi_export_devices(dfi_export *e);
/* export_op.c: writes the node in its own way; false: it has none. */
bool dfi_export_special(dfi_export *e, const df_node *n);
/* export_array.c */
bool dfi_export_is_array(dfi_export *e, df_output o);
void dfi_export_find_elements(dfi_export *e);                     /* fills element and element_shape */
void dfi_export_arrays_meet(dfi_export *e);                       /* fills moves */
bool dfi_export_array_node(dfi_export *e, const df_node *n);      /* false: it has nothing to do with arrays */
const char *dfi_export_array_handle(dfi_export *e, df_output o);
const char *dfi_export_array_flow(dfi_export *e, df_output o);
df_node *dfi_export_array_made(const dfi_export *e, df_output o);  /* what made the array, by the first of its ways */
void dfi_export_enter_attrs(dfi_export *e, Pb__NodeDef *def, const df_node *enter, bool constant);
/* export_function.c */
dfi_function *dfi_export_function_of(const df_context *c);        /* in whose body c lies; NULL: in none */
/* Names what n needs beside its inputs: a call its function, a load of a tape the save. */
void dfi_export_need_function(dfi_export *e, const df_node *n, void (*need)(dfi_export *e, df_node *n));
bool dfi_export_is_tape(const dfi_export *e, df_output o);
const char *dfi_export_tape_handle(dfi_export *e, df_output tape, int32_t i);     /* of its slot i */
/* How many handles an element of the array is; -1: its elements are no tapes. */
int32_t dfi_export_element_handles(const dfi_export *e, df_output array);
/* A NoOp under the name of the current node, whose tape has so many handles under names of their own. */
void dfi_export_stands_for(dfi_export *e, int32_t handles);
int32_t dfi_export_handles(const dfi_export *e, df_output o);     /* how many handles a tape is; 0: it is none */
int32_t dfi_export_kept(const dfi_export *e, const df_node *ret); /* how many slots of its tape a function returns */
/* The value that a FunctionLoad reads or that a captured argument is outside; none of others. */
df_output dfi_export_behind(const dfi_export *e, const df_node *n);
bool dfi_export_function_node(dfi_export *e, const df_node *n);   /* false: it has nothing to do with functions */
const char *dfi_export_function_name(dfi_export *e, const dfi_function *f);
/* Moves what lies in functions into FunctionDefs, in the arena; NULL: there are none. */
Pb__FunctionDefLibrary *dfi_export_library(dfi_export *e);
/* export_variable.c */
/* what a variable begins with, or is; NULL: not given */
const df_tensor *dfi_export_value(const dfi_export *e, const df_node *n);
int32_t dfi_export_dtype(const dfi_export *e, df_output o);  /* a frozen variable's handle has the dtype of its value */
/* by id: what changes variables, and all that depends on it */
void dfi_export_mark_changes(const dfi_export *e, bool *left_out);
bool dfi_export_frozen_node(dfi_export *e, const df_node *n);                 /* false: it is written as any */
void dfi_export_init(dfi_export *e);                                          /* the operation `init` */
void dfi_export_snapshots(dfi_export *e);  /* a read of each variable, for the collections */
/* in the arena; NULL: it is in no collection */
Pb__VariableDef *dfi_export_variable_def(dfi_export *e, const dfi_export_variable *v);
/* export_context.c: a MetaGraphDef with the graph and its contexts, in the arena. */
Pb__MetaGraphDef *dfi_export_meta(dfi_export *e, Pb__GraphDef *graph);
/* export_text.c: the message in text form, uint8; owned. NULL: err is filled. */
df_tensor *dfi_export_text(const ProtobufCMessage *m, df_error *err);
#endif
