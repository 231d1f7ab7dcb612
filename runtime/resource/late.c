/* late.c: see late.h. All that is here happens on the run's owner thread. */
#include "resource/late.h"
#include "kernels/linalg.h"
#include "kernels/update.h"

/* a' b, of equally many rows; b NULL: a itself, which is as large as the sum; a whole numbers: b's rows, at the places
   that a names (negative: nowhere). Both owned. */
typedef struct term { df_tensor *a, *b; } term;

struct dfi_late {
  dfi_handle base;
  uint8_t    dtype;
  int32_t    n, capacity;
  int64_t    dims[2], bytes;     /* bytes: that the terms hold */
  term      *term;               /* n; owned; none: zeros */
};

enum { LEAST_GAIN = 8, MOST_ROWS = 1024, SMALL_BYTES = 1 << 15, ROOM_BYTES = 4 << 20 };

static int64_t bytes_of(const df_tensor *t) { return t ? t->size * dfi_dtype_size[t->dtype] : 0; }
static int64_t matrix_bytes(const dfi_late *l) { return l->dims[0] * l->dims[1] * dfi_dtype_size[l->dtype]; }

static void drop_terms(dfi_late *l) {
  for (int32_t i = 0; i < l->n; i++) {
    df_tensor_release(l->term[i].a);
    df_tensor_release(l->term[i].b);
  }
  l->n = 0;
  l->bytes = 0;
}

static void destroy(dfi_handle *h) {
  dfi_late *l = (dfi_late *)h;
  drop_terms(l);
  dfi_free(l->term);
  dfi_free(l);
}

static dfi_late *late_new(uint8_t dtype, int64_t rows, int64_t columns) {
  dfi_late *l = dfi_xcalloc(1, sizeof *l);
  l->base = (dfi_handle){ .refs = 1, .type = DFI_LATE_SUM, .destroy = destroy };
  l->dtype = dtype;
  l->dims[0] = rows;
  l->dims[1] = columns;
  return l;
}

/* A sum has the dtype of its matrix, which no other handle has: those need not be looked at, and are often far away. */
dfi_late *dfi_late_of(const df_value *v) {
  if (v->kind != DF_HANDLE || (v->dtype != DF_FLOAT32 && v->dtype != DF_FLOAT64)) return NULL;
  dfi_late *l = (dfi_late *)v->as.handle;
  return l->base.type == DFI_LATE_SUM ? l : NULL;
}

/* a and b are consumed. */
static void append(dfi_late *l, df_tensor *a, df_tensor *b) {
  if (l->n == l->capacity) {
    l->capacity = l->capacity ? l->capacity * 2 : 2;
    l->term = dfi_xrealloc(l->term, sizeof *l->term * (size_t)l->capacity);
  }
  l->term[l->n++] = (term){ a, b };
  l->bytes += bytes_of(a) + bytes_of(b);
}

static void give(df_kernel *k, dfi_late *l) {
  k->out[0] = (df_value){ .kind = DF_HANDLE, .dtype = l->dtype, .as.handle = &l->base };
}

bool dfi_late_product(df_kernel *k) {
  const df_tensor *a = k->in[0], *b = k->in[1];
  if (!dfk_bool(k, 0) || dfk_bool(k, 1) || !a || !b || a->rank != 2 || b->rank != 2 || a->dims[0] != b->dims[0])
    return false;
  if (a->dtype != DF_FLOAT32 && a->dtype != DF_FLOAT64) return false;
  dfi_late *l = late_new(a->dtype, a->dims[1], b->dims[1]);
  if (matrix_bytes(l) < SMALL_BYTES || (a->size + b->size) * LEAST_GAIN > l->dims[0] * l->dims[1]) {
    dfi_handle_release(l);
    return false;
  }
  append(l, df_tensor_retain((df_tensor *)a), df_tensor_retain((df_tensor *)b));
  give(k, l);
  return true;
}

