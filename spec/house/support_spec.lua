-- run: once
--- The specs' own tools, which must see what is wrong: spec/support.lua, and spec/run.sh, which counts.
local df = require 'dflow'
local support = require 'spec.support'
local shell = require 'spec.shell'
local unpack = table.unpack or unpack

local function fails(fn, ...)
  local ok, e = pcall(fn, ...)
  assert(not ok, 'nothing was noticed')
  return tostring(e)
end

describe('near', function()
  it('holds for what is equal within the tolerances, and says so', function()
    for _, pair in ipairs{ { 1, 1 }, { 1, 1 + 1e-6 }, { 1e6, 1e6 + 1 }, { 0 / 0, 0 / 0 }, { 1 / 0, 1 / 0 }, { true, true }, { 'a', 'a' }, { {}, {} },
                           { { 1, { 2, 3 } }, { 1, { 2, 3 } } }, { df.tensor{ 1, 2 }, { 1, 2 } }, { df.tensor(3), 3 }, { 5, df.tensor(5) } } do
      assert.is_true(support.near(pair[1], pair[2]))
    end
    assert.is_true(support.near(1, 1.4, { atol = 0.5 }))
    assert.is_true(support.near(10, 14, { rtol = 0.5 }))
  end)

  it('fails for everything else, and names the place', function()
    for _, pair in ipairs{ { 1, 1.001 }, { 1, -1 }, { 0, 1e-5 }, { 1, 0 / 0 }, { 0 / 0, 1 }, { 1, 1 / 0 }, { 1 / 0, -1 / 0 }, { -1 / 0, 1 }, { true, false }, { 1, true },
                           { nil, 1 }, { 'a', 'b' }, { '1', 1 }, { {}, { 1 } }, { { 1 }, {} }, { { 1, 2 }, { 1, 3 } }, { { 1, 2 }, { { 1, 2 } } }, { { 1 }, 1 },
                           { 1, { 1 } }, { df.tensor{ 1, 2 }, { 1, 2.1 } }, { df.tensor{ 1, 2 }, { 1, 2, 3 } } } do
      fails(support.near, pair[1], pair[2])
      fails(support.same, pair[1], pair[2])
    end
    assert.matches('the value%[2%]%[1%] is 3, expected 4', fails(support.near, { 1, { 3 } }, { 1, { 4 } }))
    assert.matches('the value has an element %[b%], expected none', fails(support.near, { 1, b = 2 }, { 1 }))
    assert.matches('the value%[b%] is nil, expected 2', fails(support.near, { 1 }, { 1, b = 2 }))
    assert.matches('the value%[a%] has an element %[2%], expected none', fails(support.near, { a = { [2] = 0 } }, { a = {} }))
    assert.matches('has 2 elements, expected 3', fails(support.near, { 1, 2 }, { 1, 2, 3 }))
    assert.matches('^what it is: ', (fails(support.near, 1, 2, { what = 'what it is' }):gsub('^[^ ]*: ', '')))
    fails(support.same, 1, 1 + 1e-12)
    fails(support.near, 1, 1.1, { rtol = 0.05, atol = 0 })
    fails(support.near, 0.1, 0, { rtol = 1, atol = 0.05 })
  end)

  it('says where it was asked', function()
    assert.matches('support_spec%.lua:%d+: ', fails(function() support.near(1, 2) end))
    assert.matches('support_spec%.lua:%d+: ', fails(function() support.same(1, 2) end))
  end)
end)

