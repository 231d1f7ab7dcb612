/* far_kernel.c: nodes whose variables live on another rank than their owner: those of a graph function, which belong to
 * its caller, and one that takes variables of several ranks.
 *
 * The kernel runs where the first of the node's variables lives, and the node waits for its outputs, as one of a queue
 * does. What it takes of variables of yet other ranks is fetched before, as what has the kernel run there, and stored
 * after where it was changed. So an op changes each of its variables as a whole, as always.
 *
 * A rank answers from a thread of its own, whatever its owners do: they may be paused, or done. So the part of a rank
 * is over when the owners of all others are, which they say (NO_MORE).
 *
 * Lock order: the rank's `runs`, then far.lock, then a peer's `out`, or an inbox_lock.
 */
#include "engine/owners/far_kernel.h"
#include "base/devmem.h"
#include "base/packet.h"
#include "base/processor.h"
#include "engine/owners/team_internal.h"
#include "resource/variable.h"
#include <stdio.h>

enum { FETCH = 1, RUN, STORE, ANSWER, NO_MORE };
/* Of each message. at: what is asked for, among the node's inputs; node: FETCH, STORE: the variable's; RUN: its place
   in the plan. */
typedef struct head { int64_t what, id, at, node; } head;
/* How an input is told, and an output: a value; the variable that lives there; one that was fetched, or is to be
   fetched; nothing; the handle that is an input. */
enum { VALUE = 1, LIVES, FETCHED, NOTHING, SAME };

/* A node that waits. */
typedef struct dfi_far_call {
  struct dfi_far_call *next;
  int64_t    id;
  df_kernel *k;
  int32_t    home;               /* where its kernel runs */
  int32_t    awaited;            /* answers */
  df_error   error;              /* the first that went wrong; code 0: none */
  df_value   value[];            /* owned; by input: what was fetched */
} far_call;

static dfi_exec *exec_of(const df_kernel *k) { return ((dfi_call *)k->run)->exec; }
static const dfi_pnode *node_of(const df_kernel *k) { return ((dfi_call *)k->run)->node; }

static dfi_variable *variable_of(const df_value *v) { return dfi_variable_is(v) ? v->as.handle : NULL; }

static bool is_read(const df_kernel *k, int32_t i) { return node_of(k)->reads && node_of(k)->reads[i]; }

