--- Recurrent cells: layers that take a value and a state and give a value and the next state. Kernels lie as in
-- TensorFlow 1's tf.nn.rnn_cell: one product of [x, h] with all gates side by side.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local nest = require 'dflow.front.nest'
local ops = require 'dflow.front.ops'
local initializers = require 'dflow.nn.initializers'
local layer = require 'dflow.nn.layer'
local normalization = require 'dflow.nn.normalization'

local M = {}
local f = ops.functions
local glorot, zeros, ones = initializers.glorot_uniform(), initializers.zeros(), initializers.ones()
local MATRIX = '[batch, features]'

--- Is v a cell of this room?
function M.is(v) return layer.is(v) and v.class.cell end

--- Zeros [batch, size] for each number of a structure; batch is a number or a scalar Output.
function M.zeros_of(size, batch, dtype)
  if type(size) == 'table' then
    local out = {}
    -- the same graph in every process
    for _, k in ipairs(nest.keys(size)) do out[k] = M.zeros_of(size[k], batch, dtype) end
    return out
  end
  local shape = size == 0 and { batch } or { batch, size }
  if type(batch) == 'number' then return f.zeros(shape, dtype) end
  local static = size == 0 and { -1 } or { -1, size }
  return f.fill(f.stack(shape), f.constant(0, dtype)):set_shape(static)
end

local methods = {}

--- cell:zero_state(batch, dtype = 'float32'): the state of zeros for so many examples.
function methods.zero_state(l, batch, dtype)
  if batch == nil then l:bad('zero_state takes the number of examples') end
  if type(batch) == 'number' then
    layer.whole(batch, l:title(), 'the number of examples', 0)
  else
    batch = convert.to_output(batch, dtypes.INT32, nil, l:title())
    if graph.dtype(batch) == dtypes.INT64 then batch = f.cast(batch, 'int32') end
  end
  return M.zeros_of(l.state_size, batch, dtype or rawget(l, 'dtype') or 'float32')
end

