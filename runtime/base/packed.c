/* packed.c: copies of tensors in an order that suits a kernel, kept as long as the tensor is not written.
 *
 * The weights of a recurrent cell are multiplied with at every step and change once a run. A product reads them in
 * panels, and making the panels is a sixth to a third of its time when there are few rows. So the second product that
 * reads the same storage in the same way makes them for all that come after. A buffer knows by one byte whether
 * something is kept of it: freeing one, or finding that it may be written to (dfi_tensor_exclusive), forgets it. What
 * is kept counts as memory of tensors.
 */
#include "base/internal.h"
#include "kernels/kernel.h"

typedef enum state { SEEN, FILLING, READY } state;
typedef struct packed {
  struct df_buffer *of;
  const void    *data;          /* where in the buffer */
  dfk_packing    how;
  state          state;
  void          *room;          /* owned; FILLING, READY */
  int64_t        bytes;
  struct packed *next;
} packed;

enum { BUCKETS = 256, MOST_WAYS = 4 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;     /* guards the table; the flag of a buffer is atomic */
static __attribute__((constructor)) void guard(void) { dfi_fork_guard(&lock, NULL); }
static packed *bucket[BUCKETS];

static packed **bucket_of(const struct df_buffer *b) {
  return &bucket[((uintptr_t)b >> 6) * 0x9e3779b97f4a7c15u >> 56];
}

static packed *find(const df_tensor *t, const dfk_packing *how, int32_t *ways) {
  packed *p = *bucket_of(t->buffer);
  for (*ways = 0; p; p = p->next) {
    if (p->of != t->buffer) continue;
    ++*ways;
    if (p->data == t->data && !memcmp(&p->how, how, sizeof *how)) break;
  }
  return p;
}

const void *dfk_packed(const df_tensor *t, const dfk_packing *how, int64_t bytes, void **room) {
  *room = NULL;
  if (!t || t->view || !t->buffer) return NULL;
  const void *ready = NULL;
  int32_t ways;
  pthread_mutex_lock(&lock);
  packed *p = find(t, how, &ways);
  if (!p && ways < MOST_WAYS) {
    packed **at = bucket_of(t->buffer);
    p = dfi_xcalloc(1, sizeof *p);
    *p = (packed){ .of = t->buffer, .data = t->data, .how = *how, .next = *at };
    *at = p;
    __atomic_store_n(&t->buffer->packed, 1, __ATOMIC_RELAXED);
  } else if (p && p->state == READY) {
    ready = p->room;
  } else if (p && p->state == SEEN && (p->room = dfi_alloc(bytes))) {
    p->bytes = bytes;
    p->state = FILLING;
    *room = p->room;
  }
  pthread_mutex_unlock(&lock);
  return ready;
}

void dfk_packed_done(const df_tensor *t, const void *room) {
  pthread_mutex_lock(&lock);
  for (packed *p = *bucket_of(t->buffer); p; p = p->next)
    if (p->room == room) p->state = READY;
  pthread_mutex_unlock(&lock);
}

void dfi_packed_forget(struct df_buffer *b) {
  packed *gone = NULL;
  pthread_mutex_lock(&lock);
  for (packed **at = bucket_of(b), *p; (p = *at);) {
    if (p->of != b) { at = &p->next; continue; }
    *at = p->next;
    p->next = gone;
    gone = p;
  }
  b->packed = 0;
  pthread_mutex_unlock(&lock);
  for (packed *next; gone; gone = next) {
    next = gone->next;
    df_assert(gone->state != FILLING);
    dfi_release(gone->room, gone->bytes);
    dfi_free(gone);
  }
}
