--- while_loop by lanes where all lanes stay to the end.
--
-- A lane that is done computes its last iteration over, of the values that it had then: that did not fail, and does not
-- now. What it had when it was done lies beside. A lane that does not begin computes what one that does begin computes.
-- Where nothing can fail, and gradients are 0 of 0, a lane that is done stays what it is. So no shape changes while the
-- loop runs, nothing moves, and it is native code wherever the loop of one lane would be. Of many lanes there are
-- several loops, each of fewer.
local core = require 'dflow.backend'
local graph = require 'dflow.front.graph'
local registry = require 'dflow.front.registry'
local dtypes = require 'dflow.front.dtypes'
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
--          lane, reads = by variable: how many ops read it, apart = a float of a lane depends on what all lanes share
--          and changes, nested = a loop inside takes as long as the lane that takes longest }
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
    if seen[node] and self.differs[node] and dtypes.is_differentiable(core.output_dtype(self.handle, node, 0)) then
      found.apart = true
    end
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

--- The value x where p, one bool a lane, holds, else y; a number is one for all.
local function chosen(p, x, y, lanes)
  local other = { o = y, set = graph.rank(y) ~= 0 and lanes or nil }
  local values = batch.aligned({ { o = p, set = lanes }, x, other }, lanes)
  return f.select_v2(values[1], values[2], values[3])
end

--- What lanes that are not `on` put over `rows` changes nothing.
local function put(self, node, scope, rows, on, lanes)
  local type_name, values = core.node_type(self.handle, node), { { o = rows, set = lanes } }
  for i = 1, 2 do values[i + 1] = self:value(scope, core.node_input_of(self.handle, node, i)) end
  local what, nothing = lift(values[3], lanes), neutral[type_name]
  nothing = nothing and f.constant(nothing, what.dtype)
    or batch.rules.GatherNd(self, node, { values[1], values[2] }, lanes)[1].o
  values[3] = { o = chosen(on, { o = what, set = lanes }, nothing, lanes), set = lanes }
  return batch.rules[type_name](self, node, values, lanes)[1].o
end

