/* native.h: hot loops as machine code: what the engine asks, and what the files of this folder share.
 *
 * A unit is one loop of a plan with all the loops inside it, and the functions that are called there, or a function
 * alone, for calls that tokens make. analyze.c finds out whether it can be compiled, and under which conditions each of
 * its nodes is alive, analyze_variables.c where its variables lie; write.c writes it down in LLVM's assembly language;
 * compile.c has the plug-in compile that in the background, once per plan; enter.c runs it for a frame and comes back.
 *
 * The state of a loop between two iterations is its variables, its constants and the iteration's number, so native code
 * is entered there, and left there: when the run is to stop, be looked at, or give way, and when something is about to
 * fail. Then the frame stands at the beginning of an iteration, with its variables in their slots, and the token engine
 * goes on. Where that iteration has been begun natively the tokens do it over: its pure nodes compute the same again,
 * and those that had an effect (a write to an array, an inner loop's whole run) are not done a second time but give
 * what they gave: see dfi_replay. So an error is always reported by the token engine, which knows how.
 */
#ifndef DFLOW_NATIVE_H
#define DFLOW_NATIVE_H
#include "engine/engine.h"
#include "base/text.h"

/* ---- for the engine ----------------------------------------------------------------------------- */

/* A plan's loops, and its top level where that is straight, may be compiled from now on. */
void dfi_native_attach(dfi_plan *p);
/* The plan goes. No thread runs it. */
void dfi_native_forget(dfi_plan *p);

/* ---- a unit ------------------------------------------------------------------------------------- */

/* A cell holds eight bytes: a number as it lies in df_value.as, a handle, or where a small tensor's elements lie. What
   it must be when the unit is entered; shape: of a tensor, else NULL. */
typedef struct dfi_cell { uint8_t used, handle, dtype; const dfi_shape *shape; } dfi_cell;
/* Cells of a value that the unit hands back: a tensor's elements lie there one after the other. */
static inline uint32_t dfi_cells(uint8_t dtype, const dfi_shape *tensor) {
  return tensor ? (uint32_t)((dfi_shape_size(tensor) * dfi_dtype_size[dtype] + 7) / 8) : 1;
}

/* number: the cell with the iteration's; its variables follow */
typedef struct dfi_level { int32_t loop; uint32_t number; } dfi_level;
/* loop -1: a node, its values; else all of the loop's exits */
typedef struct dfi_done {
  int32_t level;
  const dfi_pnode *node;
  int32_t loop;
  uint32_t cell;
} dfi_done;
/* A place where the unit is left: which iterations it is in, outermost first, and what effects these have had so far.
   */
typedef struct dfi_site { dfi_level *level; int32_t nlevels; dfi_done *done; int32_t ndone; bool failing; } dfi_site;

/* A loop of a unit; 0 is the outermost. */
typedef struct dfi_nloop {
  const dfi_scope *scope;
  int32_t  parent;
  bool     bursts;               /* many iterations at once: write_burst.c */
  int32_t  nvars;
  struct {
    const dfi_pnode *enter, *next;
    int32_t root;                /* of a handle, or -1 */
    const dfi_shape *shape;      /* of a tensor, or NULL */
    uint32_t at;                 /* its first cell, counted from the number's */
    bool over;                   /* what is next in it is rows written over where it lies: write_move.c */
    bool in_place;               /* of the outermost loop: it lies in the frame's own tensor while the unit runs, too */
  } *var;
  int32_t *exit_root;            /* scope->nexits */
  int32_t *exit_var;             /* scope->nexits; the variable in place that leaves by it, or -1 */
  const dfi_shape **exit_shape;
} dfi_nloop;

/* Cells of variable k of a loop where the unit is left. */
static inline uint32_t dfi_variable_cells(const dfi_nloop *v, int32_t k) {
  return v->var[k].in_place ? 0 : dfi_cells(v->var[k].enter->node->out[0].dtype, v->var[k].shape);
}

