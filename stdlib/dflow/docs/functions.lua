--- The functions that are no ops, as pages.lua reads them: signature, what they do, options,
-- gradient, and an example that runs as it stands. `{…}` in a signature stands for the options.
local pages = require 'dflow.docs.pages'

local M = {}

local macros = {
  name = [[
  option    name: string = nil  what the node is called; one is found without it]],
  loop = [[
  option    parallel_iterations: int = 32  the most iterations that may be in flight
  option    save: string = 'keep'  what becomes of values that the gradient needs: 'keep',
              'swap' to the host, 'recompute', or 'auto': kept until memory is short, then the cheaper
              of the two
  option    swap_memory: bool = false  true is save = 'swap'
  option    back_prop: bool = true  false: to gradients its results are constants, as of df.stop_gradient, and nothing is saved]],
  weights = [[
  option    weights: number = nil  of each value, or broadcast to them; 0 leaves one out]],
  seed = [[
  option    seed: int = nil  the same one draws the same numbers]],
  normal = [[
  option    mean: number = 0  in the middle
  option    stddev: number = 0.05  their deviation]],
  run = [[
  option    timeout: number = nil  seconds, then the run ends with deadline_exceeded
  option    trace: string = nil  the path of a timeline that is written, such as 'run.json';
              Perfetto opens it
  option    report: string = nil  the path of a page that is written, such as 'run.html', with
              graph, tokens and source
  option    tensors: bool = false  results of rank 0 are Tensors, too
  option    paused: bool = false  stops before the first token, to be stepped
  option    record: bool = false  the run is written down, for h:whatif
  option    check_numerics: bool or string = false  ends at the first op that makes a NaN, and says
            which; 'inf': or an infinity
  option    finally: Operation = nil  what runs when the run has ended, however it did
  option    at_once: bool = false  of df.start: returns at once, and not when the run is over, waits
            for a queue, or has gone on for a moment; runs may come to a queue in any order then
  option    remains: bool = false  when it is over it can still be looked at, as it was at its end
              or error: h:frames, h:why, h:value, h:history
  option    values: bool = false  keeps the values of the last few thousand tokens, for h:value,
              h:why and :back
  option    log: bool = false  keeps every token with its time, for a trace written afterwards]],
  convolution = [[
  option    strides: int or list = 1  how far the window moves
  option    padding: string = 'VALID'  or 'SAME'
  option    dilation: int or list = 1  how far its taps are apart
  option    activation: function = nil  such as df.relu
  option    use_bias: bool = true  whether there is a bias
  option    kernel_initializer: any = nil  as of df.nn.Dense
  option    bias_initializer: any = nil  zeros otherwise
  option    name: string = nil  what the layer is called; one is found without it]],
  pooling = [[
  option    strides: int or list = nil  as far as the window is long otherwise
  option    padding: string = 'VALID'  or 'SAME'
  option    name: string = nil  what the layer is called; one is found without it]],
  cell = [[
  option    kernel_initializer: any = nil  as of df.nn.Dense
  option    bias_initializer: any = nil  as of df.nn.Dense; TensorFlow's otherwise
  option    name: string = nil  what the cell is called; one is found without it]],
  over = [[
  option    parallel_iterations: int = 32  as for while_loop
  option    save: string = 'keep'  as for while_loop
  option    swap_memory: bool = false  as for while_loop
  option    name: string = nil  what the loop is called]],
  rnn = [[
  option    lengths: int = nil  [batch]: past them outputs are zeros and the state stays; the loop
              ends after the longest
  option    initial_state: table = nil  cell:zero_state otherwise
  option    time_major: bool = false  x is [time, batch, inputs]
  option    parallel_iterations: int = 32  as for while_loop
  option    save: string = 'keep'  as for while_loop
  option    swap_memory: bool = false  as for while_loop
  option    name: string = 'rnn'  what the loop is called]],
  loss = [[
  option    weights: number = nil  of each loss, or each example
  option    reduction: string = 'sum_by_nonzero_weights'  or 'mean' by the sum of weights, 'sum',
              'none']],
  sampler = [[
  option    seed: int = nil  of what is drawn]],
  sampled = [[
  option    num_true: int = 1  true classes of an example
  option    sampled_values: list = nil  {ids, expected counts of true, of sampled}; drawn by the
              log-uniform sampler otherwise
  option    partition_strategy: string = 'mod'  as of df.embedding_lookup
  option    seed: int = nil  of what is drawn]],
  affine = [[
  option    center: bool = true  whether there is a beta
  option    scale: bool = true  whether there is a gamma
  option    gamma_initializer: any = nil  ones otherwise
  option    beta_initializer: any = nil  zeros otherwise
  option    name: string = nil  what the layer is called; one is found without it]],
  told = [[
  option    message: string = nil  what stands before the error
  option    data: list = nil  what the error tells: x and y otherwise
  option    summarize: int = 3  elements of each, at most
  option    name: string = nil  what the operation is called; one is found without it]],
  queue = [[
  option    shapes: list = nil  a shape for each component; without them elements come out one
              by one only
  option    name: string = nil  what the queue is called
  option    shared_name: string = nil  queues of one shared_name are one queue in a session]],
}

