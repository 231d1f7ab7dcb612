--- What a function's statements set, read later and jump to: live variables, found backwards over the syntax tree.
--
-- Statements get `live`, the variables that may be read after them; loops `head`, what the next iteration may read;
-- blocks `out`; a break or goto `target`, what may be read where it goes. Functions inside are not entered: making one
-- reads all that it captures.
local M = {}

local function copy(set)
  local out = {}
  for k in pairs(set) do out[k] = true end
  return out
end

--- Adds b to a. Was there anything new?
local function add(a, b)
  local grown = false
  for k in pairs(b) do
    if not a[k] then a[k], grown = true, true end
  end
  return grown
end
M.add = add

-- ---- expressions ----------------------------------------------------------------------------------------------------
--- Calls visit(e) for the expressions directly inside of e.
function M.inside(e, visit)
  local kind = e.kind
  if kind == 'binary' then visit(e.left) visit(e.right)
  elseif kind == 'unary' then visit(e.operand)
  elseif kind == 'paren' then visit(e.inner)
  elseif kind == 'index' then
    visit(e.object)
    if e.key then visit(e.key) end
  elseif kind == 'call' or kind == 'method' then
    visit(e.fn or e.object)
    for _, a in ipairs(e.args) do visit(a) end
  elseif kind == 'table' then
    for _, item in ipairs(e.items) do
      if item.key then visit(item.key) end
      visit(item.value)
    end
  end
end

local function reads(e, set)
  if e.kind == 'name' then set[e.var] = true
  elseif e.kind == 'function' then
    for var in pairs(e.free or {}) do set[var] = true end
  else
    M.inside(e, function(x) reads(x, set) end)
  end
end

local function reads_all(list, set)
  for _, e in ipairs(list) do reads(e, set) end
end

