--- Which of ONNX's operators work on values with their channels last where there are some (layout.lua), and which hand
-- on a type that dflow has not (narrow.lua): all operators are defined before.
local df = require 'dflow'
local import_ops = require 'dflow.exchange.onnx.import_ops'
local layout = require 'dflow.exchange.onnx.layout'

local narrow = require 'dflow.exchange.onnx.narrow'

local ops, help = import_ops.ops, import_ops.help

for name in ([[Abs Acos Acosh Add And Asin Asinh Atan Atanh Cast Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual
               HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal
               Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor]]):gmatch '%a+' do
  ops[name] = layout.elementwise(ops[name])
end

local quantise = ops.DynamicQuantizeLinear
function ops.DynamicQuantizeLinear(n, x)
  local y = layout.twin(n, x)
  local made = quantise(n, y or x)
  if y then made[1] = layout.second(n, made[1], #x.shape) end
  return made
end

--- n with another value of its attribute `axis`.
local function on_axis(n, axis)
  return setmetatable({ attr = function(name, default)
    if name == 'axis' then return axis end
    return n.attr(name, default)
  end }, { __index = n })
end

--- The operator fn, which works along one axis, on the value with its channels last where there is one.
local function along(name, default)
  local fn = ops[name]
  ops[name] = function(n, x, ...)
    local y, rank = layout.twin(n, x), x.shape and #x.shape
    if not y or n.opset < 13 then return fn(n, x, ...) end
    local axis = help.axis(n, n.attr('axis', default), rank)
    local made = fn(on_axis(n, layout.axis(axis, rank)), y, ...)
    if df.type(made) == 'output' then return layout.second(n, made, rank) end
    local out = {}
    for i, v in ipairs(made) do out[i] = layout.second(n, v, rank) end
    return out
  end
end
along('Split', 0)
along('Softmax', -1)
along('LogSoftmax', -1)

local concat = ops.Concat
function ops.Concat(n, ...)
  local list, rank = { ... }, nil
  for _, x in ipairs(list) do
    if layout.twin(n, x) then rank = #x.shape end
  end
  for _, x in ipairs(list) do
    if not rank or not x.shape or #x.shape ~= rank then return concat(n, ...) end
  end
  if not rank then return concat(n, ...) end
  for i, x in ipairs(list) do list[i] = layout.last(n, x, rank) end
  local axis = help.axis(n, n.attr('axis', 1), rank)
  return layout.second(n, df.concat(list, layout.axis(axis, rank)), rank)
end

local transpose = ops.Transpose
function ops.Transpose(n, x)
  local perm = table.concat(n.attr('perm', {}), ' ')
  if perm == '0 2 3 1' and layout.twin(n, x) then return df.identity(layout.twin(n, x)) end
  if perm == '0 3 1 2' then return layout.second(n, x, 4) end
  return transpose(n, x)
end

--- Means and greatest over the places, and over any axes that stay as 1.
local function over_axes(name, axes_of)
  local fn, ours = ops[name], ({ Mean = 'reduce_mean', Max = 'reduce_max', Sum = 'reduce_sum',
      Pool = 'reduce_mean' })[name:match '%u%l+$' or '']
  if name == 'GlobalMaxPool' then ours = 'reduce_max' end
  ops[name] = function(n, x, axes)
    local y, rank = layout.twin(n, x), x.shape and #x.shape
    local list = y and axes_of(n, axes, rank)
    if not list or #list == 0 then return fn(n, x, axes) end
    local keep, on = name:find '^Global' and 1 or n.attr('keepdims', 1), {}
    for i, d in ipairs(list) do on[i] = layout.axis(help.axis(n, d, rank), rank) end
    if keep == 0 and not (#list == rank - 2 and list[1] > 1) then return fn(n, x, axes) end
    if keep == 0 and rank == 3 then on[2] = 1 end
    local z = df[ours](y, { axis = on, keep_dims = keep == 1 })
    return keep == 1 and layout.second(n, z, rank) or z
  end
end
local function places(_, _, rank)
  local list = {}
  for d = 2, rank - 1 do list[#list + 1] = d end
  return list
end
local function said(n, axes, rank)
  local list = axes and help.known(axes) or not axes and n.attr 'axes' or nil
  if not list then return nil end
  for i, d in ipairs(list) do list[i] = d < 0 and d + rank or d end
  return list
end
over_axes('GlobalAveragePool', places)
over_axes('GlobalMaxPool', places)
over_axes('ReduceMean', said)
over_axes('ReduceMax', said)
over_axes('ReduceSum', said)

--- With what was measured in training the normalisation is a factor and a summand for each channel; of constants these
-- are constants.
local normalization = ops.BatchNormalization
function ops.BatchNormalization(n, x, scale, bias, mean, variance)
  local y, rank = layout.twin(n, x), x.shape and #x.shape
  if not y or n.attr('training_mode', 0) == 1 or n.count > 1 then
    return normalization(n, x, scale, bias, mean, variance)
  end
  local by = scale * df.rsqrt(variance + help.same(variance, n.attr('epsilon', 1e-5)))
  return layout.second(n, y * by + (bias - mean * by), rank)
end

for name in ([[Concat Expand Flatten Gather Identity Reshape Slice Squeeze Tile Transpose Unsqueeze]]):gmatch '%a+' do
  ops[name] = narrow.moving(ops[name])
end

return ops
