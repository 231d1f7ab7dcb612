--- Boxes of a picture's model for what the nodes are parts of: layers, optimizers and name scopes; and boxes that stay
-- closed, so that a picture of a thousand nodes has some forty.
--
-- A layer's call and an optimizer's step note which nodes they built (graph.grouped), and in the box of the gradients
-- each layer has a box for its own; any other node belongs to the name scope that its name begins with. A closed box is
-- one item of the box around it, with the edges of all that is in it: {kind = 'op', closed = the box, op = its title,
-- count = how many nodes, members = which}. Equal closed boxes beside each other are one, `LSTMCell × 3`.
local registry = require 'dflow.front.registry'

local M = {}
local unpack = table.unpack or unpack

M.MANY = 40                  -- items of a picture from which on boxes are closed
local ALIKE = 3              -- boxes made alike, from so many on they are one

-- of a loop or cond: no level of their own
local parts = { ['do'] = true, test = true, ['then'] = true, ['else'] = true }

local FOR_GRADIENT = 'for the gradient'

local function split(path)
  local list = {}
  for part in path:gmatch '[^/]+' do list[#list + 1] = part end
  return list
end

-- ---- scopes -------------------------------------------------------------------------------------------------------
--- By node: the innermost group that it was built in; of what is part of a node's gradient, the gradient of that node's
-- group. Groups come in the order in which they were begun.
-- @param groups       of the graph: {first, last, path} each
-- @param gradient_of  of a node: the node before it of whose gradient it is a part; -1: it is part of none
function M.by_node(groups, total, gradient_of)
  local of, gradients = {}, {}
  for _, group in ipairs(groups or {}) do
    local around = group.unnamed and of[group.first]
    if around then group = { first = group.first, last = group.last, path = around.path .. '/' .. group.path } end
    for id = group.first, math.min(group.last, total - 1) do of[id] = group end
  end
  for id = 0, next(of) and total - 1 or -1 do
    local forward = of[gradient_of(id)]
    if forward then
      gradients[forward] = gradients[forward] or { path = 'gradients/' .. forward.path, gradient = true }
      of[id] = gradients[forward]
    end
  end
  return of
end

--- Where an item stands below a loop or cond of this name (nil: the top), as a list of names.
-- @param own_scope  others' names begin with its name: it is in the box of that, with them
local function path_of(name, group, around, own_scope)
  if group and group ~= (around and around.group) then
    local list, from = {}, 1
    local own = split(group.path)
    local outer = around and around.group and split(around.group.path) or group.gradient and around and { own[1] } or {}
    while outer[from] and outer[from] == own[from] do from = from + 1 end
    for i = from, #own do list[#list + 1] = own[i] end
    return list
  end
  local list = split(name)
  if not own_scope then list[#list] = nil end
  for i, part in ipairs(around and split(around.name) or {}) do
    if list[1] ~= part then return i == 1 and list or {} end
    table.remove(list, 1)
  end
  return list
end

local function first_node(item)
  if not item.items then return item.id or math.huge end
  local least = math.huge
  for _, inner in ipairs(item.items) do least = math.min(least, first_node(inner)) end
  return least
end

--- Puts the items of a box, and of the boxes in it, into boxes by what they are parts of.
-- @param of      by node: its group
-- @param around  the loop or cond that the box is in: {name, group, pass}; nil at the top. What a gradient built in it,
--                where it is none itself, is what that keeps of it
local function nest(box, of, around, scopes)
  local items, made = box.items, {}
  box.items = {}
  local function scope(path)
    local at, key = box, ''
    for _, part in ipairs(path) do
      key = key .. '/' .. part
      if not made[key] then
        made[key] = { kind = 'scope', title = part, items = {}, notes = {}, parent = at }
        table.insert(at.items, made[key])
      end
      at = made[key]
    end
    return at
  end
  for _, item in ipairs(items) do
    local flow = item.flow and type(item.flow) == 'table' and item.flow
    local group = of[first_node(item)]
    local stays = parts[item.kind] or item.kind == 'variable' or item.kind == 'result' or item.kind == 'test'
      or item.kind == 'device'
      or item.kind == 'forward' or item.kind == 'gradient'
    local saves = around and around.pass == 0 and (item.pass or 0) > 0 or item.kept
    local own_scope = not item.items and scopes[item.name]
    local into = saves and scope{ FOR_GRADIENT } or stays and box
      or scope(path_of(flow and flow.name or item.name or item.title, group, around, own_scope))
    if item.items then
      item.parent = into
      nest(item, of, flow and { name = flow.name, group = group, pass = flow.pass } or item.kind == 'frame'
           and { name = item.title, group = group } or around, scopes)
    else item.box = into end
    table.insert(into.items, item)
  end
end

--- Boxes with one thing in them go, and that takes their place.
local function unwrap(box)
  for i, item in ipairs(box.items) do
    if item.items then
      unwrap(item)
      if item.kind == 'scope' and #item.items == 1 then
        local one = item.items[1]
        if one.items then one.parent = box else one.box = box end
        if one.kind == 'scope' then one.title = item.title .. '/' .. one.title end
        box.items[i] = one
      end
    end
  end
end

--- A variable and what reads it are one node, with the type of its value.
local function join_reads(model)
  local gone, kept, edges = {}, {}, {}
  for _, n in ipairs(model.nodes) do
    local handle = registry.about(n.op, 'reads') and #n.args == 1 and #n.outs == 1 and n.args[1].node
    if handle and handle.args and #handle.args == 0 and handle.box and not n.decides then
      gone[n], handle.reads = handle, n.outs
    else kept[#kept + 1] = n end
  end
  for _, n in ipairs(kept) do
    if n.reads then n.outs, n.op_shown = n.reads, 'Variable' end
    for _, a in ipairs(n.args or {}) do a.node = gone[a.node] or a.node end
  end
  local once = {}
  for _, e in ipairs(model.edges) do
    if gone[e.from] and e.kind == 'data' then e.from = gone[e.from] end
    local key = e.kind ~= 'data' and e or tostring(e.from) .. tostring(e.to)
    if not gone[e.to] and not gone[e.from] and not (e.from.reads and once[key]) then
      once[key] = true
      edges[#edges + 1] = e
    end
  end
  local function walk(box)
    local items = {}
    for _, item in ipairs(box.items) do
      if item.items then walk(item) end
      if not gone[item] then items[#items + 1] = item end
    end
    box.items = items
  end
  walk(model.top)
  model.nodes, model.edges = kept, edges
end

--- item.kept of what a gradient built for a loop that is no gradient's, to keep values of it.
local function find_kept(edges)
  local function loop_of(item)
    local box = item.box
    while box and type(box.flow) ~= 'table' do box = box.parent end
    return box
  end
  for _, e in ipairs(edges) do
    local loop = (e.from.pass or 0) > 0 and loop_of(e.to)
    if loop and loop.flow.pass == 0 and loop_of(e.from) ~= loop then e.from.kept = true end
  end
end

--- @param of  by node: the group that it was built in, M.by_node
function M.nest(model, of)
  join_reads(model)
  find_kept(model.edges)
  local scopes = {}
  for _, n in ipairs(model.nodes) do
    local name = n.name or ''
    for at in name:gmatch '()/' do scopes[name:sub(1, at - 1)] = true end
  end
  nest(model.top, of, nil, scopes)
  unwrap(model.top)
end

-- ---- what is asked for --------------------------------------------------------------------------------------------
local function each_node(box, visit)
  for _, item in ipairs(box.items) do if item.items then each_node(item, visit) else visit(item) end end
end

local function neighbours(model)
  local list = {}
  local function join(a, b)
    list[a] = list[a] or {}
    table.insert(list[a], b)
  end
  for _, e in ipairs(model.edges) do
    join(e.from, e.to)
    join(e.to, e.from)
  end
  return list
end

--- Leaves the nodes of `kept`, {node = 'kept' or 'beside'}.
local function prune(model, kept)
  local function walk(box)
    local items = {}
    for _, item in ipairs(box.items) do
      if item.items then
        walk(item)
        if #item.items > 0 then items[#items + 1] = item end
      elseif kept[item] then
        item.neighbour = kept[item] == 'beside' or nil
        items[#items + 1] = item
      end
    end
    box.items = items
  end
  walk(model.top)
  model.asked = true
  local edges = {}
  for _, e in ipairs(model.edges) do
    if kept[e.from] and kept[e.to] and not (kept[e.from] == 'beside' and kept[e.to] == 'beside') then
      edges[#edges + 1] = e
    end
  end
  model.edges = edges
end

local function is_called(text, word) return text and text:lower():find(word:lower(), 1, true) ~= nil end

--- The boxes and nodes whose names have the word in them, with what is next to them. False where there is none.
function M.only(model, word)
  local kept, any = {}, false
  local function keep(n) kept[n], any = 'kept', true end
  local function walk(box)
    for _, item in ipairs(box.items) do
      if item.items then
        if not parts[item.kind] and is_called(item.title, word) then each_node(item, keep) else walk(item) end
      elseif is_called(item.variable or item.name, word) or is_called(item.op, word) then keep(item) end
    end
  end
  walk(model.top)
  local next_to = neighbours(model)
  local found = {}
  for n in pairs(kept) do found[#found + 1] = n end
  for _, n in ipairs(found) do for _, other in ipairs(next_to[n] or {}) do kept[other] = kept[other] or 'beside' end end
  if any then prune(model, kept) end
  return any
end

--- The node of this name and what is at most `steps` edges from it. False where there is none.
function M.around(model, name, steps)
  local kept, reached = {}, {}
  each_node(model.top, function(n)
    if n.name == name or n.variable == name then
      kept[n] = 'kept'
      reached[#reached + 1] = n
    end
  end)
  if #reached == 0 then return false end
  local next_to = neighbours(model)
  for step = 1, steps do
    local more = {}
    for _, n in ipairs(reached) do
      for _, other in ipairs(next_to[n] or {}) do
        if not kept[other] then
          kept[other] = step == steps and 'beside' or 'kept'
          more[#more + 1] = other
        end
      end
    end
    reached = more
  end
  for n in pairs(kept) do if n.name == name or n.variable == name then n.centre = true end end
  prune(model, kept)
  return true
end

-- ---- open and closed ----------------------------------------------------------------------------------------------
--- What a box is made of, in short: how many nodes, of which ops; alike boxes have it in common.
local function describe(box)
  local count, ops, pass = 0, {}, math.huge
  each_node(box, function(n)
    count, pass = count + (n.count or 1), math.min(pass, n.pass or math.huge)
    ops[#ops + 1] = n.op
  end)
  table.sort(ops)
  box.count, box.made_of, box.pass = count, table.concat(ops, ' '), pass
end

local function all_boxes(box, depth, visit)
  for _, item in ipairs(box.items) do
    if item.items then
      local own = parts[item.kind] and depth or depth + 1
      visit(item, own)
      all_boxes(item, own, visit)
    end
  end
end

local function base(title) return (title:gsub('_?%d+$', ''):gsub('_%d+/', '/')) end

--- Boxes beside each other that are made alike: one of them stands for all, but where box.apart says that each is
-- shown.
local function find_alike(box)
  local by = {}
  for _, item in ipairs(box.items) do
    if item.items and not parts[item.kind] then
      local key = base(item.title) .. '|' .. item.made_of
      by[key] = by[key] or {}
      table.insert(by[key], item)
    end
  end
  for _, list in pairs(by) do
    if #list >= ALIKE and not box.apart then
      list[1].times, list[1].title = #list, base(list[1].title)
      for _, other in ipairs(list) do other.stands = list[1] end
    end
  end
  for _, item in ipairs(box.items) do if item.items and not item.stands then find_alike(item) end end
end

--- Opens the boxes that lie least deep, small ones first, while there is room for what is in them; those of gradients
-- and optimizers last, and not at all where there is much that was not asked for. A box that is all there is opens.
local function open_while_room(top, asked)
  local much = not asked and top.count > 3 * M.MANY
  local visible, waiting = 0, {}
  local function add(box, depth, late)
    local alike = {}
    for _, item in ipairs(box.items) do
      visible = visible + (alike[item.stands or item] and 0 or 1)
      alike[item.stands or item] = true
      if item.items and not item.stands then
        waiting[#waiting + 1] = { box = item, depth = parts[item.kind] and depth or depth + 1, late = late or item.late
                                  or false }
      end
    end
  end
  local function size(box)
    local alike, n = {}, 0
    for _, item in ipairs(box.items) do
      n = n + (alike[item.stands or item] and 0 or 1)
      alike[item.stands or item] = true
    end
    return n
  end
  add(top, 0)
  while #waiting > 0 do
    table.sort(waiting, function(a, b)
      if a.late ~= b.late then return b.late end
      if a.depth ~= b.depth then return a.depth < b.depth end
      if #a.box.items ~= #b.box.items then return #a.box.items < #b.box.items end
      return a.box.first < b.box.first
    end)
    local opened
    for i, w in ipairs(waiting) do
      if visible == 1 or not (w.late and much) and visible + size(w.box) - 1 <= M.MANY then
        table.remove(waiting, i)
        visible, w.box.open, opened = visible - 1, true, true
        add(w.box, w.depth, w.late)
        break
      end
    end
    if not opened then return end
  end
end

--- Marks the boxes of which others take no value, and for which others wait: what optimizers do.
local function find_steps(edges)
  local takes, waits = {}, {}
  for _, e in ipairs(edges) do
    local inside = {}
    local box = e.to.box
    while box do
      inside[box] = true
      box = box.parent
    end
    box = e.from.box
    while box and not inside[box] do
      if e.kind == 'control' then waits[box] = true else takes[box] = true end
      box = box.parent
    end
  end
  for box in pairs(waits) do if not takes[box] and box.kind == 'scope' then box.late = true end end
end

--- What goes from an open box to a closed one of a gradient or an optimizer, as one edge: it comes from all of a layer,
-- as a rule.
local function bundled(edges)
  local function around(box, item)
    while item do
      if item == box then return true end
      item = item.parent or item.box
    end
    return false
  end
  local of, out = {}, {}
  for _, e in ipairs(edges) do
    local box = e.to.closed and e.to.closed.late and e.from.box
    while box and box.parent and not around(box.parent, e.to) do box = box.parent end
    if box and box.parent and not around(box, e.to) and e.kind ~= 'back' then
      of[e.to] = of[e.to] or {}
      local one = of[e.to][box]
      if not one then
        of[e.to][box] = e
        out[#out + 1] = e
      else
        if (e.from.id or 0) > (one.from.id or 0) then one.from = e.from end
        one.kind, one.bundle = 'data', (one.bundle or 1) + 1
      end
    else out[#out + 1] = e end
  end
  return out
end

--- Draws `shown[n]` for n: what edges there are between those.
local function joined(edges, shown)
  local list, known = {}, {}
  for _, e in ipairs(edges) do
    local from, to = shown[e.from] or e.from, shown[e.to] or e.to
    local changed = from ~= e.from or to ~= e.to
    if from ~= to then
      known[from] = known[from] or {}
      local key = tostring(to) .. e.kind
      local same = changed and known[from][key]
      if not same then
        known[from][key] = changed and e or nil
        e.from, e.to = from, to
        if changed then e.side = nil end
        list[#list + 1] = e
      end
    end
  end
  return list
end

--- Puts one closed box in the place of each list of nodes that are in one box: {title =, nodes =}.
local function stand_for(model, lists)
  local shown = {}
  for _, list in ipairs(lists) do
    local nodes = list.nodes
    local one = { kind = 'op', op = list.title, title = list.title, name = list.title, outs = {}, args = {}, after = {},
                  closed = { kind = 'scope', title = list.title, items = nodes, notes = {} }, count = 0, members = {},
                  attrs = '', notes = {}, box = nodes[1].box, id = nodes[1].id }
    for _, n in ipairs(nodes) do
      shown[n], one.count = one, one.count + (n.count or 1)
      for _, member in ipairs(n.members or { n }) do table.insert(one.members, member) end
    end
  end
  local function replace(items)
    local kept, standing = {}, {}
    for _, item in ipairs(items) do
      local one = shown[item] or item
      if item.items then item.items = replace(item.items) end
      if not standing[one] then kept[#kept + 1] = one end
      standing[one] = true
    end
    return kept
  end
  model.top.items, model.nodes, model.edges = replace(model.top.items), replace(model.nodes), joined(model.edges, shown)
end

local function in_order(nodes)
  local list = {}
  for i, n in ipairs(nodes) do list[i] = n end
  table.sort(list, function(a, b) return (a.id or 0) < (b.id or 0) end)
  return list
end

--- Of nodes in one box that have one op and are as many edges from what comes first, one stands for all: variables'
-- first values, an optimizer's updates.
function M.fold_alike(model)
  local far, into, by, lists = {}, {}, {}, {}
  for _, e in ipairs(model.edges) do
    into[e.to] = into[e.to] or {}
    if e.kind ~= 'back' then table.insert(into[e.to], e.from) end
  end
  for _, n in ipairs(in_order(model.nodes)) do
    far[n] = 0
    for _, from in ipairs(into[n] or {}) do far[n] = math.max(far[n], (far[from] or -1) + 1) end
    if n.id and not n.closed and (n.kind or 'op') == 'op' then
      local key = tostring(n.box) .. n.op .. '|' .. far[n]
      by[key] = by[key] or {}
      table.insert(by[key], n)
      if #by[key] == ALIKE then lists[#lists + 1] = { nodes = by[key] } end
    end
  end
  for i = #lists, 1, -1 do
    local nodes = lists[i].nodes
    lists[i].title = ('%s × %d'):format(nodes[1].op, #nodes)
    if #nodes == #model.nodes then table.remove(lists, i) end
  end
  stand_for(model, lists)
end

--- Cuts what a box holds of more than `most` nodes into parts, in the order in which they were built.
function M.cut(model, most)
  local of, lists = {}, {}
  for _, n in ipairs(in_order(model.nodes)) do
    of[n.box or 0] = of[n.box or 0] or {}
    table.insert(of[n.box or 0], n)
  end
  for _, nodes in pairs(of) do
    local size = math.max(M.MANY, math.ceil(#nodes / M.MANY))
    for first = 1, #nodes > most and #nodes or 0, size do
      local part = { unpack(nodes, first, math.min(first + size - 1, #nodes)) }
      local last = part[#part]
      lists[#lists + 1] = { nodes = part, title = ('%s … %s'):format(part[1].name or part[1].op, last.name or last.op) }
    end
  end
  table.sort(lists, function(a, b) return (a.nodes[1].id or 0) < (b.nodes[1].id or 0) end)
  stand_for(model, lists)
end

--- Closes boxes: those at `depth` and below, or, without it, as many as it takes.
function M.close(model, depth, title_of)
  local top = model.top
  describe(top)
  if not depth and #model.nodes <= M.MANY then return end
  all_boxes(top, 0, function(box, at)
    describe(box)
    box.first = first_node(box)
    if depth then box.open = at < depth end
    box.late = box.kind == 'scope' and (box.pass or 0) > 0 or box.title:find '^gradients' ~= nil
  end)
  find_steps(model.edges)
  find_alike(top)
  if not depth then open_while_room(top, model.asked) end
  local shown, nodes = {}, {}
  local function close(box)                     -- what is drawn in the place of a closed box
    local item = { kind = 'op', op = title_of(box), title = box.title, name = box.title, where = box.where,
                   closed = box, times = box.times, count = box.count, outs = {}, args = {}, after = {}, members = {},
                   attrs = '', notes = box.notes, box = box.parent, id = box.first, saved = box.saved }
    return item
  end
  local function hide(box, item)
    each_node(box, function(n)
      shown[n] = item
      table.insert(item.members, n)
    end)
  end
  local standing = {}
  local function walk(box)
    local items = {}
    for _, item in ipairs(box.items) do
      if not item.items then
        items[#items + 1], nodes[#nodes + 1], shown[item] = item, item, item
      elseif item.open and not item.stands then
        walk(item)
        items[#items + 1] = item
      else
        local of = item.stands or item
        if not standing[of] then
          standing[of] = close(of)
          items[#items + 1], nodes[#nodes + 1] = standing[of], standing[of]
        end
        hide(item, standing[of])
      end
    end
    box.items = items
  end
  walk(top)
  model.edges, model.nodes, model.closed = joined(model.edges, shown), nodes, true
  if #nodes > M.MANY and next(standing) then M.fold_alike(model) end
  model.edges = bundled(model.edges)
end

return M
