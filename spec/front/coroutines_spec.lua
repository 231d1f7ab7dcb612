-- Bodies, branches and scopes in coroutines: a yield out of one is an error that unwinds, and so is whatever else leaves it.
local df = require 'dflow'

local function one() return df.float32(1) end

--- What calls fn while something stands.
local places = {
  { 'the body of a while_loop', function(fn) return df.while_loop(function(i) return i:lt(2) end, function(i) fn() return i + 1 end, { df.int32(0) }) end },
  { 'the predicate of a while_loop', function(fn) return df.while_loop(function(i) fn() return i:lt(2) end, function(i) return i + 1 end, { df.int32(0) }) end },
  { 'a branch', function(fn) return df.cond(df.constant(true), function() fn() return one() end, one) end },
  { 'the other branch', function(fn) return df.cond(df.constant(true), one, function() fn() return one() end) end },
  { 'a branch in a body', function(fn)
    return df.while_loop(function(i) return i:lt(2) end, function(i)
      return df.cond(i:eq(0), function() fn() return i + 1 end, function() return i + 1 end)
    end, { df.int32(0) })
  end },
  { 'map_fn', function(fn) return df.map_fn(function(x) fn() return x end, df.float32 { 1, 2 }) end },
  { 'name_scope', function(fn) return df.name_scope('s', function() fn() return one() end) end },
  { 'control_dependencies', function(fn) return df.control_dependencies({ one() }, function() fn() return one() end) end },
  { 'as_default', function(fn) return df.default_graph():as_default(function() fn() return one() end) end },
  { 'the initial value of a Variable', function(fn) return df.Variable(function() fn() return one() end) end },
  { 'variable_scope', function(fn) return df.variable_scope('s', function() fn() return one() end) end },
}

--- Is nothing left standing? What is built now is at the top level, outside of all scopes, and runs.
local function at_rest()
  local x = df.float32(3) * 2
  assert.is_falsy(x.name:find('/', 1, true), x.name)
  assert.are.equal(6, df.run(x))
end

describe('in a coroutine', function()
  for _, place in ipairs(places) do
    it('a yield out of ' .. place[1] .. ' is an error that unwinds', function()
      local co = coroutine.create(function() return place[2](coroutine.yield) end)
      local ok, e = coroutine.resume(co)
      assert.is_false(ok)
      assert.are.equal('invalid_argument', type(e) == 'table' and e.code, tostring(e))
      assert.matches('cannot yield', tostring(e))
      assert.are.equal('dead', coroutine.status(co))
      at_rest()
    end)

    it('the same is built as outside of one, and between yields: ' .. place[1], function()
      local co = coroutine.wrap(function()
        coroutine.yield(1)
        local y = place[2](function() end)
        coroutine.yield(2)
        return df.run(y)
      end)
      assert.are.equal(1, co())
      assert.are.equal(2, co())
      assert.is_not_nil(co())
      at_rest()
    end)

    it('whatever value is raised in ' .. place[1] .. ' comes out as it is', function()
      local thing = setmetatable({}, { __tostring = function() return 'thing' end })
      for _, wrap in ipairs { function(f) return pcall(f) end, function(f) return coroutine.resume(coroutine.create(f)) end } do
        for _, value in ipairs { thing, 42, 'word', false } do
          local ok, e = wrap(function() place[2](function() error(value, 0) end) end)
          assert.is_false(ok)
          assert.are.equal(value, e)
          at_rest()
        end
        assert.is_false((wrap(function() place[2](function() error(nil) end) end)))
        at_rest()
      end
    end)
  end

  it('one that begins and ends inside a body may yield there', function()
    local y = df.while_loop(function(i) return i:lt(3) end, function(i)
      for step in coroutine.wrap(function() for k = 1, 2 do coroutine.yield(k - k + 1) end end) do i = i + step end
      return i
    end, { df.int32(0) })
    assert.are.equal(4, df.run(y))
  end)

  it('a dropped coroutine leaves nothing standing', function()
    for _ = 1, 50 do
      for _, place in ipairs(places) do
        coroutine.resume(coroutine.create(function() return place[2](function() pcall(coroutine.yield) coroutine.yield() end) end))
      end
    end
    collectgarbage()
    at_rest()
  end)

  it('a hook that raises an error in a body unwinds', function()
    local ok, e = pcall(df.while_loop, function(i) return i:lt(2) end, function(i)
      debug.sethook(function() debug.sethook() error('too long', 0) end, '', 100)
      local n = 0
      for k = 1, 100000 do n = n + k end
      return i + n
    end, { df.int32(0) })
    debug.sethook()
    assert.is_false(ok)
    assert.matches('too long', tostring(e))
    at_rest()
  end)

  it('garbage that builds while it is collected in a body does no harm', function()
    local y = df.while_loop(function(i) return i:lt(2) end, function(i)
      for _ = 1, 3 do
        setmetatable({}, { __gc = function() df.float32(1) end })
        collectgarbage()
      end
      return i + 1
    end, { df.int32(0) })
    assert.are.equal(2, df.run(y))
    at_rest()
  end)

  it('branches nest as deep as before', function()
    local function nested(n, x)
      if n == 0 then return x end
      return df.cond(x:gt(0), function() return nested(n - 1, x) end, function() return x end)
    end
    assert.are.equal(1, coroutine.wrap(function() return df.run(nested(25, one())) end)())
  end)
end)
