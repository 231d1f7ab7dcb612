--- The text being edited, as tokens: what is coloured how, which bracket belongs to which, which call the cursor is in.
--
-- Lines and columns count from 0, as the editor's do. A line is a record {text, from, to, n, kinds, firsts, lasts,
-- declares, begins, net, low, commas, last}: `from` and `to` are the lexer's states before and after it, `begins` marks
-- a line that begins an input of its own, the last four (weigh) are made when first needed. Only lines that changed are
-- lexed again, and those behind them while their state differs; styles are made for the lines that are on the screen.
local lexer = require 'dflow.front.lexer'
local opens, closes = require('dflow.repl.locals').opens, require('dflow.repl.locals').closes

local M = {}
local find, sub, rep, concat = string.find, string.sub, string.rep, table.concat

-- ---- names that a line declares -----------------------------------------------------------------------------------
--- Names after `local`, `for` and `function`, parameters, and what is assigned to: a set, nil when there are none.
local function declared(r)
  local names
  local text, kinds, firsts, lasts = r.text, r.kinds, r.firsts, r.lasts
  local function put(i)
    names = names or {}
    names[sub(text, firsts[i], lasts[i])] = true
  end
  local i, n = 1, r.n
  while i <= n do
    local counts = kinds[i] == 'keyword' or (kinds[i] == 'op' and find(text, '^[=:]', firsts[i]))
    local word = counts and sub(text, firsts[i], lasts[i]) or ''
    if word == 'local' or word == 'for' then
      while kinds[i + 1] == 'name' or (kinds[i + 1] == 'op' and (text:find('^[,<>]', firsts[i + 1]))) do
        i = i + 1
        if kinds[i] == 'name' then put(i) end
      end
    elseif word == 'function' then
      if kinds[i + 1] == 'name' then put(i + 1) end
      while kinds[i + 1] and sub(text, firsts[i + 1], lasts[i + 1]) ~= '(' do i = i + 1 end
      i = i + 1
      while kinds[i + 1] == 'name' or (kinds[i + 1] == 'op' and text:find('^[,.]', firsts[i + 1])) do
        i = i + 1
        if kinds[i] == 'name' then put(i) end
      end
    elseif word == '=' and kinds[i - 1] == 'name' then
      local k = i - 1
      put(k)
      while k > 2 and sub(text, firsts[k - 1], lasts[k - 1]) == ',' and kinds[k - 2] == 'name' do
        k = k - 2
        put(k)
      end
    elseif word == 'goto' or word == '::' then
      if kinds[i + 1] == 'name' then put(i + 1) end
    end
    i = i + 1
  end
  return names
end

--- What a line does to the depth of brackets and blocks on the way backwards over it: `net`, what it adds; `low`, the
-- least sum on the way; `commas`, those that stand at the depth of the line's end; `last`, its last token that is no
-- comment.
local function weigh(r)
  local text, kinds, firsts, lasts = r.text, r.kinds, r.firsts, r.lasts
  local depth, low, commas = 0, 0, 0
  for k = r.n, 1, -1 do
    local kind = kinds[k]
    if kind == 'op' or kind == 'keyword' then
      local w = sub(text, firsts[k], lasts[k])
      if closes[w] then
        depth = depth + 1
      elseif opens[w] then
        depth = depth - 1
        if depth < low then low = depth end
      elseif w == ',' and depth == 0 then
        commas = commas + 1
      end
    end
  end
  local last = r.n
  while kinds[last] == 'comment' do last = last - 1 end
  r.net, r.low, r.commas, r.last = depth, low, commas, last
end

