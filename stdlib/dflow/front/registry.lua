--- The op registry, taken apart when an op is first used, and the function that builds a node from Lua arguments.
--
-- Every entry with a Lua name becomes a function `f(inputs..., {attributes})`. Bare numbers take the dtype that the
-- entry gives the input, or that of another operand with the same type variable, or their own.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local listing = require 'dflow.front.listing'
local convert = require 'dflow.front.convert'
local intern = require 'dflow.front.intern'
local windows = require 'dflow.front.windows'

local M = {}
local Output = graph.Output
local typed, to_output = convert.typed, convert.to_output
local unpack = graph.unpack
local getmetatable, type, rawget = getmetatable, type, rawget

local RESOURCE = dtypes.RESOURCE

--- Where an op takes values and handles alike, a TensorArray is its handle, and a Variable the value that it has.
local function is_handle(x)
  local mt = getmetatable(x)
  return mt and rawget(mt, 'handle_of') and not rawget(mt, 'is_value')
end

--- '1,3' as a set of dtype numbers, and the one that it has if that is all; nil for '.'.
local function dtype_set(text)
  if text == '.' then return nil end
  local set, n, only = {}, 0, nil
  for word in text:gmatch('%d+') do
    n, only = n + 1, tonumber(word)
    set[only] = true
  end
  return set, n == 1 and only or nil
end

