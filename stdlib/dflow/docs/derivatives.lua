--- What the gradient of each op is, for help. spec/repl/help_gradients_spec.lua computes each formula and compares.
local M = {}

--- By Lua name, then by input: Lua in terms of the op's inputs, outputs and options and of dy, what
-- arrives at its first output. Functions are those of df; what leaves for an operand that was broadcast is summed to its shape.
M.formulas = {
  abs = { x = 'dy * sign(x)' }, acos = { x = '-dy * rsqrt(1 - x^2)' },
    acosh = { x = 'dy / sinh(y)' }, add = { x = 'dy', y = 'dy' },
  asin = { x = 'dy * rsqrt(1 - x^2)' }, asinh = { x = 'dy / cosh(y)' },
    atan = { x = 'dy / (1 + x^2)' },
  atan2 = { y = 'dy * x / (x^2 + y^2)', x = '-dy * y / (x^2 + y^2)' },
    atanh = { x = 'dy / (1 - x^2)' },
  batch_matmul = { x = 'matmul(dy, y, {transpose_b = true})',
    y = 'matmul(x, dy, {transpose_a = true})' },
  bias_add = { value = 'dy', bias = 'bias_add_grad(dy)' },
    bias_add_grad = { out_backprop = 'broadcast_to(dy, shape(out_backprop))' },
  broadcast_to = { input = 'reduce_sum(dy, 0)' },
  cos = { x = '-dy * sin(x)' }, cosh = { x = 'dy * sinh(x)' }, cross = { a = 'cross(b, dy)',
    b = 'cross(dy, a)' },
  cumsum = { x = 'cumsum(dy, axis, {reverse = true})' },
  diag = { diagonal = 'diag_part(dy)' }, diag_part = { input = 'diag(dy)' },
    digamma = { x = 'dy * polygamma(1, x)' },
  div_no_nan = { x = 'div_no_nan(dy, y)', y = '-div_no_nan(dy * z, y)' },
  elu = { features = 'where(features:lt(0), dy * (activations + 1), dy)' },
  erf = { x = 'dy * (2 / pi^0.5) * exp(-x^2)' }, erfc = { x = '-dy * (2 / pi^0.5) * exp(-x^2)' },
  exp = { x = 'dy * y' }, expm1 = { x = 'dy * (y + 1)' },
  fill = { value = 'reduce_sum(dy)' }, floormod = { x = 'dy', y = '-dy * floordiv(x, y)' },
  identity = { input = 'dy' }, l2_loss = { t = 'dy * t' },
  leaky_relu = { features = 'where(features:gt(0), dy, alpha * dy)' },
    lgamma = { x = 'dy * digamma(x)' },
  log = { x = 'dy / x' }, log1p = { x = 'dy / (1 + x)' },
  log_softmax = { logits = 'dy - exp(logsoftmax) * reduce_sum(dy, -1, {keep_dims = true})' },
  matmul = { a = 'matmul(dy, b, {transpose_b = true})', b = 'matmul(a, dy, {transpose_a = true})' },
  matrix_diag = { diagonal = 'matrix_diag_part(dy)' },
    matrix_diag_part = { input = 'matrix_diag(dy)' },
  matrix_band_part = { input = 'matrix_band_part(dy, num_lower, num_upper)' },
  multiply = { x = 'dy * y', y = 'dy * x' }, negative = { x = '-dy' },
    polygamma = { x = 'dy * polygamma(a + 1, x)' },
  pow = { x = 'dy * y * x^(y - 1)', y = 'dy * z * log(x)' }, realdiv = { x = 'dy / y',
    y = '-dy * z / y' },
  reciprocal = { x = '-dy * y^2' }, relu = { features = 'where(features:gt(0), dy, 0)' },
  relu6 = { features = 'where(logical_and(features:gt(0), features:lt(6)), dy, 0)' },
  expand_dims = { input = 'reshape(dy, shape(input))' },
  squeeze = { input = 'reshape(dy, shape(input))' },
  reverse = { tensor = 'reverse(dy, axis)' }, roll = { input = 'roll(dy, -shift, axis)' },
    rsqrt = { x = '-dy / 2 * y^3' },
  scatter_nd = { updates = 'gather_nd(dy, indices)' }, segment_sum = { data = 'gather(dy, '
    .. 'segment_ids)' },
  selu = { features = 'where(features:lt(0), dy * (activations + 1.7580993408473766), dy * '
    .. '1.0507009873554805)' },
  sigmoid = { x = 'dy * y * (1 - y)' }, sin = { x = 'dy * cos(x)' }, sinh = { x = 'dy * cosh(x)' },
  softmax = { logits = 'softmax * (dy - reduce_sum(dy * softmax, -1, {keep_dims = true}))' },
  softmax_cross_entropy_with_logits = { features = 'expand_dims(dy, -1) * backprop',
    labels = '-expand_dims(dy, -1) * log_softmax(features)' },
  sparse_softmax_cross_entropy_with_logits = { features = 'expand_dims(dy, -1) * backprop' },
  softplus = { features = 'dy * sigmoid(features)' }, sqrt = { x = 'dy / (2 * y)' },
  square = { x = 'dy * 2 * x' }, squared_difference = { x = '2 * dy * (x - y)',
    y = '-2 * dy * (x - y)' }, subtract = { x = 'dy', y = '-dy' },
  tan = { x = 'dy * (1 + y^2)' }, tanh = { x = 'dy * (1 - y^2)' },
  tensor_scatter_add = { tensor = 'dy', updates = 'gather_nd(dy, indices)' },
  tensor_scatter_sub = { tensor = 'dy', updates = '-gather_nd(dy, indices)' },
  tensor_scatter_update = { tensor = 'tensor_scatter_update(dy, indices, zeros_like(updates))',
    updates = 'gather_nd(dy, indices)' },
  transpose = { x = 'transpose(dy, invert_permutation(perm))' }, truncatemod = { x = 'dy',
    y = '-dy * truncatediv(x, y)' },
  xdivy = { x = 'div_no_nan(dy, y)', y = '-dy * z / y' }, xlog1py = { x = 'dy * log1p(y)',
    y = 'dy * x / (1 + y)' },
  xlogy = { x = 'dy * log(y)', y = 'dy * x / y' }, zeta = { q = '-dy * x * zeta(x + 1, q)' },
  placeholder_with_default = { input = 'dy' }, check_numerics = { tensor = 'check_numerics(dy, '
    .. '{message = message})' },
  print = { input = 'dy' }, ensure_shape = { input = 'dy' }, conj = { input = 'conj(dy)' },
  unsorted_segment_sum = { data = 'gather(dy, segment_ids), zero where an id is negative' },
}

