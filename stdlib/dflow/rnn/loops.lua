--- Cells over time, each in a while_loop: dynamic_rnn, bidirectional_rnn, raw_rnn.
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
local f = ops.functions
local TensorArray = tensor_array.TensorArray

--- Is v an object of the user's that can be called?
local function is_callable(v)
  local mt = type(v) == 'table' and getmetatable(v)
  return type(mt) == 'table' and type(mt.__call) == 'function' and getmetatable(v) ~= graph.Output
end

--- What is called at each step: of a cell the cell, of the older tables with `step` that, else whatever is called (x,
-- state) -> y, state.
function M.step_of(cell, what)
  if layer.is(cell) and cell.class.cell then return cell end
  if type(cell) == 'function' then return cell end
  if errors.is_data(cell) and type(cell.step) == 'function' then return cell.step end
  if is_callable(cell) then return cell end
  errors.bad('%s: the cell is %s; one such as df.rnn.LSTMCell(64), or a function(x, state) is expected', what,
             errors.describe(cell))
end

--- The first state, as Outputs: what was given, or the cell's zeros.
function M.first_state(cell, given, batch, dtype, g, what)
  if given ~= nil then
    return nest.map(given, function(t) return errors.is_data(t) and (nest.has_names(t) or nest.is_structure(t)) end,
                    function(v)
      if getmetatable(v) == TensorArray then return v end
      return convert.to_output(v, convert.typed(v) or dtypes.of(dtype), g, what .. ': initial_state')
    end)
  end
  if layer.is(cell) then return cell:zero_state(batch, dtype) end
  if type(cell) == 'table' and cell.zero_state then
    if cell.step then return cell.zero_state(batch, dtype) end
    return cell:zero_state(batch, dtype)
  end
  errors.bad('%s: a %s has no zero_state: give initial_state', what, type(cell) == 'function' and 'function'
             or 'cell of this kind')
end

