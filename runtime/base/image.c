/* image.c: pictures as tensors: PNG by libpng, JPEG by libjpeg, PNM here. The libraries are loaded when a picture first
 * needs one.
 *
 * A picture says its own size before anything is made of it: what would be larger than LIMIT bytes, or has no pixels,
 * is refused.
 */
#include "base/image.h"
#include <ctype.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdio.h>
#include <jpeglib.h>
#include <png.h>

static const int64_t LIMIT = (int64_t)1 << 30;

typedef struct source {
  const char *bytes; int64_t n;
  int32_t     channels;
  dfi_jpeg_options jpeg;
  df_error   *err;
} source;

static df_tensor *damaged(const source *s, const char *kind, const char *why) {
  dfi_fail(s->err, DF_DATA_LOSS, NULL, "the %s picture is damaged: %s", kind, why);
  return NULL;
}

static df_tensor *pixels(const source *s, int64_t height, int64_t width, int64_t channels) {
  if (height < 1 || width < 1 || height > LIMIT / channels / width) {
    dfi_fail(s->err, DF_RESOURCE_EXHAUSTED, NULL, "a picture of %lld x %lld is refused: more than %lld MB",
             (long long)height, (long long)width, (long long)(LIMIT >> 20));
    return NULL;
  }
  const int64_t dims[] = { height, width, channels };
  return df_tensor_new(DF_UINT8, 3, dims, s->err);
}

/* A function of a library; false and an error where the library or the function is not there. */
static void *library(const source *s, const char *name) {
  void *of = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!of) dfi_fail(s->err, DF_UNIMPLEMENTED, NULL, "pictures of this kind need the library %s: %s", name, dlerror());
  return of;
}

/* ---- PNG --------------------------------------------------------------------------------------------------- */
static df_tensor *read_png(const source *s) {
  void *of = library(s, "libpng16.so.16");
  if (!of) return NULL;
  __typeof__(&png_image_begin_read_from_memory) begin;
  __typeof__(&png_image_finish_read) finish;
  __typeof__(&png_image_free) release;
  *(void **)&begin = dlsym(of, "png_image_begin_read_from_memory");
  *(void **)&finish = dlsym(of, "png_image_finish_read");
  *(void **)&release = dlsym(of, "png_image_free");
  if (!begin || !finish || !release) {
    dfi_fail(s->err, DF_UNIMPLEMENTED, NULL, "this libpng has no functions to read a picture at once");
    return NULL;
  }
  png_image image = { .version = PNG_IMAGE_VERSION };
  if (!begin(&image, s->bytes, (size_t)s->n)) return damaged(s, "PNG", image.message);
  static const png_uint_32 formats[] = { 0, PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA };
  const bool color = image.format & PNG_FORMAT_FLAG_COLOR, alpha = image.format & PNG_FORMAT_FLAG_ALPHA;
  const int32_t channels = s->channels ? s->channels : (color ? 3 : 1) + alpha;
  image.format = formats[channels];
  df_tensor *t = pixels(s, image.height, image.width, channels);
  const png_color black = { 0 };
  if (t && !finish(&image, &black, df_tensor_data(t), 0, NULL)) {
    df_tensor_release(t);
    t = damaged(s, "PNG", image.message);
  }
  release(&image);
  return t;
}

/* ---- JPEG -------------------------------------------------------------------------------------------------- */
typedef struct jpeg_failure { struct jpeg_error_mgr base; jmp_buf back; char text[JMSG_LENGTH_MAX]; } jpeg_failure;

static void jpeg_failed(j_common_ptr c) {
  jpeg_failure *f = (jpeg_failure *)c->err;
  f->base.format_message(c, f->text);
  longjmp(f->back, 1);
}
static void jpeg_quiet(j_common_ptr c, int level) { if (level < 0) c->err->num_warnings++; }

typedef struct jpeg_functions {
  __typeof__(&jpeg_std_error)         std_error;
  __typeof__(&jpeg_CreateDecompress)  create;
  __typeof__(&jpeg_mem_src)           from_memory;
  __typeof__(&jpeg_read_header)       header;
  __typeof__(&jpeg_calc_output_dimensions) dimensions;
  __typeof__(&jpeg_start_decompress)  start;
  __typeof__(&jpeg_read_scanlines)    lines;
  __typeof__(&jpeg_finish_decompress) finish;
  __typeof__(&jpeg_destroy_decompress) destroy;
} jpeg_functions;

