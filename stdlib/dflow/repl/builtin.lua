--- The prompt's own commands.
local df = require 'dflow'
local files = require 'dflow.exchange.file'
local text = require 'dflow.front.text'
local commands = require 'dflow.repl.commands'
local session = require 'dflow.repl.session'
local values = require 'dflow.repl.values'
local marks = require 'dflow.repl.marks'

local command = commands.command
local unpack = table.unpack or unpack

--- The chunk of an expression or statement of a command's line; an error when it is none.
local function chunk_of(rest, usage)
  if rest == '' then error('usage: ' .. usage, 0) end
  if not session.complete(rest) then error(("'%s' is not finished: something is missing behind it"):format(rest), 0) end
  local chunk, why = session.compile(rest)
  if not chunk then error(why, 0) end
  if rest:find '^[%a_][%w_]*$' and chunk() == nil then
    error(("'%s' is nil: nothing to look at has that name"):format(rest), 0)
  end
  return chunk
end

--- The values that an expression of a command's line gives, or all of what is not an expression.
local function value_of(rest, usage)
  local v = chunk_of(rest, usage)()
  if v == nil then error(("'%s' is nil: nothing to look at has that name"):format(rest), 0) end
  return v
end

-- ---- help ---------------------------------------------------------------------------------------------------------
-- The commands by what they are for; one that is not here, as a user's own, is among the others.
local GROUPS = {
  { 'names', 'help, and what the graph is',
    'help doc where graph plot nodes outputs grad placement saved inputs explain disasm' },
  { 'runs', 'look into a paused or finished run',
    'frames tokens stacks why whynot value back forward swap runs attach record diff' },
  { 'steps', 'stop and resume a run', 'break unbreak step continue pause cancel' },
  { 'time', 'time, memory and machines', 'time timeit prof src trace whatif top mem stats cluster' },
  { 'session', 'inputs, files and settings',
    'history locals watch unwatch save load run edit set alias sh autograph serve learn quit' },
}

for _, g in ipairs(GROUPS) do commands.groups[g[1]] = true end