/* An array that flows through the unit under many names. */
typedef struct dfi_root { uint32_t cell; bool written; } dfi_root;

/* What a plan's top level hands back: the value in `slot`, which node makes, as it lies from `cell` on. Of a function:
   the call's output `slot`, and its Return. */
typedef struct dfi_result {
  const dfi_pnode *node;
  uint32_t slot, cell;
  uint8_t dtype;
  const dfi_shape *shape;        /* of a tensor, or NULL */
} dfi_result;

/* A call's input that is to be the handle of this variable. */
typedef struct dfi_bound { uint32_t input; dfi_operand variable; } dfi_bound;

/* A kernel that the unit calls. dtype: of its operands; shape: of operands and results, owned; rank 0: a number. cell:
   of an operand that is a variable's handle. */
enum { DFI_CALL_INPUTS = 12, DFI_CALL_OUTPUTS = 8 };
typedef struct dfi_kernel_call {
  const dfi_pnode *node;
  int32_t   loop;
  uint8_t   dtype[DFI_CALL_INPUTS];
  uint32_t  cell[DFI_CALL_INPUTS];
  dfi_operand source[DFI_CALL_INPUTS];       /* of the outermost loop: the captured tensor that it is; ~0: none */
  dfi_shape *shape;
} dfi_kernel_call;

/* Where something of a shape that the graph does not know enters a loop, or is fed. */
typedef struct dfi_open_at { const dfi_pnode *enter; df_output output; uint32_t feed; } dfi_open_at;    /* or NULL */
typedef struct dfi_open { uint32_t n; dfi_open_at at[]; } dfi_open;
typedef struct dfi_sized_output { int32_t node, index; dfi_shape shape; } dfi_sized_output;

typedef enum dfi_unit_state { DFI_UNIT_COLD = 0, DFI_UNIT_WAITING, DFI_UNIT_READY, DFI_UNIT_REFUSED } dfi_unit_state;

/* FINE: as good as it gets. QUICK: made in little time; it is made better when it is used again and again: that is
   WANTED, and then there (BETTER), or nothing comes of it (FINE). */
typedef enum dfi_unit_tier { DFI_TIER_FINE = 0, DFI_TIER_QUICK, DFI_TIER_WANTED, DFI_TIER_BETTER } dfi_unit_tier;

typedef struct dfi_native_frame dfi_native_frame;
typedef struct dfi_ready dfi_ready;
typedef int32_t (*dfi_native_fn)(dfi_native_frame *);
typedef struct dfi_unit {
  const dfi_plan *plan;
  const dfi_scope *scope;
  _Atomic int32_t state;
  _Atomic int32_t heat;          /* how often a look found it running */
  _Atomic int32_t failures;      /* how often it was left because something was about to fail */
  char    *reason;               /* REFUSED: why */
  dfi_text text;                 /* LLVM assembly, the same for the same loop in every process */
  const void **address; uint32_t naddresses;   /* of functions and constants that it uses */
  _Atomic(dfi_native_fn) run;    /* of the better code, where that is there; the other stays: a thread may be in it */
  struct dfi_code *code, *better;      /* compile.c's; better: NULL until it was worth it */
  _Atomic int32_t tier;          /* dfi_unit_tier */
  _Atomic int32_t use;           /* of quick code: see dfi_unit_used */
  double   compile_ms, better_ms;
  bool     from_disk, shared;    /* its code was there before */
  _Atomic int32_t owed;          /* of a function: calls that tokens make before it is tried again */
  /* the cells that it reads when entered: the outermost loop's variables, its constants, then what is given: feeds,
     handles of variables, and (as DFI_FRAME) inputs of a function's call */
  dfi_cell *cell; uint32_t ncells;
  dfi_operand *given; uint32_t ngiven;
  uint32_t nout;                 /* cells that it writes when left or at its end, at most */
  int64_t  arena;                /* bytes for its larger tensors */
  dfi_nloop *loop; int32_t nloops;     /* of a top level, or before a function, one which has no variables */
  dfi_result *result; uint32_t nresults;       /* of a top level, or a function */
  dfi_bound *bound; uint32_t nbound;           /* of a function; owned */
  dfi_root *root; int32_t nroots;
  dfi_site *site; int32_t nsites;      /* it returns 0 at its end, 1 + site where it is left */
  uint32_t narrays;              /* places that read or write an array: see dfi_access */
  /* shape: of a tensor, or NULL; step: of the index, from one iteration to the next, where write_burst.c knows it;
     in_place: what is read may lie anywhere */
  struct { int32_t root; const dfi_pnode *node; const dfi_shape *shape; int64_t step; bool in_place; } *access;
  dfi_kernel_call *call; uint32_t ncalls;
  /* reads of variables; of the handle; recursive: of a call whose callers may still read what they were given */
  struct { const dfi_pnode *node; uint32_t cell; bool recursive; } *peek; uint32_t npeeks;
  struct dfi_unit *next;         /* in the compiler's queue */
  /* met.c: of a loop with shapes that are not known, what is open; its units, one for the shapes met each, and that of
     the frame that came last */
  dfi_open *open;                /* owned; NULL: it has not been looked for */
  struct dfi_unit *other, *latest;
  dfi_shape *met;                /* of such a unit: by `met_at`; owned */
  const dfi_open *met_at;
  dfi_sized_output *sized; int32_t nsized;     /* shapes that follow from these, in order; owned */
} dfi_unit;

