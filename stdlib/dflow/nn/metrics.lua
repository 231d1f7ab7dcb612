--- df.nn.metrics: streaming metrics, as TensorFlow 1's tf.metrics: each call makes variables that add up what runs
-- bring, and gives the value so far, an update (the value after this run's part), and an operation that begins anew.
--
--   local value, update = df.nn.metrics.accuracy(labels, predictions)
--   for … do df.run(update, feeds) end   print(df.run(value))
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local variable = require 'dflow.front.variable'
local ops = require 'dflow.front.ops'
local layer = require 'dflow.nn.layer'

local M = {}
local f = ops.functions

--- Sums [n] (or a scalar, without n) that are kept between runs.
-- @param parts  Outputs by name: what this run adds
-- @param value  function(sums by name) -> the metric
local function streaming(what, parts, value)
  local names, sums = {}, {}
  for name in pairs(parts) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local shape = parts[name].shape
    sums[name] = variable.new(function() return f.zeros(shape, parts[name].dtype) end,
                              { name = ('%s/%s'):format(what, name), trainable = false })
  end
  local now, after, cleared = {}, {}, {}
  for i, name in ipairs(names) do
    now[name] = sums[name]:value()
    after[name] = sums[name]:assign_add(parts[name])
    cleared[i] = sums[name]:assign(f.zeros(parts[name].shape, parts[name].dtype)).op
  end
  return value(now), value(after), f.group(cleared)
end

local function shown(x) return tensor.shape_text(x.dtype, x.shape) end

local function take(what, v, name, d)
  if v == nil then errors.bad('metrics.%s: the %s are missing', what, name) end
  -- a list of numbers is one
  if d == dtypes.BOOL and convert.typed(v) == nil then d = nil else d = d or dtypes.FLOAT32 end
  return convert.to_output(v, convert.typed(v) or d, nil, 'metrics.' .. what)
end

--- Labels and predictions of one shape.
local function two(what, labels, predictions, d)
  labels, predictions = take(what, labels, 'labels', d), take(what, predictions, 'predictions', d)
  local a, b = labels.shape, predictions.shape
  local same = not a or not b or #a == #b
  for i = 1, same and a and b and #a or 0 do same = same and (a[i] == b[i] or a[i] < 0 or b[i] < 0) end
  if not same then
    errors.bad('metrics.%s: the labels are %s, the predictions %s', what, shown(labels), shown(predictions))
  end
  return labels, predictions
end

--- The weights as float32 of the shape of `like`: ones when there are none.
local function weights_of(what, weights, like)
  local ones = f.cast(f.ones_like(like), 'float32')
  if weights == nil then return ones end
  return ones * layer.weights(weights, ones, 'metrics.' .. what, 'values')
end

local function float(x) return x.dtype == 'float32' and x or f.cast(x, 'float32') end
local function total(x) return f.reduce_sum(x) end

-- ---- means ----------------------------------------------------------------------------------------------------------
local function mean_of(what, values, weights)
  local w = weights_of(what, weights, values)
  return streaming(what, { total = total(float(values) * w), count = total(w) },
                   function(s) return f.div_no_nan(s.total, s.count) end)
end

--- mean(values, {weights}): their weighted mean.
function M.mean(values, opts)
  opts = errors.options(opts, 'metrics.mean', { 'weights' })
  return mean_of('mean', take('mean', values, 'values'), opts.weights)
end

--- accuracy(labels, predictions, {weights}): the share of predictions that equal their label.
function M.accuracy(labels, predictions, opts)
  opts = errors.options(opts, 'metrics.accuracy', { 'weights' })
  labels, predictions = two('accuracy', labels, predictions)
  if labels.dtype ~= predictions.dtype then labels = f.cast(labels, predictions.dtype) end
  return mean_of('accuracy', f.cast(f.equal(labels, predictions), 'float32'), opts.weights)
end

--- mean_squared_error(labels, predictions, {weights}), mean_absolute_error the same.
for name, error_of in pairs{ mean_squared_error = function(e) return f.square(e) end,
                             mean_absolute_error = function(e) return f.abs(e) end } do
  M[name] = function(labels, predictions, opts)
    opts = errors.options(opts, 'metrics.' .. name, { 'weights' })
    labels, predictions = two(name, labels, predictions)
    return mean_of(name, error_of(float(predictions) - float(labels)), opts.weights)
  end
end

--- perplexity(losses, {weights}): e to the mean of losses, which are nats per word or letter; weights of 0 leave some
-- out.
function M.perplexity(losses, opts)
  opts = errors.options(opts, 'metrics.perplexity', { 'weights' })
  losses = take('perplexity', losses, 'losses')
  local w = weights_of('perplexity', opts.weights, losses)
  return streaming('perplexity', { total = total(float(losses) * w), count = total(w) },
                   function(s) return f.exp(f.div_no_nan(s.total, s.count)) end)
end

-- ---- right and wrong, yes and no ------------------------------------------------------------------------------------
--- Bare values as they are: booleans or numbers.
local function bare(v)
  if type(v) == 'boolean' or (errors.is_data(v) and convert.typed(v) == nil) then
    return tensor.from(v, nil, nil, 'metrics')
  end
  return v
end

local function yes_no(what, labels, predictions, weights)
  labels, predictions = two(what, bare(labels), bare(predictions))
  local w = weights_of(what, weights, predictions)
  if labels.dtype ~= 'bool' then labels = f.cast(labels, 'bool') end
  if predictions.dtype ~= 'bool' then predictions = f.cast(predictions, 'bool') end
  local function count(a, b) return total(w * f.cast(f.logical_and(a, b), 'float32')) end
  local wrong, no = f.logical_not(labels), f.logical_not(predictions)
  return { tp = count(labels, predictions), fp = count(wrong, predictions), fn = count(labels, no) }
end

--- precision(labels, predictions, {weights}): of what was predicted true, the share that is. recall: of what is true,
-- the share that was predicted. Both 0 where there is nothing to share. Numbers count as true unless 0.
function M.precision(labels, predictions, opts)
  opts = errors.options(opts, 'metrics.precision', { 'weights' })
  local c = yes_no('precision', labels, predictions, opts.weights)
  return streaming('precision', { tp = c.tp, fp = c.fp }, function(s) return f.div_no_nan(s.tp, s.tp + s.fp) end)
end
function M.recall(labels, predictions, opts)
  opts = errors.options(opts, 'metrics.recall', { 'weights' })
  local c = yes_no('recall', labels, predictions, opts.weights)
  return streaming('recall', { tp = c.tp, fn = c.fn }, function(s) return f.div_no_nan(s.tp, s.tp + s.fn) end)
end

--- auc(labels, predictions, {weights, num_thresholds = 200, curve = 'ROC'}): the area under the curve by the trapezoids
-- between so many thresholds; predictions lie in [0, 1]. curve = 'PR' is precision over recall.
function M.auc(labels, predictions, opts)
  opts = errors.options(opts, 'metrics.auc', { 'weights', 'num_thresholds', 'curve' })
  local n, curve = layer.whole(opts.num_thresholds or 200, 'metrics.auc', 'num_thresholds', 2), opts.curve or 'ROC'
  if curve ~= 'ROC' and curve ~= 'PR' then
    errors.bad("metrics.auc: curve is 'ROC' or 'PR', not %s", errors.describe(curve))
  end
  labels, predictions = two('auc', labels, predictions)
  local w = f.reshape(weights_of('auc', opts.weights, predictions), { 1, -1 })
  if labels.dtype ~= 'bool' then labels = f.cast(labels, 'bool') end
  local is = f.cast(f.reshape(labels, { 1, -1 }), 'float32')
  local limits = {}
  for i = 1, n - 2 do limits[i + 1] = i / (n - 1) end
  limits[1], limits[n] = -1e-7, 1 + 1e-7
  local above = f.cast(f.greater(f.reshape(float(predictions), { 1, -1 }),
                                 f.expand_dims(f.constant(limits, 'float32'), 1)), 'float32')
  local function count(a, b) return f.reduce_sum(a * b * w, { axis = 1 }):set_shape{ n } end
  local parts = { tp = count(above, is), fp = count(above, 1 - is), fn = count(1 - above, is),
                  tn = count(1 - above, 1 - is) }
  return streaming('auc', parts, function(s)
    local e = 1e-6
    local recall = (s.tp + e) / (s.tp + s.fn + e)
    local x, y = s.fp / (s.fp + s.tn + e), recall
    if curve == 'PR' then x, y = recall, (s.tp + e) / (s.tp + s.fp + e) end
    local function head(v) return f.slice(v, { 0 }, { n - 1 }) end
    local function tail(v) return f.slice(v, { 1 }, { n - 1 }) end
    return f.reduce_sum((head(x) - tail(x)) * (head(y) + tail(y)) / 2)
  end)
end

-- ---- BLEU -----------------------------------------------------------------------------------------------------------
--- For each place of a [batch, time] the share of it that counts as found: min(how often its n words are in the
-- reference, here) / here.
local function matches(same_there, same_here, valid)
  local here = f.reduce_sum(f.cast(same_here, 'float32'), { axis = 2 })
  local there = f.reduce_sum(f.cast(same_there, 'float32'), { axis = 2 })
  return total(f.div_no_nan(f.minimum(here, there), here) * f.cast(valid, 'float32'))
end

--- x moved by k along its axes 1 and 2, false behind.
local function along(x, k)
  if k == 0 then return x end
  return f.cast(f.pad(f.slice(f.cast(x, 'int32'), { 0, k, k }, { -1, -1, -1 }), { { 0, 0 }, { 0, k }, { 0, k } }),
                'bool')
end

--- bleu(references, candidates, {reference_lengths, candidate_lengths, order = 4}): of a corpus of ids int [batch,
-- time], one reference for each: the geometric mean of the precisions of 1 to `order` words in a row, times the penalty
-- for being shorter (Papineni et al., 2002).
-- 0 as long as some order has no match. No time may be shorter than `order`.
function M.bleu(references, candidates, opts)
  opts = errors.options(opts, 'metrics.bleu', { 'reference_lengths', 'candidate_lengths', 'order' })
  local order = layer.whole(opts.order or 4, 'metrics.bleu', 'order')
  local function ids(v, name, lengths)
    v = take('bleu', v, name, dtypes.INT32)
    if graph.rank(v) ~= 2 then errors.bad('metrics.bleu: the %s are %s, [batch, time] is expected', name, shown(v)) end
    v = f.cast(v, 'int32')
    local n = lengths == nil and f.zeros_like(f.squeeze(f.slice(v, { 0, 0 }, { -1, 1 }), 1)) + f.dim(v, 1)
      or f.cast(convert.to_output(lengths, convert.typed(lengths) or dtypes.INT32, v.graph), 'int32')
    local s, rows = n.shape, v.shape[1]
    if s and (#s ~= 1 or s[1] >= 0 and rows >= 0 and s[1] ~= rows) then
      errors.bad('metrics.bleu: the lengths of the %s are %s, [batch] is expected', name, shown(n))
    end
    return v, n
  end
  local r, r_lengths = ids(references, 'references', opts.reference_lengths)
  local c, c_lengths = ids(candidates, 'candidates', opts.candidate_lengths)
  for _, v in ipairs{ r, c } do
    local time = v.shape and v.shape[2] or -1
    if time >= 0 and time < order then
      errors.bad('metrics.bleu: %s has %d places, fewer than the order %d', shown(v), time, order)
    end
  end
  local c_valid, r_valid = f.sequence_mask(c_lengths, f.dim(c, 1)), f.sequence_mask(r_lengths, f.dim(r, 1))
  local function pairs_of(a, a_valid, b, b_valid)
    return f.logical_and(f.equal(f.expand_dims(a, 2), f.expand_dims(b, 1)),
                         f.logical_and(f.expand_dims(a_valid, 2), f.expand_dims(b_valid, 1)))
  end
  local there, here = pairs_of(c, c_valid, r, r_valid), pairs_of(c, c_valid, c, c_valid)
  local parts = { candidate = total(f.cast(c_lengths, 'float32')), reference = total(f.cast(r_lengths, 'float32')) }
  local run_there, run_here = there, here
  local found, possible = {}, {}
  for n = 1, order do
    if n > 1 then
      run_there, run_here = f.logical_and(run_there, along(there, n - 1)), f.logical_and(run_here, along(here, n - 1))
    end
    local valid = f.sequence_mask(f.maximum(c_lengths - (n - 1), 0), f.dim(c, 1))
    found[n], possible[n] = matches(run_there, run_here, valid), total(f.cast(valid, 'float32'))
  end
  parts.found, parts.possible = f.stack(found), f.stack(possible)
  return streaming('bleu', parts, function(s)
    local p = f.div_no_nan(s.found, s.possible)
    local mean = f.exp(f.reduce_mean(f.log(f.maximum(p, 1e-30))))
    local all = f.reduce_all(f.greater(s.found, 0))
    local short = f.exp(f.minimum(1 - f.div_no_nan(s.reference, s.candidate), 0))
    return f.where(all, mean * short, f.zeros_like(mean))
  end)
end

return setmetatable(M, { __index = function(_, name)
  if type(name) ~= 'string' then return nil end
  local names = {}
  for known in pairs(M) do names[#names + 1] = known end
  table.sort(names)
  errors.bad("df.nn.metrics has no '%s'%s", name, errors.hint_or_all(name, names))
end })
