/* ctc.c: labels out of the logits of connectionist temporal classification, as TensorFlow finds them: by the best class
 * of each step, or by a search for the most probable labels, whatever the way they are stretched over time. The result
 * is sparse, int64[batch, longest]. Computed in double.
 */
#include "../ctc.h"
#include "element.h"
#include <math.h>
#include <stdlib.h>

/* ---- the inputs -------------------------------------------------------------------------------------------------- */
typedef struct logits { const df_tensor *x, *length; int64_t time, batch, classes; } logits;

static bool begin(df_kernel *k, logits *l) {
  const df_tensor *x = k->in[0], *length = k->in[1];
  char a[160], b[160];
  if (x->rank != 3 || length->rank != 1 || x->dims[1] != length->size) {
    dfk_fail(k, DF_INVALID_ARGUMENT,
             "the inputs are %s and the lengths %s: expected [time, batch, classes] and [batch]",
             dfk_shape_text(x, a, sizeof a), dfk_shape_text(length, b, sizeof b));
    return false;
  }
  *l = (logits){ x, length, x->dims[0], x->dims[1], x->dims[2] };
  if (l->classes < 1) { dfk_fail(k, DF_INVALID_ARGUMENT, "there are no classes: the blank is one"); return false; }
  for (int64_t i = 0; i < l->batch; i++) {
    const int64_t n = dfk_index(length, i);
    if (n >= 0 && n <= l->time) continue;
    dfk_fail(k, DF_INVALID_ARGUMENT, "length %lld is %lld, but the inputs have %lld steps", (long long)i, (long long)n,
             (long long)l->time);
    return false;
  }
  return true;
}
static double at(const logits *l, int64_t t, int64_t i, int64_t c) {
  return ref_get(l->x, (t * l->batch + i) * l->classes + c);
}

/* ---- the labels that were found ---------------------------------------------------------------------------------- */
/* Of each example, in its room of `time` labels, so many. */
typedef struct found { int64_t *label, *n; } found;

/* Outputs indices, values and shape become the sparse tensor of f. */
static bool give(df_kernel *k, const logits *l, const found *f, int32_t indices, int32_t values, int32_t shape) {
  int64_t total = 0, longest = 0;
  for (int64_t i = 0; i < l->batch; i++) { total += f->n[i]; if (f->n[i] > longest) longest = f->n[i]; }
  df_tensor *index = dfk_out(k, indices, DF_INT64, 2, (int64_t[]){ total, 2 });
  df_tensor *value = index ? dfk_out(k, values, DF_INT64, 1, &total) : NULL;
  df_tensor *dims = value ? dfk_out(k, shape, DF_INT64, 1, (int64_t[]){ 2 }) : NULL;
  if (!dims) return false;
  int64_t *where = index->data, *to = value->data;
  for (int64_t i = 0; i < l->batch; i++)
    for (int64_t j = 0; j < f->n[i]; j++) {
      *where++ = i;
      *where++ = j;
      *to++ = f->label[i * l->time + j];
    }
  ((int64_t *)dims->data)[0] = l->batch;
  ((int64_t *)dims->data)[1] = longest;
  return true;
}

static bool begin_found(df_kernel *k, const logits *l, int64_t paths, found *f) {
  f->label = dfk_scratch(k, (paths * l->batch * l->time + 1) * (int64_t)sizeof *f->label);
  f->n = f->label ? dfk_scratch(k, (paths * l->batch + 1) * (int64_t)sizeof *f->n) : NULL;
  return f->n != NULL;
}

/* ---- by the best class of each step ------------------------------------------------------------------------------ */
int32_t ref_ctc_greedy(df_kernel *k) {
  logits l;
  found f = { 0 };
  if (!begin(k, &l)) return k->error->code;
  const bool merge = dfk_bool(k, 0);
  const int64_t said = dfk_int(k, 1), blank = said < 0 ? said + l.classes : said;
  if (blank < 0 || blank >= l.classes)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "blank_index is %lld, but there are %lld classes", (long long)said,
                    (long long)l.classes);
  df_tensor *sum = dfk_out(k, 3, l.x->dtype, 2, (int64_t[]){ l.batch, 1 });
  if (!sum || !begin_found(k, &l, 1, &f)) { dfk_free(f.label); return k->error->code; }
  for (int64_t i = 0; i < l.batch; i++) {
    double total = 0;
    int64_t before = -1;
    f.n[i] = 0;
    for (int64_t t = 0; t < dfk_index(l.length, i); t++) {
      int64_t best = 0;
      for (int64_t c = 1; c < l.classes; c++) if (at(&l, t, i, c) > at(&l, t, i, best)) best = c;
      total -= at(&l, t, i, best);
      if (best != blank && !(merge && best == before)) f.label[i * l.time + f.n[i]++] = best;
      before = best;
    }
    ref_put(sum, i, total);
  }
  const bool given = give(k, &l, &f, 0, 1, 2);
  dfk_free(f.label);
  dfk_free(f.n);
  return given ? DF_OK : k->error->code;
}

