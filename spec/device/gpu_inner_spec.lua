-- run: test-all, once
-- gpu_inner_spec.lua: loops inside loops that gpu:0 runs as graphs: WHILE nodes whose numbers the GPU counts, or iterations in a row, with the bits and
-- the counts of tokens.

local cudagraph = require 'spec.cudagraph'
local gpu_it, program, hardware = cudagraph.gpu_it(it, pending), cudagraph.program, cudagraph.hardware

local programs = [[
    local n, m, limit = df.placeholder('int32', {}), df.placeholder('int32', {}), df.placeholder('float32', {})
    local function inner(pred, body, vars, options) return df.while_loop(pred, body, vars, options) end
    local programs = {
      ['three times'] = { { df.int32(0), y0 }, function(i, x)
        local _, y = inner(function(j) return j:lt(3) end, function(j, y) return j + 1, df.tanh(y) + 0.1 end, { df.int32(0), x })
        return i + 1, y * 0.5 end },
      ['with its counter'] = { { df.int32(0), y0 }, function(i, x)
        local _, y = inner(function(j) return j:lt(4) end, function(j, y) return j + 1, y * 0.5 + df.cast(j + i, 'float32') end, { df.int32(0), x })
        return i + 1, y * 0.25 end },
      ['as often as is fed'] = { { df.int32(0), y0 }, function(i, x)
        local _, y = inner(function(j) return j:lt(m) end, function(j, y) return j + 1, df.tanh(y) + df.cast(j, 'float32') * 0.125 end, { df.int32(0), x })
        return i + 1, y * 0.5 end },
      ['many times'] = { { df.int32(0), y0 }, function(i, x)
        local _, y = inner(function(j) return j:lt(50) end, function(j, y) return j + 1, y * 0.5 + df.cast(df.minimum(j, 3), 'float32') end, { df.int32(0), x })
        return i + 1, y * 0.5 end, 'as a WHILE node' },
      ['as often as the counter says'] = { { df.int32(0), y0 }, function(i, x)
        local _, y = inner(function(j) return j:lt(df.minimum(i, 4)) end, function(j, y) return j + 1, df.tanh(y) + 0.1 end, { df.int32(0), x })
        return i + 1, y * 0.5 + 0.1 end, 'as a WHILE node' },
      ['by the GPU'] = { { df.int32(0), y0 }, function(i, x)
        local y = inner(function(y) return y:reduce_sum():lt(9) end, function(y) return y * 1.5 + 0.1 end, { x })
        return i + 1, y * 0.125 end, 'as a WHILE node' },
      ['by both'] = { { df.int32(0), y0 }, function(i, x)
        local _, y = inner(function(j, y) return df.logical_and(j:lt(4), y:reduce_sum():lt(9)) end, function(j, y) return j + 1, y * 1.5 + 0.1 end, { df.int32(0), x })
        return i + 1, y * 0.125 end, 'as a WHILE node' },
      ['its counter leaves'] = { { df.int32(0), y0 }, function(i, x)
        local j, y = inner(function(j, y) return y:reduce_sum():lt(9) end, function(j, y) return j + 1, y * 1.5 + 0.1 end, { df.int32(0), x })
        return i + 1, y * 0.125 + df.cast(j, 'float32') * 0.25 end, 'as a WHILE node' },
      ['two of them'] = { { df.int32(0), y0 }, function(i, x)
        local y = inner(function(y) return y:reduce_sum():lt(9) end, function(y) return y * 1.5 + 0.1 end, { x })
        local _, z = inner(function(j) return j:lt(2) end, function(j, z) return j + 1, z * 0.5 end, { df.int32(0), y })
        return i + 1, z * 0.25 + x * 0.125 end, 'as a WHILE node' },
      ['one inside another'] = { { df.int32(0), y0 }, function(i, x)
        local y = inner(function(y) return y:reduce_sum():lt(9) end, function(y)
          local _, z = inner(function(j) return j:lt(df.minimum(i, 2)) end, function(j, z) return j + 1, z + 0.25 end, { df.int32(0), y })
          return z * 1.5 + 0.1 end, { x })
        return i + 1, y * 0.125 end, 'as a WHILE node' },
      ['in a side of a cond'] = { { df.int32(0), y0 }, function(i, x)
        local y = df.cond(x:reduce_sum():gt(0.4), function()
          return inner(function(y) return y:reduce_sum():lt(9) end, function(y) return y * 1.5 + 0.1 end, { x })
        end, function() return x + 1 end)
        return i + 1, y * 0.125 end, 'as a WHILE node' },
      ['with a cond'] = { { df.int32(0), y0 }, function(i, x)
        local y = inner(function(y) return y:reduce_sum():lt(9) end, function(y)
          return df.cond(y:reduce_max():lt(2), function() return y * 1.5 + 0.1 end, function() return y + 1 end) end, { x })
        local _, z = inner(function(j) return j:lt(3) end, function(j, z)
          return j + 1, df.cond(z:reduce_max():lt(2), function() return z * 1.5 + 0.1 end, function() return z * 0.5 end) end, { df.int32(0), y })
        return i + 1, z * 0.125 end, 'as a WHILE node' },
      ['not once'] = { { df.int32(0), y0 }, function(i, x)
        local y = inner(function(y) return y:reduce_sum():lt(-9) end, function(y) return y * 1.5 + 0.1 end, { x })
        return i + 1, y * 0.5 + 0.1 end, 'as a WHILE node' },
      ['exchanged'] = { { df.int32(0), y0, z0 }, function(i, x, y)
        local a, b = inner(function(a, b) return a:reduce_sum():lt(9) end, function(a, b) return b * 1.5 + 1, a * 1.25 + 1 end, { x, y })
        return i + 1, b * 0.125, a * 0.125 end, 'as a WHILE node' },
    }
]]

