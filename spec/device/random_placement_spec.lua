--- Random programs on random devices, and specs with every op sent to a random one: the bits of one device.
-- DFLOW_PROGRAMS sets how many (120; 60 in `make test`), DFLOW_SEED where the seeds begin (1); by hand DFLOW_STRESS may be set for all of them.
-- run: first
local df = require 'dflow'
local shell = require 'spec.shell'
local random_placement = require 'spec.random_placement'
local support = require 'spec.support'

local count = tonumber(os.getenv 'DFLOW_PROGRAMS') or support.sample(60, 120)
local first = tonumber(os.getenv 'DFLOW_SEED') or 1

--- Checks n programs in a process of its own with DFLOW_STRESS set; `depth` says how deep they nest.
local function stressed(stress, seed, n, depth)
  local path = os.tmpname()
  shell.write(path, ([[
    local df, check = require 'dflow', require('spec.random_placement').check
    for seed = %d, %d do
      local wrong = check(df, seed, { depth = %d })
      if wrong then io.stderr:write(wrong) os.exit(1) end
    end
    print 'alike']]):format(seed, seed + n - 1, depth))
  local r = shell.run(('DFLOW_STRESS=%s %s %s'):format(stress, shell.lua, path))
  os.remove(path)
  return r
end

describe(('%d random programs from seed %d, placed at random on 1 to 8 devices'):format(count, first), function()
  it('give the bits that the host alone gives, by either clock, with several owners, swapped or not', function()
    for seed = first, first + math.floor(count / 2) - 1 do
      local wrong = random_placement.check(df, seed)
      assert(not wrong, wrong)
    end
  end)

  it('do so in any order of tokens, placed at random, with everything swapped, or computed again and every copy late', function()
    for i, stress in ipairs{ 'shuffle:%d', 'devices:%d', 'shuffle:%d,devices:%d,swap', 'shuffle:%d,devices:%d,late,recompute' } do
      local r = stressed(stress:gsub('%%d', tostring(first)), first + 10000 * i, math.floor(count / 8), i >= 3 and 3 or 2)
      assert.are.equal('alike\n', r.out, r.err)
    end
  end)
end)

describe('specs of conds, loops, arrays, queues and variables', function()
  --- Reads them in a process of its own.
  local function read(stress, files)
    local mode, lua = os.getenv 'DFLOW_MODE' or 'release', os.getenv 'DFLOW_LUA' or 'lua5.4'
    local r = shell.run(("DFLOW_STRESS=%s SPECS='%s' spec/run.sh %s:%s"):format(stress, table.concat(files, ' '), lua, mode))
    assert.are.equal(0, r.status, r.out:match 'Failure.*' or r.out)
  end

  it('pass with every op sent to a random device, turned by one owner or three', function()
    local files = { 'spec/graph/cond_spec.lua', 'spec/graph/while_loop_spec.lua', 'spec/resource/queue_spec.lua',
      'spec/resource/tensor_array_spec.lua', 'spec/resource/variables_spec.lua', 'spec/front/functional_spec.lua' }
    read(('devices:%d'):format(first), files)
    read(('devices:%d,owners:3'):format(first), files)
  end)
end)
