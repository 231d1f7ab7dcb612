/* array.c: the movers of the array family, fast. All but the joins and parts are one strided copy (dfk_move).
 *
 * A slice that is one run of memory (x[i], a range of rows) is one memcpy, found before anything else: recurrent
 * networks do little else with their input.
 */
#include "../array.h"
#include "../move.h"

int32_t cpu_transpose(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int32_t from[DF_MAX_RANK];
  int64_t own[DF_MAX_RANK];
  dfk_box box;
  df_tensor *out = dfk_transpose_begin(k, from);
  if (!out) return k->error->code;
  dfk_strides(x->rank, x->dims, own);
  dfk_strides(out->rank, out->dims, box.to);
  box.rank = x->rank;
  for (int32_t d = 0; d < x->rank; d++) {
    box.dims[d] = out->dims[d];
    box.from[d] = own[from[d]];
  }
  return dfk_move(k, out, 0, x, 0, &box) ? DF_OK : k->error->code;
}

/* ---- concat, split, pack, unpack: rows of the many beside rows of the one ----------------------------- */

enum { SHORT = 64 };       /* bytes of a row: of many shorter ones a call for each takes longer than dfk_move */

/* Copies `rows` rows of `row` elements, to_step and from_step elements apart. */
static bool copy_rows(df_kernel *k, df_tensor *to, int64_t to_at, int64_t to_step, const df_tensor *from,
                      int64_t from_at, int64_t from_step, int64_t rows, int64_t row) {
#ifndef DFK_DEVICE
  const int64_t width = dfk_width(to->dtype);
  if (rows * row <= 1 << 14 && dfk_plain(to->dtype) && (rows <= 4 || row * width >= SHORT)) {
    char *t = (char *)to->data + to_at * width;
    const char *f = (const char *)from->data + from_at * width;
    for (int64_t r = 0; r < rows; r++, t += to_step * width, f += from_step * width)
      dfk_copy_bytes(t, f, row * width);
    return true;
  }
#endif
  dfk_box box = { .rank = 2, .dims = { rows, row }, .to = { to_step, 1 }, .from = { from_step, 1 } };
  return dfk_move(k, to, to_at, from, from_at, &box);
}

int32_t cpu_concat(df_kernel *k) {
  int32_t axis;
  df_tensor *out = dfk_concat_begin(k, &axis);
  if (!out) return k->error->code;
  int64_t outer = dfk_span(out->dims, 0, axis), all = dfk_span(out->dims, axis, out->rank), at = 0;
  for (int32_t i = 0; i < k->nin - 1; i++) {
    int64_t row = dfk_span(k->in[i]->dims, axis, out->rank);
    if (!copy_rows(k, out, at, all, k->in[i], 0, row, outer, row)) return k->error->code;
    at += row;
  }
  return DF_OK;
}

#ifndef DFK_DEVICE
/* Elements of a and b by turns, as vectors. */
typedef struct turns { void *to; const void *a, *b; } turns;
#define DEFINE_BY_TURNS(T) \
  static void turns_##T(T *restrict to, const T *restrict a, const T *restrict b, int64_t n) { \
    for (int64_t i = 0; i < n; i++) { \
      to[2 * i] = a[i]; \
      to[2 * i + 1] = b[i]; \
    } \
  } \
  static void by_turns_##T(void *arg, int64_t from, int64_t end) { \
    const turns *t = arg; \
    turns_##T((T *)t->to + 2 * from, (const T *)t->a + from, (const T *)t->b + from, end - from); \
  }
DEFINE_BY_TURNS(uint32_t)
DEFINE_BY_TURNS(uint64_t)

/* False: they are none of 4 or 8 bytes. */
static bool pack_by_turns(df_kernel *k, df_tensor *out, const df_tensor *a, const df_tensor *b) {
  const int64_t width = dfk_plain(out->dtype) ? dfk_width(out->dtype) : 0;
  turns t = { out->data, a->data, b->data };
  if (width != 4 && width != 8) return false;
  dfk_parallel(k, a->size, 1 << 15, width == 4 ? by_turns_uint32_t : by_turns_uint64_t, &t);
  return true;
}
#endif

int32_t cpu_pack(df_kernel *k) {
  const df_tensor *a = k->in[0];
  int32_t axis;
  df_tensor *out = dfk_pack_begin(k, &axis);
  if (!out) return k->error->code;
  int64_t outer = dfk_span(a->dims, 0, axis), row = dfk_span(a->dims, axis, a->rank);
#ifndef DFK_DEVICE
  if (k->nin == 2 && row == 1 && pack_by_turns(k, out, a, k->in[1])) return DF_OK;
#endif
  for (int32_t i = 0; i < k->nin; i++)
    if (!copy_rows(k, out, i * row, k->nin * row, k->in[i], 0, row, outer, row)) return k->error->code;
  return DF_OK;
}

