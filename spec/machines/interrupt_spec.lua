--- Ctrl-C while a graph runs over ranks: the run ends everywhere, the workers and the session live on.
-- run: first, alone
local shell = require 'spec.shell'
local terminal = require 'spec.terminal'

--- A loop without end that goes round all ranks, and a short run over them.
local BUILD = [[
local df = require 'dflow'
local function on(k, fn) return df.device(('/rank:%d/cpu:0'):format(k), fn) end
local x = df.placeholder('float64', {}, 'x')
local n = df.placeholder('int32', {}, 'n')
local _, y = df.while_loop(function(i) return i:lt(n) end, function(i, y)
  return i + 1, on(2, function() return on(1, function() return y + x end) * 1.0 end)
end, { df.int32(0), df.float64(0) })
]]

describe('Ctrl-C', function()
  it('ends a script with status 130, and its workers with it', function()
    local r = shell.interrupted('INT', shell.dflow .. ' -n 3', BUILD .. [[
      for _, r in ipairs(df.cluster.ranks()) do io.write(r.pid, ' ') end
      io.stdout:flush()
      df.run(y, { [x] = 1, [n] = 5 })
      ready()
      df.run(y, { [x] = 1, [n] = 2147483647 })
    ]])
    assert.equal(130, r.status, r.err)
    assert.is_truthy(r.err:find('interrupted', 1, true) or r.err:find('cancelled', 1, true), r.err)
    local pids = {}
    for pid in r.out:gmatch '%d+' do pids[#pids + 1] = pid end
    assert.equal(3, #pids)
    for _, pid in ipairs(pids) do
      local gone = false
      for _ = 1, 500 do
        gone = shell.run('kill -0 ' .. pid).status ~= 0
        if gone then break end
        os.execute 'sleep 0.01'
      end
      assert.is_true(gone)
    end
  end)

  it('is an error in the library that leaves session, ranks and variables usable', function()
    local r = shell.interrupted('INT', shell.dflow .. ' -n 3', BUILD .. [[
      local v = on(1, function() return df.Variable(df.float64(3), { name = 'v' }) end)
      local before = {}
      for i, r in ipairs(df.cluster.ranks()) do before[i] = r.pid end
      df.run(v)
      local h = df.start(y, { [x] = 1, [n] = 2147483647 })
      ready()
      local ok, err = pcall(h.wait, h)
      print(ok, type(err) == 'table' and err.code)
      io.stdout:flush()
      print(df.run(y, { [x] = 2, [n] = 5 }), df.run(v))
      for i, r in ipairs(df.cluster.ranks()) do assert(before[i] == r.pid and r.state == 'alive') end
    ]])
    assert.matches('^false\tcancelled\n10.0*\t3.0*\n', r.out .. r.err)
  end)

  if not terminal.available() then return pending('there is no tmux') end

  it('holds a run at the prompt, which can be looked at on all ranks, cancelled, and followed by another', function()
    local t = terminal.open(110, 40, { command = terminal.program() .. ' -n 3', environment = 'DFLOW_ENGINE=tokens' })
    finally(function() t:close() end)
    local function sees(text)
      assert.is_truthy(t:wait(function(screen) return screen:find(text, 1, true) end, 30):find(text, 1, true))
    end
    t:line "x, n = df.placeholder('float64', {}), df.placeholder('int32', {})"
    t:line "f = function(i, y) return i + 1, df.device('/rank:2/cpu:0', function() return y + x end) end"
    t:line '_, y = while_loop(function(i) return i:lt(n) end, f, {df.int32(0), df.float64(0)})'
    t:line 'df.run(y, {[x] = 1, [n] = 2000000000})'
    os.execute 'sleep 1'
    t:keys 'C-c'
    sees 'cancel'
    t:line ':frames'
    sees 'while'
    t:line ':cancel'
    sees 'cancelled'
    t:line 'df.run(y, {[x] = 4, [n] = 8})'
    sees '32'
    t:line '#df.cluster.ranks() + 100'
    sees '103'
  end)
end)
