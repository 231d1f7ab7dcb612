--- Ops whose Lua surface differs from the node: making values, products, random numbers, side effects.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local intern = require 'dflow.front.intern'
local arguments = require 'dflow.front.arguments'

local functions, def, required, int32 = arguments.functions, arguments.def, arguments.required, arguments.int32
local op, op1, to_output, typed = registry.op, registry.op1, convert.to_output, convert.typed
local Output = graph.Output

-- ---- making ---------------------------------------------------------------------------------------------------------
--- df.constant(v, dtype?, shape?)
def('constant', { 'v', 'dtype', 'shape' }, {}, function(o)
  required('constant', o, 'v')
  local d = o.dtype and dtypes.of(o.dtype)
  if getmetatable(o.v) == Output then errors.bad('constant takes a value; this is the Output %s', o.v.name) end
  if d and getmetatable(o.v) == tensor.Tensor then o.v = o.v:astype(dtypes.name[d]) end
  return convert.constant(graph.current(), o.v, d, o.shape, o.name, 'constant')
end)

--- df.float32(v, shape?, {name}) and so on: a constant of that dtype; an Output is cast.
for _, name in ipairs(dtypes.list) do
  functions[name] = function(v, shape, opts)
    if v == nil then errors.bad('%s: the value is missing', name) end
    if opts == nil and nest.is_plain(shape) and nest.has_names(shape) then shape, opts = nil, shape end
    opts = errors.options(opts, name, { 'shape', 'name' })
    if shape == nil then shape = opts.shape end
    local mt = type(v) == 'table' and getmetatable(v)
    if mt and mt ~= tensor.Tensor or (not mt and nest.is_structure(v)) then
      return functions.cast(v, name, { name = opts.name })
    end
    if mt then v = v:astype(name) end
    return convert.constant(graph.current(), v, dtypes.number[name], shape, opts.name, name)
  end
end

--- df.placeholder(dtype, shape?, name?): a value that every run is fed with.
local function placeholder(o)
  required('placeholder', o, 'dtype')
  if o.shape then tensor.check_static_shape(o.shape, 'placeholder') end
  return op('Placeholder', {}, { dtype = dtypes.name[dtypes.of(o.dtype)], shape = o.shape or nil, name = o.name })
end
def('placeholder', { 'dtype', 'shape', 'name' }, {}, placeholder)
local checked = functions.placeholder
--- df.placeholder(dtype, shape?, name?). Said in another order, or the shape as numbers, it says how.
function functions.placeholder(dtype, shape, name)
  if (type(dtype) == 'table' or type(dtype) == 'number') and (type(shape) == 'string' or shape == nil) then
    errors.bad("placeholder: the dtype comes first, then the shape: df.placeholder('%s', {…})", shape or 'float32')
  elseif type(dtype) == 'number' and type(shape) == 'number' then
    errors.bad("placeholder: the dtype comes first, then the shape, one list: df.placeholder('float32', {%s, %s})",
               tostring(dtype), tostring(shape))
  elseif type(shape) == 'number' and type(name) == 'number' then
    errors.bad("placeholder: the shape is one list: df.placeholder('float32', {%s, %s})", tostring(shape),
               tostring(name))
  end
  return checked(dtype, shape, name)
end

def('placeholder_with_default', { 'x', 'shape', 'name' }, {}, function(o)
  required('placeholder_with_default', o, 'x')
  local x = to_output(o.x, nil, nil, 'placeholder_with_default')
  if o.shape then tensor.check_static_shape(o.shape, 'placeholder_with_default') end
  return op('PlaceholderWithDefault', { x }, { shape = o.shape or x.shape, name = o.name })
end)

--- `name` is said that a shape is a list when its first arguments are numbers: f(3, 4) means f{3, 4}.
local function takes_one_shape(name, numbers)
  local plain = functions[name]
  functions[name] = function(...)
    local n = 0
    while type((select(n + 1, ...))) == 'number' do n = n + 1 end
    if n >= numbers then
      local dims = { ... }
      for i = 1, n do dims[i] = tostring(dims[i]) end
      errors.bad('%s: %d numbers were given; the shape is one list: write {%s}', name, n,
                 table.concat(dims, ', ', 1, n))
    end
    return plain(...)
  end
end

