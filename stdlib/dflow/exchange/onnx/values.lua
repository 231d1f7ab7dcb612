--- Values of ONNX: sequences, and what their types say.
--
-- { list = Outputs } while its length is known, else { handle = TensorFlow's list of tensors, dtype = theirs }. A value
-- that is optional is a sequence of one or none, `optional` then.
local read = require 'dflow.exchange.onnx.read'

local M = {}
local Sequence = { __name = 'dflow.onnx.Sequence' }
Sequence.__index = Sequence
M.Sequence = Sequence
function M.sequence(list) return setmetatable({ list = list }, Sequence) end

--- The dtype of what a type message is of, of its elements where it is a sequence; nil: it is not said.
function M.dtype(type_message)
  while type_message and not type_message.tensor do
    type_message = (type_message.sequence or type_message.optional or {}).element
  end
  local t = type_message and type_message.tensor
  return t and read.dtype_of(t.d)
end

--- A shape as a list with -1; nil where even the rank is not known.
function M.shape(type_message)
  local t = type_message and type_message.tensor
  if not t or not t.shape then return nil end
  local shape = {}
  for i, dim in ipairs(t.shape.dims) do shape[i] = dim.value and dim.value >= 0 and dim.value or -1 end
  return shape
end

return M
