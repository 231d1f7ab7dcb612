/* boxes.c: launchers of what chooses among boxes. How many there are the host learns when it waits for it. */
#include "plugin.h"
#include "boxes.h"
#include <math.h>
#include <string.h>

static int32_t choose(df_kernel *k, const dfc_boxes *asked, bool pads) {
  const df_tensor *boxes = k->in[0], *scores = k->in[1];
  const int64_t n = scores->size;
  dfc_boxes p = *asked;
  int32_t chosen = 0;
  dfc_call c = dfc_begin(k);
  p.n = n;
  p.dtype = scores->dtype;
  p.most = p.most < n ? p.most : n;
  p.alive = dfc_temporary(&c, NULL, n + 1);
  p.chosen = dfc_temporary(&c, NULL, (p.most + 1) * (int64_t)sizeof *p.chosen);
  if (n) {
    p.boxes = dfc_read(&c, boxes);
    p.scores = dfc_read(&c, scores);
    p.order = dfc_sorted(&c, scores->dtype, p.scores, 1, n);
  }
  dfc_run_blocks(&c, "k_boxes_choose", 1, DFC_BOXES_BLOCK, &p);
  dfc_bring(&c, &chosen, p.chosen + p.most, sizeof chosen);
  p.size = pads ? asked->most : chosen;
  df_tensor *out = c.ok ? dfc_out(&c, 0, DF_INT32, 1, &p.size) : NULL;
  df_tensor *valid = out && k->nout > 1 ? dfc_out(&c, 1, DF_INT32, 0, NULL) : NULL;
  if (out && (valid || k->nout == 1)) {
    p.z = dfc_write(&c, out);
    p.valid = valid ? dfc_write(&c, valid) : NULL;
    dfc_run(&c, "k_boxes_give", p.size > 0 ? p.size : 1, &p);
  }
  return dfc_end(&c);
}

/* boxes scores max_output_size[ iou_threshold[ score_threshold]] */
static int32_t run_suppression(df_kernel *k) {
  const df_tensor *boxes = k->in[0], *scores = k->in[1];
  char a[160], b[160];
  dfc_boxes p;
  memset(&p, 0, sizeof p);
  if (boxes->rank != 2 || boxes->dims[1] != 4 || scores->rank != 1 || scores->dims[0] != boxes->dims[0])
    return dfk_fail(k, DF_INVALID_ARGUMENT, "boxes are %s and scores %s: expected [n, 4] and [n]",
                    dfk_shape_text(boxes, a, sizeof a), dfk_shape_text(scores, b, sizeof b));
  if (!dfk_integer(k, 2, "max_output_size", &p.most)) return k->error->code;
  p.limit = k->nin > 3 ? dfc_number_of(k->in[3], 0) : dfk_float(k, 0);
  p.least = k->nin > 4 ? dfc_number_of(k->in[4], 0) : -INFINITY;
  if (!(p.limit >= 0 && p.limit <= 1))
    return dfk_fail(k, DF_INVALID_ARGUMENT, "iou_threshold is %g but must be from 0 to 1", p.limit);
  if (p.most < 0)
    return dfk_fail(k, DF_INVALID_ARGUMENT, "max_output_size is %lld but must not be negative", (long long)p.most);
  if (!dfc_waits(k, "how many boxes are chosen")) return k->error->code;
  return choose(k, &p, k->nout > 1 && dfk_bool(k, 0));
}

#define SUPPRESSION(name) { .op = name, .run = run_suppression, .host_in = 4 | 8 | 16, .takes = dfc_takes_floats }
static const dfi_gpu_kernel kernels[] = {
  SUPPRESSION("NonMaxSuppression"),
  SUPPRESSION("NonMaxSuppressionV2"),
  SUPPRESSION("NonMaxSuppressionV3"),
  SUPPRESSION("NonMaxSuppressionV4"),
};
const dfc_table dfc_boxed = { kernels, (int32_t)(sizeof kernels / sizeof *kernels) };
