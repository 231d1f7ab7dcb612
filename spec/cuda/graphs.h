/* graphs.h: stream capture and graphs, as the driver for tests has them; a part of driver.cc.
 *
 * What a capturing stream is given becomes a node that comes after those before it; events carry captures to other
 * streams and back. A graph that is launched runs in any order that its edges allow, and two nodes that touch one
 * allocation, one of them writing, with no way from one to the other, are reported with both. The memory of a graph is
 * what its nodes were given when they were captured, and must be there at each launch. Strict: a capture is broken by
 * whatever waits for, or asks after, work that is only being described; by an event of outside; by calls that are
 * unsafe in its mode (GLOBAL, THREAD_LOCAL); and a branch that is not joined is an error.
 *
 * A conditional node has bodies, graphs of the driver's own that are captured into; it goes by a condition that a
 * kernel sets, with an order between the two, by one thread. A graph that has one is launched by one instance; a
 * WHILE whose body does not set its condition never ends, which is reported.
 */
struct nodes;
struct CUgraphNode_st { nodes *of; size_t index; };
/* What a conditional node goes by. `order`: no memory, but what sets and reads it needs an order as if it were. */
struct condition {
  uint64_t handle;
  nodes *root;                                           /* of the graph that it is for, or that is around that */
  int device;
  bool assigns;                                          /* at the beginning of each launch: it is `first` then */
  unsigned first, value = 0;
  bool known = false, used = false;                      /* known: it has a value; used: a node has it */
  uint64_t set = 0;                                      /* how often */
  allocation order;
};
enum node_type { KERNEL_NODE, COPY_NODE, FILL_NODE, CONDITIONAL_NODE };
struct conditional { int type; condition *by; std::vector<std::shared_ptr<nodes>> body; std::vector<CUgraph> handed; };
struct node {
  std::string what, way;                                 /* way: of a copy: from where to where */
  node_type type = KERNEL_NODE;
  int device = -1;
  std::vector<std::pair<allocation *, int>> touches;
  std::function<std::string()> run;
  std::function<void()> launched;                        /* what it looks at when its graph is launched; may be empty */
  const uint64_t *through = nullptr;                     /* see operation */
  bool unwatched = false;
  std::set<size_t> after;
  std::shared_ptr<conditional> chooses;                  /* it is a conditional node */
};
typedef std::vector<std::vector<bool>> orders;
struct nodes {
  std::vector<node> at;
  bool hangs = false;
  nodes *root = nullptr;                                 /* of a body: the graph around all; else NULL */
  int device = -1;                                       /* of a body: the GPU that its node is for */
  int instances = 0;                                     /* that can be launched, of a graph with conditional nodes */
  std::vector<condition *> conditions;                   /* of a root */
  std::map<size_t, CUgraphNode> named;
  orders before;                                         /* by node: those before it whatever the order */
  std::vector<size_t> nbefore;
};
struct CUgraph_st { std::shared_ptr<nodes> of; bool body = false; };
struct CUgraphExec_st { std::shared_ptr<nodes> of; bool launched = false; uint64_t stream = 0, index = 0; };
struct capture {
  uint64_t number;
  CUstream origin;
  int mode;
  std::thread::id thread;
  bool broken = false;
  std::set<CUstream> streams;
  CUgraph graph = nullptr;                               /* what becomes of it */
  std::shared_ptr<nodes> of;
};

static nodes *root_of(nodes *g) { return g->root ? g->root : g; }
static CUgraphNode name_of(nodes *g, size_t i) {
  CUgraphNode &n = g->named[i];
  if (!n) n = new CUgraphNode_st{ g, i };
  return n;
}
/* A graph that there is: whole, a body, or one that a capture makes at the moment. */
static bool graph_known(CUgraph g) {
  if (d.graphs.count(g)) return true;
  for (capture *c : d.captures) if (c->graph == g) return true;
  return false;
}

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
  nodes *g = s->capturing->of.get();
  std::vector<node> &at = g->at;
  node n;
  n.what = what + " (node " + std::to_string(at.size()) + (g->root ? " of a conditional node's body)" : " of a graph)");
  n.type = !what.find("a copy") ? COPY_NODE : !what.find("a fill") ? FILL_NODE : KERNEL_NODE;
  if (n.type == COPY_NODE) n.way = what.substr(what.find("bytes"));
  n.device = s->device;
  n.touches = std::move(touches);
  n.run = std::move(run);
  n.launched = std::move(launched);
  n.after = s->tail;
  n.through = d.next_through;
  n.unwatched = d.next_unwatched;
  for (auto &t : n.touches)
    if (t.first->freed)
      report(n.what + " is given " + text_of(t.first) + " after it was freed by " + t.first->freed_by);
  s->tail = { at.size() };
  at.push_back(std::move(n));
  root_of(g)->hangs |= d.next_hangs;
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

