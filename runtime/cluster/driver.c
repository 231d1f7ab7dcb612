/* driver.c: the cluster as the driver has it: starts workers, watches them, and asks them.
 *
 * One thread of its own, the watcher, reads all workers' channels, takes signs of life and deaths (a pidfd, or the
 * end of the channel), and hands replies to the calls that wait. What is bad news goes to runs by dfi_rank_peer_failed,
 * and to all other workers. Locks: the driver's is held for looks alone, never while something is sent or waited for.
 */
#define _GNU_SOURCE
#include "cluster/driver.h"
#include "cluster/spmd.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

dfi_driver dfi_the_driver = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .memfd = -1,
                              .wake = -1, .timeout = 2.0 };
#define D (&dfi_the_driver)
static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER;       /* one starts, stops or restarts at a time */

enum { START_SECONDS = 20, SEND_SECONDS = 20 };

uint64_t dfi_build_digest(void) {
  uint64_t h = sizeof(df_node) * 31 + sizeof(dfi_plan);
  const char *texts[] = { DFI_PROTOCOL, df_version() };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    h = h * 0x9e3779b97f4a7c15u + dfi_hash_name(texts[i], strlen(texts[i]));
  for (int32_t i = 0; i < df_op_count(); i++) {
    const df_op *o = dfi_op_info_at(i)->op;
    const char *parts[] = { o->type, o->in, o->out, o->attrs, o->types };
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
      h = (h ^ h >> 29) * 0x9e3779b97f4a7c15u + (parts[k] ? dfi_hash_name(parts[k], strlen(parts[k])) : 1);
  }
  return h;
}

/* ---- errors in replies ------------------------------------------------------------------------------- */

void dfi_reply_put(dfi_packet *p, const df_error *err) {
  dfi_put_i64(p, err ? err->code : DF_OK);
  if (!err) return;
  dfi_put_text(p, err->message); dfi_put_text(p, err->op); dfi_put_text(p, err->frame); dfi_put_text(p, err->source);
  dfi_put_i64(p, err->rank);
  dfi_put_text(p, err->rank ? err->host : "");
}

int32_t dfi_reply_get(dfi_cursor *c, df_error *err) {
  const int64_t code = dfi_get_i64(c);
  if (!c->bad && code == DF_OK) return DF_OK;
  df_error e = { .code = code > 0 && code <= DF_DATA_LOSS ? (int32_t)code : DF_INTERNAL };
  dfi_get_text(c, e.message, sizeof e.message); dfi_get_text(c, e.op, sizeof e.op);
  dfi_get_text(c, e.frame, sizeof e.frame); dfi_get_text(c, e.source, sizeof e.source);
  e.rank = (int32_t)dfi_get_i64(c);
  dfi_get_text(c, e.host, sizeof e.host);
  if (err) *err = e;
  return e.code;
}

/* ---- states ------------------------------------------------------------------------------------------ */

static void wake_watcher(void) {
  const uint64_t one = 1;
  if (write(D->wake, &one, sizeof one) < 0) {}
}

static struct timespec after(double seconds) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  const int64_t ns = t.tv_nsec + (int64_t)(1e9 * seconds);
  return (struct timespec){ t.tv_sec + ns / 1000000000, ns % 1000000000 };
}

/* The watcher is about to find out what has become of a rank that cannot be reached, or has ended: it is waited for.
   Under the lock. */
static void wait_for_watcher(const dfi_worker *w) {
  const struct timespec until = after(0.1);
  wake_watcher();
  while (D->watching && w->state == DF_RANK_ALIVE)
    if (pthread_cond_timedwait(&D->changed, &D->lock, &until)) break;
}

int32_t dfi_driver_unavailable(int32_t rank, df_error *err) {
  pthread_mutex_lock(&D->lock);
  const bool is = rank > 0 && rank < D->n;
  const dfi_worker *w = is ? &D->worker[rank] : NULL;
  if (w) {
    wait_for_watcher(w);
    dfi_fail(err, DF_UNAVAILABLE, NULL, "rank %d (host %s, pid %lld) %s", rank, w->host, (long long)w->pid,
             w->why[0] ? w->why : "cannot be reached");
    if (err) {
      err->rank = rank + 1;
      snprintf(err->host, sizeof err->host, "%s", w->host);
    }
  } else dfi_fail(err, DF_UNAVAILABLE, NULL, "there is no rank %d", rank);
  pthread_mutex_unlock(&D->lock);
  return DF_UNAVAILABLE;
}

