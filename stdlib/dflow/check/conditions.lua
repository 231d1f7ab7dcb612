--- Lua source in which an Output seems to be taken for a Lua boolean: what no running program can see, found in the
-- text.
--
-- `if x:gt(0) then` is always taken, `i == 3` is always false, `not p` too, and `p and q` is q: an Output is a table to
-- Lua. Looked at are conditions that hold a comparison which builds a node, and, in the functions that are given to
-- cond, while_loop and their like, comparisons and logic on the functions' parameters and on comparisons; anywhere,
-- comparisons of what is a local that holds an Output and nothing else, and `x:gt(0) and a or b`. At the prompt the
-- values that earlier inputs gave their names count, too. In whole scripts also steps that are built and never run:
-- `v:assign(3)` as a statement outside of functions, `df.print(x)`, `q:enqueue(v)`; and names that nothing sets.
-- Everywhere a list taken for several values, a function of df that is called with a colon, a list of layers that is
-- called, a number that a body counts on. It is a search in the syntax tree, not a proof: it says nothing where it is
-- not sure.
local parser = require 'dflow.autograph.parser'
local flow = require 'dflow.autograph.flow'

local M = {}

local function set(words)
  local s = {}
  for word in words:gmatch('%S+') do s[word] = true end
  return s
end

--- Methods and functions whose result is a bool Output.
local predicates = set('lt le gt ge eq ne less less_equal greater greater_equal equal not_equal logical_and logical_or '
                       .. 'logical_not logical_xor')
--- What turns an Output into a Lua value.
local values = set 'run eval item totable rawequal wait tostring type'
--- Functions that call the functions they are given with Outputs.
local builders = set 'while_loop map_fn scan foldl foldr'
local makers = set 'while_loop cond map_fn scan foldl foldr case switch_case'
--- Calls that give an Output or a Variable, whatever they are given; and methods that build what has to be run.
local outputs = set('placeholder constant Variable get_variable float32 float64 int32 int64 zeros ones fill '
                    .. 'random_normal random_uniform')
local steps = set 'assign assign_add assign_sub minimize apply_gradients scatter_update'
--- Functions of df whose effect is all that a statement can want of them; methods of a queue.
local effects = { print = 'go on with what it gives, y = df.print(x)',
                  assert = 'df.control_dependencies({a}, fn), which builds what waits for it' }
--- Kinds of plots, which are made and not shown.
local plots = set 'plot line scatter histogram heatmap image'
local queued = set 'enqueue enqueue_many'
local comparisons = { ['=='] = 'eq', ['~='] = 'ne' }

-- ---- the tree -------------------------------------------------------------------------------------------------------
--- The name by which a call finds what it calls: `gt` of `x:gt(0)`, `less` of `df.less(x, y)`.
local function called(e)
  if e.kind == 'method' then return e.name end
  return e.kind == 'call' and e.fn.name or nil
end

--- Is it a call of a predicate, with arguments in brackets?
local function is_predicate(e)
  return (e.kind == 'method' or e.kind == 'call' and e.fn.kind == 'index') and e.open ~= nil and predicates[called(e)]
    or false
end

--- Calls visit(e) for e and all expressions in it; those in functions inside only with `deep`, by their statements.
local each_in_block
local function each_in(e, visit, deep)
  visit(e)
  if e.kind == 'function' then
    if deep then each_in_block(e.body, visit, deep) end
  else
    flow.inside(e, function(x) each_in(x, visit, deep) end)
  end
end