bool dfi_late_segments(df_kernel *k) {
  const df_tensor *rows = k->in[0], *at = k->in[1], *n = k->in[2];
  if (!rows || !at || !n || n->rank || at->rank > 1 || rows->rank != at->rank + 1) return false;
  if (at->rank && at->dims[0] != rows->dims[0]) return false;
  if (rows->dtype != DF_FLOAT32 && rows->dtype != DF_FLOAT64) return false;
  const int64_t all = dfk_index(n, 0), columns = rows->dims[at->rank];
  if (all <= 0 || all > INT32_MAX || columns <= 0 || columns > INT32_MAX) return false;
  if (all * columns * dfi_dtype_size[rows->dtype] < SMALL_BYTES) return false;
  if (rows->size * LEAST_GAIN > all * columns) return false;
  for (int64_t i = 0; i < at->size; i++) if (dfk_index(at, i) >= all) return false;
  dfi_late *l = late_new(rows->dtype, all, columns);
  append(l, df_tensor_retain((df_tensor *)at), df_tensor_retain((df_tensor *)rows));
  give(k, l);
  return true;
}

bool dfi_late_fill(df_kernel *k) {
  const df_tensor *dims = k->in[0], *v = k->in[1];
  if (!dims || !v || dims->size != 2 || v->rank) return false;
  if (v->dtype == DF_FLOAT32 ? *(const float *)v->data != 0
                             : v->dtype != DF_FLOAT64 || *(const double *)v->data != 0) return false;
  const int64_t rows = dfk_index(dims, 0), columns = dfk_index(dims, 1);
  if (rows <= 0 || columns <= 0 || rows > INT32_MAX || columns > INT32_MAX) return false;
  if (rows * columns * dfi_dtype_size[v->dtype] < SMALL_BYTES) return false;
  give(k, late_new(v->dtype, rows, columns));
  return true;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* All inputs are of one dtype and shape, and one of them is late: that. */
static dfi_late *late_among(const df_kernel *k) {
  dfi_late *l = NULL;
  for (int32_t i = 0; i < k->nin && !l; i++) l = dfi_late_of(k->raw[i]);
  for (int32_t i = 0; i < k->nin && l; i++) {
    const dfi_late *other = dfi_late_of(k->raw[i]);
    const df_tensor *t = k->in[i];
    if (other ? other->dtype != l->dtype || other->dims[0] != l->dims[0] || other->dims[1] != l->dims[1]
              : !t || t->dtype != l->dtype || t->rank != 2 || t->dims[0] != l->dims[0] || t->dims[1] != l->dims[1])
      return NULL;
  }
  return l;
}

/* The terms of `from` come behind those of l; they are taken over where they have no other reader. */
static void append_all(dfi_late *l, dfi_late *from, bool take) {
  for (int32_t i = 0; i < from->n; i++) {
    const term t = from->term[i];
    append(l, take ? t.a : df_tensor_retain(t.a), take ? t.b : t.b ? df_tensor_retain(t.b) : NULL);
  }
  if (take) from->n = 0;
}

static bool is_last(const df_kernel *k, int32_t i, const dfi_late *l) {
  return i < 32 && k->reusable >> i & 1 && __atomic_load_n(&l->base.refs, __ATOMIC_ACQUIRE) == 1;
}

bool dfi_late_add(df_kernel *k) {
  const dfi_late *like = late_among(k);
  if (!like) return false;
  dfi_late *first = dfi_late_of(k->raw[0]), *l;
  const bool goes_on = first && is_last(k, 0, first);
  if (goes_on) l = dfi_handle_retain(first);
  else l = late_new(like->dtype, like->dims[0], like->dims[1]);
  for (int32_t i = goes_on; i < k->nin; i++) {
    dfi_late *other = dfi_late_of(k->raw[i]);
    if (other) append_all(l, other, is_last(k, i, other));
    else append(l, df_tensor_retain((df_tensor *)k->in[i]), NULL);
  }
  if (l->bytes > 2 * matrix_bytes(l) + ROOM_BYTES) {
    df_tensor *t = dfi_late_compute(l, k);
    if (!t) { dfi_handle_release(l); return false; }   /* computed one by one it finds no memory either */
    df_tensor_release(t);
  }
  give(k, l);
  return true;
}

/* ---- what they come to ------------------------------------------------------------------------------------------- */

/* a's, or b's, of the terms from `first` on, `rows` of them all in all, one behind the other. */
static void stack(const dfi_late *l, int32_t first, int64_t rows, bool of_b, df_tensor *to) {
  char *at = to->data;
  for (int32_t i = first; rows > 0; i++) {
    const df_tensor *t = of_b ? l->term[i].b : l->term[i].a;
    memcpy(at, t->data, (size_t)bytes_of(t));
    at += bytes_of(t);
    rows -= t->dims[0];
  }
}

/* sum += the product of the terms [first, end), which have so many rows. */
static int32_t add_products(const dfi_late *l, df_kernel *k, int32_t first, int64_t rows, df_tensor *sum, bool adds) {
  df_tensor *a = dfi_tensor_make(l->dtype, 2, (const int64_t[]){ rows, l->dims[0] });
  df_tensor *b = dfi_tensor_make(l->dtype, 2, (const int64_t[]){ rows, l->dims[1] });
  df_tensor *c = adds ? dfi_tensor_make(l->dtype, 2, l->dims) : df_tensor_retain(sum);
  int32_t code = a && b && c ? DF_OK : dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for a sum of products");
  if (!code) {
    stack(l, first, rows, false, a);
    stack(l, first, rows, true, b);
    code = dfk_matmul_to(k, a, b, true, false, c);
  }
  if (!code && adds) dfk_update(DFK_ADD, l->dtype, sum->size, sum->data, sum->data, c->data, false);
  df_tensor_release(a); df_tensor_release(b); df_tensor_release(c);
  return code;
}

static bool is_product(const dfi_late *l, int32_t i) { return l->term[i].b && l->term[i].a->dtype == l->dtype; }

static void add_rows(const dfi_late *l, const term *t, df_tensor *sum) {
  const int64_t bytes = l->dims[1] * dfi_dtype_size[l->dtype];
  for (int64_t i = 0; i < t->a->size; i++) {
    const int64_t at = dfk_index(t->a, i);
    char *row = (char *)sum->data + at * bytes;
    if (at >= 0) dfk_update(DFK_ADD, l->dtype, l->dims[1], row, row, (const char *)t->b->data + i * bytes, false);
  }
}

static int32_t add_terms(const dfi_late *l, df_kernel *k, df_tensor *sum) {
  bool adds = false;
  int32_t code = DF_OK;
  for (int32_t i = 0; i < l->n && !code;) {
    const term *t = &l->term[i];
    if (t->b && !is_product(l, i)) {
      if (!adds) memset(sum->data, 0, (size_t)bytes_of(sum));
      add_rows(l, t, sum);
      i++;
    } else if (!t->b) {
      if (adds) dfk_update(DFK_ADD, l->dtype, sum->size, sum->data, sum->data, t->a->data, false);
      else memcpy(sum->data, t->a->data, (size_t)bytes_of(sum));
      i++;
    } else {
      const int32_t first = i;
      int64_t rows = 0;
      for (; i < l->n && is_product(l, i) && (!rows || rows + l->term[i].a->dims[0] <= MOST_ROWS); i++)
        rows += l->term[i].a->dims[0];
      code = add_products(l, k, first, rows, sum, adds);
    }
    adds = true;
  }
  if (!adds) memset(sum->data, 0, (size_t)bytes_of(sum));
  return code;
}

df_tensor *dfi_late_compute(dfi_late *l, df_kernel *k) {
  if (l->n == 1 && !l->term[0].b) return df_tensor_retain(l->term[0].a);
  df_tensor *sum = dfi_tensor_make(l->dtype, 2, l->dims);
  if (!sum) { dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for a sum of products"); return NULL; }
  if (add_terms(l, k, sum)) { df_tensor_release(sum); return NULL; }
  drop_terms(l);
  append(l, df_tensor_retain(sum), NULL);
  return sum;
}