/* Is input i to be fetched? One that is read as a value; one that is changed elsewhere than where the kernel runs. */
static bool is_fetched(const df_kernel *k, int32_t i, int32_t home, int32_t me) {
  const dfi_variable *v = variable_of(k->raw[i]);
  return v && atomic_load(&v->home) != (is_read(k, i) ? me : home);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Gone where it is counted so, as a value would be: it has not come before it is answered. */
static void tell(struct dfi_team *t, int32_t to, const dfi_packet *p, bool counted) {
  dfi_rank *r = t->member[0]->rank;
  dfi_message m = { .head = { .kind = DFI_MESSAGE_KERNEL, .run = t->run, .bytes = (int64_t)p->n }, .payload = p->at };
  if (counted) atomic_fetch_add(&t->sent_to[to & (DFI_RANKS_MOST - 1)], 1);
  dfi_rank_send(r, to, &m);
}

static void put_value(dfi_packet *p, const df_value *v, df_error *err) {
  int64_t n = 0;
  void *bytes = dfi_value_pack(v, &n, err);
  dfi_put_i64(p, bytes ? n : 0);
  if (bytes) dfi_put(p, bytes, (size_t)n);
  dfi_free(bytes);
}

/* False: there is none, or no memory for it. */
static bool get_value(dfi_cursor *c, df_value *out) {
  const int64_t n = dfi_get_i64(c);
  const void *bytes = n > 0 ? dfi_get(c, (size_t)n) : NULL;
  *out = (df_value){ 0 };
  return bytes && dfi_value_unpack(bytes, n, out);
}

static void put_status(dfi_packet *p, const df_error *err) {
  dfi_put_i64(p, err->code);
  if (err->code) dfi_put(p, err, sizeof *err);
}

static int32_t get_status(dfi_cursor *c, df_error *err) {
  const int64_t code = dfi_get_i64(c);
  const df_error *e = code || c->bad ? dfi_get(c, sizeof *e) : NULL;
  if (!code && !c->bad) return DF_OK;
  if (e && code > 0 && code <= DF_DATA_LOSS && memchr(e->message, 0, sizeof e->message))
    return dfi_fail(err, (int32_t)code, NULL, "%s", e->message);
  return dfi_fail(err, DF_DATA_LOSS, NULL, "another rank has answered what is no answer");
}

/* ---- the rank that is asked -------------------------------------------------------------------------------------- */

/* What it is asked; owned by the thread that answers. */
typedef struct job { struct dfi_team *t; int32_t from; size_t n; uint8_t bytes[]; } job;

/* The variable of that node, and where it lies; NULL: the plan has none. */
static dfi_variable *variable_at(const dfi_exec *x, int64_t node, dfi_devmem **arena) {
  const dfi_plan *p = x->plan;
  for (int32_t i = 0; i < p->nvariables; i++)
    if (p->variable[i]->id == node) {
      if (arena) *arena = p->devices->at[p->variable_device[i]]->arena;
      return variable_of(&x->given[p->nfeed + i]);
    }
  return NULL;
}

/* A kernel that is run for another rank: its inputs, owned, and what was fetched of variables, of which there are
   variables here while it runs. */
typedef struct lent { const dfi_variable *like; int64_t node; dfi_variable *variable; df_value was; } lent;
typedef struct work {
  dfi_call call;
  df_value *in;                  /* owned, as what is in it */
  const df_value **raw;
  const df_tensor **tensor;
  df_tensor *view, *scratch;
  df_value *out;
  lent *lent;                    /* by input; variable NULL: it is none */
  dfi_devmem *arena;
} work;

static void work_new(work *w, const dfi_exec *x, dfi_pnode *q, df_error *err) {
  const size_t nin = q->nin, nout = q->nout;
  *w = (work){ .in = dfi_xcalloc(nin + 1, sizeof *w->in), .raw = dfi_xcalloc(nin + 1, sizeof *w->raw),
               .tensor = dfi_xcalloc(nin + 1, sizeof *w->tensor), .view = dfi_xcalloc(nin + 1, sizeof *w->view),
               .scratch = dfi_xcalloc(nout + 1, sizeof *w->scratch), .out = dfi_xcalloc(nout + 1, sizeof *w->out),
               .lent = dfi_xcalloc(nin + 1, sizeof *w->lent) };
  w->call = (dfi_call){ .exec = (dfi_exec *)(uintptr_t)x, .node = q };
  w->call.kernel = (df_kernel){ .attrs = q->node->attrs, .nin = (int32_t)nin, .nout = (int32_t)nout, .in = w->tensor,
                                .raw = w->raw, .out = w->out, .out_dtype = q->out_dtypes, .scratch = w->scratch,
                                .run = &w->call, .error = err };
}

static void work_free(work *w) {
  for (int32_t i = 0; i < w->call.kernel.nin; i++) {
    dfi_value_drop(&w->in[i]);
    dfi_value_drop(&w->lent[i].was);
    if (w->lent[i].variable) dfi_handle_release(w->lent[i].variable);
  }
  for (int32_t i = 0; i < w->call.kernel.nout; i++) dfi_value_drop(&w->out[i]);
  dfi_free(w->in); dfi_free(w->raw); dfi_free(w->tensor); dfi_free(w->view); dfi_free(w->scratch); dfi_free(w->out);
  dfi_free(w->lent);
}

/* A variable with what was fetched of it: the node's kernel gets it in place of the one that is elsewhere. */
static dfi_variable *lend(work *w, int32_t i, const dfi_variable *like, int64_t node) {
  for (int32_t k = 0; k < i; k++)
    if (w->lent[k].variable && w->lent[k].node == node) return w->lent[k].variable;
  dfi_variable *v = dfi_variable_new(like->dtype, &like->shape, like->name);
  v->where = like->where;
  dfi_variable_lock(v);
  v->value = dfi_value_copy(&w->lent[i].was);
  dfi_variable_unlock(v);
  w->lent[i].node = node;
  return w->lent[i].variable = v;
}

static bool get_input(work *w, int32_t i, dfi_cursor *c) {
  const dfi_exec *x = w->call.exec;
  df_value *v = &w->in[i];
  const int64_t how = dfi_get_i64(c), node = how == VALUE ? 0 : dfi_get_i64(c);
  dfi_variable *of = how == VALUE ? NULL : variable_at(x, node, how == LIVES ? &w->arena : NULL);
  if (how == VALUE) {
    if (!get_value(c, v)) return false;
  } else if (!of) return false;
  else {
    if (how == FETCHED && dfi_get_i64(c) && !get_value(c, &w->lent[i].was)) return false;
    if (how == FETCHED) of = lend(w, i, of, node);
    *v = (df_value){ .kind = DF_HANDLE, .dtype = DF_RESOURCE, .as.handle = dfi_handle_retain(of) };
  }
  w->raw[i] = v;
  w->view[i] = (df_tensor){ .refs = 1, .dtype = v->dtype, .view = 1, .size = 1, .data = (void *)&v->as };
  w->tensor[i] = v->kind == DF_TENSOR ? v->as.tensor : v->kind == DF_SCALAR ? &w->view[i] : NULL;
  return true;
}

static void put_output(dfi_packet *p, const work *w, int32_t o, df_error *err) {
  const df_value *v = &w->out[o];
  for (int32_t i = 0; i < w->call.kernel.nin && v->kind == DF_HANDLE; i++)
    if (w->in[i].kind == DF_HANDLE && w->in[i].as.handle == v->as.handle) {
      dfi_put_i64(p, SAME);
      dfi_put_i64(p, i);
      return;
    }
  dfi_put_i64(p, VALUE);
  put_value(p, v, err);
}

/* What its kernel has made of a variable that was fetched, if it is another value now. */
static void put_change(dfi_packet *p, const lent *l, df_error *err) {
  df_value now = { 0 };
  if (l->variable) {
    dfi_variable_lock(l->variable);
    now = dfi_value_copy(&l->variable->value);
    dfi_variable_unlock(l->variable);
  }
  /* it is, unless it was updated, which is done to a copy while it has another holder */
  const bool same = now.kind == l->was.kind && now.as.u64 == l->was.as.u64;
  dfi_put_i64(p, same ? NOTHING : VALUE);
  if (!same) put_value(p, &now, err);
  dfi_value_drop(&now);
}

static void run_kernel(struct dfi_team *t, const head *h, dfi_cursor *c, dfi_packet *p, df_error *err) {
  dfi_exec *x = t->member[0];
  dfi_pnode *q = h->node >= 0 && h->node < x->plan->nnodes ? &x->plan->node[h->node] : NULL;
  if (!q || q->waits != DFI_WAITS_FAR) {
    dfi_fail(err, DF_DATA_LOSS, NULL, "another rank asks for a node that the plan has not");
    return;
  }
  work w;
  work_new(&w, x, q, err);
  bool good = true;
  for (int32_t i = 0; i < w.call.kernel.nin && good; i++) good = get_input(&w, i, c);
  if (!good) dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "no memory for what %s takes", q->op->type);
  else {
    dfi_devmem_use(w.arena);
    const int32_t status = q->here(&w.call.kernel);
    dfi_devmem_use(NULL);
    if (status < 0) dfi_fail(err, DF_UNIMPLEMENTED, NULL, "%s waits, and cannot for another rank", q->op->type);
    else if (status) err->code = status;
  }
  dfi_packet made = { 0 };
  for (int32_t o = 0; o < w.call.kernel.nout && !err->code; o++) put_output(&made, &w, o, err);
  for (int32_t i = 0; i < w.call.kernel.nin && !err->code; i++) put_change(&made, &w.lent[i], err);
  if (!err->code) { put_status(p, err); dfi_put(p, made.at, made.n); }
  dfi_free(made.at);
  work_free(&w);
}

