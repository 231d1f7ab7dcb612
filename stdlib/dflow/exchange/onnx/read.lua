--- ONNX's messages out of bytes: what onnx.proto's fields are called stands here and nowhere else (proto.lua writes
-- them).
--
-- Numbers of 64 bits that Lua may not hold are kept as bytes where they are a tensor's.
local core = require 'dflow.backend'
local wire = require 'dflow.exchange.wire'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local proto = require 'dflow.exchange.onnx.proto'

local M = {}
local concat = table.concat

--- ONNX's dtype numbers to dflow's.
M.dtype = {}
for ours, theirs in pairs(proto.dtype) do M.dtype[theirs] = ours end

-- ---- the wire format --------------------------------------------------------------------------------------------
local function broken(text, ...) errors.raise('data_loss', 'this is no ONNX file, or a damaged one: ' .. text, ...) end

--- What each field is, by message: wire.message. int8* and raw* are elements of tensors as bytes.
local schemas = {}

schemas.model = { [1] = { 'ir_version', 'int' }, [2] = { 'producer', 'bytes' }, [7] = { 'graph', 'message', 'graph' },
                  [8] = { 'opsets', 'message*', 'opset' }, [25] = { 'functions', 'message*', 'func' } }
schemas.opset = { [1] = { 'domain', 'bytes' }, [2] = { 'version', 'int' } }
schemas.graph = { [1] = { 'nodes', 'message*', 'node' }, [2] = { 'name', 'bytes' },
                  [5] = { 'initializers', 'message*', 'tensor' },
                  [11] = { 'inputs', 'message*', 'value' }, [12] = { 'outputs', 'message*', 'value' },
                  [13] = { 'values', 'message*', 'value' },
                  [15] = { 'sparse', 'raw*' } }
schemas.node = { [1] = { 'inputs', 'bytes*' }, [2] = { 'outputs', 'bytes*' }, [3] = { 'name', 'bytes' },
                 [4] = { 'op', 'bytes' },
                 [5] = { 'attributes', 'message*', 'attribute' }, [7] = { 'domain', 'bytes' } }
schemas.attribute = { [1] = { 'name', 'bytes' }, [2] = { 'f', 'float' }, [3] = { 'i', 'int' }, [4] = { 's', 'bytes' },
                      [5] = { 't', 'message', 'tensor' },
                      [6] = { 'g', 'message', 'graph' }, [7] = { 'floats', 'float*' }, [8] = { 'ints', 'int*' },
                      [9] = { 'strings', 'bytes*' },
                      [14] = { 'tp', 'message', 'type' }, [20] = { 'type', 'int' }, [21] = { 'ref', 'bytes' },
                      [22] = { 'sparse', 'bytes' } }
schemas.tensor = { [1] = { 'dims', 'int*' }, [2] = { 'd', 'int' }, [4] = { 'floats', 'raw*' },
                   [5] = { 'int32s', 'int*' }, [6] = { 'strings', 'bytes*' },
                   [7] = { 'int64s', 'int8*' }, [8] = { 'name', 'bytes' }, [9] = { 'raw', 'bytes' },
                   [10] = { 'doubles', 'raw*' },
                   [11] = { 'uint64s', 'int8*' }, [13] = { 'external', 'raw*' }, [14] = { 'location', 'int' } }
schemas.value = { [1] = { 'name', 'bytes' }, [2] = { 'type', 'message', 'type' } }
schemas.type = { [1] = { 'tensor', 'message', 'tensor_type' }, [4] = { 'sequence', 'message', 'sequence_type' },
                 [9] = { 'optional', 'message', 'sequence_type' } }
schemas.tensor_type = { [1] = { 'd', 'int' }, [2] = { 'shape', 'message', 'shape' } }
schemas.sequence_type = { [1] = { 'element', 'message', 'type' } }
schemas.shape = { [1] = { 'dims', 'message*', 'dim' } }
schemas.dim = { [1] = { 'value', 'int' }, [2] = { 'name', 'bytes' } }
schemas.func = { [1] = { 'name', 'bytes' }, [4] = { 'inputs', 'bytes*' }, [5] = { 'outputs', 'bytes*' },
                 [6] = { 'attributes', 'bytes*' },
                 [7] = { 'nodes', 'message*', 'node' }, [9] = { 'opsets', 'message*', 'opset' },
                 [10] = { 'domain', 'bytes' } }
