/* kernel.c: the services that kernels ask of the runtime: outputs, scratch, errors, workers, tags. */
#include "engine/executor.h"
#include "engine/services.h"
#include "op/run.h"
#include "base/stress.h"
#include "base/remote_memory.h"
#include <stdarg.h>
#include <stdio.h>

static int32_t out_of_memory(df_kernel *k, int32_t dtype, int32_t rank, const int64_t *dims) {
  char text[200];
  dfi_shape s = dfi_shape_of(rank, dims);
  return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for %s", dfi_typed_shape_text((uint8_t)dtype, &s, text));
}

static df_tensor *scalar_out(df_kernel *k, int32_t i, int32_t dtype) {
  df_value *v = &k->out[i];
  df_tensor *t = &k->scratch[i];
  *v = (df_value){ .kind = DF_SCALAR, .dtype = (uint8_t)dtype };
  t->refs = 1; t->dtype = (uint8_t)dtype; t->rank = 0; t->view = 1; t->size = 1;
  t->data = &v->as; t->buffer = NULL;
  return t;
}

static df_tensor *tensor_out(df_kernel *k, int32_t i, df_tensor *t) {
  k->out[i] = (df_value){ .kind = DF_TENSOR, .dtype = t->dtype, .as.tensor = t };
  return t;
}

/* Is output i made where the host cannot read it? Then numbers too: the host is not to wait for one. */
static bool makes_remote(const df_kernel *k, int32_t i) {
  if (DFI_LIKELY(!dfi_devmem_here) || !dfi_devmem_remote(dfi_devmem_here)) return false;
  const dfi_pnode *p = k->run ? ((const dfi_call *)k->run)->node : NULL;
  return !p || i >= 32 || !((p->gpu ? p->gpu->host_out : p->op->host_out) >> i & 1);
}

static bool same_dims(const df_tensor *t, int32_t rank, const int64_t *dims) {
  if (t->rank != rank) return false;
  for (int32_t d = 0; d < rank; d++) if (t->dims[d] != dims[d]) return false;
  return true;
}

/* The caller's place for output i, if it has one for such a tensor. */
static df_tensor *place_of(const df_kernel *k, int32_t i, int32_t dtype, int32_t rank, const int64_t *dims) {
  const dfi_call *c = k->run;
  if (DFI_LIKELY(!c || !c->place)) return NULL;
  df_tensor *t = &c->place[i];
  return t->dtype == dtype && same_dims(t, rank, dims) ? df_tensor_retain(t) : NULL;
}

df_tensor *dfk_out(df_kernel *k, int32_t i, int32_t dtype, int32_t rank, const int64_t *dims) {
  const bool remote = makes_remote(k, i);
  if (rank == 0 && dfi_unboxed((uint8_t)dtype) && !remote) return scalar_out(k, i, dtype);
  dfi_devmem *here = dfi_devmem_here;
  if (DFI_UNLIKELY(here && !remote && dfi_devmem_remote(here))) dfi_devmem_use(NULL);
  df_tensor *t = place_of(k, i, dtype, rank, dims);
  if (!t) t = dfi_tensor_make((uint8_t)dtype, rank, dims);
  dfi_devmem_here = here;
  if (DFI_UNLIKELY(!t)) { out_of_memory(k, dtype, rank, dims); return NULL; }
  return tensor_out(k, i, t);
}

df_tensor *dfk_out_like(df_kernel *k, int32_t i, const df_tensor *like) {
  return dfk_out(k, i, like->dtype, like->rank, like->dims);
}

/* May output i lie in input `from`? Then that is no other's from now on: one output only. */
static bool takes(df_kernel *k, int32_t i, int32_t from, int32_t dtype, int32_t rank, int64_t size) {
  const df_tensor *t = k->in[from];
  if (!(k->reusable >> from & 1) || !t || t->view || t->dtype != dtype || t->size != size || !size) return false;
  const bool remote = makes_remote(k, i);
  if ((rank == 0 && dfi_unboxed((uint8_t)dtype) && !remote) || !dfk_plain((uint8_t)dtype)) return false;
  if (t->data != t->buffer->data || dfi_readable(t) != !remote || !dfi_tensor_exclusive(t)) return false;
  k->reusable &= ~(1u << from);
  return true;
}

