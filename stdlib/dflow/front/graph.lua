--- Graph, Operation and Output: the symbolic side. An Output is one output of one node of a graph.
--
-- Two mentions of the same output are the same Lua object: each graph keeps its Outputs in weak tables by node and
-- index.
-- The raw fields of an Output are `graph`, `node` (an id) and `index`; everything else is looked up when asked for.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local shapes = require 'dflow.front.shape'
local dtypes = require 'dflow.front.dtypes'
local protect = require 'dflow.front.protect'
local shape_text = require('dflow.front.tensor').shape_text

local M = {}
local Graph, Output, Operation = { __name = 'dflow.Graph' }, { __name = 'dflow.Output' }, { __name = 'dflow.Operation' }
M.Graph, M.Output, M.Operation = Graph, Output, Operation

local setmetatable, rawget, rawset, type = setmetatable, rawget, rawset, type
local weak_values = { __mode = 'v' }
local unpack = table.unpack or unpack

-- ---- graphs --------------------------------------------------------------------------------------------------
local stack = {}     -- what as_default has put in front
local all = setmetatable({}, { __mode = 'k' })      -- every graph there is
local sessions = {}  -- by as_default: {graph, the session that was its default before}
local base           -- the default graph below them

--- The frames that called the line which built the op `name (Type)`, one below the other; nil where none did, or it is
-- not known.
function errors.callers_of(op, source)
  local name = op:match '^(.-) %(' or op
  for g in pairs(all) do
    local node = core.node_by_name(g.handle, name)
    local id = node >= 0 and core.node_where(g.handle, node) == source and core.node_callers(g.handle, node)
    if id and id > 0 then return core.callers(id) end
  end
end

--- A new, empty graph.
function M.new_graph()
  local g = setmetatable({ handle = core.graph_new(), first = setmetatable({}, weak_values), more = {},
                           operation_of = setmetatable({}, weak_values), variables = {} }, Graph)
  all[g] = true
  return g
end

