/* elementwise.c: elementwise ops of floats that are one C expression, each whole: entry, derivative, help, test domain
 * and foreign names. Adding one is a worked example in runtime/ops/README.md: a row of kernels/formulas.h, the
 * reference in kernels/ref/elementwise.c, what stands here, and its tests in spec/.
 */
#include "op/op.h"
#include "graph/grad.h"
#include "kernels/elementwise.h"

#define GRAD(name) static int32_t grad_##name(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx)
#define KERNELS(name) .kernel = { [DF_REF] = ref_##name, [DF_CPU] = cpu_##name }, .scalar = scalar_##name
#define FLOAT1  .in = "x:T", .out = "y:T", .types = "T=float", .shape = dfi_shape_same
#define FLOAT2  .in = "x:T y:T", .out = "z:T", .types = "T=float", .shape = dfi_shape_binary
/* TensorFlow's op has the same name, inputs of one type and no further attribute. */
#define AS_IN_TENSORFLOW1 .tensorflow = &(const dfi_tensorflow_op){ "T", "T", "T:d!" }
#define AS_IN_TENSORFLOW2 .tensorflow = &(const dfi_tensorflow_op){ "T T", "T", "T:d!" }

/* ---- costs: nanoseconds ---- */
static double per_element(const df_kernel *k, double ns) {
  int64_t most = 0;
  for (int32_t i = 0; i < k->nin; i++) if (k->in[i]->size > most) most = k->in[i]->size;
  return ns * (double)most;
}
static double cheap(const df_kernel *k)  { return per_element(k, 0.25); }

static double costly(const df_kernel *k) { return per_element(k, 60); }

/* ---- softsign: x / (1 + |x|) ---- */
GRAD(softsign) {
  dx[0] = dfi_op(dfg_build(g), "SoftsignGrad", dy[0], dfg_in(g, n, 0));
  return dfg_end(g);
}

/* SoftsignGrad(w, x) = w / (1 + |x|)^2; by x: -2 w sign(x) / (1 + |x|)^3. */
GRAD(softsign_grad) {
  dfi_build *b = dfg_build(g);
  df_output w = dfg_in(g, n, 0), x = dfg_in(g, n, 1);
  if (dfg_wants(g, n, 0)) dx[0] = dfi_op(b, "SoftsignGrad", dy[0], x);
  if (dfg_wants(g, n, 1)) {
    df_output wide = dfi_op(b, "AddV2", dfi_const_like(b, x, 1), dfi_op(b, "Abs", x));
    df_output slope =
        dfi_op(b, "Mul", dfi_const_like(b, x, -2), dfi_op(b, "Mul", dfi_op(b, "Mul", w, dy[0]), dfi_op(b, "Sign", x)));
    dx[1] = dfi_op(b, "RealDiv", slope, dfi_op(b, "Mul", wide, dfi_op(b, "Square", wide)));
  }
  return dfg_end(g);
}

/* ---- erfinv: the derivative is 1 over that of erf, at y: sqrt(pi) / 2 exp(y^2) ---- */
GRAD(erfinv) {
  dfi_build *b = dfg_build(g);
  df_output y = dfg_out(g, n, 0);
  df_output slope =
      dfi_op(b, "Mul", dfi_const_like(b, y, 0.886226925452758013649), dfi_op(b, "Exp", dfi_op(b, "Square", y)));
  dx[0] = dfi_op(b, "Mul", dy[0], slope);
  return dfg_end(g);
}

/* ---- ndtri: 1 over the density of the normal distribution at y: sqrt(2 pi) exp(y^2 / 2) ---- */
GRAD(ndtri) {
  dfi_build *b = dfg_build(g);
  df_output y = dfg_out(g, n, 0), half = dfi_op(b, "Mul", dfi_const_like(b, y, 0.5), dfi_op(b, "Square", y));
  dx[0] =
      dfi_op(b, "Mul", dy[0], dfi_op(b, "Mul", dfi_const_like(b, y, 2.50662827463100050242), dfi_op(b, "Exp", half)));
  return dfg_end(g);
}

/* ---- next_after: one step from x1, whose derivative is taken to be 1 ---- */
GRAD(next_after) {
  dx[0] = dfg_unbroadcast(g, n, 0, dy[0]);
  return dfg_end(g);
}

static const df_op ops[] = {
  { .type = "Softsign", .lua = "softsign", .in = "features:T", .out = "activations:T", .types = "T=float",
    .shape = dfi_shape_same,
    .doc = "T[...] = softsign(features T[...]): x / (1 + |x|)",
    .example = "df.softsign({-1.0, 3.0})", .output = "[-0.50  0.75] float32[2]",
    .see = "softplus relu tanh sigmoid", .derivative = "features = dy / (1 + abs(features))^2", .domain = "0.2 2",
    .onnx = "Softsign", .grad = grad_softsign, .cost = cheap, KERNELS(softsign), AS_IN_TENSORFLOW1 },
  { .type = "SoftsignGrad", .in = "gradients:T features:T", .out = "backprops:T", .types = "T=float",
    .shape = dfi_shape_binary,
    .doc = "T[...] = SoftsignGrad: dy / (1 + |x|)^2", .domain = "0.3 2",
    .grad = grad_softsign_grad, .cost = cheap, KERNELS(softsign_grad), AS_IN_TENSORFLOW2 },
  { .type = "Erfinv", .lua = "erfinv", FLOAT1,
    .doc = "T[...] = erfinv(x T[...]): the y with erf(y) = x; infinite at -1 and 1, NaN beyond",
    .example = "df.erfinv({-0.5, 0.0, 0.9})", .output = "[-0.4769  0.0000  1.1631] float32[3]",
    .see = "erf erfc random_normal", .derivative = "x = dy * 0.886226925452758 * exp(y^2)", .domain = "-0.8 0.8",
    .grad = grad_erfinv, .cost = costly, KERNELS(erfinv), AS_IN_TENSORFLOW1 },
  { .type = "Ndtri", .lua = "ndtri", FLOAT1,
    .doc = "T[...] = ndtri(x T[...]): the quantile of the standard normal distribution: below it lies the share x; "
    "infinite at 0 and 1, "
           "NaN beyond",
    .example = "df.ndtri({0.025, 0.5, 0.975})", .output = "[-1.96  0.00  1.96] float32[3]",
    .see = "erfinv erf random_normal", .derivative = "x = dy * 2.5066282746310002 * exp(y^2 / 2)", .domain = "0.2 0.8",
    .grad = grad_ndtri, .cost = costly, KERNELS(ndtri), AS_IN_TENSORFLOW1 },
  { .type = "NextAfter", .lua = "next_after", .in = "x1:T x2:T", .out = "output:T", .types = "T=float32|float64",
    .shape = dfi_shape_binary,
    .doc = "T[...] = next_after(x1 T[...], x2 T[...]): the number of that dtype next to x1 in the direction of x2; the "
    "gradient goes to "
           "x1 alone",
    .example = "df.next_after({1.0}, 2.0) - 1", .output = "[1.1921e-07] float32[1]", .see = "round rint floor ceil",
    .derivative = "x1 = dy", .domain = "0.3 1.7",
    .grad = grad_next_after, .cost = cheap, KERNELS(next_after), AS_IN_TENSORFLOW2 },
};
const dfi_op_table dfi_ops_elementwise = { ops, (int32_t)(sizeof ops / sizeof *ops) };
