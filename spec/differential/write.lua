--- Writes programs for spec/differential/check.py: `dflow spec/differential/write.lua FOLDER SEED COUNT [PATTERN]`.
--
-- COUNT random single ops (spec/differential/ops.lua), then every op with a gradient, with its gradients up to the third order and in a
-- random place (spec/op_gradients.lua), then COUNT / 4 random nested programs with theirs (spec/random_program.lua). Of each NAME there are
--   NAME.pb, NAME.onnx   what was exported, where it was not refused as unimplemented
--   NAME.npz             in_I and out_I: what is fed, and what dflow's own run gave
--   NAME.txt             lines `feed TENSOR in_I`, `fetch TENSOR out_I`, `strings out_I …`, `tolerance X`, `text …` (what it is)
-- An export that fails in another way is an error of ours, and so is whatever is no error of dflow's: printed as `NAME lua: …`, exit 1.
local df = require 'dflow'
local op_gradients = require 'spec.op_gradients'
local random_program = require 'spec.random_program'
local ops = require 'spec.differential.ops'

local folder, seed, count, pattern = arg[1], tonumber(arg[2]) or 1, tonumber(arg[3]) or 400, arg[4] or '.'

-- ---- places ---------------------------------------------------------------------------------------------------
local places = {
  plain = function(fn) return fn() end,
  cond = function(fn)
    return df.cond(df.placeholder_with_default(true, {}), fn, function() return df.zeros_like(fn()) end)
  end,
  loop = function(fn)
    local first = fn()
    local _, y = df.while_loop(function(i) return i:lt(2) end, function(i, y) return i + 1, y * 0.5 + fn() end,
                               { df.int32(0), df.zeros_like(first) }, { shape_invariants = { {}, first.shape or false } })
    return y
  end,
  map = function(fn) return df.map_fn(function(k) return fn() * k end, df.cast(df.constant{ 1, 2 }, fn().dtype)) end,
}
local place_names = { 'plain', 'cond', 'loop', 'map' }

