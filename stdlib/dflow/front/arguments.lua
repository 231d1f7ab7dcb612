--- Arguments of ops whose Lua surface differs from the node: what is given by place, what by name, what each means.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'

local M = {}
M.functions = {}      -- name -> function: adapters, and registry functions once they were asked for
local to_output, op1, typed = convert.to_output, registry.op1, convert.typed

local is_checked = {}

--- What every op means by these: an axis is a whole number, a list or an Output; a shape a list or an Output.
function is_checked.axis(what, v)
  if type(v) == 'number' and dtypes.is_whole(v) and math.abs(v) < 2^31 then return end
  if nest.is_plain(v) or (type(v) == 'table' and typed(v)) then return end
  errors.bad('%s: axis is %s, a whole number is expected', what, errors.describe(v))
end
function is_checked.shape(what, v)
  if type(v) == 'number' and dtypes.is_whole(v) and math.abs(v) < 2^53 then return end
  if type(v) == 'table' and typed(v) then return end
  if not nest.is_plain(v) then
    local is_dtype = type(v) == 'string' and dtypes.number[v]
    errors.bad('%s: shape is %s, a list of whole numbers is expected%s', what, errors.describe(v), is_dtype
               and '; the dtype stands behind it' or '')
  end
  for i = 1, #v do
    local d = v[i]
    if type(d) ~= 'number' or not dtypes.is_whole(d) or math.abs(d) >= 2^53 then
      errors.bad('%s: dimension %d of the shape is %s, a whole number is expected', what, i - 1, errors.describe(d))
    end
  end
end
function is_checked.name(what, v)
  if type(v) ~= 'string' then errors.bad('%s: name is %s, a string is expected', what, errors.describe(v)) end
end
function is_checked.dtype(what, v)
  if type(v) == 'number' then
    errors.bad("%s: a dtype is a string such as 'float32', not %s", what, errors.describe(v))
  end
  dtypes.of(v)
end
is_checked.output_type, is_checked.out_type = is_checked.dtype, is_checked.dtype
for _, key in ipairs{ 'keep_dims', 'exclusive', 'reverse', 'transpose_a', 'transpose_b', 'sorted', 'stable', 'saturate',
                      'preserve_aspect_ratio', 'pad_end',
                      'is_training', 'scale_after_normalization', 'compute_full_loss', 'cycle' } do
  is_checked[key] = function(what, v)
    if type(v) ~= 'boolean' then
      errors.bad('%s: %s is %s, true or false is expected', what, key, errors.describe(v))
    end
  end
end

local function check(what, key, given)
  local v, is_right = given[key], is_checked[key]
  if v ~= nil and is_right then is_right(what, v) end
end

--- Takes positional arguments and an options table apart.
-- @param what   the op's name, for messages
-- @param names  names of what may be given by place, in order; these are options too
-- @param more   names of further options
-- @return       a table of them all by name
local function take(what, names, more, ...)
  local n, out = select('#', ...), {}
  while n > 0 and (select(n, ...)) == nil do n = n - 1 end
  local last = n > 0 and (select(n, ...)) or nil
  if n > 0 and nest.is_plain(last) and (nest.has_names(last) or (n > #names and next(last) == nil)) then
    local unknown                       -- of several the first by name, in every process
    for key, v in pairs(last) do
      local known = key == 'name'
      for i = 1, #names do known = known or names[i] == key end
      for i = 1, #more do known = known or more[i] == key end
      if not known and (unknown == nil or tostring(key) < tostring(unknown)) then unknown = key end
      out[key] = v
    end
    if unknown ~= nil then
      local all = {}
      for i = 1, #names do if i > 1 then all[#all + 1] = names[i] end end
      for i = 1, #more do all[#all + 1] = more[i] end
      all[#all + 1] = 'name'
      errors.bad("%s has no option '%s'%s (it knows: %s)", what, tostring(unknown), errors.hint_of_option(unknown, all),
                 table.concat(all, ', '))
    end
    n = n - 1
  end
  if n > #names then
    errors.bad('%s takes at most %d arguments (%s), %d were given', what, #names, table.concat(names, ', '), n)
  end
  for i = 1, n do
    local v = select(i, ...)
    if v ~= nil then
      if out[names[i]] ~= nil then errors.bad('%s: %s is given twice, by its place and by its name', what, names[i]) end
      out[names[i]] = v
    end
  end
  for i = 1, #names do check(what, names[i], out) end        -- in this order: the first that is wrong is told
  for i = 1, #more do check(what, more[i], out) end
  check(what, 'name', out)
  return out
end
M.take = take

local function required(what, o, ...)
  for i = 1, select('#', ...) do
    local name = select(i, ...)
    if o[name] == nil then errors.bad('%s: %s is missing', what, name) end
  end
end
M.required = required

--- Is this what a node is called, alone, in a scope or as one of several that asked for the name?
local function is_called(own, name)
  own = own:gsub(':%d+$', '')
  if own:sub(-#name) ~= name then own = own:gsub('_%d+$', '') end
  return own == name or own:sub(-#name - 1) == '/' .. name
end

--- What a function gives, under the name that it was asked for: where the function is made of several ops, and the last
-- of them is called otherwise, behind an Identity of that name.
function M.named(name, ...)
  name = name and name:gsub('/$', '')            -- as the graph has it; an empty one is none
  if name == nil or name == '' then return ... end
  local out, n = { ... }, select('#', ...)
  for i = 1, n do
    local x = out[i]
    local mt = getmetatable(x)
    if mt == graph.Output and not is_called(x.name, name) then
      out[i] = registry.op('Identity', { x }, { name = name })
    elseif mt == graph.Operation and not is_called(x.name, name) then
      out[i] = graph.with(x.graph, graph.control_dependencies, { x },
                          function() return registry.op('NoOp', {}, { name = name }) end)
    end
  end
  return graph.unpack(out, 1, n)
end

M.of = {}      -- of adapters: name -> {what may be given by place, what only by name}
--- Defines the function df.name: fn gets take's table.
local function def(name, names, more, fn)
  M.of[name] = { names, more }
  M.functions[name] = function(...)
    local o = take(name, names, more, ...)
    if o.name == nil then return fn(o) end
    return M.named(o.name, fn(o))
  end
end
M.def = def

--- An Output of the value; bare numbers are int32 (indices, axes, sizes).
local function int32(v, g)
  return to_output(v, 3, g)
end
M.int32 = int32

--- The axes of x as something that a reduction takes: all of them when axis is nil.
local function axes_of(x, axis)
  if axis ~= nil then return int32(axis, x.graph) end
  local rank = graph.rank(x)
  if rank then
    local list = {}
    for i = 1, rank do list[i] = i - 1 end
    return convert.list(x.graph, list)
  end
  return op1('Range', int32(0, x.graph), op1('Rank', x), int32(1, x.graph))
end
M.axes_of = axes_of

return M
