-- What the prompt offers besides Lua: the way in and out, :inputs, :src, :watch, :diff, pasted expressions, -p, df.progress.
-- run: first
local df = require 'dflow'
local support = require 'spec.support'
local shell = require 'spec.shell'
local ordered_it = support.ordered_it(it, pending)
local host_it = support.host_it(it, pending)       -- elsewhere messages are tokens, too

local function prompt(text) return shell.run(shell.dflow .. ' -E -i 2>&1', text).out end
local LOOP = [[
step = function(i, y) return i + 1, cond(i:gt(2), function() return y * 2 end, function() return y - 3 end) end
i, y = while_loop(function(i, y) return i:lt(6) end, step, {0, 1.0})
]]

describe('the prompt', function()
  it('knows help, exit and quit, unless they mean something here', function()
    assert.matches('steps: stop and resume a run', prompt('help\n'), 1, true)
    assert.is_falsy(prompt('exit\n=1 + 41\n'):find('42', 1, true))
    assert.is_falsy(prompt('quit()\n=1 + 41\n'):find('42', 1, true))
    assert.matches('dflow> 7\n', prompt('exit = 7\nexit\n'), 1, true)
    assert.matches('dflow> 8\n', prompt('local help = 8\nhelp\n'), 1, true)
  end)

  it('has its commands in groups, and describes those of one or all', function()
    local out = prompt(':help\n:help steps\n')
    assert.matches(':break :unbreak :step :continue :pause :cancel', out, 1, true)
    assert.matches(':continue +resumes the run', out)
    for _, name in ipairs{ 'frames', 'time', 'history' } do assert.matches(':' .. name, prompt(':help all\n'), 1, true) end
  end)

  it('explains an output: the loops among its nodes, inner ones and those of gradients too, and no others', function()
    local out = prompt("v = df.float32(2)\nloop = function(to) return while_loop(function(i) return i:lt(to) end, function(i) return i * v end, {v}) end\n"
      .. "other, y = loop(9), df.map_fn(loop, df.float32{3, 4})\n=df.run{other, y}\n:explain gradients(df.reduce_sum(y), v)\n")
    local told = out:match 'a run leaves out .*' or out:match 'the graph as written, .*'
    for _, loop in ipairs{ 'map_fn', 'map_fn/while', 'gradients/map_fn', 'gradients/map_fn/while' } do
      assert.matches('\n' .. loop .. '  ', told, 1, true)
    end
    assert.is_nil(told:find('\nwhile  ', 1, true))
  end)

  it('explains a loop of several plans once, and not that it has not run where it has', function()
    local out = prompt("v = df.placeholder('float32', {})\ni, y = while_loop(function(i) return i:lt(3) end, function(i, y) return i + 1, y * v end, {0, 1.0})\n"
      .. 'print "first"\n:explain y\n=df.run(y, {[v] = 2})\n=df.run({y, i}, {[v] = 2})\nprint "then"\n:explain y\n:explain\n')
    local before, after = out:match 'first\n(.*)then\n(.*)'
    assert.matches('\nwhile  tokens: it has not run\n', before, 1, true)
    assert.is_nil(after:find('it has not run', 1, true), after)
    for _, said in ipairs{ after:match "^(.-)dflow> while", after:match "dflow> (while.*)$" } do assert.equal(1, select(2, said:gsub("while  tokens", "")), after) end
  end)

  it('tells the memory of the run in progress, whichever session it is of', function()
    local out = prompt("s = df.Session{devices = {'cpu:0', {'sim:3', memory = '3MB'}}}\n"
      .. "h = s:start(df.device('sim:3', function() return df.placeholder_with_default(2.0) + 1 end), nil, {paused = true})\n:mem\nh:cancel()\n")
    assert.matches('sim:3 +[%d.]+ [KM]?i?B in use, [%d.]+ [KM]?i?B at the peak, limit 3 MiB', out)
    assert.is_nil(prompt(':mem\n'):find 'sim:3')
    local after = prompt("s = df.Session{devices = {'sim:3'}}\ns:run(df.float32(1) + 1)\n:mem\ndf.run(df.float32(1))\n:mem\n")
    assert.equal(1, select(2, after:gsub('\nsim:3 ', '')), after)              -- of the last run's session
  end)

  it('tells of a command that an op or a method is called like, too, and where the other is told of', function()
    local out = prompt(':help graph\n?graph\n:help matmul\n')
    assert.matches('dflow> :graph x %[as form%] %[at stage%][^\n]*\n.-%?graph shows another thing of that name\ndflow> w:graph%(g%).-dflow> df%.matmul%(a, b', out)
  end)

  it('says of what is printed or asserted in the graph that a run has to fetch it', function()
    local out = prompt('df.print(df.ones{2})\ndf.assert(df.constant(true), {1})\n')
    assert.equal(2, select(2, out:gsub('it happens in a run that fetches it: df%.run%(_%)', '')))
  end)

  it('breaks the lines of a Tensor in a table where the window ends', function()
    local out = prompt(':set width 40\n{{df.run(df.ones{3, 12})}}\n')
    assert.matches('%[%[1%. 1%.', out)
    for line in out:gmatch '[^\n]*1%. 1%.[^\n]*' do assert.is_true(#line <= 40, line) end
    assert.matches('%]%] float32%[3,12%]\n', out)
  end)

  it('shows what a value comes from', function()
    local out = prompt('x = df.float32{1, 2}\ny = (x * x):reduce_sum()\n:inputs y\n')
    assert.matches('dflow> y (Sum)  float32[]  In[2]:1\n  Mul (Mul)  float32[2]  In[2]:1\n    x (Const)  float32[2]  In[1]:1\n', out, 1, true)
  end)

  it('says from which file a function is with its whole path, however long that is', function()
    local folder = shell.run('mktemp -d').out:gsub('\n', '') .. ('/a_folder_with_a_long_name'):rep(4)
    os.execute('mkdir -p ' .. folder)
    shell.write(folder .. '/mine.lua', 'return function(a) return a end\n')
    local out = prompt(('f = dofile "%s/mine.lua"\nf\n:where f\n'):format(folder))
    local _, times = out:gsub((folder .. '/mine.lua:1'):gsub('%p', '%%%0'), '')
    os.execute('rm -r ' .. folder:match '^(.-)/a_folder')
    assert.equal(2, times, out)
  end)

  ordered_it('shows the lines that built what ran, with tokens and dead ones', function()
    local out = prompt(LOOP .. ':src y\n')
    assert.matches('In%[1%]\n +%d+ +12 +[%d.]+ +1 | step = function', out)
    assert.matches('In%[2%]\n +%d+ +2 +[%d.]+ +1 | i, y = while_loop', out)
  end)

  it('watches a loss that needs feeds as runs give it, and what Variables hold', function()
    local out = prompt([[x = df.placeholder('float32', {-1})
w = df.Variable(2.0)
loss = df.reduce_mean(df.square(x * w - 3))
step = df.train.SGD(0.1):minimize(loss)
:watch loss
df.run({step, loss}, {[x] = {1, 2}});
:watch w
for i = 1, 3 do df.run({step, {l = loss}}, {[x] = {1, 2}}) end
:unwatch
df.run({step, loss}, {[x] = {1, 2}});
]])
    assert.matches('loss = not there yet: it needs feeds[^\n]*\n[dflow> ]*loss = 1%.0\n[dflow> ]*w = 1%.[89]%d*\n[dflow> ]*loss = 0%.9%d*\nw = 1%.8%d*\n[dflow> \n]*$', out)
  end)

  it('watches expressions, and says when they have changed', function()
    local out = prompt('x = 1\n:watch x + 1\ny = 5\nx = 4\n:watch\n:unwatch 1\nx = 9\n')
    assert.matches('dflow> x + 1 = 2\ndflow> dflow> x + 1 = 5\ndflow> 1  x + 1 = 5\ndflow> dflow> dflow>', out, 1, true)
  end)

  it('says what is wrong with the words behind a command', function()
    local out = prompt(":mem top\n:graph 1 as html\n:graph x at night\n:timeit 1+\n:prof 1 +\n:graph nosuch\n:plot nosuch\n:stats ~runs\n")
    assert.matches(":mem takes no argument, but 'top' was given; :top is a command of its own", out, 1, true)
    assert.matches(":graph: 'as html' is none of tree, let, dot, svg; :trace run.html EXPRESSION writes a page of a run", out, 1, true)
    assert.matches(":graph: 'at night' is none of built, lowered, gradient, partitioned", out, 1, true)
    assert.matches("'1+' is not finished: something is missing behind it", out, 1, true)
    assert.matches('command:1: unexpected symbol near <eof>', out, 1, true)
    assert.matches("'nosuch' is nil: nothing to look at has that name\n.*'nosuch' is nil", out)
    assert.matches('dflow> runs +0\n', out)
  end)

  it('finds names by patterns in small letters, and by what is said of them', function()
    local out = prompt('?*optim*\n?optimizer*\n?OPTIM*\n')
    assert.matches('\nOptimizer:minimize ', out)
    assert.matches('dflow> Optimizer  ', out, 1, true)
    assert.matches('\ntrain.Accumulate +Returns an optimizer', out)
    assert.matches("no name matches 'OPTIM*'", out, 1, true)
  end)

  it('says where two runs first differ', function()
    local out = prompt(":record on\np = df.placeholder('float32', {})\nw = cond(p:gt(0), function() return p * 2 end, function() return p - 1 end)\n"
      .. 'df.run(w, {[p] = 1})\n:diff\ndf.run(w, {[p] = -1})\n:diff\ndf.run(w, {[p] = 1})\n:diff 1 2\n:diff 1 3\n:diff 1 99\n:diff 1\n:draw w\n')
    assert.matches('there are no two runs to compare', out, 1, true)
    assert.equal(2, select(2, out:gsub('dflow> Greater: true and false', '')))
    assert.matches('usage: :diff [n m]', out, 1, true)
    assert.matches("no command ':draw'; it is :graph", out, 1, true)
    assert.matches('dflow> Greater: true and false  In[2]:1\n', out, 1, true)
    assert.matches('dflow> no difference in the last', out, 1, true)
    assert.matches('run 99 is not there', out, 1, true)
  end)
end)

describe('dflow -p', function()
  it('shows what an expression that is piped to it gives, also below statements', function()
    assert.equal('4\n', shell.run(shell.dflow .. ' -p', 'x = 3\nx + 1').out)
    local wrong = shell.run(shell.dflow .. ' -p', 'x = df.ones{2}\nx + df.ones{3}\n')
    assert.equal(1, wrong.status)
    assert.matches('    2 | x + df.ones{3}\n      |   ^\n  help: dimensions are aligned', wrong.err, 1, true)
    assert.matches('\n6.0 float32[]\n', shell.run(shell.dflow .. ' -p', 'local x = df.float32{1, 2}\nlocal y = x * 2\ny:reduce_sum()\n').out, 1, true)
    local r = shell.run(shell.dflow .. ' -p; echo status $?', 'nope()')
    assert.matches("global 'nope'", r.err, 1, true)
    assert.equal('status 1\n', r.out)
  end)
  it('shows each of several expressions, as the prompt does, and goes on after an error in one', function()
    local r = shell.run(shell.dflow .. ' -p; echo status $?',
      'local x = df.float32(3)\nx * 2\ndf.run{x, x + 1}\nfor i = 1, 2 do\n  print(i)\nend\nnope + 1\n7')
    assert.equal('Mul:0: float32[] = Mul(Const:0, Const_1:0)  -- In[2]:1\n6.0 float32[]\n{3.0, 4.0}\n1\n2\n7\nstatus 1\n', r.out)
    assert.matches("In[5]:1: attempt to perform arithmetic on a nil value (global 'nope')", r.err, 1, true)
    r = shell.run(shell.dflow .. ' -p; echo status $?', 'print(1)\nx = = 2\n3')
    assert.equal('status 1\n', r.out)                 -- what is no Lua at all is not run in part
    assert.matches('In[1]:2: unexpected symbol near', r.err, 1, true)
  end)
  it('runs commands, too, after what stands before them', function()
    local r = shell.run(shell.dflow .. ' -p', 'x = df.float32{1, 2}\nlocal y = (x *\n  2):tanh()\n:inputs y\n?tanh\ny:reduce_sum()\n')
    assert.equal(1, r.out:find('y (Tanh)', 1, true))
    assert.matches('\ndf.tanh(', r.out, 1, true)
    assert.matches('1.963', r.out, 1, true)
    r = shell.run(shell.dflow .. ' -p; echo status $?', ':nope\n1 + 1')
    assert.matches('there is no command', r.err)
    assert.equal('2\nstatus 1\n', r.out)
    assert.equal('2.0 float32[]', shell.run(shell.dflow .. ' -p', 'df.float32{1, 1}\n:reduce_sum()\n').out:match('\n([^\n]*)\n$'))
  end)
  host_it('says what a number of a command can be', function()
    local r = shell.run(shell.dflow .. ' -p', 'x = df.float32(2)\nh = df.start(x * x)\nh:wait();\n:back 1.5\n:back x\n:forward 0\n:unbreak 1.5\n:back 1e308\n')
    assert.equal((':back [n]: n is a whole number from 1 up, not %s\n'):rep(2):format('1.5', 'x')
      .. ':forward [n]: n is a whole number from 1 up, not 0\n', r.err)
    assert.equal('there is no breakpoint 1.5; :break lists them\n1 token is remembered; this is the oldest:\n-1  Mul (Mul) = 4.0\n', r.out)
  end)
  it('stops every run at a breakpoint that was said before it, also in the background, paused at first or waited for', function()
    local r = shell.run(shell.dflow .. ' -p', ([[
x = df.placeholder('float32', {})
y = x * 2 + 1
:break Mul
h = df.start(y, {[x] = 3})
h:settle()
h:state()
:continue
h:wait()
h = df.start(y, {[x] = 5}, {paused = true})
h:state()
:continue
:continue
h:wait()
:unbreak
df.start(y, {[x] = 6}):wait()
:break Mul
h = df.start(y, {[x] = 5})
h:settle();
h:wait()
]]):gsub('    ', ''))
    local stop = 'breakpoint %d before Mul (Mul)  In[2]:1\n'
    assert.equal('breakpoint 1, of every run from now on\n' .. stop:format(1) .. 'paused\nthe run is over\n7.0\npaused\n' .. stop:format(1)
      .. 'the run is over\n11.0\n13.0\nbreakpoint 2, of every run from now on\n' .. stop:format(2) .. 'paused> \n', r.out)
    assert.matches('the run was cancelled', r.err)            -- the input ended at its prompt
  end)
  it('takes a call in several lines for what it is', function()
    assert.equal('5\n', shell.run(shell.dflow .. ' -p', 'f = math.max\nf(1,\n5)').out)
    assert.equal('', shell.run(shell.dflow .. ' -p', 'y = tostring\n(3)').out)
  end)
end)

describe('df.progress', function()
  it('is the loop itself', function()
    local seen = {}
    for i in df.progress(3) do seen[#seen + 1] = i end
    for i, x in df.progress{ 'a', 'b' } do seen[#seen + 1] = i .. x end
    for word in df.progress(('x y'):gmatch('%a')) do seen[#seen + 1] = word end
    assert.same({ 1, 2, 3, '1a', '2b', 'x', 'y' }, seen)
  end)
  it("goes through a pipeline's iterator and a source of records; a number is the total", function()
    local p, seen, lines = df.data.pipeline(df.tensor({ 1, 2, 3 }, 'int32')), {}, {}
    for x, y in df.progress(p:map(function(x) return x, x * x end):each(), 3) do seen[#seen + 1] = x + y end
    assert.same({ 2, 6, 12 }, seen)
    local path = os.tmpname()
    shell.write(path, 'one\ntwo\n')
    for line in df.progress(df.data.text(path), { total = 2 }) do lines[#lines + 1] = line end
    os.remove(path)
    assert.same({ 'one', 'two' }, lines)
  end)
  it('writes a line about it, and wipes it away', function()
    local core = require 'dflow.backend'
    local clock, now, lines = core.clock, 0, {}
    package.loaded['dflow.progress'] = nil
    core.clock = function() return now end
    local ok, why = pcall(function()
      for _ in require('dflow.progress').progress(4, { label = 'epoch', write = function(text) lines[#lines + 1] = text end }) do now = now + 1 end
    end)
    core.clock = clock
    package.loaded['dflow.progress'] = nil
    assert.is_true(ok, why)
    assert.equal('epoch  2/4  ############------------  50%  1/s  2 s left', lines[2])
    assert.equal('', lines[#lines])
  end)
  it('says what it takes', function()
    local ok, e = pcall(df.progress, 'x')
    assert.is_false(ok)
    assert.matches('a number of rounds, a list or an iterator', e.message)
    for name, wrong in pairs{ Output = df.ones{ 3 }, Variable = df.Variable(1.0), Layer = df.nn.Dense(3) } do      -- some can be called
      e = support.error_of(df.progress, wrong)
      assert.matches('an iterator, not ' .. name, e.message, 1, true)
    end
    local left, seen = 3, {}
    local countdown = setmetatable({}, { __call = function() left = left - 1 return left > 0 and left or nil end })
    for n in df.progress(countdown) do seen[#seen + 1] = n end
    assert.same({ 2, 1 }, seen)
    for name, wrong in pairs{ total = '3', label = 3, every = '1', write = true } do
      e = support.error_of(df.progress, 3, { [name] = wrong })
      assert.matches('^progress: ' .. name .. ' is a %a+, not the', e.message)
    end
  end)
end)
