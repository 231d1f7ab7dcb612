/* integrals.c: entries of functions that are integrals: incomplete gamma and beta functions, Bessel functions and
 * others, with TensorFlow's gradients.
 */
#include "op/op.h"
#include "graph/grad.h"
#include "kernels/elementwise.h"
#include <math.h>

/* ---- gradients --------------------------------------------------------------------------------------------------- */

#define GRAD(name) static int32_t grad_##name(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx)
#define ADD(x, y) dfi_op(b, "Add", x, y)
#define SUB(x, y) dfi_op(b, "Sub", x, y)
#define MUL(x, y) dfi_op(b, "Mul", x, y)
#define DIV(x, y) dfi_op(b, "RealDiv", x, y)
#define FN(type) dfi_op(b, type, x)
#define NUMBER(v) dfi_const_like(b, x, v)

/* y where x is 0, else z. */
static df_output at_zero(dfi_build *b, df_output x, df_output y, df_output z) {
  const df_output zeros = dfi_op(b, "ZerosLike", x);
  return dfi_op(b, "Select", dfi_op(b, "Equal", x, zeros), ADD(y, zeros), z);
}

/* dx = dy * SLOPE, where x is the input and y the output. */
#define SLOPE(name, WITH_Y, EXPRESSION) GRAD(name) { \
    dfi_build *b = dfg_build(g); \
    const df_output x = dfg_in(g, n, 0), y = WITH_Y ? dfg_out(g, n, 0) : x; \
    (void)y; \
    dx[0] = MUL(dy[0], EXPRESSION); \
    return dfg_end(g); \
  }
SLOPE(bessel_i0, false, FN("BesselI1"))
SLOPE(bessel_i0e, true, SUB(FN("BesselI1e"), MUL(FN("Sign"), y)))
SLOPE(bessel_i1, true, at_zero(b, x, NUMBER(0.5), SUB(FN("BesselI0"), DIV(y, x))))
SLOPE(bessel_i1e, true,
      at_zero(b, x, NUMBER(0.5), SUB(FN("BesselI0e"), MUL(y, ADD(FN("Sign"), FN("Reciprocal"))))))
SLOPE(bessel_k0, false, dfi_op(b, "Neg", FN("BesselK1")))
SLOPE(bessel_k0e, true, SUB(y, FN("BesselK1e")))
SLOPE(bessel_k1, true, dfi_op(b, "Neg", ADD(FN("BesselK0"), DIV(y, x))))
SLOPE(bessel_k1e, true, SUB(MUL(y, SUB(NUMBER(1), FN("Reciprocal"))), FN("BesselK0e")))
SLOPE(bessel_j0, false, dfi_op(b, "Neg", FN("BesselJ1")))
SLOPE(bessel_j1, true, at_zero(b, x, NUMBER(0.5), SUB(FN("BesselJ0"), DIV(y, x))))
SLOPE(bessel_y0, false, dfi_op(b, "Neg", FN("BesselY1")))
SLOPE(bessel_y1, true, SUB(FN("BesselY0"), DIV(y, x)))
SLOPE(dawsn, true, SUB(NUMBER(1), MUL(NUMBER(2), MUL(x, y))))
SLOPE(expint, false, DIV(FN("Exp"), x))
SLOPE(fresnel_cos, false, dfi_op(b, "Cos", MUL(NUMBER(M_PI_2), FN("Square"))))
SLOPE(fresnel_sin, false, dfi_op(b, "Sin", MUL(NUMBER(M_PI_2), FN("Square"))))
SLOPE(spence, false, dfi_op(b, "Neg", at_zero(b, SUB(x, NUMBER(1)), NUMBER(1), DIV(FN("Log"), SUB(x, NUMBER(1))))))

static int32_t grad_gamma(dfi_grad *g, df_node *n, const df_output *dy, df_output *dx, const char *sign) {
  dfi_build *b = dfg_build(g);
  const df_output a = dfg_in(g, n, 0), x = dfg_in(g, n, 1), dz = dfi_op(b, sign, dy[0]);
  if (dfg_wants(g, n, 0)) dx[0] = dfg_unbroadcast(g, n, 0, MUL(dz, dfi_op(b, "IgammaGradA", a, x)));
  if (!dfg_wants(g, n, 1)) return dfg_end(g);
  const df_output power = MUL(SUB(a, dfi_const_like(b, a, 1)), FN("Log"));
  dx[1] = dfg_unbroadcast(g, n, 1,
                          MUL(dz, dfi_op(b, "Exp", SUB(SUB(power, x), dfi_op(b, "Lgamma", a)))));
  return dfg_end(g);
}
GRAD(igamma)  { return grad_gamma(g, n, dy, dx, "Identity"); }
GRAD(igammac) { return grad_gamma(g, n, dy, dx, "Neg"); }

