--- df.plot: numbers as pictures, in the terminal and as SVG.
--
-- df.plot(y) is a line; df.plot.line, scatter, histogram, heatmap and image are the kinds. Numbers come as tables,
-- Tensors or Outputs, which are run. A plot's tostring is the picture in braille; p:text{columns =, rows =},
-- p:svg{width =, height =} and p:png give it, p:save(path) writes a file by its ending.
local errors = require 'dflow.front.errors'
local files = require 'dflow.exchange.file'
local tensor = require 'dflow.front.tensor'

local M = {}
local methods = {}
local Plot = { __name = 'dflow.Plot', __index = methods }

local AXES = { 'title', 'xlabel', 'ylabel', 'log', 'zero', 'points' }

local function check_dtype(t, what)
  if t.dtype == 'string' or t.dtype:find('^complex') or t.dtype == 'variant' then
    errors.bad('plot: %s is of dtype %s, which has no place on an axis', what, t.dtype)
  end
end

--- A table of numbers, however it is given; `rank` is what its rank must be.
local function numbers(v, what, rank)
  local df = require 'dflow'
  if df.type(v) == 'output' or df.type(v) == 'variable' then v = df.run(v) end
  local ok, t = pcall(tensor.tensor, v)
  if df.type(v) == 'tensor' then t, ok = v, true end
  if not ok then
    errors.bad('plot: %s is numbers as a table, a Tensor or an Output, not %s%s', what, errors.describe(v),
      type(v) == 'table' and not df.type(v) and ': ' .. tostring(t.message or t):match('^[^\n]*') or '')
  end
  check_dtype(t, what)
  if t.rank ~= rank then
    errors.bad('plot: %s has rank %d (%s), expected rank %d', what, t.rank, tostring(t):match('[%w]+%[[%d,]*%]%s*$')
               or t.dtype, rank)
  end
  if t.size == 0 then errors.bad('plot: %s is empty', what) end
  if t.dtype == 'bool' then t = t:astype('int32') end
  return t:totable()
end

local function counted(n)
  local list = {}
  for i = 1, n do list[i] = i - 1 end
  return list
end

local function made(kind, fields, opts, known)
  opts = errors.options(opts, kind == 'line' and 'plot' or 'plot.' .. kind, known)
  for _, key in ipairs{ 'title', 'xlabel', 'ylabel' } do
    if opts[key] ~= nil and type(opts[key]) ~= 'string' and type(opts[key]) ~= 'number' then
      errors.bad('plot: %s is a text, not %s', key, errors.describe(opts[key]))
    end
  end
  fields.kind, fields.title, fields.xlabel, fields.ylabel = kind, opts.title, opts.xlabel, opts.ylabel
  fields.log, fields.zero, fields.points = opts.log, opts.zero, opts.points
  if opts.log ~= nil and opts.log ~= 'x' and opts.log ~= 'y' and opts.log ~= 'xy' then
    errors.bad("plot: log is 'x', 'y' or 'xy', not %s", errors.describe(opts.log))
  end
  for _, key in ipairs{ 'zero', 'points' } do
    if opts[key] ~= nil and type(opts[key]) ~= 'boolean' then
      errors.bad('plot: %s is a boolean, not %s', key, errors.describe(opts[key]))
    end
  end
  return setmetatable(fields, Plot)
end

