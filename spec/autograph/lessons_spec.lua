--- The loops and choices of the lessons, the tour and the examples, written as statements of Lua: df.autograph gives their
--- numbers, and their gradients.
local df = require 'dflow'
local near = require('spec.support').near
local cond, while_loop = df.cond, df.while_loop
local unpack = table.unpack or unpack

local F, I, D = df.float32, df.int32, df.float64
local function below(n) return function(i) return i:lt(n) end end
local double = function() return df.func('double', { 'float32' }, function(v) return v * 2 end) end

--- What, as a lesson has it, as Lua has it, and what both take: dtypes and values. Gradients are those of the first result, if it is a float, by the first input.
local subjects = {
  { 'lesson: a cond', function(p) return cond(p:gt(0), function() return p * 10 end, function() return p - 1 end) end,
    function(p) if p > 0 then return p * 10 end return p - 1 end, { F, 3 }, { F, -2 } },
  { 'lesson: the branch that is not taken', function(x) return cond(x:gt(0), function() return x + 1 end, function() return ((x * 2) - 3):exp() end) end,
    function(x) return x > 0 and x + 1 or (x * 2 - 3):exp() end, { F, 3 }, { F, -2 } },
  { 'lesson: a branch that would fail', function(x, z)
    return cond(x:gt(0), function() return I(7) end, function() return df.floordiv(I(1), z) end)
  end, function(x, z) if x > 0 then return 7 else return df.floordiv(I(1), z) end end, { I, 1, 0 }, { I, -1, 1 } },
  { 'lesson: a loop', function(x)
    local _, y = while_loop(below(4), function(i, v) return i + 1, v * 2 end, { I(0), x })
    return y
  end, function(x) for _ = 1, I(4) do x = x * 2 end return x end, { F, 1.5 } },
  { 'lesson: a sum', function(n)
    local _, s = while_loop(function(i) return i:le(n) end, function(i, s) return i + 1, s + i end, { I(1), I(0) })
    return s
  end, function(n) local s = I(0) for i = 1, n do s = s + i end return s end, { I, 100 } },
  { 'lesson: windows', function(x)
    local _, s = while_loop(below(20), function(i, s) return i + 1, s + df.cast(i, 'float32') * x end, { I(0), F(0) })
    return s
  end, function(x) local s = F(0) for i = 0, I(19) do s = s + df.cast(i, 'float32') * x end return s end, { F, 0.5 } },
  { 'lesson: what a body captures', function(w)
    local _, y = while_loop(below(3), function(i, x) return i + 1, x * w end, { I(0), F(1) })
    return y
  end, function(w) local i, x = I(0), F(1) while i < 3 do i, x = i + 1, x * w end return x end, { F, 1.5 } },
  { 'lesson: an array', function(x)
    local _, ta = while_loop(below(4), function(i, ta) return i + 1, ta:write(i, df.cast(i, 'float32') ^ 2 * x) end, { I(0), df.TensorArray('float32', 4) })
    return ta:stack()
  end, function(x)
    local ta = df.TensorArray('float32', 4)
    for i = 0, I(3) do ta = ta:write(i, df.cast(i, 'float32') ^ 2 * x) end
    return ta:stack()
  end, { F, 2 } },
  { 'lesson: saved values', function(x)
    local _, y = while_loop(below(8), function(i, y) return i + 1, (y * x):tanh() end, { I(0), F(0.5) })
    return y
  end, function(x) local y, i = F(0.5), I(0) repeat y, i = (y * x):tanh(), i + 1 until i == 8 return y end, { F, 1.2 } },
  { 'lesson: Collatz', function(n)
    local _, k = while_loop(function(v) return v:gt(1) end, function(v, k)
      return cond((v % 2):eq(0), function() return df.floordiv(v, 2) end, function() return 3 * v + 1 end), k + 1
    end, { n, I(0) })
    return k
  end, function(n)
    local k = I(0)
    while n > 1 do
      if n % 2 == 0 then n = df.floordiv(n, 2) else n = 3 * n + 1 end
      k = k + 1
    end
    return k
  end, { I, 27 }, { I, 1 } },
  { 'lesson: a function in a loop', function(x)
    local twice = double()
    local _, y = while_loop(below(5), function(i, y) return i + 1, twice(y) + x end, { I(0), x })
    return y
  end, function(x) local twice, y = double(), x for _ = 1, I(5) do y = twice(y) + x end return y end, { F, 0.5 } },
  { 'tour: a sum of squares', function(limit)
    local i, total = while_loop(function(_, total) return total:lt(limit) end, function(i, total) return i + 1, total + i * i end, { I(0), I(0) })
    return i, total
  end, function(limit) local i, total = I(0), I(0) while total < limit do i, total = i + 1, total + i * i end return i, total end, { I, 1000 } },
  { 'tour: loops in loops', function(n)
    local _, sum = while_loop(function(i) return i:lt(n) end, function(i, sum)
      local _, row = while_loop(function(j) return j:lt(i) end, function(j, row)
        return j + 1, row + cond((j % 2):eq(0), function() return i end, function() return -j end)
      end, { I(0), I(0) })
      return i + 1, sum + row
    end, { I(0), I(0) })
    return sum
  end, function(n)
    local sum = I(0)
    for i = 0, n - 1 do
      local row = I(0)
      for j = 0, i - 1 do
        if j % 2 == 0 then row = row + i else row = row - j end
      end
      sum = sum + row
    end
    return sum
  end, { I, 5 }, { I, 0 } },
  { 'tour: squares', function(v) return (while_loop(function(u) return u:lt(100) end, function(u) return u * u end, { v })) end,
    function(v) while v < 100 do v = v * v end return v end, { F, 2 }, { F, 101 } },
  { 'example: picture', function(v)
    local _, y = while_loop(function(_, y) return y:lt(50) end, function(i, y)
      return i + 1, cond((i % 2):eq(0), function() return y * v end, function() return y + v end)
    end, { I(0), F(1) })
    return y
  end, function(v)
    local i, y = I(0), F(1)
    while y < 50 do
      if i % 2 == 0 then y = y * v else y = y + v end
      i = i + 1
    end
    return y
  end, { F, 3 } },
  { 'example: cannon', function(a)
    local s = while_loop(function(s) return s.y:ge(0) end, function(s)
      local speed = df.sqrt(s.vx * s.vx + s.vy * s.vy)
      return { x = s.x + 0.1 * s.vx, y = s.y + 0.1 * s.vy, vx = s.vx - 0.001 * speed * s.vx, vy = s.vy - 0.98 - 0.001 * speed * s.vy }
    end, { x = D(0), y = D(0), vx = 50 * df.cos(a), vy = 50 * df.sin(a) })
    return s.x - s.y * s.vx / s.vy
  end, function(a)
    local x, y, vx, vy = D(0), D(0), 50 * df.cos(a), 50 * df.sin(a)
    while y >= 0 do
      local speed = df.sqrt(vx * vx + vy * vy)
      x, y, vx, vy = x + 0.1 * vx, y + 0.1 * vy, vx - 0.001 * speed * vx, vy - 0.98 - 0.001 * speed * vy
    end
    return x - y * vx / vy
  end, { D, 0.7 } },
  { 'example: mandelbrot', function(c)
    local re0 = df.range(-8, 4):cast 'float32' * c
    local function small(re, im) return (re * re + im * im):lt(4) end
    local _, _, _, count = while_loop(function(i, re, im) return i:lt(30):logical_and(df.reduce_any(small(re, im))) end, function(i, re, im, count)
      return i + 1, re * re - im * im + re0, 2 * re * im + 0.3, count + df.cast(small(re, im), 'int32')
    end, { I(0), re0 * 0, re0 * 0, df.cast(re0 * 0, 'int32') })
    return count
  end, function(c)
    local re0 = df.range(-8, 4):cast 'float32' * c
    local function small(re, im) return (re * re + im * im):lt(4) end
    local i, re, im, count = I(0), re0 * 0, re0 * 0, df.cast(re0 * 0, 'int32')
    while i < 30 and df.reduce_any(small(re, im)) do
      i, re, im, count = i + 1, re * re - im * im + re0, 2 * re * im + 0.3, count + df.cast(small(re, im), 'int32')
    end
    return count
  end, { F, 0.25 } },
  { 'example: life', function(c)
    local board = df.cast(df.equal((df.range(0, 25) * c) % 3, 0), 'int32'):reshape{ 5, 5 }
    local function after(b) return df.cast((df.roll(b, { 1 }, { 0 }) + df.roll(b, { -1 }, { 1 }) + b):eq(1), 'int32') end
    local _, last, history = while_loop(below(6), function(i, b, h) return i + 1, after(b), h:write(i, b) end, { I(0), board, df.TensorArray('int32', 6) })
    return last, history:stack()
  end, function(c)
    local board = df.cast(df.equal((df.range(0, 25) * c) % 3, 0), 'int32'):reshape{ 5, 5 }
    local function after(b) return df.cast((df.roll(b, { 1 }, { 0 }) + df.roll(b, { -1 }, { 1 }) + b):eq(1), 'int32') end
    local history = df.TensorArray('int32', 6)
    for i = 0, I(5) do history, board = history:write(i, board), after(board) end
    return board, history:stack()
  end, { I, 2 } },
  { 'example: maml', function(rate)
    local last = while_loop(function(s) return s.i:lt(4) end, function(s)
      local slope = df.gradients(df.square(s.w * s.w - 2), s.w)
      return { i = s.i + 1, w = s.w - rate * slope }
    end, { i = I(0), w = F(1) })
    return last.w
  end, function(rate)
    local w = F(1)
    for _ = 1, I(4) do
      local slope = df.gradients(df.square(w * w - 2), w)
      w = w - rate * slope
    end
    return w
  end, { F, 0.05 } },
  { 'example: steps that are taken or not', function(x)
    local s = while_loop(function(s) return s.t:lt(1):logical_and(s.taken:lt(50)) end, function(s)
      local h = df.minimum(s.h, 1 - s.t)
      local good = (h * s.y):lt(0.2)
      return { t = df.where(good, s.t + h, s.t), y = df.where(good, s.y + h * s.y, s.y), h = df.where(good, h * 1.5, h * 0.5), taken = s.taken + 1 }
    end, { t = F(0), y = x, h = F(0.5), taken = I(0) })
    return s.y, s.taken
  end, function(x)
    local t, y, h, taken = F(0), x, F(0.5), I(0)
    while t < 1 and taken < 50 do
      h = df.minimum(h, 1 - t)
      if h * y < 0.2 then t, y, h = t + h, y + h * y, h * 1.5 else h = h * 0.5 end
      taken = taken + 1
    end
    return y, taken
  end, { F, 1.1 } },
  { 'example: rows of a network', function(x)
    local rows = df.TensorArray('float32', 5):unstack(df.range(0, 5):cast 'float32' * x)
    local _, state = while_loop(below(5), function(i, s) return i + 1, { c = s.c * 0.5 + rows:read(i), h = df.tanh(s.c + s.h) } end, { I(0), { c = F(0), h = F(0) } })
    return state.h
  end, function(x)
    local state = { c = F(0), h = F(0) }
    for v in df.each(df.range(0, 5):cast 'float32' * x) do state = { c = state.c * 0.5 + v, h = df.tanh(state.c + state.h) } end
    return state.h
  end, { F, 0.3 } },
}

describe('a loop written as Lua has it', function()
  for _, s in ipairs(subjects) do
    it('gives the numbers of ' .. s[1], function()
      for k = 4, #s do
        df.reset()
        local kind, given, values = s[k][1], {}, {}
        for i = 2, #s[k] do
          given[i - 1] = df.placeholder_with_default(kind(s[k][i]), {})
        end
        for way, fn in ipairs{ s[2], df.autograph(s[3]) } do
          local r = { fn(unpack(given)) }
          if r[1].dtype:find 'float' then r[#r + 1] = df.gradients(r[1], given[1], { unconnected = 'zero' }) end
          values[way] = df.run(r)
        end
        near(values[2], values[1], { rtol = 1e-6 })
      end
    end)
  end
end)
