/* call.c: kernels are called here: on the owner's thread, on a worker, or by a resource that makes them wait.
 *
 * A call that does not end at once comes back through the run's inbox, and the owner goes on from there. The inbox and
 * `stuck` are the only things that others touch, under inbox_lock.
 */
#include "engine/engine.h"
#include "engine/owners/fault.h"
#include "engine/owners/stream.h"
#include "base/clock.h"
#include "base/processor.h"
#include "engine/tokens/group_run.h"
#include "resource/host.h"
#include "engine/tokens/token.h"
#include "resource/variable.h"
#include "op/run.h"
#include "engine/memory/holders.h"
#include "engine/owners/remote_call.h"
#include "engine/clock/timed.h"
#include "engine/owners/ranks.h"
#include "engine/owners/team.h"
#include "engine/owners/transfer.h"
#include "engine/observe/watch.h"
#include <sched.h>
#include <stdio.h>
#include <time.h>

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
  if (h->type != DFI_VARIABLE) return v;
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
    } else in[i] = NULL;
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
    dfi_holders_text(x, p->device, x->error->message + at, sizeof x->error->message - at);
}

/* Do the slots still hold what the kernel was given? */
static bool has_inputs(const df_kernel *k) {
  for (int32_t i = 0; i < k->nin; i++) {
    const df_value *v = k->raw[i];
    if (!v || (v->kind != DF_SCALAR && (v->kind != DF_TENSOR || v->as.tensor != k->in[i]))) return false;
  }
  return true;
}

/* The kernel has run: its outputs are sent, along the edges from number `edge` on, or its error is kept. */
static void call_end(dfi_exec *x, dfi_call *c, uint32_t edge) {
  dfi_record *r = c->record;
  dfi_pnode *p = c->node;
  df_value *out = r->base[DFI_ITERATION] + p->out;
  if (c->status == DF_OK)
    for (uint32_t i = 0; i < p->nout; i++)
      if (DFI_UNLIKELY(out[i].kind == DF_EMPTY)) {
        c->status = dfi_fail(c->kernel.error, DF_INTERNAL, NULL, "the kernel of %s made no output %u", p->op->type, i);
        break;
      }
  if (DFI_UNLIKELY(c->status != DF_OK)) {
    for (uint32_t i = 0; i < p->nout; i++) {
      dfi_value_drop(&out[i]);
      out[i].kind = DF_EMPTY;
    }
    if (!x->failed) {
      x->failed = true;
      x->patience = 0;
      if (x->error) {
        *x->error = *c->kernel.error;
        x->error->code = c->status;
        if (c->status == DF_INVALID_ARGUMENT && c->kernel.nin == p->node->nin && has_inputs(&c->kernel))
          dfi_infer_refuses(p->node, c->kernel.in, x->error);
        if (c->status == DF_RESOURCE_EXHAUSTED && !strncmp(x->error->message, "out of memory", 13)) say_who_holds(x, p);
        dfi_exec_blame(r, p, x->error);
      }
    }
    return;
  }
  if (DFI_UNLIKELY(x->timed != NULL)) { dfi_timed_call(x, r, p, &c->kernel); dfi_timed_ended(x, r); }
  if (DFI_UNLIKELY(x->made != NULL)) dfi_watch_keep_all(x, r, p);
  const uint32_t *uses = r->frame->scope->uses + p->out;
  for (uint32_t i = 0; i < p->nout; i++) slot_filled(r, &out[i], uses[i]);
  drop_inputs(x, r, p);
  dfi_exec_send(x, r, edge, p->edge[1], 0);
}

/* Something has come to x. Under inbox_lock. */
static void ring(dfi_exec *x) {
  if (x->stuck) {
    x->stuck = false;
    atomic_fetch_sub(&x->shared->stuck, 1);
  }
  pthread_cond_signal(&x->inbox_bell);
  if (DFI_UNLIKELY(x->rank != NULL)) dfi_rank_wake(x->rank);           /* it may sleep there */
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
  if (c->message) dfi_transfer_copy(c);
  else {
    dfi_devmem_use(arena_of(c->exec, c->node));
    c->status = c->node->kernel(&c->kernel);
    dfi_devmem_use(NULL);
    if (DFI_UNLIKELY(dfi_short)) bookkeeping_ended(c);
  }
  post(c);
}

