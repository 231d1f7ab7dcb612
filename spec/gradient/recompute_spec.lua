-- save = 'recompute': a loop that keeps its variables now and then and runs the iterations between again for its gradient.
-- Each case is built twice, with save = 'keep' and with save = 'recompute', and must give the same.
-- run: first
local df = require 'dflow'
local random_program = require 'spec.random_program'
local shell = require 'spec.shell'
local support = require 'spec.support'
local near = support.near
local unpack = table.unpack or unpack

local F = df.float64
local function grad(y, x) return (df.gradients(y, x)) end
--- n trips with a counter; the other variables in and out.
local function trips(save, n, body, ...)
  local r = { df.while_loop(function(i) return i:lt(n) end, function(i, ...) return i + 1, body(i, ...) end, { df.int32(0), ... }, { save = save }) }
  return unpack(r, 2)
end
local function fails(pattern, fn, ...)
  local message = support.message_of(fn, ...)
  assert(message:gsub('\n', ' '):find(pattern), message)
end
--- y, and its derivatives by x up to `order`.
local function derivatives(y, x, order)
  local list = { y }
  for k = 1, order do list[k + 1] = df.gradients(df.reduce_sum(list[k]), x) end
  return list
end
local function flat(v, out)
  out = out or {}
  if type(v) == 'number' then out[#out + 1] = v return out end
  for _, e in ipairs(df.type(v) == 'tensor' and v:totable() or v) do flat(e, out) end
  return out
end
--- What `build(save)` gives under both policies: the value and the first derivative to the bit, the others up to rounding. A second
-- result of build is fetched after the run.
local function same(build, exact)
  local found = {}
  for _, save in ipairs { 'keep', 'recompute' } do
    df.reset()
    local list, after = build(save)
    local values = df.run(list)
    found[save] = { values, after and df.run(after) }
  end
  near(found.recompute, found.keep, { rtol = 1e-12, atol = 1e-300 })
  for i = 1, exact or 2 do
    local a, b = flat(found.keep[1][i] or {}), flat(found.recompute[1][i] or {})
    for k = 1, #a do assert(a[k] == b[k], ('result %d differs in the last bits: %.17g, %.17g'):format(i, a[k], b[k])) end
  end
  return found.recompute
end

local host_it = require('spec.support').host_it(it, pending)

describe("a loop with save = 'recompute'", function()
  it('has the gradients of the same loop with save = keep, for any number of trips', function()
    for n = 0, 17 do
      same(function(save)
        local x, w = F(0.7), F(1.3)
        local y = trips(save, n, function(_, u) return df.sin(u * w) + x end, x * 1.0)
        return { y, df.gradients(y, { x, w }, { unconnected = 'zero' }) }
      end)
    end
  end)
  it('that squares until 100 is 1024, then 3584, then 10752; that multiplies by a captured value 81, 216, 216, 108', function()
    local v, a = F(2), F(3)
    local square = df.while_loop(function(u) return u:lt(100) end, function(u) return u * u end, { v }, { save = 'recompute' })
    near(df.run(derivatives(square, v, 3)), { 256, 1024, 3584, 10752 })
    local times = df.while_loop(function(u) return u:lt(100) end, function(u) return u * a end, { v }, { save = 'recompute' })
    local dv, da = grad(times, v), grad(times, a)
    near(df.run { dv, da, grad(da, a), grad(da, v), grad(dv, a) }, { 81, 216, 216, 108, 108 })
  end)
  it('is right for a vector recurrence, whose sums are added up in the same order', function()
    same(function(save)
      local W = df.constant(support.tensor({ 5, 5 }, -0.8, 0.8, 'float32', 1))
      local b = df.constant(support.tensor({ 5 }, -0.3, 0.3, 'float32', 2))
      local h = trips(save, 40, function(_, u) return df.tanh(u:matmul(W) + b) end, df.ones { 3, 5 })
      local loss = df.reduce_sum(h * h)
      return { loss, df.gradients(loss, { W, b }) }
    end)
  end)
  it('is right within loops and conds, and with loops and conds within', function()
    same(function(save)
      local x = F(0.9)
      local y = trips(save, 7, function(i, u)
        local v = df.cond((i % 2):eq(0), function() return trips(save, i, function(_, w) return df.sin(w) * x end, u) end,
                          function() return u * u * 0.5 + x end)
        return (trips('keep', 3, function(_, w) return w * 0.9 + df.cos(v) end, v))
      end, x)
      return derivatives(df.cond(y:gt(-100), function() return trips(save, 5, function(_, u) return df.sin(u) * x end, y) end,
                                 function() return y end), x, 3)
    end)
  end)
  it('may be in the body of a loop that keeps, swaps or recomputes', function()
    for _, outer in ipairs { 'keep', 'swap', 'recompute' } do
      same(function(save)
        local x = F(0.9)
        local y = trips(outer, 6, function(i, u) return (trips(save, i + 1, function(_, w) return df.sin(w) * x end, u)) + u * 0.1 end, x)
        return derivatives(y, x, 2)
      end)
    end
  end)
  it('draws no random numbers anew', function()
    same(function(save)
      local x = F(1.5)
      local y = trips(save, 20, function(_, u) return u * df.random_uniform({}, { dtype = 'float64', seed = 3 }) + x end, x)
      return derivatives(y * y, x, 2)
    end)
    same(function(save)
      local x = F(1.5)
      local y = trips(save, 9, function(i, u)
        local v = df.cond((i % 2):eq(0), function() return u * df.random_uniform({}, { dtype = 'float64', seed = 3 }) end,
                          function() return df.sin(u) end)
        return trips(save, i % 3, function(_, w) return w * df.random_normal({}, { dtype = 'float64', seed = 5 }) + v end, v) * 0.5 + x
      end, x)
      return derivatives(y, x, 2)
    end)
  end)
  it('goes the way it went where a predicate within is drawn at random', function()
    same(function(save)
      local x = F(0.8)
      local y = trips(save, 9, function(_, u)
        return (df.while_loop(function() return df.random_uniform({}, { seed = 4 }):lt(0.7) end, function(z) return df.sin(z) * x + x end,
                              { u }, { save = save }))
      end, x)
      return derivatives(y, x, 2)
    end)
  end)
  it('repeats no side effect', function()
    local found = same(function(save)
      local a, x = df.Variable(F(2)), F(1)
      local y = trips(save, 7, function(_, u)
        local w = u * a:value()
        a:assign_add(1)
        return w
      end, x)
      return { y, df.gradients(y, { x, a }), grad(grad(y, a), x), grad(grad(y, a), a) }, a
    end)
    near(found[2], 9)
    same(function(save)
      local a, x = df.Variable(F(2)), F(1)
      local y = trips(save, 7, function(_, u) return u * a:assign_add(1) + a:assign(u * x) end, x)
      return { y, grad(y, x), grad(grad(y, x), x) }, a
    end)
    local path = os.tmpname()
    shell.write(path, [[
      local df = require 'dflow'
      local x = df.float64(1)
      local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, u) return i + 1, df.print(u * x, { message = 'trip ' }) * 2 end,
                                 { df.int32(0), x }, { save = 'recompute' })
      print(df.run { y, (df.gradients(y, x)) }[2])]])
    local r = shell.run(shell.lua .. ' ' .. path)
    os.remove(path)
    assert(tonumber(r.out) == 32 and select(2, r.err:gsub('trip ', '')) == 3, r.out .. r.err)
  end)
  it('takes no second value out of a queue', function()
    same(function(save)
      local q, x = df.FIFOQueue(20, { 'float64' }, { shapes = { {} } }), F(0.3)
      local filled = q:enqueue_many(df.constant({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, 'float64'))
      local y = df.control_dependencies({ filled }, function()
        return (trips(save, 7, function(_, u) return u * q:dequeue() * 0.3 + x end, df.identity(x)))
      end)
      return { y, grad(y, x) }, q:size()
    end)
  end)
  it('reads and writes the TensorArrays that it read and wrote', function()
    same(function(save)
      local x = F(0.8)
      local ta = trips(save, 16, function(i, ta) return ta:write(i + 2, df.sin(ta:read(i)) * ta:read(i + 1) * 0.5 + ta:read(i + 1)) end,
                       df.TensorArray('float64', 18):write(0, x):write(1, x * x))
      return derivatives(df.reduce_sum(ta:stack() * ta:stack()), x, 3)
    end)
    same(function(save)                                  -- a new one each time, and one made within
      local x = F(0.8)
      local ta, v = trips(save, 6, function(_, ta, v)
        return df.TensorArray('float64', 1):write(0, ta:read(0) * x), df.map_fn(function(e) return df.sin(e) * e + 0.1 end, v)
      end, df.TensorArray('float64', 1):write(0, x), df.stack { x, x * 2 })
      return derivatives(ta:read(0) + df.reduce_sum(v), x, 3)
    end)
    same(function(save)                                  -- cleared when read; grown
      local x = F(0.8)
      local once = df.TensorArray('float64', 18, { clear_after_read = true }):unstack(df.fill({ 18 }, x))
      local ta, u = trips(save, 16, function(i, ta, u)
        ta = ta:write(i, u * x)
        return ta, u * once:read(i) + df.cast(ta:size(), 'float64') * x
      end, df.TensorArray('float64', 0, { dynamic_size = true }), x)
      return derivatives(u + df.reduce_sum(ta:stack()), x, 2)
    end)
  end)
  it('says why it cannot read all of an array that has grown since, or add to a gradient array', function()
    local x = F(0.8)
    local _, y = trips('recompute', 6, function(i, ta, u)
      ta = ta:write(i, u * x)
      return ta, u + df.reduce_sum(ta:stack())
    end, df.TensorArray('float64', 0, { dynamic_size = true }), x)
    fails('recompute.*TensorArrayStack.*cannot be run again.*grown since', grad, y, x)
    local ta = trips('recompute', 5, function(i, t) return t:write(i, x * df.cast(i, 'float64')) end, df.TensorArray('float64', 5))
    local sums = trips('recompute', 5, function(i, t) return t:write(i, x) end, ta:grad('s'))
    fails('recompute.*TensorArrayWrite.*gradient array', grad, df.reduce_sum(sums:stack()), x)
  end)
  it('keeps sparse gradients sparse', function()
    same(function(save)
      local x = df.Variable(df.constant({ { 1, 2 }, { 3, 4 }, { 5, 6 } }, 'float64'))
      local v = trips(save, 14, function(i, u) return df.sin(u) + df.reduce_sum(df.gather(x, df.stack { i % 2, i % 3 })) * 0.1 end, F(0.1))
      local g = grad(v, x)
      assert(g.values, 'it is dense')
      return { v, g + 0 }
    end)
  end)
  it('follows a variable whose shape grows', function()
    same(function(save)
      local w = df.constant({ { 1, 2 } }, 'float64')
      local _, r = df.while_loop(function(i) return i:lt(7) end, function(i, u) return i + 1, df.concat({ df.sin(u), w }, 0) end,
                                 { df.int32(0), df.zeros({ 0, 2 }, { dtype = 'float64' }) },
                                 { save = save, shape_invariants = { [2] = { -1, 2 } } })
      return derivatives(df.reduce_sum(r * r), w, 2)
    end)
  end)
  it('may hold gradients, custom gradients and checkpoints', function()
    same(function(save)
      local x = F(0.8)
      local y = trips(save, 5, function(_, u)
        local f = trips(save, 3, function(_, z) return df.sin(z * x) end, u)
        return u + grad(f, u) * 0.1
      end, x)
      return derivatives(y, x, 2)
    end)
    same(function(save)
      local f = df.custom_gradient(function(v) local e = df.exp(v) return e * v, function(dy) return dy * (e * v + e) end end)
      local x = F(0.3)
      return derivatives(trips(save, 5, function(_, u) return f(u) * 0.5 end, x), x, 2)
    end)
    same(function(save)
      local f = df.checkpoint(function(v) local e = df.exp(v) return df.sin(e * v) end)
      local x = F(0.3)
      return derivatives(trips(save, 5, function(_, u) return f(u) * 0.5 end, x), x, 2)
    end)
  end)
  it('leaves stopped gradients stopped', function()
    same(function(save)
      local x = F(0.7)
      local y = trips(save, 5, function(_, u) return df.sin(u) * x + df.stop_gradient(u * x) end, x)
      return { y, grad(y, x) }
    end)
  end)
  it('names an op without a gradient in its body, with its line and the way from y to x', function()
    local x = df.constant({ 2, 1, 2 }, 'float64')
    local y = trips('recompute', 3, function(_, u)
      local v, i = df.unique(u * 2)
      return df.gather(v, i) * x
    end, x)
    fails('op Unique .*has no gradient.*from y to x: .*recompute_spec.lua:%d+', grad, df.reduce_sum(y), x)
  end)
  host_it('holds a part of the memory that grows as the square root of the trips', function()
    local program = [[
      local df = require 'dflow'
      local n, save = %d, '%s'
      local W = df.constant(df.run(df.random_normal({ 16, 16 }, { seed = 1 }) * 0.2))
      local _, h = df.while_loop(function(i) return i:lt(n) end, function(i, u) return i + 1, df.sin(u:matmul(W)) end,
                                 { df.int32(0), df.ones { 16, 16 } }, { save = save })
      local g = df.gradients(df.reduce_sum(h), W)
      local s = df.Session {}
      local _, before = next(s:stats().memory)
      s:run(g)
      local _, after = next(s:stats().memory)
      print(after.peak - before.in_use)]]
    local function peak(n, save)
      local path = os.tmpname()
      shell.write(path, program:format(n, save))
      local r = shell.run(shell.lua .. ' ' .. path)
      os.remove(path)
      return assert(tonumber(r.out), r.err)
    end
    local few, many, all = peak(500, 'recompute'), peak(8000, 'recompute'), peak(8000, 'keep')
    assert(many < 6 * few, ('%d bytes for 500 trips, %d for 8000'):format(few, many))
    assert(many < 0.08 * all, ('%d bytes, %d when all is kept'):format(many, all))
  end)
end)