bool dfi_driver_alive(int32_t rank) {
  pthread_mutex_lock(&D->lock);
  const bool is = rank >= 0 && rank < D->n && (!rank || D->worker[rank].state == DF_RANK_ALIVE);
  pthread_mutex_unlock(&D->lock);
  return is;
}

void dfi_driver_patience(const df_session *s) { atomic_store(&D->asked, s->timeout_rank); }

double dfi_driver_timeout(void) {
  const double asked = atomic_load(&D->asked);
  return asked > 0 ? asked : atomic_load(&D->timeout);
}

/* All other workers are told, and runs on all of them end. */
static void tell_failed(const dfi_worker *w) {
  dfi_packet p = { 0 };
  dfi_rank_peer_failed(D->rank, w->rank, w->host, w->pid, w->why);
  dfi_put_i64(&p, w->rank);
  dfi_put_i64(&p, w->pid);
  dfi_put_text(&p, w->host);
  dfi_put_text(&p, w->why);
  for (int32_t i = 1; i < D->n; i++)
    if (i != w->rank && dfi_driver_alive(i))
      dfi_channel_send(&D->worker[i].channel, DFI_W_PEER, 0, p.at, p.n, NULL, 0, DFI_HEART_SECONDS);
  dfi_free(p.at);
}

/* Its program has said that it ends. The lock is not held. */
static bool ended_well(dfi_worker *w) {
  pthread_mutex_lock(&D->lock);
  const bool said = w->said_end;
  pthread_mutex_unlock(&D->lock);
  return said;
}

/* Says that a launched rank is lost, as the launcher may end this process before a run can say it, and then learns how
   its process has ended. */
static void say_lost(dfi_worker *w, char *why, size_t room) {
  if (D->launched && !ended_well(w))
    fprintf(stderr, "dflow: rank %d (host %s, pid %lld) %s\n", w->rank, w->host, (long long)w->pid, why);
  dfi_process_learn(w, why, room);
}

/* The watcher: a worker is hung or dead from now on. Calls that wait for its replies wait no more; what they say of it
   is known by then. */
static void worker_failed(dfi_worker *w, df_rank_state state, const char *why) {
  char said[sizeof w->why];
  snprintf(said, sizeof said, "%s", why);
  pthread_mutex_lock(&D->lock);
  const bool was = w->state == DF_RANK_ALIVE, tells = was && !D->ending;
  pthread_mutex_unlock(&D->lock);
  if (tells) say_lost(w, said, sizeof said);
  else if (!w->running) dfi_process_forget(w);
  pthread_mutex_lock(&D->lock);
  w->state = state;
  memcpy(w->why, said, sizeof said);
  if (state == DF_RANK_DEAD)
    for (dfi_pending *p = w->pending; p; p = p->next) p->done = true;
  if (state == DF_RANK_DEAD) w->pending = NULL;
  w->telling |= tells;
  pthread_cond_broadcast(&D->changed);
  pthread_mutex_unlock(&D->lock);
  if (!tells) return;
  tell_failed(w);
  pthread_mutex_lock(&D->lock);
  w->telling = false;
  pthread_cond_broadcast(&D->changed);
  pthread_mutex_unlock(&D->lock);
}

static void worker_back(dfi_worker *w) {
  pthread_mutex_lock(&D->lock);
  w->state = DF_RANK_ALIVE;
  w->why[0] = 0;
  pthread_cond_broadcast(&D->changed);
  pthread_mutex_unlock(&D->lock);
}

/* ---- what workers say -------------------------------------------------------------------------------- */

/* A worker says what it is, and is told what it is. */
static void hello(dfi_worker *w, dfi_cursor *c) {
  char protocol[32], host[64];
  dfi_get_text(c, protocol, sizeof protocol);
  const uint64_t digest = (uint64_t)dfi_get_i64(c);
  dfi_get_text(c, host, sizeof host);
  if (c->bad || strcmp(protocol, DFI_PROTOCOL) || digest != dfi_build_digest()) {
    worker_failed(w, DF_RANK_DEAD, "is another version of dflow than the driver");
    dfi_process_kill(w);
    return;
  }
  dfi_packet p = { 0 };
  dfi_put_i64(&p, w->rank);
  dfi_put_i64(&p, D->n);
  dfi_put_i64(&p, D->bytes);
  dfi_channel_send(&w->channel, DFI_W_WELCOME, 1, p.at, p.n, NULL, 0, SEND_SECONDS);
  dfi_free(p.at);
}

