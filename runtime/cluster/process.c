/* process.c: worker processes of this host: started with a socket and memory that they inherit, so that nothing listens
 * and nothing is in their arguments or environment. */
#define _GNU_SOURCE
#include "cluster/bridge.h"
#include "cluster/driver.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- the program ------------------------------------------------------------------------------------------------- */

static bool runs(const char *path) { return path[0] && access(path, X_OK) == 0; }

static void folder_of(char *path) {
  char *slash = strrchr(path, '/');
  if (slash) *slash = 0;
}

static bool is_dflow(const char *path) {
  const char *slash = strrchr(path, '/');
  return !strcmp(slash ? slash + 1 : path, "dflow");
}

static bool in_path(char *path, size_t room) {
  const char *list = getenv("PATH");
  for (const char *at = list ? list : ""; *at;) {
    const size_t n = strcspn(at, ":");
    snprintf(path, room, "%.*s/dflow", (int)n, at);
    if (n && runs(path)) return true;
    at += n + (at[n] == ':');
  }
  return false;
}

bool dfi_process_program(const char *asked, char *path, size_t room) {
  if (asked && asked[0]) { snprintf(path, room, "%s", asked); return runs(path); }
  const ssize_t n = readlink("/proc/self/exe", path, room - 1);
  if (n > 0) {
    path[n] = 0;
    if (is_dflow(path)) return true;
  }
  Dl_info about;
  char library[PATH_MAX];
  if (dladdr((void *)(uintptr_t)dfi_process_program, &about) && about.dli_fname && realpath(about.dli_fname, library)) {
    folder_of(library);
    snprintf(path, room, "%s/dflow", library);                /* in the build tree */
    if (runs(path)) return true;
    folder_of(library);
    snprintf(path, room, "%s/bin/dflow", library);            /* <prefix>/lib beside <prefix>/bin */
    if (runs(path)) return true;
  }
  return in_path(path, room);
}

/* ---- life -------------------------------------------------------------------------------------------- */

int dfi_process_fd(pid_t pid) {
#ifdef SYS_pidfd_open
  const long fd = syscall(SYS_pidfd_open, pid, 0u);
  if (fd >= 0) fcntl((int)fd, F_SETFD, FD_CLOEXEC);
  return (int)fd;
#else
  return -1;
#endif
}

/* Where the worker's own will not be in the way. */
int dfi_process_high(int fd) {
  const int up = fcntl(fd, F_DUPFD_CLOEXEC, 10);
  close(fd);
  return up;
}

/* `dflow --worker` and, where this process is that program, its own words: it may be asked to run them (SPMD). */
static char **worker_words(const char *program, char **words) {
  char self[PATH_MAX] = "";
  size_t n = 0, cap = 0;
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  FILE *f = length > 0 && is_dflow(self) && !strcmp(self, program) ? fopen("/proc/self/cmdline", "r") : NULL;
  *words = NULL;
  for (int c; f && (c = getc(f)) != EOF; (*words)[n++] = (char)c)
    if (n == cap) *words = dfi_xrealloc(*words, cap = 2 * cap + 256);
  if (f) fclose(f);
  size_t argc = 2;
  for (size_t i = 0; i < n; i++) argc += !(*words)[i];
  char **argv = dfi_xcalloc(argc + 1, sizeof *argv);
  argv[0] = (char *)program;
  argv[1] = "--worker";
  size_t k = 1;
  for (size_t at = 0; at < n && k < argc; at += strlen(*words + at) + 1, k++) if (k > 1) argv[k] = *words + at;
  return argv;
}

static int32_t spawn(pid_t *pid, const char *program, int theirs, int memfd) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  sigset_t none, defaults;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, theirs, DFI_FD_SOCKET);
  posix_spawn_file_actions_adddup2(&files, memfd, DFI_FD_MEMORY);
  posix_spawnattr_init(&how);
  sigemptyset(&none);
  sigfillset(&defaults);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setsigdefault(&how, &defaults);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  char *words, **argv = worker_words(program, &words);
  const int32_t status = posix_spawn(pid, program, &files, &how, argv, environ);
  dfi_free(argv);
  dfi_free(words);
  posix_spawnattr_destroy(&how);
  posix_spawn_file_actions_destroy(&files);
  return status;
}

