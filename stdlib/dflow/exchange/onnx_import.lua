--- An ONNX model as a graph: df.import_onnx.
--
-- Nodes are built in the order of the file, each by the function of its operator, under the names that their values have. Loop, If and
-- Scan own graphs, which see the names around them: they become while_loops and conds whose functions build those graphs. A sequence is
-- a list of Outputs while its length is known; where a Loop carries it, it is TensorFlow's tensor list.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local read = require 'dflow.exchange.onnx.read'
local source = require 'dflow.exchange.source'

local M = { domain = {} }       -- domain: operator -> the domain that it is of, where that is not the standard's own
local unpack = graph.unpack
local NEWEST = 28

-- ---- sequences --------------------------------------------------------------------------------------------------------
local Sequence = { __name = 'dflow.onnx.Sequence' }
Sequence.__index = Sequence
local function sequence(list) return setmetatable({ list = list }, Sequence) end

local function value_dtype(type_message)
  local t = type_message and (type_message.tensor or (type_message.sequence and type_message.sequence.element and type_message.sequence.element.tensor))
  return t and read.dtype[t.d or 0] and dtypes.name[read.dtype[t.d]] or nil
end

--- A shape as a list with -1; nil where even the rank is not known.
local function value_shape(type_message)
  local t = type_message and type_message.tensor
  if not t or not t.shape then return nil end
  local shape = {}
  for i, dim in ipairs(t.shape.dims) do shape[i] = dim.value and dim.value >= 0 and dim.value or -1 end
  return shape
end

