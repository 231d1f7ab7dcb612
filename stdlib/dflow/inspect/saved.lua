--- df.saved: what gradients save of loops and conds, why, and what they compute again instead.
local core = require 'dflow.backend'
local registry = require 'dflow.front.registry'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local gradients = require 'dflow.front.gradients'
local tensor = require 'dflow.front.tensor'

local M = {}

-- dflow.h's numbers, in the order in which a report tells them.
local ways = { 'saved', 'carried', 'computed again', 'counted', 'constant', 'kept', 'not repeated', 'outlined' }
local order = { kept = 1, saved = 2, ['not repeated'] = 3, outlined = 4, carried = 5, constant = 6, counted = 7,
                ['computed again'] = 8 }
local said = {
  kept = 'kept now and then', saved = 'saved', ['not repeated'] = 'saved, would vary', outlined = 'saved, its size',
  carried = 'carried back', constant = 'loop constant', counted = 'counted', ['computed again'] = 'computed again',
}
local policies = { [0] = 'keep', 'swap', 'recompute', 'auto' }

local function bytes_of(dtype, shape)
  local bits = dtype == dtypes.BOOL and 8 or tonumber((dtypes.name[dtype] or ''):match '%d+$')
  if not bits or not shape then return nil end
  local n = bits / 8
  for _, d in ipairs(shape) do
    if d < 0 then return nil end
    n = n * d
  end
  return n
end

--- Which loop variable this Switch carries, from 1; nil when it is none's.
local function variable_of(g, flow, switch)
  local d = core.flow_describe(g.handle, flow)
  for i = 1, d and d[1] == 2 and d[5] or 0 do
    if d[7 * i + 1] == switch then return i end
  end
end

--- How many elements the array has whose handle that is, and their dtype, as far as the graph tells: the array's own
-- number, or as many as were unstacked to it. The handle is followed back to where the array was made.
local function locations(h, node)
  local n
  for _ = 1, 100 do
    local op = core.node_type(h, node)
    if core.node_inputs(h, node) == 0 then return nil end
    if op == 'TensorArrayUnstack' then
      local shape = core.output_shape(h, core.node_input_of(h, node, 1))
      n = shape and shape[1] and shape[1] >= 0 and shape[1] or nil
    end
    local from, index = core.node_input_of(h, node, 0)
    if op == 'TensorArray' then
      if not n and core.node_attr(h, node, 'dynamic_size') ~= false then return nil end
      local size = not n and core.output_constant(h, from, index)
      return n or size and tonumber(tostring(size:totable())), core.node_attr(h, node, 'dtype')
    end
    node = from
  end
end

local function value_of(g, flow, how, node, index, asks)
  local o = graph.output(g, node, index)
  local dtype, shape = graph.dtype(o), core.output_shape(g.handle, node, index)
  local h, op = g.handle, core.node_type(g.handle, node)
  local v = { how = how, name = o.name, op = op, line = core.node_where(h, node), dtype = dtypes.name[dtype],
              shape = shape,
              bytes = how ~= 'constant' and bytes_of(dtype, shape) or nil, array = dtype == dtypes.RESOURCE }
  if v.array and how == 'saved' then
    local n, of = locations(h, node)
    local one = n and bytes_of(of, shape)
    v.bytes = one and n * one
  end
  if registry.primitive(op) == 'Switch' then v.variable = variable_of(g, flow, node) end
  if op == 'Shape' then v.shape_of = graph.output(g, core.node_input_of(h, node, 0)).name end
  if asks ~= node then
    v.wanted_by, v.wanted_op, v.wanted_line = core.node_name_of(h, asks), core.node_type(h, asks),
      core.node_where(h, asks)
  end
  return v
end

-- ---- as text ------------------------------------------------------------------------------------------------

local function amount(bytes)
  if not bytes then return 'as it comes' end
  if bytes >= 1e6 then return ('%.3g MB'):format(bytes / 1e6) end
  if bytes >= 1e4 then return ('%.3g kB'):format(bytes / 1e3) end
  return ('%d byte%s'):format(bytes, bytes == 1 and '' or 's')
end

local function title(v) return v.variable and 'loop variable ' .. v.variable or v.name end

local function line_text(v, width)
  local what = v.array and 'a TensorArray' or tensor.shape_text(v.dtype, v.shape)
  if v.shape_of then what = 'the shape of ' .. v.shape_of end
  local text = ('  %-18s %-' .. width .. 's  %s'):format(said[v.how], title(v), what)
  if v.bytes and v.how ~= 'computed again' and v.how ~= 'counted' then text = text .. ', ' .. amount(v.bytes) end
  if v.line ~= '' then text = text .. ', ' .. v.line end
  if v.wanted_op then
    text = text .. (', for the gradient of %s'):format(v.wanted_op)
    if v.wanted_line ~= '' and v.wanted_line ~= v.line then text = text .. ' at ' .. v.wanted_line end
  end
  return text
end

