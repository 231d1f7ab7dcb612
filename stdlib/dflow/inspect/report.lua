--- A run as one page that needs no network: opts.report = 'run.html' of df.run and df.start. The graph with its frames
-- as nested boxes, a slider over the tokens (back and forth, iterations in colours, dead ones visibly dead), memory and
-- open iterations over time, and the Lua source beside it. What the page looks like is in report/page.lua, what it does
-- in report/script.lua, where things stand in report/layout.lua.
local core = require 'dflow.backend'
local registry = require 'dflow.front.registry'
local json = require 'dflow.exchange.json'
local writer = require 'dflow.exchange.file'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local logged = require 'dflow.inspect.events'
local text = require 'dflow.front.text'
local quote = require 'dflow.front.quote'
local groups = require 'dflow.draw.groups'
local layout = require 'dflow.inspect.report.layout'
local page = require 'dflow.inspect.report.page'
local script = require 'dflow.inspect.report.script'

local M = {}
local enums = require 'dflow.backend.enums'
local TOKEN, OPEN, END = enums.DF_EVENT_TOKEN, enums.DF_EVENT_FRAME_OPEN, enums.DF_EVENT_FRAME_END

--- Tokens that a page holds: of a longer run so many from its beginning and so many from its end.
M.first, M.last = 60000, 40000

local MOST_LINES = 2000            -- of one file
local SMALL = 4                    -- elements of a constant that is written out where it is used

--- What a page's numbers need of digits.
local short = { empty = '[]',
                number = function(v) return v == math.floor(v) and ('%.0f'):format(v) or ('%.1f'):format(v) end }

--- A column of whole numbers as the steps from one to the next, which are short.
local function steps(column)
  local list, last = {}, 0
  for i, v in ipairs(column) do
    list[i] = v - last
    last = v
  end
  return list
end

