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

/* The parts of an equation as they are written, before anything is known of the inputs. */
typedef struct equation { part in[DFK_EINSUM_INPUTS], out; int32_t found; bool arrow; } equation;

/* What is wrong; NULL: nothing. */
static const char *read_equation(const char *s, int32_t n, equation *q) {
  const char *error = NULL;
  memset(q, 0, sizeof *q);
  for (;;) {
    part p;
    s = read_part(s, &p, &error);
    if (error) return error;
    if (q->found < n) q->in[q->found] = p;
    q->found++;
    if (*s != ',') break;
    s++;
  }
  if (!*s) return NULL;
  q->arrow = true;
  s = read_part(s + 2, &q->out, &error);
  return error ? error : *s ? "expected one output after '->'" : NULL;
}

/* hidden[i]: the axes of input i that its ellipsis stands for. Where a rank is not known they are 0, and *unknown. */
static bool fit_ranks(const equation *q, int32_t n, const int32_t *ranks, int32_t *hidden, bool *unknown,
                      const char *text, char *why, size_t bytes) {
  for (int32_t i = 0; i < n; i++) {
    const part *p = &q->in[i];
    hidden[i] = 0;
    if (ranks[i] >= 0 && !(p->ellipsis ? ranks[i] >= p->n : ranks[i] == p->n)) {
      snprintf(why, bytes, "einsum equation '%s' gives operand %d %s%d axes, got rank %d", text, i,
               p->ellipsis ? "at least " : "", p->n, ranks[i]);
      return false;
    }
    if (p->ellipsis && ranks[i] < 0) *unknown = true;
    else if (p->ellipsis) hidden[i] = ranks[i] - p->n;
  }
  return true;
}

/* The output of an equation that says none: the labels that occur once, in their order. False: too many. */
static bool imply_output(equation *q, int32_t n, int32_t dots) {
  int32_t times[128] = { 0 };
  for (int32_t i = 0; i < n; i++)
    for (int32_t j = 0; j < q->in[i].n; j++) times[(uint8_t)q->in[i].name[j]]++;
  q->out.ellipsis = dots > 0;
  for (int32_t c = '0'; c <= 'z'; c++) {
    if (times[c] != 1) continue;
    if (q->out.n == DFK_EINSUM_RANK) return false;
    q->out.name[q->out.n++] = (char)c;
  }
  return true;
}

bool dfk_einsum_parse(const char *text, int32_t n, const int32_t *ranks, dfk_einsum *e, bool *unknown, char *why,
                      size_t bytes) {
  equation q;
  int32_t dots = 0, hidden[DFK_EINSUM_INPUTS];
  *unknown = false;
  memset(e, 0, sizeof *e);
  if (n < 1 || n > DFK_EINSUM_INPUTS) return wrong(why, bytes, text, "takes 1 to 16 inputs");
  const char *error = read_equation(text, n, &q);
  if (error) return wrong(why, bytes, text, error);
  if (q.found != n) {
    snprintf(why, bytes, "einsum equation '%s' names %d operands, got %d inputs", text, q.found, n);
    return false;
  }
  if (!fit_ranks(&q, n, ranks, hidden, unknown, text, why, bytes)) return false;
  if (*unknown) return true;
  for (int32_t i = 0; i < n; i++) if (hidden[i] > dots) dots = hidden[i];
  e->n = n;
  e->nlabels = dots;
  for (int32_t d = 0; d < dots; d++) {
    e->name[d] = '.';
    e->broadcasts[d] = true;
  }
  for (int32_t i = 0; i < n; i++) spell(e, &q.in[i], hidden[i], dots, e->label[i], &e->rank[i]);
  const int32_t known = e->nlabels;
  if ((!q.arrow && !imply_output(&q, n, dots)) ||
      !spell(e, &q.out, q.out.ellipsis ? dots : 0, dots, e->out, &e->out_rank))
    return wrong(why, bytes, text, "the output has more than 8 axes");
  for (int32_t j = 0; j < e->out_rank; j++) {
    if (e->out[j] >= known) {
      snprintf(why, bytes, "einsum equation '%s': output label '%c' is in no operand", text, e->name[(int)e->out[j]]);
      return false;
    }
    for (int32_t i = 0; i < j; i++)
      if (e->out[i] == e->out[j]) return wrong(why, bytes, text, "a label occurs twice in the output");
  }
  return true;
}
