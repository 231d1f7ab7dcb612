/* capture.c: what a thread enqueues, kept as a graph, to be launched again and again.
 *
 * The graph has a stream of its own that is captured, and memory of its own: what kernels make meanwhile is cut from
 * blocks that stay with the graph, first fit, and what is let go may be cut anew, since one stream's work is in one
 * order. So every address is the same at each launch. Blocks are asked for in the order of the computing stream, where
 * the graph will be launched. Pinned memory that a copy reads stays with the graph, too.
 *
 * A graph that is captured again over the same shapes has the same form, and is changed where it is
 * (cuGraphExecUpdate); launches before that keep what they were. One with conditional nodes is made anew: what its
 * kernels tell these nodes by belongs to the one graph.
 *
 * The body of a conditional node is a graph of its own, which another stream is captured into, one for each depth.
 */
#include "plugin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ALIGN = 256, FIRST_CHUNK = 64 << 10, REPLAYS = 8, DEPTHS = 6 };

/* A part of a chunk; in the order of addresses within one. */
typedef struct block { CUdeviceptr at; int64_t bytes; bool used, first /* of its chunk */; struct block *next; } block;

/* What is captured at one depth: into the graph, or into the body of a node of the depth before. */
typedef struct depth {
  CUstream    stream;
  CUgraphNode node;                        /* whose body it is */
  CUgraph     body[2];
} depth;

typedef struct dfc_graph {
  dfc_gpu    *gpu;
  depth       depth[DEPTHS];
  int32_t     at;                          /* the depth at hand */
  CUgraph     made;                        /* owned; with conditional nodes: it stays as long as what is launched */
  bool        conditional;
  CUgraphExec exec;
  block      *block;
  int64_t     bytes;                       /* of all chunks */
  dfc_stage  *stage;                       /* that it reads */
  CUevent     over[REPLAYS];               /* of its last launches: a ring */
  int64_t     launched, done;
  bool        wrong;                       /* the capture under way, that is */
  char        why[300];
} dfc_graph;

__thread dfc_graph *dfc_capturing __attribute__((tls_model("initial-exec")));

CUstream dfc_captured_stream(const dfc_gpu *g) {
  const dfc_graph *q = dfc_capturing;
  return q->gpu == g ? q->depth[q->at].stream : g->compute;
}

