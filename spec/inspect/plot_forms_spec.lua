-- Plots and images of many kinds in windows of many sizes: they fit, with colours and without; what is ASCII is ASCII; SVG is well formed and stays within its
-- picture; pixels are those of the image. A few that one can look at are whole in pictures_spec.lua.
local df = require 'dflow'
local shell = require 'spec.shell'

-- ---- images, in colours -----------------------------------------------------------------------------------------------
--- height x width x channels numbers: value(y, x, c), all from 1.
local function pixels(height, width, channels, value)
  local rows = {}
  for y = 1, height do
    rows[y] = {}
    for x = 1, width do
      rows[y][x] = {}
      for c = 1, channels do rows[y][x][c] = value(y, x, c) end
    end
  end
  return rows
end

local function whole(step) return function(y, x, c) return (y * 40 + x * step + c * 77) % 256 end end
local function within(y, x, c) return (y * 7 + x * 3 + c * 5) % 11 / 10 end

local images = {
  { 'grey', function() return df.tensor(pixels(5, 9, 1, whole(11)), 'uint8') end },
  { 'grey and alpha', function() return df.tensor(pixels(4, 5, 2, whole(50)), 'uint8') end },
  { 'colours', function() return df.tensor(pixels(7, 6, 3, whole(31)), 'uint8') end },
  { 'colours and alpha', function() return df.tensor(pixels(6, 7, 4, whole(60)), 'uint8') end },
  { 'greys of three channels', function() return df.tensor(pixels(13, 20, 3, function(y, x) return (y * 20 + x) % 256 end), 'uint8') end },
  { 'almost greys', function() return df.tensor(pixels(3, 8, 3, function(y, x, c) return y * 60 + x + c * 4 end), 'uint8') end },
  { 'a large one', function() return df.tensor(pixels(50, 70, 3, whole(3)), 'uint8') end },
  { 'a tall one', function() return df.tensor(pixels(61, 3, 1, whole(9)), 'uint8') end },
  { 'floats from 0 to 1', function() return df.tensor(pixels(5, 6, 3, within), 'float32') end },
  { 'floats from 0 to 2', function() return df.tensor(pixels(5, 6, 3, function(y, x, c) return within(y, x, c) * 2 end), 'float32') end },
  { 'floats from -1 to 1', function() return df.tensor(pixels(5, 6, 1, function(y, x, c) return within(y, x, c) * 2 - 1 end), 'float32') end },
  { 'floats that are none', function() return df.tensor(pixels(3, 3, 1, function(y, x) return x == y and 0 / 0 or x / y end), 'float32') end },
  { 'floats and alpha', function() return df.tensor(pixels(4, 6, 4, within), 'float64') end },
  { 'int32', function() return df.tensor(pixels(4, 6, 1, function(y, x) return y * 100 - x * 7 end), 'int32') end },
  { 'bools', function() return df.greater(df.constant(pixels(4, 4, 1, function(y, x) return (y + x) % 2 end)), 0) end },
  { 'a table', function() return { { 0, 1, 2 }, { 3, 4, 5 } } end },
}

local function wave(n, k)
  local list = {}
  for i = 1, n do list[i] = i % 13 == 12 and 0 / 0 or math.floor((i * k) % 17) - 5 end
  return list
end

local plots = {
  { 'seven series', function()
    local list = {}
    for k = 1, 7 do list[k] = wave(20, k) end
    return df.plot(list, { title = 'seven' })
  end },
  { 'seven named series', function()
    local list = {}
    for k = 1, 7 do list['s' .. k] = wave(20, k) end
    return df.plot(list, { xlabel = 'x', ylabel = 'y', zero = true })
  end },
  { 'one named series', function() return df.plot{ alone = wave(30, 3) } end },
  { 'points', function() return df.plot({ a = wave(30, 3), b = { 1, 0 / 0, 2, 1 / 0, 3, 4 } }, { points = true }) end },
  { 'scatter of several', function() return df.plot.scatter(wave(11, 5), { u = wave(11, 2), v = wave(11, 7) }, { zero = true }) end },
  { 'bins', function() return df.plot.histogram(wave(99, 5), { bins = 7 }) end },
  { 'one bin', function() return df.plot.histogram({ 1, 2, 3 }, { bins = 1 }) end },
  { 'the usual bins', function() return df.plot.histogram(wave(99, 11)) end },
  { 'a large heat map', function()
    local m = {}
    for y = 1, 41 do m[y] = wave(93, y) end
    return df.plot.heatmap(m, { title = 'large' })
  end },
  { 'bools', function() return df.plot.heatmap(df.tensor({ { true, false }, { false, true } }, 'bool')) end },
  { 'logarithms', function() return df.plot({ 1, 10, 1000 }, { 5, 0.01, 700 }, { log = 'xy' }) end },
  { 'logarithms of x', function() return df.plot.scatter({ 1, 10, 1000, 0 }, { 5, 0.01, 700, 3 }, { log = 'x' }) end },
}


-- ---- what is true of them ---------------------------------------------------------------------------------------------
local SIZES = { { 2, 2 }, { 7, 3 }, { 30, 9 }, { 80, 24 }, { 200, 70 } }

--- How many characters a line has, and it without colours.
local function width(line) return #line:gsub('[\128-\191]', '') end
local function bare(text) return (text:gsub('\27%[[%d;]*m', '')) end

