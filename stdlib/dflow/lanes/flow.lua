--- cond and while_loop by lanes.
--
-- Where all lanes agree on the predicate the flow is built again with values of all lanes. Where they may not, a branch
-- is run for the lanes that take it, gathered, and not at all where there are none; a loop goes on with the lanes that
-- are not done: those that are leave their values among the results and are not computed again.
local core = require 'dflow.backend'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local registry = require 'dflow.front.registry'
local control = require 'dflow.front.control'
local tensor_array = require 'dflow.front.tensor_array'
local ops = require 'dflow.front.ops'
local batch = require 'dflow.lanes.batch'
local stay = require 'dflow.lanes.stay'

local f, key, ints, lift = ops.functions, batch.key, batch.ints, batch.lift
local unpack = table.unpack or unpack
local RESOURCE = dtypes.RESOURCE

--- The places where a bool[n] is true, int32[m].
local function chosen(p) return f.cast(f.reshape(f.where(p), ints{ -1 }), 'int32') end

--- A value as what control flow carries: an Output, or a TensorArray.
local function carried(v)
  if v.array then return tensor_array.wrap(v.o, v.d) end
  return v.o
end
--- And back: a value like v.
local function like(v, c)
  local out = {}
  for name, field in pairs(v) do out[name] = field end
  out.o = v.array and c.handle or c
  return out
end

--- Values from outside are made before the flow is begun.
local function bring(self, scope, flow)
  self:outside(flow, function(node, index)
    if node >= self.first then self:value(scope, node, index) end
  end)
end

--- The effects of a context, those of conds and loops in it too, in the order in which they were built. Variables are
-- read where the program reads them: between these.
function batch.Batch:run_effects(scope, context)
  if not self:has_effects(context) then return end
  for node = self.first, self.last - 1 do
    if core.node_context(self.handle, node) == context then
      local type_name, flow = core.node_type(self.handle, node), self:flow_of(node)
      if batch.is_effect(type_name) then
        self:evaluate(scope, node, scope)
      elseif flow and flow.about.parent == context and not scope.env[flow] then
        for _, inside in ipairs(flow.about.inside) do
          if self:has_effects(inside) and not scope.env[flow] then self:evaluate(scope, node, scope) end
        end
      elseif type_name == 'ReadVariableOp' and not core.node_capture(self.handle, node) then
        self:evaluate(scope, node, scope)
      end
    end
  end
end

local function is_array(self, node, index) return core.output_dtype(self.handle, node, index) == RESOURCE end

