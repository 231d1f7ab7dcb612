/* variables.c: the variables of a session: found by their names, given their initial values, read and set. */
#include "session/session.h"
#include "graph/build.h"
#include <stdio.h>

/* What a variable is found by: its container and shared name, or the node's name where it has none. A reference and a
 * handle of one name are different variables. Owned. */
static char *variable_key(df_node *n) {
  const dfi_op_info *o = dfi_op_info_at(n->op);
  int32_t container = dfi_op_attr_index(o, "container"), shared = dfi_op_attr_index(o, "shared_name");
  const char *in = container >= 0 && n->attrs[container].i ? n->attrs[container].s : "";
  const char *name = shared >= 0 && n->attrs[shared].i ? n->attrs[shared].s : dfi_node_name(n);
  size_t bytes = strlen(in) + strlen(name) + 16;
  char *key = dfi_xmalloc(bytes);
  snprintf(key, bytes, "%s %s/%s", n->out[0].ref ? "reference" : "handle", in, name);
  return key;
}

/* May the node be that variable? */
static int32_t check_variable(const dfi_variable *v, df_node *n, df_error *err) {
  const dfi_out *o = &n->out[0];
  uint8_t dtype = o->ref ? o->dtype : o->of;
  char text[160];
  if (v->dtype != dtype)
    return dfi_fail(err, DF_INVALID_ARGUMENT, n->where, "`%s` is for %s, but the variable of that name holds %s",
                    dfi_node_name(n), df_dtype_name(dtype), df_dtype_name(v->dtype));
  if (o->ref && o->shape.rank >= 0 && !dfi_shape_known(&o->shape))
    return dfi_fail(err, DF_INVALID_ARGUMENT, n->where,
                    "the shape of variable `%s`, %s, must be known in full or not at all", dfi_node_name(n),
                    dfi_shape_text(&o->shape, text));
  return DF_OK;
}

dfi_variable *dfi_session_variable_of(df_session *s, df_node *handle) {
  pthread_mutex_lock(&s->lock);
  dfi_variable *v = NULL;
  for (int32_t i = 0; i < s->nvariables && !v; i++) if (s->variable_node[i] == handle) v = s->variable[i];
  if (!v) {
    if (s->nvariables == s->variable_capacity) {
      s->variable_capacity = s->variable_capacity ? s->variable_capacity * 2 : 16;
      s->variable = dfi_xrealloc(s->variable, sizeof *s->variable * (size_t)s->variable_capacity);
      s->variable_node = dfi_xrealloc(s->variable_node, sizeof *s->variable_node * (size_t)s->variable_capacity);
    }
    const dfi_out *o = &handle->out[0];
    char *key = variable_key(handle);
    for (int32_t i = 0; i < s->nvariables && !v; i++)
      if (!strcmp(s->variable[i]->key, key)) v = dfi_handle_retain(s->variable[i]);
    if (!v) {
      v = dfi_variable_new(o->ref ? o->dtype : o->of, &o->shape, dfi_node_name(handle));
      v->where = handle->where;
      v->key = key;
    } else dfi_free(key);
    s->variable_node[s->nvariables] = handle;
    s->variable[s->nvariables++] = v;
  }
  pthread_mutex_unlock(&s->lock);
  return v;
}

void *dfi_run_variable(void *run, const df_kernel *k) {
  dfi_call *c = run;
  return dfi_handle_retain(dfi_session_variable_of(c->exec->setup.session, c->node->node));
}

