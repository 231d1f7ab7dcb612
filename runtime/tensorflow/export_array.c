/* export_array.c: TensorArrays, which are one value here and in TensorFlow two: a handle that stays what it is, and a
 * flow, a number without a meaning that brings the order of writes and reads.
 *
 * A node's flow has the node's name; what has a handle of its own has it under `x/handle`. Where the arrays that meet
 * at a Merge are one, whatever was written to it, its handle goes round no loop: it is a loop constant, as TensorFlow's
 * gradients want it. That is found out by supposing it of all and taking it back where two roots meet, until no more
 * have to go.
 */
#include "tensorflow/export.h"
#include "graph/flow.h"
#include <stdio.h>

static const char *type_of(const df_node *n) { return dfi_op_info_at(n->op)->op->type; }
static bool is(const df_node *n, const char *word) { return !strcmp(type_of(n) + strlen("TensorArray"), word); }

/* Is it one of our own ops of arrays, and not TensorFlow's with a version at its end? */
static bool array_op(const df_node *n) {
  const char *t = type_of(n);
  if (strncmp(t, "TensorArray", 11)) return false;
  static const char *const word[] = { "",        "Write",   "Read",     "Stack",       "Take",  "Gather",
                                      "Unstack", "Scatter", "Concat",   "ConcatParts", "Split", "Size",
                                      "Grad",    "Join",    "JoinGrad", "Copy" };
  for (size_t i = 0; i < sizeof word / sizeof *word; i++) if (!strcmp(t + 11, word[i])) return true;
  return false;
}

static bool writes(const df_node *n) {
  return is(n, "Write") || is(n, "Unstack") || is(n, "Scatter") || is(n, "Split");
}
static df_flow flow_kind(const df_node *n) { return dfi_op_info_at(n->op)->op->flow; }
static bool passes(const df_node *n) {
  df_flow f = flow_kind(n);
  return dfi_flow_is(n, FLOW_IDENTITY) || f == DF_SWITCH || f == DF_MERGE || f == DF_ENTER || f == DF_EXIT ||
         f == DF_NEXT_ITERATION;
}

enum { UNKNOWN = 0, NO = 1, YES = 2 };

bool dfi_export_is_array(dfi_export *e, df_output o) {
  df_node *n = o.node;
  if (dfi_dtype(o) != DF_RESOURCE || dfi_export_is_tape(e, o)) return false;
  while (!e->array[n->id] && !array_op(n) && passes(n) && n->nin) n = n->in[0].node;
  const df_output behind = dfi_export_behind(e, n);
  uint8_t answer = e->array[n->id]                                                  ? e->array[n->id]
                   : array_op(n) || (behind.node && dfi_export_is_array(e, behind)) ? YES
                                                                                    : NO;
  e->array[o.node->id] = answer;
  return answer == YES;
}

/* ---- which array it is ---------------------------------------------------------------------------------------- */

static df_node *root(const dfi_export *e, df_output o) {
  df_node *n = o.node;
  for (;;) {
    if (array_op(n)) {
      if (!writes(n) && !is(n, "Join")) return n;
    } else if (flow_kind(n) == DF_MERGE && e->moves[n->id]) return n;
    else if (!passes(n)) return n;
    n = n->in[0].node;
  }
}

df_node *dfi_export_array_made(const dfi_export *e, df_output o) {
  for (int32_t steps = 0;; steps++) {
    df_node *n = o.node;
    const df_output behind = dfi_export_behind(e, n);
    const df_node *outer = array_op(n) && is(n, "Read") ? dfi_export_array_made(e, n->in[0]) : NULL;
    if (steps > e->nneed) return n;                       /* an element that comes from itself */
    if (behind.node) o = behind;
    else if (outer && e->element[outer->id].node) o = e->element[outer->id];
    else if (n->nin && (passes(n) || (array_op(n) && (writes(n) || is(n, "Join"))))) o = n->in[0];
    else return n;
  }
}

static bool equal_shapes(const dfi_shape *a, const dfi_shape *b) {
  return a->rank == b->rank && (a->rank <= 0 || !memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)a->rank));
}

