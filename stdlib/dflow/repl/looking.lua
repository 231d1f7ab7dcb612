--- `:src`, `:inputs`, `:watch` and `:diff`: lines with what they did, what a value comes from, expressions that are
--- looked at again and again, and where two runs first differ.
local core = require 'dflow.backend'
local graph = require 'dflow.front.graph'
local quote = require 'dflow.front.quote'
local errors = require 'dflow.front.errors'
local commands = require 'dflow.repl.commands'
local values = require 'dflow.repl.values'

local M = {}
local command = commands.command

-- ---- :inputs --------------------------------------------------------------------------------------------------------
--- The node that a word or an expression stands for.
local function node_of(rest, repl, usage)
  if rest == '' then error('usage: ' .. usage, 0) end
  local g = require('dflow').default_graph()
  local ok, o = pcall(g.output, g, rest)
  if not ok then ok, o = pcall(g.op, g, rest) end
  if ok then return o.graph and o.op or o end
  local chunk = repl.session.compile(rest)
  local fine, v = pcall(chunk or function() end)
  local mt = fine and getmetatable(v)
  if mt == graph.Operation then return v end
  if mt == graph.Output or (type(mt) == 'table' and rawget(mt, 'is_value')) then return v.op end
  error(o, 0)
end

command('inputs', function(rest, say, repl)
  local what, depth = rest:match('^(.-)%s+(%d+)$')
  local top = node_of(what or rest, repl, ':inputs x [depth]')
  local seen, left = {}, 60
  local function walk(op, indent, d)
    if left <= 0 then return end
    left = left - 1
    local o = op.outputs[1]
    local shape = o and o.dtype ~= 'resource' and '  ' .. require('dflow.front.text').shape(o.dtype, o.shape) or ''
    local again = seen[op.node] and #op.inputs > 0
    say(('%s%s (%s)%s%s%s')
      :format(indent, op.name, op.type, shape, op.source and '  ' .. op.source or '', again and '  …' or ''))
    if again or d == 0 then return end
    seen[op.node] = true
    for _, input in ipairs(op.inputs) do walk(input.op, indent .. '  ', d - 1) end
  end
  walk(top, '', tonumber(depth) or 4)
  if left <= 0 then say('… and more; :inputs x 2 goes less deep') end
end, 'inputs x [depth] - shows what x is computed from, as a tree, 4 levels deep by default', nil, true)

