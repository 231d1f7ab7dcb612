-- Functions that are made of ops, with each of their options (spec/expressions.lua). What they give, or say is wrong, is the same whether their inputs are
-- constants or known only when they run; is as near as float32 is to what they give in float64; and is another thing with another option.
local df = require 'dflow'
local support = require 'spec.support'
local expressions = require 'spec.expressions'
local it = support.host_it(it, pending)
local unpack = table.unpack or unpack

-- ---- what the expressions are made of ---------------------------------------------------------------------------------
local env = { df = df, need = require, image = df.image, signal = df.signal, nn = df.nn, rnn = df.rnn, train = df.train }
local late, float                 -- are values known only when they run; their dtype

--- A value that is known at once, or not before it runs.
local function given(t)
  if not late then return df.constant(t) end
  return df.placeholder_with_default(t, t.shape)
end

function env.V(...) return given(support.tensor({ ... }, -2, 2, float, 11)) end      -- a value
function env.P(...) return given(support.tensor({ ... }, 0, 1, float, 12)) end       -- a part, from 0 to 1
function env.W(n)                                                                                 -- the one Variable of the expression
  env.variable = env.variable or df.Variable(support.tensor({ n }, -2, 2, float, 13), { name = 'w' })
  return env.variable
end
function env.U(h, w, c, d, seed)                                                                  -- bytes
  local shape = d and { h, w, c, d } or { h, w, c }
  return given(df.run(df.cast(df.constant(support.tensor(shape, 0, 255.9, 'float32', seed or 14)), 'uint8'), nil, { tensors = true }))
end
function env.I(...) return given(df.run(df.cast(df.constant(support.tensor({ ... }, 0, 5.9, 'float32', 15)), 'int32'), nil, { tensors = true })) end

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
  local v, out = df.Variable(support.tensor({ 4 }, -2, 2, float, 16), { name = 'v' }), {}
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

--- What the expression gives: a list of values, or nil and its error's message; `known`: its inputs are constants.
local function given_by(text, known, dtype)
  df.reset()
  df.set_random_seed(5)
  env.variable, late, float = nil, not known, dtype or 'float32'
  local fn = assert((loadstring or load)('return ' .. text))
  if setfenv then setfenv(fn, setmetatable(env, { __index = _G })) else fn = assert(load('return ' .. text, text, 't', setmetatable(env, { __index = _G }))) end
  local ok, v = pcall(function() return results(fn()) end)
  if ok then return v end
  assert(type(v) == 'table' and v.code and v.message or text:find '^need' or text:find 'nothing$' or text:find 'other$', text .. ': ' .. tostring(v))
  return nil, (type(v) == 'table' and v.message or tostring(v)):match '^[^\n]*', v
end

local function number_of(v)
  if type(v) == 'table' then return { v.re, v.im } end
  return { type(v) == 'boolean' and (v and 1 or 0) or tonumber(v) }
end

--- Where two lists of values differ by more than rtol of the largest of a value; dtypes may differ when `any` dtype will do.
local function difference(a, b, rtol, any)
  if #a ~= #b then return ('%d values and %d'):format(#a, #b) end
  for i, x in ipairs(a) do
    local y = b[i]
    if support.is_tensor(x) ~= support.is_tensor(y) then return tostring(x) .. ' and ' .. tostring(y) end
    if not support.is_tensor(x) then
      if any and type(y) == 'string' then y = y:gsub('float64', 'float32') end
      if x ~= y and not (type(x) == 'number' and type(y) == 'number' and (x ~= x and y ~= y or math.abs(x - y) <= rtol * (math.abs(x) + 1))) then
        return tostring(x) .. ' and ' .. tostring(y)
      end
    else
      if not any and x.dtype ~= y.dtype or table.concat(x.shape, ',') ~= table.concat(y.shape, ',') then return tostring(x) .. ' and ' .. tostring(y) end
      local p, q, most = x:list(), y:list(), 1
      for k, v in ipairs(p) do
        p[k] = number_of(v)
        for _, n in ipairs(p[k]) do if n == n and math.abs(n) < math.huge then most = math.max(most, math.abs(n)) end end
      end
      for k, v in ipairs(q) do
        for j, n in ipairs(number_of(v)) do
          local m = p[k][j]
          if m ~= n and not (m ~= m and n ~= n) and not (math.abs(m - n) <= rtol * most) then return ('element %d: %s and %s'):format(k, m, n) end
        end
      end
    end
  end
end

--- A message without names of nodes, values and what differs where a shape is asked for.
local function bare(message) return (message:gsub('`[^`]*`', '`'):gsub('%-?%d+%.%d+', 'N')) end

