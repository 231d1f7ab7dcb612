/* persistent_program.c: the program of a loop that is to be one kernel. See persistent_kernel.h.
 *
 * The steps of a body (cudagraph_analyze.c) are gone through in their order, as an iteration would, with values in
 * place of tensors: what is known of one are dtype and dims, and whether tokens would have it as a number of the
 * host's. The CPU computes numbers there, so of such ops only those are taken that cannot differ: they are the
 * rows of kernels/expressions.h on both sides, without functions that a GPU has of its own.
 */
#include "engine/persistent/persistent_kernel.h"
#include "base/remote_memory.h"
#include "engine/engine.h"
#include "engine/token.h"
#include "resource/variable.h"
#include <stdarg.h>

typedef struct maker {
  dfi_exec *x;
  dfi_cudagraph_loop *l;
  const dfi_record *r;
  dfi_persistent_kernel *m;
  char   **why;
  bool     later;                /* it is refused for now */
  int32_t *slot;                 /* by slot: its value; -1: none */
  int32_t *joined;               /* by slot, of a Merge: what its sides give their values to; -1: none did yet */
  bool    *number;               /* by value: tokens have it as a number of the host's */
  bool    *some;                 /* and: they do in some iterations, by the side of a cond that it comes from */
  bool    *on_host;              /* by slot: it was brought to the host, where it is such a number */
  bool     decided;              /* the predicate is known */
} maker;

