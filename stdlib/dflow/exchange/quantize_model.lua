--- df.quantize_model: a trained graph as one that computes in 8 bits.
--
-- The graph is written as a frozen GraphDef, its nodes are rewritten, and what comes of it is imported: so loops and
-- branches keep their form, names stay, and the result is a file that TensorFlow runs as well. A convolution or a
-- product with a constant filter, what is added and multiplied for each of its channels, and the ReLU behind it become
-- one op of bytes that rounds its sums to bytes again; pools, reshapes and concatenations of bytes stay bytes. What
-- else reads such a value gets it dequantised under its old name.
local df = require 'dflow'
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local export = require 'dflow.exchange.export'
local nodes = require 'dflow.exchange.nodes'

local M = {}
local source, known = nodes.source, { 'feeds', 'ranges', 'session', 'skip' }

-- ---- a graph's nodes: the readers of each value, constants ----------------------------------------------------------
--- The frozen graph of these outputs, taken apart. `values` is the same imported, where constants are known.
local function take_apart(outputs, session)
  local bytes = export.graph_def_bytes{ outputs = outputs, session = session, frozen = true, clear_devices = true }
  local list, by_name, rest = nodes.read(bytes)
  local m = { bytes = bytes, list = list, node = by_name, rest = rest, values = df.import_graph_def(bytes),
              readers = {}, is_output = {} }
  m.session = df.Session{ graph = m.values }
  for _, n in ipairs(list) do
    for i, input in ipairs(n.inputs) do
      local name = source(input)
      m.readers[name] = m.readers[name] or {}
      table.insert(m.readers[name], { node = n, at = i })
    end
  end
  for _, o in ipairs(outputs) do m.is_output[source(o.name)] = true end
  return m
end

local passes = { Identity = true, Enter = true, Switch = true, RefEnter = true }
local arithmetic = {}
for op in ('Add AddV2 Cast ExpandDims Maximum Mul Neg RealDiv Reciprocal Reshape Rsqrt Sqrt Square Squeeze Sub '
           .. 'Transpose'):gmatch '%S+' do
  arithmetic[op] = true
end

--- Where a value comes from, through loops and branches that it was only handed into.
local function origin(m, input)
  local name, index = source(input)
  local n = m.node[name]
  while n and passes[n.op] do
    name, index = source(n.inputs[1])
    n = m.node[name]
  end
  return n, index
end
--- Is the node one and the same value in all runs?
local function is_constant(m, n)
  if n.op == 'Const' then return true end
  if not arithmetic[n.op] then return false end
  for _, input in ipairs(n.inputs) do
    local from, index = origin(m, input)
    if not from or not index or not is_constant(m, from) then return false end
  end
  return true
end
--- The value of an input where it is the same in all runs; nil where it is not.
local function constant(m, input)
  local n, index = origin(m, input)
  if not n or not index or not is_constant(m, n) then return nil end
  local o = m.values:output(('%s:%d'):format(n.name, index))
  return core.output_constant(m.values.handle, o.node, o.index) or m.session:run(o, nil, { tensors = true })
end

--- Is the node in a loop or a branch? Then what is made for it has to be there, too.
local function inside(m, name)
  m.depths = m.depths or {}
  local n = m.node[name]
  if not n then return 0 end
  if m.depths[name] then return m.depths[name] end
  m.depths[name] = 0
  local depth, again = 0, false
  for _, input in ipairs(n.inputs) do
    local from = source(input)
    local op = m.node[from] and m.node[from].op
    again = again or op == 'NextIteration'
    if op ~= 'NextIteration' then depth = math.max(depth, inside(m, from)) end
  end
  local pred = n.op == 'Switch' and m.node[source(n.inputs[2])]
  if n.op == 'Enter' or (pred and pred.op ~= 'LoopCond') then depth = depth + 1 end
  if n.op == 'Exit' or (n.op == 'Merge' and not again) then depth = math.max(depth - 1, 0) end
  m.depths[name] = depth
  return depth
end

