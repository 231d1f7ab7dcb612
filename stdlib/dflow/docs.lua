--- What help knows that the registry does not: the functions made in Lua, methods, examples with all they need, which names belong
-- together, and Lua's own library. Data only; help.lua makes text of it.
local M = {}

--- Functions of df that are no ops: signature, what they do, an example that runs as it stands.
M.functions = {
  cond = { 'cond(pred, then_fn, else_fn, {name = nil})',
    'Runs one of two branches. Both return the same number of values, of the same dtypes; outer outputs may be used inside. '
    .. 'pred is a scalar bool. Only the branch that is taken runs.',
    'local x = df.float32(-3) return cond(x:gt(0), function() return x end, function() return -x end)' },
  while_loop = { "while_loop(pred, body, vars, {parallel_iterations = 32, save = 'keep', maximum_iterations = nil, "
    .. 'shape_invariants = nil, back_prop = true, name = nil})',
    'Repeats body while pred holds. Both are called once, with the loop variables, to build the graph of an iteration; the body '
    .. 'returns the next values. Gives the last ones. Loop variables are outputs, values, TensorArrays, and tables of these. '
    .. "save says what becomes of values that the gradient needs: 'keep', 'swap' or 'recompute'.",
    'while_loop(function(i, x) return i:lt(10) end, function(i, x) return i + 1, x * 2 end, {df.int32(0), df.float32(1)})' },
  TensorArray = { 'TensorArray(dtype, size, {dynamic_size = false, element_shape = nil, clear_after_read = false, name = nil})',
    'An array of tensors for loops: ta:write(i, v), ta:read(i), ta:stack(), ta:unstack(t), ta:gather(indices), '
    .. 'ta:scatter(indices, t), ta:concat(), ta:split(t, lengths), ta:size(). What changes it returns the next ta. '
    .. 'Each place is written once and read as often as one likes.',
    "TensorArray('float32', 3):write(0, 1):write(1, 2):write(2, 3):stack()" },
  gradients = { "gradients(ys, xs, {grad_ys = nil, stop_gradients = nil, unconnected = 'error'})",
    "The derivative of the sum of ys by each of xs, in the structure of xs. unconnected is 'error', 'zero' or 'none'. "
    .. 'Goes through cond, while_loop and TensorArray, and through gradients.',
    'local x = df.float32(3) return gradients(x ^ 2, x)' },
  run = { 'df.run(fetches, feeds?, {timeout = nil})',
    'Runs what the fetches need and gives their values in the structure of fetches. feeds is {[x] = value, …}. '
    .. 'timeout is in seconds.', "local p = df.placeholder('float32') return df.run({p + 1, double = p * 2}, {[p] = 3})" },
  start = { 'df.start(fetches, feeds?, {timeout = nil})',
    'The same in the background: h:wait(), h:done(), h:cancel(), h:stats().', 'local h = df.start(df.float32(2) * 3) return h:wait()' },
  Session = { 'df.Session({graph = nil, threads = nil, engine = \'auto\', timeout = nil, devices = nil})',
    'A session of its own: its own values of the variables, s:run(…), s:start(…), s:init(), s:stats(), s:close().',
    'local s = df.Session{threads = 1} return s:run(df.float32(2) * 3)' },
  stats = { 'df.stats()', 'Counters of the default session: runs, nodes_run, dead_tokens, frames, iterations, stack_pushes, '
    .. 'stack_pops, memory.', 'df.stats().iterations' },
  init = { 'df.init()', 'Sets the variables of the default session back: the next run that needs them initialises them.', 'df.init()' },
  constant = { 'df.constant(v, dtype?, shape?)', 'A value in the graph. df.float32(v), df.int32(v) … are short for it.',
    "df.constant({1, 2}, 'float32')" },
  placeholder = { 'df.placeholder(dtype, shape?, name?)', 'A value that each run is fed.', "df.placeholder('float32', {-1, 3})" },
  placeholder_with_default = { 'df.placeholder_with_default(x, shape?)', 'A value that a run may be fed; otherwise it is x.',
    'df.placeholder_with_default(df.float32(3))' },
  tensor = { 'df.tensor(v, dtype?, shape?)', 'A Tensor on the host: t.dtype, t.shape, t.rank, t.size, t:totable(), t:item(), '
    .. 't:astype(d), t:reshape(s), t:at(i, j, …).', 'df.tensor{{1, 2}, {3, 4}}' },
  Variable = { 'df.Variable(init, {name = nil, trainable = true, dtype = nil})',
    'A value that stays from run to run; initialised by itself. v:assign(x), v:assign_add(x), v:assign_sub(x), v:value().',
    'local v = df.Variable(1.0) return df.run(v:assign_add(2))' },
  map_fn = { 'df.map_fn(fn, elems, {parallel_iterations = 32, name = nil})',
    'fn applied to each row of elems (or of several lists of rows), in a while_loop.',
    'df.map_fn(function(x) return x * x end, df.float32{1, 2, 3})' },
  foldl = { 'df.foldl(fn, elems, init?)', 'fn(acc, row) from the first row to the last.',
    'df.foldl(function(a, x) return a + x end, df.float32{1, 2, 3})' },
  foldr = { 'df.foldr(fn, elems, init?)', 'fn(acc, row) from the last row to the first.',
    'df.foldr(function(a, x) return a - x end, df.float32{1, 2, 3})' },
  scan = { 'df.scan(fn, elems, init?, {reverse = false})', 'As foldl, but keeps every intermediate value.',
    'df.scan(function(a, x) return a + x end, df.float32{1, 2, 3})' },
  case = { 'df.case({{p1, f1}, {p2, f2}, default = f})', 'Runs the function of the first predicate that holds.',
    'local x = df.float32(3) return df.case{{x:lt(0), function() return -x end}, default = function() return x end}' },
  switch_case = { 'df.switch_case(i, {f0, f1, …}, default?)', 'Runs function number i.',
    'df.switch_case(df.int32(1), {function() return df.float32(10) end, function() return df.float32(20) end})' },
  custom_gradient = { 'df.custom_gradient(fn)', 'fn(x…) returns y, function(dy…) return dx… end.',
    'local f = df.custom_gradient(function(x) return x * x, function(dy) return dy end end) '
    .. 'local x = df.float32(3) return gradients(f(x), x)' },
  checkpoint = { 'df.checkpoint(fn)', 'A function that computes what fn does, and recomputes it for the gradient.',
    'local f = df.checkpoint(function(x) return x:exp():tanh() end) local x = df.float32(1) return gradients(f(x), x)' },
  saved = { 'df.saved(y, xs?)', 'What the gradients built so far save of the loops and conds that y depends on, per loop: its values with '
    .. 'their lines, bytes of a trip and for whose gradient, and what is carried, kept or computed again. tostring makes a page of it. '
    .. 'xs: builds the gradient of y by these first.',
    'local x = df.placeholder(\'float32\', {}) local y = while_loop(function(u) return u:lt(9) end, function(u) return df.exp(u) * x end, {x}) '
    .. 'return df.saved(y)' },
  export_onnx = { 'df.export_onnx(path, {outputs =, inputs = nil, opset = 17, session = nil})',
    'Writes what leads to the outputs as an ONNX model. outputs is an Output, a list or {name = Output}; inputs likewise are what the model '
    .. 'is fed: without it all placeholders that are needed, in the order they were built. Variables become initializers with their values in the '
    .. 'session. A cond becomes an If, a while_loop a Loop; a TensorArray becomes a scan output where a loop writes it in order and it is only '
    .. 'read afterwards, else a sequence. df.print hands on its value, df.assert is left out. What has no counterpart (random ops, '
    .. 'assignments, queues, complex numbers, …) is one error that lists the ops with their Lua lines. opset: 16 to 21.',
    "local x, path = df.placeholder('float32', {3}, 'x'), os.tmpname() df.export_onnx(path, {outputs = {y = x * 2}}) os.remove(path)" },
  jacobian = { 'df.jacobian(y, x)', 'All derivatives of the elements of y by those of x.',
    'local x = df.float32{1, 2} return df.jacobian(x * x, x)' },
  hessian = { 'df.hessian(y, x)', 'Second derivatives of a scalar y.',
    'local x = df.float32{1, 2} return df.hessian((x ^ 3):reduce_sum(), x)' },
  jvp = { 'df.jvp(y, x, v)', 'The derivative of y along v.',
    'local x = df.float32{1, 2} return df.jvp(x * x, x, df.float32{1, 0})' },
  hvp = { 'df.hvp(y, x, v)', 'The Hessian of y times v.',
    'local x = df.float32{1, 2} return df.hvp((x ^ 3):reduce_sum(), x, df.float32{1, 0})' },
  check_gradients = { 'df.check_gradients(y, xs, {order = 1, feeds = {…}})', 'Compares gradients with finite differences: true, or '
    .. 'false and a report.', 'local x = df.float64(2) return df.check_gradients(x:sin(), x)' },
  control_dependencies = { 'df.control_dependencies(list, fn)', 'What fn builds runs after all of list.',
    'local v = df.Variable(1.0) return df.run(df.control_dependencies({v:assign_add(1)}, function() return v:value() end))' },
  name_scope = { 'df.name_scope(name, fn)', 'Names of what fn builds begin with name/.',
    "df.name_scope('layer', function() return df.float32(1) end).name" },
  device = { 'df.device(spec, fn)', 'What fn builds is to be placed there.', "df.device('cpu:0', function() return df.float32(1) end)" },
  Graph = { 'df.Graph()', 'A graph of its own: g:as_default(fn), g:op(name), g:output(name).',
    'local g = df.Graph() return g:as_default(function() return df.float32(2) * 3 end)' },
  reset = { 'df.reset()', 'A new, empty default graph.', 'df.reset()' },
  reset_peak_memory = { 'df.reset_peak_memory()', 'The peak in df.stats().memory begins anew, from what is in use now.', 'df.reset_peak_memory()' },
  set_random_seed = { 'df.set_random_seed(n)', 'The seed of the graph: the same numbers on any number of threads.', 'df.set_random_seed(1)' },
  unpack = { 'df.unpack(list)', 'table.unpack under Lua 5.4, unpack under LuaJIT.', 'df.unpack{1, 2}' },
  train = { 'df.train', 'Optimizers: df.train.SGD{…}, df.train.Momentum{…}, df.train.Adam{…}, each with :minimize(loss).',
    'local w = df.Variable(5.0) local step = df.train.SGD{learning_rate = 0.1}:minimize(w * w) df.run(step) return df.run(w)' },
  FIFOQueue = { 'df.FIFOQueue(capacity, dtypes, {shapes = nil, name = nil, shared_name = nil})',
    'A queue of the session, first in, first out: q:enqueue(v…), q:enqueue_many(v…), q:dequeue(), q:dequeue_many(n), '
    .. 'q:dequeue_up_to(n), q:size(), q:close{cancel_pending =}, q:is_closed(). One dtype and shape per component; capacity -1: no '
    .. 'bound. A full queue holds back who puts in, an empty one who takes out.',
    "local q = df.FIFOQueue(10, {'int32', 'float32'}) df.run(q:enqueue(1, 2.5)) return df.run(q:size())" },
  PaddingFIFOQueue = { 'df.PaddingFIFOQueue(capacity, dtypes, {shapes = nil})',
    'A FIFOQueue whose shapes may have -1: elements that differ there are filled up with zeros in a batch.',
    "df.PaddingFIFOQueue(10, 'float32', {shapes = {-1}})" },
  RandomShuffleQueue = { 'df.RandomShuffleQueue(capacity, dtypes, {shapes = nil, min_after_dequeue = 0, seed = nil})',
    'A queue that gives its elements in random order; while it is open min_after_dequeue of them stay in it.',
    "df.RandomShuffleQueue(10, 'int32', {shapes = {}, min_after_dequeue = 2})" },
  PriorityQueue = { 'df.PriorityQueue(capacity, dtypes, {shapes = nil})',
    'A queue whose elements begin with an int64 priority: q:enqueue(priority, v…). The smallest comes first, of equal ones the older.',
    "df.PriorityQueue(10, 'string')" },
  data = { 'df.data', 'Readers: df.data.idx(path), gzip or not.',
    'df.data.idx' },
}

