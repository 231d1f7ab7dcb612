/* summary_media.c: pictures and sounds as TensorFlow's Summary messages: PNG and 16-bit WAV.
 *
 * Value { string tag = 1; Image image = 4; Audio audio = 6 }; Image { height = 1; width = 2; colorspace = 3; bytes
 * encoded = 4 }; Audio { float sample_rate = 1; num_channels = 2; length_frames = 3; bytes encoded = 4;
 * string content_type = 5 }.
 */
#include "../summary.h"
#include "element.h"
#include "summary_bytes.h"
#include <math.h>
#include <stdio.h>
#include <zlib.h>

/* The tag of the i-th of at most `most`: tag/image, or tag/image/i where there may be several. */
static void add_media(bytes *b, const df_str *tag, const char *kind, int64_t most, int64_t i, const bytes *rest) {
  char end[48];
  bytes text = { 0 };
  const int n = most > 1 ? snprintf(end, sizeof end, "/%s/%lld", kind, (long long)i) : snprintf(end, sizeof end, "/%s",
                                                                                             kind);
  bytes_add(&text, tag->bytes, (size_t)tag->length);
  bytes_add(&text, end, (size_t)n);
  const df_str full = { (char *)text.at, text.failed ? 0 : (int64_t)text.n };
  bytes_add_value(b, &full, rest);
  b->failed |= text.failed;
  free(text.at);
}

static int32_t is_one_tag(df_kernel *k) {
  return k->in[0]->rank ? dfk_fail(k, DF_INVALID_ARGUMENT, "tag must be scalar") : DF_OK;
}

/* ---- PNG --------------------------------------------------------------------------------------------------------- */

