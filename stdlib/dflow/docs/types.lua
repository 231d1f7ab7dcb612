--- The types, as pages.lua reads them: `Name (what df.type says, a letter for one)`, its fields, and
-- below it its methods.
local pages = require 'dflow.docs.pages'
local functions = require 'dflow.docs.functions'

local macros = {
  name = functions.macros.name, run = functions.macros.run,
  -- a run that stands before its first token
  paused = [[
local x, zero, one = df.placeholder('float32', {}), df.int32(0), df.float32(1)
            local i, y = while_loop(function(i, y) return i:lt(5) end,
                                    function(i, y) return i + 1, y * x end, {zero, one})
            local h = df.start(y, {[x] = 2}, {paused = true, values = true})]],
  writer = [[
  example   local folder = os.tmpname() os.remove(folder)
            local w = df.summary.FileWriter(folder)]],
  written = [[
            w:close() os.remove(w.path) os.remove(folder)
            return w.path:match 'tfevents']],
  filled = [[
local q = df.FIFOQueue(10, 'float32', {shapes = {}})
            df.run(q:enqueue_many{1, 2, 3})]],
}

local text = [==[
Plot (plot, p)
  A picture of numbers, made by df.plot and its kinds. Its tostring is the picture in braille.
  example   df.plot.scatter({1, 2}, {1, 2}):text{columns = 4, rows = 2, ascii = true}

p:text{…}
  The picture as lines of text, axes beside it.
  option    columns: int = 60  how many cells are wide
  option    rows: int = 15  how many are high
  option    ascii: bool = false  true: for terminals without UTF-8
  option    colour: bool = false  true: several series, and images, in colours
  example   df.plot{1, 2, 3}:text{columns = 6, rows = 2, ascii = true}

p:svg{…}
  The picture as an SVG document.
  option    width: number = 640  pixels
  option    height: number = 400  pixels
  example   df.plot{1, 2, 3}:svg():sub(1, 4)

p:png{…}
  The picture as the bytes of a PNG: an image's pixels, each as often as goes in; everything else by
  rsvg-convert, where it is there.
  option    width: number = 640  pixels
  option    height: number = 400  pixels
  example   df.plot.image{{0, 1}, {1, 0}}:png():sub(2, 4)

p:save(path)
  Writes it: as SVG or PNG, or as text where path ends in .txt.
  example   pcall(df.plot{1, 2}.save, df.plot{1, 2}, 'picture.bmp')

Output (output, x)
  One output of one node of a graph: symbolic, without a value until it is run. Every op is a
  method of it, x:tanh(), and + - * / % ^ build nodes. x[i] is element i along axis 0. Two
  mentions of one output are one Lua object.
  field     dtype  its dtype, a string
  field     shape  a list of dimensions, -1 for one not known yet; nil where even the rank is
              unknown
  field     name  'node:index'
  field     op  the operation that makes it
  field     index  which output of the operation, from 0
  field     graph  its Graph
  field     source  'file:line' that built it
  example   df.float32{1, 2}:square()[1]

x:eval(feeds?, {…})
  Its value, from a run in the default session.
@run
  example   df.float32(2):square():eval()

x:set_shape(shape)
  Says what is known of its shape otherwise than by the graph; gives x.
  example   df.placeholder('float32'):set_shape{2, -1}.shape[2]

x:lt(y)
  x < y, elementwise: df.less.
  example   df.float32{1, 2}:lt(2)

x:le(y)
  x <= y, elementwise: df.less_equal.
  example   df.float32{1, 2}:le(1)

x:gt(y)
  x > y, elementwise: df.greater.
  example   df.float32{1, 2}:gt(1)

x:ge(y)
  x >= y, elementwise: df.greater_equal.
  example   df.float32{1, 2}:ge(2)

x:eq(y)
  Equal values, elementwise: df.equal. x == y asks whether both are one output.
  example   df.float32{1, 2}:eq(2)

x:ne(y)
  Different values, elementwise: df.not_equal.
  example   df.float32{1, 2}:ne(2)

-- -------------------------------------------------------------------------------------------------

Operation (operation, op)
  A node of a graph. It can be fetched, which gives true, and stand in control dependencies.
  field     name  its name
  field     type  its op, such as 'MatMul'
  field     inputs  a list of Outputs
  field     outputs  a list of Outputs
  field     graph  its Graph
  field     source  'file:line' that built it
  example   df.float32(2):square().op.type

op:run(feeds?, {…})
  Runs it in the default session; gives true.
@run
  example   df.Variable(1.0):assign(2).op:run()

-- -------------------------------------------------------------------------------------------------

Tensor (tensor, t)
  A concrete dense array on the host: what runs and loaders give, and what may be fed. df.tensor
  makes one. Its indices count from 0, tables from 1. a == b: the same dtype, shape and elements.
  field     dtype  its dtype, a string
  field     shape  a list of dimensions
  field     rank  the number of dimensions
  field     size  the number of elements
  example   df.tensor{{1.5, 2}, {3, 4}}

t:totable()
  Nested tables of its elements; the element itself when the rank is 0.
  example   df.tensor{{1.5, 2}, {3, 4}}:totable()[2][1]

t:item()
  The one element of a tensor of size 1.
  example   df.tensor{2.5}:item()

t:astype(dtype)
  The same numbers in another dtype, converted as df.cast does.
  example   df.tensor{1.7, -1.7}:astype('int32')

t:reshape(shape)
  The same elements in another shape; one dimension may be -1.
  example   df.tensor{1.5, 2, 3, 4}:reshape{2, -1}

t:at(i, j, …)
  Element i, j, … counted from 0; negative numbers count from the end. Fewer indices than the
  rank give a part.
  example   df.tensor{{1.5, 2}, {3, 4}}:at(1, 0)

t:rows(list)
  Rows of these numbers, counted from 0, as a new tensor.
  example   df.tensor{{1.5, 2}, {3, 4}, {5, 6}}:rows{2, 0}

t:list()
  All elements as a flat Lua list, in row-major order.
  example   #df.tensor{{1.5, 2}, {3, 4}}:list()

-- -------------------------------------------------------------------------------------------------

Variable (variable, v)
  A value that stays from run to run. Usable wherever an Output is, with the same methods; a bare
  one is read where it is used. Each session has its own value.
  field     dtype  its dtype
  field     shape  its static shape
  field     name  its name
  field     op  the operation of its handle
  field     graph  its Graph
  field     source  'file:line' that made it
  example   local v = df.Variable(1.0) df.run(v:assign_add(2)) return df.run(v)

v:load(x, session?)
  Sets its value in a session, the default one otherwise, without building anything.
  example   local v = df.Variable(1.5) v:load(4)
            return df.run(v)

v:eval(feeds?, {…})
  Its value in the default session.
@run
  example   df.Variable(1.5):eval()

v:value()
  A read on its own, as an Output: of the value at the place where it is built.
  example   df.run(df.Variable(1.5):value())

v:read_value()
  The same as v:value().
  example   df.run(df.Variable(1.5):read_value())

v:assign(x, {…})
  x is its value from then on; gives the new value as an Output.
@name
  example   df.run(df.Variable(1.5):assign(4))

v:assign_add(x, {…})
  Adds x to it; gives the new value.
@name
  example   df.run(df.Variable(1.5):assign_add(4))

v:assign_sub(x, {…})
  Subtracts x from it; gives the new value.
@name
  example   df.run(df.Variable(1.5):assign_sub(4))

v:scatter_sub(indices, updates, {…})
  Its rows `indices` lose updates; gives the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_sub({0, 2}, {10, 10}))

v:scatter_min(indices, updates, {…})
  Its rows `indices` are at most updates; gives the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_min({0, 2}, {0, 0}))

