--- export_graph_def: a graph as TensorFlow's GraphDef.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local files = require 'dflow.exchange.file'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'

local M = {}
local Graph, Output, Operation = graph.Graph, graph.Output, graph.Operation
local known = { 'outputs', 'with_context', 'graph' }

local function add(g, x, flat)
  local mt = getmetatable(x)
  if nest.is_plain(x) then
    for _, v in pairs(x) do add(g, v, flat) end
    return
  end
  if mt ~= Output and mt ~= Operation and type(mt) == 'table' and rawget(mt, 'as_output') then
    x = mt.as_output(x)
    mt = getmetatable(x)
  end
  if mt ~= Output and mt ~= Operation then
    errors.bad('export_graph_def: outputs has %s; an Output, an operation or a Variable is expected', errors.describe(x))
  end
  if x.graph ~= g then errors.bad('export_graph_def: outputs has %s, which belongs to another graph', x.name) end
  flat[#flat + 1], flat[#flat + 2] = x.node, mt == Operation and -1 or x.index
end

--- The graph of the first output in a table of them.
local function graph_of(x)
  if not nest.is_plain(x) then return type(x) == 'table' and x.graph end
  for _, v in pairs(x) do
    local g = graph_of(v)
    if g then return g end
  end
end

--- df.export_graph_def(path, {outputs =, with_context =, graph =}): writes the graph, or what `outputs` need of it, so that TensorFlow
-- imports and runs it. The form is binary, or text where path ends in `.pbtxt`. Variables have an operation `init` that gives them
-- their initial values. With with_context a second file, path .. '.meta', is a MetaGraphDef with the conds and loops as contexts, so that
-- tf.compat.v1.train.import_meta_graph reads a graph that tf.gradients can differentiate; a path that ends in `.meta` is that file alone.
function M.export_graph_def(path, opts)
  if type(path) ~= 'string' or path == '' then errors.bad('export_graph_def takes a path, not %s', errors.describe(path)) end
  opts = errors.options(opts, 'export_graph_def', known)
  local outputs = opts.outputs
  local g = opts.graph or (outputs ~= nil and graph_of(outputs)) or graph.current()
  if getmetatable(g) ~= Graph then errors.bad('export_graph_def: graph is %s, a Graph is expected', errors.describe(g)) end
  local flat
  if outputs ~= nil then
    flat = {}
    add(g, outputs, flat)
    if #flat == 0 then errors.bad('export_graph_def: outputs is empty') end
  end
  local meta = path:find('%.meta$') ~= nil
  local function bytes(with_context)
    return core.tensor_bytes(core.export_graph_def(g.handle, flat, with_context, path:find('%.pbtxt$') ~= nil))
  end
  if not meta then files.write(path, bytes(false)) end
  if meta or opts.with_context then files.write(meta and path or path .. '.meta', bytes(true)) end
end

return M