/* The reply to a call; that to the welcome makes the worker one of us. */
static void replied(dfi_worker *w, const dfi_header *h, const uint8_t *payload) {
  if (h->request == 1) {
    df_error err;
    dfi_cursor c = { payload, payload + h->bytes, false };
    if (!dfi_reply_get(&c, &err)) worker_back(w);
    else worker_failed(w, DF_RANK_DEAD, err.message);
    return;
  }
  pthread_mutex_lock(&D->lock);
  for (dfi_pending **at = &w->pending; *at; at = &(*at)->next) {
    dfi_pending *p = *at;
    if (p->request != h->request) continue;
    *at = p->next;
    p->answer = dfi_xmalloc(h->bytes + 1);
    memcpy(p->answer, payload, h->bytes);
    p->n = h->bytes;
    p->done = true;
    pthread_cond_broadcast(&D->changed);
    break;
  }
  pthread_mutex_unlock(&D->lock);
}

static void says_end(dfi_worker *w, dfi_cursor *c) {
  pthread_mutex_lock(&D->lock);
  w->said_end = true;
  w->status = (int32_t)dfi_get_i64(c);
  if (w->status && !D->failed) D->failed = w->status;
  pthread_mutex_unlock(&D->lock);
  dfi_spmd_said(w, &w->channel.header, w->channel.payload);
}

/* It lives; and what a run waits for there. */
static void beats(dfi_worker *w, dfi_cursor *c) {
  dfi_rank_wait waits = { 0 };
  if (c->at < c->end) {
    waits.from = (int32_t)dfi_get_i64(c);
    waits.since = w->heard - 1e-6 * (double)dfi_get_i64(c);
    dfi_get_text(c, waits.what, sizeof waits.what);
    if (!c->bad) waits.seen = w->heard;
  }
  pthread_mutex_lock(&D->lock);
  w->waits = waits;
  pthread_mutex_unlock(&D->lock);
}

/* What has come from a worker. False: nothing will any more. */
static bool take_messages(dfi_worker *w) {
  int32_t whole;
  while ((whole = dfi_channel_read(&w->channel)) > 0) {
    dfi_cursor c = { w->channel.payload, w->channel.payload + w->channel.header.bytes, false };
    w->heard = dfi_now();
    if (w->channel.header.word == DFI_W_HEART) beats(w, &c);
    else if (w->channel.header.word == DFI_W_HELLO) hello(w, &c);
    else if (w->channel.header.word == DFI_W_REPLY) replied(w, &w->channel.header, w->channel.payload);
    else if (w->channel.header.word == DFI_W_ARRIVE || w->channel.header.word == DFI_W_ASK)
      dfi_spmd_said(w, &w->channel.header, w->channel.payload);
    else if (w->channel.header.word == DFI_W_ENDED) says_end(w, &c);
  }
  return whole == 0;
}

/* ---- the watcher ------------------------------------------------------------------------------------- */

/* What is not there the watcher lets alone. Under the lock. */
static bool is_there(const dfi_worker *w) { return w->state != DF_RANK_DEAD && w->channel.fd >= 0; }
static bool still_there(const dfi_worker *w) {
  pthread_mutex_lock(&D->lock);
  const bool is = is_there(w);
  pthread_mutex_unlock(&D->lock);
  return is;
}

/* It has closed its end; whether it has ended, too, is known in a moment. */
static void closed_end(dfi_worker *w) {
  char why[200] = "has closed its connection";
  bool ended = false;
  for (int32_t i = 0; i < 50 && !(ended = dfi_process_ended(w, why, sizeof why)); i++) usleep(1000);
  if (!ended) dfi_process_kill(w);
  worker_failed(w, DF_RANK_DEAD, why);
}

/* What a run waits for on rank i; false: nothing. Under the lock. */
static bool waits_there(int32_t i, dfi_rank_wait *out) {
  if (!i) return dfi_rank_waiting(D->rank, out);
  *out = D->worker[i].waits;
  return D->worker[i].state == DF_RANK_ALIVE && out->seen > 0;
}

/* The rank that waits for longest for something of that rank, as the end of a sentence. */
static void tell_waiter(int32_t rank, char *text, size_t room) {
  dfi_rank_wait w, longest = { .since = INFINITY };
  int32_t waiter = -1;
  pthread_mutex_lock(&D->lock);
  for (int32_t i = 0; i < D->n; i++)
    if (i != rank && waits_there(i, &w) && w.from == rank && w.since < longest.since) { longest = w; waiter = i; }
  pthread_mutex_unlock(&D->lock);
  if (waiter >= 0)
    snprintf(text, room, "; rank %d has waited for its %s for %.1f s", waiter, longest.what, dfi_now() - longest.since);
}

