-- Every option of what takes options (spec/options.lua, and the calls here) does something: with one of the values that it takes, what the call gives or
-- builds is not what it is without. An option that is read and lost on its way to the op is found so, by which page of results it may be recorded.
local df = require 'dflow'
local core = require 'dflow.backend'
local it = require('spec.support').host_it(it, pending)
local rawlen = rawlen or function(t) return #t end

--- Calls of spec/options.lua that would say little here; others of the same functions are below.
local ELSEWHERE = '\n' .. [[
df.while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, {df.int32(0)}, OPTIONS)
df.map_fn(function(r) return r * 2 end, x, OPTIONS)
df.scan(function(a, r) return a + r end, x, 0.0, OPTIONS)
df.foldl(function(a, r) return a + r end, x, 0.0, OPTIONS)
df.PaddingFIFOQueue(3, 'float32', OPTIONS)
df.conv2d(df.ones{1, 3, 3, 1}, df.ones{2, 2, 1, 1}, OPTIONS)
df.max_pool(df.ones{1, 3, 3, 1}, OPTIONS)
df.ctc_loss({indices = {{0, 0}}, values = {1}, dense_shape = {1, 1}}, df.ones{3, 1, 3}, OPTIONS)
df.embedding_lookup(m, {0}, OPTIONS)
df.image.ssim(df.ones{14, 14, 1}, df.ones{14, 14, 1}, 1, OPTIONS)
df.signal.frame(df.ones{9}, 4, 2, OPTIONS)
df.signal.hann_window(5, OPTIONS)
df.nn.Dropout(0.5, OPTIONS)(m)
df.nn.BatchNorm(OPTIONS)(m)
df.nn.GroupNorm(OPTIONS)(m)
df.nn.MultiHeadAttention(2, 4, OPTIONS)(df.ones{1, 3, 4})
df.nn.TransformerBlock(2, 4, OPTIONS)(df.ones{1, 3, 4})
df.nn.attention(m, m, m, OPTIONS)
df.nn.initializers.variance_scaling(OPTIONS)({2, 2}, 'float32')
df.rnn.LSTMCell(2, OPTIONS)
df.rnn.dynamic_rnn(df.rnn.GRUCell(2), df.ones{1, 3, 2}, OPTIONS)
df.rnn.bidirectional_rnn(df.rnn.GRUCell(2), df.rnn.GRUCell(2), df.ones{1, 3, 2}, OPTIONS)
df.train.SGD(0.1):minimize(y, OPTIONS)
df.train.MixedPrecision(df.train.SGD(0.1), OPTIONS)
df.data.pipeline(df.tensor{1, 2, 3}):batch(2, OPTIONS)
df.data.pipeline(df.tensor{1, 2, 3}):padded_batch(2, OPTIONS)
df.data.csv('spec/README.md', OPTIONS)
df.func('f', {'float32'}, function(v) return v end, OPTIONS)
df.gradients(y, w, OPTIONS)
]]

--- OPTIONS and those that the call cannot do without.
local function with(options, others)
  local all = {}
  for _, list in ipairs{ others, options or {} } do for key, v in pairs(list) do all[key] = v end end
  return all
end

