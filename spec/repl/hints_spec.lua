-- What the prompt says of the call that one is in, in windows of many widths, and what Tab offers.
local buffers = require 'dflow.repl.buffer'
local complete = require 'dflow.repl.complete'
local hints = require 'dflow.repl.hints'
local session = require 'dflow.repl.session'
local df = require 'dflow'
require 'dflow.repl.builtin'

local knows = { global = function() return true end, field = function() return true end }
require('spec.support').as_program(setup, teardown)

local function buffer_of(text)
  local b = buffers.new(knows)
  b.replace(0, 0, text)
  return b, #b.lines - 1, #b.lines[#b.lines].text
end

-- What is typed, and the argument that comes next; false: none of the call's; nil: there is no call that is known.
local calls = {
  { 'df.matmul(', 'a' }, { 'df.matmul(x, ', 'b' }, { 'df.matmul(x, y, {', '{transpose_a = false, transpose_b = false}' },
  { 'df.matmul(x, y, {transpose_a = true, ', '{transpose_a = false, transpose_b = false}' }, { 'df.matmul(x, y, {transpose_b = ', 'transpose_b = false' },
  { 'df.matmul(x, y, {nosuch = ', '{transpose_a = false, transpose_b = false}' }, { 'df.matmul(x, y, {}, ', '{transpose_a = false, transpose_b = false}' },
  { 'df.conv2d(x, f, {data_format = ', "data_format = 'NHWC'" },
  { 'df.train.Adam(0.1, {clip_norm = ', 'clip_norm = nil' }, { 'df.nn.Dense(3, {kernel_initializer = ', 'kernel_initializer = nil' },
  { 'df.while_loop(a, b, ', 'vars' }, { 'while_loop(', 'pred' }, { 'cond(p, ', 'then_fn' }, { 'x:matmul(', 'b' }, { 'string.format("%d", ', '...' },
  { 'string.rep(a, b, ', 'sep?' }, { 'string.rep(a, b, c, ', false }, { 'df.print(x, a, b, c, ', "{message = '', summarize = 3, first_n = -1}" },
  { 'df.concat({a, ', '{values, …}' }, { 'df.concat({a, b}, ', 'axis' },
  { 'f(df.add(1, ', 'y' }, { 'df.add(f(1, 2), ', 'y' }, { 'df.add(1,\n  ', 'y' }, { 'df.nosuch(' }, { 'nosuch(' }, { 'df.matmul"' }, { 'df.int32{', false },
  { 'df.rnn.LSTMCell(3, {layer_norm = ', 'layer_norm = false' }, { 'math.max(1, 2, ', '...' }, { 'print(', '...' }, { 'df.add(1, 2)' }, { 'function f(' },
}

local function hint(text, columns)
  local b, line, column = buffer_of(text)
  return hints.hint(b, line, column, columns, session.locals)
end

