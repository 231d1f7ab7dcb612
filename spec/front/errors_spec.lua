--- Errors: tables with a code, an op, a frame, a source and a message, whose tostring is all of it.
local df = require 'dflow'
local support = require 'spec.support'
local same = support.same

--- The error that fn raises.
local function caught(fn, ...)
  local ok, e = pcall(fn, ...)
  assert(not ok, 'no error was raised')
  return e
end

--- The line that this is called from, as errors give it.
local function here(offset)
  local info = debug.getinfo(2, 'Sl')
  return info.source:sub(2) .. ':' .. (info.currentline + (offset or 0))
end

describe('an error', function()
  it('while building is a table with a code, a message and the line', function()
    local e = caught(function()
      local sum = df.ones({ 2, 3 }) + df.ones({ 4 })
      return sum
    end)
    assert.equal(here(-3), e.source)
    assert.equal('table', type(e))
    assert.equal('invalid_argument', e.code)
    assert.matches('float32%[2,3%].*float32%[4%]', e.message)
    assert.matches(e.source, tostring(e), 1, true)
    assert.matches(e.message, tostring(e), 1, true)
  end)

  it('while running names the op, and the line that built it', function()
    local i = df.placeholder('int32', {})
    local y = df.floordiv(10, i, { name = 'quotient' })
    local built = here(-1)
    local e = caught(df.run, y, { [i] = 0 })
    assert.equal('invalid_argument', e.code)
    assert.matches('quotient %(FloorDiv%)', e.op)
    assert.equal(built, e.source)
    assert.matches('quotient', tostring(e))
    assert.equal(1, (tostring(e):find(built, 1, true)))
  end)

  it('in a loop has the frame, which ends in name:iteration', function()
    local i, x = df.while_loop(function(i) return i:lt(9) end, function(i, x)
      local _, inner = df.while_loop(function(j) return j:lt(3) end, function(j, y) return j + 1, df.floordiv(y, 4 - i) end,
                                     { df.int32(0), x }, { name = 'inner' })
      return i + 1, inner
    end, { df.int32(0), df.int32(100) }, { name = 'outer' })
    local e = caught(df.run, { i, x })
    assert.matches('inner:0$', e.frame)
    assert.matches('outer:4', e.frame)
    assert.matches('inner:0', tostring(e), 1, true)
  end)

  it('has TensorFlow\'s codes', function()
    local x = df.constant({ 1.0, 2.0 })
    assert.equal('out_of_range', caught(df.run, df.TensorArray('float32', 2):read(5)).code)
    assert.equal('not_found', caught(function() return df.default_graph():output('nothing:0') end).code)
    assert.equal('not_found', caught(df.data.idx, '/nowhere/at/all').code)
    local s = df.Session{}
    s:close()
    assert.equal('failed_precondition', caught(s.run, s, x).code)
  end)

  it('of a TensorArray names the array and the index', function()
    local ta = df.TensorArray('float32', 3, { name = 'rows' })
    local e = caught(df.run, ta:write(1, 1.0):write(1, 2.0):stack())
    assert.matches("'rows'", e.message)
    assert.matches('1', e.message)
    e = caught(df.run, ta:read(7))
    assert.matches("'rows'.*7", e.message)
  end)

  it('of df.assert has the message and the values', function()
    local x = df.constant({ 1.0, -2.0 })
    local e = caught(df.run, df.assert(x:ge(0):reduce_all(), { x }, { message = 'x is negative' }))
    assert.equal('invalid_argument', e.code)
    assert.matches('x is negative', e.message)
    assert.matches('%-2', e.message)
    assert.is_true(df.run(df.assert(true, {})))
  end)

  it('names the line of a body that ends in a tail call', function()
    local e = caught(function()
      df.while_loop(function(x) return x:reduce_sum():lt(10) end, function(x)
        return x:matmul(x)
      end, { df.ones({ 2, 3 }) })
    end)
    assert.equal(here(-3), e.source)
  end)

  it('of a Lua kind goes through as it is', function()
    local mine = { 'mine' }
    assert.equal(mine, caught(df.cond, df.constant(true), function() error(mine) end, function() end))
    assert.equal(mine, caught(df.map_fn, function() error(mine) end, df.ones({ 3 })))
    assert.equal(mine, caught(df.name_scope, 'x', function() error(mine) end))
    same(df.run(df.constant(1.0)), 1)
  end)

  it('says what was given where something else is expected', function()
    local x = df.constant({ 1.0 })
    for _, case in ipairs{
      { function() return x + print end, 'function' },
      { function() return x + df.no_op() end, 'operation' },
      { function() return x + df.TensorArray('float32', 1) end, 'ta:stack' },
      { function() return df.run(df.TensorArray('float32', 1)) end, 'ta:stack' },
      { function() return x + nil end, 'missing' },
      { function() return df.matmul(x) end, 'missing' },
      { function() return df.concat(3, 0) end, 'list' },
      { function() return df.while_loop(x, x, { x }) end, 'function' },
      { function() return df.constant(1.0, 'float23') end, "did you mean 'float32'" },
      { function() return df.nothing_like_it end, 'nothing_like_it' },
      { function() return x .. 'y' end, 'has no value' },
    } do
      local e = caught(case[1])
      assert.matches(case[2], tostring(e))
      assert.equal('invalid_argument', e.code)
      assert.matches('errors_spec%.lua:%d+', e.source)
    end
  end)
end)