--- {name, title, {commands}} of all commands.
local function groups()
  local left, list = {}, {}
  for _, name in ipairs(commands.names()) do left[name] = true end
  for i, g in ipairs(GROUPS) do
    list[i] = { g[1], g[2], {} }
    for name in g[3]:gmatch('%S+') do
      if left[name] then list[i][3][#list[i][3] + 1], left[name] = name, nil end
    end
  end
  local others = { 'others', 'and these', {} }
  for _, name in ipairs(commands.names()) do if left[name] then others[3][#others[3] + 1] = name end end
  if #others[3] > 0 then list[#list + 1] = others end
  return list
end

local function split(text, lines)
  for line in (text .. '\n'):gmatch('([^\n]*)\n') do lines[#lines + 1] = line end
end

--- A group's commands, one line or more each.
local function describe(names, lines)
  local help = require 'dflow.docs.help'
  local indent = help.width >= 60 and (' '):rep(26) or '    '
  for _, name in ipairs(names) do
    local usage, about = commands.about(name)
    if #usage < #indent - 1 then
      split((':%-24s %s'):format(usage, (help.wrap(about, indent):gsub('^%s+', ''))), lines)
    else
      split(help.wrap(':' .. usage, ''), lines)
      split(help.wrap(about, indent), lines)
    end
  end
end

local ASKED = {
  { ':learn', 'begins fourteen short lessons; outside of the prompt, dflow manual lists pages to read' },
  { '?name', 'shows the help of an op or function with an example, ?matmul, of a method, ?h:step, of a value, ?x, or '
             .. 'of a node by its number, ?12' },
  { '?pattern*', 'lists the names that match' },
  { '??name', 'shows where it is defined: Lua lines, or C file and line of its entry, gradient and kernels' },
}
local NOTES = [[:cmd? shows the help of a command; :cmd … ~pattern keeps lines that match; :cmd … > file writes
them to a file. A command may be shortened while it stays unique. An expression prints its value, unless a ; ends it; _
and __ are the last two values, Out[n] is that of input n. Alt-Enter begins a new line, Tab completes, Right takes the
grey suggestion, Ctrl-R searches, Ctrl-C pauses a run, Ctrl-D leaves.]]

command('help', function(rest)
  local help = require 'dflow.docs.help'             -- the help of all names: loaded when asked for
  help.width = math.max(30, math.min(110, values.terminal().columns))
  local lines = {}
  for _, g in ipairs(groups()) do
    if rest == g[1] then
      describe(g[3], lines)
      return table.concat(lines, '\n')
    end
  end
  if rest ~= '' and rest ~= 'all' then return require('dflow.repl.where').what(rest) end
  for _, ask in ipairs(ASKED) do
    split(('%-12s %s'):format(ask[1], (help.wrap(ask[2], (' '):rep(13)):gsub('^%s+', ''))), lines)
  end
  for _, g in ipairs(groups()) do
    lines[#lines + 1] = ''
    split(help.wrap(('%s: %s'):format(g[1], g[2]), ''), lines)
    if rest == 'all' then
      describe(g[3], lines)
    else
      split(help.wrap(':' .. table.concat(g[3], ' :'), '  '), lines)
    end
  end
  lines[#lines + 1] = ''
  if rest ~= 'all' then
    split(help.wrap(':help all describes all commands, :help runs a group, :why? one command', ''), lines)
  end
  split(help.wrap(NOTES, ''), lines)
  return table.concat(lines, '\n')
end, 'help [name | group | all] - lists the commands by group, or shows the help of a name')

command('doc', function(rest, say)
  if rest ~= '' then return require('dflow.repl.where').what(rest) end
  local line = ''
  for _, name in ipairs(require('dflow.docs.help').names()) do
    if #line + #name > values.terminal().columns - 4 then
      say(line)
      line = ''
    end
    line = line .. name .. '  '
  end
  say(line)
end, 'doc [name] - shows the help of a name; without one lists all names')

command('where', function(rest, _, repl)
  if rest == '' then error('usage: :where name', 0) end
  return require('dflow.repl.where').where(rest, repl)
end, [[where name - shows where a name is defined: its Lua function or its op's entry; short: ??name]])

-- ---- the session --------------------------------------------------------------------------------------------------
command('history', function(rest, say, repl)
  local list = {}
  if rest == 'all' then
    list = repl.program.history()
  else
    for i, input in ipairs(session.inputs) do list[i] = input.text end
  end
  if rest ~= '' and rest ~= 'all' and not rest:find('^%d+$') then
    error('usage: :history [n | all]; :history ~text shows those that mention it', 0)
  end
  local last = tonumber(rest) or #list
  for i = math.max(1, #list - last + 1), #list do
    local number = rest == 'all' and ('%5d'):format(i) or ('%8s'):format(('In[%d]'):format(i))
    say(number .. '  ' .. (list[i]:gsub('\n', '\n' .. (' '):rep(#number + 2))))
  end
end, [[history [n | all] - lists the inputs of this session, or the last n; all: those of earlier sessions, too
:history ~map_fn shows the inputs that contain map_fn, :history > notes.txt writes them to a file]])

command('save', function(rest, say)
  if rest == '' then error('usage: :save file.lua', 0) end
  files.write(rest, require('dflow.repl.script').of(
      session.inputs, ('a session of %s'):format(os.date('%Y-%m-%d %H:%M'))))
  local n = 0
  for _, input in ipairs(session.inputs) do n = n + (input.ok and 1 or 0) end
  say(('%d input%s in %s; run it with: dflow %s'):format(n, n == 1 and ' is' or 's are', rest, rest))
end, [[save file.lua - writes the inputs that succeeded as a script
The script prints the expressions that were printed here. Inputs that failed or only asked for help are
left out.]])

local function read_file(path)
  local file, why = io.open(path)
  if not file then error(why, 0) end
  local source = file:read('*a')
  file:close()
  return (source:gsub('^#[^\n]*', '', 1))
end

command('load', function(rest, _, repl)
  if rest == '' then error('usage: :load file.lua', 0) end
  repl.run(read_file(rest))
end, 'load file.lua - runs a file as if it were typed here; its top-level locals remain')

command('run', function(rest)
  local words = {}
  for word in rest:gmatch('%S+') do words[#words + 1] = word end
  if #words == 0 then error('usage: :run file.lua [arguments]', 0) end
  local chunk, why = loadfile(words[1])
  if not chunk then error(why, 0) end
  local before = rawget(_G, 'arg')
  _G.arg = { [0] = words[1], unpack(words, 2) }
  local ok, err = pcall(chunk, unpack(words, 2))
  _G.arg = before
  if not ok then error(err, 0) end
end, 'run file.lua [arguments] - runs a script with arguments, as `dflow file.lua` would')

command('edit', function(rest, _, repl)
  if not values.terminal().editing then error(':edit opens an editor, which needs a terminal', 0) end
  local source = ''
  local n = tonumber(rest) or (rest == '' and #session.inputs)
  if n then
    local input = session.inputs[n < 0 and #session.inputs + 1 + n or n]
    if not input and rest ~= '' then error(('there is no input %s'):format(rest), 0) end
    source = input and input.text or ''
  end
  local free = n and os.tmpname()                  -- a file that is there, so that its name stays free
  local path = n and free .. '.lua' or rest
  if n then
    files.write(path, source, '\n')
  end
  local editor = os.getenv 'VISUAL' or os.getenv 'EDITOR' or 'vi'
  local ok = os.execute(("%s '%s'"):format(editor, path:gsub("'", "'\\''")))
  local edited = ok and read_file(path)
  if n then
    os.remove(path)
    os.remove(free)
  end
  if not ok then error(editor .. ' did not end well: nothing was run', 0) end
  edited = edited:gsub('%s+$', '')
  if edited == '' then return end
  repl.program.remember(edited)
  print(values.paint(edited, 'D'))
  repl.run(edited)
end, 'edit [n | file] - opens the last input, input n or a file in $VISUAL or $EDITOR, and runs the result')

command('locals', function(_, say)
  local names = { unpack(session.locals.names()) }
  table.sort(names)
  if #names == 0 then say('no local variables; a top-level `local x = 1` makes one') end
  for _, name in ipairs(names) do say(('%-16s %s'):format(name, values.brief(session.locals.get(name)))) end
end, [[locals - lists the local variables of this session
A top-level `local x = 1` can be used in later inputs.]])

command('autograph', function(rest, say, repl)
  local autograph = require 'dflow.autograph'
  if rest ~= '' and rest ~= 'on' and rest ~= 'off' then error('autograph is on or off', 0) end
  if rest ~= '' then
    autograph.whole = rest == 'on'
    if repl.program and not debug.getregistry().LUA_NOENV then
      session.remembered(repl.program, 'autograph', autograph.whole)
    end
  end
  say(autograph.whole and 'autograph is on: if, while, for and comparisons of Outputs build the graph'
      or 'autograph is off: if, while and for are decided while the graph is built')
end, [[autograph [on | off] - statements on Outputs build the graph: while x < 100 do x = x * x end
A loop or cond that a statement builds is computed and shown, where it needs no feeds, has no effects and
takes less than a second. Later sessions keep this setting. df.autograph(fn) does it for one function,
dflow --autograph for a script; :explain f shows the graph code.]],
function() return { { 'on', 'what is typed from now on is rewritten' }, { 'off', 'it is taken as it is' } } end)

-- ---- settings -----------------------------------------------------------------------------------------------------
local settings
function commands.is_setting(name) return settings[name] ~= nil end
settings = {
  print = { 'how large tensors are shown: auto, full or summary', function() return values.options.print end,
            function(v)
    if v ~= 'auto' and v ~= 'full' and v ~= 'summary' then error('print is auto, full or summary', 0) end
    values.options.print = v
  end, { 'auto', 'full', 'summary' } },
  theme = { 'colours: ' .. table.concat(values.theme_names(), ', '), function() return tostring(values.theme) end,
            function(v)
    local ok, why = values.set_theme(v)
    if not ok then error(why, 0) end
  end, values.theme_names() },
}
settings.images = { 'how plots are shown: auto, text, kitty or sixel', function() return values.options.images end,
                    function(v)
  if v ~= 'auto' and v ~= 'text' and v ~= 'kitty' and v ~= 'sixel' then
    error('images is auto, text, kitty or sixel', 0)
  end
  values.options.images = v
end, { 'auto', 'text', 'kitty', 'sixel' } }
--- A setting that is on or off.
local function switch(name, about, get, set)
  settings[name] = { about, function() return get() and 'on' or 'off' end, function(v)
    if v ~= 'on' and v ~= 'off' then error(name .. ' is on or off', 0) end
    set(v == 'on')
  end, { 'on', 'off' } }
end
switch('numbers', "the prompt has the input's number, as In[n] and Out[n] do",
       function() return values.options.numbers end,
  function(on) values.options.numbers = on end)
switch('suggest', 'shows the rest of an earlier input in grey behind what is typed; Right or End takes it',
       function() return values.options.suggest end,
  function(on) values.options.suggest = on end)
settings.marks = { 'prompts and places of files are marked for the terminal: auto, on or off',
                   function() return marks.setting end, function(v)
  if v ~= 'auto' and v ~= 'on' and v ~= 'off' then error('marks is auto, on or off', 0) end
  marks.setting = v
end, { 'auto', 'on', 'off' } }
local engines = { 'auto', 'tokens', 'native', 'primitives' }
settings.engine = { 'what runs graphs: auto, tokens, native or primitives', function()
  return df.default_session().engine or os.getenv 'DFLOW_ENGINE' or 'auto'
end, function(v)
  local known = false
  for _, e in ipairs(engines) do known = known or e == v end
  if not known then error('engine is auto, tokens, native or primitives', 0) end
  require('dflow.front.session').renew(df.default_graph(), { engine = v })
end, engines }
settings.primitives = { 'which runs fire every node, Merge and LoopCond too: shown (in :serve and reports), on, off',
                        function()
  if settings.engine[2]() == 'primitives' then return 'on' end
  return require('dflow.front.session').primitives and 'shown' or 'off'
end, function(v)
  if v ~= 'on' and v ~= 'off' and v ~= 'shown' then error('primitives is shown, on or off', 0) end
  require('dflow.front.session').primitives = v ~= 'off'
  if (v == 'on') ~= (settings.engine[2]() == 'primitives') then
    settings.engine[3](v == 'on' and 'primitives' or 'auto')
  end
end, { 'shown', 'on', 'off' } }
switch('record', 'runs keep the values that their nodes made',
       function() return require('dflow.repl.inspector').record end,
  function(on) require('dflow.repl.inspector').record = on or nil end)
local function number_setting(name, about, holder, least)
  settings[name] = { about, function() return ('%.0f'):format(holder[name]) end, function(v)
    local n = tonumber(v)
    if not n or n < least or n ~= math.floor(n) then
      error(('%s is a whole number from %d up'):format(name, least), 0)
    end
    holder[name] = n
  end }
end
number_setting('threshold', 'tensors of more elements, or of more lines than the window, are shown as corners',
               text.options, 0)
number_setting('edge', 'elements in a corner', text.options, 1)
number_setting('precision', 'digits after the point', text.options, 0)
number_setting('width', 'columns of a line of numbers', text.options, 20)
number_setting('depth', 'how deep tables are shown', values.options, 0)
number_setting('entries', 'entries of a table that are shown', values.options, 1)

local function setting_names()
  local names = {}
  for name in pairs(settings) do names[#names + 1] = name end
  table.sort(names)
  return names
end

command('set', function(rest, say)
  local name, value = rest:match('^(%S+)%s*=?%s*(%S*)$')
  if not name then
    for _, n in ipairs(setting_names()) do say(('%-10s %-10s %s'):format(n, settings[n][2](), settings[n][1])) end
    return
  end
  local s = settings[name]
  if not s then
    error(("there is no setting '%s'%s"):format(name, require('dflow.front.errors').hint(name, setting_names())), 0)
  end
  if value == '' then return ('%s %s'):format(name, s[2]()) end
  s[3](value)
end, 'set [name [value]] - shows or changes a setting; alone: lists all settings', function(rest)
  local list = {}
  local name = rest:match('^(%S+)%s')
  if name then
    for _, v in ipairs(settings[name] and settings[name][4] or {}) do list[#list + 1] = { v, name } end
  else
    for _, n in ipairs(setting_names()) do list[#list + 1] = { n, settings[n][1] } end
  end
  return list
end)

-- ---- graphs and runs ----------------------------------------------------------------------------------------------
local graph_forms = { { 'tree', 'boxes within boxes, a line for each node' },
                      { 'let', 'typed lines, cond{…} and while{…} nested' },
                      { 'dot', 'for Graphviz' }, { 'svg', 'a picture' } }
local graph_stages = { { 'built', 'as it was typed' }, { 'lowered', 'the primitives, and what a run makes of them' },
                       { 'gradient', 'with the gradient' }, { 'partitioned', 'by device' } }

--- The word of a list that this is a beginning of; nil: none or several.
local function begun(list, word)
  local found
  for _, item in ipairs(list) do
    if item[1] == word then return word end
    if item[1]:sub(1, #word) == word then
      if found then return nil end
      found = item[1]
    end
  end
  return found
end

--- Takes `as form` and `at stage` off the end of a line; a form may come first, too.
local function graph_words(rest)
  local form, stage
  while true do
    local before, which, word = rest:match '^(.-)%s+(a[st])%s+(%a+)%s*$'
    local list = which == 'as' and graph_forms or graph_stages
    local found = word and begun(list, word)
    if not word then break end
    if not found then
      local names = {}
      for i, item in ipairs(list) do names[i] = item[1] end
      error((":graph: '%s %s' is none of %s%s"):format(which, word, table.concat(names, ', '),
        word:find '^html?$' and '; :trace run.html EXPRESSION writes a page of a run' or ''), 0)
    end
    rest = before
    if which == 'as' then form = form or found else stage = stage or found end
  end
  local first, expression = rest:match '^(%a+)%s+([^%s=.:%(].*)$'
  for _, item in ipairs(graph_forms) do
    if first == item[1] then form, rest = form or first, expression end
  end
  return rest, form, stage
end

--- `y depth 2`, `y only lstm`, `y around while/Mul 2` without that, and what it says as options of df.draw.
local function graph_part(rest)
  local opts = {}
  while true do
    local before, depth = rest:match '^(.-)%s+depth%s+(%d+)%s*$'
    local some, only = rest:match '^(.-)%s+only%s+(%S+)%s*$'
    local all, centre, steps = rest:match '^(.-)%s+around%s+(%S+)%s*(%d*)%s*$'
    if before then rest, opts.depth = before, tonumber(depth)
    elseif some then rest, opts.only = some, only
    elseif all then rest, opts.around, opts.within = all, centre, tonumber(steps)
    else return rest, opts end
  end
end

command('graph', function(rest, _, _, path)
  local part, seen = graph_part(rest)
  local expression, form, stage = graph_words(part)
  local x = value_of(expression,
                     ':graph x [as tree | let | dot | svg] [at built | lowered | gradient | partitioned] [depth n | '
                     .. 'only name | around node n]')
  local ending = path and path:match '%.(%a+)$'
  form = form or ({ svg = 'svg', dot = 'dot', gv = 'dot' })[ending] or next(seen) and 'tree' or 'let'
  local text = not form or form == 'tree' or form == 'let'
  seen.as, seen.at, seen.lines = form, stage, path and text and math.huge or nil
  local drawn = df.draw(x, seen)
  return (form == 'tree' or form == 'let') and not path and values.plain(drawn) or drawn
end, [[graph x [as form] [at stage] [depth n | only name | around node n] - shows or draws the graph of x
x is an Output, an operation, a Graph, or a table of them. The form is let (typed lines with nested
cond{…} and while{…}), tree (nested boxes, one line per node), dot (for Graphviz) or svg (a picture);
the default follows the file's name, else let. The stage is built (as typed, the default), lowered
(Enter, Merge, Switch, NextIteration, Exit, and what a run makes of each node), gradient (with the
gradient of x by its variables and placeholders, or what x is the gradient of) or partitioned (by
device). depth 2 opens boxes of layers, scopes, loops and conds to two levels; only lstm keeps nodes
with that in their name, and their neighbours; around while/Mul 2 keeps nodes at most 2 edges from a
node. Each of these shows a tree unless a form is named. A picture closes boxes when it has more than 40
nodes.
:graph loss at gradient > loss.svg; in a script: df.draw(loss, {at = 'gradient', path = 'loss.svg'})]], function(rest)
  if rest:find '%sas%s+%a*$' then return graph_forms end
  if rest:find '%sat%s+%a*$' then return graph_stages end
end)

local plot_kinds = { { 'line', 'lines' }, { 'scatter', 'points x, y' }, { 'histogram', 'how many lie where' },
                     { 'heatmap', 'a matrix in colours' }, { 'image', 'pixels' } }

--- `histogram x` or `x as hist`: the kind and the expression; nil where no kind is named.
local function plot_words(rest)
  local before, word = rest:match '^(.-)%s+as%s+(%a+)%s*$'
  if not before then return rest:match '^(%l+)%s+(.+)$' end
  local kind = begun(plot_kinds, word)
  if not kind then error((":plot: 'as %s' is none of line, scatter, histogram, heatmap, image"):format(word), 0) end
  return kind, before
end

command('plot', function(rest, _, _, path)
  local plot = require 'dflow.plot'
  local kind, expression = plot_words(rest)
  if not (kind and rawget(plot, kind) and kind ~= 'line' or kind == 'line') then kind, expression = 'line', rest end
  local usage = ':plot [line | scatter | histogram | heatmap | image] x'
  local v = kind == 'scatter' and value_of('{' .. expression .. '}', usage) or value_of(expression, usage)
  local p = df.type(v) == 'plot' and v or kind == 'scatter' and plot.scatter(v[1], v[2]) or plot[kind](v)
  if path then return path:match '%.svg$' and p:svg() or path:match '%.png$' and p:png() or p:text() end
  return values.plot(p)
end, [[plot [kind] x, :plot x as kind - draws numbers as a picture
x is a table of numbers, such tables by name, a Tensor, an Output, or a result of df.plot. kind is line,
histogram, heatmap, image, or scatter of x, y. Terminals with kitty's graphics or sixel get pixels; :set
images text, kitty or sixel chooses.
:plot x > x.svg writes an SVG, > x.png a PNG; in a script: df.plot(x):save 'x.svg']])

command('placement', function(rest, say)
  local x = value_of(rest, ':placement x')
  local list, width, op = df.default_session():placement(x), 4, 2
  for _, p in ipairs(list) do width, op = math.max(width, #p.node), math.max(op, #p.op) end
  for _, p in ipairs(list) do
    say(('%-' .. math.min(width, 40) .. 's %-' .. math.min(op, 24) .. 's %-8s %s')
      :format(p.node, p.op, p.device, p.why))
  end
  if list.one_owner then say('one owner runs all of it: ' .. list.one_owner) end
  local on = {}
  for device, owner in pairs(list.owners or {}) do on[#on + 1] = ('%s by owner %d'):format(device, owner) end
  table.sort(on)
  if on[1] then say(table.concat(on, ', ')) end
end, 'placement x - shows the device and owner of each node that x needs, and why it is there')

command('saved', function(rest)
  return tostring(df.saved(value_of(rest, ':saved loss')))
end, [[saved loss - shows what the gradient of loss saves or recomputes in each loop and cond, and why
It describes the gradients built so far, or else those by all variables and placeholders.]])

command('time', function(rest, say, repl)
  local timing = require 'dflow.repl.timing'
  local chunk = chunk_of(rest, ':time expression')
  local results, wall, cpu, done = timing.once(chunk, repl.program.clock)
  if results.n > 0 then values.show(unpack(results, 1, results.n)) end
  say(('wall %s, processor %s%s'):format(timing.seconds(wall), timing.seconds(cpu), done ~= '' and ', ' .. done or ''))
end, [[time expression - runs it once and shows value, time and counters; an Output's run is timed]])

command('timeit', function(rest, say, repl)
  local timing = require 'dflow.repl.timing'
  local chunk = chunk_of(rest, ':timeit expression')
  local t = timing.often(chunk, repl.program.clock)
  say(('%s%s +- %s, best %s (%d rounds of %d)'):format(t.output and 'a run takes ' or '', timing.seconds(t.mean),
      timing.seconds(t.deviation), timing.seconds(t.best), t.rounds, t.calls))
  local loops = timing.loops()
  if t.iterations > 0 and loops.native + loops.tokens > 0 then
    say(('loops of this session: %d native, %d by tokens; :explain names them'):format(loops.native, loops.tokens))
  end
end, [[timeit expression - runs it many times and shows mean, deviation and best; an Output's run is timed]])

local function bytes(n)
  for _, unit in ipairs{ { 2 ^ 30, 'GiB' }, { 2 ^ 20, 'MiB' }, { 2 ^ 10, 'KiB' } } do
    if n >= unit[1] then return ('%s %s'):format(text.number(n / unit[1], 4), unit[2]) end
  end
  return ('%.0f B'):format(n)
end

command('mem', function(_, say)
  local inspector, names = require 'dflow.repl.inspector', {}
  local h, last = inspector.in_progress(), inspector.last()
  local of = h or last and not last.session.closed and last.session or df.default_session()
  local devices = of:stats().memory
  for name in pairs(devices) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local m = devices[name]
    say(('%-10s %s in use, %s at the peak%s')
      :format(name, bytes(m.in_use), bytes(m.peak), m.limit and m.limit > 0 and ', limit ' .. bytes(m.limit) or ''))
  end
  say(('%-10s %s'):format('Lua', bytes(collectgarbage('count') * 1024)))
  for _, v in ipairs(df.global_variables()) do say(('  %s'):format(values.brief(v))) end
end, [[mem - shows memory of each device and of Lua, and the variables of the default graph
The devices are those of the run in progress, or of the session of the last run.]])

--- What came and went between this process and a rank.
local function traffic(r)
  return ('%s messages, %s out, %s in%s'):format(text.number(r.sent.messages + r.received.messages, 4),
      bytes(r.sent.bytes),
    bytes(r.received.bytes), r.latency and (', %s away'):format(require('dflow.repl.timing').seconds(r.latency)) or '')
end

command('cluster', function(rest, say)
  local cluster = df.cluster
  if rest:find '^%d+$' then cluster.start(tonumber(rest))
  elseif rest == 'restart' then cluster.restart()
  elseif rest == 'stop' then cluster.stop()
  elseif rest ~= '' then
    say((":cluster takes a number of ranks, restart or stop, not '%s'"):format(rest))
    return
  end
  if cluster.size == 1 then say 'one rank, this process; :cluster 4 starts three workers beside it' end
  for _, r in ipairs(cluster.ranks()) do
    say(('/rank:%d  %-12s pid %-8d %-6s %s')
      :format(r.rank, r.host, r.pid, r.state, r.why or r.rank == 0 and 'this process' or traffic(r)))
    if r.waits then
      say(('         waits for `%s` from rank %d, for %.1f s'):format(r.waits.what, r.waits.rank, r.waits.seconds))
    end
  end
end, 'cluster [n | restart | stop] - shows ranks, links and waits; starts n ranks, restarts dead ones, stops all')

command('stats', function(_, say)
  local h = require('dflow.repl.inspector').in_progress()
  local stats, own, names = df.stats(), h and h:stats(), {}
  if h then say(('%-16s %12s %12s'):format('', 'this run', 'before it')) end
  for name, v in pairs(stats) do names[#names + 1] = type(v) == 'number' and name or nil end
  table.sort(names)
  for _, name in ipairs(names) do
    local form = name == 'seconds' and '%12.6f' or '%12.0f'
    if not h then say(('%-16s ' .. form):format(name, stats[name]))
    elseif name ~= 'runs' then say(('%-16s ' .. form .. ' ' .. form):format(name, own[name] or 0, stats[name])) end
  end
end, 'stats - shows counters of the default session and of the run in progress')

command('learn', function(rest, _, repl)
  require('dflow.command.learn')(rest ~= '' and rest or nil)
  if repl.program then repl.program.interrupted() end
end, 'learn [n] - starts one of fourteen lessons with exercises; each begins with an empty default graph')

command('quit', function() return true end, 'quit - ends the program, as Ctrl-D does')
