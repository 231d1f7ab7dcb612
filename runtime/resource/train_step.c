/* train_step.c: an optimizer's step on a variable and its slots, fused.
 *
 * The variables of a step are locked together, in the order of their addresses, and nothing is written before
 * everything has been checked: a step happens wholly or not at all. Dense steps split over the workers; what each
 * element becomes does not depend on the split. A sparse step first sums the rows that name the same index, in
 * their order, and then changes each named row once; rows not named keep their values (Adam's slots and values
 * decay everywhere, as the dense step's do).
 */
#include "resource/train_step.h"
#include "base/remote_memory.h"
#include "kernels/train.h"
#include <math.h>

enum { GRAIN = 32768 };

int32_t dfi_step_lock(dfi_step *s, df_kernel *k, int32_t n) {
  *s = (dfi_step){ .k = k, .n = n };
  for (int32_t i = 0; i < n; i++)
    if (!(s->var[i] = dfi_variable_in(k, i))) return k->error->code;
  for (int32_t i = 0; i < n; i++)
    for (int32_t j = 0; j < i; j++)
      if (s->var[i] == s->var[j])
        return dfk_fail(k, DF_INVALID_ARGUMENT, "variable '%s' is given twice: a variable and its slots must differ",
                        s->var[i]->name);
  dfi_variable *order[DFI_STEP_VARS];
  for (int32_t i = 0; i < n; i++) {
    int32_t at = i;
    for (; at > 0 && (uintptr_t)order[at - 1] > (uintptr_t)s->var[i]; at--) order[at] = order[at - 1];
    order[at] = s->var[i];
  }
  for (int32_t i = 0; i < n; i++) dfi_variable_lock(order[i]);
  return DF_OK;
}

int32_t dfi_step_unlock(dfi_step *s, int32_t code) {
  for (int32_t i = 0; i < s->n; i++) dfi_variable_unlock(s->var[i]);
  return code;
}

/* The value lies where the step runs: a slot may have been kept elsewhere. A number is stepped on the host, as its
 * gradient is one without a tensor. */
static bool bring_here(dfi_variable *v) {
  df_value moved;
  if (v->value.kind != DF_TENSOR) return true;
  const df_tensor *t = v->value.as.tensor;
  dfi_devmem *to = t->rank ? dfi_devmem_here : dfi_readable(t) ? t->buffer->arena : NULL;
  if (t->buffer->arena == to) return true;
  if (!dfi_value_in(&v->value, to, &moved)) return false;
  dfi_value_drop(&v->value);
  v->value = moved;
  return true;
}

/* Makes all of them writable. They must agree in shape and have the dtype of the gradient. */
int32_t dfi_step_open(dfi_step *s, const df_value *grad) {
  char a[160], b[160];
  for (int32_t i = 0; i < s->n; i++) {
    dfi_variable *v = s->var[i];
    if (!bring_here(v)) return dfk_fail(s->k, DF_RESOURCE_EXHAUSTED, "out of memory for variable '%s'", v->name);
    if (!(s->data[i] = dfi_variable_writable(v, s->k->error))) return s->k->error->code;
    dfi_shape shape = dfi_value_shape(&v->value);
    if (i == 0) s->shape = shape;
    if (v->dtype != grad->dtype || !dfi_shape_equal(&shape, &s->shape))
      return dfk_fail(s->k, DF_INVALID_ARGUMENT, "variable '%s' holds %s but the step of variable '%s' needs %s",
                      v->name, dfi_typed_shape_text(v->dtype, &shape, a), s->var[0]->name,
                      dfi_typed_shape_text(grad->dtype, &s->shape, b));
  }
  return DF_OK;
}

int32_t dfi_step_dense(dfi_step *s, df_kernel *k, int32_t n, int32_t grad) {
  int32_t code = dfi_step_lock(s, k, n);
  if (code) return code;
  if ((code = dfi_step_open(s, k->raw[grad]))) return dfi_step_unlock(s, code);
  dfi_shape given = dfi_value_shape(k->raw[grad]);
  char a[160], b[160];
  if (!dfi_shape_equal(&given, &s->shape))
    return dfi_step_unlock(s, dfk_fail(k, DF_INVALID_ARGUMENT, "variable '%s' holds %s but its gradient is %s",
                                       s->var[0]->name, dfi_typed_shape_text(s->var[0]->dtype, &s->shape, a),
                                       dfi_typed_shape_text(k->raw[grad]->dtype, &given, b)));
  return DF_OK;
}