/* It ran elsewhere, where nobody could make room for what it makes. The owner can. */
static void run_here(dfi_exec *x, dfi_call *c) {
  df_value *out = c->kernel.out;
  for (uint32_t i = 0; i < c->node->nout; i++) { dfi_value_drop(&out[i]); out[i].kind = DF_EMPTY; }
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
static bool has_other_work(const dfi_exec *x) {
  enum { LOOK_AT = 16 };
  for (uint32_t i = x->head, n = 0; i != x->tail && n < LOOK_AT; i++, n++) {
    const dfi_token *t = &x->queue[i & x->queue_mask];
    if (!(t->mark & DFI_DEAD) && t->record->nodes[t->node].kind == DFI_K_KERNEL && t->record->nodes[t->node].offload)
      return true;
  }
  return false;
}

static bool worth_a_worker(const dfi_exec *x, const dfi_call *c) {
  const double worker_ns = 40e3;
  /* by the virtual clock, and where kernels are counted, all comes in order */
  if (x->timed || x->faults) return false;
  if (x->head == x->tail && !x->running) return false;      /* nothing else to do meanwhile */
  if (c->status) return false;                              /* a reference could not be read: an input is missing */
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

static bool worker_takes(dfi_exec *x, dfi_call *c) { return dfi_pool_try(x->pool, dfi_call_work, c); }
static bool stream_takes(dfi_exec *x, dfi_call *c) { return dfi_stream_take(x, c, false); }

/* Somebody else runs the call: one made anew, since c lies on the owner's stack. False: he does not take it. */
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
  if (x->faults && dfi_fault_kernel(x, r, p)) { call_free(c); return true; }
  return *away = p->offload && dfi_stream_wants(x, c) && send_off(x, c, stream_takes);
}

/* The kernel of c, with the memory of its node's device. */
static int32_t run_on_device(dfi_exec *x, dfi_call *c) {
  if (DFI_LIKELY(!x->plan->cut)) return c->node->kernel(&c->kernel);
  const dfi_device *d = x->plan->devices->at[c->node->device];
  dfi_devmem_use(arena_of(x, c->node));
  const int32_t status = d->remote ? dfi_remote_run(c, d) : c->node->kernel(&c->kernel);
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
  if (!dfi_held_back(x, r, x->plan->devices->at[p->device], 0, DFI_HELD_FOR * most)) return false;
  dfi_exec_again(x, r, p);
  return true;
}

bool dfi_call_run(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  if (DFI_UNLIKELY(x->swapper != NULL || x->team != NULL) && runs_ahead(x, r, p)) return true;
  if (p->group && dfi_group_fire(x, r, p)) return false;
  if (DFI_UNLIKELY(x->replay != NULL) && x->plan->engine_ops->replay(x, r, p)) return false;
  call_space space;
  df_error error;
  dfi_call *c = call_make(x, r, p, p->waits ? NULL : &space);
  x->patience -= 4 + (int32_t)(c->size >> 12 & 0xffff);
  if (DFI_UNLIKELY(p->offload && x->head != x->tail && worth_a_worker(x, c)) && send_off(x, c, worker_takes))
    return true;
  if (!c->heap) {
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
      dfi_exec_again(x, r, p);
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

void dfi_call_late(dfi_exec *x, dfi_record *r, dfi_pnode *p) {
  call_space space;
  df_error error;
  dfi_call *c = call_make(x, r, p, &space);
  if (!c->heap) {
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

/* Does somebody want the owner to come by? */
static bool called(const dfi_exec *x) { return dfi_watch_wanted(x) || dfi_team_failed(x); }

/* Sleeps for so long at most, or until something comes. Under inbox_lock. False: it may have slept to the end. */
static bool sleep_a_while(dfi_exec *x, double seconds) {
  if (DFI_UNLIKELY(x->rank != NULL)) {
    const uint32_t ticket = dfi_rank_ticket(x->rank);
    if (dfi_inbox_filled(x) || called(x)) return true;
    pthread_mutex_unlock(&x->inbox_lock);
    dfi_rank_sleep(x->rank, ticket, seconds);
    dfi_rank_poll(x->rank);
    pthread_mutex_lock(&x->inbox_lock);
    return false;
  }
  const struct timespec until = dfi_after(seconds);
  return pthread_cond_timedwait(&x->inbox_bell, &x->inbox_lock, &until) == 0;
}

/* Waits until something is in the inbox; not longer than 10 ms when calls wait for what is outside, which may never
   come. */
static void inbox_wait(dfi_exec *x) {
  if (!x->waiting) {
    while (!dfi_inbox_filled(x) && !called(x)) pthread_cond_wait(&x->inbox_bell, &x->inbox_lock);
    return;
  }
  while (!dfi_inbox_filled(x) && !called(x) && sleep_a_while(x, 0.01)) { }
}

/* Looks for something in the inbox without sleeping. Who waits for a worker spins as long as waking would take. Who
 * waits for another owner, which may be a ready thread without a processor, soon gives up its own: with 2000 pauses
 * here two owners on a busy machine of two processors took eight times as long. */
static void look_a_while(dfi_exec *x) {
  enum { SPINS = 2000 };
  if (!x->waiting)
    for (int32_t i = 0; i < SPINS && !dfi_inbox_filled(x); i++) dfi_relax();
  else if (x->team)
    for (int32_t i = 0; i < DFI_LOOKS + DFI_YIELDS && !dfi_inbox_filled(x) && !called(x); i++) {
      if (x->rank && dfi_rank_poll(x->rank)) continue;
      if (i < DFI_LOOKS) dfi_relax();
      else sched_yield();
    }
}

void dfi_inbox_wait(dfi_exec *x, double seconds) {
  if (seconds < 30e-6) {                    /* waking takes longer than that */
    for (const double until = dfi_now() + seconds; dfi_now() < until && !dfi_inbox_filled(x);)
      dfi_relax();
  } else {
    /* a cancellation rings no bell */
    pthread_mutex_lock(&x->inbox_lock);
    if (!dfi_inbox_filled(x) && !called(x)) sleep_a_while(x, seconds < 0.01 ? seconds : 0.01);
    pthread_mutex_unlock(&x->inbox_lock);
  }
  if (dfi_inbox_filled(x)) dfi_inbox_take(x, false);
}

void dfi_inbox_take(dfi_exec *x, bool wait) {
  dfi_call *list = NULL;
  if (wait) look_a_while(x);
  pthread_mutex_lock(&x->inbox_lock);
  if (wait && !dfi_inbox_filled(x)) inbox_wait(x);
  list = x->inbox;
  dfi_team_message *messages = x->messages;
  __atomic_store_n(&x->inbox, NULL, __ATOMIC_RELAXED);
  __atomic_store_n(&x->messages, NULL, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&x->inbox_lock);
  while (list) {
    dfi_call *c = list;
    list = c->next;
    dfi_record *r = c->record;
    if (DFI_UNLIKELY(c->message)) { dfi_transfer_copied(x, c); continue; }
    dfi_call_back(x, c);
    if (DFI_UNLIKELY(c->status == DF_RESOURCE_EXHAUSTED) && !c->stop && !x->failed) run_here(x, c);
    if (DFI_UNLIKELY(x->watched)) dfi_watch_done(x, r, c->node);
    call_end(x, c, c->node->edge[0]);
    call_free(c);
    if (--r->outstanding == 0) dfi_exec_iteration_done(x, r);
  }
  for (dfi_team_message *next; messages; messages = next) {
    next = messages->next;
    dfi_transfer_message(x, messages);
  }
}

/* ---- calls that wait ------------------------------------------------------------------------------- */

const dfi_call *dfi_calls_first(const dfi_exec *x) {
  for (const dfi_call *c = x->away; c; c = c->away_next) if (!dfi_team_awaits(c)) return c;
  return x->away;
}

enum { TOLD = 3 };             /* calls that a message says more of than how many they are */

/* Writes of the first of them at text + at, either of those that wait for other owners or of the rest; how long it is
   then. */
static size_t tell_calls(const dfi_exec *x, bool others, int32_t *told, char *text, size_t at, size_t bytes) {
  for (dfi_call *c = x->away; c && *told < TOLD && at < bytes; c = c->away_next) {
    char what[300] = "runs";
    if (dfi_team_awaits(c) != others) continue;
    if (c->what) c->what(&c->kernel, c->user, what, sizeof what);
    at += (size_t)snprintf(text + at, bytes - at, "%s`%s`%s%s %s", *told ? "; " : "", dfi_node_name(c->node->node),
                           c->node->node->where[0] ? " at " : "", c->node->node->where, what);
    ++*told;
  }
  return at;
}

size_t dfi_calls_text(const dfi_exec *x, char *text, size_t bytes) {
  int32_t told = 0;
  size_t at = tell_calls(x, true, &told, text, tell_calls(x, false, &told, text, 0, bytes), bytes);
  if (x->running > told && told && at < bytes)
    at += (size_t)snprintf(text + at, bytes - at, "; and %d more", x->running - told);
  return at < bytes ? at : bytes;
}

/* Every run of the session that is in progress counts itself as stuck when all its calls wait and its inbox is empty;
 * whoever completes one of its calls counts it out again, under the same lock. So when all are counted, no call can be
 * completed but by a run that is yet to be started, and the foreground, which would have to end first, can give up. */
bool dfi_calls_all_stuck(const dfi_exec *x) {
  const int in_progress = atomic_load(&x->shared->in_progress);
  return x->foreground && !x->deadline && atomic_load(&x->shared->stuck) == in_progress;
}

/* Is it for x to give up? */
static bool gives_up(dfi_exec *x) {
  if (!x->team) return dfi_calls_all_stuck(x);
  if (x->rank_run) {
    dfi_team_look_stalled(x);
    return x->flights ? dfi_team_found_stalled(x) : dfi_team_stalled(x);
  }
  if (x->flights) return atomic_load(&x->shared->stuck) == atomic_load(&x->shared->in_progress);  /* held up for ever */
  if (!x->guest) dfi_team_stall(x);
  return dfi_team_stalled(x);
}

bool dfi_calls_stuck(dfi_exec *x) {
  if (dfi_host_asked() && dfi_host_serve() > 0) return false;      /* another run waits for this thread */
  if (x->waiting + dfi_transfers_held(x) < x->running) return false;
  if (DFI_UNLIKELY(x->rank != NULL) && (dfi_rank_poll(x->rank) || !dfi_rank_flush(x->rank))) return false;
  dfi_shared *s = x->shared;
  bool newly = false;
  pthread_mutex_lock(&x->inbox_lock);
  if (!dfi_inbox_filled(x) && !x->stuck) {
    x->stuck = newly = true;
    atomic_fetch_add(&s->stuck, 1);
  }
  const bool all = x->stuck && gives_up(x);
  pthread_mutex_unlock(&x->inbox_lock);
  if (newly && x->watch && !x->team) {
    pthread_mutex_lock(&x->watch->lock);
    x->watch->waits = true;
    pthread_cond_broadcast(&x->watch->changed);
    pthread_mutex_unlock(&x->watch->lock);
  }
  if (!all) return false;
  if (x->flights) {
    dfi_fault_stalled(x, x->flights->call.record, x->flights->call.node);
    return true;
  }
  char message[900];
  size_t at = (size_t)snprintf(message, sizeof message, "nothing can move: ");
  at += dfi_calls_text(x, message + at, sizeof message - at);
  if (at < sizeof message) snprintf(message + at, sizeof message - at, "; and no other run of this session can move");
  const dfi_call *c = dfi_calls_first(x);
  dfi_exec_fail(x, c->record, c->node, DF_FAILED_PRECONDITION, message);
  return true;
}

void dfi_calls_stop(dfi_exec *x) {
  for (dfi_call *c = x->away, *next; c; c = next) {
    next = c->away_next;
    if (c->stop) c->stop(&c->kernel, c->user);
  }
  while (x->flights) dfi_transfer_arrivals(x);
  while (x->running) dfi_inbox_take(x, true);   /* after an error, what workers still do is waited for */
  pthread_mutex_lock(&x->inbox_lock);
  if (x->stuck) atomic_fetch_sub(&x->shared->stuck, 1);
  x->stuck = false;
  pthread_mutex_unlock(&x->inbox_lock);
}