v:scatter_mul(indices, updates, {…})
  Its rows `indices` are multiplied by updates; gives the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_mul({0, 2}, {10, 10}))

v:scatter_update(indices, updates, {…})
  Its rows `indices` become updates; gives the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_update({0, 2}, {10, 10}))

v:scatter_add(indices, updates, {…})
  Its rows `indices` have added to them updates; gives the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_add({0, 2}, {10, 10}))

v:scatter_div(indices, updates, {…})
  Its rows `indices` are divided by updates; gives the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_div({0, 2}, {2, 2}))

v:scatter_max(indices, updates, {…})
  Its rows `indices` are at least updates; gives the new value.
@name
  example   df.run(df.Variable{1.0, 2.0, 3.0}:scatter_max({0, 2}, {10, 10}))

-- -------------------------------------------------------------------------------------------------

TensorArray (tensor_array, ta)
  An array of tensors for loops. What changes it returns the next array. Each place is written
  once, read as often as one likes, and all of it has a gradient.
  field     dtype  of its elements
  field     element_shape  the static shape of an element
  field     name  its name, which errors use
  field     op  the operation of its handle
  example   TensorArray('float32', 2):write(0, 1):write(1, 2):stack()

ta:write(i, v)
  Place i holds v; the next array. Each place is written once.
  example   TensorArray('float32', 2):write(0, 1):write(1, 2):stack()

