--- The top level of a plan as machine code, where it is numbers and small tensors and has no effects: the same bits, errors and
-- counts as tokens, and runs that one can look at are the tokens'.
local df = require 'dflow'
local same_under_both = require 'spec.engines'.same_under_both
local it = require('spec.support').host_it(it, pending)

--- A chain of n steps on numbers.
local function chain(x, n)
  local y = x
  for k = 1, n do y = k % 3 == 0 and df.sin(y) + x or k % 3 == 1 and y * 1.25 - x or df.maximum(y, -y) end
  return y
end

local function native(fetches, feeds)
  local s = df.Session{ engine = 'native' }
  s:run(fetches, feeds)
  local said = s:native()
  s:close()
  return said
end

describe('native code of the top level', function()
  it('computes a straight line of numbers', function()
    for _, t in ipairs{ 'float32', 'float64' } do
      df.reset()
      local x = df.placeholder(t, {})
      local y = chain(x, 40)
      for _, v in ipairs{ 0, 1, -3.7, 1e30, 1e-42, 1 / 0, 0 / 0 } do same_under_both({ y, y * x, x }, { [x] = v }) end
      assert.matches('^top level  native: %d%d nodes; %l[%l ]+ in [%d.]+ ms\n', native(y, { [x] = 2 }))
    end
  end)

  it('takes conds, counts the tokens that die in them, and gives what is fetched twice twice', function()
    local x = df.placeholder('float32', {})
    local y = df.cond(x:gt(0), function() return chain(x, 9) end, function()
      return df.cond(x:lt(-5), function() return chain(-x, 9) end, function() return x * 2 end)
    end)
    for _, v in ipairs{ 3, -3, -30 } do same_under_both({ y, y, y + 1 }, { [x] = v }) end
    assert.matches('top level  native: ', native(y, { [x] = 3 }))
  end)

  it('hands back small tensors, whole numbers and truth values', function()
    local x, i = df.placeholder('float32', { 2, 3 }), df.placeholder('int32', {})
    local v, k = x, i
    for n = 1, 8 do
      v = df.tanh(v * 0.5 + df.cast(k, 'float32'))
      k = k * 1103515245 + n
    end
    local fetches = { v, k, k:gt(0), df.reduce_sum(v), df.reshape(v, { 6 }) }
    for _, n in ipairs{ 0, 5, -2147483648 } do same_under_both(fetches, { [x] = { { 1, 2, 3 }, { -1, 0 / 0, 1e-40 } }, [i] = n }) end
    assert.matches('top level  native: ', native(fetches, { [x] = { { 1, 2, 3 }, { 4, 5, 6 } }, [i] = 1 }))
  end)

  it('leaves what fails to the tokens, which name op and line, and goes on natively afterwards', function()
    local a, b = df.placeholder('int32', {}), df.placeholder('int32', {})
    local y = a
    for k = 1, 20 do y = y * 3 + k end
    y = y:floor_div(b) + y
    local r = same_under_both(y, { [a] = 5, [b] = 0 })
    assert.matches('zero', r.error)
    assert.matches('FloorDiv', r.op)
    local s, t = df.Session{ engine = 'native' }, df.Session{ engine = 'tokens' }
    for n = 1, 30 do
      local feeds = { [a] = n, [b] = n % 7 }
      local ok, found = pcall(s.run, s, y, feeds)
      local well, expected = pcall(t.run, t, y, feeds)
      assert.equal(well, ok)
      if ok then assert.equal(expected, found) end
    end
    s:close() t:close()
  end)

  it('is given up where its runs fail again and again, and says so', function()
    local a, b = df.placeholder('int32', {}), df.placeholder('int32', {})
    local y = a
    for k = 1, 20 do y = y * 3 + k end
    y = y:floor_div(b)
    local s = df.Session{ engine = 'native' }
    local expected = s:run(y, { [a] = 5, [b] = 7 })
    assert.matches('^top level  native: ', s:native())
    for _ = 1, 20 do assert.matches('zero', select(2, pcall(s.run, s, y, { [a] = 5, [b] = 0 })).message) end
    assert.matches('^top level  tokens: again and again it failed, or met what it was not compiled for\n', s:native())
    assert.equal(expected, s:run(y, { [a] = 5, [b] = 7 }))
    s:close()
  end)

  it('reads variables as they are in each run', function()
    local w, x = df.Variable(df.float32(2)), df.placeholder('float32', {})
    local y = chain(x * w, 20) + w
    local s = df.Session{ engine = 'native' }
    local t = df.Session{ engine = 'tokens' }
    for n = 1, 5 do
      for _, each in ipairs{ s, t } do each:run(w:assign(df.float32(n)).op) end
      assert.equal(t:run(y, { [x] = 3 }), s:run(y, { [x] = 3 }))
    end
    assert.matches('top level  native: ', s:native())
    s:close() t:close()
  end)

  it('gives way to tokens where a tensor is fed for a number of unknown shape', function()
    local x = df.placeholder('float32')
    local y = chain(x, 30)
    same_under_both(y, { [x] = 3 })
    same_under_both(y, { [x] = { 1, 2, 3 } })
    local s = df.Session{ engine = 'native' }
    assert.equal(s:run(y, { [x] = 2 }), s:run(y, { [x] = { 1, 2 } }):totable()[2])
    s:close()
  end)

  it('says why one is left to tokens', function()
    local x = df.placeholder('float32', {})
    local side = df.cond(x:gt(0), function() return x + 1 end, function() return x end).op.inputs[1]
    assert.is_not_nil(side)
    local y = chain(x, 20)
    local said = native({ y, side }, { [x] = -1 })
    assert.matches('^top level  tokens: .*it is fetched, and may be dead', said)
    same_under_both({ y, side }, { [x] = 1 })
    same_under_both({ y, side }, { [x] = -1 })
  end)

  it('leaves runs that one can look at to the tokens', function()
    local x = df.placeholder('float32', {})
    local y = df.identity(chain(x, 20), { name = 'end' })
    local s = df.Session{ engine = 'native' }
    assert.equal(s:run(y, { [x] = 3 }), s:run(y, { [x] = 3 }))
    local h = s:start(y, { [x] = 3 }, { paused = true })
    h:step(5)
    assert.matches('end:0\n  it waits for ', tostring(h:whynot('end')))
    h:resume()
    assert.equal(s:run(y, { [x] = 3 }), h:wait())
    s:close()
  end)

  it('takes a plan that is run again and again, and no other', function()
    local x = df.placeholder('float32', {})
    local y, short = chain(x, 60), chain(x, 4)
    local s = df.Session()
    local first = s:run(y, { [x] = 0.3 })
    assert.matches('top level  tokens: it has not become hot', s:native())
    local until_when = os.time() + 60
    while not s:native():find('top level  native: ', 1, true) and os.time() < until_when do
      for _ = 1, 100 do
        assert(s:run(y, { [x] = 0.3 }) == first)
        s:run(short, { [x] = 1 })
      end
    end
    assert.matches('^top level  native: %d+ nodes; [^\n]*\n$', s:native())
    s:close()
  end)
end)
