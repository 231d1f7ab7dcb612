--- The pages of assertions, and of what they ask. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.assert_equal(x, y, {…})
  An operation that stops the run unless x == y for every element. What is built under
  df.control_dependencies of it runs after it.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_equal(df.int32{1, 2}, {1, 2}))

df.assert_none_equal(x, y, {…})
  An operation that stops the run unless x ~= y for every element. What is built under
  df.control_dependencies of it runs after it.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_none_equal(df.int32{1, 2}, {2, 1}))

df.assert_less(x, y, {…})
  An operation that stops the run unless x < y for every element. What is built under
  df.control_dependencies of it runs after it.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_less(df.int32{1, 2}, 3))

df.assert_less_equal(x, y, {…})
  An operation that stops the run unless x <= y for every element. What is built under
  df.control_dependencies of it runs after it.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_less_equal(df.int32{1, 2}, 2))

df.assert_greater(x, y, {…})
  An operation that stops the run unless x > y for every element. What is built under
  df.control_dependencies of it runs after it.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_greater(df.int32{1, 2}, 0))

df.assert_greater_equal(x, y, {…})
  An operation that stops the run unless x >= y for every element. What is built under
  df.control_dependencies of it runs after it.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_greater_equal(df.int32{1, 2}, 1))

df.assert_positive(x, {…})
  An operation that stops the run unless x > 0 for every element.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_positive{1.0, 2.0})

df.assert_negative(x, {…})
  An operation that stops the run unless x < 0 for every element.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_negative{-1.0})

df.assert_non_negative(x, {…})
  An operation that stops the run unless x >= 0 for every element.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_non_negative{0.0, 2.0})

df.assert_non_positive(x, {…})
  An operation that stops the run unless x <= 0 for every element.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_non_positive{0.0, -2.0})

df.assert_near(x, y, rtol?, atol?, {…})
  An operation that stops the run unless |x - y| <= atol + rtol * |y| for every element. Both are
  ten times the least step at 1 of the dtype unless they are given.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_near({1.0, 2.0}, {1.01, 2.0}, 0.1))

df.assert_rank(x, rank, {…})
  An error while building where x is known to have another rank; an operation that stops the run
  where it shows then.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_rank({1.0, 2.0}, 1))

df.assert_rank_at_least(x, rank, {…})
  As df.assert_rank, of x that may have a higher one.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_rank_at_least({1.0, 2.0}, 1))

df.assert_scalar(x, {…})
  x; an error while building where it is known to be no scalar.
  option    message: string = nil  what stands before the error
@name
  gradient  that of x
  example   df.assert_scalar(df.float32(3))

df.assert_type(x, dtype, {…})
  An error while building where x has another dtype.
  option    message: string = nil  what stands before the error
@name
  gradient  none: an operation has no value
  example   df.run(df.assert_type({1.0}, 'float32'))

df.assert_integer(x, {…})
  An error while building where the dtype of x is no integer one.
  option    message: string = nil  what stands before the error
@name
  gradient  none: an operation has no value
  example   df.run(df.assert_integer(df.int32{1}))

df.verify_tensor_all_finite(x, message?)
  x, once it is known that no element is NaN or infinite; else the run stops with the message.
  gradient  x: dy
  example   df.verify_tensor_all_finite({1.0, 2.0}, 'of the loss')

df.is_non_decreasing(x)
  Whether no element is less than the one before it, row by row.
  gradient  none: bools have no derivative
  example   df.is_non_decreasing{1, 1, 2}

df.is_strictly_increasing(x)
  Whether each element is more than the one before it, row by row.
  gradient  none: bools have no derivative
  example   df.is_strictly_increasing{1, 1, 2}
]==]
