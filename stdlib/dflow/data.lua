--- df.data: readers of data sets, and batches of them. The door to dflow.data: tables of text (csv.lua), records and
-- lines (records.lua), pipelines (pipeline.lua, batch.lua).
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local files = require 'dflow.exchange.file'
local tensor = require 'dflow.front.tensor'
local nest = require 'dflow.front.nest'
local order = require 'dflow.data.order'

local M = {}

--- A file's bytes as a string; a gzip file comes unpacked.
function M.read(path)
  if type(path) ~= 'string' then errors.bad('read takes a path, not %s', errors.describe(path)) end
  return core.tensor_bytes(core.read_file(files.path(path, 'read')))
end

local function big_endian(bytes, at)
  local a, b, c, d = bytes:byte(at, at + 3)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

--- Reverses the bytes of each element.
local function swapped(bytes, size)
  return (bytes:gsub(('.'):rep(size), string.reverse))
end

local idx_types = {
  [0x08] = { 'uint8', 1 }, [0x09] = { 'int8', 1 }, [0x0B] = { 'int16', 2 }, [0x0C] = { 'int32', 4 },
  [0x0D] = { 'float32', 4 }, [0x0E] = { 'float64', 8 },
}

--- df.data.idx(path): the Tensor of an IDX file (MNIST's format), plain or gzip.
-- int16 files come as int32. What is wrong with a file is an error of code data_loss that names it.
function M.idx(path)
  local bytes = M.read(path)
  local function broken(text, ...)
    errors.raise('data_loss', '%s is no IDX file: ' .. text, path, ...)
  end
  if #bytes < 4 then broken('it has %d bytes', #bytes) end
  local zero1, zero2, kind, rank = bytes:byte(1, 4)
  local info = idx_types[kind]
  if zero1 ~= 0 or zero2 ~= 0 or not info then
    broken('it begins with %02x %02x %02x %02x', zero1, zero2, kind, rank)
  end
  if rank > 8 then broken('its rank is %d, the highest is 8', rank) end
  if #bytes < 4 + 4 * rank then broken('its header ends early') end
  local shape, size = {}, 1
  for i = 1, rank do
    shape[i] = big_endian(bytes, 1 + 4 * i)
    size = size * shape[i]
  end
  local name, width = info[1], info[2]
  local body = bytes:sub(5 + 4 * rank)
  if #body ~= size * width then
    broken('%s needs %d bytes of elements, it has %d', tensor.shape_text(name, shape), size * width, #body)
  end
  if width > 1 then body = swapped(body, width) end
  if name == 'int16' then
    local list = {}
    for i = 1, size do
      local low, high = body:byte(2 * i - 1, 2 * i)
      local v = high * 256 + low
      list[i] = v >= 32768 and v - 65536 or v
    end
    return (core.tensor_new(dtypes.INT32, shape, #list > 0 and list or { 0 }))
  end
  return core.tensor_from_bytes(dtypes.number[name], shape, body)
end

M.permutation = order.permutation

--- df.data.batches(tensors, size, {shuffle = true, seed =, drop_remainder = true, epochs = 1}): an iterator over
-- batches.
-- @param tensors  a Tensor, or a list of Tensors with the same number of rows
-- @return  each time: the number of the batch from 1, then a Tensor of `size` rows for each tensor
function M.batches(tensors, size, opts)
  opts = errors.options(opts, 'batches', { 'shuffle', 'seed', 'drop_remainder', 'epochs' })
  if getmetatable(tensors) == tensor.Tensor then tensors = { tensors } end
  if not nest.is_plain(tensors) or #tensors == 0 then
    errors.bad('batches takes a Tensor or a list of Tensors, not %s', errors.describe(tensors))
  end
  if type(size) ~= 'number' or size < 1 or not dtypes.is_whole(size) then
    errors.bad('batches: the size is a whole number from 1 up, not %s', errors.describe(size))
  end
  for _, key in ipairs{ 'shuffle', 'drop_remainder' } do errors.flag(opts[key], 'batches', key) end
  for key, least in pairs{ seed = -2 ^ 53, epochs = 1 } do
    local v = opts[key]
    if v ~= nil and (type(v) ~= 'number' or not dtypes.is_whole(v) or v < least) then
      errors.bad('batches: %s is a whole number%s, not %s', key, least == 1 and ' from 1 up' or '', errors.describe(v))
    end
  end
  local n
  for i, t in ipairs(tensors) do
    if getmetatable(t) ~= tensor.Tensor or t.rank < 1 then
      errors.bad('batches: element %d is %s, a Tensor with rows is expected', i, errors.describe(t))
    end
    n = n or t.shape[1]
    if t.shape[1] ~= n then errors.bad('batches: the tensors have %d and %d rows', n, t.shape[1]) end
  end
  local seed, epoch, number = opts.seed or os.time(), 1, 0
  local epochs, drop = opts.epochs or 1, opts.drop_remainder ~= false
  local rows, first
  local function start()
    first = 1
    if opts.shuffle == false then
      rows = {}
      for i = 1, n do rows[i] = i - 1 end
    else
      rows = M.permutation(n, seed + 7919 * (epoch - 1))
    end
  end
  start()
  return function()
    while true do
      local left = n - first + 1
      local count = left >= size and size or (not drop and left > 0 and left or 0)
      if count > 0 then
        local out = {}
        for i, t in ipairs(tensors) do out[i] = core.tensor_rows(t, rows, first, count) end
        first, number = first + count, number + 1
        return number, (table.unpack or unpack)(out, 1, #tensors)
      end
      if epoch >= epochs or n == 0 then return nil end
      epoch = epoch + 1
      start()
    end
  end
end

for _, room in ipairs{ 'csv', 'records', 'images' } do
  for name, v in pairs(require('dflow.data.' .. room)) do M[name] = v end
end
M.frame, M.masked, M.record_at = nil, nil, nil          -- what the format is made of
M.pipeline = require('dflow.data.pipeline').pipeline

return errors.strict(M, 'df.data')
