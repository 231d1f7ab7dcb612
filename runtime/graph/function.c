/* function.c: graph functions, which may call themselves.
 *
 * A function's body is a context of its own below the top level: FunctionArg nodes, what was built, FunctionReturn. It
 * stands in the graph once; a FunctionCall opens a frame of it. Values of the outside that the body uses become
 * arguments too: all calls pass them, or others that they are given behind the rest. A call in the body of a function
 * that is not built yet is made without them and completed at the end, for which the outermost function that is being
 * built waits: until no function gains an argument any more, each such call gets what it lacks.
 *
 * The last result of each call is its tape (resource/tape.h). Gradients save in it what they need of the call, from
 * within the frame.
 */
#include "graph/flow.h"
#include "graph/graph.h"
#include <stdio.h>

static bool is_argument(const df_node *n) { return dfi_op_info_at(n->op)->op->flow == DF_FUNCTION_ARG; }

df_output dfi_flow_captured(df_output o) {
  const dfi_function *f =
      is_argument(o.node) && o.node->context->kind == DFI_CALLED ? o.node->context->function : NULL;
  const int64_t i = f ? o.node->attrs[1].i : -1;
  return i >= 0 && i < f->n ? f->outer[i] : DFI_NONE;
}

dfi_function *dfi_flow_function_find(df_graph *g, const char *name) {
  const flow *f = dfi_flow_of(g);
  for (int32_t i = 0; i < f->nfunction; i++) if (!strcmp(f->function[i]->name, name)) return f->function[i];
  return NULL;
}

/* `seen`: the functions that are being asked about, so that recursion ends. */
typedef struct asked { const dfi_function *f; const struct asked *outer; } asked;

static bool has_handles(const dfi_function *f) {
  for (int32_t i = 0; i < f->n; i++) if (f->arg[i]->out[0].dtype == DF_RESOURCE) return true;
  return false;
}

static bool repeats(const dfi_function *f, const asked *outer) {
  const asked now = { f, outer };
  for (const asked *a = outer; a; a = a->outer) if (a->f == f) return true;
  if (!f->ret) return false;
  const bool handles = has_handles(f);
  for (int32_t id = f->begin->id; id <= f->ret->id; id++) {
    const df_node *n = f->graph->node[id];
    if (!n || !dfi_context_inside(n->context, f->body)) continue;
    const df_op *op = dfi_op_info_at(n->op)->op;
    if (op->flow == DF_CALL) {
      const dfi_function *callee = dfi_flow_function_find(f->graph, n->attrs[0].s);
      if (!callee || !repeats(callee, &now)) return false;
    } else if (op->flow != DF_PLAIN || !op->stateful || op->traits & (DFO_ARRAY_NEW | DFO_REPEATS) || n == f->tape)
      continue;
    else if (!(op->traits & DFO_ARRAY) || handles) return false;      /* else an array of the call's own */
  }
  return true;
}

bool dfi_flow_function_repeats(const dfi_function *f) { return repeats(f, NULL); }

void dfi_flow_function_free(dfi_function *k) {
  for (int32_t b = 0; b < k->nbackward; b++) dfi_free(k->backward[b].key);
  dfi_free(k->arg); dfi_free(k->outer); dfi_free(k->result); dfi_free(k->call); dfi_free(k->backward);
  dfi_map_free(k->captures); dfi_map_free(k->saved);
  dfi_free(k);
}
void dfi_flow_functions_free(flow *f) {
  for (int32_t i = 0; i < f->nfunction; i++) dfi_flow_function_free(f->function[i]);
  dfi_free(f->function);
}

