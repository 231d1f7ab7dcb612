/* enter.c: from tokens to native code and back. What is said of dfi_replay in native.h is done here. */
#include "engine/native/native.h"
#include "resource/variable.h"
#include "engine/token.h"
#include "base/remote_memory.h"
#include "engine/engine.h"
#include "engine/observe/watch.h"
#include "resource/tensor_array.h"
#include <stdio.h>

enum {
  SLICES = 16,             /* polls before other tokens have their turn */
  CALL_SLICES = 2048,      /* the same of a call, which tokens begin again */
  TRIES = 8,               /* a unit that never got through its first iteration is given up */
  LEAST = 16,              /* iterations of a burst */
  HOT = 200                /* looks, of 256 tokens each: half a millisecond */
};

/* ---- frames ----------------------------------------------------------------------------------------- */

/* A cell as a number of this dtype; what lies above its bytes is not its. */
static df_value number_of(uint8_t dtype, int64_t cell) {
  df_value v = { .kind = DF_SCALAR, .dtype = dtype };
  memcpy(&v.as, &cell, dfi_dtype_size[dtype]);
  return v;
}
/* What the unit left in these cells; owned. A tensor for which there is no memory fails the run. */
df_value dfi_native_value(dfi_exec *x, const dfi_record *r, const dfi_pnode *p, uint8_t dtype, const dfi_shape *tensor,
                          const int64_t *cell) {
  if (!tensor) return number_of(dtype, *cell);
  df_tensor *t = dfi_tensor_make(dtype, tensor->rank, tensor->dims);
  if (t) {
    memcpy(t->data, cell, (size_t)(t->size * dfi_dtype_size[dtype]));
    return (df_value){ .kind = DF_TENSOR, .dtype = dtype, .as.tensor = t };
  }
  char text[200], message[260];
  snprintf(message, sizeof message, "out of memory for %s", dfi_typed_shape_text(dtype, tensor, text));
  dfi_exec_fail(x, r, p, DF_RESOURCE_EXHAUSTED, message);
  return (df_value){ .kind = DF_SCALAR, .dtype = dtype };
}
static df_value array_of(int64_t cell) {
  return (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = dfi_handle_retain((void *)(uintptr_t)cell) };
}

/* The loop has ended: value (consumed) leaves by Exit p. */
static void send_exit(dfi_exec *x, dfi_frame *f, const dfi_pnode *p, df_value value) {
  dfi_record *origin = f->origin;
  df_value *slot = origin->base[DFI_ITERATION] + p->out;
  f->exit_fired[p->child] = 1;
  *slot = value;
  slot_filled(origin, slot, origin->frame->scope->uses[p->out]);
  dfi_exec_send(x, origin, p->edge[0], p->edge[1], 0);
}

static void set_variables(dfi_record *r, const dfi_nloop *l, const df_value *v) {
  for (int32_t k = 0; k < l->nvars; k++) if (l->var[k].root < 0 && !l->var[k].in_place) {
    df_value *slot = r->base[DFI_ITERATION] + l->var[k].enter->out;
    const uint32_t uses = slot->uses;
    dfi_value_drop(slot);
    *slot = v[k];
    slot->uses = uses;
  }
}

/* ---- what has been done of an iteration that tokens do over ---------------------------------------------- */

static void replay_free(dfi_replay *p) {
  for (int32_t i = 0; i < p->nlevels; i++) {
    for (int32_t k = 0; k < p->level[i].nvars; k++) dfi_value_drop(&p->level[i].var[k]);
    dfi_free(p->level[i].var);
  }
  for (int32_t i = 0; i < p->ndone; i++) {
    for (int32_t k = 0; k < p->done[i].nvalues; k++) dfi_value_drop(&p->done[i].value[k]);
    dfi_free(p->done[i].value);
  }
  dfi_free(p->level); dfi_free(p->done); dfi_free(p);
}

static void forget_replays(dfi_exec *x) {
  for (dfi_replay *p = x->replay, *next; p; p = next) { next = p->next; replay_free(p); }
  x->replay = NULL;
}