local text = [==[
-- ---- dynamic control flow ----------------------------------------------------------------------

cond(pred, then_fn, else_fn, {…})
  Runs one of two branches. Both return the same number of values, of the same dtypes and
  structure; outer outputs may be used inside. pred is a scalar bool. Only the branch that is
  taken runs.
@name
  gradient  a cond on the same pred: the branch that ran is differentiated, the other gives zeros
  example   local x = df.float32(-3)
            return cond(x:gt(0), function() return x end, function() return -x end)

while_loop(pred, body, vars, {…})
  Repeats body while pred holds. Both are called once, with the loop variables, to build the graph
  of an iteration; the body returns the next values. Gives the last ones. Loop variables are
  outputs, values, TensorArrays, and tables of these; each keeps its dtype and shape.
@loop
  option    maximum_iterations: int = nil  the loop ends after so many, whatever pred says
  option    shape_invariants: table = nil  like vars, the shapes that may change: -1 for a
              dimension, false for all of it
@name
  gradient  a loop that goes backwards through as many iterations, reading what the forward loop
            saved
  example   local i, x = while_loop(function(i, x) return i:lt(10) end,
                                    function(i, x) return i + 1, x * 2 end, {df.int32(0), df.float32(1)})
            return x

TensorArray(dtype, size, {…})
  An array of tensors for loops. What changes it returns the next array: ta = ta:write(i, v). Each
  place is written once and read as often as one likes. ?TensorArray:write and so on tell its
  methods.
  option    dynamic_size: bool = false  it grows when a place behind its end is written
  option    element_shape: shape = nil  that of the first write otherwise; -1 where elements
              differ
  option    clear_after_read: bool = false  a place that was read is empty
@name
  gradient  an array of gradients beside it: what was read is written there, what was written is
            read
  example   TensorArray('float32', 3):write(0, 1):write(1, 2):write(2, 3):stack()

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
  option    batch: bool = false  rows are computed together, as df.vmap does; fn has no effects then
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

-- ---- gradients ---------------------------------------------------------------------------------

df.custom_gradient(fn)
  A function with a gradient of its own: fn(x…) returns y and function(dy) that returns dx….
  gradient  what the inner function returns
  example   local f = df.custom_gradient(function(x) return x * x, function(dy) return dy end end)
            local x = df.float32(3)
            return gradients(f(x), x)

df.vmap(fn, {…})
  A function that computes fn for each lane of its arguments, all lanes together. fn sees values
  without the lane axis and is called once. A cond runs each branch for the lanes that take it; a
  while_loop ends for each lane by itself; random ops draw for each lane apart. Gradients inside
  fn are of one lane. A side effect under a predicate that differs by lane is an error.
  option    in_axes: int, bool or list = 0  the axis of the lanes in each argument; false: all
              lanes share it
  option    out_axes: int or list = 0  the axis of the lanes in each result
  option    size: int = nil  how many lanes, where no argument has them
  option    compact: string or bool = 'auto'  no value depends on it; lanes that are done leave a
              loop at once, whatever it is
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

df.all_reduce(list, {…})
  The sum of the list's elements, one on each device, for all of them: a list, each result where
  its input is. All places have the same bits. Large ones go round a ring, small ones by a tree.
  option    op: string = 'sum'  or 'mean', 'max', 'min', 'prod'
  gradient  that of the ops it is made of
  example   return df.all_reduce({df.float32{1, 2}, df.float32{3, 5}})[2]

df.all_gather(list, {…})
  The list's elements side by side along an axis: a list, each result where its input is.
  option    axis: int = 0  along which
  gradient  that of concat
  example   return df.all_gather({df.float32{1, 2}, df.float32{3}})[1]

df.broadcast(x, devices)
  A list of x on each of the devices.
  gradient  the sum of theirs
  example   return df.broadcast(df.float32{1, 2}, {'cpu:0', 'cpu:0'})[2]

df.cluster
  Several processes that turn one graph: rank 0 is this one, workers hold sessions like its own.
  df.device('/rank:1/cpu:0', fn) says what runs there. size and rank are fields.
  example   return df.cluster.size

df.cluster.start(n, program?)
  Starts workers on this host, so that there are n ranks; this process is rank 0. A worker that
  dies, or gives no sign for two seconds, ends the runs it has a part in as `unavailable`.
  example   df.cluster.start(1) return df.cluster.size

df.cluster.restart()
  New workers in the place of those that are dead or hung. Their variables are uninitialised.
  example   df.cluster.restart() return df.cluster.size

df.cluster.stop()
  Ends the workers; this process goes on alone.
  example   df.cluster.stop() return df.cluster.size

df.cluster.ranks()
  A list of {rank =, host =, pid =, state =, why =, sent =, received =}; state is 'alive', 'hung'
  or 'dead', why says what became of it. Empty where there is no cluster.
  example   return #df.cluster.ranks()

df.cluster.jobs(jobs)
  Which ranks the tasks of jobs are: /job:ps/task:0 is rank 3 with {ps = {3}}. Without it, or with
  nil, task k of any job is rank k.
  example   df.cluster.jobs(nil) return df.cluster.rank

df.cluster.timeout(seconds)
  A rank that gives no sign for so long is hung. Two seconds at first.
  example   df.cluster.timeout(2) return df.cluster.rank

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

df.draw(x, {…})
  The graph that leads to x, which is an Output, an operation, a Variable, a Graph, or a table of
  these: as text, for Graphviz, or as a picture. Gives the text, or nothing when it went to a file.
  At the prompt: :graph x as svg at lowered > x.svg.
  option    as: string = 'let'  'tree', 'let', 'dot' or 'svg'; without it as path ends
  option    at: string = 'built'  'built': as typed; 'lowered': the primitives, and what a run makes
            of them; 'gradient': with the gradient; 'partitioned': by device
  option    path: string = nil  a file to write
  option    lines: int = 400  so many of a let-form or tree at most
  option    source: bool = true  false: without the Lua lines
  example   local x = df.placeholder('float32', {}, 'x') return df.draw(x * 2, {source = false})

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

df.progress(n | list | iterator, {…})
  The same loop, with a line about it on standard error, below what is printed, once it has run for half a second, where that is a terminal: for i in
  df.progress(1000) do … end, for i, x in df.progress(list), for … in df.progress(iterator, {total = 60}).
  option    total: int = nil  how many rounds an iterator has; without, there is a rate and no bar
  option    label: string = nil  what stands before it
  option    every: number = 0.1  seconds between two lines
  option    write: function = nil  called with the line in place of the terminal; '' wipes it
  example   local sum = 0 for i, x in df.progress{ 3, 4 } do sum = sum + i * x end return sum

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

-- ---- values ------------------------------------------------------------------------------------

df.tensor(v, dtype?, shape?)
  A Tensor on the host of a number, a table or a Tensor; ?Tensor tells what it can do.
  example   df.tensor{{1.5, 2}, {3, 4}}

df.Variable(init, {…})
  A value that stays from run to run, usable wherever an Output is. Initialised by itself the
  first time a run needs it. init may be a function that gives the value.
  option    name: string = nil  what it is called
  option    trainable: bool = true  false: optimizers leave it alone
  option    dtype: string = nil  that of init otherwise
  option    shape: shape = nil  that of init otherwise; -1 where values differ
  gradient  gradients by v are by the value that was read
  example   local v = df.Variable(1.0) df.run(v:assign_add(2)) return df.run(v)

df.trainable_variables()
  The trainable variables of the default graph, in the order they were made.
  example   local a, b = df.Variable(1.0), df.Variable(0.0, {trainable = false})
            return #df.trainable_variables()

df.global_variables()
  All variables of the default graph, in the order they were made.
  example   df.Variable(1.0, {name = 'w'}) return df.global_variables()[1].name

df.dtypes
  The names of all dtypes, as a list.
  example   df.dtypes[1]

df.type(x)
  'output', 'tensor', 'variable', 'tensor_array', 'queue', 'operation', 'graph', 'session', 'run',
  'indexed_slices', or nil.
  example   df.type(df.float32(1))

df.names()
  All names of this module, sorted.
  example   #df.names() > 300

df.unpack(list)
  table.unpack under Lua 5.4, unpack under LuaJIT.
  example   df.unpack{1.5, 2.5}

df._VERSION
  The version of dflow.
  example   df._VERSION:match("%a+")

df.load_npy(path)
  The array of a NumPy file as a Tensor.
  example   local path = os.tmpname() df.save_npy(path, df.tensor{1.5, 2})
            local t = df.load_npy(path)
            os.remove(path)
            return t

df.save_npy(path, t)
  Writes a Tensor, or what df.tensor takes, as a NumPy file.
  example   local path = os.tmpname() df.save_npy(path, {1.5, 2})
            local t = df.load_npy(path)
            os.remove(path)
            return t

df.load_npz(path)
  The arrays of a zip of NumPy files: {name = Tensor}.
  example   local path = os.tmpname() df.save_npz(path, {w = {1.5, 2}})
            local t = df.load_npz(path)
            os.remove(path)
            return t.w

df.save_npz(path, {name = Tensor})
  Writes Tensors as numpy.savez does.
  example   local path = os.tmpname() df.save_npz(path, {w = {1.5, 2}, b = {0.5}})
            local t = df.load_npz(path)
            os.remove(path)
            return t.b

-- ---- graphs ------------------------------------------------------------------------------------

df.Graph()
  A graph of its own. g:as_default(fn) builds in it; ?Graph tells what else it can do.
  example   local g = df.Graph() return g:as_default(function() return df.float32(2) * 3 end)

df.default_graph()
  The graph that is built in now.
  example   df.float32(1) return df.default_graph():size()

df.reset()
  A new, empty default graph; the old one lives as long as something of it is held.
  example   df.float32(1) df.reset() return df.default_graph():size()

df.name_scope(name, fn)
  Names of what fn builds begin with name/. Returns what fn returns.
  example   df.name_scope('layer', function() return df.float32(1) end).name

df.variable_scope(name, {reuse}, fn)
  Variables that get_variable makes in fn are called name/...; reuse = true shares those that are there, 'auto' makes the others. fn gets the scope, which
  may be entered again in the place of a name. Returns what fn returns.
  example   local function layer() return df.get_variable('w', {2}, {initializer = 1}) end
            local a = df.variable_scope('layer', layer)
            local b = df.variable_scope('layer', {reuse = true}, layer)
            return a == b, a.name

df.get_variable(name, shape, {initializer, dtype = 'float32', trainable = true})
  The variable of that name in the current variable scope. An initializer is a value, a function(shape, dtype) or the name of one of
  df.nn.initializers; without one Glorot's uniform is drawn. Loops, branches and name scopes have no part in the name.
  example   df.get_variable('w', {2, 3}, {initializer = 0}):eval()

df.func(name, {dtypes}, fn, {returns, shapes, result_shapes})
  A graph function: called like a Lua function, with values or Outputs, and may call itself and others; each call is a frame. fn is called when the
  function is first called in a graph, and again where later calls have arguments of other shapes. `returns` lists the dtypes of its results and is needed
  where it calls itself. What it uses of the outside is passed along; gradients go through the recursion.
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

df.scaled_dot_product_attention(query, key, value, {…})
  softmax(scale query key' + bias) value as one op, which keeps no matrix of all scores, nor does its
  gradient: memory grows with the times, not with their product. query is [..., tq, d], key
  [..., tk, d], value [..., tk, dv]. Keys are taken in blocks, so sums are in another order than
  those of matmul and softmax. A query that may see no key gives 0. What may not be seen should
  be finite: 0 times infinity is NaN. df.nn.attention is the same by ops, and gives the weights.
  option    mask: bool = nil  broadcasts to [..., tq, tk]: true where a query may look
  option    bias: float = nil  broadcasts likewise and is added to the scores; it has a gradient
  option    causal: bool = false  query i sees keys 0 to i only, however many there are
  option    scale: number = nil  d ^ -0.5 otherwise
  example   df.scaled_dot_product_attention({{1.0, 0.0}}, {{1.0, 0.0}, {0.0, 1.0}}, {{1.0}, {3.0}})

df.svd(tensor, {full_matrices = false, compute_uv = true})
  s, u, v of matrices: tensor is u diag(s) v^T, and s falls; s alone without compute_uv.
  example   df.svd({{3.0, 0.0}, {0.0, 2.0}}, {compute_uv = false})

df.self_adjoint_eig(tensor)
  The eigenvalues of symmetric matrices, rising, and the eigenvectors in columns. Only the lower triangle is read.
  example   (df.self_adjoint_eig{{2.0, 1.0}, {1.0, 2.0}})

df.self_adjoint_eigvals(tensor)
  The eigenvalues of symmetric matrices, rising.
  example   df.self_adjoint_eigvals{{2.0, 1.0}, {1.0, 2.0}}

df.cholesky_solve(chol, rhs)
  x with A x = rhs, where chol is the Cholesky factor of A.
  example   df.cholesky_solve({{2.0, 0.0}, {0.0, 1.0}}, {{4.0}, {3.0}})

df.lstsq(matrix, rhs, {l2_regularizer = 0, fast = true})
  x that makes |matrix x - rhs|^2 + l2_regularizer |x|^2 least: by the normal equations, or by QR where fast is false.
  example   df.lstsq({{1.0, 1.0}, {1.0, 2.0}, {1.0, 3.0}}, {{1.0}, {2.0}, {3.0}})

df.matrix_solve_ls(matrix, rhs, {l2_regularizer = 0, fast = true})
  The same as lstsq, by TensorFlow 1's name.
  example   df.matrix_solve_ls({{2.0}}, {{4.0}})

df.tridiagonal_matmul(diagonals, rhs)
  The product of tridiagonal matrices, given as rows above, main and below, with rhs.
  example   df.tridiagonal_matmul({{1.0, 0.0}, {2.0, 2.0}, {0.0, 1.0}}, {{1.0}, {1.0}})

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
  Where the values of the sorted axis stand; equal ones keep their order.
  example   df.argsort{3, 1, 2}

df.searchsorted(sorted_sequence, values, side = 'left', out_type = 'int32')
  Where each value would go so that the sequence stays sorted, row by row along the last axis.
  example   df.searchsorted({1, 3, 5}, {0, 3, 6})

df.histogram_fixed_width(values, value_range, nbins = 100, dtype = 'int32')
  How many values fall into each of nbins parts of value_range; what lies outside counts for the first or the last.
  example   df.histogram_fixed_width({-1.0, 0.0, 1.5, 2.0, 5.0, 15.0}, {0.0, 5.0}, 5)

df.bincount(arr, weights, {minlength, maxlength, dtype = 'int32'})
  How often each number from 0 up is in arr, or the sum of its weights.
  example   df.bincount{1, 2, 1}

df.stateless_random_uniform(shape, seed, minval = 0, maxval = 1, {dtype})
  Uniform numbers that are a function of the shape and the seed, a list of two integers, alone; the same as TensorFlow's.
  example   df.stateless_random_uniform({2}, {1, 2})

df.stateless_random_normal(shape, seed, mean = 0, stddev = 1, {dtype})
  Normal numbers that are a function of the shape and the seed alone; the same as TensorFlow's.
  example   df.stateless_random_normal({2}, {1, 2})

df.stateless_truncated_normal(shape, seed, mean = 0, stddev = 1, {dtype})
  Normal numbers within two deviations that are a function of the shape and the seed alone; the same as TensorFlow's.
  example   df.stateless_truncated_normal({2}, {1, 2})

df.random_poisson(lam, shape, {dtype = 'float32', seed})
  Poisson numbers, as many of each rate lam as shape says: the dimensions of lam follow those of shape.
  example   df.random_poisson({2.0, 20.0}, {3}, {seed = 1})

df.stateless_random_gamma(shape, seed, alpha, beta = 1, {dtype})
  Gamma numbers of shape alpha and rate beta, TensorFlow's; the last dimensions of shape are those of alpha.
  example   df.stateless_random_gamma({2}, {1, 2}, 2.5)

df.stateless_random_poisson(shape, seed, lam, {dtype = 'int32'})
  Poisson numbers of rate lam, TensorFlow's; the last dimensions of shape are those of lam.
  example   df.stateless_random_poisson({3}, {1, 2}, 4.0)

df.stateless_random_binomial(shape, seed, counts, probs, {dtype = 'int32'})
  How often of counts times something of probability probs happens, TensorFlow's; the last dimensions of shape are theirs.
  example   df.stateless_random_binomial({3}, {1, 2}, 10.0, 0.5)

df.stateless_multinomial(logits, num_samples, seed, {dtype = 'int64'})
  Classes drawn with probabilities softmax(logits), num_samples of each row: a function of these and the seed, TensorFlow's.
  example   df.stateless_multinomial({{0.0, 1.0, 2.0}}, 4, {1, 2})

df.control_dependencies(list, fn)
  What fn builds runs after all of list; with nil, after none of those that stand around. Returns what fn returns.
  example   local v = df.Variable(1.0)
            return df.control_dependencies({v:assign_add(1)}, function() return v:value() end):eval()

df.device(spec, fn)
  What fn builds is to be placed on that device: 'cpu:0', 'sim:1', TensorFlow's '/device:SIM:1', or a
  function of a node's op type that returns one. x.device is what was asked for. A device that the
  session does not have is an error of the run. Returns what fn returns.
  example   df.device('sim:0', function() return df.float32(1) + 1 end).device

df.devices()
  The devices of the default session: {{name =, kind =, memory = {in_use =, peak =, limit =}}, …}, in
  bytes, the host first; with rates = {flops =, bytes =, begin =} where the speed is 'measured'. 'sim:N' are simulated accelerators, with memory of their own, that every
  session has which lists no devices; they are there once a graph names them.
  example   df.devices()[1].name

df.colocate_with(x, fn)
  What fn builds is to be placed where x is. Returns what fn returns.
  example   local v = df.Variable(1.0)
            return df.colocate_with(v, function() return df.float32(1) + 1 end)

df.group(a, b, …, {…})
  An operation that has run when all of these have; a list of them will do, too.
@name
  example   local v, w = df.Variable(1.0), df.Variable(2.0)
            df.run(df.group(v:assign(3), w:assign(4)))
            return df.run{v, w}

df.set_random_seed(n)
  The seed of the graph: random ops draw the same numbers in every new session, on any number of
  threads. Each draws anew in every run in which it draws, and counts these alone: s:position().
  example   df.set_random_seed(1) return df.random_uniform{2}

df.import_graph_def(path or bytes, {…})
  A TensorFlow graph as a Graph: a GraphDef (binary or text, gzipped or not), a MetaGraphDef or a
  SavedModel (its folder: variables begin with its checkpoint). An op that dflow does not know is
  an error when it has to run. Nodes keep their names: g:output('while/Exit:0'). All that works on
  a graph works on it, gradients too.
  option    into: Graph = nil  the graph it is put into; a new one otherwise
  option    prefix: string = nil  names begin with prefix/
  option    input_map: table = nil  {['x:0'] = Output of `into`}: these take the place of the
              file's
  option    files: bool = false  its operations (RestoreV2, SaveV2) may name files by themselves;
              otherwise they only touch files whose path begins with a string that the run is fed
  example   local path = os.tmpname()
            df.export_graph_def(path, {outputs = df.placeholder('float32', {}, 'x') * 2})
            local g = df.import_graph_def(path)
            os.remove(path)
            return df.run(g:output('Mul:0'), {[g:output('x:0')] = 4})

df.load_checkpoint(prefix)
  The tensors of a TensorFlow checkpoint (prefix.index, prefix.data-00000-of-00001) as
  {name = Tensor}. Their bytes are checked against their sums.
  example   local path = os.tmpname()
            df.save_checkpoint(path, {w = df.tensor{1, 2}})
            local t = df.load_checkpoint(path)
            for _, ending in ipairs{'', '.index', '.data-00000-of-00001'} do os.remove(path .. ending) end
            return t.w

df.save_checkpoint(prefix, {name = Tensor})
  Writes a TensorFlow checkpoint, which a Saver of TensorFlow restores. One that is there is
  whole until all is written; its files are removed then.
  example   local path = os.tmpname()
            df.save_checkpoint(path, {w = df.tensor{1, 2}, step = df.tensor(3, 'int64')})
            local t = df.load_checkpoint(path)
            for _, ending in ipairs{'', '.index', '.data-00000-of-00001'} do os.remove(path .. ending) end
            return t.step

df.export_graph_def(path, {…})
  Writes a graph as TensorFlow's GraphDef: binary, text where path ends in .pbtxt, a MetaGraphDef
  where it ends in .meta. Its operation `init` gives variables their initial values.
  option    outputs: Output or table = nil  only what leads to these; the whole graph otherwise
  option    with_context: bool = false  writes path .. '.meta' too, with loops and conds, so
              that tf.gradients goes through them, and the collections of variables
  option    graph: Graph = nil  the default graph otherwise
  option    session: Session = nil  `init` gives variables the values that they have in it
  option    frozen: bool = false  variables are constants, with their values in the session; what
              changes them is left out
  option    clear_devices: bool = false  where nodes were asked to run is not written, which is
              else in `device`, and in `_class` for those that are to be with another one
  example   local path = os.tmpname()
            df.export_graph_def(path, {outputs = {df.float32(2) * 3}})
            return
            os.remove(path)

df.import_onnx(path or bytes, {…})
  An ONNX model as a Graph: its inputs are placeholders, and they and its outputs are found under
  their names, g:output('x'). g.onnx.inputs and g.onnx.outputs list them. Loop, If and Scan become
  while_loops and conds, so gradients go through them.
  option    into: Graph = nil  the graph it is put into; a new one otherwise
  option    prefix: string = nil  names begin with prefix/
  example   local path = os.tmpname()
            df.export_onnx(path, {outputs = {y = df.placeholder('float32', {}, 'x') * 2}})
            local g = df.import_onnx(path)
            os.remove(path)
            return df.run(g:output('y'), {[g:output('x')] = 4})

df.import_hlo(path or bytes, {…})
  A module of XLA's HLO as a Graph: what JAX gives of a function,
  jax.jit(f).lower(x).compiler_ir('hlo').as_serialized_hlo_module_proto(), plain or gzip.
  g.inputs and g.outputs are lists of Outputs, in order, the parts of a tuple one by one. while,
  conditional and call become loops, conds and nodes, so gradients go through them.
  option    into: Graph = nil  the graph it is put into; a new one otherwise
  option    prefix: string = nil  names of inputs begin with prefix/
  example   local hex = '1a3112121209706172616d657465721a02100b980201121712086d756c74'
            hex = hex .. '69706c791a02100b980202a00201a00201280130023001'
            local g = df.import_hlo((hex:gsub('..', function(h) return string.char(tonumber(h, 16)) end)))
            return df.run(g.outputs[1], {[g.inputs[1]] = 4})

df.export_onnx(path, {…})
  Writes what leads to the outputs as an ONNX model. Variables become initializers with their
  values in the session. A cond becomes an If, a while_loop a Loop; a TensorArray becomes a scan
  output where a loop writes it in order and it is only read afterwards, else a sequence. df.print
  hands on its value, df.assert is left out. What has no counterpart (random ops, assignments,
  queues, complex numbers, …) is one error that lists the ops with their Lua lines.
  option    outputs: Output, list or table  what the model gives; {name = Output} names them
  option    inputs: list or table = nil  what it is fed; all placeholders that are needed
              otherwise, in the order they were built
  option    opset: int = 17  from 16 to 21
  option    session: Session = nil  whose variables are written
  example   local x, path = df.placeholder('float32', {3}, 'x'), os.tmpname()
            df.export_onnx(path, {outputs = {y = x * 2}})
            return
            os.remove(path)

-- ---- runs --------------------------------------------------------------------------------------

df.run(fetches, feeds?, {…})
  Runs what the fetches need and gives their values in the structure of fetches. feeds is {[x] =
  value, …}.
@run
  example   local p = df.placeholder('float32')
            return df.run({p + 1, double = p * 2}, {[p] = 3})

df.start(fetches, feeds?, {…})
  The same in the background: a Run, with h:wait(), h:pause(), h:step(), h:frames() and what else
  ?Run lists.
@run
  example   local h = df.start(df.float32(2) * 3) return h:wait()

df.Session({…})
  A session of its own, with its own values of the variables; ?Session tells what it can do.
  option    graph: Graph = nil  the default graph otherwise
  option    tensors: bool = false  results of rank 0 are Tensors, too, in all its runs
  option    threads: int = nil  as many as the machine has cores otherwise
  option    engine: string = 'auto'  'tokens': every node by tagged tokens; 'native': loops of
              numbers and small tensors as machine code from their first iteration on; 'auto': once
              they have become hot, compiled meanwhile. The results are the same, bit for bit;
              'primitives': as tokens, and every node of the graph fires on its own: each
              Merge, LoopCond, Switch, constant and Identity
  option    timeout: number = nil  seconds that a run may take
  option    devices: list = nil  such as {'cpu:0', 'sim:0', {'sim:1', memory = '64MB', bandwidth =
              '1GB/s', latency = '5us', speed = 2}}; the first takes what asks for no device,
              unless it takes less time beside what it needs or on a faster one, by the shapes that are
              known, or by what it took in a run that was recorded or logged.
              speed = 'measured': as fast as this machine's kernels are, and what is chosen by costs
              goes by the clock; df.devices() says what was measured. To try
              what happens then, in each run: fail_at = n, the device is dead at its n-th kernel;
              link_fail_at = n, link_stall_at = n: the n-th message to or from it is lost, or never
              comes. The run ends with `unavailable`
  option    owners: int = 1  how many threads turn the partitions of a run: each has devices of its own
              and their frames, iterations and tokens, and sends the others messages. One turns any
              number of devices, and is fastest where messages are many and kernels small. To be looked
              at, stepped or stopped at a breakpoint they stand still together, with messages where
              they are. A run by the virtual clock, with a GPU or with values to be computed again has
              its books kept by one, which s:placement says, and the others compute the large
              kernels of the simulated devices. A graph function belongs to who calls it. The results
              do not depend on it
  option    clock: string = 'real'  'virtual': a clock of the simulated devices, by a cost model of
              flops and bytes: stats().seconds is what such hardware would take
  option    soft_placement: bool = false  true: what cannot run where it was asked to runs elsewhere
  option    memory: int or string = nil  a limit for 'cpu:0' while runs go on, such as '512MB'
  option    plan_cache: int or string = '64MB'  what plans of signatures that ran may take, with the
              states of their runs; past it those go that were not used for longest (never the last 8)
  option    save: string = 'keep'  for loops that say nothing, what becomes of values that a gradient
              needs: 'keep'; 'swap': to the host when their device is half full; 'recompute': let go
              and computed again, from about sqrt(2n) iterations that are kept; 'auto': kept while they
              fit, then swapped or computed again, whatever costs less. The results are the same bits;
              stats().saved says what became of each value, and why
  option    simplify: bool = true  false: a run computes the graph as it is written. By default nodes that
              compute the same are computed once, constants are computed when the plan is made, and x * 1,
              casts, transposes and reshapes that cancel are left out, wherever each value has the same
              bits without them. s:placement and :explain y name what was left out;
              a run that is started paused, logged or with its values kept is that of the graph as it is written
  option    kernels: string = nil  'ref': the reference kernels, to compare with
  example   local s = df.Session{threads = 1} return s:run(df.float32(2) * 3)

df.default_session()
  The session of df.run and x:eval for the default graph; made when it is first needed.
  example   df.type(df.default_session())

df.stats()
  Counters of the default session since it began: runs, nodes_run, dead_tokens, frames,
  iterations, stack_pushes, stack_pops, memory = {[device] = {in_use, peak, limit}}, swap, seconds,
  transfers = {['cpu:0 -> sim:0'] = {messages, bytes, dead}}, plans = {made, kept, bytes, limit},
  A session's peak is the most in use while its runs went on, a run's (h:stats()) while that run
  did; swap.stall_seconds is the time of the run in which a read waited for the host.
  owners = {{nodes_run}, …}: what each of a Session's owners turned; owners.why: why one turned the last run.
  Where a Session's save says more than 'keep': saved = {{value, line, save, why, tensors, bytes,
  swapped, recomputed}, …} and iterations_again, those that ran a second time. Where a GPU ran
  loops: graph_captures, graph_entries (without one), graph_launches, graph_iterations, and of loops
  that are one kernel persistent_launches, persistent_iterations.
  example   df.run(df.float32(2) * 3) return df.stats().runs

df.init()
  Sets the variables of the default session back: the next run that needs them initialises them.
  example   local v = df.Variable(1.0) df.run(v:assign(5)) df.init() return df.run(v)

df.reset_peak_memory()
  The peaks in stats().memory of all sessions, runs and devices begin anew, from what is in use now.
  example   df.reset_peak_memory()
            local m = df.stats().memory['cpu:0']
            return m.peak == m.in_use

-- ---- made of ops -------------------------------------------------------------------------------

df.boolean_mask(x, mask, {axis = 0})
  The elements of x along its axes from `axis` on where mask is true, one after the other; mask has their dimensions.
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

df.eye(n, m?, {…})
  Ones on the diagonal of an n by m matrix, zeros elsewhere; m is n unless given.
  option    dtype: string = 'float32'  of the matrix
@name
  gradient  none: it has no inputs
  example   df.eye(2, 3)

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

df.tensordot(a, b, axes)
  The sum of products over the last `axes` axes of a and the first of b, or over {axes of a, axes
  of b}.
  gradient  that of the einsum it is
  example   df.tensordot(df.float32{{1, 2}}, df.float32{{3}, {4}}, 1)

df.norm(x, axis?, keep_dims?)
  The square root of the sum of squares along the axes, all of them by default.
  gradient  x: dy * x / norm(x)
  example   df.norm{3.0, 4.0}

df.moments(x, axes, {…})
  Mean and variance along the axes.
  option    keep_dims: bool = false  the axes stay, as ones
@name
  gradient  that of the means it is made of
  example   df.moments({1.0, 2.0, 3.0}, {0})

df.reduce_variance(x, axis?, keep_dims?)
  The mean square of what lies between the elements and their mean along the axes, all of them by default: of all that there is, not of
  a sample.
@name
  gradient  that of the means it is made of
  example   df.reduce_variance{1.0, 2.0, 6.0}

df.reduce_std(x, axis?, keep_dims?)
  The square root of the variance along the axes, all of them by default.
@name
  gradient  that of the means it is made of; NaN where all elements are equal
  example   df.reduce_std({{1.0, 2.0}, {3.0, 7.0}}, 1)

df.count_nonzero(x, axis?, keep_dims?, {dtype = 'int64'})
  How many elements along the axes, all of them by default, are not zero, true, or no empty strings.
  gradient  none: integers have no derivative
  example   df.count_nonzero({{0, 3, 0}, {1, 2, 0}}, 1)

df.zero_fraction(x)
  Which part of the elements is zero, as a float32; NaN of nothing.
  gradient  none: bools have no derivative
  example   df.zero_fraction({0.0, 2.0, 0.0, 0.0})

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

df.meshgrid(x, y, …, {…})
  Each of the vectors, repeated along the dimensions of the others: as many results as vectors.
  option    indexing: string = 'xy'  the first vector goes along the columns; 'ij': along the rows
@name
  gradient  that of the ops it is made of
  example   df.meshgrid({1, 2, 3}, {4, 5})

df.unravel_index(indices, dims)
  [rank, …]: where elements that are counted row by row lie in an array of these dimensions.
  gradient  none: indices have no derivative
  example   df.unravel_index({22, 41, 37}, {7, 6})

df.batch_gather(params, indices)
  df.gather along the last dimension of indices, in which those before it go together.
  gradient  params: dy, added up where it came from
  example   df.batch_gather({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}, {{2, 0}, {1, 1}})

df.confusion_matrix(labels, predictions, num_classes?, {…})
  [classes, classes]: how often each label, a row, was taken for each prediction, a column. The
  classes are counted unless their number is given; a label beyond it stops the run.
  option    dtype: string = 'int32'  of the counts
  option    weights: number = nil  of each label
@name
  gradient  weights: dy where each was added
  example   df.confusion_matrix({1, 2, 2}, {2, 2, 1}, 3)

df.histogram_fixed_width_bins(values, value_range, nbins?, {…})
  In which of nbins (100) equal parts of the range {low, high} each value falls; those beyond it in
  the first or the last.
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

df.random_crop(value, size, {…})
  A part of this size, from a place that is drawn anew in each run. A value that is smaller stops
  it.
@seed
@name
  gradient  value: dy, where the part was
  example   df.random_crop({{1, 2, 3}, {4, 5, 6}}, {1, 2}, {seed = 3})

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

df.clip_by_average_norm(x, clip_norm)
  x, made smaller where its norm divided by the number of its elements is more than clip_norm.
  gradient  that of the ops it is made of
  example   df.clip_by_average_norm({3.0, 4.0}, 1.0)

df.to_complex64(x)
  df.cast(x, 'complex64').
  gradient  that of df.cast
  example   df.to_complex64{1.0}

df.to_complex128(x)
  df.cast(x, 'complex128').
  gradient  that of df.cast
  example   df.to_complex128{1.0}

df.weighted_cross_entropy_with_logits(labels, logits, pos_weight)
  The cross entropy of sigmoid(logits), in which positive examples count pos_weight times.
  gradient  that of the ops it is made of
  example   df.weighted_cross_entropy_with_logits({1.0, 0.0}, {1.5, -2.0}, 2.0)

df.log_poisson_loss(targets, log_input, compute_full_loss?)
  exp(log_input) - log_input * targets; with compute_full_loss also Stirling's approximation of the
  logarithm of the targets' factorials.
  gradient  that of the ops it is made of
  example   df.log_poisson_loss({0.0, 3.0}, {0.5, 2.0}, true)

df.sufficient_statistics(x, axes, shift?, keep_dims?)
  count, sum and sum of squares along the axes of x, less shift: what df.normalize_moments takes.
  gradient  that of the ops it is made of
  example   df.sufficient_statistics({{1.0, 2.0}, {3.0, 5.0}}, {0})

df.normalize_moments(counts, mean_ss, variance_ss, shift?)
  Mean and variance of what df.sufficient_statistics found.
  gradient  that of the ops it is made of
  example   df.normalize_moments(2.0, df.float32{4, 7}, df.float32{10, 29})

df.weighted_moments(x, axes, frequency_weights, keep_dims?)
  Mean and variance along the axes, each element as often as its weight says.
  gradient  that of the ops it is made of
  example   df.weighted_moments({{1.0, 2.0}, {3.0, 5.0}}, {0}, {{1.0}, {3.0}})

df.relu_layer(x, weights, biases)
  relu(x weights + biases).
  gradient  that of the ops it is made of
  example   df.relu_layer({{1.0, -2.0}}, {{1.0}, {1.0}}, {3.0})

df.embedding_lookup_sparse(tables, ids, weights?, {…})
  The rows that each example's ids name, as one row. ids, and weights, are {indices =, values =,
  dense_shape =}: row i of the indices says which example value i belongs to; the examples are in
  order.
  option    combiner: string = 'mean'  or 'sum', 'sqrtn': by the root of the sum of squared weights
  option    partition_strategy: string = 'mod'  as of df.embedding_lookup
