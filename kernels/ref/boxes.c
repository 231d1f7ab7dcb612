/* boxes.c: boxes that do not overlap better ones. */
#include "../search.h"
#include "element.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct candidate { double score; int32_t box; } candidate;

static int by_score(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  return x->score != y->score ? (x->score < y->score) - (x->score > y->score) : x->box - y->box;
}

/* The area that two boxes (two opposite corners each) share, as a part of what they cover together. */
static double overlap(const df_tensor *boxes, int64_t i, int64_t j) {
  double low[2][2], high[2][2], area[2], common = 1;
  for (int b = 0; b < 2; b++) {
    int64_t at = 4 * (b ? j : i);
    for (int d = 0; d < 2; d++) {
      double p = ref_get(boxes, at + d), q = ref_get(boxes, at + d + 2);
      low[b][d] = fmin(p, q);
      high[b][d] = fmax(p, q);
    }
    area[b] = (high[b][0] - low[b][0]) * (high[b][1] - low[b][1]);
  }
  if (area[0] <= 0 || area[1] <= 0) return 0;
  for (int d = 0; d < 2; d++) common *= fmax(fmin(high[0][d], high[1][d]) - fmax(low[0][d], low[1][d]), 0);
  return common / (area[0] + area[1] - common);
}

/* The candidates above `least`, best first, of the scores that stand `step` apart; how many. */
static int64_t candidates(const df_tensor *scores, int64_t at, int64_t n, int64_t step, double least, candidate *all) {
  int64_t found = 0;
  for (int64_t i = 0; i < n; i++) {
    const double score = ref_get(scores, at + i * step);
    if (score > least) all[found++] = (candidate){ score, (int32_t)i };
  }
  qsort(all, (size_t)found, sizeof *all, by_score);
  return found;
}

/* Of n candidates, best first, up to `most` that overlap no better one by more than `limit` move to the front; how
 * many.
 * Box i of the candidates is row from + i * step. */
static int64_t choose(const df_tensor *boxes, int64_t from, int64_t step, candidate *all, int64_t n, int64_t most,
                      double limit) {
  int64_t chosen = 0;
  for (int64_t i = 0; i < n && chosen < most; i++) {
    bool free = true;
    for (int64_t j = chosen - 1; j >= 0 && free; j--)
      free = !(overlap(boxes, from + all[i].box * step, from + all[j].box * step) > limit);
    if (free) all[chosen++] = all[i];
  }
  return chosen;
}

static bool good_limits(df_kernel *k, double limit, int64_t most) {
  if (!(limit >= 0 && limit <= 1)) dfk_fail(k, DF_INVALID_ARGUMENT, "iou_threshold is %g but must be from 0 to 1",
                                            limit);
  else if (most < 0)
    dfk_fail(k, DF_INVALID_ARGUMENT, "max_output_size is %lld but must not be negative", (long long)most);
  else return true;
  return false;
}

int32_t ref_non_max_suppression(df_kernel *k) {
  const df_tensor *boxes = k->in[0], *scores = k->in[1];
  char a[160], b[160];
  int64_t most;
  if (boxes->rank != 2 || boxes->dims[1] != 4 || scores->rank != 1 || scores->dims[0] != boxes->dims[0])
    return dfk_fail(k, DF_INVALID_ARGUMENT, "boxes are %s and scores %s: expected [n, 4] and [n]",
                    dfk_shape_text(boxes, a, sizeof a), dfk_shape_text(scores, b, sizeof b));
  if (!dfk_integer(k, 2, "max_output_size", &most)) return k->error->code;
  double limit = k->nin > 3 ? ref_get(k->in[3], 0) : dfk_float(k, 0),
         least = k->nin > 4 ? ref_get(k->in[4], 0) : -INFINITY;
  if (!good_limits(k, limit, most)) return k->error->code;
  candidate *all = dfk_scratch(k, (boxes->dims[0] + 1) * (int64_t)sizeof *all);
  if (!all) return k->error->code;
  const int64_t n = candidates(scores, 0, boxes->dims[0], 1, least, all), chosen = choose(boxes, 0, 1, all, n, most,
      limit);
  bool pads = k->nout > 1 && dfk_bool(k, 0);
  int64_t size = pads ? most : chosen;
  df_tensor *out = dfk_out(k, 0, DF_INT32, 1, &size),
            *valid = out && k->nout > 1 ? dfk_out(k, 1, DF_INT32, 0, NULL) : NULL;
  for (int64_t i = 0; out && i < size; i++) ((int32_t *)out->data)[i] = i < chosen ? all[i].box : 0;
  if (valid) *(int32_t *)valid->data = (int32_t)chosen;
  dfk_free(all);
  return out && (valid || k->nout == 1) ? DF_OK : k->error->code;
}

