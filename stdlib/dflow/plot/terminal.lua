--- Plots as text: points and lines in braille, eight dots a cell; bars and heat maps in blocks. Without UTF-8, in
-- ASCII.
local scale = require 'dflow.plot.scale'

local M = {}

-- Bits of the dots of a braille cell, by column 0 or 1 and row 0 to 3 from the top (Unicode, 28xx).
local DOTS = { [0] = { [0] = 1, 2, 4, 64 }, { [0] = 8, 16, 32, 128 } }
local BARS = { [0] = ' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█' }
local SHADES = { [0] = ' ', '░', '▒', '▓', '█' }
local ASCII_SHADES = { [0] = ' ', '.', ':', 'o', '#' }

-- Colours of series, as SGR numbers, and what marks one without colours in ASCII.
local SERIES, MARKS = { '34', '33', '32', '35', '36', '31' }, { '*', '+', 'o', 'x', '#', '@' }

local function braille(bits) return string.char(0xE2, 0xA0 + math.floor(bits / 64), 0x80 + bits % 64) end

local Canvas = {}
Canvas.__index = Canvas

--- Cells of two by four dots; of one dot each in ASCII.
local function canvas(columns, rows, ascii)
  return setmetatable({ columns = columns, rows = rows, cells = {}, owner = {}, series = 1, ascii = ascii, wide = ascii
                        and 1 or 2, high = ascii and 1 or 4 }, Canvas)
end

