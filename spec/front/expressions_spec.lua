-- Functions that are made of ops, with each of their options (spec/expressions.lua): what they give, or say, is what it was when spec/pages/expressions.txt
-- was written, within what another machine's roundings do.
local df = require 'dflow'
local pages = require 'spec.pages'
local sums = require 'spec.sums'
local support = require 'spec.support'
local expressions = require 'spec.expressions'
local it = support.host_it(it, pending)
local unpack = table.unpack or unpack

-- ---- what the expressions are made of ---------------------------------------------------------------------------------
local env = { df = df, need = require, image = df.image, signal = df.signal, nn = df.nn, rnn = df.rnn, train = df.train }

function env.V(...) return df.constant(support.tensor({ ... }, -2, 2, 'float32', 11)) end      -- a value
function env.P(...) return df.constant(support.tensor({ ... }, 0, 1, 'float32', 12)) end       -- a part, from 0 to 1
function env.W(n)                                                                                 -- the one Variable of the expression
  env.variable = env.variable or df.Variable(support.tensor({ n }, -2, 2, 'float32', 13), { name = 'w' })
  return env.variable
end
function env.U(h, w, c, d, seed)                                                                  -- bytes
  local shape = d and { h, w, c, d } or { h, w, c }
  return df.cast(df.constant(support.tensor(shape, 0, 255.9, 'float32', seed or 14)), 'uint8')
end
function env.I(...) return df.cast(df.constant(support.tensor({ ... }, 0, 5.9, 'float32', 15)), 'int32') end

--- A kernel of weights that differ.
function env.ramp(shape, dtype)
  local n = 1
  for _, d in ipairs(shape) do n = n * d end
  return df.constant(support.tensor(shape, -1, 1, dtype, n))
end
--- A metric of some labels and predictions, in turn: what each update gives, what is there then, and when it is begun anew.
function env.fed(metric, ...)
  local out = {}
  for _, arguments in ipairs{ ... } do
    local value, update, clear = metric(unpack(arguments, 1, 3))
    for _, x in ipairs{ update, update, value, clear, value } do out[#out + 1] = df.run(x) or nil end
  end
  return unpack(out)
end
--- A layer as it tells itself, before it is called and after.
function env.shown(layer, x)
  local before = tostring(layer)
  layer(x)
  return (before .. ' | ' .. tostring(layer)):gsub('\n', '; ')
end
--- A learning rate at some steps.
function env.schedule(fn, rate, ...)
  local step, out = df.placeholder('int32', {}, 'step'), {}
  local now = fn(rate, step, ...)
  for i, n in ipairs{ 0, 1, 4, 5, 9, 10, 11, 20, 25, 60 } do out[i] = df.run(now, { [step] = n }) end
  return unpack(out)
end
--- What three steps of an optimizer make of a variable.
function env.steps(optimizer, options)
  local v, out = df.Variable(support.tensor({ 4 }, -2, 2, 'float32', 16), { name = 'v' }), {}
  local step = optimizer:minimize(df.reduce_sum(df.square(v) * df.constant{ 1, 2, 0.5, 0 }), options)
  for i = 1, 3 do
    df.run(step)
    out[i] = df.run(v)
  end
  return unpack(out)
end

-- ---- what they give ---------------------------------------------------------------------------------------------------
--- A list's elements, a value by itself, and no names of tensors.
local function results(...)
  local list, values = { ... }, {}
  if select('#', ...) == 1 and type(list[1]) == 'table' and not df.type(list[1]) then list = list[1] end
  local function add(v)
    local kind = df.type(v)
    if kind == 'output' or kind == 'variable' then values[#values + 1] = df.run(v, nil, { tensors = true })
    elseif kind == 'operation' then df.run(v)
    elseif kind == 'tensor' or type(v) == 'number' or type(v) == 'boolean' then values[#values + 1] = v
    elseif type(v) == 'table' and not kind then
      local keys = {}
      for key in pairs(v) do keys[#keys + 1] = tostring(key) end
      table.sort(keys)
      for _, key in ipairs(keys) do add(v[tonumber(key) or key]) end
    else values[#values + 1] = tostring(v) end
  end
  for i = 1, math.max(#list, select('#', ...)) do add(list[i]) end
  return values
end

local function line_of(values)
  for i, v in ipairs(values) do if type(v) == 'string' then values[i] = false; return (tostring(v):gsub('\n', '; ')) end end
  return sums.line(values)
end

local function told(text)
  df.reset()
  df.set_random_seed(5)
  env.variable = nil
  local fn = assert((loadstring or load)('return ' .. text))
  if setfenv then setfenv(fn, setmetatable(env, { __index = _G })) else fn = assert(load('return ' .. text, text, 't', setmetatable(env, { __index = _G }))) end
  local ok, line = pcall(function() return line_of(results(fn())) end)
  if ok then return line end
  return 'error: ' .. tostring(type(line) == 'table' and line.message or line):match '^[^\n]*'
end

describe('what is made of ops gives what it gave:', function()
  local rooms = {}
  for room in pairs(expressions) do rooms[#rooms + 1] = room end
  table.sort(rooms)
  for _, room in ipairs(rooms) do
    local part, number = {}, 0
    local function sentence()
      number = number + 1
      local mine, name = part, ('%s %d'):format(room, number)
      it(name, function()
        local lines = {}
        for i, text in ipairs(mine) do lines[2 * i - 1], lines[2 * i] = text, '  ' .. told(text) end
        pages.section('expressions.txt', name, table.concat(lines, '\n'), function(was, is) return sums.same(was, is, 1e-4) end)
      end)
      part = {}
    end
    for text in expressions[room]:gmatch '([^\n]*%S)' do
      part[#part + 1] = text:match '^%s*(.*)$'
      if #part == 10 then sentence() end
    end
    if #part > 0 then sentence() end
  end
end)