@name
  gradient  tables: dy, sparse, weighted
  example   df.embedding_lookup_sparse({{1.0, 2.0}, {3.0, 4.0}}, {indices = {{0, 0}, {0, 1}, {1, 0}}, values = {0, 1, 1}, dense_shape = {2, 2}})

df.matrix_transpose(x)
  The last two dimensions exchanged.
  gradient  x: dy with its last two dimensions exchanged
  example   df.matrix_transpose{{1, 2}, {3, 4}}

df.adjoint(x)
  The last two dimensions exchanged, and conjugated where x is complex.
  gradient  x: the adjoint of dy
  example   df.adjoint{{1.0, 2.0}, {3.0, 4.0}}

df.trace(x)
  The sum of the diagonal of each matrix.
  gradient  x: dy along the diagonal
  example   df.trace{{1.0, 2.0}, {3.0, 4.0}}

df.matvec(a, b)
  A matrix, or a batch of them, times a vector each.
  gradient  that of df.matmul
  example   df.matvec({{1.0, 2.0}, {3.0, 4.0}}, {1.0, 1.0})

df.logdet(x)
  The logarithm of the determinant of a symmetric, positive matrix, by its Cholesky factor.
  gradient  that of df.cholesky
  example   df.logdet{{2.0, 1.0}, {1.0, 3.0}}

