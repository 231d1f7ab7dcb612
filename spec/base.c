/* base.c: what the layers of the library rest on, said in C: tensors, memory, half precision, static shapes,
 * workers, maps. Each check is a claim; the last line counts them.
 */
#include "base/stress.h"
#include "op/op.h"
#include "kernels/half.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int passed, failed;
static void says(const char *claim, bool holds) {
  if (holds) passed++;
  else { failed++; printf("not true: %s\n", claim); }
}

static int64_t in_use(void) {
  int64_t use;
  df_memory(&use, NULL, NULL, NULL);
  return use;
}

static void tensors(void) {
  df_error err = { 0 };
  int64_t before = in_use(), dims[2] = { 2, 3 };
  df_tensor *t = df_tensor_new(DF_FLOAT32, 2, dims, &err);
  says("a tensor's elements are aligned to 64 bytes", ((uintptr_t)df_tensor_data(t) & 63) == 0);
  for (int64_t i = 0; i < 6; i++) df_tensor_set(t, i, (double)i - 2.5);
  df_tensor *r = df_tensor_reshape(t, 1, (int64_t[]){ 6 }, &err);
  says("a reshaped tensor shares the elements", df_tensor_data(r) == df_tensor_data(t));
  df_tensor_release(t);
  says("elements live as long as the last tensor that has them", df_tensor_get(r, 5) == 2.5);
  says("a reshape to another number of elements is refused", !df_tensor_reshape(r, 1, (int64_t[]){ 5 }, &err));
  says("element numbers out of range read as 0 and cannot be set",
       df_tensor_get(r, 6) == 0 && !df_tensor_set(r, -1, 1));
  df_tensor *i8 = df_tensor_cast(r, DF_INT8, &err);
  says("a cast to whole numbers truncates toward zero",
       df_tensor_get_int(i8, 0) == -2 && df_tensor_get_int(i8, 5) == 2);
  df_tensor_release(i8);
  df_tensor_release(r);

  t = df_tensor_new(DF_FLOAT64, 1, (int64_t[]){ 4 }, &err);
  double odd[] = { 1e300, -1e300, NAN, INFINITY };
  for (int i = 0; i < 4; i++) df_tensor_set(t, i, odd[i]);
  df_tensor *i32 = df_tensor_cast(t, DF_INT32, &err), *i64 = df_tensor_cast(t, DF_INT64, &err);
  says("a cast out of range saturates, and NaN gives 0",
       df_tensor_get_int(i32, 0) == INT32_MAX && df_tensor_get_int(i32, 1) == INT32_MIN &&
           df_tensor_get_int(i32, 2) == 0 && df_tensor_get_int(i64, 3) == INT64_MAX &&
           df_tensor_get_int(i64, 1) == INT64_MIN);
  df_tensor_release(i32);
  df_tensor_release(i64);
  df_tensor_release(t);

  t = df_tensor_new(DF_UINT8, 0, NULL, &err);
  says("an element refuses a number that its dtype cannot hold",
       !df_tensor_set_int(t, 0, 256) && !df_tensor_set(t, 0, 0.5) && df_tensor_set(t, 0, 255));
  df_tensor_release(t);

  t = df_tensor_new(DF_STRING, 1, (int64_t[]){ 2 }, &err);
  char word[] = "one\0two";
  df_tensor_set_string(t, 1, word, 7, &err);
  word[0] = 'X';
  int64_t n;
  const char *s = df_tensor_string(t, 1, &n);
  says("a string owns its bytes, zeros among them", n == 7 && !memcmp(s, "one\0two", 7));
  says("a fresh string is empty", *df_tensor_string(t, 0, &n) == 0 && n == 0);
  df_tensor_set_string(t, 0, "7", 1, &err);
  says("a string is no number, whatever its letters are", df_tensor_get_int(t, 0) == 0 && df_tensor_get(t, 0) == 0);
  df_tensor_release(t);

  says("a tensor that no machine could hold is an error",
       !df_tensor_new(DF_FLOAT32, 2, (int64_t[]){ INT64_C(1) << 40, INT64_C(1) << 40 }, &err) &&
           err.code == DF_RESOURCE_EXHAUSTED);
  says("so are a negative dimension, a rank of nine and an unknown dtype",
       !df_tensor_new(DF_FLOAT32, 1, (int64_t[]){ -1 }, &err) && !df_tensor_new(DF_FLOAT32, 9, dims, &err) &&
       !df_tensor_new(99, 0, NULL, &err) && !df_tensor_new(DF_RESOURCE, 0, NULL, &err));
  t = df_tensor_new(DF_FLOAT32, 2, (int64_t[]){ 0, INT64_MAX }, &err);
  says("an empty tensor may have a huge dimension", t && df_tensor_size(t) == 0);
  df_tensor_release(t);
  says("all memory was given back", in_use() == before);
}

