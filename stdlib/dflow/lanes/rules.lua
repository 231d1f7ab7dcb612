--- What each op becomes when its operands have lanes at axis 0. An op that is in none of these lists is computed one
-- lane after the other.
local core = require 'dflow.backend'
local graph = require 'dflow.front.graph'
local registry = require 'dflow.front.registry'
local ops = require 'dflow.front.ops'
local batch = require 'dflow.lanes.batch'

local f, rules, ints, lift, rank = ops.functions, batch.rules, batch.ints, batch.lift, batch.rank
local unpack = table.unpack or unpack

local function names(text)
  local i = text:gmatch '%S+'
  return function() return i() end
end

-- ---- helpers --------------------------------------------------------------------------------------------------------
--- The whole numbers of the node's operand k, from 0, where they are known while the graph is built; nil otherwise.
local function known(self, node, k)
  local t = core.output_constant(self.handle, core.node_input_of(self.handle, node, k))
  if not t then return nil end
  local list = t:list()
  for i, v in ipairs(list) do list[i] = tonumber(v) end
  return list
end
local function lanes(o, set) return { o = o, set = set } end
--- The node's outputs as values of these lanes.
local function all(outputs, set)
  for k, o in ipairs(outputs) do outputs[k] = { o = o, set = set } end
  return outputs
end
local function one(set) return f.reshape(set.size, ints{ 1 }) end
--- Lists of whole numbers with one for the lanes in front.
local function led(first, o, set)
  first = first == 'lanes' and one(set) or ints{ first }
  return f.concat({ f.cast(first, o.dtype), o }, 0)
