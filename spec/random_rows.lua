--- Random programs of elementwise ops, folds, softmax and shapes that are told late: in one pass, and op by op.
-- DFLOW_STRESS=groups build/release/dflow -e "print(require 'spec.random_rows'.differences(df, 1, 1000))" reads a thousand.
local support = require 'spec.support'
local dice = require('spec.chance').dice
local M = {}

--- A tensor that is fed, of which some dimensions are not known before; those of a row are.
local function fed(df, pick, feeds, dims, dtype, lead, seed)
  local known, t = {}, support.tensor(dims, -3, 3, 'float32', seed)
  for d, n in ipairs(dims) do known[d] = (d > lead or pick(3) == 1) and n or -1 end
  local p = df.placeholder(dtype, known)
  feeds[p] = dtype == 'float32' and t or df.run(df.cast(df.constant(t) * (dtype == 'float64' and 1 or 5), dtype))
  return p
end

--- Shapes as an op is given them: constant, computed, or fed. The places for what is fed stand at the top level.
local function shapes_of(df, pick, feeds, most)
  local place, at = {}, 0
  for i = 1, 12 do
    place[i] = { one = df.placeholder('int32', {}), [0] = df.placeholder('int32', { -1 }) }
    for n = 1, most do place[i][n] = df.placeholder('int32', { n }) end
  end
  return function(dims)
    local how, p = pick(3), place[at % #place + 1]
    if how == 1 and pick(2) == 1 or #dims == 0 or at == #place then return df.constant(df.tensor(dims, 'int32')) end
    at = at + 1
    if how == 2 then
      local parts = { p.one }
      feeds[p.one] = dims[1]
      for i = 2, #dims do parts[i] = df.int32(dims[i]) end
      return df.stack(parts)
    end
    local all = pick(3) == 1 and p[0] or p[#dims]
    feeds[all] = dims
    return all
  end
end

--- Other dimensions for what has these, mostly of as many elements.
local function others(pick, dims)
  local t, size = {}, 1
  for i, d in ipairs(dims) do t[i], size = d, size * d end
  local how = pick(6)
  if how < 3 then t[1], t[#t] = t[#t], t[1]
  elseif how < 5 then for i = 1, #t do t[i] = i == #t and size or 1 end
  elseif how == 5 then t[pick(#t)] = pick(4) - 1 end
  return t
end

--- What program `seed` computes: outputs, feeds.
function M.build(df, seed)
  local pick = dice(seed)
  local rank, dims, feeds = pick(3) + 1, {}, {}
  for d = 1, rank do dims[d] = pick(14) == 1 and 0 or pick(5) end
  dims[rank] = ({ 2, 3, 16, 64, 255, 256, 300, 1025, 3000 })[pick(9)]
  local two = rank > 2 and pick(3) == 1
  local lead, row, leads = two and rank - 2 or rank - 1, {}, {}
  for d = 1, rank do if d > lead then row[#row + 1] = dims[d] else leads[d] = dims[d] end end
  local dtype = ({ 'float32', 'float32', 'float64', 'int32' })[pick(4)]
  local x, y = fed(df, pick, feeds, dims, dtype, lead, seed), fed(df, pick, feeds, dims, dtype, lead, seed + 1)
  local axis, shape = two and { -2, -1 } or { -1 }, shapes_of(df, pick, feeds, rank)
  local front = {}
  for d = 1, lead do front[d] = d - 1 end
  local low = fed(df, pick, feeds, row, dtype, 0, seed + 2)
  local whole, fetch = dtype == 'int32', {}

  --- What is made of one of the full ones; one element a row, or all.
  local step = {
    function(s) return whole and df.abs(s) + 1 or df.sqrt(df.abs(s)) + 1 end,
    function(s) return df.reshape(s, shape(others(pick, leads))) end,
    function(s)
      local t = others(pick, leads)
      for _ in ipairs(row) do t[#t + 1] = 1 end
      return df.reshape(s, shape(t))
    end,
    function(s)
      local t = others(pick, leads)
      for _, d in ipairs(row) do t[#t + 1] = d end
      return df.broadcast_to(s, shape(t))
    end,
    function(s) return df.maximum(s, s * 3 - 1) end,
    function(s, f) return f - s end,
    function(s, f) return df.where(f:gt(s), f, y) end,
    function(_, f) return f * df.reverse(low, { 0 }) end,
    function(s) return df.expand_dims(s, -1) end,
    function(s) return whole and s % 7 or df.softmax(s) end,
  }
  local function total(v) return df.reduce_sum(df.reshape(v, { -1 }), { axis = 0 }) end
  local function fold() return df[({ 'reduce_sum', 'reduce_max', 'reduce_mean', 'reduce_min' })[pick(4)]] end
  local function body(v)
    local f = whole and v * y or df.tanh(v) * y
    local s = fold()(f, { axis = axis, keep_dims = pick(2) == 1 })
    for _ = 1, pick(5) do
      local ok, r = pcall(step[pick(#step)], s, f)
      if ok then s = r end
      if pick(4) == 1 then fetch.more = s end
    end
    if pick(3) == 1 then s = s + total(fold()(pick(2) == 1 and f or f * 2 - y, { axis = front, keep_dims = pick(2) == 1 })) end
    return s
  end

  local how = pick(4)
  if how == 1 then
    local p = df.placeholder('bool', {})
    feeds[p] = pick(2) == 1
    fetch[1] = df.cond(p, function() return total(body(x)) end, function() return total(body(y)) * 2 end)
  elseif how == 2 then
    fetch[2], fetch[1] = df.while_loop(function(i) return i:lt(3) end,
      function(i, a) return i + 1, a + total(body(x * df.cast(i, dtype))) end, { df.int32(0), df.cast(0, dtype) })
  else
    fetch[1] = body(x)
    fetch[2] = fetch.more
  end
  fetch.more = nil
  if whole then return fetch, feeds end
  local ok, g = pcall(df.gradients, total(fetch[1]), x, { unconnected = 'zero' })      -- where it is seen to be none it is none
  fetch[#fetch + 1] = ok and g or nil
  return fetch, feeds
end

local function found(ok, values)
  if not ok then return (tostring(values):gsub('(in frame [^\n]*):%d+', '%1'):gsub('\n  asked for at [^\n]*', '')) end      -- which iteration is the first to fail is open
  local t = {}
  for i, v in ipairs(values) do t[i] = { shape = support.is_tensor(v) and table.concat(v.shape, 'x'), value = support.bits(v) } end
  return t
end

local function equal(a, b)
  if type(a) ~= 'table' or type(b) ~= 'table' then return a == b end
  for k, v in pairs(a) do if not equal(v, b[k]) then return false end end
  for k in pairs(b) do if a[k] == nil then return false end end
  return true
end

--- How many of these programs give other values, shapes or errors where each op runs alone; their seeds are printed.
function M.differences(df, first, last)
  local n = 0
  for seed = first, last do
    df.reset()
    local fetch, feeds = M.build(df, seed)
    local s = df.Session{ threads = 2 }
    local together = found(pcall(s.run, s, fetch, feeds))
    local alone = found(pcall(function() return s:start(fetch, feeds, { values = true }):wait() end))
    s:close()
    if not equal(together, alone) then
      n = n + 1
      print('program ' .. seed)
    end
  end
  return n
end

return M
