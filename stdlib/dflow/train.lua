--- df.train: optimizers. `local step = df.train.AdamOptimizer(0.001):minimize(loss)`, then `df.run(step, feeds)`.
--
-- A step waits for the loss and for all gradients before it changes a variable, so what is fetched beside it belongs to the
-- values from before. Dense gradients go through one fused op per variable, sparse ones change only the rows they name.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local ops = require 'dflow.front.ops'
local arguments = require 'dflow.front.arguments'
local variable = require 'dflow.front.variable'
local gradients = require 'dflow.front.gradients'

local M = {}
local f = ops.functions
local Optimizer = { __name = 'dflow.Optimizer' }
Optimizer.__index = Optimizer

--- The learning rate and the like as an Output of the variable's dtype.
local function hyper(v, x)
  local d = convert.typed(x)
  if d and d ~= v.d then return f.cast(x, v.dtype) end
  return convert.to_output(x, v.d, v.graph)
end

--- A variable beside v, made once per optimizer.
local function slot(optimizer, v, name)
  local slots = optimizer.slots[v]
  if not slots then
    slots = {}
    optimizer.slots[v] = slots
  end
  if not slots[name] then
    local static = v.shape
    for _, d in ipairs(static or { -1 }) do
      if d < 0 then static = nil end
    end
    slots[name] = graph.with(v.graph, function()
      return variable.new(function() return static and f.zeros(static, v.dtype) or f.zeros_like(v.initial) end,
                          { name = v.name .. '/' .. name, trainable = false })
    end)
  end
  return slots[name]
end

--- A scalar variable of the optimizer itself.
local function scalar(optimizer, g, d, name, value)
  local key = name .. '/' .. d
  if not optimizer.scalars[key] then
    optimizer.scalars[key] = graph.with(g, function()
      return variable.new(value, { name = name, trainable = false, dtype = dtypes.name[d] })
    end)
  end
  return optimizer.scalars[key]
end

local function check_variables(vars, what)
  if type(vars) ~= 'table' then
    errors.bad('%s takes a list of Variables, not %s', what, errors.describe(vars))
  end
  if getmetatable(vars) == variable.Variable then vars = { vars } end
  for i, v in ipairs(vars) do
    if getmetatable(v) ~= variable.Variable then
      errors.bad('%s: element %d is %s, a Variable is expected', what, i, errors.describe(v))
    end
  end
  return vars
end

