/* call.c: kernels are called here: on the owner's thread, on a worker, or by a resource that makes them wait.
 *
 * A call that does not end at once comes back through the run's inbox, and the owner goes on from there. The inbox and
 * `stuck` are the only things that others touch, under inbox_lock.
 */
#include "engine/engine.h"
#include "engine/clock/timed.h"
#include "engine/services.h"
#include "engine/token.h"
#include "engine/tokens/batch.h"
#include "engine/tokens/group_run.h"
#include "resource/variable.h"
#include "op/run.h"
#include <stdio.h>

enum { CALL_INPUTS = 8, CALL_OUTPUTS = 4 };
typedef struct call_space {
  dfi_call         call;
  const df_tensor *in[CALL_INPUTS];
  const df_value  *raw[CALL_INPUTS];
  df_tensor        view[CALL_INPUTS];
  df_tensor        scratch[CALL_OUTPUTS];
} call_space;

/* The value that a reference refers to now, where p can read it: its variable may be another device's. */
static const df_value *read_reference(dfi_call *c, const dfi_exec *x, const dfi_pnode *p, const df_value *v,
                                      df_value *out) {
  dfi_handle *h = v->as.handle;
  if (h->type != DFI_VARIABLE || p->waits == DFI_WAITS_FAR) return v;
  int32_t code = dfi_variable_read((dfi_variable *)h, out, &c->error);
  if (code) c->status = code;
  const bool hidden = !code && out->kind == DF_TENSOR && !dfi_readable(out->as.tensor);
  if (!hidden || x->plan->devices->at[p->device]->remote) return out;
  const df_value there = *out;
  if (!dfi_value_in(&there, NULL, out))
    c->status = dfi_fail(&c->error, DF_RESOURCE_EXHAUSTED, NULL,
                         "the value of a variable could not be brought to the host");
  dfi_value_drop((df_value *)&there);
  return out;
}

static void call_free(dfi_call *c) {
  for (int32_t i = 0; c->read && i < c->kernel.nin; i++) dfi_value_drop(&c->read[i]);
  if (c->heap) dfi_free(c);
}

/* Of a handle that is a sum, computed now, the tensor; NULL: it is another handle. */
static __attribute__((noinline)) const df_tensor *settled(dfi_call *c, df_value *v) {
  if (c->status == DF_OK) c->status = dfi_batch_settle(c->exec, v, &c->error);
  return v->kind == DF_TENSOR ? v->as.tensor : NULL;
}

/* Lays out a call of p's kernel; on the heap (memory of the caller's choosing) when it is large or goes to a worker. */
static dfi_call *call_make(dfi_exec *x, dfi_record *r, dfi_pnode *p, call_space *space) {
  uint32_t nin = p->nin, nout = p->nout;
  dfi_call *c;
  const df_tensor **in; const df_value **raw; df_tensor *view, *scratch;
  if (space && nin <= CALL_INPUTS && nout <= CALL_OUTPUTS && !p->reads) {
    c = &space->call; in = space->in; raw = space->raw; view = space->view; scratch = space->scratch;
    c->heap = false; c->read = NULL;
  } else {
    size_t read = p->reads ? sizeof(df_value) * nin : 0;
    char *m = dfi_xmalloc(sizeof *c + read + (sizeof *in + sizeof *raw + sizeof *view) * (nin + 1) +
                          sizeof *scratch * (nout + 1) + 64);
    c = (dfi_call *)m;                m += (sizeof *c + 15) & ~(size_t)15;
    c->read = read ? memset(m, 0, read) : NULL;
    m += read;
    view = (df_tensor *)m;            m += sizeof *view * (nin + 1);
    scratch = (df_tensor *)m;         m += sizeof *scratch * (nout + 1);
    in = (const df_tensor **)m;       m += sizeof *in * (nin + 1);
    raw = (const df_value **)m;
    c->heap = true;
    c->message = false;
  }
  c->exec = x;
  c->record = r;
  c->node = p;
  c->status = DF_OK;
  c->size = 0;
  c->away_link = NULL;
  c->stop = NULL;
  c->what = NULL;
  c->place = NULL;
  c->kernel = (df_kernel){ .attrs = p->node->attrs, .nin = (int32_t)nin, .nout = (int32_t)nout, .in = in, .raw = raw,
    .out = r->base[DFI_ITERATION] + p->out, .out_dtype = p->out_dtypes, .scratch = scratch, .run = c,
    .error = &c->error };
  if (c->heap) c->error.code = 0, c->error.message[0] = c->error.op[0] = c->error.frame[0] = c->error.source[0] = 0;
  const dfi_operand *op = x->plan->operand + p->in;
  for (uint32_t i = 0; i < nin; i++) {
    const df_value *v = operand(r, op[i]);
    if (DFI_UNLIKELY(c->read && p->reads[i] && v->kind == DF_HANDLE)) v = read_reference(c, x, p, v, &c->read[i]);
    raw[i] = v;
    if (v->kind == DF_TENSOR) {
      in[i] = v->as.tensor;
      c->size += v->as.tensor->size;
      if (v->uses == 1 && DFI_SPACE(op[i]) == DFI_ITERATION && i < 32) c->kernel.reusable |= 1u << i;
    } else if (v->kind == DF_SCALAR) {
      df_tensor *t = &view[i];
      t->refs = 1; t->dtype = v->dtype; t->rank = 0; t->view = 1; t->size = 1;
      t->data = (void *)&v->as; t->buffer = NULL;
      in[i] = t;
    } else in[i] = DFI_UNLIKELY(x->batch != NULL) ? settled(c, (df_value *)(uintptr_t)v) : NULL;
  }
  for (uint32_t i = 0; i < nout; i++) c->kernel.out[i].kind = DF_EMPTY;
  return c;
}

