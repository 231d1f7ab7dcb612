/* checkpoint.h: TensorFlow's checkpoint files, its second format: PREFIX.index, a sorted table of what there is, and
 * PREFIX.data-00000-of-00001, the bytes (and so on, where they lie in several files).
 */
#ifndef DFLOW_CHECKPOINT_H
#define DFLOW_CHECKPOINT_H
#include "base/internal.h"

typedef struct dfi_checkpoint dfi_checkpoint;
/* Reads the index. Owned; NULL: err is filled. */
dfi_checkpoint *dfi_checkpoint_open(const char *prefix, df_error *err);
void            dfi_checkpoint_close(dfi_checkpoint *c);
int32_t         dfi_checkpoint_count(const dfi_checkpoint *c);
const char     *dfi_checkpoint_name(const dfi_checkpoint *c, int32_t i);     /* in byte order; borrowed */
/* The tensor of that name, owned; its bytes are checked against their sum. part: NULL or empty, or the part that is
 * wanted, as a partitioned variable's, in TensorFlow's words (checkpoint_part.h). NULL: err is filled. */
df_tensor      *dfi_checkpoint_read(dfi_checkpoint *c, const char *name, const char *part, df_error *err);
/* Writes n tensors, whose names differ. Until all is written the checkpoint that was there is whole; then its files are
 * removed. */
int32_t dfi_checkpoint_write(const char *prefix, int32_t n, const char *const *name, const df_tensor *const *tensor,
                             df_error *err);
/* Removes a checkpoint's files, as far as they are there. */
void dfi_checkpoint_remove(const char *prefix);
#endif