ta:read(i, {…})
  What place i holds.
@name
  example   TensorArray('float32', 2):unstack{5, 6}:read(1)

ta:stack({…})
  All elements along a new axis 0.
@name
  example   TensorArray('float32', 2):unstack{5, 6}:stack()

ta:unstack(t)
  Place i holds t[i]; the next array.
  example   TensorArray('float32', 2):unstack{{1, 2}, {3, 4}}:read(0)

ta:gather(indices, {…})
  These elements along a new axis 0.
@name
  example   TensorArray('float32', 3):unstack{5, 6, 7}:gather{2, 0}

ta:scatter(indices, t)
  Place indices[k] holds t[k]; the next array.
  example   TensorArray('float32', 2):scatter({1, 0}, {5, 6}):stack()

ta:concat({…})
  All elements one behind the other along their axis 0.
@name
  example   TensorArray('float32', 2):split({1, 2, 3}, {1, 2}):concat()

ta:split(t, lengths)
  Place i holds the next lengths[i] rows of t; the next array.
  example   TensorArray('float32', 2):split({1, 2, 3}, {1, 2}):read(1)

ta:size({…})
  How many places there are now, a scalar int32.
@name
  example   TensorArray('float32', 2):size()

ta:grad(source)
  The array of gradients that belongs to this array under the name source.
  example   TensorArray('float32', 1):unstack{5}:grad('mine'):write(0, 2):read(0)

ta:identity()
  The same array behind a node of its own, which control dependencies can order.
  example   TensorArray('float32', 2):unstack{5, 6}:identity():read(0)

-- -------------------------------------------------------------------------------------------------

Queue (queue, q)
  A queue of the session: df.FIFOQueue, df.PaddingFIFOQueue, df.RandomShuffleQueue or
  df.PriorityQueue makes one. Its methods build ops; in a run they wait for room or elements.
  field     name  its name
  field     dtypes  of its components
  example   @filled
            return df.run(q:size())

q:size({…})
  How many elements it holds, a scalar int32.
@name
  example   @filled
            return df.run(q:size())

q:enqueue(v, …, {…})
  An operation that puts in one element, a value for each component; it waits while the queue is
  full.
@name
  example   @filled
            df.run(q:enqueue(4))
            return df.run(q:size())

q:enqueue_many(v, …, {…})
  An operation that puts in the rows of v along axis 0, one by one, as there is room.
@name
  example   @filled
            return df.run(q:size())

q:dequeue({…})
  The components of the next element; waits for one.
@name
  example   @filled
            return df.run(q:dequeue())

q:dequeue_many(n, {…})
  n elements, stacked along a new axis 0; waits for all of them.
@name
  example   @filled
            return df.run(q:dequeue_many(2))

q:dequeue_up_to(n, {…})
  As dequeue_many, but of a closed queue what is left will do.
@name
  example   @filled
            df.run(q:close())
            return df.run(q:dequeue_up_to(5))

q:is_closed()
  Was it closed? A scalar bool.
  example   @filled
            return df.run(q:is_closed())

q:close({…})
  An operation: nothing more is put in, and who waits for elements that cannot come any more ends
  with out_of_range. With cancel_pending who waits for room ends, too.
  option    cancel_pending: bool = false  who waits for room ends, too, with cancelled
@name
  example   @filled
            df.run(q:close())
            return df.run(q:is_closed())

-- -------------------------------------------------------------------------------------------------

Session (session, s)
  Runs what is fetched, keeps the values of variables and the compiled plans. df.Session makes
  one; df.run uses the default one.
  field     graph  its Graph
  example   df.Session{threads = 1}:run(df.float32(2) * 3)

s:close()
  Frees its variables and plans; it cannot run any more.
  example   local s = df.Session{} s:close() return tostring(s)

s:run(fetches, feeds?, {…})
  As df.run, in this session. s(fetches, feeds) is short for it.
