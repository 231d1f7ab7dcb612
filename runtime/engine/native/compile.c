/* compile.c: the plug-in is found and loaded, and units are compiled: by a thread of their own, one after the other,
 * or at once by the caller. What was compiled lies in memory once for all units with the same text, and on the disk for
 * other processes, which need the plug-in for what is not there.
 *
 * Units belong to their plan, which waits for the compiler before it goes.
 */
#define _GNU_SOURCE
#include "engine/native/native.h"
#include "base/plugin.h"
#include "engine/native/analyze.h"
#include "engine/native/object.h"
#include "engine/native/plugin.h"
#include "kernels/disk.h"
#include <dlfcn.h>
#include <stdio.h>

static struct {
  pthread_mutex_t lock;            /* guards what follows */
  pthread_cond_t  changed;
  bool            running;         /* the thread was started */
  dfi_unit       *first;           /* those that wait */
  _Atomic(dfi_unit *) now;         /* the one that the thread is compiling */
  pthread_mutex_t compiling;       /* the plug-in does one thing at a time; guards what follows */
  bool            looked;          /* for the plug-in */
  _Atomic(const dfi_jit_api *) api;
  char            why[600];        /* there is none */
  struct dfi_code *codes;          /* what is in memory */
} jit = { .lock = PTHREAD_MUTEX_INITIALIZER,
          .changed = PTHREAD_COND_INITIALIZER,
          .compiling = PTHREAD_MUTEX_INITIALIZER };

/* ---- the plug-in -------------------------------------------------------------------------------------- */

/* Under `compiling`. */
static const dfi_jit_api *plugin(void) {
  if (jit.looked) return jit.api;
  jit.looked = true;
  void *lib = dfi_plugin_open("libdflow_jit.so", true);
  const dfi_jit_api *api = lib ? dlsym(lib, DFI_JIT_SYMBOL) : NULL;
  if (!api)
    snprintf(jit.why, sizeof jit.why, "libdflow_jit.so, the plug-in that makes native code, is not there (%.400s)",
             dlerror());
  else if (api->version != DFI_JIT_VERSION)
    snprintf(jit.why, sizeof jit.why, "libdflow_jit.so is of version %d, where %d is expected", api->version,
             DFI_JIT_VERSION);
  else {
    const char *bad = api->open();
    if (bad) snprintf(jit.why, sizeof jit.why, "libdflow_jit.so: %s", bad);
    else jit.api = api;
  }
  return jit.api;
}

/* ---- fork: the child has one thread, which is not the compiler's ----------------------------------------- */

/* So a fork waits until nothing is compiled; what waits in the child is compiled by a thread of its own, once there is
 * something more to compile. */
static void before_fork(void) {
  pthread_mutex_lock(&jit.compiling);
  pthread_mutex_lock(&jit.lock);
}

static void after_fork(void) {
  pthread_mutex_unlock(&jit.lock);
  pthread_mutex_unlock(&jit.compiling);
}

static void in_child(void) {
  jit.running = false;
  jit.now = NULL;
  pthread_cond_init(&jit.changed, NULL);
  pthread_mutex_init(&jit.lock, NULL);
  pthread_mutex_init(&jit.compiling, NULL);
}

/* ---- the end of the process ------------------------------------------------------------------------------- */

/* An LLVM that is part of the plug-in is never taken down, and may go on compiling. */
static bool at_work(void) {
  const dfi_jit_api *api = atomic_load(&jit.api);
  return atomic_load(&jit.now) && !(api && api->stays());
}

static __attribute__((constructor)) void begin(void) {
  pthread_atfork(before_fork, after_fork, in_child);
  dfi_ending_probe(at_work);
}

/* ---- compiling -------------------------------------------------------------------------------------------- */

/* Machine code in memory: of all units with the same text. */
struct dfi_code {
  struct dfi_code *next;
  dfk_disk_key key;
  char     symbol[sizeof DFI_SYMBOL];    /* the key, as its function is called */
  int32_t  refs;
  bool     quick;                        /* one unit's, and not among the others */
  dfi_native_fn run;
  dfi_object object;
  void    *loaded;                       /* the plug-in's, where that has laid it into memory */
};

static const dfk_disk disk = { "DFLOW_NATIVE_CACHE", "native", "o", "dflowjit", 64u << 20 };

/* Can what is on the disk be found, and run, without the plug-in? */
static bool is_known_without(dfk_disk_key *key) {
#ifdef DFLOW_LLVM
  dfk_disk_hash_text(key, DFLOW_LLVM);
  return dfi_object_machine(key);
#else
  (void)key;
  return false;
#endif
}

