--- Functions that call themselves where an Output decides: they become df.func.
--
-- Such a call would be built without end. It is known by its place: the function runs already, further out, and calls
-- itself inside of a statement that is being built. What it returns is found by building it once without those calls,
-- where one way or another ends; then the body becomes a graph function's, and every later call is one of that.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local runtime = require 'dflow.autograph.runtime'
local values = require 'dflow.autograph.values'

local M = {}
local functions = setmetatable({}, { __mode = 'k' })          -- by what is called: the rewritten function
local unpack, pack = runtime.Unit.unpack, runtime.Unit.pack

--- The rewritten function in what enter made; nil for what it did not make.
function M.inside(fn) return functions[fn] end

-- by rewritten function: {entered, top, args, outer} of its innermost call
local active = setmetatable({}, { __mode = 'k' })
-- by rewritten function: a list of {args, fixed, fn, like}
local made_functions = setmetatable({}, { __mode = 'k' })

-- ---- what is found out ----------------------------------------------------------------------------------------------
local UNKNOWN = setmetatable({}, {
  __tostring = function() return 'a function calls itself in every case: it never ends' end,
})
local inferring = 0

function runtime.inferring() return inferring > 0 end

--- The results of the first of two ways that does not end in a call of the function itself.
local function first_of(a, b)
  local r = pack(pcall(a))
  if r[1] then return unpack(r, 2, r.n) end
  local first = r[2]
  r = pack(pcall(b))
  if r[1] then return unpack(r, 2, r.n) end
  error(first == UNKNOWN and r[2] or first, 0)
end
values.first_of, values.is_inferring = first_of, runtime.inferring

--- An `if` of a function whose results are looked for.
function runtime.infer_if(unit, info, A, B, state, rest, pass_on, get, set)
  local before = get(state)
  return first_of(function() return pass_on(unit, info, state, rest, A()) end, function()
    set(state, before)
    if not B then return pass_on(unit, info, state, rest) end
    if info.chained and rest then return B(rest) end
    return pass_on(unit, info, state, rest, B())
  end)
end

--- What fn(…) returns, as it is without the calls of itself.
local function results_of(fn, args, g)
  local variables, mark = #g.variables, core.graph_mark(g.handle)
  inferring = inferring + 1
  local r = pack(pcall(fn, unpack(args, 1, args.n)))
  inferring = inferring - 1
  local kinds = { n = r.n - 1 }
  if r[1] then
    for i = 2, r.n do
      if not values.is_value(r[i]) then
        r = { false, ('a function that calls itself where an Output decides returns values of the graph; its result '
                      .. '%d is %s'):format(i - 1, values.describe(r[i])) }
        break
      end
      kinds[i - 1] = nest.map(r[i], nest.is_structure, function(v)
        return { d = convert.typed(v) or type(v) == 'boolean' and dtypes.BOOL or nil, bare = type(v) == 'number'
                 and dtypes.of_bare(v) or nil }
      end)
    end
  end
  if #g.variables == variables then graph.undo(g, mark) else core.graph_keep(g.handle, mark) end
  if not r[1] then
    if r[2] == UNKNOWN or type(r[2]) == 'string' and r[2]:find '^a function that calls' then
      errors.bad('%s', tostring(r[2]))
    end
    error(r[2], 0)
  end
  return kinds
end

local function is_kind(t) return not (t.d or t.bare or next(t) == nil) end

-- ---- graph functions ------------------------------------------------------------------------------------------------
--- Is an argument one of the graph function's? The others are part of it.
local function is_argument(v)
  return values.is_graph(v) or nest.is_plain(v) and nest.is_structure(v) and convert.graph_of(v) ~= nil
    and values.is_value(v)
end

local function same_fixed(a, b, n)
  if a.n ~= n or b.n ~= n then return false end
  local any = false
  for i = 1, n do
    local dynamic = is_argument(a[i])
    if dynamic ~= is_argument(b[i]) or not dynamic and not rawequal(a[i], b[i]) then return false end
    any = any or dynamic
  end
  return any
end