int32_t dfi_process_start(dfi_worker *w, const char *program, int memfd, df_error *err) {
  int pair[2];
  pid_t pid = 0;
  char host[sizeof w->host] = "";
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
    return dfi_fail(err, dfi_errno_code(errno), NULL, "no socket for rank %d: %s", w->rank, strerror(errno));
  const int ours = dfi_process_high(pair[0]), theirs = dfi_process_high(pair[1]);
  const int32_t status = ours < 0 || theirs < 0 ? errno : spawn(&pid, program, theirs, memfd);
  if (theirs >= 0) close(theirs);
  gethostname(host, sizeof host - 1);
  dfi_driver_names(w, status ? 0 : pid, host);
  if (status) {
    if (ours >= 0) close(ours);
    return dfi_fail(err, dfi_errno_code(status), NULL, "rank %d could not be started as `%s --worker`: %s", w->rank,
                    program, strerror(status));
  }
  w->running = true;
  w->pidfd = dfi_process_fd(pid);
  dfi_channel_open(&w->channel, ours);
  return DF_OK;
}

void dfi_process_forget(dfi_worker *w) {
  w->running = false;
  if (w->pidfd >= 0) close(w->pidfd);
  w->pidfd = -1;
}

static bool launched_lives(const dfi_worker *w) {
  struct pollfd ended = { .fd = w->pidfd, .events = POLLIN };
  if (w->bridge) return !dfi_bridge_over(w->bridge);                 /* on another host */
  return w->pidfd >= 0 ? poll(&ended, 1, 0) <= 0 : !kill(w->pid, 0) || errno != ESRCH;
}

/* A rank on another host has a shell here, which ends with 128 and the signal (hosts.c). ssh itself ends with 255. */
static void say_status(dfi_worker *w, int status, char *why, size_t room) {
  enum { KILLED = 128, SIGNALS = 64 };
  const int code = WIFSIGNALED(status) ? KILLED + WTERMSIG(status) : WEXITSTATUS(status);
  const bool killed = WIFSIGNALED(status) || (w->bridge && code > KILLED && code <= KILLED + SIGNALS);
  if (killed) snprintf(why, room, "was killed by signal %d", code - KILLED);
  else snprintf(why, room, "has ended with status %d", w->status = code);
}

/* How a process has ended that is not this one's child: Linux 6.15 tells it (PIDFD_GET_INFO) when the parent has been
 * told, which is soon. */
static bool status_of(int pidfd, int *status) {
  struct { uint64_t mask, cgroup; uint32_t ids[11]; int32_t status; } info;        /* the first pidfd_info */
  enum { INFO_EXIT = 1 << 3, LOOKS = 20 };
  for (int32_t i = 0; i < LOOKS; i++) {
    info.mask = INFO_EXIT;
    if (ioctl(pidfd, _IOWR(0xff, 11, info), &info)) return false;
    *status = info.status;
    if (info.mask & INFO_EXIT) return true;
    usleep(1000);
  }
  return false;
}

bool dfi_process_learn(dfi_worker *w, char *why, size_t room) {
  int status;
  const bool is = w->launched && !w->running && w->pidfd >= 0 && status_of(w->pidfd, &status);
  if (is) say_status(w, status, why, room);
  if (!w->running) dfi_process_forget(w);
  return is;
}

/* Only that it has ended is said here. dfi_process_learn, which may wait, is for later: a launcher that has lost a rank
 * may end this process at once. */
static bool launched_ended(dfi_worker *w, char *why, size_t room) {
  if (launched_lives(w)) return false;
  snprintf(why, room, "has ended");
  w->running = false;
  return true;
}

bool dfi_process_ended(dfi_worker *w, char *why, size_t room) {
  int status;
  if (!w->running) return true;
  if (w->launched) return launched_ended(w, why, room);
  const pid_t found = waitpid(w->pid, &status, WNOHANG);
  if (!found || (found < 0 && errno == EINTR)) return false;
  if (found < 0) snprintf(why, room, "has ended");              /* the program reaps its children itself */
  else say_status(w, status, why, room);
  dfi_process_forget(w);
  return true;
}

void dfi_process_kill(dfi_worker *w) {
  int status;
  char why[64];
  if (!dfi_process_ended(w, why, sizeof why)) {
    if (!w->launched || !w->bridge) kill(w->pid, SIGKILL);         /* else the process is another host's */
    while (!w->launched && waitpid(w->pid, &status, 0) < 0 && errno == EINTR) {}
  }
  dfi_process_forget(w);
}

/* ---- memory ------------------------------------------------------------------------------------------ */

void *dfi_process_memory(int32_t n, int *memfd, int64_t *bytes, df_error *err) {
  *bytes = dfi_ring_bytes(n);
  *memfd = dfi_process_high(memfd_create("dflow-ranks", MFD_CLOEXEC));
  void *memory = *memfd >= 0 && !ftruncate(*memfd, *bytes)
                   ? mmap(NULL, (size_t)*bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *memfd, 0) : MAP_FAILED;
  if (memory == MAP_FAILED)
    return dfi_fail(err, dfi_errno_code(errno), NULL, "no memory for %d ranks to share: %s", n, strerror(errno)), NULL;
  dfi_ring_init(memory, n);
  return memory;
}
