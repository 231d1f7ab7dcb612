/* swap.c: what becomes of values saved for a gradient when memory is short: they go to the host and come back (save =
 * 'swap'), or are let go and computed again (remat.c); 'auto' is one of both for each value (save_policy.c).
 *
 * Each element that such an array receives is noted. Once its device's memory is filled past half, and whenever it is
 * full, the oldest ones go. Moved to the host are those without another holder (one that several of the arrays hold is
 * moved once, for all of them); small ones stay. A read of such an element gets a copy on the device, while the array
 * keeps the host's; and as a backward loop reads downwards, the elements below are fetched ahead of it, more of them as
 * reads had to wait. By the virtual clock copies out and in go over the device's link to and from the host, each
 * direction one after the other, beside what the device computes; a read that comes before its copy waits.
 *
 * While memory is short fewer iterations of a loop are open, as each holds what it has made.
 *
 * All of this is done by the run's owner, for its own values: runs that share a device do not touch each other's.
 */
#include "engine/memory/swap.h"
#include "engine/memory/holders.h"
#include "engine/tokens/frame.h"
#include "engine/memory/remat.h"
#include "engine/clock/timed.h"
#include "engine/clock/record.h"
#include "op/run.h"
#include "resource/tensor_array.h"

enum { AHEAD_AT_MOST = 16 };

/* array: retained; again: it was let go, and has been computed again */
typedef struct noted { dfi_tensor_array *array; int64_t index; bool again; } noted;
/* tensor: owned, on the device */
typedef struct ahead { dfi_tensor_array *array; int64_t index; df_tensor *tensor; double at; uint32_t event; } ahead;

/* A device whose memory is watched; the host is one where its values may be computed again. */
typedef struct swap_device {
  dfi_device *device;
  noted   *list; int64_t first, n, room;        /* those that may go, oldest first */
  ahead    ahead[AHEAD_AT_MOST]; int32_t nahead, depth;
  double   out_line, in_line;                   /* when the link is free, by the virtual clock */
} swap_device;

/* Reads of an iteration that were put off: a bit for each array, where two may share one. arrays 0: free. */
typedef struct put_off { uint32_t frame; int64_t number; uint64_t arrays; } put_off;
enum { PUT_OFF_AT_MOST = 64 };

struct dfi_swapper {
  dfi_exec *exec;
  swap_device *at[DFI_DEVICES_MOST];
  dfi_swap  sum;
  double    stalled_until;        /* by the run's clock: the end of the last wait */
  dfi_save_policies policies;
  put_off   put_off[PUT_OFF_AT_MOST];
};

void dfi_swap_add(dfi_swap *to, const dfi_swap *more) {
  to->bytes_out += more->bytes_out; to->tensors_out += more->tensors_out;
  to->bytes_in += more->bytes_in; to->tensors_in += more->tensors_in;
  to->resident_bytes += more->resident_bytes;
  if (more->stall_seconds > to->stall_seconds) to->stall_seconds = more->stall_seconds;
}

dfi_saved dfi_swap_saved(const dfi_exec *x) {
  dfi_saved s = { .recomputed = x->remat_iterations };
  if (x->swapper) { s.swap = x->swapper->sum; s.policies = x->swapper->policies; }
  return s;
}

static df_tensor *moved(df_tensor *t, dfi_devmem *to) {
  const df_value v = { .kind = DF_TENSOR, .dtype = t->dtype, .as.tensor = t };
  df_value out;
  return dfi_value_in(&v, to, &out) ? out.as.tensor : NULL;
}

/* t, on the host, was copied to a device: back, if it had been there, and not as a constant that lay here from the
   start. */
static void count_in(dfi_swapper *w, const df_tensor *t, int64_t bytes) {
  if (!t->buffer->swapped) return;
  w->sum.bytes_in += bytes;
  w->sum.tensors_in++;
}

static double transfer_ends(swap_device *s, double *line, double from, int64_t bytes) {
  double busy;
  const dfi_device host = { .speed = 1 };
  const double takes = dfi_link_seconds(s->device, &host, bytes, &busy), begins = *line > from ? *line : from;
  *line = begins + busy;
  return begins + takes;
}

