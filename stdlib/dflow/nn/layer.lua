--- What every layer and cell has. A layer is a table that is called: `l(x, opts)`. Its variables are made at the first
-- call, when the sizes are known, and shared by all later ones; they live at the top level of the graph, wherever the
-- call is.
--
-- A class is made once with `layer.class`; `l.own` holds a layer's variables in the order they were made, `l.inner` the
-- layers inside it.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local listing = require 'dflow.front.listing'
local convert = require 'dflow.front.convert'
local variable_scope = require 'dflow.front.variable_scope'
local ops = require 'dflow.front.ops'
local initializers = require 'dflow.nn.initializers'

local M = {}
local Layer = { __name = 'dflow.Layer' }
M.Layer = Layer
local methods = {}
M.methods = methods

--- Names that are given out by themselves: graph -> name -> how often.
local given_names = setmetatable({}, { __mode = 'k' })

local function automatic_name(g, base)
  local counts = given_names[g]
  if not counts then
    counts = {}
    given_names[g] = counts
  end
  local n = counts[base] or 0
  counts[base] = n + 1
  return n == 0 and base or base .. '_' .. n
end

--- `DepthwiseConv2D` -> `depthwise_conv2d`
local function snake(kind)
  return (kind:gsub('(%l)(%u)', '%1_%2'):gsub('(%u)(%u%l)', '%1_%2'):lower())
end

