/* write_op.c: arithmetic on numbers, or on several elements at once, as kernels/cpu/elements.h has it for each dtype,
 * bit for bit; the polynomials are in write_math.c. What is rare is called: the function that the token engine would
 * call.
 */
#include "engine/native/write_term.h"
#include "kernels/elementwise.h"
#include <stdio.h>


/* One instruction on two operands of one dtype. */
static const struct { chooser op; const char *on_floats, *on_ints; } instruction[] = {
  { scalar_add, "fadd", "add" }, { scalar_sub, "fsub", "sub" }, { scalar_mul, "fmul", "mul" },
    { scalar_real_div, "fdiv", NULL },
  { scalar_bitwise_and, NULL, "and" }, { scalar_bitwise_or, NULL, "or" }, { scalar_bitwise_xor, NULL, "xor" },
};
static const struct { chooser op; const char *on_floats, *on_ints; } comparison[] = {
  { scalar_less, "fcmp olt", "icmp slt" }, { scalar_less_equal, "fcmp ole", "icmp sle" }, { scalar_greater, "fcmp ogt",
    "icmp sgt" },
  { scalar_greater_equal, "fcmp oge", "icmp sge" }, { scalar_equal, "fcmp oeq", "icmp eq" },
    { scalar_not_equal, "fcmp une", "icmp ne" },
};
static const struct { chooser op; const char *name; } intrinsic[] = {
  { scalar_sqrt, "sqrt" }, { scalar_floor, "floor" }, { scalar_ceil, "ceil" }, { scalar_rint, "rint" },
};
#define EACH(table, k) for (size_t k = 0; k < sizeof table / sizeof *table; k++)

/* ---- integers divide --------------------------------------------------------------------------------- */

/* By 0: the kernel reports it. By -1: the quotient is 0 - x, which wraps, and nothing remains. */
static dfi_name divide(const op *o, int32_t loop, dfi_name x, dfi_name y, bool floors, bool remainder) {
  if (*y.s == '%' || !strcmp(y.s, "0")) dfi_write_fail(o->w, loop, two(o, "icmp eq", y, plain(o, "0")));
  const dfi_name minus = two(o, "icmp eq", y, plain(o, "-1"));
  dfi_name one = minus;
  if (o->w->burst) one = bits(o, "or", minus, two(o, "icmp eq", y, plain(o, "0")));      /* what fails goes on */
  const dfi_name by = pick(o, one, plain(o, "1"), y);
  const dfi_name q = two(o, "sdiv", x, by), r = two(o, "srem", x, by);
  dfi_name adjust = { "" };
  if (floors) {
    const dfi_name unlike = two(o, "xor", r, by);
    adjust = bits(o, "and", two(o, "icmp ne", r, plain(o, "0")), two(o, "icmp slt", unlike, plain(o, "0")));
  }
  if (remainder) {
    const dfi_name up = floors ? pick(o, adjust, two(o, "add", r, by), r) : r;
    return pick(o, minus, plain(o, "0"), up);
  }
  dfi_name down = q;
  if (floors) down = pick(o, adjust, two(o, "sub", q, plain(o, "1")), q);
  return pick(o, minus, two(o, "sub", plain(o, "0"), x), down);
}

/* ---- casts ------------------------------------------------------------------------------------------------ */

static const char *range(uint8_t to, bool most) {      /* the first float outside, as the bits of a double */
  switch (to) {
    case DF_INT8:  return most ? "128.0" : "-128.0";
    case DF_UINT8: return most ? "256.0" : "-1.0";
    case DF_INT32: return most ? "0x41E0000000000000" : "0xC1E0000000000000";
    default:       return most ? "0x43E0000000000000" : "0xC3E0000000000000";
  }
}
static const char *limit(uint8_t to, bool most) {
  switch (to) {
    case DF_INT8:  return most ? "127" : "-128";
    case DF_UINT8: return most ? "-1" : "0";
    case DF_INT32: return most ? "2147483647" : "-2147483648";
    default:       return most ? "9223372036854775807" : "-9223372036854775808";
  }
}
static bool casts(uint8_t t) {
  return is_float(t) || t == DF_INT8 || t == DF_UINT8 || t == DF_INT32 || t == DF_INT64 || t == DF_BOOL;
}

