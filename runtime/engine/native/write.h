/* write.h: what the files that write assembly share. write.c begins; below it write_loop.c and write_block.c call one
 * another as loops and conds lie in one another, and the others write one node, a value, or a way out.
 */
#ifndef DFLOW_WRITE_H
#define DFLOW_WRITE_H
#include "engine/native/analyze.h"

typedef struct dfi_writer {
  dfi_look *look;
  dfi_unit *unit;
  dfi_text  decl, body, tail;       /* the entry block, what follows, and the ways out */
  dfi_text  first;                  /* before the entry block's rest */
  dfi_text  outside;                /* declarations */
  dfi_text  scopes;                 /* what arrays do not overlap */
  int32_t   ntemp, nlabel, nopaque;
  dfi_done *done; int32_t ndone;    /* effects so far of the iterations that stand open where it writes */
  uint32_t  nout;
  int32_t   lanes;                  /* write_op.c writes of so many elements at once; 0: of a number */
  bool      dry;                    /* nothing is kept of what is written: can it be? */
  int32_t   function;               /* the function that it writes; 0: the unit itself */
  int64_t   stack;                  /* bytes of its tensors there */
  bool      calls;                  /* it met an op that is called by its address */
  bool      burst;                  /* it writes many iterations at once: write_burst.c */
  bool      spoils;                 /* something in the burst may fail */
  bool      parallel;               /* nothing is carried from one iteration of the burst to the next */
  bool      wide;                   /* there is a burst over arrays that is parallel */
  uint32_t  first_array;            /* of the loop that the burst is of */
  char      type[8][32]; int32_t ntypes;      /* dfi_lanes' answers */
} dfi_writer;

#define SAY(w, ...)  dfi_text_add(&(w)->body, __VA_ARGS__)
#define DECL(w, ...) dfi_text_add(&(w)->decl, __VA_ARGS__)
#define TAIL(w, ...) dfi_text_add(&(w)->tail, __VA_ARGS__)

/* ---- write_value.c ---- */
/* Room for n elements under this name: on the stack, or, of many, in the unit's arena, which all calls of a function
   share. */
void dfi_write_room(dfi_writer *w, const char *name, uint8_t dtype, int64_t n);
void dfi_write_shared_room(dfi_writer *w, const char *name, uint8_t dtype, int64_t n);
/* How a number of this dtype lies in memory. */
const char *dfi_type(uint8_t dtype);
dfi_name dfi_temp(dfi_writer *w);
/* The same of as many as w->lanes says: `<8 x float>`. Stays for a few calls. */
const char *dfi_lanes(dfi_writer *w, uint8_t dtype);
/* Where something lies in this process: a function, a constant's elements. The assembly takes it from a list, so that
   it is the same in others. */
dfi_name dfi_write_address(dfi_writer *w, const void *at);
/* A function that the assembly uses, declared once. */
void dfi_declare(dfi_writer *w, const char *declaration);
/* The value of an operand of loop i, and its dtype; of a small tensor where its elements lie. */
dfi_name dfi_write_operand(dfi_writer *w, int32_t i, dfi_operand o, uint8_t *dtype);
/* Copies n elements. */
void dfi_write_copy(dfi_writer *w, uint8_t dtype, int64_t n, const char *to, const char *from);
/* Where element `index` from there on lies. */
dfi_name dfi_element_at(dfi_writer *w, uint8_t dtype, const char *from, const char *index);
/* A loop from 0 to n - 1: its head, and the number of this trip, e; its end. */
typedef struct dfi_counted { int32_t label; dfi_name cell, e; } dfi_counted;
dfi_counted dfi_count_from(dfi_writer *w);
void dfi_count_to(dfi_writer *w, const dfi_counted *c, int64_t n);
/* The number that lies in a cell. */
dfi_name dfi_write_load(dfi_writer *w, uint8_t dtype, const char *cell);
/* What the place of a slot is called, whatever lies there. */
dfi_name dfi_write_place(int32_t loop, uint32_t slot);
/* For a way out: where a slot's value lies, there, or where a tensor was found that it is another name for. */
dfi_name dfi_write_where(dfi_writer *w, int32_t loop, uint32_t slot);
/* The slot of `loop` gets a copy of v, a number or a small tensor. */
void dfi_write_store(dfi_writer *w, uint8_t dtype, dfi_name v, int32_t loop, uint32_t slot);
/* The same where what v is, a tensor, does not change while the slot can be read: another name for it. */
void dfi_write_alias(dfi_writer *w, uint8_t dtype, dfi_name v, int32_t loop, uint32_t slot);
/* What another name for the operand is; also what dfi_write_operand says, where it is a number. */
dfi_name dfi_write_name(dfi_writer *w, int32_t i, dfi_operand o, uint8_t *dtype);
/* From here on the slot's value, a tensor, lies at `where`: another side of a cond may say otherwise. */
void dfi_write_point(dfi_writer *w, int32_t loop, uint32_t slot, dfi_name where);

