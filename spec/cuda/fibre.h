/* fibre.h: a thread of a block: a stack of its own, entered and left without the system. */
#ifndef DFLOW_STRICT_FIBRE_H
#define DFLOW_STRICT_FIBRE_H
#include <sys/mman.h>
#include <stdlib.h>
#include <vector>
#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace fibre {
enum { STACK_BYTES = 256 << 10 };

#ifdef __x86_64__
extern "C" void strict_switch(void **from, void *to);
__asm__(".text\n.hidden strict_switch\n.globl strict_switch\n.type strict_switch,@function\nstrict_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
        ".size strict_switch, .-strict_switch\n");
#endif

/* What runs on a stack, again and again: entry is called with arg, and what comes after is somebody else's stack. */
struct stack {
  char *bottom;
#ifdef __x86_64__
  void *at = nullptr;
#else
  ucontext_t at;
#endif
};
#ifdef __x86_64__
static void *back;
#else
static ucontext_t back;
#endif
static stack *now;
static void (*entry)(void *);
static void *entry_arg;

static void leave() {
#ifdef __x86_64__
  strict_switch(&now->at, back);
#else
  swapcontext(&now->at, &back);
#endif
}
static void main_of_stack() {
  for (;;) { entry(entry_arg); leave(); }
}
static stack *make() {
  stack *s = new stack;
  s->bottom =
      (char *)mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (s->bottom == MAP_FAILED) abort();
#ifdef __x86_64__
  void **top = (void **)(s->bottom + STACK_BYTES - 64);
  *--top = nullptr;                         /* nobody to return to, and the alignment that a call leaves */
  *--top = (void *)main_of_stack;
  for (int i = 0; i < 6; i++) *--top = nullptr;
  s->at = top;
#else
  getcontext(&s->at);
  s->at.uc_stack.ss_sp = s->bottom;
  s->at.uc_stack.ss_size = STACK_BYTES;
  s->at.uc_link = nullptr;
  makecontext(&s->at, main_of_stack, 0);
#endif
  return s;
}
/* Goes on where s was left; a new one, or one that has ended, calls fn(arg). Returns when it leaves or has ended. */
static void enter(stack *s, void (*fn)(void *), void *arg) {
  now = s;
  entry = fn;
  entry_arg = arg;
#ifdef __x86_64__
  strict_switch(&back, s->at);
#else
  swapcontext(&back, &s->at);
#endif
  now = nullptr;
}
}
#endif