@run
  example   df.Session{}:run(df.float32(2) * 3)

s:start(fetches, feeds?, {…})
  As df.start, in this session: a Run.
@run
  example   df.Session{}:start(df.float32(2) * 3):wait()

s:init()
  Its variables are uninitialised again: the next run that needs one initialises it.
  example   local v, s = df.Variable(1.0), df.Session{} s:run(v:assign(5)) s:init()
            return s:run(v)

s:position()
  Where its random ops are: a table, by the name of the op, of the runs it has drawn in. Each
  counts for itself: a run that reads a variable, or evaluates a model without its dropout, does
  not change what the others draw next.
  example   local s, x = df.Session{}, df.random_uniform({2}, {name = 'x'}) s:run(x) return s:position().x

s:seek(n)
  Puts its random ops where s:position() gave n: it draws what that session would have drawn.
  A number: each op has drawn in so many runs.
  example   local s = df.Session{} s:seek(7) return s:position()[1]

s:stats()
  Counters since it began, as df.stats().
  example   local s = df.Session{} s:run(df.float32(2) * 3) return s:stats().runs

s:devices()
  Its devices: {{name =, kind =, memory = {in_use =, peak =, limit =}}, …}, in bytes, the host first. Of
  a GPU also what it is called, launches, copies_in, copies_out, copies_across (from other GPUs), and
  libraries: lines that say what computes with which of CUDA's libraries, and which is missing.
  example   return #df.Session{devices = {'cpu:0', 'sim:0'}}:devices()

s:placement(fetches)
  Where the nodes run that the fetches need: {{node =, op =, device =, why =}, …}.
  example   local x = df.device('sim:0', function() return df.placeholder_with_default(1.0):sin() end)
            for _, p in ipairs(df.Session{}:placement(x)) do if p.op == 'Sin' then return p.why end end

s:plans()
  How many plans were compiled so far: one per signature of fetches and feeds.
  example   local x, s = df.float32(2) * 3, df.Session{} s:run(x) s:run(x) return s:plans()

s:native(opts?)
  What became of the loops of its runs as machine code: a line of text for each, with the types
  of its variables, or the reason why it ran as tokens.
  option    code: string = nil  the code of those that were compiled instead: 'llvm' for LLVM's
              assembly language, 'machine' for the machine's
  option    loop: string = nil  of the loop of this name alone
  example   local i = df.while_loop(function(i) return i:lt(9) end, function(i) return i * 2 end, {df.int32(1)})
            local s = df.Session{engine = 'tokens'} s:run(i)
            return s:native()

s:as_default(fn, …)
  df.run, x:eval and so on use it while fn runs; gives what fn gives.
  example   df.Session{}:as_default(function() return df.run(df.float32(2) * 3) end)

-- -------------------------------------------------------------------------------------------------

Graph (graph, g)
  A graph: nodes and the lines that built them. Building more never invalidates what runs.
  field     variables  the list of its variables
  example   local g = df.Graph() return g:as_default(function() return df.float32(2) * 3 end)

g:size()
  How many nodes it has.
  example   local x = df.float32(1) * 2 return df.default_graph():size()

g:finalize()
  What it has is all: to build more is an error from now on, to run it is not. Gives g.
  example   local x = df.float32(2) * 3
            df.default_graph():finalize()
            return pcall(df.add, x, 1), df.run(x)

g:as_default(fn)
  What fn builds goes into it; gives what fn gives.
  example   df.Graph():as_default(function() return df.float32(2) * 3 end)

g:op(name)
  The operation of that name.
  example   df.placeholder('float32', {}, 'x') return df.default_graph():op('x').type

g:output('name:0')
  The output of that name; ':0' may be left out.
  example   df.placeholder('float32', {}, 'x') return df.default_graph():output('x').name

g:ops()
  All operations, in the order they were built.
  example   local x = df.float32(1) * 2 return #df.default_graph():ops()

-- -------------------------------------------------------------------------------------------------

Run (run, h)
  A run in the background, which df.start gives: it can be waited for, cancelled, paused, stepped
  and looked into. Frames go by tags: `while` is a loop, `while:17` its iteration 17,
  `while:17/inner:2` one of a loop inside. Looking changes nothing of what is computed.
  field     session  its Session
  example   local h = df.start(df.float32(2) * 3) return h:wait()