df.l2_normalize(x, axis, {…})
  x divided by its norm along the axis.
  option    epsilon: number = 1e-12  the least that the sum of squares counts for
@name
  gradient  that of the ops it is made of
  example   df.l2_normalize({3.0, 4.0}, 0)

df.clip_by_norm(x, clip_norm, axes?)
  x scaled down so that its norm is at most clip_norm.
  gradient  that of the ops it is made of
  example   df.clip_by_norm({3.0, 4.0}, 1)

df.global_norm(list)
  The square root of the sum of all squares of a list; false counts for nothing.
  gradient  that of the ops it is made of
  example   df.global_norm{df.float32{3}, df.float32{4}}

df.clip_by_global_norm(list, clip_norm, {…})
  The list scaled down so that its norm is at most clip_norm, and the norm it had.
  option    use_norm: Output = nil  the norm, where it is known already
@name
  gradient  that of the ops it is made of
  example   df.clip_by_global_norm({df.float32{3}, df.float32{4}}, 1)

df.dropout(x, rate, {…})
  Each element is zero with probability rate, the others are divided by 1 - rate.
  option    seed: int = nil  the same one gives the same zeros in the n-th run in which it draws
  option    noise_shape: shape = nil  where it is 1 elements share their fate
  option    keep_prob: number = nil  1 - rate, as TensorFlow 1 has it
