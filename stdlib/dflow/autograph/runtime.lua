--- What rewritten functions call: the statements of Lua, each a cond or a while_loop where an Output decides, and Lua's
-- own where Lua does.
--
-- A block comes as a function. It returns nothing when it came to its end; else why it did not: 'break', 'goto name',
-- 'return' and the values, or a *signal*, what a statement around an Output tells: {flags = {[why] = true or a bool
-- Output}, values = …, always = does it never come to its end}. The variables that a statement sets are read and set by
-- its `state` function; its `info` (autograph/rewrite.lua) has their names, their lines, and which are read later:
-- `now` after the statement, `done` where its block or a jump ends.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local control = require 'dflow.front.control'
local tensor_array = require 'dflow.front.tensor_array'
local dtypes = require 'dflow.front.dtypes'
local ops = require 'dflow.front.ops'
local values = require 'dflow.autograph.values'
local call_user = require 'dflow.front.call'

local M = {}
local f = ops.functions
local unpack = table.unpack or unpack
local condition, is_graph = values.condition, values.is_graph

local Unit = {}
Unit.__index = Unit
M.Unit = Unit

local top                     -- the innermost statement that is being built: {unit, info, outer}

local function pack(...) return { n = select('#', ...), ... } end
Unit.pack, Unit.unpack = pack, unpack

local function assert_output(...)
  local n, p, message = select('#', ...), ...
  local decides = condition(p)
  if not decides then
    if p then return ... end
    error(n == 0 and "bad argument #1 to 'assert' (value expected)" or n == 1 and 'assertion failed!' or message, 0)
  end
  f.assert(decides, { select(3, ...) }, { message = message == nil and 'assertion failed!' or tostring(message) })
  return ...
end

--- assert(p, message, …) of Lua's: of an Output, an operation that stops the run. A program may have one of its own.
function Unit.assert_by(fn) return fn == assert and assert_output or fn end

--- error(message, level) of Lua's. In a statement that an Output decides it ends the building, whatever the Output is:
-- a message that no pcall in the statement catches says so where it leaves it.
local raised                  -- {value = what was raised last, told = what it is then}
local function error_staged(message, level)
  level = tonumber(level) or 1
  local _, value = pcall(error, message, level > 0 and level + 2 or 0)
  raised = { value = value, told = value }
  if type(value) == 'string' then
    _, raised.told = pcall(errors.bad, "%s; error is called in a statement that an Output decides (line %d), while the "
                           .. "graph is built: write assert(p, message), which stops the run where p is false",
                           tostring(message), top.info.line)
  end
  error(value, 0)
end
function Unit.error_by(fn) return fn == error and top and error_staged or fn end

--- Keeps the caller's frame, whose line nodes are told by.
function Unit.up(...) return ... end

