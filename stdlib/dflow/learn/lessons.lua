--- The fourteen lessons of `dflow learn`: data only, see learn.lua.
--
-- A lesson is {title, text, code, ask, answer, why, picture, exercises}. `code` is run, and the names that it sets are
-- there afterwards.
-- `answer(e)` computes what the question is answered by, from the names: it is counted, not written down. An exercise
-- is {task, solution, check}: check(v, e) is given what the typed expression is (an Output as its value) and says true,
-- or what is wrong.
-- `done` is called when the lesson is left. An answer with its picture stays on a screen of 80 by 24.
local df = require 'dflow'
local core = require 'dflow.backend'
local graph = require 'dflow.front.graph'
local shown = require 'dflow.front.text'

local function near(v, x) return type(v) == 'number' and math.abs(v - x) <= 1e-4 * math.max(1, math.abs(x)) end

--- What a run counts, where constants are read as they lie.
local function count(fetches, what, feeds)
  local s = df.Session{ engine = 'tokens' }
  local h = s:start(fetches, feeds)
  h:wait()
  local n = h:stats()[what]
  s:close()
  return n
end

--- How many tokens of an op type ran, dead ones apart.
local function fired(fetches, type, dead, feeds)
  local s, n = df.Session{ engine = 'primitives' }, 0
  local h = s:start(fetches, feeds, { log = true })
  h:wait()
  local ops = df.default_graph():ops()
  require('dflow.inspect.events').each(h, function(_, _, _, _, node, _, _, kind, is_dead)
    if kind == 0 and ops[node + 1].type == type and is_dead == (dead or false) then n = n + 1 end
  end)
  s:close()
  return n
end

