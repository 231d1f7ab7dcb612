--- What an op makes of its inputs, values or what is wrong with them, is the same whenever they are known: constants while it is built, or fed.
-- run: first
local late = require 'spec.late'
local df = require 'dflow'

describe('when an input is known', function()
  local ops = late.ops()

  it('is asked of most ops', function() assert.is_true(#ops > 250, #ops) end)

  for _, op in ipairs(ops) do
    it('does not matter to what comes out, to the error\'s code and to its words: ' .. op.type, function()
      for _, trial in ipairs(late.trials(op, 10)) do
        local how, seen = late.differs(op, trial)
        assert.is_nil(how, seen)
      end
    end)
  end

  it('does not matter to axes that are nested, or one number, and to gradients by them', function()
    local x, axes = df.placeholder('float32', { 2, 3 }), df.placeholder('int32')
    local function try(fn, value)
      local early, fed = fn(df.int32(value)), fn(axes)
      local feeds = { [x] = { { 1, 2, 3 }, { 4, 5, 6 } }, [axes] = value }
      local r = df.run({ early, fed, df.gradients((early * early):reduce_sum(), x), df.gradients((fed * fed):reduce_sum(), x) }, feeds)
      assert.same(r[1], r[2])
      assert.same(r[3]:totable(), r[4]:totable())
      return r[1], r[3]:totable()
    end
    local sum, g = try(function(a) return df.reduce_sum(x, { axis = a }) end, { { 1 }, { 0 } })
    assert.equal(21, sum)
    assert.same({ { 42, 42, 42 }, { 42, 42, 42 } }, g)
    assert.equal(6, (try(function(a) return df.reduce_max(x, { axis = a }) end, { { 1 }, { 0 } })))
    local op = require('dflow.front.registry').op
    local early, fed = op('ReverseV2', { x, df.int32(1) }), op('ReverseV2', { x, axes })
    local feeds = { [x] = { { 1, 2, 3 }, { 4, 5, 6 } }, [axes] = 1 }
    for _, y in ipairs{ early, fed } do assert.same({ { 3, 2, 1 }, { 6, 5, 4 } }, df.run(y, feeds):totable()) end
  end)
end)