void dfi_export_find_elements(dfi_export *e) {
  static const dfi_shape unknown = { .rank = -1 };
  for (bool again = true; again;) {           /* what an array of arrays keeps tells which array a write is to */
    again = false;
    for (int32_t i = 0; i < e->nneed; i++) {
      df_node *n = e->need[i];
      if (!array_op(n) || !is(n, "Write") || dfi_dtype(n->in[2]) != DF_RESOURCE) continue;
      df_output *element = &e->element[dfi_export_array_made(e, n->in[0])->id];
      if (element->node) continue;
      *element = n->in[2];
      again = true;
    }
  }
  for (int32_t i = 0; i < e->nneed; i++) {
    const df_node *n = e->need[i];
    if (!array_op(n) || !writes(n)) continue;
    const dfi_shape **shape = &e->element_shape[dfi_export_array_made(e, n->in[0])->id];
    *shape = !*shape || equal_shapes(*shape, &n->out[0].shape) ? &n->out[0].shape : &unknown;
  }
}

void dfi_export_arrays_meet(dfi_export *e) {
  for (bool changed = true; changed; ) {
    changed = false;
    for (int32_t i = 0; i < e->nneed; i++) {
      df_node *n = e->need[i];
      if (flow_kind(n) != DF_MERGE || e->moves[n->id] || !dfi_export_is_array(e, (df_output){ n, 0 })) continue;
      for (int32_t k = 1; k < n->nin && !e->moves[n->id]; k++)
        if (root(e, n->in[k]) != root(e, n->in[0])) changed = e->moves[n->id] = true;
    }
  }
  for (int32_t i = 0; i < e->nneed; i++) {                            /* and what brings them to the Merge */
    df_node *n = e->need[i];
    for (int32_t k = 0; flow_kind(n) == DF_MERGE && e->moves[n->id] && k < n->nin; k++) {
      df_flow f = flow_kind(n->in[k].node);
      if (f == DF_ENTER || f == DF_NEXT_ITERATION) e->moves[n->in[k].node->id] = true;
    }
  }
}

/* ---- its handle, and its flow ------------------------------------------------------------------------------------ */

/* The handle of a Merge that does not move, in the Merge's context: what came into the cond. */
static const char *handle_around(dfi_export *e, df_node *merge) {
  const df_context *around = merge->context;
  for (df_node *n = merge->in[0].node; ; n = n->in[0].node) {
    df_flow f = flow_kind(n);
    if (f == DF_SWITCH && n->context->parent == around && n->context->kind == DFI_BRANCH)
      return dfi_export_array_handle(e, n->in[0]);
    if (n->context == around || n->nin == 0) return dfi_export_array_handle(e, (df_output){ n, 0 });
  }
}

static df_node *merge_of_exit(const df_node *exit) { return exit->in[0].node->in[0].node; }
const char *dfi_export_array_handle(dfi_export *e, df_output o) {
  df_node *n = o.node;
  const char *name = e->name[n->id];
  if (dfi_export_behind(e, n).node) return name;
  for (; array_op(n); n = n->in[0].node, name = e->name[n->id]) {
    if (is(n, "Read")) return name;
    if (is(n, "") || is(n, "Grad")) return name;
    if (!writes(n) && !is(n, "Join")) return name;                    /* refused where it is written */
    o = n->in[0];
  }
  switch (flow_kind(n)) {
  case DF_ENTER: return dfi_lower_text(&e->l, "%s/handle", name);
  case DF_MERGE:
    if (e->moves[n->id]) return dfi_lower_text(&e->l, "%s/handle", name);
    return n->context->kind == DFI_PRED || flow_kind(n->in[0].node) == DF_ENTER ? dfi_export_array_handle(e, n->in[0])
                                                                                : handle_around(e, n);
  case DF_SWITCH:
    if (dfi_flow_is(n->in[1].node, FLOW_LOOP_COND) && !e->moves[n->in[0].node->id])
      return dfi_export_array_handle(e, n->in[0]);
    return dfi_lower_text(&e->l, "%s/handle:%d", name, o.index);
  case DF_NEXT_ITERATION: return dfi_lower_text(&e->l, "%s/handle", name);
  case DF_EXIT: {
    df_node *merge = merge_of_exit(n);
    if (e->moves[merge->id]) return dfi_lower_text(&e->l, "%s/handle", name);
    return dfi_export_array_handle(e, merge->in[0].node->in[0]);
  }
  default: return dfi_export_array_handle(e, n->in[0]);                             /* Identity */
  }
}

