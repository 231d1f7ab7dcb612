/* holders.h: who holds the memory of a device. */
#ifndef DFLOW_HOLDERS_H
#define DFLOW_HOLDERS_H
#include "engine/tokens/executor.h"
/* Appends to text, from its start, "; the largest holders are …" with the nodes whose values take most of the device's
 * memory in this run, and their Lua lines; "" when there are none. Returns text. */
char *dfi_holders_text(const dfi_exec *x, int32_t device, char *text, size_t bytes);
/* Bytes as `1.5 MB`. Returns text. */
char *dfi_size_text(int64_t bytes, char text[32]);
#endif