local CALLS = require 'spec.options' .. [[
df.conv2d(picture4, df.ones{2, 2, 3, 1}, with(OPTIONS, {strides = {1, 1, 1, 1}, padding = 'VALID'}))
df.max_pool(picture4, with(OPTIONS, {ksize = {1, 1, 1, 1}, strides = {1, 1, 1, 1}, padding = 'VALID'}))
df.gradients(squared(OPTIONS), w, {unconnected = 'zero'})
df.gradients(df.map_fn(function(r) return df.exp(r * w) end, x, OPTIONS), w, {unconnected = 'zero'})
df.gradients(df.scan(function(a, r) return a * a + r * w end, x, 0.0, OPTIONS), w, {unconnected = 'zero'})
df.gradients(df.foldl(function(a, r) return a * a + r * w end, x, 0.0, OPTIONS), w, {unconnected = 'zero'})
df.gradients(y * df.stop_gradient(w), {w, w2}, with(OPTIONS, {unconnected = 'zero'}))
df.PaddingFIFOQueue(3, 'float32', with(OPTIONS, {shapes = {{-1}}}))
df.ctc_loss({indices = {{0, 0}, {1, 0}, {2, 0}}, values = {1, 1, 1}, dense_shape = {3, 1}}, ramp{3, 3, 3}, OPTIONS)
df.ctc_loss({indices = {{0, 0}, {0, 1}}, values = {1, 1}, dense_shape = {1, 2}}, ramp{4, 1, 3}, OPTIONS)
df.embedding_lookup({m, m, m * 2}, {0, 1, 2, 3}, OPTIONS)
df.lua_func(function(v) return v end, {x}, 'float32', OPTIONS)
df.image.ssim(big, big * big, 1, OPTIONS)
df.signal.frame(ramp{3, 6}, 4, 3, with(OPTIONS, {pad_end = true}))
df.signal.hann_window(6, OPTIONS)
df.nn.Dropout(0.5, OPTIONS)(m, {training = true})
df.nn.BatchNorm(OPTIONS)(m, {training = true})
df.nn.GroupNorm(with(OPTIONS, {groups = 2}))(m)
df.nn.MultiHeadAttention(2, 4, OPTIONS)(df.ones{1, 3, 4}, {training = true})
df.nn.TransformerBlock(2, 4, OPTIONS)(df.ones{1, 3, 4}, {training = true})
df.nn.attention(ramp{1, 3, 2}, ramp{1, 3, 2}, ramp{1, 3, 2}, OPTIONS)
df.draw(df.exp(df.exp(df.exp(y))), with(OPTIONS, {around = 'Square'}))
df.nn.attention(ramp{1, 3, 2}, ramp{1, 3, 2}, ramp{1, 3, 2}, with(OPTIONS, {causal = true}))
df.scaled_dot_product_attention(ramp{1, 3, 2}, ramp{1, 3, 2}, ramp{1, 3, 2}, with(OPTIONS, {causal = true}))
df.nn.initializers.variance_scaling(OPTIONS)({2, 5}, 'float32')
df.rnn.LSTMCell(2, OPTIONS)(m, {c = m, h = m})
df.rnn.LSTMCell(2, with(OPTIONS, {projection = 2}))(m, {c = m, h = m})
df.gradients(df.rnn.dynamic_rnn(df.rnn.GRUCell(2), df.ones{1, 3, 2} * w, OPTIONS), w)
df.gradients(df.rnn.bidirectional_rnn(df.rnn.GRUCell(2), df.rnn.GRUCell(2), df.ones{1, 3, 2} * w, OPTIONS)[1], w)
df.train.SGD(0.1):minimize(y + df.square(w2), OPTIONS)
df.train.MixedPrecision(df.train.SGD(0.1), OPTIONS):minimize(df.square(df.Variable(1.0, {dtype = 'float16'})))
df.data.pipeline(df.tensor{1, 2, 3}):batch(2, OPTIONS)
df.data.pipeline(lists):batch(2, with(OPTIONS, {pad = true}))
df.data.pipeline(lists):padded_batch(2, OPTIONS)
df.rnn.decode(with(OPTIONS, decoded()))
df.gradients(df.train.loop(3, function(_, c) return c * c end, with(OPTIONS, {carry = w * 1, report = tell})), w)
df.argmin(m, OPTIONS)
df.assert_equal(x, x, OPTIONS)
df.assert_greater(x, 0, OPTIONS)
df.assert_greater_equal(x, 0, OPTIONS)
df.assert_less_equal(x, 9, OPTIONS)
df.assert_negative(-x, OPTIONS)
df.assert_non_negative(x, OPTIONS)
df.assert_non_positive(-x, OPTIONS)
df.assert_none_equal(x, x + 1, OPTIONS)
df.assert_positive(x, OPTIONS)
df.assert_rank(df.placeholder('float32'), 1, OPTIONS)
df.assert_rank_at_least(df.placeholder('float32'), 1, OPTIONS)
df.assert_scalar(w, OPTIONS)
df.assert_type(x, 'float32', OPTIONS)
df.assert_integer(df.int32{1}, OPTIONS)
df.atrous_conv2d(ramp{1, 5, 5, 1}, df.ones{2, 2, 1, 1}, 2, 'VALID', OPTIONS)
df.atrous_conv2d_transpose(ramp{1, 3, 3, 1}, df.ones{2, 2, 1, 1}, {1, 5, 5, 1}, 2, 'VALID', OPTIONS)
df.avg_pool1d(ramp{1, 5, 1}, 2, 1, 'VALID', OPTIONS)
df.avg_pool2d(ramp{1, 5, 5, 1}, 2, 1, 'VALID', OPTIONS)
df.max_pool1d(ramp{1, 5, 1}, 2, 1, 'VALID', OPTIONS)
df.max_pool2d(ramp{1, 5, 5, 1}, 2, 1, 'VALID', OPTIONS)
df.batch_gather(m, {{0}, {1}}, OPTIONS)
df.batch_norm_with_global_normalization(ramp{1, 2, 2, 1}, {1.0}, {2.0}, {0.5}, with(OPTIONS, {gamma = {3.0}, variance_epsilon = 0.1}))
df.batch_normalization(m, x, x, x, x, 0.1, OPTIONS)
df.batch_to_space(ramp{4, 1, 1, 1}, {{0, 0}, {0, 0}}, 2, OPTIONS)
df.space_to_batch(ramp{1, 2, 2, 1}, {{0, 0}, {0, 0}}, 2, OPTIONS)
df.boolean_mask(m, {true, false}, OPTIONS)
df.broadcast_to(x, {2, 2}, OPTIONS)
df.cast(x, 'int32', OPTIONS)
df.cholesky_solve(m, m, OPTIONS)
df.clip_by_average_norm(x, 0.1, OPTIONS)
df.clip_by_value(x, 0, 1, OPTIONS)
df.concat({m, m}, 0, OPTIONS)
df.conv1d_transpose(ramp{1, 3, 1}, df.ones{2, 1, 1}, {1, 5, 1}, 2, with(OPTIONS, {padding = 'SAME'}))
df.conv2d_backprop_filter(ramp{1, 5, 5, 1}, {2, 2, 1, 1}, ramp{1, 5, 5, 1}, 1, 'SAME', OPTIONS)
df.conv2d_backprop_input({1, 5, 5, 1}, df.ones{2, 2, 1, 1}, ramp{1, 5, 5, 1}, 1, 'SAME', OPTIONS)
df.conv2d_transpose(ramp{1, 5, 5, 1}, df.ones{2, 2, 1, 1}, {1, 5, 5, 1}, 1, OPTIONS)
df.conv_transpose(ramp{1, 5, 5, 1}, df.ones{2, 2, 1, 1}, {1, 5, 5, 1}, 1, OPTIONS)
df.cumprod(m, OPTIONS)
df.depthwise_conv2d(ramp{1, 5, 5, 1}, df.ones{2, 2, 1, 1}, 1, 'VALID', OPTIONS)
df.separable_conv2d(ramp{1, 5, 5, 1}, df.ones{2, 2, 1, 1}, df.ones{1, 1, 1, 1}, 1, 'VALID', OPTIONS)
df.dim(df.placeholder('float32'), 0, OPTIONS)
df.divide_no_nan(x, x, OPTIONS)
df.embedding_lookup_sparse({m, m * 2, m * 3}, {indices = {{0, 0}, {0, 1}, {1, 0}}, values = {1, 3, 2}, dense_shape = {2, 2}}, OPTIONS)
df.expand_dims(x, 0, OPTIONS)
df.fill({2}, 3, OPTIONS)
df.rfft(ramp{8}, OPTIONS)
df.irfft(df.rfft(ramp{8}), OPTIONS)
df.linspace(0, 1, 3, OPTIONS)
df.log_softmax(m, OPTIONS)
df.matrix_solve_ls(m, m, OPTIONS)
df.matvec(m, x, OPTIONS)
df.multiply_no_nan(x, x, OPTIONS)
df.normalize_moments(2.0, x, x, OPTIONS)
df.ones_like(x, OPTIONS)
df.zeros_like(x, OPTIONS)
df.placeholder_with_default(x, OPTIONS)
df.polyval({1, 2}, x, OPTIONS)
df.random_crop(ramp{9}, {2}, OPTIONS)
df.random_poisson(3, {4}, OPTIONS)
df.reduce_all({{true, false}, {true, true}}, OPTIONS)
df.reduce_any({{true, false}, {false, false}}, OPTIONS)
df.reduce_euclidean_norm(m, OPTIONS)
df.reduce_logsumexp(m, OPTIONS)
df.reduce_mean(m, OPTIONS)
df.reduce_min(m, OPTIONS)
df.reduce_prod(m, OPTIONS)
df.reduce_variance(m, OPTIONS)
df.relu_layer(m, m, x, OPTIONS)
df.xw_plus_b(m, m, x, OPTIONS)
df.reverse(m, 0, OPTIONS)
df.sigmoid_cross_entropy_with_logits(x, x, OPTIONS)
df.softmax_cross_entropy_with_logits(m, m, OPTIONS)
df.sparse_softmax_cross_entropy_with_logits(m, {0, 1}, OPTIONS)
df.silu(x, OPTIONS)
df.slice(m, {0, 0}, {1, 1}, OPTIONS)
df.stateless_multinomial(m, 3, {1, 2}, OPTIONS)
df.stateless_random_binomial({2}, {1, 2}, 5.0, 0.5, OPTIONS)
df.stateless_random_gamma({2}, {1, 2}, 2, OPTIONS)
df.stateless_random_poisson({2}, {1, 2}, 2, OPTIONS)
df.stateless_truncated_normal({2}, {1, 2}, OPTIONS)
df.tensordot(m, m, 1, OPTIONS)
df.tile(m, {2, 1}, OPTIONS)
df.transpose(m, OPTIONS)
df.tridiagonal_matmul(ramp{3, 2}, m, OPTIONS)
df.tridiagonal_solve(ramp{3, 2} + 1, m, OPTIONS)
df.truediv(x, x, OPTIONS)
df.unravel_index({1, 3}, {2, 2}, OPTIONS)
df.unsorted_segment_mean(m, {0, 1}, 2, OPTIONS)
df.unsorted_segment_sqrt_n(m, {0, 1}, 2, OPTIONS)
df.verify_tensor_all_finite(x, OPTIONS)
df.weighted_cross_entropy_with_logits(x, x, 2, OPTIONS)
df.where({true, false}, x, x * 2, OPTIONS)
df.trace(m, OPTIONS)
df.adjoint(m, OPTIONS)
df.logdet(m * df.eye(2), OPTIONS)
df.lbeta(x, OPTIONS)
df.self_adjoint_eig(m, OPTIONS)
df.self_adjoint_eigvals(m, OPTIONS)
df.reciprocal_no_nan(x, OPTIONS)
df.is_non_decreasing(x, OPTIONS)
df.is_strictly_increasing(x, OPTIONS)
df.zero_fraction(x, OPTIONS)
df.to_complex64(x, OPTIONS)
df.nce_loss(df.ones{5, 2} * 0.3, df.zeros{5}, {{1}, {2}}, m, 2, 5, with(OPTIONS, {remove_accidental_hits = false}))
df.image.random_hue(picture, 0.3, OPTIONS)
df.image.random_saturation(picture, 0.3, 2, OPTIONS)
df.image.random_contrast(picture, 0.3, 2, OPTIONS)
df.image.random_flip_left_right(ramp{9, 2, 2, 1}, OPTIONS)
df.image.random_flip_up_down(ramp{9, 2, 2, 1}, OPTIONS)
df.image.central_crop(picture, 0.5, OPTIONS)
df.image.flip_up_down(picture, OPTIONS)
df.image.total_variation(picture, OPTIONS)
df.image.transpose(picture, OPTIONS)
df.image.adjust_brightness(picture, 0.2, OPTIONS)
df.image.adjust_contrast(picture, 0.2, OPTIONS)
df.image.adjust_hue(picture, 0.2, OPTIONS)
df.image.adjust_saturation(picture, 0.2, OPTIONS)
df.image.rgb_to_yiq(picture, OPTIONS)
df.image.rgb_to_grayscale(picture, OPTIONS)
df.image.psnr(picture, picture * 0.5, 1, OPTIONS)
df.image.crop_to_bounding_box(picture, 0, 0, 2, 2, OPTIONS)
df.image.pad_to_bounding_box(picture, 0, 0, 5, 5, OPTIONS)
df.image.resize_with_crop_or_pad(picture, 2, 5, OPTIONS)
df.image.per_image_standardization(picture, OPTIONS)
df.image.image_gradients(picture4, OPTIONS)
df.image.sobel_edges(picture4, OPTIONS)
df.signal.idct(ramp{5}, OPTIONS)
df.signal.overlap_and_add(ramp{2, 3}, 2, OPTIONS)
df.signal.ifftshift(m, OPTIONS)
df.signal.hamming_window(6, OPTIONS)
df.signal.vorbis_window(5, OPTIONS)
df.signal.mfccs_from_log_mel_spectrograms(m, OPTIONS)
df.softmax(m, OPTIONS)
df.sort(m, OPTIONS)
df.argsort(m, OPTIONS)
df.progress(3, OPTIONS)
df.ctc_loss({indices = {{0, 0}, {0, 1}, {1, 0}}, values = {1, 1, 0}, dense_shape = {2, 2}}, ramp{4, 2, 3}, OPTIONS)
df.ctc_greedy_decoder({{{5.0, 0.0}}, {{5.0, 0.0}}}, {2}, OPTIONS)
df.ctc_beam_search_decoder({{{5.0, 0.0}}, {{0.0, 5.0}}, {{5.0, 0.0}}}, {3}, OPTIONS)
df.edit_distance({indices = {{0, 0}}, values = {1}, dense_shape = {1, 1}}, {indices = {{0, 0}, {0, 1}}, values = {2, 1}, dense_shape = {1, 2}}, OPTIONS)
df.reduce_max(m, OPTIONS)
df.reduce_std(m, OPTIONS)
df.count_nonzero(m, OPTIONS)
df.squeeze(df.ones{1, 2, 1}, OPTIONS)
df.split(m, 2, OPTIONS)
df.unstack(m, OPTIONS)
df.stack({m, m}, OPTIONS)
df.repeat_(m, 2, OPTIONS)
df.strided_slice(m, {0, 0}, {2, 2}, OPTIONS)
df.reverse_sequence(ramp{2, 2, 2}, {1, 2}, with(OPTIONS, {seq_axis = 1}))
df.truncated_normal({2}, OPTIONS)
df.stateless_random_uniform({2}, {1, 2}, OPTIONS)
df.stateless_random_normal({2}, {1, 2}, OPTIONS)
df.lstsq(m, m, OPTIONS)
df.matrix_solve(m, m, OPTIONS)
df.einsum('ij->ji', m, OPTIONS)
df.meshgrid({1, 2}, {3, 4, 5}, OPTIONS)
df.confusion_matrix({0, 1}, {0, 1}, OPTIONS)
df.histogram_fixed_width({1, 2}, {0, 4}, OPTIONS)
df.histogram_fixed_width_bins({1, 2}, {0, 4}, OPTIONS)
df.assert_less(x, 9, OPTIONS)
df.assert_near(x, x, OPTIONS)
df.log_poisson_loss(x, x, OPTIONS)
df.sufficient_statistics(m, {0}, OPTIONS)
df.weighted_moments(m, {0}, m, OPTIONS)
df.swish(x, OPTIONS)
df.crelu(m, OPTIONS)
df.clip_by_global_norm({x}, 1, OPTIONS)
df.conv1d(df.ones{1, 5, 1}, df.ones{2, 1, 1}, 1, 'VALID', OPTIONS)
df.convolution(df.ones{1, 5, 5, 1}, df.ones{2, 2, 1, 1}, OPTIONS)
df.pool(df.ones{1, 5, 5, 1} * 2, 2, 'MAX', OPTIONS)
df.fused_batch_norm(df.ones{2, 2, 2, 1} * ramp{2, 2, 2, 1}, {1.0}, {0.0}, with(OPTIONS, {mean = {1.0}, variance = {2.0}}))
df.scaled_dot_product_attention(ramp{1, 3, 2}, ramp{1, 3, 2}, ramp{1, 3, 2}, OPTIONS)
df.image.rot90(picture, OPTIONS)
df.image.adjust_gamma(picture, OPTIONS)
df.image.convert_image_dtype(picture * 3, 'uint8', OPTIONS)
df.image.random_brightness(picture, 0.3, OPTIONS)
df.image.resize_with_pad(picture, 5, 7, OPTIONS)
df.image.non_max_suppression({{0.0, 0.0, 1.0, 1.0}, {0.0, 0.1, 1.0, 1.1}}, {0.9, 0.8}, 3, OPTIONS)
df.signal.kaiser_window(5, OPTIONS)
df.signal.linear_to_mel_weight_matrix(4, OPTIONS)
df.signal.inverse_stft(df.signal.stft(df.ones{9}, 4, 2), 4, 2, OPTIONS)
df.signal.fftshift(m, OPTIONS)
df.nn.log_loss(p01, p01, OPTIONS)
df.nn.sigmoid_cross_entropy(p01, x, OPTIONS)
df.nn.metrics.precision({1, 0}, {1, 1}, OPTIONS)
df.nn.initializers.random_normal(OPTIONS)({2}, 'float32')
df.nn.initializers.he_normal(OPTIONS)({2, 2}, 'float32')
df.nn.Flatten(OPTIONS)(df.ones{2, 1, 2})
df.nn.AdditiveAttention(2, OPTIONS)(df.ones{1, 3, 4}, df.ones{1, 3, 4})
df.nn.uniform_candidate_sampler({{1}}, 1, 3, true, 9, OPTIONS)
df.sampled_softmax_loss(df.ones{5, 2} * 0.3, df.zeros{5}, {{1}, {2}}, m, 2, 5, OPTIONS)
df.train.inverse_time_decay(0.1, 3, 2, 0.9, OPTIONS)
df.train.natural_exp_decay(0.1, 3, 2, 0.9, OPTIONS)
df.train.piecewise_constant(1, {2}, {0.1, 0.2}, OPTIONS)
df.train.conjugate_gradient(function(v) return df.reduce_sum(df.square(v)) end, {0.5}, OPTIONS)
df.train.loop(3, function(i) return w:assign_add(1) end, OPTIONS)
]]

