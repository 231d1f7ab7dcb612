--- df.vmap: a function of one lane becomes a function of many.
--
-- The function is called once, with placeholders of one lane's shapes; lanes/batch.lua reads what it built and builds
-- what all lanes compute.
-- What the call itself built is not run. A gradient that goes through conds or loops is asked for again where all lanes
-- are known, so that each lane's loop runs backwards for its own length; one of straight code is rewritten node by
-- node, as everything else.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local gradients = require 'dflow.front.gradients'
local registry = require 'dflow.front.registry'
local tensor_array = require 'dflow.front.tensor_array'
local protect = require 'dflow.front.protect'
local call_user = require 'dflow.front.call'
local ops = require 'dflow.front.ops'
local control = require 'dflow.front.control'
local batch = require 'dflow.lanes.batch'
local arrays = require 'dflow.lanes.arrays'
require 'dflow.lanes.flow'
require 'dflow.lanes.rules'

local M = {}
local f, key, ints, lift = ops.functions, batch.key, batch.ints, batch.lift
local unpack = graph.unpack
local tracing = {}                -- functions of one lane that are being called, the innermost last

-- ---- axes -----------------------------------------------------------------------------------------------------------
--- x with dimension `from` at `to`, both counted from 0.
local function moved(x, from, to)
  if from == to then return x end
  local perm, rank = {}, #x.shape
  for k = 0, rank - 1 do if k ~= from then perm[#perm + 1] = k end end
  table.insert(perm, to + 1, from)
  return f.transpose(x, ints(perm))
end

--- The axis, from 0, of the lanes in x.
local function axis_of(x, axis, what)
  if type(axis) ~= 'number' or not dtypes.is_whole(axis) then
    errors.bad('vmap: the axis of %s is %s; a whole number%s is expected', what, errors.describe(axis),
               what:find '^argument' and ', or false for what all lanes share,' or '')
  end
  local shape = x.shape
  if not shape then errors.bad('vmap: the rank of %s is not known, so its axis %d cannot be found', x.name, axis) end
  if #shape == 0 then
    errors.bad('vmap: %s has no axis %d for lanes: %s is a scalar; {in_axes = false} says that all lanes share it',
               what, axis, x.name)
  end
  local a = axis < 0 and axis + #shape or axis
  if a < 0 or a >= #shape then
    errors.bad('vmap: the axis of %s is %d, but %s has the shape [%s]', what, axis, x.name, table.concat(shape, ', '))
  end
  return a
end

--- What in_axes or out_axes says of each leaf: a number or false for all, or a structure like the value's.
local function axes_like(v, axes, what, leaf)
  if nest.is_structure(v) then
    local out = {}
    for _, k in ipairs(nest.keys(v)) do
      local own = axes
      if errors.is_data(axes) then
        own = axes[k]
        if own == nil then errors.bad('vmap: %s says nothing of %s', what, tostring(k)) end
      end
      out[k] = axes_like(v[k], own, what .. '.' .. tostring(k), leaf)
    end
    return out
  end
  return leaf(v, axes, what)
end

-- ---- one call -------------------------------------------------------------------------------------------------------
--- Calls fn with the arguments while what it asks of gradients and other vmaps is noted in t.
local function traced(t, fn, arguments)
  local depth = #tracing
  tracing[depth + 1] = t
  local line, callers = core.at()
  local results = { protect(call_user, fn, unpack(arguments, 1, arguments.n)) }
  core.at(line, callers)
  for k = #tracing, depth + 1, -1 do tracing[k] = nil end
  if not results[1] then error(results[2], 0) end
  return results[2]
end

--- The function of one lane that is being called and to which belongs what is built now; nil where there is none, or a
-- df.func is built in it.
function M.traced_in(g)
  local t, around = tracing[#tracing], {}
  if not t or t.g ~= g then return nil end
  for _, about in ipairs(core.flows(g.handle)) do
    around[about.inside_0], around[about.inside_1] = about.parent, about.parent
  end
  local context = core.current_context(g.handle)
  while context ~= t.base and around[context] do context = around[context] end
  return context == t.base and t or nil
end

--- An argument's leaf: what the function gets, and what is noted for the lanes.
local function enter(t, x, axis, what)
  if axis == false then return x end
  if getmetatable(x) == tensor_array.TensorArray then          -- the axis is that of its elements
    local whole = type(axis) == 'number' and axis >= 0 and axis + 1 or axis
    return enter(t, x:stack(), whole, what .. ', stacked')
  end
  local o = convert.to_output(x, nil, t.g, what)
  if o.graph ~= t.g then errors.bad('vmap: %s belongs to another graph', what) end
  local a = axis_of(o, axis, what)
  local n = o.shape[a + 1]
  if n >= 0 then
    if t.n and t.n ~= n then
      errors.bad('vmap: %s has %d lanes along axis %d, but %s has %d', what, n, a, t.told, t.n)
    end
    t.n, t.told = n, t.told and t.n and t.told or what
  end
  t.size = t.size or (n < 0 and f.gather(f.shape(o), a))
  local shape = {}
  for k, d in ipairs(o.shape) do if k ~= a + 1 then shape[#shape + 1] = d end end
  t.values[#t.values + 1] = moved(o, a, 0)
  t.shapes[#t.shapes + 1] = { o.dtype, shape }
  return #t.values
end

--- Effects of the function's own are the same for all lanes, or an error.
local function check_effects(b)
  for node = b.first, b.last - 1 do
    local type_name = core.node_type(b.handle, node)
    if b.differs[node] and core.node_context(b.handle, node) == b.base and batch.is_effect(type_name)
      and type_name ~= 'Assert' and type_name ~= 'Print'
       and type_name ~= 'PrintV2' then
      errors.bad('vmap: %s (%s) would have an effect for each lane; what it takes has to be the same in all lanes',
                 core.node_name_of(b.handle, node), type_name)
    end
  end
end

--- A result with its lanes, which are at axis 0, at this one.
local function leave(o, axis, what)
  local shape = o.shape
  if axis == 0 or axis == nil then return o end
  if not shape then
    errors.bad('vmap: the rank of %s is not known, so lanes cannot be put at axis %s', what, tostring(axis))
  end
  return moved(o, 0, axis_of(o, axis, what))
end

--- build(), after which, also when it fails, nodes are of the line that builds them (core.at).
local function with_own_lines(build, ...)
  local function done(ok, ...)
    core.at()
    if not ok then error((...), 0) end
    return ...
  end
  return done(pcall(build, ...))
end

local function call(fn, opts, one_shape, ...)
  local n, given, g = select('#', ...), { ... }, nil
  for k = 1, n do g = g or convert.graph_of(given[k]) end
  local t = { g = g or graph.current(), values = {}, shapes = {}, special = {}, placeholders = {}, n = opts.size,
              compact = opts.compact, one_shape = one_shape }
  if opts.size then t.told = 'size' end
  local axes, leaves = opts.in_axes, {}
  if axes == nil then axes = 0 end
  if errors.is_data(axes) and #axes ~= n then
    errors.bad('vmap: in_axes has %d entries, the function is called with %d arguments', #axes, n)
  end
  return graph.with(t.g, with_own_lines, function()
    for k = 1, n do
      local own = axes
      if errors.is_data(axes) then own = axes[k] end
      leaves[k] = axes_like(given[k], own, 'argument ' .. k,
                            function(x, axis, what) return { at = enter(t, x, axis, what), shared = axis == false,
                                x = x } end)
    end
    if not t.n and not t.size then
      errors.bad('vmap: no argument has lanes: give in_axes an axis, or vmap the option size')
    end
    local function is_leaf(v) return type(v) == 'table' and rawget(v, 'shared') ~= nil end
    local function arrange(v)
      if is_leaf(v) then
        if v.shared then return v.x end
        local p = t.placeholders[v.at]
        if getmetatable(v.x) ~= tensor_array.TensorArray then return p end
        return tensor_array.new(p.dtype, f.dim(p, 0), { clear_after_read = false }):unstack(p)
      end
      local out = {}
      for k, part in pairs(v) do out[k] = arrange(part) end
      return out
    end
    local results, outputs, outer = nil, {}, M.traced_in(t.g)
    local function one_lane()
      t.base, t.first = core.current_context(t.g.handle), core.graph_nodes(t.g.handle)
      for k, s in ipairs(t.shapes) do t.placeholders[k] = f.placeholder(s[1], s[2]) end
      t.own = #t.placeholders
      local arguments = { n = n }
      for k = 1, n do arguments[k] = arrange(leaves[k]) end
      results = traced(t, fn, arguments)
      if results.n == 0 then errors.bad('vmap: the function returns nothing: is `return` missing?') end
      for k = 1, results.n do
        if results[k] == nil then errors.bad('vmap: the function returns nil as result %d', k) end
        results[k] = nest.map(results[k], nest.is_structure, function(v, what)
          if getmetatable(v) == tensor_array.TensorArray then
            if outer then errors.bad('vmap: result %s of a vmap in another is a TensorArray: stack it first', what) end
            outputs[#outputs + 1] = v.handle
            return v
          end
          local o = convert.to_output(v, nil, t.g, 'vmap: result ' .. what)
          outputs[#outputs + 1] = o
          return o
        end, tostring(k))
      end
    end
    -- In a branch or body all effects run: what is built of one lane stands in a branch that is not taken.
    t.apart = core.flow_depth(t.g.handle) > 0
    t.nested = outer and outer.nested
    if t.apart then
      control.cond(f.constant(false), function() one_lane() end, function() end)
    else
      one_lane()
    end
    local one = outer and M.within(outer, t) or M.alone(t, outputs)
    local out = {}
    for k = 1, results.n do
      local own = opts.out_axes
      if own == nil then own = 0 end
      if results.n > 1 and errors.is_data(own) then own = own[k] end
      out[k] = axes_like(results[k], own, 'result ' .. k, function(v, axis, what)
        local function put(o) return leave(o, axis, what) end
        if getmetatable(v) == tensor_array.TensorArray then
          return one(v.handle, axis ~= 0 and axis ~= nil and put or false)
        end
        return put(one(v))
      end)
    end
    return unpack(out, 1, results.n)
  end)
end

--- Lanes by themselves: a function from a result of one lane to that of all; with `put`, from an array's handle to the
-- array of all (arrays.of_lanes).
function M.alone(t, outputs)
  local last = core.graph_nodes(t.g.handle)
  local b = batch.new(t.g, t.first, last, t.base, t.placeholders, t.special, outputs)
  b.compact, b.apart, b.trace = t.compact, t.apart, t
  check_effects(b)
  local set = batch.new_set(t.g, t.n or t.size)
  local scope = b:scope(nil, nil, set)
  for k = 1, t.own do scope.env[key(t.placeholders[k].node, 0)] = { o = t.values[k], set = set } end
  if t.apart then b:run_effects(scope, t.base) end
  return function(x, put)
    local v = b:value(scope, x.node, x.index)
    if put ~= nil then return arrays.of_lanes(v, scope, put) end
    return lift(v, set)
  end
end

--- The values with derivatives that a function of one lane takes from outside: its arguments, what it captured,
-- variables that it reads.
function M.taken(t)
  local h, list, seen = t.g.handle, {}, {}
  local function take(o)
    if seen[key(o.node, o.index)] then return end
    seen[key(o.node, o.index)] = true
    local number = graph.dtype(o)
    if number == dtypes.RESOURCE and core.node_type(h, o.node) == 'VarHandleOp' then
      list[#list + 1] = registry.op('ReadVariableOp', { o }, { dtype = core.node_attr(h, o.node, 'dtype') })
    elseif dtypes.is_float(number) or dtypes.is_complex(number) then
      list[#list + 1] = o
    end
  end
  for _, v in ipairs(t.values) do take(v) end
  for node = t.first, core.graph_nodes(h) - 1 do
    for i = 0, core.node_inputs(h, node) - 1 do
      local from, index = core.node_input_of(h, node, i)
      while from and core.node_capture(h, from) do from, index = core.node_capture(h, from) end
      if from and from >= 0 and from < t.first then take(graph.output(t.g, from, index)) end
    end
  end
  return list
end

-- ---- vmap in vmap ---------------------------------------------------------------------------------------------------
--- Inside of another function that is being called for one lane: what this one gives is noted there, and all lanes of
-- both are computed at once, as one set of lanes.
function M.within(outer, t)
  local record = { kind = 'vmap', needs = {}, results = {} }
  for k, v in ipairs(t.values) do record.needs[k] = v end
  for k, s in pairs(t.special) do outer.special[k] = s end
  for _, p in ipairs(t.placeholders) do outer.placeholders[#outer.placeholders + 1] = p end
  local function evaluate(b, scope)
    local set = scope.set
    local inner_n = t.n or -1
    local inner_size = t.n and f.constant(t.n, 'int32') or b:value(scope, t.size.node, t.size.index).o
    local total = set.n >= 0 and inner_n >= 0 and set.n * inner_n or f.multiply(set.size, inner_size)
    local product = batch.new_set(t.g, total, set)
    local numbers = batch.numbers(product)
    product.index = f.floordiv(numbers, inner_size)
    local inside = b:scope(scope, scope.flow, product, { first = t.first, parted = scope.parted })
    local function split(o, front)
      local rest = f.strided_slice(f.shape(o), ints{ front }, ints{ 0 }, ints{ 1 }, { end_mask = 1 })
      return rest
    end
    for k, v in ipairs(t.values) do
      local x = b:value(scope, v.node, v.index)
      local o
      if x.set then
        o = lift(x, set)
        o = f.reshape(o, f.concat({ ints{ -1 }, split(o, 2) }, 0))
      else
        o = f.gather(x.o, f.floormod(numbers, inner_size))
      end
      local shape = t.placeholders[k].shape
      if shape then core.output_set_shape(t.g.handle, o.node, o.index, { product.n, unpack(shape) }) end
      inside.env[key(t.placeholders[k].node, 0)] = { o = o, set = product }
    end
    for _, r in ipairs(record.results) do
      local o = lift(b:value(inside, r.of.node, r.of.index), product)
      o = f.reshape(o, f.concat({ f.reshape(set.size, ints{ 1 }), f.reshape(inner_size, ints{ 1 }), split(o, 1) }, 0))
      local shape = r.of.shape
      if shape then core.output_set_shape(t.g.handle, o.node, o.index, { set.n, inner_n, unpack(shape) }) end
      scope.env[key(r.placeholder.node, 0)] = { o = o, set = set }
    end
    return scope.env
  end
  record.evaluate = function(b, scope, special)
    evaluate(b, scope)
    return scope.env[key(special.placeholder.node, 0)]
  end
  outer.nested = true
  local taken = M.taken(t)
  return function(x)
    local shape = x.shape
    -- A gradient asked for in the outer function, of any order, finds its way through it; what it is, evaluate_gradient
    -- builds.
    local p = gradients.custom_gradient(function(...)
      local n, given = select('#', ...), { ... }
      return f.placeholder(x.dtype, shape and { t.n or -1, unpack(shape) } or nil), function(dy)
        local sum, through = f.reduce_sum(dy), {}
        for k = 1, n do through[k] = f.sin(given[k]) * f.cast(sum, given[k].dtype) end
        return unpack(through, 1, n)
      end
    end)(unpack(taken))
    record.results[#record.results + 1] = { of = x, placeholder = p }
    record.needs[#record.needs + 1] = x
    outer.special[key(p.node, 0)] = setmetatable({ placeholder = p }, { __index = record })
    return p
  end
end

-- ---- gradients of one lane ------------------------------------------------------------------------------------------
--- Does anything of these nodes belong to control flow, a function or an array?
local function has_flow(g, first)
  for node = first, core.graph_nodes(g.handle) - 1 do
    local type_name = core.node_type(g.handle, node)
    local primitive = registry.primitive(type_name)
    if primitive == 'Merge' or primitive == 'Exit' or type_name == 'FunctionCall' or type_name:find '^TensorArray' then
      return true
    end
  end
  return false
end

--- The gradient where all lanes are known: of the ys anew, with a copy of each x for each lane, so that each lane has
-- its own.
local function evaluate_gradient(b, scope, record)
  local set, h = scope.set, b.handle
  local is_x = {}
  for k, x in ipairs(record.xs) do is_x[key(x.node, x.index)] = k end
  local known = {}
  local function depends(node, index)
    local from, from_index = core.node_capture(h, node)
    if from then return depends(from, from_index) end
    if is_x[key(node, index)] then return true end
    if known[node] ~= nil then return known[node] end
    -- what writes to it does so anew
    if node >= b.first and core.node_type(h, node) == 'TensorArray' then return true end
    known[node] = false                      -- around a loop
    local function any(pair) return pair and pair[1] >= 0 and depends(pair[1], pair[2]) end
    local special, flow, result = b.special[key(node, 0)], b:flow_of(node), false
    if special then
      for _, o in ipairs(special.needs) do result = result or depends(o.node, o.index) end
    elseif flow then
      result = any(flow.pred)
      for _, r in ipairs(flow.results) do result = result or any(r.yes) or any(r.no) or any(r.init) or any(r.next) end
    elseif node >= b.first or core.node_type(h, node) == 'ReadVariableOp' then
      for i = 0, core.node_inputs(h, node) - 1 do result = result or any{ core.node_input_of(h, node, i) } end
    end
    known[node] = result
    return result
  end
  local inner, xs, ys, dys = b:scope(scope, scope.flow, set,
                                     { renewed = depends, parted = scope.parted, first = scope.first }), {}, {}, {}
  for k, x in ipairs(record.xs) do
    if record.variables[k] then
      xs[k] = f.identity(lift({ o = record.variables[k]:value() }, set))
      inner.env[key(x.node, x.index)] = { o = x, renewed = { o = xs[k], set = set } }
    else
      xs[k] = f.identity(lift(b:value(scope, x.node, x.index), set))
      local node, index = x.node, x.index
      while true do
        local from, from_index = core.node_capture(h, node)
        if not from then break end
        node, index = from, from_index
      end
      inner.env[key(node, index)] = { o = xs[k], set = set }
    end
  end
  local stops = {}
  for k, y in ipairs(record.ys) do
    ys[k] = lift(b:value(inner, y.node, y.index), set)
    local dy = record.dys and record.dys[k]
    dys[k] = dy and lift(b:value(scope, dy.node, dy.index), set) or false
  end
  for k, x in ipairs(record.stops) do stops[k] = b:value(inner, x.node, x.index).o end
  local list = gradients.gradients(ys, xs, { grad_ys = record.dys and dys or nil, unconnected = 'zero',
      stop_gradients = #stops > 0 and stops or nil })
  for k, o in ipairs(record.results) do
    if o then scope.env[key(o.node, o.index)] = { o = convert.to_output(list[k]), set = set } end
  end
end

--- Each lane has a copy of its x, and of what the function built of it. What was built of x before the function was
-- called has none: where that counts is an error.
local function check_within(t, record)
  local h, is_x, seen = t.g.handle, {}, { [true] = {}, [false] = {} }
  for _, x in ipairs(record.xs) do is_x[key(x.node, x.index)] = true end
  local function look(node, index, before)
    local at = key(node, index)
    if is_x[at] then
      if not before then return end
      errors.raise('unimplemented',
                   'vmap: the gradient by %s goes through control flow, and %s was built of that outside of the '
                   .. 'function: build it inside',
                   graph.output(t.g, node, index).name, before)
    end
    local number = core.output_dtype(h, node, index)
    if seen[before and true or false][at]
      or not (dtypes.is_float(number) or dtypes.is_complex(number) or number == dtypes.RESOURCE) then
      return
    end
    seen[before and true or false][at] = true
    local from, from_index = core.node_capture(h, node)
    if from then return look(from, from_index, before) end
    if node < t.first and core.node_type(h, node) ~= 'ReadVariableOp' then
      before = before or graph.output(t.g, node, index).name
    end
    for i = 0, core.node_inputs(h, node) - 1 do
      local input, input_index = core.node_input_of(h, node, i)
      if input and input >= 0 then look(input, input_index, before) end
    end
  end
  for _, y in ipairs(record.ys) do look(y.node, y.index) end
end

--- Told of each gradient: while a function is called for one lane, one that goes through control flow is noted.
function gradients.noticed(g, first, xs, x_outputs, y_outputs, given_outputs, stop_outputs, results)
  local t = M.traced_in(g)
  if not t or not (t.nested or has_flow(g, first)) then return results end
  local Variable = require('dflow.front.variable').Variable
  local record = { kind = 'gradient', needs = {}, xs = x_outputs, ys = y_outputs, dys = given_outputs,
                   stops = stop_outputs, results = {}, variables = {} }
  for k, x in ipairs(xs) do record.variables[k] = getmetatable(x) == Variable and x or false end
  check_within(t, record)
  for _, list in ipairs{ y_outputs, given_outputs or {} } do
    for _, o in ipairs(list) do if o then record.needs[#record.needs + 1] = o end end
  end
  for k, x in ipairs(x_outputs) do if not record.variables[k] then record.needs[#record.needs + 1] = x end end
  local out = {}
  for k, r in ipairs(results) do
    out[k] = r
    record.results[k] = false
    if r then
      if getmetatable(r) == tensor_array.TensorArray then
        errors.raise('unimplemented', 'vmap: the gradient of a TensorArray by a lane')
      end
      local o = registry.op('Identity', { convert.to_output(r) })
      record.results[k], out[k] = o, o
      t.special[key(o.node, 0)] = { needs = record.needs, kind = 'gradient', evaluate = function(b, scope)
        evaluate_gradient(b, scope, record)
        return scope.env[key(o.node, o.index)]
      end }
    end
  end
  return out
end

-- ---- custom gradients -----------------------------------------------------------------------------------------------
--- What the function of a custom gradient, which names values of one lane, makes of dys of one lane: it is called in
-- the node's own context.
local function one_lane_derivatives(self, node, dys)
  local h, id = self.handle, core.node_attr(self.handle, node, 'id')
  core.push_context(h, core.node_context(h, node))
  local ok, result = pcall(traced, self.trace, gradients.custom_derivatives, { self.g, id, dys, n = 3 })
  core.pop_context(h)
  if not ok then error(result, 0) end
  return result[1]
end

--- The gradient of lanes is the gradient of one lane, computed for all of them.
batch.rules.CustomGradient = function(self, node, values, _, scope)
  local h, set, nx, xs, ys = self.handle, batch.differ(values) and scope.set, core.node_attr(self.handle, node, 'nx'),
    {}, {}
  for k, v in ipairs(values) do
    if k <= nx then xs[k] = v.set and lift(v, set) or v.o else ys[k - nx] = set and lift(v, set) or v.o end
  end
  local function derivatives(...)
    local placeholders, dys, one = {}, { ... }, {}
    core.push_context(h, self.base)
    for k in ipairs(ys) do one[k] = f.placeholder(ys[k].dtype, graph.output(self.g, node, k - 1).shape) end
    core.pop_context(h)
    local dxs = one_lane_derivatives(self, node, one)
    for _, list in ipairs{ self.placeholders, one } do
      for _, p in ipairs(list) do placeholders[#placeholders + 1] = p end
    end
    local wanted = {}
    for k = 1, nx do if dxs[k] then wanted[#wanted + 1] = dxs[k] end end
    local b = batch.new(self.g, self.first, core.graph_nodes(h), self.base, placeholders, self.special, wanted)
    b.compact, b.apart, b.trace = self.compact, self.apart, self.trace
    local inner = b:scope(scope, scope.flow, scope.set, { parted = scope.parted, first = scope.first })
    for k, p in ipairs(one) do inner.env[key(p.node, 0)] = { o = dys[k], set = set or nil } end
    for k = 1, nx do
      local v = dxs[k] and b:value(inner, dxs[k].node, dxs[k].index)
      if v and set then v = { o = lift(v, set) } end
      -- what lanes share gets of all
      if v and set and not values[k].set then v = { o = f.reduce_sum(v.o, { axis = 0 }) } end
      dxs[k] = v and v.o
    end
    return unpack(dxs, 1, nx)
  end
  local out = gradients.with_custom_gradient(self.g, xs, ys, function(...) return with_own_lines(derivatives, ...) end)
  for k, o in ipairs(out) do out[k] = { o = o, set = set or nil } end
  return out
end

-- ---- functions of a graph -------------------------------------------------------------------------------------------
batch.rules.FunctionCall = function(self, node, values, set)
  local number, count = self.g.function_calls and self.g.function_calls[node], core.node_outputs(self.handle, node) - 1
  if not number then
    errors.raise('unimplemented', 'vmap: a call of a function of an imported graph (%s)',
                 core.node_name_of(self.handle, node))
  end
  local vars, lifted = { f.constant(0, 'int32') }, {}
  for k = 1, count do
    local o = graph.output(self.g, node, k - 1)
    vars[k + 1] = tensor_array.new(o.dtype, set.size, { element_shape = o.shape })
  end
  for k, v in ipairs(values) do lifted[k] = v.set and lift(v, set) or nil end
  local last = { control.while_loop(function(i) return f.less(i, set.size) end, function(i, ...)
    local arrays, flat = { ... }, {}
    for k, v in ipairs(values) do
      local o = lifted[k] and f.gather(lifted[k], i) or v.o
      flat[2 * k - 1], flat[2 * k] = o.node, o.index
    end
    local made = core.function_call(self.handle, number, flat, nil, core.where())
    for k = 1, count do arrays[k] = arrays[k]:write(i, graph.output(self.g, made, k - 1)) end
    return f.add(i, 1), unpack(arrays, 1, count)
  end, vars) }
  local out = {}
  for k = 1, count do out[k] = { o = last[k + 1]:stack(), set = set } end
  return out
end

-- ---- df.vmap --------------------------------------------------------------------------------------------------------
local known = { 'in_axes', 'out_axes', 'size', 'compact' }

--- df.vmap(fn, {in_axes = 0, out_axes = 0, size = nil, compact = 'auto'}): fn for each lane of its arguments, computed
-- together.
-- @param fn        sees values without the lane axis; structures as arguments and results; called once for each call of
--                  the result
-- @param in_axes   the axis of the lanes in each argument: one for all, or a list with one each; false for what all
--                  lanes share
-- @param out_axes  where they are in the results
-- @param size      how many lanes, where no argument says
-- @param compact   when lanes of a while_loop that are done leave the others. true: each at once. false: none does,
--                  where no op draws or has an effect. 'auto': as the body's work and what it may do make it cheapest.
-- @return          a function of arguments with lanes
function M.vmap(fn, opts)
  opts = errors.options(opts, 'vmap', known)
  if not convert.is_callable(fn) then
    errors.bad('vmap takes a function, not %s', errors.describe(fn))
  end
  if opts.size ~= nil and (type(opts.size) ~= 'number' or not dtypes.is_whole(opts.size) or opts.size < 0) then
    errors.bad('vmap: size is a whole number of lanes, not %s', errors.describe(opts.size))
  end
  if opts.compact ~= nil and opts.compact ~= 'auto' and type(opts.compact) ~= 'boolean' then
    errors.bad("vmap: compact is true, false or 'auto', not %s", errors.describe(opts.compact))
  end
  return function(...) return call(fn, opts, false, ...) end
end

--- df.vmap(fn)(…) for map_fn: `unimplemented` where an op has no rule and only the run knows whether what it gives has
-- one shape in all lanes.
function M.of_one_shape(fn, ...) return call(fn, {}, true, ...) end

return M
