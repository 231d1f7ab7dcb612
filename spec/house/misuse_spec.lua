-- Whatever is passed to whatever is there: errors of ours, and nothing else. spec/misuse.lua says how.
local shell = require 'spec.shell'

local function misuse(which, seed, calls)
  local here = shell.run('pwd').out:gsub('%s+$', '')
  local dir = shell.run('mktemp -d').out:gsub('%s+$', '')
  local bound = (os.getenv 'DFLOW_MODE' or ''):find 'san$' and '' or 'ulimit -v 8000000 &&'      -- a sanitizer maps terabytes
  local r = shell.run(('cd %s && %s timeout 300 ${DFLOW_INTERPRETER:-lua5.4} %s/spec/misuse.lua %d %d %s 2>err; echo status $?')
                      :format(dir, bound, here, seed, calls, which))
  local said = shell.run(('tail -3 %s/err'):format(dir)).out
  shell.run('rm -rf ' .. dir)
  return r.out, said
end

describe('dflow called with whatever there is', function()
  local seed = tonumber(os.getenv('FUZZ_SEED')) or 1
  it('answers with errors of its own: functions and methods', function()
    local out, said = misuse('public', seed, 1500)
    assert.is_truthy(out:find('\nstatus 0\n', 1, true), out .. said)
    assert.is_true(tonumber(out:match('calls of (%d+) functions')) > 400, out)
    assert.is_true(tonumber(out:match('(%d+) errors, 0 of them bad')) > 500, out)
  end)

  it('answers with errors of its own to a table that holds itself', function()
    local out, said = misuse('itself', 1, 0)
    assert.is_truthy(out:find('\nstatus 0\n', 1, true), out .. said)
    assert.is_true(tonumber(out:match('(%d+) errors, 0 of them bad')) > 500, out)
  end)

  it('answers with errors: dflow.core', function()
    if rawget(_G, 'jit') then return pending "dflow.core is the C binding; the FFI's functions are no module" end
    local out, said = misuse('core', seed, 1500)
    assert.is_truthy(out:find('\nstatus 0\n', 1, true), out .. said)
    assert.is_true(tonumber(out:match('(%d+) errors, 0 of them bad')) > 500, out)
  end)
end)
