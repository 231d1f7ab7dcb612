--- Safetensors: named tensors in one file. Eight bytes (the header's length, little endian), the header, which is JSON:
-- {"name":
-- {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, …, "__metadata__": {string: string}}, and the
-- tensors' bytes.
--
-- The reader is strict, as the format asks: offsets follow each other without a gap to the end of the file, each is as
-- long as dtype and shape say, a name comes once. What a file says of itself costs nothing before it was found true.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local files = require 'dflow.exchange.file'
local json = require 'dflow.exchange.json'
local wire = require 'dflow.exchange.wire'

local M = {}
local MOST_HEADER = 100 * 2 ^ 20          -- the format's own limit

local code_of = { float64 = 'F64', float32 = 'F32', float16 = 'F16', bfloat16 = 'BF16', int64 = 'I64', int32 = 'I32',
                  int16 = 'I16', int8 = 'I8', uint64 = 'U64', uint32 = 'U32', uint16 = 'U16', uint8 = 'U8',
                  bool = 'BOOL', complex64 = 'C64' }
local dtype_of = {}
for name, code in pairs(code_of) do dtype_of[code] = name end
local width_of = { F64 = 8, F32 = 4, F16 = 2, BF16 = 2, I64 = 8, I32 = 4, I16 = 2, I8 = 1, U64 = 8, U32 = 4, U16 = 2,
                   U8 = 1, BOOL = 1, C64 = 8 }

--- Bytes of an element, or an error that names the tensor.
function M.width(dtype, name)
  local code = code_of[dtype]
  if not code then errors.raise('unimplemented', "safetensors have no %s: '%s' cannot be saved", dtype, name) end
  return width_of[code]
end

-- ---- writing --------------------------------------------------------------------------------------------------------
--- Writes {name = Tensor} to a file, the widest dtypes first, so that each tensor lies at a multiple of its width.
-- @param metadata  {string = string} or nil
function M.write(path, list, metadata)
  local start, names = M.layout(list, metadata)
  files.with(path, function(f)
    f:write(start)
    for _, name in ipairs(names) do f:write(list[name]) end
  end)
end

--- What such a file begins with, and the names of its tensors in the order in which they follow.
function M.layout(list, metadata)
  local names = {}
  for name, t in pairs(list) do
    M.width(t.dtype, name)
    if name == '__metadata__' then errors.bad("safetensors: no tensor can have the name '__metadata__'") end
    names[#names + 1] = name
  end
  table.sort(names, function(a, b)
    local wa, wb = M.width(list[a].dtype, a), M.width(list[b].dtype, b)
    if wa ~= wb then return wa > wb end
    return a < b
  end)
  local parts, at = {}, 0
  if metadata and next(metadata) then
    local keys, pairs_list = {}, {}
    for key in pairs(metadata) do
      if type(key) ~= 'string' then
        errors.bad('safetensors: the keys of metadata are strings, this is %s', errors.describe(key))
      end
      keys[#keys + 1] = key
    end
    table.sort(keys)
    for i, key in ipairs(keys) do pairs_list[i] = json.quote(key) .. ':' .. json.quote(tostring(metadata[key])) end
    parts[1] = '"__metadata__":{' .. table.concat(pairs_list, ',') .. '}'
  end
  for _, name in ipairs(names) do
    local t, dims = list[name], {}
    for i, d in ipairs(t.shape) do dims[i] = ('%d'):format(d) end
    local size = t.size * M.width(t.dtype, name)
    parts[#parts + 1] = ('%s:{"dtype":"%s","shape":[%s],"data_offsets":[%.0f,%.0f]}'):format(json.quote(name),
        code_of[t.dtype], table.concat(dims, ','),
                                                                                          at, at + size)
    at = at + size
  end
  local header = '{' .. table.concat(parts, ',') .. '}'
  header = header .. (' '):rep(-#header % 8)
  return wire.little(#header, 8) .. header, names
end

-- ---- reading --------------------------------------------------------------------------------------------------------
local function whole(v) return type(v) == 'number' and v >= 0 and v < 2 ^ 53 and v == math.floor(v) end

--- What is in a file: {names, entries = {name = {dtype, shape, offset}}, metadata}. Nothing of the tensors is read.
function M.open(path)
  local function broken(text, ...) errors.raise('data_loss', '%s is no safetensors file: ' .. text, path, ...) end
  local size = core.file_size(files.path(path, 'restore'))
  if size < 8 then broken('it has %d bytes', size) end
  local head = core.tensor_bytes(core.file_read(path, 0, dtypes.number.uint8, { 8 }))
  local length = wire.number(head, 1, 8)
  if length > MOST_HEADER or length > size - 8 or length < 2 then
    broken('its header would have %.0f bytes, the file has %d', length, size)
  end
  local text = core.tensor_bytes(core.file_read(path, 8, dtypes.number.uint8, { length }))
  local header, what, where = json.read(text, true)
  if type(header) ~= 'table' or not header[0] then
    broken('its header is no JSON object: %s at byte %d', what or 'another value', (where or 1) + 7)
  end
  local out = { path = path, names = {}, entries = {}, metadata = {} }
  local list = {}
  for _, name in ipairs(header[0]) do
    local e = header[name]
    if name == '__metadata__' then
      if type(e) ~= 'table' or not e[0] then broken('its __metadata__ is no object') end
      for key, v in pairs(e) do
        if key ~= 0 then out.metadata[key] = v end
      end
    else
      local width = type(e) == 'table' and width_of[e.dtype]
      local at = type(e) == 'table' and e.data_offsets
      if not width then
        if type(e) == 'table' and type(e.dtype) == 'string' then
          errors.raise('unimplemented', "%s: '%s' holds elements of type %s", path, name, e.dtype)
        end
        broken("it does not say the dtype of '%s'", name)
      end
      if type(e.shape) ~= 'table' or e.shape == json.null or e.shape[0] or type(at) ~= 'table' or not whole(at[1])
        or not whole(at[2]) or #at ~= 2 then
        broken("it does not say the shape and data_offsets of '%s'", name)
      end
      local elements = 1.0                        -- a float: no product wraps around
      if #e.shape > 8 then broken("'%s' has rank %d, the highest is 8", name, #e.shape) end
      for _, d in ipairs(e.shape) do
        if not whole(d) then broken("a dimension of '%s' is %s", name, tostring(d)) end
        elements = elements * d
      end
      if at[2] - at[1] ~= elements * width then
        broken("'%s' is %s, which has %.0f bytes, but lies from %.0f to %.0f", name,
               tensor.shape_text(dtype_of[e.dtype], e.shape), elements * width, at[1], at[2])
      end
      e[0] = nil
      list[#list + 1] = { name = name, first = at[1], last = at[2] }
      out.names[#out.names + 1] = name
      out.entries[name] = { dtype = dtype_of[e.dtype], shape = e.shape, offset = 8 + length + at[1] }
    end
  end
  table.sort(list, function(a, b)
    if a.first ~= b.first then return a.first < b.first end
    return a.last < b.last
  end)
  local at = 0
  for _, e in ipairs(list) do
    if e.first ~= at then broken("'%s' begins at %.0f of the data, %.0f is expected", e.name, e.first, at) end
    at = e.last
  end
  if 8 + length + at ~= size then broken('its tensors end at byte %.0f, the file at %d', 8 + length + at, size) end
  return out
end

--- A tensor of an opened file.
function M.tensor(file, name)
  local e = file.entries[name]
  return core.file_read(file.path, e.offset, dtypes.number[e.dtype], e.shape)
end

--- All of a file: {name = Tensor}, and its metadata.
function M.read(path)
  local file, out = M.open(path), {}
  for _, name in ipairs(file.names) do out[name] = M.tensor(file, name) end
  return out, file.metadata
end

--- df.load_safetensors(path): {name = Tensor}, and the file's metadata.
M.load_safetensors = M.read

--- df.save_safetensors(path, {name = Tensor}, metadata?)
function M.save_safetensors(path, list, metadata)
  if not errors.is_data(list) then
    errors.bad('save_safetensors takes a table {name = Tensor}, not %s', errors.describe(list))
  end
  if metadata ~= nil and not errors.is_data(metadata) then
    errors.bad('save_safetensors: metadata is a table {string = string}, not %s', errors.describe(metadata))
  end
  local tensors = {}
  for name, t in pairs(list) do
    if type(name) ~= 'string' then errors.bad('save_safetensors: the name %s is no string', tostring(name)) end
    if getmetatable(t) ~= tensor.Tensor and type(t) == 'table' and not errors.is_data(t) then
      errors.bad('save_safetensors: %s is %s, a Tensor is expected', name, errors.describe(t))
    end
    tensors[name] = getmetatable(t) == tensor.Tensor and t or tensor.from(t, nil, nil, 'save_safetensors')
  end
  M.write(path, tensors, metadata)
end

return M