/* Memory ran out: on which device, and whose values take most of it. */
static void say_who_holds(dfi_exec *x, const dfi_pnode *p) {
  const dfi_device *d = x->plan->devices ? x->plan->devices->at[p->device] : NULL;
  size_t at = strlen(x->error->message);
  if (d) at += (size_t)snprintf(x->error->message + at, sizeof x->error->message - at, " on %s", d->name);
  if (at < sizeof x->error->message)
    dfi_service.holders_text(x, p->device, x->error->message + at, sizeof x->error->message - at);
}

/* ---- what the iterations of a loop share: plan/invariant.c ------------------------------------------------------ */

/* Where it is kept; NULL: nowhere. By the virtual clock, and where kernels are counted, each iteration computes it. */
static df_value *invariant_of(const dfi_exec *x, const dfi_record *r, const dfi_pnode *p) {
  if (x->timed || x->setup.faults) return NULL;
  const dfi_frame *f = r->frame;
  while (f->scope->id != (int32_t)p->target) {
    if (!f->origin) return NULL;
    f = f->origin->frame;
  }
  return f->constants + p->invariant - 1;
}

static __attribute__((noinline)) void keep_invariant(const dfi_exec *x, const dfi_record *r, const dfi_pnode *p) {
  df_value *kept = invariant_of(x, r, p);
  if (!kept || kept->kind != DF_EMPTY) return;
  for (uint32_t i = 0; i < p->nout; i++) kept[i] = dfi_value_copy(r->base[DFI_ITERATION] + p->out + i);
}

/* The outputs of p are in their slots: they are sent, along the edges from number `edge` on. Here and in dfi_call_run
 * everything is one function but what is rare: calls and saved registers took 3 of 100 instructions of an LSTM's
 * gradient. */
static inline __attribute__((always_inline)) void made(dfi_exec *x, dfi_record *r, const dfi_pnode *p, uint32_t edge) {
  df_value *out = r->base[DFI_ITERATION] + p->out;
  if (DFI_UNLIKELY(x->kept != NULL)) dfi_service.watch_keep_all(x, r, p);
  const uint32_t *uses = r->frame->scope->uses + p->out;
  for (uint32_t i = 0; i < p->nout; i++) slot_filled(r, &out[i], uses[i]);
  drop_inputs(x, r, p);
  dfi_exec_send(x, r, edge, p->edge[1], 0);
}

/* An iteration before this one has computed it. */
static __attribute__((noinline)) bool has_invariant(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  const df_value *kept = invariant_of(x, r, p);
  if (!kept || kept->kind == DF_EMPTY) return false;
  for (uint32_t i = 0; i < p->nout; i++) r->base[DFI_ITERATION][p->out + i] = dfi_value_copy(&kept[i]);
  made(x, r, p, p->edge[0]);
  return true;
}

static __attribute__((noinline)) void drop_outputs(const dfi_pnode *p, df_value *out) {
  for (uint32_t i = 0; i < p->nout; i++) { dfi_value_drop(&out[i]); out[i].kind = DF_EMPTY; }
}

/* The kernel has run: its outputs are sent, along the edges from number `edge` on, or its error is kept. A run that was
 * over without it (lost.h) wants neither. */
