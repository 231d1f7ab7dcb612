/* fuzz_graphdef.c: graphs that are damaged in every way, given to df_import_graph_def.
 *
 *   fuzz_graphdef SECONDS CORPUS…      damages the files of the corpus, and what came of them and reached new code
 *   fuzz_graphdef FILE…                imports and runs each thirty times, to see again what was found
 *
 * A third of what is tried is damaged bytes, a third is a graph whose messages are changed where they have a meaning,
 * a third is a graph of one op (fuzz_structured.c). Whatever the bytes are, an import ends with a graph or with an
 * error that has a message; what it made is given back. A graph that came of it is run and differentiated, too (of
 * damaged bytes now and then): that may fail, but not crash or hang. The files that read graphs are compiled with
 * -fsanitize-coverage=trace-pc, so that an input is kept when it leads where none was before; FUZZ_CORPUS names a
 * folder that keeps it for the next time. What is being tried lies in fuzz_graphdef.last. The same entry,
 * LLVMFuzzerTestOneInput, is libFuzzer's.
 */
#include "dflow.h"
#include "fuzz_structured.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PLACES = 1 << 16, MOST_BYTES = 1 << 17, MOST_KEPT = 20000 };

static uint8_t hit[PLACES], known[PLACES];
static uintptr_t before;

/* Called by the instrumented code at every branch. */
void __sanitizer_cov_trace_pc(void) {
  uintptr_t here = (uintptr_t)__builtin_return_address(0);
  hit[(here ^ before >> 1) * 0x9e3779b97f4a7c15u >> 48] = 1;
  before = here;
}

static uint64_t state = 88172645463325252u;
static uint32_t draw(uint32_t n) {
  state ^= state << 13; state ^= state >> 7; state ^= state << 17;
  return n ? (uint32_t)(state >> 20) % n : 0;
}

uint32_t fuzz_draw(uint32_t n) { return draw(n); }

static void promise(bool kept, const char *what) {
  if (kept) return;
  fprintf(stderr, "fuzz_graphdef: %s\n", what);
  abort();
}

/* Runs a few of its outputs, and differentiates one; the last node always. */
static void use(df_graph *g) {
  df_error err;
  int32_t n = df_graph_nodes(g);
  df_session *s = df_session_new(g, "threads=1 timeout=0.05", &err);
  if (!s) return;
  for (int32_t k = 0; k < 3 && n > 0; k++) {
    int32_t node = k ? (int32_t)draw((uint32_t)n) : n - 1, outputs = df_node_outputs(g, node),
            fetch[2] = { node, outputs ? (int32_t)draw((uint32_t)outputs) : -1 };
    df_value result = { 0 };
    err.code = 0;
    int32_t code = df_session_run(s, 1, fetch, 0, NULL, NULL, 0, &result, &err);
    promise(!code || (err.code == code && *err.message), "a run failed without saying why");
    df_value_release(&result);
  }
  int32_t y[2] = { (int32_t)draw((uint32_t)n), 0 }, x[2] = { (int32_t)draw((uint32_t)n), 0 }, out[6];
  if (draw(2)) y[0] = n - 1;
  if (n > 0) df_gradients(g, 1, y, NULL, 1, x, 0, NULL, 1, "fuzz", out, &err);
  df_session_release(s);
}

static bool draw_structured;           /* what is tried was made by fuzz_structured.c */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  df_graph *g = df_graph_new();
  df_error err = { 0 };
  int32_t code = df_import_graph_def(g, (const char *)bytes, (int64_t)n, draw(4) ? NULL : "p", 0, NULL, NULL, "fuzz:1",
                                     NULL, &err);
  promise(!code || (err.code == code && *err.message), "an import failed without saying why");
  promise(!code || df_graph_nodes(g) == 0, "an import failed and left nodes behind");
  if (!code && (draw_structured || !draw(8))) use(g);
  df_graph_release(g);
  return 0;
}

/* ---- the corpus --------------------------------------------------------------------------------- */

typedef struct input { uint8_t *bytes; size_t n; } input;
static input kept[MOST_KEPT];
static int32_t nmade, noriginal;

static void keep(const uint8_t *bytes, size_t n) {
  if (nmade == MOST_KEPT || n > MOST_BYTES) return;
  uint8_t *copy = malloc(n + 1);
  if (!copy) return;
  memcpy(copy, bytes, n);
  kept[nmade++] = (input){ copy, n };
}

static void load(const char *path) {
  struct stat about;
  if (stat(path, &about)) return;
  if (S_ISDIR(about.st_mode)) {
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
      char inside[4096];
      if (*e->d_name == '.' || snprintf(inside, sizeof inside, "%s/%s", path, e->d_name) >= (int)sizeof inside)
        continue;
      load(inside);
    }
    if (d) closedir(d);
    return;
  }
  const char *dot = strrchr(path, '.');
  if (!dot || (strcmp(dot, ".pb") && strcmp(dot, ".pbtxt") && strcmp(dot, ".meta") && strcmp(dot, ".gz") &&
               strcmp(dot, ".bin")))
    return;
  df_error err;
  df_tensor *t = df_read_file(path, &err);
  if (!t) return;
  keep(df_tensor_data(t), (size_t)df_tensor_size(t));
  df_tensor_release(t);
}

/* ---- damage --------------------------------------------------------------------------------------- */

