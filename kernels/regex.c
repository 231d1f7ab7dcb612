/* regex.c: regular expressions in RE2's syntax, without look-around and back references, which RE2 lacks, too.
 *
 * A pattern becomes a program, whose jumps are relative, so that a repeated piece is a copy of its instructions.
 * Threads of the program go over the text side by side, one character at a time, in the order of preference (Pike's
 * machine): time is at most length of text times length of program, whatever the pattern. A program has at most
 * TOO_LONG instructions. Characters are those of UTF-8; a byte that begins none is a character of its own.
 */
#include "regex.h"
#include "utf8.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { TOO_LONG = 10000, RANGES_AT_MOST = 4096, DEEP = 100, REPEAT_AT_MOST = 1000, LAST = 0x10ffff };
enum { CHAR, ANY, CLASS, MATCH, JUMP, SPLIT, SAVE, BEGIN, END, LINE_BEGIN, LINE_END, WORD, NOT_WORD };

typedef struct inst {
  uint8_t op;
  bool fold, negated;           /* of CHAR and CLASS: letters of ASCII in either case; of CLASS: not these */
  /* CHAR: character; CLASS: ranges [x, y); JUMP, SPLIT: where to, from here; SAVE: slot */
  int32_t x, y;
} inst;
typedef struct range { int32_t low, high; } range;

struct dfk_regex {
  int32_t n, nrange, groups;
  inst   *code;                 /* owned, TOO_LONG of room */
  range  *range;                /* owned, RANGES_AT_MOST of room */
  int32_t *work;                /* owned: what a match needs, see `machine` */
  int64_t *slots;               /* owned: the same */
};

/* ---- the pattern ----------------------------------------------------------------------------------------------- */

typedef struct parser {
  df_kernel *k;
  dfk_regex *r;
  const char *at, *end, *begin;
  int32_t depth;
  bool fold, dot_all, lines, lazy, failed;
} parser;

static bool fail(parser *p, const char *why) {
  if (!p->failed)
    dfk_fail(p->k, DF_INVALID_ARGUMENT, "the pattern '%.*s' at byte %lld: %s", (int)(p->end - p->begin > 100 ? 100 :
             p->end - p->begin), p->begin, (long long)(p->at - p->begin), why);
  p->failed = true;
  return false;
}

static int32_t next_char(parser *p) {
  int32_t c;
  p->at += dfk_utf8(p->at, p->end - p->at, &c);
  return c;
}
static bool looking_at(const parser *p, const char *word) {
  const size_t n = strlen(word);
  return (size_t)(p->end - p->at) >= n && !memcmp(p->at, word, n);
}
static bool take(parser *p, const char *word) {
  if (!looking_at(p, word)) return false;
  p->at += strlen(word);
  return true;
}

/* Makes room for n instructions at `at`; what follows moves. */
static bool open_room(parser *p, int32_t at, int32_t n) {
  if (p->r->n + n > TOO_LONG) return fail(p, "the pattern is too long, or repeats too much");
  memmove(p->r->code + at + n, p->r->code + at, sizeof(inst) * (size_t)(p->r->n - at));
  p->r->n += n;
  return true;
}
static bool put(parser *p, int32_t at, inst i) {
  if (!open_room(p, at, 1)) return false;
  p->r->code[at] = i;
  return true;
}
static bool emit(parser *p, inst i) { return put(p, p->r->n, i); }

static bool add_range(parser *p, int32_t low, int32_t high) {
  if (p->r->nrange == RANGES_AT_MOST) return fail(p, "its classes have too many ranges");
  p->r->range[p->r->nrange++] = (range){ low, high };
  return true;
}

