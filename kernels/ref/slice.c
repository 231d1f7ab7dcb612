/* slice.c: reference kernels that take or place parts of an array: slices, tiles, pads, reversals, rolls.
 *
 * Each walks an index space in row-major order and computes, element by element, where the other side of the copy lies.
 */
#include "../array.h"
#include "../move.h"
#include "../update.h"

/* out[at] = x[from(at)] for every index of out; `from` is computed by an expression over d and at[d]. */
#define GATHER_EACH(k, out, x, FROM)                                                                 \
  do {                                                                                               \
    int64_t at[DF_MAX_RANK] = { 0 }, source[DF_MAX_RANK];                                            \
    for (int64_t o = 0; o < (out)->size; o++) {                                                      \
      for (int32_t d = 0; d < (out)->rank; d++) source[d] = (FROM);                                  \
      if (!dfk_copy(k, out, o, x, dfk_position((out)->rank, (x)->dims, source), 1)) return (k)->error->code; \
      dfk_next((out)->rank, (out)->dims, at);                                                        \
    }                                                                                                \
  } while (0)

int32_t ref_slice(df_kernel *k) {
  int64_t begin[DF_MAX_RANK];
  df_tensor *out = dfk_slice_begin(k, begin);
  if (!out) return k->error->code;
  GATHER_EACH(k, out, k->in[0], begin[d] + at[d]);
  return DF_OK;
}

int32_t ref_strided_slice(df_kernel *k) {
  const df_tensor *x = k->in[0];
  dfk_slice s;
  df_tensor *out = dfk_strided_slice_begin(k, &s);
  if (!out) return k->error->code;
  int64_t at[DF_MAX_RANK] = { 0 }, from[DF_MAX_RANK]; /* over the input's dims: new axes and dropped ones are all 1 */
  for (int64_t o = 0; o < out->size; o++) {
    for (int32_t d = 0; d < x->rank; d++) from[d] = s.begin[d] + at[d] * s.stride[d];
    if (!dfk_copy(k, out, o, x, dfk_position(x->rank, x->dims, from), 1)) return k->error->code;
    dfk_next(x->rank, s.size, at);
  }
  return DF_OK;
}

int32_t ref_strided_slice_grad(df_kernel *k) {
  const df_tensor *dy = k->in[4];
  dfk_slice s;
  df_tensor *out = dfk_strided_slice_grad_begin(k, &s);
  if (!out) return k->error->code;
  int64_t at[DF_MAX_RANK] = { 0 }, to[DF_MAX_RANK];
  for (int64_t i = 0; i < dy->size; i++) {
    for (int32_t d = 0; d < out->rank; d++) to[d] = s.begin[d] + at[d] * s.stride[d];
    if (!dfk_copy(k, out, dfk_position(out->rank, out->dims, to), dy, i, 1)) return k->error->code;
    dfk_next(out->rank, s.size, at);
  }
  return DF_OK;
}

int32_t ref_tile(df_kernel *k) {
  int64_t times[DF_MAX_RANK];
  df_tensor *out = dfk_tile_begin(k, times);
  if (!out) return k->error->code;
  const df_tensor *x = k->in[0];
  GATHER_EACH(k, out, x, at[d] % x->dims[d]);
  return DF_OK;
}

int32_t ref_pad(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int64_t before[DF_MAX_RANK], at[DF_MAX_RANK] = { 0 }, from[DF_MAX_RANK];
  df_tensor *out = dfk_pad_begin(k, before);
  if (!out) return k->error->code;
  if (k->nin == 2) dfk_clear(out);
  for (int64_t o = 0; o < out->size; o++) {
    bool inside = true;
    for (int32_t d = 0; d < x->rank; d++) {
      from[d] = at[d] - before[d];
      inside = inside && from[d] >= 0 && from[d] < x->dims[d];
    }
    bool ok = inside      ? dfk_copy(k, out, o, x, dfk_position(x->rank, x->dims, from), 1)
            : k->nin == 2 ? true
                          : dfk_copy(k, out, o, k->in[2], 0, 1);
    if (!ok) return k->error->code;
    dfk_next(out->rank, out->dims, at);
  }
  return DF_OK;
}

