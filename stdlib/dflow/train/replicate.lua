--- df.train.replicate: one loss on each of several devices, and one step that takes the mean of their gradients.
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local places = require 'dflow.front.devices'
local ops = require 'dflow.front.ops'
local optimizers = require 'dflow.train.optimizer'

local M = {}
local f = ops.functions

--- The names of the devices: of ranks 0 … n - 1, or as they are given.
local function devices_of(v)
  if type(v) == 'number' and v % 1 == 0 and v >= 1 then
    local list = {}
    for rank = 0, v - 1 do list[rank + 1] = ('/rank:%d/%s'):format(rank, places.names()[1]) end
    return list
  end
  if type(v) ~= 'table' or getmetatable(v) ~= nil or #v == 0 then
    errors.bad("replicate takes a number of ranks or a list of devices such as {'sim:0', '/rank:1/sim:0'}, not %s", errors.describe(v))
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
    if convert.typed(loss) == nil then errors.bad('replicate: the function returned %s, a scalar loss is expected', errors.describe(loss)) end
    losses[k] = convert.to_output(loss)
    local now = #optimizers.trainable(losses[k].graph)
    if count and now > count then
      errors.bad('replicate: fn(%d) made %d more trainable variables; replicas share their weights, so make layers and variables before replicate',
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
        if not pair[1] then errors.bad('replicate: the loss of device %d does not depend on the variable %s', k, pair[2].name) end
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

--- replicate(n or devices, fn, {optimizer =, mode = 'sync'}): {loss =, losses =, step =}.
-- @param fn  function(k) -> a scalar loss, called once for each device, there; k is 1 … n
-- @param opts.mode  'sync': step takes the mean of the gradients; 'async': step is a list, a step for each device by its own gradients
function M.replicate(where, fn, opts)
  opts = errors.options(opts, 'replicate', { 'optimizer', 'mode' })
  local devices, mode = devices_of(where), opts.mode == nil and 'sync' or opts.mode
  if type(fn) ~= 'function' then errors.bad('replicate takes a function of the replica second, not %s', errors.describe(fn)) end
  if type(opts.optimizer) ~= 'table' or not opts.optimizer.apply_gradients then
    errors.bad('replicate: optimizer is one such as df.train.SGD(0.1), not %s', errors.describe(opts.optimizer))
  end
  if mode ~= 'sync' and mode ~= 'async' then errors.bad("replicate: mode is 'sync' or 'async', not %s", errors.describe(mode)) end
  local losses = losses_of(devices, fn)
  local vars = optimizers.trainable(losses[1].graph)
  local grads = gradients_of(devices, losses, opts.optimizer, vars)
  local result = { losses = losses, loss = f.add_n(losses) / f.cast(#losses, losses[1].dtype) }
  if mode == 'async' then
    result.step = {}
    for k in ipairs(devices) do result.step[k] = opts.optimizer:apply_gradients(grads[k]) end
    return result
  end
  local means = {}
  for i, pair in ipairs(grads[1]) do means[i] = { mean_of(grads, i), pair[2] } end
  result.step = opts.optimizer:apply_gradients(means)
  return result
end

return M
