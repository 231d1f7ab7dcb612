/* pty.c: a program on a terminal of its own, driven by lines on standard input; for spec/typist.lua.
 *
 *   pty COLUMNS ROWS program arguments…
 *
 * Every line gets one line for an answer. Bytes go as hexadecimal digits.
 *   type BYTES            types them
 *   type BYTES MS         types them MS milliseconds after the last answer
 *   wait SECONDS BYTES…   `yes N MS`, when the program has written the Nth of these, MS milliseconds after something
 *                         was typed last; what came before and with it is forgotten. `no` when none has come
 *   seen                  all that was written and not forgotten
 *   modes                 the modes of the terminal
 *   signal NUMBER         is sent to the program
 *   pid                   of the program
 *   ended SECONDS         `status N` (128 and more: by a signal), or `no`
 *   hangup                the terminal goes away
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <utmp.h>

static int    master, slave;          /* slave: kept open, so that what the program leaves behind can be read */
static pid_t  child;
static bool   over;
static int    status;
static char  *seen;                   /* written by the program, not yet forgotten */
static size_t nseen, room;
static double typed_at, answered_at;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Reads what the program writes, until `until` or as soon as something came. */
static bool take(double until) {
  double left = until - now();
  struct pollfd in = { .fd = master, .events = POLLIN };
  if (poll(&in, 1, left > 0 ? (int)(left * 1000) + 1 : 0) <= 0) return false;
  if (room - nseen < 65536) {
    room = room * 2 + 131072;
    seen = realloc(seen, room);
    if (!seen) exit(2);
  }
  ssize_t n = read(master, seen + nseen, 65536);
  if (n <= 0) return false;
  nseen += (size_t)n;
  return true;
}

static char *bytes_of(const char *hex, size_t *n) {
  char *out = malloc(strlen(hex) / 2 + 1);
  if (!out) exit(2);
  unsigned int c;
  for (*n = 0; sscanf(hex, "%2x", &c) == 1; hex += 2) out[(*n)++] = (char)c;
  return out;
}

static void type(const char *hex, double after_ms) {
  size_t n;
  char *bytes = bytes_of(hex, &n);
  if (after_ms >= 0) {
    double until = answered_at + after_ms / 1000;
    while (now() < until) take(until);
  }
  typed_at = now();
  for (size_t at = 0; at < n;) {
    ssize_t wrote = write(master, bytes + at, n - at);
    if (wrote > 0) at += (size_t)wrote;
    else if (errno != EAGAIN && errno != EINTR) break;
    else take(now() + 0.01);
  }
  free(bytes);
  puts("ok");
}

static void await(double seconds, char *hex) {
  enum { MOST = 16 };
  size_t n[MOST], count = 0;
  char *bytes[MOST];
  double until = now() + seconds;
  for (char *word = strtok(hex, " "); word && count < MOST; word = strtok(NULL, " "), count++)
    bytes[count] = bytes_of(word, &n[count]);
  for (;;) {
    char *first = NULL;
    size_t which = 0;
    for (size_t i = 0; i < count; i++) {
      char *at = nseen >= n[i] ? memmem(seen, nseen, bytes[i], n[i]) : NULL;
      if (at && (!first || at < first)) first = at, which = i;
    }
    if (first) {
      size_t behind = (size_t)(first - seen) + n[which];
      memmove(seen, seen + behind, nseen - behind);
      nseen -= behind;
      printf("yes %zu %.3f\n", which + 1, (now() - typed_at) * 1000);
      break;
    }
    if (!take(until) && now() >= until) {
      puts("no");
      break;
    }
  }
  for (size_t i = 0; i < count; i++) free(bytes[i]);
}

static void ended(double seconds) {
  double until = now() + seconds;
  int how;
  while (!over && now() < until) {
    if (waitpid(child, &how, WNOHANG) == child) {
      over = true;
      status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    } else take(now() + 0.005);
  }
  if (over) printf("status %d\n", status);
  else puts("no");
}

static void modes(void) {
  struct termios t;
  if (tcgetattr(slave, &t)) puts("none");
  else
    printf("%x %x %x %x %d %d %d\n", t.c_iflag, t.c_oflag, t.c_cflag, t.c_lflag, t.c_cc[VINTR], t.c_cc[VSUSP],
           t.c_cc[VEOF]);
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  struct winsize size = { .ws_col = (unsigned short)atoi(argv[1]), .ws_row = (unsigned short)atoi(argv[2]) };
  if (openpty(&master, &slave, NULL, NULL, &size)) return 2;
  child = fork();
  if (child < 0) return 2;
  if (!child) {
    close(master);
    if (login_tty(slave)) _exit(127);
    execvp(argv[3], argv + 3);
    _exit(127);
  }
  fcntl(master, F_SETFL, O_NONBLOCK);
  fcntl(master, F_SETFD, FD_CLOEXEC);
  setvbuf(stdout, NULL, _IOLBF, 0);
  char *line = NULL;
  size_t length = 0;
  while (getline(&line, &length, stdin) > 0) {
    char word[16] = "";
    int at = 0;
    sscanf(line, "%15s %n", word, &at);
    char *rest = line + at;
    rest[strcspn(rest, "\n")] = '\0';
    if (!strcmp(word, "type")) {
      char *space = strchr(rest, ' ');
      if (space) *space++ = '\0';
      type(rest, space ? atof(space) : -1);
    } else if (!strcmp(word, "wait")) {
      char *space = strchr(rest, ' ');
      await(atof(rest), space ? space + 1 : rest + strlen(rest));
    } else if (!strcmp(word, "seen")) {
      while (take(now())) { }
      for (size_t i = 0; i < nseen; i++) printf("%02x", (unsigned char)seen[i]);
      putchar('\n');
    } else if (!strcmp(word, "modes")) modes();
    else if (!strcmp(word, "signal")) printf("%s\n", kill(child, atoi(rest)) ? "no" : "ok");
    else if (!strcmp(word, "pid")) printf("%d\n", (int)child);
    else if (!strcmp(word, "ended")) ended(atof(rest));
    else if (!strcmp(word, "hangup")) {
      close(slave);
      close(master);
      master = slave = -1;
      puts("ok");
    } else puts("what?");
    answered_at = now();
  }
  if (!over) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  return 0;
}
