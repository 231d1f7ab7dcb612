/* complex.c: launchers of complex numbers and their parts. */
#include "plugin.h"
#include "../array.h"

static int32_t run_real(df_kernel *k)  { return dfc_map(k, "real", 0); }
static int32_t run_imag(df_kernel *k)  { return dfc_map(k, "imag", 0); }
static int32_t run_angle(df_kernel *k) { return dfc_map(k, "angle", 0); }
static int32_t run_size(df_kernel *k)  { return dfc_map(k, "size", 0); }
static int32_t run_conj(df_kernel *k) {
  return dfk_is_complex(k->in[0]->dtype) ? dfc_map(k, "conj", 0) : dfk_out_forward(k, 0, 0, k->in[0]->rank, NULL);
}
static int32_t run_complex(df_kernel *k) {
  return dfc_map_spread(k, dfc_name("complex", k->in[0]->dtype), 2, k->out_dtype[0], 0);
}

/* x, perm: transposed, and conjugated where that lies. */
static int32_t run_conjugate_transpose(df_kernel *k) {
  const int32_t code = cpu_transpose(k);
  if (code || !dfk_is_complex(k->in[0]->dtype)) return code;
  const df_tensor *z = k->out[0].as.tensor;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  const dfc_unary p = { .x = z->data, .z = dfc_write(&c, z), .n = z->size };
  dfc_run(&c, dfc_name("conj", z->dtype), p.n, &p);
  return dfc_end(&c);
}

static bool takes_parts(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[0] == DF_FLOAT32 || in[0] == DF_FLOAT64;
}
static const dfi_gpu_kernel kernels[] = {
  { .op = "Real", .run = run_real, .takes = dfc_takes_complex },
  { .op = "Imag", .run = run_imag, .takes = dfc_takes_complex },
  { .op = "Angle", .run = run_angle, .takes = dfc_takes_complex },
  { .op = "ComplexAbs", .run = run_size, .takes = dfc_takes_complex },
  { .op = "Conj", .run = run_conj, .takes = dfc_takes_plain },
  { .op = "Complex", .run = run_complex, .takes = takes_parts },
  { .op = "ConjugateTranspose", .run = run_conjugate_transpose, .host_in = 2, .takes = dfc_takes_plain },
};
const dfc_table dfc_complexes = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