--- @param knows  table of functions: global(name) -> true, false or 'builtin'; field(base, name) -> false when base has
--               no such field
function M.new(knows)
  local lines = {}             -- from 1
  local counts = {}            -- how many lines declare a name
  local generation = 0         -- styles made before it changed are stale
  local B = { lines = lines }

  local function count(r, by)
    if not r.declares then return end
    for name in pairs(r.declares) do
      local was = counts[name] or 0
      counts[name] = was + by > 0 and was + by or nil
      if (was > 0) ~= (was + by > 0) then generation = generation + 1 end
    end
  end

  local function lex(text, state)
    local r = { text = text, from = state }
    r.kinds, r.firsts, r.lasts, r.to = lexer.line(text, state)
    r.n = #r.kinds
    r.declares = declared(r)
    return r
  end

  --- Lines first … first + removed - 1 became the lines of text. A line that is edited, split or joined to the one
  -- behind it begins an input if it did before.
  function B.replace(first, removed, text)
    local made, state = {}, lines[first] and lines[first].to
    local begins = lines[first + 1] and lines[first + 1].begins
    for i = first + 1, first + removed do
      if lines[i] then count(lines[i], -1) end
    end
    for row in (text .. '\n'):gmatch('([^\n]*)\n') do
      local r = lex(row, state)
      made[#made + 1] = r
      state = r.to
      count(r, 1)
    end
    local before, grown = #lines, #made - removed
    if grown > 0 then
      for i = before, first + removed + 1, -1 do lines[i + grown] = lines[i] end
    elseif grown < 0 then
      for i = first + removed + 1, before do lines[i + grown] = lines[i] end
      for i = before + grown + 1, before do lines[i] = nil end
    end
    for i = 1, #made do lines[first + i] = made[i] end
    if removed == 1 or #made == 1 then made[1].begins = begins end
    local i = first + #made + 1
    while lines[i] and lines[i].from ~= state do
      count(lines[i], -1)
      begins = lines[i].begins
      lines[i] = lex(lines[i].text, state)
      lines[i].begins = begins
      count(lines[i], 1)
      state = lines[i].to
      i = i + 1
    end
  end

  --- What there is to know of globals has changed: styles are made anew.
  function B.refresh() generation = generation + 1 end

  --- Lines from … to, from 1 and both in; all of them when not given.
  function B.text(from, to)
    local list = {}
    for i = from or 1, to or #lines do list[#list + 1] = lines[i].text end
    return concat(list, '\n')
  end

  --- The buffer as inputs: the text of each. A line that begins one is marked (begin); the first line always does.
  function B.inputs()
    local list, from = {}, 1
    for i = 2, #lines + 1 do
      if i > #lines or lines[i].begins then
        list[#list + 1] = B.text(from, i - 1)
        from = i
      end
    end
    return list
  end

  --- From now on a line begins an input of its own, or (no line given) none but the first does.
  function B.begin(line)
    if line then
      lines[line + 1].begins = true
    else
      for i = 1, #lines do lines[i].begins = nil end
    end
  end

  function B.declares(name) return counts[name] ~= nil end
  function B.declared_names() return counts end

  -- ---- tokens around a place -------------------------------------------------------------------------------------
  --- The last token of a line that begins before `column`; 0 when there is none.
  function B.before(line, column)
    local r = lines[line + 1]
    if not r then return 0 end
    local k = r.n
    while k > 0 and r.firsts[k] > column do k = k - 1 end
    return k
  end

  function B.word(line, k)
    local r = lines[line + 1]
    if r and r.kinds[k] then return sub(r.text, r.firsts[k], r.lasts[k]), r.kinds[k] end
  end
  local word = B.word

  --- The token before token k of a line that is no comment: line, token; nil at the beginning.
  function B.previous(line, k)
    repeat
      k = k - 1
      while k < 1 do
        line = line - 1
        if line < 0 then return nil end
        k = lines[line + 1].n
      end
    until lines[line + 1].kinds[k] ~= 'comment'
    return line, k
  end
  local previous = B.previous

  --- The innermost `(`, `{`, `[` or block that is open before token k of a line: line, token, its word, and how many
  -- commas stand between at its level; nil when none is open, or none within `limit` lines. A line that cannot hold it
  -- is passed in one step.
  function B.opener(line, k, limit)
    local depth, commas = 0, 0
    local at
    local least = limit and line - limit or 0
    at, k = previous(line, k)
    while at and at >= least do
      local r = lines[at + 1]
      if not r.net then weigh(r) end
      while (k == r.last or k == r.n) and (depth == 0 and r.low == 0 or depth + r.low > 0) do
        if depth == 0 then commas = commas + r.commas end
        depth, at = depth + r.net, at - 1
        if at < 0 or at < least then return nil end
        r = lines[at + 1]
        if not r.net then weigh(r) end
        k = r.n
      end
      local w, kind = word(at, k)
      if kind == 'op' or kind == 'keyword' then
        if closes[w] then
          depth = depth + 1
        elseif opens[w] then
          if depth == 0 then return at, k, w, commas end
          depth = depth - 1
        elseif w == ',' and depth == 0 then
          commas = commas + 1
        end
      end
      at, k = previous(at, k)
    end
  end

  --- The indentation of a line as it is.
  function B.indentation(line)
    local r = lines[line + 1]
    return r and #r.text:match('^[ \t]*') or 0
  end

  --- The indentation that the text from token k of a line on should have: that of a line begun there.
  function B.indent_at(line, k)
    local w, kind = word(line, k)
    local closing = (kind == 'op' or kind == 'keyword') and (closes[w] or w == 'else' or w == 'elseif')
    local at = B.opener(line, k)
    if not at then return 0 end
    return B.indentation(at) + (closing and 0 or 2)
  end

  -- ---- brackets ----------------------------------------------------------------------------------------------------
  local pair = { ['('] = ')', ['{'] = '}', ['['] = ']' }
  local left = { [')'] = '(', ['}'] = '{', [']'] = '[' }

  local function match_forward(line, k, open)
    local close, depth = pair[open], 0
    for _ = 1, 20000 do
      local w, kind = word(line, k)
      if not w then
        line, k = line + 1, 0
        if not lines[line + 1] then return nil end
      elseif kind == 'op' then
        if w == open then depth = depth + 1 elseif w == close then depth = depth - 1 end
        if depth == 0 then return line, k end
      end
      k = k + 1
    end
  end

  local function match_backward(line, k, close)
    local open, depth = left[close], 0
    for _ = 1, 20000 do
      local w, kind = word(line, k)
      if kind == 'op' then
        if w == close then depth = depth + 1 elseif w == open then depth = depth - 1 end
        if depth == 0 then return line, k end
      end
      line, k = previous(line, k)
      if not line then return nil end
    end
  end

  --- The two brackets to mark when the cursor is behind one or on one: line, column, line, column. Nothing when it has
  -- no partner.
  function B.brackets(line, column)
    local r = lines[line + 1]
    if not r then return end
    local found = B.before(line, column + 1)
    for k = found, math.max(1, found - 1), -1 do
      local w, kind = word(line, k)
      local first = r.firsts[k]
      if kind == 'op' and (pair[w] or left[w]) and (first == column or first == column + 1) then
        local l, m
        if pair[w] then l, m = match_forward(line, k, w) else l, m = match_backward(line, k, w) end
        if l then return line, first - 1, l, lines[l + 1].firsts[m] - 1 end
      end
    end
  end

  -- ---- styles -------------------------------------------------------------------------------------------------------
  local style_of = { keyword = 'k', constant = 't', number = 'd', string = 's', comment = 'c', op = 'o', error = 'e' }

  --- Is token k the key of a table constructor or an assignment, or a parameter: a name that is not read?
  local function style_of_name(r, k, cursor)
    local text, kinds, firsts, lasts = r.text, r.kinds, r.firsts, r.lasts
    local name = sub(text, firsts[k], lasts[k])
    local before = k > 1 and kinds[k - 1] == 'op' and sub(text, firsts[k - 1], lasts[k - 1])
    if before == '.' or before == ':' then
      local base = kinds[k - 2] == 'name' and not (kinds[k - 3] == 'op' and text:find('^[.:]', firsts[k - 3]))
        and sub(text, firsts[k - 2], lasts[k - 2])
      if base and before == '.' and not counts[base] and knows.field(base, name) == false and cursor ~= lasts[k] then
        return 'w'
      end
      return 'f'
    end
    if counts[name] then return 'n' end
    local known = knows.global(name)
    if known == 'builtin' then return 'b' end
    if known or cursor == lasts[k] then return 'n' end
    return 'w'
  end

  --- A style character for each byte of a line. A name that the cursor stands behind is not called unknown yet.
  function B.style(line, cursor)
    local r = lines[line + 1]
    if not r then return '' end
    if r.styles and r.generation == generation and r.cursor == cursor then return r.styles end
    local parts, n, at = {}, 0, 1
    for k = 1, r.n do
      local first, last, kind = r.firsts[k], r.lasts[k], r.kinds[k]
      if first > at then
        n = n + 1
        parts[n] = rep(' ', first - at)
      end
      n = n + 1
      parts[n] = rep(kind == 'name' and style_of_name(r, k, cursor) or style_of[kind], last - first + 1)
      at = last + 1
    end
    r.styles, r.generation, r.cursor = concat(parts), generation, cursor
    return r.styles
  end

  return B
end

return M
