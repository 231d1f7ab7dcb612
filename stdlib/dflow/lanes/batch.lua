--- Rewrites what a function of one lane built into what all lanes compute: the middle of df.vmap.
--
-- The function has been called once with placeholders of one lane's shapes, and what it built is read again from its
-- results backwards.
-- A value is {o = Output, set = lanes}: with lanes its axis 0 counts them; without, all lanes share it. Sets of lanes
-- form a tree: those that take a branch, or that still run a loop, are a set whose `index` says where each lies in the
-- set around it.
--
--   set    { size = Output, n = size or -1, parent = set, index = Output int32[size] }
--   scope  what is being built: { parent =, flow =, set =, env = values by node and index }
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local registry = require 'dflow.front.registry'
local ops = require 'dflow.front.ops'

local M = {}
local Batch = {}
Batch.__index = Batch
M.Batch = Batch
M.rules = {}              -- by op type: rule(batch, node, inputs, scope) -> values of the node's outputs
-- op types whose rule is asked also where no operand differs by lane
M.always = { TensorArray = true, CustomGradient = true }
local f = ops.functions
local RESOURCE = dtypes.RESOURCE

local function key(node, index) return node * 64 + index end
M.key = key

--- May its operands have lanes in front of the axes that they broadcast? Entries say so, but for those whose outputs
-- have another dtype or are their inputs as they are.
local others = {}
for name in ('Angle Complex ComplexAbs DeepCopy Identity Imag PreventGradient Real Snapshot '
             .. 'StopGradient'):gmatch '%a+' do others[name] = true end
function M.is_elementwise(type_name) return others[type_name] or registry.about(type_name, 'elementwise') ~= nil end

-- ---- control flow as it was built: dflow.h, df_flow_describe --------------------------------------------------------
local COND, LOOP = 1, 2
M.COND, M.LOOP = COND, LOOP

--- The cond or loop whose result this node is, with what flows in and out of it; nil of other nodes.
function Batch:flow_of(node)
  local known = self.described[node]
  if known ~= nil then return known or nil end
  local type_name = core.node_type(self.handle, node)
  local primitive = registry.primitive(type_name)
  local n = (primitive == 'Merge' or primitive == 'Exit') and core.flow_describe(self.handle, node)
  if not n then
    self.described[node] = false
    return nil
  end
  local id = n[1] .. ':' .. n[2]
  local flow = self.flows[id]
  if not flow then return nil end              -- a loop that a gradient is building just now
  if not flow.results then
    flow.pred, flow.results = { n[3], n[4] }, {}
    local at = 5
    for k = 1, n[5] do
      if flow.kind == COND then
        flow.results[k] = { out = n[at + 1], yes = { n[at + 2], n[at + 3] }, no = { n[at + 4], n[at + 5] } }
        at = at + 5
      else
        flow.results[k] = { out = n[at + 1], merge = n[at + 2], switch = n[at + 3], init = { n[at + 4], n[at + 5] },
                            next = { n[at + 6], n[at + 7] } }
        flow.variable[n[at + 2]], flow.variable[n[at + 3]] = true, true
        at = at + 7
      end
    end
  end
  self.described[node] = flow
  return flow
end

--- All conds and loops, and which context lies in which.
local function read_flows(self)
  self.flows, self.around = {}, {}
  for _, about in ipairs(core.flows(self.handle)) do
    about.inside = { about.inside_0, about.inside_1 }
    local id = about.kind .. ':' .. about.number
    local flow = { id = id, kind = about.kind, about = about, variable = {} }
    self.flows[id] = flow
    for _, context in ipairs(about.inside) do
      if context >= 0 then self.around[context] = flow end
    end
  end
end

--- Does the context lie in the flow?
function Batch:inside(context, flow)
  while true do
    local around = self.around[context]
    if not around then return false end
    if around.id == flow.id then return true end
    context = around.about.parent
  end
end

