/* worker.c: a process that holds sessions for the driver and turns its part of their runs: `dflow --worker`.
 *
 * Three threads: this one takes what comes by the ring and turns runs (further ones that overlap with it have threads
 * of their own), another reads the channel, a third gives a sign of life. It ends when the driver says so or goes. No
 * Lua runs here.
 */
#define _GNU_SOURCE
#include "cluster/driver.h"
#include "cluster/spmd.h"
#include "cluster/protocol.h"
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct held_graph { int64_t id; dfi_form form; struct held_graph *next; } held_graph;
typedef struct held_session {
  int64_t id;
  df_session *session;
  held_graph *graph;
  char *devices;                   /* owned; rank 0's list that the session has: runs read it, and it is read once */
  struct held_session *next;
} held_session;
typedef struct held_plan { df_session *session; dfi_plan *plan; } held_plan;         /* plan NULL: none */
typedef struct job { dfi_run_order order; struct job *next; } job;

static struct {
  int32_t rank, n;
  dfi_rank *ranks;
  dfi_channel channel;
  int memfd;
  held_graph *graphs;              /* these two are the reading thread's alone */
  held_session *sessions;
  pthread_mutex_t lock;            /* guards what follows */
  held_plan *plan; int64_t nplans;                  /* by number - 1 */
  job *first, **last;              /* runs to be turned */
  bool busy;                       /* a thread turns one already */
  bool program;                    /* it can run the program, too */
  atomic_int spmd;                 /* 1: it is to, and does */
  atomic_int ended;                /* its program is over */
} worker = { .channel = DFI_CHANNEL_CLOSED, .lock = PTHREAD_MUTEX_INITIALIZER };

int32_t df_cluster_rank(void) { return atomic_load(&worker.ended) ? 0 : worker.rank; }
int32_t dfi_worker_ranks(void) { return worker.n; }

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static void turn(const dfi_run_order *o) {
  df_error err = { 0 };
  pthread_mutex_lock(&worker.lock);
  const held_plan h = o->plan && (int64_t)o->plan <= worker.nplans ? worker.plan[o->plan - 1] : (held_plan){ 0 };
  if (h.plan) atomic_fetch_add(&h.session->active, 1);   /* rank 0 may close it as soon as it knows of the end */
  pthread_mutex_unlock(&worker.lock);
  if (!h.plan) {
    dfi_fail(&err, DF_INTERNAL, NULL, "rank %d has no plan %llu", worker.rank, (unsigned long long)o->plan);
    dfi_rank_refuse(worker.ranks, o->part.run, &err);
    return;
  }
  dfi_session_part(h.session, h.plan, &o->part, &err);
  atomic_fetch_sub(&h.session->active, 1);
}

static void turn_apart(void *arg) {
  job *j = arg;
  turn(&j->order);
  dfi_free(j);
}

/* Called by whichever thread took the message off the ring. */
static void on_message(void *user, int32_t from, const void *bytes, int64_t n) {
  if (n == sizeof(dfi_probe)) dfi_rank_post(worker.ranks, from, bytes, n);
  if (n != sizeof(dfi_run_order)) return;
  job *j = dfi_xcalloc(1, sizeof *j);
  memcpy(&j->order, bytes, sizeof j->order);
  if (j->order.kind != DFI_RUN_ORDER) { dfi_free(j); return; }
  dfi_rank_expect(worker.ranks, j->order.part.run);
  pthread_mutex_lock(&worker.lock);
  const bool apart = worker.busy || worker.first;
  if (!apart) { *worker.last = j; worker.last = &j->next; }
  pthread_mutex_unlock(&worker.lock);
  if (!apart) { dfi_rank_wake(worker.ranks); return; }
  if (dfi_background(turn_apart, j)) return;
  df_error err;
  dfi_fail(&err, DF_RESOURCE_EXHAUSTED, NULL, "no thread could be started on rank %d for the run", worker.rank);
  dfi_rank_refuse(worker.ranks, j->order.part.run, &err);
  dfi_free(j);
}