static void fetch(const struct dfi_team *t, const head *h, dfi_packet *p, df_error *err) {
  df_value now = { 0 };
  dfi_variable *v = variable_at(t->member[0], h->node, NULL);
  if (!v) dfi_fail(err, DF_DATA_LOSS, NULL, "another rank asks for a variable that the plan has not");
  else if (dfi_variable_initialised(v)) dfi_variable_read(v, &now, err);
  if (err->code) return;
  dfi_packet value = { 0 };
  if (now.kind != DF_EMPTY) put_value(&value, &now, err);
  dfi_value_drop(&now);
  if (!err->code) {
    put_status(p, err);
    dfi_put_i64(p, value.n ? VALUE : NOTHING);
    dfi_put(p, value.at, value.n);
  }
  dfi_free(value.at);
}

static void store(const struct dfi_team *t, const head *h, dfi_cursor *c, dfi_packet *p, df_error *err) {
  df_value v;
  dfi_variable *of = variable_at(t->member[0], h->node, NULL);
  if (!of) dfi_fail(err, DF_DATA_LOSS, NULL, "another rank asks for a variable that the plan has not");
  else if (!get_value(c, &v)) dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "no memory for the value of `%s`", of->name);
  else {
    dfi_variable_replace(of, &v, false, err);
    dfi_value_drop(&v);
  }
  if (!err->code) put_status(p, err);
}

