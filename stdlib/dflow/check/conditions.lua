--- Lua source in which an Output seems to be taken for a Lua boolean: what no running program can see, found in the text.
--
-- `if x:gt(0) then` is always taken, `i == 3` is always false, `not p` too, and `p and q` is q: an Output is a table to Lua. Looked
-- at are conditions that hold a comparison which builds a node, and, in the functions that are given to cond, while_loop and
-- their like, comparisons and logic on the functions' parameters and on comparisons; anywhere, comparisons of what is a local that holds an
-- Output and nothing else, and `x:gt(0) and a or b`. In whole scripts also steps that are built and never run: `v:assign(3)` as a statement
-- outside of functions, `df.print(x)`, `q:enqueue(v)`. It is a search among tokens, not a proof: it says nothing where it is not sure.
local lexer = require 'dflow.front.lexer'

local M = {}

local function set(words)
  local s = {}
  for word in words:gmatch('%S+') do s[word] = true end
  return s
end

--- Methods and functions whose result is a bool Output.
local predicates = set 'lt le gt ge eq ne less less_equal greater greater_equal equal not_equal logical_and logical_or logical_not logical_xor'
--- What turns an Output into a Lua value.
local values = set 'run eval item totable rawequal wait tostring type'
--- Functions that call the functions they are given with Outputs.
local builders = set 'while_loop map_fn scan foldl foldr'
local makers = set 'while_loop cond map_fn scan foldl foldr case switch_case'
local opens, closes = set '( { [', set ') } ]'
--- Calls that give an Output or a Variable, whatever they are given; and methods that build what has to be run.
local outputs = set 'placeholder constant Variable get_variable float32 float64 int32 int64 zeros ones fill random_normal random_uniform'
local steps = set 'assign assign_add assign_sub minimize apply_gradients scatter_update'
--- Functions of df whose effect is all that a statement can want of them; methods of a queue.
local effects = { print = 'go on with what it gives, y = df.print(x)', assert = 'df.control_dependencies({a}, fn), which builds what waits for it' }
--- Kinds of plots, which are made and not shown.
local plots = set 'plot line scatter histogram heatmap image'
local queued = set 'enqueue enqueue_many'
local comparisons = { ['=='] = 'eq', ['~='] = 'ne' }

--- Place of the bracket that closes the one at i, or the last token.
local function close_of(t, i)
  local depth = 0
  for k = i, #t do
    if opens[t[k].text] and t[k].kind == 'op' then depth = depth + 1
    elseif closes[t[k].text] and t[k].kind == 'op' then
      depth = depth - 1
      if depth == 0 then return k end
    end
  end
  return #t
end

--- Place of the bracket that opens what the one at i closes, or 1.
local function open_of(t, i)
  local depth = 0
  for k = i, 1, -1 do
    if closes[t[k].text] and t[k].kind == 'op' then depth = depth + 1
    elseif opens[t[k].text] and t[k].kind == 'op' then
      depth = depth - 1
      if depth == 0 then return k end
    end
  end
  return 1
end

--- Is a call of a predicate, as in `x:gt(`, at i?
local function is_predicate(t, i)
  local before, after = t[i - 1], t[i + 1]
  return predicates[t[i].text] and before and (before.text == ':' or before.text == '.') and after and (after.text == '(' or after.kind == 'number')
end

--- Is token i a whole operand that is one of these names: no field, call or element of it, nor a field of another?
local function is_name(t, i, names)
  if not t[i] or t[i].kind ~= 'name' or not names[t[i].text] then return false end
  local before, after = t[i - 1] and t[i - 1].text, t[i + 1] and t[i + 1].text
  return before ~= '.' and before ~= ':' and after ~= '.' and after ~= ':' and after ~= '[' and after ~= '('
end