--- The lines at which a variable is set, for a message.
local function lines_of(info, name)
  local list = info.lines[name] or {}
  local seen, out = {}, {}
  for _, line in ipairs(list) do
    if not seen[line] then seen[line], out[#out + 1] = true, line end
  end
  table.sort(out)
  return #out == 0 and '' or (' (set in line %s)'):format(table.concat(out, ', '))
end

-- ---- where a statement is staged ------------------------------------------------------------------------------------
local born = setmetatable({}, { __mode = 'k' })       -- tables by the statement in which they were made

--- fn() as part of a statement.
local function staged(unit, info, fn)
  local outer = top
  top = { unit = unit, info = info, outer = outer }
  local ok, result = pcall(fn)
  top = outer
  if not ok then
    local last = raised
    raised = nil
    error(last and rawequal(last.value, result) and last.told or result, 0)
  end
  return result
end

--- The innermost statement that is being built and that only a run decides; nil outside of all.
function M.innermost() return top end

--- A cond in an expression: `p and f(x)`.
function values.cond(p, a, b)
  local info = { line = tonumber((core.where() or ''):match ':(%d+)$') or 0, assigned = {} }
  return staged(false, info, function() return (control.cond(p, a, b)) end)
end

--- A part of a statement with tables of its own.
local function part(fn, ...)
  local outer = top
  top = { unit = outer.unit, info = outer.info, outer = outer.outer }
  local result = call_user(fn, ...)
  top = outer
  return result
end

function Unit.new(_, t)
  if top then born[t] = top end
  return t
end

--- A table that is about to be changed.
function Unit.own(_, t, what)
  if top and born[t] ~= top and type(t) == 'table' and errors.is_data(t) then
    errors.bad('a table%s is changed in a statement that an Output decides (line %d): it would be changed once, while '
               .. 'the graph is built; use a local variable, '
               .. 'or a TensorArray: ta = ta:write(i, v)', what and ', the ' .. what .. ',' or '', top.info.line)
  end
  return t
end

--- A variable of an outer function that is about to be set.
function Unit:free(name)
  if top and not (top.unit == self and top.info.assigned[name]) then
    errors.bad("the variable '%s' is set by a function that is called in a statement that an Output decides (line "
               .. "%d), which does not see it: return the value and "
               .. 'assign it there', name, top.info.line)
  end
end

-- ---- state ----------------------------------------------------------------------------------------------------------
local function get(state) return state and pack(state()) or { n = 0 } end
local function set(state, list) if state then state(true, unpack(list, 1, list.n)) end end

-- ---- signals --------------------------------------------------------------------------------------------------------
--- The signal of a block's packed results; nil when it came to its end.
local function signal(r)
  local code = r[1]
  if code == nil then return nil end
  if code == 'until' then
    local p = condition(r[2])
    if p then return { flags = { ['break'] = p } } end
    return r[2] and { flags = { ['break'] = true }, always = true } or nil
  elseif code == 'return' then
    return { flags = { ['return'] = true }, always = true, values = { n = r.n - 1, unpack(r, 2, r.n) } }
  elseif type(code) == 'table' then
    return code
  end
  return { flags = { [code] = true }, always = true }
end

--- The whys of one or two signals, in order.
local function whys(a, b)
  local seen, list = {}, {}
  for _, s in ipairs{ a or b, b } do
    for why in pairs(s.flags) do
      if not seen[why] then seen[why], list[#list + 1] = true, why end
    end
  end
  table.sort(list)
  return list
end

--- Did it jump? true or a bool Output.
local function any(s)
  local p
  for _, why in ipairs(whys(s)) do
    local flag = s.flags[why]
    if flag == true then return true end
    p = p and f.logical_or(p, flag) or flag
  end
  return p
end

--- A signal without one why; nil when none is left.
local function without(s, why)
  if not s or s.flags[why] == nil then return s end
  local flags = {}
  for w, flag in pairs(s.flags) do if w ~= why then flags[w] = flag end end
  if next(flags) == nil then return nil end
  local all = s.always and s.flags[why] == nil
  return { flags = flags, values = s.values, always = all }
end

-- ---- if -------------------------------------------------------------------------------------------------------------
--- Checks what a variable is after both branches. `what` and `lines` are for messages.
local function check_sides(info, what, lines, x, y)
  if x == nil or y == nil then
    errors.bad("%s%s has no value when the condition in line %d is %s, and is read later: give it one before the "
               .. "`if`, or in both branches", what, lines, info.line,
               x == nil and 'true' or 'false')
  end
  if not values.is_value(x) or not values.is_value(y) then
    if type(x) ~= 'string' or type(y) ~= 'string' then
      errors.bad("%s%s is %s when the condition in line %d is true and %s when it is false: both have to be values of "
                 .. "the graph, or "
                 .. 'it is used inside the branches', what, lines, values.describe(x), info.line, values.describe(y))
    end
    return
  end
  local a, b = convert.typed(x), convert.typed(y)
  local plain = not nest.is_structure(x) and not nest.is_structure(y)
  if plain and a and b and a ~= b then
    errors.bad("%s%s is %s when the condition in line %d is true and %s when it is false: cast one, as in %s", what,
               lines, values.describe(x), info.line, values.describe(y), dtypes.conversion(b, a))
  end
end

--- Builds a cond of two blocks.
-- @param need   need(i): is variable i read later? told (a, b), the signals of both, whether `rest` is done
-- @param rest   what comes after the statement: built in the branch that comes to its end, when the other does not.
--               nil: nothing, or none of that
-- @param guard  a is a signal that stands outside already
-- @return       the signal, whether rest was built
local function branches(unit, info, p, A, B, state, need, rest, guard)
  local before, done = get(state), false
  local a, b, va, vb, t, s
  -- slots: which variable (or -result) a result of the cond is
  local slots, final, flags, kept = {}, { n = before.n }, {}, nil
  local function add(x, y)
    t[#t + 1], s[#s + 1] = x, y
    return #t
  end
  local function combine()
    t, s = {}, {}
    for i = 1, before.n do
      final[i] = before[i]
      if need(i, a, b, done) then
        local x, y = va[i], vb[i]
        if rawequal(x, y) then final[i] = x
        else
          check_sides(info, ("the variable '%s'"):format(info.names[i]), lines_of(info, info.names[i]), x, y)
          slots[add(x, y)] = i
        end
      end
    end
    local only = guard and next(a.flags, next(a.flags)) == nil         -- it is why the guard holds
    for _, why in ipairs((a or b) and whys(a, b) or {}) do
      local x, y = a and a.flags[why] or false, b and b.flags[why] or false
      if guard and only then x = x and true end
      if x == true and y == true then flags[why] = true
      elseif guard and y == false then flags[why] = a.flags[why]
      elseif x == true and y == false then flags[why] = 'then'
      elseif x == false and y == true then flags[why] = 'else'
      else
        flags[why] = add(x, y)
      end
    end
    local x, y = a and a.values, b and b.values
    if x and y and x.n ~= y.n then
      errors.bad('the function returns %d value%s when the condition in line %d is true and %d when it is false', x.n,
                 x.n == 1 and '' or 's', info.line, y.n)
    end
    if guard and x and not y then kept = x
    elseif x or y then
      kept = { n = (x or y).n }
      for i = 1, kept.n do
        local u, v = (x or y)[i], (y or x)[i]
        if rawequal(u, v) and not (x and y) and not values.is_value(u) then kept[i] = u
        elseif rawequal(u, v) and x and y then kept[i] = u
        elseif x and y then
          check_sides(info, ('result %d of the function'):format(i), '', u, v)
          slots[add(u, v)] = -i
        elseif nest.is_structure(u) or is_graph(u) then
          slots[add(x and u or values.placeholder(u), y and v or values.placeholder(v))] = -i
        else
          kept[i] = u
        end
      end
    end
    t.n, s.n = #t, #s
    return t, s
  end
  local results = staged(unit, info, function()
    local ok, r = pcall(function()
      return pack(control.cond_of(p, function()
        a = signal(part(A))
        if a == nil and rest and info.else_jumps then
          a, done = signal(part(rest)), true
        end
        va = get(state)
        set(state, before)
      end, function()
        -- the first branch does not come to what is behind the statement
        local free = rest and a ~= nil and a.always and not done
        if free and info.chained then
          b, done = signal(part(B, rest)), true
        else
          b = B and signal(part(B))
          if b == nil and free then b, done = signal(part(rest)), true end
        end
        vb = get(state)
        set(state, before)
      end, nil, combine))
    end)
    if not ok then
      set(state, before)
      if errors.is(r) then
        r.message = r.message:gsub('^cond: result (%d+)', function(i)
          local k = slots[tonumber(i)]
          return k and k > 0 and ("the variable '%s'%s of the `if` in line %d")
            :format(info.names[k], lines_of(info, info.names[k]), info.line)
                 or k and ('result %d of the function at the `if` in line %d'):format(-k, info.line)
        end)
      end
      error(r, 0)
    end
    return r
  end)
  for slot, i in pairs(slots) do
    if i > 0 then final[i] = results[slot] else kept[-i] = results[slot] end
  end
  set(state, final)
  if not (a or b) then return nil, done end
  for why, flag in pairs(flags) do
    if flag == 'then' then flags[why] = p
    elseif flag == 'else' then flags[why] = f.logical_not(p)
    elseif type(flag) == 'number' then flags[why] = results[flag] end
  end
  return { flags = flags, values = kept, always = a ~= nil and b ~= nil and (guard or a.always) and b.always or false },
    done
end

local function needed_after(info)
  return function(i, a, b, done)
    if done then return info.done[i] end
    if a and b and a.always and b.always then return info.done[i] end
    if not (a or b) then return info.now[i] end
    return info.now[i] or info.done[i]
  end
end

local function needed(info) return function(i) return info.now[i] or info.done[i] end end

--- block() where no jump has happened; the signal of both.
local function guarded(unit, info, sig, block, state, need)
  local p = any(sig)
  if p == true then return sig end
  return (branches(unit, info, p, function() return sig end, block, state, need or needed(info), nil, true))
end

--- What comes after a statement that gave a signal, or nothing.
local function go_on(unit, info, state, rest, sig)
  if sig == nil then
    if rest then return rest() end
    return
  end
  if not rest or sig.always then return sig end
  return guarded(unit, info, sig, rest, state, function(i) return info.done[i] end)
end

--- The same for the results that a block returned.
local function pass_on(unit, info, state, rest, code, ...)
  if code == nil then
    if rest then return rest() end
    return
  elseif type(code) == 'table' then
    return go_on(unit, info, state, rest, code)
  end
  return code, ...
end

--- `if c then A() else B() end rest()`
function Unit:if_(k, c, A, B, state, rest)
  local info, p = self.infos[k], condition(c)
  if not p then
    local block = A
    if not c then block = B end
    if not block then
      if rest then return rest() end
      return
    end
    if not info.escapes then
      block()
      return
    elseif info.chained and rest and not c then
      return B(rest)
    end
    return pass_on(self, info, state, rest, block())
  end
  if info.only_jumps and not rest then                    -- nothing is built on either side
    local sig = signal(pack(A()))
    if not sig then return end
    for why in pairs(sig.flags) do sig.flags[why] = p end
    sig.always = false
    return sig
  end
  if M.inferring() then return M.infer_if(self, info, A, B, state, rest, pass_on, get, set) end
  local sig, done = branches(self, info, p, A, B, state, needed_after(info), rest)
  if done then return sig end
  return go_on(self, info, state, rest, sig)
end

--- A block with labels in it or behind it.
function Unit:block_(k, block, state, rest)
  local info = self.infos[k]
  local r = pack(block())
  local code = r[1]
  if code == nil or code == info.label then return pass_on(self, info, state, rest) end
  if type(code) == 'table' then return go_on(self, info, state, rest, without(code, info.label)) end
  return unpack(r, 1, r.n)
end

--- What a function returns whose block is left by the jump of a statement.
function Unit:result(k, code, ...)
  if code == nil then return end
  if code == 'return' then return ... end
  if type(code) ~= 'table' then return end
  local list = code.values or { n = 0 }
  if not code.always and list.n > 0 then
    errors.bad('the function returns a value or nothing, and an Output decides (line %d): return one everywhere, at '
               .. 'its end too', self.infos[k].line)
  end
  return unpack(list, 1, list.n)
end

-- ---- loops ----------------------------------------------------------------------------------------------------------
local function options_of(unit, info, names, hidden)
  local opts, given = {}, unit.opts
  for key, v in pairs(given or {}) do
    if key ~= 'shape_invariants' then opts[key] = v end
  end
  local shapes = given and given.shape_invariants
  if shapes then
    opts.shape_invariants = {}
    for i, name in ipairs(names) do opts.shape_invariants[hidden + i] = shapes[name] end
  end
  return opts, info
end

--- An error of while_loop's in the words of the source.
local function loop_words(info, names, hidden)
  return function(e)
    if errors.is(e) then
      local function called(i)
        local name = names[tonumber(i) - hidden]
        return name and ("the variable '%s'%s of the loop in line %d"):format(name, lines_of(info, name), info.line)
      end
      local place = tonumber(e.message:match 'loop variable (%d+)%f[%D]')
      e.message = e.message:gsub('loop variable (%d+)%f[%D]', called, 1):gsub('shape_invariants = {(.-)} would allow',
          function(shape)
        return ('df.autograph(fn, {shape_invariants = {%s = %s}}) would allow')
          :format(names[(place or 0) - hidden] or 'name', (shape:gsub('^%[%d+%] = ', '')))
      end)
    end
    return e
  end
end

--- The variables that the loop goes on with: their places among the state's; the others stay what they are.
local function variables_of(info, current, need)
  local list = {}
  for i = 1, current.n do
    if need(i) and values.is_value(current[i]) then list[#list + 1] = i end
  end
  return list
end

--- What the body made of a variable that is none of the loop's.
local function check_rest(info, after, before, need, changed)
  for i = 1, after.n do
    local name = info.names[i]
    if need(i) and not changed[i] and not rawequal(after[i], before[i]) then
      if before[i] == nil then
        errors.bad("the variable '%s'%s has no value before the loop in line %d and is read later or in the next "
                   .. "iteration: give it one before the loop", name,
                   lines_of(info, name), info.line)
      end
      errors.bad("the variable '%s'%s is %s before the loop in line %d and %s after its body: a variable of a loop "
                 .. "that an Output decides is a value of the graph",
                 name, lines_of(info, name), values.describe(before[i]), info.line, values.describe(after[i]))
    end
    if need(i) and changed[i] and not values.is_value(after[i]) then
      errors.bad("the variable '%s'%s is %s before the loop in line %d and %s after its body: give it a value in "
                 .. "every case", name, lines_of(info, name),
                 values.describe(before[i]), info.line, values.describe(after[i]))
    end
  end
end

--- A value that the body gives to what comes after the loop, which it ends.
-- @param before  what an iteration in front of the loop gave, which may have been the last; nil: none did
local function carried(g, v, before)
  local at, leaves = 0, before ~= nil and nest.flatten(before) or {}
  return nest.map(v, nest.is_structure, function(x)
    at = at + 1
    if not is_graph(x) and not (before ~= nil and values.is_value(x)) then return x end
    local d = convert.typed(x) or convert.typed(leaves[at])
    local o = convert.to_output(x, d, g)
    core.push_outer(g.handle)
    local ok, first = pcall(function()
      if leaves[at] == nil then return values.unknown(o) end
      return values.as_wide(convert.to_output(leaves[at], d, g), o)
    end)
    core.pop_outer(g.handle)
    if not ok then error(first, 0) end
    local number = core.while_add_var(g.handle, first.node, first.index)
    return graph.output(g, core.while_close_var(g.handle, number, o.node, o.index))
  end)
end

--- build(init), where a number of Lua's among init takes the dtype that the loop joins it with. It is built with the
-- dtype that the number has alone; where that is an error that names another dtype, with that one instead: of one
-- variable, else of two, and so on. LuaJIT's numbers, which say nothing of themselves, are refused.
-- @param first  variables from there on are the source's
local function with_dtypes(init, first, g, build)
  local ok, r = pcall(build, init)
  local failed, queue, at, tries = r, { { init = init, from = first, error = r } }, 0, 0
  while not ok and dtypes.has_integers and queue[at + 1] do
    at = at + 1
    local q = queue[at]
    for name in errors.is(q.error) and q.error.message:gmatch '%f[%w]%l+%d+%f[%W]' or function() end do
      local d = dtypes.number[name]
      for i = q.from, d and tries < 64 and #init or 0 do
        local made, c
        if type(init[i]) == 'number' and not ok then made, c = pcall(convert.constant, g, init[i], d) end
        if made and not (is_graph(q.init[i]) and q.init[i].dtype == name) then
          local other = { unpack(q.init, 1, #init) }
          other[i], tries = c, tries + 1
          ok, r = pcall(build, other)
          queue[#queue + 1] = { init = other, from = i, error = r }
        end
      end
    end
  end
  if not ok then error(failed, 0) end
  return r
end

--- Builds a while_loop.
-- @param sig    what iterations before it gave
-- @param extra  hidden variables: what they begin with
-- @param pred   pred(extra…): is there another iteration? An Output, a Lua boolean, or nil: only jumps end it
-- @param simple may pred be asked when a jump has ended the loop?
-- @param step   step(extra…): the packed results of the body, and the hidden variables after it
-- @return       the signal of the loop
local function loop(unit, info, state, sig, extra, pred, simple, step)
  local need = needed(info)
  local before = get(state)
  local places, names, init = variables_of(info, before, need), {}, {}
  local flags = {}
  if info.breaks or info.kind == 'repeat' then flags[1] = 'break' end
  for _, why in ipairs(info.codes) do flags[#flags + 1] = why end
  local hidden, result = #extra + #flags, nil
  for i, v in ipairs(extra) do init[i] = v end
  for i, why in ipairs(flags) do init[#extra + i] = sig and sig.flags[why] or false end
  for i, k in ipairs(places) do names[i], init[hidden + i] = info.names[k], before[k] end
  local g = convert.graph_of(init) or graph.current()
  if #init == 0 then init[1] = convert.constant(g, 0, dtypes.INT32) end
  local changed, happens = {}, nil
  for _, k in ipairs(places) do changed[k] = true end

  local function enter(...)
    local list, now = { ... }, { n = before.n }
    for i = 1, before.n do now[i] = before[i] end
    for i, k in ipairs(places) do now[k] = list[hidden + i] end
    set(state, now)
    local stop
    for i = 1, #flags do
      local flag = list[#extra + i]
      stop = stop and f.logical_or(stop, flag) or flag
    end
    return list, stop
  end
  local function predicate(...)
    local list, stop = enter(...)
    local go = stop and f.logical_not(stop)
    local function more() return pred and part(pred, unpack(list, 1, #extra))[1] end
    local function as_output(c)
      if c == nil or c == true then return convert.constant(g, true) end
      local p = condition(c)
      return p or convert.constant(g, c ~= false)
    end
    if not go then return as_output(more()) end
    if not pred then return go end
    if not simple then
      return (control.cond(go, function() return as_output(more()) end,
                           function() return convert.constant(g, false) end))
    end
    local c = more()
    if c == nil or c == true then return go end
    return f.logical_and(go, as_output(c))
  end
  local function body(...)
    local list = enter(...)
    local r, after_extra = step(unpack(list, 1, #extra))
    local s, out = signal(r), {}
    for why in pairs(s and s.flags or {}) do happens[why] = true end
    for i = 1, #extra do out[i] = after_extra[i] end
    for i, why in ipairs(flags) do out[#extra + i] = s and s.flags[why] or false end
    local after = get(state)
    check_rest(info, after, before, need, changed)
    for i, k in ipairs(places) do out[hidden + i] = after[k] end
    if s and s.values then
      result = { n = s.values.n }
      for i = 1, result.n do result[i] = carried(g, s.values[i], sig and sig.values and sig.values[i]) end
    end
    if #out == 0 then out[1] = list[1] end
    return unpack(out, 1, math.max(#init, 1))
  end
  local exits = staged(unit, info, function()
    local ok, r = pcall(with_dtypes, init, hidden + 1, g, function(from)
      happens, result = {}, nil
      for why in pairs(sig and sig.flags or {}) do happens[why] = true end
      return pack(control.while_of(predicate, body, from, options_of(unit, info, names, hidden),
                                   loop_words(info, names, hidden)))
    end)
    if not ok then
      set(state, before)
      error(r, 0)
    end
    return r
  end)
  local now = { n = before.n }
  for i = 1, before.n do now[i] = before[i] end
  for i, k in ipairs(places) do now[k] = exits[hidden + i] end
  set(state, now)
  local out = {}
  for i, why in ipairs(flags) do
    if why ~= 'break' and happens[why] then out[why] = exits[#extra + i] end
  end
  if next(out) == nil then return nil end
  return { flags = out, values = result or sig and sig.values or { n = 0 }, always = info.forever }
end

--- c = test() as Lua would see it; when it is an Output that decides, what was built for it is taken back.
-- @param bare  it is made of names, numbers, comparisons and logic only
local function probe(test, bare)
  if bare then
    local decides, c = values.decides(test)
    return c, decides
  end
  local g = graph.current()
  local variables, mark = #g.variables, core.graph_mark(g.handle)
  local ok, c = pcall(test)
  if not ok then
    graph.undo(g, mark)
    error(c, 0)
  end
  if condition(c) and c.graph == g and #g.variables == variables then
    graph.undo(g, mark)
    return true, true
  end
  core.graph_keep(g.handle, mark)
  return c, condition(c) ~= nil
end

-- ---- effects of iterations that Lua decided -------------------------------------------------------------------------
-- In a body effects happen in program order. At the top level a run does what is fetched, in any order. Of a loop that
-- a run decides after its first iterations these are a part: their effects and reads come in program order, too, and
-- the rest waits for them.

--- Where the graph stands.
local function mark()
  local g = graph.current()
  return { g = g, nodes = core.graph_nodes(g.handle) }
end

--- The packed results of an iteration that Lua decided: variables are read there as often as something may have changed
-- them.
local function iteration(begun, body, ...)
  local g = begun.g
  local outer = g.iteration
  g.iteration = true
  local r = pack(body(...))
  g.iteration = outer
  return r
end

--- Puts the effects and reads since the mark in order; the last effect, as a list of at most one operation.
local function effects_since(m)
  local last = core.current_context(m.g.handle) == 0 and core.graph_order(m.g.handle, m.nodes)
  return last and { m.g:op(core.node_name_of(m.g.handle, last)) } or {}
end

--- fn(), which builds what waits for them.
local function after(effects, fn)
  if #effects == 0 then return fn() end
  return graph.control_dependencies(effects, fn)
end

--- A block's results in a loop that Lua decides: does it go on? Else the packed results that the loop gives; or a
-- signal.
local function next_iteration(r)
  local code = r[1]
  if code == nil then return true end
  if code == 'break' then return false, { n = 0 } end
  if type(code) == 'table' then return false, nil, code end
  return false, r
end

--- `while test() do body() end rest()`
function Unit:while_(k, test, body, state, rest)
  local info, begun = self.infos[k], mark()
  local function stage(sig)
    sig = after(effects_since(begun), function()
      return loop(self, info, state, sig, {}, test, info.simple, function() return part(body), {} end)
    end)
    effects_since(begun)
    return go_on(self, info, state, rest, sig)
  end
  while true do
    local c, decides = probe(test, info.bare)
    if decides then return stage() end
    if not c then return pass_on(self, info, state, rest) end
    local go, r, sig = next_iteration(iteration(begun, body))
    if sig then
      if sig.always then return go_on(self, info, state, rest, without(sig, 'break')) end
      return stage(sig)
    end
    if not go then return pass_on(self, info, state, rest, unpack(r, 1, r.n)) end
  end
end

--- `repeat body() until`, what body() returns as 'until'.
function Unit:repeat_(k, body, state, rest)
  local info, begun = self.infos[k], mark()
  while true do
    local r = iteration(begun, body)
    if r[1] == 'until' and not condition(r[2]) then
      if r[2] then return pass_on(self, info, state, rest) end
    else
      if r[1] == 'until' then r = { n = 1, signal(r) } end
      local go, results, sig = next_iteration(r)
      if sig then
        if sig.always then return go_on(self, info, state, rest, without(sig, 'break')) end
        sig = after(effects_since(begun), function()
          return loop(self, info, state, sig, {}, nil, true, function() return part(body), {} end)
        end)
        effects_since(begun)
        return go_on(self, info, state, rest, sig)
      end
      if not go then return pass_on(self, info, state, rest, unpack(results, 1, results.n)) end
    end
  end
end

--- Iterations that Lua counts: run(each) calls each(…) for each of them until it returns true.
local function counted(self, info, state, rest, body, run)
  local left, sig, begun, effects = nil, nil, mark(), nil
  run(function(...)
    local args = pack(...)
    if sig then
      sig = after(effects, function()
        return guarded(self, info, sig, function() return body(unpack(args, 1, args.n)) end, state)
      end)
      return sig.always
    end
    local go, r, s = next_iteration(iteration(begun, body, ...))
    sig = s
    if sig then effects = effects_since(begun) end
    if not go and not s then left = r end
    return left ~= nil or s ~= nil and s.always
  end)
  if sig then
    effects_since(begun)
    return go_on(self, info, state, rest, without(sig, 'break'))
  end
  return pass_on(self, info, state, rest, unpack(left or {}, 1, left and left.n or 0))
end

local parts_of_for = { 'initial', 'limit', 'step' }

--- `for i = a, b, step do body(i) end rest()`
function Unit:for_(k, a, b, step, body, state, rest)
  local info = self.infos[k]
  if not (is_graph(a) or is_graph(b) or is_graph(step)) then
    for i, v in ipairs{ a == nil and parts_of_for or a, b == nil and parts_of_for or b, step == nil and 1 or step } do
      if type(v) ~= 'number' and not (type(v) == 'string' and tonumber(v)) and type(v) ~= 'cdata' then
        error(("'for' %s%s must be a number"):format(parts_of_for[i], i < 3 and ' value' or ''), 2)
      end
    end
    return counted(self, info, state, rest, body, function(each)
      for i = a, b, step == nil and 1 or step do
        if each(i) then break end
      end
    end)
  end
  local d = convert.typed(a) or convert.typed(b) or convert.typed(step)
  if step == nil then step = 1 end
  local up = not is_graph(step) and step
  local first = convert.to_output(a, d, nil, "for: the initial value")
  local last = is_graph(b) and convert.to_output(b) or b
  local sign = not up and convert.to_output(step) or nil
  local sig = loop(self, info, state, nil, { first }, function(i)
    if up then
      if up >= 0 then return f.less_equal(i, last) end
      return f.greater_equal(i, last)
    end
    return f.where(f.greater(sign, 0), f.less_equal(i, last), f.logical_and(f.less(sign, 0), f.greater_equal(i, last)))
  end, true, function(i)
    local r = part(body, i)
    return r, { f.add(i, sign or step) }
  end)
  return go_on(self, info, state, rest, sig)
end

-- ---- rows -----------------------------------------------------------------------------------------------------------
local Each = { __name = 'dflow.Each' }
M.Each = Each

--- The next row, where Lua iterates: `for v in df.each(x)` without autograph, or over what is no Output.
Each.__call = function(each)
  local list = each.list
  local n = #list
  local rows = {}
  for i, x in ipairs(list) do
    local count
    if errors.is_data(x) then count = #x
    else
      local shape = x.shape
      count = shape and shape[1] or -1
      if count < 0 then
        errors.bad('df.each: how many rows there are is known when the graph runs: df.autograph(fn), `:autograph on` '
                   .. 'and `dflow --autograph` make a loop '
                   .. 'of `for v in df.each(x)`, and df.map_fn(fn, x) goes over rows')
      end
    end
    if each.at >= count then return nil end
    if errors.is_data(x) then rows[i] = x[each.at + 1] else rows[i] = is_graph(x) and x[each.at] or x:at(each.at) end
  end
  each.at = each.at + 1
  return unpack(rows, 1, n)
end

--- df.each(x, …): `for v in df.each(x)` goes over the rows of x, its axis 0; of several, side by side.
function M.each(...)
  local list = { ... }
  if #list == 0 then errors.bad('df.each: what it goes over is missing') end
  for i, x in ipairs(list) do
    if not is_graph(x) and not values.is_value(x) then
      errors.bad('df.each: %s was given, an Output, a Tensor or a table is expected', errors.describe(x))
    end
    local shape = not errors.is_data(x) and type(x) == 'table' and x.shape or nil
    if type(x) ~= 'table' or shape and #shape == 0 then
      errors.bad('df.each goes over axis 0; argument %d is a scalar', i)
    end
  end
  return setmetatable({ list = list, at = 0 }, Each)
end

--- `for … in it do body(…) end rest()`
function Unit:in_(k, it, body, state, rest)
  local info = self.infos[k]
  local next_row, over, at, closing = it[1], it[2], it[3], it[4]
  local staged_rows = false
  if getmetatable(next_row) == Each then
    for _, x in ipairs(next_row.list) do staged_rows = staged_rows or is_graph(x) end
  end
  if not staged_rows then
    if is_graph(next_row) then
      errors.bad('`for … in` goes over what an iterator gives, and an Output was given: write for v in df.each(x) do')
    end
    return counted(self, info, state, rest, body, function(each)
      while true do
        local row = pack(next_row(over, at))
        at = row[1]
        if at == nil or each(unpack(row, 1, row.n)) then break end
      end
      local close = closing ~= nil and getmetatable(closing)
      if close and close.__close then close.__close(closing, nil) end
    end)
  end
  local arrays, n = {}, nil
  for i, x in ipairs(next_row.list) do
    x = convert.to_output(x)
    n = n or f.dim(x, 0)
    arrays[i] = tensor_array.new(x.dtype, n):unstack(x)
  end
  local sig = loop(self, info, state, nil, { convert.constant(n.graph, 0, dtypes.INT32) },
                   function(i) return f.less(i, n) end, true, function(i)
    local rows = {}
    for j, ta in ipairs(arrays) do rows[j] = ta:read(i) end
    local r = part(body, unpack(rows, 1, #rows))
    return r, { f.add(i, 1) }
  end)
  return go_on(self, info, state, rest, sig)
end

-- ---- operators ------------------------------------------------------------------------------------------------------
for _, name in ipairs{ 'and_', 'or_', 'choose', 'not_', 'eq', 'ne', 'lt', 'le', 'gt', 'ge' } do
  local fn = values[name]
  Unit[name] = function(_, a, b, c, d) return fn(a, b, c, d) end
end

return M