describe('the op of an error', function()
  it('is named in full, however long the name is', function()
    local e = support.error_of(df.sparse_softmax_cross_entropy_with_logits, df.int32{ 1 }, df.float32{ { 1 } })
    assert.are.equal('SparseSoftmaxCrossEntropyWithLogits', e.op)
  end)
end)

describe('the line that an error quotes', function()
  it('begins where it begins, when it is too long and nothing in it is pointed at', function()
    local path = os.tmpname()
    local f = assert(io.open(path, 'w'))
    f:write('local abc = ', ('1 + '):rep(100), '1\n')
    f:close()
    local text = require('dflow.front.quote').text(path .. ':1', 'something else', nil)
    os.remove(path)
    assert.matches('^\n    1 | local abc = 1 %+', text)
    assert.matches('…$', text)
  end)
end)

describe('what an error says', function()
  it('holds nothing that a terminal would obey, whatever a name or a file holds', function()
    local path = os.tmpname() .. '\27[2J\155\194\155\r\127'
    df.Variable(1.0)
    for _, fn in ipairs{ df.load_npz, df.load_npy, df.restore, df.data.csv, df.data.image } do
      local e = support.error_of(fn, path)
      local text = tostring(e)
      assert.is_nil(e.message:find '[%z\1-\8\11-\31\127]', ('%q'):format(e.message))
      assert.is_nil(e.message:find '\194[\128-\159]')
      assert.is_nil(text:find '[%z\1-\8\11-\31\127]', ('%q'):format(text))
      assert.is_nil(text:find '\194[\128-\159]')
      assert.is_truthy(text:find('\\027[2J', 1, true), text)
    end
    os.remove((path:gsub('\27.*', '')))
    local ok, e = pcall(function() return df.float32(1):cast 'a\ab' end)
    assert.is_false(ok)
    assert.is_nil(e.message:find '\a')
    assert.is_nil(tostring(e):find '\a')
    -- of a kernel, of a Lua function, of a file's name cut in the middle of what stands for a byte
    for _, fn in ipairs{ function() df.run(df.read_file(df.identity(df.constant '/no\27[2J\155\194\155'))) end,
                         function() df.run(df.assert(df.identity(df.constant(false)), { df.constant '\27[2J' }, { message = '\27]0;x\7' })) end,
                         function() df.run(df.lua_func(function() error('\27[2J', 0) end, {}, 'float32')) end,
                         function() df.load_npy('/no/' .. ('\27'):rep(900)) end,
                         function() df.load_npy('/no/' .. ('x'):rep(990) .. ('\194\155'):rep(60)) end } do
      e = support.error_of(fn)
      assert.is_nil(e.message:find '[%z\1-\8\11-\31\127]', ('%q'):format(e.message))
      assert.is_nil(e.message:find '\194[\128-\159]')
      assert.is_true(#e.message < 1024)
    end
    assert.is_truthy(tostring(select(2, pcall(error, setmetatable({ message = 'grün\tund\nblau' }, getmetatable(e))))):find 'grün\tund\nblau')
  end)
end)

describe('the line of a text that ends too early', function()
  it('is the one whose word is not closed, or the last that has something in it', function()
    local path = os.tmpname()
    for _, case in ipairs{
      { 'local x = 3 +\n\n\n', 1, '             ^' }, { 'local a = 1\nif a then\n  a = 2\n\n', 2, '^^' }, { 'print(\n', 1, '      ^' },
      { 'local function f(a)\n  return a\n', 1, '      ^^^^^^^^' }, { '\nlocal s = [[abc\n', 2, '               ^' },
    } do
      local text, number, marks = case[1], case[2], case[3]
      require('spec.shell').write(path, text)
      local _, message = loadfile(path)
      local shown = require('dflow.front.quote').text(message:match '^(.-:%d+):', message)
      assert.matches(('\n%5d | '):format(number), shown, 1, true)
      assert.equal(marks, shown:match '\n      | (.*)$')
    end
    os.remove(path)
  end)
end)