--- The gradients that one says better in words.
M.words = {
  fake_quant_with_min_max_args = 'dy where inputs lie from min to max, zero beyond: as if nothing were rounded',
  fake_quant_with_min_max_vars = 'dy where inputs lie from min to max; min gets the sum of dy below it, max of that above it',
  fake_quant_with_min_max_vars_per_channel = 'as of fake_quant_with_min_max_vars, for each channel',
  matrix_solve = 'rhs gets the solution of the transposed system for dy, matrix minus that times the solution transposed',
  matrix_triangular_solve = 'as of matrix_solve, within the triangle',
  matrix_inverse = 'minus the transposed inverse times dy times the transposed inverse',
  matrix_determinant = 'dy times the determinant times the transposed inverse',
  log_matrix_determinant = 'dy of log_abs_determinant times the transposed inverse; the sign has none',
  cholesky = 'of L: L^-T (the lower half of L^T dy) L^-1, made symmetric',
  qr = 'as in Walter and Lehmann: of matrices with as many rows as columns at least',
  tridiagonal_solve = 'as of matrix_solve, within the diagonals',
  fft = 'n times ifft of dy', ifft = 'fft of dy, divided by n', fft2d = 'm n times ifft2d of dy', ifft2d = 'fft2d of dy, divided by m n',
  add_n = 'each input gets dy', angle = 'dy turned by a right angle and divided by the '
    .. 'distance from 0',
  assign = 'value gets dy; the old value of the variable has none',
  assign_add = 'value and the variable as it was before both get dy',
    assign_sub = 'value gets -dy, the variable as it was before dy',
  avg_pool = 'dy is spread evenly over each window', batch_to_space_nd = 'space_to_batch_nd of '
    .. 'dy, with crops as paddings',
  cast = 'dy cast back, between floats and complex numbers; none from or to integers, bools '
    .. 'and strings',
  clip_by_value = 't gets dy where it lies between the bounds; elsewhere the bound that stands '
    .. 'gets it',
  complex = 'the real and the imaginary part of dy', complex_abs = 'dy times x / |x|, zero at 0',
  concat = 'dy is sliced: each value gets its part',
  conv2d = 'by the input a convolution of dy with the filter turned round, by the filter one '
    .. 'of the input with dy',
  depthwise_conv2d_native = 'as of conv2d, each channel by itself',
  cumprod = 'of each element the sum over the products it is part of, exact where elements are '
    .. 'zero',
  depth_to_space = 'space_to_depth of dy', dynamic_partition = 'the parts of dy go back to the '
    .. 'rows they came from',
  dynamic_stitch = 'each row of data gets the row of dy that it became; a row that a later one '
    .. 'replaced gets zero',
  einsum = 'for each operand the einsum of dy and the other operands, by the same letters',
  gather = 'IndexedSlices: row indices[i] of params gets row i of dy; dense for another axis '
    .. 'than 0',
  gather_nd = 'scatter_nd of dy: each element that was taken gets its part, one taken twice '
    .. 'the sum', identity_n = 'each input gets its own dy',
  imag = 'dy becomes the imaginary part', linspace = 'start and stop get the sums of dy, '
    .. 'weighted by how near each value is to them',
  matrix_set_diag = 'input gets dy with zeros on the diagonal, diagonal gets the diagonal of dy',
  resize_nearest_neighbor = 'each pixel gets the sum of dy where it was put', resize_bilinear = 'each pixel gets dy as it gave to the resized pictures',
  resize_bicubic = 'each pixel gets dy as it gave to the resized pictures',
  crop_and_resize = 'each pixel gets dy as it gave to the crops; the boxes get how fast these change as their edges move',
  lrn = 'dy n^-beta - 2 alpha beta x S(dy x n^(-beta - 1)), where S sums over the channels within the radius and n = bias + alpha S(x^2)',
  max_pool = 'the greatest element of each window gets dy, the first of equals',
  maximum = 'the greater operand gets dy; x where both are equal',
    minimum = 'the lesser operand gets dy; x where both are equal',
  mirror_pad = 'dy folded back: each element gets the sum of its images',
    one_hot = 'on_value and off_value get the sums of dy where they stand',
  pad = 'the part of dy that is not padding', pad_v2 = 'input gets the part of dy that is not '
    .. 'padding, constant_values the sum of the rest',
  range = 'start gets the sum of dy, delta the sum of dy times the position',
    real = 'dy becomes the real part',
  reduce_euclidean_norm = 'dy * x / norm(x), spread over the reduced axes',
  reduce_logsumexp = 'dy * softmax(x) over the reduced axes',
    reduce_max = 'the greatest elements share dy equally',
    reduce_min = 'the least elements share dy equally',
  reduce_mean = 'dy / n, spread over the n elements of each mean',
    reduce_prod = 'dy times the product of the other elements, exact where some are zero',
  reshape = 'dy in the shape of tensor',
  reduce_sum = 'dy, spread over the reduced axes', reverse_sequence = 'dy reversed in the same way',
  segment_max = 'the greatest elements of a segment share its dy',
    segment_min = 'the least elements of a segment share its dy',
  segment_mean = 'dy of the segment divided by the number of its rows',
    segment_prod = 'dy of the segment times the product of its other rows',
  select = 't gets dy where condition holds, e elsewhere; zero in the other places',
    select_v2 = 't gets dy where condition holds, e elsewhere, summed to their shapes',
  slice = 'dy in the place it was cut from, zeros around it',
    space_to_batch_nd = 'batch_to_space_nd of dy, with paddings as crops',
  space_to_depth = 'depth_to_space of dy', sparse_segment_mean = 'the rows of data that were '
    .. 'summed get dy of their segment, divided by its number of rows',
  sparse_segment_sqrt_n = 'the rows of data that were summed get dy of their segment, divided '
    .. 'by the root of its number of rows',
  sparse_segment_sum = 'the rows of data that were summed get dy of their segment',
    split = 'the parts of dy concatenated', split_v = 'the parts of dy concatenated',
  stack = 'dy is unstacked: each value gets its slice',
    strided_slice = 'dy in the places it was taken from, zeros elsewhere',
  tile = 'the sum of dy over the copies', top_k = 'the elements that were taken get dy of '
    .. 'values, the others zero',
  unsorted_segment_max = 'the greatest elements of a segment share its dy',
    unsorted_segment_min = 'the least elements of a segment share its dy',
  unsorted_segment_prod = 'dy of the segment times the product of its other rows',
    unstack = 'the slices of dy stacked',
}