/* Where one node reads or writes an array: as much of it as lies in one piece. Native code keeps it in registers; the
   layout is known to write.c. */
typedef struct dfi_access {
  int64_t  low, n;               /* locations low … low + n - 1 */
  char    *data;
  uint8_t *state;                /* of location i: state[(i - low) & mask] */
  int64_t  mask;                 /* 0: the rows of one tensor, which are all written */
  int64_t  after;                /* a read leaves this state */
  int64_t *size;                 /* the array's */
  int64_t  counts;               /* 1: its pushes and pops are counted */
  struct dfi_tensor_array *array;
} dfi_access;

/* What native code is given. Its layout is known to write.c. */
struct dfi_native_frame {
  int64_t  *in, *out;
  int64_t  *count;               /* DFI_COUNT_… */
  int64_t   budget;              /* trips until the next poll */
  int64_t   number;              /* the first iteration's; at the end the last one's */
  dfi_access *access;
  int64_t   value[4];            /* operands of calls */
  int64_t   least;               /* iterations that a burst is worth its while for */
  const void **address;          /* the unit's */
  void     *arena;               /* the unit's bytes, at a multiple of 64 */
  dfi_exec *exec;
  dfi_unit *unit;
  dfi_record *record;
  int64_t   slice;               /* polls so far that others waited at */
  int64_t   polls;
  bool      told;                /* to leave, at a poll */
  dfi_native_fn run;             /* that it is given to */
  df_value *held;                /* npeeks: tensors that variables had when they were read */
  df_value *row;                 /* narrays: the same of tensors that arrays had */
  dfi_ready **ready;             /* ncalls; owned; NULL: none was called yet. kernel.c */
};
enum { DFI_BUDGET = 60000 };     /* units of work until the next poll: some hundred microseconds */
enum {
  DFI_COUNT_TAKEN = 0,
  DFI_COUNT_DIED,
  DFI_COUNT_MERGED,
  DFI_COUNT_ENDED,
  DFI_COUNT_FRAMES,
  DFI_COUNT_ITERATIONS,
  DFI_COUNT_PUSHES,
  DFI_COUNT_POPS,
  DFI_COUNTS
};
enum {
  DFI_AT_IN = 0,
  DFI_AT_OUT = 8,
  DFI_AT_COUNT = 16,
  DFI_AT_BUDGET = 24,
  DFI_AT_NUMBER = 32,
  DFI_AT_ACCESS = 40,
  DFI_AT_VALUE = 48,
  DFI_AT_LEAST = 80,
  DFI_AT_ADDRESS = 88,
  DFI_AT_ARENA = 96
};
_Static_assert(offsetof(dfi_native_frame, value) == DFI_AT_VALUE &&
                   offsetof(dfi_native_frame, access) == DFI_AT_ACCESS &&
                   offsetof(dfi_native_frame, least) == DFI_AT_LEAST &&
                   offsetof(dfi_native_frame, address) == DFI_AT_ADDRESS &&
                   offsetof(dfi_native_frame, arena) == DFI_AT_ARENA,
               "as write.c knows it");

