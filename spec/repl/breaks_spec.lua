--- The prompt's breakpoints: their numbers, and what they hold on to.
local breaks = require 'dflow.repl.breaks'

--- What of a run breakpoints need.
local function run()
  local h = { set = {}, taken = {} }
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

  it('are taken away by number, of the run that stands still and of those to come', function()
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
end)
