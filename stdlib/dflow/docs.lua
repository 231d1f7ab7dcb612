--- What help knows that the registry does not. Data only, a file for each sort of name in docs/; help.lua
-- makes text of it.
-- Each part is loaded when it is first asked for: the prompt is there before any of it is needed.
local each_about = require 'dflow.docs.about'

local M = {}
local parts = {}

--- Of df that are no ops: pages by name.
function parts.functions() return require('dflow.docs.functions').functions end
--- What a type is, its fields and methods.
function parts.types() return require 'dflow.docs.types' end
--- Signatures of ops whose arguments are not the node's, and types of options where the registry does not say them.
function parts.calls() return require('dflow.docs.calls').calls end
function parts.kinds() return require('dflow.docs.calls').kinds end
--- What every example gives.
function parts.outputs()
  local outputs = require 'dflow.docs.outputs'
  each_about('output', function(name, text) outputs[name] = text end)
  return outputs
end
--- What the gradient of an op is, as formulas or in words, and why there is none.
function parts.formulas() return require('dflow.docs.derivatives').formulas end
function parts.words() return require('dflow.docs.derivatives').words end
function parts.none() return require('dflow.docs.derivatives').none end
--- The manual: {area, title, text} for each page.
function parts.manual() return require 'dflow.docs.manual' end
--- Lua's own library.
function parts.lua() return require 'dflow.docs.lua' end

--- What df.type says -> the name of the type.
function parts.type_of()
  local list = {}
  for type_name, t in pairs(M.types) do list[t.kind] = type_name end
  return list
end

--- Methods: by name, then by df.type, the name that help knows them by.
function parts.methods()
  local list = {}
  for type_name, t in pairs(M.types) do
    for name in pairs(t.methods) do
      list[name] = list[name] or {}
      list[name][t.kind] = type_name .. ':' .. name
    end
  end
  return list
end

