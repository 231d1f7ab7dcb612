/* hdf5.c: the datasets of an HDF5 file that lies in memory, by libhdf5, which is loaded when a file is first read.
 *
 * The library reads the bytes it is given and no file: links to other files, datasets that lie in other files and
 * plug-ins are not followed. It is asked for nothing that the length of the file makes implausible, and for no filter
 * but gzip's, the shuffle and the checksum. It runs in a child process: there are damaged files on which it crashes.
 */
#define _GNU_SOURCE               /* pipe2 */
#include "base/internal.h"
#include "base/budget.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* What hdf5.h declares, as of version 1.10.3, whose symbols later versions keep. */
typedef int64_t hid;
typedef int (*visit_fn)(hid object, const char *name, const void *info, void *data);
typedef struct image_callbacks {
  void *(*allocate)(size_t n, int op, void *data);
  void *(*copy)(void *to, const void *from, size_t n, int op, void *data);
  void *(*resize)(void *p, size_t n, int op, void *data);
  int (*release)(void *p, int op, void *data);
  void *(*copy_data)(void *data);
  int (*release_data)(void *data);
  void *data;
} image_callbacks;
enum { READ_ONLY = 0, BY_NAME = 0, ASCENDING = 0, BASIC = 1, DATASET = 5, DEPTH = 64, LITTLE = 0, NULL_SPACE = 2 };
enum { INTEGER = 0, FLOAT = 1, STRING = 3, ENUM = 8 };
enum { COMPACT = 0, CONTIGUOUS = 1, CHUNKED = 2 };
enum { DEFLATE = 1, SHUFFLE = 2, FLETCHER32 = 3 };

#define FUNCTIONS(F)                                                                                                   \
  F(int, H5open, (void)) F(int, H5dont_atexit, (void)) F(int, H5Eset_auto2, (hid, void *, void *))                     \
  F(int, H5PLset_loading_state, (unsigned)) F(hid, H5Pcreate, (hid)) F(int, H5Pclose, (hid))                           \
  F(int, H5Pset_fapl_core, (hid, size_t, int)) F(int, H5Pset_file_image, (hid, void *, size_t))                        \
  F(int, H5Pset_file_image_callbacks, (hid, image_callbacks *)) F(hid, H5Fopen, (const char *, unsigned, hid))         \
  F(int, H5Fclose, (hid)) F(int, H5Ovisit2, (hid, int, int, visit_fn, void *, unsigned))                               \
  F(hid, H5Oopen, (hid, const char *, hid)) F(int, H5Oclose, (hid)) F(int, H5Iget_type, (hid))                         \
  F(hid, H5Dget_type, (hid)) F(hid, H5Dget_space, (hid)) F(hid, H5Dget_create_plist, (hid))                            \
  F(int, H5Dread, (hid, hid, hid, hid, hid, void *)) F(int, H5Sclose, (hid))                                           \
  F(int, H5Sget_simple_extent_type, (hid)) F(int, H5Sget_simple_extent_ndims, (hid))                                   \
  F(int, H5Sget_simple_extent_dims, (hid, uint64_t *, uint64_t *)) F(int, H5Pget_layout, (hid))                        \
  F(int, H5Pget_external_count, (hid)) F(int, H5Pget_chunk, (hid, int, uint64_t *)) F(int, H5Pget_nfilters, (hid))     \
  F(int, H5Pget_filter2, (hid, unsigned, unsigned *, size_t *, unsigned *, size_t, char *, unsigned *))                \
  F(int, H5Tget_class, (hid)) F(size_t, H5Tget_size, (hid)) F(size_t, H5Tget_precision, (hid))                         \
  F(int, H5Tget_sign, (hid)) F(size_t, H5Tget_ebias, (hid)) F(int, H5Tget_nmembers, (hid))                             \
  F(int, H5Tget_member_index, (hid, const char *)) F(hid, H5Tcopy, (hid)) F(int, H5Tset_order, (hid, int))             \
  F(int, H5Tget_fields, (hid, size_t *, size_t *, size_t *, size_t *, size_t *)) F(int, H5Tclose, (hid))
#define DECLARE(result, name, arguments) result (*name) arguments;
#define NAME(result, name, arguments) #name,
typedef struct hdf5 { FUNCTIONS(DECLARE) } hdf5;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static hdf5 h5;
static hid *file_access;       /* the class of properties */
static char why_not[160];      /* why there is no libhdf5; "": there is */