static job *next_job(void) {
  pthread_mutex_lock(&worker.lock);
  job *j = worker.first;
  if (j && !(worker.first = j->next)) worker.last = &worker.first;
  worker.busy = j != NULL;
  pthread_mutex_unlock(&worker.lock);
  return j;
}

/* Turns runs, until the program is to run here: then another thread does. */
static void serve(bool apart) {
  for (;;) {
    const uint32_t wakes = dfi_rank_wakes(worker.ranks);
    if (!apart && atomic_load(&worker.spmd)) return;
    for (job *j; (j = next_job()) != NULL;) turn_apart(j);
    dfi_rank_serve(worker.ranks, wakes, 1.0);
  }
}

static void *serve_apart(void *arg) {
  serve(true);
  return NULL;
}

/* ---- what the driver says ---------------------------------------------------------------------------- */

static void reply(const df_error *err, const void *more, size_t n) {
  dfi_packet p = { 0 };
  dfi_reply_put(&p, err);
  dfi_channel_send(&worker.channel, DFI_W_REPLY, worker.channel.header.request, p.at, p.n, more, n, 60);
  dfi_free(p.at);
}

static held_graph *graph_by(int64_t id) {
  for (held_graph *g = worker.graphs; g; g = g->next) if (g->id == id) return g;
  return NULL;
}
static held_session *session_by(int64_t id, df_error *err) {
  for (held_session *s = worker.sessions; s; s = s->next) if (s->id == id) return s;
  dfi_fail(err, DF_INTERNAL, NULL, "rank %d has no session %lld", worker.rank, (long long)id);
  return NULL;
}

static void drop_graph(held_graph *g) {
  for (held_graph **at = &worker.graphs; *at; at = &(*at)->next) if (*at == g) { *at = g->next; break; }
  dfi_form_free(&g->form);
  dfi_free(g);
}

/* Was sent half a graph, or none: what is here of it is of no use. Sessions that run it keep it as it is. */
static int32_t read_graph(dfi_cursor *c, df_error *err) {
  const int64_t id = dfi_get_i64(c), anew = dfi_get_i64(c);
  held_graph *g = graph_by(id);
  if (g && anew) { drop_graph(g); g = NULL; }
  if (!g && !anew) return dfi_fail(err, DF_INTERNAL, NULL, "rank %d has no graph %lld", worker.rank, (long long)id);
  if (!g) {
    df_graph *made = df_graph_new();
    if (!made) return dfi_short_fail(err, NULL, "a graph");
    g = dfi_xcalloc(1, sizeof *g);
    g->id = id;
    dfi_form_init(&g->form, made, false);
    df_graph_release(made);
    g->next = worker.graphs;
    worker.graphs = g;
  }
  pthread_mutex_lock(&g->form.graph->lock);
  const int32_t code = dfi_form_read(&g->form, c->at, (size_t)(c->end - c->at), false, err);
  pthread_mutex_unlock(&g->form.graph->lock);
  if (code) drop_graph(g);
  return code;
}

/* The driver's options without those that are its own: devices come with each plan, and the processors are shared. */
static char *own_options(const char *text) {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  const int32_t threads = cores > worker.n ? (int32_t)(cores / worker.n) : 1;
  const size_t room = strlen(text) + 32;
  char *own = dfi_xmalloc(room), *copy = dfi_xstrdup(text), *save = NULL;
  size_t n = 0;
  bool said = false;
  for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
    if (!strncmp(w, "device=", 7)) continue;
    said |= !strncmp(w, "threads=", 8);
    n += (size_t)snprintf(own + n, room - n, "%s ", w);
  }
  snprintf(own + n, room - n, "%s%.0d", said ? "" : "threads=", said ? 0 : threads);
  dfi_free(copy);
  return own;
}

static int32_t read_session(dfi_cursor *c, df_error *err) {
  const int64_t id = dfi_get_i64(c);
  held_graph *g = graph_by(dfi_get_i64(c));
  char text[4096];
  dfi_get_text(c, text, sizeof text);
  if (!g || c->bad) return dfi_fail(err, DF_INTERNAL, NULL, "rank %d has no graph for a session", worker.rank);
  char *options = own_options(text);
  df_session *s = df_session_new(g->form.graph, options, err);
  dfi_free(options);
  if (!s) return err->code;
  held_session *h = dfi_xcalloc(1, sizeof *h);
  *h = (held_session){ .id = id, .session = s, .graph = g, .next = worker.sessions };
  worker.sessions = h;
  return DF_OK;
}

