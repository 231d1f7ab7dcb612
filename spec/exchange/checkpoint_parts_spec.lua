--- Checkpoints of partitioned variables: the parts of a tensor lie in entries of their own, as TensorFlow 1 writes them. The files are
-- written here, byte by byte.
local df = require 'dflow'
local core = require 'dflow.backend'
local support = require 'spec.support'

local folder = os.tmpname()
os.remove(folder)
os.execute('mkdir ' .. folder)
teardown(function() os.execute('rm -r ' .. folder) end)

-- ---- a writer ----------------------------------------------------------------------------------------------------------------
local function varint(n)
  local out = {}
  while n >= 128 do out[#out + 1], n = string.char(n % 128 + 128), math.floor(n / 128) end
  return table.concat(out) .. string.char(n)
end
local function fixed(n) return string.char(n % 256, math.floor(n / 2 ^ 8) % 256, math.floor(n / 2 ^ 16) % 256, math.floor(n / 2 ^ 24) % 256) end
local function sum(bytes)
  local crc = core.crc32c(bytes)
  return fixed((math.floor(crc / 2 ^ 15) + crc % 2 ^ 15 * 2 ^ 17 + 0xa282ead8) % 2 ^ 32)
end
local function field(n, bytes) return string.char(n * 8 + 2) .. varint(#bytes) .. bytes end
local function number(n, v) return v == 0 and '' or string.char(n * 8) .. varint(v) end

--- A number in OrderedCode, below 8192.
local function signed(v)
  if v < 0 then return '\127' end                        -- -1
  if v < 64 then return string.char(128 + v) end
  return string.char(192 + math.floor(v / 256), v % 256)
end
--- The key of a part: {{start, length}, …}; a dimension that is whole is {}.
local function key_of(name, part)
  local out = { '\0' .. name .. '\0\1\1' .. string.char(#part) }
  for _, d in ipairs(part) do out[#out + 1] = signed(d[1] or 0) .. signed(d[2] or -1) end
  return table.concat(out)
end
local function entry_of(dims, rest)
  local shape = {}
  for i, n in ipairs(dims) do shape[i] = field(2, number(1, n)) end
  return number(1, 1) .. field(2, table.concat(shape)) .. rest
end
local function slice(part)
  local out = {}
  for i, d in ipairs(part) do out[i] = field(1, number(1, d[1] or 0) .. (d[2] and string.char(16) .. varint(d[2]) or '')) end
  return field(7, table.concat(out))
end
local function block(entries)
  local out = {}
  for i, e in ipairs(entries) do out[i] = '\0' .. varint(#e[1]) .. varint(#e[2]) .. e[1] .. e[2] end
  return table.concat(out) .. fixed(0) .. fixed(1)
end
local write = require('spec.shell').write

--- Writes a checkpoint of the float32 tensor `name` of these dims, whose element i is i, in parts. `lost`: which part is said to be there
-- and is not; `said`: what the entry says of the parts instead.
local function checkpoint(path, name, dims, parts, lost, said)
  local entries, data, slices = { { '', number(1, 1) .. field(3, number(1, 1)) } }, '', {}
  for i, part in ipairs(parts) do
    local from, to, own, values = {}, {}, {}, {}
    for d, n in ipairs(dims) do
      from[d] = part[d][1] or 0
      to[d] = from[d] + (part[d][2] or n) - 1
      own[d] = to[d] - from[d] + 1
    end
    for r = from[1], to[1] do
      for c = from[2], to[2] do values[#values + 1] = r * dims[2] + c end
    end
    local bytes = core.tensor_bytes(df.tensor(values, 'float32'))
    if i ~= lost then
      entries[#entries + 1] = { key_of(name, part), entry_of(own, number(4, #data) .. number(5, #bytes) .. '\53' .. sum(bytes)) }
    end
    data = data .. bytes
    slices[i] = slice(part)
  end
  for i, part in ipairs(said or {}) do slices[i] = slice(part) end
  entries[#entries + 1] = { name, entry_of(dims, table.concat(slices)) }
  table.sort(entries, function(a, b) return a[1] < b[1] end)
  local file = ''
  local function add(bytes)
    local place = varint(#file) .. varint(#bytes)
    file = file .. bytes .. '\0' .. sum(bytes .. '\0')
    return place
  end
  local place = add(block(entries))
  local facts = add(block{})
  local handles = facts .. add(block{ { entries[#entries][1], place } })
  write(path .. '.index', file .. handles .. ('\0'):rep(40 - #handles) .. '\87\251\128\139\36\117\71\219')
  write(path .. '.data-00000-of-00001', data)
end

local function counted(dims)
  return df.run(df.reshape(df.range(dims[1] * dims[2]), dims)):totable()
end

describe('a checkpoint of a partitioned variable', function()
  local path = folder .. '/parts'

  it('gives the variable whole, however it was cut', function()
    for _, case in ipairs{
      { { 4, 3 }, { { { 0, 2 }, {} }, { { 2, 2 }, {} } } },
      { { 4, 3 }, { { { 0, 2 }, { 0, 3 } }, { { 2, 2 }, { 0, 3 } } } },
      { { 4, 3 }, { { {}, { 0, 1 } }, { {}, { 1, 2 } } } },
      { { 3, 4 }, { { { 0, 1 }, {} }, { { 1, 2 }, { 0, 3 } }, { { 1, 2 }, { 3, 1 } } } },
      { { 300, 2 }, { { { 0, 64 }, {} }, { { 64, 36 }, {} }, { { 100, 200 }, {} } } },
      { { 1, 2 }, { { {}, {} } } },
    } do
      checkpoint(path, 'tower/v', case[1], case[2])
      local found = df.load_checkpoint(path)
      assert.same({ case[1], 'float32' }, { found['tower/v'].shape, found['tower/v'].dtype })
      assert.same(counted(case[1]), found['tower/v']:totable())
      local n = 0
      for _ in pairs(found) do n = n + 1 end
      assert.equal(1, n)                                 -- parts are no tensors of their own
    end
  end)

  it('gives the parts that a graph restores, of what lies in parts and of what lies whole', function()
    local dims = { 4, 3 }
    local function restored(slices)
      local g = df.import_graph_def(([[
        node { name: "path" op: "Placeholder" attr { key: "dtype" value { type: DT_STRING } } attr { key: "shape" value { shape { } } } }
        node { name: "names" op: "Const" attr { key: "dtype" value { type: DT_STRING } }
               attr { key: "value" value { tensor { dtype: DT_STRING tensor_shape { dim { size: 1 } } string_val: "v" } } } }
        node { name: "slices" op: "Const" attr { key: "dtype" value { type: DT_STRING } }
               attr { key: "value" value { tensor { dtype: DT_STRING tensor_shape { dim { size: 1 } } string_val: "%s" } } } }
        node { name: "read" op: "RestoreV2" input: "path" input: "names" input: "slices" attr { key: "dtypes" value { list { type: DT_FLOAT } } } }]])
        :format(slices))
      return df.Session{ graph = g }:run(g:output 'read:0', { ['path:0'] = path }):totable()
    end
    local rows = counted(dims)
    for _, whole in ipairs{ false, true } do
      if whole then df.save_checkpoint(path, { v = df.tensor(rows, 'float32') })
      else checkpoint(path, 'v', dims, { { { 0, 3 }, {} }, { { 3, 1 }, {} } }) end
      assert.same(rows, restored '')
      assert.same({ rows[2], rows[3] }, restored '4 3 1,2:0,3')
      assert.same({ rows[4] }, restored '4 3 3,1:-')
      assert.same({ { 1, 2 }, { 4, 5 }, { 7, 8 }, { 10, 11 } }, restored '4 3 -:1,2')
      for _, wrong in ipairs{ '4 3 1,2', '4 3', '4 3 3,2:-', '4 3 -1,2:-', '3 4 0,1:-', '4 0,1', '4 3 0,1:-:-', '4 3 0,1:- ', 'x' } do
        assert.matches('is no part of v, which is float32[4,3]', support.message_of(restored, wrong), 1, true)
      end
    end
  end)

  it('is damaged when a part is missing, said twice, or of another shape', function()
    local dims, halves = { 4, 3 }, { { { 0, 2 }, {} }, { { 2, 2 }, {} } }
    local function refused(...)
      checkpoint(path, 'v', dims, ...)
      local ok, err = pcall(df.load_checkpoint, path)
      assert.is_false(ok)
      assert.equal('data_loss', err.code)
      return err.message
    end
    assert.matches('v of the checkpoint .* is damaged: part 2 of 2 is not there', refused(halves, 2))
    assert.matches('its 1 parts are not all of it', refused({ halves[1] }))
    assert.matches('its 2 parts are not all of it', refused({ halves[1], { { 2, 1 }, {} } }))
    assert.matches('its 2 parts are not all of it', refused(halves, nil, { halves[1], halves[1] }))
    assert.matches('its 2 parts are not all of it', refused(halves, nil, { halves[1], { { 3, 2 }, {} } }))
    assert.matches('its 2 parts are not all of it', refused(halves, nil, { halves[1], { { 2, 2 } } }))
    assert.matches('its 3 parts are not all of it', refused(halves, nil, { halves[1], halves[2], { { 1, 1 }, {} } }))
    checkpoint(path, 'v', dims, halves)
    write(path .. '.data-00000-of-00001', ('\0'):rep(48))
    assert.matches('the sum of its bytes is wrong', support.message_of(df.load_checkpoint, path))
  end)
end)