static dfi_name cast(dfi_writer *w, dfi_name x, uint8_t from, uint8_t to) {
  const char *f = dfi_lanes(w, from), *t = dfi_lanes(w, to);
  const bool from_unsigned = from == DF_UINT8 || from == DF_BOOL;
  const dfi_name r = dfi_temp(w);
  if (from == to) return x;
  if (to == DF_BOOL) {
    const bool floats = is_float(from);
    SAY(w, "  %s = %s %s %s, %s\n", r.s, floats ? "fcmp une" : "icmp ne", f, x.s,
        literal(w, dfi_type(from), floats ? "0.0" : "0").s);
    return byte(w, r);
  }
  if (is_float(from) && is_float(to))
    SAY(w, "  %s = %s %s %s to %s\n", r.s, to == DF_FLOAT64 ? "fpext" : "fptrunc", f, x.s, t);
  else if (is_float(to)) SAY(w, "  %s = %s %s %s to %s\n", r.s, from_unsigned ? "uitofp" : "sitofp", f, x.s, t);
  else if (!is_float(from)) {
    const int32_t a = dfi_dtype_size[from], b = dfi_dtype_size[to];
    if (a == b) return x;
    SAY(w, "  %s = %s %s %s to %s\n", r.s, a > b ? "trunc" : from_unsigned ? "zext" : "sext", f, x.s, t);
  } else {
    const op o = { w, f, from, true }, i = { w, t, to, false };
    const dfi_name inside = bits(&o, "and", two(&o, "fcmp ogt", x, plain(&o, range(to, false))),
                                 two(&o, "fcmp olt", x, plain(&o, range(to, true))));
    const dfi_name safe = pick(&o, inside, x, plain(&o, "0.0"));
    SAY(w, "  %s = %s %s %s to %s\n", r.s, to == DF_UINT8 ? "fptoui" : "fptosi", f, safe.s, t);
    const dfi_name above = pick(&i, two(&o, "fcmp oge", x, plain(&o, range(to, true))), plain(&i, limit(to, true)), r);
    return pick(&i, two(&o, "fcmp ole", x, plain(&o, range(to, false))), plain(&i, limit(to, false)), above);
  }
  return r;
}

/* ---- ops ----------------------------------------------------------------------------------------------------- */

dfi_name dfi_write_called(dfi_writer *w, int32_t loop, const dfi_pnode *p, const dfi_name *in, const uint8_t *dtype) {
  w->calls = true;
  if (w->lanes) return (dfi_name){ "" };            /* a caller that asks for several does without */
  for (uint32_t k = 0; k < 3; k++) {
    const uint32_t from = k < p->nin ? k : 0;
    SAY(w, "  store %s %s, ptr %%x%u.as\n", dfi_type(dtype[from]), in[from].s, k + 1);
  }
  const dfi_name good = dfi_temp(w), bad = dfi_temp(w), r = dfi_temp(w);
  const dfi_name fn = dfi_write_address(w, (const void *)p->scalar);
  SAY(w, "  %s = call zeroext i1 %s(ptr %%x0, ptr %%x1, ptr %%x2, ptr %%x3)\n  %s = xor i1 %s, true\n", good.s, fn.s,
      bad.s, good.s);
  dfi_write_fail(w, loop, bad);
  SAY(w, "  %s = load %s, ptr %%x0.as\n", r.s, dfi_type(p->out_dtypes[0]));
  return r;
}

/* What is written out for floats. False: nothing was written. */
static bool on_floats(const op *o, chooser f, const dfi_name *in, dfi_name *r) {
  const dfi_name x = in[0], y = in[1], zero = plain(o, "0.0");
  EACH(intrinsic, k) if (intrinsic[k].op == f) { *r = call(o, intrinsic[k].name, x); return true; }
  if (f == scalar_round) *r = call(o, "rint", x);
  else if (f == scalar_abs) *r = call(o, "fabs", x);
  else if (f == scalar_neg) { *r = dfi_temp(o->w); SAY(o->w, "  %s = fneg %s %s\n", r->s, o->type, x.s); }
  else if (f == scalar_reciprocal) *r = two(o, "fdiv", number(o, 1), x);
  else if (f == scalar_rsqrt) *r = two(o, "fdiv", number(o, 1), call(o, "sqrt", x));
  else if (f == scalar_square) *r = two(o, "fmul", x, x);
  else if (f == scalar_div) *r = two(o, "fdiv", x, y);
  else if (f == scalar_floor_div) *r = call(o, "floor", two(o, "fdiv", x, y));
  else if (f == scalar_truncate_div) *r = call(o, "trunc", two(o, "fdiv", x, y));
  else if (f == scalar_squared_difference) { const dfi_name d = two(o, "fsub", x, y); *r = two(o, "fmul", d, d); }
  else if (f == scalar_maximum || f == scalar_minimum)
    *r = pick(o, bits(o, "or", two(o, f == scalar_maximum ? "fcmp oge" : "fcmp ole", x, y), two(o, "fcmp uno", x, x)),
              x, y);
  else if (f == scalar_relu) *r = pick(o, two(o, "fcmp ole", x, zero), zero, x);
  else if (f == scalar_relu_grad) *r = pick(o, two(o, "fcmp ogt", y, zero), x, zero);
  else if (f == scalar_tanh_grad) {
    const dfi_name less = two(o, "fsub", number(o, 1), x), more = two(o, "fadd", number(o, 1), x);
    *r = two(o, "fmul", y, two(o, "fmul", less, more));
  } else if (f == scalar_sigmoid_grad) {
    const dfi_name yx = two(o, "fmul", y, x);
    *r = two(o, "fmul", yx, two(o, "fsub", number(o, 1), x));
  } else return o->dtype == DF_FLOAT32 && dfi_write_math(o, f, x, r);
  return true;
}

