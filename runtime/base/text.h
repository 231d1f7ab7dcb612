/* text.h: a text that grows as it is written. */
#ifndef DFLOW_TEXT_H
#define DFLOW_TEXT_H
#include <stddef.h>

/* at: owned, freed by dfi_free, with a 0 behind n bytes; NULL: nothing was written. It begins as zeros. */
typedef struct dfi_text { char *at; size_t n, room; } dfi_text;
void dfi_text_add(dfi_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
