/* picture.c: see picture.h. Frames go parents first, each with its iterations; an iteration is known by its place in
 * that order, and so are the tokens, calls and frames that are of it.
 */
#include "engine/observe/picture.h"
#include "base/remote_memory.h"
#include "engine/owners/team.h"
#include "engine/tokens/frame.h"
#include "resource/tensor_array.h"
#include <stdio.h>

enum { INLINE_BYTES = 256, OPEN_MOST = 1 << 20, PAST = 256 /* tokens that ran, and values made, at most */ };

/* What is given: fed, handles of variables, and what crosses when the run begins. */
static int64_t given_of(const dfi_plan *p) { return (int64_t)p->nfeed + p->nvariables + p->ncrossings; }

/* ---- all that is open, in order --------------------------------------------------------------------------------- */

typedef struct walk {
  dfi_frame **frame; int32_t nframes, frame_room;
  struct { int32_t record; uint32_t child; } *origin; int32_t norigins, origin_room;       /* by frame */
  dfi_record **record; int32_t nrecords, record_room;        /* each has its place in `seen` */
} walk;

static void walk_frame(walk *k, dfi_frame *f, int32_t record, uint32_t child) {
  DFI_GROW(k->frame, k->nframes, k->frame_room);
  k->frame[k->nframes++] = f;
  DFI_GROW(k->origin, k->norigins, k->origin_room);
  k->origin[k->norigins].record = record;
  k->origin[k->norigins++].child = child;
}

static walk walk_all(const dfi_exec *x) {
  walk k = { 0 };
  if (x->root) walk_frame(&k, x->root, -1, 0);
  for (int32_t i = 0; i < k.nframes; i++) {
    const dfi_frame *f = k.frame[i];
    for (int64_t n = f->first; n < f->next; n++) {
      dfi_record *r = f->ring[n & (f->capacity - 1)];
      r->seen = k.nrecords;
      DFI_GROW(k.record, k.nrecords, k.record_room);
      k.record[k.nrecords++] = r;
      for (uint32_t c = 0; c < f->scope->nchildren; c++) if (r->children[c]) walk_frame(&k, r->children[c], r->seen, c);
    }
  }
  return k;
}

static void walk_end(walk *k) { dfi_free(k->frame); dfi_free(k->origin); dfi_free(k->record); }

const df_value *dfi_picture_value(dfi_exec *x, const dfi_far_place *at) {
  walk k = walk_all(x);
  const df_value *v = NULL;
  if (at->frame < 0 && at->record < 0 && at->slot >= 0 && at->slot < given_of(x->plan)) v = &x->given[at->slot];
  else if (at->record >= 0 && at->record < k.nrecords) {
    const dfi_record *r = k.record[at->record];
    if (at->slot >= 0 && (uint32_t)at->slot < r->frame->scope->nslots) v = r->base[DFI_ITERATION] + at->slot;
  } else if (at->record < 0 && at->frame >= 0 && at->frame < k.nframes) {
    const dfi_frame *f = k.frame[at->frame];
    if (at->slot >= 0 && (uint32_t)at->slot < f->scope->nconsts) v = f->constants + at->slot;
  }
  walk_end(&k);
  return v;
}

/* ---- values that are far ---------------------------------------------------------------------------------------- */

typedef struct far_tensor { df_tensor tensor; dfi_far_place place; } far_tensor;
typedef struct far_handle { dfi_handle base; dfi_far_place place; df_array_info array; char where[200]; } far_handle;

static void far_handle_end(dfi_handle *h) { dfi_free(h); }

static far_handle *far_handle_of(const df_value *v) {
  far_handle *h = v->kind == DF_HANDLE ? v->as.handle : NULL;
  return h && h->base.destroy == far_handle_end ? h : NULL;
}

bool dfi_far(const df_value *v, dfi_far_place *place) {
  const far_handle *h = far_handle_of(v);
  const bool tensor = v->kind == DF_TENSOR && !v->as.tensor->data && !v->as.tensor->buffer && v->as.tensor->size;
  if (h) *place = h->place;
  else if (tensor) *place = ((const far_tensor *)v->as.tensor)->place;
  return h || tensor;
}

