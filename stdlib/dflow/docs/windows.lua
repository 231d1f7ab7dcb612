--- Help for convolutions, pools and normalisations under the names of tf.nn (dflow.front.ops_window).
return [==[
-- ---- over images -------------------------------------------------------------------------------

df.conv2d_transpose(value, filter, output_shape, strides, padding?, {…})
  Computes the transpose of df.conv2d: [batch, h, w, in] becomes output_shape. filter is [h,
  w, out, in].
  option    data_format: string = 'NHWC'  or 'NCHW'
  option    dilations: int or list = 1  the distance between filter elements
@name
  gradient  that of the convolution
  example   df.shape(df.conv2d_transpose(df.ones{1, 2, 2, 1}, df.ones{2, 2, 3, 1}, {1, 4, 4, 3}, {1, 2, 2, 1}))

df.conv3d_transpose(value, filter, output_shape, strides, padding?, {…})
  Computes the transpose of df.conv3d: [batch, d, h, w, in] becomes output_shape. filter is
  [d, h, w, out, in].
  option    data_format: string = 'NDHWC'  or 'NCDHW'
  option    dilations: int or list = 1  the distance between filter elements
@name
  gradient  that of the convolution
  example   df.shape(df.conv3d_transpose(df.ones{1, 2, 2, 2, 1}, df.ones{2, 2, 2, 3, 1}, {1, 4, 4, 4, 3}, 2))

df.depthwise_conv2d(input, filter, strides, padding, rate?)
  df.depthwise_conv2d_native with filter elements `rate` apart in either direction.
  gradient  that of the convolution
  example   df.shape(df.depthwise_conv2d(df.ones{1, 5, 5, 2}, df.ones{2, 2, 2, 1}, {1, 1, 1, 1}, 'VALID', {2, 2}))

df.separable_conv2d(input, depthwise_filter, pointwise_filter, strides, padding, rate?)
  df.depthwise_conv2d, then a convolution of 1 by 1.
  gradient  that of the convolutions
  example   df.shape(df.separable_conv2d(df.ones{1, 3, 3, 2}, df.ones{2, 2, 2, 1}, df.ones{1, 1, 2, 3}, {1, 1, 1, 1}, 'VALID'))

df.atrous_conv2d(value, filters, rate, padding)
  df.conv2d with filter elements `rate` apart.
  gradient  that of the convolution
  example   df.shape(df.atrous_conv2d(df.ones{1, 5, 5, 1}, df.ones{2, 2, 1, 1}, 2, 'VALID'))

df.atrous_conv2d_transpose(value, filters, output_shape, rate, padding)
  Computes the transpose of df.atrous_conv2d. filters is [h, w, out, in].
  gradient  that of the convolution
  example   df.shape(df.atrous_conv2d_transpose(df.ones{1, 3, 3, 1}, df.ones{2, 2, 1, 1}, {1, 5, 5, 1}, 2, 'VALID'))

df.conv2d_backprop_input(input_sizes, filter, out_backprop, strides, padding, {…})
  The gradient of df.conv2d to its input, which is of the shape input_sizes.
  option    dilations: int or list = 1  the distance between filter elements
@name
  gradient  that of the convolution
  example   df.shape(df.conv2d_backprop_input({1, 4, 4, 3}, df.ones{2, 2, 3, 1}, df.ones{1, 2, 2, 1}, 2, 'SAME'))

df.conv2d_backprop_filter(input, filter_sizes, out_backprop, strides, padding, {…})
  The gradient of df.conv2d to its filter, which is of the shape filter_sizes.
  option    dilations: int or list = 1  the distance between filter elements
@name
  gradient  that of the convolution
  example   df.shape(df.conv2d_backprop_filter(df.ones{1, 4, 4, 3}, {2, 2, 3, 1}, df.ones{1, 2, 2, 1}, 2, 'SAME'))

df.max_pool2d(input, ksize, strides, padding)
  df.max_pool with positional window and strides.
  gradient  that of df.max_pool
  example   df.shape(df.max_pool2d(df.ones{1, 4, 4, 1}, 2, 2, 'VALID'))

df.avg_pool2d(input, ksize, strides, padding)
  df.avg_pool with positional window and strides.
  gradient  that of df.avg_pool
  example   df.avg_pool2d({{{{1.0}, {2.0}}, {{3.0}, {6.0}}}}, 2, 2, 'VALID')

-- ---- along one axis ----------------------------------------------------------------------------

df.conv1d(value, filters, stride, padding, {…})
  value is [batch, width, in], filters [w, in, out]: a df.conv2d over images of height one.
  option    dilations: int = 1  the distance between filter elements
@name
  gradient  that of the convolution
  example   df.conv1d({{{1.0}, {2.0}, {4.0}}}, {{{1.0}}, {{10.0}}}, 1, 'VALID')

df.conv1d_transpose(input, filters, output_shape, strides, padding?, {…})
  Computes the transpose of df.conv1d: [batch, w, in] becomes output_shape. filters is
  [w, out, in].
  option    dilations: int = 1  the distance between filter elements
@name
  gradient  that of the convolution
  example   df.shape(df.conv1d_transpose(df.ones{1, 2, 1}, df.ones{2, 3, 1}, {1, 4, 3}, 2))

df.max_pool1d(input, ksize, strides, padding)
  The largest in each window along the width of [batch, width, channels].
  gradient  that of df.max_pool
  example   df.max_pool1d({{{1.0}, {2.0}, {4.0}, {3.0}}}, 2, 2, 'VALID')

df.avg_pool1d(input, ksize, strides, padding)
  The mean of each window along the width of [batch, width, channels].
  gradient  that of df.avg_pool
  example   df.avg_pool1d({{{1.0}, {2.0}, {4.0}, {3.0}}}, 2, 2, 'VALID')

-- ---- over one axis, two or three ---------------------------------------------------------------

df.convolution(input, filter, padding?, strides?, dilation_rate?)
  df.conv1d, df.conv2d or df.conv3d, by the rank of input; padding is 'VALID' and strides are 1
  unless they are given.
  gradient  that of the convolution
  example   df.convolution({{{1.0}, {2.0}, {4.0}}}, {{{1.0}}, {{10.0}}})

df.conv_transpose(input, filters, output_shape, strides, padding?, {…})
  df.conv1d_transpose, df.conv2d_transpose or df.conv3d_transpose, by the rank of input.
  option    dilations: int or list = 1  the distance between filter elements
@name
  gradient  that of the convolution
  example   df.shape(df.conv_transpose(df.ones{1, 2, 1}, df.ones{2, 3, 1}, {1, 4, 3}, 2))

df.pool(input, window_shape, pooling_type, padding?, strides?)
  df.max_pool ('MAX') or df.avg_pool ('AVG') over the one, two or three axes between batch and
  channels; padding is 'VALID' and strides are 1 unless they are given.
  gradient  that of the pool
  example   df.pool({{{1.0}, {2.0}, {4.0}}}, 2, 'AVG')

-- ---- normalisation, activations ----------------------------------------------------------------

df.batch_normalization(x, mean, variance, offset, scale, variance_epsilon)
  scale * (x - mean) / sqrt(variance + variance_epsilon) + offset; all but x are broadcast to it, and
  offset or scale may be false. df.nn.BatchNorm is the layer, with averages for afterwards.
  gradient  that of the ops it is made of
  example   df.batch_normalization({1.0, 3.0}, 2.0, 1.0, 10.0, 2.0, 0)

df.batch_norm_with_global_normalization(t, m, v, beta, gamma, variance_epsilon, scale_after_normalization?)
  df.batch_normalization under an older name; gamma counts if scale_after_normalization is true.
  gradient  that of the ops it is made of
  example   df.batch_norm_with_global_normalization({1.0, 3.0}, 2.0, 1.0, 10.0, 2.0, 0, true)

df.fused_batch_norm(x, scale, offset, {…})
  x of float32[batch, h, w, channels] normalised by the mean and variance of each channel, then
  scaled and offset; the mean and the variance (of a sample) follow.
  option    mean: Output = nil  of each channel, used unless it is training
  option    variance: Output = nil  of each channel, used unless it is training
  option    epsilon: number = 0.001  added to the variance
  option    data_format: string = 'NHWC'  or 'NCHW'
  option    is_training: bool = true  false: by the mean and variance that are given
  option    exponential_avg_factor: number = 1  the share of this batch in the mean and variance that
              it gives
@name
  gradient  of x, scale and offset
  example   df.fused_batch_norm({{{{1.0}, {3.0}}}}, {1.0}, {0.0})

df.swish(features, beta?)
  features * sigmoid(beta * features), beta being 1 unless it is given.
  gradient  that of the ops it is made of
  example   df.swish{-1.0, 0.0, 1.0}

df.silu(features, beta?)
  df.swish under another name.
  gradient  that of the ops it is made of
  example   df.silu{-1.0, 0.0, 1.0}

df.crelu(features, axis?)
  relu of features and of what is below zero in them, side by side along axis, the last one unless
  it is given.
  gradient  that of the ops it is made of
  example   df.crelu{-1.0, 2.0}

df.xw_plus_b(x, weights, biases)
  df.bias_add(df.matmul(x, weights), biases).
  gradient  that of the ops it is made of
  example   df.xw_plus_b({{1.0, 2.0}}, {{1.0}, {10.0}}, {0.5})

]==]