--- Values of an option beside those that any may have; those of one call are after it.
local TRIED = {
  name = { 'given' }, dtype = { 'float64', 'int64', 'int32' }, output_type = { 'int32' }, out_type = { 'int64' }, padding = { 'SAME', 'VALID' }, seed = { 7 }, axis = { 1, -1 },
  method = { 'nearest' }, mode = { 'REFLECT', 'fan_out' }, reduction = { 'sum', 'none' }, weights = { { 2, 3 }, { { 2 }, { 3 } } }, side = { 'right' },
  direction = { 'DESCENDING' }, norm = { 'ortho' }, indexing = { 'ij' }, distribution = { 'uniform' }, activation = { 'relu' }, curve = { 'PR' }, unconnected = { 'zero', 'none' },
  save = { 'recompute', 'swap' }, strides = { 2, { 1, 2, 2, 1 } }, ksize = { { 1, 2, 2, 1 } }, dilations = { { 1, 2, 2, 1 }, 2 }, dilation = { 2 }, dilation_rate = { 2 },
  partition_strategy = { 'div' }, rate = { 0.25 }, max_norm = { 0.1 }, as = { 'tree', 'dot' }, at = { 'lowered' }, keep_prob = { 0.25 }, log = { 'y' }, data_format = { 'NCHW' },
  combiner = { 'sum' }, num = { 2 }, mask = { { { true, false, false }, { true, true, false }, { true, true, true } } }, k = { 2 }, num_thresholds = { 9 }, order = { 2 },
  iou_threshold = { 0.95 }, score_threshold = { 0.85 }, explicit_paddings = { { 0, 0, 1, 1, 1, 1, 0, 0 } }, value = { 2 }, gamma = { 2 }, gain = { 2 }, smoothing = { 0.1 },
  label_smoothing = { 0.1 }, axes = { { 1 } }, beta = { 2 }, use_norm = { 9 }, lower_edge_hertz = { 300 }, upper_edge_hertz = { 3000 }, num_spectrogram_bins = { 30 },
  sample_rate = { 16000 }, fft_length = { 16, 8 }, type = { 4 }, n = { 5 }, nbins = { 7 }, num_classes = { 4 }, filter_size = { 5 }, noise_shape = { { 1, 2 } },
  exponential_avg_factor = { 0.5 }, only = { 'Square' }, around = { 'Square' },
  mean = { { 1.0 } }, variance = { { 2.0 } }, min = { -2 }, max = { 2 }, stddev = { 2 }, minval = { -2 }, maxval = { 2 }, minlength = { 7 }, maxlength = { 1 },
  label = { 'x' },
  seq_axis = { 0 }, batch_axis = { 1 }, seq_dim = { 0 }, batch_dim = { 1 }, shape = { { 2 } }, remove_accidental_hits = { false, true }, scale = { 0.3 },
  input_keep_prob = { 0.5 }, output_keep_prob = { 0.5 }, state_keep_prob = { 0.5 }, message = { 'told' }, lengths = { { 1 }, { 2 }, { 1, 2, 3 } },
  constant_values = { 5 }, perm = { { 0, 1 } }, l2_regularizer = { 0.5 }, shift = { 0.5 },
}