/* What was kept of an earlier way out of this frame is behind it. */
static void forget_frame(dfi_exec *x, const dfi_frame *f) {
  for (dfi_replay **at = &x->replay, *p; (p = *at); )
    if (p->level[0].serial == f->serial) { *at = p->next; replay_free(p); } else at = &p->next;
}

static bool is_level(const dfi_replay_level *l, const dfi_record *r) {
  return l->found && l->serial == r->frame->serial && l->number == r->number;
}

/* The shape of a node's output k, if it is a tensor. */
static const dfi_shape *tensor_of(const dfi_unit *u, const dfi_pnode *p, int32_t k) {
  const dfi_shape *s = dfi_known_shape(u, (df_output){ p->node, k });
  return p->out_dtypes[k] != DF_RESOURCE && s->rank > 0 ? s : NULL;
}

static void remember(dfi_exec *x, dfi_unit *u, const dfi_site *s, dfi_frame *f, const dfi_record *r,
                     const dfi_native_frame *c) {
  dfi_replay *p = dfi_xcalloc(1, sizeof *p);
  p->unit = u;
  p->level = dfi_xcalloc((size_t)s->nlevels, sizeof *p->level);
  p->nlevels = s->nlevels;
  for (int32_t i = 0; i < s->nlevels; i++) {
    const dfi_nloop *l = &u->loop[s->level[i].loop];
    dfi_replay_level *to = &p->level[i];
    *to = (dfi_replay_level){ .scope = l->scope->id,
                              .serial = f->serial,
                              .number = c->out[s->level[i].number],
                              .found = i == 0,
                              .nvars = l->nvars };
    to->var = dfi_xcalloc((size_t)l->nvars + 1, sizeof *to->var);
    for (int32_t k = 0; k < l->nvars; k++)
      if (l->var[k].root < 0 && i > 0)                  /* the outermost loop's are in their slots */
        to->var[k] = dfi_native_value(x, r, l->var[k].enter, l->var[k].enter->out_dtypes[0], l->var[k].shape,
                              c->out + s->level[i].number + l->var[k].at);
  }
  p->done = dfi_xcalloc((size_t)s->ndone + 1, sizeof *p->done);
  p->ndone = s->ndone;
  for (int32_t i = 0; i < s->ndone; i++) {
    const dfi_done *d = &s->done[i];
    dfi_replay_done *to = &p->done[i];
    const dfi_nloop *l = d->loop < 0 ? NULL : &u->loop[d->loop];
    *to = (dfi_replay_done){
      .level = d->level, .scope = l ? l->scope->id : -1, .node = d->node,
      .nvalues = (int32_t)(l ? l->scope->nexits : d->node->nout)
    };
    to->value = dfi_xcalloc((size_t)to->nvalues + 1, sizeof *to->value);
    uint32_t cell = d->cell;
    for (int32_t k = 0; k < to->nvalues; k++) {
      const dfi_pnode *n = l ? l->scope->exits[k] : d->node;
      const dfi_shape *tensor = l ? l->exit_shape[k] : tensor_of(u, n, k);
      const uint8_t dtype = n->out_dtypes[l ? 0 : k];
      if (dtype != DF_RESOURCE) to->value[k] = dfi_native_value(x, r, n, dtype, tensor, c->out + cell);
      cell += dfi_cells(dtype, tensor);
      if (dtype != DF_RESOURCE) continue;
      if (l && l->exit_root[k] >= 0) to->value[k] = array_of(c->in[u->root[l->exit_root[k]].cell]);
    }
  }
  p->next = x->replay;
  x->replay = p;
}

static void give_again(dfi_exec *x, dfi_record *r, dfi_pnode *p, dfi_replay_done *d) {
  df_value *out = r->base[DFI_ITERATION] + p->out;
  for (uint32_t k = 0; k < p->nout; k++) {
    const bool array = p->out_dtypes[k] == DF_RESOURCE && p->kind != DFI_K_CALL;
    out[k] = array ? dfi_value_copy(operand(r, x->plan->operand[p->in])) : d->value[k];
    d->value[k] = (df_value){ 0 };
  }
  if (x->kept) dfi_watch_keep_all(x, r, p);
  for (uint32_t k = 0; k < p->nout; k++) slot_filled(r, out + k, r->frame->scope->uses[p->out + k]);
}

