-- The dflow program: lua(1)'s options to the letter, dflow's globals, the prompt, Ctrl-C.
-- run: first
local shell = require 'spec.shell'
local dflow = shell.dflow
local ordered_it = require('spec.support').ordered_it(it, pending)

--- The same command line given to lua5.4 and to dflow, as seen from outside; program names are made the same.
local function both(arguments, input, environment)
  local function ask(program)
    local r = shell.run(('%s %s %s'):format(environment or '', program, arguments), input)
    for _, k in ipairs{ 'out', 'err' } do
      r[k] = r[k]:gsub(program:gsub('%p', '%%%0'), 'PROGRAM'):gsub('Lua 5%.4%.%d[^\n]*', 'VERSION')
        :gsub('dflow %d[^\n]*', 'VERSION'):gsub('\n  %-%-help.-%-%-color=[^\n]*', ''):gsub('\n       PROGRAM %l+ [^\n]*', '')
    end
    return r
  end
  return ask('lua5.4'), ask(dflow)
end

--- A mistake of Lua's own, two helpers deep in what something builds.
describe('an error of Lua in a function that builds', function()
  local ways = {
    'df.cond(df.constant(true), function() local r = helper(x) return r end, function() return x end)',
    'df.while_loop(function(i) return i:lt(3) end, function(i) local r = helper(i) return r end, {df.int32(0)})',
    'df.map_fn(function(v) local r = helper(v) return r end, df.float32{1, 2})',
    'df.name_scope("a", function() local r = helper(x) return r end)',
    'df.device("cpu:0", function() local r = helper(x) return r end)',
    'df.control_dependencies({}, function() local r = helper(x) return r end)',
    'df.while_loop(function(i) return i:lt(3) end, function(i) return df.cond(i:gt(0), function() local r = helper(i) return r end, function() return i end) end, {df.int32(0)})',
  }

  it('is told with the user\'s lines that lead to it, once each, and none of the library\'s', function()
    local path = os.tmpname()
    for _, way in ipairs(ways) do
      shell.write(path, "local df = require 'dflow'\nlocal function bad(t)\n  return t.size.x\nend\nlocal function helper(v)\n  local r = bad{v}\n  return r\nend\n"
        .. 'local x = df.float32(1)\nlocal y =\n  ' .. way .. '\nlocal kept = pcall(error, "another")\n')
      local r = shell.run(('%s %s'):format(dflow, path))
      local lines = {}
      for at in r.err:gmatch(path:gsub('%p', '%%%0') .. ':(%d+)') do lines[#lines + 1] = at end
      assert.equal('3 6 11', table.concat(lines, ' '), way .. '\n' .. r.err)
      assert.is_nil(r.err:find('stack traceback', 1, true), r.err)
    end
    -- one that is caught, and the same words later from elsewhere
    shell.write(path, "local df = require 'dflow'\nlocal function bad() error('words', 0) end\npcall(df.name_scope, 'a', bad)\nlocal function other() bad() end\nother()\n")
    local r = shell.run(('%s %s'):format(dflow, path))
    assert.matches('words\nstack traceback', r.err, 1, true)
    assert.is_nil(r.err:find('called from', 1, true), r.err)
    os.remove(path)
  end)
end)

describe('the dflow program', function()
  local script = os.tmpname()
  local module = os.tmpname() .. '_module'
  setup(function()
    shell.write(script, '#!/usr/bin/env dflow\nprint(#arg, arg[0] == ' .. ('%q'):format(script)
      .. ', arg[1], arg[-1] ~= nil, ...)\nos.exit(tonumber(arg[1]) or 0)\n')
    shell.write(module .. '.lua', 'return { answer = 42 }')
  end)
  teardown(function()
    os.remove(script)
    os.remove(module .. '.lua')
  end)

  local folder, base = module:match('^(.*)/(.*)$')
  local here = 'LUA_PATH=' .. shell.quote(folder .. '/?.lua;;')
  local cases = {
    { [[-e 'print(1 + 1)']] },
    { [[-e 'x = 1' -e 'print(x, _VERSION)']] },
    { [[-e'print(7)']] },
    { [[-e 'error("no", 0)']] },
    { [[-e 'error{}']] },
    { [[-e 'error(setmetatable({}, {__tostring = function() return "said so" end}))']] },
    { [[-e 'local x <const> = 1; x = 2']] },
    { [[-e 'os.exit(3)']] },
    { [[-e 'os.exit(false)']] },
    { [[-e]] }, { [[-l]] }, { [[-x]] }, { [[-vv]] }, { [[-ix]] }, { [[-Ex]] }, { [[-Wx]] }, { [[--wrong]] },
    { [[-v]] },
    { [[-v -e 'print(2)']] },
    { [[-W -e 'warn("@on", "careful")']] },
    { [[-W -e 'warn("careful")']] },
    { [[-e 'warn("silent")']] },
    { [[-E -e 'print(os.getenv "LUA_INIT" ~= nil)']], nil, [[LUA_INIT='print(1)']] },
    { [[-e 'print(2)']], nil, [[LUA_INIT='print(1)']] },
    { [[-e 'print(2)']], nil, [[LUA_INIT='print(1)' LUA_INIT_5_4='print(54)']] },
    { [[-e 'print(2)']], nil, [[LUA_INIT='error("init", 0)']] },
    { [[-e 'print(2)']], nil, [[LUA_INIT=@/nowhere.lua]] },
    { [[-l ]] .. base .. [[ -e 'print(_G["]] .. base .. [["].answer)']], nil, here },
    { [[-l m=]] .. base .. [[ -e 'print(m.answer)']], nil, here },
    { [[-lm=]] .. base .. [[ -e 'print(m.answer, arg[1])' -- ]] .. script .. [[ 4]], nil, here },
    { [[-]], [[print('from stdin', ...)]] },
    { [[- a b c]], [[print('from stdin', ..., #arg, arg[0])]] },
    { [[]], [[print('piped', arg[0] ~= nil, ...)]] },
    { [[]], [[error('piped')]] },
    { [[-]], [[error('by name')]] },
    { [[-]], [[syntax error]] },
    { [[-e 'print(1)']], [[print('not read')]] },
    { script },
    { script .. ' 0 b c' },
    { script .. ' 5' },
    { '-- ' .. script .. ' 0 --help' },
    { script .. ' 0 -e x' },
    { '/nowhere/at/all.lua' },
    { [[-e 'arg = 1' ]] .. script },
    { [[-e 'local t = setmetatable({}, {__gc = function() print "collected" end})']] },
    { [[-e 'print(select("#", ...))' ]] .. script },
    { [[-e 'coroutine.wrap(function() error("inside") end)()']] },
    { [[-e 'print(collectgarbage("count") > 0, math.type(2^31|0))']] },
    { [[-E -v -e 'print(1)' -W --]] }, { [[-E -W -e 'warn("@on", "x")' -v]] }, { [[-l]], nil, here }, { [[-l nowhere]] },
    { [[-e 'print(1)' -e 'error("second")' -e 'print(3)']] }, { [[-e 'error(nil)']] }, { [[-e 'return 1']] }, { [[-e '']] },
    { [[-e 'print(...)' - x y]], [[print(...)]] }, { [[-- /nowhere.lua]] }, { [[-i -e 'os.exit(7)']] }, { [[-e 'io.write(io.read("l"))']], 'a line' },
    { [[-e 'print(arg[0] ~= nil, arg[-1], #arg)']] }, { [[-W -W -e 'warn("@off") warn("x")']] }, { [[-e 'os.exit(true, true)']] },
  }
  for _, case in ipairs(cases) do
    local arguments, input, environment = case[1], case[2], case[3]
    it(('does with %s%s what lua(1) does'):format(environment and environment .. ' ' or '',
      (arguments ~= '' and arguments or 'nothing but a pipe'):gsub('/tmp/lua_%w+', 'FILE')), function()
      local lua, ours = both(arguments, input, environment)
      assert.are.same(lua, ours)
    end)
  end

  it('knows when to colour: --color, then NO_COLOR, then CLICOLOR_FORCE', function()
    local function colored(options, environment)
      local r = shell.run(('%s %s %s -E -i'):format(environment or '', dflow, options), 'error("x", 0)\n')
      return r.err:find('\27') ~= nil, r.status
    end
    assert.is_false((colored('')))
    assert.is_true((colored('--color=always')))
    assert.is_true((colored('', 'CLICOLOR_FORCE=1')))
    assert.is_false((colored('', 'CLICOLOR_FORCE=1 NO_COLOR=1')))
    assert.is_true((colored('--color=always', 'NO_COLOR=1')))
    assert.is_false((colored('--color=never', 'CLICOLOR_FORCE=1')))
    assert.are.equal(1, select(2, colored('--color=perhaps')))
  end)

  it('tells what it is with --version and --help', function()
    local r = shell.run(dflow .. ' --version')
    assert.is_truthy(r.out:match('^dflow %d+%.%d+%.%d+'))
    assert.are.equal(0, r.status)
    r = shell.run(dflow .. ' --help')
    assert.is_truthy(r.out:match('^usage: .*%-e stat.*%-%-help'))
    assert.are.equal(0, r.status)
  end)

  it('has df and the four builtins as globals, the same as the module', function()
    local r = shell.run(dflow .. [[ -e 'local m = require "dflow"
      print(df == m, cond == m.cond, while_loop == m.while_loop, TensorArray == m.TensorArray, gradients == m.gradients)']])
    assert.are.equal('true\ttrue\ttrue\ttrue\ttrue\n', r.out)
  end)

  it('lets ordinary C modules load', function()
    local r = shell.run(dflow .. [[ -e 'print(pcall(require, "lfs"))']])
    assert.is_truthy(r.out:match('^true') or r.out:match("module 'lfs' not found"))
  end)

  it('finds its modules from any folder', function()
    local r = shell.run('p=$(realpath ' .. dflow .. [[) && cd / && $p -e 'print(df.run(df.float32(2) * 3))']])
    assert.are.equal('6.0\n', r.out)
  end)

  it('says a dflow error as its message, without a traceback, and ends with 1', function()
    local r = shell.run(dflow .. [[ -e 'df.float32{1, 2} + df.float32{1, 2, 3}' -]])
    r = r.status == 0 and r or shell.run(dflow .. [[ -e 'local x = df.float32{1, 2} + df.float32{1, 2, 3}']])
    assert.are.equal(1, r.status)
    assert.is_nil(r.err:match('stack traceback'))
    assert.is_truthy(r.err:match('%(command line%):1'), r.err)
  end)

  it('never writes an escape code when its output is no terminal', function()
    local r = shell.run(dflow .. ' -i', '1 + 1\nerror("x")\n?matmul\n:help\n')
    assert.is_nil((r.out .. r.err):match('\27'))
  end)
end)

describe('Ctrl-C', function()
  -- Any graph that never ends, and Lua that never ends.
  local forever = [[local x = df.while_loop(function(i) return i:ge(0) end,
    function(i) return (i + 1) % 1000 end, {df.int32(0)}) ]]
  local function interrupt(chunk) return shell.interrupted('INT', dflow, chunk) end

  it('cancels the graph that a script runs and ends it with status 130', function()
    local r = interrupt(forever .. 'ready() df.run(x) print "not reached"')
    assert.are.equal(130, r.status)
    assert.are.equal('', r.out)
    assert.is_truthy(r.err:match('interrupted'), r.err)
  end)

  it('stops Lua code too', function()
    if os.getenv 'DFLOW_MODE' == 'tsan' then return pending('the thread sanitizer delivers a signal only at a system call') end
    local r = interrupt('ready() while true do end')
    assert.are.equal(130, r.status)
    assert.is_truthy(r.err:match('interrupted!'))
  end)

  it('returns to the prompt, and variables live on', function()
    local ready = os.tmpname()
    local chunk = ("v = df.Variable(41.5) %s df.run(v:assign_add(1)) local f = io.open('%s', 'w') f:write((io.open('/proc/self/stat'):read '*n')) f:close() df.run(x)")
      :format(forever, ready)
    local r = shell.run(('(echo %s; until [ -s %s ]; do sleep 0.02; done; sleep 0.1; kill -INT $(cat %s); echo "df.run(v)") | %s -i')
      :format(shell.quote(chunk), ready, ready, dflow))
    os.remove(ready)
    assert.is_truthy(r.out:match('42%.5'), r.out .. r.err)
    assert.are.equal(0, r.status)
  end)
end)

describe('the prompt', function()
  --- What each line of input is answered with.
  local function session(...)
    local lines = { ... }
    local r = shell.run(dflow .. ' -E -i', table.concat(lines, '\n') .. '\n')
    local answers = {}
    for answer in (r.out:gsub('^[^\n]*\n', '', 1)):gmatch('dflow> (.-)%f[%z\100]') do answers[#answers + 1] = answer end
    return r.out, r.err, answers
  end

  it('prints expressions without return or =', function()
    local out = session('1 + 1', '= 3', 'nil', '"a", 2', 'x = 4', 'x * 10')
    assert.are.equal('dflow> 2\ndflow> 3\ndflow> nil\ndflow> a\t2\ndflow> dflow> 40\ndflow> \n', out:gsub('^dflow %d[^\n]*\n', ''))
  end)

  it('reads on while a chunk is not complete', function()
    local out = session('function f(x)', 'return x + 1', 'end', 'f(1)')
    assert.is_truthy(out:match('dflow>   %.%.%.   %.%.%. dflow> 2\n'), out)
  end)

  it('keeps the last value in _', function()
    local out = session('6 * 7', '_ + 1', '_ + 1')
    assert.is_truthy(out:match('42\n.*43\n.*44\n'), out)
  end)

  it('prints the value of an output that needs no feeds beside its shape', function()
    local out = session('df.float32{1, 2} * 2')
    assert.is_truthy(out:match('float32%[2%]') and out:match('2') and out:match('4'), out)
  end)

  it('does not run what needs a feed or has side effects', function()
    local out, err = session('df.placeholder("float32", {}, "p")', 'v = df.Variable(0)', 'v:assign_add(1)', 'df.run(v)')
    assert.is_truthy(out:match('float32'), out .. err)
    assert.is_truthy(out:match('0%.0\n') or out:match('dflow> 0\n'), out)
    assert.are.equal('', err)
  end)

  it('goes on after an error, and gives a traceback for plain errors only', function()
    local out, err = session('error("plain")', 'df.float32{1, 2} + df.float32{1, 2, 3}', '1 + 1')
    assert.is_truthy(out:match('2\n'))
    assert.is_truthy(err:match('plain\nstack traceback'))
    assert.are.equal(1, select(2, err:gsub('stack traceback', '')))
  end)

  it('shows what it knows of an op with ?', function()
    local out = session('?matmul', '?while_loop', '?no_such_thing')
    assert.is_truthy(out:match('transpose_a'), out)
    assert.is_truthy(out:match('gradient'), out)
    assert.is_truthy(out:match('parallel_iterations'), out)
    assert.is_truthy(out:match('no_such_thing'), out)
  end)

  it('has commands', function()
    local out, err = session(':help', ':stats', ':doc matmul', ':nonsense', ':quit', 'print "not reached"')
    assert.is_truthy(out:match(':stats') and out:match(':quit') and out:match('nodes_run'), out)
    assert.is_truthy(err:match('nonsense'))
    assert.is_nil(out:match('not reached'))
  end)

  it('keeps top-level locals', function()
    local out = session('local x, y = 3, 4', 'local function f() return x * y end', 'f()', 'x = 5', 'f()', ':locals')
    assert.is_truthy(out:match('12\n.*20\n.*f +function[^\n]*\nx +5\ny +4\n'), out)
  end)

  it('is muted by a semicolon, and keeps values in _, __ and Out', function()
    local out = session('6 * 7;', '_ + 1', '_ + __', 'Out[1]')
    assert.are.equal('dflow> dflow> 43\ndflow> 85\ndflow> 42\ndflow> \n', out:gsub('^dflow %d[^\n]*\n', ''))
  end)

  it('names the input and its line', function()
    local out, err = session('x = df.float32{1, 2}', 'function f()', '  error("here")', 'end', ':help', 'f()', 'x + 1')
    assert.is_truthy(err:match('In%[2%]:2: here'), err)
    assert.is_truthy(out:match('%-%- In%[4%]:1'), out)
  end)

  it('takes any unique beginning of a command, ~pattern and > file', function()
    local file = os.tmpname()
    local out, err = session('x = df.float32(3)', ':stat ~runs', ':s', ':graph x * x > ' .. file, ':hel ~Alt%-Enter', ':nonsense', ':graph?')
    assert.is_truthy(out:match('dflow> runs +%d+\n') and err:match(':s may be :save'), out .. err)
    local text = assert(io.open(file)):read('*a')
    os.remove(file)
    assert.are.equal('let\n  Mul: float32[] = Mul(3., 3.)  -- command:1\nin Mul\n', text)
    assert.is_truthy(err:match("there is no command ':nonsense'"))
    assert.is_truthy(out:match(':graph x %[as form%] %[at stage%][^\n]*\n  shows or draws the graph of x\n'), out)
  end)

  it('lets others add commands', function()
    local out = session('repl.command("twice", function(rest, say) say(rest .. rest) return "done" end, "twice word - says it twice")',
      ':tw ab', ':help all ~twice', ':twice?', ':twice ab ~xx')
    assert.is_truthy(out:match('abab\ndone\n.*:twice word +says it twice\n.*:twice word\n  says it twice\n'), out)
  end)

  it('saves what succeeded as a script that runs', function()
    local file = os.tmpname()
    local out = session('local v = df.Variable(1.5)', 'error("no")', 'df.run(v:assign_add(1))', '_ * 2;', '?matmul', ':save ' .. file)
    assert.is_truthy(out:match('3 inputs are in'), out)
    local r = shell.run(dflow .. ' ' .. file)
    assert.are.equal('2.5\n', r.out, r.err)
    local again = session(':load ' .. file, 'v')
    assert.is_truthy(again:match('2%.5\n.*Variable') or again:match('variable'), again)
    os.remove(file)
  end)

  it('lists breakpoints, says how a run ended, and refuses what a command does not know', function()
    local out, err = session('i = while_loop(function(i) return i:lt(20) end, function(i) return i + 1 end, {0})', 'h = df.start(i, nil, {paused = true})', 'h',
      ':break', ':break Add while:3', ':break Add if v > 7', ':break', ':unbreak 1', ':unbreak x', ':break', ':runs', ':history x', ':cancel', ':runs', 'pcall(h.wait, h)', 'h',
      'f = df.start(df.floordiv(df.int32(1), df.placeholder_with_default(df.int32(0), {}))) pcall(f.wait, f)', 'f')
    assert.is_truthy(out:find('Run (paused)', 1, true) and out:find('no breakpoints;', 1, true), out)
    assert.is_truthy(out:find('breakpoint 1: Add while:3\nbreakpoint 2: Add if v > 7\n', 1, true) and out:match('> breakpoint 2: Add if v > 7\ndflow> 1  paused'), out)
    assert.is_truthy(out:match('1  paused +0 nodes, 0 iterations, %d frames?'), out)
    assert.is_truthy(out:match('1  cancelled +0 nodes'), out)
    assert.is_truthy(out:find('Run (cancelled)', 1, true) and out:find('Run (failed: invalid_argument)', 1, true), out)
    assert.is_truthy(err:find('usage: :unbreak', 1, true) and err:find('usage: :history', 1, true), err)
  end)

  it('shows a table that was raised', function()
    local _, err = session('error{ code = 7 }', 'error(setmetatable({}, { __tostring = function() return "own words" end }))')
    assert.is_truthy(err:match('^error: {code = 7}\nstack traceback:.*\nown words\n'), err)
  end)

  it('knows the line of what an expression built', function()
    local out, err = session('x = df.zeros{2, 3}', 'x:reduce_sum()', 'x:matmul(x)', 'df.tensor{1}:at(5)')
    assert.is_truthy(out:match('Sum:0: [^\n]*  %-%- In%[2%]:1\n'), out)
    assert.is_truthy(err:match('In%[3%]:1: MatMul') and err:match('In%[4%]:1: index 5'), err)
  end)

  ordered_it('walks back and forward and stays; counts the run in progress', function()
    local out = session('v = df.placeholder("float32", {})', 'i, y = while_loop(function(i) return i:lt(20) end, function(i, y) return i + 1, y * v end, {0, 1.0})',
      'h = df.start({y, gradients(y, v)}, {[v] = 2}, {paused = true})', ':break Mul while:3', ':continue', 'h:settle()',
      ':back 2', ':forward 5', ':stats', ':tokens', ':stacks', 'h:cancel()')
    assert.is_truthy(out:match('\ndflow> %-2  [^\n]*\ndflow> breakpoint 1 before while/Mul'), out)
    assert.is_truthy(out:match('this run +before it\n.*iterations +%d+ +0\n'), out)
    assert.is_truthy(out:match('ready +while/Mul +while:3\n') and out:match('saved +y %(while/Switch_1%) +3 of 3 '), out)
  end)

  it('saves sessions that only a prompt would take', function()
    local file = os.tmpname()
    local out = session('local a, b = 3', 'function f(n) return n * a end', 'f(4)', 'return f(1)', 'local a = 10', 'f(1)', '_ + __', 'Out[3]', '{1, {2}}', '1, nil',
      'local c <const> = 5', 'goto on; ::on::', ':save ' .. file)
    local r = shell.run(dflow .. ' ' .. file)
    os.remove(file)
    assert.are.equal('12\n3\n10\n13\n12\n{1, {2}}\n1\tnil\n', r.out, r.err)
    assert.is_truthy(out:find(r.out:match('{1, {2}}'), 1, true))
  end)

  it('times expressions, and the runs of outputs', function()
    local out = session(':time 1 + 1', 'x = df.float32(3)', ':timeit x * x', ':timeit 1 + 1')
    assert.is_truthy(out:match('2\nwall [%d.]+ [num]?s, processor'), out)
    assert.is_truthy(out:match('a run takes [%d.]+ %a+ %+%- [%d.]+ %a+, best'), out)
  end)

  it('has settings for what it shows', function()
    local out = session(':set print summary', 'df.tensor(1, "float32", {50, 50})', ':set threshold 3', ':set', ':set nonsense', ':set print loud')
    assert.is_truthy(out:match('dflow> float32%[50,50%]  min 1  mean 1  max 1\n'), out)
    assert.is_truthy(out:match('threshold +3 '), out)
  end)

  it('says where things are defined with ??, and finds names by pattern', function()
    local out = session('function mine(a)', '  return a', 'end', '??mine', '?mine', '??matmul', '??map_fn', '?reduce_m*', '?nothing*', '?while')
    assert.is_truthy(out:match('mine: In%[1%]:1\n  function mine%(a%)\n    return a\n  end\n'), out)
    assert.is_truthy(out:match('mine%(a%)  function'), out)
    assert.is_truthy(out:match('matmul: the op MatMul, [^\n]*ops/linalg%.c:%d+') or out:match('an entry of libdflow'), out)
    assert.is_truthy(out:match('df%.map_fn: [^\n]*functional%.lua:%d+'), out)
    assert.is_truthy(out:match('reduce_max .*\nreduce_mean .*\nreduce_min '), out)
    assert.is_truthy(out:match("no name matches 'nothing%*'"), out)
    assert.is_truthy(out:match("nothing is known of 'while'; there is while_loop"), out)
  end)

  it('prints what lua(1) prints for the same lines', function()
    local lines = { '1 + 1', '= 2', 'x = 3', 'x, "a", nil', 'for i = 1, 2 do', 'print(i)', 'end', 'return 5', 'nil', 'f = function()', 'return 6', 'end', 'f()',
                    'print(', '"x")', 'error("e")', 'os.exit(3)' }
    local function ask(program)
      local r = shell.run(program .. ' -i', table.concat(lines, '\n') .. '\n')
      return r.out:gsub('^[^\n]*\n', ''):gsub('dflow> ', '> '):gsub('  %.%.%. ', '>> '), r.status
    end
    local theirs, their_status = ask('lua5.4')
    for _, line in ipairs(lines) do      -- its readline echoes what it reads
      local first, last = theirs:find('> ' .. line .. '\n', 1, true)
      theirs = first and theirs:sub(1, first + 1) .. theirs:sub(last + 1) or theirs
    end
    local ours, our_status = ask(dflow .. ' -E')
    assert.are.equal(theirs, ours)
    assert.are.equal(their_status, our_status)
  end)

  it('takes a label at the start of a line for Lua', function()
    local out, err = session('::again:: print("label")')
    assert.is_truthy(out:match('label'), err)
  end)
end)
