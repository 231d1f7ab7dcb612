--- A graph as an ONNX model: df.export_onnx.
--
-- ONNX has no Switch, Merge and frames: its If and Loop own graphs, which see the names of the graphs around them. So
-- each of dflow's contexts (the top level, a branch, a predicate, a body) becomes a scope: a table of the names that
-- its outputs have in the ONNX graph that is being written. Nodes are written when their values are first asked for,
-- into the graph of their own context, and an If or Loop after everything that its graphs needed. A predicate is
-- written twice: before the Loop with the first values, and at the end of its body with the next ones, because a Loop
-- is told by its body whether to go on.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local files = require 'dflow.exchange.file'
local wire = require 'dflow.exchange.wire'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local registry = require 'dflow.front.registry'
local tensor = require 'dflow.front.tensor'
local proto = require 'dflow.exchange.onnx.proto'
local arrays = require 'dflow.exchange.onnx.arrays'
local op_table = require 'dflow.exchange.onnx.ops'

local M = {}
local unpack = graph.unpack
local FLOAT, INT64, BOOL, STRING, RESOURCE, BFLOAT16 = 1, 9, 10, 7, 20, 14
local COND, LOOP, TOP = 1, 2, 0
local Exporter = {}
Exporter.__index = Exporter
local refusal = {}           -- what n:refuse raises

local function key(node, index) return index == 0 and node or node .. ':' .. index end

-- ---- what is live ---------------------------------------------------------------------------------------------------
--- Takes a cond's or a loop's numbers apart: dflow.h, df_flow_describe.
local function describe(g, node)
  local n = core.flow_describe(g, node)
  if not n then return nil end
  local f = { kind = n[1], id = n[1] .. ':' .. n[2], name = core.flow_name(g, node), pred = { n[3], n[4] } }
  local at = 5
  for i = 1, n[5] do
    if f.kind == COND then
      f[i] = { out = n[at + 1], yes = { n[at + 2], n[at + 3] }, no = { n[at + 4], n[at + 5] } }
      at = at + 5
    else
      f[i] = { out = n[at + 1], merge = n[at + 2], switch = n[at + 3], init = { n[at + 4], n[at + 5] },
               next = { n[at + 6], n[at + 7] } }
      at = at + 7
    end
  end
  return f
end

-- Constants are written where they are used, the rest as part of its loop or cond.
local flow = { Switch = true, Enter = true, NextIteration = true, LoopCond = true, RefSwitch = true, RefEnter = true,
               RefNextIteration = true,
               Const = true, Merge = true, VarHandleOp = true }

