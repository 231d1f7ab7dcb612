--- The inputs of a session as a script that runs by itself and prints what they printed.
--
-- It reads as it was typed, but for what a script cannot do. An expression, and a `return`, is shown by a function,
-- which keeps `_` and `__` too.
-- A session's local is one variable however often it is declared, and functions typed before see it; so what was
-- declared or mentioned before is assigned to, with no second `local`, and so are the locals beyond those that Lua has
-- room for.
local lexer = require 'dflow.front.lexer'
local locals = require 'dflow.repl.locals'

local M = {}

local HEADER = [[
#!/usr/bin/env dflow
-- %s
local df = require 'dflow'
local cond, while_loop, TensorArray, gradients = df.cond, df.while_loop, df.TensorArray, df.gradients
]]
local SHOW = [[
local function keep(...) if select('#', ...) > 0 then __, _ = _, (...) end end
local function show(...) keep(...) require('dflow.repl.values').show(...) end
]]
local ROOM = 150             -- locals of a chunk; Lua stops at 200

--- The names that a source mentions, but for fields and methods, into the set `names`.
local function mention(text, names)
  local before
  for _, t in ipairs(lexer.tokens(text)) do
    if t.kind == 'name' and before ~= '.' and before ~= ':' then names[t.text] = true end
    if t.kind ~= 'comment' then before = t.text end
  end
end

--- The arguments' text as the call of a function; a comment in it must not swallow the parenthesis.
local function call(name, arguments)
  return name .. '(' .. arguments .. (arguments:find('--', 1, true) and '\n)' or ')')
end

--- A statement's text with the `return` that ends it at the top level shown instead.
local function without_return(text)
  if not text:find('return', 1, true) then return text end
  local depth = 0
  for _, t in ipairs(lexer.tokens(text)) do
    local word = (t.kind == 'keyword' or t.kind == 'op') and t.text
    if locals.opens[word] then
      depth = depth + 1
    elseif locals.closes[word] then
      depth = depth - 1
    elseif depth == 0 and word == 'return' then
      local rest = text:sub(t.last + 1):gsub('^%s+', ''):gsub(';%s*$', '')
      return text:sub(1, t.first - 1) .. (rest ~= '' and call('show', rest) or '')
    end
  end
  return text
end

--- A statement with the `local`s that a script can have; `known` is {declared = …, mentioned = …, count = …} of the
-- inputs before.
local function with_locals(text, known)
  return locals.replace(text, locals.declarations(text), function(d)
    local fresh = known.count + #d.names <= ROOM
    for _, name in ipairs(d.names) do
      fresh = fresh and not known.declared[name] and (not known.mentioned[name] or rawget(_G, name) ~= nil)
    end
    for _, name in ipairs(d.names) do known.declared[name] = true end
    if not fresh then return table.concat(d.names, ', ') end
    known.count = known.count + #d.names
    return nil
  end)
end

--- One input as statements of the script.
local function statement(input, known)
  local text = input.text
  if input.kind == 'expression' then
    text = text:gsub('^%s*=', '', 1):gsub('^%s+', '')
    if input.n == 0 and load(text) and not text:find('^%(') then return text end
    return call(input.muted and 'keep' or 'show', (text:gsub('[;%s]*$', '')))
  end
  text = without_return(with_locals(text, known))
  return text:find('^%s*%(') and ';' .. text or text     -- the line before must not become a call
end

--- The script.
-- @param inputs  the records of session.run; those that failed are left out
-- @param about   a line on what this is
function M.of(inputs, about)
  local parts, known = {}, { declared = {}, mentioned = {}, count = 5 }
  local everything = {}
  for _, input in ipairs(inputs) do
    if input.ok then mention(input.text, everything) end
  end
  if everything.Out then parts[1] = 'Out = {}' end
  for _, input in ipairs(inputs) do
    if input.ok then
      parts[#parts + 1] = statement(input, known)
      if everything.Out and input.n > 0 then parts[#parts + 1] = ('Out[%d] = _'):format(input.number) end
      mention(input.text, known.mentioned)
    end
  end
  local text = table.concat(parts, '\n') .. '\n'
  local shows = text:find('show(', 1, true) or text:find('keep(', 1, true)
  return HEADER:format(about) .. (shows and SHOW or '') .. '\n' .. text
end

return M
