/* spmd_follower.c: SPMD on other ranks than 0: the program says what it asks for, and waits for what rank 0 computed.
 */
#include "cluster/spmd.h"
#include <stdio.h>

typedef struct waiting {           /* on the stack of the thread that waits, or with a run in the background */
  uint32_t request;
  bool done, asks;                 /* asks: rank 0 answers also when its program has ended */
  uint8_t *bytes; size_t n;        /* owned */
  struct waiting *next;
} waiting;

static struct {
  dfi_channel *channel;
  pthread_mutex_t lock;            /* guards what follows */
  pthread_cond_t changed;
  waiting *first;
  uint32_t requests;
  int32_t lost;                    /* the error of what is asked from now on; 0: rank 0 is there */
  char why[sizeof(((df_error *)0)->message)];
} F = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

void dfi_follow_answered(uint32_t request, const uint8_t *payload, size_t n) {
  pthread_mutex_lock(&F.lock);
  waiting *w = F.first;
  while (w && w->request != request) w = w->next;
  if (w && !w->done) {
    w->bytes = dfi_xmalloc(n + 1);
    memcpy(w->bytes, payload, n);
    w->n = n;
    w->done = true;
    pthread_cond_broadcast(&F.changed);
  }
  pthread_mutex_unlock(&F.lock);
}

void dfi_follow_lost(int32_t code, const char *why) {
  pthread_mutex_lock(&F.lock);
  if (!F.lost) {
    F.lost = code;
    snprintf(F.why, sizeof F.why, "%s", why);
  }
  pthread_cond_broadcast(&F.changed);
  pthread_mutex_unlock(&F.lock);
}

/* Sends it; what answers it is kept until it is taken. 0: rank 0 is gone. */
static uint32_t ask(dfi_word word, const dfi_packet *p, df_error *err) {
  waiting *w = dfi_xcalloc(1, sizeof *w);
  pthread_mutex_lock(&F.lock);
  w->asks = word == DFI_W_ASK;
  const int32_t lost = w->asks ? DF_OK : F.lost;
  if (lost) dfi_fail(err, lost, NULL, "%s", F.why);
  const uint32_t request = w->request = ++F.requests;
  if (!lost) { w->next = F.first; F.first = w; }
  pthread_mutex_unlock(&F.lock);
  if (lost) { dfi_free(w); return 0; }
  dfi_channel_send(F.channel, word, request, p->at, p->n, NULL, 0, 60);
  return request;
}

/* Waits for the answer; *bytes (owned) is all of it, and c what follows its error. */
static int32_t take(uint32_t request, dfi_cursor *c, uint8_t **bytes, df_error *err) {
  pthread_mutex_lock(&F.lock);
  waiting **at = &F.first;
  while (*at && (*at)->request != request) at = &(*at)->next;
  waiting *w = *at;
  while (w && !w->done && (w->asks || !F.lost)) pthread_cond_wait(&F.changed, &F.lock);
  for (at = &F.first; *at && *at != w;) at = &(*at)->next;
  if (*at) *at = w->next;
  if (!w || !w->done) dfi_fail(err, F.lost ? F.lost : DF_INTERNAL, NULL, "%s", F.lost ? F.why : "nothing was asked");
  pthread_mutex_unlock(&F.lock);
  *bytes = w ? w->bytes : NULL;
  const bool done = w && w->done;
  const size_t n = w ? w->n : 0;
  dfi_free(w);
  if (!done) return err->code;
  *c = (dfi_cursor){ *bytes, *bytes + n, false };
  const int32_t code = dfi_reply_get(c, err);
  if (code) { dfi_free(*bytes); *bytes = NULL; }
  return code;
}

static int32_t arrive(dfi_spmd_call *c, const df_node *handle, const df_value *values, df_error *err) {
  const int64_t kind = handle ? DFI_SPMD_SET : DFI_SPMD_RUN;
  dfi_packet p = { 0 };
  int32_t code = dfi_arrival_put(&p, dfi_program_of(c->session), kind, c, values, handle, err);
  if (!code && !(c->request = ask(DFI_W_ARRIVE, &p, err))) code = err->code;
  dfi_free(p.at);
  return code;
}

static int32_t finish(dfi_spmd_call *c, int32_t status, df_value *results, df_error *err) {
  dfi_cursor at;
  uint8_t *bytes;
  status = take(c->request, &at, &bytes, err);
  if (status) return status;
  for (int32_t i = 0; i < c->nfetch && !status; i++)
    if (!dfi_get_value(&at, &results[i]))
      status = dfi_fail(err, DF_DATA_LOSS, NULL, "rank 0 sent no value of fetch %d", i + 1);
  for (int32_t i = 0; i < c->nfetch && status; i++) df_value_release(&results[i]);
  dfi_free(bytes);
  return status;
}

static int32_t get(df_session *s, const df_node *handle, df_value *out, df_error *err) {
  dfi_packet p = { 0 };
  dfi_cursor at;
  uint8_t *bytes;
  dfi_put_i64(&p, dfi_program_of(s)->id);
  dfi_put_i64(&p, handle->id);
  const uint32_t request = ask(DFI_W_ASK, &p, err);
  dfi_free(p.at);
  if (!request || take(request, &at, &bytes, err)) return err->code;
  const bool is = dfi_get_value(&at, out);
  dfi_free(bytes);
  return is ? DF_OK : dfi_fail(err, DF_DATA_LOSS, handle->where, "rank 0 sent no value of a variable");
}

int32_t dfi_follow_ranks(int32_t capacity, df_rank_info *out) {
  dfi_packet p = { 0 };
  dfi_cursor at;
  uint8_t *bytes;
  df_error err;
  dfi_put_i64(&p, -1);
  const uint32_t request = ask(DFI_W_ASK, &p, &err);
  dfi_free(p.at);
  if (!request || take(request, &at, &bytes, &err)) return 0;
  const int32_t n = (int32_t)((size_t)(at.end - at.at) / sizeof *out);
  for (int32_t i = 0; i < n && i < capacity; i++) memcpy(&out[i], dfi_get(&at, sizeof *out), sizeof *out);
  dfi_free(bytes);
  return n;
}

int32_t dfi_follow_offer(dfi_cursor *c, void **bytes, int64_t *n, df_error *err) {
  const dfi_program *of = dfi_program_hold(dfi_get_i64(c));
  dfi_program_let_go();
  if (!of) return dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "this rank has not used so many sessions");
  dfi_form form;
  dfi_bytes packed = { 0 };
  bool changed;
  dfi_form_init(&form, of->graph, true);
  pthread_mutex_lock(&of->graph->lock);
  const int32_t code = dfi_form_write(&form, &packed, &changed, err);
  pthread_mutex_unlock(&of->graph->lock);
  dfi_form_free(&form);
  *n = (int64_t)packed.n;
  if (!code) *bytes = packed.at;
  else dfi_free(packed.at);
  return code;
}

const dfi_spmd *dfi_spmd_follower(dfi_channel *channel) {
  static const dfi_spmd table = { .arrive = arrive, .finish = finish, .get = get };
  F.channel = channel;
  return &table;
}
