/* prompt_ahead.c: the bytes that were typed and that readline has not read yet.
 *
 * Some lie here: what came behind a paste, keys that stand for a signal, and what was typed behind Enter before the
 * terminal was itself again. Ctrl-C is an ordinary key while one types, so one of the latter is a byte, not a signal,
 * and it would not be heard before the run is over. prompt_hear() looks for it; the rest is lent to the C library's
 * stdin, where io.read() finds it as it would find it in the terminal, and taken back for the next prompt.
 */
#define _GNU_SOURCE 1
#include <poll.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <readline/readline.h>

#include "program.h"
#include "prompt.h"

static char *ahead;                   /* malloced; from `at` up to `n` it is still to be read */
static size_t n, at;
static bool lent;                     /* stdin may have some of it */
static sig_atomic_t signals;          /* how many Ctrl-C there had been then */

static int read_key(FILE *in) {
  if (at < n) return (unsigned char)ahead[at++];
  return rl_getc(in);
}

static int available(void) {
  if (at < n) return 1;
  rl_input_available_hook = NULL;
  struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
  return poll(&in, 1, 0) > 0;
}

void prompt_ahead_open(void) { rl_getc_function = read_key; }

int  prompt_key(void) { return read_key(rl_instream); }
bool prompt_pushed(void) { return at < n; }

/* Puts bytes before or behind all others. */
static void put(const char *bytes, size_t count, bool behind) {
  size_t left = n - at;
  char *all = malloc(count + left);
  if (all == NULL) return;
  if (left) memcpy(all + (behind ? 0 : count), ahead + at, left);
  memcpy(all + (behind ? left : 0), bytes, count);
  free(ahead);
  ahead = all;
  at = 0;
  n = count + left;
  rl_input_available_hook = available;
}

void prompt_push_back(const char *bytes, size_t count) { put(bytes, count, false); }

/* Sets the terminal's interrupting key, unless it is 0, and that reads do not wait: they give what is there. */
static bool reads_at_once(struct termios *were, int key) {
  if (tcgetattr(STDIN_FILENO, were) != 0) return false;
  struct termios now = *were;
  now.c_cc[VMIN] = now.c_cc[VTIME] = 0;
  if (key) now.c_cc[VINTR] = (cc_t)key;
  return tcsetattr(STDIN_FILENO, TCSANOW, &now) == 0;
}

/* A line was entered; `key` interrupts from now on. What was typed before it is dropped, as the terminal does where it
 * sees the key itself. */
void prompt_hear(int key) {
  struct termios were;
  if (!reads_at_once(&were, key)) return;
  char bytes[1024];
  for (ssize_t got; (got = read(STDIN_FILENO, bytes, sizeof bytes)) > 0;) put(bytes, (size_t)got, true);
  for (size_t i = n; i > at; i--)
    if (ahead[i - 1] == (char)key) {
      at = i;
      program_interrupted = 1;
    }
  signals = program_signals;
  lent = at < n;
  /* Enter is what ends a line there */
  while (at < n && ungetc(ahead[n - 1] == '\r' ? '\n' : ahead[n - 1], stdin) != EOF) n--;
}

void prompt_take_back(void) {
  struct termios were;
  if (!lent || !reads_at_once(&were, 0)) return;
  lent = false;
  if (signals != program_signals) {   /* the terminal drops what was typed before Ctrl-C: so is what was lent */
    __fpurge(stdin);
    at = n;
  }
  size_t count = 0;
  char bytes[1024];
  for (int c; (c = getc(stdin)) != EOF;) {
    if (count == sizeof bytes) {
      put(bytes, count, true);
      count = 0;
    }
    bytes[count++] = (char)c;
  }
  if (count) put(bytes, count, true);
  clearerr(stdin);
  tcsetattr(STDIN_FILENO, TCSANOW, &were);
}