/* The event of a copy, where the run is written down. */
static uint32_t record_copy(dfi_exec *x, const swap_device *s, bool out, int64_t bytes) {
  const dfi_devices *d = x->plan->devices;
  if (!x->timed || !x->timed->recorder) return 0;
  const dfi_device *v = s->device;
  return dfi_record_copy(x, dfi_device_find((dfi_devices *)d, v->rank, v->kind, v->number), out, bytes);
}

/* How much of the device's memory is in use, and how much there is (0: no limit). */
static dfi_devmem_stats memory_of(const swap_device *s) {
  dfi_devmem_stats now = { 0 };
  if (s->device->arena) dfi_devmem_look(s->device->arena, &now);
  else df_memory(&now.in_use, &now.peak, &now.limit, NULL);
  return now;
}

/* Bytes that an iteration of the loop saves which has written to a. */
static int64_t saved_each(const dfi_save_policies *l, const dfi_save_policy *h) {
  int64_t bytes = 1;
  for (int32_t i = 0; i < l->n; i++)
    if (l->at[i].scope == h->scope && l->at[i].elements) bytes += l->at[i].bytes / l->at[i].elements;
  return bytes;
}

/* Iterations that run ahead hold memory. A loop that begins while its values have filled the device has as many of them
 * open as have room, if each takes some times what it saves; fewer when memory is short all the same, and one more with
 * each new one while it is not. */
static void pace(dfi_swapper *w, const swap_device *s, const dfi_call *c, const dfi_tensor_array *a) {
  enum { TIMES = 4 };
  dfi_frame *f = c->record->frame;
  const int64_t number = c->record->number, first = f->second ? f->second->end - f->second->segment - 1 : 0;
  const dfi_devmem_stats now = memory_of(s);
  if (!now.limit || !f->origin) return;
  if (number == first && f->widened_at < 0 && now.in_use > now.limit / 8 * 3) {
    const int64_t room = now.limit / 8 * 7 - now.in_use,
                  each = TIMES * saved_each(&w->policies, dfi_save_policy_entry(&w->policies, a, c));
    if (f->window > room / each) f->window = room > each ? room / each : 1;
    f->widened_at = number;
  } else if (number != f->next - 1 || number == f->widened_at) return;
  else if (now.in_use > now.limit / 8 * 5) { f->widened_at = number; f->window = (f->window + 1) / 2; }
  else if (f->window < f->scope->parallel_iterations) { f->widened_at = number; dfi_frame_widen(c->exec, f); }
}

/* Is a read of an iteration that was opened before the window was closed so far? */
static bool before_its_time(dfi_swapper *w, const swap_device *s, const dfi_call *c, const dfi_tensor_array *a) {
  const dfi_frame *f = c->record->frame;
  pace(w, s, c, a);
  return c->record->number - f->first >= f->window;
}

/* ---- out -------------------------------------------------------------------------------------------------- */

enum { NEIGHBOURS = 64 };

/* Is t held by nothing but elements that are noted near entry i of the list, and what remat.c keeps? */
static bool held_here_alone(const dfi_exec *x, const swap_device *s, int64_t i, const df_tensor *t) {
  const int32_t refs = __atomic_load_n(&t->refs, __ATOMIC_ACQUIRE);
  if (__atomic_load_n(&t->buffer->refs, __ATOMIC_ACQUIRE) != 1) return false;
  int32_t found = 1;
  for (int64_t k = i + 1; k < s->n && k <= i + NEIGHBOURS && found < refs; k++) {
    df_tensor **at = dfi_tensor_array_element(s->list[k].array, s->list[k].index);
    found += at && *at == t;
  }
  return found == refs || (x->remats && found + dfi_remat_holds(x, t) == refs);
}

/* Moves the element out. *over: it need not be noted any more. False: it is held elsewhere, or it is too small, or the
   host has no room. */