/* Of the text, but for the line that names the loop, and of all else that its code depends on. False: there is no
   plug-in to ask for that. */
static bool key_of(const dfi_unit *u, dfk_disk_key *key) {
  const int32_t version = DFI_JIT_VERSION;
  *key = DFK_DISK_KEY;
  dfk_disk_hash(key, &version, sizeof version);
  if (!is_known_without(key)) {
    if (!plugin()) return false;
    dfk_disk_hash_text(key, jit.api->depends());
  }
  dfk_disk_hash_text(key, strchr(u->text.at, '\n'));
  return true;
}

/* The object file, from the disk or the compiler; malloc's, or NULL. quick: if he is to hurry; then whether he did. */
static void *object_of(dfi_unit *u, const dfk_disk_key *key, bool *quick, size_t *bytes, char *error, size_t room) {
  void *object = dfk_disk_read(&disk, key, bytes);
  if (!u->code) u->from_disk = object != NULL;
  if (object) *quick = false;
  else if (plugin() && (object = jit.api->compile(u->text.at, u->text.n, *quick, bytes, error, room)) && !*quick)
    dfk_disk_write(&disk, key, object, *bytes);
  return object;
}

static struct dfi_code *code_new(dfi_unit *u, const dfk_disk_key *key, const char *symbol, bool quick, char *error,
                                 size_t room) {
  size_t bytes;
  void *object = object_of(u, key, &quick, &bytes, error, room);
  if (!object) return NULL;
  struct dfi_code *c = dfi_xcalloc(1, sizeof *c);
  c->key = *key;
  c->quick = quick;
  memcpy(c->symbol, symbol, sizeof c->symbol);
  c->run = (dfi_native_fn)dfi_object_load(&c->object, object, bytes, symbol);
  if (!c->run && plugin()) c->run = (dfi_native_fn)jit.api->load(object, bytes, symbol, &c->loaded, error, room);
  free(object);
  if (c->run && quick) return c;
  if (c->run) {
    c->next = jit.codes;
    return jit.codes = c;
  }
  dfi_free(c);
  return NULL;
}

static struct dfi_code *code_known(const char *symbol) {
  struct dfi_code *c = jit.codes;
  while (c && strcmp(c->symbol, symbol)) c = c->next;
  return c;
}

/* The code of a unit that has been written. Under `compiling`. */
static struct dfi_code *code_of(dfi_unit *u, bool quick, char *error, size_t room) {
  dfk_disk_key key;
  char symbol[sizeof DFI_SYMBOL];
  if (!key_of(u, &key)) return NULL;
  snprintf(symbol, sizeof symbol, "dflow_%016llx%016llx", (unsigned long long)key.half[0],
           (unsigned long long)key.half[1]);
  memcpy(strstr(strchr(u->text.at, '\n'), DFI_SYMBOL), symbol, strlen(symbol));
  struct dfi_code *c = code_known(symbol);
  u->shared = c != NULL;
  if (!c) c = code_new(u, &key, symbol, quick, error, room);
  if (c) c->refs++;
  return c;
}

static void code_drop(struct dfi_code *c) {
  if (!c || --c->refs) return;
  struct dfi_code **at = &jit.codes;
  while (!c->quick && *at != c) at = &(*at)->next;
  if (!c->quick) *at = c->next;
  dfi_object_drop(&c->object);
  if (c->loaded) jit.api->drop(c->loaded);
  dfi_free(c);
}

static void compile(dfi_unit *u, bool quick) {
  char error[500] = "";
  const double began = dfi_now();
  pthread_mutex_lock(&jit.compiling);
  if (dfi_unit_write(u)) {
    if ((u->code = code_of(u, quick, error, sizeof error))) u->run = u->code->run;
    else if (!jit.api) dfi_unit_refuse(u, NULL, "%s", jit.why);
    else dfi_unit_refuse(u, NULL, "LLVM: %s", error);
  }
  pthread_mutex_unlock(&jit.compiling);
  u->compile_ms = (dfi_now() - began) * 1e3;
  u->tier = u->code && u->code->quick ? DFI_TIER_QUICK : DFI_TIER_FINE;
  atomic_store_explicit(&u->state, u->run ? DFI_UNIT_READY : DFI_UNIT_REFUSED, memory_order_release);
}

