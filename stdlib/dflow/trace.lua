--- What a run logged, as a timeline that Perfetto and chrome://tracing open: opts.trace = 'run.json' of df.run and df.start.
--
-- Nodes are slices of the thread that ran them: one after the other on the run's own, overlapping ones on lanes of the workers.
-- Iterations and frames overlap freely, so they are async spans, an id each. Memory is a counter. Times are microseconds.
local core = require 'dflow.backend'
local errors = require 'dflow.errors'
local graph = require 'dflow.graph'

local M = {}
local TOKEN, DONE, OPEN = 0, 1, 2
local FIELDS = 9
local format = string.format

--- Calls fn(at, took, iteration, memory, node, frame, scope, kind, dead) for every event of a run that is over, or so far.
function M.each(h, fn)
  local first = 0
  while true do
    local list = core.run_events(h.handle, first, 4096)
    for i = 0, #list / FIELDS - 1 do
      local b = i * FIELDS
      fn(list[b + 1], list[b + 2], list[b + 3], list[b + 4], list[b + 5], list[b + 6], list[b + 7], list[b + 8], list[b + 9] ~= 0)
    end
    if #list < 4096 * FIELDS then return end
    first = first + 4096
  end
end

--- A Lua string as JSON.
local escapes = { ['"'] = '\\"', ['\\'] = '\\\\', ['\n'] = '\\n', ['\r'] = '\\r', ['\t'] = '\\t' }
function M.quote(s)
  return '"' .. s:gsub('[%c"\\<]', function(c) return escapes[c] or format('\\u%04x', c:byte()) end) .. '"'
end
local quote = M.quote

--- Facts about nodes and frames, looked up once: node(id) -> name, type, source; tag(frame, iteration) -> 'while:17'.
function M.names(h)
  local g, nodes, frames, scopes = h.session.graph, {}, { [0] = { tag = '' } }, {}
  local names = {}
  function names.node(id)
    local n = nodes[id]
    if not n then
      local op = graph.operation(g, id)
      n = { name = op.name, type = op.type, source = op.source or '' }
      nodes[id] = n
    end
    return n
  end
  function names.scope(id)
    if not scopes[id] then
      local name, where = core.run_scope(h.handle, id)
      scopes[id] = { name = name or '', where = where or '' }
    end
    return scopes[id]
  end
  function names.open(frame, parent, iteration, scope)
    local p = frames[parent] or frames[0]
    local tag = names.scope(scope).name
    if p.tag ~= '' then tag = format('%s:%d/%s', p.tag, iteration, tag) end
    frames[frame] = { tag = tag, parent = parent, iteration = iteration, scope = scope }
  end
  function names.frame(frame) return frames[frame] or frames[0] end
  function names.tag(frame, iteration)
    local tag = names.frame(frame).tag
    return tag == '' and '' or format('%s:%d', tag, iteration)
  end
  return names
end

local function open(path)
  local file, why = io.open(path, 'w')
  if not file then errors.raise('invalid_argument', 'trace: %s', why) end
  return file
end

--- Writes the run's timeline to a file. Called by h:wait() when opts.trace was given.
function M.write(h, path)
  local file = open(path)
  local names = M.names(h)
  local spans, order, away, lanes = {}, {}, {}, {}
  local begun, end_ = {}, 0
  local comma = ''
  local function put(...)
    file:write(comma, format(...))
    comma = ',\n'
  end
  file:write('{"displayTimeUnit":"ns","traceEvents":[\n')
  put('{"ph":"M","pid":1,"name":"process_name","args":{"name":"dflow"}}')
  put('{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"tokens"}}')
  local last_memory
  M.each(h, function(at, took, iteration, memory, node, frame, scope, kind, dead)
    local us = at / 1000
    end_ = math.max(end_, at + took)
    if kind == OPEN then
      names.open(frame, node, iteration, scope)
      begun[frame] = at
      put('{"ph":"b","cat":"frame","pid":1,"tid":1,"id":"f%d","ts":%.3f,"name":%s,"args":{"source":%s}}', frame, us, quote(names.frame(frame).tag),
        quote(names.scope(scope).where))
    elseif kind == TOKEN then
      local n = names.node(node)
      local tag = names.tag(frame, iteration)
      put('{"ph":"X","cat":"%s","pid":1,"tid":1,"ts":%.3f,"dur":%.3f,"name":%s,"args":{"op":%s,"tag":%s,"source":%s,"dead":%s}}', dead and 'dead' or 'node',
        us, math.max(took, 1) / 1000, quote(dead and n.name .. ' (dead)' or n.name), quote(n.type), quote(tag), quote(n.source), tostring(dead))
      away[node .. '@' .. frame .. '@' .. iteration] = at
      if frame ~= 0 then
        local key = frame .. ':' .. iteration
        local span = spans[key]
        if not span then
          span = { frame = frame, iteration = iteration, first = at, last = at }
          spans[key], order[#order + 1] = span, span
        end
        span.last = math.max(span.last, at + took)
      end
    elseif kind == DONE then
      local key = node .. '@' .. frame .. '@' .. iteration
      local since = away[key]
      if since then
        local lane = 1
        while lanes[lane] and lanes[lane] > since do lane = lane + 1 end
        if not lanes[lane] then put('{"ph":"M","pid":1,"tid":%d,"name":"thread_name","args":{"name":"away %d"}}', lane + 1, lane) end
        lanes[lane] = at
        local n = names.node(node)
        put('{"ph":"X","cat":"away","pid":1,"tid":%d,"ts":%.3f,"dur":%.3f,"name":%s,"args":{"op":%s,"tag":%s,"source":%s}}', lane + 1, since / 1000,
          (at - since) / 1000, quote(n.name), quote(n.type), quote(names.tag(frame, iteration)), quote(n.source))
      end
    else
      put('{"ph":"e","cat":"frame","pid":1,"tid":1,"id":"f%d","ts":%.3f,"name":%s}', frame, us, quote(names.frame(frame).tag))
      begun[frame] = nil
    end
    if memory ~= last_memory then
      put('{"ph":"C","pid":1,"name":"memory","ts":%.3f,"args":{"cpu:0":%.0f}}', us, memory)
      last_memory = memory
    end
  end)
  for frame in pairs(begun) do
    put('{"ph":"e","cat":"frame","pid":1,"tid":1,"id":"f%d","ts":%.3f,"name":%s}', frame, end_ / 1000, quote(names.frame(frame).tag))
  end
  for _, s in ipairs(order) do
    local name = quote(names.tag(s.frame, s.iteration))
    put('{"ph":"b","cat":"iteration","pid":1,"tid":1,"id":"i%d.%d","ts":%.3f,"name":%s}', s.frame, s.iteration, s.first / 1000, name)
    put('{"ph":"e","cat":"iteration","pid":1,"tid":1,"id":"i%d.%d","ts":%.3f,"name":%s}', s.frame, s.iteration, s.last / 1000, name)
  end
  file:write('\n]}\n')
  file:close()
end

return M