static void call_end(dfi_exec *x, dfi_call *c, uint32_t edge) {
  dfi_record *r = c->record;
  dfi_pnode *p = c->node;
  df_value *out = r->base[DFI_ITERATION] + p->out;
  if (DFI_UNLIKELY(x->finished)) { drop_outputs(p, out); return; }
  if (c->status == DF_OK)
    for (uint32_t i = 0; i < p->nout; i++)
      if (DFI_UNLIKELY(out[i].kind == DF_EMPTY)) {
        c->status = dfi_fail(c->kernel.error, DF_INTERNAL, NULL, "the kernel of %s made no output %u", p->op->type, i);
        break;
      }
  if (DFI_UNLIKELY(c->status != DF_OK)) {
    drop_outputs(p, out);
    if (!x->failed) {
      x->failed = true;
      x->patience = 0;
      if (x->error) {
        *x->error = *c->kernel.error;
        x->error->code = c->status;
        if (c->status == DF_INVALID_ARGUMENT && c->kernel.nin == p->node->nin)
          dfi_infer_refuses(p->node, c->kernel.in, x->error);
        if (c->status == DF_RESOURCE_EXHAUSTED && !strncmp(x->error->message, "out of memory", 13)) say_who_holds(x, p);
        dfi_exec_blame(r, p, x->error);
      }
    }
    return;
  }
  if (DFI_UNLIKELY(x->timed != NULL)) { dfi_timed_call(x, r, p, &c->kernel); dfi_timed_ended(x, r); }
  if (p->invariant) keep_invariant(x, r, p);
  made(x, r, p, edge);
}

/* Something has come to x. Under inbox_lock. */
static void ring(dfi_exec *x) {
  if (x->stuck) {
    x->stuck = false;
    atomic_fetch_add(&x->setup.shared->moves, 1);
    atomic_fetch_sub(&x->setup.shared->stuck, 1);
  }
  pthread_cond_signal(&x->inbox_bell);
  if (DFI_UNLIKELY(x->rank != NULL)) dfi_service.rank_wake(x->rank);           /* it may sleep there */
}

void dfi_exec_ring(dfi_exec *x) {
  pthread_mutex_lock(&x->inbox_lock);
  ring(x);
  pthread_mutex_unlock(&x->inbox_lock);
}

/* Leaves a call in the inbox of its run. Any thread. After that the call may be gone. */
static void post(dfi_call *c) {
  dfi_exec *x = c->exec;
  pthread_mutex_lock(&x->inbox_lock);
  c->next = x->inbox;
  __atomic_store_n(&x->inbox, c, __ATOMIC_RELAXED);     /* the owner peeps without the lock */
  ring(x);
  pthread_mutex_unlock(&x->inbox_lock);
}

void dfi_team_post(dfi_exec *x, dfi_team_message *l) {
  pthread_mutex_lock(&x->inbox_lock);
  const bool first = !x->messages;
  l->next = x->messages;
  __atomic_store_n(&x->messages, l, __ATOMIC_RELAXED);
  if (first) ring(x);                      /* else it has been told */
  pthread_mutex_unlock(&x->inbox_lock);
}

/* The memory that tensors made for a node lie in. */
static dfi_devmem *arena_of(const dfi_exec *x, const dfi_pnode *p) {
  return x->plan->cut ? x->plan->devices->at[p->device]->arena : NULL;
}

/* The kernel had to do with memory of the reserve. */
static __attribute__((noinline)) void bookkeeping_ended(dfi_call *c) {
  if (c->status == DF_OK) c->status = dfi_short_fail(c->kernel.error, NULL, "what the kernel keeps");
  dfi_short = false;
}

void dfi_call_work(void *arg) {
  dfi_call *c = arg;
  if (c->message) dfi_service.transfer_copy(c);
  else {
    dfi_devmem_use(arena_of(c->exec, c->node));
    c->status = c->node->kernel(&c->kernel);
    dfi_devmem_use(NULL);
    if (DFI_UNLIKELY(dfi_short)) bookkeeping_ended(c);
  }
  post(c);
}

/* It ran elsewhere, where no room could be made for its outputs. The owner can. */
static void run_here(dfi_exec *x, dfi_call *c) {
  drop_outputs(c->node, c->kernel.out);
  c->error.code = 0;
  dfi_devmem_use(arena_of(x, c->node));
  c->status = c->node->kernel(&c->kernel);
  if (DFI_UNLIKELY(dfi_short) && c->status != DFK_PENDING) bookkeeping_ended(c);
  dfi_devmem_use(NULL);
}

void dfk_on_stop(df_kernel *k, dfk_stop_fn stop, dfk_what_fn what, void *user) {
  dfi_call *c = k->run;
  c->stop = stop; c->what = what; c->user = user;
}

void dfk_complete(df_kernel *k, int32_t status) {
  dfi_call *c = k->run;
  c->status = status;
  post(c);
}