local function filled(name, value)
  def(name, { 'shape', 'dtype' }, {}, function(o)
    required(name, o, 'shape')
    local d = o.dtype and dtypes.of(o.dtype) or dtypes.FLOAT32
    local v = value
    if d == dtypes.BOOL then v = value == 1 elseif d == dtypes.STRING then v = '' end
    local shape = type(o.shape) == 'number' and { o.shape } or o.shape
    if nest.is_plain(shape) and not nest.is_structure(shape) then
      local n = 1
      for i = 1, #shape do n = n * shape[i] end
      if n >= 0 and n <= 4096 then
        return convert.constant(graph.current(), tensor.from(v, d, shape, name), nil, nil, o.name)
      end
    end
    local dims = typed(shape) and to_output(shape) or int32(shape)
    return op('Fill', { dims, to_output(v, d, dims.graph) }, { name = o.name })
  end)
end
filled('zeros', 0)
filled('ones', 1)
takes_one_shape('zeros', 2)
takes_one_shape('ones', 2)

def('fill', { 'shape', 'value' }, {}, function(o)
  required('fill', o, 'shape', 'value')
  local g = convert.graph_of(o.shape) or convert.graph_of(o.value)
  return op('Fill', { typed(o.shape) and o.shape or int32(type(o.shape) == 'number' and { o.shape } or o.shape, g),
                      to_output(o.value, nil, g, 'fill') },
            { name = o.name })
end)

takes_one_shape('fill', 3)

for name, type_name in pairs { zeros_like = 'ZerosLike', ones_like = 'OnesLike' } do
  def(name, { 'x', 'dtype' }, {}, function(o)
    required(name, o, 'x')
    local x = to_output(o.x, nil, nil, name)
    if o.dtype and dtypes.of(o.dtype) ~= graph.dtype(x) then
      return functions[name == 'zeros_like' and 'zeros' or 'ones'](op1('Shape', x), o.dtype)
    end
    return op(type_name, { x }, { name = o.name })
  end)
end

--- range(limit), range(start, limit), range(start, limit, delta). Whole numbers are int32.
def('range', { 'start', 'limit', 'delta' }, { 'dtype' }, function(o)
  local start, limit = o.start, o.limit
  if limit == nil then start, limit = 0, start end
  if limit == nil then errors.bad('range: limit is missing') end
  local delta = o.delta == nil and 1 or o.delta
  local d = o.dtype and dtypes.of(o.dtype) or typed(start) or typed(limit) or typed(delta)
  if not d then
    d = dtypes.INT32
    for _, v in ipairs { start, limit, delta } do
      local own = dtypes.of_bare(v)
      if not dtypes.is_whole(v) or (dtypes.has_integers and own == dtypes.FLOAT32) then d = dtypes.FLOAT32 break end
      if own == dtypes.INT64 then d = own end
    end
  end
  local g = convert.graph_of(start) or convert.graph_of(limit) or convert.graph_of(delta)
  return op('Range', { to_output(start, d, g, 'range'), to_output(limit, d, g, 'range'),
                       to_output(delta, d, g, 'range') }, { name = o.name })
end)

def('linspace', { 'start', 'stop', 'num' }, {}, function(o)
  required('linspace', o, 'start', 'stop', 'num')
  if type(o.num) == 'number' and not dtypes.is_whole(o.num) then
    errors.bad('linspace: num is how many numbers there are, not %s; df.range(start, stop, step) goes by a step',
               tostring(o.num))
  end
  local d = typed(o.start) or typed(o.stop) or dtypes.FLOAT32
  local g = convert.graph_of(o.start) or convert.graph_of(o.stop) or convert.graph_of(o.num)
  return op('LinSpace', { to_output(o.start, d, g, 'linspace'), to_output(o.stop, d, g, 'linspace'), int32(o.num, g) },
            { name = o.name })
end)
functions.lin_space = functions.linspace

--- eye(n, m?): ones on the diagonal of float32[n, m].
def('eye', { 'n', 'm' }, { 'dtype' }, function(o)
  required('eye', o, 'n')
  for _, key in ipairs{ 'n', 'm' } do
    if nest.is_plain(o[key]) then
      errors.bad('eye: %s is a table, one number is expected: df.eye(3) or df.eye(2, 3)', key)
    end
  end
  local rows = functions.range(int32(o.n))
  return functions.one_hot(rows, o.m or o.n, { dtype = o.dtype or 'float32' })
end)

