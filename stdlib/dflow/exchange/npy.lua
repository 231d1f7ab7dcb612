--- NumPy's files: .npy (one array) and .npz (a zip of them).
local core = require 'dflow.backend'
local wire = require 'dflow.exchange.wire'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local files = require 'dflow.exchange.file'
local tensor = require 'dflow.front.tensor'
local zip = require 'dflow.exchange.zip'

local M = {}

-- ---- bytes ------------------------------------------------------------------------------------------------------
local little, put = wire.number, wire.little
local write_file = files.write

local function read_file(path)
  if type(path) ~= 'string' then errors.bad('a path is expected, not %s', errors.describe(path)) end
  return core.tensor_bytes(core.read_file(files.path(path, 'read')))
end

-- ---- .npy ---------------------------------------------------------------------------------------------------------
local descr_of = { float32 = '<f4', float64 = '<f8', float16 = '<f2', int8 = '|i1', uint8 = '|u1', int16 = '<i2',
                   uint16 = '<u2', int32 = '<i4', uint32 = '<u4', int64 = '<i8', uint64 = '<u8', bool = '|b1',
                   complex64 = '<c8', complex128 = '<c16' }
local dtype_of = {}
for dtype, descr in pairs(descr_of) do dtype_of[descr:sub(2)] = dtype end

