/* array.h: the kernels of the array family, one line each. What they compute stands in runtime/ops/array.c. */
#ifndef DFLOW_ARRAY_H
#define DFLOW_ARRAY_H
#include "kernel.h"

int32_t ref_shape(df_kernel *k);                /* Shape and ShapeN */
int32_t ref_size(df_kernel *k);
int32_t ref_rank(df_kernel *k);
int32_t ref_reshape(df_kernel *k);
int32_t ref_expand_dims(df_kernel *k);
int32_t ref_squeeze(df_kernel *k);
int32_t ref_transpose(df_kernel *k);
int32_t cpu_transpose(df_kernel *k);
int32_t ref_concat(df_kernel *k);
int32_t cpu_concat(df_kernel *k);
int32_t ref_concat_offset(df_kernel *k);
int32_t ref_split(df_kernel *k);
int32_t cpu_split(df_kernel *k);
int32_t ref_split_v(df_kernel *k);
int32_t cpu_split_v(df_kernel *k);
int32_t ref_pack(df_kernel *k);
int32_t cpu_pack(df_kernel *k);
int32_t ref_unpack(df_kernel *k);
int32_t cpu_unpack(df_kernel *k);
int32_t ref_slice(df_kernel *k);
int32_t cpu_slice(df_kernel *k);
int32_t ref_strided_slice(df_kernel *k);
int32_t cpu_strided_slice(df_kernel *k);
int32_t ref_strided_slice_grad(df_kernel *k);
int32_t cpu_strided_slice_grad(df_kernel *k);
int32_t ref_tile(df_kernel *k);
int32_t cpu_tile(df_kernel *k);
int32_t ref_pad(df_kernel *k);                  /* Pad and PadV2 */
int32_t cpu_pad(df_kernel *k);
int32_t ref_mirror_pad(df_kernel *k);
int32_t cpu_mirror_pad(df_kernel *k);
int32_t ref_mirror_pad_grad(df_kernel *k);
int32_t ref_reverse(df_kernel *k);
int32_t cpu_reverse(df_kernel *k);
int32_t ref_reverse_sequence(df_kernel *k);
int32_t ref_roll(df_kernel *k);
int32_t cpu_roll(df_kernel *k);
int32_t ref_broadcast_to(df_kernel *k);
int32_t cpu_broadcast_to(df_kernel *k);
int32_t ref_broadcast_args(df_kernel *k);
int32_t ref_broadcast_gradient_args(df_kernel *k);
int32_t ref_fill(df_kernel *k);
int32_t cpu_fill(df_kernel *k);
int32_t ref_zeros_like(df_kernel *k);
int32_t ref_ones_like(df_kernel *k);
int32_t ref_range(df_kernel *k);
int32_t cpu_range(df_kernel *k);
int32_t ref_lin_space(df_kernel *k);
int32_t ref_invert_permutation(df_kernel *k);
int32_t ref_diag(df_kernel *k);
int32_t cpu_diag(df_kernel *k);
int32_t ref_diag_part(df_kernel *k);
int32_t cpu_diag_part(df_kernel *k);
int32_t ref_matrix_set_diag(df_kernel *k);
int32_t cpu_matrix_set_diag(df_kernel *k);
int32_t ref_where(df_kernel *k), cpu_where(df_kernel *k);
int32_t ref_unique(df_kernel *k), cpu_unique(df_kernel *k);      /* Unique and UniqueWithCounts */
int32_t ref_check_numerics(df_kernel *k);

/* ---- what the shape functions share with the kernels, and the kernels with each other (kernels/array.c) ---- */

/* StridedSlice taken apart. Numbers that are not known yet (while building) are DFK_UNKNOWN. */
#define DFK_UNKNOWN INT64_MIN
typedef struct dfk_slice_spec {
  int32_t n;                                     /* entries of begin, end, strides */
  int64_t begin[2 * DF_MAX_RANK], end[2 * DF_MAX_RANK], strides[2 * DF_MAX_RANK];
  int64_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask;
} dfk_slice_spec;
/* n entries, and the masks, which are the first attributes of every such op. */
static inline dfk_slice_spec dfk_slice_masks(const df_attr *a, int32_t n) {
  return (dfk_slice_spec){ .n = n, .begin_mask = a[0].i, .end_mask = a[1].i, .ellipsis_mask = a[2].i,
                           .new_axis_mask = a[3].i, .shrink_axis_mask = a[4].i };
}
typedef struct dfk_slice {
  /* per dim of the input; size DFK_UNKNOWN: not known */
  int64_t begin[DF_MAX_RANK], stride[DF_MAX_RANK], size[DF_MAX_RANK];
  int32_t rank;                                  /* of the result */
  int64_t dims[DF_MAX_RANK];                     /* of the result; DFK_UNKNOWN: not known */
} dfk_slice;
/* Resolves `spec` against an input of these dims (negative: not known). False: `message` says what is wrong. */
bool dfk_slice_resolve(const dfk_slice_spec *spec, int32_t rank, const int64_t *dims, dfk_slice *out,
                       char *message, int32_t bytes);