bool dfi_step_is_remote(const dfi_step *s) {
  const df_value *v = &s->var[0]->value;
  return v->kind == DF_TENSOR && !dfi_readable(v->as.tensor);
}

int32_t dfi_step_remote(dfi_step *s, const df_value *grad, dfi_remote_train *t) {
  df_tensor *first = s->var[0]->value.as.tensor;
  const dfi_remote *r = dfi_devmem_remote(first->buffer->arena);
  df_value g;
  if (!dfi_value_in(grad, first->buffer->arena, &g))
    return dfk_fail(s->k, DF_RESOURCE_EXHAUSTED, "out of memory for a step of variable '%s'", s->var[0]->name);
  t->dtype = first->dtype;
  t->vars = s->n;
  if (!t->rows && !t->columns) { t->rows = 1; t->columns = first->size; }
  for (int32_t i = 0; i < s->n; i++) {
    t->at[i] = s->data[i];
    t->note[i] = dfi_note_of(s->var[i]->value.as.tensor->buffer);
  }
  t->at[s->n] = g.as.tensor->data;
  t->note[s->n] = dfi_note_of(g.as.tensor->buffer);
  const bool ok = r->train(r->device, t);
  dfi_value_drop(&g);
  return ok ? DF_OK : dfk_fail(s->k, DF_UNAVAILABLE, "a step of variable '%s' failed", s->var[0]->name);
}

static double number(const df_kernel *k, int32_t i) { return df_tensor_get(k->in[i], 0); }

/* Inputs from … to are one number each; otherwise err is filled. */
static int32_t check_numbers(df_kernel *k, int32_t from, int32_t to) {
  char text[160];
  for (int32_t i = from; i <= to; i++)
    if (k->in[i]->rank != 0)
      return dfk_fail(k, DF_INVALID_ARGUMENT, "input %d is %s but must be a scalar", i,
                      dfk_shape_text(k->in[i], text, sizeof text));
  return DF_OK;
}

/* ---- dense ----------------------------------------------------------------------------------- */

typedef struct work {
  const dfi_step *s;
  int32_t     dtype;
  const char *grad;
  double      rate, momentum;
  bool        nesterov;
  dfk_adam    adam;
  int32_t     kind;                      /* DFI_STEP_ */
} work;

static void descent_part(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  int64_t at = begin * dfi_dtype_size[w->dtype];
  dfk_step_descent(w->dtype, end - begin, w->s->data[0] + at, w->grad + at, w->rate);
}
static void momentum_part(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  int64_t at = begin * dfi_dtype_size[w->dtype];
  dfk_step_momentum(w->dtype, end - begin, w->s->data[0] + at, w->s->data[1] + at, w->grad + at, w->rate, w->momentum,
                    w->nesterov);
}
static void adam_part(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  int64_t at = begin * dfi_dtype_size[w->dtype];
  dfk_step_adam(w->dtype, end - begin, w->s->data[0] + at, w->s->data[1] + at, w->s->data[2] + at, w->grad + at,
                &w->adam);
}

/* The same step where the host cannot read the variables. */
static int32_t remote_step(dfi_step *s, const work *w, const df_value *grad) {
  df_tensor *first = s->var[0]->value.as.tensor;
  const dfi_remote *r = dfi_devmem_remote(first->buffer->arena);
  df_value g;
  if (!dfi_value_in(grad, first->buffer->arena, &g))
    return dfk_fail(s->k, DF_RESOURCE_EXHAUSTED, "out of memory for a step of variable '%s'", s->var[0]->name);
  dfi_remote_step step = { .kind = w->kind, .dtype = w->dtype, .count = s->n + 1, .n = first->size, .rate = w->rate,
                           .momentum = w->momentum, .adam = w->adam, .nesterov = w->nesterov };
  for (int32_t i = 0; i < s->n; i++) {
    step.at[i] = s->data[i];
    step.note[i] = dfi_note_of(s->var[i]->value.as.tensor->buffer);
  }
  step.at[s->n] = g.as.tensor->data;
  step.note[s->n] = dfi_note_of(g.as.tensor->buffer);
  const bool ok = r->step(r->device, &step);
  dfi_value_drop(&g);
  return ok ? DF_OK : dfk_fail(s->k, DF_UNAVAILABLE, "a step of variable '%s' failed", s->var[0]->name);
}

