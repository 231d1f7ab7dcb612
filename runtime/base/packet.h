/* packet.h: bytes that one process tells another: fixed parts first, then lists; a reader that runs past the end is
 * `bad` and reads zeros. Numbers are as they lie in memory: both are the same build on the same kind of machine.
 */
#ifndef DFLOW_PACKET_H
#define DFLOW_PACKET_H
#include "base/internal.h"

typedef struct dfi_packet { uint8_t *at; size_t n, cap; } dfi_packet;          /* being written; at: owned */
void dfi_put(dfi_packet *p, const void *bytes, size_t n);
void dfi_put_i64(dfi_packet *p, int64_t v);
void dfi_put_text(dfi_packet *p, const char *s);                               /* length, bytes */
typedef struct dfi_cursor { const uint8_t *at, *end; bool bad; } dfi_cursor;   /* being read */
const void *dfi_get(dfi_cursor *c, size_t n);                                  /* borrowed; NULL: bad */
int64_t dfi_get_i64(dfi_cursor *c);
void dfi_get_text(dfi_cursor *c, char *to, size_t room);                       /* cut to its room */
#endif
