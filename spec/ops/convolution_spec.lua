--- Convolutions of images and volumes of a size that goes to the fast ways, beside the reference, and on one thread and on three.
-- run: first
local df = require 'dflow'

local cases = {
  { n = 2, h = 24, w = 20, ci = 24, co = 20, k = 3, padding = 'SAME' },
  { n = 17, h = 12, w = 13, ci = 16, co = 24, k = 3, padding = 'VALID' },
  { n = 5, h = 17, w = 16, ci = 16, co = 33, k = 5, stride = 2, padding = 'SAME' },
  { n = 19, h = 14, w = 14, ci = 1, co = 32, k = 5, padding = 'SAME' },
  { n = 4, h = 20, w = 20, ci = 32, co = 16, k = 3, dilation = 2, padding = 'SAME' },
  { n = 6, h = 15, w = 15, ci = 20, co = 20, k = 3, stride = 2, padding = 'EXPLICIT', pads = { 0, 0, 2, 1, 0, 3, 0, 0 } },
  { n = 33, h = 8, w = 8, ci = 16, co = 64, k = 1, stride = 2, padding = 'VALID' },
  { n = 9, h = 12, w = 13, ci = 32, co = 48, k = 3, groups = 2, padding = 'SAME' },
  { n = 1, h = 17, w = 16, ci = 12, co = 20, k = 3, groups = 4, stride = 2, padding = 'SAME' },
  { n = 2, h = 17, w = 16, ci = 37, co = 37, k = 5, groups = 37, padding = 'EXPLICIT', pads = { 0, 0, 0, 3, 4, 1, 0, 0 } },
  { n = 3, h = 9, w = 20, ci = 64, co = 128, k = 3, groups = 64, dilation = 2, padding = 'SAME' },
  { n = 1, h = 21, w = 19, ci = 40, co = 24, k = 3, padding = 'SAME' },
  { n = 1, h = 23, w = 70, ci = 3, co = 8, k = 5, stride = 2, padding = 'SAME' },
  { n = 1, h = 9, w = 15, ci = 40, co = 70, k = 3, dilation = 2, padding = 'EXPLICIT', pads = { 0, 0, 0, 3, 4, 1, 0, 0 } },
  { n = 1, h = 13, w = 11, ci = 64, co = 96, k = 3, groups = 2, stride = 2, padding = 'VALID' },
  { n = 1, h = 3, w = 3, ci = 200, co = 300, k = 3, padding = 'SAME' },
  { n = 1, h = 400, w = 1, ci = 30, co = 33, k = 5, kx = 1, padding = 'SAME' },
  { n = 1, h = 3, w = 90, ci = 900, co = 4, k = 3, padding = 'SAME' },
  { n = 1, h = 190, w = 190, ci = 2, co = 3, k = 190, padding = 'VALID' },
  { n = 1, h = 7, w = 9, ci = 90, co = 40, k = 1, padding = 'VALID' },
  { n = 3, h = 5, w = 7, ci = 30, co = 20, k = 1, stride = 7, padding = 'VALID' },
  { n = 4, depth = 9, h = 10, w = 11, ci = 16, co = 24, k = 3, padding = 'SAME' },
  { n = 1, depth = 9, h = 12, w = 11, ci = 24, co = 20, k = 3, padding = 'SAME' },
  { n = 1, depth = 8, h = 12, w = 11, ci = 24, co = 20, k = 3, stride = 2, padding = 'VALID' },
  { n = 3, depth = 9, h = 12, w = 8, ci = 3, co = 8, k = 3, kz = 5, stride = 2, padding = 'SAME' },
  { n = 2, depth = 11, h = 9, w = 10, ci = 24, co = 12, k = 3, kz = 2, dilation = 3, padding = 'SAME' },
  { n = 2, depth = 6, h = 9, w = 10, ci = 24, co = 12, k = 3, kz = 1, padding = 'SAME' },
  { n = 2, depth = 6, h = 9, w = 10, ci = 32, co = 40, k = 1, padding = 'VALID' },
  { n = 3, depth = 7, h = 6, w = 8, ci = 32, co = 48, k = 3, groups = 2, padding = 'SAME' },
  { n = 2, depth = 7, h = 6, w = 9, ci = 37, co = 74, k = 3, groups = 37, stride = 2, padding = 'SAME' },
  { n = 2, depth = 7, h = 9, w = 12, ci = 16, co = 16, k = 3, groups = 16, dilation = 2, padding = 'VALID' },
  { n = 1, depth = 3, h = 3, w = 90, ci = 600, co = 4, k = 3, padding = 'SAME' },
}