static const struct { const char *name; range of[4]; } classes[] = {
  { "alnum", { { '0', '9' }, { 'A', 'Z' }, { 'a', 'z' } } }, { "alpha", { { 'A', 'Z' }, { 'a', 'z' } } },
  { "ascii", { { 0, 127 } } }, { "blank", { { '\t', '\t' }, { ' ', ' ' } } },
  { "cntrl", { { 0, 31 }, { 127, 127 } } }, { "digit", { { '0', '9' } } },
  { "graph", { { '!', '~' } } }, { "lower", { { 'a', 'z' } } }, { "print", { { ' ', '~' } } },
  { "punct", { { '!', '/' }, { ':', '@' }, { '[', '`' }, { '{', '~' } } },
  { "space", { { '\t', '\r' }, { ' ', ' ' } } }, { "upper", { { 'A', 'Z' } } },
  { "word", { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } } },
  { "xdigit", { { '0', '9' }, { 'A', 'F' }, { 'a', 'f' } } },
  { "perl space", { { '\t', '\n' }, { '\f', '\r' }, { ' ', ' ' } } },
};

/* Adds the class of that name, or all characters but those of it. */
static bool add_class(parser *p, const char *name, size_t n, bool negated) {
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
    if (strlen(classes[i].name) != n || memcmp(classes[i].name, name, n)) continue;
    int32_t from = 0;
    for (int32_t r = 0; r < 4 && (r == 0 || classes[i].of[r].high); r++) {
      const range of = classes[i].of[r];
      if (!negated) { if (!add_range(p, of.low, of.high)) return false; }
      else if (of.low > from && !add_range(p, from, of.low - 1)) return false;
      from = of.high + 1;
    }
    return !negated || add_range(p, from, LAST);
  }
  return fail(p, "there is no class of this name");
}

/* Behind a backslash, the letter c: \d, \w, \s and their opposites. False: it is none of these. */
static bool perl_class(parser *p, int32_t c, bool *good) {
  const char *name = strchr("dD", c) ? "digit" : strchr("wW", c) ? "word" : strchr("sS", c) ? "perl space" : NULL;
  if (!c || !name) return false;
  *good = add_class(p, name, strlen(name), c < 'a');
  return true;
}

static int32_t hex_digit(parser *p) {
  if (p->at == p->end || !isxdigit((unsigned char)*p->at)) return -1;
  const char c = *p->at++;
  return c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
}

/* Behind \x: two digits, or as many as stand in braces. */
static int32_t hex_char(parser *p) {
  const bool braces = take(p, "{");
  int32_t v = 0, n = 0;
  for (int32_t d; n < (braces ? 6 : 2) && (d = hex_digit(p)) >= 0; n++) v = v * 16 + d;
  if (n < (braces ? 1 : 2) || v > LAST || (braces && !take(p, "}"))) fail(p,
                                                                          "\\x takes two hexadecimal digits, or "
                                        "{10ffff}");
  return v;
}

/* The character that stands behind a backslash. */
static int32_t escaped(parser *p) {
  if (p->at == p->end) return fail(p, "a backslash ends it"), 0;
  const int32_t c = next_char(p);
  switch (c) {
    case 'a': return '\a';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'v': return '\v';
    case 'x': return hex_char(p);
    default: break;
  }
  if (c < 128 && isalnum(c)) fail(p, "this letter or digit has no meaning here behind a backslash");
  return c;
}

/* Behind [: a class up to its ]. */
static bool bracket(parser *p) {
  inst i = { .op = CLASS, .fold = p->fold, .x = p->r->nrange, .negated = take(p, "^") };
  for (bool first = true; first || !looking_at(p, "]"); first = false) {
    if (p->at == p->end) return fail(p, "a ] is missing");
    if (take(p, "[:")) {
      const bool negated = take(p, "^");
      const char *name = p->at;
      while (p->at < p->end && islower((unsigned char)*p->at)) p->at++;
      const size_t n = (size_t)(p->at - name);
      if (!take(p, ":]")) return fail(p, ":] is missing");
      if (!add_class(p, name, n, negated)) return false;
      continue;
    }
    int32_t low = next_char(p), high;
    bool good = true;
    if (low == '\\' && p->at < p->end) {
      if (perl_class(p, (unsigned char)*p->at, &good)) { p->at++; if (!good) return false; continue; }
      low = escaped(p);
    }
    high = low;
    if (looking_at(p, "-") && p->end - p->at > 1 && p->at[1] != ']') {
      p->at++;
      high = next_char(p);
      if (high == '\\') high = escaped(p);
      if (high < low) return fail(p, "a range ends below its beginning");
    }
    if (p->failed || !add_range(p, low, high)) return false;
  }
  p->at++;
  i.y = p->r->nrange;
  return emit(p, i);
}