/* A library of one of its names, which differ by system and version. */
static void *library(void) {
  const char *const names[] = { "libhdf5_serial.so.103", "libhdf5_serial.so.310", "libhdf5.so.103", "libhdf5.so.200",
                                "libhdf5.so.310",        "libhdf5.so.320",        "libhdf5_serial.so", "libhdf5.so" };
  void *of = NULL;
  for (size_t i = 0; !of && i < sizeof names / sizeof *names; i++) of = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  return of;
}

static void load(void) {
  static const char *const names[] = { FUNCTIONS(NAME) };
  void *of = library(), **to = (void **)&h5;
  if (!of) {
    snprintf(why_not, sizeof why_not, "HDF5 files need the library libhdf5, which is not installed: Debian has it as "
             "libhdf5-103-1 or libhdf5-310");
    return;
  }
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!(to[i] = dlsym(of, names[i]))) {
      snprintf(why_not, sizeof why_not, "HDF5 files need libhdf5 1.10.3 or later: this one has no %s", names[i]);
      return;
    }
  h5.H5dont_atexit();
  file_access = h5.H5open() < 0 ? NULL : dlsym(of, "H5P_CLS_FILE_ACCESS_ID_g");
  if (!file_access) snprintf(why_not, sizeof why_not, "libhdf5 does not start");
  else h5.H5PLset_loading_state(0);
}

/* ---- the file, which is the caller's memory and is never copied ------------------------------------------------- */
static void *image_allocate(size_t n, int op, void *data) { (void)n, (void)op; return data; }
static void *image_copy(void *to, const void *from, size_t n, int op, void *data) {
  (void)from, (void)n, (void)op, (void)data;
  return to;
}
static void *image_resize(void *p, size_t n, int op, void *data) {
  (void)p, (void)n, (void)op, (void)data;
  return NULL;
}
static int image_release(void *p, int op, void *data) { (void)p, (void)op, (void)data; return 0; }
static void *image_same(void *data) { return data; }
static int image_forget(void *data) { (void)data; return 0; }

/* Below 0: err is filled. */
static hid open_image(const df_tensor *bytes, df_error *err) {
  h5.H5Eset_auto2(0, NULL, NULL);
  image_callbacks of = { image_allocate, image_copy, image_resize, image_release, image_same, image_forget,
                         bytes->data };
  const hid how = h5.H5Pcreate(*file_access);
  hid file = -1;
  if (how >= 0 && h5.H5Pset_fapl_core(how, 1 << 16, 0) >= 0 && h5.H5Pset_file_image_callbacks(how, &of) >= 0
      && h5.H5Pset_file_image(how, bytes->data, (size_t)df_tensor_size(bytes)) >= 0)
    file = h5.H5Fopen("/dev/null/hdf5", READ_ONLY, how);      /* the name of no file */
  if (how >= 0) h5.H5Pclose(how);
  if (file < 0) dfi_fail(err, DF_DATA_LOSS, NULL, "the HDF5 file is damaged: libhdf5 cannot open it");
  return file;
}

/* ---- a dataset -------------------------------------------------------------------------------------------------- */
typedef struct dataset {
  hid         id, type, space, made;
  int32_t     dtype, rank;
  int64_t     dims[DF_MAX_RANK], bytes;
  const char *why;       /* it cannot be read; NULL: it can */
} dataset;

static int32_t integer_of(hid type) {
  static const int32_t of[2][4] = { { DF_UINT8, DF_UINT16, DF_UINT32, DF_UINT64 },
                                    { DF_INT8, DF_INT16, DF_INT32, DF_INT64 } };
  const size_t size = h5.H5Tget_size(type);
  for (int i = 0; i < 4; i++)
    if (size == (size_t)1 << i && h5.H5Tget_precision(type) == 8 * size) return of[h5.H5Tget_sign(type) == 1][i];
  return -1;
}

static int32_t float_of(hid type) {
  static const struct { int32_t dtype; size_t size, exponent, mantissa, bias; } of[] = {
    { DF_FLOAT16, 2, 5, 10, 15 },    { DF_BFLOAT16, 2, 8, 7, 127 },
    { DF_FLOAT32, 4, 8, 23, 127 }, { DF_FLOAT64, 8, 11, 52, 1023 },
  };
  size_t sign, exponent, exponent_bits, mantissa, mantissa_bits;
  if (h5.H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0) return -1;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    if (h5.H5Tget_size(type) == of[i].size && sign == 8 * of[i].size - 1 && exponent_bits == of[i].exponent
        && exponent == of[i].mantissa && mantissa == 0 && mantissa_bits == of[i].mantissa
        && h5.H5Tget_ebias(type) == of[i].bias)
      return of[i].dtype;
  return -1;
}

