--- while_loop by lanes where all lanes stay to the end.
--
-- A lane that is done computes its last iteration over, of the values that it had then: that did not fail, and does not
-- now. What it had when it was done lies beside. A lane that does not begin computes what one that does begin computes.
-- So no shape changes while the loop runs, nothing moves, and it is native code wherever the loop of one lane would be.
local core = require 'dflow.backend'
local graph = require 'dflow.front.graph'
local registry = require 'dflow.front.registry'
local control = require 'dflow.front.control'
local ops = require 'dflow.front.ops'
local batch = require 'dflow.lanes.batch'

local f, key, lift = ops.functions, batch.key, batch.lift
local unpack = table.unpack or unpack

local M = {}

-- ---- may they? ------------------------------------------------------------------------------------------------------
local function set_of(text)
  local out = {}
  for name in text:gmatch '%S+' do out[name] = true end
  return out
end
local reads_variable = set_of 'ReadVariableOp'
local own_gradient = set_of 'CustomGradient RegisteredGradient'         -- which may be something else than 0 of 0
local moves = set_of [[Concat ConcatV2 Const ExpandDims Fill Gather GatherNd GatherV2 OneHot Pack Reshape Select Slice
                       Squeeze StridedSlice Tile Transpose]]
-- Rows that are put over a tensor's: where a lane's own are not to count, what is put there instead changes no bit.
local puts = set_of 'TensorScatterUpdate TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin'
-- x + -0 is x, also where x is -0; others put what is there
local neutral = { TensorScatterAdd = -0.0, TensorScatterSub = 0 }

local function elements(self, node, index)
  local n = 1
  for _, d in ipairs(graph.output(self.g, node, index).shape or { -1 }) do n = d < 0 and math.huge or n * d end
  return n
end

