/* files.c: ops that read and write whole files, and pictures in bytes.
 *
 * A graph comes from anywhere, so it may not name files by itself: a path begins with a string that the run was fed, or
 * the graph was imported with leave to touch files.
 */
#include "ops/files.h"
#include "base/image.h"
#include <glob.h>

char *dfi_path_input(df_kernel *k, int32_t i) {
  int64_t n;
  const df_tensor *t = k->in[i];
  if (t->size != 1) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "the path is one string, %lld were found", (long long)t->size);
    return NULL;
  }
  const char *s = df_tensor_string(t, 0, &n);
  if (!n || memchr(s, 0, (size_t)n)) {
    dfk_fail(k, DF_INVALID_ARGUMENT, n ? "the path has a byte 0" : "the path is empty");
    return NULL;
  }
  if (!dfk_may_touch(k, i, s, n)) return NULL;
  return memcpy(dfi_xcalloc((size_t)n + 1, 1), s, (size_t)n);
}

static int32_t shape_names(dfi_infer *c) { *dfi_set_shape(c, 0) = dfi_shape_vector(-1); return DF_OK; }

/* filename */
static int32_t kernel_read(df_kernel *k) {
  char *path = dfi_path_input(k, 0);
  if (!path) return k->error->code;
  df_tensor *bytes = df_read_file(path, k->error), *out = bytes ? dfk_out(k, 0, DF_STRING, 0, NULL) : NULL;
  dfi_free(path);
  const bool good = out && dfk_set_string(k, out, 0, df_tensor_data(bytes), df_tensor_size(bytes));
  df_tensor_release(bytes);
  return good ? DF_OK : k->error->code;
}

/* filename, contents */
static int32_t kernel_write(df_kernel *k) {
  int64_t n;
  char *path = dfi_path_input(k, 0);
  if (!path) return k->error->code;
  const char *bytes = df_tensor_string(k->in[1], 0, &n);
  df_file *f = df_file_create(path, k->error);
  dfi_free(path);
  if (!f) return k->error->code;
  const int32_t code = df_file_write(f, bytes, n, k->error);
  if (!code) return df_file_commit(f, k->error);
  df_file_discard(f);
  return code;
}

static int32_t names_of(df_kernel *k, const char *pattern) {
  glob_t found;
  const int failed = glob(pattern, 0, NULL, &found);
  if (failed && failed != GLOB_NOMATCH)
    return dfk_fail(k, DF_UNAVAILABLE, "the folders of the pattern %.300s cannot be read", pattern);
  const int64_t n = failed ? 0 : (int64_t)found.gl_pathc;
  df_tensor *out = dfk_out(k, 0, DF_STRING, 1, &n);
  bool good = out != NULL;
  for (int64_t i = 0; good && i < n; i++)
    good = dfk_set_string(k, out, i, found.gl_pathv[i], (int64_t)strlen(found.gl_pathv[i]));
  globfree(&found);
  return good ? DF_OK : k->error->code;
}

/* pattern */
static int32_t kernel_matching(df_kernel *k) {
  char *pattern = dfi_path_input(k, 0);
  const int32_t code = pattern ? names_of(k, pattern) : k->error->code;
  dfi_free(pattern);
  return code;
}

/* ---- pictures ------------------------------------------------------------------------------------------------- */

#define ONE_PICTURE "contents is the bytes of one picture, a scalar string"
static int32_t shape_picture(dfi_infer *c) {
  const int64_t channels = c->node->attrs[0].i;
  *dfi_set_shape(c, 0) = dfi_shape_of(3, (int64_t[]){ -1, -1, channels ? channels : -1 });
  if (dfi_in_shape(c, 0)->rank > 0) return dfi_infer_fail(c, ONE_PICTURE);
  return DF_OK;
}

static int32_t shape_jpeg(dfi_infer *c) {
  const int64_t ratio = c->node->attrs[1].i;
  const char *dct = c->node->attrs[5].s;
  if (ratio & (ratio - 1)) return dfi_infer_fail(c, "ratio is %lld: expected 1, 2, 4 or 8", (long long)ratio);
  if (*dct && strcmp(dct, "INTEGER_FAST") && strcmp(dct, "INTEGER_ACCURATE"))
    return dfi_infer_fail(c, "dct_method is '%s': expected 'INTEGER_FAST', 'INTEGER_ACCURATE' or ''", dct);
  return shape_picture(c);
}

static int32_t decode(df_kernel *k, dfi_jpeg_options jpeg) {
  int64_t n;
  if (k->in[0]->rank) return dfk_fail(k, DF_INVALID_ARGUMENT, ONE_PICTURE);
  const char *bytes = df_tensor_string(k->in[0], 0, &n);
  df_tensor *t = dfi_decode_image(bytes, n, (int32_t)dfk_int(k, 0), jpeg, k->error);
  df_tensor *out = t ? dfk_out(k, 0, k->out_dtype[0], t->rank, t->dims) : NULL;
  if (!t && k->error->code == DF_DATA_LOSS) k->error->code = DF_INVALID_ARGUMENT;        /* as TensorFlow's */
  const int32_t code = out ? DF_OK : k->error->code;
  if (out && out->dtype == DF_UINT8) memcpy(out->data, t->data, (size_t)t->size);
  else if (out)
    for (int64_t i = 0; i < t->size; i++)
      ((float *)out->data)[i] = (float)((const uint8_t *)t->data)[i] * (float)(1.0 / 255);
  df_tensor_release(t);
  return code;
}

