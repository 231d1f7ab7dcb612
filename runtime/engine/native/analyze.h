/* analyze.h: what analyze.c finds out about a unit, for write.c. */
#ifndef DFLOW_ANALYZE_H
#define DFLOW_ANALYZE_H
#include "engine/native/native.h"

typedef struct dfi_name { char s[64]; } dfi_name;      /* a value of the assembly: `%t12`, or a number */

/* A condition: `parent` holds, and pred is `side`. Condition 0 always holds; the others come in pairs, side 0 first. */
typedef struct dfi_guard { int32_t parent; uint8_t side; bool begun; dfi_operand pred; } dfi_guard;

typedef struct dfi_analyze_node {
  int32_t missing;               /* tokens that have not come */
  int32_t guard;                 /* the condition under which it is alive */
  int32_t input[2];              /* of a Merge: the conditions of its inputs, or -1 */
  bool    written;
  bool    called;                /* its kernel is called */
  bool    row;                   /* it is a row of a tensor: write_row.c */
  bool    moves;                 /* it only puts elements elsewhere: write_move.c */
  struct dfi_boxes *boxes;       /* owned: it does so by a rule that no value changes: write_box.c; NULL: it does not */
  bool    over;                  /* its rows are written where a variable lies, when the iteration is over */
  uint8_t sides;                 /* of a Merge: the inputs that were written, as bits */
} dfi_analyze_node;

typedef struct dfi_analyze_loop {
  const dfi_scope *scope;
  const dfi_pnode *nodes;        /* the scope's */
  int32_t  parent;               /* -1: the outermost, or a function */
  int32_t  home;                 /* the function that it is in, or is; 0: none */
  bool     active, recursive;    /* of a function: it is being looked at; it may call itself, through others perhaps */
  const dfi_pnode *result;       /* of a function: its Return */
  dfi_operand *variable;         /* of a function: by argument, the variable's handle that all calls give it, or ~0 */
  int32_t  guard_in_parent;      /* the condition under which it runs */
  int32_t  enters_missing;
  bool     written;
  int32_t  calls;                /* of kernels and functions */
  dfi_analyze_node *node;        /* scope->n */
  dfi_guard *guard; int32_t nguards;
  int32_t  go_on;  /* the condition under which there is another iteration; the one before it: it is the last */
  uint8_t *slot_dtype;           /* nslots; 0: it is not written */
  int32_t *slot_root;            /* nslots; of a handle: the array, or -1 */
  int32_t *slot_copy;            /* nslots; the plan's constant that lies there, or -1 */
  const dfi_shape **slot_shape;  /* nslots; of a tensor; NULL: it is a number or a handle */
  /* nslots; it is a captured tensor, or a function's argument, of any size, which stays where it is */
  uint8_t *slot_far;
  uint8_t *slot_bare;            /* nslots; it has no room: it is another name, or lies in a tensor of the frame's */
  uint8_t *const_dtype; int32_t *const_root;     /* nconsts */
  const dfi_shape **const_shape;
  /* write.c: what a tensor's elements are called where that is not the name of its own place; else "". After a `*`: the
     cell that says where they lie */
  dfi_name *slot_alias, *const_alias;
} dfi_analyze_loop;

typedef struct dfi_look {
  dfi_unit *unit;
  const dfi_plan *plan;
  dfi_analyze_loop *loop; int32_t nloops;
  dfi_operand *given; uint32_t ngiven;
  dfi_shape **constant_shape;    /* by the plan's constants: owned, of tensors; else NULL */
  int64_t bytes;                 /* of the small tensors of an iteration, and of copies that calls and arrays take */
} dfi_look;

/* Elements of a tensor that an iteration makes, and bytes of all, at most. What a loop captures, or carries and only
   writes rows of, may have any size. */
enum { DFI_SMALL = 65536, DFI_SMALL_ROOM = 8 << 20 };
enum { DFI_DIRECT = 64 };          /* elements of a tensor that is not worth registers: calls take it where it lies */
/* The shape, if it is known and a tensor of that dtype numbers; NULL. Small: and a tensor of it is small. */
const dfi_shape *dfi_sized(uint8_t dtype, const dfi_shape *s);
const dfi_shape *dfi_small(uint8_t dtype, const dfi_shape *s);
/* The shape of a tensor that an operand of loop i is; NULL: a number, a handle, or something else. */
const dfi_shape *dfi_analyze_shape(const dfi_look *l, int32_t i, dfi_operand o);

/* The shape of p's output k, of its input k, as the unit knows it. */
static inline const dfi_shape *dfi_out_shape(const dfi_look *l, const dfi_pnode *p, int32_t k) {
  return dfi_known_shape(l->unit, (df_output){ p->node, k });
}
static inline const dfi_shape *dfi_input_shape(const dfi_look *l, const dfi_pnode *p, uint32_t k) {
  return dfi_known_shape(l->unit, p->node->in[k]);
}

