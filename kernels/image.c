/* image.c: what kernels of pictures are given, looked at: colours, and parts of pictures. */
#include "image.h"
#include "move.h"
#include <string.h>

bool dfk_colours(df_kernel *k, const df_tensor *t) {
  char text[160];
  if (t->rank >= 1 && t->dims[t->rank - 1] == 3) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "images is %s: its last axis must have red, green and blue",
           dfk_shape_text(t, text, sizeof text));
  return false;
}

bool dfk_colour_amount(df_kernel *k, const char *what) {
  char text[160];
  if (k->in[1]->rank == 0) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s is %s: expected one number", what, dfk_shape_text(k->in[1], text, sizeof text));
  return false;
}

df_tensor *dfk_contrast_begin(df_kernel *k) {
  char text[160];
  if (!dfk_colour_amount(k, "contrast_factor")) return NULL;
  if (k->in[0]->rank >= 3) return dfk_out_like(k, 0, k->in[0]);
  dfk_fail(k, DF_INVALID_ARGUMENT, "images is %s: expected [..., height, width, channels]",
           dfk_shape_text(k->in[0], text, sizeof text));
  return NULL;
}

/* ---- parts of pictures ------------------------------------------------------------------------------------------- */

static bool is_four(df_kernel *k, const int64_t *dims, int32_t rank, const char *what) {
  if (rank == 4 && dims[1] > 0 && dims[2] > 0) return true;
  dfk_fail(k, DF_INVALID_ARGUMENT, "%s must be [batch, height, width, channels], and neither height nor width "
           "0", what);
  return false;
}

/* The boxes, each in one of c->batch pictures; the method. */
static bool boxes(df_kernel *k, dfk_crop *c, int32_t at, int32_t method) {
  char a[160], b[160];
  c->boxes = k->in[at];
  c->of = k->in[at + 1];
  if (c->boxes->rank != 2 || c->boxes->dims[1] != 4 || c->of->rank != 1 || c->of->size != c->boxes->dims[0]) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "boxes is %s and box_ind %s: expected [n, 4] and [n]",
             dfk_shape_text(c->boxes, a, sizeof a), dfk_shape_text(c->of, b, sizeof b));
    return false;
  }
  c->n = c->of->size;
  const char *how = dfk_string(k, method);
  c->nearest = !strcmp(how, "nearest");
  if (!c->nearest && strcmp(how, "bilinear")) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "method is '%s' but must be bilinear or nearest", how);
    return false;
  }
  for (int64_t i = 0; i < c->n; i++) {
    if (dfk_index(c->of, i) >= 0 && dfk_index(c->of, i) < c->batch) continue;
    dfk_fail(k, DF_OUT_OF_RANGE, "box_ind[%lld] is %lld, but there are %lld pictures", (long long)i,
             (long long)dfk_index(c->of, i), (long long)c->batch);
    return false;
  }
  return true;
}

static void pictures(dfk_crop *c, const int64_t *dims) {
  c->batch = dims[0];
  c->rows = dims[1];
  c->columns = dims[2];
  c->depth = dims[3];
}

/* Gradients are those of the crops of c. */
static bool are_crops(df_kernel *k, const df_tensor *grads, dfk_crop *c) {
  char text[160];
  if (grads->rank == 4 && grads->dims[0] == c->n && grads->dims[3] == c->depth) {
    c->height = grads->dims[1];
    c->width = grads->dims[2];
    return true;
  }
  dfk_fail(k, DF_INVALID_ARGUMENT, "grads is %s: expected [%lld, height, width, %lld]",
           dfk_shape_text(grads, text, sizeof text), (long long)c->n, (long long)c->depth);
  return false;
}

df_tensor *dfk_crop_begin(df_kernel *k, dfk_crop *c) {
  const df_tensor *image = k->in[0], *size = k->in[3];
  if (!is_four(k, image->dims, image->rank, "image")) return NULL;
  pictures(c, image->dims);
  if (!boxes(k, c, 1, 0)) return NULL;
  if (size->rank != 1 || size->size != 2 || dfk_index(size, 0) <= 0 || dfk_index(size, 1) <= 0) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "crop_size must be a height and a width that are positive, int32[2]");
    return NULL;
  }
  c->height = dfk_index(size, 0);
  c->width = dfk_index(size, 1);
  return dfk_out(k, 0, DF_FLOAT32, 4, (int64_t[]){ c->n, c->height, c->width, c->depth });
}

df_tensor *dfk_crop_image_begin(df_kernel *k, dfk_crop *c) {
  const df_tensor *size = k->in[3];
  int64_t dims[4];
  if (size->rank != 1 || size->size != 4) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "image_size must have 4 numbers");
    return NULL;
  }
  for (int32_t i = 0; i < 4; i++) dims[i] = dfk_index(size, i);
  if (!is_four(k, dims, 4, "image_size")) return NULL;
  pictures(c, dims);
  if (!boxes(k, c, 1, 1) || !are_crops(k, k->in[0], c)) return NULL;
  return dfk_out(k, 0, k->out_dtype[0], 4, dims);
}

df_tensor *dfk_crop_boxes_begin(df_kernel *k, dfk_crop *c) {
  const df_tensor *image = k->in[1];
  if (!is_four(k, image->dims, image->rank, "image")) return NULL;
  pictures(c, image->dims);
  if (!boxes(k, c, 2, 0) || !are_crops(k, k->in[0], c)) return NULL;
  return dfk_out(k, 0, DF_FLOAT32, 2, (int64_t[]){ c->n, 4 });
}
