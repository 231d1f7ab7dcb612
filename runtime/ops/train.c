/* train.c: TensorFlow's optimizers as ops, on references and on handles, dense and on rows.
 *
 * What a step computes is a rule (kernels/train.h); here is only which input of which op is what. As in train_step.c
 * the variable and its slots are locked together and a step happens wholly or not at all. A sparse step takes its rows
 * one after the other, as TensorFlow's do: an index named twice is stepped twice.
 */
#include "resource/train_step.h"
#include "base/remote_memory.h"
#include "kernels/train.h"

enum { GRAIN = 16384 };

/* Where an op has what: `vars` variables first, then the numbers of the rule, its gradient, and its indices (0: it is
   dense). */
typedef struct layout {
  dfk_rule rule;
  uint8_t  vars, grad, indices;
  bool     on;                        /* the flag where the op has no attribute for it */
  int8_t   flag;                      /* attribute, or -1 */
  uint8_t  number[DFK_TRAIN_NUMBERS]; /* inputs, 0: no more */
} layout;

typedef struct work {
  const layout *l;
  const dfi_step *s;
  int32_t dtype;
  const char *grad;
  const double *h;
  bool flag;
} work;

static void train_part(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  int64_t at = begin * dfi_dtype_size[w->dtype];
  void *x[DFK_TRAIN_VARS];
  for (int32_t i = 0; i < w->l->vars; i++) x[i] = w->s->data[i] + at;
  dfk_train(w->l->rule, w->dtype, end - begin, x, w->grad + at, w->h, w->flag);
}

/* The same where the variables lie, for the rows `row` (NULL: all, at once). */
static int32_t train_there(df_kernel *k, const work *w, dfi_step *s, const int64_t *row, int64_t rows,
                           int64_t columns) {
  dfi_remote_train t = { .rule = w->l->rule, .flag = w->flag, .in_turn = row != NULL, .rows = rows, .columns = columns,
                         .row = row };
  memcpy(t.number, w->h, sizeof t.number);
  return dfi_step_remote(s, k->raw[w->l->grad], &t);
}

static int32_t train_rows(df_kernel *k, const layout *l, work *w) {
  dfi_step s;
  const df_tensor *ix = k->in[l->indices], *g = k->in[l->grad];
  int32_t code = dfi_step_lock(&s, k, l->vars);
  if (code) return code;
  if ((code = dfi_step_open(&s, k->raw[l->grad]))) return dfi_step_unlock(&s, code);
  dfi_shape given = dfi_value_shape(k->raw[l->grad]), want = s.shape;
  char a[160], b[160];
  if (want.rank > 0) want.dims[0] = ix->size;
  if (want.rank == 0 || ix->rank != 1 || !dfi_shape_equal(&given, &want))
    return dfi_step_unlock(&s, dfk_fail(k, DF_INVALID_ARGUMENT,
                                        "variable '%s' holds %s, so its gradient at %lld indices cannot be %s",
                                        s.var[0]->name, dfi_typed_shape_text(g->dtype, &s.shape, a),
                                        (long long)ix->size, dfi_typed_shape_text(g->dtype, &given, b)));
  for (int64_t i = 0; i < ix->size; i++)
    if (dfk_index(ix, i) < 0 || dfk_index(ix, i) >= s.shape.dims[0])
      return dfi_step_unlock(&s, dfk_fail(k, DF_INVALID_ARGUMENT,
                                          "indices[%lld] is %lld but variable '%s' has rows 0 to %lld", (long long)i,
                                          (long long)dfk_index(ix, i), s.var[0]->name, (long long)s.shape.dims[0] - 1));
  int64_t row = ix->size ? g->size / ix->size : 0, bytes = row * dfi_dtype_size[g->dtype];
  if (dfi_step_is_remote(&s)) {
    int64_t *index = dfk_scratch(k, (ix->size + 1) * (int64_t)sizeof *index);
    for (int64_t i = 0; index && i < ix->size; i++) index[i] = dfk_index(ix, i);
    code = !index ? k->error->code : row ? train_there(k, w, &s, index, ix->size, row) : DF_OK;
    dfk_free(index);
    return dfi_step_unlock(&s, code);
  }
  df_value here;
  if (!dfi_value_on_host(k->raw[l->grad], &here))
    return dfi_step_unlock(&s, dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for the gradient"));
  const char *grad = dfi_value_data(&here);
  for (int64_t i = 0; i < ix->size; i++) {
    void *x[DFK_TRAIN_VARS];
    for (int32_t v = 0; v < l->vars; v++) x[v] = s.data[v] + dfk_index(ix, i) * bytes;
    dfk_train(l->rule, w->dtype, row, x, grad + i * bytes, w->h, w->flag);
  }
  dfi_value_drop(&here);
  return dfi_step_unlock(&s, DF_OK);
}

static int32_t train(df_kernel *k, const layout *l) {
  double h[DFK_TRAIN_NUMBERS] = { 0 };
  char text[160];
  for (int32_t i = 0; i < DFK_TRAIN_NUMBERS && l->number[i]; i++) {
    const df_tensor *t = k->in[l->number[i]];
    if (t->rank != 0)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "input %d is %s but must be a scalar", l->number[i],
                      dfk_shape_text(t, text, sizeof text));
    h[i] = df_tensor_get(t, 0);
  }
  work w = { .l = l, .dtype = k->in[l->grad]->dtype, .h = h, .flag = l->flag >= 0 ? dfk_bool(k, l->flag) : l->on };
  int32_t code;
  if (l->indices) code = train_rows(k, l, &w);
  else {
    dfi_step s;
    if ((code = dfi_step_dense(&s, k, l->vars, l->grad))) return code;
    df_value here = { 0 };
    w.s = &s;
    if (dfi_step_is_remote(&s)) code = train_there(k, &w, &s, NULL, 0, 0);
    else if (!dfi_value_on_host(k->raw[l->grad], &here))
      code = dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for the gradient");
    else {
      w.grad = dfi_value_data(&here);
      dfk_parallel(k, k->in[l->grad]->size, GRAIN, train_part, &w);
      dfi_value_drop(&here);
    }
    code = dfi_step_unlock(&s, code);
  }
  return !code && k->nout ? dfk_out_forward(k, 0, 0, 0, NULL) : code;
}

