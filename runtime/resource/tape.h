/* tape.h: what one call of a graph function keeps for its gradient: some of its values, by slot.
 *
 * The gradient of a tape is a tape, as that of a TensorArray is an array: it adds up what comes to a slot, and a slot
 * to which nothing came reads as zeros of the shape that the forward tape has there, or as the gradient of the handle.
 */
#ifndef DFLOW_TAPE_H
#define DFLOW_TAPE_H
#include "base/internal.h"

typedef struct dfi_tape {
  dfi_handle base;
  int32_t    n;
  df_value  *slot;             /* n; owned; DF_EMPTY where nothing was put */
  struct dfi_tape *forward;    /* of a gradient: the tape it belongs to; one reference */
  struct dfi_tape *next;       /* of those that are being let go */
} dfi_tape;

/* One reference, owned; empty. */
dfi_tape *dfi_tape_new(void);
void      dfi_tape_put(dfi_tape *t, int32_t slot, const df_value *v);    /* v borrowed */
/* The tape that a handle is; NULL: it is another resource. */
dfi_tape *dfi_tape_of(const df_value *v);
/* A gradient gets one more v, borrowed. */
int32_t   dfi_tape_add(dfi_tape *t, int32_t slot, const df_value *v, df_error *err);
/* What lies in a slot, owned; of a gradient zeros where nothing does. out->kind is DF_EMPTY where nothing was put. */
int32_t   dfi_tape_get(dfi_tape *t, int32_t slot, df_value *out, df_error *err);

/* Of handles that have gradients, tapes and TensorArrays: an empty one, owned; NULL: err is filled. And what `other`
   has, added to `to`, both gradients. */
dfi_handle *dfi_gradient_new(dfi_handle *forward, df_error *err);
int32_t     dfi_gradient_join(dfi_handle *to, dfi_handle *other, df_error *err);
#endif
