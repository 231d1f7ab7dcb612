/* variant.h: what variants hold besides lists, and what is done to any of it: zeros of its kind, and sums. */
#ifndef DFLOW_VARIANT_H
#define DFLOW_VARIANT_H
#include "resource/list.h"

/* Some values, or none. It is never changed once it may have another holder. */
typedef struct dfi_optional {
  dfi_handle base;
  int32_t    n;                /* -1: it has no value */
  df_value   value[];          /* n; owned */
} dfi_optional;

/* One reference, owned; its n values are missing, and are the caller's to fill in. */
dfi_optional *dfi_optional_new(int32_t n);

/* *to += v, of one dtype and shape; a missing *to becomes v, which is borrowed. */
int32_t dfi_value_add(df_kernel *k, df_value *to, const df_value *v);

/* Kernels of ops elsewhere, on variants. */
int32_t dfi_variant_zeros_like(df_kernel *k);
int32_t dfi_variant_add_n(df_kernel *k);
int32_t dfi_variant_no_memory(df_kernel *k);    /* fails: an element takes more than there is */
#endif