static void keep_plan(int64_t number, df_session *s, dfi_plan *p) {
  pthread_mutex_lock(&worker.lock);
  if (number > worker.nplans) {
    worker.plan = dfi_xrealloc(worker.plan, sizeof *worker.plan * (size_t)number * 2);
    memset(worker.plan + worker.nplans, 0, sizeof *worker.plan * (size_t)(2 * number - worker.nplans));
    worker.nplans = 2 * number;
  }
  worker.plan[number - 1] = (held_plan){ s, p };
  pthread_mutex_unlock(&worker.lock);
}

static int32_t read_plan(dfi_cursor *c, df_error *err) {
  held_session *h = session_by(dfi_get_i64(c), err);
  const int64_t number = dfi_get_i64(c);
  const uint64_t digest = (uint64_t)dfi_get_i64(c);
  const int64_t length = dfi_get_i64(c);
  const char *list = length >= 0 ? dfi_get(c, (size_t)length) : NULL;
  char jobs[4096];
  dfi_get_text(c, jobs, sizeof jobs);
  const uint32_t watched = (uint32_t)dfi_get_i64(c);
  const int64_t nfetch = dfi_get_i64(c), nfeed = dfi_get_i64(c), most = INT32_MAX / 4;
  if (!h) return err->code;
  const bool sound = list && number > 0 && number < most && nfetch >= 0 && nfeed >= 0 && nfetch < most && nfeed < most;
  const int32_t *pairs = sound ? dfi_get(c, sizeof *pairs * 2 * (size_t)(nfetch + nfeed)) : NULL;
  if (!pairs) return dfi_fail(err, DF_INTERNAL, NULL, "rank %d was sent no plan", worker.rank);
  char *devices = dfi_xmalloc((size_t)length + 1);
  memcpy(devices, list, (size_t)length);
  devices[length] = 0;
  int32_t *signature = dfi_xmalloc(sizeof *pairs * 2 * (size_t)(nfetch + nfeed) + 1);
  memcpy(signature, pairs, sizeof *pairs * 2 * (size_t)(nfetch + nfeed));
  dfi_plan *p = NULL;
  dfi_jobs_set(jobs);
  int32_t code = DF_OK;
  if (h->devices && !strcmp(h->devices, devices)) dfi_free(devices);
  else {
    dfi_free(h->devices);
    h->devices = devices;
    if ((code = dfi_session_devices_are(h->session, devices, err))) h->devices[0] = 0;
  }
  if (!code)
    p = dfi_session_plan(h->session, (int32_t)nfetch, signature, (int32_t)nfeed, signature + 2 * nfetch, watched,
                         err);
  if (!code && !p) code = err->code;
  if (p && dfi_plan_digest(p) != digest) {
    code = dfi_fail(err, DF_INTERNAL, NULL, "rank %d has made another plan of the same graph than the driver",
                    worker.rank);
    dfi_session_let_go(p);
  } else if (p) keep_plan(number, h->session, p);
  dfi_free(signature);
  return code;
}

static df_node *node_by(const held_session *s, int64_t id, df_error *err) {
  df_graph *g = s->graph->form.graph;
  if (id >= 0 && id < g->n && dfi_is_variable(g->node[id])) return g->node[id];
  dfi_fail(err, DF_INTERNAL, NULL, "rank %d has no variable %lld", worker.rank, (long long)id);
  return NULL;
}

static int32_t get_variable(dfi_cursor *c, void **bytes, int64_t *n, df_error *err) {
  const held_session *s = session_by(dfi_get_i64(c), err);
  df_node *handle = s ? node_by(s, dfi_get_i64(c), err) : NULL;
  df_value v;
  if (!handle || dfi_session_variable_here(s->session, handle, &v, err)) return err->code;
  *bytes = dfi_value_pack(&v, n, err);
  df_value_release(&v);
  return *bytes ? DF_OK : err->code;
}

