/* driver.cc: a CUDA driver for tests: the part of the driver API that the plug-in uses, on the CPU, and as strict as
 * the rules of CUDA allow it to be.
 *
 *   late       nothing that is enqueued runs before something forces it (a synchronisation, a query that is asked
 *              again) or a seeded chance lets it; then no more than what it hangs on, and now and then something else
 *   memory     each allocation has pages of its own, which the host may not touch; a kernel touches what it was given
 *              (races.h), a library what it said: reads past the end, of what was freed, and of what the kernel was not
 *              given, are reported. Fresh and freed memory holds 0xff bytes (NaN). What k_fetch_ and k_store_
 *              kernels are given besides is what the first word of their first argument leads to when they run
 *   order      operations carry vector clocks (streams, events, what the host has waited for). Two that touch one
 *              allocation, one of them writing, with no order between them, are reported with both places; so is
 *              memory that is freed while an operation that is not before it still wants it, and anything after that
 *   host       pinned memory that a copy reads must not change before the copy runs; what it writes holds 0xff until
 *              then; copies from and to memory that is not pinned are refused
 *   GPUs       one has no way to the memory of another but cuMemcpyPeerAsync, and a stream, an event and a function
 *              are of the GPU whose context was current
 *   alignment  what lies at no multiple of its size is a fault, as GPUs have it
 *   misuse     unknown handles, no context, impossible launches: an error that names the call
 *   capture    and graphs: graphs.h
 *
 * After a report every call fails with CUDA_ERROR_ILLEGAL_ADDRESS, as after a fault of real hardware.
 * DFLOW_STRICT_SEED chooses the order, DFLOW_STRICT_GPUS and DFLOW_STRICT_MEMORY (bytes) what there is,
 * DFLOW_STRICT_PINNED (bytes) how much of the host's memory may be pinned, DFLOW_STRICT_VERSION (12040) how old the
 * driver is, DFLOW_STRICT_UNCONDITIONAL that its graphs have no conditional nodes, and DFLOW_STRICT_CAPABILITY (75) the
 * GPU, for which an image must hold code. DFLOW_STRICT_FAULT is
 * illegal:N, where the N-th kernel touches what is not its own, lost:N, where the GPU is gone from there on, hang:N, where
 * it never comes to an end (and a call that would wait for that is reported), or product:N: the N-th fails. The kernels
 * are those of kernels/cuda/, compiled by the host's compiler.
 */
#include "block.h"
#include "enqueue.h"
#include "races.h"
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <csetjmp>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

typedef std::vector<uint64_t> clocks;                    /* by stream: its operations up to here are before this */

struct touch { uint64_t stream = ~0ull, index = 0; std::string what; };
struct allocation {
  char *base = nullptr;
  size_t bytes = 0, number = 0;
  char *page = nullptr; size_t pages = 0;
  uint64_t condition = 0;                                /* it is no memory: what a conditional node goes by */
  int device = 0;
  enum { COMING, LIVE, GONE } is = COMING;
  bool filled = false;                                   /* somebody has written there */
  bool open = false;                                     /* its pages may be touched: see allow */
  bool freed = false;                                    /* the free is enqueued at least */
  std::string freed_by;
  touch written;
  std::vector<touch> read;
  std::map<uint64_t, touch> wanted;                     /* the last operation of each stream that was given it */
};
struct nodes;
struct operation {
  uint64_t stream, index;
  std::string what;
  clocks before;
  CUevent waits = nullptr; uint64_t wait_stream = 0, wait_index = 0;
  std::vector<std::pair<allocation *, int>> touches;     /* 1 reads, 2 writes, 3 either: found out by looking */
  std::function<std::string()> run;
  std::shared_ptr<nodes> graph;                            /* it is a launch of a graph */
  bool hangs = false;                                    /* it never comes to an end */
  bool unwatched = false;                                /* a library's: nobody looks at each place that it touches */
  const uint64_t *through = nullptr;                     /* where the address of more that it touches will lie */
};
struct capture;
struct condition;
struct CUstream_st {
  uint64_t number, given = 0, done = 0;
  int device = 0;
  clocks now;
  std::deque<operation> queue;
  bool gone = false;                                     /* it was destroyed */
  capture *capturing = nullptr;                          /* what it is given is kept */
  std::set<size_t> tail;                                 /* nodes that the next one comes after */
  std::vector<CUgraphNode> told;                         /* the same, as somebody was told of them */
};
struct CUevent_st {
  bool recorded = false;
  int device = 0, asked = 0;                             /* so often in a row */
  uint64_t stream = 0, index = 0;
  clocks at;
  uint64_t captured = 0;                                 /* number of the capture that it was recorded in; 0: none */
  std::set<size_t> tail;
};
struct CUctx_st { int device; };
struct CUmod_st { strict_kernel *kernels = nullptr; int device = 0; std::map<std::string, CUfunction> by_name; };
struct CUfunc_st { const strict_kernel *kernel; int device; };
struct CUmemPoolHandle_st { int device; };
struct pinned { char *at; size_t bytes; };

static struct {
  std::recursive_mutex lock;
  bool started = false;
  int gpus = 1;
  size_t memory = (size_t)1 << 30, numbers = 0, may_pin = SIZE_MAX, pinned_bytes = 0;
  size_t in_use[64] = {};
  uint64_t random = 1;
  char *heap = nullptr, *heap_end = nullptr, *next = nullptr;
  std::map<char *, allocation *> at;                     /* by page */
  std::vector<allocation *> open;
  int calls = 0;                                         /* of the API, within each other */
  std::vector<CUstream> streams;
  std::set<CUevent> events;
  std::set<CUfunction> functions;
  std::set<CUmodule> modules;
  std::set<capture *> captures;
  std::set<CUgraph> graphs;
  std::set<CUgraphExec> execs;
  std::map<uint64_t, condition *> conditions;
  CUevent asked = nullptr;                               /* the last one whose query said that it is not there yet */
  uint64_t captures_begun = 0;
  std::map<char *, pinned> pins;
  std::vector<std::string> reports;
  CUctx_st context[64];
  CUmod_st module[64];                                   /* the driver's own kernels, as each GPU has them */
  strict_kernel *own = nullptr;
  CUmemPoolHandle_st pool[64];
  clocks host;                                           /* what the host has waited for */
  CUresult sticky = CUDA_SUCCESS;
  std::string fault;                                     /* "illegal", "lost", "hang" or "product" */
  uint64_t fault_at = 0, launches = 0;
  bool next_hangs = false, next_unwatched = false;       /* what is enqueued now */
  const uint64_t *next_through = nullptr;
} d;
static thread_local CUcontext current;