--- Examples of ops that need something to work on; they stand for the short ones of the registry.
M.examples = {
  assert = "local x = df.float32(3) return df.run(df.assert(x:ge(0), {x}, {message = 'x is negative'}))",
  broadcast_to = 'df.broadcast_to(df.float32{1, 2, 3}, {4, 3})',
  check_numerics = "df.check_numerics(df.float32{1, 2}, {message = 'the loss'})",
  concat = 'df.concat({df.float32{1, 2}, df.float32{3}}, 0)',
  dynamic_partition = 'df.unpack(df.dynamic_partition(df.float32{1, 2, 3}, df.int32{0, 1, 0}, 2))',
  dynamic_stitch = 'df.dynamic_stitch({df.int32{0, 2}, df.int32{1}}, {df.float32{1, 3}, df.float32{2}})',
  einsum = "df.einsum('ij,jk->ik', df.float32{{1, 2}}, df.float32{{3}, {4}})",
  expand_dims = 'df.expand_dims(df.float32{1, 2}, 0)',
  gather = 'df.gather(df.float32{{1, 2}, {3, 4}, {5, 6}}, df.int32{2, 0})',
  gather_nd = 'df.gather_nd(df.float32{{1, 2}, {3, 4}, {5, 6}}, {{0, 1}, {2, 0}})',
  ensure_shape = 'df.ensure_shape(df.float32{{1, 2}}, {shape = {-1, 2}})',
  identity_n = 'df.unpack(df.identity_n{df.float32(1), df.int32(2)})',
  no_op = 'df.run(df.no_op())',
  shape_n = 'df.unpack(df.shape_n{df.float32{1, 2}, df.float32(3)})',
  string_format = "df.string_format({df.float32{1, 2}}, {template = 'x is {}', placeholder = '{}'})",
  identity = 'df.identity(df.float32{1, 2})',
  mirror_pad = "df.pad(df.float32{{1, 2, 3}, {4, 5, 6}}, {{1, 1}, {0, 2}}, {mode = 'reflect'})",
  matrix_set_diag = 'df.matrix_set_diag(df.float32{{1, 2}, {3, 4}}, df.float32{0, 0})',
  matrix_band_part = 'df.matrix_band_part(df.float32{{1, 2}, {3, 4}}, 0, -1)',
  one_hot = 'df.one_hot(df.int32{1, 0, 2}, 3)',
  ones_like = 'df.ones_like(df.float32{1, 2})',
  zeros_like = 'df.zeros_like(df.float32{1, 2})',
  pad = 'df.pad(df.float32{{1, 2, 3}}, {{1, 1}, {0, 2}})',
  pad_v2 = 'df.pad(df.float32{{1, 2, 3}}, {{1, 1}, {0, 2}}, {constant_values = -1})',
  print = "df.run(df.print(df.float32{1, 2}, {message = 'x = '}))",
  rank = 'df.rank(df.float32{1, 2})',
  size = 'df.size(df.float32{1, 2})',
  reshape = 'df.reshape(df.float32{1, 2, 3, 4}, {-1, 2})',
  reverse = 'df.reverse(df.float32{1, 2, 3}, {0})',
  reverse_sequence = 'df.reverse_sequence(df.float32{{1, 2, 3}, {4, 5, 6}}, df.int32{2, 3}, {seq_dim = 1, batch_dim = 0})',
  roll = 'df.roll(df.float32{1, 2, 3}, df.int32(1), df.int32(0))',
  slice = 'df.slice(df.float32{{1, 2, 3}, {4, 5, 6}}, {0, 1}, {-1, 2})',
  strided_slice = 'df.strided_slice(df.float32{0, 1, 2, 3, 4, 5}, {0}, {5}, {2})',
  split = 'df.unpack(df.split(df.float32{{1, 2, 3}}, 3, {axis = 1}))',
  split_v = 'df.unpack(df.split(df.float32{1, 2, 3}, {2, -1}))',
  squeeze = 'df.squeeze(df.float32{{1, 2}}, 0)',
  stack = 'df.stack({df.float32{1, 2}, df.float32{3, 4}}, {axis = 1})',
  unstack = 'df.unpack(df.unstack(df.float32{{1, 2}, {3, 4}}, {axis = 1}))',
  batch_matmul = 'df.batch_matmul(df.float32{{{1, 2}}}, df.float32{{{3}, {4}}})',
  bias_add_grad = 'df.bias_add_grad(df.float32{{1, 2}, {3, 4}})',
  stop_gradient = 'df.stop_gradient(df.float32(3))',
  tensor_scatter_add = 'df.tensor_scatter_add(df.float32{1, 2, 3}, df.int32{{0}}, df.float32{10})',
  tensor_scatter_sub = 'df.tensor_scatter_sub(df.float32{1, 2, 3}, df.int32{{0}}, df.float32{10})',
  tensor_scatter_update = 'df.tensor_scatter_update(df.float32{1, 2, 3}, df.int32{{0}}, df.float32{10})',
  tile = 'df.tile(df.float32{{1, 2}}, {2, 1})',
  transpose = 'df.transpose(df.float32{{1, 2}, {3, 4}}, {1, 0})',
  where = 'df.where(df.float32{1, -2, 3}:gt(0))',
  broadcast_dynamic_shape = 'df.broadcast_dynamic_shape(df.int32{2, 1}, df.int32{3})',
  assign = 'local v = df.Variable{1.0, 2.0} return df.run(v:assign({3, 4}))',
  assign_add = 'local v = df.Variable(1.0) return df.run(v:assign_add(1))',
  assign_sub = 'local v = df.Variable(1.0) return df.run(v:assign_sub(1))',
  is_variable_initialized = 'local v = df.Variable(1.0) return df.run(df.is_variable_initialized(v))',
  softmax_cross_entropy_with_logits = 'df.softmax_cross_entropy_with_logits(df.float32{{1, 2}}, df.float32{{0, 1}})',
  sparse_softmax_cross_entropy_with_logits = 'df.sparse_softmax_cross_entropy_with_logits(df.float32{{1, 2}}, df.int32{1})',
  apply_gradient_descent = 'local w = df.Variable{1.0, 2.0} return df.run(df.apply_gradient_descent(w, 0.1, {1, 1}))',
  apply_momentum = 'local w, slot = df.Variable{1.0}, df.Variable{0.0} return df.run(df.apply_momentum(w, slot, 0.1, {1}, 0.9))',
  apply_adam = 'local w, m, v = df.Variable{1.0}, df.Variable{0.0}, df.Variable{0.0} '
    .. 'return df.run(df.apply_adam(w, m, v, 0.9, 0.999, 0.001, 0.9, 0.999, 1e-8, {1}))',
}
for _, how in ipairs{ 'add', 'sub', 'mul', 'div', 'min', 'max', 'update' } do
  M.examples['scatter_' .. how] = ('local v = df.Variable({{1, 2}, {3, 4}, {5, 6}}, {dtype = \'float32\'}) '
    .. 'return df.run(df.scatter_%s(v, {0, 2}, {{1, 1}, {2, 2}}))'):format(how)
