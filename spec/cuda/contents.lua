--- contents.lua: TensorFlow's arrays (TensorArrayV3), lists (TensorList) and reference variables, asked to run on gpu:0 without soft placement: the
-- handles are the host's and what they hold is the GPU's. Prints what does not give the host's numbers, how many agree, and for each program what
-- a second run copies from the GPU: what was fetched, and nothing that was held. A process of its own, as the driver is chosen when one opens it.
local df = require 'dflow'
local op = require('dflow.front.registry').op
local function none() return df.int32(-1) end            -- a shape of which nothing is known

local programs = {}

--- Six steps of x := tanh(2 x), each written to an array; all stacked, and the gradient of their sum, which has arrays of its own.
programs[1] = function(x)
  local h, flow = op('TensorArrayV3', { df.int32(6) }, { dtype = 'float32', element_shape = { 4 } })
  local _, _, f = df.while_loop(function(i) return i:lt(6) end, function(i, y, f)
    y = df.tanh(y * 2)
    return i + 1, y, op('TensorArrayWriteV3', { h, i, y, f })
  end, { df.int32(0), x, flow })
  local all = op('TensorArrayGatherV3', { h, df.int32{ 0, 5, 2 }, f }, { dtype = 'float32' })
  return { all, df.gradients(df.reduce_sum(all * all), x), op('TensorArraySizeV3', { h, f }) }
end

--- Rows of x to an array and back in another order, in pieces of several lengths, and a location that adds up.
programs[2] = function(x)
  local h, flow = op('TensorArrayV3', { df.int32(2) }, { dtype = 'float32', clear_after_read = false })
  flow = op('TensorArraySplitV3', { h, x, df.int64{ 3, 1 }, flow })
  local joined, lengths = op('TensorArrayConcatV3', { h, flow }, { dtype = 'float32' })
  local k, later = op('TensorArrayV3', { df.int32(4) }, { dtype = 'float32', clear_after_read = false })
  later = op('TensorArrayScatterV3', { k, df.int32{ 3, 1, 0, 2 }, joined * 2, later })
  local y = op('TensorArrayReadV3', { k, df.int32(3), later }, { dtype = 'float32' })
  local again = df.control_dependencies({ y }, function() return op('TensorArrayReadV3', { k, df.int32(3), later }, { dtype = 'float32' }) end)
  return { joined, lengths, y, df.gradients(y * again, x) }
end

--- A list that a loop pushes to, and that its gradient pops from: the sums of lists are lists.
programs[3] = function(x)
  local l = op('EmptyTensorList', { none(), none() }, { element_dtype = 'float32' })
  local _, y, out = df.while_loop(function(i) return i:lt(5) end, function(i, y, l)
    y = df.sin(y + 1)
    return i + 1, y, op('TensorListPushBack', { l, y })
  end, { df.int32(0), x, l })
  local all = op('TensorListStack', { out, none() }, { element_dtype = 'float32' })
  local loss = df.reduce_sum(all * all) + df.reduce_sum(op('TensorListGather', { out, df.int32{ 1, 1, 4 }, none() }, { element_dtype = 'float32' }) * y)
  return { all, op('TensorListLength', { out }), op('TensorListElementShape', { out }, { shape_type = 'int32' }), df.gradients(loss, x) }
end

--- Elements that were never set are zeros; pieces of several lengths; a list with another element.
programs[4] = function(x)
  local l = op('TensorListReserve', { df.int32{ 2 }, df.int32(3) }, { element_dtype = 'float32' })
  l = op('TensorListSetItem', { l, df.int32(1), df.slice(x, { 1 }, { 2 }) })
  local cut = op('TensorListSplit', { x, none(), df.int64{ 1, 0, 3 } })
  local joined, lengths = op('TensorListConcatV2', { cut, none(), df.constant({}, 'int64', { 0 }) }, { element_dtype = 'float32' })
  local rows = op('TensorListFromTensor', { x * 3, none() })
  return { op('TensorListStack', { l, none() }, { element_dtype = 'float32' }), joined, lengths,
           op('TensorListGetItem', { rows, df.int32(2), none() }, { element_dtype = 'float32' }) }
end

--- A reference variable that a loop adds to, scatters to and reads, and steps of optimizers on such variables.
programs[5] = function(x)
  local function variable(name)
    local v = op('VariableV2', {}, { dtype = 'float32', shape = { 4 }, shared_name = name })
    return v, op('Assign', { v, df.constant(0.5, 'float32', { 4 }) })
  end
  local v, set = variable 'v'
  local w, set_w = variable 'w'
  local m, set_m = variable 'm'
  return df.control_dependencies({ set, set_w, set_m }, function()
    local a = op('AssignAdd', { op('RefIdentity', { v }), x })
    a = op('ScatterSub', { a, df.int32{ 0, 3, 0 }, df.float32{ 1, 2, 3 } })
    a = op('ScatterNdUpdate', { a, df.int32{ { 1 } }, df.slice(x, { 0 }, { 1 }) })
    local step = op('ApplyGradientDescent', { a, df.float32(0.1), a * a })
    step = op('ApplyMomentum', { step, m, df.float32(0.1), x, df.float32(0.9) })
    local rows = op('SparseApplyAdagrad', { w, m, df.float32(0.1), df.float32{ 1, 2 }, df.int32{ 2, 0 } })
    return df.control_dependencies({ step, rows }, function() return { v * 1, w + x, m * 2, op('IsVariableInitialized', { v }) } end)
  end)
end

--- What two runs of a program give on a device, as text, and how many copies came from there in the second.
local function run(device, make)
  local g = df.Graph()
  return g:as_default(function()
    local x = df.placeholder('float32', { 4 })
    local ys = df.device(device, function() return make(x * 1) end)
    local s, out = df.Session{ graph = g, devices = { 'cpu:0', 'gpu:0' } }, {}
    local feeds, was = { [x] = df.tensor({ 0.5, -1.25, 2, 0.125 }, 'float32') }, nil
    for _ = 1, 2 do
      was = s:devices()[2]
      for i, v in ipairs(s:run(ys, feeds)) do out[i] = tostring(v) end
    end
    local is = s:devices()[2]
    s:close()
    return table.concat(out, ' '), (is.copies_out or 0) - (was.copies_out or 0), #ys
  end)
end

local agreeing, copies = 0, {}
for k, make in ipairs(programs) do
  local ok, here = pcall(run, 'cpu:0', make)
  local also, there, copied = pcall(run, 'gpu:0', make)
  if ok and also and here == there then agreeing = agreeing + 1
  else print(('%d: %s\n  there: %s'):format(k, tostring(here), tostring(there))) end
  copies[k] = copied or 'none'
end
print(('%d of %d agree, %s copied'):format(agreeing, #programs, table.concat(copies, ' ')))
