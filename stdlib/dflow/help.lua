--- What `?name` says: of ops from the registry, of the functions made in Lua from the list below.
local core = require 'dflow.backend'
local registry = require 'dflow.registry'
local errors = require 'dflow.errors'
local dtypes = require 'dflow.dtypes'

local M = {}

--- Functions of df that are no ops: signature, what they do, an example.
local functions = {
  cond = { 'cond(pred, function() … end, function() … end, {name = })',
    'Runs one of two branches. Both return the same number of values, of the same dtypes; outer outputs may be used inside. '
    .. 'pred is a scalar bool.',
    'cond(x:gt(0), function() return x end, function() return -x end)' },
  while_loop = { "while_loop(pred, body, vars, {parallel_iterations = 32, save = 'keep', maximum_iterations = nil, "
    .. 'shape_invariants = nil, back_prop = true, name = nil})',
    'Repeats body while pred holds. Both are called once, with the loop variables, to build the graph of an iteration; the body '
    .. 'returns the next values. Gives the last ones. Loop variables are outputs, values, TensorArrays, and tables of these.',
    'while_loop(function(i, x) return i:lt(10) end, function(i, x) return i + 1, x * 2 end, {df.int32(0), df.float32(1)})' },
  TensorArray = { 'TensorArray(dtype, size, {dynamic_size = false, element_shape = nil, clear_after_read = false, name = nil})',
    'An array of tensors for loops: ta:write(i, v), ta:read(i), ta:stack(), ta:unstack(t), ta:gather(indices), '
    .. 'ta:scatter(indices, t), ta:concat(), ta:split(t, lengths), ta:size(). What changes it returns the next ta. '
    .. 'Each place is written once and read as often as one likes.',
    "TensorArray('float32', 3):write(0, 1):write(1, 2):write(2, 3):stack()" },
  gradients = { "gradients(ys, xs, {grad_ys = nil, stop_gradients = nil, unconnected = 'error'})",
    "The derivative of the sum of ys by each of xs, in the structure of xs. unconnected is 'error', 'zero' or 'none'. "
    .. 'Goes through cond, while_loop and TensorArray, and through gradients.',
    'gradients(x ^ 2, x)' },
  run = { 'df.run(fetches, feeds?, opts?)',
    'Runs what the fetches need and gives their values in the structure of fetches. feeds is {[x] = value, …}. '
    .. 'opts.timeout is in seconds.', 'df.run({x, y}, {[p] = 3})' },
  start = { 'df.start(fetches, feeds?, opts?)',
    'The same in the background: h:wait(), h:done(), h:cancel(), h:stats().', 'h = df.start(x) h:wait()' },
  Session = { "df.Session{graph =, threads = n, …}",
    'A session of its own: its own values of the variables, s:run(…), s:start(…), s:init(), s:stats(), s:close().',
    's = df.Session{threads = 1}' },
  stats = { 'df.stats()', 'Counters of the default session: runs, nodes_run, dead_tokens, frames, iterations, stack_pushes, '
    .. 'stack_pops, memory.', 'df.stats().iterations' },
  init = { 'df.init()', 'Sets the variables of the default session back: the next run that needs them initialises them.' },
  constant = { 'df.constant(v, dtype?, shape?)', 'A value in the graph. df.float32(v), df.int32(v) … are short for it.',
    "df.constant({1, 2}, 'float32')" },
  placeholder = { 'df.placeholder(dtype, shape?, name?)', 'A value that each run is fed.', "x = df.placeholder('float32', {-1, 3})" },
  placeholder_with_default = { 'df.placeholder_with_default(x, shape?)', 'A value that a run may be fed; otherwise it is x.' },
  tensor = { 'df.tensor(v, dtype?, shape?)', 'A Tensor on the host: t.dtype, t.shape, t.rank, t.size, t:totable(), t:item(), '
    .. 't:astype(d), t:reshape(s), t:at(i, j, …).', 'df.tensor{{1, 2}, {3, 4}}' },
  Variable = { 'df.Variable(init, {name =, trainable = true, dtype =})',
    'A value that stays from run to run; initialised by itself. v:assign(x), v:assign_add(x), v:assign_sub(x), v:value().',
    'v = df.Variable(0.0)' },
  FIFOQueue = { 'df.FIFOQueue(capacity, dtypes, {shapes =, name =, shared_name =})',
    'A queue of the session, first in, first out: q:enqueue(v…), q:enqueue_many(v…), q:dequeue(), q:dequeue_many(n), '
    .. 'q:dequeue_up_to(n), q:size(), q:close{cancel_pending =}, q:is_closed(). One dtype and shape per component; capacity -1: no '
    .. 'bound. A full queue holds back who puts in, an empty one who takes out.',
    "q = df.FIFOQueue(10, {'int32', 'float32'})" },
  PaddingFIFOQueue = { 'df.PaddingFIFOQueue(capacity, dtypes, {shapes =})',
    'A FIFOQueue whose shapes may have -1: elements that differ there are filled up with zeros in a batch.',
    "q = df.PaddingFIFOQueue(10, 'float32', {shapes = {-1}})" },
  RandomShuffleQueue = { 'df.RandomShuffleQueue(capacity, dtypes, {shapes =, min_after_dequeue = 0, seed =})',
    'A queue that gives its elements in random order; while it is open min_after_dequeue of them stay in it.',
    "q = df.RandomShuffleQueue(10, 'int32', {shapes = {}, min_after_dequeue = 2})" },
  PriorityQueue = { 'df.PriorityQueue(capacity, dtypes, {shapes =})',
    'A queue whose elements begin with an int64 priority: q:enqueue(priority, v…). The smallest comes first, of equal ones the older.',
    "q = df.PriorityQueue(10, 'string')" },
  map_fn = { 'df.map_fn(fn, elems, opts)', 'fn applied to each row of elems (or of several lists of rows), in a while_loop.',
    'df.map_fn(function(x) return x * x end, df.float32{1, 2, 3})' },
  foldl = { 'df.foldl(fn, elems, init?)', 'fn(acc, row) from the first row to the last.',
    'df.foldl(function(a, x) return a + x end, df.float32{1, 2, 3})' },
  foldr = { 'df.foldr(fn, elems, init?)', 'fn(acc, row) from the last row to the first.' },
  scan = { 'df.scan(fn, elems, init?, {reverse =})', 'As foldl, but keeps every intermediate value.',
    'df.scan(function(a, x) return a + x end, df.float32{1, 2, 3})' },
  case = { 'df.case{{p1, f1}, {p2, f2}, default = f}', 'Runs the function of the first predicate that holds.' },
  switch_case = { 'df.switch_case(i, {f0, f1, …}, default?)', 'Runs function number i.' },
  custom_gradient = { 'df.custom_gradient(fn)', 'fn(x…) returns y, function(dy…) return dx… end.' },
  checkpoint = { 'df.checkpoint(fn)', 'A function that computes what fn does, and recomputes it for the gradient.' },
  jacobian = { 'df.jacobian(y, x)', 'All derivatives of the elements of y by those of x.' },
  hessian = { 'df.hessian(y, x)', 'Second derivatives of a scalar y.' },
  jvp = { 'df.jvp(y, x, v)', 'The derivative of y along v.' },
  hvp = { 'df.hvp(y, x, v)', 'The Hessian of y times v.' },
  check_gradients = { 'df.check_gradients(y, xs, {order = 1, feeds = {…}})', 'Compares gradients with finite differences: true, or '
    .. 'false and a report.' },
  control_dependencies = { 'df.control_dependencies(list, fn)', 'What fn builds runs after all of list.' },
  name_scope = { 'df.name_scope(name, fn)', 'Names of what fn builds begin with name/.' },
  Graph = { 'df.Graph()', 'A graph of its own: g:as_default(fn), g:op(name), g:output(name).' },
  reset = { 'df.reset()', 'A new, empty default graph.' },
  set_random_seed = { 'df.set_random_seed(n)', 'The seed of the graph: the same numbers on any number of threads.' },
  unpack = { 'df.unpack(list)', 'table.unpack under Lua 5.4, unpack under LuaJIT.' },
  train = { 'df.train', 'Optimizers: df.train.SGD{…}, df.train.Momentum{…}, df.train.Adam{…}, each with :minimize(loss).' },
  data = { 'df.data', 'Readers: df.data.idx(path), gzip or not.' },
}

