-- What the prompt knows of Lua: its lexer, colours, completion, hints, and locals that live on. No terminal is needed for these.
local df = require 'dflow'
local shell = require 'spec.shell'
local lexer = require 'dflow.front.lexer'
local support = require 'spec.support'
local locals = require 'dflow.repl.locals'
local listing = require 'dflow.repl.listing'
local script = require 'dflow.repl.script'
local unpack = table.unpack or unpack
local session = require 'dflow.repl.session'
local values = require 'dflow.repl.values'
local hints = require 'dflow.repl.hints'
local complete = require 'dflow.repl.complete'
local editor = require 'dflow.repl.editor'
local text = require 'dflow.front.text'

require('spec.support').as_program(setup, teardown)

local function load_in(source, env)
  if setfenv then
    local chunk = assert(loadstring(source))
    return setfenv(chunk, env)
  end
  return assert(load(source, 'test', 't', env))
end

describe('the lexer', function()
  --- Kinds and words of a source: `keyword:local name:x op:= number:1`.
  local function words(source)
    local list = {}
    for i, t in ipairs(lexer.tokens(source)) do list[i] = t.kind .. ':' .. t.text end
    return table.concat(list, ' ')
  end

  it('tells names, numbers, strings and operators', function()
    assert.are.equal('keyword:local name:x op:= number:0x1p-3 op:.. string:"a\\"b" op:// name:y comment:-- c', words('local x = 0x1p-3 .. "a\\"b" // y -- c'))
    assert.are.equal('number:3. op:.. number:.5e+3 op:~= constant:nil', words('3. .. .5e+3 ~= nil'))
  end)

  it('carries long strings and comments over lines', function()
    assert.are.equal('name:a op:= string:[==[x string:]] string:y]==] op:.. name:b', words('a = [==[x\n]]\ny]==] .. b'))
    assert.are.equal('comment:--[[ a comment:b ]] name:c', words('--[[ a\nb ]] c'))
  end)

  it('says what is no token', function()
    assert.are.equal('error:"open', words('"open'))
    assert.are.equal('name:x op:= error:3x error:$', words('x = 3x $'))
  end)

  it('gives the same tokens whole and line by line, for all of the library', function()
    for _, path in ipairs{ 'stdlib/dflow/front/registry.lua', 'stdlib/dflow/front/lexer.lua', 'examples/tour.lua' } do
      local source = shell.read(path)
      for _, t in ipairs(lexer.tokens(source)) do assert.are_not.equal('error', t.kind, path .. ':' .. t.line .. ': ' .. t.text) end
    end
  end)

  it('blanks out strings and comments where words are looked for, byte for byte', function()
    local masked = require('dflow.front.quote').masked
    for text, expected in pairs{
      ['f("x", y)'] = 'f(   , y)', ['f("x", y, "zz", w)'] = 'f(   , y,     , w)',
      ["g('a\\'b') -- x"] = 'g(      )     ', ['h([=[ ]] x ]=], z)'] = 'h(            , z)',
      ['a --[[ x ]] + b'] = 'a           + b', ['k("no end'] = 'k(       ', ['x[1] .. y'] = 'x[1] .. y' } do
      assert.equal(expected, masked(text))
    end
  end)

  it('lexes a line in a thousand instructions of Lua', function()
    local source = shell.read('stdlib/dflow/front/registry.lua')
    local lines = select(2, source:gsub('\n', ''))
    local effort = support.effort(function() lexer.tokens(source) end)
    assert.is_true(effort > 10 and effort / lines < 1.2, effort / lines)
  end)
end)

