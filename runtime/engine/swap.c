/* swap.c: save = 'swap' (or the session's, for loops that say nothing).
 *
 * Each element that such an array receives on a device with memory of its own is noted. Once the device is filled past
 * half, and whenever it is full, the oldest ones that nobody else holds are copied to the host and their memory on the
 * device is given back; small ones stay. A read of such an element gets a copy on the device, while the array keeps the
 * host's; and as a backward loop reads downwards, the elements below are fetched ahead of it, more of them as reads had
 * to wait. By the virtual clock copies out and in go over the device's link to and from the host, each direction one
 * after the other, beside what the device computes; a read that comes before its copy waits.
 *
 * All of this is done by the run's owner.
 */
#include "engine/swap.h"
#include "engine/timed.h"
#include "engine/record.h"
#include "op/run.h"
#include "resource/tensor_array.h"

enum { SMALL_BYTES = 256, AHEAD_AT_MOST = 16 };

typedef struct noted { dfi_tensor_array *array; int64_t index; } noted;                         /* array: retained */
/* tensor: owned, on the device */
typedef struct ahead { dfi_tensor_array *array; int64_t index; df_tensor *tensor; double at; uint32_t event; } ahead;

typedef struct swap_device {
  dfi_device *device;
  noted   *list; int64_t first, n, room;        /* those that may go, oldest first */
  ahead    ahead[AHEAD_AT_MOST]; int32_t nahead, depth;
  double   out_line, in_line;                   /* when the link is free, by the virtual clock */
} swap_device;

struct dfi_swapper {
  dfi_exec *exec;
  pthread_t owner;
  swap_device *at[DFI_DEVICES_MOST];
  dfi_swap  sum;
  int64_t   ran; uint32_t tries;  /* tokens that had run when a read was last put off, and how often since then */
};

dfi_swap dfi_swap_stats(const dfi_exec *x) { return x->swapper ? x->swapper->sum : (dfi_swap){ 0 }; }

static bool exclusive(const df_tensor *t) {
  return __atomic_load_n(&t->refs, __ATOMIC_ACQUIRE) == 1 && __atomic_load_n(&t->buffer->refs, __ATOMIC_ACQUIRE) == 1;
}

static df_tensor *moved(df_tensor *t, dfi_devmem *to) {
  const df_value v = { .kind = DF_TENSOR, .dtype = t->dtype, .as.tensor = t };
  df_value out;
  return dfi_value_in(&v, to, &out) ? out.as.tensor : NULL;
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
  return dfi_record_copy(x, dfi_device_find((dfi_devices *)d, s->device->kind, s->device->number), out, bytes);
}

/* ---- out -------------------------------------------------------------------------------------------------- */

/* Moves the element out. False: somebody holds it, or it is too small, or the host has no room. */
static bool move_out(dfi_swapper *w, swap_device *s, const noted *e, bool *over) {
  df_tensor **at = dfi_tensor_array_element(e->array, e->index);
  *over = !at || (*at)->buffer->arena != s->device->arena || (*at)->buffer->bytes < SMALL_BYTES;
  if (*over || !exclusive(*at)) return false;
  df_tensor *host = moved(*at, NULL);
  if (!host) return false;
  const int64_t bytes = (*at)->size * dfi_dtype_size[(*at)->dtype];
  df_tensor_release(*at);
  *at = host;
  w->sum.bytes_out += bytes;
  w->sum.tensors_out++;
  w->sum.resident_bytes += bytes;
  if (w->exec->timed) transfer_ends(s, &s->out_line, w->exec->timed->now, bytes);
  record_copy(w->exec, s, true, bytes);
  return *over = true;
}

/* Makes so many bytes free, if it can. */
static bool make_room(dfi_swapper *w, swap_device *s, int64_t bytes) {
  dfi_devmem_stats now;
  dfi_devmem_look(s->device->arena, &now);
  const int64_t goal = now.in_use - bytes;
  int64_t kept = s->first;
  for (int64_t i = s->first; i < s->n; i++) {
    const noted e = s->list[i];
    bool over = false;
    if (now.in_use > goal) { if (move_out(w, s, &e, &over)) dfi_devmem_look(s->device->arena, &now); }
    else if (kept == i) break;             /* nothing has moved in the list: the rest stays as it is */
    if (over) dfi_handle_release(e.array);
    else s->list[kept++] = e;
    if (i == s->n - 1) s->n = kept;
  }
  while (now.in_use > goal && s->nahead) {  /* what was fetched too early goes again */
    df_tensor_release(s->ahead[--s->nahead].tensor);
    dfi_handle_release(s->ahead[s->nahead].array);
    dfi_devmem_look(s->device->arena, &now);
  }
  return now.in_use <= goal;
}

static bool device_is_full(void *user, int64_t bytes) {
  dfi_swapper *w = ((void **)user)[0];
  return pthread_equal(pthread_self(), w->owner) && make_room(w, ((void **)user)[1], bytes);
}

static swap_device *swap_device_of(dfi_exec *x, int32_t device) {
  dfi_device *d = x->plan->cut ? x->plan->devices->at[device] : NULL;
  if (!d || !d->arena) return NULL;
  dfi_swapper *w = x->swapper;
  if (!w) {
    w = x->swapper = dfi_xcalloc(1, sizeof *w);
    w->exec = x;
  }
  w->owner = pthread_self();
  swap_device *s = w->at[device];
  if (!s) {
    s = w->at[device] = dfi_xcalloc(1, sizeof *s + 2 * sizeof(void *));
    s->device = d;
    s->depth = 1;
    ((void **)(s + 1))[0] = w;
    ((void **)(s + 1))[1] = s;
  }
  dfi_devmem_on_full(d->arena, device_is_full, s + 1);
  return s;
}