int32_t cpu_unpack(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int32_t axis;
  int64_t dims[DF_MAX_RANK];
  if (!dfk_unpack_begin(k, &axis, dims)) return k->error->code;
  int64_t outer = dfk_span(x->dims, 0, axis), row = dfk_span(x->dims, axis + 1, x->rank);
  for (int32_t i = 0; i < k->nout; i++) {
    if (outer == 1 && dfk_out_part(k, i, 0, i * row, x->rank - 1, dims)) continue;
    df_tensor *out = dfk_out(k, i, x->dtype, x->rank - 1, dims);
    if (!out || !copy_rows(k, out, 0, row, x, i * row, k->nout * row, outer, row)) return k->error->code;
  }
  return DF_OK;
}

/* Outputs i of sizes[i] along `axis`, in order. Frees sizes. */
static int32_t part(df_kernel *k, int32_t from, int32_t axis, int64_t *sizes) {
  const df_tensor *x = k->in[from];
  if (!sizes) return k->error->code;
  int64_t dims[DF_MAX_RANK], outer = dfk_span(x->dims, 0, axis), inner = dfk_span(x->dims, axis + 1, x->rank);
  int64_t all = x->dims[axis] * inner, at = 0;
  int32_t code = DF_OK;
  memcpy(dims, x->dims, sizeof dims);
  for (int32_t i = 0; i < k->nout && !code; i++) {
    dims[axis] = sizes[i];
    const int64_t row = sizes[i] * inner, first = at;
    at += row;
    if (outer == 1 && dfk_out_part(k, i, from, first, x->rank, dims)) continue;
    df_tensor *out = dfk_out(k, i, x->dtype, x->rank, dims);
    if (!out || !copy_rows(k, out, 0, row, x, first, all, outer, row)) code = k->error->code;
  }
  dfk_free(sizes);
  return code;
}
int32_t cpu_split(df_kernel *k) {
  int32_t axis;
  int64_t *sizes = dfk_split_begin(k, &axis);
  return part(k, 1, axis, sizes);
}
int32_t cpu_split_v(df_kernel *k) {
  int32_t axis;
  int64_t *sizes = dfk_split_v_begin(k, &axis);
  return part(k, 0, axis, sizes);
}

/* ---- slices ----------------------------------------------------------------------------------------- */
int32_t cpu_slice(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int64_t begin[DF_MAX_RANK];
  df_tensor *out = dfk_slice_begin(k, begin);
  if (!out) return k->error->code;
  dfk_box box = { .rank = x->rank };
  dfk_strides(x->rank, x->dims, box.from);
  dfk_strides(out->rank, out->dims, box.to);
  memcpy(box.dims, out->dims, sizeof out->dims);
  int64_t at = 0;
  for (int32_t d = 0; d < x->rank; d++) at += begin[d] * box.from[d];
  return dfk_move(k, out, 0, x, at, &box) ? DF_OK : k->error->code;
}

/* The one run of `part` elements of an array of `dims` that the slice is. -1: it is not one run. */
static int64_t one_run(const dfk_slice *s, int32_t rank, const int64_t *dims) {
  int64_t at = 0, stride = 1;
  bool whole = true; /* all dims further in are taken whole */
  for (int32_t d = rank - 1; d >= 0; d--) {
    if (s->size[d] != 1 && (!whole || s->stride[d] != 1)) return -1;
    whole = whole && s->size[d] == dims[d];
    at += s->begin[d] * stride;
    stride *= dims[d];
  }
  return at;
}

int32_t cpu_strided_slice(df_kernel *k) {
  const df_tensor *x = k->in[0];
  dfk_slice s;
  if (!dfk_strided_slice_read(k, &s)) return k->error->code;
  int64_t at = dfk_span(s.dims, 0, s.rank) ? one_run(&s, x->rank, x->dims) : -1;
  if (at >= 0 && dfk_out_part(k, 0, 0, at, s.rank, s.dims)) return DF_OK;
  df_tensor *out = dfk_out(k, 0, x->dtype, s.rank, s.dims);
  if (!out) return k->error->code;
  if (out->size == 0) return DF_OK;
  if (at >= 0 && out->size <= 1 << 16) return dfk_copy(k, out, 0, x, at, out->size) ? DF_OK : k->error->code;
  dfk_box box = { .rank = x->rank };
  dfk_strides(x->rank, x->dims, box.from);
  dfk_strides(x->rank, s.size, box.to);
  at = 0;
  for (int32_t d = 0; d < x->rank; d++) {
    box.dims[d] = s.size[d];
    at += s.begin[d] * box.from[d];
    box.from[d] *= s.stride[d];
  }
  return dfk_move(k, out, 0, x, at, &box) ? DF_OK : k->error->code;
}