df_tensor *dfk_out_reuse(df_kernel *k, int32_t i, int32_t from, int32_t dtype, int32_t rank, const int64_t *dims) {
  const int32_t last = from != DFK_ANY_INPUT ? from : k->nin < 32 ? k->nin - 1 : 31;
  int64_t size = 1;
  if (!k->reusable || last > 31) return dfk_out(k, i, dtype, rank, dims);
  for (int32_t d = 0; d < rank; d++) size *= dims[d];
  for (int32_t in = from == DFK_ANY_INPUT ? 0 : from; in <= last; in++)
    if (takes(k, i, in, dtype, rank, size)) {
      df_tensor *t = (df_tensor *)k->in[in];
      df_tensor *r = same_dims(t, rank, dims) ? df_tensor_retain(t) : df_tensor_reshape(t, rank, dims, NULL);
      if (r) return tensor_out(k, i, r);
    }
  return dfk_out(k, i, dtype, rank, dims);
}

int32_t dfk_out_forward(df_kernel *k, int32_t i, int32_t from, int32_t rank, const int64_t *dims) {
  const df_value *v = k->raw[from];
  if (v->kind == DF_HANDLE) { k->out[i] = dfi_value_copy(v); return DF_OK; }
  df_tensor *t = (df_tensor *)k->in[from];
  if (!dims) { rank = t->rank; dims = t->dims; }
  if (v->kind == DF_SCALAR) {
    if (rank == 0) { k->out[i] = *v; return DF_OK; }
    df_tensor *o = dfk_out(k, i, v->dtype, rank, dims);
    if (!o) return k->error->code;
    if (!dfi_bytes_copy(o->data, o->buffer, &v->as, NULL, dfi_dtype_size[v->dtype]))
      return dfk_fail(k, DF_UNAVAILABLE, "the device did not take a number");
    return DF_OK;
  }
  if (rank == 0 && dfi_unboxed(t->dtype) && dfi_readable(t)) {     /* a reference variable's value is boxed */
    memcpy(scalar_out(k, i, t->dtype)->data, t->data, dfi_dtype_size[t->dtype]);
    return DF_OK;
  }
  if (same_dims(t, rank, dims)) { tensor_out(k, i, df_tensor_retain(t)); return DF_OK; }
  df_tensor *o = df_tensor_reshape(t, rank, dims, k->error);
  if (!o) return k->error->code;
  tensor_out(k, i, o);
  return DF_OK;
}

bool dfk_out_part(df_kernel *k, int32_t i, int32_t from, int64_t first, int32_t rank, const int64_t *dims) {
  /* A part keeps the whole alive: fewer bytes are copied soon enough, and of much more memory none is held. */
  enum { LEAST_BYTES = 32 << 10, MOST_TIMES = 64, ALIGNED = 64 };
  df_tensor *t = (df_tensor *)k->in[from];
  if (!t || rank == 0 || !dfk_plain(t->dtype) || t->view || !t->buffer) return false;
  int64_t bytes = dfi_dtype_size[t->dtype];
  const uintptr_t at = (uintptr_t)t->data + (uintptr_t)(first * bytes);
  for (int32_t d = 0; d < rank; d++) bytes *= dims[d];
  if (bytes < LEAST_BYTES || t->buffer->bytes / MOST_TIMES > bytes || at % ALIGNED) return false;
  if (makes_remote(k, i) || !dfi_readable(t)) return false;
  df_tensor *part = dfi_tensor_view(t, first, rank, dims);
  if (part) tensor_out(k, i, part);
  return part != NULL;
}

void dfk_out_tensor(df_kernel *k, int32_t i, df_tensor *t) { dfi_value_from_tensor(&k->out[i], t); }

df_tensor *dfk_own(df_kernel *k, int32_t i) {
  const df_value *v = k->raw[i];
  if (v->kind == DF_TENSOR) return df_tensor_retain(v->as.tensor);
  df_tensor *t = v->kind == DF_SCALAR ? dfi_tensor_from_scalar(v) : NULL;
  if (!t) out_of_memory(k, v->dtype, 0, NULL);
  return t;
}

typedef struct scratch { int64_t bytes; int64_t pad[7]; } scratch;   /* keeps 64-byte alignment */

