--- support: what the specs share: comparing values, checking gradients, comparing kernels.
--
--   local support = require 'spec.support'
--   support.near(df.run(x), { 1, 2 })                                   raises where they differ, names the place
--   support.check_gradient(function(a, b) return a * b end, { { 1, 2 }, 3 }, { order = 2 })
--   support.cpu_equals_ref(function(a) return df.exp(a) end, { df.tensor({ 1, 2 }, 'float16') })
local df = require 'dflow'
local core = require 'dflow.backend'
local dtypes = require 'dflow.front.dtypes'

local M = {}
local unpack = table.unpack or unpack

-- ---- values --------------------------------------------------------------------------------------------------
local function is_tensor(v)
  local mt = getmetatable(v)
  return type(mt) == 'table' and mt.__name == 'dflow.Tensor'
end
M.is_tensor = is_tensor

local function plain(v)
  if not is_tensor(v) then return v end
  if v.rank == 0 then return v:item() end
  return v:totable()
end

local function show(v)
  if type(v) == 'number' and v == math.floor(v) and math.abs(v) < 1e15 then return ('%d'):format(v) end
  if type(v) == 'number' then return ('%.9g'):format(v) end
  return tostring(v)
end

--- Are two numbers equal within the tolerances? NaN equals NaN, and an infinity only itself.
local function close(a, b, rtol, atol)
  if type(a) ~= 'number' or type(b) ~= 'number' then return a == b end
  if a == b or (a ~= a and b ~= b) then return true end
  if a ~= a or b ~= b or math.abs(a) == math.huge or math.abs(b) == math.huge then return false end
  return math.abs(a - b) <= atol + rtol * math.abs(b)
end

--- Are these two tensors of numbers with the same bytes? Most of those that are compared are.
local function alike(a, b)
  return is_tensor(a) and is_tensor(b) and a.dtype == b.dtype and a.dtype ~= 'string' and a.dtype ~= 'variant'
    and table.concat(a.shape, ',') == table.concat(b.shape, ',') and core.tensor_bytes(a) == core.tensor_bytes(b)
end

local function difference(a, b, rtol, atol, path)
  if alike(a, b) then return nil end
  a, b = plain(a), plain(b)
  if type(a) == 'table' and type(b) == 'table' then
    if #a ~= #b then return ('%shas %d elements, expected %d'):format(path, #a, #b) end
    for k, x in pairs(b) do
      if type(x) == 'table' or not close(a[k], x, rtol, atol) then              -- a path is made where it may have to be told
        local found = difference(a[k], x, rtol, atol, ('%s[%s]'):format(path, tostring(k)))
        if found then return found end
      end
    end
    for k in pairs(a) do
      if b[k] == nil then return ('%s has an element [%s], expected none'):format(path, tostring(k)) end
    end
    return nil
  end
  if close(a, b, rtol, atol) then return nil end
  return ('%s is %s, expected %s'):format(path, show(a), show(b))
end

--- near(found, expected, {rtol = 1e-5, atol = 1e-6}): true, or an error that names the first place where they differ.
-- Both are numbers, booleans, strings, Tensors, or tables of these.
function M.near(found, expected, opts)
  opts = opts or {}
  local wrong = difference(found, expected, opts.rtol or 1e-5, opts.atol or 1e-6, 'the value')
  if wrong then error((opts.what and opts.what .. ': ' or '') .. wrong, opts.level or 2) end
  return true
end

--- As near, without tolerance.
function M.same(found, expected, what)
  local held = M.near(found, expected, { rtol = 0, atol = 0, what = what, level = 3 })
  return held                                                 -- no tail call: the level counts this function, too
end

--- The message of the error that fn raises; an error if it raises none.
function M.message_of(fn, ...)
  local ok, e = pcall(fn, ...)
  if ok then error('no error was raised', 2) end
  -- Without the line it quotes and those that called it, which are the spec's own and say what is expected.
  return (tostring(e):gsub('\n +%d* | [^\n]*', ''):gsub('\n  called from [^\n]*', ''):gsub('\n  asked for at [^\n]*', ''))
