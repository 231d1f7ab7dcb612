--- ONNX's If, Loop, Scan and sequences.
local df = require 'dflow'
local errors = require 'dflow.front.errors'
local registry = require 'dflow.front.registry'
local import_nn = require 'dflow.exchange.onnx.import_nn'
require 'dflow.exchange.onnx.import_loss'
require 'dflow.exchange.onnx.import_image'
require 'dflow.exchange.onnx.import_newer'
require 'dflow.exchange.onnx.import_older'
require 'dflow.exchange.onnx.import_attention'
require 'dflow.exchange.onnx.import_state'
require 'dflow.exchange.onnx.import_signal'
require 'dflow.exchange.onnx.import_places'
require 'dflow.exchange.onnx.import_ml'
require 'dflow.exchange.onnx.import_layout'
require 'dflow.exchange.onnx.import_runtime'
local values = require 'dflow.exchange.onnx.values'

local ops, help = import_nn.ops, import_nn.help
local Sequence, sequence = values.Sequence, values.sequence
local unpack = table.unpack or unpack

local function scalar(x, d) return df.cast(df.reshape(x, help.vector({}, 'int32')), d) end
local function is_sequence(v) return getmetatable(v) == Sequence end

-- ---- sequences ------------------------------------------------------------------------------------------------------
--- A sequence as one value: TensorFlow's list, a variant.
local function as_list(n, s, dtype)
  if not s.list then return s.handle, s.dtype end
  dtype = s.list[1] and s.list[1].dtype or s.dtype or dtype
  if not dtype then n:refuse 'the type of the elements of an empty sequence is not known' end
  local handle = registry.op('EmptyTensorList', { df.constant(-1, 'int32'), df.int32(-1) }, { element_dtype = dtype })
  for _, x in ipairs(s.list) do handle = registry.op('TensorListPushBack', { handle, x }, {}) end
  return handle, dtype
end
local function dynamic(handle, dtype) return setmetatable({ handle = handle, dtype = dtype }, Sequence) end
local function length_of(s) return registry.op('TensorListLength', { s.handle }, {}) end
local function item(handle, i, dtype)
  return registry.op('TensorListGetItem', { handle, i, df.constant(-1, 'int32') }, { element_dtype = dtype })
end
local function push(handle, x) return registry.op('TensorListPushBack', { handle, x }, {}) end
local function empty_list(dtype)
  return registry.op('EmptyTensorList', { df.constant(-1, 'int32'), df.int32(-1) }, { element_dtype = dtype })
end
--- The list of element(k) for k = 0 … count - 1.
local function made_list(count, dtype, element)
  local _, handle = df.while_loop(function(k) return df.less(k, count) end,
                                  function(k, made) return k + 1, push(made, element(k)) end,
                                  { df.int32(0), empty_list(dtype) })
  return dynamic(handle, dtype)
end
--- A sequence of any kind as a dynamic one, and where `at` says in it, from its beginning on (nil: behind its last).
local function late(n, s, at, dtype)
  local handle, d = as_list(n, s, dtype)
  s = dynamic(handle, d)
  local count = length_of(s)
  if not at then return s, count, nil end
  at = scalar(at, 'int32')
  return s, count, df.select_v2(df.less(at, 0), at + count, at)
