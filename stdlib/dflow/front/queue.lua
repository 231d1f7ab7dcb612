--- Queues: what runs of one session hand each other, and wait for. df.FIFOQueue, df.PaddingFIFOQueue,
-- df.RandomShuffleQueue, df.PriorityQueue.
--
-- An element has one or more components, each with its dtype and, if one likes, its shape. A full queue holds back
-- enqueues, an empty one dequeues: the op waits, and no thread with it. Each session has its own elements. Ops on a
-- queue that are built in a body or branch run in program order, as those on variables do.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local nest = require 'dflow.front.nest'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local arguments = require 'dflow.front.arguments'

local M = {}
local Queue = { __name = 'dflow.Queue' }
M.Queue = Queue
local methods = {}
local type = type
local unpack = graph.unpack

Queue.handle_of = function(q) return q.handle end
Queue.dtype_of = function() return dtypes.RESOURCE end
Queue.as_output = function(q)
  errors.bad('%s was given where an Output is expected: write q:dequeue()', tostring(q))
end

local fields = {
  name = function(q) return core.node_name_of(q.graph.handle, q.handle.node) end,
  op = function(q) return q.handle.op end,
  source = function(q) return q.handle.source end,
  dtypes = function(q)
    local list = {}
    for i, d in ipairs(q.types) do list[i] = dtypes.name[d] end
    return list
  end,
}

