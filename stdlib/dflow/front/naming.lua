--- Names of Lua for what is in a graph: which variable, parameter or field holds an Output, a Variable or an operation.
--
-- They are found, not guessed: the objects themselves are looked for in globals, in the prompt's locals, in the locals
-- and upvalues of the functions that are being called, and in the fields of tables there (`model.w`). A function's
-- names come before those of its callers, these before globals, and a variable before a field; where two names stand
-- alike there is none. A loop's own nodes have the name of the body's parameter.
local core = require 'dflow.backend'
local graph = require 'dflow.front.graph'
local errors = require 'dflow.front.errors'

local M = {}
-- ranks: a function's is how many callers are between it and the run, a field's is half a step behind
local GLOBAL, LOOP = 1000, 2000
local MOST_FIELDS = 200                          -- of a table that are looked at

--- dflow.h's DF_ROLE_* of the nodes that a loop's variable became: Enter, Merge, Switch, NextIteration, Exit.
local OF_VARIABLE = { true, true, true, true, true }

--- The node and output that an object is: the graph, and 'node:index'; nil for what is none, or is not built.
local function place_of(v)
  local mt = getmetatable(v)
  if mt == graph.Output then return v.graph, rawget(v, 'node'), v.index end
  if mt == graph.Operation then return v.graph, rawget(v, 'node'), 0 end
  local name = type(mt) == 'table' and rawget(mt, '__name')
  local handle = (name == 'dflow.Variable' or name == 'dflow.TensorArray') and rawget(v, 'handle')
  if type(handle) == 'table' and getmetatable(handle) == graph.Output then
    return handle.graph, rawget(handle, 'node'), handle.index
  end
end

local function note(found, v, name, rank)
  local g, node, index = place_of(v)
  if not g or not node then return false end
  local of = found[g] or {}
  found[g] = of
  local key = node .. ':' .. index
  local known = of[key]
  if not known or rank < known.rank then of[key] = { name = name, rank = rank }
  elseif rank == known.rank and known.name ~= name then known.name = false end
  return true
end

local function is_name(name) return type(name) == 'string' and name:find '^[%a_][%w_]*$' and not name:find '^_+$' end

--- What a variable holds, and what the fields of a table in it hold.
local function look(found, name, v, seen, rank)
  if type(v) ~= 'table' or not is_name(name) or note(found, v, name, rank) then return end
  local mt = getmetatable(v)
  if (type(mt) == 'table' and rawget(mt, '__name') == 'dflow.Module') or seen[v] or v == _G then return end
  seen[v] = true
  local n = 0
  for key, field in next, v do
    n = n + 1
    if n > MOST_FIELDS then return end
    if type(field) == 'table' then
      if is_name(key) then note(found, field, name .. '.' .. key, rank + 0.5)
      elseif type(key) == 'number' then note(found, field, ('%s[%s]'):format(name, tostring(key)), rank + 0.5) end
    end
  end
end

local ours = debug.getinfo(1, 'S').source:match('^(.*)front[/\\]naming%.lua$') or '@'

