--- Where the nodes of a graph stand in a picture: rows from above to below, boxes within boxes, and ways for the edges
-- between them.
--
-- Each box is laid out by itself, the inner ones first, and takes its place around it like one large node. In a box
--   1. an item stands in a row below all that it takes its values from;
--   2. an edge that passes a row gets a place in it, and one that enters or leaves the box a port in its border; edges
--      from one value share both;
--   3. rows are put in order so that few edges cross, then moved so that edges are straight.
-- Edges bend between rows only, so none runs across a node. A loop's way back leaves below, goes up at the box's right
-- side and comes in from above.
local M = {}

local GAP, ROW, PAD, LANE = 16, 26, 14, 9       -- between nodes, between rows, inside a box, between ways back
local WIDEST = 1500                             -- a row that is wider is broken, unless there is very much in the box
local MANY = 2000                               -- cells of a box that is gone over less often
local huge, floor, max, min = math.huge, math.floor, math.max, math.min

-- ---- edges in the boxes that they pass ----------------------------------------------------------------------------
--- The box that holds both, the items of it that lead to each, and the boxes inside it on the way to b, outermost
-- first.
local function meet(a, b)
  local item_in = {}
  local item, box = a, a.box
  while box do
    item_in[box] = item
    item, box = box, box.parent
  end
  local way = {}
  item, box = b, b.box
  while not item_in[box] do
    table.insert(way, 1, box)
    item, box = box, box.parent
  end
  return box, item_in[box], item, way
end

local function port(box, side, e)
  local key = side .. e.kind .. (e.side or '')
  local ports = box.ports[key]
  if not ports then
    ports = {}
    box.ports[key] = ports
  end
  local p = ports[e.from]
  if not p then
    p = { port = side, of = box, cell = { w = 6, h = 0, port = side } }
    ports[e.from] = p
    table.insert(side == 'top' and box.tops or box.bottoms, p.cell)
  end
  return p
end

