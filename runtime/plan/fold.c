/* fold.c: constants. What only constants go into is computed when the plan is made, and is a constant then.
 *
 * A node is folded when it is plain and stateless, is not fed, and all that it reads are constants of its own control
 * context: of the top level, or of the same branch, body or function, where they hang on the same pivot; in a loop the
 * top level's are constants, too. The constant that stands for it hangs on the pivot, so it is dead where the node's
 * readers are. What was asked for on several devices is not folded: it crosses, as was asked. The kernel is the one
 * that a run would call, so the bits are the same; where it fails the node stays, and the run reports it. What is
 * folded is bounded, each and in sum: a plan is small and soon made, and what takes memory of a device takes it there.
 * A GPU's own kernels may round otherwise: a session that has one folds nothing.
 */
#include "plan/place.h"
#include "base/processor.h"

enum { MOST_INPUTS = 64 };
static const int64_t most_bytes = 16 << 10, most_bytes_in_all = 4 << 20;
static const double most_ns = 2e6, most_ns_in_all = 50e6;

typedef struct folding { int64_t bytes; double ns; } folding;     /* of the plan, so far */

static bool at_top(const df_node *n) { return !n->context || n->context->kind == DFI_TOP; }

static bool in_loop(const df_node *n) {
  return n->context && n->context->pivot && (n->context->kind == DFI_BODY || n->context->kind == DFI_PRED);
}

static bool on_pivot(const df_node *n) { return n->ncontrol == 1 && n->control[0] == n->context->pivot; }

/* The constant of n's own context that o is; NULL: it is none. */
static const df_node *constant_of(const maker *m, const df_node *n, df_output o) {
  const df_output from = dfi_plan_origin(m, o);
  const df_node *c = from.node;
  if (flow_of(c) != DF_CONSTANT || feed_of(m, from) >= 0) return NULL;
  if (c->device[0] && strcmp(c->device, n->device)) return NULL;
  if (in_loop(n) && at_top(c) && dfi_plan_is_given(m, from)) return c;
  if (m->mark[c->id].scope != m->mark[n->id].scope) return NULL;
  if (at_top(n)) return at_top(c) && dfi_plan_is_given(m, from) ? c : NULL;
  return c->context == n->context && on_pivot(c) ? c : NULL;
}

/* Is it asked for on a GPU, which may be opened only when the plan is placed? */
static bool for_gpu(const df_node *n) {
  dfi_device_name name;
  return n->device[0] && dfi_device_parse(n->device, &name) && name.kind == DFI_DEVICE_GPU;
}

static bool may_fold(const maker *m, const df_node *n) {
  const mark *k = &m->mark[n->id];
  const dfi_out *out = n->out;
  if (dfi_op_info_at(n->op)->fold == DFI_FOLD_DEFAULT || flow_of(n) != DF_PLAIN || op_of(n)->waits || k->scope < 0 ||
      k->fed || k->duplicate >= 0 || n->contradiction || n->nout != 1 || n->nin < 1 || n->nin > MOST_INPUTS ||
      out->ref || !dfk_plain(out->dtype) || out->dtype == DF_RESOURCE || dfi_plan_passes_on(n))
    return false;
  if (for_gpu(n) || (n->ncontrol && (at_top(n) || !on_pivot(n)))) return false;
  const int64_t size = dfi_shape_size(&out->shape);
  if (size < 0 || size > most_bytes / dfi_dtype_size[out->dtype]) return false;
  for (int32_t i = 0; i < n->nin; i++) if (!constant_of(m, n, n->in[i])) return false;
  return true;
}

/* The function on numbers that a run would call for n, as plan.c chooses it; NULL: its kernel. */
static df_scalar_fn numbers_of(const maker *m, const df_node *n, const df_value *value) {
  uint8_t types[3];
  if (n->nin > 3 || !op_of(n)->scalar || m->reference) return NULL;
  for (int32_t i = 0; i < n->nin; i++) {
    if (value[i].kind != DF_SCALAR) return NULL;
    types[i] = value[i].dtype;
  }
  return op_of(n)->scalar(types, n->out[0].dtype);
}

