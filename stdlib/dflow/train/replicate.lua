--- df.train.replicate: one loss on each of several devices, and one step that takes the mean of their gradients.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local places = require 'dflow.front.devices'
local ops = require 'dflow.front.ops'
local queue = require 'dflow.front.queue'
local variable = require 'dflow.front.variable'
local layer = require 'dflow.nn.layer'
local optimizers = require 'dflow.train.optimizer'
local race = require 'dflow.train.race'

local M = {}
local f = ops.functions

--- The names of the devices: of ranks 0 … n - 1, or as they are given.
local function devices_of(v)
  if type(v) == 'number' and v % 1 == 0 and v >= 1 then
    local list, most = {}, core.cluster_most()
    if v > most then errors.bad('replicate: a cluster has 1 to %d ranks, not %.0f', most, v) end
    for rank = 0, v - 1 do list[rank + 1] = ('/rank:%d/%s'):format(rank, places.names()[1]) end
    return list
  end
  if type(v) ~= 'table' or getmetatable(v) ~= nil or #v == 0 then
    errors.bad("replicate takes a number of ranks or a list of devices such as {'sim:0', '/rank:1/sim:0'}, not %s",
               errors.describe(v))
  end
  for k = 1, #v do
    if type(v[k]) ~= 'string' then errors.bad('replicate: device %d is a name, not %s', k, errors.describe(v[k])) end
  end
  return v
end

--- The loss of each device. All have the same variables: those that were there before, or that the first made.
local function losses_of(devices, fn)
  local losses, count = {}, nil
  for k, device in ipairs(devices) do
    local loss = graph.device(device, function() return fn(k) end)
    if convert.typed(loss) == nil then
      errors.bad('replicate: the function returned %s, a scalar loss is expected', errors.describe(loss))
    end
    losses[k] = convert.to_output(loss)
    local now = #optimizers.trainable(losses[k].graph)
    if count and now > count then
      errors.bad('replicate: fn(%d) made %d more trainable variables; replicas share their weights, so make layers '
                 .. 'and variables before replicate',
                 k, now - count)
    end
    count = now
  end
  return losses
end

--- {gradients by variable} of each device, computed where the loss is.
local function gradients_of(devices, losses, optimizer, vars)
  local grads = {}
  for k, device in ipairs(devices) do
    grads[k] = graph.device(device, function()
      local pairs_list = optimizer:compute_gradients(losses[k], vars)
      for _, pair in ipairs(pairs_list) do
        if not pair[1] then
          errors.bad('replicate: the loss of device %d does not depend on the variable %s', k, pair[2].name)
        end
        pair[1] = convert.to_output(pair[1])
      end
      return pairs_list
    end)
  end
  return grads
end

--- The mean of what the devices say of variable i, where the variable is.
local function mean_of(grads, i)
  local list = {}
  for k, of in ipairs(grads) do list[k] = of[i][1] end
  return graph.colocate_with(grads[1][i][2], function()
    return f.add_n(list) / f.cast(#list, list[1].dtype)
  end)
end

--- Loss and step of all devices but the slowest `backup`. All put their gradients into a queue, where the variables
-- are, and the step takes as many as it wants, in the order in which they come. What it is done without belongs to no
-- fetch any more, so the run ends, and what had been put in late bears the count of a step that is over.
local function without_slowest(losses, grads, backup, optimizer)
  local home, n = grads[1][1][2], #losses - backup
  local vars, types = {}, { 'int64', 'float32' }
  for i, pair in ipairs(grads[1]) do vars[i], types[i + 2] = pair[2], pair[1].dtype end
  return graph.colocate_with(home, function()
    local count = variable.new(f.int64(0), { name = 'replicated_steps', trainable = false })
    local q = queue.FIFOQueue(-1, types, { name = 'replicated_gradients' })
    local now, put, sums, loss = count:value(), {}, nil, nil
    for k in ipairs(losses) do
      local values = {}
      for i, pair in ipairs(grads[k]) do values[i] = pair[1] end
      put[k] = q:enqueue(now, f.cast(losses[k], 'float32'), (table.unpack or unpack)(values))
    end
    for _ = 1, n do
      local got = race.fresh({ variables = vars }, now, function() return q:dequeue() end)
      for i, g in ipairs(got.grads) do got.grads[i] = sums and sums[i] + g or g end
      sums, loss = got.grads, loss and loss + got.loss or got.loss
    end
    local means = {}
    for i, v in ipairs(vars) do means[i] = { sums[i] / n, v } end
    local stepped = optimizer:apply_gradients(means)
    local done = graph.control_dependencies({ stepped }, function() return count:assign_add(1) end)
    --- x as soon as it is there; the devices compute for it, and those that are late are not waited for.
    local function early(x)
      put[#losses + 1] = x
      local late = graph.control_dependencies(put, function() return f.identity(x) end)
      return race.first_of(x, late)
    end
    return early(loss / n), early(done)
  end)
end

--- replicate(n or devices, fn, {optimizer =, backup = 0, mode = 'sync'}): {loss =, losses =, step =}.
-- @param fn  function(k) -> a scalar loss, called once for each device, there; k is 1 … n
-- @param opts.backup  so many devices may be late: a step takes the mean of the gradients that come first, and the
--                     others are dropped
-- @param opts.mode  'sync': step takes the mean of the gradients; 'async': step is a list, a step for each device by
--                   its own gradients
function M.replicate(where, fn, opts)
  opts = errors.options(opts, 'replicate', { 'optimizer', 'backup', 'mode' })
  local devices, mode = devices_of(where), opts.mode == nil and 'sync' or opts.mode
  if type(fn) ~= 'function' then
    errors.bad('replicate takes a function of the replica second, not %s', errors.describe(fn))
  end
  if type(opts.optimizer) ~= 'table' or not opts.optimizer.apply_gradients then
    errors.bad('replicate: optimizer is one such as df.train.SGD(0.1), not %s', errors.describe(opts.optimizer))
  end
  if mode ~= 'sync' and mode ~= 'async' then
    errors.bad("replicate: mode is 'sync' or 'async', not %s", errors.describe(mode))
  end
  local backup = layer.whole(opts.backup or 0, 'replicate', 'backup', 0)
  if backup >= #devices then errors.bad('replicate: backup, %d, must be less than the %d devices', backup, #devices) end
  if backup > 0 and mode == 'async' then
    errors.bad("replicate: backup is of mode 'sync'; with 'async' no device waits for another")
  end
  local losses = losses_of(devices, fn)
  local vars = optimizers.trainable(losses[1].graph)
  local grads = gradients_of(devices, losses, opts.optimizer, vars)
  local result = { losses = losses, loss = f.add_n(losses) / f.cast(#losses, losses[1].dtype) }
  if mode == 'async' then
    result.step = {}
    for k in ipairs(devices) do result.step[k] = opts.optimizer:apply_gradients(grads[k]) end
    return result
  end
  if backup > 0 then
    result.loss, result.step = without_slowest(losses, grads, backup, opts.optimizer)
    return result
  end
  local means = {}
  for i, pair in ipairs(grads[1]) do means[i] = { mean_of(grads, i), pair[2] } end
  result.step = opts.optimizer:apply_gradients(means)
  return result
end

return M
