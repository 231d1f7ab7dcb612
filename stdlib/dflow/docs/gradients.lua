--- The pages of gradients, and of what checks and saves them. Text for pages.lua, which docs/functions.lua reads.
return [==[
gradients(ys, xs, {…})
  The derivative of the sum of ys by each of xs, in the structure of xs. Goes through cond,
  while_loop and TensorArray, and through gradients. Where it is sparse an IndexedSlices comes
  back.
  option    grad_ys: table = nil  what arrives at each y, ones otherwise
  option    stop_gradients: list = nil  outputs that are constants in the eyes of this call
  option    unconnected: string = 'error'  of an x that no y depends on: 'error', 'zero', or
              'none', which gives false
@name
  gradient  another gradients: derivatives of any order
  example   local x = df.float32(3) return gradients(x ^ 2, x)

df.custom_gradient(fn)
  A function with a gradient of its own: fn(x…) returns y and function(dy) that returns dx….
  gradient  what the inner function returns
  example   local f = df.custom_gradient(function(x) return x * x, function(dy) return dy end end)
            local x = df.float32(3)
            return gradients(f(x), x)

df.checkpoint(fn)
  A function with the values of fn whose intermediates are not kept: the gradient computes them
  again. What is drawn at random and what has effects happens once.
  gradient  that of fn, after fn was computed again
  example   local f = df.checkpoint(function(x) return x:exp():tanh() end)
            local x = df.float32(1)
            return gradients(f(x), x)

df.saved(y, xs?)
  What the gradients built so far save of the loops and conds that y depends on, per loop: its
  values with their lines, bytes of a trip and for whose gradient, and what is carried, kept or
  computed again. tostring makes a page of it. xs: builds the gradient of y by these first.
  example   local x = df.placeholder('float32', {})
            local y = while_loop(function(u) return u:lt(9) end,
                                 function(u) return df.exp(u) * x end, {x})
            return #df.saved(y)

df.jacobian(y, x)
  All derivatives of the elements of y by those of x, of shape y.shape + x.shape. Of a list of x a
  list.
  gradient  it has one, as all gradients have
  example   local x = df.float32{1, 2} return df.jacobian(x * x, x)

df.hessian(y, x)
  Second derivatives of a scalar y, of shape x.shape + x.shape; of a larger y those of its sum.
  gradient  it has one, as all gradients have
  example   local x = df.float32{1, 2} return df.hessian((x ^ 3):reduce_sum(), x)

df.jvp(y, x, v)
  The derivative of y along v, which has the shape of x: the Jacobian times v, without the
  Jacobian.
  gradient  it has one, as all gradients have
  example   local x = df.float32{1, 2} return df.jvp(x * x, x, df.float32{1, 0})

df.hvp(y, x, v)
  The Hessian of a scalar y times v, without the Hessian.
  gradient  it has one, as all gradients have
  example   local x = df.float32{1, 2} return df.hvp((x ^ 3):reduce_sum(), x, df.float32{1, 0})

df.check_gradients(y, xs, {…})
  Is the gradient of y by xs right? Compared with finite differences, with the same graph
  unrolled, and with other ways of running it: true, or false and a report that names the first
  wrong node and its Lua line.
  option    order: int = 1  2: the gradient of the gradient as well, and so on
  option    feeds: table = nil  as for run
  option    tolerance: number = 1e-5  relative; 0.02 where float64 is not possible
  option    step: number = nil  of the differences
  option    session: Session = nil  whose variables count; the default session otherwise
  option    unrolled: bool = true  false: not compared with the graph unrolled
  option    ways: bool = true  false: not compared with other ways of running
  option    stop_gradients: list = nil  as for gradients
  example   local x = df.float64(2) return df.check_gradients(x:sin(), x)

df.IndexedSlices(values, indices, dense_shape?)
  Rows `indices` of a tensor are `values`; rows named twice add up, the others are zero. What a
  sparse gradient is; it turns dense wherever an Output is needed. Fields: values, indices,
  dense_shape.
  gradient  that of its dense form
  example   df.IndexedSlices(df.float32{{1, 2}}, df.int32{1}, df.int32{3, 2}) * 1
]==]