int32_t df_variable_set_init(df_graph *g, int32_t handle_node, int32_t init_node, int32_t init_index, df_error *err) {
  if (handle_node < 0 || handle_node >= g->n || init_node < 0 || init_node >= g->n)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "there is no node %d or %d in this graph of %d nodes", handle_node,
                    init_node, g->n);
  df_node *h = g->node[handle_node], *i = g->node[init_node];
  if (init_index < 0 || init_index >= i->nout || !dfi_is_variable(h))
    return dfi_fail(err, DF_INVALID_ARGUMENT, h->where, "`%s` is not a variable, or `%s` has no output %d",
                    dfi_node_name(h), dfi_node_name(i), init_index);
  if (i->context->kind != DFI_TOP)
    return dfi_fail(err, DF_INVALID_ARGUMENT, h->where,
                    "the initial value of `%s` is made inside a loop or branch (`%s`, %s): it must be made outside",
                    dfi_node_name(h), dfi_node_name(i), i->where);
  if (!g->variable_init) g->variable_init = dfi_map_new();
  pthread_mutex_lock(&g->lock);
  dfi_map_put(g->variable_init, (df_output){ h, 0 }, (df_output){ i, init_index });
  dfi_graph_keep_all(g);
  pthread_mutex_unlock(&g->lock);
  return dfi_check_memory(DF_OK, err, h->where, "a variable's initial value");
}

/* Has a variable its first value? home: the rank that it lives on. */
static bool has_value(const df_session *s, dfi_variable *v, int32_t home) {
  return dfi_devices_here(&s->devices, home) ? dfi_variable_initialised(v) : v->told == home;
}

/* df.cluster.jobs has changed since v got its value: it has stayed where it was. */
static int32_t check_home(const df_session *s, dfi_variable *v, df_node *handle, int32_t home, df_error *err) {
  if (has_value(s, v, home) || (!v->told && !dfi_variable_initialised(v))) return DF_OK;
  return dfi_fail(err, DF_FAILED_PRECONDITION, handle->where,
                  "variable `%s` has its value on rank %d, but its device is now on rank %d: save it before "
                  "df.cluster.jobs changes, and restore it after that",
                  dfi_node_name(handle), v->told, home);
}

static int32_t set_value(df_session *s, df_node *handle, dfi_variable *v, int32_t home, const df_value *value,
                         df_error *err) {
  if (dfi_devices_here(&s->devices, home)) return dfi_variable_assign(v, value, err);
  const int32_t status = s->cluster->set_variable(s->cluster->user, s, home, handle, value, err);
  if (status) return status;
  v->told = home;
  dfi_variable_reset(v);                    /* what it had here, before df.cluster.jobs changed */
  return DF_OK;
}

static int32_t initialise(df_session *s, df_node *handle, dfi_variable *v, int32_t home, atomic_int *cancel,
                          df_error *err) {
  pthread_mutex_lock(&s->graph->lock);
  df_output init = dfi_map_get(s->graph->variable_init, (df_output){ handle, 0 });
  pthread_mutex_unlock(&s->graph->lock);
  if (!init.node) return DF_OK;             /* reading it will say so */
  if (s->initialising > s->nvariables + 1)
    return dfi_fail(err, DF_FAILED_PRECONDITION, handle->where,
                    "the initial value of variable `%s` needs the variable itself", dfi_node_name(handle));
  int32_t fetch[2] = { init.node->id, init.index };
  dfi_plan *p = dfi_session_plan(s, 1, fetch, 0, NULL, 0, err);
  if (!p) return err ? err->code : DF_INTERNAL;
  s->initialising++;
  df_value value = { 0 };
  int32_t status = dfi_session_compute(s, p, cancel, &value, err);
  s->initialising--;
  dfi_session_let_go(p);
  if (!status && !has_value(s, v, home)) status = set_value(s, handle, v, home, &value, err);
  df_value_release(&value);
  return status;
}

int32_t dfi_session_initialise(df_session *s, dfi_plan *p, atomic_int *cancel, df_error *err) {
  int64_t epoch = atomic_load(&s->epoch);
  if (DFI_LIKELY(atomic_load_explicit(&p->ready_epoch, memory_order_acquire) == epoch)) return DF_OK;
  int32_t status = DF_OK;
  pthread_mutex_lock(&s->init_lock);
  for (int32_t i = 0; i < p->nvariables && !status; i++) {
    dfi_variable *v = dfi_session_variable_of(s, p->variable[i]);
    const int32_t home = p->cut ? s->devices.at[p->variable_device[i]]->rank : 0;
    status = check_variable(v, p->variable[i], err);
    if (!status) status = check_home(s, v, p->variable[i], home, err);
    if (!status && !has_value(s, v, home)) status = initialise(s, p->variable[i], v, home, cancel, err);
  }
  pthread_mutex_unlock(&s->init_lock);
  if (!status) atomic_store_explicit(&p->ready_epoch, epoch, memory_order_release);
  return status;
}

