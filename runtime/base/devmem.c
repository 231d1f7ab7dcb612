/* devmem.c: bounded memory with a stock of blocks by size. See devmem.h. */
#include "base/remote_memory.h"

enum { CLASSES = 112 };

typedef struct block { struct block *next; } block;
struct dfi_devmem {
  pthread_mutex_t lock;            /* guards all below; taken for a look, never while room is made */
  int64_t refs;                    /* the owner, and each block in use */
  int64_t in_use, peak, limit, kept, allocations;
  int64_t epoch;                   /* dfi_peak_epoch, when the peak began */
  dfi_peak *peaks;                 /* that go on */
  block  *free[CLASSES];
  const dfi_remote *remote;        /* NULL: the host can read it */
};

_Atomic int64_t dfi_arena_bytes;

__thread dfi_devmem *dfi_devmem_here __attribute__((tls_model("initial-exec")));

dfi_devmem *dfi_devmem_new(int64_t limit) {
  dfi_devmem *a = dfi_xcalloc(1, sizeof *a);
  pthread_mutex_init(&a->lock, NULL);
  a->refs = 1;
  a->limit = limit;
  a->epoch = atomic_load(&dfi_peak_epoch);
  return a;
}

dfi_devmem *dfi_devmem_new_remote(const dfi_remote *r, int64_t limit) {
  dfi_devmem *a = dfi_devmem_new(limit);
  a->remote = r;
  return a;
}

const dfi_remote *dfi_devmem_remote(const dfi_devmem *a) { return a->remote; }

/* Under the lock. */
static void drop_kept(dfi_devmem *a) {
  for (int32_t c = 0; c < CLASSES; c++) {
    for (block *b = a->free[c], *next; b; b = next) { next = b->next; free(b); }
    a->free[c] = NULL;
  }
  atomic_fetch_sub_explicit(&dfi_arena_bytes, a->kept, memory_order_relaxed);
  a->kept = 0;
}

/* A block that is new; NULL: there is no memory, or a container's limit stands against it. Under the lock. */
static void *from_system(dfi_devmem *a, int64_t bytes) {
  void *p = NULL;
  if (dfi_cgroup_refuses(bytes, dfi_memory_given())) {
    drop_kept(a);
    if (dfi_cgroup_refuses(bytes, dfi_memory_given())) return NULL;
  }
  if (bytes >= INT64_MAX / 2 || posix_memalign(&p, 64, (size_t)bytes)) return NULL;
  atomic_fetch_add_explicit(&dfi_arena_bytes, bytes, memory_order_relaxed);
  return p;
}

/* Under the lock, which it gives back. */
static void let_go(dfi_devmem *a) {
  const bool last = --a->refs == 0;
  if (last) drop_kept(a);
  pthread_mutex_unlock(&a->lock);
  if (!last) return;
  pthread_mutex_destroy(&a->lock);
  dfi_free(a);
}

void dfi_devmem_release(dfi_devmem *a) {
  if (!a) return;
  pthread_mutex_lock(&a->lock);
  let_go(a);
}

int64_t dfi_devmem_takes(int64_t bytes) {
  const int32_t c = dfi_size_class(bytes);
  return c < CLASSES ? dfi_size_class_bytes(c) : bytes;
}

/* ---- caches that keep memory for later -------------------------------------------------------------------------- */

static struct { pthread_mutex_t lock; dfi_cache *first; } caches = { .lock = PTHREAD_MUTEX_INITIALIZER };

void dfi_cache_add(dfi_cache *k) {
  pthread_mutex_lock(&caches.lock);
  k->next = caches.first;
  caches.first = k;
  pthread_mutex_unlock(&caches.lock);
}

void dfi_cache_remove(dfi_cache *k) {
  pthread_mutex_lock(&caches.lock);
  dfi_cache **at = &caches.first;
  while (*at && *at != k) at = &(*at)->next;
  if (*at) *at = k->next;
  pthread_mutex_unlock(&caches.lock);
}

