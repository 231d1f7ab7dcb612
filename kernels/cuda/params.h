/* params.h: what kernels are given: one struct each, by value. Shared by the launchers (C) and the kernels (CUDA
 * C++). An operand that is a number of the host's has no address: its bits lie in the struct. */
#ifndef DFLOW_CUDA_PARAMS_H
#define DFLOW_CUDA_PARAMS_H
#include <stdint.h>

/* dtypes of integers, as dflow.h numbers them */
enum { DFC_OF_INT32 = 3, DFC_OF_UINT8 = 4, DFC_OF_INT8 = 6, DFC_OF_INT64 = 9 };
enum { DFC_RANK = 8, DFC_BOX_RANK = 16 };
typedef struct dfc_operand { const void *at; uint64_t bits; } dfc_operand;

/* z[i] = f(x[i]) */
typedef struct dfc_unary { const void *x; void *z; int64_t n; double param; } dfc_unary;
/* z[i] = f(a[…], b[…], c[…]): dims of z with neighbours joined; steps of each operand along them, 0 where it is
 * repeated. */
typedef struct dfc_spread {
  dfc_operand in[3];
  void   *z;
  int64_t n, rank, dims[DFC_RANK], step[3][DFC_RANK];
  double  param;
} dfc_spread;
typedef struct dfc_cast { const void *x; void *z; int64_t n; int32_t from, pad; } dfc_cast;
/* x as [outer, n, inner], reduced over n: z is [outer, inner]. */
typedef struct dfc_reduction { const void *x; void *z; int64_t outer, n, inner; int32_t what, flags; } dfc_reduction;
/* Rows of n: softmax and its like. `labels`: of cross entropies. */
typedef struct dfc_rows { const void *x, *labels; void *z, *loss; int64_t rows, n; int32_t what, wide; } dfc_rows;
/* Elements of `width` bytes from place to place: see move.h. */
typedef struct dfc_moving {
  const void *from; void *to;
  uint64_t bits;                          /* from NULL: the one element */
  int64_t n, rank, dims[DFC_BOX_RANK], to_step[DFC_BOX_RANK], from_step[DFC_BOX_RANK];
} dfc_moving;
/* rows of `row` elements: to[i] = from[index[i]], or to[index[i]] op= from[i] in the order of i. */
typedef struct dfc_picking { const void *from; void *to; const int64_t *index; int64_t n, row, blocks, limit;
    int32_t op, pad; } dfc_picking;
typedef struct dfc_product {
  const void *a, *b; void *c;
  int64_t m, n, k, a_row, a_col, b_row, b_col;       /* steps in elements */
  /* of each matrix of the batch in a and then in b; NULL: one matrix */
  const int64_t *at;
  int64_t count;
  int32_t add, pad;                       /* to what c is already */
} dfc_product;
/* A window over images: the geometry of window.h. `side`: which of the three is made, as dfk_side has it. Pooling: c in
 * place of ci and co; out and dy as its kernels are given them. */
typedef struct dfc_axis { int64_t in, window, stride, dilation, out, before; } dfc_axis;
typedef struct dfc_window {
  const void *in, *filter, *out, *dy; void *to;
  int64_t n, ci, co, groups;
  dfc_axis y, x;
  int32_t side, pad;
} dfc_window;
/* OneHot: z[prefix, depth, suffix], of indices of that dtype. */
typedef struct dfc_hot { const void *indices; void *z; dfc_operand on, off; int64_t n, depth, suffix; int32_t dtype,
    pad; } dfc_hot;
typedef struct dfc_ramping { void *z; int64_t n; double start, step, stop; int32_t ends, pad; } dfc_ramping;
typedef struct dfc_banding { const void *x; void *z; int64_t size, m, n, lower, upper; } dfc_banding;
/* MirrorPad and its gradient: `padded` are the dims of the larger side, `inside` those of the other. */
typedef struct dfc_mirroring {
  const void *x; void *z;
  int64_t n, rank, inside[DFC_RANK], padded[DFC_RANK], before[DFC_RANK];
  int32_t edge, pad;
} dfc_mirroring;
typedef struct dfc_reversing { const void *x; void *z; const int64_t *lengths; int64_t n, seq_step, seq, batch_step,
    batch; } dfc_reversing;
/* Rows of a segment are order[begin[s]] to order[begin[s + 1]]; x NULL: each is 1. */
typedef struct dfc_segments { const void *x; void *z; const int64_t *begin, *order; int64_t segments, row;
    int32_t what, pad; } dfc_segments;
/* A pass of a merge sort of the indices of each row, greatest element first: runs of `width` become runs of twice that.
 * from NULL: the indices in their order. */
