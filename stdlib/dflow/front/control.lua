--- cond and while_loop: the closures are called here, once each, while the C library is told what begins and ends.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local tensor_array = require 'dflow.front.tensor_array'
local ops = require 'dflow.front.ops'

local M = {}
local Output, Operation, TensorArray = graph.Output, graph.Operation, tensor_array.TensorArray
local call_user = require 'dflow.front.call'
local protect = require 'dflow.front.protect'
local unpack = graph.unpack
local getmetatable, type = getmetatable, type

local function pack(...)
  return { n = select('#', ...), ... }
end

--- The name of parameter i of a function written in Lua; nil where it has none.
local function parameter(fn, i)
  local info = debug.getinfo(fn, 'S')
  local ok, name = pcall(debug.getlocal, fn, i)
  return info.what ~= 'C' and ok and type(name) == 'string' and name:find('^[%a_]') and name ~= '_' and name or nil
end

--- Calls fn(); when it fails, all that it began in g is given up before the error goes on. `say(e)` may say more of it.
local function guarded(g, fn, say)
  local mark, standing = core.graph_mark(g.handle), graph.depth()
  graph.push(g)
  local results = pack(protect(fn))
  graph.restore(standing)
  if not results[1] then
    local e = results[2]
    if errors.is(e) and not e.source then e.source = core.where() end
    e = say and say(e) or e
    graph.undo(g, mark)
    error(e, 0)
  end
  core.graph_keep(g.handle, mark)
  return unpack(results, 2, results.n)
end

local function is_typed(v)
  return type(v) == 'table' and (not errors.is_data(v) or convert.typed(v) ~= nil)
end

--- A predicate that Lua computed is the same whatever runs: an error, for it was meant otherwise.
local function predicate(p, g, what)
  if type(p) == 'boolean' then
    errors.bad('%s: the predicate is the Lua boolean %s, known while the graph is built: Lua\'s ==, ~=, not, and, or '
               .. 'compare nothing in '
               .. 'the graph, use i:eq(3), i:ne(3), df.logical_not(p), df.logical_and(p, q); a constant is '
                  .. 'df.constant(%s)', what, tostring(p), tostring(p))
  end
  return convert.to_output(p, dtypes.BOOL, g, what)
end

-- ---- cond -------------------------------------------------------------------------------------------------------
--- The Output (or handle) of one result of a branch, in that branch's context; the kind is what it comes back as.
local function branch_value(g, v, dtype, what)
  local mt = getmetatable(v)
  if mt == TensorArray then return v.handle, 'array' end
  if mt == Operation then     -- it has to have run when the branch is over
    return graph.control_dependencies({ v }, function() return ops.functions.identity(convert.constant(g, true)) end),
      'operation'
  end
  return convert.to_output(v, dtype, g, what), 'output'
end

--- Pairs the leaves of what the two branches returned; a new structure like both comes out of `leaf`.
local function pair(a, b, path, leaf)
  if nest.is_structure(a) or nest.is_structure(b) then
    if not (nest.is_table(a) and nest.is_table(b)) then
      errors.bad('cond: result %s is %s in the true branch but %s in the false branch', path, errors.describe(a),
                 errors.describe(b))
    end
    local out = {}
    for _, k in ipairs(nest.keys(a)) do
      if b[k] == nil then
        errors.bad('cond: result %s has the key %s in the true branch only', path, tostring(k))
      end
      out[k] = pair(a[k], b[k], path .. '.' .. tostring(k), leaf)
    end
    for k in pairs(b) do
      if a[k] == nil then
        errors.bad('cond: result %s has the key %s in the false branch only', path, tostring(k))
      end
    end
    return nest.alike(a, out)
  end
  return leaf(a, b, path)
end