local list, functions = {}, {}
for folder, text in pairs(expressions) do
  for line in text:gmatch '([^\n]*%S)' do
    line = line:match '^%s*(.*)$'
    list[#list + 1] = { folder, line }
  end
end
table.sort(list, function(a, b) return a[1] < b[1] or a[1] == b[1] and a[2] < b[2] end)
for _, e in ipairs(list) do
  local text = e[2]:gsub('^[%(#]+', '')
  for _, wrapper in ipairs{ 'fed', 'shown', 'steps', 'schedule', 'df.run' } do text = text:gsub('^' .. wrapper .. '%(', '') end
  local name = text:match '^need%(.-%)[%w_.]+' or text:match '^function' or text:match '^[%w_.]+'
  functions[name] = functions[name] or {}
  table.insert(functions[name], e[2])
end

local DRAWN = 'peepholes'           -- weights that are drawn, by the number of nodes before them
-- Assertions on values: while the graph is built they say what was found, when it runs where as well.
local LATE = { ['df.assert_near'] = true, ['df.verify_tensor_all_finite'] = true }
-- Random, or of a dtype that the expression names itself; what is lost in float32.
local ONE_DTYPE = { 'random_', 'dropout', 'Dropout', 'float16', 'int8', 'uint', 'float64', 'dtype', 'shuffle', 'lbfgs', 'conjugate', 'Sample', 'random',
                    'initializers', 'told', 'peepholes' }
-- What an op or a part says, by its own name.
local SAID = { ['image.crop_to_bounding_box'] = true, ['image.pad_to_bounding_box'] = true, ['nn.attention'] = true, ['nn.metrics.bleu'] = true, ['train.SGD'] = true,
               ['rnn.dynamic_rnn'] = true }
-- Options that are what is done without them, or that change nothing here.
local ALIKE = {
  ["image.resize(P(5, 8, 3), {7, 5}, {method = 'nearest', half_pixel_centers = true})"] = true, ["image.resize(P(2, 5, 8, 3), {7, 5}, {name = 'smaller'}).name"] = true,
  ["nn.Flatten()(df.placeholder('float32', {2, 0, -1})).shape"] = true, ["nn.Flatten()(df.placeholder('float32', {2, -1, 3})).shape"] = true,
  ["nn.mean_squared_error(V(3, 4), P(3, 4), {reduction = 'mean', weights = 2})"] = true, ["nn.softmax_cross_entropy(df.one_hot({{0, 3, 1}}, 4), V(1, 3, 4))"] = true,
  ["signal.frame(V(2, 9, 3), 4, 2, {axis = -2})"] = true, ["df.lstsq(V(5, 3), V(5, 2), {fast = false})"] = true, ["nn.Flatten()(df.zeros{2, 0, 3}).shape"] = true,
  ["signal.inverse_stft(signal.stft(V(20), 6, 3, {fft_length = 9}), 6, 3, {fft_length = 9})"] = true, ["steps(train.MixedPrecision(train.SGD(0.1)))"] = true,
}

describe('what is made of ops', function()
  local names = {}
  for name in pairs(functions) do names[#names + 1] = name end
  table.sort(names)
  local compared = { late = 0, wide = 0, error = 0, option = 0 }

  for _, name in ipairs(names) do
    it('does not mind when its inputs are known, nor in which dtype, and heeds its options: ' .. name, function()
      local seen = {}
      for _, text in ipairs(functions[name]) do
        local early, said, e = given_by(text, true)
        local fed, said_late, e_late = given_by(text, false)
        if early and fed then
          compared.late = compared.late + 1
          if not text:find(DRAWN, 1, true) then assert.is_nil(difference(early, fed, 2e-5), text) end
        elseif not LATE[name] then
          assert.equal(said and bare(said), said_late and bare(said_late), text)
          if type(e) == 'table' then assert.equal(e.code, e_late.code) end
          compared.error = compared.error + 1
          if type(e) == 'table' and not SAID[name] then              -- it names the function, and the option if there is one
            local option = text:match '{(%a[%w_]*) = [^{}=]*}%)$'
            assert.is_truthy(not option or e.message:find(option:match '^%a+', 1, true), text .. ': ' .. e.message)
            assert.is_truthy(e.message:lower():find(name:match '[%w]+$':sub(1, 5):lower(), 1, true), text .. ': ' .. e.message)
          end
        end
        local own = false
        for _, word in ipairs(ONE_DTYPE) do own = own or text:find(word, 1, true) end
        if early and not own then
          local wide = given_by(text, true, 'float64')
          if wide then
            compared.wide = compared.wide + 1
            assert.is_nil(difference(early, wide, 2e-4, true), text)
          end
        end
        if early and not ALIKE[text] then
          for other, v in pairs(seen) do
            local same = not difference(early, v, 1e-6)
            assert.is_false(same, text .. ' gives what ' .. other .. ' gives')
          end
          if #early > 0 then seen[text], compared.option = early, compared.option + 1 end
        end
      end
    end)
  end

  it('has been compared', function()
    assert.is_true(compared.late > 450 and compared.wide > 250 and compared.error > 90 and compared.option > 400,
                   ('%d, %d, %d, %d'):format(compared.late, compared.wide, compared.error, compared.option))
  end)
end)
