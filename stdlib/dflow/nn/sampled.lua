--- Losses over many classes that look at a few: sampled softmax and noise-contrastive estimation, as TensorFlow 1's.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local ops = require 'dflow.front.ops'
local layer = require 'dflow.nn.layer'
local samplers = require 'dflow.nn.samplers'

local M = {}
local f = ops.functions
local names = { 'num_true', 'sampled_values', 'remove_accidental_hits', 'partition_strategy', 'seed', 'name' }
-- What is taken off the logit of a class that was drawn though it is true: the largest number; of halves one that
-- leaves room for a logit.
local MOST = { float64 = 3.4028234663852886e38, float32 = 3.4028234663852886e38, bfloat16 = 1e38, float16 = 6e4 }

--- The sampled values as {ids int64 [n], expected counts of the true classes [batch, num_true], of the ids [n]}.
local function sampled_values(what, given, labels, num_true, num_sampled, num_classes, seed)
  if given == nil then
    return { samplers.log_uniform_candidate_sampler(labels, num_true, num_sampled, true, num_classes, { seed = seed }) }
  end
  if not errors.is_data(given) or #given ~= 3 then
    errors.bad('%s: sampled_values is %s, a list {ids, expected of true, expected of sampled} is expected', what,
               errors.describe(given))
  end
  local ids = convert.to_output(given[1], convert.typed(given[1]) or dtypes.INT64, labels.graph, what)
  if graph.dtype(ids) ~= dtypes.INT64 then ids = f.cast(ids, 'int64') end
  return { f.stop_gradient(ids), f.stop_gradient(convert.to_output(given[2], dtypes.FLOAT32, labels.graph, what)),
           f.stop_gradient(convert.to_output(given[3], dtypes.FLOAT32, labels.graph, what)) }
end

--- Logits of the true and the sampled classes side by side, and which are true: [batch, num_true + num_sampled] each.
local function sampled_logits(what, weights, biases, labels, inputs, num_sampled, num_classes, opts, hits)
  opts = errors.options(opts, what, names)
  local num_true = layer.whole(opts.num_true or 1, what, 'num_true')
  num_sampled, num_classes = layer.whole(num_sampled, what, 'num_sampled'),
    layer.whole(num_classes, what, 'num_classes')
  if weights == nil or biases == nil then
    errors.bad('%s: the %s are missing', what, weights == nil and 'weights' or 'biases')
  end
  if inputs == nil then errors.bad('%s: the inputs are missing', what) end
  inputs = convert.to_output(inputs, dtypes.FLOAT32, nil, what)
  if graph.rank(inputs) ~= 2 then
    errors.bad('%s: the inputs are %s, [batch, size] is expected', what, tensor.shape_text(inputs.dtype, inputs.shape))
  end
  if not MOST[inputs.dtype] then errors.bad('%s: the inputs are %s, floats are expected', what, inputs.dtype) end
  labels = samplers.classes(labels, num_true, what)
  local values = sampled_values(what, opts.sampled_values, labels, num_true, num_sampled, num_classes, opts.seed)
  local ids, of_true, of_ids = values[1], values[2], values[3]
  local flat = f.reshape(labels, { -1 })
  local all, split = f.concat({ flat, ids }, 0), f.expand_dims(f.size(flat), 0)
  local lookup = { partition_strategy = opts.partition_strategy }
  local w, b = f.embedding_lookup(weights, all, lookup), f.embedding_lookup(biases, all, lookup)
  if graph.rank(w) ~= 2 or graph.rank(b) ~= 1 then
    errors.bad('%s: weights are [classes, size] and biases [classes], or lists of such; rows are %s and %s', what,
               tensor.shape_text(w.dtype, w.shape),
               tensor.shape_text(b.dtype, b.shape))
  end
  local size = f.dim(w, 1)
  local w_true = f.reshape(f.slice(w, { 0, 0 }, f.stack{ f.size(flat), -1 }), f.stack{ -1, num_true, size })
  local w_ids = f.slice(w, f.stack{ f.size(flat), 0 }, { -1, -1 })
  local b_true, b_ids = f.reshape(f.slice(b, { 0 }, split), { -1, num_true }), f.slice(b, split, { -1 })
  local true_logits = f.reduce_sum(f.expand_dims(inputs, 1) * w_true, { axis = 2 }) + b_true
  local ids_logits = f.matmul(inputs, w_ids, { transpose_b = true }) + b_ids
  if hits then
    local hit = f.reduce_any(f.equal(f.expand_dims(labels, 2), f.reshape(ids, { 1, 1, -1 })), { axis = 1 })
    ids_logits = ids_logits - f.cast(hit, inputs.dtype) * MOST[inputs.dtype]
  end
  local function log_of(v)                 -- before it is a half, of which small counts would be zeros
    local log = f.log(v)
    return log.dtype == inputs.dtype and log or f.cast(log, inputs.dtype)
  end
  true_logits, ids_logits = true_logits - log_of(of_true), ids_logits - log_of(of_ids)
  return f.concat({ true_logits, ids_logits }, 1),
    f.concat({ f.ones_like(true_logits) / num_true, f.zeros_like(ids_logits) }, 1)
end

local function hits_of(opts, what, default)
  local given
  if errors.is_data(opts) then given = opts.remove_accidental_hits end
  return layer.flag(given, what, 'remove_accidental_hits', default)
end

--- The name that the options say, once they were looked at.
local function name_of(opts) return opts and opts.name or nil end

--- df.sampled_softmax_loss(weights, biases, labels, inputs, num_sampled, num_classes, {num_true = 1, sampled_values,
-- remove_accidental_hits = true, partition_strategy = 'mod', seed}): [batch] of cross entropies of the true classes
-- against those that were drawn.
-- @param weights  [num_classes, size], or a list of tables that together are this; biases [num_classes] alike
-- @param labels   int64 [batch, num_true]; inputs [batch, size]
-- @param opts     sampled_values = {ids, expected counts of true, of sampled}; nil: drawn by the log-uniform sampler
function M.sampled_softmax_loss(weights, biases, labels, inputs, num_sampled, num_classes, opts)
  local what = 'sampled_softmax_loss'
  local logits, truth = sampled_logits(what, weights, biases, labels, inputs, num_sampled, num_classes, opts,
                                       hits_of(opts, what, true))
  return f.softmax_cross_entropy_with_logits{ labels = f.stop_gradient(truth), logits = logits, name = name_of(opts) }
end

--- df.nce_loss(…): noise-contrastive estimation: [batch] of sums of logistic losses, each sampled class being noise.
-- remove_accidental_hits is false unless given; the rest as for sampled_softmax_loss.
function M.nce_loss(weights, biases, labels, inputs, num_sampled, num_classes, opts)
  local what = 'nce_loss'
  local logits, truth = sampled_logits(what, weights, biases, labels, inputs, num_sampled, num_classes, opts,
                                       hits_of(opts, what, false))
  return f.reduce_sum(f.sigmoid_cross_entropy_with_logits{ labels = truth, logits = logits },
                      { axis = 1, name = name_of(opts) })
end

return M
