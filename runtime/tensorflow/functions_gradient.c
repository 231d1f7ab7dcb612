/* functions_gradient.c: SymbolicGradient, which computes the gradient of a function where TensorFlow 1 calls it.
 *
 * Its inputs are the function's arguments x and the gradients dy of its results, its outputs those of x. The library
 * may name the function that computes them. Else the function is imported into a graph of its own, differentiated there
 * as any graph is, and what came of it is written as a GraphDef, whose nodes are put in line as those of a function.
 */
#include "tensorflow/functions.h"
#include "tensorflow/import.h"
#include <stdio.h>

enum { AT_MOST = 1000 };               /* functions that one import differentiates */

/* The graph in which the function is differentiated: the call's arguments are x_0, x_1, …, the call is `call`. */
typedef struct own {
  df_graph     *graph;
  dfi_graphdef *d;
  dfi_lower     l;
  int32_t       nx, ny;
  const Pb__DataType *type;            /* of the xs, then of the dys; borrowed */
} own;

static df_node *node_of(const own *o, const char *kind, int32_t i) {
  char name[32];
  snprintf(name, sizeof name, "%s_%d", kind, i);
  const int32_t id = df_node_by_name(o->graph, name);
  return id < 0 ? NULL : o->graph->node[id];
}

static void placeholders(own *o, Pb__NodeDef *call, const char *kind, int32_t n, const Pb__DataType *type) {
  for (int32_t i = 0; i < n; i++) {
    Pb__NodeDef *p = dfi_lower_node(&o->l, "Placeholder", dfi_lower_text(&o->l, "%s_%d", kind, i));
    dfi_lower_type(&o->l, p, "dtype", (int32_t)type[i]);
    if (call) dfi_lower_input(&o->l, call, p->name);
  }
}

/* The call and its arguments as nodes of o->graph. */
static int32_t import_call(own *o, const dfi_lower *l, const Pb__NameAttrList *f) {
  Pb__NodeDef *call = dfi_lower_node(&o->l, f->name, "call");
  call->attr = f->attr;
  call->n_attr = f->n_attr;
  placeholders(o, call, "x", o->nx, o->type);
  placeholders(o, NULL, "dy", o->ny, o->type + o->nx);
  Pb__GraphDef graph = PB__GRAPH_DEF__INIT;
  graph.node = o->l.node;
  graph.n_node = o->l.n;
  graph.library = l->d->graph->library;
  o->d->graph = &graph;
  return dfi_import(o->graph, o->d, "", l->err);
}

static bool differentiable(int32_t dtype) {
  return dtype == DF_FLOAT16 || dtype == DF_BFLOAT16 || dtype == DF_FLOAT32 || dtype == DF_FLOAT64 ||
         dtype == DF_COMPLEX64 || dtype == DF_COMPLEX128;
}