/* ---- soft suppression ------------------------------------------------------------------------------------------ */

static void swap(candidate *all, int64_t *since, int64_t i, int64_t j) {
  const candidate c = all[i];
  const int64_t s = since[i];
  all[i] = all[j];
  since[i] = since[j];
  all[j] = c;
  since[j] = s;
}

typedef struct soft { double limit, least, sigma; } soft;

/* Lowers the score of candidate i for each chosen box that it was not compared with: by exp(-overlap²/2sigma). False:
 * it
 * is out. */
static bool stays(const df_tensor *boxes, candidate *all, int64_t i, int64_t since, const soft *by) {
  for (int64_t j = i - 1; j >= since; j--) {
    const double shared = overlap(boxes, all[i].box, all[j].box);
    if (by->sigma == 0 && shared > by->limit) return false;
    if (by->sigma > 0) all[i].score *= exp(-0.5 / by->sigma * shared * shared);
    if (all[i].score <= by->least) return false;
  }
  return true;
}

/* Of n candidates those that are chosen move to the front; how many. The best one is chosen, unless better ones that
 * were
 * chosen meanwhile lower its score: then it waits for its turn again. since[i]: from which chosen box on candidate i
 * was
 * compared with none. */
static int64_t choose_soft(const df_tensor *boxes, candidate *all, int64_t *since, int64_t n, int64_t most,
                           const soft *by) {
  int64_t chosen = 0;
  while (chosen < most && chosen < n) {
    int64_t best = chosen;
    for (int64_t i = chosen; i < n; i++) if (by_score(&all[i], &all[best]) < 0) best = i;
    swap(all, since, best, chosen);
    const double before = all[chosen].score;
    if (!stays(boxes, all, chosen, since[chosen], by)) swap(all, since, chosen, --n);
    else if (all[chosen].score == before) chosen++;
    else since[chosen] = chosen;
  }
  return chosen;
}

/* boxes, scores, max_output_size, iou_threshold, score_threshold, soft_nms_sigma; pad_to_max_output_size */
int32_t ref_non_max_suppression_soft(df_kernel *k) {
  const df_tensor *boxes = k->in[0], *scores = k->in[1];
  const soft by = { ref_get(k->in[3], 0), ref_get(k->in[4], 0), ref_get(k->in[5], 0) };
  int64_t most;
  if (boxes->rank != 2 || boxes->dims[1] != 4 || scores->rank != 1 || scores->dims[0] != boxes->dims[0])
    return dfk_fail(k, DF_INVALID_ARGUMENT, "boxes have rank %d and scores %d: expected [n, 4] and [n]", boxes->rank,
                    scores->rank);
  if (!dfk_integer(k, 2, "max_output_size", &most) || !good_limits(k, by.limit, most)) return k->error->code;
  if (!(by.sigma >= 0)) return dfk_fail(k, DF_INVALID_ARGUMENT, "soft_nms_sigma is %g: expected 0 or more", by.sigma);
  candidate *all = dfk_scratch(k, (boxes->dims[0] + 1) * (int64_t)sizeof *all);
  int64_t *since = all ? dfk_scratch(k, (boxes->dims[0] + 1) * (int64_t)sizeof *since) : NULL;
  if (!since) { dfk_free(all); return k->error->code; }
  memset(since, 0, (size_t)boxes->dims[0] * sizeof *since);
  const int64_t n = candidates(scores, 0, boxes->dims[0], 1, by.least, all),
                chosen = choose_soft(boxes, all, since, n, most, &by), size = dfk_bool(k, 0) ? most : chosen;
  df_tensor *out = dfk_out(k, 0, DF_INT32, 1, &size), *kept = out ? dfk_out(k, 1, scores->dtype, 1, &size) : NULL,
            *valid = kept ? dfk_out(k, 2, DF_INT32, 0, NULL) : NULL;
  for (int64_t i = 0; valid && i < size; i++) {
    ((int32_t *)out->data)[i] = i < chosen ? all[i].box : 0;
    ref_put(kept, i, i < chosen ? all[i].score : 0);
  }
  if (valid) *(int32_t *)valid->data = (int32_t)chosen;
  dfk_free(since);
  dfk_free(all);
  return valid ? DF_OK : k->error->code;
}

/* ---- of several classes
 * --------------------------------------------------------------------------------------------- */

typedef struct kept { candidate is; int32_t of; } kept;    /* a chosen box and its class */