bool dfi_caches_evict(const dfi_devmem *a, bool device) {
  bool some = false;
  pthread_mutex_lock(&caches.lock);
  for (dfi_cache *k = caches.first; k && !some; k = k->next) some = k->evict(k, a, device);
  pthread_mutex_unlock(&caches.lock);
  return some;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Until so many bytes are free, or no cache keeps any. Under the lock, which it gives back meanwhile. */
static void take_back(dfi_devmem *a, int64_t bytes) {
  for (bool some = true; some && a->in_use + bytes > a->limit;) {
    pthread_mutex_unlock(&a->lock);
    some = dfi_caches_evict(a, false);
    pthread_mutex_lock(&a->lock);
  }
}

/* Is there room for so many bytes? Under the lock, but for the time in which it is made. */
static bool room_for(dfi_devmem *a, int64_t bytes) {
  if (a->limit && a->in_use + bytes > a->limit) take_back(a, bytes);
  if (a->limit && a->in_use + bytes > a->limit && dfi_rescue_here.fn) {
    const int64_t missing = a->in_use + bytes - a->limit;
    pthread_mutex_unlock(&a->lock);                    /* making room gives memory back */
    dfi_rescue_here.fn(dfi_rescue_here.user, a, missing);
    pthread_mutex_lock(&a->lock);
  }
  return !a->limit || a->in_use + bytes <= a->limit;
}

/* Peaks begin anew where all do. Under the lock. */
static void look_at_epoch(dfi_devmem *a) {
  const int64_t now = atomic_load_explicit(&dfi_peak_epoch, memory_order_relaxed);
  if (a->epoch == now) return;
  a->epoch = now;
  a->peak = a->in_use;
  for (dfi_peak *p = a->peaks; p; p = p->next) p->most = a->in_use;
}

/* A block more. Under the lock. */
static void count_in(dfi_devmem *a, int64_t bytes) {
  look_at_epoch(a);
  a->in_use += bytes;
  if (a->in_use > a->peak) a->peak = a->in_use;
  dfi_peaks_raise(a->peaks, a->in_use);
  a->allocations++;
  a->refs++;
}

void *dfi_devmem_alloc(dfi_devmem *a, int64_t bytes) {
  const int32_t c = dfi_size_class(bytes);
  bytes = dfi_devmem_takes(bytes);
  void *p = NULL;
  pthread_mutex_lock(&a->lock);
  if (room_for(a, bytes)) {
    if (c < CLASSES && a->free[c]) {
      block *b = a->free[c];
      a->free[c] = b->next;
      a->kept -= bytes;
      p = b;
    } else {
      if (a->limit && a->in_use + a->kept + bytes > a->limit) drop_kept(a);
      p = from_system(a, bytes);
    }
  }
  if (p) count_in(a, bytes);
  pthread_mutex_unlock(&a->lock);
  return p;
}

void dfi_devmem_free(dfi_devmem *a, void *p, int64_t bytes) {
  const int32_t c = dfi_size_class(bytes);
  bytes = dfi_devmem_takes(bytes);
  pthread_mutex_lock(&a->lock);
  a->in_use -= bytes;
  if (c < CLASSES && (!a->limit || a->in_use + a->kept + bytes <= a->limit)) {
    block *b = p;
    b->next = a->free[c];
    a->free[c] = b;
    a->kept += bytes;
  } else {
    free(p);
    atomic_fetch_sub_explicit(&dfi_arena_bytes, bytes, memory_order_relaxed);
  }
  let_go(a);
}

void dfi_devmem_peak_begin(dfi_devmem *a, dfi_peak *p) {
  pthread_mutex_lock(&a->lock);
  dfi_peaks_add(&a->peaks, p, a->in_use);
  pthread_mutex_unlock(&a->lock);
}

int64_t dfi_devmem_peak_so_far(dfi_devmem *a, const dfi_peak *p) {
  pthread_mutex_lock(&a->lock);
  look_at_epoch(a);
  const int64_t most = p->most;
  pthread_mutex_unlock(&a->lock);
  return most;
}

int64_t dfi_devmem_peak_end(dfi_devmem *a, dfi_peak *p) {
  const int64_t most = dfi_devmem_peak_so_far(a, p);
  pthread_mutex_lock(&a->lock);
  dfi_peaks_remove(p);
  pthread_mutex_unlock(&a->lock);
  return most;
}

void dfi_devmem_look(dfi_devmem *a, dfi_devmem_stats *out) {
  pthread_mutex_lock(&a->lock);
  look_at_epoch(a);
  *out = (dfi_devmem_stats){ a->in_use, a->peak, a->limit, a->in_use + a->kept, a->allocations };
  pthread_mutex_unlock(&a->lock);
}

int64_t dfi_value_bytes(const df_value *v) {
  if (v->kind == DF_SCALAR) return dfi_dtype_size[v->dtype];
  if (v->kind != DF_TENSOR) return 0;
  const df_tensor *t = v->as.tensor;
  if (t->dtype != DF_STRING) return t->size * dfi_dtype_size[t->dtype];
  int64_t sum = 0;
  for (int64_t i = 0; i < t->size; i++) sum += ((const df_str *)t->data)[i].length;
  return sum;
}

df_tensor *dfi_tensor_copy_in(const df_tensor *t, dfi_devmem *a) {
  dfi_devmem *before = dfi_devmem_use(a);
  df_tensor *copy = dfi_tensor_make(t->dtype, t->rank, t->dims);
  dfi_devmem_use(before);
  if (copy && dfi_bytes_copy(copy->data, copy->buffer, t->data, t->buffer, t->size * dfi_dtype_size[t->dtype]))
    return copy;
  df_tensor_release(copy);
  return NULL;
}

bool dfi_value_in(const df_value *v, dfi_devmem *a, df_value *out) {
  if (v->kind != DF_TENSOR || !dfk_plain(v->dtype) || v->as.tensor->buffer->arena == a) {
    *out = dfi_value_copy(v);
    return true;
  }
  df_tensor *copy = dfi_tensor_copy_in(v->as.tensor, a);
  *out = *v;
  out->as.tensor = copy;
  if (!copy) out->kind = DF_EMPTY;
  else if (!a && copy->rank == 0) dfi_value_from_tensor(out, copy);       /* a number comes from a device as one */
  return copy != NULL;
}

/* ---- memory that the host cannot read: its blocks are kept by the device ---------------------------------------- */

void *dfi_remote_alloc(dfi_devmem *a, int64_t bytes, void *note) {
  const int64_t takes = dfi_devmem_takes(bytes);
  pthread_mutex_lock(&a->lock);
  const bool fits = room_for(a, takes);
  if (fits) count_in(a, takes);
  pthread_mutex_unlock(&a->lock);
  if (!fits) return NULL;
  const dfi_remote *r = a->remote;
  void *p;
  /* once more after none was found: another thread may just have been given it */
  for (bool some = true; !(p = r->alloc(r->device, bytes > 0 ? bytes : 1, note)) && some && !*r->error(r->device);)
    some = dfi_caches_evict(a, true);
  if (p) return p;
  pthread_mutex_lock(&a->lock);
  a->in_use -= takes;
  let_go(a);
  return NULL;
}

bool dfi_devmem_charge(dfi_devmem *a, int64_t bytes) {
  pthread_mutex_lock(&a->lock);
  const bool fits = room_for(a, bytes);
  if (fits) count_in(a, bytes);
  pthread_mutex_unlock(&a->lock);
  return fits;
}

void dfi_devmem_discharge(dfi_devmem *a, int64_t bytes) {
  pthread_mutex_lock(&a->lock);
  a->in_use -= bytes;
  let_go(a);
}

void dfi_remote_free(dfi_devmem *a, void *p, int64_t bytes, void *note) {
  a->remote->free(a->remote->device, p, note);
  pthread_mutex_lock(&a->lock);
  a->in_use -= dfi_devmem_takes(bytes);
  let_go(a);
}