--- What has no such effect, and why: the whole call, or an option of it.
local function reasons(text)
  local list = {}
  for call, option in text:gmatch '\n *([^\n]-) | ([^\n]*)' do
    list[call] = list[call] or {}
    for one in option:gmatch '[%w_]+' do list[call][one] = true end
  end
  return list
end
local NONE = reasons(require 'spec.effects_none')

local function values(env)
  return { -1, 0, 0.5, 1, 2, 3, 'x', true, false, {}, { 1 }, { 1, 2 }, env.x, env.m }
end

--- Numbers from 0 up in this shape.
local function ramp(shape)
  local n = 1
  for _, d in ipairs(shape) do n = n * d end
  return df.reshape(df.range(n, { dtype = 'float32' }), shape)
end

local function fresh()
  df.reset()
  df.set_random_seed(1)
  local env = { df = df, p = df.constant(true), x = df.float32{ 1, 2 } * 1, m = df.float32{ { 1, 2 }, { 3, 4 } } + 0, w = df.Variable(2.0, { name = 'w' }),
                w2 = df.Variable(3.0), p01 = df.float32{ 0.25, 0.75 } * 1, with = with,
                tell = function(_, c) df.print(c) end, ramp = ramp, lists = { open = function()
                  local i = 0
                  return function() i = i + 1 return ({ df.tensor{ 1 }, df.tensor{ 2, 3 }, df.tensor{ 4 } })[i] end
                end }, picture4 = ramp{ 1, 3, 4, 3 } / 36, big = ramp{ 14, 14, 1 } / 196, picture = ramp{ 3, 4, 3 } / 36 }
  env.y = df.square(env.w)
  function env.squared(options)
    return (select(2, df.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, v * v end, { df.int32(0), env.w * 1 }, options)))
  end
  function env.decoded() return { cell = df.rnn.GRUCell(2), helper = df.rnn.GreedyEmbeddingHelper(env.m, { 1, 1 }, 0), max_steps = 3 } end
  return setmetatable(env, { __index = _G })