@name
  gradient  x: dy in the places that were kept, divided by 1 - rate
  example   df.dropout(df.ones{4}, 0.5, {seed = 1})

df.log_sigmoid(x)
  log(sigmoid(x)), without underflow.
  gradient  x: dy * sigmoid(-x)
  example   df.log_sigmoid{-100.0, 0.0}

df.sigmoid_cross_entropy_with_logits(logits, labels)
  Elementwise cross entropy of labels between 0 and 1 and sigmoid(logits), without overflow. Both
  may be given by name.
  gradient  logits: dy * (sigmoid(logits) - labels)
  example   df.sigmoid_cross_entropy_with_logits{labels = {1.0, 0.0}, logits = {2.0, 2.0}}

-- ---- queues ------------------------------------------------------------------------------------

df.FIFOQueue(capacity, dtypes, {…})
  A queue of the session, first in, first out. One dtype per component; capacity -1: no bound. A
  full queue holds back who puts in, an empty one who takes out. ?Queue tells its methods.
@queue
  example   local q = df.FIFOQueue(10, {'int32', 'float32'})
            df.run(q:enqueue(1, 2.5))
            return df.run(q:size())

df.PaddingFIFOQueue(capacity, dtypes, {…})
  A FIFOQueue whose shapes may have -1: elements that differ there are filled up with zeros in a
  batch.
