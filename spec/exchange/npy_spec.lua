--- NumPy's files. The bytes below are what NumPy 1.26 writes.
local df = require 'dflow'
local shell = require 'spec.shell'
local support = require 'spec.support'
local same = support.same

describe('npy and npz', function()
  local path = os.tmpname()
  teardown(function() os.remove(path) end)
  local function write(bytes)
    shell.write(path, bytes)
  end
  --- A version 1 header of NumPy's for this description.
  local function npy(description, body)
    local header = description .. (' '):rep(63 - (#description + 10) % 64) .. '\n'
    return '\147NUMPY\1\0' .. string.char(#header % 256, math.floor(#header / 256)) .. header .. body
  end
  local function code_of(fn, ...)
    local e = support.error_of(fn, ...)
    return e.code
  end

  it('have NumPy\'s letters, of four bytes, as UTF-8 of one to four', function()
    local letters = { 0x41, 0x7f, 0x80, 0xe4, 0x7ff, 0x800, 0xfff, 0x1000, 0x20ac, 0xd7ff, 0xffff, 0x10000, 0x1f600, 0x3ffff, 0x40001, 0x10ffff }
    local utf8 = { 'A', '\127', '\194\128', '\195\164', '\223\191', '\224\160\128', '\224\191\191', '\225\128\128', '\226\130\172', '\237\159\191', '\239\191\191',
                   '\240\144\128\128', '\240\159\152\128', '\240\191\191\191', '\241\128\128\129', '\244\143\191\191' }
    local little, big = {}, {}
    for i, c in ipairs(letters) do
      little[i] = string.char(c % 256, math.floor(c / 256) % 256, math.floor(c / 65536), 0)
      big[i] = little[i]:reverse()
    end
    for order, bytes in pairs{ ['<'] = table.concat(little), ['>'] = table.concat(big) } do
      write(npy(("{'descr': '%sU1', 'fortran_order': False, 'shape': (16,), }"):format(order), bytes))
      assert.same(utf8, df.load_npy(path):list())
    end
  end)

  it('keep every dtype that NumPy has', function()
    for _, dtype in ipairs{ 'float32', 'float64', 'float16', 'int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64', 'uint64' } do
      local t = df.tensor({ { 1, 2, 3 }, { 4, 5, 100 } }, dtype)
      df.save_npy(path, t)
      local back = df.load_npy(path)
      assert.equal(dtype, back.dtype)
      same(back, t)
    end
    for _, dtype in ipairs{ 'complex64', 'complex128' } do
      df.save_npy(path, df.tensor({ { re = 1, im = -2 }, 3 }, dtype))
      local back = df.load_npy(path)
      assert.equal(dtype, back.dtype)
      assert.same({ { re = 1, im = -2 }, { re = 3, im = 0 } }, back:totable())
    end
    for _, t in ipairs{ df.tensor({ true, false }), df.tensor({ 'a', 'longer' }), df.tensor(3.5), df.tensor({}), df.tensor({ {}, {} }) } do
      df.save_npy(path, t)
      local back = df.load_npy(path)
      assert.equal(t.dtype, back.dtype)
      assert.same(t.shape, back.shape)
      assert.same(t:list(), back:list())
    end
    assert.equal('unimplemented', code_of(df.save_npy, path, df.tensor({ 1 }, 'bfloat16')))
  end)

  it('read what NumPy writes: other byte orders, Fortran order, short integers, Unicode', function()
    write(npy("{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }", '\0\0\1\0\255\255\255\255'))
    same(df.load_npy(path), { 256, -1 })
    write(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", '\1\4\2\5\3\6'))
    same(df.load_npy(path), { { 1, 2, 3 }, { 4, 5, 6 } })
    write(npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }", '\1\0\255\255'))
    same(df.load_npy(path), { 1, -1 })
    write(npy("{'descr': '<u4', 'fortran_order': False, 'shape': (), }", '\255\255\255\255'))
    same(df.load_npy(path), 4294967295)
    write(npy("{'descr': '<U2', 'fortran_order': False, 'shape': (2,), }", 'a\0\0\0\233\0\0\0b\0\0\0\0\0\0\0'))
    same(df.load_npy(path), { 'a\195\169', 'b' })
  end)

  it('keep several arrays by name', function()
    df.save_npz(path, { x = df.tensor({ { 1, 2 } }, 'float32'), names = df.tensor({ 'u', 'v' }), n = 3 })
    local all = df.load_npz(path)
    same(all.x, { { 1, 2 } })
    same(all.names, { 'u', 'v' })
    same(all.n, 3)
  end)

  it('say what is wrong with a file', function()
    for _, bytes in ipairs{ '', 'hello', '\147NUMPY', '\147NUMPY\9\0aaaaaaaa', npy('{}', ''),
                            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 'abc') } do
      write(bytes)
      assert.equal('data_loss', code_of(df.load_npy, path))
      assert.equal('data_loss', code_of(df.load_npz, path))
    end
    for shape, text in pairs{ ['(-3,)'] = "the dimension '-3'", ['(2, x)'] = "the dimension 'x'", ['(2.5,)'] = "the dimension '2.5'",
                              ['(1, 1, 1, 1, 1, 1, 1, 1, 1)'] = 'its rank is 9', ['(4294967296, 4294967296)'] = 'elements of 4 bytes',
                              ['(99999999999999999999,)'] = 'elements of 4 bytes' } do
      write(npy(("{'descr': '<f4', 'fortran_order': False, 'shape': %s, }"):format(shape), ''))
      assert.equal('data_loss', code_of(df.load_npy, path))
      assert.matches(text, support.message_of(df.load_npy, path), 1, true)
    end
    for _, descr in ipairs{ '|S0', '<U0' } do          -- any number of elements fit into no bytes
      write(npy(("{'descr': '%s', 'fortran_order': False, 'shape': (1000000000000,), }"):format(descr), ''))
      assert.equal('data_loss', code_of(df.load_npy, path))
      assert.matches('which have no bytes', support.message_of(df.load_npy, path))
    end
    write(npy("{'descr': '<M8', 'fortran_order': False, 'shape': (1,), }", '12345678'))
    assert.equal('unimplemented', code_of(df.load_npy, path))
    assert.equal('not_found', code_of(df.load_npy, path .. '.missing'))
    df.save_npz(path, { x = df.tensor({ 1, 2, 3 }, 'float64') })
    local bytes = shell.read(path)
    write((bytes:gsub('\0\0\240\63', '\0\0\241\63')))
    assert.equal('data_loss', code_of(df.load_npz, path))
    assert.equal('not_found', code_of(df.save_npy, '/nowhere/x.npy', df.tensor({ 1 })))
  end)

  it('have characters that there are, in strings of either order, or are damaged', function()
    local path = os.tmpname()
    local function read(descr, bytes)
      local header = ("{'descr': '%s', 'fortran_order': False, 'shape': (1,), }\n"):format(descr)
      local file = assert(io.open(path, 'wb'))
      file:write('\147NUMPY\1\0', string.char(#header % 256, math.floor(#header / 256)), header, bytes)
      file:close()
      return df.load_npy(path):totable()[1]
    end
    for code, text in pairs{ ['\0\0\0\65'] = 'A', ['\0\0\32\172'] = '\226\130\172', ['\0\16\255\255'] = '\244\143\191\191' } do
      assert.equal(text, read('>U1', code))
      assert.equal(text, read('<U1', code:reverse()))
    end
    for _, code in ipairs{ '\0\17\0\0', '\255\255\255\255', '\1\0\0\0' } do
      for descr, bytes in pairs{ ['>U1'] = code, ['<U1'] = code:reverse() } do assert.equal('data_loss', code_of(read, descr, bytes)) end
    end
    os.remove(path)
  end)

  it('of elements that are not known here are .npy files all the same', function()
    local path = os.tmpname()
    local function said(descr)
      local header = ("{'descr': %s, 'fortran_order': False, 'shape': (1,), }\n"):format(descr)
      local file = assert(io.open(path, 'wb'))
      file:write('\147NUMPY\1\0', string.char(#header % 256, math.floor(#header / 256)), header, ('x'):rep(16))
      file:close()
      local why = support.error_of(df.load_npy, path)
      assert.equal('unimplemented', why.code)
      return why.message
    end
    assert.matches("is a .npy file of records, [('a', '<f4'), ('b', '<i4')]: save each field", said "[('a', '<f4'), ('b', '<i4')]", 1, true)
    for _, descr in ipairs{ '|O', '<M8[ns]', '|V16', '<f16', '<m8[s]' } do
      assert.matches('is a .npy file of elements of type ' .. descr, said(("'%s'"):format(descr)), 1, true)
    end
    os.remove(path)
  end)

  it('have bools that are 1 where the byte of the file is not 0, whichever it is', function()
    local core, bool = require 'dflow.backend', require('dflow.front.dtypes').number.bool
    local path = os.tmpname()
    local file = assert(io.open(path, 'wb'))
    file:write '\2\1\0\255'
    file:close()
    for _, t in ipairs{ core.tensor_from_bytes(bool, { 4 }, '\2\1\0\255'), core.file_read(path, 0, bool, { 4 }),
                        df.run(df.decode_raw(df.constant '\2\1\0\255', { out_type = 'bool' })) } do
      assert.same({ 1, 1, 0, 1 }, { core.tensor_bytes(t):byte(1, -1) })
    end
    os.remove(path)
  end)
end)
