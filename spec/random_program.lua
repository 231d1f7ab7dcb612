--- Random programs of nested conds, loops and TensorArrays, with random captures.
-- A program is a tree of plain tables. It is read in two ways: `M.build` makes a graph of it, `M.eval` computes it
-- directly in Lua with dual numbers, which gives the exact derivative too. The two must agree.
-- With `effects` a program assigns variables, fills queues and calls functions, too; those are not computed directly.
-- The generator is our own, so a seed means the same program under every Lua.
local generator = require('spec.chance').minimal
local M = {}

-- ---- making a program -------------------------------------------------------------------------

local Maker = {}
Maker.__index = Maker

function Maker:fresh(prefix)
  self.names = self.names + 1
  return prefix .. self.names
end

local function extended(list, item)
  local out = {}
  for i = 1, #list do out[i] = list[i] end
  out[#out + 1] = item
  return out
end

local unary = { 'sin', 'tanh', 'neg', 'sigmoid', 'square' }
local binary = { 'add', 'sub', 'mul', 'max' }

function Maker:leaf(env)
  local r = self.rand
  local k = r(10)
  if k <= 7 then return { 'var', env.floats[r(#env.floats)] } end
  if k == 8 and #env.ints > 0 then return { 'cast', env.ints[r(#env.ints)] } end
  return { 'const', (r(41) - 21) / 10 }
end

function Maker:expr(env, depth)
  local r = self.rand
  if depth == 0 or r(4) == 1 then return self:leaf(env) end
  if r(3) == 1 then return { unary[r(#unary)], self:expr(env, depth - 1) } end
  local a = self:expr(env, depth - 1)
  local b = r(6) == 1 and a or self:expr(env, depth - 1)     -- now and then the same value twice
  return { binary[r(#binary)], a, b }
end

--- What a statement assigns stays within [-2, 2], so that nothing overflows however deep loops nest.
function Maker:bounded(env)
  return { self.rand(2) == 1 and 'sin' or 'tanh', self:expr(env, 2) }
end

function Maker:int(env)                           -- a trip count from 0 to 4
  local r = self.rand
  if #env.ints > 0 and r(3) == 1 then return { 'mod', env.ints[r(#env.ints)], 2 + r(2) } end
  return { 'int', r(5) - 1 }
end

function Maker:pred(env)
  local r = self.rand
  if #env.ints > 0 and r(3) == 1 then return { 'even', env.ints[r(#env.ints)] } end
  return { 'less', self:leaf(env), self:expr(env, 1) }
end

function Maker:results(env, n)                    -- values that a branch or body gives: sometimes just what came in
  local out = {}
  for i = 1, n do out[i] = self.rand(4) == 1 and self:leaf(env) or self:bounded(env) end
  return out
end

function Maker:index(env, array)
  local r = self.rand
  if #env.ints > 0 and r(2) == 1 then return { 'mod', env.ints[r(#env.ints)], array.n } end
  return { 'int', r(array.n) - 1 }
end

local windows = { 1, 2, 32 }

--- An assignment, a read of a variable, something for a queue, or a call of a function.
function Maker:effect(env)
  local memory, k = env.memory, self.rand(5)
  local name = k <= 3 and memory.variable or k == 4 and memory.queue
  if name and not self.memories[name] then
    self.memories[name] = true
    self.memories[#self.memories + 1] = name
  end
  if k <= 2 then return { kind = 'assign', variable = memory.variable, name = self:fresh 'n', value = self:bounded(env) } end
  if k == 3 then return { kind = 'recall', variable = memory.variable, name = self:fresh 'n' } end
  if k == 4 then return { kind = 'push', queue = memory.queue, value = self:leaf(env) } end
  return { kind = 'call', func = self.rand(#self.functions), name = self:fresh 'n', args = { self:leaf(env), self:leaf(env) } }
end

--- env, within a statement at the top: with a variable and a queue of that statement's own, since at the top itself the order of effects is free.
function Maker:within(env)
  if not self.functions or env.memory then return env end
  return { floats = env.floats, ints = env.ints, arrays = env.arrays, memory = { variable = self:fresh 'm', queue = self:fresh 'u' } }
end

function Maker:block(env, depth, n)
  local r, block = self.rand, {}
  for _ = 1, n do
    local memory = env.memory
    local s = memory and r(3) == 1 and self:effect(env)
    local k = s and math.huge or r(10)
    env = self:within(env)
    if depth > 0 and k <= 2 then
      s = { kind = 'cond', pred = self:pred(env), names = {} }
      local count = r(2)
      local yes, env_yes = self:block(env, depth - 1, r(2))
      local no, env_no = self:block(env, depth - 1, r(2))
      s.yes = { block = yes, results = self:results(env_yes, count) }
      s.no = { block = no, results = self:results(env_no, count) }
      for i = 1, count do s.names[i] = self:fresh 'c' end
    elseif depth > 0 and k <= 5 then
      s = { kind = 'loop', trips = self:int(env), i = self:fresh 'i', vars = {}, init = {}, names = {}, window = windows[r(3)] }
      local count = r(3)
      local inner = { floats = env.floats, ints = extended(env.ints, s.i), arrays = env.arrays, memory = env.memory }
      for v = 1, count do
        s.vars[v] = self:fresh 'v'
        s.init[v] = self:leaf(env)
        s.names[v] = self:fresh 'l'
        inner.floats = extended(inner.floats, s.vars[v])
      end
      local body, env_body = self:block(inner, depth - 1, r(2))
      s.body = { block = body, results = self:results(env_body, count) }
      if count > 1 and r(3) == 1 then             -- swapped
        s.body.results[1], s.body.results[2] = { 'var', s.vars[2] }, { 'var', s.vars[1] }
      end
    elseif depth > 0 and k == 6 then
      s = { kind = 'array', n = r(3), i = self:fresh 'i', name = self:fresh 'a', window = windows[r(3)] }
      local inner = { floats = env.floats, ints = extended(env.ints, s.i), arrays = env.arrays, memory = env.memory }
      local body, env_body = self:block(inner, depth - 1, r(2) - 1)
      s.body = { block = body, results = self:results(env_body, 1) }
    elseif depth > 0 and k == 7 then
      s = { kind = 'chain', n = r(3), i = self:fresh 'i', x = self:fresh 'x', name = self:fresh 'a', init = self:leaf(env), window = windows[r(3)] }
      local inner = { floats = extended(env.floats, s.x), ints = extended(env.ints, s.i), arrays = env.arrays, memory = env.memory }
      local body, env_body = self:block(inner, depth - 1, r(2) - 1)
      s.body = { block = body, results = self:results(env_body, 1) }
    elseif #env.arrays > 0 and k <= 9 then
      local array = env.arrays[r(#env.arrays)]
      if r(3) == 1 then s = { kind = 'sum', array = array.name, name = self:fresh 's' }
      else s = { kind = 'read', array = array.name, index = self:index(env, array), name = self:fresh 'r' } end
    elseif not s then
      s = { kind = 'let', name = self:fresh 'x', value = self:bounded(env) }
    end
    block[#block + 1] = s
    local floats, arrays = env.floats, env.arrays
    for _, name in ipairs(s.names or {}) do floats = extended(floats, name) end
    if s.name and s.kind ~= 'array' and s.kind ~= 'chain' then floats = extended(floats, s.name) end
    if s.kind == 'array' then arrays = extended(arrays, { name = s.name, n = s.n }) end
    if s.kind == 'chain' then arrays = extended(arrays, { name = s.name, n = s.n + 1 }) end
    env = { floats = floats, ints = env.ints, arrays = arrays, memory = memory }
  end
  return block, env
end

--- The program of a seed: three inputs, blocks nested up to `depth` deep, and the sum of what it made as its result.
function M.make(seed, depth, effects)
  local maker = setmetatable({ rand = generator(seed), names = 0 }, Maker)
  for _ = 1, 5 do maker.rand(2) end
  local inputs = { 'p', 'q', 'w' }
  local functions = {}
  maker.memories = {}
  for i = 1, effects and 2 or 0 do
    local body, env = maker:block({ floats = { 'a', 'b' }, ints = {}, arrays = {} }, 1, maker.rand(2))
    functions[i] = { block = body, results = maker:results(env, 1) }
  end
  maker.functions = effects and functions
  local block, env = maker:block({ floats = inputs, ints = {}, arrays = {} }, depth or 3, 2 + maker.rand(3))
  local results = {}
  for i = 4, #env.floats do results[#results + 1] = { 'var', env.floats[i] } end
  for _, a in ipairs(env.arrays) do block[#block + 1] = { kind = 'sum', array = a.name, name = 'end_' .. a.name }
    results[#results + 1] = { 'var', 'end_' .. a.name } end
  return { seed = seed, inputs = inputs, block = block, results = results, functions = functions, memories = maker.memories }
end

-- ---- computing it directly -----------------------------------------------------------------------
-- A float is {value, derivatives by p, q, w}. `trace` gathers the sides that conds took.

local function dual(v, d1, d2, d3) return { v, d1 or 0, d2 or 0, d3 or 0 } end
local function chain(x, v, d) return { v, x[2] * d, x[3] * d, x[4] * d } end
local function tanh(x) local e = math.exp(-2 * math.abs(x)); local t = (1 - e) / (1 + e); return x < 0 and -t or t end

local evaluate = {
  sin = function(x) return chain(x, math.sin(x[1]), math.cos(x[1])) end,
  tanh = function(x) local t = tanh(x[1]); return chain(x, t, 1 - t * t) end,
  neg = function(x) return chain(x, -x[1], -1) end,
  sigmoid = function(x) local s = 1 / (1 + math.exp(-x[1])); return chain(x, s, s * (1 - s)) end,
  square = function(x) return chain(x, x[1] * x[1], 2 * x[1]) end,
  add = function(a, b) return { a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4] } end,
  sub = function(a, b) return { a[1] - b[1], a[2] - b[2], a[3] - b[3], a[4] - b[4] } end,
  mul = function(a, b)
    return { a[1] * b[1], a[2] * b[1] + b[2] * a[1], a[3] * b[1] + b[3] * a[1], a[4] * b[1] + b[4] * a[1] }
  end,
  max = function(a, b) return a[1] >= b[1] and a or b end,
}

local Eval = {}
Eval.__index = Eval

function Eval:expr(e, env)
  local op = e[1]
  if op == 'var' then return env[e[2]] end
  if op == 'const' then return dual(e[2]) end
  if op == 'cast' then return dual(env[e[2]] * 0.25) end
  if op == 'max' then
    local a, b = self:expr(e[2], env), self:expr(e[3], env)
    self.trace[#self.trace + 1] = a[1] >= b[1] and 'a' or 'b'
    if a[1] == b[1] and a ~= b then self.tie = true end
    return evaluate.max(a, b)
  end
  return evaluate[op](self:expr(e[2], env), e[3] and self:expr(e[3], env))
end

function Eval:int(e, env)
  if e[1] == 'int' then return e[2] end
  return env[e[2]] % e[3]
end

function Eval:pred(e, env)
  if e[1] == 'even' then return env[e[2]] % 2 == 0 end
  local a, b = self:expr(e[2], env)[1], self:expr(e[3], env)[1]
  if a ~= b and math.abs(a - b) < 1e-9 then self.tie = true end
  self.trace[#self.trace + 1] = a < b and 'y' or 'n'
  return a < b
end

function Eval:results(part, env)
  env = setmetatable({}, { __index = env })
  self:block(part.block, env)
  local out = {}
  for i, e in ipairs(part.results) do out[i] = self:expr(e, env) end
  return out
end

function Eval:block(block, env)
  for _, s in ipairs(block) do
    if s.kind == 'let' then env[s.name] = self:expr(s.value, env)
    elseif s.kind == 'cond' then
      local out = self:results(self:pred(s.pred, env) and s.yes or s.no, env)
      for i, name in ipairs(s.names) do env[name] = out[i] end
    elseif s.kind == 'loop' then
      local vars, trips = {}, self:int(s.trips, env)
      for v, e in ipairs(s.init) do vars[v] = self:expr(e, env) end
      for i = 0, trips - 1 do
        local inner = setmetatable({ [s.i] = i }, { __index = env })
        for v, name in ipairs(s.vars) do inner[name] = vars[v] end
        vars = self:results(s.body, inner)
      end
      for v, name in ipairs(s.names) do env[name] = vars[v] end
    elseif s.kind == 'array' then
      local array = {}
      for i = 0, s.n - 1 do array[i] = self:results(s.body, setmetatable({ [s.i] = i }, { __index = env }))[1] end
      array.n = s.n
      env[s.name] = array
    elseif s.kind == 'chain' then
      local array = { [0] = self:expr(s.init, env), n = s.n + 1 }
      for i = 0, s.n - 1 do
        array[i + 1] = self:results(s.body, setmetatable({ [s.i] = i, [s.x] = array[i] }, { __index = env }))[1]
      end
      env[s.name] = array
    elseif s.kind == 'read' then env[s.name] = env[s.array][self:int(s.index, env)]
    elseif s.kind == 'sum' then
      local sum, array = dual(0), env[s.array]
      for i = 0, array.n - 1 do sum = evaluate.add(sum, array[i]) end
      env[s.name] = sum
    end
  end
end

--- value, {derivatives}, trace (the sides taken), tie (a comparison too close to call) at inputs `at` (three numbers).
function M.eval(program, at)
  local self = setmetatable({ trace = {} }, Eval)
  local env = { p = dual(at[1], 1, 0, 0), q = dual(at[2], 0, 1, 0), w = dual(at[3], 0, 0, 1) }
  self:block(program.block, env)
  local sum = dual(0)
  for _, e in ipairs(program.results) do sum = evaluate.add(sum, self:expr(e, env)) end
  return sum[1], { sum[2], sum[3], sum[4] }, table.concat(self.trace), self.tie
end

-- ---- building its graph ----------------------------------------------------------------------------

local Build = {}
Build.__index = Build

--- A number as a value of the program's shape.
function Build:filled(x)
  return self.width and self.df.fill({ self.width }, x) or x
end

function Build:expr(e, env)
  if self.place and e[1] ~= 'var' then return self.place(function() return self:operation(e, env) end) end
  return self:operation(e, env)
end

function Build:operation(e, env)
  local df, op = self.df, e[1]
  if op == 'var' then return env[e[2]] end
  if op == 'const' then return self:filled(df.float64(e[2])) end
  if op == 'cast' then return self:filled(df.cast(env[e[2]], 'float64') * 0.25) end
  local a = self:expr(e[2], env)
  local b = e[3] and (e[3] == e[2] and a or self:expr(e[3], env))
  if op == 'sin' then return df.sin(a) elseif op == 'tanh' then return df.tanh(a) elseif op == 'neg' then return -a
  elseif op == 'sigmoid' then return df.sigmoid(a) elseif op == 'square' then return df.square(a)
  elseif op == 'add' then return a + b elseif op == 'sub' then return a - b elseif op == 'mul' then return a * b
  elseif e[2] == e[3] then return a
  else return df.maximum(a, b) end
end

function Build:int(e, env)
  if e[1] == 'int' then return self.df.int32(e[2]) end
  return env[e[2]] % e[3]
end

function Build:pred(e, env)
  if e[1] == 'even' then return (env[e[2]] % 2):eq(0) end
  local a, b = self:expr(e[2], env), self:expr(e[3], env)
  if self.width then a, b = a:reduce_sum(), b:reduce_sum() end
  return a:lt(b)
end

--- A place for what one of the program's statements does.
function Build:at(fn)
  if self.place then return self.place(fn) end
  return fn()
end

--- Its variables and queues, by name.
function Build:remember(names)
  local df = self.df
  for _, name in ipairs(names) do
    self.memories[name] = self:at(function()
      if name:sub(1, 1) == 'u' then return df.FIFOQueue(100000, { 'float64' }) end
      return df.Variable(self:filled(df.float64(0.5)), { name = name, trainable = false })
    end)
  end
end

function Build:results(part, env)
  env = setmetatable({}, { __index = env })
  self:block(part.block, env)
  local out = {}
  for i, e in ipairs(part.results) do out[i] = self:expr(e, env) end
  return out
end

function Build:block(block, env)
  local df = self.df
  for _, s in ipairs(block) do
    if s.kind == 'let' then env[s.name] = self:expr(s.value, env)
    elseif s.kind == 'cond' then
      local out = { df.cond(self:pred(s.pred, env),
        function() return df.unpack(self:results(s.yes, env)) end,
        function() return df.unpack(self:results(s.no, env)) end) }
      for i, name in ipairs(s.names) do env[name] = out[i] end
    elseif s.kind == 'loop' then
      local trips, init = self:int(s.trips, env), { df.int32(0) }
      for v, e in ipairs(s.init) do init[v + 1] = self:expr(e, env) end
      local out = { df.while_loop(function(i) return i:lt(trips) end, function(i, ...)
        local inner = setmetatable({ [s.i] = i }, { __index = env })
        local vars = { ... }
        for v, name in ipairs(s.vars) do inner[name] = vars[v] end
        return i + 1, df.unpack(self:results(s.body, inner))
      end, init, { parallel_iterations = s.window, save = self.save and self.save() }) }
      for v, name in ipairs(s.names) do env[name] = out[v + 1] end
    elseif s.kind == 'array' or s.kind == 'chain' then
      local chained = s.kind == 'chain'
      local array = df.TensorArray('float64', chained and s.n + 1 or s.n)
      if chained then array = array:write(0, self:expr(s.init, env)) end
      local _, out = df.while_loop(function(i) return i:lt(s.n) end, function(i, a)
        local inner = setmetatable({ [s.i] = i }, { __index = env })
        if chained then inner[s.x] = a:read(i) end
        local value = self:results(s.body, inner)[1]
        return i + 1, a:write(chained and i + 1 or i, value)
      end, { df.int32(0), array }, { parallel_iterations = s.window, save = self.save and self.save() })
      env[s.name] = out
    elseif s.kind == 'read' then env[s.name] = self:at(function() return env[s.array]:read(self:int(s.index, env)) end)
    elseif s.kind == 'sum' then env[s.name] = self:at(function() return df.reduce_sum(env[s.array]:stack(), 0) end)
    elseif s.kind == 'assign' then
      local variable, value = self.memories[s.variable], self:expr(s.value, env)
      env[s.name] = self:at(function() return variable:assign(variable * 0.5 + value) end)
    elseif s.kind == 'recall' then env[s.name] = self.memories[s.variable]:value()
    elseif s.kind == 'push' then
      local queue, value = self.memories[s.queue], self:expr(s.value, env)
      self:at(function() queue:enqueue(value) return value end)
    elseif s.kind == 'call' then
      env[s.name] = self:at(function() return self.functions[s.func](self:expr(s.args[1], env), self:expr(s.args[2], env)) end)
    end
  end
end

--- The graph of a program: its result and its three inputs (placeholders, float64, unless `xs` gives them).
-- @param opts.width  its values are vectors of so many elements, all of them; nil: scalars
-- @param opts.place  place(fn) calls fn and returns its result: where what fn builds is placed
-- @param opts.save   save() is how a loop saves values for the gradient
-- @return result, inputs, its variables and queues by name (program.memories lists the names: m… and u…)
function M.build(df, program, xs, opts)
  opts = opts or {}
  local self = setmetatable({ df = df, width = opts.width, place = opts.place, save = opts.save, memories = {}, functions = {} }, Build)
  xs = xs or {}
  for i, name in ipairs(program.inputs) do xs[i] = xs[i] or df.placeholder('float64', { opts.width }, name) end
  self:remember(program.memories)
  for i, f in ipairs(program.functions) do
    self.functions[i] = df.func('f' .. i, { 'float64', 'float64' }, function(a, b)
      return self:results(f, { a = a, b = b })[1]
    end, { returns = { 'float64' } })
  end
  local env = { p = xs[1], q = xs[2], w = xs[3] }
  self:block(program.block, env)
  local sum = df.float64(0)
  for _, e in ipairs(program.results) do sum = sum + self:expr(e, env) end
  return sum, xs, self.memories
end

-- ---- showing it --------------------------------------------------------------------------------------

local function show_expr(e)
  if type(e) ~= 'table' then return tostring(e) end
  if e[1] == 'var' or e[1] == 'const' or e[1] == 'int' then return tostring(e[2]) end
  return e[1] .. '(' .. show_expr(e[2]) .. (e[3] and ', ' .. show_expr(e[3]) or '') .. ')'
end

local function show_block(block, indent, out)
  local function line(text) out[#out + 1] = indent .. text end
  local function part(p, names)
    show_block(p.block, indent .. '  ', out)
    local r = {}
    for i, e in ipairs(p.results) do r[i] = show_expr(e) end
    line('  ' .. names .. ' ' .. table.concat(r, ', '))
  end
  for _, s in ipairs(block) do
    if s.kind == 'let' then line(s.name .. ' = ' .. show_expr(s.value))
    elseif s.kind == 'cond' then
      line(table.concat(s.names, ', ') .. ' = cond ' .. show_expr(s.pred))
      part(s.yes, 'then') part(s.no, 'else')
    elseif s.kind == 'loop' then
      local init = {}
      for v, e in ipairs(s.init) do init[v] = s.vars[v] .. ' from ' .. show_expr(e) end
      line(('%s = loop %s < %s, window %d: %s'):format(table.concat(s.names, ', '), s.i, show_expr(s.trips), s.window, table.concat(init, ', ')))
      part(s.body, 'next')
    elseif s.kind == 'array' then line(('%s = array of %d, by %s, window %d'):format(s.name, s.n, s.i, s.window)) part(s.body, 'write')
    elseif s.kind == 'chain' then
      line(('%s = chain of %d, by %s, window %d, from %s, %s the one before'):format(s.name, s.n, s.i, s.window, show_expr(s.init), s.x))
      part(s.body, 'write')
    elseif s.kind == 'assign' then line(('%s = %s = %s / 2 + %s'):format(s.name, s.variable, s.variable, show_expr(s.value)))
    elseif s.kind == 'recall' then line(('%s = %s'):format(s.name, s.variable))
    elseif s.kind == 'push' then line(('%s into %s'):format(show_expr(s.value), s.queue))
    elseif s.kind == 'call' then line(('%s = f%d(%s, %s)'):format(s.name, s.func, show_expr(s.args[1]), show_expr(s.args[2])))
    elseif s.kind == 'read' then line(('%s = %s[%s]'):format(s.name, s.array, show_expr(s.index)))
    else line(('%s = sum %s'):format(s.name, s.array)) end
  end
end

--- The program as text, for the message of a failure.
function M.show(program)
  local out = { 'seed ' .. program.seed }
  for i, f in ipairs(program.functions) do
    out[#out + 1] = ('  f%d(a, b)'):format(i)
    show_block(f.block, '    ', out)
    out[#out + 1] = '    gives ' .. show_expr(f.results[1])
  end
  show_block(program.block, '  ', out)
  return table.concat(out, '\n')
end

return M