--- About how many elements an op of one lane works on.
local function work_of(self, node, type_name)
  local n = 0
  for k = 0, core.node_outputs(self.handle, node) - 1 do n = n + elements(self, node, k) end
  if batch.is_elementwise(type_name) or moves[type_name] or core.node_inputs(self.handle, node) == 0 then return n end
  if puts[type_name] then return elements(self, core.node_input_of(self.handle, node, 2)) end
  local shape = graph.output(self.g, core.node_input_of(self.handle, node, 0)).shape or { math.huge }
  return n * (shape[#shape] or 1)
end

--- Reads the loop's body and predicate. harmless: ops that cannot fail.
-- @return  { pure = no op has an effect, draws, or may fail by what all lanes share and changes, nodes =, work = of one
--          lane, reads = by variable: how many ops read it, nested = a loop inside takes as long as the lane that takes
--          longest }
function M.look(self, flow, harmless)
  local pure = not self:has_effects(flow.about.inside[1]) and not self:has_effects(flow.about.inside[2])
  local found, number, seen, look = { pure = pure, nodes = 0, work = 0, reads = {} }, {}, {}, nil
  for k, r in ipairs(flow.results) do
    number[r.merge], number[r.switch], found.reads[k] = k, k, 0
    if r.array then found.pure = false end
  end
  local function look_flow(inner)
    found.nested = found.nested or inner.kind == batch.LOOP and self.differs[inner.pred[1]] or false
    for _, r in ipairs(inner.results) do if r.merge then seen[r.merge], seen[r.switch] = false, false end end
    local shared = look(unpack(inner.pred))
    for _, r in ipairs(inner.results) do
      for _, v in ipairs(r.merge and { r.init, r.next } or { r.yes, r.no }) do shared = look(unpack(v)) or shared end
    end
    if shared then found.pure = false end
  end
  --- Does the value depend on a variable that all lanes share?
  function look(node, index)
    local from, from_index = core.node_capture(self.handle, node)
    if from then return look(from, from_index) end
    local k = number[node]
    if k then
      found.reads[k] = found.reads[k] + 1
      return not self.differs[flow.results[k].merge]
    end
    if node < self.first or not self:inside(core.node_context(self.handle, node), flow) then return false end
    if seen[node] ~= nil then return seen[node] end
    seen[node] = false
    local inner, type_name = self:flow_of(node), core.node_type(self.handle, node)
    if inner then look_flow(inner) return false end
    local random = registry.about(type_name, 'random')
    if self.special[key(node, 0)] or type_name:find '^TensorArray' or (random and #random > 0)
      or own_gradient[type_name]
       or (registry.need(type_name).stateful and not reads_variable[type_name]) then
      found.pure = false
      return false
    end
    for i = 0, core.node_inputs(self.handle, node) - 1 do
      seen[node] = look(core.node_input_of(self.handle, node, i)) or seen[node]
    end
    if seen[node] and not harmless[type_name] then found.pure = false end
    found.nodes, found.work = found.nodes + 1, found.work + work_of(self, node, type_name)
    return seen[node]
  end
  look(unpack(flow.pred))
  for _, r in ipairs(flow.results) do look(unpack(r.next)) end
  return found
end

-- ---- the loop -------------------------------------------------------------------------------------------------------
--- The op that puts rows over variable k and is all that reads it: its node; nil if there is none.
local function put_of(self, flow, k, reads)
  local r = flow.results[k]
  local node = r.next[1]
  if reads[k] ~= 1 or not self.differs[r.merge] or not puts[core.node_type(self.handle, node)] then return nil end
  local from = core.node_input_of(self.handle, node, 0)
  return core.node_capture(self.handle, from) == nil and (from == r.switch or from == r.merge) and node or nil
end

--- x where p, one bool a lane, holds, else y; a number is one for all.
local function chosen(p, x, y, lanes)
  local values = batch.aligned({ { o = p, set = lanes }, { o = x, set = lanes } }, lanes)
  return f.select_v2(values[1], values[2], y)
end

--- What lanes that are not `on` put over `rows` changes nothing.
local function put(self, node, scope, rows, on, lanes)
  local type_name, values = core.node_type(self.handle, node), { { o = rows, set = lanes } }
  for i = 1, 2 do values[i + 1] = self:value(scope, core.node_input_of(self.handle, node, i)) end
  local what, nothing = lift(values[3], lanes), neutral[type_name]
  nothing = nothing and f.constant(nothing, what.dtype)
    or batch.rules.GatherNd(self, node, { values[1], values[2] }, lanes)[1].o
  values[3] = { o = chosen(on, what, nothing, lanes), set = lanes }
  return batch.rules[type_name](self, node, values, lanes)[1].o
end

--- Builds the loop. first: what goes in; bind(scope, r, v): says what a variable is in a scope; reads: M.look's.
function M.build(self, scope, flow, first, bind, reads, options)
  local set, n, puts_over, by_lane = scope.set, #flow.results, {}, {}
  local before = self:scope(scope, flow, set, { parted = true })
  for k, r in ipairs(flow.results) do
    by_lane[k], puts_over[k] = self.differs[r.merge] or false, put_of(self, flow, k, reads)
    if by_lane[k] then first[k] = { o = lift(first[k], set), set = set } end
    bind(before, r, first[k])
  end
  local begins, own = lift(self:value(before, flow.pred[1], flow.pred[2]), set), batch.numbers(set)
  local other = f.reduce_max(f.select_v2(begins, own, f.constant(0, 'int32')))
  local lanes = batch.new_set(self.g, set.n >= 0 and set.n or set.size, set, f.select_v2(begins, own, other))
  -- Which lanes go on; then of each variable what iterations are computed of, and what it was where a lane was done.
  local vars, at, done_at = { begins }, {}, {}
  for k in ipairs(flow.results) do
    at[k] = #vars + 1
    vars[at[k]] = (puts_over[k] or not by_lane[k]) and first[k].o or f.gather(first[k].o, lanes.index)
    if not puts_over[k] then
      done_at[k] = #vars + 1
      vars[done_at[k]] = lift(first[k], set)
    end
  end
  local last = { control.while_loop(function(on) return f.reduce_any(on) end, function(...)
    local list = { ... }
    local on, out = list[1], {}
    local s, next_scope = self:scope(scope, flow, lanes, { parted = true }),
    self:scope(scope, flow, lanes, { parted = true })
    for k, r in ipairs(flow.results) do bind(s, r, { o = list[at[k]], set = by_lane[k] and lanes or nil }) end
    local after = {}
    for k, r in ipairs(flow.results) do
      after[k] = puts_over[k] and { o = put(self, puts_over[k], s, list[at[k]], on, lanes), set = lanes }
      or self:value(s, r.next[1], r.next[2])
      if by_lane[k] then after[k] = { o = lift(after[k], lanes), set = lanes } end
      bind(next_scope, r, after[k])
    end
    out[1] = f.logical_and(on, lift(self:value(next_scope, flow.pred[1], flow.pred[2]), lanes))
    for k = 1, n do
      out[at[k]] = (puts_over[k] or not by_lane[k]) and after[k].o or chosen(out[1], after[k].o, list[at[k]], lanes)
      if done_at[k] then out[done_at[k]] = chosen(on, lift(after[k], lanes), list[done_at[k]], lanes) end
    end
    return unpack(out, 1, #vars)
  end, vars, options) }
  for k, r in ipairs(flow.results) do scope.env[key(r.out, 0)] = { o = last[done_at[k] or at[k]], set = set } end
end

return M