--- Elements are closed in order, quotes are even, and every coordinate is a number within the picture, or not far outside.
local function check_svg(svg, w, h)
  assert.matches('^<svg [^>]*viewBox="0 0 ' .. w .. ' ' .. h .. '"', svg)
  local open = {}
  for close, name, attributes, alone in svg:gmatch '<(/?)([%w]+)([^<>]-)(/?)>' do
    if close == '/' then assert.equal(name, table.remove(open))
    else
      if alone == '' then open[#open + 1] = name end
      assert.equal(0, select(2, attributes:gsub('"', '')) % 2, attributes)
      for key, value in attributes:gmatch '%s([xy][12]?)="([^"]*)"' do
        local n = tonumber(value)
        assert.is_true(n and n == n and n >= -1 and n <= (key:sub(1, 1) == 'x' and w or h) + 1 or w < 100 or h < 60, key .. '=' .. value)
      end
    end
  end
  assert.equal(0, #open)
  assert.is_falsy(svg:gsub('>[^<]*<', '><'):find '%f[%a]nan%f[%A]' or svg:find 'inf"')
end

--- The size that a PNG says.
local function size_of(png)
  assert.equal('\137PNG\r\n\26\n', png:sub(1, 8))
  local function number(at) local a, b, c, d = png:byte(at, at + 3) return ((a * 256 + b) * 256 + c) * 256 + d end
  return number(17), number(21)
end

local function check(p)
  local picture, last = require 'dflow.plot.picture', nil
  for _, size in ipairs(SIZES) do
    local columns, rows = size[1], size[2]
    local plain, coloured = p:text{ columns = columns, rows = rows }, p:text{ columns = columns, rows = rows, colour = true }
    local ascii = p:text{ columns = columns, rows = rows, ascii = true }
    local function above(text) return (text:gsub('\n[^\n]*%a%d*$', '')) end             -- the legend: colours tell series apart, or marks do
    assert.equal(above(ascii), above(bare(p:text{ columns = columns, rows = rows, ascii = true, colour = true })))
    assert.is_falsy(ascii:find '[\128-\255]', ascii)
    if not p.image then assert.equal(plain, bare(coloured)) end
    local most = 0
    for _, text in ipairs{ plain, ascii, bare(coloured) } do
      local lines = select(2, text:gsub('\n', '')) + 1
      assert.is_true(lines <= rows + 6, ('%d lines in %d rows\n%s'):format(lines, rows, text))
      for line in text:gmatch '[^\n]+' do most = math.max(most, width(line)) end
    end
    if columns >= 30 then assert.is_true(most <= columns + 24 and most >= math.min(columns / 4, 4), ('%d of %d columns\n%s'):format(most, columns, plain)) end
    check_svg(p:svg{ width = columns * 10, height = rows * 20 }, columns * 10, rows * 20)
    if p.image then
      local w, h = size_of(p:png{ width = columns, height = rows })
      assert.is_true(w >= p.image.width and h >= p.image.height and w % p.image.width == 0 and w / p.image.width == h / p.image.height)
      assert.is_true(w <= math.max(columns, p.image.width) and h <= math.max(rows, p.image.height))
      local sixel = picture.shown(p, 'sixel', columns, rows)
      w, h = sixel:match '^\27P0;1q"1;1;(%d+);(%d+)'
      assert.is_true(tonumber(w) <= math.max(columns, 1) and tonumber(h) <= math.max(rows, 1), w .. ' x ' .. h)
      assert.equal(math.ceil(tonumber(h) / 6), select(2, sixel:gsub('%-', '')))
      assert.matches('^\27_Ga=T,f=100,m=%d;iVBORw0KGgo', picture.shown(p, 'kitty', columns, rows))
    end
    if columns == 200 then last = plain end
  end
  return last
end

describe('what is plotted', function()
  it('is a PNG of one to four channels, in pieces as long as they may be, that is read as it was', function()
    local png, path = require 'dflow.exchange.png', os.tmpname()
    for channels = 1, 4 do
      local bytes = {}
      for i = 1, 40 * 600 * channels do bytes[i] = string.char(i * 7 % 251) end
      for _, size in ipairs{ { 1, 1 }, { 2, 3 }, { 40, 600 } } do
        local pixels = table.concat(bytes, '', 1, size[1] * size[2] * channels)
        shell.write(path, png.write(size[1], size[2], channels, pixels))
        local t = df.data.image(path, { channels = channels })
        assert.same({ size[1], size[2], channels }, { t.shape[1], t.shape[2], t.shape[3] })
        assert.is_true(pixels == require('dflow.backend').tensor_bytes(t))
      end
    end
    os.remove(path)
    for text, code in pairs{ [''] = '', f = 'Zg==', fo = 'Zm8=', foo = 'Zm9v', foob = 'Zm9vYg==', ['\0\127\255'] = 'AH//' } do assert.equal(code, png.base64(text)) end
  end)

  local texts = {}
  local function its(list, what)
    for _, one in ipairs(list) do
      it(('of %s fits every window: %s'):format(what, one[1]), function()
        local text = check(what == 'images' and df.plot.image(one[2]()) or one[2]())
        assert.is_nil(texts[text], texts[text])
        texts[text] = what == 'numbers' and one[1] or nil
      end)
    end
  end
  its(images, 'images')
  its(plots, 'numbers')
end)