--- The bytes of a .npy file of the tensor.
local function encode(t)
  local dtype, shape = t.dtype, t.shape
  local descr, body = descr_of[dtype], nil
  if dtype == 'string' then
    local list, width = t:list(), 1
    for _, s in ipairs(list) do width = math.max(width, #s) end
    for i, s in ipairs(list) do list[i] = s .. ('\0'):rep(width - #s) end
    descr, body = '|S' .. width, table.concat(list)
  elseif not descr then
    errors.raise('unimplemented', "NumPy has no %s: save t:astype('float32')", dtype)
  else
    body = core.tensor_bytes(t)
  end
  local dims = {}
  for i, d in ipairs(shape) do dims[i] = ('%d,'):format(d) end
  local header = ("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }"):format(descr, table.concat(dims, ' '))
  header = header .. (' '):rep((64 - (#header + 11) % 64) % 64) .. '\n'
  return '\147NUMPY\1\0' .. put(#header, 2) .. header .. body
end

--- UTF-8 of a code point.
local function utf8_char(c)
  if c < 0x80 then return string.char(c) end
  if c < 0x800 then return string.char(0xC0 + math.floor(c / 64), 0x80 + c % 64) end
  if c < 0x10000 then return string.char(0xE0 + math.floor(c / 4096), 0x80 + math.floor(c / 64) % 64, 0x80 + c % 64) end
  return string.char(0xF0 + math.floor(c / 262144), 0x80 + math.floor(c / 4096) % 64, 0x80 + math.floor(c / 64) % 64,
                     0x80 + c % 64)
end

local function reversed(bytes, width)
  if width == 1 then return bytes end
  return (bytes:gsub(('.'):rep(width), string.reverse))
end

--- A tensor whose axes are in the opposite order of `t`'s.
local function transposed(t)
  local graph, session = require 'dflow.front.graph', require 'dflow.front.session'
  local g = graph.new_graph()
  local o = graph.with(g, function() return require('dflow.front.convert').to_output(t, nil, g):transpose() end)
  local s = session.new{ graph = g }
  local out = s:run(o)
  s:close()
  return out
end

--- The Tensor of the bytes of a .npy file.
local function decode(bytes, path)
  local function broken(text, ...)
    errors.raise('data_loss', '%s is no .npy file: ' .. text, path, ...)
  end
  if bytes:sub(1, 6) ~= '\147NUMPY' then broken('it does not begin with \\x93NUMPY') end
  if #bytes < 12 then broken('it ends in its header') end
  local major = bytes:byte(7)
  if major < 1 or major > 3 then broken('its version is %d', major) end
  local length_bytes = major == 1 and 2 or 4
  local length, start = little(bytes, 9, length_bytes), 9 + length_bytes
  local header = bytes:sub(start, start + length - 1)
  if #header < length then broken('it ends in its header') end
  local fields = header:match("'descr'%s*:%s*(%[.-%])%s*,?%s*['}]")
  if fields then
    errors.raise('unimplemented',
                 '%s is a .npy file of records, %s: save each field by itself, as in np.save(path, a[name])', path,
                   fields)
  end
  local descr = header:match("'descr'%s*:%s*'([^']*)'")
  local fortran = header:match("'fortran_order'%s*:%s*(%a+)")
  local dims = header:match("'shape'%s*:%s*%(([^)]*)%)")
  if not descr or not fortran or not dims then
    broken('its header does not say descr, fortran_order and shape')
  end
  local shape, size = {}, 1.0               -- a float: no product of dimensions wraps around
  for d in dims:gmatch('[^,%s]+') do
    local dim = d:match('^(%d+)L?$')
    if not dim then broken("its shape (%s) has the dimension '%s'", dims, d) end
    shape[#shape + 1] = tonumber(dim)
    size = size * tonumber(dim)
  end
  if #shape > 8 then broken('its rank is %d, the highest is 8', #shape) end
  local order, kind, width = descr:match('^([<>|=]?)(%a)(%d+)$')
  width = tonumber(width)
  local function unknown()
    errors.raise('unimplemented', '%s is a .npy file of elements of type %s, which no dtype here is', path, descr)
  end
  if not kind or not (dtype_of[kind .. width] or kind == 'S' or kind == 'U') then unknown() end
  if kind == 'U' then width = width * 4 end
  if width == 0 and size > 0 then broken('its elements are %s, which have no bytes', descr) end
  local body = bytes:sub(start + length)
  if #body ~= size * width then
    broken('%.0f elements of %d bytes are expected, %d bytes are there', size, width, #body)
  end
  local storage = shape
  if fortran == 'True' then
    storage = {}
    for i = 1, #shape do storage[i] = shape[#shape + 1 - i] end
  end
  local t
  local name = dtype_of[kind .. width]
  if kind == 'S' or kind == 'U' then
    local list = {}
    for i = 0, size - 1 do
      local one = body:sub(i * width + 1, (i + 1) * width)
      if kind == 'U' then
        if order == '>' then one = reversed(one, 4) end
        local out = {}
        for k = 1, width, 4 do
          local c = little(one, k, 4)
          if c > 0x10ffff then
            errors.raise('data_loss', '%s is a damaged .npy file: it has a character of number %.0f', path, c)
          end
          out[#out + 1] = c ~= 0 and utf8_char(c) or '\0'
        end
        one = table.concat(out)
      end
      list[i + 1] = (one:gsub('%z+$', ''))
    end
    t = core.tensor_new(dtypes.STRING, storage, #list > 0 and list or { '' })
  elseif name then
    if order == '>' then body = reversed(body, kind == 'c' and width / 2 or width) end
    t = core.tensor_from_bytes(dtypes.number[name], storage, body)
  else unknown() end
  if fortran == 'True' and #shape > 1 then t = transposed(t) end
  return t
end

local function to_tensor(t, what)
  if getmetatable(t) == tensor.Tensor then return t end
  if type(t) == 'table' and not errors.is_data(t) then
    errors.bad('%s takes a Tensor, not %s', what, errors.describe(t))
  end
  return tensor.from(t, nil, nil, what)
end

--- df.load_npy(path): the array as a Tensor.
function M.load_npy(path)
  return decode(read_file(path), path)
end

--- df.save_npy(path, t): t is a Tensor, or what df.tensor takes.
function M.save_npy(path, t)
  write_file(path, encode(to_tensor(t, 'save_npy')))
end

-- ---- .npz ---------------------------------------------------------------------------------------------------------
--- df.save_npz(path, {name = Tensor}): an uncompressed zip, as numpy.savez makes it.
function M.save_npz(path, list)
  if not errors.is_data(list) then
    errors.bad('save_npz takes a table {name = Tensor}, not %s', errors.describe(list))
  end
  local names = {}
  for name in pairs(list) do
    if type(name) ~= 'string' then errors.bad('save_npz: the name %s is no string', tostring(name)) end
    names[#names + 1] = name
  end
  table.sort(names)
  local parts, directory, at = {}, {}, 0
  for _, name in ipairs(names) do
    local data, file = encode(to_tensor(list[name], 'save_npz')), name .. '.npy'
    if at + #data > 2 ^ 32 - 2 ^ 20 then
      errors.raise('unimplemented', 'save_npz: more than 4 GB in one file')
    end
    local facts = put(0, 2) .. put(0, 2) .. put(0x21, 2) .. put(core.crc32(data), 4) .. put(#data, 4) .. put(#data, 4)
      .. put(#file, 2) .. put(0, 2)
    local head = 'PK\3\4' .. put(20, 2) .. put(0, 2) .. facts .. file
    parts[#parts + 1] = head
    parts[#parts + 1] = data
    directory[#directory + 1] = 'PK\1\2' .. put(20, 2) .. put(20, 2) .. put(0, 2) .. facts .. put(0, 2) .. put(0, 2)
      .. put(0, 2) .. put(0, 4)
      .. put(at, 4) .. file
    at = at + #head + #data
  end
  local central = table.concat(directory)
  parts[#parts + 1] = central .. 'PK\5\6' .. put(0, 4) .. put(#names, 2) .. put(#names, 2) .. put(#central, 4)
    .. put(at, 4) .. put(0, 2)
  write_file(path, table.concat(parts))
end

--- df.load_npz(path): {name = Tensor}; stored and deflated members.
function M.load_npz(path) return M.arrays(zip.open(path, '.npz')) end

--- The arrays of an opened .npz file.
function M.arrays(archive)
  local out = {}
  for _, name in ipairs(archive.names) do
    out[(name:gsub('%.npy$', ''))] = decode(archive.read(name), archive.path .. ':' .. name)
  end
  return out
end

return M