local function head(loop)
  local text = ('%s %s'):format(loop.kind, loop.name)
  if loop.line ~= '' then text = text .. ', ' .. loop.line end
  if loop.kind == 'while_loop' then text = text .. (", save = '%s'"):format(loop.save) end
  text = text .. ': ' .. (loop.bytes == 0 and 'nothing' or amount(loop.bytes))
    .. (loop.kind == 'cond' and '' or ' a trip')
  if loop.save == 'swap' then
    text = text .. '\n  on a CPU what is saved lies in host memory already, so nothing is moved'
  elseif loop.save == 'recompute' then
    text = text .. ("\n  and %s in iterations 0, 1, 3, 6, 10, …; those between are run again, in a loop that saves as "
                    .. "a loop does"):format(
      amount(loop.kept_bytes))
  end
  return text
end

local Report = { __name = 'dflow.Saved' }
Report.__index = Report
Report.__tostring = function(r)
  if #r == 0 then return 'No gradient saves anything of a loop or cond.' end
  local lines = {}
  for _, loop in ipairs(r) do
    lines[#lines + 1] = head(loop)
    local width = 0
    for _, v in ipairs(loop) do width = math.min(math.max(width, #title(v)), 48) end
    for _, v in ipairs(loop) do lines[#lines + 1] = line_text(v, width) end
  end
  return table.concat(lines, '\n')
end

-- ---- the report ---------------------------------------------------------------------------------------------

--- A loop's sum over its values of one way; nil when a shape is not known.
local function sum(loop, ...)
  local bytes = 0
  for _, way in ipairs { ... } do
    for _, v in ipairs(loop) do
      if v.how == way and not (v.array and not v.bytes) then
        if not v.bytes then return nil end
        bytes = bytes + v.bytes
      end
    end
  end
  return bytes
end

local function report(g, node)
  local rows, out, at = core.saved(g.handle, node), setmetatable({}, Report), {}
  for i = 1, #rows, 6 do
    local flow, policy, how, value, index, asks = rows[i], rows[i + 1], rows[i + 2], rows[i + 3], rows[i + 4],
      rows[i + 5]
    local loop = at[flow]
    if not loop then
      local kind = registry.primitive(core.node_type(g.handle, flow)) == 'Exit' and 'while_loop' or 'cond'
      loop = { kind = kind, name = core.flow_name(g.handle, flow), line = core.node_where(g.handle, flow),
               save = policies[policy] }
      at[flow] = loop
      out[#out + 1] = loop
    end
    loop[#loop + 1] = value_of(g, flow, ways[how], value, index, asks)
  end
  for _, loop in ipairs(out) do
    for i, v in ipairs(loop) do v.place = i end
    table.sort(loop, function(a, b)
      if order[a.how] ~= order[b.how] then return order[a.how] < order[b.how] end
      return a.place < b.place
    end)
    for _, v in ipairs(loop) do v.place = nil end
    loop.bytes, loop.kept_bytes = sum(loop, 'saved', 'not repeated'), sum(loop, 'kept')
  end
  return out
end

--- What is saved of each loop and cond for the gradients built so far, by its name: {amount = '12 bytes a trip', text =
-- the report on it}.
function M.by_name(g, node)
  local found = {}
  for _, loop in ipairs(report(g, node)) do
    found[loop.name] = { amount = loop.bytes ~= 0 and amount(loop.bytes) .. (loop.kind == 'cond' and '' or ' a trip')
                         or nil,
                         text = tostring(setmetatable({ loop }, Report)) }
  end
  return found
end

--- The float Variables and placeholders that y depends on.
function M.sources(g, y)
  local h, seen, stack, list = g.handle, { [y.node] = true }, { y.node }, {}
  while #stack > 0 do
    local n = table.remove(stack)
    local op = core.node_type(h, n)
    local variable = registry.about(op, 'variable')
    local x = (variable or registry.primitive(op) == 'Placeholder' or op == 'PlaceholderWithDefault')
      and graph.output(g, n, 0)
    if x and (variable or dtypes.is_float(graph.dtype(x))) then list[#list + 1] = x end
    for i = 0, core.node_inputs(h, n) - 1 do
      local from = core.node_input_of(h, n, i)
      if not seen[from] then
        seen[from] = true
        stack[#stack + 1] = from
      end
    end
  end
  return list
end

--- df.saved(y, xs?): per loop and cond that y depends on, what the gradients built so far save of each trip.
-- @param y   an Output: a loss, or a gradient
-- @param xs  builds the gradient of y by these first. Without it, and where no gradient was built yet, that by the
--            Variables and placeholders is
-- @return    a list of {kind, name, line, save, bytes, kept_bytes, …}, each a list of {how, name, op, variable, line,
--            dtype, shape, bytes, shape_of, wanted_by, wanted_op, wanted_line}; tostring makes a page of it. how is
--            'saved', 'kept' (save = 'recompute'), 'not repeated' (saved under it because a second time would give
--            another value), 'carried' (by the backward loop), 'constant' (of the loop), 'counted' (from the
--            iteration's number) or 'computed again'. bytes is nil where a shape is not known while building
function M.saved(y, xs)
  if y == nil then errors.bad('saved takes a loss: an Output') end
  local o = convert.to_output(y, nil, convert.graph_of(y), 'saved')
  local g = o.graph
  if xs ~= nil then
    gradients.gradients(o, xs, { unconnected = 'none' })
    return report(g, o.node)
  end
  local found = report(g, o.node)
  if #found > 0 or not dtypes.is_float(graph.dtype(o)) then return found end
  local list = M.sources(g, o)
  if #list > 0 then gradients.gradients(o, list, { unconnected = 'none' }) end
  return report(g, o.node)
end

return M
