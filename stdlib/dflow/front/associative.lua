--- df.associative_scan: all prefixes of an associative function, in a graph of logarithmic depth.
--
-- Neighbours are combined, the prefixes of these halves found, and the elements between them combined once more: about
-- 2n calls of fn on single elements, as 2 log2(n) calls on whole arrays (Blelloch, Prefix Sums and Their Applications,
-- 1990). Built of slices and concat, so its gradient is theirs.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local tensor = require 'dflow.front.tensor'
local call_user = require 'dflow.front.call'
local ops = require 'dflow.front.ops'

local M = {}
local f, unpack = ops.functions, graph.unpack

local function ints(list) return f.constant(tensor.tensor(list, 'int32', { #list })) end

--- Elements first, first + step … along the axis, up to `last` (not with it).
local function part(x, axis, first, last, step)
  local begin, stop, strides = {}, {}, {}
  for k, d in ipairs(x.shape) do begin[k], stop[k], strides[k] = 0, math.max(d, 0), 1 end
  local mask = 2 ^ #x.shape - 1 - 2 ^ axis
  begin[axis + 1], stop[axis + 1], strides[axis + 1] = first, last, step
  return f.strided_slice(x, ints(begin), ints(stop), ints(strides), { begin_mask = mask, end_mask = mask })
end

--- even[0], odd[0], even[1], … along the axis; even has as many elements as odd, or one more.
local function interleaved(even, odd, axis, n)
  local pairs_of = math.floor(n / 2)
  local both = f.stack({ part(even, axis, 0, pairs_of, 1), odd }, { axis = axis + 1 })
  local shape, unknown = even.shape, 0
  shape[axis + 1] = 2 * pairs_of
  for _, d in ipairs(shape) do if d < 0 then unknown = unknown + 1 end end
  local all = f.shape(odd)
  local out = f.reshape(both, unknown < 2 and ints(shape)
                        or f.concat({ f.slice(all, ints{ 0 }, ints{ axis }), ints{ 2 * pairs_of },
                                      f.slice(all, ints{ axis + 1 }, ints{ -1 }) }, 0))
  out:set_shape(shape)
  return n % 2 == 0 and out or f.concat({ out, part(even, axis, n - 1 - pairs_of, n - pairs_of, 1) }, axis)
end

--- associative_scan(fn, elems, {axis = 0, reverse = false}): the combination of elements 0 … i, for each i.
-- @param fn     fn(a, b) of two structures like elems, of as many elements each as it is given; associative,
--               elementwise along the axis
-- @param elems  an Output, or a structure of them, with the same number of elements along the axis
-- @return       a structure like elems
function M.associative_scan(fn, elems, opts)
  opts = errors.options(opts, 'associative_scan', { 'axis', 'reverse' })
  if not convert.is_callable(fn) then
    errors.bad('associative_scan takes a function first, not %s', errors.describe(fn))
  end
  if elems == nil then errors.bad('associative_scan: elems is missing') end
  local reverse = errors.flag(opts.reverse, 'associative_scan', 'reverse') == true
  if not nest.is_structure(elems) then elems = convert.to_output(elems, nil, nil, 'associative_scan') end
  local axis, like = opts.axis == nil and 0 or opts.axis, { elems }
  if type(axis) ~= 'number' or not dtypes.is_whole(axis) then
    errors.bad('associative_scan: axis is a whole number, not %s', errors.describe(axis))
  end
  local list, n, at = {}, nil, {}
  nest.each(like, nest.is_structure, function(v)
    local x = convert.to_output(v, nil, nil, 'associative_scan')
    local shape = x.shape
    local a = shape and (axis < 0 and axis + #shape or axis)
    if not shape or a < 0 or a >= #shape then
      errors.bad('associative_scan: %s has no axis %d', tensor.shape_text(x.dtype, shape), axis)
    end
    local m = shape[a + 1]
    if m < 0 then
      errors.bad('associative_scan: how many elements %s has along axis %d has to be known while the graph is built; '
                 .. 'df.scan takes any', x.name, axis)
    end
    if n and m ~= n then
      errors.bad('associative_scan: elems have different numbers of elements along axis %d, %d and %d', axis, n, m)
    end
    n = m
    list[#list + 1], at[#at + 1] = reverse and f.reverse(x, ints{ a }) or x, a
  end)
  local function combine(a, b)
    local r = call_user(fn, nest.pack(like, a, nest.is_structure)[1], nest.pack(like, b, nest.is_structure)[1])
    local out = {}
    if r[1] == nil then errors.bad('associative_scan: the function returns nothing: is `return` missing?') end
    if r.n > 1 then r = { { unpack(r, 1, r.n) } } end                       -- several are a list
    nest.each({ r[1] }, nest.is_structure,
              function(v) out[#out + 1] = convert.to_output(v, graph.dtype(list[#out + 1] or list[1]), nil,
                  'associative_scan') end)
    if #out ~= #list then errors.bad('associative_scan: the function returns %d values, elems has %d', #out, #list) end
    for k, o in ipairs(out) do
      local want, have = a[k].shape, o.shape
      for i, d in ipairs(want) do
        if not have or #have ~= #want or (have[i] >= 0 and d >= 0 and have[i] ~= d) then
          errors.bad('associative_scan: the function gets %s and returns %s; a shape is kept',
                     tensor.shape_text(a[k].dtype, want), tensor.shape_text(o.dtype, have))
        end
      end
    end
    return out
  end
  local function each(xs, fn_of)
    local out = {}
    for k, x in ipairs(xs) do out[k] = fn_of(x, at[k]) end
    return out
  end
  local function scan(xs, m)
    if m < 2 then return xs end
    local half = math.floor(m / 2)
    local odd = scan(combine(each(xs, function(x, a) return part(x, a, 0, 2 * half - 1, 2) end),
                             each(xs, function(x, a) return part(x, a, 1, 2 * half, 2) end)), half)
    local first = each(xs, function(x, a) return part(x, a, 0, 1, 1) end)
    local left = math.ceil(m / 2) - 1
    local even = first
    if left > 0 then
      local rest = combine(each(odd, function(x, a) return part(x, a, 0, left, 1) end),
                           each(xs, function(x, a) return part(x, a, 2, 2 * left + 1, 2) end))
      for k in ipairs(rest) do even[k] = f.concat({ first[k], rest[k] }, at[k]) end
    end
    local out = {}
    for k in ipairs(xs) do out[k] = interleaved(even[k], odd[k], at[k], m) end
    return out
  end
  local out = graph.attempt(list[1].graph, scan, list, n)
  if reverse then for k, x in ipairs(out) do out[k] = f.reverse(x, ints{ at[k] }) end end
  return nest.pack(like, out, nest.is_structure)[1]
end

return M
