--- Programs for gpu:0 and for loops that it runs as graphs: what the specs of these share.
local support = require 'spec.support'
local M = {}

local build, mode = os.getenv('DFLOW_BUILD'), os.getenv('DFLOW_MODE') or ''
-- is the driver for tests here?
M.here = build and io.open(build .. '/strict/libcuda.so.1') and not (mode == 'asan' or mode == 'tsan' or mode == 'ubsan')
-- gpu-check reads these specs too, on the GPU that there is
M.hardware = os.getenv 'DFLOW_DEFAULT_DEVICE' == 'gpu:0' and (os.getenv 'DFLOW_CUDA_DRIVER' or '') == ''
local driver = M.hardware and '' or 'DFLOW_CUDA_DRIVER=strict '

--- What Lua code writes in the program with gpu:0, on the driver for tests; env: settings of the shell before it.
function M.gpu(code, env)
  local path = os.tmpname()
  local f = assert(io.open(path, 'w'))
  f:write(code)
  f:close()
  local p = assert(io.popen(('env -u DFLOW_DEFAULT_DEVICE DFLOW_CUDA_DRIVER=strict %s timeout 900 %s/dflow %s 2>&1'):format(env or '', build, path)))
  local out = p:read('*a')
  p:close()
  os.remove(path)
  return (out:gsub('%s+$', ''))
end

-- Every program begins with this: `loop` builds a while_loop of `trips` on gpu:0, `both` runs it under tokens and as a graph and compares bits and
-- counts, and says how the loop ran.
local prelude = [[
local support = require 'spec.support'
local w = df.constant({ { 0.5, -0.3 }, { 0.2, 0.8 } })
local x0 = df.constant({ { 1.0, 2.0 } })
local one = df.device('gpu:0', function() return df.placeholder('float32', { 1, 1 }) end)        -- so that what it goes into is there
local fed = df.run(df.constant({ { 1.0 } }))
local y0, z0 = df.device('gpu:0', function() return x0 * one, x0 * one * 3 end)
local function loop(trips, body, vars, options)
  return df.device('gpu:0', function()
    return { df.while_loop(function(i) return i:lt(trips) end, body, vars, options) }
  end)
end
-- the same, where the GPU computes the predicate: a number that is there reaches `limit`
local function loop_there(limit, body, vars)
  local unpack = table.unpack or unpack
  local more = { unpack(vars) }
  more[#more + 1] = one
  return df.device('gpu:0', function()
    return { df.while_loop(function(...) return select(select('#', ...), ...):reduce_sum():lt(limit) end, function(...)
      local all = { ... }
      local last = table.remove(all)
      local made = { body(unpack(all)) }
      made[#made + 1] = last + 1
      return unpack(made)
    end, more) }
  end)
end
local function under(engine, fetches, feeds, runs)
  local s = df.Session{ engine = engine }
  local found
  feeds = feeds or {}
  feeds[one] = fed
  for _ = 1, runs or 1 do found = s:run(fetches, feeds) end
  local c, how = s:stats(), s:native()
  local moved = {}
  for _, l in ipairs(c.links or {}) do moved[#moved + 1] = ('%s %d %d'):format(l.from, l.messages, l.bytes) end
  s:close()
  return support.bits(found), ('%d nodes, %d dead, %d frames, %d iterations; %s'):format(c.nodes_run, c.dead_tokens, c.frames, c.iterations,
    table.concat(moved, ', ')), how
end
local function same(a, b)
  if type(a) ~= 'table' then return a == b end
  for k, v in pairs(a) do if not same(v, b[k]) then return false end end
  return true
end
local function both(name, fetches, feeds, runs)
  local a, counts, _ = under('tokens', fetches, feeds, runs)
  local b, counted, how = under('native', fetches, feeds, runs)
  if not same(a, b) then print(name .. ': other bits') end
  if counts ~= counted then print(name .. ': ' .. counts .. ' but ' .. counted) end
  return how
end
local function says(how, what) if not how:find(what) then print('not `' .. what .. '`: ' .. how) end end
-- A loop called `long`, which does not end: it is paused, stepped, cancelled and too late as any other.
local function stands_still(out, feeds)
  local s = df.Session{ engine = 'native' }
  local h = s:start(out, feeds)
  while not s:native():find 'launches' do os.execute 'sleep 0.02' end
  h:pause()
  local f = h:frames()
  if #f < 2 or f[2].name ~= 'long' or f[2].iteration and f[2].iteration < 16 then print('frames', #f, f[2] and f[2].name) end
  local first = h:step(1, 'iteration')
  local stop = h:step(3, 'iteration')
  if stop.frame ~= 'long' or stop.iteration ~= first.iteration + 3 then print('stepped', first.tag, stop.tag) end
  h:resume()
  h:cancel()
  local ok, err = pcall(h.wait, h)
  if ok or err.code ~= 'cancelled' then print('cancelled', err) end
  s:close()
  s = df.Session{ engine = 'native', timeout = 1 }
  ok, err = pcall(s.run, s, out, feeds)
  if ok or err.code ~= 'deadline_exceeded' or not tostring(err.frame):find '^long:%d+$' then print('too late', ok, err) end
  s:close()
end
local AS_KERNEL = 'one kernel of gpu:0: %d+ iterations in %d+ launches'
local AS_GRAPH = 'a graph of gpu:0: %d+ iterations in %d+ launches'
]]

--- `it`, of such a loop: pending without the driver, and where ops are sent to random devices, as a graph is one device's.
function M.gpu_it(it, pending) return M.here and support.ordered_it(it, pending) or pending end

--- Runs Lua code in the program; gives what it wrote. Loops are one kernel where they can be.
function M.persistent(code, env)
  local path = os.tmpname()
  local f = assert(io.open(path, 'w'))
  f:write(prelude, code)
  f:close()
  local p = assert(io.popen(('%s%s timeout 300 %s/dflow %s 2>&1'):format(driver, env or '', build, path)))
  local out = p:read('*a')
  p:close()
  os.remove(path)
  return (out:gsub('%s+$', ''))
end

--- The same; loops are graphs, and never one kernel.
function M.program(code, env)
  local words, n = (env or ''):gsub('DFLOW_STRESS=%S+', '%0,graphs')
  return M.persistent(code, n == 0 and words .. ' DFLOW_STRESS=graphs ' or words)
end

return M