end

--- Values of options that are made of what is there.
local function made(option, env)
  if option == 'variables' or option == 'var_list' then return { env.w } end
  if option == 'global_step' then return df.Variable(df.int32(0)) end
  if option:find '^initial_state' then return df.ones{ 1, 2 } end
  if option == 'stop_gradients' then return { env.y } end
  if option == 'output_layer' then return function(v) return v * 2 end end
  if option == 'stop' then return function(i) return i:ge(1) end end
  if option == 'report' then return function(i) df.print(i) end end
  return nil
end

--- All nodes of the graph: what they are called and do.
local function built(graph)
  local g, out = (graph or df.default_graph()).handle, {}
  for id = 0, core.graph_nodes(g) - 1 do
    local value = core.node_type(g, id) == 'Const' and core.output_constant(g, id, 0)
    out[#out + 1] = table.concat({ core.node_type(g, id), core.node_name_of(g, id), core.node_attrs_text(g, id), value and tostring(value) or '' }, ' ')
  end
  return table.concat(out, '\n')
end

--- What came out, as text without addresses.
local function shown(v, depth, env)
  local kind = df.type(v)
  if kind == 'output' or kind == 'variable' then
    local ok, t = pcall(df.run, v, nil, { tensors = true })
    return v.name .. ' ' .. (ok and tostring(t) or tostring(t):match '^[^\n]*')
  elseif kind == 'operation' then
    return v.name
  elseif kind == 'optimizer' then
    local step, out = v:minimize(env.y, { variables = { env.w } }), {}
    for i = 1, 3 do
      df.run(step)
      out[i] = ('%.9g'):format(df.run(env.w))
    end
    return step.name .. table.concat(out, ' ')
  elseif type(v) == 'function' then
    local out = {}
    for i = 1, 5 do
      local ok, a, b = pcall(v)
      if not ok or a == nil then break end
      out[i] = shown(a, depth + 1, env) .. shown(b, depth + 1, env)
    end
    return 'function ' .. table.concat(out, ', ')
  elseif kind == 'pipeline' then
    local out = {}
    for a in v:each() do out[#out + 1] = tostring(a) end
    return table.concat(out, ', ')
  elseif kind == 'tensor' then
    return v.dtype .. ' ' .. tostring(v)
  elseif kind == 'graph' then
    return built(v)
  elseif type(v) == 'table' and depth < 3 then
    local keys, out = {}, {}
    for k, part in next, v do
      if type(k) == 'string' and k ~= 'class' and k ~= 'session' and type(part) ~= 'function' then keys[#keys + 1] = k end
    end
    table.sort(keys)
    for i, k in ipairs(keys) do out[i] = k .. '=' .. shown(rawget(v, k), depth + 1, env) end
    for i = 1, rawlen(v) do out[#out + 1] = shown(rawget(v, i), depth + 1, env) end
    return tostring(v):gsub('0x%x+', '') .. table.concat(out, ' ')
  end
  return (tostring(v):gsub('0x%x+', ''))
end

--- What the call gives and builds with these options, or nil and what it says.
local function done(call, options)
  local env = fresh()
  env.OPTIONS = type(options) == 'function' and options(env) or options
  local fn
  if setfenv then fn = setfenv(assert(loadstring('return ' .. call)), env) else fn = assert(load('return ' .. call, call, 't', env)) end
  local ok, out = pcall(function()
    local results, lines = { fn() }, {}
    for i = 1, #results do lines[i] = shown(results[i], 0, env) end
    return table.concat(lines, '\n') .. '\n' .. built()
  end)
  if ok then return out end
  return nil, tostring(type(out) == 'table' and out.message or out):match '^[^\n]*'
end

describe('an option does something:', function()
  for call in CALLS:gmatch '[^\n]+' do
    local _, said
    local read = ELSEWHERE:find('\n' .. call .. '\n', 1, true) and function() end or it
    read(call, function()
      _, said = done(call, { nosuch = 1.5 })
      local known = said and said:match 'it knows: ([^)]*)'
      if not known then return end
      local plain, lost = done(call), {}
      if not plain then assert.is_truthy(NONE[call], 'it cannot be called without options') return end
      for option in known:gmatch '[%w_]+' do
        local differs = option == 'path' or NONE[call] and (NONE[call][option] or NONE[call].all)       -- a path is written to
        local tries = TRIED[option] or {}
        for i = 0, differs and -1 or #tries + 14 do
          local now, told = done(call, function(env)
            if i == 0 then return { [option] = made(option, env) } end
            return { [option] = (i <= #tries and { tries[i] } or { values(env)[i - #tries] })[1] }
          end)
          if now and now ~= plain or told and told:find 'given twice' then differs = true break end
        end
        if not differs then lost[#lost + 1] = option end
      end
      assert.equal('', table.concat(lost, ', '))
    end)
  end
  df.reset()
end)