--- A picture's text in which what a variable of the lesson holds has its name, and a small constant is its value.
local function named(text, e)
  local names = {}
  for _, op in ipairs(df.default_graph():ops()) do
    local t = core.output_constant(op.graph.handle, op.node, 0)
    if t and t.size == 1 then names[op.name] = shown.array(t) end
  end
  local variables = {}
  for name, v in pairs(e) do
    if type(name) == 'string' and name ~= '_' and getmetatable(v) == graph.Output and v.index == 0 then
      variables[#variables + 1] = name
    end
  end
  table.sort(variables)
  for _, name in ipairs(variables) do names[e[name].op.name] = name end
  return (text:gsub('([%a_][%w_/]*)(%(?)', function(name, op) return op == '' and names[name] or nil end))
end

local function drawn(x, e) return named(df.draw(x, { lines = 16 }), e) end

--- The primitives of x: without what an engine makes of them, and without constants.
local function primitives(x, e)
  local rows = {}
  for line in df.draw(x, { at = 'lowered', lines = 200 }):gsub(' *%-%- [^\n]*', ''):gmatch '[^\n]+' do
    if not line:find ' = Const%(' and not line:find ' = Identity%(' then rows[#rows + 1] = line end
  end
  return named(table.concat(rows, '\n'), e)
end

--- A check that the value is this number.
local function is(x, hint)
  return function(v)
    if near(v, x) then return true end
    return ('that is %s%s'):format(tostring(v), hint and '; ' .. hint or '')
  end
end

--- A check that the value is so many times what was taken last of a queue that held 1, 2, 3, whatever was tried before.
local function taken(times)
  return function(v, e) return is(times * (3 - df.run(e.q:size())))(v) end
end

return {
  { title = 'Tokens',
    text = [[A graph is nodes and edges. A run sends tokens along the edges: each carries a value. A node fires when a token has
come on each of its inputs; it takes them and sends its result on. Nothing says in which order nodes fire but the tokens themselves, and
what no fetch needs never gets one.]],
    code = [[a = df.placeholder('float32', {})
b = a * 2
c = a + 10
y = b * c
z = c - 1]],
    ask = 'y is fetched with a = 3. How many nodes fire (of b, c, y and z)?',
    answer = function(e) return count(e.y, 'nodes_run', { [e.a] = 3 }) end,
    why = 'b and c fire in either order, y when both have come. z is not needed for y: no token is sent for it.',
    picture = function(e) return drawn(e.y, e) end,
    exercises = {
      { 'Fetch y and z in one run with a = 3, as a list.', 'df.run({y, z}, {[a] = 3})', function(v)
        return type(v) == 'table' and near(v[1], 78) and near(v[2], 12)
        or 'df.run takes a list of fetches, and the feeds as a second table'
      end },
      { 'Build and run something that gives 78 + 12 from y and z, with a = 3.', 'df.run(y + z, {[a] = 3})',
        is(90, 'y + z is a node; feed a') },
    } },
  { title = 'Switch and Merge',
    text = [[A cond becomes Switches and a Merge. A Switch takes a value and a predicate, and sends the value out by one of its two
sides: T or F. The branch hangs on its side. A Merge fires when one of its inputs has come, and sends that on: where the branches join.]],
    code = [[p = df.placeholder('float32', {})
y = cond(p:gt(0), function() return p * 10 end, function() return p - 1 end)]],
    ask = 'p = -3 is fed. How often is the Mul of the first branch computed?',
    answer = function(e) return fired(e.y, 'Mul', false, { [e.p] = -3 }) end,
    why = 'Never: p goes out by F, so p - 1 has a live token. What comes by T is dead, and p * 10 is not computed.',
    picture = function(e) return primitives(e.y, e) end,
    exercises = {
      { 'Run y with p = -4.', 'df.run(y, {[p] = -4})', is(-5, 'feeds are {[p] = -4}') },
      { 'Build the absolute value of p with a cond, and run it with p = -4.',
        'df.run(cond(p:lt(0), function() return -p end, function() return p end), {[p] = -4})',
        is(4, 'both branches are functions that return a value') },
    } },
  { title = 'Deadness',
    text = [[The side that a Switch does not take gets a token, too: a dead one. A node that gets a dead token on any input does not
compute; it sends dead tokens on. So everything behind the wrong side is told that nothing comes. A Merge is dead only if all of its inputs are.]],
    code = [[x = df.placeholder_with_default(df.float32(1), {})
y = cond(x:gt(0), function() return x + 1 end, function() return ((x * 2) - 3):exp() end)]],
    ask = 'x is 1. How many nodes of the branch that is not taken get a dead token (Mul, Sub, Exp)?',
    answer = function(e) return fired(e.y, 'Mul', true) + fired(e.y, 'Sub', true) + fired(e.y, 'Exp', true) end,
    why = 'All three: deadness runs along the branch from node to node, and costs no arithmetic. That is how the '
          .. 'Merge knows not to wait.',
    picture = function(e) return primitives(e.y, e) end,
    exercises = {
      { 'Start y paused (df.start with {paused = true}), let it go to its end with h:resume() and h:wait(): give its '
        .. 'result.',
        '(function() local h = df.start(y, nil, {paused = true}) h:resume() return h:wait() end)()', is(2) },
      { 'Is the branch that is not taken computed? Give cond(x:gt(0), f, g) where f gives df.int32(7), and g divides '
        .. 'df.int32(1) by df.int32(0).',
        'cond(x:gt(0), function() return df.int32(7) end, function() return df.floordiv(df.int32(1), df.int32(0)) end)',
        is(7, 'both branches give an int32') },
    } },
  { title = 'Frames and iterations',
    text = [[A while_loop runs in a frame. Enter brings a value in, as iteration 0; NextIteration carries it to the next one; Exit takes
it out. A token has a tag, while:3 for iteration 3: tokens of different iterations never meet, so a node may fire in several of them at once.]],
    code = 'i, x = while_loop(function(i, x) return i:lt(4) end, function(i, x) return i + 1, x * 2 end, '
      .. '{df.int32(0), df.float32(1)})',
    ask = 'The body runs 4 times. How often does the predicate, Less, fire?',
    answer = function(e) return fired(e.x, 'Less') end,
    why = 'Five times: in iteration 4 it says false, and the Switches send the loop variables to the Exits.',
    picture = function(e) return primitives(e.x, e) end,
    exercises = {
      { 'What is 2^10, by such a loop?',
        'select(2, while_loop(function(i, x) return i:lt(10) end, function(i, x) return i + 1, x * 2 end, '
        .. '{df.int32(0), df.float32(1)}))', is(1024) },
      { 'Sum the whole numbers from 1 to 100 in a loop of the graph. df.autograph(fn) makes a while_loop of `for i = '
        .. '1, n do … end` in fn, for an Output n.',
        'df.autograph(function(s, n) for i = 1, n do s = s + i end return s end)(df.int32(0), df.int32(100))',
        is(5050) },
    } },
  { title = 'Windows',
    text = [[parallel_iterations is the window: how many iterations of a loop may be open at once. The counter runs ahead of a slow body as
far as the window lets it. It changes when things happen, never what comes out.]],
    code = [[function sum(window)
  local _, s = while_loop(function(i, s) return i:lt(20) end, function(i, s) return i + 1, s + df.cast(i, 'float32') end,
                          {df.int32(0), df.float32(0)}, {parallel_iterations = window})
  return s
end
s1, s32 = sum(1), sum(32)]],
    ask = 'sum(32) is 190. What is sum(1)?',
    answer = function(e) return df.run(e.s1) end,
    why = 'The same: tags keep the iterations apart, however many are open. Only the time may differ.',
    picture = function(e) return drawn(e.s1, e) end,
    exercises = {
      { 'Is sum(1) the same as sum(7)? Give an Output that says so.', 'sum(1):eq(sum(7))',
        function(v) return v == true or 'x:eq(y) compares values' end },
      { 'Start sum(4) paused, step 3 iterations (h:step(3, "iteration")) and give h:frames()[2].limit.',
        '(function() local h = df.start(sum(4), nil, {paused = true}) h:step(3, "iteration") local n = '
        .. 'h:frames()[2].limit h:cancel() return n end)()', is(4) },
    } },
  { title = 'Captured values',
    text = [[A body may use what was built outside: it is captured. A constant Enter brings it into the frame once, for all iterations. A
variable is not captured by value: it is read each time that the place where it is read runs.]],
    code = [[w = df.float32(3)
v = df.Variable(df.float32(0))
_, y = while_loop(function(i, x) return i:lt(3) end, function(i, x) return i + 1, x * w end, {df.int32(0), df.float32(1)})
n = while_loop(function(i) return i:lt(5) end, function(i) v:assign_add(1.0) return i + 1 end, {df.int32(0)})
df.run(n)]],
    ask = 'The last loop has run once. What is v now?',
    answer = function(e) return df.run(e.v) end,
    why = 'An op with an effect in a body runs each time that the body runs, whether or not anything uses what it '
          .. 'gives: five times.',
    picture = function(e) return drawn(e.y, e) end,
    exercises = {
      { 'What is y?', 'y', is(27) },
      { 'Build a loop of 4 trips that starts at 1 and adds w each time; give its result.',
        'select(2, while_loop(function(i, x) return i:lt(4) end, function(i, x) return i + 1, x + w end, '
        .. '{df.int32(0), df.float32(1)}))', is(13) },
    } },
  { title = 'TensorArrays',
    text = [[A TensorArray holds a tensor at each index, inside a graph. Each location is written once and read as often as one likes. ta:write
returns the array that holds the value: go on with that one, as with every other value in a graph.]],
    code = [[ta = TensorArray('float32', 4)
_, ta = while_loop(function(i, ta) return i:lt(4) end, function(i, ta) return i + 1, ta:write(i, df.cast(i, 'float32') ^ 2) end, {df.int32(0), ta})
squares = ta:stack()]],
    ask = 'What is the last element of squares?',
    answer = function(e) return df.run(e.squares):at(-1) end,
    why = 'The indices count from 0, so the last one is 3 and its square 9.',
    picture = function(e) return tostring(df.plot(df.run(e.squares))) end,
    exercises = {
      { 'Give the sum of squares.', 'squares:reduce_sum()', is(14) },
      { 'Split df.float32{1, 2, 3} into a TensorArray with unstack, and read the element at index 1.',
        "TensorArray('float32', 3):unstack(df.float32{1, 2, 3}):read(1)",
        is(2, 'TensorArray(dtype, size):unstack(t):read(i)') },
    } },
  { title = 'The gradient of a cond',
    text = [[gradients(y, x) builds more graph. Of a cond it is a cond with the same predicate: the gradient flows back through the branch that was
taken. Switch and Merge are each other's gradients.]],
    code = [[x = df.placeholder_with_default(df.float32(3), {})
y = cond(x:gt(0), function() return x * x end, function() return -x end)
g = gradients(y, x)]],
    ask = 'x is 3. What is g?',
    answer = function(e) return df.run(e.g) end,
    why = 'The branch that was taken is x * x, and its derivative 2x is 6.',
    picture = function(e) return drawn(e.g, e) end,
    exercises = {
      { 'What is g where x = -2 is fed?', 'df.run(g, {[x] = -2})', is(-1) },
      { 'The second derivative of y by x, at x = 3.', 'gradients(g, x)', is(2, 'gradients of gradients go, too') },
    } },
  { title = 'The gradient of a loop',
    text = [[The gradient of a loop is a loop that runs backwards: as many trips, each with the gradient of the body. A trip needs what the body
had in that iteration, so the forward loop saves it.]],
    code = [[x = df.placeholder_with_default(df.float32(2), {})
_, y = while_loop(function(i, y) return i:lt(3) end, function(i, y) return i + 1, y * x end, {df.int32(0), df.float32(1)})
g = gradients(y, x)]],
    ask = 'y is x^3. What is g at x = 2?',
    answer = function(e) return df.run(e.g) end,
    why = '3x^2 is 12. The backward loop adds one term in each of its three trips: in each, y * x is differentiated '
          .. 'by x.',
    picture = function(e) return df.draw(e.g, { as = 'tree', source = false, around = 'gradients/while/Mul_1' }) end,
    exercises = {
      { 'How many iterations does a run of g count, forward and backward? '
        .. '(df.start(g), h:wait(), h:stats().iterations)',
        '(function() local h = df.start(g) h:wait() return h:stats().iterations end)()', is(6) },
      { 'The derivative of x * sin(x) at x = 1.',
        '(function() local x = df.float32(1) return gradients(x * x:sin(), x) end)()', is(math.sin(1) + math.cos(1)) },
    } },
  { title = 'What is saved',
    text = [[What the backward loop needs is pushed on a stack in each iteration, and popped on the way back. h:stats() counts pushes and pops;
:saved tells at the prompt what is saved, and why. A body that needs nothing of itself saves nothing.]],
    code = [[x = df.placeholder_with_default(df.float32(2), {})
_, p = while_loop(function(i, y) return i:lt(5) end, function(i, y) return i + 1, y * x end, {df.int32(0), df.float32(1)})
_, a = while_loop(function(i, y) return i:lt(5) end, function(i, y) return i + 1, y + x end, {df.int32(0), df.float32(1)})
gp, ga = gradients(p, x), gradients(a, x)]],
    ask = 'How many values are pushed in a run of ga, whose body only adds?',
    answer = function(e) return count(e.ga, 'stack_pushes') end,
    why = 'None: the derivative of y + x by either is 1, whatever they were. y * x needs y in each iteration.',
    picture = function(e) return tostring(df.saved(e.gp)) end,
    exercises = {
      { 'How many values are pushed in a run of gp?',
        '(function() local h = df.start(gp) h:wait() return h:stats().stack_pushes end)()', is(5) },
      { 'And what is gp at x = 2?', 'gp', is(80) },
    } },
  { title = 'Recompute',
    text = [[Saved values take memory: save = 'recompute' in a loop's options keeps only some of them and computes the others again on the way
back. df.checkpoint(fn) does that for a function. The gradient is the same, bit for bit; it costs time instead of memory.]],
    code = [[x = df.placeholder_with_default(df.float32(2), {})
function power(save)
  local _, y = while_loop(function(i, y) return i:lt(8) end, function(i, y) return i + 1, (y * x):tanh() end, {df.int32(0), df.float32(0.5)}, {save = save})
  return gradients(y, x)
end
keep, again = power('keep'), power('recompute')]],
    ask = 'Are keep and again equal? Answer 1 for yes, 0 for no.',
    answer = function(e) return df.run(e.keep) == df.run(e.again) and 1 or 0 end,
    why = 'They are: what is computed again is computed in the same way from the same values. Random numbers come out '
          .. 'the same, too.',
    picture = function(e) return tostring(df.saved(e.again)) end,
    exercises = {
      { 'Give the difference of the two, as an Output.', 'keep - again', is(0) },
      { 'Wrap function(v) return v * v end with df.checkpoint, and give its gradient by x.',
        '(function() local f = df.checkpoint(function(v) return v * v end) return gradients(f(x), x) end)()', is(4) },
    } },
  { title = 'Queues',
    text = [[A queue holds elements between runs, or between the iterations of loops in one run. A full queue holds back an enqueue, an
empty one a dequeue: the node waits, and everything else goes on.]],
    code = [[q = df.FIFOQueue(3, {'float32'}, {shapes = {{}}})
put = q:enqueue_many(df.float32{1, 2, 3})
get = q:dequeue()
df.run(put)
df.run(get)]],
    ask = 'Three elements were put in and one was taken. What does q:size() say?',
    answer = function(e) return df.run(e.q:size()) end,
    why = 'Two. A fourth enqueue into the full queue would wait until one is taken out.',
    picture = function(e) return drawn(e.get, e) end,
    exercises = {
      { 'Take the next element.', 'df.run(get)', taken(1) },
      { 'Take one and multiply it by 10, in one run.', 'df.run(get * 10)', taken(10) },
    } },
  { title = 'Lanes',
    text = [[df.vmap(fn) makes of a function of one example a function of many, side by side: lanes. Each lane goes its own way. A cond runs a
branch once, for the lanes that take it; a loop goes on until the last lane has ended, and one that has ended keeps its values.]],
    code = [[function steps(n)
  local _, k = while_loop(function(n, k) return n:gt(1) end, function(n, k)
    return cond((n % 2):eq(0), function() return df.floordiv(n, 2) end, function() return 3 * n + 1 end), k + 1
  end, {n, df.int32(0)})
  return k
end
ks = df.vmap(steps)(df.int32{1, 6, 7, 5})]],
    ask = 'Alone, 1 takes 0 steps, 6 takes 8, 7 takes 16, and 5 takes 5. How many iterations does the one loop of ks '
          .. 'make?',
    answer = function(e) return count(e.ks, 'iterations') end,
    why = 'As many as its longest lane. Of the others it computes nothing more: a trip takes the lanes that go on, '
          .. 'and puts back what they have come to.',
    picture = function(e) return ('ks = %s\n%s')
      :format(tostring(df.run(e.ks)), tostring(df.plot{ steps = df.run(e.ks) }:text{ columns = 40, rows = 8 })) end,
    exercises = {
      { 'Write the sum of squares of one row, and give it for each row of df.float32{{1, 2}, {3, 4}} by df.vmap.',
        'df.vmap(function(row) return (row * row):reduce_sum() end)(df.float32{{1, 2}, {3, 4}})', function(v)
        return df.type(v) == 'tensor' and v.size == 2 and v:at(0) == 5 and v:at(1) == 25
        or 'df.vmap(fn)(rows): fn gets one row, and gives a scalar'
      end },
      { 'Give the derivative of x^3 at 1, 2 and 3: df.vmap of a function that calls gradients.',
        'df.vmap(function(x) return gradients(x ^ 3, x) end)(df.float32{1, 2, 3})', function(v)
        return df.type(v) == 'tensor' and v.size == 3 and near(v:at(0), 3) and near(v:at(2), 27)
        or '3x^2 of each: gradients(x ^ 3, x) is built for one lane'
      end },
    } },
  { title = 'Several machines',
    text = [[A cluster is several processes, its ranks: rank 0 has the prompt, the others wait for work, here or on other hosts. df.device(name, fn)
says where what fn builds shall run. A value that another rank needs is sent to it, and a loop is cut over the ranks: each does its part of every
iteration and sends the next rank what it waits for. No process directs the others.]],
    code = [[if df.cluster.size == 1 then df.cluster.start(3) end     -- :cluster 3 at the prompt
x = df.placeholder_with_default(df.float32(1), {})
function double(y) return df.device('/rank:1', function() return y * 2 end) end
_, y = while_loop(function(i, y) return i:lt(5) end, function(i, y) return i + 1, double(y) + x end, {df.int32(0), x})]],
    ask = 'In each of 5 iterations y is doubled on rank 1, and x is added. What is y, where x is 1?',
    answer = function(e) return df.run(e.y) end,
    why = 'Where a node runs changes no number: 1, 3, 7, 15, 31, 63, as in one process.',
    picture = function(e)
      local rows, at = {}, {}
      for _, p in ipairs(df.default_session():placement(e.y)) do
        if not at[p.device] then rows[#rows + 1] = p.device end
        at[p.device] = (at[p.device] or p.device .. ' has') .. ' ' .. p.node
      end
      for i, device in ipairs(rows) do rows[i] = at[device] end
      return table.concat(rows, '\n')
    end,
    exercises = {
      { 'What is the derivative of y by x? Its loop is cut over the ranks, too.', 'gradients(y, x)',
        is(63, 'gradients(y, x) is built like any other graph') },
      { "Double 20 on rank 2, '/rank:2', and add 2 here.",
        "df.device('/rank:2', function() return df.float32(20) * 2 end) + 2",
        is(42, 'df.device(name, fn) gives what fn returns') },
    },
    done = function() df.cluster.stop() end },
}
