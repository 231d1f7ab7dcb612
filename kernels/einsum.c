/* einsum.c: reads einsum equations. */
#include "einsum.h"
#include <stdio.h>
#include <string.h>

/* `before` letters precede the ellipsis */
typedef struct part { char name[64]; int32_t n, before; bool ellipsis; } part;

static bool wrong(char *why, size_t bytes, const char *equation, const char *what) {
  snprintf(why, bytes, "einsum equation '%s': %s", equation, what);
  return false;
}

static bool is_label(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

/* Reads one side of a comma. */
static const char *read_part(const char *s, part *p, const char **error) {
  memset(p, 0, sizeof *p);
  for (; *s && *s != ',' && !(s[0] == '-' && s[1] == '>'); s++) {
    if (*s == ' ') continue;
    if (s[0] == '.' && s[1] == '.' && s[2] == '.') {
      if (p->ellipsis) *error = "an operand has two ellipses";
      p->ellipsis = true;
      p->before = p->n;
      s += 2;
    } else if (!is_label(*s)) {
      *error = "expected letters, '...', ',' and one '->'";
    } else if (p->n >= DFK_EINSUM_RANK) {
      *error = "an operand has more than 8 labels";
    } else {
      p->name[p->n++] = *s;
    }
    if (*error) return s;
  }
  return s;
}

static int8_t label_of(dfk_einsum *e, char c) {
  for (int32_t i = 0; i < e->nlabels; i++) if (e->name[i] == c) return (int8_t)i;
  e->name[e->nlabels] = c;
  e->broadcasts[e->nlabels] = c >= '0' && c <= '9';
  return (int8_t)e->nlabels++;
}

/* Labels 0 to dots - 1 are the axes of the ellipsis, from the left of the widest. */
static bool spell(dfk_einsum *e, const part *p, int32_t hidden, int32_t dots, int8_t *to, int32_t *rank) {
  if (p->n + hidden > DFK_EINSUM_RANK) return false;
  *rank = 0;
  for (int32_t i = 0; i <= p->n; i++) {
    if (p->ellipsis && i == p->before) for (int32_t d = dots - hidden; d < dots; d++) to[(*rank)++] = (int8_t)d;
    if (i < p->n) to[(*rank)++] = label_of(e, p->name[i]);
  }
  return true;
}

bool dfk_einsum_parse(const char *equation, int32_t n, const int32_t *ranks, dfk_einsum *e, bool *unknown, char *why,
                      size_t bytes) {
  part in[DFK_EINSUM_INPUTS], out = { .n = 0 };
  const char *s = equation, *error = NULL;
  int32_t found = 0, dots = 0, hidden[DFK_EINSUM_INPUTS] = { 0 };
  bool arrow = false;
  *unknown = false;
  memset(e, 0, sizeof *e);
  if (n < 1 || n > DFK_EINSUM_INPUTS) return wrong(why, bytes, equation, "takes 1 to 16 inputs");
  for (;;) {
    part p;
    s = read_part(s, &p, &error);
    if (error) return wrong(why, bytes, equation, error);
    if (found < n) in[found] = p;
    found++;
    if (*s != ',') break;
    s++;
  }
  if (*s) {
    arrow = true;
    s = read_part(s + 2, &out, &error);
    if (error || *s) return wrong(why, bytes, equation, error ? error : "expected one output after '->'");
  }
  if (found != n) {
    snprintf(why, bytes, "einsum equation '%s' names %d operands, got %d inputs", equation, found, n);
    return false;
  }
  for (int32_t i = 0; i < n; i++) {
    bool fits = in[i].ellipsis ? ranks[i] >= in[i].n : ranks[i] == in[i].n;
    if (ranks[i] >= 0 && !fits) {
      snprintf(why, bytes, "einsum equation '%s' gives operand %d %s%d axes, got rank %d", equation, i,
               in[i].ellipsis ? "at least " : "", in[i].n, ranks[i]);
      return false;
    }
    if (!in[i].ellipsis) continue;
    if (ranks[i] < 0) *unknown = true;
    else hidden[i] = ranks[i] - in[i].n;
    if (hidden[i] > dots) dots = hidden[i];
  }
  if (*unknown) return true;
  e->n = n;
  e->nlabels = dots;
  for (int32_t d = 0; d < dots; d++) {
    e->name[d] = '.';
    e->broadcasts[d] = true;
  }
  for (int32_t i = 0; i < n; i++) spell(e, &in[i], hidden[i], dots, e->label[i], &e->rank[i]);
  if (!arrow) {
    int32_t times[128] = { 0 };
    for (int32_t i = 0; i < n; i++)
      for (int32_t j = 0; j < in[i].n; j++) times[(uint8_t)in[i].name[j]]++;
    out.ellipsis = dots > 0;
    for (int32_t c = '0'; c <= 'z'; c++) {
      if (times[c] != 1) continue;
      if (out.n == DFK_EINSUM_RANK) return wrong(why, bytes, equation, "the output has more than 8 axes");
      out.name[out.n++] = (char)c;
    }
  }
  int32_t known = e->nlabels;
  if (!spell(e, &out, out.ellipsis ? dots : 0, dots, e->out, &e->out_rank))
    return wrong(why, bytes, equation, "the output has more than 8 axes");
  for (int32_t j = 0; j < e->out_rank; j++) {
    if (e->out[j] >= known) {
      snprintf(why, bytes, "einsum equation '%s': output label '%c' is in no operand", equation,
               e->name[(int)e->out[j]]);
      return false;
    }
    for (int32_t i = 0; i < j; i++)
      if (e->out[i] == e->out[j]) return wrong(why, bytes, equation, "a label occurs twice in the output");
  }
  return true;
}
