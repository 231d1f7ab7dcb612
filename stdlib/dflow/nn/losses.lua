--- Losses with weights and a reduction, as TensorFlow 1's tf.losses: df.nn.mean_squared_error(labels, predictions,
-- {weights, reduction}).
--
-- weights: a number, one for each example, or of the losses' rank, each size theirs or 1. reduction:
-- 'sum_by_nonzero_weights' (the default: the sum by how many weights are not 0), 'sum', 'mean' (the sum by the sum of
-- weights), 'none'.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local ops = require 'dflow.front.ops'
local layer = require 'dflow.nn.layer'

local M = {}
local f = ops.functions

--- Reduces the losses as the options say.
local function reduced(what, losses, opts)
  local reduction = opts.reduction or 'sum_by_nonzero_weights'
  if reduction ~= 'sum_by_nonzero_weights' and reduction ~= 'sum' and reduction ~= 'mean' and reduction ~= 'none' then
    errors.bad("%s: reduction is 'sum_by_nonzero_weights', 'sum', 'mean' or 'none', not %s", what,
               errors.describe(reduction))
  end
  local weights = opts.weights
  if weights == nil then
    if reduction == 'none' then return losses end
    if reduction == 'sum' then return f.reduce_sum(losses) end
    local some = losses.shape ~= nil
    for _, n in ipairs(losses.shape or {}) do some = some and n > 0 end
    -- 0 of none
    return some and f.reduce_mean(losses) or f.div_no_nan(f.reduce_sum(losses), f.cast(f.size(losses), losses.dtype))
  end
  weights = layer.weights(weights, losses, what, 'losses')
  local weighted = losses * weights
  if reduction == 'none' then return weighted end
  local total = f.reduce_sum(weighted)
  if reduction == 'sum' then return total end
  local all = weights + f.zeros_like(losses)
  if reduction == 'mean' then return f.div_no_nan(total, f.reduce_sum(all)) end
  return f.div_no_nan(total, f.reduce_sum(f.cast(f.not_equal(all, 0), losses.dtype)))
end

--- Two tensors of one dtype and shape.
local function both(what, labels, predictions)
  if labels == nil or predictions == nil then
    errors.bad('%s: the %s are missing', what, labels == nil and 'labels' or 'predictions')
  end
  predictions = convert.to_output(predictions, convert.typed(predictions) or dtypes.FLOAT32, nil, what)
  labels = convert.to_output(labels, convert.typed(labels) or graph.dtype(predictions), predictions.graph, what)
  if labels.dtype ~= predictions.dtype then labels = f.cast(labels, predictions.dtype) end
  local a, b = labels.shape, predictions.shape
  local same = not a or not b or #a == #b
  for i = 1, same and a and b and #a or 0 do same = same and (a[i] == b[i] or a[i] < 0 or b[i] < 0) end
  if not same then
    errors.bad('%s: the labels are %s, the predictions %s', what, tensor.shape_text(labels.dtype, a),
               tensor.shape_text(predictions.dtype, b))
  end
  return labels, predictions
end

