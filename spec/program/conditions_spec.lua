-- An Output taken for a Lua boolean: what a running program can see is an error or a warning, the rest is found in the text.
local df = require 'dflow'
local shell = require 'spec.shell'
local conditions = require 'dflow.check.conditions'

local function message_of(fn, ...)
  local ok, e = pcall(fn, ...)
  assert(not ok, 'no error was raised')
  return e.message or e, e.code
end

describe('a Lua boolean as a predicate', function()
  local x = function() return df.float32(1) end

  it('is an error of cond, while_loop, case, and a predicate function that returns one, and says what to write', function()
    for _, fn in ipairs {
      function() df.cond(true, x, x) end,
      function() df.cond(not x(), x, x) end,
      function() df.cond(x() == x(), x, x) end,
      function() df.while_loop(function(i) return i == 3 end, function(i) return i + 1 end, { df.int32(0) }) end,
      function() df.while_loop(function() return true end, function(i) return i + 1 end, { df.int32(0) }, { maximum_iterations = 3 }) end,
      function() df.case { { false, x }, default = x } end,
    } do
      local message, code = message_of(fn)
      assert.equal('invalid_argument', code)
      assert.matches('use i:eq(3)', message, 1, true)
    end
    assert.equal(0, df.run(df.while_loop(function() return df.constant(false) end, function(i) return i + 1 end, { df.int32(0) })))
  end)
end)

describe('== on an Output', function()
  local function run(text, environment)
    local path = os.tmpname()
    shell.write(path, text)
    local r = shell.run(('%s %s %s'):format(environment or '', shell.dflow, path))
    os.remove(path)
    return r
  end
  local text = [[
    local x, y, v = df.float32(1), df.float32(2), df.Variable(1.0)
    local same = {}
    for i = 1, 3 do same[i] = x == y end
    print(x ~= y, x == x, v == x, df.default_graph():output(x.name) == x)
    local t = { [x] = 1 }
    print(t[x], t[y])
    df.run { x, y }
    df.run(df.map_fn(function(a) return a + x end, df.float32 { 1, 2 }))
  ]]

  it('asks whether both are the same output, and warns once per line', function()
    local r = run(text)
    assert.equal('true\ttrue\tfalse\ttrue\n1\tnil\n', r.out)
    local _, lines = r.err:gsub('warning: == on an Output', '')
    assert.equal(2, lines)
    assert.matches(':3: warning', r.err)
    assert.matches(':4: warning', r.err)
  end)

  it('is not all that is warned of: a learning rate below zero is, by its line', function()
    local r = run [[
      for _, name in ipairs { 'SGD', 'Adam', 'RMSProp' } do
        df.train[name](0.1)
        df.train[name](-0.1)
      end
    ]]
    assert.equal(3, select(2, r.err:gsub(':3: warning: [^\n]* go uphill', '')), r.err)
    assert.equal(3, select(2, r.err:gsub('warning', '')), r.err)
  end)

  it('is an error under DFLOW_STRICT=1 and under --strict', function()
    local path = os.tmpname()
    shell.write(path, text)
    for _, r in ipairs{ run(text, 'DFLOW_STRICT=1'), shell.run(shell.dflow .. ' --strict ' .. path) } do
      assert.not_equal(0, r.status)
      assert.matches(':3: == on an Output', r.err)
    end
    os.remove(path)
  end)
end)

