--- Lua source as tokens, a line at a time, so that an editor need only look again at the lines that changed.
--
-- What a line inherits from the one before is its state: nil, or a string that says what is still open: `[2` a long
-- string of level 2, `-0` a long comment, `"` or `'` a string that goes on after a backslash or \z. A line's tokens are
-- three lists: kind, first byte, last byte. Kinds: `name keyword constant number string comment op error`.
local M = {}
local byte, find, match, sub = string.byte, string.find, string.match, string.sub

M.keywords = {}
for word in ('and break do else elseif end for function goto if in local not or repeat return then until while'):gmatch(
    '%a+') do
  M.keywords[word] = 'keyword'
end
for word in ('nil true false'):gmatch('%a+') do M.keywords[word] = 'constant' end
local keywords = M.keywords

-- What a token can begin with. LONE is an operator of one character that no longer one begins with.
local NAME, DIGIT, BLANK, QUOTE, LONE, DOT, DASH, SQUARE = 1, 2, 3, 4, 5, 6, 7, 8
local class = {}
for c = 0, 255 do
  local s = string.char(c)
  if s:find('[A-Za-z_]') then class[c] = NAME
  elseif s:find('[0-9]') then class[c] = DIGIT
  elseif s:find('[ \t\r\v\f]') then class[c] = BLANK
  elseif s == '"' or s == "'" then class[c] = QUOTE
  elseif s:find('[(){}%],;+*%%^#&|]') then class[c] = LONE
  elseif s == '.' then class[c] = DOT
  elseif s == '-' then class[c] = DASH
  elseif s == '[' then class[c] = SQUARE end
end

local operators = {}
for word in ('.. == ~= <= >= // << >> :: + - * / % ^ # & ~ | < > = ( ) { } [ ] ; : , .'):gmatch('%S+') do
  operators[word] = true
end

--- The end of a quoted string that begins before `at`: its last byte, and the quote when it goes on in the next line.
local function quoted(text, at, quote)
  while true do
    local i = find(text, '[\\' .. quote .. ']', at)
    if not i then return #text, nil, true end
    if sub(text, i, i) == quote then return i end
    if i == #text then return #text, quote end
    if sub(text, i + 1, i + 1) == 'z' and not find(text, '%S', i + 2) then return #text, quote end
    at = i + 2
  end
end

--- The end of a long string or comment: its last byte, and what stays open.
local function long(text, at, level, mark)
  local _, last = find(text, ']' .. ('='):rep(level) .. ']', at, true)
  if last then return last end
  return #text, mark .. level
end

--- The tokens of one line (no newline in it) that begins in `state`.
-- @return  kinds, firsts, lasts, the state of the next line
function M.line(text, state)
  local kinds, firsts, lasts, n, i, length = {}, {}, {}, 0, 1, #text
  local function add(kind, first, last)
    n = n + 1
    kinds[n], firsts[n], lasts[n] = kind, first, last
    i = last + 1
  end
  if state then
    local mark = sub(state, 1, 1)
    local last, open, broken
    if mark == '[' or mark == '-' then
      last, open = long(text, 1, tonumber(sub(state, 2)), mark)
    else
      last, open, broken = quoted(text, 1, mark)
    end
    add(mark == '-' and 'comment' or broken and 'error' or 'string', 1, last)
    if open then return kinds, firsts, lasts, open end
  end
  while i <= length do
    local kind = class[byte(text, i)]
    if kind == BLANK then
      i = find(text, '[^ \t\r\v\f]', i) or length + 1
    elseif kind == NAME then
      local word = match(text, '^[A-Za-z0-9_]+', i)
      n = n + 1
      kinds[n], firsts[n] = keywords[word] or 'name', i
      i = i + #word
      lasts[n] = i - 1
    elseif kind == LONE then
      n = n + 1
      kinds[n], firsts[n], lasts[n] = 'op', i, i
      i = i + 1
    elseif kind == DIGIT or (kind == DOT and class[byte(text, i + 1) or 0] == DIGIT) then
      local _, last = find(text, '^0[xX][%x.]*[pP][+-]?[%w_.]*', i)
      if not last then _, last = find(text, '^0[xX][%w_.]*', i) end
      if not last then
        _, last = find(text, '^[%d.]*[eE][+-]?[%w_.]*', i)
        if not last then _, last = find(text, '^[%w_.]+', i) end
      end
      local word = sub(text, i, last)
      add((tonumber(word) or find(word, '^%d+[uU]?[lL][lL]$') or find(word, '^0[xX]%x+[uU]?[lL][lL]$')) and 'number'
          or 'error', i, last)
    elseif kind == QUOTE then
      local quote = sub(text, i, i)
      local last, open, broken = quoted(text, i + 1, quote)
      add(broken and 'error' or 'string', i, last)
      if open then return kinds, firsts, lasts, open end
    elseif kind == DASH then
      if byte(text, i + 1) ~= 45 then
        add('op', i, i)
      else
        local level = match(text, '^%-%-%[(=*)%[', i)
        if level then
          local last, open = long(text, i + 4 + #level, #level, '-')
          add('comment', i, last)
          if open then return kinds, firsts, lasts, open end
        else
          add('comment', i, length)
        end
      end
    else
      local level = kind == SQUARE and match(text, '^%[(=*)%[', i)
      if level then
        local last, open = long(text, i + 2 + #level, #level, '[')
        add('string', i, last)
        if open then return kinds, firsts, lasts, open end
      elseif kind == DOT and find(text, '^%.%.%.', i) then
        add('op', i, i + 2)
      elseif i < length and operators[sub(text, i, i + 1)] then
        add('op', i, i + 1)
      elseif operators[sub(text, i, i)] then
        add('op', i, i)
      else
        local _, last = find(text, '^[\128-\255]+', i)
        add('error', i, last or i)
      end
    end
  end
  return kinds, firsts, lasts, nil
end

--- All tokens of a text of any number of lines, as a list of {kind=, text=, line=, first=, last=}; first and last are
-- bytes of the whole text.
function M.tokens(text)
  local list, state, at, line = {}, nil, 1, 1
  while true do
    local stop = find(text, '\n', at, true) or #text + 1
    local row = sub(text, at, stop - 1)
    local kinds, firsts, lasts, open = M.line(row, state)
    for i = 1, #kinds do
      list[#list + 1] = { kind = kinds[i], text = sub(row, firsts[i], lasts[i]), line = line,
                          first = at + firsts[i] - 1, last = at + lasts[i] - 1 }
    end
    state, at, line = open, stop + 1, line + 1
    if stop > #text then return list end
  end
end

return M
