/* message.h: what ranks send each other, as bytes: a fixed head, the numbers of the iterations around it, a value's
 * dimensions, and its elements. All ranks run the same build on the same kind of machine, so numbers are as they lie in
 * memory; what comes from another process is checked before it is believed.
 *
 * The elements may be longer than a packet. Then the first packet is full, and those that follow are elements alone.
 */
#ifndef DFLOW_MESSAGE_H
#define DFLOW_MESSAGE_H
#include "plan/plan.h"

typedef enum dfi_message_kind {
  DFI_MESSAGE_VALUE = 1,         /* of an edge: what a Recv waits for */
  DFI_MESSAGE_CROSSING,          /* something fed, that crosses when the run begins */
  DFI_MESSAGE_END,               /* a rank has done its part of the run; the payload is what it counted */
  DFI_MESSAGE_FAIL,              /* the run has failed there; the payload is the df_error */
  DFI_MESSAGE_STALL,             /* whether anything can move: stall.c */
  DFI_MESSAGE_WATCH,             /* how the run is looked at: observe/halt.c */
  DFI_MESSAGE_KERNEL,            /* a kernel that runs where its variables are: far_kernel.c */
  DFI_MESSAGE_CLUSTER            /* none of a run's */
} dfi_message_kind;

typedef struct dfi_head {
  uint64_t run;
  uint32_t edge;                 /* the Transfer's place among the plan's nodes; a crossing's number */
  uint16_t owner;                /* the receiver */
  uint8_t  kind, dead;
  uint8_t  depth, value, dtype, rank;    /* iteration numbers; df_kind, dtype and dimensions of the value */
  uint32_t delay;                /* microseconds that its link takes; UINT32_MAX: for ever */
  int64_t  bytes;                /* of what follows the dimensions; of a number: the number */
} dfi_head;
_Static_assert(sizeof(dfi_head) == 32, "the head of a message has no holes");

/* A message on its way: its head and dimensions, and where its elements lie. */
typedef struct dfi_message {
  dfi_head head;
  int64_t  number[DFI_TAG_DEPTH + DF_MAX_RANK];      /* of the iterations, innermost first; then the dimensions */
  const void *payload;           /* head.bytes of them, where the value is no number */
  df_value value;                /* owned: it holds the payload */
  void    *packed;               /* owned: the payload, where it does not lie in memory as it is sent */
  int64_t  sent;                 /* bytes of the payload that have gone */
  struct dfi_message *next;
} dfi_message;

/* Fills the message's value part with v, which is consumed. False: it is none that can leave a process, or there is no
 * memory; err says which, and the message holds nothing. */
bool dfi_message_value(dfi_message *m, df_value *v, df_error *err);
void dfi_message_drop(dfi_message *m);
static inline int64_t dfi_message_front(const dfi_head *h) {
  return (int64_t)sizeof *h + 8 * ((int64_t)h->depth + h->rank);
}
static inline int64_t dfi_message_payload(const dfi_head *h) { return h->value == DF_SCALAR ? 0 : h->bytes; }

/* A message that comes in: packets are added until it is there. */
typedef struct dfi_incoming {
  dfi_head head;
  int64_t  number[DFI_TAG_DEPTH + DF_MAX_RANK];
  df_value value;                /* owned; a tensor whose elements are filled in as they come */
  unsigned char *to;             /* where the payload goes: into the tensor, or into `packed` */
  void    *packed;               /* owned, by free(); NULL: the payload goes where it stays */
  int64_t  got;
  bool     begun;
} dfi_incoming;

typedef enum dfi_came { DFI_CAME_PART, DFI_CAME_WHOLE, DFI_CAME_WRONG, DFI_CAME_NO_MEMORY } dfi_came;
/* Takes the next packet. WHOLE: it is complete: the value is the caller's, and so is `packed` where the kind has no
 * value. After that, or WRONG, the next packet begins a new one. NO_MEMORY: it goes on, and its value is EMPTY. */
dfi_came dfi_incoming_take(dfi_incoming *in, const void *packet, int64_t bytes);
void dfi_incoming_drop(dfi_incoming *in);

/* A value as bytes, owned (dfi_free), *n of them, and back: session/cluster.h. */
void *dfi_value_pack(const df_value *v, int64_t *n, df_error *err);
bool  dfi_value_unpack(const void *bytes, int64_t n, df_value *out);
#endif
