--- Tensor: a concrete dense array on the host, with the dtype and shape it was made with. Never changes.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local shapes = require 'dflow.front.shape'
local dtypes = require 'dflow.front.dtypes'
local text = require 'dflow.front.text'

local M = {}
local Tensor = core.Tensor
M.Tensor = Tensor
Tensor.__name = 'dflow.Tensor'

--- The module of ops on Tensors, front/eager.lua, which is above this one: dflow.lua says how it is loaded.
function M.eager() error 'dflow is not loaded' end

local methods = {}

local fields = {
  dtype = function(t) return dtypes.name[(core.tensor_info(t))] end,
  shape = function(t) return shapes.of(core.tensor_shape(t)) end,
  rank  = function(t) local _, rank = core.tensor_info(t) return rank end,
  size  = function(t) local _, _, size = core.tensor_info(t) return size end,
}

Tensor.__index = function(t, key)
  local method = methods[key]
  if method then return method end
  local field = fields[key]
  if field then return field(t) end
  if type(key) == 'number' then
    errors.bad('a Tensor is indexed from 0 with t:at(%s); t:totable() gives a table', tostring(key))
  end
  method = M.op_method(key)
  if method then return method end
  if type(key) ~= 'string' then
    errors.bad('a Tensor is indexed with t:at(0, 1), from 0, not with %s in brackets', errors.describe(key))
  end
  local names = {}
  for name in pairs(methods) do names[#names + 1] = name end
  for name in pairs(fields) do names[#names + 1] = name end
  errors.bad("a Tensor has no field or method '%s'%s; a Tensor is a value, ops are functions of df", tostring(key),
             errors.hint_of_others(key, names))
end

--- An op as a method, computed at once: t:reduce_sum{axis = 0}, and NumPy's t:sum().
function M.op_method(key)
  if type(key) ~= 'string' then return nil end
  local method = M.eager().method(key)
  if method then methods[key] = method end
  return method
end

Tensor.__newindex = function()
  errors.bad('a Tensor never changes; make another with df.tensor')
end

Tensor.__pairs = function() errors.bad('a Tensor is gone over as a table: ipairs(t:totable())') end

--- #t: the first dimension.
Tensor.__len = function(t)
  return core.tensor_shape(t)[1] or 0
end

--- A Tensor is a value: between it and an Output an operator builds a node, alone it is computed at once.
for event, name in pairs{ add = 'add', sub = 'sub', mul = 'mul', div = 'div', mod = 'floormod', pow = 'pow',
                          idiv = 'floordiv' } do
  Tensor['__' .. event] = function(a, b)
    local other = getmetatable(a) == Tensor and b or a
    local mt = type(other) == 'table' and other ~= a and getmetatable(other)
    local build = type(mt) == 'table' and mt ~= Tensor and mt['__' .. event]
    if build then return build(a, b) end
    return M.eager().apply(name, a, b)
  end
end
Tensor.__unm = function(t) return M.eager().apply('neg', t) end

--- Is one element the other: 0 is -0, and what is not a number is alike, whatever its sign.
local function alike(x, y)
  if type(x) == 'table' then return alike(x.re, y.re) and alike(x.im, y.im) end
  return x == y or (x ~= x and y ~= y)
end

--- a == b: the same dtype, shape and elements. A number is no Tensor: Lua does not ask, and says false.
Tensor.__eq = function(a, b)
  if getmetatable(a) ~= Tensor or getmetatable(b) ~= Tensor then return false end
  local d, _, size = core.tensor_info(a)
  if core.tensor_info(b) ~= d or not shapes.same(core.tensor_shape(a), core.tensor_shape(b)) then return false end
  if not dtypes.is_boxed(d) and core.tensor_bytes(a) == core.tensor_bytes(b) then return true end
  local x, y = core.tensor_list(a), core.tensor_list(b)      -- 0 and -0 have other bits
  for i = 1, size do
    if not alike(x[i], y[i]) then return false end
  end
  return true
end

local function no_order()
  errors.bad('a Tensor is compared element by element: write t:lt(1), t:le(1), t:gt(1) or t:ge(1); t:item() is the '
             .. 'one number of a small one')
end
Tensor.__lt, Tensor.__le = no_order, no_order

-- df.Tensor is the type; people call it as PyTorch's.
setmetatable(Tensor, { __call = function()
  errors.bad('df.Tensor is the type of values: df.tensor{1, 2} makes one, df.zeros{2, 3} builds a node')
end })

-- ---- making ------------------------------------------------------------------------------------------------
--- An Output, a Variable and their kind have no value outside runs.
local function without_value(v, what)
  local mt = getmetatable(v)
  if type(v) == 'table' and mt ~= Tensor and not errors.is_data(v) then
    local graphic = mt.__name == 'dflow.Output' or mt.__name == 'dflow.Variable'
    errors.bad('%s%s is no value%s', what and what .. ': ' or '', errors.describe(v), graphic
               and ' outside a run: df.run(x) gives its value as a Tensor or a number' or '')
  end
end

--- Flattens nested tables in row-major order and checks that they are rectangular.
-- @return flat list, shape
function M.flatten(v, what)
  without_value(v, what)
  if type(v) ~= 'table' or dtypes.is_complex_value(v) then return { v }, {} end
  local shape, t = {}, v
  while type(t) == 'table' and getmetatable(t) ~= Tensor and not dtypes.is_complex_value(t) do
    errors.deeper(#shape)
    without_value(t, what)
    shape[#shape + 1] = #t
    if #t == 0 and next(t) ~= nil then
      errors.bad("a table with the key '%s' is no tensor value: expected lists of numbers, booleans or strings",
                 tostring(next(t)))
    end
    t = t[1]
  end
  local leaf_shape = {}
  if getmetatable(t) == Tensor then leaf_shape = t.shape end
  local depth, flat, n = #shape, {}, 0
  local function walk(list, level)
    if #list ~= shape[level] then
      errors.bad('the table is not rectangular: it has rows of %d and of %d elements', shape[level], #list)
    end
    local behind = next(list, #list > 0 and #list or nil)
    if type(behind) == 'number' and behind > #list then
      errors.bad('the table has a hole: nothing stands at its place %d, but something at %d', #list + 1, behind)
    end
    for i = 1, #list do
      local x = list[i]
      if x == nil then errors.bad('the table has a hole: nothing (nil) stands at its place %d of %d', i, #list) end
      if level < depth then
        if type(x) ~= 'table' or getmetatable(x) == Tensor then
          errors.bad('the table is not rectangular: %s stands where a row of %d elements is expected',
                     errors.describe(x), shape[level + 1])
        end
        without_value(x, what)
        walk(x, level + 1)
      elseif getmetatable(x) == Tensor then
        for _, y in ipairs(core.tensor_list(x)) do
          n = n + 1
          flat[n] = y
        end
      elseif type(x) == 'table' and not dtypes.is_complex_value(x) then
        without_value(x, what)
        errors.bad('the table is not rectangular: a table stands where a number is expected')
      else
        n = n + 1
        flat[n] = x
      end
    end
  end
  walk(v, 1)
  for i = 1, #leaf_shape do shape[#shape + 1] = leaf_shape[i] end
  return flat, shape
end

--- The dtype of a flat list of bare values: of the widest of its numbers.
function M.dtype_of_list(flat)
  local found
  for i = 1, #flat do
    local d = dtypes.of_bare(flat[i])
    if not d then
      errors.bad('%s is no tensor element: expected numbers, booleans or strings', errors.describe(flat[i]))
    end
    if not found or (found == 3 and (d == 9 or d == 1)) or (found == 9 and d == 1)
      or (d == 8 and (found == 3 or found == 9 or found == 1)) then
      found = d
    elseif found ~= d and not ((found == 9 or found == 1 or found == 8) and (d == 3 or d == 9 or d == 1)) then
      errors.bad('a table holds both %s and %s', dtypes.name[found], dtypes.name[d])
    end
  end
  return found or 1
end

local function product(shape)
  local n = 1
  for i = 1, #shape do n = n * shape[i] end
  return n
end

M.shape_text = text.shape

--- How many places a list has, up to the last that is filled: #list may end at a hole before it.
local function places(list)
  local n = 0
  for k in pairs(list) do if type(k) == 'number' and k > n then n = k end end
  return n
end

--- A shape of known dimensions: a list of whole numbers from 0 up.
function M.check_shape(shape)
  if not errors.is_data(shape) then
    errors.bad('a shape is a list of dimensions, not %s', errors.describe(shape))
  end
  for i = 1, places(shape) do
    local d = shape[i]
    if type(d) ~= 'number' or not dtypes.is_whole(d) or d < 0 or d >= 2^53 then
      errors.bad('dimension %d of the shape is %s, a whole number from 0 up is expected', i - 1, errors.describe(d))
    end
  end
end

--- What is known of a shape while the graph is built: a list of whole numbers, or one such number; -1 is a dimension
-- that is not known.
-- @param what  what is given it, for the message
-- @return      the shape
function M.check_static_shape(shape, what)
  local list = type(shape) == 'number' and { shape } or shape
  if not errors.is_data(list) then
    errors.bad('%s: a shape is a list of dimensions, not %s', what, errors.describe(shape))
  end
  for i = 1, places(list) do
    local d = list[i]
    if type(d) ~= 'number' or not dtypes.is_whole(d) or d < -1 or d >= 2^53 then
      errors.bad('%s: dimension %d of the shape is %s, a whole number is expected%s', what, i - 1, errors.describe(d),
                 type(d) == 'number' and d < -1 and ', or -1 where it is not known' or '')
    end
  end
  return shape
end

--- A Tensor of v: a number, boolean, string, (nested) table of these, or a Tensor.
-- @param dtype  a number or nil: what the values are by themselves
-- @param shape  nil: that of the table. Otherwise the values in row-major order, or one for all
-- @param what   for messages: what the value was given for
function M.from(v, dtype, shape, what)
  if getmetatable(v) == Tensor then
    local own = core.tensor_info(v)
    if dtype and own ~= dtype then
      errors.bad("a Tensor of %s was given%s, %s is expected%s", dtypes.name[own],
                 what and ' for ' .. what or '', dtypes.name[dtype], dtypes.advised(own, dtype))
    end
    return shape and v:reshape(shape) or v
  end
  if shape then M.check_shape(shape) end
  local flat, own = M.flatten(v, what)
  dtype = dtype or M.dtype_of_list(flat)
  if shape then
    local n = product(shape)
    if #flat ~= n and #flat ~= 1 then
      errors.bad('%d values were given%s, shape %s holds %d', #flat, what and ' for ' .. what or '',
                 M.shape_text('', shape), n)
    end
  end
  local t, at = core.tensor_new(dtype, shape or own, flat)
  if not t then
    errors.bad('%s%s cannot be an element of dtype %s', errors.describe(flat[#flat == 1 and 1 or at]),
               what and ' for ' .. what or '', dtypes.name[dtype])
  end
  return t
end

--- df.tensor(v, dtype?, shape?)
function M.tensor(v, dtype, shape)
  if dtype ~= nil then dtype = dtypes.of(dtype) end
  if getmetatable(v) == Tensor and dtype then v = core.tensor_cast(v, dtype) end
  return M.from(v, dtype, shape)
end

-- ---- methods -------------------------------------------------------------------------------------------------
--- Nested tables of its elements; the element itself when the rank is 0.
function methods.totable(t)
  local shape, flat = core.tensor_shape(t), core.tensor_list(t)
  if #shape == 0 then return flat[1] end
  if #shape == 1 then return flat end
  local at = 0
  local function build(level)
    local list = {}
    if level == #shape then
      for i = 1, shape[level] do list[i] = flat[at + i] end
      at = at + shape[level]
    else
      for i = 1, shape[level] do list[i] = build(level + 1) end
    end
    return list
  end
  return build(1)
end

--- The one element of a tensor of size 1.
function methods.item(t)
  local _, _, size = core.tensor_info(t)
  if size ~= 1 then
    errors.bad('item() is for a tensor of one element; this is %s', M.shape_text(t.dtype, t.shape))
  end
  return core.tensor_get(t, 0)
end

--- The same numbers in another dtype, as df.cast would convert them.
function methods.astype(t, dtype)
  return core.tensor_cast(t, dtypes.of(dtype))
end

--- The same elements in another shape; one dimension may be -1.
function methods.reshape(t, shape)
  if type(shape) ~= 'table' then errors.bad('reshape takes a list, not %s', errors.describe(shape)) end
  local _, _, size = core.tensor_info(t)
  local known, open, out = 1, nil, {}
  for i = 1, #shape do
    if type(shape[i]) ~= 'number' or not dtypes.is_whole(shape[i]) or shape[i] < -1 then
      errors.bad('reshape: dimension %d is %s, a whole number from 0 up or -1 is expected', i - 1,
                 errors.describe(shape[i]))
    end
    out[i] = shape[i]
    if shape[i] == -1 then
      if open then errors.bad('reshape: only one dimension may be -1') end
      open = i
    else
      known = known * shape[i]
    end
  end
  if open then out[open] = known == 0 and 0 or math.floor(size / known) end
  if product(out) ~= size then
    errors.bad('a tensor of shape %s cannot be reshaped to %s: it has %d elements', M.shape_text('', t.shape),
               M.shape_text('', shape), size)
  end
  return core.tensor_reshape(t, out)
end

--- Part i of the first axis.
local function row_of(t, i)
  local rest = core.tensor_shape(t)
  table.remove(rest, 1)
  return core.tensor_reshape(core.tensor_rows(t, { i }, 1, 1), rest)
end

--- Element (i, j, ...), counted from 0; negative numbers count from the end. Fewer indices than the rank give a part.
function methods.at(t, ...)
  local shape, n = core.tensor_shape(t), select('#', ...)
  if n > #shape then errors.bad('%d indices into a tensor of rank %d', n, #shape) end
  local at, part = 0, t
  for axis = 1, n do
    local i = select(axis, ...)
    if type(i) ~= 'number' or not dtypes.is_whole(i) then
      errors.bad('index %d is %s, not an integer', axis, errors.describe(i))
    end
    local size = shape[axis]
    if i < -size or i >= size then
      errors.raise('out_of_range', 'index %d is out of range for axis %d of %s', i, axis - 1,
                   M.shape_text(t.dtype, shape))
    end
    i = i < 0 and i + size or i
    at = at * size + i
    if n < #shape then part = row_of(part, i) end      -- no more is copied than the first index leaves
  end
  if n == #shape then return core.tensor_get(t, at) end
  return n > 0 and part or t
end

--- Rows `list[1]`, `list[2]`, ... (counted from 0) as a new tensor.
function methods.rows(t, list)
  if not errors.is_data(list) then
    errors.bad('rows takes a list of row numbers, counted from 0, not %s', errors.describe(list))
  end
  return core.tensor_rows(t, list, 1, #list)
end

--- The elements as a flat Lua list, in row-major order.
function methods.list(t)
  return core.tensor_list(t)
end

-- ---- printing ---------------------------------------------------------------------------------------------------
--- As NumPy prints arrays: aligned columns, a summary of corners for large ones, then dtype and shape.
Tensor.__tostring = function(t) return text.tensor(t) end

M.methods = methods
return M
