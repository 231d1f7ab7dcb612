--- What may stand behind a command at the prompt: words, runs, frames and nodes, each with a line of help.
--
-- A function is given the rest of the line up to the cursor and add(word, about); nothing changes by its looking.
local core = require 'dflow.backend'
local graph = require 'dflow.front.graph'
local help = require 'dflow.docs.help'
local inspector = require 'dflow.repl.inspector'
local session = require 'dflow.repl.session'
local values = require 'dflow.repl.values'

local M = {}
local NODES = 2000           -- names of nodes that are looked through

-- ---- what there is ------------------------------------------------------------------------------------------------
--- Names of the last nodes of a graph, with their ops.
function M.nodes(add, g, outputs)
  for node = math.max(0, g:size() - NODES), g:size() - 1 do
    local name, kind = core.node_name_of(g.handle, node), core.node_type(g.handle, node)
    add(name, kind)
    if outputs and core.node_outputs(g.handle, node) > 0 then add(name .. ':0', kind) end
  end
end

local function graph_in_view()
  local h = inspector.in_view()
  return h and h.session.graph or graph.current()
end

--- Frames of the run in view, if it is paused: `while`, and with `iterations` also `while:17` for each that is open.
local function frames(add, iterations, before)
  local h = inspector.in_view()
  if not h or h:state() ~= 'paused' then return end
  for _, f in ipairs(h:frames()) do
    if f.parent then
      add((before or '') .. f.tag, f.where or 'loop')
      if iterations then
        for n = f.first, math.min(f.next - 1, f.first + 40) do
          add(('%s%s:%d'):format(before or '', f.tag, n), f.where or 'loop')
        end
      end
    end
  end
end

--- The session's locals that hold an Output or an operation.
local function outputs(add)
  for _, name in ipairs(session.locals.names()) do
    local v = session.locals.get(name)
    local mt = getmetatable(v)
    if mt == graph.Output or mt == graph.Operation then add(name, function() return values.brief(v) end) end
  end
  for name, v in next, _G do
    local mt = type(v) == 'table' and getmetatable(v)
    if type(name) == 'string' and (mt == graph.Output or mt == graph.Operation) then
      add(name, function() return values.brief(v) end)
    end
  end
end

local function words(...)
  local list = { ... }
  return function(_, add)
    for i = 1, #list, 2 do add(list[i], list[i + 1]) end
  end
end

-- ---- of each command ------------------------------------------------------------------------------------------------
local function value_at(rest, add)
  local node = rest:match('^(.-)@[^%s@]*$')
  if node then return frames(add, true, node .. '@') end
  outputs(add)
  M.nodes(add, graph_in_view())
end

local function break_at(rest, add)
  local key = rest:match('%f[%w](%a+)=%S*$')
  if key == 'op' or key == 'name' then
    local seen = {}
    M.nodes(function(name, kind)
      add(key .. '=' .. name, kind)
      if key == 'op' and not seen[kind] then
        seen[kind] = true
        add('op=' .. kind, help.about(kind))
      end
    end, graph_in_view())
  elseif key == 'frame' then
    frames(add, true, 'frame=')
  elseif rest:find('%f[%w]frame%s+%S*$') then
    frames(add, true)
  else
    for _, o in ipairs(help.options('Run:break_at')) do
      if o.type == 'bool' then add(o.name, o.about) elseif o.type ~= 'function' then add(o.name .. '=', o.about) end
    end
    add('if', 'a Lua condition on v, the value')
    frames(add, true)
    M.nodes(add, graph_in_view())
  end
end

--- By command: function(rest, add).
M.of = {
  ['break'] = break_at, why = value_at, whynot = value_at, value = value_at,
  tokens = function(_, add) M.nodes(add, graph_in_view()) end,
  step = words('token', 'one token at one node', 'node', 'one live node',
               'iteration', 'until the frame is one iteration further', 'frame', 'until a frame opens or ends'),
  record = words('on', 'the next runs keep the values of their tokens', 'off', 'only the tokens are kept'),
  history = words('all', 'of earlier sessions too'),
  attach = function(_, add)
    for i = 1, inspector.count do
      local h = inspector.handles[i]
      if h then add(tostring(i), h:state()) end
    end
  end,
}

--- Commands whose line goes on as Lua behind these words.
M.lua = { time = true, timeit = true, prof = true, graph = true, saved = true, trace = true }

return M
