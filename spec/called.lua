--- The public functions, and arguments that they may or may not take: for spec/front/called_spec.lua and spec/front/said_spec.lua.
local df = require 'dflow'

local namespaces = { [''] = df, ['nn.'] = df.nn, ['rnn.'] = df.rnn, ['train.'] = df.train, ['data.'] = df.data, ['plot.'] = df.plot,
                ['image.'] = df.image, ['signal.'] = df.signal, ['nn.metrics.'] = df.nn.metrics,
                ['nn.initializers.'] = df.nn.initializers }
-- What ends the program, waits for a user, writes, or tells what the program has or when it is.
local spared = { exit = true, repl = true, prompt = true, serve = true, learn = true, kernel = true, debug = true, init_repl = true, save = true, names = true,
                 config = true, version = true, devices = true, help = true, manual = true, progress = true, seed = true, tour = true, value = true, check = true }
local writes = { '^save', '^export', '^write', '[Ww]riter', '^load', '^restore', '^import', '^list_', '^print', 'time', '^benchmark', '^reset', '^start' }

local function is_spared(name)
  if spared[name] or name:sub(1, 1) == '_' then return true end
  for _, pattern in ipairs(writes) do if name:find(pattern) then return true end end
  return false
end

--- Every function by its name, sorted.
local function functions()
  local list = {}
  for prefix, namespace in pairs(namespaces) do
    local names, all = {}, {}
    for name in pairs(namespace) do names[#names + 1] = name end
    for _, name in ipairs(namespace == df and df.names() or {}) do names[#names + 1] = name end
    for _, name in ipairs(names) do all[name] = namespace[name] end
    for name, v in pairs(all) do
      local calls = type(v) == 'function' or type(v) == 'table' and (getmetatable(v) or {}).__call
      if type(name) == 'string' and calls and not is_spared(name) then list[#list + 1] = { prefix .. name, v } end
    end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

--- The arguments of each call, made anew for each function, and the placeholder among them.
local function calls()
  local o, m, i = df.float32{ 1, 2, 3 } * 2, df.float32{ { 1, 2 }, { 3, 4 } } + 1, df.int32(1) + 0
  local b, s, p = df.constant{ true, false }, df.constant({ 'a', 'b' }, 'string'), df.placeholder('float32', { -1, 2 }, 'p')
  local function f(...) return ... end
  return { {}, { 1 }, { -1 }, { 'x' }, { {} }, { true }, { f }, { o }, { m }, { i }, { b }, { s }, { p }, { df.tensor({ 1, 2 }, 'int32') }, { df.Variable({ 1.0, 2.0 }) }, { o, o },
           { m, m }, { m, o }, { o, 1 }, { m, i }, { o, { bogus = 1 } }, { m, { axis = 0 } }, { m, { axis = 'x' } }, { m, { axis = 7 } },
           { m, { name = 'n' } }, { m, { name = 3 } }, { m, { dtype = 'int32' } }, { { o, o } }, { { o, o }, 0 }, { f, o }, { m, m, m }, { p, p },
           { p, { 0, 1 } }, { { 1, 2 }, 'int32' }, { { 2, 2 }, 3 }, { 3, { activation = 'x' } }, { 3, { activation = df.relu } },
           { 3, 2, { padding = 'SAME' } }, { s, s }, { b, o, o }, { b, 1.5, 2.5 },
           { o, 'x' }, { 'float32', { 2 } }, { 0.5, { decay = 'x' } }, { 0 / 0 }, { o, { 1, 2 } } }, p
end

return { functions = functions, calls = calls }
