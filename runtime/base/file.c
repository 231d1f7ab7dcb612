/* file.c: a file's bytes as a tensor, what is in a folder, and the text of dflow.h.
 *
 * zlib reads plain and gzip files alike, so a reader need not know which one it was given. */
#include "base/internal.h"
#include "base/budget.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <zlib.h>

int64_t dfi_unpack_budget(int64_t bytes) {
  enum { TIMES = 100 };
  const char *text = getenv("DFLOW_UNPACK_LIMIT");
  const long long said = text ? strtoll(text, NULL, 10) : 0;
  const int64_t least = said > 0 ? said : 1 << 30, times = bytes > INT64_MAX / TIMES ? INT64_MAX : bytes * TIMES;
  return times > least ? times : least;
}

static int32_t cannot(df_error *err, const char *what, const char *path, int number) {
  return dfi_fail(err, dfi_errno_code(number), NULL, "cannot %s %s: %s", what, path, strerror(number));
}

/* What is there that has no bytes of its own, and is no folder; NULL: a file. */
static const char *other_than_file(mode_t mode) {
  return S_ISREG(mode)    ? NULL
         : S_ISFIFO(mode) ? "a pipe"
         : S_ISSOCK(mode) ? "a socket"
                          : "a device";
}

/* A path with a pipe behind it: it might never have a writer. What a process was given by its parent, as standard
 * input or as a shell's <(...), has no name of its own and a writer at its other end. */
static bool is_named_pipe(int fd, const struct stat *s) {
  struct statfs at;
  return S_ISFIFO(s->st_mode) && (fstatfs(fd, &at) || at.f_type != PIPEFS_MAGIC);
}

int dfi_file_open(const char *path, struct stat *s, df_error *err) {
  const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (fd < 0 && errno == ENXIO && !stat(path, s) && S_ISSOCK(s->st_mode))
    return dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "cannot read %s: it is a socket, not a file", path), -1;
  if (fd < 0 || fstat(fd, s)) cannot(err, "open", path, errno);
  else if (is_named_pipe(fd, s))
    dfi_fail(err, DF_FAILED_PRECONDITION, NULL,
             "cannot read %s: it is a pipe, not a file, and nobody may ever write into it", path);
  else if (S_ISDIR(s->st_mode)) cannot(err, "read", path, EISDIR);
  else {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

df_tensor *df_read_file(const char *path, df_error *err) {
  struct stat facts;
  const int fd = dfi_file_open(path, &facts, err);
  if (fd < 0) return NULL;
  const bool regular = S_ISREG(facts.st_mode);    /* others, as pipes, say no size */
  const int64_t budget = dfi_unpack_budget(regular ? facts.st_size : 0);
  unsigned char *bytes = NULL;
  int64_t size = 0, room = 1 << 16;
  df_tensor *t = NULL;
  gzFile f = gzdopen(fd, "rb");
  if (!f) {
    close(fd);
    dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "cannot open %s: out of memory", path);
    return NULL;
  }
  gzbuffer(f, 1 << 17);
  for (;;) {
    if (!bytes || size == room) {
      if (bytes) room *= 2;
      unsigned char *more = realloc(bytes, (size_t)room);
      if (!more) {
        dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory: %s holds more than %lld bytes", path,
                 (long long)size);
        goto done;
      }
      bytes = more;
    }
    int64_t want = room - size;
    int got = gzread(f, bytes + size, (unsigned)(want < INT_MAX ? want : INT_MAX));
    if (got < 0) {
      int code = 0;
      const char *why = gzerror(f, &code), *what = strstr(why, ": ");     /* behind zlib's name for it, "<fd:5>" */
      dfi_fail(err, code == Z_ERRNO ? dfi_errno_code(errno) : DF_DATA_LOSS, NULL, "cannot read %s: %s", path,
               code == Z_ERRNO ? strerror(errno) : what ? what + 2 : why);
      goto done;
    }
    if (got == 0) break;
    size += got;
    if (size > budget && (!gzdirect(f) || !regular)) {
      dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "%s %s %lld bytes; DFLOW_UNPACK_LIMIT says how many are taken", path,
               gzdirect(f) ? "does not end after" : "unpacks to more than", (long long)budget);
      goto done;
    }
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

int64_t df_file_size(const char *path, df_error *err) {
  struct stat s;
  if (stat(path, &s) != 0) return cannot(err, "open", path, errno), -1;
  if (S_ISDIR(s.st_mode)) return cannot(err, "read", path, EISDIR), -1;
  const char *what = other_than_file(s.st_mode);
  if (what) return dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "cannot read %s: it is %s, not a file", path, what), -1;
  return s.st_size;
}

