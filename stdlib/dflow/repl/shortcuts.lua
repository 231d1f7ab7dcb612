--- `:nodes`, `:outputs`, `:grad`, `:sh` and `:alias`.
local commands = require 'dflow.repl.commands'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local session = require 'dflow.repl.session'
local text = require 'dflow.front.text'
local values = require 'dflow.repl.values'
local df = require 'dflow'

local command = commands.command

--- The nodes whose name or op holds the text, a Lua pattern or not.
command('nodes', function(rest, say)
  local g = require('dflow.repl.inspector').graph()
  local ok = pcall(string.find, '', rest)
  local shown, all = 0, g:ops()
  for _, op in ipairs(all) do
    if rest == '' or op.name:find(rest, 1, not ok) or op.type:find(rest, 1, not ok) then
      local o = op.outputs[1]
      say(('%-30s %-18s %-20s %s'):format(op.name, op.type, o and o.dtype ~= 'resource' and text.shape(o.dtype, o.shape)
                                          or '', op.source or ''))
      shown = shown + 1
    end
  end
  if shown == 0 then
    say(rest == '' and 'the graph has no nodes yet'
        or ("none of the graph's %d nodes has '%s' in its name or op"):format(#all, rest))
  end
end, [[nodes [pattern] - lists nodes of the graph whose name or op contains the pattern: name, op, shape, Lua line
:nodes MatMul, :nodes lstm; :nodes ~ lstm filters whole lines]])

--- Names are Lua's, too: commands.lua puts them in.
command('outputs', function(_, say)
  local g = require('dflow.repl.inspector').graph()
  local names = require('dflow.command.inspect').outputs(g)
  for _, name in ipairs(names) do
    local o = g:output(name)
    say(('%-30s %-24s %s'):format(o.name, text.shape(o.dtype, o.shape), o.source or ''))
  end
  if #names == 0 then say 'the graph has no output that nothing takes' end
end, 'outputs - lists the outputs of the graph that no node reads: name, dtype, shape, Lua line')

command('grad', function(rest, say)
  local usage = ':grad x, or :grad x by w, b'
  local of, by = rest:match '^(.-)%s+by%s+(.+)$'
  local chunk = load('return ' .. (of or rest), '=command', 't', session.locals.environment({}))
  if rest == '' or not chunk then error('usage: ' .. usage, 0) end
  local y = chunk()
  if getmetatable(y) ~= graph.Output then
    error((':grad: an Output is expected, not %s'):format(errors.describe(y)), 0)
  end
  local xs
  if by then
    chunk = load('return {' .. by .. '}', '=command', 't', session.locals.environment({}))
    or error('usage: ' .. usage, 0)
    xs = chunk()
  else
    xs = require('dflow.inspect.saved').sources(y.graph, y)
    if #xs == 0 then
      error((':grad: %s depends on no Variable and no float placeholder; :grad %s by x names others')
        :format(y.name, of or rest), 0)
    end
  end
  for i, g in ipairs(df.gradients(y, xs, { unconnected = 'zero' })) do
    say(('by %s: %s'):format(xs[i].name, tostring(g)))
    local ok, v = pcall(df.run, g)
    if ok then say('  ' .. values.text(v):gsub('\n', '\n  ')) end
  end
end, [[grad x [by a, b] - builds and shows the gradient of x
Without `by` it is by x's variables and float placeholders. A gradient that needs feeds is built and not
run; :graph x at gradient draws it.]], nil, true)

command('sh', function(rest, say, _, _, seen)
  if rest == '' then error('usage: :sh command', 0) end
  io.stdout:flush()
  if seen then
    local _, how, status = os.execute(rest)
    if status ~= 0 then say(('it ended with %s %d'):format(how == 'signal' and 'signal' or 'status', status)) end
    return
  end
  local pipe = assert(io.popen(rest, 'r'))
  for line in pipe:lines() do say(line) end
  pipe:close()
end, 'sh command - runs a shell command', nil, true)

local aliases = {}

command('alias', function(rest, say)
  local name, line = rest:match '^:?(%a[%w_]*)%s+(%S.*)$'
  if not name then
    local names = {}
    for known in pairs(aliases) do if rest == '' or rest == known then names[#names + 1] = known end end
    table.sort(names)
    if #names == 0 and rest ~= '' then
      error((":alias: there is no alias '%s'; :alias name command … makes one"):format(rest), 0)
    end
    if #names == 0 then say ':alias name command … makes one; none was made yet' end
    for _, known in ipairs(names) do say((':%-10s :%s'):format(known, aliases[known])) end
    return
  end
  line = line:gsub('^:', '')
  if not aliases[name] and commands.doc(name) then error((':alias: :%s is a command of its own'):format(name), 0) end
  local target, why = commands.find(line:match '^[%w_]*')
  if not target then error(why, 0) end
  if aliases[target.name] then error((':alias: :%s is an alias itself; name the command'):format(target.name), 0) end
  aliases[name] = line
  command(name, function(more) return commands.run(':' .. line .. (more ~= '' and ' ' .. more or '')) and true
      or nil end,
    ('%s … - :%s …'):format(name, line), nil, true)
end, [[alias [name command …] - defines a short name for a command with arguments; alone: lists them
:alias st stats ~runs defines :st. In ~/.config/dflow/init.lua, repl.input ':alias st stats' defines it
for every session.]], nil, true)