df_node *dfi_function_node(dfi_function *f, const char *type, int32_t nin, const df_output *in, int32_t nattr,
                           const df_attr *attrs, bool hangs, df_error *err) {
  const dfi_op_info *o = dfi_op_find(type);
  df_attr all[16];
  for (int32_t a = 0; a < o->nattr; a++) all[a] = a < nattr ? attrs[a] : o->attr[a].value;
  if (o->nattr) all[0] = (df_attr){ .s = f->name, .i = (int64_t)strlen(f->name) };
  return dfi_node_add(f->graph,
                      &(dfi_node_spec){ .op = o->id,
                                        .nin = nin,
                                        .in = in,
                                        .ncontrol = hangs,
                                        .control = &f->begin,
                                        .attrs = all,
                                        .where = f->where,
                                        .raw = true,
                                        .context = f->body },
                      err);
}

/* One more argument; it has the dtype and shape of `like`. */
static df_node *argument_add(dfi_function *f, const dfi_out *like, df_output outer, df_error *err) {
  df_node *a = dfi_function_node(f, "FunctionArg", 0, NULL, 3,
                                 (df_attr[]){ { 0 }, { .i = f->n }, { .i = like->dtype } }, false, err);
  if (!a) return NULL;
  a->out[0].of = like->of;
  a->out[0].shape = like->shape;
  if (like->constant) a->out[0].constant = df_tensor_retain(like->constant);
  if (f->n == f->cap) {
    f->cap = f->cap * 2 + 8;
    f->arg = dfi_xrealloc(f->arg, sizeof *f->arg * (size_t)f->cap);
    f->outer = dfi_xrealloc(f->outer, sizeof *f->outer * (size_t)f->cap);
  }
  f->arg[f->n] = a;
  f->outer[f->n++] = outer;
  return a;
}

df_output dfi_flow_function_capture(dfi_function *f, df_output o, df_error *err) {
  df_output known = dfi_map_get(f->captures, o);
  if (known.node) return known;
  if (!f->caller) {
    dfi_fail(err, DF_INTERNAL, f->where, "the function `%s` is built and cannot take `%s` from outside any more",
             f->name, dfi_node_name(o.node));
    return DFI_NONE;
  }
  df_node *a = argument_add(f, &o.node->out[o.index], o, err);
  if (!a) return DFI_NONE;
  if (!f->captures) f->captures = dfi_map_new();
  known = (df_output){ a, 0 };
  dfi_map_put(f->captures, o, known);
  return known;
}

static dfi_function *function_new(df_graph *g, const char *name, int32_t nresults, const uint8_t *results,
                                  const char *where) {
  flow *fl = dfi_flow_of(g);
  dfi_function *f = dfi_xcalloc(1, sizeof *f);
  if (fl->nfunction == fl->function_cap)
    fl->function =
        dfi_xrealloc(fl->function, sizeof *fl->function * (size_t)(fl->function_cap = fl->function_cap * 2 + 8));
  f->id = fl->nfunction;
  fl->function[fl->nfunction++] = f;
  f->name = dfi_unique_name(g, name && *name ? name : "function");
  f->where = dfi_intern(g, where ? where : "");
  f->graph = g;
  f->caller = g->current;
  f->nresults = nresults;
  f->result = dfi_xcalloc((size_t)(nresults > 0 ? nresults : 0) + 1, 1);
  if (nresults > 0) memcpy(f->result, results, (size_t)nresults);
  f->body = dfi_flow_context(g, DFI_CALLED, g->top);
  f->body->function = f;
  return f;
}

dfi_function *dfi_function_begin(df_graph *g, const char *name, int32_t n, const dfi_out *args, int32_t nresults,
                                 const uint8_t *results, const char *where, df_error *err) {
  dfi_function *f = function_new(g, name, nresults, results, where);
  dfi_flow_push(g)->function = f;
  flow_enter_scope(g, f->name);
  df_push_control(g, -1, NULL);
  g->current = f->body;
  f->begin = dfi_function_node(f, "FunctionBegin", 0, NULL, 0, NULL, false, err);
  f->body->pivot = f->begin;
  f->tape = f->begin ? dfi_function_node(f, "FunctionTape", 0, NULL, 0, NULL, true, err) : NULL;
  for (int32_t i = 0; i < n && f->tape; i++) if (!argument_add(f, &args[i], DFI_NONE, err)) f->tape = NULL;
  f->nknown = n;
  if (f->tape) return f;
  df_pop_control(g);
  dfi_flow_pop(g);
  return NULL;
}

