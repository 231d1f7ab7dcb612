--- The prompt's breakpoints: their numbers, and what they hold on to.
local df = require 'dflow'
local breaks = require 'dflow.repl.breaks'

--- What of a run breakpoints need.
local function run()
  local h = { set = {}, taken = {}, session = { graph = df.default_graph() } }
  function h.break_at(_, spec)
    h.set[#h.set + 1] = spec
    return #h.set
  end
  function h.unbreak(_, id) h.taken[#h.taken + 1] = id end
  return h
end
local function lines(h)
  local list = {}
  breaks.list(h, function(line) list[#list + 1] = line:gsub('^breakpoint %d+: ', '') end)
  return table.concat(list, ', ')
end

describe('breakpoints of the prompt', function()
  before_each(function() breaks.remove(nil) end)
  after_each(function() breaks.remove(nil) end)

  it('are of one run, or of every run to come', function()
    local a, b = run(), run()
    assert.is_false(breaks.pending())
    breaks.add(a, 'Mul')
    assert.is_false(breaks.pending())
    breaks.add(nil, 'Add limit 1')
    assert.is_true(breaks.pending())
    breaks.set(b)
    assert.equal('Mul, Add limit 1', lines(a))
    assert.equal('Add limit 1', lines(b))
    assert.equal('Mul', a.set[1].op)
    assert.equal('Add', b.set[1].op)
    breaks.stopped(b, { breakpoint = 1 })
    assert.same({ 1 }, b.taken)
    assert.is_false(breaks.pending())
    assert.equal('Add limit 1  met 1 time, its limit', lines(b))
  end)

  it('are taken away by number, of the paused run and of those to come', function()
    local a, b = run(), run()
    breaks.add(nil, 'Add')
    breaks.set(a)
    breaks.add(b, 'Mul')
    local number = breaks.number(b, 1)
    assert.is_false(breaks.remove(a, number))               -- it is b's
    assert.equal('Add, Mul', lines(b))
    assert.is_true(breaks.remove(b, number))
    assert.same({ 1 }, b.taken)
    assert.is_true(breaks.remove(a, breaks.number(a, 1)))
    assert.same({ 1 }, a.taken)
    assert.matches('no breakpoints', lines(a))
  end)

  it('let a run go that is over', function()
    local known = setmetatable({ run() }, { __mode = 'v' })
    breaks.add(known[1], 'Mul')
    breaks.add(nil, 'Add')
    breaks.set(known[1])
    collectgarbage()
    collectgarbage()
    assert.is_nil(known[1])
  end)

  it('say what is no place, and what the graph has nothing of', function()
    local function says(text)
      local ok, why = pcall(breaks.add, nil, text)
      return ok and why or tostring(why)
    end
    for text, answer in pairs{
      ['3'] = "did you mean 'line 3'", ['lin 1'] = "did you mean 'line 1'", line = 'the number of a line is missing', ['line 0'] = 'a number from 1 up',
      frame = 'the name of a loop is missing', ['if'] = 'a condition on v is missing', ['Mul if v >'] = "'v >' is not finished",
      ['Mul if v ! 3'] = 'is no condition on v', ['('] = 'is no name, and no pattern', ['Mul@while:x'] = 'a blank between node and iteration', ['Mul Mul'] = 'is no place',
      ['limit 0'] = 'n is from 1 up',
    } do
      assert.matches(answer, says(text), 1, true)
    end
    df.reset()
    assert.matches('nothing that fits `it[`', says('it['), 1, true)                 -- no name got as far as what is wrong with it
    df.identity(1.0, { name = 'it' })
    assert.matches("^:break: 'it%[' is no name, and no pattern of names: malformed pattern", says('it['))
    df.reset()
    assert.matches('^breakpoint %d+, of every run from now on$', says('Mul'))       -- an op that may come
    assert.matches('so far the graph has nothing that fits `nope`', says('nope'), 1, true)
    assert.matches('nothing that fits `around:3`', says('around:3'), 1, true)
    df.while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, { df.int32(0) }, { name = 'around' })
    for _, text in ipairs{ 'around', 'around:3', 'Add around:2', 'line ' .. debug.getinfo(1, 'l').currentline - 1, 'nan' } do
      assert.matches('^breakpoint %d+, of every run from now on$', says(text), text)
    end
    local h = run()
    breaks.set(h)
    local frames = {}
    for _, spec in ipairs(h.set) do frames[#frames + 1] = spec.frame end
    assert.same({ 'around:3', 'around', 'around:3', 'around:2' }, frames)
  end)
end)