static void stress(void) {
  uint64_t seed = 1;
  char *before = getenv("DFLOW_STRESS");
  before = before ? strdup(before) : NULL;
  setenv("DFLOW_STRESS", "late,shuffle:7,swapping", 1);
  says("a word of DFLOW_STRESS is found", dfi_stress("late", NULL) && dfi_stress("shuffle", &seed) && seed == 7);
  says("a part of a word is none", !dfi_stress("swap", NULL) && !dfi_stress("ate", NULL) && !dfi_stress("osr", NULL));
  if (before) setenv("DFLOW_STRESS", before, 1); else unsetenv("DFLOW_STRESS");
  free(before);
}

#ifdef DFLOW_DEBUG
/* The same program under DFLOW_STRESS=fence, told to do `what` with three elements: did a signal end it? */
static bool ended_by(const char *program, const char *what) {
  char command[4200];
  snprintf(command, sizeof command, "DFLOW_STRESS=fence '%s' %s 2>/dev/null", program, what);
  const int status = system(command);
  enum { SANITIZER = 99 };
  return status != -1 && (WIFSIGNALED(status) || WEXITSTATUS(status) > 128 || WEXITSTATUS(status) == SANITIZER);
}

static int touch(const char *what) {
  volatile float *x = dfi_alloc(3 * sizeof *x), sum = x[0] + x[1] + x[2];
  if (!strcmp(what, "behind")) sum += x[3];
  if (!strcmp(what, "past")) x[3] = 1;
  dfi_release((void *)(uintptr_t)x, 3 * sizeof *x);
  if (!strcmp(what, "after")) sum += x[0];
  return sum == 0;
}

static void fences(const char *program) {
  says("behind a fence what is its own may be touched", !ended_by(program, "inside"));
  says("an element behind a fence that is read or written ends the process, as does one that was given back",
       ended_by(program, "behind") && ended_by(program, "past") && ended_by(program, "after"));
}
#endif

static void memory(void) {
  df_error err = { 0 };
  int64_t peak, limit, all, before = in_use();
  df_tensor *t = df_tensor_new(DF_FLOAT32, 1, (int64_t[]){ 1 << 20 }, &err);
  df_memory(NULL, &peak, NULL, NULL);
  says("what is in use, and its peak, count every tensor", in_use() - before >= 4 << 20 && peak >= in_use());
  df_memory_set_limit(in_use() + (1 << 20));
  df_memory(NULL, NULL, &limit, NULL);
  df_tensor *more = df_tensor_new(DF_FLOAT32, 1, (int64_t[]){ 1 << 20 }, &err);
  says("past the limit an allocation fails", limit > 0 && !more && err.code == DF_RESOURCE_EXHAUSTED);
  df_tensor_release(t);
  more = df_tensor_new(DF_FLOAT32, 1, (int64_t[]){ 1 << 20 }, &err);
  says("and succeeds once memory is back", more != NULL);
  df_tensor_release(more);
  df_tensor *small[16];
  int32_t n = 0;
  df_memory_set_limit(in_use() + (20 << 10));
  while (n < 16 && (small[n] = df_tensor_new(DF_FLOAT32, 1, (int64_t[]){ 1 << 10 }, &err))) n++;
  says("a limit is kept where tensors are small, too", n >= 1 && n <= 5);
  while (n) df_tensor_release(small[--n]);
  df_memory_set_limit(0);
  df_memory_set_limit(1 << 30);
  dfi_memory_hold first, second;
  dfi_memory_hold_begin(&first, 300 << 20);
  dfi_memory_hold_begin(&second, 200 << 20);
  df_memory(NULL, NULL, &limit, NULL);
  says("of the limits of runs that go on at once the least counts", limit == 200 << 20);
  dfi_memory_hold_end(&first);
  df_memory(NULL, NULL, &limit, NULL);
  says("the run that is left has its own", limit == 200 << 20);
  dfi_memory_hold_end(&second);
  df_memory(NULL, NULL, &limit, NULL);
  says("after them the limit is what it was", limit == 1 << 30);
  df_memory_set_limit(0);
  df_memory(NULL, NULL, NULL, &all);
  for (int64_t bytes = 1; bytes < 1 << 22; bytes = bytes * 5 / 3 + 1) {
    char *p = dfi_alloc(bytes);
    memset(p, 1, (size_t)bytes);
    if ((uintptr_t)p & 63) says("memory of every size is aligned", false);
    dfi_release(p, bytes);
  }
  says("memory of every size comes and goes", in_use() == before);
}

