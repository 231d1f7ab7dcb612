--- Native code changes variables and holds assertions: what is done, in which order, and what an iteration that fails has done.
local df = require 'dflow'
local support = require 'spec.support'
local shell = require 'spec.shell'
local same_under_both = require 'spec.engines'.same_under_both
local it = support.native_it(it, pending)        -- loops are compiled on the host

describe('effects in native code', function()
  --- All loops of the graph were compiled.
  local function native(fetches)
    local s = df.Session{ engine = 'native' }
    s:run(fetches)
    assert.is_nil(s:native():match '[^\n]*tokens:[^\n]*')
    s:close()
  end
  --- What the variables are when `loop` is over.
  local function after(loop, variables)
    return df.control_dependencies(loop, function()
      local now = {}
      for k, v in ipairs(variables) do now[k] = v:value() end
      return now
    end)
  end

  it('change variables of every dtype, numbers and small tensors, in branches and in loops within', function()
    for _, t in ipairs{ 'float32', 'float64', 'int32', 'int64' } do
      df.reset()
      local v, w = df.Variable(df.cast(3, t)), df.Variable(df.cast(df.constant{ { 1, -2, 3 }, { 4, 5, 6 } }, t))
      local seen = df.Variable(df.cast(0, t))
      local i, x = df.while_loop(function(i) return i:lt(40) end, function(i, x)
        local added = v:assign_add(df.cast(i, t))
        df.cond((i % 3):eq(0), function() return w:assign_sub(w:value() * 2 - added) end, function() return w:assign(w + x) end)
        df.while_loop(function(k) return k:lt(i % 4) end, function(k) seen:assign_add(v - 1) return k + 1 end, { df.int32(0) })
        return i + 1, df.minimum(w:value(), x) + seen
      end, { df.int32(0), df.cast(df.zeros{ 2, 3 }, t) })
      local all = { i, x, df.unpack(after({ i, x }, { v, w, seen })) }
      native(all)
      same_under_both(all)
    end
  end)

  it('change rows, and make steps of optimizers', function()
    local w = df.Variable(df.constant({ { 1, 2 }, { 3, 4 }, { 5, 6 } }, 'float32'))
    local a, m, s = df.Variable(df.zeros{ 3, 2 }), df.Variable(df.zeros{ 3, 2 }), df.Variable(df.zeros{ 3, 2 })
    local i = df.while_loop(function(i) return i:lt(30) end, function(i)
      w:scatter_add({ 0, 2, 0 }, { { 0.5, 1 }, { -1, 2 }, { 0.25, 0.25 } })
      w:scatter_mul({ 1 }, { { 0.9, 1.01 } })
      df.apply_gradient_descent(w, 0.1, w - 1)
      df.apply_momentum(w, a, 0.01, w * 2, 0.9)
      df.apply_adam(w, m, s, 0.9, 0.999, 0.01, 0.9, 0.999, 1e-8, w + df.cast(i, 'float32'))
      df.sparse_apply_gradient_descent(w, 0.5, df.constant{ { 0.1, 0.2 } }, { 1 })
      return i + 1
    end, { df.int32(0) })
    local all = { i, df.unpack(after({ i }, { w, a, m, s })) }
    native(all)
    same_under_both(all)
  end)

  it('train in a loop as tokens train', function()
    local w, b = df.Variable(df.zeros{ 4, 3 }), df.Variable(df.zeros{ 3 })
    local x, y = df.constant({ { 1, 0, 2, 1 }, { 0, 1, 1, -1 } }, "float32"), df.constant({ { 0, 1, 0 }, { 1, 0, 0 } }, "float32")
    local trained = df.while_loop(function(i) return i:lt(100) end, function(i)
      local loss = df.reduce_mean(df.square(df.tanh(df.matmul(x, w) + b) - y))
      df.train.Adam(0.05):minimize(loss)
      return i + 1
    end, { df.int32(0) })
    same_under_both{ trained, df.unpack(after({ trained }, { w, b })) }
  end)

  it('are not done twice where an iteration fails, and what they gave is given again', function()
    local v, w = df.Variable(df.int32(0)), df.Variable(df.constant{ 1, 2, 3 })
    local function body(i, y)
      local n = v:assign_add(3)
      return i + 1, y + df.control_dependencies({ w:assign(w * 2) }, function() return df.int32(1000):floor_div(n - 60) end)
    end
    local _, y = df.while_loop(function(i) return i:lt(100) end, body, { df.int32(0), df.int32(0) }, { name = 'divides' })
    local found = {}
    for _, engine in ipairs{ 'tokens', 'native' } do
      local s = df.Session{ engine = engine }
      local err = support.error_of(s.run, s, y)
      assert.equal('divides:19', err.frame)
      found[engine] = { s:run(v), s:run(w, nil, { tensors = true }):list() }
      s:close()
    end
    assert.equal(60, found.native[1])
    assert.same(found.tokens, found.native)
  end)

  it('are not done twice where what only the last iteration computes fails, as a graph from elsewhere may have it', function()
    local FRAME = ' attr { key: "frame_name" value { s: "w/frame" } }'
    local function node(name, op, inputs, dtype, more)
      local t = { ('node { name: "%s" op: "%s"'):format(name, op) }
      for input in inputs:gmatch '%S+' do t[#t + 1] = ('input: "%s"'):format(input) end
      if dtype then t[#t + 1] = ('attr { key: "%s" value { type: %s } }'):format(op:match 'Variable' and 'dtype' or 'T', dtype) end
      return table.concat(t, ' ') .. (more or '') .. ' }\n'
    end
    local function number(name, n, control)
      return node(name, 'Const', control or '', nil, (' attr { key: "dtype" value { type: DT_INT32 } } attr { key: "value" value { tensor {'
        .. ' dtype: DT_INT32 tensor_shape { } int_val: %d } } }'):format(n))
    end
    local INT, CONSTANT = 'DT_INT32', FRAME .. ' attr { key: "is_constant" value { b: true } }'
    local g = df.import_graph_def(number('zero', 0) .. number('limit', 500)
      .. node('none', 'Placeholder', '', nil, ' attr { key: "dtype" value { type: DT_INT32 } } attr { key: "shape" value { shape { } } }')
      .. node('v', 'VarHandleOp', '', nil, ' attr { key: "dtype" value { type: DT_INT32 } } attr { key: "shape" value { shape { } } }')
      .. node('begin', 'AssignVariableOp', 'v zero', nil, ' attr { key: "dtype" value { type: DT_INT32 } }')
      .. node('now', 'ReadVariableOp', 'v', nil, ' attr { key: "dtype" value { type: DT_INT32 } }')
      .. node('w/Enter', 'Enter', 'zero', INT, FRAME) .. node('w/Limit', 'Enter', 'limit', INT, CONSTANT)
      .. node('w/None', 'Enter', 'none', INT, CONSTANT) .. node('w/V', 'Enter', 'v', 'DT_RESOURCE', CONSTANT)
      .. node('w/Merge', 'Merge', 'w/Enter w/Next', INT, ' attr { key: "N" value { i: 2 } }') .. number('w/one', 1, '^w/Merge')
      .. node('w/add', 'AssignAddVariableOp', 'w/V w/one', nil, ' attr { key: "dtype" value { type: DT_INT32 } }')
      .. node('w/read', 'ReadVariableOp', 'w/V ^w/add', nil, ' attr { key: "dtype" value { type: DT_INT32 } }')
      .. node('w/Less', 'Less', 'w/read w/Limit', INT) .. node('w/LoopCond', 'LoopCond', 'w/Less')
      .. node('w/Switch', 'Switch', 'w/Merge w/LoopCond', INT) .. node('w/plus', 'AddV2', 'w/Switch:1 w/one', INT)
      .. node('w/Next', 'NextIteration', 'w/plus', INT) .. node('w/div', 'FloorDiv', 'w/Switch w/None', INT)
      .. node('w/Exit', 'Exit', 'w/div', INT))
    for _, engine in ipairs{ 'tokens', 'native' } do
      local s = df.Session{ graph = g, engine = engine }
      s:run(g:op 'begin')
      assert.equal(166, s:run(g:output 'w/Exit', { ['none:0'] = 3 }))
      if engine == 'native' then assert.is_nil(s:native():match '[^\n]*tokens:[^\n]*') end
      assert.equal(500, s:run(g:output 'now'))
      s:run(g:op 'begin')
      local err = support.error_of(s.run, s, g:output 'w/Exit', { ['none:0'] = 0 })
      assert.matches('w/frame:499', err.frame)
      assert.equal(500, s:run(g:output 'now'))
      s:close()
    end
  end)

  it('are not done twice where the variable has another shape than its handle says, as another handle may have given it', function()
    local function handle(name, shape)
      return ('node { name: "%s" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { %s } } } '
        .. 'attr { key: "shared_name" value { s: "one" } } }\n'):format(name, shape)
    end
    local g = df.import_graph_def(handle('any', 'unknown_rank: true') .. handle('two', 'dim { size: 2 }'))
    g:as_default(function()
      local set = df.assign(g:output 'any:0', df.constant{ 1.0, 2.0, 3.0 })
      local i = df.while_loop(function(i) return i:lt(5) end, function(i)
        df.scatter_add(g:output 'two:0', df.constant({ 1 }, 'int32'), df.constant{ 1.0 })
        return i + 1
      end, { df.int32(0) })
      local now = df.scatter_add(g:output 'any:0', df.constant({ 0 }, 'int32'), df.constant{ 0.0 })
      for _, engine in ipairs{ 'tokens', 'native' } do
        local s = df.Session{ graph = g, engine = engine }
        s:run(set)
        assert.equal(5, s:run(i))
        assert.same({ 1, 7, 3 }, s:run(now):totable())
        s:close()
      end
    end)
  end)

  it('assert what holds, and leave what does not to the tokens, which say so', function()
    local n, total = df.placeholder('int32', {}), df.Variable(0.0)
    local i = df.while_loop(function(i) return i:lt(100) end, function(i)
      total:assign_add(1)
      df.assert(i:lt(n), { i, 'too far' }, { message = 'i is large' })
      return i + 1
    end, { df.int32(0) }, { name = 'holds' })
    assert.is_nil(same_under_both({ i }, { [n] = 100 }).error)
    local r = same_under_both({ i }, { [n] = 42 })
    assert.matches('i is large', r.error)
    assert.equal('holds:42', r.frame)
    local s = df.Session{ engine = 'native' }
    assert.is_false((pcall(s.run, s, i, { [n] = 42 })))
    assert.equal(43, s:run(total))
    assert.is_nil(s:native():match '[^\n]*tokens:[^\n]*')
    s:close()
  end)

  it('hold assertions over many iterations at once', function()
    local xs, most = df.placeholder('float32', { 3000 }), df.float32(10)
    local y = df.map_fn(function(x)
      return df.control_dependencies({ df.assert(x:lt(most), { x }, { message = 'a large one' }) }, function() return x * 2 end)
    end, xs)
    local data = {}
    for k = 1, 3000 do data[k] = k % 7 end
    assert.is_nil(same_under_both({ y }, { [xs] = data }).error)
    data[2001] = 11
    local r = same_under_both({ y }, { [xs] = data })
    assert.matches('a large one', r.error)
    assert.matches(':2000$', r.frame)
  end)

  it('see what other runs assign meanwhile, and are seen by them', function()
    local v, stop = df.Variable(df.int32(0)), df.Variable(df.bool(false))
    local counts = df.while_loop(function() return df.logical_not(stop) end, function(k) v:assign_add(1) return k + 1 end, { df.int32(0) })
    local halt = stop:assign(true)
    local s = df.Session{ engine = 'native', timeout = 30 }
    s:run(v)
    local h = s:start(counts)
    while s:run(v) < 1000 do end
    s:run(halt)
    assert.equal(h:wait(), s:run(v))
    assert.is_nil(s:native():match '[^\n]*tokens:[^\n]*')
    s:close()
  end)

  it('agree on random programs where engines change at random iterations', function()
    local r = shell.run(('DFLOW_STRESS=osr:5 %s -e %s'):format(shell.dflow, shell.quote[==[
      local program = require 'spec.random_program'
      local function text(s, y, feeds, memories)
        local fine, v = pcall(s.run, s, y, feeds)
        local out = { tostring(not fine and v or ('%a'):format(v)) }
        for name, m in pairs(memories) do
          if name:sub(1, 1) == 'm' then out[#out + 1] = name .. ' ' .. tostring(s:run(m, nil, { tensors = true })) end
        end
        table.sort(out)
        return table.concat(out, '; ')
      end
      for seed = 1, tonumber(os.getenv 'DFLOW_NATIVE_PROGRAMS') or 25 do
        df.reset()
        local width = ({ [0] = 40, [2] = 72 })[seed % 4]       -- 72 are too many for registers: they stay where they lie
        local y, xs, memories = program.build(df, program.make(seed, 3, true), nil, { width = width })
        local feeds, found = {}, {}
        for k, x in ipairs(xs) do
          local at = ({ 0.7, -0.4, 0.3 })[k]
          feeds[x] = at
          if width then feeds[x] = {} for j = 1, width do feeds[x][j] = at * (1 + j / 64) end end
        end
        for _, engine in ipairs{ 'tokens', 'native' } do
          local s = df.Session{ engine = engine }
          found[engine] = text(s, df.reduce_sum(y), feeds, memories)
          s:close()
        end
        if found.tokens ~= found.native then print('seed ' .. seed, found.tokens, found.native) end
      end
      print 'done']==]))
    assert.are.equal('done\n', r.out, r.err)
  end)

  it('choose between tensors by where they lie, also where variables change places and a branch has loops and branches', function()
    local x = df.constant(df.run(df.cast(df.range(304), 'float32') * 0.01))
    local v, w = df.Variable(df.fill({ 304 }, df.float32(0.1))), df.Variable(df.fill({ 304 }, df.float32(0.2)))
    local rows = df.TensorArray('float32', 60):unstack(df.tile(df.reshape(x, { 1, 304 }), { 60, 1 }))
    local out = df.TensorArray('float32', 60)
    local function even(i) return (i % 2):eq(0) end
    local i, a, b, c, out_last = df.while_loop(function(i) return i:lt(60) end, function(i, a, b, c, out)
      local p = df.cond(even(i), function() return b end, function() return a end)                  -- variables, passed on
      local q = df.cond((i % 3):eq(0), function() return v:read_value() end, function()
        return df.cond(even(i), function() return w:read_value() end, function() return a * 0.5 end)
      end)
      local r = df.cond((i % 5):lt(2), function()                                                  -- a row, in a loop's constants
        local row = rows:read(i)
        local _, t = df.while_loop(function(k) return k:lt(3) end, function(k, t)
          return k + 1, df.cond(even(k), function() return t + row end, function() return row end)
        end, { df.int32(0), q })
        return df.reshape(df.identity(t), { 304 })
      end, function() return df.identity(q) end)
      v:assign(df.cond((i % 7):eq(6), function() return p * 0.25 end, function() return r end) * 0.5)
      return i + 1, b, df.cond((i % 4):eq(1), function() return a end, function() return p - q end), df.tanh(r + c), out:write(i, p + q)
    end, { df.int32(0), x, x * 0.5, x * 0.25, out })
    local all = { i, a, b, c, out_last:stack(), df.unpack(after({ i, a }, { v, w })) }
    native(all)
    same_under_both(all)
  end)

  it('left after a branch know what it read, and read nothing where it was not taken', function()
    local r = shell.run(('for n in 1 2 3 4; do DFLOW_STRESS=osr:$n %s -e %s; done'):format(shell.dflow, shell.quote[==[
      local function last(engine)
        df.reset()
        local x = df.constant(df.run(df.range(0., 304., 1.)) * 0.01)
        local v, w = df.Variable(df.fill({ 304 }, df.float32(0.1))), df.Variable(df.fill({ 304 }, df.float32(0.2)))
        local rows = df.TensorArray('float32', 2, { clear_after_read = false }):unstack(df.stack{ x, x * 0.5 })
        local _, y = df.while_loop(function(i) return i:lt(40) end, function(i, u)
          local r = df.cond((i % 2):eq(0), function() return u * v:read_value() end, function() return u - w:read_value() end)
          local q = df.cond((i % 3):eq(0), function() return rows:read(i % 2) end, function() return r * 0.5 end)
          local _, z = df.while_loop(function(j) return j:lt(20) end, function(j, t) return j + 1, df.tanh(t + r - q) end, { df.int32(0), r })
          return i + 1, z
        end, { df.int32(0), x })
        local s = df.Session{ engine = engine }
        local sum = s:run(df.reduce_sum(y))
        assert(not s:native():find('not valid', 1, true), s:native())
        return sum
      end
      local wanted = last 'tokens'
      io.write(tostring(wanted == last 'auto' and wanted == last 'native'), ' ')
    ]==]))
    assert.equal('true true true true ', r.out, r.err)
  end)
end)
