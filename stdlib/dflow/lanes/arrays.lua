--- TensorArrays by lanes.
--
-- An array whose elements do not differ by lane is one array. Where all lanes write at the same place, it is an array
-- of elements with lanes at axis 0 ('lock'). Where their places differ, or some lanes write and others do not, each
-- lane has its own locations of one array ('apart'):
-- location p of lane l is number p * lanes + l. So what one lane may not do (write a location twice, read one that it
-- has not written) the array itself refuses. Arrays keep the lanes that they were made for: those of a part of them
-- write to, and read from, their own.
local core = require 'dflow.backend'
local dtypes = require 'dflow.front.dtypes'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local registry = require 'dflow.front.registry'
local ops = require 'dflow.front.ops'
local control = require 'dflow.front.control'
local tensor_array = require 'dflow.front.tensor_array'
local batch = require 'dflow.lanes.batch'

local f, rules, ints, lift = ops.functions, batch.rules, batch.ints, batch.lift
local unpack = table.unpack or unpack
local M = {}

local function refuse(self, node, why)
  errors.raise('unimplemented', 'vmap: %s (%s): %s', core.node_name_of(self.handle, node),
               core.node_type(self.handle, node), why)
end

--- Dimensions 0 and 1 change places.
local function turned(o)
  local s = o.shape or errors.bad 'vmap: a TensorArray of elements whose rank is not known'
  local perm = { 1, 0 }
  for k = 3, #s do perm[k] = k - 1 end
  return f.transpose(o, ints(perm))
end
--- The rows of an array's lanes that are at hand.
local function mine(o, v, scope)
  local at = batch.places(scope.set, v.set)
  return { o = at and f.gather(o, at) or o, set = scope.set }
end

--- The locations, one behind the other, of these places of the lanes at hand: a place for each lane, or, `many`, a
-- list. Those of an array that all lanes share are the places themselves.
local function locations(v, places, scope, many)
  if v.array == 'shared' then return f.reshape(places, ints{ -1 }) end
  local row = f.cast(batch.places(scope.set, v.set) or batch.numbers(v.set), places.dtype)
  local at = f.add(f.multiply(places, f.cast(v.set.size, places.dtype)), many and f.expand_dims(row, 1) or row)
  return many and f.reshape(at, ints{ -1 }) or at
end
--- The op with rows of the lanes at hand: `count` rows each, or, without it, one.
local function gathered(self, node, v, places, scope, count)
  local o = registry.op('TensorArrayGather', { v.o, locations(v, places, scope, count) }, { dtype = v.d })
  if count then
    local rest = f.strided_slice(f.shape(o), ints{ 1 }, ints{ 0 }, ints{ 1 }, { end_mask = 1 })
    o = f.reshape(o, f.concat({ f.reshape(scope.set.size, ints{ 1 }), f.reshape(count, ints{ 1 }), rest }, 0))
  end
  local shape = graph.output(self.g, node, 0).shape
  if shape then core.output_set_shape(self.handle, o.node, o.index, { scope.set.n, unpack(shape) }) end
  return { { o = o, set = scope.set } }
end
local function scattered(v, places, rows, scope, many)
  if many then
    local rest = f.strided_slice(f.shape(rows), ints{ 2 }, ints{ 0 }, ints{ 1 }, { end_mask = 1 })
    rows = f.reshape(rows, f.concat({ ints{ -1 }, rest }, 0))
  end
  return registry.op('TensorArrayScatter', { v.o, locations(v, places, scope, many), rows })
end
--- 0 … n - 1 for each lane.
local function every(n)
  return f.expand_dims(f.range(f.constant(0, 'int32'), f.cast(n, 'int32'), f.constant(1, 'int32')), 0)
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
  local v = { set = scope.set, d = d, size = values[1].o, grows = attrs.dynamic_size }
  local shape = attrs.element_shape or (about.parts and { -1, unpack(about.parts, 2) })
  if about.places then
    v.array = 'apart'
    local all = f.multiply(v.size, f.cast(v.set.size, v.size.dtype))
    v.o = self:again(node, { all }, { lanes = v.set.n, element_shape = shape })[1]
  else
    v.array = 'lock'
    v.o = self:again(node, { values[1].o }, { element_shape = shape and { scope.set.n, unpack(shape) } or nil })[1]
  end
  return { v }