-- ---- lengths --------------------------------------------------------------------------------------------------------
--- The lengths as int32 [batch], none below 0 or beyond `time`: checked while building where they are known, else when
-- they run.
function M.lengths(lengths, x, batch, time, what)
  local d = convert.typed(lengths)
  if d and d ~= dtypes.INT32 and d ~= dtypes.INT64 then
    errors.bad("%s: lengths is %s, int32 or int64 is expected: cast it, as in df.cast(lengths, 'int32')", what,
               dtypes.name[d])
  end
  if errors.is_data(lengths) and not d and type(time) == 'number' then
    for i, n in ipairs(lengths) do
      if type(n) == 'number' and (n < 0 or n > time) then
        errors.bad('%s: length %d is %s, but x has %d steps', what, i - 1, tostring(n), time)
      end
    end
  end
  lengths = convert.to_output(lengths, d or dtypes.INT32, x.graph, what .. ': lengths')
  local shape = lengths.shape
  if shape and (#shape ~= 1 or (shape[1] >= 0 and type(batch) == 'number' and shape[1] ~= batch)) then
    errors.bad('%s: lengths is %s, [%s] is expected: one for each example', what,
               tensor.shape_text(lengths.dtype, shape),
               type(batch) == 'number' and batch or 'batch')
  end
  if graph.dtype(lengths) == dtypes.INT64 then lengths = f.cast(lengths, 'int32') end
  local fits = f.reduce_all(f.logical_and(f.greater_equal(lengths, 0), f.less_equal(lengths, time)))
  local message = what .. ': a length is below 0 or beyond the steps that x has'
  local checks = { f.assert(fits, { lengths, convert.to_output(time, dtypes.INT32, x.graph) }, { message = message }) }
  if not shape or shape[1] < 0 or type(batch) ~= 'number' then
    checks[2] = f.assert(f.equal(f.size(lengths), batch),
                         { f.size(lengths), convert.to_output(batch, dtypes.INT32, x.graph) },
                         { message = what .. ': there are not as many lengths as examples' })
  end
  return graph.control_dependencies(checks, function() return f.identity(lengths) end)
end

--- new in the rows that run, old in the others. Of matrices, as states mostly are, by the choice that broadcasts: it is
-- computed in one pass with what is elementwise around it.
local function rows_of(running, new, old)
  local shape = new.shape
  if not shape or #shape ~= 2 then return f.select(running, new, old) end
  return f.select_v2(f.expand_dims(running, -1), new, old)
end

--- where(running [batch], new, old) for a state: what is no row per example (an array, a scalar) is the new.
-- @param path  for messages: '' or '.c'
function M.keep(running, new, old, path)
  path = path or ''
  if errors.is_data(old) then
    local out = {}
    for _, k in ipairs(nest.keys(old)) do
      if not errors.is_data(new) or new[k] == nil then
        local names = {}
        for i, name in ipairs(errors.is_data(new) and nest.keys(new) or {}) do names[i] = tostring(name) end
        errors.bad('the state begins with state%s.%s, which the cell does not give%s', path, tostring(k),
                   #names > 0 and (': it gives %s'):format(table.concat(names, ', ')) or '')
      end
      out[k] = M.keep(running, new[k], old[k], path .. '.' .. tostring(k))
    end
    return out
  end
  if getmetatable(new) == TensorArray or getmetatable(old) == TensorArray then return new end
  new = convert.to_output(new, graph.dtype(old), old.graph)
  local a, b = new.shape, old.shape
  if b and #b == 0 then return new end
  local same = not a or not b or #a == #b
  for i = 1, same and a and b and #a or 0 do same = same and (a[i] == b[i] or a[i] < 0 or b[i] < 0) end
  if not same then
    errors.bad('the cell gives state%s as %s, but it began as %s', path, tensor.shape_text(new.dtype, a),
               tensor.shape_text(old.dtype, b))
  end
  return rows_of(running, new, old)
end

--- v, an Output or a structure of them, with zeros in the examples that do not run. What lies past an example's end may
-- be anything, NaN too:
-- where it went into a cell it would meet a gradient of 0 there, and 0 * NaN is NaN in the weights that all examples
-- share.
function M.masked(running, v)
  return nest.map(v, nest.is_structure, function(x)
    x = convert.to_output(x, convert.typed(x) or dtypes.FLOAT32, running.graph)
    if x.shape and #x.shape == 0 then return x end
    return rows_of(running, x, f.zeros_like(x))
  end)
end

--- by_time [time, batch, ...] with zeros past the lengths [batch], for the reason that M.masked gives.
function M.within(lengths, by_time)
  local running = f.less(f.expand_dims(f.range(f.dim(by_time, 0)), 1), f.expand_dims(lengths, 0))
  for _ = 3, graph.rank(by_time) do running = f.expand_dims(running, -1) end
  return f.select_v2(running, by_time, f.zeros({}, by_time.dtype)):set_shape(by_time.shape)
end

--- [a, b, ...] <-> [b, a, ...]
function M.swap(x)
  local perm = { 1, 0 }
  for i = 3, graph.rank(x) do perm[i] = i - 1 end
  return f.transpose(x, perm)
end

--- x with zeros behind it along axis 0, so that there are `time` rows.
local function padded(x, have, time)
  local rank, pads = graph.rank(x), {}
  pads[1] = f.stack{ 0, f.subtract(time, have) }
  for i = 2, rank do pads[i] = { 0, 0 } end
  local shape = x.shape
  local y = f.pad(x, f.stack(pads))
  shape[1] = type(time) == 'number' and time or -1
  return y:set_shape(shape)
end

-- ---- dynamic_rnn ----------------------------------------------------------------------------------------------------
local loop_names = { 'parallel_iterations', 'save', 'swap_memory', 'name' }
local rnn_names = { 'lengths', 'initial_state', 'time_major' }
for _, name in ipairs(loop_names) do rnn_names[#rnn_names + 1] = name end

local function loop_options(opts, name)
  local out = { name = opts.name or name }
  for i = 1, 3 do out[loop_names[i]] = opts[loop_names[i]] end
  return out
end

--- df.rnn.dynamic_rnn(cell, x, {lengths, initial_state, time_major = false, parallel_iterations, save, swap_memory,
-- name}).
-- @param x        [batch, time, ...], or [time, batch, ...] when time_major
-- @param lengths  [batch]: past them outputs are zeros and the state stays; the loop ends after the longest
-- @return         the outputs, laid out as x, and the last state
function M.dynamic_rnn(cell, x, opts)
  local what = 'dynamic_rnn'
  opts = errors.options(opts, what, rnn_names)
  local step = M.step_of(cell, what)
  if x == nil then errors.bad('%s: x is missing', what) end
  x = convert.to_output(x, convert.typed(x) or dtypes.FLOAT32, nil, what)
  if (graph.rank(x) or 0) < (layer.is(cell) and 3 or 2) then
    errors.bad('%s: x is %s, %s is expected', what, tensor.shape_text(x.dtype, x.shape), opts.time_major
               and '[time, batch, inputs]' or '[batch, time, inputs]')
  end
  layer.flag(opts.time_major, what, 'time_major')
  return graph.with(x.graph, function()
    local g, by_time = x.graph, opts.time_major and x or M.swap(x)
    local shape = by_time.shape
    local time = shape[1] >= 0 and shape[1] or f.dim(by_time, 0)
    local batch = shape[2] >= 0 and shape[2] or f.dim(by_time, 1)
    local state = M.first_state(cell, opts.initial_state, batch, dtypes.is_float(graph.dtype(x)) and x.dtype
                                or 'float32', g, what)
    local steps, lengths = time, nil
    if opts.lengths ~= nil then
      lengths = M.lengths(opts.lengths, x, batch, time, what)
      by_time = M.within(lengths, by_time)
      steps = f.minimum(f.maximum(f.reduce_max(lengths), 1), time)
    end
    local rows, like, arrays = tensor_array.new(x.dtype, time):unstack(by_time), nil, nil
    local _, last = control.while_loop(function(t) return f.less(t, steps) end, function(t, s)
      local y, after = step(rows:read(t), s)
      if y == nil or after == nil then
        errors.bad('%s: the cell returns %s, an output and a state are expected', what, y == nil and 'nothing'
                   or 'no state')
      end
      local running = lengths and f.less(t, lengths)
      if lengths then after = M.keep(running, after, s) end
      like, arrays = y, {}
      nest.each(y, nest.is_structure, function(v)
        v = convert.to_output(v, nil, g, what)
        if lengths then v = rows_of(running, v, f.zeros_like(v)) end
        local ta, close = tensor_array.carried(g, v.dtype, steps, { element_shape = v.shape })
        arrays[#arrays + 1] = close(ta:write(t, v))
      end)
      return f.add(t, 1), after
    end, { f.int32(0), state }, loop_options(opts, 'rnn'))
    local k = 0
    local out = nest.map(like, nest.is_structure, function()
      k = k + 1
      local y = arrays[k]:stack()
      local from = y.shape
      if lengths then
        y = padded(y, steps, time)
      elseif from then
        from[1] = shape[1]
        y:set_shape(from)
      end
      return opts.time_major and y or M.swap(y)
    end)
    return out, last
  end)
end

-- ---- bidirectional_rnn ----------------------------------------------------------------------------------------------
local both_names = { 'lengths', 'initial_state_fw', 'initial_state_bw', 'time_major' }
for _, name in ipairs(loop_names) do both_names[#both_names + 1] = name end

--- x with its time reversed, within each example's length.
local function reversed(x, lengths, time_major)
  local axis = time_major and 0 or 1
  if lengths == nil then return f.reverse(x, { axis }) end
  return f.reverse_sequence(x, lengths, { seq_axis = axis, batch_axis = 1 - axis })
end

--- Two results: a list of them that also has them as .fw and .bw.
local function two(fw, bw)
  return setmetatable({ fw, bw }, { __index = { fw = fw, bw = bw } })
end

--- df.rnn.bidirectional_rnn(fw, bw, x, {lengths, initial_state_fw, initial_state_bw, time_major, parallel_iterations,
-- save, swap_memory, name}):
-- one cell from the beginning, the other from the end of each example. Gives {fw, bw} outputs and {fw, bw} states, also
-- as .fw and .bw.
function M.bidirectional_rnn(fw, bw, x, opts)
  local what = 'bidirectional_rnn'
  opts = errors.options(opts, what, both_names)
  M.step_of(fw, what)
  M.step_of(bw, what)
  if x == nil then errors.bad('%s: x is missing', what) end
  x = convert.to_output(x, convert.typed(x) or dtypes.FLOAT32, nil, what)
  if (graph.rank(x) or 0) < 3 then
    errors.bad('%s: x is %s, [batch, time, inputs] is expected', what, tensor.shape_text(x.dtype, x.shape))
  end
  return graph.with(x.graph, function()
    local shape = x.shape
    local t, b = opts.time_major and 1 or 2, opts.time_major and 2 or 1
    local time, batch = shape[t] >= 0 and shape[t] or f.dim(x, t - 1), shape[b] >= 0 and shape[b] or f.dim(x, b - 1)
    local lengths = opts.lengths ~= nil and M.lengths(opts.lengths, x, batch, time, what) or nil
    local function run(cell, input, side)
      return M.dynamic_rnn(cell, input, { lengths = lengths, time_major = opts.time_major,
          parallel_iterations = opts.parallel_iterations, save = opts.save,
        swap_memory = opts.swap_memory, initial_state = opts['initial_state_' .. side], name = (opts.name or 'rnn')
        .. '_' .. side })
    end
    local y_fw, s_fw = run(fw, x, 'fw')
    local y_bw, s_bw = run(bw, reversed(x, lengths, opts.time_major), 'bw')
    return two(y_fw, reversed(y_bw, lengths, opts.time_major)), two(s_fw, s_bw)
  end)
end

-- ---- raw_rnn --------------------------------------------------------------------------------------------------------
--- df.rnn.raw_rnn(cell, loop_fn, {parallel_iterations, save, swap_memory, name}): a loop whose inputs, end and outputs
-- loop_fn decides.
-- loop_fn(time, output, state, loop_state) -> finished [batch], next_input, next_state, emit, next_loop_state. It is
-- first called with time 0 and nothing else, and says then how all begins (emit: nil, or what is emitted where an
-- example has finished, without its batch). While an example is not finished its state goes on and what is emitted is
-- written; afterwards the state stays and zeros are written.
-- @return  a TensorArray (or a structure of them) of what was emitted, the last state, the last loop_state
function M.raw_rnn(cell, loop_fn, opts)
  local what = 'raw_rnn'
  opts = errors.options(opts, what, loop_names)
  local step = M.step_of(cell, what)
  if type(loop_fn) ~= 'function' then
    errors.bad('%s takes a cell and a function, not %s', what, errors.describe(loop_fn))
  end
  local zero = f.int32(0)
  local finished, input, state, emitted, loop_state = loop_fn(zero, nil, nil, nil)
  if finished == nil or input == nil or state == nil then
    errors.bad('%s: the first call of the function gives finished, next_input, next_state; %s is nil', what,
               finished == nil and 'finished' or input == nil and 'next_input' or 'next_state')
  end
  finished = convert.to_output(finished, dtypes.BOOL, nil, what)
  if graph.dtype(finished) ~= dtypes.BOOL or (graph.rank(finished) or 1) ~= 1 then
    errors.bad('%s: finished is %s, bool [batch] is expected', what, tensor.shape_text(finished.dtype, finished.shape))
  end
  local g, like, arrays = finished.graph, nil, nil
  local has_loop_state = loop_state ~= nil
  input = M.masked(f.logical_not(finished), input)
  local vars = { time = zero, finished = finished, input = input, state = state, loop_state = loop_state }
  local last = control.while_loop(function(v) return f.logical_not(f.reduce_all(v.finished)) end, function(v)
    local y, after = step(v.input, v.state)
    local next_time = f.add(v.time, 1)
    local done, next_input, next_state, emit, next_loop = loop_fn(next_time, y, after, v.loop_state)
    if done == nil or next_input == nil then
      errors.bad('%s: the function gives no %s', what, done == nil and 'finished' or 'next_input')
    end
    if next_state == nil then next_state = after end
    if emit == nil then emit = y end
    local running = f.logical_not(v.finished)
    like, arrays = emit, {}
    nest.each(emit, nest.is_structure, function(o)
      o = convert.to_output(o, nil, g, what)
      o = f.select(running, o, f.zeros_like(o))
      local ta, close = tensor_array.carried(g, o.dtype, 0, { dynamic_size = true, element_shape = o.shape })
      arrays[#arrays + 1] = close(ta:write(v.time, o))
    end)
    if next_loop == nil then next_loop = v.loop_state end
    done = f.logical_or(v.finished, done)
    return { time = next_time, finished = done, input = M.masked(f.logical_not(done), next_input),
             state = M.keep(running, next_state, v.state),
             loop_state = has_loop_state and next_loop or nil }
  end, vars, loop_options(opts, 'raw_rnn'))
  local k = 0
  local out = nest.map(like, nest.is_structure, function()
    k = k + 1
    return arrays[k]
  end)
  return out, last.state, last.loop_state, emitted
end

return M
