--- Native loops with tensors of any size: what is captured is read in place, and no size turns a loop to tokens at once.
local df = require 'dflow'
local engines = require 'spec.engines'
local same_under_both = engines.same_under_both

--- Is the loop native? What s:native() says of it.
local function told(fetches, feeds)
  local s = df.Session{ engine = 'native' }
  s:run(fetches, feeds)
  local text = s:native()
  s:close()
  return text
end

local function native(fetches, feeds)
  local text = told(fetches, feeds)
  assert.matches('^[^\n]*  native: ', text)
  return same_under_both(fetches, feeds)
end

local function ramp(dtype, dims)
  local n = 1
  for _, d in ipairs(dims) do n = n * d end
  return df.run((df.cast(df.range(0, n), dtype) / 7):cast(dtype):reshape(dims))
end

describe('rows of a captured tensor in native code', function()
  before_each(function() df.reset() end)

  it('are read in place whatever its size and dtype', function()
    for _, dtype in ipairs{ 'float32', 'float64', 'int32', 'int64' } do
      for _, dims in ipairs{ { 8, 3 }, { 3000, 2 }, { 700, 16 }, { 70, 256 }, { 5000 } } do
        local x = df.placeholder(dtype, dims)
        local n = dims[1]
        local _, sum, last = df.while_loop(function(i) return i:lt(n) end, function(i, sum)
          return i + 1, sum + x[i] * x[n - 1 - i], x[i]
        end, { df.int32(0), df.zeros({ dims[2] }, dtype), df.zeros({ dims[2] }, dtype) })
        native({ sum, last }, { [x] = ramp(dtype, dims) })
      end
    end
  end)

  it('are read in branches, in inner loops and of what is reshaped', function()
    local x = df.placeholder('float32', { 600, 64 })
    local _, sum = df.while_loop(function(i) return i:lt(20) end, function(i, sum)
      local row = df.cond(i:gt(7), function() return x[i * 3] end, function() return x[i] * 2 + df.reshape(x, { 300, 128 })[i][1] end)
      local _, inner = df.while_loop(function(j) return j:lt(i) end, function(j, v) return j + 1, v + x[j] * 0.5 end, { df.int32(0), row })
      return i + 1, sum + inner
    end, { df.int32(0), df.zeros{ 64 } })
    native(sum, { [x] = ramp('float32', { 600, 64 }) })
  end)

  it('of a tensor that the loop makes are copies', function()
    local x = df.placeholder('float32', { 40, 96 })
    local _, v, first = df.while_loop(function(i) return i:lt(9) end, function(i, v) return i + 1, v * 0.5 + 1, v[i] end,
      { df.int32(0), x, df.zeros{ 96 } })
    native({ v, first }, { [x] = ramp('float32', { 40, 96 }) })
  end)

  it('outside of it fail as tokens do', function()
    local x, n = df.placeholder('float32', { 3000, 2 }), df.placeholder('int32', {})
    local _, sum = df.while_loop(function(i) return i:lt(n) end, function(i, sum) return i + 1, sum + x[i] end,
      { df.int32(2990), df.zeros{ 2 } })
    local feeds = { [x] = ramp('float32', { 3000, 2 }) }
    feeds[n] = 3000
    same_under_both(sum, feeds)
    feeds[n] = 3001
    assert.is_string(same_under_both(sum, feeds).error)
    local _, under = df.while_loop(function(i) return i:gt(n) end, function(i, s) return i - 1, s + x[i] end, { df.int32(5), df.zeros{ 2 } })
    feeds[n] = -2
    assert.is_string(same_under_both(under, feeds).error)
  end)

  it('have gradients', function()
    local x = df.placeholder('float32', { 300, 16 })
    local _, y = df.while_loop(function(i) return i:lt(30) end, function(i, y) return i + 1, df.tanh(y + x[i * 2]) end, { df.int32(0), df.zeros{ 16 } })
    same_under_both({ y, df.gradients(y:reduce_sum(), x) }, { [x] = ramp('float32', { 300, 16 }) })
  end)
end)

describe('larger tensors in native code', function()
  before_each(function() df.reset() end)

  it('are loop variables and results', function()
    for _, n in ipairs{ 2048, 4096, 6000 } do
      local x = df.placeholder('float32', { n })
      local _, v, sum = df.while_loop(function(i) return i:lt(12) end, function(i, v, sum)
        local a = df.tanh(v) + df.cast(i, 'float32')
        return i + 1, df.cond((i % 3):eq(1), function() return a * v end, function() return a - 1 end), sum + df.reduce_max(a) + df.reduce_sum(v)
      end, { df.int32(0), x, df.float32(0) })
      native({ v, sum }, { [x] = ramp('float32', { n }) })
    end
  end)

  it('are given to kernels where they lie', function()
    local w, b = df.placeholder('float32', { 300, 256 }), df.placeholder('float32', { 256, 300 })
    local x = df.placeholder('float32', { 2, 300 })
    local ids = df.constant({ 3, 1, 250 }, 'int32')
    local _, y = df.while_loop(function(i) return i:lt(6) end, function(i, y)
      local h = df.tanh(y:matmul(w) * 0.01)
      return i + 1, h:matmul(b) * 0.01 + df.reduce_sum(df.gather(b, ids + i)) * 0.001
    end, { df.int32(0), x })
    native(y, { [w] = ramp('float32', { 300, 256 }), [b] = ramp('float32', { 256, 300 }), [x] = ramp('float32', { 2, 300 }) })
  end)

  it('are the same under both engines where rows and columns are broadcast', function()
    local x, r, c = df.placeholder('float32', { 24, 50 }), df.placeholder('float32', { 50 }), df.placeholder('float32', { 24, 1 })
    local _, y = df.while_loop(function(i) return i:lt(4) end, function(i, y) return i + 1, (y * r + c) * 0.1 + (r + c) end, { df.int32(0), x })
    native(y, { [x] = ramp('float32', { 24, 50 }), [r] = ramp('float32', { 50 }), [c] = ramp('float32', { 24, 1 }) })
  end)

  it('are assigned to variables as they are', function()
    local x = df.placeholder('float32', { 4000 })
    local v = df.Variable(df.zeros{ 4000 })
    local _, sum = df.while_loop(function(i) return i:lt(3) end, function(i, sum)
      v:assign(x)
      return i + 1, sum + v:value()[i]
    end, { df.int32(0), df.float32(0) })
    local s = df.Session{ engine = 'native' }
    s:run(sum, { [x] = ramp('float32', { 4000 }) })
    assert.same(ramp('float32', { 4000 }):totable(), s:run(v):totable())
    s:close()
  end)

  it('go to tokens where copying them takes longer, and the reason has the numbers', function()
    local x = df.placeholder('float32', { 16384 })
    local _, v = df.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, v + df.reduce_sum(v) end, { df.int32(0), x })
    local feeds = { [x] = df.zeros{ 16384 }:eval() }
    assert.matches('tokens: .*its variables have 64 kB, which native code would copy in each iteration', told(v, feeds))
    same_under_both(v, feeds)
  end)

  it('of sizes from 16 to 4 million elements leave a loop that only reads them native', function()
    for k = 4, 22, 3 do
      df.reset()
      local x = df.placeholder('float32', { 2 ^ k / 4, 4 })
      local _, sum = df.while_loop(function(i) return i:lt(4) end, function(i, sum) return i + 1, sum + x[i] end, { df.int32(0), df.zeros{ 4 } })
      native(sum, { [x] = df.fill({ 2 ^ k / 4, 4 }, df.float32(k)):eval() })
    end
  end)
end)
