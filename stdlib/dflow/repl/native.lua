--- `:explain` and `:disasm`: which loops are machine code, why others are not, and what the code is; what a plan leaves
-- out of the graph.
local commands = require 'dflow.repl.commands'
local core = require 'dflow.backend'
local registry = require 'dflow.front.registry'
local session = require 'dflow.repl.session'
local df = require 'dflow'

--- What the session's plans say of loops: a loop that several have ran alike in most, and has not run in those that
-- nothing ran.
local function of_plans(loop)
  local text, lines, said, ran = df.default_session():native{ loop = loop }, {}, {}, {}
  for name, how in text:gmatch '%f[^\n%z](%S+)  ([^\n]*)' do ran[name] = ran[name] or not how:find 'it has not run$' end
  for line in text:gmatch '[^\n]+' do
    local name, how = line:match '^(%S+)  (.*)$'
    if not (name and (said[line] or ran[name] and how:find 'it has not run$')) then lines[#lines + 1] = line end
    said[line] = name ~= nil
  end
  return table.concat(lines, '\n')
end

local function told(loop, code)
  local name = loop ~= '' and loop or nil
  local text = code and df.default_session():native{ loop = name, code = code }:gsub('\n$', '') or of_plans(name)
  if text ~= '' then return text end
  if loop ~= '' then
    error(code and ('no loop `%s` was compiled; :explain says why'):format(loop)
          or ('no loop `%s` has run in this session'):format(loop), 0)
  end
  return code and 'no loop was compiled; :explain says why' or 'no loop has run in this session'
end

--- What the text is an expression of; nil for what is none, as the name of a loop.
local function value_of(text)
  local chunk = text ~= '' and load('return ' .. text, '=command', 't', session.locals.environment({}))
  local ok, v = pcall(chunk or error)
  return chunk and ok and v or nil
end

--- Those of the list that have `key`: a line each under their number, in `lines`.
local function add(lines, list, key, said)
  local at, n = #lines + 1, 0
  for _, p in ipairs(list) do
    if p[key] then
      n = n + 1 lines[at + n] = ('%s (%s): %s'):format(p.node, p.op, p.why:match '^([^;]*); nothing asked' or p.why)
    end
  end
  if n > 0 then lines[at] = said:format(n, #list) end
end

--- How the loops among the nodes ran: a line or more for each, in the order in which they were built.
local function loops(g, list, lines)
  local seen = {}
  for _, p in ipairs(list) do
    local loop = registry.primitive(p.op) == 'Enter' and core.node_attr(g.handle, p.id, 'frame_name')
    if loop and not seen[loop] then
      local ran = of_plans(loop)
      seen[loop], lines[#lines + 1] = true, ran ~= '' and ran or loop .. '  has not run in this session'
    end
  end
end

--- What a run of x does not compute, or not in each iteration, and what gives its value; then x's loops: lines.
local function of_output(x)
  local list, lines = df.default_session():placement(x), {}
  add(lines, list, 'left_out', 'a run leaves out %d of the %d nodes that it needs')
  add(lines, list, 'once', 'iterations share %d of the %d nodes that a run needs')
  lines[1] = lines[1] or ('a run computes the graph as written, %d node%s'):format(#list, #list == 1 and '' or 's')
  loops(x.graph, list, lines)
  return table.concat(lines, '\n')
end

commands.command('explain', function(rest)
  local v = value_of(rest)
  if type(v) == 'table' and (getmetatable(v) or {}).__name == 'dflow.Output' then return of_output(v) end
  if type(v) ~= 'function' then return told(rest) end
  local text, why = require('dflow.autograph').text(v)
  return text or ('autograph cannot rewrite %s: %s'):format(rest, why)
end,
  [[explain [loop | f | x] - shows which loops ran as native code, and why others did not
:explain x names the loops that x needs, and the nodes that a run of x does not compute: they equal
another node, are constant, or change nothing. It also names the nodes that a loop computes once for all
iterations, because their inputs do not change. A loop has the name that :frames shows, such as while_1.
A hot loop is compiled; df.Session{engine = 'native'} compiles each loop before its first iteration.
`top level` is the code that df.run uses for small tensors without effects, from 16 nodes on, once it is
hot.
:explain f shows the Lua text that autograph makes of a function.]])

commands.command('disasm', function(rest) return told(rest, 'machine') end,
  'disasm [loop] - shows the machine code of compiled loops; :disasm > loop.s writes it to a file')