void *dfk_scratch(df_kernel *k, int64_t bytes) {
  scratch *s = dfi_alloc(bytes + (int64_t)sizeof *s);
  if (!s) {
    dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for %lld bytes of scratch", (long long)bytes);
    return NULL;
  }
  s->bytes = bytes + (int64_t)sizeof *s;
  return s + 1;
}

void dfk_free(void *p) {
  if (!p) return;
  scratch *s = (scratch *)p - 1;
  dfi_release(s, s->bytes);
}

bool dfk_set_string(df_kernel *k, df_tensor *t, int64_t i, const char *bytes, int64_t length) {
  return df_tensor_set_string(t, i, bytes, length, k->error) == DF_OK;
}

void dfk_set_variant(df_tensor *t, int64_t i, void *handle) {
  void **element = (void **)t->data + i;
  if (handle) dfi_handle_retain(handle);
  if (*element) dfi_handle_release(*element);
  *element = handle;
}

int32_t dfk_fail(df_kernel *k, int32_t code, const char *format, ...) {
  char text[sizeof k->error->message];
  va_list a;
  va_start(a, format);
  vsnprintf(text, sizeof text, format, a);
  va_end(a);
  k->error->code = code;
  dfi_show(k->error->message, sizeof k->error->message, text);
  return code;
}

char *dfk_shape_text(const df_tensor *t, char *buffer, size_t bytes) {
  size_t n = (size_t)snprintf(buffer, bytes, "%s[", df_dtype_name(t->dtype));
  for (int32_t d = 0; d < t->rank && n < bytes; d++)
    n += (size_t)snprintf(buffer + n, bytes - n, d ? ",%lld" : "%lld", (long long)t->dims[d]);
  if (n < bytes) snprintf(buffer + n, bytes - n, "]");
  return buffer;
}

/* A kernel that is called while the graph is built (constants known early) has no run. */
static const dfi_call *call_of(const df_kernel *k) { return k->run; }

/* DFLOW_STRESS=split, in the debug build: in five pieces, the last one first, however little there is to do. */
#ifdef DFLOW_DEBUG
static void split(int64_t n, df_range_fn fn, void *arg) {
  const int64_t piece = (n + 4) / 5;
  for (int64_t begin = (n - 1) / piece * piece; begin >= 0; begin -= piece)
    fn(arg, begin, n - begin < piece ? n : begin + piece);
}
#define SPLIT dfi_stress("split", NULL)
#else
#define SPLIT false
static inline void split(int64_t n, df_range_fn fn, void *arg) {}
#endif

void dfk_parallel(df_kernel *k, int64_t n, int64_t grain, df_range_fn fn, void *arg) {
  if (SPLIT && n > 1) split(n, fn, arg);
  else if (n <= grain || !k->run) fn(arg, 0, n);
  else dfi_pool_range(call_of(k)->exec->setup.pool, n, grain, fn, arg);
}

int32_t dfk_threads(const df_kernel *k) {
  if (SPLIT) return 5;
  return k->run ? dfi_pool_threads(call_of(k)->exec->setup.pool) : 1;
}

uint64_t dfi_tag_of(const dfi_record *r, uint64_t run) {
  const dfi_frame *f = r->frame;
  if (!f->origin) return dfi_hash_mix(run, 0x5eed);
  const uint64_t which = f->call ? f->call->child : 0;
  const uint64_t outer = f->second ? dfi_service.remat_tag(f->second) : dfi_tag_of(f->origin, run);
  return dfi_hash_mix(dfi_hash_mix(outer, 0x10095 + which), (uint64_t)r->number);
}

/* Says that a random op of the plan fired. */
static void note_draw(const dfi_exec *x, const dfi_pnode *n) {
  const dfi_plan *p = x->plan;
  int32_t low = 0, high = p->nrandom;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (p->random[middle] < n->node->id) low = middle + 1;
    else high = middle;
  }
  if (low < p->nrandom && p->random[low] == n->node->id)
    atomic_store_explicit(&x->setup.drew[low], 1, memory_order_relaxed);
}

