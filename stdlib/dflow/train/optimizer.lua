--- What all optimizers share: from a loss to gradients, from gradients to one operation that steps.
--
-- A step waits for the loss and for all gradients before it changes a variable, so what is fetched beside it belongs to
-- the values from before. A subclass says what becomes of a dense gradient and of a sparse one (`dense`, `sparse`),
-- what it needs once per step (`prepare`) and what happens after all variables were changed (`finish`).
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local ops = require 'dflow.front.ops'
local arguments = require 'dflow.front.arguments'
local variable = require 'dflow.front.variable'
local gradients = require 'dflow.front.gradients'

local M = {}
local f = ops.functions
local Optimizer = { __name = 'dflow.Optimizer' }
Optimizer.__index = Optimizer
-- What people look for in an optimizer of another library.
errors.no_other(Optimizer, 'an optimizer',
                { step = "PyTorch's step is df.run(train), where train = optimizer:minimize(loss) was built once",
                                             fit = "Keras' fit is a loop of df.run(train, feeds), where train = "
                                                   .. "optimizer:minimize(loss) was built once",
                                             param_groups = "PyTorch's param_groups is optimizer:minimize(loss, "
                                                            .. "{variables = {w}})",
                                             apply = 'it is optimizer:minimize(loss), or '
                                                     .. 'optimizer:apply_gradients(pairs)' })
Optimizer.__tostring = function(o) return o.what end
M.Optimizer = Optimizer

-- ---- what rules are made of --------------------------------------------------------------------------------------
--- M.looping: nil, or the df.train.loop whose step is being built. M.scheduled: Outputs of schedules that go by a
-- Variable, each with the loop that it was built in (false: none).
M.looping, M.scheduled = nil, setmetatable({}, { __mode = 'k' })

--- The learning rate and the like as an Output of the variable's dtype.
function M.hyper(v, x)
  if M.looping and type(x) == 'table' and M.scheduled[x] ~= nil and M.scheduled[x] ~= M.looping then
    errors.warn(('the schedule %s was built outside of the training loop, where it is computed once: all steps have '
                 .. 'the same rate; build it in '
                 .. "the loop's function"):format(x.name))
  end
  local d = convert.typed(x)
  if d and d ~= v.d then return f.cast(x, v.dtype) end
  return convert.to_output(x, v.d, v.graph)
end

