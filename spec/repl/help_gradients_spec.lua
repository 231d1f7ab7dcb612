-- What help says of an op's gradient is the op's gradient.
local df = require 'dflow'
local registry = require 'dflow.front.registry'
local derivatives = require 'dflow.docs.derivatives'
local graphs = require 'spec.op_gradients'
local support = require 'spec.support'

--- A formula as a function of what its names stand for; nil when a part of it is said in words.
local function compiled(formula, names)
  local env = setmetatable({ pi = math.pi }, { __index = function(_, name)
    local v = names[name]
    if v == nil then v = df[name] end
    return v
  end })
  local text = 'return ' .. formula:gsub(', zero .*', '')
  if setfenv then return setfenv(assert(loadstring(text)), env) end
  return assert(load(text, '=formula', 't', env))
end

--- The node of a type that leads to y, and everything its formula may name.
local function names_of(e, y)
  local found
  for _, op in ipairs(y.graph:ops()) do if op.type == e.type then found = op end end
  local names = {}
  for i, a in ipairs(e.inputs) do names[a.name] = found.inputs[i] end
  for i, a in ipairs(e.outputs) do names[a.name] = found.outputs[i] end
  for _, a in ipairs(e.attrs) do names[a.name] = tonumber(a.default) or a.default end
  return names, found
end

describe('the gradient that help tells', function()
  local n = 0
  for name, formulas in pairs(derivatives.formulas) do
    local e = registry.entry(name)
    if e and graphs.has(e.type) and e.type ~= 'Conj' and name ~= 'print' then
      it('of ' .. name .. ' is the one that gradients builds', function()
        local _, xs, feeds = graphs.build(e.type)
        local names, node = names_of(e, xs[1])
        local y = node.outputs[1]
        local dy = df.constant(support.tensor(df.tensor(df.run(y, feeds)).shape, 0.5, 1.5, y.dtype, 77))
        names.dy = dy
        for input, formula in pairs(formulas) do
          local x = assert(names[input], input)
          local want = df.gradients(y, x, { grad_ys = dy })
          local told = compiled(formula, names)()
          local both = df.run({ want, told }, feeds)
          local a, b = df.tensor(both[1]), df.tensor(both[2])
          assert.are.same(a.shape, b.shape, name)
          local flat_a, flat_b = a:list(), b:list()
          for i = 1, #flat_a do
            assert.is_true(math.abs(flat_a[i] - flat_b[i]) <= 1e-9 + 1e-6 * math.abs(flat_a[i]),
                           ('%s by %s: %s is %g, gradients gives %g'):format(name, input, formula, flat_b[i], flat_a[i]))
          end
        end
        n = n + 1
      end)
    end
  end
  it('was computed for most ops that have a formula', function() assert.is_true(n > 60, tostring(n)) end)

  it('is told of every op: what it is, or why there is none', function()
    for _, name in ipairs(registry.names()) do
      local e = registry.entry(name)
      if e.gradient then
        assert.is_truthy(derivatives.formulas[name] or derivatives.words[name], name)
        for input in pairs(derivatives.formulas[name] or {}) do
          local known = false
          for _, a in ipairs(e.inputs) do known = known or a.name == input end
          assert.is_true(known, name .. ': ' .. input)
        end
      else
        assert.is_nil(derivatives.formulas[name] or derivatives.words[name], name)
      end
    end
    for _, t in ipairs{ derivatives.formulas, derivatives.words, derivatives.none } do
      for name in pairs(t) do assert.is_truthy(registry.entry(name), name) end
    end
  end)
end)
