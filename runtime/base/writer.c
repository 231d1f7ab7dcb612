/* writer.c: files that are there whole, or not at all.
 *
 * What is written goes to a file of its own beside the target: one without a name where the system has such files, so
 * that nothing is left of it whatever ends the process; else one with a name that is hard to guess, opened with O_EXCL.
 * When all has been written and is on the disk, it takes the target's name in one step. Until then a reader of the
 * target sees what was there before.
 *
 * Links are followed: the file they lead to is replaced, they stay. A target that was there keeps its permissions and,
 * where the system lets us, its owner; one that we may not write is not replaced, though its folder would allow it.
 * What is no plain file (a terminal, a pipe, /dev/null) has no whole to keep: it is written as it comes. A pipe that
 * has no reader is refused, and a wait for a slow reader can be interrupted.
 */
#define _GNU_SOURCE 1    /* O_TMPFILE */
#include "base/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 1 << 16, NAME = 48, MAX_LINKS = 40, DIRECT = 1 << 14, PIECE = 1 << 23, BEHIND = 32, LARGE = 1 << 24,
       LOOK_MS = 100 };         /* how often a wait for a reader looks for an interrupt */

struct df_file {
  char    path[PATH_MAX];       /* as it was given, for messages */
  char    target[PATH_MAX];     /* the end of its links */
  char    name[NAME];           /* of the file beside it; "" while it has none */
  int     folder, file;         /* -1: none */
  bool    in_place;             /* the target is no plain file */
  int64_t used;                 /* bytes in the buffer */
  int64_t sent;                 /* bytes that the file has */
  int64_t interrupts;           /* dfi_calls_interrupted when it was opened */
  char    buffer[BUFFER];
};

int32_t dfi_errno_code(int number) {
  switch (number) {
    case ENOENT: case ENODEV: case ENXIO: return DF_NOT_FOUND;
    case EACCES: case EPERM: case EROFS: return DF_PERMISSION_DENIED;
    case ENOSPC: case EDQUOT: case EFBIG: case ENOMEM: case EMFILE: case ENFILE: return DF_RESOURCE_EXHAUSTED;
    case EISDIR: case ENOTDIR: case ENOTEMPTY: case EBUSY: case ETXTBSY: return DF_FAILED_PRECONDITION;
    case EINVAL: case ENAMETOOLONG: case ELOOP: return DF_INVALID_ARGUMENT;
    case EEXIST: return DF_ALREADY_EXISTS;
    case EIO: return DF_DATA_LOSS;
    case ECANCELED: return DF_CANCELLED;
    default: return DF_UNKNOWN;
  }
}

static int32_t fail(const df_file *f, df_error *err, int number) {
  return dfi_fail(err, dfi_errno_code(number), NULL, "cannot write %s: %s", f->path, strerror(number));
}

/* Opens what is no plain file; a pipe only where it has a reader. The errno, 0: it is open. */
static int open_in_place(df_file *f, mode_t mode) {
  f->in_place = true;
  f->file = open(f->target, O_WRONLY | O_CLOEXEC | O_NOCTTY | (S_ISFIFO(mode) ? O_NONBLOCK : 0));
  return f->file < 0 ? errno : 0;
}

/* The pipe is full: waits until there is room, for a moment, or for ECANCELED. */
static int await_reader(const df_file *f) {
  struct pollfd room = { .fd = f->file, .events = POLLOUT };
  poll(&room, 1, LOOK_MS);
  return atomic_load(&dfi_calls_interrupted) != f->interrupts ? ECANCELED : 0;
}

/* The path at the end of the links that begin at f->path, whether it is there or not. Where a pipe without a name is at
 * their end, as behind /dev/stdout, they say nothing that could be opened: the path stands for itself. */
static int follow(df_file *f) {
  struct stat s;
  memcpy(f->target, f->path, sizeof f->target);
  if (stat(f->path, &s) == 0 && !S_ISREG(s.st_mode)) return 0;
  for (int hops = 0; hops < MAX_LINKS; hops++) {
    char to[PATH_MAX];
    ssize_t n = readlink(f->target, to, sizeof to - 1);
    if (n < 0) return errno == EINVAL || errno == ENOENT ? 0 : errno;      /* no link, or nothing yet */
    to[n] = 0;
    char *slash = strrchr(f->target, '/');
    size_t lead = to[0] == '/' || !slash ? 0 : (size_t)(slash - f->target) + 1;
    if (lead + (size_t)n + 1 > sizeof f->target) return ENAMETOOLONG;
    memcpy(f->target + lead, to, (size_t)n + 1);
  }
  return ELOOP;
}

