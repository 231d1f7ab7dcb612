--- Decoders: loops that make sequences, and stop as soon as every example has ended. What comes in at each step is a
-- helper's to say:
-- the target (teacher forcing), a mix of target and sample (scheduled sampling), the likeliest, or a sample.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local tensor_array = require 'dflow.front.tensor_array'
local control = require 'dflow.front.control'
local ops = require 'dflow.front.ops'
local layer = require 'dflow.nn.layer'
local loops = require 'dflow.rnn.loops'

local M = {}
local unpack = table.unpack or unpack
local f, int32 = ops.functions, require('dflow.front.arguments').int32

--- A helper: first() -> finished, inputs; sample(time, logits) -> ids; next(time, ids) -> finished, inputs, `batch`,
-- `zero` ids' dtype.
local Helper = { __name = 'dflow.Helper' }
Helper.__index = Helper
local function helper(fields) return setmetatable(fields, Helper) end

local function argmax(logits) return f.cast(f.argmax(logits, -1), 'int32') end
local function draw(logits, temperature, seed)
  if temperature ~= nil then logits = logits / temperature end
  return f.squeeze(f.multinomial(logits, 1, { seed = seed, output_dtype = 'int32' }), 1)
end

--- What goes from ids to inputs: a table [n, size], a Variable, a layer or a function.
local function lookup(embedding, what)
  if type(embedding) == 'function' or layer.is(embedding) then return embedding end
  if embedding == nil or convert.typed(embedding) == nil then
    errors.bad('%s: the embedding is %s, a table [n, size], a layer or a function is expected', what,
               errors.describe(embedding))
  end
  return function(ids) return f.gather(embedding, ids) end
end

-- ---- with targets ---------------------------------------------------------------------------------------------------
--- The first of the rows [time, batch, ...], zeros where there is none.
local function first_row(by_time, time)
  if type(time) == 'number' and time > 0 then return by_time[0] end
  local from, size = { 0 }, { f.minimum(time, 1) }
  for i = 2, graph.rank(by_time) do from[i], size[i] = 0, -1 end
  local shape, row = by_time.shape, {}
  for i = 2, #shape do row[i - 1] = shape[i] end
  return f.reduce_sum(f.slice(by_time, from, int32(size)), { axis = 0 }):set_shape(row)
end

local function with_targets(what, inputs, opts, sample, mix)
  if inputs == nil then errors.bad('%s: the inputs are missing', what) end
  inputs = convert.to_output(inputs, dtypes.FLOAT32, nil, what)
  if (graph.rank(inputs) or 0) < 3 then
    errors.bad('%s: the inputs are %s, [batch, time, size] is expected', what,
               tensor.shape_text(inputs.dtype, inputs.shape))
  end
  local by_time = opts.time_major and inputs or loops.swap(inputs)
  local shape = by_time.shape
  local time, batch = shape[1] >= 0 and shape[1] or f.dim(by_time, 0), shape[2] >= 0 and shape[2] or f.dim(by_time, 1)
  local lengths
  if opts.lengths ~= nil then
    lengths = loops.lengths(opts.lengths, inputs, batch, time, what)
  else
    lengths = f.fill(int32{ batch }, convert.to_output(time, dtypes.INT32, inputs.graph))
  end
  local rows = tensor_array.new(inputs.dtype, time):unstack(by_time)
  local final = type(time) == 'number' and int32(time - 1) or f.subtract(time, 1)
  local function at(t) return rows:read(f.minimum(t, final)) end
  return helper{
    batch = batch, graph = inputs.graph, sample = sample,
    first = function() return f.equal(lengths, 0), first_row(by_time, time) end,
    next = function(t, ids)
      local target = at(t)
      return f.greater_equal(t, lengths), mix and mix(target, ids) or target
    end,
  }
end

--- df.rnn.TrainingHelper(inputs, {lengths, time_major}): teacher forcing: the inputs [batch, time, size] are what comes
-- in.
function M.TrainingHelper(inputs, opts)
  opts = errors.options(opts, 'TrainingHelper', { 'lengths', 'time_major' })
  return with_targets('TrainingHelper', inputs, opts, function(_, logits) return argmax(logits) end)
end

--- df.rnn.ScheduledEmbeddingTrainingHelper(inputs, embedding, probability, {lengths, time_major, seed}): with this
-- probability an example's next input is the embedding of what was drawn from the output, else the target.
function M.ScheduledEmbeddingTrainingHelper(inputs, embedding, probability, opts)
  local what = 'ScheduledEmbeddingTrainingHelper'
  opts = errors.options(opts, what, { 'lengths', 'time_major', 'seed' })
  if probability == nil or (convert.typed(probability) == nil and type(probability) ~= 'number') then
    errors.bad('%s: the probability is %s, a number or scalar Output is expected', what, errors.describe(probability))
  end
  local of = lookup(embedding, what)
  return with_targets(what, inputs, opts, function(_, logits) return draw(logits, nil, opts.seed) end,
                      function(target, ids)
    local drawn = f.less(f.random_uniform(f.shape(ids), { dtype = 'float32', seed = opts.seed and opts.seed + 1 }),
                         probability)
    return f.select(drawn, of(ids), target)
  end)
end