end
M.examples.sparse_apply_gradient_descent =
  'local w = df.Variable{1.0, 2.0, 3.0} return df.run(df.sparse_apply_gradient_descent(w, 0.1, {1, 1}, {0, 2}))'
M.examples.sparse_apply_momentum = 'local w, slot = df.Variable{1.0, 2.0}, df.Variable{0.0, 0.0} '
  .. 'return df.run(df.sparse_apply_momentum(w, slot, 0.1, {1}, {0}, 0.9))'
M.examples.sparse_apply_adam = 'local w, m, v = df.Variable{1.0, 2.0}, df.Variable{0.0, 0.0}, df.Variable{0.0, 0.0} '
  .. 'return df.run(df.sparse_apply_adam(w, m, v, 0.9, 0.999, 0.001, 0.9, 0.999, 1e-8, {1}, {0}))'

--- Methods of things that are no Outputs: by name, then by df.type.
M.methods = {
  write = { tensor_array = 'ta:write(i, v)' }, read = { tensor_array = 'ta:read(i)' }, stack = { tensor_array = 'ta:stack()' },
  unstack = { tensor_array = 'ta:unstack(t)' }, gather = { tensor_array = 'ta:gather(indices)' },
  scatter = { tensor_array = 'ta:scatter(indices, t)' }, concat = { tensor_array = 'ta:concat()' },
  split = { tensor_array = 'ta:split(t, lengths)' }, size = { tensor_array = 'ta:size()', queue = 'q:size()' },
  grad = { tensor_array = 'ta:grad(source)' },
  totable = { tensor = 't:totable()' }, item = { tensor = 't:item()' }, astype = { tensor = 't:astype(dtype)' },
  reshape = { tensor = 't:reshape(shape)' }, at = { tensor = 't:at(i, j, ...)' }, rows = { tensor = 't:rows(list)' },
  assign = { variable = 'v:assign(x)' }, assign_add = { variable = 'v:assign_add(x)' }, assign_sub = { variable = 'v:assign_sub(x)' },
  value = { variable = 'v:value()' },
  eval = { output = 'x:eval(feeds?, {timeout = nil})', variable = 'v:eval(feeds?, {timeout = nil})' },
  run = { session = 's:run(fetches, feeds?, {timeout = nil})', operation = 'op:run(feeds?, {timeout = nil})' },
  start = { session = 's:start(fetches, feeds?, {timeout = nil})' },
  close = { session = 's:close()', queue = 'q:close({cancel_pending_enqueues = false})' },
  wait = { run = 'h:wait()' }, done = { run = 'h:done()' }, cancel = { run = 'h:cancel()' }, stats = { run = 'h:stats()', session = 's:stats()' },
  as_default = { graph = 'g:as_default(fn)', session = 's:as_default(fn)' }, op = { graph = 'g:op(name)' },
  output = { graph = 'g:output(name)' }, ops = { graph = 'g:ops()' },
  enqueue = { queue = 'q:enqueue(v, ...)' }, enqueue_many = { queue = 'q:enqueue_many(v, ...)' },
  dequeue = { queue = 'q:dequeue()' }, dequeue_many = { queue = 'q:dequeue_many(n)' },
}

