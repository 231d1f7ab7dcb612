--- df.func: graph functions, called like Lua functions.
--
-- The body is built when the function is first called in a graph, and stands in it once (once more where later calls
-- have arguments of other shapes, and once more where it calls itself, with the shapes of its results); each call is a
-- frame of it when it runs. So a function may call itself and others that are not built yet, as deep as the data say,
-- and its gradient is a function, too.
local core = require 'dflow.backend'
local tensor = require 'dflow.front.tensor'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local control = require 'dflow.front.control'
local registry = require 'dflow.front.registry'
local call_user = require 'dflow.front.call'

local M = {}
local Function = { __name = 'dflow.Function' }
local unpack = graph.unpack

local function dtype_list(list, what)
  if type(list) == 'string' then list = { list } end
  if not errors.is_data(list) then errors.bad('func: %s is a list of dtypes, not %s', what, errors.describe(list)) end
  local numbers = {}
  for i = 1, #list do numbers[i] = dtypes.of(list[i]) end
  return numbers
end

--- The results of a body as a list of Outputs of g and how the caller gets them back.
local function results_of(f, ret, g, wanted)
  local like, leaves = {}, {}
  for i = 1, ret.n do
    if ret[i] == nil then
      errors.bad('the function %s returns nil as result %d; return a value, or nothing at all', f.name, i)
    end
    like[i] = nest.map(ret[i], nest.is_structure, function(v)
      local k = #leaves + 1
      local o, kind = control.branch_value(g, v, wanted and wanted[k] or nil, 'result ' .. k .. ' of the function '
                                           .. f.name)
      if kind == 'array' then
        errors.bad('the function %s returns a TensorArray as result %d: stack it first', f.name, k)
      end
      leaves[k] = o
      return k
    end)
  end
  return like, leaves
end

