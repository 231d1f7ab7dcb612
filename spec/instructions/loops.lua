-- loops.lua: one of the loops whose instructions spec/engine/instructions_spec.lua counts: NAME TRIPS, and `values` when the values are to be kept.
-- Everything but the trips is the same for every count, so that the difference of two counts is the loop's alone.
local df = require 'dflow'
local name, trips = arg[1], tonumber(arg[2])

local loops = {}

function loops.counter(n)
  return (df.while_loop(function(i) return i:lt(n) end, function(i) return i + 1 end, { df.int32(0) }))
end

function loops.nested(n)                       -- n trips of the outer loop, 100 each of the inner
  local _, a = df.while_loop(function(i) return i:lt(n) end, function(i, a)
    local _, inner = df.while_loop(function(j) return j:lt(100) end,
      function(j, b) return j + 1, b + 1 end, { df.int32(0), a })
    return i + 1, inner
  end, { df.int32(0), df.float32(0) })
  return a
end

function loops.cond_in_loop(n)
  local _, x = df.while_loop(function(i) return i:lt(n) end, function(i, x)
    return i + 1, df.cond((i % 2):eq(0), function() return x * 1.0001 end, function() return x - 0.0001 end)
  end, { df.int32(0), df.float32(0.5) })
  return x
end

function loops.rnn(n)                          -- the cell of the bench's grad_rnn_loop
  local w = df.constant(df.run(df.random_normal({ 32, 32 }, { seed = 1 }) * 0.17))
  local _, x = df.while_loop(function(i) return i:lt(n) end, function(i, x) return i + 1, df.tanh(df.matmul(x, w)) end,
    { df.int32(0), df.constant(df.run(df.random_normal({ 16, 32 }, { seed = 2 }))) })
  return df.reduce_sum(x)
end

function loops.lstm_gradient(n)                -- n steps of a cell of 16 units, batch 8, forth and back
  local w = df.Variable(df.constant(df.run(df.random_normal({ 32, 64 }, { seed = 1 }) * 0.17)))
  local x, zero = df.constant(df.run(df.random_normal({ 8, 16 }, { seed = 2 }))), df.zeros{ 8, 16 }
  local _, _, h = df.while_loop(function(t) return t:lt(n) end, function(t, c, h)
    local z = df.split(df.matmul(df.concat({ x, h }, 1), w), 4, { axis = 1 })
    c = c * df.sigmoid(z[3] + 1) + df.sigmoid(z[1]) * df.tanh(z[2])
    return t + 1, c, df.tanh(c) * df.sigmoid(z[4])
  end, { df.int32(0), zero, zero })
  return df.reduce_sum(df.gradients(df.reduce_sum(h), w))
end

function loops.softmax(n)
  local x = df.constant(df.run(df.random_normal({ 64, 100 }, { seed = 1 })))
  local _, y = df.while_loop(function(i) return i:lt(n) end, function(i, y) return i + 1, df.softmax(y) end, { df.int32(0), x })
  return df.reduce_sum(y)
end

local n = df.placeholder('int32', {})
local session = df.Session{ threads = 1 }
if arg[3] == 'values' then session:start(loops[name](n), { [n] = trips }, { values = true }):wait()
else session:run(loops[name](n), { [n] = trips }) end
session:close()