end
local function shape_of(v) return v.o.shape end
--- Where the lanes' elements lie when the lanes are laid behind each other.
local function reshape(o, dims) return f.reshape(o, ints(dims)) end
local function list_of(shape, from)
  local out = {}
  for k = from, #shape do
    if shape[k] < 0 then return nil end
    out[#out + 1] = shape[k]
  end
  return out
end

--- The op on operand 1 with lanes, the others as they are, if those are the same for all lanes.
local function leading(change)
  return function(self, node, v, set)
    for k = 2, #v do if v[k].set then return nil end end
    local inputs = { lift(v[1], set) }
    for k = 2, #v do inputs[k] = v[k].o end
    local attrs
    if change then
      attrs = change(self, node, v, inputs, set)
      if attrs == false then return nil end
    end
    return all(self:again(node, inputs, attrs), set)
  end
end
--- The op on the last axes: lanes are more of the first.
for name in names [[Softmax LogSoftmax TopKV2 TopK Cholesky MatrixInverse MatrixDeterminant LogMatrixDeterminant Qr Svd
    SelfAdjointEigV2 MatrixDiag MatrixDiagPart MatrixBandPart FFT FFT2D IFFT IFFT2D RFFT IRFFT RFFTGrad IRFFTGrad
    RGBToHSV HSVToRGB Lu AdjustContrastv2 AdjustHue AdjustSaturation FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars
    FakeQuantWithMinMaxVarsPerChannel]] do
  rules[name] = leading(function(_, _, v) if not rank(v[1]) or rank(v[1]) == 0 then return false end end)
end
for name in names 'MatrixSolve MatrixSetDiag' do
  rules[name] = function(self, node, v, set) return all(self:again(node, { lift(v[1], set), lift(v[2], set) }), set) end
end
for name in names 'Cross TakeAlong TridiagonalSolve' do rules[name] = rules.MatrixSolve end
rules.PutAlong = function(self, node, v, set)
  return not v[3].set and all(self:again(node, { lift(v[1], set), lift(v[2], set), v[3].o }), set) or nil
end
function rules.MatrixTriangularSolve(self, node, v, set)
  local operands = batch.aligned(v, set)
  return operands and all(self:again(node, operands), set)
end
rules.AddN = function(self, node, v, set)
  local inputs = {}
  for k, x in ipairs(v) do inputs[k] = lift(x, set) end
  return { lanes(registry.op('AddN', { inputs }), set) }
end
rules.AccumulateNV2 = rules.AddN
rules.IdentityN = function(self, node, v, set)
  local inputs = {}
  for k, x in ipairs(v) do inputs[k] = x.set and lift(x, set) or x.o end
  local out = self:again(node, inputs)
  for k, o in ipairs(out) do out[k] = { o = o, set = v[k].set and set } end
  return out
end
rules.Bitcast = leading()
--- One dimension or two; several are transposed into each other.
local function diagonal(name, most)
  return function(_, _, v, set)
    return rank(v[1]) == most and v[1].o.dtype ~= 'string' and { lanes(f[name](lift(v[1], set)), set) } or nil
  end
end
rules.Diag, rules.DiagPart = diagonal('matrix_diag', 1), diagonal('matrix_diag_part', 2)

-- ---- axes -----------------------------------------------------------------------------------------------------------
--- An axis, or a list of them, behind the lanes: those that count from the end stay.
local function moved(o) return f.select_v2(f.less(o, f.zeros_like(o)), o, f.add(o, f.ones_like(o))) end
local function behind(self, node, k, o, count)
  local list = known(self, node, k)
  if not list then return moved(o) end
  for i, a in ipairs(list) do list[i] = a < 0 and a or a + 1 end
  return f.constant(require('dflow.front.tensor').tensor(list, o.dtype, count or o.shape))
end
local along_axes = leading(function(self, node, _, inputs) inputs[2] = behind(self, node, 1, inputs[2]) end)
for name in names 'ReverseV2 ArgMax ArgMin Cumsum Cumprod ExpandDims' do rules[name] = along_axes end
for _, name in pairs(registry.reductions()) do rules[name] = along_axes end
local function axis_attribute(name, default)
  return function(self, node)
    local a = core.node_attr(self.handle, node, name) or default
    return { [name] = a < 0 and a or a + 1 }
  end
end
rules.Squeeze = leading(function(self, node, v)
  local s, attrs = shape_of(v[1]), self:attributes(node)
  local field = attrs.squeeze_dims and 'squeeze_dims' or 'axis'
  local list = attrs[field] or {}
  if not s then return false end
  local out = {}
  if #list == 0 then
    for k = 2, #s do if s[k] == 1 then out[#out + 1] = k - 1 elseif s[k] < 0 then return false end end
    if #out == 0 then return { [field] = { #s } } and false end
  else
    for i, a in ipairs(list) do out[i] = a < 0 and a or a + 1 end
  end
  return { [field] = out }
end)
local function joined(axis_at)
  return function(self, node, v, set)
    local inputs, axis = {}, axis_at == 'last' and #v or 1
    if v[axis].set then return nil end
    for k, x in ipairs(v) do inputs[k] = k == axis and behind(self, node, k - 1, x.o) or lift(x, set) end
    return all(self:again(node, inputs), set)
  end
end
rules.ConcatV2, rules.Concat = joined 'last', joined 'first'
rules.Pack = function(self, node, v, set)
  local inputs = {}
  for k, x in ipairs(v) do inputs[k] = lift(x, set) end
  return all(self:again(node, inputs, axis_attribute('axis', 0)(self, node)), set)
end
rules.Unpack = leading(axis_attribute('axis', 0))
rules.Split = function(self, node, v, set)
  if v[1].set then return nil end
  return all(self:again(node, { behind(self, node, 0, v[1].o), lift(v[2], set) }), set)
end
rules.SplitV = leading(function(self, node, _, inputs) inputs[3] = behind(self, node, 2, inputs[3]) end)
rules.Roll = function(self, node, v, set)
  if v[2].set or v[3].set then return nil end
  return all(self:again(node, { lift(v[1], set), v[2].o, behind(self, node, 2, v[3].o) }), set)
end
rules.LinearRecurrence = function(self, node, v, set)
  if v[3].set then return nil end
  return all(self:again(node, { lift(v[1], set), lift(v[2], set), behind(self, node, 2, v[3].o) }), set)
end
rules.Transpose = leading(
    function(self, node, v, inputs, set) inputs[2] = led(0, f.add(inputs[2], f.ones_like(inputs[2])), set) end)
rules.ConjugateTranspose = rules.Transpose

-- ---- shapes ---------------------------------------------------------------------------------------------------------
rules.Reshape = leading(function(self, node, v, inputs, set)
  local wanted = graph.output(self.g, node, 0).shape
  local dims = wanted and list_of(wanted, 1)
  if dims and set.n >= 0 then inputs[2] = ints{ set.n, unpack(dims) }
  elseif dims then inputs[2] = f.concat({ one(set), ints(dims) }, 0)
  else inputs[2] = led('lanes', inputs[2], set) end
end)
rules.BroadcastTo = function(self, node, v, set)
  local wanted = graph.output(self.g, node, 0).shape
  if v[2].set or not wanted or not rank(v[1]) then return nil end
  local x = batch.aligned({ { o = lift(v[1], set), set = set }, { o = f.zeros(#wanted == 0 and {} or (function()
    local ones = {}
    for k = 1, #wanted do ones[k] = 1 end
    return ones
  end)()) } }, set)
  return { lanes(f.broadcast_to(x[1], led('lanes', v[2].o, set)), set) }
