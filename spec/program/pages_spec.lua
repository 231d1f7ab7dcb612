-- The pages of the manual: the code of each runs, and prints what the page says.
local shell = require 'spec.shell'
local manual = require 'dflow.docs.manual'

--- The lines of a page's code, each in its place, and those that it is to print.
local function read(text)
  local code, expected = {}, {}
  for line in text:gmatch '([^\n]*)\n' do
    local said = line:match '^    %-%-> (.*)$'
    if said then expected[#expected + 1] = said end
    code[#code + 1] = not said and line:match '^    (.*)$' or ''
  end
  return table.concat(code, '\n'), expected
end

describe('the manual of areas', function()
  for _, page in ipairs(manual) do
    it('has an example that prints what it says: ' .. page[1], function()
      local code, expected = read(page[3])
      assert.is_true(#expected >= 2)
      local path = os.tmpname()
      shell.write(path, code)
      local r = shell.run(shell.lua .. ' ' .. path)
      os.remove(path)
      assert.are.equal(table.concat(expected, '\n') .. '\n', r.out, r.err)
      assert.are.equal(0, r.status, r.err)
    end)
  end

  it('names functions that are there, and fits a terminal of 132 columns', function()
    local df = require 'dflow'
    for _, page in ipairs(manual) do
      for name in page[3]:gmatch 'df(%.[%a_][%w_.]*%w)' do
        local v = df
        for part in name:gmatch '[%w_]+' do v = v[part] end
        assert.is_truthy(v, page[1] .. ': df' .. name)
      end
      for line in page[3]:gmatch '[^\n]+' do assert.is_true(#line <= 132, page[1] .. ': ' .. line) end
    end
  end)

  it('is shown by the program and by help', function()
    local list = shell.run(shell.dflow .. ' manual')
    assert.are.equal(0, list.status, list.err)
    for _, page in ipairs(manual) do
      assert.is_truthy(list.out:find('\n  ' .. page[1] .. ' ', 1, true), page[1])
      local shown = shell.run(shell.dflow .. ' manual ' .. page[1])
      assert.is_truthy(shown.out:find(page[3], 1, true))
    end
    assert.are.equal(1, shell.run(shell.dflow .. ' manual nothing').status)
    local help = require 'dflow.docs.help'
    assert.are.equal(list.out, help.help 'manual' .. '\n')
    assert.matches('^queues: ', help.help 'manual.queues')
    assert.is_truthy(help.help('nn'):find('?manual.nn', 1, true))
    assert.is_nil((help.help 'manual.nothing'))
  end)
end)
