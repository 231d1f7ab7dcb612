--- What is typed at the prompt, line by line, for spec/repl/sessions_spec.lua: values of many kinds, mistakes, and every command, right and wrong.
return {
  { 'values', [=[
1 + 1
x = df.placeholder('float32', {-1, 2}, 'x')
w = df.Variable(df.ones{2, 2}, {name = 'w'})
y = df.matmul(x, w)
y
?y
?x
?w
"a\tstring\27[31m"
'λ' .. '\255'
{1, 2, 3}
{a = 1, b = {c = {d = {e = {f = 1}}}}}
{}
{1, nil, 3}
nil
true, false, nil
1e300, 1/0, 0/0, -0.0
df.tensor{1.5, 2, -3}
df.tensor({1, 2}, 'int8')
df.tensor({{1, 2}, {3, 4}}, 'float64')
df.tensor({true, false}, 'bool')
df.tensor({'a', 'b\n'}, 'string')
df.zeros{0, 3}:eval()
df.range(0, 2000, 1):eval()
df.fill({3, 3, 3}, 7):eval()
df.tensor{0/0, 1/0, -1/0, 1e-9, 123456789}
function f(a, b) return a + b end
f
f(1, 2);
_ , __
Out[1]
x.shape
x.shape[1]
x.dtype
y.op
y.op.inputs
local z = y * 2
z
z.nothing
x.shap
undefined_name
undefined_name.field
error('mine')
error({code = 1})
df.matmul(df.ones{2, 3}, df.ones{2, 3})
df.run(y)
df.run(y, {[x] = {{1, 2}}})
df.run(y, {[x] = {1, 2}})
x = = 3
for i = 1, 3 do print(i) end
return 5
= 6
df.add(1, 2)
df.add(1)
df.nosuch
'plain'
"\27]0;title\7"
12345678901234567890
2^53, 2^63, -2^63
0.1 + 0.2
1//1, 7 // 2, 7 % -3
'a' .. 1
{[1] = 1, [3] = 3, x = {}}
{{1, 2}, {3, {4, {5, {6}}}}}
{f = print}
setmetatable({}, {__tostring = function() return 'told' end})
df.tensor{{1, 2, 3}, {4, 5, 6}}
df.tensor({1.23456789, 1000000, 0.00001}, 'float64')
df.tensor({1, 2}, 'complex64')
df.tensor{1e10, 1}
df.tensor{-0.5}
df.tensor{0.001, 0.002}
df.tensor(5)
df.tensor('x', 'string')
df.tensor(true)
df.tensor({250, 255}, 'uint8')
df.tensor({9007199254740993, -1}, 'int64')
df.zeros{2, 0, 3}:eval()
df.ones({30, 40}):eval()
df.range(0, 99, 1):eval()
df.tensor{0/0, 0/0}
df.uint8{1, 2}:eval()
df.zeros({12, 2, 2}):eval()
df.Session()
df.default_graph()
df.FIFOQueue(3, 'float32')
df.TensorArray('float32', 3)
df.train.Adam(0.1)
df.nn.Dense(3)
df.rnn.LSTMCell(3)
df.plot{1, 2, 3}:text{columns = 20, rows = 4}
df.data.pipeline{1, 2, 3}
df.gradients(df.square(w), w)
df.cond(df.constant(true), function() return 1.0 end, function() return 2.0 end)
df.int32 'x'
df.float32{1, {2}}
df.float32{{1, 2}, {3}}
df.placeholder('nosuch')
df.placeholder('float32', {'a'})
df.placeholder('float32', 3)
df.reshape(df.ones{6}, {4})
df.concat({df.ones{2}, df.ones{2, 2}}, 0)
df.add(df.ones{2}, df.ones{3})
df.add(df.int32(1), df.float32(1))
df.cast(1.5, 'int32')
df.matmul(df.ones{2}, df.ones{2})
df.run()
df.run{}
df.run(y, 3)
df.run(y, nil, {timeot = 1})
df.run(w, {[w] = 1})
df.gradients(y)
df.gradients(df.int32(1), w)
df.while_loop(1, 2, 3)
df.while_loop(function(i) return i end, function(i) return i + 1 end, {df.int32(0)})
df.while_loop(function(i) return i:lt(3) end, function(i) end, {df.int32(0)})
df.while_loop(function(i) return i:lt(3) end, function(i) return df.float32(1) end, {df.int32(0)})
df.while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, {df.int32(0)}, {shape_invariants = 3})
df.while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, {df.int32(0)}, {shape_invariants = {{}, {}}})
df.while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, {df.int32(0)}, {shape_invariants = {'x'}})
df.while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, {df.int32(0)}, {parallel_iterations = 0})
df.while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, {df.int32(0)}, {maximum_iterations = -1})
df.while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, {df.int32(0)}, {nosuch = 1})
df.while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, {})
df.while_loop(function(i) return i:lt(3) end, function(i) return i + 1, i end, {df.int32(0)})
df.cond(1, 2, 3)
df.cond(df.constant(true), function() return 1.0 end, function() return 1.0, 2.0 end)
df.cond(df.constant(true), function() return 1.0 end, function() return df.int32(1) end)
df.cond(df.constant(true), function() return {a = 1.0} end, function() return {b = 1.0} end)
df.cond(df.constant{true, false}, function() return 1.0 end, function() return 2.0 end)
df.Variable()
df.Variable(1, {nosuch = 2})
w:assign(df.ones{3})
w:assign('x')
w.assign(df.ones{2, 2})
x.eval()
y:eval(3)
w.value = 3
x[1] = 2
x < 3
#x
x()
x .. 'a'
-x
x % 2
not x
df.Session{nosuch = 1}
df.device('nosuch', function() end)
df.device('cpu:0', 3)
df.TensorArray('float32')
df.TensorArray('float32', 3):read(5)
df.run(df.TensorArray('float32', 3):read(5))
df.run(df.TensorArray('float32', 3):write(0, 1):read(1))
df.gather(df.ones{3}, 7)
df.run(df.gather(df.ones{3}, df.placeholder('int32', {}, 'k')), {k = 7})
df.map_fn(3, df.ones{3})
df.map_fn(function(x) return x end, 3)
df.scan(function(a) return a end, df.ones{3}, 1)
df.func('f', {}, 3)
df.train.SGD(0.1):minimize(3)
df.nn.Dense(3)(4)
df.save('x', 3)
df.load_npy('/nowhere')
df.import_onnx('/nowhere')
df.import_graph_def('/nowhere')
df.load_npz(3)
df.one_hot({1}, 2, {axis = 5})
df.transpose(df.ones{2, 3}, {0, 0})
df.squeeze(df.ones{2, 3}, {0})
df.split(df.ones{5}, 2)
df.stack{df.ones{2}, df.ones{3}}
df.slice(df.ones{3}, {1}, {5})
df.range(0, 5, 0)
df.fill({2}, {1, 2})
df.conv2d(df.ones{1, 3, 3, 1}, df.ones{2, 2, 1, 1})
df.random_uniform(2, 3)
]=] },

  { 'commands', [=[
x = df.placeholder('float32', {-1, 2}, 'x')
w = df.Variable(df.ones{2, 2}, {name = 'w'})
y = df.matmul(x, w)
df.run(y, {[x] = {{1, 2}}})
:help runs
:help nosuch
:hel
:h
:nosuch
:names
:doc matmul
:where y
:where nosuch
:where
:graph y
:graph y as tree
:graph y as dot
:graph y at lowered
:graph y at nowhere
:graph y as what
:graph
:plot {1, 2, 3}
:plot {3, 1, 2} as scatter
:plot
:plot 'x'
:plot {1, 2} as what
:placement y
:placement
:placement 3
:saved y
:saved
:inputs y
:inputs
:explain y
:explain
:disasm y
:disasm
:frames
:tokens
:stacks
:why y
:whynot y
:value y
:back
:forward
:swap
:runs
:attach
:attach 7
:record
:diff
:diff a b
:break
:break nosuch
:break y
:break y if x > 1
:break y dead
:unbreak
:unbreak 9
:unbreak all
:step
:step x
:continue
:pause
:cancel
]=] },

  { 'runs', [=[
h = df.start(df.while_loop(function(i) return i:lt(20) end, function(i) return i + 1 end, {df.int32(0)}), nil, {paused = true})
:runs
:frames
:tokens
:step
:step 3
:step 2 iterations
:step nosuch
:tokens
:tokens NextIteration
:stacks
:why
:whynot
:value 3
:break Add
:break
:continue
:unbreak 1
:step 5 nodes
:frames
:back
:back 2
:forward
:swap
:continue
:frames
h:wait()
:attach 1
:cancel
]=] },

  { 'settings', [=[
x = df.placeholder('float32', {-1, 2}, 'x')
w = df.Variable(df.ones{2, 2}, {name = 'w'})
y = df.matmul(x, w)
df.run(y, {[x] = {{1, 2}}})
:time
:time 1 +
:timeit
:prof
:src
:trace
:mem x
:stats x
:history 2
:history x
:locals
:watch
:watch z
:watch 1 + 1
1
:watch 1 +
:unwatch
:unwatch 5
:unwatch 1
:unwatch all
:save
:load
:load /nowhere/at/all
:run
:run /nowhere/at/all.lua
:edit
:set
:set theme
:set theme dark
:set theme none
:set nosuch 1
:set precision 3
:set precision x
:set threshold 5
:set threshold -1
df.range(0.0, 10.0, 1.0):eval()
:set edge 1
df.range(0.0, 10.0, 1.0):eval()
:set depth 1
{a = {b = {c = 1}}}
:set entries 2
{1, 2, 3, 4}
:set print x
:set images text
:set images x
:set record x
:set width 40
:serve nosuch
:learn nosuch
:why?
:graph?
:break?
:step?
:set?
:plot?
]=] },

  { 'questions', [=[
x = df.placeholder('float32', {-1, 2}, 'x')
w = df.Variable(df.ones{2, 2}, {name = 'w'})
y = df.matmul(x, w)
df.run(y, {[x] = {{1, 2}}})
h = df.start(df.float32(2) * 3, nil, {paused = true})
help
:help all ~loop
:graph y ~MatMul
?
?nosuch
?matmu
?Run
?h:step
?h:
?df
?Out
?0
?1
?99
?print
?:step
?float32
?Output:reshape
?nn.Dense
?train.Adam
?Variable
?TensorArray
?cond
?gradients
#Out > 3
:quit now
]=] },

  { 'a run that is stepped', [=[
df.set_default_session(df.Session{threads = 1})
x = df.placeholder('float32', {}, 'x')
v = df.Variable(df.float32(2), {name = 'v'})
step = function(j, z) return j + 1, cond((j % 2):eq(0), function() return z * v end, function() return z + x end) end
inner = function(i, y) return while_loop(function(j) return j:lt(i) end, step, {df.int32(0), y}, {name = 'inner'}) end
n, y = while_loop(function(i) return i:lt(6) end, function(i, y) local _, z = inner(i, y) return i + 1, z * 0.5 end, {df.int32(0), df.float32(1)}, {name = 'outer'})
g = df.gradients(y, x)
ta = df.TensorArray('float32', 3):unstack(df.ones{3, 2})
_, filled = while_loop(function(i) return i:lt(3) end, function(i, to) return i + 1, to:write(i, ta:read(i) * x) end, {df.int32(0), df.TensorArray('float32', 3)}, {name = 'fill'})
s = filled:stack():reduce_sum()
h = df.start({y, g, s}, {[x] = 3}, {paused = true, values = true})
:runs
:frames
:step 17
:frames
:tokens
:tokens Less
:tokens outer/Less
:stacks
:value x
:value outer/Merge@outer:0
:value outer/Merge@outer:1
:value outer/Merge@outer:77
:value outer/Merge@nosuch
:why outer/Less
:why outer/Less@outer:0
:why outer/Less@outer:1
:whynot y
:whynot g
:whynot s
:whynot outer/inner/Less@outer:2
:break Mul in outer
:break Mul outer/inner:1
:break op=Mul frame=outer/inner iteration=2
:break line 3
:break line 99
:break frame outer
:break iteration 3
:break outer:4
:break dead
:break nan
:break inf
:break nan inf
:break Less if v
:break Mul if v > 2 limit 2
:break Add limit 1
:break Add limit 0
:break Add limit x
:break limit 3
:break frame nosuch
:break iteration x
:break outer:x
:break Mul if
:break Mul if = 3
:break foo=3
:break
:continue
:continue
:break
:unbreak 3
:unbreak 3
:unbreak x
:continue
:continue
:back
:back 3
:back 0
:back x
:forward
:forward 2
:forward 99
:why
:whynot
:unbreak
:break
:step 2 node
:step 1 iteration
:step 1 frame
:step 0
:step -1
:step 1.5
:step node 2
:step token
:break Exit
:continue
:frames
:swap
:pause
:attach 1
:attach 2
:cancel
:frames
:why y
:runs
h:wait()
:step n
:step 3
:continue
:unbreak
:continue
:step n + 1
:back 9
:cancel
:step nosuch
:break Mul outer:2
df.run(y, {[x] = 1})
:break
:unbreak
:continue
df.run(y, {[x] = 1})
:record on
df.run({y, s}, {[x] = 1})
:why outer/Less@outer:3
:value outer/inner/cond/Mul@outer:3/outer/inner:0
:value outer/inner/cond/Mul@outer:3/outer/inner:1
:why outer/inner/cond/Mul@outer:3/outer/inner:1
:value s
:record off
:record
df.run(df.check_numerics(y / 0, {message = 'it'}), {[x] = 1})
:why
:back
df.run(df.floor_div(n, df.int32(0) * n), {[x] = 1})
:why
]=] },

  { 'what a value comes from', [=[
x = df.placeholder('float32', {2}, 'x')
a = x * 2
b = a + a
c = (b * a):reduce_sum()
d = df.tanh(df.tanh(df.tanh(df.tanh(df.tanh(df.tanh(c))))))
:inputs d
:inputs d 0
:inputs d 1
:inputs d 2
:inputs d 3
:inputs d 20
:inputs b 1
:inputs b 9
:inputs x
:inputs x 0
:inputs Mul
:inputs Mul:0 1
:inputs a.op
:inputs 3
:inputs a b
:inputs (a + b)
:inputs nosuch 2
wide = {}
for i = 1, 70 do wide[i] = x * i end
:inputs df.add_n(wide)
:inputs df.add_n(wide) 1
:watch c.shape
:watch #wide
wide[71] = x
wide[72] = x
:watch
:watch df.run(c, {[x] = {1, 2}})
x2 = 1
v = df.Variable(1.0, {name = 'v'})
:watch v
df.run(v:assign_add(1))
df.run(v:assign_add(1))
1 + 1
:unwatch 2
:watch
:unwatch
:watch
:graph c
:graph c as tree
:graph c as let
:graph {a, b}
:graph {p = a, q = {b}}
:graph d at lowered
:graph c at gradient
:graph df.gradients(c, x)
:graph a.op
:graph df.default_graph() ~Mul
:saved c
y = df.while_loop(function(i, y) return i:lt(3) end, function(i, y) return i + 1, df.sin(y * x) end, {df.int32(0), x})
step = function(i, y) return i + 1, df.cond(i:gt(1), function() return df.sin(y * x) end, function() return y end) end
_, z = df.while_loop(function(i, y) return i:lt(3) end, step, {df.int32(0), x}, {save = 'swap'})
:saved z
:saved df.gradients(z, x)
:explain z
:graph z
:graph z as tree
:graph z at lowered
:graph z at gradient
:placement z
:plot {a = {1, 2, 3}, b = {3, 2, 1}}
:plot histogram {1, 2, 2, 3, 3, 3}
:plot heatmap {{1, 2}, {3, 4}}
:plot image df.ones{2, 2}
:plot scatter {{1, 2}, {2, 1}}
:plot scatter
:plot line {}
:plot nosuch {1}
:plot df.range(0.0, 5.0, 1.0)
:plot c
df.run(z, {[x] = {1, 2}})
df.run(z, {[x] = {1, 3}})
:diff
:record on
df.run(z, {[x] = {1, 2}})
df.run(z, {[x] = {1, 3}})
:diff
df.run(z, {[x] = {1, 3}})
:diff
:history 5
:history ~diff
:locals
local one, two = 1, 'two'
:locals
local one = 3
:locals
one
:names ~reduce
:help ~graph
:where df.matmul
:where matmul
:where nn.Dense
??add
]=] },
}
