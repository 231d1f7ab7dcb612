--- The token engine: deadness, order, workers, errors and memory, seen from outside.
local df = require 'dflow'
local shell = require 'spec.shell'
local support = require 'spec.support'
local near = support.near

local fails = require('spec.support').error_of

--- Runs a chunk in a process of its own with DFLOW_STRESS set; returns what shell.run does.
local function stressed(stress, chunk)
  local path = os.tmpname()
  shell.write(path, chunk)
  local r = shell.run(('DFLOW_STRESS=%s %s %s'):format(stress, shell.lua, path))
  os.remove(path)
  return r
end

describe('a run', function()
  it('kills what reads only a constant of the body and a captured value when the loop ends', function()
    local w = df.placeholder('float64', {})
    local _, v = df.while_loop(function(i) return i:lt(3) end, function(i, _)
      return i + 1, df.sin(df.maximum(df.maximum(w, -0.1), -0.8))
    end, { df.int32(0), df.float64(0) }, { parallel_iterations = 1 })
    near(df.run(v, { [w] = 0.5 }), math.sin(0.5))
  end)

  it('ends when a loop constant is dead because its branch is', function()
    local p, x = df.placeholder('bool', {}), df.placeholder('float32', {})
    local y = df.cond(p, function()
      local _, v = df.while_loop(function(i) return i:lt(4) end, function(i, v) return i + 1, v * x end, { df.int32(0), df.float32(1) })
      return v
    end, function() return x end)
    near(df.run(y, { [p] = true, [x] = 3 }), 81)
    near(df.run(y, { [p] = false, [x] = 3 }), 3)
  end)

  it('names the Switch when a fetch is dead', function()
    local p, inside = df.placeholder('bool', {}), nil
    df.cond(p, function() inside = df.float32(1) + 1 return inside end, function() return df.float32(0) end)
    near(df.run(inside, { [p] = true }), 2)
    local e = fails(df.run, inside, { [p] = false })
    assert.are.equal('invalid_argument', e.code)
    assert.matches('dead', e.message)
    assert.matches('Switch', e.message)
    assert.matches('took false', e.message)
  end)

  it('says of a fetch inside a loop how to get it out', function()
    local inside
    df.while_loop(function(i) return i:lt(3) end, function(i) inside = i * 2 return i + 1 end, { df.int32(0) })
    assert.matches('TensorArray', fails(df.run, inside).message)
  end)

  it('names the placeholder that was not fed, its dtype and shape and its line, behind the line of the run', function()
    local x = df.placeholder('float32', { 2, 3 }, 'picture')
    local built = debug.getinfo(1, 'l').currentline - 1
    local ok, e = pcall(function() local y = df.run(x * 2) return y end)
    assert.is_false(ok)
    assert.matches('picture.*float32%[2,3%], was not fed; it was built at [^\n]*executor_spec.lua:' .. built .. '$', e.message)
    assert.matches('executor_spec.lua:' .. built + 2 .. '$', e.source)
  end)

  it('stands once before a token where ready ones are drawn, and draws anew after it', function()
    local r = stressed('shuffle:7', [[
      local df = require 'dflow'
      local i, y = df.while_loop(function(i) return i:lt(40) end, function(i, y) return i + 1, y * 2 + df.cast(i, 'float32') end, { df.int32(0), df.float32(1) })
      local h, stops = df.start({ i, y }, nil, { paused = true }), 0
      h:break_at{ op = 'Mul' }
      h:resume()
      while h:settle() do
        stops = stops + 1
        h:resume()
      end
      print(stops, h:wait()[1])
    ]])
    assert.equal('41\t40\n', r.out, r.err)                      -- it is dead in the last one
  end)

  it('stops at the first error, names its iteration, and leaves the session usable', function()
    local n = df.placeholder('int32', {})
    local _, q = df.while_loop(function(i) return i:lt(20) end, function(i, _) return i + 1, df.floor_div(100, i - n) end,
                               { df.int32(0), df.int32(0) }, { name = 'down' })
    local e = fails(df.run, q, { [n] = 7 })
    assert.are.equal('invalid_argument', e.code)
    assert.matches('division by zero', e.message)
    assert.matches('down:7$', e.frame)
    assert.matches('down:7', tostring(e))
    near(df.run(q, { [n] = 50 }), math.floor(100 / (19 - 50)))
  end)

  it('opens at most parallel_iterations iterations, and any number gives the same', function()
    local function sum(window)
      local _, s = df.while_loop(function(i) return i:lt(50) end, function(i, s)
        local _, t = df.while_loop(function(j) return j:lt(i) end, function(j, t) return j + 1, t + j end,
                                   { df.int32(0), df.int32(0) }, { parallel_iterations = window })
        return i + 1, s + t
      end, { df.int32(0), df.int32(0) }, { parallel_iterations = window })
      return df.run(s)
    end
    local expected = 0
    for i = 0, 49 do expected = expected + i * (i - 1) / 2 end
    for _, window in ipairs{ 1, 2, 3, 32, 3500, 2147483647 } do near(sum(window), expected) end
  end)

  it('gives large kernels to workers and gets the same bits back', function()
    local a = df.random_normal({ 200, 200 }, { seed = 3 })
    local parts = {}
    for k = 1, 6 do parts[k] = (a * k):matmul(a + k):tanh() end
    local y = df.add_n(parts)
    local results = {}
    for threads = 1, 4 do
      local s = df.Session{ threads = threads }
      results[threads] = s:run(df.reduce_sum(y * y))
      s:close()
    end
    for threads = 2, 4 do assert.are.equal(results[1], results[threads]) end
  end)

  it('keeps runs apart that overlap in one session', function()
    local x = df.placeholder('int32', {})
    local _, s = df.while_loop(function(i) return i:lt(20000) end, function(i, s) return i + 1, (s * 3 + i) % 1000003 end,
                               { df.int32(0), x })
    local alone, handles = {}, {}
    for k = 1, 6 do alone[k] = df.run(s, { [x] = k }) end
    for k = 1, 6 do handles[k] = df.start(s, { [x] = k }) end
    for k = 1, 6 do assert.are.equal(alone[k], handles[k]:wait()) end
  end)

  it('holds no more for a long loop than for a short one', function()
    local n = df.placeholder('int32', {})
    local _, v = df.while_loop(function(i) return i:lt(n) end, function(i, v) return i + 1, df.tanh(v + 1) end,
                               { df.int32(0), df.zeros({ 1000 }) })
    df.run(v, { [n] = 100 })
    local before = df.stats().memory['cpu:0'].peak
    df.run(v, { [n] = 20000 })
    assert(df.stats().memory['cpu:0'].peak - before < 2e6)
  end)
end)