--- The op, the shapes of its input and its filter, and its options: over volumes where the case has a depth.
local function of(case)
  local x, f = { case.n, case.h, case.w, case.ci }, { case.k, case.kx or case.k, case.ci / (case.groups or 1), case.co }
  if case.depth then
    table.insert(x, 2, case.depth)
    table.insert(f, 1, case.kz or case.k)
  end
  return case.depth and df.conv3d or df.conv2d, x, f,
         { strides = case.stride or 1, padding = case.padding, dilations = case.dilation or 1, explicit_paddings = case.pads }
end

--- y and the gradients of its sum, weighted, as flat tables; by these kernels on so many threads.
local function results(case, kernels, threads)
  df.reset()
  local op, shape, filter, how = of(case)
  local x, f = df.random_uniform(shape, -1, 1, { seed = 3 }), df.random_uniform(filter, -1, 1, { seed = 4 })
  local y = op(x, f, how)
  local g = df.gradients(df.reduce_sum(y * df.random_uniform(df.shape(y), -1, 1, { seed = 5 })), { x, f })
  local session = df.Session{ graph = df.default_graph(), kernels = kernels, threads = threads }
  local out = session:run{ y, g[1], g[2] }
  session:close()
  for i, t in ipairs(out) do out[i] = df.run(df.reshape(t, { -1 })):totable() end
  return out
end

--- A convolution of a GraphDef, whose attributes may be what no list of Lua's holds: a session and the Outputs.
local function imported(op, strides, padding, dilations, pads)
  local function list(key, numbers)
    return numbers and ('attr { key: "%s" value { list { i: %s } } }'):format(key, table.concat(numbers, ' i: ')) or ''
  end
  local T = 'attr { key: "T" value { type: DT_FLOAT } } '
  local function placeholder(name) return ('node { name: "%s" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }\n'):format(name) end
  return df.import_graph_def(placeholder 'x' .. placeholder 'f' .. ('node { name: "y" op: "%s" input: "x" input: "f" '):format(op) .. T
    .. ('attr { key: "padding" value { s: "%s" } } '):format(padding) .. list('strides', strides) .. list('dilations', dilations)
    .. list('explicit_paddings', pads) .. ' }')
end

