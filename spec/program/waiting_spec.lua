-- A script at a terminal that waits for a run, or goes through a loop of df.progress: a line below what it has printed tells how far it is.
-- run: first, alone
local terminal = require 'spec.terminal'

describe('a script that waits for a run', function()
  if not terminal.available() then return pending('there is no tmux') end

  local t
  after_each(function()
    if t then t:close() end
    t = nil
  end)

  --- The program on a script, in a terminal that stays when it is over.
  local function script(text, opts)
    opts = opts or {}
    local command =
      ("sh -c 'trap : INT; cd $HOME; DFLOW_ENGINE=tokens %s%s script.lua %s; echo status $?; cat'"):format(opts.environment or '', terminal.program(), opts.rest or '')
    return terminal.open(100, 12, { command = command, files = { ['script.lua'] = text }, wait = false })
  end

  --- Waits until a pattern is seen.
  local function sees(pattern, seconds)
    local screen = t:wait(function(text) return text:find(pattern) end, seconds)
    assert.matches(pattern, screen)
    return screen
  end

  local LONG = [[
local i, y = while_loop(function(i) return i:lt(900000000) end, function(i, y)
  return i + 1, cond((i % 2000000):eq(0), function() return df.print(y, {i}, {message = 'at '}) end, function() return y end)
end, {0, 1.0})
io.write 'training: '
print(df.run(y))
]]

  it('has a line of how far it is, below what was printed; Ctrl-C ends it, and the line is gone', function()
    t = script(LONG)
    local screen = sees('while:%d+ of 900000000', 30)
    assert.matches('at %[0%]\n', screen)
    assert.matches('%]%s+%d+ %%  [%d.]+ s  [%d.]+ [kM] it/s  while:%d+ of', screen)
    t:wait('at [2000000]')
    t:keys('C-c')
    t:wait('status 130')
    screen = t:screen()
    assert.not_matches('it/s', screen)
    assert.matches('training: ', screen)
    for line in screen:gmatch('[^\n]*at %[%d+%][^\n]*') do assert.matches('^t?r?a?i?n?i?n?g?:? ?at %[%d+%]$', line) end
  end)

  it('has none where standard error is a file, or the terminal takes no line back', function()
    for _, opts in ipairs{ { rest = '2> errors' }, { environment = 'TERM=dumb ' } } do
      t = script(LONG:gsub('900000000', '3000000'), opts)
      t:wait('status 0', 60)
      assert.not_matches('it/s', t:screen())
      t:close()
    end
    t = nil
  end)

  it('watches what was slow the last time, too, though it has no loop', function()
    t = script [[
local x = df.placeholder('float32', {-1, -1})
local y = df.device('cpu:0', function() return x:matmul(x):reduce_sum() end)      -- a GPU's product is done once it is enqueued
local n, clock = 3000, require('dflow.program').clock
repeat
  n = n + 500
  local began = clock()
  df.run(y, {[x] = df.ones{n, n}:eval()})
until clock() - began > 0.8
print 'once'
n = n * 8 // 5                         -- as slow still where other programs have left the machine meanwhile
for _ = 1, 9 do df.run(y, {[x] = df.ones{n, n}:eval()}) end
]]
    t:wait('once', 60)
    sees('%d%.%d s  MatMul %(MatMul%)  script.lua:2', 60)
  end)

  it('wipes the line of df.progress away when its loop is left', function()
    t = script [[
for i in df.progress(1000, {label = 'epoch'}) do
  local till = os.clock() + 0.05
  while os.clock() < till do end
  if i == 30 then break end
end
print 'over'
io.read()
for i in df.progress(1000, {label = 'epoch'}) do
  local till = os.clock() + 0.05
  while os.clock() < till do end
  if i == 40 then error 'ended' end
end
]]
    sees('epoch  %d+/1000')
    t:wait('over')
    assert.not_matches('epoch', t:screen())
    t:keys('Enter')
    t:wait('status 1')
    assert.not_matches('epoch  %d', t:screen())
  end)

  it('stays one line, and no command to the terminal, whatever a name holds', function()
    t = script [[
print 'above'
for i in df.progress(1000, {label = 'ep\27[2J\27[Ho\nc\194\155h'}) do
  local till = os.clock() + 0.05
  while os.clock() < till do end
end
]]
    assert.matches('above\n\nep%?%[2J%?%[Ho%?c%?%?h  %d', sees('%d+/1000'))
  end)
end)
