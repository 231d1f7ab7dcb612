--- fuzz_kinds.lua: the kinds of files that are read, for fuzz_files.lua: {name, seeds = what to begin with, read = the reader}.
--   ending, path   what the file is called, where that matters
--   write(bytes)   lays the file or files and gives what to read
--   mend(bytes)    the bytes with checksums that are right
--   form(bytes)    the bytes, well formed, that say something hostile: fuzz_forms.lua
local df = require 'dflow'
local core = require 'dflow.backend'
local records = require 'dflow.data.records'
local json = require 'dflow.exchange.json'
local safetensors = require 'dflow.exchange.safetensors'
local forms = require 'spec.fuzz_forms'
local home = debug.getinfo(1, 'S').source:match '^@(.*)spec/fuzz_kinds%.lua$'
if home == '' then home = './' end

local function contents(path)
  local f = assert(io.open(path, 'rb'), path)
  local bytes = f:read '*a'
  f:close()
  return bytes
end
--- What a writer writes to a path.
local function written(fn, ending)
  local path = './seed' .. (ending or '')
  fn(path)
  local bytes = contents(path)
  os.remove(path)
  return bytes
end
local function files_of(...)
  local list = {}
  for _, path in ipairs{ ... } do list[#list + 1] = contents(home .. path) end
  return list
end

local function little(v, n)
  local out = {}
  for i = 1, n do out[i], v = string.char(v % 256), math.floor(v / 256) end
  return table.concat(out)
end
local function big(v, n) return little(v, n):reverse() end
local function number(bytes, at, n)
  local v = 0.0                                 -- a float: no number wraps around
  for i = at + n - 1, at, -1 do v = v * 256 + (bytes:byte(i) or 0) end
  return v
end

--- Everything of a table of Tensors is looked at.
local function look(t)
  for _, v in pairs(t) do
    if type(v) == 'table' and v.dtype then
      assert(#v.shape == v.rank)
      tostring(v)
    end
  end
end

local function tensors()
  return { a = df.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, 'float32'), b = df.tensor({ 7, 8 }, 'int64'), c = df.tensor({ true, false }, 'bool'),
           d = df.tensor(2.5, 'float64'), h = df.tensor({ 1, 2 }, 'float16'), e = df.tensor({}, 'float32', { 0, 3 }) }
end

-- ---- checksums ---------------------------------------------------------------------------------------------------------
--- Records whose lengths fit have their checksums right.
local function mend_records(bytes)
  local out, at = {}, 1
  while at + 11 <= #bytes do
    local length = number(bytes, at, 8)
    local rest = #bytes - at - 15
    if rest < 0 then break end
    if length > rest then length = rest end
    out[#out + 1] = records.frame(bytes:sub(at + 12, at + 11 + length))
    at = at + 16 + length
  end
  return table.concat(out) .. bytes:sub(at)
end

local function mend_png(bytes)
  local out, at = { bytes:sub(1, 8) }, 9
  while at + 11 <= #bytes do
    local length = number(bytes:sub(at, at + 3):reverse(), 1, 4)
    if length > #bytes - at - 11 then break end
    local body = bytes:sub(at + 4, at + 7 + length)
    out[#out + 1] = bytes:sub(at, at + 3) .. body .. big(core.crc32(body), 4)
    at = at + 12 + length
  end
  return table.concat(out) .. bytes:sub(at)
end

--- Members that are stored, where the directory says that they are.
local function mend_zip(bytes)
  local at = 1
  while true do
    at = bytes:find('PK\1\2', at, true)
    if not at then return bytes end
    local head, packed = number(bytes, at + 42, 4) + 1, number(bytes, at + 20, 4)
    local start = head + 30 + number(bytes, head + 26, 2) + number(bytes, head + 28, 2)
    local crc = little(core.crc32(bytes:sub(start, start + packed - 1)), 4)
    if at + 20 <= #bytes then bytes = bytes:sub(1, at + 15) .. crc .. bytes:sub(at + 20) end
    at = at + 4
  end
end

--- The checksum that ends each block of a checkpoint's index: of the blocks that the two handles of its foot name, and of what the first lists.
local function varint(bytes, at)
  local v, scale = 0, 1
  for _ = 1, 10 do
    local b = bytes:byte(at) or 0
    at, v, scale = at + 1, v + b % 128 * scale, scale * 128
    if b < 128 then break end
  end
  return v, at
end
local function mend_index(bytes)
  local function mend(offset, size)
    if offset % 1 ~= 0 or offset + size + 5 > #bytes then return end
    local crc = little(records.masked(core.crc32c(bytes:sub(offset + 1, offset + size + 1))), 4)
    bytes = bytes:sub(1, offset + size + 1) .. crc .. bytes:sub(offset + size + 6)
  end
  if #bytes < 48 then return bytes end
  local at = #bytes - 47
  local block, blocks = {}, {}
  for i = 1, 2 do
    block[1], at = varint(bytes, at)
    block[2], at = varint(bytes, at)
    blocks[i] = { block[1], block[2] }
  end
  mend(0, blocks[1][1] - 5 > 0 and blocks[1][1] - 5 or 0)
  for _, b in ipairs(blocks) do mend(b[1], b[2]) end
  return bytes
end

-- ---- the kinds -----------------------------------------------------------------------------------------------------------
local function drain(source)
  local n = 0
  for one in source do
    n = n + #one
  end
  return n
end

local M = {
  { name = 'npy', read = function(path) look{ df.load_npy(path) } end, seeds = function()
    local list = {}
    for _, t in pairs(tensors()) do list[#list + 1] = written(function(path) df.save_npy(path, t) end) end
    table.sort(list)
    list[#list + 1] = written(function(path) df.save_npy(path, df.tensor({ 'some', 'words' }, 'string')) end)
    list[#list + 1] = list[1]:gsub('False', 'True ')
    return list
  end },
  { name = 'npz', mend = mend_zip, read = function(path) look(df.load_npz(path)) end, seeds = function()
    local list = files_of('spec/models/onnx/if.in.npz', 'spec/graphs/gradients/cond.npz')
    list[#list + 1] = written(function(path) df.save_npz(path, tensors()) end)
    return list
  end },
  { name = 'idx', read = function(path) look{ df.data.idx(path) } end, seeds = function()
    return { '\0\0\8\2' .. big(2, 4) .. big(3, 4) .. 'abcdef', '\0\0\11\1' .. big(3, 4) .. 'abcdef', '\0\0\14\3' .. big(1, 4):rep(3) .. 'abcdefgh',
             '\0\0\13\0abcd' }
  end },
  { name = 'safetensors', form = forms.safetensors, read = function(path) look(safetensors.read(path)) end, seeds = function()
    return { written(function(path) df.save_safetensors(path, tensors()) end),
             written(function(path) df.save_safetensors(path, { x = df.tensor{ 1 } }, { made = 'by "hand"\n', ['\228'] = '\\' }) end) }
  end },
  { name = 'restore', form = forms.safetensors, ending = '.safetensors', read = function(path)
    df.reset()
    df.Variable(df.ones{ 2, 3 }, { name = 'a' })
    df.Variable(df.constant({ 7, 8 }, 'int64'), { name = 'b' })
    df.restore(path, { partial = true })
  end, seeds = function()
    return { written(function(path)
      local t = tensors()
      df.save_safetensors(path, { a = t.a, b = t.b })
    end) }
  end },
  { name = 'shards', form = forms.json, path = './fuzzed.index.json', read = function(path) df.reset() df.Variable(df.ones{ 2, 3 }, { name = 'a' }) df.restore(path) end,
    seeds = function()
      df.save_safetensors('./part-1.safetensors', { a = tensors().a })
      return { '{"metadata": {"total_size": 24}, "weight_map": {"a": "part-1.safetensors"}}' }
    end },
  { name = 'csv', read = function(path) look(df.data.csv(path)) look(df.data.csv(path, { header = false, types = 'string' })) end, seeds = function()
    return { 'a,b,c\n1,2.5,x\n-3,nan,"a ""quoted"" one"\n', '\239\187\191n;m\r\n1;2\r\n', '"a\nb",c\n1,2\n\n3,99999999999\n' }
  end },
  { name = 'tfrecord', form = forms.records, mend = mend_records, read = function(path)
    for one in df.data.tfrecord(path) do look(df.data.example(one)) end
  end, seeds = function()
    local function part(field, bytes) return string.char(field * 8 + 2, #bytes) .. bytes end
    local function feature(name, kind, values) return part(1, part(1, name) .. part(2, part(kind, values))) end
    return { records.frame(part(1, feature('x', 2, part(1, '\0\0\128\63\0\0\0\64')) .. feature('i', 3, part(1, '\1\2\255\1')))) .. records.frame(''),
             records.frame(part(1, feature('w', 1, part(1, 'hello') .. part(1, 'there')) .. feature('i', 3, '\8\5'))) }
  end },
  { name = 'text', read = function(path) drain(df.data.text(path)) end, seeds = function() return { 'one\ntwo\r\n\nthree' } end },
  { name = 'events', form = forms.records, mend = mend_records, read = function(path) drain(df.data.tfrecord(path)) end, seeds = function()
    local w = df.summary.FileWriter('./events')
    w:scalar('loss', 0.5, 1)
    w:histogram('weights', df.tensor{ 1, 2, 3 }, 1)
    w:text('note', 'a word', 2)
    w:close()
    return { contents(w.path) }
  end },
  { name = 'png', mend = mend_png, read = function(path) look{ df.data.image(path), df.data.image(path, { channels = 3 }) } end, seeds = function()
    return files_of('spec/data/pictures/alpha.png', 'spec/data/pictures/gray.png', 'spec/data/pictures/palette.png', 'spec/data/pictures/rgb.png')
  end },
  { name = 'jpeg', read = function(path) look{ df.data.image(path) } end, seeds = function()
    return files_of('spec/data/pictures/flat.jpg', 'spec/data/pictures/gray.jpg')
  end },
  { name = 'pnm', read = function(path) look{ df.data.image(path) } end, seeds = function()
    return files_of('spec/data/pictures/bits.pbm', 'spec/data/pictures/gray.pgm', 'spec/data/pictures/rgb.ppm')
  end },
  { name = 'onnx', form = forms.protobuf, read = function(path) df.import_onnx(path):size() end, seeds = function()
    local list = files_of('spec/models/onnx/convolutions.onnx', 'spec/models/onnx/function.onnx', 'spec/models/onnx/if.onnx', 'spec/models/onnx/loop.onnx',
                          'spec/models/onnx/lstm.onnx', 'spec/models/onnx/scan.onnx', 'spec/models/onnx/sequence.onnx', 'spec/models/onnx/shapes.onnx')
    return list
  end },
  { name = 'hlo', form = forms.protobuf, ending = '.hlo.pb', read = function(path) df.import_hlo(path):size() end, seeds = function() return require('spec.hlo').modules() end },
  { name = 'graphdef', form = forms.protobuf, ending = '.pb', read = function(path) df.import_graph_def(path):size() end, seeds = function()
    return files_of('spec/graphs/loop.pb', 'spec/graphs/functions.pb')
  end },
  { name = 'meta', form = forms.protobuf, ending = '.meta', read = function(path) df.import_graph_def(path):size() end, seeds = function()
    return files_of('spec/graphs/loop.meta', 'spec/models/saver.meta')
  end },
  { name = 'gzip', ending = '.gz', read = function(path) df.data.read(path) drain(df.data.text(path)) end, seeds = function()
    local list = {}
    for _, text in ipairs{ 'text', ('abcabc'):rep(500), '\0\0\8\2' .. big(2, 4) .. big(3, 4) .. 'abcdef' } do
      list[#list + 1] = written(function(path)
        local pipe = io.popen('gzip -c > ' .. path, 'w')
        pipe:write(text)
        pipe:close()
      end)
    end
    return list
  end },
  { name = 'json', form = forms.json, read = function(path)
    local v, what, where = json.read(contents(path), true)
    assert(v ~= nil or what == nil or (type(what) == 'string' and where <= #contents(path) + 1))
  end, seeds = function()
    return { '{"a": [1, -2.5e3, true, false, null], "b\\u00e9\\n": {"c": "\\ud83d\\ude00"}}', '[[[]]]', '{"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}' }
  end },
  { name = 'pbtxt', ending = '.pbtxt', read = function(path) df.import_graph_def(path):size() end, seeds = function()
    return files_of('spec/graphs/loop.pbtxt')
  end },
  { name = 'checkpoint', path = './model.index', mend = mend_index, read = function() look(df.load_checkpoint './model') end, seeds = function()
    os.remove './model.index'
    df.save_checkpoint('./model', tensors())
    return { contents './model.index' }
  end },
  { name = 'checkpoint_data', path = './other.data-00000-of-00001', read = function() look(df.load_checkpoint './other') end, seeds = function()
    local t = tensors()
    t.s = df.tensor({ 'some', 'words' }, 'string')
    os.remove './other.index'                            -- over another one its data would have another name
    df.save_checkpoint('./other', t)
    return { contents './other.data-00000-of-00001' }
  end },
}

for _, model in ipairs{ 'v1', 'v2', 'keras' } do
  local folder = './saved_' .. model
  M[#M + 1] = { name = 'saved_' .. model, form = forms.protobuf, path = folder .. '/saved_model.pb', read = function() df.import_graph_def(folder):size() end, seeds = function()
    os.execute(("mkdir -p %s && cp -r '%sspec/models/%s/variables' %s/"):format(folder, home, model, folder))
    return files_of('spec/models/' .. model .. '/saved_model.pb')
  end }
end

return M