/* The dtype, below 0: none here. A bool is what h5py makes of one: an enumeration of FALSE and TRUE. */
static int32_t dtype_of(hid type) {
  switch (h5.H5Tget_class(type)) {
  case INTEGER: return integer_of(type);
  case FLOAT: return float_of(type);
  case ENUM:
    return h5.H5Tget_size(type) == 1 && h5.H5Tget_nmembers(type) == 2 && h5.H5Tget_member_index(type, "FALSE") >= 0
           && h5.H5Tget_member_index(type, "TRUE") >= 0 ? DF_BOOL : -1;
  default: return -1;
  }
}

/* Fills dims and bytes; NULL, or what is wrong with the shape. */
static const char *shape_of(dataset *d) {
  uint64_t dims[32] = { 0 };
  const int rank = h5.H5Sget_simple_extent_ndims(d->space);
  if (h5.H5Sget_simple_extent_type(d->space) == NULL_SPACE) return "without a value";
  if (rank < 0 || rank > 32) return "without a shape";
  if (rank > DF_MAX_RANK) return "of a rank above 8";
  if (h5.H5Sget_simple_extent_dims(d->space, dims, NULL) < 0) return "without a shape";
  d->rank = rank;
  d->bytes = df_dtype_bytes(d->dtype);
  for (int i = 0; i < rank; i++) {
    d->dims[i] = (int64_t)dims[i];
    if (dims[i] > INT64_MAX || __builtin_mul_overflow(d->bytes, d->dims[i], &d->bytes)) return "of too many elements";
  }
  return NULL;
}

/* NULL, or why its bytes are not read: they lie elsewhere, or are more than a file of n bytes holds. */
static const char *storage_of(const dataset *d, int64_t n) {
  const int layout = h5.H5Pget_layout(d->made), filters = h5.H5Pget_nfilters(d->made);
  if (h5.H5Pget_external_count(d->made) != 0) return "in another file";
  if (layout != COMPACT && layout != CONTIGUOUS && layout != CHUNKED) return "made of parts of other datasets";
  for (int i = 0; i < filters; i++) {
    unsigned flags, config, values[8];
    size_t room = sizeof values / sizeof *values;
    const int filter = h5.H5Pget_filter2(d->made, (unsigned)i, &flags, &room, values, 0, NULL, &config);
    if (filter < DEFLATE || filter > FLETCHER32) return "packed by another filter than gzip";
  }
  if (layout != CHUNKED) return d->bytes > n ? "longer than the file" : NULL;
  uint64_t chunk[DF_MAX_RANK];
  const int64_t most = dfi_unpack_budget(n);
  int64_t bytes = df_dtype_bytes(d->dtype);
  if (h5.H5Pget_chunk(d->made, DF_MAX_RANK, chunk) != d->rank) return "of damaged chunks";
  for (int i = 0; i < d->rank; i++)
    if (chunk[i] > INT64_MAX || __builtin_mul_overflow(bytes, (int64_t)chunk[i], &bytes)) return "of damaged chunks";
  return bytes > most || d->bytes > most ? "longer than DFLOW_UNPACK_LIMIT lets it unpack to" : NULL;
}

static void look_at(dataset *d, hid id, int64_t n) {
  *d = (dataset){ .id = id, .type = h5.H5Dget_type(id), .space = h5.H5Dget_space(id),
                  .made = h5.H5Dget_create_plist(id), .dtype = -1 };
  if (d->type < 0 || d->space < 0 || d->made < 0) d->why = "damaged";
  else if ((d->dtype = dtype_of(d->type)) < 0)
    d->why = h5.H5Tget_class(d->type) == STRING ? "of strings" : "of elements that no dtype here is";
  else if (!(d->why = shape_of(d))) d->why = storage_of(d, n);
}

static void leave(dataset *d) {
  if (d->type >= 0) h5.H5Tclose(d->type);
  if (d->space >= 0) h5.H5Sclose(d->space);
  if (d->made >= 0) h5.H5Pclose(d->made);
}