--- One series, or several: {name = y, …} or a list of them.
local function series_of(x, y)
  local list = {}
  local function add(name, values)
    values = numbers(values, name and ("the series '%s'"):format(name) or 'y', 1)
    local xs = x ~= nil and numbers(x, 'x', 1) or counted(#values)
    if #xs ~= #values then errors.bad('plot: x has %d numbers and y has %d', #xs, #values) end
    list[#list + 1] = { name = name, x = xs, y = values }
  end
  local plain = errors.is_data(y)
  if plain and type(next(y)) == 'string' then
    local names = {}
    for name in pairs(y) do names[#names + 1] = tostring(name) end
    table.sort(names)
    for _, name in ipairs(names) do add(name, y[name]) end
  elseif plain and type(y[1]) ~= 'number' and type(y[1]) ~= 'boolean' and y[1] ~= nil then
    for _, values in ipairs(y) do add(nil, values) end
  else
    add(nil, y)
  end
  return { series = list }
end

--- df.plot.line(y, opts), df.plot.line(x, y, opts): lines. y is numbers, a list of such, or {name = numbers}.
function M.line(x, y, opts)
  local is_options = errors.is_data(y) and y[1] == nil and next(y) ~= nil
  for _, v in pairs(is_options and y or {}) do
    is_options = is_options and (type(v) == 'string' or type(v) == 'boolean')
  end
  if y == nil or is_options then x, y, opts = nil, x, y end
  return made('line', series_of(x, y), opts, AXES)
end

--- df.plot.scatter(x, y, opts): a dot for each pair.
function M.scatter(x, y, opts) return made('scatter', series_of(x, y), opts, AXES) end

--- df.plot.histogram(values, {bins = 20}): how many values fall into each of the bins, which are equally wide.
function M.histogram(values, opts)
  opts = errors.options(opts, 'plot.histogram', { 'bins', 'title', 'xlabel', 'ylabel' })
  local bins = opts.bins or 20
  if type(bins) ~= 'number' or bins < 1 or bins > 10000 or bins ~= math.floor(bins) then
    errors.bad('plot.histogram: bins is a whole number from 1 to 10000, not %s', errors.describe(bins))
  end
  local df = require 'dflow'
  if df.type(values) == 'output' or df.type(values) == 'variable' then values = df.run(values) end
  if df.type(values) == 'tensor' then values = values:reshape{ -1 } end
  local list = numbers(values, 'values', 1)
  local low, high = require('dflow.plot.scale').range{ list }
  local counts = {}
  for i = 1, bins do counts[i] = 0 end
  for _, v in ipairs(list) do
    local at = math.floor((v - low) / (high - low) * bins) + 1
    if at == at and at >= 1 and at <= bins + 1 then at = math.min(at, bins) counts[at] = counts[at] + 1 end
  end
  return made('histogram', { counts = counts, low = low, high = high }, opts, { 'bins', 'title', 'xlabel', 'ylabel' })
end

--- df.plot.heatmap(m, opts): a cell for each element of a matrix [rows, columns], darker for greater.
function M.heatmap(m, opts) return made('heatmap', { matrix = numbers(m, 'the matrix', 2) }, opts, { 'title' }) end

--- The elements as bytes, 0 to 255: uint8 as they are, floats from 0 to 1 by 255, anything else from the least to the
-- greatest.
local function as_bytes(t)
  local list, within = t:reshape{ -1 }:totable(), t.dtype:find 'float' ~= nil
  for _, v in ipairs(list) do within = within and not (v < 0 or v > 1) end
  local low, high = 0, t.dtype == 'uint8' and 255 or 1
  if high == 1 and not within then low, high = require('dflow.plot.scale').range{ list } end
  for i, v in ipairs(list) do
    local share = v == v and (v - low) / (high - low) or 0
    list[i] = math.floor(math.max(0, math.min(1, share)) * 255 + 0.5)
  end
  return list
end

--- Without the last of 2 or 4 channels: what shines through is white.
local function on_white(list, channels)
  if channels % 2 == 1 then return list, channels end
  local out = {}
  for at = 1, #list, channels do
    local alpha = list[at + channels - 1]
    for c = 0, channels - 2 do out[#out + 1] = math.floor((list[at + c] * alpha + 255 * (255 - alpha)) / 255 + 0.5) end
  end
  return out, channels - 1
end

--- df.plot.image(t, opts): a picture [height, width] or [height, width, channels]: 1 grey, 3 red, green and blue, 2 and
-- 4 with alpha besides.
function M.image(t, opts)
  local df = require 'dflow'
  if df.type(t) == 'output' or df.type(t) == 'variable' then t = df.run(t) end
  if df.type(t) ~= 'tensor' then
    numbers(t, 'the image', type(t) == 'table' and type(t[1]) == 'table' and type(t[1][1]) == 'table' and 3 or 2)
    t = tensor.tensor(t)
  end
  local shape = t.shape
  if #shape ~= 3 or shape[3] < 1 or shape[3] > 4 then
    if #shape == 3 then
      errors.bad('plot.image: the image has %d channels; 1 (grey), 3 (red, green, blue), or these and alpha are '
                 .. 'expected', shape[3])
    end
    numbers(t, 'the image', 2)
  end
  check_dtype(t, 'the image')
  if t.size == 0 then errors.bad('plot: the image is empty') end
  if t.dtype == 'bool' then t = t:astype('float32') end
  local image, channels = on_white(as_bytes(t), shape[3] or 1)
  image.height, image.width, image.channels = shape[1], shape[2], channels
  local matrix = {}
  for y = 1, shape[1] do
    matrix[y] = {}
    for x = 1, shape[2] do
      local at, sum = ((y - 1) * shape[2] + x - 1) * image.channels, 0
      for c = 1, image.channels do sum = sum + image[at + c] end
      matrix[y][x] = sum / image.channels
    end
  end
  return made('image', { matrix = matrix, image = image }, opts, { 'title' })
end

--- p:text{columns = 60, rows = 15, ascii = false, colour = false}: the picture as lines of text.
function methods:text(opts)
  opts = errors.options(opts, 'Plot:text', { 'columns', 'rows', 'ascii', 'colour' })
  local columns, rows = opts.columns or 60, opts.rows or 15
  for name, n in pairs{ columns = columns, rows = rows } do
    if type(n) ~= 'number' or not (n >= 2 and n <= 1000) then
      errors.bad('Plot:text: %s is a number from 2 to 1000, not %s', name, errors.describe(n))
    end
  end
  local ascii, colour = errors.flag(opts.ascii, 'Plot:text', 'ascii'), errors.flag(opts.colour, 'Plot:text', 'colour')
  return require('dflow.plot.terminal').text(self, math.floor(columns), math.floor(rows), ascii, colour)
end

--- The size of a picture that is written: opts.width by opts.height.
local function size_of(opts, what)
  opts = errors.options(opts, what, { 'width', 'height' })
  local width, height = opts.width or 640, opts.height or 400
  for name, n in pairs{ width = width, height = height } do
    if type(n) ~= 'number' or not (n >= 1 and n <= 10000) then
      errors.bad('%s: %s is a number from 1 to 10000, not %s', what, name, errors.describe(n))
    end
  end
  return math.floor(width), math.floor(height)
end

--- p:svg{width = 640, height = 400}: the picture as an SVG document.
function methods:svg(opts)
  return require('dflow.plot.svg').write(self, size_of(opts, 'Plot:svg'))
end

--- p:png{width = 640, height = 400}: the picture as the bytes of a PNG; an image's pixels are squares, as many as go
-- in.
function methods:png(opts)
  return require('dflow.plot.picture').png(self, size_of(opts, 'Plot:png'))
end

--- p:save(path): writes path, as SVG or PNG, or as text where it ends in .txt.
function methods:save(path)
  if type(path) ~= 'string' then errors.bad('Plot:save takes a path, not %s', errors.describe(path)) end
  local ending = path:match('%.(%a+)$')
  if ending ~= 'svg' and ending ~= 'txt' and ending ~= 'png' then
    errors.bad("Plot:save writes .svg, .png and .txt, not '%s'", path)
  end
  files.write(path, ending == 'svg' and self:svg() or ending == 'png' and self:png() or self:text() .. '\n')
end

Plot.__tostring = function(p) return p:text() end

return setmetatable(M, { __call = function(_, ...) return M.line(...) end, __index = function(_, name)
  errors.bad("df.plot has no '%s'%s", tostring(name),
             errors.hint_or_all(name, { 'line', 'scatter', 'histogram', 'heatmap', 'image' }))
end })
