--- The pages of graphs, sessions and runs. Text for pages.lua, which docs/types.lua reads with its own.
return [==[
Session (session, s)
  A session runs a graph. It holds the values of variables and the compiled plans. df.Session
  makes one; df.run uses the default session.
  field     graph  the Graph that it runs
  example   df.Session{threads = 1}:run(df.float32(2) * 3)

s:close()
  Frees the session's variables and plans. A closed session cannot run.
  example   local s = df.Session{} s:close() return tostring(s)

s:run(fetches, feeds?, {…})
  The same as df.run, in this session. s(fetches, feeds) is short for it.
@run
  example   df.Session{}:run(df.float32(2) * 3)

s:start(fetches, feeds?, {…})
  The same as df.start, in this session. Returns a Run.
@run
  example   df.Session{}:start(df.float32(2) * 3):wait()

s:init()
  Marks the session's variables as uninitialised. The next run that needs one initialises it.
  example   local v, s = df.Variable(1.0), df.Session{} s:run(v:assign(5)) s:init()
            return s:run(v)

s:position()
  Returns the position of each random op: a table from the op's name to the number of runs in
  which it has drawn. Ops count separately: a run that reads a variable, or evaluates a model without
  its dropout, does not change what other ops draw next.
  example   local s, x = df.Session{}, df.random_uniform({2}, {name = 'x'}) s:run(x) return s:position().x

s:seek(n)
  Sets the position of the random ops to n, a result of s:position(), so that the session draws what
  that session would have drawn. A number sets the position of every op.
  example   local s = df.Session{} s:seek(7) return s:position()[1]

s:stats()
  Returns the session's counters; df.stats lists them.
  example   local s = df.Session{} s:run(df.float32(2) * 3) return s:stats().runs

s:devices()
  Returns the devices: {{name =, kind =, memory = {in_use =, peak =, limit =}}, …}, in bytes, the host first.
  A GPU also has called (its model), launches, copies_in, copies_out, copies_across (from other GPUs), and libraries:
  lines that name the CUDA library of each kind of op, and the libraries that are missing.
  example   return #df.Session{devices = {'cpu:0', 'sim:0'}}:devices()

s:placement(fetches)
  Returns the device of each node that the fetches need, and why: {{node =, op =, device =, why =}, …}.
  example   local x = df.device('sim:0', function() return df.placeholder_with_default(1.0):sin() end)
            for _, p in ipairs(df.Session{}:placement(x)) do if p.op == 'Sin' then return p.why end end

s:plans()
  Returns the number of compiled plans. There is one for each signature of fetches and feeds.
  example   local x, s = df.float32(2) * 3, df.Session{} s:run(x) s:run(x) return s:plans()

s:native(opts?)
  Returns a line of text for each loop and function that the session ran: the types of a compiled
  loop's variables, or the reason why it ran as tokens.
  option    code: string = nil  returns the code of compiled loops instead: 'llvm' for LLVM's
              assembly language, 'machine' for the machine's
  option    loop: string = nil  only the loop of this name
  example   local i = df.while_loop(function(i) return i:lt(9) end, function(i) return i * 2 end, {df.int32(1)})
            local s = df.Session{engine = 'tokens'} s:run(i)
            return s:native()

s:as_default(fn, …)
  Makes this the default session while fn runs: df.run, x:eval and others use it. Returns what fn returns.
  example   df.Session{}:as_default(function() return df.run(df.float32(2) * 3) end)


Graph (graph, g)
  A graph holds nodes and the Lua lines that built them. Adding nodes never invalidates a plan or a run.
  field     variables  the list of the graph's variables
  example   local g = df.Graph() return g:as_default(function() return df.float32(2) * 3 end)

g:size()
  Returns the number of nodes.
  example   local x = df.float32(1) * 2 return df.default_graph():size()

g:finalize()
  Makes the graph read-only: adding a node is an error from now on, running it is not. Returns g.
  example   local x = df.float32(2) * 3
            df.default_graph():finalize()
            return pcall(df.add, x, 1), df.run(x)

g:as_default(fn)
  Makes g the default graph while fn runs, so that fn adds nodes to g. Returns what fn returns.
  example   df.Graph():as_default(function() return df.float32(2) * 3 end)

g:op(name)
  Returns the operation of that name.
  example   df.placeholder('float32', {}, 'x') return df.default_graph():op('x').type

g:output('name:0')
  Returns the output of that name; ':0' may be left out.
  example   df.placeholder('float32', {}, 'x') return df.default_graph():output('x').name

g:ops()
  Returns all operations, in the order in which they were built.
  example   local x = df.float32(1) * 2 return #df.default_graph():ops()


Run (run, h)
  A run in the background, returned by df.start. It can be waited for, cancelled, paused, stepped and
  inspected. A tag names a frame: `while` is a loop, `while:17` its iteration 17, `while:17/inner:2`
  an iteration of a loop inside. Inspecting a run does not change what it computes.
  field     session  the Session that runs it
  example   local h = df.start(df.float32(2) * 3) return h:wait()

h:value(x, tag?)
  Returns the value of x in the iteration that tag names; nil and 'dead' for a dead token. A value that
  is not computed yet, or was freed, is an error.
  example   @paused
            h:step()
            h:step(2, 'iteration')
            h:step()
            return h:value('while/Less')

h:ledger()
  Counts the run's tokens, node by node, and checks the sums: tokens sent, tokens consumed, inputs that
  nodes wait for and the nodes that send them. Returns nil when the run is over.
  example   @paused
            local books = h:ledger()
            return books.sent == books.ran + books.died + books.live + books.dead

h:stats()
  Returns the counters of this run; df.stats lists them.
  example   @paused
            h:resume() h:wait()
            return h:stats().iterations

h:whatif({…})
  Predicts the time of a finished run, made with {record = true}, on other simulated devices, by the cost model. Returns
  {seconds =, critical_path = {{op =, iteration =, device =, seconds =}, …}, places = 'kept' or 'anew'}.
  option    bandwidth: number or string = nil  of the links, such as '10GB/s'
  option    latency: number or string = nil  of the links, such as '5us'
  option    speed: number = nil  of the devices; 1 is the cost model's
  option    parallel_iterations: int = nil  the window of all loops
  option    devices: int = nil  the number of simulated devices to which the run's devices are mapped
  option    replace: bool = false  true: places nodes again, as a session with those devices would; else they keep their devices
  option    timeline: bool = false  .timeline lists work, messages and copies (of save = 'swap') in the order of their beginning: {kind = 'work',
            'message' or 'copy', node =, device =, to = (of messages and copies), iteration =, begins =, ends =, bytes =, flops = (of work), id =, cause = (what it waited for)}
  example   local x = df.device('sim:0', function() return df.placeholder_with_default(1.0) * 2 end)
            local h = df.Session{clock = 'virtual'}:start(x, {}, {record = true}) h:wait()
            return h:whatif{latency = '1ms'}.seconds > h:stats().seconds

h:wait()
  Waits until the run is over. Returns or raises what df.run would.
  example   df.start(df.float32(2) * 3):wait()

h:done()
  Returns true when the run is over.
  example   local h = df.start(df.float32(2) * 3) h:wait() return h:done()

h:state()
  Returns 'running', 'paused' or 'done'.
  example   @paused
            return h:state()

h:cancel()
  Cancels the run; h:wait() then raises cancelled. Each variable is unchanged or fully assigned.
  example   @paused
            h:cancel()
            return pcall(h.wait, h)

h:pause()
  Pauses the run before its next token. Returns that token, {op, frame, iteration, tag, dead, reason},
  or nil when the run is over.
  example   @paused
            return h:pause().reason

h:resume()
  Resumes the run, to the next breakpoint or its end.
  example   @paused
            h:resume()
            return h:wait()

h:step(n = 1, unit = 'token')
  Runs n units and pauses again. Returns the next token, or nil when the run is over. The unit is
  'token'; 'node', a live token; 'iteration', of the current frame; or 'frame', until a frame begins
  or ends.
  example   @paused
            h:step()
            return h:step(2, 'iteration').tag

h:settle(seconds?)
  Waits until the run is paused or over, at most for so many seconds. Returns the next token, or nil.
  example   @paused
            h:break_at{op = 'Mul', iteration = 3}
            h:resume()
            return h:settle().tag

h:break_at({…})
  Pauses the run before each token that matches all given options. Returns a number for h:unbreak.
  option    op: Output or string = nil  the node: an Output, an operation, an op type such as 'Mul',
              or a node name, which may be a pattern
  option    name: string = nil  a node name
  option    line: int or string = nil  a Lua line: 12, or 'train.lua:12'
  option    frame: string = nil  a loop's name, or a tag such as 'while:17'
  option    iteration: int = nil  of that loop, from 0
  option    dead: bool = false  a dead token only
  option    nan: bool = false  after a node whose result holds a NaN
  option    inf: bool = false  after a node whose result holds an infinity
  option    when: function = nil  called with the value of a node that matches; the run pauses where it returns true
  example   @paused
            h:break_at{op = 'Mul', when = function(v) return v > 5 end}
            h:resume()
            return h:settle().iteration

h:unbreak(n?)
  Removes breakpoint n, or all of them. Returns whether there was one.
  example   @paused
            local n = h:break_at{op = 'Mul'}
            return h:unbreak(n)

h:frames()
  Returns the live frames, parents first; tostring gives a tree. Each has name, tag, where, parent,
  children, first, next, in_flight, limit, live, dead, running, waiting, iterations, stacks and
  devices, those that take part in the frame.
  example   @paused
            h:step()
            h:step(2, 'iteration')
            return h:frames()[2].first

h:tokens(x?)
  Returns the live tokens of all nodes or of x: {op, tag, state, dead, missing} each. The state is
  'ready', 'running', 'waiting' or 'partial'.
  example   @paused
            return h:tokens()[1].state

h:stacks()
  Returns the TensorArrays and saved values that exist: {name, saved, depth, size, bytes, dtype, where,
  frame} each.
  example   @paused
            return #h:stacks()

h:history(n = 20)
  Returns the last n tokens that ran, newest first: {op, tag, dead} each.
  example   @paused
            h:step(3)
            return #h:history(2)

h:back(n = 1)
  Returns the token that ran n tokens earlier, as h:history does, with its .value where that is kept.
  It runs nothing again.
  example   @paused
            h:step(3)
            return h:back(2).op.name

h:why(x, tag?)
  Returns a text: the value of x in that iteration and its inputs' values, or the Switch that made it dead.
  example   @paused
            h:step()
            h:step(2, 'iteration')
            h:step()
            return (h:why('while/Less'):match('^[^\n]*'))

h:whynot(x, tag?)
  Returns a text: the inputs that x waits for in that iteration, and what those wait for.
  example   @paused
            h:step()
            h:step(2, 'iteration')
            return (h:whynot('while/Less'):match('%s*([^\n]*)$'))

]==]
