--- Where the nodes of a large graph stand on the page: rows from above to below, cut where they are wide.
-- draw/layout.lua takes seconds for thousands of nodes; this takes a pass over them, and leaves it to the page to draw
-- an edge from its one end to the other.
local M = {}
local GAP, ROW, PAD, WIDEST = 14, 30, 14, 1500

--- @param top    the box around all
-- @param boxes   all of them: {items = nodes {w, h, box} and boxes {…, title_h, title_w}, each in the order in which it
--                first ran; parent, depth}
-- @param edges   {from, to}, nodes
-- Gives every box and node its x, y, w and h.
function M.place(top, boxes, edges)
  for _, box in ipairs(boxes) do
    for i, item in ipairs(box.items) do item.place, item.row, item.above = i, 0, {} end
  end
  -- an edge moves what stands in the innermost box that holds both its ends
  for _, e in ipairs(edges) do
    local a, b = e.from, e.to
    while a.box ~= b.box do
      if (a.box.depth or 0) >= (b.box.depth or 0) then a = a.box else b = b.box end
    end
    if a.place < b.place then b.above[#b.above + 1] = a end
  end
  local function measure(box)
    local rows, last, widest = {}, 0, box.title_w or 0
    for _, item in ipairs(box.items) do
      if item.items then measure(item) end
      for _, above in ipairs(item.above) do item.row = math.max(item.row, above.row + 1) end
      rows[item.row] = rows[item.row] or {}
      table.insert(rows[item.row], item)
      last = math.max(last, item.row)
    end
    local y, lines = PAD + (box.title_h or 0), {}
    for r = 0, last do
      local x, h, line = PAD, 0, {}
      local function done()
        lines[#lines + 1] = { items = line, w = x - GAP - PAD }
        widest = math.max(widest, x - GAP - PAD)
        y = y + h + ROW
        x, h, line = PAD, 0, {}
      end
      for _, item in ipairs(rows[r] or {}) do
        if #line > 0 and x + item.w > WIDEST then done() end
        item.x, item.y = x, y
        x, h = x + item.w + GAP, math.max(h, item.h)
        line[#line + 1] = item
      end
      if #line > 0 then done() end
    end
    for _, line in ipairs(lines) do
      for _, item in ipairs(line.items) do item.x = item.x + (widest - line.w) / 2 end
    end
    box.w, box.h = widest + 2 * PAD, math.max(y - ROW, 0) + PAD
  end
  measure(top)
  local function settle(box, x, y)
    box.x, box.y = x, y
    for _, item in ipairs(box.items) do
      if item.items then settle(item, x + item.x, y + item.y) else item.x, item.y = x + item.x, y + item.y end
    end
  end
  settle(top, 0, 0)
end

return M