static size_t damage(uint8_t *b, size_t n) {
  static const uint8_t telling[] = {
    0, 1, 0x0a, 0x12, 0x1a, 0x2a, 0x7f, 0x80, 0xff, '{', '}', ':', '"', '\\', '^', '/'
  };
  for (uint32_t times = 1 + draw(draw(4) ? 3 : 12); times; times--) {
    size_t at = draw((uint32_t)n + 1), length = 1 + draw(draw(3) ? 8 : 200);
    if (length > n - at) length = n - at;
    switch (draw(9)) {
      case 0: if (at < n) b[at] ^= (uint8_t)(1 << draw(8)); break;
      case 1: if (at < n) b[at] = (uint8_t)draw(256); break;
      case 2: if (at < n) b[at] = telling[draw(sizeof telling)]; break;
      case 3: if (at < n) b[at] = (uint8_t)(b[at] + (draw(2) ? 1 : -1)); break;
      case 4: memmove(b + at, b + at + length, n - at - length); n -= length; break;
      case 5:                                              /* a piece twice */
        if (n + length > MOST_BYTES) break;
        memmove(b + at + length, b + at, n - at);
        n += length;
        break;
      case 6: {                                            /* a piece of another */
        const input *o = &kept[draw((uint32_t)nmade)];
        size_t from = draw((uint32_t)o->n), most = o->n - from;
        length = 1 + draw(400);
        if (length > most) length = most;
        if (n + length > MOST_BYTES) break;
        memmove(b + at + length, b + at, n - at);
        memcpy(b + at, o->bytes + from, length);
        n += length;
        break;
      }
      case 7: if (!draw(6)) n = at; break;                 /* cut */
      case 8:                                              /* a name for another of the same file */
        if (n > 40) {
          size_t from = draw((uint32_t)(n - 20)), to = draw((uint32_t)(n - 20)), k = 1 + draw(20);
          memmove(b + to, b + from, k);
        }
        break;
    }
  }
  return n;
}

static bool is_new(void) {
  bool any = false;
  for (int32_t i = 0; i < PLACES; i++)
    if (hit[i] && !known[i]) { known[i] = 1; any = true; }
  return any;
}

static void try(const uint8_t *bytes, size_t n) {
  FILE *f = fopen("fuzz_graphdef.last", "wb");
  if (f) { fwrite(bytes, 1, n, f); fclose(f); }
  memset(hit, 0, sizeof hit);
  before = 0;
  LLVMFuzzerTestOneInput(bytes, n);
}

/* In the folder that FUZZ_CORPUS names, under a name that its bytes give. */
static void store(const uint8_t *bytes, size_t n) {
  const char *folder = getenv("FUZZ_CORPUS");
  char path[4096];
  uint64_t name = 14695981039346656037u;
  for (size_t i = 0; i < n; i++) name = (name ^ bytes[i]) * 1099511628211u;
  if (!folder || n > MOST_BYTES ||
      snprintf(path, sizeof path, "%s/%016llx.bin", folder, (unsigned long long)name) >= (int)sizeof path) return;
  FILE *f = fopen(path, "wb");
  if (!f) return;
  fwrite(bytes, 1, n, f);
  fclose(f);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#ifndef LIBFUZZER
int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 60;
  df_memory_set_limit(256 << 20);
  if (argc > 1 && seconds <= 0) {
    for (int i = 1; i < argc; i++) load(argv[i]);
    draw_structured = true;
    for (int32_t i = 0; i < nmade; i++)
      for (int32_t times = 0; times < 30; times++) LLVMFuzzerTestOneInput(kept[i].bytes, kept[i].n);
    printf("fuzz_graphdef: %d files, nothing wrong\n", nmade);
    return 0;
  }
  const char *seed = getenv("FUZZ_SEED");
  if (seed) state = strtoull(seed, NULL, 10) * 0x9e3779b97f4a7c15u + 1;
  for (int i = 2; i < argc; i++) load(argv[i]);
  if (argc < 3) load("spec/graphs");
  for (int32_t i = 0; i < nmade; i++) { try(kept[i].bytes, kept[i].n); is_new(); }
  noriginal = nmade;
  uint8_t *bytes = malloc(MOST_BYTES + 512);
  if (!bytes || !nmade) { fprintf(stderr, "fuzz_graphdef: there is no corpus\n"); return 1; }
  int64_t tried = 0;
  double start = now(), slowest = 0, said = start;
  while (now() - start < seconds) {
    const input *in = &kept[draw(3) ? draw((uint32_t)nmade) : draw((uint32_t)noriginal)];
    memcpy(bytes, in->bytes, in->n);
    size_t n = 0;
    const uint32_t how = draw(3);
    draw_structured = how > 0;
    if (how == 1) n = fuzz_mutate(bytes, in->n, MOST_BYTES);
    else if (how == 2) n = fuzz_op(bytes, MOST_BYTES);
    if (!n) {
      draw_structured = false;
      memcpy(bytes, in->bytes, in->n);
      n = damage(bytes, in->n);
    }
    double began = now();
    try(bytes, n);
    double took = now() - began;
    if (took > slowest) slowest = took;
    tried++;
    if (is_new()) {
      keep(bytes, n);
      store(bytes, n);
    }
    if (now() - said > 60) {
      said = now();
      fprintf(stderr, "fuzz_graphdef: %lld tried, %d kept\n", (long long)tried, nmade - noriginal);
    }
  }
  remove("fuzz_graphdef.last");
  printf("fuzz_graphdef: %lld graphs, %d of them new, the slowest %.3f s, nothing wrong\n", (long long)tried,
         nmade - noriginal, slowest);
  for (int32_t i = 0; i < nmade; i++) free(kept[i].bytes);
  free(bytes);
  return 0;
}
#endif
