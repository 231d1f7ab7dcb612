-- Ctrl-C as a question, and what one can ask then: typed at in a terminal.
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
  after_each(function()
    if t then t:close() end
    t = nil
  end)

  it('goes on after :continue, is asked again, and is cancelled by a second Ctrl-C', function()
    open(80, 24):line('df.run(endless())')
    t:wait('it/s')
    t:keys('C-c')
    t:wait('paused>')
    t:line(':continue')
    t:wait('it/s')
    t:keys('C-c')
    t:wait(function(s) return select(2, s:gsub('paused>', '')) == 2 end)
    t:keys('C-c')
    local screen = t:wait(function(s) return s:find('dflow>$') and s:find('cancelled') end)
    assert.matches('cancelled', screen)
    t:line('20 + 1')
    assert.is_truthy(t:wait('\n21\n'):find('\n21\n', 1, true))
  end)

  it('is drawn by :top, which minds the size of its window and goes with a key', function()
    open(80, 24):line('h = df.start(endless())')
    t:line(':top')
    local screen = t:wait('any key leaves, p pauses')
    assert.matches('^running +%d+ nodes', screen)
    for _, what in ipairs{ 'iterations', 'nodes ', 'cpu:0', 'frames', 'nodes that ran lately', 'while/' } do
      assert.is_truthy(screen:find(what, 1, true), screen)
    end
    for _, size in ipairs{ { 120, 40 }, { 60, 14 } } do
      t:resize(size[1], size[2])
      screen = t:wait(function(s)
        return select(2, s:gsub('\n', '')) == size[2] - 1 and s:find('^running') and s:find('any key leaves, p pauses$')
      end)
      assert.matches('^running', screen)
      assert.matches('any key leaves, p pauses$', screen)
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