--- Where an operand ends that is a predicate's result and begins at i, as `x:gt(0)` or `df.less(x, y)`; nil where none begins there.
local function begins_predicate(t, i)
  local k = i
  if not t[k] or t[k].kind ~= 'name' then return nil end
  while t[k] and t[k].kind == 'name' and t[k + 1] and (t[k + 1].text == ':' or t[k + 1].text == '.') do k = k + 2 end
  if not (t[k] and is_predicate(t, k)) then return nil end
  local last = close_of(t, k + 1)
  local after = t[last + 1]
  return not (after and (after.text == ':' or after.text == '.')) and last or nil
end

--- Does one end at i, a closing bracket?
local function ends_predicate(t, i)
  if not t[i] or t[i].text ~= ')' then return false end
  local open = open_of(t, i)
  return t[open - 1] ~= nil and t[open - 1].kind == 'name' and is_predicate(t, open - 1) or false
end

--- Is the predicate that ends at i what a Lua value chooses, as in `mask and x:lt(n) or y`?
local function chosen(t, i)
  local first = open_of(t, i) - 1
  while t[first - 1] and (t[first - 1].text == ':' or t[first - 1].text == '.') do first = first - 2 end
  return t[first - 1] ~= nil and t[first - 1].text == 'and' and not ends_predicate(t, first - 2)
end

--- Parameters of the functions that stand in t[from … to], but for those that df.lua_func calls with values. `named`: of those that have a
-- name, too.
local function parameters(t, from, to, named)
  local names = {}
  for i = from, to do
    local k = i + 1
    while named and t[k] and (t[k].kind == 'name' or t[k].text == '.' or t[k].text == ':') do k = k + 1 end
    if t[i].text == 'function' and t[k] and t[k].text == '(' and not (t[i - 2] and t[i - 2].text == 'lua_func') then
      k = k + 1
      while t[k] and t[k].text ~= ')' do
        if t[k].kind == 'name' then names[t[k].text] = true end
        k = k + 1
      end
    end
  end
  return names
end

--- How often each name is declared or set: by local, for, function, and before a `=`, one of several too; keys of tables count.
local function times_set(t)
  local times, seen = {}, {}
  local function count(k)
    times[t[k].text] = (times[t[k].text] or 0) + 1
    seen[k] = true
  end
  for i = 1, #t do
    local word, k = t[i].text, i + 1
    if t[i].kind == 'keyword' and (word == 'local' or word == 'for' or word == 'function') then
      while t[k] and t[k].kind == 'name' do
        count(k)
        if t[k + 1] and t[k + 1].text == '<' then k = k + 3 end
        k = t[k + 1] and t[k + 1].text == ',' and k + 2 or #t + 1
      end
    elseif word == '=' and t[i].kind == 'op' then
      k = i - 1
      while t[k] and t[k].kind == 'name' and not seen[k] do
        local before = t[k - 1] and t[k - 1].text
        if before ~= '.' and before ~= ':' then count(k) end
        k = before == ',' and k - 2 or 0
      end
    end
  end
  return times
end

--- Place of what is behind the call at k that gives an Output and is a value of its own; nil where none stands there.
local function behind_output(t, k)
  if t[k] and t[k].text == 'df' and t[k + 1] and t[k + 1].text == '.' then k = k + 2 end
  if not (t[k] and outputs[t[k].text] and t[k + 1] and opens[t[k + 1].text]) then return nil end
  local last = close_of(t, k + 1) + 1
  local behind = t[last]
  return (not behind or behind.kind ~= 'op' or behind.text == ';' or behind.text == ',') and last or nil
end

