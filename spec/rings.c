/* rings.c: packets between ranks, said in C: order, content, room, sleep, what is none; and values as bytes. Each
 * check is a sentence; the last line counts them.
 */
#include "cluster/channel.h"
#include "engine/owners/ranks.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

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

static bool serve(dfi_rank *r, double seconds) { return dfi_rank_serve(r, dfi_rank_wakes(r), seconds); }

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
    serve(p->rank[0], 0.01);                           /* what was kept goes as the other one takes */
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
  for (int32_t i = 0; i < 1000000 && t.n < MESSAGES; i++) serve(p.rank[1], 0.1);
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
    serve(p.rank[1], 0);
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
  says("a thread that sleeps is woken by what comes", serve(p.rank[1], 60));
  pthread_join(other, NULL);
  says("without anything it wakes by itself", !serve(p.rank[1], 0.001));
  const uint32_t wakes = dfi_rank_wakes(p.rank[1]);
  const double began = dfi_now();
  dfi_rank_wake(p.rank[1]);
  says("a thread that was woken since it looked for something to do does not sleep",
       !dfi_rank_serve(p.rank[1], wakes, 60) && dfi_now() - began < 30);
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

/* ---- a peer that sends anything ---------------------------------------------------------------------------------- */

static uint64_t seed = 20260;
static uint32_t draw(uint32_t below) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33) % below;
}
static int64_t any_size(void) {
  static const int64_t sizes[] = { 0, 1, 4, 8, 40, 1000, sizeof(df_error), sizeof(dfi_end), -1, 1ll << 40, INT64_MAX };
  return sizes[draw(sizeof sizes / sizeof *sizes)];
}

typedef struct heard { int64_t bytes; int32_t messages, ends, fails; bool texts_end; char why[200]; } heard;
static void read_all(heard *t, const void *bytes, int64_t n) {
  for (int64_t i = 0; i < n; i++) t->bytes += ((const unsigned char *)bytes)[i];
}
static void hears_value(void *user, dfi_team_message *l) {
  heard *t = user;
  t->messages++;
  if (l->value.kind == DF_TENSOR && l->value.dtype != DF_STRING)
    read_all(t, l->value.as.tensor->data, l->value.as.tensor->size * dfi_dtype_size[l->value.dtype]);
  dfi_value_drop(&l->value);
  dfi_free(l);
}
static void hears_failure(void *user, int32_t from, const df_error *err) {
  heard *t = user;
  (void)from;
  t->fails++;
  t->texts_end &= memchr(err->message, 0, sizeof err->message) && memchr(err->op, 0, sizeof err->op) &&
                  memchr(err->frame, 0, sizeof err->frame) && memchr(err->host, 0, sizeof err->host);
  snprintf(t->why, sizeof t->why, "%.190s", err->message);
}
static void hears_bytes(void *user, int32_t from, const void *bytes, int64_t n) {
  (void)from;
  ((heard *)user)->ends++;
  read_all(user, bytes, n);
}
static void hears_cluster(void *user, int32_t from, const void *bytes, int64_t n) {
  (void)from;
  read_all(user, bytes, n);
}

/* A packet that is nearly a message: each field is in its range more often than not. */
static int64_t any_packet(uint64_t run, unsigned char *at, int64_t room) {
  dfi_head h = { .run = run + !draw(4), .edge = draw(9), .owner = (uint16_t)draw(4), .kind = (uint8_t)draw(10),
    .dead = (uint8_t)draw(3), .depth = (uint8_t)draw(draw(9) ? 4 : 200), .value = (uint8_t)draw(6),
    .dtype = (uint8_t)draw(draw(9) ? 24 : 256), .rank = (uint8_t)draw(draw(9) ? 4 : 256), .delay = draw(3),
    .bytes = any_size() };
  if (h.kind > DFI_MESSAGE_CROSSING && draw(9)) { h.value = DF_EMPTY; h.rank = 0; }
  if (h.kind == DFI_MESSAGE_FAIL && draw(2)) h.bytes = sizeof(df_error);
  for (int64_t i = 0; i < room; i++) at[i] = (unsigned char)draw(256);
  memcpy(at, &h, sizeof h);
  int64_t n = dfi_message_front(&h);
  for (int64_t i = sizeof h; i + 8 <= n && i + 8 <= room; i += 8) {
    const int64_t number = draw(9) ? draw(4) : any_size();
    memcpy(at + i, &number, 8);
  }
  if (h.bytes > 0 && h.bytes < room && draw(9)) n += h.bytes;
  if (!draw(9)) n = draw((uint32_t)room);
  return n < room ? n : room;
}

static void hostile_peer(void) {
  enum { ROUNDS = 20000 };
  pair p = pair_new();
  dfi_transport *t = dfi_ring_new(p.memory, p.bytes, 0, NULL);
  heard all = { .texts_end = true };
  int32_t lost = 0, named = 0;
  dfi_rank_handle(p.rank[1], hears_cluster, &all);
  for (int32_t round = 0; round < ROUNDS; round++) {
    const dfi_part part = { 3, &all, hears_value, hears_failure, hears_bytes, hears_bytes, hears_bytes, hears_bytes };
    dfi_rank_begin(p.rank[1], (uint64_t)round + 1, &part);
    for (int32_t k = 0; k < 3; k++) {
      unsigned char packet[2000];
      const int64_t n = any_packet((uint64_t)round + 1, packet, sizeof packet);
      void *to = t->reserve(t, 1, n);
      if (to) { memcpy(to, packet, (size_t)n); t->commit(t, 1); }
    }
    all.why[0] = 0;
    const int32_t fails = all.fails;
    dfi_rank_poll(p.rank[1]);
    dfi_rank_over(p.rank[1], (uint64_t)round + 1, true);
    if (dfi_rank_peer_alive(p.rank[1], 0)) continue;
    lost++;
    named += !strcmp(all.why, "rank 0 has sent what is no message") || all.fails > fails;
    dfi_rank_peer_back(p.rank[1], 0);
  }
  says("a peer that sends what is no message is lost, which is said", lost > ROUNDS / 10 && named == lost);
  says("what it sent that might be a message is taken", all.messages > 100 && all.ends > 100 && all.fails > 100);
  says("texts of another process's error end", all.texts_end);
  t->free(t);
  pair_free(&p);
}

static void hostile_channel(void) {
  enum { ROUNDS = 3000 };
  bool good = true;
  int32_t refused = 0;
  for (int32_t round = 0; round < ROUNDS; round++) {
    int fd[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd)) { good = false; break; }
    dfi_channel c = DFI_CHANNEL_CLOSED;
    dfi_channel_open(&c, fd[0]);
    const dfi_header h = { draw(30), draw(4), (uint64_t)any_size() };
    unsigned char bytes[600];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)draw(256);
    good &= write(fd[1], &h, sizeof h) == sizeof h;
    good &= write(fd[1], bytes, draw(sizeof bytes)) >= 0;
    int32_t whole;
    while ((whole = dfi_channel_read(&c)) > 0) {
      dfi_cursor at = { c.payload, c.payload + c.header.bytes, false };
      char text[64];
      dfi_get_i64(&at);
      dfi_get_text(&at, text, sizeof text);
      good &= memchr(text, 0, sizeof text) != NULL && at.at <= at.end;
    }
    refused += whole < 0;
    dfi_channel_close(&c);
    close(fd[1]);
  }
  says("a channel takes what is a message, and refuses what is none", good && refused > ROUNDS / 4);
}

int main(void) {
  messages();
  wrong_packets();
  sleep_and_wake();
  values();
  hostile_peer();
  hostile_channel();
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
