--- XLA's HloModuleProto out of bytes: the field numbers of hlo.proto and xla_data.proto stand here and nowhere else.
local core = require 'dflow.backend'
local wire = require 'dflow.exchange.wire'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local narrow = require 'dflow.exchange.onnx.narrow'

local M = {}
local concat = table.concat

local function broken(text, ...) errors.raise('data_loss', 'this is no HLO module, or a damaged one: ' .. text, ...) end
M.broken = broken

-- XLA's PrimitiveType.
M.TUPLE, M.TOKEN = 13, 17
M.dtype = { [1] = 'bool', [2] = 'int8', [3] = 'int16', [4] = 'int32', [5] = 'int64', [6] = 'uint8', [7] = 'uint16',
            [8] = 'uint32', [9] = 'uint64', [10] = 'float16', [11] = 'float32', [12] = 'float64', [15] = 'complex64',
            [16] = 'bfloat16', [18] = 'complex128' }
-- Types that dflow has not, and what onnx/narrow.lua calls them: floats of 8 bits, whole numbers of 4 and 2.
M.narrow = { [19] = 19, [20] = 17, [21] = 22, [22] = 21, [24] = 20, [25] = 18, [26] = 26, [27] = 25 }

local schemas = {}
schemas.module = { [1] = { 'name', 'bytes' }, [2] = { 'entry_name', 'bytes' },
                   [3] = { 'computations', 'message*', 'computation' },
                   [6] = { 'entry_id', 'int' } }
schemas.computation = { [1] = { 'name', 'bytes' }, [2] = { 'instructions', 'message*', 'instruction' },
                        [5] = { 'id', 'int' }, [6] = { 'root', 'int' } }
schemas.instruction = {
  [1] = { 'name', 'bytes' }, [2] = { 'opcode', 'bytes' }, [3] = { 'shape', 'message', 'shape' },
  [8] = { 'literal', 'message', 'literal' },
  [9] = { 'parameter', 'int' }, [13] = { 'tuple_index', 'int' }, [14] = { 'dimensions', 'int*' },
  [15] = { 'window', 'message', 'window' },
  [16] = { 'convolution', 'message', 'convolution' }, [17] = { 'slices', 'message*', 'slice' },
  [18] = { 'exponent_bits', 'int' },
  [19] = { 'mantissa_bits', 'int' }, [20] = { 'slice_sizes', 'int*' }, [21] = { 'padding', 'message', 'padding' },
  [28] = { 'target', 'bytes' },
  [30] = { 'dot', 'message', 'dot' }, [31] = { 'fft_type', 'int' }, [32] = { 'fft_length', 'int*' },
  [33] = { 'gather', 'message', 'gather' },
  [34] = { 'gather_sizes', 'int*' }, [35] = { 'id', 'int' }, [36] = { 'operands', 'int*' }, [38] = { 'called', 'int*' },
  [43] = { 'config', 'bytes' },
  [48] = { 'scatter', 'message', 'scatter' }, [50] = { 'feature_groups', 'int' }, [58] = { 'batch_groups', 'int' },
  [60] = { 'stable', 'int' },
  [59] = { 'triangular', 'message', 'triangular' }, [62] = { 'cholesky', 'message', 'cholesky' },
  [63] = { 'direction', 'bytes' },
  [72] = { 'comparison', 'bytes' }, [81] = { 'k', 'int' }, [85] = { 'largest', 'int' } }
schemas.shape = { [2] = { 'type', 'int' }, [3] = { 'dims', 'int*' }, [4] = { 'parts', 'message*', 'shape' },
                  [6] = { 'dynamic', 'int*' } }
schemas.literal = { [1] = { 'shape', 'message', 'shape' }, [2] = { 'bool', 'int*' }, [3] = { 'uint8', 'bytes' },
                    [4] = { 'int32', 'int8*' },
                    [5] = { 'int64', 'int8*' }, [6] = { 'uint32', 'int8*' }, [7] = { 'uint64', 'int8*' },
                    [8] = { 'float32', 'raw*' },
                    [9] = { 'float64', 'raw*' }, [10] = { 'parts', 'message*', 'literal' },
                    [11] = { 'float16', 'bytes' },
                    [12] = { 'complex64', 'raw*' }, [13] = { 'bfloat16', 'bytes' }, [15] = { 'int8', 'bytes' },
                    [16] = { 'uint16', 'bytes' },
                    [17] = { 'int16', 'bytes' }, [18] = { 'complex128', 'raw*' } }
for number in pairs(M.narrow) do schemas.literal[number] = { 'narrow', 'bytes' } end
schemas.slice = { [1] = { 'start', 'int' }, [2] = { 'limit', 'int' }, [3] = { 'stride', 'int' } }
schemas.padding = { [1] = { 'dims', 'message*', 'padding_dim' } }
schemas.padding_dim = { [1] = { 'low', 'int' }, [2] = { 'high', 'int' }, [3] = { 'interior', 'int' } }
schemas.window = { [1] = { 'dims', 'message*', 'window_dim' } }
schemas.window_dim = { [1] = { 'size', 'int' }, [2] = { 'stride', 'int' }, [3] = { 'low', 'int' },
                       [4] = { 'high', 'int' }, [5] = { 'dilation', 'int' },
                       [6] = { 'base', 'int' }, [7] = { 'reversed', 'int' } }
schemas.dot = { [1] = { 'lhs', 'int*' }, [2] = { 'rhs', 'int*' }, [3] = { 'lhs_batch', 'int*' },
                [4] = { 'rhs_batch', 'int*' } }
schemas.gather = { [1] = { 'offset', 'int*' }, [2] = { 'collapsed', 'int*' }, [3] = { 'map', 'int*' },
                   [4] = { 'vector', 'int' },
                   [5] = { 'batching', 'int*' }, [6] = { 'index_batching', 'int*' } }
