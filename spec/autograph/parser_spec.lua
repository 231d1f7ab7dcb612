--- The parser of Lua and what is rewritten by it: places, variables, messages; and rewritten programs on Lua's values alone.
local autograph = require 'dflow.autograph'
local parser = require 'dflow.autograph.parser'
local loads = rawget(_G, 'loadstring') or load

local function read(path)
  return require('spec.shell').read(path)
end

local FILES = {}
for name in ('autograph/parser autograph/runtime front/lexer front/functional check/conditions')
  :gmatch '%S+' do
  local path = 'stdlib/dflow/' .. name .. '.lua'
  local file = io.open(path)
  if file then
    FILES[#FILES + 1] = path
    file:close()
  end
end

--- All of a tree that two parsers must agree on, as text.
local function dump(v, seen)
  if type(v) ~= 'table' then return tostring(v) end
  if seen[v] then return '^' end
  seen[v] = true
  local keys, out = {}, {}
  for k in pairs(v) do if type(k) == 'string' or type(k) == 'number' then keys[#keys + 1] = k end end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, k in ipairs(keys) do
    if k ~= 'text' and k ~= 'tokens' and k ~= 'outer' and k ~= 'scope' then out[#out + 1] = tostring(k) .. '=' .. dump(v[k], seen) end
  end
  return '{' .. table.concat(out, ' ') .. '}'
end

describe('the parser', function()
  it('reads what Lua reads, with the place of everything', function()
    local tree = assert(parser.parse('local a <const>, b = 1, f"x" .. [[\n]]\nreturn a // 2 ~ ~b, function(...) goto x ::x:: return ... end'))
    local first, last = tree.body[1], tree.body[2]
    assert.equal('local', first.kind)
    assert.equal('const', first.vars[1].attribute)
    assert.equal(first.vars[1], last.values[1].left.left.var)
    assert.equal('binary', last.values[1].kind)
    assert.equal('~', last.values[1].op)
    assert.equal('a // 2 ~ ~b', tree.text:sub(last.values[1].first, last.values[1].last))
    assert.equal(3, last.line)
    assert.equal('function(...) goto x ::x:: return ... end', tree.text:sub(last.values[2].first, last.values[2].last))
    for _, path in ipairs(FILES) do assert(parser.parse(read(path)), path) end
  end)

  it('knows how operators bind', function()
    local function shape(e)
      if e.kind == 'binary' then return '(' .. shape(e.left) .. e.op .. shape(e.right) .. ')' end
      if e.kind == 'unary' then return '(' .. e.op .. ' ' .. shape(e.operand) .. ')' end
      return e.name or e.text
    end
    for text, expected in pairs{
      ['a or b and c'] = '(a or (b and c))', ['-a ^ b ^ c'] = '(- (a^(b^c)))', ['a .. b .. c + d'] = '(a..(b..(c+d)))', ['not a == b'] = '((not  a)==b)',
      ['a < b == c'] = '((a<b)==c)', ['a + b * c - d'] = '((a+(b*c))-d)', ['a | b ~ c & d << e'] = '(a|(b~(c&(d<<e))))', ['2 ^ -a'] = '(2^(- a))',
    } do
      assert.equal((expected:gsub(' ', '')), (shape(parser.parse('return ' .. text).body[1].values[1]):gsub(' ', '')), text)
    end
  end)

  it("gives up where Lua does, with Lua's words", function()
    for text, expected in pairs{
      ['x = = 3'] = "unexpected symbol near '='", ['if x then'] = "'end' expected near '<eof>'", ['f('] = "unexpected symbol near '<eof>'",
      ['x'] = "syntax error near '<eof>'", ['local 3'] = "<name> expected near '3'", ['for i = 1 do end'] = "',' expected near 'do'",
      ['x = "a'] = "unfinished string near '\"a'", ['return 1 2'] = "'<eof>' expected near '2'", ['local a <const> = 1 a = 2'] = "attempt to assign to const variable 'a'",
      ['while x do\n\n('] = "unexpected symbol near '<eof>'", ['--[[ x'] = 'unfinished long comment',
    } do
      local tree, why = parser.parse(text)
      assert.is_nil(tree)
      assert.equal(expected, why)
    end
    local _, why, line = parser.parse('while x do\n\nx = 1')
    assert.equal("'end' expected (to close 'while' at line 1) near '<eof>'", why)
    assert.equal(3, line)
    assert.is_nil(parser.parse('x = ' .. ('('):rep(500) .. (')'):rep(500)))
  end)
end)

describe('a rewritten text', function()
  it('has every line where it was, and compiles', function()
    for _, path in ipairs(FILES) do
      local text = read(path)
      local made = assert(autograph.chunk(text), path)
      assert(loads(made, '@' .. path))
      assert.equal(select(2, text:gsub('\n', '')), select(2, made:gsub('\n', '')), path)
    end
  end)

  it("means the same on Lua's values: a rewritten parser reads what the parser reads", function()
    local rewritten = assert(loads(assert(autograph.chunk(read 'stdlib/dflow/autograph/parser.lua')), '=parser'))()
    for _, path in ipairs{ 'stdlib/dflow/autograph/flow.lua' } do
      local text = read(path)
      assert.is_true(dump(parser.parse(text), {}) == dump(rewritten.parse(text), {}), path)
    end
    assert.same({ parser.parse 'x = = 3' }, { rewritten.parse 'x = = 3' })
  end)
end)
