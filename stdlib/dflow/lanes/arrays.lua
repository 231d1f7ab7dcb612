--- TensorArrays by lanes.
--
-- An array whose elements do not differ by lane is one array. Where all lanes write and read at the same place, it is an array of elements
-- with lanes at axis 0 ('lock'). Where their places differ, it is a tensor [lanes, size, element] ('dense'). Arrays keep the lanes that
-- they were made for: those of a part of them write to, and read from, their own rows.
local core = require 'dflow.backend'
local dtypes = require 'dflow.front.dtypes'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local registry = require 'dflow.front.registry'
local ops = require 'dflow.front.ops'
local batch = require 'dflow.lanes.batch'

local f, rules, ints, lift = ops.functions, batch.rules, batch.ints, batch.lift

local function refuse(self, node, why)
  errors.raise('unimplemented', 'vmap: %s (%s): %s', core.node_name_of(self.handle, node), core.node_type(self.handle, node), why)
end

--- Dimensions 0 and 1 change places.
local function turned(o)
  local s = o.shape or errors.bad 'vmap: a TensorArray of elements whose rank is not known'
  local perm = { 1, 0 }
  for k = 3, #s do perm[k] = k - 1 end
  return f.transpose(o, ints(perm))
end
--- Where the lanes at hand lie among those of the array, int32[lanes].
local function rows_of(scope, v) return batch.places(scope.set, v.set) or batch.numbers(v.set) end

--- The rows of an array's lanes that are at hand.
local function mine(o, v, scope)
  local at = batch.places(scope.set, v.set)
  return { o = at and f.gather(o, at) or o, set = scope.set }
end
--- A value for all lanes of the array, zeros where a lane is not at hand.
local function theirs(x, v, scope)
  local at = batch.places(scope.set, v.set)
  local o = lift(x, scope.set)
  if not at then return o end
  return f.scatter_nd(f.expand_dims(at, 1), o, batch.with_lanes(v.set, batch.lane_shape{ o = o, set = scope.set }))
end
--- Indices [lanes, 2] of one element for each lane at hand.
local function pairs_of(scope, v, place)
  return f.stack({ rows_of(scope, v), lift(place, scope.set) }, { axis = 1 })
end

--- The dimensions of an element, which something that is written says, or the array itself.
local function element_shape(self, node)
  local shape = self:attributes(node).element_shape
  if shape then return shape end
  for other = self.first, self.last - 1 do
    local t = core.node_type(self.handle, other)
    if (t == 'TensorArrayWrite' or t == 'TensorArrayUnstack' or t == 'TensorArrayScatter') and self.family(other) == self.family(node) then
      local from, index = core.node_input_of(self.handle, other, t == 'TensorArrayUnstack' and 1 or 2)
      shape = graph.output(self.g, from, index).shape
      if shape then return t == 'TensorArrayWrite' and shape or { (table.unpack or unpack)(shape, 2) } end
    end
  end
end

rules.TensorArray = function(self, node, values, _, scope)
  local about = self.arrays[self.family(node)]
  if not about or not (about.varies or about.places) then
    local v = self:plain(node, values)[1]
    v.array, v.d = 'shared', self:attributes(node).dtype
    return { v }
  end
  local attrs = self:attributes(node)
  local d = attrs.dtype
  if type(d) ~= 'number' then d = dtypes.of(d) end
  if values[1].set then refuse(self, node, 'its size differs by lane') end
  local v = { set = scope.set, d = d, size = values[1].o }
  if about.places then
    local shape = element_shape(self, node)
    if not shape then refuse(self, node, 'lanes write to different places, and the shape of its elements is not known: give element_shape') end
    for _, dim in ipairs(shape) do if dim < 0 then refuse(self, node, 'lanes write to different places, and the shape of its elements is not known') end end
    if attrs.dynamic_size then refuse(self, node, 'lanes write to different places of an array that grows') end
    v.array = 'dense'
    v.o = f.zeros(f.concat({ f.reshape(scope.set.size, ints{ 1 }), f.reshape(values[1].o, ints{ 1 }), ints(shape) }, 0), { dtype = dtypes.name[d] })
    local size = core.output_constant(self.handle, core.node_input_of(self.handle, node, 0))
    if size then core.output_set_shape(self.handle, v.o.node, v.o.index, { scope.set.n, tonumber(size:item()), (table.unpack or unpack)(shape) }) end
  else
    v.array = 'lock'
    local shape = attrs.element_shape
    v.o = self:again(node, { values[1].o }, { element_shape = shape and { scope.set.n, (table.unpack or unpack)(shape) } or nil })[1]
  end
  return { v }
