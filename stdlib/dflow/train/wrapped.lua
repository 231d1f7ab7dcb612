--- Optimizers around an optimizer: gradients of several steps added up before one is taken, and training in half
-- precision.
--
-- What is done now and then (the step itself) stands in a cond, so its slots, sparse updates and counters are those of
-- the inner optimizer.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local control = require 'dflow.front.control'
local gradients = require 'dflow.front.gradients'
local variable = require 'dflow.front.variable'
local ops = require 'dflow.front.ops'
local optimizer = require 'dflow.train.optimizer'

local M = {}
local f = ops.functions
local is_slices = gradients.is_slices

--- The values of gradients, as what a step waits for.
local function values_of(list)
  local waits = {}
  for i, pair in ipairs(list) do waits[i] = is_slices(pair[1]) and pair[1].values or pair[1] end
  return waits
end

local function check_inner(inner, what)
  local mt = getmetatable(inner)
  if type(inner) ~= 'table' or type(mt) ~= 'table' or type(inner.apply_gradients) ~= 'function' then
    errors.bad('%s takes an optimizer such as df.train.Adam(0.001), not %s', what, errors.describe(inner))
  end
end

--- A class of optimizers that have an inner one.
local function class(what, methods)
  methods.__index = methods
  methods.__tostring = function(o) return ('%s of %s'):format(what, tostring(o.inner)) end
  methods.__name = optimizer.Optimizer.__name
  --- Its own variables and the inner optimizer's.
  function methods:variables()
    local list = optimizer.Optimizer.variables(self)
    for _, v in ipairs(self.inner:variables()) do list[#list + 1] = v end
    return list
  end
  function methods:get_slot(v, name)
    return optimizer.Optimizer.get_slot(self, v, name) or self.inner:get_slot(v, name)
  end
  function methods:get_slot_names()
    local list = optimizer.Optimizer.get_slot_names(self)
    for _, name in ipairs(self.inner:get_slot_names()) do list[#list + 1] = name end
    return list
  end
  return setmetatable(methods, { __index = optimizer.Optimizer })
end

local function new(methods, fields)
  fields.slots, fields.scalars, fields.order = setmetatable({}, { __mode = 'k' }), {}, {}
  return setmetatable(fields, methods)
end

--- The operation that waits for `list`.
local function after(list, name)
  return graph.control_dependencies(list, function() return registry.op('NoOp', {}, { name = name }) end)
end

-- ---- gradients of several steps -------------------------------------------------------------------------------------
local Accumulate = class('Accumulate', {})

--- df.train.Accumulate(optimizer, steps): an optimizer that adds up the gradients of `steps` runs and takes one step
--- with their mean: batches that are larger than memory allows. global_step counts the steps that are taken.
-- A sparse gradient is added to a table of zeros, so the step is a dense one.
function M.Accumulate(inner, steps, opts)
  errors.options(opts, 'Accumulate', {})
  check_inner(inner, 'Accumulate')
  if type(steps) ~= 'number' or steps < 1 or not dtypes.is_whole(steps) then
    errors.bad('Accumulate: the number of steps is a whole number from 1 up, not %s', errors.describe(steps))
  end
  return new(Accumulate, { inner = inner, steps = steps })
end

function Accumulate:compute_gradients(...) return self.inner:compute_gradients(...) end

function Accumulate:apply_gradients(list, opts, ...)
  opts = optimizer.apply_options(opts, ...)
  local found = optimizer.check_pairs(list)
  local g = found[1][2].graph
  return graph.with(g, function()
    local waits, sums, updates = values_of(found), {}, {}
    -- MixedPrecision's are wider
    for i, pair in ipairs(found) do sums[i] = optimizer.slot(self, pair[2], 'gradient_sum', nil, waits[i].dtype) end
    if opts.after then waits[#waits + 1] = opts.after end
    local taken = optimizer.scalar(self, g, dtypes.INT32, 'accumulated', 0)
    local count
    graph.control_dependencies(waits, function()
      for i, pair in ipairs(found) do
        local x = pair[1]
        updates[i] = is_slices(x) and sums[i]:scatter_add(x.indices, x.values)
        or sums[i]:assign_add(convert.to_output(x, pair[2].d, g))
      end
      count = taken:assign_add(1)
    end)
    updates[#updates + 1] = count
    local stepped = graph.control_dependencies(updates, function()
      return control.cond(count:ge(self.steps), function()
        local means, zeros = {}, {}
        for i, pair in ipairs(found) do means[i] = { sums[i]:value() / self.steps, pair[2] } end
        local step = self.inner:apply_gradients(means, { global_step = opts.global_step })
        graph.control_dependencies({ step }, function()
          for i, v in ipairs(sums) do zeros[i] = v:assign(f.zeros_like(v:value())) end
          zeros[#zeros + 1] = taken:assign(0)
        end)
        return graph.control_dependencies(zeros, function() return f.constant(true) end)
      end, function() return f.constant(false) end, { name = 'accumulated_step' })
    end)
    return after({ stepped }, opts.name)
  end)
end

-- ---- half precision -------------------------------------------------------------------------------------------------
local MixedPrecision = class('MixedPrecision', {})

--- df.train.MixedPrecision(optimizer, {loss_scale = 'dynamic', initial_scale = 2 ^ 15, period = 2000, multiplier = 2}):
--- trains variables of float16 or bfloat16 by float32 copies of them, from gradients of the loss times a scale, so that
-- small ones do not vanish in float16.
-- A step whose gradients are not all finite is left out. loss_scale is a number, or 'dynamic': divided by `multiplier`
-- after such a step, and multiplied by it after `period` others in a row (Micikevicius et al., 2018). o:loss_scale() is
-- the scale as an Output.
-- compute_gradients gives float32 gradients, the scale taken out, so that clipping means what it says.
function M.MixedPrecision(inner, opts)
  local what = 'MixedPrecision'
  check_inner(inner, what)
  opts = errors.options(opts, what, { 'loss_scale', 'initial_scale', 'period', 'multiplier' })
  local scale, dynamic = opts.loss_scale, opts.loss_scale == nil or opts.loss_scale == 'dynamic'
  if not dynamic and not (type(scale) == 'number' and scale > 0) then
    errors.bad("%s: loss_scale is a number above 0 or 'dynamic', not %s", what, errors.describe(scale))
  end
  local o = { inner = inner, dynamic = dynamic, period = opts.period or 2000, multiplier = opts.multiplier or 2,
              initial = dynamic and (opts.initial_scale or 2 ^ 15) or scale }
  for key, least in pairs{ period = 1, multiplier = 1, initial = 0 } do
    if type(o[key]) ~= 'number' or o[key] ~= o[key] or o[key] < least or (key ~= 'period' and o[key] == least) then
      errors.bad('%s: %s is a number %s %d, not %s', what, key == 'initial' and 'initial_scale' or key, key == 'period'
                 and 'from' or 'above', least,
                 errors.describe(o[key]))
    end
  end
  return new(MixedPrecision, o)
end

local function scale_of(o, g) return optimizer.scalar(o, g, dtypes.FLOAT32, 'loss_scale', o.initial) end

--- o:loss_scale(): the scale, a float32 Output.
function MixedPrecision:loss_scale() return scale_of(self, graph.current()):value() end

function MixedPrecision:compute_gradients(loss, vars)
  if convert.typed(loss) == nil then
    errors.bad('compute_gradients takes a loss, an Output, not %s', errors.describe(loss))
  end
  loss = convert.to_output(loss)
  return graph.with(loss.graph, function()
    local scale = scale_of(self, loss.graph):value()
    local scaled = f.cast(loss, 'float32') * scale
    local list = self.inner:compute_gradients(scaled, vars)
    for _, pair in ipairs(list) do
      local x = pair[1]
      if is_slices(x) then
        pair[1] = gradients.indexed_slices(f.cast(x.values, 'float32') / scale, x.indices, x.dense_shape)
      elseif x then
        pair[1] = f.cast(x, 'float32') / scale
      end
    end
    return list
  end)
end

--- The float32 copy of a narrower variable; another variable itself.
local function master_of(o, v)
  if v.dtype ~= 'float16' and v.dtype ~= 'bfloat16' then return v end
  local slots = o.slots[v]
  if not slots then
    slots = {}
    o.slots[v] = slots
    o.order[#o.order + 1] = v
  end
  if not slots.master then
    slots.master = graph.with(v.graph, function()
      return variable.new(function() return f.cast(v.initial, 'float32') end,
                          { name = v.name .. '/master', trainable = false })
    end)
  end
  return slots.master
end

local function all_finite(waits)
  local all
  for _, x in ipairs(waits) do
    local finite = f.reduce_all(f.is_finite(x))
    all = all and f.logical_and(all, finite) or finite
  end
  return all
end

function MixedPrecision:apply_gradients(list, opts, ...)
  opts = optimizer.apply_options(opts, ...)
  local found = optimizer.check_pairs(list)
  local g = found[1][2].graph
  return graph.with(g, function()
    local waits = values_of(found)
    local finite = all_finite(waits)
    if opts.after then waits[#waits + 1] = opts.after end
    local scale = scale_of(self, g)
    local good = self.dynamic and optimizer.scalar(self, g, dtypes.INT32, 'good_steps', 0)
    local masters = {}
    for i, pair in ipairs(found) do masters[i] = master_of(self, pair[2]) end
    local function step()
      local pairs32, done = {}, {}
      for i, pair in ipairs(found) do pairs32[i] = { pair[1], masters[i] } end
      local stepped = self.inner:apply_gradients(pairs32, { global_step = opts.global_step })
      graph.control_dependencies({ stepped }, function()
        for i, pair in ipairs(found) do
          if masters[i] ~= pair[2] then done[#done + 1] = pair[2]:assign(f.cast(masters[i]:value(), pair[2].dtype)) end
        end
        if good then
          local n = good:assign_add(1)
          local grows = n:ge(self.period)
          local more = scale:value() * self.multiplier
          grows = f.logical_and(grows, f.is_finite(more))
          done[#done + 1] = scale:assign(f.where(grows, more, scale:value()))
          graph.control_dependencies({ n },
                                     function() done[#done + 1] = good:assign(f.where(n:ge(self.period), f.int32(0),
                                         n)) end)
        end
      end)
      if #done == 0 then done[1] = stepped end
      return graph.control_dependencies(done, function() return f.constant(true) end)
    end
    local function skip()
      local done = {}
      if good then done = { scale:assign(f.maximum(scale:value() / self.multiplier, f.float32(1))), good:assign(0) } end
      return graph.control_dependencies(done, function() return f.constant(false) end)
    end
    local stepped = graph.control_dependencies(waits,
                                               function() return control.cond(finite, step, skip,
                                                   { name = 'mixed_step' }) end)
    return after({ stepped }, opts.name)
  end)
end

return M