/* By x alone, as TensorFlow's, which takes that by a and b for zero. */
GRAD(betainc) {
  dfi_build *b = dfg_build(g);
  if (dfg_unknown(g, n, 0, 2)) return dfg_end(g);
  const df_output p = dfg_in(g, n, 0), q = dfg_in(g, n, 1), x = dfg_in(g, n, 2), one = NUMBER(1);
  const df_output powers = ADD(MUL(SUB(q, one), dfi_op(b, "Log1p", dfi_op(b, "Neg", x))), MUL(SUB(p, one), FN("Log")));
  const df_output norm = SUB(ADD(dfi_op(b, "Lgamma", p), dfi_op(b, "Lgamma", q)), dfi_op(b, "Lgamma", ADD(p, q)));
  dx[2] = dfg_unbroadcast(g, n, 2, MUL(dy[0], dfi_op(b, "Exp", SUB(powers, norm))));
  return dfg_end(g);
}

static int32_t shape_betainc(dfi_infer *c) {
  dfi_shape all = *dfi_in_shape(c, 0);
  char one[160], other[160];
  for (int32_t i = 1; i < 3; i++) {
    const dfi_shape *s = dfi_in_shape(c, i);
    if (all.rank < 0 || s->rank < 0) { all.rank = -1; return DF_OK; }
    if (s->rank == 0) continue;
    if (all.rank && !dfi_shape_merge(&all, s, &all))
      return dfi_infer_fail(c, "inputs are %s and %s: expected one shape, or single numbers",
                            dfi_shape_text(&all, one), dfi_shape_text(s, other));
    if (!all.rank) all = *s;
  }
  *dfi_set_shape(c, 0) = all;
  return DF_OK;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static double cost(const df_kernel *k) { return 30 + 100 * (double)k->in[0]->size; }

#define OF_X(TYPE, NAME, WHAT, EXAMPLE, OUTPUT, SEE, DERIVATIVE, DOMAIN) \
  { .type = TYPE, .lua = #NAME, .in = "x:T", .out = "y:T", .types = "T=float", .shape = dfi_shape_same, \
    .doc = "T[...] = " #NAME "(x T[...]): " WHAT, .example = "df." #NAME "({" EXAMPLE "})", .output = OUTPUT, \
    .see = SEE, .derivative = "x = " DERIVATIVE, .domain = DOMAIN, .grad = grad_##NAME, .cost = cost, \
    .kernel = { [DF_REF] = ref_##NAME } }
#define OF_TWO(TYPE, NAME, WHAT, OUTPUT, SEE, DERIVATIVE) \
  { .type = TYPE, .lua = #NAME, .in = "a:T x:T", .out = "z:T", .types = "T=float", .shape = dfi_shape_binary, \
    .doc = "T[...] = " #NAME "(a T[...], x T[...]): " WHAT, .example = "df." #NAME "({1.0, 2.0}, 1.0)", \
    .output = OUTPUT, .see = SEE, .derivative = DERIVATIVE, .grad = grad_##NAME, .cost = cost, \
    .kernel = { [DF_REF] = ref_##NAME } }

static const df_op ops[] = {
  OF_TWO("Igamma", igamma, "the share of the integral of t^(a-1) exp(-t) that lies below x",
         "[0.6321 0.2642] float32[2]", "igammac lgamma",
         "by x dy times x^(a-1) exp(-x) / gamma(a), by a that of each term of its series"),
  OF_TWO("Igammac", igammac, "the share of the integral of t^(a-1) exp(-t) that lies above x",
         "[0.3679 0.7358] float32[2]", "igamma lgamma",
         "that of igamma, with the other sign"),
  { .type = "IgammaGradA", .in = "a:T x:T", .out = "z:T", .types = "T=float", .shape = dfi_shape_binary,
    .doc = "the derivative of igamma by a", .cost = cost, .kernel = { [DF_REF] = ref_igamma_grad_a } },
  { .type = "Betainc", .lua = "betainc", .in = "a:T b:T x:T", .out = "z:T", .types = "T=float", .shape = shape_betainc,
    .doc = "T[...] = betainc(a T[...], b T[...], x T[...]): the share of the integral of t^(a-1) (1-t)^(b-1) from 0 to "
           "1 that lies below x; the gradient by a and b is not known",
    .example = "df.betainc(2.0, 3.0, {0.25, 0.5})", .output = "[0.2617 0.6875] float32[2]", .see = "igamma lgamma",
    .derivative = "by x dy times x^(a-1) (1-x)^(b-1) gamma(a+b) / (gamma(a) gamma(b)), that by a and b is an error",
    .grad = grad_betainc, .cost = cost, .kernel = { [DF_REF] = ref_betainc } },
  OF_X("BesselI0", bessel_i0, "the modified Bessel function of the first kind, of order 0", "0.0, 1.0",
       "[1.0000 1.2661] float32[2]", "bessel_i0e bessel_i1", "dy * bessel_i1(x)", "-2 2"),
  OF_X("BesselI1", bessel_i1, "the modified Bessel function of the first kind, of order 1", "0.0, 1.0",
       "[0.0000 0.5652] float32[2]", "bessel_i1e bessel_i0", "dy * (bessel_i0(x) - y / x)", "0.5 2"),
  OF_X("BesselI0e", bessel_i0e, "bessel_i0(x) exp(-|x|)", "0.0, 1.0", "[1.0000 0.4658] float32[2]", "bessel_i0",
       "dy * (bessel_i1e(x) - sign(x) * y)", "0.5 2"),
  OF_X("BesselI1e", bessel_i1e, "bessel_i1(x) exp(-|x|)", "0.0, 1.0", "[0.0000 0.2079] float32[2]", "bessel_i1",
       "dy * (bessel_i0e(x) - y * (sign(x) + 1 / x))", "0.5 2"),
  OF_X("BesselK0", bessel_k0, "the modified Bessel function of the second kind, of order 0; infinite up to 0", "1.0",
       "[0.421] float32[1]", "bessel_k0e bessel_k1", "-dy * bessel_k1(x)", "0.5 3"),
  OF_X("BesselK1", bessel_k1, "the modified Bessel function of the second kind, of order 1; infinite up to 0", "1.0",
       "[0.6019] float32[1]", "bessel_k1e bessel_k0", "-dy * (bessel_k0(x) + y / x)", "0.5 3"),
  OF_X("BesselK0e", bessel_k0e, "bessel_k0(x) exp(x)", "1.0", "[1.1445] float32[1]", "bessel_k0",
       "dy * (y - bessel_k1e(x))", "0.5 3"),
  OF_X("BesselK1e", bessel_k1e, "bessel_k1(x) exp(x)", "1.0", "[1.6362] float32[1]", "bessel_k1",
       "dy * (y * (1 - 1 / x) - bessel_k0e(x))", "0.5 3"),
  OF_X("BesselJ0", bessel_j0, "the Bessel function of the first kind, of order 0", "0.0, 1.0",
       "[1.0000 0.7652] float32[2]", "bessel_j1 bessel_y0", "-dy * bessel_j1(x)", "-3 3"),
  OF_X("BesselJ1", bessel_j1, "the Bessel function of the first kind, of order 1", "0.0, 1.0",
       "[0.0000 0.4401] float32[2]", "bessel_j0 bessel_y1", "dy * (bessel_j0(x) - y / x)", "0.5 3"),
  OF_X("BesselY0", bessel_y0, "the Bessel function of the second kind, of order 0; -infinite up to 0", "1.0",
       "[0.0883] float32[1]", "bessel_y1 bessel_j0", "-dy * bessel_y1(x)", "0.5 3"),
  OF_X("BesselY1", bessel_y1, "the Bessel function of the second kind, of order 1; -infinite up to 0", "1.0",
       "[-0.7812] float32[1]", "bessel_y0 bessel_j1", "dy * (bessel_y0(x) - y / x)", "0.5 3"),
  OF_X("Dawsn", dawsn, "exp(-x^2) times the integral of exp(t^2) from 0 to x", "0.0, 1.0",
       "[0.0000 0.5381] float32[2]", "erf", "dy * (1 - 2 * x * y)", "-2 2"),
  OF_X("Expint", expint, "the exponential integral Ei, of exp(t) / t up to x; NaN below 0", "1.0",
       "[1.8951] float32[1]", "exp igamma", "dy * exp(x) / x", "0.5 3"),
  OF_X("FresnelCos", fresnel_cos, "the integral of cos(pi t^2 / 2) from 0 to x", "0.0, 1.0",
       "[0.0000 0.7799] float32[2]", "fresnel_sin", "dy * cos(1.5707963267948966 * x^2)", "-2 2"),
  OF_X("FresnelSin", fresnel_sin, "the integral of sin(pi t^2 / 2) from 0 to x", "0.0, 1.0",
       "[0.0000 0.4383] float32[2]", "fresnel_cos", "dy * sin(1.5707963267948966 * x^2)", "-2 2"),
  OF_X("Spence", spence, "the integral of log(t) / (1 - t) from 1 to x; NaN below 0", "0.0, 1.0, 2.0",
       "[ 1.6449  0.0000 -0.8225] float32[3]", "log", "dy * log(x) / (1 - x)", "1.5 4"),
};
const dfi_op_table dfi_ops_integrals = { ops, sizeof ops / sizeof *ops };
