-- :top, whole screens of it, what it costs, and what it leaves behind.
-- run: first, alone
local terminal = require 'spec.terminal'
local shell = require 'spec.shell'
local ordered_it = require('spec.support').ordered_it(it, pending)

-- Typed at the prompt, so that the Lua line is In[1]:1. A run that is paused after so many tokens is the same each time.
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







any key leaves, p pauses, s sorts (runs), / looks for]],
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























any key leaves, p pauses, s sorts (runs), / looks for]],
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
any key leaves, p pauses, s sorts (runs]],
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

--- How many characters a line has.
local function width(line) return #line:gsub('[\128-\191]', '') end

describe('the lines of :top', function()
  local df, top = require 'dflow', require 'dflow.repl.top'
  local clock = 0
  local function tick() clock = clock + 1e-4 return clock end

  --- A run of six loops that is paused after so many tokens.
  local function standing(tokens)
    df.reset()
    local y = df.map_fn(function(x)
      local _, v = df.while_loop(function(i) return i:lt(50) end, function(i, v) return i + 1, df.tanh(v) * 0.5 end, { df.int32(0), x }, { name = 'a_rather_long_name' })
      return v
    end, df.ones{ 6 })
    local h = df.start(y, nil, { paused = true })
    if tokens > 0 then h:step(tokens) end
    return h
  end

  ordered_it('fit the window, say the same in each, and count what the run has counted', function()
    for _, tokens in ipairs{ 0, 37, 111, 400 } do
      local h = standing(tokens)
      local s, whole = h:stats(), top.lines(h, top.new(0), 500, 200, true, 0.5, tick)
      local function counted(n, what) return ('%d %s%s'):format(n, what, n == 1 and '' or 's') end
      assert.equal(('%s  %s, %s, %s, %s'):format(h:state(), counted(s.nodes_run, 'node'), counted(s.iterations, 'iteration'), counted(s.frames, 'frame'),
                                                 counted(s.dead_tokens, 'dead token')), whole[1])
      local seen = table.concat(whole, '\n')
      for _, f in ipairs(h:frames()) do assert.is_truthy(seen:find(tostring(f), 1, true), seen) end
      for _, size in ipairs{ { 120, 40 }, { 90, 30 }, { 80, 24 }, { 72, 16 }, { 71, 15 }, { 60, 12 }, { 59, 11 }, { 40, 10 }, { 20, 6 }, { 8, 4 } } do
        local columns, rows = size[1], size[2]
        local lines = top.lines(h, top.new(0), columns, rows, true, 0.5, tick)
        local plain = top.lines(h, top.new(0), columns, rows, false, 0.5, tick)
        assert.is_true(#lines <= rows - 1 and #lines >= math.min(rows - 1, 6), #lines)
        assert.equal(#lines, #plain)
        for i, line in ipairs(lines) do
          assert.is_true(width(line) <= columns, line)
          local bare = line:gsub('…', '...')
          for utf8, ascii in pairs{ ['▁'] = '.', ['▂'] = ':', ['▃'] = '-', ['▄'] = '=', ['▅'] = '+', ['▆'] = '*', ['▇'] = '#', ['█'] = '@' } do bare = bare:gsub(utf8, ascii) end
          local function still(text) return (text:gsub(' +[%d.]+ K?i?B.*$', '')) end
          assert.equal(still(bare:sub(1, columns)), still(plain[i]))
        end
        assert.equal(whole[1]:sub(1, columns), lines[1])
        local text = '\n' .. table.concat(lines, '\n') .. '\n'
        assert.equal(rows >= 16, text:find('\n\nframes\n', 1, true) ~= nil)             -- an empty line where there is room
        if rows >= 10 then assert.is_truthy(text:find('\n' .. (columns >= 60 and 'iterations ' or 'iter ') .. ' *0/s'), text) end
        assert.equal(rows >= 12, text:find '\nswap ' ~= nil)
        if rows >= 10 then
          assert.is_truthy(text:find('\nframes\n', 1, true))
          assert.is_truthy(text:find('nodes that ran lately'), text)
        end
        local shown, frames = 0, #h:frames()
        for line in text:gmatch '\n(  [^\n]*)' do if not line:find '%%' then shown = shown + 1 end end
        if rows >= 10 and shown < frames then
          assert.equal(frames - shown + 1, tonumber(text:match '… (%d+) more frames?') or frames - shown + 1, text)
        end
      end
      h:cancel()
    end
  end)

  ordered_it('have the nodes that ran most, first, with the share of each', function()
    local h = standing(400)
    local lines, share, last, n = top.lines(h, top.new(0), 200, 60, true, 0.5, tick), 0, 101, 0
    local times = {}
    for _, t in ipairs(h:history(128)) do times[t.op.name] = (times[t.op.name] or 0) + 1 end
    for _, line in ipairs(lines) do
      local percent, name, at, kind, from, where = line:match '^ *([%d.]+) %%  (%S+) +()(%S+) +()(%S+)$'
      if percent then
        assert.same({ 96, 144 }, { at, from })                         -- 45 and 25 of 100 columns for names and types
        percent, n = tonumber(percent), n + 1
        assert.is_true(percent <= last)
        assert.is_true(math.abs(percent - 100 * times[name] / 128) < 0.06, line)
        assert.equal(df.default_graph():op(name).type, kind)
        assert.matches('top_spec.lua:%d+$', where)
        share, last = share + percent, percent
      end
    end
    assert.is_true(n > 5 and share > 90 and share < 100.5, share)
    h:cancel()
  end)

  ordered_it('have rates since the last look', function()
    local h, state = standing(0), top.new(0)
    top.lines(h, state, 120, 40, true, 1, tick)
    h:step(300)
    local s = h:stats()
    local text = table.concat(top.lines(h, state, 120, 40, true, 1.5, tick), '\n')
    assert.matches('\niterations +' .. top.short(s.iterations / 0.5) .. '/s', text)
    assert.matches('\nnodes +' .. top.short(s.nodes_run / 0.5) .. '/s', text)
    h:cancel()
  end)

  it('have bars as high as the numbers, the last of them, one each', function()
    local list = {}
    for i = 1, 230 do list[i] = i * i % 97 end
    local bars = { [' '] = 0, ['.'] = 1, [':'] = 2, ['-'] = 3, ['='] = 4, ['+'] = 5, ['*'] = 6, ['#'] = 7, ['@'] = 8 }
    for _, columns in ipairs{ 4, 60, 300 } do
      local plain, fine = top.spark(list, columns, false), top.spark(list, columns, true)
      local n = math.min(columns, #list)
      assert.equal(n, #plain)
      assert.equal(n, width(fine))
      local most = 1
      for i = #list - n + 1, #list do most = math.max(most, list[i]) end
      for i = 1, n do assert.is_true(math.abs(bars[plain:sub(i, i)] - 8 * list[#list - n + i] / most) <= 0.5, plain) end
    end
    assert.equal('', top.spark({}, 9, true))
    assert.equal('  ', top.spark({ 0, 0 }, 9, false))
  end)

  it('have numbers in three digits at most, with a unit', function()
    for n, text in pairs{ [0] = '0', [1] = '1', [9.94] = '10', [999] = '999', [999.4] = '999', [999.6] = '1.0 k', [9940] = '9.9 k', [9960] = '10 k', [1e6] = '1.0 M',
                          [5.55e6] = '5.5 M', [999.6e6] = '1.0 G', [2e9] = '2.0 G', [7e12] = '7000 G' } do
      if n == 5.55e6 then assert.matches('^5%.[56] M$', top.short(n)) else assert.equal(text, top.short(n)) end
    end
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
      assert.equal(expected, plain(t:wait(function(s) return plain(s) == expected end)))
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
      assert.equal(expected, plain(t:wait(function(s) return plain(s) == expected end)))
    end
    t:resize(12, 4)                                   -- nothing useful has room, and nothing breaks
    t:wait(function(s) return #s < 60 end)
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

  ordered_it('sorts nodes by a key, and shows those alone that are looked for', function()
    open(80, 24)
    asks(COUNTING .. ';')
    asks('h = df.start(x, nil, {paused = true}) h:step(200);')
    t:keys('C-l'):line(':top')
    t:wait('s sorts (runs)')
    local function names() return t:screen():match 'ran lately\n(.-)\n\n':gsub(' *[%d.]+ %%  (%S+)[^\n]*', '%1 ') end
    t:type('s')
    t:wait('s sorts (name)')
    t:wait(function() return names() == 'while/Add \nwhile/GreaterEqual \nwhile/NextIteration \nwhile/Switch ' end)
    t:type('/')
    t:wait('look for: _')
    t:type('SWIx')
    t:wait('look for: SWIx_')
    t:keys('BSpace', 'Enter')
    t:wait("/ looks for 'SWI'")
    assert.equal('while/Switch ', names())
    t:type('/')
    t:wait('look for: SWI_')
    t:keys('Escape')
    t:wait(function() return names():find 'while/Add' end)
    t:type('q')
    t:wait(function(s) return s:find('dflow>$') end)
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
