--- The pages of graphs, sessions and runs. Text for pages.lua, which docs/types.lua reads with its own.
return [==[
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
  are, the inputs that nodes wait for and what sends them. nil when it is over.
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
  {seconds =, critical_path = {{op =, iteration =, device =, seconds =}, …}, places = 'kept' or 'anew'}, by the cost model.
  option    bandwidth: number or string = nil  of their links, such as '10GB/s'
  option    latency: number or string = nil  of their links, such as '5us'
  option    speed: number = nil  1 as the cost model has it
  option    parallel_iterations: int = nil  of all loops
  option    devices: int = nil  the simulated devices are folded to so many
  option    replace: bool = false  nodes are placed anew, as a session with those devices would; else they stay where the run had them
  option    timeline: bool = false  .timeline lists all that takes time, in the order of its beginning: {kind = 'work', 'message' or 'copy' (of
            save = 'swap'), node =, device =, to = (of messages and copies), iteration =, begins =, ends =, bytes =, flops = (of work), id =, cause = (what it waited for)}
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

]==]