--- A variable beside v, on its device, made once per optimizer; it begins with `value` (0) everywhere. Its dtype is v's
-- unless another is given.
function M.slot(optimizer, v, name, value, dtype)
  local slots = optimizer.slots[v]
  if not slots then
    slots = {}
    optimizer.slots[v] = slots
    optimizer.order[#optimizer.order + 1] = v
  end
  if not slots[name] then
    local static = v.shape
    for _, d in ipairs(static or { -1 }) do
      if d < 0 then static = nil end
    end
    local function beside()
      return variable.new(function()
        if static then return f.fill(static, f.constant(value or 0, dtype or v.dtype)) end
        local zeros = f.cast(f.zeros_like(v.initial), dtype or v.dtype)
        return value and zeros + value or zeros
      end, { name = v.name .. '/' .. name, trainable = false })
    end
    slots[name] = graph.with(v.graph, function() return graph.colocate_with(v, beside) end)
  end
  return slots[name]
end

--- A scalar variable of the optimizer itself.
function M.scalar(optimizer, g, d, name, value)
  local key = name .. '/' .. d
  if not optimizer.scalars[key] then
    optimizer.scalars[key] = graph.with(g, function()
      return variable.new(value, { name = name, trainable = false, dtype = dtypes.name[d] })
    end)
    optimizer.scalars[#optimizer.scalars + 1] = optimizer.scalars[key]
  end
  return optimizer.scalars[key]
end

--- A sparse gradient in which each row is named once: rows named twice are added, as TensorFlow does before it steps.
-- @return  values, indices
function M.unique_rows(x)
  local indices, at = f.unique(x.indices)
  return f.unsorted_segment_sum(x.values, at, f.size(indices)), indices
end

-- ---- from a loss to a step ---------------------------------------------------------------------------------------
function M.check_variables(vars, what)
  if type(vars) ~= 'table' then
    errors.bad('%s takes a list of Variables, not %s', what, errors.describe(vars))
  end
  if getmetatable(vars) == variable.Variable then vars = { vars } end
  local seen = {}
  for i, v in ipairs(vars) do
    if getmetatable(v) ~= variable.Variable then
      errors.bad('%s: element %d is %s, a Variable is expected', what, i, errors.describe(v))
    end
    if seen[v] then errors.bad('%s: the variable %s is in the list twice', what, v.name) end
    seen[v] = true
  end
  return vars
end

--- The trainable variables of a graph that gradients can change.
function M.trainable(g)
  local vars = {}
  for _, v in ipairs(g.variables) do
    if variable.Variable.is_trainable(v) and dtypes.is_float(v.d) then vars[#vars + 1] = v end
  end
  return vars
end

--- Was the method called with a dot?
local function with_colon(o, name)
  local mt = getmetatable(o)
  if type(o) ~= 'table' or mt == nil or type(mt.__index) == 'function' or o.compute_gradients == nil then
    errors.bad('%s is a method of an optimizer: write optimizer:%s(…), with a colon; its first argument is %s', name,
               name, errors.describe(o))
  end
end

--- o:compute_gradients(loss, vars?): a list of {gradient, variable}; false where the loss does not depend on the
-- variable.
-- @param vars  nil: all trainable variables of the loss's graph
function Optimizer:compute_gradients(loss, vars)
  with_colon(self, 'compute_gradients')
  if convert.typed(loss) == nil then
    errors.bad('compute_gradients takes a loss, an Output, not %s', errors.describe(loss))
  end
  loss = convert.to_output(loss)
  vars = M.check_variables(vars == nil and M.trainable(loss.graph) or vars, 'compute_gradients')
  if #vars == 0 then
    local whole = loss.graph.variables[1]
    errors.bad('there are no trainable variables%s', whole and not dtypes.is_float(whole.d)
      and ("; '%s' is %s, and only floats have gradients: df.Variable(2.0)"):format(whole.name, whole.dtype) or '')
  end
  local grads = gradients.gradients(loss, vars, { unconnected = 'none' })
  local list = {}
  for i, v in ipairs(vars) do list[i] = { grads[i], v } end
  return list
end

--- The pairs that have a gradient.
function M.check_pairs(list)
  if not nest.is_plain(list) then
    errors.bad('apply_gradients takes a list of {gradient, Variable}, not %s', errors.describe(list))
  end
  local found, seen = {}, {}
  for i, pair in ipairs(list) do
    local v = nest.is_plain(pair) and pair[2]
    if getmetatable(v) ~= variable.Variable then
      errors.bad('apply_gradients: pair %d is not {gradient, Variable}', i)
    end
    if seen[v] then errors.bad('apply_gradients: the variable %s is in the list twice', v.name) end
    seen[v] = true
    if pair[1] then found[#found + 1] = { pair[1], v } end
  end
  if #found == 0 then errors.bad('apply_gradients: no variable has a gradient') end
  return found
end

--- The same pairs, their gradients clipped to this global norm.
function M.clip(pairs_list, norm)
  local grads = {}
  for i, pair in ipairs(pairs_list) do grads[i] = pair[1] end
  local clipped = f.clip_by_global_norm(grads, norm)
  for i, pair in ipairs(pairs_list) do pair[1] = clipped[i] end
end

--- Is v the step counter, given by place as in TensorFlow's Python? No gradient could change a variable of whole
-- numbers.
local function is_step(v)
  return getmetatable(v) == variable.Variable and not dtypes.is_float(v.d)
end

local function known_of_apply(opts)
  return errors.options(opts, 'apply_gradients', { 'global_step', 'name', 'after' })
end

--- The options of apply_gradients. A Variable in their place is the global_step, and behind it stands a name, as in
-- TensorFlow's Python, or what else there is to say.
function M.apply_options(opts, more, ...)
  if select('#', ...) > 0 then
    errors.bad('apply_gradients takes pairs, a global_step and a name, %d values were given: '
               .. 'apply_gradients(pairs, {global_step = step, name = name})', 3 + select('#', ...))
  end
  if getmetatable(opts) == variable.Variable then opts = { global_step = opts } end
  opts = known_of_apply(opts)
  if more ~= nil then
    local all = {}
    for key, v in pairs(opts) do all[key] = v end
    for key, v in pairs(known_of_apply(type(more) == 'string' and { name = more } or more)) do
      if all[key] ~= nil then errors.bad('apply_gradients: %s is given twice', key) end
      all[key] = v
    end
    opts = all
  end
  if opts.global_step and getmetatable(opts.global_step) ~= variable.Variable then
    errors.bad('apply_gradients: global_step is a Variable, not %s', errors.describe(opts.global_step))
  end
  return opts
end

--- o:apply_gradients(list, {global_step=, name=}): the operation that does one step.
-- @param list  of {gradient, variable}; pairs whose gradient is false or nil are left out
function Optimizer:apply_gradients(list, opts, ...)
  with_colon(self, 'apply_gradients')
  opts = M.apply_options(opts, ...)
  local pairs_list = M.check_pairs(list)
  local g = pairs_list[1][2].graph
  return graph.with(g, graph.grouped, g, function() return self.what end, function()
    if self.clip_norm then M.clip(pairs_list, self.clip_norm) end
    local waits = {}
    for i, pair in ipairs(pairs_list) do
      local x = pair[1]
      waits[i] = gradients.is_slices(x) and x.values or convert.to_output(x, pair[2].d, g)
    end
    if opts.after then waits[#waits + 1] = opts.after end
    local before = self:prepare(g, pairs_list)
    local updates = {}
    graph.control_dependencies(waits, function()
      for i, pair in ipairs(pairs_list) do
        local x, v = pair[1], pair[2]
        if gradients.is_slices(x) then
          updates[i] = self:sparse(v, x, before)
        else
          updates[i] = self:dense(v, waits[i], before)
        end
      end
    end)
    graph.control_dependencies(updates, function() self:finish(updates, before) end)
    if opts.global_step then
      graph.control_dependencies(updates, function() updates[#updates + 1] = opts.global_step:assign_add(1) end)
    end
    return graph.control_dependencies(updates,
                                      function() return registry.op('NoOp', {}, { name = opts.name or self.name }) end)
  end)
end

--- The second argument of minimize: a list of variables, the step counter, or {variables =, global_step =, name =}.
function M.minimize_options(vars)
  if is_step(vars) then return { global_step = vars } end
  if not (nest.is_plain(vars) and nest.has_names(vars)) then return { variables = vars } end
  local opts = errors.options(vars, 'minimize', { 'variables', 'var_list', 'global_step', 'name' })
  if opts.variables ~= nil and opts.var_list ~= nil then
    errors.bad('minimize: variables and var_list are one option, which is given twice')
  end
  return { variables = opts.variables or opts.var_list, global_step = opts.global_step, name = opts.name }
end

--- o:minimize(loss, {variables =, global_step =, name =}): the operation that does one step. A list of variables will
-- do, too.
function Optimizer:minimize(loss, vars, ...)
  with_colon(self, 'minimize')
  if select('#', ...) > 0 then
    errors.bad('minimize takes a loss and its options, 3 values were given: minimize(loss, {variables = {w}, '
               .. 'global_step = step})')
  end
  local opts = M.minimize_options(vars)
  local list = self:compute_gradients(loss, opts.variables)
  local any = false
  for _, pair in ipairs(list) do any = any or pair[1] end
  if not any then
    errors.bad('minimize: the loss %s depends on none of the variables', convert.to_output(loss).name)
  end
  return self:apply_gradients(list,
                              { global_step = opts.global_step, name = opts.name, after = convert.to_output(loss) })
end

--- For subclasses: what is made once per step, and what happens after all variables were changed.
function Optimizer:prepare() return {} end
function Optimizer:finish() end

--- The Optimizer's own variables, in the order they were made.
function Optimizer:variables()
  with_colon(self, 'variables')
  local list = {}
  for _, v in ipairs(self.order) do
    local names = {}
    for name in pairs(self.slots[v]) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do list[#list + 1] = self.slots[v][name] end
  end
  for _, v in ipairs(self.scalars) do list[#list + 1] = v end
  return list
end

--- o:get_slot(v, name): the variable that the optimizer keeps beside v, or nil.
function Optimizer:get_slot(v, name)
  with_colon(self, 'get_slot')
  return self.slots[v] and self.slots[v][name]
end

--- o:get_slot_names(): the names of what the optimizer keeps beside its variables, sorted.
function Optimizer:get_slot_names()
  with_colon(self, 'get_slot_names')
  local seen, names = {}, {}
  for _, v in ipairs(self.order) do
    for name in pairs(self.slots[v]) do
      if not seen[name] then names[#names + 1] = name end
      seen[name] = true
    end
  end
  table.sort(names)
  return names
end

-- ---- making classes ----------------------------------------------------------------------------------------------
--- What a rule does with one variable and its gradient, for apply_gradients alone.
local function rule(name, fn, fits)
  return function(o, v, x, before)
    with_colon(o, name)
    if getmetatable(v) ~= variable.Variable or not fits(x) or type(before) ~= 'table' then
      errors.bad('%s is called by apply_gradients, with a variable, its gradient and what is made once per step: '
                 .. 'write optimizer:apply_gradients{{gradient, v}}',
                 name)
    end
    return fn(o, v, x, before)
  end
end

--- A constructor: takes its parameters by place, or one table with names.
-- @param parameters  names, in the order they may be given by place
-- @param more        further options
-- @param defaults    by name
-- @param methods     dense, sparse, prepare, finish; `check(o)` for what the numbers must be; `long_names` of options:
--                    {long = short}
function M.class(name, parameters, more, defaults, methods)
  local check, long_names = methods.check, methods.long_names or {}
  methods.__index, methods.check, methods.long_names = methods, nil, nil
  methods.dense = rule('dense', methods.dense, function(x) return getmetatable(x) == graph.Output end)
  methods.sparse = rule('sparse', methods.sparse, gradients.is_slices)
  methods.__tostring, methods.__name = Optimizer.__tostring, Optimizer.__name
  setmetatable(methods, { __index = Optimizer })
  local options = { 'clip_norm' }
  for _, key in ipairs(more) do options[#options + 1] = key end
  local all = {}
  for _, list in ipairs{ parameters, options } do
    for _, key in ipairs(list) do all[#all + 1] = key end
  end
  return function(...)
    local n = select('#', ...)
    local last = n > 0 and select(n, ...) or nil
    -- a misspelt variable, not the default
    if n == 1 and last == nil then errors.bad('%s: the learning rate is nil', name) end
    if n == 1 and nest.is_plain(last) and next(last) == nil then n = 0 end      -- no options
    local o = arguments.take(name, parameters, options, graph.unpack({ ... }, 1, n))
    for _, long in ipairs(more) do                                           -- TensorFlow's longer names of options
      local short = long_names[long]
      if short and o[long] ~= nil then
        if o[short] ~= nil then errors.bad('%s: %s and %s are one option, which is given twice', name, short, long) end
        o[short], o[long] = o[long], nil
      end
    end
    if type(o.clip_norm) == 'number' and not (o.clip_norm > 0) then
      errors.bad('%s: clip_norm is a number above 0, not %s', name, errors.describe(o.clip_norm))
    end
    for key, v in pairs(defaults) do
      if o[key] == nil then o[key] = v end
    end
    if o.learning_rate == nil then errors.bad('%s: the learning rate is missing', name) end
    if type(o.learning_rate) == 'number' and o.learning_rate < 0 then
      errors.warn(('%s: with the learning rate %s steps go uphill: what is to grow is minimize(-x)')
        :format(name, o.learning_rate))
    end
    for _, key in ipairs(all) do
      local v, wanted = o[key], type(defaults[key]) == 'boolean' and 'boolean' or 'number'
      if v ~= nil and (v ~= v or type(v) ~= wanted) and not (wanted == 'number' and convert.typed(v)) then
        errors.bad('%s: %s is %s, %s is expected', name, key, errors.describe(v),
                   wanted == 'number' and 'a number or an Output' or 'true or false')
      end
    end
    o.slots, o.scalars, o.order, o.what = setmetatable({}, { __mode = 'k' }), {}, {}, name
    if check then check(o) end
    return setmetatable(o, methods)
  end
end

return M
