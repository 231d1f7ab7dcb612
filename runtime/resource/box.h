/* box.h: tensors in variants: a handle that holds some values, as SerializeSparse and RaggedTensorToVariant make them.
   */
#ifndef DFLOW_BOX_H
#define DFLOW_BOX_H
#include "base/internal.h"

/* n values that belong together, never changed. Type DFI_BOX: one tensor. DFI_RAGGED: row splits, outermost first, then
   the values. */
typedef struct dfi_box {
  dfi_handle base;
  int32_t    n;
  df_tensor *tensor[];         /* n; owned */
} dfi_box;

/* One reference, owned; its tensors are still to be set. */
dfi_box *dfi_box_new(int32_t type, int32_t n);
#endif