-- ---- statements -----------------------------------------------------------------------------------------------------
--- The blocks of a statement.
function M.blocks(s)
  if s.kind == 'if' then
    local list = {}
    for i, c in ipairs(s.clauses) do list[i] = c.body end
    list[#list + 1] = s.orelse
    return list
  end
  return { s.body }
end

M.loops = { ['while'] = true, ['repeat'] = true, fornum = true, forin = true }

local handlers = {}
local Flow = {}
Flow.__index = Flow

function Flow:block(list, out, tail)
  list.out = list.out or {}
  add(list.out, out)
  local labels, live = setmetatable({}, { __index = self.labels }), copy(out)
  local outer = self.labels
  self.labels = labels
  if tail then tail(live) end
  for i = #list, 1, -1 do
    local s = list[i]
    s.live = s.live or {}
    add(s.live, live)
    live = handlers[s.kind](self, s, live)
  end
  self.labels = outer
  return live
end

handlers['local'] = function(_, s, live)
  for _, var in ipairs(s.vars) do live[var] = nil end
  reads_all(s.values, live)
  return live
end

function handlers.localfunction(_, s, live)
  reads(s.fn, live)
  live[s.var] = nil
  return live
end

handlers['function'] = function(_, s, live)
  if s.target.kind == 'name' then live[s.target.var] = nil else reads(s.target, live) end
  reads(s.fn, live)
  return live
end

function handlers.assign(_, s, live)
  for _, t in ipairs(s.targets) do
    if t.kind == 'name' then live[t.var] = nil end
  end
  for _, t in ipairs(s.targets) do
    if t.kind ~= 'name' then reads(t, live) end
  end
  reads_all(s.values, live)
  return live
end

function handlers.callstat(_, s, live)
  reads(s.call, live)
  return live
end

handlers['do'] = function(self, s, live) return self:block(s.body, live) end

handlers['if'] = function(self, s, live)
  local below = s.orelse and self:block(s.orelse, live) or live
  for i = #s.clauses, 1, -1 do
    local inside = self:block(s.clauses[i].body, live)
    below = copy(below)
    add(below, inside)
    reads(s.clauses[i].cond, below)
  end
  return below
end

--- A loop: `body(head)` gives what the body reads, where `head` is read by what comes after it.
local function loop(self, s, live, body)
  local after = self.after
  s.head = s.head or {}
  self.after = copy(live)
  repeat until not add(s.head, body(s.head))
  self.after = after
end

handlers['while'] = function(self, s, live)
  loop(self, s, live, function(head)
    local out = copy(head)
    add(out, live)
    reads(s.cond, out)
    return self:block(s.body, out)
  end)
  add(live, s.head)
  reads(s.cond, live)
  add(s.head, live)
  return live
end

handlers['repeat'] = function(self, s, live)
  local first
  loop(self, s, live, function(head)
    local out = copy(head)
    add(out, live)
    first = self:block(s.body, out, function(set) reads(s.cond, set) end)
    return first
  end)
  return first
end

function handlers.fornum(self, s, live)
  loop(self, s, live, function(head)
    local out = copy(head)
    add(out, live)
    local inside = self:block(s.body, out)
    for _, var in ipairs(s.vars) do inside[var] = nil end
    return inside
  end)
  add(live, s.head)
  reads_all(s.values or { s.start, s.limit, s.step }, live)
  return live
end
handlers.forin = handlers.fornum

handlers['return'] = function(_, s)
  local live = {}
  reads_all(s.values, live)
  return live
end

handlers['break'] = function(self, s)
  s.target = self.after or {}
  return copy(s.target)
end

handlers['goto'] = function(self, s)
  s.target = self.labels[s.label] or self.everything
  return copy(s.target)
end

function handlers.label(self, s, live)
  self.labels[s.label] = copy(live)
  return live
end

--- Finds the flow of a function node.
function M.analyse(fn)
  local everything = {}
  local function collect(list)
    for _, s in ipairs(list) do
      for _, var in ipairs(s.vars or {}) do everything[var] = true end
      for _, block in ipairs(M.blocks(s)) do collect(block) end
    end
  end
  collect(fn.body)
  for _, var in ipairs(fn.params) do everything[var] = true end
  setmetatable({ labels = {}, everything = everything }, Flow):block(fn.body, {})
end

-- ---- what statements set and where they jump ------------------------------------------------------------------------
--- The variables that statements list[from … to] set and do not declare themselves, into `set`, by the lines that do.
function M.assigned(list, from, to, set)
  local function put(var, line)
    set[var] = set[var] or {}
    table.insert(set[var], line)
  end
  for i = from, to do
    local s = list[i]
    if s.kind == 'assign' then
      for _, t in ipairs(s.targets) do if t.kind == 'name' then put(t.var, t.line) end end
    elseif s.kind == 'function' and s.target.kind == 'name' then
      put(s.target.var, s.line)
    end
    for _, block in ipairs(M.blocks(s)) do M.assigned(block, 1, #block, set) end
  end
  return set
end

--- The jumps that leave statements list[from … to]: by `break`, `return` and `goto name`, each the union of what is
-- read there.
function M.jumps(list, from, to, found)
  found = found or {}
  local function note(code, target)
    found[code] = found[code] or {}
    add(found[code], target or {})
  end
  local labels = {}
  for i = from, to do
    if list[i].kind == 'label' then labels['goto ' .. list[i].label] = true end
  end
  for i = from, to do
    local s = list[i]
    if s.kind == 'break' then note('break', s.target)
    elseif s.kind == 'return' then note('return')
    elseif s.kind == 'goto' then
      if not labels['goto ' .. s.label] then note('goto ' .. s.label, s.target) end
    else
      for _, block in ipairs(M.blocks(s)) do
        for code, target in pairs(M.jumps(block, 1, #block)) do
          if not labels[code] and not (code == 'break' and M.loops[s.kind]) then note(code, target) end
        end
      end
    end
  end
  return found
end

--- Is it `while true do` without a break?
function M.is_forever(s)
  return s.kind == 'while' and s.cond.kind == 'true' and M.jumps(s.body, 1, #s.body)['break'] == nil
end

--- Does a block never come to its end?
function M.always_jumps(list)
  local s = list[#list]
  if not s then return false end
  if s.kind == 'return' or s.kind == 'break' or s.kind == 'goto' then return true end
  if s.kind == 'do' then return M.always_jumps(s.body) end
  if M.is_forever(s) then return true end
  if s.kind == 'if' and s.orelse then
    for _, block in ipairs(M.blocks(s)) do if not M.always_jumps(block) then return false end end
    return true
  end
  return false
end

return M