static bool move_out(dfi_swapper *w, swap_device *s, int64_t i, bool *over) {
  df_tensor **at = dfi_tensor_array_element(s->list[i].array, s->list[i].index), *t = at ? *at : NULL;
  dfi_save_policy *h = dfi_save_policy_entry(&w->policies, s->list[i].array, NULL);
  *over = !t || t->buffer->arena != s->device->arena || t->buffer->bytes < DFI_SMALL_BYTES;
  h->small |= *over && t;
  if (*over) return false;
  if (!held_here_alone(w->exec, s, i, t)) { h->held = true; return false; }
  df_tensor *host = moved(t, NULL);
  if (!host) return false;
  host->buffer->swapped = 1;
  const int64_t bytes = t->size * dfi_dtype_size[t->dtype];
  dfi_remat_moved(w->exec, t, host);
  int32_t holders = t->refs;
  for (int64_t k = i; holders; k++) {
    df_tensor **same = dfi_tensor_array_element(s->list[k].array, s->list[k].index);
    if (!same || *same != t) continue;
    *same = df_tensor_retain(host);
    holders--;
    df_tensor_release(t);
  }
  df_tensor_release(host);
  w->sum.bytes_out += bytes;
  w->sum.tensors_out++;
  w->sum.resident_bytes += bytes;
  if (w->exec->timed) transfer_ends(s, &s->out_line, w->exec->timed->now, bytes);
  record_copy(w->exec, s, true, bytes);
  return *over = true;
}

/* Lets the element go. *over as above. */
static bool let_go(const noted *e, bool *over) {
  df_tensor **at = e->array->remat ? dfi_tensor_array_element(e->array, e->index) : NULL;
  *over = !at || (*at)->buffer->bytes < DFI_SMALL_BYTES;
  if (*over) return false;
  dfi_remat_let_go(e->array, e->index);
  return *over = true;
}

/* Sends entry i away, as its value's policy has it. */
static bool send_away(dfi_swapper *w, swap_device *s, int64_t i, bool *over) {
  const noted *e = &s->list[i];
  dfi_save_policy *h = dfi_save_policy_entry(&w->policies, e->array, NULL);
  if (h->policy == DFI_SAVE_AUTO) dfi_save_policy_decide(w->exec, &w->policies, h, s->device, e->array);
  bool gone = false;
  const bool moves = (h->policy == DFI_SAVE_SWAP || e->again) && s->device->arena;
  if (moves) { gone = move_out(w, s, i, over); h->swapped += gone; }
  else if (h->policy == DFI_SAVE_RECOMPUTE) { gone = let_go(e, over); h->let_go += gone; }
  else *over = true;
  return gone;
}

/* Makes so many bytes free, if it can. */
static bool make_room(dfi_swapper *w, swap_device *s, int64_t bytes) {
  dfi_devmem_stats now = memory_of(s);
  const int64_t goal = now.in_use - bytes;
  int64_t kept = s->first;
  for (int64_t i = s->first; i < s->n; i++) {
    bool over = false;
    if (now.in_use > goal) { if (send_away(w, s, i, &over)) now = memory_of(s); }
    else if (kept == i) break;             /* nothing has moved in the list: the rest stays as it is */
    if (over) dfi_handle_release(s->list[i].array);
    else s->list[kept++] = s->list[i];
    if (i == s->n - 1) s->n = kept;
  }
  while (now.in_use > goal && s->nahead) {  /* what was fetched too early goes again */
    df_tensor_release(s->ahead[--s->nahead].tensor);
    dfi_handle_release(s->ahead[s->nahead].array);
    now = memory_of(s);
  }
  return now.in_use <= goal;
}

/* What iterations share goes: it can be computed again. False: there was none. */
static bool drop_invariants(const dfi_frame *f) {
  bool some = false;
  for (uint32_t i = 0; i < f->scope->ninvariants; i++) {
    df_value *v = &f->constants[f->scope->nconsts + i];
    some |= v->kind == DF_TENSOR;
    dfi_value_drop(v);
    v->kind = DF_EMPTY;
  }
  for (int64_t i = f->first; i < f->next; i++) {
    const dfi_record *r = f->ring[i & (f->capacity - 1)];
    for (uint32_t c = 0; c < f->scope->nchildren; c++) if (r->children[c]) some |= drop_invariants(r->children[c]);
  }
  return some;
}

