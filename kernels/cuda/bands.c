/* bands.c: launchers of bands of diagonals. */
#include "plugin.h"
#include "../bands.h"
#include "../move.h"
#include <string.h>

static int32_t run(df_kernel *k, const char *prefix, const dfk_bands *b, df_tensor *z, const df_tensor *x,
                   const df_tensor *rest) {
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_packing p;
  memset(&p, 0, sizeof p);
  p.x = dfc_read(&c, x);
  p.rest = dfc_operand_of(&c, rest);
  p.whole = rest->size > 1;
  p.z = dfc_write(&c, z);
  p.n = z->size;
  p.low = b->low; p.high = b->high; p.rows = b->rows; p.cols = b->cols; p.width = b->width;
  p.left_above = b->align.left_above; p.left_below = b->align.left_below;
  dfc_run(&c, dfc_width_name(prefix, dfk_width(z->dtype)), p.n, &p);
  return dfc_end(&c);
}

static int32_t part(df_kernel *k, bool left) {
  dfk_bands b;
  df_tensor *z = dfk_bands_part_begin(k, left, &b);
  return run(k, "pack", &b, z, k->in[0], k->in[2]);
}
static int32_t matrix(df_kernel *k, bool left) {
  dfk_bands b;
  df_tensor *z = dfk_bands_matrix_begin(k, left, &b);
  return run(k, "unpack", &b, z, k->in[0], k->in[4]);
}
static int32_t set(df_kernel *k, bool left) {
  dfk_bands b;
  df_tensor *z = dfk_bands_set_begin(k, left, &b);
  return run(k, "unpack", &b, z, k->in[1], k->in[0]);
}
static int32_t run_part(df_kernel *k)        { return part(k, false); }
static int32_t run_part_left(df_kernel *k)   { return part(k, true); }
static int32_t run_matrix(df_kernel *k)      { return matrix(k, false); }
static int32_t run_matrix_left(df_kernel *k) { return matrix(k, true); }
static int32_t run_set(df_kernel *k)         { return set(k, false); }
static int32_t run_set_left(df_kernel *k)    { return set(k, true); }

static bool takes_narrow(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return dfk_plain(in[0]) && in[0] != DF_RESOURCE;
}
static const dfi_gpu_kernel kernels[] = {
  { .op = "MatrixDiagPartV2", .run = run_part_left, .host_in = 2, .takes = takes_narrow },
  { .op = "MatrixDiagPartV3", .run = run_part, .host_in = 2, .takes = takes_narrow },
  { .op = "MatrixDiagV2", .run = run_matrix_left, .host_in = 2 | 4 | 8, .takes = takes_narrow },
  { .op = "MatrixDiagV3", .run = run_matrix, .host_in = 2 | 4 | 8, .takes = takes_narrow },
  { .op = "MatrixSetDiagV2", .run = run_set_left, .host_in = 4, .takes = takes_narrow },
  { .op = "MatrixSetDiagV3", .run = run_set, .host_in = 4, .takes = takes_narrow },
};
const dfc_table dfc_bands = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
