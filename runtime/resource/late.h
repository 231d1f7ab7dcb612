/* late.h: sums of products, and of rows, that are computed where they are read: the gradients of weights and of
 * embeddings, where calls of a function are computed as one.
 *
 * The gradient of a matrix by one call is a' b of few rows, a matrix as large as the weights; it is only ever added to
 * others of its kind. So the values are kept as what they are sums of, and the first that reads one gets one product
 * over all rows, those of all a and all b one behind the other. The gradient of an embedding is a few rows in a matrix
 * of zeros: it is kept as those rows and their places. That adds up in another order than one product after the other:
 * the results agree within the rounding of a sum of so many terms. The order depends on the program alone.
 *
 * Such a value travels as a handle with the dtype of the matrix. The engine computes it where a kernel reads it that
 * knows nothing of it (engine/tokens/batch.c). What the terms hold is bounded: a sum that holds more than twice the
 * matrix, and a few megabytes, is computed at once and goes on as one term.
 */
#ifndef DFLOW_LATE_H
#define DFLOW_LATE_H
#include "base/internal.h"

typedef struct dfi_late dfi_late;
enum { DFI_LATE_SUM = 22 };    /* a handle's type, among those of base/internal.h */

/* The sum that v is; NULL: it is something else. */
dfi_late *dfi_late_of(const df_value *v);
/* What rules of plan/batch.h name: a' b of few rows; few rows in a matrix; zeros that are large; a sum of which a term
   is late. Where k->reusable has its bit, an input's terms are taken from it. */
bool dfi_late_product(df_kernel *k);
bool dfi_late_segments(df_kernel *k);
bool dfi_late_fill(df_kernel *k);
bool dfi_late_add(df_kernel *k);
/* What it comes to, owned, and kept for the next that asks; NULL: k->error is filled. k: threads and errors. */
df_tensor *dfi_late_compute(dfi_late *l, df_kernel *k);
#endif
