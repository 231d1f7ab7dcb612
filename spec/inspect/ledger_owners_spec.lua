-- run: once, test-all, alone
--- The ledger of runs that several owners turn, each op on a random device. Alone, since these threads hand each other every token: beside
-- other work that takes ten times as long.
local shell = require 'spec.shell'

describe('the ledger of a run with several owners', function()
  it('has equal counts on both sides at every pause', function()
    local mode, lua = os.getenv 'DFLOW_MODE' or 'release', os.getenv 'DFLOW_LUA' or 'lua5.4'
    local r = shell.run(("DFLOW_STRESS=devices:1,owners:3 SPECS=spec/inspect/ledger_spec.lua spec/run.sh %s:%s"):format(lua, mode))
    assert.are.equal(0, r.status, r.out:match 'Failure.*' or r.out)
  end)
end)