h:value(x, tag?)
  The value that x has there; nil, 'dead' for a dead one. An error when it is not there, or not
  any more.
  example   @paused
            h:step()
            h:step(2, 'iteration')
            h:step()
            return h:value('while/Less')

h:ledger()
  The books of the run at this moment, checked node by node: the tokens that were sent and where they
  are, the inputs that nodes wait for and who sends them. nil when it is over.
  example   @paused
            local books = h:ledger()
            return books.sent == books.ran + books.died + books.live + books.dead

h:stats()
  Counters of this run, as df.stats().
  example   @paused
            h:resume() h:wait()
            return h:stats().iterations

h:whatif({…})
  How long the run, made with {record = true} and over, would take on other simulated devices:
  {seconds =, critical_path = {{op =, iteration =, device =, seconds =}, …}}, by the cost model.
  option    bandwidth: number or string = nil  of their links, such as '10GB/s'
  option    latency: number or string = nil  of their links, such as '5us'
  option    speed: number = nil  1 as the cost model has it
  option    parallel_iterations: int = nil  of all loops
  option    devices: int = nil  the simulated devices are folded to so many
  option    timeline: bool = false  .timeline lists all that takes time, in the order of its beginning: {kind = 'work', 'message' or 'copy' (of
            save = 'swap'), node =, device =, to = (of messages and copies), iteration =, begins =, ends =, bytes =, id =, cause = (what it waited for)}
  example   local x = df.device('sim:0', function() return df.placeholder_with_default(1.0) * 2 end)
            local h = df.Session{clock = 'virtual'}:start(x, {}, {record = true}) h:wait()
            return h:whatif{latency = '1ms'}.seconds > h:stats().seconds

h:wait()
  Waits for it and gives, or raises, what df.run would have.
  example   df.start(df.float32(2) * 3):wait()

h:done()
  Is it over?
  example   local h = df.start(df.float32(2) * 3) h:wait() return h:done()

h:state()
  'running', 'paused' or 'done'.
  example   @paused
            return h:state()

h:cancel()
  Asks it to stop; h:wait() then raises cancelled. Variables are as before or fully assigned.
  example   @paused
            h:cancel()
            return pcall(h.wait, h)

h:pause()
  Pauses it at the next token: where it stands ({op, frame, iteration, tag, dead, reason}), or nil
  when it is over.
  example   @paused
            return h:pause().reason

h:resume()
  Goes on, to the next breakpoint or the end.
  example   @paused
            h:resume()
            return h:wait()

h:step(n = 1, unit = 'token')
  Lets so much happen and says where it stands then, nil when it is over. unit: 'token'; 'node', a
  live one; 'iteration', until the frame is n iterations further; 'frame', until one opens or
  ends.
  example   @paused
            h:step()
            return h:step(2, 'iteration').tag

h:settle(seconds?)
  Waits until it is paused or over, at most so long: where it stands, or nil.
  example   @paused
            h:break_at{op = 'Mul', iteration = 3}
            h:resume()
            return h:settle().tag

h:break_at({…})
  It stops before a token of a node that fits all that is given. Gives a number for h:unbreak.
  option    op: Output or string = nil  the node: an Output, an operation, an op type such as 'Mul',
              or a node name, which may be a pattern
  option    name: string = nil  a node name
  option    line: int or string = nil  a Lua line: 12, or 'train.lua:12'
  option    frame: string = nil  a loop's name, or a tag such as 'while:17'
  option    iteration: int = nil  of that loop, from 0
  option    dead: bool = false  a dead token only
  option    nan: bool = false  after a node whose result holds a NaN
  option    inf: bool = false  after a node whose result holds an infinity
  option    when: function = nil  asked with the value of a node that fits; stops where it says true
  example   @paused
            h:break_at{op = 'Mul', when = function(v) return v > 5 end}
            h:resume()
            return h:settle().iteration

h:unbreak(n?)
  Takes a breakpoint away, all of them without a number: was there one?
  example   @paused
            local n = h:break_at{op = 'Mul'}
            return h:unbreak(n)

h:frames()
  The frames alive now, parents first; tostring is their tree. Each has name, tag, where, parent,
  children, first, next, in_flight, limit, live, dead, running, waiting, iterations, stacks and
  devices, those that take part in it.
  example   @paused
            h:step()
            h:step(2, 'iteration')
            return h:frames()[2].first