--- The expressions of a statement, but for those of its blocks.
local function expressions_of(s)
  local list = {}
  local function add(e) if e then list[#list + 1] = e end end
  for _, e in ipairs(s.values or {}) do add(e) end
  for _, t in ipairs(s.targets or {}) do if t.kind ~= 'name' then add(t) end end
  for _, c in ipairs(s.clauses or {}) do add(c.cond) end
  if s.target and s.target.kind ~= 'name' then add(s.target) end
  for _, key in ipairs{ 'call', 'cond', 'start', 'limit', 'step', 'fn' } do add(s[key]) end
  return list
end

--- Calls visit(s) for each statement of a block and of the blocks in it.
local function each_statement(list, visit)
  for _, s in ipairs(list) do
    visit(s)
    for _, block in ipairs(flow.blocks(s)) do each_statement(block, visit) end
  end
end

function each_in_block(list, visit, deep)
  each_statement(list, function(s)
    for _, e in ipairs(expressions_of(s)) do each_in(e, visit, deep) end
  end)
end

--- Calls visit(e) for every expression of a chunk, and visit_statement(s) for every statement.
local function everywhere(tree, visit, visit_statement)
  if visit then each_in_block(tree.body, visit, true) end
  if visit_statement then
    each_statement(tree.body, visit_statement)
    for _, fn in ipairs(tree.functions) do each_statement(fn.body, visit_statement) end
  end
end

-- ---- what is known of variables -------------------------------------------------------------------------------------
--- Does the expression give an Output, as a call of its own?
local function gives_output(e)
  if e.kind ~= 'call' or not outputs[called(e)] then return false end
  return e.fn.kind == 'name' or e.fn.object.kind == 'name' and e.fn.object.name == 'df'
end

--- Calls visit(var, value) for each variable that a statement sets; the value is nil where it is not an expression of
-- its own.
local function each_set(tree, visit)
  everywhere(tree, nil, function(s)
    local list = s.kind == 'local' and s.vars or s.kind == 'assign' and s.targets or {}
    for i, v in ipairs(list) do
      local var = s.kind == 'local' and v or v.var
      if var then visit(var, s.values[i], #s.values > 0 or s.kind == 'assign') end
    end
    if s.kind == 'localfunction' then visit(s.var, s.fn, true) end
    if s.kind == 'function' and s.target.kind == 'name' then visit(s.target.var, s.fn, true) end
  end)
end

--- Variables that are given predicates and nothing else, and those that are given one Output and never set again.
local function known_variables(tree, value_of)
  local given, times, one = {}, {}, {}
  each_set(tree, function(var, value, valued)
    if not valued then return end
    times[var] = (times[var] or 0) + 1
    if value and is_predicate(value) then given[var] = (given[var] or 0) + 1 end
    if value and gives_output(value) and not var.global then one[var] = true end
  end)
  local named, sure, bound = {}, {}, {}
  for _, fn in ipairs(tree.functions) do
    for _, var in ipairs(fn.params) do bound[var] = true end
  end
  for var, n in pairs(given) do if n == times[var] and not bound[var] then named[var] = true end end
  for var in pairs(one) do if times[var] == 1 then sure[var] = true end end
  for name, var in pairs(tree.globals) do
    local mt = value_of and not times[var] and getmetatable(value_of(name))
    local kind = type(mt) == 'table' and rawget(mt, '__name')
    if kind == 'dflow.Output' or kind == 'dflow.Variable' then
      sure[var] = true
      if value_of(name).dtype == 'bool' then named[var] = true end
    end
  end
  return named, sure
end

--- Is it one of these variables, an element of one, or what a method of one or an operator on one gives?
local function is_of(e, vars)
  if e.kind == 'name' then return vars[e.var] or false end
  if e.kind == 'paren' then return is_of(e.inner, vars) end
  if e.kind == 'index' then return not e.name and is_of(e.object, vars) end
  if e.kind == 'method' then return not values[e.name] and is_of(e.object, vars) end
  return e.kind == 'binary' and e.op:find '^[-+*/%%^]' ~= nil and (is_of(e.left, vars) or is_of(e.right, vars))
end

local function is_name(e, vars) return e.kind == 'name' and vars[e.var] or false end

--- Is it a predicate, or logic of predicates?
local function is_logic(e)
  if e.kind == 'paren' then return is_logic(e.inner) end
  if e.kind == 'binary' and (e.op == 'and' or e.op == 'or') then
    return is_logic(e.left) and (e.op == 'or' or is_logic(e.right))
  end
  return is_predicate(e)
end

--- The operand that stands beside an operator.
local function beside(e, right)
  while e.kind == 'binary' do e = right and e.right or e.left end
  return e
end

-- ---- what is looked for ---------------------------------------------------------------------------------------------
--- Conditions of if, elseif, while and until that are Outputs.
local function find_conditions(tree, named, warn)
  local function look(line, word, cond)
    local what, evaluated, parts = false, false, {}
    each_in(cond, function(e)
      -- a field of it is something else
      if e.kind == 'index' or e.kind == 'method' or e.kind == 'call' then parts[e.object or e.fn] = true end
      if is_predicate(e) or is_name(e, named) and not parts[e] then what = true end
      if values[e.name or ''] then evaluated = true end
    end)
    local inner = cond
    while inner.kind == 'paren' do inner = inner.inner end
    local compares_nil = inner.kind == 'binary' and comparisons[inner.op]
      and (inner.left.kind == 'nil' or inner.right.kind == 'nil')
    if what and not evaluated and not compares_nil then
      warn(line, '`%s` on an Output is decided while the graph is built, and an Output is always true: use cond or '
                 .. 'while_loop, or run it first', word)
    end
  end
  everywhere(tree, nil, function(s)
    for i, c in ipairs(s.clauses or {}) do look(c.keyword.line, i == 1 and 'if' or 'elseif', c.cond) end
    if s.kind == 'while' then look(s.line, 'while', s.cond) end
    if s.kind == 'repeat' then look(s.stop.line, 'until', s.cond) end
  end)
end

--- Comparisons and logic in bodies and branches. Returns the set of expressions that are in one.
local function find_in_bodies(tree, named, warn)
  local inside = {}
  everywhere(tree, function(maker)
    if maker.kind ~= 'call' or not makers[called(maker)] then return end
    local names = {}
    for var in pairs(named) do names[var] = true end
    local function parameters(e)
      for _, var in ipairs(e.kind == 'function' and not e.of_values and e.params or {}) do names[var] = true end
    end
    for _, argument in ipairs(maker.args) do
      each_in(argument, function(e)
        inside[e] = true
        if called(e) == 'lua_func' then for _, a in ipairs(e.args) do a.of_values = true end end
        if builders[called(maker)] then parameters(e) end
      end, true)
    end
    local function look(e)
      if e.kind == 'unary' and e.op == 'not' then
        if is_name(e.operand, names) or is_predicate(e.operand) then
          warn(e.line, '`not` on an Output is false while the graph is built: use df.logical_not(…)')
        end
      elseif e.kind == 'binary' then
        local a, b = beside(e.left, true), beside(e.right, false)
        local left, right = is_name(a, names) or is_predicate(a), is_name(b, names) or is_predicate(b)
        if comparisons[e.op] and (left or right) and a.kind ~= 'nil' and b.kind ~= 'nil' then
          warn(e.line, '`%s` on an Output is decided while the graph is built: use %s:%s(…)', e.op, is_name(a, names)
               and a.name or 'x', comparisons[e.op])
        elseif (e.op == 'and' or e.op == 'or') and (left and right or is_logic(e.left)) then
          warn(e.line, '`%s` on Outputs gives one of them while the graph is built: use df.logical_%s(…)', e.op, e.op)
        end
      end
    end
    for _, argument in ipairs(maker.args) do each_in(argument, look, true) end
  end)
  return inside
end

--- Numbers of Lua that a body or branch counts on, `n = n - 1`: it is called once, to build the graph.
local function find_counters(tree, warn)
  local number = {}
  each_set(tree, function(var, value) if value and value.kind == 'number' then number[var] = true end end)
  local function look(fn)
    local own = {}
    for _, var in ipairs(fn.params) do own[var] = true end
    each_statement(fn.body, function(s)
      for _, var in ipairs(s.kind == 'local' and s.vars or {}) do own[var] = true end
      for i, t in ipairs(s.kind == 'assign' and s.targets or {}) do
        local v = t.kind == 'name' and number[t.var] and not own[t.var] and s.values[i]
        if v and v.kind == 'binary' and v.left.kind == 'name' and v.left.var == t.var and v.right.kind == 'number' then
          warn(t.line, '`%s` is counted once, while the graph is built: what changes in a run is a loop variable or a '
                       .. 'df.Variable', t.name)
        end
      end
    end)
  end
  everywhere(tree, function(e)
    if (e.kind ~= 'call' and e.kind ~= 'method') or not makers[called(e)] then return end
    for _, a in ipairs(e.args) do if a.kind == 'function' then look(a) end end
  end)
end

--- Comparisons of what is an Output for sure, and choices by a predicate; anywhere but `inside`. `earlier`: names that
-- earlier inputs gave.
local function find_sure(tree, inside, named, sure, warn)
  local conditions, evaluated = {}, {}
  everywhere(tree, nil, function(s)
    local list = { s.cond }
    for _, c in ipairs(s.clauses or {}) do list[#list + 1] = c.cond end
    for _, cond in ipairs(list) do each_in(cond, function(e) conditions[e] = true end) end
  end)
  everywhere(tree, function(e)
    local name = e.kind == 'call' and called(e)
    if name and values[name] then for _, a in ipairs(e.args) do evaluated[a] = true end end
    if e.kind == 'unary' and e.op == 'not' and not inside[e] and not conditions[e] and not evaluated[e]
    and (is_name(e.operand, sure) or is_predicate(e.operand)) then
      warn(e.line, '`not` on an Output is false while the graph is built: use df.logical_not(…)')
    end
    if e.kind ~= 'binary' then return end
    local a, b = beside(e.left, true), beside(e.right, false)
    if comparisons[e.op] then
      local which, other = e.left, e.right
      if not is_of(which, sure) then which, other = other, which end
      if is_of(which, sure) and other.kind == 'number' then
        warn(e.line, '`%s` on an Output is decided while the graph is built: use %s:%s(…)', e.op, which.name
             and which.kind == 'name' and which.name or 'x', comparisons[e.op])
      end
    elseif (e.op == 'and' or e.op == 'or') and is_name(a, sure) and is_name(b, sure) then
      warn(e.line, '`%s` on Outputs gives one of them while the graph is built: use df.logical_%s(…), or df.where(p, '
                   .. 'a, b)', e.op, e.op)
    elseif e.op == 'and' and not inside[e] and not conditions[e] and not evaluated[e]
    and (is_predicate(e.left) or is_name(e.left, named) or is_name(e.left, sure)) then
      warn(e.line, '`and` on Outputs gives one of them while the graph is built: use df.where(p, a, b) or cond, and '
                   .. 'df.logical_and(p, q)')
    end
  end)
end

--- Methods that the text itself defines: `function Map:assign(`, `Map.assign = function`.
local function own_methods(tree)
  local names = {}
  everywhere(tree, function(e)
    for _, item in ipairs(e.kind == 'table' and e.items or {}) do
      if item.name and item.value.kind == 'function' then names[item.name] = true end
    end
  end, function(s)
    if s.kind == 'function' and s.target.kind == 'index' then names[s.target.name] = true end
    if s.kind == 'function' and s.target.kind == 'name' or s.kind == 'localfunction' then
      names[s.target and s.target.name or s.var.name] = true
    end
    for i, t in ipairs(s.kind == 'assign' and s.targets or {}) do
      if t.name and s.values[i] and s.values[i].kind == 'function' then names[t.name] = true end
    end
  end)
  return names
end

--- Does the call give its node a name, by which it can be run?
local function is_named(call)
  local found = false
  for _, argument in ipairs(call.args) do
    each_in(argument, function(e)
      for _, item in ipairs(e.kind == 'table' and e.items or {}) do found = found or item.name == 'name' end
    end, true)
  end
  return found
end

--- Statements outside of functions that build a step and drop it.
local function find_dropped(tree, warn)
  local own, queue = own_methods(tree), {}
  each_set(tree, function(var, value)
    if value and value.kind == 'call' and value.fn.kind == 'index' and (value.fn.name or ''):find 'Queue$' then
      queue[var] = true
    end
  end)
  each_statement(tree.body, function(s)
    local e = s.kind == 'callstat' and s.call
    if not e or is_named(e) then return end
    local name, line = called(e), e.kind == 'method' and e.name_token.line or e.fn.line
    local object = e.object or e.fn.object
    local of = object and (object.kind == 'name' and object.name or object.kind == 'index' and object.name)
    local step = e.kind == 'method' and (steps[name] and not own[name] or queued[name] and object.kind == 'name'
                                         and queue[object.var])
    local effect = e.kind == 'call' and e.fn.kind == 'index' and of == 'df' and effects[name]
    local of_plot = e.kind == 'call' and e.fn.kind == 'index' and plots[name]
    and (of == 'plot' or name == 'plot' and of == 'df')
    if of_plot then
      warn(line, '`%s` makes a plot that nobody shows: print(df.plot(y)) draws it in the terminal, p:save(path) '
                 .. 'writes it', name)
    elseif step or effect then
      warn(line, effect and '`df.%s` builds an operation that nothing runs: df.run(it), or ' .. effect
        or '`%s` builds an operation that nothing runs: keep it, and df.run(it) as often as it is to happen', name)
    end
  end)
end

-- Functions of df that give one list for a list, and which argument that is.
local listing = { gradients = 2, jacobian = 2, hessian = 2, hvp = 2, run = 1 }

--- A list where several values are wanted, `local gx, gw = gradients(y, {x, w})`; a method of df; and a call of a list
-- of layers.
local function find_lists(tree, warn)
  local function of_list(e, wanted)
    local at = e and wanted > 1 and (e.kind == 'call' or e.kind == 'method') and listing[called(e)]
    local list = at and e.args[at]
    if not list or list.kind ~= 'table' or #list.items < 2 then return end
    for _, item in ipairs(list.items) do if item.name or item.key then return end end
    warn(e.line, '`%s` gives one list for a list, and the first variable takes all of it: write = df.unpack(…) around '
                 .. 'the call', called(e))
  end
  local times, layers = {}, {}
  each_set(tree, function(var, value)
    times[var] = (times[var] or 0) + 1
    local items = value and value.kind == 'table' and value.items or {}
    local all = #items > 0
    for _, item in ipairs(items) do
      all = all and not item.name and not item.key and item.value.kind == 'call'
      and (called(item.value) or ''):find '^%u' ~= nil
    end
    layers[var] = all or nil
  end)
  everywhere(tree, function(e)
    if e.kind == 'method' and e.object.kind == 'name' and e.object.name == 'df' then
      warn(e.line, 'the functions of df are called with a point: df.%s(…)', e.name)
    elseif e.kind == 'call' and e.fn.kind == 'name' and layers[e.fn.var] and times[e.fn.var] == 1 then
      warn(e.line, '`%s` is a list of layers, which cannot be called: df.nn.Sequential{l1, l2} makes one layer of them',
           e.fn.name)
    end
  end, function(s)
    local targets = s.kind == 'local' and s.vars or s.kind == 'assign' and s.targets
    if targets then of_list(s.values[#s.values], #targets - #s.values + 1) end
  end)
end

local constants = { True = 'true', False = 'false', None = 'nil', null = 'nil', undefined = 'nil' }
local loaders = set 'dofile loadfile load loadstring setfenv getfenv _ENV _G module'

--- Names that nothing sets: constants of Python and JavaScript; and, where all of the text is known to Lua, what stands
-- as a value.
local function find_unset(tree, warn, value_of, whole)
  local times, passed, closed = {}, {}, true
  each_set(tree, function(var) times[var] = true end)
  for name in pairs(tree.globals) do if loaders[name] then closed = false end end
  everywhere(tree, function(e)
    if e.kind == 'index' or e.kind == 'call' or e.kind == 'method' then
      passed[e.object or e.fn] = e.kind == 'index' and e.key == nil or e.kind == 'call'
    end
    if e.kind == 'call' and called(e) == 'require' and whole then
      local module = e.args[1] and e.args[1].kind == 'string' and tree.text:sub(e.args[1].first + 1, e.args[1].last - 1)
      if not (module and module:find '^dflow') then closed = false end         -- it may set globals
    end
  end)
  local function is_set(var)
    return not var.global or times[var] or rawget(_G, var.name) ~= nil or value_of and value_of(var.name) ~= nil
  end
  local function look(e, value)
    if e.kind ~= 'name' or is_set(e.var) or passed[e] then return end
    if constants[e.name] then
      warn(e.line, '`%s` is a variable that nobody set, nil: Lua writes %s', e.name, constants[e.name])
    elseif value and closed then
      warn(e.line, '`%s` is a variable that nothing sets: nil', e.name)
    end
  end
  everywhere(tree, look)
  -- where nil is hardly meant: arguments, what is listed in them, and operands
  local function look_for_values(e)
    if e.kind == 'call' or e.kind == 'method' then
      for _, a in ipairs(e.args) do
        for _, item in ipairs(a.kind == 'table' and a.items or {}) do
          if not item.name and not item.key then look(item.value, true) end
        end
      end
    end
    if (e.kind == 'call' or e.kind == 'method') and not values[called(e)] and called(e) ~= 'print' then
      for _, a in ipairs(e.args) do look(a, true) end
    elseif e.kind == 'binary' and e.op:find '^[-+*/^%%]' then
      look(e.left, true)
      look(e.right, true)
    end
  end
  if whole then everywhere(tree, look_for_values)
  -- a function may wait for what is typed later
  elseif value_of then each_in_block(tree.body, look_for_values, false) end
end

--- What a script's text is warned of before it runs, on stderr. Lua has read it: what came through a pipe is gone.
-- @param opts  as for M.find
function M.before(path, opts)
  local file = require('dflow.front.quote').open(path)
  local text = file and file:read('*a')
  if file then file:close() end
  if not text or not text:find('%f[%w_]df%f[^%w_]') then return end
  for _, w in ipairs(M.find(text, true, opts)) do
    io.stderr:write(('%s:%d: warning: %s\n'):format(path, w.line, w.message))
  end
end

--- Warnings for a text: a list of {line =, message =}, in the order of the lines; none where it is no Lua, which Lua
-- says.
-- @param whole  it is all of a script, and no input of the prompt's
-- @param opts   {value_of = function(name): what a global is, at the prompt; autograph = true: statements and operators
--               on Outputs build the graph}
function M.find(text, whole, opts)
  local found, seen = {}, {}
  opts = opts or {}
  local tree = parser.parse(text) or not whole and parser.parse('return ' .. text)
  if not tree then return found end
  local function warn(line, ...)
    local message = (...):format(select(2, ...))
    local key = line .. message
    if not seen[key] then
      seen[key] = true
      found[#found + 1] = { line = line, message = message }
    end
  end
  if not opts.autograph then
    local named, sure = known_variables(tree, opts.value_of)
    find_conditions(tree, named, warn)
    find_sure(tree, find_in_bodies(tree, named, warn), named, sure, warn)
  end
  if whole then find_dropped(tree, warn) end
  find_counters(tree, warn)
  find_lists(tree, warn)
  find_unset(tree, warn, opts.value_of, whole)
  table.sort(found, function(a, b) if a.line ~= b.line then return a.line < b.line end return a.message < b.message end)
  return found
end

return M