--- Names that belong together: each line is one "see also".
M.families = {
  'add sub mul div floor_div floor_mod pow neg square add_n', 'less less_equal greater greater_equal equal not_equal where maximum minimum',
  'logical_and logical_or logical_not logical_xor', 'exp log log1p expm1 sqrt rsqrt', 'sin cos tan asin acos atan sinh cosh tanh',
  'floor ceil round rint trunc sign abs', 'matmul batch_matmul einsum tensordot transpose', 'reshape expand_dims squeeze transpose shape rank size',
  'concat stack unstack split', 'gather gather_nd slice strided_slice where boolean_mask', 'scatter_nd tensor_scatter_update tensor_scatter_add',
  'zeros ones fill zeros_like ones_like range linspace one_hot eye', 'pad mirror_pad tile broadcast_to roll reverse',
  'random_uniform random_normal truncated_normal set_random_seed', 'relu sigmoid tanh softplus softmax elu selu relu6',
  'softmax log_softmax softmax_cross_entropy_with_logits sparse_softmax_cross_entropy_with_logits sigmoid_cross_entropy_with_logits',
  'reduce_sum reduce_mean reduce_prod reduce_max reduce_min reduce_all reduce_any argmax cumsum', 'argmax argmin top_k unique',
  'segment_sum segment_mean unsorted_segment_sum', 'cast constant placeholder Variable', 'cond while_loop TensorArray gradients case switch_case',
  'map_fn scan foldl foldr while_loop', 'gradients jacobian hessian jvp hvp check_gradients custom_gradient checkpoint saved stop_gradient',
  'run start Session stats init', 'control_dependencies name_scope device Graph', 'FIFOQueue PaddingFIFOQueue RandomShuffleQueue PriorityQueue',
  'constant placeholder placeholder_with_default tensor Variable', 'assign assign_add assign_sub scatter_update scatter_add',
  'print assert check_numerics', 'export_onnx export_graph_def import_graph_def save_npz', 'conv2d max_pool avg_pool bias_add',
}