static bool alternatives(parser *p);

/* Behind (?: flags up to : or ). *group: what follows is a group. */
static bool flags(parser *p, bool *group) {
  for (bool on = true;;) {
    if (p->at == p->end) return fail(p, "a ) is missing");
    switch (*p->at++) {
      case 'i': p->fold = on; break;
      case 's': p->dot_all = on; break;
      case 'm': p->lines = on; break;
      case 'U': p->lazy = on; break;
      case '-': on = false; break;
      case ':': *group = true; return true;
      case ')': *group = false; return true;
      default: p->at--; return fail(p, "(? begins a group (?:…), (?P<name>…) or flags (?i), of imsU");
    }
  }
}

/* Behind (: a group up to its ). */
static bool group(parser *p, bool *piece) {
  const parser was = *p;
  int32_t number = DFK_GROUPS;
  if (take(p, "?P<") || take(p, "?<")) {
    while (p->at < p->end && (isalnum((unsigned char)*p->at) || *p->at == '_')) p->at++;
    if (!take(p, ">")) return fail(p, "a group's name ends with >");
    number = ++p->r->groups;
  } else if (take(p, "?")) {
    if (!flags(p, piece) || !*piece) return !p->failed;
  } else {
    number = ++p->r->groups;
  }
  *piece = true;
  if (++p->depth > DEEP) return fail(p, "its groups are too deep");
  if (number < DFK_GROUPS && !emit(p, (inst){ .op = SAVE, .x = 2 * number })) return false;
  if (!alternatives(p)) return false;
  if (!take(p, ")")) return fail(p, "a ) is missing");
  p->depth--;
  p->fold = was.fold; p->dot_all = was.dot_all; p->lines = was.lines; p->lazy = was.lazy;
  return number >= DFK_GROUPS || emit(p, (inst){ .op = SAVE, .x = 2 * number + 1 });
}

/* Behind a backslash. */
static bool backslash(parser *p) {
  const int32_t c = p->at < p->end ? (unsigned char)*p->at : 0, first = p->r->nrange;
  const uint8_t op = c == 'A' ? BEGIN : c == 'z' ? END : c == 'b' ? WORD : c == 'B' ? NOT_WORD : CHAR;
  bool good;
  if (op != CHAR) {
    p->at++;
    return emit(p, (inst){ .op = op });
  }
  if (perl_class(p, c, &good)) {
    p->at++;
    return good && emit(p, (inst){ .op = CLASS, .x = first, .y = p->r->nrange });
  }
  const int32_t is = escaped(p);
  return !p->failed && emit(p, (inst){ .op = CHAR, .fold = p->fold, .x = is });
}

/* One piece without what repeats it. *piece: there is something to be repeated. */
static bool piece_of(parser *p, bool *piece) {
  *piece = true;
  const char *start = p->at;
  const int32_t c = next_char(p);
  switch (c) {
    case '(': return group(p, piece);
    case '[': return bracket(p);
    case '\\': return backslash(p);
    case '.':
      return emit(p, (inst){ .op = ANY, .x = p->dot_all });
    case '^': return emit(p, (inst){ .op = p->lines ? LINE_BEGIN : BEGIN });
    case '$': return emit(p, (inst){ .op = p->lines ? LINE_END : END });
    case '*': case '+': case '?':
      p->at = start;
      return fail(p, "there is nothing to repeat");
    default: return emit(p, (inst){ .op = CHAR, .fold = p->fold, .x = c });
  }
}