int32_t cpu_strided_slice_grad(df_kernel *k) {
  const df_tensor *dy = k->in[4];
  dfk_slice s;
  df_tensor *out = dfk_strided_slice_grad_begin(k, &s);
  if (!out) return k->error->code;
  if (dy->size == 0) return DF_OK;
  dfk_box box = { .rank = out->rank };
  dfk_strides(out->rank, out->dims, box.to);
  dfk_strides(out->rank, s.size, box.from);
  int64_t at = 0;
  for (int32_t d = 0; d < out->rank; d++) {
    box.dims[d] = s.size[d];
    at += s.begin[d] * box.to[d];
    box.to[d] *= s.stride[d];
  }
  return dfk_move(k, out, at, dy, 0, &box) ? DF_OK : k->error->code;
}

/* ---- tiles, pads, reversals, rolls, broadcasts --------------------------------------------------------- */
int32_t cpu_tile(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int64_t times[DF_MAX_RANK], own[DF_MAX_RANK], to[DF_MAX_RANK];
  df_tensor *out = dfk_tile_begin(k, times);
  if (!out) return k->error->code;
  dfk_strides(x->rank, x->dims, own);
  dfk_strides(out->rank, out->dims, to);
  dfk_box box = { .rank = 2 * x->rank };
  for (int32_t d = 0; d < x->rank; d++) {
    box.dims[2 * d] = times[d];
    box.to[2 * d] = to[d] * x->dims[d];
    box.dims[2 * d + 1] = x->dims[d];
    box.to[2 * d + 1] = to[d];
    box.from[2 * d + 1] = own[d];
  }
  return dfk_move(k, out, 0, x, 0, &box) ? DF_OK : k->error->code;
}

int32_t cpu_pad(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int64_t before[DF_MAX_RANK], at = 0;
  df_tensor *out = dfk_pad_begin(k, before);
  if (!out) return k->error->code;
  dfk_box box = { .rank = x->rank };
  memcpy(box.dims, out->dims, sizeof out->dims);
  dfk_strides(x->rank, out->dims, box.to);
  if (k->nin == 2) dfk_clear(out);
  else if (!dfk_move(k, out, 0, k->in[2], 0, &box)) return k->error->code; /* all `from` strides are 0 */
  memcpy(box.dims, x->dims, sizeof x->dims);
  dfk_strides(x->rank, x->dims, box.from);
  for (int32_t d = 0; d < x->rank; d++) at += before[d] * box.to[d];
  return dfk_move(k, out, at, x, 0, &box) ? DF_OK : k->error->code;
}

int32_t cpu_reverse(df_kernel *k) {
  const df_tensor *x = k->in[0];
  uint32_t axes;
  int64_t at = 0;
  df_tensor *out = dfk_reverse_begin(k, &axes);
  if (!out) return k->error->code;
  if (x->size == 0) return DF_OK;
  dfk_box box = { .rank = x->rank };
  memcpy(box.dims, x->dims, sizeof x->dims);
  dfk_strides(x->rank, x->dims, box.to);
  dfk_strides(x->rank, x->dims, box.from);
  for (int32_t d = 0; d < x->rank; d++)
    if (axes >> d & 1) {
      at += (x->dims[d] - 1) * box.from[d];
      box.from[d] = -box.from[d];
    }
  return dfk_move(k, out, 0, x, at, &box) ? DF_OK : k->error->code;
}

/* Each rolled dim cuts the array in two; every combination of cuts is a box that moves as it is. */
int32_t cpu_roll(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int64_t shift[DF_MAX_RANK];
  df_tensor *out = dfk_roll_begin(k, shift);
  if (!out) return k->error->code;
  dfk_box box = { .rank = x->rank };
  dfk_strides(x->rank, x->dims, box.to);
  dfk_strides(x->rank, x->dims, box.from);
  for (uint32_t cut = 0; cut < 1u << x->rank; cut++) {
    int64_t to = 0, from = 0;
    bool empty = false;
    for (int32_t d = 0; d < x->rank; d++) {
      bool second = cut >> d & 1; /* the part that wraps around to the front */
      box.dims[d] = second ? shift[d] : x->dims[d] - shift[d];
      empty = empty || box.dims[d] == 0;
      if (second) from += (x->dims[d] - shift[d]) * box.from[d];
      else to += shift[d] * box.to[d];
    }
    if (!empty && !dfk_move(k, out, to, x, from, &box)) return k->error->code;
  }
  return DF_OK;
}

int32_t cpu_broadcast_to(df_kernel *k) {
  dfk_box box = { .rank = 0 };
  df_tensor *out = dfk_broadcast_to_begin(k, box.from);
  if (!out) return k->error->code;
  box.rank = out->rank;
  memcpy(box.dims, out->dims, sizeof out->dims);
  dfk_strides(out->rank, out->dims, box.to);
  return dfk_move(k, out, 0, k->in[0], 0, &box) ? DF_OK : k->error->code;
}

int32_t cpu_fill(df_kernel *k) {
  df_tensor *out = dfk_fill_begin(k);
  if (!out) return k->error->code;
  dfk_box box = { .rank = 1, .dims = { out->size }, .to = { 1 } };
  return dfk_move(k, out, 0, k->in[1], 0, &box) ? DF_OK : k->error->code;
}
