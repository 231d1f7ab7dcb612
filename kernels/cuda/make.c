/* make.c: launchers of what makes arrays out of little, and of what a rule about places makes of another. */
#include "plugin.h"
#include "../array.h"
#include "../blocks.h"
#include "../convert_ops.h"
#include "../index.h"
#include "../linalg.h"
#include "../move.h"
#include "../search.h"
#include "../v1.h"
#include <string.h>

_Static_assert((int)DFC_OF_INT8 == DF_INT8 && (int)DFC_OF_UINT8 == DF_UINT8 && (int)DFC_OF_INT32 == DF_INT32 &&
                   (int)DFC_OF_INT64 == DF_INT64,
               "kernels know dtypes of integers by these numbers");

static int32_t run_one_hot(df_kernel *k) {
  int64_t prefix, depth, suffix;
  df_tensor *z = dfk_one_hot_begin(k, &prefix, &depth, &suffix);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_hot p;
  memset(&p, 0, sizeof p);
  p.indices = dfc_read(&c, k->in[0]);
  p.on = dfc_operand_of(&c, k->in[2]);
  p.off = dfc_operand_of(&c, k->in[3]);
  p.z = dfc_write(&c, z);
  p.n = z->size; p.depth = depth; p.suffix = suffix;
  p.dtype = k->in[0]->dtype;
  dfc_run(&c, dfc_width_name("one_hot", dfk_width(z->dtype)), p.n, &p);
  return dfc_end(&c);
}

static int32_t ramp(df_kernel *k, df_tensor *z, const dfk_ramp *r, bool ends) {
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_ramping p;
  memset(&p, 0, sizeof p);
  p.z = dfc_write(&c, z);
  p.n = z->size;
  p.start = r->start; p.step = r->step; p.stop = r->stop;
  p.ends = ends;
  dfc_run(&c, dfc_name("ramp", z->dtype), p.n, &p);
  return dfc_end(&c);
}
static int32_t run_range(df_kernel *k) {
  dfk_ramp r;
  df_tensor *z = dfk_range_begin(k, &r);
  return ramp(k, z, &r, false);
}
static int32_t run_lin_space(df_kernel *k) {
  dfk_ramp r;
  df_tensor *z = dfk_lin_space_begin(k, &r);
  return ramp(k, z, &r, true);
}

static int32_t run_band_part(df_kernel *k) {
  dfk_band b;
  df_tensor *z = dfk_band_part_begin(k, &b);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_banding p;
  memset(&p, 0, sizeof p);
  p.x = dfc_read(&c, k->in[0]);
  p.z = dfc_write(&c, z);
  p.size = z->size; p.m = b.m; p.n = b.n; p.lower = b.lower; p.upper = b.upper;
  dfc_run(&c, dfc_width_name("band", dfk_width(z->dtype)), p.size, &p);
  return dfc_end(&c);
}

static int32_t run_reverse_sequence(df_kernel *k) {
  const df_tensor *x = k->in[0], *lengths = k->in[1];
  int32_t seq, batch;
  df_tensor *z = dfk_reverse_sequence_begin(k, &seq, &batch);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_reversing p;
  memset(&p, 0, sizeof p);
  p.lengths = dfc_indices(&c, lengths);
  p.x = dfc_read(&c, x);
  p.z = dfc_write(&c, z);
  p.n = z->size;
  p.seq = x->dims[seq];
  p.batch = x->dims[batch];
  p.seq_step = dfk_span(x->dims, seq + 1, x->rank);
  p.batch_step = dfk_span(x->dims, batch + 1, x->rank);
  dfc_run(&c, dfc_width_name("reverse_sequence", dfk_width(z->dtype)), p.n, &p);
  return dfc_end(&c);
}

static int32_t mirror(df_kernel *k, const char *name, df_tensor *z, const int64_t *before, int32_t edge,
                      const df_tensor *padded, const df_tensor *inside) {
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_mirroring p;
  memset(&p, 0, sizeof p);
  p.x = dfc_read(&c, k->in[0]);
  p.z = dfc_write(&c, z);
  p.n = z->size;
  p.rank = z->rank;
  for (int32_t d = 0; d < z->rank; d++) {
    p.inside[d] = inside->dims[d];
    p.padded[d] = padded->dims[d];
    p.before[d] = before[d];
  }
  p.edge = edge;
  dfc_run(&c, name, p.n, &p);
  return dfc_end(&c);
}
static int32_t run_mirror_pad(df_kernel *k) {
  int64_t before[DF_MAX_RANK];
  int32_t edge = 0;
  df_tensor *z = dfk_mirror_pad_begin(k, before, &edge);
  return mirror(k, dfc_width_name("mirror", dfk_width(k->in[0]->dtype)), z, before, edge, z, k->in[0]);
}
static int32_t run_mirror_pad_grad(df_kernel *k) {
  int64_t before[DF_MAX_RANK];
  int32_t edge = 0;
  df_tensor *z = dfk_mirror_pad_grad_begin(k, before, &edge);
  return mirror(k, dfc_name("mirror_back", k->in[0]->dtype), z, before, edge, k->in[0], z);
}