static int32_t dense(df_kernel *k, int32_t n, int32_t grad, work *w, df_range_fn part) {
  dfi_step s;
  int32_t code = dfi_step_dense(&s, k, n, grad);
  if (code) return code;
  w->s = &s;
  w->dtype = k->in[grad]->dtype;
  const df_value *v = &s.var[0]->value;
  if (DFI_UNLIKELY(v->kind == DF_TENSOR && !dfi_readable(v->as.tensor)))
    return dfi_step_unlock(&s, remote_step(&s, w, k->raw[grad]));
  df_value here;
  if (!dfi_value_on_host(k->raw[grad], &here))
    return dfi_step_unlock(&s, dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for the gradient"));
  w->grad = dfi_value_data(&here);
  dfk_parallel(k, k->in[grad]->size, GRAIN, part, w);
  dfi_value_drop(&here);
  return dfi_step_unlock(&s, DF_OK);
}

/* var alpha delta */
int32_t dfi_kernel_descent(df_kernel *k) {
  if (check_numbers(k, 1, 1)) return DF_INVALID_ARGUMENT;
  work w = { .rate = number(k, 1), .kind = DFI_STEP_DESCENT };
  return dense(k, 1, 2, &w, descent_part);
}

/* var accum lr grad momentum; use_nesterov */
int32_t dfi_kernel_momentum(df_kernel *k) {
  if (check_numbers(k, 2, 2) || check_numbers(k, 4, 4)) return DF_INVALID_ARGUMENT;
  work w = { .rate = number(k, 2), .momentum = number(k, 4), .nesterov = dfk_bool(k, 0),
             .kind = DFI_STEP_MOMENTUM };
  return dense(k, 2, 3, &w, momentum_part);
}

/* var m v beta1_power beta2_power lr beta1 beta2 epsilon grad; use_nesterov */
static dfk_adam adam_options(const df_kernel *k) {
  return (dfk_adam){ .rate = number(k, 5) * sqrt(1 - number(k, 4)) / (1 - number(k, 3)), .beta1 = number(k, 6),
                     .beta2 = number(k, 7), .epsilon = number(k, 8), .nesterov = dfk_bool(k, 0) };
}
int32_t dfi_kernel_adam(df_kernel *k) {
  if (check_numbers(k, 3, 8)) return DF_INVALID_ARGUMENT;
  work w = { .adam = adam_options(k), .kind = DFI_STEP_ADAM };
  return dense(k, 3, 9, &w, adam_part);
}

/* ---- sparse ---------------------------------------------------------------------------------- */

/* Which rows of the variable the indices name, each once, in the order in which they come, and which of these each
 * index is. On the host also the sums of the gradient's rows. */
typedef struct rows {
  int64_t  n, row;             /* row: elements of one */
  int64_t *index, *which;      /* owned */
  char    *sum;                /* owned; n rows; NULL where the step is remote */
} rows;

static void rows_free(rows *r) {
  dfk_free(r->index);
  dfk_free(r->which);
  dfk_free(r->sum);
}

/* Finds the rows: a table of hashes, so the cost is that of the rows named, not of the variable. */
static int32_t find_rows(df_kernel *k, rows *r, const df_tensor *ix, int64_t top, const char *name) {
  int64_t places = 16;
  while (places < 2 * ix->size) places *= 2;
  int64_t *seen = dfk_scratch(k, places * (int64_t)sizeof *seen);    /* place among the rows + 1 */
  r->index = dfk_scratch(k, (ix->size + 1) * (int64_t)sizeof *r->index);
  r->which = dfk_scratch(k, (ix->size + 1) * (int64_t)sizeof *r->which);
  int32_t code = !r->index || !r->which || !seen ? k->error->code : DF_OK;
  if (!code) memset(seen, 0, (size_t)places * sizeof *seen);
  for (int64_t i = 0; !code && i < ix->size; i++) {
    const int64_t at = dfk_index(ix, i);
    int64_t place = (int64_t)((uint64_t)at * 0x9E3779B97F4A7C15u >> 32) & (places - 1);
    while (seen[place] && r->index[seen[place] - 1] != at) place = (place + 1) & (places - 1);
    if (at < 0 || at >= top) {
      code = dfk_fail(k, DF_INVALID_ARGUMENT, "indices[%lld] is %lld but variable '%s' has rows 0 to %lld",
                      (long long)i, (long long)at, name, (long long)top - 1);
    } else if (!seen[place]) {
      r->index[r->n] = at;
      seen[place] = ++r->n;
    }
    if (!code) r->which[i] = seen[place] - 1;
  }
  dfk_free(seen);
  return code;
}

/* The gradient's rows, summed by row of the variable, in their order. */
static int32_t sum_rows(df_kernel *k, rows *r, const df_value *grad, int64_t n) {
  const int32_t dtype = grad->dtype;
  const int64_t bytes = r->row * dfi_dtype_size[dtype];
  bool *begun = dfk_scratch(k, r->n + 1);
  df_value here = { 0 };
  r->sum = begun ? dfk_scratch(k, r->n * bytes + 1) : NULL;
  int32_t code = r->sum ? DF_OK : k->error->code;
  if (!code && !dfi_value_on_host(grad, &here))
    code = dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for the gradient");
  if (!code) memset(begun, 0, (size_t)r->n + 1);
  const char *data = code ? NULL : dfi_value_data(&here);
  for (int64_t i = 0; !code && i < n; i++) {
    char *sum = r->sum + r->which[i] * bytes;
    if (begun[r->which[i]]) dfk_update(DFK_ADD, dtype, r->row, sum, sum, data + i * bytes, false);
    else memcpy(sum, data + i * bytes, (size_t)bytes);
    begun[r->which[i]] = true;
  }
  dfi_value_drop(&here);
  dfk_free(begun);
  return code;
}

static int32_t open_sparse(dfi_step *s, rows *r, df_kernel *k, int32_t n, int32_t grad, int32_t indices) {
  *r = (rows){ 0 };
  int32_t code = dfi_step_lock(s, k, n);
  if (code) return code;
  if ((code = dfi_step_open(s, k->raw[grad]))) return dfi_step_unlock(s, code);
  const df_tensor *ix = k->in[indices], *g = k->in[grad];
  dfi_shape given = dfi_value_shape(k->raw[grad]), want = s->shape;
  char a[160], b[160];
  if (s->shape.rank > 0) want.dims[0] = ix->size;
  if (s->shape.rank == 0 || ix->rank != 1 || !dfi_shape_equal(&given, &want))
    return dfi_step_unlock(s, dfk_fail(k, DF_INVALID_ARGUMENT,
      "variable '%s' holds %s, so %lld indices need a gradient of %s; it is %s", s->var[0]->name,
      dfi_typed_shape_text(s->var[0]->dtype, &s->shape, a), (long long)ix->size,
      s->shape.rank ? "as many rows" : "a shape with rows", dfi_typed_shape_text(g->dtype, &given, b)));
  r->row = ix->size ? g->size / ix->size : 0;
  code = find_rows(k, r, ix, s->shape.dims[0], s->var[0]->name);
  if (!code && !dfi_step_is_remote(s)) code = sum_rows(k, r, k->raw[grad], ix->size);
  if (!code) return DF_OK;
  rows_free(r);
  return dfi_step_unlock(s, code);
}

/* The step where the variables lie: of the rows named, or (all) of every row, whose gradient may be no row at all. */
static int32_t remote_rows(dfi_step *s, rows *r, int32_t grad, int32_t indices, bool all, dfi_remote_train *t) {
  df_kernel *k = s->k;
  const int64_t n = k->in[indices]->size, count = all ? s->shape.dims[0] : r->n;
  int64_t *begin = dfk_scratch(k, (count + 2 + n) * (int64_t)sizeof *begin), *order = begin + count + 2;
  int32_t code = begin ? DF_OK : k->error->code;
  if (!code) {
    memset(begin, 0, (size_t)(count + 2) * sizeof *begin);
    for (int64_t i = 0; i < n; i++) begin[(all ? r->index[r->which[i]] : r->which[i]) + 2]++;
    for (int64_t i = 2; i <= count; i++) begin[i] += begin[i - 1];
    for (int64_t i = 0; i < n; i++) order[begin[(all ? r->index[r->which[i]] : r->which[i]) + 1]++] = i;
    t->rows = count;
    t->columns = count ? dfi_value_size(&s->var[0]->value) / s->shape.dims[0] : 0;
    t->row = all ? NULL : r->index;
    t->begin = begin;
    t->order = order;
    t->norder = n;
    if (t->rows && t->columns) code = dfi_step_remote(s, k->raw[grad], t);
  }
  dfk_free(begin);
  rows_free(r);
  return dfi_step_unlock(s, code);
}

/* var alpha grad indices */
int32_t dfi_kernel_sparse_descent(df_kernel *k) {
  dfi_step s;
  rows r;
  if (check_numbers(k, 1, 1)) return DF_INVALID_ARGUMENT;
  int32_t code = open_sparse(&s, &r, k, 1, 2, 3), dtype = k->in[2]->dtype;
  if (code) return code;
  if (dfi_step_is_remote(&s))
    return remote_rows(&s, &r, 2, 3, false, &(dfi_remote_train){ .rule = DFK_DESCENT, .number = { number(k, 1) } });
  int64_t bytes = r.row * dfi_dtype_size[dtype];
  for (int64_t i = 0; i < r.n; i++)
    dfk_step_descent(dtype, r.row, s.data[0] + r.index[i] * bytes, r.sum + i * bytes, number(k, 1));
  rows_free(&r);
  return dfi_step_unlock(&s, DF_OK);
}

/* var accum lr grad indices momentum; use_nesterov */
int32_t dfi_kernel_sparse_momentum(df_kernel *k) {
  dfi_step s;
  rows r;
  if (check_numbers(k, 2, 2) || check_numbers(k, 5, 5)) return DF_INVALID_ARGUMENT;
  int32_t code = open_sparse(&s, &r, k, 2, 3, 4), dtype = k->in[3]->dtype;
  if (code) return code;
  if (dfi_step_is_remote(&s))
    return remote_rows(&s, &r, 3, 4, false, &(dfi_remote_train){ .rule = DFK_MOMENTUM, .flag = dfk_bool(k, 0),
                                                                 .number = { number(k, 2), number(k, 5) } });
  int64_t bytes = r.row * dfi_dtype_size[dtype];
  for (int64_t i = 0; i < r.n; i++) {
    int64_t at = r.index[i] * bytes;
    dfk_step_momentum(dtype, r.row, s.data[0] + at, s.data[1] + at, r.sum + i * bytes, number(k, 2), number(k, 5),
                      dfk_bool(k, 0));
  }
  rows_free(&r);
  return dfi_step_unlock(&s, DF_OK);
}

/* var m v beta1_power beta2_power lr beta1 beta2 epsilon grad indices; use_nesterov. A row that is not named has
 * gradient zero, and its slots decay: the dense step on a gradient that is laid out in full. */
int32_t dfi_kernel_sparse_adam(df_kernel *k) {
  dfi_step s;
  rows r;
  if (check_numbers(k, 3, 8)) return DF_INVALID_ARGUMENT;
  int32_t code = open_sparse(&s, &r, k, 3, 9, 10), dtype = k->in[9]->dtype;
  if (code) return code;
  if (dfi_step_is_remote(&s)) {
    dfi_remote_train t = { .rule = DFK_ADAM, .flag = dfk_bool(k, 0) };
    for (int32_t i = 0; i < 6; i++) t.number[i] = number(k, 3 + i);
    return remote_rows(&s, &r, 9, 10, true, &t);
  }
  int64_t size = dfi_value_size(&s.var[0]->value), bytes = r.row * dfi_dtype_size[dtype];
  char *full = dfk_scratch(k, size * dfi_dtype_size[dtype] + 1);
  if (full) {
    memset(full, 0, (size_t)(size * dfi_dtype_size[dtype]));
    for (int64_t i = 0; i < r.n; i++) memcpy(full + r.index[i] * bytes, r.sum + i * bytes, (size_t)bytes);
    work w = { .s = &s, .dtype = dtype, .grad = full, .adam = adam_options(k) };
    dfk_parallel(k, size, GRAIN, adam_part, &w);
    dfk_free(full);
  }
  rows_free(&r);
  return dfi_step_unlock(&s, full ? DF_OK : k->error->code);
}