/* ---- by a search ------------------------------------------------------------------------------------------------- */
/* Labels from the first on: those of `parent`, then one more. Labels that have left the beam stay, as those that begin
 * with them may outlive them. */
typedef struct prefix {
  int32_t parent, child, sibling;        /* -1: none */
  int32_t place;                         /* in the beam, -1: it is not there */
  int64_t label;
} prefix;

/* A member of the beam: the logarithms of the probability of its labels so far, with a blank at the end or a label.
 * of: its prefix; -1: none yet, it is the prefix `from` and one more label. order: of equal members the least wins. */
typedef struct member { double total, blank, labelled; int64_t label, order; int32_t of, from; } member;

typedef struct search {
  int64_t  width;
  prefix  *tree;
  int32_t  ntree;
  member  *now, *next;                   /* the beam before and after a step; next is a heap, the worst first */
  int64_t  nnow, nnext, offered;
  uint8_t *there;                        /* [place, label]: these labels are in the beam already */
  double  *p;                            /* the logarithms of the step's probabilities */
} search;

static double add(double a, double b) {
  if (a < b) { const double t = a; a = b; b = t; }
  return b == -INFINITY ? a : a + log1p(exp(b - a));
}
static bool worse(const member *a, const member *b) {
  return a->total < b->total || (a->total == b->total && a->order > b->order);
}
static int better_first(const void *a, const void *b) { return worse(a, b) ? 1 : worse(b, a) ? -1 : 0; }

/* m comes into the next beam, in place of the worst when that is full. */
static void offer(search *s, member m) {
  int64_t i = 0;
  m.order = s->offered++;
  if (s->nnext < s->width) {
    for (i = s->nnext++; i > 0 && worse(&m, &s->next[(i - 1) / 2]); i = (i - 1) / 2) s->next[i] = s->next[(i - 1) / 2];
    s->next[i] = m;
    return;
  }
  if (!(m.total > s->next[0].total)) return;
  for (int64_t j = 1; j < s->nnext; j = 2 * i + 1) {
    if (j + 1 < s->nnext && worse(&s->next[j + 1], &s->next[j])) j++;
    if (!worse(&s->next[j], &m)) break;
    s->next[i] = s->next[j];
    i = j;
  }
  s->next[i] = m;
}

/* The prefix that is `from` and one more label. */
static int32_t child_of(search *s, int32_t from, int64_t label) {
  int32_t c = s->tree[from].child;
  while (c >= 0 && s->tree[c].label != label) c = s->tree[c].sibling;
  if (c >= 0) return c;
  c = s->ntree++;
  s->tree[c] = (prefix){ from, -1, s->tree[from].child, -1, label };
  s->tree[from].child = c;
  return c;
}

/* One step: each member goes on with a blank or its last label, or has one more label. The last class is the blank. */
static void step(search *s, int64_t classes) {
  const double *p = s->p;
  const int64_t blank = classes - 1;
  s->nnext = s->offered = 0;
  for (int64_t i = 0; i < s->nnow; i++) {
    const member *m = &s->now[i];
    const prefix *own = &s->tree[m->of];
    member stays = { .of = m->of, .blank = m->total + p[blank], .labelled = -INFINITY };
    if (own->parent >= 0) {
      const prefix *parent = &s->tree[own->parent];
      stays.labelled = m->labelled;
      if (parent->place >= 0) {
        const member *of = &s->now[parent->place];
        s->there[parent->place * classes + own->label] = 1;
        /* a label once more needs a blank between the two */
        stays.labelled = add(stays.labelled, parent->label == own->label ? of->blank : of->total);
      }
      stays.labelled += p[own->label];
    }
    stays.total = add(stays.blank, stays.labelled);
    offer(s, stays);
  }
  for (int64_t i = 0; i < s->nnow; i++) {
    const member *m = &s->now[i];
    uint8_t *there = s->there + i * classes;
    /* The beam is in order, and no longer labels are more probable than those they begin with. */
    if (s->nnext == s->width && !(m->total > s->next[0].total)) break;
    for (int64_t c = 0; c < blank; c++) {
      if (there[c]) continue;
      const double total = (c == s->tree[m->of].label ? m->blank : m->total) + p[c];
      const member longer = { total, .blank = -INFINITY, .labelled = total, .label = c, .of = -1, .from = m->of };
      if (total > -INFINITY) offer(s, longer);
    }
  }
  memset(s->there, 0, (size_t)(s->nnow * classes));
  for (int64_t i = 0; i < s->nnow; i++) s->tree[s->now[i].of].place = -1;
  qsort(s->next, (size_t)s->nnext, sizeof *s->next, better_first);
  for (int64_t i = 0; i < s->nnext; i++) {
    member *m = &s->next[i];
    if (m->of < 0) m->of = child_of(s, m->from, m->label);
    s->tree[m->of].place = (int32_t)i;
  }
  member *spare = s->now;
  s->now = s->next;
  s->next = spare;
  s->nnow = s->nnext;
}

