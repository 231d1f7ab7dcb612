-- df.draw and df.plot, whole: what they make of a dozen graphs and series is written down in spec/pages (spec/pages.lua), and looked at when
-- it changes. What a picture promises is in draw_spec.lua and plot_spec.lua; here is that it looks as it did.
local df = require 'dflow'
local pages = require 'spec.pages'

-- ---- graphs ---------------------------------------------------------------------------------------------------------
local graphs = {}

function graphs.loop()
  local x = df.placeholder('float32', {}, 'x')
  local _, y = df.while_loop(function(i) return i:lt(10) end, function(i, v) return i + 1, v * x end, { df.int32(0), x })
  return y
end

function graphs.nested()
  local x = df.placeholder('float32', { 3 }, 'x')
  local i, y = df.while_loop(function(i) return i:lt(3) end, function(i, y)
    local _, z = df.while_loop(function(j) return j:le(i) end, function(j, z)
      return j + 1, df.cond(df.equal(j % 2, 1), function() return z * x end, function() return z + 0.5 * x end)
    end, { df.int32(0), y })
    return i + 1, z:tanh()
  end, { df.int32(0), x })
  return { y, i }
end

function graphs.branches()
  local p, x = df.placeholder('bool', {}, 'p'), df.placeholder('float32', { -1, 3 }, 'x')
  local a, b = df.cond(p, function() return x * 2 + x, df.float32(3) end, function()
    return df.cond(x:reduce_sum():gt(1), function() return df.tanh(x), x:reduce_mean() end, function() return x, x:reduce_max() end)
  end)
  return { a * b, df.where(p, 1.0, 2.0) }
end

--- Chains long enough to be one node, constants that several use, and much that comes in alike.
function graphs.chain()
  local x = df.placeholder('float32', { 4, 4 }, 'a_name_that_is_rather_longer_than_a_box_is_wide')
  local y = x
  for _ = 1, 30 do y = df.sin(y) end
  local parts = {}
  for k = 1, 40 do parts[k] = df.constant({ { k, 1, 2, 3 } }, 'float32') * 0.5 end
  return df.matmul(df.concat(parts, 0), y) + df.constant(0.25)
end

function graphs.arrays()
  local x = df.placeholder('float32', { 5, 2 }, 'x')
  local ta = df.TensorArray('float32', 5):unstack(x)
  local _, out, acc = df.while_loop(function(i) return i:lt(5) end, function(i, out, acc)
    local a = acc * 0.5 + ta:read(i):tanh()
    return i + 1, out:write(i, a), a
  end, { df.int32(0), df.TensorArray('float32', 5), df.constant({ 0, 0 }, 'float32') })
  return { out:stack(), acc }
end

function graphs.effects()
  local v = df.Variable({ 1, 2, 3 }, { name = 'v', dtype = 'float32' })
  local q = df.FIFOQueue(4, 'float32')
  local put = q:enqueue(v * 2)
  local shown = df.control_dependencies({ put, v:assign_add{ 1, 1, 1 } }, function() return df.print(v:value(), { v }) end)
  return { shown, put, q:dequeue() }
end

function graphs.functions()
  local x = df.placeholder('float32', { 3 }, 'x')
  local square = df.func('square', { 'float32' }, function(a) return a * a + 1 end)
  return df.map_fn(function(v) return v * v end, square(x)) + df.scan(function(a, v) return a * v end, square(square(x)))
end

function graphs.devices()
  local x = df.placeholder('float32', { 64, 64 }, 'x')
  local a = df.device('sim:1', function() return df.matmul(x, x) end)
  local _, y = df.while_loop(function(i) return i:lt(4) end, function(i, y)
    return i + 1, df.device('sim:1', function() return df.tanh(df.matmul(y, a)) end) + x
  end, { df.int32(0), a })
  return y
end

function graphs.network()
  local images, labels = df.placeholder('float32', { 8, 12, 12, 1 }, 'images'), df.placeholder('int32', { 8 }, 'labels')
  local w = df.Variable(df.zeros{ 3, 3, 1, 4 }, { name = 'w' })
  local h = df.max_pool(df.relu(df.conv2d(images, w, { strides = { 1, 1, 1, 1 }, padding = 'SAME' })),
                        { ksize = { 1, 2, 2, 1 }, strides = { 1, 2, 2, 1 }, padding = 'VALID' })
  local dense = df.Variable(df.zeros{ 144, 10 }, { name = 'dense' })
  local logits = df.matmul(df.reshape(h, { 8, -1 }), dense)
  return df.reduce_mean(df.sparse_softmax_cross_entropy_with_logits(logits, labels))
end

