--- Ops of imported graphs that keep things in the session (staging areas, accumulators, tables), and hashes, sets and samplers:
-- what TensorFlow 2.15 gave for the graphs of spec/graphs/session, and what waits.
local df = require 'dflow'
local registry = require 'dflow.front.registry'
local support = require 'spec.support'
local message_of = support.message_of
local cases = require('spec.support').recorded 'spec/graphs/session/values'

local function op(type, inputs, attrs) return registry.op(type, inputs, attrs or {}) end
--- An operation of a type without outputs.
local function effect(g, type, inputs, attrs)
  local n = g:size()
  op(type, inputs, attrs)
  return g:ops()[n + 1]
end

local function text(v)
  if type(v) == 'number' and v % 1 == 0 then return ('%d'):format(v) end
  return (tostring(v):gsub('LL$', ''))
end

describe('an imported graph', function()
  for name, steps in pairs(cases) do
    it('of ' .. name .. ' gives what it gave in TensorFlow', function()
      local g = df.import_graph_def('spec/graphs/session/' .. name .. '.pb')
      local s = df.Session{ graph = g }
      for i, step in ipairs(steps) do
        local where = name .. ', step ' .. i .. ', ' .. step[1]
        local ok, found = pcall(s.run, s, step[1]:find ':' and g:output(step[1]) or g:op(step[1]), step.feeds or {}, { timeout = 20 })
        if step.error then
          assert.equal(step.error, not ok and found.code, where)
        elseif not ok then
          error(where .. ': ' .. tostring(found), 0)
        elseif step[2] then
          local list = type(found) == 'table' and found:list() or { found }
          assert.equal(#step[2], #list, where)
          for k, v in ipairs(list) do
            local want = step[2][k]
            if type(want) == 'number' and want % 1 ~= 0 then assert.is_true(math.abs(v - want) <= 1e-6 * math.abs(want), where)
            else assert.equal(text(want), text(v), where) end
          end
        end
      end
      s:close()
    end)
  end
end)

describe('a handle', function()
  local made = {
    queue = function() return op('FIFOQueueV2', {}, { component_types = { 'float32' } }) end,
    barrier = function() return op('Barrier', {}, { component_types = { 'float32' }, shapes = { {} } }) end,
    mutex = function() return op('MutexV2', {}) end,
    accumulator = function() return op('ConditionalAccumulator', {}, { dtype = 'float32', shape = {} }) end,
    TensorArray = function() return (op('TensorArrayV3', { 2 }, { dtype = 'float32' })) end,
    table = function() return op('MutableHashTableV2', {}, { key_dtype = 'int64', value_dtype = 'float32' }) end,
    variable = function() return op('VarHandleOp', {}, { dtype = 'float32', shape = {} }) end,
    stack = function() return op('StackV2', { 3 }, { elem_type = 'float32' }) end,
  }
  local takes = {
    queue = { { 'QueueSizeV2' }, { 'QueueIsClosedV2' }, { 'QueueDequeueV2', { component_types = { 'float32' } } },
              { 'QueueDequeueManyV2', { component_types = { 'float32' } }, 1 } },
    barrier = { { 'BarrierReadySize' }, { 'BarrierIncompleteSize' }, { 'BarrierTakeMany', { component_types = { 'float32' } }, 1 } },
    mutex = { { 'MutexLock' } },
    accumulator = { { 'AccumulatorNumAccumulated' }, { 'AccumulatorTakeGradient', { dtype = 'float32' }, 1 }, { 'SparseAccumulatorTakeGradient', { dtype = 'float32' }, 1 } },
    table = { { 'LookupTableSizeV2' }, { 'LookupTableExportV2', { Tkeys = 'int64', Tvalues = 'float32' } } },
    variable = { { 'ReadVariableOp', { dtype = 'float32' } }, { 'VarIsInitializedOp' } },
    stack = { { 'StackPopV2', { elem_type = 'float32' } } },
  }
  for kind, calls in pairs(takes) do
    it(('of something else is refused by what takes a %s'):format(kind), function()
      for _, call in ipairs(calls) do
        for other, make in pairs(made) do
          local y = op(call[1], { make(), call[3] }, call[2])
          if type(y) == 'table' and not y.op then y = y[1] end
          if other ~= kind then
            local found = ('input 0 is %s %s but must be %s %s'):format(other == 'accumulator' and 'an' or 'a', other, kind == 'accumulator' and 'an' or 'a', kind)
            assert.matches(found, message_of(df.run, y), 1, true)
          end
        end
      end
    end)
  end
end)

describe('a staging area', function()
  local about = { shared_name = 'a', dtypes = { 'float32' }, capacity = 1 }
  local function put(x) return df.control_dependencies({}, function() return effect(df.default_graph(), 'Stage', { { x } }, about) end) end

  it('holds back a producer where it is full, and a consumer where it is empty', function()
    local x = df.placeholder('float32', {})
    local stage, got = put(x), op('Unstage', {}, about)[1]
    local taker = df.start(got)
    assert.is_false(taker:done())
    df.run(stage, { [x] = 1 })
    assert.equal(1, taker:wait())
    df.run(stage, { [x] = 2 })
    local giver = df.start(stage, { [x] = 3 })
    assert.is_false(giver:done())
    assert.equal(2, df.run(got))
    giver:wait()
    assert.equal(3, df.run(got))
  end)

  it('lets a peek wait for a later element, and holds up none meanwhile', function()
    local many = { shared_name = 'b', dtypes = { 'float32' } }
    local x = df.placeholder('float32', {})
    local stage, got = effect(df.default_graph(), 'Stage', { { x } }, many), op('Unstage', {}, many)[1]
    local second = df.start(op('StagePeek', { df.int32(1) }, many)[1])
    df.run(stage, { [x] = 1 })
    assert.is_false(second:done())
    assert.equal(1, df.run(got))
    df.run(stage, { [x] = 2 })
    df.run(stage, { [x] = 3 })
    assert.equal(3, second:wait())
    assert.equal(2, df.run(op('StageSize', {}, many)))
    assert.matches('element -1 of staging area', message_of(df.run, op('StagePeek', { df.int32(-1) }, many)[1]), 1, true)
  end)

  it('gives room to waiters when it is cleared', function()
    local x = df.placeholder('float32', {})
    local stage, clear = put(x), effect(df.default_graph(), 'StageClear', {}, about)
    df.run(stage, { [x] = 1 })
    local giver = df.start(stage, { [x] = 2 })
    assert.is_false(giver:done())
    df.run(clear)
    giver:wait()
    assert.equal(2, df.run(op('Unstage', {}, about)[1]))
  end)

  it('lets go waiters when the run is cancelled or its time is over', function()
    local got = op('Unstage', {}, about)[1]
    local h = df.start(got)
    h:cancel()
    local e = support.error_of(h.wait, h)
    assert.equal('cancelled', e.code)
    e = support.error_of(df.run, got, {}, { timeout = 0.05 })
    assert.equal('deadline_exceeded', e.code)
    assert.matches("waits for 1 element from staging area 'a', which holds 0", e.message, 1, true)
    local look = op('StagePeek', { df.int32(2) }, about)[1]
    e = support.error_of(df.run, look, {}, { timeout = 0.05 })
    assert.matches("waits for 3 elements in staging area 'a'", e.message, 1, true)
  end)

  it('has one capacity and one list of dtypes for all ops that name it', function()
    local x = df.placeholder('float32', {})
    df.run(put(x), { [x] = 1 })
    local other = op('Unstage', {}, { shared_name = 'a', dtypes = { 'int32' }, capacity = 1 })[1]
    assert.matches('float32', message_of(df.run, other), 1, true)
    local bounded = op('Unstage', {}, { shared_name = 'c', dtypes = { 'int32' }, memory_limit = 100 })[1]
    assert.matches('memory_limit is 100', message_of(df.run, bounded), 1, true)
  end)
end)

describe('an accumulator', function()
  local function accumulator(attrs)
    attrs.dtype = attrs.dtype or 'float32'
    local h = op('ConditionalAccumulator', {}, attrs)
    local g = df.default_graph()
    return function(step, x) return effect(g, 'AccumulatorApplyGradient', { h, df.int64(step), x }) end,
           function(n) return op('AccumulatorTakeGradient', { h, df.int32(n) }, { dtype = attrs.dtype }) end,
           op('AccumulatorNumAccumulated', { h })
  end

  it('lets a taker wait for as many gradients as it requires, and the next one for the next', function()
    local x = df.placeholder('float32', { 2 })
    local apply, take, count = accumulator{ shape = { 2 } }
    local give, later = apply(0, x), apply(1, x)
    local mean = take(2)
    local first, second = df.start(mean), df.start(mean)
    df.run(give, { [x] = { 1, 2 } })
    assert.is_false(first:done())
    df.run(give, { [x] = { 3, 6 } })
    support.same(first:wait(), { 2, 4 })
    df.run(give, { [x] = { 9, 9 } })                             -- of the step before: left out
    assert.equal(0, df.run(count))
    df.run(later, { [x] = { 5, 5 } })
    df.run(later, { [x] = { 7, 9 } })
    support.same(second:wait(), { 6, 7 })
  end)

  it('says what is waited for, and lets go a cancelled taker', function()
    local apply, take = accumulator{ shape = {}, shared_name = 'g' }
    local e = support.error_of(df.run, take(3), {}, { timeout = 0.05 })
    assert.equal('deadline_exceeded', e.code)
    assert.matches("waits for 3 gradients in accumulator 'g', which has 0 of step 0", e.message, 1, true)
    local h = df.start(take(1))
    h:cancel()
    assert.equal('cancelled', (select(2, pcall(h.wait, h))).code)
    df.run(apply(0, df.float32(4)))
    assert.equal(4, df.run(take(1)))
  end)

  it('gives nothing to a cancelled taker, whenever its run notices', function()
    local apply, take = accumulator{ shape = {}, shared_name = 'c' }
    for n = 1, 20 do
      local h = df.start(take(1))
      if n % 4 == 0 then pcall(df.run, op('Unstage', {}, { shared_name = 'never', dtypes = { 'float32' } })[1], {}, { timeout = 0.05 }) end
      h:cancel()
      df.run(apply(n, df.float32(n)))
      assert.equal('cancelled', (select(2, pcall(h.wait, h))).code)
      assert.equal(n, df.run(take(1), {}, { timeout = 60 }))
    end
  end)

  it('gives the next in line what a cancelled taker held up', function()
    local apply, take = accumulator{ shape = {}, shared_name = 'h' }
    local first = df.start(take(2))
    pcall(df.run, op('Unstage', {}, { shared_name = 'nothing comes', dtypes = { 'float32' } })[1], {}, { timeout = 0.2 })    -- it is in line
    local second = df.start(take(1), {}, { timeout = 60 })
    df.run(apply(0, df.float32(3)))
    first:cancel()
    assert.equal('cancelled', (select(2, pcall(first.wait, first))).code)
    assert.equal(3, second:wait())
  end)

  it('sums, in float16 and float64 too', function()
    for _, d in ipairs{ 'float16', 'float64' } do
      local apply, take = accumulator{ dtype = d, shape = {}, reduction_type = 'SUM' }
      local give = apply(0, df.cast(df.float32(1.5), d))
      for _ = 1, 3 do df.run(give) end
      assert.equal(4.5, df.run(take(3)))
    end
    local apply, take = accumulator{ dtype = 'float16', shape = { 2 } }
    df.run(apply(0, df.float16{ 1, 2 }))
    df.run(apply(0, df.float16{ 2, 2 }))
    support.same(df.run(take(2)), { 1.5, 2 })
  end)

  it('of an unknown shape keeps to that of the first gradient', function()
    local x = df.placeholder 'float32'
    local apply, take = accumulator{ shape = { -1 } }
    local give = apply(0, x)
    df.run(give, { [x] = { 1, 2, 3 } })
    assert.matches('adds up float32[3] but is given float32[2]', message_of(df.run, give, { [x] = { 1, 2 } }), 1, true)
    support.same(df.run(take(1)), { 1, 2, 3 })
    df.run(apply(1, x), { [x] = { 1 } })
    assert.matches("reduction_type is 'MAX'", message_of(op, 'ConditionalAccumulator', {}, { dtype = 'float32', shape = {}, reduction_type = 'MAX' }), 1, true)
  end)
end)

describe('sets', function()
  local function operate(how, a, b) return op('DenseToDenseSetOperation', { a, b }, { set_operation = how }) end
  it('that are empty, or of which nothing is left', function()
    local _, values, shape = operate('intersection', df.int32{ { 1, 2 } }, df.int32{ { 3, 4 } })
    assert.same({ 0 }, df.run(values).shape)
    support.same(df.run(shape), { 1, 0 })
    _, values, shape = operate('union', df.zeros({ 2, 0 }, 'int32'), df.int32{ { 3, 3 }, { 4, 3 } })
    support.same(df.run(values), { 3, 3, 4 })
    support.same(df.run(shape), { 2, 2 })
  end)
  it('and distances of texts have the shapes that were known before they were computed', function()
    local fed = df.placeholder('int32', { 1 })
    local function texts(dims) return df.int64{ { 0, 0, 0 } }, fed, df.int64(dims) end
    for _, dims in ipairs{ { { 2, 3, 5 }, { 4, 1, 6 } }, { { 4, 1, 6 }, { 2, 3, 5 } }, { { 1, 1, 1 }, { 1, 1, 2 } } } do
      local i, v, s = texts(dims[1])
      local y = op('EditDistance', { i, v, s, texts(dims[2]) })
      assert.same(df.run(y, { [fed] = { 1 } }).shape, y.shape)
    end
    local x = df.placeholder('int32', { 2, 1, 1 })
    local indices, values, shape = operate('a-b', x, df.int32{ { { 1 } }, { { 3 } } })
    local r = df.run({ indices, shape }, { [x] = { { { 1 } }, { { 2 } } } })
    assert.same({ -1, r[1].shape[2] }, indices.shape)
    assert.same({ -1 }, values.shape)
    assert.same(r[2].shape, shape.shape)
  end)
  it('say what is wrong with them', function()
    assert.matches("set_operation is 'xor'", message_of(df.run, (operate('xor', df.int32{ { 1 } }, df.int32{ { 1 } }))), 1, true)
    assert.matches('counted by different dimensions', message_of(df.run, (operate('a-b', df.int32{ { 1 } }, df.int32{ { 1 }, { 2 } }))), 1, true)
    assert.matches('a set has rank 1', message_of(df.run, (operate('a-b', df.int32{ 1 }, df.int32{ 1 }))), 1, true)
    local function size(indices, values, shape) return op('SetSize', { df.int64(indices), df.int32(values), df.int64(shape) }) end
    assert.matches('out of order', message_of(df.run, size({ { 1, 0 }, { 0, 0 } }, { 1, 2 }, { 2, 2 })), 1, true)
    assert.matches('which has 2', message_of(df.run, size({ { 2, 0 } }, { 1 }, { 2, 2 })), 1, true)
    assert.matches('are no sparse sets', message_of(df.run, size({ { 0, 0 } }, { 1, 2 }, { 2, 2 })), 1, true)
    -- more sets than a number of 64 bits counts
    assert.matches('dimension 1 of the sets is', message_of(df.run, size({ { 1, 2 ^ 52, 0 } }, { 1 }, { 4096, 2 ^ 52, 1 })), 1, true)
    local none = df.zeros({ 2 ^ 40, 2 ^ 40, 0 }, 'int32')
    assert.matches('dimension 0 of the sets is 1099511627776', message_of(df.run, (operate('union', none, none))), 1, true)
  end)
end)

describe('strings in buckets', function()
  it('are in those of TensorFlow, whatever their length', function()
    local all, list = {}, {}
    for i = 0, 259 do all[i + 1] = string.char(33 + (i * i * 7 + i * 13) % 90) end
    local text = table.concat(all)
    for i, n in ipairs{ 0, 1, 2, 3, 4, 7, 8, 9, 12, 15, 16, 17, 24, 25, 31, 32, 33, 47, 48, 63, 64, 65, 80, 100, 127, 128, 129, 192, 200, 256 } do list[i] = text:sub(1, n) end
    local words, buckets = df.constant(list, 'string'), 2 ^ 53 - 111
    support.same(df.run(df.string_to_hash_bucket_fast(words, { num_buckets = buckets })), {
        398277410445704, 8866397862135301, 2635296437550422, 1213474400524298, 6953135728927763, 7454467342911517, 3732807153752671,
        7100887145220470, 8776586207649859, 1017092329162471, 5755379316028308, 1003414635807007, 2348351808135806, 8104531575105341,
        5413071615436332, 6077060207489158, 4782366183018553, 3324672052768846, 8372057276750355, 8578031395313854, 1957130069949520,
        5422179235075435, 8364542974398019, 7896880116556744, 528352341998252, 7985842938847893, 5909004783556272, 1870257342573459,
        7044911423990528, 4646349932612284 })
    support.same(df.run(df.string_to_hash_bucket_strong(words, { num_buckets = buckets, key = { 1, 2 } })), {
        2444445770152122, 288389466264227, 2806186248910084, 5212581135872196, 1064938308584056, 5377361538215555, 5177361293980512,
        1341106417144997, 8959451480935694, 6965505018030347, 957428588097722, 4078785677652560, 2586569598739883, 5124155800138491,
        5544651719678277, 2324007445292739, 320889176927663, 2271707408611310, 6817921233545376, 2631845457759338, 8346847343307847,
        1630466049677542, 3776174766051409, 1240058603273680, 6565673587086569, 8681724699634145, 8446857021669023, 4729870680944298,
        7278263170602392, 2302868854895901 })
    support.same(df.run(df.string_to_hash_bucket_strong(words, { num_buckets = buckets, key = { -5, 123456789 } })), {
        3085378032183495, 7699037250343801, 2896031517769262, 8273885244142738, 8744558693088666, 1274621798973845, 1703103416510597,
        6958419279719574, 1154129795493438, 5492429709588464, 8469068444915253, 3512260319425737, 8376156352710285, 8865998104685294,
        3777851802363716, 1098433396801707, 1811071112620573, 8379182332143832, 1055652501214192, 2598872223021915, 3543171293994305,
        6895278345501016, 3170851494719301, 1222202322327992, 2205372871105062, 3681925167017395, 234865474120862, 6350415502964343,
        3327454854396923, 8825800185677066 })
    -- a key has all 64 bits
    support.same(df.run(df.string_to_hash_bucket_strong({ 'a', 'bcd' }, { num_buckets = 2 ^ 53, key = { 1, 2 ^ 40 } })), { 952874496811897, 7746120180565180 })
    support.same(df.run(df.string_to_hash_bucket_strong({ 'a', 'bcd' }, { num_buckets = 2 ^ 53, key = { -2 ^ 62, 2 ^ 62 + 2 ^ 50 } })),
                 { 7067099727758758, 3536818800097963 })
    support.same(df.run(op('StringToHashBucket', { words }, { num_buckets = buckets })), {
        6355319372472064, 8995128928520085, 1572387216753396, 4964954685997180, 3446052574520952, 7286730577089339, 2633825115258751,
        3342230861149603, 3184808331645916, 3095397799730746, 6189956530901041, 1002025090508338, 8697686205605891, 5093137096863699,
        5659038360917370, 3361719682654142, 2257718672355699, 6694209565655539, 1491766581667860, 6744802279123509, 6507578461568184,
        7937373352165890, 3794896876778169, 2850285363466906, 1270182864011363, 8018776277035934, 7554142683704791, 4752916610752114,
        2416956912289400, 974338855297456 })
  end)

  it('say what is wrong', function()
    assert.matches('num_buckets is 0', message_of(df.string_to_hash_bucket_fast, { 'a' }, { num_buckets = 0 }), 1, true)
    assert.matches('key has 1 numbers', message_of(df.run, df.string_to_hash_bucket_strong({ 'a' }, { num_buckets = 3, key = { 1 } })), 1, true)
    assert.matches('an integer is expected', message_of(df.string_to_hash_bucket_strong, { 'a' }, { num_buckets = 3, key = { 1, 2 ^ 63 } }), 1, true)
  end)
end)

describe('normal numbers between bounds', function()
  local function drawn(shape, ...)
    local inputs = { df.int32(shape), ... }
    for i = 2, 5 do inputs[i] = df.float64(inputs[i]) end
    return df.run(op('ParameterizedTruncatedNormal', inputs, { seed = 7 }))
  end
  --- Mean and variance of a normal distribution between two bounds, by sums over its density.
  local function moments(mean, deviation, low, high)
    local n, sum, first, second = 20000, 0, 0, 0
    for i = 0, n - 1 do
      local x = low + (high - low) * (i + 0.5) / n
      local p = math.exp(-((x - mean) / deviation) ^ 2 / 2 + ((math.max(low, math.min(high, mean)) - mean) / deviation) ^ 2 / 2)
      sum, first, second = sum + p, first + p * x, second + p * x * x
    end
    return first / sum, second / sum - (first / sum) ^ 2
  end
  for _, c in ipairs{ { 0, 1, -1, 2 }, { 0, 1, 0.1, 0.3 }, { 0, 1, 3, 9 }, { 0, 1, -9, -3 }, { 5, 2, 4.5, 5.5 }, { 0, 1, 20, 30 }, { 0, 1, -0.2, 30 } } do
    it(('lie between %g and %g and have their moments'):format(c[3], c[4]), function()
      local x = drawn({ 1, 20000 }, c[1], c[2], c[3], c[4]):list()
      local mean, square = 0, 0
      for _, v in ipairs(x) do
        assert.is_true(v >= c[3] and v <= c[4])
        mean, square = mean + v / #x, square + v * v / #x
      end
      local m, v = moments(c[1], c[2], c[3], math.min(c[4], c[1] + 12 * c[2] + math.max(c[3], 0)))
      assert.is_true(math.abs(mean - m) < 4 * math.sqrt(v / #x), mean .. ' ' .. m)
      assert.is_true(math.abs(square - mean * mean - v) < 0.06 * v, (square - mean * mean) .. ' ' .. v)
    end)
  end
  it('have parameters for each row, and refuse those of no distribution', function()
    local t = drawn({ 2, 50 }, { 0, 100 }, { 1, 0.1 }, { -1, 99 }, { 1, 99.5 })
    for i = 0, 49 do assert.is_true(math.abs(t:at(0, i)) <= 1 and t:at(1, i) >= 99 and t:at(1, i) <= 99.5) end
    assert.matches('batch 0 has the mean 0, the deviation -1', message_of(drawn, { 2 }, 0, -1, 0, 1), 1, true)
    assert.matches('bounds 1 and 1', message_of(drawn, { 2 }, 0, 1, 1, 1), 1, true)
    assert.matches('means is float64[3]', message_of(drawn, { 2 }, { 0, 0, 0 }, 1, 0, 1), 1, true)
  end)
  it('know deviations of any size', function()
    support.same(drawn({ 2 }, 0, 1e300, -1e-300, 1e-300), { 0, 0 })
    assert.matches('the deviation inf', message_of(drawn, { 2 }, 0, math.huge, -1, 1), 1, true)
  end)
end)

describe('a sampler by weights', function()
  local function sample(weights, attrs)
    attrs.num_true, attrs.num_sampled, attrs.unigrams = 1, attrs.num_sampled or 2, df.tensor(weights, 'float32')
    attrs.range_max, attrs.unique = attrs.range_max or #weights, attrs.unique or false
    return df.run((op('FixedUnigramCandidateSampler', { df.constant({ { 0 } }, 'int64') }, attrs)))
  end
  it('draws those that have one', function()
    support.same(sample({ 0, 3, 0 }, {}), { 1, 1 })
    support.same(sample({ 0, 3, 5, 7 }, { num_shards = 2, shard = 1, num_reserved_ids = 2, range_max = 3, num_sampled = 3 }).shape, { 3 })
  end)
  it('says what is wrong, and ends where no class is left to be drawn', function()
    assert.matches('range_max is 4503599627370496, but there are 2 classes', message_of(sample, { 1, 2 }, { range_max = 2 ^ 52 }), 1, true)
    assert.matches('num_reserved_ids 4503599627370496', message_of(sample, { 1, 2 }, { num_reserved_ids = 2 ^ 52 }), 1, true)
    assert.matches('unigram 1 has the weight inf', message_of(sample, { 1, math.huge }, {}), 1, true)
    assert.matches('none of the 2 classes has a weight', message_of(sample, { 0, 0 }, {}), 1, true)
    assert.matches('2 different classes are to be sampled, but 1 have a weight', message_of(sample, { 0, 1 }, { unique = true }), 1, true)
    assert.matches('the others have too little weight', message_of(sample, { 1, 1e-30 }, { unique = true }), 1, true)
    assert.matches('out of memory', message_of(sample, { 1, 1 }, { num_sampled = 2 ^ 62 + 2 ^ 61 }), 1, true)
  end)
end)

describe('a dense table', function()
  it('is made whole, or not, where memory ends', function()
    local core = require 'dflow.backend'
    local x = df.placeholder('int64', {})
    local handle = op('MutableDenseHashTableV2', { x * 1, x * 2 }, { key_dtype = 'int64', value_dtype = 'float32' })
    local size, refused, i = op('LookupTableSizeV2', { handle }), 0, 0
    local well, e
    repeat
      i = i + 1                                                    -- the allocation that fails; a plan over devices has more before the table's
      local s = df.Session{ graph = df.default_graph() }
      core.memory_fail(i, 1)
      well, e = pcall(s.run, s, size, { [x] = -1 })
      core.memory_fail(-1)
      if tostring(e):find('MutableDenseHashTableV2', 1, true) then refused = refused + 1 end
      assert.equal(0, s:run(size, { [x] = -1 }))
      s:close()
    until refused > 0 and well or i == 1000
    assert.is_true(refused >= 1)
  end)
end)

describe('a sampler that learns', function()
  for _, name in ipairs{ 'LearnedUnigramCandidateSampler', 'ThreadUnsafeUnigramCandidateSampler' } do
    it('draws by how often a class was true in earlier runs of the session: ' .. name, function()
      local seen = df.placeholder('int64', { -1, 1 })
      local function sampler(n, unique) return { num_true = 1, num_sampled = n, unique = unique, range_max = 4, seed = 5 } end
      local drawn, of_true, of_drawn = df.unpack{ op(name, { seen }, sampler(2000, false)) }
      local function draw(v)
        local r = df.run({ drawn, of_true, of_drawn }, { [seen] = v })
        local count = { [0] = 0, 0, 0, 0 }
        for i, class in ipairs(r[1]:totable()) do
          class = tonumber(class)
          count[class] = count[class] + 1
          assert.is_true(math.abs(r[3]:totable()[i] - r.expected[class]) < 1e-3)
        end
        return count, r[2]:totable()
      end
      local plain = df.run
      local weights = { [0] = 1, 1, 1, 1 }
      df.run = function(...)
        local r, all = plain(...), 0
        for c = 0, 3 do all = all + weights[c] end
        r.expected = {}
        for c = 0, 3 do r.expected[c] = 2000 * weights[c] / all end
        return r
      end
      local ok, why = pcall(function()
        local count, expected = draw{ { 2 }, { 2 }, { 2 }, { 0 } }
        for c = 0, 3 do assert.is_true(math.abs(count[c] - 500) < 100, count[c]) end
        assert.same({ { 500 }, { 500 }, { 500 }, { 500 } }, expected)
        weights = { [0] = 2, 1, 4, 1 }                                   -- 1, and 1 more for each time
        count, expected = draw{ { 2 }, { 3 } }
        assert.same({ { 1000 }, { 250 } }, expected)
        assert.is_true(math.abs(count[2] - 1000) < 120 and math.abs(count[1] - 250) < 80)
      end)
      df.run = plain
      assert(ok, why)
      assert.matches('true class 4 is not among those from 0 to 3', message_of(df.run, drawn, { [seen] = { { 4 } } }))
      local few = op(name, { seen }, sampler(4, true))
      local all = df.run(few, { [seen] = { { 0 } } }):totable()
      table.sort(all, function(a, b) return tonumber(a) < tonumber(b) end)
      for i, class in ipairs(all) do assert.equal(i - 1, tonumber(class)) end
    end)

    it('has one class at least: ' .. name, function()
      local function draw(classes, true_class)
        return df.run((op(name, { df.constant({ { true_class } }, 'int64') }, { num_true = 1, num_sampled = 3, unique = false, range_max = classes, seed = 5 })))
      end
      assert.same({ 0, 0, 0 }, df.tensor(draw(1, 0), 'int32'):totable())
      assert.matches('range_max is 0: expected 1 or more', message_of(draw, 0, 0))
      assert.matches('true class %-1 is not among those from 0 to 1', message_of(draw, 2, -1))
      assert.matches('true class 2 is not among those from 0 to 1', message_of(draw, 2, 2))
    end)
  end
end)

describe('a sparse accumulator', function()
  local function accumulator(reduction, dtype, shape)
    return op('SparseConditionalAccumulator', {}, { dtype = dtype or 'float32', shape = shape, reduction_type = reduction, shared_name = reduction .. (dtype or '') })
  end
  local function put(a, step, indices, values, shape)
    return effect(df.default_graph(), 'SparseAccumulatorApplyGradient',
                  { a, df.int64(step), df.constant(indices, 'int64'), values, df.constant(shape or {}, 'int64', { shape and #shape or 0 }) },
                  { has_known_shape = shape ~= nil })
  end
  local function take(a, n, dtype)
    return { op('SparseAccumulatorTakeGradient', { a, df.int32(n) }, { dtype = dtype or 'float32' }) }
  end
  local function rows(r)
    local list = {}
    for i, v in ipairs(r[1]:list()) do list[i] = tonumber((text(v))) end
    return list, r[2]:totable()
  end

  for reduction, values in pairs{ MEAN = { { 1, 2 }, { 1, 1 }, { 5, 26 / 3 }, { 5, 5 } }, SUM = { { 1, 2 }, { 1, 1 }, { 15, 26 }, { 5, 5 } } } do
    it('gives what TensorFlow gives: each row by how many had it, and the rest: ' .. reduction, function()
      local a = accumulator(reduction, nil, { 5, 2 })
      for _, one in ipairs{ put(a, 0, { 0, 2 }, df.float32{ { 1, 2 }, { 3, 4 } }), put(a, 0, { 1, 2, 4 }, df.float32{ { 1, 1 }, { 2, 2 }, { 5, 5 } }),
                            put(a, 0, { 2 }, df.float32{ { 10, 20 } }, { 5, 2 }) } do df.run(one) end
      assert.equal(3, df.run(op('AccumulatorNumAccumulated', { a })))
      local r = df.run(take(a, 2))
      local indices, found = rows(r)
      assert.same({ 0, 1, 2, 4 }, indices)
      for i, row in ipairs(values) do for j, v in ipairs(row) do assert.is_true(math.abs(v - found[i][j]) < 1e-5) end end
      assert.equal('5 2', table.concat({ text(r[3]:list()[1]), text(r[3]:list()[2]) }, ' '))
      df.run(put(a, 0, { 0 }, df.float32{ { 9, 9 } }))                                    -- of an older step
      assert.equal(0, df.run(op('AccumulatorNumAccumulated', { a })))
      df.run(put(a, 1, { 3, 1 }, df.float32{ { 9, 9 }, { 7, 7 } }))
      df.run(put(a, 1, { 1, 3 }, df.float32{ { 1, 1 }, { 2, 2 } }))
      indices, found = rows(df.run(take(a, 1)))
      assert.same({ 1, 3, 1 }, indices)
      local both = reduction == 'MEAN' and 5.5 or 11
      assert.same({ { 1, 1 }, { both, both }, { 7, 7 } }, found)
    end)
  end

  it('refuses rows that are not its own, and dense gradients', function()
    local a = accumulator('MEAN', nil, { 5, 2 })
    local function says(what, ...) assert.matches(what, message_of(df.run, put(a, ...))) end
    says('gradient_indices%[0%] is 5, not a row', 0, { 5 }, df.float32{ { 9, 9 } })
    says('gradient_indices%[1%] is %-1, not a row', 0, { 1, -1 }, df.float32{ { 9, 9 }, { 9, 9 } })
    says('rows of float32%[5,2%] but is given those of float32%[1,3%]', 0, { 1 }, df.float32{ { 9, 9, 9 } })
    says('but is given those of', 0, { 1 }, df.float32{ { 9, 9 } }, { 4, 2 })
    says('but is given those of', 0, { 1 }, df.float32{ { 9, 9 } }, { 5, 3 })
    says('expected %[n%] and %[n, ...%]', 0, { 1, 2 }, df.float32{ { 9, 9 } })
    local dense = effect(df.default_graph(), 'AccumulatorApplyGradient', { a, df.int64(0), df.float32{ { 1, 2 } } })
    assert.matches('adds up sparse gradients, not dense ones', message_of(df.run, dense))
    local other = op('ConditionalAccumulator', {}, { dtype = 'float32', shape = { 5, 2 }, shared_name = 'MEAN' })
    df.run(put(a, 0, { 1 }, df.float32{ { 9, 9 } }))
    assert.matches("'MEAN' already, of sparse gradients", message_of(df.run, op('AccumulatorNumAccumulated', { other })))
  end)

  it('lets a taker wait, and takes any shape where it has none', function()
    local a = accumulator('MEAN', 'float64', { -1 })
    local h = df.start(take(a, 2, 'float64'))
    assert.is_false(h:done())
    df.run(put(a, 0, { 7 }, df.float64{ 1.5 }))
    assert.is_false(h:done())
    df.run(put(a, 0, { 8 }, df.float64{ 2.5 }))
    local r = h:wait()
    assert.same({ 7, 8 }, (rows(r)))
    assert.same({ 1.5, 2.5 }, r[2]:totable())
    assert.equal('-1', text(r[3]:list()[1]))
  end)
end)

describe('a barrier', function()
  local function barrier(name) return op('Barrier', {}, { component_types = { 'float32', 'int32' }, shapes = { { 2 }, {} }, shared_name = name or 'b' }) end
  local function put(b, keys, values, component)
    return effect(df.default_graph(), 'BarrierInsertMany', { b, df.constant(keys, 'string', { #keys }), values }, { component_index = component })
  end
  local function take(b, n, few)
    local outputs = { op('BarrierTakeMany', { b, df.int32(n) }, { component_types = { 'float32', 'int32' }, allow_small_batch = few }) }
    return outputs
  end
  local function sizes(b) return df.run(op('BarrierReadySize', { b })) .. ' ' .. df.run(op('BarrierIncompleteSize', { b })) end
  local function keys_of(r) return table.concat(r[2]:totable(), ' ') end

  it('gives whole elements, by the calls that brought their keys, as TensorFlow does', function()
    local b = barrier()
    df.run(put(b, { 'a', 'b', 'c' }, df.float32{ { 1, 2 }, { 3, 4 }, { 5, 6 } }, 0))
    assert.equal('0 3', sizes(b))
    df.run(put(b, { 'c', 'a' }, df.int32{ 30, 10 }, 1))
    assert.equal('2 1', sizes(b))
    local r = df.run(take(b, 1))
    assert.equal('c', keys_of(r))
    assert.same({ { 5, 6 } }, r[3]:totable())
    assert.same({ 30 }, r[4]:totable())
    assert.equal('-9223372036854775808', text(r[1]:list()[1]))
    df.run(put(b, { 'z' }, df.int32{ 9 }, 1))                               -- a later call: a later place
    df.run(put(b, { 'z' }, df.float32{ { 9, 9 } }, 0))
    df.run(put(b, { 'b' }, df.int32{ 20 }, 1))
    r = df.run(take(b, 3))
    assert.equal('a b z', keys_of(r))
    assert.equal('-9223372036854775807', text(r[1]:list()[3]))
  end)

  it('that is closed takes no new keys, gives what becomes whole, and then nothing', function()
    local b = barrier()
    df.run(put(b, { 'a', 'b' }, df.float32{ { 1, 2 }, { 3, 4 } }, 0))
    df.run(put(b, { 'a' }, df.int32{ 10 }, 1))
    assert.matches("key 'b' of barrier 'b' has component 0 already", message_of(df.run, put(b, { 'b' }, df.float32{ { 0, 0 } }, 0)))
    local close = effect(df.default_graph(), 'BarrierClose', { b })
    df.run(close)
    assert.equal('cancelled', select(2, pcall(df.run, close)).code)
    assert.equal('cancelled', select(2, pcall(df.run, put(b, { 'n' }, df.int32{ 1 }, 1))).code)
    assert.equal('out_of_range', select(2, pcall(df.run, take(b, 5))).code)
    assert.equal('a', keys_of(df.run(take(b, 5, true))))
    local h = df.start(take(b, 1))
    assert.is_false(h:done())                                                -- b may yet come
    df.run(put(b, { 'b' }, df.int32{ 20 }, 1))
    assert.equal('b', keys_of(h:wait()))
    assert.equal('0 0', sizes(b))
    assert.equal('out_of_range', select(2, pcall(df.run, take(b, 1))).code)
    assert.equal('out_of_range', select(2, pcall(df.run, take(b, 1, true))).code)
  end)

  it('is called a barrier by what is said of it', function()
    local b = barrier()
    assert.matches("waits for 3 elements from barrier 'b', which holds 0", message_of(df.run, take(b, 3)))
    local other = op('Barrier', {}, { component_types = { 'float32', 'int64' }, shapes = { { 2 }, {} }, shared_name = 'b' })
    local message = message_of(df.run, { op('BarrierReadySize', { b }), op('BarrierReadySize', { other }) })
    assert.matches("the shared barrier 'b' has components float32[2], int32[] but float32[2], int64[] is asked for", message, 1, true)
  end)

  it('that is closed for good lets go what is incomplete, and its waiters', function()
    local b = barrier()
    df.run(put(b, { 'a' }, df.float32{ { 1, 2 } }, 0))
    local h = df.start(take(b, 1))
    df.run(effect(df.default_graph(), 'BarrierClose', { b }, { cancel_pending_enqueues = true }))
    assert.equal('out_of_range', select(2, pcall(h.wait, h)).code)
    assert.equal('0 0', sizes(b))
    assert.equal('cancelled', select(2, pcall(df.run, put(b, { 'a' }, df.int32{ 1 }, 1))).code)
  end)

  it('says what does not fit it', function()
    local b = barrier()
    assert.matches('component_index is 2', message_of(df.run, put(b, { 'a' }, df.int32{ 1 }, 2)))
    assert.matches('component 1 of barrier .b. is int32%[%] but float32%[%] was given', message_of(df.run, put(b, { 'a' }, df.float32{ 1 }, 1)))
    assert.matches('expected %[n%] and %[n, ...%]', message_of(df.run, put(b, { 'a', 'b' }, df.int32{ 1 }, 1)))
    assert.matches('num_elements is 0', message_of(df.run, take(b, 0)))
    assert.matches('2 component_types and 0 shapes', message_of(df.run, op('BarrierReadySize', { op('Barrier', {}, { component_types = { 'int32', 'int32' } }) })))
    assert.matches('capacity is 4', message_of(df.run, op('BarrierReadySize', { op('Barrier', {}, { component_types = { 'int32' }, shapes = { {} }, capacity = 4 }) })))
  end)
end)

describe('a mutex', function()
  local function critical(fn)
    local lock = op('MutexLock', { op('MutexV2', {}, { shared_name = 'm' }) })
    local result = df.control_dependencies({ lock }, fn)
    return df.control_dependencies({ result }, function()
      local consumed = effect(df.default_graph(), 'ConsumeMutexLock', { lock })
      return df.control_dependencies({ consumed }, function() return df.identity(result) end)
    end), lock
  end

  it('is held by one run at a time, and goes to the next in line', function()
    local q = df.FIFOQueue(1, { 'float32' }, { shapes = { {} } })
    local x = df.placeholder('float32', {})
    local inside = critical(function() return q:dequeue() * x end)
    local first, second = df.start(inside, { [x] = 2 }), df.start(inside, { [x] = 3 })
    local put = q:enqueue(df.float32(5))
    df.run(put)
    assert.equal(10, first:wait())
    assert.is_false(second:done())
    df.run(put)
    assert.equal(15, second:wait())
    df.run(put)
    assert.equal(20, df.run(inside, { [x] = 4 }))
  end)

  it('goes on where a run that holds it or waits for it ends early, or lets its lock go', function()
    local q = df.FIFOQueue(1, { 'float32' }, { shapes = { {} } })
    local inside, lock = critical(function() return q:dequeue() end)
    local first, second, third = df.start(inside), df.start(inside), df.start(inside)
    second:cancel()
    assert.equal('cancelled', select(2, pcall(second.wait, second)).code)
    first:cancel()
    assert.equal('cancelled', select(2, pcall(first.wait, first)).code)
    df.run(q:enqueue(df.float32(7)))
    assert.equal(7, third:wait())
    df.run(lock.op)                                                        -- its value ends with the run
    df.run(q:enqueue(df.float32(8)))
    assert.equal(8, df.run(inside, {}, { timeout = 20 }))
  end)
end)

describe('a summary of pictures or sounds', function()
  local function pixels(summary)
    local png = summary:sub((assert(summary:find('\137PNG', 1, true))), (select(2, assert(summary:find('IEND....', 1)))))
    local path = os.tmpname()
    require('spec.shell').write(path, png)
    local picture = df.data.image(path)
    os.remove(path)
    return picture
  end

  it('has the bytes that TensorFlow writes of a sound', function()
    local sound = df.constant({ { { 0.5, -0.5 }, { 1, -1 }, { 2, 1e-5 } } }, 'float32')
    local hex = df.run(op('AudioSummaryV2', { df.constant 'a', sound, df.float32(8000) })):gsub('.', function(c) return ('%02x'):format(c:byte()) end)
    assert.equal('0a5b0a09612f617564696f2f30324e0d0000fa45100218032238524946463000000057415645666d74201000000001000200401f0000007d0000' ..
                 '04001000646174610c000000004000c0ff7f0080ff7f00002a09617564696f2f776176', hex)
    local one = df.run(op('AudioSummary', { df.constant 'a', df.ones{ 3, 4 } }, { sample_rate = 8000, max_outputs = 1 }))
    assert.is_truthy(one:find('a/audio2', 1, true))                           -- without a number
    local function rate_of(hertz)
      return df.run(op('AudioSummaryV2', { df.constant 'r', df.zeros{ 1, 0 }, df.float32(hertz) })):match('WAVE.-fmt ........(..)')
    end
    for hertz, whole in pairs{ [0.3] = 1, [2.5] = 2, [3.5] = 4 } do assert.equal(string.char(whole, 0), rate_of(hertz)) end     -- and no frames
    assert.matches('sample_rate is 0', message_of(df.run, op('AudioSummaryV2', { df.constant 'a', sound, df.float32(0) })))
    assert.matches('expected %[batch, frames%]', message_of(df.run, op('AudioSummaryV2', { df.constant 'a', df.ones{ 3 }, df.float32(8) })))
  end)

  it('has pictures in bytes, the greatest white, what is not finite red', function()
    local x = df.constant({ { { { -1.5, 0.25, 1 } }, { { 0, 2, 3 } } }, { { { 0 / 0, 0, 0 } }, { { 1, 2, 3 } } } }, 'float32')
    local s = df.run(op('ImageSummary', { df.constant 't', x }))
    assert.is_truthy(s:find('t/image/0', 1, true) and s:find('t/image/1', 1, true))
    assert.same({ 64, 138, 170, 128, 212, 255 }, pixels(s):reshape{ 6 }:totable())
    assert.same({ 255, 0, 0, 85, 170, 255 }, pixels(s:sub((s:find('t/image/1', 1, true)))):reshape{ 6 }:totable())
    s = df.run(op('ImageSummary', { df.constant 'u', df.constant({ { { { 0 }, { 30 } }, { { 60 }, { 210 } } } }, 'uint8') }, { max_images = 1 }))
    assert.is_nil(s:find('u/image/', 1, true))
    local function row_of(dtype, list)                                        -- each step is rounded to the dtype, as in TensorFlow
      local picture = df.constant(list, dtype):reshape{ 1, 1, #list, 1 }
      return pixels(df.run(op('ImageSummary', { df.constant 'h', picture }))):reshape{ #list }:totable()
    end
    assert.same({ 28, 85, 155, 240, 254, 184, 2 }, row_of('float16', { 0.1, 0.3, 0.55, 0.85, 0.9, 0.65, 0.0101 }))
    assert.same({ 84, 254 }, row_of('float64', { 0.2, 0.6 }))
    assert.matches('1, 3 or 4 channels', message_of(df.run, op('ImageSummary', { df.constant 't', df.ones{ 1, 2, 2, 2 } })))
    assert.matches('max_images is 0', message_of(op, 'ImageSummary', { df.constant 't', df.ones{ 1, 2, 2, 3 } }, { max_images = 0 }))
  end)
end)