static void shut();
struct entrance {                                        /* of the API: when it returns, device memory is the device's */
  entrance() { d.lock.lock(); d.calls++; }
  ~entrance() { if (!--d.calls) shut(); d.lock.unlock(); }
};
#define LOCK entrance this_call
#define BEGIN LOCK; if (!d.started) return CUDA_ERROR_NOT_INITIALIZED; if (d.sticky) return d.sticky
#define NEED_CONTEXT(call) \
  if (!current) return misuse(call, "no context is current to this thread", CUDA_ERROR_INVALID_CONTEXT)

/* A call on a stream: there is one, and its GPU's context is this thread's. */
#define NEED_STREAM(call, s) \
  if (!stream_of(s)) return misuse(call, "no such stream", CUDA_ERROR_INVALID_HANDLE); \
  NEED_CONTEXT(call); \
  if ((s)->device != current->device) \
    return misuse(call, "the stream is GPU " + std::to_string((s)->device) + "'s, and the context that is current GPU " + \
                  std::to_string(current->device) + "'s", CUDA_ERROR_INVALID_CONTEXT)

static uint64_t chance() {
  d.random ^= d.random << 13; d.random ^= d.random >> 7; d.random ^= d.random << 17;
  return d.random * 0x9e3779b97f4a7c15u;
}

static void report(const std::string &text) {
  d.reports.push_back(text);
  if (!getenv("DFLOW_STRICT_QUIET")) fprintf(stderr, "strict CUDA driver: %s\n", text.c_str());
  d.sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
}
static CUresult misuse(const char *call, const std::string &what, CUresult result) {
  d.reports.push_back(std::string(call) + ": " + what);
  if (!getenv("DFLOW_STRICT_QUIET")) fprintf(stderr, "strict CUDA driver: %s: %s\n", call, what.c_str());
  return result;
}

/* ---- clocks ------------------------------------------------------------------------------------------------------ */

