/* ctc.h: what the labels are that connectionist temporal classification reads out of logits [time, batch, classes]
   (ref/ctc.c). */
#ifndef DFLOW_CTC_H
#define DFLOW_CTC_H
#include "kernel.h"
/* (inputs, sequence_length; merge_repeated, blank_index) -> a sparse tensor of the labels, -sum of the best logits */
int32_t ref_ctc_greedy(df_kernel *k);
/* (inputs, sequence_length; beam_width, top_paths, merge_repeated) -> the indices, values and shapes of top_paths
   sparse tensors of labels, log_probability [batch, top_paths] */
int32_t ref_ctc_beam_search(df_kernel *k);
#endif
