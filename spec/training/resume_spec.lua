--- A training run that is cut in the middle of an epoch, and one that goes on from its checkpoint: the same numbers, bit for bit.
local df = require 'dflow'

local shell = require('spec.shell').output

describe('a training run', function()
  it('goes on from a checkpoint as if nothing had happened: dropout, slots, schedule, pipeline', function()
    df.set_random_seed(11)
    local ROWS, TIME, SIZE, IDS = 40, 6, 8, 5
    local folder = shell 'mktemp -d':match '%S+'
    local x = df.placeholder('int32', { -1, TIME })
    local at = df.Variable(df.int32(0), { name = 'global_step', trainable = false })
    local embed, block, out = df.nn.Embedding(IDS, SIZE), df.nn.TransformerBlock(2, SIZE, { dropout = 0.2, causal = true }), df.nn.Dense(IDS)
    local logits = out(df.nn.LayerNorm()(block(embed(x), { training = true })))
    local loss = df.reduce_mean(df.sparse_softmax_cross_entropy_with_logits(logits, x))
    local rate = df.train.cosine_decay(0.02, at, 30)
    local average = df.train.ExponentialMovingAverage(0.9)
    local step = df.train.AdamW(rate, { weight_decay = 0.1, clip_norm = 1 }):minimize(loss, { global_step = at })
    local averaged = df.control_dependencies({ step }, function() return average:apply{ out.kernel } end)
    local rows = {}
    for i = 1, ROWS do
      rows[i] = {}
      for t = 1, TIME do rows[i][t] = (i * i + 3 * t * i) % IDS end
    end
    local function data() return df.data.pipeline(df.tensor(rows, 'int32')):shuffle(16, 4):repeat_(3):batch(7):prefetch(2) end     -- as another process would
    local saver = df.train.Saver{ max_to_keep = 2, background = true }
    local function walk(s, it, from, to, save_at)
      local seen = {}
      for k = from, to do
        seen[#seen + 1] = s:run({ loss, averaged, step }, { [x] = it() })[1]
        if k == save_at then saver:save(folder .. '/net', { step = k, session = s, metadata = { place = it:state() } }) end
      end
      seen[#seen + 1] = s:run(average:average(out.kernel)):totable()
      return seen
    end
    local whole = walk(df.Session{}, data():each(), 1, 14)
    walk(df.Session{}, data():each(), 1, 9, 8)                     -- ends a step after it was saved
    local s = df.Session{}
    local _, about = saver:restore(saver:latest(folder .. '/net'), { session = s })
    local rest = walk(s, data():each{ state = about.place }, 9, 14)
    assert.equal(7, #rest)
    assert.equal(14, s:run(at))
    for k = 1, 7 do assert.same(whole[8 + k], rest[k]) end
    shell('rm -rf ' .. folder)
  end)

  it('is the same, bit for bit, whatever is looked at in between, in the run that goes on and after a checkpoint', function()
    df.set_random_seed(4)
    local folder = shell 'mktemp -d':match '%S+'
    local x, training = df.placeholder('float32', { -1, 4 }), df.placeholder('bool', {})
    local dense = df.nn.Dense(3)
    local step_of = df.Variable(df.int32(0), { name = 'global_step', trainable = false })
    local seen = df.cond(training, function() return df.dropout(x, { keep_prob = 0.5 }) end, function() return x end)
    local loss = dense(seen):square():reduce_mean()
    local step = df.train.SGD(0.1):minimize(loss, { global_step = step_of })
    local sample, noise = df.random_normal{ 2 }, df.random_uniform({ 2 }, { seed = 1 })
    local feeds = { [x] = { { 1, 2, 3, 4 }, { 4, 3, 2, 1 } }, [training] = true }
    local function look(s)
      assert.is_true(s:run(step_of) >= 0)
      s:run(loss, { [x] = { { 1, 1, 1, 1 } }, [training] = false })                -- the branch with the dropout is not taken
      s:run{ sample, noise }
      s:start(sample):wait()
      local many = {}
      for i = 1, 70 do many[i] = sample * i end
      s:run(many)
    end
    local function train(s, from, to, between)
      local out = {}
      for k = from, to do
        out[#out + 1] = s:run({ loss, step }, feeds)[1]
        if between then between(s) end
        if k == 3 then df.save(folder .. '/net.safetensors', { session = s }) end
      end
      out[#out + 1] = s:run(dense:parameters()[1]):totable()
      return out
    end
    local plain = train(df.Session{}, 1, 6)
    assert.same(plain, train(df.Session{}, 1, 6, look))
    for _, between in ipairs{ function() end, look } do
      local s = df.Session{}
      if between == look then s:run{ sample } end
      df.restore(folder .. '/net.safetensors', { session = s })
      between(s)
      local rest = train(s, 4, 6, between)
      for k = 1, 4 do assert.same(plain[3 + k], rest[k]) end
    end
    shell('rm -rf ' .. folder)
  end)
end)

describe('a random op', function()
  it('counts the runs in which it draws, in the order of their starts, and no others', function()
    local x, on = df.random_uniform({ 2 }, { name = 'x' }), df.placeholder('bool', {})
    local y = df.cond(on, function() return df.random_uniform({ 2 }, { name = 'y' }) end, function() return df.zeros{ 2 } end)
    local v = df.Variable(df.random_normal{ 2 })
    local s, t = df.Session{}, df.Session{}
    local first = s:run(x):totable()
    assert.same({ x = 1 }, s:position())
    for _ = 1, 3 do s:run(y, { [on] = false }) s:run(v) end
    assert.same({ x = 1 }, s:position())
    local drawn = s:run(y, { [on] = true }):totable()
    local second = s:run(x):totable()
    assert.are_not.same(first, second)
    assert.same({ drawn, first, second }, { t:run(y, { [on] = true }):totable(), t:run(x):totable(), t:run(x):totable() })
    assert.same(s:position(), t:position())
    local a, b = s:start(x), s:start(x)
    local third, fourth = a:wait():totable(), b:wait():totable()
    assert.same({ third, fourth }, { t:run(x):totable(), t:run(x):totable() })
    assert.are_not.same(third, fourth)
    s:seek(1)
    assert.same({ 1 }, s:position())
    assert.same(second, s:run(x):totable())
    s:seek{ x = 2 }
    assert.same(third, s:run(x):totable())
  end)

  it('that a gradient computes again draws what it drew, however often either has run', function()
    local x = df.placeholder('float32', { 4 })
    local drop = df.checkpoint(function(v) return df.dropout(v, { keep_prob = 0.5 }) * v end)
    local y = drop(x)
    local _, z = df.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, df.dropout(v, { keep_prob = 0.5 }) * v end,
                               { df.int32(0), x }, { save = 'recompute' })
    for i, out in ipairs{ y, z } do
      local g, s = df.gradients(out:reduce_sum(), x), df.Session{}
      local feeds = { [x] = { 1, 1, 1, 1 } }
      for _ = 1, 3 do s:run(out, feeds) end
      local r = s:run({ out, g }, feeds)
      for k = 0, 3 do
        local value = r[1]:at(k)
        assert.equal(value * (i == 1 and 2 or 8), r[2]:at(k))
      end
    end
  end)
end)