const char *dfi_export_array_flow(dfi_export *e, df_output o) {
  df_node *n = o.node;
  const char *name = e->name[n->id];
  if (flow_kind(n) == DF_FUNCTION_ARG) return dfi_lower_text(&e->l, "%s_flow", name);
  if (dfi_export_behind(e, n).node) return dfi_lower_text(&e->l, "%s/flow", name);
  if (array_op(n)) {
    if (is(n, "Read")) return dfi_lower_text(&e->l, "%s/flow", name);
    return is(n, "") || is(n, "Grad") ? dfi_lower_text(&e->l, "%s:1", name) : name;
  }
  if (flow_kind(n) == DF_SWITCH && o.index == 1 && n->context->kind == DFI_BODY &&
      dfi_flow_is(n->in[1].node, FLOW_LOOP_COND))
    return dfi_lower_text(&e->l, "%s/body", name);
  return o.index ? dfi_lower_text(&e->l, "%s:%d", name, o.index) : name;
}

/* ---- the primitives ---------------------------------------------------------------------------------------------- */

void dfi_export_enter_attrs(dfi_export *e, Pb__NodeDef *def, const df_node *n, bool constant) {
  const df_attr *frame = &n->attrs[DFI_ENTER_FRAME_NAME];
  dfi_lower_string(&e->l, def, "frame_name", frame->s);
  dfi_lower_bool(&e->l, def, "is_constant", constant);
  dfi_lower_int(&e->l, def, "parallel_iterations", n->attrs[DFI_ENTER_PARALLEL_ITERATIONS].i);
}

/* The primitive n, of the array's flow (float32) or of its handle. */
static Pb__NodeDef *primitive(dfi_export *e, const df_node *n, bool handle, bool constant) {
  df_flow f = flow_kind(n);
  int32_t outputs = f == DF_SWITCH || f == DF_MERGE ? 2 : 1, arrays = f == DF_MERGE ? n->nin : 1;
  const char *name = e->name[n->id];
  Pb__NodeDef *def = dfi_export_node(e, type_of(n), handle ? dfi_lower_text(&e->l, "%s/handle", name) : name, outputs);
  for (int32_t i = 0; i < arrays; i++)
    dfi_lower_input(&e->l, def, handle ? dfi_export_array_handle(e, n->in[i]) : dfi_export_array_flow(e, n->in[i]));
  if (f == DF_SWITCH) dfi_lower_input(&e->l, def, dfi_export_ref(e, n->in[1]));
  dfi_export_controls(e, def);
  dfi_lower_type(&e->l, def, "T", handle ? DF_RESOURCE : DF_FLOAT32);
  if (f == DF_MERGE) {
    dfi_shape scalar = dfi_shape_scalar();
    dfi_lower_int(&e->l, def, "N", n->nin);
    if (!handle) dfi_export_output_shapes(e, def, &scalar);
  }
  if (f == DF_ENTER) dfi_export_enter_attrs(e, def, n, constant);
  return def;
}

static void write_primitive(dfi_export *e, const df_node *n) {
  df_flow f = flow_kind(n);
  bool loop_switch = f == DF_SWITCH && dfi_flow_is(n->in[1].node, FLOW_LOOP_COND), own = false, constant = false;
  switch (f) {
  case DF_ENTER:
    constant = n->attrs[DFI_ENTER_IS_CONSTANT].i != 0;
    own = true;
    break;
  case DF_MERGE: own = e->moves[n->id]; break;
  case DF_SWITCH: own = !loop_switch || e->moves[n->in[0].node->id]; break;
  case DF_EXIT: own = e->moves[merge_of_exit(n)->id]; break;
  case DF_NEXT_ITERATION: own = e->moves[n->id]; break;
  default: break;
  }
  primitive(e, n, false, constant);
  if (loop_switch && n->context->kind == DFI_BODY) {
    Pb__NodeDef *duplicate = dfi_export_node(e, "Identity", dfi_lower_text(&e->l, "%s/body", e->name[n->id]), 1);
    dfi_lower_input(&e->l, duplicate, dfi_lower_text(&e->l, "%s:1", e->name[n->id]));
    dfi_lower_type(&e->l, duplicate, "T", DF_FLOAT32);
  }
  if (own) primitive(e, n, true, constant || (f == DF_ENTER && !e->moves[n->id]));
}