static uint64_t clock_of(const clocks &c, uint64_t stream) { return stream < c.size() ? c[stream] : 0; }
static void merge(clocks &to, const clocks &from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (size_t i = 0; i < from.size(); i++) to[i] = std::max(to[i], from[i]);
}
static void set_clock(clocks &c, uint64_t stream, uint64_t index) {
  if (c.size() <= stream) c.resize(stream + 1);
  c[stream] = std::max(c[stream], index);
}
static bool is_before(const touch &a, const operation &o) {
  return a.stream == ~0ull || clock_of(o.before, a.stream) >= a.index;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t page_bytes() { static const size_t n = (size_t)sysconf(_SC_PAGESIZE); return n; }

static allocation *allocation_at(const void *p) {
  auto it = d.at.upper_bound((char *)p);
  if (it == d.at.begin()) return nullptr;
  allocation *a = std::prev(it)->second;
  return (char *)p < a->page + a->pages + page_bytes() ? a : nullptr;
}
static std::string text_of(const allocation *a) {
  if (a->condition) return "a condition";
  return "allocation " + std::to_string(a->number) + " of " + std::to_string(a->bytes) + " bytes";
}
static std::string of_another(const allocation *a, int device) {
  return text_of(a) + " is GPU " + std::to_string(a->device) + "'s, and GPU " + std::to_string(device) +
         " has no way to it";
}
/* An operation may touch it. Its pages stay open until the call returns, or something runs that is not looked at place by
 * place, as kernels are (races.h): that they are opened and shut for each is what would take the time. */
static void allow(allocation *a) {
  if (a->open) return;
  mprotect(a->page, a->pages, PROT_READ | PROT_WRITE);
  a->open = true;
  d.open.push_back(a);
}
static void shut() {
  for (allocation *a : d.open) { mprotect(a->page, a->pages, PROT_NONE); a->open = false; }
  d.open.clear();
}

static uint64_t sum_of(const char *p, size_t n) {        /* of all, or of a megabyte of either end */
  uint64_t h = 1469598103934665603ull;
  auto part = [&](const char *q, size_t m) {
    uint64_t lane[4] = { h, h + 1, h + 2, h + 3 };       /* side by side: a processor has several multipliers */
    for (; m >= 32; q += 32, m -= 32)
      for (int i = 0; i < 4; i++) {
        uint64_t w;
        memcpy(&w, q + 8 * i, 8);
        lane[i] = (lane[i] ^ w) * 0x9e3779b97f4a7c15u;
        lane[i] ^= lane[i] >> 29;
      }
    for (uint64_t one : lane) { h = (h ^ one) * 0x9e3779b97f4a7c15u; h ^= h >> 29; }
    for (; m >= 8; q += 8, m -= 8) { uint64_t w; memcpy(&w, q, 8); h = (h ^ w) * 0x9e3779b97f4a7c15u; h ^= h >> 29; }
    for (; m; q++, m--) h = (h ^ (unsigned char)*q) * 1099511628211ull;
  };
  const size_t end = 1 << 20;
  if (n <= 2 * end) part(p, n); else { part(p, end); part(p + n - end, end); }
  return h;
}
/* Between the last element and the page's end nobody writes. */
static bool slack_is_whole(const allocation *a) {
  for (const char *p = a->base + a->bytes; p < a->page + a->pages; p++) if ((unsigned char)*p != 0xa5) return false;
  return true;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static thread_local bool executing;
static thread_local const void *fault_at;                /* NULL: at what is not aligned */
static thread_local sigjmp_buf fault_back;
static struct sigaction before_us;

static std::string text_of_address(const void *p) {
  char hex[32];
  snprintf(hex, sizeof hex, "%p", p);
  const allocation *a = allocation_at(p);
  if (!a) return std::string("address ") + hex + ", which is no device memory that it was given";
  const long off = (long)((const char *)p - a->base);
  std::string text = text_of(a) + ", byte " + std::to_string(off);
  if (off >= (long)a->bytes) text += ", past its end";
  else if (a->freed) text += ", freed by " + a->freed_by;
  return text;
}
static void on_fault(int number, siginfo_t *info, void *context) {
  if (executing) { fault_at = number == SIGILL ? nullptr : info->si_addr; siglongjmp(fault_back, 1); }
  if ((char *)info->si_addr >= d.heap && (char *)info->si_addr < d.heap_end) {
    fprintf(stderr, "strict CUDA driver: the host touched device memory: %s\n", text_of_address(info->si_addr).c_str());
    void *stack[32];
    backtrace_symbols_fd(stack, backtrace(stack, 32), 2);
    signal(number, SIG_DFL);
    return;                                              /* and it comes again */
  }
  if (before_us.sa_flags & SA_SIGINFO && before_us.sa_sigaction) before_us.sa_sigaction(number, info, context);
  else if (before_us.sa_handler && before_us.sa_handler != SIG_DFL &&
      before_us.sa_handler != SIG_IGN) before_us.sa_handler(number);
  else signal(number, SIG_DFL);
}

static void own_signal_stack() {
  static thread_local bool has;
  stack_t s = {};
  if (has) return;
  has = true;
  s.ss_size = 64 << 10;
  s.ss_sp = mmap(nullptr, s.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_t was;
  if (sigaltstack(nullptr, &was) == 0 && !(was.ss_flags & SS_DISABLE)) return;
  sigaltstack(&s, nullptr);
}

void strict_trespass(const void *p) {
  fault_at = p;
  siglongjmp(fault_back, 1);
}

/* A part of an operation that touches device memory: a fault in it is its own. */
static std::string guarded(const operation &o, const std::function<std::string()> &run) {
  own_signal_stack();
  if (sigsetjmp(fault_back, 0)) {                        /* SA_NODEFER: no signals are held back meanwhile */
    executing = false;
    strict_abandon();
    return o.what + " touches " + (fault_at ? text_of_address(fault_at)
                                            : "an address that is no multiple of what lies there: a GPU cannot");
  }
  executing = true;
  std::string wrong = run();
  executing = false;
  return wrong;
}

static std::string check_order(operation &o, allocation *a, bool writes) {
  if (!is_before(a->written, o))
    return std::string(writes ? "two writes" : "a read and a write") + " of " + text_of(a) + " with no order between them: " + a->written.what + ", and " + o.what +
           ": an event is missing";
  if (writes)
    for (const touch &r : a->read)
      if (!is_before(r, o)) return "a read and a write of " + text_of(a) + " with no order between them: " + r.what + ", and " + o.what + ": an event is missing";
  return "";
}
static void note_touch(operation &o, allocation *a, bool writes) {
  touch mine;
  mine.stream = o.stream; mine.index = o.index; mine.what = o.what;
  if (writes) { a->written = mine; a->read.clear(); }
  else {
    a->read.erase(std::remove_if(a->read.begin(), a->read.end(), [&](const touch &r) { return r.stream == o.stream;
        }), a->read.end());
    a->read.push_back(mine);
  }
}

/* The operation's turn has come: what the address leads to that it finds in memory is its own, too. */
static std::string follow(operation &o) {
  allocation *a = allocation_at(o.through);
  if (!a || a->is != allocation::LIVE) return "";        /* told of below */
  allow(a);
  void *p = (void *)*o.through;
  allocation *led = (char *)p < d.heap || (char *)p >= d.heap_end ? nullptr : allocation_at(p);
  if (!led) return o.what + " is led to " + text_of_address(p);
  if (led->device != a->device) return o.what + " is led to memory: " + of_another(led, a->device);
  for (auto &t : o.touches) if (t.first == led) return "";
  o.touches.push_back({ led, 3 });
  return "";
}

static void run_operation(operation &o) {
  if (d.sticky) return;
  std::string wrong = o.through ? follow(o) : "";
  for (auto &t : o.touches) {
    if (t.first->is == allocation::GONE) wrong = o.what + " uses " + text_of(t.first) + " after it was freed by " + t.first->freed_by;
    if (t.first->is == allocation::COMING) wrong = o.what + " uses " + text_of(t.first) + " before it is allocated: an event is missing";
  }
  if (o.unwatched) shut();
  if (wrong.empty()) {
    strict_spans.clear();
    for (auto &t : o.touches) {
      allow(t.first);
      strict_spans.push_back({ t.first->base, t.first->base + t.first->bytes, o.unwatched && t.second == 1, false });
    }
    wrong = guarded(o, o.run);
    for (size_t i = 0; i < o.touches.size() && wrong.empty(); i++) {
      allocation *a = o.touches[i].first;
      int &how = o.touches[i].second;
      if (how == 3) how = o.unwatched || strict_spans[i].written ? 2 : 1;      /* a library says it of what it does both to */
      if (!slack_is_whole(a)) wrong = o.what + " wrote past the end of " + text_of(a);
      if (wrong.empty()) wrong = check_order(o, a, how == 2);
      if (wrong.empty() && how == 1 && strict_spans[i].read && !a->filled && !o.through)      /* to move it is no use of it */
        wrong = o.what + " reads " + text_of(a) + ", where nothing was written";
      a->filled |= how == 2;
      note_touch(o, a, how == 2);
    }
  }
  if (!wrong.empty()) report(wrong);
}

#include "graphs.h"

static bool ready(const operation &o) { return !o.hangs && (!o.waits || d.streams[o.wait_stream]->done >= o.wait_index); }

static void run_head(CUstream s) {
  operation o = std::move(s->queue.front());
  s->queue.pop_front();
  if (o.graph) run_graph(o);
  else if (!o.waits) run_operation(o);
  s->done = o.index;
}
static void run_something() {
  for (size_t tries = 0; tries < d.streams.size(); tries++) {
    CUstream s = d.streams[chance() % d.streams.size()];
    if (s->queue.empty() || !ready(s->queue.front())) continue;
    run_head(s);
    return;
  }
}
/* Operation `index` of stream s is to be done: that, and what it hangs on. */
static void force(CUstream s, uint64_t index) {
  while (s->done < index && !s->queue.empty() && !d.sticky) {
    operation &head = s->queue.front();
    if (head.hangs) { report("a call that waits for " + head.what + ", which hangs: it would never return"); return; }
    if (!ready(head)) force(d.streams[head.wait_stream], head.wait_index);
    if (chance() % 8 == 0) run_something();
    if (s->done < index && !s->queue.empty() && ready(s->queue.front())) run_head(s);
  }
}

/* Complete from the start: something may run it at once. */
static void enqueue_whole(CUstream s, const std::string &what, std::vector<std::pair<allocation *, int>> touches,
                          std::function<std::string()> run) {
  if (s->capturing) { keep_node(s, what, std::move(touches), std::move(run)); return; }
  merge(s->now, d.host);
  operation o;
  o.stream = s->number;
  o.index = ++s->given;
  o.what = what + " (operation " + std::to_string(o.index) + " of stream " + std::to_string(s->number) + ")";
  set_clock(s->now, s->number, o.index);
  o.before = s->now;
  o.touches = std::move(touches);
  o.run = std::move(run);
  o.hangs = d.next_hangs;
  o.unwatched = d.next_unwatched;
  o.through = d.next_through;
  for (auto &t : o.touches) {
    touch mine;
    mine.stream = o.stream; mine.index = o.index; mine.what = o.what;
    if (t.first->freed)
      report(o.what + " is given " + text_of(t.first) + " after it was freed by " + t.first->freed_by);
    t.first->wanted[o.stream] = mine;
  }
  s->queue.push_back(std::move(o));
  if (chance() % 16 == 0) run_something();
}

static CUstream stream_of(CUstream s) {
  return std::find(d.streams.begin(), d.streams.end(), s) != d.streams.end() && !s->gone ? s : nullptr;
}
static pinned *pinned_at(const void *p, size_t bytes) {
  auto it = d.pins.upper_bound((char *)p);
  if (it == d.pins.begin()) return nullptr;
  pinned &b = std::prev(it)->second;
  return (char *)p + bytes <= b.at + b.bytes ? &b : nullptr;
}
/* The allocation that [p, p + bytes) is a part of; NULL: misuse, reported. */
static allocation *part_of(const char *call, CUdeviceptr p, size_t bytes, int device) {
  allocation *a = allocation_at((void *)(uintptr_t)p);
  if (a && a->device != device) { report(std::string(call) + ": " + of_another(a, device)); return nullptr; }
  if (a && (char *)(uintptr_t)p + bytes <= a->base + a->bytes && (char *)(uintptr_t)p >= a->base) return a;
  report(std::string(call) + ": " + std::to_string(bytes) + " bytes at " + text_of_address((void *)(uintptr_t)p) + " are not inside of one allocation");
  return nullptr;
}

/* ---- for the libraries ------------------------------------------------------------------------------------------- */

bool strict_has_context() { return current != nullptr; }
bool strict_product_fails() {
  LOCK;
  return d.fault == "product" && ++d.launches == d.fault_at;
}
void strict_misuse(const std::string &call, const std::string &what) {
  LOCK;
  misuse(call.c_str(), what, CUDA_ERROR_INVALID_VALUE);
}
CUresult strict_enqueue(CUstream stream, const std::string &call, const std::vector<strict_range> &ranges,
                        std::function<std::string()> run) {
  BEGIN;
  NEED_STREAM(call.c_str(), stream);
  std::vector<std::pair<allocation *, int>> touches;
  for (const strict_range &r : ranges) {
    allocation *a = part_of(call.c_str(), (CUdeviceptr)(uintptr_t)r.at, r.bytes, stream->device);
    if (!a) return d.sticky;
    auto known = std::find_if(touches.begin(), touches.end(), [&](const auto &t) { return t.first == a; });
    if (known == touches.end()) touches.push_back({ a, r.how });
    else known->second = std::max(known->second, r.how);
  }
  if (getenv("DFLOW_STRICT_SAYS")) fprintf(stderr, "library: %s\n", call.c_str());
  d.next_unwatched = true;
  enqueue_whole(stream, call, touches, run);
  d.next_unwatched = false;
  return d.sticky;
}

int strict_capability() {
  const char *asked = getenv("DFLOW_STRICT_CAPABILITY");
  return asked ? atoi(asked) : 90;
}
/* Has an image of several codes one for that GPU: PTX of an older one, or machine code of its own generation? */
static bool has_code(const unsigned char *image, int of) {
  struct { uint32_t magic; uint16_t version, bytes; uint64_t size; } all;
  struct { uint16_t kind, version; uint32_t bytes; uint64_t size; uint32_t unused[2]; uint16_t minor, major;
      uint32_t capability; } one;
  enum { PTX = 1 };
  memcpy(&all, image, sizeof all);
  for (uint64_t at = all.bytes; at + sizeof one <= all.bytes + all.size; at += one.bytes + one.size) {
    memcpy(&one, image + at, sizeof one);
    const int is = (int)one.capability;
    if (is <= of && (one.kind == PTX || is / 10 == of / 10)) return true;
  }
  return false;
}

/* What NVRTC for tests made: a shared object, loaded from a file that is gone at once. */
static bool load_shared(const unsigned char *bytes) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)bytes;
  const size_t n = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;      /* its last part, by ld's custom */
  char path[] = "/tmp/strict_module_XXXXXX";
  const int fd = mkstemp(path);
  if (fd < 0) return false;
  const bool ok = write(fd, bytes, n) == (ssize_t)n && dlopen(path, RTLD_NOW | RTLD_LOCAL);
  close(fd);
  unlink(path);
  return ok;
}

/* ---- the API ----------------------------------------------------------------------------------------------------- */

extern "C" {
#define API __attribute__((visibility("default"))) CUresult

API cuInit(unsigned int) {
  LOCK;
  if (d.started) return CUDA_SUCCESS;
  const char *e;
  if ((e = getenv("DFLOW_STRICT_GPUS"))) d.gpus = atoi(e);
  if ((e = getenv("DFLOW_STRICT_MEMORY"))) d.memory = (size_t)strtoull(e, nullptr, 10);
  if ((e = getenv("DFLOW_STRICT_PINNED"))) d.may_pin = (size_t)strtoull(e, nullptr, 10);
  if ((e = getenv("DFLOW_STRICT_SEED"))) d.random = strtoull(e, nullptr, 10) * 2 + 1;
  if ((e = getenv("DFLOW_STRICT_FAULT")) && strchr(e, ':')) {
    d.fault = std::string(e, strchr(e, ':'));
    d.fault_at = strtoull(strchr(e, ':') + 1, nullptr, 10);
  }
  const size_t room = (size_t)1 << 36;
  d.heap = d.next = (char *)mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (d.heap == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  d.heap_end = d.heap + room;
  strict_heap_at = d.heap;
  strict_heap_end = d.heap_end;
  for (int i = 0; i < 64; i++) d.context[i].device = d.pool[i].device = d.module[i].device = i;
  struct sigaction s = {};
  s.sa_sigaction = on_fault;
  s.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &s, &before_us);
  sigaction(SIGBUS, &s, nullptr);
  sigaction(SIGILL, &s, nullptr);                        /* what the compiler puts where an address is not aligned */
  d.started = true;
  return CUDA_SUCCESS;
}
/* NVIDIA's libraries ask whatever driver is loaded for tables of functions that are nobody else's business, and the real
 * NVRTC falls over where there is nobody to ask. This driver has none of them. */
API cuGetExportTable(const void **table, const void *) { *table = nullptr; return CUDA_ERROR_NOT_FOUND; }
API cuDriverGetVersion(int *version) {
  const char *asked = getenv("DFLOW_STRICT_VERSION");
  *version = asked ? atoi(asked) : 13000;
  return CUDA_SUCCESS;
}
API cuGetErrorName(CUresult error, const char **text) {
  switch (error) {
    case CUDA_SUCCESS: *text = "CUDA_SUCCESS"; break;
    case CUDA_ERROR_INVALID_VALUE: *text = "CUDA_ERROR_INVALID_VALUE"; break;
    case CUDA_ERROR_OUT_OF_MEMORY: *text = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case CUDA_ERROR_NOT_FOUND: *text = "CUDA_ERROR_NOT_FOUND"; break;
    case CUDA_ERROR_NOT_READY: *text = "CUDA_ERROR_NOT_READY"; break;
    case CUDA_ERROR_INVALID_CONTEXT: *text = "CUDA_ERROR_INVALID_CONTEXT"; break;
    case CUDA_ERROR_INVALID_HANDLE: *text = "CUDA_ERROR_INVALID_HANDLE"; break;
    case CUDA_ERROR_NO_BINARY_FOR_GPU: *text = "CUDA_ERROR_NO_BINARY_FOR_GPU"; break;
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: *text = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"; break;
    case CUDA_ERROR_UNKNOWN: *text = "CUDA_ERROR_UNKNOWN"; break;
    case CUDA_ERROR_ILLEGAL_STATE: *text = "CUDA_ERROR_ILLEGAL_STATE"; break;
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: *text = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"; break;
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: *text = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"; break;
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION: *text = "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"; break;
    case CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE: *text = "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"; break;
    case CUDA_ERROR_ILLEGAL_ADDRESS: *text = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    default: *text = "CUDA_ERROR_UNKNOWN"; break;
  }
  return CUDA_SUCCESS;
}
API cuGetErrorString(CUresult error, const char **text) {
  static std::string last;
  LOCK;
  last = error == CUDA_ERROR_ILLEGAL_ADDRESS &&
      !d.reports.empty() ? "strict driver: " + d.reports.front() : "strict driver";
  *text = last.c_str();
  return CUDA_SUCCESS;
}
API cuDeviceGetCount(int *count) { LOCK; *count = d.gpus; return CUDA_SUCCESS; }
API cuDeviceGet(CUdevice *device, int ordinal) {
  BEGIN;
  if (ordinal < 0 || ordinal >= d.gpus)
    return misuse("cuDeviceGet", "there is no device " + std::to_string(ordinal), CUDA_ERROR_INVALID_DEVICE);
  *device = ordinal;
  return CUDA_SUCCESS;
}
API cuDeviceGetName(char *name, int len, CUdevice) { snprintf(name, (size_t)len, "strict driver for tests");
    return CUDA_SUCCESS; }
API cuDeviceGetAttribute(int *value, int attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? strict_capability() / 10 :
           attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? strict_capability() % 10 :
           attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 2 : 0;
  return CUDA_SUCCESS;
}
API cuDeviceTotalMem_v2(size_t *bytes, CUdevice) { LOCK; *bytes = d.memory; return CUDA_SUCCESS; }
API cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) { BEGIN; *context = &d.context[device];
    return CUDA_SUCCESS; }
API cuCtxSetCurrent(CUcontext context) { current = context; return CUDA_SUCCESS; }

API cuStreamCreate(CUstream *stream, unsigned int flags) {
  BEGIN;
  NEED_CONTEXT("cuStreamCreate");
  CUstream s = new CUstream_st;
  s->number = d.streams.size();
  s->device = current->device;
  d.streams.push_back(s);
  *stream = s;
  return CUDA_SUCCESS;
}
API cuStreamDestroy_v2(CUstream stream) {
  BEGIN;
  if (!stream_of(stream)) return misuse("cuStreamDestroy", "no such stream", CUDA_ERROR_INVALID_HANDLE);
  if (stream->capturing) return breaks_capture(stream->capturing, "cuStreamDestroy", "the stream is capturing");
  force(stream, stream->given);
  stream->gone = true;
  return d.sticky;
}
API cuStreamSynchronize(CUstream stream) {
  BEGIN;
  if (!stream_of(stream)) return misuse("cuStreamSynchronize", "no such stream", CUDA_ERROR_INVALID_HANDLE);
  if (stream->capturing) return breaks_capture(stream->capturing, "cuStreamSynchronize", "the stream is capturing");
  UNSAFE("cuStreamSynchronize");
  force(stream, stream->given);
  merge(d.host, stream->now);
  return d.sticky;
}
API cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int) {
  BEGIN;
  if (!stream_of(stream)) return misuse("cuStreamWaitEvent", "no such stream", CUDA_ERROR_INVALID_HANDLE);
  if (!d.events.count(event)) return misuse("cuStreamWaitEvent", "no such event", CUDA_ERROR_INVALID_HANDLE);
  if (!event->recorded) return CUDA_SUCCESS;             /* as CUDA has it: nothing to wait for */
  if (stream->capturing || event->captured) return wait_in_capture(stream, event);
  merge(stream->now, event->at);
  operation o;
  o.stream = stream->number;
  o.index = ++stream->given;
  o.what = "a wait";
  set_clock(stream->now, stream->number, o.index);
  o.before = stream->now;
  o.waits = event; o.wait_stream = event->stream; o.wait_index = event->index;
  stream->queue.push_back(std::move(o));
  return CUDA_SUCCESS;
}
API cuEventCreate(CUevent *event, unsigned int) {
  BEGIN;
  NEED_CONTEXT("cuEventCreate");
  *event = new CUevent_st;
  (*event)->device = current->device;
  d.events.insert(*event);
  return CUDA_SUCCESS;
}
API cuEventRecord(CUevent event, CUstream stream) {
  BEGIN;
  if (!stream_of(stream) || !d.events.count(event))
    return misuse("cuEventRecord", "no such stream or event", CUDA_ERROR_INVALID_HANDLE);
  if (event->device != stream->device)
    return misuse("cuEventRecord", "the event is another GPU's than the stream", CUDA_ERROR_INVALID_HANDLE);
  event->recorded = true;
  event->captured = stream->capturing ? stream->capturing->number : 0;
  event->tail = stream->tail;
  if (event->captured) return CUDA_SUCCESS;
  event->stream = stream->number;
  event->index = stream->given;
  merge(stream->now, d.host);
  event->at = stream->now;
  return CUDA_SUCCESS;
}
API cuEventQuery(CUevent event) {
  BEGIN;
  if (!d.events.count(event)) return misuse("cuEventQuery", "no such event", CUDA_ERROR_INVALID_HANDLE);
  if (event->captured) return captured_event("cuEventQuery");
  UNSAFE("cuEventQuery");
  if (event->recorded && d.streams[event->stream]->done < event->index) {
    /* who asks again and again has waited: more and more is done by then */
    event->asked = d.asked == event ? event->asked + 1 : 0;
    d.asked = event;
    for (int i = 0; i <= event->asked / 4 && !d.sticky; i++) run_something();
    return d.sticky ? d.sticky : CUDA_ERROR_NOT_READY;
  }
  if (event->recorded) merge(d.host, event->at);
  return CUDA_SUCCESS;
}
API cuEventSynchronize(CUevent event) {
  BEGIN;
  if (!d.events.count(event)) return misuse("cuEventSynchronize", "no such event", CUDA_ERROR_INVALID_HANDLE);
  if (event->captured) return captured_event("cuEventSynchronize");
  UNSAFE("cuEventSynchronize");
  if (event->recorded) { force(d.streams[event->stream], event->index); merge(d.host, event->at); }
  return d.sticky;
}

API cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) { BEGIN; *pool = &d.pool[device];
    return CUDA_SUCCESS; }
API cuMemPoolSetAttribute(CUmemoryPool, int, void *) { return CUDA_SUCCESS; }
API cuMemAllocAsync(CUdeviceptr *p, size_t bytes, CUstream stream) {
  BEGIN;
  NEED_STREAM("cuMemAllocAsync", stream);
  if (!bytes) return misuse("cuMemAllocAsync", "0 bytes", CUDA_ERROR_INVALID_VALUE);
  if (stream->capturing)
    return breaks_capture(stream->capturing, "cuMemAllocAsync", "a graph is given its memory, and allocates none");
  const size_t page = page_bytes(), whole = (bytes + 63) / 64 * 64, pages = (whole + page - 1) / page * page;
  if (d.in_use[stream->device] + bytes > d.memory || d.next + pages + page > d.heap_end) return CUDA_ERROR_OUT_OF_MEMORY;
  allocation *a = new allocation;
  a->page = d.next;
  a->pages = pages;
  a->base = d.next + pages - whole;                      /* its end is the page's */
  a->bytes = bytes;
  a->number = ++d.numbers;
  d.next += pages + page;
  d.in_use[a->device = stream->device] += bytes;
  d.at[a->page] = a;
  *p = (CUdeviceptr)(uintptr_t)a->base;
  merge(stream->now, d.host);
  operation o;
  o.stream = stream->number;
  o.index = ++stream->given;
  o.what = "the allocation of " + std::to_string(bytes) + " bytes (operation " + std::to_string(o.index) + " of stream " + std::to_string(o.stream) + ")";
  set_clock(stream->now, o.stream, o.index);
  o.before = stream->now;
  touch mine;
  mine.stream = o.stream; mine.index = o.index; mine.what = o.what;
  a->written = mine;
  o.run = [a]() {
    allow(a);
    memset(a->base, 0xff, a->bytes);
    memset(a->base + a->bytes, 0xa5, (size_t)(a->page + a->pages - a->base) - a->bytes);
    a->is = allocation::LIVE;
    return std::string();
  };
  stream->queue.push_back(std::move(o));
  return CUDA_SUCCESS;
}
API cuMemFreeAsync(CUdeviceptr p, CUstream stream) {
  BEGIN;
  if (!stream_of(stream)) return misuse("cuMemFreeAsync", "no such stream", CUDA_ERROR_INVALID_HANDLE);
  if (stream->capturing)
    return breaks_capture(stream->capturing, "cuMemFreeAsync", "a graph is given its memory, and frees none");
  allocation *a = allocation_at((void *)(uintptr_t)p);
  if (!a || (CUdeviceptr)(uintptr_t)a->base != p) {
      report("cuMemFreeAsync: " + text_of_address((void *)(uintptr_t)p) + " is no allocation's beginning");
      return d.sticky; }
  if (a->freed) {
      report("cuMemFreeAsync: " + text_of(a) + " was freed before, by " + a->freed_by); return d.sticky; }
  merge(stream->now, d.host);
  operation o;
  o.stream = stream->number;
  o.index = ++stream->given;
  o.what = "cuMemFreeAsync (operation " + std::to_string(o.index) + " of stream " + std::to_string(o.stream) + ")";
  set_clock(stream->now, o.stream, o.index);
  o.before = stream->now;
  for (auto &w : a->wanted)
    if (!is_before(w.second, o)) {
        report(text_of(a) + " is freed too early: by " + o.what + ", while " + w.second.what + " is not known to be over"); return d.sticky; }
  a->freed = true;
  a->freed_by = o.what;
  d.in_use[a->device] -= a->bytes;
  o.run = [a]() {
    madvise(a->page, a->pages, MADV_DONTNEED);
    a->is = allocation::GONE;
    return std::string();
  };
  stream->queue.push_back(std::move(o));
  return CUDA_SUCCESS;
}

