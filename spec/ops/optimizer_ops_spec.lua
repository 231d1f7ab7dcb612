--- The steps of TensorFlow's optimizers, against what TensorFlow 2.15.1 made of them.
local df = require 'dflow'
local op = require('dflow.front.registry').op
local support = require 'spec.support'
local cases = require('spec.support').recorded 'spec/tensorflow/optimizers'

--- Builds a case's op: its variables, with a way to read each.
local function build(case, resource, dtype)
  local kind, variables, args = case[1], {}, {}
  for i, v in ipairs(case[2]) do
    local x = df.constant(v, dtype)
    variables[i] = op(resource and 'VarHandleOp' or 'VariableV2', {}, { dtype = dtype, shape = x.shape })
    df.run(op(resource and 'AssignVariableOp' or 'Assign', { variables[i], x }))
    args[i] = variables[i]
  end
  for _, a in ipairs(case[3]) do
    args[#args + 1] = a[1] == 'indices' and df.int32(a[2]) or a[1] == 'global_step' and df.int64(a[2]) or df.constant(a[2], dtype)
  end
  return op(kind, args, case[4]), variables
end

local function check(case, dtype, tolerance)
  local resource = case[1]:find('Resource') ~= nil
  local step, variables = build(case, resource, dtype)
  df.run(step)
  for i, v in ipairs(variables) do
    local now = df.run(df.cast(resource and op('ReadVariableOp', { v }, { dtype = dtype }) or df.identity(v), 'float64'))
    support.near(now, case[5][i], { what = ('%s: %s'):format(case[1], i == 1 and 'the variable' or 'slot ' .. i - 1), rtol = tolerance, atol = tolerance })
  end
end

describe("a step of TensorFlow's", function()
  for n, case in ipairs(cases) do
    it(('%s makes of the variable and its slots what TensorFlow makes of them (%d)'):format(case[1], n), function()
      check(case, 'float32', 1e-5)
      check(case, 'float64', 1e-5)
    end)
  end

  it('works on halves', function()
    for _, case in ipairs(cases) do
      if case[1] == 'ApplyMomentum' or case[1] == 'SparseApplyAdagrad' then check(case, 'float16', 1e-2) end
    end
  end)

  it('leaves the accumulators alone where their slots are not to be updated', function()
    for _, kind in ipairs{ 'ApplyAdagrad', 'SparseApplyAdagrad', 'ApplyAdagradV2', 'SparseApplyAdagradV2', 'ResourceApplyAdagrad', 'ResourceSparseApplyAdagrad',
                           'ResourceApplyAdagradV2', 'ResourceSparseApplyAdagradV2' } do
      local sparse, resource = kind:find 'Sparse', kind:find '^Resource' ~= nil
      for _, update in ipairs{ false, true } do
        df.reset()
        local rest = { { 'lr', 0.5 } }
        if kind:find 'V2$' then rest[2] = { 'epsilon', 0.25 } end
        rest[#rest + 1] = { 'grad', sparse and { { 3, 4 } } or { { 0, 0 }, { 3, 4 } } }
        if sparse then rest[#rest + 1] = { 'indices', { 1 } } end
        local step, variables = build({ kind, { { { 1, 2 }, { 3, 4 } }, { { 4, 4 }, { 16, 9 } } }, rest, { update_slots = update } }, resource, 'float32')
        df.run(step)
        local now = {}
        for i, v in ipairs(variables) do now[i] = df.run(resource and op('ReadVariableOp', { v }, { dtype = 'float32' }) or df.identity(v)) end
        local sum, more = update and { 25, 25 } or { 16, 9 }, kind:find 'V2$' and 0.25 or 0
        support.near(now, { { { 1, 2 }, { 3 - 0.5 * 3 / (math.sqrt(sum[1]) + more), 4 - 0.5 * 4 / (math.sqrt(sum[2]) + more) } }, { { 4, 4 }, sum } },
                     { what = kind, rtol = 1e-6 })
      end
    end
  end)

  it('changes nothing where a shape or an index is wrong', function()
    local function variable(x)
      local v = op('VariableV2', {}, { dtype = 'float32', shape = x.shape })
      df.run(op('Assign', { v, x }))
      return v
    end
    local v, accum = variable(df.float32{ 1, 2 }), variable(df.float32{ 1, 1 })
    local g = df.placeholder_with_default(df.float32{ 1, 2, 3 }, { -1 })
    for _, step in ipairs{ op('ApplyAdagrad', { v, accum, df.float32(0.1), g }),
                           op('SparseApplyAdagrad', { v, accum, df.float32(0.1), df.float32{ 1, 1 }, df.int32{ 0, 2 } }),
                           op('ApplyAdagrad', { v, v, df.float32(0.1), df.float32{ 1, 1 } }) } do
      local ok, e = pcall(df.run, step)
      assert.is_false(ok)
      assert.equal('invalid_argument', e.code)
    end
    support.same(df.run{ v, accum }, { { 1, 2 }, { 1, 1 } })
  end)

  it('takes one number for a rate, of variables of either kind', function()
    local w, m, v = df.Variable({ 1.0, 2 }), df.Variable({ 0.0, 0 }), df.Variable({ 0.0, 0 })
    local g, rows, at = df.float32{ 1, 1 }, df.float32{ 1 }, df.int32{ 0 }
    local rate = df.placeholder('float32')
    for _, given in ipairs{ df.tensor{ 0.5 }, df.tensor{ 0.5, 0.5 }, df.tensor({}, 'float32', { 0 }) } do
      for _, step in ipairs{ df.apply_gradient_descent(w, rate, g), df.sparse_apply_gradient_descent(w, rate, rows, at),
                             df.apply_momentum(w, m, rate, g, 0.9), df.sparse_apply_momentum(w, m, 0.1, rows, at, rate),
                             df.apply_adam(w, m, v, 0.9, 0.99, 0.1, rate, 0.99, 1e-8, g),
                             df.sparse_apply_adam(w, m, v, 0.9, 0.99, rate, 0.9, 0.99, 1e-8, rows, at) } do
        assert.matches('must be a scalar', support.message_of(df.run, step, { [rate] = given }))
      end
    end
    support.same(df.run{ w, m, v }, { { 1, 2 }, { 0, 0 }, { 0, 0 } })
  end)
end)
