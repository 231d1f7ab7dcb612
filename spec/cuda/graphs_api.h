/* graphs_api.h: the calls of graphs.h; a part of driver.cc. */
/* NULL: it cannot be; `result` says why. */
static capture *begin_capture(const char *call, CUstream stream, int mode, CUresult *result) {
  *result = CUDA_SUCCESS;
  if (stream->capturing) *result = misuse(call, "the stream is captured already", CUDA_ERROR_ILLEGAL_STATE);
  else if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    *result = misuse(call, "there is no mode " + std::to_string(mode), CUDA_ERROR_INVALID_VALUE);
  if (*result) return nullptr;
  capture *c = new capture;
  c->number = ++d.captures_begun;
  c->origin = stream;
  c->mode = mode;
  c->thread = std::this_thread::get_id();
  c->streams.insert(stream);
  d.captures.insert(c);
  stream->capturing = c;
  stream->tail.clear();
  return c;
}
API cuStreamBeginCapture_v2(CUstream stream, int mode) {
  BEGIN;
  NEED_CONTEXT("cuStreamBeginCapture");
  if (!stream_of(stream)) return misuse("cuStreamBeginCapture", "no such stream", CUDA_ERROR_INVALID_HANDLE);
  CUresult result;
  capture *c = begin_capture("cuStreamBeginCapture", stream, mode, &result);
  if (!c) return result;
  c->graph = new CUgraph_st;
  c->graph->of = c->of = std::make_shared<nodes>();
  return CUDA_SUCCESS;
}
API cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *,
                                size_t nafter, int mode) {
  static const char *const call = "cuStreamBeginCaptureToGraph";
  BEGIN;
  NEED_STREAM(call, stream);
  if (!d.graphs.count(graph)) return misuse(call, "no such graph", CUDA_ERROR_INVALID_HANDLE);
  if (graph->of->device >= 0 && graph->of->device != stream->device)
    return misuse(call, "the conditional node is GPU " + std::to_string(graph->of->device) + "'s, and the stream GPU " +
                  std::to_string(stream->device) + "'s", CUDA_ERROR_INVALID_VALUE);
  for (capture *c : d.captures)
    if (c->of == graph->of) return misuse(call, "another capture goes into the graph", CUDA_ERROR_ILLEGAL_STATE);
  if (root_of(graph->of.get())->instances)
    return misuse(call, "the graph has been instantiated", CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < nafter; i++)
    if (after[i]->of != graph->of.get()) return misuse(call, "a node of another graph", CUDA_ERROR_INVALID_VALUE);
  CUresult result;
  capture *c = begin_capture(call, stream, mode, &result);
  if (!c) return result;
  c->graph = graph;
  c->of = graph->of;
  for (size_t i = 0; i < nafter; i++) stream->tail.insert(after[i]->index);
  return CUDA_SUCCESS;
}
API cuStreamGetCaptureInfo_v3(CUstream stream, int *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **after,
                              const CUgraphEdgeData **edges, size_t *nafter) {
  BEGIN;
  if (!stream_of(stream)) return misuse("cuStreamGetCaptureInfo", "no such stream", CUDA_ERROR_INVALID_HANDLE);
  capture *c = stream->capturing;
  enum { NONE = 0, BROKEN = 2 };
  *status = !c ? NONE : c->broken ? BROKEN : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  stream->told.clear();
  for (size_t i : stream->tail) stream->told.push_back(name_of(c->of.get(), i));
  *id = c->number;
  *graph = c->graph;
  *after = stream->told.data();
  *nafter = stream->told.size();
  *edges = nullptr;
  return CUDA_SUCCESS;
}
API cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *after, const CUgraphEdgeData *, size_t nafter,
                                         unsigned flags) {
  static const char *const call = "cuStreamUpdateCaptureDependencies";
  BEGIN;
  if (!stream_of(stream)) return misuse(call, "no such stream", CUDA_ERROR_INVALID_HANDLE);
  capture *c = stream->capturing;
  if (!c) return misuse(call, "the stream is not captured", CUDA_ERROR_ILLEGAL_STATE);
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
    return misuse(call, "flags " + std::to_string(flags), CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < nafter; i++)
    if (after[i]->of != c->of.get())
      return breaks_capture(c, call, "a node of another graph than the one that is captured", CUDA_ERROR_INVALID_VALUE);
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->tail.clear();
  for (size_t i = 0; i < nafter; i++) stream->tail.insert(after[i]->index);
  return CUDA_SUCCESS;
}
API cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  BEGIN;
  *graph = nullptr;
  if (!stream_of(stream)) return misuse("cuStreamEndCapture", "no such stream", CUDA_ERROR_INVALID_HANDLE);
  capture *c = stream->capturing;
  if (!c) return misuse("cuStreamEndCapture", "the stream is not captured", CUDA_ERROR_ILLEGAL_STATE);
  if (c->origin != stream)
    return breaks_capture(c, "cuStreamEndCapture", "the capture was begun on another stream",
                          CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != std::this_thread::get_id())
    return breaks_capture(c, "cuStreamEndCapture", "the capture was begun by another thread",
                          CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  std::set<size_t> joined = stream->tail;
  const orders &before = all_before(*c->of);
  for (size_t i : stream->tail)
    for (size_t b = 0; b < i; b++) if (before[i][b]) joined.insert(b);
  bool whole = true;
  for (CUstream s : c->streams) {
    for (size_t i : s->tail) whole = whole && joined.count(i);
    s->capturing = nullptr;
    s->tail.clear();
  }
  d.captures.erase(c);
  if (c->broken) return misuse("cuStreamEndCapture", "the capture was broken", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  if (!whole)
    return misuse("cuStreamEndCapture",
                  "a stream that joined the capture was not joined to its first one: an event is missing",
                  CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  d.graphs.insert(*graph = c->graph);
  return CUDA_SUCCESS;
}
API cuGraphConditionalHandleCreate(cuuint64_t *handle, CUgraph graph, CUcontext context, unsigned value,
                                   unsigned flags) {
  static const char *const call = "cuGraphConditionalHandleCreate";
  BEGIN;
  if (getenv("DFLOW_STRICT_UNCONDITIONAL")) return CUDA_ERROR_NOT_SUPPORTED;
  if (!graph_known(graph)) return misuse(call, "no such graph", CUDA_ERROR_INVALID_HANDLE);
  if (!context) NEED_CONTEXT(call);
  if (flags & ~CU_GRAPH_COND_ASSIGN_DEFAULT)
    return misuse(call, "flags " + std::to_string(flags), CUDA_ERROR_INVALID_VALUE);
  condition *c = new condition;
  c->handle = 0x5c0de000 + d.conditions.size();
  c->root = root_of(graph->of.get());
  c->device = (context ? context : current)->device;
  c->assigns = flags & CU_GRAPH_COND_ASSIGN_DEFAULT;
  c->first = value;
  c->order.condition = c->handle;
  c->root->conditions.push_back(c);
  d.conditions[c->handle] = c;
  *handle = c->handle;
  return CUDA_SUCCESS;
}
/* What is wrong with a conditional node of that graph; "" for nothing. */
static std::string wrong_conditional(const CUDA_CONDITIONAL_NODE_PARAMS &p, nodes *g) {
  auto it = d.conditions.find(p.handle);
  if (it == d.conditions.end()) return "there is no such condition";
  const condition *c = it->second;
  if (c->root != root_of(g)) return "the condition is of another graph";
  if (c->used) return "another node has the condition";
  if (p.type != CU_GRAPH_COND_TYPE_IF && p.type != CU_GRAPH_COND_TYPE_WHILE)
    return "this driver has no conditional nodes of type " + std::to_string(p.type);
  if (!p.size || p.size > (p.type == CU_GRAPH_COND_TYPE_IF ? 2u : 1u))
    return "it cannot have " + std::to_string(p.size) + " bodies";
  if (p.phGraph_out) return "where its bodies are told is the driver's to say";
  if (!p.ctx) return "it has no context";
  if (p.ctx->device != c->device || (g->device >= 0 && g->device != c->device))
    return "it is of another context than its condition, or than the node around it";
  return "";
}
API cuGraphAddNode_v2(CUgraphNode *made, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *,
                      size_t nafter, CUgraphNodeParams *p) {
  static const char *const call = "cuGraphAddNode";
  BEGIN;
  if (!graph_known(graph)) return misuse(call, "no such graph", CUDA_ERROR_INVALID_HANDLE);
  bool zeros = !p->reserved2;
  for (int r : p->reserved0) zeros = zeros && !r;
  for (size_t i = 4; i < 29; i++) zeros = zeros && !p->reserved1[i];
  if (!zeros) return misuse(call, "what is reserved is not zero", CUDA_ERROR_INVALID_VALUE);
  if (p->type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
    return misuse(call, "this driver adds conditional nodes alone", CUDA_ERROR_INVALID_VALUE);
  nodes *g = graph->of.get();
  if (root_of(g)->instances) return misuse(call, "the graph has been instantiated", CUDA_ERROR_INVALID_VALUE);
  const std::string wrong = wrong_conditional(p->conditional, g);
  if (!wrong.empty()) return misuse(call, wrong, CUDA_ERROR_INVALID_VALUE);
  node n;
  n.what = std::string(p->conditional.type == CU_GRAPH_COND_TYPE_IF ? "IF" : "WHILE") + " (node " +
           std::to_string(g->at.size()) + " of a graph)";
  for (size_t i = 0; i < nafter; i++) {
    if (after[i]->of != g) return misuse(call, "it comes after a node of another graph", CUDA_ERROR_INVALID_VALUE);
    n.after.insert(after[i]->index);
  }
  n.type = CONDITIONAL_NODE;
  n.device = d.conditions[p->conditional.handle]->device;
  n.chooses = std::make_shared<conditional>();
  n.chooses->type = p->conditional.type;
  n.chooses->by = d.conditions[p->conditional.handle];
  n.chooses->by->used = true;
  for (unsigned i = 0; i < p->conditional.size; i++) {
    CUgraph body = new CUgraph_st;
    body->of = std::make_shared<nodes>();
    body->of->root = root_of(g);
    body->of->device = n.chooses->by->device;
    body->body = true;
    d.graphs.insert(body);
    n.chooses->body.push_back(body->of);
    n.chooses->handed.push_back(body);
  }
  p->conditional.phGraph_out = n.chooses->handed.data();
  g->at.push_back(std::move(n));
  *made = name_of(g, g->at.size() - 1);
  return CUDA_SUCCESS;
}
API cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n) {
  BEGIN;
  if (!d.graphs.count(graph)) return misuse("cuGraphGetNodes", "no such graph", CUDA_ERROR_INVALID_HANDLE);
  if (nodes) return misuse("cuGraphGetNodes", "this driver tells their number alone", CUDA_ERROR_INVALID_VALUE);
  *n = graph->of->at.size();
  return CUDA_SUCCESS;
}
API cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  BEGIN;
  NEED_CONTEXT("cuGraphInstantiate");
  UNSAFE("cuGraphInstantiate");
  if (!d.graphs.count(graph)) return misuse("cuGraphInstantiate", "no such graph", CUDA_ERROR_INVALID_HANDLE);
  if (flags) return misuse("cuGraphInstantiate", "flags " + std::to_string(flags), CUDA_ERROR_INVALID_VALUE);
  if (graph->body) return misuse("cuGraphInstantiate", "it is a conditional node's body", CUDA_ERROR_INVALID_VALUE);
  for (const condition *c : graph->of->conditions)
    if (!c->used) return misuse("cuGraphInstantiate", "no node has one of its conditions", CUDA_ERROR_INVALID_VALUE);
  if (!graph->of->conditions.empty() && graph->of->instances)
    return misuse("cuGraphInstantiate", "a graph with conditional nodes has one instance at a time",
                  CUDA_ERROR_INVALID_VALUE);
  graph->of->instances++;
  CUgraphExec e = new CUgraphExec_st;
  e->of = graph->of;
  d.execs.insert(e);
  *exec = e;
  return CUDA_SUCCESS;
}
/* What of node i a graph that can be launched cannot take over; SUCCESS: it can. *from: what it must not come after. */
static int unlike(const nodes &was, nodes &is, size_t i, CUgraphNode *from) {
  const node &a = was.at[i], &b = is.at[i];
  if (a.after.size() != b.after.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (size_t f : b.after) {
    if (a.after.count(f)) continue;
    *from = name_of(&is, f);
    return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  }
  if (a.type != b.type) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
  /* a kernel may become another one, of the same context; the condition of a conditional node cannot */
  if (a.type == KERNEL_NODE && a.device != b.device) return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
  if (a.type == CONDITIONAL_NODE || a.device != b.device || a.way != b.way)
    return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}
API cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
  static const char *const call = "cuGraphExecUpdate";
  BEGIN;
  if (!d.execs.count(exec)) return misuse(call, "no such executable graph", CUDA_ERROR_INVALID_HANDLE);
  if (!d.graphs.count(graph)) return misuse(call, "no such graph", CUDA_ERROR_INVALID_HANDLE);
  if (graph->body) return misuse(call, "it is a conditional node's body", CUDA_ERROR_INVALID_VALUE);
  if (!info) return misuse(call, "nowhere to say what came of it", CUDA_ERROR_INVALID_VALUE);
  nodes &was = *exec->of, &is = *graph->of;
  info->errorNode = info->errorFromNode = nullptr;
  info->result = was.at.size() == is.at.size() ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                               : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (size_t i = 0; !info->result && i < is.at.size(); i++)
    if ((info->result = unlike(was, is, i, &info->errorFromNode))) info->errorNode = name_of(&is, i);
  if (info->result) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  exec->of->instances--;
  graph->of->instances++;
  exec->of = graph->of;                                  /* launches before this one keep what they were */
  return CUDA_SUCCESS;
}
/* What nodes, and those of their bodies, have to be at a launch. */
static void look_at_launch(const nodes &g, const operation &o, const touch &mine) {
  for (const node &n : g.at) {
    if (n.launched) n.launched();
    for (auto &t : n.touches) {
      if (t.first->freed)
        report(o.what + ": " + n.what + " has " + text_of(t.first) + " after it was freed by " + t.first->freed_by);
      t.first->wanted[o.stream] = mine;
    }
    if (n.chooses) for (auto &body : n.chooses->body) look_at_launch(*body, o, mine);
  }
}
API cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  BEGIN;
  NEED_CONTEXT("cuGraphLaunch");
  if (!d.execs.count(exec)) return misuse("cuGraphLaunch", "no such executable graph", CUDA_ERROR_INVALID_HANDLE);
  if (!stream_of(stream)) return misuse("cuGraphLaunch", "no such stream", CUDA_ERROR_INVALID_HANDLE);
  if (stream->capturing) return breaks_capture(stream->capturing, "cuGraphLaunch", "a graph inside a graph");
  if (exec->launched) {                                  /* not beside itself: CUDA sees to that */
    operation w;
    w.stream = stream->number;
    w.index = ++stream->given;
    w.what = "a wait";
    set_clock(stream->now, exec->stream, exec->index);
    set_clock(stream->now, stream->number, w.index);
    w.before = stream->now;
    w.waits = (CUevent)exec; w.wait_stream = exec->stream; w.wait_index = exec->index;
    stream->queue.push_back(std::move(w));
  }
  merge(stream->now, d.host);
  operation o;
  o.stream = stream->number;
  o.index = ++stream->given;
  o.what = "cuGraphLaunch (operation " + std::to_string(o.index) + " of stream " + std::to_string(o.stream) + ")";
  set_clock(stream->now, o.stream, o.index);
  o.before = stream->now;
  o.graph = exec->of;
  o.hangs = exec->of->hangs;
  touch mine;
  mine.stream = o.stream; mine.index = o.index; mine.what = o.what;
  look_at_launch(*exec->of, o, mine);
  exec->launched = true;
  exec->stream = o.stream;
  exec->index = o.index;
  stream->queue.push_back(std::move(o));
  if (chance() % 16 == 0) run_something();
  return d.sticky;
}
API cuGraphExecDestroy(CUgraphExec exec) {
  BEGIN;
  if (!d.execs.count(exec)) return misuse("cuGraphExecDestroy", "no such executable graph", CUDA_ERROR_INVALID_HANDLE);
  if (exec->launched && clock_of(d.host, exec->stream) < exec->index)
    return misuse("cuGraphExecDestroy", "a launch of it is not known to be over", CUDA_ERROR_INVALID_VALUE);
  exec->of->instances--;
  d.execs.erase(exec);
  return CUDA_SUCCESS;
}
API cuGraphDestroy(CUgraph graph) {
  BEGIN;
  if (!d.graphs.count(graph)) return misuse("cuGraphDestroy", "no such graph", CUDA_ERROR_INVALID_HANDLE);
  if (graph->body) return misuse("cuGraphDestroy", "it is a conditional node's body", CUDA_ERROR_INVALID_VALUE);
  d.graphs.erase(graph);
  return CUDA_SUCCESS;
}