end

local function with(v, o)
  return { array = v.array, set = v.set, d = v.d, size = v.size, o = o }
end
--- The op on an array of elements that have lanes now, whatever shape was known of them.
local function again(self, node, inputs)
  return self:again(node, inputs, self:attributes(node).element_shape and { element_shape = false } or nil)[1]
end
--- The op on an array that all lanes share.
local function shared(self, node, values)
  local out = self:plain(node, values)
  if out[1] and graph.dtype(out[1].o) == dtypes.RESOURCE then out[1] = with(values[1], out[1].o) end
  return out
end

rules.TensorArrayWrite = function(self, node, values, _, scope)
  local v, place, x = values[1], values[2], values[3]
  if v.array == 'shared' then return shared(self, node, values) end
  if v.array == 'lock' then return { with(v, self:again(node, { v.o, place.o, theirs(x, v, scope) })[1]) } end
  return { with(v, registry.op('TensorScatterUpdate', { v.o, pairs_of(scope, v, place), lift(x, scope.set) })) }
end
rules.TensorArrayRead = function(self, node, values, _, scope)
  local v, place = values[1], values[2]
  if v.array == 'shared' then return shared(self, node, values) end
  if v.array == 'lock' then return { mine(again(self, node, { v.o, place.o }), v, scope) } end
  return { { o = f.gather_nd(v.o, pairs_of(scope, v, place)), set = scope.set } }
end
rules.TensorArrayStack = function(self, node, values, _, scope)
  local v = values[1]
  if v.array == 'shared' then return shared(self, node, values) end
  return { mine(v.array == 'dense' and v.o or turned(again(self, node, { v.o })), v, scope) }
end
rules.TensorArrayUnstack = function(self, node, values, _, scope)
  local v = values[1]
  if v.array == 'shared' then return shared(self, node, values) end
  local t = theirs(values[2], v, scope)
  return { with(v, v.array == 'dense' and t or self:again(node, { v.o, turned(t) })[1]) }
end
rules.TensorArrayGather = function(self, node, values, _, scope)
  local v, places = values[1], values[2]
  if v.array == 'shared' then return shared(self, node, values) end
  if v.array == 'lock' then return { mine(turned(again(self, node, { v.o, places.o })), v, scope) } end
  local own = mine(v.o, v, scope)
  return { { o = f.gather(own.o, lift(places, scope.set), 1, { batch_dims = 1 }), set = scope.set } }
end
rules.TensorArrayScatter = function(self, node, values, _, scope)
  local v, places, t = values[1], values[2], values[3]
  if v.array == 'shared' then return shared(self, node, values) end
  if v.array == 'lock' then return { with(v, self:again(node, { v.o, places.o, turned(theirs(t, v, scope)) })[1]) } end
  local at = lift(places, scope.set)                                            -- [lanes, k]
  local rows = f.broadcast_to(f.expand_dims(rows_of(scope, v), 1), f.shape(at))
  return { with(v, registry.op('TensorScatterUpdate', { v.o, f.stack({ rows, at }, { axis = 2 }), lift(t, scope.set) })) }
end
rules.TensorArraySize = function(self, node, values)
  local v = values[1]
  if v.array == 'dense' then return { { o = v.size } } end
  return self:plain(node, values)
end
for _, name in ipairs{ 'TensorArrayConcat', 'TensorArraySplit', 'TensorArrayTake' } do
  rules[name] = function(self, node, values)
    if values[1].array ~= 'shared' then refuse(self, node, 'it has no rule for elements that differ by lane') end
    return shared(self, node, values)
  end
end