--- Marks every node that the outputs' values are made of, and notes the users of each.
function Exporter:mark(outputs)
  local g, live, uses, work = self.handle, {}, {}, {}
  local function need(node, index)
    if self.fed[key(node, index)] or live[node] then return end
    live[node] = true
    work[#work + 1] = node
  end
  for _, o in ipairs(outputs) do need(o.node, o.index) end
  while #work > 0 do
    local node = table.remove(work)
    local type = core.node_type(g, node)
    if type == 'Merge' then
      local f = describe(g, node)
      if f then need(f.pred[1], f.pred[2]) end
    end
    for i = 0, core.node_inputs(g, node) - 1 do
      local from, index = core.node_input_of(g, node, i)
      local k = key(from, index)
      uses[k] = uses[k] or {}
      table.insert(uses[k], { node = node, input = i, type = type })
      need(from, index)
    end
  end
  local inside = {}
  for node = 0, core.graph_nodes(g) - 1 do
    if live[node] and not flow[core.node_type(g, node)] then
      local context = core.node_context(g, node)
      inside[context] = inside[context] or {}
      table.insert(inside[context], node)
    end
  end
  self.live, self.uses, self.inside = live, uses, inside
end

--- Writes what is live in a context, in the order in which it was built: so nothing asks for what it needs through many
-- calls.
function Exporter:sweep(context)
  for _, node in ipairs(self.inside[context] or {}) do
    if not self.scanned_writes[node] then self:value(node, 0) end
  end
end

--- The node and index where a value comes from, behind all that only hands it on.
function Exporter:origin(node, index)
  while true do
    local from, from_index = core.node_capture(self.handle, node)
    if not from and core.node_type(self.handle, node) == 'Identity' then
      from, from_index = core.node_input_of(self.handle, node, 0)
    end
    if not from then return node, index end
    node, index = from, from_index
  end
end

--- The users of a value, through all that only hands it on: a list of {node, input, type}.
function Exporter:users(node, index, list)
  list = list or {}
  for _, u in ipairs(self.uses[key(node, index)] or {}) do
    if u.type == 'Identity' or (u.input == 0 and core.node_capture(self.handle, u.node)) then
      self:users(u.node, 0, list)
    else
      list[#list + 1] = u
    end
  end
  return list
end

-- ---- names and nodes ------------------------------------------------------------------------------------------------
function Exporter:unique(base)
  local n = self.used[base]
  if not n then
    self.used[base] = 1
    return base
  end
  repeat
    local name = base .. '_' .. n
    n = n + 1
    self.used[base] = n
  until not self.used[name]
  return self:unique(base .. '_' .. (n - 1))
end

--- Adds a node to the graph being written; the name of its output, or a list of names where `count` is more than one.
function Exporter:op(op, inputs, attrs, count)
  local outputs = {}
  for i = 1, count or 1 do
    outputs[i] = self:unique(self.base .. '/' .. op)
    self.scope.into.made[outputs[i]] = true
  end
  local last = 0
  for i in pairs(inputs) do last = math.max(last, i) end
  local names = {}
  for i = 1, last do names[i] = inputs[i] or '' end
  table.insert(self.scope.into.nodes, { op = op, inputs = names, outputs = outputs, attrs = attrs, doc = self.doc })
  return (count or 1) == 1 and outputs[1] or { unpack(outputs) }
end

function Exporter:cast(name, d, from)
  if from == d then return name end
  return self:op('Cast', { name }, { to = proto.int(proto.dtype[d]) })
end

local function new_graph(name)
  return { name = name, nodes = {}, inputs = {}, outputs = {}, constants = {}, made = {} }
end

-- Constants are those of the whole model.
local function add_constant(self, base, t)
  local name = self:unique(base)
  table.insert(self.main.constants, { name, t })
  return name
end

function Exporter:constant(d, shape, list)
  local parts = {}
  for i, v in ipairs(list) do parts[i] = type(v) == 'number' and ('%.17g'):format(v) or v end
  local id = d .. '[' .. table.concat(shape, ',') .. ']' .. table.concat(parts, ',')
  local name = self.constants[id]
  if not name then
    local t = { d = d, shape = shape }
    if d == STRING then t.strings = list
    elseif d == INT64 then
      local raw = {}
      for i, v in ipairs(list) do raw[i] = wire.little(v, 8) end
      t.raw = table.concat(raw)
    else
      t.raw = core.tensor_bytes(tensor.tensor(#shape == 0 and list[1] or list, 'float64'):astype(dtypes.name[d]))
    end
    name = add_constant(self, 'const', t)
    self.constants[id] = name
  end
  return name
end

function Exporter:number(v, d) return self:constant(d, {}, { v }) end
function Exporter:ints(list) return self:constant(INT64, { #list }, list) end

--- A Tensor under a name of its own.
function Exporter:tensor(t, base)
  local d = dtypes.number[t.dtype]
  return add_constant(self, base, { d = d, shape = t.shape, raw = d ~= STRING and core.tensor_bytes(t) or nil,
                                    strings = d == STRING and t:list() or nil })
end

--- Input i of n as int64.
function Exporter:index(n, i)
  local list, shape = n:numbers(i), n:shape(i)
  if list and #shape == 1 then return self:ints(list) end
  return self:cast(n[i], INT64, n:d(i))
end

--- The scalar (or list) input i as an int64 vector.
function Exporter:list(n, i)
  local list = n:numbers(i)
  if list then return self:ints(list) end
  return self:op('Reshape', { self:index(n, i), self:ints { -1 } })
end

-- ---- graphs within graphs -------------------------------------------------------------------------------------------
--- Calls fn with a graph of its own to write to; what fn gives is a list of {name, type…}, the graph's outputs.
function Exporter:subgraph(name, context, fn)
  local outer, base = self.scope, self.base
  local inner = new_graph(name)
  self.scope = { into = inner, names = {} }
  if context then self.scopes[context] = self.scope end
  local outputs = fn(inner)
  local taken = {}
  for i, o in ipairs(outputs) do      -- an output is made in its own graph, and once
    local made = o[1]
    if not inner.made[made] or taken[made] then
      made = self:op('Identity', { made })
    end
    taken[made] = true
    inner.outputs[i] = { made, d = o.d, shape = o.shape, sequence = o.sequence }
  end
  if context then self.scopes[context] = nil end
  self.scope, self.base = outer, base
  return inner
end

--- The If of two functions, each of which gives one name.
function Exporter:choice(condition, yes, no, kind)
  local function side(name, fn)
    return proto.graph(self:subgraph(name, nil, function()
      return { { fn(), d = kind.d, shape = kind.shape, sequence = kind.sequence } }
    end))
  end
  return self:op('If', { condition }, { then_branch = side('then', yes), else_branch = side('else', no) })
end

--- What is known of an array's elements.
function Exporter:handle_shape(node, index)
  if core.output_dtype(self.handle, node, index) ~= RESOURCE then return nil end     -- TensorFlow's flow knows nothing
  return core.output_shape(self.handle, node, index)
end

--- A graph's output for a value: a name, or an array, which becomes a sequence.
local function result(self, v, node, index)
  if type(v) == 'table' then
    v = arrays.list(self, arrays.learn(self, v, node, index))
    return { v.name, d = v.d, sequence = true, array = v }
  end
  return { v, d = core.output_dtype(self.handle, node, index), shape = core.output_shape(self.handle, node, index) }
end

function Exporter:cond(f, scope)
  local live, results = {}, {}
  for _, v in ipairs(f) do if self.live[v.out] then live[#live + 1] = v end end
  local pred = self:value(f.pred[1], f.pred[2])
  self.scope, self.base, self.doc = scope, f.name, core.node_where(self.handle, live[1].out)
  local attrs = {}
  for _, side in ipairs { 'yes', 'no' } do
    local context = core.node_context(self.handle, live[1][side][1])
    attrs[side == 'yes' and 'then_branch' or 'else_branch'] = proto.graph(self:subgraph(f.name .. '/' .. side, context,
        function()
      local list = {}
      self:sweep(context)
      for i, v in ipairs(live) do
        local o = v[side]
        self.base = core.node_name_of(self.handle, o[1])
        list[i] = result(self, self:value(o[1], o[2]), o[1], o[2])
        results[i] = results[i] or list[i]
      end
      return list
    end))
  end
  local names = self:op('If', { pred }, attrs, #live)
  for i, v in ipairs(live) do
    local name = #live == 1 and names or names[i]
    local a = results[i].array
    if a then
      name = arrays.like(a, 'list', name)
      name.fixed, name.dynamic = nil, true       -- either side may have given it
    end
    scope.names[v.out] = name
  end
end

-- ---- loops ---------------------------------------------------------------------------------------------------------
function Exporter:is_number(node, index, value)
  local t = core.output_constant(self.handle, self:origin(node, index))
  return t ~= nil and t.rank == 0 and tonumber(t:item()) == value
end

--- Does this variable count the trips: 0, 1, 2, …?
function Exporter:counts(v)
  local d = core.output_dtype(self.handle, v.switch, 1)
  if not dtypes.is_int(d) or not self:is_number(v.init[1], v.init[2], 0) then return false end
  local add = self:origin(v.next[1], v.next[2])
  local type = core.node_type(self.handle, add)
  if type ~= 'Add' and type ~= 'AddV2' then return false end
  for i = 0, 1 do
    local a, ai = self:origin(core.node_input_of(self.handle, add, i))
    if a == v.switch and ai == 1 then
      local step, index = core.node_input_of(self.handle, add, 1 - i)
      return self:is_number(step, index, 1)
    end
  end
  return false
end

--- The op's name without TensorFlow's V3, where an array is known by a handle and by the flow that stands for what was
-- done to it: here the flow is the array, and the handle says nothing.
local function plain_name(type_name) return (type_name:gsub('^(TensorArray.*)V3$', '%1')) end

--- Is the array made for this loop, written once in each trip at the number of the trip, and afterwards only read? Then
-- it is a scan output; gives the pair that is written.
function Exporter:scanned(f, v, scope_context)
  local g = self.handle
  local made, made_index = self:origin(v.init[1], v.init[2])
  if not core.node_type(g, made):find '^TensorArrayV?3?$' or core.node_context(g, made) ~= scope_context then
    return nil
  end
  if #self:users(made, made_index) ~= 1 then return nil end
  local write = self:origin(v.next[1], v.next[2])
  local type_name = core.node_type(g, write)
  if plain_name(type_name) ~= 'TensorArrayWrite' or core.node_context(g, write) ~= core.node_context(g, v.switch) then
    return nil
  end
  local from, from_index = self:origin(core.node_input_of(g, write, type_name == 'TensorArrayWrite' and 0 or 3))
  if from ~= v.switch or from_index ~= 1 then return nil end
  local counter, counter_index = self:origin(core.node_input_of(g, write, 1))
  local counts = false
  for _, other in ipairs(f) do
    if counter == other.switch and counter_index == 1 and other ~= v then counts = self:counts(other) end
  end
  if not counts or #self:users(v.switch, 1) ~= 1 or #self:users(v.merge, 0) ~= 1 or #self:users(write, 0) ~= 1 then
    return nil
  end
  local value, value_index = core.node_input_of(g, write, 2)
  if core.output_dtype(g, value, value_index) == RESOURCE then return nil end
  for _, u in ipairs(self:users(v.out, 0)) do if not arrays.reads[plain_name(u.type)] then return nil end end
  self.scanned_writes[write] = true
  return { value, value_index }
end

function Exporter:loop(f, scope)
  local g = self.handle
  local context = core.node_context(g, f[1].out)
  local body_context, pred_context = core.node_context(g, f[1].switch), core.node_context(g, f[1].merge)
  local carried, scans, first = {}, {}, {}
  for _, v in ipairs(f) do
    if self.live[v.merge] then
      local init = self:value(v.init[1], v.init[2])
      local from, from_index = self:origin(v.next[1], v.next[2])
      self.scope, self.base, self.doc = scope, f.name, core.node_where(g, f[1].out)
      v.scan = type(init) == 'table' and init.kind == 'new' and self:scanned(f, v, context) or nil
      if (from == v.switch and from_index == 1) or init == '?' then
        v.same = init
      elseif v.scan then
        scans[#scans + 1] = v
      else
        if type(init) == 'table' then init = arrays.list(self, arrays.learn(self, init, v.out, 0)) end
        carried[#carried + 1] = v
      end
      v.first = init
      first[v.merge] = init
    end
  end

  --- Writes the predicate, given what the Merges are.
  local function goes_on(merges)
    local where = self.scope
    self.scopes[pred_context] = { into = where.into, names = merges }
    self:sweep(pred_context)
    local name = self:value(f.pred[1], f.pred[2])
    self.scopes[pred_context] = nil
    self.scope = where
    return name
  end
  local more = goes_on(first)
  self.base, self.doc = f.name, core.node_where(g, f[1].out)

  local body = self:subgraph(f.name .. '/body', body_context, function(inner)
    local names = self.scope.names
    inner.inputs[1] = { self:unique(f.name .. '/iteration'), d = INT64, shape = {} }
    inner.inputs[2] = { self:unique(f.name .. '/goes_on'), d = BOOL, shape = {} }
    for _, v in ipairs(f) do if v.same then names[key(v.switch, 1)] = v.same end end
    for i, v in ipairs(carried) do
      local name = self:unique(core.node_name_of(g, v.merge))
      local a = type(v.first) == 'table' and v.first
      inner.inputs[i + 2] = { name, d = a and a.d or core.output_dtype(g, v.merge, 0), sequence = a and true,
                              shape = not a and core.output_shape(g, v.merge, 0) or nil }
      names[key(v.switch, 1)] = a and arrays.like(a, 'list', name) or name
    end
    self:sweep(body_context)
    local list, merges = { false }, {}
    for _, v in ipairs(f) do if v.same then merges[v.merge] = v.same end end
    for _, v in ipairs(carried) do
      self.base = core.node_name_of(g, v.next[1])
      local r = result(self, self:value(v.next[1], v.next[2]), v.next[1], v.next[2])
      merges[v.merge] = r.array or r[1]
      if r.array then v.first = arrays.like(r.array, 'list', v.first.name) end
      list[#list + 1] = r
    end
    for _, v in ipairs(scans) do
      v.element = result(self, self:value(v.scan[1], v.scan[2]), v.scan[1], v.scan[2])
      list[#list + 1] = v.element
    end
    list[1] = { goes_on(merges), d = BOOL, shape = {} }
    self.base = f.name
    return list
  end)

  local inputs = { '', more }
  for i, v in ipairs(carried) do inputs[i + 2] = type(v.first) == 'table' and v.first.name or v.first end
  local count = #carried + #scans
  local names = count > 0 and self:op('Loop', inputs, { body = proto.graph(body) }, count) or {}
  if count == 1 then names = { names } end
  for i, v in ipairs(carried) do
    scope.names[v.out] = type(v.first) == 'table' and arrays.like(v.first, 'list', names[i]) or names[i]
  end
  for i, v in ipairs(scans) do
    local rows = arrays.like(v.first, 'rows', names[#carried + i])
    rows.shape = v.element.shape or rows.shape
    scope.names[v.out] = rows
  end
  for _, v in ipairs(f) do if v.same then scope.names[v.out] = v.same end end
  for i, v in ipairs(carried) do self:call(scope.names[v.out], v.out, names[i]) end
end

-- ---- values ---------------------------------------------------------------------------------------------------------
--- Gives a name that a node's own work made the node's name.
function Exporter:call(value, node, name)
  if value == name and not self.renamed[name] then
    self.renamed[name] = self:unique(core.node_name_of(self.handle, node))
  end
end

--- Leaves out the constants without readers: axes that became attributes, for one.
function Exporter:drop_unused()
  local used = {}
  local function walk(into)
    for _, n in ipairs(into.nodes) do
      for _, name in ipairs(n.inputs) do used[name] = true end
      for _, a in pairs(n.attrs or {}) do if type(a[2]) == 'table' and a[2].nodes then walk(a[2]) end end
    end
  end
  walk(self.main)
  local kept = {}
  for _, c in ipairs(self.main.constants) do if used[c[1]] then kept[#kept + 1] = c end end
  self.main.constants = kept
end

--- The name (or array) of an output, written when it is not there yet.
function Exporter:value(node, index)
  local g = self.handle
  local from, from_index = node, index
  repeat
    local fed = self.fed[key(from, from_index)]
    if fed then return fed end
    node, index = from, from_index
    from, from_index = core.node_capture(g, node)
  until not from
  local scope = self.scopes[core.node_context(g, node)]
  if not scope then
    errors.raise('internal', 'export_onnx: %s is used where its context is not open', core.node_name_of(g, node))
  end
  local k = key(node, index)
  local v = scope.names[k] or self.known[k]
  if v then return v end
  if core.output_dtype(g, node, index) ~= RESOURCE then
    local t = core.output_constant(g, node, index)
    if t and (proto.dtype[dtypes.number[t.dtype]]) then
      self.known[k] = self:tensor(t, core.node_name_of(g, node))
      return self.known[k]
    end
  end
  local outer, base, doc = self.scope, self.base, self.doc
  self.scope, self.base, self.doc = scope, core.node_name_of(g, node), core.node_where(g, node)
  self:emit(node, scope)
  self.scope, self.base, self.doc = outer, base, doc
  v = scope.names[k]
  -- asked once: others that need it are refused with it
  if not v and self.refusals[1] then self.known[k] = '?' end
  return v or '?'
end

--- What a node is to the functions that write it.
local View = {}
View.__index = View

--- The dtype of input i, as it is handed over: bfloat16 is computed in float32.
function View:d(i)
  local d = core.output_dtype(self.handle, self.from[i][1], self.from[i][2])
  return self.widened and d == BFLOAT16 and FLOAT or d
end
function View:shape(i) return core.output_shape(self.handle, self.from[i][1], self.from[i][2]) end
function View:rank(i)
  local shape = self:shape(i)
  return shape and #shape
end
function View.refuse(_, why) error({ refusal, why }, 0) end
function View:numbers(i)
  local t = core.output_constant(self.handle, self.exporter:origin(self.from[i][1], self.from[i][2]))
  if not t or t.dtype == 'string' then return nil end
  local list = t:list()
  for k, v in ipairs(list) do list[k] = tonumber(v) or v end
  return list
end
function View:whole(i, what)
  local list = self:numbers(i)
  return list and list[1] or self:refuse(('its %s is known only when it runs'):format(what))
end

local function view(self, node)
  local g = self.handle
  local n = setmetatable({ handle = g, exporter = self, node = node, count = core.node_inputs(g, node), from = {} },
                         View)
  function n.attr(name) return core.node_attr(g, node, name) end
  function n.uses(index) return self.uses[key(node, index)] ~= nil end
  for i = 1, n.count do n.from[i] = { core.node_input_of(g, node, i - 1) } end
  return n
end

function Exporter:refuse(node, why)
  if self.refused[node] then return end
  self.refused[node] = true
  table.insert(self.refusals, { node = node, why = why })
end

--- Most operators of the standard take no bfloat16, and runtimes have them for fewer dtypes still: values of bfloat16
-- are computed with in float32 and rounded, which is what dflow's own kernels do.
local function widen(self, n)
  for i = 1, n.count do
    if type(n[i]) == 'string' and core.output_dtype(n.handle, n.from[i][1], n.from[i][2]) == BFLOAT16 then
      n[i] = self:op('Cast', { n[i] }, { to = proto.int(proto.dtype[FLOAT]) })
      n.widened = true
    end
  end
end

local function narrow(self, n, results)
  for i, v in ipairs(results) do
    if type(v) == 'string' and core.output_dtype(n.handle, n.node, i - 1) == BFLOAT16 then
      results[i] = self:op('Cast', { v }, { to = proto.int(proto.dtype[BFLOAT16]) })
    end
  end
end

local function fresh_array(_, n)
  local size = n:numbers(1)
  if not proto.dtype[n.attr 'dtype'] then n:refuse('ONNX has no sequence of sequences') end
  local a = { kind = 'new', size = n[1], fixed = size and size[1], d = n.attr 'dtype', dynamic = n.attr 'dynamic_size',
              shape = n.attr 'element_shape' }
  return core.node_outputs(n.handle, n.node) == 2 and { 'handle', a } or a
end

function Exporter:emit(node, scope)
  local g = self.handle
  local type_name = core.node_type(g, node)
  if type_name == 'Merge' or type_name == 'Exit' then
    local f = describe(g, node)
    if not f then return self:refuse(node, 'control flow that is no cond or loop') end
    if self.open[f.id .. tostring(scope)] then return self:refuse(node, 'it depends on itself') end
    self.open[f.id .. tostring(scope)] = true
    if f.kind == LOOP then self:loop(f, scope) else self:cond(f, scope) end
    self.open[f.id .. tostring(scope)] = nil
    return
  end
  local n = view(self, node)
  if type_name == 'ReadVariableOp' or type_name == 'VariableV2' or type_name == 'Variable' then
    local variable = type_name == 'ReadVariableOp' and self:origin(n.from[1][1], n.from[1][2]) or node
    scope.names[node] = self:variable(variable)
    return
  end
  local complete = true
  for i = 1, n.count do
    if core.node_type(g, (self:origin(n.from[i][1], n.from[i][2]))) == 'VarHandleOp' then
      return self:refuse(node, 'it has a state or a side effect')
    end
    n[i] = self:value(n.from[i][1], n.from[i][2])
    complete = complete and n[i] ~= '?'
  end
  if not complete then return end      -- what it needs was refused
  for i = 0, core.node_outputs(g, node) - 1 do
    local d = core.output_dtype(g, node, i)
    if dtypes.is_complex(d) or (d ~= RESOURCE and not proto.dtype[d]) then
      return self:refuse(node, 'no operator takes ' .. dtypes.name[d])
    end
  end
  self.scope, self.base, self.doc = scope, core.node_name_of(g, node), core.node_where(g, node)
  local plain = plain_name(type_name)
  local array = n[plain == type_name and 1 or n.count]
  local fn = op_table[type_name]
  if plain == 'TensorArray' then fn = fresh_array
  elseif type(array) == 'table' then fn = arrays.ops[plain] end
  if not fn then return self:refuse(node) end
  if type_name ~= 'Cast' and type(array) ~= 'table' then widen(self, n) end
  local ok, r = pcall(fn, self, n, array)
  if not ok then
    if type(r) == 'table' and r[1] == refusal then return self:refuse(node, r[2]) end
    error(r, 0)
  end
  if type(r) ~= 'table' or r.kind then r = { r } end
  if n.widened then narrow(self, n, r) end
  for i, v in ipairs(r) do
    scope.names[key(node, i - 1)] = v
    if i == 1 and type(v) == 'string' and v:sub(1, #self.base + 1) == self.base .. '/' and scope.into.made[v] then
      self:call(v, node, v)
    end
  end
end

-- ---- variables ------------------------------------------------------------------------------------------------------
function Exporter:variable(node)
  local name = self.variables[node]
  if not name then
    local g = self.graph
    local o = graph.output(g, node, 0)
    if core.output_dtype(g.handle, node, 0) == RESOURCE then
      core.push_top(g.handle)
      local ok, read = pcall(registry.op, 'ReadVariableOp', { o }, { dtype = core.node_attr(g.handle, node, 'dtype') })
      core.pop_top(g.handle)
      if not ok then error(read, 0) end
      o = read
    end
    local v = self.session:run(o)
    if getmetatable(v) ~= tensor.Tensor then v = tensor.tensor(v, o.dtype) end
    name = self:tensor(v, core.node_name_of(g.handle, node))
    self.variables[node] = name
  end
  return name
end

-- ---- df.export_onnx -------------------------------------------------------------------------------------------------
--- The Outputs of what was given, and their names: a list keeps its order, names come sorted.
local function take(given, what)
  local list, names = {}, {}
  local function add(x, name)
    local mt = getmetatable(x)
    if type(mt) == 'table' and rawget(mt, 'as_output') then x = mt.as_output(x) end
    if getmetatable(x) ~= graph.Output then
      errors.bad('export_onnx: %s is %s, an Output is expected', what, errors.describe(x))
    end
    list[#list + 1], names[#list + 1] = x, name or (x.name:gsub(':0$', ''))
  end
  if not nest.is_plain(given) then
    add(given)
  else
    for _, k in ipairs(nest.keys(given)) do add(given[k], type(k) == 'string' and k or nil) end
  end
  return list, names
end

--- The shape of an input or output of the model, whose rank ONNX wants to know.
local function model_shape(o, what)
  local shape = o.shape
  if not shape then
    errors.bad('export_onnx: the rank of the %s %s is not known, and ONNX wants it: say it with x:set_shape{-1, …}',
               what, o.name)
  end
  return shape
end

local function check_opset(opset)
  if opset == nil then return 17 end
  if not proto.format[opset] then
    errors.bad('export_onnx: opset is %s, a whole number from 16 to 21 is expected', tostring(opset))
  end
  return opset
end

--- Ops with side effects that the outputs depend on, be it by their order alone: they have no place in a function of
-- the inputs.
local harmless = { Print = true, Assert = true, Placeholder = true, PlaceholderV2 = true, PlaceholderWithDefault = true,
                   ReadVariableOp = true, VarHandleOp = true, VariableV2 = true, Variable = true, DeepCopy = true,
                   GuaranteeConst = true }
function Exporter:refuse_effects(outputs)
  local flat = {}
  for i, o in ipairs(outputs) do flat[2 * i - 1], flat[2 * i] = o.node, o.index end
  for _, node in ipairs(core.graph_needs(self.handle, flat)) do
    local type_name = core.node_type(self.handle, node)
    if not harmless[type_name] and not type_name:find('^TensorArray') then
      local entry = registry.entry(type_name)
      if type_name == 'FunctionCall' then
        self:refuse(node, 'its function calls itself, which no graph of ONNX can')
      elseif entry and entry.stateful then
        self:refuse(node, 'it has a state or a side effect')
      end
    end
  end
end

function Exporter:raise_refusals()
  if #self.refusals == 0 then return end
  local g, lines = self.handle, {}
  table.sort(self.refusals, function(a, b) return a.node < b.node end)
  for i, r in ipairs(self.refusals) do
    local where = core.node_where(g, r.node)
    lines[i] = ('  %s%s (%s)%s'):format(where ~= '' and where .. ': ' or '', core.node_name_of(g, r.node),
                                        core.node_type(g, r.node),
                                        r.why and ': ' .. r.why or '')
  end
  errors.raise('unimplemented', '%d %s no counterpart in ONNX (opset %d):\n%s', #lines, #lines == 1 and 'operation has'
               or 'operations have',
               self.opset, table.concat(lines, '\n'))
end

--- The same Outputs in a graph where calls of df.func are put in line, as they are when a GraphDef is read. Variables
-- are constants there.
local function with_calls_in_line(g, outputs, inputs, session)
  local flat = {}
  for i, o in ipairs(outputs) do flat[2 * i - 1], flat[2 * i] = o.node, o.index end
  local calls = false
  for _, node in ipairs(core.graph_needs(g.handle, flat)) do
    calls = calls or core.node_type(g.handle, node) == 'FunctionCall'
  end
  if not calls then return g, outputs, inputs end
  local all = { unpack(outputs) }
  for _, o in ipairs(inputs or {}) do all[#all + 1] = o end
  local bytes = require('dflow.exchange.export').graph_def_bytes{ outputs = all, session = session, frozen = true }
  local copy = require('dflow.exchange.graphdef').import_graph_def(bytes)
  local function copied(list)
    local to = list and {}
    for i, o in ipairs(list or {}) do
      local node = o.name:gsub(':%d+$', '')
      if not node:find '^[%w.][%w_.\\/>-]*$' or core.node_by_name(copy.handle, node) < 0 then
        errors.bad("export_onnx: beside calls of df.func, '%s' needs a name of letters, digits, '_', '.', '-' and '/', "
                   .. "as by df.identity(x, {name = 'y'})", o.name)
      end
      to[i] = copy:output(o.name)
    end
    return to
  end
  return copy, copied(outputs), copied(inputs)
end

--- df.export_onnx(path, {outputs =, inputs =, opset = 17, session =}): the graph that leads to the outputs, as an ONNX
-- model.
-- `outputs` is an Output, a list, or {name = Output}. `inputs` likewise: what is fed in ONNX, any Outputs; without it
-- all placeholders, in the order they were built. Variables become initializers with their values in the session (the
-- default one).
-- A cond becomes an If, a while_loop a Loop, a TensorArray a scan output where a loop writes it in order, else a
-- sequence. df.print hands its value on and df.assert is left out. Ops without a counterpart are one error that lists
-- them with their Lua lines.
function M.export_onnx(path, opts)
  if type(path) ~= 'string' or path == '' then errors.bad('export_onnx takes a path, not %s', errors.describe(path)) end
  opts = errors.options(opts, 'export_onnx', { 'outputs', 'inputs', 'opset', 'session' })
  if opts.outputs == nil then errors.bad("export_onnx: say what the model gives: {outputs = y}") end
  local outputs, output_names = take(opts.outputs, 'outputs')
  if #outputs == 0 then errors.bad('export_onnx: outputs is empty') end
  local inputs, input_names
  if opts.inputs ~= nil then inputs, input_names = take(opts.inputs, 'inputs') end
  local g = outputs[1].graph
  local sessions = require 'dflow.front.session'
  if opts.session ~= nil and getmetatable(opts.session) ~= sessions.Session then
    errors.bad('export_onnx: session is %s, a Session is expected', errors.describe(opts.session))
  end
  for _, o in ipairs(outputs) do
    if o.graph ~= g then errors.bad('export_onnx: the outputs belong to several graphs') end
    if core.node_context(g.handle, o.node) ~= TOP then
      errors.bad('export_onnx: %s was built in a body or branch, so it has no one value', o.name)
    end
  end
  for _, o in ipairs(inputs or {}) do
    if o.graph ~= g then errors.bad('export_onnx: the input %s belongs to another graph', o.name) end
  end
  local opset, session = check_opset(opts.opset), opts.session or sessions.default(g)
  g, outputs, inputs = with_calls_in_line(g, outputs, inputs, session)
  local self = setmetatable({ graph = g, handle = g.handle, opset = opset, main = new_graph('dflow'), session = session,
                              fed = {}, used = {},
                              constants = {}, known = {}, renamed = {}, refused = {}, refusals = {}, variables = {},
                              scopes = {}, open = {}, scanned_writes = {},
                              base = 'graph', doc = nil }, Exporter)
  for _, name in ipairs(output_names) do
    if self.used[name] then errors.bad("export_onnx: two outputs have the name '%s'", name) end
    self.used[name] = 1
  end
  local main = self.main
  local function feed(o, name)
    local d = graph.dtype(o)
    if not proto.dtype[d] then errors.bad('export_onnx: ONNX has no %s (the input %s)', o.dtype, o.name) end
    if self.fed[key(o.node, o.index)] then errors.bad('export_onnx: the input %s is there twice', o.name) end
    local unique = self:unique(name)
    self.fed[key(o.node, o.index)] = unique
    main.inputs[#main.inputs + 1] = { unique, d = d, shape = model_shape(o, 'input') }
  end
  for i, o in ipairs(inputs or {}) do feed(o, input_names[i]) end
  self:mark(outputs)
  for node = 0, core.graph_nodes(g.handle) - 1 do
    local type_name = self.live[node] and core.node_type(g.handle, node)
    if registry.primitive(type_name) == 'Placeholder' then
      if inputs then
        errors.bad('export_onnx: the outputs need the placeholder %s, which is not among the inputs',
                   core.node_name_of(g.handle, node))
      end
      feed(graph.output(g, node, 0), core.node_name_of(g.handle, node))
    end
  end
  self:refuse_effects(outputs)
  local top = { into = main, names = {} }
  self.scopes[TOP], self.scope = top, top
  self:sweep(TOP)
  local given = {}
  for i, o in ipairs(outputs) do
    local v = self:value(o.node, o.index)
    given[i] = v
    if type(v) == 'table' then errors.bad('export_onnx: %s is a TensorArray; export its ta:stack()', o.name) end
  end
  self:raise_refusals()
  local taken = {}
  for i, v in ipairs(given) do
    if not main.made[v] or taken[v] then v = self:op('Identity', { v }) end
    taken[v] = true
    self.renamed[v] = output_names[i]
    main.outputs[i] = { v, d = graph.dtype(outputs[i]), shape = model_shape(outputs[i], 'output') }
  end
  self:drop_unused()
  local bytes = proto.model(main, self.opset, function(name) return self.renamed[name] or name end)
  if #bytes >= 2 ^ 31 then
    errors.raise('resource_exhausted', 'export_onnx: the model has %d bytes, a protobuf ends at 2 GiB', #bytes)
  end
  files.write(path, bytes)
end

return M