/* An allocation of this thread, the run's owner, is about to be refused. arena NULL: the host's. */
static bool memory_is_short(void *user, dfi_devmem *arena, int64_t bytes) {
  dfi_exec *x = user;
  dfi_swapper *w = x->swapper;
  const bool dropped = x->root && drop_invariants(x->root);
  for (int32_t d = 0; w && d < x->plan->devices->n; d++)
    if (w->at[d] && w->at[d]->device->arena == arena && make_room(w, w->at[d], bytes)) return true;
  return (arena && x->remats && dfi_remat_spill(x, arena, bytes)) || dropped;
}

dfi_rescue dfi_swap_watch(dfi_exec *x) {
  const dfi_rescue before = dfi_rescue_here;
  dfi_rescue_here = (dfi_rescue){ memory_is_short, x };
  return before;
}

static dfi_swapper *swapper_of(dfi_exec *x) {
  if (!x->swapper) {
    x->swapper = dfi_xcalloc(1, sizeof *x->swapper);
    x->swapper->exec = x;
  }
  return x->swapper;
}

static swap_device *swap_device_of(dfi_exec *x, int32_t device) {
  dfi_device *d = x->plan->devices ? x->plan->devices->at[device] : NULL;
  const uint8_t save = x->plan->devices ? (uint8_t)x->plan->devices->save : DFI_SAVE_KEEP;
  if (!d || (!d->arena && save != DFI_SAVE_AUTO && save != DFI_SAVE_RECOMPUTE && !x->plan->remat)) return NULL;
  dfi_swapper *w = swapper_of(x);
  swap_device *s = w->at[device];
  if (!s) {
    s = w->at[device] = dfi_xcalloc(1, sizeof *s);
    s->device = d;
    s->depth = 1;
  }
  return s;
}

static void note(swap_device *s, dfi_tensor_array *a, int64_t i, bool again) {
  if (s->n == s->room) {
    if (s->first) memmove(s->list, s->list + s->first, sizeof *s->list * (size_t)(s->n - s->first));
    s->n -= s->first;
    s->first = 0;
    if (s->n * 2 >= s->room)
      s->list = dfi_xrealloc(s->list, sizeof *s->list * (size_t)(s->room = s->room * 2 + 64));
  }
  s->list[s->n++] = (noted){ dfi_handle_retain(a), i, again };
}

/* Memory is filled past half: the oldest ones go, or all where the tests want that. */
static void half_is_enough(dfi_swapper *w, swap_device *s) {
  const dfi_devmem_stats now = memory_of(s);
  if (w->exec->plan->devices->swap_always && s->device->arena) make_room(w, s, now.in_use);
  else if (now.limit && now.in_use > now.limit / 2) make_room(w, s, now.in_use - now.limit / 2);
}

/* What was let go was computed again. Where a stretch of iterations does not fit it goes to the host meanwhile. */
void dfi_swap_again(const dfi_call *c, dfi_tensor_array *a, int64_t i) {
  swap_device *s = swap_device_of(c->exec, c->node->device);
  if (!s || !s->device->arena) return;
  note(s, a, i, true);
  half_is_enough(c->exec->swapper, s);
  pace(c->exec->swapper, s, c, a);
}

/* An array whose elements may go has received one. */
void dfi_run_swap_written(void *run, void *array, int64_t i) {
  const dfi_call *c = run;
  dfi_tensor_array *a = array;
  const dfi_save policy = c ? dfi_save_policy_for(c->exec, a) : DFI_SAVE_KEEP;
  df_tensor **at = policy ? dfi_tensor_array_element(a, i) : NULL;
  if (!at) return;
  dfi_exec *x = c->exec;
  dfi_save_policy *h = dfi_save_policy_entry(&swapper_of(x)->policies, a, c);
  h->elements++;
  h->bytes += (*at)->size * dfi_dtype_size[(*at)->dtype];
  const bool again = dfi_remat_can(c, a, i);
  swap_device *s = swap_device_of(x, c->node->device);
  if (policy == DFI_SAVE_RECOMPUTE) {
    if (h->policy == DFI_SAVE_AUTO) dfi_save_policy_wanted(x, h, policy, again);
    if (again) { dfi_remat_let_go(a, i); h->let_go++; }
    if (s) pace(x->swapper, s, c, a);
    return;
  }
  if (policy == DFI_SAVE_SWAP && h->policy == DFI_SAVE_AUTO)
    dfi_save_policy_wanted(x, h, policy, s && s->device->arena);
  if (!s) return;
  note(s, a, i, false);
  half_is_enough(x->swapper, s);
  pace(x->swapper, s, c, a);
}

