--- Programs whose parts are on several ranks, and what they print: the same wherever the ranks are.
-- `on(k, fn)` builds what fn builds on rank k, or on this process alone where DFLOW_ALONE is set.
local df = require 'dflow'
local alone = os.getenv 'DFLOW_ALONE'
local function on(k, fn) return df.device(alone and 'cpu:0' or ('/rank:%d/cpu:0'):format(k), fn) end

local s = df.Session{}
local function say(name, value)
  local words = { name }
  local function add(v)
    if type(v) == 'number' then words[#words + 1] = ('%.17g'):format(v)
    elseif type(v) == 'table' and v.totable then add(v:totable())
    elseif type(v) == 'table' then for _, e in ipairs(v) do add(e) end
    else words[#words + 1] = tostring(v):gsub('%s+', ' ') end
  end
  add(value)
  print(table.concat(words, ' '))
end
local function fails(name, fetch, feeds)
  local ok, err = pcall(s.run, s, fetch, feeds)
  say(name, { tostring(ok), err.code, err.op or '-', err.frame or '-', (err.message:gsub('%s+', ' ')) })
end

local x = df.placeholder('float32', {})
local row = df.placeholder('float64', { 4 })

-- values there and back, strings, bools, what is fed, large tensors
local far = on(1, function() return row * 2 end)
local back = on(2, function() return df.concat({ far, row }, 0) end)
say('straight', s:run({ far, back, df.reduce_sum(back) }, { [row] = { 1, 2, 3, 4 } }))
local upper = on(2, function() return df.string_upper(df.constant{ 'b', 'c' }) end)
say('strings', s:run(on(1, function() return df.string_join({ df.constant{ 'a', '' }, upper }, { separator = '-' }) end)))
say('bools', s:run(on(2, function() return df.logical_not(on(1, function() return df.greater(row, 2.0) end)) end), { [row] = { 1, 2, 3, 4 } }))
local large = on(1, function() return df.cast(df.range(0, 300000, 1), 'float32') + x end)
say('large', s:run(df.reduce_sum(on(2, function() return large * 2 end)), { [x] = 1 }))

-- loops: the predicate on either rank, nested, gradients, conds whose branches are elsewhere
for where = 0, 1 do
  for _, window in ipairs{ 1, 4, 32 } do
    local _, y, z = df.while_loop(function(i) return on(where, function() return i:lt(100) end) end, function(i, y, z)
      return i + 1, on(1, function() return df.sin(y + z) end), on(2, function() return df.cos(z) + y end)
    end, { df.int32(0), x, x * 2 }, { parallel_iterations = window })
    say('loop', s:run({ y, z, df.gradients(y + z, { x })[1] }, { [x] = 0.3 }))
  end
end
local _, nested = df.while_loop(function(i) return i:lt(5) end, function(i, a)
  local _, b = df.while_loop(function(j) return j:lt(i + 2) end, function(j, b)
    return j + 1, on(2, function() return df.sin(b) + 1 end)
  end, { df.int32(0), a })
  return i + 1, on(1, function() return b * 0.5 end)
end, { df.int32(0), x })
say('nested', s:run({ nested, df.gradients(nested, { x })[1] }, { [x] = 0.7 }))
local _, picked = df.while_loop(function(i) return i:lt(9) end, function(i, a)
  return i + 1, df.cond(df.equal(i % 3, 0), function() return on(1, function() return a * 2 end) end, function()
    return df.cond(df.equal(i % 2, 0), function() return on(2, function() return a + 1 end) end, function() return a - x end)
  end)
end, { df.int32(0), x })
say('conds', s:run({ picked, df.gradients(picked, { x })[1] }, { [x] = 0.9 }))
local never = df.cond(x:gt(10), function()
  local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, y) return i + 1, on(1, function() return y + 1 end) end, { df.int32(0), x })
  return y
end, function() return on(2, function() return x * 3 end) end)
say('dead loop', { s:run(never, { [x] = 1 }), s:run(never, { [x] = 11 }) })

-- what lasts: variables, queues, arrays, random numbers
local v = on(1, function() return df.Variable{ 1.0, 2.0 } end)
local w = on(2, function() return df.Variable(df.random_normal({ 3 }, { seed = 5 })) end)
say('initial', s:run{ v, w })
for _ = 1, 3 do s:run(on(1, function() return v:assign_add{ 1.0, 0.5 } end)) end
say('assigned', s:run{ v, df.reduce_sum(v:value()) + df.reduce_sum(w:value()) })
local q = on(1, function() return df.FIFOQueue(10, { 'float32' }) end)
for i = 1, 3 do s:run(q:enqueue(df.float32(i))) end
say('queue', { s:run(q:dequeue()), s:run(q:dequeue()), s:run(q:size()) })
local _, array = df.while_loop(function(i) return i:lt(6) end, function(i, a)
  return i + 1, a:write(i, on(2, function() return df.tanh(x * df.cast(i, 'float32')) end))
end, { df.int32(0), df.TensorArray('float32', 6) })
local stacked = df.reduce_sum(array:stack())
say('array', s:run({ stacked, df.gradients(stacked, { x })[1] }, { [x] = 0.4 }))
local drawn = on(1, function() return df.random_uniform({ 3 }) end)
local _, walked = df.while_loop(function(i) return i:lt(4) end, function(i, a)
  return i + 1, on(2, function() return a + df.random_normal({}) end)
end, { df.int32(0), df.float32(0) })
for _ = 1, 3 do say('random', { s:run(drawn), s:run(walked) }) end
local loss = on(1, function() return df.reduce_sum(df.square(v:value() - 3.0)) end)
local step = df.train.SGD(0.1):minimize(loss, { variables = { v } })
for _ = 1, 4 do s:run(step) end
say('trained', s:run{ v, loss })

-- what fails does so as it would here
local any = df.placeholder('float64', { -1 })
fails('shapes', on(1, function() return df.reshape(any * 2, { 3, -1 }) end), { [any] = { 1, 2, 3, 4 } })
local _, breaks = df.while_loop(function(i) return i:lt(9) end, function(i, a)
  return i + 1, on(2, function() return df.floordiv(a, df.int32(5) - i) end)
end, { df.int32(0), df.int32(1000) })
fails('in a loop', breaks)
local empty = on(1, function() return df.FIFOQueue(4, { 'float32' }) end)
local waits = on(2, function() return on(1, function() return empty:dequeue() end) * 2 end)
for name, fetch in pairs{ value = waits, effect = on(1, function() return df.group(empty:dequeue()) end) } do
  local ok, err = pcall(s.run, s, fetch)
  if name == 'value' then say('nothing moves', { tostring(ok), err.code, err.op, err.message:match 'nothing can move' }) end
  assert(not ok and err.message:find 'waits for 1 element', err)
end
local late = s:start(waits)
s:run(empty:enqueue(df.float32(21)))
say('filled later', late:wait())
say('goes on', s:run(far, { [row] = { 1, 2, 3, 4 } }))
s:close()