--- How many lanes the loops have, one loop after the other: each goes on until the lanes that are not done fit into the
-- next, and those few that take longest are alone in the end. Small ones are not worth a loop of their own.
local function sizes_of(n, many)
  local FEWEST, list = 64, { n }
  if not many then return list end
  for _, part in ipairs{ 2, 4, 8, 16, 64, 256 } do
    local size = math.ceil(n / part)
    if size >= FEWEST then list[#list + 1] = size end
  end
  return list
end

--- One loop, of these lanes, until no more than `least` of them go on.
-- @param now  what they are: { lanes =, on = which of them go on, at = by variable: what iterations are computed of,
--             done = what it was where a lane was done; or false where that is what iterations are computed of }
local function build_one(self, scope, flow, bind, loop, now, least)
  local lanes, n, vars, at, done_at = now.lanes, #flow.results, { now.on }, {}, {}
  for k = 1, n do
    at[k] = #vars + 1
    vars[at[k]] = now.at[k]
    if now.done[k] then
      done_at[k] = #vars + 1
      vars[done_at[k]] = now.done[k]
    end
  end
  local function goes_on(on)
    if least == 0 then return f.reduce_any(on) end
    return f.greater(f.reduce_sum(f.cast(on, 'int32')), least)
  end
  local last = { control.while_loop(goes_on, function(...)
    local list = { ... }
    local on, out = list[1], {}
    local s, next_scope = self:scope(scope, flow, lanes, { parted = true }),
    self:scope(scope, flow, lanes, { parted = true })
    for k, r in ipairs(flow.results) do
      bind(s, r, { o = list[at[k]], set = loop.by_lane[k] and lanes or nil })
    end
    local after = {}
    for k, r in ipairs(flow.results) do
      local over = loop.puts_over[k]
      after[k] = over and { o = put(self, over, s, list[at[k]], on, lanes), set = lanes }
        or self:value(s, r.next[1], r.next[2])
      if loop.by_lane[k] then after[k] = { o = lift(after[k], lanes), set = lanes } end
      bind(next_scope, r, after[k])
    end
    out[1] = f.logical_and(on, lift(self:value(next_scope, flow.pred[1], flow.pred[2]), lanes))
    for k = 1, n do
      out[at[k]] = (loop.puts_over[k] or not loop.by_lane[k]) and after[k].o
        or chosen(done_at[k] and out[1] or on, after[k], list[at[k]], lanes)
      if done_at[k] then out[done_at[k]] = chosen(on, after[k], list[done_at[k]], lanes) end
    end
    return unpack(out, 1, #vars)
  end, vars, loop.options) }
  local after = { lanes = lanes, on = last[1], at = {}, done = {} }
  for k = 1, n do after.at[k], after.done[k] = last[at[k]], done_at[k] and last[done_at[k]] end
  return after
end

--- The lanes that go on, `size` of them; where they are fewer, copies of the first one, which do not go on.
-- @return  what build_one takes, and the places of those that go on
local function remaining(self, loop, now, size, set)
  local places = f.cast(f.reshape(f.where(now.on), batch.ints{ -1 }), 'int32')
  local count = f.size(places)
  local copies = f.zeros(f.reshape(f.subtract(size, count), batch.ints{ 1 }), { dtype = 'int32' })
  local rows = f.concat({ places, copies }, 0)
  core.output_set_shape(self.handle, rows.node, rows.index, { size })
  local few = { lanes = batch.new_set(self.g, size, set, f.gather(now.lanes.index, rows)), at = {}, done = {} }
  few.on = f.less(batch.numbers(few.lanes), count)
  for k in ipairs(now.at) do
    few.at[k] = loop.by_lane[k] and f.gather(now.at[k], rows) or now.at[k]
    few.done[k] = now.done[k] and f.gather(now.done[k], rows)
  end
  return few, places
end

--- What the few gave, at their places among all.
local function put_back(loop, now, few, places)
  local where, count = f.expand_dims(places, 1), f.reshape(f.size(places), batch.ints{ 1 })
  local function back(all, some)
    local begin = batch.ints{ 0 }
    local rows = f.strided_slice(some, begin, count, batch.ints{ 1 })
    return registry.op('TensorScatterUpdate', { all, where, rows })
  end
  for k in ipairs(now.at) do
    if now.done[k] then now.done[k] = back(now.done[k], few.done[k])
    elseif loop.by_lane[k] then now.at[k] = back(now.at[k], few.at[k]) end
    if not loop.by_lane[k] then now.at[k] = few.at[k] end
  end
end

--- Builds the loop. first: what goes in; bind(scope, r, v): says what a variable is in a scope; reads: M.look's;
-- opts: { many = lanes that are done leave the others where many are, harmless = a lane that is done may be computed
-- on, of what it is then, apart = each variable is of one lane, options = the loop's }
function M.build(self, scope, flow, first, bind, reads, opts)
  local set, loop = scope.set, { by_lane = {}, puts_over = {}, options = opts.options }
  local before = self:scope(scope, flow, set, { parted = true })
  for k, r in ipairs(flow.results) do
    loop.by_lane[k], loop.puts_over[k] = opts.apart or self.differs[r.merge] or false, put_of(self, flow, k, reads)
    if loop.by_lane[k] then first[k] = { o = lift(first[k], set), set = set } end
    bind(before, r, first[k])
  end
  local begins, own = lift(self:value(before, flow.pred[1], flow.pred[2]), set), batch.numbers(set)
  local other = f.reduce_max(f.select_v2(begins, own, f.constant(0, 'int32')))
  local lanes = batch.new_set(self.g, set.n >= 0 and set.n or set.size, set, f.select_v2(begins, own, other))
  local now = { lanes = lanes, on = begins, at = {}, done = {} }
  for k in ipairs(flow.results) do
    now.done[k] = not (loop.puts_over[k] or loop.by_lane[k] and opts.harmless) and lift(first[k], set)
    now.at[k] = loop.by_lane[k] and now.done[k] and f.gather(first[k].o, lanes.index) or first[k].o
  end
  local sizes = sizes_of(set.n, opts.many)
  local function stage(i, state)
    state = build_one(self, scope, flow, bind, loop, state, sizes[i + 1] or 0)
    if sizes[i + 1] then
      local few, places = remaining(self, loop, state, sizes[i + 1], set)
      put_back(loop, state, stage(i + 1, few), places)
    end
    return state
  end
  now = stage(1, now)
  for k, r in ipairs(flow.results) do scope.env[key(r.out, 0)] = { o = now.done[k] or now.at[k], set = set } end
end

return M
