-- Runs that are over and remain: what they were at their end or error can still be asked. And the prompt's breakpoints.
local df = require 'dflow'
local shell = require 'spec.shell'
local ordered_it = require('spec.support').ordered_it(it, pending)
local host_it = require('spec.support').host_it(it, pending)      -- where a GPU has the values, what brings them is a step, too
local next_it = require('spec.support').next_it(ordered_it, pending)

--- A loop that divides by zero in iteration 5.
local function failing()
  local i, x = df.while_loop(function(i) return i:lt(9) end, function(i, x)
    return i + 1, df.cond(i:gt(2), function() return df.floordiv(x, 5 - i) end, function() return x + 1 end)
  end, { df.int32(0), df.int32(100) })
  return { i, x }
end

describe('a run that failed and remains', function()
  local function run(opts)
    local h = df.start(failing(), nil, opts or { remains = true })
    assert.is_false((pcall(h.wait, h)))
    return h
  end

  it('still has the frame and the iteration that failed', function()
    local frames = run():frames()
    assert.equal('while', frames[2].name)
    assert.is_true(frames[2].first <= 5 and frames[2].next > 5)
  end)

  it('tells what the node was given that failed', function()
    local h = run()
    assert.matches('^while/cond/FloorDiv:0 @ while:5 failed, integer division by zero: FloorDiv%(.* = 51, .* = 0%)', h:why('while/cond/FloorDiv', 'while:5'))
    assert.equal(0, h:value('while/cond/Sub', 'while:5'))
  end)

  it('tells it though nothing else was left of that iteration and the next one is busy', function()
    local q = df.FIFOQueue(1, 'int32', { shapes = { {} } })
    local _, x = df.while_loop(function(i) return i:lt(9) end, function(i, x)
      for k = 1, 40 do x = x + k end
      local taken = df.cond(i:gt(5), function() return q:dequeue() end, function() return df.int32(0) end)      -- what runs ahead waits there
      return i + 1, df.floordiv(x, 5 - i, { name = 'share' }), taken
    end, { df.int32(0), df.int32(100), df.int32(0) })
    local h = df.start(x, nil, { remains = true })
    assert.is_false((pcall(h.wait, h)))
    assert.matches('integer division by zero: FloorDiv%(.* = %d+, .* = 0%)', h:why('while/share', 'while:5'))
    assert.equal(5, h:frames()[2].first)
  end)

  it('tells why a value is dead and what has not come', function()
    local h = run()
    assert.matches('the Switch while/cond/Switch_3 took true, since .* > .* was 5 > 2', h:why('while/cond/Add', 'while:5'))
    assert.matches('it waits for the loop while to end', h:whynot('while/Exit_1'))
  end)

  it('goes back over its last tokens', function()
    local tokens = run():history(200)
    local seen = {}
    for _, t in ipairs(tokens) do seen[t.tag .. ' ' .. t.op.name] = true end
    assert.is_true(seen['while:5 while/cond/FloorDiv'] and seen['while:4 while/cond/FloorDiv'])
  end)

  it('has nothing left when it did not remain, or its session is closed', function()
    assert.equal(0, #run{ remains = false }:frames())
    local s = df.Session{}
    local h = s:start(failing(), nil, { remains = true })
    pcall(h.wait, h)
    assert.equal(2, #h:frames())
    s:close()
    assert.equal(0, #h:frames())
    assert.equal('failed_precondition', select(2, pcall(h.why, h, 'while/cond/FloorDiv')).code)
  end)
end)

describe('a run that ended well and remains', function()
  it('has its values at the top level, and those of ended iterations that it was told to keep', function()
    local y = df.float32{ 1, 2 } * 3
    local i, x = df.while_loop(function(i) return i:lt(4) end, function(i, x) return i + 1, x * 2 end, { df.int32(0), df.float32(1) })
    local h = df.start({ y + 1, x, i }, nil, { remains = true, values = true })
    h:wait()
    assert.same({ 3, 6 }, h:value(y):totable())
    assert.equal(8, h:value('while/Mul', 'while:2'))
    assert.matches('while/Mul:0 @ while:2 is 8 = Mul', h:why('while/Mul', 'while:2'))
    h = df.start(x, nil, { remains = true })
    h:wait()
    assert.matches('that it kept, if it was told to: {values = true}', h:why('while/Mul', 'while:2'))
  end)

  it('changes no result, and runs after it go on as ever', function()
    local v = df.Variable(df.zeros{ 3 })
    local step, results = v:assign_add(df.ones{ 3 }), {}
    for k = 1, 20 do
      local h = df.start(step, nil, { remains = true })
      results[k] = h:wait():totable()[1]
    end
    for k = 1, 20 do assert.equal(k, results[k]) end
  end)
end)

local LOOP = [[
step = function(i, y) return i + 1, cond(i:gt(2), function() return y:log() - 1 end, function() return y - 3 end) end
i, y = while_loop(function(i, y) return i:lt(6) end, step, {0, 1.0})
]]

local function prompt(text) return shell.run(shell.dflow .. ' -E -i 2>&1', text).out end

describe('the prompt', function()
  ordered_it('looks at the run that failed last', function()
    local out = prompt('z = df.int32(10) // df.placeholder_with_default(df.int32(0), {})\ndf.run(z)\n:why\n:frames\n:back\n:step\n')
    assert.matches('dflow> z (FloorDiv:0) failed, integer division by zero: FloorDiv(Const = 10, PlaceholderWithDefault = 0)  In[1]:1\n', out, 1, true)
    assert.matches('dflow> the run failed; this is where it stood\ntop level\n', out, 1, true)
    assert.matches('dflow> -1  z (FloorDiv)', out, 1, true)
    assert.matches('dflow> no run is in progress', out, 1, true)
  end)

  host_it('steps into an expression: a paused run of it', function()
    local out = prompt(LOOP .. ':step nothing\n:step\n:step y\n:step i\n:step df.gradients(y, y)\n:cancel\n:step df.gradients(y * 2, y)\n:step 99\n:step y + nowhere\n')
    assert.matches('dflow> no run is in progress: :step x starts a paused run of x', out, 1, true)
    assert.matches('dflow> a new run; :step runs the next token, [^\n]+\nstepped before [^\n]+ %(', out)
    assert.matches('stepped before [^\n]+ in while:1', out)            -- i is a unit while a run is in progress
    assert.matches('dflow> usage: :step [n] [token|node|iteration|frame], or :step x', out, 1, true)
    assert.matches('\nthe run is over\n', out, 1, true)
    assert.matches('add: the input y (number 2) is missing', out, 1, true)
  end)

  host_it('steps into a list, a variable, what fails', function()
    local out = prompt('v = df.Variable(df.float32(1), {name = "v"})\np = df.placeholder("float32", {})\n'
      .. ':step {v, s = {v + 1}}\n:cancel\n:step v\n:step p + 1\n:step {1}\n:step v:assign(3)\nv\n')
    assert.matches('dflow> a new run; [^\n]+\nstepped before [^\n]+\ndflow> dflow> a new run; [^\n]+\nthe run is over\n', out)
    assert.matches('\nthe run failed: [^\n]+: the placeholder p %(`Placeholder`%), float32%[%], was not fed\n', out)
    assert.matches('fetch: the number 1 cannot be fetched', out, 1, true)
    assert.matches('\n3.0 float32[]\n', out, 1, true)
  end)

  next_it('walks back to the oldest token, and says that it is; stops once at an iteration; lists a run as cancelled', function()
    local out = prompt('i, y = while_loop(function(i) return i:lt(100) end, function(i, y) return i + 1, y * 2 end, {df.int32(0), df.float32(1)})\n'
      .. 'h = df.start({i, y}, nil, {paused = true})\n:back\n:step 8\n:back 20\n:back 3\n:forward 2\n'
      .. ':break iteration 3\n:break\n:continue\nb = h:break_at{iteration = 5}\n:continue\n:break Mul iteration 7\n:continue\n:cancel\n:runs\n')
    assert.matches('dflow> nothing has run yet\n', out, 1, true)
    local said = 'dflow> 8 tokens are remembered; this is the oldest:\n-8  i (while/Enter) (Enter) = 0\n'
    assert.matches(said .. said, out, 1, true)
    assert.matches('dflow> -6  while/Less (Less) in while:0 = true\n', out, 1, true)
    assert.matches('dflow> breakpoint 1: iteration 3\n', out, 1, true)
    assert.matches('dflow> breakpoint 1 before while/Less (Less) in while:3', out, 1, true)
    assert.matches('dflow> breakpoint %d+ before while/Less %(Less%) in while:5', out)
    assert.matches('dflow> breakpoint %d+ before while/Mul %(Mul%) in while:7', out)
    assert.matches('dflow> 1  cancelled 71 nodes, 7 iterations, 1 frame\n', out, 1, true)
  end)

  it('waits after :continue for what comes next, the breakpoint or the end, however far off that is', function()
    local out = prompt('i = while_loop(function(i) return i:lt(4) end, function(i) return i + df.lua_func(function() os.execute "sleep 0.15" return 1 end, {}, '
      .. '"int32", { stateful = true, shapes = { {} } }) end, {df.int32(0)})\nh = df.start(i, nil, {paused = true})\n:break iteration 3\n:continue\n:continue\n')
    assert.matches('dflow> breakpoint 1 before [^\n]* in while:3', out)
    assert.matches('dflow> the run is over\n', out, 1, true)
    assert.is_nil(out:find('it goes on', 1, true))
  end)

  it('keeps ten runs and 64 MB', function()
    local out = prompt('x = df.ones{4, 4} * 2\nfor k = 1, 30 do df.run(x) end\n=#require("dflow.repl.inspector").kept\n'
      .. 'y = df.ones{1024, 1024, 5} * 2\nfor k = 1, 12 do df.run(y); end\n=#require("dflow.repl.inspector").kept\n')
    assert.matches('dflow> 10\n', out)
    local n = tonumber(out:match('dflow> 10\n.*dflow> (%d+)\n'))
    assert.is_true(n >= 1 and n <= 3, out)
  end)

  ordered_it('sets breakpoints before a run, lists, counts and limits them', function()
    local out = prompt(LOOP .. ':break nan limit 2\n:break dead limit 1\n:break\ndf.run(y)\n:continue\n:continue\n:break\n:continue\ndf.run(y)\n:break lin 1\n')
    assert.matches('breakpoint 1, of every run from now on\n', out, 1, true)
    assert.matches('breakpoint 1: nan limit 2\nbreakpoint 2: dead limit 1\n', out, 1, true)
    assert.matches('breakpoint 2 before while/cond/Log (Log) in while:0, dead', out, 1, true)
    assert.matches('breakpoint 1 after while/cond/Sub (Sub) in while:3', out, 1, true)
    assert.matches('breakpoint 1: nan limit 2  met 2 times, its limit\nbreakpoint 2: dead limit 1  met 1 time, its limit\n', out, 1, true)
    assert.matches("did you mean 'line 1'?", out, 1, true)
  end)

  it('stops at each breakpoint, however long it takes to leave the prompt', function()
    local slow = 'c = require("dflow.repl.commands").find("continue")\nfn = c.fn\n'
      .. 'c.fn = function(...) local leave = fn(...); local h = require("dflow.repl.inspector").in_progress() if h then core.run_settle(h.handle, 0.2) end '
      .. 'return leave end\ncore = require("dflow.backend")\n'
    local out = prompt(slow .. LOOP .. ':break Log while:3\n:break Log while:4\n:break Log while:5\ndf.run(y)\n:continue\n:continue\n:continue\n')
    local at = {}
    for number in out:gmatch 'breakpoint (%d) before' do at[#at + 1] = number end
    assert.equal('1 2 3', table.concat(at, ' '), out)
  end)

  ordered_it('says of a step that the node has not run yet, and takes units in the plural', function()
    local out = prompt(LOOP .. 'h = df.start(y, nil, {paused = true})\n:step 3 nodes\n:cancel\n')
    assert.matches('stepped before i %(while/', out)
  end)
end)
