--- Candidate samplers: classes drawn to stand for all others, with how often each was to be expected. As TensorFlow 1's
-- tf.nn.*_candidate_sampler, in ops and while_loops.
--
-- Each gives ids int64 [num_sampled], the expected counts of the true classes (shaped as they are) and those of the
-- ids: together what sampled_softmax_loss and nce_loss take as sampled_values.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local tensor = require 'dflow.front.tensor'
local convert = require 'dflow.front.convert'
local control = require 'dflow.front.control'
local variable = require 'dflow.front.variable'
local ops = require 'dflow.front.ops'
local layer = require 'dflow.nn.layer'

local M = {}
local f = ops.functions

--- true_classes as int64 [batch, num_true].
function M.classes(classes, num_true, what)
  if classes == nil then errors.bad('%s: the true classes are missing', what) end
  local d = convert.typed(classes)
  if d and d ~= dtypes.INT32 and d ~= dtypes.INT64 then
    errors.bad("%s: the true classes are %s, int64 is expected: cast them, as in df.cast(x, 'int64')", what,
               dtypes.name[d])
  end
  classes = convert.to_output(classes, d or dtypes.INT64, nil, what)
  if graph.dtype(classes) ~= dtypes.INT64 then classes = f.cast(classes, 'int64') end
  if graph.rank(classes) == 1 and num_true == 1 then classes = f.expand_dims(classes, 1) end
  local shape = classes.shape
  if shape and (#shape ~= 2 or (shape[2] >= 0 and shape[2] ~= num_true)) then
    errors.bad('%s: the true classes are %s, [batch, %d] is expected', what, tensor.shape_text(classes.dtype, shape),
               num_true)
  end
  return classes
end

--- How often a class of this probability is to be expected among n that took `tries` draws.
local function expected(p, n, tries)
  local number = f.cast(tries, 'float32')
  return f.where(f.equal(f.zeros_like(p) + number, n), p * n, -f.expm1(number * f.log1p(-p)))
end

--- Draws until n different ones are there: ids [n] in the order they came, and how many draws that took. The draws are
-- kept and grow by as many again, so that a range which is nearly used up takes few rounds.
local function distinct(draw, n)
  local function done(all) return f.greater_equal(f.size((f.unique(all))), n) end
  local drawn = control.while_loop(function(all) return f.logical_not(done(all)) end, function(all)
    return f.concat({ all, draw(f.size(all)) }, 0)
  end, { draw(f.int32(2 * n)):set_shape{ -1 } },
  { shape_invariants = { { -1 } }, name = 'distinct', back_prop = false })
  local ids, index = f.unique(drawn)
  local at = f.unsorted_segment_min(f.range(f.size(drawn)), index, f.size(ids))
  return f.slice(ids, { 0 }, { n }):set_shape{ n }, f.gather(at, n - 1) + 1
end

--- @param draw         function(count) -> int64 [count]
--- @param probability  function(ids) -> float32, of the same shape
local function sample(true_classes, n, unique, draw, probability)
  local ids, tries
  if unique then ids, tries = distinct(draw, n) else ids, tries = draw(f.int32(n)):set_shape{ n }, f.int32(n) end
  ids, tries = f.stop_gradient(ids), f.stop_gradient(tries)
  return ids, expected(probability(true_classes), n, tries), expected(probability(ids), n, tries)
end

local function arguments(what, true_classes, num_true, num_sampled, unique, range_max)
  num_true, num_sampled = layer.whole(num_true, what, 'num_true'), layer.whole(num_sampled, what, 'num_sampled')
  range_max = layer.whole(range_max, what, 'range_max')
  if type(unique) ~= 'boolean' then errors.bad('%s: unique is true or false, not %s', what, errors.describe(unique)) end
  if unique and num_sampled > range_max then
    errors.bad('%s: %d different classes are asked for, but there are only %d', what, num_sampled, range_max)
  end
  return M.classes(true_classes, num_true, what), num_sampled, range_max
end

--- df.nn.uniform_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, {seed}): each class alike.
function M.uniform_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, opts)
  local what = 'uniform_candidate_sampler'
  opts = errors.options(opts, what, { 'seed' })
  local classes, n, range = arguments(what, true_classes, num_true, num_sampled, unique, range_max)
  return sample(classes, n, unique, function(count)
    return f.random_uniform(f.expand_dims(count, 0),
                            { min = f.int64(0), max = f.int64(range), dtype = 'int64', seed = opts.seed })
  end, function(ids) return f.cast(f.zeros_like(ids), 'float32') + 1 / range end)