describe('df.checkpoint', function()
  it('may draw and assign in loops and branches inside it, which happens once', function()
    local x, n = F(1.5), df.Variable(F(0))
    local function noisy(a)
      return trips('keep', 4, function(i, u)
        return df.cond((i % 2):eq(0), function() return u * df.random_uniform({}, { dtype = 'float64', seed = 7 }) + n:assign_add(1) end,
                       function() return df.sin(u) * x end)
      end, a)
    end
    local y = df.checkpoint(noisy)(x)
    local nested = df.checkpoint(function(a) return df.checkpoint(noisy)(a) * 2 end)(x)
    local g = grad(y * y, x)
    local h = df.run { y, g, grad(g, x) }
    near(df.run(n), 2)
    local r = df.run { nested, grad(nested, x) }
    near(df.run(n), 4)
    for _, v in ipairs { h[1], h[2], h[3], r[1], r[2] } do assert(v == v) end
  end)
  it('in a loop runs its function again for each trip, with that trip\'s numbers', function()
    same(function(save)
      local x = F(0.7)
      local y = trips(save, 6, function(_, u) return df.sin(u * df.random_uniform({}, { dtype = 'float64', seed = 2 })) + u end, x)
      return derivatives(y, x, 2)
    end)
    local x = F(0.7)
    local count = df.Variable(F(0))
    local f = df.checkpoint(function(a) return df.sin(a) * count:assign_add(1) end)
    local y = trips('keep', 3, function(_, u) return f(u) end, x)
    -- sin(sin(sin x) * 2) * 3
    local a, b = math.sin(0.7), math.sin(math.sin(0.7)) * 2
    near(df.run { y, grad(y, x) }, { math.sin(b) * 3, math.cos(b) * 3 * math.cos(a) * 2 * math.cos(0.7) })
    near(df.run(count), 3)
  end)
  host_it('holds the intermediates of one function at a time', function()
    local program = [[
      local df = require 'dflow'
      local function layer(u) for _ = 1, 6 do u = df.erf(u * 1.1) end return u end
      local f = %s
      local x = df.placeholder('float32', { 64, 1024 })
      local u = x
      for _ = 1, 12 do u = f(u) end
      local g = df.gradients(df.reduce_sum(u), x)
      local s, feed = df.Session {}, { [x] = df.run(df.random_uniform { 64, 1024 }) }
      local _, before = next(s:stats().memory)
      s:run(g, feed)
      local _, after = next(s:stats().memory)
      print(after.peak - before.in_use)]]
    local function peak(f)
      local path = os.tmpname()
      shell.write(path, program:format(f))
      local r = shell.run(shell.lua .. ' ' .. path)
      os.remove(path)
      return assert(tonumber(r.out), r.err)
    end
    local kept, again = peak 'layer', peak 'df.checkpoint(layer)'
    assert(again < 0.5 * kept, ('%d bytes, %d when all is kept'):format(again, kept))
  end)
end)

