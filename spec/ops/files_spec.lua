--- Ops that read and write whole files, and pictures in bytes.
local df = require 'dflow'
local shell = require 'spec.shell'
local here = 'spec/data/pictures/'
local PICTURES = { 'alpha.png', 'bits.pbm', 'flat.jpg', 'gray.jpg', 'gray.pgm', 'gray.png', 'palette.png', 'rgb.png', 'rgb.ppm' }

local fails = require('spec.support').error_of

describe('files in a graph', function()
  local folder
  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
    shell.run('mkdir ' .. folder)
  end)
  after_each(function() shell.run('rm -r ' .. folder) end)

  it('are read each time that the op runs', function()
    local path = folder .. '/bytes'
    local text = df.read_file(df.constant(path))
    for _, bytes in ipairs{ 'one', 'two\0three', '' } do
      shell.write(path, bytes)
      assert.equal(bytes, df.run(text))
    end
  end)

  it('are written in the branch and the iterations that run, whole', function()
    local name = df.placeholder('string', {})
    df.run(df.while_loop(function(i) return i:lt(3) end, function(i)
      df.cond(i:eq(1), function() return df.constant(0) end, function()
        df.write_file(df.string_join{ name, df.as_string(i) }, df.as_string(i * 10))
        return df.constant(0)
      end)
      return i + 1
    end, { df.int32(0) }), { [name] = folder .. '/part' })
    assert.equal('part0\npart2\n', shell.run('ls -A ' .. folder).out)
    assert.equal('20', shell.read(folder .. '/part2'))
  end)

  it('are found by a pattern, in order', function()
    for _, name in ipairs{ 'b.txt', 'a.txt', 'c.dat' } do shell.write(folder .. '/' .. name, '') end
    assert.same({ folder .. '/a.txt', folder .. '/b.txt' }, df.run(df.matching_files(df.constant(folder .. '/*.txt'))):totable())
    assert.same({ 0 }, df.run(df.matching_files(df.constant(folder .. '/*.png'))).shape)
  end)

  it('that are not there, or folders, or without a name, are errors that name them', function()
    assert.equal('not_found', fails(df.run, df.read_file(df.constant(folder .. '/none'))).code)
    assert.matches(folder, fails(df.run, df.read_file(df.constant(folder))).message, 1, true)
    assert.matches('the path is empty', fails(df.run, df.read_file(df.constant '')).message)
    assert.matches('the path is one string, 2', fails(df.run, df.read_file(df.placeholder_with_default(df.constant{ 'a', 'b' }))).message)
    assert.matches(folder, fails(df.run, df.write_file(df.constant(folder .. '/none/x'), df.constant '')).message, 1, true)
  end)

  it('come back from an exported graph', function()
    shell.write(folder .. '/bytes', 'text')
    local y = df.identity(df.read_file(df.constant(folder .. '/bytes')), { name = 'y' })
    df.export_graph_def(folder .. '/graph.pb', { outputs = { y } })
    local g = df.import_graph_def(folder .. '/graph.pb', { files = true })
    assert.equal('text', df.Session{ graph = g }:run(g:output 'y:0'))
  end)
end)

describe('a picture in bytes', function()
  it('is what df.data.image makes of its file, in any number of channels', function()
    for _, name in ipairs(PICTURES) do
      for _, channels in ipairs{ 0, 1, 3 } do
        local expected = df.data.image(here .. name, { channels = channels })
        local bytes = df.read_file(df.constant(here .. name))
        for _, decode in ipairs{ df.decode_image, df.decode_png, df.decode_jpeg } do
          local y = decode(bytes, { channels = channels })
          assert.same({ -1, -1, channels > 0 and channels or -1 }, y.shape)
          local found = df.run(y)
          assert.same(expected.shape, found.shape)
          assert.same(expected:totable(), found:totable())
        end
      end
    end
  end)

  it('is numbers from 0 to 1 as float32', function()
    local whole = df.run(df.decode_image(df.read_file(df.constant(here .. 'rgb.png'))))
    local parts = df.run(df.decode_image(df.read_file(df.constant(here .. 'rgb.png')), { dtype = 'float32' }))
    assert.equal('float32', parts.dtype)
    assert.is_true(df.run(df.reduce_max(df.abs(parts - df.cast(whole, 'float32') / 255))) < 1e-6)
  end)

  it('that is a JPEG has every ratio-th pixel of each axis, or is decoded in another way, near the first', function()
    local bytes = df.read_file(df.constant(here .. 'flat.jpg'))
    local whole = df.run(df.decode_jpeg(bytes))
    for _, ratio in ipairs{ 2, 4, 8 } do
      local small = df.run(df.decode_jpeg(bytes, { ratio = ratio }))
      assert.same({ math.ceil(whole.shape[1] / ratio), math.ceil(whole.shape[2] / ratio), whole.shape[3] }, small.shape)
      assert.is_true(math.abs(df.run(df.reduce_mean(df.cast(small, 'float32'))) - df.run(df.reduce_mean(df.cast(whole, 'float32')))) < 4)
    end
    for _, how in ipairs{ { dct_method = 'INTEGER_FAST' }, { fancy_upscaling = false } } do
      assert.is_true(df.run(df.reduce_mean(df.abs(df.cast(df.decode_jpeg(bytes, how), 'float32') - df.cast(whole, 'float32')))) < 8)
    end
    assert.matches('ratio is 3: expected 1, 2, 4 or 8', fails(df.decode_jpeg, bytes, { ratio = 3 }).message)
  end)

  it('that ends early is an error, or is filled up where that is asked for', function()
    local bytes = shell.read(here .. 'flat.jpg')
    local half = df.constant(bytes:sub(1, #bytes - 8))
    assert.equal('invalid_argument', fails(df.run, df.decode_jpeg(half)).code)
    assert.same(df.data.image(here .. 'flat.jpg').shape, df.run(df.decode_jpeg(half, { try_recover_truncated = true })).shape)
    assert.matches('no PNG, JPEG or PNM', fails(df.run, df.decode_png(df.constant 'GIF')).message)
    assert.matches('a GIF picture: PNG, JPEG and PNM are read', fails(df.run, df.decode_png(df.constant 'GIF89a')).message)
    assert.matches('one picture', fails(df.decode_image, df.constant{ 'a' }).message)
  end)
end)
