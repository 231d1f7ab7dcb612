--- df.data.image and df.data.images: pictures by libpng and libjpeg, PNM by our own.
local df = require 'dflow'
local here = 'spec/data/pictures/'

local shell = require('spec.shell').output
local function read(path) local f = assert(io.open(path, 'rb')) local s = f:read '*a' f:close() return s end
local function write(path, bytes) local f = assert(io.open(path, 'wb')) f:write(bytes) f:close() end
local error_of = require('spec.support').error_of

describe('a picture', function()
  local path = os.tmpname()
  teardown(function() os.remove(path) end)

  it('is read as it was made: PNG, with palette, with alpha, gray, and PNM', function()
    local expected = {}
    for y = 0, 2 do
      expected[y + 1] = {}
      for x = 0, 3 do expected[y + 1][x + 1] = { 80 * x, 100 * y, 250 - 50 * x } end
    end
    for _, name in ipairs{ 'rgb.png', 'palette.png', 'rgb.ppm' } do
      local t = df.data.image(here .. name)
      assert.same({ 'uint8', { 3, 4, 3 } }, { t.dtype, t.shape }, name)
      assert.same(expected, t:totable(), name)
    end
    local t = df.data.image(here .. 'alpha.png')
    assert.same({ { 3, 4, 4 }, { 1, 2, 3, 4 } }, { t.shape, t:at(0, 0):totable() })
    assert.same(df.data.image(here .. 'gray.pgm'):totable(), df.data.image(here .. 'gray.png'):totable())
    assert.same({ 3, 4, 1 }, df.data.image(here .. 'bits.pbm').shape)
    assert.same({ 3, 4, 3 }, df.data.image(here .. 'gray.png', { channels = 3 }).shape)
    local colours, grays = df.data.image(here .. 'rgb.ppm'):list(), df.data.image(here .. 'rgb.ppm', { channels = 1 })
    assert.same({ 3, 4, 1 }, grays.shape)
    for i, gray in ipairs(grays:list()) do                       -- as luminance is made of red, green and blue (ITU-R BT.601)
      local k = 3 * i - 2
      assert.equal(math.floor((colours[k] * 299 + colours[k + 1] * 587 + colours[k + 2] * 114 + 500) / 1000), gray)
    end
  end)

  it('is read from JPEG', function()
    local t = df.data.image(here .. 'flat.jpg')
    assert.same({ 8, 16, 3 }, t.shape)
    local p = t:at(4, 9):totable()
    for i, v in ipairs{ 200, 100, 50 } do assert.is_true(math.abs(p[i] - v) < 6, p[i]) end
    assert.same({ 8, 16, 1 }, df.data.image(here .. 'gray.jpg').shape)
    assert.same({ 8, 16, 3 }, df.data.image(here .. 'gray.jpg', { channels = 3 }).shape)
  end)

  it('of text is read, with comments', function()
    write(path, 'P3 # by hand\n2 1\n# more\n15\n0 5 15  1 2 3')
    assert.same({ { { 0, 85, 255 }, { 17, 34, 51 } } }, df.data.image(path):totable())
    write(path, 'P1 3 2 101 010')
    assert.same({ { { 0 }, { 255 }, { 0 } }, { { 255 }, { 0 }, { 255 } } }, df.data.image(path):totable())
  end)

  it('that is damaged, or says what it is not, is an error that names the file', function()
    for _, name in ipairs{ 'rgb.png', 'flat.jpg', 'rgb.ppm', 'bits.pbm' } do
      local bytes = read(here .. name)
      for n = 0, #bytes - (name:find 'p.m$' and 1 or 24), math.max(1, math.floor(#bytes / 40)) do    -- what ends them may be missing
        write(path, bytes:sub(1, n))
        local e = error_of(df.data.image, path)
        assert.equal('data_loss', e.code, ('%s %d %s'):format(name, n, e.message))
        assert.is_truthy(e.message:find(path, 1, true))
      end
      for i = 1, #bytes, 7 do                               -- whatever it makes of them, it ends
        write(path, bytes:sub(1, i - 1) .. string.char((bytes:byte(i) + 37) % 256) .. bytes:sub(i + 1))
        pcall(df.data.image, path)
      end
    end
    write(path, 'P5 2000000000 2000000000 255 x')
    assert.equal('resource_exhausted', error_of(df.data.image, path).code)
    write(path, 'GIF89a...')
    assert.matches('a GIF picture: PNG, JPEG and PNM are read', error_of(df.data.image, path).message)
    assert.equal('not_found', error_of(df.data.image, path .. '.none').code)
    assert.matches('channels is 0 to 4', error_of(df.data.image, path, { channels = 5 }).message)
  end)
end)

describe('a folder of pictures', function()
  local folder
  setup(function()
    folder = shell('mktemp -d'):match '%S+'
    shell(('mkdir %s/cat %s/dog; cp %srgb.png %s/cat/b.PNG; cp %sflat.jpg %s/cat/a.jpg; cp %sgray.pgm %s/dog; touch %s/dog/notes.txt')
      :format(folder, folder, here, folder, here, folder, here, folder, folder))
  end)
  teardown(function() shell('rm -rf ' .. folder) end)

  it('has a class for each folder in it', function()
    local source = df.data.images(folder, { channels = 3 })
    assert.same({ 'cat', 'dog' }, source.classes)
    local got = {}
    for t, class, path in df.data.pipeline(source):each() do got[#got + 1] = { t.shape[3], class, path:sub(#folder + 2) } end
    assert.same({ { 3, 0, 'cat/a.jpg' }, { 3, 0, 'cat/b.PNG' }, { 3, 1, 'dog/gray.pgm' } }, got)
    assert.same({ 'dog' }, df.data.images(folder, { classes = { 'dog' } }).classes)
    local _, class = df.data.images(folder .. '/dog/')()
    assert.equal(0, class)
    assert.equal(2, #df.data.images{ here .. 'rgb.png', here .. 'gray.png' }.paths)
  end)

  it('without any is an error', function()
    assert.equal('not_found', error_of(df.data.images, folder .. '/none').code)
    shell('mkdir -p ' .. folder .. '/dog/empty/nothing')
    assert.equal('not_found', error_of(df.data.images, folder .. '/dog/empty').code)
  end)
end)
