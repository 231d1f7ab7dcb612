--- Connectionist temporal classification (Graves et al., 2006): the forward variables of all examples at once, in a
-- while_loop over time, in logarithms. The gradient is that of the loop. Decoders, and how far the labels that they
-- find are from the right ones.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local control = require 'dflow.front.control'
local tensor_array = require 'dflow.front.tensor_array'
local registry = require 'dflow.front.registry'
local ops = require 'dflow.front.ops'
local sparse_tensors = require 'dflow.front.sparse'
local layer = require 'dflow.nn.layer'
local loops = require 'dflow.rnn.loops'

local M = {}
local f, int32 = ops.functions, require('dflow.front.arguments').int32
local NEVER = -1e30        -- the logarithm of what cannot be: finite, so that differences of two of them are no NaN

local function constant(x) return core.output_constant(x.graph.handle, x.node, x.index) end

--- The Outputs indices, values and dense_shape of a sparse tensor; dtype: that of values which have none of their own.
local function parts(sparse, what, dtype)
  local sp = sparse_tensors.of(sparse, what, dtype)
  return sp.indices, sp.values, sp.dense_shape
end

--- The labels {indices [n, 2], values [n], dense_shape} as int32 [batch, longest], zeros behind each example's, and
-- lengths [batch].
local function dense(labels, batch)
  local what = 'ctc_loss: labels'
  local indices, values, shape = parts(labels, what, dtypes.INT32)
  if not dtypes.is_int(graph.dtype(values)) then
    errors.bad('%s: the values are %s, int32 is expected', what, values.dtype)
  end
  local s = indices.shape
  if s and (#s ~= 2 or (s[2] >= 0 and s[2] ~= 2)) then
    errors.bad('%s: the indices are %s, [n, 2] is expected', what, tensor.shape_text(indices.dtype, s))
  end
  local static, examples = constant(shape), constant(batch)
  if static and examples and static:at(0) ~= examples:item() then
    errors.bad('ctc_loss: labels and logits have different numbers of examples, %d and %d', static:at(0),
               examples:item())
  end
  indices, values, shape = f.cast(indices, 'int32'), f.cast(values, 'int32'), f.cast(shape, 'int32')
  local rows = f.slice(indices, { 0, 0 }, { -1, 1 })
  local fits = f.assert(f.equal(shape[0], batch), { shape[0], batch },
                        { message = 'ctc_loss: labels and logits have different numbers of examples' })
  return graph.control_dependencies({ fits }, function()
    return f.scatter_nd(indices, values, int32{ shape[0], f.maximum(shape[1], 1) }),
    f.scatter_nd(rows, f.ones_like(values), f.expand_dims(shape[0], 0))
  end)
end

--- Labels without those that repeat the one before; the rest move up.
local function collapsed(labels, lengths)
  local batch, longest = f.dim(labels, 0), f.dim(labels, 1)
  local before = f.concat({ f.fill(int32{ batch, 1 }, f.int32(-1)),
                            f.slice(labels, { 0, 0 }, int32{ -1, longest - 1 }) }, 1)
  local keep = f.logical_and(f.not_equal(labels, before), f.sequence_mask(lengths, longest))
  local at = f.where(keep)
  local place = f.gather_nd(f.cumsum(f.cast(keep, 'int32'), { axis = 1 }), at) - 1
  local to = f.stack({ f.cast(f.squeeze(f.slice(at, { 0, 0 }, { -1, 1 }), 1), 'int32'), place }, { axis = 1 })
  return f.scatter_nd(to, f.gather_nd(labels, at), f.shape(labels)), f.reduce_sum(f.cast(keep, 'int32'), { axis = 1 })
end

--- x [batch, n] moved right by k places, with NEVER in front.
local function shifted(x, k)
  local front = f.fill(int32{ f.dim(x, 0), k }, f.constant(NEVER, x.dtype))
  return f.slice(f.concat({ front, x }, 1), { 0, 0 }, f.shape(x))
end

local names = { 'lengths', 'time_major', 'preprocess_collapse_repeated', 'ctc_merge_repeated',
                'ignore_longer_outputs_than_inputs', 'name' }

--- df.ctc_loss(labels, logits, {lengths, time_major = true, preprocess_collapse_repeated = false, ctc_merge_repeated =
-- true, ignore_longer_outputs_than_inputs = false}): [batch] of -log p(labels | logits), over all ways to stretch the
-- labels over time.
-- @param labels   {indices =, values =, dense_shape =} of a sparse int32 [batch, longest]; the blank is the last class
-- @param logits   [time, batch, classes], or [batch, time, classes] when not time_major
-- @param opts     lengths int32 [batch]: where each example's logits end; nil: all do at the last step
-- @return         labels longer than their time stop the run, or, if so asked, have loss 0; labels that fit into it in
--                 no way, as two that are alike in two steps, have the loss inf, and no gradient
function M.ctc_loss(labels, logits, opts)
  local what = 'ctc_loss'
  opts = errors.options(opts, what, names)
  if logits == nil then errors.bad('%s: the logits are missing', what) end
  logits = convert.to_output(logits, dtypes.FLOAT32, nil, what)
  if graph.rank(logits) ~= 3 then
    errors.bad('%s: the logits are %s, [time, batch, classes] is expected', what,
               tensor.shape_text(logits.dtype, logits.shape))
  end
  local merge = layer.flag(opts.ctc_merge_repeated, what, 'ctc_merge_repeated', true)
  local ignore = layer.flag(opts.ignore_longer_outputs_than_inputs, what, 'ignore_longer_outputs_than_inputs', false)
  local by_time = layer.flag(opts.time_major, what, 'time_major', true) and logits or loops.swap(logits)
  local shape = by_time.shape
  local time, batch = shape[1] >= 0 and shape[1] or f.dim(by_time, 0), shape[2] >= 0 and shape[2] or f.dim(by_time, 1)
  local times
  if opts.lengths == nil then times = f.fill(int32{ batch }, int32(time, logits.graph))
  else times = loops.lengths(opts.lengths, logits, batch, time, what) end
  local symbols, lengths = dense(labels, int32(batch, logits.graph))
  if layer.flag(opts.preprocess_collapse_repeated, what, 'preprocess_collapse_repeated', false) then
    symbols, lengths = collapsed(symbols, lengths)
  end
  local classes, longest = f.dim(by_time, 2), f.dim(symbols, 1)
  local wrong = f.logical_or(f.less(symbols, 0), f.greater_equal(symbols, classes - 1))
  wrong = f.reduce_any(f.logical_and(wrong, f.sequence_mask(lengths, longest)))
  local checks = { f.assert(f.logical_not(wrong), { symbols, classes },
                            { message = 'ctc_loss: a label is below 0 or not below the blank, the last class' }) }

  -- blank l1 blank l2 ... blank, and where one may come two places on, over the blank between
  local count = 2 * longest + 1
  local blanks = f.zeros_like(symbols) + (classes - 1)
  local path = f.concat({ f.reshape(f.stack({ blanks, symbols }, { axis = 2 }), int32{ -1, 2 * longest }),
                          f.slice(blanks, { 0, 0 }, { -1, 1 }) }, 1)
  local blank = f.equal(path, classes - 1)
  local back = f.concat({ f.slice(blanks, { 0, 0 }, { -1, 1 }), f.slice(blanks, { 0, 0 }, { -1, 1 }), path }, 1)
  local alike = f.equal(path, f.slice(back, { 0, 0 }, f.shape(path)))
  local skips = merge and f.logical_not(f.logical_or(blank, alike)) or f.logical_not(blank)
  local fits = f.less_equal(lengths, times)
  if not ignore then
    checks[2] = f.assert(f.reduce_all(fits), { lengths, times },
                         { message = 'ctc_loss: Not enough time for target transition sequence (required, available)' })
  end

  local p = graph.control_dependencies(checks,
                                       function() return f.log_softmax(opts.lengths ~= nil
                                           and loops.within(times, by_time) or by_time) end)
  local never = f.fill(f.shape(path), f.constant(NEVER, p.dtype))
  local rows = tensor_array.new(p.dtype, time):unstack(p)
  local offsets = f.expand_dims(f.range(f.dim(path, 0)), 1) * classes + path
  local function of_path(t) return f.gather(f.reshape(rows:read(t), { -1 }), offsets) end
  -- Before the first frame all weight lies on the first blank, from which the first frame's blank and first label are
  -- reached: an example without frames ends there.
  local alpha = f.select_v2(f.equal(f.range(count), 0), f.zeros({}, p.dtype), never)
  local stays = merge and f.logical_or(blank, f.logical_not(blank)) or blank
  local _, last = control.while_loop(function(t) return f.less(t, f.reduce_max(times)) end, function(t, a)
    local ways = f.stack{ f.where(stays, a, never), shifted(a, 1), f.where(skips, shifted(a, 2), never) }
    local after = f.reduce_logsumexp(ways, { axis = 0 }) + of_path(t)
    return f.add(t, 1), f.select(f.less(t, times), after, a)
  end, { f.int32(0), alpha }, { name = opts.name or 'ctc', shape_invariants = { [2] = { -1, -1 } } })
  -- It may end with the last label or the blank behind it; without labels with the blank.
  local ends = 2 * lengths
  local line, at = f.reshape(last, { -1 }), f.range(f.dim(path, 0)) * count
  local with_blank, with_label = f.gather(line, at + ends), f.gather(line, at + f.maximum(ends - 1, 0))
  with_label = f.where(f.greater(lengths, 0), with_label, f.zeros_like(with_label) + NEVER)
  local loss = 0 - f.reduce_logsumexp(f.stack{ with_blank, with_label }, { axis = 0 })
  loss = f.where(f.greater(loss, -NEVER / 2), f.ones_like(loss) * math.huge, loss)
  if ignore then loss = f.where(fits, loss, f.zeros_like(loss)) end
  return loss:set_shape{ shape[2] }
end

--- The op of a decoder: the lists of indices, values and shapes as `paths` sparse tensors, and the op's last output.
local function decoded(what, type, inputs, sequence_length, paths, attrs)
  if inputs == nil then errors.bad('%s: the inputs are missing', what) end
  if sequence_length == nil then errors.bad('%s: the lengths are missing: where each example ends, [batch]', what) end
  inputs = convert.to_output(inputs, dtypes.FLOAT32, nil, what)
  if (graph.rank(inputs) or 3) ~= 3 then
    errors.bad('%s: the inputs are %s, [time, batch, classes] is expected', what,
               tensor.shape_text(inputs.dtype, inputs.shape))
  end
  local lengths = convert.to_output(sequence_length, convert.typed(sequence_length) or dtypes.INT32, inputs.graph, what)
  if not dtypes.is_int(graph.dtype(lengths)) then
    errors.bad('%s: the lengths are %s, int32 is expected', what, lengths.dtype)
  end
  local g, node = registry.build(registry.need(type), { inputs, f.cast(lengths, 'int32') }, attrs)
  local function out(i) return graph.output(g, node, i) end
  local sparse = {}
  for i = 1, paths do
    sparse[i] = sparse_tensors.SparseTensor(out(i - 1), out(paths + i - 1), out(2 * paths + i - 1))
  end
  return sparse, out(3 * paths)
end

--- df.ctc_greedy_decoder(inputs, sequence_length, {merge_repeated = true}): the labels that the best class of each step
-- makes, without blanks.
-- @param inputs           float logits [time, batch, classes]; the blank is the last class
-- @param sequence_length  int32 [batch]: where each example ends
-- @return                 {labels}, a sparse int64 [batch, longest] {indices =, values =, dense_shape =}, and [batch,
--                         1]: the negative sum of the best logits
function M.ctc_greedy_decoder(inputs, sequence_length, opts)
  local what = 'ctc_greedy_decoder'
  opts = errors.options(opts, what, { 'merge_repeated', 'name' })
  local merge = layer.flag(opts.merge_repeated, what, 'merge_repeated', true)
  return decoded(what, 'CTCGreedyDecoder', inputs, sequence_length, 1, { merge_repeated = merge, name = opts.name })
end

--- df.ctc_beam_search_decoder(inputs, sequence_length, {beam_width = 100, top_paths = 1, merge_repeated = true}): the
-- most probable labels, over all ways to stretch them over time; the search keeps beam_width of them at each step.
-- @param inputs           float logits [time, batch, classes]; the blank is the last class
-- @param sequence_length  int32 [batch]: where each example ends
-- @param opts             merge_repeated: of labels alike in a row the first alone is given, as TensorFlow has it
-- @return                 a list of top_paths sparse int64 [batch, longest] {indices =, values =, dense_shape =}, the
--                         most probable first, and the logarithms of their probabilities [batch, top_paths]; an example
--                         with fewer paths stops the run
function M.ctc_beam_search_decoder(inputs, sequence_length, opts)
  local what = 'ctc_beam_search_decoder'
  opts = errors.options(opts, what, { 'beam_width', 'top_paths', 'merge_repeated', 'name' })
  local width, paths = layer.whole(opts.beam_width or 100, what, 'beam_width'),
    layer.whole(opts.top_paths or 1, what, 'top_paths')
  if paths > width then
    errors.bad('%s: top_paths is %d, but a beam of width %d has no more than that many', what, paths, width)
  end
  local merge = layer.flag(opts.merge_repeated, what, 'merge_repeated', true)
  return decoded(what, 'CTCBeamSearchDecoder', inputs, sequence_length, paths,
                 { beam_width = width, top_paths = paths, merge_repeated = merge, name = opts.name })
end

--- df.edit_distance(hypothesis, truth, {normalize = true}): the fewest elements that are put in, left out or replaced
-- to make one sequence of the other (Levenshtein), for each pair of sequences along the last dimension.
-- @param hypothesis, truth  sparse tensors {indices =, values =, dense_shape =} of one dtype and rank, 2 or more, their
-- indices in order
-- @param opts               normalize: divided by the length of the truth; inf where that is 0 and the hypothesis is
--     not
-- @return                   float32 of the larger of the two shapes, without the last dimension
function M.edit_distance(hypothesis, truth, opts)
  local what = 'edit_distance'
  opts = errors.options(opts, what, { 'normalize', 'name' })
  local normalize = layer.flag(opts.normalize, what, 'normalize', true)
  local function dtype_of(sparse) return type(sparse) == 'table' and convert.typed(sparse.values) or nil end
  local args = {}
  for _, of in ipairs{ { hypothesis, 'hypothesis', dtype_of(truth) }, { truth, 'truth', dtype_of(hypothesis) } } do
    local indices, values, shape = parts(of[1], what .. ': ' .. of[2], of[3])
    args[#args + 1], args[#args + 2], args[#args + 3] = f.cast(indices, 'int64'), values, f.cast(shape, 'int64')
  end
  return registry.op('EditDistance', args, { normalize = normalize, name = opts.name })
end

return M