static void halves(void) {
  bool f16 = true, bf16 = true;
  for (uint32_t h = 0; h < 65536; h++) {
    float a = dfk_f16_to_float((uint16_t)h), b = dfk_bf16_to_float((uint16_t)h);
    f16 &= a != a ? dfk_f16_from_float(a) != dfk_f16_from_float(INFINITY) : dfk_f16_from_float(a) == h;
    bf16 &= b != b ? dfk_bf16_to_float(dfk_bf16_from_float(b)) != b : dfk_bf16_from_float(b) == h;
  }
  says("every float16 survives the way to float32 and back", f16);
  says("every bfloat16 survives the way to float32 and back", bf16);
  says("float16 rounds to nearest, ties to even",
       dfk_f16_from_float(2049) == dfk_f16_from_float(2048) && dfk_f16_from_float(2051) == dfk_f16_from_float(2052) &&
       dfk_f16_from_float(65519) == 0x7bff && dfk_f16_from_float(65520) == 0x7c00);
}

static void shapes(void) {
  char text[160];
  dfi_shape a = dfi_shape_of(2, (int64_t[]){ -1, 3 }), b = dfi_shape_of(2, (int64_t[]){ 4, -1 }), c;
  says("shapes that both hold are merged", dfi_shape_merge(&a, &b, &c) && c.dims[0] == 4 && c.dims[1] == 3);
  dfi_shape_relax(&c, &a, &c);
  says("of shapes of which one holds, what agrees stays", dfi_shape_equal(&c, &a));
  dfi_shape v = dfi_shape_vector(3), w = dfi_shape_vector(2);
  says("a vector broadcasts along the last axis", dfi_shape_broadcast(&b, &v, &c) && c.dims[0] == 4 && c.dims[1] == 3);
  says("unequal dimensions do not broadcast", !dfi_shape_broadcast(&a, &w, &c) && !dfi_shape_merge(&v, &w, &c));
  says("a shape's text shows what is not known", !strcmp(dfi_typed_shape_text(DF_FLOAT32, &a, text), "float32[?,3]"));
  dfi_shape huge = dfi_shape_of(2, (int64_t[]){ INT64_MAX, INT64_MAX });
  says("a size that overflows is as large as can be", dfi_shape_size(&huge) == INT64_MAX);
}

static void add_one(void *arg, int64_t begin, int64_t end) {
  int64_t *a = arg;
  for (int64_t i = begin; i < end; i++) a[i]++;
}
static _Atomic int32_t rang;
static _Atomic bool strayed;
static __thread bool ringing;
static void add_one_here(void *arg, int64_t begin, int64_t end) {
  if (!ringing) strayed = true;
  if (!rang) usleep(5000);                      /* others have the time to come */
  add_one(arg, begin, end);
}
static void ring(void *arg) {
  ringing = true;
  dfi_pool_range(dfi_pool_get(1), 100, 1, add_one_here, arg);
  ringing = false;
  rang++;
}
static void *many_ranges(void *arg) {
  int64_t *a = dfi_xcalloc(10000, sizeof *a);
  for (int32_t i = 0; i < 300; i++) dfi_pool_range(dfi_pool_get(i % 3), 10000, 500, add_one, a);
  for (int32_t i = 0; i < 10000; i++)
    if (a[i] != 300) *(bool *)arg = false;
  free(a);
  return NULL;
}
/* Two pieces that wait for each other, ten seconds at most. */
static _Atomic int32_t came, met;
static void meet(void *arg, int64_t begin, int64_t end) {
  (void)arg;
  for (int64_t i = begin; i < end; i++) {
    came++;
    for (int32_t n = 0; came < 2 && n < 10000; n++) usleep(1000);
    met += came == 2 && end - begin == 1;
  }
}
static void workers(void) {
  pthread_t thread[4];
  bool exact[4] = { true, true, true, true };
  for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, many_ranges, &exact[i]);
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  says("each element of a range is done once, however many ask at once", exact[0] && exact[1] && exact[2] && exact[3]);
  int64_t *rows = dfi_xcalloc(100 * 200, sizeof *rows), sum = 0;
  int32_t tried = 0;
  while (tried < 200)
    if (dfi_pool_try(dfi_pool_get(2), ring, rows + 100 * tried)) tried++;
    else sched_yield();
  while (rang < tried) sched_yield();
  for (int32_t i = 0; i < 100 * 200; i++) sum += rows[i];
  says("a task runs once on a worker, and ranges inside it run there", sum == 100 * 200 && !strayed);
  free(rows);
  dfi_pool *asleep = dfi_pool_get(1);
  usleep(300000);                               /* its worker has gone to sleep */
  dfi_pool_range(asleep, 2, 0, meet, NULL);
  says("a worker that sleeps is woken for two pieces that take long", met == 2);
  says("a pool of no workers takes no task", !dfi_pool_try(dfi_pool_get(0), ring, NULL));
}