end
rules.Tile = leading(function(_, _, _, inputs, set) inputs[2] = led(1, inputs[2], set) end)
local function pads(_, _, _, inputs)
  inputs[2] = f.concat({ f.zeros({ 1, 2 }, { dtype = inputs[2].dtype }), inputs[2] }, 0)
end
for name in names 'Pad PadV2 MirrorPad MirrorPadGrad' do rules[name] = leading(pads) end
rules.EnsureShape = leading(function(self, node, _, _, set)
  local shape = self:attributes(node).shape
  return shape and { shape = { set.n, unpack(shape) } }
end)
rules.Shape = function(self, node, v)
  if not v[1].set then return nil end
  return { { o = f.cast(batch.lane_shape(v[1]), graph.output(self.g, node, 0).dtype) } }
end
rules.ShapeN = function(self, node, v)
  local out = {}
  for k, x in ipairs(v) do
    local dims = x.set and batch.lane_shape(x) or f.shape(x.o)
    out[k] = { o = f.cast(dims, graph.output(self.g, node, k - 1).dtype) }
  end
  return out
end
rules.Size = function(self, node, v)
  if not v[1].set then return nil end
  return { { o = f.cast(f.reduce_prod(batch.lane_shape(v[1])), graph.output(self.g, node, 0).dtype) } }
end
rules.Rank = function(_, _, v) return rank(v[1]) and { { o = f.constant(rank(v[1]), 'int32') } } or nil end
rules.Fill = function(_, _, v, set)
  if v[1].set then return nil end
  local wide = v[1].o.shape and v[1].o.shape[1]
  if not wide or wide < 0 then return nil end
  local ones = { -1 }
  for k = 1, wide do ones[k + 1] = 1 end
  return { lanes(f.broadcast_to(reshape(lift(v[2], set), ones), led('lanes', v[1].o, set)), set) }
end
rules.SumToShape = function(self, node, v, set)
  local wanted = graph.output(self.g, node, 0).shape
  if v[2].set or not wanted or not rank(v[1]) then return nil end
  local ones = {}
  for k = 1, rank(v[1]) - #wanted do ones[k] = 1 end
  local o = self:again(node, { lift(v[1], set), f.concat({ one(set), ints(ones), f.cast(v[2].o, 'int32') }, 0) })[1]
  return { lanes(f.reshape(o, led('lanes', v[2].o, set)), set) }
end