/* An array whose elements may go has received one. */
void dfi_run_swap_written(void *run, void *array, int64_t i) {
  const dfi_call *c = run;
  dfi_tensor_array *a = array;
  swap_device *s = c ? swap_device_of(c->exec, c->node->device) : NULL;
  if (!s || (a->swap == DFI_SWAP_UNSAID && !c->exec->plan->devices->swap_unsaid) || !dfi_tensor_array_element(a, i))
    return;
  if (s->n == s->room) {
    memmove(s->list, s->list + s->first, sizeof *s->list * (size_t)(s->n - s->first));
    s->n -= s->first;
    s->first = 0;
    if (s->n * 2 >= s->room) s->list = dfi_xrealloc(s->list, sizeof *s->list * (size_t)(s->room = s->room * 2 + 64));
  }
  s->list[s->n++] = (noted){ dfi_handle_retain(a), i };
  dfi_devmem_stats now;
  dfi_devmem_look(s->device->arena, &now);
  if (c->exec->plan->devices->swap_always) make_room(c->exec->swapper, s, now.in_use);
  else if (now.limit && now.in_use > now.limit / 2) make_room(c->exec->swapper, s, now.in_use - now.limit / 2);
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
  w->sum.bytes_in += bytes;
  w->sum.tensors_in++;
  s->ahead[s->nahead++] = (ahead){ dfi_handle_retain(a), i, t,
                                   w->exec->timed ? transfer_ends(s, &s->in_line, w->exec->timed->now, bytes) : 0,
                                   record_copy(w->exec, s, false, bytes) };
}

/* Reads of a backward loop are ready long before what they read is needed: past five eighths they wait, as long as
   something else can move. */
bool dfi_run_swap_later(void *run, void *array, int64_t i) {
  const dfi_call *c = run;
  dfi_tensor_array *a = array;
  dfi_exec *x = c ? c->exec : NULL;
  if (!x || !x->swapper || i < 0 || i >= dfi_tensor_array_size(a) || (x->head == x->tail && !x->running)) return false;
  /* the oldest iteration always goes on, so that something does */
  if (c->record->number == c->record->frame->first) return false;
  df_tensor **at = dfi_tensor_array_element(a, i);
  swap_device *s = at && !(*at)->buffer->arena ? swap_device_of(x, c->node->device) : NULL;
  if (!s) return false;
  for (int32_t k = 0; k < s->nahead; k++) if (s->ahead[k].array == a && s->ahead[k].index == i) return false;
  dfi_devmem_stats now;
  dfi_devmem_look(s->device->arena, &now);
  if (!now.limit ||
      now.in_use + dfi_devmem_takes((*at)->size * dfi_dtype_size[(*at)->dtype] + 128) <= now.limit / 8 * 5)
    return false;
  dfi_swapper *w = x->swapper;
  const int64_t ran = x->count.taken + (x->head - x->counted) - 1;      /* but this one */
  if (w->ran != ran) { w->ran = ran; w->tries = 0; }
  /* all that is ready waits like this: one of them goes on */
  return x->running || w->tries++ <= 8 * (x->tail - x->head + 1);
}

/* Element i is on the host and read on a device: *out gets it there. False: it is not so. */
bool dfi_run_swap_read(void *run, void *array, int64_t i, df_value *out) {
  const dfi_call *c = run;
  dfi_tensor_array *a = array;
  swap_device *s = c ? swap_device_of(c->exec, c->node->device) : NULL;
  if (!s || i < 0 || i >= dfi_tensor_array_size(a)) return false;
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
    w->sum.bytes_in += bytes;
    w->sum.tensors_in++;
    copied = record_copy(x, s, false, bytes);
    if (x->timed) ready = transfer_ends(s, &s->in_line, x->timed->now, bytes);
    else w->sum.stall_seconds += dfi_now() - began;
    if (s->depth < AHEAD_AT_MOST) s->depth *= 2;
  }
  if (x->timed && ready > x->timed->now) {
    w->sum.stall_seconds += ready - x->timed->now;
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
void dfi_swap_begin(dfi_exec *x) { if (x->swapper) x->swapper->sum = (dfi_swap){ 0 }; }

void dfi_swap_end(dfi_exec *x) {
  dfi_swapper *w = x->swapper;
  for (int32_t d = 0; w && d < DFI_DEVICES_MOST && d < x->plan->devices->n; d++) {
    swap_device *s = w->at[d];
    if (!s) continue;
    dfi_devmem_on_full(s->device->arena, NULL, NULL);
    for (int64_t i = s->first; i < s->n; i++) dfi_handle_release(s->list[i].array);
    for (int32_t i = 0; i < s->nahead; i++) {
      df_tensor_release(s->ahead[i].tensor);
      dfi_handle_release(s->ahead[i].array);
    }
    free(s->list);
    *s = (swap_device){ .device = s->device, .depth = 1 };
  }
  if (w) w->sum.resident_bytes = 0;
}

void dfi_swapper_free(dfi_swapper *w) {
  for (int32_t d = 0; w && d < DFI_DEVICES_MOST; d++) free(w->at[d]);
  free(w);
}
