--- Recurrent cells and loops, against what TensorFlow 2.15 (v1) computed (spec/training/tensorflow_rnn.py) and by themselves.
local df = require 'dflow'
local numbers = require 'spec.training.numbers'
local expected = require('spec.support').recorded 'spec/training/tensorflow_layers'
local support = require 'spec.support'
local near, message_of = support.near, support.message_of
local rnn = df.rnn

local function grads(y, xs)
  return df.gradients(df.reduce_sum(y * df.constant(numbers(y.shape, 99))), xs)
end
local function constant(...) return df.constant(numbers(...)) end
local function fed(shape, k) return df.placeholder_with_default(df.constant(numbers(shape, k))) end

--- Gives the variables the numbers 20, 21, … as the script does.
local function fill(vars)
  local list = {}
  for i, v in ipairs(vars) do list[i] = v:assign(df.constant(numbers(v.shape, 19 + i, 0.5))) end
  df.run(list)
end

describe('a recurrent cell', function()
  before_each(function() df.set_random_seed(1) end)

  for name, make in pairs{
    rnn = function() return rnn.RNNCell(4) end, lstm = function() return rnn.LSTMCell(4) end, gru = function() return rnn.GRUCell(4) end,
    peepholes = function() return rnn.LSTMCell(4, { peepholes = true, projection = 3, cell_clip = 0.5, proj_clip = 0.4, forget_bias = 0.5 }) end,
  } do
    it('is what TensorFlow makes it, over time and with lengths, gradients too: ' .. name, function()
      local cell, x = make(), fed({ 3, 5, 2 }, 1)
      local y, state = rnn.dynamic_rnn(cell, x, { lengths = { 5, 2, 0 } })
      assert.same({ 3, 5, cell.output_size }, y.shape)
      local vars = cell:parameters()
      if name == 'peepholes' then vars = { cell.kernel, cell.bias, cell.w_f_diag, cell.w_i_diag, cell.w_o_diag, cell.projection_kernel } end
      fill(vars)
      local wanted = { x }
      for _, v in ipairs(vars) do wanted[#wanted + 1] = v end
      local g = grads(y, wanted)
      local found = { y = y, dx = g[1], h = state }
      if df.type(state) == nil then found.c, found.h = state.c, state.h end
      for i, v in ipairs(vars) do
        found['d_' .. v.name:match('[^/]*$')] = df.reduce_sum(g[i + 1] * df.constant(numbers(v.shape, 98)))
      end
      local r = df.run(found)
      for k, v in pairs(expected['cell_' .. name]) do near(r[k], v, { atol = 2e-5, rtol = 1e-4, what = k }) end
    end)
  end

  it('has kernels that lie as in TensorFlow 1', function()
    local cell = rnn.LSTMCell(4, { projection = 3 })
    local y, state = cell(df.ones{ 2, 5 }, cell:zero_state(2, 'float32'))
    assert.same({ 2, 3 }, y.shape)
    assert.same({ 2, 4 }, state.c.shape)
    assert.same({ 8, 16 }, cell.kernel.shape)
    assert.same({ 16 }, cell.bias.shape)
    assert.equal('lstm_cell/kernel', cell.kernel.name)
    local gru = rnn.GRUCell(4)
    gru(df.ones{ 2, 5 }, gru:zero_state(2))
    near(df.run(gru.gate_bias), { 1, 1, 1, 1, 1, 1, 1, 1 })
    local any = rnn.RNNCell(2):zero_state(df.placeholder('int32', {}), 'float64')
    assert.same({ -1, 2 }, any.shape)
    assert.equal('float64', any.dtype)
  end)

  it('normalises its gates when asked to', function()
    local cell = rnn.LSTMCell(4, { layer_norm = true })
    local x, c, h = df.random_normal({ 2, 3 }, { seed = 1 }), df.random_normal({ 2, 4 }, { seed = 2 }), df.random_normal({ 2, 4 }, { seed = 3 })
    local y, after = cell(x, { c = c, h = h })
    assert.equal(11, #cell:parameters())
    local function norm(v) local m, s = df.moments(v, { 1 }, { keep_dims = true }) return (v - m) * df.rsqrt(s + 1e-12) end
    local i, j, fo, o = df.unpack(df.split(df.matmul(df.concat({ x, h }, 1), cell.kernel), 4, { axis = 1 }))
    local nc = norm(c * df.sigmoid(norm(fo) + 1) + df.sigmoid(norm(i)) * df.tanh(norm(j)))
    local r = df.run{ y, after.c, df.tanh(nc) * df.sigmoid(norm(o)), nc }
    near(r[1], r[3], { atol = 1e-5, rtol = 1e-4 })
    near(r[2], r[4], { atol = 1e-5, rtol = 1e-4 })
  end)

  it('is stacked, added to and thinned', function()
    local a, b = rnn.LSTMCell(4), rnn.GRUCell(4)
    local both = rnn.MultiRNNCell{ a, rnn.ResidualWrapper(b) }
    local x = df.constant(numbers({ 2, 3 }, 1))
    local y, state = both(x, both:zero_state(2))
    local ya, sa = a(x, a:zero_state(2))
    local yb = b(ya, b:zero_state(2))
    near(df.run{ y, state[1].c }, df.run{ yb + ya, sa.c })
    assert.equal(6, #both:parameters())
    for _, variational in ipairs{ false, true } do
      local thin = rnn.DropoutWrapper(rnn.RNNCell(50), { output_keep_prob = 0.5, seed = 3, variational = variational })
      local out = rnn.dynamic_rnn(thin, df.ones{ 1, 6, 2 })
      local r = df.run(df.cast(out:eq(0), 'float32'))
      local same = true
      for t = 1, 5 do for k = 0, 49 do same = same and r:at(0, t, k) == r:at(0, 0, k) end end
      assert.equal(variational, same)
      local dead = df.run(df.reduce_mean(df.cast(out:eq(0), 'float32')))
      assert.is_true(dead > 0.3 and dead < 0.7, dead)
      thin:eval()
      assert.equal(0, df.run(df.reduce_sum(df.cast(rnn.dynamic_rnn(thin, df.ones{ 1, 6, 2 }):eq(0), 'float32'))))
    end
  end)

  it('is thinned in each part of its state by a mask of its own, but not in what an LSTM remembers by', function()
    local n = 400
    local function parts(state, path, into)
      if df.type(state) == 'output' then into[#into + 1] = { path, state } return into end
      local keys = {}
      for k in pairs(state) do keys[#keys + 1] = k end
      table.sort(keys)
      for _, k in ipairs(keys) do parts(state[k], path .. '.' .. k, into) end
      return into
    end
    for name, make in pairs{
      rnn = function() return rnn.RNNCell(n) end, gru = function() return rnn.GRUCell(n) end, lstm = function() return rnn.LSTMCell(n) end,
      many = function() return rnn.MultiRNNCell{ rnn.LSTMCell(n), rnn.GRUCell(n), rnn.LSTMCell(n) } end,
      inside = function() return rnn.MultiRNNCell{ rnn.MultiRNNCell{ rnn.GRUCell(n), rnn.GRUCell(n) }, rnn.GRUCell(n) } end,
    } do
      for _, variational in ipairs{ false, true } do
        df.reset()
        local cell = make()
        local thin = rnn.DropoutWrapper(cell, { state_keep_prob = 0.75, variational = variational, seed = 5 })
        local x, state = df.ones{ 1, 2 }, cell:zero_state(1)
        local y, plain = cell(x, state)
        local same_y, thinned = thin(x, state)
        plain, thinned = parts(plain, name, {}), parts(thinned, name, {})
        local whole, left, masks = {}, {}, {}
        for i = 1, #plain do whole[i], left[i] = plain[i][2], thinned[i][2] end
        local r = df.run{ whole = whole, left = left, y = y, same_y = same_y }
        near(r.same_y, r.y, { what = name })
        for i, part in ipairs(plain) do
          assert.equal(part[1], thinned[i][1])
          local was, is, mask, dropped = r.whole[i]:totable()[1], r.left[i]:totable()[1], {}, 0
          if part[1]:find '%.c$' then assert.same(was, is, part[1])
          else
            for k = 1, n do
              mask[k] = is[k] == 0 and 0 or 1
              dropped = dropped + 1 - mask[k]
              near(is[k], mask[k] * was[k] / 0.75, { rtol = 1e-5, atol = 1e-7, what = part[1] })
            end
            assert(dropped > 0.15 * n and dropped < 0.35 * n, part[1] .. ' loses ' .. dropped)
            local text = table.concat(mask)
            assert(not masks[text], part[1] .. ' is thinned as ' .. tostring(masks[text]) .. ' is')
            masks[text] = part[1]
          end
        end
      end
    end
  end)

  it('asks nothing of what lies past the lengths, however little the rest has scored; where there is none, of all alike', function()
    for _, dtype in ipairs{ 'float32', 'float16', 'float64' } do
      local memory = df.constant({ { { 1 }, { 1 }, { 1 } }, { { 1 }, { 1 }, { 1 } } }, dtype)
      local how = rnn.LuongAttention(1, memory, { lengths = { 2, 0 } })
      local key = df.run(how.keys):at(0, 0, 0)
      local least = dtype == 'float16' and -1e3 or -1e7                     -- what the first two score
      local mix, weights = how.attend(df.constant({ { least / key }, { least / key } }, dtype))
      local got = df.run{ mix, weights }
      for k, w in ipairs{ 0.5, 0.5, 0 } do assert.is_true(math.abs(got[2]:at(0, k - 1) - w) < 1e-3, dtype) end
      for k = 1, 3 do assert.is_true(math.abs(got[2]:at(1, k - 1) - 1 / 3) < 1e-3, dtype) end
      assert.is_true(math.abs(got[1]:at(0, 0) - 1) < 1e-2)
      assert.is_true(got[1]:at(1, 0) == 0)
    end
  end)

  it('attends to a memory, within its lengths', function()
    local memory = df.placeholder_with_default(df.constant(numbers({ 2, 4, 3 }, 1)))
    for _, make in ipairs{ rnn.BahdanauAttention, rnn.LuongAttention } do
      local cell = rnn.AttentionWrapper(rnn.GRUCell(5), make(5, memory, { lengths = { 2, 4 } }), { attention_size = 6 })
      local y, state = rnn.dynamic_rnn(cell, df.ones{ 2, 3, 2 })
      assert.same({ 2, 3, 6 }, y.shape)
      local w = df.run(state.weights)
      near({ w:at(0, 2), w:at(0, 3) }, { 0, 0 })
      near(df.run(df.reduce_sum(state.weights, { axis = 1 })), { 1, 1 })
      near(df.run(df.gradients(df.reduce_sum(y), memory)[0][3]), { 0, 0, 0 })
      for _, g in ipairs(df.gradients(df.reduce_sum(y), cell:parameters())) do df.run(g) end
    end
  end)

  it('attends for each beam of an example, with the same weights', function()
    local memory = df.placeholder_with_default(df.constant(numbers({ 2, 4, 3 }, 1)), { -1, -1, 3 })
    for _, make in ipairs{ rnn.BahdanauAttention, rnn.LuongAttention } do
      local how = make(5, memory, { lengths = { 2, 4 } })
      assert.matches('Attention%(5%) of a memory float32%[2,%?,3%]', tostring(how))
      local cell = rnn.AttentionWrapper(rnn.GRUCell(5), how, { attention_size = 6 })
      local x, deep = df.constant(numbers({ 2, 2 }, 3)), nil
      local y, state = cell(x, cell:zero_state(2))
      local wide = df.rnn.tile_batch({ x = x, y = y, state = state, start = cell:zero_state(2) }, 3)
      deep = cell:beams(3)
      local z, after = deep(wide.x, wide.start)
      near(df.run(z), df.run(wide.y))
      near(df.run(after.weights), df.run(wide.state.weights))
      assert.equal(#cell:parameters(), #deep:parameters())
      for i, v in ipairs(cell:parameters()) do assert.equal(v, deep:parameters()[i]) end
      local start = cell:zero_state(df.dim(memory, 0))
      local ids = rnn.beam_search{ step = function(k, s)
        local out, next_state = deep(df.one_hot(df.cast(k, 'int32'), 2, { on_value = df.float32(1), off_value = df.float32(0) }), s)
        return df.log_softmax(out), next_state
      end, initial_state = start, start = 0, stop = 1, width = 3, max_steps = 4 }
      assert.same({ 2, 3 }, { df.run(ids).shape[1], df.run(ids).shape[2] })
    end
    local fixed = rnn.AttentionWrapper(rnn.GRUCell(5), rnn.LuongAttention(5, df.ones{ 2, 4, 3 }))
    assert.matches('the memory has 2 examples, and 6 ask it: for a beam search, cell:beams%(3%)',
                   message_of(fixed, df.ones{ 6, 2 }, fixed:zero_state(6)))
    assert.matches('tile_batch: x is float32%[%], %[batch', message_of(rnn.tile_batch, df.float32(1), 2))
    assert.matches('the state begins with state%.other, which the cell does not give: it gives c, h', message_of(rnn.decode, {
      cell = rnn.LSTMCell(2), helper = rnn.TrainingHelper(df.ones{ 1, 2, 2 }), initial_state = { other = df.zeros{ 1, 2 }, c = df.zeros{ 1, 2 }, h = df.zeros{ 1, 2 } } }))
    assert.matches("save must be 'keep', 'swap', 'recompute' or 'auto', but is 'lose'",
                   message_of(rnn.dynamic_rnn, rnn.GRUCell(2), df.ones{ 1, 2, 2 }, { save = 'lose' }))
  end)

  it('ponders for as long as it needs, each example for itself', function()
    local cell = rnn.ACTCell(rnn.RNNCell(3), { halting_bias = -1 })
    local x = df.constant(numbers({ 2, 3 }, 1))
    local y, state = cell(x, cell:zero_state(2))
    -- the same, written out
    local inner, halting = cell.inner[1], cell.halting
    local h, sums, n, out, left = df.zeros{ 2, 3 }, { 0, 0 }, { 0, 0 }, { { 0, 0, 0 }, { 0, 0, 0 } }, { 0, 0 }
    for step = 0, 40 do
      h = inner(df.concat({ x, df.fill({ 2, 1 }, df.float32(step == 0 and 1 or 0)) }, 1), h)
      local values, p = df.run(h), df.run(halting(h))
      for i = 1, 2 do
        if sums[i] < 0.99 then
          local part = p:at(i - 1, 0)
          n[i] = n[i] + 1
          if sums[i] + part >= 0.99 then part, left[i], sums[i] = 1 - sums[i], 1 - sums[i], 1 else sums[i] = sums[i] + part end
          for k = 1, 3 do out[i][k] = out[i][k] + part * values:at(i - 1, k - 1) end
        end
      end
    end
    near(df.run{ y, state.ponder, state.steps }, { out, { n[1] + left[1], n[2] + left[2] }, n }, { rtol = 1e-4 })
    local g = df.run(df.gradients(df.reduce_sum(state.ponder), cell.halting.bias))
    assert.is_true(g:at(0) ~= 0)
    local short = rnn.ACTCell(rnn.RNNCell(3), { halting_bias = -5, max_steps = 3 })
    local _, last = short(x, short:zero_state(2))
    near(df.run(last.steps), { 3, 3 })
  end)

  it('says what is wrong, and of which cell', function()
    assert.matches('MultiRNNCell takes a list of cells, not an empty one', message_of(rnn.MultiRNNCell, {}))
    local cell = rnn.LSTMCell(4, { name = 'enc' })
    local x = df.ones{ 2, 3 }
    assert.matches('LSTMCell: units is a whole number', message_of(rnn.LSTMCell, '4'))
    assert.matches("LSTMCell 'enc': its input is float32%[2,3,1%], %[batch, features%] is expected", message_of(cell, df.ones{ 2, 3, 1 }, cell:zero_state(2)))
    assert.matches("its state is Output, a table {c =, h =} is expected", message_of(cell, x, df.ones{ 2, 4 }))
    assert.matches("its state's h is float32%[2,3%], %[batch, 4%] is expected", message_of(cell, x, { c = df.ones{ 2, 4 }, h = df.ones{ 2, 3 } }))
    assert.matches('its state is missing', message_of(cell, x))
    cell(x, cell:zero_state(2))
    assert.matches('float32%[2,5%] has 5 features, its kernel is for 3', message_of(cell, df.ones{ 2, 5 }, cell:zero_state(2)))
    assert.matches('cell 2 is the number 3', message_of(rnn.MultiRNNCell, { cell, 3 }))
    assert.matches('cells 1 and 2 are the same', message_of(rnn.MultiRNNCell, { cell, cell }))
    assert.matches('they are added and must be alike', message_of(rnn.ResidualWrapper(rnn.RNNCell(4)), x, df.zeros{ 2, 4 }))
    assert.matches('output_keep_prob is a number above 0', message_of(rnn.DropoutWrapper, cell, { output_keep_prob = 0 }))
    assert.matches("df.rnn has no 'LSTMCel'; did you mean 'LSTMCell'", message_of(function() return rnn.LSTMCel end))
  end)
end)

describe('dynamic_rnn', function()
  before_each(function() df.set_random_seed(1) end)

  it('gives the same time-major, in any window, and with every way to save', function()
    local cell, x = rnn.GRUCell(3), fed({ 2, 6, 4 }, 1)
    local y, last = rnn.dynamic_rnn(cell, x)
    local base = df.run{ y, last, grads(y, x) }
    for _, o in ipairs{ { parallel_iterations = 1 }, { save = 'swap' }, { save = 'recompute' }, { lengths = { 6, 6 } } } do
      local y2, last2 = rnn.dynamic_rnn(cell, x, o)
      near(df.run{ y2, last2, grads(y2, x) }, base, { atol = 1e-5 })
    end
    local t, last3 = rnn.dynamic_rnn(cell, df.transpose(x, { 1, 0, 2 }), { time_major = true, initial_state = df.zeros{ 2, 3 } })
    assert.same({ 6, 2, 3 }, t.shape)
    near(df.run{ df.transpose(t, { 1, 0, 2 }), last3 }, { base[1], base[2] })
    assert.equal(4, #cell:parameters())
  end)

  it('takes sizes that are known only when it runs', function()
    local x, lengths = df.placeholder('float32', { -1, -1, 2 }), df.placeholder('int64', { -1 })
    local cell = rnn.LSTMCell(3)
    local y, last = rnn.dynamic_rnn(cell, x, { lengths = lengths })
    assert.same({ -1, -1, 3 }, y.shape)
    local r = df.run({ y, last.h, df.gradients(df.reduce_sum(y), x) }, { [x] = numbers({ 3, 4, 2 }, 1), [lengths] = { 1, 3, 2 } })
    assert.same({ 3, 4, 3 }, r[1].shape)
    near({ r[1]:at(0, 1, 0), r[1]:at(1, 2, 0) - r[2]:at(1, 0), r[3]:at(0, 1, 0), r[3]:at(2, 3, 1) }, { 0, 0, 0, 0 })
    near(df.run(y, { [x] = numbers({ 2, 3, 2 }, 1), [lengths] = { 0, 0 } }), df.run(df.zeros{ 2, 3, 3 }))
  end)

  -- For each cell, and in each loop over time: the values and the weights' gradients of two examples, one of them padded, and one with nothing
  -- in it, are the same whatever the padding is.
  local around = {
    rnn = rnn.RNNCell, lstm = rnn.LSTMCell, gru = rnn.GRUCell,
    peepholes = function(n) return rnn.LSTMCell(n, { peepholes = true }) end,
    stacked = function(n) return rnn.MultiRNNCell{ rnn.GRUCell(n), rnn.ResidualWrapper(rnn.LSTMCell(n)) } end,
    adaptive = function(n) return rnn.ACTCell(rnn.RNNCell(n), { halting_bias = -1 }) end,
    attending = function(n)
      return rnn.AttentionWrapper(rnn.GRUCell(n), rnn.BahdanauAttention(3, constant({ 3, 2, 4 }, 2), { lengths = { 2, 1, 0 } }), { attention_size = 3 })
    end,
  }
  local loops = {
    dynamic_rnn = function(cell, x, lengths) return { (rnn.dynamic_rnn(cell(), x, { lengths = lengths })) } end,
    bidirectional_rnn = function(cell, x, lengths) return rnn.bidirectional_rnn(cell(), cell(), x, { lengths = lengths }) end,
    decode = function(cell, x, lengths)
      return { rnn.decode{ cell = cell(), helper = rnn.TrainingHelper(x, { lengths = lengths }) }.logits }
    end,
    raw_rnn = function(make, x, lengths)
      local cell, rows = make(), df.TensorArray('float32', 4):unstack(df.transpose(x, { 1, 0, 2 }))
      return { (rnn.raw_rnn(cell, function(t, _, state)
        return df.less_equal(lengths, t), rows:read(df.minimum(t, 3)), state or cell:zero_state(3)
      end):stack()) }
    end,
  }
  for loop, run in pairs(loops) do
    for name, make in pairs(around) do
      it('multiplies with nothing that lies past the lengths, values and gradients: ' .. name .. ', ' .. loop, function()
        local x, lengths = df.placeholder('float32', { 3, 4, 2 }), df.placeholder('int32', { 3 })
        local cells = {}
        local outs = run(function() cells[#cells + 1] = make(3) return cells[#cells] end, x, lengths)
        local loss, wanted = 0, { x }
        for _, y in ipairs(outs) do loss = loss + y:square():reduce_sum() end
        for _, c in ipairs(cells) do
          for _, v in ipairs(c:parameters()) do wanted[#wanted + 1] = v end
        end
        local fetches = { loss, outs, df.gradients(loss, wanted, { unconnected = 'zero' }) }
        local function with(padding)
          local rows = numbers({ 3, 4, 2 }, 5):totable()
          for b, n in ipairs{ 4, 2, 0 } do
            for t = n + 1, 4 do rows[b][t] = { padding, padding } end
          end
          return df.run(fetches, { [x] = rows, [lengths] = { 4, 2, 0 } })
        end
        local zeros, nans = with(0), with(0 / 0)
        assert.is_true(nans[1] == nans[1])
        near(nans, zeros, { rtol = 0, atol = 0 })
      end)
    end
  end

  it('decodes nothing where no example has a step', function()
    local x, lengths = df.placeholder('float32', { -1, -1, 2 }), df.placeholder('int32', { -1 })
    local cell = rnn.GRUCell(3)
    local out, state, taken = rnn.decode{ cell = cell, helper = rnn.TrainingHelper(x, { lengths = lengths }) }
    local g = df.gradients(out.logits:reduce_sum() + state:reduce_sum(), { x, cell:parameters()[1] })
    for _, value in ipairs{ df.ones{ 2, 3, 2 }, df.zeros{ 2, 0, 2 } } do
      local r = df.run({ out.logits, state, taken, g }, { [x] = df.run(value), [lengths] = { 0, 0 } })
      assert.same({ 2, 0, 3 }, r[1].shape)
      near({ r[2], r[3] }, { { { 0, 0, 0 }, { 0, 0, 0 } }, { 0, 0 } })
      near(r[4][2], df.run(df.zeros{ 5, 6 }))
    end
  end)

  it('ends after the longest example', function()
    local x, lengths = df.ones{ 2, 50, 1 }, df.placeholder('int32', { 2 })
    local y = rnn.dynamic_rnn(rnn.RNNCell(2), x, { lengths = lengths })
    df.run(y, { [lengths] = { 1, 1 } })
    local s = df.Session()
    s:run(y, { [lengths] = { 3, 5 } })
    assert.equal(5, s:stats().iterations)
    s:close()
  end)

  it('trains for a hundred steps as TensorFlow does, with normalisation and lengths', function()
    local cell, head = rnn.LSTMCell(5), df.nn.Dense(2)
    local _, state = rnn.dynamic_rnn(cell, constant({ 4, 6, 3 }, 1), { lengths = { 6, 3, 1, 5 } })
    local loss = df.nn.mean_squared_error(constant({ 4, 2 }, 2), head(df.nn.BatchNorm{}(state.h, { training = true })))
    local train = df.train.Adam(0.01):minimize(loss)
    fill{ cell.kernel, cell.bias, head.kernel, head.bias }
    local losses = {}
    for i = 1, 100 do losses[i] = df.run{ loss, train }[1] end
    near({ losses[1], losses[2], losses[10], losses[50], losses[100] }, expected.training, { rtol = 2e-3 })
  end)

  it('has gradients by differences, of second order, for every cell', function()
    local memory, x = support.tensor({ 2, 5, 3 }, -1, 1, 'float64', 4), support.tensor({ 2, 3, 4 }, -1, 1, 'float64', 1)
    local function check(tensors, fn) assert.is_true(support.check_gradient(fn, tensors, { order = 2, rtol = 1e-4, atol = 1e-5 })) end
    for _, make in ipairs{ function() return rnn.RNNCell(3) end, function() return rnn.LSTMCell(3, { peepholes = true, projection = 2 }) end,
                           function() return rnn.LSTMCell(2, { layer_norm = true }) end, function() return rnn.GRUCell(3) end } do
      check({ x }, function(v) return (rnn.dynamic_rnn(make(), v, { lengths = { 3, 2 } })) end)
    end
    check({ x }, function(v)
      local y, state = rnn.dynamic_rnn(rnn.ACTCell(rnn.RNNCell(3), { halting_bias = -1 }), v, { lengths = { 3, 2 } })
      return y, state.ponder
    end)
    check({ x, memory }, function(v, m)
      local how = rnn.BahdanauAttention(3, m, { lengths = { 2, 5 } })
      return (rnn.dynamic_rnn(rnn.AttentionWrapper(rnn.GRUCell(3), how, { attention_size = 2 }), v))
    end)
    check({ x }, function(v)
      local helper = rnn.TrainingHelper(v, { lengths = { 3, 1 } })
      local out, state = rnn.decode{ cell = rnn.GRUCell(3), helper = helper, initial_state = df.zeros({ 2, 3 }, 'float64') }
      return out.logits, state
    end)
  end)

  it('runs a function for a cell, and structures of outputs', function()
    local x = df.float32{ { 1, 2, 3 } }
    local y, last = rnn.dynamic_rnn(function(v, s) return { sum = v + s, twice = v * 2 }, v + s end, x, { initial_state = df.zeros{ 1 } })
    near(df.run{ y, last }, { { sum = { { 1, 3, 6 } }, twice = { { 2, 4, 6 } } }, { 6 } })
    local own = setmetatable({ zero_state = function(self, n, dtype) return df.zeros({ n }, dtype) + self.from end, from = 10 },
                             { __call = function(self, v, s) return v + s, v + s + self.from end })
    near(df.run((rnn.dynamic_rnn(own, x))), { { 11, 23, 36 } })
  end)

  it('says what is wrong with lengths, ranks and cells', function()
    local cell, x = rnn.GRUCell(3), df.ones{ 2, 5, 3 }
    local function bad(o, v) return message_of(rnn.dynamic_rnn, cell, v or x, o) end
    assert.matches('x is float32%[2,5%], %[batch, time, inputs%] is expected', bad({}, df.ones{ 2, 5 }))
    assert.matches('lengths is float32, int32 or int64 is expected', bad{ lengths = df.float32{ 1, 2 } })
    assert.matches('lengths is int32%[3%], %[2%] is expected', bad{ lengths = { 1, 2, 3 } })
    assert.matches('lengths is int32%[2,1%], %[2%] is expected', bad{ lengths = df.int32{ { 1 }, { 2 } } })
    assert.matches('length 1 is 6, but x has 5 steps', bad{ lengths = { 5, 6 } })
    assert.matches("dynamic_rnn has no option 'sequence_length'", bad{ sequence_length = { 1, 2 } })
    assert.matches('the cell is the number 3', message_of(rnn.dynamic_rnn, 3, x))
    assert.matches('its state is float32%[3,3%], but its input float32%[2,3%] has 2 examples', bad{ initial_state = df.zeros{ 3, 3 } })
    local function grows(v) return v, { a = df.zeros{ 2, 5 } } end
    assert.matches('the cell gives state.a as float32%[2,5%], but it began as float32%[2,4%]',
                   message_of(rnn.dynamic_rnn, grows, x, { initial_state = { a = df.zeros{ 2, 4 } }, lengths = { 1, 2 } }))
    assert.matches('a function has no zero_state', message_of(rnn.dynamic_rnn, function(v, s) return v, s end, x))
    local lengths = df.placeholder('int32', { -1 })
    local y = rnn.dynamic_rnn(cell, x, { lengths = lengths })
    assert.matches('dynamic_rnn: a length is below 0 or beyond the steps that x has', message_of(df.run, y, { [lengths] = { 1, 6 } }))
    assert.matches('beyond the steps', message_of(df.run, y, { [lengths] = { -1, 2 } }))
    assert.matches('not as many lengths as examples', message_of(df.run, y, { [lengths] = { 1, 2, 3 } }))
  end)
end)

describe('bidirectional_rnn', function()
  it('is what TensorFlow makes it', function()
    local fw, bw, x = rnn.GRUCell(3), rnn.LSTMCell(3), fed({ 2, 4, 2 }, 1)
    local y, s = rnn.bidirectional_rnn(fw, bw, x, { lengths = { 4, 2 } })
    local vars = fw:parameters()
    for _, v in ipairs(bw:parameters()) do vars[#vars + 1] = v end
    fill(vars)
    near(df.run{ fw = y[1], bw = y[2], sf = s[1], sb = s[2].h }, expected.bidirectional, { atol = 1e-5 })
    near(df.run{ fw = y.fw, bw = y.bw, sf = s.fw, sb = s.bw.h }, expected.bidirectional, { atol = 1e-5 })
    assert.same({ 2, 4, 6 }, df.concat(y, 2).shape)
  end)
end)

describe('raw_rnn', function()
  it('lets a function say what comes in and when it ends', function()
    local cell, x, lengths = rnn.GRUCell(3), df.constant(numbers({ 2, 4, 2 }, 1)), df.int32{ 2, 4 }
    local rows = df.TensorArray('float32', 4):unstack(df.transpose(x, { 1, 0, 2 }))
    local out, last, seen = rnn.raw_rnn(cell, function(t, y, state, sum)
      if not y then return df.equal(lengths, 0), rows:read(0), cell:zero_state(2), nil, df.float32(0) end
      return df.greater_equal(t, lengths), rows:read(df.minimum(t, 3)), state, y, sum + 1
    end)
    local y, s = rnn.dynamic_rnn(cell, x, { lengths = lengths })
    local r = df.run{ out:stack(), last, seen, df.transpose(y, { 1, 0, 2 }), s }
    near({ r[1], r[2], r[3] }, { r[4], r[5], 4 })
  end)
end)

describe('decode', function()
  before_each(function() df.set_random_seed(1) end)

  it('forces the target, and is then a dynamic_rnn', function()
    local cell, x, head = rnn.GRUCell(3), df.constant(numbers({ 2, 4, 2 }, 1)), df.nn.Dense(5)
    local out, last, lengths = rnn.decode{ cell = cell, helper = rnn.TrainingHelper(x, { lengths = { 4, 2 } }), output_layer = head }
    local y, s = rnn.dynamic_rnn(cell, x, { lengths = { 4, 2 } })
    local r = df.run{ out.logits, last, lengths, head(y), s, out.ids }
    near({ r[1]:at(0, 3, 1), r[1]:at(1, 1, 4), r[2], r[3] }, { r[4]:at(0, 3, 1), r[4]:at(1, 1, 4), r[5], { 4, 2 } })
    near(r[1]:at(1, 3, 0), 0)
    assert.same({ 2, 4 }, r[6].shape)
    df.run(df.gradients(df.reduce_sum(out.logits), cell:parameters()))
  end)

  it('goes on by itself until every example has ended', function()
    -- The cell counts: from id k the next is k + 1, and 5 ends.
    local function count(ids, s) return df.one_hot(df.cast(ids, 'int32') + 1, 7, { on_value = df.float32(50), off_value = df.float32(0) }), s + 1 end
    local function same(ids) return ids end
    for _, helper in ipairs{ rnn.GreedyEmbeddingHelper(same, { 0, 3 }, 5), rnn.SampleEmbeddingHelper(same, { 0, 3 }, 5, { seed = 1 }) } do
      local out, last, lengths = rnn.decode{ cell = count, helper = helper, initial_state = df.zeros{ 2 }, max_steps = 20 }
      local r = df.run{ out.ids, last, lengths }
      near(r, { { { 1, 2, 3, 4, 5 }, { 4, 5, 0, 0, 0 } }, { 5, 2 }, { 5, 2 } })
    end
    local out = rnn.decode{ cell = count, helper = rnn.GreedyEmbeddingHelper(same, { 0, 3 }, 6), initial_state = df.zeros{ 2 }, max_steps = 2 }
    near(df.run(out.ids), { { 1, 2 }, { 4, 5 } })
    assert.matches('max_steps is missing', message_of(rnn.decode, { cell = count, helper = rnn.GreedyEmbeddingHelper(same, { 0 }, 6), initial_state = df.zeros{ 1 } }))
    assert.matches('helper is number', message_of(rnn.decode, { cell = count, helper = 3 }):gsub('the number 3', 'number'))
  end)

  it('takes what it drew with the probability that it is told', function()
    local x, table_of = df.constant(numbers({ 40, 6, 2 }, 1)), df.constant(numbers({ 9, 2 }, 2))
    local function echo(v, s) return df.concat({ v, df.zeros{ 40, 7 } }, 1), s end
    local function first(p)
      local helper = rnn.ScheduledEmbeddingTrainingHelper(x, table_of, p, { seed = 4 })
      return rnn.decode{ cell = echo, helper = helper, initial_state = df.zeros{ 40 } }
    end
    local function share(p)
      local out = first(p)
      local differs = df.reduce_any(df.not_equal(out.logits:slice({ 0, 1, 0 }, { 40, 5, 2 }), x:slice({ 0, 1, 0 }, { 40, 5, 2 })), { axis = 2 })
      return df.run(df.reduce_mean(df.cast(differs, 'float32')))
    end
    near(share(0), 0)
    near(share(df.float32(1)), 1, { atol = 0.02 })
    near(share(0.3), 0.3, { atol = 0.12 })
  end)
end)

describe('beam_search', function()
  local VOCABULARY, STOP = 4, 3

  --- log-probabilities that depend on the last id and on how many there were: a table [steps][from][to].
  local function chain(steps, seed)
    local p = support.tensor({ steps, VOCABULARY, VOCABULARY }, 0.05, 1, 'float32', seed)
    return df.run(df.log_softmax(df.constant(p)))
  end

  --- Every sequence of at most `steps` ids that stop ends, best first, by trying them all: {ids, score}.
  local function all(p, steps, start, penalty)
    local found = {}
    local function go(ids, last, sum)
      local ended = ids[#ids] == STOP
      if ended or #ids == steps then
        found[#found + 1] = { ids, sum / ((5 + #ids) / 6) ^ penalty }
        return
      end
      for to = 0, VOCABULARY - 1 do
        local longer = {}
        for i, v in ipairs(ids) do longer[i] = v end
        longer[#longer + 1] = to
        go(longer, to, sum + p:at(#ids, last, to))
      end
    end
    go({}, start, 0)
    table.sort(found, function(a, b) return a[2] > b[2] end)
    return found
  end

  local function search(p, o)
    local table_of = df.constant(p)
    return rnn.beam_search{
      step = function(ids, state)
        local rows = df.gather(table_of, state.t[0])
        return df.gather(rows, ids), { t = state.t + 1, mark = state.mark }
      end,
      initial_state = { t = df.int32{ 0, 0 }, mark = df.float32{ { 1 }, { 2 } } }, start = o.start or 0, stop = STOP, width = o.width, max_steps = o.steps,
      length_penalty = o.penalty,
    }
  end

  it('with beams enough finds the best of all sequences, and their scores', function()
    for seed = 1, 3 do
      for _, penalty in ipairs{ 0, 0.8 } do
        local p = chain(3, seed)
        local ids, scores = search(p, { width = 40, steps = 3, penalty = penalty })
        assert.same({ 2, 40, -1 }, ids.shape)
        local r, best = df.run{ ids, scores }, all(p, 3, 0, penalty)
        for k = 1, 6 do
          near(r[2]:at(1, k - 1), best[k][2], { atol = 1e-5 })
          for t = 1, 3 do assert.equal(best[k][1][t] or STOP, r[1]:at(1, k - 1, t - 1)) end
        end
      end
    end
  end)

  it('with one beam goes greedily', function()
    local p = chain(5, 7)
    local ids = df.run((search(p, { width = 1, steps = 5 })))
    local last, greedy = 0, {}
    for t = 0, ids.shape[3] - 1 do
      local best = 0
      for to = 1, VOCABULARY - 1 do if p:at(t, last, to) > p:at(t, last, best) then best = to end end
      if last == STOP and t > 0 then best = STOP end
      greedy[t + 1], last = best, best
    end
    near(ids, { { greedy }, { greedy } })
  end)

  it('stops when all beams have ended', function()
    local sure = {}
    for t = 1, 30 do
      sure[t] = {}
      for from = 1, VOCABULARY do sure[t][from] = { -30, -40, -50, t > 2 and -1e-6 or -60 } end
    end
    local ids = df.run((search(df.tensor(sure, 'float32'), { width = 2, steps = 30 })))
    assert.same({ 2, 2, 3 }, ids.shape)
    near(ids:at(0, 0, 2), STOP)
    near(ids:at(0, 0, 0), 0)
  end)

  it('says what is wrong', function()
    local one = { step = print, initial_state = df.ones{ 1 }, width = 2, start = 0, stop = 1, max_steps = 3 }
    local function bad(o, nothing)
      for k, v in pairs(one) do if o[k] == nil and k ~= nothing then o[k] = v end end
      return message_of(rnn.beam_search, o)
    end
    assert.matches('step is the number 3', bad{ step = 3 })
    assert.matches('initial_state is missing', bad({}, 'initial_state'))
    assert.matches('width is a whole number from 1 up', bad{ width = 0 })
    assert.matches('max_steps is nil', bad({}, 'max_steps'))
    assert.matches('stop is 9, but step gives 4', bad{ step = function(_, s) return df.zeros{ 2, 4 }, s end, stop = 9 })
    assert.matches('log%-probabilities float32%[2%]', bad{ step = function(_, s) return df.zeros{ 2 }, s end })
    assert.matches('float32%[5,4%] for 1 examples with 2 beams each: 2 rows', bad{ step = function(_, s) return df.zeros{ 5, 4 }, s end })
    assert.matches('initial_state.* is float32%[%], %[batch, ...%]', bad{ initial_state = { a = df.float32(1) } })
  end)
end)