bool dfi_function_is_batched(const df_node *begin) {
  const df_graph *g = begin->context->function ? begin->context->function->graph : NULL;
  const int32_t batched = dfi_op_find("FunctionBatched")->id;
  for (int32_t id = begin->id + 1; g && id < g->n; id++) {
    const df_node *n = g->node[id];
    if (!n || n->context != begin->context) return false;
    if (n->op == batched) return true;
    if (!is_argument(n) && !dfi_has_trait(n, DFO_TAPE)) return false;
  }
  return false;
}

bool dfi_function_batch(dfi_function *f, df_error *err) {
  return dfi_function_node(f, "FunctionBatched", 0, NULL, 0, NULL, true, err) != NULL;
}

static bool builds_functions(const flow *f) {
  for (int32_t i = 0; i < f->nopen; i++) if (f->open[i].function) return true;
  return false;
}

/* Gives `call` of f the captures that it lacks. */
static int32_t complete(dfi_function *f, df_node *call, bool *more, df_error *err) {
  while (call->nin < f->n) {
    df_output in = dfi_resolve(f->graph, f->outer[call->nin], call->context, err);
    if (!in.node) { dfi_flow_blame(err, call->where); return err ? err->code : DF_INVALID_ARGUMENT; }
    dfi_node_add_input(call, in);
    *more = true;
  }
  return DF_OK;
}

/* Until no function gains an argument by what others pass on. While that goes on, all of them may still gain some. */
static int32_t complete_all(df_graph *g, df_error *err) {
  flow *fl = dfi_flow_of(g);
  int32_t code = DF_OK;
  dfi_flow_functions_infer(g);
  for (bool more = true; more && !code;) {
    more = false;
    for (int32_t i = 0; i < fl->nfunction; i++) {
      dfi_function *f = fl->function[i];
      for (int32_t k = 0; k < f->ncall && !code; k++) code = complete(f, f->call[k], &more, err);
    }
  }
  for (int32_t i = 0; i < fl->nfunction; i++) {
    fl->function[i]->ncall = 0;
    fl->function[i]->caller = NULL;
  }
  return code;
}

/* A result as FunctionReturn takes it: a value of the body that comes as a token. */
static df_output result_of(dfi_function *f, df_output o, df_error *err) {
  o = dfi_resolve(f->graph, o, f->body, err);
  if (!o.node || !dfi_is_tokenless(o)) return o;
  df_node *n = dfi_flow_node(f->graph, FLOW_IDENTITY, f->body, 1, &o, NULL, f->begin, o, f->where, err);
  return (df_output){ n, 0 };
}

static int32_t check_result(const dfi_function *f, int32_t i, df_output o, df_error *err) {
  if (f->nresults < 0 || f->result[i] == dfi_dtype(o)) return DF_OK;
  return dfi_fail(err, DF_INVALID_ARGUMENT, o.node->where,
                  "result %d of the function `%s` is %s, but `returns` says %s: write df.cast(x, '%s')", i + 1, f->name,
                  df_dtype_name(dfi_dtype(o)), df_dtype_name(f->result[i]), df_dtype_name(f->result[i]));
}