--- o:compute_gradients(loss, vars?): a list of {gradient, variable}; false where the loss does not depend on the variable.
-- @param vars  nil: all trainable variables of the loss's graph
function Optimizer:compute_gradients(loss, vars)
  if convert.typed(loss) == nil then
    errors.bad('compute_gradients takes a loss, an Output, not %s', errors.describe(loss))
  end
  loss = convert.to_output(loss)
  if vars == nil then
    vars = {}
    for _, v in ipairs(loss.graph.variables) do
      if variable.Variable.is_trainable(v) and dtypes.is_float(v.d) then vars[#vars + 1] = v end
    end
  end
  vars = check_variables(vars, 'compute_gradients')
  if #vars == 0 then errors.bad('there are no trainable variables') end
  local grads = gradients.gradients(loss, vars, { unconnected = 'none' })
  local list = {}
  for i, v in ipairs(vars) do list[i] = { grads[i], v } end
  return list
end

--- o:apply_gradients(list, {global_step=, name=}): the operation that does one step.
-- @param list  of {gradient, variable}; pairs whose gradient is false or nil are left out
function Optimizer:apply_gradients(list, opts)
  opts = errors.options(opts, 'apply_gradients', { 'global_step', 'name', 'after' })
  local pairs_list, grads = {}, {}
  for i, pair in ipairs(list) do
    local v = pair[2]
    if getmetatable(v) ~= variable.Variable then
      errors.bad('apply_gradients: pair %d is not {gradient, Variable}', i)
    end
    if pair[1] then
      pairs_list[#pairs_list + 1] = { pair[1], v }
      grads[#grads + 1] = pair[1]
    end
  end
  if #pairs_list == 0 then errors.bad('apply_gradients: no variable has a gradient') end
  if self.clip_norm then
    local clipped = f.clip_by_global_norm(grads, self.clip_norm)
    for i, pair in ipairs(pairs_list) do pair[1] = clipped[i] end
  end
  local g = pairs_list[1][2].graph
  return graph.with(g, function()
    local waits = {}
    for i, pair in ipairs(pairs_list) do
      local x = pair[1]
      waits[i] = gradients.is_slices(x) and x.values or convert.to_output(x, pair[2].d, g)
    end
    if opts.after then waits[#waits + 1] = opts.after end
    local before = self:prepare(g, pairs_list)
    local updates = {}
    graph.control_dependencies(waits, function()
      for i, pair in ipairs(pairs_list) do
        local x, v = pair[1], pair[2]
        if gradients.is_slices(x) then
          updates[i] = self:sparse(v, x, before)
        else
          updates[i] = self:dense(v, waits[i], before)
        end
      end
    end)
    graph.control_dependencies(updates, function() self:finish(updates, before) end)
    if opts.global_step then
      graph.control_dependencies(updates, function() updates[#updates + 1] = opts.global_step:assign_add(1) end)
    end
    return f.group(updates)
  end)
end

--- o:minimize(loss, vars?): the operation that does one step. The second argument may be {var_list=, global_step=}.
function Optimizer:minimize(loss, vars)
  local opts = {}
  if nest.is_plain(vars) and nest.has_names(vars) then
    opts = errors.options(vars, 'minimize', { 'var_list', 'global_step', 'name' })
    vars = opts.var_list
  end
  local list = self:compute_gradients(loss, vars)
  local any = false
  for _, pair in ipairs(list) do any = any or pair[1] end
  if not any then
    errors.bad('minimize: the loss %s depends on none of the variables', convert.to_output(loss).name)
  end
  return self:apply_gradients(list, { global_step = opts.global_step, name = opts.name, after = convert.to_output(loss) })
end

--- For subclasses: what is made once per step, and what happens after all variables were changed.
function Optimizer:prepare() return {} end
function Optimizer:finish() end

--- The Optimizer's own variables, in no particular order.
function Optimizer:variables()
  local list = {}
  for _, slots in pairs(self.slots) do
    for _, v in pairs(slots) do list[#list + 1] = v end
  end
  for _, v in pairs(self.scalars) do list[#list + 1] = v end
  return list
end

Optimizer.__tostring = function(o) return o.what end

-- ---- the optimizers ----------------------------------------------------------------------------------------------
--- A constructor: takes its parameters by place, or one table with names.
local function class(name, parameters, defaults, methods)
  methods.__index = methods
  methods.__tostring, methods.__name = Optimizer.__tostring, Optimizer.__name
  setmetatable(methods, { __index = Optimizer })
  return function(...)
    local o = arguments.take(name, parameters, { 'clip_norm', 'use_nesterov' }, ...)
    for key, v in pairs(defaults) do
      if o[key] == nil then o[key] = v end
    end
    if o.learning_rate == nil then errors.bad('%s: the learning rate is missing', name) end
    o.slots, o.scalars, o.what = setmetatable({}, { __mode = 'k' }), {}, name
    return setmetatable(o, methods)
  end
end

--- df.train.GradientDescentOptimizer(learning_rate): v -= learning_rate * gradient.
M.GradientDescentOptimizer = class('GradientDescentOptimizer', { 'learning_rate' }, {}, {
  dense = function(o, v, x)
    return registry.op('ResourceApplyGradientDescent', { v, hyper(v, o.learning_rate), x })
  end,
  sparse = function(o, v, x)
    return registry.op('ResourceSparseApplyGradientDescent', { v, hyper(v, o.learning_rate), x.values, x.indices })
  end,
})

--- df.train.MomentumOptimizer(learning_rate, momentum = 0.9, {use_nesterov}): a = momentum * a + gradient; v -= learning_rate * a.
M.MomentumOptimizer = class('MomentumOptimizer', { 'learning_rate', 'momentum' }, { momentum = 0.9 }, {
  dense = function(o, v, x)
    return registry.op('ResourceApplyMomentum', { v, slot(o, v, 'momentum'), hyper(v, o.learning_rate), x, hyper(v, o.momentum) },
                       { use_nesterov = o.use_nesterov })
  end,
  sparse = function(o, v, x)
    return registry.op('ResourceSparseApplyMomentum', { v, slot(o, v, 'momentum'), hyper(v, o.learning_rate), x.values, x.indices,
                       hyper(v, o.momentum) }, { use_nesterov = o.use_nesterov })
  end,
})

--- df.train.AdamOptimizer(learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8)
M.AdamOptimizer = class('AdamOptimizer', { 'learning_rate', 'beta1', 'beta2', 'epsilon' },
                        { learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8 }, {
  -- The powers of the betas: one pair per dtype, read before the step and multiplied after it.
  prepare = function(o, g, list)
    local powers = {}
    for _, pair in ipairs(list) do
      local d = pair[2].d
      if not powers[d] then
        local b1, b2 = scalar(o, g, d, 'beta1_power', o.beta1), scalar(o, g, d, 'beta2_power', o.beta2)
        powers[d] = { b1, b2, b1:value(), b2:value() }
      end
    end
    return powers
  end,
  dense = function(o, v, x, powers)
    local p = powers[v.d]
    return registry.op('ResourceApplyAdam', { v, slot(o, v, 'm'), slot(o, v, 'v'), p[3], p[4], hyper(v, o.learning_rate),
                       hyper(v, o.beta1), hyper(v, o.beta2), hyper(v, o.epsilon), x }, { use_nesterov = o.use_nesterov })
  end,
  sparse = function(o, v, x, powers)
    local p = powers[v.d]
    return registry.op('ResourceSparseApplyAdam', { v, slot(o, v, 'm'), slot(o, v, 'v'), p[3], p[4], hyper(v, o.learning_rate),
                       hyper(v, o.beta1), hyper(v, o.beta2), hyper(v, o.epsilon), x.values, x.indices }, { use_nesterov = o.use_nesterov })
  end,
  finish = function(o, updates, powers)
    for d, p in pairs(powers) do
      updates[#updates + 1] = p[1]:assign(p[3] * hyper({ d = d, dtype = dtypes.name[d], graph = p[1].graph }, o.beta1))
      updates[#updates + 1] = p[2]:assign(p[4] * hyper({ d = d, dtype = dtypes.name[d], graph = p[1].graph }, o.beta2))
    end
  end,
})

M.SGD, M.Momentum, M.Adam = M.GradientDescentOptimizer, M.MomentumOptimizer, M.AdamOptimizer

--- df.train.exponential_decay(rate, step, decay_steps, decay_rate, {staircase}): rate * decay_rate ^ (step / decay_steps).
function M.exponential_decay(rate, step, decay_steps, decay_rate, opts)
  opts = errors.options(opts, 'exponential_decay', { 'staircase', 'name' })
  local p = f.cast(convert.to_output(step), 'float32') / decay_steps
  if opts.staircase then p = f.floor(p) end
  return convert.to_output(rate, dtypes.FLOAT32, p.graph) * f.pow(convert.to_output(decay_rate, dtypes.FLOAT32, p.graph), p)
end

return setmetatable(M, { __index = function(_, name)
  local names = {}
  for k in pairs(M) do names[#names + 1] = k end
  table.sort(names)
  errors.bad("df.train has no '%s'%s (it has: %s)", tostring(name), errors.hint(name, names), table.concat(names, ', '))
end })