describe('a run in a random order of ready nodes', function()
  it('gives the values and gradients of the usual order', function()
    local chunk = [==[
      local df, R = require 'dflow', require 'spec.random_program'
      local at = { 0.7, -0.4, 0.3 }
      for seed = 300001, 300060 do
        df.reset()
        local program = R.make(seed, 3)
        local value, slopes, _, tie = R.eval(program, at)
        if not tie then
          local y, xs = R.build(df, program)
          local g = df.gradients(y, xs, { unconnected = 'zero' })
          local found = df.run({ y, g[1], g[2], g[3] }, { [xs[1]] = at[1], [xs[2]] = at[2], [xs[3]] = at[3] })
          for i = 1, 4 do
            local want = i == 1 and value or slopes[i - 1]
            if math.abs(found[i] - want) > 1e-8 * (1 + math.abs(want)) then
              error(('seed %d: %.17g, expected %.17g\n%s'):format(seed, found[i], want, R.show(program)))
            end
          end
        end
      end
      print 'same']==]
    for seed = 1, 4 do
      local r = stressed('shuffle:' .. seed, chunk)
      assert.are.equal('same\n', r.out, ('shuffle:%d\n%s'):format(seed, r.err))
    end
  end)
end)

describe('an allocation that fails', function()
  it('in a body is an error with the iteration, never a number, and the next run is right', function()
    local chunk = [==[
      local df = require 'dflow'
      local x = df.constant({ { 1, 2 }, { 3, 4 } }, 'float32')
      local _, v = df.while_loop(function(i) return i:lt(6) end, function(i, v) return i + 1, df.tanh(v:matmul(x)) end,
                                 { df.int32(0), x }, { name = 'deep' })
      local g = df.gradients(df.reduce_sum(v), x)
      for attempt = 1, 3 do
        local ok, e = pcall(df.run, g)
        if ok then io.write(('%.5f '):format(e:at(0, 0)))
        else io.write(e.code, ' ', e.frame ~= '' and e.frame or '-', ' ') end
      end]==]
    local right = stressed('none', chunk).out
    local value = right:match '^%S+'
    assert.are.equal((value .. ' '):rep(3), right)
    local in_frames = 0
    for n = 1, 90, 3 do
      local r = stressed('oom:' .. n, chunk)
      assert.are.equal(0, r.status == 0 and 0 or (r.err:match 'resource_exhausted' or r.err:match 'out of memory') and 0 or 1, r.err)
      if r.status == 0 then
        local rest = r.out
        if rest:match 'resource_exhausted' then
          if rest:match 'deep' then in_frames = in_frames + 1 end
          rest = rest:gsub('resource_exhausted %S+ ', value .. ' ', 1)
        end
        assert.are.equal(right, rest, 'oom:' .. n)
      end
    end
    assert(in_frames > 3, 'no allocation of a body was made to fail')
  end)
end)