static int32_t set_variable(dfi_cursor *c, df_error *err) {
  const held_session *s = session_by(dfi_get_i64(c), err);
  df_node *handle = s ? node_by(s, dfi_get_i64(c), err) : NULL;
  df_value v = { 0 };
  if (!handle) return err->code;
  const bool is = dfi_get_i64(c) != 0;
  if (is && !dfi_value_unpack(c->at, c->end - c->at, &v))
    return dfi_fail(err, DF_DATA_LOSS, NULL, "rank %d was sent no value", worker.rank);
  const int32_t code = dfi_session_set_variable_here(s->session, handle, is ? &v : NULL, err);
  df_value_release(&v);
  return code;
}

/* Opens the GPU that rank 0's graph names, and says how many there are. */
static int32_t open_gpu(dfi_cursor *c, void **bytes, int64_t *n, df_error *err) {
  const int64_t number = dfi_get_i64(c);
  if (number >= 0 && !dfi_gpu_open((int32_t)number, err)) return err->code;
  const int64_t count = dfi_gpu_count();
  *bytes = memcpy(dfi_xmalloc(sizeof count), &count, sizeof count);
  *n = sizeof count;
  return DF_OK;
}

static void close_session(int64_t id) {
  for (held_session **at = &worker.sessions; *at; at = &(*at)->next) {
    held_session *s = *at;
    if (s->id != id) continue;
    *at = s->next;
    pthread_mutex_lock(&worker.lock);
    for (int64_t i = 0; i < worker.nplans; i++)
      if (worker.plan[i].session == s->session) worker.plan[i] = (held_plan){ 0 };
    pthread_mutex_unlock(&worker.lock);
    df_session_release(s->session);
    held_graph *g = s->graph;
    dfi_free(s->devices);
    dfi_free(s);
    bool used = false;
    for (held_session *o = worker.sessions; o; o = o->next) used |= o->graph == g;
    if (!used && graph_by(g->id) == g) drop_graph(g);
    return;
  }
}

static void peer_failed(dfi_cursor *c) {
  char host[64], what[200];
  const int64_t rank = dfi_get_i64(c), pid = dfi_get_i64(c);
  dfi_get_text(c, host, sizeof host);
  dfi_get_text(c, what, sizeof what);
  if (!c->bad && rank > 0 && rank < worker.n) dfi_rank_peer_failed(worker.ranks, (int32_t)rank, host, pid, what);
}

/* The program runs here from now on, too. */
static int32_t run_program(df_error *err) {
  if (!worker.program)
    return dfi_fail(err, DF_FAILED_PRECONDITION, NULL,
                    "rank %d has no program to run: SPMD needs a script in a file, or -e, as in `dflow -n 4 --spmd "
                    "script.lua`", worker.rank);
  dfi_spmd_set(dfi_spmd_follower(&worker.channel));
  atomic_store(&worker.spmd, 1);
  dfi_rank_wake(worker.ranks);
  return DF_OK;
}

/* That of rank 0. */
static void program_over(dfi_cursor *c) {
  char why[sizeof(((df_error *)0)->message)];
  dfi_get_text(c, why, sizeof why);
  dfi_follow_lost(DF_FAILED_PRECONDITION, why);
}

