--- Learning rates that change with the step, as TensorFlow 1's: each gives a float32 Output of the step, which is a
-- Variable (such as the global_step of minimize), an Output or a number.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local ops = require 'dflow.front.ops'
local arguments = require 'dflow.front.arguments'
local Variable = require('dflow.front.variable').Variable
local optimizer = require 'dflow.train.optimizer'

local M = {}
local f = ops.functions

--- Is v a number, or an Output, Variable or Tensor of numbers, and a scalar where it must be?
local function is_number(v, any_shape)
  if type(v) == 'number' then return v == v end
  local d = convert.typed(v)
  if not d or errors.is_data(v) or not (dtypes.is_int(d) or dtypes.is_float(d)) then return false end
  local shape = v.shape
  return any_shape or shape == nil or #shape == 0
end

--- Defines df.train.<name>(…): fn gets the arguments by name and the step as a float32 Output. The step may be many, of
-- any shape: the curve of a schedule is what it gives for df.range(n).
local function schedule(name, parameters, more, defaults, fn)
  M[name] = function(...)
    local o = arguments.take(name, parameters, more, ...)
    for key, v in pairs(defaults) do
      if o[key] == nil then o[key] = v end
    end
    for _, key in ipairs(parameters) do
      if o[key] == nil then errors.bad('%s: %s is missing', name, key) end
    end
    errors.flag(o.staircase, name, 'staircase')
    for _, key in ipairs(parameters) do
      local is_step = key == parameters[2]
      if key ~= 'staircase' and not is_number(o[key], is_step) then
        errors.bad('%s: %s is %s, a number or %s Output is expected', name, key, errors.describe(o[key]), is_step
                   and 'an' or 'a scalar')
      end
    end
    local step = convert.to_output(o[parameters[2]])
    local rate = graph.with(step.graph, function() return arguments.named(o.name, fn(o, f.cast(step, 'float32'))) end)
    if getmetatable(o[parameters[2]]) == Variable then optimizer.scheduled[rate] = optimizer.looping or false end
    return rate
  end
end

local function number(x, like) return f.cast(convert.to_output(x, nil, like.graph), 'float32') end

-- by place as in TensorFlow's Python
local rate_and_step = { 'learning_rate', 'global_step', 'decay_steps', 'decay_rate', 'staircase' }

--- df.train.exponential_decay(learning_rate, global_step, decay_steps, decay_rate, staircase = false): rate *
-- decay_rate ^ (step / decay_steps).
schedule('exponential_decay', rate_and_step, {}, { staircase = false }, function(o, step)
  local p = step / number(o.decay_steps, step)
  return number(o.learning_rate, step) * f.pow(number(o.decay_rate, step), o.staircase and f.floor(p) or p)
end)

--- df.train.natural_exp_decay(…): rate * e ^ (-decay_rate * step / decay_steps).
schedule('natural_exp_decay', rate_and_step, {}, { staircase = false }, function(o, step)
  local p = step / number(o.decay_steps, step)
  return number(o.learning_rate, step) * f.exp(-number(o.decay_rate, step) * (o.staircase and f.floor(p) or p))
end)

--- df.train.inverse_time_decay(…): rate / (1 + decay_rate * step / decay_steps).
schedule('inverse_time_decay', rate_and_step, {}, { staircase = false }, function(o, step)
  local p = step / number(o.decay_steps, step)
  return number(o.learning_rate, step) / (1 + number(o.decay_rate, step) * (o.staircase and f.floor(p) or p))
end)

--- df.train.polynomial_decay(learning_rate, global_step, decay_steps, end_learning_rate = 0.0001, power = 1, {cycle =
--- false}):
--- (rate - end) * (1 - step / decay_steps) ^ power + end. With cycle the decay_steps grow to the next multiple beyond
-- the step.
schedule('polynomial_decay', { 'learning_rate', 'global_step', 'decay_steps', 'end_learning_rate', 'power' },
         { 'cycle' },
         { end_learning_rate = 0.0001, power = 1.0 }, function(o, step)
  local rate, last, span = number(o.learning_rate, step), number(o.end_learning_rate, step), number(o.decay_steps, step)
  if o.cycle then
    span = span * f.maximum(f.ceil(step / span), f.float32(1))
  else
    step = f.minimum(step, span)
  end
  return (rate - last) * f.pow(1 - step / span, number(o.power, step)) + last
end)