/* TensorFlow's default is libjpeg's fast transform, whose pixels are up to 9 beside those of the accurate one. */
static int32_t kernel_decode(df_kernel *k) { return decode(k, (dfi_jpeg_options){ .fast_dct = true }); }

/* attributes: channels, ratio, fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method */
static int32_t kernel_decode_jpeg(df_kernel *k) {
  const bool fast = strcmp(dfk_string(k, 5), "INTEGER_ACCURATE") != 0;
  return decode(k, (dfi_jpeg_options){ .ratio = (int32_t)dfk_int(k, 1), .plain_upscaling = !dfk_bool(k, 2),
                                       .recover = dfk_bool(k, 3), .fast_dct = fast });
}

#define PICTURE .in = "contents:string", .no_grad = true, \
  .derivative = "none: bytes have none"
#define SAMPLE "'P2 2 1 9 0 9'"
#define CHANNELS "channels: 0 for as many as it has, 1 gray, 3 colours, 4 with opacity"

#define LEAVE "In an imported graph the path must begin with a string that the run was fed, unless it was imported " \
  "with files = true"

static const df_op ops[] = {
  { .type = "ReadFile", .lua = "read_file", .in = "filename:string", .out = "contents:string",
    .doc = "string[] = read_file(filename string[]): the bytes of a file, each time that it runs. " LEAVE,
    .example = "df.string_length(df.read_file(df.constant '/dev/null'))", .output = "0",
    .see = "write_file decode_image", .derivative = "none: bytes have none",
    .stateful = true, .no_grad = true, .shape = dfi_shape_all_scalar, .kernel = { [DF_REF] = kernel_read } },
  { .type = "WriteFile", .lua = "write_file", .in = "filename:string contents:string", .out = "",
    .doc = "write_file(filename string[], contents string[]): writes the file, which is there whole or not at all. "
           LEAVE,
    .example = "df.write_file(df.constant '/tmp/dflow_example', df.constant 'text').type", .output = "\"WriteFile\"",
    .see = "read_file", .stateful = true, .effect = true, .no_grad = true, .kernel = { [DF_REF] = kernel_write } },
  { .type = "MatchingFiles", .lua = "matching_files", .in = "pattern:string", .out = "filenames:string",
    .doc = "string[n] = matching_files(pattern string[]): the names of files that match a pattern of the shell, "
           "sorted. " LEAVE,
    .example = "df.matching_files(df.constant '/dev/nul?')", .output = "[\"/dev/null\"] string[1]", .see = "read_file",
    .derivative = "none: names have none",
    .stateful = true, .no_grad = true, .shape = shape_names, .kernel = { [DF_REF] = kernel_matching } },
  { .type = "DecodeImage", .lua = "decode_image", PICTURE, .out = "image:dtype", .types = "dtype=uint8|float32",
    .attrs = "channels:int[0..4]=0 dtype:dtype=uint8 expand_animations:bool=true",
    .doc = "dtype[height,width,channels] = decode_image(contents string[]; channels, dtype): a PNG, JPEG or PNM "
           "picture; as float32 from 0 to 1. " CHANNELS,
    .example = "df.decode_image(df.constant " SAMPLE ")", .output = "[[[  0]\n  [255]]] uint8[1,2,1]",
    .see = "decode_png decode_jpeg read_file", .shape = shape_picture,
    .kernel = { [DF_REF] = kernel_decode } },
  { .type = "DecodePng", .lua = "decode_png", PICTURE, .out = "image:dtype", .types = "dtype=uint8",
    .attrs = "channels:int[0..4]=0 dtype:dtype=uint8",
    .doc = "uint8[height,width,channels] = decode_png(contents string[]; channels): a picture, by its bytes PNG, JPEG "
           "or PNM, as TensorFlow's. " CHANNELS,
    .example = "df.decode_png(df.constant " SAMPLE ", {channels = 3}).shape", .output = "{1, 2, 3}",
    .see = "decode_image decode_jpeg", .shape = shape_picture,
    .kernel = { [DF_REF] = kernel_decode } },
  { .type = "DecodeJpeg", .lua = "decode_jpeg", PICTURE, .out = "image:uint8",
    .attrs = "channels:int[0..4]=0 ratio:int[1..8]=1 fancy_upscaling:bool=true try_recover_truncated:bool=false "
             "acceptable_fraction:float=1 dct_method:string=''",
    .doc = "uint8[height,width,channels] = decode_jpeg(contents string[]; channels, ratio): a picture, by its bytes "
           "JPEG, PNG or PNM, as TensorFlow's. ratio 2, 4, 8: a JPEG of a half, a quarter, an eighth of its height and "
           "width, faster. " CHANNELS,
    .example = "df.decode_jpeg(df.constant " SAMPLE ").dtype", .output = "\"uint8\"",
    .see = "decode_image decode_png", .shape = shape_jpeg,
    .kernel = { [DF_REF] = kernel_decode_jpeg } },
};
const dfi_op_table dfi_ops_files = { ops, sizeof ops / sizeof *ops };
