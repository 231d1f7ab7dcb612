-- Numbers as pictures.
local df = require 'dflow'
local shell = require 'spec.shell'
local support = require 'spec.support'
local message_of = support.message_of

describe('df.plot', function()
  it('draws a line, with ticks at both axes', function()
    assert.are.equal('6+         *\n4+       **\n |   ****\n2+***\n +----------\n  0        2',
      df.plot({ 2, 4, 6 }):text{ columns = 10, rows = 4, ascii = true })
  end)
  it('draws in braille, eight dots a cell', function()
    local text = df.plot({ 0, 1 }):text{ columns = 2, rows = 2 }
    assert.are.equal('1.0┤ ⡜\n0.0┤⡜\n   └──\n    0 1', text)
  end)
  it('has ticks at powers of ten on a logarithmic axis, and at twice and five times these where it is short', function()
    local axis = require('dflow.plot.scale').axis
    local function ticks(low, high)
      local words = {}
      for i, tick in ipairs(axis({ { low, high } }, true).ticks()) do words[i] = tick[2] end
      return table.concat(words, ' ')
    end
    assert.equal('1 2 5 10 20 50 100', ticks(1, 199))
    assert.equal('1 10 100', ticks(1, 200))
    assert.equal('0.02 0.05 0.1 0.2', ticks(0.02, 0.2))
    assert.equal('0.001 0.01 0.1 1', ticks(0.001, 9))
  end)
  it('takes tables, Tensors, Outputs and several series by name', function()
    local expected = df.plot({ 1, 2, 3 }):text()
    assert.are.equal(expected, df.plot(df.tensor{ 1, 2, 3 }):text())
    assert.are.equal(expected, df.plot(df.int32{ 0, 1, 2 } + 1):text())
    local svg = df.plot({ loss = { 3, 2, 1 }, ['a<b'] = { 1, 2, 3 } }):svg()
    assert.is_truthy(svg:find('>loss<', 1, true))
    assert.is_truthy(svg:find('>a&lt;b<', 1, true))
  end)
  it('leaves a gap where there is no number, and does not stop at infinities', function()
    local svg = df.plot({ 1, 0 / 0, 3, 1 / 0, 2 }):svg()
    assert.is_falsy(svg:find('nan', 1, true))
    assert.is_falsy(svg:find('inf', 1, true))
    assert.is_truthy(df.plot({ 0 / 0, 0 / 0 }):text())
  end)
  it('counts values into bins; the greatest belongs to the last', function()
    local p = df.plot.histogram({ 0, 1, 1, 2, 4 }, { bins = 4 })
    assert.are.same({ 1, 2, 1, 1 }, p.counts)
    assert.are.same({ 3 }, df.plot.histogram(df.ones{ 3, 1 }, { bins = 1 }).counts)
  end)
  it('draws bars in the colour of a first line', function()
    local line = df.plot({ 1, 2 }):svg():match 'stroke="(#%x+)" [^>]*/>[^<]*</svg>' or df.plot({ 1, 2 }):svg():match '<poly[^>]*stroke="(#%x+)"'
      or df.plot({ 1, 2 }):svg():match '<path[^>]*stroke="(#%x+)"'
    local bars, n = df.plot.histogram({ 0, 1, 1, 2, 4 }, { bins = 4 }):svg(), 0
    for colour in bars:gmatch '<rect[^>]*fill="(#%x+)" stroke="#ffffff"/>' do
      assert.equal(line, colour)
      n = n + 1
    end
    assert.equal(4, n)
  end)
  it('shades a matrix and an image', function()
    assert.are.equal('0+  ..\n1+oo##\n +----\n  0  1', df.plot.heatmap{ { 0, 1.4 }, { 2.9, 4 } }:text{ columns = 4, rows = 2, ascii = true })
    assert.are.same({ { 2, 5 } }, df.plot.image(df.tensor{ { { 1, 2, 3 }, { 4, 5, 6 } } }).matrix)
  end)
  it('writes SVG with plain colours, whole or not at all', function()
    local path = os.tmpname() .. '.svg'
    df.plot({ 1, 2 }, { title = 'a & b' }):save(path)
    local text = shell.run('cat ' .. path).out
    os.remove(path)
    assert.is_truthy(text:find('a &amp; b', 1, true))
    assert.is_falsy(text:find('style', 1, true) or text:find('class=', 1, true) or text:find('currentColor', 1, true))
  end)
  it('has logarithmic axes, and such as begin at 0', function()
    local p = df.plot.line({ 1, 10, 100, 1000 }, { 1, 10, 100, 1000 }, { log = 'xy' })
    assert.are.equal('1000+   *\n 100+  *\n  10+ *\n   1+*\n    +----\n     1 1000', p:text{ columns = 4, rows = 4, ascii = true })
    local svg = df.plot.line({ 1, 2, 0, 64 }, { 1, 2, 3, 4 }, { log = 'x', points = true }):svg()
    for _, tick in ipairs{ 1, 2, 5, 10, 20, 50 } do assert.is_truthy(svg:find(('>%d</text>'):format(tick), 1, true)) end
    assert.are.equal(3, select(2, svg:gsub('<circle', '')))      -- 0 has no place
    assert.is_truthy(df.plot({ 7, 8 }, { zero = true }):svg():find('>0</text>', 1, true))
  end)
  it('says what is wrong with its arguments', function()
    assert.matches("plot: log is 'x', 'y' or 'xy', not the string", message_of(df.plot, { 1 }, { log = 'z' }), 1, true)
    assert.matches("plot: zero is a boolean", message_of(df.plot.line, { 1 }, { 1 }, { zero = 3 }), 1, true)
    assert.matches("plot: y is numbers as a table, a Tensor or an Output, not nil", message_of(df.plot), 1, true)
    assert.matches("plot: y has rank 2", message_of(df.plot, df.ones{ 2, 2 }), 1, true)
    assert.matches("plot: x has 2 numbers and y has 3", message_of(df.plot.scatter, { 1, 2 }, { 1, 2, 3 }), 1, true)
    assert.matches("bins is a whole number", message_of(df.plot.histogram, { 1 }, { bins = 0 }), 1, true)
    assert.matches("has no 'piechart'", message_of(function() return df.plot.piechart end), 1, true)
    assert.matches("writes .svg and .txt", message_of(function() df.plot{ 1 }:save 'x.bmp' end), 1, true)
    assert.matches("no option 'colour'", message_of(df.plot, { 1 }, { colour = 'red' }), 1, true)
  end)
end)
