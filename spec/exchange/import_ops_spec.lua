--- Ops that only imported graphs have: summaries, candidate samplers; and the two seeds of TensorFlow's random ops.
local df = require 'dflow'
local op = require('dflow.front.registry').op

--- What TensorFlow 2.15 wrote for the summaries below.
local scalars = '0a080a0161150000c03f0a080a01621500000000'
local merged = '0a080a0161150000c03f0a080a016215000000000a97020a01682a91020900000000000010c011000000202a8b204519000000000000204021000000' ..
  '202a8b20452940e85aac0e1b514a32707b32f62ee0db10c081444bf80ba70ec0000000000000000011ea2d819997713d08996919155aed3f2b14facd' ..
  'be24f03fdc94cd2e8d75ff3fe011f10c744d014068bc10359a0707400d9cc5a0295509407d2bb98e0ada6c40a47c9836a5bc6f404c549f0223831544' ..
  'ffffffffffffef7f3a700000000000000000000000000000f03f000000000000000000000000000000400000000000000000000000000000f03f0000' ..
  '000000000000000000000000f03f0000000000000000000000000000f03f0000000000000000000000000000f03f0000000000000000000000000000' ..
  'f03f'
local empty = '0a282a2609ffffffffffffef7f11ffffffffffffefff3208ffffffffffffef7f3a080000000000000000'

describe('A summary of an imported graph', function()
  local function hex(s) return (s:gsub('.', function(c) return ('%02x'):format(c:byte()) end)) end

  it('is TensorFlow\'s, byte by byte', function()
    local x = df.placeholder('float32', { -1 })
    local numbers = op('ScalarSummary', { df.constant{ 'a', 'b' }, df.constant({ 1.5, 0 }, 'float32') }, {})
    local histogram = op('HistogramSummary', { df.constant 'h', x }, {})
    local all = op('MergeSummary', { { numbers, histogram } }, {})
    local none = op('HistogramSummary', { df.constant '', df.constant({}, 'int32', { 0 }) }, {})
    local values = df.tensor({ 1, 2, 3, -4, 0, 1e-30, 250.5, 1e25 }, 'float32')
    local found = df.run({ numbers, all, none }, { [x] = values })
    assert.same({ scalars, merged, empty }, { hex(found[1]), hex(found[2]), hex(found[3]) })
  end)

  it('of a tensor is, too, whatever the tensor is of', function()
    local wrote = {                      -- TensorFlow 2.15's bytes
      { df.float32{ { 1, 2, 3 } }, '\18\1d', '0a260a03746167421a080112081202080112020803220c0000803f00000040000040404a03120164' },
      { df.constant{ 'ab', '' }, '', '0a170a03746167420e08071204120208024202616242004a00' },
      { df.constant(7, 'int64'), '', '0a170a03746167420e08091200220807000000000000004a00' },
      { df.constant({}, 'float64', { 0, 2 }), '', '0a130a03746167420a080212061200120208024a00' },
      { df.constant({ true, false }), '', '0a150a03746167420c080a120412020802220201004a00' },
    }
    for _, case in ipairs(wrote) do
      assert.equal(case[3], hex(df.run(op('TensorSummaryV2', { df.constant 'tag', case[1], df.constant(case[2]) }, {}))))
    end
    local ok, e = pcall(df.run, (op('TensorSummaryV2', { df.constant{ 'a', 'b' }, df.float32(1), df.constant '' }, {})))
    assert.matches('tag must be scalar', not ok and e.message)
  end)

  it('refuses what is not finite, tags that do not fit and tags that are there twice', function()
    local function message(...) return select(2, pcall(df.run, (op(...)))).message end
    local one = op('ScalarSummary', { df.constant 'a', df.float32(1) }, {})
    assert.matches('duplicate tag a found', message('MergeSummary', { { one, one } }, {}))
    assert.matches('could not parse', message('MergeSummary', { { df.constant 'xyz' } }, {}))
    assert.matches('Nan in summary histogram for: h', message('HistogramSummary', { df.constant 'h', df.float32{ 0 / 0 } }, {}))
    assert.matches('not the same shape', message('ScalarSummary', { df.constant{ 'a', 'b' }, df.float32{ 1 } }, {}))
  end)
end)