uint64_t dfk_tag(const df_kernel *k) {
  if (!k->run) return 0;
  const dfi_call *c = call_of(k);
  if (c->exec->setup.drew && (c->node->op->traits & DFO_RANDOM)) note_draw(c->exec, c->node);
  return dfi_tag_of(c->record, (uint64_t)c->exec->setup.draw_number);
}

int64_t dfk_graph_seed(const df_kernel *k) { return k->run ? call_of(k)->exec->plan->graph->seed : 0; }

/* Does the rest of a path climb out of where it begins? */
static bool climbs(const char *rest, int64_t n) {
  for (int64_t i = 0; i + 1 < n; i++) if (rest[i] == '.' && rest[i + 1] == '.') return true;
  return false;
}

/* Marks in `seen` what `first` is computed from, and itself; of `n` nodes each, as the graph had when it was asked. */
static void mark_sources(df_node *first, int32_t n, uint8_t *seen, df_node **queue) {
  int32_t tail = 0;
  queue[tail++] = first;
  seen[first->id] = 1;
  for (int32_t head = 0; head < tail; head++)
    for (int32_t i = 0; i < queue[head]->nin; i++) {
      df_node *from = queue[head]->in[i].node;
      if (from->id >= n || seen[from->id]) continue;
      seen[from->id] = 1;
      queue[tail++] = from;
    }
}

/* Does the path begin with the string that was fed; `whole`: is it that string? */
static bool begins_with_fed(const char *path, int64_t n, const df_value *fed, bool whole) {
  int64_t length;
  if (fed->kind != DF_TENSOR || fed->dtype != DF_STRING || fed->as.tensor->size != 1) return false;
  const char *text = df_tensor_string(fed->as.tensor, 0, &length);
  return length && (whole ? length == n : length <= n) && !memcmp(text, path, (size_t)length) &&
         !climbs(path + length, n - length);
}

/* May the run open the path? The program made its node, or the imported graph may touch files, or the path begins with
   a string that the run was fed and that leads to input `input` of the node, or is one that came by a variable; -1: the
   graph itself names the path. */
static bool may_touch(const void *run, int32_t input, const char *path, int64_t n) {
  const dfi_call *c = run;
  if (!c) return false;
  df_graph *g = c->exec->plan->graph;
  const df_node *node = c->node->node;
  if (g->files || !node->imported) return true;
  const dfi_plan *plan = c->exec->plan;
  if (input < 0 || input >= node->nin) return false;
  pthread_mutex_lock(&g->lock);
  const int32_t nodes = g->n;
  pthread_mutex_unlock(&g->lock);
  uint8_t *seen = dfi_xcalloc((size_t)nodes, 1);
  df_node **queue = dfi_xmalloc(sizeof *queue * (size_t)nodes);
  mark_sources(node->in[input].node, nodes, seen, queue);
  bool may = false;
  for (int32_t i = 0; i < plan->nfeed && !may; i++)
    may = begins_with_fed(path, n, &c->exec->given[i], !seen[plan->feed[i].node->id]);
  dfi_free(seen); dfi_free(queue);
  return may;
}

bool dfk_may_touch(df_kernel *k, int32_t input, const char *path, int64_t n) {
  if (may_touch(k->run, input, path, n)) return true;
  dfk_fail(k, DF_PERMISSION_DENIED, "this graph may not touch the file %.*s: %simport the graph with files = true",
           (int)(n < 300 ? n : 300), path, input < 0 ? "" : "feed its path to the run, or ");
  return false;
}

void dfk_print(df_kernel *k, const char *bytes, int64_t length) {
  (void)k;
  dfi_print(bytes, length);
}

df_node *dfi_run_node(const void *run) { return ((const dfi_call *)run)->node->node; }
uint64_t dfi_run_id(const void *run) {
  const dfi_exec *x = ((const dfi_call *)run)->exec;
  return (uint64_t)(uintptr_t)x->given ^ dfi_hash_mix((uint64_t)x->setup.run_number, 0x5e55);
}
struct dfi_resources *dfi_run_resources(const void *run) {
  return ((const dfi_call *)run)->exec->setup.shared->resources;
}
void dfi_run_count_push(void *run) { if (run) ((dfi_call *)run)->exec->count.pushes++; }
void dfi_run_count_pop(void *run)  { if (run) ((dfi_call *)run)->exec->count.pops++; }