static int32_t run_cross(df_kernel *k) {
  df_tensor *z = dfk_cross_begin(k);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_updating p;
  memset(&p, 0, sizeof p);
  p.a = dfc_read(&c, k->in[0]);
  p.b = dfc_read(&c, k->in[1]);
  p.to = dfc_write(&c, z);
  p.n = z->size;
  dfc_run(&c, dfc_name("cross", z->dtype), p.n, &p);
  return dfc_end(&c);
}

/* ---- the same bytes under other names ---------------------------------------------------------------------------- */
static int32_t run_bitcast(df_kernel *k) {
  df_tensor *z = dfk_bitcast_begin(k);
  if (!z) return k->error->code;
  df_tensor from = *k->in[0], to = *z;
  from.size *= dfk_width(from.dtype);
  to.size *= dfk_width(to.dtype);
  from.dtype = to.dtype = DF_UINT8;
  return dfk_copy(k, &to, 0, &from, 0, from.size) ? DF_OK : k->error->code;
}
static int32_t run_concat(df_kernel *k)  { return dfk_v1_concat(k, cpu_concat); }
static int32_t run_reverse(df_kernel *k) { return dfk_v1_reverse(k, cpu_reverse); }

static bool takes_hot(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return (in[0] == DF_INT32 || in[0] == DF_INT64 || in[0] == DF_UINT8 || in[0] == DF_INT8) &&
         dfk_plain(in[2]) && in[2] != DF_RESOURCE;
}
static bool takes_ramp(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return out[0] == DF_FLOAT32 || out[0] == DF_FLOAT64;              /* integers are shapes and indices: the host's */
}
static bool takes_narrow(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return dfk_plain(in[0]) && in[0] != DF_RESOURCE;
}

#define MOVER(type, fn, host) { .op = type, .run = fn, .host_in = host, .takes = dfc_takes_plain }
static const dfi_gpu_kernel kernels[] = {
  { .op = "OneHot", .run = run_one_hot, .host_in = 1u << 1, .takes = takes_hot },
  { .op = "Range", .run = run_range, .host_in = 7, .takes = takes_ramp },
  { .op = "LinSpace", .run = run_lin_space, .host_in = 7, .takes = takes_ramp },
  { .op = "MatrixBandPart", .run = run_band_part, .host_in = 6, .takes = takes_narrow },
  { .op = "ReverseSequence", .run = run_reverse_sequence, .host_in = 2, .takes = takes_narrow },
  { .op = "MirrorPad", .run = run_mirror_pad, .host_in = 2, .takes = takes_narrow },
  { .op = "MirrorPadGrad", .run = run_mirror_pad_grad, .host_in = 2, .takes = dfc_takes_ring },
  { .op = "Cross", .run = run_cross, .takes = dfc_takes_numbers },
  { .op = "Bitcast", .run = run_bitcast, .takes = dfc_takes_plain },
  MOVER("Diag", cpu_diag, 0),
  MOVER("DiagPart", cpu_diag_part, 0),
  MOVER("MatrixDiag", cpu_matrix_diag, 0),
  MOVER("MatrixDiagPart", cpu_matrix_diag_part, 0),
  MOVER("MatrixSetDiag", cpu_matrix_set_diag, 0),
  MOVER("SpaceToBatchND", cpu_space_to_batch, 6),
  MOVER("BatchToSpaceND", cpu_batch_to_space, 6),
  MOVER("SpaceToBatch", cpu_space_to_batch_2d, 2),
  MOVER("BatchToSpace", cpu_batch_to_space_2d, 2),
  MOVER("SpaceToDepth", cpu_space_to_depth, 0),
  MOVER("DepthToSpace", cpu_depth_to_space, 0),
  MOVER("Concat", run_concat, 1),
  MOVER("Reverse", run_reverse, 2),
  MOVER("ParallelConcat", ref_v1_parallel_concat, 0),
  MOVER("Empty", ref_v1_empty, 1),
};
const dfc_table dfc_makers = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