describe('a loop inside a loop on gpu:0', function()
  gpu_it('is part of its graph, wherever the predicates are computed: with the bits and the counts of tokens', function()
    do local seed = 2
      assert.equal('', program(programs .. [[
        for name, p in pairs(programs) do
          local out = loop(n, p[2], p[1])
          for _, trips in ipairs{ 1, 70 } do
            local how = both(name .. ' ' .. trips, out, { [n] = trips, [m] = 3 }, 2)
            if trips == 70 then says(how, AS_GRAPH) says(how, 'inside, ' .. (p[3] or 'its iterations in a row')) end
          end
        end
      ]], 'DFLOW_STRICT_SEED=' .. seed))
    end
  end)

  gpu_it('is a node inside the WHILE node of a loop whose predicate the GPU computes, too', function()
    assert.equal('', program(programs .. [[
      for name, p in pairs(programs) do
        local out = loop_there(limit, p[2], p[1])
        for _, trips in ipairs{ 60 } do
          local how = both(name .. ' ' .. trips, out, { [limit] = trips, [m] = 3 }, 2)
          if trips == 60 then says(how, 'for a WHILE node') says(how, 'inside, ' .. (p[3] or 'its iterations in a row')) end
        end
      end
    ]]))
  end)

  gpu_it('agrees where engines change at random iterations, and where it is cut off', function()
    do local seed = 1
      assert.equal('', program(programs .. [[
        for name, p in pairs(programs) do
          both(name, loop(n, p[2], p[1]), { [n] = 23, [m] = 3 }, 2)
          both(name .. ' there', loop_there(limit, p[2], p[1]), { [limit] = 23, [m] = 3 }, 2)
        end
      ]], ('DFLOW_STRESS=osr:%d DFLOW_STRICT_SEED=%d'):format(seed, seed)))
    end
  end)

  gpu_it('is captured anew where it has another number of iterations in a row, and goes on from iteration to iteration', function()
    assert.equal('', program(programs .. [[
      local p = programs['as often as is fed']
      local out = loop(n, p[2], p[1])
      local found = {}
      for _, engine in ipairs{ 'tokens', 'native' } do
        local s = df.Session{ engine = engine }
        found[engine] = {}
        for k, times in ipairs{ 3, 0, 3, 90, 1 } do found[engine][k] = support.bits(s:run(out[2], { [n] = 90, [m] = times, [one] = fed })) end
        found[engine][6] = s:stats().iterations
        if engine == 'native' then says(s:native(), AS_GRAPH) end
        s:close()
      end
      if not same(found.tokens, found.native) then print 'other bits' end
    ]]))
  end)

  gpu_it('fails as tokens do where its numbers are wrong, in a side that is taken alone, and a run that failed costs later ones nothing', function()
    assert.equal('', program([[
      local below, z = df.device('gpu:0', function() return df.placeholder('float32', {}), df.placeholder('int32', {}) end)
      local function body(inside)
        return function(i, x)
          local _, y = df.while_loop(function(j) return j:lt(3) end, function(j, y) return j + 1, inside(j, y) end, { df.int32(0), x })
          return i + 1, y * 0.5 + 0.1
        end
      end
      local function divided(j, y) return y * 0.5 + df.cast(10 // (j - z), 'float32') end
      local programs = {
        side = body(function(j, y) return df.cond(y:reduce_sum():lt(below), function() return divided(j, y) end, function() return y * 0.25 end) end),
        always = body(divided)
      }
      for name, made in pairs(programs) do
        local out, found = loop(df.int32(60), made, { df.int32(0), y0 }), {}
        for _, engine in ipairs{ 'tokens', 'native' } do
          local s = df.Session{ engine = engine }
          found[engine] = {}
          for k, feed in ipairs{ { 1e9, 1 }, { -1e9, 1 }, { 1e9, 7 }, { -1e9, 9 }, { 1e9, 2 }, { 1e9, 7 } } do
            local ok, is = pcall(s.run, s, out, { [below] = feed[1], [z] = feed[2], [one] = fed })
            found[engine][k] = ok and support.bits(is) or tostring(is)
          end
          if engine == 'native' then says(s:native(), AS_GRAPH) end
          s:close()
        end
        if not same(found.tokens, found.native) then print(name .. ': other bits, or words') end
        if not tostring(found.tokens[1]):find 'division by zero' then print('no error: ' .. name) end
      end
    ]]))
  end)

  gpu_it('has the host\'s bits of a curve of what tokens would have counted there, wherever the number comes from', function()
    assert.equal('', program([[
      local function number(i, by) return df.cast(i, 'float32') * by end
      local zero = df.constant(0.0)
      local function twice(x) return df.while_loop(function(y) return y:reduce_sum():lt(9) end, function(y) return y * 1.5 + 0.1 end, { x }) end
      -- what each iteration makes is an element, so that nothing rounds the difference away
      local programs = {
        ['a variable that begins as the counter'] = function(i, x)
          local _, y, z = df.while_loop(function(_, y) return y:reduce_sum():lt(9) end, function(j, y, z)
            return j + 1, y + 1.0, z + df.tanh(number(j, 0.037)) end, { i, x, zero })
          return y * 0.1, z + x * 0 end,
        ['a constant, and iterations in a row'] = function(i, x)
          local _, z, y = df.while_loop(function(j) return j:lt(3) end, function(j, z, y)
            return j + 1, z + df.tanh(number(i, 0.037)), y * 0.5 end, { df.int32(0), zero, x })
          return y, z + x * 0 end,
        ['a counter that leaves'] = function(i, x)
          local j, y = df.while_loop(function(_, y) return y:reduce_sum():lt(9) end, function(j, y) return j + 1, y * 1.5 + 0.1 end, { i, x })
          return y * 0.1, df.fill({ 1, 2 }, df.tanh(number(j, 0.037))) + x * 0 end,
        ['a variable that is one at first'] = function(i, x)
          local _, y, s = df.while_loop(function(_, y) return y:reduce_sum():lt(9) end, function(z, y, s)
            return y:reduce_sum() * 0.2, y * 1.1 + 0.1, df.fill({ 1, 2 }, df.tanh(z)) + s end, { number(i, 0.037), x, x * 0 })
          return y * 0.1, s end,
        ['a variable that is one later'] = function(i, x)
          local _, _, y, s = df.while_loop(function(_, _, y) return y:reduce_sum():lt(9) end, function(j, z, y, s)
            return j + 1, number(j, 0.037), y * 1.1 + 0.1, df.fill({ 1, 2 }, df.tanh(z)) + s end, { i, x:reduce_sum() * 0.1, x, x * 0 })
          return y * 0.1, s end,
        ['a loop two loops inside'] = function(_, x)
          local _, y, s = df.while_loop(function(_, y) return y:reduce_sum():lt(9) end, function(j, y, s)
            local z, q = df.while_loop(function(z) return z:reduce_sum():lt(3) end, function(z, q)
              return z + 0.5, q + df.fill({ 1, 2 }, df.tanh(number(j, 0.037))) end, { y, s })
            return j + 1, z * 1.5 + 0.1, q end, { df.int32(0), x * 0.1, x * 0 })
          return y * 0.1, s end,
        ['a cond by the GPU\'s word'] = function(i, x)
          local z = df.cond(x:reduce_sum():lt(0.5), function() return number(i, 0.037) end, function() return number(i, 0.021) end)
          return x * 0.5, df.fill({ 1, 2 }, df.tanh(z)) + twice(x) * 0 end,
      }
      for name, body in pairs(programs) do
        local out = df.device('gpu:0', function()
          return { df.while_loop(function(i) return i:lt(60) end, function(i, x, all)
            local y, z = body(i, x)
            return i + 1, y, all:write(i, z)
          end, { df.int32(0), y0, df.TensorArray('float32', 60) }) }
        end)
        local how = both(name, { out[2], out[3]:stack() })
        if not how:find '%(Tanh%): the host computes it, of what the GPU counts' then says(how, 'a variable becomes a number of the host\'s') end
      end
    ]]))
  end)

  gpu_it('may have more iterations than a launch: these are allowed more, or are the tokens\'', function()
    assert.equal('', program([[
      local n, times = df.placeholder('int32', {}), df.placeholder('float32', { 1, 1 })
      local out = loop(n, function(i, x)
        local _, y = df.while_loop(function(k) return k:reduce_sum():lt(times:reduce_sum()) end,
          function(k, y) return k + 1, y * 0.5 + k end, { one * 0, x })
        return i + 1, y * 0.5
      end, { df.int32(0), y0 })
      for _, many in ipairs{ 3, 200, 4000 } do
        local how = both('many ' .. many, out, { [n] = many > 1000 and 2 or 60, [times] = df.run(df.constant{ { many * 1.0 } }) })
        if many == 200 then says(how, AS_GRAPH) says(how, 'inside, as a WHILE node') end
      end
    ]]))
  end)

  gpu_it('stops where it never ends: at a time limit, or when it is cancelled', function()
    assert.equal('', program([[
      local out = loop(df.int32(100), function(i, x)
        local y = df.while_loop(function(y) return y:reduce_sum():lt(1e30) end, function(y) return df.tanh(y) end, { x }, { name = 'endless' })
        return i + 1, y
      end, { df.int32(0), x0 }, { name = 'outer' })
      local s, timeout, ok, err = df.Session{ engine = 'native' }, 1
      repeat                                    -- until it has come into the inner loop before it is over
        ok, err = pcall(s.run, s, out, nil, { timeout = timeout })
        timeout = 2 * timeout
      until ok or tostring(err.frame):find '^outer:0/outer/endless:%d+$' or timeout > 100
      if ok or err.code ~= 'deadline_exceeded' or timeout > 100 then print('too late', ok, err.frame, err) end
      s:close()
      s = df.Session{ engine = 'native' }
      local h = s:start(out)
      os.execute 'sleep 0.5'
      h:cancel()
      ok, err = pcall(h.wait, h)
      if ok or err.code ~= 'cancelled' then print('cancelled', err) end
      s:close()
    ]]))
  end)

  gpu_it('says why it cannot be part of one', function()
    assert.equal('', program([[
      local n = df.int32(60)
      local function why(name, what, body, vars) says(both(name, loop(n, body, vars or { df.int32(0), y0 })), what) end
      why('arrays', 'a loop inside: it works on arrays', function(i, x)
        local a = df.TensorArray('float32', 3, { clear_after_read = false }):unstack(df.concat({ y0, z0, y0 }, 0))
        local _, y = df.while_loop(function(j) return j:lt(3) end, function(j, y) return j + 1, y * 0.5 + a:read(j) end, { df.int32(0), x })
        return i + 1, y * 0.5
      end)
      why('an axis', 'the host does not read what a graph computes', function(i, x)
        local axis = i % 2
        local y = df.while_loop(function(y) return y:reduce_sum():lt(9) end, function(y) return df.cumsum(y, axis) + 1 end, { x })
        return i + 1, y * 0.1
      end)
      why('a curve of its counter', '%(Tanh%): the host computes it, of what the GPU counts', function(i, x)
        local _, y = df.while_loop(function(_, y) return y:reduce_sum():lt(9) end,
          function(j, y) return j + 1, y + df.tanh(df.cast(j, 'float32')) + 0.5 end, { df.int32(0), x })
        return i + 1, y * 0.1
      end)
      why('a remainder', '%(FloorMod%): the host computes it, of what the GPU counts', function(i, x)
        local _, y = df.while_loop(function(_, y) return y:reduce_sum():lt(9) end,
          function(j, y) return j + 1, y + df.cast(j % 3, 'float32') + 0.5 end, { df.int32(0), x })
        return i + 1, y * 0.1
      end)
      why('a shape', 'the shape or the place of a variable of a loop inside changes', function(i, x)
        local y = df.while_loop(function(y) return y:reduce_sum():lt(9) end, function(y) return df.concat({ y, y }, 0) end, { x + 0.5 },
          { shape_invariants = { { -1, 2 } } })
        return i + 1, df.reshape(x * 0.5 + df.reduce_max(y) * 0.05, { 1, 2 })
      end)
      why('its predicate', 'its predicate has a cond or a loop', function(i, x)
        local y = df.while_loop(function(y) return df.cond(x:reduce_sum():lt(1), function() return y:reduce_sum():lt(9) end,
          function() return y:reduce_sum():lt(5) end) end, function(y) return y + 1 end, { x })
        return i + 1, y * 0.1
      end)
    ]]))
    if hardware then return end            -- it is the driver for tests that can do without such nodes
    assert.equal('', program([[
      local out = loop(df.int32(60), function(i, x)
        local y = df.while_loop(function(y) return y:reduce_sum():lt(9) end, function(y) return y * 1.5 + 0.1 end, { x })
        return i + 1, y * 0.125
      end, { df.int32(0), y0 })
      says(both('no such nodes', out), 'tokens: .*a loop inside, and the device\'s graphs have no conditional nodes')
    ]], 'DFLOW_STRICT_UNCONDITIONAL=1'))
  end)
end)
