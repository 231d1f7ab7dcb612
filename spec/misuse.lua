--- misuse.lua: public functions, methods and dflow.core called with whatever there is, to see that nothing but an error
-- of ours comes of it: a table with a code, never a plain Lua error from a file of dflow's, never a crash or a hang.
--
--   dflow spec/misuse.lua SEED CALLS [core|public|itself]      under lua5.4 and luajit, too; in an empty folder
--
-- `itself` gives each function a table that holds itself, in one, two and three places.
--
-- It prints `N calls, N errors` and a line for each call that answered badly, and fails if there is one. The spec
-- (spec/house/misuse_spec.lua) samples it; `make fuzz` runs it for long.
local seed, calls, which = tonumber(arg[1]) or 1, tonumber(arg[2]) or 2000, arg[3] or 'public'
local df = require 'dflow'
local core = require 'dflow.backend'          -- dflow.core, or what stands for it under LuaJIT
local unpack = table.unpack or unpack

-- Numbers of our own: math.random differs between the Luas.
local state = seed % 2147483647 + 1
local function random(n)
  state = state * 48271 % 2147483647
  return math.floor(state / 2147483647 * n) + 1
end

--- Things to pass. Each entry makes one.
local makers, fixtures = {}, {}
local function add(fn) makers[#makers + 1] = fn end
local function value(v) add(function() return v end) end
for _, v in ipairs{ true, false, 0, 1, -1, 2, 3, 7, 1.5, -0.5, 2 ^ 31, 2 ^ 53, -2 ^ 63, 1e300, 1 / 0, 0 / 0, '', 'x', 'float32', 'int32',
                    'nope', 'axis', '\0', 'a/b:0', ('x'):rep(300), 'int8', 'SAME', 'keep' } do value(v) end
add(function() return nil end)
add(function() return {} end)
add(function() return { 1 } end)
add(function() return { 1, 2, 3 } end)
add(function() return { 2, 2 } end)
add(function() return { 1.5, 'x', true } end)
add(function() return { { 1, 2 }, { 3 } } end)
add(function() return { { 1, 2 }, { 3, 4 } } end)
add(function() return { axis = 0 } end)
add(function() return { name = 'n', dtype = 'float32', shape = { -1 } } end)
add(function() return { nonsense = true, [3.5] = 1 } end)
add(function() local t = {} t[1] = t return t end)
add(function() local t = {} for _ = 1, 300 do t = { t } end return t end)
add(function() return setmetatable({}, { __index = function() error('odd', 0) end }) end)
add(function() return setmetatable({}, { __tostring = function() error('odd', 0) end }) end)
add(function() return function() end end)
add(function() return function(...) return ... end end)
add(function() return function() error('odd', 0) end end)
add(function() return function() error({ 'odd' }) end end)
add(function() return function() return df.float32(1) end end)
add(function() return coroutine.create(function() end) end)
add(function() return io.stdout end)

local function fixture(name, make)
  local function one()
    if fixtures[name] == nil then
      local ok, v = pcall(make)
      fixtures[name] = ok and v or false
    end
    return fixtures[name] or nil
  end
  for _ = 1, 2 do add(one) end
  return one
end
local objects = {
  fixture('output', function() return df.float32{ 1, 2, 3 } * 2 end),
  fixture('matrix', function() return df.float32{ { 1, 2 }, { 3, 4 } } + 1 end),
  fixture('int', function() return df.int32(3) + 1 end),
  fixture('truth', function() return df.int32(3):lt(4) end),
  fixture('text', function() return df.constant({ 'a', 'b' }, 'string') end),
  fixture('placeholder', function() return df.placeholder('float32', { -1, 2 }) end),
  fixture('variable', function() return df.Variable({ 1.0, 2.0 }, { name = 'v' }) end),
  fixture('tensor', function() return df.tensor({ 1, 2, 3 }, 'float32') end),
  fixture('array', function() return df.TensorArray('float32', 3) end),
  fixture('queue', function() return df.FIFOQueue(2, { 'float32' }) end),
  fixture('graph', function() return df.default_graph() end),
  fixture('other graph', function() return df.Graph() end),
  fixture('foreign', function() return df.Graph():as_default(function() return df.float32(1) * 2 end) end),
  fixture('session', function() return df.Session{ timeout = 5 } end),
  fixture('closed session', function() local s = df.Session{} s:close() return s end),
  fixture('run', function() local h = df.start(df.float32(1) * 2) h:wait() return h end),
  fixture('layer', function() return df.nn.Dense(2) end),
  fixture('cell', function() return df.rnn.LSTMCell(2) end),
  fixture('optimizer', function() return df.train.Adam(0.1) end),
  fixture('slices', function() return df.gradients(df.gather(df.float32{ 1, 2 } * 1, { 0 }), df.float32{ 1, 2 } * 1) end),
}

-- Parts of an object that its own code calls, or that the user gave it.
local parts = { prepare = true, finish = true, sparse = true, dense = true, kernel_initializer = true, bias_initializer = true,
                activation = true, initializer = true, call = true, build = true }
-- What ends the program, waits for a person, is a way to write anywhere by its own name, calls other hosts, or has memory run out.
local spared = { exit = true, repl = true, prompt = true, serve = true, learn = true, kernel = true, debug = true, init_repl = true,
                 cluster_hosts = true, memory_fail = true }

local function functions_of(list, prefix, t, depth)
  for k, v in pairs(t) do
    if type(k) == 'string' and not spared[k] and k:sub(1, 1) ~= '_' then
      if type(v) == 'function' then list[#list + 1] = { prefix .. k, v }
      elseif type(v) == 'table' and depth > 0 and (k == 'nn' or k == 'rnn' or k == 'train' or k == 'data' or k == 'summary' or k == 'metrics' or k == 'image' or k == 'signal') then
        functions_of(list, prefix .. k .. '.', v, depth - 1)
      elseif type(v) == 'table' and getmetatable(v) and getmetatable(v).__call then
        list[#list + 1] = { prefix .. k, v }
      end
    end
  end
end

local list = {}
if which == 'core' then
  functions_of(list, 'core.', core, 0)
else
  for _, namespace in ipairs{ 'nn', 'rnn', 'train', 'data', 'summary', 'metrics', 'image', 'signal' } do pcall(function() return df[namespace] end) end
  functions_of(list, 'df.', df, 1)
  for _, namespace in ipairs{ 'nn', 'rnn', 'train', 'data', 'image', 'signal' } do
    local ok, t = pcall(function() return df[namespace] end)
    if ok and type(t) == 'table' and not rawget(df, namespace) then functions_of(list, 'df.' .. namespace .. '.', t, 0) end
  end
  for _, name in ipairs(df.names()) do
    if not rawget(df, name) then
      local ok, fn = pcall(function() return df[name] end)
      if ok and type(fn) == 'function' and not spared[name] then list[#list + 1] = { 'df.' .. name, fn } end
    end
  end
end
table.sort(list, function(a, b) return a[1] < b[1] end)

--- The names that an object of ours answers to.
local function methods_of(o)
  local names, seen = {}, {}
  local meta = getmetatable(o)
  local index = type(o) == 'table' and o or nil
  local function take(t)
    if type(t) ~= 'table' or seen[t] then return end
    seen[t] = true
    for k, v in next, t do if type(k) == 'string' and type(v) == 'function' and k:sub(1, 1) ~= '_' and not parts[k] then names[#names + 1] = k end end
    local m = getmetatable(t)
    if m then take(rawget(m, '__index')) end
  end
  take(index)
  if type(meta) == 'table' then take(rawget(meta, '__index')) take(rawget(meta, 'methods')) end
  table.sort(names)
  return names
end

local function describe(v)
  if type(v) == 'string' then return ('%q'):format(#v > 20 and v:sub(1, 20) .. '…' or v) end
  if type(v) == 'table' then
    local meta = getmetatable(v)
    return meta and meta.__name or 'table'
  end
  return tostring(v)
end

local done, errors, bad = 0, 0, {}
local function call(name, fn, self, has_self)
  local n = random(5) - 1
  local args, said = {}, {}
  for i = 1, n do
    args[i] = makers[random(#makers)]()
    local ok, text = pcall(describe, args[i])
    said[i] = ok and text or '?'
  end
  local text = ('%s(%s)'):format(name, table.concat(said, ', '))
  if os.getenv('DFLOW_MISUSE_LOUD') then io.stderr:write(text, '\n') end
  local ok, e
  if has_self then ok, e = pcall(fn, self, unpack(args, 1, n)) else ok, e = pcall(fn, unpack(args, 1, n)) end
  done = done + 1
  if ok then return end
  errors = errors + 1
  if type(e) == 'table' and (e.code or e[1] == 'odd') then return end
  local message = type(e) == 'string' and e or ('an error that is a %s'):format(type(e))
  if message == 'odd' then return end
  -- dflow.core is not for people: a bad argument is Lua's own kind of error there
  if which == 'core' and message:find('bad argument', 1, true) then return end
  bad[#bad + 1] = text .. '\n    ' .. message:gsub('\n.*', '')
end

if which == 'itself' then
  calls = 0
  local t = {}
  t[1] = t
  for _, entry in ipairs(list) do
    for n = 1, 3 do
      done = done + 1
      local ok, e = pcall(entry[2], unpack({ t, t, t }, 1, n))
      if not ok then
        errors = errors + 1
        if type(e) ~= 'table' or not e.code then bad[#bad + 1] = ('%s\n    %s'):format(entry[1], (tostring(e):gsub('\n.*', ''))) end
      end
    end
  end
end
for _ = 1, calls do
  if random(60) == 1 then                        -- from time to time all is new
    df.reset()
    fixtures = {}
    collectgarbage()
  end
  local choice = which == 'core' and 1 or random(3)
  if choice < 3 then
    local entry = list[random(#list)]
    call(entry[1], entry[2])
  else
    local o = objects[random(#objects)]()
    if o ~= nil then
      local names = methods_of(o)
      if #names > 0 then
        local name = names[random(#names)]
        local ok, fn = pcall(function() return o[name] end)
        if ok and type(fn) == 'function' then call(describe(o) .. ':' .. name, fn, o, random(8) ~= 1) end
      end
    end
  end
end
for _, line in ipairs(bad) do print(line) end
print(('%d calls of %d functions, %d errors, %d of them bad'):format(done, #list, errors, #bad))
os.exit(#bad == 0)
