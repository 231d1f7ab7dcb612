-- What every op says and gives when it knows nothing of its inputs until it runs: for each op of the registry that has no effect, inputs of many
-- ranks and sizes, one at a time another, and the shapes and first elements of what it gives, or what its kernel says is wrong. spec/pages/late.txt has them
-- (spec/pages.lua): no check and no message of a kernel changes unseen.
local pages = require 'spec.pages'
local host_it = require('spec.support').host_it(it, pending)
local told = require 'spec.told' { late = true, most = 90, bases = { 3, 5, 7 },
                                   floats = { {}, { 3 }, { 2, 3 }, { 0 }, { 1, 4, 4, 2 }, { 1 }, { 3, 3 }, { 2, 2, 2 }, { 2 } },
                                   numbers = { 1, { 0 }, { 1, 0 }, {}, { 1, 2, 2, 1 }, -1, { { 1, 0 }, { 0, 1 } }, { 2, 1, 1 }, 2 },
                                   element = function(i, d)
  if d == 'string' then return ({ 'a', '', 'bc', '12', ' d', 'e,f' })[i % 6 + 1] end
  if d == 'bool' then return i % 3 ~= 0 end
  local v = (i * 7 % 11 - 4) / 2
  if d:find '^uint' then return math.floor(math.abs(v)) end
  return d:find 'int' and math.floor(v) or v
end }

-- Signs of vectors are LAPACK's choice, and whether a matrix of rank 2 is singular is a matter of rounding: a GPU's factors are others.
local choices = { LogMatrixDeterminant = true, MatrixInverse = true, MatrixSolve = true, SelfAdjointEigV2 = true, Svd = true }

describe('what an op makes of inputs that it knows late', function()
  local n = 0
  for _, op in ipairs(told:ops 'late.txt') do
    if not op.entry.stateful then
      n = n + 1
      local case = choices[op.type] and host_it or it
      case('is what it was: ' .. op.type, function()
        local lines, seen = {}, {}
        for _, choice in ipairs(told:choices(#op.entry.inputs)) do
          local line = told:line(op, choice)
          if not seen[line] then lines[#lines + 1], seen[line] = line, true end
        end
        pages.section('late.txt', op.type, table.concat(lines, '\n'))
      end)
    end
  end

  it('is asked of most ops', function() assert.is_true(n > 300, n) end)
end)