static void add_big_endian(bytes *b, uint32_t v) {
  bytes_add(b, (uint8_t[]){ (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v }, 4);
}
static void add_chunk(bytes *b, const char *type, const uint8_t *data, size_t n) {
  add_big_endian(b, (uint32_t)n);
  bytes_add(b, type, 4);
  bytes_add(b, data, n);
  add_big_endian(b, (uint32_t)crc32(crc32(0, (const uint8_t *)type, 4), data, (uInt)n));
}

/* A picture of 1, 3 or 4 channels of bytes; each row follows the number of its filter, none. */
static void add_png(bytes *b, const uint8_t *pixels, int64_t height, int64_t width, int64_t channels) {
  const size_t row = (size_t)(width * channels), all = (size_t)height * (row + 1);
  uLongf packed = compressBound((uLong)all);
  uint8_t *rows = malloc(all + 1), *deflated = malloc(packed);
  b->failed |= !rows || !deflated;
  for (int64_t y = 0; !b->failed && y < height; y++) {
    rows[(size_t)y * (row + 1)] = 0;
    memcpy(rows + (size_t)y * (row + 1) + 1, pixels + (size_t)y * row, row);
  }
  if (!b->failed && compress2(deflated, &packed, rows, (uLong)all, 6) != Z_OK) b->failed = true;
  if (!b->failed) {
    bytes header = { 0 };
    add_big_endian(&header, (uint32_t)width);
    add_big_endian(&header, (uint32_t)height);
    bytes_add(&header, (uint8_t[]){ 8, channels == 1 ? 0 : channels == 3 ? 2 : 6, 0, 0, 0 }, 5);
    bytes_add(b, "\x89PNG\r\n\x1a\n", 8);
    add_chunk(b, "IHDR", header.at, header.n);
    add_chunk(b, "IDAT", deflated, packed);
    add_chunk(b, "IEND", (const uint8_t *)"", 0);
    b->failed |= header.failed;
    free(header.at);
  }
  free(rows);
  free(deflated);
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

enum { MAX_IMAGES, BAD_COLOR };

/* v as a number of the dtype: each step of a picture's colours is one. */
static double rounded(uint8_t dtype, double v) {
  return dtype == DF_FLOAT16 ? dfk_f16_to_float(dfk_f16_from_double(v)) : dtype == DF_FLOAT32 ? (float)v : v;
}

/* The n pixels of a picture of floats as bytes: the greatest is white and 0 black, or, where some are negative, 0 is
   gray; a pixel that is not finite has the colour `bad`. */
static void to_bytes(const df_tensor *t, int64_t from, int64_t n, int64_t channels, const uint8_t *bad, uint8_t *out) {
  double low = INFINITY, high = -INFINITY;
  for (int64_t p = 0; p < n; p++) {
    double least = INFINITY, most = -INFINITY;
    for (int64_t c = 0; c < channels; c++) {
      const double v = ref_get(t, from + p * channels + c);
      least = isfinite(v) ? fmin(least, v) : -INFINITY;
      most = fmax(most, v);
      if (!isfinite(v)) break;
    }
    if (!isfinite(least)) continue;
    low = fmin(low, least);
    high = fmax(high, most);
  }
  const float top = (float)(low < 0 ? fmax(fabs(low), fabs(high)) : high);
  const double offset = low < 0 ? 128 : 0, scale = rounded(t->dtype, top < 1e-6f ? 0 : (low < 0 ? 127.f : 255.f) / top);
  for (int64_t p = 0; p < n; p++) {
    bool finite = true;
    for (int64_t c = 0; c < channels; c++) finite &= isfinite(ref_get(t, from + p * channels + c)) != 0;
    for (int64_t c = 0; c < channels; c++) {
      const double v = finite ? rounded(t->dtype, ref_get(t, from + p * channels + c) * scale) : 0;
      out[p * channels + c] = finite ? (uint8_t)rounded(t->dtype, v + offset) : bad[c];
    }
  }
}

int32_t ref_image_summary(df_kernel *k) {
  const df_tensor *t = k->in[1], *color = k->attrs[BAD_COLOR].tensor;
  const int64_t most = dfk_int(k, MAX_IMAGES);
  char text[160];
  if (is_one_tag(k)) return k->error->code;
  if (t->rank != 4 || (t->dims[3] != 1 && t->dims[3] != 3 && t->dims[3] != 4))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "tensor is %s: expected [batch, height, width, channels] with 1, 3 or 4 "
                    "channels", dfk_shape_text(t, text, sizeof text));
  const int64_t height = t->dims[1], width = t->dims[2], channels = t->dims[3], pixels = height * width;
  if (most < 1) return dfk_fail(k, DF_INVALID_ARGUMENT, "max_images is %lld but must be at least 1", (long long)most);
  if (height >= 1 << 24 || width >= 1 << 24 || pixels * channels >= 1 << 30 || !pixels)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "a picture is %s: it has no pixels, or too many",
                    dfk_shape_text(t, text, sizeof text));
  uint8_t bad[4] = { 255, 0, 0, 255 };
  if (color && (color->dtype != DF_UINT8 || color->rank != 1 || color->size < channels))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "bad_color must be uint8, of %lld channels at least", (long long)channels);
  for (int64_t c = 0; color && c < channels; c++) bad[c] = ((const uint8_t *)color->data)[c];
  uint8_t *image = dfk_scratch(k, pixels * channels);
  if (!image) return k->error->code;
  bytes b = { 0 };
  for (int64_t i = 0; i < t->dims[0] && i < most; i++) {
    const int64_t from = i * pixels * channels;
    if (t->dtype == DF_UINT8) memcpy(image, (const uint8_t *)t->data + from, (size_t)(pixels * channels));
    else to_bytes(t, from, pixels, channels, bad, image);
    bytes message = { 0 }, png = { 0 }, rest = { 0 };
    bytes_add_number(&message, 1, height);
    bytes_add_number(&message, 2, width);
    bytes_add_number(&message, 3, channels);
    add_png(&png, image, height, width, channels);
    bytes_add_text(&message, 4, png.at, png.n);
    bytes_add_text(&rest, 4, message.at, message.n);
    rest.failed |= png.failed || message.failed;
    add_media(&b, (const df_str *)k->in[0]->data, "image", most, i, &rest);
    free(png.at);
    free(message.at);
    free(rest.at);
  }
  dfk_free(image);
  return bytes_give(k, &b);
}

