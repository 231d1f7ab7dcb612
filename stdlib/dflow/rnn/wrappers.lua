--- Cells around cells: stacked, with dropout, with what goes in added to what comes out, with attention, with adaptive
-- time.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local control = require 'dflow.front.control'
local nest = require 'dflow.front.nest'
local ops = require 'dflow.front.ops'
local layer = require 'dflow.nn.layer'
local basic = require 'dflow.nn.basic'
local cells = require 'dflow.rnn.cells'

local M = {}
local f = ops.functions

local function check_cell(v, kind, what)
  if not cells.is(v) then
    errors.bad('%s: %s is %s, a cell such as df.rnn.LSTMCell(64) is expected', kind, what or 'the first argument',
               errors.describe(v))
  end
  return v
end

local function inner_state(l, batch, dtype) return l.inner[1]:zero_state(batch, dtype) end

-- ---- stacked --------------------------------------------------------------------------------------------------------
local Multi = cells.class{
  kind = 'MultiRNNCell',
  text = function(l) return tostring(#l.inner) .. (#l.inner == 1 and ' cell' or ' cells') end,
  call = function(l, _, x, state)
    if not errors.is_data(state) or #state ~= #l.inner then
      l:bad('its state is %s, a list of %d states is expected', errors.is_data(state) and 'a list of ' .. #state
            or errors.describe(state), #l.inner)
    end
    x = l:input(x, 2, 2, '[batch, features]')
    local from, after = x, {}
    l.graph = x.graph
    for i, cell in ipairs(l.inner) do x, after[i] = cell(x, state[i]) end
    l:shaped(from, x)
    return x, after
  end,
  methods = {
    zero_state = function(l, batch, dtype)
      local out = {}
      for i, cell in ipairs(l.inner) do out[i] = cell:zero_state(batch, dtype) end
      return out
    end,
  },
}

--- df.rnn.MultiRNNCell{cell, …}: each gets what the one before gave; the state is the list of their states.
function M.MultiRNNCell(list, opts)
  opts = errors.options(opts, 'MultiRNNCell', { 'name' })
  if not errors.is_data(list) or #list == 0 then
    errors.bad('MultiRNNCell takes a list of cells, not %s', errors.is_data(list) and 'an empty one'
               or errors.describe(list))
  end
  local inner, sizes = {}, {}
  for i, cell in ipairs(list) do
    inner[i], sizes[i] = check_cell(cell, 'MultiRNNCell', 'cell ' .. i), cell.state_size
    for k = 1, i - 1 do
      if inner[k] == cell then errors.bad('MultiRNNCell: cells %d and %d are the same: make a cell for each', k, i) end
    end
  end
  return layer.new(Multi, { inner = inner, state_size = sizes, output_size = inner[#inner].output_size,
                            name = opts.name })
end

-- ---- dropout --------------------------------------------------------------------------------------------------------
--- Runs fn at the top level of g, whatever is being built.
local function at_top(g, fn)
  core.push_top(g.handle)
  local ok, result = pcall(fn)
  core.pop_top(g.handle)
  if not ok then error(result, 0) end
  return result
end

--- v with a share `keep` of its elements kept and scaled up. Variational: the same elements at every step of a run.
local function drop(l, v, keep, place)
  if keep == nil or keep == 1 or l.mode == false then return v end
  if not l.variational then return f.dropout(v, { keep_prob = keep, seed = l.seed and l.seed + place }) end
  local noise = l.noise[place]
  if not noise then
    local size = v.shape[#v.shape]
    if size < 0 then
      l:bad('the size of %s must be known while building for a mask that all steps share',
            tensor.shape_text(v.dtype, v.shape))
    end
    noise = at_top(v.graph, function()
      local at = f.random_uniform({ 1, size }, { dtype = v.dtype, seed = l.seed and l.seed + place })
      return f.floor(at + keep) / keep
    end)
    l.noise[place] = noise
  end
  return v * noise
end

--- The state with dropout: of an LSTM's only h, since c is what remembers. Each part has a place of its own, be it made
--- of others or not.
local function drop_state(l, state, place)
  if l.keep.state == nil or l.keep.state == 1 then return state end
  local function part(v, remembers)
    local at = place
    place = place + 1
    if errors.is_data(v) then
      local out = {}
      for _, k in ipairs(nest.keys(v)) do out[k] = part(v[k], k == 'c' and v.h ~= nil) end
      return out
    end
    return remembers and v or drop(l, v, l.keep.state, at)
  end
  return part(state)
end

local Dropout = cells.class{
  kind = 'DropoutWrapper', known = { 'keep', 'seed', 'variational', 'noise' },
  text = function(l) return l.inner[1].class.kind end,
  call = function(l, _, x, state)
    x = l:input(x, 2, 2, '[batch, features]')
    l.graph = x.graph
    local y, after = l.inner[1](drop(l, x, l.keep.input, 1), state)
    after = drop_state(l, after, 10)
    y = drop(l, y, l.keep.output, 2)
    l:shaped(x, y)
    return y, after
  end,
  methods = { zero_state = inner_state },
}

--- df.rnn.DropoutWrapper(cell, {input_keep_prob = 1, output_keep_prob = 1, state_keep_prob = 1, variational = false,
-- seed, name}).
-- A probability is a number above 0 and at most 1, or a scalar float Output. variational: the same mask at all steps of
-- a run.
-- After l:eval() nothing is dropped in later calls.
function M.DropoutWrapper(cell, opts)
  check_cell(cell, 'DropoutWrapper')
  opts = errors.options(opts, 'DropoutWrapper',
                        { 'input_keep_prob', 'output_keep_prob', 'state_keep_prob', 'variational', 'seed', 'name' })
  local keep = {}
  for _, name in ipairs{ 'input', 'output', 'state' } do
    local p = opts[name .. '_keep_prob']
    if p ~= nil and convert.typed(p) == nil and not (type(p) == 'number' and p > 0 and p <= 1) then
      errors.bad('DropoutWrapper: %s_keep_prob is a number above 0 and at most 1, or an Output, not %s', name,
                 errors.describe(p))
    end
    keep[name] = p
  end
  return layer.new(Dropout, { inner = { cell }, keep = keep, noise = {},
                              variational = layer.flag(opts.variational, 'DropoutWrapper', 'variational', false),
                              seed = layer.seed(opts.seed, 'DropoutWrapper'), state_size = cell.state_size,
                                output_size = cell.output_size, name = opts.name })
end

-- ---- residual -------------------------------------------------------------------------------------------------------
local Residual = cells.class{
  kind = 'ResidualWrapper', text = function(l) return l.inner[1].class.kind end,
  call = function(l, _, x, state)
    x = l:input(x, 2, 2, '[batch, features]')
    l.graph = x.graph
    local y, after = l.inner[1](x, state)
    if x.shape[2] >= 0 and y.shape[2] >= 0 and x.shape[2] ~= y.shape[2] then
      l:bad('its input is %s, but the cell gives %s: they are added and must be alike',
            tensor.shape_text(x.dtype, x.shape), tensor.shape_text(y.dtype, y.shape))
    end
    y = y + x
    l:shaped(x, y)
    return y, after
  end,
  methods = { zero_state = inner_state },
}

--- df.rnn.ResidualWrapper(cell, {name}): what the cell gives plus what went in.
function M.ResidualWrapper(cell, opts)
  check_cell(cell, 'ResidualWrapper')
  opts = errors.options(opts, 'ResidualWrapper', { 'name' })
  return layer.new(Residual, { inner = { cell }, state_size = cell.state_size, output_size = cell.output_size,
                               name = opts.name })
end

-- ---- attention ------------------------------------------------------------------------------------------------------
local Mechanism = { __name = 'dflow.Attention' }
Mechanism.__tostring = function(m)
  return ('%s(%d) of a memory %s'):format(m.kind, m.units, tensor.shape_text(m.memory.dtype, m.memory.shape))
end

--- What both mechanisms share: the memory with zeros past its lengths, its keys, and the mask of what counts.
local function mechanism(kind, units, memory, opts, score)
  if memory == nil then errors.bad('%s: the memory is missing', kind) end
  memory = convert.to_output(memory, dtypes.FLOAT32, nil, kind)
  if graph.rank(memory) ~= 3 then
    errors.bad('%s: the memory is %s, [batch, time, size] is expected', kind,
               tensor.shape_text(memory.dtype, memory.shape))
  end
  local m = setmetatable({ units = layer.whole(units, kind, 'units'), memory = memory, kind = kind }, Mechanism)
  m.memory_layer = basic.Dense(units, { use_bias = false, name = opts.name and opts.name .. '/memory_layer' })
  if opts.lengths ~= nil then
    local lengths = convert.typed(opts.lengths) and convert.to_output(opts.lengths) or f.int32(opts.lengths)
    m.mask = f.sequence_mask(lengths, f.dim(memory, 1))
    m.memory = f.select_v2(f.expand_dims(m.mask, 2), memory, f.zeros({}, memory.dtype))
  end
  m.keys = m.memory_layer(m.memory)
  --- query [batch, size] -> the mix of the memory [batch, size of the memory], weights [batch, time]
  local function attends(a)
    function a.attend(query)
      local rows, asked = a.memory.shape[1], query.shape and query.shape[1] or -1
      if rows >= 0 and asked >= 0 and rows ~= asked then
        errors.bad('%s: the memory has %d examples, and %d ask it%s', kind, rows, asked,
                   asked % rows ~= 0 and ''
                   or (': for a beam search, cell:beams(%d) makes a cell with a memory for each beam'):format(asked
                       / rows))
      end
      local s = score(a, query)
      if a.mask then s = f.where(a.mask, s, f.ones_like(s) * (s.dtype == 'float16' and -6e4 or -1e9)) end
      local weights = f.softmax(s)
      return f.squeeze(f.matmul(f.expand_dims(weights, 1), a.memory), 1), weights
    end
    return a
  end
  --- The same, with the same weights, for `n` beams of each example.
  function m.beams(n)
    local b = setmetatable({}, { __index = m, __tostring = Mechanism.__tostring, __name = Mechanism.__name })
    for key, v in pairs(require('dflow.rnn.beam').tile_batch({ memory = m.memory, keys = m.keys, mask = m.mask }, n)) do
      b[key] = v
    end
    return attends(b)
  end
  return attends(m)
end

--- df.rnn.BahdanauAttention(units, memory, {lengths, name}): scores v · tanh(query W + memory U) over memory [batch,
-- time, size].
-- What is past an example's length has no weight.
function M.BahdanauAttention(units, memory, opts)
  opts = errors.options(opts, 'BahdanauAttention', { 'lengths', 'name' })
  local m = mechanism('BahdanauAttention', units, memory, opts, function(m, query)
    return f.squeeze(m.scale(f.tanh(f.expand_dims(m.query_layer(query), 1) + m.keys)), 2)
  end)
  m.query_layer = basic.Dense(units, { use_bias = false, name = opts.name and opts.name .. '/query_layer' })
  m.scale = basic.Dense(1, { use_bias = false, name = opts.name and opts.name .. '/v' })
  m.layers = { m.memory_layer, m.query_layer, m.scale }
  return m
end

--- df.rnn.LuongAttention(units, memory, {lengths, name}): scores query · (memory U); the query is [batch, units].
function M.LuongAttention(units, memory, opts)
  opts = errors.options(opts, 'LuongAttention', { 'lengths', 'name' })
  local m = mechanism('LuongAttention', units, memory, opts, function(m, query)
    local s = query.shape
    if s and s[2] >= 0 and s[2] ~= m.units then
      errors.bad('LuongAttention: the query is %s, [batch, %d] is expected: its units are those of the cell',
                 tensor.shape_text(query.dtype, s), m.units)
    end
    return f.squeeze(f.matmul(m.keys, f.expand_dims(query, 2)), 2)
  end)
  m.layers = { m.memory_layer }
  return m
end

local Attention
Attention = cells.class{
  kind = 'AttentionWrapper', known = { 'mechanism', 'mixer', 'output_attention', 'attention_size' },
  text = function(l) return ('%s, %s'):format(l.inner[1].class.kind, l.mechanism.kind) end,
  call = function(l, _, x, state)
    x = l:input(x, 2, 2, '[batch, features]')
    if not errors.is_data(state) or state.cell == nil or state.attention == nil then
      l:bad('its state is %s, a table {cell =, attention =, weights =} is expected', errors.describe(state))
    end
    l.graph = x.graph
    local y, inner = l.inner[1](f.concat({ x, state.attention }, 1), state.cell)
    local mix, weights = l.mechanism.attend(y)
    local attention = l.mixer and l.mixer(f.concat({ y, mix }, 1)) or mix
    local out = l.output_attention and attention or y
    l:shaped(x, out)
    return out, { cell = inner, attention = attention, weights = weights }
  end,
  methods = {
    zero_state = function(l, batch, dtype)
      local like = l.mechanism.memory
      local n = type(batch) == 'number' and batch or -1
      local function zeros(size, static)
        if type(batch) == 'number' and static >= 0 then return f.zeros({ batch, static }, dtype or like.dtype) end
        return f.fill(f.stack{ batch, size }, f.constant(0, dtype or like.dtype)):set_shape{ n, static }
      end
      local time = like.shape[2]
      return { cell = l.inner[1]:zero_state(batch, dtype), attention = zeros(l.attention_size, l.attention_size),
               weights = zeros(time >= 0 and time or f.dim(like, 1), time) }
    end,
    beams = function(l, n)
      local fields = { mechanism = l.mechanism.beams(layer.whole(n, 'AttentionWrapper:beams', 'the number of beams')) }
      for _, key in ipairs{ 'inner', 'attention_size', 'output_attention', 'mixer', 'output_size', 'state_size' } do
        fields[key] = l[key]
      end
      return layer.new(Attention, fields)
    end,
  },
}

--- df.rnn.AttentionWrapper(cell, mechanism, {attention_size, output_attention = true, name}): at each step the cell
-- sees x beside what was attended to last, and its output asks the memory. The state is {cell =, attention =, weights
-- =}. cell:beams(n) is the same cell for the n beams of each example, in df.rnn.beam_search.
-- @param attention_size  attention is [output, mix] times a matrix of so many columns; without it, the mix itself
function M.AttentionWrapper(cell, how, opts)
  check_cell(cell, 'AttentionWrapper')
  opts = errors.options(opts, 'AttentionWrapper', { 'attention_size', 'output_attention', 'name' })
  if type(how) ~= 'table' or type(how.attend) ~= 'function' then
    errors.bad('AttentionWrapper: the second argument is %s, a mechanism such as df.rnn.BahdanauAttention(64, memory) '
               .. 'is expected', errors.describe(how))
  end
  local size = how.memory.shape[3]
  if opts.attention_size ~= nil then size = layer.whole(opts.attention_size, 'AttentionWrapper', 'attention_size') end
  if size < 0 then
    errors.bad('AttentionWrapper: the size of the memory must be known while building: %s',
               tensor.shape_text(how.memory.dtype, how.memory.shape))
  end
  local fields = { inner = { cell }, mechanism = how, attention_size = size, name = opts.name,
                   output_attention = layer.flag(opts.output_attention, 'AttentionWrapper', 'output_attention', true) }
  for _, l in ipairs(how.layers) do fields.inner[#fields.inner + 1] = l end
  if opts.attention_size ~= nil then
    fields.mixer = basic.Dense(size, { use_bias = false })
    fields.inner[#fields.inner + 1] = fields.mixer
  end
  fields.output_size = fields.output_attention and size or cell.output_size
  fields.state_size = { cell = cell.state_size, attention = size, weights = how.memory.shape[2] }
  return layer.new(Attention, fields)
end

-- ---- adaptive computation time --------------------------------------------------------------------------------------
--- where(mask [batch], a, b) for all tensors of two like structures.
local function mix(mask, a, b)
  if errors.is_data(a) then
    local out = {}
    for _, k in ipairs(nest.keys(a)) do out[k] = mix(mask, a[k], b[k]) end
    return out
  end
  return f.select(mask, a, b)
end

--- a + p b, p [batch], for all tensors of two like structures.
local function add_part(a, p, b)
  if errors.is_data(a) then
    local out = {}
    for _, k in ipairs(nest.keys(a)) do out[k] = add_part(a[k], p, b[k]) end
    return out
  end
  return a + f.expand_dims(p, 1) * b
end

local ACT = cells.class{
  kind = 'ACTCell', known = { 'epsilon', 'max_steps', 'halting' },
  text = function(l) return l.inner[1].class.kind end,
  call = function(l, _, x, state)
    x = l:input(x, 2, 2, '[batch, features]')
    if not errors.is_data(state) or state.state == nil or state.ponder == nil then
      l:bad('its state is %s, a table {state =, ponder =, steps =} is expected', errors.describe(state))
    end
    if not rawget(l, 'graph') then
      l:settle(x)
      l.halting.full_name = l.scope .. '/halting'
    end
    local cell, enough = l.inner[1], 1 - l.epsilon
    local batch = x.shape[1] >= 0 and x.shape[1] or f.dim(x, 0)
    local nothing = cells.zeros_of(0, batch, x.dtype)
    local flag = f.expand_dims(nothing, 1)
    local first = { inner = state.state, sum = nothing, n = nothing, left = nothing,
                    state = nest.map(state.state, nest.is_structure, f.zeros_like),
                    y = cells.zeros_of(cell.output_size, batch, x.dtype) }
    local last = control.while_loop(
      function(v) return f.reduce_any(f.less(v.sum, enough)) end,
      function(v)
        local y, inner = cell(f.concat({ x, flag + f.expand_dims(f.cast(f.equal(v.n, 0), x.dtype), 1) }, 1), v.inner)
        local running = f.less(v.sum, enough)
        local on = f.cast(running, x.dtype)
        local h = f.squeeze(l.halting(y), 1)
        local ends = f.logical_and(running, f.logical_or(f.greater_equal(v.sum + h, enough),
            f.greater_equal(v.n, l.max_steps - 1)))
        local rest = 1 - v.sum
        local p = f.where(ends, rest, h) * on
        return { inner = mix(running, inner, v.inner), n = v.n + on, left = f.where(ends, rest, v.left),
                 sum = f.where(ends, f.ones_like(p), v.sum + p),
                 state = add_part(v.state, p, inner), y = add_part(v.y, p, y) }
      end, first, { name = 'act' })
    l:shaped(x, last.y)
    return last.y, { state = last.state, ponder = state.ponder + f.stop_gradient(last.n) + last.left,
                     steps = state.steps + f.stop_gradient(last.n) }
  end,
  methods = {
    zero_state = function(l, batch, dtype)
      local none = cells.zeros_of(0, batch, dtype or 'float32')
      return { state = l.inner[1]:zero_state(batch, dtype), ponder = none, steps = none }
    end,
  },
}

--- df.rnn.ACTCell(cell, {epsilon = 0.01, max_steps = 100, name}): Graves' adaptive computation time: at each step the
-- cell runs in a while_loop until a halting unit has said enough, and what it gave is averaged. Beside x it sees
-- whether this is the first time.
-- The state is {state =, ponder =, steps =}: ponder [batch] is the cost so far, to be added to the loss; steps how
-- often the cell ran.
function M.ACTCell(cell, opts)
  check_cell(cell, 'ACTCell')
  opts = errors.options(opts, 'ACTCell', { 'epsilon', 'max_steps', 'halting_bias', 'name' })
  local halting = basic.Dense(1, { activation = f.sigmoid,
      bias_initializer = layer.number(opts.halting_bias, 'ACTCell', 'halting_bias', 1) })
  return layer.new(ACT, { inner = { cell, halting }, halting = halting,
                          epsilon = layer.number(opts.epsilon, 'ACTCell', 'epsilon', 0.01),
                          max_steps = layer.whole(opts.max_steps or 100, 'ACTCell', 'max_steps'),
                          output_size = cell.output_size,
                          state_size = { state = cell.state_size, ponder = 0, steps = 0 }, name = opts.name })
end

return M
