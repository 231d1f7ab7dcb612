--- A parser of Lua 5.4 and LuaJIT: a syntax tree that keeps the place of each token and knows which variable each name
-- means.
--
-- A node is a table with its `kind` and the bytes `first` … `last` that it spans. The kinds of expressions: `nil true
-- false number string vararg name index call method function binary unary paren table`; of statements: `local assign
-- callstat do while repeat if fornum forin function localfunction return break goto label`. A name's `var` is the
-- variable it means, {name, line, fn, attribute, sets = {lines}}, of the function node `fn`; a global is one of these
-- with `global`, one for each name of the text.
local lexer = require 'dflow.front.lexer'

local M = {}

local Failure = {}
local function fail(line, text, ...) error(setmetatable({ line = line, message = text:format(...) }, Failure), 0) end

-- ---- tokens ---------------------------------------------------------------------------------------------------------
--- The tokens without comments; a string that goes over several lines is one token.
local function tokens_of(text)
  local list, n, state, at, line = {}, 0, nil, 1, 1
  local stop
  repeat
    stop = text:find('\n', at, true) or #text + 1
    local row = text:sub(at, stop - 1)
    local inherited = state
    local kinds, firsts, lasts, open = lexer.line(row, state)
    for i = 1, #kinds do
      local first, last = at + firsts[i] - 1, at + lasts[i] - 1
      if i == 1 and inherited and inherited:sub(1, 1) ~= '-' then
        list[n].last, list[n].text = last, text:sub(list[n].first, last)
        if kinds[i] == 'error' then fail(line, 'unfinished string') end
      elseif kinds[i] == 'error' then
        local word = text:sub(first, last)
        fail(line, word:find '^["\']' and "unfinished string near '%s'" or "unexpected symbol near '%s'", word)
      elseif kinds[i] ~= 'comment' then
        n = n + 1
        local kind = kinds[i]
        list[n] = { kind = kind, text = text:sub(first, last), line = line, first = first, last = last,
                    word = kind ~= 'string' and kind ~= 'number' }
      end
    end
    -- an empty line of a long string
    if inherited and inherited:sub(1, 1) ~= '-' and #kinds == 0 then list[n].last = stop - 1 end
    state, at, line = open, stop + 1, line + 1
  until stop > #text
  if state then fail(line - 1, state:sub(1, 1) == '-' and 'unfinished long comment' or 'unfinished string') end
  list[n + 1] = { kind = 'eof', text = '<eof>', line = line - 1, first = #text + 1, last = #text }
  return list
end

-- ---- scopes ---------------------------------------------------------------------------------------------------------
local Parser = {}
Parser.__index = Parser

function Parser:declare(name, line, attribute)
  self.count = self.count + 1
  local var = { name = name, line = line, fn = self.fn, attribute = attribute, sets = {}, id = self.count,
                captures = {} }
  local scope = self.scope
  scope[#scope + 1] = var
  return var
end

function Parser:open() self.scope = { outer = self.scope, fn = self.fn } end
function Parser:close() self.scope = self.scope.outer end

function Parser:find(name)
  local scope = self.scope
  while scope do
    for i = #scope, 1, -1 do
      if scope[i].name == name then return scope[i] end
    end
    scope = scope.outer
  end
  local var = self.globals[name]
  if not var then
    self.count = self.count + 1
    var = { name = name, line = self.t.line, sets = {}, global = true, id = self.count, captures = {} }
    self.globals[name] = var
  end
  return var
end

-- ---- tokens, one after another --------------------------------------------------------------------------------------
function Parser:next()
  local t = self.t
  self.before, self.at = t, self.at + 1
  self.t = self.tokens[self.at]
  return t
end

function Parser:is(word) return self.t.word and self.t.text == word end
function Parser:take(word) if self:is(word) then return self:next() end end

function Parser:need(word, opened)
  if self:is(word) then return self:next() end
  if opened and opened.line ~= self.t.line then
    fail(self.t.line, "'%s' expected (to close '%s' at line %d) near '%s'", word, opened.text, opened.line, self.t.text)
  end
  fail(self.t.line, "'%s' expected near '%s'", word, self.t.text)
end

function Parser:name()
  if self.t.kind ~= 'name' then fail(self.t.line, "<name> expected near '%s'", self.t.text) end
  return self:next()
end

-- ---- expressions ----------------------------------------------------------------------------------------------------
local BINARY = {
  ['or'] = { 1, 1 }, ['and'] = { 2, 2 }, ['<'] = { 3, 3 }, ['>'] = { 3, 3 }, ['<='] = { 3, 3 }, ['>='] = { 3, 3 },
  ['~='] = { 3, 3 }, ['=='] = { 3, 3 },
  ['|'] = { 4, 4 }, ['~'] = { 5, 5 }, ['&'] = { 6, 6 }, ['<<'] = { 7, 7 }, ['>>'] = { 7, 7 }, ['..'] = { 9, 8 },
  ['+'] = { 10, 10 }, ['-'] = { 10, 10 },
  ['*'] = { 11, 11 }, ['/'] = { 11, 11 }, ['//'] = { 11, 11 }, ['%'] = { 11, 11 }, ['^'] = { 14, 13 },
}
local UNARY, DEEPEST = 12, 190
local unary = { ['not'] = true, ['-'] = true, ['#'] = true, ['~'] = true }
local literal = { ['nil'] = true, ['true'] = true, ['false'] = true }

local function node(kind, first, last, line)
  return { kind = kind, first = first.first, last = last.last, line = line or first.line }
end

function Parser:expressions()
  local list = {}
  repeat list[#list + 1] = self:expression() until not self:take(',')
  return list
end

function Parser:table()
  local open, items = self:next(), {}
  while not self:is('}') do
    local ahead = self.tokens[self.at + 1]
    if self:is('[') then
      self:next()
      local key = self:expression()
      self:need(']')
      self:need('=')
      items[#items + 1] = { key = key, value = self:expression() }
    elseif self.t.kind == 'name' and ahead.word and ahead.text == '=' then
      local key = self:next()
      self:next()
      items[#items + 1] = { name = key.text, value = self:expression() }
    else
      items[#items + 1] = { value = self:expression() }
    end
    if not (self:take(',') or self:take(';')) then break end
  end
  local e = node('table', open, self:need('}', open))
  e.items = items
  return e
end

--- From the parameters' bracket to the `end`.
function Parser:body(keyword, is_method)
  local fn = node('function', keyword, keyword)
  local outer = self.fn
  fn.outer, fn.params, self.fn = outer, {}, fn
  self:open()
  local open = self:need('(')
  fn.open = open
  if is_method then fn.params[1] = self:declare('self', open.line) end
  while not self:is(')') do
    if self:take('...') then
      fn.vararg = true
      break
    end
    local name = self:name()
    fn.params[#fn.params + 1] = self:declare(name.text, name.line)
    if not self:take(',') then break end
  end
  fn.close = self:need(')', open)
  fn.body = self:block()
  fn.stop = self:need('end', keyword)
  fn.last, fn.last_line, fn.is_method = fn.stop.last, fn.stop.line, is_method
  self:close()
  self.fn = outer
  self.functions[#self.functions + 1] = fn
  return fn
end

function Parser:arguments(e)
  local t = self.t
  if t.kind == 'string' then
    self:next()
    e.args = { node('string', t, t) }
  elseif self:is('{') then
    e.args = { self:table() }
  else
    e.open, e.args = self:next(), {}
    if not self:is(')') then e.args = self:expressions() end
    e.close = self:need(')', t)
  end
  e.last = self.before.last
  return e
end

function Parser:prefixed()
  local t, e = self.t, nil
  if t.kind == 'name' then
    self:next()
    e = node('name', t, t)
    e.name, e.var = t.text, self:find(t.text)
    self:mention(e)
  elseif self:is('(') then
    self:next()
    local inner = self:expression()
    e = node('paren', t, self:need(')', t))
    e.inner = inner
  else
    fail(t.line, "unexpected symbol near '%s'", t.text)
  end
  while true do
    local s = self.t
    if self:take('.') then
      local name = self:name()
      e = { kind = 'index', object = e, name = name.text, first = e.first, last = name.last, line = name.line }
    elseif self:take('[') then
      local key = self:expression()
      e = { kind = 'index', object = e, key = key, first = e.first, last = self:need(']', s).last, line = s.line }
    elseif self:take(':') then
      local name = self:name()
      if not (self.t.kind == 'string' or self:is('{') or self:is('(')) then
        fail(self.t.line, "function arguments expected near '%s'", self.t.text)
      end
      e = self:arguments{ kind = 'method', object = e, name = name.text, colon = s, name_token = name, first = e.first,
                          line = name.line }
    elseif s.kind == 'string' or self:is('{') or self:is('(') then
      e = self:arguments{ kind = 'call', fn = e, first = e.first, line = s.line }
    else
      return e
    end
  end
end

--- Notes a name that is read or set: which functions of the text capture which variables.
function Parser:mention(e)
  local var, fn, inner = e.var, self.fn, nil
  while fn and fn ~= var.fn do
    fn.free = fn.free or {}
    fn.free[var] = true
    fn, inner = fn.outer, fn
  end
  if inner and not var.global then var.captures[inner] = true end
end

function Parser:simple()
  local t = self.t
  if t.kind == 'number' or t.kind == 'string' or (t.kind == 'constant' and literal[t.text]) then
    self:next()
    local e = node(t.kind == 'constant' and t.text or t.kind, t, t)
    e.text = t.text
    return e
  elseif self:is('...') then
    self:next()
    if not self.fn.vararg then fail(t.line, "cannot use '...' outside a vararg function near '...'") end
    return node('vararg', t, t)
  elseif self:is('{') then
    return self:table()
  elseif self:is('function') then
    return self:body(self:next())
  end
  return self:prefixed()
end

function Parser:expression(limit)
  limit = limit or 0
  self.depth = self.depth + 1
  if self.depth > DEEPEST then fail(self.t.line, 'the expression is nested too deeply') end
  local t, left = self.t
  if t.word and unary[t.text] then
    self:next()
    local operand = self:expression(UNARY)
    left = { kind = 'unary', op = t.text, operator = t, operand = operand, first = t.first, last = operand.last,
             line = t.line }
  else
    left = self:simple()
  end
  while true do
    local op = self.t
    local order = op.word and BINARY[op.text]
    if not order or order[1] <= limit then break end
    self:next()
    local right = self:expression(order[2])
    left = { kind = 'binary', op = op.text, operator = op, left = left, right = right, first = left.first,
             last = right.last, line = op.line }
  end
  self.depth = self.depth - 1
  return left
end

-- ---- statements -----------------------------------------------------------------------------------------------------
local ends_block = { ['end'] = true, ['else'] = true, ['elseif'] = true, ['until'] = true }
local statements = {}

function Parser:block()
  local list = {}
  self:open()
  while self.t.kind ~= 'eof' and not (self.t.word and ends_block[self.t.text]) do
    if not self:take(';') then
      local s = self:statement()
      list[#list + 1] = s
      if s.kind == 'return' then break end
    end
  end
  local scope = self.scope
  self:close()
  list.scope = scope
  return list
end

local function finish(parser, s, kind, first)
  s.kind, s.first, s.last, s.line = kind, first.first, parser.before.last, first.line
  s.last_line = parser.before.line
  return s
end

function Parser:statement()
  local t = self.t
  self.depth = self.depth + 1
  if self.depth > DEEPEST then fail(t.line, 'blocks are nested too deeply') end
  local handler = t.word and statements[t.text]
  local s = handler and handler(self, t) or self:expression_statement(t)
  self.depth = self.depth - 1
  return s
end

local function set(var, line) var.sets[#var.sets + 1] = line end

function Parser:expression_statement(t)
  local e = self:prefixed()
  if self:is('=') or self:is(',') then
    local targets = { e }
    while self:take(',') do targets[#targets + 1] = self:prefixed() end
    local equals = self:need('=')
    for _, target in ipairs(targets) do
      if target.kind ~= 'name' and target.kind ~= 'index' then fail(t.line, "syntax error near '%s'", self.t.text) end
      if target.kind == 'name' then
        if target.var.attribute then fail(target.line, "attempt to assign to const variable '%s'", target.name) end
        set(target.var, target.line)
      end
    end
    return finish(self, { targets = targets, equals = equals, values = self:expressions() }, 'assign', t)
  end
  if e.kind ~= 'call' and e.kind ~= 'method' then fail(self.t.line, "syntax error near '%s'", self.t.text) end
  return finish(self, { call = e }, 'callstat', t)
end

statements['local'] = function(p, t)
  p:next()
  if p:is('function') then
    local keyword = p:next()
    local name = p:name()
    local var = p:declare(name.text, name.line)
    set(var, name.line)
    return finish(p, { var = var, name_token = name, fn = p:body(keyword) }, 'localfunction', t)
  end
  local names, values = {}, nil
  repeat
    local name, attribute = p:name(), nil
    if p:take('<') then
      attribute = p:name()
      if attribute.text ~= 'const' and attribute.text ~= 'close' then
        fail(attribute.line, "unknown attribute '%s'", attribute.text)
      end
      p:need('>')
    end
    names[#names + 1] = { token = name, attribute = attribute and attribute.text }
  until not p:take(',')
  local equals = p:take('=')
  if equals then values = p:expressions() end
  local vars = {}
  for i, n in ipairs(names) do vars[i] = p:declare(n.token.text, n.token.line, n.attribute) end
  return finish(p, { vars = vars, names = names, equals = equals, values = values or {} }, 'local', t)
end

statements['do'] = function(p, t)
  p:next()
  local s = { body = p:block() }
  s.stop = p:need('end', t)
  return finish(p, s, 'do', t)
end

statements['while'] = function(p, t)
  p:next()
  local s = { keyword = t, cond = p:expression() }
  s.open = p:need('do')
  s.body = p:block()
  s.stop = p:need('end', t)
  return finish(p, s, 'while', t)
end

statements['repeat'] = function(p, t)
  p:next()
  local s = { keyword = t, body = p:block() }
  s.stop = p:need('until', t)
  p.scope = s.body.scope                               -- the condition sees the body's locals
  s.cond = p:expression()
  p:close()
  return finish(p, s, 'repeat', t)
end

statements['if'] = function(p, t)
  local s = { clauses = {} }
  repeat
    local keyword = p:next()
    local clause = { keyword = keyword, cond = p:expression() }
    clause.open = p:need('then')
    clause.body = p:block()
    s.clauses[#s.clauses + 1] = clause
  until not p:is('elseif')
  s.otherwise = p:take('else')
  if s.otherwise then s.orelse = p:block() end
  s.stop = p:need('end', t)
  return finish(p, s, 'if', t)
end

statements['for'] = function(p, t)
  p:next()
  local names = { p:name() }
  local s = { keyword = t }
  if p:take('=') then
    s.start = p:expression()
    p:need(',')
    s.limit = p:expression()
    if p:take(',') then s.step = p:expression() end
  else
    while p:take(',') do names[#names + 1] = p:name() end
    s.operator = p:need('in')
    s.values = p:expressions()
  end
  s.open, s.names, s.vars = p:need('do'), names, {}
  p:open()
  for i, name in ipairs(names) do s.vars[i] = p:declare(name.text, name.line) end
  s.body = p:block()
  p:close()
  s.stop = p:need('end', t)
  return finish(p, s, s.start and 'fornum' or 'forin', t)
end

statements['function'] = function(p, t)
  p:next()
  local name = p:name()
  local target = node('name', name, name)
  target.name, target.var = name.text, p:find(name.text)
  p:mention(target)
  local is_method = false
  while not is_method and (p:is('.') or p:is(':')) do
    is_method = p:next().text == ':'
    local key = p:name()
    target = { kind = 'index', object = target, name = key.text, first = target.first, last = key.last,
               line = key.line }
  end
  if target.kind == 'name' then set(target.var, name.line) end
  return finish(p, { target = target, fn = p:body(t, is_method) }, 'function', t)
end

statements['return'] = function(p, t)
  p:next()
  local values = {}
  if p.t.kind ~= 'eof' and not p:is(';') and not (p.t.word and ends_block[p.t.text]) then values = p:expressions() end
  local s = finish(p, { values = values, keyword = t }, 'return', t)
  p:take(';')
  return s
end

statements['break'] = function(p, t)
  p:next()
  return finish(p, {}, 'break', t)
end

statements['goto'] = function(p, t)
  p:next()
  return finish(p, { label = p:name().text }, 'goto', t)
end

statements['::'] = function(p, t)
  p:next()
  local name = p:name().text
  p:need('::')
  return finish(p, { label = name }, 'label', t)
end

--- The syntax tree of a text: a function node with `body`, `globals` by name and `functions`, all that the text holds.
-- @return  the tree; nil, a message and its line where the text is no Lua
function M.parse(text)
  if text:sub(1, 1) == '#' then text = text:gsub('^[^\n]*', function(line) return (' '):rep(#line) end, 1) end
  local ok, result = pcall(function()
    local p = setmetatable({ tokens = tokens_of(text), at = 1, globals = {}, functions = {}, depth = 0, count = 0 },
                           Parser)
    p.t = p.tokens[1]
    local chunk = { kind = 'function', params = {}, vararg = true, first = 1, last = #text, line = 0, chunk = true }
    p.fn = chunk
    chunk.body = p:block()
    if p.t.kind ~= 'eof' then fail(p.t.line, "'<eof>' expected near '%s'", p.t.text) end
    chunk.globals, chunk.functions, chunk.tokens, chunk.text = p.globals, p.functions, p.tokens, text
    return chunk
  end)
  if ok then return result end
  if getmetatable(result) ~= Failure then error(result, 0) end
  return nil, result.message, result.line
end

return M
