/* graphs_api.h: the calls of graphs.h; a part of driver.cc. */
API cuStreamBeginCapture_v2(CUstream stream, int mode) {
  BEGIN;
  NEED_CONTEXT("cuStreamBeginCapture");
  if (!stream_of(stream)) return misuse("cuStreamBeginCapture", "no such stream", CUDA_ERROR_INVALID_HANDLE);
  if (stream->capturing)
    return misuse("cuStreamBeginCapture", "the stream is captured already", CUDA_ERROR_ILLEGAL_STATE);
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return misuse("cuStreamBeginCapture", "there is no mode " + std::to_string(mode), CUDA_ERROR_INVALID_VALUE);
  capture *c = new capture;
  c->number = ++d.captures_begun;
  c->origin = stream;
  c->mode = mode;
  c->thread = std::this_thread::get_id();
  c->streams.insert(stream);
  d.captures.insert(c);
  stream->capturing = c;
  stream->tail.clear();
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
  const std::vector<std::set<size_t>> before = all_before(*c->of);
  for (size_t i : stream->tail) joined.insert(before[i].begin(), before[i].end());
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
  CUgraph g = new CUgraph_st;
  g->of = c->of;
  d.graphs.insert(g);
  *graph = g;
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
  CUgraphExec e = new CUgraphExec_st;
  e->of = graph->of;
  d.execs.insert(e);
  *exec = e;
  return CUDA_SUCCESS;
}
API cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
  BEGIN;
  if (!d.execs.count(exec)) return misuse("cuGraphExecUpdate", "no such executable graph", CUDA_ERROR_INVALID_HANDLE);
  if (!d.graphs.count(graph)) return misuse("cuGraphExecUpdate", "no such graph", CUDA_ERROR_INVALID_HANDLE);
  const std::vector<node> &was = exec->of->at, &is = graph->of->at;
  bool same = was.size() == is.size();
  for (size_t i = 0; same && i < is.size(); i++)         /* a kernel may become another one, but no copy, and so on */
    same = was[i].after == is[i].after && was[i].what.substr(0, 6) == is[i].what.substr(0, 6);
  info->result = same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  info->errorNode = info->errorFromNode = nullptr;
  if (!same) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  exec->of = graph->of;                                  /* launches before this one keep what they were */
  return CUDA_SUCCESS;
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
  for (node &n : exec->of->at) {
    if (n.launched) n.launched();
    for (auto &t : n.touches) {
      if (t.first->freed)
        report(o.what + ": " + n.what + " has " + text_of(t.first) + " after it was freed by " + t.first->freed_by);
      t.first->wanted[o.stream] = mine;
    }
  }
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
  d.execs.erase(exec);
  return CUDA_SUCCESS;
}
API cuGraphDestroy(CUgraph graph) {
  BEGIN;
  if (!d.graphs.count(graph)) return misuse("cuGraphDestroy", "no such graph", CUDA_ERROR_INVALID_HANDLE);
  d.graphs.erase(graph);
  return CUDA_SUCCESS;
}