static bool on_ints(const op *o, int32_t loop, chooser f, const dfi_name *in, dfi_name *r) {
  const bool divides = f == scalar_floor_div || f == scalar_floor_mod || f == scalar_truncate_div || f == scalar_div ||
                       f == scalar_truncate_mod;
  if (divides && o->w->lanes) return false;         /* each divisor would have to be looked at */
  const dfi_name x = in[0], y = in[1], zero = plain(o, "0");
  if (f == scalar_neg) *r = two(o, "sub", zero, x);
  else if (f == scalar_abs) *r = pick(o, two(o, "icmp slt", x, zero), two(o, "sub", zero, x), x);
  else if (f == scalar_square) *r = two(o, "mul", x, x);
  else if (f == scalar_invert) *r = two(o, "xor", x, plain(o, "-1"));
  else if (f == scalar_maximum || f == scalar_minimum)
    *r = pick(o, two(o, f == scalar_maximum ? "icmp sge" : "icmp sle", x, y), x, y);
  else if (f == scalar_floor_div) *r = divide(o, loop, x, y, true, false);
  else if (f == scalar_floor_mod) *r = divide(o, loop, x, y, true, true);
  else if (f == scalar_truncate_div || f == scalar_div) *r = divide(o, loop, x, y, false, false);
  else if (f == scalar_truncate_mod) *r = divide(o, loop, x, y, false, true);
  else return false;
  return true;
}

static bool on_bools(const op *o, chooser f, const dfi_name *in, dfi_name *r) {
  const char *what = f == scalar_logical_and                            ? "and"
                     : f == scalar_logical_or                           ? "or"
                     : f == scalar_logical_xor || f == scalar_not_equal ? "xor"
                                                                        : NULL;
  if (f == scalar_logical_not || f == scalar_equal) {
    const dfi_name a = condition(o->w, in[0]);
    const dfi_name b = f == scalar_equal ? condition(o->w, in[1]) : literal(o->w, "i1", "false");
    *r = byte(o->w, bits(o, "icmp eq", a, b));
    return true;
  }
  if (!what) return false;
  const dfi_name a = condition(o->w, in[0]), b = condition(o->w, in[1]);
  *r = byte(o->w, bits(o, what, a, b));
  return true;
}

/* Values that are passed on. */
bool dfi_is_identity(const dfi_pnode *p) {
  static _Atomic(df_scalar_fn) identity;
  if (!identity) identity = dfi_op_find("Identity")->op->scalar((uint8_t[]){ DF_INT32 }, DF_INT32);
  return p->scalar == identity;
}

dfi_name dfi_write_op(dfi_writer *w, int32_t loop, const dfi_pnode *p, const dfi_name *in, const uint8_t *dtype) {
  const chooser f = p->op->scalar;
  char type[32];
  snprintf(type, sizeof type, "%s", dfi_lanes(w, dtype[0]));
  const op o = { w, type, dtype[0], is_float(dtype[0]) };
  const bool ints = dtype[0] == DF_INT32 || dtype[0] == DF_INT64;
  dfi_name r;
  if (dfi_is_identity(p)) return in[0];
  if (f == scalar_cast && casts(dtype[0]) && casts(p->out_dtypes[0])) return cast(w, in[0], dtype[0], p->out_dtypes[0]);
  if (f == scalar_select || f == scalar_select_v2) {
    const op chosen = { w, dfi_lanes(w, dtype[1]), dtype[1], is_float(dtype[1]) };
    return pick(&chosen, condition(w, in[0]), in[1], in[2]);
  }
  if (dtype[0] == DF_BOOL && on_bools(&o, f, in, &r)) return r;
  if (!o.floats && !ints) return dfi_write_called(w, loop, p, in, dtype);
  EACH(instruction, k) {
    const char *what = o.floats ? instruction[k].on_floats : instruction[k].on_ints;
    if (instruction[k].op == f && what) return two(&o, what, in[0], in[1]);
  }
  EACH(comparison, k)
  if (comparison[k].op ==
      f) return byte(w, two(&o, o.floats ? comparison[k].on_floats : comparison[k].on_ints, in[0], in[1]));
  if (dfi_write_angle(&o, loop, p, f, in, dtype, &r)) return r;
  if (o.floats ? on_floats(&o, f, in, &r) : on_ints(&o, loop, f, in, &r)) return r;
  return dfi_write_called(w, loop, p, in, dtype);
}

dfi_name dfi_write_sum(dfi_writer *w, uint8_t dtype, dfi_name sum, dfi_name more) {
  const op o = { w, dfi_lanes(w, dtype), dtype, is_float(dtype) };
  return two(&o, o.floats ? "fadd" : "add", sum, more);
}

bool dfi_has_sum(uint8_t t) { return is_float(t) || t == DF_INT32 || t == DF_INT64; }

bool dfi_is_sum(const dfi_pnode *p) {
  const bool of_list = p->op->traits & DFO_ADDS && dfi_op_info_at(p->node->op)->in_list;     /* not Add: numbers */
  return of_list && p->kernel == p->op->kernel[DF_CPU] && p->nin && dfi_has_sum(p->out_dtypes[0]);
}

bool dfi_op_known(const dfi_pnode *p) { return p->kind == DFI_K_SCALAR || dfi_is_sum(p); }
