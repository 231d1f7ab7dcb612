/* block.cc: runs a kernel as a grid of blocks of threads that are fibres. See strict.h. */
#include "block.h"
#include "fibre.h"
#include "races.h"
#include <dlfcn.h>

strict_place strict_here;
static strict_kernel *kernels;

strict_kernel::strict_kernel(const char *name, size_t bytes, void (*body)(const void *))
    : name(name), bytes(bytes), body(body), next(kernels) {
  kernels = this;
}

static strict_section *sections;
strict_section::strict_section(char *at, char *end) : at(at), end(end), next(sections) { sections = this; }

strict_kernel *strict_kernels_take() {
  strict_kernel *list = kernels;
  kernels = nullptr;
  return list;
}
const strict_kernel *strict_kernel_find(const strict_kernel *list, const char *name) {
  for (const strict_kernel *k = list; k; k = k->next) if (!strcmp(k->name, name)) return k;
  return nullptr;
}

enum state { FRESH, AT_BARRIER, AT_EXCHANGE, READY, ENDED };
struct thread {
  state is = FRESH;
  fibre::stack *stack = nullptr;
  uint64_t given = 0;
};
static std::vector<thread> threads;
static unsigned at_barrier, ended;                       /* of these */
static std::vector<fibre::stack *> idle;
static const strict_kernel *kernel;
static const void *params;

/* Whose turn it is between two barriers: forwards or backwards, from anywhere, each once. */
static struct { unsigned next, step, left; } turn;
static unsigned take_turn() {
  const unsigned t = turn.next, n = (unsigned)threads.size();
  turn.next = turn.next + turn.step;
  if (turn.next >= n) turn.next -= n;
  turn.left--;
  return t;
}
static void begin(unsigned t) {
  const strict_dim &of = strict_here.threads;
  strict_running = t;
  strict_here.thread = { t, 0, 0 };
  if (of.y * of.z > 1) strict_here.thread = { t % of.x, t / of.x % of.y, t / of.x / of.y };
}

/* A thread to its end, and on the same stack those whose turn is next as long as they have not begun. */
static void body(void *) {
  for (;;) {
    kernel->body(params);
    threads[strict_running].is = ENDED;
    ended++;
    if (!turn.left || threads[turn.next].is != FRESH) return;
    fibre::stack *mine = threads[strict_running].stack;
    threads[strict_running].stack = nullptr;
    begin(take_turn());
    threads[strict_running].stack = mine;
  }
}

void strict_barrier() {
  threads[strict_running].is = AT_BARRIER;
  at_barrier++;
  fibre::leave();
}
int strict_lane() { return (int)(strict_running & 31); }
uint64_t strict_exchange(uint64_t mine, int lane) {
  threads[strict_running].given = mine;
  threads[strict_running].is = AT_EXCHANGE;
  const unsigned other = (strict_running & ~31u) + (unsigned)lane;
  fibre::leave();
  const uint64_t got = other < threads.size() ? threads[other].given : 0;
  threads[strict_running].is = AT_EXCHANGE;        /* nobody gives anew before all have taken */
  fibre::leave();
  return got;
}

static std::vector<strict_setting> settings;
const std::vector<strict_setting> &strict_settings() { return settings; }
void strict_set_condition(uint64_t handle, unsigned value) {
  const strict_dim &b = strict_here.block, &of = strict_here.blocks;
  const uint64_t mine = (((uint64_t)b.z * of.y + b.y) * of.x + b.x) * threads.size() + strict_running;
  for (strict_setting &s : settings)
    if (s.handle == handle) {
      s.raced |= s.thread != mine;
      s.value = value;
      return;
    }
  settings.push_back({ handle, value, false, mine });
}

