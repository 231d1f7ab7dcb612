--- A run as one page that needs no network: opts.report = 'run.html' of df.run and df.start. The graph with its frames as nested boxes, a
-- slider over the tokens (back and forth, iterations in colours, dead ones visibly dead), memory and open iterations over
-- time, and the Lua source beside it. The page's own text is in report/page.lua, where things stand in report/layout.lua.
local errors = require 'dflow.errors'
local graph = require 'dflow.graph'
local trace = require 'dflow.trace'
local layout = require 'dflow.report.layout'
local page = require 'dflow.report.page'

local M = {}
local TOKEN, OPEN, END = 0, 2, 3
local MOST = 20000                 -- tokens that a page holds; the first ones of a longer run
local quote = trace.quote

local function json(v)
  local kind = type(v)
  if kind == 'string' then return quote(v) end
  if kind == 'number' then return v == math.floor(v) and ('%d'):format(v) or ('%.3f'):format(v) end
  if kind ~= 'table' then return tostring(v) end
  local parts = {}
  if #v > 0 or next(v) == nil then
    for i, x in ipairs(v) do parts[i] = json(x) end
    return '[' .. table.concat(parts, ',') .. ']'
  end
  local keys = {}
  for k in pairs(v) do keys[#keys + 1] = k end
  table.sort(keys)
  for i, k in ipairs(keys) do parts[i] = quote(k) .. ':' .. json(v[k]) end
  return '{' .. table.concat(parts, ',') .. '}'
end

--- The text of the files that nodes were built in, where they can be read: {['a.lua'] = {line, line, …}}.
local function sources(nodes)
  local files = {}
  for _, n in ipairs(nodes) do
    local path = n.source:match('^(.-):%d+$')
    if path and files[path] == nil then
      local file = io.open(path)
      local lines = {}
      if file then
        for line in file:lines() do
          lines[#lines + 1] = line
          if #lines == 2000 then break end
        end
        file:close()
      end
      files[path] = #lines > 0 and lines or false
    end
  end
  for path, lines in pairs(files) do if not lines then files[path] = nil end end
  return files
end

--- What the page shows of a run's log: nodes, edges, frames and tokens in the order in which they ran.
local function gather(h)
  local names, g = trace.names(h), h.session.graph
  local data = { nodes = {}, edges = {}, tokens = {}, scopes = {}, memory = {}, total = 0 }
  local place, scopes = {}, { [0] = { id = 0, name = '', where = '' } }
  local scope_of = {}                                    -- by frame
  trace.each(h, function(at, took, iteration, memory, node, frame, scope, kind, dead)
    if kind == OPEN then
      names.open(frame, node, iteration, scope)
      if not scopes[scope] then
        local s = names.scope(scope)
        scopes[scope] = { id = scope, name = s.name, where = s.where, parent = scope_of[node] or 0 }
      end
      scope_of[frame] = scope
    elseif kind == TOKEN then
      data.total = data.total + 1
      if data.total > MOST then return end
      local index = place[node]
      if not index then
        local n = names.node(node)
        data.nodes[#data.nodes + 1] = { id = node, name = n.name, type = n.type, source = n.source, scope = scope }
        index = #data.nodes
        place[node] = index
      end
      data.tokens[#data.tokens + 1] = { index - 1, iteration, dead and 1 or 0, math.floor(at / 1000), math.floor(took), names.tag(frame, iteration), frame }
      data.memory[#data.memory + 1] = memory
    elseif kind == END then
      scope_of[frame] = nil
    end
  end)
  for _, s in pairs(scopes) do data.scopes[#data.scopes + 1] = s end
  table.sort(data.scopes, function(a, b) return a.id < b.id end)
  -- edges between what ran; what only hands a value on is passed over
  for index, n in ipairs(data.nodes) do
    local op = graph.operation(g, n.id)
    local seen = {}
    local function from(o, depth)
      local at = place[o.node]
      if at then
        if not seen[at] then
          seen[at] = true
          data.edges[#data.edges + 1] = { at - 1, index - 1 }
        end
      elseif depth < 6 then
        for _, input in ipairs(graph.operation(g, o.node).inputs) do from(input, depth + 1) end
      end
    end
    for _, input in ipairs(op.inputs) do from(input, 0) end
  end
  return data
end

--- Writes the page. Called by h:wait() when opts.report was given.
function M.write(h, path)
  local file, why = io.open(path, 'w')
  if not file then errors.raise('invalid_argument', 'report: %s', why) end
  local data = gather(h)
  local where = layout.place(data)
  local shown = { nodes = {}, edges = data.edges, tokens = data.tokens, memory = data.memory, scopes = {}, total = data.total,
                  width = where.width, height = where.height, sources = sources(data.nodes), ok = h.ok, message = not h.ok and tostring(h.result) or nil }
  for i, n in ipairs(data.nodes) do
    local at = where.nodes[i]
    shown.nodes[i] = { name = n.name, type = n.type, source = n.source, x = at.x, y = at.y, w = at.w, h = at.h, scope = n.scope }
  end
  for i, s in ipairs(data.scopes) do
    local at = where.scopes[s.id]
    if at and s.id ~= 0 then shown.scopes[#shown.scopes + 1] = { name = s.name, where = s.where, x = at.x, y = at.y, w = at.w, h = at.h, depth = at.depth, order = i } end
  end
  file:write(page.head, json(shown), page.tail)
  file:close()
end

return M