df_tensor *df_file_read(const char *path, int64_t offset, int32_t dtype, int32_t rank, const int64_t *dims,
                        df_error *err) {
  if (dtype == DF_STRING || dtype == DF_VARIANT || dtype == DF_RESOURCE) {
    dfi_fail(err, DF_INVALID_ARGUMENT, NULL, "%s cannot be read as they lie in a file", df_dtype_name(dtype));
    return NULL;
  }
  struct stat s;
  const int file = dfi_file_open(path, &s, err);
  if (file < 0) return NULL;
  df_tensor *t = NULL;
  int64_t size = df_dtype_bytes(dtype), at = 0;  /* asked before the tensor is made: a size that lies costs nothing */
  bool fits = true;
  for (int32_t i = 0; fits && i < rank; i++) fits = dims[i] >= 0 && !__builtin_mul_overflow(size, dims[i], &size);
  if (!fits || offset < 0 || offset > s.st_size || size > s.st_size - offset) {
    dfi_fail(err, DF_DATA_LOSS, NULL, "%s ends before the %lld bytes from byte %lld on: it has %lld", path,
             (long long)size, (long long)offset, (long long)s.st_size);
    goto done;
  }
  if (!(t = df_tensor_new(dtype, rank, dims, err))) goto done;
  while (at < size) {
    ssize_t got = pread(file, (char *)df_tensor_data(t) + at, (size_t)(size - at), offset + at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      if (got < 0) cannot(err, "read", path, errno);
      else dfi_fail(err, DF_DATA_LOSS, NULL, "%s became shorter while it was read", path);
      df_tensor_release(t);
      t = NULL;
      break;
    }
    at += got;
  }
  if (t) dfi_settle_bools(t);
done:
  close(file);
  return t;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The entry as it is listed; owned. */
static char *entry_name(int folder, const struct dirent *e) {
  struct stat s;
  size_t n = strlen(e->d_name);
  bool inside = e->d_type == DT_DIR;
  if (e->d_type == DT_UNKNOWN || e->d_type == DT_LNK)
    inside = fstatat(folder, e->d_name, &s, 0) == 0 && S_ISDIR(s.st_mode);
  char *name = malloc(n + 2);
  if (name) {
    memcpy(name, e->d_name, n);
    memcpy(name + n, inside ? "/" : "", inside ? 2 : 1);
  }
  return name;
}

df_tensor *df_folder_list(const char *path, df_error *err) {
  DIR *d = opendir(path);
  if (!d) return cannot(err, "open", path, errno), NULL;
  char **names = NULL;
  int64_t n = 0, room = 0;
  bool full = false;
  for (struct dirent *e; !full && (e = readdir(d));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    if (n == room) {
      room = room ? 2 * room : 64;
      char **more = realloc(names, (size_t)room * sizeof *names);
      if (!more) { full = true; break; }
      names = more;
    }
    full = !(names[n] = entry_name(dirfd(d), e));
    n += !full;
  }
  closedir(d);
  df_tensor *t = NULL;
  if (full)
    dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory: %s holds more than %lld names", path, (long long)n);
  else {
    if (n) qsort(names, (size_t)n, sizeof *names, by_name);
    t = df_tensor_new(DF_STRING, 1, &n, err);
    for (int64_t i = 0; t && i < n; i++)
      if (df_tensor_set_string(t, i, names[i], (int64_t)strlen(names[i]), err)) {
        df_tensor_release(t);
        t = NULL;
      }
  }
  for (int64_t i = 0; i < n; i++) free(names[i]);
  free(names);
  return t;
}

df_tensor *df_inflate(const char *bytes, int64_t n, int64_t size, df_error *err) {
  enum { DENSEST = 1032 };                 /* no deflated byte stands for more */
  if (size < 0 || size / DENSEST > n) {
    dfi_fail(err, DF_DATA_LOSS, NULL, "the packed data is damaged: %lld bytes cannot unpack to %lld", (long long)n,
             (long long)size);
    return NULL;
  }
  if (size > dfi_unpack_budget(n)) {
    dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL,
             "%lld bytes unpack to %lld, more than %lld; DFLOW_UNPACK_LIMIT says how many are taken", (long long)n,
             (long long)size, (long long)dfi_unpack_budget(n));
    return NULL;
  }
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
  dfi_fail(err, DF_DATA_LOSS, NULL, "the packed data is damaged: %lld of %lld bytes could be unpacked", (long long)made,
           (long long)size);
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
