--- map_fn, foldl, foldr, scan, case, switch_case: made of cond, while_loop and TensorArray only, so their gradients
-- need no words of their own.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local tensor = require 'dflow.front.tensor'
local tensor_array = require 'dflow.front.tensor_array'
local control = require 'dflow.front.control'
local ops = require 'dflow.front.ops'
local gradients = require 'dflow.front.gradients'

local M = {}
local call_user = require 'dflow.front.call'
local unpack = graph.unpack
local f = ops.functions

local CALLS = 256              -- rows whose calls wait for each other, unless parallel_iterations says otherwise
local loop_options = { 'parallel_iterations', 'back_prop', 'save', 'swap_memory', 'name' }

local function loop_opts(opts, what, more)
  local known = {}
  for i = 1, #loop_options do known[i] = loop_options[i] end
  for _, name in ipairs(more or {}) do known[#known + 1] = name end
  opts = errors.options(opts, what, known)
  local out = {}
  for _, name in ipairs(loop_options) do out[name] = opts[name] end
  out.name = out.name or what
  -- of { i, accumulator, … }
  if opts.shape_invariants ~= nil then out.shape_invariants = { [2] = opts.shape_invariants } end
  return out, opts
end

--- The elems as a list of Outputs; whether fn gets one value for a row (a list gives as many as it has elements); and a
-- function from the list's rows to what fn gets.
local function take_elems(elems, what)
  if elems == nil then errors.bad('%s: elems is missing', what) end
  local one = not nest.is_structure(elems)
  local single = one or nest.has_names(elems)
  if one then return { convert.to_output(elems, nil, nil, what) }, single, function(rows) return rows end end
  local like, list = single and { elems } or elems, {}
  nest.each(like, nest.is_structure, function(v) list[#list + 1] = convert.to_output(v, nil, nil, what) end)
  return list, single, function(rows) return nest.pack(like, rows) end
end

--- fn is called with `before` values and then with one for each of several elems. One that takes some of these and not
-- all was written for a table of them, as TensorFlow's are; in its place it would get the first.
local function check_elements(fn, elems, before, what)
  if not nest.is_structure(elems) or nest.has_names(elems) then return end
  if type(fn) ~= 'function' then return end
  local about = debug.getinfo(fn, 'Su')
  local takes = about.what ~= 'C' and not about.isvararg and about.nparams
  if not takes or takes <= before or takes >= before + #elems then return end
  errors.bad('%s: there are %d elems, so the function is called with %s%d values, one of each, and it takes %d: write '
             .. 'function(%sx, y%s)',
             what, #elems, before > 0 and 'the accumulator and ' or '', #elems, takes - before, before > 0 and 'acc, '
             or '',
             #elems > 2 and ', …' or '')
end

--- One array per tensor, each with the rows of its tensor; and how many rows there are.
local function unstacked(list, what)
  local rows = list[1].shape and list[1].shape[1]
  for _, x in ipairs(list) do
    if graph.rank(x) == 0 then errors.bad('%s: elems %s is a scalar; it goes over axis 0', what, x.name) end
  end
  local n, arrays = f.dim(list[1], 0), {}
  for i, x in ipairs(list) do
    local shape = x.shape
    if shape and rows and rows >= 0 and shape[1] >= 0 and shape[1] ~= rows then
      errors.bad('%s: elems have different numbers of rows, %d and %d', what, rows, shape[1])
    end
    arrays[i] = tensor_array.new(x.dtype, n):unstack(x)
  end
  return arrays, n
end

local function read_all(arrays, i)
  local values = {}
  for k, ta in ipairs(arrays) do values[k] = ta:read(i) end
  return values
end

local function check_function(fn, what)
  if not convert.is_callable(fn) then errors.bad('%s takes a function first, not %s', what, errors.describe(fn)) end
end

--- The whole array, which has as many rows as x: known while building where x's are.
local function stacked(ta, x)
  local out = ta:stack()
  local shape, from = out.shape, x.shape
  if shape and from and from[1] >= 0 then
    shape[1] = from[1]
    out:set_shape(shape)
  end
  return out
end

--- The dtypes that `dtype` says of what map_fn's function returns, in order; nil where it says nothing. One dtype is
-- that of everything.
local function dtypes_of(dtype, like)
  if dtype == nil then return nil end
  local list, n = {}, 0
  local function add(d, v, path)
    if nest.is_structure(v) and nest.is_plain(v) then
      if errors.is_data(d) then
        for key in pairs(d) do
          if v[key] == nil then
            errors.bad('map_fn: dtype has an entry %s, which the function does not return', tostring(key))
          end
        end
      end
      for _, key in ipairs(nest.keys(v)) do
        if errors.is_data(d) and d[key] == nil then
          errors.bad('map_fn: dtype has no entry %s, which the function returns', tostring(key))
        end
        add(errors.is_data(d) and d[key] or d, v[key], key)
      end
    else
      if v == like and errors.is_data(d) then                                     -- a list for what is a list in Python
        if #d > 1 then errors.bad('map_fn: dtype has %d entries, and the function returns one value', #d) end
        d = d[1] or d
      end
      if type(d) ~= 'string' then
        errors.bad('map_fn: dtype%s is %s, a dtype such as \'float32\' is expected', path and '.' .. tostring(path)
                   or '', errors.describe(d))
      end
      n = n + 1
      list[n] = dtypes.of(d)
    end
  end
  add(dtype, like)
  return list
end

--- What the function returned, as an Output: of the dtype that was told, if one was.
local function as_told(v, wanted, at, g)
  local o = convert.to_output(v, wanted and not convert.typed(v) and wanted[at] or nil, g, 'map_fn')
  if wanted and graph.dtype(o) ~= wanted[at] then
    errors.bad("map_fn: the function returns %s, and dtype says %s: cast it, as in %s", o.dtype,
               dtypes.name[wanted[at]], dtypes.conversion(o.dtype, wanted[at]))
  end
  return o
end

--- map_fn whose rows are computed together: df.vmap.
local function in_lanes(fn, elems, dtype)
  local list, _, arguments = take_elems(elems, 'map_fn')
  local results = { require('dflow.lanes').of_one_shape(function(...)
    local rows = arguments{ ... }
    return fn(unpack(rows, 1, #rows))
  end, unpack(list)) }
  local like, k = #results == 1 and results[1] or results, 0
  local wanted = dtypes_of(dtype, like)
  return nest.map(like, nest.is_structure, function(v)
    k = k + 1
    return as_told(v, wanted, k, list[1].graph)
  end)
end

--- fn as a graph function whose calls, one for each row, are computed together as they become ready: what vmap has no
-- rule for is left to it.
local function in_calls(fn, elems)
  local list = take_elems(elems, 'map_fn')
  local types, shapes = {}, {}
  for i, x in ipairs(list) do
    types[i] = x.dtype
    shapes[i] = x.shape and { unpack(x.shape, 2) } or false
  end
  local _, single, arguments = take_elems(elems, 'map_fn')
  local row = require('dflow.front.func').func('row', types, function(...)
    local rows = arguments{ ... }
    return fn(unpack(rows, 1, #rows))
  end, { batch = true, shapes = shapes })
  return function(...)
    local flat = {}
    nest.each(single and { (...) } or { ... }, nest.is_structure, function(v) flat[#flat + 1] = v end)
    return row(unpack(flat))
  end
end

--- in_lanes, or nil where the function has what cannot be computed by lanes: then nothing was built.
local function try_lanes(fn, elems, dtype)
  local g = take_elems(elems, 'map_fn')[1].graph
  local ok, result = pcall(graph.attempt, g, in_lanes, fn, elems, dtype)
  if ok then return result end
  if not (errors.is(result) and result.code == 'unimplemented') then error(result, 0) end
end

--- df.map_fn(fn, elems, opts): fn of each row, stacked. fn is called once, while the graph is built; rows run in
-- parallel.
-- @param elems  [n, ...], or a list of such: fn(a, b) then
-- @return       [n, ...]; a list of them where fn returns several; the structure that fn returns
function M.map_fn(fn, elems, opts)
  check_function(fn, 'map_fn')
  local given
  opts, given = loop_opts(opts, 'map_fn', { 'dtype', 'batch' })
  check_elements(fn, elems, 0, 'map_fn')
  if errors.flag(given.batch, 'map_fn', 'batch') then
    local result = try_lanes(fn, elems, given.dtype)
    if result ~= nil then return result end
    fn, opts.parallel_iterations = in_calls(fn, elems), opts.parallel_iterations or CALLS
  end
  local list, _, arguments = take_elems(elems, 'map_fn')
  local g = list[1].graph
  local depth = graph.depth()
  graph.push(g)
  local ok, result = pcall(function()
    local arrays, n = unstacked(list, 'map_fn')
    local like, finished
    control.while_loop(function(i) return f.less(i, n) end, function(i)
      local rows = arguments(read_all(arrays, i))
      local results = call_user(fn, unpack(rows, 1, #rows))
      results.n = nil
      if #results == 0 then errors.bad('map_fn: the function returns nothing: is `return` missing?') end
      like = #results == 1 and results[1] or results
      finished = {}
      local wanted = dtypes_of(given.dtype, like)
      nest.each(like, nest.is_structure, function(v)
        local o = as_told(v, wanted, #finished + 1, g)
        local ta, close = tensor_array.carried(g, o.dtype, n)
        finished[#finished + 1] = close(ta:write(i, o))
      end)
      return f.add(i, 1)
    end, { f.int32(0) }, opts)
    local k = 0
    return nest.map(like, nest.is_structure, function()
      k = k + 1
      return stacked(finished[k], list[1])
    end)
  end)
  graph.restore(depth)
  if not ok then error(result, 0) end
  return result
end

--- Positions 0 .. n-1 as the loop takes them; from the end when reversed.
local function position(i, n, reverse)
  if reverse then return f.subtract(f.subtract(n, 1), i) end
  return i
end

--- What fn(acc, row...) returned as an accumulator: several results are a list.
local function as_acc(results, n, what)
  if n == 0 then errors.bad('%s: the function returns nothing: is `return` missing?', what) end
  if n == 1 then return results[1] end
  return results
end

--- The first accumulator: init, or the first row.
local function first_acc(init, arrays, n, reverse, single, arguments, what)
  if init ~= nil then
    return nest.map(init, nest.is_structure, function(v) return convert.to_output(v, nil, arrays[1].graph) end), 0
  end
  local count = graph.constant(n)
  if count and count:item() == 0 then errors.bad('%s: elems has no rows, and there is no init to begin with', what) end
  local at = reverse and f.subtract(n, 1) or f.int32(0)
  local values = arguments(read_all(arrays, at))
  return single and values[1] or values, 1
end

--- build(init), where a bare number is what it is alone; when the function refuses that, of the elements' dtype: a sum
-- of floats may begin at 0.
local function with_init(init, d, build)
  local ok, result = pcall(build, init)
  if ok then return result end
  if errors.is(result) and result.code == 'invalid_argument' and init ~= nil then
    local bare = false
    local fitted, as = pcall(nest.map, init, nest.is_structure, function(v)
      if type(v) ~= 'number' or dtypes.of_bare(v) == d then return v end
      bare = true
      return convert.constant(graph.current(), v, d)
    end)
    if fitted and bare then
      local again, value = pcall(build, as)
      if again then return value end
    end
  end
  error(result, 0)
end

--- An error of the loop that would have the accumulator, its variable 2, in shape_invariants: these are the
-- accumulator's here.
local function of_accumulator(e)
  if errors.is(e) then
    e.message = e.message:gsub('shape_invariants = {%[2%] = (.*)} would allow it',
                               'shape_invariants = %1 would allow it')
  end
  return e
end

local function fold(what, reverse)
  return function(fn, elems, init, opts)
    check_function(fn, what)
    if opts == nil and nest.is_plain(init) and nest.has_names(init) and not nest.is_structure({ (next(init)) }) then
      local is_options = true       -- foldl(fn, elems, {parallel_iterations = 1})
      for key in pairs(init) do
        local known = key == 'shape_invariants'
        for _, name in ipairs(loop_options) do known = known or name == key end
        is_options = is_options and known
      end
      if is_options then init, opts = nil, init end
    end
    opts = loop_opts(opts, what, { 'shape_invariants' })
    check_elements(fn, elems, 1, what)
    local list, single, arguments = take_elems(elems, what)
    local g = list[1].graph
    local depth = graph.depth()
    graph.push(g)
    local ok, result = pcall(with_init, init, graph.dtype(list[1]), function(first)
      local arrays, n = unstacked(list, what)
      local acc, start = first_acc(first, arrays, n, reverse, single, arguments, what)
      local _, last = control.while_loop(function(i) return f.less(i, n) end, function(i, a)
        local rows = arguments(read_all(arrays, position(i, n, reverse)))
        local results = call_user(fn, a, unpack(rows, 1, #rows))
        results.n = nil
        return f.add(i, 1), as_acc(results, #results, what)
      end, { f.int32(start), acc }, opts)
      return last
    end)
    graph.restore(depth)
    if not ok then error(of_accumulator(result), 0) end
    return result
  end
end

--- df.foldl(fn, elems, init?): fn(... fn(fn(init, row 0), row 1) ..., row n-1); without init the first row is where it
-- starts.
M.foldl = fold('foldl', false)
--- df.foldr(fn, elems, init?): the same from the last row to the first.
M.foldr = fold('foldr', true)

--- df.scan(fn, elems, init?, {reverse=}): all accumulators of the fold, stacked along axis 0.
function M.scan(fn, elems, init, opts)
  check_function(fn, 'scan')
  if opts == nil and nest.is_plain(init) and nest.has_names(init) then
    local known = true
    for key in pairs(init) do
      local own = key == 'reverse' or key == 'shape_invariants'
      for _, name in ipairs(loop_options) do own = own or name == key end
      known = known and own
    end
    if known then init, opts = nil, init end
  end
  local loop, given = loop_opts(opts, 'scan', { 'reverse', 'shape_invariants' })
  local reverse = errors.flag(given.reverse, 'scan', 'reverse') == true
  check_elements(fn, elems, 1, 'scan')
  local list, single, arguments = take_elems(elems, 'scan')
  local g = list[1].graph
  local depth = graph.depth()
  graph.push(g)
  local ok, result = pcall(with_init, init, graph.dtype(list[1]), function(first)
    local arrays, n = unstacked(list, 'scan')
    local acc, start = first_acc(first, arrays, n, reverse, single, arguments, 'scan')
    local outputs = nest.map(acc, nest.is_structure, function(v)
      local ta = tensor_array.new(v.dtype, n)
      if start == 1 then ta = ta:write(position(f.int32(0), n, reverse), v) end
      return ta
    end)
    local _, _, last = control.while_loop(function(i) return f.less(i, n) end, function(i, a, out)
      local at = position(i, n, reverse)
      local rows = arguments(read_all(arrays, at))
      local results = call_user(fn, a, unpack(rows, 1, #rows))
      results.n = nil
      local value = as_acc(results, #results, 'scan')
      local leaves, k = {}, 0
      local function collect(like, v, path)
        if nest.is_structure(like) and nest.is_plain(like) then
          if not nest.is_plain(v) then
            errors.bad('scan: the function returns %s where the accumulator is a table', errors.describe(v))
          end
          for _, key in ipairs(nest.keys(like)) do collect(like[key], v[key], key) end
        else
          if v == nil then
            errors.bad('scan: the function returns nothing for %s', tostring(path or 'the accumulator'))
          end
          leaves[#leaves + 1] = convert.to_output(v, graph.dtype(like), g, 'scan')
        end
      end
      collect(a, value)
      local next_acc = nest.pack(a, leaves, nest.is_structure)
      local next_out = nest.map(out, nest.is_structure, function(ta)
        k = k + 1
        return ta:write(at, leaves[k])
      end)
      return f.add(i, 1), next_acc, next_out
    end, { f.int32(start), acc, outputs }, loop)
    return nest.map(last, nest.is_structure, function(ta) return stacked(ta, list[1]) end)
  end)
  graph.restore(depth)
  if not ok then error(of_accumulator(result), 0) end
  return result
end

-- ---- case -----------------------------------------------------------------------------------------------------------
--- df.case{{p1, f1}, {p2, f2}, default = f}: what the function of the first true predicate returns.
-- Without a default one of the predicates must be true, else the run stops.
function M.case(pairs_list, opts)
  if not nest.is_plain(pairs_list) then
    errors.bad('case takes a table {{p1, f1}, {p2, f2}, default = f}, not %s', errors.describe(pairs_list))
  end
  opts = errors.options(opts, 'case', { 'name' })
  for key in pairs(pairs_list) do
    if type(key) == 'string' and key ~= 'default' and key ~= 'name' then
      errors.bad("case has no option '%s'%s (it knows: default, name)", key, errors.hint(key, { 'default', 'name' }))
    end
  end
  local n, default = #pairs_list, pairs_list.default
  if n == 0 and not default then errors.bad('case: there is no pair and no default') end
  for i = 1, n do
    local p = pairs_list[i]
    if not nest.is_plain(p) or type(p[2]) ~= 'function' then
      errors.bad('case: pair %d is %s, {predicate, function} is expected', i, errors.describe(p))
    end
  end
  if default ~= nil and type(default) ~= 'function' then
    errors.bad('case: default is %s, a function is expected', errors.describe(default))
  end
  local name = opts.name or pairs_list.name or 'case'
  if n == 0 then return default() end
  local function build(i)
    local p, fn = pairs_list[i][1], pairs_list[i][2]
    if i == n and not default then
      return control.cond(p, fn, function()
        local stop = f.assert(false, {}, { message = 'case: none of the predicates is true' })
        return graph.control_dependencies({ stop }, fn)
      end, { name = name })
    end
    return control.cond(p, fn, i == n and default or function() return build(i + 1) end, { name = name })
  end
  return build(1)
end

--- df.switch_case(i, {f0, f1, ...}, default?): what function number i returns; default, or the last one, for other
-- numbers.
function M.switch_case(index, functions, default)
  if not nest.is_plain(functions) or #functions == 0 then
    errors.bad('switch_case takes an index and a list of functions')
  end
  for i, fn in ipairs(functions) do
    if type(fn) ~= 'function' then
      errors.bad('switch_case: branch %d is %s, a function is expected', i - 1, errors.describe(fn))
    end
  end
  if default ~= nil and type(default) ~= 'function' then
    errors.bad('switch_case: default is %s, a function is expected', errors.describe(default))
  end
  local last = default or functions[#functions]
  index = convert.to_output(index, dtypes.INT32, nil, 'switch_case')
  -- A tree of conds, as deep as the logarithm of the number of branches: the function that builds one of low .. high -
  -- 1.
  local function among(low, high)
    if high - low == 1 then return functions[low + 1] end
    local middle = math.floor((low + high) / 2)
    return function()
      return control.cond(f.less(index, middle), among(low, middle), among(middle, high), { name = 'switch_case' })
    end
  end
  local n = #functions
  local known = f.logical_and(f.greater_equal(index, 0), f.less(index, n))
  return control.cond(known, among(0, n), last, { name = 'switch_case' })
end

-- ---- derivatives of derivatives -------------------------------------------------------------------------------------
--- The gradient as a dense Output; zeros where there is none.
local function dense_gradient(y, x, opts)
  opts = opts or {}
  opts.unconnected = 'zero'
  return convert.to_output(gradients.gradients(y, x, opts), nil, x.graph)
end

local function variable_or_output(x, what)
  if x == nil then errors.bad('%s: x is missing', what) end
  if convert.typed(x) == nil then
    errors.bad('%s: x is %s, an Output or Variable is expected', what, errors.describe(x))
  end
  return x
end

--- Raises where y and x were given the wrong way round: nothing of y comes from x, and x comes from y. What depends on
-- neither has zeros.
local function check_order(y, x, what)
  if getmetatable(x) ~= graph.Output or type(y) ~= 'table' then return end
  local of = getmetatable(y) and rawget(getmetatable(y), 'handle_of')
  local from = of and of(y) or y
  if getmetatable(from) ~= graph.Output or from.graph ~= x.graph or from.node == x.node then return end
  local function needs(o, node)
    for _, other in ipairs(core.graph_needs(o.graph.handle, { o.node, o.index })) do
      if other == node then return true end
    end
    return false
  end
  if needs(x, from.node) and not needs(from, x.node) then
    errors.bad('%s(y, x): y, %s, does not depend on x, %s, but x depends on y: swap them', what, y.name, x.name)
  end
end

--- v as an Output that goes with x: of its dtype, and of its shape or a scalar.
local function direction(x, v, g, what)
  if v == nil then errors.bad('%s: v is missing', what) end
  local d = convert.typed(x)
  local o = convert.to_output(v, d, g, what)
  local shape, expected = o.shape, x.shape
  local same = graph.dtype(o) == d
  if same and shape and expected and #shape > 0 then
    same = #shape == #expected
    for i = 1, same and #shape or 0 do same = same and (shape[i] == expected[i] or shape[i] < 0 or expected[i] < 0) end
  end
  if not same then
    errors.bad('%s: v is %s, but x (`%s`) is %s', what, tensor.shape_text(o.dtype, shape), x.name,
               tensor.shape_text(x.dtype, expected))
  end
  return o
end

--- Calls each(x, v) for the leaves of a structure of x and the vectors of the same structure.
local function directions(x, v, what, each)
  if not nest.is_plain(v) then errors.bad('%s: v is %s, a table like x is expected', what, errors.describe(v)) end
  for _, k in ipairs(nest.keys(x)) do
    if v[k] == nil then errors.bad('%s: v has nothing for x.%s', what, tostring(k)) end
    if nest.is_structure(x[k]) then directions(x[k], v[k], what, each) else each(x[k], v[k]) end
  end
end

--- df.jvp(y, x, v): J v, the derivative of y along v. By two reverse passes: the first is linear in its grad_ys u, and
-- J v is its gradient with respect to u.
-- Of a list of x the sum over them all.
function M.jvp(y, x, v)
  if nest.is_structure(x) then
    local sum
    directions(x, v, 'jvp', function(xi, vi)
      local part = M.jvp(y, xi, vi)
      sum = sum and f.add(sum, part) or part
    end)
    return sum
  end
  x = variable_or_output(x, 'jvp')
  check_order(y, x, 'jvp')
  y = convert.to_output(y, nil, nil, 'jvp')
  v = direction(x, v, y.graph, 'jvp')
  local u = f.placeholder_with_default(f.zeros_like(y), y.shape)
  local g = convert.to_output(gradients.gradients(y, x, { grad_ys = u, unconnected = 'zero' }), nil, y.graph)
  return convert.to_output(gradients.gradients(g, u, { grad_ys = v, unconnected = 'zero' }), nil, y.graph)
end

--- df.hvp(y, x, v): H v, for a scalar y. Of a list of x a list: the rows of H that belong to each.
function M.hvp(y, x, v)
  if nest.is_structure(x) then
    local gs, vs = {}, {}
    directions(x, v, 'hvp', function(xi, vi)
      gs[#gs + 1] = dense_gradient(y, xi)
      vs[#vs + 1] = direction(xi, vi, gs[1].graph, 'hvp')
    end)
    return nest.map(x, nest.is_structure, function(xi) return dense_gradient(gs, xi, { grad_ys = vs }) end)
  end
  x = variable_or_output(x, 'hvp')
  check_order(y, x, 'hvp')
  local g = dense_gradient(y, x)
  v = direction(x, v, g.graph, 'hvp')
  return dense_gradient(g, x, { grad_ys = v })
end

--- Are all rows of a Jacobian computed at once? That takes a third to a ninth of a loop's time; it has all of them in
-- memory.
local function by_lanes(rows)
  local most = 256
  return rows.shape and rows.shape[1] >= 0 and rows.shape[1] <= most
end

--- df.jacobian(y, x): dy[i] / dx[j], of shape y.shape + x.shape. Of a list of x a list.
function M.jacobian(y, x)
  if nest.is_structure(x) then
    return nest.map(x, nest.is_structure, function(xi) return M.jacobian(y, xi) end)
  end
  x = variable_or_output(x, 'jacobian')
  check_order(y, x, 'jacobian')
  y = convert.to_output(y, nil, nil, 'jacobian')
  local flat = f.reshape(y, { -1 })
  local n = f.size(y)
  local function row(i) return dense_gradient(flat, x, { grad_ys = f.one_hot(i, n, { dtype = y.dtype }) }) end
  local rows = f.range(n)
  rows = by_lanes(rows) and try_lanes(row, rows) or M.map_fn(row, rows)
  local x_shape = f.shape(convert.to_output(x))
  local out = f.reshape(rows, f.concat({ f.shape(y), x_shape }, 0))
  local ys, xs = y.shape, x.shape
  if ys and xs then
    local shape = {}
    for _, d in ipairs(ys) do shape[#shape + 1] = d end
    for _, d in ipairs(xs) do shape[#shape + 1] = d end
    out:set_shape(shape)
  end
  return out
end

--- df.hessian(y, x): the second derivatives of a scalar y, of shape x.shape + x.shape; of a larger y those of its sum.
-- Of a list of x a list, without the mixed ones.
function M.hessian(y, x)
  if nest.is_structure(x) then
    return nest.map(x, nest.is_structure, function(xi) return M.hessian(y, xi) end)
  end
  x = variable_or_output(x, 'hessian')
  check_order(y, x, 'hessian')
  return M.jacobian(dense_gradient(y, x), x)
end

-- What fails takes its nodes with it; the graph is that of the values, wherever these stand.
for _, name in ipairs{ 'map_fn', 'foldl', 'foldr', 'scan', 'case', 'switch_case', 'jvp', 'hvp', 'jacobian',
                       'hessian' } do
  local build = M[name]
  M[name] = errors.in_front(function(a, b, ...)
    return graph.attempt(convert.graph_of(b) or convert.graph_of(a) or graph.current(), build, a, b, ...)
  end, build)
end

return M
