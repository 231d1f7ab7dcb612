--- Zip archives, as .npz and .keras files are: their members are read one by one, each checked by its checksum.
local core = require 'dflow.backend'
local wire = require 'dflow.exchange.wire'
local errors = require 'dflow.front.errors'
local files = require 'dflow.exchange.file'

local M = {}
local little = wire.number

--- How many bytes a file of that size may unpack to, as runtime/base/budget.h has it.
local function budget(bytes)
  return math.max(100 * bytes, tonumber(os.getenv 'DFLOW_UNPACK_LIMIT' or '') or 2 ^ 30)
end

--- The members by the archive's directory: a list of {name, method, crc, packed, size, where}.
local function directory(bytes, broken)
  local last
  for at = #bytes - 21, math.max(1, #bytes - 66000), -1 do
    if bytes:sub(at, at + 3) == 'PK\5\6' then last = at break end
  end
  if not last then broken('it has no zip directory') end
  local count, at, list = little(bytes, last + 10, 2), little(bytes, last + 16, 4) + 1, {}
  for i = 1, count do
    if bytes:sub(at, at + 3) ~= 'PK\1\2' then broken('its directory is damaged') end
    local length, extra, comment = little(bytes, at + 28, 2), little(bytes, at + 30, 2), little(bytes, at + 32, 2)
    list[i] = { name = bytes:sub(at + 46, at + 45 + length), method = little(bytes, at + 10, 2),
                crc = little(bytes, at + 16, 4), packed = little(bytes, at + 20, 4), size = little(bytes, at + 24, 4),
                where = little(bytes, at + 42, 4) }
    at = at + 46 + length + extra + comment
  end
  return list
end

--- An archive: {path, names = in the order of its directory, read = function(name) -> the bytes of that member}.
-- @param kind  what it is, for messages: '.npz'
function M.open(path, kind)
  if type(path) ~= 'string' then errors.bad('a path is expected, not %s', errors.describe(path)) end
  local bytes = core.tensor_bytes(core.read_file(files.path(path, 'read')))
  local function broken(text, ...)
    errors.raise('data_loss', '%s is no %s file: ' .. text, path, kind, ...)
  end
  local archive, members, left = { path = path, names = {} }, {}, budget(#bytes)
  for i, member in ipairs(directory(bytes, broken)) do
    archive.names[i] = member.name
    members[member.name] = member
  end
  function archive.read(name)
    local m = members[name]
    local head = m.where + 1
    if bytes:sub(head, head + 3) ~= 'PK\3\4' then broken('the member %s is damaged', name) end
    local start = head + 30 + little(bytes, head + 26, 2) + little(bytes, head + 28, 2)
    local data = bytes:sub(start, start + m.packed - 1)
    if #data ~= m.packed then broken('the member %s ends early', name) end
    left = left - m.size
    if left < 0 then
      errors.raise('resource_exhausted',
                   '%s unpacks to more than %.0f bytes; DFLOW_UNPACK_LIMIT says how many are taken', path,
                   budget(#bytes))
    end
    if m.method == 8 then
      local ok, unpacked = pcall(core.inflate, data, m.size)
      if not ok and unpacked.code == 'data_loss' then broken('the member %s: %s', name, unpacked.message) end
      if not ok then error(unpacked, 0) end
      data = unpacked
    elseif m.method ~= 0 then
      errors.raise('unimplemented', '%s: the member %s is packed with method %d', path, name, m.method)
    end
    if core.crc32(data) ~= m.crc then broken('the checksum of the member %s is wrong', name) end
    return data
  end
  return archive
end

return M