describe('what specs ask besides', function()
  it('message_of wants an error', function()
    assert.equal('so', support.message_of(error, 'so'))
    assert.matches('no error was raised', fails(support.message_of, function() end))
  end)

  it('random numbers are the same every time, in their range, and of one seed only', function()
    local a, b, c = support.numbers(50, -2, 3, 7), support.numbers(50, -2, 3, 7), support.numbers(50, -2, 3, 8)
    assert.same(a, b)
    assert.are_not.same(a, c)
    for _, v in ipairs(a) do assert.is_true(v >= -2 and v < 3) end
    local low, high = math.min(unpack(a)), math.max(unpack(a))
    assert.is_true(low < -1 and high > 2)
    assert.same({ 2, 3 }, support.tensor({ 2, 3 }, 0, 1).shape)
  end)

  it('check_gradient sees a wrong gradient of the first and of the second order', function()
    assert.is_true(support.check_gradient(function(x) return x * x * x end, { 1.5 }, { order = 2 }))
    local doubled = df.custom_gradient(function(x) return x * x, function(dy) return dy * x end end)
    assert.matches('order 1: the gradient by element 0 of argument 1', fails(support.check_gradient, function(x) return doubled(x) end, { 1.5 }))
    local second = df.custom_gradient(function(x) return x * x * x, function(dy) return dy * 3 * df.stop_gradient(x * x) end end)
    assert.is_true(support.check_gradient(function(x) return second(x) end, { 1.5 }))
    assert.matches('order 2', fails(support.check_gradient, function(x) return second(x) end, { 1.5 }, { order = 2 }))
  end)

  it('cpu_equals_ref sees another value, another shape and another output', function()
    local n = 0
    local function drifting(shape)                        -- something else each time it is run
      return function(x) return df.lua_func(function() n = n + 1 return shape(n) end, { x }, 'float64') end
    end
    local x = { df.tensor({ 1, 2 }, 'float64') }
    assert.near(math.exp(2), support.cpu_equals_ref(df.exp, x)[1]:totable()[2], 1e-9)
    assert.matches('output 1 is 2, expected 1 %(the reference%)', fails(support.cpu_equals_ref, drifting(function(k) return k end), x))
    n = 0
    assert.matches('output 1: the CPU gives .*, the reference',
      fails(support.cpu_equals_ref, drifting(function(k) return support.numbers(k, 0, 1) end), x))
    n = 0
    local moving = drifting(function(k) return k end)
    assert.matches('so: output 2', fails(support.cpu_equals_ref, function(y) return y, moving(y) end, x, { what = 'so' }))
  end)

  it('effort grows with what is done, and hands errors on', function()
    local function count(k) return function() local s = 0 for i = 1, k do s = s + i end return s end end
    local little, much = support.effort(count(1e5)), support.effort(count(1e6))
    assert.is_true(much > 5 * little and little > 0)
    assert.matches('so$', fails(support.effort, function() error('so', 0) end))
  end)

  it('bits tells apart what == does not, but for NaNs', function()
    assert.are_not.equal(support.bits(0.0), support.bits(-0.0))
    assert.equal(support.bits(0 / 0), support.bits(-(0 / 0)))
    assert.same(support.bits{ 1, { 2 } }, support.bits{ 1, { 2 } })
    assert.are_not.same(support.bits(1), support.bits(1 + 2 ^ -52))
    assert.same(support.bits(df.tensor{ 1, 2 }), support.bits{ 1, 2 })
  end)

  it('bits of many numbers tells these apart, too, and shows the first that differs', function()
    for _, dtype in ipairs{ 'float32', 'float64', 'float16', 'int32', 'uint8' } do
      local function made(i, x)
        local list = support.numbers(200, 1, 3, 5)
        list[i or 1] = x or list[1]
        return support.bits(df.tensor(list, 'float64'):reshape{ 10, 20 }:astype(dtype))
      end
      assert.same(made(), made())
      for _, i in ipairs{ 1, 64, 200 } do
        assert.are_not.same(made(), made(i, 5))
        if dtype:find 'float' then
          assert.are_not.same(made(i, 0.0), made(i, -0.0))
          assert.are_not.same(made(i, 1 / 0), made(i, 0 / 0))
          assert.same(made(i, 0 / 0), made(i, -(0 / 0)))
        end
      end
      if dtype ~= 'float16' then assert.matches('%[element%] = 64\n *%[number%] = .5.', tostring(select(2, pcall(assert.same, made(), made(64, 5))))) end
    end
    local t = support.tensor({ 10, 20 }, 1, 3, 'float32', 1)
    assert.are_not.same(support.bits(t), support.bits(t:reshape{ 20, 10 }))
    assert.are_not.same(support.bits(t), support.bits(t:astype 'float64'))
  end)
end)

