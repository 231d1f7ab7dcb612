/* resize.c: pictures in other sizes: sums over taps (../resize.h). */
#include "../image.h"
#include "../move.h"
#include "../resize.h"
#include "element.h"

/* Rows begin to end of all pictures' new rows. */
static void resize_rows(void *arg, int64_t begin, int64_t limit) {
  const dfk_pictures *p = arg;
  const dfk_taps *rows = &p->rows, *columns = &p->columns;
  const bool whole = !ref_is_float(p->in->dtype);
  for (int64_t r = begin; r < limit; r++) {
    const int64_t y = r % rows->to, picture = r / rows->to * rows->from;
    for (int64_t x = 0; x < columns->to; x++)
      for (int64_t c = 0; c < p->depth; c++) {
        double sum = 0;
        for (int64_t i = rows->first[y]; i < rows->first[y + 1]; i++) {
          const int64_t row = (picture + rows->at[i]) * columns->from;
          double line = 0;
          for (int64_t j = columns->first[x]; j < columns->first[x + 1]; j++) {
            const int64_t at = (row + columns->at[j]) * p->depth + c;
            line += (double)columns->weight[j] * (whole ? (double)ref_get_int(p->in, at) : ref_get(p->in, at));
          }
          sum += (double)rows->weight[i] * line;
        }
        ref_put(p->out, (r * columns->to + x) * p->depth + c, sum);
      }
  }
}

static bool copy_nearest(df_kernel *k, const dfk_pictures *p) {
  for (int64_t r = 0; r < p->batch * p->rows.to; r++) {
    const int64_t row = r / p->rows.to * p->rows.from + p->rows.at[r % p->rows.to];
    for (int64_t x = 0; x < p->columns.to; x++)
      if (!dfk_copy(k, p->out, (r * p->columns.to + x) * p->depth, p->in,
                    (row * p->columns.from + p->columns.at[x]) * p->depth, p->depth))
        return false;
  }
  return true;
}

static int32_t resize(df_kernel *k, dfk_resizing h) {
  dfk_pictures p;
  bool ok = dfk_resize_begin(k, h, &p);
  if (ok && h == DFK_NEAREST) ok = copy_nearest(k, &p);
  else if (ok)
    dfk_parallel(k, p.out->dims[0] * p.out->dims[1], 1 + 4096 / (p.out->dims[2] * p.out->dims[3]), resize_rows, &p);
  dfk_resize_end(&p);
  return ok ? DF_OK : k->error->code;
}

/* What grads hold of the resized pictures goes back to the images. */
static int32_t back(df_kernel *k, dfk_resizing h) {
  dfk_pictures p;
  const df_tensor *dy = k->in[0];
  const bool begun = dfk_resize_back_begin(k, h, &p), whole = !ref_is_float(dy->dtype);
  double *sum = begun ? dfk_scratch(k, p.out->size * 8 + 8) : NULL;
  const dfk_taps *rows = &p.rows, *columns = &p.columns;
  for (int64_t i = 0; sum && i < p.out->size; i++) sum[i] = 0;
  for (int64_t at = 0; sum && at < dy->size; at++) {
    const int64_t c = at % p.depth, x = at / p.depth % columns->to, r = at / p.depth / columns->to, y = r % rows->to;
    const double d = whole ? (double)ref_get_int(dy, at) : ref_get(dy, at);
    for (int64_t i = rows->first[y]; i < rows->first[y + 1]; i++)
      for (int64_t j = columns->first[x]; j < columns->first[x + 1]; j++)
        sum[((r / rows->to * rows->from + rows->at[i]) * columns->from + columns->at[j]) * p.depth + c] +=
            d * (double)rows->weight[i] * (double)columns->weight[j];
  }
  for (int64_t i = 0; sum && i < p.out->size; i++) {
    if (ref_is_float(p.out->dtype)) ref_put(p.out, i, sum[i]);
    else ref_put_int(p.out, i, (int64_t)sum[i]);
  }
  const bool ok = sum != NULL;
  dfk_free(sum);
  dfk_resize_end(&p);
  return ok ? DF_OK : k->error->code;
}

int32_t ref_resize_nearest(df_kernel *k)  { return resize(k, DFK_NEAREST); }
int32_t ref_resize_bilinear(df_kernel *k) { return resize(k, DFK_BILINEAR); }
int32_t ref_resize_bicubic(df_kernel *k)  { return resize(k, DFK_BICUBIC); }
int32_t ref_resize_area(df_kernel *k)     { return resize(k, DFK_AREA); }
int32_t ref_scale_and_translate(df_kernel *k)      { return resize(k, DFK_SAMPLED); }
int32_t ref_scale_and_translate_grad(df_kernel *k) { return back(k, DFK_SAMPLED); }
int32_t ref_resize_nearest_grad(df_kernel *k)  { return back(k, DFK_NEAREST); }
int32_t ref_resize_bilinear_grad(df_kernel *k) { return back(k, DFK_BILINEAR); }
int32_t ref_resize_bicubic_grad(df_kernel *k)  { return back(k, DFK_BICUBIC); }
