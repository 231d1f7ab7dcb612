--- df.train.fit: a model, data, and nothing else to know: epochs of steps, progress, validation, early stop.
--
-- It is made of what df has besides: a placeholder for each part of the data, the model called twice (in training and
-- not), an optimizer's step, a pipeline. More than that is made of the pieces.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local variable = require 'dflow.front.variable'
local convert = require 'dflow.front.convert'
local session = require 'dflow.front.session'
local ops = require 'dflow.front.ops'
local files = require 'dflow.exchange.file'
local cluster = require 'dflow.cluster'
local layer = require 'dflow.nn.layer'
local losses = require 'dflow.nn.losses'
local pipeline = require 'dflow.data.pipeline'
local resume = require 'dflow.train.resume'
local summaries = require 'dflow.train.summaries'

local M = {}
local f = ops.functions
local Tensor = tensor.Tensor
local History = { __name = 'dflow.History' }
local methods = {}
History.__index = methods

-- ---- data -----------------------------------------------------------------------------------------------------------
--- {x, y} as Tensors with equally many rows, or what gives batches of (x, y).
local function check_data(data, what)
  local mt = getmetatable(data)
  if type(data) == 'table' and mt and mt.__name == 'dflow.Pipeline' then return data end
  if not errors.is_data(data) or #data ~= 2 then
    errors.bad('fit: %s is {x, y}, two Tensors with equally many rows, or a pipeline of batches (x, y), not %s', what,
               errors.describe(data))
  end
  local list = {}
  for i = 1, 2 do
    local t = data[i]
    if getmetatable(t) == graph.Output or getmetatable(t) == variable.Variable then
      errors.bad('fit: %s is an Output, which has no value yet: a Tensor is expected, as df.tensor(list), '
                 .. 'df.load_npy(path) or df.run(x) gives it', i == 1 and 'x' or 'y')
    end
    if getmetatable(t) ~= Tensor then t = tensor.from(t, nil, nil, 'fit') end
    if t.rank < 1 then
      errors.bad('fit: %s has no rows: %s', i == 1 and 'x' or 'y', tensor.shape_text(t.dtype, t.shape))
    end
    list[i] = t
  end
  if list[1].shape[1] ~= list[2].shape[1] then
    errors.bad('fit: %s has %d rows of x and %d of y', what, list[1].shape[1], list[2].shape[1])
  end
  return list
end

--- An iterator over the batches of an epoch; state: where it goes on.
local function batches(data, o, epoch, state)
  if not errors.is_data(data) then return data:each{ state = state } end
  local p = pipeline.pipeline(data)
  if o.shuffle and epoch then p = p:shuffle(data[1].shape[1], o.seed + epoch) end
  return p:batch(o.batch_size):each{ state = state }
end

local function first_batch(data, o)
  if errors.is_data(data) then return data[1], data[2] end
  local x, y = batches(data, o)()
  if getmetatable(x) ~= Tensor or getmetatable(y) ~= Tensor then
    errors.bad('fit: the pipeline gives %s and %s, batches of x and y are expected: two Tensors', errors.describe(x),
               errors.describe(y))
  end
  return x, y
end

local function placeholder(t, name)
  local shape = t.shape
  shape[1] = -1
  return f.placeholder(t.dtype, shape, name)
end

-- ---- what is built --------------------------------------------------------------------------------------------------
--- The model as function(x, training).
local function callable(model)
  if layer.is(model) then
    local takes = false
    for _, name in ipairs(model.class.options) do takes = takes or name == 'training' end
    return function(x, training) return takes and model(x, { training = training }) or model(x) end
  end
  if type(model) == 'function' then return model end
  local mt = type(model) == 'table' and getmetatable(model)
  if type(mt) == 'table' and mt.__call and getmetatable(model) ~= graph.Output then return model end
  errors.bad('fit: the model is %s; a layer, such as df.nn.Sequential{…}, or a function(x, training) is expected',
             errors.describe(model))
end

