--- The optimizers: what each makes of a gradient. Formulas and defaults are TensorFlow 1's; AdamW's are PyTorch's and
-- Lamb's those of its paper (You et al., 2020).
--
-- Dense gradients go through one fused op per variable. Sparse ones change only the rows they name, but for those of
-- the family of Adam, whose averages decay everywhere, as TensorFlow's do.
local dtypes = require 'dflow.front.dtypes'
local errors = require 'dflow.front.errors'
local registry = require 'dflow.front.registry'
local ops = require 'dflow.front.ops'
local graph = require 'dflow.front.graph'
local optimizer = require 'dflow.train.optimizer'
local gradients = require 'dflow.front.gradients'

local M = {}
local f = ops.functions
local hyper, slot, class, unique_rows = optimizer.hyper, optimizer.slot, optimizer.class, optimizer.unique_rows

--- df.train.SGD(learning_rate): v -= learning_rate * gradient.
M.GradientDescentOptimizer = class('GradientDescentOptimizer', { 'learning_rate' }, {}, {}, {
  dense = function(o, v, x)
    return registry.op('ResourceApplyGradientDescent', { v, hyper(v, o.learning_rate), x })
  end,
  sparse = function(o, v, x)
    return registry.op('ResourceSparseApplyGradientDescent', { v, hyper(v, o.learning_rate), x.values, x.indices })
  end,
})

-- ---- momentum ----------------------------------------------------------------------------------------------------
local momentum = {
  dense = function(o, v, x)
    return registry.op('ResourceApplyMomentum',
                       { v, slot(o, v, 'momentum'), hyper(v, o.learning_rate), x, hyper(v, o.momentum) },
                       { use_nesterov = o.use_nesterov })
  end,
  sparse = function(o, v, x)
    return registry.op('ResourceSparseApplyMomentum',
                       { v, slot(o, v, 'momentum'), hyper(v, o.learning_rate), x.values, x.indices,
                       hyper(v, o.momentum) }, { use_nesterov = o.use_nesterov })
  end,
}


--- df.train.Momentum(learning_rate, momentum = 0.9, {use_nesterov}): a = momentum * a + gradient; v -= learning_rate *
-- a.
M.MomentumOptimizer = class('MomentumOptimizer', { 'learning_rate', 'momentum' }, { 'use_nesterov' },
                            { momentum = 0.9, use_nesterov = false }, momentum)

--- df.train.Nesterov(learning_rate, {momentum = 0.9}): Momentum that looks ahead: v -= learning_rate * (gradient +
-- momentum * a).
M.Nesterov = class('Nesterov', { 'learning_rate', 'momentum' }, {}, { momentum = 0.9 }, {
  check = function(o) o.use_nesterov = true end,
  dense = momentum.dense, sparse = momentum.sparse,
})

-- ---- steps of their own for each element ---------------------------------------------------------------------------
local function positive_accumulator(o, what)
  if type(o.initial_accumulator) ~= 'number' or o.initial_accumulator < 0 then
    errors.bad('%s: initial_accumulator is a number from 0 up, not %s', what, errors.describe(o.initial_accumulator))
  end
end

--- df.train.Adagrad(learning_rate, {initial_accumulator = 0.1}): a += gradient ^ 2; v -= learning_rate * gradient /
-- sqrt(a).
M.AdagradOptimizer = class('AdagradOptimizer', { 'learning_rate', 'initial_accumulator' },
                           { 'initial_accumulator_value' },
                           { initial_accumulator = 0.1 }, {
  long_names = { initial_accumulator_value = 'initial_accumulator' },
  check = function(o) positive_accumulator(o, 'AdagradOptimizer') end,
  dense = function(o, v, x)
    return registry.op('ResourceApplyAdagrad',
                       { v, slot(o, v, 'accumulator', o.initial_accumulator), hyper(v, o.learning_rate), x })
  end,
  sparse = function(o, v, x)
    local values, indices = unique_rows(x)
    return registry.op('ResourceSparseApplyAdagrad',
                       { v, slot(o, v, 'accumulator', o.initial_accumulator), hyper(v, o.learning_rate), values,
                         indices })
  end,
})