--- M.cond, whose results may be told when both branches are built.
-- @param combine  combine(t, f): the packed results of both functions as they are to be merged; nil leaves them as they
--                 are
function M.cond_of(pred, true_fn, false_fn, opts, combine)
  opts = errors.options(opts, 'cond', { 'name' })
  if type(true_fn) ~= 'function' or type(false_fn) ~= 'function' then
    errors.bad('cond takes a predicate and two functions; the %s one is %s', type(true_fn) ~= 'function' and 'first'
               or 'second',
               errors.describe(type(true_fn) ~= 'function' and true_fn or false_fn))
  end
  if pred == nil then errors.bad('cond: the predicate is missing') end
  local g = convert.graph_of(pred) or graph.current()
  pred = predicate(pred, g, 'cond')
  local where = core.where()
  return guarded(g, function()
    local handle = g.handle
    core.cond_begin(handle, pred.node, pred.index, errors.name(opts.name, 'cond'), where)
    local t = call_user(true_fn)
    core.cond_select_branch(handle, false)
    local f = call_user(false_fn)
    if combine then t, f = combine(t, f) end
    if t.n ~= f.n then
      errors.bad('cond: the true branch returns %d value%s, but the false branch %d', t.n, t.n == 1 and '' or 's', f.n)
    end
    local leaves, results = {}, {}
    for i = 1, t.n do
      results[i] = pair(t[i], f[i], tostring(i), function(a, b, path)
        if a == nil or b == nil then
          errors.bad('cond: result %s of the %s branch is nil; return a value, or nothing at all', path, a == nil
                     and 'true' or 'false')
        end
        leaves[#leaves + 1] = { a = a, b = b, path = path }
        return #leaves
      end)
    end
    -- A bare value takes the dtype of the other branch's; two bare values that of the wider.
    for _, leaf in ipairs(leaves) do
      local a, b = leaf.a, leaf.b
      local da, db = convert.typed(a), convert.typed(b)
      if not is_typed(a) and not is_typed(b) then
        local ta, tb = tensor.dtype_of_list((tensor.flatten(a))), tensor.dtype_of_list((tensor.flatten(b)))
        if ta ~= tb then
          local numbers = ta ~= dtypes.BOOL and tb ~= dtypes.BOOL and ta ~= dtypes.STRING and tb ~= dtypes.STRING
          if numbers then ta = (ta == 1 or tb == 1) and 1 or 9 end
        end
        leaf.dtype = ta
      else
        leaf.dtype = da or db
      end
    end
    local sides = { { true, 'a' }, { false, 'b' } }
    local flat = { {}, {} }
    for s, side in ipairs(sides) do
      if s == 1 then core.cond_select_branch(handle, true) end
      for i, leaf in ipairs(leaves) do
        local v = leaf[side[2]]
        local o, kind = branch_value(g, v, leaf.dtype, 'cond: result ' .. leaf.path)
        if leaf.kind and leaf.kind ~= kind then
          errors.bad('cond: result %s is %s in the true branch but %s in the false branch', leaf.path,
                     errors.describe(leaf.a), errors.describe(leaf.b))
        end
        leaf.kind = kind
        if o.graph ~= g then errors.bad('cond: result %s belongs to another graph', leaf.path) end
        flat[s][2 * i - 1], flat[s][2 * i] = o.node, o.index
      end
      core.cond_branch_end(handle, flat[s])
    end
    local op, out = core.cond_end(handle, #leaves)
    if t.n == 0 then return graph.operation(g, op) end
    local made = {}
    for i, leaf in ipairs(leaves) do
      local o = graph.output(g, out[2 * i - 1], out[2 * i])
      if leaf.kind == 'array' then
        made[i] = tensor_array.wrap(o, leaf.a.d or leaf.b.d, rawget(leaf.a, 'label'))
      elseif leaf.kind == 'operation' then
        made[i] = graph.operation(g, o.node)
      else
        made[i] = o
      end
    end
    for i = 1, t.n do
      results[i] = nest.map(results[i], function() return true end, function(k) return made[k] end)
    end
    return unpack(results, 1, t.n)
  end)
end

--- cond(pred, true_fn, false_fn, {name=}): what the taken branch returns. Only that branch runs.
-- @param pred  a scalar bool
-- @return      as many values as both functions return; the operation of the cond when they return none
function M.cond(pred, true_fn, false_fn, opts) return M.cond_of(pred, true_fn, false_fn, opts) end

M.guarded, M.branch_value = guarded, branch_value

-- ---- while_loop ----------------------------------------------------------------------------------------------------
local known = { 'parallel_iterations', 'save', 'swap_memory', 'maximum_iterations', 'shape_invariants', 'back_prop',
                'name' }

--- One loop variable's initial value as an Output (or handle).
local function initial(v, path, g)
  local mt = getmetatable(v)
  if mt == TensorArray then return v.handle, 'array' end
  if type(v) == 'number' and not dtypes.has_integers then
    errors.bad('loop variable %s is the bare number %s, and LuaJIT cannot tell 0 from 0.0: write %sdf.float32(%s)',
               path, tostring(v),
               dtypes.is_whole(v) and ('df.int32(%s) or '):format(tostring(v)) or '', tostring(v))
  end
  if mt == Operation then errors.bad('loop variable %s is an operation, a value is expected', path) end
  return convert.to_output(v, nil, g, 'loop variable ' .. path), 'output'
end

local function is_inner(v)
  return nest.is_structure(v)
end

--- The value of the structure `like` (leaves are numbers 1..n) with the loop's Outputs (or arrays) in place.
local function rebuild(like, leaves, flat, g)
  return nest.map(like, function() return true end, function(i)
    local leaf = leaves[i]
    local o = graph.output(g, flat[2 * i - 1], flat[2 * i])
    if leaf.kind == 'array' then return tensor_array.wrap(o, leaf.d, leaf.label) end
    return o
  end)
end

--- Flat outputs of what the body returned, which must be like the loop variables.
local function conform(like, ret, path, leaves, flat, g)
  if type(like) == 'table' then
    if not nest.is_table(ret) then
      errors.bad('while_loop: the body returns %s for loop variable %s, which is a table of values',
                 errors.describe(ret), path)
    end
    for _, k in ipairs(nest.keys(like)) do
      local inner = path and path .. '.' .. tostring(k) or tostring(k)
      if ret[k] == nil then errors.bad('while_loop: the body returns nothing for loop variable %s', inner) end
      conform(like[k], ret[k], inner, leaves, flat, g)
    end
    for k in pairs(ret) do
      if like[k] == nil then
        errors.bad('while_loop: the body returns a value for %s, which is no loop variable', path and path .. '.'
                   .. tostring(k) or tostring(k))
      end
    end
    return
  end
  local leaf = leaves[like]
  local o
  if leaf.kind == 'array' then
    if getmetatable(ret) ~= TensorArray then
      errors.bad('loop variable %s is a TensorArray, but the body returns %s', path, errors.describe(ret))
    end
    o = ret.handle
  else
    local mt = getmetatable(ret)
    if mt == TensorArray or mt == Operation or type(ret) == 'function' then
      errors.bad('loop variable %s is a value, but the body returns %s', path, errors.describe(ret))
    end
    local given = convert.typed(ret)
    if given and given ~= leaf.d then
      local source = mt == Output and ret.source
      errors.bad("loop variable %s enters as %s but the body returns %s%s: cast it, as in %s", path,
                 dtypes.name[leaf.d], dtypes.name[given], source and ' (' .. source .. ')' or '',
                 dtypes.conversion(given, leaf.d))
    end
    o = convert.to_output(ret, leaf.d, g, 'loop variable ' .. path)
  end
  if o.graph ~= g then errors.bad('loop variable %s: the body returns %s of another graph', path, o.name) end
  flat[2 * like - 1], flat[2 * like] = o.node, o.index
end

--- Tells the C library the shape invariants: a structure like the variables, false for an unknown rank.
local function invariants(like, inv, path, leaves, g)
  if inv == nil then return end
  if type(like) == 'table' then
    if nest.is_composite(like) then inv = getmetatable(like).invariants(inv) end
    if not errors.is_data(inv) then
      errors.bad('shape_invariants: %s is expected to be a table like the loop variables, not %s', path or 'it',
                 errors.describe(inv))
    end
    for k in pairs(inv) do
      if like[k] == nil then
        errors.bad('shape_invariants has an entry for %s, which is no loop variable', tostring(k))
      end
    end
    for _, k in ipairs(nest.keys(like)) do
      invariants(like[k], inv[k], path and path .. '.' .. tostring(k) or tostring(k), leaves, g)
    end
    return
  end
  if leaves[like].kind == 'array' then return end
  if inv ~= false and type(inv) ~= 'table' then
    errors.bad('shape_invariants: the entry for %s is a list of dimensions or false, not %s', path,
               errors.describe(inv))
  end
  if inv then tensor.check_static_shape(inv, 'shape_invariants of ' .. path) end
  core.while_invariant(g.handle, like - 1, inv or nil)
end

--- An error of a loop in the body's words: loop variable 2 has the name of its second parameter; and functions that
-- take variables one by one where they have names, which comes as an error of Lua's.
local function in_words(e, pred, body, by_name)
  if errors.is(e) then
    e.message = e.message:gsub('^loop variable (%d+) ', function(i)
      local name = not by_name and parameter(body, tonumber(i))
      return name and ('loop variable %s (%s) '):format(i, name) or nil
    end)
  elseif by_name and type(e) == 'string' then
    for _, fn in ipairs{ pred, body } do
      local first, second = parameter(fn, 1), parameter(fn, 2)
      if second then
        local made, ours = pcall(errors.bad,
                                 'while_loop: its variables have names, so both functions get one table and the body '
                                 .. 'returns one: '
          .. 'function(v) … v.%s …, not function(%s, %s) (%s)', second, first, second, (e:gsub('\n.*', '')))
        return made and e or ours
      end
    end
  end
  return e
end

local ours = debug.getinfo(1, 'S').source:match('^(.*)front[/\\]control%.lua$') or '@'

--- Keeps what the user's body calls the loop's variables, by the node of the first Exit, for dflow.front.naming: `i`,
-- `state.c`.
local function note_parameters(g, exit, body, leaves, by_name)
  if debug.getinfo(body, 'S').source:sub(1, #ours) == ours then return end
  local names = {}
  for i, leaf in ipairs(leaves) do
    local at, rest = leaf.path:match '^(%d+)(.*)$'
    local first = not by_name and at and parameter(body, tonumber(at))
    names[i] = by_name and leaf.path or first and first .. rest or false
  end
  g.parameters = g.parameters or {}
  g.parameters[exit] = names
end

--- M.while_loop with words of its own for what fails.
-- @param words  words(e): what becomes of an error; nil: the body's parameters name the variables
function M.while_of(pred, body, vars, opts, words)
  opts = errors.options(opts, 'while_loop', known)
  if type(pred) ~= 'function' or type(body) ~= 'function' then
    errors.bad('while_loop takes two functions, the predicate and the body; the %s is %s', type(pred) ~= 'function'
               and 'predicate' or 'body',
               errors.describe(type(pred) ~= 'function' and pred or body))
  end
  if vars == nil then errors.bad('while_loop: the loop variables are missing') end
  if not nest.is_plain(vars) then vars = { vars } end
  local by_name = nest.has_names(vars)
  -- '': it says nothing; 'keep', unless the session says otherwise
  local save = opts.save or (opts.swap_memory and 'swap') or ''
  local parallel, maximum = opts.parallel_iterations or 32, opts.maximum_iterations
  if type(parallel) ~= 'number' or not dtypes.is_whole(parallel) or math.abs(parallel) > 2^53 then
    errors.bad('while_loop: parallel_iterations is a whole number from 1 up, not %s', errors.describe(parallel))
  end
  local most                  -- a maximum that is known when the loop runs
  if type(maximum) == 'table' and convert.typed(maximum) then
    most, maximum = convert.to_output(maximum, nil, nil, 'while_loop: maximum_iterations'), nil
    if not dtypes.is_int(graph.dtype(most)) or (graph.rank(most) or 0) ~= 0 then
      errors.bad('while_loop: maximum_iterations is %s, a scalar int32 or int64 is expected',
                 tensor.shape_text(most.dtype, most.shape))
    end
  end
  if maximum ~= nil and (type(maximum) ~= 'number' or not dtypes.is_whole(maximum) or maximum < 0
                         or maximum > 2^53) then
    errors.bad('while_loop: maximum_iterations is a whole number from 0 up, not %s', errors.describe(maximum))
  end
  for _, name in ipairs{ 'back_prop', 'swap_memory' } do
    if opts[name] ~= nil and type(opts[name]) ~= 'boolean' then
      errors.bad('while_loop: %s is true or false, not %s', name, errors.describe(opts[name]))
    end
  end
  if type(save) ~= 'string' then
    errors.bad("while_loop: save is 'keep', 'swap', 'recompute' or 'auto', not %s", errors.describe(save))
  end
  if opts.swap_memory and save ~= 'swap' then
    errors.bad("while_loop: swap_memory = true means save = 'swap', but save is '%s'", save)
  end
  local g = convert.graph_of(vars) or graph.current()
  local where = core.where()
  g.may_last = true

  return guarded(g, function()
    local handle = g.handle
    local leaves, flat = {}, {}
    local function leaf(v, path)
      local o, kind = initial(v, path, g)
      if o.graph ~= g then errors.bad('loop variable %s belongs to another graph', path) end
      local i = #leaves + 1
      leaves[i] = { kind = kind, path = path, d = kind == 'array' and v.d or graph.dtype(o), label = kind == 'array'
                    and rawget(v, 'label') or nil }
      flat[2 * i - 1], flat[2 * i] = o.node, o.index
      return i
    end
    local like = {}
    for _, k in ipairs(nest.keys(vars)) do like[k] = nest.map(vars[k], is_inner, leaf, tostring(k)) end
    local n, count = #leaves, #vars
    if n == 0 then errors.bad('while_loop needs at least one loop variable') end
    invariants(like, opts.shape_invariants, nil, leaves, g)
    local trips                 -- counts for `most`: a loop variable behind the caller's
    if most then trips = leaf(convert.constant(g, 0, graph.dtype(most)), 'maximum_iterations') end
    for i = 1, #leaves do
      if leaves[i].path ~= tostring(i) then core.while_var_name(handle, i - 1, leaves[i].path) end
    end
    local at = core.while_begin(handle, flat, parallel, maximum or -1, opts.back_prop ~= false, save,
                                errors.name(opts.name, 'while_loop'), where)

    local function call(fn, list)
      local values = rebuild(like, leaves, list, g)
      if by_name then return call_user(fn, values) end
      return call_user(fn, unpack(values, 1, count))
    end
    local more = call(pred, at)[1]
    if more == nil then errors.bad('while_loop: the predicate returns nothing, a scalar bool is expected') end
    more = predicate(more, g, 'while_loop')
    if most then
      more = ops.functions.logical_and(more,
                                       ops.functions.less(graph.output(g, at[2 * trips - 1], at[2 * trips]), most))
    end
    at = core.while_pred_end(handle, more.node, more.index, #leaves)

    local ret = call(body, at)
    local value
    if by_name then
      value = ret[1]
      if ret.n ~= 1 or not nest.is_plain(value) then
        errors.bad('while_loop: the body returns %d values, a table with the names of the loop variables is expected',
                   ret.n)
      end
    else
      value = ret
      if ret.n == 1 and count > 1 and nest.is_plain(ret[1]) and #ret[1] == count then value = ret[1] end
      local given = value == ret and ret.n or count
      if given ~= count then
        errors.bad('while_loop has %d loop variable%s, but its body returns %d value%s', count, count == 1 and ''
                   or 's', given, given == 1 and '' or 's')
      end
      value.n = nil
      for i = 1, count do
        if value[i] == nil then errors.bad('while_loop: the body returns nil for loop variable %d', i) end
      end
    end
    local results = {}
    conform(like, value, nil, leaves, results, g)
    if most then
      local after = ops.functions.add(graph.output(g, at[2 * trips - 1], at[2 * trips]), 1)
      results[2 * trips - 1], results[2 * trips] = after.node, after.index
    end
    local exits = core.while_end(handle, results)
    note_parameters(g, exits[1], body, leaves, by_name)
    local out = rebuild(like, leaves, exits, g)
    if by_name then return out end
    return unpack(out, 1, count)
  end, words or function(e) return in_words(e, pred, body, by_name) end)
end

--- while_loop(pred, body, vars, opts): the loop variables when the predicate is false.
-- @param vars  a list, or a table with names: then both functions get one table and the body returns one
function M.while_loop(pred, body, vars, opts) return M.while_of(pred, body, vars, opts) end

return M