end

local function with(v, o)
  return { array = v.array, set = v.set, d = v.d, size = v.size, grows = v.grows, o = o }
end
--- The op on an array of elements that have lanes now, whatever shape was known of them.
local function again(self, node, inputs)
  return self:again(node, inputs, self:attributes(node).element_shape and { element_shape = false } or nil)[1]
end
--- The op on an array that all lanes share: one made outside of the function, or of what does not differ.
local function shared(self, node, values)
  if batch.differ(values) then
    errors.bad('vmap: %s (%s): the array was made outside of the function, so all lanes share it, and what a lane '
               .. 'writes is its own: make the array inside', core.node_name_of(self.handle, node),
               core.node_type(self.handle, node))
  end
  local out = self:plain(node, values)
  if out[1] and graph.dtype(out[1].o) == dtypes.RESOURCE then out[1] = with(values[1], out[1].o) end
  return out
end

--- How many locations each lane has.
local function size_of(self, node, v)
  if not v.grows then return v.size end
  refuse(self, node, 'lanes write to different places of an array that grows, and each may have another size')
end

rules.TensorArrayWrite = function(self, node, values, _, scope)
  local v, place, x = values[1], values[2], values[3]
  if v.array == 'shared' then return shared(self, node, values) end
  if v.array == 'lock' then return { with(v, self:again(node, { v.o, place.o, lift(x, scope.set) })[1]) } end
  return { with(v, scattered(v, lift(place, scope.set), lift(x, scope.set), scope)) }
end
rules.TensorArrayRead = function(self, node, values, _, scope)
  local v, place = values[1], values[2]
  if v.array == 'shared' and not place.set then return shared(self, node, values) end
  if v.array == 'lock' then return { mine(again(self, node, { v.o, place.o }), v, scope) } end
  return gathered(self, node, v, lift(place, scope.set), scope)
end
rules.TensorArrayStack = function(self, node, values, _, scope)
  local v = values[1]
  if v.array == 'shared' then return shared(self, node, values) end
  if v.array == 'lock' then return { mine(turned(again(self, node, { v.o })), v, scope) } end
  local n = size_of(self, node, v)
  return gathered(self, node, v, every(n), scope, n)
end
rules.TensorArrayUnstack = function(self, node, values, _, scope)
  local v = values[1]
  if v.array == 'shared' then return shared(self, node, values) end
  local t = lift(values[2], scope.set)
  if v.array == 'lock' then return { with(v, self:again(node, { v.o, turned(t) })[1]) } end
  return { with(v, scattered(v, every(f.gather(f.shape(t), f.constant(1, 'int32'))), t, scope, true)) }
end
rules.TensorArrayGather = function(self, node, values, _, scope)
  local v, places = values[1], values[2]
  if v.array == 'shared' and not places.set then return shared(self, node, values) end
  if v.array == 'lock' then return { mine(turned(again(self, node, { v.o, places.o })), v, scope) } end
  local at = lift(places, scope.set)                                            -- [lanes, k]
  return gathered(self, node, v, at, scope, f.gather(f.shape(at), f.constant(1, 'int32')))
end
rules.TensorArrayScatter = function(self, node, values, _, scope)
  local v, places, t = values[1], values[2], values[3]
  if v.array == 'shared' then return shared(self, node, values) end
  if v.array == 'lock' then return { with(v, self:again(node, { v.o, places.o, turned(lift(t, scope.set)) })[1]) } end
  return { with(v, scattered(v, lift(places, scope.set), lift(t, scope.set), scope, true)) }
end
rules.TensorArraySize = function(self, node, values)
  local v = values[1]
  if v.array == 'apart' then return { { o = size_of(self, node, v) } } end
  return self:plain(node, values)
end

-- ---- rows of elements -----------------------------------------------------------------------------------------------
--- An array of `size` rows with lanes at axis 1; one: what an element is of one lane.
local function of_rows(self, node, v, scope, size, one)
  if not one then refuse(self, node, 'the rank of its elements is not known') end
  local set = v.array == 'lock' and v.set or scope.set
  return tensor_array.new(dtypes.name[v.d], size, { element_shape = { -1, set.n, unpack(one, 2) } })
