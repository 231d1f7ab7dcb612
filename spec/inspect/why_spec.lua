-- Why, and why not: asked of any node from anywhere in a paused run.
local df = require 'dflow'
local cond, while_loop = df.cond, df.while_loop
local ordered_it = require('spec.support').ordered_it(it, pending)

describe('why and whynot', function()
  local h
  after_each(function()
    if h then
      h:cancel()
      pcall(h.wait, h)
    end
    h = nil
  end)

  --- A loop in a loop with a branch, and the gradient of it; stopped where Mul is dead in the last iteration of the inner loop of while:4.
  local function nested()
    df.reset()
    local v = df.placeholder('float32', {}, 'v')
    local _, y = while_loop(function(i) return i:lt(20) end, function(i, y)
      local _, z = while_loop(function(j) return j:lt(i) end, function(j, z)
        return j + 1, cond((j % 2):eq(0), function() return z * v end, function() return z + v end)
      end, { df.int32(0), y }, { name = 'inner' })
      return i + 1, z * 0.5
    end, { df.int32(0), df.float32(1) }, { name = 'outer' })
    local fetch = y:identity()
    local g = df.gradients(fetch, v)
    h = df.start({ fetch, g }, { [v] = 1.5 }, { paused = true, values = true })
    h:settle()
    return v, y, g, fetch
  end
  local function at_4()
    local v, y, g, fetch = nested()
    h:break_at{ op = 'outer/inner/cond/Mul', frame = 'outer/inner', iteration = 4 }
    h:resume()
    assert.equal('outer:4/outer/inner:4', h:settle().tag)
    return v, y, g, fetch
  end

  it('find the frame of a node from where the run stands, outwards and inwards', function()
    local v = at_4()
    assert.matches('^v:0 is 1.5 = Placeholder', h:why(v))
    assert.matches('^outer/Less:0 @ outer:4 is true', h:why('outer/Less'))
    assert.matches('^outer/inner/Less:0 @ outer:4/outer/inner:3 is true', h:why('outer/inner/Less', 'outer:4/outer/inner:3'))
    assert.matches('^outer/inner/cond/Mul:0 @ outer:5/outer/inner:0: `outer:5/outer/inner` has not begun: 1 of its inputs has not come$',
      h:why('outer/inner/cond/Mul', 'outer:5'))
    assert.matches('no frame of its loop `gradients/outer/.*` is open', h:why('gradients/outer/inner/Sub'))
  end)

  it('name the frames that there are where one is asked for that is not', function()
    nested()
    local ok, e = pcall(h.break_at, h, { frame = 'otter' })
    assert.is_false(ok)
    assert.equal('not_found', e.code)
    assert.matches('this run has no frame `otter` %(it has .*outer, .*outer/inner', e.message)
  end)

  it('are asked where a breakpoint stopped: of an inner node in one iteration of the outer loop, or in one of the inner loop there', function()
    nested()
    h:break_at{ op = 'outer/inner/Less', frame = 'outer', iteration = 5 }
    h:resume()
    assert.equal('outer:5/outer/inner:0', h:settle().tag)
    h:unbreak()
    h:break_at{ op = 'outer/inner/Less', frame = 'outer:7/outer/inner', iteration = 3 }
    h:break_at{ op = 'outer/inner/Less', frame = 'outer:8/outer/inner:2' }
    for _, tag in ipairs{ 'outer:7/outer/inner:3', 'outer:8/outer/inner:2' } do
      h:resume()
      assert.equal(tag, h:settle().tag)
    end
  end)

  it('name each node of a chain of dead tokens, from the one asked about to the Switch', function()
    at_4()
    local lines = {}
    for line in h:why('outer/inner/cond/Mul'):gmatch('[^\n]+') do lines[#lines + 1] = line end
    assert.equal(3, #lines)
    assert.matches('^outer/inner/cond/Mul:0 @ outer:4/outer/inner:4 is dead: its input (outer/inner/cond/Switch%S*) was dead', lines[1])
    local switch = lines[1]:match('its input (%S+)')
    assert.equal(1, lines[2]:find('  dead: ' .. switch .. ': its input outer/inner/Switch_1 was dead', 1, true))
    assert.matches('^  dead: the Switch outer/inner/Switch_1 took false, since .* < .* was 4 < 4', lines[3])
  end)

  it('name what a dead node waits for without taking a value', function()
    local g = df.import_graph_def([[
      node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { } } } }
      node { name: "p" op: "Placeholder" attr { key: "dtype" value { type: DT_BOOL } } attr { key: "shape" value { shape { } } } }
      node { name: "switch" op: "Switch" input: "x" input: "p" attr { key: "T" value { type: DT_FLOAT } } }
      node { name: "taken" op: "Neg" input: "switch:1" attr { key: "T" value { type: DT_FLOAT } } }
      node { name: "after" op: "Square" input: "x" input: "^taken" attr { key: "T" value { type: DT_FLOAT } } }
      node { name: "last" op: "Merge" input: "after" input: "x" attr { key: "T" value { type: DT_FLOAT } } attr { key: "N" value { i: 2 } } }
    ]])
    assert.equal('taken', g:op('after').control_inputs[1].name)
    local s = df.Session{ graph = g }
    local long = g:as_default(function() return (while_loop(function(i) return i:lt(2000000000) end, function(i) return i + 1 end, { df.int32(0) })) end)
    h = s:start({ g:output 'last', long }, { ['x:0'] = 2, ['p:0'] = false }, { values = true })
    h:settle(0.2)
    h:pause()
    local lines = h:why 'after'
    assert.matches('after:0 is dead: it waits for taken, which was dead.*\n.*its input switch was dead.*\n.*the Switch switch took false', lines)
    h:cancel()
    pcall(h.wait, h)
    h = nil
    s:close()
  end)

  it('go back to the iteration that has the value when no frame is named', function()
    nested()
    h:break_at{ op = 'outer/inner/cond/Mul', frame = 'outer/inner', iteration = 2 }
    h:resume()
    h:settle()
    assert.matches('^outer/inner/cond/Merge:0 @ outer:%d+/outer/inner:1 is ', h:why('outer/inner/cond/Merge'))
  end)

  it('say how far a loop is that something waits for', function()
    local _, y, g, fetch = at_4()
    assert.matches('^outer/Exit_1:0 has not come: the loop outer goes on, iterations 4%-20 are in flight', h:why(y))
    local text = h:whynot(y)
    assert.matches('waits for the loop outer to end: iterations 4%-20 are in flight', text)
    assert.matches('outer/inner/cond/Mul @ outer:4/outer/inner:4 is ready and runs soon', text)
    assert.matches('hands on outer/Exit_1.*\n.*the loop outer to end', h:whynot(fetch))
    text = h:whynot(g)
    assert.matches('waits for the loop gradients/outer to begin', text)
    assert.matches('which waits for gradients/outer/Exit.*\n.*the loop outer to end', text)
    assert.matches('the loop gradients/outer/.* to begin', h:whynot('gradients/outer/inner/Sub'))
  end)

  it('follow a loop variable back to what moves', function()
    at_4()
    local text = h:whynot('outer/NextIteration_1', 'outer:12')
    assert.matches('the loop outer:12/outer/inner to begin', text)
    assert.matches('NextIteration_1 @ outer:11', text)
    assert.matches('and so on, back to iteration 4:.*is ready and runs soon', text)
    assert.matches('iteration 99 of `outer` has not begun: iterations 4%-20 are in flight', h:whynot('outer/Less', 'outer:99'))
    assert.matches('iteration 99 of `outer` has not begun', h:why('outer/Less', 'outer:99'))
  end)

  it('know what a value that has not come is, though an iteration before left one in its slot', function()
    at_4()
    assert.matches('outer/inner/Exit_1.*goes on', h:why('outer/inner/Exit_1', 'outer:5'))
    assert.matches('not yet', h:why('outer/Merge_1', 'outer:12'):gsub('in this iteration yet', 'not yet') .. '')
    assert.matches('waits for outer/NextIteration_1 @ outer:11', h:whynot('outer/Merge_1', 'outer:12'))
  end)

  it('name the queue that a loop is stuck at', function()
    local q = df.FIFOQueue(2, { 'int32' }, { name = 'letters' })
    local n = while_loop(function(i) return i:lt(5) end, function(i)
      q:enqueue(i)
      return i + 1
    end, { df.int32(0) })
    h = df.start(n)
    h:settle(0.2)
    h:pause()
    assert.matches('the loop while to end: iterations? 2.* in flight.*while/QueueEnqueueV2 @ while:2 waits for room in the queue letters %(2 fit in%)', h:whynot(n))
    assert.matches('it waits for room in the queue letters', h:whynot('while/QueueEnqueueV2', 'while:2'))
    h:resume()
    local got = df.start(q:dequeue())
    assert.equal(0, got:wait())
    for i = 1, 2 do assert.equal(i, df.run(q:dequeue())) end
    assert.equal(5, h:wait())
    local letter = df.FIFOQueue(2, { 'int32' }, { name = 'empty' }):dequeue()
    h = df.start(letter)
    h:settle(0.1)
    h:pause()
    assert.matches('it waits for an element of the queue empty', h:whynot(letter))
    h:cancel()
    local staged = require('dflow.front.registry').op('Unstage', {}, { dtypes = { 'int32' } })[1]
    h = df.start(staged)
    h:settle(0.1)
    h:pause()
    assert.matches('it waits for something outside the run', h:whynot(staged))
  end)