schemas.optional = { [1] = { 'name', 'bytes' }, [2] = { 'kind', 'int' }, [3] = { 'tensor', 'message', 'tensor' },
                     [5] = { 'sequence', 'message', 'sequence' } }
schemas.sequence = { [1] = { 'name', 'bytes' }, [2] = { 'kind', 'int' }, [3] = { 'tensors', 'message*', 'tensor' } }

--- A message of that kind: 'model', 'tensor', …
function M.message(kind, bytes) return wire.message(schemas, kind, bytes, broken) end

-- ---- tensors ----------------------------------------------------------------------------------------------------
--- Whole numbers of `width` bytes each, little-endian.
local function little(list, width)
  local out = {}
  for i, v in ipairs(list) do out[i] = wire.little(v, width) end
  return concat(out)
end

local widths = { float32 = 4, float64 = 8, float16 = 2, bfloat16 = 2, int8 = 1, uint8 = 1, int16 = 2, uint16 = 2,
                 int32 = 4, uint32 = 4, int64 = 8,
                 uint64 = 8, bool = 1 }

--- dflow's dtype of that name that values of the ONNX type are held in; nil: there is none.
function M.dtype_of(kind)
  local narrow = require('dflow.exchange.onnx.narrow').kinds[kind or 0]
  return narrow and narrow.carrier or M.dtype[kind or 0] and dtypes.name[M.dtype[kind]]
end

--- A tensor of a type that dflow has not (narrow.lua).
local function narrow_tensor(t, size)
  local narrow = require 'dflow.exchange.onnx.narrow'
  local bytes = t.raw and t.raw ~= '' and t.raw or little(t.int32s, 1)
  return require('dflow').tensor(narrow.numbers(t.d, bytes, size), narrow.kinds[t.d].carrier, t.dims)
end

--- The Tensor that a TensorProto is.
function M.tensor(t, what)
  local d = M.dtype[t.d or 0] or M.dtype_of(t.d) and dtypes.number[M.dtype_of(t.d)]
  if not d or dtypes.is_complex(d) then
    errors.raise('unimplemented', '%s is a tensor of the ONNX type %d, which dflow has not', what, t.d or 0)
  end
  if #t.external > 0 or t.location == 1 then
    errors.raise('unimplemented', '%s lies in another file, and an imported graph reads no files but its own', what)
  end
  local size = 1.0                                -- a float: no product wraps around
  for _, dim in ipairs(t.dims) do
    if dim < 0 then errors.raise('data_loss', '%s has the dimension %d', what, dim) end
    size = size * dim
  end
  if not M.dtype[t.d] then return narrow_tensor(t, size) end
  local width = widths[dtypes.name[d]]
  if dtypes.name[d] == 'string' then
    if #t.strings ~= size then
      errors.raise('data_loss', '%s has %d strings, %.0f are expected', what, #t.strings, size)
    end
    return core.tensor_new(d, t.dims, size > 0 and t.strings or { '' })
  end
  local bytes = t.raw
  if not bytes or bytes == '' then
    local name = dtypes.name[d]
    bytes = name == 'float32' and concat(t.floats) or name == 'float64' and concat(t.doubles) or name == 'int64'
      and concat(t.int64s)
      or name == 'uint64' and concat(t.uint64s) or nil
    if name == 'uint32' then
      local parts = {}
      for i, v in ipairs(t.uint64s) do parts[i] = v:sub(1, 4) end
      bytes = concat(parts)
    end
    bytes = bytes or little(t.int32s, width)
  end
  if #bytes ~= size * width then
    errors.raise('data_loss', '%s has %d bytes, %.0f elements of %d bytes are expected', what, #bytes, size, width)
  end
  return core.tensor_from_bytes(d, t.dims, bytes)
end

return M