/* {n}, {n,} or {n,m}; high -1: no end. False: the brace is a character. */
static bool counts(parser *p, int32_t *low, int32_t *high) {
  const char *s = p->at + 1;
  int64_t v[2] = { -1, -1 };
  int32_t i = 0;
  for (; s < p->end && *s != '}'; s++) {
    if (*s == ',' && i == 0 && v[0] >= 0) i = 1;
    else if (isdigit((unsigned char)*s)) v[i] = v[i] < 0 ? *s - '0' : v[i] > 9999 ? v[i] : v[i] * 10 + *s - '0';
    else return false;
  }
  if (s == p->end || v[0] < 0) return false;
  p->at = s + 1;
  *low = (int32_t)v[0];
  *high = i ? (int32_t)v[1] : *low;
  return true;
}

/* Copies the instructions [from, from + n) to the end. */
static bool copy(parser *p, int32_t from, int32_t n) {
  const int32_t at = p->r->n;
  if (!open_room(p, at, n)) return false;
  memcpy(p->r->code + at, p->r->code + from, sizeof(inst) * (size_t)n);
  return true;
}

/* A SPLIT whose first way is preferred: on to the next instruction, or, lazily, away. */
static inst choose(bool lazy, int32_t on, int32_t away) {
  return (inst){ .op = SPLIT, .x = lazy ? away : on, .y = lazy ? on : away };
}

/* The piece that begins at `from`, low to high times (-1: without end). */
static bool repeat(parser *p, int32_t from, int32_t low, int32_t high, bool lazy) {
  const int32_t n = p->r->n - from;
  if (low > REPEAT_AT_MOST || high > REPEAT_AT_MOST || (high >= 0 && high < low))
    return fail(p, "a piece is repeated {low,high} times, 1000 at most");
  if (low == 0 && high < 0)
    return put(p, from, choose(lazy, 1, n + 2)) && emit(p, choose(lazy, -n, 1));
  if (high == 0) { p->r->n = from; return true; }
  for (int32_t i = 1; i < low; i++) if (!copy(p, from, n)) return false;
  if (high < 0) return emit(p, choose(lazy, -n, 1));
  const int32_t more = high - low, end = p->r->n;
  if (low == 0) {
    if (!put(p, from, choose(lazy, 1, 0))) return false;
    for (int32_t i = 1; i < more; i++) if (!copy(p, from, n + 1)) return false;
  }
  for (int32_t i = 0; low && i < more; i++) if (!emit(p, choose(lazy, 1, 0)) || !copy(p, from, n)) return false;
  /* all that is left is left out at once */
  for (int32_t i = 0, at = low ? end : from; i < more; i++, at += n + 1) {
    inst *split = p->r->code + at;
    *(lazy ? &split->x : &split->y) = p->r->n - at;
  }
  return true;
}

/* Takes *, +, ? or {low,high}. */
static bool take_counts(parser *p, int32_t *low, int32_t *high) {
  *low = 0;
  *high = -1;
  if (take(p, "+")) *low = 1;
  else if (take(p, "?")) *high = 1;
  else return take(p, "*") || (looking_at(p, "{") && counts(p, low, high));
  return true;
}

static bool repeated(parser *p) {
  const int32_t from = p->r->n;
  int32_t low, high;
  bool piece;
  if (!piece_of(p, &piece)) return false;
  if (!piece || !take_counts(p, &low, &high)) return true;
  if (!repeat(p, from, low, high, take(p, "?") != p->lazy)) return false;
  return !take_counts(p, &low, &high) || fail(p, "what is repeated already is repeated again");
}

