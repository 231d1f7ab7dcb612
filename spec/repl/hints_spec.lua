-- What the prompt says of the call that one is in, in windows of many widths, and what Tab offers: whole, in spec/pages/hints.txt.
local buffers = require 'dflow.repl.buffer'
local complete = require 'dflow.repl.complete'
local hints = require 'dflow.repl.hints'
local pages = require 'spec.pages'
local session = require 'dflow.repl.session'
local df = require 'dflow'
require 'dflow.repl.builtin'

local knows = { global = function() return true end, field = function() return true end }
local globals = { df = df, cond = df.cond, while_loop = df.while_loop }
setup(function() for name, v in pairs(globals) do rawset(_G, name, v) end end)
teardown(function() for name in pairs(globals) do rawset(_G, name, nil) end end)

local function buffer_of(text)
  local b = buffers.new(knows)
  b.replace(0, 0, text)
  return b, #b.lines - 1, #b.lines[#b.lines].text
end

local calls = { 'df.matmul(', 'df.matmul(x, ', 'df.matmul(x, y, {', 'df.matmul(x, y, {transpose_a = true, ', 'df.matmul(x, y, {transpose_b = ', 'df.matmul(x, y, {nosuch = ',
                'df.matmul(x, y, {}, ', 'df.conv2d(x, f, {strides = {1, ', 'df.conv2d(x, f, {data_format = ', 'df.train.Adam(0.1, {', 'df.train.Adam(0.1, {epsilon = ',
                'df.train.fit(m, {x, y}, {', 'df.train.fit(m, {x, y}, {callbacks = ', 'df.nn.Dense(3, {kernel_initializer = ', 'df.while_loop(a, b, ', 'while_loop(', 'cond(p, ',
                'x:matmul(', 'string.format("%d", ', 'string.rep(a, b, c, ', 'df.print(x, a, b, c, ', 'df.concat({a, ', 'df.concat({a, b}, ', 'f(df.add(1, ', 'df.add(f(1, 2), ',
                'df.add(1,\n  ', 'df.nosuch(', 'nosuch(', 'df.matmul"', 'df.int32{', 'df.rnn.LSTMCell(3, {layer_norm = ', 'math.max(1, 2, ', 'print(' }

describe('what the prompt says of a call', function()
  it('is what it said, in windows of many widths', function()
    local out = {}
    for _, text in ipairs(calls) do
      for _, columns in ipairs{ 200, 100, 79, 60, 45, 33, 24, 16, 12 } do
        local b, line, column = buffer_of(text)
        local shown, styles = hints.hint(b, line, column, columns, session.locals)
        out[#out + 1] = ('%s | %d: %s'):format(text:gsub('\n', '\\n'), columns, shown or 'nothing')
        if shown then
          local first = styles:find 'H'
          local last = first and (styles:find('[^H]', first) or #styles + 1) - 1
          out[#out + 1] = ('  %d, %s'):format(#styles, first and ('%d-%d %s'):format(first, last, shown:sub(first, last)) or 'none')
        end
      end
    end
    pages.section('hints.txt', 'hints', table.concat(out, '\n'))
  end)

  it('is offered files by Tab, and hidden ones where a dot has been typed', function()
    local function offered(text)
      local b, line, column = buffer_of(text)
      local names = {}
      local _, list = complete.at(b, line, column, { locals = session.locals, folder = function() return { 'model.pb', '.cache', 'data/' } end })
      for i, item in ipairs(list) do names[i] = item.text end
      return table.concat(names, ' ')
    end
    assert.equal('data/ model.pb', offered 'df.load_npz("')
    assert.equal('.cache', offered 'df.load_npz(".')
  end)

  it('is offered by Tab as it was', function()
    local out = {}
    for _, text in ipairs{ 'df.matm', 'df.train.A', 'df.nn.initializers.', 'df.matmul(x, y, {tr', 'string.re', 'x = df.softm', ':gr', ':set ', ':set th', ':set theme ',
                           ':help r', ':graph df.x as ', ':graph x at l', '?matm', '?:st', 'df.zeros{2}:resh', 'df.nosuch.', '"df.ma', '-- df.ma', 'df.rnn.' } do
      local b, line, column = buffer_of(text)
      local from, list = complete.at(b, line, column, { locals = session.locals, folder = function() return {} end })
      local names = {}
      for i, item in ipairs(list or {}) do names[i] = item.text end
      out[#out + 1] = ('%s | %s: %s'):format(text, tostring(from), table.concat(names, ', '))
      for _, size in ipairs{ { 80, 9 }, { 30, 7 }, { 12, 5 } } do
        for page = 1, 3 do
          local ok, menu = pcall(complete.menu, list or {}, size[1], size[2], page)
          out[#out + 1] = ('  %d x %d, %d: %s'):format(size[1], size[2], page, ok and type(menu) == 'table' and table.concat(menu, ' / ') or ok and tostring(menu) or 'none')
        end
      end
    end
    pages.section('hints.txt', 'completion', table.concat(out, '\n'))
  end)
end)
