--- Real ends of memory: limits of the process and of a session.
-- run: first
local df = require 'dflow'
local shell = require 'spec.shell'
local support = require 'spec.support'
local same = support.same
local host_it = support.host_it(it, pending)         -- what lies on another device is not the host's; the driver for tests asks for no leave

--- Runs a program under `ulimit -v` of so many megabytes above what it has when it begins.
local function limited(program)
  return shell.run(shell.lua .. ' -', [[
    local df = require 'dflow'
    df.run(df.float32(1) + 1)                -- all that is loaded late is there
    local function size()
      for line in io.lines '/proc/self/status' do
        local kb = line:match '^VmSize:%s+(%d+)'
        if kb then return tonumber(kb) end
      end
    end
    local function limit(megabytes)
      local pid = io.open('/proc/self/stat'):read '*n'
      return os.execute(('prlimit --pid %d --as=%d >/dev/null 2>&1'):format(pid, (size() + megabytes * 1024) * 1024))
    end
    local function is_end(e)
      return tostring(e):match 'not enough memory' or (type(e) == 'table' and e.code == 'resource_exhausted')
    end
  ]] .. program)
end

-- The address and the thread sanitizer take memory of their own, and end the process where there is none.
local sanitizer = (os.getenv 'DFLOW_MODE' or ''):match '^[at]san$'
local has_prlimit = shell.run('prlimit --version').status == 0
local why = not has_prlimit and 'there is no prlimit' or sanitizer and 'a sanitizer ends the process itself'
local limits = why and function(what) pending(('%s (%s)'):format(what, why)) end or it

describe('a process whose memory ends', function()
  limits('gets an error from a run that wants too much, and goes on', function()
    local r = limited [[
      local x = df.placeholder('float32', {-1})
      local n, y = df.while_loop(function(i) return i:lt(40) end, function(i, y) return i + 1, df.concat({y, y}, 0) end,
        {df.int32(0), x}, {shape_invariants = {{}, {-1}}})
      limit(64)
      local ok, e = pcall(df.run, y, {[x] = {1, 2}})
      print(ok, e.code, e.frame)
      print(df.run((x * 2):reduce_sum(), {[x] = {1, 2}}))
    ]]
    assert.equal('', r.err)
    assert.matches('^false\tresource_exhausted\twhile:%d+\n6', r.out)
  end)

  limits('gets an error while it builds a graph without end, and builds and runs the next', function()
    local r = limited [[
      limit(48)
      local ok, e = pcall(function()
        df.Graph():as_default(function()
          local x = df.placeholder('float32', {})
          for i = 1, 1e9 do x = x + i end
        end)
      end)
      print(ok, is_end(e) and 'the end' or tostring(e))
      collectgarbage() collectgarbage()
      df.Graph():as_default(function() print(df.run(df.float32(2) * 3)) end)
    ]]
    assert.equal('', r.err)
    assert.matches('^false\tthe end\n6', r.out)
  end)

  limits('gets an error from a queue that grows without end', function()
    local r = limited [[
      local q = df.FIFOQueue(1e9, {'float32'}, {shapes = {{}}})
      local put, n = q:enqueue_many(df.zeros{100000}), 0
      limit(64)
      local ok, e
      repeat
        ok, e = pcall(df.run, put)
        n = n + 1
      until not ok or n == 10000
      print(ok, e and e.code)
      print(df.run(q:dequeue()))
    ]]
    assert.equal('', r.err)
    assert.matches('^false\tresource_exhausted\n0', r.out)
  end)
end)

--- A control group of so many megabytes: a folder and how it is taken away, or nil where none can be made.
local function control_group(megabytes)
  local name = 'dflow_spec_' .. os.time() .. '_' .. tostring({}):match '%x+$'
  for _, place in ipairs{ { '/sys/fs/cgroup/memory/', 'memory.limit_in_bytes' }, { '/sys/fs/cgroup/', 'memory.max' } } do
    local folder = place[1] .. name
    local made = shell.run(("mkdir %s && echo %d > %s/%s && sh -c 'echo $$ > %s/cgroup.procs'"):format(folder, megabytes * 2 ^ 20, folder, place[2], folder))
    if made.status == 0 then return folder end
    shell.run('rmdir ' .. folder)
  end
end

