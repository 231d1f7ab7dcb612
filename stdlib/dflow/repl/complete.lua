--- What may stand at the cursor: names, fields and methods, option keys, dtypes, devices, names of the graph, commands,
-- files; each with a line of help.
--
-- Nothing is called for it: a table is read with rawget and next, and of its metatable only an __index that is a table
-- is followed. What dflow's own types have is known from their modules.
local df = require 'dflow'
local devices = require 'dflow.front.devices'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local help = require 'dflow.docs.help'
local docs = require 'dflow.docs'
local registry = require 'dflow.front.registry'
local lexer = require 'dflow.front.lexer'
local hints = require 'dflow.repl.hints'
local values = require 'dflow.repl.values'
local commands = require 'dflow.repl.commands'
local arguments = require 'dflow.repl.arguments'

local M = {}

--- A list that collects candidates that begin with `prefix`.
local function collector(prefix)
  local list, seen = {}, {}
  local function add(text, about, tail)
    if type(text) == 'string' and text:sub(1, #prefix) == prefix and not seen[text] then
      seen[text] = true
      list[#list + 1] = { text = text .. (tail or ''), about = about or '' }
    end
  end
  return list, add
end

-- ---- fields and methods ---------------------------------------------------------------------------------------------
--- Keys of a plain table and of the tables that its __index leads to. `library` is its name when it is one of Lua's.
local function add_keys(add, t, method, library)
  for _ = 1, 8 do
    for key, v in next, t do
      if type(key) == 'string' and key:find('^[%a_][%w_]*$') and (not method or type(v) == 'function') then
        add(key, function()
          local known = library and docs.lua[library .. '.' .. key]
          return known and ('%s  %s'):format(known[1], known[2]) or values.brief(v)
        end)
      end
    end
    local mt = debug.getmetatable(t)
    local index = type(mt) == 'table' and rawget(mt, '__index')
    if type(index) ~= 'table' then return end
    t = index
  end
end

local function about_op(name) return function() return help.about(name) end end

--- Methods of the dflow type `kind`, and its fields where they may stand.
local function add_members(add, kind, method)
  local t = docs.types[docs.type_of[kind]]
  if t and not method then
    for _, field in ipairs(t.fields) do add(field[1], field[2]) end
  end
  for name, kinds in pairs(docs.methods) do
    local known = kinds[kind] or (kind == 'variable' and kinds.output)
    if known then
      add(name, function() return help.signature(known):gsub('{.*}', '{…}') .. '  ' .. help.about(known) end)
    end
  end
  if kind == 'output' or kind == 'variable' then
    for _, name in ipairs(registry.names()) do add(name, about_op(name)) end
    for name in pairs(graph.methods) do add(name, 'method') end
  end
end

local function add_df(add)
  for _, name in ipairs(df.names()) do add(name, about_op(name)) end
  for _, name in ipairs(dtypes.list) do add(name, about_op(name)) end
end

--- The type that docs write with this letter: h is a run wherever nothing else is known of it.
local function type_by_letter(letter)
  for _, t in pairs(docs.types) do
    if t.letter == letter then return t.kind end
  end
end

-- What calls of these give, by df.type.
local makers = { ['df.data.pipeline'] = 'pipeline', ['df.train.Saver'] = 'saver',
                 ['df.summary.FileWriter'] = 'file_writer', ['df.Session'] = 'session', ['df.start'] = 'run',
                 ['df.tensor'] = 'tensor', ['df.TensorArray'] = 'tensor_array', TensorArray = 'tensor_array',
                   ['df.Variable'] = 'variable',
                 ['df.FIFOQueue'] = 'queue', ['df.train.Adam'] = 'optimizer', ['df.train.SGD'] = 'optimizer',
                 ['df.train.Momentum'] = 'optimizer' }

--- The df.type of the call that ends with the bracket at token k; nil where it is not known.
local function made_by_call(buffer, line, k)
  local depth = 0
  for _ = 1, 400 do
    local w = line and buffer.word(line, k)
    if not w then return nil end
    if w == ')' or w == '}' or w == ']' then depth = depth + 1 end
    if w == '(' or w == '{' or w == '[' then depth = depth - 1 end
    line, k = buffer.previous(line, k)
    if depth == 0 then break end
  end
  local names, method = nil, false
  if line and depth == 0 then names, method = hints.chain(buffer, line, k) end
  if not names then return nil end
  if not method then return makers[table.concat(names, '.')] end
  local kinds = docs.methods[names[#names]]
  -- a stage gives a pipeline
  return kinds and kinds.pipeline and names[#names] ~= 'each' and 'pipeline' or nil
end

--- After `base.` or `base:`.
local function members(add, names, method, open, buffer, locals)
  if not open and not buffer.declares(names[1]) or hints.global(names[1], locals) then
    local found, base = hints.value(names, locals)
    if found then
      if base == df then return add_df(add) end
      if type(base) == 'string' then return add_keys(add, string, true, 'string') end
      if type(base) ~= 'table' then return end
      local kind = df.type(base)
      if kind then
        add_members(add, kind, method)
        if docs.type_of[kind] then return end
      end
      return add_keys(add, base, method, package.loaded[names[1]] == base and names[1] or nil)
    end
    if not open and #names == 1 and not type_by_letter(names[1]) then return end
  end
  if method then add_members(add, type_by_letter(names[#names]) or 'output', true) end
end

-- ---- in strings -----------------------------------------------------------------------------------------------------
local function add_files(add, prefix, folder_of)
  if not folder_of then return end
  local folder = prefix:match('^(.*/)') or ''
  local home = os.getenv 'HOME'
  local path = folder:gsub('^~', home or '~')
  local names = folder_of(path == '' and '.' or path)
  if not names then return end
  table.sort(names)
  local hidden = prefix:sub(#folder + 1, #folder + 1) == '.'
  for _, name in ipairs(names) do
    if hidden or name:sub(1, 1) ~= '.' then add(folder .. name, name:sub(-1) == '/' and 'folder' or 'file') end
  end
end

local function add_nodes(add, outputs) arguments.nodes(add, df.default_graph(), outputs) end

local function add_dtypes(add)
  for _, name in ipairs(dtypes.list) do add(name, 'dtype') end
end

local function add_devices(add)
  for _, name in ipairs(devices.names()) do add(name, 'device') end
end

local takes_path = { open = true, lines = true, dofile = true, loadfile = true, load_npy = true, save_npy = true,
                     load_npz = true, save_npz = true, idx = true, import_graph_def = true, export_graph_def = true }
local takes_dtype = { cast = true, astype = true, placeholder = true, constant = true, TensorArray = true,
                      tensor = true, zeros = true, ones = true, FIFOQueue = true, PriorityQueue = true,
                      RandomShuffleQueue = true, PaddingFIFOQueue = true }
local words_of = {
  save = { 'keep', 'swap', 'recompute', 'auto' }, unconnected = { 'error', 'zero', 'none' },
  mode = { 'constant', 'reflect', 'symmetric' },
  padding = { 'SAME', 'VALID' }, engine = { 'auto', 'tokens', 'native' },
}

local function in_string(add, prefix, call, folder_of)
  local last = call and call.names[#call.names]
  local key = call and call.option
  if type(key) == 'string' and words_of[key] then
    for _, word in ipairs(words_of[key]) do add(word, key) end
  elseif (type(key) == 'string' and key:find('dtype')) or (last and takes_dtype[last] and not call.option) then
    add_dtypes(add)
  elseif last == 'device' or key == 'devices' or key == 'device' then
    add_devices(add)
  elseif last == 'op' or last == 'output' then
    add_nodes(add, last == 'output')
  elseif last == 'require' then
    for name in pairs(package.loaded) do add(name, 'loaded') end
    for name in pairs(package.preload) do add(name, 'preloaded') end
  elseif last and takes_path[last] then
    add_files(add, prefix, folder_of)
  else
    if prefix:find('/') then add_files(add, prefix, folder_of) end
    add_dtypes(add)
    add_devices(add)
    add_nodes(add, true)
    if not prefix:find('/') then add_files(add, prefix, folder_of) end
  end
end

-- ---- commands -------------------------------------------------------------------------------------------------------
local path_commands = { run = true, load = true, save = true, edit = true }

--- Behind `?` and `:`. Returns the column where the word begins, and whether Lua may stand there too.
local function command_line(add, text, context)
  local marks, asked = text:match('^%s*(%?+)%s*([^%s]*)$')
  if marks then
    for _, name in ipairs(help.names()) do add(name, about_op(name)) end
    for _, name in ipairs(context.locals and context.locals.names() or {}) do
      add(name, function() return values.brief(context.locals.get(name)) end)
    end
    for name, v in next, _G do
      if type(name) == 'string' and type(v) == 'table' and df.type(v) then
        add(name, function() return values.brief(v) end)
      end
    end
    local object, method = asked:match('^([%w_.]+):([%w_]*)$')
    local found, v = false, nil
    if object then found, v = hints.value({ object }, context.locals) end
    if found and df.type(v) then
      add_members(function(name, about) add(object .. ':' .. name, about) end, df.type(v), true)
    elseif not method then
      add_nodes(add, true)
    end
    return #text - #asked
  end
  local word = text:match('^%s*:([%w_]*)$')
  if word then
    for _, name in ipairs(commands.names()) do
      add(name, function() return (':%s  %s'):format(commands.about(name)) end)
    end
    return #text - #word
  end
  local name, rest = text:match('^%s*:([%w_]+)%s+(.*)$')
  local command = name and commands.find(name)
  if not command then return nil end
  local last = rest:match('(%S*)$')
  local of, listed = arguments.of[command.name], command.complete and command.complete(rest)
  if path_commands[command.name] or rest:find('>%s+%S*$') then
    add_files(add, last, context.folder)
  elseif command.name == 'help' or command.name == 'doc' or command.name == 'where' then
    for _, n in ipairs(help.names()) do add(n, about_op(n)) end
  elseif listed then
    for _, n in ipairs(listed) do add(n[1], n[2]) end
  elseif of then
    of(rest, add)
  elseif not arguments.lua[command.name] then
    return nil
  end
  return #text - #last, arguments.lua[command.name]
end

-- ---- the whole ------------------------------------------------------------------------------------------------------
--- Candidates at a place of the buffer.
-- @param context  {locals = the session's, folder = function(path) -> names}
-- @return         the column where the word begins, a list of {text, about}; about is a string or a function that gives
--                 one
function M.at(buffer, line, column, context)
  local r = buffer.lines[line + 1]
  if not r then return 0, {} end
  local before = r.text:sub(1, column)
  if line == 0 and before:find('^%s*[:?]') and not before:find('^%s*::') then
    local prefix = before:match('([^%s]*)$')
    if before:find('^%s*[:?]+[^%s]*$') then prefix = prefix:gsub('^[:?]+', '') end
    local list, add = collector(prefix)
    local from, lua = command_line(add, before, context)
    if from and not (lua and #list == 0) then return from, list end
  end
  local k = buffer.before(line, column)
  local kind = r.kinds[k]
  if (kind == 'string' or kind == 'error') and column >= r.firsts[k]
    and (column < r.lasts[k] or not r.text:sub(r.lasts[k], r.lasts[k]):find('["\']')
      or r.lasts[k] == r.firsts[k]) then
    local from = r.firsts[k]
    local prefix = r.text:sub(from + 1, column)
    local list, add = collector(prefix)
    in_string(add, prefix, hints.call(buffer, line, from - 1), context.folder)
    return from, list
  end
  if kind == 'comment' and column > r.firsts[k] then return column, {} end
  local word = before:match('[%a_][%w_]*$') or ''
  local from = column - #word
  local list, add = collector(word)
  if word ~= '' and r.firsts[k] == from + 1 then k = k - 1 else k = buffer.before(line, from) end
  local sep = buffer.word(line, k)
  if k > 0 and (sep == '.' or sep == ':') and r.lasts[k] <= from then
    local l, m = buffer.previous(line, k)
    local names, open
    if l then
      local w, base_kind = buffer.word(l, m)
      if base_kind == 'name' then
        local method
        names, method, open = hints.chain(buffer, l, m)
        open = open or method
      elseif w == ')' or w == ']' or w == '}' then
        local kind = sep == ':' and made_by_call(buffer, l, m)
        if kind then add_members(add, kind, true) else names, open = { '?' }, true end
      elseif base_kind == 'string' then
        add_keys(add, string, true, 'string')
      end
    end
    if names then members(add, names, sep == ':', open, buffer, context.locals) end
    table.sort(list, function(a, b) return a.text < b.text end)
    return from, list
  end
  local call = hints.call(buffer, line, from)
  if call and call.braces and (sep == '{' or sep == ',') then
    for _, o in ipairs(hints.options(call, buffer, context.locals)) do
      add(o[1], o[2], ' = ')
    end
    if #list > 0 and word ~= '' then return from, list end
  end
  local options = #list
  for name in pairs(buffer.declared_names()) do add(name, 'in this input') end
  for _, name in ipairs(context.locals and context.locals.names() or {}) do
    add(name, function() return values.brief(context.locals.get(name)) end)
  end
  for name, v in next, _G do
    if type(name) == 'string' and name:find('^[%a_][%w_]*$') then
      add(name, function()
        local known = docs.lua[name]
        if known then return ('%s  %s'):format(known[1], known[2]) end
        if docs.functions[name] and rawget(df, name) == v then return help.about(name) end
        return values.brief(v)
      end)
    end
  end
  for name in pairs(lexer.keywords) do add(name, 'keyword') end
  local rest = {}
  for i = options + 1, #list do
    rest[#rest + 1] = list[i]
    list[i] = nil
  end
  table.sort(rest, function(a, b) return a.text < b.text end)
  for _, c in ipairs(rest) do list[#list + 1] = c end
  for i, c in ipairs(list) do      -- what the cursor stands in is no candidate of its own
    if c.about == 'in this input' and c.text == word then
      table.remove(list, i)
      break
    end
  end
  return from, list
end

--- The candidates as lines: a column of words, a column of help.
-- @param page  which screenful of them, from 1; behind the last the first comes again
-- @return  list of text, styles, text, styles, …
function M.menu(list, columns, rows, page)
  local out, width = {}, 0
  local room = math.max(1, math.min(#list, rows - 4, 14))
  if room < #list then room = math.max(1, room - 1) end
  local first = ((page or 1) - 1) % math.max(1, math.ceil(#list / room)) * room + 1
  local last = math.min(#list, first + room - 1)
  for i = first, last do width = math.max(width, #list[i].text) end
  width = math.min(width, 40)
  for i = first, last do
    local about = list[i].about
    if type(about) == 'function' then about = about() end
    about = values.plain((about or ''):gsub('%s+', ' '))
    local word = list[i].text
    local text = ('  %s%s'):format(word, (' '):rep(width - #word))
    local styles = ('m'):rep(#text)
    local left = columns - #text - 4
    if left > 8 and about ~= '' then
      if #about > left then about = about:sub(1, left - 3):gsub('[\128-\255]*$', '') .. '...' end
      text, styles = text .. '  ' .. about, styles .. ('h'):rep(#about + 2)
    end
    out[#out + 1], out[#out + 2] = text, styles
  end
  if room < #list then
    local text = ('  %d to %d of %d; Tab shows the next, a letter leaves fewer'):format(first, last, #list)
    if #text > columns - 1 then text = ('  %d to %d of %d'):format(first, last, #list) end
    out[#out + 1], out[#out + 2] = text, ('h'):rep(#text)
  end
  return out
end

return M
