--- Queues in checkpoints: what they hold in a session, a tensor for each component of all elements, or one for each
-- element where shapes differ.
--
-- A queue is looked at by QueuePeek, so nothing is taken out of it. What it is to hold is put together in a queue
-- beside it, and takes its place in one step, as an import replaces what a table holds: what waits for room, or for
-- elements, goes on with what is there then. To look and to fill are runs, after which the session's random ops are
-- where they were.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local shapes = require 'dflow.front.shape'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local registry = require 'dflow.front.registry'
local ops = require 'dflow.front.ops'
local queue = require 'dflow.front.queue'

local M = {}
local unpack = table.unpack or unpack
local built = setmetatable({}, { __mode = 'k' })      -- queue -> the nodes that look at it and fill it

--- queues as a list of Queues.
function M.check(list, what)
  if list == nil then return {} end
  if getmetatable(list) == queue.Queue then list = { list } end
  if not errors.is_data(list) then errors.bad('%s: queues is a list of queues, not %s', what, errors.describe(list)) end
  if nest.has_names(list) then
    errors.bad('%s: queues is a list of queues, not a table with names: queues have names of their own', what)
  end
  for i, q in ipairs(list) do
    if getmetatable(q) ~= queue.Queue then
      errors.bad('%s: queues is a list of queues, element %d is %s', what, i, errors.describe(q))
    end
  end
  return list
end

local function nodes_of(q)
  if not built[q] then
    built[q] = graph.with(q.graph, function()
      local f, n = ops.functions, { given = {} }
      n.index = f.placeholder('int32', {})
      n.values = registry.op('QueuePeek', { q, n.index }, { component_types = q.types })
      n.size, n.closed = q:size(), q:is_closed()
      local beside = graph.colocate_with(q,
                                         function() return queue.FIFOQueue(-1, q.types,
                                             { name = q.name .. '/restored' }) end)
      for c, d in ipairs(q.types) do n.given[c] = f.placeholder(dtypes.name[d], q.shapes and q.shapes[c] or nil) end
      n.clear, n.put = registry.op('QueueClear', { beside }), beside:enqueue(unpack(n.given))
      n.replace = registry.op('QueueReplace', { q, beside })
      return n
    end)
  end
  return built[q]
end

--- Builds what looks at queues and fills them, for a graph that may be finalized by the time it is needed.
function M.prepare(list)
  for _, q in ipairs(list) do nodes_of(q) end
  return list
end

local function key_of(q, c, i) return ('dflow.queue/%s/%d%s'):format(q.name, c - 1, i and '/' .. i - 1 or '') end
local function count_of(q) return 'dflow.queue.' .. q.name end

--- Is this the name of a part of a queue in a file?
function M.is_part(name) return name:sub(1, 12) == 'dflow.queue/' end

local function check_graph(q, s, what)
  if q.graph ~= s.graph then
    errors.bad("%s: the queue '%s' belongs to another graph than the session", what, q.name)
  end
end

--- Adds what a queue holds to values and metadata of a checkpoint.
local function look(q, s, values, metadata)
  local n = nodes_of(q)
  local count, parts = s:run(n.size), {}
  metadata[count_of(q)] = ('%d'):format(count)
  for c in ipairs(q.types) do parts[c] = {} end
  for i = 1, count do
    for c, t in ipairs(s:run(n.values, { [n.index] = i - 1 }, { tensors = true })) do parts[c][i] = t end
  end
  for c, list in ipairs(parts) do
    local alike, bytes = count > 0, {}
    for i, t in ipairs(list) do
      if dtypes.is_boxed(core.tensor_info(t)) then
        errors.raise('unimplemented', "save: the queue '%s' holds strings, a checkpoint cannot", q.name)
      end
      alike = alike and shapes.same(core.tensor_shape(t), core.tensor_shape(list[1]))
      bytes[i] = core.tensor_bytes(t)
    end
    if alike then
      values[key_of(q, c)] = core.tensor_from_bytes(core.tensor_info(list[1]),
          { count, unpack(core.tensor_shape(list[1])) }, table.concat(bytes))
    else
      for i, t in ipairs(list) do values[key_of(q, c, i)] = t end
    end
  end
end

--- What queues hold in a session goes to the values and metadata of a checkpoint.
function M.save(list, s, values, metadata)
  if #list == 0 then return end
  for _, q in ipairs(list) do check_graph(q, s, 'save') end
  for _, q in ipairs(list) do look(q, s, values, metadata) end
end

--- The elements of a queue in an opened file, checked: a list of lists of Tensors.
local function elements(q, file, path)
  local count = tonumber(file.metadata[count_of(q)] or '')
  if not count then errors.raise('not_found', "restore: %s has no queue '%s'", path, q.name) end
  if q.capacity >= 0 and count > q.capacity then
    errors.bad("restore: %s has %d elements of the queue '%s', which holds %d", path, count, q.name, q.capacity)
  end
  local found, more = {}, #q.types + 1
  for i = 1, count do found[i] = {} end
  if file.about(key_of(q, more)) or file.about(key_of(q, more, 1)) then
    errors.bad("restore: elements of the queue '%s' have %d components, in %s they have more", q.name, #q.types, path)
  end
  for c, d in ipairs(q.types) do
    local name, together = dtypes.name[d], file.about(key_of(q, c)) and file.tensor(key_of(q, c))
    for i = 1, count do
      local t = together
      if t then
        if core.tensor_shape(t)[1] ~= count then
          errors.raise('data_loss', "%s: '%s' has not the %d rows that it should", path, key_of(q, c), count)
        end
        t = core.tensor_rows(t, { i - 1 }, 1, 1)
        local shape = core.tensor_shape(t)
        table.remove(shape, 1)
        t = t:reshape(shape)
      else
        if not file.about(key_of(q, c, i)) then
          errors.raise('data_loss', "%s: '%s' is missing", path, key_of(q, c, i))
        end
        t = file.tensor(key_of(q, c, i))
      end
      local want = q.shapes and q.shapes[c]
      if t.dtype ~= name or not queue.fits(want, t.shape) then
        errors.bad("restore: component %d of the queue '%s' is %s, in %s it is %s", c, q.name,
                   tensor.shape_text(name, want), path,
                   tensor.shape_text(t.dtype, t.shape))
      end
      found[i][c] = t
    end
  end
  return found
end

--- Puts the elements of a file into the queue beside one.
local function lay_beside(n, list, s)
  s:run(n.clear)
  for _, e in ipairs(list) do
    local feeds = {}
    for c, t in ipairs(e) do feeds[n.given[c]] = t end
    s:run(n.put, feeds)
  end
end

--- Looks whether the queues can be filled from an opened file, and gives the function that does.
function M.restore(list, file, path, s)
  if #list == 0 then return function() end end
  local all = {}
  for i, q in ipairs(list) do
    check_graph(q, s, 'restore')
    all[i] = elements(q, file, path)
  end
  for i, q in ipairs(list) do
    if s:run(nodes_of(q).closed) then
      errors.raise('failed_precondition', "restore: the queue '%s' is closed", q.name)
    end
    lay_beside(nodes_of(q), all[i], s)
  end
  return function()
    for _, q in ipairs(list) do s:run(nodes_of(q).replace) end
  end
end

return M
