/* holders.h: what holds the memory of a device, and what waits until there is more of it. */
#ifndef DFLOW_HOLDERS_H
#define DFLOW_HOLDERS_H
#include "engine/executor.h"
/* Appends to text, from its start, "; the largest holders are …" with the nodes whose values take most of the device's
 * memory in this run, and their Lua lines; "" when there are none. Returns text. */
char *dfi_holders_text(const dfi_exec *x, int32_t device, char *text, size_t bytes);
/* Shall something of so many bytes come to the device later, because it would fill it before it is used? Messages and
   reads of what was saved are ready long before others need them, and so is some of what runs ahead: while so much is
   not spare (three eighths at least, five at most) they wait, as long as something else can move. An owner that is
   told so comes again (dfi_exec_requeue). */
bool  dfi_held_back(dfi_exec *x, const dfi_record *r, const dfi_device *d, int64_t bytes, int64_t spare);
/* Bytes as `1.5 MB`. Returns text. */
char *dfi_size_text(int64_t bytes, char text[32]);
#endif