API cuMemHostAlloc(void **p, size_t bytes, unsigned int) {
  BEGIN;
  NEED_CONTEXT("cuMemHostAlloc");
  UNSAFE("cuMemHostAlloc");
  if (d.pinned_bytes + bytes > d.may_pin) return CUDA_ERROR_OUT_OF_MEMORY;
  pinned b = { (char *)aligned_alloc(4096, (bytes + 4095) / 4096 * 4096), bytes };
  if (!b.at) return CUDA_ERROR_OUT_OF_MEMORY;
  d.pinned_bytes += bytes;
  d.pins[b.at] = b;
  *p = b.at;
  return CUDA_SUCCESS;
}
API cuMemFreeHost(void *p) {
  BEGIN;
  UNSAFE("cuMemFreeHost");
  auto it = d.pins.find((char *)p);
  if (it == d.pins.end()) return misuse("cuMemFreeHost", "no such memory", CUDA_ERROR_INVALID_VALUE);
  d.pinned_bytes -= it->second.bytes;
  free(p);
  d.pins.erase(it);
  return CUDA_SUCCESS;
}
API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  BEGIN;
  NEED_STREAM("cuMemcpyHtoDAsync", stream);
  if (!pinned_at(from, bytes)) return misuse("cuMemcpyHtoDAsync",
      "the host's memory is not pinned: the copy would not be asynchronous", CUDA_ERROR_INVALID_VALUE);
  allocation *a = part_of("cuMemcpyHtoDAsync", to, bytes, stream->device);
  if (!a) return d.sticky;
  uint64_t was = 0;
  const auto look = [=]() { return sum_of((const char *)from, bytes); };
  const auto copy = [=](uint64_t was) {
    if (look() != was) return std::string("the pinned memory that a copy to the device reads was changed before the copy ran");
    memcpy((void *)(uintptr_t)to, from, bytes);
    return std::string();
  };
  const std::string what = "a copy of " + std::to_string(bytes) + " bytes to the device";
  if (stream->capturing) {                               /* it is read anew at each launch */
    std::shared_ptr<uint64_t> at_launch(new uint64_t(0));
    keep_node(stream, what, { { a, 2 } }, [=]() { return copy(*at_launch); }, [=]() {
      if (!pinned_at(from, bytes)) report("cuGraphLaunch: the pinned memory that " + what + " reads was freed");
      else *at_launch = look();
    });
    return d.sticky;
  }
  was = look();
  enqueue_whole(stream, what, { { a, 2 } }, [=]() { return copy(was); });
  return d.sticky;
}
API cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  BEGIN;
  NEED_STREAM("cuMemcpyDtoHAsync", stream);
  if (!pinned_at(to, bytes)) return misuse("cuMemcpyDtoHAsync",
      "the host's memory is not pinned: the copy would not be asynchronous", CUDA_ERROR_INVALID_VALUE);
  allocation *a = part_of("cuMemcpyDtoHAsync", from, bytes, stream->device);
  if (!a) return d.sticky;
  if (stream->capturing)
    return breaks_capture(stream->capturing, "cuMemcpyDtoHAsync", "what a graph computes is not for the host");
  memset(to, 0xff, bytes);                               /* who reads it too early shall see that */
  enqueue_whole(stream, "a copy of " + std::to_string(bytes) + " bytes to the host", { { a, 1 } }, [=]() {
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return std::string();
  });
  return d.sticky;
}
API cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  BEGIN;
  NEED_STREAM("cuMemcpyDtoDAsync", stream);
  allocation *a = part_of("cuMemcpyDtoDAsync", to, bytes, stream->device);
  allocation *b = a ? part_of("cuMemcpyDtoDAsync", from, bytes, stream->device) : nullptr;
  if (!b) return d.sticky;
  std::vector<std::pair<allocation *, int>> touches = { { a, 2 } };
  if (b != a) touches.push_back({ b, 1 });
  enqueue_whole(stream, "a copy of " + std::to_string(bytes) + " bytes on the device", touches, [=]() {
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return std::string();
  });
  return d.sticky;
}
API cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_in, CUdeviceptr from, CUcontext from_in, size_t bytes,
                      CUstream stream) {
  static const char *const call = "cuMemcpyPeerAsync";
  BEGIN;
  NEED_STREAM(call, stream);
  if (!to_in || !from_in) return misuse(call, "no context of one of the two", CUDA_ERROR_INVALID_CONTEXT);
  allocation *a = part_of(call, to, bytes, to_in->device);
  allocation *b = a ? part_of(call, from, bytes, from_in->device) : nullptr;
  if (!b) return d.sticky;
  if (stream->capturing) return breaks_capture(stream->capturing, call, "another GPU's memory is not the graph's");
  std::vector<std::pair<allocation *, int>> touches = { { a, 2 } };
  if (b != a) touches.push_back({ b, 1 });
  enqueue_whole(stream, "a copy of " + std::to_string(bytes) + " bytes from GPU to GPU", touches, [=]() {
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return std::string();
  });
  return d.sticky;
}
API cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream) {
  BEGIN;
  NEED_STREAM("cuMemsetD8Async", stream);
  allocation *a = part_of("cuMemsetD8Async", to, n, stream->device);
  if (!a) return d.sticky;
  enqueue_whole(stream, "a fill of " + std::to_string(n) + " bytes", { { a, 2 } }, [=]() {
    memset((void *)(uintptr_t)to, value, n);
    return std::string();
  });
  return d.sticky;
}