/* ---- mirrors ------------------------------------------------------------------------------------ */
int32_t ref_mirror_pad(df_kernel *k) {
  const df_tensor *x = k->in[0];
  int64_t before[DF_MAX_RANK];
  int32_t edge;
  df_tensor *out = dfk_mirror_pad_begin(k, before, &edge);
  if (!out) return k->error->code;
  GATHER_EACH(k, out, x, dfk_mirrored(at[d], before[d], x->dims[d], edge));
  return DF_OK;
}

/* Every padded element adds to the one that it mirrored. */
int32_t ref_mirror_pad_grad(df_kernel *k) {
  const df_tensor *dy = k->in[0];
  int64_t before[DF_MAX_RANK], at[DF_MAX_RANK] = { 0 }, to[DF_MAX_RANK], width = dfk_width(dy->dtype);
  int32_t edge;
  df_tensor *out = dfk_mirror_pad_grad_begin(k, before, &edge);
  if (!out) return k->error->code;
  dfk_clear(out);
  for (int64_t i = 0; i < dy->size; i++) {
    for (int32_t d = 0; d < dy->rank; d++) to[d] = dfk_mirrored(at[d], before[d], out->dims[d], edge);
    char *target = (char *)out->data + dfk_position(dy->rank, out->dims, to) * width;
    dfk_update(DFK_ADD, dy->dtype, 1, target, target, (const char *)dy->data + i * width, false);
    dfk_next(dy->rank, dy->dims, at);
  }
  return DF_OK;
}

/* ---- reversals, rolls, broadcasts ------------------------------------------------------------------ */
int32_t ref_reverse(df_kernel *k) {
  uint32_t axes;
  df_tensor *out = dfk_reverse_begin(k, &axes);
  if (!out) return k->error->code;
  GATHER_EACH(k, out, k->in[0], axes >> d & 1 ? out->dims[d] - 1 - at[d] : at[d]);
  return DF_OK;
}

int32_t ref_reverse_sequence(df_kernel *k) {
  const df_tensor *x = k->in[0], *lengths = k->in[1];
  int32_t seq, batch;
  df_tensor *out = dfk_reverse_sequence_begin(k, &seq, &batch);
  if (!out) return k->error->code;
  int32_t rank = (seq > batch ? seq : batch) + 1; /* what lies inside moves as a row */
  int64_t at[DF_MAX_RANK] = { 0 }, from[DF_MAX_RANK], row = dfk_span(x->dims, rank, x->rank),
          rows = dfk_span(x->dims, 0, rank);
  for (int64_t o = 0; o < rows; o++) {
    int64_t n = dfk_index(lengths, at[batch]);
    memcpy(from, at, sizeof from);
    if (at[seq] < n) from[seq] = n - 1 - at[seq];
    if (!dfk_copy(k, out, o * row, x, dfk_position(rank, x->dims, from) * row, row)) return k->error->code;
    dfk_next(rank, x->dims, at);
  }
  return DF_OK;
}

int32_t ref_roll(df_kernel *k) {
  int64_t shift[DF_MAX_RANK];
  df_tensor *out = dfk_roll_begin(k, shift);
  if (!out) return k->error->code;
  GATHER_EACH(k, out, k->in[0], (at[d] - shift[d] + out->dims[d]) % out->dims[d]);
  return DF_OK;
}

int32_t ref_broadcast_to(df_kernel *k) {
  int64_t strides[DF_MAX_RANK], at[DF_MAX_RANK] = { 0 };
  df_tensor *out = dfk_broadcast_to_begin(k, strides);
  if (!out) return k->error->code;
  for (int64_t o = 0; o < out->size; o++) {
    int64_t from = 0;
    for (int32_t d = 0; d < out->rank; d++) from += at[d] * strides[d];
    if (!dfk_copy(k, out, o, k->in[0], from, 1)) return k->error->code;
    dfk_next(out->rank, out->dims, at);
  }
  return DF_OK;
}
