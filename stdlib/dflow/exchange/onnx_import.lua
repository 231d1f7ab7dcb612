--- An ONNX model as a graph: df.import_onnx.
--
-- Nodes are built in the order of the file, each by the function of its operator, under the names that their values
-- have. Loop, If and Scan own graphs, which see the names around them: they become while_loops and conds whose
-- functions build those graphs. A sequence is a list of Outputs while its length is known; where a Loop carries it, it
-- is TensorFlow's tensor list.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local read = require 'dflow.exchange.onnx.read'
local source = require 'dflow.exchange.source'
local values = require 'dflow.exchange.onnx.values'

local M = {}
local unpack = graph.unpack
local NEWEST = 28
local Sequence, value_dtype, value_shape = values.Sequence, values.dtype, values.shape

-- ---- a model's graph ------------------------------------------------------------------------------------------------
local Importer = {}
Importer.__index = Importer

local function lookup(env, name)
  while env do
    local v = env.values[name]
    if v ~= nil then return v end
    env = env.outer
  end
end

--- What a node is to the function that builds it.
local function view(self, node, env)
  local n = { name = node.name or '', op = node.op, opset = self.opset, count = #node.outputs, env = env,
              importer = self, node = node }
  local attributes = {}
  for _, a in ipairs(node.attributes) do
    local v = a
    if a.ref and env.attributes then v = env.attributes[a.ref] end
    if v then attributes[a.name or ''] = v end
  end
  function n.raw(name) return attributes[name] end
  function n.attr(name, default)
    local a = attributes[name]
    if not a then return default end
    local kind = a.type or 0
    if kind == 6 or (kind == 0 and #a.floats > 0) then return a.floats end
    if kind == 7 or (kind == 0 and #a.ints > 0) then return a.ints end
    if kind == 8 or (kind == 0 and #a.strings > 0) then return a.strings end
    if kind == 1 then return a.f or 0 elseif kind == 2 then return a.i or 0 elseif kind == 3 then return a.s or '' end
    if kind == 4 then return a.t elseif kind == 5 then return a.g end
    return a.f or a.i or a.s or a.t or a.g or default
  end
  function n.refuse(_, why)
    errors.raise('unimplemented', 'the ONNX node %s (%s): %s', n.name ~= '' and n.name or node.outputs[1] or '?', n.op,
                 why)
  end
  --- b, where an old operator says at which axis of a it begins.
  function n.align(a, b)
    local axis = self.opset < 7 and n.attr('broadcast', 0) == 1 and n.attr 'axis'
    if not axis then return b end
    local dims = {}
    for i, dim in ipairs(b.shape) do dims[i] = dim end
    for _ = 1, #a.shape - axis - #b.shape do dims[#dims + 1] = 1 end
    return require('dflow').reshape(b, dims)
  end
  return n
end

local function where_text(node) return node.name and node.name ~= '' and node.name or node.outputs[1] or '?' end

function Importer:build(node, env)
  local domain = node.domain or ''
  local own = self.functions[domain .. ':' .. (node.op or '')]
  local fn = self.ops[(domain == '' or domain == 'ai.onnx') and node.op or domain .. ':' .. (node.op or '')]
  local inputs, count = {}, #node.inputs
  for i, name in ipairs(node.inputs) do
    if name ~= '' then
      local v = lookup(env, name)
      if v == nil then
        errors.raise('invalid_argument', "the ONNX node %s (%s) takes '%s', which nothing gives", where_text(node),
                     tostring(node.op), name)
      end
      inputs[i] = v
    end
  end
  local n = view(self, node, env)
  local results
  if own then
    results = self:call(own, n, inputs)
  elseif not fn then
    errors.raise('unimplemented', 'dflow does not know the ONNX operator %s (node %s, %s)', tostring(node.op),
                 where_text(node),
                 node.domain and node.domain ~= '' and 'domain ' .. node.domain or 'opset ' .. self.opset)
  else
    local ok
    ok, results = pcall(fn, n, unpack(inputs, 1, count))
    if not ok then
      if type(results) == 'table' and results.message and not results.message:find('ONNX', 1, true) then
        results.message = errors.shown(('the ONNX node %s (%s): %s'):format(where_text(node), node.op, results.message))
      end
      error(results, 0)
    end
  end
  if not errors.is_data(results) then results = { results } end
  for i, name in ipairs(node.outputs) do
    if name ~= '' then
      if results[i] == nil then
        errors.raise('unimplemented', "the ONNX node %s (%s): its output %d is not made here", where_text(node),
                     node.op, i)
      end
      env.values[name] = results[i]
    end
  end
end

function Importer:nodes(list, env)
  for _, node in ipairs(list) do self:build(node, env) end
end

--- A function of the model itself: its nodes, with its inputs and attributes.
function Importer:call(fn, n, inputs)
  if self.depth > 50 then
    errors.raise('invalid_argument', 'the functions of this model call each other without end')
  end
  local env = { values = {}, attributes = {} }
  for i, name in ipairs(fn.inputs) do env.values[name] = inputs[i] end
  for _, name in ipairs(fn.attributes) do env.attributes[name] = n.raw(name) end
  self.depth = self.depth + 1
  self:nodes(fn.nodes, env)
  self.depth = self.depth - 1
  local out = {}
  for i, name in ipairs(fn.outputs) do out[i] = env.values[name] end
  return out
end

--- Builds a graph inside a node: its outputs, given what its inputs are.
function Importer:subgraph(g, env, inputs)
  local inner = { values = {}, outer = env, attributes = env.attributes }
  self:initializers(g, inner)
  for i, v in ipairs(g.inputs) do if inputs[i] ~= nil then inner.values[v.name] = inputs[i] end end
  self:nodes(g.nodes, inner)
  local out = {}
  for i, v in ipairs(g.outputs) do
    out[i] = lookup(inner, v.name)
    if out[i] == nil then
      errors.raise('invalid_argument', "the ONNX graph %s gives '%s', which nothing makes", g.name or '?', v.name
                   or '?')
    end
  end
  return out
end

function Importer:initializers(g, env)
  local df = require 'dflow'
  if #g.sparse > 0 then errors.raise('unimplemented', 'the ONNX graph %s has sparse initializers', g.name or '?') end
  for _, t in ipairs(g.initializers) do
    local v = df.constant(read.tensor(t, ("the initializer '%s'"):format(t.name or '')))
    env.values[t.name or ''] = v
    if not read.dtype[t.d] then self.narrow[v] = t.d end
  end
end

-- ---- inputs, outputs ------------------------------------------------------------------------------------------------
--- Lets g:output find an Output under a name of the model's.
local function alias(g, name, output)
  g.aliases = g.aliases or {}
  g.aliases[name] = output
end

local function shown(shape)
  return type(shape) == 'table' and '[' .. table.concat(shape, ',') .. ']' or tostring(shape)
end
--- The shape that `shapes` gives the input, which must be one that the model allows; what the model says where it gives
-- none.
local function shape_of(v, shapes)
  local own, given = value_shape(v.type), shapes and shapes[v.name]
  if not given then return own end
  local fits = type(given) == 'table' and (not own or #own == #given)
  for i, d in ipairs(fits and given or {}) do
    fits = fits and type(d) == 'number' and (not own or own[i] < 0 or d < 0 or own[i] == d)
  end
  if not fits then
    errors.bad("import_onnx: shapes gives the input '%s' the shape %s, the model has %s", v.name, shown(given),
               shown(own))
  end
  return given
end

function Importer:inputs(model_graph, env, prefix)
  local df = require 'dflow'
  for _, v in ipairs(model_graph.inputs) do
    if env.values[v.name] == nil then
      local d = value_dtype(v.type)
      if not d then
        errors.raise('unimplemented', "the input '%s' of the ONNX model is of no type that dflow has", v.name or '?')
      end
      local is_list = not v.type.tensor
      local x = df.placeholder(is_list and 'variant' or d, is_list and {} or shape_of(v, self.shapes),
                               source.free(self.graph, prefix .. v.name))
      if is_list then
        local of_lists = v.type.optional and not v.type.optional.element.tensor
        env.values[v.name] = setmetatable({ handle = x, dtype = d, optional = v.type.optional ~= nil,
            of_lists = of_lists }, Sequence)
        self.lists[prefix .. v.name] = of_lists and 'variant' or d
        self.optional[prefix .. v.name] = v.type.optional and d or nil
      else
        env.values[v.name] = x
        if not read.dtype[v.type.tensor.d] then self.narrow[x] = v.type.tensor.d end
      end
      alias(self.graph, prefix .. v.name, x)
      self.given[#self.given + 1] = prefix .. v.name
      self.unprefixed[#self.unprefixed + 1] = v.name
    end
  end
end

function Importer:outputs(model_graph, env, prefix)
  local df = require 'dflow'
  for _, v in ipairs(model_graph.outputs) do
    local y = lookup(env, v.name)
    if y == nil then
      errors.raise('invalid_argument', "the ONNX model gives '%s', which nothing makes", v.name or '?')
    end
    if getmetatable(y) == Sequence then
      if y.list then
        for i, x in ipairs(y.list) do alias(self.graph, ('%s%s[%d]'):format(prefix, v.name, i - 1), x) end
        self.sequences[prefix .. v.name] = #y.list
      else
        alias(self.graph, prefix .. v.name, y.handle)
        self.lists[prefix .. v.name] = y.of_lists and 'variant' or y.dtype
        self.optional[prefix .. v.name] = y.optional and y.dtype or nil
      end
    else
      if core.node_by_name(self.graph.handle, source.plain(prefix .. v.name)) < 0 then
        y = df.identity(y, { name = source.plain(prefix .. v.name) })
      end
      alias(self.graph, prefix .. v.name, y)
    end
    self.made[#self.made + 1] = prefix .. v.name
  end
end

--- The Outputs under these names, one by one: a sequence is a list of them.
local function outputs_of(g, list)
  local out = {}
  for _, name in ipairs(list) do
    local parts = g.onnx.sequences[name]
    for k = 1, parts or 1 do out[#out + 1] = g.aliases[parts and ('%s[%d]'):format(name, k - 1) or name] end
  end
  return out
end

-- ---- df.import_onnx -------------------------------------------------------------------------------------------------
local function opset_of(model)
  for _, o in ipairs(model.opsets) do
    if not o.domain or o.domain == '' or o.domain == 'ai.onnx' then return o.version or 1 end
  end
  return 1
end

--- That each name in shapes is one of an input.
local function check_shapes(shapes, given)
  local known = {}
  for _, name in ipairs(given) do known[name] = true end
  for name in pairs(shapes or {}) do
    if not known[name] then
      errors.bad("import_onnx: shapes names '%s', the model's inputs are: %s", tostring(name),
                 table.concat(given, ', '))
    end
  end
end

--- df.import_onnx(path or bytes, {into =, prefix =, shapes =}): an ONNX model as a Graph, a new one unless `into` is
-- given. Its inputs are placeholders; they and the outputs are found under their names, g:output('x') or
-- g:output('x:0'), behind prefix .. '/' where there is a prefix.
-- g.onnx = {inputs = list of names, outputs = list of names, lists =, sequences =, optional =}. A sequence or an
-- optional value that the model takes, or gives with a length that is known only when it runs, is in lists by its name,
-- with the dtype of its elements: it is fed and fetched as
-- df.tensor_list(list) makes it, and df.tensor_list_values(value, dtype) has the elements. Of a sequence whose length
-- is known, g.onnx.sequences has the length, and its elements are g:output('y[0]') and so on. Of an optional value
-- g.onnx.optional has the dtype of what it holds.
-- Initializers are constants. shapes = {x = {1, 3, 224, 224}} says the shapes of
-- inputs (by the model's names) whose dimensions the model leaves open: the graph is for these alone then.
function M.import_onnx(from, opts)
  local g, prefix, bytes, path = source.arguments('import_onnx', from, opts, 'shapes')
  local ok, err = pcall(function()
    local model = read.message('model', bytes)
    if not model.graph then errors.raise('data_loss', 'this is no ONNX model: it holds no graph') end
    local self = setmetatable({ graph = g, opset = opset_of(model), functions = {}, depth = 0, twins = {}, narrow = {},
                                shapes = opts and opts.shapes, given = {}, unprefixed = {}, made = {}, sequences = {},
                                lists = {}, optional = {},
                                ops = require 'dflow.exchange.onnx.import_flow' }, Importer)
    if self.opset > NEWEST then
      errors.raise('unimplemented', 'the ONNX model is of opset %d, %d is the last that is known', self.opset, NEWEST)
    end
    for _, f in ipairs(model.functions) do self.functions[(f.domain or '') .. ':' .. (f.name or '')] = f end
    graph.with(g, function()
      local env = { values = {} }
      self:initializers(model.graph, env)
      self:inputs(model.graph, env, prefix)
      check_shapes(self.shapes, self.unprefixed)
      self:nodes(model.graph.nodes, env)
      self:outputs(model.graph, env, prefix)
    end)
    g.onnx = { inputs = self.given, outputs = self.made, sequences = self.sequences, lists = self.lists,
               optional = self.optional }
    g.results, g.inputs, g.outputs = self.made, outputs_of(g, self.given), outputs_of(g, self.made)
  end)
  if not ok then
    -- An attribute that the format asks for and the file lacks, one of another kind: the ops trust them.
    if type(err) == 'string' and not err:find 'not enough memory' then
      local ok_too
      ok_too, err = pcall(errors.raise, 'data_loss',
                          'the ONNX model is not what its ops ask for: %s', (err:gsub('^[^\n]-%.lua:%d+: ', '')))
      assert(not ok_too)
    end
    if path and type(err) == 'table' and err.message then err.message = errors.shown(path .. ': ' .. err.message) end
    error(err, 0)
  end
  return g
end

return M