--- An entry as the library has taken it apart (runtime/op/parts.c): inputs, outputs, type variables and attributes as
-- lists.
local function parse(info)
  local e = { id = info.id, type = info.type, lua = info.lua, doc = info.doc, example = info.example,
              stateful = info.stateful, gradient = info.gradient, info = info, types = {}, type_words = {}, attrs = {},
              attr = {}, inputs = {}, outputs = {} }
  local read = {}
  read['attr'] = function(rest)
    local name, kind, required, default = rest:match('^(%S+) (%S+) (%d) (.*)$')
    local a = { name = name, kind = kind, required = required == '1', default = default }
    e.attrs[#e.attrs + 1] = a
    e.attr[name] = a
  end
  read['type'] = function(rest)
    local name, set, words = rest:match('^(%S+) (%S+) (%S+)$')
    e.types[name] = dtype_set(set)
    if words ~= '.' then e.type_words[#e.type_words + 1] = { name, words } end
  end
  local function argument(into)
    return function(rest)
      local name, form, var, set, count, words = rest:match('^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
      local a = { name = name, list = form == 'list', optional = form == 'maybe', words = words }
      if count ~= '.' then a.count = count end
      if var ~= '.' then a.var = var else a.set, a.dtype = dtype_set(set) end
      into[#into + 1] = a
    end
  end
  read['in'], read['out'] = argument(e.inputs), argument(e.outputs)
  for what, rest in (core.op_about(info.id, 'parts') or ''):gmatch('(%l+) ([^\n]*)\n') do read[what](rest) end
  e.has_list_output = false
  for _, a in ipairs(e.outputs) do e.has_list_output = e.has_list_output or a.list end
  e.ninputs, e.noutputs = #e.inputs, #e.outputs
  local handle = e.inputs[1]
  e.takes_handle = handle and handle.dtype == RESOURCE
  return e
end

-- ---- finding entries -----------------------------------------------------------------------------------------
local by_lua, by_type, parsed = {}, {}, {}
for id = 0, core.op_count() - 1 do
  local info = core.op_info(id)
  if info.lua then by_lua[info.lua] = info end
  by_type[info.type] = info
end

local function entry(info)
  local e = parsed[info.type]
  if not e then
    e = parse(info)
    parsed[info.type] = e
  end
  return e
end

--- The entry of a type ('MatMul') or of a Lua name ('matmul'); nil when there is none.
function M.entry(name)
  local info = by_type[name] or by_lua[name]
  return info and entry(info)
end

--- By TensorFlow's type; the entry must exist.
function M.need(name)
  local info = by_type[name]
  if not info then errors.raise('unimplemented', "this libdflow has no op '%s'", name) end
  return entry(info)
end

--- Which primitive ops of a type are: 'Switch', 'Merge', 'Enter', 'Exit', 'NextIteration', 'LoopCond', 'Const',
-- 'Placeholder', 'NoOp' or 'ControlTrigger'; so a RefSwitch is a 'Switch'. Nil for all that have a kernel.
function M.primitive(name) return M.about(name, 'primitive') end

local about = {}

--- What the entry of a type says when it is asked for one thing (df_op_about in dflow.h): a text; nil where it says
-- nothing of it, or there is no such op. A name of nil is none.
function M.about(name, what)
  local known = about[what]
  if not known then
    known = setmetatable({}, { __index = function(t, type)
      local info = by_type[type]
      t[type] = info and core.op_about(info.id, what) or false
      return t[type]
    end })
    about[what] = known
  end
  return name and known[name] or nil
end

function M.has(name) return by_type[name] ~= nil end

--- {Lua name = type} of the ops that reduce the axes that their second input names.
function M.reductions()
  local list = {}
  for name, info in pairs(by_lua) do
    if M.about(info.type, 'reduces') then list[name] = info.type end
  end
  return list
end

--- Lua names of all ops, sorted.
function M.names()
  local list = {}
  for name in pairs(by_lua) do list[#list + 1] = name end
  table.sort(list)
  return list
end

--- Types of all ops, sorted.
function M.types()
  local list = {}
  for name in pairs(by_type) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- ---- dtypes of bare values -----------------------------------------------------------------------------------
local function name_of(set)
  local names = {}
  for _, name in ipairs(dtypes.list) do
    if set[dtypes.number[name]] then names[#names + 1] = name end
  end
  return table.concat(names, ', ')
end

--- Are all numbers of a bare value whole?
local function all_whole(v)
  if type(v) == 'table' then
    for i = 1, #v do
      if not all_whole(v[i]) then return false end
    end
    return true
  end
  return dtypes.is_whole(v)
end

--- The dtype of a bare value that may only have dtypes of `set`.
local function bare_dtype(v, set, what)
  local d
  if type(v) == 'table' then
    d = tensor.dtype_of_list((tensor.flatten(v)))
  else
    d = dtypes.of_bare(v)
  end
  if not d or not set or set[d] then return d end
  if d == 10 or d == 7 then
    errors.bad('%s: %s given, expected one of: %s', what, dtypes.name[d], name_of(set))
  end
  if all_whole(v) and (set[3] or set[9]) then return set[3] and 3 or 9 end
  if set[1] then return 1 end
  if set[2] then return 2 end
  return d
end

local function mismatch(e, a, first, da, db)
  local to, from = dtypes.wider(da, db)
  errors.bad('%s: the operands have different dtypes, %s (%s) and %s (%s): cast one of them, as in %s',
             e.lua or e.type, dtypes.name[da], first, dtypes.name[db], a.name, dtypes.conversion(from, to))
end

-- ---- attributes ------------------------------------------------------------------------------------------------
--- Ops whose lists hold numbers of 64 bits; those of others are places and sizes.
local wide = { StringToHashBucketStrong = true }

local setters = {
  int = function(g, name, v, e)
    if type(v) ~= 'number' or not dtypes.is_whole(v) or math.abs(v) >= 2^63 then
      errors.bad('%s: the option %s is an integer, not %s', e.lua or e.type, name, errors.describe(v))
    end
    core.node_int(g, name, v)
  end,
  float = function(g, name, v, e)
    if type(v) ~= 'number' then
      errors.bad('%s: the option %s is a number, not %s', e.lua or e.type, name, errors.describe(v))
    end
    core.node_float(g, name, v)
  end,
  bool = function(g, name, v, e)
    if type(v) ~= 'boolean' then
      errors.bad('%s: the option %s is true or false, not %s', e.lua or e.type, name, errors.describe(v))
    end
    core.node_bool(g, name, v)
  end,
  string = function(g, name, v, e)
    if type(v) ~= 'string' then
      errors.bad('%s: the option %s is a string, not %s', e.lua or e.type, name, errors.describe(v))
    end
    core.node_string(g, name, v)
  end,
  dtype = function(g, name, v) core.node_dtype(g, name, v == RESOURCE and v or dtypes.of(v)) end,
  shape = function(g, name, v, e)
    if v == false then v = nil end
    if type(v) == 'number' then v = { v } end
    if v ~= nil and type(v) ~= 'table' then
      errors.bad('%s: the option %s is a list of dimensions, not %s', e.lua or e.type, name, errors.describe(v))
    end
    core.node_shape(g, name, v)
  end,
  tensor = function(g, name, v) core.node_tensor(g, name, tensor.from(v)) end,
  ints = function(g, name, v, e)
    if type(v) == 'number' then v = { v } end
    if type(v) ~= 'table' then
      errors.bad('%s: the option %s is a list of integers, not %s', e.lua or e.type, name, errors.describe(v))
    end
    local most = wide[e.type] and 2^63 or 2^31
    for _, x in ipairs(v) do
      if type(x) ~= 'number' or not dtypes.is_whole(x) or math.abs(x) >= most then
        errors.bad('%s: the option %s holds %s, an integer is expected', e.lua or e.type, name, errors.describe(x))
      end
    end
    core.node_ints(g, name, v)
  end,
  types = function(g, name, v, e)
    if type(v) ~= 'table' then
      errors.bad('%s: the option %s is a list of dtypes, not %s', e.lua or e.type, name, errors.describe(v))
    end
    local list = {}
    for i, d in ipairs(v) do list[i] = d == RESOURCE and d or dtypes.of(d) end
    core.node_ints(g, name, list)
  end,
  shapes = function(g, name, v, e)
    if not errors.is_data(v) then
      errors.bad('%s: the option %s is a list of shapes, not %s', e.lua or e.type, name, errors.describe(v))
    end
    local list = {}
    for i, shape in ipairs(v) do
      if shape and not errors.is_data(shape) then
        errors.bad('%s: %s[%d] is %s, a list of dimensions or false is expected', e.lua or e.type, name, i,
                   errors.describe(shape))
      end
      list[#list + 1] = shape and #shape or -1
      for _, dim in ipairs(shape or {}) do list[#list + 1] = dim end
    end
    core.node_ints(g, name, list)
  end,
}

local function option_names(e)
  if not e.option_names then
    local names = {}
    for _, a in ipairs(e.attrs) do names[#names + 1] = a.name end
    names[#names + 1] = 'name'
    e.option_names = names
  end
  return e.option_names
end

local function unknown_option(e, key)
  local names = option_names(e)
  errors.bad("%s has no option '%s'%s (it knows: %s)", e.lua or e.type, tostring(key),
             errors.hint_of_option(key, names), table.concat(names, ', '))
end

-- ---- building ------------------------------------------------------------------------------------------------------
--- What is known before anything is built: the graph, the type variables and which argument bound each; and whether
-- some argument is no Output yet.
local function bind(e, args, attrs)
  local what = e.lua or e.type
  local inputs, n = e.inputs, e.ninputs
  local g, bound, first, bare
  -- What the type variables are, as far as arguments say.
  for i = 1, n do
    local a, v = inputs[i], args[i]
    if type(v) == 'table' then g = g or convert.graph_of(v) end
    if getmetatable(v) ~= Output then bare = true end
    -- T is what the variable holds
    if a.dtype == RESOURCE and e.types.T and type(v) == 'table' and getmetatable(v) ~= Output then
      local d = rawget(v, 'd')
      if d then
        bound, first = bound or {}, first or {}
        bound.T, first.T = bound.T or d, first.T or a.name
      end
    end
    if a.var then
      local list = a.list and v or { v }
      if type(list) ~= 'table' or (a.list and not errors.is_data(list)) then
        errors.bad('%s: %s is a list of values, not %s', what, a.name, errors.describe(list))
      end
      for j = 1, #list do
        local d = typed(list[j])
        -- says what to write instead
        if d == RESOURCE and not e.types[a.var][RESOURCE] then to_output(list[j], nil, nil, what) end
        if d then
          bound, first = bound or {}, first or {}
          local known = bound[a.var]
          if not known then
            bound[a.var], first[a.var] = d, a.name
          elseif known ~= d then
            mismatch(e, a, first[a.var], known, d)
          end
        end
      end
    end
  end
  g = g or graph.current()
  if attrs then
    for key, v in pairs(attrs) do
      if e.types[key] and (type(v) == 'string' or not e.attr[key]) then
        local d = dtypes.of(v)
        if bound and bound[key] and bound[key] ~= d then
          errors.bad("%s: the option %s is %s, but %s is %s: cast it, as in df.cast(x, '%s')", what, key,
                     dtypes.name[d], first and first[key] or 'an input',
                     dtypes.name[bound[key]], dtypes.name[d])
        end
        bound = bound or {}
        bound[key] = d
      end
    end
  end
  -- What the others are: of the widest bare value.
  for i = 1, n do
    local a, v = inputs[i], args[i]
    if a.var and not (bound and bound[a.var]) then
      bound = bound or {}
      local d
      for j = i, n do
        if inputs[j].var == a.var then
          local list = inputs[j].list and args[j] or { args[j] }
          for k = 1, #list do
            local own = list[k] ~= nil and bare_dtype(list[k], e.types[a.var], what)
            if own and (not d or (d == 3 and (own == 9 or own == 1)) or (d == 9 and own == 1)) then d = own end
          end
        end
      end
      bound[a.var] = d
    end
    if v == nil and not a.optional then
      errors.bad('%s: the input %s (number %d) is missing', what, a.name, i)
    end
  end
  return g, bound, first, bare
end

--- Attributes and the name of the node that is being built, in the entry's order: of several wrong ones the first is
-- told, in every process.
local function set_attributes(e, handle, attrs, what)
  local unknown
  for key in pairs(attrs) do
    if key ~= 'name' and not e.attr[key] and not e.types[key]
      and (not unknown or tostring(key) < tostring(unknown)) then
      unknown = key
    end
  end
  if unknown ~= nil then unknown_option(e, unknown) end
  local name = attrs.name
  if name ~= nil then
    if type(name) ~= 'string' then
      errors.bad('%s: the option name is a string, not %s', what, errors.describe(name))
    end
    core.node_name(handle, name)
  end
  for i = 1, #e.attrs do
    local a = e.attrs[i]
    local v = attrs[a.name]
    if v ~= nil and a.name ~= 'name' then setters[a.kind](handle, a.name, v, e) end
  end
end

--- The node, of ids of nodes and indices of their outputs.
local function add(e, g, where, callers, nodes, indices, attrs, bound)
  local what, handle = e.lua or e.type, g.handle
  core.node_begin(handle, e.id, where)
  for i = 1, #nodes do core.node_input(handle, nodes[i], indices[i]) end
  if attrs then set_attributes(e, handle, attrs, what) end
  for name, d in pairs(bound or {}) do       -- a type variable that is an attribute, too
    if e.attr[name] and not (attrs and attrs[name] ~= nil) then core.node_dtype(handle, name, d) end
  end
  local node = core.node_end(handle)
  if callers then core.set_callers(handle, node, callers) end
  return node
end

--- The node, once the type variables are known.
local function finish(e, args, attrs, g, bound, first)
  local what = e.lua or e.type
  local inputs, n = e.inputs, e.ninputs
  -- Outputs of all inputs, before the node is begun: they may be nodes themselves.
  local again = g.period and intern.open(g)
  local nodes, indices, count = {}, {}, 0
  for i = 1, n do
    local a, v = inputs[i], args[i]
    local d = a.dtype or (a.var and bound[a.var]) or nil
    local list = a.list and v or { v }
    if not errors.is_data(list) then
      errors.bad('%s: %s is a list of values, not %s', what, a.name, errors.describe(list))
    end
    for j = 1, #list do
      local x = list[j]
      local o
      if d == RESOURCE or (a.set and a.set[RESOURCE] and is_handle(x)) then
        local mt = getmetatable(x)
        local of = mt and rawget(mt, 'handle_of')
        o = of and of(x) or x
        if getmetatable(o) ~= Output then
          errors.bad('%s: %s was given for %s, a Variable or TensorArray is expected', what, errors.describe(x), a.name)
        end
      else
        local want = d
        if not want and a.set and not typed(x) then want = bare_dtype(x, a.set, what) end
        if not want and a.list and not a.var then want = nil end
        o = to_output(x, want, g, what)
        local own = graph.dtype(o)
        if d and own ~= d then
          if a.dtype then
            errors.bad("%s: %s is %s, %s is expected: write %s", what, a.name, dtypes.name[own],
                       dtypes.name[d], dtypes.conversion(own, d))
          end
          mismatch(e, a, first and first[a.var] or 'the others', d, own)
        end
      end
      if o.graph ~= g then errors.bad('%s: %s belongs to another graph', what, o.name) end
      count = count + 1
      nodes[count], indices[count] = again and o or o.node, o.index
    end
  end
  local where, callers = core.where()
  if not again then return g, add(e, g, where, callers, nodes, indices, attrs, bound) end
  local function build_own()
    local ids = {}
    for i = 1, count do ids[i] = nodes[i].node end
    return add(e, g, where, callers, ids, indices, attrs, bound)
  end
  local stands, key = intern.find(g, e, where, nodes, attrs, bound, build_own)
  if stands then return g, nil, stands end
  local own = build_own()
  if key then intern.keep(g, key, own) end
  return g, own
end

--- Builds a node of entry e. What arguments became goes again when that fails.
-- @param args   values, one per input; a Lua list for a list input
-- @param attrs  attributes by name, and `name`; nil for none
-- @return       graph, node id
local function build(e, args, attrs)
  if args[e.ninputs + 1] ~= nil then errors.bad('%s: an argument behind its %d inputs', e.type, e.ninputs) end
  local g, bound, first, bare = bind(e, args, attrs)
  if bare then return graph.attempt(g, finish, e, args, attrs, g, bound, first) end
  return finish(e, args, attrs, g, bound, first)
end
M.build = build

--- What a node gives to Lua: its output, its outputs, a list of them, or the operation when it has none.
local function results(e, g, node)
  if e.noutputs == 1 and not e.has_list_output then return graph.fresh(g, node) end
  if e.noutputs == 0 then return graph.operation(g, node) end
  local n, list = core.node_outputs(g.handle, node), {}
  for i = 1, n do list[i] = graph.output(g, node, i - 1) end
  if e.has_list_output and e.noutputs == 1 then return listing.of(list) end
  return unpack(list, 1, n)
end

--- Builds by type, from a list of inputs and a table of attributes: what adapters are made of.
function M.op(type_name, args, attrs)
  local e = M.need(type_name)
  local g, node, stands = build(e, args, attrs)
  if stands then return stands end
  return results(e, g, node)
end

--- The same for the common case of inputs in place and no attributes.
function M.op1(type_name, ...)
  local e = M.need(type_name)
  local g, node, stands = build(e, { ... }, nil)
  if stands then return stands end
  return results(e, g, node)
end

-- ---- functions for Lua ----------------------------------------------------------------------------------------------
--- Is the last argument the options table? It is one when it has names, or stands behind the inputs.
local function is_options(v, behind)
  if not errors.is_data(v) then return false end
  local k = next(v)
  if type(k) == 'string' then return not dtypes.is_complex_value(v) end
  return behind and k == nil
end

--- The generic function of an entry: inputs in place, options by name or (after the inputs) by place.
local function general(e)
  local nin, over_axes = e.ninputs, e.attr.strides and e.attr.padding and e.attr.data_format
  over_axes = over_axes and #over_axes.default:match '%u+' - 2           -- those of 'NHWC' between batch and channels
  return function(...)
    local n, args = select('#', ...), { ... }
    while n > nin and args[n] == nil do n = n - 1 end
    local attrs
    if n > 0 and is_options(args[n], n > nin) then
      attrs = {}
      for k, v in pairs(args[n]) do attrs[k] = v end
      args[n] = nil
      n = n - 1
      for i = 1, nin do                      -- inputs given by name
        local name = e.inputs[i].name
        if attrs[name] ~= nil and not e.attr[name] then
          if args[i] ~= nil then errors.bad('%s: %s is given twice, by its place and by its name', e.lua, name) end
          args[i], attrs[name] = attrs[name], nil
        end
      end
    end
    if n > nin then
      local at = 0
      for i = nin + 1, n do
        at = at + 1
        local a = e.attrs[at]
        if not a then
          errors.bad('%s takes %d input%s and %d option%s; %d values were given', e.lua, nin, nin == 1 and '' or 's',
                     #e.attrs, #e.attrs == 1 and '' or 's', n)
        end
        attrs = attrs or {}
        if args[i] ~= nil then
          if attrs[a.name] ~= nil then
            errors.bad('%s: %s is given twice, by its place and by its name', e.lua, a.name)
          end
          attrs[a.name] = args[i]
        end
        args[i] = nil
      end
    end
    if over_axes and attrs then windows.widen(attrs, over_axes) end
    local g, node, stands = build(e, args, attrs)
    if stands then return stands end
    return results(e, g, node)
  end
end

local add_node, where, set_callers, fresh = core.add_node, core.where, core.set_callers, graph.fresh

--- The Output of a node that has just been added; `callers` is the number of the frames that called the line that did.
local function made(g, node, callers)
  if callers then set_callers(g.handle, node, callers) end
  return fresh(g, node)
end

--- Two operands of one type variable, no attributes: the way most nodes are made, without the general function's
-- tables.
local function binary(e)
  local slow, id, constant = general(e), e.id, convert.constant
  local name, dtype_of = e.lua, graph.dtype
  return function(a, b, opts)
    if opts == nil then
      if getmetatable(a) == Output and not a.graph.period then
        local g = a.graph
        if getmetatable(b) == Output then
          if b.graph == g and dtype_of(a) == dtype_of(b) then
            local line, callers = where()
            return made(g, add_node(g.handle, id, line, a.node, a.index, b.node, b.index), callers)
          end
        elseif type(b) == 'number' then
          local line, callers = where()
          b = constant(g, b, dtype_of(a), nil, nil, name, line)
          return made(g, add_node(g.handle, id, line, a.node, a.index, b.node, b.index), callers)
        end
      elseif type(a) == 'number' and getmetatable(b) == Output and not b.graph.period then
        local g, line, callers = b.graph, where()
        a = constant(g, a, dtype_of(b), nil, nil, name, line)
        return made(g, add_node(g.handle, id, line, a.node, a.index, b.node, b.index), callers)
      end
    end
    return slow(a, b, opts)
  end
end

local function unary(e)
  local slow, id = general(e), e.id
  return function(a, opts)
    if opts == nil and getmetatable(a) == Output and not a.graph.period then
      local g = a.graph
      local line, callers = where()
      return made(g, add_node(g.handle, id, line, a.node, a.index), callers)
    end
    return slow(a, opts)
  end
end

--- The Lua function of an entry.
function M.make(e)
  local a, b = e.inputs[1], e.inputs[2]
  if e.noutputs == 1 and not e.has_list_output and #e.attrs == 0 then
    if e.ninputs == 2 and a.var and a.var == b.var and not (a.list or b.list or a.optional or b.optional) then
      return binary(e)
    end
    if e.ninputs == 1 and a.var and not a.list then return unary(e) end
  end
  return general(e)
end

return M