--- Locals and upvalues of the user's functions that are being called.
local function look_at_stack(found, seen)
  local level = 3
  while true do
    local info = debug.getinfo(level, 'Sf')
    if not info then return end
    if info.what ~= 'C' and info.source:sub(1, #ours) ~= ours then
      for i = 1, 250 do
        local name, v = debug.getlocal(level, i)
        if not name then break end
        look(found, name, v, seen, level)
      end
      for i = 1, 250 do
        local name, v = debug.getupvalue(info.func, i)
        if not name then break end
        look(found, name, v, seen, level)
      end
    end
    level = level + 1
  end
end

--- Names of loop variables, by the nodes of the primitives that they became.
local function look_at_loops(found, g)
  local of = found[g] or {}
  found[g] = of
  if not g.parameters then return end
  local roles, names = core.flow_roles(g.handle), {}
  for exit, list in pairs(g.parameters) do names[roles[3 * exit + 2]] = list end
  for id = 0, core.graph_nodes(g.handle) - 1 do
    local list = OF_VARIABLE[roles[3 * id + 1]] and names[roles[3 * id + 2]]
    local name = list and list[roles[3 * id + 3] + 1]
    for index = 0, name and core.node_outputs(g.handle, id) - 1 or -1 do
      local key = id .. ':' .. index
      of[key] = of[key] or { name = name, rank = LOOP }
    end
  end
end

--- All names that are known now.
-- @param g      the graph whose loops are looked at, too
-- @param stack  also in the functions that are being called
-- @return       names, for M.label
function M.collect(g, stack)
  local found, seen = {}, {}
  if stack then look_at_stack(found, seen) end
  local session = package.loaded['dflow.repl.session']
  for _, name in ipairs(session and session.locals.names() or {}) do
    look(found, name, session.locals.get(name), seen, GLOBAL)
  end
  for name, v in next, _G do look(found, name, v, seen, GLOBAL) end
  look_at_loops(found, g)
  return { of = found[g], g = g }
end

--- The name of output `index` of a node; nil where it has none, or is called so in the graph.
function M.label(names, node, index)
  local known = names.of and names.of[node .. ':' .. (index or 0)]
  local name = known and known.name
  return name and name ~= core.node_name_of(names.g.handle, node) and name or nil
end

--- A node as people see it: `y (while/Exit_1)`, or its own name where it has no other.
function M.text(names, node, index)
  local name = core.node_name_of(names.g.handle, node)
  local label = M.label(names, node, index)
  return label and ('%s (%s)'):format(label, name) or name
end

--- A line with the names of its nodes: each node's where it is first mentioned, but for the types of ops, `Mul(x, y)`
-- and `Mul (Mul)`.
function M.line(names, line)
  if not names.by_name then
    names.by_name = {}
    for key in pairs(names.of or {}) do
      local node, index = key:match '^(%d+):(%d+)$'
      node, index = tonumber(node), tonumber(index)
      local label = M.label(names, node, index)
      if label then
        local name = core.node_name_of(names.g.handle, node)
        names.by_name[name .. ':' .. index] = label
        if index == 0 then names.by_name[name] = label end
      end
    end
  end
  local out, seen, at = {}, {}, 1
  while true do
    local first, last, word = line:find('(%a[%w_/.%-]*:?%d*)', at)
    if not first then break end
    local before, after = line:sub(first - 1, first - 1), line:sub(last + 1)
    local name = word:gsub(':$', '')
    local label = names.by_name[name]
    local inside = before:find '[%w_/.:`\27%[]' or after:find '^%(' or (before == '(' and after:find '^%)')
    if not label or inside or seen[name] then out[#out + 1] = line:sub(at, last)
    else
      seen[name] = true
      local twice = ' (' .. name .. ')'                         -- a node that is called as its op is
      if after:sub(1, #twice) == twice then last = last + #twice end
      out[#out + 1] = ('%s%s (%s)%s'):format(line:sub(at, first - 1), label, name, word:sub(#name + 1))
      local room = #line:match('^ *', last + 1)                   -- of a column, where what stands behind it stays
      if room > #label + 4 then last = last + #label + 3 end
    end
    at = last + 1
  end
  return table.concat(out) .. line:sub(at)
end

--- The error of a run, whose message names the placeholder that was not fed: the functions that asked for the run are
-- still being called. Its place is the line of the run, which is to be mended, not that of the placeholder.
function M.explain(e, g)
  if not errors.is(e) or type(e.message) ~= 'string' then return e end
  local name = e.message:match '^the placeholder `([^`]*)`.* was not fed'
  if not name then return e end
  local ok, label = pcall(function()
    return M.label(M.collect(g, true), g:op(name).node, 0)
  end)
  if ok and label then
    e.message = e.message:gsub('^the placeholder `', ('the placeholder %s (`')
      :format(label:gsub('%%', '%%%%')), 1):gsub('`,', '`),', 1)
  end
  if e.ran and e.source then
    e.message = ('%s; it was built at %s'):format(e.message, e.source)
    e.source, e.ran, e.traceback = e.ran, nil, core.callers() or false
  end
  return e
end

return M
