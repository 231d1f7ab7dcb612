/* write_math.c: exp, tanh, sigmoid, sin and cos of float32, by the operations of kernels/cpu/exponential.h and
 * trigonometric.h in their order, and so with the kernels' bits. Called, as other functions are, each takes a register
 * for one number through a function made for whole vectors.
 */
#include "engine/native/write_term.h"
#include "kernels/elementwise.h"
#include "kernels/polynomials.h"

/* A number of float32 as a literal: LLVM reads the bits of a double. */
static dfi_name real(const op *o, float v) {
  const double wide = v;
  uint64_t bits;
  char text[24];
  memcpy(&bits, &wide, sizeof bits);
  snprintf(text, sizeof text, "0x%016llX", (unsigned long long)bits);
  return plain(o, text);
}
static dfi_name add(const op *o, dfi_name a, dfi_name b) { return two(o, "fadd", a, b); }
static dfi_name sub(const op *o, dfi_name a, dfi_name b) { return two(o, "fsub", a, b); }
static dfi_name mul(const op *o, dfi_name a, dfi_name b) { return two(o, "fmul", a, b); }

/* a b + c, rounded once. */
static dfi_name fused(const op *o, dfi_name a, dfi_name b, dfi_name c) {
  const dfi_name r = dfi_temp(o->w);
  char suffix[16] = "f32", text[160];
  if (o->w->lanes) snprintf(suffix, sizeof suffix, "v%df32", o->w->lanes);
  snprintf(text, sizeof text, "declare %1$s @llvm.fma.%2$s(%1$s, %1$s, %1$s)", o->type, suffix);
  dfi_declare(o->w, text);
  SAY(o->w, "  %1$s = call %2$s @llvm.fma.%3$s(%2$s %4$s, %2$s %5$s, %2$s %6$s)\n", r.s, o->type, suffix, a.s, b.s,
      c.s);
  return r;
}
/* The n coefficients c, from the highest power of x on. */
static dfi_name polynomial(const op *o, dfi_name x, const float *c, int32_t n) {
  dfi_name q = fused(o, x, real(o, c[0]), real(o, c[1]));
  for (int32_t k = 2; k < n; k++) q = fused(o, q, x, real(o, c[k]));
  return q;
}
static dfi_name seen_as(dfi_writer *w, dfi_name x, uint8_t from, uint8_t to) {
  const dfi_name r = dfi_temp(w);
  SAY(w, "  %s = bitcast %s %s to %s\n", r.s, dfi_lanes(w, from), x.s, dfi_lanes(w, to));
  return r;
}
static dfi_name bits_of(const op *o, dfi_name x)   { return seen_as(o->w, x, DF_FLOAT32, DF_INT32); }
static dfi_name float_of(const op *o, dfi_name x)  { return seen_as(o->w, x, DF_INT32, DF_FLOAT32); }
/* 2^n. */
static dfi_name power(const op *o, const op *i, dfi_name n) {
  return float_of(o, two(i, "shl", two(i, "add", n, number(i, 127)), number(i, 23)));
}

static dfi_name exponential(const op *o, const op *i, dfi_name x) {
  static const float c[] = DFK_EXP;
  const dfi_name least = real(o, DFK_EXP_LEAST), most = real(o, DFK_EXP_MOST), whole = real(o, DFK_PERSISTENT);
  const dfi_name above = pick(o, two(o, "fcmp ogt", least, x), least, x);
  const dfi_name inside = pick(o, two(o, "fcmp olt", most, above), most, above);
  const dfi_name t = fused(o, inside, real(o, DFK_PER_LOG2), whole), n = sub(o, t, whole);
  const dfi_name high = fused(o, n, real(o, DFK_LOG2_HIGH), inside), r = fused(o, n, real(o, DFK_LOG2_LOW), high);
  const dfi_name q = polynomial(o, r, c, 5), p = add(o, fused(o, mul(o, r, r), q, r), number(o, 1));
  const dfi_name all = two(i, "sub", bits_of(o, t), number(i, DFK_PERSISTENT_BITS));
  const dfi_name half = two(i, "ashr", all, number(i, 1)), rest = two(i, "sub", all, half);
  return mul(o, mul(o, p, power(o, i, half)), power(o, i, rest));
}

static dfi_name with_sign_of(const op *o, const op *i, const char *how, dfi_name a, dfi_name x) {
  return float_of(o, two(i, how, bits_of(o, a), two(i, "and", bits_of(o, x), number(i, INT32_MIN))));
}