/* Does what is asked; owned. */
static dfi_packet answer_to(struct dfi_team *t, const uint8_t *bytes, size_t n) {
  dfi_cursor c = { bytes, bytes + n, false };
  const head *asked = dfi_get(&c, sizeof *asked);
  head h;
  memcpy(&h, asked, sizeof h);
  dfi_packet p = { 0 };
  df_error err = { 0 };
  dfi_put(&p, &(head){ ANSWER, h.id, h.at, h.what }, sizeof h);
  const uint32_t mode = dfi_float_mode();
  dfi_set_float_mode(t->mode);
  dfi_short = false;
  if (h.what == RUN) run_kernel(t, &h, &c, &p, &err);
  else if (h.what == FETCH) fetch(t, &h, &p, &err);
  else store(t, &h, &c, &p, &err);
  if (dfi_short && !err.code) dfi_short_fail(&err, NULL, "what a kernel keeps");
  dfi_short = false;
  dfi_set_float_mode(mode);
  if (err.code) {
    p.n = sizeof h;
    put_status(&p, &err);
  }
  return p;
}

static void answered(struct dfi_team *t, const uint8_t *bytes, size_t n);

static void serve(void *arg) {
  job *j = arg;
  struct dfi_team *t = j->t;
  dfi_packet p = answer_to(t, j->bytes, j->n);
  if (j->from == dfi_rank_me(t->member[0]->rank)) answered(t, p.at, p.n);
  else {
    tell(t, j->from, &p, true);
    atomic_fetch_add(&t->come_from[j->from], 1);
    if (t->member[0]->watch) dfi_team_call_all(t);       /* they may stand until all that was sent has come */
  }
  dfi_free(p.at);
  dfi_free(j);
  atomic_fetch_sub(&t->far.jobs, 1);
}

/* False: there is none for it. */
static bool give_to_thread(struct dfi_team *t, int32_t from, const void *bytes, size_t n) {
  job *j = dfi_xmalloc(sizeof *j + n);
  *j = (job){ t, from, n };
  memcpy(j->bytes, bytes, n);
  atomic_fetch_add(&t->far.jobs, 1);
  if (dfi_background(serve, j)) return true;
  if (from != dfi_rank_me(t->member[0]->rank)) { serve(j); return true; }
  dfi_free(j);
  atomic_fetch_sub(&t->far.jobs, 1);
  return false;
}

/* ---- the rank that asks: all under far.lock ---------------------------------------------------------------------- */

/* Asks a rank, which may be this one. */
static void ask(far_call *f, int32_t to, const dfi_packet *p) {
  dfi_exec *x = exec_of(f->k);
  f->awaited++;
  if (to != dfi_rank_me(x->rank)) tell(x->team, to, p, true);
  else if (!give_to_thread(x->team, to, p->at, p->n)) {
    f->awaited--;
    dfi_fail(&f->error, DF_RESOURCE_EXHAUSTED, NULL, "there is no thread for a kernel with variables of several ranks");
  }
}

static far_call **place_of(struct dfi_team *t, int64_t id) {
  far_call **at = &t->far.calls;
  while (*at && (*at)->id != id) at = &(*at)->next;
  return at;
}

/* It waits no more; its call may be gone after that. */
static void done(struct dfi_team *t, far_call *f, int32_t status) {
  df_kernel *k = f->k;
  *place_of(t, f->id) = f->next;
  for (int32_t i = 0; i < k->nin; i++) dfi_value_drop(&f->value[i]);
  if (status && status == f->error.code) *k->error = f->error;
  dfi_free(f);
  dfk_complete(k, status);
}

static void put_input(dfi_packet *p, far_call *f, int32_t i) {
  const df_kernel *k = f->k;
  const dfi_variable *v = variable_of(k->raw[i]);
  const df_value *fetched = &f->value[i];
  df_error *err = f->error.code ? NULL : &f->error;
  if (!v || is_read(k, i)) {
    dfi_put_i64(p, VALUE);
    put_value(p, v ? fetched : k->raw[i], err);
    return;
  }
  const bool lives = atomic_load(&v->home) == f->home;
  dfi_put_i64(p, lives ? LIVES : FETCHED);
  dfi_put_i64(p, atomic_load(&v->node));
  if (lives) return;
  dfi_put_i64(p, fetched->kind != DF_EMPTY);
  if (fetched->kind != DF_EMPTY) put_value(p, fetched, err);
}