-- ---- products -------------------------------------------------------------------------------------------------------
--- matmul(a, b): over the last two axes; more axes than two are batches.
def('matmul', { 'a', 'b' }, { 'transpose_a', 'transpose_b' }, function(o)
  required('matmul', o, 'a', 'b')
  local g = convert.graph_of(o.a) or convert.graph_of(o.b)
  local a = to_output(o.a, typed(o.a) or typed(o.b) or (type(o.a) == 'table' and dtypes.FLOAT32) or nil, g, 'matmul')
  local b = to_output(o.b, graph.dtype(a), g, 'matmul')
  if (graph.rank(a) or 3) > 2 or (graph.rank(b) or 3) > 2 then        -- of an unknown rank is what may be many
    return op('BatchMatMulV2', { a, b }, { adj_x = o.transpose_a, adj_y = o.transpose_b, name = o.name })
  end
  return op('MatMul', { a, b }, { transpose_a = o.transpose_a, transpose_b = o.transpose_b, name = o.name })
end)

-- Two matrices of one dtype, without options: most products.
do
  local any, id = functions.matmul, registry.need('MatMul').id
  local add_node, where, fresh, dtype_of = core.add_node, core.where, graph.fresh, graph.dtype
  function functions.matmul(a, b, ...)
    if select('#', ...) == 0 and getmetatable(a) == Output and getmetatable(b) == Output then
      local g = a.graph
      if b.graph == g and not (g.period and intern.open(g)) and (graph.rank(a) or 3) <= 2 and (graph.rank(b) or 3) <= 2
        and dtype_of(a) == dtype_of(b) then
        return fresh(g, add_node(g.handle, id, where(), a.node, a.index, b.node, b.index))
      end
    end
    return any(a, b, ...)
  end
end

--- einsum('ij,jk->ik', a, b)
function functions.einsum(equation, ...)
  local args, n, name = { ... }, select('#', ...), nil
  if n > 0 and nest.is_plain(args[n]) and nest.has_names(args[n]) then
    name = errors.options(args[n], 'einsum', { 'name' }).name
    args[n] = nil
    n = n - 1
  end
  if type(equation) ~= 'string' then
    errors.bad("einsum takes an equation such as 'ij,jk->ik' first, not %s", errors.describe(equation))
  end
  if n == 1 and nest.is_plain(args[1]) and nest.is_structure(args[1]) then args = args[1] end
  return op('Einsum', { args }, { equation = (equation:gsub('%s', '')), name = name })
end

