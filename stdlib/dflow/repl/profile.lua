--- `:prof`: where the time of runs went, by op, by Lua line and by frame, from their logs.
--
-- What no kernel took is overhead: Lua, compiling and starting the runs, and waiting. Kernels and overhead together are
-- all of the time, which is the time on the clock unless kernels ran at the same time.
local core = require 'dflow.backend'
local logged = require 'dflow.inspect.events'

local M = {}
local enums = require 'dflow.backend.enums'
local TOKEN, DONE, OPEN = enums.DF_EVENT_TOKEN, enums.DF_EVENT_DONE, enums.DF_EVENT_FRAME_OPEN

--- The tokens that were computed elsewhere, which came back to the run's owner: a set of nodes, and one of tokens. A
-- message on its way computes nothing.
local function elsewhere(h)
  local nodes, tokens = {}, {}
  logged.each(h, function(_, _, iteration, _, node, frame, _, kind, _, device)
    if kind ~= DONE or device < 0 then return end
    nodes[node] = true
    tokens[logged.token(node, frame, iteration, device)] = true
  end)
  return nodes, tokens
end

--- A function count(node, frame, took, dead, device) that adds a token to the sums `all`: to the rows of its op, line
--- and frame, which are looked up once for each node and scope, as a log may have a million tokens.
local function counter(all, names)
  local of_node, of_transfer, of_scope = {}, {}, {}
  local function row(kind, name)
    local r = all[kind][name] or { name = name, n = 0, ns = 0, dead = 0 }
    all[kind][name] = r
    return r
  end
  local function rows_of(node, frame, device)
    local n, scope, of = names.node(node), names.frame(frame).scope, device < 0 and of_transfer or of_node
    of[node] = of[node] or { row('ops', device < 0 and 'Transfer' or n.type),
                             row('lines', n.source ~= '' and n.source or '?') }
    of_scope[scope or 0] = row('frames', scope and names.scope(scope).name or 'top level')
    return of[node]
  end
  return function(node, frame, took, dead, device)
    local rows = (device < 0 and of_transfer or of_node)[node]
    local scope = names.frame(frame).scope or 0
    if not (rows and of_scope[scope]) then rows = rows_of(node, frame, device) end
    local op, line, of, n, gone = rows[1], rows[2], of_scope[scope], dead == nil and 0 or 1, dead and 1 or 0
    op.n, op.ns, op.dead = op.n + n, op.ns + took, op.dead + gone
    line.n, line.ns, line.dead = line.n + n, line.ns + took, line.dead + gone
    of.n, of.ns, of.dead = of.n + n, of.ns + took, of.dead + gone
    all.kernels, all.tokens, all.dead = all.kernels + took, all.tokens + n, all.dead + gone
  end
end

--- Adds a run's log to the sums; the ns in which something of it was running.
local function add_run(all, h)
  local names, away, done = logged.names(h), elsewhere(h)
  local begun, open, busy, until_ = {}, 0, 0, 0
  local count = counter(all, names)
  local function covered(from, to)                  -- while a worker has something, all of the time is covered
    from = math.max(from, until_)
    if to > from then busy, until_ = busy + to - from, to end
  end
  logged.each(h, function(at, took, iteration, _, node, frame, scope, kind, dead, device)
    if open > 0 then covered(until_, at) end
    if kind == OPEN then names.open(frame, node, iteration, scope)
    elseif kind == TOKEN then
      covered(at, at + took)
      count(node, frame, took, dead, device)
      local key = away[node] and logged.token(node, frame, iteration, device)
      if key and done[key] then
        begun[key] = at
        open, until_ = open + 1, math.max(until_, at)
      end
    elseif kind == DONE then
      local key = logged.token(node, frame, iteration, device)
      if begun[key] then
        count(node, frame, at - begun[key], nil, device)          -- its token was counted when it began
        begun[key], open = nil, open - 1
      end
    end
  end)
  all.lost = all.lost + core.run_events_lost(h.handle)
  return busy
end

--- Sums of runs that are over: {ops = {{name, n, ns, dead}, …}, lines = …, frames = …}, each sorted by time; kernels,
-- overhead: ns in all.
-- @param wall  seconds that all of it took; left out: what the logs cover
function M.sums(runs, wall)
  local all = { ops = {}, lines = {}, frames = {}, kernels = 0, tokens = 0, dead = 0, lost = 0, runs = #runs }
  local busy = 0
  for _, h in ipairs(runs) do busy = busy + add_run(all, h) end
  for _, kind in ipairs{ 'ops', 'lines', 'frames' } do
    local list = {}
    for _, row in pairs(all[kind]) do list[#list + 1] = row end
    table.sort(list, function(a, b) return a.ns > b.ns or (a.ns == b.ns and a.name < b.name) end)
    all[kind] = list
  end
  all.overhead = math.max(0, (wall and wall * 1e9 or busy) - busy)
  return all
end

local titles = { ops = 'op', lines = 'Lua line', frames = 'frame' }
local NAME = 38

local function clip(name)
  return #name <= NAME and name or '<' .. name:sub(#name - NAME + 2)
end

--- The sums as lines of text, at most `most` of each kind and one for the rest.
function M.text(runs, wall, most)
  local all, lines = M.sums(runs, wall), {}
  most = most or 12
  local whole = math.max(1, all.kernels + all.overhead)
  local function line(name, n, ns, dead)
    lines[#lines + 1] = ('%-' .. NAME .. 's %10s %12.3f %6.1f%% %8s')
      :format(clip(name), n, ns / 1e6, 100 * ns / whole, dead):gsub(' +$', '')
  end
  for _, kind in ipairs{ 'ops', 'lines', 'frames' } do
    lines[#lines + 1] = ('%-' .. NAME .. 's %10s %12s %7s %8s'):format(titles[kind], 'tokens', 'ms', '%', 'dead')
    local list = all[kind]
    local shown = #list > most + 1 and most or #list
    for i = 1, shown do line(list[i].name, list[i].n, list[i].ns, list[i].dead) end
    local n, ns, dead = 0, 0, 0
    for i = shown + 1, #list do n, ns, dead = n + list[i].n, ns + list[i].ns, dead + list[i].dead end
    if shown < #list then line(('%d more'):format(#list - shown), n, ns, dead) end
    line('overhead, outside of kernels', '', all.overhead, '')
    lines[#lines + 1] = ''
  end
  line(('all, %d run%s')
    :format(all.runs, all.runs == 1 and '' or 's'), all.tokens, all.kernels + all.overhead, all.dead)
  if all.lost > 0 then lines[#lines + 1] = ('the log was full: %.0f events are not counted'):format(all.lost) end
  return table.concat(lines, '\n')
end

return M
