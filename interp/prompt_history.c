/* prompt_history.c: what was typed before, in one file of the XDG state directory.
 *
 * An entry is one line of the file, its own newlines written \n and its backslashes \\, so that an entry of several
 * lines stays whole whatever happens between two writes. Entries are appended at once, each under a lock on the file,
 * so that two prompts share it and nothing is lost when one is killed. When the file has grown long it is written anew
 * and renamed into place under the same lock; a prompt that waited for the lock on the old file opens the new one.
 * No prompt waits long: one that was stopped while it had the lock must not stop the others. A file that cannot be
 * written is read all the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <readline/history.h>

#include "dflow.h"
#include "prompt.h"

static char history_path[PATH_MAX];   /* "" when there is no place for it */

static bool make_folder(const char *path) {
  return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static void find_path(void) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  char folder[PATH_MAX - 32];
  int n = -1;
  if (state && state[0] == '/') {
    n = snprintf(folder, sizeof folder, "%s", state);
  } else if (home && home[0]) {
    n = snprintf(folder, sizeof folder, "%s/.local", home);
    if (n < 0 || n >= (int)sizeof folder || !make_folder(folder)) return;
    n = snprintf(folder, sizeof folder, "%s/.local/state", home);
  }
  if (n < 0 || n + 8 >= (int)sizeof folder || !make_folder(folder)) return;
  strcat(folder, "/dflow");
  if (make_folder(folder)) snprintf(history_path, sizeof history_path, "%s/history", folder);
}

/* Takes the lock; false when another prompt had it for half a second. */
static bool lock(int file) {
  const struct timespec moment = { .tv_nsec = 10 * 1000 * 1000 };
  for (int tries = 0; flock(file, LOCK_EX | LOCK_NB) != 0; tries++) {
    if (tries == 50) return false;
    nanosleep(&moment, NULL);
  }
  return true;
}

/* The file, open and (`*locked`) locked; -1 when there is none that can be written. Not locked an entry may still be
 * appended: that is one write. */
static int open_locked(bool *locked) {
  for (int tries = 0; tries < 16; tries++) {
    int file = open(history_path, O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
    if (file < 0) return -1;
    struct stat ours, named;
    if (fstat(file, &ours) != 0 || !S_ISREG(ours.st_mode)) {
      close(file);
      return -1;
    }
    *locked = lock(file);
    if (!*locked || (stat(history_path, &named) == 0 && ours.st_ino == named.st_ino && ours.st_dev == named.st_dev))
      return file;
    close(file);               /* it was replaced while we waited */
  }
  return -1;
}

static int open_to_read(void) {
  int file = open(history_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat about;
  if (file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode)) return file;
  if (file >= 0) close(file);
  return -1;
}

/* The entry as a line of the file; malloced, `*n` bytes. */
static char *packed(const char *text, size_t *n) {
  char *line = malloc(2 * strlen(text) + 2), *to = line;
  if (line == NULL) return NULL;
  for (; *text; text++) {
    if (*text == '\n' || *text == '\\') {
      *to++ = '\\';
      *to++ = *text == '\n' ? 'n' : '\\';
    } else {
      *to++ = *text;
    }
  }
  *to++ = '\n';
  *n = (size_t)(to - line);
  return line;
}

static void unpack(char *line) {
  char *to = line;
  for (; *line; line++) {
    if (*line == '\\' && line[1]) {
      line++;
      *to++ = *line == 'n' ? '\n' : *line;
    } else {
      *to++ = *line;
    }
  }
  *to = '\0';
}

static bool write_all(int file, const char *bytes, size_t n) {
  while (n > 0) {
    ssize_t done = write(file, bytes, n);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes += done;
    n -= (size_t)done;
  }
  return true;
}

/* Puts a file with the entries that are kept in the place of the old one, which is locked. Where that fails the old one
 * stays as it is. */
static void shorten(void) {
  df_file *file = df_file_create(history_path, NULL);
  bool good = file != NULL;
  for (int i = 0; good && i < history_length; i++) {
    HIST_ENTRY *entry = history_get(history_base + i);
    size_t n = 0;
    char *line = entry ? packed(entry->line, &n) : NULL;
    good = line && df_file_write(file, line, (int64_t)n, NULL) == DF_OK;
    free(line);
  }
  if (good) df_file_commit(file, NULL);
  else df_file_discard(file);
}

void history_open_file(int entries) {
  using_history();
  stifle_history(entries);
  find_path();
  if (history_path[0] == '\0') return;
  bool locked = false;
  int file = open_locked(&locked);
  if (file < 0) file = open_to_read();
  FILE *in = file < 0 ? NULL : fdopen(file, "r");
  if (in == NULL) {
    if (file >= 0) close(file);
    return;
  }
  char *line = NULL;
  size_t room = 0;
  ssize_t n;
  int count = 0;
  while ((n = getline(&line, &room, in)) > 0) {
    if (line[n - 1] != '\n') break;          /* the writer was killed */
    line[n - 1] = '\0';
    unpack(line);
    if (line[0]) add_history(line);
    count++;
  }
  free(line);
  if (locked && count > 2 * entries) shorten();
  fclose(in);
}

void history_remember(const char *text) {
  if (text[strspn(text, " \t\n")] == '\0') return;
  using_history();
  HIST_ENTRY *last = history_length > 0 ? history_get(history_base + history_length - 1) : NULL;
  if (last && strcmp(last->line, text) == 0) return;
  add_history(text);
  using_history();
  if (history_path[0] == '\0') return;
  size_t n = 0;
  char *line = packed(text, &n);
  bool locked = false;
  int file = line ? open_locked(&locked) : -1;
  if (file >= 0) {
    char end = '\n';
    off_t length = lseek(file, 0, SEEK_END);
    bool torn = length > 0 && pread(file, &end, 1, length - 1) == 1 && end != '\n';   /* another writer was killed */
    bool whole = (!torn || write_all(file, "\n", 1)) && write_all(file, line, n);
    if (!whole && locked && ftruncate(file, length) != 0) {}         /* no room for it: no half of it either */
    close(file);
  }
  free(line);
}