static bool replays(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  for (dfi_replay *q = x->replay; q; q = q->next)
    for (int32_t i = 0; i < q->ndone; i++) {
      dfi_replay_done *d = &q->done[i];
      if (d->used || d->node != p || !is_level(&q->level[d->level], r)) continue;
      d->used = true;
      if (p->nout) give_again(x, r, p, d);
      drop_inputs(x, r, p);
      dfi_exec_send(x, r, p->edge[0], p->edge[1], 0);
      return true;
    }
  return false;
}

typedef enum resumed { NOT_RESUMED, RESUMED, OVER } resumed;

/* The frame f begins inside an iteration that is done over: had it been begun, or run to its end? */
static resumed resume(dfi_exec *x, dfi_frame *f, dfi_record *r) {
  for (dfi_replay *q = x->replay; q; q = q->next) {
    for (int32_t i = 0; i < q->ndone; i++) {
      dfi_replay_done *d = &q->done[i];
      if (d->used || d->scope != f->scope->id || !is_level(&q->level[d->level], f->origin)) continue;
      d->used = true;
      for (int32_t k = 0; k < d->nvalues; k++) {
        send_exit(x, f, f->scope->exits[k], d->value[k]);
        d->value[k] = (df_value){ 0 };
      }
      return OVER;
    }
    for (int32_t i = 1; i < q->nlevels; i++) {
      dfi_replay_level *l = &q->level[i];
      if (l->found || l->scope != f->scope->id || !is_level(l - 1, f->origin)) continue;
      l->found = true;
      l->serial = f->serial;
      dfi_engine_renumber(f, r, l->number);
      for (int32_t k = 0; k < q->unit->nloops; k++)
        if (q->unit->loop[k].scope == f->scope) set_variables(r, &q->unit->loop[k], l->var);
      memset(l->var, 0, sizeof *l->var * (size_t)l->nvars);
      return RESUMED;
    }
  }
  return NOT_RESUMED;
}

/* ---- arrays ------------------------------------------------------------------------------------------------ */

/* Is this the shape of a number (NULL), or of a tensor? */
static bool same_shape(const dfi_shape *want, int32_t rank, const int64_t *dims) {
  if (!want) return rank == 0;
  if (rank != want->rank) return false;
  for (int32_t d = 0; d < rank; d++) if (dims[d] != want->dims[d]) return false;
  return true;
}

/* Does the unit write to the array, whatever it goes by? */
static bool is_written(const dfi_native_frame *c, const dfi_tensor_array *t) {
  for (uint32_t k = 0; k < c->unit->narrays; k++)
    if (c->access[k].array == t && c->unit->root[c->unit->access[k].root].written) return true;
  return false;
}

/* As much of the array as lies in one piece around location i becomes the access's window; none where every access must
   be asked. */
static void open_window(dfi_native_frame *c, dfi_access *a, int64_t i) {
  static uint8_t written[8] = { DFI_SLOT_WRITTEN };
  const dfi_tensor_array *t = a->array;
  const bool writes = c->unit->root[c->unit->access[a - c->access].root].written;
  const dfi_pnode *p = c->unit->access[a - c->access].node;
  const bool reads = p->out_dtypes[0] != DF_RESOURCE;
  const dfi_shape *tensor = c->unit->access[a - c->access].shape;
  a->n = 0;
  if (tensor && reads && t->accumulates && is_written(c, t)) return;     /* rows are read where they lie */
  if (!reads && p->node->attrs[0].i) return;  /* `recomputed`: the runtime looks whether it was written before */
  if (t->whole && i < t->whole->dims[0]) {
    if (!reads || !same_shape(tensor, t->whole->rank - 1, t->whole->dims + 1) || (t->accumulates && writes)) return;
    a->low = 0;
    a->n = t->whole->dims[0];
    a->data = t->whole->data;
    a->state = written;
    a->mask = 0;
    a->after = DFI_SLOT_WRITTEN;
    return;
  }
  if (t->whole || (tensor ? t->store != DFI_STORE_ROWS || !same_shape(tensor, t->row.rank, t->row.dims)
                          : t->store != DFI_STORE_NUMBERS))
    return;
  int64_t chunk, at;
  dfi_slot_at(t, i, &chunk, &at);
  if (chunk >= t->nchunks || !t->chunk[chunk]) return;
  a->low = i - at;
  a->n = dfi_chunk_slots(t, chunk);
  a->data = t->chunk[chunk];
  a->state = dfi_chunk_states(t, chunk);
  a->mask = -1;
  a->after = t->clear_after_read ? DFI_SLOT_CLEARED : DFI_SLOT_WRITTEN;
}

