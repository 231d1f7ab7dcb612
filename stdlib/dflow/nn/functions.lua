--- The older functions of df.nn, which build and forget: dense, lstm_cell, gru_cell, dynamic_rnn, glorot_uniform.
-- Programs rest on them; the layers beside this file and df.rnn are what new ones use.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local variable = require 'dflow.front.variable'
local ops = require 'dflow.front.ops'
local arguments = require 'dflow.front.arguments'
local layer = require 'dflow.nn.layer'

local M = {}
local f = ops.functions

local function known_dim(x, axis, what)
  local shape = x.shape
  local d = shape and shape[axis < 0 and #shape + 1 + axis or axis + 1]
  if not d or d < 0 then
    errors.bad('%s: axis %d of its input must be known while building: %s', what, axis,
               tensor.shape_text(x.dtype, shape))
  end
  return d
end

--- Weights of [rows, columns] as Glorot and Bengio draw them: uniform within sqrt(6 / (rows + columns)).
function M.glorot_uniform(rows, columns, dtype, seed)
  for i, n in ipairs{ rows or false, columns or false } do
    if type(n) ~= 'number' or n < 1 then
      errors.bad('glorot_uniform: argument %d is a number of units, not %s', i, errors.describe(n or nil))
    end
  end
  local limit = math.sqrt(6 / (rows + columns))
  return f.random_uniform({ rows, columns }, { min = -limit, max = limit, dtype = dtype, seed = seed })
end

local function weights(rows, columns, dtype, name, seed)
  return variable.new(function() return M.glorot_uniform(rows, columns, dtype, seed) end, { name = name })
end

local function zeros(n, dtype, name, value)
  return variable.new(function() return f.fill({ n }, f[dtype](value or 0)) end, { name = name })
end

--- df.nn.dense(x, units, {activation, use_bias = true, name = 'dense', seed}): activation(x W + b).
-- @param x  [..., inputs]
-- @return   [..., units], and the list of its variables
function M.dense(x, units, opts)
  opts = errors.options(opts, 'dense', { 'activation', 'use_bias', 'name', 'seed' })
  x = convert.to_output(x, dtypes.FLOAT32, nil, 'dense')
  if type(units) ~= 'number' or units < 1 or not dtypes.is_whole(units) then
    errors.bad('dense: units is a whole number from 1 up, not %s', errors.describe(units))
  end
  local inputs, name = known_dim(x, -1, 'dense'), opts.name or 'dense'
  local use_bias = layer.flag(opts.use_bias, 'dense', 'use_bias', true)
  local activation = opts.activation and layer.activation(opts.activation, 'dense')
  return graph.with(x.graph, function()
    local w = weights(inputs, units, x.dtype, name .. '/kernel', opts.seed)
    local rank = graph.rank(x)
    local y = rank == 2 and f.matmul(x, w) or f.tensordot(x, w, 1)
    local vars = { w }
    if use_bias then
      vars[2] = zeros(units, x.dtype, name .. '/bias')
      y = y + vars[2]
    end
    if activation then y = activation(y) end
    return y, vars
  end)
end

-- ---- recurrent cells --------------------------------------------------------------------------------------------
--- df.nn.lstm_cell(units, {forget_bias = 1, name, seed}): a cell. cell.step(x, state) -> h, state;
-- cell.zero_state(batch, dtype).
-- Its weights are made at the first step, when the size of x is known. State: {c =, h =}, each [batch, units].
function M.lstm_cell(units, opts)
  opts = errors.options(opts, 'lstm_cell', { 'forget_bias', 'name', 'seed' })
  local cell, name = { units = units, variables = {} }, opts.name or 'lstm_cell'
  local forget_bias = layer.number(opts.forget_bias, 'lstm_cell', 'forget_bias', 1)
  function cell.step(x, state)
    if not cell.kernel then
      cell.kernel = weights(known_dim(x, -1, 'lstm_cell') + units, 4 * units, x.dtype, name .. '/kernel', opts.seed)
      cell.bias = zeros(4 * units, x.dtype, name .. '/bias')
      cell.variables = { cell.kernel, cell.bias }
    end
    local gates = f.split(f.matmul(f.concat({ x, state.h }, 1), cell.kernel) + cell.bias, 4, { axis = 1 })
    local input, new, forget, output = gates[1], gates[2], gates[3], gates[4]
    local c = state.c * f.sigmoid(forget + forget_bias) + f.sigmoid(input) * f.tanh(new)
    local h = f.tanh(c) * f.sigmoid(output)
    return h, { c = c, h = h }
  end
  function cell.zero_state(batch, dtype)
    local zero = f.fill(f.stack{ arguments.int32(batch), arguments.int32(units) }, f[dtype or 'float32'](0))
    if type(batch) == 'number' then zero:set_shape{ batch, units } else zero:set_shape{ -1, units } end
    return { c = zero, h = zero }
  end
  return cell
end

--- df.nn.gru_cell(units, {name, seed}): as lstm_cell; its state is h itself.
function M.gru_cell(units, opts)
  opts = errors.options(opts, 'gru_cell', { 'name', 'seed' })
  local cell, name = { units = units, variables = {} }, opts.name or 'gru_cell'
  function cell.step(x, h)
    if not cell.gates then
      local inputs = known_dim(x, -1, 'gru_cell')
      cell.gates = weights(inputs + units, 2 * units, x.dtype, name .. '/gates/kernel', opts.seed)
      cell.gates_bias = zeros(2 * units, x.dtype, name .. '/gates/bias', 1)
      cell.candidate = weights(inputs + units, units, x.dtype, name .. '/candidate/kernel', opts.seed)
      cell.candidate_bias = zeros(units, x.dtype, name .. '/candidate/bias')
      cell.variables = { cell.gates, cell.gates_bias, cell.candidate, cell.candidate_bias }
    end
    local rz = f.split(f.sigmoid(f.matmul(f.concat({ x, h }, 1), cell.gates) + cell.gates_bias), 2, { axis = 1 })
    local new = f.tanh(f.matmul(f.concat({ x, rz[1] * h }, 1), cell.candidate) + cell.candidate_bias)
    local out = rz[2] * h + (1 - rz[2]) * new
    return out, out
  end
  function cell.zero_state(batch, dtype)
    local zero = f.fill(f.stack{ arguments.int32(batch), arguments.int32(units) }, f[dtype or 'float32'](0))
    return type(batch) == 'number' and zero:set_shape{ batch, units } or zero:set_shape{ -1, units }
  end
  return cell
end

--- df.nn.dynamic_rnn: that of df.rnn, which takes these cells, too.
function M.dynamic_rnn(...) return require('dflow.rnn').dynamic_rnn(...) end

return M
