--- Hot loops as machine code: the numbers, errors and counts of the token engine, bit for bit.
local df = require 'dflow'
local random_program = require 'spec.random_program'
local shell = require 'spec.shell'
local support = require 'spec.support'
local same_under_both = require 'spec.engines'.same_under_both

local host_it = support.host_it(it, pending)
local native_it = support.native_it(it, pending)

describe('native code', function()
  it('computes a loop of an int and a float', function()
    local n = df.placeholder('int32', {})
    local i, y = df.while_loop(function(i) return i:lt(n) end, function(i, y) return i + 1, y * 1.01 + 0.5 end, { df.int32(0), df.float32(1) })
    for _, trips in ipairs{ 0, 1, 2, 1000, 100000 } do same_under_both({ i, y }, { [n] = trips }) end
  end)

  native_it('takes a loop whatever it is called', function()
    local path = os.tmpname()
    for _, name in ipairs{ 'two\nlines', 'dflow_' .. ('0'):rep(32), '%s %d; }\r\n}' } do
      df.reset()
      local plain, i = ('n'):rep(#name), nil
      i = df.while_loop(function(i) return i:lt(300) end, function(i) return i + 1 end, { df.int32(0) }, { name = plain })
      df.export_graph_def(path, { outputs = { y = i } })
      local g = df.import_graph_def((shell.read(path):gsub(plain .. '([^/])', function(after) return name .. after end)))       -- a frame's name may be any
      for _, op in ipairs(g:ops()) do if op.type == 'Exit' then i = op.outputs[1] end end
      local s = df.Session{ graph = g, engine = 'native' }
      assert.equal(300, s:run(i))
      assert.matches('native: variables int32; ', s:native())
      assert.matches('; ' .. name:gsub('%c', ' '):gsub('%p', '%%%0') .. ', %d+ nodes in its body', s:native{ code = 'llvm' })
      s:close()
    end
    os.remove(path)
  end)

  native_it('has the truth tables of the ops of booleans', function()
    local a, b = df.placeholder('bool', {}), df.placeholder('bool', {})
    for name, truths in pairs{ logical_and = 'true false false false', logical_or = 'true true true false', logical_xor = 'false true true false',
                               not_equal = 'false true true false', equal = 'true false false true' } do
      local i, p = df.while_loop(function(i) return i:lt(301) end, function(i, p) return i + 1, df[name](p, b) end, { df.int32(0), a })
      local s, said = df.Session{ engine = 'native' }, {}
      for _, x in ipairs{ true, false } do
        for _, y in ipairs{ true, false } do said[#said + 1] = tostring(s:run({ i, p }, { [a] = x, [b] = y })[2]) end
      end
      assert.equal(truths, table.concat(said, ' '), name)
      assert.matches('native: variables int32, bool; ', s:native())
      s:close()
    end
  end)

  it('wraps integers, and divides them as TensorFlow does', function()
    local a, b = df.placeholder('int32', {}), df.placeholder('int32', {})
    local function more(i) return i:lt(3) end
    local function body(i, q, r, m)
      local x, y = a + i, b
      return i + 1, q * 31 + x:floor_div(y), r * 31 + x:floor_mod(y), m * 2147483647 + df.truncatediv(x, y) - df.truncatemod(x, y)
    end
    local out = { df.while_loop(more, body, { df.int32(0), df.int32(1), df.int32(1), df.int32(1) }) }
    for _, x in ipairs{ 7, -7, 0, 2147483647, -2147483648 } do
      for _, y in ipairs{ 1, -1, 2, -2, 3, -3, 2147483647, -2147483648 } do same_under_both(out, { [a] = x, [b] = y }) end
    end
  end)

  it('leaves a division by zero to the tokens, which name op, frame and iteration', function()
    local k = df.placeholder('int32', {})
    local i, y = df.while_loop(function(i) return i:lt(100) end, function(i, y) return i + 1, y + df.int32(1000):floor_div(k - i) end,
      { df.int32(0), df.int32(0) }, { name = 'divides' })
    local r = same_under_both({ i, y }, { [k] = 57 })
    assert.matches('zero', r.error)
    assert.equal('divides:57', r.frame)
    same_under_both({ i, y }, { [k] = 157 })
  end)

  it('has the casts, comparisons, selects and functions of each dtype', function()
    for _, t in ipairs{ 'float32', 'float64', 'int32', 'int64' } do
      df.reset()
      local x0 = df.placeholder(t, {})
      local function body(i, x, s)
        local y = df.select(x:lt(s), x * 3 - s, s - x)
        local z = df.maximum(df.minimum(y, s), -x) + df.abs(y) + df.square(x)
        if t:find 'float' then z = z + df.tanh(y) * df.exp(-df.abs(x)) / (df.sqrt(df.abs(s)) + 1) + df.floor(x) + df.sin(s) end
        local low = df.cast(df.cast(z, 'int8'), t) + df.cast(df.cast(z, 'uint8'), t) + df.cast(df.cast(z, 'float32'), t)
        local test = df.logical_or(df.logical_and(x:ge(s), y:ne(z)), df.logical_not(x:le(y)))
        return i + 1, low, s + df.cast(test, t) + df.cast(df.cast(z, 'int32'), t)
      end
      local out = { df.while_loop(function(i) return i:lt(40) end, body, { df.int32(0), x0, df.cast(1, t) }) }
      for _, x in ipairs{ 0, 1, -1, 3, 100, -77, 1000003 } do same_under_both(out, { [x0] = x }) end
      if t:find 'float' then for _, x in ipairs{ 0.3, -1e30, 1e-42, 1 / 0, -1 / 0, 0 / 0 } do same_under_both(out, { [x0] = x }) end end
    end
  end)

  host_it('has the bits of the kernels in exp, tanh, sigmoid, sin and cos, of numbers and of small tensors', function()
    local xs = { 0, -0.0, 1e-42, -1e-42, 1e-20, 0.62499, 0.625, 0.7853982, 3.1415927, -1.5707964, 88.7, 89, 90, -87.4, -90, -103.5, -105,
      65535.99, 65536, -65537, 1.1e9, 1e30, 1 / 0, -1 / 0, 0 / 0 }
    for k = 1, 215 do xs[#xs + 1] = (k - 107) * 1.0371 ^ (k % 120) end
    local n = #xs                                        -- 240: rows of 1, 5 and 16
    for _, width in ipairs{ 1, 5, 16 } do
      df.reset()
      local shape = width == 1 and { n } or { n / width, width }
      local all = df.constant(df.run(df.reshape(df.constant(xs, 'float32'), shape)))
      local rows = df.TensorArray('float32', shape[1]):unstack(all)
      local out, what = {}, { 'exp', 'tanh', 'sigmoid', 'sin', 'cos' }
      for k, f in ipairs(what) do
        local _, made = df.while_loop(function(i) return i:lt(shape[1]) end, function(i, made) return i + 1, made:write(i, df[f](rows:read(i))) end,
          { df.int32(0), df.TensorArray('float32', shape[1]) })
        out[k] = made:stack()
      end
      same_under_both(out)
      local s = df.Session{ engine = 'native' }
      for k, f in ipairs(what) do assert.same(support.bits(s:run(df[f](all))), support.bits(s:run(out[k])), f .. ', rows of ' .. width) end
      s:close()
    end
  end)

  native_it('reads variables of every dtype, numbers and small tensors, in branches and in loops within', function()
    for _, t in ipairs{ 'float32', 'float64', 'int32', 'int64' } do
      df.reset()
      local v, w, flag = df.Variable(df.cast(3, t)), df.Variable(df.cast(df.constant{ { 1, -2, 3 }, { 4, 5, 6 } }, t)), df.Variable(df.bool(true))
      local _, x, y = df.while_loop(function(i) return (i:lt(50)):logical_and(flag) end, function(i, x, y)
        local _, inner = df.while_loop(function(k) return k:lt(3) end, function(k, s) return k + 1, s + v end, { df.int32(0), x })
        local z = df.cond((i % 3):eq(0), function() return inner - v end, function() return inner end)
        return i + 1, z, df.minimum(y + w, w * v) - df.cast(i, t)
      end, { df.int32(0), df.cast(0, t), df.cast(df.zeros{ 2, 3 }, t) })
      local s = df.Session{ engine = 'native' }
      s:run{ x, y }
      assert.is_nil(s:native():match '[^\n]*tokens:[^\n]*')
      s:close()
      same_under_both{ x, y }
    end
  end)

  native_it('gives the iteration that fails what it read, and sees what other runs assign', function()
    local v = df.Variable(df.int32(7))
    local i, y = df.while_loop(function(i) return i:lt(100) end, function(i, y) return i + 1, y + (v * 100):floor_div(v * 8 - i) end,
      { df.int32(0), df.int32(0) }, { name = 'divides' })
    assert.equal('divides:56', same_under_both({ i, y }).frame)
    local up, n = v:assign_add(1), df.while_loop(function() return v:lt(12) end, function(k) return k + 1 end, { df.int32(0) })
    local s = df.Session{ engine = 'native', timeout = 30 }
    s:run(v)
    local h = s:start(n)
    for _ = 1, 5 do s:run(up) end
    assert(h:wait() >= 0)
    assert.is_nil(s:native():match '[^\n]*tokens:[^\n]*')
    s:close()
  end)

  it('treats numbers below the least normal one as tokens do', function()
    local x0 = df.placeholder('float32', {})
    local out = { df.while_loop(function(i) return i:lt(3) end, function(i, x, y) return i + 1, x * 1.0, y + x * 1.0 - 0.0 end,
      { df.int32(0), x0, df.float32(0) }) }
    for _, x in ipairs{ 1e-40, -1e-40, 1.2e-38, 0, -0.0 } do same_under_both(out, { [x0] = x }) end
  end)

  it('takes the branches of conds, inside each other and one after the other', function()
    local n = df.placeholder('int32', {})
    local function body(i, y)
      local even = (i % 2):eq(0)
      local a = df.cond(even, function()
        return df.cond((i % 3):eq(0), function() return y + 1.5 end, function() return y * 0.5 end)
      end, function() return y end)
      return i + 1, df.cond(even, function() return a - 0.25 end, function() return a:sin() + y end)
    end
    local out = { df.while_loop(function(i) return i:lt(n) end, body, { df.int32(0), df.float32(1) }) }
    for _, trips in ipairs{ 0, 1, 7, 1000 } do same_under_both(out, { [n] = trips }) end
  end)

  it('runs loops inside loops and inside branches', function()
    local n = df.placeholder('int32', {})
    local function inner(y, times)
      local _, z = df.while_loop(function(j) return j:lt(times) end, function(j, z) return j + 1, z * 0.99 + 1.0 end, { df.int32(0), y })
      return z
    end
    local function body(i, y)
      return i + 1, df.cond((i % 3):eq(1), function() return inner(y, i) end, function() return inner(inner(y, i % 5), 3) - 2.0 end)
    end
    local out = { df.while_loop(function(i) return i:lt(n) end, body, { df.int32(0), df.float32(1) }) }
    for _, trips in ipairs{ 0, 1, 50 } do same_under_both(out, { [n] = trips }) end
  end)

  it('keeps arrays as they are: map_fn, scan, what gradients save, and gradients of these', function()
    local xs = df.placeholder('float64', { -1 })
    local ys = df.map_fn(function(x) return x * x + df.cond(x:gt(0), function() return x end, function() return -x * 2 end) end, xs)
    local zs = df.scan(function(a, x) return a * 0.9 + x end, ys, df.float64(0))
    local loss = zs:reduce_sum()
    local g = df.gradients(loss, xs)
    local feed = {}
    for i = 1, 5000 do feed[i] = math.sin(i * 0.37) end
    same_under_both({ ys, zs, loss, g, df.gradients(g:reduce_sum(), xs) }, { [xs] = feed })
    same_under_both({ ys, zs, loss, g }, { [xs] = { 0.5 } })
  end)

  it('leaves an array written twice, read before it was written, or read past its end to the tokens', function()
    local k = df.placeholder('int32', {})
    local function loop(body)
      local ta = df.TensorArray('float32', 10)
      local i, a = df.while_loop(function(i) return i:lt(10) end, body, { df.int32(0), ta }, { name = 'writes' })
      return { i, a:size() }
    end
    local twice = loop(function(i, a) return i + 1, a:write(i % k, df.cast(i, 'float32')) end)
    assert.matches('second time', same_under_both(twice, { [k] = 6 }).error)
    local past = loop(function(i, a) return i + 1, a:write(i + k, df.cast(i, 'float32')) end)
    assert.equal('writes_1:7', same_under_both(past, { [k] = 3 }).frame)
    assert.is_nil(same_under_both(past, { [k] = 0 }).error)
  end)

  it('agrees on random programs and their gradients where engines change at random iterations', function()
    local r = shell.run(('DFLOW_STRESS=osr:11 %s -e %s'):format(shell.dflow, shell.quote[==[
      local program = require 'spec.random_program'
      local function text(t) for i, v in ipairs(t) do t[i] = ('%a'):format(v) end return table.concat(t, ' ') end
      for seed = 1, 10 do
        df.reset()
        local y, xs = program.build(df, program.make(seed, 3))
        local g = df.gradients(y, xs, { unconnected = 'zero' })
        local feeds, found = { [xs[1]] = 0.7, [xs[2]] = -0.4, [xs[3]] = 0.3 }, {}
        for _, engine in ipairs{ 'tokens', 'native' } do
          local s = df.Session{ engine = engine }
          found[engine] = text(s:run({ y, g[1], g[2], g[3] }, feeds))
          s:close()
        end
        if found.tokens ~= found.native then print('seed ' .. seed, found.tokens, found.native) end
      end
      print 'done']==]))
    assert.are.equal('done\n', r.out, r.err)
  end)

  host_it('is not what runs a session of tokens, where engines change at random in others', function()
    local r = shell.run(('DFLOW_STRESS=osr:3 %s -e %s'):format(shell.dflow, shell.quote[[
      local i = df.while_loop(function(i) return i:lt(1000) end, function(i) return i + 1 end, { df.int32(0) }, { name = 'counts' })
      for _, engine in ipairs{ 'tokens', 'auto' } do
        local s = df.Session{ engine = engine }
        s:run(i)
        io.write(s:native():match 'counts  (%a+)', ' ')
        s:close()
      end]]))
    assert.are.equal('tokens native ', r.out, r.err)
  end)

  it('agrees on random programs and their gradients', function()
    local feed = { 0.7, -0.4, 0.3 }
    for seed = 1, tonumber(os.getenv 'DFLOW_NATIVE_PROGRAMS') or 12 do
      df.reset()
      local y, xs = random_program.build(df, random_program.make(seed, 3))
      local g = df.gradients(y, xs, { unconnected = 'zero' })
      same_under_both({ y, g[1], g[2], g[3] }, { [xs[1]] = feed[1], [xs[2]] = feed[2], [xs[3]] = feed[3] })
    end
  end)

  it('is left when the run is to stop: cancelled, too late, paused', function()
    local i = df.while_loop(function(i) return i:ge(0) end, function(i) return (i + 1) % 1000003 end, { df.int32(0) }, { name = 'endless' })
    local s = df.Session{ engine = 'native', timeout = 0.3 }
    local err = support.error_of(s.run, s, i)
    assert.equal('deadline_exceeded', err.code)
    assert.matches('^endless:%d+$', err.frame)
    s:close()
    s = df.Session{ engine = 'native' }
    local h = s:start(i)
    h:pause()
    local before = h:frames()
    assert.is_truthy(tostring(before))
    h:resume()
    h:cancel()
    err = support.error_of(h.wait, h)
    assert.equal('cancelled', err.code)
    s:close()
  end)

  host_it('is made in little time at first, and better where it is used again and again, with the same bits', function()
    local r = shell.run(('DFLOW_NATIVE_CACHE=off DFLOW_STRESS= %s -e %s'):format(shell.dflow, shell.quote[==[
      local x = df.placeholder('float32', {})
      local i, y, z = df.while_loop(function(i) return i:lt(60000) end, function(i, y, z)
        return i + 1, df.sin(y) * 1.5 + x, df.cond((i % 3):eq(0), function() return z + y end, function() return df.tanh(z) end)
      end, { df.int32(0), x, x })
      local map = df.map_fn(function(v) return df.tanh(v) * v + 1 end, df.cast(df.range(60000), 'float32') * 1e-4)
      local fetches = { i, y, z, df.reduce_sum(map), map }
      local function run(s)
        local r = s:run(fetches, { [x] = 0.3 })
        return ('%d %a %a %a %s'):format(r[1], r[2], r[3], r[4], table.concat(r[5]:totable(), ' '))
      end
      local tokens, s, differ, till = df.Session{ engine = 'tokens' }, df.Session(), 0, os.time() + 60
      local expected = run(tokens)
      repeat
        if run(s) ~= expected then differ = differ + 1 end
        local _, improved = s:native():gsub('compiled in [%d.]+ ms and improved in [%d.]+', '')
      until improved == 2 or os.time() > till
      print(differ, select(2, s:native():gsub('and improved in', '')))]==]))
    assert.are.equal('0\t2\n', r.out, r.err)
  end)

  native_it('tells what it did with each loop, and shows the code', function()
    local n = df.placeholder('int32', {})
    local i, y = df.while_loop(function(i) return i:lt(n) end, function(i, y)
      local _, z = df.while_loop(function(j) return j:lt(3) end, function(j, z) return j + 1, z + 1.0 end, { df.int32(0), y }, { name = 'inner' })
      return i + 1, z
    end, { df.int32(0), df.float32(1) }, { name = 'outer' })
    local total = df.Variable(0.0)
    local k, p = df.while_loop(function(k) return k:lt(n) end, function(k, p) return k + 1, df.cast(df.is_variable_initialized(total), 'float32') + p end,
      { df.int32(0), df.float32(1) }, { name = 'counts' })
    local s = df.Session{ engine = 'native' }
    s:run({ i, y, k, p }, { [n] = 4 })
    local text = s:native()
    assert.matches('outer  native: variables int32, float32; 1 loop inside; many iterations at once; [%l ]+ in [%d.]+ ms  [^\n]*native_spec.lua:%d+\n', text)
    local again = (os.getenv 'DFLOW_STRESS' or ''):find 'osr'      -- the inner loop is left, and then it is hot itself
    assert.matches(again and 'outer/inner  native: ' or 'outer/inner  native: part of outer', text)
    assert.matches('counts  tokens: `[^`]+` %([%w]+%): it has effects, or reads what others change', text)
    assert.matches('^; outer.*define i32', s:native{ code = 'llvm' })
    assert.matches('ret', s:native{ code = 'machine', loop = 'outer' })
    assert.equal('', s:native{ code = 'llvm', loop = 'counts' })
    assert.matches("'llvm' or 'machine', not", tostring(select(2, pcall(s.native, s, { code = 'c' }))))
    s:close()
    s = df.Session{ engine = 'tokens' }
    s:run(i, { [n] = 4 })
    assert.matches("outer  tokens: the session's engine is tokens", s:native())
    s:close()
  end)
end)
