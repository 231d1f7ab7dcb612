-- Every example runs, and says what it should. Long ones get short settings here, and one full run.
local shell = require 'spec.shell'
local support = require 'spec.support'

-- The driver for tests is a hundred times as slow as the host: there, too, they get short settings; and in `make test`.
local mode = (os.getenv('DFLOW_DEFAULT_DEVICE') or ''):find('^gpu') and 'short' or support.sample('debug', os.getenv 'DFLOW_MODE' or 'release')

local function example(name, arguments)
  local r = shell.run(('%s examples/%s.lua %s'):format(shell.lua, name, arguments or ''))
  assert.are.equal(0, r.status, r.out .. r.err)
  return r.out
end

local host_it = support.host_it(it, pending)       -- long trainings: the driver for tests is a hundred times as slow

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
      return shell.read(name)
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

  it('peers differentiates twice what TensorFlow, PyTorch and JAX hand on', function()
    assert.equal(3, select(2, example('peers'):gsub('256, its gradient 1024, and that of the gradient 3584\n', '')))
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

  it('names_rnn makes up names, and foresees held-out ones to 1.95 nats per letter', function()
    local out = example('names_rnn', mode == 'release' and '' or mode == 'short' and '1' or '20')
    local names = out:match('([%a ]+)\n$')
    assert.is_true(select(2, names:gsub('%S+', '')) >= 10, out)
    assert.is_true(mode ~= 'release' or tonumber(out:match('\n([%d.]+) nats per letter of 500')) <= 1.95, out)
  end)

  host_it('digits_cnn reads at least 98 % of the held-out digits', function()
    local out = example('digits_cnn', mode == 'release' and '' or 'epochs=2')
    assert.is_true(mode ~= 'release' or tonumber(out:match('([%d.]+) %% of the held%-out digits')) >= 98, out)
  end)

  host_it('quantized reads as well in bytes as in floats', function()
    local out, n = example('quantized', 'wide=no' .. (mode == 'release' and '' or ' epochs=1')), 0
    for float, bytes in out:gmatch('1 times +([%d.]+) +([%d.]+)') do
      n = n + 1
      assert.is_true(math.abs(float - bytes) <= (mode == 'release' and 0.6 or 2), out)
    end
    assert.equal(2, n)
  end)

  host_it('digits_rnn reads at least 96 % of the held-out digits', function()
    if mode ~= 'release' then
      local out = example('digits_rnn', 'epochs=2')
      assert.is_truthy(out:match('epoch  2'), out)
      return
    end
    local out = example('digits_rnn')
    assert.is_true(tonumber(out:match('([%d.]+) %% of the held%-out digits')) >= 96, out)
  end)

  host_it('digits_rnn takes other files', function()
    local d = 'examples/data/'
    local out = example('digits_rnn', ('%st10k-images-idx3-ubyte.gz %st10k-labels-idx1-ubyte.gz '
      .. '%strain-images-idx3-ubyte.gz %strain-labels-idx1-ubyte.gz epochs=1'):format(d, d, d, d))
    assert.is_truthy(out:match('360 digits to learn from, 1437 held out'), out)
  end)

  --- Runs one that learns: in full where it is fast, else a few steps of it, and then nothing is asked of what it reached.
  local function learner(name, few, reached, shows)
    if mode == 'short' then return assert.is_true(example(name, math.max(1, math.floor(few / 20))) ~= '') end
    local out = example(name, mode == 'release' and '' or few)
    if mode == 'release' then assert.is_true(reached(out), out) else assert.is_truthy(out:match(shows or 'step +%d+'), out) end
  end

  it('addition gets 95 % of the sums right that it never saw', function()
    learner('addition', '20', function(out) return tonumber(out:match('([%d.]+) %% of the held%-out sums')) >= 95 end)
  end)

  it('act gets all signs right, and its ponder cost falls', function()
    learner('act', '20', function(out)
      local right, from, to = out:match('([%d.]+) %% right; the ponder cost fell from ([%d.]+) to ([%d.]+)')
      return tonumber(right) >= 99 and tonumber(to) < 0.6 * tonumber(from)
    end)
  end)

  it('experts finds an expert for each move, and runs no other', function()
    learner('experts', '20', function(out)
      local symbols, seen, n = out:match('each move goes to: +([%d ]+)'), {}, 0
      for k in symbols:gmatch('%d') do
        n = n + (seen[k] and 0 or 1)
        seen[k] = true
      end
      for share in out:match('an expert ran: +([^\n]*)'):gmatch('(%d+) %%') do if tonumber(share) > 90 then return false end end
      return n == 4 and tonumber(out:match('squared error ([%d.]+)\n$')) < 0.01
    end)
  end)

  host_it('transformer spells names', function()
    learner('transformer', '10', function(out) return tonumber(out:match('([%d.]+) nats per letter of 500')) < 2 end)
  end)

  it('trees reads expressions larger than those it learned from', function()
    learner('trees', '250', function(out) return tonumber(out:match('([%d.]+) %% of trees with 12 leaves are right\n$')) >= 98 end)
  end)

  it('words foresees a word by its neighbour better than by how frequent it is', function()
    learner('words', '500', function(out)
      local nats, frequent = out:match('([%d.]+) nats per neighbour of %d+ held%-out pairs, by frequency ([%d.]+)')
      return tonumber(nats) < tonumber(frequent) - 0.1
    end)
  end)

  -- What a processor rounds otherwise makes another run of it; all that were tried stand for 195 steps, most of them after 50,000.
  for name, o in pairs{ dqn = { '1500', 150 }, actor_critic = { '20', 195 } } do
    local this_it = name == 'actor_critic' and host_it or it            -- its hundred episodes, too, take minutes there
    this_it(name .. ' keeps the pole upright, in the mean of a hundred episodes', function()
      learner(name, o[1], function(out)
        return tonumber(out:match('mean length ([%d.]+) over 100')) >= o[2] and out:match('times as fast in the graph') ~= nil
      end, 'mean length [%d.]+ over 100')
    end)
  end

  host_it('logistic finds the least, twice', function()
    local out = example('logistic')
    local found = {}
    for loss, right in out:gmatch('loss ([%d.]+) after [^\n]* ([%d.]+) %% of the others') do
      found[#found + 1] = tonumber(loss)
      assert.is_true(tonumber(right) >= 95, out)
    end
    assert.equal(2, #found, out)
    assert.is_true(math.abs(found[1] - found[2]) < 1e-3, out)
  end)

  it('neural_ode foresees the next year, by a solver that chooses its steps', function()
    learner('neural_ode', '20', function(out)
      local found, same = out:match('squared error of ([%d.]+); "as this year" has ([%d.]+)')
      return tonumber(found) < 0.25 * tonumber(same)
    end, 'next year is foreseen')
  end)

  it('maml learns digits that no weight has seen in a few steps', function()
    learner('maml', '10', function(out)
      local got, fresh = out:match('before adapting, ([%d.]+) %% after 5'), out:match('nobody had trained: ([%d.]+) %%')
      return tonumber(got) > tonumber(fresh) and tonumber(got) >= 80
    end, 'nobody had trained')
  end)

  it('tour makes twenty stops', function()
    local out = example('tour', '1 epochs=1')
    for n = 1, 20 do assert.is_truthy(out:match('\n' .. n .. '%. '), 'stop ' .. n) end
    assert.is_truthy(out:match('1024') and out:match('3584'))
  end)
end)
