--- df.lua_func: a Lua function as an op.
--
-- The function runs on the thread of its Lua state: at once where that thread runs the session, and for a run in the
-- background when the thread waits for it (h:wait, h:done) or runs something that waits for that run.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local convert = require 'dflow.front.convert'
local registry = require 'dflow.front.registry'
local gradients = require 'dflow.front.gradients'

local M = {}
local unpack = graph.unpack
local functions = setmetatable({}, { __mode = 'v' })     -- by id; the graph keeps what its nodes need
local count = 0

local function pack(...)
  return { n = select('#', ...), ... }
end

local codes = { cancelled = 1, invalid_argument = 3, deadline_exceeded = 4, not_found = 5, already_exists = 6,
                permission_denied = 7, resource_exhausted = 8, failed_precondition = 9, out_of_range = 11,
                unimplemented = 12, internal = 13, unavailable = 14, data_loss = 15 }

--- One result as a Tensor of dtype d.
local function result(f, i, v, d)
  if v == nil then errors.bad('%s returns nil as result %d, %s is expected', f.what, i, dtypes.name[d]) end
  if getmetatable(v) == graph.Output then
    errors.bad('%s returns an Output as result %d; it runs while the graph runs, and returns values', f.what, i)
  end
  if getmetatable(v) == tensor.Tensor then
    if v.dtype ~= dtypes.name[d] then
      errors.bad("%s returns %s as result %d, %s is expected: t:astype('%s')", f.what, v.dtype, i, dtypes.name[d],
                 dtypes.name[d])
    end
    return v
  end
  return tensor.from(v, d, nil, f.what)
end

local function answer(id, inputs, n)
  local f = functions[id]
  if not f then return nil, codes.failed_precondition, 'the Lua function of this op is gone' end
  core.status_line(nil)                -- it may print
  local ok, r = pcall(function()
    local given = pack(f.fn(unpack(inputs, 1, n)))
    if given.n == 1 and #f.out ~= 1 and nest.is_plain(given[1]) and #given[1] == #f.out then
      given = { n = #f.out, unpack(given[1]) }
    end
    if given.n ~= #f.out and not (#f.out == 0 and given.n == 1) then
      errors.bad('%s returns %d value%s, %d %s expected', f.what, given.n, given.n == 1 and '' or 's', #f.out,
                 #f.out == 1 and 'is' or 'are')
    end
    local list = {}
    for i, d in ipairs(f.out) do list[i] = result(f, i, given[i], d) end
    return list
  end)
  if ok then return r end
  if errors.is(r) then return nil, codes[r.code] or codes.invalid_argument, f.what .. ': ' .. tostring(r) end
  return nil, codes.invalid_argument, f.what .. ': ' .. tostring(r)
end

local function dtype_list(list)
  if type(list) == 'string' then return { dtypes.of(list) } end
  if not errors.is_data(list) then
    errors.bad('lua_func: its third argument is a list of the dtypes of its results, not %s', errors.describe(list))
  end
  local numbers = {}
  for i, d in ipairs(list) do numbers[i] = dtypes.of(d) end
  return numbers
end

--- The node; its outputs as a list, or the operation.
local function build(f, inputs, opts)
  local g, node = registry.build(registry.need(opts.stateful == false and 'HostCallStateless' or 'HostCall'),
                                 { inputs },
                                 { host = f.host, id = f.id, Tout = f.out, shapes = opts.shapes, name = opts.name })
  g.lua_functions = g.lua_functions or {}
  g.lua_functions[f.id] = f
  local list = {}
  for i = 1, #f.out do list[i] = graph.output(g, node, i - 1) end
  return g, node, list
end

--- df.lua_func(fn, inputs, out_dtypes, {gradient, stateful = true, shapes, name}): what the Lua function gives, as an
-- op.
-- @param fn          called each time the op runs, on the thread of this Lua state, with numbers, booleans and strings
--                    for inputs of rank 0 and Tensors for others; returns as many values as out_dtypes says: numbers,
--                    tables or Tensors. An error in it ends the run; a yield out of it is one
-- @param inputs      a list of Outputs and values, or one
-- @param out_dtypes  a list of dtypes, or one; {} for none
-- @param gradient    gradient(x..., y..., dy...) -> dx...: Outputs, called while the gradient is built; without one
--                    there is no gradient
-- @param stateful    true: an effect, in program order in bodies; false: it is called where its results are needed
-- @param shapes      shapes of the results, where they are known
-- @return            its results as Outputs; an operation when it has none
function M.lua_func(fn, inputs, out_dtypes, opts)
  opts = errors.options(opts, 'lua_func', { 'gradient', 'stateful', 'shapes', 'name' })
  if type(fn) ~= 'function' then errors.bad('lua_func takes a Lua function first, not %s', errors.describe(fn)) end
  if opts.gradient ~= nil and type(opts.gradient) ~= 'function' then
    errors.bad('lua_func: gradient is a function, not %s', errors.describe(opts.gradient))
  end
  if opts.stateful ~= nil and type(opts.stateful) ~= 'boolean' then
    errors.bad('lua_func: stateful is true or false, not %s', errors.describe(opts.stateful))
  end
  local out = dtype_list(out_dtypes)
  if inputs == nil then inputs = {} end
  if not nest.is_plain(inputs) then inputs = { inputs } end
  if nest.has_names(inputs) then errors.bad('lua_func: its inputs are a list') end
  count = count + 1
  local f = { fn = fn, id = count, out = out, host = core.host(answer), what = opts.name or 'lua_func' }
  functions[f.id] = f
  local g = convert.graph_of(inputs) or graph.current()
  return graph.with(g, function()
    local xs = {}
    for i = 1, #inputs do xs[i] = convert.to_output(inputs[i], nil, g, 'lua_func') end
    if not opts.gradient then
      local _, node, list = build(f, xs, opts)
      if #out == 0 then return graph.operation(g, node) end
      return unpack(list, 1, #out)
    end
    if #out == 0 then errors.bad('lua_func: a function without results has no gradient') end
    return gradients.custom_gradient(function(...)
      local x = { ... }
      local _, _, list = build(f, x, opts)
      local results = { unpack(list, 1, #out) }
      results[#out + 1] = function(...)
        local all = {}
        for _, part in ipairs { x, list, { ... } } do
          for _, v in ipairs(part) do all[#all + 1] = v end
        end
        return opts.gradient(unpack(all, 1, #all))
      end
      return unpack(results, 1, #out + 1)
    end)(unpack(xs, 1, #xs))
  end)
end

return M
