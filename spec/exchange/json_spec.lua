--- JSON, protocol buffers' wire format and what lies in it, as files and notebooks bring them: what is there, or what is wrong and where.
local json = require 'dflow.exchange.json'
local wire = require 'dflow.exchange.wire'

describe('JSON', function()
  it('is read as it was written', function()
    local v = { a = json.list{ 1, -2.5, true, json.null, 'q"\\\n<\127\195\164' }, b = json.list{}, c = { d = {} } }
    assert.equal(json.encode(v), json.encode(json.decode(json.encode(v))))
    assert.equal('{"a":[1,2.5,"x\\n\\u0001",null],"b":{}}', json.encode{ a = json.list{ 1, 2.5, 'x\n\1', json.null }, b = {} })
    assert.same({ 'é😀' }, { json.read '"\\u00e9\\ud83d\\ude00"' })
  end)

  it('that is damaged is refused, at its byte', function()
    for text, what in pairs{ ['[1,2'] = "',' or ']' is expected 5", ['[1,]'] = 'a value is expected 4', ['{"a":1,"a":2}'] = 'the key "a" comes twice 11',
                             ['"\\ud800"'] = 'half a surrogate pair 8', ['"\\udc00"'] = 'half a surrogate pair 2', ['"abc\\'] = 'an escape is wrong 5',
                             ['[] x'] = 'there is more behind its end 4', [''] = 'a value is expected 1', ['"\t"'] = 'a string holds a control character 2',
                             [('['):rep(300)] = 'it is nested too deeply 201', [('{"a":'):rep(300)] = 'it is nested too deeply 1001' } do
      local v, why, at = json.read(text)
      assert.is_nil(v)
      assert.equal(what, why .. ' ' .. at)
    end
  end)
end)

describe('a message of fields', function()
  local function read(bytes)
    local seen = {}
    local function broken(text, ...) error(text:format(...), 0) end
    local ok, why = pcall(wire.fields, bytes, 1, #bytes, broken, function(field, kind, start, stop, v)
      seen[#seen + 1] = ('%d %d %s'):format(field, kind, v or bytes:sub(start, stop))
    end)
    return ok and table.concat(seen, ', ') or 'broken: ' .. why
  end

  it('is read as it was written', function()
    assert.equal('1 0 300, 2 2 abc, 3 0 -1, 4 5 wxyz', read(wire.int(1, 300) .. wire.bytes(2, 'abc') .. wire.int(3, -1) .. wire.fixed32(4, 'wxyz')))
  end)

  it('that is damaged is refused: cut, too long by one byte or by more than a number holds', function()
    assert.equal('broken: a number is cut at byte 1', read '\8')
    assert.equal('broken: a field ends after its message, at byte 2', read '\18\2a')
    assert.equal('broken: a field ends after its message, at byte 1', read '\9')
    assert.equal('broken: a field has the number 0 at byte 1', read '\0')
    assert.equal('broken: a number is too long at byte 11', read('\8' .. ('\128'):rep(10) .. '\1'))
    assert.equal('broken: a field has the length -1 at byte 1', read('\18' .. ('\255'):rep(9) .. '\1'))
    for low = 240, 255 do
      assert.equal('broken: a field ends after its message, at byte 10', read('\18' .. string.char(low) .. ('\255'):rep(7) .. '\127abc'))
    end
  end)
end)

describe('a tensor of an ONNX file', function()
  it('has as many elements as its dimensions say, also where that is more than a number holds', function()
    local tensor = require('dflow.exchange.onnx.read').tensor
    local function read(d, dims)
      local t = { d = d, dims = dims, raw = '' }
      for _, list in ipairs{ 'external', 'strings', 'floats', 'doubles', 'int64s', 'uint64s', 'int32s' } do t[list] = {} end
      local ok, e = pcall(tensor, t, 'it')
      return ok and 'ok' or e.code .. ': ' .. e.message
    end
    assert.equal('data_loss: it has 0 bytes, 18446744073709551616 elements of 4 bytes are expected', read(1, { 2 ^ 32, 2 ^ 32 }))
    assert.equal('data_loss: it has 0 strings, 18446744073709551616 are expected', read(8, { 4294967296, 4294967296 }))
    assert.equal('data_loss: it has 0 bytes, 18446744073709551616 elements of 8 bytes are expected', read(7, { 4294967296, 4294967296 }))
    assert.equal('ok', read(1, { 0 }))
  end)
end)
