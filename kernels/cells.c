/* cells.c: how all versions of the fused recurrent cells begin: the sizes of a call, and what may be wrong. */
#include "lstm.h"

static bool must_be(df_kernel *k, int32_t i, const char *name, int32_t rank, const int64_t *dims) {
  const df_tensor *t = k->in[i];
  bool same = t->rank == rank;
  for (int32_t d = 0; same && d < rank; d++) same = t->dims[d] == dims[d];
  if (same) return true;
  char text[160];
  dfk_fail(k, DF_INVALID_ARGUMENT,
           rank == 1   ? "%s is %s: expected [%lld]"
           : rank == 2 ? "%s is %s: expected [%lld,%lld]"
                       : "%s is %s: expected [%lld,%lld,%lld]",
           name, dfk_shape_text(t, text, sizeof text), (long long)dims[0], (long long)(rank > 1 ? dims[1] : 0),
           (long long)(rank > 2 ? dims[2] : 0));
  return false;
}

bool dfk_all_must_be(df_kernel *k, int32_t first, int32_t last, int32_t rank, const int64_t *dims) {
  for (int32_t i = first; i <= last; i++) if (!must_be(k, i, "a gate or a gradient", rank, dims)) return false;
  return true;
}

/* x and cs_prev have their ranks, and the peepholes are vectors. */
static bool ranks_fit(df_kernel *k, int32_t x) {
  const df_tensor *t = k->in[x], *cs = k->in[x + 1];
  char text[160];
  const int32_t rank = x == 0 ? 2 : 3;                    /* one step, or all of them */
  if (cs->rank != 2 || t->rank != rank) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s: expected %s", cs->rank != 2 ? "cs_prev" : "x",
             dfk_shape_text(cs->rank != 2 ? cs : t, text, sizeof text),
             cs->rank != 2 ? "[batch, units]" : rank == 2 ? "[batch, inputs]" : "[time, batch, inputs]");
    return false;
  }
  if (rank == 2 && cs->size == 0) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "cs_prev is empty, it has the shape %s", dfk_shape_text(cs, text, sizeof text));
    return false;
  }
  static const char *const peephole[] = { "wci", "wcf", "wco" };
  for (int32_t i = 0; i < 3; i++) {
    const df_tensor *w = k->in[x + 4 + i];
    if (w->rank == 1) continue;
    dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s: expected [units]", peephole[i], dfk_shape_text(w, text, sizeof text));
    return false;
  }
  return true;
}

bool dfk_lstm_of(df_kernel *k, dfk_lstm *c, int32_t x, bool v2) {
  if (!ranks_fit(k, x)) return false;
  const df_tensor *t = k->in[x], *cs = k->in[x + 1];
  c->batch = t->dims[t->rank - 2];
  c->input = t->dims[t->rank - 1];
  c->units = cs->dims[1];
  c->ci = v2 ? 2 : 1;
  c->f = v2 ? 1 : 2;
  const int64_t state[] = { c->batch, c->units }, weights[] = { c->input + c->units, 4 * c->units },
                gate[] = { c->units }, bias[] = { 4 * c->units };
  return must_be(k, x + 1, "cs_prev", 2, state) && must_be(k, x + 2, "h_prev", 2, state) &&
         must_be(k, x + 3, "w", 2, weights) &&
         (!c->peephole || (must_be(k, x + 4, "wci", 1, gate) && must_be(k, x + 5, "wcf", 1, gate) &&
                           must_be(k, x + 6, "wco", 1, gate))) &&
         must_be(k, x + 7, "b", 1, bias);
}

bool dfk_lstm_steps(df_kernel *k, int64_t *steps) {
  char text[160];
  const df_tensor *x = k->in[1];
  if (!dfk_integer(k, 0, "seq_len_max", steps)) return false;
  if (x->rank != 3 || *steps < 0 || *steps > x->dims[0]) {
    dfk_fail(k, DF_INVALID_ARGUMENT,
             "seq_len_max is %lld for x %s: expected x [time, batch, inputs] and at most its time", (long long)*steps,
             dfk_shape_text(x, text, sizeof text));
    return false;
  }
  return true;
}

bool dfk_gru_of(df_kernel *k, dfk_gru *c) {
  const df_tensor *x = k->in[0], *h = k->in[1];
  char text[160];
  if (x->rank != 2 || h->rank != 2) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s: expected a matrix", x->rank != 2 ? "x" : "h_prev",
             dfk_shape_text(x->rank != 2 ? x : h, text, sizeof text));
    return false;
  }
  *c = (dfk_gru){ .batch = x->dims[0], .input = x->dims[1], .units = h->dims[1] };
  const int64_t row = c->input + c->units;
  return must_be(k, 1, "h_prev", 2, (int64_t[]){ c->batch, c->units }) &&
         must_be(k, 2, "w_ru", 2, (int64_t[]){ row, 2 * c->units }) &&
         must_be(k, 3, "w_c", 2, (int64_t[]){ row, c->units }) &&
         must_be(k, 4, "b_ru", 1, (int64_t[]){ 2 * c->units }) && must_be(k, 5, "b_c", 1, &c->units);
}