/* Builds the gradients; node dx_i passes that of x_i on. */
static int32_t differentiate(own *o, const df_node *call, df_error *err) {
  const size_t most = (size_t)(o->nx + o->ny) + 1;
  int32_t *y = dfi_xcalloc(most * 2, sizeof *y), *dy = dfi_xcalloc(most * 2, sizeof *dy),
          *x = dfi_xcalloc(most * 2, sizeof *x);
  int32_t *dx = dfi_xmalloc(sizeof *dx * 6 * most), nx = 0, ny = 0, code = DF_OK;
  for (int32_t i = 0; i < o->ny; i++) {
    if (!differentiable(call->out[i].dtype)) continue;
    y[2 * ny] = call->id; y[2 * ny + 1] = i;
    dy[2 * ny++] = node_of(o, "dy", i)->id;
  }
  for (int32_t i = 0; i < o->nx; i++)
    if (differentiable((int32_t)o->type[i]) || o->type[i] == PB__DATA_TYPE__DT_RESOURCE)
      x[2 * nx++] = node_of(o, "x", i)->id;
  if (ny && nx) code = df_gradients(o->graph, ny, y, dy, nx, x, 0, NULL, 2, "", dx, err);
  dfi_build b;
  dfi_build_init(&b, o->graph, "", err);
  for (int32_t i = 0, k = 0; i < o->nx && !code; i++) {
    const df_output from = { node_of(o, "x", i), 0 };
    df_output d = DFI_NONE;
    if (k < nx && x[2 * k] == from.node->id) {
      const int32_t *p = dx + 6 * k++;
      if (ny && p[0] >= 0) d = (df_output){ o->graph->node[p[0]], p[1] };
      if (d.node && p[2] >= 0) {                   /* rows and where they belong: made dense */
        const df_output rows = dfi_op(&b, "GatherV2", (df_output){ o->graph->node[p[4]], p[5] }, dfi_const_int(&b, 0),
                                      dfi_const_int(&b, 0));
        d = dfi_op(&b, "UnsortedSegmentSum", d, (df_output){ o->graph->node[p[2]], p[3] }, rows);
      }
    }
    if (!d.node && o->type[i] == PB__DATA_TYPE__DT_RESOURCE)
      code =
          dfi_fail(err, DF_UNIMPLEMENTED, NULL,
                   "nothing says what shape the gradient of its argument %d has, a resource that it does not read", i);
    else if (!d.node) d = dfi_op(&b, "ZerosLike", from);
    if (!code) code = b.failed ? err->code : DF_OK;
    if (code) break;
    char name[32];
    snprintf(name, sizeof name, "dx_%d", i);
    if (!dfi_node_add(
            o->graph,
            &(dfi_node_spec){ .op = dfi_op_find("Identity")->id, .nin = 1, .in = &d, .name = name, .where = "" }, err))
      code = err->code;
  }
  dfi_free(y); dfi_free(dy); dfi_free(x); dfi_free(dx);
  return code;
}

/* The GraphDef of dx_0, dx_1, …; it lives as long as l->d. NULL: err is filled. */
static const Pb__GraphDef *write_down(own *o, dfi_lower *l) {
  int32_t *out = dfi_xmalloc(sizeof *out * 2 * ((size_t)o->nx + 1));
  for (int32_t i = 0; i < o->nx; i++) { out[2 * i] = node_of(o, "dx", i)->id; out[2 * i + 1] = 0; }
  df_tensor *bytes = df_export_graph_def(o->graph, o->nx, out, 0, 0, NULL, NULL, l->err);
  dfi_free(out);
  dfi_graphdef *d = bytes ? dfi_graphdef_read(bytes->data, bytes->size, l->err) : NULL;
  df_tensor_release(bytes);
  if (!d) return NULL;
  d->next = l->d->next;
  l->d->next = d;
  return d->graph;
}

/* As it is written in that GraphDef, so it is written in l. NULL: it names an argument that is not there. */
static const char *renamed(dfi_lower *l, const char *prefix, const char *input, const dfi_texts *in, int32_t nx) {
  const bool control = *input == '^';
  const char *name = input + control;
  int i = 0, end = 0;
  if ((sscanf(name, "x_%d%n", &i, &end) == 1 || sscanf(name, "dy_%d%n", &i, &end) == 1) &&
      (!name[end] || name[end] == ':')) {
    const size_t at = (size_t)(*name == 'x' ? i : nx + i);
    if (at >= in->n) return NULL;
    const char *colon = strrchr(in->at[at], ':');
    const size_t length = colon ? (size_t)(colon - in->at[at]) : strlen(in->at[at]);
    return control ? dfi_lower_text(l, "^%.*s", (int)length, in->at[at]) : in->at[at];
  }
  return dfi_lower_text(l, "%s%s/%s", control ? "^" : "", prefix, name);
}

