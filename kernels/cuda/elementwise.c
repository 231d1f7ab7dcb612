/* elementwise.c: launchers of the elementwise kernels. Operands of different shapes are joined to as few dims as they
 * have together; a number of the host's travels in the parameters. */
#include "plugin.h"
#include "../elementwise.h"
#include <string.h>

/* The dims of the result with neighbours joined, and the steps of each operand along them. */
typedef struct view { int32_t rank; const int64_t *dims; } view;

static void spread_of(dfc_spread *p, int32_t count, const view *v, int32_t rank, const int64_t *dims) {
  int64_t step[3][DF_MAX_RANK];
  for (int32_t o = 0; o < count; o++) {
    int64_t at = 1;
    for (int32_t d = rank - 1; d >= 0; d--) {
      const int32_t own = d - (rank - v[o].rank);
      const int64_t n = own >= 0 ? v[o].dims[own] : 1;
      step[o][d] = n == 1 ? 0 : at;
      at *= n;
    }
  }
  p->rank = 0;
  for (int32_t d = 0; d < rank; d++) {
    if (dims[d] == 1) continue;
    const int64_t last = p->rank - 1;
    bool joins = last >= 0;
    for (int32_t o = 0; o < count && joins; o++) joins = p->step[o][last] == step[o][d] * dims[d];
    if (joins) {
      p->dims[last] *= dims[d];
      for (int32_t o = 0; o < count; o++) p->step[o][last] = step[o][d];
    } else {
      p->dims[p->rank] = dims[d];
      for (int32_t o = 0; o < count; o++) p->step[o][p->rank] = step[o][d];
      p->rank++;
    }
  }
}

/* The shape of all operands together. False: error is filled. */
static bool broadcast(df_kernel *k, int32_t count, const view *v, int32_t *rank, int64_t *dims) {
  *rank = 0;
  for (int32_t i = 0; i < count; i++) if (v[i].rank > *rank) *rank = v[i].rank;
  for (int32_t d = 0; d < *rank; d++) dims[d] = 1;
  for (int32_t i = 0; i < count; i++)
    for (int32_t own = 0; own < v[i].rank; own++) {
      int64_t *n = &dims[*rank - v[i].rank + own];
      if (*n == 1) *n = v[i].dims[own];
      else if (v[i].dims[own] != 1 && v[i].dims[own] != *n) {
        dfk_no_broadcast(k);
        return false;
      }
    }
  return true;
}

/* z = f(operands); `name` is the kernel's. views NULL: the operands' own shapes. */
static int32_t spread(df_kernel *k, const char *name, int32_t count, int32_t dtype, double param, const view *views) {
  view own[3];
  int32_t rank;
  int64_t dims[DF_MAX_RANK];
  for (int32_t i = 0; i < count; i++) own[i] = views ? views[i] : (view){ k->in[i]->rank, k->in[i]->dims };
  if (!broadcast(k, count, own, &rank, dims)) return k->error->code;
  df_tensor *z = dfk_out_reuse(k, 0, DFK_ANY_INPUT, dtype, rank, dims);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_spread p;
  memset(&p, 0, sizeof p);
  p.n = z->size;
  p.param = param;
  spread_of(&p, count, own, rank, dims);
  for (int32_t i = 0; i < count; i++) p.in[i] = dfc_operand_of(&c, k->in[i]);
  p.z = dfc_write(&c, z);
  dfc_run(&c, name, p.n, &p);
  return dfc_end(&c);
}

static int32_t unary(df_kernel *k, const char *prefix, double param) {
  const df_tensor *x = k->in[0];
  df_tensor *z = dfk_out_reuse(k, 0, 0, k->out_dtype[0], x->rank, x->dims);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_unary p;
  memset(&p, 0, sizeof p);
  p.x = dfc_read(&c, x);
  p.z = dfc_write(&c, z);
  p.n = z->size;
  p.param = param;
  dfc_run(&c, dfc_name(prefix, x->dtype), p.n, &p);
  return dfc_end(&c);
}

int32_t dfc_map(df_kernel *k, const char *prefix, double param) { return unary(k, prefix, param); }
int32_t dfc_map_spread(df_kernel *k, const char *name, int32_t count, int32_t dtype, double param) {
  return spread(k, name, count, dtype, param, NULL);
}

static int32_t binary(df_kernel *k, const char *prefix, double param) {
  return spread(k, dfc_name(prefix, k->in[0]->dtype), 2, k->out_dtype[0], param, NULL);
}

#define X(type, kinds, fn, name) static int32_t run_##fn(df_kernel *k) { return unary(k, #fn, 0); }
#include "unary.inc"
#undef X
/* Equal and NotEqual: shapes that do not broadcast are not equal, unless that is to be an error. */
static int32_t compared(df_kernel *k, const char *prefix, double param) {
  const df_tensor *x = k->in[0], *y = k->in[1];
  bool fits = true;
  for (int32_t d = 1; d <= x->rank && d <= y->rank; d++) {
    const int64_t m = x->dims[x->rank - d], n = y->dims[y->rank - d];
    fits &= m == n || m == 1 || n == 1;
  }
  if (fits || dfk_bool(k, 0)) return binary(k, prefix, param);
  df_tensor *z = dfk_out(k, 0, DF_BOOL, 0, NULL);
  if (!z) return k->error->code;
  dfc_call c = dfc_begin(k);
  dfc_moving m;
  memset(&m, 0, sizeof m);
  m.n = 1;
  m.bits = prefix[0] == 'n';
  m.to = dfc_write(&c, z);
  dfc_run(&c, dfc_width_name("move", 1), 1, &m);
  return dfc_end(&c);
}

