/* table.h: a table of a session: from keys, whole numbers or strings, to values of one shape.
 *
 * Entries lie one behind the other in the order in which they came; `slot` finds them, by open addressing with linear
 * probing. What is removed is replaced by the last entry.
 *
 * All calls take the table's lock. Any thread.
 */
#ifndef DFLOW_TABLE_H
#define DFLOW_TABLE_H
#include "op/op.h"

typedef struct dfi_table_spec { const char *name; uint8_t key, value; dfi_shape element; bool grows; } dfi_table_spec;

typedef struct dfi_table {
  dfi_handle      base;
  char           *name;              /* owned */
  uint8_t         key, value;        /* dtypes; key: int32, int64 or string */
  dfi_shape       element;           /* of a value; known */
  int64_t         cells;             /* elements of a value */
  bool            grows;             /* entries may come and go; else it is filled once */
  pthread_mutex_t lock;              /* guards what follows */
  bool            filled;            /* of one that does not grow */
  df_tensor      *refused[2];        /* scalars that are no keys; owned; or NULL */
  int64_t         n, room;           /* entries */
  uint64_t       *hash;              /* room; owned */
  df_str         *text;              /* room; of string keys; owned with their bytes */
  int64_t        *number;            /* room; of the others */
  char           *data;              /* room values side by side; strings own their bytes */
  int64_t        *slot, nslots;      /* entry + 1, or 0; a power of two, less than 3/4 full */
} dfi_table;

/* One reference, owned. NULL: err is filled. */
dfi_table *dfi_table_new(const dfi_table_spec *s, df_error *err);

/* These two scalars are no keys of the table from now on. */
int32_t dfi_table_refuse(dfi_table *t, df_kernel *k, const df_tensor *empty, const df_tensor *deleted);

/* Calls of kernels; inputs are those of the ops (ops/table.c). values of keys that are not there: of default. */
int32_t dfi_table_find(dfi_table *t, df_kernel *k);
/* keys' values from then on; `clear`: what was there before goes. */
int32_t dfi_table_insert(dfi_table *t, df_kernel *k, bool clear);
/* Of a table that does not grow: the first time it fills it, later it changes nothing. */
int32_t dfi_table_fill(dfi_table *t, df_kernel *k);
int32_t dfi_table_remove(dfi_table *t, df_kernel *k);
int32_t dfi_table_export(dfi_table *t, df_kernel *k);
int64_t dfi_table_size(dfi_table *t);
#endif
