--- Pooling beside its definition, evaluated pixel by pixel in Lua.
local df, support = require 'dflow', require 'spec.support'

--- An image [h, w, c] of few different numbers, so that windows have several greatest pixels.
local function image(h, w, c, seed)
  local t, x = {}, seed
  for i = 1, h * w * c do
    x = (x * 16807) % 2147483647
    t[i] = x % 5 - 2
  end
  return t
end

--- The gradient of a sum of maxima weighted by `dy`: to the first greatest pixel of every window.
local function expected(x, dy, h, w, c, k, stride, oh, ow)
  local to = {}
  for i = 1, h * w * c do to[i] = 0 end
  for oy = 0, oh - 1 do
    for ox = 0, ow - 1 do
      for ch = 0, c - 1 do
        local best
        for iy = oy * stride, oy * stride + k - 1 do
          for ix = ox * stride, ox * stride + k - 1 do
            local p = (iy * w + ix) * c + ch + 1
            if not best or x[p] > x[best] then best = p end
          end
        end
        to[best] = to[best] + dy[(oy * ow + ox) * c + ch + 1]
      end
    end
  end
  return to
end

describe('the gradient of max_pool', function()
  for _, case in ipairs{ { 6, 6, 3, 2, 2 }, { 7, 6, 5, 3, 1 }, { 5, 5, 131, 3, 2 }, { 4, 4, 300, 2, 1 }, { 8, 6, 151, 2, 2 } } do
    local h, w, c, k, stride = case[1], case[2], case[3], case[4], case[5]
    it(('goes to the first of the greatest pixels: %dx%dx%d, window %d, stride %d'):format(h, w, c, k, stride), function()
      local oh, ow = math.floor((h - k) / stride) + 1, math.floor((w - k) / stride) + 1
      local x, dy = image(h, w, c, 7), image(oh, ow, c, 11)
      for _, dtype in ipairs{ 'float32', 'float64' } do
        local input = df.placeholder(dtype, { 1, h, w, c })
        local y = df.max_pool(input, { ksize = { 1, k, k, 1 }, strides = { 1, stride, stride, 1 }, padding = 'VALID' })
        local weights = df.reshape(df.constant(dy, dtype), { 1, oh, ow, c })
        local g = df.reshape(df.gradients(df.reduce_sum(y * weights), input), { -1 })
        local feed = df.run(df.reshape(df.constant(x, dtype), { 1, h, w, c }))
        assert.same(expected(x, dy, h, w, c, k, stride, oh, ow), df.run(g, { [input] = feed }):totable())
      end
    end)
  end
end)

describe('pooling', function()
  --- Channels [from, to) of a pooled image and of its gradient, computed from those channels alone.
  local function of_channels(pool, x, from, to, options)
    local input = x:slice({ 0, 0, 0, from }, { -1, -1, -1, to - from })
    local y = pool(input, options)
    if x.dtype:find 'int' then return { y } end
    return { y, (df.unpack(df.gradients(y, { input }, { grad_ys = y * 3 }))) }
  end

  for _, dtype in ipairs{ 'float32', 'float64', 'float16', 'int8', 'uint8', 'int32', 'int64' } do
    it('gives a channel of ' .. dtype .. ' what it has by itself, whatever lies beside it', function()
      local c = 151                                          -- four vectors, some single ones, and a rest
      local numbers = image(2 * 6, 6, c, 23)
      for i = 1, #numbers, 97 do numbers[i] = dtype:find 'float' and (i % 2 == 0 and 0 / 0 or -math.huge) or 1 end
      if dtype == 'uint8' then for i = 1, #numbers do numbers[i] = numbers[i] + 2 end end
      local x = df.reshape(df.constant(numbers, dtype), { 2, 6, 6, c })
      for _, pool in ipairs{ df.max_pool, dtype:find 'float' and df.avg_pool or nil } do
        for _, how in ipairs{ { 2, 2, 'VALID' }, { 3, 2, 'SAME' }, { 3, 1, 'VALID' } } do
          local options = { ksize = { 1, how[1], how[1], 1 }, strides = { 1, how[2], how[2], 1 }, padding = how[3] }
          local all, alone = of_channels(pool, x, 0, c, options), {}
          for _, ch in ipairs{ 0, 15, 16, 63, 64, 100, 143, 144, 150 } do
            for k, v in ipairs(of_channels(pool, x, ch, ch + 1, options)) do
              alone[#alone + 1] = v
              alone[#alone + 1] = all[k]:slice({ 0, 0, 0, ch }, { -1, -1, -1, 1 })
            end
          end
          local values = df.run(alone)
          for k = 1, #values, 2 do assert.same(support.bits(values[k]:totable()), support.bits(values[k + 1]:totable())) end
        end
      end
    end)
  end
end)

describe('pooling', function()
  it('takes windows of any size, which see what there is of the image', function()
    local x = df.placeholder_with_default(df.range(0, 15, 1, { dtype = 'float32' }):reshape{ 1, 1, 1, 15 }, { 1, 1, 1, 15 })
    local ksize = { 1, 714156689, 1722007169, 1 }          -- with 15 channels the product is -1 in 64 bits
    local pooled = df.run{ df.avg_pool(x, ksize, { 1, 1, 1, 1 }, 'SAME'), df.max_pool(x, ksize, { 1, 1, 1, 1 }, 'SAME') }
    local mean, most = pooled[1], pooled[2]
    for i = 0, 14 do
      assert.equal(i, mean:at(0, 0, 0, i))
      assert.equal(i, most:at(0, 0, 0, i))
    end
  end)
end)
