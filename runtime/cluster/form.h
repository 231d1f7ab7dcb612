/* form.h: a graph as bytes, for another process.
 *
 * One description of each record (form_graph.c) both writes and reads it, so what is read is what was written. A form
 * belongs to one graph on one side and remembers what the other side has: texts and tensors are sent once and then go
 * by number, and a record (a node, a context, a loop, a cond, a function, or what is the whole graph's) is sent when it
 * is new or has changed. Each message ends with a sum over its bytes and over all records; the reader writes what
 * it has read once more and compares, so two graphs with the same sum are equal node for node.
 *
 * The reader trusts nothing: counts are checked against the bytes that are left, numbers against what is there, and at
 * the end the graph is checked as a whole (form_check.c).
 */
#ifndef DFLOW_FORM_H
#define DFLOW_FORM_H
#include "graph/flow.h"

enum dfi_form_kind { DFI_REC_NODE, DFI_REC_CONTEXT, DFI_REC_LOOP, DFI_REC_COND, DFI_REC_FUNCTION, DFI_REC_GRAPH,
  DFI_RECORDS };

typedef struct dfi_bytes { uint8_t *at; size_t n, cap; } dfi_bytes;   /* at: owned; grows as it is written */

typedef struct dfi_form {
  df_graph *graph;           /* retained */
  bool      building;        /* with what only further building needs: captures, effects, notes of gradients */
  bool      reading, bad;    /* bad: err says why; nothing more is read or written */
  df_error *err;             /* of the call that goes on */
  dfi_bytes out;             /* writing: the records */
  const uint8_t *in, *end;   /* reading */
  /* Texts and tensors by number; 0 is none. index: open addressing, number of what lies there. */
  const char **text;   int32_t ntext, text_cap;     uint32_t *text_index, text_mask;
  df_tensor  **tensor; int32_t ntensor, tensor_cap; uint32_t *tensor_index, tensor_mask;   /* retained */
  int32_t   texts_sent, tensors_sent;
  uint64_t *sum[DFI_RECORDS]; int32_t nsum[DFI_RECORDS], sum_cap[DFI_RECORDS];   /* of the records the other side has */
} dfi_form;

/* The form of g's side. g is retained until dfi_form_free. */
void    dfi_form_init(dfi_form *f, df_graph *g, bool building);
void    dfi_form_free(dfi_form *f);
/* Writes what has changed since the last message to `to` (its bytes are replaced; owned by the caller). *changed: there
 * is anything to send. The graph's lock is held by the caller where others may build. */
int32_t dfi_form_write(dfi_form *f, dfi_bytes *to, bool *changed, df_error *err);
/* Reads a message into the form's graph. After an error the graph is only fit to be released. `trusting`: for fuzzing
 * what comes after it, the sum is not compared. */
int32_t dfi_form_read(dfi_form *f, const void *bytes, size_t n, bool trusting, df_error *err);
/* form_graph.c: reads or writes record `id` of its kind. */
void    dfi_form_record(dfi_form *f, int32_t kind, int32_t id);
int32_t dfi_form_count(const df_graph *g, int32_t kind);       /* records of that kind in g */
bool    dfi_form_room(dfi_form *f, const int32_t *count);      /* reading: so many of each kind are there from now on */
/* form_check.c: is what was read a graph that plans can be made of? */
int32_t dfi_form_check(df_graph *g, df_error *err);

/* ---- form.c: the parts of a record; each reads or writes, and does nothing once the form is bad ---------------- */
void dfi_form_bad(dfi_form *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
void dfi_io_u64(dfi_form *f, uint64_t *v);                     /* 1 to 10 bytes, the smaller the fewer */
void dfi_io_i64(dfi_form *f, int64_t *v);                      /* the same for numbers of either sign */
void dfi_io_i32(dfi_form *f, int32_t *v);
void dfi_io_u8(dfi_form *f, uint8_t *v);
void dfi_io_bool(dfi_form *f, bool *v);
void dfi_io_double(dfi_form *f, double *v);                    /* its 8 bytes */
/* A count of things of at least `least` bytes each: reading, never more than the bytes that are left can hold. */
void dfi_io_count(dfi_form *f, int32_t *n, size_t least);
void dfi_io_raw(dfi_form *f, void *bytes, size_t n);
void dfi_io_text(dfi_form *f, const char **text);              /* interned in the graph; NULL is kept */
void dfi_io_tensor(dfi_form *f, df_tensor **t);                /* read: borrowed from the form */
#endif