describe('a convolution', function()
  it('of a filter for fewer channels is one of groups that do not see each other, to any order', function()
    for _, dtype in ipairs{ 'float32', 'float64' } do
      for _, case in ipairs{ { 4, 6, 2 }, { 6, 9, 3 }, { 4, 8, 4 } } do
        local ci, co, groups = case[1], case[2], case[3]
        df.reset()
        local x = df.Variable(df.random_uniform({ 2, 5, 4, ci }, { min = -1, max = 1, seed = 1, dtype = dtype }))
        local f = df.Variable(df.random_uniform({ 3, 2, ci / groups, co }, { min = -1, max = 1, seed = 2, dtype = dtype }))
        local how = { strides = { 1, 2, 1, 1 }, padding = 'SAME' }
        local parts, xs, fs = {}, df.split(x, groups, { axis = 3 }), df.split(f, groups, { axis = 3 })
        for i = 1, groups do parts[i] = df.conv2d(xs[i], fs[i], how) end
        local values = {}
        for i, y in ipairs{ df.conv2d(x, f, how), df.concat(parts, 3) } do
          local loss = df.reduce_sum(df.square(y) * y)
          local dx, df_ = df.unpack(df.gradients(loss, { x, f }))
          local second = df.gradients(df.reduce_sum(df.square(dx)) + df.reduce_sum(df.square(df_)), { x, f })
          values[i] = df.run{ y, dx, df_, second[1], second[2] }
        end
        for i, t in ipairs(values[1]) do
          require('spec.support').near(t:reshape{ t.size }, values[2][i]:reshape{ t.size }:totable(), { rtol = 1e-4, atol = 1e-4 })
        end
      end
    end
  end)

  it('whose channels are not those of its filter, or no number of groups of them, says so while it is built and when it runs', function()
    local how = { strides = { 1, 1, 1, 1 }, padding = 'SAME' }
    local message = require('spec.support').message_of
    assert.matches('the input has 5 channels, the filter is for 2', message(df.conv2d, df.ones{ 1, 4, 4, 5 }, df.ones{ 2, 2, 2, 4 }, how), 1, true)
    assert.matches('gives 3 channels, which its 2 groups do not divide', message(df.conv2d, df.ones{ 1, 4, 4, 4 }, df.ones{ 2, 2, 2, 3 }, how), 1, true)
    local x, f = df.placeholder 'float32', df.placeholder 'float32'
    local y = df.conv2d(x, f, how)
    local function run(ci, fi, co) return message(df.run, y, { [x] = df.ones({ 1, 4, 4, ci }):eval(), [f] = df.ones({ 2, 2, fi, co }):eval() }) end
    assert.matches('the input has 5 channels, the filter is for 2', run(5, 2, 4), 1, true)
    assert.matches('gives 3 channels, which its 2 groups do not divide', run(4, 2, 3), 1, true)
  end)

  it('takes strides up to what 64 bits hold, and says of dilations and paddings what reaches further', function()
    for _, op in ipairs{ 'Conv2D', 'DepthwiseConv2dNative' } do
      local function run(strides, ...)
        local g = imported(op, strides, ...)
        local s = df.Session{ graph = g }
        local y, x = g:output 'y', g:output 'x'
        local dx = g:as_default(function() return df.gradients(y, x) end)
        local feeds = { [x] = df.run(df.range(0, 40, { dtype = 'float32' }):reshape{ 1, 5, 4, 2 }),
                        [g:output 'f'] = df.run(df.range(0, 12, { dtype = 'float32' }):reshape{ 3, 2, 2, 1 }) }
        local ok, found = pcall(s.run, s, { y, dx }, feeds)
        s:close()
        return ok and { found[1].shape, found[1]:list(), found[2]:list() } or found.message
      end
      local channels = op == 'Conv2D' and 1 or 2
      for _, padding in ipairs{ 'SAME', 'VALID' } do
        local once = run({ 1, 5, 5, 1 }, padding)
        assert.same({ 1, 1, 1, channels }, once[1])
        for _, stride in ipairs{ '100', '4611686018427387904', '9223372036854775807' } do assert.same(once, run({ 1, stride, stride, 1 }, padding)) end
      end
      local one = { 1, 1, 1, 1 }
      assert.matches('a window of 3 with dilation 9223372036854775807 reaches further than can be counted', run(one, 'SAME', { 1, '9223372036854775807', 1, 1 }))
      assert.matches('a window that reaches over 9223372036854775807 does not fit into 4', run(one, 'VALID', { 1, 1, '9223372036854775806', 1 }))
      if op == 'Conv2D' then
        assert.matches('5 with paddings of 9223372036854775807 and 1 is more than can be counted',
                       run(one, 'EXPLICIT', one, { 0, 0, '9223372036854775807', 1, 0, 0, 0, 0 }))
      end
    end
  end)

  it('is computed with what follows it, element by element, and gives what the ops give one by one', function()
    for _, case in ipairs(cases) do
      for _, dtype in ipairs{ 'float32', 'float64' } do
        local op, shape, filter, how = of(case)
        df.reset()
        local function random(shape, seed) return df.constant(df.run(df.random_uniform(shape, { min = -1, max = 1, seed = seed, dtype = dtype }))) end
        local y = op(random(shape, 1), random(filter, 2), how)
        local scaled = df.bias_add(y, random({ case.co }, 3)) * random({ case.co }, 4)
        local around = random(df.shape(y), 5)
        local last = df.nn.relu(scaled + around)
        local z = last * df.sigmoid(y)
        local apart = df.run{ z, last, y, scaled }
        for i, t in ipairs(df.run{ z, last }) do assert.is_true(df.run(df.reduce_all(df.equal(apart[i], t)))) end
      end
    end
  end)

  for i, case in ipairs(cases) do
    it(('of %d images %dx%dx%d agrees with the reference within rounding, as its gradients do, on any number of threads (%d)'):format(
      case.n, case.h, case.w, case.ci, i), function()
      local one, three, ref = results(case, 'cpu', 1), results(case, 'cpu', 3), results(case, 'ref', 1)
      for o, name in ipairs{ 'result', 'gradient of the images', 'gradient of the filter' } do
        assert.same(one[o], three[o])
        -- A sum of n products of numbers below 1 is off by no more than n half units of its own greatest size.
        local deep = case.depth and (o == 3 and case.depth or case.kz or case.k) or 1
        local terms = deep * (o == 3 and case.n * case.h * case.w or case.k * case.k * math.max(case.ci, case.co))
        local bound = terms * 2 ^ -24 * math.sqrt(terms)
        for j = 1, #ref[o] do
          local off = math.abs(one[o][j] - ref[o][j])
          if off > bound or off ~= off then
            error(('%s %d: %.9g, expected %.9g within %.2g'):format(name, j, one[o][j], ref[o][j], bound))
          end
        end
      end
    end)
  end
end)