--- What Keras and PyTorch call them.
local elsewhere = { mse = 'mean_squared_error', MSE = 'mean_squared_error', l2 = 'mean_squared_error',
                    mae = 'absolute_difference', l1 = 'absolute_difference', bce = 'sigmoid_cross_entropy',
                    binary_crossentropy = 'sigmoid_cross_entropy', crossentropy = 'sparse_softmax_cross_entropy',
                    cross_entropy = 'sparse_softmax_cross_entropy', categorical_crossentropy = 'softmax_cross_entropy',
                    sparse_categorical_crossentropy = 'sparse_softmax_cross_entropy' }

--- The loss as function(labels, predictions); nil: what goes with the labels' dtype.
local function loss_of(given, labels)
  if type(given) == 'function' then return given end
  if type(given) == 'string' then
    local fn = rawget(losses, given)
    local names = {}
    for name, v in pairs(losses) do
      if type(v) == 'function' then names[#names + 1] = name end
    end
    table.sort(names)
    if not fn then
      local hint = elsewhere[given] and ("; it is '%s'"):format(elsewhere[given]) or errors.hint(given, names)
      errors.bad("fit: there is no loss '%s'%s (there are: %s)", given, hint, table.concat(names, ', '))
    end
    return fn
  end
  if given ~= nil then
    errors.bad('fit: loss is a function(labels, predictions) or the name of one of df.nn, not %s',
               errors.describe(given))
  end
  if not dtypes.is_int(graph.dtype(labels)) then return losses.mean_squared_error end
  return function(y, logits) return losses.sparse_softmax_cross_entropy(f.cast(y, 'int32'), logits) end
end

local function scalar(v, what)
  if convert.typed(v) == nil then errors.bad('fit: %s gives %s, an Output is expected', what, errors.describe(v)) end
  v = convert.to_output(v)
  return (graph.rank(v) or 1) ~= 0 and f.reduce_mean(v) or v
end

local function accuracy(labels, predictions)
  return f.reduce_mean(f.cast(f.equal(f.cast(f.argmax(predictions, -1), labels.dtype), labels), 'float32'))
end

--- Losses and metrics of a prediction: {loss =, accuracy = …}.
local function judged(o, labels, predictions)
  local out = { loss = scalar(o.loss(labels, predictions), 'the loss') }
  for _, name in ipairs(nest.keys(o.metrics)) do
    out[name] = scalar(o.metrics[name](labels, predictions), 'the metric ' .. name)
  end
  return out
end

-- ---- epochs ---------------------------------------------------------------------------------------------------------
local function by_name(list)
  local names = {}
  for name in pairs(list) do names[#names + 1] = name end
  table.sort(names, function(a, b) return a == 'loss' or (b ~= 'loss' and a < b) end)
  return names
end

--- Seconds that a batch may take to be made before that is done while the step before it runs, in the background.
local SLOW = 5e-4

--- What is wrong with the loss of a step; nil where it is a number.
local function not_finite(loss)
  return loss ~= loss and 'not a number' or loss == math.huge and 'infinite' or nil
end

--- One pass over data: the means of what `fetch` gives, by how many rows each batch has; nil and why, where the loss
-- was to end it.
-- place, stepped: of a pass that can be gone on with: where it is, and what is called with that after each step
local function pass(o, data, fetch, step, epoch, place, stepped)
  place = place or { sums = {}, rows = 0, number = 0 }
  local sums, rows, number = place.sums, place.rows, place.number
  local pull, fetches = batches(data, o, epoch, place.state), { values = fetch, norm = step and o.norm or nil, step }
  local opts = { check_numerics = step and o.check_numerics or nil, at_once = true }
  local x, y = pull()
  while x ~= nil do
    local state = stepped and pull:state()
    local n = x.shape[1]
    local got
    if o.slow then         -- the next batch is made while the step runs
      local h = o.session:start(fetches, { [o.x] = x, [o.y] = y }, opts)
      local ok, a, b = pcall(pull)
      got = h:wait()
      if not ok then error(a, 0) end
      x, y = a, b
    else
      got = o.session:run(fetches, { [o.x] = x, [o.y] = y }, opts)
      local began = core.clock()
      x, y = pull()
      o.slow = core.clock() - began > SLOW
    end
    for name, v in pairs(got.values) do sums[name] = (sums[name] or 0) + v * n end
    rows, number = rows + n, number + 1
    if step and o.writer then summaries.step(o, got) end
    local wrong = step and not_finite(got.values.loss)
    if wrong then
      local why = ('the loss is %s in batch %d of epoch %d; check_numerics = true stops at the op that made the first '
                   .. 'NaN'):format(wrong, number, epoch)
      if o.stop_on == 'nan' then return nil, why end
      errors.raise('invalid_argument', 'fit: %s', why)
    end
    if stepped then
      place.rows, place.number, place.state = rows, number, state
      stepped(place)
    end
  end
  if rows == 0 then errors.bad('fit: there is no data') end
  local means = {}
  for name, v in pairs(sums) do means[name] = v / rows end
  return means
end

local function line_of(o, epoch, got, valid, seconds)
  local parts = { ('epoch %d/%d'):format(epoch, o.epochs) }
  for _, name in ipairs(by_name(got)) do parts[#parts + 1] = ('%s %.4g'):format(name, got[name]) end
  if valid then
    for _, name in ipairs(by_name(valid)) do parts[#parts + 1] = ('validation %s %.4g'):format(name, valid[name]) end
  end
  parts[#parts + 1] = ('%.1f s'):format(seconds)
  return table.concat(parts, '  ')
end

--- Progress goes on standard output, or to the function.
local function told(o, text)
  if type(o.progress) == 'function' then o.progress(text) elseif o.progress then io.write(text, '\n') end
end

local names = { 'loss', 'optimizer', 'epochs', 'batch_size', 'shuffle', 'seed', 'validation', 'metrics', 'progress',
                'patience', 'session', 'check_numerics',
                'checkpoint', 'checkpoint_steps', 'restarts', 'stop_on', 'summary' }

--- What a history has besides its metrics.
local taken = { loss = true, validation = true, epochs = true, best = true, options = true, stopped = true,
                predict = true, evaluate = true }

local function options(opts)
  local o = {}
  for k, v in pairs(errors.options(opts, 'fit', names)) do o[k] = v end
  local defaults = { epochs = 1, batch_size = 32, shuffle = true, seed = 0, progress = true }
  for k, v in pairs(defaults) do
    if o[k] == nil then o[k] = v end
  end
  layer.whole(o.epochs, 'fit', 'epochs')
  layer.whole(o.batch_size, 'fit', 'batch_size')
  layer.whole(o.seed, 'fit', 'seed', 0)
  layer.flag(o.shuffle, 'fit', 'shuffle')
  if o.patience ~= nil then layer.whole(o.patience, 'fit', 'patience') end
  if o.checkpoint ~= nil then files.path(o.checkpoint, 'fit') end
  if o.stop_on ~= nil and o.stop_on ~= 'nan' then
    errors.bad("fit: stop_on is 'nan' or nothing, not %s", errors.describe(o.stop_on))
  end
  for _, key in ipairs{ 'checkpoint_steps', 'restarts' } do
    if o[key] ~= nil then layer.whole(o[key], 'fit', key, key == 'restarts' and 0 or 1) end
    if o[key] ~= nil and not o.checkpoint then
      errors.bad("fit: %s goes with checkpoint = 'path', which says where checkpoints are written", key)
    end
  end
  if type(o.progress) ~= 'boolean' and type(o.progress) ~= 'function' then
    errors.bad('fit: progress is true, false or a function(line), not %s', errors.describe(o.progress))
  end
  if o.metrics ~= nil and not errors.is_data(o.metrics) then
    errors.bad('fit: metrics is {name = function(labels, predictions)}, not %s', errors.describe(o.metrics))
  end
  for name, fn in pairs(o.metrics or {}) do
    if type(name) ~= 'string' or type(fn) ~= 'function' then
      errors.bad('fit: metrics is {name = function(labels, predictions)}; %s is %s', tostring(name),
                 errors.describe(fn))
    end
    if taken[name] then
      errors.bad("fit: a metric cannot be called '%s': that is something else of what fit returns", name)
    end
  end
  if o.optimizer ~= nil and (type(o.optimizer) ~= 'table' or type(o.optimizer.minimize) ~= 'function') then
    errors.bad('fit: the optimizer is %s; one such as df.train.Adam(0.001) is expected', errors.describe(o.optimizer))
  end
  return o
end

--- df.train.fit(model, data, {loss, optimizer = Adam(), epochs = 1, batch_size = 32, shuffle = true, seed = 0,
-- validation, metrics, patience, progress = true, session, check_numerics, stop_on, summary, checkpoint,
-- checkpoint_steps, restarts}): trains a model, and tells how it went.
-- @param model       a layer, or function(x, training) -> predictions
-- @param data        {x, y}, Tensors with equally many rows, or a pipeline of batches (x, y), gone through once per
--                    epoch
-- @param loss        function(labels, predictions), or a name of df.nn; nil: sparse_softmax_cross_entropy where y is
--                    whole numbers, else mean_squared_error
-- @param validation  as data: looked at after each epoch, without a step
-- @param metrics     {name = function(labels, predictions)}; nil: accuracy where the default loss is one of classes
-- @param patience    the training ends when the (validation) loss has not fallen for so many epochs
-- @param progress    true: a line per epoch on standard output; a function gets the line
-- @param stop_on     'nan': a loss that is no finite number ends the training, and h.stopped says where; nil: it is an
--                    error
-- @param summary     a folder or a df.summary.FileWriter: of each step the loss and the norm of all gradients, of each
--                    epoch metrics and histograms of the weights; :serve draws them while they come, and TensorBoard
--                    reads them
-- @param checkpoint  a path: written when an epoch ends, and after so many steps each (checkpoint_steps); where it is
--                    there already, fit goes on from it, to the bits of a run that was never interrupted
-- @param restarts    so often, when a rank is lost, df.cluster.restart() and on from the checkpoint
-- @return            {loss = {of each epoch}, accuracy = {…}, validation = {loss = {…}, …}, epochs =, best =, stopped
--                    =}, with :predict(x) and :evaluate(data)
function M.fit(model, data, opts)
  local o = options(opts)
  local call = callable(model)
  data = check_data(data, 'data')
  for _, key in ipairs{ 'shuffle', 'seed' } do
    if not errors.is_data(data) and opts and opts[key] then
      errors.bad('fit: %s is of {x, y}; a pipeline has an order of its own: p:shuffle(n, seed)', key)
    end
  end
  local valid = o.validation ~= nil and check_data(o.validation, 'validation') or nil
  local x, y = first_batch(data, o)
  local g = o.session and o.session.graph or graph.current()
  local train, eval, step
  graph.with(g, function()
    o.x, o.y = placeholder(x, 'x'), placeholder(y, 'y')
    local classes = o.loss == nil and dtypes.is_int(graph.dtype(o.y)) or o.loss == 'sparse_softmax_cross_entropy'
    o.metrics = o.metrics or (classes and { accuracy = accuracy } or {})
    o.loss = loss_of(o.loss, o.y)
    train = judged(o, o.y, call(o.x, true))
    o.predictions = call(o.x, false)
    eval = judged(o, o.y, o.predictions)
    local optimizer = o.optimizer or require('dflow.train.rules').Adam()
    step = o.summary and summaries.minimize(o, optimizer, train.loss) or optimizer:minimize(train.loss)
  end)
  o.session = o.session or session.default(g)
  if o.summary then summaries.open(o) end
  o.eval = eval
  local history = setmetatable({ loss = {}, validation = valid and {} or nil, epochs = 0, options = o }, History)
  local first = o.checkpoint and not errors.is_data(data) and data.epoch     -- of the pipeline's own epochs
  local state = { history = history, epoch = 1, done = 0, lowest = math.huge, since = 0 }
  local function stepped(place)
    state.place, state.done = place, state.done + 1
    if o.checkpoint_steps and state.done % o.checkpoint_steps == 0 then resume.save(o, state) end
  end
  local function one_epoch()
    local began, epoch = core.clock(), state.epoch
    if first then data.epoch = first + epoch - 1 end           -- also where an epoch before was begun twice
    local got, why = pass(o, data, train, step, epoch, state.place, o.checkpoint and stepped or nil)
    if not got then
      history.stopped = why
      return told(o, 'stopped: ' .. why)
    end
    local checked = valid and pass(o, valid, eval) or nil
    history.epochs = epoch
    for name, v in pairs(got) do
      history[name] = history[name] or {}
      history[name][epoch] = v
    end
    for name, v in pairs(checked or {}) do
      history.validation[name] = history.validation[name] or {}
      history.validation[name][epoch] = v
    end
    told(o, line_of(o, epoch, got, checked, core.clock() - began))
    if o.writer then summaries.epoch(o, got, checked) end
    local now = (checked or got).loss
    if now < state.lowest then state.lowest, state.since, history.best = now, 0,
        epoch else state.since = state.since + 1 end
    state.epoch, state.place = epoch + 1, nil
    if o.checkpoint then resume.save(o, state) end
  end
  local function go_on()
    o.steps = state.done
    while state.epoch <= o.epochs and not history.stopped and not (o.patience and state.since >= o.patience) do
      one_epoch()
    end
  end
  if not o.checkpoint then
    go_on()
    return history
  end
  o.rows = errors.is_data(data) and ('%d'):format(data[1].shape[1]) or nil
  if resume.is_there(o) then resume.restore(o, state) elseif o.restarts then resume.save(o, state) end
  for left = o.restarts or 0, 0, -1 do
    local ok, err = pcall(go_on)
    if ok then break end
    if left == 0 or type(err) ~= 'table' or err.code ~= 'unavailable' then error(err, 0) end
    cluster.restart()
    resume.restore(o, state)
    told(o, ('%s; on from step %d'):format(err.message, state.done))
  end
  return history
end

--- h:predict(x, batch_size?): what the model says of rows of x, not in training: a Tensor.
function methods.predict(h, x, size)
  local o = h.options
  if getmetatable(x) ~= Tensor then x = tensor.from(x, graph.dtype(o.x), nil, 'predict') end
  if x.rank < 1 or x.shape[1] == 0 then
    errors.bad('predict: x is %s, rows are expected', tensor.shape_text(x.dtype, x.shape))
  end
  if size == nil or size >= x.shape[1] then return o.session:run(o.predictions, { [o.x] = x }, { tensors = true }) end
  local parts = {}
  for part in pipeline.pipeline(x):batch(layer.whole(size, 'predict', 'batch_size')):each() do
    parts[#parts + 1] = o.session:run(o.predictions, { [o.x] = part }, { tensors = true })
  end
  local shape, bytes = parts[1].shape, {}
  for i, t in ipairs(parts) do bytes[i] = core.tensor_bytes(t) end
  shape[1] = x.shape[1]
  return core.tensor_from_bytes(dtypes.number[parts[1].dtype], shape, table.concat(bytes))
end

--- h:evaluate(data): {loss =, accuracy = …} of {x, y} or a pipeline of batches, without a step.
function methods.evaluate(h, data) return pass(h.options, check_data(data, 'data'), h.options.eval) end

History.__tostring = function(h)
  local n = h.epochs
  return ('History of %d epoch%s, loss %.4g%s'):format(n, n == 1 and '' or 's', h.loss[n] or 0 / 0,
                                                       h.validation and h.validation.loss
                                                       and (', validation loss %.4g'):format(h.validation.loss[n])
                                                         or '')
end

return M
