--- numbers(shape, k, scale): a float32 Tensor of numbers from -1 to below 1 that only depend on shape and k; the same as in
-- spec/training/tensorflow_layers.py, so that TensorFlow's results can be compared without writing its inputs down.
local df = require 'dflow'

return function(shape, k, scale)
  local n, list = 1, {}
  for _, d in ipairs(shape) do n = n * d end
  for i = 0, n - 1 do list[i + 1] = (scale or 1) * ((i * 7919 + k * 104729) % 1000 / 500 - 1) end
  return df.tensor(list, 'float32', shape)
end
