-- The tokens of a line, as the prompt colours and completes them, and errors quote them: Lua itself says what is a token.
local lexer = require 'dflow.front.lexer'
local shell = require 'spec.shell'
local load = loadstring or load

local texts = {
  '0x1p 2', '0x1p*2', '0x1P)',
  '0x1p-4 + 0xA.8P+2 - 0x.8p1', '0x1p', '0x1p+ 2', '0x1p-x', '0xfg', '0x', '1e-5 1E+10 1e 1e+ .5 5. 1.2.3 3LL 0xffULL 7ull 12abc', '1..2', 'a.b:c[1].d',
  '"a\\"b" \'c\\\'d\' "open', "'x' .. [[long]] .. [==[ ]] ]==] y", 'x --[[ in a line ]] y -- to the end', '--[==[ of', ' several ]] lines ]==] z',
  '[[ a', 'b ]] c', '"cut \\', 'and goes on"', '"\\z', '  more"', '"\\x41\\065\\u{48}\\q"', '"\\', '~= == <= >= << >> // :: ... .. . : ; , ~ ! @ $ ?', 'goto done ::done:: break',
  'local function f(a, ...) return -a ^ 2 // 3 % 4 & 5 | 6 ~ 7 end', 'x = {1, [2] = 3; y = 4}', 'if not (a and b or nil) then elseif true else false end', '\tx\t=\t1 ', '',
  'ä = ö', '-', '--', '---', '-- [[ no ]]', '--[x[ no', '[', '[=', '[=x', 'x<y', 'x<const>', '\255', 'end end',
}
local KEYWORDS = {}
for word in ('and break do else elseif end for function goto if in local not or repeat return then until while'):gmatch '%a+' do KEYWORDS[word] = 'keyword' end
for word in ('nil true false'):gmatch '%a+' do KEYWORDS[word] = 'constant' end
local OPERATORS = {}
for word in ('... .. . == = ~= ~ <= << < >= >> > // / :: : + - * % ^ # & | ( ) { } [ ] ; ,'):gmatch '%S+' do OPERATORS[word] = true end

