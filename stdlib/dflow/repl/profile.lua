--- `:prof`: where the time of a run went, by op and by Lua line, from its log.
local trace = require 'dflow.trace'

local M = {}

--- Sums of a run's log: {ops = {{name, n, ns, dead}, …}, lines = …, frames = …}, each sorted by time; ns in all.
function M.sums(h)
  local names, all = trace.names(h), { ops = {}, lines = {}, frames = {} }
  local total, begun = 0, {}
  local function add(kind, name, took, dead)
    local row = all[kind][name]
    if not row then
      row = { name = name, n = 0, ns = 0, dead = 0 }
      all[kind][name] = row
    end
    row.n, row.ns, row.dead = row.n + 1, row.ns + took, row.dead + (dead and 1 or 0)
  end
  local function count(node, frame, took, dead)
    local n = names.node(node)
    add('ops', n.type, took, dead)
    add('lines', n.source ~= '' and n.source or '?', took, dead)
    local scope = names.frame(frame).scope
    add('frames', scope and names.scope(scope).name or 'top level', took, dead)
    total = total + took
  end
  trace.each(h, function(at, took, iteration, _, node, frame, scope, kind, dead)
    if kind == 2 then names.open(frame, node, iteration, scope)
    elseif kind == 0 then
      count(node, frame, took, dead)
      begun[node .. '@' .. frame .. '@' .. iteration] = at
    elseif kind == 1 then
      local key = node .. '@' .. frame .. '@' .. iteration
      if begun[key] then count(node, frame, at - begun[key], false) end
      begun[key] = nil
    end
  end)
  for kind, rows in pairs(all) do
    local list = {}
    for _, row in pairs(rows) do list[#list + 1] = row end
    table.sort(list, function(a, b) return a.ns > b.ns or (a.ns == b.ns and a.name < b.name) end)
    all[kind] = list
  end
  all.ns = total
  return all
end

--- The sums as lines of text, at most `most` of each kind.
function M.text(h, most)
  local all, lines = M.sums(h), {}
  for _, kind in ipairs{ 'ops', 'lines', 'frames' } do
    lines[#lines + 1] = ('%-40s %10s %10s %7s %8s'):format(kind == 'ops' and 'op' or kind == 'lines' and 'Lua line' or 'frame', 'tokens', 'ms', '%', 'dead')
    for i = 1, math.min(most or 12, #all[kind]) do
      local row = all[kind][i]
      lines[#lines + 1] = ('%-40s %10d %10.3f %6.1f%% %8d'):format(row.name, row.n, row.ns / 1e6, 100 * row.ns / math.max(1, all.ns), row.dead)
    end
    lines[#lines + 1] = ''
  end
  return table.concat(lines, '\n')
end

return M
