/* runs.c: what C programs may do with a run in the background from several threads, after it is over and after its
 * session is closed, and calls of the API that name what is not there. Each check is a sentence; the last line counts
 * them.
 */
#include "dflow.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int passed, failed;
static void says(const char *sentence, bool holds) {
  if (holds) passed++;
  else { failed++; printf("not true: %s\n", sentence); }
}

static int32_t number(df_graph *g, int32_t n) {
  df_value v = { .kind = DF_SCALAR, .dtype = DF_INT32 };
  v.as.i32 = n;
  return df_constant(g, &v, NULL, "runs.c:1", NULL);
}

static int32_t add_node(df_graph *g, const char *type, const int32_t *a, int32_t b) {
  df_error err;
  return df_add_node(g, df_op_find(type), 2, (int32_t[]){ a[0], a[1], b, 0 }, "runs.c:2", &err);
}

/* A loop that counts to n in steps; its exit. */
static int32_t count_by(df_graph *g, int32_t step, int32_t n) {
  df_error err;
  int32_t init[2] = { number(g, 0), 0 }, var[2], exit[2];
  df_while_begin(g, 1, init, 1, -1, true, "keep", "loop", "runs.c:3", var, &err);
  df_while_pred_end(g, add_node(g, "Less", var, number(g, n)), 0, var, &err);
  int32_t next[2] = { add_node(g, "Add", var, number(g, step)), 0 };
  df_while_end(g, 1, next, exit, &err);
  return exit[0];
}
static int32_t count_to(df_graph *g, int32_t n) { return count_by(g, 1, n); }

/* A loop without an end whose body is a product that takes longer than a waiter sleeps. */
static int32_t multiply_for_ever(df_graph *g) {
  df_error err;
  df_value wide = { .kind = DF_TENSOR, .dtype = DF_FLOAT32 };
  wide.as.tensor = df_tensor_new(DF_FLOAT32, 2, (int64_t[]){ 1500, 1500 }, &err);
  memset(df_tensor_data(wide.as.tensor), 0, 1500 * 1500 * sizeof(float));
  int32_t init[4] = { number(g, 0), 0, df_constant(g, &wide, NULL, "runs.c:9", &err), 0 }, var[4], exit[4];
  df_value_release(&wide);
  df_while_begin(g, 2, init, 1, -1, true, "keep", "products", "runs.c:9", var, &err);
  df_while_pred_end(g, add_node(g, "Less", var, number(g, 1)), 0, var, &err);
  const int32_t square[4] = { var[2], var[3], var[2], var[3] };
  int32_t next[4] = { add_node(g, "Mul", var, number(g, 1)), 0,
                      df_add_node(g, df_op_find("MatMul"), 2, square, "runs.c:9", &err), 0 };
  df_while_end(g, 2, next, exit, &err);
  return exit[2];
}

static void *look_often(void *arg) {
  df_error err;
  for (int i = 0; i < 300; i++) df_snapshot_release(df_run_look(arg, &err));
  return NULL;
}

static void two_threads(void) {
  df_error err = { 0 };
  df_graph *g = df_graph_new();
  df_session *s = df_session_new(g, NULL, &err);
  int32_t fetch[2] = { count_to(g, 1 << 30), 0 };
  df_run *r = df_session_start(s, 1, fetch, 0, NULL, NULL, 0, NULL, &err);
  pthread_t one, two;
  pthread_create(&one, NULL, look_often, r);
  pthread_create(&two, NULL, look_often, r);
  says("a run that others look at is not paused for its waiter", df_run_settle(r, 0.05, NULL) == DF_RUN_RUNNING);
  says("a run that others look at is paused when it is asked to", df_run_pause(r, NULL) == DF_RUN_PAUSED);
  pthread_join(one, NULL);
  pthread_join(two, NULL);
  says("it stays paused after others have looked", df_run_settle(r, 0, NULL) == DF_RUN_PAUSED);
  df_session_release(s);
  const char *where = NULL, *name = df_run_scope(r, 1, &where);
  says("a run's handle knows the names of its loops when its session is closed",
       name && !strcmp(name, "loop") && where && !strcmp(where, "runs.c:3"));
  says("a run of a closed session takes no breakpoint",
       df_run_break(r, 1, fetch, NULL, -1, 0, &err) == 0 && err.code == DF_FAILED_PRECONDITION);
  df_value result = { 0 };
  says("a run of a closed session was cancelled", df_run_wait(r, &result, &err) == DF_CANCELLED);
  df_run_release(r);
  df_graph_release(g);
}

