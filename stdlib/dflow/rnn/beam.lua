--- Beam search in a while_loop: all beams of all examples go through one step at a time, and the loop ends when none
-- can change.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local tensor_array = require 'dflow.front.tensor_array'
local control = require 'dflow.front.control'
local ops = require 'dflow.front.ops'
local layer = require 'dflow.nn.layer'

local M = {}
local f, int32 = ops.functions, require('dflow.front.arguments').int32
local names = { 'step', 'initial_state', 'start', 'stop', 'width', 'max_steps', 'length_penalty', 'parallel_iterations',
                'name' }

local function is_inner(t) return errors.is_data(t) and (nest.has_names(t) or nest.is_structure(t)) end

--- Each leaf [batch, ...] with its rows `width` times side by side: [batch * width, ...].
local function widened(state, width, g, what)
  local batch
  local out = nest.map(state, is_inner, function(v, path)
    v = convert.to_output(v, nil, g, what)
    local shape = v.shape
    if not shape or #shape == 0 then
      errors.bad('%s%s is %s, [batch, ...] is expected', what, path and '.' .. path or '',
                 tensor.shape_text(v.dtype, shape))
    end
    if not batch or type(batch) ~= 'number' then batch = shape[1] >= 0 and shape[1] or f.dim(v, 0) end
    local rows = f.reshape(f.tile(f.expand_dims(f.range(f.dim(v, 0)), 1), { 1, width }), { -1 })
    local wide = f.gather(v, rows)
    shape[1] = shape[1] >= 0 and shape[1] * width or -1
    return wide:set_shape(shape)
  end)
  if not batch then errors.bad('%s holds no tensor, so the number of examples is not known', what) end
  return out, batch
end

--- df.rnn.tile_batch(x, n): each row of x [batch, ...], or of all tensors of a structure, n times, one copy after the
-- other: [batch * n, ...], as beam_search has the n beams of an example. For what the step of a beam search reads
-- besides its state.
function M.tile_batch(x, n)
  local what = 'tile_batch: x'
  if x == nil then errors.bad('tile_batch: x is missing') end
  return (widened(x, layer.whole(n, 'tile_batch', 'n'), nil, what))
end

--- What the beams were: from the last step back to the first, by the parent of each.
-- @param ids, parents  TensorArrays of int32 [batch, width], `steps` long
-- @return              int32 [batch, width, steps]
local function traced(ids, parents, steps, batch, width)
  local rows = f.expand_dims(f.range(batch), 1) * width
  local out = tensor_array.new('int32', steps, { element_shape = { type(batch) == 'number' and batch or -1, width } })
  local function pick(t, beam) return f.gather(f.reshape(t, { -1 }), rows + beam) end
  local beam = f.zeros_like(rows) + f.expand_dims(f.range(width), 0)
  local _, _, filled = control.while_loop(function(t) return f.greater_equal(t, 0) end, function(t, at, ta)
    return f.subtract(t, 1), pick(parents:read(t), at), ta:write(t, pick(ids:read(t), at))
  end, { f.subtract(steps, 1), beam, out },
  { name = 'trace', back_prop = false, shape_invariants = { [2] = { -1, -1 } } })
  return f.transpose(filled:stack(), { 1, 2, 0 })
end

