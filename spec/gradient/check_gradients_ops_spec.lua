--- The gradient function of every op is right, and df.check_gradients finds the one that is not.
local df = require 'dflow'
local core = require 'dflow.backend'
local registry = require 'dflow.front.registry'
local graphs = require 'spec.op_gradients'

local types = graphs.types()

--- Calls fn while gradients of ops of this type come out too large.
local function with_broken(kind, fn)
  core.op_break_gradient(registry.need(kind).id, graphs.factor(kind))
  local ok, e = pcall(fn)
  core.op_break_gradient(-1, 1)
  if not ok then error(e, 0) end
end

describe(('the gradient functions of %d ops'):format(#types), function()
  it('agree with differences, and so do theirs', function()
    local wrong = {}
    for _, kind in ipairs(types) do
      df.reset()
      local y, xs, feeds, order = graphs.build(kind)
      local ran, ok, report = pcall(df.check_gradients, y, xs, { feeds = feeds, order = order })
      if not (ran and ok) then wrong[#wrong + 1] = ('%s: %s'):format(kind, tostring(ran and report or ok)) end
    end
    assert(#wrong == 0, table.concat(wrong, '\n'))
  end)

  it('are found, each, when they are wrong', function()
    local missed = {}
    for _, kind in ipairs(types) do
      df.reset()
      local y, xs, feeds = graphs.build(kind)
      with_broken(kind, function()
        local ok, report = df.check_gradients(y, xs, { feeds = feeds, ways = false })
        local found = not ok and report:match('the first wrong node is %S+ = (%w+)%b()  %-%- [^\n]*op_gradients%.lua:%d+')
        if found ~= kind and (ok or not graphs.unnamed[kind]) then missed[#missed + 1] = ('%s was broken, and the report is: %s'):format(kind, ok and 'all is well' or report) end
      end)
    end
    assert(#missed == 0, table.concat(missed, '\n'))
  end)

  it('are by every operand that is a float, or tell of one by which it is not known', function()
    local wrong = {}
    for _, kind in ipairs(types) do
      df.reset()
      local y, xs, feeds = graphs.build(kind)
      local given, node = {}, nil
      for _, x in ipairs(xs) do given[x] = true end
      for _, op in ipairs(df.default_graph():ops()) do if op.type == kind then node = op end end
      for k, x in ipairs(node and kind:find '^TensorArray' == nil and kind ~= 'Cholesky' and node.inputs or {}) do       -- a Cholesky reads half of its operand
        if x.dtype:find '^float' and not given[x] then
          local ran, ok, report = pcall(df.check_gradients, y, { x }, { feeds = feeds, ways = false, tolerance = x.dtype == 'float32' and 0.02 or nil })
          local told = not ran and ok.message:find('its gradient by input ' .. k - 1, 1, true)
          if not told and not (ran and ok) then wrong[#wrong + 1] = ('%s, input %d: %s'):format(kind, k - 1, tostring(ran and report or ok)) end
        end
      end
    end
    assert(#wrong == 0, table.concat(wrong, '\n'))
  end)

  it('are all of those that have one', function()
    local missing = {}
    for _, kind in ipairs(registry.types()) do
      if registry.need(kind).gradient and not graphs.has(kind) then missing[#missing + 1] = kind end
    end
    assert.same({}, missing)
  end)
end)
