--- Queue runners and their coordinator: what fills queues while a model trains, in the background.
--
-- A runner is a while_loop in the graph, started as a run of its own; no Lua is needed to keep it going. When it ends,
-- however it ends, its queue is closed, so that what waits for elements is told; what went wrong in a runner is what a
-- run through the coordinator raises then.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local control = require 'dflow.front.control'
local queue = require 'dflow.front.queue'
local session = require 'dflow.front.session'
local variable = require 'dflow.front.variable'
local ops = require 'dflow.front.ops'
local layer = require 'dflow.nn.layer'

local M = {}
local f = ops.functions
local Runner, Coordinator = { __name = 'dflow.QueueRunner' }, { __name = 'dflow.Coordinator' }
local methods = {}
Coordinator.__index = methods
Runner.__tostring = function(r)
  return ('QueueRunner of %s, %d loop%s'):format(r.queue.name, #r.loops, #r.loops == 1 and '' or 's')
end
Coordinator.__tostring = function(c)
  return ('Coordinator of %d loop%s'):format(#c.running, #c.running == 1 and '' or 's')
end

-- ---- runners --------------------------------------------------------------------------------------------------------
--- df.train.QueueRunner(queue, fn, {loops = 1, steps =, name}): what fills a queue: fn builds q:enqueue(…), and a loop
-- runs that again and again.
-- @param fn     function(i) -> the operation that enqueues, or a scalar bool: false ends the loop. i is an int32 Output
--               that counts from 0
-- @param loops  so many loops run at once
-- @param steps  how often each goes round; nil: until the queue is closed, or what fn takes from ends (out_of_range)
-- When its loops have ended, the queue is closed: what is in it may still be taken.
function M.QueueRunner(q, fn, opts)
  local what = 'QueueRunner'
  if getmetatable(q) ~= queue.Queue then errors.bad('%s takes a queue first, not %s', what, errors.describe(q)) end
  if type(fn) ~= 'function' then
    errors.bad('%s takes a function that builds an enqueue, not %s', what, errors.describe(fn))
  end
  opts = errors.options(opts, what, { 'loops', 'steps', 'name' })
  if opts.steps ~= nil and convert.typed(opts.steps) == nil then layer.whole(opts.steps, what, 'steps', 0) end
  local r = setmetatable({ queue = q, loops = {} }, Runner)
  local g = q.graph
  graph.with(g, function()
    local most = opts.steps ~= nil and (type(opts.steps) == 'number' and opts.steps or f.cast(opts.steps, 'int32'))
    for k = 1, layer.whole(opts.loops or 1, what, 'loops') do
      local last = control.while_loop(function(i, more) return most and more:logical_and(i:lt(most)) or more end,
                                      function(i)
        local more = fn(i)
        if convert.typed(more) ~= nil and getmetatable(more) ~= graph.Operation then
          more = convert.to_output(more, dtypes.BOOL, g, what)
          if graph.dtype(more) ~= dtypes.BOOL then
            errors.bad('%s: the function gives %s; an operation or a bool is expected', what, more.dtype)
          end
        else
          more = f.constant(true)
        end
        return i + 1, more
      end, { f.int32(0), f.constant(true) },
      { name = opts.name or 'runner', parallel_iterations = 1, back_prop = false })
      r.loops[k] = last
    end
    r.left = variable.new(f.int32(#r.loops), { name = q.name .. '/loops_left', trainable = false })
    -- What runs when a loop has ended: the last one closes the queue.
    local closed = control.cond(r.left:assign_sub(1):le(0), function()
      return graph.control_dependencies({ q:close() }, function() return f.constant(true) end)
    end, function() return f.constant(false) end)
    r.ended = graph.control_dependencies({ closed }, function() return f.no_op() end)
    r.cancel, r.closed = q:close{ cancel_pending = true }, q:is_closed()
  end)
  g.queue_runners = g.queue_runners or {}
  table.insert(g.queue_runners, r)
  return r
end

-- ---- the coordinator ------------------------------------------------------------------------------------------------
--- df.train.Coordinator(): starts queue runners, and sees to it that all end together.
function M.Coordinator(opts)
  errors.options(opts, 'Coordinator', {})
  return setmetatable({ running = {}, stopping = false }, Coordinator)
end

--- c:start(runners?, {session}): starts the loops of these runners, or of all of the session's graph. Returns how many
-- were started.
function methods.start(c, list, opts)
  opts = errors.options(opts, 'Coordinator:start', { 'session' })
  if getmetatable(list) == Runner then list = { list } end
  if opts.session ~= nil and getmetatable(opts.session) ~= session.Session then
    errors.bad('Coordinator:start: session is %s, a Session is expected', errors.describe(opts.session))
  end
  local s = opts.session or session.default(list and list[1] and list[1].queue.graph or graph.current())
  list = list or s.graph.queue_runners or {}
  if #list == 0 then errors.bad('start: there are no queue runners') end
  local n = 0
  for i, r in ipairs(list) do
    if getmetatable(r) ~= Runner then
      errors.bad('start: element %d is %s, a QueueRunner is expected', i, errors.describe(r))
    end
    r.left:load(#r.loops, s)
    for _, loop in ipairs(r.loops) do
      c.running[#c.running + 1] = { handle = s:start(loop, nil, { finally = r.ended }), runner = r, session = s }
      n = n + 1
    end
  end
  return n
end

--- Ends that are no faults: the source is at its end, or the queue was closed.
local function is_end(e) return errors.is(e) and (e.code == 'out_of_range' or e.code == 'cancelled') end

--- What a loop ended with; nil while it runs and where it went well.
local function fault_of(one)
  if one.ok == nil and one.handle:done() then
    one.ok, one.error = pcall(one.handle.wait, one.handle)
    if not one.ok and not is_end(one.error) then one.fault = one.error end
  end
  return one.fault
end

local function first_fault(c)
  for _, one in ipairs(c.running) do
    local e = fault_of(one)
    if e and not c.fault then c.fault = e end
  end
  return c.fault
end

--- c:should_stop(): was the end asked for, or did a runner fail?
function methods.should_stop(c) return c.stopping or first_fault(c) ~= nil end

--- c:request_stop(error?): closes the runners' queues, so that all loops end. An error is what c:join raises.
function methods.request_stop(c, e)
  if e ~= nil and not is_end(e) then c.fault = c.fault or e end
  if c.stopping then return end
  c.stopping = true
  local closed = {}
  for _, one in ipairs(c.running) do
    if not closed[one.runner] then
      closed[one.runner] = true
      pcall(one.session.run, one.session, one.runner.cancel)
    end
  end
end

--- c:run(fetches, feeds?, opts?): as the session's run; where that fails because a runner did, the runner's error is
--- raised. `out_of_range` is the end of the data.
function methods.run(c, fetches, feeds, opts)
  local s = c.running[1] and c.running[1].session or session.default()
  local ok, e = first_fault(c) == nil, nil
  if ok then ok, e = pcall(s.run, s, fetches, feeds, opts) end
  if ok then return e end
  for _, one in ipairs(c.running) do              -- a loop that has closed its queue is about to say how it ended
    if not one.handle:done() and one.session:run(one.runner.closed) then pcall(one.handle.wait, one.handle) end
  end
  local fault = first_fault(c)
  if fault then
    methods.request_stop(c)
    error(fault, 0)
  end
  error(e, 0)
end

--- c:join{timeout = 60}: waits until all loops have ended, after asking for that; raises what went wrong in one of
--- them. Loops that do not end within the timeout, which is that of all together, are cancelled, and that is an error
-- of code deadline_exceeded.
function methods.join(c, opts)
  opts = errors.options(opts, 'Coordinator:join', { 'timeout' })
  local timeout = layer.number(opts.timeout, 'join', 'timeout', 60)
  methods.request_stop(c)
  local late, until_then = nil, core.clock() + timeout
  for _, one in ipairs(c.running) do
    while not one.handle:done() and core.clock() < until_then do one.handle:settle(0.05) end
    if not one.handle:done() then
      late = late or one
      one.handle:cancel()
      pcall(one.handle.wait, one.handle)
    end
    fault_of(one)
  end
  local fault = first_fault(c)
  c.running = {}
  if fault then error(fault, 0) end
  if late then
    errors.raise('deadline_exceeded', 'join: a loop that fills %s did not end within %g seconds',
                 late.runner.queue.name, timeout)
  end
end

errors.with_colons(methods, Coordinator, 'a coordinator', 'c')

--- df.train.start_queue_runners{coordinator =, session =}: a coordinator that has started all runners of the session's
-- graph.
function M.start_queue_runners(opts)
  opts = errors.options(opts, 'start_queue_runners', { 'coordinator', 'session' })
  if opts.coordinator ~= nil and getmetatable(opts.coordinator) ~= Coordinator then
    errors.bad('start_queue_runners: coordinator is %s, a Coordinator is expected', errors.describe(opts.coordinator))
  end
  local c = opts.coordinator or M.Coordinator()
  c:start(nil, { session = opts.session })
  return c
end

return M