--- The graph that ops without Output arguments are built in.
function M.current()
  local g = stack[#stack]
  if g then return g end
  if not base then base = M.new_graph() end
  return base
end

--- A new default graph; the old one's default session is closed.
function M.reset()
  if #stack > 0 then errors.raise('failed_precondition', 'df.reset inside as_default, cond or while_loop') end
  if base and base.session then base.session:close() end
  base = nil
  return M.current()
end

--- Calls fn(...) with g as the default graph, also when it fails; returns what fn returns.
function M.with(g, fn, ...)
  local depth = #stack
  stack[depth + 1] = g
  local function finish(ok, ...)
    for i = #stack, depth + 1, -1 do stack[i] = nil end
    if not ok then error((...), 0) end
    return ...
  end
  return finish(protect(fn, ...))
end

--- For cond and while_loop, which undo it themselves.
function M.push(g) stack[#stack + 1] = g end
function M.depth() return #stack end
function M.restore(depth) for i = #stack, depth + 1, -1 do stack[i] = nil end end

--- Makes s the default session of its graph, until leave_session.
function M.enter_session(s)
  sessions[#sessions + 1] = { s.graph, s.graph.session }
  s.graph.session = s
end
function M.leave_session()
  local last = table.remove(sessions)
  last[1].session = last[2]
end

--- All that stands while one builds, in every graph; for M.unwind.
function M.standing()
  local list = { depth = #stack, sessions = #sessions }
  for g in pairs(all) do list[g] = { g.controls or false, core.graph_build_state(g.handle) } end
  return list
end

--- Gives up what was begun and not ended since M.standing gave `before`: for code that may be thrown out of the middle
-- of anything, as by Ctrl-C.
function M.unwind(before)
  M.restore(before.depth)
  while #sessions > before.sessions do M.leave_session() end
  for g in pairs(all) do
    local at = before[g] or { false, 0, 1, 1, 0 }
    g.controls = at[1] or nil
    core.graph_unwind(g.handle, at[2], at[3], at[4], at[5])
  end
end

-- What an Output or Operation becomes when its node goes.
local Lost = { __name = 'dflow.Output of something that failed while it was built' }
local function lost()
  errors.bad('this Output is of a cond, a loop or a call that failed while it was built: its node went with it')
end
Lost.__index, Lost.as_output, Lost.dtype_of = lost, lost, lost
for _, event in ipairs{ 'add', 'sub', 'mul', 'div', 'mod', 'pow', 'unm', 'idiv', 'band', 'bor', 'bxor', 'bnot', 'lt',
                        'le', 'len', 'concat', 'call' } do
  Lost['__' .. event] = lost
end

--- Gives up what was built since core.graph_mark gave `mark`. Outputs of nodes that go can be used for nothing any
-- more.
function M.undo(g, mark)
  local before = core.graph_nodes(g.handle)
  local left = core.graph_undo(g.handle, mark)
  if left < before then g.interned, g.literals, g.needs, g.derived = nil, nil, nil, nil end
  for i = #(g.groups or {}), 1, -1 do
    local group = g.groups[i]
    if group.first >= left and group.path then table.remove(g.groups, i) end
    if group.path then group.last = math.min(group.last, left - 1) end
  end
  for node = left, before - 1 do
    if g.parameters then g.parameters[node] = nil end
    local function forget(list)
      local o = list[node]
      if o then
        rawset(o, 'node', nil)
        setmetatable(o, Lost)
        list[node] = nil
      end
    end
    forget(g.first)
    forget(g.operation_of)
    for _, list in pairs(g.more) do forget(list) end
  end
end

--- fn(...), whose nodes are drawn together: path() says under which name, when they are built, as a name scope's
-- `encoder/attention`; its second result is true where that is the name in what they are built in.
function M.grouped(g, path, fn, ...)
  local first = core.graph_nodes(g.handle)
  local group = { first = first }
  local groups = g.groups or {}
  g.groups = groups
  local at = #groups + 1
  groups[at] = group
  local function finish(ok, ...)
    group.last, group.path = core.graph_nodes(g.handle) - 1, ''
    if ok then group.path, group.unnamed = path() end
    if not ok or group.last < first then table.remove(groups, at) end
    if not ok then error((...), 0) end
    return ...
  end
  return finish(protect(fn, ...))
end

--- Did the node of this Output go?
function M.is_lost(o) return getmetatable(o) == Lost end

--- fn(...); when it fails, what it built in g goes before the error goes on.
function M.attempt(g, fn, ...)
  local mark = core.graph_mark(g.handle)
  local function finish(ok, ...)
    if not ok then
      M.undo(g, mark)
      error((...), 0)
    end
    core.graph_keep(g.handle, mark)
    return ...
  end
  return finish(protect(fn, ...))
end

--- The Output (node, index) of g: always the same object.
function M.output(g, node, index)
  local list = g.first
  if index ~= 0 then
    list = g.more[index]
    if not list then
      list = setmetatable({}, weak_values)
      g.more[index] = list
    end
  end
  local o = list[node]
  if o == nil then
    o = setmetatable({ graph = g, node = node, index = index }, Output)
    list[node] = o
  end
  return o
end

--- Output 0 of a node that was just made.
function M.fresh(g, node)
  local o = setmetatable({ graph = g, node = node, index = 0 }, Output)
  g.first[node] = o
  return o
end

function M.operation(g, node)
  local o = g.operation_of[node]
  if not o then
    o = setmetatable({ graph = g, node = node }, Operation)
    g.operation_of[node] = o
  end
  return o
end

local graph_methods = {}
Graph.__index = graph_methods

function graph_methods.as_default(g, fn, ...)
  if type(fn) ~= 'function' then
    errors.bad('as_default takes a function to call, not %s', errors.describe(fn))
  end
  return M.with(g, fn, ...)
end

--- The names that `name` may have meant: alike, or with more in front. Of a huge graph not all are compared.
local function hint(g, name)
  local alike, wanted, within = {}, name:lower(), nil
  for node = 0, core.graph_nodes(g.handle) - 1 do
    local other = core.node_name_of(g.handle, node)
    if other:lower() == wanted then return ("; did you mean '%s'?"):format(other) end
    within = within or other:lower():match('[^/]+$') == wanted and other
    if #alike < 4000 and math.abs(#other - #name) <= #name / 3 then alike[#alike + 1] = other end
  end
  return within and ("; did you mean '%s'?"):format(within) or errors.hint(name, alike)
end

local function missing(g, name) errors.raise('not_found', "the graph has no operation '%s'%s", name, hint(g, name)) end

--- g:op('name'): the operation of that name.
function graph_methods.op(g, name)
  if type(name) ~= 'string' then errors.bad('g:op takes a name, not %s', errors.describe(name)) end
  local node = core.node_by_name(g.handle, name)
  if node < 0 then missing(g, name) end
  return M.operation(g, node)
end

--- g:output('name:0'): that output; ':0' may be left out.
function graph_methods.output(g, name)
  if type(name) ~= 'string' then errors.bad('g:output takes a name, not %s', errors.describe(name)) end
  local alias = rawget(g, 'aliases') and (g.aliases[name] or g.aliases[name:match('^(.*):0$') or ''])
  if alias then return alias end
  local op, index = name:match('^(.*):(%d+)$')
  op, index = op or name, tonumber(index or 0)
  local node = core.node_by_name(g.handle, op)
  if node < 0 then missing(g, op) end
  if index >= core.node_outputs(g.handle, node) then
    local n = core.node_outputs(g.handle, node)
    errors.raise('not_found', "the operation '%s' has %d output%s, there is none with index %d", op, n, n == 1 and ''
                 or 's', index)
  end
  return M.output(g, node, index)
end

--- All operations, in the order they were built.
function graph_methods.ops(g)
  local list = {}
  for node = 0, core.graph_nodes(g.handle) - 1 do list[node + 1] = M.operation(g, node) end
  return list
end

--- g:finalize(): what is there is all: to build more is an error from now on. Running it is not.
function graph_methods.finalize(g)
  -- a variable that is fetched is read by a node
  for _, v in ipairs(g.variables) do getmetatable(v).as_output(v) end
  core.graph_finalize(g.handle)
  return g
end

function graph_methods.size(g)
  return core.graph_nodes(g.handle)
end

Graph.__tostring = function(g)
  return ('Graph of %d operations'):format(core.graph_nodes(g.handle))
end

-- ---- operations ------------------------------------------------------------------------------------------------
--- The device that was asked for; nil for none.
local function device_of(o)
  local spec = core.node_device(o.graph.handle, o.node)
  if spec == '' or spec:sub(1, 1) == '@' then return nil end
  return require('dflow.front.devices').canonical(spec)
end

local operation_fields = {
  device = device_of,
  name = function(o) return core.node_name_of(o.graph.handle, o.node) end,
  type = function(o) return core.node_type(o.graph.handle, o.node) end,
  source = function(o)
    local where = core.node_where(o.graph.handle, o.node)
    return where ~= '' and where or nil
  end,
  inputs = function(o)
    local list = {}
    for i = 0, core.node_inputs(o.graph.handle, o.node) - 1 do
      list[i + 1] = M.output(o.graph, core.node_input_of(o.graph.handle, o.node, i))
    end
    return list
  end,
  control_inputs = function(o)             -- the operations that it waits for without taking a value of theirs
    local list = {}
    for i, node in ipairs(core.node_controls(o.graph.handle, o.node)) do list[i] = M.operation(o.graph, node) end
    return list
  end,
  outputs = function(o)
    local list = {}
    for i = 0, core.node_outputs(o.graph.handle, o.node) - 1 do list[i + 1] = M.output(o.graph, o.node, i) end
    return list
  end,
}
errors.with_colons(graph_methods, Graph, 'a graph', 'g')

local operation_methods = {}
M.operation_methods = operation_methods

Operation.__index = function(o, key)
  if key == 'node' then return M.hooks.materialise(o) end
  local method = operation_methods[key]
  if method then return method end
  local field = operation_fields[key]
  return field and field(o)
end

Operation.__call = function(o)
  errors.bad('an operation cannot be called: df.run(o) and o:run() run %s', o.name)
end
Operation.__tostring = function(o)
  local names = {}
  for i, input in ipairs(o.inputs) do names[i] = input.name end
  return ('%s = %s(%s)%s'):format(o.name, o.type, table.concat(names, ', '), o.source and '  -- ' .. o.source or '')
end

-- ---- outputs -----------------------------------------------------------------------------------------------------
--- Filled by the other modules: methods of every Output, and the function that finds an op by its name.
M.methods = {}
local methods = M.methods

--- The node that says what is known of o: its own, or the one that it stands for (front/intern.lua).
local function known_by(o) return rawget(o, 'node') or rawget(o, 'same') or o.node end

--- The dtype's number; kept in the raw field `d`.
function M.dtype(o)
  local d = rawget(o, 'd')
  if not d then
    d = core.output_dtype(o.graph.handle, o.node, o.index)
    rawset(o, 'd', d)
  end
  return d
end
local dtype_of = M.dtype

local fields = {
  dtype = function(o) return dtypes.name[dtype_of(o)] end,
  shape = function(o) return shapes.of(core.output_shape(o.graph.handle, known_by(o), o.index)) end,
  name = function(o) return core.node_name_of(o.graph.handle, o.node) .. ':' .. o.index end,
  op = function(o) return M.operation(o.graph, o.node) end,
  device = device_of,
  source = function(o)
    local where = core.node_where(o.graph.handle, o.node)
    return where ~= '' and where or nil
  end,
}

--- The value as a Tensor, nil when it is not known while building.
function M.constant(o) return core.output_constant(o.graph.handle, o.node, o.index) end

--- The static rank, nil when it is not known.
function M.rank(o)
  local rank = core.output_rank(o.graph.handle, known_by(o), o.index)
  return rank >= 0 and rank or nil
end

--- Set by the ops module.
M.hooks = { materialise = function() end, find_method = function() end, element = nil,
            names = function() return {} end }
local hooks = M.hooks

local function no_field(key, what)
  if key == 'rank' or key == 'size' then
    errors.bad("an %s has no field '%s': write df.%s(x) for the op, or #x.shape for what is known while building", what,
               key, key)
  end
  local names = hooks.names()
  for _, name in ipairs(names) do
    if name == key then errors.bad("an %s has no field or method '%s': it is a function, df.%s(…)", what, key, key) end
  end
  local all = {}
  for i, name in ipairs(names) do all[i] = name end
  for name in pairs(M.methods) do all[#all + 1] = name end
  table.sort(all)
  errors.bad("an %s has no field or method '%s'%s", what, tostring(key), errors.hint_of_others(key, all))
end

Output.__index = function(o, key)
  local method = methods[key]
  if method then return method end
  local field = fields[key]
  if field then return field(o) end
  if type(key) == 'string' then
    if key == 'node' then return hooks.materialise(o) end
    if key == 'd' or key == 'read' then return nil end
    method = hooks.find_method(key)
    if method then return method end
    return no_field(key, 'Output')
  end
  return hooks.element(o, key)
end

Output.__newindex = function(_, key)
  errors.bad("an Output cannot be changed (the field '%s' was to be set)", tostring(key))
end

--- `MatMul:0: float32[2,?] = MatMul(x:0, w:0)  -- file:line`
Output.__tostring = function(o)
  local op = o.op
  local inputs = {}
  for i, input in ipairs(op.inputs) do inputs[i] = input.name end
  return ('%s: %s = %s(%s)%s'):format(o.name, shape_text(o.dtype, o.shape), op.type, table.concat(inputs, ', '),
                                      op.source and '  -- ' .. op.source or '')
end

local function no_order()
  errors.bad('Lua turns the result of < into a boolean, so it cannot build a node: write a:lt(b), a:le(b), a:gt(b) or '
             .. 'a:ge(b), '
    .. 'or have statements build graphs: df.autograph(fn), dflow --autograph script.lua, :autograph on at the prompt')
end
Output.__lt, Output.__le = no_order, no_order
Output.__len = function()
  errors.bad('# of an Output is not known while building: write df.dim(x, 0) for its first dimension, #x.shape for '
             .. 'its rank')
end
Output.__pairs = function()                    -- LuaJIT does not ask for it
  errors.bad('pairs of an Output has nothing to go over while building: its rows are ipairs(df.unstack(x))')
end
Output.__concat = function(a, b)
  local text = getmetatable(a) == Output and a or getmetatable(b) == Output and b
  if text and text.dtype == 'string' then
    errors.bad('.. joins strings of Lua; those of a graph are joined by +: x + y')
  elseif text then
    errors.bad('an Output has no value while building, so .. cannot join it: run it first, or use df.concat({a, b}, '
               .. 'axis)')
  end
end
-- `==` on two Outputs asks whether they are the same one, which is seldom what was meant; of others (`i == 3`) Lua
-- reports nothing.
-- Equal ones never come here, and two tables of our own compare in peace.
local ours = debug.getinfo(1, 'S').source:match('^(.*)front[/\\]graph%.lua$') or '@'
function Output.__eq(a, b)
  local info = debug.getinfo(2, 'Sl')
  if info and info.what ~= 'C' and info.source:sub(1, #ours) ~= ours then
    errors.warn('== on an Output asks whether both are the same output, which is known while the graph is built: '
                .. 'false; '
      .. 'to compare values write x:eq(y), to compare outputs rawequal(x, y)', ('%s:%d'):format(
          require('dflow.front.quote').file_of(info), info.currentline))
  end
  return rawequal(a, b)
end
Output.__call = function(o)
  errors.bad('an Output cannot be called: %s', o.name)
end

-- LuaJIT's ipairs looks at raw fields only: a stray ipairs(x) would be a loop of no rounds, without an error. There,
-- and for what stands for an Output only, it goes by x[i] as Lua 5.4's does, and ends with the message of x[i]. It goes
-- by names, so that a dflow that is loaded anew needs no other.
local function by_index(t, i)
  i = i + 1
  local v = t[i]
  if v ~= nil then return i, v end
end

local function asks_index()
  local step, t, i = ipairs(setmetatable({}, { __name = Output.__name, __index = function() return true end }))
  return step(t, i) ~= nil
end

if not asks_index() then
  local plain = ipairs
  function _G.ipairs(t)
    local mt = type(t) == 'table' and getmetatable(t)
    if type(mt) == 'table' and (rawget(mt, '__name') == 'dflow.Output' or rawget(mt, 'as_output')) then
      return by_index, t, 0
    end
    return plain(t)
  end
end

-- ---- what stands while nodes are built ------------------------------------------------------------------------------
--- Calls push(g, ...) before and pop(g) after fn, also when fn fails; returns what fn returns.
local function under(g, pop, fn)
  local function finish(ok, ...)
    pop(g.handle)
    if not ok then error((...), 0) end
    return ...
  end
  return finish(protect(fn))
end

local function check_function(fn, what)
  if type(fn) ~= 'function' then
    errors.bad('%s takes a function as its last argument, not %s', what, errors.describe(fn))
  end
end

--- df.name_scope(name, fn): the names of what fn builds begin with name.
function M.name_scope(name, fn)
  check_function(fn, 'name_scope')
  if not errors.is_name(name) then
    errors.bad('name_scope takes a name without spaces and colons, not %s', errors.describe(name))
  end
  local g = M.current()
  core.push_scope(g.handle, name)
  return under(g, core.pop_scope, fn)
end

--- What asks for a device now; '' for none.
local function asked_now(g) return g.asked and g.asked[#g.asked] or '' end

local function under_device(g, spec, fn)
  g.asked = g.asked or {}
  g.asked[#g.asked + 1] = spec
  core.push_device(g.handle, spec)
  return under(g, function(handle)
    g.asked[#g.asked] = nil
    core.pop_device(handle)
  end, fn)
end

--- The nodes from `first` on that ask for nothing ask for what choose(type) says, else for `outer`.
local function choose_devices(g, first, choose, outer)
  for node = first, core.graph_nodes(g.handle) - 1 do
    if core.node_device(g.handle, node) == '' then
      local spec = choose(core.node_type(g.handle, node))
      if spec ~= nil and type(spec) ~= 'string' then
        errors.bad('device: the function returned %s for %s; a device such as \'sim:0\', or nil, is expected',
                   errors.describe(spec),
          core.node_type(g.handle, node))
      end
      core.set_node_device(g.handle, node, spec or outer)
    end
  end
end

--- df.device(spec, fn): what fn builds is to be placed there: 'sim:1', TensorFlow's '/device:SIM:1', or a function of a
-- node's op type that returns one. '' or nil: what stands around it asks for nothing.
function M.device(spec, fn)
  check_function(fn, 'device')
  local g = M.current()
  if type(spec) == 'function' then
    local first, outer = core.graph_nodes(g.handle), asked_now(g)
    local function finish(...)
      choose_devices(g, first, spec, outer)
      return ...
    end
    return finish(under_device(g, '', fn))
  end
  if spec ~= nil and type(spec) ~= 'string' then
    errors.bad("device: a device is a name such as 'sim:0' or a function of an op's type, not %s",
               errors.describe(spec))
  end
  return under_device(g, spec or '', fn)
end

--- df.control_dependencies(list, fn): what fn builds runs after the operations (or Outputs) of the list; nil instead of
-- one: after none of those that stand around.
function M.control_dependencies(list, fn)
  check_function(fn, 'control_dependencies')
  if list == nil then
    local g = M.current()
    core.push_control(g.handle, nil)
    return under(g, core.pop_control, fn)
  end
  if type(list) ~= 'table' then
    errors.bad('control_dependencies takes a list of operations, not %s', errors.describe(list))
  end
  local mt = getmetatable(list)
  if mt == Output or mt == Operation or (mt and rawget(mt, 'as_output')) then list = { list } end
  local nodes, g = {}, nil
  for i = 1, #list do
    local x = list[i]
    mt = getmetatable(x)
    if mt and rawget(mt, 'as_output') then x = mt.as_output(x) end
    mt = getmetatable(x)
    if mt ~= Output and mt ~= Operation then
      errors.bad('control_dependencies: element %d is %s, an operation or Output is expected', i, errors.describe(x))
    end
    g = g or x.graph
    nodes[i] = x.node
  end
  g = g or M.current()
  core.push_control(g.handle, nodes)
  g.controls = (g.controls or 0) + 1
  return under(g, function(handle)
    g.controls = g.controls > 1 and g.controls - 1 or nil
    core.pop_control(handle)
  end, fn)
end

--- df.colocate_with(x, fn): what fn builds is placed where x is.
function M.colocate_with(x, fn)
  check_function(fn, 'colocate_with')
  if type(x) ~= 'table' or errors.is_data(x) then
    errors.bad('colocate_with takes an Output, an operation or a Variable, not %s', errors.describe(x))
  end
  local mt = getmetatable(x)
  -- a variable is where it lies
  if rawget(mt, 'handle_of') then x = mt.handle_of(x) elseif rawget(mt, 'as_output') then x = mt.as_output(x) end
  if x.node == nil or x.graph == nil then
    errors.bad('colocate_with takes an Output, an operation or a Variable, not %s', errors.describe(x))
  end
  return under_device(x.graph, '@' .. core.node_name_of(x.graph.handle, x.node), fn)
end

local function is_place(n) return n == nil or (type(n) == 'number' and n % 1 == 0 and n >= -2 ^ 31 and n <= 2 ^ 31) end

--- table.unpack, in both Luas: the values of a list, from the i-th to the j-th.
function M.unpack(t, i, j)
  if not errors.is_data(t) then
    errors.bad('df.unpack takes a list, not %s%s', t == nil and 'nothing (nil)' or errors.describe(t),
               getmetatable(t) == M.Output and ': df.unstack(x) gives its parts along axis 0' or '')
  end
  if not is_place(i) or not is_place(j) then
    errors.bad('df.unpack takes a list, and from where to where: whole numbers, not %s',
               errors.describe(is_place(i) and j or i))
  end
  i, j = i or 1, j or #t
  if not (j - i < 1e6) then errors.bad('df.unpack: %s values are too many', tostring(j - i + 1)) end
  return unpack(t, i, j)
end
return M
