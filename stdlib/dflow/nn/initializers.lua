--- df.nn.initializers: how the weights of layers begin. Each is made with its options and called with a shape and a
-- dtype:
-- `df.nn.initializers.he_normal{seed = 1}({3, 4}, 'float32')` is an Output. Formulas and defaults are TensorFlow's.
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local control = require 'dflow.front.control'
local tensor = require 'dflow.front.tensor'
local ops = require 'dflow.front.ops'

local M = {}
local f = ops.functions

--- Inputs and outputs of one unit of a kernel: the last two axes, times the window's places before them.
local function fans(shape)
  local rank = #shape
  if rank == 0 then return 1, 1 end
  if rank == 1 then return shape[1], shape[1] end
  local places = 1
  for i = 1, rank - 2 do places = places * shape[i] end
  return places * shape[rank - 1], places * shape[rank]
end

local function uniform(shape, dtype, limit, seed)
  return f.random_uniform(shape, { min = -limit, max = limit, dtype = dtype, seed = seed })
end

-- The standard deviation of a normal distribution that is cut off at two of its own.
local CUT = 0.87962566103423978

--- variance_scaling{scale = 1, mode = 'fan_in', distribution = 'truncated_normal', seed}: the variance is scale / fan.
function M.variance_scaling(opts)
  opts = errors.options(opts, 'variance_scaling', { 'scale', 'mode', 'distribution', 'seed' })
  local scale, mode, distribution = opts.scale or 1, opts.mode or 'fan_in', opts.distribution or 'truncated_normal'
  if type(scale) ~= 'number' or not (scale > 0) then
    errors.bad('variance_scaling: scale is a number above 0, not %s', errors.describe(scale))
  end
  if mode ~= 'fan_in' and mode ~= 'fan_out' and mode ~= 'fan_avg' then
    errors.bad("variance_scaling: mode is 'fan_in', 'fan_out' or 'fan_avg', not %s", errors.describe(mode))
  end
  if distribution ~= 'truncated_normal' and distribution ~= 'untruncated_normal' and distribution ~= 'uniform' then
    errors.bad("variance_scaling: distribution is 'truncated_normal', 'untruncated_normal' or 'uniform', not %s",
               errors.describe(distribution))
  end
  return function(shape, dtype)
    local fan_in, fan_out = fans(shape)
    local fan = mode == 'fan_in' and fan_in or mode == 'fan_out' and fan_out or (fan_in + fan_out) / 2
    local variance = scale / math.max(1, fan)
    if distribution == 'uniform' then return uniform(shape, dtype, math.sqrt(3 * variance), opts.seed) end
    if distribution == 'untruncated_normal' then
      return f.random_normal(shape, { stddev = math.sqrt(variance), dtype = dtype, seed = opts.seed })
    end
    return f.truncated_normal(shape, { stddev = math.sqrt(variance) / CUT, dtype = dtype, seed = opts.seed })
  end
end

for name, given in pairs{
  glorot_uniform = { 1, 'fan_avg', 'uniform' }, glorot_normal = { 1, 'fan_avg', 'truncated_normal' },
  he_uniform = { 2, 'fan_in', 'uniform' }, he_normal = { 2, 'fan_in', 'truncated_normal' },
  lecun_uniform = { 1, 'fan_in', 'uniform' }, lecun_normal = { 1, 'fan_in', 'truncated_normal' },
} do
  M[name] = function(opts)
    opts = errors.options(opts, name, { 'seed' })
    return M.variance_scaling{ scale = given[1], mode = given[2], distribution = given[3], seed = opts.seed }
  end
end

--- zeros(), ones(), constant(value).
for _, name in ipairs{ 'zeros', 'ones' } do
  M[name] = function(opts)
    errors.options(opts, name, {})
    return function(shape, dtype) return f[name](shape, dtype) end
  end
end
function M.constant(value)
  if type(value) ~= 'number' then errors.bad('constant: the value is a number, not %s', errors.describe(value)) end
  return function(shape, dtype) return f.fill(shape, f.constant(value, dtype)) end
end

--- random_uniform{min = -0.05, max = 0.05, seed}, random_normal{mean = 0, stddev = 0.05, seed}, truncated_normal{the
-- same}.
function M.random_uniform(opts)
  opts = errors.options(opts, 'random_uniform', { 'min', 'max', 'seed' })
  return function(shape, dtype)
    return f.random_uniform(shape, { min = opts.min or -0.05, max = opts.max or 0.05, dtype = dtype, seed = opts.seed })
  end