/* ---- in ----------------------------------------------------------------------------------------------------- */

static void fetch_ahead(dfi_swapper *w, swap_device *s, dfi_tensor_array *a, int64_t i) {
  dfi_devmem_stats now;
  if (i < 0 || s->nahead == AHEAD_AT_MOST) return;
  for (int32_t k = 0; k < s->nahead; k++) if (s->ahead[k].array == a && s->ahead[k].index == i) return;
  df_tensor **at = dfi_tensor_array_element(a, i);
  if (!at || (*at)->buffer->arena) return;
  const int64_t bytes = (*at)->size * dfi_dtype_size[(*at)->dtype];
  dfi_devmem_look(s->device->arena, &now);
  if (now.limit && now.in_use + 2 * dfi_devmem_takes(bytes + 128) > now.limit / 2) return;
  df_tensor *t = moved(*at, s->device->arena);
  if (!t) return;
  count_in(w, *at, bytes);
  s->ahead[s->nahead++] = (ahead){ dfi_handle_retain(a), i, t,
                                   w->exec->timed ? transfer_ends(s, &s->in_line, w->exec->timed->now, bytes) : 0,
                                   record_copy(w->exec, s, false, bytes) };
}

/* Is a read of an earlier iteration of the frame still put off? That comes first, else what is needed late would take
 * the room of what is needed soon. */
static bool not_its_turn(dfi_swapper *w, const dfi_frame *f, int64_t number) {
  for (int32_t i = 0; i < PUT_OFF_AT_MOST; i++) {
    put_off *p = &w->put_off[i];
    if (!p->arrays || p->frame != f->serial) continue;
    if (p->number < f->first) p->arrays = 0;           /* it is over */
    else if (p->number < number) return true;
  }
  return false;
}

static void note_put_off(dfi_swapper *w, const dfi_frame *f, int64_t number, const dfi_tensor_array *a, bool is) {
  const uint64_t bit = 1ull << ((uintptr_t)a >> 6 & 63);
  put_off *at = NULL, *unused = NULL;
  for (int32_t i = 0; i < PUT_OFF_AT_MOST && !at; i++) {
    put_off *p = &w->put_off[i];
    if (!p->arrays) unused = p;
    else if (p->frame == f->serial && p->number == number) at = p;
  }
  if (at && !is) at->arrays &= ~bit;
  if (!at && is && unused) { *unused = (put_off){ f->serial, number, 0 }; at = unused; }
  if (at && is) at->arrays |= bit;
}

/* Is element i on the host, and no room for it on the device yet? */
static bool waits_for_room(const dfi_call *c, dfi_tensor_array *a, int64_t i) {
  dfi_exec *x = c->exec;
  const dfi_record *r = c->record;
  df_tensor **at = dfi_tensor_array_element(a, i);
  swap_device *s = at && !(*at)->buffer->arena ? swap_device_of(x, c->node->device) : NULL;
  if (!s || !s->device->arena || r->number == r->frame->first) return false;
  for (int32_t k = 0; k < s->nahead; k++) if (s->ahead[k].array == a && s->ahead[k].index == i) return false;
  const int64_t bytes = (*at)->size * dfi_dtype_size[(*at)->dtype];
  if (dfi_held_back(x, r, s->device, bytes, DFI_HELD_FOR * bytes)) return true;
  return (x->head != x->tail || x->running) && not_its_turn(x->swapper, r->frame, r->number);
}

/* What was let go is computed again first; what is on the host waits while the device is full. */
bool dfi_run_swap_later(void *run, void *array, int64_t i) {
  const dfi_call *c = run;
  dfi_tensor_array *a = array;
  dfi_exec *x = c ? c->exec : NULL;
  const swap_device *s = x && x->swapper ? swap_device_of(x, c->node->device) : NULL;
  if (s && before_its_time(x->swapper, s, c, a)) return true;
  if (x && i >= 0 && i < dfi_tensor_array_size(a) && dfi_tensor_array_state(a, i) == DFI_SLOT_LET_GO) {
    dfi_remat_want(c, a, i);
    return true;
  }
  if (x && a->put_back) dfi_record_waits(x, a->put_back);
  if (!x || !x->swapper || i < 0 || i >= dfi_tensor_array_size(a)) return false;
  const bool later = waits_for_room(c, a, i);
  note_put_off(x->swapper, c->record->frame, c->record->number, a, later);
  return later;
}