-- ---- programs: each gives fetches, feeds, what it is and a tolerance --------------------------------------------
local function derivatives(y, xs, order)
  local fetches = { y }
  for _ = 1, order do
    local ok, slopes = pcall(df.gradients, y, xs, { unconnected = 'zero' })
    if not ok then break end
    y = nil
    for i, g in ipairs(slopes) do
      if df.type(g) == 'indexed_slices' then g = g * 1 end
      fetches[#fetches + 1] = g
      local part = df.reduce_sum(df.sin(df.cast(g, 'float64')) * (0.3 * i))
      y = y and y + part or part
    end
  end
  return fetches
end

local programs = {}
local rand = ops.random(seed)
for k = 1, count do
  local state = rand(2 ^ 30)
  programs[#programs + 1] = { ('op_%05d'):format(k), function() return ops.make(ops.random(state)) end }
end
for _, kind in ipairs(op_gradients.types()) do
  local where, order = place_names[rand(4)], rand(3)
  programs[#programs + 1] = { 'gradient_' .. kind, function()
    local b = op_gradients.builder()
    local y, xs, most
    if where == 'plain' then y, xs, _, most = op_gradients.build(kind, b)
    else
      b.x = (function(make)
        local made, at = {}, 0
        function b.again() at = 0 end
        return function(...)
          at = at + 1
          made[at] = made[at] or make(...)
          return made[at]
        end
      end)(b.x)
      y = places[where](function()
        b.again()
        local v
        v, xs, _, most = op_gradients.build(kind, b)
        return v
      end)
    end
    order = math.min(order, most == 1 and 1 or (where == 'plain' and not kind:find '^[QS][rv]d?$') and 3 or 2)
    return derivatives(y, xs, order), b.feeds, ('%s in %s, derivatives to order %d'):format(kind, where, order), 1e-5
  end }
end
for k = 1, math.floor(count / 4) do
  local state, depth, order = rand(2 ^ 30), rand(3), rand(3) - 1
  programs[#programs + 1] = { ('program_%05d'):format(k), function()
    local program = random_program.make(state, depth)
    local y, xs = random_program.build(df, program)
    return derivatives(y, xs, order), { [xs[1]] = 0.7, [xs[2]] = -0.4, [xs[3]] = 0.3 },
           ('derivatives to order %d of %s'):format(order, random_program.show(program)), 1e-6
  end }
end

-- ---- files -----------------------------------------------------------------------------------------------------
--- npz has no bfloat16.
local function plain(x) return x.dtype == 'bfloat16' and df.cast(x, 'float32') or x end

--- `strings out_I DIMENSIONS HEX…`, which npz has not either; an empty string is `-`.
local function strings(key, t)
  local words = { 'strings', key, #t.shape == 0 and '-' or table.concat(t.shape, ',') }
  for _, s in ipairs(t:list()) do
    words[#words + 1] = s == '' and '-' or s:gsub('.', function(c) return ('%02x'):format(c:byte()) end)
  end
  return table.concat(words, ' ')
end

--- An error that says what is wrong with the program, and not with dflow.
local function ours(e) return type(e) == 'table' and e.code ~= nil and e.code ~= 'internal' end

local function write(name, build)
  df.reset()
  local built, fetches, feeds, text, tolerance = pcall(build)
  if not built then return ours(fetches) and 'unbuilt' or 'failed', tostring(fetches) end
  local all, kept = {}, {}
  for i, x in ipairs(fetches) do all[i] = df.identity(plain(x)) end
  local ran, values = pcall(df.run, all, feeds, { tensors = true, timeout = 20 })
  if not ran then return ours(values) and 'unrun' or 'failed', tostring(values) end
  local lines, arrays, base = { 'text ' .. text:gsub('\n', ' ; '), 'tolerance ' .. tolerance }, {}, folder .. '/' .. name
  for i, x in ipairs(all) do
    if not x.shape then                            -- ONNX wants the rank of what it gives
      local any = {}
      for d = 1, #values[i].shape do any[d] = -1 end
      x:set_shape(any)
    end
    if x.dtype == 'string' then lines[#lines + 1] = strings('out_' .. i, values[i]) else arrays['out_' .. i] = values[i] end
    lines[#lines + 1] = ('fetch %s out_%d'):format(x.name:find ':' and x.name or x.name .. ':0', i)
    kept['out_' .. i] = x
  end
  local i = 0
  for x, v in pairs(feeds) do
    i = i + 1
    arrays['in_' .. i] = df.type(v) == 'tensor' and v or df.tensor(v, x.dtype)
    lines[#lines + 1] = ('feed %s in_%d'):format(x.name:find ':' and x.name or x.name .. ':0', i)
  end
  arrays.none = df.tensor(0, 'int32')
  df.save_npz(base .. '.npz', arrays)
  local failed, rankless
  for _, x in ipairs(all) do rankless = rankless or x.shape == nil end
  for _, how in ipairs{ { 'pb', df.export_graph_def, all }, { 'onnx', df.export_onnx, kept } } do
    local ok, e
    if rankless and how[1] == 'onnx' then e = { code = 'unimplemented' }            -- what ONNX has no words for
    else ok, e = pcall(how[2], base .. '.' .. how[1], { outputs = how[3] }) end
    if not ok and type(e) == 'table' and e.code == 'unimplemented' then
      lines[#lines + 1] = 'refused ' .. how[1] .. ' ' .. tostring(e):gsub('\n', ' ')
    elseif not ok then failed = how[1] .. ': ' .. tostring(e):gsub('\n', ' ') end
  end
  local f = assert(io.open(base .. '.txt', 'w'))
  f:write(table.concat(lines, '\n'), '\n')
  f:close()
  return failed and 'failed' or 'written', failed and failed .. ' (' .. text .. ')'
end

local counts = {}
for _, p in ipairs(programs) do
  if p[1]:find(pattern) then
    local what, why = write(p[1], p[2])
    counts[what] = (counts[what] or 0) + 1
    if what == 'failed' or (what ~= 'written' and os.getenv 'VERBOSE') then print(('%s lua: %s: %s'):format(p[1], what, (why:gsub('\n', ' ')))) end
  end
end
print(('%d written, %d not built, %d without values, %d exports failed'):format(
  counts.written or 0, counts.unbuilt or 0, counts.unrun or 0, counts.failed or 0))
if (counts.failed or 0) > 0 or (counts.written or 0) == 0 then os.exit(1) end