typedef struct dfc_merging { const void *x; const int32_t *from; int32_t *to; int64_t rows, n, width; } dfc_merging;
/* The first `count` of each row of n: TopK's outputs. */
typedef struct dfc_topping { const void *x; const int32_t *order; void *values; int32_t *indices; int64_t rows, n,
    count; } dfc_topping;
/* Row by row: places of m values among n (sorted ones; InTopK: predictions). */
typedef struct dfc_finding { const void *x, *values; void *z; int64_t rows, n, m; int32_t what, dtype; } dfc_finding;
typedef struct dfc_counting { const void *x; void *z; double low, step; int64_t n, bins; int32_t wide, pad;
} dfc_counting;
typedef struct dfc_recurring { const void *x, *d; void *s, *beside; int64_t outer, n, inner; int32_t reverse,
    pad; } dfc_recurring;
typedef struct dfc_norm {
  const void *x, *scale, *offset, *mean, *variance, *dy;
  void   *z, *out[4];
  int64_t outer, channels, inner;
  double  epsilon, factor;
  int32_t training, moving;
} dfc_norm;
/* table: the sizes of `labels` labels, those of the result first (kept), then each input's steps along them. */
enum { DFC_EINSUM_INPUTS = 16 };
typedef struct dfc_einsum { const void *in[DFC_EINSUM_INPUTS]; void *z; const int64_t *table; int64_t n, terms;
    int32_t inputs, labels, kept, pad; } dfc_einsum;
/* start: of TensorFlow's streams, the lower half of the first counter */
typedef struct dfc_drawing { void *z; int64_t n; uint32_t key[2], tag[2]; int64_t low; uint64_t range, start;
} dfc_drawing;
/* to[i] = a[i] op b[i]: dfk_update */
typedef struct dfc_updating { void *to; const void *a, *b; int64_t n; int32_t op, one_b; } dfc_updating;
typedef struct dfc_stepping {
  void *at[4];
  int64_t n;
  double rate, momentum, beta1, beta2, epsilon;
  int32_t kind, nesterov;
} dfc_stepping;
enum {
  DFC_SUM = 0,
  DFC_MEAN,
  DFC_PROD,
  DFC_MAX,
  DFC_MIN,
  DFC_ALL,
  DFC_ANY,
  DFC_LOG_SUM_EXP,
  DFC_NORM,
  DFC_HALF_SQUARES
};
/* See dfi_remote_train; the rules are those of train.h. */
enum { DFC_TRAIN_VARS = 4, DFC_TRAIN_NUMBERS = 6 };
typedef struct dfc_training {
  void   *at[DFC_TRAIN_VARS];
  const void *grad;
  const int64_t *row, *begin, *order;
  int64_t rows, columns;
  double  number[DFC_TRAIN_NUMBERS];
  int32_t rule, vars, flag, in_turn;
} dfc_training;
enum { DFC_DESCENT = 0, DFC_PROXIMAL_DESCENT, DFC_MOMENTUM, DFC_KERAS_MOMENTUM, DFC_ADAGRAD, DFC_ADAGRAD_V2,
  DFC_PROXIMAL_ADAGRAD, DFC_ADAGRAD_DA, DFC_ADADELTA, DFC_RMSPROP, DFC_CENTERED_RMSPROP, DFC_FTRL, DFC_FTRL_V2,
  DFC_ADAM, DFC_ADAMAX, DFC_ADD_SIGN, DFC_POWER_SIGN };
/* to[index[i], :] op= from[i, :] (one: from[0]), where no index comes twice. */
typedef struct dfc_placing { const void *from; void *to; const int64_t *index; int64_t n, row; int32_t op, one, apart,
    pad; } dfc_placing;
/* A step of an LSTM: gates of the sums [batch, 4 units], or from the gradients of cs and h to those of the sums: d.
 * state: batch * units. In `back`, cs_later and h_later are what came from the step after, NULL: none. */