--- What a call returns: a list of the node's first outputs in the body's structure.
local function pack_results(g, node, like, n)
  local outputs = {}
  for i = 1, n do outputs[i] = graph.output(g, node, i - 1) end
  if not like then return unpack(outputs, 1, n) end
  local values = {}
  for i = 1, #like do values[i] = nest.map(like[i], function() return true end, function(k) return outputs[k] end) end
  return unpack(values, 1, #like)
end

-- ---- bodies ---------------------------------------------------------------------------------------------------------
-- A function has a body for the shapes of the arguments it was first called with. A call with others, from outside or
-- in the body itself, makes one for whatever shapes all these calls have in common.

--- Does a tensor of shape `s` go where `wanted` is expected? nil is an unknown rank.
local function fits(s, wanted)
  if not wanted then return true end
  if not s or #s ~= #wanted then return false end
  for i = 1, #s do
    if wanted[i] >= 0 and wanted[i] ~= s[i] then return false end
  end
  return true
end

local function all_fit(shapes, wanted, n)
  for i = 1, n do
    if not fits(shapes[i] or nil, wanted[i] or nil) then return false end
  end
  return true
end

--- What holds for both lists of n shapes; false is an unknown rank.
local function common(a, b, n)
  local out = {}
  for i = 1, n do
    local s, t = a[i], b[i]
    if not s or not t or #s ~= #t then out[i] = false
    else
      local dims = {}
      for k = 1, #s do dims[k] = s[k] == t[k] and s[k] or -1 end
      out[i] = dims
    end
  end
  return out
end

-- all bodies made while one is built: {function, graph, body}; a body that is given up takes those with it
local building = {}
local again = {}          -- what is thrown to begin anew with wider shapes

local function forget(from)
  for i = #building, from, -1 do
    local b = building[i]
    local list = b.f.made[b.g]
    for k = #list, 1, -1 do
      if list[k] == b.made then table.remove(list, k) end
    end
    building[i] = nil
  end
end

--- The shapes that values merge from, where a result is what one of several branches gives: those that are known.
local function base_shapes(o, found, seen)
  local key = o.node .. ':' .. o.index
  if seen[key] then return found end
  seen[key] = true
  if o.shape then found[#found + 1] = o.shape
  elseif registry.primitive(o.op.type) == 'Merge' then
    for _, input in ipairs(o.op.inputs) do base_shapes(input, found, seen) end
  end
  return found
end

--- What a recursion may be taken to return: the shape that all results have which need none of its calls; nil where
-- there is none.
local function guess_shapes(leaves)
  local guess, any = {}, false
  for i, o in ipairs(leaves) do
    local found = not o.shape and base_shapes(o, {}, {}) or {}
    for k = 2, #found do found[1] = common({ found[1] }, { found[k] }, 1)[1] or nil end
    guess[i] = found[1] or false
    any = any or guess[i]
  end
  return any and guess or nil
end

--- Is each result of the shape that its calls of itself were taken to return?
local function is_kept(leaves, guess)
  for i, o in ipairs(leaves) do
    if guess[i] and not fits(o.shape, guess[i]) then return false end
  end
  return true
end

--- Builds a body in g; nothing of a failed one remains, so that the next call tries again. A body that calls itself is
-- built once more with the shapes that its results have without those calls; if they hold then, they hold for calls of
-- any depth.
-- @param guess  the shapes that calls of itself return; false: they are not known
local function build(f, g, shapes, guess)
  local made = { building = true, shapes = shapes, results = guess or nil }
  local from = #building + 1
  building[from] = { f = f, g = g, made = made }
  table.insert(f.made[g], made)
  local ok, e = pcall(control.guarded, g, function()
    g.may_last = true
    local number, args = core.function_begin(g.handle, f.name, f.args, f.returns, f.source)
    if f.batch then registry.op('FunctionBatched', {}) end
    made.number = number
    local inputs = {}
    for i, node in ipairs(args) do
      inputs[i] = graph.output(g, node, 0)
      local shape = shapes[i]
      if shape then core.output_set_shape(g.handle, node, 0, shape) end
    end
    local ret = call_user(f.fn, unpack(inputs, 1, #inputs))
    if ret.n == 1 and f.returns and #f.returns > 1 and nest.is_plain(ret[1]) and #ret[1] == #f.returns
    and not nest.has_names(ret[1]) then
      ret = { n = #f.returns, unpack(ret[1]) }
    end
    local like, leaves = results_of(f, ret, g, f.returns)
    if f.returns and #leaves ~= #f.returns then
      errors.bad('the function %s returns %d value%s, but `returns` says %d', f.name, #leaves, #leaves == 1 and ''
                 or 's', #f.returns)
    end
    if made.calls_itself and not f.result_shapes then
      if guess and not is_kept(leaves, guess) then made.guess = false
      elseif guess == nil then made.guess = guess_shapes(leaves) end
      if made.guess ~= nil then error(again, 0) end
    end
    local flat = {}
    for i, o in ipairs(leaves) do flat[2 * i - 1], flat[2 * i] = o.node, o.index end
    core.function_end(g.handle, flat)
    made.like, made.n = like, #leaves
  end)
  made.building = false
  if not ok then
    forget(from)
    if e ~= again or made.wider == nil and made.guess == nil then error(e, 0) end
    if made.wider then return build(f, g, made.wider) end
    return build(f, g, shapes, made.guess)
  end
  if from == 1 then building = {} end
  return made
end

--- The body for arguments of these shapes, found or built.
local function body_of(f, g, shapes)
  local n = #f.args
  local list = f.made[g]
  if not list then
    list = {}
    f.made[g] = list
  end
  for i = #list, 1, -1 do
    if all_fit(shapes, list[i].shapes, n) then return list[i] end
  end
  local last = list[#list]
  if not last then return build(f, g, shapes) end
  local wider = common(last.shapes, shapes, n)
  if last.building then
    last.wider = wider
    error(again, 0)
  end
  return build(f, g, wider)
end

Function.__call = function(f, ...)
  local n, args, name = select('#', ...), { ... }, nil
  if n == #f.args + 1 and nest.is_plain(args[n]) and nest.has_names(args[n]) then
    name = errors.options(args[n], f.name, { 'name' }).name
    n = n - 1
  end
  if n ~= #f.args then
    errors.bad('the function %s takes %d argument%s, %d were given', f.name, #f.args, #f.args == 1 and '' or 's', n)
  end
  local g
  for i = 1, n do g = g or convert.graph_of(args[i]) end
  g = g or graph.current()
  return graph.with(g, function()
    local flat, shapes = {}, {}
    for i = 1, n do
      local what = ('argument %d of the function %s'):format(i, f.name)
      local given = convert.typed(args[i])
      if given and given ~= f.args[i] then
        errors.bad("%s is %s, %s is expected: write %s", what, dtypes.name[given], dtypes.name[f.args[i]],
                   dtypes.conversion(given, f.args[i]))
      end
      local o = convert.to_output(args[i], f.args[i], g, what)
      if o.graph ~= g then errors.bad('%s belongs to another graph', what) end
      flat[2 * i - 1], flat[2 * i] = o.node, o.index
      shapes[i] = f.shapes and (f.shapes[i] or false) or not f.shapes and o.shape or false
    end
    local made = body_of(f, g, shapes)
    if made.building and not f.returns then
      errors.bad("the function %s calls itself before it is known what it returns: say so, as in df.func('%s', {...}, "
                 .. "fn, {returns = {'float32'}})",
                 f.name, f.name)
    end
    made.calls_itself = made.calls_itself or made.building
    local node = core.function_call(g.handle, made.number, flat, name, core.where())
    g.function_calls = g.function_calls or {}
    g.function_calls[node] = made.number
    local count = made.n or #f.returns
    if count == 0 then return graph.operation(g, node) end
    for i = 1, count do
      local shape = f.result_shapes and f.result_shapes[i] or made.results and made.results[i]
      if shape then core.output_set_shape(g.handle, node, i - 1, shape) end
    end
    return pack_results(g, node, made.like, count)
  end)
end

Function.__tostring = function(f)
  local list = {}
  for i, d in ipairs(f.args) do list[i] = dtypes.name[d] end
  return ('function %s(%s)%s'):format(f.name, table.concat(list, ', '), f.source and '  -- ' .. f.source or '')
end

local function shape_list(list, n, what)
  if list == nil then return nil end
  if not errors.is_data(list) then errors.bad('func: %s is a list of shapes, not %s', what, errors.describe(list)) end
  for i = 1, n do
    if list[i] ~= nil and list[i] ~= false and not errors.is_data(list[i]) then
      errors.bad('func: %s[%d] is a list of dimensions or false, not %s', what, i, errors.describe(list[i]))
    end
    if list[i] then tensor.check_static_shape(list[i], ('func: %s[%d]'):format(what, i)) end
  end
  return list
end

--- df.func(name, {dtypes}, fn, {returns = {dtypes}, shapes = {shapes}, result_shapes = {shapes}}): a graph function.
-- @param name     what its frames are called
-- @param list     the dtypes of its arguments
-- @param fn       gets the arguments as Outputs and returns the results; called for each graph at the first call there.
--                 What it uses of the outside (Outputs, Variables) is passed with every call
-- @param returns  the dtypes of its results: needed where it calls itself
-- @param shapes   shapes of its arguments, -1 for an unknown dimension and false for an unknown rank. Without them
--                 those of the first call hold, and fn is called again for what later calls have in common with it
-- @param result_shapes  shapes of its results, where a recursion does not show them: those that it returns without
--                       calling itself are tried first
-- @param batch    true: ready nodes of different calls are computed as one where their shapes are equal (products with
--                 one matrix as one product over all rows). Values are the same to the bit, but for the gradients of
--                 matrices, which may be one product over all calls
-- @return         what is called like a Lua function, with values, Tensors or Outputs, and returns Outputs. Each call
--                 runs in a frame of its own; calls may be 20000 deep. Its gradient is a function that is called in
--                 reverse, from values that each call has kept
function M.func(name, list, fn, opts)
  opts = errors.options(opts, 'func', { 'returns', 'shapes', 'result_shapes', 'batch' })
  if not errors.is_name(name) then
    errors.bad('func takes a name without spaces and colons first, not %s', errors.describe(name))
  end
  if type(fn) ~= 'function' then
    errors.bad('func takes a Lua function as its third argument, not %s', errors.describe(fn))
  end
  local args = dtype_list(list, 'the second argument')
  local returns = opts.returns ~= nil and dtype_list(opts.returns, 'returns') or nil
  return setmetatable({ name = name, args = args, fn = fn, returns = returns,
                        batch = errors.flag(opts.batch, 'func', 'batch'), source = (core.where()),
                        made = setmetatable({}, { __mode = 'k' }),
                        shapes = shape_list(opts.shapes, #args, 'shapes'),
                        result_shapes = shape_list(opts.result_shapes, returns and #returns or 0, 'result_shapes') },
                      Function)
end

return M
