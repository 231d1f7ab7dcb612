--- One of the standard's own tests of its operators (spec/onnx_nodes.py): a model, and inputs and outputs as TensorProtos. Where numbers are
-- drawn at random only dtypes and shapes are compared.
local df = require 'dflow'
local read = require 'dflow.exchange.onnx.read'

local function numbers(t) return t:list() end

--- Does the case draw numbers, in its model or in a function of that?
local function draws(dir, bytes)
  return dir:find 'training_dropout' and not dir:find 'zero_ratio'
    or bytes:find('Bernoulli', 1, true) or bytes:find('RandomUniform', 1, true) or bytes:find('RandomNormal', 1, true)
end

local function differs(found, expected, drawn)
  if df.type(found) ~= 'tensor' then found = df.tensor(found, expected.dtype) end
  if found.dtype ~= expected.dtype then return ('dtype %s, %s is expected'):format(found.dtype, expected.dtype) end
  if table.concat(found.shape, ',') ~= table.concat(expected.shape, ',') then
    return ('shape [%s], [%s] is expected'):format(table.concat(found.shape, ','), table.concat(expected.shape, ','))
  end
  if drawn then return nil end
  local a, b = numbers(found), numbers(expected)
  local rtol = expected.dtype == 'bfloat16' and 2e-2 or expected.dtype == 'float16' and 1e-2 or 1e-3    -- of bfloat16 two units
  for i = 1, #b do
    local x, y = a[i], b[i]
    local same = x == y or (x ~= x and y ~= y)
    if not same and (type(x) ~= 'number' or type(y) ~= 'number' or not (math.abs(x - y) <= 1e-5 + rtol * math.abs(y))) then
      return ('element %d is %s, %s is expected'):format(i - 1, tostring(x), tostring(y))
    end
  end
end

--- NumPy has no bfloat16, and the cases were written from NumPy: there they are uint16.
local function as_bfloat16(t, d)
  if d ~= 'bfloat16' or t.dtype ~= 'uint16' then return t end
  return df.run(df.bitcast(t, 'bfloat16'), nil, { tensors = true })
end

--- What the file of a value of that type holds: a Tensor, or a list of them, of lists where an optional value is a sequence.
local function value_of(type_message, bytes, what)
  if type_message.tensor then return read.tensor(read.message('tensor', bytes), what) end
  local function tensors(m)
    local list = {}
    for i, t in ipairs(m.tensors) do list[i] = read.tensor(t, what) end
    return list
  end
  if type_message.sequence then return tensors(read.message('sequence', bytes)) end
  local m, of_lists = read.message('optional', bytes), type_message.optional.element.sequence
  local inner = of_lists and read.dtype_of(of_lists.element.tensor.d)
  if m.sequence then return { tensors(m.sequence), of_lists = inner } end
  return { m.tensor and read.tensor(m.tensor, what), of_lists = inner }
end

--- Such a value as it is fed.
local function fed(value, dtype)
  if df.type(value) == 'tensor' then return value end
  if not value.of_lists then return df.tensor_list(value, dtype) end
  return df.tensor_list({ value[1] and df.tensor_list(value[1], value.of_lists) }, 'variant')
end

--- Runs the case of that folder, of which bytes_of(path) gives the files: nil where all is as expected, else what is not.
return function(dir, bytes_of)
  local bytes = bytes_of(dir .. '/model.onnx')
  local g, model = df.import_onnx(bytes), read.message('model', bytes).graph
  local s, drawn = df.Session{ graph = g }, draws(dir, bytes)
  local set, types = dir .. '/test_data_set_0/', {}
  for _, list in ipairs{ model.inputs, model.outputs } do for _, v in ipairs(list) do types[v.name] = v.type end end
  local feeds, fetches = {}, {}
  for i, name in ipairs(g.onnx.inputs) do
    local file = bytes_of(set .. 'input_' .. i - 1 .. '.pb')
    if file then
      local x = g:output(name)
      feeds[x] = as_bfloat16(fed(value_of(types[name], file, 'input ' .. name), g.onnx.lists[name]), x.dtype)
    end
  end
  for i, name in ipairs(g.onnx.outputs) do
    local count = g.onnx.sequences[name]
    fetches[i] = count and {} or g:output(name)
    for k = 1, count or 0 do fetches[i][k] = g:output(('%s[%d]'):format(name, k - 1)) end
  end
  local results = s:run(fetches, feeds, { timeout = 20 })
  for i, name in ipairs(g.onnx.outputs) do
    local expected, found = value_of(types[name], bytes_of(set .. 'output_' .. i - 1 .. '.pb'), 'output ' .. name), results[i]
    if g.onnx.lists[name] then found = df.tensor_list_values(found, g.onnx.lists[name]) end
    if df.type(expected) == 'tensor' then expected, found = { expected }, { found } end
    if expected.of_lists and g.onnx.lists[name] == 'variant' then found = df.tensor_list_values(found[1], expected.of_lists) end
    if expected.of_lists then expected = expected[1] end
    if #expected ~= #found then return ('%s has %d elements, %d are expected'):format(name, #found, #expected) end
    for k, t in ipairs(expected) do
      local why = differs(found[k], as_bfloat16(t, df.type(found[k]) == 'tensor' and found[k].dtype or t.dtype), drawn)
      if why then return name .. ': ' .. why end
    end
  end
  s:close()
end
