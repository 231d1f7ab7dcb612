-- The CPU's kernels and the reference at sizes and attributes of many kinds (spec/ops/cases.lua): both give the same, and what they gave when spec/pages/cases.txt
-- was written: of each result eight weighted sums of its parts, within what another machine's roundings do.
local df = require 'dflow'
local pages = require 'spec.pages'
local sums = require 'spec.sums'
local support = require 'spec.support'
local cases = require 'spec.ops.cases'
local it = support.host_it(it, pending)

describe('at sizes of many kinds', function()
  local by, names = cases.by_op()
  for _, op in ipairs(names) do
    it(op .. ' is what the reference says, and what it was', function()
      local lines, rtols = {}, {}
      for i, case in ipairs(by[op]) do
        local fed = cases.tensors(case)
        local rtol = cases.tolerance(case, fed)
        local found = support.cpu_equals_ref(function(...) return cases.build(case, ...) end, fed, { rtol = rtol, atol = rtol / 5, what = ('%s %d'):format(op, i) })
        lines[i], rtols[i] = sums.line(found), rtol
      end
      pages.section('cases.txt', op, table.concat(lines, '\n'), function(was, is, k) return sums.same(was, is, rtols[k] / 10) end)
    end)
  end

  it('a sum that is another is seen', function()
    assert.is_false(sums.same('float32[2] 1.5:1.5 2:2', 'float32[2] 1.5:1.5 2.1:2.1', 1e-3))
    assert.is_false(sums.same('float32[2] 1.5:1.5', 'float32[2] 1.5:1.5 2:2', 1e-3))
    assert.is_false(sums.same('float32[2] 1.5:1.5', 'float32[3] 1.5:1.5', 1e-3))
    assert.is_true(sums.same('float32[2] 1.5:1.5 2:2', 'float32[2] 1.50001:1.5 2:2', 1e-3))
    local list = {}
    for i = 1, 100 do list[i] = i end
    local before = sums.line{ df.tensor(list, 'float32') }
    list[77] = 78
    assert.is_false(sums.same(before, sums.line{ df.tensor(list, 'float32') }, 1e-3))
  end)
end)
