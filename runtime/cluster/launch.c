/* launch.c: ranks that mpirun or srun started. Their environment says how many there are and which one this is; no
 * library of MPI's is needed for that.
 *
 * On rank 0's host they meet at a Unix socket in a folder that is this user's alone, named by the job: rank 0
 * listens until all have come, hands each the memory that ranks share, and removes the socket. Both sides check the
 * other's user by the kernel's word (SO_PEERCRED). Nothing listens on a network. Those on other hosts come by MPI
 * (mpi.c).
 */
#define _GNU_SOURCE
#include "cluster/driver.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { MEET_SECONDS = 60 };
typedef struct greeting { char word[8]; int32_t rank, size; } greeting;
static const greeting hello = { .word = "dflow-1" };

/* ---- the environment ------------------------------------------------------------------------------- */

static int32_t number_in(const char *name, int32_t otherwise) {
  const char *text = getenv(name);
  char *end = NULL;
  const long n = text ? strtol(text, &end, 10) : 0;
  return text && end != text && !*end && n >= 0 && n < INT32_MAX ? (int32_t)n : otherwise;
}

static const char *text_in(const char *name) {
  const char *text = getenv(name);
  return text && text[0] ? text : NULL;
}

/* A field of /proc/PID/stat, counted from the state, which is 0; the process's name. 0: it is not there. */
static long long stat_of(long long pid, int32_t field, char name[64]) {
  char path[64], line[1024] = "";
  snprintf(path, sizeof path, "/proc/%lld/stat", pid);
  FILE *f = fopen(path, "r");
  const size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
  if (f) fclose(f);
  line[n] = 0;
  char *from = strchr(line, '('), *to = strrchr(line, ')');
  if (!from || !to) return 0;
  snprintf(name, 64, "%.*s", (int)(to - from - 1), from + 1);
  char *at = to + 1;
  for (int32_t i = 0; i < field && at; i++) at = strchr(at + 1, ' ');
  return at ? atoll(at) : 0;
}

/* The process that started the ranks of this host, and when it began: MPICH's launcher names no job. */
static void job_of_parent(char *job, size_t room) {
  enum { PARENT = 1, STARTED = 19 };
  char name[64] = "";
  long long found = getppid();
  for (long long pid = found; pid > 1; pid = stat_of(pid, PARENT, name)) {
    stat_of(pid, STARTED, name);
    if (strncmp(name, "hydra", 5) && strncmp(name, "mpi", 3)) continue;
    found = pid;
    break;
  }
  snprintf(job, room, "pid-%lld-%lld", found, stat_of(found, STARTED, name));
}

static void job_of(char *job, size_t room) {
  const char *name = text_in("PMIX_NAMESPACE"), *step = text_in("SLURM_STEP_ID"), *slurm = text_in("SLURM_JOB_ID");
  if (!name) name = text_in("OMPI_MCA_ess_base_jobid");
  if (name) snprintf(job, room, "pmix-%s", name);
  else if (slurm && step) snprintf(job, room, "slurm-%s-%s", slurm, step);
  else job_of_parent(job, room);
}

bool dfi_launched(dfi_launch *l) {
  if (getenv("DFLOW_JOINED")) return false;
  static const char *const names[][4] = {
    { "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "openmpi" },
    { "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "mpich" }, { "SLURM_STEP_NUM_TASKS", "PMIX_RANK", "", "openmpi" } };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    *l = (dfi_launch){ .size = number_in(names[i][0], 1), .rank = number_in(names[i][1], -1),
                        .mpi = names[i][3] };
    if (l->size < 2 || l->rank < 0 || l->rank >= l->size) continue;
    l->here = number_in(names[i][2], number_in("SLURM_STEP_NUM_NODES", 1) == 1 ? l->size : 1);
    job_of(l->job, sizeof l->job);
    return true;
  }
  return false;
}

int32_t df_cluster_launched(void) {
  dfi_launch l;
  return dfi_launched(&l) ? l.size : 1;
}

/* ---- where they meet ------------------------------------------------------------------------------- */

/* A folder that only this user can enter. */
static int32_t own_folder(char *path, size_t room, df_error *err) {
  struct stat about;
  const char *base = text_in("TMPDIR");
  snprintf(path, room, "%s/dflow-%u", base && strlen(base) < 40 ? base : "/tmp", (unsigned)geteuid());
  if (mkdir(path, 0700) && errno != EEXIST)
    return dfi_fail(err, dfi_errno_code(errno), NULL, "the ranks have no place to meet: `%s`: %s", path,
                    strerror(errno));
  if (!lstat(path, &about) && S_ISDIR(about.st_mode) && about.st_uid == geteuid() && !(about.st_mode & 077))
    return DF_OK;
  return dfi_fail(err, DF_PERMISSION_DENIED, NULL,
                  "the ranks cannot meet at `%s`: it is no folder that is this user's alone (mode 0700)", path);
}

static int32_t address_of(const dfi_launch *l, struct sockaddr_un *at, df_error *err) {
  char folder[64];
  *at = (struct sockaddr_un){ .sun_family = AF_UNIX };
  if (own_folder(folder, sizeof folder, err)) return err->code;
  const uint64_t job = dfi_hash_name(l->job, strlen(l->job)) * 0x9e3779b97f4a7c15u;
  snprintf(at->sun_path, sizeof at->sun_path, "%s/%016llx", folder, (unsigned long long)job);
  return DF_OK;
}

/* Does a process of this user hold the other end? *pid: which one. */
static bool is_ours(int fd, pid_t *pid) {
  struct ucred peer;
  socklen_t n = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) || peer.uid != geteuid()) return false;
  *pid = peer.pid;
  return true;
}