static void obey(dfi_word word, dfi_cursor *c) {
  df_error err = { 0 };
  int32_t code = DF_OK;
  void *bytes = NULL;
  int64_t n = 0;
  switch (word) {
  case DFI_W_GRAPH: code = read_graph(c, &err); break;
  case DFI_W_SESSION: code = read_session(c, &err); break;
  case DFI_W_PLAN: code = read_plan(c, &err); break;
  case DFI_W_GET: code = get_variable(c, &bytes, &n, &err); break;
  case DFI_W_SET: code = set_variable(c, &err); break;
  case DFI_W_GPUS: code = open_gpu(c, &bytes, &n, &err); break;
  case DFI_W_RESET: {
    const held_session *s = session_by(dfi_get_i64(c), &err);
    if (s) df_session_reset(s->session);
    break;
  }
  case DFI_W_CLOSE: close_session(dfi_get_i64(c)); break;
  case DFI_W_PEER: peer_failed(c); break;
  case DFI_W_BACK: {
    const int64_t rank = dfi_get_i64(c);
    if (rank > 0 && rank < worker.n && rank != worker.rank) dfi_rank_peer_back(worker.ranks, (int32_t)rank);
    break;
  }
  case DFI_W_SPMD: code = run_program(&err); break;
  case DFI_W_ANSWER: dfi_follow_answered(worker.channel.header.request, c->at, (size_t)(c->end - c->at)); return;
  case DFI_W_OFFER: code = dfi_follow_offer(c, &bytes, &n, &err); break;
  case DFI_W_STOP:
    if (!atomic_load(&worker.spmd)) { dfi_mpi_end(true); _exit(0); }
    program_over(c);
    break;
  default: break;
  }
  if (worker.channel.header.request) reply(code ? &err : NULL, bytes, (size_t)n);
  dfi_free(bytes);
}

/* A program whose end the driver has been told of goes on alone, and so does its end. */
static void driver_gone(void) {
  while (atomic_load(&worker.ended)) pause();
  if (atomic_load(&worker.spmd)) fprintf(stderr, "dflow: rank %d ends: rank 0 has ended\n", worker.rank);
  _exit(atomic_load(&worker.spmd) ? 1 : 0);
}

static bool listen_once(int timeout) {
  struct pollfd ready = { .fd = worker.channel.fd, .events = POLLIN };
  poll(&ready, 1, timeout);
  const int32_t whole = dfi_channel_read(&worker.channel);
  if (whole < 0) driver_gone();
  return whole > 0;
}

static void *read_channel(void *arg) {
  for (;;) {
    if (!listen_once(-1)) continue;
    dfi_cursor c = { worker.channel.payload, worker.channel.payload + worker.channel.header.bytes, false };
    obey((dfi_word)worker.channel.header.word, &c);
  }
  return NULL;
}

static void *beat(void *arg) {
  for (;;) {
    usleep((useconds_t)(DFI_HEART_SECONDS * 1e6));
    dfi_packet p = { 0 };
    dfi_rank_wait w;
    if (dfi_rank_waiting(worker.ranks, &w)) {
      dfi_put_i64(&p, w.from);
      dfi_put_i64(&p, (int64_t)(1e6 * (dfi_now() - w.since)));
      dfi_put_text(&p, w.what);
    }
    dfi_channel_send(&worker.channel, DFI_W_HEART, 0, p.at, p.n, NULL, 0, DFI_HEART_SECONDS);
    dfi_free(p.at);
  }
  return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------- */

/* Workers of another rank are not asked anything: their sessions only turn parts. */
static int32_t no_begin(void *user, df_session *s, const dfi_plan *p, uint64_t ranks, const dfi_part_order *o,
                        df_error *err) {
  return dfi_fail(err, DF_INTERNAL, NULL, "rank %d is no driver", worker.rank);
}
static int32_t no_get(void *user, df_session *s, int32_t rank, df_node *handle, df_value *out, df_error *err) {
  return dfi_fail(err, DF_INTERNAL, NULL, "rank %d is no driver", worker.rank);
}
static int32_t no_set(void *user, df_session *s, int32_t rank, df_node *handle, const df_value *value, df_error *err) {
  return dfi_fail(err, DF_INTERNAL, NULL, "rank %d is no driver", worker.rank);
}
static void nothing(void *user, df_session *s) {}

static bool say_hello(void) {
  dfi_packet p = { 0 };
  char host[64] = "";
  gethostname(host, sizeof host - 1);
  dfi_put_text(&p, DFI_PROTOCOL);
  dfi_put_i64(&p, (int64_t)dfi_build_digest());
  dfi_put_text(&p, host);
  const bool sent = dfi_channel_send(&worker.channel, DFI_W_HELLO, 0, p.at, p.n, NULL, 0, 20);
  dfi_free(p.at);
  return sent;
}

/* Makes this end of the ring from what the driver says. */
static int32_t join(dfi_cursor *c, df_error *err) {
  struct stat about;
  worker.rank = (int32_t)dfi_get_i64(c);
  worker.n = (int32_t)dfi_get_i64(c);
  const int64_t bytes = dfi_get_i64(c);
  if (c->bad || worker.rank < 1 || worker.n <= worker.rank || worker.n > DFI_RANKS_MOST ||
      fstat(worker.memfd, &about) || bytes < 1 || about.st_size < bytes)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "was given no memory to share");
  void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, worker.memfd, 0);
  if (memory == MAP_FAILED) return dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "cannot map the memory that ranks share");
  dfi_transport *t = dfi_ring_new(memory, bytes, worker.rank, err);
  if (!t) return err->code;
  worker.ranks = dfi_rank_new(t);
  dfi_rank_handle(worker.ranks, on_message, NULL);
  static dfi_cluster table;
  table = (dfi_cluster){ .rank = worker.ranks, .begin = no_begin, .get_variable = no_get, .set_variable = no_set,
                         .reset = nothing, .closed = nothing };
  dfi_cluster_set(&table);
  return DF_OK;
}

