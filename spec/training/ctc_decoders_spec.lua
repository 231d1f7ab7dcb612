--- Decoders of connectionist temporal classification against all ways through small logits and a search written apart, and edit distances.
local df = require 'dflow'
local numbers = require 'spec.training.numbers'
local support = require 'spec.support'
local near, message_of = support.near, support.message_of

--- A sparse tensor as lists of labels, an example each.
local function lists(sparse, batch)
  local r, out = df.run(sparse), {}
  assert.same({ batch }, { r.dense_shape:at(0) })
  for b = 1, batch do out[b] = {} end
  local longest, n = 0, r.values.shape[1]
  for i = 0, n - 1 do
    local list = out[r.indices:at(i, 0) + 1]
    assert.equal(#list, r.indices:at(i, 1))
    list[#list + 1] = r.values:at(i)
    longest = math.max(longest, #list)
  end
  assert.equal(longest, r.dense_shape:at(1))
  assert.equal('int64', r.values.dtype)
  return out
end

--- Logits in which class best[t] stands out at each step.
local function steps(best, classes)
  local rows = {}
  for t, c in ipairs(best) do
    rows[t] = { {} }
    for k = 1, classes do rows[t][1][k] = k == c + 1 and 4 or 0 end
  end
  return rows
end

--- The probabilities of all labels of the logits' first `time` steps for example b, by every way through them: a list by p, and by key.
local function every_way(logits, b, time, classes)
  local p = df.run(df.softmax(df.cast(logits, 'float64')))
  local found, all = {}, {}
  local function go(t, labels, before, weight)
    if t == time then
      local key = table.concat(labels, ' ')
      if not found[key] then
        found[key] = { p = 0 }
        all[#all + 1] = found[key]
      end
      found[key].p = found[key].p + weight
      return
    end
    for c = 0, classes - 1 do
      local more = c ~= classes - 1 and c ~= before
      if more then labels[#labels + 1] = c end
      go(t + 1, labels, c, weight * p:at(t, b, c))
      if more then labels[#labels] = nil end
    end
  end
  go(0, {}, -1, 1)
  table.sort(all, function(x, y) return x.p > y.p end)
  return all, found
end

--- The same by a search that keeps `width` labels at each step.
local function narrow(logits, b, time, classes, width)
  local p = df.run(df.softmax(df.cast(logits, 'float64')))
  local beam = { { key = '', labels = {}, blank = 1, label = 0, p = 1 } }
  for t = 0, time - 1 do
    local after, all = {}, {}
    local function into(labels)
      local key = table.concat(labels, ' ')
      if not after[key] then
        after[key] = { key = key, labels = labels, blank = 0, label = 0 }
        all[#all + 1] = after[key]
      end
      return after[key]
    end
    for _, m in ipairs(beam) do
      local last = m.labels[#m.labels]
      local same = into(m.labels)
      same.blank = same.blank + m.p * p:at(t, b, classes - 1)
      if last then same.label = same.label + m.label * p:at(t, b, last) end
      for c = 0, classes - 2 do
        local more = {}
        for i, v in ipairs(m.labels) do more[i] = v end
        more[#more + 1] = c
        local next = into(more)
        next.label = next.label + (c == last and m.blank or m.p) * p:at(t, b, c)
      end
    end
    for _, m in ipairs(all) do m.p = m.blank + m.label end
    table.sort(all, function(x, y) return x.p > y.p end)
    beam = {}
    for i = 1, math.min(width, #all) do beam[i] = all[i].p > 0 and all[i] or nil end
  end
  return beam
end

describe('ctc_greedy_decoder', function()
  it('leaves out blanks, and of labels alike in a row all but the first', function()
    local best = { 0, 0, 3, 0, 1, 1, 3, 3, 2 }
    local d, sum = df.ctc_greedy_decoder(steps(best, 4), { 9 })
    assert.same({ { -1, 2 }, { -1 }, { 2 }, { 1, 1 } }, { d[1].indices.shape, d[1].values.shape, d[1].dense_shape.shape, sum.shape })
    assert.same({ { 0, 0, 1, 2 } }, lists(d[1], 1))
    near(df.run(sum), { { -36 } })
    assert.same({ { 0, 0, 0, 1, 1, 2 } }, lists(df.ctc_greedy_decoder(steps(best, 4), { 9 }, { merge_repeated = false })[1], 1))
    assert.same({ { 0, 0 } }, lists(df.ctc_greedy_decoder(steps(best, 4), df.int64{ 4 })[1], 1))
  end)

  it('is of each example of a batch, up to its length, in both dtypes', function()
    local x = numbers({ 6, 4, 5 }, 3)
    local times = { 6, 0, 1, 4 }
    for _, dtype in ipairs{ 'float32', 'float64' } do
      local d, sum = df.ctc_greedy_decoder(df.cast(df.constant(x), dtype), times)
      local got, sums = lists(d[1], 4), df.run(sum)
      assert.equal(dtype, sum.dtype)
      for b = 0, 3 do
        local want, before, total = {}, nil, 0
        for t = 0, times[b + 1] - 1 do
          local best = 0
          for c = 1, 4 do if x:at(t, b, c) > x:at(t, b, best) then best = c end end
          total = total - x:at(t, b, best)
          if best ~= 4 and best ~= before then want[#want + 1] = best end
          before = best
        end
        assert.same(want, got[b + 1])
        near(sums:at(b, 0), total, { rtol = 1e-6, atol = 1e-6 })
      end
    end
  end)

  it('gives nothing of nothing', function()
    local d, sum = df.ctc_greedy_decoder(df.zeros{ 0, 2, 3 }, { 0, 0 })
    assert.same({ {}, {} }, lists(d[1], 2))
    near(df.run(sum), { { 0 }, { 0 } })
    assert.same({ 0, 2 }, df.run(df.ctc_greedy_decoder(df.zeros({ 3, 0, 2 }), df.zeros({ 0 }, 'int32'))[1].indices).shape)
  end)
end)

describe('ctc_beam_search_decoder', function()
  it('finds the most probable labels of all ways through the logits, and how probable they are', function()
    for seed = 1, 3 do
      local x, times = df.constant(numbers({ 5, 3, 3 }, seed, 2)), { 5, 2, 4 }
      local d, p = df.ctc_beam_search_decoder(x, times, { top_paths = 4, merge_repeated = false })
      assert.same({ 3, 4 }, p.shape)
      local got = df.run(p)
      local found = {}
      for k = 1, 4 do found[k] = lists(d[k], 3) end
      for b = 0, 2 do
        local all, of = every_way(x, b, times[b + 1], 3)
        for k = 1, 4 do
          local key = table.concat(found[k][b + 1], ' ')
          near(got:at(b, k - 1), math.log(all[k].p), { rtol = 1e-5 })
          near(got:at(b, k - 1), math.log(of[key].p), { rtol = 1e-5 })      -- two may be as probable
          of[key] = nil
        end
      end
    end
  end)

  it('keeps beam_width labels at each step', function()
    local differ = false
    for seed = 1, 6 do
      local x = df.cast(df.constant(numbers({ 12, 1, 5 }, seed, 1)), 'float64')
      for _, width in ipairs{ 1, 2, 3, 7 } do
        local want = narrow(x, 0, 12, 5, width)
        local d, p = df.ctc_beam_search_decoder(x, { 12 }, { beam_width = width, top_paths = width, merge_repeated = false })
        local got = df.run(p)
        for k = 1, width do
          assert.same({ want[k].labels }, lists(d[k], 1))
          near(got:at(0, k - 1), math.log(want[k].p), { rtol = 1e-9 })
        end
        differ = differ or want[1].key ~= narrow(x, 0, 12, 5, 50)[1].key
      end
    end
    assert.is_true(differ)      -- else no beam here was too narrow for anything
  end)

  it('merges what is alike in a row when so told, which is the default', function()
    local x = steps({ 0, 1, 1, 2, 1, 2, 1 }, 3)
    assert.same({ { 0, 1, 1, 1 } }, lists(df.ctc_beam_search_decoder(x, { 7 }, { merge_repeated = false })[1], 1))
    assert.same({ { 0, 1 } }, lists(df.ctc_beam_search_decoder(x, { 7 })[1], 1))
  end)

  it('has one path of length 0, of probability 1, and runs in a loop with the lengths of each trip', function()
    local d, p = df.ctc_beam_search_decoder(df.ones{ 2, 1, 3 }, { 0 })
    assert.same({ {} }, lists(d[1], 1))
    near(df.run(p), { { 0 } })
    assert.matches('top_paths is 2, but example 0, of length 0, has 1',
                   message_of(df.run, (df.ctc_beam_search_decoder(df.ones{ 2, 1, 3 }, { 0 }, { top_paths = 2 }))), 1, true)
    local x = df.constant(numbers({ 4, 1, 3 }, 5))
    local sums = df.map_fn(function(n)
      local _, q = df.ctc_beam_search_decoder(x, df.expand_dims(n, 0))
      return q[0][0]
    end, df.int32{ 0, 1, 4 }, { dtype = 'float32' })
    for i, n in ipairs{ 0, 1, 4 } do near(df.run(sums):at(i - 1), math.log(every_way(x, 0, n, 3)[1].p), { atol = 1e-6, rtol = 1e-5 }) end
  end)

  it('takes any width, and classes that cannot be', function()
    local x = df.constant{ { { 1, -math.huge, 0 } }, { { 2, -math.huge, 0 } } }
    local d, p = df.ctc_beam_search_decoder(x, { 2 }, { beam_width = 2 ^ 30, top_paths = 2 })
    local all = every_way(x, 0, 2, 3)
    assert.same({ { { 0 } }, { {} } }, { lists(d[1], 1), lists(d[2], 1) })
    near(df.run(p), { { math.log(all[1].p), math.log(all[2].p) } }, { rtol = 1e-5 })
    assert.same({ {} }, lists(df.ctc_beam_search_decoder(df.ones{ 3, 1, 1 }, { 3 })[1], 1))
  end)

  it('goes to TensorFlow and back under the names of its ops', function()
    local x = df.constant(numbers({ 5, 2, 4 }, 2))
    local d, p = df.ctc_beam_search_decoder(x, { 5, 3 }, { top_paths = 2, name = 'beam' })
    local best, sum = df.ctc_greedy_decoder(x, { 5, 3 }, { name = 'best' })
    local far = df.edit_distance(best[1], d[1], { name = 'far' })
    local want = df.run{ d, p, best, sum, far }
    local path = os.tmpname()
    df.export_graph_def(path, { outputs = { p, sum, far, d[2].values } })
    local g = df.import_graph_def(path)
    os.remove(path)
    local function from(name, n)
      local out = {}
      for i = 1, n do out[i] = g:output(('%s:%d'):format(name, i - 1)) end
      return out
    end
    local b, e, f = from('beam', 7), from('best', 4), from('far', 1)
    local function sparse(i, v, s) return { indices = i, values = v, dense_shape = s } end
    local got = df.Session{ graph = g }:run{ { sparse(b[1], b[3], b[5]), sparse(b[2], b[4], b[6]) }, b[7], { sparse(e[1], e[2], e[3]) }, e[4], f[1] }
    near(got, want)
  end)

  it('says what does not fit', function()
    local x = df.ones{ 3, 2, 4 }
    for _, name in ipairs{ 'ctc_greedy_decoder', 'ctc_beam_search_decoder' } do
      local decode = df[name]
      local function bad(...) return message_of(function(...) return df.run((select(2, decode(...)))) end, ...) end
      assert.matches('length 1 is 4, but the inputs have 3 steps', bad(x, { 3, 4 }), 1, true)
      assert.matches('the lengths int32[1]: expected [time, batch, classes] and [batch]', bad(x, { 3 }), 1, true)
      assert.matches('the lengths are float32, int32 is expected', bad(x, df.float32{ 3, 3 }), 1, true)
      assert.matches('the lengths are missing', bad(x), 1, true)
      assert.matches('the inputs are missing', bad(), 1, true)
      assert.matches('the inputs are float32[3], [time, batch, classes] is expected', bad(df.ones{ 3 }, { 3 }), 1, true)
      assert.matches('there are no classes', bad(df.ones{ 3, 2, 0 }, { 3, 3 }), 1, true)
    end
    assert.matches('top_paths is 3, but a beam of width 2', message_of(df.ctc_beam_search_decoder, x, { 3, 3 }, { top_paths = 3, beam_width = 2 }), 1, true)
    assert.matches('beam_width is a whole number from 1 up', message_of(df.ctc_beam_search_decoder, x, { 3, 3 }, { beam_width = 0 }), 1, true)
  end)
end)

describe('edit_distance', function()
  --- Sequences as a sparse tensor of rank 2.
  local function sparse(rows, dtype, longest)
    local indices, values = {}, {}
    for b, row in ipairs(rows) do
      for i, v in ipairs(row) do indices[#indices + 1], values[#values + 1] = { b - 1, i - 1 }, v end
    end
    return { indices = df.tensor(indices, 'int64', { #indices, 2 }), values = df.tensor(values, dtype, { #values }), dense_shape = { #rows, longest or 9 } }
  end
  local function letters(...)
    local rows = { ... }
    for i, word in ipairs(rows) do
      rows[i] = {}
      for c in word:gmatch '.' do rows[i][#rows[i] + 1] = c end
    end
    return rows
  end

  it('counts what is put in, left out and replaced', function()
    local a = letters('kitten', 'saturday', 'abc', '', 'abc', '')
    local b = letters('sitting', 'sunday', 'abc', 'xy', '', '')
    local d = df.edit_distance(sparse(a, 'string'), sparse(b, 'string'), { normalize = false })
    near(df.run(d), { 3, 3, 0, 2, 3, 0 })
    near(df.run(df.edit_distance(sparse(a, 'string'), sparse(b, 'string'))), { 3 / 7, 3 / 6, 0, 1, math.huge, 0 })
    assert.same({ 6 }, d.shape)
  end)

  it('is symmetric, and the least of all ways, for numbers of every dtype', function()
    local function least(a, b, i, j)
      if i == 0 or j == 0 then return i + j end
      return math.min(least(a, b, i - 1, j) + 1, least(a, b, i, j - 1) + 1, least(a, b, i - 1, j - 1) + (a[i] == b[j] and 0 or 1))
    end
    local draw = math.random
    for n, dtype in ipairs{ 'int64', 'int32', 'uint8', 'float32', 'float16', 'complex64' } do
      local a, b, want = {}, {}, {}
      for s = 1, 6 do
        a[s], b[s] = {}, {}
        for i = 1, draw(0, 5) do a[s][i] = draw(0, 2) end
        for i = 1, (s + n) % 6 do b[s][i] = draw(0, 2) end
        want[s] = least(a[s], b[s], #a[s], #b[s])
      end
      local p, q = sparse(a, dtype), sparse(b, dtype)
      near(df.run(df.edit_distance(p, q, { normalize = false })), want)
      near(df.run(df.edit_distance(q, p, { normalize = false })), want)
    end
  end)

  it('has the larger of the two shapes, of any rank', function()
    local a = { indices = { { 0, 0, 0 }, { 0, 1, 0 }, { 0, 1, 1 } }, values = { 1, 2, 3 }, dense_shape = { 1, 2, 2 } }
    local b = { indices = { { 0, 0, 0 }, { 1, 0, 0 }, { 1, 0, 1 } }, values = { 1, 5, 6 }, dense_shape = { 2, 1, 4 } }
    local d = df.edit_distance(a, b, { normalize = false })
    assert.same({ 2, 2 }, d.shape)
    near(df.run(d), { { 0, 2 }, { 2, 0 } })
    near(df.run(df.edit_distance(a, b)), { { 0, math.huge }, { 1, 0 } })
  end)

  it('takes what a decoder gives', function()
    local decoded = df.ctc_greedy_decoder(steps({ 0, 1, 3, 2 }, 4), { 4 })[1]
    near(df.run(df.edit_distance(decoded, { indices = { { 0, 0 }, { 0, 1 } }, values = { 0, 2 }, dense_shape = { 1, 2 } })), { 0.5 })
  end)

  it('says what does not fit', function()
    local ok = sparse({ { 1 } }, 'int32')
    local function bad(a, b) return message_of(function() return df.run(df.edit_distance(a, b)) end) end
    assert.matches('hypothesis is', bad({ 1 }, ok), 1, true)
    assert.matches('truth is nil', bad(ok, nil), 1, true)
    assert.matches('out of order', bad(ok, { indices = { { 1, 0 }, { 0, 0 } }, values = df.int32{ 1, 2 }, dense_shape = { 2, 1 } }), 1, true)
    assert.matches('index 0 of a set is 4 in dimension 0', bad(ok, { indices = { { 4, 0 } }, values = df.int32{ 1 }, dense_shape = { 2, 1 } }), 1, true)
    assert.matches('the hypothesis has rank 2 and the truth rank 3', bad(ok, { indices = { { 0, 0, 0 } }, values = df.int32{ 1 }, dense_shape = { 1, 1, 1 } }), 1, true)
  end)
end)