h:tokens(x?)
  The tokens alive now, of all nodes or of x: {op, tag, state = 'ready', 'running', 'waiting' or
  'partial', dead, missing}.
  example   @paused
            return h:tokens()[1].state

h:stacks()
  TensorArrays and saved values alive now: {name, saved, depth, size, bytes, dtype, where, frame}.
  example   @paused
            return #h:stacks()

h:history(n = 20)
  The last n tokens that ran, newest first: {op, tag, dead}.
  example   @paused
            h:step(3)
            return #h:history(2)

h:back(n = 1)
  The token that ran n before, as in h:history, with its .value where that is still there; nothing
  runs again.
  example   @paused
            h:step(3)
            return h:back(2).op.name

h:why(x, tag?)
  A text: the value of x there and of what it was computed from, or the Switch that made it dead.
  example   @paused
            h:step()
            h:step(2, 'iteration')
            h:step()
            return (h:why('while/Less'):match('^[^\n]*'))

h:whynot(x, tag?)
  A text: what x still waits for there, and what that waits for.
  example   @paused
            h:step()
            h:step(2, 'iteration')
            return (h:whynot('while/Less'):match('%s*([^\n]*)$'))

-- -------------------------------------------------------------------------------------------------

Optimizer (optimizer, o)
  An optimizer: df.train.SGD, df.train.Adam and their like make one.
  example   local w = df.Variable(5.0)
            df.run(df.train.SGD(0.1):minimize(w * w))
            return df.run(w)

o:minimize(loss, {…})
  The operation that does one step: compute_gradients, then apply_gradients. A list of variables
  may stand in the place of the options.
  option    variables: list = nil  what is trained; all trainable variables otherwise
  option    var_list: list = nil  TensorFlow's name of variables
  option    global_step: Variable = nil  1 is added to it
@name
  example   local w = df.Variable(5.0)
            df.run(df.train.SGD(0.1):minimize(w * w))
            return df.run(w)

o:compute_gradients(loss, vars?)
  A list of {gradient, variable}; false where the loss does not depend on the variable.
  example   local w = df.Variable(5.0) return df.train.SGD(0.1):compute_gradients(w * w)[1][1]

o:apply_gradients(list, {…})
  The operation that does one step with a list of {gradient, variable}. The step counter and a name
  may stand by place, too: o:apply_gradients(list, step, 'train').
  option    global_step: Variable = nil  1 is added to it
  option    after: Output = nil  the step waits for it
@name
  example   local w = df.Variable(5.0)
            df.run(df.train.SGD(0.1):apply_gradients{{df.float32(2), w}})
            return df.run(w)

o:variables()
  The optimizer's own variables, such as momenta.
  example   local o, w = df.train.Momentum(0.1), df.Variable(5.0) o:minimize(w * w)
            return #o:variables()

o:get_slot(v, name)
  The variable that the optimizer keeps beside v, such as 'momentum' or 'm'; nil before
  apply_gradients made it.
  example   local o, w = df.train.Momentum(0.1), df.Variable(5.0) o:minimize(w * w)
            return o:get_slot(w, 'momentum').name

o:get_slot_names()
  The names of what the optimizer keeps beside its variables.
  example   local o, w = df.train.Adam(0.1), df.Variable(5.0) o:minimize(w * w)
            return o:get_slot_names()

-- -------------------------------------------------------------------------------------------------

IndexedSlices (indexed_slices, s)
  Rows `indices` of a tensor are `values`, the others are zero: a sparse gradient. It turns dense
  wherever an Output is needed.
  field     values  the rows, an Output
  field     indices  their numbers, an Output
  field     dense_shape  the shape of the whole, or nil
  example   local v = df.Variable{1.0, 2.0}
            return gradients(df.embedding_lookup(v, {0, 0}), v).values
]==] .. require 'dflow.docs.types_training'

--- By name: {what it is, example, kind =, letter =, fields =, methods = {[name] = page}}.
local M = {}
local current
for _, page in ipairs(pages.read(text, macros)) do
  local name, kind, letter = page[1]:match('^(%u%w+) %(([%w_]+), (%l+)%)$')
  if name then
    current = { page[2], page[3], kind = kind, letter = letter, fields = page.fields, methods = {} }
    M[name] = current
  else
    current.methods[page[1]:match('^%l+:([%w_]+)')] = page
  end
end

return M
