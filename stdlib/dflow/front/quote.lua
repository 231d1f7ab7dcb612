--- The line that an error is about, as it was written, with a caret under what the message speaks of; and which of its
-- names are nil.
--
-- Lua keeps no columns, so the place is found in the text: what the message quotes, an argument by its name or number,
-- or the op, if it stands there once. Where it could be two places there is no caret.
local lexer = require 'dflow.front.lexer'

local M = {}
local LONGEST, SHOWN = 4000, 110        -- bytes of a line that are looked at, columns that are shown

--- The file, open to be read; nil where there is none, and for a pipe, which has been read and would be waited for.
function M.open(path) return pcall(require('dflow.backend').file_size, path) and io.open(path, 'rb') or nil end

--- Set by the prompt: a function (file, line) -> the text of what was typed, or nil; and one that gives the columns of
-- its window.
M.read_line, M.columns = nil, nil

--- The whole path of the file that a function is from, or what its chunk is called; Lua's own short one leaves out its
-- beginning.
-- @param about  what debug.getinfo says of it, with 'S'
function M.file_of(about)
  local first = about.source:sub(1, 1)
  return (first == '@' or first == '=') and about.source:sub(2) or about.short_src
end

--- The text of `file:line`; nil where it cannot be read.
function M.line(source)
  local file, number = tostring(source):match('^(.*):(%d+)$')
  number = tonumber(number)
  if not number or number < 1 then return nil end
  local read = M.read_line
  local typed = read and read(file, number)
  if typed then return typed, number, true end
  local f = file ~= '' and not file:find('[%z\n]') and M.open(file)
  if not f then return nil end
  local text
  local n = 0
  for row in f:lines() do
    n = n + 1
    if n == number then
      text = row
      break
    end
  end
  f:close()
  if not text or #text > LONGEST or text:find('%z') then return nil end
  return text:gsub('\r$', ''):gsub('[%c]', ' '), number
end