/* Takes the process's locks for memory over and over: tensors too large for a thread's own stock, and the reserve. */
static atomic_bool enough;
static void *hold_locks(void *arg) {
  (void)arg;
  while (!atomic_load(&enough)) {
    df_tensor_release(df_tensor_new(DF_UINT8, 1, (int64_t[]){ 100000 }, NULL));
    dfi_memory_for(2 << 20);
  }
  return NULL;
}

/* How many of so many children come to their end. */
static int32_t children(int32_t n) {
  int32_t good = 0;
  for (int32_t k = 0; k < n; k++) {
    const pid_t child = fork();
    if (!child) {
      alarm(20);
      df_tensor *t = df_tensor_new(DF_UINT8, 1, (int64_t[]){ 100000 }, NULL);
      const bool made = t != NULL && dfi_memory_for(2 << 20);
      df_tensor_release(t);
      _exit(made ? 0 : 1);
    }
    int status = -1;
    good += child > 0 && waitpid(child, &status, 0) == child && status == 0;
  }
  return good;
}

static void forks(void) {
  enum { CHILDREN = 100 };
  pthread_t thread[2];
  for (int i = 0; i < 2; i++) pthread_create(&thread[i], NULL, hold_locks, NULL);
  const int32_t good = children(CHILDREN);
  atomic_store(&enough, true);
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  says("a child finds memory's locks open, whatever its parent's threads were doing", good == CHILDREN);
}

static void maps(void) {
  enum { N = 1000 };
  static df_node node[N];
  struct dfi_map *m = dfi_map_new();
  for (int32_t i = 0; i < N; i++) dfi_map_put(m, (df_output){ &node[i], i % 3 }, (df_output){ &node[N - 1 - i], i });
  bool found = dfi_map_count(m) == N, ordered = true;
  for (int32_t i = 0; i < N; i++) {
    df_output key, value = dfi_map_get(m, (df_output){ &node[i], i % 3 });
    found &= value.node == &node[N - 1 - i] && value.index == i && !dfi_map_get(m, (df_output){ &node[i], 3 }).node;
    dfi_map_at(m, i, &key, &value);
    ordered &= key.node == &node[i];
  }
  says("a map finds what was put, and nothing else", found);
  says("a map keeps the order of its keys", ordered);
  dfi_map_free(m);
}

#ifdef DFLOW_DEBUG
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static void taken_twice(void) { pthread_mutex_lock(&lock); pthread_mutex_lock(&lock); }
static void let_go_untaken(void) { pthread_mutex_unlock(&lock); }
static void waited_untaken(void) { pthread_cond_wait(&changed, &lock); }
static void made_and_let_go(void) { pthread_mutex_t m; pthread_mutex_init(&m, NULL); pthread_mutex_unlock(&m); }

/* Does that end the process by abort()? */
static bool aborts(void (*f)(void)) {
  const pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) _exit(1);
    f();
    _exit(0);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void locks(void) {
  says("in the debug build a lock that is taken twice by one thread ends the process", aborts(taken_twice));
  says("in the debug build a lock that is let go but not taken ends the process",
       aborts(let_go_untaken) && aborts(made_and_let_go));
  says("in the debug build waiting under a lock that is not taken ends the process", aborts(waited_untaken));
}
#endif

static void registry(void) {
  bool documented = true, found = true;
  for (int32_t i = 0; i < df_op_count(); i++) {
    const df_op *op = dfi_op_info_at(i)->op;
    documented &= op->doc && *op->doc;
    found &= df_op_find(op->type) == i && (!op->lua || !*op->lua || df_op_find(op->lua) == i);
    if (op->flow == DF_PLAIN && !op->kernel[DF_REF]) printf("%s has no reference kernel\n", op->type), found = false;
  }
  says("every op is documented", documented);
  says("every op is found by its type and by its Lua name, and has a reference kernel", found);
  says("an op that is not there is not found",
       df_op_find("Nothing") == -1 && *df_op_doc(-1) == 0 && *df_op_type(1 << 20) == 0);
}

int main(int argc, char **argv) {
#ifdef DFLOW_DEBUG
  if (argc > 1) return touch(argv[1]);
  fences(argv[0]);
#endif
  tensors();
  stress();
  memory();
  halves();
  shapes();
  workers();
  forks();
  maps();
#ifdef DFLOW_DEBUG
  locks();
#endif
  registry();
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