/* One op: KERNEL(name, rule, variables, gradient, indices, flag, numbers…). */
#define KERNEL(NAME, RULE, VARS, GRAD, INDICES, FLAG, ...) \
  enum { NAME##_host_in = 0x07ffffff & ~(1 << GRAD) };            /* the numbers and the indices */ \
  static int32_t NAME(df_kernel *k) { \
    static const layout l = { DFK_##RULE, VARS, GRAD, INDICES, true, FLAG, { __VA_ARGS__ } }; \
    return train(k, &l); \
  }
KERNEL(descent, DESCENT, 1, 2, 0, -1, 1)
KERNEL(proximal_descent, PROXIMAL_DESCENT, 1, 4, 0, -1, 1, 2, 3)
KERNEL(proximal_descent_rows, PROXIMAL_DESCENT, 1, 4, 5, -1, 1, 2, 3)
KERNEL(momentum, MOMENTUM, 2, 3, 0, 0, 2, 4)
KERNEL(momentum_rows, MOMENTUM, 2, 3, 4, 0, 2, 5)
KERNEL(keras_momentum, KERAS_MOMENTUM, 2, 3, 0, 0, 2, 4)
KERNEL(keras_momentum_rows, KERAS_MOMENTUM, 2, 3, 4, 0, 2, 5)
KERNEL(adagrad, ADAGRAD, 2, 3, 0, 0, 2)
KERNEL(adagrad_rows, ADAGRAD, 2, 3, 4, 0, 2)
KERNEL(adagrad_v2, ADAGRAD_V2, 2, 4, 0, 0, 2, 3)
KERNEL(adagrad_v2_rows, ADAGRAD_V2, 2, 4, 5, 0, 2, 3)
KERNEL(proximal_adagrad, PROXIMAL_ADAGRAD, 2, 5, 0, -1, 2, 3, 4)
KERNEL(proximal_adagrad_rows, PROXIMAL_ADAGRAD, 2, 5, 6, -1, 2, 3, 4)
KERNEL(adagrad_da, ADAGRAD_DA, 3, 3, 0, -1, 4, 5, 6, 7)
KERNEL(adagrad_da_rows, ADAGRAD_DA, 3, 3, 4, -1, 5, 6, 7, 8)
KERNEL(adadelta, ADADELTA, 3, 6, 0, -1, 3, 4, 5)
KERNEL(adadelta_rows, ADADELTA, 3, 6, 7, -1, 3, 4, 5)
KERNEL(rmsprop, RMSPROP, 3, 7, 0, -1, 3, 4, 5, 6)
KERNEL(rmsprop_rows, RMSPROP, 3, 7, 8, -1, 3, 4, 5, 6)
KERNEL(centered_rmsprop, CENTERED_RMSPROP, 4, 8, 0, -1, 4, 5, 6, 7)
KERNEL(centered_rmsprop_rows, CENTERED_RMSPROP, 4, 8, 9, -1, 4, 5, 6, 7)
KERNEL(ftrl, FTRL, 3, 3, 0, 0, 4, 5, 6, 7)
KERNEL(ftrl_rows, FTRL, 3, 3, 4, 0, 5, 6, 7, 8)
KERNEL(ftrl_v2, FTRL_V2, 3, 3, 0, 0, 4, 5, 6, 7, 8)
KERNEL(ftrl_v2_rows, FTRL_V2, 3, 3, 4, 0, 5, 6, 7, 8, 9)
KERNEL(adam, ADAM, 3, 9, 0, 0, 3, 4, 5, 6, 7, 8)
KERNEL(adamax, ADAMAX, 3, 8, 0, -1, 3, 4, 5, 6, 7)
KERNEL(add_sign, ADD_SIGN, 2, 6, 0, -1, 2, 3, 4, 5)
KERNEL(power_sign, POWER_SIGN, 2, 6, 0, -1, 2, 3, 4, 5)

static int32_t shape_out(dfi_infer *c) {
  if (c->node->nout) *dfi_set_shape(c, 0) = *dfi_in_shape(c, 0);
  return DF_OK;
}

/* ---- entries ------------------------------------------------------------------------------------------ */

/* The step runs where its variables lie. */
#define ENTRY(TYPE, IN, OUT, TYPES, ATTRS, FN) \
  { .type = TYPE, .remote = DFI_REMOTE_MOVES, .host_in = FN##_host_in, \
    .in = IN, .out = OUT, .types = TYPES, .attrs = ATTRS, \
    .doc = "one step of the optimizer; see TensorFlow's " TYPE, \
    .stateful = true, .effect = true, .no_grad = true, .work = dfi_work_step, .shape = shape_out, \
    .kernel = { [DF_REF] = FN } }
#define T_ONLY "T=float"
#define T_ROWS "T=float Tindices=int32|int64"
/* Variables as references with REF, as handles with HANDLE. */
#define V1(K) "var" K
#define V2(K, A) "var" K " " A K
#define V3(K, A, B) "var" K " " A K " " B K
#define V4(K, A, B, C) "var" K " " A K " " B K " " C K
#define DENSE(NAME, VARS, REST, ATTRS, FN) \
  ENTRY("Apply" NAME, VARS(":&T") " " REST, "out:&T", T_ONLY, ATTRS, FN), \
  ENTRY("ResourceApply" NAME, VARS(":handle") " " REST, "", T_ONLY, ATTRS, FN)
#define ROWS(NAME, VARS, REST, ATTRS, FN) \
  ENTRY("SparseApply" NAME, VARS(":&T") " " REST, "out:&T", T_ROWS, ATTRS, FN), \
  ENTRY("ResourceSparseApply" NAME, VARS(":handle") " " REST, "", T_ROWS, ATTRS, FN)
#define VAR(K)           V1(K)
#define ACCUM(K)         V2(K, "accum")
#define GRADIENT_SUMS(K) V3(K, "gradient_accumulator", "gradient_squared_accumulator")
#define ACCUMS(K)        V3(K, "accum", "accum_update")
#define MS_MOM(K)        V3(K, "ms", "mom")
#define MG_MS_MOM(K)     V4(K, "mg", "ms", "mom")
#define LINEAR(K)        V3(K, "accum", "linear")
#define M_V(K)           V3(K, "m", "v")
#define M(K)             V2(K, "m")
#define UPDATE "update_slots:bool=true"
#define NESTEROV "use_nesterov:bool=false"
#define BY_LR "multiply_linear_by_lr:bool=false"
#define IX " indices:Tindices"

static const df_op ops[] = {
  ENTRY("ApplyGradientDescent", "var:&T alpha:T delta:T", "out:&T", T_ONLY, "", descent),
  DENSE("ProximalGradientDescent", VAR, "alpha:T l1:T l2:T delta:T", "", proximal_descent),
  ROWS("ProximalGradientDescent", VAR, "alpha:T l1:T l2:T grad:T" IX, "", proximal_descent_rows),
  ENTRY("ApplyMomentum", ACCUM(":&T") " lr:T grad:T momentum:T", "out:&T", T_ONLY, NESTEROV, momentum),
  ENTRY("SparseApplyMomentum", ACCUM(":&T") " lr:T grad:T" IX " momentum:T", "out:&T", T_ROWS, NESTEROV,
        momentum_rows),
  ENTRY("ResourceApplyKerasMomentum", ACCUM(":handle") " lr:T grad:T momentum:T", "", T_ONLY, NESTEROV, keras_momentum),
  ENTRY("ResourceSparseApplyKerasMomentum", ACCUM(":handle") " lr:T grad:T" IX " momentum:T", "", T_ROWS, NESTEROV,
        keras_momentum_rows),
  DENSE("Adagrad", ACCUM, "lr:T grad:T", UPDATE, adagrad),
  ROWS("Adagrad", ACCUM, "lr:T grad:T" IX, UPDATE, adagrad_rows),
  DENSE("AdagradV2", ACCUM, "lr:T epsilon:T grad:T", UPDATE, adagrad_v2),
  ROWS("AdagradV2", ACCUM, "lr:T epsilon:T grad:T" IX, UPDATE, adagrad_v2_rows),
  DENSE("ProximalAdagrad", ACCUM, "lr:T l1:T l2:T grad:T", "", proximal_adagrad),
  ROWS("ProximalAdagrad", ACCUM, "lr:T l1:T l2:T grad:T" IX, "", proximal_adagrad_rows),
  DENSE("AdagradDA", GRADIENT_SUMS, "grad:T lr:T l1:T l2:T global_step:int64", "", adagrad_da),
  ROWS("AdagradDA", GRADIENT_SUMS, "grad:T" IX " lr:T l1:T l2:T global_step:int64", "", adagrad_da_rows),
  DENSE("Adadelta", ACCUMS, "lr:T rho:T epsilon:T grad:T", "", adadelta),
  ROWS("Adadelta", ACCUMS, "lr:T rho:T epsilon:T grad:T" IX, "", adadelta_rows),
  DENSE("RMSProp", MS_MOM, "lr:T rho:T momentum:T epsilon:T grad:T", "", rmsprop),
  ROWS("RMSProp", MS_MOM, "lr:T rho:T momentum:T epsilon:T grad:T" IX, "", rmsprop_rows),
  DENSE("CenteredRMSProp", MG_MS_MOM, "lr:T rho:T momentum:T epsilon:T grad:T", "", centered_rmsprop),
  ROWS("CenteredRMSProp", MG_MS_MOM, "lr:T rho:T momentum:T epsilon:T grad:T" IX, "", centered_rmsprop_rows),
  DENSE("Ftrl", LINEAR, "grad:T lr:T l1:T l2:T lr_power:T", BY_LR, ftrl),
  ROWS("Ftrl", LINEAR, "grad:T" IX " lr:T l1:T l2:T lr_power:T", BY_LR, ftrl_rows),
  DENSE("FtrlV2", LINEAR, "grad:T lr:T l1:T l2:T l2_shrinkage:T lr_power:T", BY_LR, ftrl_v2),
  ROWS("FtrlV2", LINEAR, "grad:T" IX " lr:T l1:T l2:T l2_shrinkage:T lr_power:T", BY_LR, ftrl_v2_rows),
  ENTRY("ApplyAdam", M_V(":&T") " beta1_power:T beta2_power:T lr:T beta1:T beta2:T epsilon:T grad:T", "out:&T", T_ONLY,
        NESTEROV, adam),
  DENSE("AdaMax", M_V, "beta1_power:T lr:T beta1:T beta2:T epsilon:T grad:T", "", adamax),
  DENSE("AddSign", M, "lr:T alpha:T sign_decay:T beta:T grad:T", "", add_sign),
  DENSE("PowerSign", M, "lr:T logbase:T sign_decay:T beta:T grad:T", "", power_sign),
};
const dfi_op_table dfi_ops_train = { ops, (int32_t)(sizeof ops / sizeof *ops) };
