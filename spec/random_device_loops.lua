--- Random loops whose tensors lie on a GPU, for graphs of it: predicates by the counter, by the GPU or by both, conds (nested ones, by whose word ever),
-- TensorArrays that are read, written, cleared, grown and chained, and their gradients; where asked for, loops inside (a number of times, as often as
-- the counter says, or until the GPU has had enough; in each other, in sides of conds). `check` runs a program under tokens and as graphs, in one
-- session each, and compares bits and counts; and with what the host alone computes.
-- Plain ones have neither arrays nor gradients, but folds of rows and numbers of the host's: they are one kernel.
-- DFLOW_CUDA_DRIVER=strict DFLOW_STRESS=osr:1 build/release/dflow -e "print(require 'spec.random_device_loops'.differences(df, 1, 1000))"
local support = require 'spec.support'
local generator = require('spec.chance').minimal
local M = {}

local Maker = {}
Maker.__index = Maker

--- Values stay within bounds, and most of what is done to them is exact, so that every device has the same bits.
function Maker:op(a, b)
  if self.plain and self.rand(3) == 1 then return self:fold(a, b) end
  local df, k = self.df, self.rand(self.curved and 9 or 8)
  if k == 1 then return a * 0.5 + b * 0.25 elseif k == 2 then return a * 0.5 - b * 0.5 elseif k == 3 then return df.maximum(a, b) * 0.75
  elseif k == 4 then return df.minimum(a, b) + 0.125 elseif k == 5 then return -a elseif k == 6 then return df.where(a:gt(b), a * 0.5, b)
  elseif k == 7 then return df.abs(a) - 0.5 elseif k == 8 then return a * 0.5 + df.cast(self:number(3), a.dtype) * 0.25
  else return df.tanh(a + b) end
end

--- A small number of the counter's: in a loop inside the GPU counts, which has no remainders.
function Maker:number(n)
  if self.within == 0 then return self.i % n end
  return self.df.maximum(n - 1 - self.i, 0)
end

--- Of a row, by both axes or by one; and numbers of the host's, whole or by a cond.
function Maker:fold(a, b)
  local df, k = self.df, self.rand(7)
  if k == 1 then return a * 0.5 + df.reduce_mean(b, 1, { keep_dims = true }) * 0.25 elseif k == 2 then return a * 0.5 - df.reduce_max(b) * 0.5
  elseif k == 3 then return df.reduce_min(a, 0, { keep_dims = true }) * 0.5 + b * 0.25
  elseif k == 4 then return df.where(df.reduce_any(a:gt(b), 1, { keep_dims = true }), a, b) * 0.5
  elseif k == 5 then return df.reshape(df.reduce_sum(a, 0), { 1, self.width }) * 0.25 + b * 0.5
  elseif k == 6 then return a * 0.5 + df.cast(df.cond((self.i % 2):eq(0), function() return self.i * 3 end, function() return -self.i end) % 5, a.dtype) * 0.125
  else return df.cast(df.cast(a * 8, 'int32') % 7 + self.i % 2, a.dtype) * 0.125 + b * 0.5 end
end