/* A tensor that was read (consumed) is looked at where it lies, until the next is. */
static void hold_row(dfi_native_frame *c, int64_t access, df_value v) {
  dfi_value_drop(&c->row[access]);
  c->row[access] = v;
  c->value[0] = (int64_t)(uintptr_t)v.as.tensor->data;
}
static void copy_row(const dfi_native_frame *c, df_value v) {
  const df_tensor *t = v.as.tensor;
  memcpy((void *)(uintptr_t)c->value[0], t->data, (size_t)(t->size * dfi_dtype_size[t->dtype]));
  dfi_value_drop(&v);
}

int32_t dfi_native_read(dfi_native_frame *c, int64_t access, int64_t i) {
  dfi_access *a = &c->access[access];
  const uint8_t dtype = c->unit->access[access].node->out_dtypes[0];
  dfi_tensor_array *t = a->array;
  const dfi_shape *tensor = c->unit->access[access].shape;
  df_error error;
  df_value v;
  if (t->dtype != dtype || i < 0 || t->store == DFI_STORE_HANDLES) return 0;
  if (i < dfi_tensor_array_size(t)) {
    dfi_element e;
    dfi_shape s;
    dfi_element_look(t, i, &e);
    if (e.data ? !same_shape(tensor, e.rank, e.dims)
               : !dfi_element_shape(t, i, &s) || !same_shape(tensor, s.rank, s.dims))
      return 0;
    if (e.tensor && !dfi_readable(e.tensor)) return 0;
  }
  if (dfi_tensor_array_read(t, i, &v, &error)) return 0;
  if (tensor) {
    df_assert(v.kind == DF_TENSOR);
    if (c->unit->access[access].in_place && (uintptr_t)v.as.tensor->data % 64 == 0) hold_row(c, access, v);
    else copy_row(c, v);
  } else {
    df_assert(v.kind == DF_SCALAR);
    c->value[0] = v.as.i64;
  }
  open_window(c, a, i);
  return 1;
}

/* Do its elements lie where the host works on them? */
static bool plain_array(const dfi_tensor_array *t) {
  return t->store != DFI_STORE_HANDLES && t->swap != DFI_SWAP_WANTED && !t->remat &&
         (!t->whole || dfi_readable(t->whole));
}

/* Would the array's packed elements have to move, because what is written is none of their kind? Other accesses may
   have a window on them. */
static bool unpacks(const dfi_tensor_array *t, const dfi_shape *tensor) {
  return t->store == DFI_STORE_ROWS ? !tensor || !dfi_shape_equal(tensor, &t->row)
                                    : t->store == DFI_STORE_NUMBERS && tensor;
}

/* Not DF_OK: tokens are to do it. */
static int32_t write_value(const dfi_native_frame *c, dfi_tensor_array *t, int64_t i, uint8_t dtype,
                           const dfi_shape *tensor, df_error *error) {
  if (unpacks(t, tensor)) return DF_UNIMPLEMENTED;
  if (tensor) return dfi_tensor_array_write_row(t, i, tensor, (const void *)(uintptr_t)c->value[0], true, error);
  const df_value v = number_of(dtype, c->value[0]);
  return dfi_tensor_array_write(t, i, &v, error);
}

