--- Memory that ends is an error: a sample here, every allocation in `make nightly` (spec/memory/failing.lua). In processes of their
-- own: after each failure all garbage is collected, and that of a process that has read many specs is much.
local shell = require 'spec.shell'

describe('an allocation that fails', function()
  for k, program in ipairs(require 'spec.memory.programs') do
    it(('ends as resource_exhausted, leaks nothing and leaves the session usable: %s'):format(program[1]), function()
      for _, times in ipairs{ 1, 30, 100000 } do               -- the last: nothing more comes, and no address space either
        local r = shell.run(('%s spec/memory/failing.lua %d %d %d'):format(shell.lua, 13 + k % 5, times, k))    -- others in each program
        assert.equal('', r.err)
        assert.matches('allocations.* 0 faults\n$', r.out)
        assert.equal(0, r.status)
      end
    end)
  end
end)
