/* table.h: tables filled from files. */
#ifndef DFLOW_OPS_TABLE_H
#define DFLOW_OPS_TABLE_H
#include "resource/table.h"

/* Inputs table, path; attributes key_index, value_index, vocab_size, delimiter, offset. The caller has the table's
   lock. */
int32_t dfi_table_fill_from_file(dfi_table *t, df_kernel *k);
#endif
