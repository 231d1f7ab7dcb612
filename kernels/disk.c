/* disk.c: see disk.h. */
#define _GNU_SOURCE
#include "disk.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What lies before the code in a file: that it is whole, and what it was made of. */
typedef struct preface { char magic[8]; uint64_t key[2], bytes, sum; } preface;

static uint64_t hash(uint64_t h, const void *p, size_t n) {
  const unsigned char *q = p;
  for (size_t i = 0; i < n; i++) h = (h ^ q[i]) * 1099511628211ull;
  return h;
}

void dfk_disk_hash(dfk_disk_key *key, const void *p, size_t bytes) {
  for (int i = 0; i < 2; i++) key->half[i] = hash(key->half[i], p, bytes);
}

void dfk_disk_hash_text(dfk_disk_key *key, const char *text) { dfk_disk_hash(key, text, strlen(text) + 1); }

/* ---- folders ----------------------------------------------------------------------------------------------------- */

/* Makes the folder and those above it. */
static bool make_folder(char *path) {
  for (char *at = path + 1;; at++) {
    if (*at != '/' && *at) continue;
    const char was = *at;
    *at = 0;
    const bool ok = mkdir(path, 0700) == 0 || errno == EEXIST;
    *at = was;
    if (!ok || !was) return ok;
  }
}

/* This user's, and no other may write it? */
static bool trusted(const struct stat *s) { return s->st_uid == geteuid() && !(s->st_mode & (S_IWGRP | S_IWOTH)); }

/* False: nothing is to be kept. */
static bool folder_of(const dfk_disk *d, char *folder, size_t room) {
  const char *asked = secure_getenv(d->variable), *cache = secure_getenv("XDG_CACHE_HOME"),
             *home = secure_getenv("HOME");
  struct stat s;
  int n = 0;
  if (asked) n = snprintf(folder, room, "%s", asked);
  else if (cache && cache[0] == '/') n = snprintf(folder, room, "%s/dflow/%s", cache, d->folder);
  else if (home && home[0] == '/') n = snprintf(folder, room, "%s/.cache/dflow/%s", home, d->folder);
  if (n <= 0 || n >= (int)room || folder[0] != '/' || !make_folder(folder)) return false;
  return !stat(folder, &s) && S_ISDIR(s.st_mode) && trusted(&s);
}

static bool path_of(const dfk_disk *d, const dfk_disk_key *key, const char *folder, char *path, size_t room) {
  return snprintf(path, room, "%s/%016llx%016llx.%s", folder, (unsigned long long)key->half[0],
                  (unsigned long long)key->half[1], d->suffix) < (int)room;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static bool read_all(int fd, void *to, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    const ssize_t n = read(fd, (char *)to + at, bytes - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += (size_t)n;
  }
  return true;
}

static void *read_file(const dfk_disk *d, const dfk_disk_key *key, int fd, size_t *bytes) {
  struct stat s;
  preface p;
  if (fstat(fd, &s) || !S_ISREG(s.st_mode) || !trusted(&s) || !read_all(fd, &p, sizeof p)) return NULL;
  if (memcmp(p.magic, d->magic, sizeof p.magic) || p.key[0] != key->half[0] || p.key[1] != key->half[1]) return NULL;
  if (!p.bytes || p.bytes > d->most || (uint64_t)s.st_size != p.bytes + sizeof p) return NULL;
  void *code = malloc(p.bytes);
  if (code && read_all(fd, code, p.bytes) && hash(p.key[0], code, p.bytes) == p.sum) {
    *bytes = p.bytes;
    futimens(fd, NULL);                                /* used: it is not the next to go */
    return code;
  }
  free(code);
  return NULL;
}

void *dfk_disk_read(const dfk_disk *d, const dfk_disk_key *key, size_t *bytes) {
  char folder[400], path[480];
  *bytes = 0;
  if (!folder_of(d, folder, sizeof folder) || !path_of(d, key, folder, path, sizeof path)) return NULL;
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return NULL;
  void *code = read_file(d, key, fd, bytes);
  close(fd);
  return code;
}

/* ---- a folder that is too large ---------------------------------------------------------------------------------- */

typedef struct entry { char name[80]; uint64_t bytes; struct timespec used; } entry;

static int by_age(const void *a, const void *b) {
  const struct timespec *x = &((const entry *)a)->used, *y = &((const entry *)b)->used;
  if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
  return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Our files in it, drafts that were not finished included; malloc's. */
static entry *list_of(const dfk_disk *d, DIR *in, size_t *n, uint64_t *bytes) {
  entry *all = NULL;
  size_t room = 0;
  for (const struct dirent *e; (e = readdir(in));) {
    struct stat s;
    const size_t length = strlen(e->d_name);
    const char *dot = strchr(e->d_name, '.');
    if (length >= sizeof all->name || dot != e->d_name + 32 || strncmp(dot + 1, d->suffix, strlen(d->suffix))) continue;
    if (fstatat(dirfd(in), e->d_name, &s, AT_SYMLINK_NOFOLLOW) || !S_ISREG(s.st_mode)) continue;
    if (*n == room) {
      entry *more = realloc(all, sizeof *all * (room = 2 * room + 64));
      if (!more) break;
      all = more;
    }
    memcpy(all[*n].name, e->d_name, length + 1);
    all[*n].bytes = (uint64_t)s.st_size;
    all[(*n)++].used = s.st_mtim;
    *bytes += (uint64_t)s.st_size;
  }
  return all;
}

static void shrink(const dfk_disk *d, const char *folder) {
  DIR *in = opendir(folder);
  if (!in) return;
  size_t n = 0;
  uint64_t bytes = 0;
  entry *all = list_of(d, in, &n, &bytes);
  if (bytes > d->most) {
    qsort(all, n, sizeof *all, by_age);
    for (size_t i = 0; i < n && bytes > d->most / 4 * 3; bytes -= all[i++].bytes) unlinkat(dirfd(in), all[i].name, 0);
  }
  free(all);
  closedir(in);
}

/* One file in so many has the folder looked at: of some thousand files that takes 10 ms, longer than a loop is
 * compiled. As keys are hashes it is as good as any, and needs no count that processes would have to share; their
 * lowest bits are a few bits of each byte, though, and may be the same for all. */
enum { LOOKS = 16 };

/* Others may write the same file: it is whole or not there. */
void dfk_disk_write(const dfk_disk *d, const dfk_disk_key *key, const void *code, size_t bytes) {
  preface p = { .key = { key->half[0], key->half[1] }, .bytes = bytes, .sum = hash(key->half[0], code, bytes) };
  char folder[400], path[480], draft[500];
  if (!bytes || bytes > d->most || !folder_of(d, folder, sizeof folder)) return;
  if (!path_of(d, key, folder, path, sizeof path)) return;
  memcpy(p.magic, d->magic, sizeof p.magic);
  snprintf(draft, sizeof draft, "%s.XXXXXX", path);      /* a process that died here may have had our number */
  const int fd = mkostemp(draft, O_CLOEXEC);
  if (fd < 0) return;
  const bool ok = write(fd, &p, sizeof p) == (ssize_t)sizeof p && write(fd, code, bytes) == (ssize_t)bytes;
  if (close(fd) || !ok || rename(draft, path)) unlink(draft);
  if ((key->half[0] >> 40) % LOOKS == 0) shrink(d, folder);
}
