--- Which call the cursor is in, and the line under the input that shows its signature with the current argument in
-- bold.
--
-- Nothing here calls a function or an __index of the user's: names are looked up with rawget, and in tables that are
-- known.
local errors = require 'dflow.front.errors'
local help = require 'dflow.docs.help'
local df = require 'dflow'
local docs = require 'dflow.docs'
local registry = require 'dflow.front.registry'

local M = {}

local LINES = 1000          -- to look back for the beginning of a call
local TOKENS = 800          -- to look back for the key that is being given a value

--- The chain of names that ends at token k of a line: {'df', 'train', 'SGD'}, whether the last is behind a colon, and
-- whether something other than a name stands in front of them. nil when the token is no name.
function M.chain(buffer, line, k)
  local w, kind = buffer.word(line, k)
  if kind ~= 'name' then return nil end
  local names, method, open = { w }, false, false
  while true do
    local l, m = buffer.previous(line, k)
    local sep = l and buffer.word(l, m)
    if sep ~= '.' and sep ~= ':' then break end
    if #names == 1 then method = sep == ':' end
    line, k = buffer.previous(l, m)
    w, kind = nil, nil
    if line then w, kind = buffer.word(line, k) end
    if kind ~= 'name' then
      open = true
      break
    end
    table.insert(names, 1, w)
  end
  return names, method, open
end

--- The value that a name has at the prompt, without calling anything: found, value.
function M.global(name, locals)
  if locals and locals.has(name) then return true, locals.get(name) end
  local v = rawget(_G, name)
  return v ~= nil, v
end

local function part_of_df(name) return df[name] end

--- The value of a chain of names as far as rawget leads, and parts of df that are loaded when they are named: found,
-- value.
function M.value(names, locals, upto)
  local found, v = M.global(names[1], locals)
  if not found then return false end
  for i = 2, upto or #names do
    if type(v) ~= 'table' then return false end
    local inner = rawget(v, names[i])
    if inner == nil and v == df then
      local ok, part = pcall(part_of_df, names[i])
      inner = ok and part or nil
    end
    v = inner
    if v == nil then return false end
  end
  return true, v
end

