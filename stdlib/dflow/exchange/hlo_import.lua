--- A module of XLA's HLO, as JAX gives it, as a graph: df.import_hlo.
--
-- Instructions are built in the order of their computation, those that its root needs, each by the function of its
-- opcode (hlo/). A while becomes a while_loop, a conditional a cond or switch_case, a call the called computation's
-- nodes. What a loop's body hands on as it came in is no loop variable: it is captured.
local df = require 'dflow'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local source = require 'dflow.exchange.source'
local read = require 'dflow.exchange.hlo.read'
local value = require 'dflow.exchange.hlo.value'
local elementwise = require 'dflow.exchange.hlo.elementwise'
local lapack = require 'dflow.exchange.hlo.lapack'
local narrow = require 'dflow.exchange.onnx.narrow'

local M = {}
local unpack = graph.unpack
local DEEPEST = 150                    -- calls within calls
local MOST, EACH = 10000, 100          -- instructions that are built: as many, and for each of the file's so many more

local whole_ops, flow = {}, {}
for _, part in ipairs{ 'index', 'reduce', 'linear' } do
  for opcode, fn in pairs(require('dflow.exchange.hlo.' .. part)) do whole_ops[opcode] = fn end
end
-- These take Spreads as they are, and may give one.
local takes_spread = { broadcast = true, reshape = true, iota = true }
-- These and the elementwise ones compute numbers, which a narrow type rounds.
local computes = { dot = true, convolution = true, reduce = true, ['reduce-window'] = true, scatter = true,
                   iota = true }

local Importer = {}
Importer.__index = Importer

-- ---- what an instruction is to the function that builds it ----------------------------------------------------------
local View = {}
View.__index = View

function View.new(importer, i, comp)
  local n = setmetatable({ importer = importer, i = i, comp = comp, dims = i.shape.dims }, View)
  if i.shape.type ~= read.TUPLE and i.shape.type ~= read.TOKEN then
    n.dtype, n.kind = read.element(i.shape, n:text())
  end
  return n
end
function View:text() return ('the HLO instruction %s (%s) of %s'):format(self.i.name, self.i.opcode, self.comp.name) end
function View:refuse(why) errors.raise('unimplemented', '%s: %s', self:text(), why) end

--- The k-th computation that it calls.
function View:computation(k)
  return self.importer.module.by_id[self.i.called[k] or -1]
    or read.broken('%s calls a computation that is not there', self:text())
end

--- The opcode, where a computation is one instruction of its two parameters; 'first', 'second' where it gives one of
-- them.
function View:binary(comp)
  local root = comp.root
  if root.opcode == 'tuple' and #root.operands == 1 then root = comp.by_id[root.operands[1]] end
  if root.opcode == 'parameter' then return (root.parameter or 0) == 0 and 'first' or 'second' end
  local a, b = comp.by_id[root.operands[1]], comp.by_id[root.operands[2]]
  if #root.operands == 2 and a.opcode == 'parameter' and b.opcode == 'parameter'
    and (a.parameter or 0) + (b.parameter or 0) == 1 then
    return root.opcode
  end
end

--- A computation of scalars, of scalars: an Output.
function View:region(comp, arguments)
  return value.whole(value.flatten(self.importer:run(comp, arguments), {})[1])
end

--- A computation of scalars, called with arrays of one shape: its results as a list of arrays of that shape.
function View:lifted(comp, arguments)
  local out, shape = value.flatten(self.importer:run(comp, arguments, true), {}), arguments[1].shape
  for k, a in ipairs(arguments) do if #a.shape > #shape then shape = arguments[k].shape end end
  for k, v in ipairs(out) do
    if not value.same(v.shape, shape) then out[k] = df.broadcast_to(v, value.ints(shape)) end
  end
  return out
end

