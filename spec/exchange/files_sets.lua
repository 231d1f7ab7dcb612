--- What is written as several files, or again and again, for files_spec.lua: each kind writes its k-th state, all of whose numbers
-- are k, and reads which one is there.
local df = require 'dflow'

local M = {}
local N = 30000

--- The one number that all of these tensors hold.
local function only(list)
  local k
  for name, t in pairs(list) do
    local low, high = t:at(0), t:at(t.size - 1)
    assert(low == high and low == (k or low), ('%s begins with %s and ends with %s, beside %s'):format(name, low, high, tostring(k)))
    k = low
  end
  return math.floor(assert(k, 'there is nothing in it'))
end

local function state(k) return df.tensor(k, 'float32', { N }) end

local variables
local function given(k)
  if not variables then
    variables = {}
    for i = 1, 3 do variables[i] = df.Variable(function() return df.zeros{ N } end, { name = 'v' .. i }) end
  end
  for _, v in ipairs(variables) do v:load(state(k)) end
  return { variables = variables }
end

local function restored(path)
  given(-1)
  df.restore(path, { variables = variables })
  local list = {}
  for _, v in ipairs(variables) do list[v.name] = df.run(v) end
  return only(list)
end

M.checkpoint = {
  write = function(path, k) df.save_checkpoint(path, { a = state(k), b = state(k) }) end,
  read = function(path) return only(df.load_checkpoint(path)) end,
}
M.variables = { write = function(path, k) df.save(path, given(k)) end, read = restored }
M.shards = {
  write = function(path, k)
    local opts = given(k)
    opts.shard_bytes = N * 5
    df.save(path, opts)
  end,
  read = function(path) return restored(path .. '.index.json') end,
}
local saver
local function saver_of(opts)
  given(0)
  opts.variables = variables
  saver = saver or df.train.Saver(opts)
  return saver
end
local function latest(opts)
  return function(path)
    saver = nil
    return restored(assert(saver_of(opts):latest(path), 'there is none'))
  end
end
for name, opts in pairs{ saver = { max_to_keep = 2 }, saver_of_shards = { max_to_keep = 2, shard_bytes = N * 5 },
                         background = { max_to_keep = 2, background = true } } do
  M[name] = {
    write = function(path, k)
      local s = saver_of(opts)
      given(k)
      s:save(path, { step = k })
      s:wait()
    end,
    read = latest(opts),
  }
end

--- Writes states while a sector is bad, the first that is written to, then the second, … (sectors.c): each time the state before it, or it,
-- is there, whole, and the next one can be written. Gives how often one was met until one was not.
local function bad_sectors(kind, path, least)
  local folder, met, k, n = path:match '^(.*)/', 0, 0, 0
  repeat
    n = n + 1
    kind.write(path, k + 1)
    io.open(('%s/bad-%d'):format(folder, n))
    local ok, e = pcall(kind.write, path, k + 2)
    io.open(folder .. '/bad-0')
    local now = kind.read(path)
    assert(now == k + 2 or (not ok and now == k + 1), ('sector %d: %s, and state %d of %d is there'):format(n, ok and 'no error' or tostring(e), now, k + 2))
    assert(ok or (e.code == 'data_loss' and tostring(e):find(folder, 1, true)), tostring(e))
    assert(n > 1 or not ok, 'no sector was met')
    kind.write(path, k + 3)
    assert(kind.read(path) == k + 3)
    k, met, n = k + 3, met + (ok and 0 or 1), ok and 0 or n
  until ok and met >= least
  return met
end

if arg and arg[0] and arg[0]:match 'files_sets%.lua$' and arg[3] == 'bad' then     -- dflow files_sets.lua KIND PATH bad HOW_OFTEN
  print('met', bad_sectors(M[arg[1]], arg[2], tonumber(arg[4])))
elseif arg and arg[0] and arg[0]:match 'files_sets%.lua$' then       -- dflow files_sets.lua KIND PATH FIRST [for ever]
  local kind, path, k, forever = M[arg[1]], arg[2], tonumber(arg[3]), arg[4]
  repeat
    local ok, e = pcall(kind.write, path, k)
    if not forever or not ok then print(ok and 'ok' or tostring(type(e) == 'table' and e.code or 'none') .. ' ' .. tostring(e)) end
    k = k + 1
  until not forever or not ok
end

return M
