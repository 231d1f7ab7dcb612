--- Where the nodes of a run's graph stand on the page: rows from above to below, a loop's frame as a box among its parent's nodes.
--
-- A node stands below all that ran before it and feeds it; an edge to something that ran earlier is the way back of a loop and moves
-- nothing. A frame's box is laid out by itself first and then takes its place like one large node.
local M = {}
local HEIGHT, GAP, ROW, PAD, TITLE = 26, 14, 30, 14, 22

local function width_of(text) return math.max(60, 7 * #text:gsub('[\128-\191]', '') + 16) end

--- What a node's box shows: its label, or the part of its name behind the last slash.
local function label(n) return n.label or n.name:match('([^/]*)$') end

--- @param data  {nodes = {{name, scope}, …} in the order in which they first ran, edges = {{from, to}, …} from 0, scopes = {{id, parent}, …}}
-- @return {nodes = {{x, y, w, h}, …}, scopes = {[id] = {x, y, w, h, depth}}, width, height}
function M.place(data)
  local scopes, parent = {}, {}
  for _, s in ipairs(data.scopes) do
    scopes[s.id] = { id = s.id, items = {}, depth = 0 }
    parent[s.id] = s.id ~= 0 and (s.parent or 0) or nil
  end
  local function chain(id)               -- a scope and all around it
    local list = {}
    while id do
      list[#list + 1] = id
      id = parent[id]
    end
    return list
  end
  -- every scope's items: its own nodes, and the scopes directly inside
  local item_of_node, item_of_scope = {}, {}
  local function add(scope, item)
    local list = scopes[scope].items
    list[#list + 1] = item
    item.scope = scope
    return item
  end
  for i, n in ipairs(data.nodes) do
    if not scopes[n.scope] then scopes[n.scope], parent[n.scope] = { id = n.scope, items = {}, depth = 0 }, 0 end
    local around = chain(n.scope)
    for k = 1, #around - 1 do
      if not item_of_scope[around[k]] then item_of_scope[around[k]] = add(around[k + 1], { scope_inside = around[k], order = i }) end
    end
    item_of_node[i] = add(n.scope, { node = i, order = i, w = width_of(label(n)), h = HEIGHT })
  end
  -- edges, lifted to the innermost scope that holds both ends
  for _, e in ipairs(data.edges) do
    local from, to = e[1] + 1, e[2] + 1
    local a, b = chain(data.nodes[from].scope), chain(data.nodes[to].scope)
    local inside = {}
    for k, id in ipairs(a) do inside[id] = k end
    for k, id in ipairs(b) do
      if inside[id] then
        local x = inside[id] == 1 and item_of_node[from] or item_of_scope[a[inside[id] - 1]]
        local y = k == 1 and item_of_node[to] or item_of_scope[b[k - 1]]
        if x ~= y and x.order < y.order then
          y.above = y.above or {}
          y.above[#y.above + 1] = x
        end
        break
      end
    end
  end
  local function row_of(item)
    if item.row then return item.row end
    local row = 0
    for _, above in ipairs(item.above or {}) do row = math.max(row, row_of(above) + 1) end
    item.row = row
    return row
  end
  local measure
  function measure(id, depth)
    local s, rows, last = scopes[id], {}, 0
    s.depth = depth
    for _, item in ipairs(s.items) do
      if item.scope_inside then
        measure(item.scope_inside, depth + 1)
        item.w, item.h = scopes[item.scope_inside].w, scopes[item.scope_inside].h
      end
      local row = row_of(item) + 1
      rows[row] = rows[row] or {}
      table.insert(rows[row], item)
      last = math.max(last, row)
    end
    local y, widest = id == 0 and PAD or PAD + TITLE, 120
    for r = 1, last do
      local w = -GAP
      for _, item in ipairs(rows[r] or {}) do w = w + item.w + GAP end
      widest = math.max(widest, w)
    end
    for r = 1, last do
      local row = rows[r] or {}
      local w, h = -GAP, 0
      for _, item in ipairs(row) do
        w = w + item.w + GAP
        h = math.max(h, item.h)
      end
      local x = PAD + (widest - w) / 2
      for _, item in ipairs(row) do
        item.x, item.y = x, y + (h - item.h) / 2
        x = x + item.w + GAP
      end
      if #row > 0 then y = y + h + ROW end
    end
    s.w, s.h = widest + 2 * PAD, y - ROW + PAD
  end
  measure(0, 0)
  local out = { nodes = {}, scopes = {}, width = scopes[0].w, height = scopes[0].h }
  local function settle(id, x, y)
    local s = scopes[id]
    out.scopes[id] = { x = x, y = y, w = s.w, h = s.h, depth = s.depth }
    for _, item in ipairs(s.items) do
      if item.node then out.nodes[item.node] = { x = x + item.x, y = y + item.y, w = item.w, h = item.h }
      else settle(item.scope_inside, x + item.x, y + item.y) end
    end
  end
  settle(0, 0, 0)
  return out
end

return M
