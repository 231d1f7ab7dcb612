/* nvrtc.c: source to code, by way of the disk. See nvrtc.h. */
#define _GNU_SOURCE
#include "nvrtc.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
  pthread_mutex_t lock;                   /* guards all, and the compiler: it takes one program at a time */
  bool    looked, there;
  int     major, minor;
  char    why[300];
  int64_t compiled, loaded;
#define X(result, name, params) result (*name) params;
  DFC_NVRTC(X)
#undef X
} nvrtc = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The headers that kernels written at run time include, as they were when this was built (the Makefile puts them
 * here), and those of the C library, which NVRTC has no use for but the names. */
extern const char *const dfc_header_names[], *const dfc_headers[];
static const char stdint_h[] =
    "typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;\n"
    "typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;\n"
    "typedef unsigned long long uint64_t;\n#define INFINITY __int_as_float(0x7f800000)\n"
    "#define NAN __int_as_float(0x7fffffff)\n";
enum { HEADERS = 16 };

/* Under the lock. */
static bool open_nvrtc(void) {
  if (nvrtc.looked) return nvrtc.there;
  nvrtc.looked = true;
  void *library = dfc_library_open("libnvrtc.so.13", nvrtc.why, sizeof nvrtc.why);
  nvrtc.there = library != NULL;
#define X(result, name, params) \
  if (nvrtc.there && !(*(void **)&nvrtc.name = dlsym(library, #name))) { \
    snprintf(nvrtc.why, sizeof nvrtc.why, "libnvrtc.so.13 has no %s", #name); \
    nvrtc.there = false; \
  }
  DFC_NVRTC(X)
#undef X
  if (nvrtc.there) nvrtc.nvrtcVersion(&nvrtc.major, &nvrtc.minor);
  return nvrtc.there;
}

void dfc_nvrtc_about(char *out, size_t room) {
  pthread_mutex_lock(&nvrtc.lock);
  if (!nvrtc.looked) snprintf(out, room, "fused kernels: none was worth compiling yet");
  else if (!nvrtc.there)
    snprintf(out, room, "fused kernels: none, as there is no NVRTC (%s): each op by its own kernel", nvrtc.why);
  else
    snprintf(out, room, "fused kernels: NVRTC %d.%d, %lld compiled, %lld from the disk%s%s", nvrtc.major, nvrtc.minor,
             (long long)nvrtc.compiled, (long long)nvrtc.loaded, nvrtc.why[0] ? "; " : "", nvrtc.why);
  pthread_mutex_unlock(&nvrtc.lock);
}

/* ---- the disk ---------------------------------------------------------------------------------------------------- */

/* What lies before the code in a file: that it is whole, and what it was made of. */
typedef struct preface { char magic[8]; uint64_t key[2], bytes, sum; } preface;
static const char magic[8] = "dflowgpu";

static uint64_t hash(uint64_t h, const void *p, size_t n) {
  const unsigned char *q = p;
  for (size_t i = 0; i < n; i++) h = (h ^ q[i]) * 1099511628211ull;
  return h;
}
static uint64_t hash_text(uint64_t h, const char *text) { return hash(h, text, strlen(text) + 1); }

/* Makes the folder and those above it. */
static bool make_folder(char *path) {
  for (char *at = path + 1; ; at++) {
    if (*at != '/' && *at) continue;
    const char was = *at;
    *at = 0;
    const bool ok = mkdir(path, 0700) == 0 || errno == EEXIST;
    *at = was;
    if (!ok || !was) return ok;
  }
}

/* False: nothing is to be kept. */
static bool cache_path(const uint64_t key[2], char *path, size_t room) {
  const char *asked = getenv("DFLOW_GPU_CACHE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  char folder[400];
  int n = 0;
  if (asked) n = snprintf(folder, sizeof folder, "%s", asked);
  else if (cache && cache[0] == '/') n = snprintf(folder, sizeof folder, "%s/dflow/gpu", cache);
  else if (home && home[0] == '/') n = snprintf(folder, sizeof folder, "%s/.cache/dflow/gpu", home);
  if (n <= 0 || n >= (int)sizeof folder || folder[0] != '/' || !make_folder(folder)) return false;
  return snprintf(path, room, "%s/%016llx%016llx.cubin", folder, (unsigned long long)key[0],
                  (unsigned long long)key[1]) < (int)room;
}

/* NULL: there is none, or it is not whole. */
static void *cache_read(const char *path, const uint64_t key[2], size_t *bytes) {
  FILE *f = fopen(path, "rb");
  preface p;
  void *code = NULL;
  if (!f) return NULL;
  if (fread(&p, sizeof p, 1, f) == 1 && !memcmp(p.magic, magic, sizeof magic) && p.key[0] == key[0] &&
      p.key[1] == key[1] && p.bytes && p.bytes < (1u << 28) && (code = malloc(p.bytes)) &&
      (fread(code, p.bytes, 1, f) != 1 || hash(p.key[0], code, p.bytes) != p.sum)) {
    free(code);
    code = NULL;
  }
  fclose(f);
  *bytes = code ? p.bytes : 0;
  return code;
}

/* Others may write the same file: it is whole or not there. */
static void cache_write(const char *path, const uint64_t key[2], const void *code, size_t bytes) {
  preface p = { .key = { key[0], key[1] }, .bytes = bytes, .sum = hash(key[0], code, bytes) };
  char draft[500];
  memcpy(p.magic, magic, sizeof magic);
  snprintf(draft, sizeof draft, "%s.XXXXXX", path);      /* a number of ours could be that of one who died at it */
  const int fd = mkostemp(draft, O_CLOEXEC);
  if (fd < 0) return;
  const bool ok = write(fd, &p, sizeof p) == (ssize_t)sizeof p && write(fd, code, bytes) == (ssize_t)bytes;
  if (close(fd) || !ok || rename(draft, path)) unlink(draft);
}

/* ---- the compiler ------------------------------------------------------------------------------------------------ */

/* The first line of the compiler's log that says what is wrong. */
static void read_log(nvrtcProgram program, nvrtcResult result, char *why, size_t room) {
  size_t n = 0;
  char *log = NULL;
  const char *line = NULL;
  if (!nvrtc.nvrtcGetProgramLogSize(program, &n) && n && (log = calloc(1, n + 1)) &&
      !nvrtc.nvrtcGetProgramLog(program, log))
    line = strstr(log, "error");
  while (line && line > log && line[-1] != '\n') line--;
  snprintf(why, room, "NVRTC: %s%s%.*s", nvrtc.nvrtcGetErrorString(result), line ? ": " : "",
           line ? (int)strcspn(line, "\n") : 0, line ? line : "");
  free(log);
}

static void *compile(const char *source, const char *const *options, int32_t noptions, size_t *bytes, char *why,
                     size_t room) {
  const char *names[HEADERS] = { "stdint.h", "stdbool.h", "stddef.h", "math.h", "cmath", "string.h" };
  const char *texts[HEADERS] = { stdint_h, "", "", "", "", "" };
  int n = 6;
  for (int32_t i = 0; dfc_header_names[i] && n < HEADERS; i++, n++) {
    names[n] = dfc_header_names[i];
    texts[n] = dfc_headers[i];
  }
  nvrtcProgram program = NULL;
  void *code = NULL;
  nvrtcResult result = nvrtc.nvrtcCreateProgram(&program, source, "dflow.cu", n, texts, names);
  if (!result && !(result = nvrtc.nvrtcCompileProgram(program, noptions, options)) &&
      !(result = nvrtc.nvrtcGetCUBINSize(program, bytes)) && (code = malloc(*bytes)))
    result = nvrtc.nvrtcGetCUBIN(program, code);
  if (result) {
    if (program) read_log(program, result, why, room);
    else snprintf(why, room, "NVRTC: %s", nvrtc.nvrtcGetErrorString(result));
    free(code);
    code = NULL;
  }
  if (program) nvrtc.nvrtcDestroyProgram(&program);
  return code;
}

void *dfc_nvrtc_code(const dfc_gpu *g, const char *source, bool may_compile, size_t *bytes, char *why, size_t room) {
  char arch[40], path[480];
  snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d%d", g->major, g->minor);
  const char *const options[] = { arch, "--fmad=false", "--std=c++17" };
  enum { OPTIONS = sizeof options / sizeof *options };
  void *code = NULL;
  why[0] = 0;
  pthread_mutex_lock(&nvrtc.lock);
  if (open_nvrtc()) {
    uint64_t key[2] = { 1469598103934665603ull, 0x9e3779b97f4a7c15ull };
    for (int32_t i = 0; i < 2; i++) {
      key[i] = hash_text(key[i], source);
      key[i] = hash_text(key[i], g->name);             /* the driver for tests makes code of another kind */
      key[i] = hash(hash(key[i], &nvrtc.major, sizeof nvrtc.major), &nvrtc.minor, sizeof nvrtc.minor);
      for (int32_t o = 0; o < OPTIONS; o++) key[i] = hash_text(key[i], options[o]);
      key[i] = hash_text(key[i], stdint_h);
      for (int32_t h = 0; dfc_header_names[h]; h++) key[i] = hash_text(key[i], dfc_headers[h]);
    }
    const bool kept = cache_path(key, path, sizeof path);
    if (kept && (code = cache_read(path, key, bytes))) nvrtc.loaded++;
    else if (may_compile && (code = compile(source, options, OPTIONS, bytes, why, room))) {
      nvrtc.compiled++;
      if (kept) cache_write(path, key, code, *bytes);
    }
    if (why[0]) snprintf(nvrtc.why, sizeof nvrtc.why, "%.290s", why);
  } else snprintf(why, room, "%s", nvrtc.why);
  pthread_mutex_unlock(&nvrtc.lock);
  return code;
}
