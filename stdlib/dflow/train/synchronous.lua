--- df.train.synchronous: replicas that compute gradients of the same weights, a chief that waits for enough of them and
-- takes the step, all of it loops and queues of one graph (Abadi et al., OSDI 2016, section 4.4; Chen et al., 2016).
--
-- Each replica is a while_loop: it waits for a token, reads the step counter, then the weights, and puts its gradients,
-- with that count, into a queue. The chief is a while_loop: it gives out tokens, takes gradients until enough of the
-- present step came, drops those that are late, steps, counts. What a replica read while the chief was stepping bears
-- an old count, and is dropped with the rest.
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local control = require 'dflow.front.control'
local variable = require 'dflow.front.variable'
local queue = require 'dflow.front.queue'
local ops = require 'dflow.front.ops'
local layer = require 'dflow.nn.layer'
local optimizer = require 'dflow.train.optimizer'
local race = require 'dflow.train.race'

local M = {}
local f = ops.functions
local what = 'synchronous'

--- Puts in {tag, loss, gradients…} of one replica's look at the weights. Returns the variables, found at the first
-- look.
local function look(o, replica, results)
  local now = o.step:value()
  return graph.control_dependencies({ now }, function()
    local loss = o.fn(replica, now)
    if convert.typed(loss) == nil then
      errors.bad('%s: the function returned %s, a scalar loss is expected', what, errors.describe(loss))
    end
    loss = convert.to_output(loss)
    o.variables = o.variables or optimizer.trainable(loss.graph)
    local values = { now, f.cast(loss, 'float32') }
    for i, pair in ipairs(o.optimizer:compute_gradients(loss, o.variables)) do
      if not pair[1] then
        errors.bad('%s: the loss of replica %d does not depend on the variable %s', what, replica, pair[2].name)
      end
      values[i + 2] = convert.to_output(pair[1])
    end
    return results(values)
  end)
end

--- One replica: tokens are step numbers; one below 0 ends it. Gives how often it looked.
local function replica_loop(o, replica)
  local tokens = o.tokens[replica]
  local first = tokens:dequeue()
  local _, looks = control.while_loop(function(token) return token:ge(0) end, function(_, n)
    local put = look(o, replica, function(values)
      local counted = graph.control_dependencies(values, function()
        return o.looks and o.looks:scatter_add({ replica - 1 }, { 1 })
      end)
      return graph.control_dependencies({ counted }, function() return o.results(replica, values) end)
    end)
    local left = graph.control_dependencies({ put }, function() return o.step:value():lt(o.steps) end)
    local token = control.cond(left, function() return tokens:dequeue() end, function() return f.int64(-1) end)
    return token, n + 1
  end, { first, f.int32(0) }, { name = ('replica_%d'):format(replica), parallel_iterations = 1, back_prop = false })
  return looks
end

local function chief_loop(o)
  return control.while_loop(function(s) return s.step:lt(o.steps) end, function(s)
    local out = {}
    for r = 1, o.replicas do out[r] = o.tokens[r]:enqueue(s.step) end
    return graph.control_dependencies(out, function()
      local sums, loss, late = nil, f.float32(0), s.late
      for k = 1, o.replicas - o.backup do
        local got = race.fresh(o, s.step, function() return o.take(k) end)
        for i, g in ipairs(got.grads) do got.grads[i] = sums and sums[i] + g or g end
        sums, loss, late = got.grads, loss + got.loss, late + got.late
      end
      local pairs_list, n = {}, o.replicas - o.backup
      for i, v in ipairs(o.variables) do pairs_list[i] = { sums[i] / n, v } end
      local stepped = o.optimizer:apply_gradients(pairs_list)
      local counted = graph.control_dependencies({ stepped }, function() return o.step:assign_add(1) end)
      return { step = counted, loss = loss / n, late = late }
    end)
  end, { step = f.int64(0), loss = f.float32(0), late = f.int32(0) },
  { name = 'chief', parallel_iterations = 1, back_prop = false })
end

