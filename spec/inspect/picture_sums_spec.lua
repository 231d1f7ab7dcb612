-- What df.draw and df.plot make of many graphs and images: a line each in spec/pages (spec/pages.lua), with what the text adds up to. A few that
-- one can look at are whole in pictures_spec.lua; these are all that take other ways through the layout.
local df = require 'dflow'
local pages = require 'spec.pages'
local shell = require 'spec.shell'
local programs = require 'spec.random_program'
local host_it = require('spec.support').host_it(it, pending)       -- a GPU would be a partition more

-- The last two of each: what is left out where there is not room for all of it.
local FORMS = { { 'let', 1000 }, { 'tree', 1000 }, { 'dot' }, { 'svg' }, { 'let', 15 }, { 'tree', 9 } }

--- A line for each form at each stage that the graph can be drawn at.
local function sums(what, stages)
  local lines = {}
  for _, stage in ipairs(stages) do
    for _, form in ipairs(FORMS) do
      local ok, text = pcall(df.draw, what, { as = form[1], at = stage, lines = form[2], source = false })
      lines[#lines + 1] = ('%s %s %s: %s'):format(stage, form[1], form[2] or 'all', ok and pages.sum(text) or tostring(text.message):match '^[^\n]*')
    end
  end
  return table.concat(lines, '\n')
end

local ALL = { 'built', 'lowered', 'gradient', 'partitioned' }

describe('what is drawn', function()
  before_each(df.reset)

  for seed = 1, 12 do
    host_it(('of a random program is what it was: %d'):format(seed), function()
      local y = programs.build(df, programs.make(seed, seed % 3 + 1, seed % 2 == 0))
      pages.section('draw/sums.txt', 'program ' .. seed, sums(y, ALL))
    end)
  end

  for seed = 31, 33 do
    host_it(('of the gradients of a random program is what it was: %d'):format(seed), function()
      local y, xs = programs.build(df, programs.make(seed, 2))
      pages.section('draw/sums.txt', 'gradients ' .. seed, sums(df.gradients(y, xs, { unconnected = 'zero' }), ALL))
    end)
  end

  for name in shell.run('ls spec/graphs/gradients spec/graphs/session').out:gmatch '([%w_.]+)%.pb\n' do
    for _, folder in ipairs{ 'gradients', 'session' } do
      local path = ('spec/graphs/%s/%s.pb'):format(folder, name)
      if shell.read(path) then
        host_it(('of TensorFlow\'s graphs is what it was: %s'):format(name), function()
          pages.section('draw/sums.txt', name, sums(df.import_graph_def(path), { 'built', 'lowered', 'partitioned' }))
        end)
      end
    end
  end
end)

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

--- The numbers of a text in tenths: eighths are rounded by one Lua up, by another down, to two digits.
local function tenths(text) return (text:gsub('%-?%d+%.%d%d', function(n) return ('%d'):format(math.floor(n * 10 + 0.55)) end)) end

--- How it is shown: as text of some sizes, with colours and without, as SVG and PNG, and for terminals with graphics.
local function shown(p)
  local picture, lines = require 'dflow.plot.picture', {}
  local function add(what, text) lines[#lines + 1] = what .. ': ' .. pages.sum(text) end
  for _, size in ipairs{ { 2, 2 }, { 7, 3 }, { 30, 9 }, { 80, 24 }, { 200, 70 } } do
    local columns, rows = size[1], size[2]
    local name = ('%d x %d'):format(columns, rows)
    add(name, p:text{ columns = columns, rows = rows })
    add(name .. ', colours', p:text{ columns = columns, rows = rows, colour = true })
    add(name .. ', ASCII', p:text{ columns = columns, rows = rows, ascii = true, colour = true })
    if p.image then
      add(name .. ', PNG', p:png{ width = columns, height = rows })
      for _, how in ipairs{ 'kitty', 'sixel' } do add(name .. ', ' .. how, picture.shown(p, how, columns, rows)) end
    end
    add(name .. ', SVG', tenths(p:svg{ width = columns * 10, height = rows * 20 }))
  end
  return table.concat(lines, '\n')
end

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

describe('what is plotted', function()
  it('is a PNG of one to four channels as it was', function()
    local png, lines = require 'dflow.exchange.png', {}
    for channels = 1, 4 do
      local bytes = {}
      for i = 1, 40 * 600 * channels do bytes[i] = string.char(i * 7 % 251) end
      for _, size in ipairs{ { 1, 1 }, { 2, 3 }, { 40, 600 } } do
        local pixels = table.concat(bytes, '', 1, size[1] * size[2] * channels)
        lines[#lines + 1] = ('%d of %d x %d: %s'):format(channels, size[1], size[2], pages.sum(png.write(size[1], size[2], channels, pixels)))
      end
    end
    for n = 0, 7 do lines[#lines + 1] = png.base64(('\0\127\255abc\254'):sub(1, n)) end
    pages.section('plot/sums.txt', 'PNG', table.concat(lines, '\n'))
  end)

  for _, image in ipairs(images) do
    it(('of an image is what it was: %s'):format(image[1]), function() pages.section('plot/sums.txt', 'image, ' .. image[1], shown(df.plot.image(image[2]()))) end)
  end
  for _, plot in ipairs(plots) do
    it(('of numbers is what it was: %s'):format(plot[1]), function() pages.section('plot/sums.txt', plot[1], shown(plot[2]())) end)
  end
end)
