/* onednn.c: finds oneDNN, keeps its primitives, and runs one on the thread that asks. */
#include "onednn.h"
#ifdef DFLOW_ONEDNN
#include "../library.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- the library ------------------------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static dfk_dnn found;
static bool usable;
static pthread_key_t at_thread_end;

/* A thread's own: its stream, and what primitives need while they run. */
typedef struct own { dnnl_stream_t stream; void *scratch; int64_t scratch_bytes; } own;
static __thread own *mine;

static void release_own(void *p) {
  own *o = p;
  if (o->stream) found.stream_destroy(o->stream);
  free(o->scratch);
  free(o);
  mine = NULL;
}

static void load(void) {
#if defined(__SANITIZE_THREAD__)
  return;                      /* the sanitizer cannot see into it */
#endif
  void *library = dfk_library_open("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL, true);
  if (!library) return;
  bool whole = true;
#define CALL(name) whole &= (found.name = (__typeof__(dnnl_##name) *)dlsym(library, "dnnl_" #name)) != NULL;
  DFK_DNN_CALLS(CALL)
#undef CALL
  found.set_threads = (void (*)(int))dlsym(library, "omp_set_num_threads");
  found.max_threads = (int (*)(void))dlsym(library, "omp_get_max_threads");
  whole = whole && found.set_threads && found.max_threads && !pthread_key_create(&at_thread_end, release_own);
  if (whole && found.engine_create(&found.engine, dnnl_cpu, 0) == dnnl_success) usable = true;
  else dlclose(library);
}

const dfk_dnn *dfk_dnn_calls(void) {
  pthread_once(&once, load);
  return usable ? &found : NULL;
}

/* ---- primitives, by key -------------------------------------------------------------------------------------- */

enum { BUCKETS = 1024, KEPT = 768 };
typedef struct entry { dfk_dnn_primitive p; struct entry *next; } entry;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;    /* guards what follows; held while code is made, too */
static entry  *bucket[BUCKETS];
static int64_t kept, calls;

/* A child that is forked meanwhile finds the lock open. */
static void take(void) { pthread_mutex_lock(&lock); }
static void give(void) { pthread_mutex_unlock(&lock); }
static __attribute__((constructor)) void begin(void) { pthread_atfork(take, give, give); }

static uint32_t hash_of(const dfk_dnn_key *key) {
  uint64_t h = 0;
  for (size_t i = 0; i < sizeof key->words / sizeof *key->words; i++)
    h = (h ^ (uint64_t)key->words[i]) * 0x9e3779b97f4a7c15u;
  return (uint32_t)(h >> 40) % BUCKETS;
}

/* The one that was used longest ago and is not in use goes. */
static void make_room(void) {
  if (kept < KEPT) return;
  entry **oldest = NULL;
  for (int i = 0; i < BUCKETS; i++)
    for (entry **e = &bucket[i]; *e; e = &(*e)->next)
      if (!(*e)->p.refs && (!oldest || (*e)->p.used < (*oldest)->p.used)) oldest = e;
  if (!oldest) return;
  entry *e = *oldest;
  *oldest = e->next;
  if (e->p.primitive) found.primitive_destroy(e->p.primitive);
  free(e);
  kept--;
}

/* Only code that the library generates is faster than ours. */
static bool is_generated(const dfk_dnn *d, dnnl_primitive_desc_t pd, bool is_product) {
  const char *name = NULL;
  return d->primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success && name &&
         (strstr(name, "brg") || strstr(name, "jit") || strstr(name, "simple")) &&
         (is_product || !strstr(name, "gemm"));
}

static void make(const dfk_dnn *d, dfk_dnn_primitive *p, dfk_dnn_make fn, const void *what) {
  dnnl_primitive_attr_t attr;
  if (d->primitive_attr_create(&attr) != dnnl_success) return;
  d->primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
  dnnl_primitive_desc_t pd = fn(d, what, attr, p);
  if (pd) {
    const dnnl_memory_desc_t *md = d->primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    p->scratch_bytes = md ? (int64_t)d->memory_desc_get_size(md) : 0;
    if (!is_generated(d, pd, p->is_product) || d->primitive_create(&p->primitive, pd) != dnnl_success)
      p->primitive = NULL;
    d->primitive_desc_destroy(pd);
  }
  d->primitive_attr_destroy(attr);
}

const dfk_dnn_primitive *dfk_dnn_get(const dfk_dnn_key *key, dfk_dnn_make fn, const void *what) {
  const dfk_dnn *d = dfk_dnn_calls();
  if (!d) return NULL;
  uint32_t at = hash_of(key);
  pthread_mutex_lock(&lock);
  entry *e = bucket[at];
  while (e && memcmp(&e->p.key, key, sizeof *key) != 0) e = e->next;
  if (!e) {
    make_room();
    if ((e = calloc(1, sizeof *e))) {
      int threads = d->max_threads();
      e->p.key = *key;
      d->set_threads(1);                    /* a primitive is made for as many threads as there are now */
      make(d, &e->p, fn, what);
      d->set_threads(threads);
      e->next = bucket[at];
      bucket[at] = e;
      kept++;
    }
  }
  if (e) e->p.used = ++calls;
  if (e && e->p.primitive) e->p.refs++;
  else e = NULL;
  pthread_mutex_unlock(&lock);
  return e ? &e->p : NULL;
}

void dfk_dnn_put(const dfk_dnn_primitive *p) {
  if (!p) return;
  pthread_mutex_lock(&lock);
  ((dfk_dnn_primitive *)p)->refs--;
  pthread_mutex_unlock(&lock);
}

/* ---- a run ------------------------------------------------------------------------------------------------------ */

static own *own_of(const dfk_dnn *d, int64_t scratch_bytes) {
  if (!mine) {
    own *o = calloc(1, sizeof *o);
    if (!o || d->stream_create(&o->stream, d->engine, dnnl_stream_default_flags) != dnnl_success) {
      free(o);
      return NULL;
    }
    pthread_setspecific(at_thread_end, mine = o);
  }
  if (mine->scratch_bytes < scratch_bytes) {
    free(mine->scratch);
    mine->scratch_bytes = (scratch_bytes + 4095) & ~(int64_t)4095;
    mine->scratch = aligned_alloc(4096, (size_t)mine->scratch_bytes);
    if (!mine->scratch) { mine->scratch_bytes = 0; return NULL; }
  }
  return mine;
}

bool dfk_dnn_run(const dfk_dnn_primitive *p, void *const *data) {
  const dfk_dnn *d = dfk_dnn_calls();
  own *o = own_of(d, p->scratch_bytes);
  if (!o) return false;
  dnnl_exec_arg_t args[DFK_DNN_ARGS + 1];
  int n = 0;
  bool fine = true;
  for (; fine && n < p->nargs; n += fine) {
    args[n].arg = p->args[n];
    fine = d->memory_create(&args[n].memory, &p->md[n], d->engine, data[n]) == dnnl_success;
  }
  if (fine && p->scratch_bytes) {
    dnnl_memory_desc_t md;
    d->memory_desc_init_by_tag(&md, 1, (dnnl_dims_t){ p->scratch_bytes }, dnnl_u8, dnnl_a);
    args[n].arg = DNNL_ARG_SCRATCHPAD;
    fine = d->memory_create(&args[n].memory, &md, d->engine, o->scratch) == dnnl_success;
    n += fine;
  }
  if (fine) {
    int threads = d->max_threads();         /* the host program's, which may use OpenMP itself */
    if (threads != 1) d->set_threads(1);
    fine = d->primitive_execute(p->primitive, o->stream, n, args) == dnnl_success;
    if (threads != 1) d->set_threads(threads);
  }
  while (n > 0) d->memory_destroy(args[--n].memory);
  return fine;
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

typedef struct layouts { const dnnl_memory_desc_t *from, *to; } layouts;

static dnnl_primitive_desc_t make_reorder(const dfk_dnn *d, const void *what, dnnl_primitive_attr_t attr,
                                          dfk_dnn_primitive *p) {
  const layouts *l = what;
  dnnl_primitive_desc_t pd;
  if (d->reorder_primitive_desc_create(&pd, l->from, d->engine, l->to, d->engine, attr) != dnnl_success) return NULL;
  p->nargs = 2;
  p->args[0] = DNNL_ARG_FROM;
  p->args[1] = DNNL_ARG_TO;
  p->md[0] = *l->from;
  p->md[1] = *l->to;
  return pd;
}

int64_t dfk_dnn_layout(const dnnl_memory_desc_t *md) {
  if (!md) return 0;
  uint64_t h = 0;
  for (size_t i = 0; i < sizeof *md; i++) h = (h ^ ((const unsigned char *)md)[i]) * 0x100000001b3u + (h >> 29);
  return (int64_t)h;
}

const dfk_dnn_primitive *dfk_dnn_reorder(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to) {
  dfk_dnn_key key = { { 'R', dfk_dnn_layout(from), dfk_dnn_layout(to) } };
  for (int i = 0; i < from->ndims && i < 6; i++) key.words[3 + i] = from->dims[i];
  return dfk_dnn_get(&key, make_reorder, &(layouts){ from, to });
}
#else
typedef int dfk_no_onednn;       /* a file has something in it */
#endif
