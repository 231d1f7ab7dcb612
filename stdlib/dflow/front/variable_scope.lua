--- Variables by name: variable_scope and get_variable, as TensorFlow 1's.
--
-- A graph keeps what get_variable made by full name. The scope says what a name begins with and whether variables are
-- made, shared, or either; loops, branches and name scopes have no part in the names.
local protect = require 'dflow.front.protect'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local variable = require 'dflow.front.variable'
local ops = require 'dflow.front.ops'
local tensor = require 'dflow.front.tensor'
local core = require 'dflow.backend'

local M = {}
local f = ops.functions
local Scope = { __name = 'dflow.VariableScope' }
Scope.__index = Scope
Scope.__tostring = function(s) return ("variable scope '%s'"):format(s.name) end

--- From here on the scope's variables are shared, not made.
function Scope:reuse_variables() self.reuse = true end

local function scope_of(g)
  if not g.variable_scope then g.variable_scope = setmetatable({ name = '', reuse = false }, Scope) end
  return g.variable_scope
end

local function check_reuse(reuse, what)
  if reuse ~= nil and type(reuse) ~= 'boolean' and reuse ~= 'auto' then
    errors.bad("%s: reuse is true, false or 'auto', not %s", what, errors.describe(reuse))
  end
end

--- df.variable_scope(name, {reuse}, fn), df.variable_scope(name, fn): variables that get_variable makes in fn are
-- called name/...
-- @param name  a name, or a scope that an earlier call gave to its function: then that one is entered again
-- @param opts  reuse: true shares variables that are there, 'auto' makes those that are not; false, nil: as the scope
--              around it
-- @param fn    called once with the scope; what it builds besides is under the name scope of that name
-- @return      what fn returns
function M.variable_scope(name, opts, fn)
  if type(opts) == 'function' and fn == nil then opts, fn = nil, opts end
  opts = errors.options(opts, 'variable_scope', { 'reuse' })
  if type(fn) ~= 'function' then
    errors.bad('variable_scope takes a function as its last argument, not %s', errors.describe(fn))
  end
  local again = getmetatable(name) == Scope
  if not again and not errors.is_name(name) then
    errors.bad('variable_scope takes a name without spaces and colons, or a variable scope, not %s',
               errors.describe(name))
  end
  check_reuse(opts.reuse, 'variable_scope')
  local g = graph.current()
  local outer = scope_of(g)
  local full = again and name.name or (outer.name == '' and name or outer.name .. '/' .. name)
  local reuse = opts.reuse or (again and name.reuse) or outer.reuse
  local scope = setmetatable({ name = full, reuse = reuse }, Scope)
  local function finish(ok, ...)
    g.variable_scope = outer
    if not ok then error((...), 0) end
    return ...
  end
  g.variable_scope = scope
  local leaf = again and full:match('[^/]+$') or not again and name
  if not leaf then return finish(protect(fn, scope)) end
  return finish(protect(graph.name_scope, leaf, function() return fn(scope) end))
end

--- What get_variable draws when it is told nothing, as TensorFlow does: Glorot's uniform for floats, zeros and false
-- for others.
local function default_value(shape, dtype)
  if not dtypes.is_float(dtypes.of(dtype)) then return f.zeros(shape, dtype) end
  local n, field = #shape, 1
  for i = 1, n - 2 do field = field * shape[i] end
  local fan_in = n == 0 and 1 or n == 1 and shape[1] or shape[n - 1] * field
  local fan_out = n == 0 and 1 or shape[n] * field
  local limit = math.sqrt(6 / math.max(1, fan_in + fan_out))
  return f.random_uniform(shape, { min = -limit, max = limit, dtype = dtype })
end

local function check_shape(name, shape)
  if shape == nil then return nil end
  if type(shape) == 'number' then shape = { shape } end
  if not errors.is_data(shape) then
    errors.bad('get_variable: the shape of %s is a list of whole numbers, not %s', name, errors.describe(shape))
  end
  for i, d in ipairs(shape) do
    if type(d) ~= 'number' or not dtypes.is_whole(d) or d < 0 then
      errors.bad('get_variable: dimension %d of %s is %s; a variable needs whole numbers from 0 up', i - 1, name,
                 errors.describe(d))
    end
  end
  return shape
end

local function same_shape(a, b)
  if not b then return true end
  if #a ~= #b then return false end
  for i = 1, #a do
    if b[i] >= 0 and a[i] ~= b[i] then return false end
  end
  return true
end

local function share(v, name, shape, dtype)
  if shape and not same_shape(shape, v.shape) then
    errors.bad('Trying to share variable %s, but specified shape %s and found shape %s', name,
               tensor.shape_text('', shape), tensor.shape_text('', v.shape))
  end
  if dtype and dtype ~= v.dtype then
    errors.bad('Trying to share variable %s, but specified dtype %s and found dtype %s', name, dtype, v.dtype)
  end
  return v
end