/* Better code for one that has some. */
static void improve(dfi_unit *u) {
  char error[500];
  const struct dfi_code *first = u->code;
  const double began = dfi_now();
  pthread_mutex_lock(&jit.compiling);
  struct dfi_code *c = code_known(first->symbol);
  if (!c) c = code_new(u, &first->key, first->symbol, false, error, sizeof error);
  if (c) c->refs++;
  u->better = c;
  pthread_mutex_unlock(&jit.compiling);
  u->better_ms = (dfi_now() - began) * 1e3;
  if (c) atomic_store_explicit(&u->run, c->run, memory_order_release);
  atomic_store_explicit(&u->tier, c ? DFI_TIER_BETTER : DFI_TIER_FINE, memory_order_release);
}

static void *work(void *unused) {
  pthread_mutex_lock(&jit.lock);
  for (;;) {
    while (!jit.first || atomic_load(&dfi_ending)) pthread_cond_wait(&jit.changed, &jit.lock);
    dfi_unit *u = jit.now = jit.first;
    jit.first = u->next;
    pthread_mutex_unlock(&jit.lock);
    if (u->tier == DFI_TIER_WANTED) improve(u);
    else compile(u, true);
    pthread_mutex_lock(&jit.lock);
    jit.now = NULL;
    pthread_cond_broadcast(&jit.changed);
  }
  return unused;
}

/* Under `lock`. */
static void start(void) {
  pthread_t thread;
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&detached, 8 << 20);
  jit.running = pthread_create(&thread, &detached, work, NULL) == 0;
  pthread_attr_destroy(&detached);
}

static void queue(dfi_unit *u) {
  pthread_mutex_lock(&jit.lock);
  if (!jit.running) start();
  dfi_unit **at = &jit.first;
  while (*at) at = &(*at)->next;
  u->next = NULL;
  *at = u;
  pthread_cond_broadcast(&jit.changed);
  pthread_mutex_unlock(&jit.lock);
}

void dfi_unit_want(dfi_unit *u, dfi_wanted when) {
  int32_t cold = DFI_UNIT_COLD;
  if (!atomic_compare_exchange_strong(&u->state, &cold, DFI_UNIT_WAITING)) return;
  if (when == DFI_SOON) queue(u);
  else compile(u, when == DFI_NOW_QUICK);
}

void dfi_unit_improve(dfi_unit *u) {
  int32_t quick = DFI_TIER_QUICK;
  if (atomic_compare_exchange_strong(&u->tier, &quick, DFI_TIER_WANTED)) queue(u);
}

/* ---- a plan's units ----------------------------------------------------------------------------------------- */

static dfi_units *units_new(const dfi_plan *p) {
  struct dfi_units *all = dfi_xcalloc(1, sizeof *all + sizeof *all->unit * (size_t)p->nscopes);
  all->n = p->nscopes;
  for (int32_t i = 0; i < p->nscopes; i++) { all->unit[i].plan = p; all->unit[i].scope = &p->scope[i]; }
  return all;
}

dfi_unit *dfi_unit_of(dfi_exec *x, const dfi_scope *s) {
  struct dfi_units *all = __atomic_load_n(&x->plan->native, __ATOMIC_ACQUIRE);
  if (!all) {
    pthread_mutex_lock(&x->plan->lock);
    if (!x->plan->native) __atomic_store_n(&x->plan->native, units_new(x->plan), __ATOMIC_RELEASE);
    all = x->plan->native;
    pthread_mutex_unlock(&x->plan->lock);
  }
  return &all->unit[s->id];
}

char *dfi_native_assembly(const dfi_unit *u) {
  pthread_mutex_lock(&jit.compiling);
  char *text = plugin() ? jit.api->assembly(u->text.at, u->text.n) : NULL;
  pthread_mutex_unlock(&jit.compiling);
  return text;
}

static void unit_drop(dfi_unit *u) {
  code_drop(u->code);
  code_drop(u->better);
  dfi_unit_free(u);
}

void dfi_native_forget(dfi_plan *p) {
  struct dfi_units *all = p->native;
  if (!all) return;
  pthread_mutex_lock(&jit.lock);
  for (dfi_unit **at = &jit.first; *at; ) if ((*at)->plan == p) *at = (*at)->next; else at = &(*at)->next;
  while (jit.now && atomic_load(&jit.now)->plan == p) pthread_cond_wait(&jit.changed, &jit.lock);
  pthread_mutex_unlock(&jit.lock);
  pthread_mutex_lock(&jit.compiling);
  for (int32_t i = 0; i < all->n; i++) {
    for (dfi_unit *v = all->unit[i].other, *next; v; v = next) {
      next = v->other;
      unit_drop(v);
      dfi_free(v);
    }
    unit_drop(&all->unit[i]);
  }
  pthread_mutex_unlock(&jit.compiling);
  dfi_free(all);
  p->native = NULL;
}
