--- Tables: from keys (whole numbers or strings) to values, kept by a session. df.HashTable is filled once,
-- df.MutableHashTable changes.
--
-- Looking up is an op, so that words become numbers in the graph. Each session has its own entries. What changes a
-- table in a body or branch runs in program order with what looks into it, as with variables.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'

local M = {}
local Table = { __name = 'dflow.Table' }
M.Table = Table
local methods = {}

Table.__index = function(t, key)
  local method = methods[key]
  if method then return method end
  if key == 'name' then return core.node_name_of(t.graph.handle, t.made.node) end
  if key == 'key_dtype' then return dtypes.name[t.key] end
  if key == 'value_dtype' then return dtypes.name[t.value] end
  local names = { 'name', 'key_dtype', 'value_dtype' }
  for name in pairs(methods) do names[#names + 1] = name end
  errors.bad("a table has no field or method '%s'%s", tostring(key), errors.hint(key, names))
end
Table.__tostring = function(t)
  return ('%s: %s of %s to %s')
    :format(t.name, t.kind, dtypes.name[t.key], tensor.shape_text(dtypes.name[t.value], t.shape))
end
Table.handle_of = function(t) return t.handle end
Table.dtype_of = function() return dtypes.RESOURCE end
Table.as_output = function(t)
  errors.bad('%s was given where an Output is expected: write t:lookup(keys)', tostring(t))
end

--- An op at the top level of the graph.
local function at_top(g, ...)
  core.push_top(g.handle)
  local ok, made = pcall(registry.op, ...)
  core.pop_top(g.handle)
  if not ok then error(made, 0) end
  return made
end

local function key_dtype(d, what)
  if d ~= dtypes.INT32 and d ~= dtypes.INT64 and d ~= dtypes.number.string then
    errors.bad('%s: keys are int32, int64 or string, not %s', what, dtypes.name[d])
  end
  return d
end

--- Keys or values as an Output of the table's dtype.
local function operand(t, v, d, what)
  if v == nil then errors.bad('%s is missing', what) end
  local own = convert.typed(v)
  if own and own ~= d then
    errors.bad("%s: %s is expected, this is %s: cast it, as in %s", what, dtypes.name[d],
               dtypes.name[own], dtypes.conversion(own, d))
  end
  return convert.to_output(v, d, t.graph, what)
end

local function default_of(t, v, what)
  local o = operand(t, v, t.value, what .. ': the default')
  if #t.shape > 0 and graph.rank(o) == 0 then
    local like = o
    o = require('dflow.front.ops').functions.fill(t.shape, like)
  end
  return o
end

--- df.HashTable(keys, values, default, {name =, shared_name =}): a table that is filled once, when it is first looked
-- up in a session.
-- @param keys, values  lists, Tensors or Outputs of one length; keys int32, int64 or string
-- @param default       what a key that is not there has: a value of the values' dtype
function M.HashTable(keys, values, default, opts)
  local what = 'HashTable'
  opts = errors.options(opts, what, { 'name', 'shared_name' })
  for _, given in ipairs{ { 'keys', keys }, { 'values', values } } do
    if not given[2] then errors.bad('%s: the %s are missing', what, given[1]) end
  end
  if default == nil then errors.bad('%s: the default, what a key that is not there has, is missing', what) end
  local whole = errors.is_data(keys) and type(keys[1]) == 'number'       -- LuaJIT would take them for float32
  local ks = convert.to_output(keys, whole and dtypes.INT32 or nil, nil, what .. ': keys')
  local vs = convert.to_output(values, nil, ks.graph, what .. ': values')
  key_dtype(graph.dtype(ks), what)
  local a, b = ks.shape, vs.shape
  if (a and #a ~= 1) or (b and #b ~= 1) or (a and b and a[1] >= 0 and b[1] >= 0 and a[1] ~= b[1]) then
    errors.bad('%s: the keys are %s and the values %s; two lists of one length are expected', what,
               tensor.shape_text(ks.dtype, a),
               tensor.shape_text(vs.dtype, b))
  end
  local g = ks.graph
  local made = at_top(g, 'HashTableV2', {},
                      { key_dtype = graph.dtype(ks), value_dtype = graph.dtype(vs), shared_name = opts.shared_name,
                                              name = opts.name or opts.shared_name or what })
  local t = setmetatable({ graph = g, made = made, kind = what, key = graph.dtype(ks), value = graph.dtype(vs),
                           shape = {} }, Table)
  t.handle = at_top(g, 'LookupTableFilled', { made, ks, vs })
  t.default = default_of(t, default, what)
  return t
end

--- df.MutableHashTable(key_dtype, value_dtype, default, {shape = {}, name =, shared_name =}): a table whose entries
-- come and go.
-- @param shape  of a value
function M.MutableHashTable(key, value, default, opts)
  local what = 'MutableHashTable'
  opts = errors.options(opts, what, { 'shape', 'name', 'shared_name' })
  if key == nil or value == nil then errors.bad('%s takes the dtypes of its keys and of its values first', what) end
  if default == nil then errors.bad('%s: the default, what a key that is not there has, is missing', what) end
  local shape = opts.shape or {}
  if not errors.is_data(shape) then
    errors.bad('%s: shape is a list of dimensions, not %s', what, errors.describe(shape))
  end
  for _, d in ipairs(shape) do
    if type(d) ~= 'number' or d < 0 or not dtypes.is_whole(d) then
      errors.bad('%s: a dimension of shape is a whole number, not %s', what, errors.describe(d))
    end
  end
  local g = graph.current()
  local attrs = { key_dtype = key_dtype(dtypes.of(key), what), value_dtype = dtypes.of(value),
                  shared_name = opts.shared_name,
                  name = opts.name or opts.shared_name or what, value_shape = #shape > 0 and shape or nil }
  local made = at_top(g, #shape > 0 and 'MutableHashTableOfTensorsV2' or 'MutableHashTableV2', {}, attrs)
  local t = setmetatable({ graph = g, made = made, handle = made, kind = what, key = attrs.key_dtype,
                           value = attrs.value_dtype, shape = shape }, Table)
  t.default = default_of(t, default, what)
  return t
end

--- t:lookup(keys, default?): the values of keys of any shape: [keys' shape, value's shape].
function methods.lookup(t, keys, default)
  local o = default ~= nil and default_of(t, default, 'lookup') or t.default
  return registry.op('LookupTableFindV2', { t, operand(t, keys, t.key, 'lookup: keys'), o })
end

local function changes(t, what)
  if t.kind == 'HashTable' then
    errors.bad('%s: %s is filled once and does not change; df.MutableHashTable does', what, t.name)
  end
end

--- t:insert(keys, values): an operation: keys have these values from then on.
function methods.insert(t, keys, values)
  changes(t, 'insert')
  return registry.op('LookupTableInsertV2',
                     { t, operand(t, keys, t.key, 'insert: keys'), operand(t, values, t.value, 'insert: values') })
end

--- t:remove(keys): an operation: keys are in the table no more.
function methods.remove(t, keys)
  changes(t, 'remove')
  return registry.op('LookupTableRemoveV2', { t, operand(t, keys, t.key, 'remove: keys') })
end

--- t:import(keys, values): an operation: the table has these entries and no others.
function methods.import(t, keys, values)
  changes(t, 'import')
  return registry.op('LookupTableImportV2',
                     { t, operand(t, keys, t.key, 'import: keys'), operand(t, values, t.value, 'import: values') })
end

--- t:size(): how many entries, a scalar int64.
function methods.size(t) return registry.op('LookupTableSizeV2', { t }) end

--- t:export(): all keys [n], and their values [n, …].
function methods.export(t)
  local keys, values = registry.op('LookupTableExportV2', { t }, { Tkeys = t.key, Tvalues = t.value })
  if values.shape == nil or #values.shape ~= #t.shape + 1 then values:set_shape{ -1, graph.unpack(t.shape) } end
  return keys, values
end

errors.with_colons(methods, Table, 'a table', 't')

return M