/* Is another kernel waiting that is more than a number? A kernel that runs here can use the workers for its parts, one
 * on a worker cannot; so a large kernel goes to a worker only when the owner has such work of its own meanwhile.
 * Counting and comparing can wait. */
static __attribute__((noinline)) bool has_other_work(const dfi_exec *x) {
  enum { LOOK_AT = 16 };
  for (uint32_t i = x->head, n = 0; i != x->tail && n < LOOK_AT; i++, n++) {
    const dfi_token *t = &x->queue[i & x->queue_mask];
    if (!(t->mark & DFI_DEAD) && t->record->nodes[t->node].kind == DFI_K_KERNEL && t->record->nodes[t->node].offload)
      return true;
  }
  return false;
}

static inline __attribute__((always_inline)) bool worth_a_worker(const dfi_exec *x, const dfi_call *c) {
  const double worker_ns = 40e3;
  /* by the virtual clock, and where kernels are counted, all comes in order */
  if (x->timed || x->setup.faults) return false;
  if (x->head == x->tail && !x->running) return false;      /* nothing else to do meanwhile */
  if (c->status) return false;                              /* a reference could not be read: an input is missing */
  if (c->node->invariant) return false;                     /* the iterations to come would compute it, too */
  const double ns = c->node->op->cost ? c->node->op->cost(&c->kernel) : (double)c->size;
  return (c->node->op->expensive || ns > worker_ns) && has_other_work(x);
}

void dfi_call_away(dfi_exec *x, dfi_call *c) {
  c->away_next = x->away;
  c->away_link = &x->away;
  if (x->away) x->away->away_link = &c->away_next;
  x->away = c;
  x->waiting += c->stop != NULL;
  x->running++;
}

void dfi_call_back(dfi_exec *x, dfi_call *c) {
  if (c->away_next) c->away_next->away_link = c->away_link;
  *c->away_link = c->away_next;
  c->away_link = NULL;
  x->waiting -= c->stop != NULL;
  x->running--;
}

static bool worker_takes(dfi_exec *x, dfi_call *c) { return dfi_pool_try(x->setup.pool, dfi_call_work, c); }
static bool stream_takes(dfi_exec *x, dfi_call *c) { return dfi_service.stream_take(x, c, false); }

/* A worker or a stream runs the call: one made anew, since c lies on the owner's stack. False: it does not take it. */
static bool send_off(dfi_exec *x, dfi_call *c, bool (*takes)(dfi_exec *x, dfi_call *c)) {
  dfi_call *h = call_make(x, c->record, c->node, NULL);
  if (c->node->nout > 1) h->kernel.reusable = 0;     /* it may run once more: see run_here */
  dfi_call_away(x, h);
  if (takes(x, h)) {
    call_free(c);
    return true;
  }
  dfi_call_back(x, h);
  call_free(h);
  return false;
}

/* On a device: is it dead, or does its stream run c? True: there is nothing left to do; *away as dfi_call_run returns
   it. */
static bool on_device(dfi_exec *x, dfi_record *r, dfi_pnode *p, dfi_call *c, bool *away) {
  *away = false;
  if (x->setup.faults && dfi_service.fault_kernel(x, r, p)) { call_free(c); return true; }
  return *away = p->offload && dfi_service.stream_wants(x, c) && send_off(x, c, stream_takes);
}

/* The kernel of c, with the memory of its node's device. */
static int32_t run_on_device(dfi_exec *x, dfi_call *c) {
  if (DFI_LIKELY(!x->plan->cut)) return c->node->kernel(&c->kernel);
  const dfi_device *d = x->plan->devices->at[c->node->device];
  dfi_devmem_use(arena_of(x, c->node));
  const int32_t status = d->remote ? dfi_service.remote_run(c, d) : c->node->kernel(&c->kernel);
  dfi_devmem_use(NULL);
  return status;
}

/* Memory may be full of what goes again: values that are saved, and move; values that were sent, until the other owner
   takes them. Iterations that run ahead are not to fill the rest of it: the oldest one may need some values as large as
   what p reads. */
static __attribute__((noinline)) bool runs_ahead(dfi_exec *x, dfi_record *r, const dfi_pnode *p) {
  int64_t most = 0;
  if (!x->plan->devices || !x->plan->devices->at[p->device]->arena) return false;
  for (uint32_t i = 0; i < p->nin; i++) {
    const int64_t bytes = dfi_value_bytes(operand(r, x->plan->operand[p->in + i]));
    if (bytes > most) most = bytes;
  }
  if (!dfi_service.held_back(x, r, x->plan->devices->at[p->device], 0, DFI_HELD_FOR * most)) return false;
  dfi_exec_requeue(x, r, p);
  return true;
}

