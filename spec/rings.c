/* rings.c: packets between ranks, said in C: order, content, room, sleep, what is none; and values as bytes. Each
 * check is a sentence; the last line counts them.
 */
#include "engine/owners/message.h"
#include "engine/owners/rank.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int passed, failed;
static void says(const char *sentence, bool holds) {
  if (holds) passed++;
  else { failed++; printf("not true: %s\n", sentence); }
}

enum { LANE = 4096, MESSAGES = 3000 };
typedef struct pair { void *memory; int64_t bytes; dfi_rank *rank[2]; } pair;

static pair pair_new(void) {
  pair p = { .bytes = dfi_ring_lay(NULL, 2, LANE) };
  p.memory = dfi_xaligned(4096, (size_t)p.bytes);
  dfi_ring_lay(p.memory, 2, LANE);
  for (int32_t i = 0; i < 2; i++) p.rank[i] = dfi_rank_new(dfi_ring_new(p.memory, p.bytes, i, NULL));
  return p;
}

static void pair_free(pair *p) {
  for (int32_t i = 0; i < 2; i++) dfi_rank_free(p->rank[i]);
  dfi_free(p->memory);
}

/* ---- in order, whole, however long ------------------------------------------------------------------------------- */

static int64_t size_of(int32_t i) { return i % 50 == 7 ? 20000 + i : (int64_t)i * 37 % 900; }
static unsigned char byte_of(int32_t i, int64_t k) { return (unsigned char)(i * 31 + k * 7); }

typedef struct taken { int32_t n; bool good; } taken;
static void take(void *user, int32_t from, const void *bytes, int64_t n) {
  taken *t = user;
  const unsigned char *b = bytes;
  t->good &= from == 0 && n == size_of(t->n);
  for (int64_t k = 0; k < n && t->good; k++) t->good = b[k] == byte_of(t->n, k);
  t->n++;
}

static void *send_all(void *arg) {
  pair *p = arg;
  unsigned char *bytes = malloc(30000);
  for (int32_t i = 0; i < MESSAGES; i++) {
    for (int64_t k = 0; k < size_of(i); k++) bytes[k] = byte_of(i, k);
    dfi_rank_post(p->rank[0], 1, bytes, size_of(i));
  }
  dfi_rank_traffic sent;
  for (int32_t i = 0; i < 100000; i++) {
    dfi_rank_serve(p->rank[0], 0.01);                  /* what was kept goes as the other one takes */
    dfi_rank_traffic_of(p->rank[1], 0, &sent);
    if (sent.messages_in == MESSAGES) break;
  }
  free(bytes);
  return NULL;
}

static void messages(void) {
  pair p = pair_new();
  taken t = { .good = true };
  pthread_t sender;
  dfi_rank_handle(p.rank[1], take, &t);
  pthread_create(&sender, NULL, send_all, &p);
  for (int32_t i = 0; i < 1000000 && t.n < MESSAGES; i++) dfi_rank_serve(p.rank[1], 0.1);
  pthread_join(sender, NULL);
  says("messages of any length come whole and in order through a ring of 4 KB", t.good && t.n == MESSAGES);
  dfi_rank_traffic in, out;
  dfi_rank_traffic_of(p.rank[1], 0, &in);
  dfi_rank_traffic_of(p.rank[0], 1, &out);
  says("both sides count the same", in.messages_in == out.messages_out && in.bytes_in >= out.bytes_out);
  pair_free(&p);
}

/* ---- what is none ------------------------------------------------------------------------------------------------ */

static void wrong_packets(void) {
  for (int32_t kind = 0; kind < 300; kind++) {
    pair p = pair_new();
    dfi_transport *t = dfi_ring_new(p.memory, p.bytes, 0, NULL);
    const int64_t n = kind % 100;
    unsigned char *at = t->reserve(t, 1, n);
    for (int64_t k = 0; k < n; k++) at[k] = (unsigned char)(kind < 100 ? 0xff : kind * 77 + k * k * 13);
    if (kind >= 200) *(uint64_t *)(void *)(at - 16) = (uint64_t)kind << (kind % 64);       /* its size */
    t->commit(t, 1);
    dfi_rank_serve(p.rank[1], 0);
    if (kind < 100) says("a rank that sends what is no message is taken for lost", !dfi_rank_peer_alive(p.rank[1], 0));
    t->free(t);
    pair_free(&p);
  }
  df_error err = { 0 };
  char *none = calloc(1, 100000);
  says("memory of another kind is refused", !dfi_ring_new(none, 100000, 0, &err) && err.code == DF_FAILED_PRECONDITION);
  free(none);
}

/* ---- sleep ------------------------------------------------------------------------------------------------------- */

static void *wake_later(void *arg) {
  pair *p = arg;
  struct timespec t = { 0, 20000000 };
  nanosleep(&t, NULL);
  dfi_rank_post(p->rank[0], 1, "x", 1);
  return NULL;
}

static void sleep_and_wake(void) {
  pair p = pair_new();
  pthread_t other;
  pthread_create(&other, NULL, wake_later, &p);
  says("a thread that sleeps is woken by what comes", dfi_rank_serve(p.rank[1], 60));
  pthread_join(other, NULL);
  says("without anything it wakes by itself", !dfi_rank_serve(p.rank[1], 0.001));
  pair_free(&p);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static void values(void) {
  const int64_t dims[2] = { 3, 5 };
  bool same = true, refused = true;
  for (int32_t dtype = DF_FLOAT32; dtype <= DF_UINT64; dtype++) {
    if (dtype == DF_RESOURCE || dtype == DF_VARIANT || !df_dtype_bytes(dtype)) continue;
    df_value v = { .kind = DF_TENSOR, .dtype = (uint8_t)dtype, .as.tensor = df_tensor_new(dtype, 2, dims, NULL) }, out;
    if (dtype != DF_STRING) memset(df_tensor_data(v.as.tensor), 0, (size_t)(15 * df_dtype_bytes(dtype)));
    for (int64_t i = 0; i < 15; i++) {
      if (dtype == DF_STRING) df_tensor_set_string(v.as.tensor, i, "many letters", i % 12, NULL);
      else if (dtype == DF_BOOL) ((bool *)df_tensor_data(v.as.tensor))[i] = i % 2;
      else ((unsigned char *)df_tensor_data(v.as.tensor))[i * df_dtype_bytes(dtype)] = (unsigned char)i;
    }
    int64_t n;
    void *bytes = dfi_value_pack(&v, &n, NULL);
    same &= dfi_value_unpack(bytes, n, &out) && out.dtype == dtype && out.as.tensor->rank == 2;
    int64_t la = 0, lb = 0;
    for (int64_t i = 0; i < 15 && same; i++)
      same = dtype != DF_STRING ? df_tensor_get(v.as.tensor, i) == df_tensor_get(out.as.tensor, i)
                                : !strcmp(df_tensor_string(v.as.tensor, i, &la),
                                          df_tensor_string(out.as.tensor, i, &lb)) && la == lb;
    df_value_release(&out);
    for (int64_t k = 0; k < n; k += 1 + k / 16) {
      df_value part;
      refused &= !dfi_value_unpack(bytes, k, &part);
    }
    dfi_free(bytes);
    df_value_release(&v);
  }
  says("a value is the same after its way through bytes, of every dtype", same);
  says("bytes that end early are no value", refused);
}

int main(void) {
  messages();
  wrong_packets();
  sleep_and_wake();
  values();
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
