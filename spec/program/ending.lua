--- A program that ends while something is at work: `ending.lua BUSY WAY MILLISECONDS`. See ending_spec.lua.
local df = require 'dflow'
local busy, way, ms = arg[1], arg[2], tonumber(arg[3])

local function many(body, x)
  local _, y = df.while_loop(function(i) return i:lt(1000000000) end, function(i, v) return i + 1, body(v) end, { df.int32(0), x })
  return y
end

local at_work = {
  -- a loop that has just become hot: its code is being made
  compiling = function()
    local _, y = df.while_loop(function(i) return i:lt(20000) end, function(i, s) return i + 1, s * 0.5 + 1 end,
      { df.int32(0), df.float32(0) })
    df.run(y)
  end,
  looping = function() return df.start(many(function(v) return v * 0.5 + 1 end, df.float32(0))) end,
  multiplying = function() return df.start(many(function(v) return v:matmul(v) end, df.zeros{ 600, 600 })) end,
  convolving = function()
    local w = df.zeros{ 3, 3, 16, 16 }
    return df.start(many(function(v) return df.conv2d(v, w, { strides = { 1, 1, 1, 1 }, padding = 'SAME' }) end, df.zeros{ 4, 64, 64, 16 }))
  end,
  factoring = function() return df.start(many(function(v) return (df.qr(v)) end, df.eye(150))) end,
  adding = function() return df.start(many(function(v) return v + 1 end, df.zeros{ 3000000 })) end,
  standing = function() return df.start(many(function(v) return v + 1 end, df.zeros{ 3 }), nil, { paused = true }) end,
}

local function fork()
  local ffi = require 'ffi'
  ffi.cdef 'int fork(void); int waitpid(int, int *, int);'
  io.stdout:flush()
  local child = ffi.C.fork()
  if child == 0 then
    df.run(df.constant(1) + 1)
    os.exit(0)
  end
  local status = ffi.new 'int[1]'
  ffi.C.waitpid(child, status, 0)
  os.exit(status[0] == 0 and 0 or 9)
end

local ways = {
  exit   = function() os.exit(0) end,
  close  = function() os.exit(0, true) end,
  return_ = function() end,
  error  = function() error('as was to be', 0) end,
  signal = function() io.stdout:flush() os.execute('kill -TERM $PPID') end,
  fork   = fork,
}

local run = at_work[busy]()                  -- luacheck: ignore
print('printed')
local t = os.clock()
while os.clock() - t < ms / 1000 do end
ways[way]()
