--- `dflow --check-gradients script.lua`: what gradients a script asks for, and, when it has ended, whether they are
-- right.
--
-- Calls of gradients at the top level are noted, those of optimizers among them, and what each run was fed. A gradient
-- is then checked with the feeds of the last run that fed all the placeholders it needs, and with the values that
-- variables have in that run's session.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local registry = require 'dflow.front.registry'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local gradients = require 'dflow.front.gradients'
local convert = require 'dflow.front.convert'
local session = require 'dflow.front.session'
local check = require 'dflow.check'

local M = {}

local calls, known = {}, {}     -- in the order in which they were made; by what they ask for
local fed = setmetatable({}, { __mode = 'k' })       -- by graph: a list of { session, feeds, key }, the latest last
local busy, finished = false, false

local function name_of(x)
  local name = x.name
  return (name:gsub(':0$', ''))
end

local function note_call(ys, xs, stops, where)
  if busy then return end
  local g, list, key = ys[1].graph, {}, { tostring(ys[1].graph), where or '' }
  for _, x in ipairs(xs) do
    local d = convert.typed(x)
    if d and dtypes.is_float(d) then list[#list + 1] = x end
  end
  for _, t in ipairs{ ys, list, stops } do
    for _, o in ipairs(t) do key[#key + 1] = name_of(o) end
    key[#key + 1] = '|'
  end
  key = table.concat(key, ' ')
  if #list == 0 or known[key] then return end
  known[key] = true
  for _, y in ipairs(ys) do
    if dtypes.is_float(graph.dtype(y)) then
      calls[#calls + 1] = { g = g, y = y, xs = list, stops = #stops > 0 and stops or nil, where = where }
    end
  end
end

local function note_run(s, feeds)
  if busy or s.closed then return end
  local kept, key = {}, {}
  for k, v in pairs(errors.is_data(feeds) and feeds or {}) do
    if type(k) == 'string' then
      local ok, o = pcall(function() return s.graph:output(k) end)
      if ok then k = o end
    end
    if getmetatable(k) == graph.Output then kept[k], key[#key + 1] = v, k.name end
  end
  table.sort(key)
  key = table.concat(key, ' ')
  local list = fed[s.graph] or {}
  fed[s.graph] = list
  for i, run in ipairs(list) do
    if run.key == key then table.remove(list, i) break end
  end
  list[#list + 1] = { session = s, feeds = kept, key = key }
end

--- From now on.
function M.start()
  gradients.watch = note_call
  session.watch(note_run)
  local exit = os.exit
  rawset(os, 'exit', function(code, ...)      -- a script that ends itself is checked before
    local right = M.finish()
    if not right and (code == nil or code == true or code == 0) then code = false end
    return exit(code == nil and true or code, ...)
  end)
end

--- The last run that fed what y needs; nil and the name of a placeholder that no run fed.
local function run_for(y)
  local g, needs = y.graph, {}
  for _, node in ipairs(core.graph_needs(g.handle, { y.node, y.index })) do
    if registry.primitive(core.node_type(g.handle, node)) == 'Placeholder' then
      needs[#needs + 1] = graph.output(g, node, 0)
    end
  end
  local list, missing = fed[g] or {}, nil
  for i = #list, 1, -1 do
    local all = true
    for _, p in ipairs(needs) do
      if list[i].feeds[p] == nil then all, missing = false, p break end
    end
    if all then return list[i] end
  end
  if #needs == 0 then return { session = session.default(g), feeds = {} } end
  return nil, (missing or needs[1]).name
end

local waits = { 'Dequeue', 'StackPop', 'Barrier', 'Reader' }
local function what_waits(y)
  for _, node in ipairs(core.graph_needs(y.graph.handle, { y.node, y.index })) do
    local kind = core.node_type(y.graph.handle, node)
    for _, pattern in ipairs(waits) do if kind:find(pattern) then return core.node_name_of(y.graph.handle, node) end end
  end
end

--- One call: 'ok', 'WRONG' or 'not checked', and the rest of the line.
local function check_call(call)
  local run, missing = run_for(call.y)
  if not run then return 'not checked', ('no run fed %s together with what else it needs'):format(missing) end
  local queue = what_waits(call.y)
  if queue then return 'not checked', ('%s waits for what only that run had'):format(queue) end
  local s = not run.session.closed and run.session or session.default(call.g)
  local ok, report, facts = pcall(check.check, call.y, call.xs,
                                  { feeds = run.feeds, session = s, stop_gradients = call.stops })
  if not ok then return 'not checked', tostring(report) end
  if report then return 'WRONG', report end
  local how = { facts.narrow and 'differences' or 'float64 differences' }
  if facts.unrolled then how[#how + 1] = 'unrolled' end
  how[#how + 1] = 'ways of running'
  return 'ok', table.concat(how, ', ')
end

--- Checks what was noted and prints a report. True unless a gradient is wrong.
function M.finish()
  if finished then return true end
  finished, busy = true, true
  io.stdout:flush()
  local count = { ok = 0, WRONG = 0, ['not checked'] = 0 }
  print(('gradients: %d to check'):format(#calls))
  for _, call in ipairs(calls) do
    local names = {}
    for i, x in ipairs(call.xs) do names[i] = name_of(x) end
    if #names > 4 then names = { names[1], names[2], names[3], ('and %d more'):format(#names - 3) } end
    local verdict, text = check_call(call)
    count[verdict] = count[verdict] + 1
    print(('%-11s  %s  d %s by %s: %s')
      :format(verdict, call.where or '?', name_of(call.y), table.concat(names, ', '), text))
  end
  print(('%d right, %d wrong, %d not checked'):format(count.ok, count.WRONG, count['not checked']))
  io.stdout:flush()
  return count.WRONG == 0
end

return M