/* Why the unit cannot be compiled; the first reason stays. Returns false. */
bool dfi_unit_refuse(dfi_unit *u, const dfi_pnode *p, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool dfi_analyze_at(dfi_look *l);
void dfi_analyze_free(dfi_look *l);
/* analyze_variables.c: the last part of that, when all nodes have been looked at. */
bool dfi_analyze_variables(dfi_look *l);
/* Does p, of that loop, only hand a tensor on, or write rows of it? Whether it may be large is seen at the end. */
bool dfi_carries(const dfi_look *l, int32_t loop, const dfi_pnode *p);
/* A tensor of p takes room; false: it is refused. */
bool dfi_take_room(dfi_look *l, const dfi_pnode *p, uint8_t dtype, const dfi_shape *s);
/* How many tokens each node of an iteration waits for: fills missing. */
void dfi_analyze_count(dfi_analyze_loop *l, const dfi_plan *p);
/* Is condition `inner` the same as `outer`, or inside it? */
bool dfi_guard_inside(const dfi_analyze_loop *l, int32_t inner, int32_t outer);
/* The place of a feed or a variable's handle among the unit's cells. */
uint32_t dfi_analyze_given(dfi_look *l, dfi_operand o);
/* The node that is the function's argument of this number. */
const dfi_pnode *dfi_argument_of(const dfi_analyze_loop *f, uint32_t argument);
/* Its place among the unit's cells. */
uint32_t dfi_analyze_variable_cell(dfi_look *l, const dfi_pnode *p, uint32_t k);
/* The array that an operand of loop i is; -1: it is none. */
int32_t dfi_analyze_root(dfi_look *l, int32_t i, dfi_operand o);
/* write_op.c: can the node's arithmetic be written? */
bool dfi_op_known(const dfi_pnode *p);
/* write_tensor.c: can the node be written, of whose operands and result some are small tensors? */
bool dfi_tensor_op_known(const dfi_look *l, int32_t i, const dfi_pnode *p);
/* write_kernel.c: can its kernel be called? */
bool dfi_call_known(const dfi_look *l, int32_t i, const dfi_pnode *p);
/* write_row.c: is it a row of a tensor that is read in place? */
bool dfi_row_known(const dfi_look *l, int32_t i, const dfi_pnode *p);
/* write_move.c: does it only put elements elsewhere, in a way that can be written? */
bool dfi_move_known(const dfi_look *l, int32_t i, const dfi_pnode *p);
/* Does it put rows over those of its first input? */
bool dfi_scatter_known(const dfi_look *l, int32_t i, const dfi_pnode *p);
/* The node that makes o in an iteration of loop c; NULL: o is one of the loop's variables, or comes from outside. */
const dfi_pnode *dfi_maker_of(const dfi_analyze_loop *c, dfi_operand o);
/* write_box.c: by which rule p puts elements elsewhere, whatever they are; owned. NULL: there is none. */
struct dfi_boxes *dfi_boxes_of(const dfi_look *l, int32_t i, const dfi_pnode *p);
/* The value that operand o of loop i always has, borrowed; NULL: it is not known. */
const df_value *dfi_constant_of(const dfi_look *l, int32_t i, dfi_operand o);
/* The integer that operand o of loop i always is; false: it is not known. */
bool dfi_whole_constant(const dfi_look *l, int32_t i, dfi_operand o, int64_t *c);
/* Its output is its first input, perhaps with another shape. */
bool dfi_is_alias(const dfi_pnode *p);
static inline bool dfi_is_read(const dfi_pnode *p)  { return p->op->traits & DFO_ARRAY_READS; }
static inline bool dfi_is_write(const dfi_pnode *p) { return dfi_writes_array(p->op); }
static inline bool dfi_is_change(const dfi_pnode *p) { return p->op->traits & DFO_CHANGES; }
/* Where a call would keep what its gradient needs: nothing, where its calls' tapes are not read. */
static inline bool dfi_is_tape(const dfi_pnode *p) { return p->op->traits & DFO_TAPE && !p->nin && p->nout; }
static inline bool dfi_is_demand(const dfi_pnode *p) { return p->op->traits & DFO_DEMANDS; }
/* Is it computed under a condition within an iteration, that of a cond? */
static inline bool dfi_in_branch(const dfi_analyze_loop *l, const dfi_pnode *p) {
  const int32_t g = l->node[p - l->nodes].guard;
  return g != 0 && g != l->go_on && g != l->go_on - 1;
}
static inline int32_t dfi_loop_of(const dfi_look *l, uint32_t scope) {
  for (int32_t i = 0; i < l->nloops; i++) if ((uint32_t)l->loop[i].scope->id == scope) return i;
  return -1;
}
#endif