@queue
  example   local q = df.PaddingFIFOQueue(10, 'float32', {shapes = {-1}})
            df.run(q:enqueue{1})
            df.run(q:enqueue{2, 3})
            return q:dequeue_many(2):eval()

df.RandomShuffleQueue(capacity, dtypes, {…})
  A queue that gives its elements in random order.
@queue
  option    min_after_dequeue: int = 0  so many stay in it while it is open
  option    seed: int = nil  the same one gives the same order
  example   local q = df.RandomShuffleQueue(10, 'int32', {shapes = {}, seed = 1})
            df.run(q:enqueue_many{1, 2, 3})
            return q:dequeue_many(3):eval()

df.PriorityQueue(capacity, dtypes, {…})
  A queue whose elements begin with an int64 priority: q:enqueue(priority, v…). The smallest
  comes first, of equal ones the older.
@queue
  example   local q = df.PriorityQueue(10, 'string')
            df.run(q:enqueue(2, 'later'))
            df.run(q:enqueue(1, 'first'))
            return df.run((select(2, q:dequeue())))

df.HashTable(keys, values, default, {…})
  A table from whole numbers or strings to values, filled once: t:lookup(keys) gives their values, of
  the keys' shape, and the default where a key is not there; t:size(), t:export().
  option    shared_name: string = nil  tables of one name are one, in a session
