/* nvrtc.c: source to code, by way of the disk. See nvrtc.h. */
#define _GNU_SOURCE
#include "nvrtc.h"
#include "../disk.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
  pthread_mutex_t lock;                   /* guards all but what never changes once it is there */
  pthread_mutex_t compiler;               /* it takes one program at a time. Taken before the lock */
  int     major, minor;
  char    why[300];                       /* what the compiler last said */
  int64_t compiled, loaded;
#define X(result, name, params) result (*name) params;
  DFC_NVRTC(X)
#undef X
} nvrtc = { .lock = PTHREAD_MUTEX_INITIALIZER, .compiler = PTHREAD_MUTEX_INITIALIZER };
static dfc_library library = DFC_LIBRARY("libnvrtc.so.13");

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
#define X(result, name, params) { #name, (void **)&nvrtc.name },
  static const dfc_symbol symbols[] = { DFC_NVRTC(X) { NULL, NULL } };
#undef X
  const bool there = dfc_library_open(&library, symbols);
  if (there && !nvrtc.major) nvrtc.nvrtcVersion(&nvrtc.major, &nvrtc.minor);
  return there;
}

void dfc_nvrtc_about(char *out, size_t room) {
  pthread_mutex_lock(&nvrtc.lock);
  if (!library.looked) snprintf(out, room, "fused kernels: none was worth compiling yet");
  else if (!library.there)
    snprintf(out, room, "fused kernels: none, as there is no NVRTC (%s): each op by its own kernel", library.why);
  else
    snprintf(out, room, "fused kernels: NVRTC %d.%d, %lld compiled, %lld from the disk%s%s", nvrtc.major, nvrtc.minor,
             (long long)nvrtc.compiled, (long long)nvrtc.loaded, nvrtc.why[0] ? "; " : "", nvrtc.why);
  pthread_mutex_unlock(&nvrtc.lock);
}

/* ---- the disk ---------------------------------------------------------------------------------------------------- */

static const dfk_disk disk = { "DFLOW_GPU_CACHE", "gpu", "cubin", "dflowgpu", 256u << 20 };

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

enum { OPTIONS = 4 };
/* The name of the code on the disk: of all that it is made of. */
static dfk_disk_key key_of(const dfc_gpu *g, const char *source, const char *const *options) {
  dfk_disk_key key = DFK_DISK_KEY;
  dfk_disk_hash_text(&key, source);
  dfk_disk_hash_text(&key, g->name);                   /* the driver for tests makes code of another kind */
  dfk_disk_hash(&key, &nvrtc.major, sizeof nvrtc.major);
  dfk_disk_hash(&key, &nvrtc.minor, sizeof nvrtc.minor);
  for (int32_t o = 0; o < OPTIONS; o++) dfk_disk_hash_text(&key, options[o]);
  dfk_disk_hash_text(&key, stdint_h);
  for (int32_t h = 0; dfc_header_names[h]; h++) dfk_disk_hash_text(&key, dfc_headers[h]);
  return key;
}

/* Counts one that was compiled or loaded; what the compiler said stays for the report. */
static void note(int64_t *count, const char *why) {
  pthread_mutex_lock(&nvrtc.lock);
  if (count) ++*count;
  if (why[0]) snprintf(nvrtc.why, sizeof nvrtc.why, "%.290s", why);
  pthread_mutex_unlock(&nvrtc.lock);
}

void *dfc_nvrtc_code(const dfc_gpu *g, const char *source, bool may_compile, size_t *bytes, char *why, size_t room) {
  char arch[40];
  snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d%d", g->major, g->minor);
  const char *const options[OPTIONS] = { arch, "--fmad=false", "--ftz=true", "--std=c++17" };
  why[0] = 0;
  pthread_mutex_lock(&nvrtc.lock);
  const bool there = open_nvrtc();
  if (!there) snprintf(why, room, "%s", library.why);
  pthread_mutex_unlock(&nvrtc.lock);
  if (!there) return NULL;
  const dfk_disk_key key = key_of(g, source, options);
  void *code = dfk_disk_read(&disk, &key, bytes);
  if (code) { note(&nvrtc.loaded, why); return code; }
  if (!may_compile) return NULL;
  pthread_mutex_lock(&nvrtc.compiler);
  code = compile(source, options, OPTIONS, bytes, why, room);
  pthread_mutex_unlock(&nvrtc.compiler);
  note(code ? &nvrtc.compiled : NULL, why);
  if (code) dfk_disk_write(&disk, &key, code, *bytes);
  return code;
}
