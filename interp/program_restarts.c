/* program_restarts.c: `dflow --restarts 3 -- mpirun -n 4 dflow script.lua`: runs a command, and again where it fails. A
 * script that goes on from its last checkpoint loses nothing by that.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

static volatile sig_atomic_t child, asked;      /* asked: the signal that ends this process and the command */

static void pass_on(int signal) {
  asked = signal;
  if (child > 0) kill((pid_t)child, signal);
}

/* Runs it to its end: its exit status, as a shell gives it. */
static int run_once(char **argv) {
  int status;
  const pid_t pid = fork();
  if (pid == 0) {
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    execvp(argv[0], argv);
    fprintf(stderr, "dflow: cannot run `%s`: %s\n", argv[0], strerror(errno));
    _exit(127);
  }
  if (pid < 0) {
    fprintf(stderr, "dflow: cannot start `%s`: %s\n", argv[0], strerror(errno));
    return 126;
  }
  child = pid;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  child = 0;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int program_restarts(char **argv) {
  char *end = NULL;
  const long most = argv[0] ? strtol(argv[0], &end, 10) : -1;
  if (!argv[0] || end == argv[0] || *end || most < 0 || most > 1000000 || !argv[1] || strcmp(argv[1], "--") != 0 ||
      !argv[2]) {
    fprintf(stderr, "usage: dflow --restarts n -- command [args]\n"
                    "runs the command, and again where it does not end with status 0: at most n times more\n");
    return 1;
  }
  struct sigaction action = { .sa_handler = pass_on };
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  for (long again = 0;; again++) {
    char number[32];
    snprintf(number, sizeof number, "%ld", again);
    setenv("DFLOW_RESTART", number, 1);
    const int status = run_once(argv + 2);
    if (!status || asked || status == 126 || status == 127 || again == most) return status;
    fprintf(stderr, "dflow: `%s` ended with status %d: it is started again (%ld of %ld)\n", argv[2], status, again + 1,
            most);
    usleep(200000);                             /* what it started ends, too */
  }
}