function Maker:any(values) return values[self.rand(#values)] end

function Maker:pred(values)
  local k = self.rand(5)
  if k == 1 then return self:number(1 + self.rand(3)):eq(0) end
  if k == 2 then return self.flag end
  return self:any(values):reduce_sum():lt((self.rand(9) - 5) / 4)
end

--- An element: of the rows that were given, at this iteration's place, or at another one; of the chain, that before it.
function Maker:element(values)
  local k = self.rand(4)
  if k == 1 and self.chain then return self.chain:read(self.i) end
  if self.clears or k == 2 then return self.once and self:any(values) or self:at_i() end
  if k == 3 then return self.xs:read((self.i * 3 + 1) % self.given) end
  return self.xs:read(self.i)
end
function Maker:at_i() self.once = self.clears return self.xs:read(self.i) end

function Maker:cond(values, depth)
  local df = self.df
  local function side()
    local mine, chain = {}, self.chain
    for i, v in ipairs(values) do mine[i] = v end
    local y = self:value(mine, depth - 1)
    self.chain = chain
    return y
  end
  local once = self.once
  return df.cond(self:pred(values), side, function() self.once = once or self.once return side() end)
end

--- A loop inside, of one or two variables.
function Maker:inner(values, depth)
  local df, kind, n = self.df, ({ 1, 2, 3, 4, 1, 4, 3 })[self.rand(7)], self.rand(2)
  local outer, xs, chain = self.i, self.xs, self.chain
  local trips = kind == 1 and self.rand(5) - 1 or kind == 2 and 30 + self.rand(20) or df.minimum(self.i, self.rand(4))
  local init, enough, either = { df.int32(0) }, self.rand(6) - 1, self.rand(2) == 1
  for k = 1, n do init[k + 1] = self:any(values) end
  init[n + 2] = self.zero
  self.within, self.xs, self.chain = self.within + 1, nil, nil
  local out = { df.while_loop(function(j, ...)
    if kind < 4 then return j:lt(trips) end
    local there = (select(n + 1, ...)):reduce_sum():lt(enough)
    return either and there or df.logical_and(j:lt(3), there)
  end, function(j, ...)
    local all, mine, made = { ... }, {}, { j + 1 }
    self.i = j
    for i, v in ipairs(values) do mine[i] = v end
    for k = 1, n do mine[#mine + 1] = all[k] end
    for k = 1, n do made[k + 1] = self:op(self:value(mine, depth - 1), all[self.rand(n)]) end
    made[n + 2] = all[n + 1] + 1
    return df.unpack(made)
  end, init) }
  self.i, self.xs, self.chain, self.within = outer, xs, chain, self.within - 1
  if self.rand(3) == 1 then return out[n + 1] + df.cast(out[1], self.dtype) * 0.125 end
  return out[1 + self.rand(n)]
end

function Maker:value(values, depth)
  if self.inners and depth > 0 and self.rand(3) == 1 then return self:op(self:inner(values, depth), self:any(values)) end
  local k = self.rand(8)
  if k <= 2 and depth > 0 then return self:op(self:cond(values, depth), self:any(values)) end
  if k <= 4 and self.xs then return self:op(self:element(values), self:any(values)) end
  return self:op(self:any(values), self:any(values))
end

--- What the array has behind this iteration: written at once, or in the sides of a cond.
function Maker:written(array, at, values)
  local df = self.df
  if self.rand(4) > 1 then return array:write(at, self:any(values)) end
  local a, b = self:any(values), self:any(values)
  return df.cond(self:pred(values), function() return array:write(at, a) end, function() return array:write(at, b * 0.5) end)
end

--- The loop's own arrays: { how, handle }. A chain has an element more, which is there before the loop.
function Maker:arrays(h0)
  local df, out = self.df, {}
  for k = 1, self.rand(3) - 1 do
    local how = self.rand(3)
    local a = df.TensorArray(self.dtype, how == 3 and 0 or how == 2 and self.trips + 1 or self.trips, { dynamic_size = how == 3 })
    out[k] = { how, how == 2 and a:write(0, h0) or a }
  end
  return out
end

function Maker:loop(vars, arrays)
  local df, n = self.df, #vars
  local init = { df.int32(0) }
  for _, v in ipairs(vars) do init[#init + 1] = v end
  init[#init + 1] = self.zero                    -- counts on the GPU
  for _, a in ipairs(arrays) do init[#init + 1] = a[2] end
  local kind, asks = self.rand(3), self.rand(5)
  local function pred(i, ...)
    local there = (select(n + 1, ...)):reduce_sum():lt(self.limit)
    if asks == 1 then
      local count, first = (select(n + 1, ...)), (...)
      there = df.cond(first:reduce_sum():lt(0.25), function() return (count * 2):reduce_sum():lt(self.limit * 2) end, function() return there end)
    end
    return kind == 1 and i:lt(self.n) or kind == 2 and there or df.logical_and(i:lt(self.n + 5), there)
  end
  return { df.while_loop(pred, function(i, ...)
    local all, values, out = { ... }, {}, { i + 1 }
    self.i, self.once, self.chain = i, false, nil
    for k = 1, n do values[k] = all[k] end
    for k, a in ipairs(arrays) do if a[1] == 2 then self.chain = all[n + 1 + k] end end
    for _ = 1, self.rand(3) do values[#values + 1] = self:value(values, 2) end
    for k = 1, n do out[k + 1] = self.rand(4) == 1 and all[self.rand(n)] or self:op(values[#values - (k - 1) % #values], self:any(values)) end
    out[n + 2] = all[n + 1] + 1
    for k, a in ipairs(arrays) do out[n + 2 + k] = self:written(all[n + 1 + k], a[1] == 2 and i + 1 or i, values) end
    return df.unpack(out)
  end, init, { parallel_iterations = self:any{ 1, 4, 32 } }) }
end

--- The fetches, the feeds, whether every device has the same bits, and feeds of later runs, where constants are others. On `device`;
-- with loops inside, or plain.
function M.build(df, seed, device, inners, plain)
  df.reset()
  local rand = generator(seed)
  for _ = 1, 5 do rand(2) end
  local self = setmetatable({ df = df, rand = rand, dtype = rand(4) == 1 and 'float64' or 'float32', trips = 5 + rand(40), curved = rand(3) == 1, within = 0,
    inners = inners, plain = plain }, Maker)
  local width, feeds, fetches = ({ 1, 2, 3, 16, 17 })[rand(5)], {}, {}
  self.width = width
  self.clears, self.given = rand(4) == 1, self.trips + 5
  local x = df.cast(df.reshape(df.range(self.given * width), { self.given, 1, width }) % 17, self.dtype) * 0.125 - 1.0
  df.device(device, function()
    local one = df.placeholder(self.dtype, { 1, 1 })
    self.one = one
    self.n, self.flag = df.placeholder('int32', {}), df.placeholder('bool', {})
    feeds[one] = df.run(df.cast(df.constant{ { 1.0 } }, self.dtype))
    feeds[self.n], feeds[self.flag] = self.trips, rand(2) == 1
    self.zero, self.limit = one - 1, df.cast(self.n, self.dtype)
    x = x * one
    if rand(4) > 1 and not plain then self.xs = df.TensorArray(self.dtype, self.given, { clear_after_read = self.clears }):unstack(x) end
    local vars = {}
    for k = 1, rand(3) do vars[k] = df.fill({ 1, width }, df.cast(k * 0.25, self.dtype)) * one end
    local arrays = plain and {} or self:arrays(vars[1])
    local out, loss = self:loop(vars, arrays), 0
    for k = 1, #vars do fetches[k] = out[k + 1] end
    for k in ipairs(arrays) do fetches[#fetches + 1] = out[#vars + 2 + k]:stack() end
    for _, y in ipairs(fetches) do loss = loss + df.reduce_sum(y * y) end
    if rand(3) > 1 and not plain then
      for _, g in ipairs(df.gradients(loss, { x, df.unpack(vars) }, { unconnected = 'zero' })) do fetches[#fetches + 1] = g end
    end
  end)
  local function later(flag)
    return { [self.one] = df.run(df.cast(df.constant{ { 1.0 } }, self.dtype)), [self.n] = self.trips, [self.flag] = flag }
  end
  return fetches, feeds, not self.curved, { later(feeds[self.flag]), later(not feeds[self.flag]), later(feeds[self.flag]) }
end

--- What each run gave; of those that failed, the words of the first.
local function ran(df, engine, fetches, all)
  local s = df.Session{ engine = engine }
  local ok, found, bits = true, nil, {}
  for k, feeds in ipairs(all) do
    ok, found = pcall(s.run, s, fetches, feeds)
    if not ok then found = tostring(found) break end
    bits[k] = support.bits(found)
  end
  local c, how = s:stats(), s:native()
  s:close()
  if not ok then return found, 'failed', how end
  return bits, ('%d nodes, %d dead, %d frames, %d iterations, %s pushes, %s pops'):format(c.nodes_run, c.dead_tokens, c.frames,
    c.iterations, tostring(c.stack_pushes), tostring(c.stack_pops)), how
end

local function same(a, b)
  if type(a) ~= 'table' or type(b) ~= 'table' then return a == b end
  for k, v in pairs(a) do if not same(v, b[k]) then return false end end
  return true
end

--- Nil, or what is wrong; and how the loops ran.
function M.check(df, seed, inners, plain)
  local built, fetches, feeds, exact, later = pcall(M.build, df, seed, 'gpu:0', inners, plain)
  if not built then return ('seed %d is not built: %s'):format(seed, tostring(fetches)), '' end
  local all = { feeds, df.unpack(later) }
  local a, counts = ran(df, 'tokens', fetches, all)
  local b, counted, how = ran(df, 'native', fetches, all)
  if not same(a, b) then return ('seed %d: graphs, or kernels, have other bits\n%s'):format(seed, type(b) == 'string' and b or how), how end
  if type(a) == 'string' then return ('seed %d: %s'):format(seed, a), how end
  if counted ~= counts then return ('seed %d: %s, but tokens %s'):format(seed, counted, counts), how end
  fetches, feeds = M.build(df, seed, 'cpu:0', inners, plain)
  if exact and not same(ran(df, 'tokens', fetches, { feeds }), { a[1] }) then return ('seed %d: the host has other bits'):format(seed), how end
  return nil, how
end

--- What is wrong with `count` programs from `first` on, a line each; and how many loops were what.
function M.differences(df, first, count, inners, plain)
  local wrong, seen = {}, { loops = 0, graphs = 0, kernels = 0, arrays = 0, WHILE = 0, IF = 0, inside = 0, unrolled = 0 }
  local why = {}
  for seed = first, first + count - 1 do
    local message, how = M.check(df, seed, inners, plain)
    wrong[#wrong + 1] = message
    for line in how:gmatch '[^\n]+' do
      seen.loops = seen.loops + 1
      if line:find 'one kernel of' then seen.kernels = seen.kernels + 1
      elseif line:find 'a graph of' then
        local not_kernel = line:match 'not one kernel: (.*)'
        if not_kernel then
          not_kernel = 'not one kernel: ' .. not_kernel:gsub('`.-`', ''):gsub('  /.*', ''):gsub('  spec/.*', '')
          why[not_kernel] = (why[not_kernel] or 0) + 1
        end
        seen.graphs = seen.graphs + 1
        if line:find 'reads or writes' then seen.arrays = seen.arrays + 1 end
        if line:find ' inside, as a WHILE node' then seen.inside = seen.inside + 1 end
        if line:find ' inside, its iterations' then seen.unrolled = seen.unrolled + 1 end
        for _, word in ipairs{ 'WHILE', 'IF' } do if line:find(word .. ' node') then seen[word] = seen[word] + 1 end end
      else
        local reason = line:gsub('^.-tokens: ', ''):gsub('`.-`', ''):gsub('  /.*', ''):gsub('  spec/.*', '')
        why[reason] = (why[reason] or 0) + 1
      end
    end
  end
  return table.concat(wrong, '\n'), seen, why
end

return M