--- A loss of labels and predictions, element by element.
local function elementwise(name, more, loss)
  local known = { 'weights', 'reduction' }
  for _, option in ipairs(more) do known[#known + 1] = option end
  M[name] = function(labels, predictions, opts)
    opts = errors.options(opts, name, known)
    labels, predictions = both(name, labels, predictions)
    return reduced(name, loss(labels, predictions, opts), opts)
  end
end

--- mean_squared_error: (p - y)². absolute_difference: |p - y|.
elementwise('mean_squared_error', {}, function(y, p) return f.squared_difference(p, y) end)
elementwise('absolute_difference', {}, function(y, p) return f.abs(p - y) end)

--- huber_loss {delta = 1}: half the square of the error up to delta, linear beyond.
elementwise('huber_loss', { 'delta' }, function(y, p, opts)
  local delta, e = layer.number(opts.delta, 'huber_loss', 'delta', 1), f.abs(p - y)
  local quadratic = f.minimum(e, delta)
  return quadratic * quadratic * 0.5 + (e - quadratic) * delta
end)

--- hinge_loss: max(0, 1 - (2 y - 1) p), for labels 0 and 1 and logits p.
elementwise('hinge_loss', {}, function(y, p) return f.relu(1 - (2 * y - 1) * p) end)

--- log_loss {epsilon = 1e-7}: cross entropy of probabilities p with labels 0 and 1.
elementwise('log_loss', { 'epsilon' }, function(y, p, opts)
  local e = layer.number(opts.epsilon, 'log_loss', 'epsilon', 1e-7)
  return -(y * f.log(p + e)) - (1 - y) * f.log(1 - p + e)
end)

local function smoothing(what, opts)
  local s = layer.number(opts.label_smoothing, what, 'label_smoothing', 0)
  if s < 0 or s > 1 then errors.bad('%s: label_smoothing is a number from 0 to 1, not %s', what, errors.describe(s)) end
  return s
end

--- sigmoid_cross_entropy {label_smoothing = 0}: of logits.
elementwise('sigmoid_cross_entropy', { 'label_smoothing' }, function(y, p, opts)
  local s = smoothing('sigmoid_cross_entropy', opts)
  if s > 0 then y = y * (1 - s) + 0.5 * s end
  return f.sigmoid_cross_entropy_with_logits{ labels = y, logits = p }
end)

--- A loss of each example: over the last axis.
local function over_classes(name, more, loss)
  local known = { 'weights', 'reduction' }
  for _, option in ipairs(more) do known[#known + 1] = option end
  M[name] = function(labels, predictions, opts)
    opts = errors.options(opts, name, known)
    labels, predictions = both(name, labels, predictions)
    return reduced(name, loss(labels, predictions, opts), opts)
  end
end

--- kl_divergence: Σ y log(y / p) over the last axis, for two distributions.
over_classes('kl_divergence', {}, function(y, p) return f.reduce_sum(f.xlogy(y, y) - f.xlogy(y, p), { axis = -1 }) end)

--- cosine_distance: 1 - Σ y p over the last axis, for vectors of length 1.
over_classes('cosine_distance', {}, function(y, p) return 1 - f.reduce_sum(y * p, { axis = -1 }) end)

--- softmax_cross_entropy {label_smoothing = 0}: labels are distributions (one-hot), predictions logits.
over_classes('softmax_cross_entropy', { 'label_smoothing' }, function(y, p, opts)
  local s = smoothing('softmax_cross_entropy', opts)
  if s > 0 then y = y * (1 - s) + s / f.cast(f.dim(y, -1), y.dtype) end
  if graph.rank(p) == 2 then return f.softmax_cross_entropy_with_logits{ labels = f.stop_gradient(y), logits = p } end
  return -f.reduce_sum(f.stop_gradient(y) * f.log_softmax(p), { axis = -1 })
end)

--- df.nn.sparse_softmax_cross_entropy(labels, logits, {weights, reduction}): labels are the numbers of classes; a last
-- axis of one, as columns of a file have it, is none.
function M.sparse_softmax_cross_entropy(labels, logits, opts)
  local what = 'sparse_softmax_cross_entropy'
  opts = errors.options(opts, what, { 'weights', 'reduction' })
  if labels == nil or logits == nil then
    errors.bad('%s: the %s are missing', what, labels == nil and 'labels' or 'logits')
  end
  if convert.typed(labels) and convert.typed(logits) then
    labels, logits = convert.to_output(labels), convert.to_output(logits)
    local rank = graph.rank(labels)
    if rank and rank > 0 and rank == graph.rank(logits) and labels.shape[rank] == 1 then
      labels = f.squeeze(labels, { axis = -1 })
    end
  end
  return reduced(what, f.sparse_softmax_cross_entropy_with_logits{ labels = labels, logits = logits }, opts)
end

return M
