--- Where the nodes of a run's graph stand on the page, a loop's frame as a box around its nodes: draw/layout.lua, as
-- report.lua has it.
--
-- A node stands below all that ran before it and feeds it; an edge to something that ran earlier is the way back of a
-- loop. A graph of many nodes is several pictures: in each, layers, scopes and loops are boxes, some of which are
-- closed (draw/groups.lua) and have a picture of their own. Where that is not enough for a page that answers at once,
-- what is alike is closed, and then parts.
local groups = require 'dflow.draw.groups'
local registry = require 'dflow.front.registry'
local draw = require 'dflow.draw.layout'

local M = {}
local HEIGHT, TITLE = 26, 24
M.MOST = 300            -- nodes of a picture

local function width_of(text) return math.max(60, 7 * #text:gsub('[\128-\191]', '') + 16) end

--- What a node's box shows: its label, or the part of its name behind the last slash.
local function label(n) return n.label or n.name:match('([^/]*)$') end

--- What a box's title says.
local function title_of(box) return box.title .. (box.times and ' × ' .. box.times or '') end

--- The boxes of a run's loops with the nodes in them, as draw/groups.lua has a model. only: by number, which nodes;
-- nil: all.
local function model_of(data, only)
  local known, top = {}, { items = {}, notes = {} }
  local boxes, nodes, model = { [0] = top }, {}, { top = top, nodes = {}, edges = {} }
  for _, s in ipairs(data.scopes) do known[s.id] = s end
  local function box_of(id)
    if not boxes[id] then
      local s = known[id] or {}
      local parent = box_of(s.parent or 0)
      boxes[id] = { kind = 'frame', title = s.name or '', where = s.where or '', id = id, items = {}, notes = {},
                    parent = parent }
      table.insert(parent.items, boxes[id])
    end
    return boxes[id]
  end
  for i, n in ipairs(data.nodes) do
    if not only or only[i] then
      nodes[i] = { w = width_of(label(n)), h = HEIGHT, box = box_of(n.scope),
                   first = registry.primitive(n.type) == 'Enter', number = i, id = n.id or i, op = n.type or '',
                   name = n.name, args = {}, outs = {} }
      table.insert(nodes[i].box.items, nodes[i])
      table.insert(model.nodes, nodes[i])
    end
  end
  for _, e in ipairs(data.edges) do
    local from, to = nodes[e[1] + 1], nodes[e[2] + 1]
    if from and to then
      local switch = registry.primitive(from.op) == 'Switch'
      table.insert(model.edges, { from = from, to = to, kind = e[1] >= e[2] and 'back' or 'data', side = switch
                                  and (e[3] == 1 and 'true' or 'false') or nil })
    end
  end
  return model
end

--- The open boxes of a picture, the outermost first, measured but for their place.
local function open_boxes(top)
  local list = { top }
  local function walk(box)
    for _, item in ipairs(box.items) do
      if item.items then
        item.depth, item.title_h = box.depth + 1, TITLE
        item.title_w = width_of(title_of(item) .. '  ' .. (item.where or '')) - 16
        list[#list + 1] = item
        walk(item)
      end
    end
  end
  top.depth = 0
  walk(top)
  return list
end

--- What is inside a layer or scope that is all there is takes its place.
local function unwrap(top)
  local one = top.items[1]
  while #top.items == 1 and one.kind == 'scope' do
    for _, item in ipairs(one.items) do
      if item.items then item.parent = top else item.box = top end
    end
    top.items, one = one.items, one.items[1]
  end
end

--- One picture. only: by number, which nodes; apart: boxes that are made alike are each shown.
-- @param of  by node: what it was built in (groups.by_node); nil: nothing is closed
-- @return {items, boxes, lines, width, height}: items {x, y, w, h, number of the node, or closed and members}, in the
--         order in which they ran first; boxes {x, y, w, h, depth, title, where, id}; lines {from, to: items, way}
local function picture(data, of, only, apart)
  local model = model_of(data, only)
  if of then
    groups.nest(model, of)
    if only then unwrap(model.top) end
    model.top.apart = apart
    groups.close(model, nil, title_of)
    if #model.nodes > M.MOST then groups.fold_alike(model) end
    if #model.nodes > M.MOST then groups.cut(model, M.MOST) end
  end
  local taken = {}                                       -- how many come into each node
  for _, item in ipairs(model.nodes) do
    if item.closed then item.w, item.h = width_of(item.op .. ' · ' .. item.count .. ' nodes'), HEIGHT end
  end
  for _, e in ipairs(model.edges) do
    taken[e.to] = (taken[e.to] or 0) + 1
    e.slot = taken[e.to]
  end
  for _, e in ipairs(model.edges) do e.slots = taken[e.to] end
  local top = model.top
  local boxes = open_boxes(top)
  draw.place(top, model.edges)
  for _, e in ipairs(model.edges) do e.way = draw.way(e) end
  return { items = model.nodes, boxes = boxes, lines = model.edges, width = top.w, height = top.h }
end

--- The pictures of a run's graph; the first is of all of it. A closed box that can be opened has the number of its
-- picture, item.view, and that has the number of the one around it, up.
-- @param data   {nodes = {{name, scope}, …} in the order in which they first ran, edges = {{from, to, port}, …} from 0,
--               scopes = {{id, parent}, …}}
-- @param of      by node: what it was built in (groups.by_node); nil: nothing is closed
-- @param merged  without the nodes that are `merged`
function M.pictures(data, of, merged)
  local list = {}
  local function add(only, n, title, up, apart)
    local own = picture(data, n > groups.MANY and of or nil, only, apart)
    own.title, own.up = title, up
    list[#list + 1] = own
    local number = #list
    for _, item in ipairs(own.items) do
      if item.closed and (#item.members < n or item.times) then
        local inside = {}
        for _, member in ipairs(item.members) do inside[member.number] = true end
        item.view = add(inside, #item.members, item.op, number, item.times)
      end
    end
    return number
  end
  local only, n = {}, 0
  for i, node in ipairs(data.nodes) do
    if not (merged and node.merged) then only[i], n = true, n + 1 end
  end
  add(n < #data.nodes and only or nil, n, 'the whole graph', nil)
  return list
end

return M