--- Are two instructions the same function, one of parameter a, the other of parameter b?
local function alike(comp, x, y, a, b)
  if x.opcode ~= y.opcode or #x.operands ~= #y.operands then return false end
  if x.opcode == 'parameter' then return (x.parameter or 0) == a and (y.parameter or 0) == b end
  if x.opcode == 'constant' then
    return x == y or tostring(read.literal(x.literal, x.shape, x.name)) == tostring(read.literal(y.literal, y.shape,
        y.name))
  end
  if x.direction ~= y.direction or x.called[1] ~= y.called[1] or x.shape.type ~= y.shape.type then return false end
  for k, id in ipairs(x.operands) do
    if not alike(comp, comp.by_id[id], comp.by_id[y.operands[k]], a, b) then return false end
  end
  return true
end

--- The key that a sort's comparator goes by, and whether downwards: nil where it is more than f(a) < f(b).
function View:key(comp, xs)
  local root = comp.root
  local down = root.direction == 'GT'
  if root.opcode ~= 'compare' or not (down or root.direction == 'LT') then return nil end
  local x, y = comp.by_id[root.operands[1]], comp.by_id[root.operands[2]]
  for k, array in ipairs(xs) do
    if alike(comp, x, y, 2 * k - 2, 2 * k - 1) then
      local arguments = {}
      for j, a in ipairs(xs) do arguments[2 * j - 1], arguments[2 * j] = a, a end
      local key = self.importer:run(comp, arguments, true, x)
      if array.dtype:find 'float' and not (root.comparison or ''):find 'TOTAL' then
        key = key + df.constant(0, key.dtype)
      end
      return key, down
    end
  end
end

-- ---- computations ---------------------------------------------------------------------------------------------------
--- The instructions that `root` needs, by place.
local function needed(comp, root)
  comp.needs = comp.needs or {}
  if comp.needs[root] then return comp.needs[root] end
  local need = { [root.at] = true }
  for at = root.at, 1, -1 do
    if need[at] then for _, id in ipairs(comp.instructions[at].operands) do need[comp.by_id[id].at] = true end end
  end
  comp.needs[root] = need
  return need
end

