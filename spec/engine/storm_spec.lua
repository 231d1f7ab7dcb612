--- Runs that are started, paused, stepped and cancelled by the dozen, at random. DFLOW_STORM=1200: for so many seconds.
local shell = require 'spec.shell'

describe('a storm of runs', function()
  local sanitized = (os.getenv 'DFLOW_MODE' or ''):find 'san$'
  local seconds = tonumber(os.getenv 'DFLOW_STORM') or sanitized and 20 or 2

  it('ends each of them, with an error of its own where it has one', function()
    local seed = os.getenv 'DFLOW_STORM' and os.time() or 7
    local r = shell.run(('timeout -k 5 %d %s spec/engine/storm.lua %d %d'):format(seconds * 2 + 300, os.getenv 'DFLOW_INTERPRETER' or shell.lua, seed, seconds))
    assert.equal(0, r.status, ('seed %d: %s%s'):format(seed, r.out, r.err))
    assert.matches('^%d+ runs are over', r.out)
  end)
end)
