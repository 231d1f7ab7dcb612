--- From Lua to Lua that builds graphs: statements and operators become calls of the runtime (autograph/runtime.lua),
-- token for token in the order of the source, so that every line stays where it was.
--
-- `while c do body end` becomes `__ag:while_(1, function() return c end, function() body end, state)`, where state
-- reads and sets the variables that the body sets and that are read later. A block that is a function returns nothing
-- when it comes to its end, else why not:
-- 'break', 'goto name', 'return' and the values. So what stands behind a statement that may jump is a function, too,
-- which the runtime calls where nothing jumped. What can only be decided by Lua's values (`if x == nil`, `for i = 1,
-- 3`) stays as it is.
local flow = require 'dflow.autograph.flow'

local M = {}
local AG = '__ag'
M.name = AG

local Writer = {}
Writer.__index = Writer

-- ---- text -----------------------------------------------------------------------------------------------------------
local function put(w, text) w.out[#w.out + 1] = text end

--- Copies the source up to, but without, the byte `at`.
local function upto(w, at)
  if at > w.at then
    put(w, w.text:sub(w.at, at - 1))
    w.at = at
  end
end

--- Leaves out the source up to, but without, the byte `at`, except for its ends of lines.
local function leap(w, at)
  put(w, (w.text:sub(w.at, at - 1):gsub('[^\n]', '')))
  w.at = at
end

--- Leaves out a token; the source before it is copied.
local function skip(w, token)
  upto(w, token.first)
  w.at = token.last + 1
end

--- The same, and without the blanks before it.
local function over(w, token)
  if w.text:sub(w.at, token.first - 1):find '^ *$' then w.at = token.first end
  skip(w, token)
end

-- ---- what only Lua can decide ---------------------------------------------------------------------------------------
local lua_results = { type = true, select = true, rawequal = true, next = true, tostring = true, rawlen = true,
                      tonumber = true }

--- Is it never an Output, whatever its parts are?
local function is_lua(e)
  local kind = e.kind
  if kind == 'nil' or kind == 'true' or kind == 'false' or kind == 'number' or kind == 'string' or kind == 'function'
    or kind == 'table' then
    return true
  end
  if kind == 'paren' then return is_lua(e.inner) end
  if kind == 'unary' then return e.op == '#' or is_lua(e.operand) end
  if kind == 'call' then return e.fn.kind == 'name' and e.fn.var.global and lua_results[e.fn.name] or false end
  if kind == 'binary' then
    if e.op == '==' or e.op == '~=' then
      if e.left.kind == 'nil' or e.right.kind == 'nil' then return true end
    end
    if e.op == '..' then return true end
    return is_lua(e.left) and is_lua(e.right)
  end
  return false
end

--- May it be computed where its value is not needed: does it call nothing, read no element and never fail?
local function is_simple(e)
  local kind = e.kind
  if kind == 'call' or kind == 'method' or kind == 'index' or kind == 'function' or kind == 'table'
    or kind == 'vararg' then
    return false
  end
  if kind == 'binary' then
    return e.op ~= '//' and e.op ~= '%' and e.op ~= '..' and is_simple(e.left) and is_simple(e.right)
  end
  if kind == 'unary' then return e.op ~= '#' and is_simple(e.operand) end
  if kind == 'paren' then return is_simple(e.inner) end
  return true
end

--- Is it made of names, numbers, comparisons and logic only?
local function is_bare(e)
  local kind = e.kind
  if kind == 'binary' then
    local logic = e.op == 'and' or e.op == 'or' or e.op:find '^[<>=~]=?$'
    return logic and e.op ~= '~' and is_bare(e.left) and is_bare(e.right) or false
  end
  if kind == 'unary' then return e.op == 'not' and is_bare(e.operand) or e.op == '-' and e.operand.kind == 'number' end
  if kind == 'paren' then return is_bare(e.inner) end
  return kind == 'name' or kind == 'number' or kind == 'true' or kind == 'false' or kind == 'nil'
end

local iterators = { pairs = true, ipairs = true, next = true }

--- A statement that Lua's values alone decide, if nothing inside of it jumps.
local function is_native(s)
  if s.kind == 'if' then
    for _, c in ipairs(s.clauses) do if not is_lua(c.cond) then return false end end
    return true
  elseif s.kind == 'while' or s.kind == 'repeat' then return is_lua(s.cond)
  elseif s.kind == 'fornum' then return is_lua(s.start) and is_lua(s.limit) and (not s.step or is_lua(s.step))
  elseif s.kind == 'forin' then
    local e = s.values[1]
    return e.kind == 'call' and e.fn.kind == 'name' and e.fn.var.global and iterators[e.fn.name] or e.kind == 'method'
      and e.name == 'gmatch'
  end
  return true
end

-- ---- which statements become calls ----------------------------------------------------------------------------------
local prepare

--- Prepares a block; is there a call in it whose jumps leave it?
local function prepare_block(list)
  local escapes = false
  for _, s in ipairs(list) do escapes = prepare(s) or escapes end
  list.regions = {}
  -- `goto continue`: from the first statement that goes there up to the label is one
  for j, label in ipairs(list) do
    if label.kind == 'label' then
      local from
      for i = 1, j - 1 do
        if flow.jumps(list, i, i)['goto ' .. label.label] then
          from = from or i
          if list[i].escapes then list.regions[j] = from end
        elseif from and list[i].escapes then
          list.regions[j] = from
        end
      end
      label.signal = list.regions[j] ~= nil
    end
  end
  return escapes
end

--- Says of a statement whether it is `converted`, a call, and whether it `escapes`: whether something in it jumps out
-- of it that a call has to tell.
function prepare(s)
  local inner = false
  for _, block in ipairs(flow.blocks(s)) do inner = prepare_block(block) or inner end
  if s.kind == 'label' or s.kind == 'goto' or s.kind == 'break' or s.kind == 'return' then return false end
  s.converted = inner or not is_native(s)
  s.escapes = s.converted and next(flow.jumps({ s }, 1, 1)) ~= nil
  return s.escapes
end

-- ---- state ----------------------------------------------------------------------------------------------------------
--- May a variable be read after statements that span first … last, when `live` are read there?
local function is_live(w, var, live, first, last)
  if live[var] or var.global or var.fn ~= w.fn or var.session then return true end
  for fn in pairs(var.captures) do
    if fn.first < first or fn.last > last then return true end
  end
  return false
end

--- The variables list[i … n] set and that are read after list[i], or after list[n], as the runtime is told of them.
local function state_of(w, list, i, n, kind)
  local s = list[i]
  local assigned, rest = flow.assigned(list, i, kind == 'block' and n or i, {}), {}
  local live, done = {}, {}
  flow.add(live, list[kind == 'block' and n or i].live)
  if s.head and kind ~= 'block' then flow.add(live, s.head) end
  local escapes = kind == 'block' or s.escapes
  if escapes then
    flow.assigned(list, i, #list, rest)
    flow.add(done, list.out)
    for _, target in pairs(flow.jumps(list, i, #list)) do flow.add(done, target) end
  end
  local first, last = s.first, list[escapes and #list or i].last
  local info = { kind = kind, line = s.line, names = {}, lines = {}, now = {}, done = {}, assigned = {},
                 after = s.last_line }
  local vars = {}
  for _, set in ipairs{ assigned, rest } do
    for var, lines in pairs(set) do
      info.assigned[var.name] = true
      local outside = not M.declared_in(var, list, i, escapes and #list or i)
      -- those that are not read later are set back: the other branch sees them as they were
      if outside and not vars[var] then
        vars[var] = true
        vars[#vars + 1] = var
        info.lines[var.name] = lines
      end
    end
  end
  table.sort(vars, function(a, b) return a.id < b.id end)
  for k, var in ipairs(vars) do
    info.names[k] = var.name
    info.now[k] = assigned[var] and is_live(w, var, live, first, last) or false
    info.done[k] = escapes and is_live(w, var, done, first, last) or false
  end
  return info
end

--- Is a variable declared in statements list[from … to], or inside of them?
function M.declared_in(var, list, from, to)
  for i = from, to do
    local s = list[i]
    for _, v in ipairs(s.vars or {}) do if v == var then return true end end
    if s.var == var then return true end
    for _, block in ipairs(flow.blocks(s)) do
      if M.declared_in(var, block, 1, #block) then return true end
    end
  end
  return false
end

local function add_info(w, info)
  w.infos[#w.infos + 1] = info
  return #w.infos
end

local function state_text(info)
  local names = table.concat(info.names, ', ')
  if names == '' then return 'nil' end
  return ('function(__set, ...) if __set then %s = ... end return %s end'):format(names, names)
end

-- ---- expressions ----------------------------------------------------------------------------------------------------
local expression, block_from

local function expressions(w, list)
  for _, e in ipairs(list) do expression(w, e) end
end

--- What Lua calls it in a message.
local function described(w, e)
  if e.kind == 'name' then
    local kind = e.var.global and 'global' or e.var.fn == w.fn and 'local' or 'upvalue'
    return (', "%s \'%s\'"'):format(kind, e.name)
  elseif e.kind == 'index' and e.name then
    return (', "field \'%s\'"'):format(e.name)
  end
  return ''
end

local takes_functions = {}
for name in ('cond while_loop map_fn foldl foldr scan case switch_case func lua_func custom_gradient checkpoint '
             .. 'name_scope device colocate_with '
  .. 'control_dependencies variable_scope vmap associative_scan hessian jacobian autograph'):gmatch(
      '%S+') do takes_functions[name] = true end
local plain = {}
for name in ('print type tostring tonumber ipairs pairs select error assert require setmetatable getmetatable rawget '
             .. 'rawequal unpack next'):gmatch('%S+') do
  plain[name] = true
end
local libraries = { math = true, string = true, os = true, io = true, df = true }

--- Can what is called be nothing but a function of Lua's or dflow's own, which takes no functions?
local function is_known(fn)
  if fn.kind == 'name' then return fn.var.global and plain[fn.name] end
  if fn.kind ~= 'index' or not fn.name then return false end
  local object = fn.object
  while object.kind == 'index' and object.name do object = object.object end
  if object.kind ~= 'name' then return false end
  return object.name == 'df' and not takes_functions[fn.name] or object.var.global and libraries[object.name]
    and object.name ~= 'df'
end

--- A function in the source's place that holds one expression.
local function thunk(w, e)
  put(w, 'function() return')
  w.level = w.level + 1
  expression(w, e)
  w.level = w.level - 1
  put(w, ' end')
end

local function arguments(w, e, before)
  if not e.open then                                    -- f'…', f{…}
    upto(w, e.args[1].first)
    if before then put(w, '(' .. before .. ', ') end
    expression(w, e.args[1])
    if before then put(w, ')') end
    return
  end
  if before then
    skip(w, e.open)
    put(w, '(' .. before .. (#e.args > 0 and ', ' or ''))
  end
  expressions(w, e.args)
  upto(w, e.close.last + 1)
end

local writers = {}

function expression(w, e)
  upto(w, e.first)
  local writer = writers[e.kind]
  if writer then writer(w, e) end
  upto(w, e.last + 1)
end

function writers.vararg(w, e)
  if w.level == 0 then return end
  w.at = e.last + 1
  w.varargs = true
  put(w, AG .. '.unpack(__va, 1, __va.n)')
end

function writers.paren(w, e) expression(w, e.inner) end
function writers.index(w, e) flow.inside(e, function(x) expression(w, x) end) end
writers.table = writers.index

writers['function'] = function(w, fn) M.nested(w, fn) end

function writers.call(w, e)
  if e.fn.kind == 'name' and e.fn.var.global and (e.fn.name == 'assert' or e.fn.name == 'error') then
    put(w, ('%s.%s_by('):format(AG, e.fn.name))
    expression(w, e.fn)
    put(w, ')')
  elseif is_known(e.fn) then
    expression(w, e.fn)
  else
    put(w, AG .. ':fn(')
    expression(w, e.fn)
    put(w, described(w, e.fn) .. ')')
  end
  arguments(w, e)
end

function writers.method(w, e)
  if e.object.kind == 'name' then
    put(w, AG .. ':fn(')
    expression(w, e.object)
    skip(w, e.colon)
    put(w, '.')
    upto(w, e.name_token.last + 1)
    put(w, (', "method \'%s\'")'):format(e.name))
    arguments(w, e, e.object.name)
    return
  end
  put(w, AG .. ':method(')
  expression(w, e.object)
  skip(w, e.colon)
  put(w, (', "%s"'):format(e.name))
  leap(w, e.name_token.last + 1)
  if e.open then
    skip(w, e.open)
    if #e.args > 0 then put(w, ', ') end
    expressions(w, e.args)
    upto(w, e.close.last + 1)
  else
    put(w, ', ')
    expression(w, e.args[1])
    put(w, ')')
  end
end

function writers.unary(w, e)
  if e.op ~= 'not' or is_lua(e.operand) then return expression(w, e.operand) end
  skip(w, e.operator)
  put(w, AG .. ':not_(')
  expression(w, e.operand)
  put(w, ')')
end

local compared = { ['=='] = 'eq', ['~='] = 'ne', ['<'] = 'lt', ['<='] = 'le', ['>'] = 'gt', ['>='] = 'ge' }

--- A chain's operands i to j as one expression: `p and x` has all that comes behind it at its right; of others, halves.
local function joined(e, list, operators, i, j)
  if i == j then return list[i] end
  local first = list[i]
  local middle = e.op == 'or' and first.kind == 'binary' and first.op == 'and' and i or i + math.floor((j - i) / 2)
  for k = i + 1, middle do
    if e.op == 'or' and list[k].kind == 'binary' and list[k].op == 'and' then
      middle = k - 1
      break
    end
  end
  local left, right = joined(e, list, operators, i, middle), joined(e, list, operators, middle + 1, j)
  return { kind = 'binary', op = e.op, operator = operators[middle], left = left, right = right, first = left.first,
           last = right.last, line = list[middle + 1].line }
end

--- The same chain of `or` or `and`, whose groups do not matter, as its rewriting wants it. What Lua decides stays.
local function grouped(e)
  if e.op ~= 'or' and e.op ~= 'and' or is_lua(e) then return e end
  local list, operators, n, a = {}, {}, 1, e
  while a.kind == 'binary' and a.op == e.op do n, a = n + 1, a.left end
  list[1], a = a, e
  for k = n, 2, -1 do list[k], operators[k - 1], a = a.right, a.operator, a.left end
  return joined(e, list, operators, 1, n)
end

function writers.binary(w, e)
  e = grouped(e)
  local name = compared[e.op]
  if name and not is_lua(e) then
    put(w, AG .. ':' .. name .. '(')
    expression(w, e.left)
    over(w, e.operator)
    put(w, ',')
    expression(w, e.right)
    put(w, ')')
  elseif e.op == 'or' and e.left.kind == 'binary' and e.left.op == 'and' and not is_lua(e.left.left) then
    put(w, AG .. ':choose(')
    expression(w, e.left.left)
    over(w, e.left.operator)
    put(w, ', ')
    thunk(w, e.left.right)
    over(w, e.operator)
    put(w, ', ')
    thunk(w, e.right)
    put(w, is_simple(e.left.right) and is_simple(e.right) and ', true)' or ')')
  elseif (e.op == 'and' or e.op == 'or') and not is_lua(e.left) then
    put(w, ('%s:%s_('):format(AG, e.op))
    expression(w, e.left)
    over(w, e.operator)
    put(w, ', ')
    thunk(w, e.right)
    put(w, is_simple(e.right) and ', true)' or ')')
  else
    expression(w, e.left)
    expression(w, e.right)
  end
end

-- ---- statements -----------------------------------------------------------------------------------------------------
local statement_writers = {}

--- Is a table that the expression makes new?
local function fresh(w, e)
  local setting = e.kind == 'call' and e.fn.kind == 'name' and e.fn.name == 'setmetatable' and e.args[1]
  if e.kind == 'table' then
    upto(w, e.first)
    put(w, AG .. ':new(')
    expression(w, e)
    put(w, ')')
  elseif setting and setting.kind == 'table' then
    upto(w, e.first)
    put(w, AG .. ':new(')
    expression(w, e)
    put(w, ')')
  else
    expression(w, e)
  end
end

statement_writers['local'] = function(w, s)
  for _, e in ipairs(s.values) do fresh(w, e) end
end

function statement_writers.localfunction(w, s) M.nested(w, s.fn) end

--- What a function sets that is not its own is none of the variables that a loop around its call goes on with.
local function check_free(w, var)
  if not w.fn.chunk and (var.global or var.fn ~= w.fn) then put(w, ("%s:free('%s') "):format(AG, var.name)) end
end

statement_writers['function'] = function(w, s)
  if s.target.kind == 'name' then check_free(w, s.target.var) end
  M.nested(w, s.fn)
end

function statement_writers.assign(w, s)
  for _, t in ipairs(s.targets) do
    if t.kind == 'name' then check_free(w, t.var) end
  end
  for _, t in ipairs(s.targets) do
    if t.kind == 'index' and not (w.fn.chunk and w.level == 0) then
      upto(w, t.first)
      put(w, AG .. ':own(')
      expression(w, t.object)
      put(w, described(w, t.object) .. ')')
      if t.key then expression(w, t.key) end
      upto(w, t.last + 1)
    else
      expression(w, t)
    end
  end
  upto(w, s.equals.last + 1)
  for _, e in ipairs(s.values) do fresh(w, e) end
end

function statement_writers.callstat(w, s) expression(w, s.call) end

statement_writers['return'] = function(w, s)
  if w.level > 0 then
    skip(w, s.keyword)
    put(w, "return 'return'" .. (#s.values > 0 and ', ' or ''))
  end
  for _, e in ipairs(s.values) do fresh(w, e) end
end

local function replace(w, s, text)
  upto(w, s.first)
  leap(w, s.last + 1)
  put(w, text)
end

statement_writers['break'] = function(w, s)
  if not w.native_loop then replace(w, s, "do return 'break' end") end
end

statement_writers['goto'] = function(w, s)
  local label = w.labels[s.label]
  if label and label.signal then return replace(w, s, ("do return 'goto %s' end"):format(s.label)) end
  if not label or label.level ~= w.level then
    w.failure = w.failure or { line = s.line,
                               message = ("`goto %s` goes back, or out of a statement that an Output may decide: "
                                          .. "write a loop"):format(s.label) }
  end
end

function statement_writers.label(w, s)
  if s.signal then replace(w, s, '') end
end

--- A block inside of a statement that stays as it is.
local function inside(w, list)
  block_from(w, list, 1, #list)
end

local function native_loop(w, list)
  local before = w.native_loop
  w.native_loop = true
  inside(w, list)
  w.native_loop = before
end

statement_writers['do'] = function(w, s) inside(w, s.body) end

statement_writers['while'] = function(w, s)
  expression(w, s.cond)
  native_loop(w, s.body)
end

statement_writers['repeat'] = function(w, s)
  native_loop(w, s.body)
  expression(w, s.cond)
end

function statement_writers.fornum(w, s)
  expression(w, s.start)
  expression(w, s.limit)
  if s.step then expression(w, s.step) end
  native_loop(w, s.body)
end

function statement_writers.forin(w, s)
  expressions(w, s.values)
  native_loop(w, s.body)
end

statement_writers['if'] = function(w, s)
  for _, c in ipairs(s.clauses) do
    expression(w, c.cond)
    inside(w, c.body)
  end
  if s.orelse then inside(w, s.orelse) end
end

-- ---- statements as calls --------------------------------------------------------------------------------------------
--- The block list[from … to] as what is inside of `function() … end`. `tail()` writes what comes after it.
local function closure(w, list, from, to, tail)
  local native = w.native_loop
  w.level, w.native_loop = w.level + 1, false
  block_from(w, list, from, to, tail)
  w.level, w.native_loop = w.level - 1, native
end

local calls = {}

calls['while'] = function(w, s, k)
  skip(w, s.keyword)
  put(w, ('%s:while_(%d, function() return'):format(AG, k))
  w.level = w.level + 1
  expression(w, s.cond)
  w.level = w.level - 1
  over(w, s.open)
  put(w, ' end, function()')
  closure(w, s.body, 1, #s.body)
  upto(w, s.stop.last + 1)
  w.infos[k].simple = is_simple(s.cond)
  w.infos[k].bare = is_bare(s.cond)
  w.infos[k].forever = flow.is_forever(s)
end

calls['repeat'] = function(w, s, k)
  skip(w, s.keyword)
  put(w, ('%s:repeat_(%d, function()'):format(AG, k))
  closure(w, s.body, 1, #s.body, function()
    if #s.body > 0 and s.body[#s.body].kind == 'return' then return leap(w, s.cond.last + 1) end
    skip(w, s.stop)
    put(w, "return 'until',")
    expression(w, s.cond)
  end)
  put(w, ' end')
end

function calls.fornum(w, s, k)
  skip(w, s.keyword)
  put(w, ('%s:for_(%d,'):format(AG, k))
  leap(w, s.start.first)
  expression(w, s.start)
  expression(w, s.limit)
  if s.step then expression(w, s.step) else put(w, ', nil') end
  over(w, s.open)
  put(w, (', function(%s)'):format(s.names[1].text))
  closure(w, s.body, 1, #s.body)
  upto(w, s.stop.last + 1)
  w.infos[k].variable = s.names[1].text
end

function calls.forin(w, s, k)
  local names = {}
  for i, name in ipairs(s.names) do names[i] = name.text end
  skip(w, s.keyword)
  put(w, ('%s:in_(%d, %s.pack('):format(AG, k, AG))
  leap(w, s.values[1].first)
  expressions(w, s.values)
  over(w, s.open)
  put(w, ('), function(%s)'):format(table.concat(names, ', ')))
  closure(w, s.body, 1, #s.body)
  upto(w, s.stop.last + 1)
end

calls['do'] = function(w, s, k)
  upto(w, s.first)
  w.at = s.first + #'do'
  put(w, ('%s:block_(%d, function()'):format(AG, k))
  closure(w, s.body, 1, #s.body)
  upto(w, s.stop.last + 1)
end

--- Is the other side of the i-th condition always left by a jump?
local function else_jumps(s, i)
  local jumps = s.orelse ~= nil and flow.always_jumps(s.orelse)
  for j = i + 1, #s.clauses do jumps = jumps and flow.always_jumps(s.clauses[j].body) end
  return jumps
end

--- An if is closed by its caller: `nested` is the text that closes what its `elseif`s opened.
calls['if'] = function(w, s, k, state)
  local nested = ''
  w.infos[k].else_jumps = else_jumps(s, 1)
  local body = s.clauses[1].body
  w.infos[k].only_jumps = #s.clauses == 1 and not s.orelse and #body == 1
    and (body[1].kind == 'break' or body[1].kind == 'goto')
  for i, c in ipairs(s.clauses) do
    local info = k
    if i > 1 then
      local own = {}
      for key, v in pairs(w.infos[k]) do own[key] = v end
      own.line, own.else_jumps = c.keyword.line, else_jumps(s, i)
      info = add_info(w, own)
    end
    w.infos[info].chained = i < #s.clauses
    skip(w, c.keyword)
    local first = i == 1 and '' or w.infos[k].escapes and ' end, function(__rest) return __ag.up('
      or ' end, function() '
    put(w, ('%s%s:if_(%d,'):format(first, AG, info))
    if i > 1 then w.level = w.level + 1 end
    expression(w, c.cond)
    over(w, c.open)
    put(w, ', function()')
    closure(w, c.body, 1, #c.body)
    if i > 1 then nested = (w.infos[k].escapes and ', %s, __rest)) end' or ', %s) end'):format(state) .. nested end
  end
  if s.orelse then
    skip(w, s.otherwise)
    put(w, ' end, function()')
    closure(w, s.orelse, 1, #s.orelse)
    upto(w, s.stop.last + 1)
  else
    upto(w, s.stop.last + 1)
    put(w, ', nil')
  end
  w.level = w.level - (#s.clauses - 1)
  put(w, nested)
end

--- list[i … n] as a call, and what comes after it up to `to` and `tail` in it when it may jump. True when nothing is
-- left to be written.
local function call(w, list, i, n, kind, to, tail)
  local s = list[i]
  local escapes = kind == 'block' or s.escapes
  local info = state_of(w, list, i, n, kind)
  info.escapes = escapes
  if kind ~= 'block' then
    info.codes = {}
    for code in pairs(flow.jumps(list, i, i)) do info.codes[#info.codes + 1] = code end
    table.sort(info.codes)
    info.breaks = s.body and flow.jumps(s.body, 1, #s.body)['break'] ~= nil
  end
  local k = add_info(w, info)
  local state = state_text(info)
  upto(w, s.first)
  if escapes then put(w, w.level == 0 and ('return %s:result(%d, '):format(AG, k) or ('return %s.up('):format(AG)) end
  if kind == 'block' then
    info.label = 'goto ' .. list[n + 1].label
    put(w, ('%s:block_(%d, function() '):format(AG, k))
    closure(w, list, i, n)
    put(w, ' end')
  else
    calls[kind](w, s, k, state)
  end
  put(w, ', ' .. state)
  local more = escapes and (n < to or tail)
  if more then
    put(w, ', function()')
    closure(w, list, n + 1, to, tail)
    put(w, ' end')
  end
  put(w, escapes and '))' or ')')
  return escapes
end

--- Writes statements list[from … to] and tail().
function block_from(w, list, from, to, tail)
  local labels = w.labels
  w.labels = setmetatable({}, { __index = labels })
  for i = from, #list do
    local s = list[i]
    if s.kind == 'label' then w.labels[s.label] = { signal = s.signal, level = w.level } end
  end
  local i = from
  while i <= to do
    local s, finished, region = list[i], false, nil
    for j, first in pairs(list.regions) do
      if first == i and j - 1 <= to and not (region and region > j) then region = j end
    end
    if region and not list[region].written then
      list[region].written = true
      finished = call(w, list, i, region - 1, 'block', to, tail)
    elseif s.converted and statement_writers[s.kind] and calls[s.kind] then
      finished = call(w, list, i, i, s.kind, to, tail)
    else
      upto(w, s.first)
      statement_writers[s.kind](w, s)
      upto(w, s.last + 1)
    end
    w.labels = finished and labels or w.labels
    if finished then return end
    i = i + 1
  end
  w.labels = labels
  if tail then tail() end
end

-- ---- functions ------------------------------------------------------------------------------------------------------
local function function_body(w, fn)
  local outer = { w.fn, w.level, w.labels, w.native_loop, w.varargs }
  flow.analyse(fn)
  prepare_block(fn.body)
  w.fn, w.level, w.labels, w.native_loop, w.varargs = fn, 0, {}, true, false
  local at = #w.out + 1
  put(w, '')
  block_from(w, fn.body, 1, #fn.body)
  if w.varargs then w.out[at] = (' local __va = %s.pack(...)'):format(AG) end
  w.fn, w.level, w.labels, w.native_loop, w.varargs = outer[1], outer[2], outer[3], outer[4], outer[5]
end

--- A function in the source's text.
function M.nested(w, fn)
  upto(w, fn.close.last + 1)
  function_body(w, fn)
  upto(w, fn.last + 1)
end

local function writer(text, at)
  return setmetatable({ text = text, at = at, out = {}, infos = {}, level = 0, labels = {}, native_loop = true },
                      Writer)
end

--- A function of a parsed text as an expression; what the runtime has to know of its statements; nil and {line,
-- message} where it cannot be.
function M.fn(tree, fn)
  local w = writer(tree.text, fn.open.first)
  put(w, 'function')
  if fn.is_method then
    skip(w, fn.open)
    put(w, #fn.params > 1 and '(self, ' or '(self')
    if fn.vararg and #fn.params == 1 then put(w, ', ') end
  end
  M.nested(w, fn)
  if w.failure then return nil, w.failure end
  return table.concat(w.out), w.infos
end

--- A whole text.
function M.chunk(tree)
  local w = writer(tree.text, 1)
  function_body(w, tree)
  upto(w, #tree.text + 1)
  if w.failure then return nil, w.failure end
  return table.concat(w.out), w.infos
end

return M