--- df.train.synchronous(fn, {replicas = 2, backup = 0, steps =, optimizer =, variables =, name}): trains by replicas
-- that step together.
-- @param fn         function(replica, step) -> the loss of that replica (1, 2, …) in that step (int64), built once for
--                   each; its data are its own affair: rows of a tensor, a queue. df.device in it puts replicas on
--                   devices
-- @param backup     so many of the replicas may be late in each step: the chief takes the gradients of those that come
--                   first, and drops the others when they come. A replica that still waits after the last step, for
--                   whatever never comes, is cancelled. With 0 gradients are added in the order of the replicas, so
--                   that each run gives the same
-- @param variables  nil: all trainable variables of the first replica's graph
-- @return           {steps = int64 [] taken, loss = float32 [], the mean of the last step, late = int32 [] gradients
--                   that were dropped, looks = int32 [replicas], how often each had computed gradients when the last
--                   step was taken}. Fetch it, all or a part, to train. An error in a replica ends all
function M.synchronous(fn, opts)
  if type(fn) ~= 'function' then
    errors.bad('%s takes a function(replica, step) that builds a loss, not %s', what, errors.describe(fn))
  end
  opts = errors.options(opts, what, { 'replicas', 'backup', 'steps', 'optimizer', 'variables', 'name' })
  local o = { fn = fn, replicas = layer.whole(opts.replicas or 2, what, 'replicas'),
              backup = layer.whole(opts.backup or 0, what, 'backup', 0),
              optimizer = opts.optimizer }
  if o.backup >= o.replicas then
    errors.bad('%s: backup, %d, must be less than the %d replicas', what, o.backup, o.replicas)
  end
  if opts.steps == nil then errors.bad('%s: steps is missing', what) end
  if type(opts.steps) == 'number' then layer.whole(opts.steps, what, 'steps', 0) end
  if type(o.optimizer) ~= 'table' or type(o.optimizer.apply_gradients) ~= 'function' then
    errors.bad('%s: the optimizer is %s; one such as df.train.SGD(0.1) is expected', what, errors.describe(o.optimizer))
  end
  if opts.variables ~= nil then o.variables = optimizer.check_variables(opts.variables, what) end
  local g = convert.graph_of(opts.steps) or graph.current()
  return graph.with(g, function()
    o.steps = type(opts.steps) == 'number' and f.int64(opts.steps) or f.cast(opts.steps, 'int64')
    local name = opts.name or what
    o.step = variable.new(f.int64(0), { name = name .. '/step', trainable = false })
    o.tokens = {}
    for r = 1, o.replicas do
      o.tokens[r] = queue.FIFOQueue(-1, 'int64', { shapes = { {} }, name = ('%s/tokens_%d'):format(name, r) })
    end
    local results = {}
    local function queue_for(r, values)
      local k = o.backup == 0 and r or 1
      if not results[k] then
        local kinds = {}
        for i, v in ipairs(values) do kinds[i] = v.dtype end
        results[k] = queue.FIFOQueue(-1, kinds, { name = ('%s/gradients_%d'):format(name, k) })
      end
      return results[k]
    end
    o.results = function(r, values) return queue_for(r, values):enqueue(graph.unpack(values)) end
    o.take = function(k) return results[o.backup == 0 and k or 1]:dequeue() end
    local begun = { o.step:assign(f.int64(0)) }
    if o.backup > 0 then
      o.looks = variable.new(f.zeros({ o.replicas }, 'int32'), { name = name .. '/looks', trainable = false })
      begun[2] = o.looks:assign(f.zeros({ o.replicas }, 'int32'))
    end
    return graph.control_dependencies(begun, function()
      local looks = {}
      for r = 1, o.replicas do looks[r] = replica_loop(o, r) end
      local last = chief_loop(o)
      -- those that wait for a token after the last step
      local ended = graph.control_dependencies({ last.step }, function()
        local list = {}
        for r = 1, o.replicas do list[r] = o.tokens[r]:enqueue(f.int64(-1)) end
        return list
      end)
      looks = f.stack(looks)
      if o.looks then
        looks = race.first_of(graph.control_dependencies(ended, function() return o.looks:value() end), looks)
      end
      ended[#ended + 1] = looks
      return graph.control_dependencies(ended, function()
        return { steps = f.identity(last.step), loss = f.identity(last.loss), late = f.identity(last.late),
                 looks = f.identity(looks) }
      end)
    end)
  end)
end

return M
