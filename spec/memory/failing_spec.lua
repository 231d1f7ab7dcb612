--- Memory that ends is an error: a sample here, every allocation in `make nightly` (spec/memory/failing.lua).
local failing = require 'spec.memory.failing'

describe('an allocation that fails', function()
  for k, program in ipairs(require 'spec.memory.programs') do
    it(('ends as resource_exhausted, leaks nothing and leaves the session usable: %s'):format(program[1]), function()
      local few = failing.program(program, 1, math.huge, 1).allocations < 150
      local step = few and 1 or 29 + k % 5                        -- others in each program
      for _, times in ipairs{ 1, 30, 100000 } do               -- the last: nothing more comes, and no address space either
        local r = failing.program(program, few and 1 or 1 + k % 3, step, times)
        assert.same({}, r.faults)
        assert.is_true(r.errors > 0)
      end
    end)
  end
end)
