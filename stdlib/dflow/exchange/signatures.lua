--- What a SavedModel says it takes and gives: its signatures, each a list of inputs and of outputs under names of its own.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local nest = require 'dflow.front.nest'
local wire = require 'dflow.exchange.wire'

local M = {}

local schemas = {
  saved = { [2] = { 'graphs', 'message*', 'meta' } },
  meta = { [5] = { 'signatures', 'message*', 'entry' } },
  entry = { [1] = { 'key', 'bytes' }, [2] = { 'value', 'message', 'signature' } },
  signature = { [1] = { 'inputs', 'message*', 'tensor' }, [2] = { 'outputs', 'message*', 'tensor' }, [3] = { 'method', 'bytes' } },
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

--- The signatures in the bytes of a model, a string or a Tensor: { name = { inputs = { name = 'node:0' }, outputs =, method = } }; nil: it is no SavedModel in binary
-- form. Those that TensorFlow keeps for itself (__saved_model_init_op) are left out.
function M.read(bytes)
  local whole = type(bytes) == 'string'
  local size = whole and #bytes or bytes.size
  if size == 0 or (whole and bytes:byte(1) or bytes:at(0)) ~= 8 then return nil end
  if not whole then bytes = core.tensor_bytes(bytes) end
  local model, out = wire.message(schemas, 'saved', bytes, broken).graphs[1], {}
  for _, e in ipairs(model and model.signatures or {}) do
    local name, s = e.key or '', e.value
    if s and not name:find '^__' then out[name] = { inputs = tensors_of(s.inputs), outputs = tensors_of(s.outputs), method = s.method } end
  end
  return out
end

--- The name of the one that is meant: `wanted`, else serving_default, else the only one; nil: which is not said.
function M.choose(signatures, wanted)
  local names = nest.keys(signatures or {})
  if wanted ~= nil and not (signatures and signatures[wanted]) then
    errors.bad('import_graph_def: there is no signature %s, %s', type(wanted) == 'string' and "'" .. wanted .. "'" or errors.describe(wanted),
               #names > 0 and "the model has '" .. table.concat(names, "', '") .. "'" or 'the graph has none: they are of a SavedModel in binary form')
  end
  return wanted or (signatures and signatures.serving_default and 'serving_default') or (#names == 1 and names[1] or nil)
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
