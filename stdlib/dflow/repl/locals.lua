--- Top-level `local`s that live on: how a chunk typed at a prompt keeps them from one input to the next.
--
-- Each input is a chunk of its own, and a local of a chunk ends with it. So `local x = 1` at the top level of an input is rewritten to
-- an assignment to a table of the session, and inputs run in an environment that looks there first, then at the globals. Without
-- session locals that environment is _G itself. Functions see a later assignment, as with real locals; a name declared anew is the
-- same variable, so that a function that calls another sees its next version too. A `<const>` one takes no assignment but is declared anew like
-- any; what a `<close>` one holds is closed when the session ends, the last first.
local lexer = require 'dflow.repl.lexer'

local M = {}

local opens = { ['function'] = true, ['do'] = true, ['if'] = true, ['repeat'] = true, ['('] = true, ['{'] = true, ['['] = true }
local closes = { ['end'] = true, ['until'] = true, [')'] = true, ['}'] = true, [']'] = true }
M.opens, M.closes = opens, closes

-- What the rewritten source calls the tables that take the values: by attribute.
local HOLDERS = { plain = '__locals', const = '__const', close = '__close' }

--- The declarations of locals at the top level of a source.
-- @return  a list of {first, last = the bytes from `local` to the last name or attribute; names; attributes = {[i] = 'const' | 'close'};
--          head = of a function: what stands between `local` and its name; lines = how many lines that spans; valued = does `=` follow}
function M.declarations(text)
  local list = {}
  if not text:find('local', 1, true) then return list end
  local tokens = lexer.tokens(text)
  local function is(k, word) return tokens[k] and tokens[k].text == word and tokens[k].kind ~= 'string' end
  local function significant(k)         -- the next token that is no comment
    while tokens[k] and tokens[k].kind == 'comment' do k = k + 1 end
    return k
  end
  local function is_name(k) return tokens[k] and tokens[k].kind == 'name' end

  --- The names after the `local` at token i, with their attributes; the token after the last.
  local function names_at(i)
    local d, k = { first = tokens[i].first, names = {}, attributes = {} }, significant(i + 1)
    local last
    while is_name(k) do
      d.names[#d.names + 1], last = tokens[k].text, k
      k = significant(k + 1)
      if is(k, '<') then
        local word = significant(k + 1)
        last = significant(word + 1)
        if not is(last, '>') then return nil end
        d.attributes[#d.names] = tokens[word].text
        k = significant(last + 1)
      end
      if not is(k, ',') then break end
      k = significant(k + 1)
    end
    if not last then return nil end
    d.last, d.lines, d.valued = tokens[last].last, tokens[last].line - tokens[i].line, is(k, '=') or false
    return d, last
  end

  local depth, i = 0, 1
  while tokens[i] do
    local t = tokens[i]
    local word = (t.kind == 'keyword' or t.kind == 'op') and t.text
    if opens[word] then
      depth = depth + 1
    elseif closes[word] then
      depth = depth - 1
    elseif depth == 0 and word == 'local' then
      local k = significant(i + 1)
      if is(k, 'function') then
        local name = significant(k + 1)
        if is_name(name) then
          list[#list + 1] = { first = t.first, last = tokens[name].last, names = { tokens[name].text }, attributes = {}, lines = 0,
                              head = text:sub(t.last + 1, tokens[name].first - 1):gsub('^[ \t]+', '') }
          depth, i = depth + 1, name
        end
      else
        local d, last = names_at(i)
        if d then list[#list + 1], i = d, last end
      end
    end
    i = i + 1
  end
  return list
end

--- The source with what `written(declaration)` gives in place of each of its declarations (nil leaves one as it is), line for line.
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
  --- The session ends: what `<close>` variables held is closed, the last first. complain(err) is told of one that fails.
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
