--- Layers without windows: Dense, Embedding, Dropout, Flatten, Sequential.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local control = require 'dflow.front.control'
local ops = require 'dflow.front.ops'
local initializers = require 'dflow.nn.initializers'
local layer = require 'dflow.nn.layer'

local M = {}
local f = ops.functions
local glorot, zeros = initializers.glorot_uniform(), initializers.zeros()

-- ---- Dense --------------------------------------------------------------------------------------------------------
local Dense = layer.class{
  kind = 'Dense', made = { 'kernel', 'bias' },
  known = { 'units', 'activation', 'use_bias', 'kernel_initializer', 'bias_initializer' },
  text = function(l) return tostring(l.units) end,
  build = function(l, x)
    l:weight('kernel', { l:size_of(x, -1), l.units }, l.kernel_initializer)
    if l.use_bias then l:weight('bias', { l.units }, l.bias_initializer) end
  end,
  call = function(l, _, x)
    x = l:input(x, 2, nil, '[batch, ..., features]')
    l:prepare(x)
    local shape, inputs = x.shape, l.kernel.shape[1]
    local features = shape[#shape]
    if features >= 0 and features ~= inputs then
      l:bad('its input %s has %d features, its kernel is for %d', tensor.shape_text(x.dtype, shape), features, inputs)
    end
    local y = #shape == 2 and f.matmul(x, l.kernel) or f.tensordot(x, l.kernel, 1)
    if l.use_bias then y = y + l.bias end
    if l.activation then y = l.activation(y) end
    return l:shaped(x, y)
  end,
}

--- df.nn.Dense(units, {activation, use_bias = true, kernel_initializer, bias_initializer, name}): activation(x kernel +
-- bias).
-- x is float [batch, ..., in]; kernel is [in, units], Glorot's uniform at first; bias [units] of zeros.
function M.Dense(units, opts)
  opts = errors.options(opts, 'Dense', { 'activation', 'use_bias', 'kernel_initializer', 'bias_initializer', 'name' })
  return layer.new(Dense, {
    units = layer.whole(units, 'Dense', 'units'), name = opts.name,
    activation = layer.activation(opts.activation, 'Dense'),
    use_bias = layer.flag(opts.use_bias, 'Dense', 'use_bias', true),
    kernel_initializer = initializers.check(opts.kernel_initializer, glorot, 'Dense: kernel_initializer'),
    bias_initializer = initializers.check(opts.bias_initializer, zeros, 'Dense: bias_initializer'),
  })
end

-- ---- Embedding -----------------------------------------------------------------------------------------------------
local Embedding = layer.class{
  kind = 'Embedding', made = { 'table' }, known = { 'count', 'width', 'initializer' },
  text = function(l) return ('%d, %d'):format(l.count, l.width) end,
  build = function(l) l:weight('table', { l.count, l.width }, l.initializer) end,
  call = function(l, _, ids)
    if ids == nil then l:bad('the ids are missing') end
    local typed = convert.typed(ids)
    if typed and typed ~= dtypes.INT32 and typed ~= dtypes.INT64 then
      l:bad("its ids are %s, int32 or int64 is expected: cast them, as in df.cast(ids, 'int32')", dtypes.name[typed])
    end
    ids = convert.to_output(ids, typed or dtypes.INT32, nil, l:title())
    if not rawget(l, 'graph') then
      l.graph, l.dtype = ids.graph, 'float32'
      l:settle({ graph = ids.graph, dtype = 'float32' })
      l.class.build(l)
    elseif l.graph ~= ids.graph then
      l:bad('its table belongs to another graph: make a new layer for this one')
    end
    return l:shaped(ids, f.gather(l.table, ids))
  end,
}

--- df.nn.Embedding(n, size, {initializer, name}): the rows of `.table` [n, size] that ids name. Its gradient is sparse.
-- ids are int32 or int64 of any shape; one outside 0 .. n - 1 stops the run. The table is uniform within ±0.05 at
-- first.
function M.Embedding(n, size, opts)
  opts = errors.options(opts, 'Embedding', { 'initializer', 'name' })
  return layer.new(Embedding, {
    count = layer.whole(n, 'Embedding', 'the number of rows'),
    width = layer.whole(size, 'Embedding', 'the size of a row'), name = opts.name,
    initializer = initializers.check(opts.initializer, initializers.random_uniform(), 'Embedding: initializer'),
  })
end

-- ---- Dropout --------------------------------------------------------------------------------------------------------
local Dropout = layer.class{
  kind = 'Dropout', known = { 'rate', 'seed', 'noise_shape' }, options = { 'training' },
  text = function(l) return ('%g'):format(l.rate) end,
  call = function(l, opts, x)
    x = l:input(x, 0, nil, 'any shape')
    local training = l:training(opts)
    if training == false or l.rate == 0 then return x end
    local function drop() return f.dropout(x, l.rate, { seed = l.seed, noise_shape = l.noise_shape }) end
    if training == true then return drop() end
    return control.cond(training, drop, function() return f.identity(x) end, { name = 'dropout' })
  end,
}

--- df.nn.Dropout(rate, {seed, noise_shape, name}): l(x, {training = false}). In training each element is 0 with
-- probability `rate` and the others are divided by 1 - rate.
function M.Dropout(rate, opts)
  opts = errors.options(opts, 'Dropout', { 'seed', 'noise_shape', 'name' })
  if type(rate) ~= 'number' or not (rate >= 0 and rate < 1) then
    errors.bad('Dropout: the rate is a number from 0 to below 1, not %s', errors.describe(rate))
  end
  local noise = opts.noise_shape
  if noise ~= nil and not errors.is_data(noise) and convert.typed(noise) == nil then
    errors.bad('Dropout: noise_shape is a list of dimensions, not %s', errors.describe(noise))
  end
  return layer.new(Dropout, { rate = rate, seed = layer.seed(opts.seed, 'Dropout'), noise_shape = opts.noise_shape,
                              name = opts.name })
end

-- ---- Flatten, Sequential --------------------------------------------------------------------------------------------
local Flatten = layer.class{
  kind = 'Flatten',
  call = function(l, _, x)
    if x == nil then l:bad('its input is missing') end
    x = convert.to_output(x, nil, nil, l:title())
    local shape = x.shape
    if not shape or #shape < 1 then
      l:bad('its input is %s, [batch, ...] is expected', tensor.shape_text(x.dtype, shape))
    end
    local n = 1
    for i = 2, #shape do n = (n >= 0 and shape[i] >= 0) and n * shape[i] or -1 end
    if n < 0 then
      if shape[1] < 0 then return f.reshape(x, f.stack{ f.dim(x, 0), -1 }):set_shape{ -1, -1 } end
      return f.reshape(x, { shape[1], -1 })
    end
    -- Beside a 0 a -1 would not be the batch.
    return l:shaped(x, f.reshape(x, n > 0 and { -1, n } or shape[1] >= 0 and { shape[1], 0 }
                                 or f.stack{ f.dim(x, 0), 0 }))
  end,
}

--- df.nn.Flatten(): [batch, ...] as [batch, the product of the rest].
function M.Flatten(opts)
  opts = errors.options(opts, 'Flatten', { 'name' })
  return layer.new(Flatten, { name = opts.name })
end

local Sequential = layer.class{
  kind = 'Sequential', known = { 'steps' }, options = { 'training' },
  text = function(l) return tostring(#l.steps) .. (#l.steps == 1 and ' layer' or ' layers') end,
  call = function(l, opts, x)
    if x == nil then l:bad('its input is missing') end
    x = convert.to_output(x, nil, nil, l:title())
    l.graph = x.graph
    local y = x
    for i, step in ipairs(l.steps) do
      local takes = false
      if layer.is(step) then
        for _, name in ipairs(step.class.options) do takes = takes or name == 'training' end
      end
      if takes and opts.training ~= nil then y = step(y, { training = opts.training }) else y = step(y) end
      if y == nil then l:bad('step %d returns nothing', i) end
    end
    return getmetatable(y) == graph.Output and l:shaped(x, y) or y
  end,
}

--- df.nn.Sequential{l1, l2, ...}: each gets what the one before gave; functions such as df.relu may stand among them.
-- l(x, {training}) passes `training` on to the layers that take it.
function M.Sequential(steps, opts)
  opts = errors.options(opts, 'Sequential', { 'name' })
  if not errors.is_data(steps) or #steps == 0 then
    errors.bad('Sequential takes a list of layers, not %s', errors.is_data(steps) and 'an empty one'
               or errors.describe(steps))
  end
  local inner = {}
  for i, step in ipairs(steps) do
    if layer.is(step) then
      inner[#inner + 1] = step
    elseif type(step) ~= 'function' then
      errors.bad('Sequential: step %d is %s, a layer or a function is expected', i, errors.describe(step))
    end
  end
  return layer.new(Sequential, { steps = steps, inner = inner, name = opts.name or steps.name })
end

return M
