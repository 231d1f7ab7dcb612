/* plugin.c: the door of libdflow_cuda.so, and the runtime's services under the names that kernel.h gives them. */
#include "blas.h"
#include "dnn.h"
#include "nvrtc.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const dfi_gpu_host *dfc_host;

/* ---- kernel.h ---------------------------------------------------------------------------------------------------- */

df_tensor *dfk_out(df_kernel *k, int32_t i, int32_t dtype, int32_t rank,
    const int64_t *dims) {
  return dfc_host->out(k, i, dtype, rank, dims);
}
df_tensor *dfk_out_like(df_kernel *k, int32_t i, const df_tensor *like) { return dfc_host->out_like(k, i, like); }
df_tensor *dfk_out_reuse(df_kernel *k, int32_t i, int32_t from, int32_t dtype, int32_t rank, const int64_t *dims) {
  return dfc_host->out_reuse(k, i, from, dtype, rank, dims);
}
int32_t dfk_out_forward(df_kernel *k, int32_t i, int32_t from, int32_t rank,
    const int64_t *dims) {
  return dfc_host->out_forward(k, i, from, rank, dims);
}
/* Parts are copied: a device's arena hands out whole buffers, which are swapped and freed one by one. */
bool dfk_out_part(df_kernel *k, int32_t i, int32_t from, int64_t first, int32_t rank, const int64_t *dims) {
  (void)k; (void)i; (void)from; (void)first; (void)rank; (void)dims;
  return false;
}
void *dfk_scratch(df_kernel *k, int64_t bytes) { return dfc_host->scratch(k, bytes); }
void  dfk_free(void *p) { dfc_host->free(p); }
char *dfk_shape_text(const df_tensor *t, char *buffer, size_t bytes) { return dfc_host->shape_text(t, buffer, bytes); }
uint64_t dfk_tag(const df_kernel *k) { return dfc_host->tag(k); }
int64_t  dfk_graph_seed(const df_kernel *k) { return dfc_host->graph_seed(k); }
const char *df_dtype_name(int32_t dtype) { return dfc_host->dtype_name(dtype); }
int32_t df_dtype_bytes(int32_t dtype) { return dfc_host->dtype_bytes(dtype); }

df_tensor *df_tensor_new(int32_t dtype, int32_t rank, const int64_t *dims, df_error *err) {
  return dfc_host->tensor_new(dtype, rank, dims, err);
}
void df_tensor_release(df_tensor *t) { dfc_host->tensor_release(t); }

int32_t dfk_fail(df_kernel *k, int32_t code, const char *format, ...) {
  char message[900];
  va_list a;
  va_start(a, format);
  vsnprintf(message, sizeof message, format, a);
  va_end(a);
  return dfc_host->fail(k, code, "%s", message);
}

/* ---- names of kernels -------------------------------------------------------------------------------------------- */

static const char *suffix_of(int32_t dtype) {
  switch (dtype) {
    case DF_FLOAT32: return "f32";
    case DF_FLOAT64: return "f64";
    case DF_FLOAT16: return "f16";
    case DF_BFLOAT16: return "b16";
    case DF_INT32: return "i32";
    case DF_INT64: return "i64";
    case DF_INT8: return "i8";
    case DF_UINT8: return "u8";
    case DF_BOOL: return "bool";
    case DF_COMPLEX64: return "c64";
    case DF_COMPLEX128: return "c128";
    default: return NULL;
  }
}