--- Slices where the lanes begin at the same place; where not, elements are gathered.
rules.Slice = function(self, node, v, set)
  local x = lift(v[1], set)
  if not v[2].set and not v[3].set then
    return all(self:again(node, { x, led(0, v[2].o, set), led(-1, v[3].o, set) }), set)
  end
  local sizes, dims = graph.output(self.g, node, 0).shape, v[1].o.shape
  dims, sizes = dims and list_of(dims, v[1].set and 2 or 1), sizes and list_of(sizes, 1)
  if v[3].set or not sizes or not dims or #dims == 0 then return nil end
  local begin, flat, stride, total = lift(v[2], set), nil, 1, 1
  for _, d in ipairs(dims) do total = total * d end
  for k = #dims, 1, -1 do
    local shape = {}
    for i = 1, #dims do shape[i] = i == k and sizes[k] or 1 end
    local at = f.add(reshape(f.slice(begin, ints{ 0, k - 1 }, ints{ -1, 1 }),
                             { -1, unpack((function() local o = {} for i = 1, #dims do o[i] = 1 end return o end)()) }),
                     reshape(f.cast(f.range(f.constant(0, 'int32'), f.constant(sizes[k], 'int32'),
                                            f.constant(1, 'int32')), begin.dtype), { 1, unpack(shape) }))
    at = f.multiply(at, f.constant(stride, begin.dtype))
    flat = flat and f.add(flat, at) or at
    stride = stride * dims[k]
  end
  return { lanes(f.gather(reshape(x, { -1, total }), flat, 1, { batch_dims = 1 }), set) }
end
local function strided(self, node, inputs, set)
  local a = self:attributes(node)
  inputs[2], inputs[3], inputs[4] = led(0, inputs[2], set), led(0, inputs[3], set), led(1, inputs[4], set)
  return { begin_mask = 2 * (a.begin_mask or 0) + 1, end_mask = 2 * (a.end_mask or 0) + 1,
           ellipsis_mask = 2 * (a.ellipsis_mask or 0),
           new_axis_mask = 2 * (a.new_axis_mask or 0), shrink_axis_mask = 2 * (a.shrink_axis_mask or 0) }
end
rules.StridedSlice = leading(function(self, node, _, inputs, set) return strided(self, node, inputs, set) end)
rules.StridedSliceGrad = function(self, node, v, set)
  for k = 1, 4 do if v[k].set then return nil end end
  local inputs = { led('lanes', v[1].o, set), v[2].o, v[3].o, v[4].o, lift(v[5], set) }
  return all(self:again(node, inputs, strided(self, node, inputs, set)), set)
end

-- ---- gather, scatter ------------------------------------------------------------------------------------------------
--- Elements params[i] for each lane, the lanes' params laid behind each other: nothing of those is copied, also for a
-- part of the lanes.
local function rows(params, index, set)
  local s = shape_of(params)
  local inner = s and list_of(s, 3)
  if not inner or s[2] < 0 then return nil end
  local at = batch.places(set, params.set) or batch.numbers(set)
  local i = lift(index, set)
  local ones = { -1 }
  for k = 1, rank(index) do ones[k + 1] = 1 end
  local checked = f.add(f.multiply(reshape(f.cast(at, i.dtype), ones), f.constant(s[2], i.dtype)), i)
  -- An index outside of its own lane must not reach into another's: it is an error of Gather's, as without lanes.
  local outside = f.logical_or(f.less(i, f.constant(0, i.dtype)), f.greater_equal(i, f.constant(s[2], i.dtype)))
  checked = f.select_v2(outside, f.constant(-1, i.dtype), checked)
  return f.gather(reshape(params.o, { -1, unpack(inner) }), checked)
end
local function gather(self, node, v, set, axis, dims)
  local params, index = v[1], v[2]
  if not index.set then
    if dims > 0 then index = lanes(lift(index, set), set) end
    return f.gather(lift(params, set), index.o, axis < 0 and axis or axis + 1,
                    { batch_dims = dims > 0 and dims + 1 or 0 })
  end
  if not params.set and dims == 0 then
    local r = rank(params)
    if axis < 0 then
      if not r then return nil end
      axis = axis + r
    end
    local o = f.gather(params.o, lift(index, set), axis)
    if axis == 0 then return o end
    if not o.shape then return nil end
    local perm = { axis }
    for k = 0, #o.shape - 1 do if k ~= axis then perm[#perm + 1] = k end end
    return f.transpose(o, ints(perm))
  end
  if params.set and axis == 0 and dims == 0 and rank(index) then
    local o = rows(params, index, set)
    if o then return o end
  end
  return f.gather(lift(params, set), lift(index, set), axis < 0 and axis or axis + 1, { batch_dims = dims + 1 })
end
rules.GatherV2 = function(self, node, v, set)
  local axis = known(self, node, 2)
  if v[3].set or not axis then return nil end
  local o = gather(self, node, v, set, axis[1], core.node_attr(self.handle, node, 'batch_dims') or 0)
  return o and { lanes(o, set) } or nil
end
rules.Gather = function(self, node, v, set)
  local o = gather(self, node, v, set, 0, 0)
  return o and { lanes(o, set) } or nil
end
rules.GatherGrad = function(self, node, v, set)
  local axis, dims = known(self, node, 2), core.node_attr(self.handle, node, 'batch_dims') or 0
  if v[1].set or v[3].set or not axis then return nil end
  local own = v[2].set or dims > 0
  local at = axis[1] < 0 and axis[1] or axis[1] + 1
  local inputs = { led('lanes', v[1].o, set), own and lift(v[2], set) or v[2].o, f.constant(at, v[3].o.dtype),
                   lift(v[4], set) }
  return all(self:again(node, inputs, { batch_dims = own and dims + 1 or 0 }), set)
end
rules.ResourceGather = function(self, node, v, set)
  if v[1].renewed then return { lanes(gather(self, node, { v[1].renewed, v[2] }, set, 0, 0), set) } end
  return all(self:again(node, { v[1].o, lift(v[2], set) }), set)
end
--- Coordinates with that of the lane in front.
local function with_lane(index, set)
  local i = lift(index, set)
  local ones = { -1 }
  for k = 1, rank(index) do ones[k + 1] = 1 end
  local lane, shape = reshape(f.cast(batch.numbers(set), i.dtype), ones), i.shape and list_of(i.shape, 1)
  if shape then shape[#shape] = 1 end
  lane = f.broadcast_to(lane, shape and ints(shape)
                        or f.concat({ f.slice(f.shape(i), ints{ 0 }, ints{ rank(index) }), ints{ 1 } }, 0))
  return f.concat({ lane, i }, -1)
end
rules.GatherNd = function(self, node, v, set)
  if not rank(v[2]) then return nil end
  if not v[1].set then return all(self:again(node, { v[1].o, lift(v[2], set) }), set) end
  return { lanes(f.gather_nd(lift(v[1], set), with_lane(v[2], set)), set) }
end
rules.ScatterNd = function(self, node, v, set)
  if v[3].set or not rank(v[1]) then return nil end
  return all(self:again(node, { with_lane(v[1], set), lift(v[2], set), led('lanes', v[3].o, set) }), set)
end
for name in names 'TensorScatterUpdate TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin' do
  rules[name] = function(self, node, v, set)
    if not rank(v[2]) then return nil end
    return all(self:again(node, { lift(v[1], set), with_lane(v[2], set), lift(v[3], set) }), set)
  end
end
for name in names 'UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd' do
  rules[name] = function(self, node, v, set)
    local s, r = v[1].o.shape, rank(v[2])
    local rest = s and r and list_of(s, r + (v[1].set and 2 or 1))
    if v[3].set or not rest then return nil end
    local n = f.cast(v[3].o, v[2].o.dtype)
    local ids, ones = lift(v[2], set), { -1 }
    for k = 1, r do ones[k + 1] = 1 end
    local lane = f.multiply(reshape(f.cast(batch.numbers(set), ids.dtype), ones), n)
    ids = f.select_v2(f.logical_or(f.less(ids, f.zeros_like(ids)), f.greater_equal(ids, n)), f.constant(-1, ids.dtype),
                      f.add(ids, lane))
    local o = self:again(node, { reshape(lift(v[1], set), { -1, unpack(rest) }), reshape(ids, { -1 }),
                                 f.cast(f.multiply(n, f.cast(set.size, n.dtype)), v[3].o.dtype) })[1]
    return { lanes(f.reshape(o, f.concat({ one(set), f.reshape(f.cast(n, 'int32'), ints{ 1 }), ints(rest) }, 0)), set) }
  end
end
rules.OneHot = function(self, node, v, set)
  if v[2].set or v[3].set or v[4].set then return nil end
  return all(self:again(node, { lift(v[1], set), v[2].o, v[3].o, v[4].o }, axis_attribute('axis', -1)(self, node)), set)
end
rules.Select = function(self, node, v, set)
  local c, r = rank(v[1]), rank(v[2])
  if not c or not r then return nil end
  local p = lift(v[1], set)
  if c < r then                                  -- a scalar, or one bool a row
    local shape = { v[1].set and -1 or -1 }
    for k = 1, r do shape[k + 1] = 1 end
    if c == 1 then
      local n = v[1].o.shape[v[1].set and 2 or 1]
      if n < 0 then return nil end
      shape[2] = n
    end
    p = reshape(p, shape)
  end
  return { lanes(f.select_v2(p, lift(v[2], set), lift(v[3], set)), set) }
end

-- ---- products -------------------------------------------------------------------------------------------------------
rules.MatMul = function(self, node, v, set)
  local ta, tb = core.node_attr(self.handle, node, 'transpose_a'), core.node_attr(self.handle, node, 'transpose_b')
  local s = v[1].o.shape
  if not v[2].set and not ta and s and s[3] and s[3] >= 0 then
    -- One product over the rows of all lanes.
    local o = self:again(node, { reshape(lift(v[1], set), { -1, s[3] }), v[2].o })[1]
    local columns = o.shape[2]
    local lane = s[2] >= 0 and reshape(o, { -1, s[2], columns })
      or f.reshape(o, f.concat({ one(set), ints{ -1, columns } }, 0))
    if s[2] == 0 or columns < 0 then return nil end
    return { lanes(lane, set) }
  end
  return { lanes(registry.op('BatchMatMulV2', { v[1].set and lift(v[1], set) or f.expand_dims(v[1].o, 0), v[2].set
      and lift(v[2], set) or f.expand_dims(v[2].o, 0) },
                             { adj_x = ta, adj_y = tb }), set) }
end
for name in names 'BatchMatMul BatchMatMulV2 BatchMatMulV3' do
  rules[name] = function(self, node, v, set)
    local operands = batch.aligned(v, set)
    if not operands then return nil end
    if name == 'BatchMatMulV3' then return all(self:again(node, operands), set) end
    local a = self:attributes(node)
    return { lanes(registry.op('BatchMatMulV2', operands, { adj_x = a.adj_x, adj_y = a.adj_y }), set) }
  end
end
rules.Einsum = function(self, node, v, set)
  local equation = self:attributes(node).equation
  local left, right = equation:gsub('%s', ''):match '^(.-)%->(.*)$'
  if not left or equation:find('.', 1, true) then return nil end
  local letter
  for c in ('ZYXWVUTSRQPONMLKJIHGFEDCBA'):gmatch '.' do
    if not equation:find(c, 1, true) then letter = letter or c end
  end
  if not letter then return nil end
  local terms, inputs, k = {}, {}, 0
  for term in (left .. ','):gmatch '(.-),' do
    k = k + 1
    terms[k], inputs[k] = v[k].set and letter .. term or term, v[k].set and lift(v[k], set) or v[k].o
  end
  return all(self:again(node, inputs, { equation = table.concat(terms, ',') .. '->' .. letter .. right }), set)
end
--- Queries, keys, values and what else has their leading axes; then the mask, which broadcasts.
for name, count in pairs{ ScaledDotProductAttention = 3, ScaledDotProductAttentionGrad = 6 } do
  rules[name] = function(self, node, v, set)
    local inputs, mask = {}, v[count + 1]
    for k = 1, count do inputs[k] = lift(v[k], set) end
    if mask then
      local both = batch.aligned({ { o = inputs[1], set = set }, mask }, set)
      if not both then return nil end
      inputs[count + 1] = both[2]
    end
    return all(self:again(node, inputs), set)
  end
end
rules.BiasAdd = function(self, node, v, set)
  local format = core.node_attr(self.handle, node, 'data_format')
  if format and format ~= 'NHWC' and format ~= '' then return nil end
  local operands = batch.aligned(v, set)
  return operands and { lanes(f.add(operands[1], operands[2]), set) } or nil
end
rules.BiasAddV1 = rules.BiasAdd
rules.BiasAddGrad = function(self, node, v, set)
  local format, r, axes = core.node_attr(self.handle, node, 'data_format'), rank(v[1]), {}
  if not r or (format and format ~= 'NHWC' and format ~= '') then return nil end
  for k = 1, r - 1 do axes[k] = k end
  return { lanes(#axes == 0 and lift(v[1], set) or f.reduce_sum(lift(v[1], set), { axis = axes }), set) }
end
rules.L2Loss = function(_, _, v, set)
  local x, r, axes = lift(v[1], set), rank(v[1]), {}
  if not r then return nil end
  for k = 1, r do axes[k] = k end
  return { lanes(f.multiply(f.reduce_sum(f.square(x), { axis = axes }), f.constant(0.5, x.dtype)), set) }
end

-- ---- batches --------------------------------------------------------------------------------------------------------
-- Ops whose first dimension counts examples that do not meet: lanes are more of them. `shared`: operands from that one
-- on have none.
local function batches(shared)
  return function(self, node, v, set)
    local inputs, count = {}, nil
    for k, x in ipairs(v) do
      if k < shared then
        local o = lift(x, set)
        local s = o.shape
        local rest = s and list_of(s, 3)
        if not rest or s[2] < 0 then return nil end
        count = s[2]
        inputs[k] = reshape(o, { -1, unpack(rest) })
      else
        if x.set then return nil end
        inputs[k] = x.o
      end
    end
    if count == 0 then return nil end
    local out = self:again(node, inputs)
    for k, o in ipairs(out) do
      local rest = o.shape and list_of(o.shape, 2)
      if not rest then return nil end
      out[k] = lanes(reshape(o, { -1, count, unpack(rest) }), set)
    end
    return out
  end
end
for name in names [[Conv2D Conv3D DepthwiseConv2dNative ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea
                    Dilation2D]] do
  rules[name] = batches(2)
end
--- The sizes of the input, which count all lanes' examples; the filter, if there is one; the gradient.
for name in names [[Conv2DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropInput AvgPoolGrad
                    AvgPool3DGrad]] do
  rules[name] = function(self, node, v, set)
    local sizes, dy = known(self, node, 0), v[#v].set and lift(v[#v], set)
    local rest = dy and dy.shape and list_of(dy.shape, 3)
    if not sizes or #v == 3 and v[2].set or not rest or sizes[1] == 0 or set.n < 0 then return nil end
    local own = { set.n, unpack(sizes) }
    sizes[1] = sizes[1] * set.n
    local inputs = { ints(sizes), v[2].o }
    inputs[#v] = reshape(dy, { -1, unpack(rest) })
    return { lanes(reshape(self:again(node, inputs)[1], own), set) }
  end
end
rules.LSTMBlockCell, rules.GRUBlockCell = batches(4), batches(3)
for name in names [[MaxPool AvgPool MaxPoolGrad MaxPoolGradGrad MaxPool3D AvgPool3D MaxPool3DGrad MaxPool3DGradGrad LRN
                    DepthToSpace SpaceToDepth ResizeBilinearGrad ResizeBicubicGrad InTopK]] do
  rules[name] = batches(99)
end
for name in names 'SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits' do
  local many = batches(99)
  rules[name] = function(self, node, v, set)
    if rank(v[1]) ~= 1 then return many(self, node, v, set) end
    return all(self:again(node, { lift(v[1], set), lift(v[2], set) }), set)       -- a lane is an example
  end
end

-- ---- variables, random numbers, checks ------------------------------------------------------------------------------
rules.ReadVariableOp = function(_, _, v) return v[1].renewed and { v[1].renewed } or nil end
for name in names 'RandomUniform RandomStandardNormal TruncatedNormal RandomUniformInt' do
  rules[name] = function(self, node, v, _, scope)
    local set = scope.set
    for _, x in ipairs(v) do if x.set then return nil end end
    local inputs = { f.concat({ f.cast(one(set), v[1].o.dtype), v[1].o }, 0) }
    for k = 2, #v do inputs[k] = v[k].o end
    local wanted = graph.output(self.g, node, 0).shape
    local dims = wanted and list_of(wanted, 1)
    if dims and set.n >= 0 then inputs[1] = f.cast(ints{ set.n, unpack(dims) }, v[1].o.dtype) end
    return all(self:again(node, inputs), set)
  end
end
rules.Assert = function(self, node, v, set)
  local inputs = {}
  for k, x in ipairs(v) do inputs[k] = k == 1 and f.reduce_all(lift(x, set)) or x.o end
  return all(self:again(node, inputs), nil)
end
rules.Print = function(self, node, v, set)
  local inputs = {}
  for k, x in ipairs(v) do inputs[k] = x.o end
  return all(self:again(node, inputs), v[1].set and set or nil)
end
