--- Plots as pixels: PNG, and what terminals with graphics take, kitty's protocol and sixel.
--
-- An image is its own pixels. Everything else is drawn as SVG, of which rsvg-convert makes a PNG: fonts are its
-- business.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local files = require 'dflow.exchange.file'
local png = require 'dflow.exchange.png'
local pixels = require 'dflow.plot.pixels'
local svg = require 'dflow.plot.svg'

local M = {}

--- SVG as PNG, by rsvg-convert.
local function drawn(drawing)
  local from, to = os.tmpname(), os.tmpname()
  local ok, result = pcall(function()
    files.write(from, drawing)
    local said = io.popen(("rsvg-convert -o '%s' '%s' 2>&1"):format(to, from)):read '*a'
    local bytes = core.tensor_bytes(core.read_file(to))
    if bytes:sub(1, 4) ~= '\137PNG' then
      errors.raise('unimplemented',
                   "plot: a PNG is made by rsvg-convert (of Debian's librsvg2-bin), which says: %s; .svg needs nothing",
                   said:match '^[^\n]*')
    end
    return bytes
  end)
  os.remove(from)
  os.remove(to)
  if not ok then error(result, 0) end
  return result
end

--- The plot as the bytes of a PNG.
function M.png(plot, width, height)
  if plot.image then return pixels.of_image(plot.image, width, height) end
  return drawn(svg.write(plot, width, height))
end

-- ---- terminals ------------------------------------------------------------------------------------------------------
--- What the terminal can show, as far as the environment tells: 'kitty', 'sixel' or 'text'.
function M.terminal()
  local term, program = os.getenv 'TERM' or '', os.getenv 'TERM_PROGRAM' or ''
  -- what it passes on is not known
  if os.getenv 'TMUX' or term:find '^screen' or term:find '^tmux' then return 'text' end
  if os.getenv 'KITTY_WINDOW_ID' or term == 'xterm-kitty' or term == 'xterm-ghostty' or program == 'WezTerm'
    or program == 'ghostty' then
    return 'kitty'
  end
  if term:find '^foot' or term:find '^mlterm' or term:find '^contour' or term:find 'sixel'
    or program == 'iTerm.app' then
    return 'sixel'
  end
  return 'text'
end

--- The PNG as kitty's graphics protocol: base64 in pieces of 4096.
local function kitty(bytes)
  local data, out = png.base64(bytes), {}
  for at = 1, #data, 4096 do
    local more = at + 4096 <= #data and 1 or 0
    out[#out + 1] = ('\27_G%sm=%d;%s\27\\'):format(at == 1 and 'a=T,f=100,' or '', more, data:sub(at, at + 4095))
  end
  return table.concat(out)
end

-- colours of sixel: red, green and blue in six steps each, and what lies between black and white
local CUBE, GREYS = 216, 40

--- The number of a pixel's colour.
local function colour_at(bytes, at, channels)
  local r, g, b = bytes:byte(at, at + 2)
  if channels < 3 then g, b = r, r end
  local low, high = math.min(r, g, b), math.max(r, g, b)
  if high - low <= 8 and low > 0 and high < 255 then
    return CUBE + math.floor((low + high) / 2 / 255 * (GREYS - 1) + 0.5)
  end
  return math.floor(r / 51 + 0.5) * 36 + math.floor(g / 51 + 0.5) * 6 + math.floor(b / 51 + 0.5)
end

--- A row of six-pixel columns in one colour: runs of more than three are counted.
local function band_text(list, width)
  local out, x = {}, 1
  while x <= width do
    local bits, n = list[x] or 0, 1
    while x + n <= width and (list[x + n] or 0) == bits do n = n + 1 end
    local c = string.char(63 + bits)
    out[#out + 1] = n > 3 and ('!%d%s'):format(n, c) or c:rep(n)
    x = x + n
  end
  return table.concat(out)
end

--- Pixels as sixel: bands of six rows, in each a line for each colour.
local function sixel(height, width, channels, bytes)
  local out, defined = { ('\27P0;1q"1;1;%d;%d'):format(width, height) }, {}
  for top = 0, height - 1, 6 do
    local colours, order = {}, {}
    for y = top, math.min(top + 5, height - 1) do
      for x = 1, width do
        local c = colour_at(bytes, (y * width + x - 1) * channels + 1, channels)
        if not colours[c] then
          colours[c] = {}
          order[#order + 1] = c
        end
        colours[c][x] = (colours[c][x] or 0) + 2 ^ (y - top)
      end
    end
    for _, c in ipairs(order) do
      if not defined[c] then
        local grey = math.floor((c - CUBE) / (GREYS - 1) * 100 + 0.5)
        if c >= CUBE then out[#out + 1] = ('#%d;2;%d;%d;%d'):format(c, grey, grey, grey)
        else out[#out + 1] = ('#%d;2;%d;%d;%d')
          :format(c, math.floor(c / 36) * 20, math.floor(c / 6) % 6 * 20, c % 6 * 20) end
        defined[c] = true
      end
      out[#out + 1] = ('#%d%s$'):format(c, band_text(colours[c], width))
    end
    out[#out + 1] = '-'
  end
  out[#out + 1] = '\27\\'
  return table.concat(out)
end

--- An image that is larger than width by height, as so many of its pixels as go in.
local function reduced(image, width, height)
  local share = math.min(width / image.width, height / image.height)
  if share >= 1 then return image end
  local out = { width = math.max(1, math.floor(image.width * share)),
                height = math.max(1, math.floor(image.height * share)), channels = image.channels }
  for y = 0, out.height - 1 do
    for x = 0, out.width - 1 do
      local at = (math.floor(y / share) * image.width + math.floor(x / share)) * image.channels
      for c = 1, image.channels do out[#out + 1] = image[at + c] end
    end
  end
  return out
end

--- The plot for a terminal that shows `how`: 'kitty' or 'sixel'. Of at most width by height.
function M.shown(plot, how, width, height)
  local image = plot.image and reduced(plot.image, width, height)
  if how == 'kitty' then return kitty(image and pixels.of_image(image, width, height) or M.png(plot, width, height)) end
  if image then
    local k = pixels.times(image, width, height)
    return sixel(image.height * k, image.width * k, image.channels, pixels.enlarged(image, k))
  end
  local path = os.tmpname()
  local ok, t = pcall(function()
    files.write(path, M.png(plot, width, height))
    return require('dflow').data.image(path, { channels = 3 })
  end)
  os.remove(path)
  if not ok then error(t, 0) end
  return sixel(t.shape[1], t.shape[2], 3, core.tensor_bytes(t))
end

return M