describe('random programs', function()
  it("have the same gradients to the bit when their loops recompute, and the same second ones up to rounding", function()
    local first = tonumber(os.getenv 'DFLOW_SEED') or 1
    local at = { 0.7, -0.4, 0.3 }
    --- Every loop, or every second one, with this policy.
    local function with(save, all)
      local k = 0
      return setmetatable({ while_loop = function(more, body, vars, opts)
        local o = {}
        for key, v in pairs(opts or {}) do o[key] = v end
        k = k + 1
        o.save = (all or k % 2 == 0) and save or 'keep'
        return df.while_loop(more, body, vars, o)
      end }, { __index = df })
    end
    for seed = first, first + 149 do
      local program = random_program.make(seed, 3)
      local found = {}
      for k, way in ipairs { with('keep', true), with('recompute', true), with('recompute', false) } do
        df.reset()
        local y, xs = random_program.build(way, program)
        local ok, list = pcall(function()
          local g = df.gradients(y, xs, { unconnected = 'zero' })
          local h = df.gradients(g[1] + g[2] * 0.3, xs, { unconnected = 'zero' })
          return df.run({ y, g[1], g[2], g[3], h[1], h[2], h[3] }, { [xs[1]] = at[1], [xs[2]] = at[2], [xs[3]] = at[3] })
        end)
        assert(ok, ('seed %d: %s in\n%s'):format(seed, tostring(list), random_program.show(program)))
        found[k] = list
      end
      for k = 2, 3 do
        for i = 1, 7 do
          local a, b = found[1][i], found[k][i]
          assert(a == b or (a ~= a and b ~= b) or (i > 4 and math.abs(a - b) <= 1e-11 * math.abs(a)),
                 ('seed %d, result %d: %.17g, %.17g in\n%s'):format(seed, i, a, b, random_program.show(program)))
        end
      end
    end
  end)
end)