--- Text broken at words, each line with `indent` before it.
local function wrap(text, indent, width)
  local lines, line = {}, ''
  for word in text:gmatch('%S+') do
    if line ~= '' and #line + #word >= (width or 96) - #indent then
      lines[#lines + 1] = indent .. line
      line = word
    else
      line = line == '' and word or line .. ' ' .. word
    end
  end
  lines[#lines + 1] = indent .. line
  return table.concat(lines, '\n')
end

--- How ops are called whose function takes its arguments differently from the node.
local calls = {
  concat = 'df.concat({values, …}, axis)', dynamic_partition = 'df.dynamic_partition(data, partitions, num_partitions)',
  expand_dims = 'df.expand_dims(x, axis)', fill = 'df.fill(shape, value)',
  gather = 'df.gather(x, indices, {axis = 0, batch_dims = 0})', linspace = 'df.linspace(start, stop, num)',
  one_hot = 'df.one_hot(indices, depth, {on_value = 1, off_value = 0, axis = -1, dtype =})',
  pad = "df.pad(x, paddings, {mode = 'constant', constant_values = 0})", range = 'df.range(start = 0, limit, delta = 1)',
  reverse = 'df.reverse(x, axis)', reverse_sequence = 'df.reverse_sequence(x, lengths, {seq_dim =, batch_dim = 0})',
  split = 'df.split(x, parts or sizes, {axis = 0})', squeeze = 'df.squeeze(x, axis?)', stack = 'df.stack({values, …}, {axis = 0})',
  strided_slice = 'df.strided_slice(x, begin, end_, strides?, {begin_mask =, end_mask =, shrink_axis_mask =, …})',
  transpose = 'df.transpose(x, perm?)', unstack = 'df.unstack(x, {axis = 0, num =})', where = 'df.where(condition, x?, y?)',
}

local function signature(e)
  if calls[e.lua] then return calls[e.lua] end
  local words, options = {}, {}
  for _, a in ipairs(e.inputs) do words[#words + 1] = a.list and '{' .. a.name .. ', …}' or a.name end
  for _, a in ipairs(e.attrs) do options[#options + 1] = a.name .. (a.required and ' =' or ' = ' .. a.default) end
  if #options > 0 then words[#words + 1] = '{' .. table.concat(options, ', ') .. '}' end
  return ('df.%s(%s)'):format(e.lua, table.concat(words, ', '))
end

local function of_op(e)
  local lines = { wrap(signature(e), '') .. '    ' .. e.type, wrap(e.doc or '', '  ') }
  local types = e.info.types or ''
  if types ~= '' then types = '    (' .. types:gsub('=', ': '):gsub('|', ' ') .. ')' end
  lines[#lines + 1] = ('  inputs    %s%s'):format(e.info.inputs or 'none', types)
  lines[#lines + 1] = ('  outputs   %s'):format(e.info.outputs or 'none')
  lines[#lines + 1] = ('  gradient  %s'):format(e.gradient and 'yes' or 'no')
  if e.stateful then lines[#lines + 1] = '  stateful  yes' end
  if e.example and e.example ~= '' then lines[#lines + 1] = ('  example   %s'):format(e.example) end
  return table.concat(lines, '\n')
end

--- Every name that has help, sorted.
function M.names()
  local list, seen = registry.names(), {}
  for _, name in ipairs(list) do seen[name] = true end
  for name in pairs(functions) do
    if not seen[name] then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

--- The help of `name`: an op by its Lua name or its type, a function of df, a dtype. nil and a message when there is none.
function M.help(name)
  name = name:gsub('^df%.', '')
  local f = functions[name]
  if f then
    local lines = { wrap(f[1], ''), wrap(f[2], '  ') }
    if f[3] then lines[#lines + 1] = '  example   ' .. f[3] end
    return table.concat(lines, '\n')
  end
  local e = registry.entry(name)
  if e then
    if e.lua then return of_op(e) end
    return ('%s is an op that the runtime uses; no function builds it\n%s'):format(e.type, wrap(e.doc or '', '  '))
  end
  if dtypes.number[name] then
    return ("df.%s(v)\n  A constant of dtype %s, or x cast to it.\n  example   df.%s(3)"):format(name, name, name)
  end
  return nil, ("nothing is known of '%s'%s"):format(name, errors.hint(name, M.names()))
end

M.version = core.version

return M
