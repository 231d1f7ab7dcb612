--- How many instructions an iteration costs, counted by valgrind: the one measure of speed that is the same on a busy
-- machine. When the executor gets faster, `make bench-quick COUNTS=write` writes the new counts down.
--
-- What looking costs is in them. The counters cost nothing but for dead tokens, iterations and values of loops' Merges: tokens are counted by
-- the queue that they are in anyway (with a count of its own the counter loop took 33 instructions more). `values` keeps every value.
-- run: test-all
local count, known = require 'spec.instructions.count', require 'spec.instructions.counts'
local SLACK = 1.10

describe('the token engine #instructions', function()
  local why = (os.getenv('DFLOW_LUA') or 'lua5.4') ~= 'lua5.4' and 'counted under lua5.4'
    or ((os.getenv 'LD_PRELOAD' or '') ~= '' or (os.getenv 'DFLOW_MODE' or ''):find 'san$') and 'not under a sanitizer'
    or (os.getenv 'DFLOW_DEFAULT_DEVICE' or ''):find '^gpu' and 'of the host alone'
    or count.read('command -v valgrind') == '' and 'valgrind is not installed'
    or not count.read('uname -m'):match('x86_64') and 'the counts are those of x86-64'
  if why then
    pending('costs no more instructions than it did: ' .. why)
    return
  end

  setup(count.build)

  for _, name in ipairs(count.names) do
    it(('spends at most %.0f instructions on an iteration of %s'):format(known[name] * SLACK, name), function()
      local found = count.per_iteration(name)
      assert.is_true(found <= known[name] * SLACK, ('%s: %.0f instructions per iteration, were %d'):format(name, found, known[name]))
    end)
  end
end)