end

--- The error that fn(...) raises, nil where it raises none; and the same where it has to raise one of dflow's.
function M.raised(fn, ...)
  local ok, e = pcall(fn, ...)
  return not ok and e or nil
end
function M.error_of(fn, ...)
  local e = M.raised(fn, ...) or error('no error was raised', 2)
  if type(e) ~= 'table' then error('not an error of dflow: ' .. tostring(e), 2) end
  return e
end

--- says(fn, words, ...): the error that fn raises, whose text has all of these words. fails(fn, code, words, ...): and that code.
function M.says(fn, ...)
  local e = M.raised(fn) or error('no error was raised', 2)
  for _, words in ipairs{ ... } do
    if not tostring(e):find(words, 1, true) then error(('%q was not said in: %s'):format(words, tostring(e)), 2) end
  end
  return e
end
function M.fails(fn, code, ...)
  local e = M.says(fn, ...)
  if type(e) ~= 'table' or e.code ~= code then error(('the code is not %s: %s'):format(code, tostring(e)), 2) end
  return e
end

--- What another program gave, which a script wrote down as Lua: path.lua.gz.
function M.recorded(path) return assert(load(df.data.read(path .. '.lua.gz'), '=' .. path))() end

--- Calls of busted's setup and teardown that give the tests the globals of the program.
function M.as_program(setup, teardown)
  local globals = { df = df, cond = df.cond, while_loop = df.while_loop, TensorArray = df.TensorArray, gradients = df.gradients }
  setup(function() for name, v in pairs(globals) do rawset(_G, name, v) end end)
  teardown(function() for name in pairs(globals) do rawset(_G, name, nil) end end)
end

-- ---- numbers that are the same in each run ----------------------------------------------------------------------
--- A generator: function() -> a number in [0, 1).
function M.random(seed)
  local state = (seed or 1) % 2147483646 + 1
  return function()
    state = state * 16807 % 2147483647
    return (state - 1) / 2147483646
  end
end

--- A flat table of n numbers from low to high.
function M.numbers(n, low, high, seed)
  local random, list = M.random(seed), {}
  for _ = 1, 5 do random() end
  for i = 1, n do list[i] = low + (high - low) * random() end
  return list
end

local function size_of(shape)
  local n = 1
  for _, d in ipairs(shape) do n = n * d end
  return n
end

--- A Tensor of this dtype and shape with such numbers.
function M.tensor(shape, low, high, dtype, seed)
  return df.tensor(M.numbers(size_of(shape), low, high, seed), 'float64', shape):astype(dtype or 'float64')
end

-- ---- gradients ---------------------------------------------------------------------------------------------------
local function as_tensor(v)
  if is_tensor(v) then return v end
  local probe = v
  while type(probe) == 'table' and not is_tensor(probe) do probe = probe[1] end
  return df.tensor(v, type(probe) == 'boolean' and 'bool' or 'float64')
end

local function flat(t)
  if t.rank == 0 then return { t:item() } end
  local list = t:reshape({ -1 }):totable()
  return list
end

--- Placeholders of these tensors' dtypes and shapes, and the feeds.
local function inputs_of(tensors)
  local xs, feeds = {}, {}
  for i, v in ipairs(tensors) do
    local t = as_tensor(v)
    xs[i] = df.placeholder(t.dtype, t.shape)
    feeds[xs[i]] = t
  end
  return xs, feeds
end

local function list_of(...)
  local n, first = select('#', ...), (...)
  if n == 1 and require('dflow.front.errors').is_data(first) then return first end
  return { ... }
end

--- The sum of all elements of the outputs, each with a weight of its own, so that errors do not cancel.
local function weighted(session, ys, feeds, seed)
  local total
  for i, y in ipairs(ys) do
    local value = session:run(y, feeds)
    local shape = is_tensor(value) and value.shape or {}
    local w = M.tensor(shape, 0.5, 1.5, 'float64', seed + i)
    local part = df.reduce_sum(df.cast(y, 'float64') * df.constant(w))
    total = total and total + part or part
  end
  return total
