--- The prompt's breakpoints: what `:break` is told, those of a run that stands still and those for every run to come.
--
-- They are numbered together. A run has numbers of its own for those it knows; `by_run` says which is which, and goes with the run.
local errors = require 'dflow.front.errors'

local M = {}
local unpack = table.unpack or unpack
local list, serial = {}, 0                                  -- for every run: {number, text, spec, met, limit, spent}
local by_run = setmetatable({}, { __mode = 'k' })           -- handle -> its number -> entry; `own` where it is of that run alone

--- `Mul while:6 if v > 20 limit 3` as what h:break_at takes, and the limit.
function M.parse(text)
  local rest, limit = text, nil
  rest = rest:gsub('%f[%w]limit[%s=]+(%d+)', function(n)
    limit = tonumber(n)
    return ''
  end, 1)
  if limit == 0 then error(':break … limit n: n is from 1 up', 0) end
  local expression = rest:match('%f[%w]if%s+(.+)$')
  if expression then rest = rest:gsub('%s*%f[%w]if%s+.+$', '') end
  local spec = {}
  local function take(pattern, fn)
    rest = rest:gsub(pattern, function(...) fn(...) return '' end, 1)
  end
  for _, key in ipairs{ 'op', 'name', 'frame' } do take('%f[%w]' .. key .. '=(%S+)', function(v) spec[key] = v end) end
  take('%f[%w]line=(%S+)', function(v) spec.line = tonumber(v) or v end)
  take('%f[%w]iteration=(%d+)', function(v) spec.iteration = tonumber(v) end)
  take('%f[%w]iteration%s+(%d+)', function(v) spec.iteration = tonumber(v) end)
  take('%f[%w]line%s+(%S+)', function(line) spec.line = tonumber(line) or line end)
  take('%f[%w]frame%s+(%S+)', function(name) spec.frame = name end)
  take('(%S+:%d+)%s*$', function(tag) spec.frame = tag end)
  local words = {}
  for word in rest:gmatch('%S+') do
    if word == 'nan' or word == 'inf' or word == 'dead' then spec[word] = true else words[#words + 1] = word end
  end
  if #words == 2 and words[2]:find('^%d+$') then                    -- `:break lin 1` was meant as a line
    local near = errors.nearest(words[1], { 'line', 'frame', 'iteration' })
    if near then error((":break: '%s %s' is no place; did you mean '%s %s'?"):format(words[1], words[2], near, words[2]), 0) end
  end
  if #words > 1 then error((":break: '%s' is no place: an op or a node, then a loop or its iteration, such as Mul while:6"):format(table.concat(words, ' ')), 0) end
  spec.op = words[1] or spec.op
  if expression then
    local chunk, why = load('local v = ... return ' .. expression, '=condition')
    if not chunk then error(why, 0) end
    spec.when = chunk
  end
  return spec, limit, expression
end

local function entry_of(h, id) return by_run[h] and by_run[h][id] end

--- The number that people know a run's breakpoint by.
function M.number(h, id)
  local entry = entry_of(h, id)
  return entry and entry.number or id
end

--- Is there one for runs to come?
function M.pending()
  for _, entry in ipairs(list) do if not entry.spent then return true end end
  return false
end

local function give(h, entry)
  local id = h:break_at(entry.spec)
  by_run[h] = by_run[h] or {}
  by_run[h][id] = entry
end

--- A run has begun and stands still: it gets those that fit its graph.
function M.set(h)
  for _, entry in ipairs(list) do
    if not entry.spent then pcall(give, h, entry) end
  end
end

--- A new one, of the run h or of every run to come when that is nil; what there is to say of it.
function M.add(h, text)
  local spec, limit, expression = M.parse(text)
  local entry = { number = serial + 1, text = text, spec = spec, met = 0, limit = limit, own = h ~= nil }
  if h then give(h, entry) else list[#list + 1] = entry end
  serial = serial + 1
  local says = ('breakpoint %d%s'):format(entry.number, expression and ': if ' .. expression or '')
  return h and says or says .. ', of every run from now on'
end

--- A run has stopped: it is counted, and one that has stopped often enough is met no more.
function M.stopped(h, stop)
  local entry = stop.breakpoint and entry_of(h, stop.breakpoint)
  if not entry or stop.counted then return end
  stop.counted = true
  entry.met = entry.met + 1
  if entry.limit and entry.met >= entry.limit then
    entry.spent = true
    h:unbreak(stop.breakpoint)
  end
end

--- Takes number `number` away, or all of them, also of the run in progress. Was there one?
function M.remove(h, number)
  local found = false
  local function wanted(entry)
    local yes = not number or entry.number == number
    found = found or yes
    return yes
  end
  for i = #list, 1, -1 do
    if wanted(list[i]) then table.remove(list, i) end
  end
  for id, entry in pairs(h and by_run[h] or {}) do
    if wanted(entry) then
      h:unbreak(id)
      by_run[h][id] = nil
    end
  end
  return found or (not number and h ~= nil)
end

--- Those of the run h and of every run, as lines.
function M.list(h, say)
  local known = { unpack(list) }
  for _, entry in pairs(h and by_run[h] or {}) do
    if entry.own then known[#known + 1] = entry end
  end
  table.sort(known, function(a, b) return a.number < b.number end)
  for _, entry in ipairs(known) do
    say(('breakpoint %d: %s%s%s'):format(entry.number, entry.text, entry.met > 0 and ('  met %d time%s'):format(entry.met, entry.met == 1 and '' or 's') or '',
      entry.spent and ', its limit' or ''))
  end
  if not known[1] then say('no breakpoints; :break WHERE sets one, :break? says how') end
end

return M
