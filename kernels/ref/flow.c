/* flow.c: values handed on as they are; nothing is copied. */
#include "../flow.h"

static int32_t forward(df_kernel *k, int32_t first) {
  for (int32_t i = 0; i < k->nout; i++) {
    int32_t code = dfk_out_forward(k, i, first + i, 0, NULL);
    if (code) return code;
  }
  return DF_OK;
}

int32_t ref_identity(df_kernel *k) { return forward(k, 0); }
int32_t ref_custom_gradient(df_kernel *k) { return forward(k, (int32_t)dfk_int(k, 0)); }

bool scalar_identity(df_value *out, const df_value *a, const df_value *b, const df_value *c) {
  out->as = a->as;
  return true;
}
