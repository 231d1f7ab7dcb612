-- What Lua's variables call the nodes of a graph: found in globals, locals, upvalues and fields, and never guessed.
local df = require 'dflow'
local naming = require 'dflow.front.naming'
local shell = require 'spec.shell'
local support = require 'spec.support'
local message_of = support.message_of

local upvalue

describe('a name of Lua', function()
  it('is that of a local, an upvalue or a field that holds the output', function()
    local first = df.float32(1) + 2
    upvalue = df.float32(1) * 2
    local model = { w = df.float32(1) - 2, layers = {} }
    local list = { df.float32(1) / 2 }
    local names = naming.collect(df.default_graph(), true)
    for name, o in pairs{ first = first, upvalue = upvalue, ['model.w'] = model.w, ['list[1]'] = list[1] } do
      assert.equal(name, naming.label(names, o.node, o.index))
    end
    assert.equal(('first (%s)'):format(first.op.name), naming.text(names, first.node, 0))
  end)

  it('is none where two variables of other names hold it, or the graph calls it so', function()
    local one = df.float32(1) + 2
    local other = one
    local x = df.placeholder('float32', {}, { name = 'x' })
    local names = naming.collect(df.default_graph(), true)
    assert.is_nil(naming.label(names, one.node, 0))
    assert.equal(one, other)
    assert.is_nil(naming.label(names, x.node, 0))
  end)

  it('is that of the function which asks, before that of its caller', function()
    local outside = df.float32(1) + 2
    local function asks(inside)
      local names = naming.collect(inside.graph, true)
      return naming.label(names, inside.node, 0), nil
    end
    assert.equal('inside', (asks(outside)))
  end)

  it('is a parameter of the body for what a loop variable became', function()
    local _, last = df.while_loop(function(i) return i:lt(3) end, function(i, state)
      return i + 1, { h = state.h * 2 }
    end, { df.int32(0), { h = df.float32(1) } })
    local names = naming.collect(df.default_graph(), true)
    local seen = {}
    for id = 0, df.default_graph():size() - 1 do
      local text = naming.text(names, id, 0)
      seen[text] = true
    end
    assert.is_true(seen['i (while/Merge)'] and seen['state.h (while/NextIteration_1)'])
    assert.is_true(seen['last.h (while/Exit_1)'] or seen['state.h (while/Exit_1)'])
    assert.is_truthy(last)
  end)

  it('is that of no function of dflow: its own loops have none', function()
    df.run(df.map_fn(function(row) return row * 2 end, df.float32{ 1, 2 }))
    for key, known in pairs(naming.collect(df.default_graph(), true).of) do
      assert(not known.name or not known.name:find '^i$', key)
    end
  end)

  it('stands in the message of what was not fed', function()
    local x = df.placeholder('float32', { 2 })
    local model = { input = df.placeholder('float32', { 2 }) }
    assert.matches(': the placeholder x %(`Placeholder`%), float32%[2%], was not fed', message_of(df.run, x + 1))
    assert.matches(': the placeholder model%.input %(`Placeholder_1`%)', message_of(df.run, { model.input * 2, x }, { [x] = { 1, 2 } }))
    local h = df.start(x * 3)
    assert.matches(': the placeholder x %(`Placeholder`%)', message_of(h.wait, h))
    local ok, e = pcall(df.run, x + 1)
    assert.is_false(ok)
    assert.matches('help: feeds are the second argument: df.run%(y, {%[x%] = value}%)', tostring(e))
  end)

  it('stands at the first mention in what the prompt says of a run', function()
    local g = df.default_graph()
    local sum = df.float32(1) + df.float32(2)
    local names = naming.collect(g, true)
    assert.equal('before sum (Add) in while:0, Add:0', naming.line(names, 'before Add (Add) in while:0, Add:0'):gsub(', sum %(Add:0%)', ', Add:0'))
    assert.equal('y = Add(x, 2)', naming.line(names, 'y = Add(x, 2)'))
    assert.equal('(Add) my/Add `Add`', naming.line(names, '(Add) my/Add `Add`'))
    assert.equal('sum (Add): 3', naming.line(names, 'Add: 3'))
    assert.is_truthy(sum)
    local said = shell.run(shell.dflow .. ' -i', table.concat({
      "x = df.placeholder('float32', {})", 'local n, y = while_loop(function(i, v) return i:lt(3) end, function(i, v) return i + 1, v * x end, {0, x})',
      'df.run(y, {[x] = 2})', ':why y', 'local h = df.start(y, {[x] = 2}, {paused = true})', ':step 8', ':tokens', ':cancel' }, '\n') .. '\n').out
    assert.matches('y %(while/Exit_1:0%)', said)
    assert.matches('[iv] %(while/%w+%)', said)
  end)
end)