/* All that it takes has been fetched. */
static void run_there(struct dfi_team *t, far_call *f) {
  const df_kernel *k = f->k;
  dfi_packet p = { 0 };
  dfi_put(&p, &(head){ RUN, f->id, 0, node_of(k) - t->member[0]->plan->node }, sizeof(head));
  for (int32_t i = 0; i < k->nin; i++) put_input(&p, f, i);
  if (!f->error.code) ask(f, f->home, &p);
  dfi_free(p.at);
  if (f->error.code) done(t, f, f->error.code);
}

static void fetched(struct dfi_team *t, far_call *f, int64_t at, dfi_cursor *c) {
  if (at < 0 || at >= f->k->nin) return;
  const dfi_variable *v = variable_of(f->k->raw[at]);
  if (dfi_get_i64(c) == VALUE) {
    if (!get_value(c, &f->value[at]))
      dfi_fail(&f->error, DF_RESOURCE_EXHAUSTED, NULL, "no memory for the value of variable '%s'", v->name);
  } else if (is_read(f->k, (int32_t)at))
    dfi_variable_read((dfi_variable *)(uintptr_t)v, &f->value[at], &f->error);       /* it is none here, either */
}

static void stores(struct dfi_team *t, far_call *f, int32_t i, dfi_cursor *c) {
  const int64_t n = dfi_get_i64(c);
  const void *bytes = dfi_get(c, n > 0 ? (size_t)n : 0);
  const dfi_variable *v = variable_of(f->k->raw[i]);
  if (!bytes || !v) return;
  dfi_packet p = { 0 };
  dfi_put(&p, &(head){ STORE, f->id, i, atomic_load(&v->node) }, sizeof(head));
  dfi_put_i64(&p, n);
  dfi_put(&p, bytes, (size_t)n);
  ask(f, atomic_load(&v->home), &p);
  dfi_free(p.at);
}

static void made(struct dfi_team *t, far_call *f, dfi_cursor *c) {
  df_kernel *k = f->k;
  for (int32_t o = 0; o < k->nout; o++) {
    const bool same = dfi_get_i64(c) == SAME;
    const int64_t i = same ? dfi_get_i64(c) : 0;
    if (same && i >= 0 && i < k->nin) k->out[o] = dfi_value_copy(k->raw[i]);
    else if (same || !get_value(c, &k->out[o]))
      dfi_fail(&f->error, DF_RESOURCE_EXHAUSTED, NULL, "no memory for output %d", o);
  }
  for (int32_t i = 0; i < k->nin && !f->error.code; i++) if (dfi_get_i64(c) == VALUE) stores(t, f, i, c);
}

static void answered(struct dfi_team *t, const uint8_t *bytes, size_t n) {
  dfi_cursor c = { bytes, bytes + n, false };
  const head *told = dfi_get(&c, sizeof *told);
  head h;
  memcpy(&h, told, sizeof h);
  pthread_mutex_lock(&t->far.lock);
  far_call *f = *place_of(t, h.id);
  if (f) {
    df_error err = { 0 };
    f->awaited--;
    if (get_status(&c, &err)) { if (!f->error.code) f->error = err; }
    else if (f->error.code) { }
    else if (h.node == FETCH) fetched(t, f, h.at, &c);
    else if (h.node == RUN) made(t, f, &c);
    if (f->awaited) { }
    else if (f->error.code || h.node != FETCH) done(t, f, f->error.code);
    else run_there(t, f);
  }
  pthread_mutex_unlock(&t->far.lock);
}

/* The run has failed, or is over without it. */
static void stop(df_kernel *k, void *user) {
  struct dfi_team *t = user;
  pthread_mutex_lock(&t->far.lock);
  far_call *f = t->far.calls;
  while (f && f->k != k) f = f->next;
  if (f) {
    dfk_fail(k, DF_CANCELLED, "the run was over before another rank had answered");
    done(t, f, DF_CANCELLED);
  }
  pthread_mutex_unlock(&t->far.lock);
}

