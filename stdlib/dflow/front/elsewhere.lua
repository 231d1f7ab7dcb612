--- What users of Python or JavaScript write, and how Lua writes it: for errors of Lua's own, where nothing better is
-- known.
local M = {}

-- Patterns of a line, its strings and comments blanked out, and what is said of it; the first one counts.
local ways = {
  { '^%s*#', 'a comment begins with two dashes: -- like this' },
  { '[%w_%)%]}]%s+#%s', 'a comment begins with two dashes: -- like this' },
  { '^%s*//', 'a comment begins with two dashes: -- like this' },
  { '^%s*import%f[%W]', "modules are loaded by local df = require 'dflow'; the program has df already" },
  { '^%s*from%s.-%simport%f[%W]', "modules are loaded by local df = require 'dflow'; the program has df already" },
  { '^%s*def%s', 'a function is written function f(x) return x end' },
  { '%f[%w]lambda%f[%W]', 'a function is written function(x) return x end' },
  { '=>', 'a function is written function(x) return x end' },
  { 'function[^{]-%)%s*{', 'blocks end with `end` and have no braces: function f(x) return x end' },
  { '^%s*class%s', 'Lua has no classes: a table of functions, or a function that calls layers of df.nn' },
  { '^%s*with%s', 'nothing to open: df.run(y) has a session of its own; local s = df.Session() is another' },
  { '^%s*try%s*:', 'errors are caught by pcall: local ok, why = pcall(f, x)' },
  { '^%s*raise%s', 'errors are raised by error("what is wrong")' },
  { '^%s*assert%s', 'assert is a function: assert(x == 3, "no")' },
  { '%f[%w]elif%f[%W]', 'Lua writes elseif x then' },
  { '%f[%w]else%s+if%f[%W]', 'elseif, in one word, needs no `end` of its own' },
  { '^%s*const%s', 'a variable is declared by local x = 1' }, { '^%s*let%s', 'a variable is declared by local x = 1' },
  { '^%s*var%s', 'a variable is declared by local x = 1' },
  { '%[.-%f[%w]for%f[%W].-%f[%w]in%f[%W].-%]',
    'a list is filled by a loop: for i = 1, n do t[i] = i end; in the graph df.map_fn(fn, x)' },
  { '%f[%w_]for%f[^%w_].-:%s', 'blocks are for … do … end, if … then … end, function(x) … end' },
  { '%f[%w]if%f[%W].-:%s', 'blocks are for … do … end, if … then … end, function(x) … end' },
  { '%f[%w]if%f[%W].-:$', 'blocks are for … do … end, if … then … end, function(x) … end' },
  { '%f[%w_]while%f[^%w_].-:%s', 'blocks are for … do … end, if … then … end, function(x) … end' },
  { '%+%+', 'Lua has no ++: x = x + 1' },
  { '&&', 'Lua writes `and`, `or`, `not`; in the graph df.logical_and(p, q)' },
  { '||', 'Lua writes `and`, `or`, `not`; in the graph df.logical_or(p, q)' },
  { '[%w_%]]%[[^%]]*,', 'one index at a time: x[0][1] of an Output; t:at(0, 1) of a Tensor' },
  { '[%w_%]]%[[^%]]*:', 'a part of a tensor is x:slice({1}, {2}), which begins at 1 and has 2 elements, or '
                        .. 'df.strided_slice' },
  { '[%(=,]%s*%[', 'lists are written in braces: {1, 2, 3}' },
  { '{%s*[%w_]+%s*:', 'keys are written {a = 1}' },
  { '^%s*[%a_][%w_]*%s*:%s*[%a_][%w_.]*%s*=', 'Lua has no annotations of types: x = 3' },
  { '[%w_]%([^(){}]-%f[%w_][%a_][%w_]*%s*=[^=]', 'what is named is a table: x:reduce_sum{axis = 0}, f(x, {axis = 0})' },
  { ':[%a_][%w_]*%s+do%f[%W]', 'a method is called with brackets: for x in p:each() do … end' },
}

