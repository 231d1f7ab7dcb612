-- The tokens of a line, as the prompt colours and completes them, and errors quote them: each kind, where it begins and where it ends.
local lexer = require 'dflow.front.lexer'
local pages = require 'spec.pages'

local texts = {
  '0x1p 2', '0x1p*2', '0x1P)',
  '0x1p-4 + 0xA.8P+2 - 0x.8p1', '0x1p', '0x1p+ 2', '0x1p-x', '0xfg', '0x', '1e-5 1E+10 1e 1e+ .5 5. 1.2.3 3LL 0xffULL 7ull 12abc', '1..2', 'a.b:c[1].d',
  '"a\\"b" \'c\\\'d\' "open', "'x' .. [[long]] .. [==[ ]] ]==] y", 'x --[[ in a line ]] y -- to the end', '--[==[ of', ' several ]] lines ]==] z',
  '[[ a', 'b ]] c', '"cut \\', 'and goes on"', '"\\z', '  more"', '"\\x41\\065\\u{48}\\q"', '"\\', '~= == <= >= << >> // :: ... .. . : ; , ~ ! @ $ ?', 'goto done ::done:: break',
  'local function f(a, ...) return -a ^ 2 // 3 % 4 & 5 | 6 ~ 7 end', 'x = {1, [2] = 3; y = 4}', 'if not (a and b or nil) then elseif true else false end', '\tx\t=\t1 ', '',
  'ä = ö', '-', '--', '---', '-- [[ no ]]', '--[x[ no', '[', '[=', '[=x', 'x<y', 'x<const>', '\255', 'end end',
}

describe('the tokens of a line', function()
  it('are what they were', function()
    local out = {}
    for _, text in ipairs(texts) do
      local state
      for _ = 1, 2 do                                     -- and of the same line behind what it leaves open
        local kinds, firsts, lasts, open = lexer.line(text, state)
        local list = {}
        for i, kind in ipairs(kinds) do list[i] = ('%s %d-%d %s'):format(kind, firsts[i], lasts[i], text:sub(firsts[i], lasts[i])) end
        local left = {}
        for key, v in pairs(type(open) == 'table' and open or { open }) do left[#left + 1] = ('%s=%s'):format(tostring(key), tostring(v)) end
        table.sort(left)
        out[#out + 1] = ('%s\n  %s%s'):format(text, table.concat(list, '; '), #left > 0 and '; open: ' .. table.concat(left, ' ') or '')
        state = open
      end
    end
    pages.section('tokens.txt', 'tokens', table.concat(out, '\n'))
  end)

  it('of many lines have their places in all of it', function()
    local out = {}
    for _, t in ipairs(lexer.tokens(table.concat(texts, '\n'))) do
      out[#out + 1] = ('%s %d:%d-%d %s'):format(t.kind, t.line, t.first, t.last, pages.sum(t.text))
    end
    pages.section('tokens.txt', 'tokens of many lines', pages.sum(table.concat(out, '\n')))
  end)
end)