end

--- Checks the gradients of fn against central differences in float64.
--   fn       function(x, ...) -> an Output, or several, or a list; called once, in a graph of its own
--   tensors  one value per argument: a number, a table, a Tensor; those that are float64 are differentiated
--   opts     order = 1 (2 checks the gradient's gradient as well), h = 1e-5, rtol = 1e-5, atol = 1e-6, kernels
-- True, or an error that names argument and element.
function M.check_gradient(fn, tensors, opts)
  opts = opts or {}
  local g = df.Graph()
  return g:as_default(function()
    local session = df.Session{ graph = g, kernels = opts.kernels }
    local xs, feeds = inputs_of(tensors)
    local ys = list_of(fn(unpack(xs)))
    local wanted = {}
    for i, x in ipairs(xs) do
      if x.dtype == 'float64' then wanted[#wanted + 1] = i end
    end
    for order = 1, opts.order or 1 do
      local total = weighted(session, ys, feeds, 10 * order)
      local by = {}
      for i, at in ipairs(wanted) do by[i] = xs[at] end
      local grads = df.gradients(total, by, { unconnected = 'zero' })
      for i, at in ipairs(wanted) do
        local x, t = xs[at], feeds[xs[at]]
        grads[i] = grads[i] * df.constant(1, 'float64')      -- dense
        local found, numbers = session:run(grads[i], feeds), flat(t)
        found = is_tensor(found) and flat(found) or { found }
        if #found ~= #numbers then
          error(('order %d: the gradient by argument %d has %d elements, the argument %d'):format(order, at, #found, #numbers), 2)
        end
        for e = 1, #numbers do
          local v = numbers[e]
          local h = (opts.h or 1e-5) * math.max(1, math.abs(v))
          numbers[e] = v + h
          feeds[x] = df.tensor(numbers, 'float64', t.shape)
          local above = session:run(total, feeds)
          numbers[e] = v - h
          feeds[x] = df.tensor(numbers, 'float64', t.shape)
          local below = session:run(total, feeds)
          numbers[e] = v
          feeds[x] = t
          local expected = (above - below) / (2 * h)
          if not close(found[e], expected, opts.rtol or 1e-5, opts.atol or 1e-6) then
            session:close()
            error(('%sorder %d: the gradient by element %d of argument %d is %.12g, differences give %.12g'):format(
              opts.what and opts.what .. ': ' or '', order, e - 1, at, found[e], expected), 2)
          end
        end
      end
      ys = grads
    end
    session:close()
    return true
  end)
end

--- Tests of the first and second derivatives of functions, {name, fn, shapes of its arguments} each; and that the first is the same
-- where no shape is known while building.
function M.derivatives(it, cases)
  for _, case in ipairs(cases) do
    local name, fn, values = case[1], case[2], {}
    for i, shape in ipairs(case[3]) do values[i] = M.tensor(shape, -1, 1, 'float64', i) end
    it('the first and second derivative of ' .. name .. ' are the limits of differences', function()
      M.check_gradient(fn, values, { order = 2 })
    end)
    it('the derivative of ' .. name .. ' is the same where no shape is known while building', function()
      local xs, feeds = inputs_of(values)
      local blind = {}
      for i, x in ipairs(xs) do
        blind[i] = df.reshape(x, df.placeholder_with_default(df.constant(values[i].shape, 'int32'), { -1 }))
        assert(blind[i].shape == nil)
      end
      local function loss(list)
        local total = df.constant(0, 'float64')
        for i, y in ipairs(list_of(fn(unpack(list)))) do total = total + df.reduce_sum(df.sin(y * (i + 0.5))) end
        return total
      end
      local known, unknown = df.gradients(loss(xs), xs), df.gradients(loss(blind), xs)
      for i = 1, #xs do M.near(df.run(unknown[i] + 0, feeds), df.run(known[i] + 0, feeds)) end
    end)
  end
end

-- ---- kernels ---------------------------------------------------------------------------------------------------------
--- Runs fn with the CPU's kernels and with the reference's and compares all its outputs.
--   fn       function(x, ...) -> an Output, or several, or a list; called once, in a graph of its own
--   tensors  one value per argument, fed, so that nothing is folded while building
--   opts     rtol, atol as for near
-- Returns the list of what the CPU gave.
function M.cpu_equals_ref(fn, tensors, opts)
  opts = opts or {}
  local g = df.Graph()
  return g:as_default(function()
    local xs, feeds = inputs_of(tensors)
    local ys = list_of(fn(unpack(xs)))
    local fast, honest = df.Session{ graph = g, kernels = 'cpu' }, df.Session{ graph = g, kernels = 'ref' }
    local found, expected = {}, honest:run(ys, feeds)              -- at once: one op may give several of them
    for i, y in ipairs(ys) do
      found[i] = fast:run(y, feeds)
      local a, b = found[i], expected[i]
      if is_tensor(a) ~= is_tensor(b) or (is_tensor(a) and table.concat(a.shape, ',') ~= table.concat(b.shape, ',')) then
        error(('%soutput %d: the CPU gives %s, the reference %s'):format(opts.what and opts.what .. ': ' or '', i, tostring(a), tostring(b)), 2)
      end
      local wrong = difference(a, b, opts.rtol or 1e-5, opts.atol or 1e-6, ('output %d'):format(i))
      if wrong then error((opts.what and opts.what .. ': ' or '') .. wrong .. ' (the reference)', 2) end
    end
    fast:close()
    honest:close()
    return found
  end)
end

--- `it`, of a test of the host alone: the bits of its kernels, its memory, its engine. Pending where the environment places on a GPU, or anywhere.
function M.host_it(it, pending)
  return (os.getenv('DFLOW_DEFAULT_DEVICE') or ''):find('^gpu') and pending or M.ordered_it(it, pending)
end

--- `it`, of a test of the order of tokens, how many there are or how many lines are shown of them, or which device has what: pending where ops are
-- sent to random ones. A graph that is cut has messages besides, and without what only constants go into.
function M.ordered_it(it, pending)
  return (os.getenv('DFLOW_STRESS') or ''):find('devices:') and pending or it
end

--- `ordered_it`, of a test of what one owner of all devices does: pending over ranks too, each of which is an owner at least.
function M.one_owner_it(it, pending)
  return (os.getenv('DFLOW_STRESS') or ''):find('ranks:') and pending or M.ordered_it(it, pending)
end

--- `it` (or another of these), of a test that knows which of several ready tokens is next, or that two runs have theirs in one order: pending where
-- these are drawn.
function M.next_it(it, pending)
  return (os.getenv('DFLOW_STRESS') or ''):find('shuffle:') and pending or it
end

--- How much of a random sample is tried: `few` in `make test`, `all` in `make test-all` and nightly (DFLOW_TESTS=all).
function M.sample(few, all) return os.getenv 'DFLOW_TESTS' == 'all' and all or few end

--- `it` of what only `make test-all` runs, because it takes long.
function M.long_it(it) return M.sample(function() end, it) end

--- `host_it`, of a test of native code: pending, too, where tokens run in a random order, as no other engine takes a loop over then.
function M.native_it(it, pending)
  return (os.getenv('DFLOW_STRESS') or ''):find('shuffle:') and pending or M.host_it(it, pending)
end

--- How many thousands of Lua's instructions fn takes: what it costs on any machine, however busy. What C does for it is not counted.
function M.effort(fn)
  local jit, n = rawget(_G, 'jit'), 0
  if jit then
    jit.off()
    jit.flush()
  end
  debug.sethook(function() n = n + 1 end, '', 1000)
  local ok, why = pcall(fn)
  debug.sethook()
  if jit then jit.on() end
  if not ok then error(why, 0) end
  return n
end

-- What stands for a tensor of many numbers: its bytes. Where two differ, each shows its first number that does instead.
local Bits, of = {}, setmetatable({}, { __mode = 'k' })
function Bits.__eq(a, b)
  local p, q = of[a], of[b]
  if p.bytes == q.bytes and p.shape == q.shape then return true end
  local x, y, at = p.numbers(), q.numbers(), 1
  while M.bits(x[at]) == M.bits(y[at]) and at < #x do at = at + 1 end
  a.bytes, a.element, a.number = nil, at, ('%.17g'):format(x[at])
  b.bytes, b.element, b.number = nil, at, ('%.17g'):format(y[at] or 0 / 0)
  return false
end

--- The bytes of a tensor; nil where a number of it is not finite, or of a dtype whose NaNs would have to be looked for.
local IEEE = { float32 = { 4, '[\128-\255][\127\255]' }, float64 = { 8, '[\240-\255][\127\255]' } }
local function finite_bytes(t)
  local format = IEEE[t.dtype]
  if not format and not t.dtype:find '^u?int' then return nil end
  local bytes = core.tensor_bytes(t)
  local at = format and bytes:find(format[2])
  while at do
    if (at + 1) % format[1] == 0 then return nil end
    at = bytes:find(format[2], at + 1)
  end
  return bytes
end

--- What a run gave with its numbers by their bits. Which of two NaNs a sum hands on, and so its sign, is not promised: all are one.
function M.bits(v)
  if M.is_tensor(v) then
    local bytes = v.size > 64 and finite_bytes(v)
    if bytes then
      local held = setmetatable({ bytes = bytes, shape = v.dtype .. '[' .. table.concat(v.shape, ',') .. ']' }, Bits)
      local dtype, size = dtypes.number[v.dtype], v.size         -- the tensor itself may go: its memory is counted
      of[held] = { bytes = bytes, shape = held.shape, numbers = function()
        return core.tensor_list(core.tensor_from_bytes(dtype, { size }, bytes))
      end }
      return { held }                                         -- luassert asks no metatable at the top
    end
    v = v:totable()
  end
  if type(v) == 'table' then
    local t = {}
    for k, x in pairs(v) do t[k] = M.bits(x) end
    return t
  end
  if v ~= v then return 'nan' end
  return type(v) == 'number' and ('%a'):format(v) or v
end

--- The bits of all numbers in a value, tensors and tables of any depth, one after the other as a text.
function M.text(v)
  local out = {}
  local function add(x)
    if M.is_tensor(x) then x = flat(x) end
    if type(x) ~= 'table' then out[#out + 1] = tostring(M.bits(x)) return end
    if x.re then x = { x.re, x.im } end
    for _, e in ipairs(x) do add(e) end
  end
  add(v)
  return table.concat(out, ' ')
end

--- The types of the elementwise ops of `count` inputs, each of which may be of this dtype, that need no attribute.
function M.elementwise(count, dtype)
  local registry, list = require 'dflow.front.registry', {}
  for _, type in ipairs(registry.types()) do
    local e = registry.about(type, 'elementwise') and registry.entry(type)
    local takes = e and #e.inputs == count
    for _, a in ipairs(takes and e.inputs or {}) do
      local set = a.var and e.types[a.var] or a.set
      takes = takes and a.dtype == nil and (not set or set[dtypes.number[dtype]])
    end
    for _, a in ipairs(takes and e.attrs or {}) do takes = takes and not a.required end
    if takes then list[#list + 1] = type end
  end
  return list
end

--- A function that calls itself twice.
function M.fibonacci()
  local fib
  fib = df.func('fib', { 'int32' }, function(n)
    return df.cond(n:lt(2), function() return n end, function() return fib(n - 1) + fib(n - 2) end)
  end, { returns = { 'int32' } })
  return fib
end

return M