end
local function position(n, s, at, extra)
  local k = at and help.known(at)
  if not k then return nil end
  k = k[1]
  if k < 0 then k = k + #s.list end
  if k < 0 or k >= #s.list + (extra or 0) then
    n:refuse(('the position %d is outside of a sequence of %d'):format(k, #s.list))
  end
  return k + 1
end

function ops.SequenceEmpty(n)
  local d = n.attr('dtype', 1)
  local read, dtypes = require 'dflow.exchange.onnx.read', require 'dflow.front.dtypes'
  local s = sequence {}
  s.dtype = dtypes.name[read.dtype[d] or n:refuse 'it is of a type that dflow has not']
  return s
end
function ops.SequenceConstruct(_, ...) return sequence { ... } end
function ops.SequenceLength(_, s)
  if s.list then return df.constant(#s.list, 'int64') end
  return df.cast(length_of(s), 'int64')
end
function ops.SequenceAt(n, s, at)
  if s.list then
    local k = position(n, s, at)
    if k then return df.identity(s.list[k]) end
    s = dynamic(as_list(n, s))
  end
  local i = scalar(at, 'int32')
  i = df.select_v2(df.less(i, 0), i + length_of(s), i)
  return item(s.handle, i, s.dtype)
end
function ops.SequenceInsert(n, s, x, at)
  if s.list then
    local k = at and position(n, s, at, 1) or not at and #s.list + 1
    if k then
      local list = { unpack(s.list) }
      table.insert(list, k, x)
      return sequence(list)
    end
  end
  local all, count, k = late(n, s, at, x.dtype)
  if not k then return dynamic(push(all.handle, x), all.dtype) end
  return made_list(count + 1, all.dtype, function(i)
    return df.cond(df.equal(i, k), function() return x end, function()
      return item(all.handle, i - df.cast(df.greater(i, k), 'int32'), all.dtype)
    end)
  end)
end
function ops.SequenceErase(n, s, at)
  local k = s.list and (at and position(n, s, at) or not at and #s.list)
  if not k then
    local all, count, gone = late(n, s, at)
    gone = gone or count - 1
    return made_list(count - 1, all.dtype, function(i)
      return item(all.handle, i + df.cast(df.greater_equal(i, gone), 'int32'), all.dtype)
    end)
  end
  local list = { unpack(s.list) }
  table.remove(list, k)
  return sequence(list)
end
--- The parts of x along the axis, so many that only the run knows: a list that a loop makes. sizes: a vector, a scalar,
-- or nil.
local function split_late(x, axis, sizes, keep)
  local rank, dim = #x.shape, df.dim(x, axis)
  local lengths = sizes and df.cast(sizes, 'int32')
  if not sizes or sizes.shape and #sizes.shape == 0 then
    local each = lengths or df.int32(1)
    local count = -df.floor_div(-dim, each)
    lengths = df.minimum(each, dim - df.range(count) * each)
  end
  local along = {}
  for d = 1, rank do along[d] = d == axis + 1 and 1 or 0 end
  along = help.vector(along, 'int32')
  local ends = df.cumsum(lengths, 0)
  return made_list(df.size(lengths), x.dtype, function(k)
    local part = df.slice(x, along * (ends[k] - lengths[k]), df.shape(x) + along * (lengths[k] - dim))
    return not sizes and not keep and df.squeeze(part, { axis = { axis } }) or part
  end)
end
function ops.SplitToSequence(n, x, sizes)
  local axis = help.axis(n, n.attr('axis', 0), help.rank(n, x))
  local dim, keep = x.shape[axis + 1], n.attr('keepdims', 1) == 1
  if dim < 0 or sizes and not help.known(sizes) then return split_late(x, axis, sizes, keep) end
  local list = sizes and help.known(sizes)
  if sizes and sizes.shape and #sizes.shape == 0 then
    local each, left = list[1], dim
    list = {}
    while left > 0 do
      list[#list + 1] = math.min(each, left)
      left = left - each
    end
  end
  if not list then
    list = {}
    for i = 1, dim do list[i] = 1 end
  end
  local parts = df.split_v(x, help.vector(list, 'int32'), axis, { num_split = #list })
  if not sizes and not keep then for i, p in ipairs(parts) do parts[i] = df.squeeze(p, { axis = { axis } }) end end
  return sequence(parts)
end
function ops.ConcatFromSequence(n, s)
  local axis, new = n.attr 'axis', n.attr('new_axis', 0) == 1
  if s.list then return new and df.stack(s.list, { axis = axis }) or df.concat(s.list, axis) end
  local anything = df.constant(-1, 'int32')
  if axis ~= 0 then n:refuse 'it joins a sequence of unknown length along another axis than the first' end
  if new then return registry.op('TensorListStack', { s.handle, anything }, { element_dtype = s.dtype }) end
  local joined = registry.op('TensorListConcat', { s.handle }, { element_dtype = s.dtype })
  return errors.is_data(joined) and joined[1] or joined
end
--- The lists that the body gives for the elements of a sequence whose length is known only when it runs.
local function map_late(n, body, s, others)
  local vars, outs = { df.int32(0) }, {}
  for k, y in ipairs(body.outputs) do
    local d = values.dtype(y.type) or n:refuse(("the type of its body's output %d is not said"):format(k))
    vars[k + 1], outs[k] = empty_list(d), d
  end
  local count = length_of(s)
  local results = { df.while_loop(function(i) return df.less(i, count) end, function(i, ...)
    local inputs, made = { item(s.handle, i, s.dtype) }, { ... }
    for k, o in ipairs(others) do
      inputs[k + 1] = is_sequence(o) and item(as_list(n, o), i, o.dtype or o.list[1].dtype) or o
    end
    for k, y in ipairs(n.importer:subgraph(body, n.env, inputs)) do made[k] = push(made[k], y) end
    return i + 1, unpack(made)
  end, vars) }
  for k, d in ipairs(outs) do outs[k] = dynamic(results[k + 1], d) end
  return outs
end
function ops.SequenceMap(n, s, ...)
  local body, others, outs = n.attr 'body', { ... }, {}
  if not s.list then return map_late(n, body, s, others) end
  for i, x in ipairs(s.list) do
    local inputs = { x }
    for k, o in ipairs(others) do inputs[k + 1] = is_sequence(o) and o.list[i] or o end
    for k, y in ipairs(n.importer:subgraph(body, n.env, inputs)) do
      outs[k] = outs[k] or {}
      outs[k][i] = y
    end
  end
  for k, list in ipairs(outs) do outs[k] = sequence(list) end
  return outs
end

-- ---- optional values ------------------------------------------------------------------------------------------------
function ops.Optional(n, x)
  if is_sequence(x) then return x end
  local s = sequence{ x }
  s.optional, s.dtype = true, x and x.dtype or values.dtype((n.raw 'type' or {}).tp)
  return s
end
function ops.OptionalGetElement(n, x)
  if not is_sequence(x) then return df.identity(x) end
  if not x.optional then return x end
  if x.list then return df.identity(x.list[1] or n:refuse 'it holds nothing') end
  if x.of_lists then return dynamic(item(x.handle, df.int32(0), 'variant'), x.dtype) end
  return item(x.handle, df.int32(0), x.dtype)
end
function ops.OptionalHasElement(_, x)
  if not is_sequence(x) or not x.optional then return df.constant(x ~= nil) end
  return x.list and df.constant(#x.list > 0) or df.greater(length_of(x), 0)
end
local identity = ops.Identity
function ops.Identity(n, x) return is_sequence(x) and x or identity(n, x) end

-- ---- If -------------------------------------------------------------------------------------------------------------
function ops.If(n, condition)
  local sides, kinds, optional = { n.attr 'then_branch', n.attr 'else_branch' }, {}, {}
  if not sides[1] or not sides[2] then n:refuse 'it has not both branches' end
  local function branch(g)
    return function()
      local results = n.importer:subgraph(g, n.env, {})
      for i, v in ipairs(results) do
        if is_sequence(v) then
          results[i], kinds[i] = as_list(n, v, values.dtype(g.outputs[i].type))
          optional[i] = optional[i] or v.optional
        else
          results[i] = df.identity(v)
        end
      end
      return unpack(results)
    end
  end
  local results = { df.cond(scalar(condition, 'bool'), branch(sides[1]), branch(sides[2])) }
  for i, d in pairs(kinds) do
    results[i] = dynamic(results[i], d)
    results[i].optional = optional[i]
  end
  return results
end

-- ---- Loop -----------------------------------------------------------------------------------------------------------
--- The dtypes of a body's outputs from the one numbered `first` on. What the file does not say is found out by building
-- the body once, of inputs that nothing feeds; nothing needs what it makes.
local function declared(n, body, first, inputs)
  local list, made = {}, nil
  for i = first, #body.outputs do
    local d = values.dtype(body.outputs[i].type)
    if not d then
      made = made or n.importer:subgraph(body, n.env, inputs())
      d = made[i].dtype
    end
    list[i] = d
  end
  return list
end

--- A placeholder like a row of x (`row`), or like x.
local function like(x, row)
  local shape = x.shape
  if shape and row then shape = { unpack(shape, 2) } end
  return df.placeholder(x.dtype, shape)
end

--- The shape that a loop variable keeps: what it enters with, as far as the body's input says no less.
local function kept_shape(x, v)
  local shape, said = x.shape, v.type and values.shape(v.type)
  if not shape then return false end
  if not said or #said ~= #shape then return said and false or nil end
  local out = {}
  for i, dim in ipairs(shape) do out[i] = said[i] < 0 and -1 or dim end
  return out
end

--- Builds the loop with the shapes of its variables kept as far as that goes: where the body changes one, a second
-- attempt leaves all open.
local function attempt(build, first, open)
  local ok, result = pcall(build, first)
  if ok then return result end
  if type(result) ~= 'table' or not tostring(result.message):find('shape', 1, true) then error(result, 0) end
  return build(open)
end

--- What a loop carries in the place of a sequence or an optional value: its list. `shell`: the sequence that it began
-- as.
local function carried_list(n, v, shell, dtype)
  if is_sequence(v) and (v.optional or not shell.optional) then return (as_list(n, v, dtype)) end
  if is_sequence(v) then return push(empty_list 'variant', (as_list(n, v, dtype))) end
  return push(empty_list(dtype), v)
end
local function uncarried(handle, shell, dtype)
  local s = dynamic(handle, dtype)
  s.optional, s.of_lists = shell.optional, shell.of_lists
  return s
end

function ops.Loop(n, most, condition, ...)
  local body, given, kinds, shells, scans = n.attr 'body', { ... }, {}, {}, {}
  local carried = #n.node.inputs - 2
  if #body.inputs ~= carried + 2 or #body.outputs < carried + 1 then
    n:refuse 'its body has not the inputs and outputs that the loop carries'
  end
  local limit = most and scalar(most, 'int64')
  local start = condition and scalar(condition, 'bool') or df.constant(true)
  local vars, kept, open = { df.constant(0, 'int64'), start }, { {}, {} }, { {}, {} }
  for i = 1, carried do
    local v = given[i]
    if is_sequence(v) then
      shells[i] = v
      v, kinds[i] = as_list(n, v, values.dtype(body.inputs[i + 2].type))
      kept[i + 2], open[i + 2] = {}, {}
    else
      local shape = kept_shape(v, body.inputs[i + 2])
      if shape == nil then shape = v.shape end
      kept[i + 2], open[i + 2] = shape, false
      v = df.identity(v)
    end
    vars[i + 2] = v
  end
  local types = declared(n, body, carried + 2, function()
    local inputs = { df.placeholder('int64', {}), df.placeholder('bool', {}) }
    for i = 1, carried do
      inputs[i + 2] = kinds[i] and uncarried(vars[i + 2], shells[i], kinds[i]) or like(vars[i + 2])
    end
    return inputs
  end)
  for i = carried + 2, #body.outputs do
    local element = values.shape(body.outputs[i].type)
    scans[#scans + 1] = df.TensorArray(types[i], df.int32(0), { dynamic_size = true, element_shape = element or false })
  end
  local function build(shapes)
    local all = { unpack(vars) }
    for i, ta in ipairs(scans) do all[carried + 2 + i] = ta end
    for i = 1, #scans do shapes[carried + 2 + i] = {} end
    local function more(i, go) return limit and df.logical_and(df.less(i, limit), go) or go end
    local function step(i, go, ...)
      local now, inputs = { ... }, { i, go }
      for k = 1, carried do inputs[k + 2] = kinds[k] and uncarried(now[k], shells[k], kinds[k]) or now[k] end
      local out = n.importer:subgraph(body, n.env, inputs)
      local next_values = { i + 1, scalar(out[1], 'bool') }
      for k = 1, carried do
        local v = out[k + 1]
        if shells[k] then v = carried_list(n, v, shells[k], kinds[k]) end
        next_values[k + 2] = v
      end
      for k = 1, #scans do
        next_values[carried + 2 + k] = now[carried + k]:write(df.cast(i, 'int32'), out[carried + 1 + k])
      end
      return unpack(next_values)
    end
    return { df.while_loop(more, step, all, { shape_invariants = shapes }) }
  end
  local results = attempt(build, kept, open)
  local outs = {}
  for i = 1, carried do
    outs[i] = kinds[i] and uncarried(results[i + 2], shells[i], kinds[i]) or results[i + 2]
    if kinds[i] and shells[i].optional and not (body.outputs[i + 1].type or {}).optional then
      outs[i] = ops.OptionalGetElement(n, outs[i])
    end
  end
  for i = 1, #scans do outs[carried + i] = results[carried + 2 + i]:stack() end
  return outs
end

-- ---- Scan -----------------------------------------------------------------------------------------------------------
--- x with the axis brought to the front.
local function to_front(n, x, axis)
  local rank = help.rank(n, x)
  axis = help.axis(n, axis, rank)
  if axis == 0 then return x end
  local perm = { axis }
  for d = 0, rank - 1 do if d ~= axis then perm[#perm + 1] = d end end
  return df.transpose(x, perm)
end
local function from_front(n, x, axis)
  local rank = help.rank(n, x)
  axis = help.axis(n, axis, rank)
  if axis == 0 then return x end
  local perm = {}
  for d = 0, rank - 1 do perm[d + 1] = d < axis and d + 1 or d == axis and 0 or d end
  return df.transpose(x, perm)
end

local function scan(n, ...)
  local given, body, scanned = { ... }, n.attr 'body', n.attr 'num_scan_inputs'
  local states = #given - scanned
  local in_axes, out_axes = n.attr('scan_input_axes', {}), n.attr('scan_output_axes', {})
  local in_ways, out_ways = n.attr('scan_input_directions', {}), n.attr('scan_output_directions', {})
  local rows, time = {}, nil
  for i = 1, scanned do
    local x = to_front(n, given[states + i], in_axes[i] or 0)
    if in_ways[i] == 1 then x = df.reverse(x, { 0 }) end
    time = time or df.dim(x, 0)
    rows[i] = df.TensorArray(x.dtype, time):unstack(x)
  end
  local count = #body.outputs - states
  local vars = { df.int32(0) }
  for i = 1, states do vars[i + 1] = df.identity(given[i]) end
  local types = declared(n, body, states + 1, function()
    local inputs = {}
    for i, x in ipairs(given) do
      inputs[i] = like(i > states and to_front(n, x, in_axes[i - states] or 0) or x, i > states)
    end
    return inputs
  end)
  for i = 1, count do
    vars[states + 1 + i] = df.TensorArray(types[states + i], time,
                                          { element_shape = values.shape(body.outputs[states + i].type) or false })
  end
  local results = { df.while_loop(function(t) return df.less(t, time) end, function(t, ...)
    local now, inputs = { ... }, {}
    for i = 1, states do inputs[i] = now[i] end
    for i = 1, scanned do inputs[states + i] = rows[i]:read(t) end
    local out = n.importer:subgraph(body, n.env, inputs)
    local next_values = { t + 1 }
    for i = 1, states do next_values[i + 1] = out[i] end
    for i = 1, count do next_values[states + 1 + i] = now[states + i]:write(t, out[states + i]) end
    return unpack(next_values)
  end, vars) }
  local outs = {}
  for i = 1, states do outs[i] = results[i + 1] end
  for i = 1, count do
    local y = results[states + 1 + i]:stack()
    if out_ways[i] == 1 then y = df.reverse(y, { 0 }) end
    outs[states + i] = from_front(n, y, out_axes[i] or 0)
  end
  return outs
end
--- Before opset 9 the first axis is one of examples, and each is scanned; the first input is their lengths.
function ops.Scan(n, lengths, ...)
  if n.opset >= 9 then return scan(n, lengths, ...) end
  if lengths then n:refuse 'its examples have lengths of their own, which operators from opset 9 on have not' end
  local one = setmetatable({}, { __index = n })
  function one.attr(name, default) return n.attr((name:gsub('^scan_input_', '')), default) end
  local results = df.map_fn(function(...) return unpack(scan(one, ...)) end, { ... })
  return df.type(results) == 'output' and { results } or results
end

return ops