/* ---- in a process of its own, which a damaged file may end ------------------------------------------------------- */
typedef struct answer {              /* shared with the child */
  bool     done, has_values;         /* done: the child came to its end */
  df_error err;
  int32_t  dtype, rank;
  int64_t  dims[DF_MAX_RANK];        /* of the values, which come through the pipe */
} answer;
typedef struct walk {
  const df_tensor *file;
  const char      *wanted;           /* NULL: a line for each dataset, "name\0description\0", is written */
  int              to;
  bool             failed;           /* said->err is filled */
  answer          *said;
} walk;

static bool write_all(walk *w, const char *bytes, int64_t n) {
  while (n > 0) {
    const ssize_t done = write(w->to, bytes, (size_t)n);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    bytes += done;
    n -= done;
  }
  return true;
}

static bool write_values(walk *w, const dataset *d) {
  answer *said = w->said;
  if (d->why)
    return !dfi_fail(&said->err, strcmp(d->why, "damaged") ? DF_UNIMPLEMENTED : DF_DATA_LOSS, NULL,
                     "the dataset '%s' is %s", w->wanted, d->why);
  char *values = calloc(1, (size_t)d->bytes + 1);
  if (!values) return !dfi_fail(&said->err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory for '%s'", w->wanted);
  const hid type = h5.H5Tcopy(d->type);
  bool ok = type >= 0 && (df_dtype_bytes(d->dtype) == 1 || h5.H5Tset_order(type, LITTLE) >= 0)
            && (d->bytes == 0 || h5.H5Dread(d->id, type, 0, 0, 0, values) >= 0);
  if (!ok) dfi_fail(&said->err, DF_DATA_LOSS, NULL, "the dataset '%s' is damaged: libhdf5 cannot read it", w->wanted);
  said->dtype = d->dtype;
  said->rank = d->rank;
  memcpy(said->dims, d->dims, sizeof said->dims);
  said->has_values = ok;
  ok = ok && write_all(w, values, d->bytes);
  free(values);
  return ok;
}

/* "float32 2 3", or "!of strings". */
static bool write_line(walk *w, const char *name, const dataset *d) {
  char text[256];
  int at = d->why ? snprintf(text, sizeof text, "!%s", d->why)
                  : snprintf(text, sizeof text, "%s", df_dtype_name(d->dtype));
  for (int32_t i = 0; !d->why && i < d->rank; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, " %lld", (long long)d->dims[i]);
  return write_all(w, name, (int64_t)strlen(name) + 1) && write_all(w, text, at + 1);
}

/* 1: what was wanted is found; below 0: it failed. */
static int visit(hid root, const char *name, const void *info, void *data) {
  walk *w = data;
  int depth = 0;
  (void)info;
  for (const char *c = name; *c; c++) depth += *c == '/';
  if (w->wanted && strcmp(w->wanted, name) != 0) return 0;
  const hid id = depth > DEPTH ? -1 : h5.H5Oopen(root, name, 0);
  bool dataset_there = false;
  if (depth > DEPTH) w->failed = dfi_fail(&w->said->err, DF_DATA_LOSS, NULL, "its groups lie deeper than %d", DEPTH);
  else if (id < 0) w->failed = dfi_fail(&w->said->err, DF_DATA_LOSS, NULL, "the object '%s' is damaged", name);
  else if (h5.H5Iget_type(id) == DATASET) {
    dataset d;
    look_at(&d, id, df_tensor_size(w->file));
    w->failed = !(w->wanted ? write_values(w, &d) : write_line(w, name, &d));
    dataset_there = true;
    leave(&d);
  }
  if (id >= 0) h5.H5Oclose(id);
  return w->failed ? -1 : w->wanted && dataset_there;
}

/* What goes wrong in libhdf5 ends the child alone; and it has a minute, and more for a large file. */
static void bound(const walk *w) {
  static const int signals[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU, SIGPIPE };
  const rlim_t seconds = 60 + (rlim_t)(df_tensor_size(w->file) >> 22);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], SIG_DFL);
  setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
  setrlimit(RLIMIT_CPU, &(struct rlimit){ seconds, seconds });
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static _Noreturn void child(walk *w) {
  bound(w);
  const hid file = open_image(w->file, &w->said->err);
  const int end = file < 0 ? -1 : h5.H5Ovisit2(file, BY_NAME, ASCENDING, visit, w, BASIC);
  if (file >= 0 && end < 0 && !w->failed)
    dfi_fail(&w->said->err, DF_DATA_LOSS, NULL, "the HDF5 file is damaged: libhdf5 cannot walk through its groups");
  else if (end == 0 && w->wanted) dfi_fail(&w->said->err, DF_NOT_FOUND, NULL, "there is no dataset '%s'", w->wanted);
  w->said->done = true;
  _exit(0);
}