/* An axis given as element `i` of a tensor, made to count from the front of `rank` dims. False: error is filled. */
bool dfk_axis(df_kernel *k, const df_tensor *t, int64_t i, int32_t rank, const char *what, int32_t *axis);
/* As dfk_axis, of a tensor that must have one element. */
bool dfk_one_axis(df_kernel *k, const df_tensor *t, int32_t rank, const char *what, int32_t *axis);
/* The same, of a scalar. */
bool dfk_scalar_axis(df_kernel *k, const df_tensor *t, int32_t rank, const char *what, int32_t *axis);
/* dims from an integer vector, checked to be >= 0 and at most DF_MAX_RANK many. -1: error is filled; else the rank. */
int32_t dfk_dims_of(df_kernel *k, const df_tensor *t, const char *what, int64_t *dims);
/* The product of dims[from .. to - 1]. */
static inline int64_t dfk_span(const int64_t *dims, int32_t from, int32_t to) {
  int64_t n = 1;
  for (; from < to; from++) n *= dims[from];
  return n;
}

/* How both versions of a kernel begin: the arguments are checked, the output (where there is one) is made and returned.
 * NULL or false: error is filled. */
df_tensor *dfk_transpose_begin(df_kernel *k, int32_t *from);  /* dim d of the result is dim from[d] of the input */
df_tensor *dfk_concat_begin(df_kernel *k, int32_t *axis);
int64_t   *dfk_split_begin(df_kernel *k, int32_t *axis);             /* the outputs' sizes; dfk_free them */
int64_t   *dfk_split_v_begin(df_kernel *k, int32_t *axis);
df_tensor *dfk_pack_begin(df_kernel *k, int32_t *axis);
bool       dfk_unpack_begin(df_kernel *k, int32_t *axis, int64_t *dims);
df_tensor *dfk_slice_begin(df_kernel *k, int64_t *begin);
bool       dfk_strided_slice_read(df_kernel *k, dfk_slice *s);       /* begin without the output */
df_tensor *dfk_strided_slice_begin(df_kernel *k, dfk_slice *s);
df_tensor *dfk_strided_slice_grad_begin(df_kernel *k, dfk_slice *s); /* zeros */
df_tensor *dfk_fill_begin(df_kernel *k);
df_tensor *dfk_tile_begin(df_kernel *k, int64_t *times);
df_tensor *dfk_pad_begin(df_kernel *k, int64_t *before);
df_tensor *dfk_reverse_begin(df_kernel *k, uint32_t *axes);          /* bit d: dim d is reversed */
df_tensor *dfk_roll_begin(df_kernel *k, int64_t *shift);             /* per dim, in [0, dim) */
df_tensor *dfk_diag_begin(df_kernel *k);                             /* zeros */
df_tensor *dfk_diag_part_begin(df_kernel *k);
df_tensor *dfk_matrix_set_diag_begin(df_kernel *k);                  /* a copy of the input */
/* Element i is from + i by of integers, start + i step of floats; of LinSpace the last is stop. */
typedef struct dfk_ramp { double start, step, stop; int64_t from, by; } dfk_ramp;
df_tensor *dfk_range_begin(df_kernel *k, dfk_ramp *r);
df_tensor *dfk_lin_space_begin(df_kernel *k, dfk_ramp *r);
/* edge 1: the edge is repeated (SYMMETRIC), 0: it is not (REFLECT) */
df_tensor *dfk_mirror_pad_begin(df_kernel *k, int64_t *before, int32_t *edge);
df_tensor *dfk_mirror_pad_grad_begin(df_kernel *k, int64_t *before, int32_t *edge);
/* Where position p of a padded dim comes from. */
static inline int64_t dfk_mirrored(int64_t p, int64_t before, int64_t n, int32_t edge) {
  p -= before;
  if (p < 0) return -p - edge;
  return p < n ? p : 2 * n - 2 + edge - p;
}
df_tensor *dfk_reverse_sequence_begin(df_kernel *k, int32_t *seq_dim, int32_t *batch_dim);
/* of the input per dim of the output; 0: repeated */
df_tensor *dfk_broadcast_to_begin(df_kernel *k, int64_t *strides);
#endif