/* Pieces and | up to a ) or the end. */
static bool alternatives(parser *p) {
  int32_t from = p->r->n, jumps = -1;             /* JUMPs to the end: each has the one before, until they are set */
  for (;;) {
    while (p->at < p->end && *p->at != '|' && *p->at != ')') if (!repeated(p)) return false;
    if (!take(p, "|")) break;
    if (!put(p, from, (inst){ .op = SPLIT, .x = 1, .y = p->r->n - from + 2 })) return false;
    if (!emit(p, (inst){ .op = JUMP, .x = jumps })) return false;
    jumps = p->r->n - 1;
    from = p->r->n;
  }
  for (int32_t before; jumps >= 0; jumps = before) {
    before = p->r->code[jumps].x;
    p->r->code[jumps].x = p->r->n - jumps;
  }
  return true;
}

void dfk_regex_free(dfk_regex *r) {
  if (!r) return;
  free(r->code); free(r->range); free(r->work); free(r->slots);
  free(r);
}

int32_t dfk_regex_groups(const dfk_regex *r) { return r->groups; }

dfk_regex *dfk_regex_new(df_kernel *k, const char *pattern, int64_t n) {
  dfk_regex *r = calloc(1, sizeof *r);
  if (r) { r->code = malloc(sizeof *r->code * TOO_LONG); r->range = malloc(sizeof *r->range * RANGES_AT_MOST); }
  if (!r || !r->code || !r->range) {
    dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for a pattern");
    dfk_regex_free(r);
    return NULL;
  }
  parser p = { .k = k, .r = r, .at = pattern, .begin = pattern, .end = pattern + n };
  bool good = alternatives(&p);
  if (good && p.at < p.end) good = fail(&p, "a ) too many");
  if (good && emit(&p, (inst){ .op = MATCH })) return r;
  dfk_regex_free(r);
  return NULL;
}

/* ---- a match ---------------------------------------------------------------------------------------------------- */

enum { SLOTS = 2 * DFK_GROUPS };

/* Threads that wait for a character, in the order of preference: where they are, and their slots. */
typedef struct threads { int32_t n, *at; int64_t *slot; } threads;

typedef struct machine {
  const dfk_regex *r;
  const char *text;
  int64_t n;
  int32_t *seen, step;                            /* by instruction: the step in which a thread came there last */
  struct later { int32_t at; int64_t slot; } *stack;
} machine;

static bool is_word(const machine *m, int64_t i) {
  return i >= 0 && i < m->n && (isalnum((unsigned char)m->text[i]) || m->text[i] == '_') && !(m->text[i] & 128);
}

/* Does the text at `at` meet what the instruction asks of a place? */
static bool stands(const machine *m, uint8_t op, int64_t at) {
  switch (op) {
    case BEGIN: return at == 0;
    case END: return at == m->n;
    case LINE_BEGIN: return at == 0 || m->text[at - 1] == '\n';
    case LINE_END: return at == m->n || m->text[at] == '\n';
    default: return (is_word(m, at - 1) != is_word(m, at)) == (op == WORD);
  }
}

/* Follows the program from `start` up to what takes a character. What is preferred less lies on the stack
 * meanwhile: an instruction (at >= 0), or slot -1 - at, which then has its old value again. */
static void follow(machine *m, threads *to, int32_t start, int64_t *slot, int64_t at) {
  int32_t depth = 0;
  m->stack[depth++] = (struct later){ start, 0 };
  while (depth) {
    const struct later l = m->stack[--depth];
    if (l.at < 0) { slot[-1 - l.at] = l.slot; continue; }
    for (int32_t pc = l.at; pc >= 0 && m->seen[pc] != m->step;) {
      m->seen[pc] = m->step;
      const inst *i = m->r->code + pc;
      switch (i->op) {
        case JUMP: pc += i->x; break;
        case SPLIT:
          m->stack[depth++] = (struct later){ pc + i->y, 0 };
          pc += i->x;
          break;
        case SAVE:
          m->stack[depth++] = (struct later){ -1 - i->x, slot[i->x] };
          slot[i->x] = at;
          pc++;
          break;
        case CHAR: case ANY: case CLASS: case MATCH:
          memcpy(to->slot + (int64_t)to->n * SLOTS, slot, sizeof *slot * SLOTS);
          to->at[to->n++] = pc;
          pc = -1;
          break;
        default: pc = stands(m, i->op, at) ? pc + 1 : -1;
      }
    }
  }
}