local function half_wave(p) return 0.5 * (1 + f.cos(math.pi * p)) end

--- df.train.cosine_decay(learning_rate, global_step, decay_steps, alpha = 0): down to alpha * rate along half a cosine.
schedule('cosine_decay', { 'learning_rate', 'global_step', 'decay_steps', 'alpha' }, {}, { alpha = 0.0 },
         function(o, step)
  local span, alpha = number(o.decay_steps, step), number(o.alpha, step)
  return number(o.learning_rate, step) * ((1 - alpha) * half_wave(f.minimum(step, span) / span) + alpha)
end)

--- df.train.cosine_decay_restarts(learning_rate, global_step, first_decay_steps, t_mul = 2, m_mul = 1, alpha = 0):
--- cosine_decay that begins anew, each time t_mul as long and m_mul as high (Loshchilov and Hutter, 2017).
schedule('cosine_decay_restarts', { 'learning_rate', 'global_step', 'first_decay_steps', 't_mul', 'm_mul', 'alpha' },
         {},
         { t_mul = 2.0, m_mul = 1.0, alpha = 0.0 }, function(o, step)
  if type(o.t_mul) ~= 'number' or o.t_mul < 1 then
    errors.bad('cosine_decay_restarts: t_mul is a number from 1 up, not %s', errors.describe(o.t_mul))
  end
  local p, alpha = step / number(o.first_decay_steps, step), number(o.alpha, step)
  local round
  if o.t_mul == 1 then
    round = f.floor(p)
    p = p - round
  else
    round = f.floor(f.log(1 - p * (1 - o.t_mul)) / math.log(o.t_mul))
    local length = f.pow(number(o.t_mul, step), round)
    p = (p - (1 - length) / (1 - o.t_mul)) / length
  end
  local height = f.pow(number(o.m_mul, step), round)
  return number(o.learning_rate, step) * ((1 - alpha) * height * half_wave(p) + alpha)
end)

--- df.train.linear_cosine_decay(learning_rate, global_step, decay_steps, num_periods = 0.5, alpha = 0, beta = 0.001)
schedule('linear_cosine_decay', { 'learning_rate', 'global_step', 'decay_steps', 'num_periods', 'alpha', 'beta' }, {},
         { num_periods = 0.5, alpha = 0.0, beta = 0.001 }, function(o, step)
  local span = number(o.decay_steps, step)
  local p = f.minimum(step, span) / span
  local wave = half_wave(2 * number(o.num_periods, step) * p)
  return number(o.learning_rate, step) * ((number(o.alpha, step) + 1 - p) * wave + number(o.beta, step))
end)

--- df.train.piecewise_constant(x, boundaries, values): values[1] up to boundaries[1] and on it, values[2] up to
--- boundaries[2], …; the last beyond them all.
-- @param boundaries  numbers that rise; @param values  one more than these, of one dtype
function M.piecewise_constant(...)
  local o = arguments.take('piecewise_constant', { 'x', 'boundaries', 'values' }, {}, ...)
  arguments.required('piecewise_constant', o, 'x', 'boundaries', 'values')
  local boundaries, values = o.boundaries, o.values
  if not errors.is_data(boundaries) or not errors.is_data(values) or #values ~= #boundaries + 1 then
    errors.bad('piecewise_constant takes a list of boundaries and a list of values that is one longer; they have %s '
               .. 'and %s entries',
               errors.is_data(boundaries) and #boundaries or '?', errors.is_data(values) and #values or '?')
  end
  for i, b in ipairs(boundaries) do
    if type(b) ~= 'number' or (i > 1 and b <= boundaries[i - 1]) then
      errors.bad('piecewise_constant: boundary %d is %s; boundaries are numbers that rise', i, errors.describe(b))
    end
  end
  local x = convert.to_output(o.x)
  return graph.with(x.graph, function()
    local d = dtypes.FLOAT32
    for _, v in ipairs(values) do d = convert.typed(v) or d end
    local wide = f.cast(x, 'float64')
    local out = convert.to_output(values[1], d, x.graph)
    for i, b in ipairs(boundaries) do
      out = f.where(f.greater(wide, b), convert.to_output(values[i + 1], d, x.graph), out)
    end
    return arguments.named(o.name, out)
  end)
end

return M