describe("a process in a container's limit", function()
  local group = not sanitizer and control_group(256)
  local within = group and it or function(what)
    pending(('%s (%s)'):format(what, sanitizer and 'a sanitizer takes memory of its own' or 'no control group can be made'))
  end
  teardown(function() if group then shell.run('rmdir ' .. group) end end)
  local function limited_by_group(program)
    local path = os.tmpname()
    shell.write(path, program)
    local r = shell.run(("sh -c 'echo $$ > %s/cgroup.procs && exec %s %s'"):format(group, shell.lua, path))
    os.remove(path)
    return r
  end

  local on_host = group and host_it or within
  on_host('gets an error from a run that wants too much, is not ended by the system, and goes on', function()
    local r = limited_by_group [[
      local df = require 'dflow'
      local x = df.placeholder('float32', {-1})
      local n, y = df.while_loop(function(i) return i:lt(40) end, function(i, y) return i + 1, df.concat({y, y}, 0) end,
        {df.int32(0), x}, {shape_invariants = {{}, {-1}}})
      for _ = 1, 3 do
        local ok, e = pcall(df.run, y, {[x] = {1, 2}})
        print(ok, e.code, e.frame)
      end
      local ok, e = pcall(df.run, df.ones{ 2 ^ 28 } * df.placeholder_with_default(2.0))
      print(ok, e.code)
      print(df.run((x * 2):reduce_sum(), {[x] = {1, 2}}))
      for _ = 1, 100 do assert(df.run(df.ones{ 2 ^ 23 }:reduce_sum()) == 2 ^ 23) end        -- what is given back can be had again
      print 'done'
    ]]
    assert.equal('', r.err)
    assert.equal(0, r.status)
    assert.matches('^' .. ('false\tresource_exhausted\twhile:%d+\n'):rep(3) .. 'false\tresource_exhausted\n6%.?0?\ndone\n$', r.out)
  end)

  within('gets it of a simulated device, too', function()
    local r = limited_by_group [[
      local df = require 'dflow'
      local s = df.Session{ devices = { 'cpu:0', 'sim:0' } }
      local x = df.placeholder('float32', {-1})
      local _, y = df.while_loop(function(i) return i:lt(40) end, function(i, y)
        return i + 1, df.device('sim:0', function() return df.concat({y, y}, 0) end)
      end, {df.int32(0), x}, {shape_invariants = {{}, {-1}}})
      for _ = 1, 3 do
        local ok, e = pcall(s.run, s, y, {[x] = {1, 2}})
        print(ok, e.code, e.frame)
      end
      print(s:run(df.device('sim:0', function() return (x * 2):reduce_sum() end), {[x] = {1, 2}}))
    ]]
    assert.equal('', r.err)
    assert.equal(0, r.status)
    assert.matches('^' .. ('false\tresource_exhausted\twhile:%d+\n'):rep(3) .. '6%.?0?\n$', r.out)
  end)

  within('counts what tensors were given and have not touched yet', function()
    if not rawget(_G, 'jit') then return pending 'only LuaJIT calls the header' end
    local r = limited_by_group [[
      local ffi = require 'ffi'
      ffi.cdef 'void *df_tensor_new(int32_t, int32_t, const int64_t *, void *); void *df_tensor_data(void *); void df_tensor_release(void *);'
      local lib, n = ffi.load(os.getenv 'DFLOW_LIB'), 60 * 2 ^ 20
      local function make() return lib.df_tensor_new(4, 1, ffi.new('int64_t[1]', n), nil) end
      for _ = 1, 2 do
        local list = {}
        repeat
          local t = make()
          if t ~= nil then list[#list + 1] = t end
        until t == nil or #list == 8
        print(#list)
        for _, t in ipairs(list) do ffi.fill(lib.df_tensor_data(t), n, 1) end
        for _, t in ipairs(list) do lib.df_tensor_release(t) end
      end
    ]]
    assert.equal('', r.err)
    assert.equal(0, r.status)
    local first, second = r.out:match '^(%d+)\n(%d+)\n$'
    assert.is_true(tonumber(first) >= 2 and tonumber(first) <= 4, r.out)
    assert.equal(first, second)                                  -- what was given back can be had again
  end)

  within('gets an error while it builds a graph without end in it, and builds and runs the next', function()
    local r = limited_by_group [[
      local df = require 'dflow'
      df.run(df.float32(1) + 1)
      local ok, e = pcall(function()
        df.Graph():as_default(function()
          local x = df.placeholder('float32', {})
          for i = 1, 1e9 do x = x + i end
        end)
      end)
      print(ok, type(e) == 'table' and e.code or tostring(e):match 'not enough memory' and 'resource_exhausted')
      collectgarbage() collectgarbage()
      df.Graph():as_default(function() print(df.run(df.float32(2) * 3)) end)
    ]]
    assert.equal('', r.err)
    assert.equal(0, r.status)
    assert.matches('^false\tresource_exhausted\n6', r.out)
  end)

  within('gets an error from a queue that grows without end in it', function()
    local r = limited_by_group [[
      local df = require 'dflow'
      local q = df.FIFOQueue(1e9, {'float32'}, {shapes = {{}}})
      local put, n = q:enqueue_many(df.zeros{100000}), 0
      local ok, e
      repeat
        ok, e = pcall(df.run, put)
        n = n + 1
      until not ok or n == 10000
      print(ok, e and e.code)
      print(df.run(q:dequeue()))
    ]]
    assert.equal(0, r.status)
    assert.matches('^false\tresource_exhausted\n0', r.out)
  end)
end)

describe("a session's memory", function()
  --- Runs put until it fails; how often it did not, and the error.
  local function fill(put, most)
    collectgarbage()
    collectgarbage()
    local s = df.Session{ memory = df.stats().memory['cpu:0'].in_use + 4 * 2 ^ 20 }
    for n = 0, most do
      local ok, e = pcall(s.run, s, put)
      if not ok then return n, e, s end
    end
    return most, nil, s
  end

  host_it('limits tensors and what queues hold of them together', function()      -- on the host
    local q = df.FIFOQueue(1e6, { 'float32' }, { shapes = { { 25000 } } })
    local n, e, s = fill(q:enqueue(df.zeros{ 25000 } + df.placeholder_with_default(1.0)), 100)
    assert.is_true(n >= 20 and n <= 42, n .. ' elements of 100 KB in 4 MB')
    assert.equal('resource_exhausted', e.code)
    same(s:run(q:size()), n)
    for _ = 1, n do s:run(q:dequeue()) end
    collectgarbage()
    collectgarbage()                                             -- what was dequeued
    same(s:run(df.ones{ 250000 }:reduce_sum()), 250000)         -- there is room again
  end)

  it('has room again after a run that found none: what earlier ones gave and has no holder is let go', function()
    local y = df.zeros{ 250000 } + df.placeholder_with_default(1.0)
    local n, e, s = fill(y, 100)
    assert.is_true(n >= 2 and n < 100, n .. ' results of 1 MB in 4 MB')
    assert.equal('resource_exhausted', e.code)
    same(s:run(y:reduce_sum()), 250000)
  end)

  host_it('is the session\'s own, whether it is said of it or of its cpu:0: others have what they had', function()
    local x = df.reduce_sum(df.random_normal({ 1000, 1000 }))
    for _, opts in ipairs{ { memory = '1MB' }, { devices = { { 'cpu:0', memory = '1MB' } } },
                           { devices = { { 'cpu:0', memory = '1MB' } }, memory = '1GB' },
                           { devices = { { 'cpu:0', memory = '1GB' } }, memory = '1MB' } } do
      local s = df.Session(opts)
      assert.equal('resource_exhausted', select(2, pcall(s.run, s, x)).code)
      assert.is_number(df.run(x))
      s:close()
      assert.is_number(df.run(x))
    end
  end)

  it('limits the numbers that a queue holds', function()
    local q = df.FIFOQueue(1e7, { 'int32' }, { shapes = { {} } })
    local n, e, s = fill(q:enqueue_many(df.zeros({ 4096 }, 'int32')), 200)
    assert.is_true(n < 100, n .. ' times 4096 numbers of 16 bytes in 4 MB')
    assert.equal('resource_exhausted', e.code)
    assert.matches('out of memory for another element of queue', tostring(e))
    assert.is_true(s:run(q:size()) >= 4096 * n)
    same(s:run(q:dequeue()), 0)
  end)
end)

describe('the house', function()
  it('frees bookkeeping with dfi_free: the reserve may have given it', function()
    local free = { ['base/memory.c'] = true, ['base/bookkeeping.c'] = true, ['base/tensor.c'] = true, ['base/file.c'] = true,
                   ['base/writer.c'] = true, ['base/devmem.c'] = true, ['ops/print.c'] = true, ['engine/native/tell.c'] = true,
                   ['engine/native/llvm/jit.c'] = true, ['engine/native/compile.c'] = true,      -- object files are malloc's
                   ['engine/owners/message.c'] = true, ['engine/owners/rank.c'] = true,         -- so are the bytes of messages between processes
                   ['base/hdf5.c'] = true,                           -- a forked child, which must not wait for the reserve's lock
                   ['cluster/mpi/plugin.c'] = true }                                            -- links to nothing of libdflow
    local wrong = {}
    local calls = [=[grep -rnE '(^|[^_>.[:alnum:]])(free|malloc|calloc|realloc|strdup)\(' runtime --include='*.c']=]
    for line in shell.run(calls).out:gmatch '[^\n]+' do
      if not free[line:match '^runtime/([^:]+)'] then wrong[#wrong + 1] = line end
    end
    assert.same({}, wrong)
  end)
end)
