--- The pages of functions of arrays: made, counted, sorted, cut and computed element by element. Text for pages.lua,
-- which docs/functions.lua reads.
return [==[
while_loop(pred, body, vars, {…})
  Repeats body while pred is true. Both functions are called once, with the loop variables, to build the
  graph of an iteration. The body returns the next values of the loop variables; while_loop returns the
  last ones. Loop variables are outputs, values, TensorArrays, and tables of these; each keeps its dtype
  and shape.
@loop
  option    maximum_iterations: int = nil  the most iterations, whatever pred returns
  option    shape_invariants: table = nil  shapes that may change, in the structure of vars: -1 for a
              dimension, false for all of it
@name
  gradient  a loop that runs backwards over the iterations and reads the values that the forward loop
            saved
  example   local i, x = while_loop(function(i, x) return i:lt(10) end,
                                    function(i, x) return i + 1, x * 2 end, {df.int32(0), df.float32(1)})
            return x

TensorArray(dtype, size, {…})
  Makes an array of tensors, for loops. A method that changes the array returns the changed array: ta =
  ta:write(i, v). Each element is written once and may be read many times. ?TensorArray:write and others
  describe its methods.
  option    dynamic_size: bool = false  true: the array grows when an element past its end is written
  option    element_shape: shape = nil  the shape of an element, the first write's otherwise; -1 where elements
              differ
  option    clear_after_read: bool = false  true: frees an element when it is read
@name
  gradient  an array of gradients: the gradient of a read writes to it, the gradient of a write
            read
  example   TensorArray('float32', 3):write(0, 1):write(1, 2):write(2, 3):stack()

df.logaddexp(x, y)
  log(exp(x) + exp(y)) without overflow; of two times the same infinity, that.
  gradient  x: dy sigmoid(x - y); y: dy sigmoid(y - x)
  example   df.logaddexp({0.0, 1000.0}, {0.0, 999.0})

df.rfft(input, fft_length)
  The first fft_length / 2 + 1 elements of the Fourier transform of real numbers; fft_length is as many as there are unless it is given.
  example   df.rfft{1.0, 2.0, 3.0, 4.0}

df.irfft(input, fft_length)
  The real numbers whose Fourier transform begins so; 2 (n - 1) of them unless fft_length is given.
  example   df.irfft(df.rfft{1.0, 2.0, 3.0, 4.0})

df.sort(values, axis = -1, direction = 'ASCENDING')
  The values in order along an axis.
  example   df.sort{3, 1, 2}

df.argsort(values, axis = -1, direction = 'ASCENDING', stable = false)
  Returns the indices that sort the axis; equal values keep their order.
  example   df.argsort{3, 1, 2}

df.searchsorted(sorted_sequence, values, side = 'left', out_type = 'int32')
  Returns the index at which each value would be inserted to keep the sequence sorted, row by row along
  the last axis. With one sequence a value may be a scalar.
  example   df.searchsorted({1, 3, 5}, {0, 3, 6})

df.histogram_fixed_width(values, value_range, nbins = 100, dtype = 'int32')
  Counts the values in each of nbins equal parts of value_range. Values outside count for the first or the last part.
  example   df.histogram_fixed_width({-1.0, 0.0, 1.5, 2.0, 5.0, 15.0}, {0.0, 5.0}, 5)

df.bincount(arr, weights, {minlength, maxlength, dtype = 'int32'})
  Counts how often each number from 0 up is in arr, or sums its weights.
  example   df.bincount{1, 2, 1}

df.boolean_mask(x, mask, {axis = 0})
  Returns the elements of x where mask is true, along one axis. mask covers the axes of x from `axis` on.
  gradient  x: dy back in the places that were taken
  example   df.boolean_mask(df.float32{1, 2, 3}, {true, false, true})

df.dim(x, axis)
  One dimension of x as a scalar int32; a constant where it is known while building.
  gradient  none: integers have no derivative
  example   df.dim(df.zeros{2, 3}, 1)

df.div(x, y)
  x / y, as the operator: integers are cast to float32, int64 to float64.
  gradient  x: dy / y,  y: -dy * x / y^2
  example   df.div(df.int32{1, 2}, 4)

df.divide(x, y)
  Another name of df.div.
  gradient  x: dy / y,  y: -dy * x / y^2
  example   df.divide(df.float32{1, 2}, 4)

df.truediv(x, y)
  Another name of df.div.
  gradient  x: dy / y,  y: -dy * x / y^2
  example   df.truediv(df.int32{1, 2}, 4)

df.zeros(shape, dtype?)
  Zeros (false, empty strings) of this shape, float32 unless said otherwise.
  gradient  none: it has no inputs
  example   df.zeros{2, 3}

df.ones(shape, dtype?)
  Ones (true) of this shape, float32 unless said otherwise.
  gradient  none: it has no inputs
  example   df.ones({2}, 'int32')

df.lin_space(start, stop, num)
  Another name of df.linspace.
  gradient  as df.linspace
  example   df.lin_space(0.0, 1.0, 3)

df.pack({values, …}, {axis = 0})
  Another name of df.stack.
  gradient  as df.stack
  example   df.pack{df.float32{1, 2}, df.float32{3, 4}}

df.repeat_(x, repeats, axis?)
  Each element `repeats` times, or element i repeats[i] times, along an axis; of the flat x
  without one.
  gradient  x: the sum of dy over the copies
  example   df.repeat_(df.float32{1, 2}, {2, 3})

df.sequence_mask(lengths, maxlen?, {…})
  bool[n, maxlen]: true in the first lengths[i] places of row i.
  option    dtype: string = nil  cast to it; bool otherwise
@name
  gradient  none: bools have no derivative
  example   df.sequence_mask({1, 3}, 3)

df.reduce_variance(x, axis?, keep_dims?)
  Computes the variance along the axes, all of them by default: of the population, not of a sample.
@name
  gradient  that of the means it is made of
  example   df.reduce_variance{1.0, 2.0, 6.0}

df.reduce_std(x, axis?, keep_dims?)
  The square root of the variance along the axes, all of them by default.
@name
  gradient  that of the means it is made of; NaN where all elements are equal
  example   df.reduce_std({{1.0, 2.0}, {3.0, 7.0}}, 1)

df.count_nonzero(x, axis?, keep_dims?, {dtype = 'int64'})
  Counts the elements along the axes, all of them by default, that are not zero, false or empty strings.
  gradient  none: integers have no derivative
  example   df.count_nonzero({{0, 3, 0}, {1, 2, 0}}, 1)

df.zero_fraction(x)
  Computes the fraction of elements that are zero, as a float32; NaN of an empty x.
  gradient  none: bools have no derivative
  example   df.zero_fraction({0.0, 2.0, 0.0, 0.0})

df.meshgrid(x, y, …, {…})
  Each of the vectors, repeated along the dimensions of the others: as many results as vectors.
  option    indexing: string = 'xy'  the first vector goes along the columns; 'ij': along the rows
@name
  gradient  that of the ops it is made of
  example   df.meshgrid({1, 2, 3}, {4, 5})

df.unravel_index(indices, dims)
  Converts row-major element numbers to indices [rank, …] into an array of these dimensions.
  gradient  none: indices have no derivative
  example   df.unravel_index({22, 41, 37}, {7, 6})

df.batch_gather(params, indices)
  df.gather along the last dimension of indices, in which those before it go together.
  gradient  params: dy, added up where it came from
  example   df.batch_gather({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}, {{2, 0}, {1, 1}})

df.confusion_matrix(labels, predictions, num_classes?, {…})
  Returns [classes, classes]: the number of examples of each label, a row, and each prediction, a column.
  The number of classes is inferred unless it is given; a label beyond it is an error of the run.
  option    dtype: string = 'int32'  of the counts
  option    weights: number = nil  of each label
@name
  gradient  weights: dy where each was added
  example   df.confusion_matrix({1, 2, 2}, {2, 2, 1}, 3)

df.histogram_fixed_width_bins(values, value_range, nbins?, {…})
  Returns the number of the part, of nbins (100) equal parts of {low, high}, that holds each value.
  Values outside are in the first or the last part.
  option    dtype: string = 'int32'  of the numbers
@name
  gradient  none: indices have no derivative
  example   df.histogram_fixed_width_bins({-1.0, 0.0, 1.5, 15.0}, {0.0, 5.0}, 5)

df.unsorted_segment_mean(data, segment_ids, num_segments)
  The mean of the rows of each segment; zero where there are none.
  gradient  that of the ops it is made of
  example   df.unsorted_segment_mean({1.0, 3.0, 5.0}, {0, 2, 0}, 3)

df.unsorted_segment_sqrt_n(data, segment_ids, num_segments)
  The sum of the rows of each segment, divided by the square root of their number.
  gradient  that of the ops it is made of
  example   df.unsorted_segment_sqrt_n({1.0, 3.0, 5.0}, {0, 2, 0}, 3)

df.space_to_batch(x, paddings, block_size)
  df.space_to_batch_nd of two dimensions and one block size.
  gradient  that of the ops it is made of
  example   df.space_to_batch({{{{1}, {2}}, {{3}, {4}}}}, {{0, 0}, {0, 0}}, 2)

df.batch_to_space(x, crops, block_size)
  df.batch_to_space_nd of two dimensions and one block size.
  gradient  that of the ops it is made of
  example   df.batch_to_space({{{{1}}}, {{{2}}}, {{{3}}}, {{{4}}}}, {{0, 0}, {0, 0}}, 2)

df.reciprocal_no_nan(x)
  1 / x, and 0 where x is 0.
  gradient  that of the quotient, 0 where x is 0
  example   df.reciprocal_no_nan{2.0, 0.0}

df.multiply_no_nan(x, y)
  x * y, and 0 where y is 0, even if x is infinite or NaN.
  gradient  x: dy * y, y: dy * x, made in the same way
  example   df.multiply_no_nan({3.0, 1 / 0}, {2.0, 0.0})

df.divide_no_nan(x, y)
  x / y, and 0 where y is 0: df.div_no_nan.
  gradient  that of df.div_no_nan
  example   df.divide_no_nan({1.0, 1.0}, {2.0, 0.0})

df.polyval(coeffs, x)
  The polynomial of x whose coefficients are the list, that of the highest power first.
  gradient  x: dy times the derivative; coeffs: dy times the powers
  example   df.polyval({1, 2, 3}, df.float32{2, 0})

df.lbeta(x)
  The logarithm of the beta function of the last dimension.
  gradient  that of the df.lgamma it is made of
  example   df.lbeta{1.0, 2.0, 3.0}

df.to_complex64(x)
  df.cast(x, 'complex64').
  gradient  that of df.cast
  example   df.to_complex64{1.0}

df.to_complex128(x)
  df.cast(x, 'complex128').
  gradient  that of df.cast
  example   df.to_complex128{1.0}
]==]
