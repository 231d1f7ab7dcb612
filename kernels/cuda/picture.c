/* picture.c: launchers of colours, of parts of pictures, and of normalisation over neighbouring channels. */
#include "plugin.h"
#include "../image.h"
#include "../nn.h"
#include <string.h>

enum { BLOCK = 256 };

/* ---- colours ----------------------------------------------------------------------------------------------------- */

/* Input 1, where there is an amount, is of float32. */
static int32_t colour(df_kernel *k, int32_t what, const char *amount) {
  const df_tensor *x = k->in[0];
  if ((amount && !dfk_colour_amount(k, amount)) || !dfk_colours(k, x)) return k->error->code;
  df_tensor *z = dfk_out_like(k, 0, x);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_colouring p;
  memset(&p, 0, sizeof p);
  p.x = dfc_read(&c, x);
  if (amount) p.amount = dfc_operand_of(&c, k->in[1]);
  p.z = dfc_write(&c, z);
  p.n = z->size / 3;
  p.what = what;
  dfc_run(&c, dfc_name("colour", z->dtype), p.n, &p);
  return dfc_end(&c);
}
static int32_t run_to_hsv(df_kernel *k)   { return colour(k, DFC_TO_HSV, NULL); }
static int32_t run_to_rgb(df_kernel *k)   { return colour(k, DFC_TO_RGB, NULL); }
static int32_t run_hue(df_kernel *k)      { return colour(k, DFC_TURN_HUE, "delta"); }
static int32_t run_saturate(df_kernel *k) { return colour(k, DFC_SATURATE, "scale"); }

static int32_t run_contrast(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *z = dfk_contrast_begin(k);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_colouring p;
  memset(&p, 0, sizeof p);
  p.x = dfc_read(&c, x);
  p.amount = dfc_operand_of(&c, k->in[1]);
  p.z = dfc_write(&c, z);
  p.depth = x->dims[x->rank - 1];
  p.pixels = x->dims[x->rank - 3] * x->dims[x->rank - 2];
  p.n = z->size / p.pixels / p.depth;
  dfc_run_blocks(&c, dfc_name("contrast", z->dtype), p.n * p.depth, BLOCK, &p);
  return dfc_end(&c);
}

static int32_t run_lrn(df_kernel *k) {
  const df_tensor *x = k->in[0];
  df_tensor *z = dfk_lrn_begin(k);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_neighbours p;
  memset(&p, 0, sizeof p);
  p.x = dfc_read(&c, x);
  p.z = dfc_write(&c, z);
  p.n = z->size;
  p.depth = x->dims[3];
  p.radius = dfk_int(k, 0);
  p.bias = dfk_float(k, 1); p.alpha = dfk_float(k, 2); p.beta = dfk_float(k, 3);
  dfc_run(&c, dfc_name("lrn", z->dtype), p.n, &p);
  return dfc_end(&c);
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static dfc_cropping cropping(dfc_call *c, const dfk_crop *b, const df_tensor *x, const df_tensor *dy, df_tensor *z) {
  dfc_cropping p;
  memset(&p, 0, sizeof p);
  p.x = x ? dfc_read(c, x) : NULL;
  p.dy = dy ? dfc_read(c, dy) : NULL;
  p.boxes = dfc_read(c, b->boxes);
  p.of = dfc_indices(c, b->of);
  p.z = dfc_write(c, z);
  p.n = b->n; p.height = b->height; p.width = b->width; p.depth = b->depth;
  p.batch = b->batch; p.rows = b->rows; p.columns = b->columns;
  p.nearest = b->nearest;
  return p;
}

static int32_t run_crop(df_kernel *k) {
  dfk_crop b = { 0 };
  df_tensor *z = dfk_crop_begin(k, &b);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  dfc_cropping p = cropping(&c, &b, k->in[0], NULL, z);
  p.outside = (float)dfk_float(k, 1);
  dfc_run(&c, dfc_name("crop", k->in[0]->dtype), z->size, &p);
  return dfc_end(&c);
}

static int32_t run_crop_image(df_kernel *k) {
  dfk_crop b = { 0 };
  df_tensor *z = dfk_crop_image_begin(k, &b);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  const dfc_cropping p = cropping(&c, &b, NULL, k->in[0], z);
  dfc_run(&c, dfc_name("crop_image", z->dtype), z->size, &p);
  return dfc_end(&c);
}

static int32_t run_crop_boxes(df_kernel *k) {
  dfk_crop b = { 0 };
  df_tensor *z = dfk_crop_boxes_begin(k, &b);
  if (!z) return k->error->code;
  if (!z->size) return DF_OK;
  dfc_call c = dfc_begin(k);
  const dfc_cropping p = cropping(&c, &b, k->in[1], k->in[0], z);
  dfc_run_blocks(&c, dfc_name("crop_boxes", k->in[1]->dtype), b.n, BLOCK, &p);
  return dfc_end(&c);
}

static bool takes_back(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[0] == DF_FLOAT32 && out[0] < 32 && (DFC_FLOATS >> out[0] & 1);
}
static bool takes_boxes(int32_t nin, const uint8_t *in, int32_t nout, const uint8_t *out) {
  return in[0] == DF_FLOAT32 && in[1] < 32 && (DFC_NUMBERS >> in[1] & 1);
}
static const dfi_gpu_kernel kernels[] = {
  { .op = "RGBToHSV", .run = run_to_hsv, .takes = dfc_takes_floats },
  { .op = "HSVToRGB", .run = run_to_rgb, .takes = dfc_takes_floats },
  { .op = "AdjustHue", .run = run_hue, .takes = dfc_takes_floats },
  { .op = "AdjustSaturation", .run = run_saturate, .takes = dfc_takes_floats },
  { .op = "AdjustContrastv2", .run = run_contrast, .takes = dfc_takes_floats },
  { .op = "LRN", .run = run_lrn, .takes = dfc_takes_floats },
  { .op = "CropAndResize", .run = run_crop, .host_in = 4 | 8, .takes = dfc_takes_numbers },
  { .op = "CropAndResizeGradImage", .run = run_crop_image, .host_in = 4 | 8, .takes = takes_back },
  { .op = "CropAndResizeGradBoxes", .run = run_crop_boxes, .host_in = 8, .takes = takes_boxes },
};
const dfc_table dfc_pictures = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
