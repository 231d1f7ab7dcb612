--- Exponential moving averages of variables and outputs, as TensorFlow 1's.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local ops = require 'dflow.front.ops'
local arguments = require 'dflow.front.arguments'
local variable = require 'dflow.front.variable'
local optimizer = require 'dflow.train.optimizer'
local layer = require 'dflow.nn.layer'

local M = {}
local f = ops.functions
local Average = { __name = 'dflow.ExponentialMovingAverage' }
local methods = {}
Average.__index = methods
Average.__tostring = function(a) return ('%s(%s)'):format(a.name, tostring(a.decay)) end

--- df.train.ExponentialMovingAverage(decay, {num_updates =, zero_debias = false, name =}): shadow = decay * shadow + (1
-- - decay) * value.
-- @param decay        a number or Output below 1
-- @param num_updates  a step count: the decay is min(decay, (1 + n) / (10 + n)), so that early averages move fast
-- @param zero_debias  averages of outputs, which begin with zeros, are divided by the weight that is not the zeros': 1
--                     - decay ^ times
function M.ExponentialMovingAverage(...)
  local o = arguments.take('ExponentialMovingAverage', { 'decay', 'num_updates', 'zero_debias' }, {}, ...)
  arguments.required('ExponentialMovingAverage', o, 'decay')
  if type(o.decay) == 'number' and not (o.decay >= 0 and o.decay < 1) or type(o.decay) ~= 'number'
    and not convert.typed(o.decay) then
    errors.bad('ExponentialMovingAverage: decay is a number from 0 to below 1, not %s', errors.describe(o.decay))
  end
  if o.num_updates ~= nil and type(o.num_updates) ~= 'number' and not convert.typed(o.num_updates) then
    errors.bad('ExponentialMovingAverage: num_updates is a number or a scalar Output, not %s',
               errors.describe(o.num_updates))
  end
  return setmetatable({ decay = o.decay, num_updates = o.num_updates, name = o.name or 'ExponentialMovingAverage',
                        zero_debias = layer.flag(o.zero_debias, 'ExponentialMovingAverage', 'zero_debias', false),
                        shadows = setmetatable({}, { __mode = 'k' }), sums = setmetatable({}, { __mode = 'k' }),
                        list = {} }, Average)
end

local function list_of(vars, what)
  if vars == nil then return optimizer.trainable(graph.current()) end
  local mt = getmetatable(vars)
  if mt == variable.Variable or mt == graph.Output then vars = { vars } end
  if not errors.is_data(vars) then
    errors.bad('%s takes a list of Variables or Outputs, not %s', what, errors.describe(vars))
  end
  for i, v in ipairs(vars) do
    local d = convert.typed(v)
    if not d or not dtypes.is_float(d)
      or (getmetatable(v) ~= variable.Variable and getmetatable(v) ~= graph.Output) then
      errors.bad('%s: element %d is %s, a Variable or Output of floats is expected', what, i, errors.describe(v))
    end
  end
  return vars
end

--- The shadow of a variable begins as the variable does, that of an output with zeros.
local function shadow_of(a, v)
  if not a.shadows[v] then
    local name = v.name:gsub(':0$', '') .. '/' .. a.name
    a.shadows[v] = graph.with(v.graph, function()
      if getmetatable(v) == variable.Variable then
        return variable.new(function() return v.initial end, { name = name, trainable = false })
      end
      local shape = v.shape
      for _, d in ipairs(shape or { -1 }) do
        if d < 0 then errors.bad('ExponentialMovingAverage: the shape of %s must be known', v.name) end
      end
      return variable.new(function() return f.zeros(shape, v.dtype) end, { name = name, trainable = false })
    end)
    a.list[#a.list + 1] = v
  end
  return a.shadows[v]
end

--- The operation that moves a shadow which began with zeros: what was summed up, by how much of it is no zeros after so
-- many times.
local function move_debiased(a, v, shadow, lost)
  if not a.sums[v] then
    a.sums[v] = {
      biased = variable.new(function() return f.zeros(v.shape, v.dtype) end,
                            { name = shadow.name .. '/biased', trainable = false }),
      times = variable.new(function() return f.constant(0, v.dtype) end,
                           { name = shadow.name .. '/local_step', trainable = false }),
    }
  end
  local sums = a.sums[v]
  local biased = sums.biased:assign_sub(lost * (sums.biased:value() - v))
  return shadow:assign(biased / (1 - f.pow(1 - lost, sums.times:assign_add(1))))
end

--- a:apply(vars?): the operation that moves the averages once; they are made when first needed. nil: all trainable
-- variables.
function methods.apply(a, vars)
  vars = list_of(vars, 'apply')
  if #vars == 0 then errors.bad('apply: there are no variables') end
  local updates = {}
  graph.with(vars[1].graph, function()
    local decay = a.decay
    if a.num_updates then
      local n = f.cast(convert.to_output(a.num_updates), 'float32')
      decay = f.minimum(convert.to_output(decay, dtypes.FLOAT32, n.graph), (1 + n) / (10 + n))
    end
    for i, v in ipairs(vars) do
      local shadow = shadow_of(a, v)
      local lost = 1 - optimizer.hyper(shadow, decay)
      if getmetatable(v) == variable.Variable then
        updates[i] = shadow:assign_sub(lost * (shadow:value() - v:value()))
      elseif a.zero_debias then
        updates[i] = move_debiased(a, v, shadow, lost)
      else
        updates[i] = shadow:assign_sub(lost * (shadow:value() - v))
      end
    end
  end)
  return graph.with(vars[1].graph, f.group, updates)
end

--- a:average(v): the Variable that holds the average of v, nil where apply has not been called for it.
function methods.average(a, v) return a.shadows[v] end

--- a:average_name(v): that variable's name, as it would be.
function methods.average_name(a, v)
  v = list_of({ v or false }, 'average_name')[1]
  return a.shadows[v] and a.shadows[v].name or v.name:gsub(':0$', '') .. '/' .. a.name
end

--- a:variables_to_restore(vars?): {name = Variable}: each average's name with the variable it stands for, as `map` of
--- df.restore: a model that is only evaluated reads the averages into its variables.
function methods.variables_to_restore(a, vars)
  local map = {}
  for _, v in ipairs(list_of(vars, 'variables_to_restore')) do map[a:average_name(v)] = v end
  return map
end

--- a:variables(): the averages, in the order they were made.
function methods.variables(a)
  local list = {}
  for i, v in ipairs(a.list) do list[i] = a.shadows[v] end
  return list
end

errors.with_colons(methods, Average, 'an ExponentialMovingAverage', 'a')

return M
