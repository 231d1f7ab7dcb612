/* checkpoint_part.h: parts of tensors, as checkpoints of partitioned variables hold them. */
#ifndef DFLOW_CHECKPOINT_PART_H
#define DFLOW_CHECKPOINT_PART_H
#include "base/internal.h"

/* In each dimension `length` from `start` on; whole: all of it, and the file said no numbers. */
typedef struct dfi_part {
  int32_t rank;
  int64_t start[DF_MAX_RANK], length[DF_MAX_RANK];
  bool    whole[DF_MAX_RANK];
} dfi_part;

/* `4 10 0,2:-`: the part [0, 2) x [0, 10) of a tensor [4, 10], whose dims are given, too. False: the text is none. */
bool    dfi_part_parse(const char *text, dfi_part *p, int64_t *dims);
/* Does it lie in a tensor of these dims? Dimensions that are whole get their length. */
bool    dfi_part_fits(dfi_part *p, int32_t rank, const int64_t *dims);
int64_t dfi_part_size(const dfi_part *p);
bool    dfi_part_meets(const dfi_part *a, const dfi_part *b);           /* have they an element in common? */
/* The key under which an index has that part of the tensor `name`: *n bytes, owned. */
char   *dfi_part_key(const char *name, const dfi_part *p, size_t *n);
/* Copies `part` into its place in `whole`, or out of it. Both have one dtype; the one that is written is fresh. */
int32_t dfi_part_put(df_tensor *whole, const dfi_part *p, const df_tensor *part, df_error *err);
int32_t dfi_part_take(const df_tensor *whole, const dfi_part *p, df_tensor *part, df_error *err);
#endif
