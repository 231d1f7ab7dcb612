-- Every example runs, and says what it should. Long ones get short settings here, and one full run.
local shell = require 'spec.shell'

local mode = os.getenv('DFLOW_MODE') or 'release'

local function example(name, arguments)
  local r = shell.run(('%s examples/%s.lua %s'):format(shell.lua, name, arguments or ''))
  assert.are.equal(0, r.status, r.out .. r.err)
  return r.out
end

describe('the example', function()
  it('mandelbrot draws the set', function()
    local out = example('mandelbrot')
    assert.is_truthy(out:match('::::') and out:match('=') and out:match('%*'), out)
    assert.is_true(select(2, out:gsub('\n', '')) >= 25)
  end)

  it('picture draws the picture that the README shows', function()
    local path = os.tmpname()
    example('picture', path)
    local function read(name)
      local file = assert(io.open(name))
      local text = file:read('*a')
      file:close()
      return text
    end
    assert.are.equal(read('examples/loop.svg'), read(path))
    os.remove(path)
    assert.is_truthy(example('picture'):match('while/cond/Merge: float32%[%] = cond{'))
  end)

  it('newton finds roots, and how they move', function()
    local out = example('newton')
    assert.is_truthy(out:match('2%.094551481542'), out)
    assert.is_truthy(out:match('0%.739085133215'), out)
    assert.is_truthy(out:match('100%s+10%.00000000%s+0%.050000000000%s+0%.050000000000'), out)
  end)

  it('collatz counts the flight of 27', function()
    local out = example('collatz')
    assert.is_truthy(out:match('\n +27 +111 steps  up to +9232'), out)
  end)

  it('cannon hits its target', function()
    local out = example('cannon')
    local landed = tonumber(out:match('lands at +([%d.]+) m[^\n]*\n$'))
    assert.is_true(math.abs(landed - 60) < 1e-4, out)
  end)

  it('life lets the glider fly', function()
    local out = example('life')
    assert.is_truthy(out:match('24 generations, 5 cells alive'), out)
  end)

  it('names_rnn makes up names', function()
    local out = example('names_rnn', '20')
    local names = out:match('([%a ]+)\n$')
    assert.is_true(select(2, names:gsub('%S+', '')) >= 10, out)
  end)

  it('digits_rnn reads at least 96 % of the held-out digits', function()
    if mode ~= 'release' then
      local out = example('digits_rnn', 'epochs=2')
      assert.is_truthy(out:match('epoch  2'), out)
      return
    end
    local started = os.time()
    local out = example('digits_rnn')
    assert.is_true(tonumber(out:match('([%d.]+) %% of the held%-out digits')) >= 96, out)
    assert.is_true(os.time() - started < 60)
  end)

  it('digits_rnn takes other files', function()
    local d = 'examples/data/'
    local out = example('digits_rnn', ('%st10k-images-idx3-ubyte.gz %st10k-labels-idx1-ubyte.gz '
      .. '%strain-images-idx3-ubyte.gz %strain-labels-idx1-ubyte.gz epochs=1'):format(d, d, d, d))
    assert.is_truthy(out:match('360 digits to learn from, 1437 held out'), out)
  end)

  it('tour makes twenty stops', function()
    local out = example('tour', '1 epochs=1')
    for n = 1, 20 do assert.is_truthy(out:match('\n' .. n .. '%. '), 'stop ' .. n) end
    assert.is_truthy(out:match('1024') and out:match('3584'))
  end)
end)
