--- Native loops whose tensors have shapes that the graph does not know: a unit for the first few that are met.
-- DFLOW_MET_SEEDS sets how many random loops are read.
local df = require 'dflow'
local support = require 'spec.support'
local shell = require 'spec.shell'
local dice = require('spec.chance').dice

local native_it = support.native_it(it, pending)
local unpack = table.unpack or unpack

local function ran(s, fetches, feeds)
  local ok, found = pcall(s.run, s, fetches, feeds)
  return ok and { found = support.bits(found) } or { error = found.message, op = found.op, frame = found.frame, source = found.source }
end

--- Equal bits or the same error under both engines, one session each, for each of these feeds; what became of the loops.
local function same(fetches, list, what)
  local tokens, native = df.Session{ engine = 'tokens' }, df.Session{ engine = 'native' }
  local last
  for k, feeds in ipairs(list) do
    last = ran(native, fetches, feeds)
    assert.same(ran(tokens, fetches, feeds), last, ('%s, feeds %d'):format(what or '', k))
  end
  local told = native:native()
  tokens:close()
  native:close()
  return told, last
end

local function numbers(dtype, dims, seed)
  local t = support.tensor(dims, -2, 2, 'float32', seed or 1)
  return dtype == 'float32' and t or df.run(df.cast(df.constant(t) * 3, dtype))
end

--- A loop over i whose body makes the next of a variable.
local function loop(trips, x, body, opts)
  local _, y = df.while_loop(function(i) return i:lt(trips) end, function(i, v) return i + 1, body(v, i) end, { df.int32(0), x }, opts)
  return y
end

local function native(told, text) assert.is_truthy(told:find('native: variables', 1, true) and (not text or told:find(text, 1, true)), told) end
local function tokens(told, text) assert.is_truthy(not told:find('native: variables', 1, true) and told:find(text, 1, true), told) end