Queue.__index = function(q, key)
  local method = methods[key]
  if method then return method end
  local field = fields[key]
  if field then return field(q) end
  if key == 'shapes' then return nil end
  local names = { 'dtypes', 'shapes', 'capacity', 'name', 'op' }
  for name in pairs(methods) do names[#names + 1] = name end
  errors.bad("a queue has no field or method '%s'%s", tostring(key), errors.hint(key, names))
end

local function components_text(q)
  local list = {}
  for i, d in ipairs(q.types) do list[i] = tensor.shape_text(dtypes.name[d], q.shapes and q.shapes[i]) end
  return table.concat(list, ', ')
end

--- `jobs: FIFOQueue of int32[], float32[2]  -- file:line`
Queue.__tostring = function(q)
  return ('%s: %s of %s%s'):format(q.name, q.kind, components_text(q), q.source and '  -- ' .. q.source or '')
end

-- ---- making ---------------------------------------------------------------------------------------------------------
local function dtype_list(given, what)
  if type(given) == 'string' then given = { given } end
  if not errors.is_data(given) then
    errors.bad('%s: dtypes is a list of dtypes, one per component, not %s', what, errors.describe(given))
  end
  local list = {}
  for i, d in ipairs(given) do
    list[i] = dtypes.of(d)
    if list[i] == dtypes.RESOURCE then errors.bad('%s: a queue cannot hold handles', what) end
  end
  return list
end

--- One shape per component; where there is one component, its shape alone will do.
local function shape_list(given, n, what)
  if given == nil then return nil end
  if not errors.is_data(given) then
    errors.bad('%s: shapes is a list of shapes, one per component, not %s', what, errors.describe(given))
  end
  if n == 1 and type(given[1]) ~= 'table' then given = { given } end
  if #given ~= n then
    errors.bad('%s: shapes has %d entries for %d components', what, #given, n)
  end
  local list = {}
  for i = 1, n do list[i] = tensor.check_static_shape(given[i], what) end
  return list
end

local function whole(v, name, what, least)
  if type(v) ~= 'number' or not dtypes.is_whole(v) or v < least then
    errors.bad('%s: %s is a whole number from %d up, not %s', what, name, least, errors.describe(v))
  end
  return v
end

--- The function that makes queues of a kind. `more(opts, attrs)` reads the options that only this kind has.
local function maker(kind, known, more)
  local names = { 'shapes', 'name', 'shared_name' }
  for _, name in ipairs(known or {}) do names[#names + 1] = name end
  return function(capacity, types, opts)
    opts = errors.options(opts, kind, names)
    if capacity == nil then errors.bad('%s: the capacity is missing', kind) end
    if types == nil then errors.bad('%s: the dtypes are missing', kind) end
    whole(capacity, 'capacity', kind, -1)
    local list = dtype_list(types, kind)
    if #list == 0 and kind ~= 'PriorityQueue' then
      errors.bad('%s: a queue needs at least one component, dtypes is empty', kind)
    end
    local shapes = shape_list(opts.shapes, #list, kind)
    local attrs = { component_types = list, shapes = shapes, capacity = capacity, shared_name = opts.shared_name,
                    name = opts.name or opts.shared_name or kind }
    if more then more(opts, attrs) end
    local g = graph.current()
    core.push_top(g.handle)
    local ok, handle = pcall(registry.op, kind .. 'V2', {}, attrs)
    core.pop_top(g.handle)
    if not ok then error(handle, 0) end
    if kind == 'PriorityQueue' then           -- its elements begin with the priority
      table.insert(list, 1, dtypes.INT64)
      if shapes then table.insert(shapes, 1, {}) end
      if #list == 1 then shapes = { {} } end
    end
    return setmetatable({ graph = handle.graph, handle = handle, kind = kind, types = list, shapes = shapes,
                          capacity = capacity }, Queue)
  end
end

--- df.FIFOQueue(capacity, dtypes, {shapes =, name =, shared_name =}): first in, first out.
-- @param capacity  how many elements it holds; -1: any number
-- @param dtypes    a dtype, or a list with one per component
-- @param shapes    the components' shapes; without them elements are dequeued one by one only
M.FIFOQueue = maker 'FIFOQueue'

--- df.PaddingFIFOQueue(capacity, dtypes, {shapes =}): shapes may have -1; where elements differ there, a batch of them
--- is filled up with zeros, false or "".
M.PaddingFIFOQueue = maker('PaddingFIFOQueue', nil, function(opts)
  if opts.shapes == nil then
    errors.bad('PaddingFIFOQueue: the shapes are missing; they may have -1 where elements differ')
  end
end)

--- df.RandomShuffleQueue(capacity, dtypes, {shapes =, min_after_dequeue = 0, seed =}): gives its elements in random
--- order. While it is open, min_after_dequeue of them stay in it.
M.RandomShuffleQueue = maker('RandomShuffleQueue', { 'min_after_dequeue', 'seed' }, function(opts, attrs)
  local least = opts.min_after_dequeue
  if least ~= nil then
    whole(least, 'min_after_dequeue', 'RandomShuffleQueue', 0)
    if attrs.capacity >= 0 and least >= attrs.capacity then
      errors.bad('RandomShuffleQueue: min_after_dequeue, %d, must be less than the capacity, %d', least, attrs.capacity)
    end
    attrs.min_after_dequeue = least
  end
  attrs.seed = opts.seed
  if opts.seed then attrs.seed2 = 1 end       -- so that 0 is a seed like any other
end)

--- df.PriorityQueue(capacity, dtypes, {shapes =}): the element with the smallest priority comes first, of equal ones
--- the older. The priority, an int64 scalar, is the first value that is enqueued and dequeued; dtypes and shapes are
-- those of the others.
M.PriorityQueue = maker 'PriorityQueue'

-- ---- putting in -----------------------------------------------------------------------------------------------------
--- Static shapes: can they be one?
local function fits(want, found)
  if not want or not found then return true end
  if #want ~= #found then return false end
  for i = 1, #want do
    if want[i] >= 0 and found[i] >= 0 and want[i] ~= found[i] then return false end
  end
  return true
end
M.fits = fits

local function values_of(q, what, many, n, given)
  if n ~= #q.types then
    errors.bad('%s: %s takes %d value%s, one per component (%s), but %d %s given', what, q.name, #q.types, #q.types == 1
               and '' or 's',
               components_text(q), n, n == 1 and 'was' or 'were')
  end
  local list = {}
  for i, d in ipairs(q.types) do
    if given[i] == nil then errors.bad('%s: value %d is missing', what, i) end
    local own = convert.typed(given[i])
    if own and own ~= d then
      errors.bad("%s: component %d of %s is %s, the value is %s: cast it, as in %s", what, i, q.name,
                 dtypes.name[d], dtypes.name[own], dtypes.conversion(own, d))
    end
    local o = convert.to_output(given[i], d, q.graph, what)
    local want, found = q.shapes and q.shapes[i], o.shape
    if many then
      if found and #found == 0 then
        errors.bad('%s: value %d is a scalar; a list of rows along axis 0 is expected', what, i)
      end
      if want then want = { -1, unpack(want) } end
    end
    if not fits(want, found) then
      errors.bad('%s: component %d of %s is %s%s, the value is %s', what, i, q.name,
                 tensor.shape_text(dtypes.name[d], q.shapes[i]),
                 many and ' in each row' or '', tensor.shape_text(dtypes.name[d], found))
    end
    list[i] = o
  end
  return list
end

local function name_of(opts, what) return errors.options(opts, 'Queue:' .. what, { 'name' }).name end

--- The operation that puts in n values, behind which {name} may stand.
local function put(q, type_name, what, many, n, values)
  local name
  if n == #q.types + 1 and nest.is_plain(values[n]) and nest.has_names(values[n]) then
    name, n, values[n] = name_of(values[n], what), n - 1, nil
  end
  return registry.op(type_name, { q, values_of(q, what, many, n, values) }, { name = name })
end

--- q:enqueue(v, …, {name}): an operation that puts one element in, and waits while the queue is full.
function methods.enqueue(q, ...) return put(q, 'QueueEnqueueV2', 'enqueue', false, select('#', ...), { ... }) end

--- q:enqueue_many(v, …, {name}): an operation that puts in the rows along axis 0, one by one, as there is room.
function methods.enqueue_many(q, ...)
  return put(q, 'QueueEnqueueManyV2', 'enqueue_many', true, select('#', ...), { ... })
end

--- q:close{cancel_pending = false}: nothing more is put in, and what waits for elements that cannot come any more ends
--- with out_of_range. What waits for room already is let in first or, with cancel_pending, ended with cancelled.
function methods.close(q, opts)
  opts = errors.options(opts, 'close', { 'cancel_pending', 'name' })
  if opts.cancel_pending ~= nil and type(opts.cancel_pending) ~= 'boolean' then
    errors.bad('close: cancel_pending is true or false, not %s', errors.describe(opts.cancel_pending))
  end
  return registry.op('QueueCloseV2', { q }, { cancel_pending_enqueues = opts.cancel_pending, name = opts.name })
end

-- ---- taking out -----------------------------------------------------------------------------------------------------
local function take(q, type_name, inputs, name)
  return unpack(registry.op(type_name, inputs, { component_types = q.types, name = name }), 1, #q.types)
end

local function count_of(q, n, what)
  if n == nil then errors.bad('%s: the number of elements is missing', what) end
  if not q.shapes then
    errors.bad('%s: %s was made without shapes, so its elements can only be dequeued one by one; give shapes = {…} '
               .. 'where it is made',
               what, q.name)
  end
  if type(n) == 'number' then whole(n, 'the number of elements', what, 0) end
  return arguments.int32(n, q.graph)
end

--- q:dequeue{name}: the components of the next element; waits for one.
function methods.dequeue(q, n)
  if nest.is_plain(n) and nest.has_names(n) then return take(q, 'QueueDequeueV2', { q }, name_of(n, 'dequeue')) end
  if n ~= nil then
    errors.bad('dequeue gives one element and takes nothing, %s was given: q:dequeue_many(n) gives several',
               errors.describe(n))
  end
  return take(q, 'QueueDequeueV2', { q })
end

--- q:dequeue_many(n, {name}): n elements, stacked along a new axis 0; waits for all of them.
function methods.dequeue_many(q, n, opts)
  return take(q, 'QueueDequeueManyV2', { q, count_of(q, n, 'dequeue_many') }, name_of(opts, 'dequeue_many'))
end

--- q:dequeue_up_to(n, {name}): the same, but what a closed queue still has will do when it is not n elements any more.
function methods.dequeue_up_to(q, n, opts)
  return take(q, 'QueueDequeueUpToV2', { q, count_of(q, n, 'dequeue_up_to') }, name_of(opts, 'dequeue_up_to'))
end

-- ---- asking ---------------------------------------------------------------------------------------------------------
--- q:size{name}: how many elements it holds, a scalar int32.
function methods.size(q, opts) return registry.op('QueueSizeV2', { q }, { name = name_of(opts, 'size') }) end

--- q:is_closed(): a scalar bool.
function methods.is_closed(q) return registry.op('QueueIsClosedV2', { q }) end

errors.with_colons(methods, Queue, 'a queue', 'q')

return M