static int make_name(df_file *f) {
  unsigned char bytes[16];
  for (size_t got = 0; got < sizeof bytes;) {
    ssize_t n = getrandom(bytes + got, sizeof bytes - got, 0);
    if (n < 0 && errno != EINTR) return errno;
    if (n > 0) got += (size_t)n;
  }
  int at = snprintf(f->name, sizeof f->name, ".dflow-");
  for (size_t i = 0; i < sizeof bytes; i++) at += snprintf(f->name + at, sizeof f->name - (size_t)at, "%02x", bytes[i]);
  return 0;
}

/* Gives the file the owner and the permissions of one that is there, as far as the system lets us. */
static int resemble(df_file *f, const struct stat *there) {
  mode_t mode = there->st_mode & 07777;
  if (fchown(f->file, there->st_uid, there->st_gid) != 0 && fchown(f->file, (uid_t)-1, there->st_gid) != 0)
    mode &= 0777;                               /* another's: without the bits that lend rights */
  return fchmod(f->file, mode) != 0 ? errno : 0;
}

void dfi_file_like(df_file *f, const char *path) {
  struct stat there;
  if (!f->in_place && stat(path, &there) == 0 && S_ISREG(there.st_mode)) resemble(f, &there);
}

/* Opens the folder of the target, and in it the file to write. */
static int open_beside(df_file *f, const struct stat *there) {
  char folder[PATH_MAX];
  snprintf(folder, sizeof folder, "%s", f->target);
  char *slash = strrchr(folder, '/');
  if (slash) slash[slash == folder] = 0;
  f->folder = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (f->folder < 0) return errno;
  const mode_t mode = there ? 0600 : 0666;      /* a new file's permissions are the caller's mask's affair */
  if (access("/proc/self/fd", X_OK) == 0) f->file = openat(f->folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  while (f->file < 0) {
    int code = make_name(f);
    if (code) return code;
    f->file = openat(f->folder, f->name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, mode);
    if (f->file < 0) {
      f->name[0] = 0;
      if (errno != EEXIST) return errno;
    }
  }
  return there ? resemble(f, there) : 0;
}

df_file *df_file_create(const char *path, df_error *err) {
  df_file *f = calloc(1, sizeof *f);
  if (!f) {
    dfi_fail(err, DF_RESOURCE_EXHAUSTED, NULL, "cannot write %s: out of memory", path);
    return NULL;
  }
  f->folder = f->file = -1;
  f->interrupts = atomic_load(&dfi_calls_interrupted);
  struct stat s;
  int code = 0;
  if (strlen(path) >= sizeof f->path) {
    snprintf(f->path, 64, "%.60s...", path);
    code = ENAMETOOLONG;
  } else {
    snprintf(f->path, sizeof f->path, "%s", path);
    code = path[0] ? follow(f) : ENOENT;
  }
  if (!code) {
    bool there = stat(f->target, &s) == 0;
    if (!there && errno != ENOENT) code = errno;
    else if (there && S_ISDIR(s.st_mode)) code = EISDIR;
    else if (there && !S_ISREG(s.st_mode)) code = open_in_place(f, s.st_mode);
    else if (there && faccessat(AT_FDCWD, f->target, W_OK, AT_EACCESS) != 0) code = errno;
    else code = open_beside(f, there ? &s : NULL);
  }
  if (!code) return f;
  if (code == ENXIO && f->in_place && S_ISFIFO(s.st_mode))
    dfi_fail(err, DF_FAILED_PRECONDITION, NULL, "cannot write %s: it is a pipe, and nobody reads from it", path);
  else
    fail(f, err, code);
  df_file_discard(f);
  return NULL;
}

/* The disk begins with what has just been written, and no more than BEHIND pieces wait for it: the system's memory does
   not fill up with the file, for which other threads that ask it for memory would wait, nor is all left to fsync. */
static void push(df_file *f, int64_t n) {
  const int64_t before = f->sent / PIECE;
  f->sent += n;
  const int64_t now = f->sent / PIECE;
  if (f->in_place || now == before) return;
  sync_file_range(f->file, before * PIECE, (now - before) * PIECE, SYNC_FILE_RANGE_WRITE);
  if (now > BEHIND)
    sync_file_range(f->file, (now - 1 - BEHIND) * PIECE, PIECE,
                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

/* Writes all of it. A limit on the size of files is an error like a full disk: the signal that would end the process is
   taken away. */
static int put(df_file *f, const char *bytes, int64_t n) {
  sigset_t limit, before, pending;
  sigemptyset(&limit);
  sigaddset(&limit, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &limit, &before);
  int code = 0;
  while (n > 0 && !code) {
    ssize_t done = write(f->file, bytes, (size_t)(n < PIECE ? n : PIECE));
    if (done < 0) {
      if (errno == EAGAIN) code = await_reader(f);
      else if (errno != EINTR) code = errno;
      continue;
    }
    bytes += done;
    n -= done;
    push(f, done);
  }
  const struct timespec none = { 0 };
  if (code == EFBIG && sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1)
    sigtimedwait(&limit, NULL, &none);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return code;
}

static int flush(df_file *f) {
  int64_t n = f->used;
  f->used = 0;
  return n ? put(f, f->buffer, n) : 0;
}

int32_t df_file_write(df_file *f, const void *bytes, int64_t n, df_error *err) {
  int code = 0;
  if (f->used + n > BUFFER || n >= DIRECT) code = flush(f);
  if (!code && n >= DIRECT) code = put(f, bytes, n);
  else if (!code && n > 0) {
    memcpy(f->buffer + f->used, bytes, (size_t)n);
    f->used += n;
  }
  return code ? fail(f, err, code) : DF_OK;
}

/* Gives a file that has no name one. */
static int give_name(df_file *f) {
  char from[64];
  snprintf(from, sizeof from, "/proc/self/fd/%d", f->file);
  for (;;) {
    int code = make_name(f);
    if (code) return code;
    if (linkat(AT_FDCWD, from, f->folder, f->name, AT_SYMLINK_FOLLOW) == 0) return 0;
    code = errno;
    f->name[0] = 0;
    if (code != EEXIST) return code;
  }
}

/* Whole on the disk, under a name of its own. */
static int settle(df_file *f) {
  if (f->file < 0) return 0;
  int code = flush(f);
  if (!f->in_place && !code && fsync(f->file) != 0) code = errno;
  if (!f->in_place && !code && !f->name[0]) code = give_name(f);
  if (close(f->file) != 0 && !code) code = errno;
  f->file = -1;
  return code;
}

int32_t dfi_file_settle(df_file *f, df_error *err) {
  const int code = settle(f);
  return code ? fail(f, err, code) : DF_OK;
}

/* The file that is to be replaced, held open if it is large; else -1. */
static int hold(const df_file *f, const char *last) {
  struct stat s;
  if (fstatat(f->folder, last, &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode) || s.st_size < LARGE) return -1;
  return openat(f->folder, last, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static void let_go(void *file) { close((int)(intptr_t)file); }

static int commit(df_file *f) {
  const int code = settle(f);
  if (code || f->in_place) return code;
  const char *slash = strrchr(f->target, '/'), *last = slash ? slash + 1 : f->target;
  const int replaced = hold(f, last);       /* a worker lets go of it: to free a gigabyte on the disk takes a second */
  const int moved = renameat(f->folder, f->name, f->folder, last) == 0 ? 0 : errno;
  if (replaced >= 0 && !dfi_pool_try(dfi_pool_get(1), let_go, (void *)(intptr_t)replaced)) close(replaced);
  if (moved) return moved;
  f->name[0] = 0;
  return fsync(f->folder) != 0 && errno != EINVAL && errno != EROFS ? errno : 0;
}

int32_t df_file_commit(df_file *f, df_error *err) {
  int code = commit(f);
  if (code) fail(f, err, code);
  df_file_discard(f);
  return code ? dfi_errno_code(code) : DF_OK;
}

void df_file_discard(df_file *f) {
  if (!f) return;
  if (f->file >= 0) close(f->file);
  if (f->name[0]) unlinkat(f->folder, f->name, 0);
  if (f->folder >= 0) close(f->folder);
  free(f);
}
