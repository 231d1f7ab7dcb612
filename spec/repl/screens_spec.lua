-- Whole screens of the prompt, at 80 by 24 and 120 by 40, compared with those in spec/screens.
--
-- A file of spec/screens is what the terminal shows, without the blanks at the ends of its lines, and where the cursor is. After a change
-- that is meant, `DFLOW_SCREENS=write` writes them anew: look at their diff.
-- run: first
local shell = require 'spec.shell'
local terminal = require 'spec.terminal'
local ordered_it = require('spec.support').ordered_it(it, pending)

local writes = os.getenv 'DFLOW_SCREENS' == 'write'
local sizes = { { 80, 24 }, { 120, 40 } }

local function read(path)
  local f = io.open(path)
  local text = f and f:read('*a')
  if f then f:close() end
  return text
end

--- The screen and the cursor as a file has them; versions are left out.
local function picture(t)
  local x, y = t:cursor()
  return ('%s\n-- cursor: column %d of row %d\n'):format(t:screen():gsub('^dflow %d[^\n]*', 'dflow VERSION'), x, y)
end

describe('the screen', function()
  if not terminal.available() then return pending('tmux is not there') end
  if (os.getenv('DFLOW_MODE') or ''):find('san$') then return pending('the sanitizers are too slow for a person to type at') end

  local t
  after_each(function()
    if t then t:close() end
    t = nil
  end)

  --- Compares what is shown once it holds `ready` with the file of that name; waits a moment for the rest of it.
  local function shows(name, ready)
    t:wait(ready)
    local path = ('spec/screens/%s.txt'):format(name)
    if writes then
      os.execute('sleep 0.3')
      shell.write(path, picture(t))
    end
    local wanted, seen = assert(read(path)), nil
    for _ = 1, 600 do
      seen = picture(t)
      if seen == wanted then break end
      os.execute('sleep 0.05')
    end
    assert.are.equal(wanted, seen)
  end

  --- A test for each size; type_at(t) types, and gives the text that stands there at the end.
  local function screen(name, title, opts, type_at, case_it)
    for _, size in ipairs(sizes) do
      (case_it or it)(('%s, at %d by %d'):format(title, size[1], size[2]), function()
        t = terminal.open(size[1], size[2], opts)
        shows(('%s-%dx%d'):format(name, size[1], size[2]), type_at(t) or 'dflow>')
      end)
    end
  end

  --- Types lines, each when the prompt is there for it.
  local function lines(...)
    for _, line in ipairs{ ... } do
      local before = t:screen()
      t:line(line)
      t:wait(function(s) return s ~= before and (s:find('dflow>$') or s:find('%.%.%. *$')) end)
    end
  end

  local function a_function()
    lines('function norm(x)', 'if df.type(x) then', 'return df.sqrt(df.reduce_sum(x * x))', 'else')
    t:type('return math.abs(x) -- a number')
    return 'a number'
  end
  screen('function', 'of a function that is being typed', nil, a_function)

  screen('completion', 'of what may stand there', nil, function()
    lines('local tolerance = 0.5')
    t:type('table.'):keys('Tab')
    return '  unpack'
  end)

  screen('hint', 'of a call with the argument that one is at', nil, function()
    t:type('df.strided_slice(x, {0}, {5}, {1}, {shrink_axis_mask = 1')
    return '_mask = 0})'
  end)

  screen('error', 'of mistakes in Lua, in a graph and in a run', nil, function()
    lines('x = = 1', 'a = df.placeholder("float32", {2, 3})', 'a:matmul(a)', 'df.run(df.constant({1, 2}) / df.int32(0))',
          'df.run(df.gather(df.constant({1., 2.}), 7))', ':nonsense')
    return ':help lists them\ndflow>'
  end)

  screen('tensor', 'of numbers, small and many, and what they are', nil, function()
    lines('df.tensor({{1, 2.5}, {-300, 0.125}})', 'df.tensor{1e-7, 0/0, 1/0, 12345.678}',
          't = df.run(df.reshape(df.range(10000), {100, 100}))', 't', '{1, "two", {3, x = true}}')
    return 'true}}\ndflow>'
  end)

  screen('graph', 'of an Output, its value and its graph', nil, function()
    lines('x = df.constant({1., 2., 3.})', 'x * 2', 'i = while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, {0})', ':graph i')
    return 'in '
  end)

  screen('help', 'of the commands', nil, function()
    t:line(':help')
    return function(s) return s:find('Ctrl%-D leaves.\ndflow>$') or s:find('q leaves %-%-$') end
  end)

  screen('help-name', 'of what there is to know about a name', nil, function()
    t:line('?reduce_sum')
    return function(s) return (s:find('dflow>$') or s:find('q leaves %-%-$')) and s:find('reduce_sum') end
  end)

  screen('paused', 'of a run that stands still', nil, function()
    lines('i, y = while_loop(function(i) return i:lt(1e9) end, function(i, y) return i + 1, y * 0.5 end, {0, 1.})',
          'h = df.start(y, nil, {paused = true})', 'h:break_at{op = "Mul", frame = "while:400000"};')
    t:line('h:resume() h:wait()')
    t:wait('paused>')
    t:line(':why while/Mul@while:400000')
    t:wait(function(s) return select(2, s:gsub('paused>', '')) == 2 end)
    t:line('nonsense(')
    return function(s) return s:find('%.%.%.$') end
  end, ordered_it)

  screen('search', 'of the history that is searched', nil, function()
    lines('alpha = 1', 'function beta()', 'return alpha', 'end', 'gamma = 3')
    t:keys('C-r'):type('al')
    return 'search: al'
  end)

  screen('session', 'of a session that was pasted', nil, function()
    t:paste('dflow> function f(x)\n   ...   return x + 1\n   ... end\ndflow> f(1)\n2\ndflow> f({})\n?\ndflow> f(2)\n3\n')
    t:wait('f(2)')
    t:keys('Enter')
    return 'was left out\ndflow>'
  end)

  screen('c-locale', 'where only ASCII can be shown', { environment = 'LC_ALL=C' }, function()
    lines("s = 'é'", 't = df.run(df.reshape(df.range(10000), {100, 100}))', 't')
    t:type('df.matmul(t, ')
    return 'transpose_a'
  end)

  screen('dumb', 'of a terminal that cannot move its cursor', { environment = 'TERM=dumb' }, function()
    t:line('function f()')
    t:wait('\n  ...')
    t:line('return 3 end')
    t:wait('end\ndflow>')
    lines('f()', 'df.tensor{1, 2}', 'error("no")')
    return 'main chunk\ndflow>'
  end)

  it('has no colours with NO_COLOR, and the same text', function()
    t = terminal.open(80, 24, { environment = 'NO_COLOR=1' })
    shows('function-80x24', a_function())
    assert.is_nil(t:colors():find('\27%[[%d;]*[34][0-7]m'), t:colors())
    t:keys('C-c')
    lines('error("no")')
    assert.is_nil(t:colors():find('\27%[[%d;]*[34][0-7]m'), t:colors())
  end)

  --- Types a buffer of so many lines, some of them wider than most windows, and goes up again by so many.
  local function buffer_of(n, up)
    local list = { 'function long()' }
    for i = 1, n do list[#list + 1] = ('  local name_%d = "%s" -- line %d'):format(i, ('word '):rep(i % 4 * 7), i) end
    t:paste(table.concat(list, '\n'))
    t:wait('line ' .. n)
    t:keys(('Up '):rep(up))
    t:keys('C-a')
  end

  local function resized()
    for _, size in ipairs{ { 40, 10 }, { 100, 30 }, { 61, 17 }, { 120, 40 }, { 80, 24 } } do
      t:resize(size[1], size[2])
      os.execute('sleep 0.2')
    end
  end

  --- What is shown when nothing more comes.
  local function settled()
    local seen
    t:wait(function()
      local before = seen
      seen = picture(t)
      return seen == before
    end)
    return seen
  end

  it('is the same after the window shrank and grew while one edits', function()
    t = terminal.open(80, 24)
    t:line('x = 1')
    t:wait('x = 1\ndflow>')               -- a terminal shows what comes before the prompt by itself
    buffer_of(9, 4)
    t:type('y')
    t:wait('y  local name_5')
    --- The buffer, and the cursor from its first row on: what stands above it may be out of the window then.
    local function of_buffer(shown)
      local above, buffer, row = shown:match('^(.-)(dflow> function long.*) of row (%d+)')
      return ('%s of row %d'):format(buffer, row - select(2, above:gsub('\n', '')))
    end
    local before = settled()
    resized()
    assert.are.equal(of_buffer(before), of_buffer(settled()))
  end)

  it('is as one drawn anew, of a buffer taller than the window, after the window shrank and grew', function()
    t = terminal.open(80, 24)
    buffer_of(45, 20)
    t:type('y')
    t:wait('y  local name_25')
    resized()
    local seen = settled()
    assert.is_truthy(seen:find('y  local name_25', 1, true), seen)
    t:keys('C-l')
    assert.are.equal(settled(), seen)
  end)
end)