/* ---- rank 0 ---------------------------------------------------------------------------------------- */

static bool read_all(int fd, void *to, size_t n, int patience_ms) {
  for (size_t got = 0; got < n;) {
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    if (poll(&ready, 1, patience_ms) <= 0) return false;
    const ssize_t k = recv(fd, (char *)to + got, n - got, 0);
    if (k <= 0) return false;
    got += (size_t)k;
  }
  return true;
}

static bool hand_over(int fd, int memfd) {
  union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } control = { 0 };
  struct iovec part = { (void *)&hello, sizeof hello };
  struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                            .msg_controllen = sizeof control };
  struct cmsghdr *c = CMSG_FIRSTHDR(&message);
  *c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof memfd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
  memcpy(CMSG_DATA(c), &memfd, sizeof memfd);
  return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)sizeof hello;
}

/* One has come: it is a rank that has not been there yet, or is sent away. */
static bool welcome(const dfi_launch *l, dfi_worker *workers, int fd, int memfd) {
  greeting g;
  pid_t pid;
  if (!is_ours(fd, &pid) || !read_all(fd, &g, sizeof g, 2000) || memcmp(g.word, hello.word, sizeof g.word) ||
      g.size != l->size || g.rank < 1 || g.rank >= l->size || workers[g.rank].running || !hand_over(fd, memfd)) {
    close(fd);
    return false;
  }
  dfi_worker *w = &workers[g.rank];
  w->pid = pid;
  w->running = w->launched = true;
  w->pidfd = dfi_process_fd(pid);
  w->heard = dfi_now();
  gethostname(w->host, sizeof w->host - 1);
  dfi_channel_open(&w->channel, dfi_process_high(fd));
  return true;
}

static int32_t not_come(const dfi_launch *l, const dfi_worker *workers, df_error *err) {
  int32_t missing = 1;
  while (missing < l->size - 1 && workers[missing].running) missing++;
  return dfi_fail(err, DF_UNAVAILABLE, NULL, "rank %d of %d has not come within %d s: every rank runs `dflow`", missing,
                  l->size, MEET_SECONDS);
}

int32_t dfi_launch_accept(const dfi_launch *l, dfi_worker *workers, int memfd, df_error *err) {
  struct sockaddr_un at;
  if (address_of(l, &at, err)) return err->code;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  unlink(at.sun_path);                                   /* of a job before that had the same number */
  const mode_t mask = umask(0177);
  const bool bound = fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof at);
  umask(mask);
  int32_t code = DF_OK;
  if (!bound || listen(fd, l->size))
    code = dfi_fail(err, dfi_errno_code(errno), NULL, "the ranks cannot meet at `%s`: %s", at.sun_path,
                    strerror(errno));
  const double until = dfi_now() + MEET_SECONDS;
  int32_t come = 1;
  for (int32_t i = 1; i < l->size; i++) come += workers[i].running;
  while (!code && come < l->size) {
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    if (dfi_now() > until) { code = not_come(l, workers, err); break; }
    if (poll(&ready, 1, 100) <= 0) continue;
    const int one = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    if (one >= 0) come += welcome(l, workers, one, memfd);
  }
  if (bound) unlink(at.sun_path);
  if (fd >= 0) close(fd);
  return code;
}

/* ---- other ranks ----------------------------------------------------------------------------------- */

static int receive_memory(int fd) {
  greeting g;
  union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } control;
  struct iovec part = { &g, sizeof g };
  struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                            .msg_controllen = sizeof control };
  struct pollfd ready = { .fd = fd, .events = POLLIN };
  if (poll(&ready, 1, MEET_SECONDS * 1000) <= 0 ||
      recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) != (ssize_t)sizeof g)
    return -1;
  const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
  int memfd = -1;
  if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) memcpy(&memfd, CMSG_DATA(c), sizeof memfd);
  return memfd;
}

/* A connection to rank 0, once it is there; -1: it is not. */
static int reach(const struct sockaddr_un *at, double until) {
  while (dfi_now() < until) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pid_t pid;
    if (fd < 0) return -1;
    if (!connect(fd, (const struct sockaddr *)at, sizeof *at) && is_ours(fd, &pid)) return fd;
    close(fd);
    usleep(2000);
  }
  return -1;
}

int32_t dfi_launch_connect(const dfi_launch *l, int *channel, int *memfd, df_error *err) {
  struct sockaddr_un at;
  if (address_of(l, &at, err)) return err->code;
  const double until = dfi_now() + MEET_SECONDS;
  greeting g = hello;
  g.rank = l->rank;
  g.size = l->size;
  *memfd = -1;
  while (*memfd < 0 && dfi_now() < until) {              /* what listened may be left over from a job before */
    if ((*channel = reach(&at, until)) < 0) break;
    if (send(*channel, &g, sizeof g, MSG_NOSIGNAL) == (ssize_t)sizeof g) *memfd = receive_memory(*channel);
    if (*memfd < 0) { close(*channel); usleep(2000); }
  }
  if (*memfd >= 0) return DF_OK;
  return dfi_fail(err, DF_UNAVAILABLE, NULL, "rank %d has not found rank 0 within %d s at `%s`: rank 0 runs `dflow`, "
                  "with a script or the prompt", l->rank, MEET_SECONDS, at.sun_path);
}