int32_t dfi_function_end(df_graph *g, int32_t n, const df_output *results, df_error *err) {
  flow_entry *e = dfi_flow_top(g);
  if (!e || !e->function)
    return dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "df_function_end without a function that was begun");
  dfi_function *f = e->function;
  if (f->nresults >= 0 && n != f->nresults)
    return dfi_fail(err, DF_INVALID_ARGUMENT, f->where, "the function `%s` returns %d value%s, but `returns` says %d",
                    f->name, n, n == 1 ? "" : "s", f->nresults);
  df_output *in = dfi_xcalloc((size_t)n + 1, sizeof *in);
  uint8_t *dtypes = dfi_xcalloc((size_t)n + 1, 1);
  int32_t code = DF_OK;
  for (int32_t i = 0; i < n && !code; i++) {
    in[i] = result_of(f, results[i], err);
    if (!in[i].node) { dfi_flow_blame(err, f->where); code = err ? err->code : DF_INVALID_ARGUMENT; break; }
    dtypes[i] = dfi_dtype(in[i]);
    code = check_result(f, i, in[i], err);
  }
  in[n] = (df_output){ f->tape, 0 };
  df_node *ret = code ? NULL : dfi_function_node(f, "FunctionReturn", n + 1, in, 0, NULL, true, err);
  dfi_free(in);
  if (!ret) { dfi_free(dtypes); return code ? code : err ? err->code : DF_INTERNAL; }
  if (f->body->last_effect) dfi_node_add_control(ret, f->body->last_effect);
  dfi_free(f->result);
  f->result = dtypes;
  f->nresults = n;
  f->ret = ret;
  df_pop_control(g);
  dfi_flow_pop(g);
  return builds_functions(dfi_flow_of(g)) ? DF_OK : complete_all(g, err);
}

/* What is known of a call's results: the dtypes are the declared ones, shapes those of the body where it is built. */
static void fill_results(const dfi_function *f, df_node *call) {
  for (int32_t i = 0; i < f->nresults && f->ret; i++) {
    const dfi_out *r = &f->ret->in[i].node->out[f->ret->in[i].index];
    call->out[i].shape = r->shape;
    call->out[i].of = r->of;
  }
  call->out[f->nresults].shape = dfi_shape_scalar();
}

static int32_t check_call(const dfi_function *f, int32_t n, const df_output *args, const char *where, df_error *err) {
  if (f->nresults < 0)
    return dfi_fail(err, DF_INVALID_ARGUMENT, where,
                    "the function `%s` calls itself before it is known what it returns: say so, as in "
                    "{returns = {'float32'}}",
                    f->name);
  if (n != f->nknown && n != f->n)
    return dfi_fail(err, DF_INVALID_ARGUMENT, where, "the function `%s` takes %d argument%s, %d were given", f->name,
                    f->nknown, f->nknown == 1 ? "" : "s", n);
  for (int32_t i = 0; i < n; i++) {
    const uint8_t wanted = f->arg[i]->out[0].dtype;
    if (dfi_dtype(args[i]) != wanted)
      return dfi_fail(err, DF_INVALID_ARGUMENT, where,
                      "argument %d of the function `%s` is %s, %s is expected: write df.cast(x, '%s')", i + 1, f->name,
                      df_dtype_name(dfi_dtype(args[i])), df_dtype_name(wanted), df_dtype_name(wanted));
  }
  return DF_OK;
}

df_node *dfi_function_call(dfi_function *f, int32_t n, const df_output *args, const char *name, const char *where,
                           df_error *err) {
  df_graph *g = f->graph;
  if (check_call(f, n, args, where, err)) return NULL;
  if (f->caller && !builds_functions(dfi_flow_of(g))) {  /* what it was built for was given up */
    if (complete_all(g, err)) return NULL;
  }
  const bool later = f->caller != NULL;                /* it may gain arguments yet */
  const int32_t all = later ? n : f->n;
  df_output *in = dfi_xcalloc((size_t)all + 1, sizeof *in);
  for (int32_t i = 0; i < all; i++) in[i] = i < n ? args[i] : f->outer[i];
  int64_t *dtypes = dfi_xcalloc((size_t)f->nresults + 1, sizeof *dtypes);
  for (int32_t i = 0; i < f->nresults; i++) dtypes[i] = f->result[i];
  dtypes[f->nresults] = DF_RESOURCE;
  df_attr attrs[2] = { { .s = f->name, .i = (int64_t)strlen(f->name) }, { .i = f->nresults + 1, .ints = dtypes } };
  df_node *call = dfi_node_add(g,
                               &(dfi_node_spec){ .op = dfi_op_find("FunctionCall")->id,
                                                 .nin = all,
                                                 .in = in,
                                                 .attrs = attrs,
                                                 .name = name && *name ? name : NULL,
                                                 .where = where },
                               err);
  dfi_free(in); dfi_free(dtypes);
  if (!call) return NULL;
  fill_results(f, call);
  if (later) {
    f->call = dfi_xrealloc(f->call, sizeof *f->call * (size_t)(f->ncall + 1));
    f->call[f->ncall++] = call;
  }
  return call;
}