-- ---- why there is none ------------------------------------------------------------------------------------------------
local stairs = 'it rises in steps, so its derivative is zero everywhere'
local drawn = 'the numbers are drawn, and do not depend on the inputs smoothly'
local change = 'it changes a variable in place; gradients whose way leads through it end with '
  .. 'an error that names it'
M.none = {
  resize_area = 'TensorFlow has none, and exports would not run', rgb_to_hsv = 'the sextants of hue are not smooth', hsv_to_rgb = 'the sextants of hue are not smooth',
  bitcast = 'the same bytes seen as another dtype are no smooth function', ceil = stairs,
    floor = stairs, rint = stairs, round = stairs, sign = stairs,
  floordiv = stairs, truncatediv = stairs, constant = 'it has no inputs; one asks for '
    .. 'gradients by it', placeholder = 'it has no inputs; one asks for gradients by it',
  ones_like = 'it depends on the shape of its input alone',
    zeros_like = 'it depends on the shape of its input alone',
  random_normal = drawn, random_uniform = drawn, random_shuffle = drawn, truncated_normal = drawn, random_gamma = drawn,
  setdiff1d = 'which elements stay is no smooth function',
    unique = 'which elements stay is no smooth function',
  unique_with_counts = 'which elements stay is no smooth function',
    stop_gradient = 'that is what it is for: gradients take its value for a constant',
  string_to_number = 'strings have no derivative', decode_raw = 'bytes have no derivative',
}
for _, how in ipairs{ 'add', 'sub', 'mul', 'div', 'min', 'max', 'update' } do M.none['scatter_'
  .. how] = change end

-- ---- ops whose entry says it --------------------------------------------------------------------------------------------
require('dflow.docs').each_about('derivative', function(name, text)
  local why = text:match('^none: (.*)')
  if why then M.none[name] = why return end
  local formulas = {}
  for part in (text .. ';'):gmatch('%s*(.-);') do
    local input, formula = part:match('^(%w+) = (.*)$')
    formulas[input] = formula
  end
  M.formulas[name] = formulas
end)

return M