--- Lua's own library: signature and what it does.
M.lua = {
  print = { 'print(...)', 'writes its arguments' }, type = { 'type(v)', 'the name of its type' },
  tostring = { 'tostring(v)', 'v as text' }, tonumber = { 'tonumber(e, base?)', 'e as a number, or nil' },
  pairs = { 'pairs(t)', 'all pairs of a table' }, ipairs = { 'ipairs(t)', '1, t[1], 2, t[2], …' },
  next = { 'next(t, key?)', 'the next pair' }, select = { 'select(n, ...)', "arguments from n on; '#' counts them" },
  pcall = { 'pcall(f, ...)', 'calls f; false and the error when it fails' }, xpcall = { 'xpcall(f, handler, ...)', 'pcall with a handler' },
  error = { 'error(message, level?)', 'raises an error' }, assert = { 'assert(v, message?)', 'raises an error when v is false' },
  require = { 'require(name)', 'loads a module once' }, dofile = { 'dofile(path)', 'runs a file' },
  load = { "load(chunk, name?, mode?, env?)", 'compiles a chunk' }, loadfile = { 'loadfile(path, mode?, env?)', 'compiles a file' },
  setmetatable = { 'setmetatable(t, mt)', 'gives a table a metatable' }, getmetatable = { 'getmetatable(v)', 'its metatable' },
  rawget = { 'rawget(t, key)', 't[key] without __index' }, rawset = { 'rawset(t, key, v)', 't[key] = v without __newindex' },
  rawequal = { 'rawequal(a, b)', 'are they the same?' }, rawlen = { 'rawlen(v)', '#v without __len' },
  collectgarbage = { 'collectgarbage(option?, ...)', 'speaks to the collector' },
  ['string.format'] = { 'string.format(form, ...)', 'text from values' }, ['string.rep'] = { 'string.rep(s, n, sep?)', 's n times' },
  ['string.sub'] = { 'string.sub(s, i, j?)', 'bytes i to j' }, ['string.find'] = { 'string.find(s, pattern, init?, plain?)', 'first and last byte of a match' },
  ['string.match'] = { 'string.match(s, pattern, init?)', 'the captures of a match' },
  ['string.gmatch'] = { 'string.gmatch(s, pattern, init?)', 'all matches, for a for loop' },
  ['string.gsub'] = { 'string.gsub(s, pattern, repl, n?)', 's with matches replaced' }, ['string.byte'] = { 'string.byte(s, i?, j?)', 'codes of bytes' },
  ['string.char'] = { 'string.char(...)', 'a string of codes' }, ['string.len'] = { 'string.len(s)', 'bytes of s' },
  ['string.lower'] = { 'string.lower(s)', 'in lower case' }, ['string.upper'] = { 'string.upper(s)', 'in upper case' },
  ['string.reverse'] = { 'string.reverse(s)', 'backwards' },
  ['table.insert'] = { 'table.insert(list, pos?, v)', 'puts v in' }, ['table.remove'] = { 'table.remove(list, pos?)', 'takes one out' },
  ['table.concat'] = { 'table.concat(list, sep?, i?, j?)', 'joins strings' }, ['table.sort'] = { 'table.sort(list, less?)', 'sorts in place' },
  ['table.unpack'] = { 'table.unpack(list, i?, j?)', 'its elements' }, ['table.pack'] = { 'table.pack(...)', 'a list with n' },
  ['table.move'] = { 'table.move(a, first, last, to, b?)', 'copies elements' },
  ['math.floor'] = { 'math.floor(x)', 'rounded down' }, ['math.ceil'] = { 'math.ceil(x)', 'rounded up' }, ['math.max'] = { 'math.max(x, ...)', 'the largest' },
  ['math.min'] = { 'math.min(x, ...)', 'the smallest' }, ['math.abs'] = { 'math.abs(x)', 'without its sign' }, ['math.sqrt'] = { 'math.sqrt(x)', 'square root' },
  ['math.sin'] = { 'math.sin(x)', 'sine of radians' }, ['math.cos'] = { 'math.cos(x)', 'cosine of radians' }, ['math.exp'] = { 'math.exp(x)', 'e to the x' },
  ['math.log'] = { 'math.log(x, base?)', 'logarithm' }, ['math.random'] = { 'math.random(m?, n?)', 'a random number' },
  ['math.randomseed'] = { 'math.randomseed(x?)', 'seeds it' }, ['math.type'] = { 'math.type(x)', "'integer', 'float' or nil" },
  ['math.tointeger'] = { 'math.tointeger(x)', 'as an integer, or nil' }, ['math.fmod'] = { 'math.fmod(x, y)', 'remainder' },
  ['io.open'] = { 'io.open(path, mode?)', 'opens a file; nil and why when it cannot' }, ['io.lines'] = { 'io.lines(path?, ...)', 'its lines, for a for loop' },
  ['io.write'] = { 'io.write(...)', 'writes' }, ['io.read'] = { 'io.read(...)', 'reads standard input' },
  ['os.time'] = { 'os.time(t?)', 'seconds' }, ['os.clock'] = { 'os.clock()', 'processor seconds' }, ['os.date'] = { 'os.date(format?, time?)', 'as text' },
  ['os.getenv'] = { 'os.getenv(name)', 'an environment variable' }, ['os.execute'] = { 'os.execute(command?)', 'runs a command' },
  ['os.exit'] = { 'os.exit(code?, close?)', 'ends the program' }, ['os.remove'] = { 'os.remove(path)', 'removes a file' },
  ['os.rename'] = { 'os.rename(from, to)', 'renames a file' }, ['os.tmpname'] = { 'os.tmpname()', 'a name for a temporary file' },
  ['coroutine.create'] = { 'coroutine.create(f)', 'a coroutine' }, ['coroutine.wrap'] = { 'coroutine.wrap(f)', 'a function that resumes it' },
  ['coroutine.resume'] = { 'coroutine.resume(co, ...)', 'runs it on' }, ['coroutine.yield'] = { 'coroutine.yield(...)', 'hands over' },
}

return M