--- What a hint has in bold.
local function bold(shown, styles)
  local first = styles:find 'H'
  return first and shown:sub(first, (styles:find('[^H]', first) or #styles + 1) - 1) or nil
end

describe('what the prompt says of a call', function()
  for _, case in ipairs(calls) do
    local text, argument = case[1], case[2]
    it('is its signature with the argument that comes next, as far as there is room: ' .. text:gsub('\n', '\\n'), function()
      local whole, style = hint(text, 10000)
      if argument == nil then return assert.is_nil(whole) end
      assert.equal(argument or nil, bold(whole, style))
      for _, columns in ipairs{ 200, 100, 79, 60, 45, 33, 24, 16, 12 } do
        local shown, styles = hint(text, columns)
        assert.equal(#shown, #styles)
        assert.matches('^h*H*h*$', styles)
        assert.is_true(#shown <= columns - 2, shown)
        local part, from_start, to_end = shown, true, true
        if shown ~= whole then
          assert.is_true(#whole > columns - 2, shown)                           -- it is cut only where it has no room
          if part:sub(1, 4) == '... ' and whole:sub(1, 4) ~= '... ' then part, from_start = part:sub(5), false end
          if part:sub(-4) == ' ...' then part, to_end = part:sub(1, -5), false end
          assert.is_truthy(whole:find(part, 1, true), shown)
          assert.equal(from_start, whole:sub(1, #part) == part)
          assert.equal(to_end, whole:sub(-#part) == part)
          assert.is_true(#shown >= math.min(columns - 14, #whole - (style:find 'H' or 1)), shown)       -- and uses the room there is
        end
        if argument then
          local seen = bold(shown, styles)
          assert.equal(argument:sub(1, #seen), seen)
          if #argument + 10 <= columns then assert.equal(argument, seen) end
        else
          assert.is_nil(bold(shown, styles))
        end
      end
    end)
  end
end)

--- What Tab offers behind a text: the column where the word begins, and the list.
local function offered(text, folder)
  local b, line, column = buffer_of(text)
  return complete.at(b, line, column, { locals = session.locals, folder = function() return folder or {} end })
end

local function names_of(list)
  local names = {}
  for i, item in ipairs(list) do names[i] = item.text end
  return table.concat(names, ' ')
end

describe('what Tab offers', function()
  it('is files, and hidden ones where a dot has been typed', function()
    local folder = { 'model.pb', '.cache', 'data/' }
    assert.equal('data/ model.pb', names_of(select(2, offered('df.load_npz("', folder))))
    assert.equal('.cache', names_of(select(2, offered('df.load_npz(".', folder))))
  end)

  it('is every public name that begins so, and nothing else', function()
    for _, prefix in ipairs{ '', 'm', 'matm', 'softm', 'reduce_', 'zzz' } do
      local expected, seen = {}, {}
      for _, list in ipairs{ df.names(), require('dflow.front.dtypes').list } do
        for _, name in ipairs(list) do
          if name:sub(1, #prefix) == prefix and not seen[name] then expected[#expected + 1], seen[name] = name, true end
        end
      end
      table.sort(expected)
      local from, list = offered('x = df.' .. prefix)
      assert.equal(#'x = df.', from)
      assert.equal(table.concat(expected, ' '), names_of(list))
    end
  end)

  it('is what may stand there, in order, and begins with what was typed', function()
    for text, expected in pairs{
      ['df.matmul(x, y, {tr'] = 'transpose_a =  transpose_b = ', ['string.re'] = 'rep reverse', [':gr'] = 'graph', [':set th'] = 'theme threshold', ['?matm'] = 'matmul',
      ['?:st'] = false, ['df.nosuch.'] = '', ['-- df.ma'] = '', [':set theme '] = false, [':graph df.x as '] = false, [':graph x at l'] = 'lowered', [':help r'] = false,
      ['df.zeros{2}:resh'] = 'reshape', ['df.placeholder("flo'] = 'float32 float64 float16', ['df.device("cp'] = 'cpu:0', ['df.run(x, nil, {save = "sw'] = 'swap',
    } do
      local from, list = offered(text)
      if expected then assert.equal(expected, names_of(list), text) end
      local typed, last = text:sub(from + 1):gsub('^[":]', ''), ''
      for _, item in ipairs(list) do
        assert.equal(typed, item.text:sub(1, #typed), text)
        if not text:find '[:?"{]' then assert.is_true(last < item.text) end
        last = item.text
      end
    end
  end)

  it('fits the window, a screenful at a time, and comes round to the first', function()
    for _, text in ipairs{ 'df.', 'df.matm', 'df.matmul(x, y, {tr', 'string.re', ':set ', 'df.nosuch.' } do
      local _, list = offered(text)
      for _, size in ipairs{ { 80, 9 }, { 30, 7 }, { 12, 5 }, { 200, 60 } } do
        local columns, rows = size[1], size[2]
        local seen, page, pages = {}, 1, nil
        repeat
          local menu = complete.menu(list, columns, rows, page)
          local shown = 0
          assert.is_true(#menu / 2 <= math.max(2, rows - 4) and #menu / 2 <= 14)
          for i = 1, #menu, 2 do
            local line, styles = menu[i], menu[i + 1]
            assert.equal(#line, #styles)
            local first, last, of = line:match '^  (%d+) to (%d+) of (%d+)'
            if first and styles:find '^h*$' then
              assert.same({ #seen - shown + 1, #seen, #list }, { tonumber(first), tonumber(last), tonumber(of) })
              pages = pages or math.ceil(#list / shown)
            else
              local word = line:sub(3, #(styles:match '^m+')):match '^(.-)%s*$'
              shown = shown + 1
              seen[#seen + 1] = word
              local item = list[#seen]
              assert.equal(item.text:match '^(.-)%s*$', word)
              assert.is_true(#line <= math.max(columns - 1, 42, #item.text + 2), line)
              local about = type(item.about) == 'function' and item.about() or item.about
              local told = line:sub(#(styles:match '^m+') + 3):gsub('%.%.%.$', '')
              assert.is_truthy(about:gsub('%s+', ' '):find(told, 1, true), line)
              if columns == 200 and about ~= '' and #about < 100 then assert.is_true(#told >= #(about:gsub('%s+', ' ')), line) end
            end
          end
          page = page + 1
        until #seen >= #list
        assert.equal(#list, #seen)
        if pages then assert.same(complete.menu(list, columns, rows, 1), complete.menu(list, columns, rows, pages + 1)) end
      end
    end
  end)
end)