#define binary_FLOATS  binary
#define binary_NUMBERS binary
#define binary_RING    binary
#define binary_FIELD   binary
#define binary_INTS    binary
#define binary_BOOLS   binary
#define binary_TESTS   binary
#define binary_EQUALS  compared
#define X(type, kinds, fn, name) static int32_t run_##fn(df_kernel *k) { return binary_##kinds(k, #fn, 0); }
#include "binary.inc"
#undef X
static int32_t run_leaky_relu(df_kernel *k)      { return unary(k, "leaky_relu", (float)dfk_float(k, 0)); }
static int32_t run_leaky_relu_grad(df_kernel *k) { return binary(k, "leaky_relu_grad", (float)dfk_float(k, 0)); }

/* The operands have one shape, or they broadcast; bools come out. The tolerance is a float32 and counts as equal. */
static int32_t run_approximate_equal(df_kernel *k) {
  return spread(k, dfc_name("approximate_equal", k->in[0]->dtype), 2, DF_BOOL, (float)dfk_float(k, 0), NULL);
}

/* ---- three operands ---------------------------------------------------------------------------------------------- */

static bool same_dims(const df_tensor *a, const df_tensor *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]);
}

static int32_t run_select_v2(df_kernel *k) {
  return spread(k, dfc_width_name("select", df_dtype_bytes(k->in[1]->dtype)), 3, k->in[1]->dtype, 0, NULL);
}

/* The condition has the shape of the others, or is one element, or one for each row. */
static int32_t run_select(df_kernel *k) {
  const df_tensor *c = k->in[0], *a = k->in[1], *b = k->in[2];
  const bool rows = c->rank == 1 && a->rank > 1 && c->dims[0] == a->dims[0];
  char text[3][160];
  if (!same_dims(a, b) || !(c->rank == 0 || rows || same_dims(c, a)))
    return dfk_fail(k, DF_INVALID_ARGUMENT,
                    "condition %s does not choose between %s and %s: these must have one shape, and the "
                    "condition that shape, one element, or one for each row",
                    dfk_shape_text(c, text[0], sizeof text[0]), dfk_shape_text(a, text[1], sizeof text[1]),
                    dfk_shape_text(b, text[2], sizeof text[2]));
  const int64_t column[DF_MAX_RANK] = { c->rank ? c->dims[0] : 1, 1, 1, 1, 1, 1, 1, 1 };
  const view views[3] = { { a->rank, column }, { a->rank, a->dims }, { b->rank, b->dims } };
  return spread(k, dfc_width_name("select", df_dtype_bytes(a->dtype)), 3, a->dtype, 0, rows ? views : NULL);
}

static int32_t run_clip(df_kernel *k) {
  return spread(k, dfc_name("clip", k->in[0]->dtype), 3, k->in[0]->dtype, 0, NULL);
}

/* ---- casts, copies of a value ------------------------------------------------------------------------------------ */

/* To these nothing else has kernels. */
static const char *cast_name(int32_t to) {
  switch (to) {
    case DF_INT16:  return "k_cast_i16";
    case DF_UINT16: return "k_cast_u16";
    case DF_UINT32: return "k_cast_u32";
    case DF_UINT64: return "k_cast_u64";
    default:        return dfc_name("cast", to);
  }
}

static void cast_real(dfc_call *c, int32_t from, const void *x, int32_t to, void *z, int64_t n) {
  const dfc_cast p = { .x = x, .z = z, .n = n, .from = from };
  dfc_run(c, cast_name(to), n, &p);
}
/* Of a complex number the real part is taken; to one, by way of numbers of its parts' dtype. */
static void cast_complex(dfc_call *c, int32_t from, const void *x, int32_t to, void *z, int64_t n) {
  const int32_t part = (dfk_is_complex(from) ? from : to) == DF_COMPLEX64 ? DF_FLOAT32 : DF_FLOAT64;
  void *parts = dfk_is_complex(from) && dfk_is_complex(to) ? NULL : dfc_temporary(c, NULL, n * df_dtype_bytes(part));
  if (dfk_is_complex(from)) {
    const dfc_unary p = { .x = x, .z = parts ? parts : z, .n = n };
    dfc_run(c, dfc_name(parts ? "real" : "widen", from), n, &p);
    if (parts) cast_real(c, part, parts, to, z, n);
    return;
  }
  dfc_spread p = { .z = z, .n = n, .rank = 1, .dims = { n }, .step = { { 1 } } };
  cast_real(c, from, x, part, parts, n);
  p.in[0].at = parts;
  dfc_run(c, dfc_name("complex", part), n, &p);
}