/* The channel is open: says hello, joins, and turns runs. Returns the exit status where it could not begin; -1: the
 * program is to run here. */
static int32_t work(void) {
  pthread_t reader, heart, server;
  signal(SIGINT, SIG_IGN);                                              /* the driver's business, and it tells us */
  signal(SIGQUIT, SIG_IGN);
  worker.last = &worker.first;
  if (!say_hello()) return 1;
  while (!listen_once(-1)) {}
  dfi_cursor c = { worker.channel.payload, worker.channel.payload + worker.channel.header.bytes, false };
  df_error err = { 0 };
  const int32_t code = worker.channel.header.word == DFI_W_WELCOME ? join(&c, &err) : DF_INTERNAL;
  reply(code ? &err : NULL, NULL, 0);
  if (code) return 1;
  char name[16];
  snprintf(name, sizeof name, "dflow rank %d", worker.rank);
  prctl(PR_SET_NAME, name);
  if (pthread_create(&heart, NULL, beat, NULL) || pthread_create(&reader, NULL, read_channel, NULL)) return 1;
  serve(false);
  return pthread_create(&server, NULL, serve_apart, NULL) ? 1 : -1;
}

int32_t df_cluster_worker(bool program) {
  struct stat about;
  if (fstat(DFI_FD_SOCKET, &about) || !S_ISSOCK(about.st_mode) || fstat(DFI_FD_MEMORY, &about) ||
      !S_ISREG(about.st_mode)) {
    fprintf(stderr, "dflow: --worker is how df.cluster.start, `dflow -n` and :cluster start a rank; by itself it has "
                    "nothing to do\n");
    return 1;
  }
  for (int fd = DFI_FD_MEMORY + 1; fd < 1024; fd++) close(fd);         /* what the driver had open */
  worker.program = program;
  worker.memfd = DFI_FD_MEMORY;
  dfi_channel_open(&worker.channel, DFI_FD_SOCKET);
  return work();
}

int32_t dfi_worker_join(const dfi_launch *l, df_error *err) {
  int channel;
  if (dfi_mpi_is_far(l->rank) ? dfi_mpi_join(l, &channel, &worker.memfd, err)
                              : dfi_launch_connect(l, &channel, &worker.memfd, err))
    return err->code;
  worker.program = true;
  dfi_channel_open(&worker.channel, channel);
  const int32_t status = work();
  if (status > 0) _exit(status);
  return DF_OK;
}

void dfi_worker_end(int32_t status) {
  const int64_t said = status;
  dfi_spmd_set(NULL);
  dfi_cluster_set(NULL);
  dfi_follow_lost(DF_FAILED_PRECONDITION, "this rank has left the cluster");
  atomic_store(&worker.ended, 1);
  dfi_channel_send(&worker.channel, DFI_W_ENDED, 0, &said, sizeof said, NULL, 0, 2);
  dfi_mpi_end(true);
}