/* ---- the ops ----------------------------------------------------------------------------------------------------- */

static const df_attr *attr(const df_node *n, const char *name) {
  int32_t i = dfi_op_attr_index(dfi_op_info_at(n->op), name);
  return i < 0 ? NULL : &n->attrs[i];
}

static const char *as_int(dfi_export *e, int32_t i, uint8_t want) {
  df_output o = e->current->in[i];
  const char *in = dfi_export_ref(e, o);
  if (dfi_dtype(o) == want) return in;
  Pb__NodeDef *c = dfi_export_node(e, "Cast", dfi_export_name(e, "%s/int", e->name[e->current->id]), 1);
  dfi_lower_input(&e->l, c, in);
  dfi_lower_type(&e->l, c, "SrcT", dfi_dtype(o));
  dfi_lower_type(&e->l, c, "DstT", want);
  return c->name;
}

static const char *count_up(dfi_export *e, const char *count) {
  const char *own = e->name[e->current->id];
  const char *zero = dfi_export_number(e, dfi_export_name(e, "%s/start", own), DF_INT32, 0);
  const char *one = dfi_export_number(e, dfi_export_name(e, "%s/step", own), DF_INT32, 1);
  Pb__NodeDef *r = dfi_export_node(e, "Range", dfi_export_name(e, "%s/range", own), 1);
  dfi_lower_input(&e->l, r, zero);
  dfi_lower_input(&e->l, r, count);
  dfi_lower_input(&e->l, r, one);
  dfi_lower_type(&e->l, r, "Tidx", DF_INT32);
  return r->name;
}

static const char *size_of(dfi_export *e, const char *name, df_output h) {
  Pb__NodeDef *n = dfi_export_node(e, "TensorArraySizeV3", name, 1);
  dfi_lower_input(&e->l, n, dfi_export_array_handle(e, h));
  dfi_lower_input(&e->l, n, dfi_export_array_flow(e, h));
  return name;
}

/* The dimension of the current node's input along its first axis. */
static const char *rows_of(dfi_export *e, int32_t i) {
  const char *own = e->name[e->current->id];
  df_output o = e->current->in[i];
  const dfi_shape *s = dfi_shape_at(o);
  if (s->rank > 0 && s->dims[0] >= 0)
    return dfi_export_number(e, dfi_export_name(e, "%s/rows", own), DF_INT32, (double)s->dims[0]);
  Pb__NodeDef *shape = dfi_export_node(e, "Shape", dfi_export_name(e, "%s/shape", own), 1);
  dfi_lower_input(&e->l, shape, dfi_export_ref(e, o));
  dfi_lower_type(&e->l, shape, "T", dfi_dtype(o));
  dfi_lower_type(&e->l, shape, "out_type", DF_INT32);
  const char *zero = dfi_export_number(e, dfi_export_name(e, "%s/first", own), DF_INT32, 0);
  const char *axis = dfi_export_number(e, dfi_export_name(e, "%s/axis", own), DF_INT32, 0);
  Pb__NodeDef *rows = dfi_export_node(e, "GatherV2", dfi_export_name(e, "%s/rows", own), 1);
  dfi_lower_input(&e->l, rows, shape->name);
  dfi_lower_input(&e->l, rows, zero);
  dfi_lower_input(&e->l, rows, axis);
  dfi_lower_type(&e->l, rows, "Tparams", DF_INT32);
  dfi_lower_type(&e->l, rows, "Tindices", DF_INT32);
  dfi_lower_type(&e->l, rows, "Taxis", DF_INT32);
  return rows->name;
}

/* An op on the array of input 0: handle, the inputs between, flow; then the control edges. */
static Pb__NodeDef *on_array(dfi_export *e, const char *type, int32_t outputs, const char *a, const char *b) {
  const df_node *n = e->current;
  Pb__NodeDef *def = dfi_export_node(e, type, e->name[n->id], outputs);
  dfi_lower_input(&e->l, def, dfi_export_array_handle(e, n->in[0]));
  if (a) dfi_lower_input(&e->l, def, a);
  if (b) dfi_lower_input(&e->l, def, b);
  dfi_lower_input(&e->l, def, dfi_export_array_flow(e, n->in[0]));
  return def;
}