--- tensordot(a, b, axes): the sum over the last `axes` axes of a and the first of b, or over {axes of a, axes of b}.
def('tensordot', { 'a', 'b', 'axes' }, {}, function(o)
  required('tensordot', o, 'a', 'b', 'axes')
  local g = convert.graph_of(o.a) or convert.graph_of(o.b)
  local a = to_output(o.a, typed(o.b), g, 'tensordot')
  local b = to_output(o.b, graph.dtype(a), g, 'tensordot')
  local ra, rb = graph.rank(a), graph.rank(b)
  if not ra or not rb then errors.bad('tensordot: both ranks must be known while building') end
  local la, lb = {}, {}
  if type(o.axes) == 'number' then
    if not (o.axes >= 0 and o.axes % 1 == 0 and o.axes <= math.min(ra, rb)) then
      errors.bad('tensordot: axes is %s; between 0 and %d axes can be summed over', tostring(o.axes), math.min(ra, rb))
    end
    for i = 1, o.axes do la[i], lb[i] = ra - o.axes + i - 1, i - 1 end
  else
    la, lb = (nest.is_plain(o.axes) and o.axes or {})[1], (nest.is_plain(o.axes) and o.axes or {})[2]
    if type(la) == 'number' then la, lb = { la }, { lb } end
    if type(la) ~= 'table' or type(lb) ~= 'table' or #la ~= #lb then
      errors.bad('tensordot: axes is a number or two lists of axes of one length')
    end
  end
  for i = 1, #la do
    for _, pair in ipairs{ { la[i], ra }, { lb[i], rb } } do
      local axis, rank = pair[1], pair[2]
      if type(axis) ~= 'number' or axis >= rank or axis < -rank then
        errors.bad('tensordot: there is no axis %s in a tensor of rank %d', tostring(axis), rank)
      end
    end
  end
  local letters, names_a, names_b, out = 'abcdefghijklmnopqrstuvwxyz', {}, {}, {}
  for i = 1, ra do names_a[i] = letters:sub(i, i) end
  for i = 1, rb do names_b[i] = letters:sub(ra + i, ra + i) end
  local summed = {}
  for i = 1, #la do
    local ia, ib = la[i] < 0 and la[i] + ra or la[i], lb[i] < 0 and lb[i] + rb or lb[i]
    names_b[ib + 1] = names_a[ia + 1]
    summed[names_a[ia + 1]] = true
  end
  for _, list in ipairs { names_a, names_b } do
    for _, c in ipairs(list) do
      if not summed[c] then out[#out + 1] = c end
    end
  end
  return op('Einsum', { { a, b } }, { equation = table.concat(names_a) .. ',' .. table.concat(names_b) .. '->'
      .. table.concat(out), name = o.name })
end)

-- ---- random numbers -------------------------------------------------------------------------------------------------
local function random_shape(shape)
  if type(shape) == 'number' then shape = { shape } end
  return typed(shape) and to_output(shape) or int32(shape)
end

--- An empty table where a bound or a mean may stand is options of which none is given.
local function without_empty(o, ...)
  for _, key in ipairs { ... } do
    local v = o[key]
    if errors.is_data(v) and next(v) == nil then o[key] = nil end
  end
end

def('random_uniform', { 'shape', 'min', 'max' }, { 'dtype', 'seed' }, function(o)
  required('random_uniform', o, 'shape')
  without_empty(o, 'min', 'max')
  local d = o.dtype and dtypes.of(o.dtype) or typed(o.min) or typed(o.max) or dtypes.FLOAT32
  local shape, low, high = random_shape(o.shape), o.min or 0, o.max
  if dtypes.is_int(d) then
    if high == nil then errors.bad('random_uniform of %s needs max', dtypes.name[d]) end
    return op('RandomUniformInt', { shape, to_output(low, d, shape.graph), to_output(high, d, shape.graph) },
              { seed = o.seed, name = o.name })
  end
  if high == nil then high = 1 end
  local alone = low == 0 and high == 1
  local x = op('RandomUniform', { shape }, { dtype = dtypes.name[d], seed = o.seed, name = alone and o.name or nil })
  if alone then return x end
  local width = (type(low) == 'number' and type(high) == 'number') and high - low
  or to_output(high, d, shape.graph) - low
  x = x * width
  return low == 0 and x or x + low
end)

local function is_standard(o) return (o.mean == nil or o.mean == 0) and (o.stddev == nil or o.stddev == 1) end

--- The name of the op that draws: the one asked for, where nothing comes behind it.
local function own_name(o) return is_standard(o) and o.name or nil end

--- x, of mean 0 and deviation 1, as the options say.
local function scaled(o, x)
  if o.stddev ~= nil and o.stddev ~= 1 then x = x * o.stddev end
  if o.mean ~= nil and o.mean ~= 0 then x = x + o.mean end
  return x
end

for name, type_name in pairs { random_normal = 'RandomStandardNormal', truncated_normal = 'TruncatedNormal' } do
  def(name, { 'shape', 'mean', 'stddev' }, { 'dtype', 'seed' }, function(o)
    required(name, o, 'shape')
    without_empty(o, 'mean', 'stddev')
    return scaled(o, op(type_name, { random_shape(o.shape) },
                        { dtype = o.dtype or 'float32', seed = o.seed, name = own_name(o) }))
  end)
end

for name, type_name in pairs { stateless_random_normal = 'StatelessRandomNormal',
    stateless_truncated_normal = 'StatelessTruncatedNormal' } do
  def(name, { 'shape', 'seed', 'mean', 'stddev' }, { 'dtype' }, function(o)
    required(name, o, 'shape', 'seed')
    local shape = random_shape(o.shape)
    return scaled(o, op(type_name, { shape, int32(o.seed, shape.graph) },
                        { dtype = o.dtype or 'float32', name = own_name(o) }))
  end)
end

def('stateless_random_uniform', { 'shape', 'seed', 'minval', 'maxval' }, { 'dtype' }, function(o)
  required('stateless_random_uniform', o, 'shape', 'seed')
  local shape = random_shape(o.shape)
  local low, high = o.minval or 0, o.maxval == nil and 1 or o.maxval
  local alone = low == 0 and high == 1
  local x = op('StatelessRandomUniform', { shape, int32(o.seed, shape.graph) },
               { dtype = o.dtype or 'float32', name = alone and o.name or nil })
  if alone then return x end
  return x * (high - low) + low
end)

--- The shape, the seed, and a parameter as an Output of `dtype` where it has none of its own.
local function stateless(name, o, parameter, dtype)
  required(name, o, 'shape', 'seed', parameter)
  local shape = random_shape(o.shape)
  return shape, int32(o.seed, shape.graph), to_output(o[parameter], dtypes.of(dtype), shape.graph, name)
end

def('stateless_random_gamma', { 'shape', 'seed', 'alpha', 'beta' }, { 'dtype' }, function(o)
  local shape, seed, alpha = stateless('stateless_random_gamma', o, 'alpha', o.dtype or 'float32')
  local x = op('StatelessRandomGammaV2', { shape, seed, alpha }, { name = o.beta == nil and o.name or nil })
  return o.beta == nil and x or x / o.beta
end)

def('stateless_random_poisson', { 'shape', 'seed', 'lam' }, { 'dtype' }, function(o)
  local shape, seed, lam = stateless('stateless_random_poisson', o, 'lam', 'float32')
  return op('StatelessRandomPoisson', { shape, seed, lam }, { dtype = o.dtype or 'int32', name = o.name })
end)

def('random_poisson', { 'lam', 'shape' }, { 'dtype', 'seed' }, function(o)
  required('random_poisson', o, 'lam', 'shape')
  local shape = random_shape(o.shape)
  return op('RandomPoissonV2', { shape, to_output(o.lam, dtypes.FLOAT32, shape.graph, 'random_poisson') },
    { dtype = o.dtype or 'float32', seed = o.seed, name = o.name })
end)

def('stateless_random_binomial', { 'shape', 'seed', 'counts', 'probs' }, { 'dtype' }, function(o)
  required('stateless_random_binomial', o, 'probs')
  local shape, seed, counts = stateless('stateless_random_binomial', o, 'counts', 'float32')
  return op('StatelessRandomBinomial',
            { shape, seed, counts, to_output(o.probs, graph.dtype(counts), shape.graph, 'stateless_random_binomial') },
    { dtype = o.dtype or 'int32', name = o.name })
end)

def('stateless_multinomial', { 'logits', 'num_samples', 'seed' }, { 'dtype' }, function(o)
  required('stateless_multinomial', o, 'logits', 'num_samples', 'seed')
  local logits = to_output(o.logits, dtypes.FLOAT32, nil, 'stateless_multinomial')
  return op('StatelessMultinomial', { logits, int32(o.num_samples, logits.graph), int32(o.seed, logits.graph) },
    { output_dtype = o.dtype or 'int64', name = o.name })
end)

for _, name in ipairs { 'random_uniform', 'random_normal', 'truncated_normal' } do takes_one_shape(name, 2) end

-- ---- side effects ---------------------------------------------------------------------------------------------------
--- df.print(x, {message=, summarize=}) or df.print(x, {a, b}, {message=}): x, and a line on standard error.
def('print', { 'x', 'data' }, { 'message', 'summarize', 'first_n' }, function(o)
  required('print', o, 'x')
  local data = o.data
  if data == nil then data = { o.x } elseif not errors.is_data(data) then data = { data } end
  local x = to_output(o.x, nil, nil, 'print')
  if o.data == nil then data = { x } end
  return op('Print', { x, data }, { message = o.message, summarize = o.summarize, first_n = o.first_n, name = o.name })
end)

def('assert', { 'condition', 'data' }, { 'message', 'summarize' }, function(o)
  required('assert', o, 'condition')
  local data = o.data or {}
  if not errors.is_data(data) then data = { data } end
  return op('Assert', { o.condition, data }, { message = o.message, summarize = o.summarize, name = o.name })
end)

--- A table without its name, nil if that was all, and the name.
local function unnamed(t)
  local rest = {}
  for key, v in pairs(t) do
    if key ~= 'name' then rest[key] = v end
  end
  return next(rest) ~= nil and rest or nil, t.name
end

--- df.group(a, b, ..., {name}) or df.group{a, b, name =}: an operation that runs when all of these have.
function functions.group(...)
  local list, name = { ... }, nil
  local last = list[#list]
  if nest.is_plain(last) and type(last.name) == 'string' then list[#list], name = unnamed(last) end
  if #list == 1 and nest.is_plain(list[1]) and not nest.has_names(list[1]) then list = list[1] end
  local members = {}
  for _, x in ipairs(list) do
    if nest.is_plain(x) then
      for _, y in ipairs((nest.flatten(x))) do members[#members + 1] = y end
    else
      members[#members + 1] = x
    end
  end
  return graph.control_dependencies(members, function() return registry.op('NoOp', {}, { name = name }) end)
end

--- df.no_op{name}: an operation that does nothing, behind what it is built under. The name may stand alone, as in
-- TensorFlow's Python.
function functions.no_op(opts)
  if type(opts) == 'string' then opts = { name = opts } end
  return registry.op('NoOp', {}, { name = errors.options(opts, 'no_op', { 'name' }).name })
end
