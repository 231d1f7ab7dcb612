--- Plots as SVG, with plain colours and no style sheet, so that every reader of SVG shows the same.
local scale = require 'dflow.plot.scale'

local M = {}

-- Colours that stay apart for the colour-blind (Okabe and Ito).
local COLOURS = { '#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000', '#999999', '#882255',
                  '#44aa99' }
local LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 40

local function escaped(s)
  return (tostring(s):gsub('[%z\1-\8\11\12\14-\31]', ''):gsub('&', '&amp;'):gsub('<', '&lt;'):gsub('>', '&gt;'))
end

local function begun(plot, width, height)
  local out = { ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
                 .. 'font-family="sans-serif" font-size="12">')
    :format(width, height, width, height), ('<rect width="%d" height="%d" fill="#ffffff"/>'):format(width, height) }
  if plot.title then
    out[#out + 1] = ('<text x="%g" y="20" text-anchor="middle" font-size="14" fill="#222222">%s</text>')
      :format(width / 2, escaped(plot.title))
  end
  return out
end

--- What is beside the axis does not lie on what is written at it.
local function make_room(plot, box, ticks)
  local left = box.x
  for _, tick in ipairs(ticks) do if plot.ylabel then left = math.max(left, 28 + 7 * #tick[2]) end end
  box.x, box.w = left, box.w - (left - box.x)
end

local function axes(out, plot, box, across, up)
  make_room(plot, box, up.ticks(5))
  for _, tick in ipairs(up.ticks(5)) do
    local y = box.y + box.h - up.share(tick[1]) * box.h
    out[#out + 1] = ('<line x1="%g" y1="%.2f" x2="%g" y2="%.2f" stroke="#dddddd"/>'):format(box.x, y, box.x + box.w, y)
    out[#out + 1] = ('<text x="%g" y="%.2f" text-anchor="end" fill="#444444">%s</text>')
      :format(box.x - 6, y + 4, tick[2])
  end
  for _, tick in ipairs(across.ticks(6)) do
    local x = box.x + across.share(tick[1]) * box.w
    out[#out + 1] = ('<text x="%.2f" y="%g" text-anchor="middle" fill="#444444">%s</text>')
      :format(x, box.y + box.h + 16, tick[2])
  end
  out[#out + 1] = ('<rect x="%g" y="%g" width="%g" height="%g" fill="none" stroke="#444444"/>')
    :format(box.x, box.y, box.w, box.h)
  if plot.xlabel then
    out[#out + 1] = ('<text x="%g" y="%g" text-anchor="middle" fill="#222222">%s</text>')
      :format(box.x + box.w / 2, box.y + box.h + 33, escaped(plot.xlabel))
  end
  if plot.ylabel then
    local y = box.y + box.h / 2
    out[#out + 1] = ('<text x="14" y="%g" text-anchor="middle" transform="rotate(-90 14 %g)" fill="#222222">%s</text>')
      :format(y, y, escaped(plot.ylabel))
  end
end

-- ---- the names of series --------------------------------------------------------------------------------------------
--- How wide the names are, about: of sans-serif letters of this size each takes 7, and a capital 9.
local function width_of_names(plot)
  local most = 0
  for _, s in ipairs(plot.series) do
    local name = tostring(s.name or ''):gsub('[\128-\191]', '')
    most = math.max(most, 7 * #name + 2 * select(2, name:gsub('%u', '')))
  end
  return 15 + most
end

--- The position with the fewest taken places: a corner, or between two at an edge; of equal ones the first. The third
-- result is the number of taken places.
local function emptiest(box, w, h, taken, zero)
  local left, right, top, bottom = box.x + 6, box.x + box.w - w - 4, box.y + 4, box.y + box.h - h - 4
  local across, up = (left + right) / 2, (top + bottom) / 2
  local places = { { right, top }, { right, bottom }, { left, top }, { left, bottom }, { right, up }, { left, up },
                   { across, top }, { across, bottom }, { across, up } }
  if zero then places[1], places[2] = places[2], places[1] end
  local best, fewest
  for _, c in ipairs(places) do
    local n = 0
    for _, p in ipairs(taken) do
      if p[1] > c[1] - 6 and p[1] < c[1] + w + 6 and p[2] > c[2] - 6 and p[2] < c[2] + h + 6 then n = n + 1 end
    end
    if not fewest or n < fewest then best, fewest = c, n end
  end
  return best[1], best[2], fewest
end

--- @param beside  it has a place right of the box
-- @return        whether it lies on nothing
local function legend(out, plot, box, taken, beside)
  local n = 0
  for _, s in ipairs(plot.series) do n = n + (s.name and 1 or 0) end
  if n == 0 then return true end
  local w, h = width_of_names(plot), 14 * #plot.series
  local x, y, on = box.x + box.w + 10, box.y, 0
  if not beside then x, y, on = emptiest(box, w, h, taken, plot.zero) end
  out[#out + 1] = ('<rect x="%g" y="%g" width="%g" height="%g" fill="#ffffff" fill-opacity="0.8"/>')
    :format(x - 3, y, w + 3, h)
  for k, s in ipairs(plot.series) do
    if s.name then
      out[#out + 1] = ('<rect x="%g" y="%g" width="10" height="10" fill="%s"/>')
        :format(x, y + 14 * k - 12, COLOURS[(k - 1) % #COLOURS + 1])
      out[#out + 1] = ('<text x="%g" y="%g" fill="#222222">%s</text>'):format(x + 15, y + 14 * k - 3, escaped(s.name))
    end
  end
  return on == 0
end

--- Notes where a line goes from the place before, every few units.
local function note(taken, before, x, y)
  local steps = before and math.max(1, math.floor(math.max(math.abs(x - before[1]), math.abs(y - before[2])) / 8)) or 1
  for i = 1, steps do
    taken[#taken + 1] = before and { before[1] + (x - before[1]) * i / steps, before[2] + (y - before[2]) * i / steps }
      or { x, y }
  end
  return { x, y }
end

--- Is the i-th number of a line by itself? It has no line to be seen by.
local function is_alone(s, i)
  local function is_gap(k) return s.y[k] == nil or s.y[k] ~= s.y[k] end
  return #s.y > 1 and is_gap(i - 1) and is_gap(i + 1)
end

local function points(all, plot, box, beside)
  local out = {}
  local xs, ys = {}, {}
  for i, s in ipairs(plot.series) do xs[i], ys[i] = s.x, s.y end
  local across, up = scale.axis(xs, plot.log and plot.log:find 'x'),
    scale.axis(ys, plot.log and plot.log:find 'y', plot.zero)
  axes(out, plot, box, across, up)
  local taken = {}
  for k, s in ipairs(plot.series) do
    local colour, way, before = COLOURS[(k - 1) % #COLOURS + 1], {}, nil
    for i = 1, #s.y do
      local x, y = across.share(s.x[i]) * box.w + box.x, box.y + box.h - up.share(s.y[i]) * box.h
      local fine = x == x and y == y and math.abs(x) < 1e9 and math.abs(y) < 1e9
      before = fine and note(taken, plot.kind == 'line' and before or nil, x, y) or nil
      if plot.kind == 'scatter' or plot.points then
        if fine and plot.kind == 'line' and is_alone(s, i) then
          out[#out + 1] = ('<circle cx="%.2f" cy="%.2f" r="5" fill="#ffffff" stroke="%s" stroke-width="2.5"/>')
            :format(x, y, colour)
        elseif fine then out[#out + 1] = ('<circle cx="%.2f" cy="%.2f" r="2.5" fill="%s"/>'):format(x, y, colour) end
      end
      if plot.kind == 'line' then
        way[#way + 1] = fine and ('%s%.2f %.2f'):format((#way == 0 or way[#way] == '') and 'M' or 'L', x, y) or ''
      end
    end
    if #way > 0 then
      out[#out + 1] = ('<path d="%s" fill="none" stroke="%s" stroke-width="1.5"/>')
        :format(table.concat(way, ' '), colour)
    end
  end
  if not legend(out, plot, box, taken, beside) and box.w > 3 * width_of_names(plot) then
    box.w = box.w - width_of_names(plot) - 10
    return points(all, plot, box, true)
  end
  for _, line in ipairs(out) do all[#all + 1] = line end
end

local function bars(out, plot, box)
  local _, most = scale.range{ plot.counts, { 0 } }
  axes(out, plot, box, scale.axis{ { plot.low, plot.high } }, scale.axis{ { 0, most } })
  local wide = box.w / #plot.counts
  for i, n in ipairs(plot.counts) do
    local high = n / most * box.h
    out[#out + 1] = ('<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="%s" stroke="#ffffff"/>')
      :format(box.x + (i - 1) * wide, box.y + box.h - high, wide, high, COLOURS[1])
  end
end

--- White to dark blue.
local function colour(v, low, high)
  -- math.min and math.max make a number of NaN, each Lua another
  if v ~= v then return '#ff00ff' end
  local share = math.max(0, math.min(1, (v - low) / (high - low)))
  return ('#%02x%02x%02x')
    :format(255 - math.floor(share * 247), 255 - math.floor(share * 207), 255 - math.floor(share * 148))
end

--- Which colour is which number: from the least to the greatest.
local function ramp(out, x, y, low, high)
  local STEPS, WIDE, FROM = 24, 5, 72
  out[#out + 1] = ('<text x="%g" y="%g" fill="#444444">%.4g</text>'):format(x, y, low)
  for i = 0, STEPS - 1 do
    out[#out + 1] = ('<rect x="%g" y="%g" width="%g" height="10" fill="%s"/>')
      :format(x + FROM + i * WIDE, y - 9, WIDE + 0.3, colour(i, 0, STEPS - 1))
  end
  out[#out + 1] = ('<rect x="%g" y="%g" width="%g" height="10" fill="none" stroke="#444444"/>')
    :format(x + FROM, y - 9, STEPS * WIDE)
  out[#out + 1] = ('<text x="%g" y="%g" fill="#444444">%.4g</text>'):format(x + FROM + STEPS * WIDE + 8, y, high)
end

local function cells(out, plot, box)
  local m = plot.matrix
  local low, high = scale.range(m)
  local wide, tall = box.w / #m[1], box.h / #m
  for y, row in ipairs(m) do
    for x, v in ipairs(row) do
      out[#out + 1] = ('<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="%s"/>')
        :format(box.x + (x - 1) * wide, box.y + (y - 1) * tall, wide + 0.3, tall + 0.3, colour(v, low, high))
    end
  end
  ramp(out, box.x, box.y + box.h + 16, low, high)
  out[#out + 1] = ('<rect x="%g" y="%g" width="%g" height="%g" fill="none" stroke="#444444"/>')
    :format(box.x, box.y, box.w, box.h)
end

--- An image in its own colours, its pixels squares: rectangles while they are few, else a PNG.
local function pixels(out, plot, box)
  local image = plot.image
  local side = math.min(box.w / image.width, box.h / image.height)
  local left, top = box.x + (box.w - side * image.width) / 2, box.y + (box.h - side * image.height) / 2
  if image.width * image.height > 4096 then
    local of_image = require('dflow.plot.pixels').of_image
    out[#out + 1] = ('<image x="%.2f" y="%.2f" width="%.2f" height="%.2f" href="data:image/png;base64,%s"/>')
      :format(left, top, side * image.width, side * image.height,
              require('dflow.exchange.png').base64(of_image(image, 1, 1)))
    return
  end
  for y = 0, image.height - 1 do
    for x = 0, image.width - 1 do
      local at = (y * image.width + x) * image.channels
      local r = image[at + 1]
      out[#out + 1] = ('<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="#%02x%02x%02x"/>')
        :format(left + x * side, top + y * side, side + 0.3, side + 0.3, r, image.channels == 3 and image[at + 2] or r,
                image.channels == 3 and image[at + 3] or r)
    end
  end
end

--- The plot as an SVG document.
function M.write(plot, width, height)
  local out = begun(plot, width, height)
  local box = { x = LEFT, y = TOP, w = width - LEFT - RIGHT, h = height - TOP - BOTTOM }
  if plot.kind == 'histogram' then bars(out, plot, box)
  elseif plot.image then pixels(out, plot, { x = 16, y = plot.title and TOP or 16, w = width - 32,
      h = height - (plot.title and TOP or 16) - 16 })
  elseif plot.matrix then cells(out, plot, box)
  else points(out, plot, box) end
  out[#out + 1] = '</svg>'
  return table.concat(out, '\n') .. '\n'
end

return M