/* A hung one stays so until it is replaced, also where it speaks again: messages to it were dropped. */
static void look_after(dfi_worker *w, double now) {
  if (w->state == DF_RANK_ALIVE && now - w->heard > dfi_driver_timeout()) {
    char why[sizeof w->why];
    const int32_t n = snprintf(why, sizeof why, "is hung: it has given no sign for %.1f s", now - w->heard);
    tell_waiter(w->rank, why + n, sizeof why - (size_t)n);
    worker_failed(w, DF_RANK_HUNG, why);
  }
}

/* What a round of the watcher waits for; that a round begins is told. */
static nfds_t begin_round(struct pollfd *fds) {
  nfds_t n = 0;
  pthread_mutex_lock(&D->lock);
  D->rounds++;
  pthread_cond_broadcast(&D->changed);
  fds[n++] = (struct pollfd){ .fd = D->wake, .events = POLLIN };
  for (int32_t i = 1; i < D->n; i++) {
    const dfi_worker *w = &D->worker[i];
    fds[n++] = (struct pollfd){ .fd = is_there(w) ? w->channel.fd : -1, .events = POLLIN };
    fds[n++] = (struct pollfd){ .fd = is_there(w) ? w->pidfd : -1, .events = POLLIN };
  }
  pthread_mutex_unlock(&D->lock);
  return n;
}

/* What died before this call the watcher has let alone. */
static void wait_for_round(void) {
  pthread_mutex_lock(&D->lock);
  const int64_t before = D->rounds;
  wake_watcher();
  while (D->watching && D->rounds == before) pthread_cond_wait(&D->changed, &D->lock);
  pthread_mutex_unlock(&D->lock);
}

static void *watch(void *arg) {
  struct pollfd fds[1 + 2 * DFI_RANKS_MOST];
  double before = dfi_now();
  while (!D->ending) {
    poll(fds, begin_round(fds), (int)(DFI_HEART_SECONDS * 1000));
    uint64_t woken;
    if (fds[0].revents && read(D->wake, &woken, sizeof woken) < 0) {}
    const double now = dfi_now();
    for (int32_t i = 1; i < D->n && !D->ending; i++) {
      dfi_worker *w = &D->worker[i];
      if (!still_there(w)) continue;
      if (now - before > 0.5 * dfi_driver_timeout()) w->heard = now;          /* it was this process that was stopped */
      char why[200];
      const bool open = take_messages(w);             /* first: that its program ends may be its last message */
      if (fds[2 * i].revents && dfi_process_ended(w, why, sizeof why)) worker_failed(w, DF_RANK_DEAD, why);
      else if (!open) closed_end(w);
      else look_after(w, now);
    }
    before = now;
  }
  return NULL;
}

/* ---- calls ------------------------------------------------------------------------------------------- */

int32_t dfi_driver_call(int32_t rank, dfi_word word, const void *a, size_t na, const void *b, size_t nb,
                        uint8_t **answer, size_t *n, df_error *err) {
  if (!dfi_driver_alive(rank) || !rank) return dfi_driver_unavailable(rank, err);
  dfi_worker *w = &D->worker[rank];
  dfi_pending wait = { 0 };
  pthread_mutex_lock(&D->lock);
  if (D->requests < 2) D->requests = 2;
  wait.request = D->requests++;
  wait.next = w->pending;
  w->pending = &wait;
  pthread_mutex_unlock(&D->lock);
  const bool sent = dfi_channel_send(&w->channel, word, wait.request, a, na, b, nb, SEND_SECONDS);
  pthread_mutex_lock(&D->lock);
  while (sent && !wait.done && w->state == DF_RANK_ALIVE) pthread_cond_wait(&D->changed, &D->lock);
  for (dfi_pending **at = &w->pending; *at; at = &(*at)->next)
    if (*at == &wait) { *at = wait.next; break; }
  pthread_mutex_unlock(&D->lock);
  if (!wait.answer) return dfi_driver_unavailable(rank, err);
  dfi_cursor c = { wait.answer, wait.answer + wait.n, false };
  const int32_t code = dfi_reply_get(&c, err);
  if (!code && answer) {
    *n = (size_t)(c.end - c.at);
    memmove(wait.answer, c.at, *n);
    *answer = wait.answer;
  } else dfi_free(wait.answer);
  return code;
}