static int32_t run_cast(df_kernel *k) {
  const df_tensor *x = k->in[0];
  const int32_t to = k->out_dtype[0];
  if (x->dtype == to) return dfk_out_forward(k, 0, 0, x->rank, NULL);
  df_tensor *z = dfk_out(k, 0, to, x->rank, x->dims);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  const void *from = dfc_read(&c, x);
  void *there = dfc_write(&c, z);
  if (dfk_is_complex(x->dtype) || dfk_is_complex(to)) cast_complex(&c, x->dtype, from, to, there, z->size);
  else cast_real(&c, x->dtype, from, to, there, z->size);
  return dfc_end(&c);
}

/* AddN: the first two, and then each of the others to their sum. */
static int32_t run_add_n(df_kernel *k) {
  const df_tensor *x = k->in[0];
  char a[160], b[160];
  for (int32_t i = 1; i < k->nin; i++)
    if (!same_dims(x, k->in[i]))
      return dfk_fail(k, DF_INVALID_ARGUMENT, "input %d is %s but input 0 is %s: they must have one shape", i,
                      dfk_shape_text(k->in[i], b, sizeof b), dfk_shape_text(x, a, sizeof a));
  if (k->nin == 1) return dfk_out_forward(k, 0, 0, x->rank, NULL);
  df_tensor *z = dfk_out(k, 0, x->dtype, x->rank, x->dims);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  for (int32_t i = 1; i < k->nin; i++) {
    dfc_updating p;
    memset(&p, 0, sizeof p);
    p.to = dfc_write(&c, z);
    p.a = i == 1 ? dfc_read(&c, x) : p.to;
    p.b = dfc_read(&c, k->in[i]);
    p.n = z->size;
    p.op = DFK_ADD;
    dfc_run(&c, dfc_name("update", x->dtype), p.n, &p);
    dfc_drop(&c);
  }
  return dfc_end(&c);
}

static bool takes_castable(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  const uint32_t rare = DFC_BIT(DF_INT16) | DFC_BIT(DF_UINT16) | DFC_BIT(DF_UINT32) | DFC_BIT(DF_UINT64);
  const uint32_t types = DFC_ALL_TYPES | DFC_COMPLEX | rare;
  return in[0] < 32 && out[0] < 32 && (types >> in[0] & 1) && (types >> out[0] & 1);
}
static bool takes_select(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return dfk_plain(in[1]) && in[1] != DF_RESOURCE;
}
static bool takes_ints(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[0] < 32 && (DFC_INTS >> in[0] & 1);
}
static bool takes_bools(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) { return in[0] == DF_BOOL; }
static bool takes_equals(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[0] < 32 && ((DFC_ALL_TYPES | DFC_COMPLEX) >> in[0] & 1);
}
static bool takes_wide_floats(int32_t nin, const uint8_t *in, int32_t nout,
    const uint8_t *out) {
  return in[0] == DF_FLOAT32 || in[0] == DF_FLOAT64;
}
#define takes_FLOATS  dfc_takes_floats
#define takes_NUMBERS dfc_takes_numbers
#define takes_RING    dfc_takes_ring
#define takes_FIELD   dfc_takes_field
#define takes_INTS    takes_ints
#define takes_BOOLS   takes_bools
#define takes_EQUALS  takes_equals

static const dfi_gpu_kernel kernels[] = {
#define TAKES(kinds) takes_##kinds
#define X(type, kinds, fn, name) { .op = type, .run = run_##fn, .takes = TAKES(kinds) },
#define takes_TESTS dfc_takes_floats
#include "unary.inc"
#undef takes_TESTS
#define takes_TESTS dfc_takes_numbers
#include "binary.inc"
#undef X
  { .op = "Inv", .run = run_reciprocal, .takes = dfc_takes_field },
  { .op = "InvGrad", .run = run_reciprocal_grad, .takes = dfc_takes_field },
  { .op = "Add", .run = run_add, .takes = dfc_takes_ring },
  { .op = "Div", .run = run_real_div, .takes = dfc_takes_field },
  { .op = "Mod", .run = run_truncate_mod, .takes = dfc_takes_floats },
  { .op = "LeakyRelu", .run = run_leaky_relu, .takes = takes_wide_floats },
  { .op = "LeakyReluGrad", .run = run_leaky_relu_grad, .takes = takes_wide_floats },
  { .op = "ApproximateEqual", .run = run_approximate_equal, .takes = dfc_takes_ring },
  { .op = "Select", .run = run_select, .takes = takes_select },
  { .op = "SelectV2", .run = run_select_v2, .takes = takes_select },
  { .op = "ClipByValue", .run = run_clip, .takes = dfc_takes_numbers },
  { .op = "Cast", .run = run_cast, .takes = takes_castable },
  { .op = "AddN", .run = run_add_n, .takes = dfc_takes_ring },
  { .op = "AccumulateNV2", .run = run_add_n, .takes = dfc_takes_ring },
};
const dfc_table dfc_elementwise = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