typedef struct interrupter {
  void (*interrupt)(void);
  atomic_bool enough;
} interrupter;

static void *interrupt_often(void *arg) {
  interrupter *by = arg;
  while (!atomic_load(&by->enough)) {
    by->interrupt();
    usleep(100);
  }
  return NULL;
}

/* How a wait for a run ends while another thread interrupts again and again. */
static int32_t wait_interrupted(df_run *r, void (*interrupt)(void), df_error *err) {
  interrupter by = { .interrupt = interrupt };
  pthread_t thread;
  df_value result = { 0 };
  pthread_create(&thread, NULL, interrupt_often, &by);
  const int32_t code = df_run_wait(r, &result, err);
  atomic_store(&by.enough, true);
  pthread_join(thread, NULL);
  df_value_release(&result);
  return code;
}

/* Runs that would end by their time limit alone. */
static void interrupts(void) {
  df_error err = { 0 };
  df_value result = { 0 };
  df_graph *g = df_graph_new();
  df_session *s = df_session_new(g, NULL, &err);
  int32_t fetch[2] = { count_by(g, 0, 1), 0 };
  df_run *r = df_session_start(s, 1, fetch, 0, NULL, NULL, 30, NULL, &err);
  says("a wait ends where calls are interrupted", wait_interrupted(r, df_interrupt_calls, &err) == DF_CANCELLED);
  says("and says that the run goes on", strstr(err.message, "the run goes on") && !df_run_done(r));
  says("the next wait ends where all is interrupted", wait_interrupted(r, df_interrupt, &err) == DF_CANCELLED);
  says("with the run", strstr(err.message, "the run was interrupted") && df_run_done(r));
  df_run_release(r);
  r = df_session_start(s, 1, (int32_t[]){ multiply_for_ever(g), 0 }, 0, NULL, NULL, 30, NULL, &err);
  says("and not before, where it is in the middle of a kernel",
       wait_interrupted(r, df_interrupt, &err) == DF_CANCELLED && strstr(err.message, "the run was interrupted") &&
           df_run_done(r));
  df_run_release(r);
  int32_t cancelled = 0;
  for (int32_t i = 0; i < 20; i++) {
    r = df_session_start(s, 1, fetch, 0, NULL, NULL, 30, "at_once=yes", &err);
    df_interrupt();
    cancelled += df_run_wait(r, &result, &err) == DF_CANCELLED;
    df_run_release(r);
  }
  says("a run is interrupted that its thread has not begun yet", cancelled == 20);
  df_session_release(s);
  df_graph_release(g);
}

static void odd_numbers(void) {
  df_error err = { 0 };
  df_graph *g = df_graph_new();
  df_session *s = df_session_new(g, NULL, &err);
  int32_t fetch[2] = { count_to(g, 5), 0 }, out[2];
  df_run *r = df_session_start(s, 1, fetch, 0, NULL, NULL, 0, "paused=yes log=tokens", &err);
  df_token_info token;
  df_event event;
  df_run_settle(r, 10, NULL);
  df_run_resume(r, DF_STEP_TOKEN, 4);
  df_run_settle(r, 10, NULL);
  says("fewer than no tokens of the past are none", df_run_history(r, -1, &token) == 0);
  says("events before the first one begin with it",
       df_run_events(r, -3, 1, &event) == df_run_events(r, 0, 0, &event) && df_run_events(r, 0, 0, &event) > 0);
  df_run_release(r);
  says("an output that is not there cannot be unrolled",
       df_graph_unroll(g, 1, (int32_t[]){ 1 << 20, 0 }, 0, NULL, 100, out, &err) == DF_INVALID_ARGUMENT);
  says("gradients name the y that is not there",
       df_gradients(g, 1, (int32_t[]){ 1 << 20, 0 }, NULL, 1, fetch, 0, NULL, 1, "runs.c:8", out, &err) &&
           strstr(err.message, "y 1 is no output of this graph"));
  df_session_release(s);
  df_graph_release(g);
}