int32_t dfi_native_write(dfi_native_frame *c, int64_t access, int64_t i) {
  dfi_access *a = &c->access[access];
  const dfi_pnode *p = c->unit->access[access].node;
  dfi_tensor_array *t = a->array;
  df_error error;
  const df_output from = p->node->in[2];
  const dfi_shape *tensor = c->unit->access[access].shape;
  if (tensor && (dfi_dtype(from) != t->dtype || !plain_array(t))) return 0;
  if (p->node->attrs[0].i) {
    if (!t->accumulates && i >= 0 && i < dfi_tensor_array_size(t) && dfi_tensor_array_state(t, i) != DFI_SLOT_EMPTY)
      return 1;
    if (write_value(c, t, i, dfi_dtype(from), tensor, &error)) return 0;
    c->count[DFI_COUNT_PUSHES] += t->saved;
    return 1;
  }
  if (write_value(c, t, i, dfi_dtype(from), tensor, &error)) return 0;
  open_window(c, a, i);
  return 1;
}

void *dfi_native_spot(dfi_native_frame *c, int64_t access, int64_t i, void *otherwise) {
  dfi_tensor_array *t = c->access[access].array;
  const dfi_pnode *p = c->unit->access[access].node;
  if (dfi_dtype(p->node->in[2]) != t->dtype || !plain_array(t) || p->node->attrs[0].i) return otherwise;
  void *at = dfi_tensor_array_spot(t, i, c->unit->access[access].shape);
  return at ? at : otherwise;
}

int32_t dfi_native_write_held(dfi_native_frame *c, int64_t access, int64_t i, int64_t peek) {
  const dfi_pnode *p = c->unit->access[access].node;
  const df_value *v = &c->held[peek];
  dfi_tensor_array *t = c->access[access].array;
  df_error error;
  if (v->kind != DF_TENSOR || v->dtype != t->dtype || !plain_array(t)) return 0;
  if (unpacks(t, c->unit->access[access].shape)) return 0;
  return !p->node->attrs[0].i && !dfi_tensor_array_write(t, i, v, &error);
}

/* ---- running ------------------------------------------------------------------------------------------------ */

void dfi_native_count(dfi_exec *x, int64_t *n) {
  dfi_counters *c = &x->count;
  c->taken += n[DFI_COUNT_TAKEN];
  c->died += n[DFI_COUNT_DIED];
  c->merged += n[DFI_COUNT_MERGED];
  c->ended += n[DFI_COUNT_ENDED];
  c->frames += n[DFI_COUNT_FRAMES];
  c->iterations += n[DFI_COUNT_ITERATIONS];
  c->pushes += n[DFI_COUNT_PUSHES];
  c->pops += n[DFI_COUNT_POPS];
  memset(n, 0, sizeof *n * DFI_COUNTS);
}

/* Tokens go on, and look up at once. */
static int64_t told_to_leave(dfi_native_frame *c) {
  c->told = true;
  c->exec->patience = 0;
  return -1;
}

int64_t dfi_native_poll(dfi_native_frame *c) {
  dfi_exec *x = c->exec;
  const bool call = dfi_is_function(c->unit->scope);
  c->polls++;
  dfi_native_count(x, c->count);
  if (x->live) dfi_exec_publish(x);
  if (dfi_engine_stops(x)) return told_to_leave(c);
  if (x->osr) return dfi_engine_dice(x) % 3 ? (int64_t)(dfi_engine_dice(x) % 16) : -1;
  dfi_unit_used(c->unit, DFI_LONG);
  if (!call && c->run != atomic_load_explicit(&c->unit->run, memory_order_relaxed)) return told_to_leave(c);
  const bool others = x->head != x->tail || (x->running && __atomic_load_n(&x->inbox, __ATOMIC_RELAXED));
  if (others && ++c->slice >= (call ? CALL_SLICES : SLICES)) return told_to_leave(c);
  return DFI_BUDGET;
}

/* A feed, a variable's handle, or an input of the call that f is. */
static const df_value *given_value(const dfi_exec *x, const dfi_frame *f, dfi_operand o) {
  if (DFI_SPACE(o) != DFI_FRAME) return &x->given[DFI_INDEX(o)];
  return operand(f->origin, x->plan->operand[f->call->in + DFI_INDEX(o)]);
}