static int by_kept_score(const void *a, const void *b) {
  const kept *x = a, *y = b;
  const int by = by_score(&(candidate){ x->is.score, x->of }, &(candidate){ y->is.score, y->of });
  return by ? by : x->is.box - y->is.box;
}

typedef struct classes {
  /* most of a class, of all, boxes, classes of boxes, classes, rows that are given */
  int64_t each, total, n, q, c, k;
  double limit, least;
} classes;

static bool read_classes(df_kernel *k, classes *s) {
  const df_tensor *boxes = k->in[0], *scores = k->in[1];
  char a[160], b[160];
  const bool good = boxes->rank == 4 && scores->rank == 3 && boxes->dims[3] == 4 && boxes->dims[0] == scores->dims[0] &&
                    boxes->dims[1] == scores->dims[1] && (boxes->dims[2] == 1 || boxes->dims[2] == scores->dims[2]);
  if (!good) {
    dfk_fail(k, DF_INVALID_ARGUMENT, "boxes are %s and scores %s: expected [batch, n, 1 or classes, 4] and "
             "[batch, n, classes]", dfk_shape_text(boxes, a, sizeof a), dfk_shape_text(scores, b, sizeof b));
    return false;
  }
  *s = (classes){ .n = boxes->dims[1], .q = boxes->dims[2], .c = scores->dims[2], .limit = ref_get(k->in[4], 0),
                  .least = ref_get(k->in[5], 0) };
  if (!dfk_integer(k, 2, "max_output_size_per_class", &s->each) || !dfk_integer(k, 3, "max_total_size", &s->total))
    return false;
  if (!good_limits(k, s->limit, s->each) || !good_limits(k, s->limit, s->total)) return false;
  s->k = s->total;
  if (dfk_bool(k, 0) && s->each * s->c < s->k) s->k = s->each * s->c;
  return true;
}

/* The boxes of image b into rows of the outputs. */
static void give_rows(df_kernel *k, const classes *s, int64_t b, const kept *all, int64_t n, df_tensor *const *out) {
  const bool clips = dfk_bool(k, 1);
  for (int64_t i = 0; i < s->k; i++) {
    const int64_t row = b * s->k + i, box = i < n ? (b * s->n + all[i].is.box) * s->q + (s->q > 1 ? all[i].of : 0) : 0;
    for (int32_t d = 0; d < 4; d++) {
      const float v = i < n ? ((const float *)k->in[0]->data)[4 * box + d] : 0;
      ((float *)out[0]->data)[4 * row + d] = clips ? fmaxf(fminf(v, 1), 0) : v;
    }
    ((float *)out[1]->data)[row] = i < n ? (float)all[i].is.score : 0;
    ((float *)out[2]->data)[row] = i < n ? (float)all[i].of : 0;
  }
  ((int32_t *)out[3]->data)[b] = (int32_t)(n < s->k ? n : s->k);
}

/* boxes, scores, max_output_size_per_class, max_total_size, iou_threshold, score_threshold; pad_per_class, clip_boxes
 * */
int32_t ref_combined_non_max_suppression(df_kernel *k) {
  classes s;
  if (!read_classes(k, &s)) return k->error->code;
  const int64_t batch = k->in[0]->dims[0];
  df_tensor *out[4] = { dfk_out(k, 0, DF_FLOAT32, 3, (int64_t[]){ batch, s.k, 4 }) };
  for (int32_t i = 1; i < 4 && out[i - 1]; i++)
    out[i] = dfk_out(k, i, i == 3 ? DF_INT32 : DF_FLOAT32, i == 3 ? 1 : 2, (int64_t[]){ batch, s.k });
  candidate *all = out[3] ? dfk_scratch(k, (s.n + 1) * (int64_t)sizeof *all) : NULL;
  kept *found = all ? dfk_scratch(k, (s.n * s.c + 1) * (int64_t)sizeof *found) : NULL;
  for (int64_t b = 0; found && b < batch; b++) {
    int64_t n = 0;
    for (int32_t c = 0; c < s.c; c++) {
      const int64_t some = candidates(k->in[1], b * s.n * s.c + c, s.n, s.c, s.least, all);
      const int64_t chosen = choose(k->in[0], b * s.n * s.q + (s.q > 1 ? c : 0), s.q, all, some, s.each, s.limit);
      for (int64_t i = 0; i < chosen; i++) found[n++] = (kept){ all[i], c };
    }
    qsort(found, (size_t)n, sizeof *found, by_kept_score);
    give_rows(k, &s, b, found, n, out);
  }
  const bool good = found != NULL;
  dfk_free(found);
  dfk_free(all);
  return good ? DF_OK : k->error->code;
}