--- df.rnn.beam_search{step =, initial_state =, start =, stop =, width =, max_steps =, length_penalty = 0,
-- parallel_iterations, name}.
-- @param step           step(ids int32 [batch * width], state) -> log-probabilities [batch * width, vocabulary], state
-- @param initial_state  a structure of [batch, ...]; `step` sees it with the beams of an example side by side
-- @param start, stop    ids: what comes in first, and what ends a sequence; start is not among the results, after stop
-- there is stop only
-- @return  ids int32 [batch, width, time], scores [batch, width], best first: sums of log-probabilities by ((5 +
--          length) / 6) ^ length_penalty, the length with stop. The loop ends when all `width` sequences of every
--          example have ended, or after max_steps
function M.beam_search(opts)
  local what = 'beam_search'
  if not errors.is_data(opts) then
    errors.bad('beam_search takes a table {step =, initial_state =, start =, stop =, width =, max_steps =}')
  end
  opts = errors.options(opts, what, names)
  if type(opts.step) ~= 'function' and not layer.is(opts.step) then
    errors.bad('beam_search: step is %s, a function(ids, state) is expected', errors.describe(opts.step))
  end
  if opts.initial_state == nil then errors.bad('beam_search: initial_state is missing') end
  local width = layer.whole(opts.width, what, 'width')
  local start, stop = layer.whole(opts.start, what, 'start', 0), layer.whole(opts.stop, what, 'stop', 0)
  local penalty = opts.length_penalty or 0
  if type(penalty) ~= 'number' and convert.typed(penalty) == nil then
    errors.bad('beam_search: length_penalty is a number, not %s', errors.describe(penalty))
  end
  if opts.max_steps == nil or (convert.typed(opts.max_steps) == nil and type(opts.max_steps) ~= 'number') then
    errors.bad('beam_search: max_steps is %s, a whole number is expected', errors.describe(opts.max_steps))
  end
  if type(opts.max_steps) == 'number' then layer.whole(opts.max_steps, what, 'max_steps') end
  local g = convert.graph_of(opts.initial_state) or graph.current()
  return graph.with(g, function()
    local state, batch = widened(opts.initial_state, width, g, 'beam_search: initial_state')
    local limit = convert.to_output(opts.max_steps, dtypes.INT32, g, 'beam_search: max_steps')
    local static = type(batch) == 'number' and batch or -1
    -- At first all beams of an example are alike: only the first one counts.
    local one = f.one_hot(f.fill(int32{ batch }, f.int32(0)), width,
                          { on_value = f.float32(0), off_value = f.float32(-math.huge) }):set_shape{ static, width }
    local no = f.fill(int32{ batch, width }, f.int32(0)):set_shape{ static, width }
    local element = { dynamic_size = true, element_shape = { static, width } }

    local function by_length(sums, lengths)
      if penalty == 0 then return sums end
      return sums / f.pow((f.cast(lengths, 'float32') + 5) / 6, penalty)
    end

    local function body(v)
      local log_probabilities, after = opts.step(f.reshape(v.ids, { -1 }), v.state)
      if log_probabilities == nil or after == nil then
        errors.bad('beam_search: step returns %s', log_probabilities == nil and 'nothing' or 'no state')
      end
      local l = convert.to_output(log_probabilities, dtypes.FLOAT32, g, what)
      if graph.rank(l) ~= 2 or l.shape[2] < 0 then
        errors.bad('beam_search: step gives log-probabilities %s, [batch * width, vocabulary] of a known vocabulary '
                   .. 'is expected', tensor.shape_text(l.dtype, l.shape))
      end
      local n = l.shape[2]
      if type(batch) == 'number' and l.shape[1] >= 0 and l.shape[1] ~= batch * width then
        errors.bad('beam_search: step gives log-probabilities %s for %d examples with %d beams each: %d rows are '
                   .. 'expected', tensor.shape_text(l.dtype, l.shape),
                   batch, width, batch * width)
      end
      if stop >= n or start >= n then
        errors.bad('beam_search: %s is %d, but step gives %d log-probabilities', stop >= n and 'stop' or 'start',
                   math.max(start, stop), n)
      end
      if l.dtype ~= 'float32' then l = f.cast(l, 'float32') end
      l = f.reshape(l, int32{ batch, width, n })
      -- A sequence that has ended goes on with stop, at no cost.
      local ended = f.one_hot(f.int32{ { stop } }, n, { on_value = f.float32(0), off_value = f.float32(-math.huge) })
      l = f.where(f.expand_dims(v.ended, 2), ended, l)
      local sums = l + f.expand_dims(v.sums, 2)
      local lengths = v.lengths + f.cast(f.logical_not(v.ended), 'int32')
      local scores = f.reshape(by_length(sums, f.expand_dims(lengths, 2)), int32{ batch, width * n })
      local count = math.min(width, width * n)
      local _, best = f.top_k(scores, count)
      best = f.cast(best, 'int32')
      local parents, ids = f.floordiv(best, n), f.floormod(best, n)
      local rows = f.expand_dims(f.range(batch), 1)
      local flat = parents + rows * width
      local function of_parent(t) return f.gather(f.reshape(t, { -1 }), flat) end
      local now_sums = f.gather(f.reshape(sums, { -1 }), best + rows * (width * n))
      local line = f.reshape(flat, { -1 })
      local function follow(old, new, path)
        if errors.is_data(old) then
          local out = {}
          for _, k in ipairs(nest.keys(old)) do
            if not errors.is_data(new) or new[k] == nil then
              errors.bad('beam_search: step gives no state for %s', tostring(k))
            end
            out[k] = follow(old[k], new[k], k)
          end
          return out
        end
        return f.gather(convert.to_output(new, graph.dtype(old), g, what), line)
      end
      local next_state = follow(v.state, after)
      local function fixed(t) return t:set_shape{ static, width } end
      return {
        time = f.add(v.time, 1), ids = fixed(ids), state = next_state, sums = fixed(now_sums),
        lengths = fixed(of_parent(lengths)), ended = fixed(f.logical_or(of_parent(v.ended), f.equal(ids, stop))),
        all_ids = v.all_ids:write(v.time, fixed(ids)), parents = v.parents:write(v.time, fixed(parents)),
      }
    end

    local last = control.while_loop(
      function(v) return f.logical_and(f.less(v.time, limit), f.logical_not(f.reduce_all(v.ended))) end, body,
      { time = f.int32(0), ids = no + start, state = state, sums = one, lengths = no, ended = f.cast(no, 'bool'),
        all_ids = tensor_array.new('int32', 0, element), parents = tensor_array.new('int32', 0, element) },
      { name = opts.name or 'beam_search', parallel_iterations = opts.parallel_iterations, back_prop = false })
    return traced(last.all_ids, last.parents, last.time, batch, width):set_shape{ static, width, -1 },
    by_length(last.sums, last.lengths)
  end)
end

return M
