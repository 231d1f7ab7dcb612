-- What runs, gradients, splits and loops give in tables: plain tables, which say what they hold when they are printed.
local df = require 'dflow'
local unpack = table.unpack or unpack

describe('a table that dflow gives', function()
  local function half(x) return ('%s'):format(tostring(x)) end       -- 0.5 is written alike in both Luas

  it('is printed as what it holds', function()
    local x, y = df.float32(0.5), df.float32(2.5)
    assert.equal('{0.5, 2.5}', tostring(df.run{ x, y }))
    assert.equal('{0.5}', tostring(df.run{ x }))
    assert.equal('{loss = 0.5, rest = {2.5, x = 0.5}}', tostring(df.run{ loss = x, rest = { y, x = x } }))
    assert.equal('{[3] = 0.5}', tostring(df.run{ [3] = x }))
    assert.equal('{}', tostring(df.run{}))
    assert.equal('{"a\\nb", true}', tostring(df.run{ df.constant 'a\nb', df.constant(true) }))
    assert.equal('results: {0.5, 2.5}', 'results: ' .. df.run{ x, y })
    assert.equal('{0.5, 2.5}', half(df.start{ x, y }:wait()))
  end)

  it('has Tensors on lines of their own, and long lists in rows', function()
    local t = df.float32{ { 1, 2 }, { 3, 4 } }
    assert.equal('{\n  [[1. 2.]\n   [3. 4.]] float32[2,2],\n  0.5\n}', tostring(df.run{ t, df.float32(0.5) }))
    local many = {}
    for i = 1, 40 do many[i] = df.constant(i % 2 == 0) end
    local text = tostring(df.run(many))
    assert.matches('^{\n  false,  true', text)
    for line in text:gmatch '[^\n]+' do assert.is_true(#line <= 80) end
  end)

  it('is a plain table otherwise', function()
    local x = df.float32{ 1, 2 }
    local r = df.run{ x:reduce_sum(), x:reduce_max(), df.float32(0.5) }
    assert.equal(3, #r)
    local a, b, c = unpack(r)
    assert.same({ 3, 2, 0.5 }, { a, b, c })
    assert.same({ 3, 2, 0.5 }, r)
    assert.same({ a, b, c }, { df.unpack(r) })
    local seen = 0
    for i, v in ipairs(r) do seen = seen + i * v end
    assert.equal(3 + 4 + 1.5, seen)
    for k, v in pairs(r) do seen = seen - k * v end
    assert.equal(0, seen)
    assert.equal('3;2;0.5', (table.concat(r, ';'):gsub('%.0', '')))
    table.sort(r)
    assert.equal(0.5, r[1])
    r[#r + 1] = 'mine'
    assert.equal(4, #r)
    r.self = r
    assert.matches('self = <cycle>', tostring(r), 1, true)
    assert.equal('[3,2]', (require('dflow.exchange.json').encode(df.run{ x:reduce_sum(), x:reduce_max() }):gsub('%.0', '')))
  end)

  it('is taken wherever a table of values is', function()
    local x, y = df.float32(1), df.float32(2)
    local r = df.run{ x, y }
    assert.same({ 1, 2 }, df.run(df.constant(r)):totable())
    assert.same({ 1, 2 }, df.tensor(r):totable())
    assert.same({ 2, 4 }, df.run(df.float32(r) * 2):totable())
    assert.same({ 2, 4 }, df.run(r * df.float32(2)):totable())
    local p = df.placeholder('float32', { 2 })
    assert.same({ 3, 6 }, df.run(p * 3, { [p] = r }):totable())
    local v = df.Variable(r)
    assert.same({ 1, 2 }, df.run(v):totable())
    v:load(df.run{ y, x })
    assert.same({ 2, 1 }, df.run(v):totable())
    assert.equal(2, df.run(df.cond(df.constant(true), function() return r end, function() return df.float32{ 0, 0 } end)):totable()[2])
    local i, w = df.while_loop(function(i) return i:lt(2) end, function(i, w) return i + 1, w * 2 end, { df.int32(0), df.float32(r) })
    assert.same({ 4, 8 }, df.run{ i, w }[2]:totable())
    assert.same({ 2, 3 }, df.run(df.map_fn(function(e) return e + 1 end, df.float32(r))):totable())
    assert.equal(3, df.run(df.reduce_sum(r)))
    assert.same({ 1, 2 }, df.run(df.stack(r)):totable())
    assert.has_error(function() df.run(x, r) end)                      -- feeds that are none: as any list of numbers
    df.plot.line(r)
  end)

  it('is fed as the run that made it was, by name', function()
    local p, q = df.placeholder('float32', {}), df.placeholder('float32', {})
    local sum = p + q
    local r = df.run({ [p] = p * 2, [q] = q * 2 }, { [p] = 1, [q] = 2 })
    assert.equal(6, df.run(sum, r))
  end)

  it('is a list of Outputs, too: of parts, of gradients, of variables', function()
    local x = df.placeholder('float32', { 4 })
    assert.matches('^{\n  Split:0: float32%[2%] = Split%(.-,  %-%- .-\n  Split:1: float32%[2%] .-\n}$', tostring(df.split(x, 2, 0)))
    local w, b = df.Variable(df.float32(1), { name = 'w' }), df.Variable(df.float32(2), { name = 'b' })
    local text = tostring(df.gradients(w * b, { w = w, b = b }))
    assert.matches('b = gradients', text, 1, true)
    assert.matches('w = gradients', text, 1, true)
    assert.matches('w.*b', tostring(df.trainable_variables()))
    local parts = df.unstack(x)
    local a, _, _, d = df.unpack(parts)
    assert.same({ 1, 4 }, df.run({ a, d }, { [x] = { 1, 2, 3, 4 } }))
    local out = df.while_loop(function(s) return s.i:lt(3) end, function(s) return { i = s.i + 1 } end, { i = df.int32(0) })
    assert.matches('^{\n  i = while/Exit:0: int32%[%] = ', tostring(out))
  end)
end)

describe('a table of data', function()
  it('may have a metatable, as long as it is none of dflow', function()
    local json = setmetatable({ 1, 2 }, { __jsontype = 'array' })
    df.reset()
    assert.same({ 2, 4 }, df.run(df.float32(2) * json):totable())
    assert.same({ 1, 2 }, df.run(df.float32(json)):totable())
    assert.equal(3, df.run(df.reduce_sum(json)))
    local s = df.Session{ devices = { 'cpu:0', setmetatable({ 'sim:0', memory = '1MB' }, { __name = 'config' }) } }
    assert.equal('sim:0', s:devices()[2].name)
    s:close()
  end)
end)