static void what(df_kernel *k, void *user, char *text, size_t bytes) {
  (void)user;
  for (int32_t i = 0; i < k->nin; i++) {
    const dfi_variable *v = variable_of(k->raw[i]);
    if (!v) continue;
    snprintf(text, bytes, "waits for rank %d, where variable '%s' lives", atomic_load(&v->home), v->name);
    return;
  }
}

/* Where it runs: as its first variable says that is not only read. *far: something of it is on another rank. */
static int32_t home_of(const df_kernel *k, int32_t me, bool *far) {
  int32_t home = -1;
  *far = false;
  for (int32_t i = 0; i < k->nin; i++) {
    const dfi_variable *v = variable_of(k->raw[i]);
    if (!v) continue;
    *far |= atomic_load(&v->home) != me;
    if (home < 0 && !is_read(k, i)) home = atomic_load(&v->home);
  }
  return home < 0 ? me : home;
}

static int32_t far_kernel(df_kernel *k) {
  dfi_exec *x = exec_of(k);
  struct dfi_team *t = x->team;
  bool far;
  const int32_t me = x->rank ? dfi_rank_me(x->rank) : 0, home = home_of(k, me, &far);
  if (!far || !x->setup.rank_run) return node_of(k)->here(k);
  far_call *f = dfi_xcalloc(1, sizeof *f + sizeof *f->value * (size_t)k->nin);
  dfk_on_stop(k, stop, what, t);
  pthread_mutex_lock(&t->far.lock);
  f->id = ++t->far.ids;
  f->k = k;
  f->home = home;
  f->next = t->far.calls;
  t->far.calls = f;
  for (int32_t i = 0; i < k->nin; i++) {
    if (!is_fetched(k, i, home, me)) continue;
    const dfi_variable *v = variable_of(k->raw[i]);
    dfi_packet p = { 0 };
    dfi_put(&p, &(head){ FETCH, f->id, i, atomic_load(&v->node) }, sizeof(head));
    ask(f, atomic_load(&v->home), &p);
    dfi_free(p.at);
  }
  if (!f->awaited) run_there(t, f);
  pthread_mutex_unlock(&t->far.lock);
  return DFK_PENDING;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

void dfi_far_attach(dfi_plan *p) {
  for (int32_t i = 0; p->parts && p->parts->far && i < p->nnodes; i++) {
    dfi_pnode *q = &p->node[i];
    if (q->waits != DFI_WAITS_FAR) continue;
    q->here = q->kernel;
    q->kernel = far_kernel;
  }
}

void dfi_far_message(void *user, int32_t from, const void *bytes, int64_t n) {
  struct dfi_team *t = user;
  head h;
  if (n < (int64_t)sizeof h) return;
  memcpy(&h, bytes, sizeof h);
  if (h.what == FETCH || h.what == RUN || h.what == STORE) give_to_thread(t, from, bytes, (size_t)n);
  else if (h.what == ANSWER) {
    answered(t, bytes, (size_t)n);
    atomic_fetch_add(&t->come_from[from], 1);
  } else if (h.what == NO_MORE) {
    atomic_fetch_or(&t->far.done, (uint64_t)1 << from);
    dfi_team_call_all(t);
  }
}

void dfi_far_begin(struct dfi_team *t) {
  atomic_store(&t->far.done, (uint64_t)1 << dfi_rank_me(t->member[0]->rank));
  atomic_store(&t->far.owners, t->n);
}

void dfi_far_owner_done(dfi_exec *x) {
  struct dfi_team *t = x->team;
  if (!x->setup.rank_run || !x->plan->parts->far || atomic_fetch_sub(&t->far.owners, 1) != 1) return;
  const uint64_t to = t->part.ranks & ~((uint64_t)1 << dfi_rank_me(x->rank));
  dfi_packet p = { 0 };
  dfi_put(&p, &(head){ .what = NO_MORE }, sizeof(head));
  for (int32_t i = 0; to >> i; i++) if (to >> i & 1) tell(t, i, &p, false);
  dfi_free(p.at);
}

bool dfi_far_is_needed(const dfi_exec *x) {
  struct dfi_team *t = x->team;
  return x->setup.rank_run && x->plan->parts->far && !x->guest && dfi_rank_me(x->rank) &&
         t->part.ranks & ~atomic_load(&t->far.done);
}

void dfi_far_end(struct dfi_team *t) { while (atomic_load(&t->far.jobs)) dfi_yield(); }
