--- What df.train.fit writes into event files: of each step the loss and the norm of all gradients, of each epoch
-- metrics and weights.
local errors = require 'dflow.front.errors'
local files = require 'dflow.exchange.file'
local nest = require 'dflow.front.nest'
local ops = require 'dflow.front.ops'
local summary = require 'dflow.summary'
local optimizer = require 'dflow.train.optimizer'

local M = {}

--- minimize, with the norm of the gradients beside it in o.norm.
function M.minimize(o, by, loss)
  if type(by.compute_gradients) ~= 'function' or type(by.apply_gradients) ~= 'function' then
    return by:minimize(loss)
  end
  local list, gradients = by:compute_gradients(loss), {}
  for _, pair in ipairs(list) do gradients[#gradients + 1] = pair[1] or nil end
  if #gradients == 0 then return by:minimize(loss) end                    -- which says what is wrong
  o.norm = ops.functions.global_norm(gradients)
  return by:apply_gradients(list, { after = loss })
end

--- Opens o.writer, and learns which weights there are.
function M.open(o)
  local mt = getmetatable(o.summary)
  local is_writer = type(mt) == 'table' and rawget(mt, '__name') == 'dflow.FileWriter'
  if not is_writer and type(o.summary) ~= 'string' then
    errors.bad('fit: summary is a folder or a df.summary.FileWriter, not %s', errors.describe(o.summary))
  end
  o.writer = is_writer and o.summary or summary.FileWriter(files.path(o.summary, 'fit'))
  o.weights = {}
  for _, v in ipairs(optimizer.trainable(o.session.graph)) do o.weights[v.name] = v end
end

--- After a step: got = {values = {loss =}, norm =}.
function M.step(o, got)
  o.steps = o.steps + 1
  o.writer:scalar('loss', got.values.loss, o.steps)
  if got.norm then o.writer:scalar('gradient norm', got.norm, o.steps) end
end

--- After an epoch: what was measured (the loss stands beside that of the steps), and how the weights are spread.
function M.epoch(o, got, validation)
  for _, name in ipairs(nest.keys(got)) do
    o.writer:scalar(name == 'loss' and 'epoch loss' or name, got[name], o.steps)
  end
  for _, name in ipairs(nest.keys(validation or {})) do
    o.writer:scalar('validation ' .. name, validation[name], o.steps)
  end
  for name, t in pairs(o.session:run(o.weights, nil, { tensors = true })) do o.writer:histogram(name, t, o.steps) end
end

return M