/* What the function is called in the text, until compile.c knows its key. */
#define DFI_SYMBOL "dflow_00000000000000000000000000000000"
/* Looks at the loop and writes it down: fills all of the unit but run and code. False: reason says why not. */
bool dfi_unit_write(dfi_unit *u);
void dfi_unit_free(dfi_unit *u);

/* What native code calls (enter.c). */
int64_t dfi_native_poll(dfi_native_frame *c);                                     /* a new budget; negative: leave */
/* Into value[0], or to where it points for a tensor; that points to where it lies, then, if this may be anywhere. 0: it
   is about to fail. */
int32_t dfi_native_read(dfi_native_frame *c, int64_t access, int64_t i);
/* Of value[0], or what lies where it points. */
int32_t dfi_native_write(dfi_native_frame *c, int64_t access, int64_t i);
/* burst.c: how many iterations, most at most, the n accesses from `access` on are good for, whose indices are index[]
   now. Negative: none; try again after so many. Then `done` of them are told to the arrays. */
int64_t dfi_native_burst(dfi_native_frame *c, int64_t access, int64_t n, const int64_t *index, int64_t most);
void dfi_native_burst_done(dfi_native_frame *c, int64_t access, int64_t n, const int64_t *index, int64_t done);
/* kernels/move.h: dfk_copy_bytes. */
void dfi_native_copy(void *to, const void *from, int64_t bytes);
/* Where element i will lie that this access is to write; `otherwise`: that is not known. */
void *dfi_native_spot(dfi_native_frame *c, int64_t access, int64_t i, void *otherwise);
/* As dfi_native_write, of what the variable had that was read last: the tensor itself, not a copy. */
int32_t dfi_native_write_held(dfi_native_frame *c, int64_t access, int64_t i, int64_t peek);
/* kernel.c: calls a kernel on what lies at in[], and puts its results to out[]; number: of the iterations around it,
   outermost first. 0: it failed, or made something else than was expected. */
/* The variable's value as it is now, to `to`. 0: it is not what was expected, or there is none. */
int32_t dfi_native_peek(dfi_native_frame *c, int64_t peek, void *to);
/* The same of a tensor: where its elements lie, which the frame holds until it asks again. NULL: as above. */
const void *dfi_native_hold(dfi_native_frame *c, int64_t peek);
int32_t dfi_native_call(dfi_native_frame *c, int64_t call, void *const *in, void *const *out, const int64_t *number);
void dfi_native_forget_calls(dfi_native_frame *c);     /* the frame's run is over */

/* enter.c: the arena of a unit as a tensor, owned; false: there is no memory for it. NULL: it needs none. */
bool dfi_native_arena(const dfi_unit *u, df_tensor **arena);

typedef struct dfi_units { int32_t n; dfi_unit unit[]; } dfi_units;      /* a plan's, by scope */

static inline bool dfi_is_function(const dfi_scope *s) { return s->parent == DFI_FUNCTION; }

/* ---- enter.c, for straight.c: fills the cells that the unit reads (false: something is not what it was compiled for);
   what it left in these cells, owned (where there is no memory for it the run has failed); its counts are the run's. */
