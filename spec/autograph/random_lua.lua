--- Random programs as Lua text: what they give when Lua runs them on numbers, and as graphs that df.autograph made of them; and derivatives,
-- by dual numbers that Lua computes with.
--
--   lua5.4 spec/autograph/random_lua.lua 2000 1        in the top folder, with LUA_PATH as the specs have it: 2000 programs from seed 1 on
local df = require 'dflow'

local M = {}

-- ---- programs -------------------------------------------------------------------------------------------------------------------------
--- A generator of whole numbers below n, the same under both Luas.
local function generator(seed)
  local state = (seed * 7919 + 12345) % 2147483647
  for _ = 1, 4 do state = state * 16807 % 2147483647 end
  return function(n)
    state = state * 16807 % 2147483647
    return math.floor(state / 2147483647 * n)
  end
end

local Writer = {}
Writer.__index = Writer

function Writer:line(text, ...) self.out[#self.out + 1] = ('  '):rep(self.depth) .. (select('#', ...) > 0 and text:format(...) or text) end
function Writer:pick(list) return list[self.chance(#list) + 1] end
function Writer:fresh(prefix)
  self.count = self.count + 1
  return prefix .. self.count
end

function Writer:number()
  local r = self.chance(12)
  if r == 0 and #self.tables > 0 then return self:pick(self.tables) .. self:pick{ '.u', '.v' } end
  if r == 1 and #self.counters > 0 then return ('c(%s)'):format(self:pick(self.counters)) end
  if r <= 3 then return ('c(%d)'):format(self.chance(7) - 3) end
  return self:pick(self.numbers)
end

function Writer:value(deep)
  local r = self.chance(deep and 6 or 11)
  if r <= 1 then return self:number()
  elseif r == 2 then return ('%s + %s'):format(self:number(), self:number())
  elseif r == 3 then return ('%s - %s'):format(self:number(), self:number())
  elseif r == 4 then return ('%s * 0.5'):format(self:number())
  elseif r == 5 then return ('-%s'):format(self:pick(self.numbers))
  elseif r == 6 then return ('%s * %s * 0.25'):format(self:number(), self:number())
  elseif r == 7 and #self.functions > 0 then return ('%s(%s, %s)'):format(self:pick(self.functions), self:value(true), self:number())
  end
  local p, a, b = self:condition(true), self:pick(self.numbers), self:pick(self.numbers)
  if self.chains then return ('(%s and %s or %s < %s and %s or %s)'):format(p, a, a, b, b, a) end
  return ('(%s and %s or %s)'):format(p, a, b)
end

function Writer:condition(deep)
  local r = self.chance(deep and 5 or 9)
  if r == 0 and #self.bools > 0 then return self:pick(self.bools) end
  if r == 5 then return ('not (%s)'):format(self:condition(true)) end
  if r == 6 then return ('(%s) and %s'):format(self:condition(true), self:condition(true)) end
  if r == 7 then return ('%s or (%s)'):format(self:condition(true), self:condition(true)) end
  return ('%s %s %s'):format(self:pick(self.numbers), self:pick{ '<', '<=', '>', '>=', '==', '~=' }, self:pick{ 'c(0)', 'c(1)', 'c(-2)', self:pick(self.numbers) })
end

--- A block with what it declares forgotten behind it. `closing` ends it, if it may.
function Writer:block(n, opts)
  local kept = { #self.numbers, #self.bools, #self.tables, #self.functions, #self.counters }
  local loop = self.loop
  if opts and opts.loop ~= nil then self.loop = opts.loop end
  self.depth = self.depth + 1
  if opts and opts.first then self:line(opts.first) end
  if opts and opts.counter then self.counters[#self.counters + 1] = opts.counter end
  if opts and opts.number then self.numbers[#self.numbers + 1] = opts.number end
  for _ = 1, n do self:statement() end
  if opts and opts.last then opts.last() end
  self.depth, self.loop = self.depth - 1, loop
  for i, list in ipairs{ self.numbers, self.bools, self.tables, self.functions, self.counters } do
    for k = #list, kept[i] + 1, -1 do list[k] = nil end
  end
end

function Writer:returns() return ('return %s, %s'):format(self:value(true), self:number()) end

--- A jump, as the end of a branch.
function Writer:jump()
  local r = self.chance(self.loop and 4 or 1)
  if r == 1 then return 'break' end
  if r >= 2 and self.label then return ('goto %s'):format(self.label) end
  if self.inner then return ('return %s'):format(self:value(true)) end
  return self:returns()
end

function Writer:body(n, opts)
  local label = self.label
  self.label = nil
  opts.loop = true
  if self.chance(3) == 0 and not opts.no_label then
    self.label = self:fresh 'continue_'
    local name = self.label
    opts.last = function() self:line('::%s::', name) end
  end
  self:block(n, opts)
  self.label = label
end

local kinds = {}

function kinds.assign(w) w:line('%s = %s', w:pick(w.assigned), w:value()) end
function kinds.swap(w) w:line('%s, %s = %s, %s', w.assigned[1], w.assigned[2], w:value(), w:value()) end

kinds['local'] = function(w)
  local name = w:fresh 'v'
  w:line('local %s = %s', name, w:value())
  w.numbers[#w.numbers + 1] = name
end

function kinds.bool(w)
  local name = w:fresh 'p'
  w:line('local %s = %s', name, w:condition())
  w.bools[#w.bools + 1] = name
end

function kinds.set_bool(w)
  if #w.bools > 0 then w:line('%s = %s', w:pick(w.bools), w:condition()) else kinds.bool(w) end
end

function kinds.table(w)
  if #w.tables > 0 then return w:line('%s = { u = %s, v = %s }', w:pick(w.tables), w:value(), w:value()) end
  local name = w:fresh 't'
  w:line('local %s = { u = %s, v = %s }', name, w:value(), w:value())
  w.tables[#w.tables + 1] = name
end

kinds['if'] = function(w)
  w:line('if %s then', w:condition())
  local function branch()
    local jumps = w.chance(4) == 0
    w:block(w.chance(3), { last = jumps and function() w:line(w:jump()) end })
  end
  branch()
  if w.chance(4) == 0 then
    w:line('elseif %s then', w:condition())
    branch()
  end
  if w.chance(2) == 0 then
    w:line('else')
    branch()
  end
  w:line('end')
end

kinds['while'] = function(w)
  local k = w:fresh 'k'
  w:line('local %s = c(0)', k)
  w:line('while %s do', w:pick{ ('%s < c(%d)'):format(k, w.chance(5)), ('%s < c(4) and (%s)'):format(k, w:condition()), ('%s <= c(2)'):format(k) })
  w:body(1 + w.chance(3), { first = ('%s = %s + 1'):format(k, k) })
  w:line('end')
end

function kinds.forever(w)
  local k = w:fresh 'k'
  w:line('local %s = c(0)', k)
  w:line('while true do')
  w:body(1 + w.chance(2), { first = ('%s = %s + 1 if %s > c(%d) then break end'):format(k, k, k, 1 + w.chance(3)) })
  w:line('end')
end

kinds['repeat'] = function(w)
  local k = w:fresh 'k'
  w:line('local %s = c(0)', k)
  w:line('repeat')
  w:body(1 + w.chance(2), { first = ('%s = %s + 1'):format(k, k), no_label = true })
  w:line('until %s >= c(%d) or %s', k, 1 + w.chance(3), w:condition(true))
end

kinds['for'] = function(w)
  local i = w:fresh 'i'
  local counts = w.chance(2) == 0
  w:line('for %s = %s, %s%s do', i, counts and '1' or 'c(1)', counts and w.chance(4) or ('c(%d)'):format(w.chance(5)), w:pick{ '', '', ', 2' })
  w:body(1 + w.chance(3), { number = not counts and i or nil, counter = counts and i or nil })
  w:line('end')
end

function kinds.each(w)
  local x = w:fresh 'x'
  w:line('for %s in each(rows) do', x)
  w:body(1 + w.chance(3), { number = x })
  w:line('end')
end

kinds['do'] = function(w)
  w:line('do')
  w:block(1 + w.chance(2))
  w:line('end')
end

kinds['function'] = function(w)
  if w.inner or w.depth > 1 then return kinds.assign(w) end
  local name = w:fresh 'f'
  w:line('local function %s(m, n)', name)
  local assigned, numbers, label, loop, tables, bools, counters = w.assigned, w.numbers, w.label, w.loop, w.tables, w.bools, w.counters
  w.assigned, w.numbers, w.label, w.loop, w.inner, w.tables, w.bools, w.counters = { 'm', 'n' }, { 'm', 'n' }, nil, false, true, {}, {}, {}
  w:block(1 + w.chance(3), { last = function() w:line('return %s', w:value(true)) end })
  w.assigned, w.numbers, w.label, w.loop, w.inner, w.tables, w.bools, w.counters = assigned, numbers, label, loop, false, tables, bools, counters
  w:line('end')
  w.functions[#w.functions + 1] = name
end

local light = { 'assign', 'assign', 'assign', 'local', 'bool', 'set_bool', 'table', 'swap' }
local heavy = { 'if', 'if', 'if', 'while', 'for', 'for', 'each', 'repeat', 'forever', 'do', 'function' }

function Writer:statement()
  local left = self.depth < 4 and #self.out < 60
  kinds[self:pick((left and self.chance(2) == 0) and heavy or light)](self)
end

--- The text of program number `seed`: `return function(c, each, rows, a, b) … return x, y end`. chains: a choice is one of three.
function M.text(seed, chains)
  local w = setmetatable({ chance = generator(seed), out = {}, depth = 0, count = 0, numbers = { 'a', 'b' }, assigned = { 'a', 'b' }, bools = {}, tables = {},
                           functions = {}, counters = {}, loop = false, inner = false, chains = chains }, Writer)
  w:line('local c, each, rows = ...')
  w:line('return function(a, b)')
  w:block(3 + w.chance(4), { last = function() w:line(w:returns()) end })
  w:line('end')
  return table.concat(w.out, '\n') .. '\n'
end

-- ---- dual numbers -----------------------------------------------------------------------------------------------------------------------
local Dual = {}
local overflowed              -- was a value infinite? Backwards it times a derivative of 0 is NaN, though it is not used later
local function dual(v, d)
  overflowed = overflowed or v - v ~= 0
  return setmetatable({ v = v, d = d or 0 }, Dual)
end
local function of(x) if type(x) == 'number' then return x, 0 end return x.v, x.d end
function Dual.__add(x, y) local a, da = of(x) local b, db = of(y) return dual(a + b, da + db) end
function Dual.__sub(x, y) local a, da = of(x) local b, db = of(y) return dual(a - b, da - db) end
function Dual.__mul(x, y) local a, da = of(x) local b, db = of(y) return dual(a * b, da * b + a * db) end
function Dual.__unm(x) return dual(-x.v, -x.d) end
function Dual.__lt(x, y) return (of(x)) < (of(y)) end
function Dual.__le(x, y) return (of(x)) <= (of(y)) end
function Dual.__eq(x, y) return (of(x)) == (of(y)) end

--- A `for` counts in Lua's numbers: the text where the variable of `for i = c(1), c(3)` is a dual number in its body.
local function for_lua(text)
  return (text:gsub('for ([%w_]+) = c%((%-?%d+)%), c%((%-?%d+)%)([, 0-9]*) do', 'for %1 = %2, %3%4 do local %1 = c(%1)'))
end

-- ---- one program ------------------------------------------------------------------------------------------------------------------------
local loads = rawget(_G, 'loadstring') or load
local inputs = { { 1.5, -2 }, { -1, 3 }, { 0.25, 0 } }
local ROWS = { 1, -2, 0.5 }

local function each_of(list)
  local i = 0
  return function()
    i = i + 1
    return list[i]
  end
end

local function close(a, b) return a == b or (a ~= a and b ~= b) or math.abs(a - b) <= 1e-9 * math.max(1, math.abs(a), math.abs(b)) end

--- Runs program number `seed` in both ways. true; or nil and a text that says what differs.
function M.check(seed, chains)
  local text = M.text(seed, chains)
  local lua = assert(loads(for_lua(text), '=program'))
  df.reset()
  local a, b = df.placeholder('float64', {}, 'a'), df.placeholder('float64', {}, 'b')
  local chunk = assert(loads(text, text))
  local function constant(v) return df.float64(v) end
  local ok, y = pcall(function() return { df.autograph(chunk(constant, df.each, df.constant(ROWS, 'float64')))(a, b) } end)
  if not ok then return nil, ('seed %d: %s\n%s'):format(seed, tostring(y), text) end
  for i = 1, 2 do if type(y[i]) == 'number' then y[i] = df.float64(y[i]) end end
  local gradient = df.gradients(y[1], a, { unconnected = 'zero' })
  for _, at in ipairs(inputs) do
    local x = { lua(function(v) return v end, each_of, ROWS)(at[1], at[2]) }
    local rows = {}
    for i, v in ipairs(ROWS) do rows[i] = dual(v) end
    overflowed = false
    local d = lua(function(v) return dual(v) end, each_of, rows)(dual(at[1], 1), dual(at[2], 0))
    local slope = type(d) == 'number' and 0 or d.d
    local ran, r = pcall(df.run, { y[1], y[2], gradient }, { [a] = at[1], [b] = at[2] })
    if not ran then return nil, ('seed %d: %s\n%s'):format(seed, tostring(r), text) end
    if not (close(r[1], x[1]) and close(r[2], x[2]) and (overflowed or close(r[3], slope))) then
      return nil, ('seed %d, a = %g, b = %g: %s, %s and the gradient %s; Lua gives %s, %s and %s\n%s'):format(seed, at[1], at[2], r[1], r[2], r[3], x[1], x[2], slope, text)
    end
  end
  return true
end

if arg and arg[0] and arg[0]:find 'random_lua%.lua$' and not package.loaded['spec.autograph.random_lua'] then
  local count, first = tonumber(arg[1] or 200), tonumber(arg[2] or 1)
  local wrong = 0
  for seed = first, first + count - 1 do
    local ok, why = M.check(seed, seed % 2 == 0)
    if not ok then
      wrong = wrong + 1
      print(why)
      if wrong == tonumber(arg[3] or 3) then break end
    end
  end
  print(('%d programs, %d wrong'):format(count, wrong))
  if wrong > 0 then os.exit(1) end
end

return M