static void element_shape(dfi_export *e, Pb__NodeDef *def, const char *key, int32_t skip) {
  const df_attr *a = attr(e->current, "element_shape");
  bool known = a->i >= skip;
  dfi_export_shape(e, def, key, known ? (int32_t)a->i - skip : -1, a->ints + (known ? skip : 0));
}

static const char *times(dfi_export *e, const char *count, int32_t by) {
  const char *own = e->name[e->current->id];
  Pb__NodeDef *n = dfi_export_node(e, "Mul", dfi_export_name(e, "%s/times", own), 1);
  dfi_lower_input(&e->l, n, count);
  dfi_lower_input(&e->l, n, dfi_export_number(e, dfi_export_name(e, "%s/handles", own), DF_INT32, by));
  dfi_lower_type(&e->l, n, "T", DF_INT32);
  return n->name;
}

/* Where handle i of element `index` lies in an array whose elements are tapes of so many handles. */
static const char *place_of(dfi_export *e, const char *index, int32_t handles, int32_t i) {
  const char *own = e->name[e->current->id];
  const char *first = times(e, index, handles);
  Pb__NodeDef *n = dfi_export_node(e, "AddV2", dfi_export_name(e, "%s/place", own), 1);
  dfi_lower_input(&e->l, n, first);
  dfi_lower_input(&e->l, n, dfi_export_number(e, dfi_export_name(e, "%s/slot", own), DF_INT32, i));
  dfi_lower_type(&e->l, n, "T", DF_INT32);
  return n->name;
}

/* A tape is written handle by handle; the last one's flow has the node's name. */
static void write_handles(dfi_export *e, const char *index, int32_t handles) {
  const df_node *n = e->current;
  const char *flow = dfi_export_array_flow(e, n->in[0]), *name = e->name[n->id];
  for (int32_t i = 0; i < handles; i++) {
    const char *at = place_of(e, index, handles, i), *array = dfi_export_array_handle(e, n->in[0]);
    const char *own = i == handles - 1 ? name : dfi_export_name(e, "%s/part", name);
    Pb__NodeDef *def = dfi_export_node(e, "TensorArrayWriteV3", own, 1);
    dfi_lower_input(&e->l, def, array);
    dfi_lower_input(&e->l, def, at);
    dfi_lower_input(&e->l, def, dfi_export_tape_handle(e, n->in[2], i));
    dfi_lower_input(&e->l, def, flow);
    dfi_export_controls(e, def);
    dfi_lower_type(&e->l, def, "T", DF_RESOURCE);
    flow = own;
  }
  if (handles) return;
  Pb__NodeDef *def = dfi_export_node(e, "Identity", name, 1);
  dfi_lower_input(&e->l, def, flow);
  dfi_lower_type(&e->l, def, "T", DF_FLOAT32);
}

/* An element that is an array itself: its handle is written, once all is done that its flow stands for. */
static void write_op(dfi_export *e) {
  const df_node *n = e->current;
  bool array = dfi_export_is_array(e, n->in[2]);
  const char *index = as_int(e, 1, DF_INT32);
  if (dfi_export_is_tape(e, n->in[2])) { write_handles(e, index, dfi_export_handles(e, n->in[2])); return; }
  const char *value = array ? dfi_export_array_handle(e, n->in[2]) : dfi_export_ref(e, n->in[2]);
  Pb__NodeDef *def = on_array(e, "TensorArrayWriteV3", 1, index, value);
  if (array) {
    const char *flow = dfi_export_array_flow(e, n->in[2]);
    dfi_lower_input(&e->l, def, dfi_lower_text(&e->l, "^%.*s", (int)strcspn(flow, ":"), flow));
  }
  dfi_export_controls(e, def);
  dfi_lower_type(&e->l, def, "T", dfi_dtype(n->in[2]));
}

static void read_handles(dfi_export *e, const char *index, int32_t handles) {
  const df_node *n = e->current;
  for (int32_t i = 0; i < handles; i++) {
    const char *at = place_of(e, index, handles, i), *array = dfi_export_array_handle(e, n->in[0]);
    Pb__NodeDef *def =
        dfi_export_node(e, "TensorArrayReadV3", dfi_lower_text(&e->l, "%s/slot_%d", e->name[n->id], i), 1);
    dfi_lower_input(&e->l, def, array);
    dfi_lower_input(&e->l, def, at);
    dfi_lower_input(&e->l, def, dfi_export_array_flow(e, n->in[0]));
    dfi_export_controls(e, def);
    dfi_lower_type(&e->l, def, "dtype", DF_RESOURCE);
  }
  dfi_export_stands_for(e, handles);
}