/* ---- what the parent makes of it -------------------------------------------------------------------------------- */
/* At most n bytes, fewer where the child ends. */
static int64_t read_all(int from, char *to, int64_t n) {
  int64_t at = 0;
  while (at < n) {
    const ssize_t got = read(from, to + at, (size_t)(n - at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    at += got;
  }
  return at;
}

/* What the child says is not relied on: a damaged file may have made it write anything. */
static df_tensor *take_values(int from, const answer *said, df_error *err) {
  struct pollfd ready = { .fd = from, .events = POLLIN };
  while (poll(&ready, 1, -1) < 0 && errno == EINTR) {}
  if (!said->has_values) return NULL;
  const answer is = *said;
  const bool plain = is.dtype != DF_STRING && is.dtype != DF_RESOURCE;
  df_tensor *t = plain ? df_tensor_new(is.dtype, is.rank, is.dims, err) : NULL;
  const int64_t bytes = t ? df_tensor_size(t) * df_dtype_bytes(is.dtype) : 0;
  if (!plain || (t && read_all(from, df_tensor_data(t), bytes) != bytes)) {
    dfi_fail(err, DF_DATA_LOSS, NULL, "the HDF5 file is damaged: libhdf5 fails on it");
    df_tensor_release(t);
    return NULL;
  }
  if (t) dfi_settle_bools(t);
  return t;
}

static df_tensor *take_lines(int from, const answer *said, df_error *err) {
  int64_t n = 0, room = 1 << 16, got, count = 0;
  char *text = malloc((size_t)room);
  (void)said;
  while (text && (got = read_all(from, text + n, room - n)) > 0) {
    n += got;
    char *more = n < room ? text : realloc(text, (size_t)(room *= 2));
    if (!more) free(text);
    text = more;
  }
  for (int64_t i = 0; text && i < n; i++) count += !text[i];
  df_tensor *t = text ? df_tensor_new(DF_STRING, 2, (int64_t[]){ count / 2, 2 }, err) : NULL;
  const char *line = text;
  if (!text) dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "out of memory for the names of the datasets");
  for (int64_t i = 0; t && i < count / 2 * 2; i++, line += strlen(line) + 1)
    if (df_tensor_set_string(t, i, line, (int64_t)strlen(line), err)) {
      df_tensor_release(t);
      t = NULL;
    }
  free(text);
  return t;
}

static df_tensor *cannot_start(df_error *err) {
  dfi_fail(err, dfi_errno_code(errno), NULL, "no process can be started to read the HDF5 file: %s", strerror(errno));
  return NULL;
}

static df_tensor *ask(walk *w, df_tensor *(*take)(int from, const answer *said, df_error *err), df_error *err) {
  int ends[2];
  if (df_tensor_dtype(w->file) != DF_UINT8 || df_tensor_size(w->file) == 0)
    return dfi_fail(err, DF_DATA_LOSS, NULL, "an HDF5 file is bytes, and not none"), NULL;
  pthread_once(&once, load);
  if (why_not[0]) return dfi_fail(err, DF_UNIMPLEMENTED, NULL, "%s", why_not), NULL;
  answer *said = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (said == MAP_FAILED) return cannot_start(err);
  if (pipe2(ends, O_CLOEXEC)) return munmap(said, sizeof *said), cannot_start(err);
  w->said = said;
  w->to = ends[1];
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);                    /* the parent's alone: when it reads no more, a write ends the child */
    child(w);
  }
  close(ends[1]);
  df_tensor *t = pid < 0 ? cannot_start(err) : take(ends[0], said, err);
  close(ends[0]);
  while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
  const bool failed = pid > 0 && (!said->done || said->err.code);
  if (failed && said->done) dfi_fail(err, said->err.code, NULL, "%s", said->err.message);
  else if (failed && (t || !said->has_values))
    dfi_fail(err, DF_DATA_LOSS, NULL, "the HDF5 file is damaged: libhdf5 fails on it");
  if (failed && t) df_tensor_release(t);
  munmap(said, sizeof *said);
  return failed ? NULL : t;
}

df_tensor *df_hdf5_list(const df_tensor *bytes, df_error *err) {
  return ask(&(walk){ .file = bytes }, take_lines, err);
}

df_tensor *df_hdf5_read(const df_tensor *bytes, const char *name, df_error *err) {
  return ask(&(walk){ .file = bytes, .wanted = name }, take_values, err);
}
