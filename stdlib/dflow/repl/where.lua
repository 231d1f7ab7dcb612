--- Where things are defined: a Lua function's file and line with its text, an op's entry in the sources, what a name
-- holds.
local help = require 'dflow.docs.help'
local df = require 'dflow'
local ops = require 'dflow.front.ops'
local registry = require 'dflow.front.registry'
local docs = require 'dflow.docs'
local graph = require 'dflow.front.graph'
local sources = require 'dflow.docs.sources'
local errors = require 'dflow.front.errors'
local quote = require 'dflow.front.quote'
local session = require 'dflow.repl.session'
local values = require 'dflow.repl.values'
local hints = require 'dflow.repl.hints'
local commands = require 'dflow.repl.commands'
local describe = require 'dflow.repl.describe'

local M = {}
local LINES = 60             -- of a function's text

--- The lines first … last of a file, or of an input (`=In[3]`); nil when they cannot be had.
local function lines_of(source, first, last)
  local out = {}
  if session.input_of(source) then
    for i = first, last do out[#out + 1] = session.source_line(source, i) end
    return #out > 0 and out or nil
  end
  local file = source:sub(1, 1) == '@' and quote.open(source:sub(2))
  if not file then return nil end
  local at = 0
  for line in file:lines() do
    at = at + 1
    if at > last then break end
    if at >= first then out[#out + 1] = line end
  end
  file:close()
  return out
end

--- `file:line` of a Lua function, and its text.
local function function_text(name, f)
  local about = debug.getinfo(errors.behind(f), 'S')
  if about.what == 'C' then return ('%s is a function of the interpreter itself'):format(name) end
  local out = { ('%s: %s:%d'):format(name, quote.file_of(about), about.linedefined) }
  local lines = lines_of(about.source, about.linedefined, math.min(about.lastlinedefined, about.linedefined + LINES))
  for _, line in ipairs(lines or {}) do out[#out + 1] = '  ' .. line end
  return table.concat(out, '\n')
end

--- The value of a dotted name at the prompt: found, value.
local function value_of(name)
  local names = {}
  for word in name:gmatch('[%w_]+') do names[#names + 1] = word end
  if #names == 0 then return false end
  return hints.value(names, session.locals)
end

--- `h:step` where h is a value at the prompt: the name that help has for its method; nil when it is none.
local function method_name(name)
  local object, method = name:match('^([%w_.]+):([%a_][%w_]*)$')
  if not object then return nil end
  local found, value = value_of(object)
  local kind = found and df.type(value)
  if not found then                            -- as docs write it: h is a run
    for _, t in pairs(docs.types) do if t.letter == object and t.methods[method] then kind = t.kind end end
  end
  if not kind then return nil end
  local known = kind .. ':' .. method
  return help.signature(known) and known or method
end

--- The function of the library that help knows by this name: of df, of a part of it, or a method of a type.
local function library(name)
  if not help.signature(name) then return nil end
  local owner, method = name:match('^(%a+):([%w_]+)$')
  if owner then
    local t = docs.types[owner]
    for _, module in ipairs{ 'dflow.front.session', 'dflow.front.tensor', 'dflow.front.graph',
                             'dflow.front.tensor_array', 'dflow.front.variable', 'dflow.front.queue' } do
      local class = require(module)[owner]
      local index = type(class) == 'table' and rawget(class, '__index')
      local methods = type(index) == 'table' and index
      for i = 1, type(index) == 'function' and 40 or 0 do
        local upvalue, v = debug.getupvalue(index, i)
        if upvalue == 'methods' and type(v) == 'table' then methods = v end
      end
      if t and methods and rawget(methods, method) then return rawget(methods, method) end
    end
    return t and graph.methods[method] or nil
  end
  local v = df
  for word in name:gmatch('[^.]+') do v = type(v) == 'table' and v[word] or nil end
  return v
end

--- What `??name` says.
function M.where(name, repl)
  local short = (method_name(name) or name:gsub('^df%.', '')):gsub('^(%l[%w_]*):', function(kind)
    for type_name, t in pairs(docs.types) do if t.kind == kind then return type_name .. ':' end end
  end)
  local e = registry.entry(ops.aliases[short] and not registry.entry(short) and ops.aliases[short] or short)
  local out = {}
  local found, value = value_of(name)
  if found and type(value) == 'function' and (not e or value ~= rawget(df, short)) then
    local autograph = package.loaded['dflow.autograph']
    local inside = autograph and autograph.inside(value)
    local text = function_text(name, inside or value)
    local rewritten = autograph and (inside or autograph.is_made(value)) and autograph.text(value)
    return rewritten and text .. '\nautograph makes of it:\n' .. rewritten or text
  end
  if e then
    local places, tree = sources.of(e.type, repl.program and repl.program.folder)
    places = places or {}
    out[#out + 1] = ('%s: the op %s, %s')
      :format(short, e.type, places.entry and tree .. places.entry or 'an entry of libdflow ' .. help.version)
    for _, role in ipairs(sources.roles) do
      if places[role] then out[#out + 1] = ('  %-10s %s'):format(role, tree .. places[role]) end
    end
    local adapter = e.lua and ops.functions[e.lua]
    local about = adapter and debug.getinfo(adapter, 'S')
    if about and not about.source:find('registry%.lua$') then out[#out + 1] = function_text('df.' .. e.lua, adapter) end
    return table.concat(out, '\n')
  end
  local f = library(short)
  if type(f) == 'function' then return function_text(short:find(':') and short or 'df.' .. short, f) end
  if found then
    local source = type(value) == 'table' and df.type(value) and value.source
    return ('%s: %s'):format(name, source and 'built at ' .. source .. ': ' .. values.brief(value)
                             or values.brief(value))
  end
  return ("nothing is known of '%s'%s"):format(name, errors.hint_of_others(short, help.names()))
end

--- The text of a line of source, 'file:line'.
local function line_of(place)
  local file, line = place:match('^(.*):(%d+)$')
  local lines = file and lines_of(session.input_of(file) and '=' .. file or '@' .. file, tonumber(line), tonumber(line))
  return lines and lines[1]
end

--- The node that `12`, `name` or `name:0` is in the default graph; nil when there is none.
local function node_of(name)
  local g = df.default_graph()
  local number = tonumber(name)
  if number then return number >= 0 and number < g:size() and number % 1 == 0 and number or nil, g end
  local ok, o = pcall(g.output, g, name)
  if not ok then ok, o = pcall(g.op, g, name) end
  return ok and o.node or nil, g
end

--- What `?name` says: help; what the name holds; a node of the graph; or the names that match a pattern.
function M.what(name)
  help.width = math.max(30, math.min(100, values.terminal().columns))
  if name:find('[*?]') then
    local list = help.matching((name:gsub('^df%.', '')))
    local word = name:match('^%*([%w_]+)%*$')                 -- asked for as a word: what speaks of it is meant, too
    for _, found in ipairs(word and help.mentioning(word) or {}) do list[#list + 1] = found end
    if #list == 0 then return ("no name matches '%s'"):format(name) end
    for i, found in ipairs(list) do
      list[i] = ('%-28s %s'):format(found, (help.about(found) or ''):sub(1, help.width - 30))
    end
    return table.concat(list, '\n')
  end
  local page = commands.page(name:match('^:(%a%w*)$') or '')
  if page then return page end
  local found, value = value_of(name)
  local text, why = help.help(method_name(name) or name)
  local own = found and describe.value(name, value, line_of)
  if text and own and not (type(value) == 'function' or value == rawget(df, name)) then
    -- A value that has the name of something else.
    text = (help.signature(name) or docs.types[name]) and own .. '\n' .. text or own
  end
  if text or own then return text or own end
  local node, g = node_of(name)
  if node then return describe.node(g, node, line_of) end
  if tonumber(name) then
    return g:size() == 0 and 'the graph has no nodes' or ('the graph has nodes 0 to %d'):format(g:size() - 1)
  end
  page = commands.page(name)
  if page then return ('%s is a command of the prompt\n%s'):format(name, page) end
  local near = #name > 2 and help.matching('*' .. name:lower() .. '*') or {}
  if #near == 0 or why:find('did you mean', 1, true) then return why end
  return ('%s; there is %s'):format(why:gsub('; there %l+ .*$', ''), table.concat(near, ', ', 1, math.min(#near, 8)))
end

return M