void df_session_reset(df_session *s) {
  pthread_mutex_lock(&s->init_lock);
  pthread_mutex_lock(&s->lock);
  for (int32_t i = 0; i < s->nvariables; i++) {
    dfi_variable_reset(s->variable[i]);
    s->variable[i]->told = 0;
  }
  atomic_fetch_add(&s->epoch, 1);
  pthread_mutex_unlock(&s->lock);
  if (s->cluster && !s->devices.rank) s->cluster->reset(s->cluster->user, s);
  pthread_mutex_unlock(&s->init_lock);
}

static df_node *variable_node(df_session *s, int32_t handle_node, df_error *err) {
  if (handle_node < 0 || handle_node >= s->graph->n)
    return dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "there is no node %d in this graph of %d nodes", handle_node,
                    s->graph->n),
           NULL;
  df_node *h = s->graph->node[handle_node];
  if (dfi_is_variable(h)) return h;
  dfi_fail(err, DF_INVALID_ARGUMENT, h->where, "`%s` is no variable", dfi_node_name(h));
  return NULL;
}

int32_t df_session_variable(df_session *s, int32_t handle_node, df_value *out, df_error *err) {
  *out = (df_value){ 0 };
  df_node *h = variable_node(s, handle_node, err);
  if (!h) return err->code;
  const dfi_spmd *m = dfi_spmd_now();
  if (m && !m->driver) return m->get(s, h, out, err);
  const int32_t home = dfi_session_home(s, h);
  return dfi_devices_here(&s->devices, home) ? dfi_session_variable_here(s, h, out, err)
                                             : s->cluster->get_variable(s->cluster->user, s, home, h, out, err);
}

int32_t dfi_session_variable_here(df_session *s, df_node *h, df_value *out, df_error *err) {
  *out = (df_value){ 0 };
  df_value found;
  const int32_t status = dfi_variable_read(dfi_session_variable_of(s, h), &found, err);
  if (status) return status;
  const bool room = dfi_value_in(&found, NULL, out);
  dfi_value_drop(&found);
  return room ? DF_OK
              : dfi_fail(err, DF_RESOURCE_EXHAUSTED, h->where, "out of memory for the value of `%s`", dfi_node_name(h));
}

static int32_t set_variable(df_session *s, df_node *h, const df_value *value, df_error *err) {
  const int32_t home = dfi_session_home(s, h);
  return dfi_devices_here(&s->devices, home) ? dfi_session_set_variable_here(s, h, value, err)
                                             : set_value(s, h, dfi_session_variable_of(s, h), home, value, err);
}

int32_t df_session_set_variable(df_session *s, int32_t handle_node, const df_value *value, df_error *err) {
  df_node *h = variable_node(s, handle_node, err);
  if (!h) return err->code;
  const dfi_spmd *m = dfi_spmd_now();
  if (!m) return set_variable(s, h, value, err);
  dfi_spmd_call c = { s };
  int32_t status = m->arrive(&c, h, value, err);
  if (status) return status;
  if (m->driver) status = set_variable(s, h, value, err);
  return m->finish(&c, status, NULL, err);
}

int32_t dfi_session_set_variable_here(df_session *s, df_node *h, const df_value *value, df_error *err) {
  df_value own = dfi_value_copy(value);
  /* a number is kept unboxed, as runs have it */
  if (own.kind == DF_TENSOR) dfi_value_from_tensor(&own, own.as.tensor);
  dfi_variable *v = dfi_session_variable_of(s, h);
  const int32_t status = dfi_variable_assign(v, &own, err);
  if (!status) v->told = 0;
  dfi_value_drop(&own);
  return status;
}
