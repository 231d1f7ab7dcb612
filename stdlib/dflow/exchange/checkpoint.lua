--- TensorFlow's checkpoints as tables of Tensors.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local tensor = require 'dflow.front.tensor'

local M = {}

local function path_of(prefix, what)
  if type(prefix) ~= 'string' or prefix == '' then
    errors.bad('%s takes a path, not %s', what, errors.describe(prefix))
  end
  return (prefix:gsub('%.index$', ''))
end

--- df.load_checkpoint(prefix): {name = Tensor} of the files prefix.index and prefix.data-….
function M.load_checkpoint(prefix)
  prefix = path_of(prefix, 'load_checkpoint')
  local out = {}
  for _, name in ipairs(core.checkpoint_names(prefix):list()) do out[name] = core.checkpoint_read(prefix, name) end
  return out
end

--- df.save_checkpoint(prefix, {name = Tensor}): writes them so that TensorFlow's Savers and tf.train.load_checkpoint
-- read them. Files that are there are replaced when all is written.
function M.save_checkpoint(prefix, tensors)
  prefix = path_of(prefix, 'save_checkpoint')
  if not errors.is_data(tensors) then
    errors.bad('save_checkpoint takes a table {name = Tensor}, not %s', errors.describe(tensors))
  end
  local names, list = {}, {}
  for name in pairs(tensors) do
    if type(name) ~= 'string' or name == '' or name:find('%z') then
      errors.bad('save_checkpoint: the name %s is none', tostring(name))
    end
    names[#names + 1] = name
  end
  table.sort(names)
  for i, name in ipairs(names) do
    local t = tensors[name]
    list[i] = getmetatable(t) == tensor.Tensor and t or tensor.from(t, nil, nil, 'save_checkpoint')
  end
  core.checkpoint_write(prefix, names, list)
end

return M