static void read_op(dfi_export *e) {
  const df_node *n = e->current;
  const char *name = e->name[n->id], *index = as_int(e, 1, DF_INT32);
  const int32_t handles = dfi_export_element_handles(e, n->in[0]);
  if (handles >= 0) { read_handles(e, index, handles); return; }
  Pb__NodeDef *def = on_array(e, "TensorArrayReadV3", 1, index, NULL);
  dfi_export_controls(e, def);
  dfi_lower_type(&e->l, def, "dtype", n->out[0].dtype);
  if (n->out[0].dtype != DF_RESOURCE) return;
  Pb__NodeDef *flow = dfi_export_node(e, "Identity", dfi_lower_text(&e->l, "%s/flow", name), 1);
  dfi_lower_input(&e->l, flow, dfi_export_array_flow(e, n->in[0]));
  dfi_lower_input(&e->l, flow, dfi_lower_text(&e->l, "^%s", name));
  dfi_lower_type(&e->l, flow, "T", DF_FLOAT32);
}

static void gather_op(dfi_export *e, const char *indices) {
  Pb__NodeDef *def = on_array(e, "TensorArrayGatherV3", 1, indices, NULL);
  dfi_export_controls(e, def);
  dfi_lower_type(&e->l, def, "dtype", e->current->out[0].dtype);
  element_shape(e, def, "element_shape", 0);
}

static void scatter_op(dfi_export *e, const char *indices, int32_t value) {
  Pb__NodeDef *def = on_array(e, "TensorArrayScatterV3", 1, indices, dfi_export_ref(e, e->current->in[value]));
  dfi_export_controls(e, def);
  dfi_lower_type(&e->l, def, "T", dfi_dtype(e->current->in[value]));
}

/* Where the array was made without saying it, TensorFlow cannot tell what shape a read has; the writes say it here. */
static void shape_of_elements(dfi_export *e, Pb__NodeDef *def) {
  const df_attr *said = attr(e->current, "element_shape");
  const dfi_shape *written = e->element_shape[e->current->id];
  const bool handles = attr(e->current, "dtype")->i == DF_RESOURCE;
  if (said->i < 0 && written && !handles) dfi_export_shape(e, def, "element_shape", written->rank, written->dims);
  else element_shape(e, def, "element_shape", 0);
}

static void array_new(dfi_export *e) {
  const df_node *n = e->current;
  const int32_t handles = dfi_export_element_handles(e, (df_output){ (df_node *)(uintptr_t)n, 0 });
  const char *elements = as_int(e, 0, DF_INT32), *size = handles < 0 ? elements : times(e, elements, handles);
  Pb__NodeDef *def = dfi_export_node(e, "TensorArrayV3", e->name[n->id], 2);
  dfi_lower_input(&e->l, def, size);
  dfi_export_controls(e, def);
  dfi_lower_type(&e->l, def, "dtype", (int32_t)attr(n, "dtype")->i);
  shape_of_elements(e, def);
  dfi_lower_bool(&e->l, def, "dynamic_size", attr(n, "dynamic_size")->i != 0);
  dfi_lower_bool(&e->l, def, "clear_after_read", attr(n, "clear_after_read")->i != 0);
  const df_attr *name = attr(n, "tensor_array_name");
  dfi_lower_string(&e->l, def, "tensor_array_name", name->i ? name->s : e->name[n->id]);
}

/* Is it a gradient's array, or one of several that come by different ways and of which one is? */
static bool is_gradients(const dfi_export *e, df_output o) {
  const df_node *n = root(e, o);
  if (array_op(n)) return is(n, "Grad");
  for (int32_t k = 0; flow_kind(n) == DF_MERGE && k < n->nin; k++)
    if (flow_kind(n->in[k].node) != DF_NEXT_ITERATION && is_gradients(e, n->in[k])) return true;
  return false;
}

/* Is the array of `o` from outside of a loop that n is in? */
static bool is_from_outside(const dfi_export *e, const df_node *n, df_output o) {
  const df_node *made = root(e, o);
  for (const df_context *c = n->context; c->kind != DFI_TOP; c = c->parent)
    if (c->loop && c->kind != DFI_BRANCH && !dfi_context_inside(made->context, c)) return true;
  return false;
}