describe('locals of the top level', function()
  local function run(...)
    local base = setmetatable({}, { __index = _G })
    local state, results = locals.new(base), {}
    for i, source in ipairs{ ... } do
      local rewritten, names = locals.rewrite(source)
      results[i] = load_in(rewritten, state.environment(names))()
    end
    return results, base, state
  end

  it('live on from input to input, and are no globals', function()
    local r, base = run('local x, y = 1, 2', 'return x + y', 'x = 10', 'return x')
    assert.are.same({ nil, 3, nil, 10 }, { r[1], r[2], r[3], r[4] })
    assert.is_nil(rawget(base, 'x'))
  end)

  it('are functions that may call themselves', function()
    local r = run('local function fact(n) if n < 2 then return 1 end return n * fact(n - 1) end', 'return fact(5)')
    assert.are.equal(120, r[2])
  end)

  it('hide a global, even with nil', function()
    local r = run('local print', 'return print == nil', 'print = 3', 'return print')
    assert.is_true(r[2])
    assert.are.equal(3, r[4])
  end)

  it('take no assignment when they are const, and are declared anew like any', function()
    local r, _, state = run('local c <const>, d = 1, 2', 'return c + d', 'd = 5', 'return pcall(function() c = 3 end)', 'return c', 'local c = 4', 'c = c + 1', 'return c')
    assert.are.equal(3, r[2])
    assert.is_false(r[4])
    assert.are.equal(1, r[5])
    assert.are.equal(5, r[8])
    assert.is_true(state.has('c') and state.has('d') and #state.names() == 2)
  end)

  it('that are to be closed live as long as the session, and are closed the last first', function()
    local closed = {}
    local function thing(name) return setmetatable({ name = name }, { __close = function(t) closed[#closed + 1] = t.name end }) end
    _G.thing = thing
    local r, _, state = run('local a <close> = thing "a"', 'local b <close>, c = thing "b", 3', 'return a.name .. b.name .. c', 'local none <close> = nil',
      'return pcall(function() a = 1 end)')
    assert.are.equal('ab3', r[3])
    assert.is_false(r[5])
    assert.are.same({}, closed)
    state.close(error)
    assert.are.same({ 'b', 'a' }, closed)
    state.close(error)
    assert.are.same({ 'b', 'a' }, closed)
    _G.thing = nil
    local ok, why = pcall(run, 'local bad <close> = {}')
    assert.is_false(ok)
    assert.is_truthy(why:find("variable 'bad' got a non-closable value", 1, true))
  end)

  it('of inner blocks stay there', function()
    local r, base = run('for i = 1, 2 do local z = i end if true then local z = 1 end local f = function() local z = 2 return z end', 'return z', 'return f()')
    assert.is_nil(r[2])
    assert.are.equal(2, r[3])
    assert.is_nil(rawget(base, 'z'))
  end)

  it('keep the lines of the source', function()
    local source = 'local a,\n  b = 1,\n 2\nlocal c -- local d\nlocal s = "local e"'
    local rewritten, names = locals.rewrite(source)
    assert.are.equal(select(2, source:gsub('\n', '')), select(2, rewritten:gsub('\n', '')))
    assert.are.same({ 'a', 'b', 'c', 's' }, names)
  end)
end)

describe('tokens and stacks', function()
  local function token(state, name, tag, missing, dead) return { state = state, op = { name = name }, tag = tag, missing = missing, dead = dead or false } end
  local function lines(list)
    for i, l in ipairs(list) do list[i] = type(l) == 'table' and l[1] or l end
    return list
  end

  it('of one node are one line for all iterations alike, what can run first', function()
    assert.are.same({
      'ready    Mul                          while:3',
      'ready    Add                          while:3/in:2  dead',
      'partial  Switch                       while:5-7, 9  1 input to come',
      'partial  Switch                       while:8       1 input to come  dead',
      'partial  y                                          2 inputs to come',
    }, lines(listing.tokens{ token('partial', 'Switch', 'while:6', 1), token('ready', 'Mul', 'while:3', 0), token('partial', 'Switch', 'while:5', 1),
      token('partial', 'Switch', 'while:9', 1), token('partial', 'Switch', 'while:8', 1, true), token('partial', 'Switch', 'while:7', 1),
      token('ready', 'Add', 'while:3/in:2', 0, true), token('partial', 'y', '', 2) }))
  end)

  it('that hold nothing yet are one line', function()
    local function stack(name, depth, frame)
      return { saved = true, name = name, depth = depth, size = depth, bytes = 4 * depth, dtype = 'int32', frame = frame, where = 'a.lua:1' }
    end
    assert.are.same({
      'saved      h                                      empty           0 B  int32  while:1/in and 1 more  a.lua:1',
      'saved      h                                   5 of 5            20 B  int32  while                  a.lua:1',
    }, lines(listing.stacks{ stack('h', 0, 'while:1/in'), stack('h', 0, 'while:2/in'), stack('h', 5, 'while') }))
  end)
end)

describe('a session as a script', function()
  local function saved(...)
    local inputs = {}
    for i, text in ipairs{ ... } do
      local kind = load('return ' .. text) and 'expression' or 'statement'
      inputs[i] = { ok = true, number = i, text = text, kind = kind, n = kind == 'expression' and 1 or 0, muted = text:find(';%s*$') ~= nil }
    end
    local text = script.of(inputs, 'test')
    assert.is_truthy(load((text:gsub('^#[^\n]*', ''))), text)
    return (text:gsub('^.-\n\n', ''))
  end

  it('shows what was shown, keeps what was muted', function()
    assert.are.equal('show(1 + 1)\nkeep(_ * 2)\nshow(x -- y\n)\n', saved('1 + 1', '_ * 2;', 'x -- y'))
    assert.are.equal('Out = {}\nshow(6)\nOut[1] = _\nshow(Out[1])\nOut[2] = _\n', saved('6', 'Out[1]'))
  end)

  it('shows what was returned, for a script goes on after it', function()
    assert.are.equal('local a = 1 show(a)\nif a then return end\n', saved('local a = 1 return a;', 'if a then return end'))
  end)

  it('declares a local once, and none that was mentioned before', function()
    assert.are.equal('local a = 1\na = a + 1\nfunction f() return g() end\nfunction g() return t.b end\nlocal b\na, c = 1, 2\nd = 3\nd = nil\n',
      saved('local a = 1', 'local a = a + 1', 'function f() return g() end', 'local function g() return t.b end', 'local b', 'local a, c = 1, 2',
        'd = 3', 'local d'))
  end)

  it('has room for any number of locals, and no line is taken for a call of the one before', function()
    local inputs = {}
    for i = 1, 300 do inputs[i] = ('local v%d = %d'):format(i, i) end
    inputs[#inputs + 1] = '(print or error)()\nx = 1'
    assert.is_truthy(saved(unpack(inputs)):find('v300 = 300\n;(print', 1, true))
  end)
end)

describe('an input', function()
  it('is complete when the parser says so', function()
    for _, whole in ipairs{ '1 + 1', 'x = 1', 'for i = 1, 2 do end', '= 3', ')', 'x = "open', '?matmul', ':help', 'return 1', '', 'x:shape' } do
      assert.is_true(session.complete(whole), whole)
    end
    for _, part in ipairs{ '1 +', 'for i = 1, 2 do', 'f(', 'x = [[', 'if a then b() else', 'function f()', 'x = {', '--[[', 'x = 1\nx:shape' } do
      assert.is_false(session.complete(part), part)
    end
  end)

  it('leaves its values in _, __ and Out', function()
    local function call(f) return true, f() end
    local first = session.run('6 * 7', call)
    local second = session.run('_ + 1;', call)
    assert.are.equal(43, rawget(_G, '_'))
    assert.are.equal(42, rawget(_G, '__'))
    assert.are.equal(42, session.Out[first.number])
    assert.is_true(second.muted)
    assert.is_false(first.muted)
    _G._, _G.__ = nil, nil
  end)
end)

local function buffer_of(source)
  local b = editor.new{ values = values }
  b.replace(0, 0, source)
  return b.buffer
end

describe('colours', function()
  local function styles(source)
    local b = buffer_of(source)
    local out = {}
    for i = 0, #b.lines - 1 do out[i + 1] = b.style(i) end
    return table.concat(out, '\n')
  end

  it('tell what each byte is', function()
    assert.are.equal('kkkkk n o dd cccc', styles('local x = 12 -- c'))
    assert.are.equal('bbbbbosssso', styles('print("hi")'))
  end)

  it('warn of names that are not there, and of ops that df has not', function()
    assert.are.equal('bbbbbowwwwwwwo', styles('print(nowhere)'))
    assert.are.equal('bboffffffobbowwwwwwo', styles('df.matmul(df.matmol)'):gsub(' ', ''))
    assert.are.equal('kkkkkkkk nonono kkkkkk n o n kkk', styles('function f(a,b) return a + b end'))
    assert.are.equal('ssssofffossso', styles([["%d":rep("3"  )]]):gsub(' ', ''))
  end)

  it('of a line do not change what others are', function()
    local b = buffer_of('x = [[\nlocal\n]] y = 1')
    assert.are.equal('sssss', b.style(1))
    b.replace(0, 1, 'x = 2')
    assert.are.equal('kkkkk', b.style(1))
    b.replace(1, 1, 'a\nb\nc')
    assert.are.equal(5, #b.lines)
    assert.are.equal('x = 2\na\nb\nc\n]] y = 1', b.text())
    b.replace(1, 3, '')
    assert.are.equal('x = 2\n\n]] y = 1', b.text())
  end)

  it('take a few thousand instructions of Lua for a key in 200 lines', function()
    local lines = {}
    for i = 1, 200 do lines[i] = ('local v%d = df.matmul(x, {transpose_b = true}) + "s" -- %d'):format(i % 90, i) end
    local b = buffer_of(table.concat(lines, '\n'))
    local effort = support.effort(function()
      for i = 1, 20 do
        b.replace(100, 1, lines[101] .. ('x'):rep(i))
        for line = 90, 130 do b.style(line, nil) end
        b.brackets(100, 20)
      end
    end)
    assert.is_true(effort > 1 and effort / 20 < 9, effort / 20)
  end)

  it('mark the bracket that belongs to the one at the cursor', function()
    local b = buffer_of('f(a, {\n  1, "}"\n})')
    assert.are.same({ 2, 1, 0, 1 }, { b.brackets(2, 2) })
    assert.are.same({ 0, 5, 2, 0 }, { b.brackets(0, 6) })
  end)
end)

describe('Enter', function()
  local function enter(source)
    local b = editor.new{ values = values }
    b.replace(0, 0, source)
    local line = #b.buffer.lines - 1
    return b.enter(line, #b.buffer.lines[line + 1].text)
  end

  it('indents what is open', function()
    assert.are.equal('\n  ', enter('for i = 1, 2 do'))
    assert.are.equal('\n    ', enter('for i = 1, 2 do\n  if x then'))
    assert.are.equal('\n  ', enter('x = {\n  a = 1,'))
    assert.are.equal('\n  ', enter('f(function()'))
  end)

  it('moves a closing word to where its block begins', function()
    local more, indent = enter('for i = 1, 2 do\n  if x then\n    y()\n    end')
    assert.are.equal('\n  ', more)
    assert.are.equal(2, indent)
    more, indent = enter('if x then\n  y()\n  else')
    assert.are.equal('\n  ', more)
    assert.are.equal(0, indent)
  end)
end)

describe('the journal of a session', function()
  it('gives back each input whole, with the time that it took, but none that was cut off', function()
    local text = '--[[ input, 0.00 s ]]\nx = 1\n--[[ input, 12.50 s ]]\nfor i = 1, 2 do\n-- a comment\n  x = x * 2\nend\n--[[ input, 0.10 s ]]\nhalf ='
    local inputs = session.journal.parse(text .. ' 1\n')
    assert.are.same({ { text = 'x = 1', seconds = 0 }, { text = 'for i = 1, 2 do\n-- a comment\n  x = x * 2\nend', seconds = 12.5 },
                      { text = 'half = 1', seconds = 0.1 } }, inputs)
    inputs = session.journal.parse(text)
    assert.are.equal(2, #inputs)
  end)
end)

describe('a paste', function()
  local function inputs(text) return editor.inputs(text, 80) end

  it('of a session is its inputs, without prompts and answers', function()
    assert.are.same({ 'x = 1', 'x', 'function f()\n  return x\nend', 'f()' },
      inputs('dflow> x = 1\ndflow> x\n1\ndflow> function f()\n   ...   return x\n   ... end\ndflow> f()\n1\ndflow>'))
    assert.are.same({ 'x = {\n1}', 'y = 2' }, inputs('> x = {\n>> 1}\n> y = 2\n'))
    assert.are.same({ 'f(\n1)' }, inputs('>> f(\n>> 1)'))
    assert.are.same({ 'f(\n1)', 'x' }, inputs('(ins)dflow> f(\n        ... 1)\n(cmd)dflow> x'))
  end)

  it('of anything else stays as it is', function()
    for _, text in ipairs{ '1 > 0', 'a\n> b', 'if x then\n  y = 1\nend', '-- so:\n--[[\ndflow> x\n]]' } do assert.are.same({ text }, inputs(text)) end
  end)

  it('may begin behind the first prompt', function()
    assert.are.same({ 'x = 1', 'x + 1' }, inputs('x = 1\ndflow> x + 1\n2'))
  end)

  it('leaves out what Ctrl-C ended, and what was asked of a paused run', function()
    assert.are.same({ 'x = 1', 'y = 2' }, inputs('dflow> half a line^C\ndflow> x = 1\npaused> :frames\ntop level\npaused> f(\n    ... 1)\ndflow> y = 2'))
    assert.are.same({ 'y = 2^C' }, inputs('dflow> y = 2^C'))
  end)

  it('puts the rows of a line together that was wider than its window', function()
    local long = 'x = f(' .. ('a, '):rep(23) .. 'bcd, e)'           -- 72 columns have room beside the prompt
    assert.are.same({ long, 'x' }, inputs('dflow> ' .. long:sub(1, 72) .. '\n       ' .. long:sub(73) .. '\ndflow> x'))
    assert.are.same({ 'f(a, b)' }, inputs('dflow> f(a,\n       b)\n       [ an answer ]'))
  end)

  it('marks the lines that begin an input, and they stay marked while one edits', function()
    local e = editor.new{ values = values }
    e.replace(0, 0, '')
    e.replace(0, 1, e.paste('dflow> x = 1\ndflow> if x then\n   ... y = 2\n   ... end\ndflow> y\n2', 80))
    e.pasted()
    local function marks()
      local list = {}
      for i = 0, 5 do list[i + 1] = select(2, e.style(i)) and 'b' or '-' end
      return table.concat(list)
    end
    assert.are.equal('-b--b-', marks())
    e.replace(1, 1, 'if x == 1 then')               -- edited
    e.replace(2, 1, '  y = 2\n  z = 3')              -- split
    assert.are.equal('-b---b', marks())
    local more, _, lines = e.enter(5, 1)
    assert.is_nil(more)
    assert.are.equal(1, lines)
    assert.are.same({ 'if x == 1 then\n  y = 2\n  z = 3\nend', 'y' }, e.waiting)
    e.replace(0, 2, 'x = 1 if x == 1 then')         -- joined
    assert.are.equal('----b-', marks())
    e.recalled()
    assert.are.equal('------', marks())
  end)

  it('into a text that is there already is part of it', function()
    local e = editor.new{ values = values }
    e.replace(0, 0, 'do')
    e.replace(0, 1, 'do ' .. e.paste('dflow> x = 1\ndflow> y = 2', 80))
    e.pasted()
    assert.is_false((select(2, e.style(1))))
  end)
end)

describe('hints', function()
  local function hint(source)
    local b = buffer_of(source)
    local line = #b.lines - 1
    local shown, styles = hints.hint(b, line, #b.lines[line + 1].text, 200, session.locals)
    local first = styles and styles:find('H')
    return shown, first and shown:sub(first, styles:find('[^H]', first) and styles:find('[^H]', first) - 1 or #shown)
  end

  it('show the signature and the argument that one is at', function()
    local shown, current = hint('df.matmul(x, ')
    assert.are.equal('df.matmul(a, b, {transpose_a = false, transpose_b = false})', shown)
    assert.are.equal('b', current)
    assert.are.equal('a', (select(2, hint('df.matmul('))))
    assert.are.equal('transpose_b = false', (select(2, hint('df.matmul(x, y, {transpose_a = true, transpose_b = '))))
  end)

  it('know methods, Lua’s own functions and yours', function()
    assert.are.equal('x:matmul(b, {transpose_a = false, transpose_b = false})', (hint('x:matmul(')))
    assert.are.equal('string.format(form, ...)', (hint('string.format("%d", ')))
    rawset(_G, 'my_function', function(alpha, beta) return alpha, beta end)
    local shown, current = hint('my_function(f(1, 2), ')
    rawset(_G, 'my_function', nil)
    if rawget(_G, 'jit') and not shown then return end
    assert.are.equal('my_function(alpha, beta)', shown)
    assert.are.equal('beta', current)
  end)

  it('are silent inside a block, a definition and a finished call', function()
    assert.is_nil((hint('df.matmul(function() ')))
    assert.is_nil((hint('function matmul(')))
    assert.is_nil((hint('df.matmul(a, b)')))
  end)
end)

describe('completion', function()
  local function at(source, folder)
    local b = buffer_of(source)
    local line = #b.lines - 1
    local from, list = complete.at(b, line, #b.lines[line + 1].text, { locals = session.locals, folder = folder })
    local names = {}
    for i, c in ipairs(list) do
      names[i] = c.text
      names[c.text] = type(c.about) == 'function' and c.about() or c.about
    end
    return names, from
  end

  it('finds globals, keywords and what the input declares', function()
    local names = at('local tolerance = 1 pr(to')
    assert.is_truthy(names.tolerance and names.tostring and names.tonumber)
    assert.is_truthy(at('whi')['while'] and at('string.for').format)
  end)

  it('has options first, then names in order, those of the input among them', function()
    for _, source in ipairs{ 'local zeta, alpha, omega = 1 ', 'local zzz = 1 local aaa = zzz + ', 'local zz = 1 df.matmul(a, b, { ', 'local z9 = df.reduce_sum(x, { axis = ' } do
      local last
      for _, name in ipairs((at(source))) do
        if not name:find ' = $' then
          assert.is_true(not last or last <= name, ('%s: %s comes behind %s'):format(source, name, tostring(last)))
          last = name
        else assert.is_nil(last, source) end
      end
      assert.is_truthy(last)
    end
  end)

  it('finds fields and methods without calling anything', function()
    local called = false
    rawset(_G, 'trap', setmetatable({ known = 1 }, { __index = function() called = true end, __len = error, __pairs = error }))
    assert.is_truthy(at('trap.kn').known)
    at('trap.unknown.x')
    rawset(_G, 'trap', nil)
    assert.is_false(called)
  end)

  it('finds ops, and methods of outputs and tensors', function()
    assert.is_truthy(at('df.reduce_').reduce_sum:find('sum'))
    rawset(_G, 'some_output', df.float32{ 1, 2 })
    rawset(_G, 'some_tensor', df.tensor{ 1, 2 })
    assert.is_truthy(at('some_output:mat').matmul)
    assert.is_truthy(at('some_output.sh').shape)
    assert.is_truthy(at('some_tensor:tot').totable)
    assert.is_nil(at('some_tensor:mat').matmul)
    rawset(_G, 'some_output', nil)
    rawset(_G, 'some_tensor', nil)
    assert.is_truthy(at('f(x):mat').matmul)
  end)

  it('finds the methods of what a call gives, where that is known, without calling it', function()
    assert.is_truthy(at('df.data.pipeline(df.tensor{1, (2)}):sh').shuffle)
    assert.is_nil(at('df.data.pipeline(x):').matmul)
    assert.is_truthy(at('df.data.pipeline(x):shuffle(f(3)):batch(2, {drop_remainder = true}):pre').prefetch)
    assert.is_truthy(at('local p = df.data.pipeline{x, y}\n  :map(function(a) return (a) end)\n  :ba').batch)
    assert.is_truthy(at('df.train.Saver{max_to_keep = 3}:la').latest)
    assert.is_truthy(at('df.train.Adam(1e-3):mini').minimize)
    assert.is_truthy(at('df.Session():r').run)
    assert.is_truthy(at('df.data.pipeline(x):each():').matmul)          -- what is not known is taken for an Output
    assert.is_truthy(at('):mat').matmul)
  end)

  it('finds the options of the function one is calling', function()
    local names = at('while_loop(p, b, v, {par')
    assert.are.same({ 'parallel_iterations = ' }, { names[1], names[2] })
    assert.is_truthy(names['parallel_iterations = ']:find('32'))
    assert.is_truthy(at('x:reduce_sum{kee')['keep_dims = '])
  end)

  it('finds dtypes, devices, nodes and files in strings', function()
    assert.is_truthy(at('df.cast(x, "fl').float32)
    assert.is_truthy(at('df.device("c')['cpu:0'])
    df.reset()
    df.placeholder('float32', {}, 'the_input')
    assert.is_truthy(at('df.default_graph():op("the').the_input)
    assert.is_truthy(at('df.default_graph():output("the')['the_input:0'])
    local names = at('df.load_npy("data/x', function(path) return path == 'data/' and { 'xs.npy', 'y.npy', 'xdir/' } or nil end)
    assert.are.same({ 'data/xdir/', 'data/xs.npy' }, { names[1], names[2], names[3] })
    assert.are.same({ 'swap' }, { at('while_loop(p, b, v, {save = "s')[1] })
  end)

  it('says nothing in comments and numbers', function()
    assert.are.equal(0, #at('-- pri'))
  end)
end)

describe('values at the prompt', function()
  it('are tables with a depth, and cycles marked', function()
    local t = { 1, 'two', { 3 }, name = 'x' }
    t.self = t
    assert.are.equal('{1, "two", {3}, name = "x", self = <cycle>}', values.text(t))
    assert.are.equal('{{{{{…}}}}}', values.text{ { { { { 1 } } } } })
  end)

  it('are never asked for what they have not, as tables', function()
    assert.are.equal('{1}', values.text(setmetatable({ 1 }, { __index = function() error('called') end, __len = function() error('called') end })))
  end)

  it('are outputs with shape, op and line, and their value where nothing forbids it', function()
    local shown = values.text(df.float32{ 1, 2 } * 2)
    assert.is_truthy(shown:find('^Mul:0: float32%[2%] = Mul%(Const:0, Const_1:0%)  %-%- .*repl_spec%.lua:%d+\n%[2%. 4%.%] float32%[2%]$'), shown)
    assert.is_nil(values.text(df.placeholder('float32', {})):find('\n'))
    local v = df.Variable(0.0)
    assert.equal('it happens in a run that fetches it: df.run(_)', values.text(v:assign_add(1)):match '\n(.*)$')
  end)

  it('are operations and effects, of which it says that they have not happened', function()
    local v, q = df.Variable(2.0), df.FIFOQueue(3, 'float32')
    for _, effect in ipairs{ v:assign(3), v:assign_add(1), q:enqueue(1), df.train.SGD(0.1):minimize(v * v) } do
      assert.equal('it happens in a run that fetches it: df.run(_)', values.text(effect):match '\n(.*)$')
    end
    assert.equal(2, df.run(v))
    assert.matches('^Add = Add%(Const_?%d*:0, Const_%d+:0%)  %-%- [^\n]*$', values.text((df.float32{ 1 } + 1).op))
  end)

  it('are variables with the value that they have, or will begin with where that is known', function()
    local v, w, drawn = df.Variable(2.5), df.Variable(df.zeros{ 2 } + 1), df.Variable(df.random_normal{ 2 })
    assert.matches('^Variable: variable float32%[%]  %-%- [^\n]*\n2.5 float32%[%]  %-%- begins so', values.text(v))
    assert.matches('\n%[1%. 1%.%] float32%[2%]  %-%- begins so', values.text(w))
    assert.is_nil(values.text(drawn):find '\n')                                -- what it draws is not known before
    df.run{ v:assign(7), w:assign{ 3, 4 }, drawn }
    assert.matches('\n7.0 float32%[%]$', values.text(v))
    assert.matches('\n%[3%. 4%.%] float32%[2%]$', values.text(w))
    assert.matches('\n%[[^\n]*%] float32%[2%]$', values.text(drawn))
    assert.matches('^{Variable: variable [^\n]*}$', values.text{ v })
  end)

  it('are texts in quotes, so that no terminal obeys them', function()
    local o = df.constant 'a\27[31mb'
    assert.matches('\n"a\\27[31mb" string[]', values.text(o), 1, true)
    assert.matches('\n"a\\27[31mb" string[]  -- begins so', values.text(df.Variable(o)), 1, true)
  end)

  it('are variables whose first value is not computed for looking at it where that is much', function()
    local twice = df.float32{ 1 }
    for _ = 1, 60 do twice = twice + twice end                                 -- as many ways through it as 2^60
    assert.matches('begins so', values.text(df.Variable(twice)), 1, true)
    for _ = 1, 60 do twice = twice + twice end
    assert.is_nil(values.text(df.Variable(twice)):find '\n')
    assert.is_nil(values.text(df.Variable(df.zeros{ 1001, 1000 })):find '\n')
    local counted = df.while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, { df.int32(0) })
    assert.is_nil(values.text(df.Variable(counted)):find '\n')
    assert.matches('begins so', values.text(df.Variable(df.zeros{ 1000, 1000 })), 1, true)
  end)

  it('are large tensors as corners, and a line of what they hold', function()
    local flat = {}
    for i = 1, 1200 do flat[i] = i end
    flat[7], flat[8] = 0 / 0, math.huge
    local shown = values.text(df.tensor(flat, 'float32', { 30, 40 }))
    assert.is_truthy(shown:find('%.%.%.'))
    local line = shown:match('\n(float32%[30,40%][^\n]*)$')
    local sd = line and line:match 'min 1  mean 601%.5  sd (%S+)  max 1200  1 nan  1 inf'
    local squares = 0
    for i = 1, 1200 do squares = squares + (i ~= 7 and i ~= 8 and (i - 720585 / 1198) ^ 2 or 0) end
    assert.is_true(math.abs(tonumber(sd or 0) - math.sqrt(squares / 1198)) < 0.1, shown)
    assert.is_nil(shown:find('1200%.%D.*1200%.%D.*1200%.'))
  end)

  it('are lines no wider than they may be', function()
    local flat = {}
    for i = 1, 500 do flat[i] = i end
    local width = text.options.width
    text.options.width = 60
    local shown = tostring(df.tensor(flat, 'int32'))
    text.options.width = width
    for line in shown:gmatch('[^\n]+') do assert.is_true(#line <= 60 + #' int32[500]', line) end
    assert.is_truthy(shown:find('\n '))
  end)

  it('have a histogram of bars, in ASCII too', function()
    assert.are.equal('▁█ ▄', text.sparkline({ 1, 8, 0, 4 }))
    assert.are.equal('.@ =', text.sparkline({ 1, 8, 0, 4 }, true))
  end)
end)