/* An echo of a probe has come. */
static void on_echo(void *user, int32_t from, const void *bytes, int64_t n) {
  dfi_probe p;
  if (n != sizeof p || from < 1 || from >= D->n) return;
  memcpy(&p, bytes, sizeof p);
  if (p.kind == DFI_PROBE) atomic_store(&D->worker[from].echoed, (int64_t)(1e9 * (dfi_now() - p.sent)));
}

/* ---- life -------------------------------------------------------------------------------------------- */

static int32_t make_memory(int32_t n, df_error *err) {
  if (!(D->memory = dfi_process_memory(n, &D->memfd, &D->bytes, err))) return err->code;
  dfi_transport *t = dfi_ring_new(D->memory, D->bytes, 0, err);
  if (!t) return err->code;
  D->rank = dfi_rank_new(t);
  dfi_rank_handle(D->rank, on_echo, NULL);
  return DF_OK;
}

/* Those that start are there, or are not; the first that is not is the error. */
static int32_t wait_started(df_error *err) {
  const struct timespec until = after(START_SECONDS);
  int32_t missing = 0;
  pthread_mutex_lock(&D->lock);
  for (bool late = false;;) {
    bool starting = false;
    missing = 0;
    for (int32_t i = D->n - 1; i > 0; i--) {
      starting |= D->worker[i].state == DF_RANK_STARTING;
      if (D->worker[i].state != DF_RANK_ALIVE) missing = i;
    }
    if (!starting || late) break;
    late = pthread_cond_timedwait(&D->changed, &D->lock, &until) == ETIMEDOUT;
  }
  pthread_mutex_unlock(&D->lock);
  return missing ? dfi_driver_unavailable(missing, err) : DF_OK;
}

void dfi_driver_names(dfi_worker *w, pid_t pid, const char *host) {
  pthread_mutex_lock(&D->lock);
  w->pid = pid;
  snprintf(w->host, sizeof w->host, "%s", host);
  pthread_mutex_unlock(&D->lock);
}

static int32_t start_process(dfi_worker *w, df_error *err) {
  if (!D->hosts) return dfi_process_start(w, D->program, D->memfd, err);
  const char *at = D->hosts;
  for (int32_t i = 1; i < w->rank; i++) at += strcspn(at, ",") + 1;
  char host[sizeof w->host];
  snprintf(host, sizeof host, "%.*s", (int)strcspn(at, ","), at);
  return dfi_hosts_start(w, host, D->program, D->memory, D->bytes, D->n, err);
}

/* The watcher looks at it when it has been started. */
static int32_t start_worker(dfi_worker *w, df_error *err) {
  pthread_mutex_lock(&D->lock);
  w->state = DF_RANK_DEAD;
  w->said_end = false;
  w->status = 0;
  w->waits = (dfi_rank_wait){ 0 };
  w->heard = dfi_now();
  snprintf(w->why, sizeof w->why, "did not start");
  pthread_mutex_unlock(&D->lock);
  if (start_process(w, err)) return err->code;
  pthread_mutex_lock(&D->lock);
  w->state = DF_RANK_STARTING;
  pthread_mutex_unlock(&D->lock);
  wake_watcher();
  return DF_OK;
}

static void end_watcher(void) {
  if (!D->watching) return;
  D->ending = true;
  wake_watcher();
  pthread_join(D->watcher, NULL);
  D->watching = false;
}

/* Tells all workers to end. Those of a launcher end MPI, and this process with them: it would wait for one that is
 * lost. */
static void dismiss(void) {
  bool all_well = true;
  for (int32_t i = 1; i < D->n; i++) {
    dfi_worker *w = &D->worker[i];
    all_well &= w->state == DF_RANK_ALIVE || ended_well(w);
    if (w->channel.fd >= 0 && !D->spmd)
      dfi_channel_send(&w->channel, DFI_W_STOP, 0, NULL, 0, NULL, 0, DFI_HEART_SECONDS);
    if (D->launched) dfi_hosts_stop(w);
  }
  dfi_mpi_end(all_well);
}

void dfi_driver_exit(void) {
  end_watcher();
  dismiss();
}

static void end_worker(dfi_worker *w) {
  char why[64];
  for (int32_t i = 0; i < 100 && w->state == DF_RANK_ALIVE && !dfi_process_ended(w, why, sizeof why); i++)
    usleep(1000);
  dfi_hosts_stop(w);
  /* A launcher waits for its ranks, and takes one that was killed for a failure of the job. */
  if (w->launched && (w->state == DF_RANK_ALIVE || w->said_end)) dfi_process_forget(w);
  else dfi_process_kill(w);
  dfi_channel_close(&w->channel);
  dfi_spmd_drop(w);
}

