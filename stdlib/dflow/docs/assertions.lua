--- The pages of assertions, and of what they ask. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.assert_equal(x, y, {…})
  Returns an operation that stops the run unless x == y for every element. Nodes built under
  df.control_dependencies of it run after it.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_equal(df.int32{1, 2}, {1, 2}))

df.assert_none_equal(x, y, {…})
  Returns an operation that stops the run unless x ~= y for every element. Nodes built under
  df.control_dependencies of it run after it.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_none_equal(df.int32{1, 2}, {2, 1}))

df.assert_less(x, y, {…})
  Returns an operation that stops the run unless x < y for every element. Nodes built under
  df.control_dependencies of it run after it.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_less(df.int32{1, 2}, 3))

df.assert_less_equal(x, y, {…})
  Returns an operation that stops the run unless x <= y for every element. Nodes built under
  df.control_dependencies of it run after it.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_less_equal(df.int32{1, 2}, 2))

df.assert_greater(x, y, {…})
  Returns an operation that stops the run unless x > y for every element. Nodes built under
  df.control_dependencies of it run after it.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_greater(df.int32{1, 2}, 0))

df.assert_greater_equal(x, y, {…})
  Returns an operation that stops the run unless x >= y for every element. Nodes built under
  df.control_dependencies of it run after it.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_greater_equal(df.int32{1, 2}, 1))

df.assert_positive(x, {…})
  Returns an operation that stops the run unless x > 0 for every element.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_positive{1.0, 2.0})

df.assert_negative(x, {…})
  Returns an operation that stops the run unless x < 0 for every element.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_negative{-1.0})

df.assert_non_negative(x, {…})
  Returns an operation that stops the run unless x >= 0 for every element.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_non_negative{0.0, 2.0})

df.assert_non_positive(x, {…})
  Returns an operation that stops the run unless x <= 0 for every element.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_non_positive{0.0, -2.0})

df.assert_near(x, y, rtol?, atol?, {…})
  Returns an operation that stops the run unless |x - y| <= atol + rtol * |y| for every element. Both are
  ten times the least step at 1 of the dtype unless they are given.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_near({1.0, 2.0}, {1.01, 2.0}, 0.1))

df.assert_rank(x, rank, {…})
  Checks the rank of x: an error while building where the rank is known, else an operation that stops the
  run.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_rank({1.0, 2.0}, 1))

df.assert_rank_at_least(x, rank, {…})
  Checks that the rank of x is at least this, as df.assert_rank does.
@told
  gradient  none: an operation has no value
  example   df.run(df.assert_rank_at_least({1.0, 2.0}, 1))

df.assert_scalar(x, {…})
  Returns x. It is an error while building where x is known to be no scalar.
  option    message: string = nil  a text before the error
@name
  gradient  that of x
  example   df.assert_scalar(df.float32(3))

df.assert_type(x, dtype, {…})
  Raises an error while building where x has another dtype.
  option    message: string = nil  a text before the error
@name
  gradient  none: an operation has no value
  example   df.run(df.assert_type({1.0}, 'float32'))

df.assert_integer(x, {…})
  Raises an error while building where the dtype of x is no integer.
  option    message: string = nil  a text before the error
@name
  gradient  none: an operation has no value
  example   df.run(df.assert_integer(df.int32{1}))

df.verify_tensor_all_finite(x, message?)
  Returns x after checking that no element is NaN or infinite; else the run stops with the message.
  gradient  x: dy
  example   df.verify_tensor_all_finite({1.0, 2.0}, 'of the loss')

df.is_non_decreasing(x)
  Returns whether no element is less than the one before it, row by row.
  gradient  none: bools have no derivative
  example   df.is_non_decreasing{1, 1, 2}

df.is_strictly_increasing(x)
  Returns whether each element is more than the one before it, row by row.
  gradient  none: bools have no derivative
  example   df.is_strictly_increasing{1, 1, 2}
]==]