static inline __attribute__((always_inline)) bool call_now(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  call_space space;
  df_error error;
  dfi_call *c = call_make(x, r, p, p->waits ? NULL : &space);
  x->patience -= dfi_patience_of(c->size >> 12);
  if (DFI_UNLIKELY(p->offload && x->head != x->tail && worth_a_worker(x, c)) && send_off(x, c, worker_takes))
    return true;
  if (!c->heap && c->status == DF_OK) {
    error.code = 0; error.message[0] = error.op[0] = error.frame[0] = error.source[0] = 0;
    c->kernel.error = &error;
  }
  if (c->status == DF_OK) {                 /* else a reference among the inputs could not be read */
    atomic_store_explicit(&x->at, p->node->id, memory_order_relaxed);
    bool away;
    if (DFI_UNLIKELY(x->plan->cut) && on_device(x, r, p, c, &away)) return away;
    const int32_t status = run_on_device(x, c);
    if (DFI_UNLIKELY(status == DFI_AGAIN)) {
      call_free(c);
      dfi_exec_requeue(x, r, p);
      return true;
    }
    if (DFI_UNLIKELY(p->waits && status == DFK_PENDING)) {
      dfi_call_away(x, c);  /* it may be completed already, and c->status with it; only the owner takes it out */
      return true;
    }
    c->status = status;
    if (DFI_UNLIKELY(dfi_short)) bookkeeping_ended(c);
  }
  call_end(x, c, p->edge[0]);
  call_free(c);
  return false;
}

bool dfi_call_now(dfi_exec *x, dfi_record *r, dfi_pnode *p) { return call_now(x, r, p); }

bool dfi_call_run(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  if (DFI_UNLIKELY(x->swapper != NULL || x->team != NULL) && runs_ahead(x, r, p)) return true;
  if (p->group && dfi_group_fire(x, r, p)) return false;
  if (DFI_UNLIKELY(x->replay != NULL) && x->plan->engine_ops->replay(x, r, p)) return false;
  if (p->invariant && has_invariant(x, r, p)) return false;
  if (DFI_UNLIKELY(p->batch)) {
    const dfi_batched how = dfi_batch_takes(x, r, p);
    if (how != DFI_BATCH_NOT) return how == DFI_BATCH_WAITS;
  }
  return call_now(x, r, p);
}

void dfi_call_late(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  call_space space;
  df_error error;
  dfi_call *c = call_make(x, r, p, &space);
  if (!c->heap && c->status == DF_OK) {
    error.code = 0; error.message[0] = error.op[0] = error.frame[0] = error.source[0] = 0;
    c->kernel.error = &error;
  }
  atomic_store_explicit(&x->at, p->node->id, memory_order_relaxed);
  c->status = run_on_device(x, c);
  call_end(x, c, p->inside);
  call_free(c);
}

int32_t dfi_call_alone(dfi_exec *x, dfi_record *r, dfi_pnode *p, df_error *err) {
  call_space space;
  dfi_call *c = call_make(x, r, p, &space);
  c->kernel.error = err;
  err->code = 0; err->message[0] = err->op[0] = err->frame[0] = err->source[0] = 0;
  int32_t status = run_on_device(x, c);
  df_value *out = c->kernel.out;
  if (status < 0) status = dfi_fail(err, DF_UNIMPLEMENTED, NULL, "it does not end at once");
  for (uint32_t i = 0; i < p->nout && !status; i++)
    if (out[i].kind == DF_EMPTY) status = dfi_fail(err, DF_INTERNAL, NULL, "the kernel made no output %u", i);
  for (uint32_t i = 0; i < p->nout; i++) {
    if (status) { dfi_value_drop(&out[i]); out[i].kind = DF_EMPTY; }
    else slot_filled(r, &out[i], r->frame->scope->uses[p->out + i]);
  }
  if (!status) drop_inputs(x, r, p);
  call_free(c);
  return status;
}

void dfi_call_returned(dfi_exec *x, dfi_call *c) {
  dfi_record *r = c->record;
  dfi_call_back(x, c);
  if (DFI_UNLIKELY(c->status == DF_RESOURCE_EXHAUSTED) && !c->stop && !x->failed) run_here(x, c);
  if (DFI_UNLIKELY(x->watched)) dfi_service.watch_done(x, r, c->node);
  call_end(x, c, c->node->edge[0]);
  if (DFI_UNLIKELY(x->timed != NULL)) dfi_timed_ran(x, r, c->node);
  call_free(c);
  if (--r->outstanding == 0 && !x->finished) dfi_exec_iteration_done(x, r);
}