/* Element i is on the host and read on a device: *out gets it there. False: it is not so. */
bool dfi_run_swap_read(void *run, void *array, int64_t i, df_value *out) {
  const dfi_call *c = run;
  dfi_tensor_array *a = array;
  swap_device *s = c ? swap_device_of(c->exec, c->node->device) : NULL;
  if (!s || !s->device->arena || i < 0 || i >= dfi_tensor_array_size(a)) return false;
  df_tensor **at = dfi_tensor_array_element(a, i);
  if (!at || (*at)->buffer->arena) return false;
  dfi_exec *x = c->exec;
  dfi_swapper *w = x->swapper;
  const int64_t bytes = (*at)->size * dfi_dtype_size[(*at)->dtype];
  df_tensor *t = NULL;
  double ready = 0;
  uint32_t copied = 0;
  for (int32_t k = 0; k < s->nahead && !t; k++) {
    if (s->ahead[k].array != a || s->ahead[k].index != i) continue;
    t = s->ahead[k].tensor;
    ready = s->ahead[k].at;
    copied = s->ahead[k].event;
    dfi_handle_release(a);
    s->ahead[k] = s->ahead[--s->nahead];
  }
  if (!t) {
    const double began = dfi_now();
    if (!(t = moved(*at, s->device->arena))) return false;      /* the read itself then says that there is no room */
    count_in(w, *at, bytes);
    copied = record_copy(x, s, false, bytes);
    if (x->timed) ready = transfer_ends(s, &s->in_line, x->timed->now, bytes);
    else w->sum.stall_seconds += dfi_now() - began;
    if (s->depth < AHEAD_AT_MOST) s->depth *= 2;
  }
  if (x->timed && ready > x->timed->now) {
    /* reads that wait at the same time lose that time once */
    const double from = x->timed->now > w->stalled_until ? x->timed->now : w->stalled_until;
    if (ready > from) w->sum.stall_seconds += ready - from;
    if (ready > w->stalled_until) w->stalled_until = ready;
    if (s->depth < AHEAD_AT_MOST) s->depth *= 2;
    x->timed->now = ready;
  }
  if (copied) dfi_record_waits(x, copied);
  for (int32_t k = 1; k <= s->depth; k++) fetch_ahead(w, s, a, i - k);
  *out = (df_value){ .kind = DF_TENSOR, .dtype = t->dtype, .as.tensor = t };
  return true;
}

/* ---- the end -------------------------------------------------------------------------------------------------- */

/* A run begins. */
void dfi_swap_begin(dfi_exec *x) {
  x->swapper->sum = (dfi_swap){ 0 };
  x->swapper->stalled_until = 0;
  x->swapper->policies.n = 0;
  memset(x->swapper->put_off, 0, sizeof x->swapper->put_off);
}

void dfi_swap_end(dfi_exec *x) {
  dfi_swapper *w = x->swapper;
  for (int32_t d = 0; w && d < DFI_DEVICES_MOST && d < x->plan->devices->n; d++) {
    swap_device *s = w->at[d];
    if (!s) continue;
    for (int64_t i = s->first; i < s->n; i++) dfi_handle_release(s->list[i].array);
    for (int32_t i = 0; i < s->nahead; i++) {
      df_tensor_release(s->ahead[i].tensor);
      dfi_handle_release(s->ahead[i].array);
    }
    dfi_free(s->list);
    *s = (swap_device){ .device = s->device, .depth = 1 };
  }
  if (w) w->sum.resident_bytes = 0;
}

void dfi_swapper_free(dfi_swapper *w) {
  for (int32_t d = 0; w && d < DFI_DEVICES_MOST; d++) dfi_free(w->at[d]);
  if (w) dfi_free(w->policies.at);
  dfi_free(w);
}