/* ---- write_loop.c, write_block.c, write_array.c, write_burst.c ---- */
/* The cells of loop i. */
void dfi_write_declare(dfi_writer *w, int32_t i);
/* Of what several iterations share (plan/invariant.c): flags of the nodes of loop i, which say that it is there; and it
   is there no more, as `loop` begins anew. */
void dfi_write_flags(dfi_writer *w, int32_t i);
void dfi_write_forget_shared(dfi_writer *w, int32_t loop);
/* write_move.c: a node that only puts elements elsewhere. */
void dfi_write_move(dfi_writer *w, int32_t i, const dfi_pnode *p);
/* write_box.c: the same, by a rule that no value changes. */
void dfi_write_boxes(dfi_writer *w, int32_t i, const dfi_pnode *p, const struct dfi_boxes *b);
/* The iteration is over: rows go to `to`, where the variable lies of which `next` is the next value. */
void dfi_write_over(dfi_writer *w, int32_t i, dfi_operand next, const char *to);
/* Room for what loop i keeps of such rows until then. */
void dfi_write_places(dfi_writer *w, int32_t i);
/* write_row.c: an index as i64; the same where it is one of an axis of n: where it is outside the unit is left. */
dfi_name dfi_write_wide(dfi_writer *w, dfi_name index, uint8_t dtype);
dfi_name dfi_write_checked(dfi_writer *w, int32_t i, dfi_name index, uint8_t dtype, int64_t n);
/* The loop, from its head to its Exits; a plan's top level. */
void dfi_write_loop(dfi_writer *w, int32_t i);
void dfi_write_top(dfi_writer *w);
/* What dead tokens there were is counted from here on; this iteration is done, and they count. */
void dfi_write_begin(dfi_writer *w, int32_t i);
void dfi_write_commit(dfi_writer *w, int32_t i);
/* The next iteration's variables. */
void dfi_write_next(dfi_writer *w, int32_t i);
/* Is it the place of a variable of loop i, which the next iteration's value is put to? */
bool dfi_is_loop_variable(const dfi_nloop *v, int32_t i, dfi_name name);
/* Can many iterations of the loop be run at once? Its accesses to arrays are to be those from `first` on. They are
   written, as the block burst<i>, which is tried from head<i>; it goes on at head<i> or poll<i>. */
bool dfi_burst_known(const dfi_writer *w, int32_t i);
void dfi_write_burst(dfi_writer *w, int32_t i, uint32_t first, int32_t cost);
/* Read or write p in such a block. */
void dfi_write_burst_array(dfi_writer *w, int32_t i, const dfi_pnode *p);
/* All that is alive under condition g, as far as its inputs are there. */
void dfi_write_block(dfi_writer *w, int32_t i, int32_t g);
/* The tokens of a node that was written: which nodes have all of their inputs now? */
void dfi_write_deliver(dfi_writer *w, int32_t i, uint32_t from, uint32_t to);
/* A predicate as an i1. */
dfi_name dfi_write_truth(dfi_writer *w, int32_t i, dfi_operand pred);
/* A ReadVariableOp. */
void dfi_write_peek(dfi_writer *w, int32_t i, const dfi_pnode *p);
/* Where p's one result is to be made, of more than a few elements: where an array will have it that it is only written
   to, so that it need not be copied; else its place. */
