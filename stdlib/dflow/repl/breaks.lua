--- The prompt's breakpoints: what `:break` is told, those of a paused run and those for every run to come.
--
-- They are numbered together. A run has numbers of its own for those it knows; `by_run` says which is which, and goes
-- with the run.
local graph = require 'dflow.front.graph'
local inspect = require 'dflow.inspect'
local registry = require 'dflow.front.registry'

local M = {}
local unpack = table.unpack or unpack
local list, serial = {}, 0                                  -- for every run: {number, text, spec, met, limit, spent}
-- handle -> its number -> entry; `own` where it is of that run alone
local by_run = setmetatable({}, { __mode = 'k' })

--- A condition as a function of the value. `what` is told with a mistake: the command.
function M.condition(expression, what)
  local chunk, why = load('local v = ... return ' .. expression, '=condition')
  if chunk then
    return function(v)
      local ok, holds = pcall(chunk, v)
      if ok then return holds end
      error(('%s (v is the value that was made)'):format(tostring(holds):gsub('^condition:%d+: ', '')), 0)
    end
  end
  if tostring(why):find("near '?<eof>'?$") then
    error(("%s: '%s' is not finished: something is missing behind it"):format(what, expression), 0)
  end
  error(("%s: '%s' is no condition on v: %s"):format(what, expression, tostring(why):gsub('^condition:%d+: ', '')), 0)
end

--- What is no place, said before a run is to find it.
local function check(spec, text)
  local op, line = spec.op, spec.line
  if op and op:find('^%d+$') then error((":break: '%s' is no place; did you mean 'line %s'?"):format(op, op), 0) end
  if op == 'line' or op == 'if' or op == 'frame' then
    error((':break %s'):format(({ line = 'line n: the number of a line is missing',
                                  frame = 'frame name: the name of a loop is missing',
      ['if'] = '… if: a condition on v is missing, such as if v > 20' })[op]), 0)
  end
  if line == 0 or (type(line) == 'string' and not line:find('%d')) then
    error((":break line n: n is a number from 1 up, or file:n, not '%s'"):format(tostring(line)), 0)
  end
  if op and op:find('@', 1, true) then
    error((":break: '%s' is no place; write a blank between node and iteration: Mul while:6"):format(text), 0)
  end
end

--- `Mul while:6 if v > 20 limit 3` as what h:break_at takes, and the limit.
function M.parse(text)
  local rest, limit = text:gsub('(%S)@(%S+:%d+)', '%1 %2'), nil
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
  take('(%S+:%d+)%s*$', function(tag)
    if tag:find('^In%[%d+%]:') or tag:find('%.lua:') then spec.line = tag else spec.frame = tag end
  end)
  local words = {}
  for word in rest:gmatch('%S+') do
    if word == 'nan' or word == 'inf' or word == 'dead' then spec[word] = true else words[#words + 1] = word end
  end
  if #words == 2 and words[2]:find('^%d+$') then                    -- `:break lin 1` was meant as a line
    local near = require 'dflow.front.nearest'(words[1], { 'line', 'frame', 'iteration' })
    if near then
      error((":break: '%s %s' is no place; did you mean '%s %s'?"):format(words[1], words[2], near, words[2]), 0)
    end
  end
  if #words > 1 then
    error((":break: '%s' is no place: an op or a node, then a loop or its iteration, such as Mul while:6")
      :format(table.concat(words, ' ')), 0)
  end
  spec.op = words[1] or spec.op
  check(spec, text)
  if expression then spec.when = M.condition(expression, ':break … if') end
  return spec, limit, expression
end

local function entry_of(h, id) return by_run[h] and by_run[h][id] end

--- The number that people know a run's breakpoint by.
function M.number(h, id)
  local entry = entry_of(h, id)
  return entry and entry.number or id
end

--- Is it one for every run, and not of this one alone?
function M.is_of_all(h, id)
  local entry = entry_of(h, id)
  return entry ~= nil and not entry.own
end

--- Is there one for runs to come?
function M.pending()
  for _, entry in ipairs(list) do if not entry.spent then return true end end
  return false
end

-- ops that an ordinary run has no tokens for, as a rule
local merged = { Merge = true, LoopCond = true, Switch = true, Const = true, Identity = true }

--- Is there one at such an op, by its type or a node's name (while/Merge_1)? Then every node of a run is to fire.
function M.at_primitives()
  for _, entry in ipairs(list) do
    local what = not entry.spent and (entry.spec.op or entry.spec.name)
    if what and merged[what:match '(%a+)[_%d]*$'] then return true end
  end
  return false
end

local function give(h, entry)
  local id = h:break_at(entry.spec)
  by_run[h] = by_run[h] or {}
  by_run[h][id] = entry
end

--- A run has begun and is paused: it gets those that fit its graph.
function M.set(h)
  for _, entry in ipairs(list) do
    if not entry.spent then pcall(give, h, entry) end
  end
end

--- Has a graph a loop of that name, or with that as the last part of it?
local function has_loop(g, name)
  for _, op in ipairs(g:ops()) do
    local loop = registry.primitive(op.type) == 'LoopCond' and op.name:match('^(.*)/[^/]*$')
    if loop and (loop == name or loop:sub(-#name - 1) == '/' .. name) then return true end
  end
  return false
end

--- What of the place of a breakpoint for runs to come is in no graph so far; nil when all of it is there. A loop's name
-- alone is that loop.
local function unknown(spec, g)
  if spec.op or spec.name or spec.line then
    local found, why = pcall(inspect.matching, g, spec.op, spec.name, spec.line)
    if not found and why.code ~= 'not_found' then error(why.message:gsub('^break_at', ':break'), 0) end
    if not found and not (spec.op and registry.has(spec.op)) then
      return spec.op or spec.name or ('line %s'):format(tostring(spec.line))
    end
  end
  local frame = spec.frame and spec.frame:gsub(':%d+$', ''):match('[^/]*$')
  return frame and not has_loop(g, frame) and spec.frame or nil
end

--- A new one, of the run h or of every run to come when that is nil; what there is to say of it.
function M.add(h, text)
  local spec, limit, expression = M.parse(text)
  local entry = { number = serial + 1, text = text, spec = spec, met = 0, limit = limit, own = h ~= nil }
  local g = h and h.session.graph or graph.current()
  if type(spec.op) == 'string' and not spec.frame and has_loop(g, spec.op) then spec.op, spec.frame = nil, spec.op end
  local missing = not h and unknown(spec, g)
  if h then give(h, entry) else list[#list + 1] = entry end
  serial = serial + 1
  local says = ('breakpoint %d%s'):format(entry.number, expression and ': if ' .. expression or '')
  if h then return says end
  return says .. ', of every run from now on'
    .. (missing and (';\nso far the graph has nothing that fits `%s`'):format(missing) or '')
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
    say(('breakpoint %d: %s%s%s'):format(entry.number, entry.text, entry.met > 0
                                         and ('  met %d time%s'):format(entry.met, entry.met == 1 and '' or 's') or '',
      entry.spent and ', its limit' or ''))
  end
  if not known[1] then say('no breakpoints; :break WHERE sets one, :break? says how') end
end

return M