/* All programs of the others have ended, too: each is told that rank 0's has, and waited for as long as for a run. */
static void wait_for_programs(void) {
  char why[sizeof(((df_error *)0)->message)];
  dfi_packet p = { 0 };
  dfi_spmd_last_words(why, sizeof why);
  dfi_put_text(&p, why);
  for (int32_t i = 1; i < D->n; i++)
    dfi_channel_send(&D->worker[i].channel, DFI_W_STOP, 0, p.at, p.n, NULL, 0, DFI_HEART_SECONDS);
  dfi_free(p.at);
  const double until = dfi_now() + DFI_SPMD_SECONDS;
  for (int32_t i = 1; i < D->n; i++) {
    dfi_worker *w = &D->worker[i];
    while (!ended_well(w) && dfi_driver_alive(i) && dfi_now() < until) usleep(1000);
    if (ended_well(w)) continue;
    pthread_mutex_lock(&D->lock);
    fprintf(stderr, "dflow: rank %d (host %s, pid %lld) %s\n", i, w->host, (long long)w->pid,
            w->why[0] ? w->why : "was ended: its program went on for long after that of rank 0");
    if (!D->failed) D->failed = 1;
    pthread_mutex_unlock(&D->lock);
  }
}

static void stop_all(void) {
  if (!D->n) return;
  if (D->spmd) {
    dfi_spmd_set(NULL);
    wait_for_programs();
  }
  end_watcher();
  dfi_cluster_set(NULL);
  dismiss();
  for (int32_t i = 1; i < D->n; i++) end_worker(&D->worker[i]);
  dfi_mirror_forget_all();
  if (D->rank) dfi_rank_free(D->rank);
  if (D->memory) munmap(D->memory, (size_t)D->bytes);
  if (D->memfd >= 0) close(D->memfd);
  if (D->wake >= 0) close(D->wake);
  pthread_mutex_lock(&D->lock);
  D->rank = NULL; D->memory = NULL; D->memfd = D->wake = -1;
  D->n = 0;
  D->ending = D->spmd = D->launched = false;
  dfi_free(D->worker); dfi_free(D->hosts);
  D->worker = NULL;
  D->hosts = NULL;
  pthread_mutex_unlock(&D->lock);
}

/* A forked child has no workers: they are its parent's. */
static void in_child(void) {
  for (int32_t i = 1; i < D->n; i++) if (D->worker[i].channel.fd >= 0) close(D->worker[i].channel.fd);
  if (D->n) dfi_cluster_set(NULL);
  D->n = 0;
}

static int32_t start_workers(int32_t n, const dfi_launch *launch, df_error *err) {
  for (int32_t i = 1; i < n; i++) {
    if (!launch && start_worker(&D->worker[i], err)) return err->code;
    if (dfi_mpi_is_far(i) && dfi_mpi_reach(&D->worker[i], D->memory, D->bytes, n, err)) return err->code;
  }
  return launch ? dfi_launch_accept(launch, D->worker, D->memfd, err) : DF_OK;
}

/* launch: of ranks that are started already; NULL: they are to be. */
static int32_t start(int32_t n, const char *program, const dfi_launch *launch, df_error *err) {
  if (!dfi_process_program(program, D->program, sizeof D->program))
    return dfi_fail(err, DF_NOT_FOUND, NULL,
                    "no program `dflow` was found to start workers with: neither beside the library nor in PATH%s%s",
                    program && program[0] ? ", nor at " : "", program ? program : "");
  D->worker = dfi_xcalloc((size_t)n, sizeof *D->worker);
  D->worker[0] = (dfi_worker){ .state = DF_RANK_ALIVE, .pid = getpid(), .pidfd = -1, .channel = DFI_CHANNEL_CLOSED };
  gethostname(D->worker[0].host, sizeof D->worker[0].host - 1);
  for (int32_t i = 1; i < n; i++) D->worker[i] = (dfi_worker){ .rank = i, .pidfd = -1, .channel = DFI_CHANNEL_CLOSED };
  D->n = n;
  D->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (make_memory(n, err)) return err->code;
  D->launched = launch != NULL;
  D->failed = 0;
  if (start_workers(n, launch, err)) return err->code;
  D->watching = true;
  if (pthread_create(&D->watcher, NULL, watch, NULL)) {
    D->watching = false;
    return dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "no thread could be started to watch %d ranks", n);
  }
  if (wait_started(err)) return err->code;
  dfi_cluster_set(dfi_mirror_table(D->rank));
  return DF_OK;
}