local function sorted(t)
  local list = {}
  for name in pairs(t) do list[#list + 1] = name end
  table.sort(list)
  return list
end

--- Where the bytes of the Lua lines stand is not what is compared.
local function drawn(name, form, stage)
  df.reset()
  return df.draw(graphs[name](), { as = form, at = stage, source = false, lines = form ~= 'dot' and form ~= 'svg' and 1000 or nil }) .. '\n'
end

local FILE = { let = '.let.txt', tree = '.tree.txt', dot = '.dot', svg = '.svg' }

local host_it = require('spec.support').host_it(it, pending)       -- a GPU would be a partition more

describe('a picture', function()
  for _, name in ipairs(sorted(graphs)) do
    for _, form in ipairs{ 'let', 'tree', 'svg' } do
      it(('of %s is as it was: %s'):format(name, form), function() pages.same('draw/' .. name .. FILE[form], drawn(name, form)) end)
    end
  end

  for _, name in ipairs{ 'nested', 'arrays', 'network' } do
    for _, stage in ipairs{ 'lowered', 'gradient' } do
      for _, form in ipairs(stage == 'lowered' and { 'let', 'svg' } or { 'let' }) do
        it(('of %s, %s, is as it was: %s'):format(name, stage, form), function()
          pages.same(('draw/%s.%s%s'):format(name, stage, FILE[form]), drawn(name, form, stage))
        end)
      end
    end
  end

  for _, form in ipairs{ 'let', 'tree', 'dot', 'svg' } do
    host_it('of devices, partitioned, is as it was: ' .. form, function() pages.same('draw/devices.partitioned' .. FILE[form], drawn('devices', form, 'partitioned')) end)
  end

  it('is cut where it is long', function()
    for _, lines in ipairs{ 1, 2, 5, 12 } do
      pages.same(('draw/cut.%d.txt'):format(lines), df.draw(graphs.nested(), { lines = lines, source = false }) .. '\n'
        .. df.draw(graphs.nested(), { lines = lines, source = false, as = 'tree' }) .. '\n')
      df.reset()
    end
  end)
end)

-- ---- series -----------------------------------------------------------------------------------------------------------
local function curve(n, f)
  local list = {}
  for i = 1, n do list[i] = f(i) end
  return list
end

--- Numbers of our own, the same in every Lua.
local function noise(i) return (i * 7919 % 1009) / 1009 end

local function bumps()
  local m = {}
  for y = 1, 9 do m[y] = curve(14, function(x) return x * y % 5 + x / 4 end) end
  return m
end

local function photograph()
  local rows = {}
  for y = 1, 6 do
    rows[y] = {}
    for x = 1, 7 do rows[y][x] = { x * 30, y * 40, (x + y) * 10 } end
  end
  return df.tensor(rows, 'uint8')
end

local plots = {
  line = function() return df.plot(curve(40, function(i) return math.floor(i * i / 7) - 3 * i end), { title = 'A line & more', xlabel = 'i', ylabel = '<y>' }) end,
  several = function()
    return df.plot({ up = curve(20, function(i) return i / 2 end), down = curve(20, function(i) return 10 - i / 4 end),
                     hole = curve(20, function(i) return i % 7 == 0 and 0 / 0 or i == 11 and math.huge or noise(i) * 10 end) }, { points = true })
  end,
  nameless = function() return df.plot{ { 1, 2, 3 }, { 3, 1, 2 } } end,
  xy = function() return df.plot({ -2, -1, 0, 1, 2.5 }, { 4, 1, 0, 1, 6.25 }, { zero = true, title = 'zero' }) end,
  below = function() return df.plot({ -4, -1, -3 }, { zero = true }) end,
  logs = function() return df.plot(curve(12, function(i) return 10 ^ (i / 2) end), curve(12, function(i) return 2 ^ i end), { log = 'xy' }) end,
  log_short = function() return df.plot({ 1, 2, 3, 5 }, { 3, 30, 0, 90 }, { log = 'y' }) end,
  log_none = function() return df.plot({ -1, -2 }, { log = 'y' }) end,
  constant = function() return df.plot{ 7, 7, 7, 7 } end,
  zeros = function() return df.plot{ 0, 0 } end,
  one = function() return df.plot{ 5 } end,
  large = function() return df.plot{ 1.5e6, 2.25e7, 3e6 } end,
  small = function() return df.plot{ 1e-7, 3e-7, 2e-7 } end,
  scatter = function() return df.plot.scatter(curve(60, noise), curve(60, function(i) return noise(i + 400) end), { title = 'dots' }) end,
  histogram = function() return df.plot.histogram(curve(200, function(i) return noise(i) + noise(i + 77) end), { bins = 12, title = 'bars' }) end,
  histogram_wide = function() return df.plot.histogram({ 1, 1, 2, 9, 0 / 0, -1 / 0 }, { bins = 5, xlabel = 'v', ylabel = 'n' }) end,
  heatmap = function() return df.plot.heatmap(bumps(), { title = 'heat' }) end,
  heatmap_odd = function() return df.plot.heatmap{ { 1, 0 / 0 }, { math.huge, 3 } } end,
  image = function() return df.plot.image(photograph()) end,
}

describe('a plot', function()
  local sizes = { { 60, 15 }, { 23, 7 }, { 100, 30 } }
  for _, name in ipairs(sorted(plots)) do
    it(('is as it was, as text: %s'):format(name), function()
      local p, texts = plots[name](), {}
      for i, size in ipairs(sizes) do texts[i] = p:text{ columns = size[1], rows = size[2], ascii = i == 2 } end
      texts[#texts + 1] = p:text{ columns = 9, rows = 4 }
      pages.same(('plot/%s.txt'):format(name), table.concat(texts, '\n\n') .. '\n')
    end)

    it(('is as it was, as SVG: %s'):format(name), function()
      pages.same(('plot/%s.svg'):format(name), plots[name]():svg() .. plots[name]():svg{ width = 300, height = 180 })
    end)
  end
end)