--- Locals that are declared once, as one call that gives an Output, and never set again.
local function locals_of(t)
  local names = {}
  for i = 1, #t do
    local declared, k = {}, i + 1
    while t[i].text == 'local' and t[k] and t[k].kind == 'name' do
      declared[#declared + 1] = t[k].text
      k = t[k + 1] and t[k + 1].text == ',' and k + 2 or k + 1
    end
    local at = #declared > 0 and t[k] and t[k].text == '=' and k + 1 or nil
    for _, name in ipairs(declared) do
      at = at and behind_output(t, at)
      if at then names[name] = true end
      at = at and t[at] and t[at].text == ',' and at + 1 or nil
    end
  end
  for name in pairs(parameters(t, 1, #t, true)) do names[name] = nil end
  for name, n in pairs(times_set(t)) do if n > 1 then names[name] = nil end end
  return names
end

--- The names in front of a `=` at i, in order: of `local p, q =` both. None where one of them is a field.
local function assigned(t, i)
  local names, k = {}, i - 1
  while t[k] and t[k].kind == 'name' do
    local before = t[k - 1] and t[k - 1].text
    if before == '.' or before == ':' then return {} end
    table.insert(names, 1, t[k].text)
    k = before == ',' and k - 2 or 0
  end
  return k == 0 and names or {}
end

--- Names that were given predicates and nothing else: `local p, q = x:gt(0), y:lt(1)`.
local function named_predicates(t)
  local given, names = {}, {}
  for i = 2, #t - 1 do
    local at = t[i].text == '=' and t[i].kind == 'op' and i + 1 or nil
    for _, name in ipairs(at and assigned(t, i) or {}) do
      local last = at and begins_predicate(t, at)
      if last then given[name] = (given[name] or 0) + 1 end
      at = last and t[last + 1] and t[last + 1].text == ',' and last + 2 or nil
    end
  end
  local times, bound = times_set(t), parameters(t, 1, #t, true)
  for name, n in pairs(given) do names[name] = n == times[name] and not bound[name] or nil end
  return names
end

--- Methods that the text itself defines: `function Map:assign(`, `Map.assign = function`.
local function own_methods(t)
  local names = {}
  for i = 2, #t - 1 do
    local after = t[i + 1].text
    if t[i].kind == 'name' and (after == '=' or after == '(' and (t[i - 1].text == '.' or t[i - 1].text == ':')) then
      local k = i - 1
      while after == '(' and t[k] and (t[k].kind == 'name' or t[k].text == '.' or t[k].text == ':') do k = k - 1 end
      if after == '=' and t[i + 2] and t[i + 2].text == 'function' or after == '(' and t[k] and t[k].text == 'function' then names[t[i].text] = true end
    end
  end
  return names
end

--- Does the call whose bracket is at i give its node a name, by which it can be run?
local function is_named(t, i)
  for k = i + 1, close_of(t, i) - 1 do
    if t[k].text == 'name' and t[k + 1].text == '=' then return true end
  end
  return false
end

--- Names that the text gives a queue: `q = df.FIFOQueue(`.
local function queues(t)
  local names = {}
  for i = 3, #t - 1 do
    if t[i].kind == 'name' and t[i].text:find('Queue$') and t[i - 1].text == '.' and t[i - 3] and t[i - 3].text == '=' then names[t[i - 4] and t[i - 4].text or ''] = true end
  end
  return names
end

local ends_statement = set '; ) ] } do then else end repeat'

--- Is the call whose name stands at i, with its bracket behind it, a statement by itself?
local function is_statement(t, i)
  local k = i - 2
  while t[k] and t[k - 1] and (t[k].text == ')' or t[k].kind == 'name' and (t[k - 1].text == '.' or t[k - 1].text == ':')) do
    k = t[k].text == ')' and open_of(t, k) - 1 or k - 2             -- `df.train.SGD(0.1):minimize(`
  end
  local before, behind = t[k - 1], t[close_of(t, i + 1) + 1]
  local begins = not before or ends_statement[before.text] or before.kind == 'name' or before.kind == 'number' or before.kind == 'string'
  return t[k] and t[k].kind == 'name' and begins and not (behind and (behind.kind == 'op' and behind.text ~= ';' and behind.text ~= '('))
end

--- Statements outside of functions that build a step and drop it: warn(token, …) of each.
local function find_dropped(t, warn)
  local depth, functions, own, queue = 0, {}, own_methods(t), queues(t)
  for i = 1, #t do
    local word = (t[i].kind == 'keyword' or t[i].kind == 'op') and t[i].text
    if word == 'function' then
      depth = depth + 1
      functions[#functions + 1] = depth
    elseif word == 'if' or word == 'do' or word == 'repeat' then depth = depth + 1
    elseif word == 'end' or word == 'until' then
      if functions[#functions] == depth then functions[#functions] = nil end
      depth = depth - 1
    elseif #functions == 0 and t[i].kind == 'name' and t[i - 2] and t[i + 1] and opens[t[i + 1].text] and not is_named(t, i + 1) then
      local name, of, point = t[i].text, t[i - 2].text, t[i - 1].text
      local step = point == ':' and (steps[name] and not own[name] or queued[name] and queue[of])
      local effect = point == '.' and of == 'df' and effects[name]
      local of_plot = point == '.' and plots[name] and (of == 'plot' or name == 'plot' and of == 'df')
      if of_plot and is_statement(t, i) then
        warn(t[i], '`%s` makes a plot that nobody shows: print(df.plot(y)) draws it in the terminal, p:save(path) writes it', name)
      elseif (step or effect) and is_statement(t, i) then
        warn(t[i], effect and '`df.%s` builds an operation that nothing runs: df.run(it), or ' .. effect
          or '`%s` builds an operation that nothing runs: keep it, and df.run(it) as often as it is to happen', name)
      end
    end
  end
end

local constants = { True = 'true', False = 'false', None = 'nil', null = 'nil', undefined = 'nil' }

--- Python's and JavaScript's constants, where nothing of that name was set: nil to Lua.
local function find_constants(t, warn)
  local own, given = times_set(t), parameters(t, 1, #t, true)
  for i = 1, #t do
    local before, after = t[i - 1] and t[i - 1].text, t[i + 1] and t[i + 1].text
    local meant = t[i].kind == 'name' and constants[t[i].text]
    local set = meant and (own[t[i].text] or given[t[i].text] or rawget(_G, t[i].text) ~= nil)      -- at the prompt by a line before it
    local is_label = before == 'goto' or before == '::'
    if meant and not set and not is_label and before ~= '.' and before ~= ':' and after ~= '.' and after ~= '(' then
      warn(t[i], '`%s` is a variable that nobody set, nil: Lua writes %s', t[i].text, meant)
    end
  end
end

--- What a script's text is warned of before it runs, on stderr. Lua has read it: what came through a pipe is gone.
function M.before(path)
  local file = require('dflow.front.quote').open(path)
  local text = file and file:read('*a')
  if file then file:close() end
  if not text or not text:find('%f[%w_]df%f[^%w_]') then return end
  for _, w in ipairs(M.find((text:gsub('^#[^\n]*', '')), true)) do
    io.stderr:write(('%s:%d: warning: %s\n'):format(path, w.line, w.message))
  end
end

--- Conditions of if, elseif, while and until that are Outputs. `named`: names of predicates.
local function find_conditions(t, named, warn)
  for i = 1, #t do
    local word = t[i].text
    if t[i].kind == 'keyword' and (word == 'if' or word == 'elseif' or word == 'while' or word == 'until') then
      local what, evaluated, k = nil, false, i + 1
      while t[k] and not (t[k].kind == 'keyword' and (t[k].text == 'then' or t[k].text == 'do' or t[k].text == 'function'))
            and not (word == 'until' and t[k].line ~= t[i].line) do
        if values[t[k].text] then evaluated = true end
        if is_predicate(t, k) or is_name(t, k, named) then what = what or t[k] end
        k = k + 1
      end
      if what and not evaluated then
        warn(t[i], '`%s` on an Output is decided while the graph is built, and an Output is always true: use cond or while_loop, or run it first', word)
      end
    end
  end
end

--- Comparisons and logic in bodies and branches. Returns the set of places that are in one.
local function find_in_bodies(t, named, warn)
  local inside = {}
  for i = 1, #t - 1 do
    local before = t[i - 1] and t[i - 1].text
    if t[i].kind == 'name' and makers[t[i].text] and (t[i + 1].text == '(' or t[i + 1].text == '{') and before ~= 'function' then
      local last = close_of(t, i + 1)
      for k = i + 2, last do inside[k] = true end
      local names = builders[t[i].text] and parameters(t, i + 1, last) or {}
      for name in pairs(named) do names[name] = true end
      for k = i + 2, last do
        local o = t[k]
        local left, right = is_name(t, k - 1, names) or ends_predicate(t, k - 1), is_name(t, k + 1, names) or begins_predicate(t, k + 1)
        if comparisons[o.text] and o.kind == 'op' and (left or right) then
          local name = is_name(t, k - 1, names) and t[k - 1].text or 'x'
          if not (t[k + 1].text == 'nil' or t[k - 1].text == 'nil') then
            warn(o, '`%s` on an Output is decided while the graph is built: use %s:%s(…)', o.text, name, comparisons[o.text])
          end
        elseif o.kind == 'keyword' and o.text == 'not' and right then
          warn(o, '`not` on an Output is false while the graph is built: use df.logical_not(…)')
        elseif o.kind == 'keyword' and (o.text == 'and' or o.text == 'or') and (left and right or ends_predicate(t, k - 1) and not chosen(t, k - 1)) then
          warn(o, '`%s` on Outputs gives one of them while the graph is built: use df.logical_%s(…)', o.text, o.text)
        end
      end
    end
  end
  return inside
end

--- Comparisons of what is an Output for sure, and choices by a predicate; anywhere but `inside`.
local function find_sure(t, inside, warn)
  local sure = locals_of(t)
  for i = 2, #t - 1 do
    local word, kind = t[i].text, t[i].kind
    if kind == 'op' and comparisons[word] then
      local name = is_name(t, i - 1, sure) and t[i - 1].text or is_name(t, i + 1, sure) and t[i + 1].text
      local other = name and (t[i - 1].text == name and t[i + 1] or t[i - 1])
      if name and other.kind == 'number' then
        warn(t[i], '`%s` on an Output is decided while the graph is built: use %s:%s(…)', word, name, comparisons[word])
      end
    elseif kind == 'keyword' and (word == 'and' or word == 'or') and is_name(t, i - 1, sure) and is_name(t, i + 1, sure) then
      warn(t[i], '`%s` on Outputs gives one of them while the graph is built: use df.logical_%s(…), or df.where(p, a, b)', word, word)
    elseif kind == 'keyword' and word == 'and' and not inside[i] and ends_predicate(t, i - 1) then
      local first = open_of(t, i - 1) - 1
      while t[first - 1] and (t[first - 1].text == ':' or t[first - 1].text == '.') do first = first - 2 end
      local before = t[first - 1]
      if before and (before.text == '=' or before.text == 'return' or before.text == '(' or before.text == ',') and not values[(t[first - 2] or before).text] then
        warn(t[i], '`and` on Outputs gives one of them while the graph is built: use df.where(p, a, b) or cond, and df.logical_and(p, q)')
      end
    end
  end
end

--- Warnings for a text: a list of {line =, message =}, in the order of the lines. `whole`: it is all of a script, and no input of the prompt's.
function M.find(text, whole)
  local t, found, seen = {}, {}, {}
  for _, token in ipairs(lexer.tokens(text)) do if token.kind ~= 'comment' then t[#t + 1] = token end end
  local function warn(token, ...)
    local message = (...):format(select(2, ...))
    local key = token.line .. message
    if not seen[key] then
      seen[key] = true
      found[#found + 1] = { line = token.line, message = message }
    end
  end

  local named = named_predicates(t)
  find_conditions(t, named, warn)
  find_sure(t, find_in_bodies(t, named, warn), warn)
  if whole then find_dropped(t, warn) end
  find_constants(t, warn)
  table.sort(found, function(a, b) if a.line ~= b.line then return a.line < b.line end return a.message < b.message end)
  return found
end

return M
