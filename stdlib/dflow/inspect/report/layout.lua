--- Where the nodes of a run's graph stand on the page, a loop's frame as a box around its nodes: draw/layout.lua, as report.lua has it.
--
-- A node stands below all that ran before it and feeds it; an edge to something that ran earlier is the way back of a loop. Large graphs
-- are laid out more simply, by grid.lua.
local grid = require 'dflow.inspect.report.grid'
local registry = require 'dflow.front.registry'
local draw = require 'dflow.draw.layout'

local M = {}
local HEIGHT, TITLE = 26, 24
M.many = 500            -- nodes of a large graph

local function width_of(text) return math.max(60, 7 * #text:gsub('[\128-\191]', '') + 16) end

--- What a node's box shows: its label, or the part of its name behind the last slash.
local function label(n) return n.label or n.name:match('([^/]*)$') end

--- @param data  {nodes = {{name, scope}, …} in the order in which they first ran, edges = {{from, to}, …} from 0, scopes = {{id, parent}, …}}
-- @return {nodes = {{x, y, w, h}, …}, scopes = {[id] = {x, y, w, h, depth}}, paths = {the way of each edge, '' in a large graph, …}, width, height}
function M.place(data)
  local known, boxes = {}, { [0] = { items = {}, depth = 0 } }
  for _, s in ipairs(data.scopes) do known[s.id] = s end
  local function box_of(id)
    local box = boxes[id]
    if not box then
      local s = known[id] or {}
      local parent = box_of(s.parent or 0)
      local title = (s.name or '') .. '  ' .. (s.where or '')
      box = { items = {}, parent = parent, depth = parent.depth + 1, title_h = TITLE, title_w = width_of(title) - 16 }
      table.insert(parent.items, box)
      boxes[id] = box
    end
    return box
  end
  local nodes, edges = {}, {}
  for i, n in ipairs(data.nodes) do
    local box = box_of(n.scope)
    nodes[i] = { w = width_of(label(n)), h = HEIGHT, box = box, first = registry.primitive(n.type) == 'Enter' }
    table.insert(box.items, nodes[i])
  end
  local taken = {}                                       -- how many come into each node
  for i, e in ipairs(data.edges) do
    local from, to = data.nodes[e[1] + 1], nodes[e[2] + 1]
    taken[to] = (taken[to] or 0) + 1
    edges[i] = { from = nodes[e[1] + 1], to = to, kind = e[1] >= e[2] and 'back' or 'data', slot = taken[to] }
    if registry.primitive(from.type) == 'Switch' then edges[i].side = e[3] == 1 and 'true' or 'false' end
  end
  for _, e in ipairs(edges) do e.slots = taken[e.to] end
  local large = #nodes > M.many
  if large then
    for _, box in pairs(boxes) do box.box = box.parent end
    grid.place(boxes, edges)
  else
    draw.place(boxes[0], edges)
  end
  local out = { nodes = nodes, scopes = {}, paths = {}, width = boxes[0].w, height = boxes[0].h }
  for id, box in pairs(boxes) do out.scopes[id] = { x = box.x, y = box.y, w = box.w, h = box.h, depth = box.depth } end
  for i, e in ipairs(edges) do out.paths[i] = large and '' or draw.way(e) end
  return out
end

return M