static bool in_ranges(const dfk_regex *r, const inst *i, int32_t c) {
  for (int32_t k = i->x; k < i->y; k++) if (c >= r->range[k].low && c <= r->range[k].high) return true;
  return false;
}
static int32_t other_case(int32_t c) { return c < 128 && isalpha(c) ? c ^ 32 : c; }
static bool takes(const dfk_regex *r, const inst *i, int32_t c) {
  switch (i->op) {
    case CHAR: return c == i->x || (i->fold && other_case(c) == i->x);
    case ANY: return i->x || c != '\n';
    case CLASS: return (in_ranges(r, i, c) || (i->fold && in_ranges(r, i, other_case(c)))) != i->negated;
    default: return false;
  }
}

/* Memory for matches, made once for a pattern: two lists of threads, the steps and the stack. */
static bool make_memory(df_kernel *k, dfk_regex *r) {
  if (r->work) return true;
  const size_t n = (size_t)r->n;
  r->work = malloc(n * (3 * sizeof(int32_t)) + 2 * (n + 1) * sizeof(struct later) + 16);
  r->slots = malloc(2 * n * SLOTS * sizeof *r->slots);
  if (!r->work || !r->slots) return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "out of memory for a pattern"), false;
  return true;
}

int32_t dfk_regex_find(df_kernel *k, dfk_regex *r, const char *text, int64_t n, int64_t at, bool whole,
                       dfk_match *found) {
  if (!make_memory(k, r)) return -1;
  const size_t size = (size_t)r->n;
  machine m = { .r = r, .text = text, .n = n, .stack = (struct later *)r->work,
                .seen = (int32_t *)((struct later *)r->work + 2 * (size + 1)) };
  threads now = { 0, m.seen + size, r->slots }, next = { 0, m.seen + 2 * size, r->slots + size * SLOTS };
  const int64_t start = at;
  bool matched = false;
  memset(m.seen, 0, size * sizeof *m.seen);
  m.step = 1;
  for (;;) {
    if (!(m.step & 4095) && dfk_stopping(k)) return dfk_fail(k, DF_CANCELLED,
                                                             "the run ends while a pattern is matched"), -1;
    if (!matched && (!whole || at == start)) {
      int64_t fresh[SLOTS];
      for (int32_t i = 0; i < SLOTS; i++) fresh[i] = -1;
      fresh[0] = at;
      follow(&m, &now, 0, fresh, at);
    }
    if (!now.n) { if (matched || whole || at >= n) break; }
    int32_t c = 0;
    const int64_t bytes = at < n ? dfk_utf8(text + at, n - at, &c) : 0;
    m.step++;
    next.n = 0;
    for (int32_t t = 0; t < now.n; t++) {
      const inst *i = r->code + now.at[t];
      int64_t *slot = now.slot + (int64_t)t * SLOTS;
      if (i->op == MATCH) {
        if (whole && at != n) continue;
        for (int32_t g = 0; g < DFK_GROUPS; g++) { found->from[g] = slot[2 * g]; found->to[g] = slot[2 * g + 1]; }
        found->to[0] = at;
        matched = true;
        break;                                      /* those behind it are preferred less */
      }
      if (bytes && takes(r, i, c)) follow(&m, &next, now.at[t] + 1, slot, at + bytes);
    }
    if (at >= n) break;
    at += bytes;
    const threads swap = now;
    now = next;
    next = swap;
  }
  return matched;
}
