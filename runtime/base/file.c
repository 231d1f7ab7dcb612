/* file.c: a file's bytes as a tensor, and the text of dflow.h.
 *
 * zlib reads plain and gzip files alike, so a reader need not know which one it was given. */
#include "base/internal.h"
#include <errno.h>
#include <limits.h>
#include <zlib.h>

df_tensor *df_read_file(const char *path, df_error *err) {
  unsigned char *bytes = NULL;
  int64_t size = 0, room = 1 << 16;
  df_tensor *t = NULL;
  errno = 0;
  gzFile f = gzopen(path, "rb");
  if (!f) {
    dfi_fail(err, errno == ENOENT ? DF_NOT_FOUND : errno == EACCES ? DF_PERMISSION_DENIED : DF_UNKNOWN, NULL,
             "cannot open %s: %s", path, errno ? strerror(errno) : "out of memory");
    return NULL;
  }
  gzbuffer(f, 1 << 17);
  for (;;) {
    if (!bytes || size == room) {
      if (bytes) room *= 2;
      unsigned char *more = realloc(bytes, (size_t)room);
      if (!more) {
        dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory: %s holds more than %lld bytes", path, (long long)size);
        goto done;
      }
      bytes = more;
    }
    int64_t want = room - size;
    int got = gzread(f, bytes + size, (unsigned)(want < INT_MAX ? want : INT_MAX));
    if (got < 0) {
      int code = 0;
      const char *why = gzerror(f, &code);
      dfi_fail(err, code == Z_ERRNO ? DF_UNKNOWN : DF_DATA_LOSS, NULL, "cannot read %s: %s", path,
               code == Z_ERRNO ? strerror(errno) : why);
      goto done;
    }
    if (got == 0) break;
    size += got;
  }
  int code = Z_OK;
  gzerror(f, &code);
  if (code == Z_BUF_ERROR) {   /* the gzip stream ends in its middle */
    dfi_fail(err, DF_DATA_LOSS, NULL, "%s is a gzip file that ends too early, after %lld bytes", path, (long long)size);
    goto done;
  }
  t = df_tensor_new(DF_UINT8, 1, &size, err);
  if (t && size) memcpy(df_tensor_data(t), bytes, (size_t)size);
done:
  free(bytes);
  gzclose(f);
  return t;
}

df_tensor *df_inflate(const char *bytes, int64_t n, int64_t size, df_error *err) {
  df_tensor *t = df_tensor_new(DF_UINT8, 1, &size, err);
  if (!t) return NULL;
  z_stream z = { .next_in = (Bytef *)(uintptr_t)bytes };
  if (inflateInit2(&z, -MAX_WBITS) != Z_OK) {
    df_tensor_release(t);
    dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory to unpack %lld bytes", (long long)n);
    return NULL;
  }
  unsigned char none;      /* an empty tensor has no data to point at */
  unsigned char *out = size ? df_tensor_data(t) : &none;
  int64_t left_in = n, left_out = size;
  z.next_out = out;
  int code = Z_OK;
  while (code == Z_OK) {
    if (z.avail_in == 0 && left_in > 0) {
      z.avail_in = (uInt)(left_in < INT_MAX ? left_in : INT_MAX);
      left_in -= z.avail_in;
    }
    if (z.avail_out == 0 && left_out > 0) {
      z.avail_out = (uInt)(left_out < INT_MAX ? left_out : INT_MAX);
      left_out -= z.avail_out;
    }
    code = inflate(&z, Z_NO_FLUSH);
  }
  int64_t made = size - left_out - z.avail_out;
  inflateEnd(&z);
  if (code == Z_STREAM_END && made == size) return t;
  df_tensor_release(t);
  dfi_fail(err, DF_DATA_LOSS, NULL, "the packed data is damaged: %lld of %lld bytes could be unpacked", (long long)made, (long long)size);
  return NULL;
}

int64_t df_crc32(const char *bytes, int64_t n) {
  return (int64_t)crc32_z(crc32_z(0, NULL, 0), (const Bytef *)bytes, (z_size_t)n);
}

/* The header goes into the library as it is: a binding made from this text cannot disagree with the code. */
__asm__(".section .rodata\n"
        ".type dfi_header_text, @object\n"
        "dfi_header_text:\n"
        ".incbin \"runtime/dflow.h\"\n"
        ".byte 0\n"
        ".size dfi_header_text, . - dfi_header_text\n"
        ".previous\n");
extern const char dfi_header_text[] __attribute__((visibility("hidden")));

const char *df_header(void) {
  return dfi_header_text;
}
