/* audit.c: the checks of engine/tokens/audit.h see what they are there to see: books that are wrong in one place end a
 * process that was forked for it, and books that are right do not. The release build has no such checks and nothing to
 * say.
 */
#include "engine/tokens/audit.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int passed, failed;

#ifdef DFLOW_DEBUG
static void says(const char *claim, bool holds) {
  if (holds) passed++;
  else { failed++; printf("not true: %s\n", claim); }
}

/* A loop `l` with one slot, iteration 3 of it open alone, in a run whose queue is empty. */
typedef struct books {
  dfi_plan plan; dfi_pnode node; dfi_scope scope[2]; dfi_exec x; dfi_frame top, loop; dfi_record outer, r;
  dfi_record *top_ring[4], *ring[4]; dfi_frame *child[1]; df_value slot[1];
  uint32_t counts; uint8_t fired; dfi_token queue[4];
} books;

static void books_right(books *b) {
  memset(b, 0, sizeof *b);
  b->plan.node = &b->node; b->plan.scope = b->scope;
  b->scope[0] = (dfi_scope){ .parent = -1, .name = "", .parallel_iterations = 1, .nchildren = 1 };
  b->scope[1] = (dfi_scope){ .id = 1, .name = "l", .parallel_iterations = 2, .nslots = 1 };
  b->x = (dfi_exec){ .plan = &b->plan, .queue = b->queue, .queue_mask = 3, .root = &b->top };
  b->top = (dfi_frame){ .scope = &b->scope[0], .ring = b->top_ring, .capacity = 4, .next = 1, .window = 1 };
  b->outer = (dfi_record){ .nodes = &b->node, .frame = &b->top, .children = b->child };
  b->top_ring[0] = &b->outer; b->child[0] = &b->loop;
  b->loop = (dfi_frame){ .scope = &b->scope[1],
                         .parent = &b->top,
                         .origin = &b->outer,
                         .ring = b->ring,
                         .capacity = 4,
                         .first = 3,
                         .next = 4,
                         .window = 2,
                         .depth = 1 };
  b->r = (dfi_record){ .base = { b->slot }, .nodes = &b->node, .frame = &b->loop, .number = 3 };
  b->ring[3] = &b->r;
}

static void ask(books *b) {
  dfi_audit_iteration(&b->x, &b->r);
  dfi_audit_queue(&b->x, &b->r);
  dfi_audit_frame(&b->x, &b->loop);
  dfi_audit_end(&b->x);
}

/* In the same run a token of its iteration comes, and iteration and loop are over; then so is the run. */
static void close_all(books *b) {
  dfi_audit_token(&b->r, (dfi_token){ &b->r, 0, b->queue[0].mark });
  b->r.outstanding = 0;
  dfi_books_iteration(&b->x, &b->r);
  dfi_books_frame(&b->x, &b->loop);
  b->child[0] = NULL;
  dfi_books_balance(&b->x);
}

/* The loop has one node, the NextIteration of a Merge, which ran; and an Exit that did not. */
static void books_full(books *b) {
  static dfi_pnode *exits[1];
  books_right(b);
  exits[0] = &b->node;
  b->node = (dfi_pnode){ .kind = DFI_K_NEXT, .merges = 1 };
  b->scope[1].n = b->scope[1].nexits = 1;
  b->scope[1].exits = exits;
  b->loop.exit_fired = &b->fired; b->loop.counts = 1;
  b->r.counts = &b->counts; b->r.outstanding = 1;
  b->x.count = (dfi_counters){ .merged = 1, .ended = 1, .frames = 1, .iterations = 4 };
}

/* Does a process that asks of these books end by abort()? */
static bool ends(books *b, void asked(books *b)) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 2);
    asked(b);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void audits(void) {
  static books b;
  books_right(&b);
  says("books that are right pass", !ends(&b, ask));
#define SEES(claim, change) do { books_right(&b); change; says(claim, ends(&b, ask)); } while (0)
  SEES("an iteration that ends with tokens outstanding is seen", b.r.outstanding = 1);
  SEES("a count of held values that is too high is seen", b.r.held = 1);
  SEES("a value that is held and not counted is seen", b.slot[0] = ((df_value){ .kind = DF_HANDLE, .uses = 1 }));
  SEES("a value that nobody will read is seen", (b.slot[0] = (df_value){ .kind = DF_HANDLE }, b.r.held = 1));
  SEES("a loop that is still open in an iteration is seen", (b.scope[1].nchildren = 1, b.r.children = b.child));
  SEES("a token that is still to run is seen", (b.queue[0].record = &b.r, b.x.tail = 1));
  SEES("more open iterations than the window allows are seen", b.loop.next = 6);
  SEES("an iteration in the place of another is seen", b.r.number = 2);
  SEES("more Enters than a loop has are seen", b.loop.enters_missing = -1);
  SEES("a frame of the wrong depth is seen", b.loop.depth = 2);
  SEES("a call that is away at a run's end is seen", b.x.running = 1);
  SEES("a run that ends with its top level unfinished is seen", b.outer.outstanding = 1);

  books_full(&b);
  says("a run that counts what its iterations and frames had in them passes", !ends(&b, close_all));
  books_full(&b);
  b.r.outstanding = 2; b.queue[0].mark = DFI_DEAD; b.counts = DFI_DEAD;
  b.x.count.merged = 0; b.x.count.died = 1;
  says("so does one whose NextIteration died", !ends(&b, close_all));
#define COUNTS(claim, change) do { books_full(&b); change; says(claim, ends(&b, close_all)); } while (0)
  COUNTS("a frame that is counted twice is seen", b.x.count.frames++);
  COUNTS("an iteration that is counted twice is seen", b.x.count.iterations++);
  COUNTS("a Merge that is counted twice is seen", b.x.count.merged++);
  COUNTS("a Merge that is not counted is seen", b.x.count.merged--);
  COUNTS("a dead Exit that is not counted is seen", b.x.count.ended--);
  COUNTS("a dead token that is not counted is seen", (b.counts = DFI_DEAD, b.x.count.merged--));
  COUNTS("a dead token that was not there is seen", b.x.count.died++);
  COUNTS("a token of an iteration that is over is seen", b.queue[0].mark = 8);
  COUNTS("a token that its iteration does not count is seen", b.r.outstanding = 0);
  COUNTS("a token that comes before its iteration is open is seen", b.r.number = 4);
}
#else
static void audits(void) { }
#endif

int main(void) {
  audits();
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
