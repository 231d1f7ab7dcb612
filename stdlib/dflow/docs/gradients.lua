--- The pages of gradients, and of what checks and saves them. Text for pages.lua, which docs/functions.lua reads.
return [==[
gradients(ys, xs, {…})
  Builds the derivative of the sum of ys by each of xs, and returns it in the structure of xs. It
  differentiates cond, while_loop, TensorArray and gradients themselves. A sparse gradient is an
  IndexedSlices.
  option    grad_ys: table = nil  the incoming gradient of each y; ones otherwise
  option    stop_gradients: list = nil  outputs that count as constants
  option    unconnected: string = 'error'  of an x that no y depends on: 'error', 'zero', or
              'none', which gives false
@name
  gradient  another gradients: derivatives of any order
  example   local x = df.float32(3) return gradients(x ^ 2, x)

df.custom_gradient(fn)
  Returns a function with its own gradient: fn(x…) returns y and a function(dy) that returns dx….
  gradient  what the inner function returns
  example   local f = df.custom_gradient(function(x) return x * x, function(dy) return dy end end)
            local x = df.float32(3)
            return gradients(f(x), x)

df.checkpoint(fn)
  Returns a function that computes what fn does and keeps no intermediate values: the gradient computes
  them again. Random numbers are drawn and effects happen only once.
  gradient  that of fn, after fn was computed again
  example   local f = df.checkpoint(function(x) return x:exp():tanh() end)
            local x = df.float32(1)
            return gradients(f(x), x)

df.saved(y, xs?)
  Returns what the gradients built so far save of each loop and cond that y depends on: values with their
  lines, bytes per iteration and reader, and whether they are carried, kept or recomputed. tostring
  gives a page. With xs, it first builds the gradient of y by these.
  example   local x = df.placeholder('float32', {})
            local y = while_loop(function(u) return u:lt(9) end,
                                 function(u) return df.exp(u) * x end, {x})
            return #df.saved(y)

df.jacobian(y, x)
  Returns the derivatives of the elements of y by those of x, of shape y.shape + x.shape. For a list of
  x it returns a list.
  gradient  defined, as of every gradient
  example   local x = df.float32{1, 2} return df.jacobian(x * x, x)

df.hessian(y, x)
  Returns the second derivatives of a scalar y, of shape x.shape + x.shape; of a larger y those of its
  sum.
  gradient  defined, as of every gradient
  example   local x = df.float32{1, 2} return df.hessian((x ^ 3):reduce_sum(), x)

df.jvp(y, x, v)
  Returns the derivative of y in the direction v, which has the shape of x: the Jacobian times v,
  without computing the Jacobian.
  gradient  defined, as of every gradient
  example   local x = df.float32{1, 2} return df.jvp(x * x, x, df.float32{1, 0})

df.hvp(y, x, v)
  Returns the Hessian of a scalar y times v, without computing the Hessian.
  gradient  defined, as of every gradient
  example   local x = df.float32{1, 2} return df.hvp((x ^ 3):reduce_sum(), x, df.float32{1, 0})

df.check_gradients(y, xs, {…})
  Compares the gradient of y by xs with finite differences, with the unrolled graph, and with other
  engines. Returns true, or false and a report that names the first wrong node and its Lua line.
  option    order: int = 1  2 also checks the gradient of the gradient, and so on
  option    feeds: table = nil  as of df.run
  option    tolerance: number = 1e-5  relative; 0.02 where float64 is not possible
  option    step: number = nil  the step of the differences
  option    session: Session = nil  the session whose variables are used; the default session otherwise
  option    unrolled: bool = true  false: does not compare with the unrolled graph
  option    ways: bool = true  false: does not compare with other engines
  option    stop_gradients: list = nil  as of gradients
  example   local x = df.float64(2) return df.check_gradients(x:sin(), x)

df.IndexedSlices(values, indices, dense_shape?)
  Makes a sparse gradient: rows `indices` of a tensor are `values`, rows named twice are summed, and the
  others are zero. It becomes dense where an Output is needed. Fields: values, indices, dense_shape.
  gradient  that of its dense form
  example   df.IndexedSlices(df.float32{{1, 2}}, df.int32{1}, df.int32{3, 2}) * 1
]==]