describe('spec/run.sh', function()
  --- What it prints of a file of specs with that text, and how it ends.
  local function run(text, environment)
    local path = os.tmpname()
    shell.write(path .. '_spec.lua', text)
    local r = shell.run(('%s SPECS=%s_spec.lua spec/run.sh lua5.4:%s'):format(environment or '', path, os.getenv 'DFLOW_MODE' or 'release'))
    os.remove(path)
    os.remove(path .. '_spec.lua')
    return r
  end
  local good = "it('holds', function() assert.is_true(true) end)\n"
  if rawget(_G, 'jit') then return end                   -- it is no other there

  it('counts what holds and what does not', function()
    local r = run(good)
    assert.equal(0, r.status)
    assert.matches('1 passed, 0 failed\n$', r.out)
    r = run(good .. "it('does not', function() assert.is_true(false) end) it('is odd', function() error 'oh' end)")
    assert.equal(1, r.status)
    assert.matches('1 passed, 2 failed\n$', r.out)
    assert.matches('\nfailed: %S+:%d+ does not %(lua5.4, ', r.out)
    assert.matches('\nfailed: %S+:%d+ is odd', r.out)
  end)

  it('leaves no file of os.tmpname behind, whatever became of the test', function()
    local r = run("it('asks', function() print('made ' .. os.tmpname()) print('made ' .. os.tmpname() .. '.d') error 'oh' end)")
    local n = 0
    for path in r.out:gmatch 'made ([^\n]-)[.d]*\n' do
      n = n + 1
      assert.is_nil(io.open(path))
    end
    assert.equal(2, n)
  end)

  it('takes files after the pairs, and refuses what is not there', function()
    local path = os.tmpname()
    shell.write(path .. '_spec.lua', good)
    local r = shell.run(('SPECS= spec/run.sh lua5.4:%s %s_spec.lua'):format(os.getenv 'DFLOW_MODE' or 'release', path))
    os.remove(path)
    os.remove(path .. '_spec.lua')
    assert.matches('1 passed, 0 failed\n$', r.out)
    r = shell.run('spec/run.sh lua5.4:debug spec/nothing_spec.lua 2>&1')
    assert.equal(1, r.status)
    assert.matches('there is no spec/nothing_spec.lua', r.out, 1, true)
  end)

  it('runs what a folder marks as long, or as one that no Lua changes, when it is due, and each file once', function()
    local folder = os.tmpname()
    os.remove(folder)
    os.execute('mkdir ' .. folder)
    finally(function() os.execute('rm -r ' .. folder) end)
    for name, mark in pairs{ plain = '', once = '-- run: once\n', first = '-- run: first\n', long = '-- run: test-all\n', both = '-- run: test-all, once\n' } do
      shell.write(('%s/%s_spec.lua'):format(folder, name), mark .. ("it('%s', function() end)\n"):format(name))
    end
    local pair = 'lua5.4:' .. (os.getenv 'DFLOW_MODE' or 'release')
    local function ran(environment, what)
      local r = shell.run(('%s SPECS=%s spec/run.sh %s %s'):format(environment, what, pair, pair))
      local times = {}
      for name in r.out:gmatch '/(%w+)_spec%.lua: 1 passed' do times[name] = (times[name] or 0) + 1 end
      return times
    end
    assert.same({ plain = 2, once = 1, first = 1 }, ran('DFLOW_TESTS=', folder))
    assert.same({ plain = 2, once = 1, first = 2, long = 2, both = 1 }, ran('DFLOW_TESTS=all', folder))
    assert.same({ both = 2 }, ran('DFLOW_TESTS=', folder .. '/both_spec.lua'))
  end)

  it('runs what is marked `alone` one at a time, after all others', function()
    local folder = os.tmpname()
    os.remove(folder)
    os.execute('mkdir ' .. folder)
    finally(function() os.execute('rm -r ' .. folder) end)
    for _, name in ipairs{ 'first', 'second' } do
      shell.write(('%s/z%s_spec.lua'):format(folder, name), ("it('lasts', function() os.execute 'sleep 0.5; touch %s/%s' end)"):format(folder, name))
      shell.write(('%s/%s_spec.lua'):format(folder, name), ([[-- run: alone
        it('is alone', function()
          assert(io.open '%s/first' and io.open '%s/second', 'another file has not ended')
          assert(os.execute 'mkdir %s/lock', 'another such file runs')
          os.execute 'sleep 0.2; rmdir %s/lock'
        end)]]):gsub('%%s', folder))
    end
    local r = shell.run(('DFLOW_LANES=4 SPECS=%s spec/run.sh lua5.4:%s'):format(folder, os.getenv 'DFLOW_MODE' or 'release'))
    assert.matches('4 passed, 0 failed\n$', r.out)
  end)

  it('runs no test again', function()
    local path = os.tmpname()
    local r = run(("it('is unsteady', function() local f = io.open('%s', 'a') f:write 'x' f:close() assert.equal(2, #io.open('%s'):read '*a') end)"):format(path, path))
    assert.matches('0 passed, 1 failed\n$', r.out)
    assert.equal('x', shell.read(path))
  end)

  it('counts a run that ends early, reads nothing, or hangs as failed', function()
    for _, text in ipairs{ good .. "it('ends', function() os.exit(0, true) end)",
                           good .. "it('crashes', function() os.execute('kill -SEGV ' .. io.open('/proc/self/stat'):read '*n') end)",
                           'this is no Lua' } do
      local r = run(text)
      assert.equal(1, r.status)
      assert.matches(', 1 failed\n$', r.out)
    end
    local r = run(good .. "it('hangs', function() while true do end end)", 'DFLOW_SPEC_SECONDS=1')
    assert.equal(1, r.status)
    assert.matches(', 1 failed\n$', r.out)
    assert.matches('ended with status 124', r.out)
    r = run("it('waits', function() os.execute 'sleep 1000' end)", 'DFLOW_SPEC_SECONDS=1')
    assert.equal(1, r.status)
    assert.matches('ended with status 124', r.out)
  end)
end)
