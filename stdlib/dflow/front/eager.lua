--- Arithmetic of Tensors: an op is built in a graph of its own, which runs at once and is gone; that of a call which
-- comes again is kept, so that a pipeline's map pays for building it once.
--
-- What comes back is what df.run gives: a Tensor, or of rank 0 a Lua number or boolean. For looking at results at a
-- prompt and in scripts; what belongs together is quicker as one graph. Nothing of it is differentiated.
local errors = require 'dflow.front.errors'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local ops = require 'dflow.front.ops'

local M = {}
local core = require 'dflow.backend'
local registry = require 'dflow.front.registry'
local dtypes = require 'dflow.front.dtypes'
local Tensor, Output = tensor.Tensor, graph.Output
local unpack = graph.unpack

--- Short names of NumPy that a Tensor has besides those of the ops.
M.short = { sum = 'reduce_sum', mean = 'reduce_mean', max = 'reduce_max', min = 'reduce_min', prod = 'reduce_prod',
            all = 'reduce_all',
            any = 'reduce_any' }

-- Ops that make no sense of a value: what they give is no value, or they are there for their effect.
local none = { shape = true, rank = true, size = true, dtype = true, name = true, op = true, placeholder = true,
               placeholder_with_default = true, print = true, assert = true, constant = true, stop_gradient = true }

--- The function of Tensors that an op is; nil where it is none.
function M.method(name)
  name = M.short[name] or name
  if none[name] then return nil end
  local f = ops.find(name)
  if not f then return nil end
  return function(t, ...)
    if getmetatable(t) ~= Tensor then
      errors.bad('%s is a method: write t:%s(…), with a colon; its first argument is %s', name, name,
                 errors.describe(t))
    end
    return M.apply(name, t, ...)
  end
end

local function pack(...)
  return { n = select('#', ...), ... }
end

local sessions                                      -- loaded when first needed: it knows this module

--- The op of these arguments in a graph of its own, with a session.
local function build(f, args)
  sessions = sessions or require 'dflow.front.session'
  local g = graph.new_graph()
  local results = pack(g:as_default(function() return f(unpack(args, 1, args.n)) end))
  return { results = results, session = sessions.new{ graph = g, threads = 1 } }
end

--- What its results are; feeds or nil.
local function run(built, feeds)
  local list = {}
  for i = 1, built.results.n do list[i] = sessions.run_here(built.session, built.results[i], feeds) end
  return list
end

-- ---- graphs that are kept -------------------------------------------------------------------------------------------
local MOST_GRAPHS, MOST_ELEMENTS = 64, 65536        -- what is larger takes far longer to compute than to build
-- key -> {results =, session =, places =}, or false: none can be kept
local kept, count = {}, 0
local times, asked = {}, 0                          -- key -> how often it came of late

--- A number, boolean, string, nil or a table of these, as text; nil of anything else.
local function text_of(v, depth)
  local kind = type(v)
  if kind == 'number' then return (math.type and math.type(v) or 'n') .. ('%.17g'):format(v) end
  if kind == 'string' then return #v .. '"' .. v end
  if kind == 'boolean' or kind == 'nil' then return tostring(v) end
  if kind ~= 'table' or depth > 3 or not errors.is_data(v) then return nil end
  local words = {}
  for k, x in pairs(v) do
    local word = text_of(x, depth + 1)
    if not word then return nil end
    words[#words + 1] = type(k) .. tostring(k) .. '=' .. word
  end
  table.sort(words)
  return '{' .. table.concat(words, ',') .. '}'
end

-- Operators, beside whose Tensor a number is a value like any other: t * 2 and t * 3 are one graph.
local operators = { add = true, sub = true, mul = true, div = true, floordiv = true, floormod = true, less = true,
                    less_equal = true, greater = true, greater_equal = true, equal = true, not_equal = true,
                    maximum = true, minimum = true }

--- Does a number stand beside a Tensor of numbers in an operator? The Tensor.
local function beside(name, args, i)
  local other = args.n == 2 and operators[name] and type(args[i]) == 'number' and args[3 - i]
  return getmetatable(other) == Tensor and dtypes.is_float((core.tensor_info(other))) and other or nil
end

--- What a call has in common with all that one graph serves: the op, dtypes and shapes of its Tensors, everything else
-- as it is. nil: none does.
local function key_of(name, args)
  local words, elements = { name }, 0
  for i = 1, args.n do
    local v, word = args[i]
    if getmetatable(v) == Tensor then
      local d, rank, size = core.tensor_info(v)
      if dtypes.is_boxed(d) then return nil end
      elements = elements + size
      word = rank < 2 and ('T%d:%d:%d'):format(d, rank, size)
        or ('T%d:%s'):format(d, table.concat(core.tensor_shape(v), 'x'))
    else
      word = beside(name, args, i) and 'number' or text_of(v, 1)
    end
    if not word then return nil end
    words[i + 1] = word
  end
  return elements <= MOST_ELEMENTS and table.concat(words, ' ') or nil
end

--- Does a node of the graph draw or keep something? Such a call begins anew each time.
local function is_stateful(g)
  for node = 0, core.graph_nodes(g.handle) - 1 do
    local e = registry.entry(core.node_type(g.handle, node))
    if not e or e.stateful then return true end
  end
  return false
end

--- A graph for all calls that are alike, its Tensors placeholders; false where there can be none.
local function build_for_all(f, name, args)
  local places, with, g = {}, { n = args.n }, graph.new_graph()
  local ok, results = pcall(g.as_default, g, function()
    for i = 1, args.n do
      with[i] = args[i]
      local other = beside(name, args, i)
      if other or getmetatable(args[i]) == Tensor then
        with[i] = ops.functions.placeholder((other or args[i]).dtype, other and {} or args[i].shape)
        places[#places + 1] = { at = i, of = with[i] }
      end
    end
    return pack(f(unpack(with, 1, with.n)))
  end)
  if not ok or is_stateful(g) then return false end
  return { results = results, session = sessions.new{ graph = g, threads = 1 }, places = places }
end

--- The graph that is kept for calls with this key; nil or false where there is none: one is built when a key comes for
-- the second time.
local function graph_of(f, name, key, args)
  if kept[key] ~= nil then return kept[key] end
  asked = asked + 1
  if asked > 16 * MOST_GRAPHS then times, asked = {}, 1 end
  times[key] = (times[key] or 0) + 1
  if times[key] < 2 then return nil end
  if count >= MOST_GRAPHS then
    for _, built in pairs(kept) do
      if built then built.session:close() end
    end
    kept, count = {}, 0
  end
  kept[key], count = build_for_all(f, name, args), count + 1
  return kept[key]
end

--- What the op gives of these values. With an Output or a Variable among them it is a node of theirs.
function M.apply(name, ...)
  local f = ops.find(name)
  for i = 1, select('#', ...) do
    local mt = getmetatable((select(i, ...)))
    if type(mt) == 'table' and (mt == Output or rawget(mt, 'is_value')) then return f(...) end
  end
  local args = pack(...)
  local key = sessions and key_of(name, args)
  local again = key and graph_of(f, name, key, args)
  if again then
    local feeds = {}
    for _, e in ipairs(again.places) do feeds[e.of] = args[e.at] end
    local ok, values = pcall(run, again, feeds)
    if ok then return unpack(values, 1, again.results.n) end
  -- what is wrong is said of this call, below, not of the first of its kind
  end
  local built = build(f, args)
  local ok, values = pcall(run, built)
  built.session:close()
  if not ok then error(values, 0) end
  return unpack(values, 1, built.results.n)
end

return M