static void given_up(void) {
  df_error err = { 0 };
  df_graph *g = df_graph_new();
  df_value yes = { .kind = DF_SCALAR, .dtype = DF_BOOL, .as.b = true };
  int32_t one[2] = { number(g, 1), 0 }, inside[2] = { 0, 0 }, numbers[6];
  df_cond_begin(g, df_constant(g, &yes, NULL, NULL, &err), 0, NULL, "runs.c:4", &err);
  inside[0] = add_node(g, "Add", one, one[0]);
  df_cond_branch_end(g, 1, inside, &err);
  df_flow_abort(g, 0);
  says("nothing is saved of a cond that was given up", df_saved(g, inside[0], 6, numbers) == 0);
  df_graph_release(g);
}

static void no_function(void) {
  df_error err = { 0 };
  df_graph *g = df_graph_new();
  df_session *s = df_session_new(g, NULL, &err);
  df_node_begin(g, df_op_find("FunctionArg"), "runs.c:5");
  df_node_string(g, "function", "f", 1);
  df_node_int(g, "index", 0);
  df_node_dtype(g, "dtype", DF_INT32);
  int32_t fetch[2] = { df_node_end(g, &err), 0 };
  df_value result = { 0 };
  says("an argument of a function that is not there cannot be run",
       df_session_run(s, 1, fetch, 0, NULL, NULL, 0, &result, &err) != DF_OK && *err.message);
  df_session_release(s);
  df_graph_release(g);
}

static void cut_shapes(void) {
  df_error err = { 0 };
  df_graph *g = df_graph_new();
  df_node_begin(g, df_op_find("FIFOQueueV2"), "runs.c:6");
  df_node_ints(g, "component_types", 1, (int64_t[]){ DF_FLOAT32 });
  df_node_ints(g, "shapes", 1, (int64_t[]){ 2 });
  says("a list of shapes that is cut off is refused", df_node_end(g, &err) < 0 && err.code == DF_INVALID_ARGUMENT);
  df_graph_release(g);
}

static void *add_a_number(void *g) {
  number(g, 3);
  return NULL;
}

/* A node is begun; two threads in turn, each with what it adds whole, are within the rules, another one now is not. */
static void build_in_threads(df_graph *g, bool open) {
  pthread_t other;
  number(g, 1);
  if (open) df_node_begin(g, df_op_find("NoOp"), "runs.c:7");
  pthread_create(&other, NULL, add_a_number, g);
  pthread_join(other, NULL);
}

#ifdef __SANITIZE_THREAD__                   /* it does not know that a child's locks are new */
enum { FORKS = false };
#else
enum { FORKS = true };
#endif

/* How a process ends that builds so, and the line that it says. */
static int in_a_process(bool open, char *said, size_t n) {
  int fd[2], status = -1;
  memset(said, 0, n);
  if (pipe(fd)) return -1;
  fflush(stdout);
  const pid_t child = fork();
  if (!child) {
    dup2(fd[1], 2);
    close(fd[0]);
    df_graph *g = df_graph_new();
    build_in_threads(g, open);
    df_graph_release(g);
    _exit(0);
  }
  close(fd[1]);
  for (ssize_t have = 0, got; (size_t)have < n - 1 && (got = read(fd[0], said + have, n - 1 - (size_t)have)) > 0;)
    have += got;
  close(fd[0]);
  waitpid(child, &status, 0);
  return status;
}

static void two_builders(void) {
  char said[4096];
  says("two threads may build a graph one after the other", in_a_process(false, said, sizeof said) == 0);
#ifdef DFLOW_DEBUG
  signal(SIGABRT, SIG_DFL);
  const int status = in_a_process(true, said, sizeof said);
  says("a thread that builds a graph while another does ends the program in the debug build",
       WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  says("and is named", strstr(said, "Const: another thread is building this graph") != NULL);
#endif
}

int main(void) {
  if (FORKS) two_builders();
  cut_shapes();
  two_threads();
  interrupts();
  odd_numbers();
  given_up();
  no_function();
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
