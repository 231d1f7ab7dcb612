--- Top-level `local`s that live on: how a chunk typed at a prompt keeps them from one input to the next.
--
-- Each input is a chunk of its own, and a local of a chunk ends with it. So `local x = 1` at the top level of an input is rewritten to
-- an assignment to a table of the session, and inputs run in an environment that looks there first, then at the globals. Without
-- session locals that environment is _G itself. Functions see a later assignment, as with real locals; a name declared anew is the
-- same variable. `<close>` variables stay what they are: they belong to their input.
local lexer = require 'dflow.repl.lexer'

local M = {}

local opens = { ['function'] = true, ['do'] = true, ['if'] = true, ['repeat'] = true, ['('] = true, ['{'] = true, ['['] = true }
local closes = { ['end'] = true, ['until'] = true, [')'] = true, ['}'] = true, [']'] = true }
M.opens, M.closes = opens, closes

local TABLE = '__locals'      -- what the rewritten source calls the table

--- The source with its top-level locals rewritten, line for line, and their names.
function M.rewrite(text)
  if not text:find('local', 1, true) then return text, {} end
  local tokens = lexer.tokens(text)
  local out, names, at, depth = {}, {}, 1, 0
  local i = 1
  local function is(k, word) return tokens[k] and tokens[k].text == word and tokens[k].kind ~= 'string' end
  local function significant(k)         -- the next token that is no comment
    while tokens[k] and tokens[k].kind == 'comment' do k = k + 1 end
    return k
  end
  while tokens[i] do
    local t = tokens[i]
    if (t.kind == 'keyword' or t.kind == 'op') and opens[t.text] then
      depth = depth + 1
    elseif (t.kind == 'keyword' or t.kind == 'op') and closes[t.text] then
      depth = depth - 1
    elseif depth == 0 and t.kind == 'keyword' and t.text == 'local' then
      local k = significant(i + 1)
      if is(k, 'function') then
        local name = significant(k + 1)
        if tokens[name] and tokens[name].kind == 'name' then      -- local function f  ->  function __locals.f
          out[#out + 1] = text:sub(at, t.first - 1)
          out[#out + 1] = text:sub(t.last + 1, tokens[name].first - 1):gsub('^[ \t]+', '')
          out[#out + 1] = TABLE .. '.' .. tokens[name].text
          at = tokens[name].last + 1
          names[#names + 1] = tokens[name].text
          depth = depth + 1
          i = name
        end
      else
        local list, keeps, last = {}, true, nil
        while tokens[k] and tokens[k].kind == 'name' do
          list[#list + 1] = tokens[k]
          last = k
          k = significant(k + 1)
          if is(k, '<') then
            local word = significant(k + 1)
            local stop = significant(word + 1)
            if not is(stop, '>') then
              keeps = false
              break
            end
            if is(word, 'close') then keeps = false end
            last = stop
            k = significant(stop + 1)
          end
          if not is(k, ',') then break end
          k = significant(k + 1)
        end
        if #list > 0 and keeps then
          out[#out + 1] = text:sub(at, t.first - 1)
          local left = {}
          for j, name in ipairs(list) do
            left[j] = TABLE .. '.' .. name.text
            names[#names + 1] = name.text
          end
          out[#out + 1] = table.concat(left, ', ')
          out[#out + 1] = ('\n'):rep(tokens[last].line - t.line)
          if not is(k, '=') then out[#out + 1] = ' = nil' end
          at = tokens[last].last + 1
          i = last
        end
      end
    end
    i = i + 1
  end
  out[#out + 1] = text:sub(at)
  return table.concat(out), names
end

--- Session locals over the globals `base`.
function M.new(base)
  local values, declared, order = {}, {}, {}
  local holder = setmetatable({}, {
    __index = function(_, name) return values[name] end,
    __newindex = function(_, name, v)
      if not declared[name] then
        declared[name] = true
        order[#order + 1] = name
      end
      values[name] = v
    end,
  })
  local env = setmetatable({}, {
    __index = function(_, name)
      if declared[name] then return values[name] end
      if name == TABLE then return holder end
      return base[name]
    end,
    __newindex = function(_, name, v)
      if declared[name] then values[name] = v else base[name] = v end
    end,
  })
  local M_ = {}
  --- The environment for a chunk that declares `names`.
  function M_.environment(names) return (#names > 0 or #order > 0) and env or base end
  --- Names, in the order they were declared.
  function M_.names() return order end
  function M_.has(name) return declared[name] == true end
  function M_.get(name) return values[name] end
  function M_.forget()
    for i, name in ipairs(order) do values[name], declared[name], order[i] = nil, nil, nil end
  end
  return M_
end

return M
