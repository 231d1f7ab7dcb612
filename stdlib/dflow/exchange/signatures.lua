--- What a SavedModel says it takes and gives: its signatures, each a list of inputs and of outputs under names of its
-- own.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local nest = require 'dflow.front.nest'
local wire = require 'dflow.exchange.wire'

local M = {}

local schemas = {
  saved = { [2] = { 'graphs', 'message*', 'meta' } },
  meta = { [4] = { 'collections', 'message*', 'collection' }, [5] = { 'signatures', 'message*', 'entry' },
           [6] = { 'assets', 'message*', 'asset' } },
  collection = { [1] = { 'key', 'bytes' }, [2] = { 'value', 'message', 'collected' } },
  collected = { [1] = { 'nodes', 'message', 'list' } },
  list = { [1] = { 'names', 'bytes*' } },
  asset = { [1] = { 'tensor', 'message', 'info' }, [2] = { 'file', 'bytes' } },
  entry = { [1] = { 'key', 'bytes' }, [2] = { 'value', 'message', 'signature' } },
  signature = { [1] = { 'inputs', 'message*', 'tensor' }, [2] = { 'outputs', 'message*', 'tensor' },
                [3] = { 'method', 'bytes' } },
  tensor = { [1] = { 'key', 'bytes' }, [2] = { 'value', 'message', 'info' } },
  info = { [1] = { 'name', 'bytes' } },
}

local function broken(text, ...) errors.raise('data_loss', 'the SavedModel\'s signatures: ' .. text, ...) end

--- { name = the name of its tensor }, without what is no single tensor.
local function tensors_of(entries)
  local out = {}
  for _, e in ipairs(entries) do out[e.key or ''] = e.value and e.value.name end
  return out
end

local INITIALIZER = '__saved_model_init_op'
--- Collections of TensorFlow 1 that name the initializer.
local collected = { saved_model_main_op = true, legacy_init_op = true }

--- What TensorFlow runs when it has loaded the model: { op = the operation's name, assets = { ['node:0'] = a file in
-- the folder assets } }; nil: nothing.
local function start_of(model)
  local op
  for _, c in ipairs(model.collections) do
    local names = collected[c.key] and c.value and c.value.nodes and c.value.nodes.names
    op = names and names[1] or op
  end
  for _, e in ipairs(model.signatures) do
    if e.key == INITIALIZER and e.value then op = tensors_of(e.value.outputs)[INITIALIZER] or op end
  end
  local assets = {}
  for _, a in ipairs(model.assets) do
    local name, file = a.tensor and a.tensor.name, a.file or ''
    if ('/' .. file .. '/'):find('/%.*/') or file:find '%c' then
      broken("an asset is called '%s', the name of a file in the model's folder is expected", file)
    end
    if name then assets[name] = file end
  end
  return op and op ~= '' and { op = op:match '^%^?([^:]*)', assets = assets } or nil
end

--- The signatures in the bytes of a model, a string or a Tensor: { name = { inputs = { name = 'node:0' }, outputs =,
-- method = } }; nil: it is no SavedModel in binary form. Those that TensorFlow keeps for itself are left out; what the
-- initializer among them is comes second (start_of).
function M.read(bytes)
  local whole = type(bytes) == 'string'
  local size = whole and #bytes or bytes.size
  if size == 0 or (whole and bytes:byte(1) or bytes:at(0)) ~= 8 then return nil end
  if not whole then bytes = core.tensor_bytes(bytes) end
  local model, out = wire.message(schemas, 'saved', bytes, broken).graphs[1], {}
  for _, e in ipairs(model and model.signatures or {}) do
    local name, s = e.key or '', e.value
    if s and not name:find '^__' then
      out[name] = { inputs = tensors_of(s.inputs), outputs = tensors_of(s.outputs), method = s.method }
    end
  end
  return out, model and start_of(model)
end

--- The name of the one that is meant: `wanted`, else serving_default, else the only one; nil: which is not said.
function M.choose(signatures, wanted)
  local names = nest.keys(signatures or {})
  if wanted ~= nil and not (signatures and signatures[wanted]) then
    errors.bad('import_graph_def: there is no signature %s, %s', type(wanted) == 'string' and "'" .. wanted .. "'"
               or errors.describe(wanted),
               #names > 0 and "the model has '" .. table.concat(names, "', '") .. "'"
               or 'the graph has none: they are of a SavedModel in binary form')
  end
  return wanted or (signatures and signatures.serving_default and 'serving_default')
    or (#names == 1 and names[1] or nil)
end

--- The Outputs of one side, in the order of their names and by them; and the names.
function M.outputs(g, side, prefix)
  local out, names = {}, nest.keys(side)
  for i, name in ipairs(names) do
    out[i] = g:output(prefix .. side[name])
    out[name] = out[i]
  end
  return out, names
end

return M
