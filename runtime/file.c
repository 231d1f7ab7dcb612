/* file.c: a file's bytes as a tensor, and the text of dflow.h.
 *
 * zlib reads plain and gzip files alike, so a reader need not know which one it was given. */
#include "internal.h"
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