--- One tensor of a state, checked: [batch, size].
local function part(l, v, size, what, x)
  if v == nil then l:bad('%s is missing', what) end
  if errors.is_data(v) and nest.has_names(v) then
    l:bad('%s is a table with names, float [batch, %d] is expected', what, size)
  end
  v = convert.to_output(v, convert.typed(v) or dtypes.FLOAT32, nil, l:title())
  local s = v.shape
  if s and (#s ~= 2 or (s[2] >= 0 and s[2] ~= size)) then
    l:bad('%s is %s, [batch, %d] is expected', what, tensor.shape_text(v.dtype, s), size)
  end
  local n = x.shape[1]
  if s and s[1] >= 0 and n >= 0 and s[1] ~= n then
    l:bad('%s is %s, but its input %s has %d examples', what, tensor.shape_text(v.dtype, s),
          tensor.shape_text(x.dtype, x.shape), n)
  end
  return v
end

--- A class of cells; `known` are names of fields beside those that all cells have.
function M.class(spec)
  spec.cell, spec.inputs = true, 2
  local known = { 'units', 'activation', 'state_size', 'output_size', 'kernel_initializer', 'bias_initializer' }
  for _, name in ipairs(spec.known or {}) do known[#known + 1] = name end
  spec.known = known
  local own = spec.methods or {}
  own.zero_state = own.zero_state or methods.zero_state
  spec.methods = own
  spec.text = spec.text or function(l) return tostring(l.units) end
  return layer.class(spec)
end

local function input(l, x, state)
  x = l:input(x, 2, 2, MATRIX)
  if state == nil then l:bad('its state is missing: it begins as %s', 'cell:zero_state(batch)') end
  return x
end

--- Does x fit the kernel, of whose rows `rest` belong to the state?
local function check_features(l, x, kernel, rest)
  local features = x.shape[2]
  if features >= 0 and features ~= kernel.shape[1] - rest then
    l:bad('its input %s has %d features, its kernel is for %d', tensor.shape_text(x.dtype, x.shape), features,
          kernel.shape[1] - rest)
  end
end

local function common(kind, units, opts, more)
  local fields = {
    units = layer.whole(units, kind, 'units'), activation = layer.activation(opts.activation, kind) or f.tanh,
    name = opts.name, kernel_initializer = initializers.check(opts.kernel_initializer, glorot, kind
        .. ': kernel_initializer'),
    bias_initializer = initializers.check(opts.bias_initializer, nil, kind .. ': bias_initializer'),
  }
  fields.output_size, fields.state_size = fields.units, fields.units
  for k, v in pairs(more or {}) do fields[k] = v end
  return fields
end

-- ---- the plain one --------------------------------------------------------------------------------------------------
local RNNCell = M.class{
  kind = 'RNNCell', made = { 'kernel', 'bias' },
  build = function(l, x)
    l:weight('kernel', { l:size_of(x, 1) + l.units, l.units }, l.kernel_initializer)
    l:weight('bias', { l.units }, l.bias_initializer or zeros)
  end,
  call = function(l, _, x, h)
    x = input(l, x, h)
    h = part(l, h, l.units, 'its state', x)
    l:prepare(x)
    check_features(l, x, l.kernel, l.units)
    local y = l.activation(f.matmul(f.concat({ x, h }, 1), l.kernel) + l.bias)
    l:shaped(x, y)
    return y, y
  end,
}

--- df.rnn.RNNCell(units, {activation = tanh, kernel_initializer, bias_initializer, name}): activation([x, h] kernel +
-- bias).
-- cell(x [batch, in], h [batch, units]) -> y, h; .kernel [in + units, units], .bias [units].
function M.RNNCell(units, opts)
  opts = errors.options(opts, 'RNNCell', { 'activation', 'kernel_initializer', 'bias_initializer', 'name' })
  return layer.new(RNNCell, common('RNNCell', units, opts))
end

-- ---- LSTM -----------------------------------------------------------------------------------------------------------
local norms = { 'input', 'transform', 'forget', 'output', 'state' }

local function clipped(v, limit)
  return limit and f.clip_by_value(v, -limit, limit) or v
end

local LSTMCell = M.class{
  kind = 'LSTMCell', made = { 'kernel', 'bias', 'w_i_diag', 'w_f_diag', 'w_o_diag', 'projection_kernel' },
  known = { 'forget_bias', 'peepholes', 'projection', 'cell_clip', 'proj_clip', 'norm' },
  build = function(l, x)
    l:weight('kernel', { l:size_of(x, 1) + l.output_size, 4 * l.units }, l.kernel_initializer)
    if not l.norm then l:weight('bias', { 4 * l.units }, l.bias_initializer or zeros) end
    if l.peepholes then
      for _, name in ipairs{ 'w_i_diag', 'w_f_diag', 'w_o_diag' } do
        l:weight(name, { l.units }, initializers.variance_scaling{ mode = 'fan_avg', distribution = 'uniform' })
      end
    end
    if l.projection then l:weight('projection_kernel', { l.units, l.projection }, l.kernel_initializer) end
    for _, name in ipairs(l.norm and norms or {}) do l.norm[name].full_name = l.scope .. '/' .. name end
  end,
  call = function(l, _, x, state)
    x = input(l, x, state)
    if not errors.is_data(state) or state.c == nil or state.h == nil then
      l:bad('its state is %s, a table {c =, h =} is expected', errors.is_data(state) and 'a table without c and h'
            or errors.describe(state))
    end
    local c, h = part(l, state.c, l.units, "its state's c", x), part(l, state.h, l.output_size, "its state's h", x)
    l:prepare(x)
    check_features(l, x, l.kernel, l.output_size)
    local z = f.matmul(f.concat({ x, h }, 1), l.kernel)
    if not l.norm then z = z + l.bias end
    local i, j, fo, o = graph.unpack(f.split(z, 4, { axis = 1 }))
    if l.norm then i, j, fo, o = l.norm.input(i), l.norm.transform(j), l.norm.forget(fo), l.norm.output(o) end
    if l.peepholes then i, fo = i + c * l.w_i_diag, fo + c * l.w_f_diag end
    c = c * f.sigmoid(fo + l.forget_bias) + f.sigmoid(i) * l.activation(j)
    if l.norm then c = l.norm.state(c) end
    c = clipped(c, l.cell_clip)
    if l.peepholes then o = o + c * l.w_o_diag end
    h = f.sigmoid(o) * l.activation(c)
    if l.projection then h = clipped(f.matmul(h, l.projection_kernel), l.proj_clip) end
    l:shaped(x, h)
    return h, { c = c, h = h }
  end,
}

--- df.rnn.LSTMCell(units, {forget_bias = 1, peepholes = false, projection, cell_clip, proj_clip, layer_norm = false,
-- activation = tanh, kernel_initializer, bias_initializer, name}): cell(x [batch, in], {c =, h =}) -> h, {c =, h =}.
-- .kernel [in + size of h, 4 units], gates i j f o; .bias [4 units]; with peepholes .w_i_diag .w_f_diag .w_o_diag
-- [units]; with a projection h is [batch, projection], by .projection_kernel. With layer_norm each gate and c are
-- normalised, and there is no bias.
function M.LSTMCell(units, opts)
  opts = errors.options(opts, 'LSTMCell', { 'forget_bias', 'peepholes', 'projection', 'cell_clip', 'proj_clip',
      'layer_norm', 'activation',
                                            'kernel_initializer', 'bias_initializer', 'name' })
  local fields = common('LSTMCell', units, opts, {
    forget_bias = layer.number(opts.forget_bias, 'LSTMCell', 'forget_bias', 1),
    peepholes = layer.flag(opts.peepholes, 'LSTMCell', 'peepholes', false), cell_clip = layer.number(opts.cell_clip,
        'LSTMCell', 'cell_clip'), proj_clip = layer.number(opts.proj_clip, 'LSTMCell', 'proj_clip'),
  })
  if opts.layer_norm and opts.bias_initializer ~= nil then
    errors.bad('LSTMCell: with layer_norm there is no bias, and so no bias_initializer')
  end
  if opts.projection ~= nil then fields.projection = layer.whole(opts.projection, 'LSTMCell', 'projection') end
  fields.output_size = fields.projection or fields.units
  fields.state_size = { c = fields.units, h = fields.output_size }
  if layer.flag(opts.layer_norm, 'LSTMCell', 'layer_norm', false) then
    fields.norm, fields.inner = {}, {}
    for i, name in ipairs(norms) do
      fields.norm[name] = normalization.LayerNorm{ epsilon = 1e-12 }
      fields.inner[i] = fields.norm[name]
    end
  end
  return layer.new(LSTMCell, fields)
end

-- ---- GRU ------------------------------------------------------------------------------------------------------------
local GRUCell = M.class{
  kind = 'GRUCell', made = { 'gate_kernel', 'gate_bias', 'candidate_kernel', 'candidate_bias' },
  build = function(l, x)
    local rows = l:size_of(x, 1) + l.units
    l:weight('gate_kernel', { rows, 2 * l.units }, l.kernel_initializer)
    l:weight('gate_bias', { 2 * l.units }, l.bias_initializer or ones)
    l:weight('candidate_kernel', { rows, l.units }, l.kernel_initializer)
    l:weight('candidate_bias', { l.units }, l.bias_initializer or zeros)
  end,
  call = function(l, _, x, h)
    x = input(l, x, h)
    h = part(l, h, l.units, 'its state', x)
    l:prepare(x)
    check_features(l, x, l.gate_kernel, l.units)
    local r, u = graph.unpack(f.split(f.sigmoid(f.matmul(f.concat({ x, h }, 1), l.gate_kernel) + l.gate_bias), 2,
                                      { axis = 1 }))
    local new = l.activation(f.matmul(f.concat({ x, r * h }, 1), l.candidate_kernel) + l.candidate_bias)
    local y = u * h + (1 - u) * new
    l:shaped(x, y)
    return y, y
  end,
}

--- df.rnn.GRUCell(units, {activation = tanh, kernel_initializer, bias_initializer, name}): cell(x [batch, in], h) -> y,
-- h.
-- .gate_kernel [in + units, 2 units] (r, u) and .gate_bias, of ones at first; .candidate_kernel [in + units, units],
-- .candidate_bias.
function M.GRUCell(units, opts)
  opts = errors.options(opts, 'GRUCell', { 'activation', 'kernel_initializer', 'bias_initializer', 'name' })
  return layer.new(GRUCell, common('GRUCell', units, opts))
end

return M