bool dfc_capture_wrong(const dfc_gpu *g, const char *what, const char *why) {
  dfc_graph *q = dfc_capturing;
  if (q->gpu != g) return false;
  if (!q->wrong) snprintf(q->why, sizeof q->why, "%s: %s", what, why);
  return q->wrong = true;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static block *block_new(CUdeviceptr at, int64_t bytes, bool first, block *next) {
  block *b = calloc(1, sizeof *b);
  if (b) *b = (block){ .at = at, .bytes = bytes, .first = first, .next = next };
  return b;
}

/* One more chunk, twice as large as all so far. */
static bool chunk_add(dfc_graph *q, int64_t least) {
  int64_t bytes = q->bytes > FIRST_CHUNK ? q->bytes : FIRST_CHUNK;
  while (bytes < least) bytes *= 2;
  const CUdeviceptr at = dfc_alloc_apart(q->gpu, bytes);
  block *b = at ? block_new(at, bytes, true, q->block) : NULL;
  if (!b) { dfc_release(q->gpu, at); return false; }
  q->block = b;
  q->bytes += bytes;
  return true;
}

static CUdeviceptr cut(dfc_graph *q, int64_t bytes) {
  for (block *b = q->block; b; b = b->next) {
    if (b->used || b->bytes < bytes) continue;
    if (b->bytes > bytes) {
      block *rest = block_new(b->at + (CUdeviceptr)bytes, b->bytes - bytes, false, b->next);
      if (!rest) return 0;
      b->next = rest;
      b->bytes = bytes;
    }
    b->used = true;
    return b->at;
  }
  return 0;
}

CUdeviceptr dfc_capture_alloc(dfc_gpu *g, int64_t bytes) {
  dfc_graph *q = dfc_capturing;
  const int64_t whole = bytes > 0 ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
  CUdeviceptr p = cut(q, whole);
  if (!p && chunk_add(q, whole)) p = cut(q, whole);
  (void)g;
  return p;
}

/* Free parts that lie side by side become one. */
static void join(block *all) {
  for (block *b = all; b; ) {
    block *n = b->next;
    if (!n || b->used || n->used || n->first) { b = n; continue; }
    b->bytes += n->bytes;
    b->next = n->next;
    free(n);
  }
}

bool dfc_capture_release(dfc_gpu *g, CUdeviceptr p) {
  dfc_graph *q = dfc_capturing;
  if (q->gpu != g) return false;
  for (block *b = q->block; b; b = b->next)
    if (b->used && b->at == p) { b->used = false; join(q->block); return true; }
  return false;
}

void dfc_capture_stage(dfc_gpu *g, dfc_stage *s) {
  (void)g;
  s->next = dfc_capturing->stage;
  dfc_capturing->stage = s;
}

/* What it reads of pinned memory is for others again, once its launches so far are over. */
static void stages_drop(dfc_graph *q) {
  for (dfc_stage *s = q->stage, *next; s; s = next) { next = s->next; dfc_stage_away(q->gpu, s, q->gpu->compute); }
  q->stage = NULL;
}

/* ---- capturing --------------------------------------------------------------------------------------------------- */

static int32_t left(dfc_graph *q);

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Under the lock. Have its launches come to an end? CUDA wants to know that before the graph goes. What takes longer
 * than seconds hangs. */
static bool is_over(dfc_graph *q) {
  enum { NAP_NS = 20000, SECONDS = 2 };
  const double began = seconds_now();
  int32_t n = 0;
  for (int32_t i = 0; (n = left(q)) > 0 && seconds_now() - began < SECONDS; i++) {
    dfc_leave(q->gpu);
    if (i > 100) nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
    dfc_enter(q->gpu);
  }
  return n == 0;
}

static void exec_drop(dfc_graph *q) {
  if (q->exec) dfc_cu.cuGraphExecDestroy(q->exec);
  if (q->made) dfc_cu.cuGraphDestroy(q->made);
  q->exec = NULL;
  q->made = NULL;
}

/* Under the lock. What hangs keeps its memory. */
static void destroy(dfc_graph *q) {
  dfc_gpu *g = q->gpu;
  if (!is_over(q)) return;
  exec_drop(q);
  for (int32_t i = 0; i < DEPTHS; i++) if (q->depth[i].stream) dfc_cu.cuStreamDestroy(q->depth[i].stream);
  stages_drop(q);
  for (block *b = q->block, *next; b; b = next) {
    next = b->next;
    if (b->first) dfc_release(g, b->at);
    free(b);
  }
  free(q);
}

void dfc_graph_free(void *device, void *graph) {
  dfc_gpu *g = device;
  dfc_enter(g);
  if (graph) destroy(graph);
  dfc_leave(g);
}

static bool has_stream(dfc_gpu *g, depth *d) {
  return d->stream || dfc_ok(g, dfc_cu.cuStreamCreate(&d->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

void *dfc_capture(void *device, void *graph) {
  dfc_gpu *g = device;
  dfc_graph *q = graph ? graph : calloc(1, sizeof *q);
  if (!q) return NULL;
  q->gpu = g;
  q->wrong = q->conditional = false;
  q->why[0] = 0;
  q->at = 0;
  dfc_enter(g);
  stages_drop(q);
  for (block *b = q->block; b; b = b->next) b->used = false;
  join(q->block);
  /* RELAXED: what this thread asks for beside (memory, code, pinned memory) is not part of the graph */
  const bool ok = !g->error[0] &&
                  has_stream(g, &q->depth[0]) &&
                  dfc_ok(g, dfc_cu.cuStreamBeginCapture(q->depth[0].stream, CU_STREAM_CAPTURE_MODE_RELAXED),
                         "cuStreamBeginCapture");
  if (ok) dfc_capturing = q;
  else destroy(q);
  dfc_leave(g);
  return ok ? q : NULL;
}

/* ---- conditional nodes ------------------------------------------------------------------------------------------ */

/* The graph that the depth at hand is captured into, and the nodes that what comes next comes after. */
static bool where(dfc_graph *q, CUgraph *graph, const CUgraphNode **after, size_t *nafter) {
  CUstreamCaptureStatus status = 0;
  cuuint64_t id;
  const CUgraphEdgeData *edges = NULL;
  return dfc_ok(q->gpu, dfc_cu.cuStreamGetCaptureInfo(q->depth[q->at].stream, &status, &id, graph, after, &edges,
                                                      nafter), "cuStreamGetCaptureInfo") &&
         (status == CU_STREAM_CAPTURE_STATUS_ACTIVE || dfc_capture_wrong(q->gpu, "the graph", "its capture is broken"));
}

uint64_t dfc_condition(void *device, bool again) {
  dfc_gpu *g = device;
  dfc_graph *q = dfc_capturing;
  CUgraphConditionalHandle handle = 0;
  CUgraph graph;
  const CUgraphNode *after;
  size_t nafter;
  dfc_enter(g);
  if (g->conditional && q->at + 1 < DEPTHS && where(q, &graph, &after, &nafter) && !q->wrong) {
    const CUresult made = dfc_cu.cuGraphConditionalHandleCreate(&handle, graph, g->context, again,
                                                                again ? CU_GRAPH_COND_ASSIGN_DEFAULT : 0);
    if (made) handle = 0;
    if (made != CUDA_ERROR_NOT_SUPPORTED) dfc_ok(g, made, "cuGraphConditionalHandleCreate");
  }
  dfc_leave(g);
  return handle;
}

/* Under the lock. */
static bool into(dfc_graph *q, CUgraph body) {
  return has_stream(q->gpu, &q->depth[q->at]) &&
         dfc_ok(q->gpu, dfc_cu.cuStreamBeginCaptureToGraph(q->depth[q->at].stream, body, NULL, NULL, 0,
                                                           CU_STREAM_CAPTURE_MODE_RELAXED),
                "cuStreamBeginCaptureToGraph");
}

bool dfc_open(void *device, uint64_t condition, bool again) {
  dfc_gpu *g = device;
  dfc_graph *q = dfc_capturing;
  depth *d = &q->depth[q->at + 1];
  CUgraphNodeParams p;
  CUgraph graph;
  const CUgraphNode *after;
  size_t nafter;
  memset(&p, 0, sizeof p);
  p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  p.conditional.handle = condition;
  p.conditional.type = again ? CU_GRAPH_COND_TYPE_WHILE : CU_GRAPH_COND_TYPE_IF;
  p.conditional.size = again ? 1 : 2;
  p.conditional.ctx = g->context;
  dfc_enter(g);
  bool ok = where(q, &graph, &after, &nafter) &&
            dfc_ok(g, dfc_cu.cuGraphAddNode(&d->node, graph, after, NULL, nafter, &p), "cuGraphAddNode");
  if (ok) {
    q->conditional = true;
    d->body[0] = p.conditional.phGraph_out[0];
    d->body[1] = again ? NULL : p.conditional.phGraph_out[1];
    q->at++;
    if (!(ok = into(q, d->body[0]))) q->at--;
  }
  dfc_leave(g);
  return ok;
}

/* The capture into a body is over. Under the lock. */
static bool body_ends(dfc_graph *q) {
  CUgraph same = NULL;
  return dfc_ok(q->gpu, dfc_cu.cuStreamEndCapture(q->depth[q->at].stream, &same), "cuStreamEndCapture");
}

bool dfc_otherwise(void *device) {
  dfc_gpu *g = device;
  dfc_graph *q = dfc_capturing;
  dfc_enter(g);
  const bool ok = body_ends(q) && into(q, q->depth[q->at].body[1]);
  if (!ok) q->at--;
  dfc_leave(g);
  return ok;
}

bool dfc_close(void *device) {
  dfc_gpu *g = device;
  dfc_graph *q = dfc_capturing;
  dfc_enter(g);
  bool ok = body_ends(q);
  CUgraphNode node = q->depth[q->at--].node;
  ok = ok && dfc_ok(g, dfc_cu.cuStreamUpdateCaptureDependencies(q->depth[q->at].stream, &node, NULL, 1,
                                                                CU_STREAM_SET_CAPTURE_DEPENDENCIES),
                    "cuStreamUpdateCaptureDependencies");
  dfc_leave(g);
  return ok;
}

/* ---- the graph is whole ------------------------------------------------------------------------------------------ */

/* It becomes what can be launched; consumes `graph`. *changed: what there was has been changed. Under the lock. */
static bool make_exec(dfc_graph *q, CUgraph graph, bool *changed) {
  CUgraphExecUpdateResultInfo info;
  const bool plain = !q->conditional && !q->made;
  if (q->exec && plain && !dfc_cu.cuGraphExecUpdate(q->exec, graph, &info)) {
    dfc_cu.cuGraphDestroy(graph);
    return *changed = true;
  }
  if (q->exec && !is_over(q)) { dfc_cu.cuGraphDestroy(graph); return false; }      /* of another form */
  exec_drop(q);
  const CUresult result = dfc_cu.cuGraphInstantiate(&q->exec, graph, 0);
  if (result) snprintf(q->why, sizeof q->why, "cuGraphInstantiate: %s", dfc_error_text(result));
  if (result || !q->conditional) dfc_cu.cuGraphDestroy(graph);
  else q->made = graph;
  if (result) q->exec = NULL;
  return !result;
}

void *dfc_captured(void *device, void *graph, int64_t *bytes, bool *changed, char *why, size_t room) {
  dfc_gpu *g = device;
  dfc_graph *q = graph;
  CUgraph made = NULL;
  dfc_enter(g);
  for (; q->at > 0; q->at--) { q->wrong = true; body_ends(q); }        /* it was left in the middle */
  const CUresult result = dfc_cu.cuStreamEndCapture(q->depth[0].stream, &made);
  dfc_capturing = NULL;
  bool ok = !result && !q->wrong;
  if (result && !q->wrong) snprintf(q->why, sizeof q->why, "cuStreamEndCapture: %s", dfc_error_text(result));
  if (made && !ok) dfc_cu.cuGraphDestroy(made);
  *changed = false;
  ok = ok && make_exec(q, made, changed);
  *bytes = q->bytes;
  snprintf(why, room, "%s", q->why);
  if (!ok) destroy(q);
  dfc_leave(g);
  return ok ? q : NULL;
}

/* ---- launching --------------------------------------------------------------------------------------------------- */

/* Under the lock: launches that are over are counted so. -1: the device failed. */
static int32_t left(dfc_graph *q) {
  dfc_gpu *g = q->gpu;
  while (q->done < q->launched) {
    CUevent e = q->over[q->done % REPLAYS];
    const CUresult result = dfc_cu.cuEventQuery(e);
    if (result == CUDA_ERROR_NOT_READY) break;
    if (!dfc_ok(g, result, "cuGraphLaunch")) return -1;
    dfc_event_give(g, e);
    q->done++;
  }
  return (int32_t)(q->launched - q->done);
}

int32_t dfc_replays_left(void *device, void *graph) {
  dfc_gpu *g = device;
  dfc_enter(g);
  const int32_t n = left(graph);
  dfc_leave(g);
  return n;
}

bool dfc_replay(void *device, void *graph) {
  dfc_gpu *g = device;
  dfc_graph *q = graph;
  dfc_enter(g);
  if (q->launched - q->done == REPLAYS) {              /* the oldest's place is wanted */
    CUevent e = q->over[q->done % REPLAYS];
    if (!dfc_wait_for(g, e, "cuGraphLaunch")) { dfc_leave(g); return false; }
    dfc_event_give(g, e);
    q->done++;
  }
  bool ok = dfc_ok(g, dfc_cu.cuGraphLaunch(q->exec, g->compute), "cuGraphLaunch");
  CUevent e = ok ? dfc_event_after(g, g->compute) : NULL;
  if (e) q->over[q->launched++ % REPLAYS] = e;
  else ok = false;
  g->graphs += ok;
  dfc_leave(g);
  return ok;
}