-- ---- the source -----------------------------------------------------------------------------------------------------
local function lines_of(path)
  local repl = package.loaded['dflow.repl.session']
  local lines = {}
  local input = repl and repl.input_of(path)              -- typed at the prompt
  if input then
    for line in (input.text .. '\n'):gmatch('(.-)\n') do lines[#lines + 1] = line end
    return lines
  end
  local file = quote.open(path)
  if not file then return nil end
  for line in file:lines() do
    lines[#lines + 1] = line
    if #lines == MOST_LINES then break end
  end
  file:close()
  return #lines > 0 and lines or nil
end

--- The files that nodes were built in: {{name, lines}, …}, and for each node {file, line}, both from 1. Nodes whose Lua
--- line cannot be read, or only says that their graph was imported, are lines of a list of their own.
local function sources(nodes)
  local files, by_path, at, rest = {}, {}, {}, nil
  for i, n in ipairs(nodes) do
    local path, line = n.source:match('^(.-):(%d+)$')
    if path and by_path[path] == nil then
      local lines = lines_of(path)
      by_path[path] = lines and #files + 1 or false
      if lines then files[#files + 1] = { name = path, lines = lines } end
    end
    local file = path and by_path[path]
    local shown = file and files[file].lines[tonumber(line)]
    if shown and not shown:find('import_graph_def', 1, true) then
      at[i] = { file, tonumber(line) }
    else
      if not rest then
        rest = { name = 'nodes that have no Lua line', lines = {}, plain = true }
        files[#files + 1] = rest
        rest.at = #files
      end
      rest.lines[#rest.lines + 1] = ('%s = %s(%s)'):format(n.name, n.type, table.concat(n.args, ', '))
      at[i] = { rest.at, #rest.lines }
    end
  end
  return files, at
end

-- ---- the log --------------------------------------------------------------------------------------------------------
local function literal(g, o)
  if registry.primitive(o.op.type) ~= 'Const' then return nil end
  local t = core.output_constant(g.handle, o.node, 0)
  if not t or t.size > SMALL then return nil end
  return (text.array(t):gsub('\n%s*', ' '):gsub('^(-?%d+)%.$', '%1'))
end

--- What a node's inputs are called, and what its box says: the end of its name, and a number that it is always given.
local function describe(g, op, name)
  local args, given = {}, nil
  for i, o in ipairs(op.inputs) do
    local number = literal(g, o)
    args[i] = number or (o.index > 0 and ('%s:%d'):format(o.op.name, o.index) or o.op.name)
    if number and #number <= 8 and #op.inputs == 2 then given = i end
  end
  local label = name:match('([^/]*)$')
  return args, given == 1 and args[1] .. ' · ' .. label or given and label .. ' · ' .. args[2] or label
end

--- What an ordinary run makes of each node of a run's graph: DF_LOWERED_* and its scope in turn; nil: there is no such
-- run.
local function lowered(h)
  local ok, _, list = pcall(core.plan_describe, h.session.graph.handle, h.flat, {})
  return ok and list or nil
end

-- In which layers of a page a node is.
local NOWHERE, PRIMITIVES, BOTH = 0, 1, 2
local of_control_flow = { Switch = true, Merge = true, Enter = true, Exit = true, NextIteration = true,
                          LoopCond = true }
local merged_away = { [enums.DF_LOWERED_IN_PLACE] = true, [enums.DF_LOWERED_PASSED] = true,
                      [enums.DF_LOWERED_MERGED] = true, [enums.DF_LOWERED_UNUSED] = true }

--- The layer of a node: of what an ordinary run has no tokens for, the primitives of control flow are in the layer of
-- primitives, and constants, Identities and Switches that only these wait for in none, unless all nodes of the
-- session's runs fire.
local function layer_of(h, list, node)
  local made = list and list[2 * node + 1]
  local op = registry.primitive(core.node_type(h.session.graph.handle, node))
  local flows = of_control_flow[op]
  if not merged_away[made] and not (made == enums.DF_LOWERED_DUPLICATE and flows) then return BOTH end
  if h.session.engine == 'primitives' then return PRIMITIVES end
  return flows and made ~= enums.DF_LOWERED_UNUSED and PRIMITIVES or NOWHERE
end

--- What tokens may come to in a run: loop(scope, parent) for its loops, fn(node, scope) for its nodes in the order in
-- which they were built.
local function planned(h, list, loop, fn)
  local g = h.session.graph
  for i = 1, list and #list or 0, 2 do
    local node, made, scope = math.floor(i / 2), list[i], list[i + 1]
    -- a loop's begins with what an Enter brings from around it
    if scope > 0 and registry.primitive(core.node_type(g.handle, node)) == 'Merge' then
      local enter = graph.operation(g, node).inputs[1].op
      if registry.primitive(enter.type) == 'Enter' then loop(scope, list[2 * enter.node + 2]) end
    end
    if scope >= 0 and (made == enums.DF_LOWERED_KERNEL or made == enums.DF_LOWERED_SCALAR
                       or made == enums.DF_LOWERED_FLOW
                       or h.primitives and layer_of(h, list, node) == PRIMITIVES) then
      fn(node, scope)
    end
  end
end

--- What the page shows of a run's log: `first` tokens from its beginning, `behind` from its end; all: also nodes that
-- no token has come to.
local function gather(h, first, most, all)
  local names, g, list = logged.names(h), h.session.graph, lowered(h)
  local data = { nodes = {}, scopes = {}, total = 0, merged = 0, most = 0 }
  local place, scopes = {}, { [0] = { id = 0, name = '', where = '' } }
  local scope_of, frames = {}, {}                         -- by frame
  local columns = { node = {}, frame = {}, iteration = {}, at = {}, took = {}, memory = {}, dead = {} }
  local last, head = {}, first                            -- a ring of the last tokens
  local function keep(into, k, ...)
    into.node[k], into.frame[k], into.iteration[k], into.at[k], into.took[k], into.memory[k], into.dead[k] = ...
  end
  for name in pairs(columns) do last[name] = {} end
  local function see(node, scope)
    local n, op = names.node(node), graph.operation(g, node)
    local args, label = describe(g, op, n.name)
    local primitive = registry.primitive(n.type)
    if n.label then label = of_control_flow[primitive] and primitive .. ' ' .. n.label or n.label end
    local index = #data.nodes + 1
    data.nodes[index] = { id = node, name = n.name, type = n.type, source = n.source, scope = scope, args = args,
                          label = label, merged = layer_of(h, list, node) == PRIMITIVES or nil }
    place[node] = index
    return index
  end
  local function loop(scope, parent)
    local s = names.scope(scope)
    scopes[scope] = scopes[scope] or { id = scope, name = s.name, where = s.where, parent = parent }
  end
  if all then planned(h, list, loop, see) end
  logged.each(h, function(at, took, iteration, memory, node, frame, scope, kind, dead)
    if memory > data.most then data.most = memory end
    if kind == OPEN then
      names.open(frame, node, iteration, scope)
      loop(scope, scope_of[node] or 0)
      scope_of[frame] = scope
      frames[frame] = { node, iteration, scope }
    elseif kind == TOKEN and place[node] ~= false then
      local index = place[node] or layer_of(h, list, node) ~= NOWHERE and see(node, scope)
      place[node] = index
      if not index then return end
      local k = data.total
      data.total = k + 1
      if not data.nodes[index].merged then data.merged = data.merged + 1 end
      if k < head then keep(columns, k + 1, index - 1, frame, iteration, at, took, memory, dead and 1 or 0)
      else keep(last, (k - head) % most + 1, index - 1, frame, iteration, at, took, memory, dead and 1 or 0) end
    elseif kind == END then
      scope_of[frame] = nil
    end
  end)
  data.serial = {}
  local behind = math.min(most, math.max(0, data.total - head))
  for name, column in pairs(columns) do
    for i = 0, behind - 1 do column[head + i + 1] = last[name][(data.total - head - behind + i) % most + 1] end
  end
  data.columns, data.missing = columns, data.total - #columns.node
  for _, s in pairs(scopes) do data.scopes[#data.scopes + 1] = s end
  table.sort(data.scopes, function(a, b) return a.id < b.id end)
  -- the frames that its tokens are in, by numbers of their own, and those around them
  local number, order = { [0] = 0 }, {}
  local function number_of(frame)
    if not number[frame] then
      local f = frames[frame]
      local parent = f and number_of(f[1]) or 0
      order[#order + 1] = { parent, f and f[2] or 0, f and f[3] or 0 }
      number[frame] = #order
    end
    return number[frame]
  end
  for i, frame in ipairs(columns.frame) do columns.frame[i], data.serial[i] = number_of(frame), frame end
  data.frames = order
  return data
end

--- Edges between nodes of a layer; what only hands a value on is passed over.
-- @param merged  without what an ordinary run has no tokens for
local function edges(h, nodes, merged)
  local g, place, list = h.session.graph, {}, {}
  for index, n in ipairs(nodes) do if not (merged and n.merged) then place[n.id] = index end end
  for index, n in ipairs(nodes) do
    local seen = {}
    local function from(o, depth)
      local at = place[o.node]
      if at then
        local key = at .. ':' .. o.index
        if not seen[key] then
          seen[key] = true
          list[#list + 1] = { at - 1, index - 1, o.index }
        end
      elseif depth < 6 then
        for _, input in ipairs(graph.operation(g, o.node).inputs) do from(input, depth + 1) end
      end
    end
    for _, input in ipairs(place[n.id] and graph.operation(g, n.id).inputs or {}) do from(input, 0) end
  end
  return list
end

-- Values that a run keeps are in a ring of so many, and looked for among all of them.
local VALUES = 1500

--- A value in few letters.
local function value_text(v)
  if type(v) == 'number' then return v ~= v and 'nan' or (('%.6g'):format(v)) end
  if type(v) ~= 'table' then return (tostring(v):gsub('%s+', ' '):sub(1, 60)) end
  local said = v.size <= 12 and text.array(v):gsub('%s+', ' ') .. ' ' .. text.shape(v.dtype, v.shape)
    or text.summary(v, true)
  return #said > 90 and said:sub(1, 88) .. '…' or said
end

--- What tokens made, as far as the run has kept it: a list of texts, and for each token its place there, 0 for none.
local function values(h, data)
  local c, texts, known, column = data.columns, {}, {}, {}
  local n = #c.node
  for k = 1, n do column[k] = 0 end
  if core.run_remains(h.handle) < 0 and h:state() ~= 'paused' then return texts, column end
  for k = math.max(1, n - VALUES + 1), n do
    local node = data.nodes[c.node[k] + 1]
    if c.dead[k] == 0 then
      for index = 0, math.min(2, core.node_outputs(h.session.graph.handle, node.id)) - 1 do
        local ok, v, dead = pcall(core.run_value, h.handle, node.id, index, data.serial[k], c.iteration[k])
        if ok and v ~= nil and not dead then
          local said = value_text(v)
          if not known[said] then
            texts[#texts + 1] = said
            known[said] = #texts
          end
          column[k] = known[said]
          break
        end
      end
    end
  end
  return texts, column
end

--- What became of a run that failed: the message, and the node and token where it did, as far as they are on the page.
local function failure(h, data)
  local err = h.result
  local fail = { message = tostring(err):gsub('\n%s*', '\n') }
  if not errors.is(err) or not err.op then return fail end
  local name = err.op:match('^%S+')
  for i, n in ipairs(data.nodes) do if n.name == name then fail.node = i - 1 end end
  local node = data.columns.node
  for k = #node, 1, -1 do
    if node[k] == fail.node then
      fail.token = k - 1
      break
    end
  end
  return fail
end

--- A picture as the page has it: nodes, items and pictures by numbers from 0.
local function on_page(p)
  local out = { title = p.title, up = p.up and p.up - 1, w = p.width, h = p.height, items = {},
                boxes = {}, lines = {} }
  local number = {}
  for i, item in ipairs(p.items) do
    number[item] = i - 1
    local members
    if item.closed then
      members = {}
      for k, member in ipairs(item.members) do members[k] = member.number - 1 end
    end
    out.items[i] = { x = item.x, y = item.y, w = item.w, h = item.h, node = item.number and item.number - 1,
                     nodes = members, title = item.closed and item.op,
                     where = item.closed and item.where, picture = item.view and item.view - 1 }
  end
  for i = 2, #p.boxes do
    local box = p.boxes[i]
    out.boxes[i - 1] = { x = box.x, y = box.y, w = box.w, h = box.h, depth = box.depth, name = box.title,
                         where = box.where or '' }
  end
  for i, e in ipairs(p.lines) do out.lines[i] = { number[e.from], number[e.to], e.way } end
  return out
end

--- What the page draws of a run: all that fired, and, where primitives did for which an ordinary run has no tokens, the
-- same without them.
local function layers(h, data)
  local g, list, some = h.session.graph, {}, false
  local total = core.graph_nodes(g.handle)
  local of = groups.by_node(g.groups, total, function(id) return core.node_gradient_of(g.handle, id) end)
  for _, n in ipairs(data.nodes) do some = some or n.merged end
  for layer = 1, some and 2 or 1 do
    data.edges = edges(h, data.nodes, layer == 2)
    list[layer] = { edges = data.edges, pictures = {} }
    for i, p in ipairs(layout.pictures(data, of, layer == 2)) do list[layer].pictures[i] = on_page(p) end
  end
  return list
end

--- The page of a run, as text.
-- @param live  nil, or of a run that goes on, {said = where it stands, node = what runs next}: all of the graph is
--              there from the beginning, of a long run less of its tokens, and the page begins with the last one
function M.text(h, live)
  local first, behind = live and 4000 or M.first, live and 8000 or M.last
  local data = gather(h, first, behind, live)
  local g = h.session.graph
  local files, lines = sources(data.nodes)
  local c = data.columns
  local texts, of_token = values(h, data)
  local _, peak = core.memory()
  local stats, ok = h:stats(), h.ok
  if live then ok = ok ~= false end                          -- so far
  local shown = { nodes = {}, layers = layers(h, data), scopes = {}, frames = data.frames, files = files,
                  total = data.total, merged = data.merged, first = math.min(first, #c.node), missing = data.missing,
                  lost = core.run_events_lost(h.handle), node = c.node, frame = steps(c.frame),
                  iteration = steps(c.iteration), at = steps(c.at), took = c.took, memory = steps(c.memory),
                  dead = table.concat(c.dead), values = texts, value = of_token, ok = ok, fail = not ok
                  and failure(h, data) or nil, live = live and { said = live.said, unlogged = data.total == 0
                      and stats.nodes_run > 0 } or nil, swap = stats.swap, host = logged.places_of(h)[1],
                  peak = peak > (h.peak_before or peak) and peak or data.most }
  for i, n in ipairs(data.nodes) do
    if live and n.id == live.node then shown.live.next = i - 1 end
    shown.nodes[i] = { name = n.name, type = n.type, label = n.label, args = n.args, source = n.source, line = lines[i],
                       scope = n.scope, merged = n.merged }
  end
  for i, s in ipairs(data.scopes) do
    shown.scopes[i] = { id = s.id, name = s.name, where = s.where, parent = s.parent }
  end
  return table.concat{ page.head, 'const run = ', json.encode(shown, short), ';\n', script.text, page.tail }
end

--- Writes the page. Called by h:wait() when opts.report was given.
function M.write(h, path)
  local text = M.text(h)
  writer.with(path, function(f) f:write(text) end, 'report')
  if not h.remains then core.run_forget(h.handle) end
end

return M