-- Global names that are nil in Lua, and something elsewhere.
local names = {
  np = 'NumPy is not here: df.constant{1, 2} makes an Output, df.tensor{1, 2} a value',
  tf = 'here it is df: df.constant(1), df.run(y)', torch = 'here it is df: df.ones{3}, df.run(y)',
  keras = 'here it is df.nn and df.train', plt = 'df.plot(list) draws', nn = 'it is df.nn',
    F = 'here it is df: df.relu(x)',
  range = 'for i = 1, 10 do … end counts; df.range(n) is a tensor',
  len = '#t counts the elements of a list; df.dim(x, 0) those of an Output',
  append = 't[#t + 1] = v, or table.insert(t, v)', enumerate = 'for i, v in ipairs(t) do … end',
    zip = 'for i = 1, #a do local x, y = a[i], b[i] … end',
  str = 'tostring(x)', int = 'math.floor(x); of an Output df.cast(x, \'int32\')',
  float = 'x + 0.0; of an Output df.cast(x, \'float32\')', format = '("%d of %d"):format(i, n)',
  f = 'a text with values is ("%d of %d"):format(i, n)', items = 'for key, v in pairs(t) do … end', input = 'io.read()',
  open = 'io.open(path)', isinstance = 'type(x)', join = 'table.concat(list, ", ")', console = 'print(x)',
  log = 'print(x), or math.log(x); of an Output df.log(x)',
  dir = 'Tab behind `df.` lists what is there; at the prompt ?name* the names that begin so',
  help = 'at the prompt ?name shows the help of an op, ?x of a value, :help of the prompt',
    push = 't[#t + 1] = v, or table.insert(t, v)',
}

-- Those of them that are methods there, and are said where one is called.
local methods = { append = true, push = true, items = true, join = true, format = true }

--- The name that is nil in the line's comparison, of which Lua says the types; nil where several could be it. Of a > b
-- Lua says those of b < a.
local function nil_of(message, code)
  local left, right = message:match('attempt to compare (%w+) with (%w+)$')
  if left ~= 'nil' and right ~= 'nil' then return nil end
  local found
  for one, op, other, behind in code:gmatch('([%w_.%)%]}]*)%s*([<>]=?)%s*([%w_.]*)%s*()') do
    local is_left = left == right or (left == 'nil') == (op:sub(1, 1) == '<')
    local name = is_left and one or other
    local is_whole = name:find('^[%a_][%w_.]*$') and (is_left or not code:find('^[(%[{:+*/%%^-]', behind))
    if not is_whole or (found and found ~= name) then return nil end
    if rawget(_G, name) == nil then found = name end
  end
  return found
end

--- What is to be said of Lua's message about a line; nil where there is nothing. `code` is the line without its
-- strings.
function M.says(message, code)
  local verb, of, word = message:match("attempt to (%w+) a nil value %((%w+) '([%w_]+)'%)")
  local is_theirs = of == 'global' or verb == 'call' and methods[word] and (of == 'field' or of == 'method')
  if word and names[word] and is_theirs and not (word == 'f' and not code:find('%f[%w]f%s%s')) then
    return names[word]
  end
  if message:find('attempt to add a \'string\'', 1, true) or (message:find('arithmetic on a string', 1, true)) then
    return "texts are joined by ..: 'a' .. 'b'"
  end
  local number = message:match("attempt to index a number value %(%w+ '([%w_]+)'%)")
  if number then
    return ("'%s' is a number of Lua; what df.run gives of a scalar is one. df.float32(%s) makes an Output, "
            .. "df.tensor(%s) a Tensor"):format(number, number, number)
  end
  local name = nil_of(message, code)
  if name then
    local looping = code:find('while_loop', 1, true)
      and '; while_loop takes functions: while_loop(function(i) return i:lt(3) end, function(i) return i + 1 end, '
          .. '{df.int32(0)})'
    return ("'%s' is nil there%s"):format(name, looping or ': a misspelt name, or one that is not known in this place')
  end
  if message:find('attempt to concatenate a nil', 1, true) then
    return 'something there is nil: a misspelt name, or a function that returned nothing; tostring(x) shows it'
  end
  local module = message:match("module '([%w_.]+)' not found")
  if module and module:lower():find('^d%-?flow') then
    return "the module is called 'dflow', in small letters: local df = require 'dflow'"
  end
  if module and not module:find('.', 1, true) then
    return "there are no modules of Python: what NumPy and TensorFlow have is in df; ?name tells of it at the prompt"
  end
  if message:find('arithmetic on a nil value', 1, true) and code:find('[%w_]%[%s*0%s*%]') then
    return 'lists of Lua begin at 1: t[1]'
  end
  if not (message:find('near', 1, true) or message:find('expected', 1, true)) then return nil end
  for _, way in ipairs(ways) do
    if code:find(way[1]) then return way[2] end
  end
end

return M
