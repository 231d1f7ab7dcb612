--- What the editor in C asks of Lua (interp/prompt.h lists it): colours, hints, Enter, Tab, and what was pasted.
local df = require 'dflow'
local docs = require 'dflow.docs'
local dtypes = require 'dflow.dtypes'
local buffers = require 'dflow.repl.buffer'
local session = require 'dflow.repl.session'

local M = {}

-- ---- names that are known ---------------------------------------------------------------------------------------------
local builtin = {}
for path in pairs(docs.lua) do builtin[path:match('^[%w_]+')] = true end
for _, name in ipairs{ '_G', '_VERSION', 'utf8', 'arg', 'warn', 'debug', 'package', 'df', 'cond', 'while_loop', 'TensorArray', 'gradients', 'self' } do
  builtin[name] = true
end

local of_df

local knows = {}

function knows.global(name)
  if session.locals.has(name) then return true end
  if rawget(_G, name) ~= nil then return builtin[name] and 'builtin' or true end
  local env = rawget(_G, '_ENV')
  return name == '_ENV' or env ~= nil or name == 'self'
end

--- false when `base` is a library that has no such field: df, or one of Lua's.
function knows.field(base, name)
  if base == 'df' and rawget(_G, 'df') == df then
    if not of_df then
      of_df = {}
      for _, known in ipairs(df.names()) do of_df[known] = true end
      for _, known in ipairs(dtypes.list) do of_df[known] = true end
    end
    return of_df[name] or rawget(df, name) ~= nil or name:sub(1, 1) == '_'
  end
  local lib = builtin[base] and rawget(_G, base)
  if type(lib) == 'table' and package.loaded[base] == lib and base ~= '_G' then return rawget(lib, name) ~= nil end
end

-- ---- pasted text --------------------------------------------------------------------------------------------------------
--- Text without what a session shows beside what was typed. When a line begins with a prompt, lines with prompts are kept without
-- them, and lines without are answers; otherwise it is kept as it is.
function M.clean(text)
  text = text:gsub('\n+$', '')
  local first, more
  for _, pair in ipairs{ { '^dflow> ?', '^ +%.%.%. ?' }, { '^>> ?', '^>> ?' }, { '^> ', '^>> ?' } } do
    if text:find(pair[1]) then
      first, more = pair[1], pair[2]
      break
    end
  end
  if not first then return text end
  local kept = {}
  for line in (text .. '\n'):gmatch('([^\n]*)\n') do
    local _, stop = line:find(first)
    if not stop then _, stop = line:find(more) end
    if stop then kept[#kept + 1] = line:sub(stop + 1) end
  end
  return table.concat(kept, '\n')
end

-- ---- the editor ---------------------------------------------------------------------------------------------------------
function M.new(repl)
  local buffer = buffers.new(knows)
  local cursor_line, cursor_column = 0, 0
  local candidates = {}
  local context = { locals = session.locals, folder = repl.program and repl.program.folder }
  local complete, hints                                    -- loaded when first needed: the prompt is there before
  local E = {}

  function E.replace(first, removed, text)
    if first == 0 and removed == 0 then
      buffer = buffers.new(knows)
      E.buffer = buffer
    end
    buffer.replace(first, removed, text)
  end

  function E.style(line)
    return buffer.style(line, line == cursor_line and cursor_column or nil)
  end

  function E.look(line, column, columns)
    cursor_line, cursor_column = line, column
    local hint, styles
    if #buffer.lines > 1 or (buffer.lines[1] and buffer.lines[1].n > 1) then
      hints = hints or require 'dflow.repl.hints'
      local ok, text, marks = pcall(hints.hint, buffer, line, column, columns, session.locals)
      if ok then hint, styles = text, marks end
      if hint then hint = repl.values.plain(hint) end
    end
    return hint, styles, buffer.brackets(line, column)
  end

  --- Enter: runs what is complete; a line that begins with a closing word moves to its opening one.
  function E.enter(line, column)
    local text = buffer.text()
    local r = buffer.lines[line + 1]
    local indent
    if r and r.n > 0 and r.from == nil then
      local w = buffer.word(line, 1)
      local closing = w == 'end' or w == 'until' or w == 'else' or w == 'elseif' or w == '}' or w == ')' or w == ']'
      if closing and line > 0 then
        indent = buffer.indent_at(line, 1)
        if indent == buffer.indentation(line) then indent = nil end
      end
    end
    if session.complete(text) then return nil, indent end
    local k = buffer.before(line, column)
    local inside = r and k > 0 and column < r.lasts[k] and r.kinds[k]
    if inside == 'string' or inside == 'comment' or (r and column >= #r.text and r.to) then return '\n', indent end
    local after = r and r.firsts[k + 1] and k + 1 or nil
    local spaces
    if after then
      spaces = buffer.indent_at(line, after)
    else
      local at = buffer.opener(line, k + 1)
      spaces = at and (at == line and indent or buffer.indentation(at)) + 2 or 0
    end
    return '\n' .. (' '):rep(spaces), indent
  end

  function E.complete(line, column)
    complete = complete or require 'dflow.repl.complete'
    local from
    from, candidates = complete.at(buffer, line, column, context)
    local words = {}
    for i, c in ipairs(candidates) do words[i] = c.text end
    return from, words
  end

  function E.menu(columns, rows)
    return complete.menu(candidates, columns, rows)
  end

  E.clean = M.clean
  E.buffer = buffer
  return E
end

return M