/* A string that is made once: names are told apart by their address. */
static const char *one_string(const char *prefix, const char *suffix) {
  enum { NAMES = 4096 };
  static struct { const char *prefix, *suffix; char *name; } known[NAMES];
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  uint32_t h = (uint32_t)(((uintptr_t)prefix >> 2) * 31 + ((uintptr_t)suffix >> 2)) * 0x9e3779b1u >> 16;
  const char *found = NULL;
  pthread_mutex_lock(&lock);
  for (int32_t tries = 0; tries < NAMES && !found; tries++, h++) {
    h %= NAMES;
    if (!known[h].name) {
      char text[64];
      snprintf(text, sizeof text, "k_%s_%s", prefix, suffix);
      known[h].prefix = prefix; known[h].suffix = suffix;
      if (!(known[h].name = strdup(text))) break;
    }
    if (known[h].prefix == prefix && known[h].suffix == suffix) found = known[h].name;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

const char *dfc_name(const char *prefix, int32_t dtype) {
  const char *suffix = suffix_of(dtype);
  return suffix ? one_string(prefix, suffix) : NULL;
}
const char *dfc_width_name(const char *prefix, int64_t bytes) {
  static const char *const widths[] = { "8", "16", "32", "64", "128" };
  for (int32_t i = 0; i < 5; i++) if (bytes == 1 << i) return one_string(prefix, widths[i]);
  return NULL;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

dfc_call dfc_begin(df_kernel *k) {
  dfc_call c = { .k = k, .g = dfc_host->device(k), .ok = true };
  dfc_enter(c.g);
  return c;
}

void dfc_drop(dfc_call *c) {
  while (c->ntemporary) dfc_release(c->g, c->temporary[--c->ntemporary]);
}

int32_t dfc_end(dfc_call *c) {
  dfc_drop(c);
  const bool broken = c->g->error[0] != 0;
  char why[500], said[300];
  memcpy(why, c->g->error, sizeof why);
  memcpy(said, c->g->said, sizeof said);
  c->g->said[0] = 0;
  dfc_leave(c->g);
  if (c->ok && !broken) return DF_OK;
  if (c->said && !broken) return c->k->error->code;
  if (!broken && said[0]) return dfk_fail(c->k, DF_INTERNAL, "%s", said);
  return broken ? dfk_fail(c->k, DF_UNAVAILABLE, "%s", why)
                : dfk_fail(c->k, DF_RESOURCE_EXHAUSTED, "out of memory for what the kernel needs beside its outputs");
}

df_tensor *dfc_out(dfc_call *c, int32_t i, int32_t dtype, int32_t rank, const int64_t *dims) {
  dfc_leave(c->g);                                       /* which the finder of memory for it takes */
  df_tensor *t = dfk_out(c->k, i, dtype, rank, dims);
  dfc_enter(c->g);
  if (!t) { c->ok = false; c->said = true; }
  return t;
}

void dfc_bring(dfc_call *c, void *to, const void *from, int64_t bytes) {
  if (!c->ok || dfc_download(c->g, to, (CUdeviceptr)(uintptr_t)from, bytes)) return;
  c->ok = false;
  if (c->g->error[0]) return;
  c->said = true;
  dfk_fail(c->k, DF_CANCELLED, "the run gave up waiting for what gpu:%d computes", c->g->number);
}

/* The GPU has no more memory: is some given back? Not while work is captured, which may give up itself. */
static bool makes_room(dfc_call *c) {
  if (dfc_capturing || c->g->error[0]) return false;
  dfc_leave(c->g);                                       /* which what gives it back takes */
  const bool some = dfc_host->makes_room();
  dfc_enter(c->g);
  return some;
}

void *dfc_temporary(dfc_call *c, const void *from, int64_t bytes) {
  CUdeviceptr p = 0;
  /* once more after none was found: another thread may just have been given it */
  for (bool some = true; c->ntemporary < DFC_TEMPORARIES && !(p = dfc_alloc(c->g, bytes)) && some;)
    some = makes_room(c);
  if (!p) { c->ok = false; return NULL; }
  c->temporary[c->ntemporary++] = p;
  if (from && bytes && !dfc_upload(c->g, p, from, bytes)) c->ok = false;
  return (void *)(uintptr_t)p;
}

const void *dfc_read(dfc_call *c, const df_tensor *t) {
  void *note = dfc_host->note(t);
  if (note) { c->ok &= dfc_mine(c->g, note); return t->data; }
  return dfc_temporary(c, t->data, t->size * df_dtype_bytes(t->dtype));
}

dfc_operand dfc_operand_of(dfc_call *c, const df_tensor *t) {
  dfc_operand o = { 0 };
  const size_t bytes = (size_t)df_dtype_bytes(t->dtype);
  if (t->size == 1 && bytes <= sizeof o.bits && !dfc_host->note(t)) memcpy(&o.bits, t->data, bytes);
  else o.at = dfc_read(c, t);
  return o;
}

void *dfc_write(dfc_call *c, const df_tensor *t) {
  c->ok &= dfc_mine(c->g, dfc_host->note(t));
  return t->data;
}

void dfc_run_blocks(dfc_call *c, const char *name, int64_t blocks, int32_t threads, const void *args) {
  if (!c->ok || blocks <= 0) return;
  if (!name) { c->ok = false; return; }
  c->ok = dfc_launch(c->g, name, blocks, threads, args);
}

void dfc_run(dfc_call *c, const char *name, int64_t n, const void *args) {
  enum { THREADS = 256 };
  const int64_t wanted = (n + THREADS - 1) / THREADS, most = (int64_t)c->g->processors * 64;
  dfc_run_blocks(c, name, wanted < most ? wanted : most, THREADS, args);
}

/* ---- .takes ------------------------------------------------------------------------------------------------------ */

bool dfc_takes_numbers(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return nin > 0 && in[0] < 32 && (DFC_NUMBERS >> in[0] & 1);
}
bool dfc_takes_floats(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return nin > 0 && in[0] < 32 && (DFC_FLOATS >> in[0] & 1);
}
bool dfc_takes_ring(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return nin > 0 && in[0] < 32 && ((DFC_NUMBERS | DFC_COMPLEX) >> in[0] & 1);
}
bool dfc_takes_field(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return nin > 0 && in[0] < 32 && ((DFC_FLOATS | DFC_COMPLEX) >> in[0] & 1);
}
bool dfc_takes_complex(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return nin > 0 && dfk_is_complex(in[0]);
}
bool dfc_takes_plain(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  for (int32_t i = 0; i < nin; i++) if (!dfk_plain(in[i]) || in[i] == DF_RESOURCE) return false;
  for (int32_t i = 0; i < nout; i++) if (!dfk_plain(out[i]) || out[i] == DF_RESOURCE) return false;
  return true;
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

static const char *open_plugin(const dfi_gpu_host *host) {
  dfc_host = host;
  return dfc_driver_open();
}

static const dfi_gpu_kernel *all_kernels(int32_t *n) {
  const dfc_table *const tables[] = {
    &dfc_elementwise, &dfc_array, &dfc_reduce, &dfc_index, &dfc_products, &dfc_random,
    &dfc_windows, &dfc_makers, &dfc_by_segment, &dfc_searches, &dfc_norms, &dfc_einsums,
    &dfc_cells, &dfc_resizes, &dfc_fakes, &dfc_pictures, &dfc_bands, &dfc_choices, &dfc_complexes,
    &dfc_fouriers, &dfc_matrix, &dfc_rejection_samplings, &dfc_boxed, &dfc_attentions
  };
  static dfi_gpu_kernel *all;
  static int32_t count;
  if (!all) {
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) count += tables[i]->n;
    if (!(all = malloc(sizeof *all * (size_t)count))) { *n = 0; return NULL; }
    int32_t at = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
      memcpy(all + at, tables[i]->at, sizeof *all * (size_t)tables[i]->n);
      at += tables[i]->n;
    }
  }
  *n = count;
  return all;
}

static void about(const dfi_remote *r, dfi_gpu_about *out) {
  dfc_gpu *g = r->device;
  dfc_enter(g);
  *out = (dfi_gpu_about){ .memory_bytes = g->memory_bytes, .launches = g->launches, .copies_in = g->copies_in,
      .copies_out = g->copies_out, .major = g->major,
                          .minor = g->minor };
  memcpy(out->name, g->name, sizeof out->name);
  out->fused = g->fused;
  out->graphs = g->graphs;
  out->copies_across = g->copies_across;
  char products[300], kernels[300], convolutions[300];
  dfc_blas_about(g, products, sizeof products);
  dfc_nvrtc_about(kernels, sizeof kernels);
  dfc_dnn_about(g, convolutions, sizeof convolutions);
  snprintf(out->libraries, sizeof out->libraries, "%s\n%s\n%s", products, kernels, convolutions);
  dfc_leave(g);
}

__attribute__((visibility("default"))) const dfi_gpu_api dflow_gpu = {
  .version = DFI_GPU_VERSION,
  .open = open_plugin,
  .count = dfc_count,
  .device = dfc_device,
  .about = about,
  .kernels = all_kernels,
  .fuses = dfc_fused_has,
  .counts = dfc_persistent_has,
};
