--- What Ctrl-R finds: by letters in their order, words in any; what fits best first, of equals the latest.
local search = require 'dflow.repl.search'

local function texts(history, pattern)
  local list = {}
  for i, found in ipairs(search.find(search.newest(history), pattern)) do list[i] = found.text end
  return list
end

describe('the search in the history', function()
  it('takes letters in their order that stand near each other', function()
    local history = { 'y = df.reduce_sum(x)', 'alpha = 1', 'z = 3' }
    assert.same({ 'y = df.reduce_sum(x)' }, texts(history, 'rdsm'))
    assert.same({}, texts(history, 'msdr'))
    assert.same({ 'alpha = 1' }, texts(history, 'aa1'))
    assert.same({}, texts({ 'a' .. (' b'):rep(60) .. 'z' }, 'az'))
    assert.same({}, texts(history, ''))
    assert.same({}, texts(history, '   '))
  end)

  it('takes words in any order, all of them', function()
    local history = { 'x = df.float32{1}:reduce_mean()', 'y = df.reduce_sum(df.float32{1})', 'df.float32(1)' }
    assert.same({ 'y = df.reduce_sum(df.float32{1})' }, texts(history, 'sum float'))
    assert.same({ 'y = df.reduce_sum(df.float32{1})' }, texts(history, 'float sum'))
    assert.same({}, texts(history, 'float nothing'))
  end)

  it('minds capitals where there are some', function()
    assert.same({ 'Alpha', 'alpha' }, texts({ 'alpha', 'Alpha' }, 'alpha'))
    assert.same({ 'Alpha' }, texts({ 'alpha', 'Alpha' }, 'Al'))
  end)

  it('puts a word before a part of one, a part before scattered letters, and the latest of equals first, each once', function()
    local history = { 'matmul(a)', 'x = 2', 'format_must_ul', 'x:matmul(b)', 'x = 2', 'amatmul' }
    assert.same({ 'x:matmul(b)', 'matmul(a)', 'amatmul', 'format_must_ul' }, texts(history, 'matmul'))
    assert.same({ 'x = 2' }, texts(history, '= 2'))
  end)

  it('has places for the letters that it found, and rows that fit a window', function()
    local long = ('-- é'):rep(60) .. ' needle\nand more\nand needles'
    local list = search.find({ 'needle', long }, 'needle')
    assert.equal('needle', list[1].text)
    assert.equal(6, list[1].last)
    for _, columns in ipairs{ 20, 40, 80, 200 } do
      local menu = search.menu(list, 'needle', 2, columns, 24)
      for i = 1, #menu, 2 do
        assert.equal(#menu[i], #menu[i + 1])
        assert.is_true(#menu[i]:gsub('[\128-\191]', '') < columns, menu[i])
        assert.is_truthy(i == 1 or menu[i]:find('needle', 1, true), menu[i])
      end
      assert.matches('^> ', menu[5])
    end
    for _, text in ipairs{ 'needle ' .. ('é'):rep(200), ('-'):rep(100) .. 'needle ' .. ('é'):rep(200), 'needle ' .. ('e'):rep(200) } do      -- cut between letters
      for columns = 40, 44 do
        local row = search.menu(search.find({ text }, 'needle'), 'needle', 1, columns, 24)[3]
        assert.matches('^> .*needle .*[^\128-\191] %.%.%.$', (row:gsub('é', 'e')))
        assert.is_true(#row >= columns - 4 and #row < columns, row)
        assert.equal(text:find '^%-' ~= nil, row:find('> ... ', 1, true) ~= nil)
      end
    end
    local many = {}
    for i = 1, 30 do many[i] = 'x' .. i end
    local menu = search.menu(search.find(many, 'x'), 'x', 20, 80, 24)
    assert.matches('^> x20', menu[#menu - 3])
    assert.equal('  10 more', menu[#menu - 1])
    assert.matches('nothing fits', search.menu({}, 'qq', 1, 80, 24)[1])
  end)

  it('looks through ten thousand entries, also long ones', function()
    local history = {}
    for i = 1, 10000 do history[i] = ('local x%d = df.reduce_sum(df.float32{%d, 2, 3})'):format(i, i) end
    history[5000] = ('a'):rep(100000)
    assert.equal('local x777 = df.reduce_sum(df.float32{777, 2, 3})', texts(history, 'x777')[1])
    assert.equal(9999, #texts(history, 'rsum'))
  end)
end)
