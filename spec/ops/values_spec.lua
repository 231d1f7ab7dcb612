-- What every op gives: for each op of the registry that has no effect, inputs without elements, of one element and of a few, of each dtype that it takes, and the first
-- elements of what it gives, to three digits. spec/pages/values.txt has them (spec/pages.lua): no value of a kernel changes unseen. That
-- they are right is in the specs of the ops, where TensorFlow, NumPy and the ref kernels say what is.
local dtypes = require 'dflow.front.dtypes'
local pages = require 'spec.pages'
local told = require 'spec.told' { floats = { {}, { 1 }, { 2, 3 }, { 0 }, { 2, 0 }, { 0, 3 }, { 3, 3 }, { 2, 2, 2 }, { 1, 3, 3, 2 }, { 5 }, { -1 } },
                                   numbers = { 1, { 0 }, { 1, 0 }, { -1 }, {}, { 3, 2 }, { 1, 1, 0 }, { { 1 }, { 0 } }, { 1, 2, 2, 1 }, -1, 2 }, most = 33,
                                   element = function(i, d)
  if d == 'string' then return ({ 'a', '', 'bc', '12', ' d', 'e,f' })[i % 6 + 1] end
  if d == 'bool' then return i % 3 ~= 0 end
  local v = (i * 7 % 11 - 4) / 2
  if d:find '^uint' then return math.floor(math.abs(v)) end
  return d:find 'int' and math.floor(v) or v
end }

local DTYPES = { 'float32', 'float64', 'float16', 'bfloat16', 'int8', 'int16', 'int32', 'int64', 'uint8', 'uint16', 'uint32', 'uint64', 'bool', 'string',
                 'complex64', 'complex128' }

--- The dtypes that the inputs of the first type variable may be: for each the dtypes by their places.
local function dtypes_of(op)
  local var
  for _, a in ipairs(op.entry.inputs) do var = var or a.var end
  local list = {}
  for _, name in ipairs(var and DTYPES or {}) do
    local set = op.entry.types[var]
    if not set or set[dtypes.number[name]] then
      local as = {}
      for i, a in ipairs(op.entry.inputs) do if a.var == var then as[i] = name end end
      list[#list + 1] = as
    end
  end
  return list
end

-- Of these the sign of a vector is free, and rounding tells whether a matrix is singular that is so but for rounding: the page has what LAPACK's order
-- of operations gives. spec/cuda/numerics.lua compares a GPU's by what they are.
local host_it = require('spec.support').host_it(it, pending)
local FREE = { LogMatrixDeterminant = true, MatrixInverse = true, MatrixSolve = true, SelfAdjointEigV2 = true, Svd = true }

describe('what an op gives', function()
  local n = 0
  for _, op in ipairs(told:ops 'values.txt') do
    if not op.entry.stateful then
      n = n + 1;
      (FREE[op.type] and host_it or it)('is what it was: ' .. op.type, function()
        local lines = {}
        local inputs = #op.entry.inputs
        for k, choice in ipairs(told:choices(inputs)) do lines[k] = told:line(op, choice) end
        for _, as in ipairs(dtypes_of(op)) do
          for _, k in ipairs{ 3, 7 } do
            local choice = {}
            for i = 1, inputs do choice[i] = k end
            lines[#lines + 1] = told:line(op, choice, nil, nil, as)
          end
        end
        pages.section('values.txt', op.type, table.concat(lines, '\n'))
      end)
    end
  end

  it('is asked of most ops', function() assert.is_true(n > 300, n) end)
end)
