-- The text being edited: however it was edited, it is what the same text is when it is read at once.
local buffers = require 'dflow.repl.buffer'

local knows = { global = function() return true end, field = function() return true end }
local pieces = { '', 'x = 1', 'local a, b = f(1, 2)', 'a = [[', 'in a string ]] .. y', '--[==[ a comment', 'still ]==] z = 3', 'for i, j in pairs(t) do', 'end',
                 'function g(p, ...)', '"cut', 'x.y.z = { 1,', '}', 'goto l', '::l::', 'a, b.c, d = 1', '[==[', ']==]' }

--- Numbers of our own, the same in every Lua.
local state
local function draw(n)
  state = state * 48271 % 2147483647
  return math.floor(state / 2147483647 * n)
end

local function whole(text)
  local b = buffers.new(knows)
  b.replace(0, 0, text)
  return b
end

--- What a buffer knows of its lines.
local function seen(b)
  local list = {}
  for i, r in ipairs(b.lines) do list[i] = { r.text, r.from or false, r.to or false, r.n, r.kinds, r.firsts, r.lasts, r.declares or false } end
  return list, b.declared_names()
end

describe('the buffer of the prompt', function()
  it('is, after any edits, what its text is when it is read at once', function()
    for seed = 1, 60 do
      state = seed * 7919
      local b = whole(table.concat({ pieces[draw(#pieces) + 1], pieces[draw(#pieces) + 1], pieces[draw(#pieces) + 1] }, '\n'))
      for _ = 1, 12 do
        local first = draw(#b.lines + 1)
        local removed = math.min(draw(3), #b.lines - first)
        local text = {}
        for i = 1, 1 + draw(3) do text[i] = pieces[draw(#pieces) + 1] end
        b.replace(first, removed, table.concat(text, '\n'))
        local lines, declared = seen(b)
        local lines_at_once, declared_at_once = seen(whole(b.text()))
        assert.same(lines_at_once, lines)
        assert.same(declared_at_once, declared)
      end
    end
  end)

  it('knows which names its lines declare', function()
    for line, names in pairs{
      ['x = 1'] = 'x', ['x=1'] = 'x', ['a, b = 1'] = 'a b', ['a, b, c = f()'] = 'a b c', ['a.b, c = 1'] = 'b c', ['a, b.c = 1'] = 'c', ['a.b = 1'] = 'b',
      ['a[1] = 2'] = '', ['a[i], b = 2'] = 'b', ['f(x).y = 1'] = 'y', ['x == 1'] = '', ['x ~= 1 y <= 2 z >= 3'] = '', ['t = { a = 1, b = 2 }'] = 'a b t',
      ['(x) = 1'] = '', ['f() x = 1'] = 'x', ['local a'] = 'a', ['local a, b'] = 'a b', ['local a <const>, b <close> = 1'] = 'a b close const',
      ['local function f(x, y, ...) end'] = 'f x y', ['function g(p) return p end'] = 'g p', ['function t.f(a) end'] = 'a t', ['function t.u:f(a, b) end'] = 'a b t',
      ['f(function(a, b) end)'] = 'a b', ['for i = 1, 3 do j = i end'] = 'i j', ['for k, v in pairs(t) do end'] = 'k v', ['goto on'] = 'on', ['::on::'] = 'on',
      ['return x, y'] = '', ['f(x, y)'] = '', ["s = 'x = 1'"] = 's', ['-- x = 1'] = '', ['x, y'] = '', ['='] = '', [', = 1'] = '', ['1 = 2'] = '',
      ['local'] = '', ['function'] = '', ['for'] = '', ['goto'] = '', ['x = y = z'] = 'x y', ['local x = y z = 2'] = 'x z',
    } do
      local list = {}
      for name in pairs(whole(line).declared_names()) do list[#list + 1] = name end
      table.sort(list)
      assert.equal(names, table.concat(list, ' '), line)
    end
    assert.is_true(whole('x = 1\ny = 2').declares('y'))
  end)

  it('keeps the marks of lines that begin an input where lines come and go before them', function()
    local b = whole 'a\nb\nc\nd'
    b.begin(2)
    assert.same({ 'a\nb', 'c\nd' }, b.inputs())
    b.replace(0, 1, 'a1\na2\na3')
    assert.same({ 'a1\na2\na3\nb', 'c\nd' }, b.inputs())
    b.replace(1, 2, 'a4')
    assert.same({ 'a1\na4\nb', 'c\nd' }, b.inputs())
    b.replace(3, 1, 'c1')
    assert.same({ 'a1\na4\nb', 'c1\nd' }, b.inputs())
    b.replace(0, 1, '[[')
    assert.same({ '[[\na4\nb', 'c1\nd' }, b.inputs())
    b.begin()
    assert.same({ '[[\na4\nb\nc1\nd' }, b.inputs())
  end)
end)
