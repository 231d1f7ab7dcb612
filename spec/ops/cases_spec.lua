--- The CPU's kernels and the reference at sizes and attributes of many kinds (spec/ops/cases.lua): both give the same.
-- run: once
local support = require 'spec.support'
local cases = require 'spec.ops.cases'
local it = support.host_it(it, pending)

describe('at sizes of many kinds', function()
  local by, names = cases.by_op()
  for _, op in ipairs(names) do
    it(op .. ' is what the reference says', function()
      for i, case in ipairs(by[op]) do
        local fed = cases.tensors(case)
        local rtol = cases.tolerance(case, fed)
        support.cpu_equals_ref(function(...) return cases.build(case, ...) end, fed, { rtol = rtol, atol = rtol / 5, what = ('%s %d'):format(op, i) })
      end
    end)
  end
end)