--- What the computation gives for these arguments. lifted: its scalars are arrays. root: of another instruction than
-- its root.
function Importer:run(comp, arguments, lifted, root)
  root = root or comp.root
  if self.depth >= DEEPEST then
    read.broken('the computation %s calls itself, or computations call each other %d deep', comp.name, DEEPEST)
  end
  if #arguments ~= comp.count then
    read.broken('the computation %s takes %d values and is given %d', comp.name, comp.count, #arguments)
  end
  self.depth = self.depth + 1
  local need, env = needed(comp, root), {}
  for at = 1, root.at do
    if need[at] then
      local i = comp.instructions[at]
      self.left = self.left - 1
      if self.left < 0 then
        errors.raise('resource_exhausted', 'this HLO module stands for more than %d instructions, calls taken apart',
                     self.most)
      end
      local operands = {}
      for k, id in ipairs(i.operands) do operands[k] = env[id] end
      env[i.id or 0] = self:build(View.new(self, i, comp), operands, arguments, lifted)
    end
  end
  self.depth = self.depth - 1
  return env[root.id or 0]
end

--- Elementwise: of small arrays while one of them, or the result of their broadcasting, is as large as the instruction
-- says.
local function build_elementwise(n, fn, operands)
  local small, spread = {}, true
  for k, v in ipairs(operands) do
    small[k] = value.small(v)
    spread = spread and value.is_spread(v)
  end
  local r = fn(n, unpack(small, 1, #operands))
  if value.same(r.shape, n.dims) then return r end
  return value.spread(r, n.dims)
end

function Importer:make(n, operands, arguments, lifted)
  local i = n.i
  if i.opcode == 'parameter' then return arguments[(i.parameter or 0) + 1] end
  local step = flow[i.opcode]
  if step then return step(self, n, operands, lifted) end
  for k, v in ipairs(operands) do
    if value.is_tuple(v) then read.broken('%s takes a tuple as operand %d', n:text(), k) end
  end
  local fn = elementwise[i.opcode]
  if lifted then
    if fn then return fn(n, unpack(operands, 1, #operands)) end
    if (i.opcode == 'broadcast' or i.opcode == 'reshape') and #n.dims == 0 then return operands[1] end
    n:refuse 'a computation of scalars that holds it cannot be called with whole arrays'
  end
  if fn then return build_elementwise(n, fn, operands) end
  fn = whole_ops[i.opcode]
  if not fn then
    errors.raise('unimplemented', 'dflow does not know the HLO opcode %s (instruction %s of %s)', i.opcode, i.name,
                 n.comp.name)
  end
  if not takes_spread[i.opcode] then for k, v in ipairs(operands) do operands[k] = value.whole(v) end end
  return fn(n, unpack(operands, 1, #operands))
end

function Importer:build(n, operands, arguments, lifted)
  local ok, r = pcall(self.make, self, n, operands, arguments, lifted)
  if ok then
    local rounds = n.kind and (elementwise[n.i.opcode] or computes[n.i.opcode])
    return rounds and narrow.rounded(value.whole(r), n.kind) or r
  end
  if type(r) == 'table' and r.message and not r.message:find('HLO', 1, true) then
    r.message = errors.shown(n:text() .. ': ' .. r.message)
  end
  error(r, 0)
end

--- The Outputs of a value's leaves, in order.
local function leaves(v)
  local list = value.flatten(v, {})
  for k, x in ipairs(list) do list[k] = value.whole(x) end
  return list
end

-- ---- control flow, tuples -------------------------------------------------------------------------------------------
flow['constant'] = function(_, n) return df.constant(read.literal(n.i.literal, n.i.shape, n:text())) end
flow['tuple'] = function(_, _, operands) return value.tuple(operands) end
flow['get-tuple-element'] = function(_, n, operands)
  local v = operands[1]
  return value.is_tuple(v) and v[(n.i.tuple_index or 0) + 1]
    or read.broken('%s: the tuple has no such element', n:text())
end
for _, opcode in ipairs{ 'opt-barrier', 'copy', 'domain' } do
  flow[opcode] = function(_, _, operands) return operands[1] end
end
flow['after-all'] = function() return value.tuple{} end
for _, opcode in ipairs{ 'partition-id', 'replica-id' } do
  flow[opcode] = function() return df.constant(0, 'uint32') end
end
flow['call'] = function(self, n, operands, lifted)
  return self:run(n:computation(1), operands, lifted)
end
flow['fusion'] = flow['call']
flow['custom-call'] = function(_, n, operands)
  local target = n.i.target or ''
  if target == 'Sharding' or target:find '^SPMD.*Shape$' then return operands[1] end
  if target == 'TopK' then
    local x = value.whole(operands[1])
    return value.tuple{ df.top_k(x, n.i.shape.parts[1].dims[#x.shape]) }
  end
  local call = lapack(target)
  if call then
    local results = call(n, unpack(leaves(value.tuple(operands))))
    return n.i.shape.type == read.TUPLE and value.tuple(results) or results[1]
  end
  n:refuse(("the custom call '%s' is not known"):format(target))
end

flow['while'] = function(self, n, operands, lifted)
  if lifted then n:refuse 'a computation of scalars that holds it cannot be called with whole arrays' end
  local body, condition, init = n:computation(1), n:computation(2), operands[1]
  local root, parameter = body.root, body.parameters[0]
  -- The elements that the body changes are the loop's variables.
  local changes, varies = value.is_tuple(init) and value.tuple{} or init, {}
  if value.is_tuple(init) then
    for k, v in ipairs(init) do
      local from = root.opcode == 'tuple' and body.by_id[root.operands[k]]
      varies[k] = not (from and from.opcode == 'get-tuple-element' and (from.tuple_index or 0) == k - 1
                       and body.by_id[from.operands[1]] == parameter)
      if varies[k] then changes[#changes + 1] = v end
    end
  end
  local function state(list)
    local packed = value.pack(changes, list)
    if not value.is_tuple(init) then return packed end
    local out, at = value.tuple{}, 0
    for k, v in ipairs(init) do
      if varies[k] then at = at + 1 end
      out[k] = varies[k] and packed[at] or v
    end
    return out
  end
  local variables = leaves(changes)
  local count = #variables
  if count == 0 then variables[1] = df.int32(0) end                       -- a loop without a variable still counts
  local last = { df.while_loop(
    function(...) return value.whole(self:run(condition, { state{ ... } })) end,
    function(...)
      if count == 0 then return ... + 1 end
      local new = self:run(body, { state{ ... } })
      if not value.is_tuple(init) then return value.whole(new) end
      local changed = value.tuple{}
      for k in ipairs(init) do if varies[k] then changed[#changed + 1] = new[k] end end
      return unpack(leaves(changed), 1, count)
    end,
    variables, { name = source.plain(n.i.name) }) }
  return state(last)
end

flow['conditional'] = function(self, n, operands, lifted)
  if lifted then n:refuse 'a computation of scalars that holds it cannot be called with whole arrays' end
  local index, like, branches = value.whole(operands[1]), nil, {}
  for k = 1, #n.i.called do
    branches[k] = function()
      local v = self:run(n:computation(k), { operands[k + 1] })
      like = v
      return unpack(leaves(v))
    end
  end
  if #branches == 0 or #operands ~= #branches + 1 then
    read.broken('%s has %d branches and %d operands', n:text(), #branches, #operands)
  end
  local results = #value.flatten(self:like(n.i.shape), {})
  if results == 0 then return self:like(n.i.shape) end
  local last
  if index.dtype == 'bool' then
    last = { df.cond(index, branches[1], branches[2], { name = source.plain(n.i.name) }) }
  elseif #branches == 1 then
    last = { branches[1]() }
  else
    local outside = df.logical_or(df.less(index, 0), df.greater_equal(index, #branches))
    last = { df.switch_case(df.select_v2(outside, df.int32(#branches - 1), index), branches) }
  end
  return (value.pack(like, last))
end

--- A value of that shape whose leaves are true.
function Importer:like(shape)
  if shape.type ~= read.TUPLE then return true end
  local out = {}
  for k, part in ipairs(shape.parts) do out[k] = self:like(part) end
  return value.tuple(out)
end

-- ---- df.import_hlo --------------------------------------------------------------------------------------------------
function Importer:parameter(shape, name)
  if shape.type == read.TUPLE then
    local out = {}
    for k, part in ipairs(shape.parts) do out[k] = self:parameter(part, ('%s.%d'):format(name, k - 1)) end
    return value.tuple(out)
  end
  local x = df.placeholder(read.element(shape, 'the parameter ' .. name), shape.dims, source.free(self.graph, name))
  self.inputs[#self.inputs + 1] = x
  return x
end

--- df.import_hlo(path or bytes, {into =, prefix =}): an HloModuleProto, plain or gzip, as a Graph, a new one unless
-- `into` is given.
-- g.inputs and g.outputs are lists of Outputs: the parameters of the entry computation, placeholders, and its results,
-- in order, the parts of a tuple one by one.
function M.import_hlo(from, opts)
  local g, prefix, bytes, path = source.arguments('import_hlo', from, opts)
  local ok, err = pcall(function()
    local module = read.module(bytes)
    local most = MOST
    for _, c in ipairs(module.computations) do most = most + EACH * #c.instructions end
    local self = setmetatable({ graph = g, module = module, depth = 0, most = most, left = most, inputs = {} },
                              Importer)
    graph.with(g, function()
      local arguments = {}
      for k = 1, module.entry.count do
        local p = module.entry.parameters[k - 1]
        arguments[k] = self:parameter(p.shape, prefix .. p.name)
      end
      g.inputs, g.outputs, g.results = self.inputs, leaves(self:run(module.entry, arguments)), {}
      for k, y in ipairs(g.outputs) do g.results[k] = y.name end
    end)
  end)
  if not ok then
    if path and type(err) == 'table' and err.message then err.message = errors.shown(path .. ': ' .. err.message) end
    error(err, 0)
  end
  return g
end

return M