-- ---- cond -----------------------------------------------------------------------------------------------------------
local function uniform_cond(self, scope, flow, pred)
  local kinds = {}
  local function side(field, number)
    return function()
      local inner, out = self:scope(scope, flow, scope.set, { parted = scope.parted }), {}
      self:run_effects(inner, flow.about.inside[number])
      for k, r in ipairs(flow.results) do
        local v = self:value(inner, r[field][1], r[field][2])
        if not v.array and self.differs[r.out] then v = { o = lift(v, scope.set), set = scope.set } end
        kinds[k] = kinds[k] or v
        out[k] = carried(v)
      end
      return unpack(out, 1, #out)
    end
  end
  local out = { control.cond(pred.o, side('yes', 2), side('no', 1)) }
  for k, r in ipairs(flow.results) do scope.env[key(r.out, 0)] = like(kinds[k], out[k]) end
end

-- Elementwise ops that cannot fail: a branch of a few of these is computed
-- for all lanes.
local harmless = {}
for name in ('Add AddV2 Sub Mul Neg Maximum Minimum Abs Cast Less LessEqual Greater GreaterEqual Equal NotEqual '
             .. 'LogicalAnd LogicalOr LogicalNot Identity Const SelectV2 Select BitwiseAnd BitwiseOr BitwiseXor '
             .. 'Sign Relu'):gmatch '%S+' do
  harmless[name] = true
end
-- Those whose gradient multiplies by an operand. 0 * inf is NaN, also in a lane whose value does not count.
local bends = { Mul = true, Abs = true }
local divides = { FloorDiv = true, FloorMod = true, TruncateDiv = true, RealDiv = true, Div = true, Mod = true }
local SMALL, BODY, ELEMENTS = 12, 32, 64      -- ops of a branch, and of a loop's body; elements of a value

--- Does the op's gradient give 0 of 0, whatever its operands are? A finite constant may be a factor.
local function is_straight(self, node)
  local d = core.output_dtype(self.handle, node, 0)
  if not (bends[core.node_type(self.handle, node)] and dtypes.is_differentiable(d)) then return true end
  for i = 0, core.node_inputs(self.handle, node) - 1 do
    local t = core.output_constant(self.handle, core.node_input_of(self.handle, node, i))
    if t and t.size == 1 and math.abs(tonumber(t:list()[1]) or math.huge) < math.huge then return true end
  end
  return false
end

--- Are these values of one lane, inside of the flow, a few harmless ops? Those of conds in it are their branches' and
-- predicate's.
local function are_harmless(self, flow, values, most)
  local count, seen, look = 0, {}, nil
  local function look_cond(inner, node)
    for _, r in ipairs(inner.results) do
      if r.out == node and not (look(r.yes[1], r.yes[2]) and look(r.no[1], r.no[2])) then return false end
    end
    return look(inner.pred[1], inner.pred[2])
  end
  function look(node, index)
    local from, from_index = core.node_capture(self.handle, node)
    if from then return look(from, from_index) end
    if node < self.first or seen[node] or flow.variable[node]
      or not self:inside(core.node_context(self.handle, node), flow) then
      return true
    end
    seen[node] = true
    local inner = self:flow_of(node)
    if inner then return inner.kind == batch.COND and look_cond(inner, node) end
    local type_name = core.node_type(self.handle, node)
    if divides[type_name] then
      local t = core.output_constant(self.handle, core.node_input_of(self.handle, node, 1))
      if not t then return false end
      for _, v in ipairs(t:list()) do if tonumber(v) == 0 then return false end end
    elseif not harmless[type_name] or not is_straight(self, node) then
      return false
    end
    count = count + (type_name == 'Const' and 0 or 1)
    if count > most then return false end
    for i = 0, core.node_inputs(self.handle, node) - 1 do
      if not look(core.node_input_of(self.handle, node, i)) then return false end
    end
    return true
  end
  for _, v in ipairs(values) do if not look(v[1], v[2]) then return false end end
  return not self:has_effects(flow.about.inside[1]) and not self:has_effects(flow.about.inside[2])
end

local function is_small(self, node)
  local elements = 1
  for _, d in ipairs(graph.output(self.g, node, 0).shape or { 2 ^ 31 }) do elements = elements * d end
  return not is_array(self, node, 0) and elements >= 0 and elements <= ELEMENTS
end

--- Are the results of that side of the cond a few harmless ops?
local function is_harmless(self, flow, field)
  local values = {}
  for k, r in ipairs(flow.results) do
    if not is_small(self, r.out) then return false end
    values[k] = r[field]
  end
  return are_harmless(self, flow, values, SMALL)
end

--- May a lane that is done be computed on, as long as what comes of it is not kept?
local function may_go_on(self, flow)
  local values = { flow.pred }
  for _, r in ipairs(flow.results) do
    if not is_small(self, r.merge) then return false end
    values[#values + 1] = r.next
  end
  return are_harmless(self, flow, values, BODY)
end

--- What the two branches gave to their lanes, in the order of all. shape: of a lane's. Where that is known only when it
-- runs, that of a branch without lanes is not known even then: the other one has all.
local function joined(places, rows, shape)
  local function stitched() return f.dynamic_stitch(places, rows) end
  local known = shape ~= nil
  for _, d in ipairs(shape or {}) do known = known and d >= 0 end
  if known then return stitched() end
  local function without(k, fn) return function()
    return (control.cond(f.equal(f.size(places[k]), 0), function() return rows[3 - k] end, fn))
  end end
  return without(1, without(2, stitched))()
end

local function parted_cond(self, scope, flow, pred)
  local set = scope.set
  pred = { o = lift(pred, set), set = set }
  if is_harmless(self, flow, 'yes') and is_harmless(self, flow, 'no') then
    local inner = self:scope(scope, flow, set, { parted = true })
    for _, r in ipairs(flow.results) do
      local yes, no = self:value(inner, r.yes[1], r.yes[2]), self:value(inner, r.no[1], r.no[2])
      local operands = batch.aligned({ pred, { o = lift(yes, set), set = set }, { o = lift(no, set), set = set } }, set)
      scope.env[key(r.out, 0)] = { o = f.select_v2(operands[1], operands[2], operands[3]), set = set }
    end
    return
  end
  local places, rows = {}, {}
  local now = {}                        -- arrays go through one branch after the other
  for s, field in ipairs{ 'yes', 'no' } do
    local at = chosen(s == 1 and pred.o or f.logical_not(pred.o))
    places[s] = at
    local count, kinds = f.size(at), {}
    local inner = batch.new_set(self.g, count, set, at)
    local function nothing(r, k)
      if is_array(self, r.out, 0) then
        return carried(now[k] or self:value(scope, self:array_before(flow, r, field)))
      end
      local dims = { 0, unpack(graph.output(self.g, r.out, 0).shape or {}) }
      for d = 2, #dims do dims[d] = math.max(dims[d], 0) end
      return f.zeros(dims, { dtype = dtypes.name[core.output_dtype(self.handle, r.out, 0)] })
    end
    local out = { control.cond(f.greater(count, 0), function()
      local scope_in, list = self:scope(scope, flow, inner, { parted = true }), {}
      for k, r in ipairs(flow.results) do
        if now[k] then scope_in.env[key(self:array_before(flow, r, field))] = now[k] end
      end
      self:run_effects(scope_in, flow.about.inside[s == 1 and 2 or 1])
      for k, r in ipairs(flow.results) do
        local v = self:value(scope_in, r[field][1], r[field][2])
        if not v.array then v = { o = lift(v, inner), set = inner } end
        kinds[k], list[k] = v, carried(v)
      end
      return unpack(list, 1, #list)
    end, function()
      local list = {}
      for k, r in ipairs(flow.results) do list[k] = nothing(r, k) end
      return unpack(list, 1, #list)
    end) }
    for k in ipairs(flow.results) do
      if kinds[k].array then now[k] = like(kinds[k], out[k]) end
    end
    rows[s] = out
  end
  for k, r in ipairs(flow.results) do
    local v = now[k]
    if not v then
      local shape = graph.output(self.g, r.out, 0).shape
      v = { o = joined(places, { rows[1][k], rows[2][k] }, shape), set = set }
      if shape then core.output_set_shape(self.handle, v.o.node, v.o.index, { set.n, unpack(shape) }) end
    end
    scope.env[key(r.out, 0)] = v
  end
end

--- The array that a branch's result was made of, before the branch: the handle that it captures.
function batch.Batch:array_before(flow, r, field)
  local node, index = r[field][1], r[field][2]
  while true do
    local from, from_index = core.node_capture(self.handle, node)
    if from then node, index = from, from_index
    elseif self:inside(core.node_context(self.handle, node), flow) and core.node_inputs(self.handle, node) > 0 then
      node, index = core.node_input_of(self.handle, node, 0)
    else
      return node, index
    end
  end
end

-- ---- while_loop -----------------------------------------------------------------------------------------------------
--- How the loop was asked for.
local function options_of(flow)
  local about = flow.about
  return { parallel_iterations = about.parallel_iterations > 0 and about.parallel_iterations or nil,
           save = #about.save > 0 and about.save or nil }
end

--- The dimensions of a variable in one lane, behind -1 or `lanes`; false where they are not known.
local function invariant(self, r, lanes)
  local shape = graph.output(self.g, r.merge, 0).shape
  if not shape then return false end
  return lanes and { lanes, unpack(shape) } or shape
end

local function bind(scope, r, v)
  scope.env[key(r.merge, 0)], scope.env[key(r.switch, 0)], scope.env[key(r.switch, 1)] = v, v, v
end

local function uniform_loop(self, scope, flow, first)
  local set, vars, shapes, kinds = scope.set, {}, {}, {}
  for k, r in ipairs(flow.results) do
    local v = first[k]
    if not v.array and (self.differs[r.merge] or v.set) then v = { o = lift(v, set), set = set } end
    kinds[k], vars[k] = v, carried(v)
    shapes[k] = not v.array and invariant(self, r, v.set and set.n or nil) or nil
  end
  local function inside(list)
    local s = self:scope(scope, flow, set, { parted = scope.parted })
    for k, r in ipairs(flow.results) do bind(s, r, like(kinds[k], list[k])) end
    return s
  end
  local o = options_of(flow)
  o.shape_invariants = shapes
  local last = { control.while_loop(function(...)
    local s = inside{ ... }
    self:run_effects(s, flow.about.inside[1])
    return self:value(s, flow.pred[1], flow.pred[2]).o
  end, function(...)
    local s, out = inside{ ... }, {}
    self:run_effects(s, flow.about.inside[2])
    for k, r in ipairs(flow.results) do
      local v = self:value(s, r.next[1], r.next[2])
      if not v.array and kinds[k].set then v = { o = lift(v, set), set = set } end
      out[k] = carried(v)
    end
    return unpack(out, 1, #out)
  end, vars, o) }
  for k, r in ipairs(flow.results) do scope.env[key(r.out, 0)] = like(kinds[k], last[k]) end
end

local function parted_loop(self, scope, flow, first)
  local set, n = scope.set, #flow.results
  -- The predicate of the values that go in: the lanes for which it holds begin.
  local before = self:scope(scope, flow, set, { parted = true })
  -- variables that differ by lane while the loop runs; the others differ only afterwards
  local by_lane = {}
  for k, r in ipairs(flow.results) do
    local v = first[k]
    by_lane[k] = not v.array and self.differs[r.merge] or false
    if by_lane[k] then v = { o = lift(v, set), set = set } end
    bind(before, r, v)
    first[k] = v
  end
  local begins = lift(self:value(before, flow.pred[1], flow.pred[2]), set)
  local at = chosen(begins)
  -- idx, then for each variable what it is and, of those that are no arrays, what it was where a lane was done.
  local vars, shapes = { at }, { { -1 } }
  for k, r in ipairs(flow.results) do
    local v = first[k]
    if v.array then
      vars[#vars + 1] = carried(v)
    else
      vars[#vars + 1] = by_lane[k] and f.gather(v.o, at) or v.o
      shapes[#vars] = invariant(self, r, by_lane[k] and -1 or nil)
      vars[#vars + 1] = lift(v, set)
      shapes[#vars] = invariant(self, r, set.n)
    end
  end
  local total = #vars
  local o = options_of(flow)
  o.shape_invariants = shapes
  for k = 1, total do
    if shapes[k] == nil and getmetatable(vars[k]) ~= tensor_array.TensorArray then shapes[k] = false end
  end
  local last = { control.while_loop(function(index) return f.greater(f.size(index), 0) end, function(index, ...)
    local list, j = { ... }, 0
    local lanes = batch.new_set(self.g, f.size(index), set, index)
    local s, done = self:scope(scope, flow, lanes, { parted = true }), {}
    for k, r in ipairs(flow.results) do
      j = j + 1
      bind(s, r, first[k].array and like(first[k], list[j]) or { o = list[j], set = by_lane[k] and lanes or nil })
      if not first[k].array then
        j = j + 1
        done[k] = list[j]
      end
    end
    self:run_effects(s, flow.about.inside[2])
    local after, next_scope = {}, self:scope(scope, flow, lanes, { parted = true })
    for k, r in ipairs(flow.results) do
      local v = self:value(s, r.next[1], r.next[2])
      if by_lane[k] then v = { o = lift(v, lanes), set = lanes } end
      after[k] = v
      bind(next_scope, r, v)
    end
    local p = lift(self:value(next_scope, flow.pred[1], flow.pred[2]), lanes)
    -- Lanes that are done leave; nothing moves where none is.
    local moving = { index }
    for k = 1, n do
      if not after[k].array then
        if by_lane[k] then moving[#moving + 1] = after[k].o end
        moving[#moving + 1] = done[k]
      end
    end
    local kept = { control.cond(f.reduce_all(p), function() return unpack(moving, 1, #moving) end, function()
      local stay, leave = chosen(p), chosen(f.logical_not(p))
      local where, out = f.expand_dims(f.gather(index, leave), 1), { f.gather(index, stay) }
      for k = 1, n do
        if not after[k].array then
          local rows
          if by_lane[k] then
            out[#out + 1] = f.gather(after[k].o, stay)
            rows = f.gather(after[k].o, leave)
          else
            rows = lift(after[k], batch.new_set(self.g, f.size(leave), nil, nil))
          end
          out[#out + 1] = registry.op('TensorScatterUpdate', { done[k], where, rows })
        end
      end
      return unpack(out, 1, #out)
    end) }
    local out, m = { kept[1] }, 1
    for k = 1, n do
      if after[k].array then out[#out + 1] = carried(after[k])
      else
        if by_lane[k] then
          m = m + 1
          out[#out + 1] = kept[m]
        else
          out[#out + 1] = after[k].o
        end
        m = m + 1
        out[#out + 1] = kept[m]
      end
    end
    return unpack(out, 1, total)
  end, vars, o) }
  local j = 1
  for k, r in ipairs(flow.results) do
    j = j + 1
    if first[k].array then scope.env[key(r.out, 0)] = like(first[k], last[j])
    else
      j = j + 1
      scope.env[key(r.out, 0)] = { o = last[j], set = set }
    end
  end
end

--- A parted loop whose body is harmless: lanes that are done stay among the others, with their values as they were, and
-- leave together when half of the lanes are done. So most iterations move nothing; with compact = false none does.
local function frozen_loop(self, scope, flow, first)
  local set, n = scope.set, #flow.results
  local before, by_lane = self:scope(scope, flow, set, { parted = true }), {}
  for k, r in ipairs(flow.results) do
    by_lane[k] = self.differs[r.merge] or false
    if by_lane[k] then first[k] = { o = lift(first[k], set), set = set } end
    bind(before, r, first[k])
  end
  local at = chosen(lift(self:value(before, flow.pred[1], flow.pred[2]), set))
  -- The lanes' numbers, which of them go on and how many; then of each variable its rows, what it was where a lane was
  -- done, and itself where it does not differ by lane.
  local vars, shapes = { at, f.fill(f.shape(at), true), f.size(at) }, { { -1 }, { -1 }, {} }
  for k, r in ipairs(flow.results) do
    local all = lift(first[k], set)
    for _, v in ipairs{ { f.gather(all, at), -1 }, { all, set.n }, by_lane[k] and {} or { first[k].o } } do
      vars[#vars + 1] = v[1]
      if v[1] then shapes[#vars] = invariant(self, r, v[2]) end
    end
  end
  local function taken(list)
    local rows, done, whole, j = {}, {}, {}, 3
    for k = 1, n do
      rows[k], done[k] = list[j + 1], list[j + 2]
      j = j + 2
      if not by_lane[k] then
        j = j + 1
        whole[k] = list[j]
      end
    end
    return rows, done, whole
  end
  local function leave(done, index, rows)
    return registry.op('TensorScatterUpdate', { done, f.expand_dims(index, 1), rows })
  end
  local o = options_of(flow)
  o.shape_invariants = shapes
  local last = { control.while_loop(function(_, _, count) return f.greater(count, 0) end, function(...)
    local list = { ... }
    local index, on = list[1], list[2]
    local rows, done, whole = taken(list)
    local lanes = batch.new_set(self.g, f.size(index), set, index)
    local s, next_scope = self:scope(scope, flow, lanes, { parted = true }),
    self:scope(scope, flow, lanes, { parted = true })
    for k, r in ipairs(flow.results) do bind(s, r, by_lane[k] and { o = rows[k], set = lanes } or { o = whole[k] }) end
    local after = {}
    for k, r in ipairs(flow.results) do
      local v = self:value(s, r.next[1], r.next[2])
      local x = batch.aligned({ { o = on, set = lanes }, { o = lift(v, lanes), set = lanes },
                                { o = rows[k], set = lanes } }, lanes)
      after[k], whole[k] = f.select_v2(x[1], x[2], x[3]), v.o
      bind(next_scope, r, by_lane[k] and { o = after[k], set = lanes } or v)
    end
    on = f.logical_and(on, lift(self:value(next_scope, flow.pred[1], flow.pred[2]), lanes))
    local count = f.reduce_sum(f.cast(on, 'int32'))
    local moving = { index, on }
    for k = 1, n do moving[#moving + 1], moving[#moving + 2] = after[k], done[k] end
    if self.compact ~= false then
      moving = { control.cond(f.logical_and(f.less_equal(f.multiply(count, 2), f.size(index)), f.greater(count, 0)),
                              function()
        local stay, gone = chosen(on), chosen(f.logical_not(on))
        local out, where = { f.gather(index, stay), f.gather(on, stay) }, f.gather(index, gone)
        for k = 1, n do
          out[#out + 1], out[#out + 2] = f.gather(after[k], stay), leave(done[k], where, f.gather(after[k], gone))
        end
        return unpack(out, 1, #out)
      end, function() return unpack(moving, 1, #moving) end) }
    end
    local out, j = { moving[1], moving[2], count }, 2
    for k = 1, n do
      out[#out + 1], out[#out + 2] = moving[j + 1], moving[j + 2]
      j = j + 2
      if not by_lane[k] then out[#out + 1] = whole[k] end
    end
    return unpack(out, 1, #out)
  end, vars, o) }
  local rows, done = taken(last)
  for k, r in ipairs(flow.results) do scope.env[key(r.out, 0)] = { o = leave(done[k], last[1], rows[k]), set = set } end
end

--- May all lanes stay to the loop's end, and, unless that is asked for, is their work no more than what moving lanes,
-- and tokens for it, take? How many ops read each variable, and what stay.build takes; nil if not.
local function may_stay(self, scope, flow)
  local WORTH = 512                     -- elements that native code computes while tokens run a node
  local MANY = 32 * WORTH
  if self.compact == true or (scope.set.n < 0 and self.compact ~= false) then return nil end
  local found = stay.look(self, flow, harmless)
  local elements = found.work * scope.set.n / math.max(found.nodes, 1)
  local worth = self.compact == false or (not found.nested and elements <= MANY)
  if not (found.pure and worth) then return nil end
  return found.reads, { many = self.compact ~= false and elements > WORTH, harmless = may_go_on(self, flow),
                        apart = found.apart, options = options_of(flow) }
end

function batch.evaluate_flow(self, scope, flow)
  scope.env[flow] = true
  bring(self, scope, flow)
  if flow.kind == batch.COND then
    local pred = self:value(scope, flow.pred[1], flow.pred[2])
    if not pred.set then return uniform_cond(self, scope, flow, pred) end
    return parted_cond(self, scope, flow, pred)
  end
  local first = {}
  for k, r in ipairs(flow.results) do first[k] = self:value(scope, r.init[1], r.init[2]) end
  if self.differs[flow.pred[1]] then
    local reads, opts = may_stay(self, scope, flow)
    if reads then return stay.build(self, scope, flow, first, bind, reads, opts) end
    if self.compact ~= true and may_go_on(self, flow) then return frozen_loop(self, scope, flow, first) end
    return parted_loop(self, scope, flow, first)
  end
  return uniform_loop(self, scope, flow, first)
end