@name
  example   local t = df.HashTable({'cat', 'dog'}, df.int32{1, 2}, df.int32(-1))
            return df.run(t:lookup{'dog', 'bat', 'cat'})

df.MutableHashTable(key_dtype, value_dtype, default, {…})
  A table whose entries come and go: besides t:lookup(keys), t:size() and t:export() it has
  t:insert(keys, values), t:remove(keys) and t:import(keys, values), which are operations.
  option    shape: list = {}  of a value
  option    shared_name: string = nil  tables of one name are one, in a session
@name
  example   local t = df.MutableHashTable('string', 'float32', 0)
            df.run(t:insert({'a', 'b'}, {1, 2}))
            df.run(t:remove{'a'})
            return df.run(t:lookup{'a', 'b'})

-- ---- parts -------------------------------------------------------------------------------------

df.nn
  Layers: df.nn.Dense, df.nn.Conv2D, df.nn.BatchNorm, df.nn.MultiHeadAttention and others are made
  once and called; l:parameters() lists their variables. Losses, samplers, metrics and initializers
  are here, and the ops of df, too: df.nn.relu is df.relu.
  example   df.nn.relu == df.relu

df.nn.dense(x, units, {…})
  activation(x W + b), and the list of its variables. x is [..., inputs], the result [..., units].
  option    activation: function = nil  such as df.relu
  option    use_bias: bool = true  whether there is a b
  option    name: string = 'dense'  what the names of the variables begin with
  option    seed: int = nil  of the first weights
  example   df.nn.dense(df.ones{2, 3}, 4).shape

