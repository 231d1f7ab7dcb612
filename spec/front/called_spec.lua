-- What each public function does with arguments that it may or may not take: for each call a word, the dtype and shape that came, the kind of
-- thing, or the code of the error. spec/pages/calls.txt has them (spec/pages.lua), and calls.luajit.txt where a bare 1 is no integer: nothing is
-- taken or refused that was not.
local df = require 'dflow'
local pages = require 'spec.pages'
local page = rawget(_G, 'jit') and 'calls.luajit.txt' or 'calls.txt'
local unpack = table.unpack or unpack

local rooms = { [''] = df, ['nn.'] = df.nn, ['rnn.'] = df.rnn, ['train.'] = df.train, ['data.'] = df.data, ['plot.'] = df.plot, ['nn.metrics.'] = df.nn.metrics,
                ['nn.initializers.'] = df.nn.initializers }
-- What ends the program, waits for somebody, writes, or tells what the program has or when it is.
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
  for prefix, room in pairs(rooms) do
    local names, all = {}, {}
    for name in pairs(room) do names[#names + 1] = name end
    for _, name in ipairs(room == df and df.names() or {}) do names[#names + 1] = name end
    for _, name in ipairs(names) do all[name] = room[name] end
    for name, v in pairs(all) do
      local calls = type(v) == 'function' or type(v) == 'table' and (getmetatable(v) or {}).__call
      if type(name) == 'string' and calls and not is_spared(name) then list[#list + 1] = { prefix .. name, v } end
    end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

--- The arguments of each call; made anew for each function.
local function calls()
  local o, m, i = df.float32{ 1, 2, 3 } * 2, df.float32{ { 1, 2 }, { 3, 4 } } + 1, df.int32(1) + 0
  local b, s, p = df.constant{ true, false }, df.constant({ 'a', 'b' }, 'string'), df.placeholder('float32', { -1, 2 }, 'p')
  local function f(...) return ... end
  return { {}, { 1 }, { -1 }, { 'x' }, { {} }, { true }, { f }, { o }, { m }, { i }, { b }, { s }, { p }, { df.tensor({ 1, 2 }, 'int32') }, { df.Variable({ 1.0, 2.0 }) }, { o, o },
           { m, m }, { m, o }, { o, 1 }, { m, i }, { o, { bogus = 1 } }, { m, { axis = 0 } }, { m, { axis = 'x' } }, { m, { axis = 7 } },
           { m, { name = 'n' } }, { m, { name = 3 } }, { m, { dtype = 'int32' } }, { { o, o } }, { { o, o }, 0 }, { f, o }, { m, m, m }, { p, p },
           { p, { 0, 1 } }, { { 1, 2 }, 'int32' }, { { 2, 2 }, 3 }, { 3, { activation = 'x' } }, { 3, { activation = df.relu } },
           { 3, 2, { padding = 'SAME' } }, { s, s }, { b, o, o }, { b, 1.5, 2.5 },
           { o, 'x' }, { 'float32', { 2 } }, { 0.5, { decay = 'x' } }, { 0 / 0 }, { o, { 1, 2 } } }
end

local function word(v)
  local kind = df.type(v) or type(v)
  if kind == 'output' or kind == 'tensor' then return v.dtype .. (v.shape and '[' .. table.concat(v.shape, ',') .. ']' or '?') end
  if require('dflow.front.errors').is_data(v) then return '{' .. (v[1] ~= nil and word(v[1]) or '') .. '}' end
  return kind
end

--- What came of a call; a layer is called once more, with a matrix.
local function told(ok, first, ...)
  if not ok then return type(first) == 'table' and first.code or 'Lua: ' .. tostring(first) end
  local text = word(first) .. (select('#', ...) > 0 and ' and more' or '')
  if df.type(first) == 'layer' then text = text .. ' > ' .. told(pcall(first, df.float32{ { 1, 2 }, { 3, 4 } } + 1)) end
  return text
end

describe('a public function', function()
  for _, one in ipairs(functions()) do
    local name, fn = one[1], one[2]
    if pages.has(page, name) then
      it('takes what it took, and refuses what it refused: ' .. name, function()
        df.reset()
        local words, last, times = {}, nil, 0
        local function put()
          if last then words[#words + 1] = times > 1 and last .. ' x' .. times or last end
        end
        for _, arguments in ipairs(calls()) do
          local text = told(pcall(fn, unpack(arguments)))
          if text ~= last then
            put()
            last, times = text, 0
          end
          times = times + 1
        end
        put()
        local line = table.concat(words, ', ')
        assert.is_nil(line:find('Lua: ', 1, true), line)
        pages.section(page, name, line)
      end)
    end
  end
end)