local function adadelta(o, v)
  return { v, slot(o, v, 'accum'), slot(o, v, 'accum_update'), hyper(v, o.learning_rate), hyper(v, o.rho),
           hyper(v, o.epsilon) }
end

--- df.train.Adadelta(learning_rate = 0.001, {rho = 0.95, epsilon = 1e-8})
M.AdadeltaOptimizer = class('AdadeltaOptimizer', { 'learning_rate', 'rho', 'epsilon' }, {},
                            { learning_rate = 0.001, rho = 0.95, epsilon = 1e-8 }, {
  dense = function(o, v, x)
    local inputs = adadelta(o, v)
    inputs[#inputs + 1] = x
    return registry.op('ResourceApplyAdadelta', inputs)
  end,
  sparse = function(o, v, x)
    local inputs = adadelta(o, v)
    inputs[#inputs + 1], inputs[#inputs + 2] = unique_rows(x)
    return registry.op('ResourceSparseApplyAdadelta', inputs)
  end,
})

local function rmsprop(o, v)
  local inputs = { v }
  if o.centered then inputs[2] = slot(o, v, 'mg') end
  for _, x in ipairs{ slot(o, v, 'rms', 1), slot(o, v, 'momentum'), hyper(v, o.learning_rate), hyper(v, o.decay),
                      hyper(v, o.momentum),
                      hyper(v, o.epsilon) } do
    inputs[#inputs + 1] = x
  end
  return inputs
end

--- df.train.RMSProp(learning_rate, {decay = 0.9, momentum = 0, epsilon = 1e-10, centered = false})
M.RMSPropOptimizer = class('RMSPropOptimizer', { 'learning_rate', 'decay', 'momentum', 'epsilon' }, { 'centered' },
                           { decay = 0.9, momentum = 0.0, epsilon = 1e-10, centered = false }, {
  dense = function(o, v, x)
    local inputs = rmsprop(o, v)
    inputs[#inputs + 1] = x
    return registry.op(o.centered and 'ResourceApplyCenteredRMSProp' or 'ResourceApplyRMSProp', inputs)
  end,
  sparse = function(o, v, x)
    local inputs = rmsprop(o, v)
    inputs[#inputs + 1], inputs[#inputs + 2] = unique_rows(x)
    return registry.op(o.centered and 'ResourceSparseApplyCenteredRMSProp' or 'ResourceSparseApplyRMSProp', inputs)
  end,
})

--- The numbers of Ftrl behind its gradient; with l2_shrinkage those of the op that has it.
local function ftrl(o, v, kind, ...)
  local inputs = { v, slot(o, v, 'accum', o.initial_accumulator), slot(o, v, 'linear'), ... }
  local shrinks = o.l2_shrinkage ~= 0
  for _, x in ipairs{ hyper(v, o.learning_rate), hyper(v, o.l1), hyper(v, o.l2) } do inputs[#inputs + 1] = x end
  if shrinks then inputs[#inputs + 1] = hyper(v, o.l2_shrinkage) end
  inputs[#inputs + 1] = hyper(v, o.learning_rate_power)
  return registry.op(kind .. (shrinks and 'V2' or ''), inputs)
end

--- df.train.Ftrl(learning_rate, {learning_rate_power = -0.5, initial_accumulator = 0.1, l1 = 0, l2 = 0, l2_shrinkage =
-- 0})
M.FtrlOptimizer = class('FtrlOptimizer', { 'learning_rate', 'learning_rate_power', 'initial_accumulator', 'l1', 'l2' },
  { 'l2_shrinkage', 'initial_accumulator_value', 'l1_regularization_strength', 'l2_regularization_strength',
    'l2_shrinkage_regularization_strength' },
  { learning_rate_power = -0.5, initial_accumulator = 0.1, l1 = 0.0, l2 = 0.0, l2_shrinkage = 0.0 }, {
  long_names = { initial_accumulator_value = 'initial_accumulator', l1_regularization_strength = 'l1',
                 l2_regularization_strength = 'l2',
                 l2_shrinkage_regularization_strength = 'l2_shrinkage' },
  check = function(o)
    positive_accumulator(o, 'FtrlOptimizer')
    for _, key in ipairs{ 'l1', 'l2', 'l2_shrinkage' } do
      if type(o[key]) == 'number' and o[key] < 0 then
        errors.bad('FtrlOptimizer: %s is a number from 0 up, not %s', key, tostring(o[key]))
      end
    end
    if type(o.learning_rate_power) == 'number' and o.learning_rate_power > 0 then
      errors.bad('FtrlOptimizer: learning_rate_power is a number up to 0, not %s', tostring(o.learning_rate_power))
    end
  end,
  dense = function(o, v, x) return ftrl(o, v, 'ResourceApplyFtrl', x) end,
  sparse = function(o, v, x) return ftrl(o, v, 'ResourceSparseApplyFtrl', unique_rows(x)) end,
})

-- ---- the family of Adam ---------------------------------------------------------------------------------------------
--- A stand-in for a variable of a dtype, for hyper.
local function of_dtype(d, g) return { d = d, dtype = dtypes.name[d], graph = g } end

local adam = {
  -- The powers of the betas: one pair per dtype, read before the step and multiplied after it.
  prepare = function(o, g, list)
    local powers = {}
    for _, pair in ipairs(list) do
      local d = pair[2].d
      if not powers[d] then
        local b1, b2 = optimizer.scalar(o, g, d, 'beta1_power', o.beta1),
        optimizer.scalar(o, g, d, 'beta2_power', o.beta2)
        powers[d] = { b1, b2, b1:value(), b2:value() }
      end
    end
    return powers
  end,
  finish = function(o, updates, powers)
    local kinds = {}
    for d in pairs(powers) do kinds[#kinds + 1] = d end
    table.sort(kinds)
    for _, d in ipairs(kinds) do
      local p = powers[d]
      local like = of_dtype(d, p[1].graph)
      updates[#updates + 1] = p[1]:assign(p[3] * hyper(like, o.beta1))
      updates[#updates + 1] = p[2]:assign(p[4] * hyper(like, o.beta2))
    end
  end,
  --- The inputs of the op but for the gradient.
  inputs = function(o, v, powers, epsilon)
    local p = powers[v.d]
    return { v, slot(o, v, 'm'), slot(o, v, 'v'), p[3], p[4], hyper(v, o.learning_rate), hyper(v, o.beta1),
             hyper(v, o.beta2),
             epsilon or hyper(v, o.epsilon) }
  end,
}

local function adam_dense(o, v, x, powers, epsilon)
  local inputs = adam.inputs(o, v, powers, epsilon)
  inputs[#inputs + 1] = x
  return registry.op('ResourceApplyAdam', inputs, { use_nesterov = o.use_nesterov })
end

local function adam_sparse(o, v, x, powers, epsilon)
  local inputs = adam.inputs(o, v, powers, epsilon)
  inputs[#inputs + 1], inputs[#inputs + 2] = x.values, x.indices
  return registry.op('ResourceSparseApplyAdam', inputs)
end

--- Nesterov's step on rows, as TensorFlow's contrib does it: the averages decay everywhere, the variable changes in the
-- rows named only.
local function nadam_sparse(o, v, x, powers)
  local values, indices = unique_rows(x)
  local p, m, s = powers[v.d], slot(o, v, 'm'), slot(o, v, 'v')
  local beta1, beta2 = hyper(v, o.beta1), hyper(v, o.beta2)
  local rate = hyper(v, o.learning_rate) * f.sqrt(1 - p[4]) / (1 - p[3])
  local g1, decayed = values * (1 - beta1), { m:assign(m:value() * beta1), s:assign(s:value() * beta2) }
  local added
  graph.control_dependencies(decayed, function()
    added = { m:scatter_add(indices, g1), s:scatter_add(indices, values * values * (1 - beta2)) }
  end)
  return graph.control_dependencies(added, function()
    local ahead = g1 + beta1 * f.gather(m:value(), indices)
    return v:scatter_sub(indices, rate * ahead / (f.sqrt(f.gather(s:value(), indices)) + hyper(v, o.epsilon)))
  end)
end

--- df.train.Adam(learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, {use_nesterov})
M.AdamOptimizer = class('AdamOptimizer', { 'learning_rate', 'beta1', 'beta2', 'epsilon' }, { 'use_nesterov' },
                        { learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, use_nesterov = false }, {
  prepare = adam.prepare, finish = adam.finish, dense = adam_dense,
  sparse = function(o, ...) return (o.use_nesterov and nadam_sparse or adam_sparse)(o, ...) end,
})

--- df.train.Nadam(learning_rate = 0.001, {beta1, beta2, epsilon}): Adam with Nesterov's momentum, as TensorFlow 1's
-- contrib.
M.Nadam = class('Nadam', { 'learning_rate', 'beta1', 'beta2', 'epsilon' }, {},
                { learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8 }, {
  check = function(o) o.use_nesterov = true end,
  prepare = adam.prepare, finish = adam.finish, dense = adam_dense, sparse = nadam_sparse,
})

--- PyTorch adds epsilon to the root of the corrected average: sqrt(v / (1 - beta2^t)) + epsilon.
local function corrected_epsilon(o, v, powers)
  return hyper(v, o.epsilon) * f.sqrt(1 - powers[v.d][4])
end

--- df.train.AdamW(learning_rate = 0.001, {weight_decay = 0.01, beta1, beta2, epsilon}): Adam, and learning_rate *
--- weight_decay * weight is taken off first, as in PyTorch. A sparse gradient's decay is that of its rows.
M.AdamW = class('AdamW', { 'learning_rate' }, { 'weight_decay', 'beta1', 'beta2', 'epsilon' },
                { learning_rate = 0.001, weight_decay = 0.01, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8 }, {
  prepare = adam.prepare, finish = adam.finish,
  dense = function(o, v, x, powers)
    local kept = 1 - hyper(v, o.learning_rate) * hyper(v, o.weight_decay)
    return graph.control_dependencies({ v:assign(v:value() * kept) }, function()
      return adam_dense(o, v, x, powers, corrected_epsilon(o, v, powers))
    end)
  end,
  sparse = function(o, v, x, powers)
    local values, indices = unique_rows(x)
    local lost = hyper(v, o.learning_rate) * hyper(v, o.weight_decay)
    return graph.control_dependencies({ v:scatter_sub(indices, f.gather(v:value(), indices) * lost) }, function()
      return adam_sparse(o, v, { values = values, indices = indices }, powers, corrected_epsilon(o, v, powers))
    end)
  end,
})

--- df.train.Lamb(learning_rate, {beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0.01}): AdamW's step,
--- scaled per variable by the norm of the weights over that of the step.
M.Lamb = class('Lamb', { 'learning_rate' }, { 'beta1', 'beta2', 'epsilon', 'weight_decay' },
               { learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0.01 }, {
  prepare = adam.prepare, finish = adam.finish,
  dense = function(o, v, x, powers)
    local p, beta1, beta2 = powers[v.d], hyper(v, o.beta1), hyper(v, o.beta2)
    local m, s, w = slot(o, v, 'm'), slot(o, v, 'v'), v:value()
    local m_now = m:assign(m:value() * beta1 + x * (1 - beta1))
    local s_now = s:assign(s:value() * beta2 + f.square(x) * (1 - beta2))
    local step = (m_now / (1 - p[3])) / (f.sqrt(s_now / (1 - p[4])) + hyper(v, o.epsilon)) + w
    * hyper(v, o.weight_decay)
    local of_weights, of_step = f.sqrt(f.reduce_sum(f.square(w))), f.sqrt(f.reduce_sum(f.square(step)))
    local both = f.logical_and(of_weights:gt(0), of_step:gt(0))
    local one = f.constant(1, v.dtype)
    local ratio = f.where(both, of_weights / f.where(both, of_step, one), one)
    return v:assign(w - step * (ratio * hyper(v, o.learning_rate)))
  end,
  sparse = function(o, v, x, powers) return o:dense(v, gradients.IndexedSlices.as_output(x), powers) end,
})

M.SGD, M.Momentum, M.Adagrad, M.Adadelta = M.GradientDescentOptimizer, M.MomentumOptimizer, M.AdagradOptimizer,
  M.AdadeltaOptimizer
M.RMSProp, M.Ftrl, M.Adam = M.RMSPropOptimizer, M.FtrlOptimizer, M.AdamOptimizer

return M