static int32_t check_size(int32_t n, df_error *err) {
  if (n > 0 && n <= DFI_RANKS_MOST) return DF_OK;
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "a cluster has 1 to %d ranks, not %d", DFI_RANKS_MOST, n);
}

static int32_t begin(int32_t n, const char *hosts, const char *program, const dfi_launch *launch, df_error *err) {
  static bool guarded;
  if (check_size(n, err)) return err->code;
  pthread_mutex_lock(&life);
  int32_t code = DF_OK;
  if (D->n && D->n != n)
    code = dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "a cluster of %d ranks runs already: stop it first", D->n);
  else if (!D->n && n > 1) {
    if (!guarded) pthread_atfork(NULL, NULL, in_child);
    guarded = true;
    D->hosts = hosts ? dfi_xstrdup(hosts) : NULL;
    if ((code = start(n, program, launch, err))) stop_all();
  }
  pthread_mutex_unlock(&life);
  return code;
}

int32_t df_cluster_start(int32_t n, const char *program, df_error *err) {
  df_error local;
  if (!err) err = &local;
  const int32_t rank = df_cluster_rank();
  if (!rank) return begin(n, NULL, program, NULL, err);
  if (n == df_cluster_size()) return DF_OK;
  return dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "this is rank %d of %d, and rank 0 starts ranks", rank,
                  df_cluster_size());
}

int32_t df_cluster_join(df_error *err) {
  df_error local;
  dfi_launch l;
  if (!err) err = &local;
  if (!dfi_launched(&l)) return DF_OK;
  setenv("DFLOW_JOINED", "1", 1);                    /* what this process starts is none of the job's ranks */
  if (check_size(l.size, err) || dfi_mpi_begin(&l, err)) return err->code;
  return l.rank ? dfi_worker_join(&l, err) : begin(l.size, NULL, NULL, &l, err);
}

int32_t df_cluster_hosts(const char *hosts, const char *program, df_error *err) {
  df_error local;
  int32_t n = 2;
  if (!err) err = &local;
  for (const char *c = hosts; *c; c++) {
    n += *c == ',';
    if ((*c == ',' || c == hosts) && (c[c != hosts] == ',' || !c[c != hosts] || c[c != hosts] == '-'))
      return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "`%s` is no list of hosts, such as a,b", hosts);
  }
  if (!hosts[0]) return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "a list of hosts is expected, such as a,b");
  return df_cluster_rank() ? DF_OK : begin(n, hosts, program, NULL, err);
}

int32_t df_cluster_spmd(df_error *err) {
  df_error local;
  if (!err) err = &local;
  if (D->spmd || df_cluster_rank()) return DF_OK;
  if (!D->n)
    return dfi_fail(err, DF_FAILED_PRECONDITION, NULL,
                    "there is no cluster whose ranks could run the program: start it first, as by `dflow -n 4`");
  for (int32_t i = 1; i < D->n; i++)
    if (dfi_driver_call(i, DFI_W_SPMD, NULL, 0, NULL, 0, NULL, NULL, err)) return err->code;
  D->spmd = true;
  dfi_spmd_set(dfi_spmd_driver());
  return DF_OK;
}

bool df_cluster_is_spmd(void) { return D->spmd || df_cluster_rank() > 0; }

/* Every live rank drops what it had with the process that was that rank, so that another one can be it. Each has been
 * told first that it failed. */
static void tell_back(int32_t rank) {
  pthread_mutex_lock(&D->lock);
  while (D->worker[rank].telling) pthread_cond_wait(&D->changed, &D->lock);
  pthread_mutex_unlock(&D->lock);
  const int64_t number = rank;
  df_error ignored;
  for (int32_t i = 1; i < D->n; i++)
    if (i != rank && dfi_driver_alive(i))
      dfi_driver_call(i, DFI_W_BACK, &number, sizeof number, NULL, 0, NULL, NULL, &ignored);
  dfi_rank_peer_back(D->rank, rank);
}