static bool refuse(maker *k, const dfi_pnode *p, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool refuse(maker *k, const dfi_pnode *p, const char *format, ...) {
  va_list more;
  if (*k->why) return false;
  va_start(more, format);
  *k->why = dfi_engine_reason(p, format, more);
  va_end(more);
  return false;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

static bool takes(uint8_t dtype) {
  switch (dtype) {
  case DF_FLOAT32: case DF_FLOAT64: case DF_FLOAT16: case DF_BFLOAT16: case DF_INT32: case DF_INT64: case DF_INT8:
  case DF_UINT8: case DF_BOOL: return true;
  default: return false;
  }
}

/* Not with these shapes: with others, as another run may have them. */
static int32_t unfit(maker *k, const dfi_pnode *p, const char *why) {
  k->later = true;
  refuse(k, p, "%s", why);
  return -1;
}

/* A list has room for one more where n is no power of two. */
#define GROW(list, n) \
  do { \
    if (((n) & ((n) - 1)) == 0) (list) = dfi_xrealloc(list, sizeof *(list) * (size_t)((n) ? 2 * (n) : 1)); \
  } while (0)

/* -1: it is refused. dims: rank of them. */
static int32_t value_new(maker *k, const dfi_pnode *p, uint8_t dtype, int32_t rank, const int64_t *dims, bool number) {
  dfk_persistent *w = &k->m->program;
  dfk_persistent_value v = { .dtype = dtype, .rank = rank, .size = 1 };
  if (!takes(dtype)) return refuse(k, p, "%s is not part of such a kernel", df_dtype_name(dtype)), -1;
  if (rank > DFK_PERSISTENT_RANK) return refuse(k, p, "it has %d dims", rank), -1;
  for (int32_t d = 0; d < rank; d++) {
    if (dims[d] < 1) return unfit(k, p, "a tensor has no elements");
    if (dims[d] > DFK_PERSISTENT_SIZE / v.size) return refuse(k, p, "a tensor has too many elements"), -1;
    v.dims[d] = (int32_t)dims[d];
    v.size *= v.dims[d];
  }
  GROW(w->value, w->nvalues);
  GROW(k->number, w->nvalues);
  GROW(k->some, w->nvalues);
  k->number[w->nvalues] = k->some[w->nvalues] = number;
  w->value[w->nvalues] = v;
  return w->nvalues++;
}

/* The same, as another step has it. */
static int32_t value_of(maker *k, const dfi_pnode *p, const df_value *v) {
  if (v->kind == DF_SCALAR) return value_new(k, p, v->dtype, 0, NULL, true);
  if (v->kind != DF_TENSOR || !dfk_plain(v->dtype)) return refuse(k, p, "it is neither a number nor a tensor"), -1;
  return value_new(k, p, v->dtype, v->as.tensor->rank, v->as.tensor->dims, false);
}

static bool same_value(const dfk_persistent_value *is, const df_value *v) {
  if (is->dtype != v->dtype || is->number != (v->kind == DF_SCALAR)) return false;
  if (v->kind != DF_TENSOR) return v->kind == DF_SCALAR;
  if (v->as.tensor->rank != is->rank) return false;
  for (int32_t d = 0; d < is->rank; d++) if (v->as.tensor->dims[d] != is->dims[d]) return false;
  return true;
}

df_value dfi_persistent_input_now(const dfi_record *r, const dfi_persistent_input *i) {
  df_value v = { 0 };
  if (!i->read) return *operand(r, i->at);
  if (!dfi_variable_peek(operand(r, i->at), &v)) v.kind = DF_EMPTY;
  return v;
}

/* What an operand is that lies outside of the iteration, or in each one alike. All inputs are found before the first
   step makes anything. */
static int32_t input_new(maker *k, const dfi_pnode *p, dfi_operand o, bool read) {
  dfk_persistent *w = &k->m->program;
  const dfi_persistent_input i = { o, read };
  for (int32_t n = 0; n < w->ninputs; n++)
    if (k->m->input[n].at == o && k->m->input[n].read == read) return w->nvars + n;
  if (w->ninputs == DFK_PERSISTENT_INPUTS) return refuse(k, p, "it has too many constants"), -1;
  df_value v = dfi_persistent_input_now(k->r, &i);
  const int32_t made = value_of(k, p, &v);
  if (read && v.kind != DF_EMPTY) dfi_value_drop(&v);
  if (made < 0) return -1;
  GROW(k->m->input, w->ninputs);
  k->m->input[w->ninputs++] = i;
  w->value[made].number = k->number[made];
  return made;
}

static bool is_held(const maker *k, dfi_operand o) {
  for (uint32_t i = 0; i < k->l->scope->ncopies; i++) if (k->l->scope->copies[i].slot == DFI_INDEX(o)) return true;
  return false;
}
static bool is_outside(const maker *k, dfi_operand o) { return DFI_SPACE(o) != DFI_ITERATION || is_held(k, o); }

static int32_t of_operand(maker *k, const dfi_pnode *p, dfi_operand o) {
  if (is_outside(k, o)) return input_new(k, p, o, false);
  const int32_t v = k->slot[DFI_INDEX(o)];
  return v >= 0 || *k->why ? v : (refuse(k, p, "what it reads is not known"), -1);
}

/* Would tokens have the operand as a number of the host's? */
static bool on_host(const maker *k, dfi_operand o, int32_t v) {
  return k->number[v] || (!is_outside(k, o) && k->on_host[DFI_INDEX(o)]);
}
/* Or might they, in some iterations? */
static bool some_on_host(const maker *k, dfi_operand o, int32_t v) { return k->some[v] || on_host(k, o, v); }

/* ---- steps ------------------------------------------------------------------------------------------------------ */

static dfk_persistent_step *step_new(maker *k, dfk_persistent_do what, int32_t out) {
  dfk_persistent *w = &k->m->program;
  if (w->nsteps == DFK_PERSISTENT_STEPS) return refuse(k, NULL, "it has too many steps"), NULL;
  GROW(w->step, w->nsteps);
  w->step[w->nsteps] = (dfk_persistent_step){ .what = what, .out = out };
  return &w->step[w->nsteps++];
}

/* The dims of what is made of these, by broadcasting. False: they do not fit. */
static bool broadcast(const maker *k, const int32_t *in, int32_t n, int32_t *rank, int64_t *dims) {
  *rank = 0;
  for (int32_t i = 0; i < n; i++) {
    const dfk_persistent_value *v = &k->m->program.value[in[i]];
    if (v->rank > *rank) {
      for (int32_t d = v->rank - 1; d >= 0; d--)
        dims[d] = d >= v->rank - *rank ? dims[d - (v->rank - *rank)] : 1;
      *rank = v->rank;
    }
    for (int32_t d = 0; d < v->rank; d++) {
      int64_t *to = &dims[*rank - v->rank + d];
      if (*to != v->dims[d] && *to != 1 && v->dims[d] != 1) return false;
      if (*to == 1) *to = v->dims[d];
    }
  }
  return true;
}

/* One elementwise step of values; gives the value that it makes, -1: refused. */
static int32_t element_new(maker *k, const dfi_pnode *p, const char *element, const int32_t *in, int32_t n,
                           uint8_t dtype, bool number) {
  int64_t dims[DFK_PERSISTENT_RANK];
  int32_t rank;
  if (!broadcast(k, in, n, &rank, dims)) return unfit(k, p, "shapes do not fit");
  const int32_t out = value_new(k, p, dtype, rank, dims, number);
  dfk_persistent_step *s = out < 0 ? NULL : step_new(k, DFK_PERSISTENT_ELEMENT, out);
  if (!s) return -1;
  s->element = element;
  s->nin = n;
  memcpy(s->in, in, sizeof *in * (size_t)n);
  return out;
}

static bool same_shape(const dfk_persistent_value *a, const dfk_persistent_value *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof a->dims);
}

/* A sum of a list: one after the other. Nothing of it broadcasts. */
static int32_t add_list(maker *k, const dfi_pnode *p, const int32_t *in, int32_t n) {
  int32_t sum = in[0], attr;
  for (int32_t i = 1; i < n; i++)
    if (!same_shape(&k->m->program.value[in[0]], &k->m->program.value[in[i]]))
      return unfit(k, p, "shapes do not fit");
  for (int32_t i = 1; i < n && sum >= 0; i++) {
    const uint8_t dtype = k->m->program.value[sum].dtype, both[2] = { dtype, dtype };
    const char *element = dfi_gpu_fuses(p->op->type, 2, both, dtype, &attr);
    if (!element) return refuse(k, p, "it has no expression"), -1;
    sum = element_new(k, p, element, (int32_t[]){ sum, in[i] }, 2, dtype, false);
  }
  return sum;
}

/* some: in some iterations the host computes it, in others the GPU, so it has to be an op of both; number: always. */
static int32_t elementwise(maker *k, const dfi_pnode *p, const int32_t *in, bool number, bool some) {
  const int32_t nin = (int32_t)p->nin;
  uint8_t dtypes[3];
  int32_t attr = -1;
  dfk_persistent_care care = DFK_PERSISTENT_ANY;
  if (nin > 3) return refuse(k, p, "it has no expression"), -1;
  for (int32_t i = 0; i < nin; i++) dtypes[i] = k->m->program.value[in[i]].dtype;
  const char *counted = some ? dfi_gpu_counts(p->op->type, nin, dtypes, p->out_dtypes[0], &care) : NULL;
  const char *element = number ? counted : dfi_gpu_fuses(p->op->type, nin, dtypes, p->out_dtypes[0], &attr);
  if (some && !counted) return refuse(k, p, "the host computes it, which may have other bits"), -1;
  if (!element) return refuse(k, p, "it has no expression"), -1;
  const int32_t out = element_new(k, p, element, in, nin, p->out_dtypes[0], number);
  if (out < 0) return -1;
  dfk_persistent_step *s = &k->m->program.step[k->m->program.nsteps - 1];
  k->some[out] = some;
  s->care = care;
  s->with_param = attr >= 0;
  s->param = attr >= 0 ? (double)(float)p->node->attrs[attr].f : 0;
  return out;
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

/* Integer i of a value of the host's. */
static int64_t integer(const df_value *v, int64_t i) {
  const void *at = v->kind == DF_SCALAR ? (const void *)&v->as : v->as.tensor->data;
  return v->dtype == DF_INT64 ? ((const int64_t *)at)[i] : ((const int32_t *)at)[i];
}

/* Which axes of a value are reduced. False: not known now, or wrong. */
static bool find_axes(const maker *k, dfi_operand o, int32_t rank, bool *reduced) {
  const df_value *v = is_outside(k, o) ? operand(k->r, o) : NULL;
  if (!v || (v->dtype != DF_INT32 && v->dtype != DF_INT64) ||
      (DFI_SPACE(o) != DFI_CONSTANT && !is_held(k, o)))
    return false;
  if (v->kind == DF_TENSOR && !dfi_readable(v->as.tensor)) return false;
  const int64_t n = v->kind == DF_SCALAR ? 1 : v->kind == DF_TENSOR ? v->as.tensor->size : -1;
  for (int64_t i = 0; i < n; i++) {
    const int64_t given = integer(v, i), axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank || reduced[axis]) return false;
    reduced[axis] = true;
  }
  return n >= 0;
}

/* A reduction over axes that lie side by side. */
static int32_t reduce(maker *k, const dfi_pnode *p, const char *element, int32_t in) {
  const dfk_persistent_value from = k->m->program.value[in];
  bool reduced[DFK_PERSISTENT_RANK] = { false };
  int64_t dims[DFK_PERSISTENT_RANK];
  int32_t rank = 0, first = from.rank, last = -1, outer = 1, n = 1, inner = 1;
  if (!find_axes(k, k->x->plan->operand[p->in + 1], from.rank, reduced))
    return refuse(k, p, "its axes are not a constant"), -1;
  for (int32_t d = 0; d < from.rank; d++) {
    if (reduced[d] && from.dims[d] > 1) { if (first == from.rank) first = d; last = d; }
    if (!reduced[d] || p->node->attrs[0].i) dims[rank++] = reduced[d] ? 1 : from.dims[d];
  }
  for (int32_t d = 0; d < from.rank; d++) {
    const bool inside = d >= first && d <= last;
    if (inside && !reduced[d] && from.dims[d] > 1) return refuse(k, p, "its axes do not lie side by side"), -1;
    if (inside) n *= from.dims[d];
    else if (d < first) outer *= from.dims[d];
    else inner *= from.dims[d];
  }
  const int32_t out = value_new(k, p, p->out_dtypes[0], rank, dims, false);
  dfk_persistent_step *s = out < 0 ? NULL : step_new(k, DFK_PERSISTENT_REDUCE, out);
  if (!s) return -1;
  s->element = element;
  s->nin = 1;
  s->in[0] = in;
  s->outer = outer; s->reduced = n; s->inner = inner;
  return out;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

static bool set_slot(maker *k, uint32_t slot, int32_t v, bool brought) {
  if (v < 0) return false;
  k->slot[slot] = v;
  k->on_host[slot] = brought;
  return true;
}

/* The same elements in other dims. What was a number is one still where there are none. */
static int32_t reshaped(maker *k, const dfi_pnode *p, dfi_operand o, int32_t in) {
  const dfi_shape *to = &p->node->out[0].shape;
  if (!dfi_shape_known(to) || dfi_shape_size(to) != k->m->program.value[in].size)
    return refuse(k, p, "its shape is not known beforehand"), -1;
  const int32_t out = value_new(k, p, p->out_dtypes[0], to->rank, to->dims, !to->rank && on_host(k, o, in));
  dfk_persistent_step *s = out < 0 ? NULL : step_new(k, DFK_PERSISTENT_SAME, out);
  if (!s) return -1;
  k->some[out] = !to->rank && some_on_host(k, o, in);
  s->nin = 1;
  s->in[0] = in;
  return out;
}

static bool is_list(const dfi_pnode *p) { return p->op->traits & DFO_ADDS && dfi_op_info_at(p->node->op)->in_list; }

/* An op; in_group: the GPU computes it, whatever it is of. */
static bool op(maker *k, const dfi_pnode *p, bool in_group) {
  enum { MANY = 32 };
  const dfi_operand *in = k->x->plan->operand + p->in;
  int32_t v[MANY], out, attr;
  bool number = p->kind == DFI_K_SCALAR && !in_group, may = number, some = false;
  if (p->nout != 1 || p->nin < 1 || p->nin > MANY || p->reads || p->has_handle)
    return refuse(k, p, "it is not elementwise");
  const uint8_t dtype = p->out_dtypes[0];
  const char *reduces = p->nin == 2 ? dfi_gpu_fuses(p->op->type, 1, &dtype, dtype, &attr) : NULL;
  const bool first_alone = p->op->traits & DFO_RESHAPES || reduces;
  for (uint32_t i = 0; i < (first_alone ? 1 : p->nin); i++) {
    if ((v[i] = of_operand(k, p, in[i])) < 0) return false;
    number &= on_host(k, in[i], v[i]);
    may &= some_on_host(k, in[i], v[i]);
    some |= on_host(k, in[i], v[i]);
  }
  if (!number && !k->x->plan->devices->at[p->device]->remote)
    return refuse(k, p, some ? "it has numbers of both" : "the host computes it");
  if (p->op->traits & DFO_RESHAPES) out = reshaped(k, p, in[0], v[0]);
  else if (reduces) out = may ? (refuse(k, p, "the host computes it"), -1) : reduce(k, p, reduces, v[0]);
  else if (is_list(p)) out = may ? (refuse(k, p, "the host computes it"), -1) : add_list(k, p, v, (int32_t)p->nin);
  else out = elementwise(k, p, v, number, may);
  return set_slot(k, p->out, out, false);
}

/* A node that hands its input on. */
static bool pass_on(maker *k, const dfi_pnode *p, uint32_t node) {
  const dfi_operand o = k->x->plan->operand[p->in];
  const int32_t v = of_operand(k, p, o);
  if (v < 0) return false;
  const dfk_persistent_value *of = &k->m->program.value[v];
  bool brought = on_host(k, o, v) && !k->number[v];
  if (p->kind == DFI_K_TRANSFER) {
    k->m->message[node] = (int64_t)of->size * dfi_dtype_size[of->dtype];
    if (p->constant && of->rank) return refuse(k, p, "the host reads it");
    brought |= p->constant && !k->number[v];
  }
  const bool switches = p->kind == DFI_K_SWITCH;
  const uint32_t own = switches && k->l->pair_of[node] < 0;
  for (uint32_t i = own; i <= switches; i++) if (!set_slot(k, p->out + i, v, brought)) return false;
  return true;
}

/* A variable of the session. */
static bool read_variable(maker *k, const dfi_pnode *p) {
  const dfi_operand o = k->x->plan->operand[p->in];
  if (!is_outside(k, o)) return refuse(k, p, "which variable it reads is not known");
  return set_slot(k, p->out, input_new(k, p, o, true), false);
}

static bool group(maker *k, const dfi_group *g) {
  const dfi_pnode *nodes = k->r->nodes;
  if (g->product || g->biased || g->gates) return refuse(k, nodes + g->member[0].node, "a product is part of it");
  for (int32_t i = 0; i < g->n; i++) if (!op(k, nodes + g->member[i].node, true)) return false;
  return true;
}

/* The side at hand gives its value to a Merge. */
static bool join(maker *k, dfi_cudagraph_step t) {
  const dfi_pnode *p = k->r->nodes + t.node;
  const dfi_operand o = k->x->plan->operand[p->in + (uint32_t)t.group];
  const int32_t in = of_operand(k, p, o);
  if (in < 0) return false;
  const dfk_persistent_value from = k->m->program.value[in];
  int32_t out = k->joined[p->out];
  if (out < 0) {
    int64_t dims[DFK_PERSISTENT_RANK];
    for (int32_t d = 0; d < from.rank; d++) dims[d] = from.dims[d];
    out = k->joined[p->out] = value_new(k, p, from.dtype, from.rank, dims, on_host(k, o, in));
    if (out < 0) return false;
  }
  const dfk_persistent_value *to = &k->m->program.value[out];
  if (to->dtype != from.dtype || !same_shape(to, &from)) return refuse(k, p, "its two sides have two shapes");
  k->number[out] &= on_host(k, o, in);
  k->some[out] |= some_on_host(k, o, in);
  dfk_persistent_step *s = step_new(k, DFK_PERSISTENT_SAME, out);
  if (!s) return false;
  s->nin = 1;
  s->in[0] = in;
  return true;
}

static bool run_step(maker *k, dfi_cudagraph_step t) {
  const dfi_pnode *p = k->r->nodes + t.node;
  if (t.group >= 0) return group(k, &k->x->plan->group[t.group]);
  if (k->l->access_of[t.node] >= 0) return refuse(k, p, "it has elements of an array");
  switch ((dfi_kind)p->kind) {
  case DFI_K_NOOP: return true;
  case DFI_K_MERGE: return set_slot(k, p->out, k->joined[p->out], false);
  case DFI_K_READ: return read_variable(k, p);
  case DFI_K_SWITCH: case DFI_K_TRANSFER: case DFI_K_CONST: return pass_on(k, p, t.node);
  default: return op(k, p, false);
  }
}

/* A side begins, or ends. */
static bool side(maker *k, dfi_cudagraph_step t) {
  const dfi_operand pred = k->l->guard[t.node].pred;
  const int32_t v = t.what == DFI_CUDAGRAPH_OPEN ? of_operand(k, NULL, pred) : 0;
  if (v < 0) return false;
  if (t.what == DFI_CUDAGRAPH_OPEN && (k->m->program.value[v].dtype != DF_BOOL || k->m->program.value[v].size != 1))
    return refuse(k, NULL, "the predicate of a cond is no truth value");
  dfk_persistent_step *s = step_new(k, t.what == DFI_CUDAGRAPH_OPEN        ? DFK_PERSISTENT_OPEN
                                  : t.what == DFI_CUDAGRAPH_OTHERWISE ? DFK_PERSISTENT_OTHERWISE : DFK_PERSISTENT_CLOSE,
                 -1);
  if (!s) return false;
  s->which = ((int32_t)t.node - 1) / 2;
  s->nin = t.what == DFI_CUDAGRAPH_OPEN;
  s->in[0] = v;
  return true;
}

/* As soon as the predicate is there, it decides. */
static bool decide(maker *k) {
  const dfi_operand pred = k->l->pred;
  if (k->decided || (!is_outside(k, pred) && k->slot[DFI_INDEX(pred)] < 0)) return true;
  k->decided = true;
  const int32_t v = of_operand(k, NULL, pred);
  if (v < 0 || k->m->program.value[v].dtype != DF_BOOL || k->m->program.value[v].size != 1)
    return refuse(k, NULL, "its predicate is no truth value");
  dfk_persistent_step *s = step_new(k, DFK_PERSISTENT_ON, -1);
  if (!s) return false;
  s->nin = 1;
  s->in[0] = v;
  return true;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

/* Its variables come first. */
static bool find_variables(maker *k) {
  dfk_persistent *w = &k->m->program;
  k->m->var = dfi_xcalloc((size_t)k->l->nvars + 1, sizeof *k->m->var);
  for (int32_t i = 0; i < k->l->nvars; i++) {
    const dfi_pnode *p = k->l->var[i].enter;
    const df_value *v = k->r->base[DFI_ITERATION] + p->out;
    if (v->kind == DF_EMPTY) continue;                   /* it has no reader */
    if (v->kind == DF_HANDLE) return refuse(k, p, "it is an array, a list or a variable");
    const int32_t made = value_of(k, p, v);
    if (made < 0) return false;
    w->value[made].number = k->number[made];
    k->slot[p->out] = made;
    k->m->var[w->nvars++] = i;
  }
  return w->nvars <= DFK_PERSISTENT_VARS || refuse(k, NULL, "it has too many variables");
}

/* Is input i of p a shape, or axes? */
static bool for_the_host(const dfi_pnode *p, uint32_t i) {
  return dfi_on_host(p->gpu ? p->gpu->host_in : p->op->host_in, (int32_t)i, (int32_t)p->nin);
}

static bool find_in(maker *k, const dfi_pnode *p) {
  const uint32_t n = p->kind == DFI_K_CONST ? 1 : p->nin;
  for (uint32_t i = 0; i < n; i++) {
    const dfi_operand o = k->x->plan->operand[p->in + i];
    if (p->kind != DFI_K_TRANSFER && p->nin && for_the_host(p, i)) continue;
    const df_value *v = is_outside(k, o) ? operand(k->r, o) : NULL;
    if (v && v->kind != DF_HANDLE && v->kind != DF_EMPTY && takes(v->dtype) &&
        (v->kind == DF_SCALAR || v->as.tensor->size <= DFK_PERSISTENT_SIZE) && input_new(k, p, o, false) < 0)
      return false;
    if (v && p->kind == DFI_K_READ && input_new(k, p, o, true) < 0) return false;
  }
  return true;
}

/* And then what steps read of outside. */
static bool find_inputs(maker *k) {
  for (uint32_t i = 0; i < k->l->scope->n; i++) {
    const dfi_pnode *p = k->r->nodes + i;
    if (!dfi_is_exit(p->kind) && !find_in(k, p)) return false;
  }
  for (int32_t q = 1; q < k->l->nguards; q += 2)
    if (is_outside(k, k->l->guard[q].pred) && input_new(k, NULL, k->l->guard[q].pred, false) < 0) return false;
  return !is_outside(k, k->l->pred) || input_new(k, NULL, k->l->pred, false) >= 0;
}

/* Would tokens have the variable, which changes, on the host, or another GPU? Then the reader of what leaves the loop
   does so there. */
static bool lies_elsewhere(const maker *k, const dfi_cudagraph_var *var) {
  const df_value *v = k->r->base[DFI_ITERATION] + var->enter->out;
  if (v->kind != DF_TENSOR) return false;
  return var->next->device != k->l->device ||
         (v->as.tensor->buffer->arena != k->x->plan->devices->at[k->l->device]->arena &&
          var->enter->device != k->l->device);
}

/* What the variables become has to be of their kind, and to lie where the kernel's do. */
static bool find_next(maker *k) {
  dfk_persistent *w = &k->m->program;
  w->next = dfi_xcalloc((size_t)w->nvars + 1, sizeof *w->next);
  for (int32_t i = 0; i < w->nvars; i++) {
    const dfi_cudagraph_var *var = &k->l->var[k->m->var[i]];
    const dfk_persistent_value *is = &w->value[i];
    w->next[i] = i;
    if (!var->next) continue;
    const dfi_operand o = k->x->plan->operand[var->next->in];
    const int32_t v = of_operand(k, var->next, o);
    if (v < 0) return false;
    if (v == i && var->enter->device == var->next->device) continue;        /* it stays what it is, and where */
    if (lies_elsewhere(k, var)) {
      k->later = k->r->number == 0;
      return refuse(k, var->enter, "it does not lie on %s", k->x->plan->devices->at[k->l->device]->name);
    }
    const dfk_persistent_value *to = &w->value[v];
    const bool mixed = some_on_host(k, o, v) != on_host(k, o, v);
    if (to->dtype != is->dtype || !same_shape(to, is) || on_host(k, o, v) != is->number || mixed) {
      k->later = k->r->number == 0 && !mixed;
      return refuse(k, var->enter, "it becomes something else");
    }
    w->next[i] = v;
  }
  return true;
}

static bool make(maker *k) {
  if (k->l->nguards / 2 > DFK_PERSISTENT_CONDS) return refuse(k, NULL, "it has too many conds");
  if (!find_variables(k) || !find_inputs(k) || !decide(k)) return false;
  for (int32_t i = 0; i < k->l->nsteps; i++) {
    const dfi_cudagraph_step t = k->l->step[i];
    bool ok;
    switch (t.what) {
    case DFI_CUDAGRAPH_RUN: ok = run_step(k, t); break;
    case DFI_CUDAGRAPH_JOIN: ok = join(k, t); break;
    case DFI_CUDAGRAPH_OPEN: case DFI_CUDAGRAPH_OTHERWISE: case DFI_CUDAGRAPH_CLOSE: ok = side(k, t); break;
    default: ok = refuse(k, NULL, "it has a loop inside");
    }
    if (!ok || !decide(k)) return false;
  }
  k->m->program.nconds = k->l->nguards / 2;
  return (k->decided || refuse(k, NULL, "its predicate is not known")) && find_next(k);
}

dfi_persistent_found dfi_persistent_make(dfi_exec *x, dfi_cudagraph_loop *l, const dfi_record *r,
                                         dfi_persistent_kernel *m, char **why) {
  maker k = { .x = x, .l = l, .r = r, .m = m, .why = why };
  *why = NULL;
  k.slot = dfi_xcalloc(l->scope->nslots + 1, sizeof *k.slot);
  k.joined = dfi_xcalloc(l->scope->nslots + 1, sizeof *k.joined);
  k.on_host = dfi_xcalloc(l->scope->nslots + 1, sizeof *k.on_host);
  m->message = dfi_xcalloc(l->scope->n + 1, sizeof *m->message);
  for (uint32_t i = 0; i < l->scope->nslots; i++) k.slot[i] = k.joined[i] = -1;
  const bool ok = make(&k);
  dfi_free(k.slot); dfi_free(k.joined); dfi_free(k.on_host); dfi_free(k.number); dfi_free(k.some);
  if (ok) return DFI_PERSISTENT_MADE;
  if (!k.later) return DFI_PERSISTENT_NEVER;
  dfi_free(*why);
  *why = NULL;
  return DFI_PERSISTENT_LATER;
}

bool dfi_persistent_fits(const dfi_exec *x, const dfi_cudagraph_loop *l, const dfi_persistent_kernel *m,
                         const dfi_record *r) {
  const dfk_persistent *w = &m->program;
  bool same = true;
  for (int32_t i = 0; i < w->nvars && same; i++)
    same = same_value(&w->value[i], r->base[DFI_ITERATION] + l->var[m->var[i]].enter->out);
  for (int32_t i = 0; i < w->ninputs && same; i++) {
    df_value v = dfi_persistent_input_now(r, &m->input[i]);
    same = same_value(&w->value[w->nvars + i], &v);
    if (m->input[i].read && v.kind != DF_EMPTY) dfi_value_drop(&v);
  }
  return same;
}

void dfi_persistent_drop(dfi_persistent_kernel *m) {
  dfi_free(m->program.value); dfi_free(m->program.step); dfi_free(m->program.next);
  dfi_free(m->var); dfi_free(m->input); dfi_free(m->message);
  dfi_free(m);
}