-- ---- what becomes one op --------------------------------------------------------------------------------------------
--- A constant as the numbers of n channels; nil: it has another form. Of one channel there may be any leading
-- dimensions of 1.
local function per_channel(t, n)
  if not t or t.dtype ~= 'float32' then return nil end
  local shape = t.shape
  if t.size ~= 1 and (t.size ~= n or shape[#shape] ~= n) then return nil end
  local list, out = t:list(), {}
  for j = 1, n do out[j] = list[t.size == 1 and 1 or j] end
  return out
end

--- The affine functions of each channel, y = a x + b: by op, from the value of the constant operand, which stands
-- second (or first: turned).
local affine = {
  Add = function(c) return 1, c end, AddV2 = function(c) return 1, c end, BiasAdd = function(c) return 1, c end,
  Mul = function(c) return c, 0 end,
  Sub = function(c, turned) if turned then return -1, c end return 1, -c end,
  RealDiv = function(c, turned) if turned then return nil end return 1 / c, 0 end,
}
local norms = { FusedBatchNorm = true, FusedBatchNormV2 = true, FusedBatchNormV3 = true }

--- What node n does to each channel of its input `at`: lists a and b; nil: something else.
local function channel_function(m, n, at, channels)
  local a, b = {}, {}
  if norms[n.op] and at == 1 and nodes.attr(n, 'is_training', true) == false
    and nodes.attr(n, 'data_format', 'NHWC') == 'NHWC' then
    local part, epsilon = {}, tonumber((nodes.attr(n, 'epsilon', 1e-4)))
    for i = 2, 5 do part[i] = per_channel(constant(m, n.inputs[i]), channels) end
    if not (part[2] and part[3] and part[4] and part[5]) then return nil end
    for j = 1, channels do
      a[j] = part[2][j] / math.sqrt(part[5][j] + epsilon)
      b[j] = part[3][j] - part[4][j] * a[j]
    end
    return a, b
  end
  local fn = affine[n.op]
  local c = fn and per_channel(constant(m, n.inputs[3 - at] or ''), channels)
  for j = 1, c and channels or 0 do
    a[j], b[j] = fn(c[j], at == 2)
    if not a[j] then return nil end
  end
  if c then return a, b end
end

local function is_ones(list)
  for _, v in ipairs(list or {}) do if v ~= 1 then return false end end
  return true
end

--- The convolution or product that n is, with its filter [..., channels]; nil: it is none of bytes.
local function head_of(m, n)
  if n.op ~= 'Conv2D' and n.op ~= 'MatMul' then return nil end
  local w = constant(m, n.inputs[2])
  if not w or w.dtype ~= 'float32' or w.size == 0 or constant(m, n.inputs[1]) then return nil end
  local h = { node = n, x = n.inputs[1], is_conv = n.op == 'Conv2D', w = w }
  if h.is_conv then
    local x = m.values:output(('%s:%d'):format(source(h.x)))
    local channels = x.shape and x.shape[4]
    if nodes.attr(n, 'data_format', 'NHWC') ~= 'NHWC' or not is_ones(nodes.attr(n, 'dilations'))
      or channels ~= w.shape[3] then
      return nil
    end
  elseif nodes.attr(n, 'transpose_a') then
    return nil
  elseif nodes.attr(n, 'transpose_b') then
    h.w = df.run(df.transpose(df.constant(w)))
  end
  h.channels = h.w.shape[#h.w.shape]
  return h
end

local rectifies = { Relu = true, Relu6 = true }
--- Follows what only the next node reads: h.last is the node whose value the op of bytes gives, h.scale and h.shift
--- what is done to each channel before.
local function follow(m, h)
  h.scale, h.shift, h.last = {}, {}, h.node
  for j = 1, h.channels do h.scale[j], h.shift[j] = 1, 0 end
  while not h.rectified and not m.is_output[h.last.name] do
    local readers = m.readers[h.last.name] or {}
    local next_one, at = readers[1] and readers[1].node, readers[1] and readers[1].at
    if #readers ~= 1 or select(2, source(next_one.inputs[at])) ~= 0 then break end
    if rectifies[next_one.op] then
      h.rectified, h.last = true, next_one
      break
    end
    local a, b = channel_function(m, next_one, at, h.channels)
    if not a then break end
    for j = 1, h.channels do h.scale[j], h.shift[j] = h.scale[j] * a[j], h.shift[j] * a[j] + b[j] end
    h.last = next_one
  end
  return h
end

--- All of them, by the name of the node whose value they give.
local function find_heads(m, skip)
  local by_last, count = {}, 0
  graph.with(graph.new_graph(), function()
    for _, n in ipairs(m.list) do
      local h = not (skip and skip(n.name)) and head_of(m, n)
      if h then
        follow(m, h)
        by_last[h.last.name], count = h, count + 1
      end
    end
  end)
  return by_last, count
end

-- ---- ranges ---------------------------------------------------------------------------------------------------------
local function full(input) return ('%s:%d'):format(source(input)) end

--- The names of the values whose ranges are needed: what the ops of bytes are given, and what they give as bytes.
local function needed(heads)
  local names, seen = {}, {}
  for last, h in pairs(heads) do
    for _, name in ipairs{ full(h.x), (h.is_conv or h.rectified) and last .. ':0' or nil } do
      if not seen[name] then names[#names + 1], seen[name] = name, true end
    end
  end
  table.sort(names)
  return names
end

local STAGE = 'quantize_model/'
--- The graph with a node behind each of these values that stages its least and its greatest element whenever it is
-- computed.
local function observed(m, names)
  local list, replaced = {}, {}
  for i, name in ipairs(names) do
    local here, from = STAGE .. i .. '/', source(name)
    local control = '^' .. from
    local function node(part, op, inputs, attrs)
      list[#list + 1] = { name = here .. part, op = op, inputs = inputs, attrs = attrs }
    end
    local function number(part, values)
      local t = df.tensor(values, 'int32')
      node(part, 'Const', { control }, { dtype = nodes.dtype 'int32', value = nodes.tensor(t) })
    end
    number('flat', { -1 })
    number('axis', { 0 })
    node('all', 'Reshape', { name, here .. 'flat' }, { T = nodes.dtype 'float32', Tshape = nodes.dtype 'int32' })
    for _, op in ipairs{ 'Min', 'Max' } do
      node(op, op, { here .. 'all', here .. 'axis' },
           { T = nodes.dtype 'float32', Tidx = nodes.dtype 'int32', keep_dims = nodes.flag(false) })
    end
    node('put', 'Stage', { here .. 'Min', here .. 'Max' },
         { dtypes = nodes.dtypes{ 'float32', 'float32' }, shared_name = nodes.text(here) })
    node('seen', 'Identity', { name, '^' .. here .. 'put' }, { T = nodes.dtype 'float32' })
    replaced[name] = here .. 'seen'
  end
  for _, n in ipairs(m.list) do
    local inputs = {}
    for i, input in ipairs(n.inputs) do
      inputs[i] = input:sub(1, 1) == '^' and input or replaced[full(input)] or input
    end
    list[#list + 1] = { name = n.name, op = n.op, inputs = inputs, attrs = n.attrs }
  end
  return df.import_graph_def(nodes.write(list, m.rest)), replaced
end

local function note(ranges, name, least, most)
  if least ~= least or most ~= most or math.max(-least, most) == math.huge then
    errors.raise('invalid_argument', 'quantize_model: %s is from %g to %g with these feeds: it cannot be quantised',
                 name, least, most)
  end
  local r = ranges[name] or { least, most }
  ranges[name] = { math.min(r[1], least), math.max(r[2], most) }
end

--- The feeds, one after the other: of a list of tables, of one, or of a function that gives the next.
local function each(feeds)
  if type(feeds) == 'function' then return feeds end
  if not errors.is_data(feeds) then
    errors.bad('quantize_model: feeds is a list of tables {[x] = value}, not %s', errors.describe(feeds))
  end
  local list, i = (next(feeds) == nil or feeds[1]) and feeds or { feeds }, 0
  return function()
    i = i + 1
    return list[i]
  end
end

--- Runs the graph with the feeds and adds to `ranges` what these values were.
local function calibrate(m, names, outputs, feeds, ranges)
  local g, replaced = observed(m, names)
  local s, fetches, count = df.Session{ graph = g }, {}, {}
  for i, o in ipairs(outputs) do fetches[i] = g:output(replaced[o.name] or o.name) end
  local taken = {}
  graph.with(g, function()
    for i in ipairs(names) do
      local about = { dtypes = { 'float32', 'float32' }, shared_name = STAGE .. i .. '/' }
      count[i], taken[i] = registry.op('StageSize', {}, about), registry.op('Unstage', {}, about)
    end
  end)
  local runs = 0
  for fed in each(feeds) do
    local here = {}
    for x, value in pairs(fed) do here[g:output(convert.to_output(x).name)] = value end
    s:run(fetches, here)
    runs = runs + 1
    for i, n in ipairs(s:run(count)) do
      for _ = 1, n do note(ranges, names[i], df.unpack(s:run(taken[i]))) end
    end
  end
  s:close()
  if runs == 0 then errors.bad 'quantize_model: feeds has nothing to run the graph with' end
end

--- What the option `ranges` says, by the names of values.
local function given_ranges(ranges)
  local out = {}
  if ranges ~= nil and not errors.is_data(ranges) then
    errors.bad('quantize_model: ranges is a table {[x or its name] = {least, greatest}}, not %s',
               errors.describe(ranges))
  end
  for key, r in pairs(ranges or {}) do
    local name = full(type(key) == 'string' and key or convert.to_output(key).name)
    if not errors.is_data(r) or type(r[1]) ~= 'number' or type(r[2]) ~= 'number' or not (r[1] <= r[2]) then
      errors.bad('quantize_model: the range of %s is %s; {least, greatest} is expected', name, errors.describe(r))
    end
    out[name] = { r[1], r[2] }
  end
  return out
end

-- ---- the rewritten graph --------------------------------------------------------------------------------------------
local Rewriter = {}
Rewriter.__index = Rewriter

function Rewriter:add(name, op, inputs, attrs)
  self.list[#self.list + 1] = { name = name, op = op, inputs = inputs, attrs = attrs }
  return name
end
--- A constant where the node `near` is.
function Rewriter:constant(name, t, near)
  local inputs = inside(self.m, near) > 0 and { '^' .. near } or {}
  return self:add(name, 'Const', inputs, { dtype = nodes.dtype(t.dtype), value = nodes.tensor(t) })
end

--- The filter as bytes, each channel scaled as what follows asks; the numbers that -127 and 127 stand for, of a
--- convolution's for each channel; and the sums of what the bytes of each channel stand for.
local function filter_bytes(h)
  return df.unpack(graph.with(graph.new_graph(), function()
    local w = df.constant(h.w) * df.constant(df.tensor(h.scale, 'float32'))
    local axes = {}
    for d = 1, #h.w.shape - 1 do axes[d] = d - 1 end
    local most = df.reduce_max(df.abs(w), h.is_conv and { axis = axes } or nil)
    most = df.where(df.equal(most, 0), df.ones_like(most), most)
    local q = df.rint(w / most * 127)
    return df.run({ df.cast(q, 'qint8'), -most, most, df.reduce_sum(q * most / 127, { axis = axes }) }, nil,
                  { tensors = true })
  end))
end

--- x as bytes that it is not yet: { name =, dtype =, min =, max = }, the two names of its range. Numbers on both sides
--- of 0 that a product takes are integers from 0 on: each stands for `offset` more than the range says, which the bias
-- makes good.
function Rewriter:quantise(x, is_conv)
  local name, from = full(x), source(x)
  local least, most = df.unpack(self.ranges[name])
  local mode = (is_conv or least >= 0) and 'SCALED' or 'MIN_FIRST'
  local dtype = mode == 'SCALED' and least < 0 and 'qint8' or 'quint8'
  local made = name:gsub(':', '_') .. '/' .. mode:lower()
  if not self.made[made] then
    if mode == 'MIN_FIRST' then
      local step = (math.max(most, 0) - least) / 255
      least = -math.floor(-least / step + 0.5) * step
      most = least + 255 * step
    elseif least < 0 then
      most = math.max(-least, most)
      least = -most
    else
      least = 0
    end
    local low = self:constant(made .. '/min', df.tensor(least, 'float32'), from)
    local high = self:constant(made .. '/max', df.tensor(most, 'float32'), from)
    self:add(made, 'QuantizeV2', { x, low, high },
             { T = nodes.dtype(dtype), mode = nodes.text(mode), narrow_range = nodes.flag(dtype == 'qint8'),
      round_mode = nodes.text(mode == 'SCALED' and 'HALF_TO_EVEN' or 'HALF_AWAY_FROM_ZERO') })
    local of = { name = made, dtype = dtype, min = made .. ':1', max = made .. ':2' }
    if mode == 'MIN_FIRST' then
      of.min, of.offset = self:constant(made .. '/zero', df.tensor(0, 'float32'), from), least
      of.max = self:constant(made .. '/all', df.tensor(most - least, 'float32'), from)
    end
    self.made[made] = of
    self:need(x)
  end
  return self.made[made]
end

--- The op of bytes that h becomes, called `name`: it gives bytes, or with dtype 'float32' what they stand for.
function Rewriter:emit_head(h, name, dtype)
  local near, at = source(h.x), h.last.name .. '/'
  local x = self:bytes(h.x) or self:quantise(h.x, h.is_conv)
  local q, low, high, sums = filter_bytes(h)
  local bias = df.tensor(h.shift, 'float32')
  if x.offset then
    bias = graph.with(graph.new_graph(), function() return df.run(df.constant(bias) + df.constant(sums) * x.offset, nil,
        { tensors = true }) end)
  end
  local range = self.ranges[h.last.name .. ':0'] or { 0, 0 }
  local most = math.max(range[2], dtype == 'qint8' and -range[1] or 0)
  local function constant_of(part, t) return self:constant(at .. part, t, near) end
  local inputs = { x.name, constant_of('filter', q), constant_of('bias', bias), x.min, x.max,
                   constant_of('min_filter', low), constant_of('max_filter', high),
                   constant_of('min_output', df.tensor(dtype == 'qint8' and -most or 0, 'float32')),
                   constant_of('max_output', df.tensor(most, 'float32')) }
  local attrs, op = { Tbias = nodes.dtype 'float32' }, nil
  if h.is_conv then
    op = dtype == 'quint8' and 'QuantizedConv2DWithBiasAndReluAndRequantize' or 'QuantizedConv2DWithBiasAndRequantize'
    attrs.Tinput, attrs.Tfilter, attrs.out_type = nodes.dtype(x.dtype), nodes.dtype 'qint8', nodes.dtype(dtype)
    attrs.strides, attrs.padding = h.node.attrs.strides, h.node.attrs.padding
    if nodes.attr(h.node, 'padding') == 'EXPLICIT' then
      attrs.padding_list, attrs.padding = h.node.attrs.explicit_paddings, nodes.text 'VALID'
    end
  else
    op = dtype == 'float32' and 'QuantizedMatMulWithBiasAndDequantize' or 'QuantizedMatMulWithBiasAndReluAndRequantize'
    attrs.T1, attrs.T2, attrs.Toutput = nodes.dtype(x.dtype), nodes.dtype 'qint8', nodes.dtype(dtype)
    attrs.input_quant_mode = nodes.text 'SCALED'
  end
  self.quantized[#self.quantized + 1] = { name = h.last.name, op = op }
  return self:add(name, op, inputs, attrs)
end

-- Ops that bytes go through as bytes, by op: each gets the rewriter, the node and what its first input is as bytes; and
-- adds the node `name`.
local stays = {}
local function pool(op)
  return function(self, n, x, name)
    local padding = nodes.attr(n, 'padding')
    if nodes.attr(n, 'data_format', 'NHWC') ~= 'NHWC' or (padding ~= 'SAME' and padding ~= 'VALID') then return nil end
    return self:add(name, op, { x.name, x.min, x.max },
                    { T = nodes.dtype(x.dtype), ksize = n.attrs.ksize, strides = n.attrs.strides,
                      padding = n.attrs.padding })
  end
end
local function rectifier(op)
  return function(self, n, x, name)
    if x.dtype ~= 'quint8' then return nil end
    return self:add(name, op, { x.name, x.min, x.max },
                    { Tinput = nodes.dtype 'quint8', out_type = nodes.dtype 'quint8' })
  end
end
stays.MaxPool, stays.AvgPool = pool 'QuantizedMaxPool', pool 'QuantizedAvgPool'
stays.Relu, stays.Relu6 = rectifier 'QuantizedRelu', rectifier 'QuantizedRelu6'
function stays.Reshape(self, n, x, name)
  if x.dtype ~= 'quint8' then return nil end
  self:need(n.inputs[2])
  return self:add(name, 'QuantizedReshape', { x.name, n.inputs[2], x.min, x.max },
                  { T = nodes.dtype 'quint8', Tshape = n.attrs.Tshape })
end
function stays.ConcatV2(self, n, x, name)
  local count, axis, values = #n.inputs - 1, constant(self.m, n.inputs[#n.inputs]), { x }
  local shape = self.m.values:output(full(n.inputs[1])).shape
  if not axis or not shape then return nil end
  for i = 1, count do
    values[i] = self:bytes(n.inputs[i])
    if not values[i] or values[i].dtype ~= 'quint8' then return nil end
  end
  axis = axis:item() < 0 and axis:item() + #shape or axis:item()
  local inputs = { self:constant(name .. '/axis', df.tensor(axis, 'int32'), source(n.inputs[1])) }
  for _, part in ipairs{ 'name', 'min', 'max' } do for _, v in ipairs(values) do inputs[#inputs + 1] = v[part] end end
  return self:add(name, 'QuantizedConcat', inputs, { T = nodes.dtype 'quint8', N = nodes.int(count) })
end

local function bytes_at(name, dtype) return { name = name, dtype = dtype, min = name .. ':1', max = name .. ':2' } end

--- The value of an input as bytes, { name =, dtype =, min =, max = }, where it is had so; nil where it is not.
function Rewriter:bytes(input)
  local from, index = source(input)
  local n, known_bytes = self.m.node[from], self.of_bytes[from]
  if index ~= 0 or known_bytes ~= nil then return index == 0 and known_bytes or nil end
  self.of_bytes[from] = false
  local h, result = self.heads[from], nil
  if h and (h.is_conv or h.rectified) then
    local dtype = h.rectified and 'quint8' or 'qint8'
    result = bytes_at(self:emit_head(h, from .. '/quantized', dtype), dtype)
  elseif not h and n.op == 'Identity' and #n.inputs == 1 then
    result = self:bytes(n.inputs[1])
  elseif not h and stays[n.op] then
    local x = self:bytes(n.inputs[1])
    local name = x and stays[n.op](self, n, x, from .. '/quantized')
    result = name and bytes_at(name, x.dtype)
  end
  self.of_bytes[from] = result or false
  return result
end

--- Has the node that an input names written, under its name.
function Rewriter:need(input)
  local from = source(input)
  if self.asked[from] then return end
  self.asked[from] = true
  self.queue[#self.queue + 1] = from
end

function Rewriter:write(name)
  local n, h = self.m.node[name], self.heads[name]
  local q = (h or stays[n.op]) and self:bytes(name)
  if q then
    self:add(name, 'Dequantize', { q.name, q.min, q.max }, { T = nodes.dtype(q.dtype), mode = nodes.text 'SCALED' })
  elseif h then
    self:emit_head(h, name, 'float32')
  else
    local inputs = {}
    for _, input in ipairs(n.inputs) do
      local from, index = source(input)
      if index or not constant(self.m, from) then         -- what is constant needs no order
        inputs[#inputs + 1] = input
        self:need(input)
      end
    end
    self.list[#self.list + 1] = { name = name, op = n.op, inputs = inputs, attrs = n.attrs, device = n.device }
  end
end

local function rewritten(m, heads, ranges, outputs)
  local r = setmetatable({ m = m, heads = heads, ranges = ranges, list = {}, made = {}, of_bytes = {}, asked = {},
                           queue = {}, quantized = {} }, Rewriter)
  for _, o in ipairs(outputs) do r:need(o.name) end
  for _, n in ipairs(m.list) do if n.op == 'Placeholder' then r:need(n.name) end end
  local i = 1
  while r.queue[i] do
    r:write(r.queue[i])
    i = i + 1
  end
  return r
end

-- ---- df.quantize_model ----------------------------------------------------------------------------------------------
--- df.quantize_model(outputs, {feeds =, ranges =, session =, skip =}): what these outputs need, computed in 8 bits, as
-- a graph of its own.
-- Convolutions and products with a constant or trained filter, and what is added and multiplied for each channel and
-- the ReLU behind them, become one op of bytes; pools, reshapes and concatenations between them stay bytes. In loops
-- and branches, too.
-- @param outputs  an Output, or a list of them, of one graph
-- @param feeds    feeds {[x] = value} of that graph, a list of such, or a function that gives one after the other: the
--                 graph is run with each, and what values were is their range
-- @param ranges   {[x or its name] = {least, greatest}}: ranges that are known; those of a result are in its .ranges
-- @param session  has the variables' values (default: the default session)
-- @param skip     function(name): true for what is to stay in floats
-- @return         a Graph that has placeholders and outputs under the same names; .inputs and .outputs list them,
--                 .quantized says what became of bytes
function M.quantize_model(outputs, opts)
  opts = errors.options(opts, 'quantize_model', known)
  local list = errors.is_data(outputs) and outputs or { outputs }
  local flat = {}
  for i, o in ipairs(list) do flat[i] = convert.to_output(o) end
  if #flat == 0 then errors.bad 'quantize_model takes an Output or a list of them: there are none' end
  if opts.skip ~= nil and type(opts.skip) ~= 'function' then
    errors.bad('quantize_model: skip is a function of a name, not %s', errors.describe(opts.skip))
  end
  local m = take_apart(flat, opts.session)
  local heads, count = find_heads(m, opts.skip)
  if count == 0 then
    errors.bad('quantize_model: %s needs no Conv2D or MatMul of float32 with a constant or trained filter, so there '
               .. 'is nothing to quantise', flat[1].name)
  end
  local ranges, missing, names = given_ranges(opts.ranges), {}, needed(heads)
  for _, name in ipairs(names) do if not ranges[name] then missing[#missing + 1] = name end end
  if opts.feeds ~= nil and #missing > 0 then
    calibrate(m, missing, flat, opts.feeds, ranges)
  end
  for _, name in ipairs(missing) do
    if not ranges[name] then
      errors.bad(opts.feeds and 'quantize_model: %s was never computed with these feeds: its range has to be in '
                                .. '`ranges`'
                 or 'quantize_model: the range of %s is not known: give `feeds` to find it, or it in `ranges`', name)
    end
  end
  local r = rewritten(m, heads, ranges, flat)
  local g = df.import_graph_def(nodes.write(r.list, m.rest))
  g.inputs, g.outputs, g.ranges, g.quantized = {}, {}, ranges, r.quantized
  for i, o in ipairs(flat) do g.outputs[i] = g:output(o.name) end
  for _, n in ipairs(m.list) do if n.op == 'Placeholder' then g.inputs[#g.inputs + 1] = g:output(n.name) end end
  return g
end

return M