-- ---- a model's graph ------------------------------------------------------------------------------------------------------
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
  local n = { name = node.name or '', op = node.op, opset = self.opset, count = #node.outputs, env = env, importer = self, node = node }
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
    errors.raise('unimplemented', 'the ONNX node %s (%s): %s', n.name ~= '' and n.name or node.outputs[1] or '?', n.op, why)
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
  local fn = self.ops[node.op]
  local own = self.functions[(node.domain or '') .. ':' .. (node.op or '')]
  local domain = node.domain or ''
  if not own and (domain == 'ai.onnx' and '' or domain) ~= (M.domain[node.op] or '') then fn = nil end
  local inputs, count = {}, #node.inputs
  for i, name in ipairs(node.inputs) do
    if name ~= '' then
      local v = lookup(env, name)
      if v == nil then errors.raise('invalid_argument', "the ONNX node %s (%s) takes '%s', which nothing gives", where_text(node), tostring(node.op), name) end
      inputs[i] = v
    end
  end
  local n = view(self, node, env)
  local results
  if own then
    results = self:call(own, n, inputs)
  elseif not fn then
    errors.raise('unimplemented', 'dflow does not know the ONNX operator %s (node %s, %s)', tostring(node.op), where_text(node),
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
      if results[i] == nil then errors.raise('unimplemented', "the ONNX node %s (%s): its output %d is not made here", where_text(node), node.op, i) end
      env.values[name] = results[i]
    end
  end
end

function Importer:nodes(list, env)
  for _, node in ipairs(list) do self:build(node, env) end
end

--- A function of the model itself: its nodes, with its inputs and attributes.
function Importer:call(fn, n, inputs)
  if self.depth > 50 then errors.raise('invalid_argument', 'the functions of this model call each other without end') end
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
    if out[i] == nil then errors.raise('invalid_argument', "the ONNX graph %s gives '%s', which nothing makes", g.name or '?', v.name or '?') end
  end
  return out
end

function Importer:initializers(g, env)
  local df = require 'dflow'
  if #g.sparse > 0 then errors.raise('unimplemented', 'the ONNX graph %s has sparse initializers', g.name or '?') end
  for _, t in ipairs(g.initializers) do
    env.values[t.name or ''] = df.constant(read.tensor(t, ("the initializer '%s'"):format(t.name or '')))
  end
end

-- ---- inputs, outputs ----------------------------------------------------------------------------------------------------
--- Lets g:output find an Output under a name of the model's.
local function alias(g, name, output)
  g.aliases = g.aliases or {}
  g.aliases[name] = output
end

function Importer:inputs(model_graph, env, prefix)
  local df = require 'dflow'
  for _, v in ipairs(model_graph.inputs) do
    if env.values[v.name] == nil then
      local d = value_dtype(v.type)
      if not d or (v.type and not v.type.tensor) then
        errors.raise('unimplemented', "the input '%s' of the ONNX model is no tensor of a type that dflow has", v.name or '?')
      end
      local x = df.placeholder(d, value_shape(v.type), source.free(self.graph, prefix .. v.name))
      env.values[v.name] = x
      alias(self.graph, prefix .. v.name, x)
      self.given[#self.given + 1] = prefix .. v.name
    end
  end
end

function Importer:outputs(model_graph, env, prefix)
  local df = require 'dflow'
  for _, v in ipairs(model_graph.outputs) do
    local y = lookup(env, v.name)
    if y == nil then errors.raise('invalid_argument', "the ONNX model gives '%s', which nothing makes", v.name or '?') end
    if getmetatable(y) == Sequence then
      if not y.list then
        errors.raise('unimplemented', "the output '%s' of the ONNX model is a sequence whose length is known only when it runs", v.name)
      end
      for i, x in ipairs(y.list) do alias(self.graph, ('%s%s[%d]'):format(prefix, v.name, i - 1), x) end
      self.sequences[prefix .. v.name] = #y.list
    else
      if core.node_by_name(self.graph.handle, source.plain(prefix .. v.name)) < 0 then y = df.identity(y, { name = source.plain(prefix .. v.name) }) end
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

-- ---- df.import_onnx -------------------------------------------------------------------------------------------------------
local function opset_of(model)
  for _, o in ipairs(model.opsets) do
    if not o.domain or o.domain == '' or o.domain == 'ai.onnx' then return o.version or 1 end
  end
  return 1
end

--- df.import_onnx(path or bytes, {into =, prefix =}): an ONNX model as a Graph, a new one unless `into` is given. Its inputs are placeholders;
-- they and the outputs are found under their names, g:output('x') or g:output('x:0'), behind prefix .. '/' where there is a prefix.
-- g.onnx = {inputs = list of names, outputs = list of names}. Initializers are constants.
function M.import_onnx(from, opts)
  local g, prefix, bytes, path = source.arguments('import_onnx', from, opts)
  local ok, err = pcall(function()
    local model = read.message('model', bytes)
    if not model.graph then errors.raise('data_loss', 'this is no ONNX model: it holds no graph') end
    local self = setmetatable({ graph = g, opset = opset_of(model), functions = {}, depth = 0, given = {}, made = {}, sequences = {},
                                ops = require 'dflow.exchange.onnx.import_flow' }, Importer)
    if self.opset > NEWEST then errors.raise('unimplemented', 'the ONNX model is of opset %d, %d is the last that is known', self.opset, NEWEST) end
    for _, f in ipairs(model.functions) do self.functions[(f.domain or '') .. ':' .. (f.name or '')] = f end
    graph.with(g, function()
      local env = { values = {} }
      self:initializers(model.graph, env)
      self:inputs(model.graph, env, prefix)
      self:nodes(model.graph.nodes, env)
      self:outputs(model.graph, env, prefix)
    end)
    g.onnx = { inputs = self.given, outputs = self.made, sequences = self.sequences }
    g.results, g.inputs, g.outputs = self.made, outputs_of(g, self.given), outputs_of(g, self.made)
  end)
  if not ok then
    -- An attribute that the format asks for and the file lacks, one of another kind: the ops trust them.
    if type(err) == 'string' and not err:find 'not enough memory' then
      local ok_too
      ok_too, err = pcall(errors.raise, 'data_loss', 'the ONNX model is not what its ops ask for: %s', (err:gsub('^[^\n]-%.lua:%d+: ', '')))
      assert(not ok_too)
    end
    if path and type(err) == 'table' and err.message then err.message = errors.shown(path .. ': ' .. err.message) end
    error(err, 0)
  end
  return g
end

M.Sequence, M.sequence, M.value_dtype, M.value_shape = Sequence, sequence, value_dtype, value_shape
return M