bool dfi_native_fill(dfi_exec *x, const dfi_unit *u, dfi_frame *f, const dfi_record *r, int64_t *in);
df_value dfi_native_value(dfi_exec *x, const dfi_record *r, const dfi_pnode *p, uint8_t dtype, const dfi_shape *tensor,
                          const int64_t *cell);
void dfi_native_count(dfi_exec *x, int64_t *n);
/* straight.c: the plan's top level may be compiled from now on, where it is straight, and its functions. */
void dfi_straight_attach(dfi_plan *p);

/* ---- tell.c: what became of the plan's loops (of `loop` alone unless it is NULL) is added to the text. what:
   df_native. */
void dfi_native_tell(dfi_plan *p, int32_t what, const char *loop, dfi_text *t);

/* ---- met.c: loops with shapes that the graph does not know -------------------------------------------- */

/* Is there something of such a shape? */
bool dfi_unit_open(dfi_unit *u);
/* The unit of the loop (its own is u) for this frame's shapes. NULL: there is none, and none is made unless it is
   `wanted`, or there are enough. */
dfi_unit *dfi_unit_met(dfi_exec *x, dfi_unit *u, const dfi_frame *f, const dfi_record *r, bool wanted);
static inline dfi_unit *dfi_unit_other(const dfi_unit *u) { return __atomic_load_n(&u->other, __ATOMIC_ACQUIRE); }
/* Fills sized. */
void dfi_unit_infer(dfi_unit *u);
/* An output's shape, as the unit knows it. */
const dfi_shape *dfi_known_shape(const dfi_unit *u, df_output o);
/* What it was made for. */
void dfi_unit_tell_met(const dfi_unit *u, dfi_text *t);

/* ---- compile.c ---------------------------------------------------------------------------------- */

/* The unit of a scope; NULL: there is no native code (the plug-in is missing, or the session wants none). */
dfi_unit *dfi_unit_of(dfi_exec *x, const dfi_scope *s);
/* Has it compiled: in the background, quickly, or here and now. */
typedef enum dfi_wanted { DFI_SOON, DFI_NOW, DFI_NOW_QUICK } dfi_wanted;
void dfi_unit_want(dfi_unit *u, dfi_wanted when);
/* The same for a run whose engine is native. Where engines change at random, so does how good the code is at first. */
static inline void dfi_unit_want_now(dfi_exec *x, dfi_unit *u) {
  dfi_unit_want(u, x->osr && dfi_engine_dice(x) % 2 ? DFI_NOW_QUICK : DFI_NOW);
}
/* Has it compiled once more, in the background, for better code. */
void dfi_unit_improve(dfi_unit *u);
/* It has been entered (1), or has been inside for long (DFI_LONG). */
enum { DFI_LONG = 32, DFI_USED = 64 };
static inline void dfi_unit_used(dfi_unit *u, int32_t n) {
  if (atomic_load_explicit(&u->tier, memory_order_relaxed) == DFI_TIER_QUICK &&
      atomic_fetch_add_explicit(&u->use, n, memory_order_relaxed) >= DFI_USED)
    dfi_unit_improve(u);
}
/* The machine's assembly of a unit that is ready; malloc's, or NULL. */
char *dfi_native_assembly(const dfi_unit *u);

/* ---- what has been done of an iteration that tokens do over ------------------------------------------ */
typedef struct dfi_replay_level {
  int32_t scope;
  uint32_t serial;
  int64_t number;
  bool found;
  df_value *var;
  int32_t nvars;
} dfi_replay_level;
typedef struct dfi_replay_done {
  int32_t level, scope;
  const dfi_pnode *node;
  df_value *value;
  int32_t nvalues;
  bool used;
} dfi_replay_done;
typedef struct dfi_replay {
  struct dfi_replay *next;
  dfi_unit *unit;
  dfi_replay_level *level; int32_t nlevels;
  dfi_replay_done *done; int32_t ndone;
} dfi_replay;
#endif