static bool jpeg_load(const source *s, jpeg_functions *f) {
  void *of = library(s, "libjpeg.so.62");
  if (!of) return false;
  const char *const names[] = { "jpeg_std_error",         "jpeg_CreateDecompress",  "jpeg_mem_src",
                                "jpeg_read_header",       "jpeg_calc_output_dimensions", "jpeg_start_decompress",
                                "jpeg_read_scanlines",    "jpeg_finish_decompress", "jpeg_destroy_decompress" };
  void **to = (void **)f;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!(to[i] = dlsym(of, names[i]))) {
      dfi_fail(s->err, DF_UNIMPLEMENTED, NULL, "this libjpeg has no %s", names[i]);
      return false;
    }
  return true;
}

static df_tensor *read_jpeg(const source *s) {
  jpeg_functions f;
  if (!jpeg_load(s, &f)) return NULL;
  struct jpeg_decompress_struct c;
  jpeg_failure failure;
  df_tensor *volatile t = NULL;
  memset(&c, 0, sizeof c);
  c.err = f.std_error(&failure.base);
  failure.base.error_exit = jpeg_failed;
  failure.base.emit_message = jpeg_quiet;
  if (setjmp(failure.back)) {
    if (t) df_tensor_release(t);
    f.destroy(&c);
    return damaged(s, "JPEG", failure.text);
  }
  f.create(&c, JPEG_LIB_VERSION, sizeof c);
  f.from_memory(&c, (const unsigned char *)s->bytes, (unsigned long)s->n);
  f.header(&c, TRUE);
  c.scale_denom = s->jpeg.ratio > 1 ? (unsigned)s->jpeg.ratio : 1;
  c.do_fancy_upsampling = !s->jpeg.plain_upscaling;
  c.dct_method = s->jpeg.fast_dct ? JDCT_IFAST : JDCT_ISLOW;
  f.dimensions(&c);
  const int32_t channels = s->channels ? s->channels : c.num_components == 1 ? 1 : 3;
  c.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  if (channels == 2 || channels == 4) {
    dfi_fail(s->err, DF_INVALID_ARGUMENT, NULL, "a JPEG picture has 1 or 3 channels, not %d", channels);
  } else if ((t = pixels(s, c.output_height, c.output_width, channels))) {
    f.start(&c);
    while (c.output_scanline < c.output_height) {
      JSAMPROW row = (unsigned char *)df_tensor_data(t) + (int64_t)c.output_scanline * c.output_width * channels;
      f.lines(&c, &row, 1);
    }
    f.finish(&c);
    if (failure.base.num_warnings && !s->jpeg.recover) {  /* libjpeg has filled up what is missing */
      df_tensor_release(t);
      t = damaged(s, "JPEG", "it ends early, or a part of it is not what it should be");
    }
  }
  f.destroy(&c);
  return t;
}

/* ---- PNM: P1 to P6 ------------------------------------------------------------------------------------------- */
/* The next number of a header, past white space and comments; -1 where there is none. */
static int64_t pnm_number(const source *s, int64_t *at) {
  while (*at < s->n && (isspace((unsigned char)s->bytes[*at]) || s->bytes[*at] == '#')) {
    if (s->bytes[*at] == '#') while (*at < s->n && s->bytes[*at] != '\n') ++*at;
    else ++*at;
  }
  int64_t v = -1;
  for (; *at < s->n && isdigit((unsigned char)s->bytes[*at]); ++*at) {
    v = (v < 0 ? 0 : v) * 10 + (s->bytes[*at] - '0');
    if (v > INT32_MAX) return -1;
  }
  return v;
}

/* Sample i of a line of a PNM picture's body; -1 beyond its end. */
static int64_t pnm_sample(const source *s, char kind, int64_t most, int64_t *at, int64_t column) {
  if (kind == '1') {                                   /* bits may stand without space between them */
    while (*at < s->n && isspace((unsigned char)s->bytes[*at])) ++*at;
    const char c = *at < s->n ? s->bytes[(*at)++] : ' ';
    return c == '0' || c == '1' ? '1' - c : -1;
  }
  if (kind == '2' || kind == '3') return pnm_number(s, at);
  const unsigned char *p = (const unsigned char *)s->bytes;
  if (kind == '4') {
    if (column > 0 && column % 8 == 0) ++*at;
    return *at < s->n ? !(p[*at] >> (7 - column % 8) & 1) : -1;
  }
  const int64_t width = most > 255 ? 2 : 1;
  if (*at + width > s->n) return -1;
  const int64_t v = width == 2 ? p[*at] << 8 | p[*at + 1] : p[*at];
  *at += width;
  return v;
}

