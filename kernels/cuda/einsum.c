/* einsum.c: the launcher of sums of products in Einstein's notation. */
#include "plugin.h"
#include "../linalg.h"
#include <string.h>

/* The labels of the result in its order, then those that are summed. */
static int32_t ordered(const dfk_einsum *e, int32_t *label) {
  bool seen[DFK_EINSUM_LABELS] = { false };
  int32_t n = 0;
  for (int32_t i = 0; i < e->out_rank; i++) { label[n++] = e->out[i]; seen[(int)e->out[i]] = true; }
  for (int32_t i = 0; i < e->n; i++)
    for (int32_t a = 0; a < e->rank[i]; a++)
      if (!seen[(int)e->label[i][a]]) { label[n++] = e->label[i][a]; seen[(int)e->label[i][a]] = true; }
  return n;
}

/* How far each input moves with each label: a label that it repeats is its diagonal, an axis of size 1 is repeated. */
static void table_of(df_kernel *k, const dfk_einsum *e, const int64_t *sizes, const int32_t *label, int32_t n,
                     int64_t *table) {
  for (int32_t l = 0; l < n; l++) table[l] = sizes[label[l]];
  for (int32_t i = 0; i < e->n; i++) {
    int64_t *step = table + n + i * n, stride = 1;
    memset(step, 0, (size_t)n * sizeof *step);
    for (int32_t a = e->rank[i] - 1; a >= 0; stride *= k->in[i]->dims[a--])
      for (int32_t l = 0; l < n && k->in[i]->dims[a] != 1; l++)
        if (label[l] == e->label[i][a]) step[l] += stride;
  }
}

static int32_t run_einsum(df_kernel *k) {
  dfk_einsum e;
  int64_t sizes[DFK_EINSUM_LABELS], dims[DF_MAX_RANK],
      table[DFK_EINSUM_LABELS * (DFK_EINSUM_INPUTS + 1)];
  int32_t label[DFK_EINSUM_LABELS], code = dfk_einsum_of(k, &e, sizes);
  if (code) return code;
  for (int32_t i = 0; i < e.out_rank; i++) dims[i] = sizes[(int)e.out[i]];
  df_tensor *z = dfk_out(k, 0, k->in[0]->dtype, e.out_rank, dims);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  const int32_t n = ordered(&e, label);
  table_of(k, &e, sizes, label, n, table);
  dfc_call c = dfc_begin(k);
  dfc_einsum p;
  memset(&p, 0, sizeof p);
  p.table = dfc_temporary(&c, table, (int64_t)n * (e.n + 1) * (int64_t)sizeof *table);
  for (int32_t i = 0; i < e.n; i++) p.in[i] = dfc_read(&c, k->in[i]);
  p.z = dfc_write(&c, z);
  p.n = z->size;
  p.terms = 1;
  for (int32_t l = e.out_rank; l < n; l++) p.terms *= table[l];
  p.inputs = e.n; p.labels = n; p.kept = e.out_rank;
  dfc_run(&c, dfc_name("einsum", z->dtype), p.n, &p);
  return dfc_end(&c);
}

static bool takes(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[0] < 32 && ((DFC_FLOATS | DFC_COMPLEX | DFC_BIT(DF_INT32) | DFC_BIT(DF_INT64)) >> in[0] & 1);
}
static const dfi_gpu_kernel kernels[] = {
  { .op = "Einsum", .run = run_einsum, .takes = takes },
};
const dfc_table dfc_einsums = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