static int32_t put_in_line(dfi_lower *l, const Pb__NodeDef *n, const Pb__GraphDef *graph, const dfi_texts *in,
                           int32_t nx, const char *gate, bool waits) {
  for (size_t i = 0; i < graph->n_node; i++) {
    const Pb__NodeDef *from = graph->node[i];
    if (!strcmp(from->op, "Placeholder")) continue;
    Pb__NodeDef *to = dfi_lower_node(l, from->op, dfi_lower_text(l, "%s/%s", n->name, from->name));
    bool given = false;
    for (size_t k = 0; k < from->n_input; k++) {
      const char *input = renamed(l, n->name, from->input[k], in, nx);
      if (!input) return dfi_lower_fail(l, "node `%s` (SymbolicGradient) has too few inputs", n->name);
      for (size_t i = 0; i < in->n; i++) given |= input == in->at[i];
      dfi_lower_input(l, to, input);
    }
    if (gate && (!dfi_lower_hangs(to) || (waits && given))) dfi_lower_input(l, to, gate);
    for (size_t k = 0; k < from->n_attr; k++) {
      Pb__AttrValue *v = dfi_lower_attr(l, to, from->attr[k]->key);
      *v = *from->attr[k]->value;
      if (strcmp(from->attr[k]->key, "frame_name")) continue;        /* each call has frames of its own */
      const char *frame = dfi_lower_text(l, "%s/%.*s", n->name, (int)v->s.len, (const char *)v->s.data);
      v->s = (ProtobufCBinaryData){ .len = strlen(frame), .data = (uint8_t *)frame };
    }
  }
  return DF_OK;
}

/* Puts before the error whose gradient it was. */
static int32_t blame(dfi_lower *l, const Pb__NodeDef *n, const char *f) {
  df_error was = *l->err;
  return dfi_fail(l->err, was.code, NULL, "node `%s` (SymbolicGradient): the gradient of `%s`: %s", n->name, f,
                  was.message);
}

int32_t dfi_lower_gradient(dfi_lower *l, Pb__NodeDef *n, const Pb__NameAttrList *f, const char *gate) {
  dfi_texts in = dfi_lower_inputs(l, n), ret, control = dfi_texts_new(l, 0);
  const Pb__AttrValue *tin = dfi_attr_find(n, "Tin"), *tout = dfi_attr_find(n, "Tout");
  const size_t types = tin && tin->value_case == PB__ATTR_VALUE__VALUE_LIST && tin->list ? tin->list->n_type : 0;
  const size_t nx = tout && tout->value_case == PB__ATTR_VALUE__VALUE_LIST && tout->list ? tout->list->n_type : 0;
  if (!nx || types != in.n || nx > in.n)
    return dfi_lower_fail(
        l, "node `%s` (SymbolicGradient) has %zu inputs, %zu types of them (Tin) and %zu of its outputs (Tout)",
        n->name, in.n, types, nx);
  if (++l->d->gradients > AT_MOST)
    return dfi_lower_fail(l, "this graph asks for more than %d gradients of functions", AT_MOST);
  own o = { .graph = df_graph_new(),
            .d = dfi_xcalloc(1, sizeof *o.d),
            .nx = (int32_t)nx,
            .ny = (int32_t)(in.n - nx),
            .type = tin->list->type };
  o.l.d = o.d;
  o.l.err = l->err;
  o.d->gradients = l->d->gradients;
  o.d->unpack = l->d->unpack;
  const Pb__GraphDef *graph = NULL;
  int32_t code = import_call(&o, l, f);
  l->d->gradients = o.d->gradients;
  l->d->unpack = o.d->unpack;
  const int32_t call = code ? -1 : df_node_by_name(o.graph, "call");
  if (call >= 0 && o.graph->node[call]->nout != o.ny)
    code = dfi_fail(l->err, DF_INVALID_ARGUMENT, NULL, "it has %d results, and gradients of %d are given",
                    o.graph->node[call]->nout, o.ny);
  if (!code) code = differentiate(&o, o.graph->node[call], l->err);
  if (!code && !(graph = write_down(&o, l))) code = l->err->code;
  if (code) code = blame(l, n, f->name);
  else {
    const bool waits = dfi_lower_waits(n, gate);
    gate = dfi_lower_gate(l, n, gate);
    code = put_in_line(l, n, graph, &in, o.nx, gate, waits);
  }
  ret = dfi_texts_new(l, nx);
  for (size_t i = 0; i < nx; i++) ret.at[i] = dfi_lower_text(l, "%s/dx_%zu", n->name, i);
  if (!code) dfi_lower_result(l, n, &ret, &control, gate);
  dfi_free(o.l.node);
  dfi_graphdef_free(o.d);
  df_graph_release(o.graph);
  return code;
}
