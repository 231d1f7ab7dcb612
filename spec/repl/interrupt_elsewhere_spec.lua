-- Ctrl-C where no graph runs: while Lua builds one, while the library does, while something is printed, timed or asked for. Each time the
-- prompt comes back, the next node is built at the top level, and the terminal is what it was.
-- run: first, alone
local typist = require 'spec.typist'

local WORK = [[
function forever() while true do end end
p = df.placeholder('bool', {}, 'p')
other = df.Graph()
function endless()
  local _, y = while_loop(function(i) return i:ge(0) end, function(i, y) return (i + 1) % 1000, y * 0.5 end, { df.int32(0), df.float32(1) })
  return y
end
e, f = endless(), df.float32(3) * 2
function chain(n)
  local x = df.float32(1)
  local y = x
  for _ = 1, n do y = y * 1.5 end
  return y, x
end
y, x = chain(100000)
heavy = df.zeros{ 3000, 3000 }
heavy = (heavy:matmul(heavy):matmul(heavy)):reduce_sum()
]]

describe('Ctrl-C at the prompt', function()
  if not typist.available() then return pending('there is no terminal to type at') end
  if (os.getenv('DFLOW_MODE') or ''):find('san$') then return pending('the sanitizers are too slow for milliseconds') end
  local t, modes
  local marks = 0

  local function fail(what) error(what .. '\n' .. t:seen(), 0) end
  local function expect(text, what)
    local ms, which = t:wait(text, 20)
    if not ms then fail(what or 'no ' .. tostring(text)) end
    return ms, which
  end
  local function prompt()
    marks = marks + 1
    t:line(('print("@%d" .. "@")'):format(marks))
    expect(('@%d@\r'):format(marks), 'the prompt does not answer')
    return select(2, expect({ 'paused> ', 'dflow> ' }, 'there is no prompt'))
  end
  --- The next node is one of the top level, of the default graph, and can be run; nothing stands from before.
  local function sound()
    if prompt() ~= 'dflow> ' then fail('it is not the first prompt') end
    t:line('z = df.add(df.float32(20), 22) print("@" .. z.name:match("^Add[_%d]*:0$") .. " " .. df.run(z))')
    expect('@Add')
    expect(' 42')
    prompt()
    assert.are.equal(modes, t:modes())
  end
  --- Types a line and Ctrl-C after so many milliseconds; what is seen then.
  local function interrupt(line, ms, words)
    prompt()
    t:line(line)
    expect('\n')
    t:type(typist.CTRL_C, ms)
    return expect(words or 'interrupted', 'it was not interrupted')
  end

  setup(function()
    t = typist.open{ init = WORK }
    expect 'dflow> '
    prompt()
    modes = t:modes()
  end)
  teardown(function() t:close() end)

  local building = {
    ['a loop\'s body'] = 'while_loop(function(i) return i:lt(3) end, forever, { df.int32(0) })',
    ['a loop\'s predicate'] = 'while_loop(forever, function(i) return i end, { df.int32(0) })',
    ['a branch'] = 'cond(p, forever, forever)',
    ['a loop in a branch in a branch'] = [[cond(p, function() return 1 end, function() return cond(p, function()
      return while_loop(function(i) return i:lt(3) end, forever, { df.int32(0) }) end, forever) end)]],
    ['a name scope'] = 'df.name_scope("s", forever)',
    ['control dependencies'] = 'df.control_dependencies({ p }, forever)',
    ['another graph'] = 'other:as_default(function() return cond(df.constant(true), forever, forever) end)',
    ['another session'] = 'df.Session{ graph = other }:as_default(forever)',
    ['map_fn'] = 'df.map_fn(forever, { 1, 2 })',
    ['a coroutine'] = 'cond(p, coroutine.wrap(forever), forever)',
    ['a chain of nodes'] = 'chain(1e8)',
  }
  for what, line in pairs(building) do
    it('gives up ' .. what .. ', half built', function()
      interrupt(line:gsub('\n%s*', ' '), 20)
      sound()
    end)
  end

  it('stops the library while it builds gradients, or makes a plan', function()
    for _, line in ipairs{ 'for i = 1, 1e6 do gradients(y, x) end', 'for i = 1, 1e6 do df.Session():run(y) end' } do
      interrupt(line, 30, { 'interrupted', 'paused> ' })
      if prompt() == 'paused> ' then t:line(':cancel') end
      sound()
    end
  end)

  it('stops what is printed', function()
    interrupt('for i = 1, 1e9 do print(i) end', 20)
    sound()
    interrupt('df.run((while_loop(function(i) return i:ge(0) end, function(i) df.print(i) return (i + 1) % 9 end, { df.int32(0) })))', 30, 'paused> ')
    t:type(typist.CTRL_C)
    expect 'cancelled'
    sound()
  end)

  it('ends a wait that begins just after it', function()
    t:line('h = df.start(e) function key() io.popen("kill -INT " .. require("dflow.program").pid()):close() end')
    for _, line in ipairs{ 'key() h:settle()', 'h:pause() key() print(h:step(1e9))' } do
      prompt()
      t:line(line)
      expect({ 'interrupted', 'paused before' }, 'it was not interrupted')
      sound()
    end
    t:line('h:cancel()')
    sound()
  end)

  it('asks about what is timed, profiled, or waited for', function()
    for _, line in ipairs{ ':timeit e', ':time df.run(e)', ':prof df.run(e)', 'df.start(e):wait()', 'coroutine.wrap(function() df.run(e) end)()' } do
      interrupt(line, 30, 'paused> ')
      t:line(':continue')
      expect '\n'
      t:type(typist.CTRL_C, 20)
      expect 'paused> '
      t:type(typist.CTRL_C)
      expect 'cancelled'
      sound()
    end
  end)

  it('leaves runs in the background alone that are not waited for', function()
    t:line('h = df.start(e)')
    interrupt('forever()', 20)
    interrupt('h:settle()', 20)
    t:line('print("@" .. h:state())')
    expect '@running'
    t:line('print("@" .. tostring(h:pause()))')
    expect '@paused before'
    interrupt('h:step(1e9)', 20, { 'paused before', 'interrupted' })     -- before it steps, on a busy machine
    t:line('print("@" .. h:state()) h:cancel()')
    expect '@paused'
    sound()
  end)

  it('gives the prompt back from :continue of a run in the background, which goes on', function()
    t:line('h = df.start(e, nil, { paused = true })')
    interrupt(':continue', 30, 'continues in the background')
    t:line('print("@" .. h:state())')
    expect '@running'
    t:line('h:cancel()')
    sound()
  end)

  it('stops Lua at the prompt of a paused run, and the run stays paused', function()
    interrupt('df.run(e)', 20, 'paused> ')
    interrupt('forever()', 20)
    assert.are.equal('paused> ', prompt())
    interrupt('cond(p, forever, forever)', 20)
    assert.are.equal('paused> ', prompt())
    t:line(':frames')
    expect 'in flight'
    prompt()
    interrupt('df.run(e)', 20, 'paused> ')                  -- a run within: the first one stays where it is
    t:line(':cancel')
    expect 'cancelled'
    assert.are.equal('paused> ', prompt())
    t:line(':step')
    expect 'stepped before'
    t:line(':cancel')
    expect 'cancelled'
    sound()
  end)

  -- It comes again when the loop has caught it, however busy the machine is: two that come before a look are one.
  it('stops a loop that catches errors when it comes again', function()
    for _, called in ipairs{ 'forever', 'df.run, f' } do
      local _, word = interrupt(('while true do if not pcall(%s) then print("cau" .. "ght") end end'):format(called), 20, { 'caught', 'interrupted' })
      if word == 'caught' then
        t:type(typist.CTRL_C)
        expect('interrupted', 'it was not interrupted again')
      end
      sound()
    end
  end)

  it('says so when a kernel cannot be stopped, and gives the prompt back at once', function()
    local ms = interrupt('df.run(heavy)', 50, { 'not paused yet: ', 'paused before' })
    assert.is_true(ms < 500, ms .. ' ms')
    expect 'paused> '
    t:type(typist.CTRL_C)
    ms = expect 'cancelled'
    assert.is_true(ms < 2000, ms .. ' ms')
    sound()
  end)

  it('ends :top, which leaves the screen as it was', function()
    t:line('h = df.start(e)')
    prompt()
    t:line(':top')
    expect 'any key leaves'
    t:type(typist.CTRL_C)
    expect '\27[?1049l'
    t:line('h:cancel()')
    sound()
  end)

  it('drops the line that is typed', function()
    t:type('df.run(e')
    t:type(typist.CTRL_C, 20)
    expect '^C'
    sound()
  end)
end)