end
--- Calls step(i, array) for i = 0 … size - 1: the array that comes of it.
local function each(size, array, step)
  local _, out = control.while_loop(function(i) return f.less(i, size) end,
                                    function(i, now) return f.add(i, 1), step(i, now) end,
                                    { f.constant(0, 'int32'), array })
  return out
end
--- Where element i of each lane at hand lies.
local function of_all(v, i, scope) return locations(v, f.fill(f.reshape(scope.set.size, ints{ 1 }), i), scope) end

--- Concat, and with lengths ConcatParts, which is its gradient's.
rules.TensorArrayConcat = function(self, node, values, _, scope)
  local v, lengths = values[1], values[2]
  if v.array == 'shared' then return shared(self, node, values) end
  if lengths and lengths.set then refuse(self, node, 'its lengths differ by lane') end
  local size, lock = registry.op('TensorArraySize', { v.o }), v.array == 'lock'
  if lengths then size = f.size(lengths.o) elseif not lock then size = f.floordiv(size, v.set.size) end
  local rows = of_rows(self, node, v, scope, size, graph.output(self.g, node, 0).shape)
  rows = each(size, rows, function(i, now)
    local o = lock and registry.op('TensorArrayRead', { v.o, i }, { dtype = v.d })
      or registry.op('TensorArrayGather', { v.o, of_all(v, i, scope) }, { dtype = v.d })
    return now:write(i, turned(o))
  end)
  local inputs = { rows.handle, lengths and lengths.o }
  local made = { registry.op(core.node_type(self.handle, node), inputs, { dtype = v.d }) }
  local joined = turned(made[1])
  return { lock and mine(joined, v, scope) or { o = joined, set = scope.set }, made[2] and { o = made[2] } }
end
rules.TensorArrayConcatParts = rules.TensorArrayConcat
rules.TensorArraySplit = function(self, node, values, _, scope)
  local v, t, lengths = values[1], values[2], values[3]
  if v.array == 'shared' then return shared(self, node, values) end
  if lengths.set then refuse(self, node, 'its lengths differ by lane') end
  local size = f.size(lengths.o)
  local one = graph.output(self.g, core.node_input_of(self.handle, node, 1)).shape
  local rows = of_rows(self, node, v, scope, size, one):split(turned(lift(t, scope.set)), lengths.o)
  local filled = each(size, tensor_array.wrap(v.o, v.d), function(i, now)
    local row = turned(rows:read(i))
    if v.array == 'lock' then return now:write(i, row) end
    return tensor_array.wrap(registry.op('TensorArrayScatter', { now.handle, of_all(v, i, scope), row }), v.d)
  end)
  return { with(v, filled.handle) }
end
rules.TensorArrayTake = function(self, node, values, _, scope)
  local v, count = values[1], values[2]
  if v.array == 'shared' then return shared(self, node, values) end
  if count.set then refuse(self, node, 'how many it takes differs by lane') end
  if v.array == 'apart' then return gathered(self, node, v, every(count.o), scope, f.cast(count.o, 'int32')) end
  return { mine(turned(again(self, node, { v.o, count.o })), v, scope) }
end

--- The array of all lanes that an array of one lane is: each element has the lanes at the axis that leave(o) puts them.
function M.of_lanes(v, scope, leave)
  local set = scope.set
  if v.array == 'lock' and not leave then return tensor_array.wrap(v.o, dtypes.of(v.d)) end
  local d = v.d
  local size = v.array == 'apart' and size_of(v.o.graph, v.o.node, v) or registry.op('TensorArraySize', { v.o })
  local name = dtypes.name[type(d) == 'number' and d or dtypes.of(d)]
  return each(size, tensor_array.new(name, size), function(i, now)
    local o
    if v.array == 'apart' then o = registry.op('TensorArrayGather', { v.o, of_all(v, i, scope) }, { dtype = d })
    else o = registry.op('TensorArrayRead', { v.o, i }, { dtype = d }) end
    if v.array == 'shared' then o = lift({ o = o }, set) end
    return now:write(i, leave and leave(o) or o)
  end)
end

return M
