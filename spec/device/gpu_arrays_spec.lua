-- run: test-all, once
-- gpu_arrays_spec.lua: TensorArrays of loops that gpu:0 runs as graphs: elements, counts and errors are those of tokens, and an RNN with its gradient
-- is two graphs.

local cudagraph = require 'spec.cudagraph'
local gpu_it, program = cudagraph.gpu_it(it, pending), cudagraph.program

-- `xs` are rows on the GPU, `ta` an array of them.
local prelude = [[
local n = df.placeholder('int32', {})
local function rows(count, width)
  local x = df.cast(df.reshape(df.range(count * width), { count, 1, width }), 'float32') * 0.01
  return df.device('gpu:0', function() return x * one end)
end
local function array(size, options) return df.device('gpu:0', function() return df.TensorArray('float32', size, options) end) end
local function on(fn) return df.device('gpu:0', fn) end
]]

describe('an array in a loop on gpu:0', function()
  gpu_it('has memory for all its rows at once where that is plenty, and else as they are written', function()
    assert.equal('', program(prelude .. [[
      local rows, width = 40000, 256     -- 40 MB, of which 70 KB are written
      local out = on(function()
        local h0 = df.fill({ 1, width }, 0.25) * one
        local _, h, a = df.while_loop(function(i) return i:lt(n) end, function(i, h, a) return i + 1, df.tanh(h) + 0.5, a:write(i, h) end,
          { df.int32(0), h0, df.TensorArray('float32', rows) })
        local large = df.fill({ 5000000 }, 0.5) * df.reshape(h:slice({ 0, 0 }, { 1, 1 }), { 1 })         -- 20 MB
        return { a:read(69) * 1, df.reduce_max(large) }
      end)
      local found, peak = {}, {}
      for _, how in ipairs{ 'tokens', 'small', 'large' } do
        local s = df.Session{ engine = how == 'tokens' and how or 'native',
          devices = { 'cpu:0', { 'gpu:0', memory = how == 'large' and '200MB' or '48MB' } } }
        found[how] = support.bits(s:run(out, { [n] = 70, [one] = fed }))
        if how ~= 'tokens' then says(s:native(), AS_GRAPH) end
        peak[how] = s:stats().memory['gpu:0'].peak
        s:close()
      end
      if not same(found.tokens, found.small) or not same(found.tokens, found.large) then print 'other bits' end
      if peak.small > 48e6 or peak.large < 40e6 then print(peak.small, peak.large) end
    ]]))
  end)

  gpu_it('is read and written in a graph: an RNN with its gradient is two of them', function()
    for seed = 1, 2 do
      assert.equal('', program(prelude .. [[
        for _, width in ipairs{ 2, 16, 17, 32 } do
          for _, clears in ipairs{ false, true } do
            local T, x, wv = 100, rows(100, width), on(function() return df.fill({ width, width }, 0.3) * df.reshape(one, {}) end)
            local fetches = on(function()
              local ta = df.TensorArray('float32', T, { clear_after_read = clears }):unstack(x)
              local h0 = df.fill({ 1, width }, 0.25) * df.reshape(one, {})
              local _, h, out = df.while_loop(function(i) return i:lt(T) end, function(i, h, out)
                local h2 = df.tanh(h:matmul(wv) + ta:read(i))
                return i + 1, h2, out:write(i, h2 * 2)
              end, { df.int32(0), h0, df.TensorArray('float32', T) })
              local y = out:stack()
              local loss = df.reduce_sum(y * y) + df.reduce_sum(h)
              return { y, loss, df.unpack(df.gradients(loss, { x, wv, h0 })) }
            end)
            local how = both('width ' .. width, fetches, {}, 2)
            for line in how:gmatch '[^\n]+' do says(line, AS_GRAPH .. '.*reads or writes [23] elements') end
          end
        end
      ]], 'DFLOW_STRICT_SEED=' .. seed))
    end
  end)

  local programs = [[
    local unpack = table.unpack or unpack
    local x = rows(90, 3)
    local function over(trips, body, vars) return on(function() return { df.while_loop(function(i) return i:lt(trips) end, body, vars) } end) end
    local a = on(function() return df.TensorArray('float32', 90):unstack(x) end)
    local h0 = on(function() return df.fill({ 1, 3 }, 0.25) * one end)
    local programs = {
      ['written'] = function() return over(n, function(i, h, o) return i + 1, h * 0.9, o:write(i, h) end, { df.int32(0), h0, array(90) })[3] end,
      ['grown'] = function() return over(n, function(i, h, o) return i + 1, h * 0.9, o:write(i, h) end,
        { df.int32(0), h0, array(0, { dynamic_size = true }) })[3] end,
      ['written backwards'] = function() return over(n, function(i, h, o) return i + 1, h * 0.9, o:write(n - 1 - i, h + a:read(89 - i)) end,
        { df.int32(0), h0, array(90) })[3] end,
      ['chained'] = function() return over(n - 1, function(i, o) return i + 1, o:write(i + 1, df.tanh(o:read(i)) + a:read(i)) end,
        { df.int32(0), array(90):write(0, h0) })[2] end,
      ['read twice and cleared'] = function()
        local c = on(function() return df.TensorArray('float32', 90, { clear_after_read = true }):unstack(x) end)
        return over(n, function(i, h, c, o) return i + 1, h * 0.9 + c:read(i), c, o:write(i, h * a:read(i)) end, { df.int32(0), h0, c, array(90) })[4] end,
      ['two arrays'] = function() return over(n, function(i, h, o, p) return i + 1, h * 0.9, o:write(i, h), p:write(i, h + a:read(i)) end,
        { df.int32(0), h0, array(90), array(90) })[4] end,
      ['float64 numbers of the GPU'] = function() return over(n, function(i, h, o)
          return i + 1, h * 0.9, o:write(i, df.cast(h:reduce_sum(), 'float64')) end,
        { df.int32(0), h0, on(function() return df.TensorArray('float64', 90) end) })[3] end,
      ['bytes'] = function() return over(n, function(i, h, o) return i + 1, h * -0.9, o:write(i, h:gt(0)) end,
        { df.int32(0), h0, on(function() return df.TensorArray('bool', 90) end) })[3] end,
      ['numbers of the host'] = function()
        local k = df.TensorArray('float32', 90):unstack(df.cast(df.range(90), 'float32'))
        return over(n, function(i, h, o) return i + 1, h * 0.9 + k:read(i), o:write(i, h) end, { df.int32(0), h0, array(90) })[3] end,
      ['numbers that are written'] = function() local out = over(n, function(i, k, h, o)
          return i + 1, k * 0.5 + 1, h * 0.9 + k, o:write(i, k) end, { df.int32(0), df.constant(1.0), h0, array(90) })
        return out[4], out[3] end,
      ['by a cond of the host'] = function() return over(n, function(i, h, o)
          return i + 1, h * 0.9, df.cond((i % 3):eq(0), function() return o:write(i, h) end, function() return o:write(i, h * 2 + a:read(i)) end) end,
        { df.int32(0), h0, array(90) })[3] end,
    }
  ]]

  gpu_it('has the elements that tokens give it, however it is read and written', function()
    for seed = 1, 2 do
      assert.equal('', program(prelude .. programs .. [[
        for name, build in pairs(programs) do
          local o, more = build()
          local fetches = { on(function() return o:stack() end), more }
          for _, trips in ipairs{ 40, 90 } do
            if trips == 90 or name == 'grown' or name == 'two arrays' then
              local y = trips == 90 and fetches[1] or on(function() return o:read(trips - 1) end)
              local how = both(name .. ' ' .. trips, { y, more }, { [n] = trips }, 2)
              if trips == 90 then says(how, AS_GRAPH) end
            end
          end
        end
      ]], 'DFLOW_STRICT_SEED=' .. seed))
    end
  end)

  gpu_it('is written by tokens where it is the host\'s, which has to wait for each element', function()
    assert.equal('', program(prelude .. [[
      local h0 = on(function() return df.fill({ 1, 16 }, 0.25) * one end)
      local function hosts() return df.device('cpu:0', function() return df.TensorArray('float32', 90, { clear_after_read = false }) end) end
      for name, body in pairs{
        written = function(i, h, o) return i + 1, df.tanh(h), o:write(i, h) end,
        ['and read'] = function(i, h, o) o = o:write(i, h) return i + 1, df.tanh(h) + o:read(i), o end,
      } do
        local out = loop(90, body, { df.int32(0), h0, hosts() })[3]
        says(both(name, on(function() return out:stack() end)), '%(TensorArrayWrite%): the host does it, and the elements are not its numbers')
      end
    ]]))
  end)

  gpu_it('keeps what was written where the GPU ends the loop before the array is full', function()
    assert.equal('', program(prelude .. [[
      local limit = on(function() return df.placeholder('float32', {}) end)
      for _, trips in ipairs{ 60, 69, 70, 100, 130 } do
        for _, room in ipairs{ 1, 3, 30, false } do
          local k = df.TensorArray('float32', 200, { clear_after_read = true }):unstack(df.cast(df.range(200), 'float32'))
          local places = df.range(trips)
          local y = on(function()
            local o = df.TensorArray('float32', room and trips + room or 0, { dynamic_size = not room })
            local _, c, number, o = df.while_loop(function(i, c) return c:reduce_sum():lt(limit) end,
              function(i, c, number, o, k) return i + 1, c + one, number + k:read(i), o:write(i, c * 0.5 + number), k end,
              { df.int32(0), one * 0, df.constant(0.0), o, k })
            return { c, number, o:gather(places) }
          end)
          says(both(trips .. ' of ' .. tostring(room), y, { [limit] = df.run(df.constant(trips + 0.0)) }, 2), AS_GRAPH)
        end
      end
    ]]))
  end)

  gpu_it('is differentiated as tokens do it, where locations are read again, or never', function()
    assert.equal('', program(prelude .. programs .. [[
      for _, name in ipairs{ 'written', 'grown', 'written backwards', 'chained', 'two arrays', 'by a cond of the host' } do
        local o = programs[name]()
        local f = on(function()
          local y = o:stack()
          return { y, df.unpack(df.gradients(df.reduce_sum(y * y), { x, h0 }, { unconnected = 'zero' })) }
        end)
        local how = both(name, f, { [n] = 90 }, 2)
        local graphs = 0
        for _ in how:gmatch 'a graph of' do graphs = graphs + 1 end
        if graphs < 2 then print(name, how) end
      end
      -- a location that several iterations read gets the sum of what comes to it
      local f = on(function()
        local out = over(n, function(i, h, o) return i + 1, h * 0.9 + a:read(i % 7) * a:read(3), o:write(i, h) end, { df.int32(0), h0, array(90) })
        return { df.unpack(df.gradients(df.reduce_sum(out[3]:stack()), { x, h0 })) }
      end)
      local how = both('added up', f, { [n] = 90 }, 3)
      says(how:match 'gradients[^\n]+', AS_GRAPH)
    ]]))
  end)

  gpu_it('has shapes for elements, which the host saves for a gradient where the batch is told late', function()
    for _, env in ipairs{ '', 'DFLOW_STRESS=osr:3' } do
      assert.equal('', program('local OSR = ' .. tostring(env ~= '') .. [[
        local N = 40
        local function rows(batch, by)
          local all = {}
          for t = 1, N do
            all[t] = {}
            for k = 1, batch do all[t][k] = { math.sin(t + k + by), math.cos(t * k + by) } end
          end
          return all
        end
        local cells = {
          sum = function(h, x, b) return df.tanh(h:matmul(w) + x + b) end,
          cond = function(h, x, b, i) return df.cond((i % 3):eq(0), function() return df.tanh(h + x * b) end, function() return h * 0.5 - x + b end) end
        }
        for name, cell in pairs(cells) do
          local x, out
          df.device('gpu:0', function()
            x = df.placeholder('float32', { N, -1, 2 })
            local b, xs = df.constant({ 0.5, 0.25 }) * one[0], df.TensorArray('float32', N):unstack(x)
            local _, h = df.while_loop(function(i) return i:lt(N) end, function(i, h) return i + 1, cell(h, xs:read(i), b, i) end,
              { df.int32(0), df.reduce_sum(x, 0) * 0.0 })
            local d = df.gradients(df.reduce_mean(h * h), b)
            out = { h, d, df.gradients(df.reduce_sum(d * d), b) }
          end)
          local found, counted = {}, {}
          for _, engine in ipairs{ 'tokens', 'native' } do
            local s = df.Session{ engine = engine }
            found[engine] = {}
            for k, batch in ipairs{ 2, 2, 3, 2, 1, 3 } do found[engine][k] = support.bits(s:run(out, { [x] = rows(batch, k), [one] = fed })) end
            local c = s:stats()
            counted[engine] = ('%d nodes, %d dead, %s pushes, %s pops'):format(c.nodes_run, c.dead_tokens, tostring(c.stack_pushes), tostring(c.stack_pops))
            for line in (engine == 'native' and not OSR and s:native() or ''):gmatch '[^\n]+' do says(line, 'a graph of gpu:0') end
            s:close()
          end
          if not same(found.tokens, found.native) then print(name .. ': other bits') end
          if counted.tokens ~= counted.native then print(name .. ': ' .. counted.tokens .. ' but ' .. counted.native) end
        end
        -- what the host has there is another one from some iteration on
        local shapes = df.device('gpu:0', function()
          local a = df.TensorArray('int32', 80)
          for k = 0, 79 do a = a:write(k, k == 50 and { 2, 1 } or { 1, 2 }) end
          return a
        end)
        local out = loop(df.int32(80), function(i, x) return i + 1, df.reshape(df.tanh(df.reshape(x, shapes:read(i)) * 0.5 + 0.25), { 1, 2 }) end, { df.int32(0), y0 })
        local how = both('another shape', out, {}, 2)
        if not OSR then says(how, AS_GRAPH) end
      ]], env))
    end
  end)

  gpu_it('adds up what comes to a location by the GPU\'s word, and by others', function()
    assert.equal('', program([[
      local random = require 'spec.random_device_loops'
      for _, seed in ipairs{ 85 } do
        local wrong = random.check(df, seed)
        if wrong then print(wrong) end
      end
    ]], 'DFLOW_STRESS=osr:7 DFLOW_STRICT_SEED=3'))
  end)
end)