describe('a function called in a loop with save = "recompute"', function()
  local function slope(save, body)
    local f = df.func('f', { 'float64' }, body, { returns = { 'float64' } })
    local x = df.placeholder('float64', {})
    local _, y = df.while_loop(function(i) return i:lt(7) end, function(i, y) return i + 1, f(y) + f(y * x) end, { df.int32(0), x }, { save = save })
    return df.run(df.gradients(y, x), { [x] = df.tensor(0.3, 'float64') })
  end

  it('is called again, with what it calls and the loops and arrays in it', function()
    local function body(a)
      local square = df.func('square', { 'float64' }, function(b) return b * b end, { returns = { 'float64' } })
      local _, rows = df.while_loop(function(i) return i:lt(3) end, function(i, rows) return i + 1, rows:write(i, (a * 0.7):sin()) end,
        { df.int32(0), df.TensorArray('float64', 3) })
      return df.cond(a:lt(0.5), function() return square(a) + rows:stack():reduce_sum() * 0.2 end, function() return a:tanh() end)
    end
    assert.are.equal(slope('keep', body), slope('recompute', body))
    df.reset()
    local x = df.placeholder_with_default(df.float64(0.4))
    local f = df.func('g', { 'float64' }, function(a) return a:sin() end, { returns = { 'float64' } })
    assert.are.equal(math.cos(0.4), df.run(df.gradients(df.checkpoint(function(a) return f(a) end)(x), x)))
  end)

  it('is refused, and says why, when it has effects or draws numbers', function()
    for _, body in ipairs{ function(a) return a * df.random_uniform({}, { dtype = 'float64' }) end,
      function(a)
        local v = df.Variable(function() return df.float64(1) end, { trainable = false })
        return a * v:assign_add(1)
      end } do
      df.reset()
      local ok, err = pcall(slope, 'recompute', body)
      assert.is_false(ok)
      assert.are.equal('unimplemented', err.code)
      assert.matches('cannot be run again: the function has effects or gives something else the second time', tostring(err), 1, true)
    end
  end)
end)