--- An initializer by its name, as layers take it; a string is a value where the dtype says so alone.
local function by_name(init, dtype)
  local initializers = require 'dflow.nn.initializers'
  if type(init) == 'function' or (type(init) == 'string' and dtype ~= 'string') then
    local ok, found = pcall(initializers.check, init, nil, 'get_variable: initializer')
    if ok then return found end
    if not dtype and type(init) == 'string' and type(found) == 'table' then
      found.message = found.message .. "; a variable of strings has dtype = 'string'"
    end
    error(found, 0)
  end
  return init
end

--- The initial value, built when the variable is made.
local function initial(name, init, shape, dtype)
  init = by_name(init, dtype)
  if init == nil then
    if not shape then errors.bad('get_variable: %s needs a shape, or an initializer that is a value', name) end
    return function() return default_value(shape, dtype or 'float32') end
  end
  return function()
    local x = init
    if type(x) == 'function' then
      x = x(shape, dtype or 'float32')
      if x == nil then errors.bad('get_variable: the initializer of %s returned nothing', name) end
    end
    if type(x) == 'number' or type(x) == 'boolean' or type(x) == 'string' then
      local d = dtype and dtypes.of(dtype) or (type(x) == 'number' and dtypes.FLOAT32) or nil
      if shape then return f.fill(shape, convert.to_output(x, d, nil, 'get_variable')) end
    end
    local o = convert.to_output(x, dtype and not convert.typed(x) and dtypes.of(dtype) or nil, nil, 'get_variable')
    local given = o.shape
    if shape and given and not same_shape(shape, given) then
      errors.bad('get_variable: the initial value of %s has shape %s, but shape %s is asked for', name,
                 tensor.shape_text('', given),
                 tensor.shape_text('', shape))
    end
    return o
  end
end

--- df.get_variable(name, shape, {initializer, dtype = 'float32', trainable = true}): the variable of that name in the
-- current variable scope.
-- @param shape        a list of whole numbers; may be left out when the initializer is a value
-- @param initializer  a value, a function(shape, dtype) that gives one, or the name of one of df.nn.initializers; nil:
--                     Glorot's uniform (zeros where the dtype is no float)
-- @return             a Variable: made, or where the scope says `reuse` the one that is there
function M.get_variable(name, shape, opts)
  if errors.is_data(shape) and next(shape) ~= nil and type(next(shape)) == 'string' and opts == nil then
    shape, opts = nil, shape
  end
  opts = errors.options(opts, 'get_variable', { 'initializer', 'dtype', 'trainable', 'shape' })
  if shape ~= nil and opts.shape ~= nil then
    errors.bad('get_variable: shape is given twice, by its place and by its name')
  end
  if shape == nil then shape = opts.shape end
  if not errors.is_name(name) then
    errors.bad('get_variable takes a name without spaces and colons first, not %s', errors.describe(name))
  end
  if opts.trainable ~= nil and type(opts.trainable) ~= 'boolean' then
    errors.bad('get_variable: trainable is true or false, not %s', errors.describe(opts.trainable))
  end
  local dtype = opts.dtype and dtypes.name[dtypes.of(opts.dtype)] or nil
  local g = graph.current()
  local scope = scope_of(g)
  local full = scope.name == '' and name or scope.name .. '/' .. name
  shape = check_shape(full, shape)
  g.named_variables = g.named_variables or {}
  local known = g.named_variables[full]
  if known then
    if not scope.reuse then
      errors.bad("Variable %s already exists, disallowed. Did you mean to set reuse = true or reuse = 'auto' in "
                 .. "variable_scope? Originally defined at %s",
                 full, known.source or 'a line not known')
    end
    return share(known, full, shape, dtype)
  end
  if scope.reuse == true then
    errors.bad("Variable %s does not exist, or was not created with get_variable. Did you mean to set reuse = 'auto' "
               .. "in variable_scope?", full)
  end
  local start = initial(full, opts.initializer, shape, dtype)
  core.push_scope(g.handle, '')
  local ok, v = pcall(variable.new, start, { name = full, dtype = dtype, trainable = opts.trainable, shape = shape })
  core.pop_scope(g.handle)
  if not ok then error(v, 0) end
  g.named_variables[full] = v
  return v
end

--- What names in g's current variable scope begin with: '' or 'encoder/'.
function M.prefix(g)
  local name = scope_of(g).name
  return name == '' and '' or name .. '/'
end

--- A layer's variable of this full name: shared where the scope says so and it is there, else made and known to
-- get_variable by the name.
-- @param start  function() -> the initial value
function M.named(g, full, start, shape, dtype, trainable)
  g.named_variables = g.named_variables or {}
  local known = g.named_variables[full]
  if known and scope_of(g).reuse then return share(known, full, shape, dtype) end
  core.push_scope(g.handle, '')
  local ok, v = pcall(variable.new, start, { name = full, trainable = trainable, shape = shape })
  core.pop_scope(g.handle)
  if not ok then error(v, 0) end
  if not known then g.named_variables[full] = v end
  return v
end

return M