/* For each node, those that are before it whatever the order: found out once. */
static const orders &all_before(nodes &g) {
  for (size_t i = g.before.size(); i < g.at.size(); i++) {       /* a node's edges come from nodes that were there */
    std::vector<bool> mine(i);
    for (size_t a : g.at[i].after) {
      mine[a] = true;
      for (size_t b = 0; b < a; b++) if (g.before[a][b]) mine[b] = true;
    }
    g.nbefore.push_back((size_t)std::count(mine.begin(), mine.end(), true));
    g.before.push_back(std::move(mine));
  }
  return g.before;
}

typedef std::vector<std::pair<allocation *, int>> touched;
static void add_touched(touched &all, const touched &some) {
  for (auto &t : some) {
    auto known = std::find_if(all.begin(), all.end(), [&](const auto &a) { return a.first == t.first; });
    if (known == all.end()) all.push_back(t);
    else known->second = std::max(known->second, t.second);
  }
}

static nodes *running;                                   /* the graph whose launch runs */
static touched conditions_set;                           /* by the kernel that ran last */

/* A kernel has run: what it said to conditional nodes. "" or what is wrong. */
static std::string settle(const std::string &kernel, int device) {
  for (const strict_setting &s : strict_settings()) {
    auto it = d.conditions.find(s.handle);
    if (it == d.conditions.end()) return kernel + " sets a condition that there is not";
    condition *c = it->second;
    if (c->root != running) return kernel + " sets a condition of a graph that it is not part of";
    if (c->device != device) return kernel + " sets a condition of another GPU's";
    if (s.raced) return kernel + " sets a condition by several threads at once";
    c->value = s.value;
    c->known = true;
    c->set++;
    conditions_set.push_back({ &c->order, 2 });
  }
  return "";
}

static touched run_nodes(operation &o, nodes &g);

static touched run_conditional(operation &o, const node &n) {
  conditional &c = *n.chooses;
  touched all = { { &c.by->order, 1 } };
  if (!c.by->known) { report(n.what + " goes by a condition that has no value: nothing set it"); return all; }
  if (c.type == CU_GRAPH_COND_TYPE_IF) {
    const size_t side = c.by->value ? 0 : 1;
    if (side < c.body.size()) add_touched(all, run_nodes(o, *c.body[side]));
    return all;
  }
  while (c.by->value && !d.sticky) {
    const uint64_t set = c.by->set;
    add_touched(all, run_nodes(o, *c.body[0]));
    if (c.by->set == set && !d.sticky) report(n.what + ": its body does not set its condition, so it never ends");
  }
  return all;
}

static touched run_node(operation &o, const node &n) {
  if (n.chooses) return run_conditional(o, n);
  operation part;
  part.stream = o.stream; part.index = o.index; part.before = o.before;
  part.what = n.what + ", launched by " + o.what;
  part.touches = n.touches;
  part.run = n.run;
  part.through = n.through;
  part.unwatched = n.unwatched;
  conditions_set.clear();
  run_operation(part);
  add_touched(part.touches, conditions_set);
  return part.touches;
}

/* The nodes run in any order that their edges allow. What they touched. */
static touched run_nodes(operation &o, nodes &g) {
  const orders &before = all_before(g);
  std::vector<touched> by(g.at.size());
  std::vector<size_t> order, can, missing(g.at.size());
  std::vector<std::vector<size_t>> then(g.at.size());
  for (size_t i = 0; i < g.at.size(); i++) {
    for (size_t a : g.at[i].after) then[a].push_back(i);
    if (!(missing[i] = g.at[i].after.size())) can.push_back(i);
  }
  touched all;
  while (!can.empty() && !d.sticky) {
    const size_t at = chance() % can.size(), i = can[at];
    can.erase(can.begin() + (long)at);
    by[i] = run_node(o, g.at[i]);
    for (size_t k = 0; k < order.size() && g.nbefore[i] < order.size(); k++) {
      const size_t j = order[k];
      for (auto &mine : by[i])
        for (auto &other : by[j])
          if (!d.sticky && mine.first == other.first && (mine.second == 2 || other.second == 2) &&
              !(j < i && before[i][j]))
            report(g.at[j].what + " and " + g.at[i].what + " touch " + text_of(mine.first) +
                   " with no order between them in the graph: an edge is missing");
    }
    add_touched(all, by[i]);
    order.push_back(i);
    for (size_t b : then[i]) if (!--missing[b]) can.push_back(b);
  }
  return all;
}

/* A launch of a graph has its turn. */
static void run_graph(operation &o) {
  for (condition *c : o.graph->conditions)
    if (c->assigns) { c->value = c->first; c->known = true; }
  running = o.graph.get();
  run_nodes(o, *o.graph);
  running = nullptr;
}
