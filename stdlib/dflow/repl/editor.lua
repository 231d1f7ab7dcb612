--- What the editor in C asks of Lua (interp/prompt.h lists it): colours, hints, Enter, Tab, and what was pasted.
local df = require 'dflow'
local lua_docs = require 'dflow.docs.lua'
local dtypes = require 'dflow.front.dtypes'
local buffers = require 'dflow.repl.buffer'
local session = require 'dflow.repl.session'

local M = {}

-- ---- names that are known -------------------------------------------------------------------------------------------
local builtin = {}
for path in pairs(lua_docs) do builtin[path:match('^[%w_]+')] = true end
for _, name in ipairs{ '_G', '_VERSION', 'utf8', 'arg', 'warn', 'debug', 'package', 'df', 'cond', 'while_loop',
                       'TensorArray', 'gradients', 'self' } do
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

-- ---- pasted text ----------------------------------------------------------------------------------------------------
-- The prompts of this program and of lua(1): those that begin an input, and those of its further lines.
local PROMPTS = { { '^dflow> ?', '^ +%.%.%. ?' }, { '^> ?', '^>> ?' } }
local HELD = '^paused> ?'      -- what was typed there made sense to a paused run
local WRAPPED = '^       '     -- below a prompt: the line above was too long for its row

--- Which prompts a text has: a pair, whether its first line has one; nil when it is no session.
local function prompts_of(text)
  for _, pair in ipairs(PROMPTS) do
    if text:find(pair[1]) then return pair, true end
  end
  if text:find('^>> ?') then return PROMPTS[2], true end
  -- The first line may have been taken without its prompt.
  if text:find('\ndflow> ') and not session.compile(text) then return PROMPTS[1], false end
end

--- A pasted text as the inputs of the session that it shows: prompts, with a vi mode's marks and numbers, and answers
-- are left out. One input for any other text.
-- @param columns  of the window: a longer line of an input was shown as several rows, which become one again
-- @return         list of texts
function M.inputs(text, columns)
  text = ('\n' .. text:gsub('\n+$', '')):gsub('\n%(%l%l%l%)dflow', '\ndflow'):gsub('\ndflow %d+> ', '\ndflow> '):sub(2)
  local pair, whole = prompts_of(text)
  if not pair then return { text } end
  local list, input, row, dropped = {}, nil, 0, false
  local function finish()
    -- What Ctrl-C ended was not run.
    if input and input:find('%S') and not (input:find('%^C$') and not session.compile(input)) then
      list[#list + 1] = input
    end
    input = nil
  end
  for line in (text .. '\n'):gmatch('([^\n]*)\n') do
    local _, first = line:find(pair[1])
    local _, more = line:find(pair[2])
    if pair == PROMPTS[2] and more then first = nil end       -- `>> ` begins as `> ` does
    if first or not whole then
      finish()
      input, row, dropped = line:sub((first or 0) + 1), #line, false
      whole = true
    elseif line:find(HELD) then
      finish()
      dropped = true
    elseif more and not dropped and (input or #list == 0) then
      input = (input and input .. '\n' or '') .. line:sub(more + 1)
      row = #line
    elseif input and row > 0 and line:find(WRAPPED) and (row == columns - 1 or not session.complete(input)) then
      input = input .. (row == columns - 1 and '' or ' ') .. line:gsub(WRAPPED, '')
      row = #line
    else
      row = 0                                                 -- an answer
    end
  end
  finish()
  return list
end

-- ---- the editor -----------------------------------------------------------------------------------------------------
function M.new(repl)
  local buffer = buffers.new(knows)
  local cursor_line, cursor_column
  local candidates, page, asked_before = {}, 1, nil
  local context = { locals = session.locals, folder = repl.program and repl.program.folder }
  local complete, hints, before                            -- loaded when first needed: the prompt is there before
  local E = {}

  function E.replace(first, removed, text)
    if first == 0 and removed == 0 then
      buffer = buffers.new(knows)
      E.buffer, before = buffer, nil
    end
    buffer.replace(first, removed, text)
  end

  --- The styles of a line, and whether it begins an input of its own.
  function E.style(line)
    local r = buffer.lines[line + 1]
    return buffer.style(line, line == cursor_line and cursor_column or nil), r and r.begins or false
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

  --- Enter: runs what is complete; a line that begins with a closing word moves to its opening one. Of several inputs
  -- the first is run, and E.waiting are the others: they follow as if they were typed.
  function E.enter(line, column)
    local inputs = buffer.inputs()
    local text = table.remove(inputs)
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
    if session.complete(text) then
      inputs[#inputs + 1] = text
      E.waiting = inputs
      local first = table.remove(inputs, 1)
      return nil, indent, #inputs > 0 and 1 + select(2, first:gsub('\n', '')) or nil
    end
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
    local asked = ('%d:%d:%s'):format(line, column, buffer.text())
    page = asked == asked_before and page + 1 or 1             -- Tab once more: the next of them
    asked_before = asked
    local words = {}
    for i, c in ipairs(candidates) do words[i] = c.text end
    return from, words
  end

  function E.menu(columns, rows)
    return complete.menu(candidates, columns, rows, page)
  end

  --- What stands behind the text in the newest input of before that begins so; nil where there is none.
  function E.suggest()
    if not repl.values.options.suggest or not repl.values.terminal().color then return nil end
    local text = buffer.text()
    if #text < 2 or text:find '\n' then return nil end
    before = before or require('dflow.repl.search').newest(repl.program.history())
    for _, entry in ipairs(before) do
      if #entry > #text and entry:sub(1, #text) == text then return entry:sub(#text + 1) end
    end
  end

  local entries, found                                     -- of a search: the history, what fits

  function E.search(pattern, chosen, columns, rows)
    local search = require 'dflow.repl.search'
    entries = entries or search.newest(repl.program.history())
    found = search.find(entries, pattern)
    chosen = math.max(1, math.min(chosen, #found))
    local one = found[chosen]
    return chosen, one and one.text, one and one.last, search.menu(found, pattern, chosen, columns, rows)
  end

  function E.searched() entries, found = nil, nil end

  --- A prompt is there and no key has come yet: what the first keys need is loaded now, and the line of a run in the
  -- background is drawn.
  function E.idle()
    hints = hints or require 'dflow.repl.hints'
    complete = complete or require 'dflow.repl.complete'
    return require('dflow.repl.serve').idle()
  end

  local pasted = {}

  --- What is to be inserted of a pasted text. A session that is pasted into an empty buffer stays several inputs.
  function E.paste(text, columns)
    pasted = M.inputs(text, columns)
    return table.concat(pasted, '\n')
  end

  --- It was inserted.
  function E.pasted()
    local whole = table.concat(pasted, '\n')
    if #pasted < 2 or buffer.text() ~= whole then return end
    local line = 0
    for i = 1, #pasted - 1 do
      line = line + 1 + select(2, pasted[i]:gsub('\n', ''))
      buffer.begin(line)
    end
  end

  --- The buffer is one input from now on: another text is put into it.
  function E.recalled() buffer.begin() end

  E.waiting = {}
  E.buffer = buffer
  return E
end

return M