describe('random loops on gpu:0, of arrays, conds by whose word ever, and their gradients', function()
  -- DFLOW_PROGRAMS sets how many, DFLOW_SEED where the seeds begin
  local count, first = tonumber(os.getenv 'DFLOW_PROGRAMS') or 16, tonumber(os.getenv 'DFLOW_SEED') or 1
  local sample = ([[
    local wrong, seen = require('spec.random_device_loops').differences(df, %d, %d)
    if wrong ~= '' then print(wrong) end
    if %d >= 16 then
      for _, what in ipairs{ 'graphs', 'arrays', 'WHILE', 'IF' } do if seen[what] == 0 then print('none with ' .. what) end end
    end
  ]])

  gpu_it('have the bits and the counts of tokens, and of the host where what they do is exact', function()
    assert.equal('', program(sample:format(first, count, count)))
  end)

  gpu_it('have them with loops inside, too', function()
    local inside = [[
      local wrong, seen = require('spec.random_device_loops').differences(df, %d, %d, true)
      if wrong ~= '' then print(wrong) end
      if %d >= 12 then
        if seen.inside == 0 then print 'none with loops inside' end
      end
    ]]
    assert.equal('', program(inside:format(first + 2000, math.ceil(count * 0.75), count), ('DFLOW_STRESS=osr:%d DFLOW_STRICT_SEED=%d'):format(first, first + 2)))
    assert.equal('', program(inside:format(first + 2060, math.ceil(count * 0.75), count)))
  end)

  gpu_it('have them where engines change at random iterations, and the GPU does everything late', function()
    assert.equal('', program(sample:format(first + 1000, count, count), ('DFLOW_STRESS=osr:%d DFLOW_STRICT_SEED=%d'):format(first, first + 2)))
  end)
end)
