--- Tables: filled once, and such that change.
local df = require 'dflow'
local support = require 'spec.support'
local near, message_of = support.near, support.message_of

describe('a hash table', function()
  it('is filled when it is first looked up, in loops and branches too', function()
    local t = df.HashTable({ 'cat', 'dog', 'owl' }, df.constant({ 1, 2, 3 }, 'int32'), -1)
    near(df.run(t:lookup{ { 'dog', 'bat' }, { 'cat', '' } }), { { 2, -1 }, { 1, -1 } })
    assert.equal(2, df.run(t:lookup('dog')))
    assert.equal(7, df.run(t:lookup('emu', 7)))
    assert.equal(3, df.run(t:size()))
    local u = df.HashTable({ 10, 20 }, df.constant{ 0.5, 1.5 }, 0)
    local p = df.placeholder('bool', {})
    local y = df.cond(p, function()
      local _, sum = df.while_loop(function(i) return i:lt(30) end, function(i, s) return i + 10, s + u:lookup(i) end, { df.int32(0), df.float32(0) })
      return sum
    end, function() return df.float32(0) end)
    assert.equal(2, df.run(y, { [p] = true }))
    near(df.run(df.HashTable({ 7 }, df.constant{ 0.5 }, 0):lookup{ 7, 8 }), { 0.5, 0 })
    assert.same({ 4 }, t:lookup{ 'a', 'b', 'c', 'd' }.shape)
    assert.equal('string', t.key_dtype)
    assert.equal('HashTable: HashTable of string to int32[]', tostring(t))
  end)

  it('has values of a rank that leaves room for the keys', function()
    local function of_rank(n)
      local shape = {}
      for i = 1, n do shape[i] = 1 end
      local t = df.MutableHashTable('int64', 'float32', df.zeros(shape), { shape = shape })
      return df.run(t:size())
    end
    assert.equal(0, of_rank(7))
    assert.truthy(message_of(of_rank, 8):find('a rank of at most 7, not 8', 1, true))
  end)

  it('has values that memory can hold', function()
    local t = df.MutableHashTable('int64', 'float32', df.placeholder('float32', { -1 }), { shape = { 2 ^ 40, 2 ^ 40 } })
    assert.truthy(message_of(function() return df.run(t:size()) end):find('[1099511627776,1099511627776]: no memory holds one', 1, true))
  end)

  it('changes in program order, where it may', function()
    local t = df.MutableHashTable('int64', 'float32', 0, { shape = { 2 } })
    df.run(t:insert({ 5, 7 }, { { 1, 2 }, { 3, 4 } }))
    near(df.run(t:lookup{ 7, 1, 5 }), { { 3, 4 }, { 0, 0 }, { 1, 2 } })
    df.run(t:insert({ 7 }, { { 9, 9 } }))
    local keys, values = t:export()
    near(df.run(keys), { 5, 7 })
    near(df.run(values), { { 1, 2 }, { 9, 9 } })
    df.run(t:remove{ 5, 99 })
    assert.equal(1, df.run(t:size()))
    df.run(t:import({ 1, 2, 3 }, { { 1, 1 }, { 2, 2 }, { 3, 3 } }))
    near(df.run(t:lookup{ 7, 2 }), { { 0, 0 }, { 2, 2 } })
    local counts = df.MutableHashTable('string', 'int64', 0)
    local words = df.constant{ 'a', 'b', 'a', 'c', 'a' }
    df.run(df.while_loop(function(i) return i:lt(5) end, function(i)
      local word = df.expand_dims(words[i], 0)
      counts:insert(word, counts:lookup(word) + 1)
      return i + 1
    end, { df.int32(0) }))
    near(df.run(counts:lookup{ 'a', 'b', 'c', 'd' }), { 3, 1, 1, 0 })
  end)

  it('has entries of its own in each session, shared by name', function()
    local a = df.MutableHashTable('string', 'string', 'none', { shared_name = 'words' })
    local b = df.MutableHashTable('string', 'string', 'none', { shared_name = 'words' })
    local s, r = df.Session(), df.Session()
    s:run(a:insert({ 'x', '' }, { 'long enough', 'y' }))
    assert.same({ 'long enough', 'y', 'none' }, s:run(b:lookup{ 'x', '', 'z' }):totable())
    assert.same({ 'none' }, r:run(b:lookup{ 'x' }):totable())
    s:close()
    r:close()
  end)

  it('finds each of many, and what is left when many are gone', function()
    local t, list = df.MutableHashTable('int64', 'int64', -1), {}
    for i = 1, 4000 do list[i] = i * 7919 % 100003 * 2 ^ (i % 3) - 50000 end
    local keys = df.unique(df.constant(list, 'int64'))
    keys = df.constant(df.run(keys))
    local n = keys.shape[1]
    local half = n - n % 2
    df.run(t:insert(keys, keys * 3))
    assert.equal(n, df.run(t:size()))
    assert.equal(0, df.run(df.reduce_sum(df.abs(t:lookup(keys) - keys * 3))))
    local gone, left = keys:slice({ 0 }, { half / 2 }), keys:slice({ half / 2 }, { -1 })
    df.run(t:remove(gone))
    assert.equal(-half / 2, df.run(df.reduce_sum(t:lookup(gone))))
    assert.equal(0, df.run(df.reduce_sum(df.abs(t:lookup(left) - left * 3))))
  end)

  it('is filled once by an import, as TensorFlow 2 fills it', function()
    local op = require('dflow.front.registry').op
    local t = op('HashTableV2', {}, { key_dtype = 'string', value_dtype = 'int64' })
    local function import(...) return op('LookupTableImportV2', { t, df.constant{ 'a', 'b' }, df.int64{ ... } }) end
    local found = op('LookupTableFindV2', { t, df.constant{ 'b', 'c' }, df.int64(-1) })
    assert.matches('before it is filled', message_of(df.run, found))
    df.run(import(1, 2))
    df.run(import(1, 2))
    assert.same({ 2, -1 }, df.run(df.cast(found, 'int32')):totable())
  end)

  it('says what is wrong', function()
    local t, m = df.HashTable({ 'a' }, { 1.0 }, 0), df.MutableHashTable('string', 'float32', 0)
    assert.matches('filled once', message_of(t.insert, t, { 'b' }, { 2.0 }))
    assert.matches('two lists of one length', message_of(df.HashTable, { 'a', 'b' }, { 1.0 }, 0))
    assert.matches("two values for the key 'a'", message_of(df.run, df.HashTable({ 'a', 'a' }, { 1.0, 2.0 }, 0):lookup('a')))
    assert.matches('the default', message_of(df.HashTable, { 'a' }, { 1.0 }))
    assert.matches('int32, int64 or string, not float32', message_of(df.MutableHashTable, 'float32', 'int32', 0))
    assert.matches('string is expected, this is int32', message_of(m.lookup, m, df.int32{ 1 }))
    assert.matches('the keys are string%[2%] and the values float32%[3%]',
                   message_of(df.run, m:insert(df.constant{ 'a', 'b' }, df.constant{ 1.0, 2.0, 3.0 })))
    assert.matches("no field or method 'look'", message_of(function() return t.look end))
    assert.matches('write t:lookup', message_of(df.abs, t))
  end)
end)
