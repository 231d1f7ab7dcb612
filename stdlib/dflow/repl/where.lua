--- Where things are defined: a Lua function's file and line with its text, an op's entry in the sources, what a name holds.
local help = require 'dflow.help'
local df = require 'dflow'
local ops = require 'dflow.ops'
local registry = require 'dflow.registry'
local errors = require 'dflow.errors'
local session = require 'dflow.repl.session'
local values = require 'dflow.repl.values'
local hints = require 'dflow.repl.hints'

local M = {}
local LINES = 60             -- of a function's text

--- The lines first … last of a file, or of what was typed (`=stdin`); nil when they cannot be had.
local function lines_of(source, first, last)
  local out = {}
  if source == '=stdin' then
    for i = first, last do out[#out + 1] = session.source_line(i) end
    return #out > 0 and out or nil
  end
  local file = source:sub(1, 1) == '@' and io.open(source:sub(2))
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
  local about = debug.getinfo(f, 'S')
  if about.what == 'C' then return ('%s is a function of the interpreter itself'):format(name) end
  local out = { ('%s: %s:%d'):format(name, about.short_src, about.linedefined) }
  local lines = lines_of(about.source, about.linedefined, math.min(about.lastlinedefined, about.linedefined + LINES))
  for _, line in ipairs(lines or {}) do out[#out + 1] = '  ' .. line end
  return table.concat(out, '\n')
end

--- Where the entry of an op type stands in the sources, when they are at hand: `runtime/ops_math.c:120`.
local function entry_place(type_name, folder)
  local tree = (package.searchpath or function() end)('dflow', package.path)
  tree = tree and tree:match('^(.*)stdlib/dflow%.lua$')
  local names = tree and folder(tree .. 'runtime') or {}
  local wanted = '.type = "' .. type_name .. '"'
  table.sort(names)
  for _, name in ipairs(names) do
    if name:find('^ops_.*%.c$') then
      local at = 0
      for line in io.lines(tree .. 'runtime/' .. name) do
        at = at + 1
        if line:find(wanted, 1, true) then return ('%sruntime/%s:%d'):format(tree, name, at) end
      end
    end
  end
end

--- The value of a dotted name at the prompt: found, value.
local function value_of(name)
  local names = {}
  for word in name:gmatch('[%w_]+') do names[#names + 1] = word end
  if #names == 0 then return false end
  return hints.value(names, session.locals)
end

--- What `??name` says.
function M.where(name, repl)
  local short = name:gsub('^df%.', '')
  local e = registry.entry(short)
  local out = {}
  local found, value = value_of(name)
  if found and type(value) == 'function' and (not e or value ~= rawget(df, short)) then return function_text(name, value) end
  if e then
    local place = entry_place(e.type, repl.program and repl.program.folder or function() return {} end)
    out[#out + 1] = ('%s: the op %s, %s'):format(short, e.type, place or 'an entry of libdflow ' .. help.version)
    local adapter = e.lua and ops.functions[e.lua]
    local about = adapter and debug.getinfo(adapter, 'S')
    if about and not about.source:find('registry%.lua$') then out[#out + 1] = function_text('df.' .. e.lua, adapter) end
    return table.concat(out, '\n')
  end
  local f = help.example(short) and rawget(df, short) or (help.signature(short) and df[short])
  if type(f) == 'function' then return function_text('df.' .. short, f) end
  if found then
    local source = type(value) == 'table' and df.type(value) and value.source
    return ('%s: %s'):format(name, source and 'built at ' .. source .. ': ' .. values.brief(value) or values.brief(value))
  end
  return ("nothing is known of '%s'%s"):format(name, errors.hint(short, help.names()))
end

--- What `?name` says: help; or the names that match a pattern; or what the name holds.
function M.what(name)
  if name:find('[*?]') then
    local list = help.matching(name:gsub('^df%.', ''))
    if #list == 0 then return ("no name matches '%s'"):format(name) end
    for i, found in ipairs(list) do list[i] = ('%-28s %s'):format(found, (help.about(found) or ''):sub(1, 90)) end
    return table.concat(list, '\n')
  end
  local text, why = help.help(name)
  if text then return text end
  local found, value = value_of(name)
  if not found then
    local near = #name > 2 and help.matching('*' .. name:lower() .. '*') or {}
    if #near == 0 or why:find('did you mean', 1, true) then return why end
    return ('%s; there is %s'):format(why, table.concat(near, ', ', 1, math.min(#near, 8)))
  end
  local line = ('%s: %s'):format(name, values.brief(value))
  if type(value) == 'function' then
    local about = debug.getinfo(value, 'u')
    local names = {}
    for i = 1, about.nparams or 0 do names[i] = debug.getlocal(value, i) end
    if about.isvararg then names[#names + 1] = '...' end
    line = ('%s(%s)  %s'):format(name, table.concat(names, ', '), values.brief(value))
  end
  return line
end

return M
