--- The pages of control flow: branches, loops, functions, order. Text for pages.lua, which docs/functions.lua reads.
return [==[
cond(pred, then_fn, else_fn, {…})
  Runs one of two branches. pred is a scalar bool. Both branches return the same number of values, of
  the same dtypes and structure, and may use outputs of the outside. Only the branch that is taken
  runs.
@name
  gradient  a cond on the same pred: the branch that ran is differentiated, the other gives zeros
  example   local x = df.float32(-3)
            return cond(x:gt(0), function() return x end, function() return -x end)

df.case({{p1, f1}, {p2, f2}, default = f}, {…})
  Runs the function of the first predicate that is true. Without a default, a run in which none is
  true is an error.
@name
  gradient  that of the conds it is made of
  example   local x = df.float32(3)
            return df.case{{x:lt(0), function() return -x end}, default = function() return x end}

df.switch_case(i, {f0, f1, …}, default?)
  Runs function i, counted from 0. Any other i runs default, or the last function.
  gradient  that of the conds it is made of
  example   df.switch_case(df.int32(1), {function() return df.float32(10) end,
                                         function() return df.float32(20) end})

df.map_fn(fn, elems, {…})
  Applies fn to each row of elems along axis 0 and stacks the results. Several elems are passed as
  fn(a, b). fn is called once, to build the graph; rows run in parallel.
@loop
  option    dtype: string = nil  the result's dtype, as TensorFlow requires; by default that of what fn returns
  option    batch: bool = false  true: computes all rows together, as df.vmap does; fn may have no side
              effects. An op without a rule for vmap becomes a function with batched calls, as df.func
@name
  gradient  that of the while_loop it is made of
  example   df.map_fn(function(x) return x * x end, df.float32{1, 2, 3})

df.foldl(fn, elems, init?, {…})
  Computes acc = fn(acc, row) from the first row to the last. acc begins as init, or as the first row.
  option    shape_invariants: shape = nil  the accumulator's shape, with -1 for dimensions that change
@loop
@name
  gradient  that of the while_loop it is made of
  example   df.foldl(function(a, x) return a + x end, df.float32{1, 2, 3})

df.foldr(fn, elems, init?, {…})
  Computes acc = fn(acc, row) from the last row to the first. acc begins as init, or as the last row.
  option    shape_invariants: shape = nil  the accumulator's shape, with -1 for dimensions that change
@loop
@name
  gradient  that of the while_loop it is made of
  example   df.foldr(function(a, x) return a - x end, df.float32{1, 2, 3})

df.scan(fn, elems, init?, {…})
  The same as foldl, but returns every value of acc, stacked along axis 0.
  option    reverse: bool = false  from the last row to the first
  option    shape_invariants: shape = nil  the accumulator's shape, with -1 for dimensions that change
@loop
@name
  gradient  that of the while_loop it is made of
  example   df.scan(function(a, x) return a + x end, df.float32{1, 2, 3})

df.autograph(fn, {…})
  Returns a function like fn whose statements build the graph where they depend on an Output: if, while,
  repeat, for i = a, b, for v in df.each(x), break, return and goto in them, and or not, == ~= < <= >
  >=. Statements that depend on Lua values run as Lua. The source of fn is read from its file or the
  prompt, and so are the Lua functions that it calls; a function that calls itself becomes a df.func.
  A variable that a staged statement assigns and that is read later needs a value before it or in each
  branch, of one dtype. A staged statement may not change a table; write ta = ta:write(i, v) for a
  TensorArray. :autograph on does this at the prompt, dflow --autograph for a script; :explain f shows
  the rewritten text.
@loop
  option    maximum_iterations: int = nil  the most iterations of a loop
  option    shape_invariants: table = nil  shapes of variables of loops by name, {x = {-1}}
@name
  gradient  that of the conds and while_loops it is made of
  example   local f = df.autograph(function(x) while x < 100 do x = x * x end return x end)
            return f(df.float32(3))

df.each(x, …)
  Iterates over the rows of x along axis 0, or of several x side by side: for v in df.each(x). In a
  function of df.autograph it is a loop of the graph; elsewhere the number of rows must be known.
  example   local f = df.autograph(function(xs)
              local sum = df.float32(0)
              for x in df.each(xs) do sum = sum + x end
              return sum
            end)
            return f(df.float32{1, 2, 3})

df.vmap(fn, {…})
  Returns a function that computes fn for each lane of its arguments, all lanes together. fn is called
  once, with values without the lane axis. A cond runs each branch for the lanes that take it. A
  while_loop ends for each lane separately. Random ops draw separate numbers for each lane. Gradients
  inside fn are of one lane. A side effect under a predicate that differs by lane is an error. A
  TensorArray may be an argument, whose elements have the lanes, or a result.
  option    in_axes: int, bool or list = 0  the axis of the lanes in each argument; false: all
              lanes share it
  option    out_axes: int or list = 0  the axis of the lanes in each result
  option    size: int = nil  the number of lanes, where no argument has a lane axis
  option    compact: string or bool = 'auto'  when finished lanes leave a while_loop; no value depends
              on it. true: each lane at once. false: no lane before the last one ends, where the loop
              draws no random numbers, has no effects and uses no TensorArray. 'auto': where that
              holds, the number of lanes is known, the body is cheap and no inner loop ends by lane,
              all lanes stay and the loop is native code; of many lanes up to seven such loops follow
              each other, each of fewer lanes. Else, where the body is a few ops that cannot fail,
              whose gradient no value makes infinite, finished lanes leave when they are half. Else
              each lane leaves at once
  gradient  that of what it builds
  example   local function newton(a)
              return (while_loop(function(x) return (x * x - a):abs():gt(1e-3) end,
                                 function(x) return (x + a / x) / 2 end, {a}))
            end
            return df.vmap(newton)(df.float32{1, 4, 9})

df.associative_scan(fn, elems, {…})
  Combines elements 0 to i by fn(a, b) for each i, in a graph of logarithmic depth. fn is associative
  and gets many elements at once. elems may be a structure; a, b and fn's result then have it, too.
  option    axis: int = 0  the axis of the elements
  option    reverse: bool = false  true: combines the last element down to element i, in that order
  gradient  that of the slices and concats it is made of
  example   df.associative_scan(function(a, b) return a * b end, df.float32{1, 2, 3, 4})

df.func(name, {dtypes}, fn, {returns, shapes, result_shapes, batch})
  Returns a graph function. It is called like a Lua function, with values or Outputs, and may call itself and other graph functions; each call is a
  frame. fn builds the body at the first call, and again for calls with arguments of other shapes. A function that calls itself lists the dtypes of its
  results in `returns`. Outputs of the outside that fn uses become further arguments. Gradients go through the recursion. With batch = true, one kernel
  call computes the ready nodes of different calls whose inputs have equal shapes, with the same bits; a matrix's gradient is one product over all calls.
  example   local fib
            fib = df.func('fib', {'int32'}, function(n)
              return df.cond(n:lt(2), function() return n end, function() return fib(n - 1) + fib(n - 2) end)
            end, {returns = {'int32'}})
            return fib(10)

df.lua_func(fn, inputs, out_dtypes, {gradient, stateful = true, shapes, name})
  Makes a Lua function an op. Each time the op runs it calls fn, on the thread of this Lua state, with numbers for inputs of rank 0 and Tensors for
  others. fn returns as many values as out_dtypes lists. gradient(x..., y..., dy...) gets and returns Outputs. An error in fn ends the run.
  example   local seen = {}
            local y = df.lua_func(function(x, t) seen[#seen + 1] = x return x * t:at(1) end, {df.float32(2), df.float32{3, 4}}, {'float32'})
            return df.run(y), seen

df.control_dependencies(list, fn)
  Makes the nodes that fn builds run after all of list. With nil, they do not wait for enclosing control dependencies, either. Returns what fn returns.
  example   local v = df.Variable(1.0)
            return df.control_dependencies({v:assign_add(1)}, function() return v:value() end):eval()

df.group(a, b, …, {…})
  Returns an operation that runs after all of these. They may be given as a list.
@name
  example   local v, w = df.Variable(1.0), df.Variable(2.0)
            df.run(df.group(v:assign(3), w:assign(4)))
            return df.run{v, w}
]==]