typedef struct dfc_lstm {
  const float *sums, *b, *wci, *wcf, *wco, *cs_prev;
  float  *i, *cs, *f, *o, *ci, *co, *h;
  const float *cs_grad, *h_grad, *cs_later, *h_later;
  float  *d, *cs_prev_grad;
  int64_t state, units;
  float   forget_bias, clip;
  int32_t at_ci, at_f, peephole, pad;
} dfc_lstm;
/* The gradients of peepholes, summed over `rows` rows of all steps. */
typedef struct dfc_peepholes {
  const float *d, *cs, *cs_prev; float *wci, *wcf, *wco;
  int64_t rows, batch, units;
  int32_t at_f, pad;
} dfc_peepholes;
/* A step of a GRU: its gates r and u with h r beside (hr), or c and h; or parts of the way back. */
enum { DFC_GRU_GATES = 0, DFC_GRU_STATE, DFC_GRU_BACK_C, DFC_GRU_BACK_GATES, DFC_GRU_BACK_STATE };
typedef struct dfc_gru {
  const float *sums, *b, *h_prev, *dh, *dhr;
  float  *r, *u, *c, *h, *hr, *dc, *dru, *dh_prev;
  int64_t state, units;
  int32_t what, pad;
} dfc_gru;
/* Pictures [batch, rows, columns, depth] as sums over taps: see resize.h. `from` is x's, `to` is z's. */
typedef struct dfc_resizing {
  const void *x; void *z;
  const int64_t *row_first, *row_at, *column_first, *column_at;
  const float *row_weight, *column_weight;
  int64_t n, rows_from, rows_to, columns_from, columns_to, depth;
} dfc_resizing;
/* Threads that reduce a row together, and the length up to which one does it alone: see reduce.cuh. */
enum { DFC_REDUCE_BLOCK = 128, DFC_REDUCE_SHORT = 64 };
/* Floats rounded as if they were quantised to 0 … most (narrow: 1 … most): by one range, or one for each of the
 * channels that the last axis has (many). low, high: what comes back to the ranges' ends. */
typedef struct dfc_faking {
  const void *x, *dy; void *y, *low, *high;
  dfc_operand min, max;
  int64_t n, channels;
  float   most;
  int32_t narrow, many, pad;
} dfc_faking;
/* Bands of diagonals: see bands.h. whole: `rest` has an element for each of the result, not one. */
typedef struct dfc_packing {
  const void *x; void *z;
  dfc_operand rest;
  int64_t n, low, high, rows, cols, width;
  int32_t left_above, left_below, whole, pad;
} dfc_packing;
enum { DFC_TO_HSV = 0, DFC_TO_RGB, DFC_TURN_HUE, DFC_SATURATE };
/* n pixels of three colours; of contrast: n pictures of `pixels` of `depth` channels. */
typedef struct dfc_colouring { const void *x; void *z; dfc_operand amount; int64_t n, pixels, depth; int32_t what, pad;
} dfc_colouring;
typedef struct dfc_neighbours { const void *x; void *z; int64_t n, depth, radius; double bias, alpha, beta;
} dfc_neighbours;
/* See dfk_crop; x: the pictures, dy: what came back to the crops, outside: what lies where no picture is. */
typedef struct dfc_cropping {
  const void *x, *dy, *boxes; void *z; const int64_t *of;
  int64_t n, height, width, depth, batch, rows, columns;
  float   outside;
  int32_t nearest;
} dfc_cropping;
/* A flag for each of n elements, and how many are before each; chunks: how many are before each chunk. */
typedef struct dfc_flagging { const uint8_t *flags; int64_t *chunks, *places; int64_t n; } dfc_flagging;
/* The indices, in an array of these dims, of what is flagged. */
typedef struct dfc_indexing {
  const uint8_t *flags; const int64_t *places; void *z;
  int64_t n, rank, dims[DFC_BOX_RANK];
} dfc_indexing;
/* Elements, n of x and m of y, to be flagged; order: how they lie sorted, greatest first, NULL: one element. */
typedef struct dfc_telling { const void *x, *y; const int32_t *order; uint8_t *flags, *heads; int64_t n, m;
} dfc_telling;
/* n elements in their order as m groups of equal ones, which begin at heads; group: how many heads are before, place:
 * how many first elements lie before. */
typedef struct dfc_grouping {
  const int32_t *order; const uint8_t *heads; const int64_t *group, *place;
  int64_t *begin; void *idx, *count;
  int64_t n, m;
  int32_t wide, pad;
} dfc_grouping;
typedef struct dfc_chosen { const void *x; const uint8_t *flags; const int64_t *places; void *z, *idx; int64_t n;
  int32_t wide, pad; } dfc_chosen;
/* first: of each block the first NaN and the first infinity */
typedef struct dfc_checking { const void *x; int64_t *first; int64_t n, blocks; } dfc_checking;
enum { DFC_SEGMENT_SUM = 0, DFC_SEGMENT_MEAN, DFC_SEGMENT_SQRT_N, DFC_SEGMENT_PROD, DFC_SEGMENT_MAX, DFC_SEGMENT_MIN,
  DFC_SEGMENT_SPARSE = 16 /* or-ed: where a segment has no rows, products are 1 and all else 0 */ };
enum { DFC_LOWER = 0, DFC_UPPER };
enum { DFC_SOFTMAX = 0, DFC_LOG_SOFTMAX, DFC_XENT, DFC_SPARSE_XENT };
#endif
