--- The pages of control flow: branches, loops, functions, order. Text for pages.lua, which docs/functions.lua reads.
return [==[
cond(pred, then_fn, else_fn, {…})
  Runs one of two branches. Both return the same number of values, of the same dtypes and
  structure; outer outputs may be used inside. pred is a scalar bool. Only the branch that is
  taken runs.
@name
  gradient  a cond on the same pred: the branch that ran is differentiated, the other gives zeros
  example   local x = df.float32(-3)
            return cond(x:gt(0), function() return x end, function() return -x end)

df.case({{p1, f1}, {p2, f2}, default = f}, {…})
  Runs the function of the first predicate that holds. Without a default one of them must hold,
  else the run stops.
@name
  gradient  that of the conds it is made of
  example   local x = df.float32(3)
            return df.case{{x:lt(0), function() return -x end}, default = function() return x end}

df.switch_case(i, {f0, f1, …}, default?)
  Runs function number i, from 0; for other numbers default, or the last one.
  gradient  that of the conds it is made of
  example   df.switch_case(df.int32(1), {function() return df.float32(10) end,
                                         function() return df.float32(20) end})

df.map_fn(fn, elems, {…})
  fn of each row of elems along axis 0, stacked; of several lists of rows fn(a, b). fn is called
  once; rows run in parallel.
@loop
  option    dtype: string = nil  TensorFlow asks for it; here that of what fn returns
  option    batch: bool = false  rows are computed together, as df.vmap does; fn has no effects then.
              What has no rule by lanes is a function whose calls are batched, as df.func's
@name
  gradient  that of the while_loop it is made of
  example   df.map_fn(function(x) return x * x end, df.float32{1, 2, 3})

df.foldl(fn, elems, init?, {…})
  fn(acc, row) from the first row to the last; without init the first row is where it starts.
  option    shape_invariants: shape = nil  what stays of the accumulator's shape, -1 for what changes
@loop
@name
  gradient  that of the while_loop it is made of
  example   df.foldl(function(a, x) return a + x end, df.float32{1, 2, 3})

df.foldr(fn, elems, init?, {…})
  fn(acc, row) from the last row to the first.
  option    shape_invariants: shape = nil  what stays of the accumulator's shape, -1 for what changes
@loop
@name
  gradient  that of the while_loop it is made of
  example   df.foldr(function(a, x) return a - x end, df.float32{1, 2, 3})

df.scan(fn, elems, init?, {…})
  As foldl, but gives every intermediate value, stacked along axis 0.
  option    reverse: bool = false  from the last row to the first
  option    shape_invariants: shape = nil  what stays of the accumulator's shape, -1 for what changes
@loop
@name
  gradient  that of the while_loop it is made of
  example   df.scan(function(a, x) return a + x end, df.float32{1, 2, 3})

df.autograph(fn, {…})
  A function like fn whose statements build the graph where an Output decides: if, while, repeat,
  for i = a, b, for v in df.each(x), break, return and goto in them, and or not, == ~= < <= > >=.
  Where Lua's values decide they are Lua's. fn is read where it was written; Lua functions that it
  calls are read, too, and one that calls itself becomes a df.func. A variable that such a
  statement sets and that is read later has a value before it, or in each branch, of one dtype;
  tables are not changed in it: a TensorArray is ta = ta:write(i, v). At the prompt :autograph on,
  of a script dflow --autograph; :explain f shows what became of f.
@loop
  option    maximum_iterations: int = nil  a loop ends after so many
  option    shape_invariants: table = nil  shapes of variables of loops by name, {x = {-1}}
@name
  gradient  that of the conds and while_loops it is made of
  example   local f = df.autograph(function(x) while x < 100 do x = x * x end return x end)
            return f(df.float32(3))

df.each(x, …)
  What `for v in df.each(x)` goes over: the rows of x along axis 0, of several x side by side. In a
  function that df.autograph read it is a loop of the graph; elsewhere the rows have to be known.
  example   local f = df.autograph(function(xs)
              local sum = df.float32(0)
              for x in df.each(xs) do sum = sum + x end
              return sum
            end)
            return f(df.float32{1, 2, 3})

df.vmap(fn, {…})
  A function that computes fn for each lane of its arguments, all lanes together. fn sees values
  without the lane axis and is called once. A cond runs each branch for the lanes that take it; a
  while_loop ends for each lane by itself; random ops draw for each lane apart. Gradients inside
  fn are of one lane. A side effect under a predicate that differs by lane is an error.
  option    in_axes: int, bool or list = 0  the axis of the lanes in each argument; false: all
              lanes share it
  option    out_axes: int or list = 0  the axis of the lanes in each result
  option    size: int = nil  how many lanes, where no argument has them
  option    compact: string or bool = 'auto'  when lanes that are done leave a while_loop; no value
              depends on it. true: each at once; false: none, where no op of the loop draws or has an
              effect, nor an array a place; 'auto': none where all lanes together are little work,
              without a loop that ends by lane inside, so that the loop is native code; else each at
              once, or, where the body is small and cannot fail, together when half are done
  gradient  that of what it builds
  example   local function newton(a)
              return (while_loop(function(x) return (x * x - a):abs():gt(1e-3) end,
                                 function(x) return (x + a / x) / 2 end, {a}))
            end
            return df.vmap(newton)(df.float32{1, 4, 9})

df.associative_scan(fn, elems, {…})
  fn(a, b), associative, of elements 0 to i for each i, in a graph of logarithmic depth. fn gets
  many elements at once. elems may be a structure; so are a, b and what fn returns then.
  option    axis: int = 0  along which
  option    reverse: bool = false  from the last element on
  gradient  that of the slices and concats it is made of
  example   df.associative_scan(function(a, b) return a * b end, df.float32{1, 2, 3, 4})

df.func(name, {dtypes}, fn, {returns, shapes, result_shapes, batch})
  A graph function: called like a Lua function, with values or Outputs, and may call itself and others; each call is a frame. fn is called when the
  function is first called in a graph, and again where later calls have arguments of other shapes, or, where it calls itself, for the shapes of
  its results. `returns` lists the dtypes of its results and is needed where it calls itself. What it uses of the outside is passed along; gradients go through the recursion.
  With batch = true, ready nodes of different calls whose inputs have equal shapes are one kernel call, with the same bits; a matrix's gradient is one
  product over all calls.
  example   local fib
            fib = df.func('fib', {'int32'}, function(n)
              return df.cond(n:lt(2), function() return n end, function() return fib(n - 1) + fib(n - 2) end)
            end, {returns = {'int32'}})
            return fib(10)

df.lua_func(fn, inputs, out_dtypes, {gradient, stateful = true, shapes, name})
  A Lua function as an op: fn is called each time it runs, with numbers for inputs of rank 0 and Tensors for others, on the thread of this Lua state; it
  returns as many values as out_dtypes lists. gradient(x..., y..., dy...) gets and returns Outputs. An error in fn ends the run.
  example   local seen = {}
            local y = df.lua_func(function(x, t) seen[#seen + 1] = x return x * t:at(1) end, {df.float32(2), df.float32{3, 4}}, {'float32'})
            return df.run(y), seen

df.control_dependencies(list, fn)
  What fn builds runs after all of list; with nil, after none of those that stand around. Returns what fn returns.
  example   local v = df.Variable(1.0)
            return df.control_dependencies({v:assign_add(1)}, function() return v:value() end):eval()

df.group(a, b, …, {…})
  An operation that has run when all of these have; a list of them will do, too.
@name
  example   local v, w = df.Variable(1.0), df.Variable(2.0)
            df.run(df.group(v:assign(3), w:assign(4)))
            return df.run{v, w}
]==]
