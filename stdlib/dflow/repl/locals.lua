--- Top-level `local`s that live on: how a chunk typed at a prompt keeps them from one input to the next.
--
-- Each input is a chunk of its own, and a local of a chunk ends with it. So `local x = 1` at the top level of an input
-- is rewritten to an assignment to a table of the session, and inputs run in an environment that looks there first,
-- then at the globals. Without session locals that environment is _G itself. Functions see a later assignment, as with
-- real locals; a name declared anew is the same variable, so that a function that calls another sees its next version
-- too. A `<const>` one takes no assignment but is declared anew like any; what a `<close>` one holds is closed when the
-- session ends, the last first.
local lexer = require 'dflow.front.lexer'

local M = {}

local opens = { ['function'] = true, ['do'] = true, ['if'] = true, ['repeat'] = true, ['('] = true, ['{'] = true,
                ['['] = true }
local closes = { ['end'] = true, ['until'] = true, [')'] = true, ['}'] = true, [']'] = true }
M.opens, M.closes = opens, closes

-- What the rewritten source calls the tables that take the values: by attribute.
local HOLDERS = { plain = '__locals', const = '__const', close = '__close' }

--- The tokens of a text, a line at a time, and two functions: after(line, k), the next token that is no comment, and
-- word(line, k), the text of a token and its kind. A token is a line and a number in it; nil stands for the end.
local function scan(text)
  local rows, state, at = {}, nil, 0
  for row in (text .. '\n'):gmatch('([^\n]*)\n') do
    local r = { text = row, at = at }               -- at: bytes before it
    r.kinds, r.firsts, r.lasts, state = lexer.line(row, state)
    rows[#rows + 1] = r
    at = at + #row + 1
  end
  local function after(line, k)
    k = k + 1
    while rows[line] do
      local kinds = rows[line].kinds
      while kinds[k] == 'comment' do k = k + 1 end
      if kinds[k] then return line, k end
      line, k = line + 1, 1
    end
  end
  local function word(line, k)
    local r = rows[line]
    if r then return r.text:sub(r.firsts[k], r.lasts[k]), r.kinds[k] end
  end
  return rows, after, word
end

--- The declarations of locals at the top level of a source.
-- @return  a list of {first, last = the bytes from `local` to the last name or attribute; names; attributes = {[i] =
--          'const' | 'close'}; head = of a function: what stands between `local` and its name; lines = how many lines
--          that spans; valued = does `=` follow}
function M.declarations(text)
  local list = {}
  if not text:find('local', 1, true) then return list end
  local rows, after, word = scan(text)
  local function first(line, k) return rows[line].at + rows[line].firsts[k] end
  local function last(line, k) return rows[line].at + rows[line].lasts[k] end
  local function is(line, k, what)
    local w, kind = word(line, k)
    return w == what and kind ~= 'string'
  end

  --- The names from a token on, after the `local` at another, with their attributes; the token after which they end.
  local function names_at(line, k, l, m)
    local d = { first = first(line, k), names = {}, attributes = {} }
    local end_line, end_k
    local name, kind = word(l, m)
    while kind == 'name' do
      d.names[#d.names + 1], end_line, end_k = name, l, m
      l, m = after(l, m)
      if is(l, m, '<') then
        l, m = after(l, m)
        d.attributes[#d.names] = word(l, m)
        if l then end_line, end_k = after(l, m) end
        if not is(end_line, end_k, '>') then return nil end
        l, m = after(end_line, end_k)
      end
      if not is(l, m, ',') then break end
      l, m = after(l, m)
      name, kind = word(l, m)
    end
    if not end_line then return nil end
    d.last, d.lines, d.valued = last(end_line, end_k), end_line - line, is(l, m, '=')
    return d, end_line, end_k
  end

  local depth, line, k = 0, 1, 1
  while rows[line] do
    local kind = rows[line].kinds[k]
    local w = (kind == 'keyword' or kind == 'op') and word(line, k)
    if not kind then
      line, k = line + 1, 0
    elseif opens[w] then
      depth = depth + 1
    elseif closes[w] then
      depth = depth - 1
    elseif depth == 0 and w == 'local' then
      local l, m = after(line, k)
      if is(l, m, 'function') then
        l, m = after(l, m)
        local name, is_name = word(l, m)
        if is_name == 'name' then
          list[#list + 1] = { first = first(line, k), last = last(l, m), names = { name }, attributes = {}, lines = 0,
                              head = text:sub(last(line, k) + 1, first(l, m) - 1):gsub('^[ \t]+', '') }
          depth, line, k = depth + 1, l, m
        end
      else
        local d, end_line, end_k = names_at(line, k, l, m)
        if d then list[#list + 1], line, k = d, end_line, end_k end
      end
    end
    k = k + 1
  end
  return list
end

--- The source with what `written(declaration)` gives in place of each of its declarations (nil leaves one as it is),
-- line for line.
function M.replace(text, declarations, written)
  local out, at = {}, 1
  for _, d in ipairs(declarations) do
    local words = written(d)
    if words then
      out[#out + 1] = text:sub(at, d.first - 1) .. (d.head or '') .. words .. ('\n'):rep(d.lines)
      if not d.head and not d.valued then out[#out + 1] = ' = nil' end
      at = d.last + 1
    end
  end
  out[#out + 1] = text:sub(at)
  return table.concat(out)
end

--- The source with its top-level locals rewritten, line for line, and their names.
function M.rewrite(text)
  local names = {}
  local rewritten = M.replace(text, M.declarations(text), function(d)
    local left = {}
    for j, name in ipairs(d.names) do
      left[j] = (HOLDERS[d.attributes[j] or 'plain'] or HOLDERS.plain) .. '.' .. name
      names[#names + 1] = name
    end
    return table.concat(left, ', ')
  end)
  return rewritten, names
end

--- May a `<close>` variable hold it?
local function closable(v)
  if not v then return true end
  local mt = debug.getmetatable(v)
  return type(mt) == 'table' and rawget(mt, '__close') ~= nil
end

--- Session locals over the globals `base`.
function M.new(base)
  local values, declared, order, closing = {}, {}, {}, {}
  local holders = {}
  for attribute, word in pairs(HOLDERS) do
    holders[word] = setmetatable({}, {
      __index = function(_, name) return values[name] end,
      __newindex = function(_, name, v)
        if attribute == 'close' then
          if not closable(v) then error(("variable '%s' got a non-closable value"):format(name), 2) end
          if v then closing[#closing + 1] = v end
        end
        if not declared[name] then order[#order + 1] = name end
        declared[name], values[name] = attribute, v
      end,
    })
  end
  local env = setmetatable({}, {
    __index = function(_, name)
      if declared[name] then return values[name] end
      return holders[name] or base[name]
    end,
    __newindex = function(_, name, v)
      if not declared[name] then
        base[name] = v
      elseif declared[name] == 'plain' then
        values[name] = v
      else
        error(("attempt to assign to const variable '%s'"):format(name), 2)
      end
    end,
  })
  local M_ = {}
  --- The environment for a chunk that declares `names`.
  function M_.environment(names) return (#names > 0 or #order > 0) and env or base end
  --- Names, in the order they were declared.
  function M_.names() return order end
  function M_.has(name) return declared[name] ~= nil end
  function M_.get(name) return values[name] end
  function M_.forget()
    for i, name in ipairs(order) do values[name], declared[name], order[i] = nil, nil, nil end
  end
  --- The session ends: what `<close>` variables held is closed, the last first. complain(err) is called when one
  -- fails.
  function M_.close(complain)
    for i = #closing, 1, -1 do
      local v = closing[i]
      closing[i] = nil
      local ok, err = pcall(debug.getmetatable(v).__close, v)
      if not ok then complain(err) end
    end
  end
  return M_
end

return M
