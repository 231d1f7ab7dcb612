-- :top, whole screens of it, what it costs, and what it leaves behind.
local terminal = require 'spec.terminal'
local shell = require 'spec.shell'
local ordered_it = require('spec.support').ordered_it(it, pending)

-- Typed at the prompt, so that the Lua line is In[1]:1. A run that stands still after so many tokens is the same each time.
local COUNTING = 'x = while_loop(function(i) return i:ge(0) end, function(i) return i + 1 end, {df.int32(0)})'
local INIT = [[
function crowd(n)
  return df.map_fn(function(x)
    local j = while_loop(function(j) return j:ge(df.int32(0)) end, function(j) return j * 1 end, {df.int32(0)}, {name = 'inner', parallel_iterations = 1})
    return df.cast(j, 'float32') + x
  end, df.zeros{n}, {parallel_iterations = n})
end
]]

--- The screen with its bars and its bytes left out.
local function plain(screen)
  screen = screen:gsub('[▁▂▃▄▅▆▇█]+', '#'):gsub('(cpu:0 +)[%d.]+ K?i?B', function(lead) return lead:gsub(' +$', ' ') .. 'BYTES' end)
  return (screen:gsub('[ \t]+\n', '\n'))
end

local SCREENS = {
  [{ 80, 24 }] = [[
paused  250 nodes, 49 iterations, 1 frame, 0 dead tokens

iterations          0/s
nodes               0/s
cpu:0 BYTES  #
swap                0 B  nothing is swapped on this device

frames
  top level
    while  iterations 49-49 in flight (1 of 32), 1 live token  In[1]:1

nodes that ran lately
 25.0 %  while/GreaterEqual              GreaterEqual      In[1]:1
 25.0 %  while/Switch                    Switch            In[1]:1
 25.0 %  while/Add                       Add               In[1]:1
 25.0 %  while/NextIteration             NextIteration     In[1]:1







any key leaves, p pauses]],
  [{ 120, 40 }] = [[
paused  250 nodes, 49 iterations, 1 frame, 0 dead tokens

iterations          0/s
nodes               0/s
cpu:0 BYTES  #
swap                0 B  nothing is swapped on this device

frames
  top level
    while  iterations 49-49 in flight (1 of 32), 1 live token  In[1]:1

nodes that ran lately
 25.0 %  while/GreaterEqual                                GreaterEqual                In[1]:1
 25.0 %  while/Switch                                      Switch                      In[1]:1
 25.0 %  while/Add                                         Add                         In[1]:1
 25.0 %  while/NextIteration                               NextIteration               In[1]:1























any key leaves, p pauses]],
  [{ 40, 10 }] = [[
paused  250 nodes, 49 iterations, 1 fram
iter         0/s
nodes        0/s
cpu:0 BYTES  #
frames
  top level
    while  iterations 49-49 in flight (1
nodes that ran lately
 25.0 %  while/GreaterEqual
any key leaves, p pauses]],
}

describe('the rows of :top', function()
  it('are of each device that holds something, where there is room, and of the host alone where there is not', function()
    local df, top = require 'dflow', require 'dflow.repl.top'
    df.reset()
    local _, x = df.while_loop(function(i) return i:lt(1000) end, function(i, x)
      return i + 1, df.device('sim:1', function() return df.device('sim:0', function() return df.tanh(x) end) + 1 end)
    end, { df.int32(0), df.zeros{ 64, 64 } })
    local s = df.Session{ devices = { 'cpu:0', 'sim:0', 'sim:1', 'sim:2' } }
    local h = s:start(x, nil, { paused = true })
    h:step(300)
    local whole, small = table.concat(top.lines(h, top.new(0), 120, 40, true, 1), '\n'), table.concat(top.lines(h, top.new(0), 40, 10, true, 1), '\n')
    for _, name in ipairs{ 'cpu:0', 'sim:0', 'sim:1' } do assert.matches('\n' .. name .. ' +[%d.]+ K?i?B', whole) end
    assert.is_nil(whole:find 'sim:2')
    assert.is_nil(small:find 'sim:1 ')
    assert.matches('cpu:0', small)
    h:cancel()
    s:close()
  end)
end)

describe('the lines of :top', function()
  ordered_it('are what they were, in windows of many sizes, while a run goes on', function()
    local df, top, pages = require 'dflow', require 'dflow.repl.top', require 'spec.pages'
    df.reset()
    local y = df.map_fn(function(x)
      local _, v = df.while_loop(function(i) return i:lt(50) end, function(i, v) return i + 1, df.tanh(v) * 0.5 end, { df.int32(0), x }, { name = 'a_rather_long_name' })
      return v
    end, df.ones{ 6 })
    local out, h = {}, df.start(y, nil, { paused = true })
    local states, clock = {}, 0
    for look = 1, 4 do
      for _, size in ipairs{ { 120, 40 }, { 90, 30 }, { 80, 24 }, { 72, 16 }, { 71, 15 }, { 60, 12 }, { 59, 11 }, { 40, 10 }, { 20, 6 }, { 8, 4 } } do
        for _, utf8 in ipairs{ true, false } do
          local key = ('%d x %d%s'):format(size[1], size[2], utf8 and '' or ', ASCII')
          states[key] = states[key] or top.new(0)
          local lines = top.lines(h, states[key], size[1], size[2], utf8, look * 0.5, function() clock = clock + 1e-4 return clock end)
          for i, line in ipairs(lines) do lines[i] = line:gsub(' +[%d.]+ K?i?B.*$', ' BYTES'):gsub(':%d+$', ':N') end
          out[#out + 1] = ('-- %s, look %d\n%s'):format(key, look, table.concat(lines, '\n'))
        end
      end
      h:step(37 * look)
    end
    h:cancel()
    local list = {}
    for i = 1, 230 do list[i] = i * i % 97 end
    for _, width in ipairs{ 4, 60, 300 } do out[#out + 1] = top.spark(list, width, true) .. '\n' .. top.spark(list, width, false) end
    for _, n in ipairs{ 0, 1, 9.94, 9.96, 999, 999.4, 999.6, 9940, 9960, 1e6, 5.55e6, 999.6e6, 2e9, 7e12 } do out[#out + 1] = top.short(n) end
    pages.section('top.txt', 'lines', table.concat(out, '\n'))
  end)
end)

describe(':top', function()
  if not terminal.available() then return pending('tmux is not there') end
  if (os.getenv('DFLOW_MODE') or ''):find('san$') then return pending('the sanitizers are too slow for a person to type at') end

  local t
  local function open(columns, rows)
    t = terminal.open(columns, rows, { files = { ['.config/dflow/init.lua'] = INIT } })
    return t
  end
  --- Types a line and waits for the prompt behind it.
  local function asks(line)
    t:keys('C-l'):line(line)
    return t:wait(function(s) return s:find('dflow> %S') and s:find('\ndflow>$') end)
  end
  after_each(function()
    if t then t:close() end
    t = nil
  end)

  for size, expected in pairs(SCREENS) do
    ordered_it(('fills a screen of %d by %d'):format(size[1], size[2]), function()
      open(80, 24)
      asks(COUNTING .. ';')
      asks('h = df.start(x, nil, {paused = true}) h:step(200);')
      t:resize(size[1], size[2])
      t:keys('C-l'):line(':top')
      assert.equal(expected, plain(t:wait(function(s) return plain(s) == expected end, 5)))
    end)
  end

  ordered_it('is right at once when the window changes its size, down to 40 by 10', function()
    open(120, 40)
    asks(COUNTING .. ';')
    asks('h = df.start(x, nil, {paused = true}) h:step(200);')
    t:keys('C-l'):line(':top')
    t:wait('any key leaves')
    for _, size in ipairs{ { 40, 10 }, { 120, 40 }, { 80, 24 } } do
      local expected
      for at, screen in pairs(SCREENS) do if at[1] == size[1] then expected = screen end end
      t:resize(size[1], size[2])
      assert.equal(expected, plain(t:wait(function(s) return plain(s) == expected end, 5)))
    end
    t:resize(12, 4)                                   -- nothing useful has room, and nothing breaks
    t:wait(function(s) return #s < 60 end, 2)
    t:resize(80, 24)
    assert.matches('^paused', t:wait(function(s) return s:find('^paused.*any key leaves') end))
  end)

  it('leaves the screen, the cursor and the terminal\'s modes as they were', function()
    open(80, 24)
    asks(COUNTING .. ';')
    asks('h = df.start(x, nil, {paused = true}) h:step(200);')
    local before = os.tmpname()
    asks(("os.execute('stty -a >%s.a');"):format(before))
    local screen = asks('"what was here"')
    for _, key in ipairs{ 'q', 'C-c', 'C-z' } do
      t:line(':top')
      t:wait('any key leaves')
      t:keys(key)
      screen = screen .. ' :top\ndflow>'
      assert.equal(screen, t:wait(screen))
    end
    assert.equal('1', shell.run(("tmux -L %s display -p '#{cursor_flag}'"):format(t.socket)).out:match('%d'))
    asks(("os.execute('stty -a >%s.b');"):format(before))
    local a, b = assert(io.open(before .. '.a')), assert(io.open(before .. '.b'))
    assert.equal(a:read('*a'), b:read('*a'))
    a:close()
    b:close()
    for _, name in ipairs{ before, before .. '.a', before .. '.b' } do os.remove(name) end
  end)

  it('ends with the run, and says so', function()
    open(80, 24)
    asks(COUNTING .. ';')
    asks('h = df.start(x, nil, {timeout = 5});')
    t:keys('C-l'):line(':top')
    t:wait('any key leaves')
    local screen = t:wait(function(s) return s:find('the run is over') end)
    assert.equal('dflow> :top\nthe run is over\ndflow>', screen)
  end)

  it('takes at most one per cent of a core, also of a run with a thousand live frames', function()
    open(120, 40)
    asks('h = df.start(crowd(1000));')
    t:keys('C-l'):line(':top')
    t:wait(' more frames')
    local pid = shell.run(("tmux -L %s display -p '#{pane_pid}'"):format(t.socket)).out:match('%d+')
    local function ticks()                               -- of the thread that draws; a hundred a second
      local file = assert(io.open(('/proc/%s/task/%s/stat'):format(pid, pid)))
      local user, system = file:read('*a'):match('%) %S' .. (' %S+'):rep(10) .. ' (%d+) (%d+)')
      file:close()
      return tonumber(user) + tonumber(system)
    end
    local began = ticks()
    os.execute('sleep 3')
    local took = ticks() - began
    assert.is_true(took <= ((os.getenv('DFLOW_MODE') or 'release') == 'release' and 4 or 9), ('%d ticks in 3 s'):format(took))
    assert.matches('%d+ more frames', t:screen())
    t:keys('q')
  end)

  it('lets the run go on when Ctrl-C leaves it', function()
    open(80, 24)
    asks(COUNTING .. ';')
    asks('h = df.start(x);')
    t:keys('C-l'):line(':top')
    t:wait('any key leaves')
    t:keys('C-c')
    t:wait(function(s) return s:find('\ndflow>$') end)
    assert.matches('\nrunning\n', asks('h:state()'))
    asks('h:cancel();')
  end)
end)