-- ---- without --------------------------------------------------------------------------------------------------------
local function without(what, embedding, start, stop, sample)
  if start == nil then errors.bad('%s: start is missing: ids [batch] that come first', what) end
  start = convert.typed(start) and convert.to_output(start) or f.int32(start)
  if graph.rank(start) ~= 1 then
    errors.bad('%s: start is %s, [batch] is expected', what, tensor.shape_text(start.dtype, start.shape))
  end
  if type(stop) ~= 'number' and convert.typed(stop) == nil then
    errors.bad('%s: stop is %s, a number is expected', what, errors.describe(stop))
  end
  local of, size = lookup(embedding, what), start.shape[1]
  return helper{
    batch = size >= 0 and size or f.dim(start, 0), graph = start.graph, sample = sample, endless = true, stop = stop,
    first = function() return f.zeros_like(f.cast(start, 'bool')), of(start) end,
    next = function(_, ids) return f.equal(ids, stop), of(ids) end,
  }
end

--- df.rnn.GreedyEmbeddingHelper(embedding, start, stop): the likeliest id comes in next, until it is `stop`. start is
-- int32 [batch].
function M.GreedyEmbeddingHelper(embedding, start, stop)
  return without('GreedyEmbeddingHelper', embedding, start, stop, function(_, logits) return argmax(logits) end)
end

--- df.rnn.SampleEmbeddingHelper(embedding, start, stop, {temperature, seed}): an id drawn from the output comes in
-- next.
function M.SampleEmbeddingHelper(embedding, start, stop, opts)
  opts = errors.options(opts, 'SampleEmbeddingHelper', { 'temperature', 'seed' })
  return without('SampleEmbeddingHelper', embedding, start, stop,
                 function(_, logits) return draw(logits, opts.temperature, opts.seed) end)
end

-- ---- the loop -------------------------------------------------------------------------------------------------------
--- What the steps gave, [time, batch, ...]. An array that nothing was written to does not know how many examples there
-- are, the helper does.
local function stacked(array, like, batch, steps)
  local dims, shape, known = {}, like.shape, like.shape ~= nil
  for i = 2, shape and #shape or 0 do
    dims[i - 1], known = shape[i], known and shape[i] >= 0
  end
  if not known or #shape == 0 or shape[1] >= 0 then return array:stack() end
  return control.cond(f.greater(steps, 0), function() return array:stack() end, function()
    return f.zeros(int32{ 0, batch, unpack(dims) }, like.dtype)
  end)
end

local names = { 'cell', 'helper', 'initial_state', 'output_layer', 'max_steps', 'parallel_iterations', 'save',
                'swap_memory', 'name' }

--- df.rnn.decode{cell =, helper =, initial_state, output_layer, max_steps, parallel_iterations, save, swap_memory,
-- name}.
-- The loop ends when every example has finished, or after max_steps. Past an example's end logits and ids are 0 and the
-- state stays.
-- @param output_layer  from what the cell gives to logits; nil: it gives logits
-- @return  {logits = [batch, time, n], ids = int32 [batch, time]}, the last state, lengths int32 [batch] (the end mark
--          counts)
function M.decode(opts)
  local what = 'decode'
  if opts == nil then errors.bad('decode takes a table {cell =, helper =, …}') end
  opts = errors.options(opts, what, names)
  local h = opts.helper
  if getmetatable(h) ~= Helper then
    errors.bad('decode: helper is %s; one such as df.rnn.TrainingHelper(x) is expected', errors.describe(h))
  end
  if h.endless and opts.max_steps == nil then
    errors.bad('decode: max_steps is missing: nothing else ends a loop whose end mark may never come')
  end
  local step, g = loops.step_of(opts.cell, what), h.graph
  return graph.with(g, function()
    local state = loops.first_state(opts.cell, opts.initial_state, h.batch, 'float32', g, what)
    local finished, input = h.first()
    input = loops.masked(f.logical_not(finished), input)
    local arrays, like = {}, {}
    local zero = f.int32(0)
    local limit = opts.max_steps ~= nil and convert.to_output(opts.max_steps, dtypes.INT32, g, 'decode: max_steps')
    local last = control.while_loop(
      function(v)
        local more = f.logical_not(f.reduce_all(v.finished))
        return limit and f.logical_and(more, f.less(v.time, limit)) or more
      end,
      function(v)
        local y, after = step(v.input, v.state)
        if opts.output_layer then y = opts.output_layer(y) end
        local ids = h.sample(v.time, y)
        local next_time, running = f.add(v.time, 1), f.logical_not(v.finished)
        local done, next_input = h.next(next_time, ids)
        for i, o in ipairs{ y, ids } do
          local ta, close = tensor_array.carried(g, o.dtype, 0, { dynamic_size = true, element_shape = o.shape })
          arrays[i], like[i] = close(ta:write(v.time, f.select(running, o, f.zeros_like(o)))), o
        end
        done = f.logical_or(v.finished, done)
        return { time = next_time, finished = done, input = loops.masked(f.logical_not(done), next_input),
                 state = loops.keep(running, after, v.state),
                 lengths = v.lengths + f.cast(running, 'int32') }
      end,
      { time = zero, finished = finished, input = input, state = state,
        lengths = f.cast(f.zeros_like(f.cast(finished, 'int32')), 'int32') },
      { parallel_iterations = opts.parallel_iterations, save = opts.save, swap_memory = opts.swap_memory,
        name = opts.name or 'decode' })
    return { logits = loops.swap(stacked(arrays[1], like[1], h.batch, last.time)),
             ids = loops.swap(stacked(arrays[2], like[2], h.batch, last.time)) },
           last.state, last.lengths
  end)
end

return M
