--- Ops on words, on rows of any length, on bins, boxes and patches give what TensorFlow gives (words_values.lua.gz), and refuse what it refuses.
local df = require 'dflow'
local registry = require 'dflow.front.registry'
local cases = require('spec.support').recorded 'spec/ops/words_values' (function(list) return df.tensor(list, type(list[1]) == 'string' and 'string' or 'float32') end)

local tensor
function tensor(t)
  if t.list then
    local out = {}
    for i, each in ipairs(t.list) do out[i] = tensor(each) end
    return out
  end
  local shape = {}
  for i, d in ipairs(t[2]) do shape[i] = d end
  if #t[3] == 0 then return df.zeros(shape, t[1]) end
  return df.reshape(df.constant(df.tensor(t[3], t[1])), shape)
end

local function close(a, b) return a == b or (a ~= a and b ~= b) or (type(a) == 'number' and math.abs(a - b) <= 1e-6 + 1e-6 * math.abs(b)) end

describe('TensorFlow finds the same', function()
  local ops, by = {}, {}
  for _, c in ipairs(cases) do
    if not by[c[1]] then by[c[1]], ops[#ops + 1] = {}, c[1] end
    table.insert(by[c[1]], c)
  end
  for _, name in ipairs(ops) do
    it('by ' .. name, function()
      for k, c in ipairs(by[name]) do
        local inputs = {}
        for i, t in ipairs(c[2]) do inputs[i] = tensor(t) end
        local ok, results = pcall(function()
          local outputs = { registry.op(name, inputs, c[3]) }
          return df.run(outputs, nil, { tensors = true })
        end)
        local what = ('%s, case %d'):format(name, k)
        if not c[4] then
          assert.is_false(ok, what)
          assert.equal('invalid_argument', results.code, what)
        else
          assert.is_true(ok, what .. ': ' .. tostring(not ok and (results.message or results)))
          for i, t in ipairs(c[4]) do
            assert.equal(t[1], results[i].dtype, what)
            assert.same(t[2], results[i].shape, what)
            for j, v in ipairs(results[i]:list()) do
              assert.is_true(close(v, t[3][j]), ('%s: element %d of output %d is %s, TensorFlow has %s'):format(what, j, i, tostring(v), tostring(t[3][j])))
            end
          end
        end
      end
    end)
  end
end)