end
for _, name in ipairs{ 'random_normal', 'truncated_normal' } do
  M[name] = function(opts)
    opts = errors.options(opts, name, { 'mean', 'stddev', 'seed' })
    return function(shape, dtype)
      return f[name](shape, { mean = opts.mean or 0, stddev = opts.stddev or 0.05, dtype = dtype, seed = opts.seed })
    end
  end
end

--- The columns of a [rows, columns] made orthonormal from left to right, in a while_loop: Gram and Schmidt's way, each
-- column twice, since once is not exact enough in float32. rows >= columns.
local function orthonormal(a, rows, columns)
  local _, q = control.while_loop(function(k) return f.less(k, columns) end, function(k, q)
    local v = f.reshape(f.gather(a, k, { axis = 1 }), { rows, 1 })
    for _ = 1, 2 do v = v - f.matmul(q, f.matmul(q, v, { transpose_a = true })) end
    v = v * f.rsqrt(f.reduce_sum(f.square(v)))
    return k + 1, q + v * f.expand_dims(f.one_hot(k, columns, { dtype = a.dtype }), 0)
  end, { f.int32(0), f.zeros({ rows, columns }, a.dtype) }, { name = 'orthogonal', back_prop = false })
  return q
end

--- orthogonal{gain = 1, seed}: rows or columns, whichever are fewer, are orthonormal; axes before the last count as
-- rows.
function M.orthogonal(opts)
  opts = errors.options(opts, 'orthogonal', { 'gain', 'seed' })
  return function(shape, dtype)
    if #shape < 2 then
      errors.bad('orthogonal: the shape %s has fewer than 2 axes', tensor.shape_text(dtype, shape))
    end
    local rows, columns = 1, shape[#shape]
    for i = 1, #shape - 1 do rows = rows * shape[i] end
    local tall, thin = math.max(rows, columns), math.min(rows, columns)
    local q = orthonormal(f.random_normal({ tall, thin }, { dtype = dtype, seed = opts.seed }), tall, thin)
    if rows < columns then q = f.transpose(q, { 1, 0 }) end
    return f.reshape(q, shape) * (opts.gain or 1)
  end
end

--- identity{gain = 1}: ones on the diagonal of a matrix.
function M.identity(opts)
  opts = errors.options(opts, 'identity', { 'gain' })
  return function(shape, dtype)
    if #shape ~= 2 then errors.bad('identity: the shape %s is no matrix', tensor.shape_text(dtype, shape)) end
    return f.eye(shape[1], shape[2], { dtype = dtype }) * (opts.gain or 1)
  end
end

-- functions of this module that make no initializer from nothing
local no_names = { check = true, value = true, constant = true }

local function names()
  local list = {}
  for name in pairs(M) do list[#list + 1] = not no_names[name] and name or nil end
  table.sort(list)
  return list
end

--- What a layer was given for an initializer, checked: a function(shape, dtype), the name of one of these, or a value.
-- @param given  nil: `default`
function M.check(given, default, what)
  if given == nil then return default end
  if type(given) == 'string' then
    if no_names[given] or not rawget(M, given) then
      errors.bad("%s: there is no initializer '%s'%s", what, given, errors.hint(given, names()))
    end
    return M[given]()
  end
  for name, make in pairs(M) do      -- the maker in place of what it makes: he_normal for he_normal()
    if given == make and not no_names[name] then return make() end
  end
  if type(given) == 'boolean' or type(given) == 'thread' or type(given) == 'userdata' then
    errors.bad('%s is a function(shape, dtype), a name, or a value, not %s', what, errors.describe(given))
  end
  return given
end

--- The initial value by what `check` gave: an Output of this shape and dtype.
function M.value(initializer, shape, dtype, what)
  if type(initializer) == 'number' then return f.fill(shape, f.constant(initializer, dtype)) end
  local v = initializer
  if type(v) == 'function' then v = v(shape, dtype) end
  if v == nil then errors.bad('%s gives nothing for the shape %s', what, tensor.shape_text(dtype, shape)) end
  local d = dtypes.of(dtype)
  if getmetatable(v) == tensor.Tensor then v = v:astype(dtype) end
  local o = convert.to_output(v, d, nil, what)
  local same = o.shape == nil or #o.shape == #shape
  for i = 1, same and o.shape and #shape or 0 do same = same and (o.shape[i] == shape[i] or o.shape[i] < 0) end
  if not same or graph.dtype(o) ~= d then
    errors.bad('%s gives %s, %s is expected', what, tensor.shape_text(o.dtype, o.shape),
               tensor.shape_text(dtype, shape))
  end
  return o
end

return setmetatable(M, { __index = function(_, name)
  if type(name) ~= 'string' then return nil end
  errors.bad("df.nn.initializers has no '%s'%s", name, errors.hint(name, names()))
end })