Layer.__index = function(l, key)
  local class = rawget(l, 'class')
  local method = class.methods[key] or methods[key]
  if method then return method end
  if key == 'name' then return rawget(l, 'scope') or rawget(l, 'given_name') end
  local after = class.made[key]
  if after and not rawget(l, 'graph') then
    errors.raise('failed_precondition', "%s has no '%s' yet: its variables are made at its first call", l:title(), key)
  end
  if after or class.known[key] then return nil end
  local names = { 'parameters', 'variables', 'train', 'eval', 'name' }
  for name in pairs(class.made) do names[#names + 1] = name end
  for name in pairs(class.methods) do names[#names + 1] = name end
  if type(key) == 'string' then
    errors.bad("%s has no field or method '%s'%s", l:title(), key, errors.hint_of_others(key, names))
  end
end

--- A class of layers.
-- @param spec  {kind = 'Dense', made = {names of the fields that the first call makes}, known = {names of the other
--              fields}, options = {names of what a call's options may be}, build = function(l, x, …), call =
--              function(l, opts, x, …), inputs = how many values a call takes, text = function(l) -> what stands in the
--              parentheses, methods = {…}, cell = true: a call takes a value and a state, which may be a table with
--              names, and no options}
function M.class(spec)
  local class = { kind = spec.kind, build = spec.build, call = spec.call, text = spec.text, inputs = spec.inputs or 1,
                  options = spec.options or {}, methods = spec.methods or {}, made = {}, known = {}, cell = spec.cell
                  or false }
  errors.with_colons(class.methods, Layer, 'a layer', 'l')
  for _, name in ipairs(spec.made or {}) do class.made[name] = true end
  for _, name in ipairs(spec.known or {}) do class.known[name] = true end
  for _, name in ipairs{ 'given_name', 'scope', 'graph', 'own', 'inner', 'mode', 'dtype', 'in_shape', 'out_shape',
                         'full_name' } do
    class.known[name] = true
  end
  return class
end

--- A new layer of the class; `fields` becomes it.
function M.new(class, fields)
  fields.class, fields.own, fields.inner = class, {}, fields.inner or {}
  if fields.name ~= nil and (type(fields.name) ~= 'string' or fields.name == '') then
    errors.bad('%s: name is %s, a string is expected', class.kind, errors.describe(fields.name))
  end
  fields.given_name, fields.name = fields.name, nil
  return setmetatable(fields, Layer)
end

--- What a layer is called in messages: `Dense`, or `Dense 'encoder/dense'` once it has a name.
function methods.title(l)
  local name = rawget(l, 'scope') or rawget(l, 'given_name')
  return name and ("%s '%s'"):format(l.class.kind, name) or l.class.kind
end

--- Raises invalid_argument that names the layer.
function methods.bad(l, text, ...)
  errors.bad('%s: ' .. text, l:title(), ...)
end

-- ---- variables ----------------------------------------------------------------------------------------------------
--- Makes the variable l[field] of this shape.
-- @param initializer  what initializers.check gave
-- @param trainable    false: a running average or the like, which is no parameter
function methods.weight(l, field, shape, initializer, trainable)
  local dtype, title = l.dtype, ("%s: the initializer of '%s'"):format(l:title(), field)
  local v = variable_scope.named(l.graph, l.scope .. '/' .. field,
                                 function() return initializers.value(initializer, shape, dtype, title) end,
                                 shape, dtype, trainable ~= false)
  l.own[#l.own + 1] = v
  rawset(l, field, v)
  return v
end

local function collect(l, list, seen, trainable)
  if seen[l] then return end
  seen[l] = true
  if not rawget(l, 'graph') and next(l.class.made) then
    errors.raise('failed_precondition', '%s has no variables yet: they are made at its first call', l:title())
  end
  for _, v in ipairs(l.own) do
    if not seen[v] and (not trainable or v.trainable) then
      seen[v] = true
      list[#list + 1] = v
    end
  end
  for _, inner in ipairs(l.inner) do collect(inner, list, seen, trainable) end
end

--- l:parameters(): its trainable variables in order, those of layers inside, too.
function methods.parameters(l)
  local list = {}
  collect(l, list, {}, true)
  return listing.of(list)
end

--- l:variables(): all of them, running averages too.
function methods.variables(l)
  local list = {}
  collect(l, list, {}, false)
  return listing.of(list)
end

-- ---- modes ----------------------------------------------------------------------------------------------------------
local function set_mode(l, training)
  l.mode = training
  for _, inner in ipairs(l.inner) do set_mode(inner, training) end
  return l
end

--- l:train(), l:eval(): what `training` is in later calls that do not say; of the layers inside, too. Returns l.
function methods.train(l) return set_mode(l, true) end
function methods.eval(l) return set_mode(l, false) end

--- Is this call one of training? true, false, or a scalar bool Output.
function methods.training(l, opts)
  local t = opts.training
  if t == nil then return l.mode == true end
  if type(t) == 'boolean' then return t end
  if convert.typed(t) ~= dtypes.BOOL then
    l:bad('training is true, false or a scalar bool, not %s', errors.describe(t))
  end
  t = convert.to_output(t)
  if (graph.rank(t) or 0) ~= 0 then
    l:bad('training is %s, a scalar bool is expected', tensor.shape_text(t.dtype, t.shape))
  end
  return t
end

-- ---- calls ----------------------------------------------------------------------------------------------------------
--- x as a float Output of a rank from `low` to `high` (nil: any above), for the layer l.
-- @param layout  what the message says is expected: `[batch, height, width, channels]`
function methods.input(l, x, low, high, layout, what)
  what = what or 'its input'
  if x == nil then l:bad('%s is missing', what) end
  x = convert.to_output(x, convert.typed(x) or rawget(l, 'dtype') and dtypes.of(l.dtype) or dtypes.FLOAT32, nil,
                        l:title())
  if not dtypes.is_float(graph.dtype(x)) then
    l:bad("%s is %s, a float dtype is expected: cast it, as in df.cast(x, 'float32')", what, x.dtype)
  end
  local rank = graph.rank(x)
  if not rank then l:bad('the rank of %s must be known while building', what) end
  if rank < low or rank > (high or rank) then
    l:bad('%s is %s, %s is expected', what, tensor.shape_text(x.dtype, x.shape), layout)
  end
  return x
end

--- The size of an axis of x that must be known while building.
function methods.size_of(l, x, axis, what)
  local shape = x.shape
  local d = shape[axis < 0 and #shape + 1 + axis or axis + 1]
  if d < 0 then
    l:bad('axis %d of %s must be known while building: %s', axis, what or 'its input',
          tensor.shape_text(x.dtype, shape))
  end
  return d
end

--- Before the variables are made: which graph they belong to, of which dtype, and what their names begin with: the
-- variable scope's name and the layer's own, which is found where none is given; of a layer inside another what that
-- one says.
function methods.settle(l, x)
  l.graph, l.dtype = x.graph, x.dtype
  l.scope = rawget(l, 'full_name')
  if l.scope then return end
  local prefix = variable_scope.prefix(x.graph)
  local name = rawget(l, 'given_name')
  l.scope = name and prefix .. name or automatic_name(x.graph, prefix .. snake(l.class.kind))
end

--- Builds what is not built yet; checks what is. A build that fails leaves the layer as it was.
function methods.prepare(l, x, ...)
  if rawget(l, 'graph') then
    if l.graph ~= x.graph then l:bad('its variables belong to another graph: make a new layer for this one') end
    if #l.own > 0 and l.dtype ~= x.dtype then
      l:bad("its variables are %s, its input is %s: cast it, as in %s", l.dtype, x.dtype,
            dtypes.conversion(x.dtype, l.dtype))
    end
    return
  end
  l:settle(x)
  if not l.class.build then return end
  local ok, e = pcall(l.class.build, l, x, ...)
  if not ok then
    l.graph, l.scope, l.own = nil, nil, {}
    for name in pairs(l.class.made) do rawset(l, name, nil) end
    error(e, 0)
  end
end

--- The options at the end of a call: a plain table with names, or an empty one behind all inputs.
local function split(l, n, ...)
  local args = { ... }
  while n > 0 and args[n] == nil do n = n - 1 end
  local last = n > 0 and args[n]
  if n > 1 and errors.is_data(last) then
    local key = next(last)
    if type(key) == 'string' or (key == nil and n > 1) then
      errors.options(last, 'the call of ' .. l:title(), l.class.options)
      args[n] = nil
      return last, args, n - 1
    end
  end
  return {}, args, n
end

Layer.__call = function(l, ...)
  local opts, args, n
  if l.class.cell then opts, args, n = {}, { ... }, select('#', ...) else opts, args,
      n = split(l, select('#', ...), ...) end
  local inputs = l.class.inputs
  if n > inputs then
    l:bad('it takes %d value%s%s; value %d is %s', inputs, inputs == 1 and '' or 's', l.class.cell and ''
          or ' and a table of options', inputs + 1,
          errors.describe(args[inputs + 1]))
  end
  local g = convert.graph_of(args)
  g = g or graph.current()
  local function path()
    local scope = rawget(l, 'scope')
    return scope or snake(l.class.kind), not scope
  end
  return graph.with(g, graph.grouped, g, path, l.class.call, l, opts, graph.unpack(args, 1, inputs))
end

-- ---- looks ----------------------------------------------------------------------------------------------------------
--- `Dense(64) [3] -> [64], 256 parameters`, and the layers inside on lines of their own.
local function count(list)
  local n = 0
  for _, v in ipairs(list) do
    local size = 1
    for _, d in ipairs(v.shape or {}) do size = size * math.abs(d) end
    n = n + size
  end
  return n
end

local function lines(l, indent, out)
  local text = ('%s%s(%s)'):format(indent, l.class.kind, l.class.text and l.class.text(l) or '')
  local from, to = rawget(l, 'in_shape'), rawget(l, 'out_shape')
  if from and to then text = ('%s  %s -> %s'):format(text, tensor.shape_text('', from), tensor.shape_text('', to)) end
  local all = {}
  pcall(collect, l, all, {}, true)
  if #all > 0 then
    local n = count(all)
    text = ('%s  %d parameter%s'):format(text, n, n == 1 and '' or 's')
  elseif next(l.class.made) then
    text = text .. '  not built yet'
  end
  local name = rawget(l, 'scope') or rawget(l, 'given_name')
  out[#out + 1] = name and ('%s  -- %s'):format(text, name) or text
  for _, v in ipairs(l.own) do
    out[#out + 1] = ('%s  %s %s'):format(indent, v.name:match('[^/]*$'), tensor.shape_text(v.dtype, v.shape))
  end
  for _, inner in ipairs(l.inner) do lines(inner, indent .. '  ', out) end
end

Layer.__tostring = function(l)
  local out = {}
  lines(l, '', out)
  return table.concat(out, '\n')
end

--- Notes what went in and came out, for tostring; returns y.
function methods.shaped(l, x, y)
  if getmetatable(y) ~= graph.Output then
    l:bad('its activation gives %s, an Output is expected', errors.describe(y))
  end
  l.in_shape, l.out_shape = x.shape, y.shape
  return y
end

--- Is v a layer (or a cell)?
function M.is(v) return type(v) == 'table' and getmetatable(v) == Layer end

-- ---- checks that constructors share --------------------------------------------------------------------------------
function M.whole(v, kind, what, least)
  least = least or 1
  if type(v) ~= 'number' or not dtypes.is_whole(v) or v < least or v >= 2^31 then
    errors.bad('%s: %s is a whole number from %d up, not %s', kind, what, least, errors.describe(v))
  end
  return math.floor(v)
end

function M.number(v, kind, what, default)
  if v == nil then return default end
  if type(v) ~= 'number' or v ~= v then errors.bad('%s: %s is a number, not %s', kind, what, errors.describe(v)) end
  return v
end

--- The seed of what draws, or nil.
function M.seed(v, kind)
  if v ~= nil and (type(v) ~= 'number' or not dtypes.is_whole(v)) then
    errors.bad('%s: seed is a whole number, not %s', kind, errors.describe(v))
  end
  return v
end

function M.flag(v, kind, what, default)
  if v == nil then return default end
  return errors.flag(v, kind, what)
end

--- The weights of values, as losses and metrics take them: one number, one for each example (the axes behind are
-- alike), or of the values' rank, each size theirs or 1.
-- @param values  what is weighted; `named` is what messages call it
function M.weights(v, values, what, named)
  local w = convert.to_output(v, graph.dtype(values), values.graph, what)
  if w.dtype ~= values.dtype then w = ops.functions.cast(w, values.dtype) end
  local a, b = w.shape, values.shape
  if not a or not b then return w end
  local fits = #a <= #b
  for i = 1, fits and #a or 0 do fits = fits and (a[i] == 1 or a[i] < 0 or b[i] < 0 or a[i] == b[i]) end
  if not fits then
    errors.bad('%s: the weights are %s, the %s %s', what, tensor.shape_text(w.dtype, a), named,
               tensor.shape_text(values.dtype, b))
  end
  for _ = #a > 0 and #a or #b, #b - 1 do w = ops.functions.expand_dims(w, -1) end
  return w
end

--- A function, a layer, or the name of an op of one input.
function M.activation(v, kind)
  if v == nil or type(v) == 'function' or M.is(v) then return v end
  local fn = type(v) == 'string' and ops.find(v)
  if fn then return fn end
  errors.bad("%s: activation is a function such as df.relu, or a name such as 'relu', not %s", kind, errors.describe(v))
end

errors.with_colons(methods, Layer, 'a layer', 'l')

return M