static bool fill_cells(dfi_exec *x, const dfi_unit *u, dfi_frame *f, const dfi_record *r, int64_t *in) {
  const dfi_scope *s = f->scope;
  for (uint32_t k = 0; k < u->ncells; k++) {
    const dfi_cell *c = &u->cell[k];
    if (!c->used) continue;
    const df_value *v = k < s->nenters                ? r->base[DFI_ITERATION] + s->enters[k]->out
                        : k < s->nenters + s->nconsts ? &f->constants[k - s->nenters]
                                                      : given_value(x, f, u->given[k - s->nenters - s->nconsts]);
    if (v->kind != (c->handle ? DF_HANDLE : c->shape ? DF_TENSOR : DF_SCALAR) || v->dtype != c->dtype) return false;
    if (c->shape) {
      const df_tensor *t = v->as.tensor;
      if (!same_shape(c->shape, t->rank, t->dims) || !dfi_readable(t)) return false;
      in[k] = (int64_t)(uintptr_t)t->data;
    } else in[k] = c->handle ? (int64_t)(uintptr_t)v->as.handle : v->as.i64;
  }
  return true;
}

static bool fill_accesses(const dfi_unit *u, const int64_t *in, dfi_access *a) {
  for (uint32_t k = 0; k < u->narrays; k++) {
    dfi_tensor_array *t = (dfi_tensor_array *)(uintptr_t)in[u->root[u->access[k].root].cell];
    if (t->base.type != DFI_TENSOR_ARRAY) return false;
    a[k] = (dfi_access){ .array = t, .size = &t->size, .counts = t->saved, .state = NULL };
  }
  return true;
}

static bool check_variables(const dfi_exec *x, const dfi_unit *u, const dfi_frame *f, const int64_t *in) {
  for (uint32_t k = 0; k < u->nbound; k++) {
    const df_value *v = given_value(x, f, DFI_OPERAND(DFI_FRAME, u->bound[k].input));
    if (v->kind != DF_HANDLE || v->as.handle != given_value(x, f, u->bound[k].variable)->as.handle) return false;
  }
  for (uint32_t k = 0; k < u->npeeks; k++) {
    const dfi_variable *v = (dfi_variable *)(uintptr_t)in[u->peek[k].cell];
    if (v->base.type != DFI_VARIABLE || v->dtype != u->peek[k].node->out_dtypes[0]) return false;
  }
  return true;
}

bool dfi_native_fill(dfi_exec *x, const dfi_unit *u, dfi_frame *f, const dfi_record *r, int64_t *in) {
  return fill_cells(x, u, f, r, in) && check_variables(x, u, f, in);
}

/* Variables that are written over have a tensor that nothing else holds. False: there is no memory for it. */
static bool own_variables(const dfi_unit *u, const dfi_record *r, int64_t *in) {
  const dfi_nloop *l = &u->loop[0];
  for (int32_t k = 0; k < l->nvars; k++) {
    df_value *slot = r->base[DFI_ITERATION] + l->var[k].enter->out;
    df_tensor *t = slot->as.tensor;
    if (!l->var[k].in_place || !l->var[k].over) continue;
    if (!t->view && t->data == t->buffer->data && dfi_tensor_exclusive(t)) continue;
    df_tensor *own = dfi_tensor_make(t->dtype, t->rank, t->dims);
    if (!own) return false;
    memcpy(own->data, t->data, (size_t)(t->size * dfi_dtype_size[t->dtype]));
    df_tensor_release(t);
    slot->as.tensor = own;
    in[l->var[k].enter->enter] = (int64_t)(uintptr_t)own->data;
  }
  return true;
}

/* What leaves by Exit k, whose cells begin with `at`; owned. */
static df_value exit_value(dfi_exec *x, const dfi_unit *u, const dfi_record *r, uint32_t k, const dfi_native_frame *c,
                           uint32_t at) {
  const dfi_nloop *l = &u->loop[0];
  const dfi_pnode *p = l->scope->exits[k];
  if (l->exit_var[k] >= 0) return dfi_value_copy(r->base[DFI_ITERATION] + l->var[l->exit_var[k]].enter->out);
  if (p->out_dtypes[0] == DF_RESOURCE) return array_of(c->in[u->root[l->exit_root[k]].cell]);
  return dfi_native_value(x, r, p, p->out_dtypes[0], l->exit_shape[k], c->out + at);
}

