-- Ctrl-C as a question, and what one can ask then: typed at in a terminal.
-- run: first, alone
local terminal = require 'spec.terminal'

local COUNTING = [[
v = df.Variable(0.0)
function endless()
  local i, y = while_loop(function(i, y) return i:ge(0) end, function(i, y)
    return i + 1, cond(y:gt(20), function() return y * 0.5 end, function() return y * 2 end)
  end, {df.int32(0), df.float32(1)})
  return df.control_dependencies({ y }, function() return v:assign_add(1) end)
end
]]

describe('a run that goes on too long', function()
  if not terminal.available() then return pending('tmux is not there') end
  if (os.getenv('DFLOW_MODE') or ''):find('san$') then return pending('the sanitizers are too slow for a person to type at') end

  local t
  local function open(columns, rows)
    t = terminal.open(columns, rows, { files = { ['.config/dflow/init.lua'] = COUNTING } })
    return t
  end
  --- Waits for the progress line of a run that has begun: half a second after it was started, or later on a busy machine.
  local function goes() return t:wait(function(s) return s:find('s  [1-9][%d.]* ?[kMG]? it/s') end) end
  --- Types a line, and waits for what it says and the next prompt.
  local function asks(line, answer)
    t:keys('C-l'):line(line)
    local screen = t:wait(function(s) return s:find(answer) and s:find('paused>$') end)
    assert.matches(answer, screen)
    return screen
  end
  after_each(function()
    if t then t:close() end
    t = nil
  end)

  for _, size in ipairs{ { 80, 24 }, { 120, 40 } } do
    it(('is paused by Ctrl-C, looked at, stepped and cancelled, at %d by %d'):format(size[1], size[2]), function()
      open(size[1], size[2]):line('df.run(endless())')
      goes()
      t:keys('C-c')
      local screen = t:wait('paused>')
      assert.matches('paused before while/', screen)
      assert.matches(':continue, :step, :frames, :why x, :cancel, or any Lua; Ctrl%-C again\n?%s*cancels', screen)
      assert.is_nil(screen:find('it/s', 1, true))        -- it has gone
      for _, line in ipairs{ screen:match('([^\n]*)\n([^\n]*)') } do assert.is_true(#line <= size[1]) end
      asks(':frames', 'top level.*while  iterations %d+%-%d+ in\n? flight')
      asks(':break while/Greater', 'breakpoint 1')
      t:keys('C-l'):line(':continue')
      t:wait('breakpoint 1 before while/Greater')
      asks(':step', 'stepped before [^\n]*while/')
      asks(':back', '%-1  while/Greater %(Greater%) in while:%d+')
      asks(':back', '%-2  [^\n]*while/')
      asks(':forward', '%-1  while/Greater')
      asks(':forward', 'stepped before [^\n]*while/')
      asks(':why while/Greater', 'while/Greater:0 @ while:%d+')
      asks(':whynot while/NextIteration_1', 'while/NextIteration_1:0%)? @ while:%d+')
      asks(':unbreak', 'paused>')
      asks(':break Mul if v > 30', 'breakpoint 2: if v > 30')
      t:keys('C-l'):line(':continue')
      t:wait('breakpoint 2 after while/cond/Mul_1')
      asks('1 + 1', '\n2\n')
      asks(':frobnicate', "there is no command ':frobnicate'")
      t:line(':cancel')
      screen = t:wait(function(s) return s:find('cancelled') and s:find('dflow>$') end)
      assert.matches('cancelled', screen)
      t:keys('C-l'):line('v:eval()')
      assert.matches('\n0%.0\n', t:wait('\n0.0\n'))
    end)
  end

  it('is asked without colons, too, where the words are no Lua', function()
    open(80, 24):line('df.run(endless())')
    goes()
    t:keys('C-c')
    t:wait('paused>')
    asks('frames', 'top level.*while  iterations %d+%-%d+ in flight')
    asks('step', 'stepped before [^\n]*while/')
    asks('step 2 iteration', 'stepped before [^\n]*while/')
    asks('why while/Greater', 'while/Greater:0 @ while:%d+')
    asks('back', '%-1  ')
    asks('step = 7', 'paused>')
    asks('step', '\n7\n')
    asks('step + 1', '\n8\n')
    t:keys('C-l'):line('cancel')
    t:wait(function(s) return s:find('cancelled.*dflow>$') end)
    t:keys('C-l'):line('cancel')
    t:wait(function(s) return s:find('\nnil\ndflow>$') end)
  end)

  it('goes on after :continue, is asked again, and is cancelled by a second Ctrl-C', function()
    open(80, 24):line('df.run(endless())')
    goes()
    t:keys('C-c')
    t:wait('paused>')
    t:line(':continue')
    goes()
    t:keys('C-c')
    t:wait(function(s) return select(2, s:gsub('paused>', '')) == 2 end)
    t:keys('C-c')
    local screen = t:wait(function(s) return s:find('dflow>$') and s:find('cancelled') end)
    assert.matches('cancelled', screen)
    t:line('20 + 1')
    assert.is_truthy(t:wait('\n21\n'):find('\n21\n', 1, true))
  end)

  it('is drawn by :top while it runs, paused and resumed there', function()
    open(80, 24):line('h = df.start(endless())')
    t:line(':top')
    local screen = t:wait('any key leaves, p pauses')
    assert.matches('^running +[%d.]+ ?[MG]? nodes', screen)
    for _, what in ipairs{ 'iterations', 'nodes ', 'cpu:0', 'frames', 'nodes that ran lately', 'while/' } do
      assert.is_truthy(screen:find(what, 1, true), screen)
    end
    for _, size in ipairs{ { 120, 40 }, { 60, 14 } } do
      t:resize(size[1], size[2])
      screen = t:wait(function(s)
        return select(2, s:gsub('\n', '')) == size[2] - 1 and s:find('^running') and s:find('any key leaves, p pauses[^\n]*$')
      end)
      assert.matches('^running', screen)
      assert.matches('any key leaves, p pauses[^\n]*$', screen)
    end
    t:type('p')
    assert.matches('^paused', t:wait(function(s) return s:find('^paused') end))
    t:type('q')
    t:wait(function(s) return s:find('dflow>$') end)
    t:line('h:cancel() h:state()')
    t:keys('C-l'):line('40 + 2')
    assert.is_truthy(t:wait('\n42\n'):find('\n42\n', 1, true), t:screen())
  end)
end)