--- Dot x, y from the left and top, from 0.
function Canvas:dot(x, y)
  local column, row = math.floor(x / self.wide), math.floor(y / self.high)
  if column < 0 or row < 0 or column >= self.columns or row >= self.rows then return end
  local at = row * self.columns + column
  self.owner[at] = self.series
  if self.ascii then
    self.cells[at] = MARKS[(self.series - 1) % #MARKS + 1]
    return
  end
  local bit = DOTS[x % 2][y % 4]
  local bits = self.cells[at] or 0
  if math.floor(bits / bit) % 2 == 0 then self.cells[at] = bits + bit end
end

function Canvas:line(x0, y0, x1, y1)
  local steps = math.max(math.abs(x1 - x0), math.abs(y1 - y0), 1)
  for i = 0, steps do
    self:dot(math.floor(x0 + (x1 - x0) * i / steps + 0.5), math.floor(y0 + (y1 - y0) * i / steps + 0.5))
  end
end

local function coloured(text, k) return ('\27[%sm%s\27[0m'):format(SERIES[(k - 1) % #SERIES + 1], text) end

function Canvas:row(row, colour)
  local parts = {}
  for column = 0, self.columns - 1 do
    local at = row * self.columns + column
    local cell = self.cells[at]
    local text = not cell and ' ' or self.ascii and cell or braille(cell)
    parts[#parts + 1] = cell and colour and coloured(text, self.owner[at]) or text
  end
  return table.concat(parts)
end

--- Rows of text with a y axis at the left, an x axis below and a title.
local function framed(rows, ticks, plot, low_x, high_x, columns, ascii)
  local width = 0
  for _, text in pairs(ticks) do width = math.max(width, #text) end
  local lines = {}
  if plot.title then lines[1] = (' '):rep(width + 2) .. plot.title end
  for i, row in ipairs(rows) do
    local text = ticks[i]
    lines[#lines + 1] = ('%' .. width .. 's%s%s'):format(text or '', text and (ascii and '+' or '┤')
        or (ascii and '|' or '│'), row):gsub('%s+$', '')
  end
  lines[#lines + 1] = (' '):rep(width) .. (ascii and '+' or '└') .. (ascii and '-' or '─'):rep(columns)
  if low_x then
    local left, right = ('%.4g'):format(low_x), ('%.4g'):format(high_x)
    lines[#lines + 1] = (' '):rep(width + 1) .. left .. (' '):rep(math.max(1, columns - #left - #right)) .. right
  end
  return table.concat(lines, '\n')
end

--- Texts of ticks by row, for `rows` rows over an axis.
local function tick_rows(axis, rows)
  local by_row = {}
  for _, tick in ipairs(axis.ticks(math.max(2, math.floor(rows / 3)))) do
    by_row[rows - math.floor(axis.share(tick[1]) * (rows - 1) + 0.5)] = tick[2]
  end
  return by_row
end

local function points(plot, columns, rows, ascii, colour)
  local c = canvas(columns, rows, ascii)
  local xs, ys = {}, {}
  for i, s in ipairs(plot.series) do xs[i], ys[i] = s.x, s.y end
  local across, up = scale.axis(xs, plot.log and plot.log:find 'x'),
    scale.axis(ys, plot.log and plot.log:find 'y', plot.zero)
  local wide, high = columns * c.wide - 1, rows * c.high - 1
  for k, s in ipairs(plot.series) do
    c.series = k
    local before_x, before_y
    for i = 1, #s.y do
      local x, y = across.share(s.x[i]) * wide, (1 - up.share(s.y[i])) * high
      if x ~= x or y ~= y or math.abs(x) > 1e9 or math.abs(y) > 1e9 then
        before_x = nil
      else
        x, y = math.floor(x + 0.5), math.floor(y + 0.5)
        if plot.kind == 'line' and before_x then c:line(before_x, before_y, x, y) else c:dot(x, y) end
        before_x, before_y = x, y
      end
    end
  end
  local text = {}
  for row = 0, rows - 1 do text[row + 1] = c:row(row, colour and #plot.series > 1) end
  return framed(text, tick_rows(up, rows), plot, across.low, across.high, columns, ascii)
end

local function bars(plot, columns, rows, ascii)
  local counts, most = plot.counts, 1
  for _, n in ipairs(counts) do most = math.max(most, n) end
  local wide = math.max(1, math.floor(columns / #counts))
  local text = {}
  for row = 1, rows do
    local parts = {}
    for _, n in ipairs(counts) do
      local eighths = math.floor(n / most * rows * 8 + 0.5) - (rows - row) * 8
      eighths = math.max(0, math.min(8, eighths))
      parts[#parts + 1] = (ascii and (eighths >= 4 and '#' or ' ') or BARS[eighths]):rep(wide)
    end
    text[row] = table.concat(parts)
  end
  return framed(text, tick_rows(scale.axis({ { 0, most } }), rows), plot, plot.low, plot.high, wide * #counts, ascii)
end

--- A cell for each element, darker for greater; larger matrices are taken in blocks, whose mean counts.
local function shades(plot, columns, rows, ascii)
  local m, set = plot.matrix, ascii and ASCII_SHADES or SHADES
  local height, width = #m, #m[1]
  local low, high = scale.range(m)
  local wide = math.max(1, math.min(2, math.floor(columns / width)))
  local cells_x, cells_y = math.min(width, math.floor(columns / wide)), math.min(height, rows)
  local text, ticks = {}, {}
  for j = 1, cells_y do
    local parts = {}
    for i = 1, cells_x do
      local sum, n = 0, 0
      for y = math.floor((j - 1) * height / cells_y) + 1, math.floor(j * height / cells_y) do
        for x = math.floor((i - 1) * width / cells_x) + 1, math.floor(i * width / cells_x) do
          sum, n = sum + m[y][x], n + 1
        end
      end
      local share = (sum / n - low) / (high - low)
      parts[i] = set[share == share and math.max(0, math.min(4, math.floor(share * 4 + 0.5))) or 0]:rep(wide)
    end
    text[j] = table.concat(parts)
  end
  ticks[1], ticks[cells_y] = '0', tostring(height - 1)
  return framed(text, ticks, plot, 0, width - 1, cells_x * wide, ascii)
end

--- An image in its own colours: two pixels a cell, one above the other, each as often as goes in.
local function half_blocks(plot, columns, rows)
  local image = plot.image
  local k = math.min(columns / image.width, rows * 2 / image.height)
  if k > 1 then k = math.floor(k) end
  local wide, high = math.max(1, math.floor(image.width * k)), math.max(1, math.floor(image.height * k))
  local function pixel(x, y)
    local at = (math.floor(y / k) * image.width + math.floor(x / k)) * image.channels
    local r = image[at + 1]
    if image.channels == 1 then return ('%d;%d;%d'):format(r, r, r) end
    return ('%d;%d;%d'):format(r, image[at + 2], image[at + 3])
  end
  local lines = { plot.title }
  for y = 0, high - 1, 2 do
    local parts = {}
    for x = 0, wide - 1 do
      parts[x + 1] = ('\27[38;2;%sm%s▀'):format(pixel(x, y), y + 1 < high and ('\27[48;2;%sm'):format(pixel(x, y + 1))
                                                or '\27[49m')
    end
    lines[#lines + 1] = table.concat(parts) .. '\27[0m'
  end
  return table.concat(lines, '\n')
end

--- The plot as text of `columns` by `rows` cells, beside its axes.
-- @param colour  true: series and images in colours
function M.text(plot, columns, rows, ascii, colour)
  if plot.kind == 'histogram' then return bars(plot, columns, rows, ascii) end
  if plot.image and colour and not ascii then return half_blocks(plot, columns, rows) end
  if plot.matrix then return shades(plot, columns, rows, ascii) end
  local text = points(plot, columns, rows, ascii, colour)
  local names = {}
  for k, s in ipairs(plot.series) do
    local many = s.name and #plot.series > 1
    names[#names + 1] = many and colour and coloured(s.name, k) or many and ascii and MARKS[(k - 1) % #MARKS + 1] .. ' '
      .. s.name or s.name
  end
  return #names > 0 and text .. '\n' .. table.concat(names, ', ') or text
end

return M