describe('dflow --check', function()
  local function warnings(text)
    local list = {}
    for i, w in ipairs(conditions.find(text)) do list[i] = ('%d %s'):format(w.line, w.message:match('^`([^`]*)`')) end
    return table.concat(list, '; ')
  end

  it('finds conditions, comparisons and logic on Outputs', function()
    assert.equal('1 if', warnings 'if x:gt(0) then f() end')
    assert.equal('1 elseif; 2 while', warnings 'if a then elseif df.less(x, y) then end\nwhile i:lt(10) do end')
    assert.equal('2 if', warnings 'local p = x:gt(0)\nif p then end')
    assert.equal('1 ==', warnings 'while_loop(function(i) return i == 3 end, function(i) return i + 1 end, {0})')
    assert.equal('1 ~=', warnings 'df.while_loop(function(i) return 3 ~= i end, function(i) return i + 1 end, {0})')
    assert.equal('1 not', warnings 'while_loop(function(i, p) return not p end, function(i, p) return i, p end, {0, p})')
    assert.equal('1 and', warnings 'while_loop(function(i, p) return i:lt(3) and p end, body, {0, p})')
    assert.equal('1 not', warnings 'cond(not x:eq(y), f, g)')
    assert.equal('1 or', warnings 'cond(x:eq(y) or x:gt(z), f, g)')
    assert.equal('1 ==', warnings 'df.map_fn(function(row) return row == 0 end, xs)')
    assert.equal('1 and', warnings "local y = x:gt(0) and x or -x")
    assert.equal('3 ==', warnings 'local x = df.ones{2}\nfunction m.x(a) end\nif x == 3 then end')
    assert.equal('2 or', warnings 'local x, y = df.ones{2}, df.ones{3}\nlocal z = x or y')
    assert.equal('2 ==', warnings "local x = df.placeholder('float32', {})\nif x == 3 then print(x) end")
    assert.equal('2 ==', warnings "local x <const>, y = df.ones{2}, 3 local z = df.ones{2}\nif z == 3 or y == 3 then end")
    assert.equal('2 if', warnings 'local p = x:gt(0) p = y:lt(0)\nif p then end')
  end)

  it('finds constants of other languages, where nothing has their names', function()
    assert.equal('1 True; 2 None', warnings 'local x = True\nif x ~= None then end')
    for _, text in ipairs{ 'local True = 1 print(True)', 't.None = 3 print(t.None)', 'None = {} print(None)', 'x = { True = 1 }', 's = "None"',
                           'local a, None = 1, 2 print(None)', 'function f(null) return null end', 'for k, True in pairs(t) do print(True) end', 'goto None ::None::' } do
      assert.equal('', warnings(text), text)
    end
    rawset(_G, 'True', true)                                   -- at the prompt, by a line before
    local before = warnings 'print(True)'
    rawset(_G, 'True', nil)
    assert.equal('', before)
  end)

  it('finds steps of a script that nothing runs', function()
    local function dropped(text)
      local list = {}
      for _, w in ipairs(conditions.find(text, true)) do
        local step = w.message:match('^`([^`]*)` builds')
        if step then list[#list + 1] = ('%d %s'):format(w.line, step) end
      end
      return table.concat(list, '; ')
    end
    assert.equal('2 assign; 3 minimize', dropped 'local w = df.Variable(1.0)\nw:assign(2)\nfor i = 1, 3 do opt:minimize(loss) end')
    assert.equal('1 assign_add', dropped 'model.steps:assign_add(1); df.run(y)')
    for _, text in ipairs {
      'local t = w:assign(2)', 'df.run(w:assign(2))', 'df.run{ w:assign(2), y }', 'return w:assign(2)', 'w:assign(2):eval()', 't[1] = w:assign(2)',
      'while_loop(function(i) return i:lt(3) end, function(i) w:assign(i) return i + 1 end, {0})', 'local function step() w:assign(2) end',
      'local a = x, w:assign(2)', 'print(w:assign(2))', 'local s = a .. w:assign(2)',
      'function Map:assign(k) end m:assign(3)', 'Map.assign = function() end m:assign(3)', 'local M = { minimize = function() end } M:minimize()',
      'w:assign(2, { name = "put" }) df.run(g:op "put")',
    } do assert.equal('', dropped(text), text) end
    assert.equal('1 assign', dropped 'w:assign(2) m = { assign = 3 } print(x.assign(3))')
  end)

  it('says nothing of Lua values', function()
    for _, text in ipairs {
      'if df.run(x:gt(0)) then end', 'if x:gt(0):eval() then end', 'if #x.shape == 2 then end',
      'while_loop(function(i) if i.dtype == "int32" then end return i:lt(3) end, function(i) return i + 1 end, {0})',
      'while_loop(function(i) return i:lt(3) end, function(i, s) if s ~= nil then end return i + 1 end, {0})',
      'local n = 3 if n == 3 then end', '-- if x:gt(0) then', 's = "if x:gt(0) then"',
      'local x = df.ones{2} local y = x or other', 'local x = df.ones{2} local y = other and x',
      'local y = mask and x:lt(3) or x', 'local x = df.ones{2} x = 3 if x == 3 then end', 'f(function(x) if x == 3 then end end) local x = df.ones{2}',
      'while_loop(function(i) return mask and i:lt(3) or more end, f, {0})',
      'local x = df.ones{2} local function f(x) if x == 3 then end end', 'local x = df.ones{2} function m.f(a, x) if x == 3 then end end',
      'local x = df.ones{2} for x, y in pairs(t) do if x == 3 then end end', 'local x = df.ones{2} do local x, y = 3, 4 if x == 3 then end end',
      'local x = df.ones{2} x, y = 3, 4 if x == 3 then end', 'local x = df.ones{2} do local x <const>, y = 3 if x == 3 then end end',
      'local ok = x:eq(y) local ok, why = pcall(f) if ok then end', 'function f(x) if x.dtype ~= "bool" then x = x:ne(0) end if x then end end',
      'local p = x:gt(0) if p.shape then end', 'local p = x:gt(0) function f(p) if p then end end',
      'while_loop(p, function(i) return df.lua_func(function(n) return n == 3 end, {i}, {"bool"}) end, {0})',
      'while_loop(function(i) return df.logical_and(i:lt(3), p) end, function(i) return n == 3 and i + 1 or i + 2 end, {0})',
    } do assert.equal('', warnings(text), text) end
  end)

  it('knows the names that several predicates are given at once', function()
    local text = 'local p, q = i:lt(3), i:gt(1)\nlocal c = df.cond(p and q, f, g)\nif q then end\nlocal a, b = i:lt(3), 5\nif b then end\nlocal t = {}\n'
      .. 't.p, u = i:lt(3), i:gt(1)\nif u then end\n'
    local lines = {}
    for _, w in ipairs(conditions.find(text)) do lines[#lines + 1] = w.line end
    assert.same({ 2, 3, 8 }, lines)
  end)

  it('sees what earlier inputs of the prompt gave their names', function()
    local x = df.float32(1)
    local names = { p = x:gt(0), x = x, n = 3 }
    local function found(text, autograph)
      local list = {}
      for i, w in ipairs(conditions.find(text, false, { value_of = function(name) return names[name] end, autograph = autograph })) do
        list[i] = ('%d %s'):format(w.line, w.message:match('^`([^`]*)`'))
      end
      return table.concat(list, '; ')
    end
    assert.equal('1 if', found 'if p then n = 2 end')
    assert.equal('1 and', found 'local q = p and x')
    assert.equal('1 and', found 'p and x or -x')
    assert.equal('1 ==', found 'if x == 3 then print(1) end')
    assert.equal('1 loss', found 'local y = df.exp(loss)')
    assert.equal('1 True', found('x = True', true))
    for _, text in ipairs{ 'if n == 3 then end', 'local y = n and x', 'if p ~= nil then end', 'if x then end', 'p = 3 if p then end', 'function f() return g(later) end',
                           'local p = n if p then end', 'if df.run(p) then end', 'z = z or 3' } do
      assert.equal('', found(text), text)
    end
    assert.equal('', found('if p and x == 3 then n = 2 end', true))
  end)

  it('finds names that nothing sets, where no other text can', function()
    local function unset(text)
      local list = {}
      for i, w in ipairs(conditions.find(text, true)) do list[i] = ('%d %s'):format(w.line, w.message:match('^`([^`]*)` is a variable')) end
      return table.concat(list, '; ')
    end
    assert.equal('2 lsos', unset 'local loss = df.float32(1)\nlocal g = df.exp(lsos)')
    assert.equal('1 y', unset 'print(3 * y)')
    for _, text in ipairs{ 'local y = y or 3', 'f(y) function g() y = 3 end', 'require "other" print(3 * y)', 'print(type(y))', 'if y == nil then end', 'f(y[1])' } do
      assert.equal('', unset(text), text)
    end
  end)

  it('finds a list that is taken for several values, and says nothing where it is one', function()
    local function lists(text)
      local list = {}
      for i, w in ipairs(conditions.find(text)) do list[i] = ('%d %s'):format(w.line, w.message:match('^`([^`]*)` gives one list') or w.message) end
      return table.concat(list, '; ')
    end
    assert.equal('2 gradients', lists 'local x, w\nlocal gx, gw = gradients(f, {x, w})')
    assert.equal('1 run', lists 'local n, a, b = 3, s:run{x, y}')
    assert.equal('1 jacobian', lists 'a, b = df.jacobian(y, {x, w})')
    for _, text in ipairs{ 'local g = gradients(f, {x, w})', 'local gx, gw = df.unpack(gradients(f, {x, w}))', 'local a, b = df.run{x, y}, 3', 'local a, b = gradients(f, x), 3',
                           'local a, b = run(x)', 'local ok, g = pcall(gradients, f, {x, w})', 'local l = df.run{loss = a, step = b}' } do
      assert.equal('', lists(text), text)
    end
  end)

  it('says nothing of a table that a metatable makes callable', function()
    for _, text in ipairs{ 'local M = setmetatable({A()}, mt) M(3)', 'local M = {} setmetatable(M, mt) M(3)', 'local M = {f()} M(3)', 'local M = {A()} M = g M(3)',
                           'local mine = {} mine:f(1)' } do
      assert.same({}, conditions.find(text), text)
    end
  end)

  it('says nothing of the examples', function()
    local paths = shell.run('ls examples/*.lua').out
    assert(shell.run(shell.dflow .. ' --check ' .. paths:gsub('\n', ' ')).status == 0)
  end)

  it('says it of a script that runs, too, before it does, and on stderr', function()
    local path = os.tmpname()
    shell.write(path, 'local w = df.Variable(1.0)\nw:assign(2)\nprint(df.run(w))\n')
    local r = shell.run(shell.dflow .. ' ' .. path)
    os.remove(path)
    assert.equal('1.0\n', r.out)
    assert.matches('^%S*:2: warning: `assign` builds an operation that nothing runs[^\n]*\n$', r.err)
  end)

  it('runs nothing, tells line and file, and ends with status 1 when there is something', function()
    local path = os.tmpname()
    shell.write(path, '#!/usr/bin/env dflow\nprint "ran"\nif df.float32(1):gt(0) then end\n')
    local r = shell.run(shell.dflow .. ' --check ' .. path)
    os.remove(path)
    assert.equal(1, r.status)
    assert.equal('', (r.out:gsub('^[^\n]*:3: warning: `if` on an Output[^\n]*\n', '')))
    assert.equal(1, shell.run(shell.dflow .. ' --check no_such_file.lua').status)
    assert.equal(1, shell.run(shell.dflow .. ' --check').status)
  end)
end)