static void resume(unsigned t) {
  thread &it = threads[t];
  if (!it.stack) {
    if (idle.empty()) idle.push_back(fibre::make());
    it.stack = idle.back();
    idle.pop_back();
  }
  begin(t);
  it.is = READY;
  fibre::enter(it.stack, body, nullptr);
  thread &last = threads[strict_running];                /* that one, or one that came after it on its stack */
  if (last.is == ENDED) { idle.push_back(last.stack); last.stack = nullptr; }
}

/* The threads of the warp from w on wait for an exchange, all that have not ended: they have it. */
static bool warp_goes_on(unsigned w) {
  const unsigned end = w + 32 < threads.size() ? w + 32 : (unsigned)threads.size();
  bool any = false;
  for (unsigned i = w; i < end; i++)
    if (threads[i].is != AT_EXCHANGE && threads[i].is != ENDED) return false;
  for (unsigned i = w; i < end; i++)
    if (threads[i].is == AT_EXCHANGE) { threads[i].is = READY; any = true; }
  return any;
}

/* One block. Empty: all is well. */
static std::string run_block(uint64_t random) {
  const unsigned n = (unsigned)threads.size();
  if (strict_shared_at) memset(strict_shared_at, 0xff, (size_t)(strict_shared_end - strict_shared_at));
  strict_races_block();
  for (thread &t : threads) t = thread();
  at_barrier = ended = 0;
  for (unsigned round = 0;; round++) {
    turn = { (unsigned)(random >> (round & 31)) % n, (random >> 40 & 1) ? 1 : n - 1, n };
    bool moved = false;
    while (turn.left) {
      const unsigned t = take_turn();
      if (threads[t].is == FRESH || threads[t].is == READY) { resume(t); moved = true; }
    }
    if (ended == n) return "";
    if (at_barrier + ended < n)
      for (unsigned w = 0; w < n; w += 32) moved |= warp_goes_on(w);
    if (moved && at_barrier + ended < n) continue;
    if (at_barrier + ended == n) {
      if (ended)
        return "a barrier (__syncthreads) that " + std::to_string(at_barrier) + " threads of the block reached and " +
               std::to_string(ended) + " did not";
      for (thread &it : threads) it.is = READY;
      at_barrier = 0;
      strict_races_barrier();
      continue;
    }
    if (!moved) return "threads of a warp wait for each other: a shuffle that not all of them reached";
  }
}

/* The section that lies in the same program or library as the kernel: looked for once. */
static void find_shared(const strict_kernel *k) {
  if (!k->looked) {
    Dl_info of_kernel, of_section;
    k->looked = true;
    if (dladdr((void *)k->body, &of_kernel))
      for (const strict_section *s = sections; s; s = s->next)
        if (s->at && dladdr(s->at, &of_section) && of_section.dli_fbase == of_kernel.dli_fbase) k->shared = s;
  }
  strict_shared_at = k->shared ? k->shared->at : nullptr;
  strict_shared_end = k->shared ? k->shared->end : nullptr;
}

void strict_abandon() {                     /* a kernel was left by a fault: its stacks are not to be used again */
  for (thread &t : threads) t.stack = nullptr;
}

std::string strict_grid_run(const strict_kernel *k, const void *p, strict_dim blocks, strict_dim block,
                            uint64_t random) {
  const uint64_t n = (uint64_t)blocks.x * blocks.y * blocks.z;
  kernel = k;
  params = p;
  settings.clear();
  strict_here.blocks = blocks;
  strict_here.threads = block;
  find_shared(k);
  strict_races_begin();
  threads.assign((size_t)block.x * block.y * block.z, thread());
  const uint64_t from = random % n, step = (random >> 32 & 1) ? 1 : n - 1;
  uint64_t b = from;
  for (uint64_t i = 0; i < n; i++, b = (b + step) % n) {
    strict_here.block = { (unsigned)(b % blocks.x), (unsigned)(b / blocks.x % blocks.y),
        (unsigned)(b / blocks.x / blocks.y) };
    const std::string wrong = run_block(random * 0x9e3779b97f4a7c15u + i);
    if (!wrong.empty()) return wrong;
  }
  return strict_race();
}