static dfi_name tangent(const op *o, const op *i, dfi_name x) {
  static const float c[] = DFK_TANH;
  const dfi_name z = mul(o, x, x), a = call(o, "fabs", x), p = polynomial(o, z, c, 5);
  const dfi_name e = add(o, exponential(o, i, add(o, a, a)), number(o, 1));
  const dfi_name far = sub(o, number(o, 1), two(o, "fdiv", number(o, 2), e));
  const dfi_name near = fused(o, mul(o, p, z), a, a);
  return with_sign_of(o, i, "or", pick(o, two(o, "fcmp olt", a, real(o, DFK_TANH_NEAR)), near, far), x);
}

bool dfi_write_math(const op *o, chooser f, dfi_name x, dfi_name *r) {
  char type[32];
  snprintf(type, sizeof type, "%s", dfi_lanes(o->w, DF_INT32));
  const op i = { o->w, type, DF_INT32, false };
  if (!dfk_polynomials()) return false;
  if (f == scalar_exp) *r = exponential(o, &i, x);
  else if (f == scalar_tanh) *r = tangent(o, &i, x);
  else if (f == scalar_sigmoid) {
    const dfi_name minus = dfi_temp(o->w);
    SAY(o->w, "  %s = fneg %s %s\n", minus.s, o->type, x.s);
    *r = two(o, "fdiv", number(o, 1), add(o, number(o, 1), exponential(o, &i, minus)));
  } else return false;
  return true;
}

/* ---- angles ------------------------------------------------------------------------------------------------------ */

/* What trigonometric.h calls the angle's parts, and the result's sign as 1 or -1. */
typedef struct angle { dfi_name r, l, z, odd, sign; } angle;

static angle angle_of(const op *o, const op *i, dfi_name x, dfi_name a, bool cosine) {
  const dfi_name whole = real(o, DFK_PERSISTENT), mid_part = real(o, DFK_TURN_MID);
  const dfi_name t = fused(o, a, real(o, DFK_PER_TURN), whole), n = sub(o, t, whole);
  const dfi_name quarter = two(i, "add", bits_of(o, t), number(i, cosine - DFK_PERSISTENT_BITS));
  const dfi_name high = fused(o, n, real(o, DFK_TURN_HIGH), a), mid = mul(o, n, mid_part), r = add(o, high, mid);
  const dfi_name missing = fused(o, n, mid_part, sub(o, real(o, 0), mid)), d = sub(o, r, high);
  const dfi_name l = add(o, sub(o, mid, d), fused(o, n, real(o, DFK_TURN_LOW), missing));
  dfi_name sign = two(i, "shl", two(i, "and", quarter, number(i, 2)), number(i, 30));
  if (!cosine) sign = two(i, "xor", sign, two(i, "and", bits_of(o, x), number(i, INT32_MIN)));
  return (angle){ r, l, mul(o, r, r), two(i, "icmp ne", two(i, "and", quarter, number(i, 1)), number(i, 0)),
                  float_of(o, two(i, "or", sign, bits_of(o, real(o, 1)))) };
}

/* Two summands of sin r or cos r. */
static void sine(const op *o, const angle *a, dfi_name *most, dfi_name *rest) {
  static const float c[] = DFK_SIN;
  *most = a->r;
  *rest = fused(o, mul(o, a->z, a->r), polynomial(o, a->z, c, 3), a->l);
}
static void cosine(const op *o, const angle *a, dfi_name *most, dfi_name *rest) {
  static const float c[] = DFK_COS;
  const dfi_name one = number(o, 1), half = mul(o, a->z, real(o, 0.5f)), w = sub(o, one, half);
  const dfi_name missing = sub(o, sub(o, one, w), half);
  *most = w;
  *rest = fused(o, sub(o, real(o, 0), a->r), a->l, fused(o, mul(o, a->z, a->z), polynomial(o, a->z, c, 3), missing));
}

/* The sign is multiplied into both summands, which is exact, before the last sum: so it costs no time. */
static dfi_name sum_of(const op *o, const angle *a, dfi_name most, dfi_name rest) {
  return fused(o, rest, a->sign, mul(o, most, a->sign));
}

/* A branch for each of the two: loops often stay in one, and then the other is not waited for. Its last label is
   `either`, and b. */