--- Names that belong together: each line, with those that are indented below it, is one "see also".
M.families = {}
for line in ([[
  add subtract multiply realdiv div div_no_nan floordiv floormod pow negative square add_n squared_difference
  truncatediv truncatemod floordiv floormod div divide truediv
  xdivy xlogy xlog1py div_no_nan
  less less_equal greater greater_equal equal not_equal approximate_equal where
  maximum minimum clip_by_value relu
  clip_by_value clip_by_norm clip_by_global_norm global_norm norm
  logical_and logical_or logical_not logical_xor to_bool
  exp log log1p expm1 sqrt rsqrt reciprocal square
  reciprocal realdiv rsqrt
  sin cos tan asin acos atan atan2
  sinh cosh tanh asinh acosh atanh
  erf erfc lgamma digamma polygamma zeta
  floor ceil round rint sign abs
  bitwise_and bitwise_or bitwise_xor invert left_shift right_shift
  is_nan is_inf is_finite check_numerics
  complex real imag conj angle complex_abs
  matmul batch_matmul einsum tensordot transpose cross
  reshape expand_dims squeeze transpose shape rank size
  shape shape_n rank size dim ensure_shape broadcast_dynamic_shape
  concat stack unstack split pack split_v
  gather gather_nd slice strided_slice where boolean_mask embedding_lookup
  scatter_nd tensor_scatter_update tensor_scatter_add tensor_scatter_sub gather_nd
  zeros ones fill zeros_like ones_like range linspace lin_space one_hot eye
  pad pad_v2 mirror_pad tile broadcast_to roll reverse repeat_
  reverse reverse_sequence roll invert_permutation
  random_uniform random_uniform_int random_normal truncated_normal set_random_seed
  random_shuffle multinomial random_uniform set_random_seed dropout
  relu relu6 leaky_relu elu selu softplus sigmoid tanh log_sigmoid
  softplus log_sigmoid sigmoid
  softmax log_softmax softmax_cross_entropy_with_logits sparse_softmax_cross_entropy_with_logits
    sigmoid_cross_entropy_with_logits
  reduce_sum reduce_mean reduce_prod reduce_max reduce_min reduce_logsumexp reduce_euclidean_norm moments
  reduce_variance reduce_std moments
  count_nonzero zero_fraction reduce_sum
  reduce_all reduce_any logical_and to_bool
  cumsum cumprod reduce_sum
  argmax argmin top_k in_top_k unique
  unique unique_with_counts setdiff1d bincount
  lower_bound upper_bound bucketize top_k
  segment_sum segment_mean segment_prod segment_max segment_min unsorted_segment_sum sparse_segment_sum
  unsorted_segment_sum unsorted_segment_prod unsorted_segment_max unsorted_segment_min segment_sum
  sparse_segment_sum sparse_segment_mean sparse_segment_sqrt_n segment_sum
  cast bitcast constant decode_raw
  cond while_loop TensorArray gradients case switch_case
  map_fn vmap scan associative_scan foldl foldr while_loop
  func lua_func cond while_loop custom_gradient
  matrix_solve matrix_triangular_solve matrix_inverse cholesky_solve lstsq matrix_solve_ls tridiagonal_solve
  cholesky cholesky_solve qr svd self_adjoint_eig self_adjoint_eigvals
  matrix_determinant log_matrix_determinant matrix_inverse
  tridiagonal_solve tridiagonal_matmul matrix_solve
  fft ifft fft2d ifft2d rfft irfft
  stateless_random_uniform stateless_random_normal stateless_truncated_normal random_uniform
  stateless_random_gamma stateless_random_poisson stateless_random_binomial stateless_multinomial multinomial
    random_gamma random_poisson
  sort argsort searchsorted top_k
  bincount histogram_fixed_width unsorted_segment_sum
  lua_func func custom_gradient print assert
  gradients jacobian hessian jvp hvp check_gradients custom_gradient checkpoint saved stop_gradient
  stop_gradient identity identity_n
  run start Session default_session stats init reset_peak_memory
  control_dependencies group no_op name_scope device devices colocate_with Graph
  Graph default_graph reset name_scope
  FIFOQueue PaddingFIFOQueue RandomShuffleQueue PriorityQueue
  constant placeholder placeholder_with_default tensor Variable
  Variable variable_scope get_variable trainable_variables global_variables assign assign_add assign_sub
    is_variable_initialized init
  assign assign_add assign_sub scatter_update scatter_add
  scatter_update scatter_add scatter_sub scatter_mul scatter_div scatter_min scatter_max
  apply_gradient_descent apply_momentum apply_adam sparse_apply_gradient_descent
  sparse_apply_gradient_descent sparse_apply_momentum sparse_apply_adam
  print assert check_numerics string_format
  quantize_model quantize dequantize quantized_matmul
  export_onnx export_graph_def import_onnx import_hlo import_graph_def tensor_list tensor_list_values load_checkpoint
    save_checkpoint save_npz
  load_npy save_npy load_npz save_npz data.idx
  conv2d max_pool avg_pool bias_add
  conv3d conv3d_transpose max_pool3d avg_pool3d nn.Conv3D
  bias_add bias_add_grad conv2d
  depth_to_space space_to_depth batch_to_space_nd space_to_batch_nd
  diag diag_part matrix_diag matrix_diag_part matrix_set_diag matrix_band_part
  dynamic_partition dynamic_stitch gather
  select select_v2 where
  sequence_mask boolean_mask one_hot
  l2_loss l2_normalize norm global_norm
  as_string string_to_number string_format string_join reduce_join unsorted_segment_join
  string_length string_lower string_upper string_strip string_split string_split_v2 substr
  regex_replace regex_full_match string_split_v2
  encode_base64 decode_base64 decode_raw
  decode_raw bitcast string_to_number
  non_max_suppression top_k
  IndexedSlices embedding_lookup gather gradients
  tensor Tensor type dtypes
  names type unpack _VERSION dtypes
  newaxis expand_dims strided_slice slice
  gelu relu elu swish
  logaddexp reduce_logsumexp softplus
  train train.SGD train.Momentum train.Adam train.exponential_decay
  train.SGD train.Momentum train.Nesterov train.Adagrad
  train.Adagrad train.Adadelta train.RMSProp train.Ftrl
  train.Adam train.AdamW train.Nadam train.Lamb train.SGD
  train.GradientDescentOptimizer train.MomentumOptimizer train.AdamOptimizer train.AdagradOptimizer
    train.AdadeltaOptimizer train.RMSPropOptimizer train.FtrlOptimizer train
  train.exponential_decay train.natural_exp_decay train.inverse_time_decay train.polynomial_decay train.cosine_decay
    train.piecewise_constant
  train.cosine_decay train.cosine_decay_restarts train.linear_cosine_decay
  train.ExponentialMovingAverage train.SGD Variable
  train.lbfgs train.conjugate_gradient train.loop
  train.loop while_loop
  train.Saver save restore
  summary summary.FileWriter train.loop
  save restore load_safetensors save_safetensors save_npz train.Saver
  nn nn.dense nn.lstm_cell nn.gru_cell nn.dynamic_rnn nn.glorot_uniform
  nn nn.Dense nn.Embedding nn.Dropout nn.Flatten nn.Sequential nn.initializers
  nn.Conv2D nn.Conv1D nn.DepthwiseConv2D nn.Conv2DTranspose nn.MaxPool2D nn.AvgPool2D conv2d
  nn.Conv3D nn.Conv3DTranspose nn.MaxPool3D nn.AvgPool3D conv3d nn.Conv2D
  conv2d depthwise_conv2d_native nn.Conv2D nn.DepthwiseConv2D
  nn.MaxPool2D nn.AvgPool2D nn.MaxPool1D nn.AvgPool1D nn.GlobalMaxPool nn.GlobalAvgPool
  rnn rnn.RNNCell rnn.LSTMCell rnn.GRUCell rnn.MultiRNNCell rnn.dynamic_rnn
  rnn.DropoutWrapper rnn.ResidualWrapper rnn.AttentionWrapper rnn.ACTCell rnn.MultiRNNCell
  rnn.BahdanauAttention rnn.LuongAttention rnn.AttentionWrapper nn.AdditiveAttention
  rnn.dynamic_rnn rnn.bidirectional_rnn rnn.raw_rnn rnn.decode rnn.beam_search while_loop
  rnn.decode rnn.TrainingHelper rnn.ScheduledEmbeddingTrainingHelper rnn.GreedyEmbeddingHelper rnn.SampleEmbeddingHelper
    rnn.beam_search
  rnn.tile_batch rnn.beam_search rnn.AttentionWrapper
  sampled_softmax_loss nce_loss embedding_lookup nn.log_uniform_candidate_sampler
  nn.uniform_candidate_sampler nn.log_uniform_candidate_sampler nn.fixed_unigram_candidate_sampler
    nn.learned_unigram_candidate_sampler
  nn.mean_squared_error nn.absolute_difference nn.huber_loss nn.hinge_loss nn.log_loss nn.kl_divergence
    nn.cosine_distance
  nn.softmax_cross_entropy nn.sparse_softmax_cross_entropy nn.sigmoid_cross_entropy softmax_cross_entropy_with_logits
  ctc_loss while_loop rnn.dynamic_rnn ctc_beam_search_decoder
  ctc_greedy_decoder ctc_beam_search_decoder edit_distance ctc_loss
  nn.metrics nn
  nn.BatchNorm nn.LayerNorm nn.layer_norm nn.GroupNorm nn.RMSNorm
  nn.attention scaled_dot_product_attention nn.AdditiveAttention nn.MultiHeadAttention nn.TransformerBlock
  data data.idx data.batches data.read data.permutation data.pipeline
  data.csv data.text data.tfrecord data.idx
  data.tfrecord data.write_tfrecord data.example
  data.image data.images data.pipeline
  data.pipeline data.batches
  moments reduce_mean l2_normalize
  dropout random_uniform nn.dense
  saved while_loop checkpoint
  draw saved Graph gradients
  assert assert_equal assert_none_equal assert_near assert_type
  assert_less assert_less_equal assert_greater assert_greater_equal assert
  assert_positive assert_negative assert_non_negative assert_non_positive assert_less
  assert_rank assert_rank_at_least assert_scalar assert_type assert_integer ensure_shape
  verify_tensor_all_finite check_numerics is_finite
  is_non_decreasing is_strictly_increasing searchsorted
  meshgrid range broadcast_to
  unravel_index gather_nd argmax
  batch_gather gather gather_nd
  confusion_matrix bincount scatter_nd
  histogram_fixed_width_bins histogram_fixed_width
  unsorted_segment_mean unsorted_segment_sqrt_n unsorted_segment_sum
  random_crop slice random_uniform
  space_to_batch batch_to_space space_to_batch_nd
  reciprocal_no_nan multiply_no_nan divide_no_nan div_no_nan
  polyval pow
  lbeta lgamma
  clip_by_average_norm clip_by_norm
  to_complex64 to_complex128 cast complex
  weighted_cross_entropy_with_logits log_poisson_loss sigmoid_cross_entropy_with_logits
  sufficient_statistics normalize_moments weighted_moments moments
  relu_layer relu matmul
  lrn l2_normalize nn.BatchNorm
  resize_bilinear resize_nearest_neighbor resize_bicubic resize_area crop_and_resize image.resize
  rgb_to_hsv hsv_to_rgb image.adjust_hue
  SparseTensor sparse_placeholder sparse_tensor_to_dense sparse_to_dense sparse_tensor_dense_matmul sparse_add
    sparse_reduce_sum IndexedSlices
  sparse_to_indicator sparse_tensor_to_dense one_hot
  sparse_reorder sparse_reshape sparse_transpose sparse_slice SparseTensor
  sparse_split sparse_concat sparse_slice
  sparse_retain sparse_reset_shape sparse_fill_empty_rows SparseTensor
  sparse_dense_cwise_mul sparse_dense_cwise_div sparse_dense_cwise_add sparse_add SparseTensor
  sparse_reduce_max sparse_reduce_sum_sparse sparse_reduce_max_sparse sparse_reduce_sum SparseTensor
  sparse_softmax softmax SparseTensor
  embedding_lookup_sparse embedding_lookup segment_sum SparseTensor
  conv2d_transpose depthwise_conv2d separable_conv2d atrous_conv2d conv2d
  conv1d conv1d_transpose convolution conv2d nn.Conv1D
  conv_transpose atrous_conv2d_transpose conv2d_backprop_input conv2d_backprop_filter conv2d_transpose
  pool max_pool1d avg_pool1d max_pool2d avg_pool2d max_pool
  batch_normalization batch_norm_with_global_normalization fused_batch_norm moments nn.BatchNorm
  swish silu crelu sigmoid relu
  xw_plus_b relu_layer
  matrix_transpose adjoint trace matvec transpose
  logdet log_matrix_determinant cholesky
  string_to_hash_bucket_fast string_to_hash_bucket_strong string_to_hash_bucket string_length
]]):gsub('\n    ', ' '):gmatch '[^\n]+' do M.families[#M.families + 1] = line:gsub('^%s+', '') end
each_about('see', function(name, text) M.families[#M.families + 1] = name .. ' ' .. text end)

--- What holds for each dtype's numbers.
M.dtypes = {
  float32 = '24 bits of precision; what a bare float becomes',
  float64 = '53 bits of precision',
  float16 = '11 bits of precision, up to 65504; kept so, computed as float32',
  bfloat16 = '8 bits of precision, the range of float32; kept so, computed as float32',
  int8 = 'whole numbers from -128 to 127',
  uint8 = 'whole numbers from 0 to 255',
  int16 = 'whole numbers from -32768 to 32767',
  uint16 = 'whole numbers from 0 to 65535',
  int32 = 'whole numbers below 2^31; what a bare integer becomes',
  uint32 = 'whole numbers from 0 to below 2^32',
  int64 = 'whole numbers below 2^63',
  uint64 = 'whole numbers from 0 to below 2^64',
  bool = 'true and false',
  string = 'bytes of any length',
  complex64 = 'two float32: {re =, im =}',
  complex128 = 'two float64: {re =, im =}',
  qint8 = 'quantized: the integers of int8, cast to be computed with',
  quint8 = 'quantized: the integers of uint8, cast to be computed with',
  qint16 = 'quantized: the integers of int16, cast to be computed with',
  quint16 = 'quantized: the integers of uint16, cast to be computed with',
  qint32 = 'quantized: the integers of int32, cast to be computed with',
  variant = "TensorFlow's lists of tensors in imported graphs; there are no constants of it",
}

return setmetatable(M, { __index = function(t, name)
  local part = parts[name] and parts[name]()
  rawset(t, name, part)
  return part
end })