static df_tensor *read_pnm(const source *s) {
  const char kind = s->bytes[1];
  int64_t at = 2, width = pnm_number(s, &at), height = pnm_number(s, &at);
  const int64_t most = kind == '1' || kind == '4' ? 1 : pnm_number(s, &at),
                channels = kind == '3' || kind == '6' ? 3 : 1;
  if (width < 1 || height < 1 || most < 1 || most > 65535)
    return damaged(s, "PNM", "its header does not say width, height and the largest value");
  if (height > LIMIT / 4 / width) return pixels(s, height, width, 4);     /* which refuses it */
  if (kind >= '4') at++;                               /* one white space */
  /* bytes that its body must have */
  const int64_t least = kind == '4' ? (width + 7) / 8 * height : width * height * channels;
  if (s->n - at < least) return damaged(s, "PNM", "it ends early");
  df_tensor *t = pixels(s, height, width, s->channels ? s->channels : channels);
  if (!t) return NULL;
  const int64_t wanted = s->channels ? s->channels : channels;
  unsigned char *to = df_tensor_data(t);
  for (int64_t y = 0; y < height; y++) {
    for (int64_t x = 0; x < width; x++) {
      int64_t v[3] = { 0 };
      for (int64_t c = 0; c < channels; c++)
        if ((v[c] = pnm_sample(s, kind, most, &at, x)) < 0 || v[c] > most) {
          df_tensor_release(t);
          return damaged(s, "PNM",
                         v[c] < 0 ? "it ends early, or holds what is no number"
                                  : "a value is larger than its header says");
        }
      if (channels == 1) v[1] = v[2] = v[0];
      for (int64_t c = 0; c < 3; c++) v[c] = (v[c] * 255 + most / 2) / most;
      const int64_t gray = channels == 1 ? v[0] : (v[0] * 299 + v[1] * 587 + v[2] * 114 + 500) / 1000;
      for (int64_t c = 0; c < wanted; c++)
        *to++ = (unsigned char)(wanted <= 2 ? c == 0 ? gray : 255 : c == 3 ? 255 : v[c]);
    }
    if (kind == '4') at++;
  }
  return t;
}

/* Pictures that are known and not read, by the bytes they have from `at` on. */
static const struct { const char *name, *has; int64_t at, size; } others[] = {
  { "GIF", "GIF8", 0, 4 }, { "BMP", "BM", 0, 2 }, { "WebP", "WEBP", 8, 4 }, { "TIFF", "II*\0", 0, 4 },
  { "TIFF", "MM\0*", 0, 4 }, { "JPEG 2000", "jP  ", 4, 4 }, { "JPEG 2000", "\xff\x4f\xff\x51", 0, 4 },
  { "AVIF", "ftypavif", 4, 8 }, { "HEIF", "ftypheic", 4, 8 }, { "HEIF", "ftypmif1", 4, 8 },
};

df_tensor *dfi_decode_image(const char *bytes, int64_t n, int32_t channels, dfi_jpeg_options jpeg, df_error *err) {
  const source s = { bytes, n, channels, jpeg, err };
  if (channels < 0 || channels > 4) {
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "a picture has 1 to 4 channels, or 0 for those it has, not %d", channels);
    return NULL;
  }
  if (n >= 8 && !memcmp(bytes, "\x89PNG\r\n\x1a\n", 8)) return read_png(&s);
  if (n >= 3 && !memcmp(bytes, "\xff\xd8\xff", 3)) return read_jpeg(&s);
  if (n >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6') return read_pnm(&s);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    if (n < others[i].at + others[i].size
        || memcmp(bytes + others[i].at, others[i].has, (size_t)others[i].size)) continue;
    dfi_fail(err, DF_UNIMPLEMENTED, NULL, "these %lld bytes are a %s picture: PNG, JPEG and PNM are read", (long long)n,
             others[i].name);
    return NULL;
  }
  dfi_fail(err, DF_DATA_LOSS, NULL, "these %lld bytes are no PNG, JPEG or PNM picture", (long long)n);
  return NULL;
}

df_tensor *df_decode_image(const char *bytes, int64_t n, int32_t channels, df_error *err) {
  return dfi_decode_image(bytes, n, channels, (dfi_jpeg_options){ 0 }, err);
}