--- The Outputs among arguments, flat.
local function leaves_of(args)
  local list = {}
  for i = 1, args.n do
    if is_argument(args[i]) then
      nest.each(args[i], nest.is_structure, function(v) list[#list + 1] = convert.to_output(v) end)
    end
  end
  return list
end

local function same_dtypes(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do if graph.dtype(a[i]) ~= graph.dtype(b[i]) then return false end end
  return true
end

local function call_made(entry, args)
  local flat = pack(entry.fn(unpack(leaves_of(args))))
  local at, out = 0, { n = entry.kinds.n }
  for i = 1, out.n do
    out[i] = nest.map(entry.kinds[i], is_kind, function()
      at = at + 1
      return flat[at]
    end)
  end
  return unpack(out, 1, out.n)
end

--- The graph function of a rewritten function for arguments like these, called.
local function become(made, name, args)
  local leaves = leaves_of(args)
  local g = leaves[1].graph
  local kinds = results_of(made, args, g)
  local taken, candidates, bare = {}, {}, false
  for i, o in ipairs(leaves) do taken[i] = dtypes.name[graph.dtype(o)] end
  local function candidate(d)
    for _, c in ipairs(candidates) do if c == d then return end end
    candidates[#candidates + 1] = d
  end
  for i = 1, kinds.n do
    nest.each(kinds[i], is_kind, function(k)
      bare = bare or k.bare ~= nil
      if k.bare then candidate(k.bare) end
    end)
  end
  for _, o in ipairs(leaves) do if graph.dtype(o) ~= dtypes.BOOL then candidate(graph.dtype(o)) end end
  if not bare then candidates = { candidates[1] or 1 } end
  local first_error
  for _, d in ipairs(candidates) do
    local returns = {}
    for i = 1, kinds.n do
      nest.each(kinds[i], is_kind, function(k) returns[#returns + 1] = dtypes.name[k.d or d] end)
    end
    local entry = { args = args, leaves = leaves, kinds = kinds }
    entry.fn = require('dflow.front.func').func(name, taken, function(...)
      local list, at, inside = { ... }, 0, { n = args.n }
      for i = 1, args.n do
        inside[i] = args[i]
        if is_argument(args[i]) then
          inside[i] = nest.map(args[i], nest.is_structure, function()
            at = at + 1
            return list[at]
          end)
        end
      end
      local r, flat = pack(made(unpack(inside, 1, inside.n))), {}
      for i = 1, r.n do nest.each(r[i], nest.is_structure, function(v) flat[#flat + 1] = v end) end
      return unpack(flat)
    end, { returns = returns })
    local list = made_functions[made] or {}
    made_functions[made] = list
    list[#list + 1] = entry
    local r = pack(pcall(call_made, entry, args))
    if r[1] then return unpack(r, 2, r.n) end
    table.remove(list)
    first_error = first_error or r[2]
  end
  error(first_error, 0)
end

-- ---- calls ----------------------------------------------------------------------------------------------------------
--- Is the function on the stack?
local function is_running(fn)
  local level = 3
  while true do
    local info = debug.getinfo(level, 'f')
    if not info then return false end
    if info.func == fn then return true end
    level = level + 1
  end
end

--- A number where a call further out has an Output is one of its dtype, if it can be.
local function widen(args, outer)
  for i = 1, math.min(args.n, outer.args.n) do
    local like = outer.args[i]
    if type(args[i]) == 'number' and values.is_graph(like) then
      local ok, o = pcall(convert.constant, convert.graph_of(like), args[i], convert.typed(like))
      if ok then args[i] = o end
    end
  end
end

--- The innermost of the function's calls, from `outer` on, that has the same Lua values; nil if there is none.
local function met(outer, args)
  while outer and not same_fixed(outer.args, args, args.n) do outer = outer.outer end
  return outer
end

--- How many of the function's calls are open: `call` and those around it.
local function depth_of(call)
  local n = 0
  while call do n, call = n + 1, call.outer end
  return n
end

--- Raises what a call of `made` raised. Where memory or stack gave out while many calls were open, of which each has
-- other Lua values than the one before, it is the calls that have no end.
local function raise_of_call(made, name, before, args, e)
  local DEEP = 20
  if errors.is(e) and e.code == 'resource_exhausted' and depth_of(active[made]) > DEEP then
    for i = 1, args.n do
      if not rawequal(before[i], args[i]) and not is_argument(args[i]) then
        errors.raise(e.code, "'%s' calls itself in statements that an Output decides, each time with another Lua "
                     .. 'value, and is built for each: argument %d is %s, then %s%s: %s', name, i,
                     errors.describe(before[i]), errors.describe(args[i]),
                     type(args[i]) == 'number' and '; make it an Output, as in df.int32(0)' or '', e.message)
      end
    end
  end
  error(e, 0)
end

--- made(…) as the function's innermost call. It ends also when it fails: of the outer two, as a pcall is a C call of
-- those that the stack has room for.
local function call_inside(made, name, outer, args)
  if outer and outer.outer then return made(unpack(args, 1, args.n)) end
  local r = pack(pcall(made, unpack(args, 1, args.n)))
  local ok, e = r[1], r[2]
  if not ok and outer then ok, e = pcall(raise_of_call, made, name, outer.args, args, e) end
  if ok then return unpack(r, 2, r.n) end
  active[made] = outer
  error(e, 0)
end

local function leave(made, outer, ...)
  active[made] = outer
  return ...
end

--- What is called in the place of fn, whose rewritten function is made.
function M.enter(fn, made)
  local entered
  function entered(...)
    local known, outer = made_functions[made], active[made]
    local top = runtime.innermost()
    if outer and top == outer.top and not known and inferring == 0 then return made(...) end        -- Lua decides
    local args = pack(...)
    if outer and not is_running(outer.entered) then outer = nil end
    local again = outer and (top ~= outer.top or inferring > 0)
    if again then widen(args, outer) end
    if known and inferring == 0 then
      for _, entry in ipairs(known) do
        if same_fixed(entry.args, args, args.n) and same_dtypes(entry.leaves, leaves_of(args)) then
          return call_made(entry, args)
        end
      end
    end
    if again and met(outer, args) then
      if inferring > 0 then error(UNKNOWN, 0) end
      return become(made, M.name_of(fn), args)
    end
    active[made] = { entered = entered, top = top, args = args, outer = outer }
    return leave(made, outer, call_inside(made, M.name_of(fn), outer, args))
  end
  functions[entered] = made
  return entered
end

--- What frames of a function are called: as it is in its source.
function M.name_of(fn)
  local name = M.names and M.names(fn)
  return name or 'function'
end

return M
