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
  it('refuses options that are none', function()
    for _, kind in ipairs{ 'line', 'scatter', 'histogram', 'heatmap', 'image' } do
      local m = (kind == 'heatmap' or kind == 'image') and { { 1, 2 } } or { 1, 2 }
      local says = message_of(function()
        if kind == 'scatter' then df.plot.scatter(m, m, 3) else df.plot[kind](m, kind == 'line' and m or 3, kind == 'line' and 3 or nil) end
      end)
      assert.is_truthy(says:find 'plot', kind)
      assert.is_falsy(says:find 'attempt to', says)
    end
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
    -- Names stay within the picture however long they are, and in the corner where no line goes.
    local long = ('x'):rep(40)
    for _, c in ipairs{ { { 1, 2, 3 }, 'right', 'low' }, { { 3, 2, 1 }, 'right', 'high' } } do
      local x, y = df.plot({ [long] = c[1] }):svg{ width = 700, height = 400 }:match('<text x="([%d.]+)" y="([%d.]+)" fill="#222222">' .. long)
      assert.is_true(tonumber(x) + 6.5 * 40 < 700 and (tonumber(y) < 200) == (c[3] == 'high'), x .. ' ' .. y)
    end
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
    assert.are.same({ { 2, 5 } }, df.plot.image(df.tensor({ { { 1, 2, 3 }, { 4, 5, 6 } } }, 'uint8')).matrix)
  end)
  it('shows an image in its own colours, its pixels squares', function()
    local rgb = df.tensor({ { { 255, 0, 0 }, { 0, 255, 0 } }, { { 0, 0, 255 }, { 255, 255, 255 } } }, 'uint8')
    local svg = df.plot.image(rgb):svg{ width = 300, height = 100 }
    local colours = {}
    for width, height, colour in svg:gmatch '<rect x=[^>]*width="([%d.]+)" height="([%d.]+)" fill="(#%x+)"/>' do
      assert.equal(width, height)
      colours[#colours + 1] = colour
    end
    assert.same({ '#ff0000', '#00ff00', '#0000ff', '#ffffff' }, colours)
    assert.equal('\27[38;2;255;0;0m\27[48;2;0;0;255m▀\27[38;2;0;255;0m\27[48;2;255;255;255m▀\27[0m', df.plot.image(rgb):text{ columns = 2, rows = 2, colour = true })
    local grey = df.plot.image(df.tensor{ { 0.0, 0.5, 1.0 } }):svg()
    assert.matches('#000000', grey, 1, true)
    assert.matches('#808080', grey, 1, true)
    local ranged = df.plot.image(df.tensor({ { -2, 0, 6 } }, 'int32')).matrix
    assert.same({ { 0, 64, 255 } }, ranged)
    assert.same({ { 255, 100 } }, df.plot.image(df.tensor({ { { 9, 0 }, { 100, 255 } } }, 'uint8')).matrix)       -- grey with alpha, on white
    local function alike(t) return df.plot.image(t).matrix end
    assert.same({ { { 0, 0 } }, { { 255, 255 } }, { { 255 } } }, { alike(df.zeros{ 1, 2 }), alike(df.ones{ 1, 2, 3 }), alike(df.tensor{ { true } }) })
    assert.matches('dtype string', message_of(df.plot.image, df.tensor{ { { 'a' } } }), 1, true)
    assert.matches('5 channels', message_of(df.plot.image, df.zeros{ 2, 2, 5 }), 1, true)
  end)

  it('says what size a picture can have', function()
    local p = df.plot.image(df.zeros{ 2, 3 })
    assert.matches('Plot:png: width is a number from 1 to 10000, not the number 1000000', message_of(p.png, p, { width = 1000000 }), 1, true)
    assert.matches('Plot:svg: height is a number from 1 to 10000, not the string "a"', message_of(p.svg, p, { height = 'a' }), 1, true)
    assert.matches('<svg [^>]* width="300" height="100"', p:svg{ width = 300.7, height = 100.2 })
    assert.matches('Plot:png: height', message_of(p.png, p, { height = 0 / 0 }), 1, true)
  end)

  it('writes an image as a PNG that is read as it was, in a document too where it is large', function()
    local path = os.tmpname() .. '.png'
    local t = df.tensor({ { { 255, 0, 9 }, { 1, 2, 3 } } }, 'uint8')
    df.plot.image(t):save(path)
    local back = df.data.image(path)
    assert.same({ 320, 640, 3 }, back.shape)
    assert.same({ 255, 0, 9 }, back:at(319, 319):totable())
    assert.same({ 1, 2, 3 }, back:at(0, 320):totable())
    local large = df.run(df.cast(df.random_uniform({ 70, 60, 3 }, { max = 255, seed = 1 }), 'uint8'))
    local f = io.open(path, 'wb')
    local base64 = df.plot.image(large):svg():match 'href="data:image/png;base64,([^"]*)"'
    local digits, out = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/', {}
    for four in base64:gmatch '....' do
      local v, left = 0, select(2, four:gsub('=', ''))
      for c in four:gmatch '.' do v = v * 64 + (c == '=' and 0 or digits:find(c, 1, true) - 1) end
      out[#out + 1] = string.char(math.floor(v / 65536), math.floor(v / 256) % 256, v % 256):sub(1, 3 - left)
    end
    f:write(table.concat(out))
    f:close()
    assert.same(large:totable(), df.data.image(path):totable())
    os.remove(path)
  end)

  it('writes everything else as a PNG by rsvg-convert, or says that it is not here', function()
    local path = os.tmpname() .. '.png'
    local ok, e = pcall(function() df.plot({ 1, 3, 2 }):save(path) end)
    if ok then
      assert.same({ 400, 640, 3 }, df.data.image(path, { channels = 3 }).shape)
      os.remove(path)
    else
      assert.matches('rsvg%-convert .of Debian.s librsvg2%-bin.', e.message)
    end
  end)

  it('tells several series apart, by colour or by mark', function()
    local p = df.plot{ a = { 1, 2 }, b = { 2, 1 } }
    local plain, coloured = p:text(), p:text{ colour = true }
    assert.is_falsy(plain:find('\27', 1, true))
    assert.equal(plain, (coloured:gsub('\27%[[%d;]*m', '')))
    assert.matches('\27[34ma\27[0m, \27[33mb\27[0m', coloured, 1, true)
    local ascii = p:text{ ascii = true, columns = 20, rows = 5 }
    assert.matches('* a, + b', ascii, 1, true)
    assert.is_truthy(ascii:find '%+%+' and ascii:find '%*%*')
  end)

  it('is pixels for a terminal with graphics: sixel and kitty', function()
    local picture = require 'dflow.plot.picture'
    local rgb = df.tensor({ { { 255, 0, 0 }, { 0, 0, 255 } } }, 'uint8')
    local p = df.plot.image(rgb)
    local text = picture.shown(p, 'sixel', 16, 8)
    local height, width, x, y, colour, colours, pixels = 8, 16, 0, 0, nil, {}, {}
    local body = text:match '^\27P0;1q"1;1;16;8(.*)\27\\$'
    local at = 1
    while at <= #body do                                -- a terminal's reading of it
      local c = body:sub(at, at)
      local n, r, g, b, to = body:match('^#(%d+);2;(%d+);(%d+);(%d+)()', at)
      local chosen, after = body:match('^#(%d+)()', at)
      local times, bits, behind = body:match('^!(%d+)(.)()', at)
      if n then colours[n], colour, at = { r, g, b }, n, to
      elseif chosen then colour, at = chosen, after
      elseif c == '$' then x, at = 0, at + 1
      elseif c == '-' then x, y, at = 0, y + 6, at + 1
      else
        bits, times, behind = (bits or c):byte() - 63, tonumber(times or 1), behind or at + 1
        for _ = 1, times do
          for row = 0, 5 do
            if math.floor(bits / 2 ^ row) % 2 == 1 then pixels[(y + row) * width + x] = table.concat(colours[colour], ' ') end
          end
          x = x + 1
        end
        at = behind
      end
    end
    for row = 0, height - 1 do
      for column = 0, width - 1 do
        assert.equal(column < 8 and '100 0 0' or '0 0 100', pixels[row * width + column])
      end
    end
    local kitty = picture.shown(p, 'kitty', 160, 80)
    local first, more = kitty:match '^\27_Ga=T,f=100,m=(%d);iVBORw0KGgo', select(2, kitty:gsub('\27_Gm=', ''))
    assert.is_truthy(first == '1' and more > 0)
    assert.matches('\27_Gm=0;[^\27]*\27\\$', kitty)
  end)

  it('says which colour of a heat map is which number', function()
    local svg = df.plot.heatmap{ { 1.5, 2 }, { 3, 8 } }:svg()
    assert.matches('>1.5</text>\n<rect [^>]-fill="#ffffff"/>.-fill="#08306b"/>\n<rect [^>]->\n<text [^>]->8</text>', svg)
  end)

  it('has forty greys as sixels, so that fine lines and photographs are seen', function()
    local picture = require 'dflow.plot.picture'
    local ramp = {}
    for i = 1, 64 do ramp[i] = { 4 * (i - 1) } end
    local text = picture.shown(df.plot.image(df.tensor({ ramp }, 'uint8')), 'sixel', 64, 1)
    local _, greys = text:gsub('#%d+;2;(%d+);%1;%1', '')
    assert.is_true(greys >= 38, greys)
    local last = -1
    for grey in text:gmatch '#%d+;2;(%d+);' do
      assert.is_true(tonumber(grey) > last)
      last = tonumber(grey)
    end
  end)

  it('is no larger in a terminal than there is room, however large the image', function()
    local picture = require 'dflow.plot.picture'
    local halves = df.run(df.tile(df.tensor({ { { 255, 0, 0 }, { 0, 0, 255 } } }, 'uint8'), { 200, 1, 1 }):reshape{ 200, 2, 1, 3 } * df.ones({ 1, 1, 150, 1 }, 'uint8'))
    local p = df.plot.image(halves:reshape{ 200, 300, 3 })
    local red, blue = picture.shown(p, 'sixel', 30, 10):match '^\27P0;1q"1;1;15;10#180;2;100;0;0#180(%S-)%$#5;2;0;0;100#5(%S-)%$%-'
    assert.same({ '!8~!7?', '!8?!7~' }, { red, blue })
    assert.is_true(#picture.shown(p, 'kitty', 30, 10) < 1000)
  end)

  it('asks the environment what the terminal can show', function()
    local function shown(env)
      return shell.run(("env -u TMUX -u KITTY_WINDOW_ID -u TERM_PROGRAM %s %s -e 'print(require [[dflow.plot.picture]].terminal())'"):format(env, shell.dflow)).out
    end
    assert.equal('kitty\n', shown 'TERM=xterm-kitty')
    assert.equal('kitty\n', shown 'TERM=xterm-256color TERM_PROGRAM=WezTerm')
    assert.equal('sixel\n', shown 'TERM=foot')
    assert.equal('text\n', shown 'TERM=xterm-256color')
    assert.equal('text\n', shown 'TERM=xterm-kitty TMUX=/tmp/tmux')
  end)

  it('leaves the label of the y axis beside what is written at its ticks, however long that is', function()
    for _, most in ipairs{ 9, 143010, 1.5e-7, 98765432 } do
      local svg, n = df.plot.line({ 1, 2 }, { 0, most }, { ylabel = 'steps a second' }):svg(), 0
      for x, label in svg:gmatch 'x="([%d.]+)" y="[%d.]+" text%-anchor="end"[^>]*>([^<]*)<' do
        n = n + 1
        assert.is_true(tonumber(x) - 7 * #label >= 20, label)           -- the label is a column of 14 +- 6
      end
      assert.is_true(n >= 2)
    end
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
    -- A range in which no power of ten lies, nor twice or five times one, has ticks all the same.
    assert.matches('0%.62┤', df.plot({ 0.61, 0.66, 0.63 }, { log = 'y' }):text{ columns = 60, rows = 12 })
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
    assert.matches("writes .svg, .png and .txt", message_of(function() df.plot{ 1 }:save 'x.bmp' end), 1, true)
    assert.matches("no option 'colour'", message_of(df.plot, { 1 }, { colour = 'red' }), 1, true)
  end)
end)
