--- Records one after another: TFRecord files and lines of text, as sources of pipelines and iterators.
local core = require 'dflow.backend'
local wire = require 'dflow.exchange.wire'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local files = require 'dflow.exchange.file'

local M = {}
local Source = { __name = 'dflow.Source' }
Source.__tostring = function(s) return ('Source of %s'):format(s.what) end

local function one_by_one(s, key)
  if key == 'pull' or key == 'path' then return nil end
  errors.bad('%s gives its records one after another, and has no %s: for record in source do … end, or '
             .. 'df.data.pipeline(source)', s.what,
             type(key) == 'number' and 'elements' or "field or method '" .. tostring(key) .. "'")
end
Source.__index = one_by_one
Source.__len = function(s) return one_by_one(s, 0) end

--- A source is called for each record, as an iterator is, and opened anew by a pipeline.
Source.__call = function(s)
  s.pull = s.pull or s.open()
  return s.pull()
end

local function source(what, open) return setmetatable({ what = what, open = open }, Source) end

local function paths_of(path, what)
  local list = type(path) == 'table' and errors.is_data(path) and path or { path }
  if #list == 0 then errors.bad('%s: the list of paths is empty', what) end
  for _, p in ipairs(list) do files.path(p, what) end
  return list
end

--- TensorFlow's mask of a checksum: rotated by 15 bits, so that a checksum of checksums is no fixed point.
function M.masked(crc)
  local low = crc % 32768
  return ((crc - low) / 32768 + low * 131072 + 0xa282ead8) % 4294967296
end

--- The record at byte `at`: its data and the byte behind it. Else nil and what is wrong, or nil, nil and how many bytes
-- it needs: 12 to know.
function M.record_at(bytes, at)
  if #bytes - at + 1 < 12 then return nil, nil, 12 end
  local length = wire.number(bytes, at, 8)
  if M.masked(core.crc32c(bytes:sub(at, at + 7))) ~= wire.number(bytes, at + 8, 4) then
    return nil, 'the checksum of its length is wrong'
  end
  if length > #bytes - at - 15 then return nil, nil, length + 16 end
  local data = bytes:sub(at + 12, at + 11 + length)
  if M.masked(core.crc32c(data)) ~= wire.number(bytes, at + 12 + length, 4) then
    return nil, 'the checksum of its data is wrong'
  end
  return data, at + 16 + length
end

--- df.data.tfrecord(path): the records of a TFRecord file (or of a list of them), plain or gzip, as strings: call it
--- until nil, or give it to df.data.pipeline. Both checksums of a record are compared; what is wrong is an error of
-- code data_loss that names file, record and byte.
function M.tfrecord(path)
  local list = paths_of(path, 'tfrecord')
  return source('tfrecord', function()
    local file, bytes, at, number = 0, '', 1, 0
    return function()
      while at > #bytes do
        file = file + 1
        if not list[file] then return nil end
        bytes, at, number = core.tensor_bytes(core.read_file(list[file])), 1, 0
      end
      local function broken(text, ...)
        errors.raise('data_loss', '%s: record %d, at byte %d: ' .. text, list[file], number, at - 1, ...)
      end
      local data, after, needs = M.record_at(bytes, at)
      if needs == 12 then broken 'the file ends in its header' end
      if needs then broken('it has %.0f bytes, the file ends after %d', needs - 16, math.max(0, #bytes - at - 15)) end
      if not data then broken(after) end
      at, number = after, number + 1
      return data
    end
  end)
end

--- A record as it lies in a file.
function M.frame(data)
  local head = wire.little(#data, 8)
  return head .. wire.little(M.masked(core.crc32c(head)), 4) .. data .. wire.little(M.masked(core.crc32c(data)), 4)
end

--- df.data.write_tfrecord(path, {string, …}): the file is there whole or not at all.
function M.write_tfrecord(path, list)
  if not errors.is_data(list) then
    errors.bad('write_tfrecord takes a list of strings, not %s', errors.describe(list))
  end
  files.with(path, function(f)
    for i, data in ipairs(list) do
      if type(data) ~= 'string' then
        errors.bad('write_tfrecord: record %d is %s, a string is expected', i, errors.describe(data))
      end
      f:write(M.frame(data))
    end
  end, 'write_tfrecord')
end

--- df.data.text(path): the lines of a file (or of a list of them), plain or gzip, without their ends.
function M.text(path)
  local list = paths_of(path, 'text')
  return source('text', function()
    local file, bytes, at = 0, '', 1
    return function()
      while at > #bytes do
        file = file + 1
        if not list[file] then return nil end
        bytes, at = core.tensor_bytes(core.read_file(list[file])), 1
      end
      local stop = bytes:find('\n', at, true) or #bytes + 1
      local line = bytes:sub(at, stop - 1)
      at = stop + 1
      return (line:gsub('\r$', ''))
    end
  end)
end

-- ---- tf.train.Example -----------------------------------------------------------------------------------------------
local function broken(text, ...) errors.raise('data_loss', 'the record is no tf.train.Example: ' .. text, ...) end

--- Calls fn(field, value) for each field of a message: numbers for varints, strings for what has a length.
local function fields(bytes, fn)
  if type(bytes) ~= 'string' then broken('found a number where a message is expected') end
  wire.fields(bytes, 1, #bytes, broken, function(field, _, start, stop, v) fn(field, v or bytes:sub(start, stop)) end)
end

local kinds = { 'string', 'float32', 'int64' }     -- a Feature's fields: bytes_list, float_list, int64_list

local function feature_of(bytes)
  local result
  fields(bytes, function(kind, list)
    if type(list) ~= 'string' or not kinds[kind] then return end
    local values = {}
    fields(list, function(field, v)
      if field ~= 1 then return end
      if kind == 3 and type(v) == 'string' then
        local at = 1
        while at <= #v do values[#values + 1], at = wire.read_varint(v, at, #v, broken) end
      else
        values[#values + 1] = v
      end
    end)
    if kind == 2 then
      local data = table.concat(values)
      if #data % 4 ~= 0 then broken('a float is cut at byte %d', #data - 1) end
      result = core.tensor_from_bytes(dtypes.number.float32, { #data / 4 }, data)
    else
      result = core.tensor_new(dtypes.number[kinds[kind]], { #values }, #values > 0 and values
                               or { kind == 3 and 0 or '' })
    end
  end)
  return result
end

--- df.data.example(bytes): the features of a tf.train.Example as {name = Tensor}, each of rank 1: string, float32 or
-- int64.
function M.example(bytes)
  if type(bytes) ~= 'string' then
    errors.bad('example takes the bytes of a tf.train.Example, not %s', errors.describe(bytes))
  end
  local out = {}
  fields(bytes, function(_, features)
    fields(features, function(_, entry)
      local name, feature = nil, ''
      fields(entry, function(field, v) if field == 1 then name = v elseif field == 2 then feature = v end end)
      if name then out[name] = feature_of(feature) end
    end)
  end)
  return out
end

return M