end)

describe('why and whynot in a graph that is cut', function()
  --- A paused run of a loop over two devices, whose links are slow or not.
  local function paused(latency)
    df.reset()
    local x = df.placeholder('float32', {}, 'x')
    local _, y = df.while_loop(function(i) return i:lt(5) end, function(i, y)
      local a = df.device('sim:0', function() return df.add(y, x, { name = 'a' }) end)
      return i + 1, df.device('sim:1', function() return df.multiply(a, 2, { name = 'b' }) end)
    end, { df.int32(0), x })
    local s = df.Session{ devices = { 'cpu:0', { 'sim:0', latency = latency }, { 'sim:1', latency = latency } } }
    local h = s:start(y, { [x] = 1 }, { paused = true, values = true })
    h:settle()
    return h, df.default_graph()
  end

  ordered_it('say that a value is on its way, and from where to where', function()
    local h, g = paused '1000s'
    h:break_at{ op = 'while/Less', iteration = 4 }
    h:resume()
    h:settle()
    assert.matches('whose value is on its way from [%w:]+ to sim:%d', h:whynot(g:op('while/b').outputs[1], 'while:0'))
    assert.matches('while/Less @ while:0 has run; its value is on its way from cpu:0 to sim:[01 orsim:]+', h:whynot(g:op('while/Exit').outputs[1]))
    h:cancel()
  end)

  ordered_it('follow a value over the cut', function()
    local h, g = paused '0us'
    h:break_at{ op = 'while/b', iteration = 2 }
    h:resume()
    h:settle()
    local text = h:why(g:op('while/a').outputs[1])
    assert.matches('while/a:0 @ while:2 is 11 = Add%(.- %(from sim:1%) = 10, .- %(from cpu:0%) = 1%) on sim:0', text)
    h:unbreak()
    h:resume()
    assert.are.equal(3 * 2 ^ 5 - 2, h:wait())
  end)
end)
