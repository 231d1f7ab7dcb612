--- Patterns of RE2's syntax: what they match, and what replaces that. The results are TensorFlow's.
local df = require 'dflow'
local fails = require('spec.support').error_of

--- Pattern, rewrite, text, the text with all matches replaced, and whether all of it matches.
local CASES = {
  { "[!\"#$%&()\\*\\+,-\\./:;<=>?@\\[\\\\\\]^_`{|}~\\']", "", "Hello, [world]! a^b`c", "Hello world abc", false },
  { "(\\w+) (\\w+)", "\\2 \\1", "one two three four", "two one four three", false },
  { "X*", "_", "aXbXX", "_a_b_", false },
  { "(|a)*", "<\\1>", "aa", "<>a<>a<>", true },
  { "(a*)*", "<\\1>", "aab", "<aa>b<>", false },
  { "(a*)+", "<\\1>", "baa", "<>b<aa>", false },
  { "(?i)HeL+o", "x", "Hello hELLLo", "x x", false },
  { "^", ">", "ab\010cd", ">ab\010cd", false },
  { "(?m)^", ">", "ab\010cd", ">ab\010>cd", false },
  { "$", "<", "ab\010", "ab\010<", false },
  { "\\bfoo\\b", "F", "foo foobar foo", "F foobar F", false },
  { "\\B", "-", "ab c", "a-b c", false },
  { "[[:punct:]]+", ".", "a!?b,c", "a.b.c", false },
  { "[^[:alpha:]]", "", "a1b2", "ab", false },
  { "\\d{2,3}", "#", "1 22 333 4444 55555", "1 # # #4 ##", false },
  { "a{0}", "x", "aa", "xaxax", false },
  { "\195\169+|[\195\160-\195\175]", "E", "\195\169\195\169 \195\170 z", "E E z", false },
  { ".", ".", "\230\151\165\230\156\172", "..", false },
  { "(?s).", ".", "a\010b", "...", false },
  { ".", ".", "a\010b", ".\010.", false },
  { "\\x41\\x{e9}", "ok", "A\195\169", "ok", true },
  { "(a|ab)(c|bcd)(d*)", "[\\1|\\2|\\3]", "abcd", "[a|bcd|]", true },
  { "(?:a|b)+?", "y", "abab", "yyyy", true },
  { "(?P<n>x)(y)?", "\\1\\2!", "xxy", "x!xy!", false },
  { "\\s+", " ", "a \009\010 b", "a b", false },
  { "(?U)a+", "x", "aaa", "xxx", true },
  { "a.*?b", "z", "aXbYb", "zYb", true },
  { "[\\w.-]+@[\\w-]+\\.[a-z]{2,}", "<mail>", "me.x@site.org, b@c", "<mail>, b@c", false },
  { "(?i:K)x", "k", "kx KX Kx", "k KX k", false },
  { "\\$\\{(\\w+)\\}", "\\1", "${a} ${bc}", "a bc", false },
  { "a|b|c|", "-", "abd", "--d-", false },
  { "", "-", "h\195\169y", "-h-\195\169-y-", false },
  { "[]a]+", ".", "]a]b", ".b", false },
  { "[a\\]b-]", ".", "a]b-c", "....c", false },
  { "\\Aab\\z", "x", "ab", "x", true },
}
local WRONG = { "x{2}{3}", "(?=a)", "(a", "[z-a]", "a**", "\\1", "a{1001}", "((a{100}){100}){100}" }

describe('a pattern', function()
  it("finds and replaces what TensorFlow finds", function()
    local x, pattern, by = df.placeholder('string', {}), df.placeholder('string', {}), df.placeholder('string', {})
    local out = { df.regex_replace(x, pattern, by), df.regex_full_match(x, pattern) }
    for _, c in ipairs(CASES) do
      local r = df.run(out, { [x] = c[3], [pattern] = c[1], [by] = c[2] })
      assert.equal(c[4], r[1], c[1])
      assert.equal(c[5], r[2], c[1])
    end
  end)

  it('replaces the first match alone where that is asked for', function()
    assert.equal('b-aa', df.run(df.regex_replace(df.constant 'aaa', 'a', 'b-', { replace_global = false })))
  end)

  it('is refused where it is none, and says at which byte', function()
    for _, p in ipairs(WRONG) do
      local e = fails(function() df.run(df.regex_full_match(df.constant 'a', p)) end)
      assert.equal('invalid_argument', e.code, p)
      assert.matches("at byte %d+: ", e.message)
    end
    assert.matches("the number of one of the pattern's 1 groups",
                   fails(function() df.run(df.regex_replace(df.constant 'a', '(a)', '\\2')) end).message)
  end)

  it('takes time in proportion to the text, and bounded memory, whatever it is', function()
    local text = ('a'):rep(20000)
    for _, p in ipairs{ '(a*)*b', '(a|a|a)*$', '(a|aa)+c', '(((a+)+)+)+b', '(?:a?){30}a{30}b' } do
      df.run(df.regex_full_match(df.constant(text), p))
    end
    for _, p in ipairs{ ('('):rep(1000), ('a'):rep(20000), '(((a{99}){99}){99}){99}', ('[a-c]'):rep(5000), ('(?:'):rep(2000) .. (')'):rep(2000) } do
      assert.equal('invalid_argument', fails(function() df.run(df.regex_full_match(df.constant(text), p)) end).code)
    end
  end)

  it('meets any bytes, in the text and in itself', function()
    local state = 1
    local function next_byte()
      state = (state * 1103515245 + 12345) % 2 ^ 31
      return math.floor(state / 65536) % 256
    end
    local pieces = { '(', ')', '[', ']', '*', '+', '?', '{2}', '|', '\\', '^', '$', '.', 'a', '-', '(?i)', '\\x', '[:' }
    local x, pattern, by = df.placeholder('string', {}), df.placeholder('string', {}), df.placeholder('string', {})
    local out, refused = { df.regex_replace(x, pattern, by), df.regex_full_match(x, pattern) }, 0
    for _ = 1, 1500 do
      local p, t = {}, {}
      for k = 1, next_byte() % 9 do p[k] = next_byte() < 60 and string.char(next_byte()) or pieces[next_byte() % #pieces + 1] end
      for k = 1, next_byte() % 9 do t[k] = next_byte() < 100 and 'a' or string.char(next_byte()) end
      local ok, e = pcall(df.run, out, { [x] = table.concat(t), [pattern] = table.concat(p), [by] = '<\\0>' })
      if not ok then
        assert.equal('invalid_argument', e.code)
        refused = refused + 1
      end
    end
    assert.is_true(refused > 100 and refused < 1400)
  end)
end)
