/* spmd.c: what a program asks for, as bytes that are alike where programs are: see spmd.h. */
#include "cluster/spmd.h"
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;          /* guards the list, and `session` */
static dfi_program *programs;
static int64_t ids;

static dfi_program *known(uint64_t serial) {
  dfi_program *p = programs;
  while (p && p->serial != serial) p = p->next;
  return p;
}

static dfi_program *new_program(df_session *s) {
  dfi_program *p = dfi_xcalloc(1, sizeof *p);
  *p = (dfi_program){ .session = s, .serial = s->serial, .id = ++ids, .graph = df_graph_retain(s->graph), .nodes = -1,
                      .next = programs };
  dfi_form_init(&p->form, s->graph, false);
  return programs = p;
}

dfi_program *dfi_program_of(df_session *s) {
  pthread_mutex_lock(&lock);
  dfi_program *p = known(s->serial);
  if (!p) p = new_program(s);
  pthread_mutex_unlock(&lock);
  return p;
}
dfi_program *dfi_program_hold(int64_t id) {
  pthread_mutex_lock(&lock);
  dfi_program *p = programs;
  while (p && p->id != id) p = p->next;
  return p;
}
void dfi_program_let_go(void) { pthread_mutex_unlock(&lock); }

void dfi_program_closed(const df_session *s) {
  pthread_mutex_lock(&lock);
  dfi_program *p = known(s->serial);
  if (p) p->session = NULL;
  pthread_mutex_unlock(&lock);
}

static uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n) {
  return (h ^ h >> 29) * 0x9e3779b97f4a7c15u + dfi_hash_name(bytes, n);
}

/* The digest of the graph as it is. A graph that has not grown, asked for what was asked for before, is what it was. */
static int32_t look_at_graph(dfi_program *p, uint64_t signature, df_error *err) {
  uint64_t *seen = &p->seen[signature % 64];
  pthread_mutex_lock(&p->graph->lock);
  int32_t code = DF_OK;
  if (p->nodes != p->graph->n || *seen != signature) {
    dfi_bytes bytes = { 0 };
    bool changed;
    code = dfi_form_write(&p->form, &bytes, &changed, err);
    if (!code && changed) p->digest = hash_bytes(p->digest, bytes.at, bytes.n);
    dfi_free(bytes.at);
    if (p->nodes != p->graph->n) memset(p->seen, 0, sizeof p->seen);
    p->nodes = p->graph->n;
    *seen = signature;
  }
  pthread_mutex_unlock(&p->graph->lock);
  return code;
}

int32_t dfi_put_value(dfi_packet *p, const df_value *v, df_error *err) {
  int64_t n = -1;
  void *bytes = v && v->kind != DF_EMPTY ? dfi_value_pack(v, &n, err) : NULL;
  if (v && v->kind != DF_EMPTY && !bytes) return err->code;
  dfi_put_i64(p, n);
  if (bytes) dfi_put(p, bytes, (size_t)n);
  dfi_free(bytes);
  return DF_OK;
}

bool dfi_get_value(dfi_cursor *c, df_value *v) {
  *v = (df_value){ 0 };
  const int64_t n = dfi_get_i64(c);
  if (n < 0) return !c->bad;
  const void *bytes = dfi_get(c, (size_t)n);
  return bytes && dfi_value_unpack(bytes, n, v);
}

int32_t *dfi_feed_order(const dfi_spmd_call *c) {
  int32_t *order = dfi_xcalloc((size_t)c->nfeed + 1, sizeof *order);
  const int32_t *f = c->feeds;
  for (int32_t i = 0; i < c->nfeed; i++) {              /* few: by insertion */
    int32_t at = i;
    for (; at && (f[2 * order[at - 1]] > f[2 * i] ||
                  (f[2 * order[at - 1]] == f[2 * i] && f[2 * order[at - 1] + 1] > f[2 * i + 1])); at--)
      order[at] = order[at - 1];
    order[at] = i;
  }
  return order;
}

/* The feeds: which and what each is, and the values of those whose placeholders are on this rank. */
static int32_t put_feeds(dfi_packet *p, const dfi_spmd_call *c, const int32_t *order, const df_value *values,
                         df_error *err) {
  for (int32_t k = 0; k < c->nfeed; k++) dfi_put(p, c->feeds + 2 * order[k], 2 * sizeof *c->feeds);
  for (int32_t k = 0; k < c->nfeed; k++) {
    const int32_t i = order[k];
    const dfi_shape shape = dfi_value_shape(&values[i]);
    dfi_put_i64(p, values[i].dtype);
    dfi_put_i64(p, shape.rank);
    for (int32_t d = 0; d < shape.rank; d++) dfi_put_i64(p, shape.dims[d]);
  }
  const int32_t me = df_cluster_rank();
  for (int32_t k = 0; k < c->nfeed && me; k++) {
    const int32_t i = order[k], id = c->feeds[2 * i];
    const df_node *n = id >= 0 && id < c->session->graph->n ? c->session->graph->node[id] : NULL;
    const bool mine = n && dfi_session_home(c->session, n) == me;
    if (dfi_put_value(p, mine ? &values[i] : NULL, err)) return err->code;
  }
  return DF_OK;
}