--- The source files of the library: lists of lines.
local function sources()
  local list = {}
  for path in shell.run('find stdlib -name "*.lua" | LC_ALL=C sort').out:gmatch '[^\n]+' do list[#list + 1] = shell.read(path) end
  return list
end

--- The tokens of a text, line by line, with what each line inherits: {kind, text} each, and what stays open.
local function by_lines(text)
  local list, state = {}, nil
  for line in (text .. '\n'):gmatch '([^\n]*)\n' do
    local kinds, firsts, lasts, open = lexer.line(line, state)
    local at = 1
    for i, kind in ipairs(kinds) do
      assert.is_true(firsts[i] >= at and lasts[i] >= firsts[i], line)
      assert.matches('^[ \t\r\v\f]*$', line:sub(at, firsts[i] - 1))                 -- nothing but blanks is between them
      list[#list + 1], at = { kind, line:sub(firsts[i], lasts[i]), first = state ~= nil and i == 1 }, lasts[i] + 1
    end
    assert.matches('^[ \t\r\v\f]*$', line:sub(at))
    state = open
  end
  return list, state
end

describe('the tokens of a line', function()
  it('are of the kind that their text says, whole, and nothing is between them', function()
    for _, text in ipairs(texts) do
      for _, t in ipairs((by_lines(text))) do
        local kind, word = t[1], t[2]
        if kind == 'name' or kind == 'keyword' or kind == 'constant' then
          assert.matches('^[%a_][%w_]*$', word)
          assert.equal(KEYWORDS[word] or 'name', kind, text)
        elseif kind == 'op' then assert.is_true(OPERATORS[word], word)
        elseif kind == 'comment' then assert.equal('--', word:sub(1, 2))
        elseif kind == 'string' then assert.matches('^["\'%[]', word)
        elseif kind == 'error' then assert.is_falsy(word:find '^[%a_]', word) end
      end
    end
  end)

  it('are the longest operators, as Lua reads them', function()
    local list = by_lines '~= == <= >= << >> // :: ... .. . : ; , ~ a...b a..b a::b 1//2 a.b'
    local words = {}
    for i, t in ipairs(list) do words[i] = t[2] end
    assert.equal('~= == <= >= << >> // :: ... .. . : ; , ~ a ... b a .. b a :: b 1 // 2 a . b', table.concat(words, ' '))
  end)

  it('are numbers where Lua takes them for numbers, and errors where it does not', function()
    for word in ('0 7 12 1.5 .5 5. 1e5 1e-5 1E+10 0x1p-4 0xA.8P+2 0x.8p1 0x1p 0xff 0xFg 0x 0x1p+ 1e 1e+ 1.2.3 12abc 3x 1..2 1e5e 0x1p4p 08 1_000'):gmatch '%S+' do
      local list = by_lines(word)
      local is_number = load('return ' .. word) ~= nil
      assert.equal(is_number and 'number' or 'error', list[1][1], word)
      assert.equal(1, #list, word)
    end
    for _, word in ipairs{ '3LL', '0xffULL', '7ull' } do assert.equal('number', by_lines(word)[1][1]) end       -- LuaJIT's
    for text, first in pairs{ ['0x1p-4+2'] = '0x1p-4', ['1e+5-2'] = '1e+5', ['1-2'] = '1', ['0x1p*2'] = '0x1p', ['0x1P)'] = '0x1P' } do
      assert.equal(first, by_lines(text)[1][2])
    end
  end)

  it('are strings that Lua takes for strings, with what is escaped in them', function()
    for _, word in ipairs{ '"a"', "'a'", '""', '"a\\"b"', "'c\\'d'", '"\\\\"', '"\\x41\\065"', '[[long]]', '[[]]', '[==[ ]] ]==]', '[=[a]==]=]' } do
      local list = by_lines(word .. ' x')
      assert.equal(2, #list, word)
      assert.same({ 'string', word }, { list[1][1], list[1][2] })
      assert.is_truthy(load('return ' .. word), word)
    end
    for _, word in ipairs{ '"open', "'open", '"a\\"' } do assert.equal('error', by_lines(word)[1][1], word) end
    for _, word in ipairs{ '!', '@', '$', '?', '\255', 'ä', '`' } do assert.equal('error', by_lines(word)[1][1], word) end
  end)

  it('leave open what goes on in the next line, until it ends there', function()
    for _, case in ipairs{ { '[[ a', 'b ]] c', 'string' }, { '--[==[ of', ' several ]] lines ]==] c', 'comment' }, { '"cut \\', 'and goes on" c', 'string' },
                           { "'cut \\", "on' c", 'string' }, { '"\\z', '  more" c', 'string' }, { '[=[', ']] ]=]c', 'string' }, { '"\\z  ', 'x"c', 'string' } } do
      local kinds, _, lasts, open = lexer.line(case[1])
      assert.equal(case[3], kinds[#kinds], case[1])
      assert.equal(#case[1], lasts[#lasts])
      assert.is_truthy(open, case[1])
      local still = select(4, lexer.line(case[3] == 'string' and not case[1]:find '^%[' and 'more \\' or 'more', open))
      assert.equal(open, still)
      kinds, _, lasts, still = lexer.line(case[2], open)
      assert.same({ case[3], 'name' }, kinds)
      assert.equal('c', case[2]:sub(lasts[1] + 1):match '%S+')
      assert.is_nil(still)
    end
    for _, text in ipairs{ '-- [[ no ]]', '--[x[ no', '--', '---', 'x', '', '[=x', '--[[ a ]]' } do assert.is_nil(select(4, lexer.line(text)), text) end
    assert.equal('error', lexer.line('and breaks off', select(4, lexer.line '"cut \\'))[1])
  end)

  it('are the same program as the text: of all sources of the library', function()
    for _, text in ipairs(sources()) do
      local parts, line = {}, 1
      for _, t in ipairs(lexer.tokens(text)) do
        if t.kind == 'error' then error(t.text) end
        if t.kind ~= 'comment' then
          parts[#parts + 1] = t.line > line and ('\n'):rep(t.line - line) or ' '        -- each on its line, and a long string in its pieces
          parts[#parts + 1], line = t.text, t.line
        end
      end
      local again = assert(load(table.concat(parts), '=a'))
      if not rawget(_G, 'jit') then            -- LuaJIT writes the keys of a table in any order
        assert.is_true(string.dump(load(text, '=a'), true) == string.dump(again, true), text:sub(1, 80))
      end
    end
  end)

  it('of many lines have their places in all of it', function()
    local all = table.concat(texts, '\n')
    local list, last, line, at = lexer.tokens(all), 0, 1, 1
    local single = by_lines(all)
    assert.equal(#single, #list)
    for i, t in ipairs(list) do
      assert.is_true(t.first > last and t.last >= t.first)
      assert.equal(t.text, all:sub(t.first, t.last))
      line = line + select(2, all:sub(at, t.first - 1):gsub('\n', ''))
      assert.equal(line, t.line)
      assert.same({ single[i][1], single[i][2] }, { t.kind, t.text })
      last, at = t.last, t.first
    end
  end)
end)