describe('A random op of an imported graph', function()
  local function node(name, seed, seed2)
    local attrs = { T = 'type: DT_INT32', dtype = 'type: DT_FLOAT', seed = seed and 'i: ' .. seed, seed2 = seed2 and 'i: ' .. seed2 }
    local text = { ('node { name: "%s" op: "RandomUniform" input: "n"'):format(name) }
    for k, v in pairs(attrs) do text[#text + 1] = ('attr { key: "%s" value { %s } }'):format(k, v) end
    return table.concat(text, ' ') .. ' }\n'
  end
  local four = [[node { name: "n" op: "Const" attr { key: "dtype" value { type: DT_INT32 } } attr { key: "value" value {
    tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 4 } } } }
  ]]

  it('draws by both of its seeds, and by itself without any', function()
    local g = df.import_graph_def(four .. node('a', 0, 0) .. node('b', 0, 0) .. node 'c' .. node('d', 5, 1) .. node('e', 5, 2) .. node('f', 5, 1)
                                  .. node('g', 0, 1))
    local fetches, names, found = {}, { 'a', 'b', 'c', 'd', 'e', 'f', 'g' }, {}
    for i, name in ipairs(names) do fetches[i] = g:output(name) end
    for i, v in ipairs(df.Session{ graph = g }:run(fetches)) do found[names[i]] = v:totable() end
    assert.same(found.d, found.f)
    for i, a in ipairs(names) do
      for k = i + 1, #names do
        local b = names[k]
        if a .. b ~= 'df' then assert.are_not.same(found[a], found[b], a .. ' and ' .. b) end
      end
    end
  end)
end)

describe('A candidate sampler of an imported graph', function()
  local function sampler(kind, n, range, unique)
    return df.run{ op(kind, { df.constant({ { 1 }, { 2 } }, 'int64') }, { num_true = 1, num_sampled = n, unique = unique, range_max = range }) }
  end

  it('draws different classes, and says how often each is expected', function()
    for _, kind in ipairs{ 'UniformCandidateSampler', 'LogUniformCandidateSampler' } do
      local seen = sampler(kind, 10, 10, true)[1]:totable()
      table.sort(seen)
      assert.same({ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 }, seen)
    end
    assert.same({ { 0.5 }, { 0.5 } }, sampler('UniformCandidateSampler', 5, 10, false)[2]:totable())
    local chance = sampler('LogUniformCandidateSampler', 1, 10, false)[2]:totable()
    assert.is_true(math.abs(chance[1][1] - math.log(3 / 2) / math.log(11)) < 1e-6)
    local each = sampler('AllCandidateSampler', 4, nil, true)
    assert.same({ 0, 1, 2, 3 }, each[1]:totable())
    assert.same({ 1, 1, 1, 1 }, each[3]:totable())
  end)

  it('prefers the first classes by logarithms', function()
    local counts = { 0, 0, 0 }
    for _, c in ipairs(sampler('LogUniformCandidateSampler', 3000, 3, false)[1]:totable()) do counts[c + 1] = counts[c + 1] + 1 end
    for c = 0, 2 do assert.is_true(math.abs(counts[c + 1] / 3000 - math.log((c + 2) / (c + 1)) / math.log(4)) < 0.05) end
  end)

  it('refuses more different classes than there are', function()
    local ok, e = pcall(sampler, 'UniformCandidateSampler', 5, 4, true)
    assert.is_false(ok)
    assert.matches('5 different classes are to be sampled, but there are 4', e.message)
  end)

  it('finds where it drew a true class', function()
    local rows, ids, weights = op('ComputeAccidentalHits', { df.constant({ { 1, 7 }, { 2, 3 } }, 'int64'), df.constant({ 3, 1, 2, 9 }, 'int64') },
                                  { num_true = 2 })
    assert.same({ 0, 1, 1 }, df.run(rows):totable())
    assert.same({ 1, 2, 0 }, df.run(ids):totable())
    for _, w in ipairs(df.run(weights):totable()) do assert.is_true(w < -3.4e38) end
  end)
end)

--- The values of that op's outputs, as tables.
local function run(...)
  local found = df.run({ op(...) }, nil, { tensors = true })
  for i, t in ipairs(found) do found[i] = t:totable() end
  return found
end