dfi_name dfi_write_destination(dfi_writer *w, int32_t i, const dfi_pnode *p);
/* The unit's access to an array that p is; as many as it has: p has not been written. */
uint32_t dfi_access_of(const dfi_writer *w, const dfi_pnode *p);
/* A TensorArrayRead or a TensorArrayWrite. */
void dfi_write_array(dfi_writer *w, int32_t i, const dfi_pnode *p);

/* ---- write_function.c ---- */
/* A FunctionCall; a function's argument. */
void dfi_write_function_call(dfi_writer *w, int32_t i, const dfi_pnode *p);
void dfi_write_argument(dfi_writer *w, int32_t i, const dfi_pnode *p);
/* The unit is a function: it is called, with what the call was given. */
void dfi_write_entry(dfi_writer *w);
/* The body of a function, with w its own. */
void dfi_write_function(dfi_writer *w);
/* Its first line, with its parameters. */
void dfi_write_signature(dfi_writer *w, dfi_text *t);

/* ---- write_leave.c ---- */
/* Of the nodes under condition g and those inside it: tokens that die when it does not hold, and Exits of loops that
   die with them. */
int64_t dfi_dead_tokens(const dfi_analyze_loop *l, int32_t g);
int64_t dfi_dead_exits(const dfi_writer *w, int32_t loop, int32_t g);
/* n more of `cell` (died, merged, ended) in this iteration of loop i. */
void dfi_write_add(dfi_writer *w, const char *cell, int32_t i, int64_t n);
/* Does it depend on what happens in an iteration how many tokens it has: on conds, or on loops inside? */
bool dfi_tokens_vary(const dfi_writer *w, int32_t i);
/* Adds to t: what loop i has done since it was last said, and the last iteration where it is over. */
void dfi_write_counts(dfi_writer *w, dfi_text *t, int32_t i, bool last);
/* The same of a top level, at its end; of a function, at its end. */
void dfi_write_top_counts(dfi_writer *w);
void dfi_write_function_counts(dfi_writer *w);
/* Were all nodes of the loop, function or top level written? */
void dfi_check_written(dfi_writer *w, int32_t i);
/* A block (label site<k>) that leaves the unit from inside loop i, whose counts have been told unless something fails.
   Returns k. */
int32_t dfi_write_site(dfi_writer *w, int32_t i, bool failing);
/* Leaves the unit where `condition` (an i1) holds: the node of loop i that comes next is about to fail. Of many
   iterations at once: none of them counts then, and what comes next is computed all the same. */
void dfi_write_fail(dfi_writer *w, int32_t i, dfi_name condition);
/* From here on a way out tells that node p of loop i has run, or, p being NULL, that `loop` is over. */
void dfi_write_done(dfi_writer *w, int32_t i, const dfi_pnode *p, int32_t loop);

/* ---- a node's arithmetic ---- */
/* write_tensor.c: a node of whose operands and result some are small tensors. */
void dfi_write_tensor_op(dfi_writer *w, int32_t i, const dfi_pnode *p);
/* The same, if it can be computed in one pass with the others of its group: that is written when all of them are there,
   and then their waiters are told. */
bool dfi_write_in_group(dfi_writer *w, int32_t i, const dfi_pnode *p);
/* write_kernel.c: the node's kernel is called. */
void dfi_write_call(dfi_writer *w, int32_t i, const dfi_pnode *p);
/* write_row.c: a row of a tensor. */
void dfi_write_row(dfi_writer *w, int32_t i, const dfi_pnode *p);
/* The node's result from its operands, which lie as dfi_type says, and so does the result. */
dfi_name dfi_write_op(dfi_writer *w, int32_t i, const dfi_pnode *p, const dfi_name *in, const uint8_t *in_dtype);
bool dfi_is_identity(const dfi_pnode *p);
/* AddN adds one operand after the other: of numbers of this dtype? */
bool dfi_has_sum(uint8_t dtype);
bool dfi_is_sum(const dfi_pnode *p);
dfi_name dfi_write_sum(dfi_writer *w, uint8_t dtype, dfi_name sum, dfi_name more);
#endif