static dfi_name near_zero(const op *o, const op *i, int32_t b, dfi_name x, dfi_name a, bool turn) {
  const angle t = angle_of(o, i, x, a, turn);
  dfi_name most[2], rest[2];
  const dfi_name m = dfi_temp(o->w), n = dfi_temp(o->w);
  SAY(o->w, "  br i1 %s, label %%cosine%d, label %%sine%d\nsine%d:\n", t.odd.s, b, b, b);
  sine(o, &t, &most[0], &rest[0]);
  SAY(o->w, "  br label %%either%d\ncosine%d:\n", b, b);
  cosine(o, &t, &most[1], &rest[1]);
  SAY(o->w, "  br label %%either%d\neither%d:\n", b, b);
  SAY(o->w, "  %s = phi float [ %s, %%sine%d ], [ %s, %%cosine%d ]\n", m.s, most[0].s, b, most[1].s, b);
  SAY(o->w, "  %s = phi float [ %s, %%sine%d ], [ %s, %%cosine%d ]\n", n.s, rest[0].s, b, rest[1].s, b);
  return sum_of(o, &t, m, n);
}

/* What angle_of finds where no quarter of a turn is taken off (n is 0), and what near_zero makes of it: sixteen cycles
   less of a loop in which each angle waits for the one before. */
enum { SMALL_PER_1000 = 785 };
static dfi_name in_first_quarter(const op *o, const op *i, dfi_name x, dfi_name a, bool turn) {
  angle t = { .r = a, .l = plain(o, "0.0"), .z = mul(o, a, a), .sign = number(o, 1) };
  dfi_name most, rest;
  if (turn) cosine(o, &t, &most, &rest);
  else {
    t.sign = with_sign_of(o, i, "or", number(o, 1), x);
    sine(o, &t, &most, &rest);
  }
  return sum_of(o, &t, most, rest);
}

/* Of an angle that is not too large. Its last label is `angle`, and b. */
static dfi_name near_angle(const op *o, const op *i, int32_t b, dfi_name x, dfi_name a, bool turn) {
  dfi_writer *w = o->w;
  const dfi_name r = dfi_temp(w);
  if (w->burst && w->parallel) {                     /* the same for all: LLVM makes vectors of it */
    const dfi_name all = near_zero(o, i, b, x, a, turn);
    SAY(w, "  br label %%angle%d\nangle%d:\n", b, b);
    return all;
  }
  const dfi_name small = two(o, "fcmp ole", a, real(o, SMALL_PER_1000 / 1000.0f));
  SAY(w, "  br i1 %s, label %%small%d, label %%large%d\nlarge%d:\n", small.s, b, b, b);
  const dfi_name any = near_zero(o, i, b, x, a, turn);
  SAY(w, "  br label %%angle%d\nsmall%d:\n", b, b);
  const dfi_name first = in_first_quarter(o, i, x, a, turn);
  SAY(w, "  br label %%angle%d\nangle%d:\n", b, b);
  SAY(w, "  %s = phi float [ %s, %%either%d ], [ %s, %%small%d ]\n", r.s, any.s, b, first.s, b);
  return r;
}

bool dfi_write_angle(const op *o, int32_t loop, const dfi_pnode *p, chooser f, const dfi_name *in, const uint8_t *dtype,
                     dfi_name *r) {
  dfi_writer *w = o->w;
  const op i = { w, "i32", DF_INT32, false };
  if ((f != scalar_sin && f != scalar_cos) || o->dtype != DF_FLOAT32 || w->lanes || !dfk_polynomials()) return false;
  const int32_t b = w->nlabel++;
  const dfi_name a = call(o, "fabs", in[0]), within = two(o, "fcmp olt", a, real(o, DFK_ANGLE_MOST));
  if (w->burst) {                                    /* the kernel's function is for iterations one by one */
    const dfi_name far = dfi_temp(w);
    SAY(w, "  %s = xor i1 %s, true\n", far.s, within.s);
    dfi_write_fail(w, loop, far);
    *r = near_angle(o, &i, b, in[0], a, f == scalar_cos);
    return true;
  }
  SAY(w, "  br i1 %s, label %%near%d, label %%far%d, !prof !1\nnear%d:\n", within.s, b, b, b);
  const dfi_name near = near_angle(o, &i, b, in[0], a, f == scalar_cos);
  SAY(w, "  br label %%turned%d\nfar%d:\n", b, b);
  const dfi_name far = dfi_write_called(w, loop, p, in, dtype);
  *r = dfi_temp(w);
  SAY(w, "  br label %%back%d\nback%d:\n  br label %%turned%d\nturned%d:\n", b, b, b, b);
  SAY(w, "  %s = phi float [ %s, %%angle%d ], [ %s, %%back%d ]\n", r->s, near.s, b, far.s, b);
  return true;
}
