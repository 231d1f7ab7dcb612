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

  it('takes back a node with its name and what it counted', function()
    local r = shell.run(shell.lua .. ' - <<"END"\n' .. [[
      local df, core = require 'dflow', require 'dflow.backend'
      local failures = 0
      local function names(g, fail)                            -- of nodes, each of which is built again where that has failed
        local x, list = df.placeholder('float32', {}, 'x'), {}
        for i = 1, 300 do
          local op, opts = i % 3 == 0 and df.exp or df.neg, i % 5 == 0 and { name = 'named' } or nil
          if fail then core.memory_fail(fail, 1) end
          local ok, y = pcall(op, x, opts)
          core.memory_fail(-1)
          if not ok then
            failures = failures + 1
            y = op(x, opts)
          end
          list[i] = y.name
        end
        return table.concat(list, ' ') .. g:size()
      end
      local function in_graph(fail) local g = df.Graph() return g:as_default(names, g, fail) end
      local want = in_graph()
      for n = 1, 4 do
        local got = in_graph(n)
        if got ~= want then print(n, got, want) end
      end
      print(failures > 0)
]] .. 'END\n')
    assert.equal('true\n', r.out, r.err)
  end)
end)
