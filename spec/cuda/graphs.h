/* graphs.h: stream capture and graphs, as the driver for tests has them; a part of driver.cc.
 *
 * What a capturing stream is given becomes a node that comes after those before it; events carry captures to other
 * streams and back. A graph that is launched runs in any order that its edges allow, and two nodes that touch one
 * allocation, one of them writing, with no way from one to the other, are reported with both. The memory of a graph is
 * what its nodes were given when they were captured, and must be there at each launch. Strict: a capture is broken by
 * whatever waits for, or asks after, work that is only being described; by an event of outside; by calls that are
 * unsafe in its mode (GLOBAL, THREAD_LOCAL); and a branch that is not joined is an error.
 */
struct node {
  std::string what;
  std::vector<std::pair<allocation *, int>> touches;
  std::function<std::string()> run;
  std::function<void()> launched;                        /* what it looks at when its graph is launched; may be empty */
  std::set<size_t> after;
};
struct nodes { std::vector<node> at; bool hangs = false; };
struct CUgraph_st { std::shared_ptr<nodes> of; };
struct CUgraphExec_st { std::shared_ptr<nodes> of; bool launched = false; uint64_t stream = 0, index = 0; };
struct capture {
  uint64_t number;
  CUstream origin;
  int mode;
  std::thread::id thread;
  bool broken = false;
  std::set<CUstream> streams;
  std::shared_ptr<nodes> of = std::make_shared<nodes>();
};

static CUresult breaks_capture(capture *c, const char *call, const std::string &what,
                               CUresult result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) {
  c->broken = true;
  return misuse(call, what + ": the capture is broken", result);
}
/* A call that may wait for the device, while this thread, or in GLOBAL mode any, captures. */
static capture *forbids(void) {
  for (capture *c : d.captures)
    if (c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
        (c->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && c->thread == std::this_thread::get_id())) return c;
  return nullptr;
}
#define UNSAFE(call) \
  if (capture *unsafe = forbids()) \
    return breaks_capture(unsafe, call, "it is unsafe while a stream is captured in this mode")

static CUresult captured_event(const char *call) {
  for (capture *c : d.captures) c->broken = true;
  return misuse(call, "the event was recorded in a stream that is captured: there is nothing to wait for",
                CUDA_ERROR_CAPTURED_EVENT);
}

static void keep_node(CUstream s, const std::string &what, std::vector<std::pair<allocation *, int>> touches,
                      std::function<std::string()> run, std::function<void()> launched = nullptr) {
  std::vector<node> &at = s->capturing->of->at;
  node n;
  n.what = what + " (node " + std::to_string(at.size()) + " of a graph)";
  n.touches = std::move(touches);
  n.run = std::move(run);
  n.launched = std::move(launched);
  n.after = s->tail;
  for (auto &t : n.touches)
    if (t.first->freed)
      report(n.what + " is given " + text_of(t.first) + " after it was freed by " + t.first->freed_by);
  s->tail = { at.size() };
  at.push_back(std::move(n));
  s->capturing->of->hangs |= d.next_hangs;
}

static CUresult wait_in_capture(CUstream stream, CUevent event) {
  if (stream->capturing && event->captured != stream->capturing->number)
    return breaks_capture(stream->capturing, "cuStreamWaitEvent",
                          "a stream that is captured waits for an event that is not part of the capture",
                          CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  capture *of = nullptr;
  for (capture *c : d.captures) if (c->number == event->captured) of = c;
  if (!of)
    return misuse("cuStreamWaitEvent", "the event was recorded in a capture that is over", CUDA_ERROR_INVALID_VALUE);
  if (!stream->capturing) { stream->capturing = of; of->streams.insert(stream); stream->tail.clear(); }
  stream->tail.insert(event->tail.begin(), event->tail.end());
  return CUDA_SUCCESS;
}

/* For each node, those that are before it whatever the order. */
static std::vector<std::set<size_t>> all_before(const nodes &g) {
  std::vector<std::set<size_t>> before(g.at.size());
  for (size_t i = 0; i < g.at.size(); i++)               /* a node's edges come from nodes that were there */
    for (size_t a : g.at[i].after) { before[i].insert(a); before[i].insert(before[a].begin(), before[a].end()); }
  return before;
}

/* A launch of a graph has its turn. */
static void run_graph(operation &o) {
  const nodes &g = *o.graph;
  const std::vector<std::set<size_t>> before = all_before(g);
  std::vector<std::vector<std::pair<allocation *, int>>> touched(g.at.size());
  std::vector<bool> done(g.at.size());
  std::vector<size_t> order;
  while (order.size() < g.at.size() && !d.sticky) {
    std::vector<size_t> can;
    for (size_t i = 0; i < g.at.size(); i++) {
      bool all = !done[i];
      for (size_t a : g.at[i].after) all = all && done[a];
      if (all) can.push_back(i);
    }
    const size_t i = can[chance() % can.size()];
    operation part;
    part.stream = o.stream; part.index = o.index; part.before = o.before;
    part.what = g.at[i].what + ", launched by " + o.what;
    part.touches = g.at[i].touches;
    part.run = g.at[i].run;
    run_operation(part);
    for (size_t j : order)
      for (auto &mine : part.touches)
        for (auto &other : touched[j])
          if (!d.sticky && mine.first == other.first && (mine.second == 2 || other.second == 2) && !before[i].count(j))
            report(g.at[j].what + " and " + g.at[i].what + " touch " + text_of(mine.first) +
                   " with no order between them in the graph: an edge is missing");
    touched[i] = part.touches;
    done[i] = true;
    order.push_back(i);
  }
}