describe('a loop in what is recomputed', function()
  --- Bodies whose variables change shape from trip to trip; x is float64[2].
  local bodies = {
    function(x)                                                   -- rows fewer each trip, gathered by indices
      local _, _, s = df.while_loop(function(_, id) return df.size(id):gt(0) end, function(i, id, s)
        return i + 1, id:slice({ 0 }, { df.size(id) - 1 }), s + (df.gather(x, id) * df.gather(x, id)):reduce_sum()
      end, { df.int32(0), df.range(2), F{ 0 } }, { shape_invariants = { {}, { -1 }, { 1 } } })
      return s * x
    end,
    function(x)                                                   -- rows that a cond leaves out
      local _, id, rows = df.while_loop(function(i) return i:lt(4) end, function(i, id, rows)
        local n = df.size(id)
        id, rows = df.cond(n:gt(1):logical_and((i % 2):eq(1)), function() return id:slice({ 0 }, { n - 1 }), rows:slice({ 0 }, { n - 1 }) end,
                           function() return id, rows end)
        return i + 1, id, rows * df.gather(x, id)
      end, { df.int32(0), df.range(2), x }, { shape_invariants = { {}, { -1 }, { -1 } } })
      return rows:reduce_sum() * x + df.cast(df.size(id), 'float64')
    end,
    function(x)                                                   -- more rows each trip
      local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, y) return i + 1, df.concat({ y, y:slice({ 0 }, { 1 }) * x[1] }, 0) end,
                                 { df.int32(0), x }, { shape_invariants = { {}, { -1 } } })
      return (y * y):reduce_sum() * x
    end,
  }

  it('may change the shapes of its variables', function()
    for k, body in ipairs(bodies) do
      df.reset()
      local x = F{ 0.5, 1.25 }
      local function slopes(y) return df.run{ y, grad(y, x), grad(grad(y, x), x) } end
      local kept = slopes(trips('keep', 2, function(_, y) return body(y) end, x))
      near(slopes(trips('recompute', 2, function(_, y) return body(y) end, x)), kept, { rtol = 1e-12 })
      near(slopes(df.checkpoint(body)(df.checkpoint(body)(x))), kept, { rtol = 1e-12 })
      assert(df.check_gradients(df.checkpoint(body)(x):reduce_sum(), x, { order = 2 }), k)
    end
  end)
end)