/* The beam after example i. */
static void search_example(search *s, const logits *l, int64_t i) {
  s->tree[0] = (prefix){ -1, -1, -1, 0, -1 };
  s->ntree = 1;
  s->now[0] = (member){ .labelled = -INFINITY };
  s->nnow = 1;
  for (int64_t t = 0; t < dfk_index(l->length, i); t++) {
    double most = -INFINITY, sum = 0;
    for (int64_t c = 0; c < l->classes; c++) if (at(l, t, i, c) > most) most = at(l, t, i, c);
    for (int64_t c = 0; c < l->classes; c++) sum += exp(at(l, t, i, c) - most);
    for (int64_t c = 0; c < l->classes; c++) s->p[c] = at(l, t, i, c) - most - log(sum);
    step(s, l->classes);
  }
}

/* The labels of a prefix, into `to`; so many. merge: of labels alike in a row the first. */
static int64_t labels_of(const search *s, int32_t of, bool merge, int64_t *to) {
  int64_t n = 0;
  for (int32_t a = of; s->tree[a].parent >= 0; a = s->tree[a].parent)
    if (!merge || s->tree[a].label != s->tree[s->tree[a].parent].label) to[n++] = s->tree[a].label;
  for (int64_t j = 0; j < n / 2; j++) {
    const int64_t t = to[j];
    to[j] = to[n - 1 - j];
    to[n - 1 - j] = t;
  }
  return n;
}

/* No beam is wider than there are labels of up to `time`; so what is asked for may be any number. */
static int64_t widest(const logits *l, int64_t width) {
  int64_t all = 1, more = 1;
  for (int64_t t = 0; l->batch && more && t < l->time && all < width; t++)
    if (__builtin_mul_overflow(more, l->classes - 1, &more) || __builtin_add_overflow(all, more, &all)) return width;
  return all < width ? all : width;
}

int32_t ref_ctc_beam_search(df_kernel *k) {
  logits l;
  if (!begin(k, &l)) return k->error->code;
  const int64_t paths = dfk_int(k, 1), width = widest(&l, dfk_int(k, 0));
  if (paths > dfk_int(k, 0))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "top_paths is %lld, but a beam of width %lld has no more than that many",
                    (long long)paths, (long long)dfk_int(k, 0));
  df_tensor *p = dfk_out(k, (int32_t)(3 * paths), l.x->dtype, 2, (int64_t[]){ l.batch, paths });
  if (!p) return k->error->code;
  int64_t nodes;
  if (__builtin_mul_overflow(width, l.time, &nodes) || nodes >= INT32_MAX || width > INT64_MAX / 64 / l.classes)
    return dfk_fail(k, DF_RESOURCE_EXHAUSTED, "a beam of width %lld over %lld steps is too much: make it narrower",
                    (long long)width, (long long)l.time);
  search s = { .width = width };
  found f = { 0 };
  s.tree = dfk_scratch(k, (nodes + 1) * (int64_t)sizeof *s.tree);
  if (s.tree) s.now = dfk_scratch(k, width * (int64_t)sizeof *s.now);
  if (s.now) s.next = dfk_scratch(k, width * (int64_t)sizeof *s.next);
  if (s.next) s.there = dfk_scratch(k, width * l.classes);
  if (s.there) s.p = dfk_scratch(k, l.classes * (int64_t)sizeof *s.p);
  int32_t code = s.p && begin_found(k, &l, paths, &f) ? DF_OK : k->error->code;
  if (!code) memset(s.there, 0, (size_t)(width * l.classes));
  for (int64_t i = 0; !code && i < l.batch; i++) {
    search_example(&s, &l, i);
    if (s.nnow < paths)
      code = dfk_fail(k, DF_INVALID_ARGUMENT, "top_paths is %lld, but example %lld, of length %lld, has %lld",
                      (long long)paths, (long long)i, (long long)dfk_index(l.length, i), (long long)s.nnow);
    for (int64_t j = 0; !code && j < paths; j++) {
      const int64_t row = j * l.batch + i;
      f.n[row] = labels_of(&s, s.now[j].of, dfk_bool(k, 2), f.label + row * l.time);
      ref_put(p, i * paths + j, s.now[j].total);
    }
  }
  for (int64_t j = 0; !code && j < paths; j++) {
    const found path = { f.label + j * l.batch * l.time, f.n + j * l.batch };
    if (!give(k, &l, &path, (int32_t)j, (int32_t)(paths + j), (int32_t)(2 * paths + j))) code = k->error->code;
  }
  void *const room[] = { s.tree, s.now, s.next, s.there, s.p, f.label, f.n };
  for (size_t i = 0; i < sizeof room / sizeof *room; i++) dfk_free(room[i]);
  return code;
}
