/* optional.c: variants that hold some values, or none: how TensorFlow's conds hand intermediate values to their
   gradients. */
#include "resource/variant.h"

static int32_t give(df_kernel *k, int32_t n) {
  df_tensor *t = dfk_out(k, 0, DF_VARIANT, 0, NULL);
  if (!t) return k->error->code;
  dfi_optional *o = dfi_optional_new(n);
  for (int32_t i = 0; i < n; i++) {
    o->value[i] = dfi_value_copy(k->raw[i]);
    o->value[i].dead = o->value[i].flags = 0;
    o->value[i].uses = 0;
  }
  dfk_set_variant(t, 0, o);
  dfi_handle_release(o);
  return DF_OK;
}

static int32_t kernel_from_value(df_kernel *k) { return give(k, k->nin); }
static int32_t kernel_none(df_kernel *k) { return give(k, -1); }

static const dfi_optional *optional_in(df_kernel *k) {
  const df_tensor *t = k->in[0];
  dfi_optional *o = t && t->dtype == DF_VARIANT && t->rank == 0 ? *(dfi_optional **)t->data : NULL;
  if (o && o->base.type == DFI_OPTIONAL) return o;
  dfk_fail(k, DF_INVALID_ARGUMENT, "input 0 is no optional");
  return NULL;
}

static int32_t kernel_has_value(df_kernel *k) {
  const dfi_optional *o = optional_in(k);
  if (!o) return k->error->code;
  k->out[0] = (df_value){ .kind = DF_SCALAR, .dtype = DF_BOOL, .as.b = o->n >= 0 };
  return DF_OK;
}

/* optional; output_types output_shapes */
static int32_t kernel_get_value(df_kernel *k) {
  const dfi_optional *o = optional_in(k);
  if (!o) return k->error->code;
  if (o->n < 0) return dfk_fail(k, DF_INVALID_ARGUMENT, "the optional has no value");
  if (o->n != k->nout)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "the optional has %d values, but %d are asked for", o->n, k->nout);
  for (int32_t i = 0; i < o->n; i++) {
    if (o->value[i].dtype != k->out_dtype[i])
      return dfk_fail(k, DF_INVALID_ARGUMENT, "value %d of the optional is %s, not %s", i,
                      df_dtype_name(o->value[i].dtype), df_dtype_name(k->out_dtype[i]));
    k->out[i] = dfi_value_copy(&o->value[i]);
  }
  return DF_OK;
}

static int32_t shape_get_value(dfi_infer *c) {
  const df_attr *shapes = &c->node->attrs[1];
  for (int32_t i = 0; i < c->node->nout && i < dfi_shapes_count(shapes); i++)
    *dfi_set_shape(c, i) = dfi_shapes_at(shapes, i);
  return DF_OK;
}

static const df_op ops[] = {
  { .type = "OptionalFromValue", .hosted = true, .in = "components:Toutput_types*", .out = "optional:variant",
    .attrs = "Toutput_types:types=[]",
    .doc = "an optional that has these values", .stateful = true, .traits = DFO_REPEATS, .no_grad = true,
    .shape = dfi_shape_all_scalar,
    .kernel = { [DF_REF] = kernel_from_value } },
  { .type = "OptionalNone", .hosted = true, .in = "", .out = "optional:variant", .doc = "an optional that has no value",
    .stateful = true, .traits = DFO_REPEATS, .no_grad = true, .shape = dfi_shape_all_scalar,
    .kernel = { [DF_REF] = kernel_none } },
  { .type = "OptionalHasValue", .hosted = true, .in = "optional:variant", .out = "has_value:bool",
    .doc = "whether the optional has values",
    .stateful = true, .traits = DFO_REPEATS, .no_grad = true, .shape = dfi_shape_all_scalar,
    .kernel = { [DF_REF] = kernel_has_value } },
  { .type = "OptionalGetValue", .hosted = true, .in = "optional:variant", .out = "components:output_types*",
    .attrs = "output_types:types output_shapes:shapes=[]",
    .doc = "the values of the optional, which must have some", .stateful = true, .traits = DFO_REPEATS, .no_grad = true,
    .shape = shape_get_value,
    .kernel = { [DF_REF] = kernel_get_value } },
};
const dfi_op_table dfi_ops_optional = { ops, (int32_t)(sizeof ops / sizeof *ops) };