/* It was left: the frame stands before the iteration that goes on with tokens. */
static void leave(dfi_exec *x, dfi_unit *u, dfi_frame *f, dfi_record *r, const dfi_native_frame *c, const dfi_site *s) {
  const dfi_nloop *l = &u->loop[0];
  const uint32_t at = s->level[0].number;
  df_value *v = dfi_xcalloc((size_t)l->nvars + 1, sizeof *v);
  for (int32_t k = 0; k < l->nvars; k++)
    if (l->var[k].root < 0 && !l->var[k].in_place)
      v[k] = dfi_native_value(x, r, l->var[k].enter, l->var[k].enter->out_dtypes[0], l->var[k].shape,
                      c->out + at + l->var[k].at);
  if (s->failing) {
    f->tokens_only = true;
    if (c->out[at] == r->number && s->nlevels == 1 && atomic_fetch_add(&u->failures, 1) >= TRIES)
      atomic_store(&u->state, DFI_UNIT_REFUSED);
  }
  dfi_engine_renumber(f, r, c->out[at]);
  set_variables(r, l, v);
  if (s->nlevels > 1 || s->ndone) remember(x, u, s, f, r, c);
  dfi_free(v);
}

bool dfi_native_arena(const dfi_unit *u, df_tensor **arena) {
  *arena = u->arena ? dfi_tensor_make(DF_UINT8, 1, &u->arena) : NULL;
  return !u->arena || *arena;
}

static bool run(dfi_exec *x, dfi_unit *u, dfi_frame *f, dfi_record *r) {
  enum { ROOM = 48, ARRAYS = 8 };
  int64_t in_room[ROOM], out_room[ROOM], counts[DFI_COUNTS] = { 0 };
  dfi_access access_room[ARRAYS];
  int64_t *in = u->ncells <= ROOM ? in_room : dfi_xmalloc(sizeof *in * u->ncells),
          *out = u->nout <= ROOM ? out_room : dfi_xmalloc(sizeof *out * u->nout);
  dfi_access *access = u->narrays <= ARRAYS ? access_room : dfi_xmalloc(sizeof *access * u->narrays);
  const uint32_t nheld = u->npeeks + u->narrays;
  df_value *held = nheld ? dfi_xcalloc(nheld, sizeof *held) : NULL;
  df_tensor *arena = NULL;
  bool over = false;
  if (dfi_native_fill(x, u, f, r, in) && own_variables(u, r, in) && fill_accesses(u, in, access) &&
      dfi_native_arena(u, &arena)) {
    dfi_native_frame c = { .in = in,
                           .out = out,
                           .count = counts,
                           .access = access,
                           .exec = x,
                           .unit = u,
                           .held = held,
                           .row = held ? held + u->npeeks : NULL,
                           .address = u->address,
                           .arena = arena ? arena->data : NULL,
                           .record = r,
                           .run = atomic_load_explicit(&u->run, memory_order_acquire),
                           .number = r->number,
                           .least = x->osr ? 1 : LEAST,
                           .budget = x->osr ? (int64_t)(dfi_engine_dice(x) % 16) : DFI_BUDGET };
    dfi_unit_used(u, 1);
    const int32_t site = c.run(&c);
    dfi_native_forget_calls(&c);
    dfi_native_count(x, counts);
    over = site == 0;
    if (over) {
      const dfi_nloop *l = &u->loop[0];
      for (uint32_t k = 0, at = 0; k < f->scope->nexits; k++) {
        const dfi_pnode *p = f->scope->exits[k];
        send_exit(x, f, p, exit_value(x, u, r, k, &c, at));
        if (l->exit_var[k] < 0) at += dfi_cells(p->out_dtypes[0], l->exit_shape[k]);
      }
      dfi_engine_renumber(f, r, c.number);
    } else leave(x, u, f, r, &c, &u->site[site - 1]);
  } else f->tokens_only = true;
  for (uint32_t k = 0; k < nheld; k++) dfi_value_drop(&held[k]);
  df_tensor_release(arena);
  dfi_free(held);
  if (in != in_room) dfi_free(in);
  if (out != out_room) dfi_free(out);
  if (access != access_room) dfi_free(access);
  return over;
}

/* Tokens go on, with as many iterations at once as the loop may have. */
static bool by_tokens(dfi_frame *f) {
  f->window = f->scope->parallel_iterations;
  return false;
}

