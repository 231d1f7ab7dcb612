/* tape.h: what one call of a graph function keeps for its gradient: some of its values, by slot. */
#ifndef DFLOW_TAPE_H
#define DFLOW_TAPE_H
#include "base/internal.h"

typedef struct dfi_tape {
  dfi_handle base;
  int32_t    n;
  df_value  *slot;             /* n; owned; DF_EMPTY where nothing was put */
  struct dfi_tape *next;       /* of those that are being let go */
} dfi_tape;

/* One reference, owned; empty. */
dfi_tape *dfi_tape_new(void);
void      dfi_tape_put(dfi_tape *t, int32_t slot, const df_value *v);    /* v borrowed */
/* The tape that a handle is; NULL: it is another resource. */
dfi_tape *dfi_tape_of(const df_value *v);
#endif