int32_t df_cluster_restart(df_error *err) {
  df_error local;
  int32_t code = DF_OK;
  if (!err) err = &local;
  if (df_cluster_is_spmd())
    return dfi_fail(err, DF_FAILED_PRECONDITION, NULL,
                    "where every rank runs the program, one that begins anew is not where the others are: run the "
                    "whole program again, from its last checkpoint (dflow --restarts 3 -- …)");
  pthread_mutex_lock(&life);
  for (int32_t i = 1; i < D->n && !code; i++) {
    dfi_worker *w = &D->worker[i];
    struct pollfd ended = { .fd = w->pidfd, .events = POLLIN };
    pthread_mutex_lock(&D->lock);
    if (poll(&ended, 1, 0) > 0) wait_for_watcher(w);
    const bool alive = w->state == DF_RANK_ALIVE;
    pthread_mutex_unlock(&D->lock);
    if (alive) continue;
    worker_failed(w, DF_RANK_DEAD, w->why);
    wait_for_round();
    dfi_hosts_stop(w);
    dfi_process_kill(w);
    dfi_mirror_forget_rank(i);
    tell_back(i);
    dfi_channel_close(&w->channel);
    code = start_worker(w, err);
  }
  if (!code && D->n) code = wait_started(err);
  pthread_mutex_unlock(&life);
  return code;
}

int32_t df_cluster_stop(int32_t status) {
  if (df_cluster_rank()) return dfi_worker_end(status), 0;
  pthread_mutex_lock(&life);
  stop_all();
  const int32_t failed = D->failed;
  pthread_mutex_unlock(&life);
  return failed;
}

/* ---- looks ------------------------------------------------------------------------------------------- */

int32_t df_cluster_most(void) { return DFI_RANKS_MOST; }
int32_t df_cluster_size(void) { return df_cluster_rank() ? dfi_worker_ranks() : D->n ? D->n : 1; }
int32_t df_cluster_jobs(const char *text, df_error *err) {
  if (dfi_jobs_set(text)) return DF_OK;
  return dfi_fail(err, DF_INVALID_ARGUMENT, NULL,
                  "`%s` does not say which ranks the tasks of jobs are, as in `ps=3;worker=0,1,2`", text);
}

void df_cluster_timeout(double seconds) { if (seconds > 0) atomic_store(&D->timeout, seconds); }

/* Seconds that a message takes to that rank: half of the shortest of some round trips; < 0: it gives no answer, as when
 * all its threads compute. */
static double latency_of(int32_t rank) {
  enum { PROBES = 4, WAIT_MS = 20 };
  dfi_worker *w = &D->worker[rank];
  int64_t best = INT64_MAX;
  for (int32_t i = 0; i < PROBES && dfi_driver_alive(rank); i++) {
    const dfi_probe p = { DFI_PROBE, dfi_now() };
    atomic_store(&w->echoed, -1);
    dfi_rank_post(D->rank, rank, &p, sizeof p);
    int64_t came;
    while ((came = atomic_load(&w->echoed)) < 0 && dfi_now() - p.sent < 1e-3 * WAIT_MS)
      dfi_rank_serve(D->rank, dfi_rank_wakes(D->rank), 1e-3);
    if (came < 0) break;
    if (came < best) best = came;
  }
  return best < INT64_MAX ? 0.5e-9 * (double)best : -1;
}

int32_t df_cluster_ranks(int32_t capacity, df_rank_info *out) {
  if (df_cluster_rank()) return dfi_follow_ranks(capacity, out);
  const int32_t n = D->n < capacity ? D->n : capacity;
  for (int32_t i = 0; i < n; i++)
    out[i] = (df_rank_info){ .rank = i, .latency = i ? latency_of(i) : 0, .waits_for = -1 };
  pthread_mutex_lock(&D->lock);
  for (int32_t i = 0; i < n; i++) {
    const dfi_worker *w = &D->worker[i];
    df_rank_info *info = &out[i];
    dfi_rank_traffic t = { 0 };
    dfi_rank_wait waits;
    if (i) dfi_rank_traffic_of(D->rank, i, &t);
    info->state = w->state;
    info->pid = w->pid;
    info->messages_out = t.messages_out, info->bytes_out = t.bytes_out;
    info->messages_in = t.messages_in, info->bytes_in = t.bytes_in;
    if (waits_there(i, &waits)) {
      info->waits_for = waits.from;
      info->waits_seconds = dfi_now() - waits.since;
      snprintf(info->waits_what, sizeof info->waits_what, "%s", waits.what);
    }
    snprintf(info->host, sizeof info->host, "%s", w->host);
    snprintf(info->why, sizeof info->why, "%s", w->why);
  }
  pthread_mutex_unlock(&D->lock);
  return D->n;
}