end

--- df.nn.log_uniform_candidate_sampler(…): class k with probability log((k + 2) / (k + 1)) / log(range_max + 1), as
-- words are when sorted by how frequent they are.
function M.log_uniform_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, opts)
  local what = 'log_uniform_candidate_sampler'
  opts = errors.options(opts, what, { 'seed' })
  local classes, n, range = arguments(what, true_classes, num_true, num_sampled, unique, range_max)
  local log_range = math.log(range + 1)
  return sample(classes, n, unique, function(count)
    local u = f.random_uniform(f.expand_dims(count, 0), { dtype = 'float64', seed = opts.seed })
    return f.minimum(f.cast(f.exp(u * log_range), 'int64') - 1, range - 1)
  end, function(ids)
    local k = f.cast(ids, 'float32')
    return f.log((k + 2) / (k + 1)) / log_range
  end)
end

--- Draws by weights float32 [range], which need not sum to one.
local function by_weights(weights, seed)
  local sums = f.cumsum(weights)
  local total = f.reduce_sum(weights)
  local last = f.size(weights) - 1
  return function(count)
    local u = f.random_uniform(f.expand_dims(count, 0), { dtype = 'float32', seed = seed }) * total
    local at = f.upper_bound(f.expand_dims(sums, 0), f.expand_dims(u, 0))
    return f.cast(f.minimum(f.squeeze(at, 0), last), 'int64')
  end, function(ids) return f.gather(weights, ids) / total end
end

--- df.nn.fixed_unigram_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, {unigrams, distortion
-- = 1, seed}): class k with a probability that goes with unigrams[k] ^ distortion.
function M.fixed_unigram_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, opts)
  local what = 'fixed_unigram_candidate_sampler'
  opts = errors.options(opts, what, { 'unigrams', 'distortion', 'seed' })
  local classes, n, range = arguments(what, true_classes, num_true, num_sampled, unique, range_max)
  if opts.unigrams == nil then errors.bad('%s: unigrams is missing: how often each class is met', what) end
  local weights = convert.to_output(opts.unigrams, dtypes.FLOAT32, classes.graph, what)
  if graph.rank(weights) ~= 1 or (weights.shape[1] >= 0 and weights.shape[1] ~= range) then
    errors.bad('%s: unigrams has %s numbers, %d are expected, one for each class', what,
               tostring((weights.shape or {})[1]), range)
  end
  if weights.dtype ~= 'float32' then weights = f.cast(weights, 'float32') end
  if opts.distortion ~= nil and opts.distortion ~= 1 then weights = f.pow(weights, opts.distortion) end
  local draw, probability = by_weights(weights, opts.seed)
  return sample(classes, n, unique, draw, probability)
end

--- df.nn.learned_unigram_candidate_sampler(…): by how often each class was among the true ones so far, all once at
-- first. A run that uses what it gives counts its true classes afterwards, in a variable that is not trainable.
function M.learned_unigram_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, opts)
  local what = 'learned_unigram_candidate_sampler'
  opts = errors.options(opts, what, { 'seed' })
  local classes, n, range = arguments(what, true_classes, num_true, num_sampled, unique, range_max)
  local counts = variable.new(function() return f.ones({ range }) end, { name = what .. '/counts', trainable = false })
  local now = counts:value()
  local draw, probability = by_weights(now, opts.seed)
  local ids, of_true, of_ids = sample(classes, n, unique, draw, probability)
  local seen = f.reshape(classes, { -1 })
  local counted = graph.control_dependencies({ ids, of_true, of_ids }, function()
    return counts:scatter_add(seen, f.cast(f.ones_like(seen), 'float32'))
  end)
  return graph.unpack(graph.control_dependencies({ counted }, function()
    return { f.identity(ids), f.identity(of_true), f.identity(of_ids) }
  end))
end

return M
