/* einsum.h: what an einsum equation says. Shared by the kernels and by shape inference; knows only ranks.
 *
 * Labels are letters, one per axis; `...` stands for the axes not named, aligned from the right. Digits are labels
 * whose sizes broadcast (1 against n), as the axes of an ellipsis do: the gradient writes them in place of an ellipsis.
 * Without `->` the output is the ellipsis and then, sorted, the labels that occur once.
 */
#ifndef DFLOW_KERNELS_EINSUM_H
#define DFLOW_KERNELS_EINSUM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DFK_EINSUM_INPUTS = 16, DFK_EINSUM_RANK = 8, DFK_EINSUM_LABELS = 80 };

typedef struct dfk_einsum {
  int32_t n;                                                     /* inputs */
  int32_t rank[DFK_EINSUM_INPUTS];
  int8_t  label[DFK_EINSUM_INPUTS][DFK_EINSUM_RANK];              /* numbers from 0 */
  int32_t out_rank;
  int8_t  out[DFK_EINSUM_RANK];
  int32_t nlabels;
  char    name[DFK_EINSUM_LABELS];                                /* '.' for the axes of the ellipsis */
  bool    broadcasts[DFK_EINSUM_LABELS];
} dfk_einsum;

/* Takes the equation apart for inputs of these ranks; -1 is an unknown rank, which an input without an ellipsis may
 * have. False: `why` (bytes) says what is wrong. *unknown: an ellipsis stands for a rank not known, and e is not
 * filled. */
bool dfk_einsum_parse(const char *equation, int32_t n, const int32_t *ranks, dfk_einsum *e, bool *unknown, char *why,
                      size_t bytes);
#endif