const df_array_info *dfi_far_array(const df_value *v) {
  const far_handle *h = far_handle_of(v);
  return h && h->base.type == DFI_TENSOR_ARRAY ? &h->array : NULL;
}

static void drop_seen(df_value *v) {
  dfi_far_place place;
  if (v->kind == DF_TENSOR && dfi_far(v, &place)) dfi_free(v->as.tensor);
  else if (far_handle_of(v)) dfi_free(v->as.handle);
  else dfi_value_drop(v);
  v->kind = DF_EMPTY;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* Its elements are in the picture, too. */
static bool is_small(const df_tensor *t) {
  return dfk_plain(t->dtype) && t->dtype != DF_RESOURCE && t->size * dfi_dtype_size[t->dtype] <= INLINE_BYTES;
}

static void put_value(dfi_packet *o, const df_value *v) {
  dfi_put(o, v, sizeof *v);                /* a number is read when its readers are done with it, too: a predicate */
  if (v->kind == DF_TENSOR) {
    const df_tensor *t = v->as.tensor;
    df_value here = { 0 };
    const bool small = is_small(t) && dfi_value_on_host(v, &here) && here.kind == DF_TENSOR;
    dfi_put_i64(o, t->rank);
    dfi_put(o, t->dims, 8 * (size_t)t->rank);
    dfi_put_i64(o, small);
    if (small) dfi_put(o, here.as.tensor->data, (size_t)(t->size * dfi_dtype_size[t->dtype]));
    dfi_value_drop(&here);
  }
  if (v->kind == DF_HANDLE) {
    const dfi_handle *h = v->as.handle;
    dfi_put_i64(o, h->type);
    if (h->type != DFI_TENSOR_ARRAY) return;
    df_array_info info;
    dfi_tensor_array_info((const dfi_tensor_array *)h, &info);
    info.where = NULL;                       /* the reader knows by its node */
    dfi_put(o, &info, sizeof info);
  }
}

static void put_values(dfi_packet *o, const df_value *v, int64_t n) {
  for (int64_t i = 0; i < n; i++) put_value(o, &v[i]);
}

static int64_t number_of(const dfi_exec *x, const dfi_pnode *p) { return p ? p - x->plan->node : -1; }

/* A byte for each Enter of the loop, and each Exit, of any owner. */
static size_t flags_of(const dfi_plan *p, const dfi_scope *s) {
  return p->scope[s->id].nenters + p->scope[s->id].nexits;
}

static void put_frame(dfi_packet *o, const dfi_exec *x, const walk *k, int32_t i) {
  const dfi_frame *f = k->frame[i];
  const dfi_scope *s = f->scope;
  const int64_t head[] = { s->id, k->origin[i].record, k->origin[i].child, f->serial, f->logged_as, f->first, f->next,
                           f->window, f->enters_missing, f->some_dead, f->counts, f->ndeferred,
                           number_of(x, f->call) };
  dfi_put(o, head, sizeof head);
  put_values(o, f->constants, s->nconsts);
  dfi_put(o, f->enter_dead, flags_of(x->plan, s));
  for (int64_t n = f->first; n < f->next; n++) {
    const dfi_record *r = f->ring[n & (f->capacity - 1)];
    dfi_put_i64(o, r->outstanding);
    dfi_put_i64(o, r->stamp);
    dfi_put(o, r->counts, sizeof *r->counts * s->n);
    put_values(o, r->base[DFI_ITERATION], s->nslots);
  }
}

/* The record that a token was of, if it is open; and its scope's number. */
static void put_token(dfi_packet *o, const walk *k, const dfi_token *t) {
  const dfi_record *r = t->record;
  const bool open = r->seen >= 0 && r->seen < k->nrecords && k->record[r->seen] == r;
  const int64_t token[] = { open ? r->seen : -1, r->frame->scope->id, t->node, t->mark };
  dfi_put(o, token, sizeof token);
}

static void put_tokens(dfi_packet *o, const dfi_exec *x, const walk *k) {
  uint32_t past = x->queue_mask + 1 - (x->tail - x->head);
  if (past > x->head - x->begun) past = x->head - x->begun;
  if (past > PAST) past = PAST;
  const int64_t head[] = { past, x->tail - x->head };
  dfi_put(o, head, sizeof head);
  for (uint32_t i = x->head - past; i != x->tail; i++) put_token(o, k, &x->queue[i & x->queue_mask]);
}

static void put_history(dfi_packet *o, const dfi_exec *x) {
  int64_t n = 0;
  for (uint32_t i = 0; x->history && i < 1u << DFI_STAMP_SERIAL_BITS; i++) n += x->history[i].serial || !i;
  dfi_put_i64(o, n);
  for (uint32_t i = 0; n && i < 1u << DFI_STAMP_SERIAL_BITS; i++)
    if (x->history[i].serial || !i) dfi_put(o, &x->history[i], sizeof *x->history);
}

static void put_made(dfi_packet *o, const dfi_exec *x, const walk *k) {
  const uint32_t n = !x->kept ? 0 : x->nkept < PAST ? x->nkept : PAST;
  dfi_put_i64(o, n);
  for (uint32_t back = n; back >= 1; back--) {
    const dfi_kept_value *m = &x->kept[(x->nkept - back) & (DFI_KEPT_VALUES - 1)];
    static const df_value none;
    const bool kept = m->value.kind != DF_TENSOR || is_small(m->value.as.tensor);
    put_token(o, k, &m->token);
    put_value(o, kept ? &m->value : &none);
  }
}

static void put_calls(dfi_packet *o, dfi_exec *x) {
  int64_t n = 0;
  for (const dfi_call *c = x->away; c; c = c->away_next) n++;
  dfi_put_i64(o, n);
  for (dfi_call *c = x->away; c; c = c->away_next) {
    const int64_t call[] = { c->record->seen, number_of(x, c->node), dfi_team_awaits(c) ? 2 : c->stop != NULL };
    dfi_put(o, call, sizeof call);
  }
}

static void put_message(void *to, const dfi_team_message *l) {
  const int64_t head[] = { l->edge, l->depth, l->dead };
  dfi_put(to, head, sizeof head);
  dfi_put(to, l->number, 8 * (size_t)l->depth);
}

static void count_message(void *to, const dfi_team_message *l) { (void)l; ++*(int64_t *)to; }

void dfi_picture_write(dfi_exec *x, dfi_packet *o) {
  walk k = walk_all(x);
  int64_t messages = 0;
  dfi_team_messages(x, count_message, &messages);
  const int64_t head[] = { x->place, x->head - x->counted, x->guest_frames, x->sent, x->received, x->running,
                           x->waiting, k.nframes, x->kept != NULL };
  dfi_put(o, head, sizeof head);
  dfi_put(o, &x->count, sizeof x->count);
  put_values(o, x->given, given_of(x->plan));
  for (int32_t i = 0; i < k.nframes; i++) put_frame(o, x, &k, i);
  put_history(o, x);
  put_tokens(o, x, &k);
  put_made(o, x, &k);
  put_calls(o, x);
  dfi_put_i64(o, messages);
  dfi_team_messages(x, put_message, o);
  walk_end(&k);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

typedef struct reader {
  const unsigned char *at, *end;
  bool bad;
  dfi_exec *x;
  int32_t owner, frame;            /* where what is read belongs */
  dfi_frame  **frames; int32_t nframes, frame_room;
  dfi_record **record; int32_t nrecords, record_room;
  dfi_record **past;               /* by scope: of tokens whose iteration is over; owned by x, in its free_frames */
} reader;

static bool get(reader *k, void *to, size_t n) {
  if (k->bad || (size_t)(k->end - k->at) < n) { k->bad = true; memset(to, 0, n); return false; }
  memcpy(to, k->at, n);
  k->at += n;
  return true;
}

static int64_t get_i64(reader *k) { int64_t v; get(k, &v, sizeof v); return v; }

/* A number from least up to, but not, `end`. */
static int64_t within(reader *k, int64_t v, int64_t least, int64_t end) {
  if (v >= least && v < end) return v;
  k->bad = true;
  return least;
}

static void get_tensor(reader *k, df_value *v, dfi_far_place place) {
  int64_t dims[DF_MAX_RANK], size = 1;
  const int64_t rank = within(k, get_i64(k), 0, DF_MAX_RANK + 1);
  get(k, dims, 8 * (size_t)rank);
  for (int64_t i = 0; i < rank; i++)
    if (dims[i] < 0 || __builtin_mul_overflow(size, dims[i], &size)) k->bad = true;
  const bool small = get_i64(k) != 0;
  int64_t bytes;
  if (__builtin_mul_overflow(size, dfi_dtype_size[v->dtype & 31], &bytes) ||
      (small && (!dfk_plain(v->dtype) || bytes > INLINE_BYTES)) || k->bad) {
    k->bad = true;
    return;
  }
  if (small || !size) {
    df_tensor *t = dfi_tensor_make(v->dtype, (int32_t)rank, dims);
    if (!t) { k->bad = true; return; }
    if (small) get(k, t->data, (size_t)bytes);
    v->as.tensor = t;
  } else {
    far_tensor *f = dfi_xcalloc(1, sizeof *f);
    f->tensor = (df_tensor){ .refs = 1, .dtype = v->dtype, .rank = (int8_t)rank, .size = size };
    memcpy(f->tensor.dims, dims, 8 * (size_t)rank);
    f->place = place;
    v->as.tensor = &f->tensor;
  }
  v->kind = DF_TENSOR;
}

static void get_handle(reader *k, df_value *v, dfi_far_place place) {
  far_handle *h = dfi_xcalloc(1, sizeof *h);
  h->base = (dfi_handle){ .refs = 1, .type = (int32_t)get_i64(k), .destroy = far_handle_end };
  h->place = place;
  if (h->base.type == DFI_TENSOR_ARRAY) {
    const df_graph *g = k->x->plan->graph;
    df_array_info *a = &h->array;
    get(k, a, sizeof *a);
    a->name[sizeof a->name - 1] = 0;
    if (a->node < 0 || a->node >= g->n) a->node = -1;
    a->where = a->node < 0 ? "" : g->node[a->node]->where;
    a->at ^= (uint64_t)(1 + k->owner) << 56;           /* ranks have addresses alike */
  }
  v->as.handle = h;
  v->kind = DF_HANDLE;
}

static void get_value(reader *k, df_value *v, int32_t record, int32_t slot) {
  const dfi_far_place place = { k->owner, k->frame, record, slot };
  get(k, v, sizeof *v);
  const uint8_t kind = v->kind;
  v->kind = DF_EMPTY;
  v->flags = 0;
  if (kind == DF_TENSOR) get_tensor(k, v, place);
  else if (kind == DF_HANDLE) get_handle(k, v, place);
  else if (kind == DF_SCALAR) v->kind = kind;
  else if (kind != DF_EMPTY) k->bad = true;
}

static dfi_pnode *get_node(reader *k, bool may_be_none) {
  const int64_t i = within(k, get_i64(k), may_be_none ? -1 : 0, k->x->plan->nnodes);
  return i < 0 ? NULL : &k->x->plan->node[i];
}

/* An iteration with nothing in it. */
static dfi_record *seen_record(const reader *k, dfi_frame *f, int64_t number) {
  const dfi_scope *s = f->scope;
  dfi_record *r = dfi_xcalloc(1, sizeof *r + 16 + sizeof(df_value) * s->nslots + sizeof(dfi_frame *) * s->nchildren +
                                     sizeof *r->counts * (s->n + 1u));
  dfi_iteration_begin(k->x, f, number, r, (char *)(r + 1) + (16 - sizeof *r % 16) % 16);
  memset(r->base[DFI_ITERATION], 0, sizeof(df_value) * s->nslots);
  return r;
}

static dfi_frame *seen_frame(const dfi_plan *p, const dfi_scope *s, int64_t first, int64_t next) {
  dfi_frame *f = dfi_xcalloc(1, sizeof *f);
  f->scope = s;
  f->first = f->next = first;              /* next goes up with the iterations that are there */
  for (f->capacity = 1; f->capacity < next - first;) f->capacity *= 2;
  f->ring = dfi_xcalloc((size_t)f->capacity, sizeof *f->ring);
  f->constants = dfi_xcalloc(s->nconsts + 1u, sizeof *f->constants);
  f->enter_dead = dfi_xcalloc(flags_of(p, s) + 1, 1);
  f->exit_fired = f->enter_dead + p->scope[s->id].nenters;
  f->nexits = p->scope[s->id].nexits;
  return f;
}

static void get_iterations(reader *k, dfi_frame *f, int64_t next) {
  const dfi_scope *s = f->scope;
  for (int64_t n = f->first; n < next && !k->bad; n++) {
    dfi_record *r = seen_record(k, f, n);
    r->outstanding = (int32_t)get_i64(k);
    r->stamp = (uint32_t)get_i64(k);
    get(k, r->counts, sizeof *r->counts * s->n);
    f->ring[n & (f->capacity - 1)] = r;
    f->next = n + 1;
    r->seen = k->nrecords;
    for (uint32_t i = 0; i < s->nslots && !k->bad; i++)
      get_value(k, r->base[DFI_ITERATION] + i, k->nrecords, (int32_t)i);
    DFI_GROW(k->record, k->nrecords, k->record_room);
    k->record[k->nrecords++] = r;
  }
}

static void get_frame(reader *k, int32_t place) {
  enum { SCOPE, ORIGIN, CHILD, SERIAL, LOGGED, FIRST, NEXT, WINDOW, MISSING, DEAD, COUNTS, DEFERRED };
  int64_t h[DEFERRED + 1];
  get(k, h, sizeof h);
  dfi_pnode *call = get_node(k, true);
  const dfi_scope *s = &k->x->scope[within(k, h[SCOPE], 0, k->x->plan->nscopes)];
  dfi_record *origin = NULL;
  if (place) origin = k->nrecords ? k->record[within(k, h[ORIGIN], 0, k->nrecords)] : NULL;
  if (place && (!origin || h[CHILD] < 0 || h[CHILD] >= origin->frame->scope->nchildren || origin->children[h[CHILD]]))
    k->bad = true;
  if (h[FIRST] < 0 || h[NEXT] < h[FIRST] || h[NEXT] - h[FIRST] > (k->end - k->at) / 16) k->bad = true;
  if (k->bad) return;
  dfi_frame *f = seen_frame(k->x->plan, s, h[FIRST], h[NEXT]);
  DFI_GROW(k->frames, k->nframes, k->frame_room);
  k->frames[k->nframes++] = f;
  k->frame = place;
  if (origin) { origin->children[h[CHILD]] = f; f->parent = origin->frame; f->depth = f->parent->depth + 1; }
  else k->x->root = f;
  f->origin = origin;
  f->call = call;
  f->serial = (uint32_t)h[SERIAL]; f->logged_as = (uint32_t)h[LOGGED]; f->window = h[WINDOW];
  f->enters_missing = (int32_t)h[MISSING]; f->some_dead = h[DEAD] != 0; f->counts = (uint8_t)h[COUNTS];
  f->ndeferred = (int32_t)within(k, h[DEFERRED], 0, OPEN_MOST);
  f->deferred = dfi_xcalloc((size_t)f->ndeferred + 1, sizeof *f->deferred);        /* what waits is theirs */
  for (uint32_t i = 0; i < s->nconsts && !k->bad; i++) get_value(k, &f->constants[i], -1, (int32_t)i);
  get(k, f->enter_dead, flags_of(k->x->plan, s));
  get_iterations(k, f, h[NEXT]);
}

/* Stands for iterations of the scope that are over. */
static dfi_record *past_record(reader *k, int32_t scope) {
  if (k->past[scope]) return k->past[scope];
  dfi_frame *f = seen_frame(k->x->plan, &k->x->scope[scope], 0, 1);
  f->serial = UINT32_MAX;
  f->ring[0] = k->past[scope] = seen_record(k, f, 0);
  f->ring[0]->stamp = UINT32_MAX;
  f->next = 1;
  k->x->free_frames[scope] = f;
  return k->past[scope];
}

static dfi_token get_token(reader *k) {
  int64_t t[4];
  get(k, t, sizeof t);
  const int32_t scope = (int32_t)within(k, t[1], 0, k->x->plan->nscopes);
  dfi_record *r = t[0] >= 0 && t[0] < k->nrecords ? k->record[t[0]] : NULL;
  if (!r || r->frame->scope->id != scope) r = past_record(k, scope);
  const uint32_t n = r->frame->scope->n;
  return (dfi_token){ r, n ? (uint32_t)within(k, t[2], 0, n) : 0, (uint32_t)t[3] };
}

static void get_tokens(reader *k) {
  dfi_exec *x = k->x;
  const int64_t past = within(k, get_i64(k), 0, PAST + 1), most = (k->end - k->at) / 32;
  const int64_t ready = within(k, get_i64(k), 0, most + 1 - past < 1 ? 1 : most + 1 - past);
  uint32_t room = 64;
  while (room < past + ready + 1) room *= 2;
  x->queue = dfi_xcalloc(room, sizeof *x->queue);
  x->queue_mask = room - 1;
  for (int64_t i = 0; i < past + ready && !k->bad; i++) x->queue[x->tail++] = get_token(k);
  x->head = x->tail < past ? x->tail : (uint32_t)past;
}

static void get_history(reader *k) {
  const uint32_t mask = (1u << DFI_STAMP_SERIAL_BITS) - 1;
  k->x->history = dfi_xcalloc((size_t)mask + 1, sizeof *k->x->history);
  for (int64_t n = within(k, get_i64(k), 0, (int64_t)mask + 2); n > 0 && !k->bad; n--) {
    dfi_frame_history h;
    get(k, &h, sizeof h);
    if (h.scope >= (uint32_t)k->x->plan->nscopes) k->bad = true;
    else k->x->history[h.serial & mask] = h;
  }
}

static void get_made(reader *k, bool is) {
  dfi_exec *x = k->x;
  const int64_t n = within(k, get_i64(k), 0, PAST + 1);
  if (!is) return;
  x->kept = dfi_xcalloc(DFI_KEPT_VALUES, sizeof *x->kept);
  for (int64_t i = 0; i < n && !k->bad; i++) {
    x->kept[i].token = get_token(k);
    k->frame = -1;
    get_value(k, &x->kept[i].value, -1, -1);
    x->nkept++;
  }
}

static void waits(df_kernel *k, void *user) { (void)k; (void)user; }

static void get_calls(reader *k) {
  for (int64_t n = within(k, get_i64(k), 0, (k->end - k->at) / 24 + 1); n > 0 && !k->bad; n--) {
    const int64_t place = get_i64(k);
    dfi_pnode *p = get_node(k, false);
    const int64_t how = get_i64(k);
    if (place < 0 || place >= k->nrecords || k->bad || (int32_t)p->scope != k->record[place]->frame->scope->id) {
      k->bad = true;
      return;
    }
    dfi_call *c = dfi_xcalloc(1, sizeof *c);
    c->exec = k->x; c->record = k->record[place]; c->node = p;
    c->stop = how == 2 ? dfi_team_recv_stop : how ? waits : NULL;
    c->away_next = k->x->away;
    k->x->away = c;
  }
}

static void get_messages(reader *k) {
  const dfi_plan *p = k->x->plan;
  for (int64_t n = within(k, get_i64(k), 0, (k->end - k->at) / 24 + 1); n > 0 && !k->bad; n--) {
    dfi_team_message *l = dfi_xcalloc(1, sizeof *l);
    l->next = k->x->messages;
    k->x->messages = l;
    l->edge = (uint32_t)within(k, get_i64(k), 0, p->nnodes);
    l->depth = (int32_t)within(k, get_i64(k), 0, DFI_TAG_DEPTH + 1);
    l->dead = get_i64(k) ? DFI_DEAD : 0;
    get(k, l->number, 8 * (size_t)l->depth);
    if (p->node[l->edge].kind != DFI_K_TRANSFER || l->depth != dfi_scope_depth(p, (int32_t)p->node[l->edge].scope))
      k->bad = true;
  }
}

dfi_exec *dfi_picture_read(const dfi_exec *like, const void *bytes, size_t *n) {
  enum { PLACE, TAKEN, GUESTS, SENT, RECEIVED, RUNNING, WAITING, FRAMES, MADE };
  int64_t h[MADE + 1];
  const dfi_plan *p = like->plan;
  dfi_exec *x = dfi_xcalloc(1, sizeof *x);
  reader k = { .at = bytes, .end = (const unsigned char *)bytes + *n, .x = x, .frame = -1 };
  pthread_mutex_init(&x->inbox_lock, NULL);
  x->plan = (dfi_plan *)(uintptr_t)p;
  x->edge = p->edge;
  x->given = dfi_xcalloc((size_t)given_of(p) + 1, sizeof *x->given);
  x->setup.shared = like->setup.shared;
  x->team = like->team;
  x->free_frames = dfi_xcalloc((size_t)p->nscopes, sizeof *x->free_frames);
  x->rendezvous = dfi_xcalloc(1, sizeof *x->rendezvous);
  k.past = dfi_xcalloc((size_t)p->nscopes, sizeof *k.past);
  get(&k, h, sizeof h);
  get(&k, &x->count, sizeof x->count);
  k.owner = x->place = (int32_t)within(&k, h[PLACE], 0, p->parts->n);
  x->scope = p->parts->scope[x->place];
  x->guest_frames = h[GUESTS]; x->sent = h[SENT]; x->received = h[RECEIVED];
  x->running = (int32_t)h[RUNNING]; x->waiting = (int32_t)h[WAITING];
  for (int64_t i = 0; i < given_of(p) && !k.bad; i++) get_value(&k, &x->given[i], -1, (int32_t)i);
  for (int64_t i = 0; i < h[FRAMES] && !k.bad; i++) get_frame(&k, (int32_t)i);
  get_history(&k);
  get_tokens(&k);
  x->counted = x->head - (uint32_t)h[TAKEN];
  get_made(&k, h[MADE] != 0);
  get_calls(&k);
  get_messages(&k);
  dfi_free(k.frames); dfi_free(k.record); dfi_free(k.past);
  *n -= (size_t)(k.end - k.at);
  if (!k.bad) return x;
  dfi_picture_free(x);
  return NULL;
}

static void frame_free(dfi_frame *f) {
  for (uint32_t i = 0; i < f->scope->nconsts; i++) drop_seen(&f->constants[i]);
  for (int64_t n = f->first; n < f->next; n++) {
    dfi_record *r = f->ring[n & (f->capacity - 1)];
    for (uint32_t i = 0; i < f->scope->nslots; i++) drop_seen(r->base[DFI_ITERATION] + i);
    for (uint32_t c = 0; c < f->scope->nchildren; c++) if (r->children[c]) frame_free(r->children[c]);
    dfi_free(r);
  }
  dfi_free(f->ring); dfi_free(f->constants); dfi_free(f->enter_dead); dfi_free(f->deferred);
  dfi_free(f);
}

void dfi_picture_free(dfi_exec *x) {
  if (!x) return;
  if (x->root) frame_free(x->root);
  for (int32_t i = 0; i < x->plan->nscopes; i++) if (x->free_frames[i]) frame_free(x->free_frames[i]);
  for (dfi_call *c = x->away, *next; c; c = next) { next = c->away_next; dfi_free(c); }
  for (dfi_team_message *l = x->messages, *next; l; l = next) { next = l->next; dfi_free(l); }
  for (uint32_t i = 0; x->kept && i < x->nkept; i++) drop_seen(&x->kept[i].value);
  for (int64_t i = 0; i < given_of(x->plan); i++) drop_seen(&x->given[i]);
  pthread_mutex_destroy(&x->inbox_lock);
  dfi_free(x->free_frames); dfi_free(x->rendezvous); dfi_free(x->queue);
  dfi_free(x->history); dfi_free(x->kept); dfi_free(x->given);
  dfi_free(x);
}