df_node *dfi_function_save(df_graph *g, const char *function, int64_t slot) {
  const dfi_function *f = dfi_flow_function_find(g, function);
  df_output key, save = DFI_NONE;
  if (!f || slot < 0 || slot >= dfi_map_count(f->saved)) return NULL;
  dfi_map_at(f->saved, (int32_t)slot, &key, &save);
  return save.node;
}

/* ---- the public way -------------------------------------------------------------------------- */

int32_t df_function_begin(df_graph *g, const char *name, int32_t n, const int32_t *dtypes, int32_t nresults,
                          const int32_t *results, const char *where, int32_t *args, df_error *err) {
  dfi_out *out = dfi_xcalloc((size_t)n + 1, sizeof *out);
  uint8_t *wanted = dfi_xcalloc((size_t)(nresults > 0 ? nresults : 0) + 1, 1);
  for (int32_t i = 0; i < n; i++) out[i] = (dfi_out){ .dtype = (uint8_t)dtypes[i], .shape = dfi_shape_unknown() };
  for (int32_t i = 0; i < nresults; i++) wanted[i] = (uint8_t)results[i];
  dfi_function *f = dfi_function_begin(g, name, n, out, nresults, wanted, where, err);
  for (int32_t i = 0; f && i < n; i++) args[i] = f->arg[i]->id;
  dfi_free(out); dfi_free(wanted);
  if (dfi_check_memory(f ? DF_OK : DF_INTERNAL, err, where, "a function")) return -1;
  return f->id;
}

static bool outputs_of(df_graph *g, int32_t n, const int32_t *io, df_output *out, const char *where, df_error *err) {
  for (int32_t i = 0; i < n; i++) {
    const int32_t id = io[2 * i], index = io[2 * i + 1];
    if (id < 0 || id >= g->n || index < 0 || index >= g->node[id]->nout) {
      dfi_fail(err, DF_INVALID_ARGUMENT, where, "there is no output %d:%d in this graph", id, index);
      return false;
    }
    out[i] = (df_output){ g->node[id], index };
  }
  return true;
}

int32_t df_function_end(df_graph *g, int32_t n, const int32_t *results, df_error *err) {
  df_output *out = dfi_xcalloc((size_t)n + 1, sizeof *out);
  int32_t code = outputs_of(g, n, results, out, NULL, err) ? dfi_function_end(g, n, out, err) : DF_INVALID_ARGUMENT;
  dfi_free(out);
  code = dfi_check_memory(code, err, NULL, "a function");
  if (!code) dfi_graph_keep_all(g);        /* code that has its number may call it from anywhere */
  return code;
}

int32_t df_function_call(df_graph *g, int32_t function, int32_t n, const int32_t *args, const char *name,
                         const char *where, df_error *err) {
  const flow *f = dfi_flow_of(g);
  if (function < 0 || function >= f->nfunction)
    return dfi_fail(err, DF_NOT_FOUND, where, "this graph has no function number %d", function), -1;
  df_output *in = dfi_xcalloc((size_t)n + 1, sizeof *in);
  df_node *call =
      outputs_of(g, n, args, in, where, err) ? dfi_function_call(f->function[function], n, in, name, where, err) : NULL;
  dfi_free(in);
  if (dfi_check_memory(call ? DF_OK : DF_INTERNAL, err, where, "a call")) return -1;
  return call->id;
}