int32_t dfi_arrival_put(dfi_packet *p, dfi_program *of, int64_t kind, const dfi_spmd_call *c, const df_value *values,
                        const df_node *handle, df_error *err) {
  const size_t fetches = sizeof *c->fetches * 2 * (size_t)c->nfetch;
  const uint64_t signature = hash_bytes((uint64_t)kind, c->fetches, fetches);
  if (look_at_graph(of, signature | 1, err)) return err->code;
  dfi_put_i64(p, kind);
  dfi_put_i64(p, of->id);
  dfi_put_i64(p, of->graph->n);
  dfi_put_i64(p, (int64_t)of->digest);
  dfi_put_i64(p, c->nfetch);
  dfi_put_i64(p, c->nfeed);
  dfi_put(p, c->fetches, fetches);
  if (kind == DFI_SPMD_RUN) {
    int32_t *order = dfi_feed_order(c);
    const int32_t code = put_feeds(p, c, order, values, err);
    dfi_free(order);
    return code;
  }
  dfi_packet value = { 0 };
  const int32_t code = dfi_put_value(&value, values, err);
  dfi_put_i64(p, handle->id);
  dfi_put_i64(p, (int64_t)hash_bytes(1, value.at, value.n));
  dfi_free(value.at);
  return code;
}

/* ---- two graphs ------------------------------------------------------------------------------------ */

static bool same_text(const char *a, const char *b) { return !strcmp(a ? a : "", b ? b : ""); }

static bool same_tensor(const df_tensor *a, const df_tensor *b) {
  if (!a || !b) return a == b;
  if (a->dtype != b->dtype || a->rank != b->rank || a->size != b->size) return false;
  for (int32_t d = 0; d < a->rank; d++) if (a->dims[d] != b->dims[d]) return false;
  if (a->dtype != DF_STRING)
    return !memcmp(a->data, b->data, (size_t)a->size * dfi_dtype_size[a->dtype]);
  for (int64_t i = 0; i < a->size; i++) {
    int64_t n, m;
    const char *s = df_tensor_string(a, i, &n), *t = df_tensor_string(b, i, &m);
    if (n != m || memcmp(s, t, (size_t)n)) return false;
  }
  return true;
}

static bool same_attr(char type, const df_attr *a, const df_attr *b) {
  switch (type) {
  case 'f': return !memcmp(&a->f, &b->f, sizeof a->f);
  case 's': return same_text(a->s, b->s);
  case 't': return same_tensor(a->tensor, b->tensor);
  case 'h': case 'l': case 'y': case 'p':
    return a->i == b->i && (a->i <= 0 || !memcmp(a->ints, b->ints, sizeof *a->ints * (size_t)a->i));
  default: return a->i == b->i;
  }
}

static const char *node_difference(df_node *a, df_node *b) {
  const dfi_op_info *o = dfi_op_info_at(a->op);
  if (a->op != b->op) return "what it does";
  if (!same_text(dfi_node_name(a), dfi_node_name(b))) return "its name";
  if (a->nin != b->nin || a->ncontrol != b->ncontrol) return "its inputs";
  for (int32_t i = 0; i < a->nin; i++)
    if (a->in[i].node->id != b->in[i].node->id || a->in[i].index != b->in[i].index) return "its inputs";
  for (int32_t i = 0; i < a->ncontrol; i++) if (a->control[i]->id != b->control[i]->id) return "what it waits for";
  for (int32_t i = 0; i < o->nattr; i++)
    if (!same_attr(o->attr[i].type, &a->attrs[i], &b->attrs[i])) return o->attr[i].name;
  for (int32_t i = 0; i < a->nout; i++)
    if (i >= b->nout || a->out[i].dtype != b->out[i].dtype || !dfi_shape_equal(&a->out[i].shape, &b->out[i].shape))
      return "its shapes";
  return same_text(a->device, b->device) ? NULL : "its device";
}

int32_t dfi_first_difference(df_graph *a, df_graph *b, const char **what) {
  for (int32_t i = 0; i < a->n && i < b->n; i++)
    if ((*what = node_difference(a->node[i], b->node[i])) != NULL) return i;
  *what = "its line";
  for (int32_t i = 0; i < a->n && i < b->n; i++) if (!same_text(a->node[i]->where, b->node[i]->where)) return i;
  return -1;
}
