/* measure.c: what this machine's kernels can do, for devices whose speed is 'measured'; and what nodes took in runs
 * that were recorded or logged, for the placement of the next plan's nodes.
 *
 * Three rates, as the cost model has them (device/cost.c): of products of matrices, of what streams through memory, and
 * of kernels that do next to nothing. One thread computes, as a device does. It takes some milliseconds, once a
 * process; the best of several tries counts, since whatever else runs makes a try longer, never shorter.
 */
#include "session/session.h"
#include "engine/clock/record.h"
#include "engine/observe/watch.h"

static dfi_rates measured;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Seconds of one call of the op's kernel for two float32 [n, m] of ones; < 0: it cannot be found out. */
static double try_kernel(const char *type, int64_t n, int64_t m, int32_t times) {
  const dfi_op_info *o = dfi_op_find(type);
  const df_kernel_fn kernel = o->op->kernel[DF_CPU] ? o->op->kernel[DF_CPU] : o->op->kernel[DF_REF];
  const int64_t dims[] = { n, m };
  df_tensor *t = dfi_tensor_make(DF_FLOAT32, 2, dims);
  if (!t) return -1;
  for (int64_t i = 0; i < t->size; i++) ((float *)t->data)[i] = 1;
  const df_tensor *in[] = { t, t };
  const df_value value = { .kind = DF_TENSOR, .dtype = DF_FLOAT32, .as.tensor = t }, *raw[] = { &value, &value };
  const uint8_t dtype = DF_FLOAT32;
  double least = -1;
  for (int32_t i = 0; i < times; i++) {
    df_value out = { 0 };
    df_tensor scratch;
    df_error error = { .code = DF_OK };
    df_kernel k = { .attrs = o->defaults, .nin = 2, .nout = 1, .in = in, .raw = raw, .out = &out, .out_dtype = &dtype,
                    .scratch = &scratch, .error = &error };
    const double began = dfi_now();
    const int32_t code = kernel(&k);
    const double took = dfi_now() - began;
    df_value_release(&out);
    if (!code && took > 0 && (least < 0 || took < least)) least = took;
  }
  df_tensor_release(t);
  return least;
}

static void measure(void) {
  enum { SIDE = 192, ROWS = 1024, COLUMNS = 512, TRIES = 8 };
  measured = dfi_model_rates;
  const double tiny = try_kernel("Add", 1, 8, 64), product = try_kernel("MatMul", SIDE, SIDE, TRIES),
               stream = try_kernel("Add", ROWS, COLUMNS, TRIES);
  if (tiny > 0) measured.begin = tiny;
  if (product > 0) measured.flops = 2.0 * SIDE * SIDE * SIDE / product;
  if (stream > 0) measured.bytes = 3.0 * sizeof(float) * ROWS * COLUMNS / stream;   /* two are read, one is written */
}

void dfi_devices_measure(dfi_devices *d) {
  for (int32_t i = 0; i < d->n; i++) {
    if (!d->at[i]->measured) continue;
    pthread_once(&once, measure);
    d->at[i]->rates = measured;
  }
}

/* ---- what nodes took ------------------------------------------------------------------------------------------ */

typedef struct sums { double *seconds; int32_t *calls, n; } sums;

static void add(void *to, int32_t node, double seconds) {
  sums *m = to;
  if (node < 0 || node >= m->n) return;
  m->seconds[node] += seconds;
  m->calls[node]++;
}

/* What was logged: kernels by the clock. A GPU computes after its kernels have been called. */
static void add_logged(sums *m, const dfi_plan *p, const dfi_watch *w) {
  const int64_t n = atomic_load(&w->nevents);
  for (int64_t i = 0; i < n; i++) {
    const df_event *e = &w->chunk[i / DFI_CHUNK_EVENTS][i % DFI_CHUNK_EVENTS];
    if (e->kind == DF_EVENT_TOKEN && !e->dead && e->device >= 0 && !p->devices->at[e->device]->remote)
      add(m, e->node, 1e-9 * (double)e->took);
  }
}

/* Nodes of the graph up to the last one that the plan runs. Others may add to the graph meanwhile. */
static int32_t known_nodes(const dfi_plan *p) {
  int32_t n = 0;
  for (int32_t i = 0; i < p->nnodes; i++) if (p->node[i].node->id >= n) n = p->node[i].node->id + 1;
  return n;
}

void dfi_session_learn(df_session *s, const dfi_plan *p, const dfi_watch *w) {
  if (!p->devices || p->devices->n < 2) return;
  const int32_t n = known_nodes(p);
  sums m = { dfi_xcalloc((size_t)n + 1, sizeof *m.seconds), dfi_xcalloc((size_t)n + 1, sizeof *m.calls), n };
  if (w->recorder) dfi_recorder_costs(w->recorder, add, &m);
  else add_logged(&m, p, w);
  pthread_mutex_lock(&s->lock);
  dfi_costs *c = &s->devices.costs;
  if (c->n < n) {
    c->seconds = dfi_xrealloc(c->seconds, sizeof *c->seconds * (size_t)n);
    memset(c->seconds + c->n, 0, sizeof *c->seconds * (size_t)(n - c->n));
    c->n = n;
  }
  for (int32_t i = 0; i < n; i++) if (m.calls[i]) c->seconds[i] = m.seconds[i] / m.calls[i];
  c->runs++;
  pthread_mutex_unlock(&s->lock);
  dfi_free(m.seconds); dfi_free(m.calls);
}