static bool turn(dfi_exec *x, dfi_frame *f, dfi_record *r) {
  if (DFI_UNLIKELY(x->replay != NULL)) {
    const resumed how = resume(x, f, r);
    if (how != NOT_RESUMED) return how == OVER;
  }
  if (f->tokens_only || f->call || !dfi_engine_unwatched(x) || dfi_engine_stops(x) || dfi_engine_wants_many(x, f))
    return by_tokens(f);
  dfi_unit *own = dfi_unit_of(x, f->scope);
  if (!own) return by_tokens(f);
  const bool hot = x->setup.engine == DFI_ENGINE_NATIVE || atomic_load(&own->heat) >= HOT;
  dfi_unit *u = dfi_unit_met(x, own, f, r, hot);
  if (!u) return by_tokens(f);
  if (u != own && hot && x->setup.engine != DFI_ENGINE_NATIVE) dfi_unit_want(u, DFI_SOON);
  if (x->setup.engine == DFI_ENGINE_NATIVE && atomic_load(&u->state) == DFI_UNIT_COLD) dfi_unit_want_now(x, u);
  if (atomic_load_explicit(&u->state, memory_order_acquire) != DFI_UNIT_READY) return by_tokens(f);
  if (x->osr && dfi_engine_dice(x) % 2) return by_tokens(f);
  if (DFI_UNLIKELY(x->replay != NULL)) forget_frame(x, f);
  return run(x, u, f, r) || by_tokens(f);
}

/* ---- which loops are hot --------------------------------------------------------------------------------------- */

static bool is_hot(const dfi_exec *x, dfi_unit *u, bool inside) {
  return x->setup.engine == DFI_ENGINE_NATIVE ||
         atomic_fetch_add_explicit(&u->heat, 1, memory_order_relaxed) >= (inside ? 4 * HOT : HOT);
}

static void look(dfi_exec *x) {
  enum { DEEP = 64 };
  if (x->head == x->tail || !dfi_engine_unwatched(x) ||
      dfi_engine_wants_many(x, x->queue[x->head & x->queue_mask].record->frame))
    return;
  dfi_frame *frame[DEEP];
  int32_t n = 0;
  for (dfi_frame *f = x->queue[x->head & x->queue_mask].record->frame; f->origin && n < DEEP; f = f->parent) {
    if (f->call) n = 0;                    /* a loop inside a call begins anew: its frames are not of one kind */
    else frame[n++] = f;
  }
  bool inside = false;                     /* of a loop that is compiled, in one long iteration of it */
  while (n--) {
    dfi_frame *f = frame[n];
    dfi_unit *u = dfi_unit_of(x, f->scope);
    if (!u) return;
    if (dfi_unit_open(u)) {
      dfi_unit *for_it = __atomic_load_n(&u->latest, __ATOMIC_ACQUIRE);
      if (for_it) u = for_it;
      else if (is_hot(x, u, inside)) f->window = 1;      /* its unit is made when the next iteration begins */
      if (!for_it) return;
    }
    const int32_t state = atomic_load_explicit(&u->state, memory_order_acquire);
    if (state == DFI_UNIT_REFUSED || (state == DFI_UNIT_READY && f->tokens_only)) continue;
    if (state == DFI_UNIT_WAITING) return;
    if (state == DFI_UNIT_READY) {
      /* its iterations come one by one, and after the next it is entered */
      if (!x->osr || dfi_engine_dice(x) % 2) f->window = 1;
      inside = true;
      continue;
    }
    if (x->setup.engine == DFI_ENGINE_NATIVE) dfi_unit_want_now(x, u);
    else if (is_hot(x, u, inside)) dfi_unit_want(u, DFI_SOON);
    return;
  }
}

static const dfi_engine_ops native = { turn, look, replays, forget_replays };

void dfi_native_attach(dfi_plan *p) {
  if (p->cut) return;                      /* it knows one device */
  dfi_straight_attach(p);
  for (int32_t i = 1; i < p->nscopes; i++)
    if (p->scope[i].parent >= 0 && !p->scope[i].batch) {
      p->scope[i].engine_ops = &native;
      p->engine_ops = &native;
    }
}