schemas.scatter = { [1] = { 'offset', 'int*' }, [2] = { 'collapsed', 'int*' }, [3] = { 'map', 'int*' },
                    [4] = { 'vector', 'int' },
                    [5] = { 'batching', 'int*' }, [6] = { 'index_batching', 'int*' } }
schemas.convolution = { [3] = { 'kernel_in', 'int' }, [4] = { 'kernel_out', 'int' }, [6] = { 'kernel', 'int*' },
                        [7] = { 'batch', 'int' },
                        [8] = { 'feature', 'int' }, [9] = { 'out_batch', 'int' }, [10] = { 'out_feature', 'int' },
                        [11] = { 'input', 'int*' },
                        [12] = { 'output', 'int*' } }
schemas.triangular = { [1] = { 'left', 'int' }, [2] = { 'lower', 'int' }, [3] = { 'unit', 'int' },
                       [4] = { 'transpose', 'int' } }
schemas.cholesky = { [1] = { 'lower', 'int' } }

--- The bytes as they were before gzip; as they are where they are not packed.
local function unpacked(bytes)
  if bytes:sub(1, 3) ~= '\31\139\8' then return bytes end
  local flags, at = bytes:byte(4) or 0, 11
  local function has(bit) return math.floor(flags / bit) % 2 == 1 end
  if has(4) then at = at + 2 + wire.number(bytes .. '\0\0', at, 2) end
  for _, bit in ipairs{ 8, 16 } do if has(bit) then at = (bytes:find('\0', at, true) or #bytes) + 1 end end
  if has(2) then at = at + 2 end
  if at + 8 > #bytes then broken('the gzip file is cut') end
  return core.inflate(bytes:sub(at, -9), wire.number(bytes, #bytes - 3, 4))
end

--- The module: computations by number, each with its instructions by number and its root.
function M.module(bytes)
  local m = wire.message(schemas, 'module', unpacked(bytes), broken)
  if #m.computations == 0 then broken('it holds no computation') end
  m.by_id = {}
  for _, c in ipairs(m.computations) do
    c.name = c.name or '?'
    if m.by_id[c.id or 0] then broken('two computations have the number %d', c.id or 0) end
    m.by_id[c.id or 0] = c
    c.by_id, c.parameters = {}, {}
    for i, n in ipairs(c.instructions) do
      n.name, n.opcode, n.at = n.name or '?', n.opcode or '?', i
      if not n.shape then broken('the instruction %s has no shape', n.name) end
      if c.by_id[n.id or 0] then broken('two instructions of %s have the number %d', c.name, n.id or 0) end
      for _, id in ipairs(n.operands) do
        if not c.by_id[id] then
          broken('the instruction %s takes the instruction %d, which does not come before it', n.name, id)
        end
      end
      c.by_id[n.id or 0] = n
      if n.opcode == 'parameter' then
        local k = n.parameter or 0
        if c.parameters[k] then broken('two parameters of %s have the number %d', c.name, k) end
        c.parameters[k] = n
      end
    end
    c.root = c.by_id[c.root or 0] or broken('the root of %s is not among its instructions', c.name)
    c.count = 0
    while c.parameters[c.count] do c.count = c.count + 1 end
  end
  m.entry = m.by_id[m.entry_id or 0] or broken('the entry computation %d is not there', m.entry_id or 0)
  return m
end

--- The dtype of an array's shape; raises where dflow has none. `what` names the instruction. The second result is the
-- kind of numbers that it holds, where the type is a narrow one.
function M.element(shape, what)
  if shape.type == M.TUPLE then broken('%s is a tuple, an array is expected', what) end
  local kind = M.narrow[shape.type or 0]
  local d = M.dtype[shape.type or 0] or kind and narrow.kinds[kind].carrier
  if not d then
    errors.raise('unimplemented', '%s is of the XLA type %d, which dflow has not', what, shape.type or 0)
  end
  for i, dim in ipairs(shape.dims) do
    if dim < 0 then broken('%s has the dimension %d', what, dim) end
    if (shape.dynamic[i] or 0) ~= 0 then
      errors.raise('unimplemented', '%s has a dynamic dimension; export it with fixed shapes', what)
    end
  end
  return d, kind
end

local widths = { bool = 1, int8 = 1, uint8 = 1, int16 = 2, uint16 = 2, float16 = 2, bfloat16 = 2, int32 = 4, uint32 = 4,
                 float32 = 4, int64 = 8, uint64 = 8, float64 = 8, complex64 = 8, complex128 = 16 }

--- The Tensor that a LiteralProto of that shape is.
function M.literal(literal, shape, what)
  local d, kind = M.element(shape, what)
  local size, bytes = 1.0, literal and literal[kind and 'narrow' or d] or ''
  for _, dim in ipairs(shape.dims) do size = size * dim end
  if kind then return require('dflow').tensor(narrow.numbers(kind, bytes, size, true), d, shape.dims) end
  if d == 'bool' then
    local out = {}
    for i, v in ipairs(bytes == '' and {} or bytes) do out[i] = v ~= 0 and '\1' or '\0' end
    bytes = concat(out)
  elseif type(bytes) == 'table' then
    if d == 'int32' or d == 'uint32' then for i, v in ipairs(bytes) do bytes[i] = v:sub(1, 4) end end
    bytes = concat(bytes)
  end
  if #bytes ~= size * widths[d] then
    broken('%s has %d bytes, %.0f elements of %d bytes are expected', what, #bytes, size, widths[d])
  end
  return core.tensor_from_bytes(dtypes.number[d], shape.dims, bytes)
end

return M