-- ---- the places of words --------------------------------------------------------------------------------------------
--- The line with its strings and comments blanked out, byte for byte.
function M.masked(text)
  local kinds, firsts, lasts = lexer.line(text, nil)
  local out, at = {}, 1
  for i, kind in ipairs(kinds) do
    -- one without an end
    if kind == 'string' or kind == 'comment' or (kind == 'error' and text:find('^["\'%[]', firsts[i])) then
      out[#out + 1] = text:sub(at, firsts[i] - 1) .. (' '):rep(lasts[i] - firsts[i] + 1)
      at = lasts[i] + 1
    end
  end
  return table.concat(out) .. text:sub(at)
end

--- Where a word stands, as {first, last}, if it stands there once; of `among`, places inside of which it must be.
local function once(text, word, whole)
  if word == '' then return nil end
  local found, at
  at = 1
  while true do
    local first, last = text:find(word, at, true)
    if not first then return found end
    local before, after = text:sub(first - 1, first - 1), text:sub(last + 1, last + 1)
    if not whole or not ((word:find('^[%w_]') and before:find('[%w_]'))
                         or (word:find('[%w_]$') and after:find('[%w_]'))) then
      if found then return nil end
      found = { first, last }
    end
    at = last + 1
  end
end

local signs = { add = '+', add_v2 = '+', sub = '-', mul = '*', div = '/', real_div = '/', floordiv = '//',
                floor_div = '//', floormod = '%', floor_mod = '%', pow = '^', neg = '-', multiply = '*', subtract = '-',
                divide = '/' }

--- The place of an operator, two-character ones apart.
local function sign_in(code, sign)
  local blank = code:gsub('//', sign == '//' and '//' or '  '):gsub('%-%-', '  '):gsub('(%d[eE])[+-]', '%1 ')
  local found
  local at = 1
  while true do
    local first, last = blank:find(sign, at, true)
    if not first then return found end
    local before = blank:sub(1, first - 1):match('(%S)%s*$')
    if sign ~= '-' or (before and before:find('[%w_%)%]}]')) then      -- a minus with nothing before it is a sign
      if found then return nil end
      found = { first, last }
    end
    at = last + 1
  end
end

--- The arguments of the call whose name ends at `at`: a list of {first, last}; and whether it is a method's.
local function arguments_at(code, name_first, name_last)
  local list = {}
  local method = code:sub(1, name_first - 1):find(':%s*$') ~= nil
  local open = code:match('^%s*()[%(%{]', name_last + 1)
  if not open then return list, method end
  if code:sub(open, open) == '{' then
    local close = code:match('^%b{}()', open)
    return { { open, (close or #code + 1) - 1 } }, method
  end
  local depth, first, at = 0, open + 1, open
  local function finish(last)
    local a, b = code:match('^%s*()', first), last
    while b > a and code:sub(b, b):find('%s') do b = b - 1 end
    if b >= a then list[#list + 1] = { a, b } end
  end
  while at <= #code do
    local c = code:sub(at, at)
    if c:find('[%(%{%[]') then depth = depth + 1
    elseif c:find('[%)%}%]]') then
      depth = depth - 1
      if depth == 0 then
        finish(at - 1)
        return list, method
      end
    elseif c == ',' and depth == 1 then
      finish(at - 1)
      first = at + 1
    end
    at = at + 1
  end
  finish(#code)
  return list, method
end

--- The Lua name of an op that a message names by its name or its type; nil for what is none.
local function op_of(message, op)
  local registry = package.loaded['dflow.front.registry']
  local ops = package.loaded['dflow.front.ops']
  if not registry then return nil end
  for _, word in ipairs{ message:match('^([%w_]+):') or '', message:match('^([%w_]+) [ht]a[sk]') or '',
                         message:match('%f[%w]for ([%w_]+) cannot') or '',
                         (op or ''):match('%((%w+)%)$') or op or '' } do
    local entry = registry.entry(word)
    if entry and entry.lua then return entry.lua end
    if rawget(ops.functions, word) then return word end
  end
  return message:match('^(while_loop)') or message:match('^(cond)%f[%W]') or message:match('^(%u[%w]+):')
end

--- Which argument of an op a name is, counted from 1; nil for an option.
local function place_of(op, name)
  local ops, registry = package.loaded['dflow.front.ops'], package.loaded['dflow.front.registry']
  local adapted = ops and ops.arguments[op]
  local entry = registry and registry.entry(op)
  local function among(list, of)
    for i, x in ipairs(list or {}) do if of(x) == name then return i end end
  end
  return among(adapted and adapted[1], function(x) return x end)
    or (not adapted and entry and among(entry.inputs, function(x) return x.name end)) or nil
end

--- The name of an op in the line: as a call, as a method, as an operator.
local function call_in(code, op)
  local aliases = (package.loaded['dflow.front.ops'] or { aliases = {} }).aliases
  for _, name in ipairs{ op, aliases[op] or op } do
    local found = once(code, name, true)
    if found then return found end
  end
  for _, name in ipairs{ op, aliases[op] or op } do
    local found = signs[name] and sign_in(code, signs[name])
    if found then return found end
  end
end

--- What a message speaks of, in the line: first and last column; nil where that is not clear.
function M.place(text, message, op)
  local code = M.masked(text)
  local named = message:match("variable '([%a_][%w_]*)' is nil") or message:match("has no option '([%w_]+)'")
    or message:match("has no field or method '([%w_]+)'") or message:match("has no field '([%w_]+)'")
      or message:match("has no '([%w_]+)'")
    or message:match("%((%a+ '[%a_][%w_]*')%)$") or message:match("%(the field '([%w_]+)' was")
  if named then
    local found = once(code, named:match("'(.-)'") or named, true)
    if found then return found[1], found[2] end
  end
  local quoted = message:match("'([^'\n]*)' is no dtype") or message:match("no operation '([^'\n]*)'")
    or message:match('the string "([^"\n]*)"')
    or message:match("there is no device '([^'\n]*)'")
  if quoted then
    local found = once(text, "'" .. quoted .. "'") or once(text, '"' .. quoted .. '"')
    if found then return found[1], found[2] end
  end
  local near = message:match("near '(.-)'$")
  if near and near ~= '<eof>' then
    local found = once(text, near)
    if found then return found[1], found[2] end
  end
  local which, fn = message:match("^bad argument #(%d+) to '([%w_.]+)'")
  if which then
    local found = once(code, fn:match('[%w_]+$'), true)
    local span = found and arguments_at(code, found[1], found[2])[tonumber(which)]
    if span then return span[1], span[2] end
  end
  local number = message:match('the number (%-?[%d.]+)') or message:match('[aA]xis (%-?%d+) is out')
    or message:match('^x%[(%-?%d+)%]') or message:match('index (%-?%d+) is ')
  local lua_name = op_of(message, op)
  local call = lua_name and call_in(code, lua_name)
  if call and code:sub(call[1], call[1]):find('[%a_]') then
    local list, method = arguments_at(code, call[1], call[2])
    local argument = message:match('^[%w_]+: ([%a_][%w_]*) is ')
    local at = tonumber(message:match('%(number (%d+)%)')) or (argument and place_of(lua_name, argument))
    if at and not message:find('is missing', 1, true) then
      local span = method and list[at - 1] or (not method and list[at])
      if span then return span[1], span[2] end
      local key = once(code, argument or '', true)
      if key then return key[1], key[2] end
    elseif argument then
      local key = once(code, argument, true)
      if key and code:find('^%s*=', key[2] + 1) then return key[1], key[2] end
    end
  end
  if number then
    local found = once(code, number, true)
    if found then return found[1], found[2] end
  end
  if message:find('the result of <', 1, true) then
    local found = once(code, '<') or once(code, '>')
    if found then return found[1], found[2] end
  end
  if call then return call[1], call[2] end
end

--- Of a text that ends too early: the line whose word is not closed, or the last one that has something in it, its
-- number, whether it was typed, and the place of the word, or behind the last.
local function unfinished(source, message)
  local file, number = tostring(source):match('^(.*):(%d+)$')
  local word, opened = message:match("%(to close '(.-)' at line (%d+)%)")
  number = tonumber(opened or number) or 0
  local text, at, typed
  while number > 0 and not (text and text:find '%S') do
    text, at, typed = M.line(file .. ':' .. number)
    number = number - 1
  end
  if not text then return nil end
  local first, last
  if word then first, last = text:find(word, 1, true) end
  if not first then
    first = #text:gsub('%s+$', '') + 1
    last = first
  end
  return text, at, typed, first, last
end

--- Lines that quote `file:line`, with a caret; '' where it cannot be read.
function M.text(source, message, op)
  local text, number, typed, first, last = M.line(source)
  if message and message:find "near '?<eof>" then
    text, number, typed, first, last = unfinished(source, message)
  end
  if not text or not text:find('%S') then return '' end
  if not first then first, last = M.place(text, message, op) end
  if typed and not first then return '' end                  -- it stands a line above
  local indent = #text:match('^%s*')
  text = text:sub(indent + 1):gsub('%s+$', '')
  if first then first, last = first - indent, last - indent end
  local columns = M.columns
  local room = columns and math.max(24, math.min(SHOWN, columns() - 10)) or SHOWN
  if #text > room then                                       -- the part around the caret
    local from = math.max(1, math.min((first or 1) - math.floor(room * 0.4), #text - room + 1))
    while text:find('^[\128-\191]', from) do from = from + 1 end             -- whole letters
    local to = math.min(#text, from + room - 1)
    while text:find('^[\128-\191]', to + 1) do to = to - 1 end
    local cut = (from > 1 and '…' or '') .. text:sub(from, to) .. (to < #text and '…' or '')
    if first then
      local shift = from - 1 - (from > 1 and #'…' or 0)
      first, last = first - shift, math.min(last, to) - shift
    end
    text = cut
  end
  local lead = ('%5d | '):format(number)
  local out = '\n' .. lead .. text
  if first and first >= 1 then
    local width = require('dflow.front.text').columns                        -- columns, not bytes
    local before, under = width(text:sub(1, first - 1)), width(text:sub(first, last))
    out = out .. '\n' .. (' '):rep(#lead - 2) .. '| ' .. (' '):rep(before) .. ('^'):rep(math.max(1, under))
  end
  return out
end

-- ---- names that are nil ---------------------------------------------------------------------------------------------
local keywords = {}
for word in ('and break do else elseif end false for function goto if in local nil not or repeat return then true '
             .. 'until while'):gmatch('%a+') do
  keywords[word] = true
end

--- Names that the line reads: no fields, no keys, no parameters, not what it declares.
-- @param plain  not where they are called or indexed: of a nil Lua would have said that
function M.names_read(text, plain)
  local masked, own = M.masked(text), {}
  for list in masked:gmatch('function%s*[%w_.:]*%s*(%b())') do
    for word in list:gmatch('[%a_][%w_]*') do own[word] = true end
  end
  for list in masked:gmatch('local%s+([%a_][%w_,%s]*)=') do
    for word in (list:match('.*%f[%w]local%s+(.*)') or list):gmatch('[%a_][%w_]*') do own[word] = true end
  end
  for list in masked:gmatch('%f[%w_]for%s+([%a_][%w_,%s]*)') do
    for word in (list:match('^(.-)%s+in%f[%W]') or list):gmatch('[%a_][%w_]*') do own[word] = true end
  end
  local code = masked:gsub('function%s*[%w_.:]*%s*%b()', function(s) return (' '):rep(#s) end)
  code = code:gsub('local%s+[%a_][%w_,%s<>]*=', function(s) return (' '):rep(#s) end)
  code = code:gsub('^%s*[%a_][%w_,%s]*=%f[^=]', function(s) return (' '):rep(#s) end)
  local list, seen = {}, {}
  for at, word, after in code:gmatch('()([%a_][%w_]*)()') do
    local before = code:sub(1, at - 1):match('(%S?%S)%s*$') or ''
    local is_field = before:find('[.:]$') and not before:find('%.%.$')
    local is_key = code:find('^%s*=[^=]', after) or code:find('^%s*=$', after)
    local is_number = code:sub(at - 1, at - 1):find('%d')
    local counts = not (plain and code:find('^%s*[.:(%[{]', after) and not code:find('^%s*%.%.', after))
    if counts and not keywords[word] and not is_field and not is_key and not is_number and not own[word]
      and not seen[word] then
      seen[word] = true
      list[#list + 1] = word
    end
  end
  return list
end

--- What a name is in the function at a level of the stack (as debug.getinfo counts for the caller). `all` is given
--- every name that could have been meant where there is none of this name.
local function value_of(level, func, name, all)
  level = level + 1
  local found, value = false, nil
  for i = 1, 250 do
    local key, v = debug.getlocal(level, i)
    if not key then break end
    if key == name then found, value = true, v end
    if v ~= nil and key:find('^[%a_]') then all[#all + 1] = key end
  end
  local function of_function()
    for i = #all, 1, -1 do all[i] = nil end
    return value
  end
  if found then return of_function() end
  local env = rawget(_G, 'getfenv') and _G.getfenv(func) or _G
  for i = 1, 250 do
    local key, v = debug.getupvalue(func, i)
    if not key then break end
    if key == '_ENV' then env = v
    elseif key == name then found, value = true, v end
    if v ~= nil and key:find('^[%a_]') and key ~= '_ENV' then all[#all + 1] = key end
  end
  if found then return of_function() end
  if type(env) == 'table' then
    for key, v in next, env do if type(key) == 'string' and v ~= nil then all[#all + 1] = key end end
    local ok, v = pcall(function() return env[name] end)
    return ok and v or nil
  end
end

local ours = debug.getinfo(1, 'S').source:match('^(.*)front[/\\]quote%.lua$') or '@'

--- The argument that a message says is missing, as it was written; nil where that cannot be told.
local function missing_argument(code, message)
  local name = op_of(message)
  local call = name and call_in(code, name)
  if not call or not code:find('^[%a_]', call[1]) then return nil end
  local argument = message:match('^[%w_]+: the input ([%a_][%w_]*) ') or message:match('^[%w_]+: ([%a_][%w_]*) is ')
  local at = tonumber(message:match('%(number (%d+)%)')) or (argument and place_of(name, argument))
  local list, method = arguments_at(code, call[1], call[2])
  local span = at and list[method and at - 1 or at]
  return span and code:sub(span[1], span[2])
end

--- Names that are nil where that is as it should be: one that is asked (`x or y`, `if x`), or an option of a call.
local function may_be_nil(code, name)
  local word = '%f[%w_]' .. name .. '%f[^%w_]'
  return code:find(word .. '%s+or%f[%W]') or code:find(word .. '%s+and%f[%W]') or code:find('%f[%w]not%s+' .. word)
    or code:find('%f[%w]if%s+' .. word)
    or code:find('[%a_][%w_]*%s*=%s*' .. word .. '%s*[,;}]') or code:find(word .. '%s*[=~]=')
end

--- Where in the code of its line the function begins, told by its parameters: what stands before is of the function
-- around it, whose locals are not here. 1 where it begins on another line.
local function beginning(code, info)
  if info.linedefined ~= info.currentline then return 1 end
  local own = {}
  for i = 1, 250 do own[i] = debug.getlocal(info.func, i) or nil end
  for at, list in code:gmatch '()%f[%w_]function%f[^%w_]%s*[%w_.:]*%s*(%b())' do
    local names = {}
    for name in list:gmatch '[%a_][%w_]*' do names[#names + 1] = name end
    if table.concat(names, ' ') == table.concat(own, ' ') then return at end
  end
  return 1
end

--- Names on the user's line that are nil there, and all that were known: for an error that says that something is
-- missing. The message tells which argument is meant; where it does not, names that may be nil do not count.
function M.nil_names(message)
  local level = 2
  while true do
    local info = debug.getinfo(level, 'Slf')
    if not info then return {} end
    if info.what ~= 'C' and info.source:sub(1, #ours) ~= ours and info.currentline > 0 then
      local text = M.line(M.file_of(info) .. ':' .. info.currentline)
      if not text then return {} end
      local list, known, code = {}, {}, M.masked(text)
      local from = beginning(code, info)
      text, code = text:sub(from), code:sub(from)
      local meant = message and missing_argument(code, message)
      if meant and not meant:find('^[%a_][%w_]*$') then return meant:find('^[%a_][%w_.]*$') and { meant } or {}, {} end
      for _, name in ipairs(M.names_read(text, true)) do
        known = {}
        if (not meant and not may_be_nil(code, name) or meant == name)
          and value_of(level, info.func, name, known) == nil then
          list[#list + 1] = name
        end
      end
      return list, known
    end
    level = level + 1
  end
end

return M
