-- :prof, :time and the line about a run that takes long.
local df = require 'dflow'
local profile = require 'dflow.repl.profile'
local progress = require 'dflow.repl.progress'
local inspect = require 'dflow.inspect'
local shell = require 'spec.shell'
local terminal = require 'spec.terminal'
local host_it = require('spec.support').host_it(it, pending)       -- elsewhere messages are tokens, too

--- A training step: a loop with matrix products, and its gradient.
local function training()
  df.reset()
  local w = df.Variable(df.ones{ 32, 32 }, { name = 'w' })
  local _, h = df.while_loop(function(i) return i:lt(df.int32(10)) end, function(i, h) return i + 1, df.tanh(h:matmul(w)) end, { df.int32(0), df.ones{ 4, 32 } },
    { name = 'rnn' })
  return { w:assign_sub(df.gradients(df.reduce_mean(h), w) * 0.1), h }
end

local function logged(fetches)
  local h = df.start(fetches, nil, { log = true })
  h:wait()
  return h
end

local function sum(rows, field)
  local n = 0
  for _, row in ipairs(rows) do n = n + row[field] end
  return n
end

--- The numbers of a table of :prof under its title: {{name, tokens, ms, per cent, dead}, …}.
local function rows_of(text, title)
  local rows = {}
  for line in text:match(title .. ' +tokens[^\n]*\n(.-)\n\n'):gmatch('[^\n]+') do
    local name, ms, percent = line:match('^(.-)  +[%d ]- +([%d.]+) +([%d.]+)%%')
    rows[#rows + 1] = { name = name, ms = tonumber(ms), percent = tonumber(percent) }
  end
  return rows
end

describe('the line about a run', function()
  it('stands below the cursor, shows what a terminal would obey as question marks, and gives way to whole lines', function()
    local r = shell.run(shell.lua .. ' - <<"END"\n' .. [[
      local df, core = require 'dflow', require 'dflow.backend'
      local function mark() io.stderr:write '|' end
      core.status_line 'x'
      mark()
      core.status_line 'a\27[2J\127\194\155z\195\164'
      mark()
      df.run(df.print(df.int32(7), { message = 'm' }))
      mark()
      core.status_line ''
      mark()
      core.status_line(nil)
      mark()
      core.status_line(('w'):rep(600))
      mark()
      core.status_line(nil)
]] .. 'END\n')
    local below, back = '\27[K\27D\27M\0277\27[B\r', '\27[K\0278'
    local told = r.err:match '|' and select(3, r.err:find('^[^|]*|[^|]*|.-' .. '\0278([^|]-m[^|]-\n)'))
    assert.is_truthy(told, r.err)
    assert.equal(table.concat({ below .. 'x' .. back, below .. 'a?[2J???z\195\164' .. back, below .. back .. told .. below .. 'a?[2J???z\195\164' .. back,
      below .. back, '', below .. ('w'):rep(511) .. back, below .. back }, '|'), r.err)
  end)
end)

describe('a profile', function()
  it('has the time of all kernels by op, by line and by frame, and the rest as overhead: together all of it', function()
    local h = logged(training())
    local all = profile.sums({ h }, 0.05)
    for _, kind in ipairs{ 'ops', 'lines', 'frames' } do
      assert.equal(all.kernels, sum(all[kind], 'ns'))
      assert.equal(all.tokens, sum(all[kind], 'n'))
      assert.equal(all.dead, sum(all[kind], 'dead'))
    end
    assert.equal(0.05 * 1e9, all.kernels + all.overhead)
    local names = {}
    for _, f in ipairs(all.frames) do names[f.name] = f.n end
    assert.is_true(names['rnn'] > 50 and names['gradients/rnn'] > 50 and names['top level'] > 5)
  end)

  host_it('stands in columns of 80, whose per cents add up to a hundred', function()
    local h = logged(training())
    local text = profile.text({ h }, 0.01)
    for line in text:gmatch('[^\n]+') do assert.is_true(#line <= 80, line) end
    for _, title in ipairs{ 'op', 'Lua line', 'frame' } do
      local rows = rows_of(text, title)
      assert.is_true(math.abs(sum(rows, 'percent') - 100) < 0.1 * #rows, title)
      assert.is_true(math.abs(sum(rows, 'ms') - 10) < 0.001 * #rows, title)
      assert.equal('overhead, outside of kernels', rows[#rows].name)
    end
    assert.matches('\n%d+ more +%d+', text)                       -- ops that are not among the first
    assert.matches('all, 1 run +%d+ +10%.000  100%.0%%', text)
  end)

  it('has one row for the ops that are not among the first: what they took together', function()
    local h = logged(training())
    local n, ns, dead, of = 0, 0, 0, profile.sums({ h }).ops
    for i = 3, #of do n, ns, dead = n + of[i].n, ns + of[i].ns, dead + of[i].dead end
    assert.is_true(dead > 0)
    local more, tokens, ms, percent, died = profile.text({ h }, nil, 2):match '\n(%d+) more +(%d+) +([%d.]+) +([%d.]+)%% +(%d+)\n'
    assert.same({ #of - 2, n, dead }, { tonumber(more), tonumber(tokens), tonumber(died) })
    assert.near(ns / 1e6, tonumber(ms), 0.001)
    assert.is_true(tonumber(percent) <= 100)
  end)

  it('adds several runs up', function()
    local fetches = training()
    local a, b = logged(fetches), logged(fetches)
    assert.equal(2 * profile.sums({ a }).tokens, profile.sums({ a, b }).tokens)
    assert.matches('all, 2 runs', profile.text({ a, b }, 1))
  end)

  host_it('counts a time in which workers had something as covered', function()
    local x = df.random_uniform({ 400, 400 }, { seed = 1 })
    local list = {}
    for i = 1, 6 do list[i] = df.matmul(x, x * i):reduce_sum() end
    local s = df.Session{ threads = 4 }
    local clock = require('dflow.backend').clock
    local began = clock()
    local h = s:start(list, nil, { log = true })
    h:wait()
    local all = profile.sums({ h }, clock() - began + 1)
    assert.is_true(all.kernels > 0 and all.overhead < 1.2e9 and all.overhead > 0.5e9)
    s:close()
  end)

  it('cuts a long name at its beginning', function()
    local name = ('long_'):rep(20) .. 'end'
    local h = logged(df.while_loop(function(i) return i:lt(df.int32(3)) end, function(i) return i + 1 end, { df.int32(0) }, { name = name }))
    assert.matches('\n<[long_]+_end +%d', profile.text({ h }, 1))
  end)
end)

describe('the prompt', function()
  local function session(...)
    return shell.run(shell.dflow .. ' -i 2>&1', table.concat({ ... }, '\n') .. '\n').out
  end

  host_it('tells where the time of several runs went, and of one that failed until it did', function()
    local out = session('x = df.placeholder("int32", {})', ':prof for i = 1, 3 do df.run(df.floor_div(6, x), {[x] = i}) end',
      ':prof df.run(df.floor_div(6, x), {[x] = 0})', 'y = df.ones{3} * 2', ':prof y', ':prof 1 + 1')
    assert.matches('FloorDiv +3 .*all, 3 runs +3 ', out)
    assert.matches('FloorDiv +1 .*all, 1 run +1 .*integer division by zero', out)
    assert.matches('Mul +1 .*all, 1 run', out)
    assert.matches('that ran no graph', out)
  end)

  it('writes a timeline or a page of what an expression ran, and refuses a file that cannot be written before', function()
    local path = os.tmpname()
    local out = session('x = df.Variable(1.0)', (':trace %s.json x:assign_add(1)'):format(path), (':trace %s.html for i = 1, 2 do df.run(x + i) end'):format(path),
      ':trace /nowhere/at/all.json x:assign_add(1)', 'df.run(x)', (':trace %s.json df.run(df.floor_div(1, df.placeholder_with_default(df.int32(0), {})))'):format(path))
    assert.matches(path .. '%.json was written\n', out)
    assert.matches(path .. '%.html was written, of the last of 2 runs\n', out)
    assert.matches('nowhere/at/all.json: No such file', out)
    assert.matches('dflow> 2%.0\n', out)
    assert.matches('%.json was written\n[^\n]*integer division by zero', out)
    for _, name in ipairs{ path, path .. '.json', path .. '.html' } do os.remove(name) end
  end)

  it('writes a page with all primitives, named by their loop variables; after :set primitives off, without', function()
    local path = os.tmpname()
    session('i = while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, {df.int32(0)})',
      (':trace %s.html i'):format(path), ':set primitives off', (':trace %s.2.html i'):format(path))
    local shell = require 'spec.shell'
    assert.matches('"label":"Merge i"', shell.read(path .. '.html'), 1, true)
    assert.is_nil(shell.read(path .. '.2.html'):find('"type":"Merge"', 1, true))
    for _, name in ipairs{ path, path .. '.html', path .. '.2.html' } do os.remove(name) end
  end)

  require('spec.support').native_it(it, pending)('says which engine it times, and that a log is of tokens', function()
    local out = session('i, y = while_loop(function(i) return i:lt(20000) end, function(i, v) return i + 1, df.sin(v) end, {0, 1.0})',
      ':timeit y', ':prof y', ':timeit 1 + 1')
    local timed, profiled, plain = out:match '(a run takes.-)(op +tokens.-)(%d[^\n]*rounds of.*)$'
    assert.matches('loops of this session: [01] native, [01] by tokens', timed)
    if timed:find('1 native', 1, true) then assert.matches('these are tokens, which a log needs; 1 loop', profiled) end
    assert.is_nil(plain:find 'loops of this session')
  end)
end)

describe('how many trips a loop makes', function()
  --- What the progress line knows of the outermost loop after some tokens.
  local function known(x, feeds)
    local h = df.start(x, feeds, { paused = true })
    h:step(300)
    local outer = progress.outermost(inspect.outlines(h))
    local n = progress.trips(h, outer)
    h:cancel()
    pcall(h.wait, h)
    return n
  end
  local function loop(cond, opts, body, init)
    return (df.while_loop(cond, body or function(i) return i + 1 end, { init or df.int32(0) }, opts))
  end

  it('is known where a counter is compared with what stays the same', function()
    local n, list = df.placeholder('int32', {}), df.placeholder('int32', { -1 })
    local captured, computed = df.int32(500), df.reduce_sum(list)
    assert.equal(1000, known(loop(function(i) return i:lt(1000) end)))
    assert.equal(1001, known(loop(function(i) return i:le(1000) end)))
    assert.equal(1000, known(loop(function(i) return df.greater(df.int32(1000), i) end)))
    assert.equal(500, known(loop(function(i) return i:lt(captured) end)))
    assert.equal(2000, known(loop(function(i) return i:lt(n) end), { [n] = 2000 }))
    assert.equal(3000, known(loop(function(i) return i:lt(computed) end), { [list] = { 1000, 2000 } }))
    assert.equal(334, known(loop(function(i) return i:lt(1000) end, nil, function(i) return i + 3 end)))
    assert.equal(501, known(loop(function(i) return i:gt(0) end, nil, function(i) return i - 2 end, df.int32(1001))))
  end)

  it('is known of maximum_iterations, which may be fed, too', function()
    local n = df.placeholder('int32', {})
    assert.equal(777, known(loop(function(i) return i:ge(0) end, { maximum_iterations = 777 })))
    assert.equal(400, known(loop(function(i) return i:lt(400) end, { maximum_iterations = 777 })))
    assert.equal(888, known(loop(function(i) return i:ge(0) end, { maximum_iterations = n }), { [n] = 888 }))
  end)

  it('is that of the outer one of nested loops', function()
    assert.equal(100, known((df.while_loop(function(i) return i:lt(100) end, function(i, s)
      return i + 1, s + loop(function(j) return j:lt(50) end)
    end, { df.int32(0), df.int32(0) }))))
  end)

  it('is not known where the predicate does not tell', function()
    assert.is_false(known(loop(function(i) return i:ge(0) end)))
    assert.is_false(known(loop(function(i) return i:lt(100000) end, nil, function(i) return i * 2 - i + 1 end)))
    assert.is_false(known(loop(function(i) return i:gt(0) end, nil, function(i) return i * 0.999 end, df.float32(1000))))
    assert.is_false(known((df.while_loop(function(i) return i:gt(0) end, function(i, j) return j - 2, i end, { df.int32(1001), df.int32(1001) }))))
    assert.is_false(known(loop(function(i) return i:lt(1000) end, nil, function(i) return 1 - i end)))
    assert.is_false(known(loop(function(i) return i:lt(1000) end, nil, function(i) return i - 1 end)))
    assert.is_false(known(loop(function(i) return i:ne(1000) end)))
  end)

  it('is known of a gradient\'s loop, and of an imported one', function()
    local x = df.placeholder('float32', {})
    local _, y = df.while_loop(function(i) return i:lt(60) end, function(i, y) return i + 1, y * x end, { df.int32(0), df.float32(1) }, { name = 'forward' })
    local h = df.start(df.gradients(y, x), { [x] = 1 }, { paused = true })
    local seen = {}
    for _ = 1, 400 do                       -- cut over devices it has more tokens
      if not h:step(20) then break end
      local outer = progress.outermost(inspect.outlines(h))
      if outer then seen[outer.name] = progress.trips(h, outer) or seen[outer.name] end
    end
    h:cancel()
    pcall(h.wait, h)
    assert.same({ forward = 60, ['gradients/forward'] = 60 }, seen)
    local s = df.Session{ graph = df.import_graph_def('spec/graphs/loop.pb') }
    h = s:start('y', { n = 100, x = { 1 } }, { paused = true })
    h:step(100)
    assert.equal(100, progress.trips(h, progress.outermost(inspect.outlines(h))))
    h:cancel()
    pcall(h.wait, h)
    s:close()
  end)
end)

describe('the line about a run that takes long', function()
  if not terminal.available() then return pending('tmux is not there') end
  if (os.getenv('DFLOW_MODE') or ''):find('san$') then return pending('the sanitizers are too slow for a person to type at') end

  local LOOPS = [[
n = df.placeholder('int32', {})
function long(n, opts) return (while_loop(function(i) return i:lt(n) end, function(i) return i + 1 end, {df.int32(0)}, opts)) end
]]
  local t
  local function open(columns, command)
    -- As tokens: native code is through before there is anything to see.
    t = terminal.open(columns, 24, { files = { ['.config/dflow/init.lua'] = LOOPS }, command = command, environment = 'DFLOW_ENGINE=tokens' })
    return t
  end
  after_each(function()
    if t then t:close() end
    t = nil
  end)

  it('has a bar where the trips are known, and goes without a trace', function()
    open(80):line('df.run(long(n), {[n] = 2000000000}, {timeout = 2})')
    local screen = t:wait('%')
    assert.matches('\n%[#*%.*%] +%d+ %%  [%d.]+ s  [%d.]+ ?[kMG]? it/s  while:%d+ of 2000000000$', screen)
    screen = t:wait(function(s) return s:find('took longer.*dflow>$') end)
    assert.matches('the run took longer', screen)
    assert.is_nil(screen:find('it/s', 1, true), screen)
  end)

  it('has room in 40 columns', function()
    open(40):line('df.run(long(500000000))')
    local screen = t:wait(function(s) return s:find('\n%[[#.]+%] +%d+ %%  [%d.]+ s') end)
    assert.matches('\n%[[#.]+%] +%d+ %%  [%d.]+ s  [%d.]+ ?[kMG]? it/s$', screen)
    t:keys('C-c')
    t:wait('paused>')
    t:keys('C-c')
    t:wait(function(s) return s:find('dflow>$') end)
  end)

  it('is not written where errors go to a file', function()
    local file = os.tmpname()
    open(80, ("sh -c '%s 2>%s'"):format(terminal.program(), file)):line('df.run(long(8000000))')
    t:wait(function(s) return s:find('\n8000000\ndflow>$') end, 30)
    local f = assert(io.open(file))
    assert.equal('', f:read('*a'))
    f:close()
    os.remove(file)
  end)
end)