/* As the executor calls it. False: *out is not made. */
static bool compute(const maker *m, const df_node *n, folding *f, const df_tensor **in, const df_value *value,
                    df_value *out) {
  const df_op *op = op_of(n);
  const df_scalar_fn numbers = numbers_of(m, n, value);
  const df_value *raw[MOST_INPUTS];
  df_tensor scratch;
  df_error error = { .code = DF_OK };
  double elements = 0;
  for (int32_t i = 0; i < n->nin; i++) { raw[i] = &value[i]; elements += (double)in[i]->size; }
  if (numbers) {
    *out = (df_value){ .kind = DF_SCALAR, .dtype = n->out[0].dtype };
    return numbers(out, value, value + (n->nin > 1), value + (n->nin > 2 ? 2 : 0));
  }
  df_kernel k = { .attrs = n->attrs, .nin = n->nin, .nout = 1, .in = in, .raw = raw, .out = out,
                  .out_dtype = &n->out[0].dtype, .scratch = &scratch, .error = &error };
  const double ns = op->cost ? op->cost(&k) : elements;
  if (ns > most_ns || (f->ns += ns) > most_ns_in_all) return false;
  return (!m->reference && op->kernel[DF_CPU] ? op->kernel[DF_CPU] : op->kernel[DF_REF])(&k) == DF_OK;
}

/* What n gives, owned; NULL: it is not known. */
static df_tensor *value_of(const maker *m, const df_node *n, folding *f) {
  const df_tensor *in[MOST_INPUTS];
  df_value value[MOST_INPUTS], out = { 0 };
  for (int32_t i = 0; i < n->nin; i++) {
    in[i] = attr_of(constant_of(m, n, n->in[i]), "value")->tensor;
    dfi_value_from_tensor(&value[i], df_tensor_retain((df_tensor *)(uintptr_t)in[i]));
  }
  df_tensor *t = NULL;
  if (compute(m, n, f, in, value, &out))
    t = out.kind == DF_SCALAR ? dfi_tensor_from_scalar(&out) : out.kind == DF_TENSOR ? df_tensor_retain(out.as.tensor)
                                                                                      : NULL;
  df_value_release(&out);
  for (int32_t i = 0; i < n->nin; i++) dfi_value_drop(&value[i]);
  const int64_t bytes = t ? t->size * dfi_dtype_size[t->dtype] : 0;
  if (t && t->dtype == n->out[0].dtype && bytes <= most_bytes && (f->bytes += bytes) <= most_bytes_in_all) return t;
  df_tensor_release(t);
  return NULL;
}

/* A constant of this value that stands where n does; value: consumed. */
static df_node *constant_new(maker *m, df_node *n, df_tensor *value) {
  static const df_attr none = { 0 };
  const dfi_op_info *o = dfi_op_find("Const");
  df_node *c = dfi_plan_extra(m, n, 0, at_top(n) ? 0 : 1, 1);
  c->op = o->id;
  c->name = dfi_xstrdup(dfi_node_name(n));
  c->attrs = dfi_xcalloc((size_t)o->nattr, sizeof *c->attrs);
  for (int32_t i = 0; i < o->nattr; i++) c->attrs[i] = none;
  c->attrs[dfi_op_attr_index(o, "value")].tensor = value;
  c->attrs[dfi_op_attr_index(o, "dtype")].i = value->dtype;
  if (c->ncontrol) c->control[0] = n->context->pivot;
  c->out[0] = n->out[0];
  c->out[0].constant = NULL;
  m->mark[c->id].scope = m->mark[n->id].scope;
  return c;
}

/* Is output 0 of n fetched? Of few fetches only: else it is not worth the search. */
static bool is_fetched(const maker *m, const df_node *n) {
  enum { FEW = 64 };
  for (int32_t i = 0; i < m->plan->nfetch && i < FEW; i++) if (m->plan->signature[2 * i] == n->id) return true;
  return false;
}

void dfi_plan_fold(maker *m, bool placed) {
  dfi_plan *p = m->plan;
  folding f = { 0 };
  const int32_t n_of_graph = m->nneeded;
  for (int32_t i = 0; m->devices && i < m->devices->n; i++) if (m->devices->at[i]->remote) return;
  const uint32_t mode = dfi_float_mode();
  dfi_set_float_mode(mode | DFI_NO_DENORMALS);             /* as in a run */
  for (int32_t i = 0; i < n_of_graph; i++) {
    df_node *n = dfi_plan_node(m, m->needed[i]);
    if (!may_fold(m, n) || (!placed && is_fetched(m, n))) continue;
    df_tensor *value = value_of(m, n, &f);
    if (!value) continue;
    df_node *c = constant_new(m, n, value);
    m->mark[n->id].duplicate = c->id;
    if ((p->nfolded & (p->nfolded - 1)) == 0)
      p->folded = dfi_xrealloc(p->folded, sizeof *p->folded * (size_t)(2 * p->nfolded + 1));
    p->folded[p->nfolded++] = (struct dfi_folded){ n->id, c };
  }
  dfi_set_float_mode(mode);
}