--- A Lua function's parameters as a signature.
local function of_function(name, f)
  local about = debug.getinfo(errors.behind(f), 'uS')
  if not about or about.what == 'C' or not about.nparams then return nil end
  local names = {}
  for i = 1, about.nparams do names[i] = debug.getlocal(f, i) or '?' end
  if about.isvararg then names[#names + 1] = '...' end
  return ('%s(%s)'):format(name, table.concat(names, ', '))
end

--- The type whose method `name` is meant: that of the kind, or (of a value not known yet) the only one that has it or
-- the one that docs write with this letter. nil when it may be several, or an op's.
function M.owner(name, kind, letter)
  local only, n
  for type_name, t in pairs(docs.types) do
    if t.methods[name] then
      if kind == t.kind or (not kind and letter == t.letter) then return type_name end
      only, n = type_name, (n or 0) + 1
    end
  end
  return not kind and n == 1 and not registry.entry(name) and only or nil
end

--- The signature of a callee: its text, how many arguments stand before the first that is written in the parentheses,
-- and the name that help knows it by.
function M.signature(names, method, open, buffer, locals)
  local last = names[#names]
  if method then
    local found, base = false, nil
    if not open and not buffer.declares(names[1]) then found, base = M.value(names, locals, #names - 1) end
    local kind = found and (df.type(base) or type(base)) or nil
    if kind == 'string' then return docs.lua['string.' .. last] and docs.lua['string.' .. last][1], 1 end
    local owner = M.owner(last, kind, names[#names - 1])
    if owner then return help.signature(owner .. ':' .. last), 0, owner .. ':' .. last end
    if not kind or kind == 'output' or kind == 'variable' then
      local text = help.signature(last)
      if text then return (text:gsub('^df%.', 'x:'):gsub('%({?[%w_]+[^%w_,)]*,?%s*', '(', 1)), 0, last end
    end
    if kind == 'table' and type(rawget(base, last)) == 'function' then
      return of_function(last, rawget(base, last)), 1
    end
    return nil
  end
  if open then return nil end
  local path = table.concat(names, '.')
  if names[1] == 'df' and rawget(_G, 'df') == df and not buffer.declares('df') then
    local text = help.signature(path:sub(4))
    if text then return text, 0, path:sub(4) end
  end
  if buffer.declares(names[1]) and not M.global(names[1], locals) then return nil end
  local found, v = M.value(names, locals)
  if not found then return nil end
  if #names == 1 and docs.functions[last] and v == rawget(df, last) then return help.signature(last), 0, last end
  if docs.lua[path] and type(v) == 'function' then return docs.lua[path][1], 0 end
  if type(v) == 'function' then return of_function(path, v), 0 end
end

--- The call around a place: {names, method, open, argument = number from 0, option = key or true when inside its
-- options' table}.
function M.call(buffer, line, column)
  local k = buffer.before(line, column)
  local at, token, w, commas = buffer.opener(line, k + 1, LINES)
  if w ~= '(' and w ~= '{' then return nil end
  local braces
  if w == '{' then
    local l, m = buffer.previous(at, token)
    local before, kind = nil, nil
    if l then before, kind = buffer.word(l, m) end
    braces = { at, token }
    if before == '(' or before == ',' then          -- f(x, {
      at, token, w, commas = buffer.opener(at, token, LINES)
      if w ~= '(' then return nil end
    elseif kind ~= 'name' then
      return nil
    else
      commas = 0
    end
  end
  local l, m = buffer.previous(at, token)
  if not l then return nil end
  local names, method, open = M.chain(buffer, l, m)
  if not names then return nil end
  local before_l, before_m = buffer.previous(l, m)
  if before_l and buffer.word(before_l, before_m) == 'function' then return nil end     -- a definition
  local call = { names = names, method = method, open = open, argument = commas, braces = braces }
  if braces then       -- the key that is being given a value
    call.option = true
    local depth, li, ki = 0, line, k + 1
    local key
    for _ = 1, TOKENS do
      li, ki = buffer.previous(li, ki)
      if not li then break end
      local word, kind = buffer.word(li, ki)
      if li == braces[1] and ki == braces[2] then break end
      if word == '}' or word == ')' or word == ']' or word == 'end' then depth = depth + 1 end
      if word == '{' or word == '(' or word == '[' or word == 'function' then depth = depth - 1 end
      if depth == 0 and word == ',' and kind == 'op' then break end
      if depth == 0 and kind == 'name' then key = word end
    end
    call.option = key or true
  end
  return call
end

local parts = help.parts

--- The options of a call: a list of {name, one line of help}.
function M.options(call, buffer, locals)
  local signature, _, known = M.signature(call.names, call.method, call.open, buffer, locals)
  if not signature then return {} end
  if known then
    local list = {}
    for i, o in ipairs(help.options(known)) do list[i] = { o.name, help.about_option(known, o.name) } end
    if #list > 0 then return list end
  end
  local _, options = parts(signature)
  local list = {}
  for i, o in ipairs(options) do
    local default = signature:sub(o.first + #o.name, o.last):gsub('^%s*=%s*', '')
    list[i] = { o.name, default ~= '' and 'default ' .. default or 'option' }
  end
  return list
end

--- The hint under the input: text and its styles, at most `columns` wide; nil when there is nothing to say.
function M.hint(buffer, line, column, columns, locals)
  local call = M.call(buffer, line, column)
  if not call then return nil end
  local signature, skipped = M.signature(call.names, call.method, call.open, buffer, locals)
  if not signature then return nil end
  local arguments, options = parts(signature)
  local first, last
  if call.option then
    for _, o in ipairs(options) do
      if o.name == call.option then first, last = o.first, o.last end
    end
    if not first then
      for _, a in ipairs(arguments) do
        if signature:sub(a[1], a[1]) == '{' then first, last = a[1], a[2] end
      end
    end
  else
    local a = arguments[math.min(call.argument + 1 + (skipped or 0), #arguments)]
    if a and (call.argument + (skipped or 0) < #arguments or signature:sub(a[1], a[2]):find('%.%.%.$')
              or signature:sub(a[1], a[1]) == '{') then
      first, last = a[1], a[2]
    end
  end
  local styles = ('h'):rep(#signature)
  if first then styles = ('h'):rep(first - 1) .. ('H'):rep(last - first + 1) .. ('h'):rep(#signature - last) end
  local room = columns - 2
  if #signature > room then                 -- the part around the current argument
    local from, to = 1, room - 4
    if last and last > to then
      from = math.min(first, #signature - room + 5)
      if from < first then from = math.min(first, (signature:find(' ', from - 1, true) or first) + 1) end
      to = from + room - 5
      if to < #signature then to = to - 4 end
    end
    local before, behind = from > 1 and '... ' or '', to < #signature and ' ...' or ''
    signature = before .. signature:sub(from, to) .. behind
    styles = ('h'):rep(#before) .. styles:sub(from, to) .. ('h'):rep(#behind)
  end
  return signature, styles
end

return M
