--- Large parts of a tensor along its first axis share its memory: x[i], slices, unstack, split.
local df = require 'dflow'
local support = require 'spec.support'

describe('a large part of a tensor along its first axis', function()
  local N, M = 6, 16384

  local function filled()
    return df.run((df.range(0, N * M):cast('float32') / 3):reshape{ N, M })
  end

  it('has the elements that it names, as the reference kernels give them', function()
    local x, i = df.placeholder('float32', { N, M }), df.placeholder('int32', {})
    local parts = { x[i], x[2], x:slice({ 1, 0 }, { 3, M }), x:strided_slice({ 2, 0 }, { 5, M }), x:strided_slice({ 0, 4 }, { 5, M }) }
    for _, p in ipairs(df.unstack(x)) do parts[#parts + 1] = p end
    for _, p in ipairs(df.split(x, 3)) do parts[#parts + 1] = p end
    local feeds = { [x] = filled(), [i] = 4 }
    local cpu, ref = df.Session{}, df.Session{ kernels = 'ref' }
    assert.same(support.bits(ref:run(parts, feeds)), support.bits(cpu:run(parts, feeds)))
    feeds[i] = N
    assert.is_false(pcall(cpu.run, cpu, parts, feeds))
  end)

  it('takes no memory of its own', function()
    local x, i = df.placeholder('float32', { N, M }), df.placeholder('int32', {})
    local s = df.Session{}
    local function peak(y)
      local given = filled()
      s:run(y, { [x] = given, [i] = 1 })
      collectgarbage()
      local before = s:stats().memory['cpu:0'].in_use
      local kept = s:run(y, { [x] = given, [i] = 1 })
      local after = s:stats().memory['cpu:0'].in_use
      return after - before, kept
    end
    assert.is_true(peak(x[i]) < M * 4)
  end)

  it('stays what it was when the variable that it was read of is assigned to', function()
    local v = df.Variable(filled())
    local i = df.placeholder('int32', {})
    local s = df.Session{}
    local row = s:run(v:value()[i], { [i] = 2 })
    local was = row:totable()
    s:run(v:assign_add(df.ones{ N, M }))
    assert.same(was, row:totable())
    assert.equal(was[1] + 1, s:run(v:value()[i], { [i] = 2 }):totable()[1])
    local before = v:value()[i]
    local after = df.control_dependencies({ df.group(v:assign_sub(df.ones{ N, M })) }, function() return before * 1 end)
    assert.equal(was[1] + 1, s:run(after, { [i] = 2 }):totable()[1])
  end)

  it('is not written to by an op that works in place', function()
    local x, i = df.placeholder('float32', { N, M }), df.placeholder('int32', {})
    local y = x * 1.5
    local row = y[i]
    local s = df.Session{}
    local found = s:run({ df.neg(row), row + 1, y[i] * 2, y }, { [x] = filled(), [i] = 1 })
    local expected = df.Session{ kernels = 'ref' }:run({ df.neg(row), row + 1, y[i] * 2, y }, { [x] = filled(), [i] = 1 })
    assert.same(support.bits(expected), support.bits(found))
  end)

  it('of a loop that goes through the layers of a stack of weights has the same gradients', function()
    local w, x = df.placeholder('float32', { 4, 96, 96 }), df.placeholder('float32', { 2, 96 })
    local _, y = df.while_loop(function(l) return l:lt(4) end, function(l, h) return l + 1, df.tanh(h:matmul(w[l]) * 0.1) end, { df.int32(0), x })
    local fetches = { y, df.gradients(y:reduce_sum(), w) }
    local feeds = { [w] = df.run((df.range(0, 4 * 96 * 96):cast('float32') / 40000):reshape{ 4, 96, 96 }), [x] = df.ones({ 2, 96 }):eval() }
    local a, b = df.Session{ engine = 'tokens' }:run(fetches, feeds), df.Session{ kernels = 'ref', engine = 'tokens' }:run(fetches, feeds)
    support.near(a, b, { rtol = 1e-4, atol = 1e-5 })
  end)
end)