describe('Crosses of feature columns', function()
  local a, b, c = df.tensor{ 'a', 'b', 'c' }, df.tensor({ 7, 8, -9, 1 }, 'int64'), df.tensor{ { 'd' }, { 'e' }, { 'f' } }
  local function long(list) return df.tensor(list, 'int64') end
  local key = 0xDECAFCAFFE                                          -- TensorFlow's
  local joined = { 'a_X_7_X_d', 'b_X_8_X_e', 'b_X_-9_X_e', 'c_X_8_X_e', 'c_X_-9_X_e' }
  local buckets, places = { 662, 72, 484, 228, 602 }, { { 0, 0 }, { 1, 0 }, { 1, 1 }, { 1, 2 }, { 1, 3 } }

  it('of ragged tensors are TensorFlow\'s, joined and hashed', function()
    local function ragged(hashed, order)
      return run('RaggedCross', { { a, b, long{ 0, 1, 3, 3 }, long{ 0, 1, 3, 4 }, c } }, {
        Nsparse = 0, input_order = order or 'RRD', hashed_output = hashed, num_buckets = 1000, hash_key = key,
        ragged_values_types = { 'string', 'int64' }, ragged_splits_types = { 'int64', 'int64' }, dense_types = { 'string' },
        out_values_type = hashed and 'int64' or 'string', out_row_splits_type = 'int64' })
    end
    assert.same({ joined, { 0, 1, 5, 5 } }, ragged(false))
    assert.same({ buckets, { 0, 1, 5, 5 } }, ragged(true))
    assert.equal('d_X_a_X_7', ragged(false, 'DRR')[1][1])
    assert.matches("input_order 'RDD' does not name 2 ragged", select(2, pcall(ragged, false, 'RDD')).message)
  end)

  it('of sparse tensors are, too', function()
    local shape = long{ 3, 2 }
    local function sparse(type, first, attrs, ...)
      attrs.N, attrs.sparse_types, attrs.dense_types = 2, { 'string', 'int64' }, { 'string' }
      return run(type, { { first, long{ { 0, 0 }, { 1, 0 }, { 1, 1 }, { 2, 0 } }, a, b, shape, shape, c }, ... }, attrs)
    end
    local first = long{ { 0, 0 }, { 1, 0 }, { 1, 1 } }
    local hashed = { hashed_output = true, num_buckets = 1000, hash_key = key, out_type = 'int64', internal_type = 'string' }
    assert.same({ places, buckets, { 3, 4 } }, sparse('SparseCross', first, hashed))
    hashed.out_type = 'string'                              -- the declared dtype decides, whatever hashed_output says
    assert.same({ places, joined, { 3, 4 } }, sparse('SparseCross', first, hashed))
    assert.same({ places, joined, { 3, 4 } }, sparse('SparseCrossV2', first, {}, df.tensor '_X_'))
    assert.matches('value 1 is in row 0 behind row 1',
                   select(2, pcall(sparse, 'SparseCrossV2', long{ { 1, 0 }, { 0, 0 }, { 1, 1 } }, {}, df.tensor '')).message)
  end)
end)

describe('ParseExample', function()
  it('gives what ParseExampleV2 does, each key an input of its own', function()
    local wire = require 'dflow.exchange.wire'
    local function feature(name, list) return wire.bytes(1, wire.bytes(1, name) .. wire.bytes(2, list)) end
    local function numbers(k) return wire.bytes(3, wire.int(1, k) .. wire.int(1, k + 1)) end
    local function example(k) return wire.bytes(1, feature('b', numbers(k)) .. feature('c', wire.bytes(1, wire.bytes(1, 'x' .. k)))) end
    local serialized, names, default = df.constant{ example(3), example(5) }, df.constant({}, 'string', { 0 }), df.constant ''
    local b, c = df.constant 'b', df.constant 'c'
    local attrs = { sparse_types = { 'int64' }, Tdense = { 'string' }, dense_shapes = { {} } }
    attrs.num_sparse = 1
    local wanted = run('ParseExampleV2', { serialized, names, df.stack{ b }, df.stack{ c }, names, { default } }, attrs)
    attrs.num_sparse, attrs.Nsparse, attrs.Ndense = nil, 1, 1
    assert.same(wanted, run('ParseExample', { serialized, names, { b, c, default } }, attrs))
    assert.same({ 3, 4, 5, 6 }, wanted[2])
    assert.matches('input 2 is int64: expected string',
                   select(2, pcall(run, 'ParseExample', { serialized, names, { df.constant(1, 'int64'), c, default } }, attrs)).message)
  end)
end)