--- Is the context this one, or in it?
function Batch:lies_in(context, other)
  while context ~= other and self.around[context] do context = self.around[context].about.parent end
  return context == other
end

--- Calls visit(node, index) for each value from outside that the flow needs, and effect(node) for each effect in it.
function Batch:outside(flow, visit)
  local seen, stack = {}, {}
  local function push(pair) if pair and pair[1] >= 0 then stack[#stack + 1] = pair end end
  push(flow.pred)
  for _, r in ipairs(flow.results) do
    push(r.yes) push(r.no) push(r.next) push(r.init)
  end
  for _, node in ipairs(self:effects_in(flow)) do push{ node, 0 } end
  while #stack > 0 do
    local node, index = stack[#stack][1], stack[#stack][2]
    stack[#stack] = nil
    local from, from_index = core.node_capture(self.handle, node)
    if from then
      push{ from, from_index }
    elseif not seen[key(node, index)] and not flow.variable[node] then
      seen[key(node, index)] = true
      local known = node < self.first            -- shared by all lanes as it is
      if not known and not self:inside(core.node_context(self.handle, node), flow) then
        visit(node, index)
      elseif not known then
        local special, inner = self.special[key(node, index)], self:flow_of(node)
        if special then
          for _, o in ipairs(special.needs) do push{ o.node, o.index } end
        elseif inner then
          push(inner.pred)
          for _, r in ipairs(inner.results) do
            if r.merge then seen[key(r.merge, 0)], seen[key(r.switch, 0)], seen[key(r.switch, 1)] = true, true, true end
            push(r.yes) push(r.no) push(r.next) push(r.init)
          end
        else
          for i = 0, core.node_inputs(self.handle, node) - 1 do push{ core.node_input_of(self.handle, node, i) } end
        end
      end
    end
  end
end

--- Ops with effects in the flow.
function Batch:effects_in(flow)
  local list = {}
  for node = self.first, self.last - 1 do
    if self:inside(core.node_context(self.handle, node), flow) and M.is_effect(core.node_type(self.handle, node)) then
      list[#list + 1] = node
    end
  end
  return list
end

--- Are there effects in the context, or in conds and loops in it?
function Batch:has_effects(context)
  if context < 0 then return false end
  local known = self.effective[context]
  if known == nil then
    known = false
    for node = self.first, self.last - 1 do
      if M.is_effect(core.node_type(self.handle, node)) then
        known = known or self:lies_in(core.node_context(self.handle, node), context)
      end
    end
    self.effective[context] = known
  end
  return known
end

local effects = {}
for name in ('AssignVariableOp AssignAddVariableOp AssignSubVariableOp Print PrintV2 Assert ScatterUpdate ScatterAdd '
             .. 'ResourceApplyGradientDescent '
             .. 'ResourceApplyMomentum ResourceApplyAdam'):gmatch '%S+' do effects[name] = true end
--- Is it run for what it does, not for a value?
function M.is_effect(type_name)
  if effects[type_name] then return true end
  local e = registry.has(type_name) and registry.need(type_name)
  return e and e.stateful and #e.outputs == 0 or false
end

local moves_tokens = { Switch = true, Merge = true, Enter = true, Exit = true, NextIteration = true,
                       LoopCond = true }
local OPERATION = 63       -- the index under which a scope has a node itself, for those that wait for it

--- Lists by node what it waits for without taking a value of it; and what acts: effects of the function, and what comes
-- after them. A flow is known by its number, and waits for what its nodes wait for outside of it.
local function order(self)
  local h, acts, await = self.handle, {}, {}
  self.awaits, self.acts = await, acts
  local function wait(waiter, control)
    await[waiter] = await[waiter] or {}
    await[waiter][#await[waiter] + 1] = control
  end
  for node = self.first, self.last - 1 do
    local context, type_name = core.node_context(h, node), core.node_type(h, node)
    local is_flow = moves_tokens[registry.primitive(type_name)]
    acts[node] = M.is_effect(type_name)
    for _, control in ipairs(core.node_controls(h, node)) do
      local outside = core.node_context(h, control)
      if control >= self.first and (acts[control] or not self.around[outside]) then
        if context == outside and not is_flow then wait(node, control) end
        local flow = self.around[context]
        while flow and context ~= outside do
          wait(flow.id, control)
          context = flow.about.parent
          flow = self.around[context]
        end
        acts[node] = acts[node] or acts[control]
      end
    end
    for i = 0, core.node_inputs(h, node) - 1 do acts[node] = acts[node] or acts[core.node_input_of(h, node, i)] end
    -- A branch or body waits for its pivot, whose effects are those of the predicate.
    if is_flow and not self:flow_of(node) then acts[node] = false end
  end
end

--- What of that acts: the rest has no lanes to wait for.
function Batch:awaited(waiter)
  local list = {}
  for _, control in ipairs(self.awaits[waiter] or {}) do if self.acts[control] then list[#list + 1] = control end end
  return list
end

--- Marks the nodes that the outputs of the function, and effects in its flows, need. A loop's variables that only its
-- gradient reads are none of them: it is asked for again.
local function need(self, outputs)
  local h, needed, stack = self.handle, {}, {}
  local function push(node) if node and node >= self.first and not needed[node] then stack[#stack + 1] = node end end
  for _, o in ipairs(outputs) do push(o.node) end
  for node = self.first, self.last - 1 do
    if self.around[core.node_context(h, node)] and M.is_effect(core.node_type(h, node)) then push(node) end
  end
  while #stack > 0 do
    local node = stack[#stack]
    stack[#stack] = nil
    if not needed[node] then
      needed[node] = true
      local special, flow = self.special[key(node, 0)], self:flow_of(node)
      for _, control in ipairs(self:awaited(flow and flow.id or node)) do push(control) end
      if special then
        for _, o in ipairs(special.needs) do push(o.node) end
      elseif flow then
        push(flow.pred[1])
        for _, r in ipairs(flow.results) do
          if r.out == node then
            for _, pair in pairs{ r.yes or false, r.no or false, r.init or false, r.next or false } do
              if pair then push(pair[1]) end
            end
          end
        end
      else
        for i = 0, core.node_inputs(h, node) - 1 do push((core.node_input_of(h, node, i))) end
      end
    end
  end
  for _, flow in pairs(self.flows) do
    local live = {}
    for _, r in ipairs(flow.results or {}) do
      if needed[r.out] or (r.merge and (needed[r.merge] or needed[r.switch])) then live[#live + 1] = r end
    end
    if flow.results then flow.results = live end
  end
end

-- ---- which values differ by lane ------------------------------------------------------------------------------------
local shape_only = { Shape = true, Rank = true, Size = true, ShapeN = true }

--- Marks each node whose value may differ by lane, and what TensorArrays hold such values, until nothing changes: a
-- loop's counter, and a predicate of it, stay one for all lanes (JAX#1190).
local function mark(self)
  local h, T, family = self.handle, {}, {}
  self.differs, self.arrays = T, {}
  local function root(n)
    while family[n] and family[n] ~= n do n = family[n] end
    return n
  end
  local function is_handle(node, index) return core.output_dtype(h, node, index) == RESOURCE end
  local function join(a, b)
    a, b = root(a), root(b)
    family[a], family[b] = a, a
    if a ~= b and self.arrays[b] then self.arrays[a], self.arrays[b] = self.arrays[b], nil end
  end
  self.family = root
  local inputs, effects = {}, {}
  for node = self.first, self.last - 1 do
    local list = {}
    for i = 0, core.node_inputs(h, node) - 1 do
      local from, index = core.node_input_of(h, node, i)
      list[i + 1] = { from, index }
      if core.node_outputs(h, node) > 0 and is_handle(node, 0) and from >= 0 and is_handle(from, index) then
        join(node, from)
      end
    end
    inputs[node] = list
    local flow = self:flow_of(node)
    if flow then
      effects[flow.id] = effects[flow.id] or self:effects_in(flow)
      for _, r in ipairs(flow.results) do
        if r.out == node and r.yes and is_handle(node, 0) then join(node, r.yes[1]) join(node, r.no[1]) end
      end
    end
  end
  local function array(node)
    node = root(node)
    self.arrays[node] = self.arrays[node] or {}
    return self.arrays[node]
  end
  local made = {}                       -- by family: the arrays' context, and whether a read clears
  for node = self.first, self.last - 1 do
    if core.node_type(h, node) == 'TensorArray' then
      local context, of = core.node_context(h, node), made[root(node)]
      made[root(node)] = { context = (not of or of.context == context) and context or nil,
                           clears = core.node_attr(h, node, 'clear_after_read') or (of and of.clears) }
    end
  end
  --- Does the op change the array, and is there a cond or loop around it, in the context of the array, whose predicate
  -- differs by lane?
  local function is_for_some(node, writes)
    local of, context = made[root(node)] or {}, core.node_context(h, node)
    while (writes or of.clears) and context ~= of.context do
      local flow = self.around[context]
      if not flow then return false end
      if flow.about.pred_node >= 0 and T[flow.about.pred_node] then return true end
      context = flow.about.parent
    end
    return false
  end
  local changed
  -- what needs a placeholder of one lane at all, if only for its shape: it cannot stay as it is
  local D = {}
  self.depends = D
  local function set(node) if not T[node] then T[node], D[node], changed = true, true, true end end
  local function depend(node) if not D[node] then D[node], changed = true, true end end
  for _, p in ipairs(self.placeholders) do T[p.node], D[p.node] = true, true end
  repeat
    changed = false
    for node = self.first, self.last - 1 do
      local type_name = core.node_type(h, node)
      local flow, capture = self:flow_of(node), core.node_capture(h, node)
      local list = inputs[node]
      for _, from in ipairs(list) do if D[from[1]] then depend(node) end end
      for _, control in ipairs(self.awaits[flow and flow.id or node] or {}) do if D[control] then depend(node) end end
      if flow then
        local whole = D[flow.pred[1]]
        for _, effect in ipairs(effects[flow.id]) do whole = whole or D[effect] end
        for _, r in ipairs(flow.results) do if whole then depend(r.out) end end
      end
      if capture then
        if T[capture] then set(node) end
      elseif flow then
        local r
        for _, each in ipairs(flow.results) do if each.out == node then r = each end end
        if T[flow.pred[1]] or (r and r.yes and (T[r.yes[1]] or T[r.no[1]])) or (r and r.merge and T[r.merge]) then
          set(node)
        end
      elseif registry.primitive(type_name) == 'Switch' then
        if T[list[1][1]] then set(node) end
      elseif type_name:find '^TensorArray' and not shape_only[type_name] and type_name ~= 'TensorArray'
        and type_name ~= 'TensorArraySize' then
        local a, writes = array(node), core.node_outputs(h, node) > 0 and is_handle(node, 0)
        if not writes then a = array(list[1][1]) end
        local was_varies, was_places = a.varies, a.places
        local place, held
        if writes then
          if type_name == 'TensorArrayWrite'
            or type_name == 'TensorArrayScatter' then place, held = list[2], list[3] else held = list[2] end
        elseif type_name == 'TensorArrayRead' or type_name == 'TensorArrayGather' then place = list[2] end
        if is_for_some(node, writes) then a.places = true end
        if held and T[held[1]] then a.varies = true end
        if type_name == 'TensorArraySplit' then a.parts = graph.output(self.g, list[2][1], list[2][2]).shape end
        if place and T[place[1]] then a.places = true end
        if a.places then a.varies = true end
        if a.varies then set(node) end
        if a.varies ~= was_varies or a.places ~= was_places then changed = true end
      elseif type_name == 'TensorArray' then
        if array(node).varies then set(node) end
      elseif registry.about(type_name, 'random') then
        set(node)
      elseif self.special[key(node, 0)] then
        if self.special[key(node, 0)].kind == 'vmap' then set(node) end
        for _, o in ipairs(self.special[key(node, 0)].needs) do
          if T[o.node] then set(node) end
          if D[o.node] then depend(node) end
        end
      elseif not shape_only[type_name] then
        for _, from in ipairs(list) do if T[from[1]] then set(node) end end
      end
    end
  until not changed
end

-- ---- lanes ----------------------------------------------------------------------------------------------------------
local function ints(list) return f.constant(require('dflow.front.tensor').tensor(list, 'int32', { #list })) end
M.ints = ints

--- A set of lanes: as many as `size`, an Output or a number; of a part of `parent`, `index` says which.
function M.new_set(g, size, parent, index)
  local n = type(size) == 'number' and size or -1
  return { g = g, n = n, size = n >= 0 and f.constant(n, 'int32') or size, parent = parent, index = index, lifted = {} }
end

--- Does any of the values differ by lane?
function M.differ(values)
  for _, v in ipairs(values) do if v.set then return true end end
  return false
end

--- Where the lanes of `set` lie in `outer`, one of the sets around it: int32[size]; nil where they are the same.
function M.places(set, outer)
  local at
  while set ~= outer do
    at = at and f.gather(set.index, at) or set.index
    set = set.parent
    if not set then errors.raise('internal', 'vmap: a value of other lanes') end
  end
  return at
end

--- 0 … size - 1; of a few that are known, a constant.
function M.numbers(set)
  local FEW, list = 4096, {}
  if set.n < 0 or set.n > FEW then return f.range(f.constant(0, 'int32'), set.size, f.constant(1, 'int32')) end
  for k = 1, set.n do list[k] = k - 1 end
  return ints(list)
end

--- The shape that a value has in one lane, as an Output int32[rank].
function M.lane_shape(v)
  local s = v.o.shape
  if s then
    local known = true
    for k, d in ipairs(s) do if d < 0 and not (v.set and k == 1) then known = false end end
    if known then return ints{ (table.unpack or unpack)(s, v.set and 2 or 1) } end
  end
  local all = f.shape(v.o)
  return v.set and f.strided_slice(all, ints{ 1 }, ints{ 0 }, ints{ 1 }, { end_mask = 1 }) or all
end

--- [size of the set, then shape].
function M.with_lanes(set, shape) return f.concat({ f.reshape(set.size, ints{ 1 }), shape }, 0) end

--- The value with one element for each lane of `set`, as an Output: made once in each context.
function M.lift(v, set)
  if v.set == set then return v.o end
  local context = core.current_context(set.g.handle)
  local made = set.lifted[context] or {}
  set.lifted[context] = made
  if not made[v.o] then
    made[v.o] = v.set and f.gather(v.o, M.places(set, v.set))
      or f.broadcast_to(f.expand_dims(v.o, 0), M.with_lanes(set, M.lane_shape(v)))
  end
  return made[v.o]
end

--- How many dimensions the value has in one lane; nil where that is not known.
function M.rank(v)
  local s = v.o.shape
  return s and #s - (v.set and 1 or 0)
end

-- ---- nodes, built again ---------------------------------------------------------------------------------------------
--- The attributes of a node as registry.op takes them.
function Batch:attributes(node)
  local e, attrs = registry.need(core.node_type(self.handle, node)), {}
  for _, a in ipairs(e.attrs) do
    local v = core.node_attr(self.handle, node, a.name)
    if a.kind == 'shapes' and v then
      local list, at = {}, 1
      while at <= #v do
        local rank, shape = v[at], v[at] >= 0 and {}
        for k = 1, math.max(rank, 0) do shape[k] = v[at + k] end
        list[#list + 1] = shape
        at = at + 1 + math.max(rank, 0)
      end
      v = list
    end
    if a.kind == 'dtype' and v == 0 then v = nil end                 -- what the op itself says
    if a.kind ~= 'tensor' and a.name ~= 'name' then attrs[a.name] = v end
  end
  return attrs
end

--- The node again, of these Outputs: a list of its outputs. attrs replaces attributes.
function Batch:again(node, inputs, attrs)
  local type_name = core.node_type(self.handle, node)
  if type_name == 'Const' then return { f.constant(core.output_constant(self.handle, node, 0)) } end
  local e, all = registry.need(type_name), self:attributes(node)
  for name, v in pairs(attrs or {}) do all[name] = v end
  local args, at, lists = {}, 1, 0
  for _, a in ipairs(e.inputs) do if a.list then lists = lists + 1 end end
  for k, a in ipairs(e.inputs) do
    if a.list then
      local count = (#inputs - (#e.inputs - lists)) / lists
      args[k] = {}
      for j = 1, count do args[k][j] = inputs[at + j - 1] end
      at = at + count
    else
      args[k], at = inputs[at], at + 1
    end
  end
  local made = registry.op(type_name, args, all)
  local first = made
  if type(made) == 'table' and errors.is_data(made) then first = made[1] end
  local out = {}
  for k = 1, core.node_outputs(self.handle, node) do out[k] = graph.output(self.g, first.node, k - 1) end
  out.operation = first
  return out
end

local function is_known(shape)
  for _, d in ipairs(shape or { -1 }) do if d < 0 then return false end end
  return true
end

--- The node for one lane after the other: what an op without a rule does.
function Batch:one_by_one(node, values, set)
  local h, outs, count = self.handle, {}, core.node_outputs(self.handle, node)
  local tensor_array = require 'dflow.front.tensor_array'
  local lifted, vars = {}, { f.constant(0, 'int32') }
  for k, v in ipairs(values) do lifted[k] = v.set and M.lift(v, set) or nil end
  for k = 1, count do
    local d = core.output_dtype(h, node, k - 1)
    if d == RESOURCE or d == dtypes.VARIANT then
      errors.raise('unimplemented', "vmap: the op %s (%s) gives no tensor and cannot be computed by lanes",
                   core.node_type(h, node), core.node_name_of(h, node))
    end
    local shape = graph.output(self.g, node, k - 1).shape
    if self.trace.one_shape and not is_known(shape) then
      errors.raise('unimplemented', 'vmap: %s (%s) may give each lane another shape', core.node_name_of(h, node),
                   core.node_type(h, node))
    end
    vars[k + 1] = tensor_array.new(dtypes.name[d], set.size,
                                   { element_shape = shape, name = core.node_name_of(h, node) .. '_lanes' })
  end
  local last = { require('dflow.front.control').while_loop(function(i) return f.less(i, set.size) end, function(i, ...)
    local arrays, inputs = { ... }, {}
    for k, v in ipairs(values) do inputs[k] = lifted[k] and f.gather(lifted[k], i) or v.o end
    local made = self:again(node, inputs)
    for k = 1, count do arrays[k] = arrays[k]:write(i, made[k]) end
    return f.add(i, 1), (table.unpack or unpack)(arrays, 1, count)
  end, vars) }
  for k = 1, count do outs[k] = { o = last[k + 1]:stack(), set = set } end
  return outs
end

-- ---- values ---------------------------------------------------------------------------------------------------------
function Batch:scope(parent, flow, set, fields)
  local s = fields or {}
  s.parent, s.flow, s.set, s.env = parent, flow, set, {}
  return s
end

--- The value of a node's output in a scope.
function Batch:value(scope, node, index)
  while true do
    local from, from_index = core.node_capture(self.handle, node)
    if not from then break end
    node, index = from, from_index
  end
  local k, s = key(node, index), scope
  while s do
    local v = s.env[k]
    if v then return v end
    if s.renewed and s.renewed(node, index) then break end       -- what lies further out is of other values
    s = s.parent
  end
  if node < self.first then return self:as_it_is(node, index) end
  local context = core.node_context(self.handle, node)
  local home = scope
  local function elsewhere()                     -- a function of one lane in this one has what was built since it began
    if home.renewed and home.renewed(node, index) then return false end
    if home.first then return node < home.first end
    return home.flow and not self:inside(context, home.flow)
  end
  while elsewhere() do home = home.parent end
  local v = self:evaluate(home, node, scope).env[k]
  if not v then errors.raise('internal', 'vmap: %s has no value', core.node_name_of(self.handle, node)) end
  return v
end

--- A value that all lanes share: the Output itself.
function Batch:as_it_is(node, index)
  local v = { o = graph.output(self.g, node, index) }
  if core.output_dtype(self.handle, node, index) == RESOURCE
    and core.node_type(self.handle, node):find '^TensorArray' then
    v.array, v.d = 'shared', self:array_dtype(node)
  end
  return v
end

--- The dtype of an array's elements: what it was made with.
function Batch:array_dtype(node)
  while core.node_type(self.handle, node) ~= 'TensorArray' do
    local flow, from = self:flow_of(node), core.node_capture(self.handle, node)
    if from then node = from
    elseif flow then
      for _, r in ipairs(flow.results) do if r.out == node then from = (r.init or r.yes)[1] end end
      node = from
    elseif core.node_inputs(self.handle, node) > 0 then node = core.node_input_of(self.handle, node, 0)
    end
    if not node then return nil end
  end
  return core.node_attr(self.handle, node, 'dtype')
end

--- Builds what the node is in that scope, with its other outputs; where it is asked for inside of a flow that has left
-- the scope behind, in the one that asks. Returns which.
function Batch:evaluate(scope, node, from)
  local h, type_name = self.handle, core.node_type(self.handle, node)
  local top, s = not scope.flow, scope
  while top and s do
    top = not (s.renewed and s.renewed(node, 0))
    s = s.parent
  end
  if top and not self.depends[node] and not (self.apart and self:lies_in(core.node_context(h, node), self.base)) then
    for k = 0, core.node_outputs(h, node) - 1 do scope.env[key(node, k)] = self:as_it_is(node, k) end
    scope.env[key(node, OPERATION)] = { o = graph.operation(self.g, node) }
    return scope
  end
  local special, flow = self.special[key(node, 0)], self:flow_of(node)
  if scope ~= from and (scope.flow and scope.flow.id) ~= (from.flow and from.flow.id) then
    if not flow and type_name ~= 'Const' and registry.primitive(type_name) then
      errors.raise('internal', 'vmap: %s is needed where its lanes are not at hand', core.node_name_of(h, node))
    end
    scope = from
  end
  -- What is built is of the line that built the node for one lane.
  local source = core.node_where(h, node)
  local callers = core.node_callers(h, node)
  local line, line_callers = core.at(source ~= '' and source or nil, callers > 0 and callers or nil)
  self:after(scope, flow and flow.id or node, function()
    if special then
      scope.env[key(node, 0)] = special.evaluate(self, scope, special)
    elseif flow then
      M.evaluate_flow(self, scope, flow)
    else
      local values = {}
      for i = 0, core.node_inputs(h, node) - 1 do values[i + 1] = self:value(scope, core.node_input_of(h, node, i)) end
      local results = self:apply(node, type_name, values, scope)
      for k, v in ipairs(results) do scope.env[key(node, k - 1)] = v end
      scope.env[key(node, OPERATION)] = { o = results.operation or results[1].o }
    end
  end)
  core.at(line, line_callers)
  return scope
end

--- Calls build(): what it builds waits for what the node, or the flow of that number, waits for.
function Batch:after(scope, waiter, build)
  local list = {}
  for k, control in ipairs(self:awaited(waiter)) do
    list[k] = self:value(scope, control, self:flow_of(control) and 0 or OPERATION).o
  end
  if #list == 0 then return build() end
  return graph.control_dependencies(list, build)
end

--- What an op is of these values: by its rule, by broadcasting, or one lane after the other.
function Batch:apply(node, type_name, values, scope)
  -- All is computed for the lanes at hand and no others, which may have good reason not to be here.
  if scope.parted and M.is_effect(type_name) then
    errors.bad('vmap: %s (%s) has an effect under a predicate that differs by lane',
               core.node_name_of(self.handle, node), type_name)
  end
  local set, array = M.differ(values) and scope.set, false
  for _, v in ipairs(values) do array = array or v.array or v.renewed end
  local random = registry.about(type_name, 'random')
  local rule = M.rules[type_name]
  if rule and (set or array or random or M.always[type_name]) then
    local results = rule(self, node, values, set, scope)
    if results then return results end
  end
  if random then
    return self:one_by_one(node, self:one_each(values, scope.set), scope.set)
  end
  if not set then return self:plain(node, values) end
  if M.is_effect(type_name) then
    errors.bad("vmap: %s (%s) would have an effect for each lane; an effect's operands have to be the same in all "
               .. 'lanes', core.node_name_of(self.handle, node), type_name)
  end
  if M.is_elementwise(type_name) then
    local results = M.broadcast(self, node, values, set)
    if results then return results end
  end
  return self:one_by_one(node, values, set)
end

function Batch:plain(node, values)
  local inputs = {}
  for k, v in ipairs(values) do inputs[k] = v.o end
  local out = self:again(node, inputs)
  for k, o in ipairs(out) do out[k] = { o = o } end
  return out
end

--- For ops that draw: the first value with a copy a lane, so that each is computed for itself.
function Batch:one_each(values, set)
  local out = {}
  for k, v in ipairs(values) do out[k] = v end
  if out[1] and not M.differ(out) then out[1] = { o = M.lift(out[1], set), set = set } end
  return out
end

--- Operands with the same rank in one lane, then the op itself; nil where a rank is not known.
function M.aligned(values, set)
  local most = 0
  for _, v in ipairs(values) do
    local r = M.rank(v)
    if not r then return nil end
    most = math.max(most, r)
  end
  local out = {}
  for k, v in ipairs(values) do
    local r = M.rank(v)
    if not v.set then out[k] = v.o
    else
      local o = M.lift(v, set)
      if r < most then
        local shape, dims = M.lane_shape({ o = o, set = set }), { f.reshape(set.size, ints{ 1 }) }
        local ones = {}
        for i = 1, most - r do ones[i] = 1 end
        dims[2], dims[3] = ints(ones), shape
        o = f.reshape(o, f.concat(dims, 0))
      end
      out[k] = o
    end
  end
  return out
end
function M.broadcast(self, node, values, set)
  local operands = M.aligned(values, set)
  if not operands then return nil end
  local out = self:again(node, operands)
  for k, o in ipairs(out) do out[k] = { o = o, set = set } end
  return out
end

--- A batch for the nodes first … last - 1 of g, which were built in the context `base`.
-- @param placeholders  Outputs that stand for one lane's values
-- @param outputs       what of it is wanted
-- @param special       by key: outputs that are made in their own way: { evaluate(batch, scope, special) -> value,
--                      needs = Outputs }
function M.new(g, first, last, base, placeholders, special, outputs)
  local self = setmetatable({ g = g, handle = g.handle, first = first, last = last, base = base,
                              placeholders = placeholders, special = special,
                              described = {}, effective = {} }, Batch)
  read_flows(self)
  -- What lies around the function itself is outside.
  local context = base
  while self.around[context] do
    local flow = self.around[context]
    for _, inner in ipairs(flow.about.inside) do self.around[inner] = nil end
    context = flow.about.parent
  end
  order(self)
  need(self, outputs)
  mark(self)
  return self
end

return M
