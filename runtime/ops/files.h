/* files.h: ops that name files. */
#ifndef DFLOW_FILES_H
#define DFLOW_FILES_H
#include "op/op.h"

/* The path that input i is, owned (dfi_free). NULL: k->error says why it is none, or may not be used. */
char *dfi_path_input(df_kernel *k, int32_t i);
#endif
