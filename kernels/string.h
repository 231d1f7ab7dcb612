/* string.h: the kernels of string ops (ref/string.c, ref/string_text.c). Strings are bytes; none of them ends with a
   zero. */
#ifndef DFLOW_STRING_H
#define DFLOW_STRING_H
#include "kernel.h"
int32_t ref_as_string(df_kernel *k);        /* (input; precision, scientific, shortest, width, fill) */
int32_t ref_string_format(df_kernel *k);    /* (inputs...; template, placeholder, summarize) */
int32_t ref_print_v2(df_kernel *k);         /* (input; output_stream, end) */
int32_t ref_string_join(df_kernel *k);      /* (inputs...; separator) */
int32_t ref_reduce_join(df_kernel *k);      /* (inputs, reduction_indices; keep_dims, separator) */
int32_t ref_unsorted_segment_join(df_kernel *k);  /* (inputs, segment_ids, num_segments; separator) */
int32_t ref_string_to_number(df_kernel *k); /* (string_tensor; out_type) */
int32_t ref_string_length(df_kernel *k);    /* (input; unit) */
int32_t ref_substr(df_kernel *k);           /* (input, pos, len; unit) */
int32_t ref_string_lower(df_kernel *k);
int32_t ref_string_upper(df_kernel *k);
int32_t ref_string_strip(df_kernel *k);
int32_t ref_string_split(df_kernel *k);     /* (input, delimiter; skip_empty) */
int32_t ref_decode_raw(df_kernel *k);       /* (bytes; out_type, little_endian) */
int32_t ref_string_split_v2(df_kernel *k);  /* ref/string_split.c: (input, sep; maxsplit) */
/* (data, data_splits; separator, ngram_widths, left_pad, right_pad, pad_width, preserve_short_sequences) */
int32_t ref_string_ngrams(df_kernel *k);
/* ref/unicode.c: (input; input_encoding, errors, replacement_char, replace_control_characters, Tsplits), with a third
 * output where each character begins or without; (input_values, input_splits; errors, output_encoding,
 * replacement_char) */
int32_t ref_unicode_decode(df_kernel *k), ref_unicode_encode(df_kernel *k);
int32_t ref_encode_base64(df_kernel *k);    /* ref/string_base64.c: (input; pad) */
int32_t ref_decode_base64(df_kernel *k);
/* ref/string_match.c */
int32_t ref_regex_full_match(df_kernel *k);        /* (input, pattern) */
int32_t ref_static_regex_full_match(df_kernel *k); /* (input; pattern) */
int32_t ref_regex_replace(df_kernel *k);           /* (input, pattern, rewrite; replace_global) */
int32_t ref_static_regex_replace(df_kernel *k);    /* (input; pattern, rewrite, replace_global) */
/* ref/string_hash.c: (input; num_buckets) -> int64, and (input; num_buckets, key) */
int32_t ref_hash_bucket_fast(df_kernel *k), ref_hash_bucket(df_kernel *k), ref_hash_bucket_strong(df_kernel *k);
uint64_t dfk_fingerprint(const char *bytes, int64_t n);   /* FarmHash's of 64 bits */
/* ref/cross.c: (indices..., values..., shapes..., dense_inputs...; N, hashed_output, num_buckets, hash_key,
 * sparse_types, dense_types); (..., sep; N, sparse_types, dense_types); (ragged_values..., ragged_row_splits...,
 * sparse_indices..., sparse_values..., sparse_shape..., dense_inputs...; Nsparse, input_order, hashed_output,
 * num_buckets, hash_key, ragged_values_types, ragged_splits_types, sparse_values_types, dense_types) */
int32_t ref_sparse_cross(df_kernel *k), ref_sparse_cross_v2(df_kernel *k), ref_ragged_cross(df_kernel *k);
#endif