describe('a loop of shapes that the graph does not know', function()
  native_it('is native code for each of the first four that come, and tokens for more', function()
    for _, dtype in ipairs{ 'float32', 'float64', 'int32', 'int64' } do
      local x = df.placeholder(dtype, { -1, 3 })
      local y = loop(20, x, function(v, i) return df.maximum(v - df.cast(i, dtype), v * 2) end)
      local list = {}
      for k, n in ipairs{ 2, 5, 2, 1, 70, 9, 2, 40 } do list[k] = { [x] = numbers(dtype, { n, 3 }, k) } end
      local told = same(y, list, dtype)
      for _, n in ipairs{ 2, 5, 1, 70 } do native(told, ('; of %s[%d,3]'):format(dtype, n)) end
      assert.is_nil(told:find('[9,3]', 1, true), told)
    end
  end)

  native_it('may have known nothing of a rank, or an invariant that lets the shape be any', function()
    local x, y = df.placeholder('float32'), df.float32{ { 1, 2 }, { 3, 4 } }
    local told = same({ loop(9, x, function(v) return df.tanh(v) + 0.5 end), loop(9, y, function(v) return v * 0.5 + 1 end, { shape_invariants = { {}, { -1, 2 } } }) },
                      { { [x] = numbers('float32', { 2, 3, 2 }) }, { [x] = 0.25 }, { [x] = numbers('float32', { 4 }) } })
    native(told, '; of float32[2,3,2]')
    native(told, '; of float32[4]')
    native(told, '; of float32[2,2]')
  end)

  native_it('reads what it captures, and what is computed of shapes', function()
    local x, y, w = df.placeholder('float32', { -1, -1 }), df.placeholder('float32', { -1 }), df.placeholder('float32', { -1, -1 })
    local function feeds(a, b, seed)
      return { [x] = numbers('float32', { a, b }, seed), [y] = numbers('float32', { b }, seed + 1), [w] = numbers('float32', { b, b }, seed + 2) }
    end
    local list = { feeds(3, 4, 1), feeds(1, 1, 2), feeds(7, 20, 3) }
    local twice = y * 2
    for k, body in ipairs{
      function(v) return df.tanh(v + y) end,
      function(v) return df.tanh(df.matmul(v, w) + twice) end,
      function(v) return v - df.reduce_mean(v, 1, true) + df.softmax(v) end,
      function(v) return v * 0.5 + df.reduce_sum(v) / df.cast(df.size(v), 'float32') end,
      function(v) return df.reshape(df.reshape(v, { -1 }) * 0.5, df.shape(v)) + df.zeros(df.shape(v)) end,
      function(v, i) return v + df.gather(v, df.floormod(df.range(df.dim(v, 0)) + i, df.dim(v, 0))) * 0.25 end,
      function(v, i) return df.cond((i % 2):eq(0), function() return v + y end, function() return df.transpose(df.transpose(v, { 1, 0 }) * 0.5, { 1, 0 }) end) end,
      function(v)
        local s = loop(3, v, function(u) return u * 0.5 + df.reduce_max(v) end)
        return s - 1
      end,
      function(v) return df.concat({ v, v * 2 }, 0):slice({ 0, 0 }, df.shape(v)) * 0.5 end,
      function(v) return df.where(v:gt(y), v, df.broadcast_to(y, df.shape(v))) end,
    } do
      native(same(loop(12, x, body), list, 'case ' .. k), '; of float32[3,4]')
    end
  end)

  native_it('fills arrays and is read from arrays, forwards and backwards', function()
    local x, h0, w = df.placeholder('float32', { -1, -1, 3 }), df.placeholder('float32', { -1, 3 }), df.placeholder('float32', { 3, 3 })
    local n = df.dim(x, 0)
    local rows = df.TensorArray('float32', n):unstack(x)
    local _, h, out = df.while_loop(function(i) return i:lt(n) end, function(i, h, out)
      local now = df.tanh(df.matmul(h, w) + rows:read(i))
      return i + 1, now, out:write(i, now)
    end, { df.int32(0), h0, df.TensorArray('float32', n) })
    local y = df.reduce_sum(out:stack()) + df.reduce_sum(h * h)
    local list = {}
    for k, d in ipairs{ { 5, 2 }, { 9, 400 }, { 1, 1 }, { 40, 2 } } do
      list[k] = { [x] = numbers('float32', { d[1], d[2], 3 }, k), [h0] = numbers('float32', { d[2], 3 }, k), [w] = numbers('float32', { 3, 3 }, k) }
    end
    native((same(y, list, 'forwards')))
    local told = same({ y, unpack(df.gradients(y, { x, h0, w })) }, list, 'backwards')
    native(told)
    assert.is_nil(told:find('shape is not known', 1, true), told)
  end)

  native_it('is the tokens where a shape changes, comes of values, or has no elements', function()
    local x = df.placeholder('float32', { -1 })
    local list = { { [x] = numbers('float32', { 3 }) }, { [x] = numbers('float32', { 8 }, 2) } }
    local any = { shape_invariants = { {}, { -1 } } }
    tokens(same(loop(4, x, function(v) return df.concat({ v, v }, 0) end, any), list), 'its shape changes: it is float32[3], then float32[6]')
    tokens(same(loop(4, x, function(v) return df.gather(v, df.reshape(df.where(v:gt(-9)), { -1 })) end, any), list), 'of known shape')
    same(loop(4, x, function(v) return v * 2 end), { { [x] = df.tensor({}, 'float32', { 0 }) }, list[1] })
  end)

  native_it('fails as tokens do where shapes do not fit each other, and goes on with others that do', function()
    local x, y = df.placeholder('float32', { -1 }), df.placeholder('float32', { -1 })
    local function feeds(a, b) return { [x] = numbers('float32', { a }), [y] = numbers('float32', { b }, 2) } end
    local z = loop(5, x, function(v) return v * 0.5 + y end)
    local told, last = same(z, { feeds(3, 3), feeds(3, 2), feeds(2, 2), feeds(4, 1), feeds(3, 3), feeds(2, 3) })
    native(told, '; of float32[3], float32[3]')
    assert.is_truthy(last.error)
    same(loop(5, x, function(v, i) return v + v[i] end), { feeds(9, 1), feeds(3, 1), feeds(5, 1), feeds(4, 1) })
  end)

  native_it('is left in the middle of an iteration and entered again', function()
    local r = shell.run(('for n in 1 2 3; do DFLOW_STRESS=osr:$n %s -e %s; done'):format(shell.dflow, shell.quote[==[
      local x, t = df.placeholder('float32', { -1, -1 }), df.TensorArray('float32', 60)
      local _, y, out = df.while_loop(function(i) return i:lt(60) end, function(i, v, out)
        local _, s = df.while_loop(function(j) return j:lt(i % 5) end, function(j, s) return j + 1, df.tanh(s + v) end, { df.int32(0), v })
        return i + 1, df.cond((i % 3):eq(0), function() return s * 0.5 end, function() return v + 0.25 end), out:write(i, df.reduce_sum(s))
      end, { df.int32(0), x, t })
      local found = { tokens = {}, native = {} }
      for _, engine in ipairs{ 'tokens', 'native' } do
        local s = df.Session{ engine = engine }
        for k, d in ipairs{ { 2, 3 }, { 40, 2 }, { 2, 3 } } do
          local feed = df.run(df.reshape(df.range(0., d[1] * d[2] * 1.) * 0.01, d))
          for _, v in ipairs(s:run({ y, out:stack() }, { [x] = feed })) do
            found[engine][#found[engine] + 1] = table.concat(df.run(df.reshape(df.constant(v), { -1 })):totable(), ' ')
          end
        end
        assert(engine == 'tokens' or s:native():match 'native: variables', s:native())
      end
      io.write(tostring(table.concat(found.tokens, '|') == table.concat(found.native, '|')), ' ')
    ]==]))
    assert.equal('true true true ', r.out, r.err)
  end)

  native_it('has the bits of tokens in random loops, whatever comes', function()
    local natives = 0
    for seed = 1, tonumber(os.getenv 'DFLOW_MET_SEEDS' or 40) do
      df.reset()
      local pick = dice(seed)
      local function unknown(dims) for k = 1, #dims do if pick(4) > 1 then dims[k] = -1 end end return dims end
      local places = { df.placeholder('float32', { -1, -1 }), df.placeholder('float32', { -1 }), df.placeholder('float32', { -1, -1 }), df.placeholder('float32', {}) }
      local x, y, z, c = unpack(places)
      local function value(v, i, depth)              -- what fits a tensor like v
        if depth == 0 then return ({ v, v, y, z, c, df.cast(i, 'float32') })[pick(6)] end
        local a, b = value(v, i, depth - 1), value(v, i, pick(depth) - 1)
        local how = pick(12)
        if how == 1 then return a + b elseif how == 2 then return a * 0.5 - b elseif how == 3 then return df.maximum(a, b) elseif how == 4 then return df.tanh(a) * b
        elseif how == 5 then return df.reduce_mean(v * a, 1, true) elseif how == 6 then return df.reduce_max(v + a, 0) + b
        elseif how == 7 then return df.softmax(v * 0.25 + a) elseif how == 8 then return df.where((v + a):lt(b), v, v * 0 + a)
        elseif how == 9 then return v[i % df.dim(v, 0)] - a elseif how == 10 then return df.reshape(df.reshape(v, { -1 }) + c, df.shape(v)) * b
        elseif how == 11 then return df.cond((i % 2):eq(1), function() return v + a end, function() return v - b end)
        else return loop(2, v, function(u, j) return u * 0.5 + df.cast(j, 'float32') + a end) end
      end
      local _, out, sums = df.while_loop(function(i) return i:lt(6) end, function(i, v, sums)
        local next = v * 0.25 + value(v, i, 1 + pick(2))
        return i + 1, next, sums:write(i, df.reduce_sum(next, 0))
      end, { df.int32(0), df.identity(x), df.TensorArray('float32', 6) }, { shape_invariants = { {}, unknown{ -1, -1 }, false } })
      local list = {}
      for k = 1, 3 do
        local a, b = pick(5), pick(20)
        list[k] = { [x] = numbers('float32', { a, b }, seed), [y] = numbers('float32', { b }, seed + k), [z] = numbers('float32', { a, b }, seed * 3), [c] = 0.5 }
      end
      local told = same({ out, sums:stack() }, list, 'seed ' .. seed)
      if told:find('native: variables', 1, true) then natives = natives + 1 end
    end
    assert.is_true(natives > 0)
  end)
end)
