/* sectors.c: a disk with a bad sector, for specs: preloaded, it has the n-th call that changes a folder fail with EIO.
 *
 * SECTOR_FOLDER says which folder. Opening SECTOR_FOLDER/bad-N for reading, which fails, counts anew from there: the
 * N-th write, fsync, link or rename below fails, a write after half of its bytes. All calls before and after it go
 * through.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int left;

static int below(const char *path) {
  const char *folder = getenv("SECTOR_FOLDER");
  return folder && strncmp(path, folder, strlen(folder)) == 0;
}

/* Is it the turn of this call on an open file or folder? */
static int turn(int file) {
  char link[32], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return 0;
  path[n] = 0;
  return below(path) && atomic_fetch_sub(&left, 1) == 1;
}

static int fail(void) { errno = EIO; return -1; }

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int file, const void *bytes, size_t n) {
  REAL(write);
  if (!turn(file)) return real(file, bytes, n);
  if (n > 1) real(file, bytes, n / 2);
  return fail();
}

int fsync(int file) {
  REAL(fsync);
  return turn(file) ? fail() : real(file);
}

int linkat(int from_folder, const char *from, int folder, const char *to, int flags) {
  REAL(linkat);
  return turn(folder) ? fail() : real(from_folder, from, folder, to, flags);
}

int renameat(int from_folder, const char *from, int folder, const char *to) {
  REAL(renameat);
  return turn(folder) ? fail() : real(from_folder, from, folder, to);
}

static int arms(const char *path) {
  const char *n = strstr(path, "/bad-");
  if (!n || !below(path)) return 0;
  atomic_store(&left, atoi(n + 5));
  errno = ENOENT;
  return 1;
}

FILE *fopen(const char *path, const char *mode) {
  REAL(fopen);
  return arms(path) ? NULL : real(path, mode);
}

FILE *fopen64(const char *path, const char *mode) {
  REAL(fopen64);
  return arms(path) ? NULL : real(path, mode);
}