-- ---- :src -----------------------------------------------------------------------------------------------------------
--- The lines of a run's sources with tokens, dead tokens and milliseconds of each.
local function annotated(runs, wall)
  local sums = require('dflow.repl.profile').sums(runs, wall)
  local files, order = {}, {}
  for _, row in ipairs(sums.lines) do
    local file, line = row.name:match('^(.*):(%d+)$')
    if file then
      if not files[file] then
        files[file] = {}
        order[#order + 1] = file
      end
      files[file][tonumber(line)] = row
    end
  end
  table.sort(order, function(a, b)
    local x, y = tonumber(a:match('^In%[(%d+)%]$')), tonumber(b:match('^In%[(%d+)%]$'))
    if x and y then return x < y end
    return a < b
  end)
  local out = { ('%8s %6s %10s'):format('tokens', 'dead', 'ms') }
  for _, file in ipairs(order) do
    local first, last = math.huge, 0
    for n in pairs(files[file]) do first, last = math.min(first, n), math.max(last, n) end
    out[#out + 1] = file
    for n = math.max(1, math.min(first, last - 200)), last do
      local text, row = quote.line(file .. ':' .. n), files[file][n]
      if row or (text and text:find('%S')) then
        local counts = row and ('%8d %6s %10.3f'):format(row.n, row.dead > 0 and row.dead or '', row.ns / 1e6)
          or (' '):rep(26)
        out[#out + 1] = ('%s %5d | %s'):format(counts, n, (text or '?'):gsub('%s+$', ''))
      end
    end
  end
  return table.concat(out, '\n')
end

command('src', function(rest, say)
  if rest == '' then error('usage: :src EXPRESSION that runs a graph, such as :src df.run(loss)', 0) end
  local seen, wall, ok, value = require('dflow.repl.inspector').logged_runs(rest)
  if #seen > 0 then say(annotated(seen, wall)) end
  if not ok then error(value, 0) end
end, 'src EXPRESSION - runs it and shows tokens, dead tokens and milliseconds beside each Lua line', nil, true)

-- ---- :watch ---------------------------------------------------------------------------------------------------------
local watched = {}
local fetched = {}             -- of Outputs that need feeds: what runs gave last, while something is watched

local function key_of(o) return ('%s %d:%d'):format(tostring(o.graph), o.node, o.index) end

--- Notes what a run gave for the Outputs that it fetched.
local function note(fetch, result)
  if getmetatable(fetch) == graph.Output then
    fetched[key_of(fetch)] = result
  elseif errors.is_data(fetch) and errors.is_data(result) then
    for key, v in pairs(fetch) do note(v, result[key]) end
  end
end

--- An Output's value: computed where it needs no feeds, else what a run gave last.
local function value_now(o)
  if core.needs_nothing(o.graph.handle, o.node, o.index) then return values.brief(require('dflow').run(o)) end
  local last = fetched[key_of(o)]
  return last == nil and 'not there yet: it needs feeds, and is shown when a run fetches it' or values.brief(last)
end

--- What a Variable holds in the default session; an error where it is none, or has no value yet.
local function held_by(v)
  local t = core.session_variable(v.graph.session.handle, v.handle.node, true)
  return t.size == 1 and t.rank == 0 and t:item() or t
end

--- What an expression is now, as a line; an error as its message.
local function line_of(text, repl)
  if not repl.session.complete(text) then
    error(("'%s' is not finished: something is missing behind it"):format(text), 0)
  end
  local chunk, why = repl.session.compile(text)
  if not chunk then error(why, 0) end
  local runs = require 'dflow.front.session'
  local foreground, started, remains = runs.foreground, runs.started, runs.remains
  runs.foreground, runs.started, runs.remains = nil, nil, nil            -- these are no runs of the session's own
  local ok, v = repl.call(function()
    local v = chunk()
    if getmetatable(v) == graph.Output then return value_now(v) end
    local ok, held = pcall(held_by, v)
    return values.brief(ok and held or v)
  end)
  runs.foreground, runs.started, runs.remains = foreground, started, remains
  return ok and v or tostring(v):gsub('\n.*', '')
end

--- After each input: those that changed are shown.
function M.look_again(repl, say)
  for _, w in ipairs(watched) do
    local ok, now = pcall(line_of, w.text, repl)
    if ok and now ~= w.last then
      w.last = now
      say(values.paint(('%s = %s'):format(w.text, now), 'D'))
    end
  end
end

command('watch', function(rest, say, repl)
  if rest == '' then
    if #watched == 0 then say('nothing is watched; :watch EXPRESSION shows it whenever it has changed') end
    for i, w in ipairs(watched) do say(('%d  %s = %s'):format(i, w.text, w.last)) end
    return
  end
  local now = line_of(rest, repl)
  watched[#watched + 1] = { text = rest, last = now }
  require('dflow.repl.inspector').noticed = note
  say(('%s = %s'):format(rest, now))
end, [[watch [EXPRESSION] - shows its value after each input that changes it; alone: lists what is watched
A loss that needs feeds shows the value of its last run: df.run({step, loss}, feeds).]], nil, true)

command('unwatch', function(rest, say)
  local i = tonumber(rest)
  if rest == '' and #watched == 0 then return say('nothing is watched') end
  if rest ~= '' and not i then error('usage: :unwatch [n], with a number that :watch says', 0) end
  if i and not watched[i] then return say('there is no such expression; :watch lists them') end
  if i then table.remove(watched, i) else for k = #watched, 1, -1 do watched[k] = nil end end
  if #watched == 0 then require('dflow.repl.inspector').noticed, fetched = nil, {} end
end, 'unwatch [n] - removes watch n, or all of them')

-- ---- :diff ----------------------------------------------------------------------------------------------------------
--- The last tokens of a run that is over, oldest first, by tag and node: dead or not, and the value where it is there.
local function trail(h)
  local list = {}
  local history = h:history(4096)
  for i = #history, 1, -1 do
    local t = history[i]
    local v, how
    if not t.dead and #t.op.outputs > 0 then
      local ok, value, state = pcall(h.value, h, t.op.outputs[1], t.tag ~= '' and t.tag or nil)
      if ok then v, how = value, state end
    end
    list[#list + 1] = { key = t.op.name .. (t.tag ~= '' and ' @ ' .. t.tag or ''), name = t.op.name,
                        source = t.op.source,
                        dead = t.dead or how == 'dead', value = v }
  end
  return list
end

local function same(a, b)
  if a == nil or b == nil then return true end             -- one of them kept none
  if type(a) ~= type(b) then return false end
  if type(a) == 'number' then return a == b or (a ~= a and b ~= b) end
  if type(a) == 'table' then
    if a.dtype ~= b.dtype or tostring(a) ~= tostring(b) then return false end
    local x, y = a:list(), b:list()
    for i = 1, #x do if x[i] ~= y[i] and (x[i] == x[i] or y[i] == y[i]) then return false end end
    return #x == #y
  end
  return a == b
end

local function shown(t)
  return t.dead and 'dead' or t.value == nil and 'live' or (tostring(t.value):gsub('%s+', ' '):sub(1, 50))
end

--- Where two runs first differ: a token that is dead in one, another value, or one that the other has not. Order does
-- not count.
function M.difference(a, b)
  local first, second = trail(a), trail(b)
  local by_key = {}
  for _, t in ipairs(second) do by_key[t.key] = t end
  local only
  for _, t in ipairs(first) do
    local other = by_key[t.key]
    if not other then only = only or t
    elseif other.dead ~= t.dead or not same(t.value, other.value) then
      return ('%s: %s and %s%s'):format(t.key, shown(t), shown(other), t.source and '  ' .. t.source or '')
    end
  end
  if only then
    return ('%s ran in the first one alone%s'):format(only.key, only.source and '  ' .. only.source or '')
  end
  local seen = {}
  for _, t in ipairs(first) do seen[t.key] = true end
  for _, t in ipairs(second) do
    if not seen[t.key] then
      return ('%s ran in the second one alone%s'):format(t.key, t.source and '  ' .. t.source or '')
    end
  end
  return ('no difference in the last %d tokens, and in what values of them were kept'):format(#first)
end

command('diff', function(rest)
  local inspector = require 'dflow.repl.inspector'
  local a, b = rest:match('^(%d+)%s+(%d+)$')
  local function there(n)
    local h = inspector.handles[n]
    return h and h:state() == 'done' and core.run_remains(h.handle) >= 0 and h
  end
  local function run(n)
    return there(tonumber(n)) or error(('run %s is not there to be looked at; :runs lists those that are'):format(n), 0)
  end
  for n = inspector.count, rest == '' and 1 or math.huge, -1 do        -- the last two
    if there(n) and b then a = a or n else b = there(n) and n or b end
  end
  if not a then
    error(rest == '' and 'there are no two runs to compare'
          or 'usage: :diff [n m], with numbers of :runs; :record on before them keeps their values too', 0)
  end
  return M.difference(run(a), run(b))
end, [[diff [n m] - shows the first difference of two runs: a dead token, a value, a node that did not run
n and m are numbers of :runs; without them the last two. The tokens and values that were kept are
compared: use :record on before the runs.]])

return M