API cuModuleLoadData(CUmodule *module, const void *image) {
  BEGIN;
  NEED_CONTEXT("cuModuleLoadData");
  UNSAFE("cuModuleLoadData");
  if (!image) return misuse("cuModuleLoadData", "no image", CUDA_ERROR_INVALID_VALUE);
  const unsigned char *bytes = (const unsigned char *)image;
  static const unsigned char fatbin[4] = { 0x50, 0xed, 0x55, 0xba };
  const bool several = !memcmp(image, fatbin, sizeof fatbin);
  if (several && !has_code(bytes, strict_capability()))
    return misuse("cuModuleLoadData", "the image has no code for capability " + std::to_string(strict_capability()),
                  CUDA_ERROR_NO_BINARY_FOR_GPU);
  if (!strcmp((const char *)image, "no image") || several) {      /* the driver's own */
    if (strict_kernel *own = strict_kernels_take()) d.own = own;
    CUmodule m = &d.module[current->device];
    m->kernels = d.own;
    d.modules.insert(*module = m);
    return CUDA_SUCCESS;
  }
  if (memcmp(bytes, "\177ELF", 4))
    return misuse("cuModuleLoadData", "neither code for this GPU nor an image of several", CUDA_ERROR_INVALID_IMAGE);
  enum { OF_GPUS = 190 };                                /* EM_CUDA: what NVIDIA's own compiler makes */
  if (((const Elf64_Ehdr *)bytes)->e_machine == OF_GPUS)
    return misuse("cuModuleLoadData", "code for real GPUs", CUDA_ERROR_NO_BINARY_FOR_GPU);
  if (strict_kernel *own = strict_kernels_take()) d.own = own;
  if (!load_shared(bytes)) return misuse("cuModuleLoadData", dlerror(), CUDA_ERROR_INVALID_IMAGE);
  CUmodule m = new CUmod_st;
  m->device = current->device;
  m->kernels = strict_kernels_take();
  d.modules.insert(*module = m);
  return CUDA_SUCCESS;
}
API cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  BEGIN;
  if (!d.modules.count(module)) return misuse("cuModuleGetFunction", "no such module", CUDA_ERROR_INVALID_HANDLE);
  const strict_kernel *k = strict_kernel_find(module->kernels, name);
  if (!k) return misuse("cuModuleGetFunction", std::string("there is no kernel `") + name + "`", CUDA_ERROR_NOT_FOUND);
  CUfunction &f = module->by_name[name];
  if (!f) { f = new CUfunc_st{ k, module->device }; d.functions.insert(f); }
  *function = f;
  return CUDA_SUCCESS;
}
API cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                   unsigned int bz, unsigned int shared_bytes, CUstream stream, void **params, void **extra) {
  BEGIN;
  if (!d.functions.count(f)) return misuse("cuLaunchKernel", "no such function", CUDA_ERROR_INVALID_HANDLE);
  NEED_STREAM("cuLaunchKernel", stream);
  if (f->device != stream->device)
    return misuse("cuLaunchKernel", "the function was loaded on another GPU than the stream's", CUDA_ERROR_INVALID_HANDLE);
  const strict_kernel *k = f->kernel;
  const bool fault = d.fault_at && d.fault != "product" && ++d.launches == d.fault_at;
  if (fault && d.fault == "lost") return d.sticky = CUDA_ERROR_UNKNOWN;
  if (!gx || !gy || !gz || !bx || !by || !bz || (uint64_t)bx * by * bz > 1024 || gy > 65535 || gz > 65535 ||
      gx > 0x7fffffff)
    return misuse("cuLaunchKernel",
        std::string("`") + k->name + "` cannot have " + std::to_string(gx) + " x " + std::to_string(gy) + " x " + std::to_string(gz) +
                  " blocks of " + std::to_string(bx) + " x " + std::to_string(by) + " x " + std::to_string(bz) + " threads", CUDA_ERROR_INVALID_VALUE);
  enum { REGISTERS = 65536, MAY_USE = 255 };             /* of a block; a thread, where nothing says it has fewer */
  if ((uint64_t)bx * by * bz * MAY_USE > REGISTERS)
    return misuse("cuLaunchKernel", std::string("`") + k->name + "` has " + std::to_string((uint64_t)bx * by * bz) +
                  " threads, which may want more registers than a block has", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  if (!params || extra || shared_bytes) return misuse("cuLaunchKernel",
      "parameters must be given one by one, and shared memory is static", CUDA_ERROR_INVALID_VALUE);
  std::shared_ptr<std::vector<char>> bytes(new std::vector<char>((char *)params[0], (char *)params[0] + k->bytes));
  std::vector<std::pair<allocation *, int>> touches;
  for (size_t i = 0; i + 8 <= k->bytes; i += 8) {        /* whatever looks like an address of device memory is one */
    uint64_t word;
    memcpy(&word, bytes->data() + i, 8);
    if ((char *)word < d.heap || (char *)word >= d.heap_end) continue;
    allocation *a = allocation_at((void *)word);
    if (!a) { report(std::string("`") + k->name + "` is given " + text_of_address((void *)word)); return d.sticky; }
    if (a->device != stream->device) {
      report(std::string("`") + k->name + "` is given memory: " + of_another(a, stream->device));
      return d.sticky;
    }
    bool known = false;
    for (auto &t : touches) known |= t.first == a;
    if (!known) touches.push_back({ a, 3 });
  }
  const strict_dim blocks = { gx, gy, gz }, block = { bx, by, bz };
  const uint64_t random = chance();
  const int device = stream->device;
  d.next_hangs = fault && d.fault == "hang";
  if (!strncmp(k->name, "k_fetch_", 8) || !strncmp(k->name, "k_store_", 8)) memcpy(&d.next_through, bytes->data(), 8);
  enqueue_whole(stream, std::string("kernel `") + k->name + "`", touches, [=]() {
    if (fault && d.fault == "illegal") return std::string("kernel `") + k->name + "` touched what is not its own: DFLOW_STRICT_FAULT";
    const std::string wrong = strict_grid_run(k, bytes->data(), blocks, block, random);
    if (wrong.empty()) return settle(std::string("kernel `") + k->name + "`", device);
    return std::string("kernel `") + k->name + "`: " + wrong;
  });
  d.next_hangs = false;
  d.next_through = nullptr;
  return d.sticky;
}

#include "graphs_api.h"

/* For the specs: what was reported, one a line; how much of it there is. And all forgotten, for the next. */
__attribute__((visibility("default"))) size_t strict_reports(char *out, size_t room) {
  LOCK;
  std::string all;
  for (const std::string &r : d.reports) all += r + "\n";
  snprintf(out, room, "%s", all.c_str());
  return d.reports.size();
}
__attribute__((visibility("default"))) void strict_forget(uint64_t seed) {
  LOCK;
  for (CUstream s : d.streams) { s->done = s->given; s->queue.clear(); s->capturing = nullptr; s->tail.clear(); }
  d.captures.clear();
  d.reports.clear();
  d.sticky = CUDA_SUCCESS;
  d.random = seed * 2 + 1;
}
}