/* ---- sounds ------------------------------------------------------------------------------------------------------ */

static void add_little(bytes *b, uint32_t v, size_t n) {
  for (size_t i = 0; i < n; i++) bytes_add(b, &(uint8_t){ (uint8_t)(v >> 8 * i) }, 1);
}

/* Samples from -1 to 1 [frames, channels] as 16 bits each. */
static void add_wav(bytes *b, const float *samples, uint32_t frames, uint32_t channels, uint32_t rate) {
  const uint32_t data = frames * channels * 2;
  bytes_add(b, "RIFF", 4);
  add_little(b, 36 + data, 4);
  bytes_add(b, "WAVEfmt ", 8);
  add_little(b, 16, 4);
  add_little(b, 1, 2);                                   /* linear */
  add_little(b, channels, 2);
  add_little(b, rate, 4);
  add_little(b, rate * channels * 2, 4);
  add_little(b, channels * 2, 2);
  add_little(b, 16, 2);
  bytes_add(b, "data", 4);
  add_little(b, data, 4);
  for (uint32_t i = 0; i < frames * channels; i++) {
    const float v = roundf(samples[i] * 32768);
    const int32_t whole = v < -32768 ? -32768 : v > 32767 ? 32767 : v == v ? (int32_t)v : 0;
    add_little(b, (uint16_t)(int16_t)whole, 2);
  }
}

static int32_t audio(df_kernel *k, double rate, int64_t most) {
  const df_tensor *t = k->in[1];
  char text[160];
  if (is_one_tag(k)) return k->error->code;
  if (t->rank != 2 && t->rank != 3)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "tensor is %s: expected [batch, frames] or [batch, frames, channels]",
                    dfk_shape_text(t, text, sizeof text));
  const int64_t frames = t->dims[1], channels = t->rank == 3 ? t->dims[2] : 1;
  const float in_hertz = (float)rate;
  if (!(in_hertz > 0 && in_hertz < 4294967296.f) || most < 1)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "sample_rate is %g and max_outputs %lld: expected more than 0, and 1 at "
                    "least", rate, (long long)most);
  const uint32_t whole_rate = in_hertz < 1 ? 1 : (uint32_t)llrintf(in_hertz);
  if (channels < 1 || channels > 65535 || frames > (1 << 30) / channels)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "a sound is %s: it has no channels, or too many samples",
                    dfk_shape_text(t, text, sizeof text));
  bytes b = { 0 };
  for (int64_t i = 0; i < t->dims[0] && i < most; i++) {
    bytes message = { 0 }, wav = { 0 }, rest = { 0 };
    bytes_add(&message, &(uint8_t){ 1 << 3 | 5 }, 1);
    bytes_add(&message, &in_hertz, sizeof in_hertz);
    bytes_add_number(&message, 2, channels);
    bytes_add_number(&message, 3, frames);
    add_wav(&wav, (const float *)t->data + i * frames * channels, (uint32_t)frames, (uint32_t)channels, whole_rate);
    bytes_add_text(&message, 4, wav.at, wav.n);
    bytes_add_text(&message, 5, "audio/wav", 9);
    bytes_add_text(&rest, 6, message.at, message.n);
    rest.failed |= wav.failed || message.failed;
    add_media(&b, (const df_str *)k->in[0]->data, "audio", most, i, &rest);
    free(wav.at);
    free(message.at);
    free(rest.at);
  }
  return bytes_give(k, &b);
}

int32_t ref_audio_summary(df_kernel *k) { return audio(k, dfk_float(k, 0), dfk_int(k, 1)); }
int32_t ref_audio_summary_v2(df_kernel *k) {
  const df_tensor *rate = k->in[2];
  if (rate->rank) return dfk_fail(k, DF_INVALID_ARGUMENT, "sample_rate must be scalar");
  return audio(k, ref_get(rate, 0), dfk_int(k, 0));
}
