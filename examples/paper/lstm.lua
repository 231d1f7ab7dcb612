--- The LSTM of Table 1 and of Figures 13 and 15: layers over devices, and the gradients of all their weights.
local df = require 'dflow'
local hardware = require 'hardware'

local M = {}

--- One step of training by the virtual clock: `layers` of `units`, `length` time steps in one loop, which every device takes part in.
--
-- Each time step reads the same frame of input; the loss is the sum of the last output.
-- @param opts  kind (of hardware), scale, length, layers (1), devices (1), batch (512, which scale divides), units (512), save ('keep'),
--              memory (of each device in bytes, before scaling)
-- @return a run, recorded; h:wait() gives a sum of each gradient
function M.start(opts)
  local layers, devices, units = opts.layers or 1, opts.devices or 1, opts.units or 512
  local rows = (opts.batch or 512) / opts.scale
  local function on(layer, fn) return df.device(('sim:%d'):format(math.floor((layer - 1) * devices / layers)), fn) end
  local g = df.Graph()
  return g:as_default(function()
    local x = df.placeholder('float32', { rows, units })
    local cells, begin = {}, {}
    for l = 1, layers do
      cells[l] = df.rnn.LSTMCell(units)
      begin[l] = on(l, function() return cells[l]:zero_state(rows, 'float32') end)
    end
    local _, states = df.while_loop(function(t) return t:lt(opts.length) end, function(t, states)
      local y, after = x, {}
      for l = 1, layers do y, after[l] = on(l, function() return cells[l](y, states[l]) end) end
      return t + 1, after
    end, { df.int32(0), begin }, { save = opts.save or 'keep' })
    local loss = on(layers, function() return states[layers].h:reduce_sum() end)
    local weights, sums = {}, {}
    for l = 1, layers do
      for _, w in ipairs(cells[l]:parameters()) do weights[#weights + 1] = w end
    end
    for i, slope in ipairs(df.gradients(loss, weights)) do
      sums[i] = on(math.ceil(i / #weights * layers), function() return slope:reduce_sum() end)
    end
    local kind = {}
    for key, value in pairs(opts.kind) do kind[key] = value end
    kind.memory = opts.memory or kind.memory
    local s = df.Session{ graph = g, clock = 'virtual', devices = hardware.devices(kind, devices, opts.scale) }
    return s:start(sums, { [x] = df.run(df.random_normal({ rows, units }, { seed = 1 })) }, { record = true })
  end)
end

return M