--- Cuts the edges into pieces, each in one box: from a node or port to a node or port.
local function cut(edges)
  local function piece(box, from, to, e, back)
    local known = box.known[from]
    if not known then
      known = {}
      box.known[from] = known
    end
    local key = to.port and to or e            -- edges that share both ends are drawn once
    if not known[key] then
      known[key] = { from = from, to = to, edge = e, back = back }
      box.pieces[#box.pieces + 1] = known[key]
    end
    e.pieces[#e.pieces + 1] = known[key]
  end
  for _, e in ipairs(edges) do
    local u, v = e.from, e.to
    e.pieces = {}
    local box, above, below, way = meet(u, v)
    local at, here = u, u.box
    while here ~= box do
      local p = port(here, 'bottom', e)
      piece(here, at, p, e)
      at, here = p, here.parent
    end
    local back = e.kind == 'back' or above.place >= below.place
    for i = 1, #way + 1 do
      local to = way[i] and port(way[i], 'top', e) or v
      piece(i == 1 and box or way[i - 1], at, to, e, i == 1 and back)
      at = to
    end
  end
end

-- ---- rows ---------------------------------------------------------------------------------------------------------
--- The cell of a node or port, as the box sees it.
local function cell_in(box, x)
  if not x.port then return x.cell end
  return x.of == box and x.cell or x.of.cell
end

--- Where on its cell an edge leaves or arrives.
local function offset_in(box, x, e, arriving)
  if x.port then return x.of == box and 3 or x.cell.x + 3 end
  if arriving then return x.w * (e.slot or 1) / ((e.slots or 1) + 1) end
  return e.side and x.w * (e.side == 'true' and 2 or 1) / 3 or x.w / 2
end

local function find_rows(box)
  local above, below = {}, {}
  for _, p in ipairs(box.pieces) do
    local a, b = cell_in(box, p.from), cell_in(box, p.to)
    if not p.back and a.item and b.item then
      above[b], below[a] = above[b] or {}, below[a] or {}
      table.insert(above[b], a)
      table.insert(below[a], b)
    end
  end
  local last = 0
  for _, item in ipairs(box.items) do
    local cell, row = item.cell, 1
    for _, a in ipairs(above[cell] or {}) do row = max(row, a.row + 1) end
    cell.row = row
    last = max(last, row)
  end
  for i = #box.items, 1, -1 do                  -- what takes nothing stands close to its taker
    local item = box.items[i]
    local cell, nearest = item.cell, huge
    if not above[cell] and not item.first then
      for _, b in ipairs(below[cell] or {}) do nearest = min(nearest, b.row) end
      if nearest < huge then cell.row = nearest - 1 end
    end
    if item.last then cell.row = last end
  end
  local rows = {}
  for r = 1, last do rows[r] = {} end
  for _, item in ipairs(box.items) do table.insert(rows[item.cell.row], item.cell) end
  box.rows = {}
  local area = 0
  for _, item in ipairs(box.items) do area = area + (item.w + GAP) * (item.h + ROW) end
  local widest = max(WIDEST, 2 * math.sqrt(area))
  for _, row in ipairs(rows) do                 -- long rows are broken
    local wide, part = 0, {}
    for _, cell in ipairs(row) do
      if wide + cell.w > widest and #part > 0 then
        table.insert(box.rows, part)
        wide, part = 0, {}
      end
      wide = wide + cell.w + GAP
      part[#part + 1] = cell
    end
    if #part > 0 then table.insert(box.rows, part) end
  end
  for r, row in ipairs(box.rows) do for _, cell in ipairs(row) do cell.row = r end end
  box.rows[0], box.rows[#box.rows + 1] = box.tops, box.bottoms
  for _, cell in ipairs(box.tops) do cell.row = 0 end
  for _, cell in ipairs(box.bottoms) do cell.row = #box.rows end
end

--- Links between cells of neighbouring rows; what passes a row gets a cell in it.
local function link_cells(box)
  local passing = {}
  box.links, box.backs = {}, {}
  local function link(a, b, adx, bdx, e, arrives, leaves)
    local l = { a = a, b = b, adx = adx, bdx = bdx, edge = e, arrives = arrives, leaves = leaves,
                weight = (a.pass and b.pass) and 8 or (a.pass or b.pass or a.port or b.port) and 2 or 1 }
    a.down, b.up = a.down or {}, b.up or {}
    table.insert(a.down, l)
    table.insert(b.up, l)
    table.insert(box.links, l)
    return l
  end
  for _, p in ipairs(box.pieces) do
    local a, b, e = cell_in(box, p.from), cell_in(box, p.to), p.edge
    local adx, bdx = offset_in(box, p.from, e), offset_in(box, p.to, e, true)
    if p.back or a.row >= b.row then
      p.links = { { a = a, b = b, adx = adx, bdx = bdx, edge = e, arrives = not p.to.port } }
      table.insert(box.backs, p.links[1])
    else
      p.links = {}
      local key = p.from
      passing[key] = passing[key] or {}
      local kind = e.kind .. (e.side or '')
      local way = passing[key][kind] or {}
      passing[key][kind] = way
      local at, dx, first = a, adx, not p.from.port
      for r = a.row + 1, b.row - 1 do
        local c = way[r]
        if not c then
          c = { w = 6, h = 0, pass = true, row = r }
          way[r] = c
          table.insert(box.rows[r], c)
          c.link = link(at, c, dx, 3, e, false, first)
        end
        table.insert(p.links, c.link)
        at, dx, first = c, 3, false
      end
      table.insert(p.links, link(at, b, dx, bdx, e, not p.to.port, first))
    end
  end
end

-- ---- order in a row -----------------------------------------------------------------------------------------------
local function number(row) for i, c in ipairs(row) do c.pos = i end end

--- How many pairs of the list are in falling order; sorts it.
local function inversions(list, first, last)
  if first >= last then return 0 end
  local middle = floor((first + last) / 2)
  local count = inversions(list, first, middle) + inversions(list, middle + 1, last)
  local out, i, j = {}, first, middle + 1
  while i <= middle or j <= last do
    if j > last or (i <= middle and list[i] <= list[j]) then
      out[#out + 1] = list[i]
      i = i + 1
    else
      out[#out + 1] = list[j]
      count, j = count + middle - i + 1, j + 1
    end
  end
  for k = 1, #out do list[first + k - 1] = out[k] end
  return count
end

--- How many pairs of links between this row and the one above cross.
local function crossings(row)
  local list = {}
  for _, c in ipairs(row) do
    for _, l in ipairs(c.up or {}) do list[#list + 1] = { l.a.pos + l.adx / (l.a.w + 1), c.pos + l.bdx / (c.w + 1) } end
  end
  table.sort(list, function(x, y)
    if x[1] ~= y[1] then return x[1] < y[1] end
    return x[2] < y[2]
  end)
  local ends = {}
  for i, l in ipairs(list) do ends[i] = l[2] end
  return inversions(ends, 1, #ends)
end

local function by_bary(a, b)
  if a.bary ~= b.bary then return a.bary < b.bary end
  return a.pos < b.pos
end

local function sort_row(row, side, other)
  for _, c in ipairs(row) do
    local sum, n = 0, 0
    for _, l in ipairs(c[side] or {}) do
      local o, dx = l[other], other == 'a' and l.adx or l.bdx
      sum, n = sum + o.pos + dx / (o.w + 1), n + 1
    end
    c.bary = n > 0 and sum / n or c.pos
  end
  table.sort(row, by_bary)
  local firsts = {}                               -- loop variables keep their order
  for _, c in ipairs(row) do if c.item and c.item.rank then firsts[#firsts + 1] = c end end
  if #firsts > 1 then
    table.sort(firsts, function(a, b) return a.item.rank < b.item.rank end)
    local k = 0
    for i, c in ipairs(row) do
      if c.item and c.item.rank then
        k = k + 1
        row[i] = firsts[k]
      end
    end
  end
  number(row)
end

local function order_rows(box)
  local rows, last = box.rows, #box.rows
  local best, order
  local cells = 0
  for r = 0, last do
    number(rows[r])
    cells = cells + #rows[r]
  end
  box.large = cells > MANY
  for sweep = 1, box.large and 3 or 8 do
    if sweep > 1 then
      if sweep % 2 == 0 then for r = 1, last do sort_row(rows[r], 'up', 'a') end
      else for r = last - 1, 0, -1 do sort_row(rows[r], 'down', 'b') end end
    end
    local count = 0
    for r = 1, last do count = count + crossings(rows[r]) end
    if not best or count < best then
      best, order = count, {}
      for r = 0, last do
        order[r] = {}
        for i, c in ipairs(rows[r]) do order[r][i] = c end
      end
    end
    if best == 0 then break end
  end
  for r = 0, last do
    rows[r] = order[r]
    number(rows[r])
  end
end

-- ---- places in a row ----------------------------------------------------------------------------------------------
local function gap_between(a, b)
  if a.item and b.item then return GAP end
  return (a.item or b.item) and 9 or 5
end

--- Moves the cells of a row to where they would like to be, without changing their order: the least sum of squares.
local function settle_row(row, ...)
  local blocks, offset = {}, 0
  for i, c in ipairs(row) do
    if i > 1 then offset = offset + row[i - 1].w + gap_between(row[i - 1], c) end
    c.offset = offset
    local sum, weight = 0, 0
    for k = 1, select('#', ...) do
      local side = select(k, ...)
      for _, l in ipairs(c[side] or {}) do
        local x = side == 'up' and l.a.x + l.adx - l.bdx or l.b.x + l.bdx - l.adx
        sum, weight = sum + l.weight * x, weight + l.weight
      end
    end
    if weight == 0 then sum, weight = c.x * 0.1, 0.1 end
    local b = { sum = sum - offset * weight, weight = weight, from = i, to = i }
    while #blocks > 0 and blocks[#blocks].sum / blocks[#blocks].weight > b.sum / b.weight do
      local before = table.remove(blocks)
      b = { sum = before.sum + b.sum, weight = before.weight + b.weight, from = before.from, to = b.to }
    end
    blocks[#blocks + 1] = b
  end
  for _, b in ipairs(blocks) do
    for i = b.from, b.to do row[i].x = floor(b.sum / b.weight + row[i].offset + 0.5) end
  end
end

local function find_places(box)
  local rows, last = box.rows, #box.rows
  for r = 0, last do
    local x = 0
    for i, c in ipairs(rows[r]) do
      if i > 1 then x = x + gap_between(rows[r][i - 1], c) end
      c.x = x
      x = x + c.w
    end
  end
  for sweep = box.large and 3 or 1, 4 do
    for r = 1, last do settle_row(rows[r], 'up') end
    for r = last - 1, 0, -1 do settle_row(rows[r], 'down') end
    if sweep > 2 then for r = 0, last do settle_row(rows[r], 'up', 'down') end end
  end
  local left, right = huge, -huge
  for r = 0, last do
    for _, c in ipairs(rows[r]) do left, right = min(left, c.x), max(right, c.x + c.w) end
  end
  if left == huge then left, right = 0, 0 end
  box.lanes = #box.backs
  local room = box.lanes > 0 and box.lanes * LANE + 6 or 0
  local wanted = (box.title_w or 0) + 2 * PAD
  local w = max(right - left + 2 * PAD + room, wanted)
  local shift = PAD - left + floor(max(0, wanted - (right - left + 2 * PAD + room)) / 2)
  for r = 0, last do for _, c in ipairs(rows[r]) do c.x = c.x + shift end end
  box.w, box.lane_x = w, right + shift + 8
end

--- Heights: a gap below each row for the bends, more where edges go far and where ways back pass.
local function find_heights(box)
  local rows, last = box.rows, #box.rows
  local far, below, above = {}, {}, {}
  for _, l in ipairs(box.links) do
    local r = l.a.row
    far[r] = max(far[r] or 0, math.abs(l.a.x + l.adx - l.b.x - l.bdx))
  end
  table.sort(box.backs, function(p, q)
    local p_span, q_span = p.a.row - p.b.row, q.a.row - q.b.row
    if p_span ~= q_span then return p_span < q_span end
    return p.a.x + p.adx > q.a.x + q.adx
  end)
  for _, b in ipairs(box.backs) do
    local from, to = min(b.a.row, last - 1), max(b.b.row, 1)
    below[from], above[to] = (below[from] or 0) + 1, (above[to] or 0) + 1
    b.below, b.above = below[from], above[to]
    b.from_row, b.to_row = from, to
  end
  local title = box.title_h or 0
  local y = title
  for _, c in ipairs(rows[0]) do c.y, c.h = 0, title end
  box.row_top, box.row_bottom = { [0] = 0 }, { [0] = title }
  for r = 1, last - 1 do
    local bends = far[r - 1] and max(r == 1 and 14 or ROW, min(52, 16 + far[r - 1] / 12))
      or (r == 1 and (title > 0 and 4 or PAD) or ROW)
    y = floor(y + bends + LANE * ((below[r - 1] or 0) + (above[r] or 0)))
    local h, tall = 0, false
    for _, c in ipairs(rows[r]) do h, tall = max(h, c.h), tall or (c.item and c.item.items) end
    box.row_top[r], box.row_bottom[r] = y, y + h
    for _, c in ipairs(rows[r]) do
      if c.item then c.y = tall and y or y + floor((h - c.h) / 2) else c.y, c.h = y, h end
    end
    y = y + h
  end
  y = floor(y + max(PAD, far[last - 1] and min(52, 14 + far[last - 1] / 12) or 0) + LANE * (below[last - 1] or 0))
  box.row_top[last], box.row_bottom[last] = y, y
  for _, c in ipairs(rows[last]) do c.y, c.h = y, 0 end
  box.h = y
end

local function measure(box)
  for _, item in ipairs(box.items) do
    if item.items then measure(item) end
    item.cell = { item = item, w = item.w, h = item.h }
  end
  find_rows(box)
  link_cells(box)
  order_rows(box)
  find_places(box)
  find_heights(box)
end

-- ---- what comes of it -----------------------------------------------------------------------------------------------
--- A curve between rows, with straight ends down to the nodes.
local function bend(x1, y1, bottom, x2, top, y2, arrives)
  if math.abs(x1 - x2) < 1 then return ('M%g %gL%g %g'):format(x1, y1, x2, y2) end
  if arrives then top = top - 6 end              -- the tip stands upright
  local middle = (bottom + top) / 2
  return ('M%g %gL%g %gC%g %g %g %g %g %gL%g %g'):format(x1, y1, x1, bottom, x1, middle, x2, middle, x2, top, x2, y2)
end

--- A way along right angles, its corners rounded.
local function angular(points)
  local out = { ('M%g %g'):format(points[1][1], points[1][2]) }
  for i = 2, #points - 1 do
    local p, q, s = points[i - 1], points[i], points[i + 1]
    local function toward(to, r)
      local dx, dy = to[1] - q[1], to[2] - q[2]
      local d = math.sqrt(dx * dx + dy * dy)
      r = min(r, d / 2)
      return d > 0 and q[1] + dx / d * r or q[1], d > 0 and q[2] + dy / d * r or q[2]
    end
    local ax, ay = toward(p, 7)
    local bx, by = toward(s, 7)
    out[#out + 1] = ('L%g %gQ%g %g %g %g'):format(ax, ay, q[1], q[2], bx, by)
  end
  out[#out + 1] = ('L%g %g'):format(points[#points][1], points[#points][2])
  return table.concat(out)
end

local function collect(box, x, y, out)
  box.x, box.y = x, y
  for _, item in ipairs(box.items) do
    if item.items then collect(item, x + item.cell.x, y + item.cell.y, out)
    else item.x, item.y = x + item.cell.x, y + item.cell.y end
  end
  for _, l in ipairs(box.links) do
    local a, b = l.a, l.b
    local x1, x2 = x + a.x + l.adx, x + b.x + l.bdx
    local y1 = y + a.y + (a.item and a.h or 0)
    l.x, l.y, l.d = x1, y1, bend(x1, y1, y + box.row_bottom[a.row], x2, y + box.row_top[b.row], y + b.y, l.arrives)
    out[#out + 1] = l
  end
  for i, l in ipairs(box.backs) do
    local a, b = l.a, l.b
    local x1, x2, lane = x + a.x + l.adx, x + b.x + l.bdx, x + box.lane_x + i * LANE - 4
    local down, up = y + box.row_bottom[l.from_row] + LANE * l.below, y + box.row_top[l.to_row] - LANE * l.above - 3
    l.x, l.y, l.back, l.leaves = x1, y + a.y + a.h, true, true
    l.d = angular{ { x1, l.y }, { x1, down }, { lane, down }, { lane, up }, { x2, up }, { x2, y + b.y } }
    out[#out + 1] = l
  end
end

--- The whole way of an edge that was placed, as one path; and whether it is a way back.
function M.way(e)
  local parts, back = {}, false
  for _, p in ipairs(e.pieces) do
    for _, l in ipairs(p.links) do
      parts[#parts + 1] = #parts > 0 and l.d:gsub('^M', 'L') or l.d
      back = back or l.back or false
    end
  end
  return table.concat(parts), back
end

--- Places all that is in a box.
-- @param top    {items, title_w, title_h}; an item is such a box, with the `parent` around it, or a node {w, h, box}.
--               first: it stays in the first row; last: it goes to the last one; rank: items of a row that have one
--               stand in its order
-- @param edges  {from, to, kind, slot, slots, side}: nodes; slot of slots is where it comes in
-- @return       the pieces of the edges, each once, also where edges share it: {d = the path, edge, arrives, leaves,
--               back, x, y}; M.way has the whole of one. Nodes and boxes have x, y, w and h then
function M.place(top, edges)
  local function open(box)
    box.ports, box.tops, box.bottoms, box.pieces, box.known = {}, {}, {}, {}, {}
    for i, item in ipairs(box.items) do
      item.place = i
      if item.items then open(item) end
    end
  end
  open(top)
  cut(edges)
  measure(top)
  local out = {}
  collect(top, 0, 0, out)
  return out
end

return M