df.nn.lstm_cell(units, {…})
  An LSTM: cell.step(x, state) gives h and the next state {c =, h =}; cell.zero_state(batch,
  dtype) the first; cell.variables its weights, made at the first step.
  option    forget_bias: number = 1  added to the forget gate
  option    name: string = 'lstm_cell'  what the names of the variables begin with
  option    seed: int = nil  of the first weights
  example   local cell = df.nn.lstm_cell(4)
            return cell.step(df.ones{2, 3}, cell.zero_state(2)).shape

df.nn.gru_cell(units, {…})
  A GRU, used as an lstm_cell; its state is h itself.
  option    name: string = 'gru_cell'  what the names of the variables begin with
  option    seed: int = nil  of the first weights
  example   local cell = df.nn.gru_cell(4)
            return cell.step(df.ones{2, 3}, cell.zero_state(2)).shape

df.nn.glorot_uniform(rows, columns, dtype?, seed?)
  Weights as Glorot and Bengio draw them: uniform within sqrt(6 / (rows + columns)).
  example   df.nn.glorot_uniform(2, 3, 'float32', 1).shape

]==]

M.macros = macros

--- By name: a page.
M.functions = {}
for _, part in ipairs{ text, (require 'dflow.docs.layers'), (require 'dflow.docs.recurrent'), (require 'dflow.docs.losses'), (require 'dflow.docs.metrics'),
                        (require 'dflow.docs.plots'), (require 'dflow.docs.images'), (require 'dflow.docs.signals'),
                        (require 'dflow.docs.windows') } do
  for _, page in ipairs(pages.read(part, macros)) do
    M.functions[page[1]:gsub('^df%.', ''):match('^[%w_.]+')] = page
  end
end

-- df.train and df.data have files of their own.
for _, part in ipairs{ 'dflow.docs.train', 'dflow.docs.data' } do
  for name, page in pairs(require(part)(macros)) do M.functions[name] = page end
end

return M