static void grad_op(dfi_export *e) {
  const df_node *n = e->current;
  if (is_gradients(e, n->in[0])) {
    dfi_export_refuse(e, "TensorFlow's arrays have no gradient of a gradient");
    return;
  }
  if (n->in[0].node->out[n->in[0].index].of == DF_RESOURCE) {
    dfi_export_refuse(e, "TensorFlow's arrays of arrays have no gradient");
    return;
  }
  if (is_from_outside(e, n, n->in[0])) {
    dfi_export_refuse(e, "in TensorFlow all iterations of a loop share the gradient of an array from outside");
    return;
  }
  const df_attr *source = attr(n, "source");
  Pb__NodeDef *def = on_array(e, "TensorArrayGradV3", 2, NULL, NULL);
  dfi_export_controls(e, def);
  dfi_lower_string(&e->l, def, "source", source->i ? source->s : e->name[n->id]);
}

static void concat_op(dfi_export *e) {
  Pb__NodeDef *def = on_array(e, "TensorArrayConcatV3", 2, NULL, NULL);
  dfi_export_controls(e, def);
  dfi_lower_type(&e->l, def, "dtype", e->current->out[0].dtype);
  element_shape(e, def, "element_shape_except0", 1);
}

static void split_op(dfi_export *e) {
  Pb__NodeDef *def = on_array(e, "TensorArraySplitV3", 1, dfi_export_ref(e, e->current->in[1]), as_int(e, 2, DF_INT64));
  dfi_export_controls(e, def);
  dfi_lower_type(&e->l, def, "T", dfi_dtype(e->current->in[1]));
}

static void size_op(dfi_export *e) { dfi_export_controls(e, on_array(e, "TensorArraySizeV3", 1, NULL, NULL)); }

/* Arrays that are one are done when all their flows are there. */
static void join_op(dfi_export *e) {
  const df_node *n = e->current;
  for (int32_t i = 1; i < n->nin; i++)
    if (root(e, n->in[i]) != root(e, n->in[0])) {
      dfi_export_refuse(e, "it adds one gradient array to another");
      return;
    }
  Pb__NodeDef *def = dfi_export_node(e, "AddN", e->name[n->id], 1);
  for (int32_t i = 0; i < n->nin; i++) dfi_lower_input(&e->l, def, dfi_export_array_flow(e, n->in[i]));
  dfi_export_controls(e, def);
  dfi_lower_int(&e->l, def, "N", n->nin);
  dfi_lower_type(&e->l, def, "T", DF_FLOAT32);
}

bool dfi_export_array_node(dfi_export *e, const df_node *n) {
  if (!array_op(n)) {
    if (!passes(n) || !n->nout || !dfi_export_is_array(e, (df_output){ (df_node *)(uintptr_t)n, 0 })) return false;
    write_primitive(e, n);
    return true;
  }
  const df_attr *recomputed = attr(n, "recomputed");
  if (recomputed && recomputed->i) dfi_export_refuse(e, "it writes what a recomputed iteration wrote before");
  else if (is(n, "")) array_new(e);
  else if (is(n, "Write")) write_op(e);
  else if (is(n, "Read")) read_op(e);
  else if (is(n, "Gather")) gather_op(e, as_int(e, 1, DF_INT32));
  else if (is(n, "Stack"))
    gather_op(e, count_up(e, size_of(e, dfi_export_name(e, "%s/size", e->name[n->id]), n->in[0])));
  else if (is(n, "Take")) gather_op(e, count_up(e, as_int(e, 1, DF_INT32)));
  else if (is(n, "Unstack")) scatter_op(e, count_up(e, rows_of(e, 1)), 1);
  else if (is(n, "Scatter")) scatter_op(e, as_int(e, 1, DF_INT32), 2);
  else if (is(n, "Concat") || is(n, "ConcatParts")) concat_op(e);
  else if (is(n, "Split")) split_op(e);
  else if (is(n, "Size")) size_op(e);
  else if (is(n, "Grad")) grad_op(e);
  else if (is(n, "Join")) join_op(e);
  else dfi_export_refuse(e, "TensorFlow cannot copy an array");
  return true;
}
