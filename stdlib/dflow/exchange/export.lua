--- export_graph_def: a graph as TensorFlow's GraphDef.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local files = require 'dflow.exchange.file'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local sessions = require 'dflow.front.session'

local M = {}
local Graph, Output, Operation = graph.Graph, graph.Output, graph.Operation
local tensor = require 'dflow.front.tensor'
local known = { 'outputs', 'with_context', 'graph', 'session', 'frozen', 'clear_devices' }
local enums = require 'dflow.backend.enums'
local CONTEXT, TEXT, FROZEN, CLEAR = enums.DF_EXPORT_CONTEXT, enums.DF_EXPORT_TEXT, enums.DF_EXPORT_FROZEN,
  enums.DF_EXPORT_CLEAR_DEVICES

--- What has this metatable and is no output itself, but gives one: a Variable, rows.
local function gives_output(mt)
  return type(mt) == 'table' and mt ~= Output and mt ~= Operation and rawget(mt, 'as_output') ~= nil
end

local function add(g, x, flat, depth)
  local mt = getmetatable(x)
  if nest.is_plain(x) then
    depth = errors.deeper(depth)
    for _, v in pairs(x) do add(g, v, flat, depth) end
    return
  end
  if gives_output(mt) then
    x = mt.as_output(x)
    mt = getmetatable(x)
  end
  if mt ~= Output and mt ~= Operation then
    errors.bad('export_graph_def: outputs has %s; an Output, an operation or a Variable is expected',
               errors.describe(x))
  end
  if x.graph ~= g then errors.bad('export_graph_def: outputs has %s, which belongs to another graph', x.name) end
  flat[#flat + 1], flat[#flat + 2] = x.node, mt == Operation and -1 or x.index
end

--- The graph of the first output in a table of them.
local function graph_of(x, depth)
  local mt = getmetatable(x)
  if not nest.is_plain(x) then return (mt == Output or mt == Operation or gives_output(mt)) and x.graph end
  depth = errors.deeper(depth)
  for _, v in pairs(x) do
    local g = graph_of(v, depth)
    if g then return g end
  end
end

--- What a variable is in a session, as a Tensor; nil where it has no value yet.
local function value_of(v, s)
  core.push_top(v.graph.handle)
  local made, read = pcall(getmetatable(v).as_output, v)
  core.pop_top(v.graph.handle)
  if not made then error(read, 0) end
  local ok, value = pcall(s.run, s, read)
  if not ok then
    if type(value) == 'table' and value.code == 'failed_precondition' then return nil end
    error(value, 0)
  end
  return getmetatable(value) == tensor.Tensor and value or tensor.tensor(value, v.dtype)
end

--- The pairs of node and trainable of the variables that are written, and, where a session is given, the list of their
-- values.
local function variables_of(g, flat, s)
  local needed, pairs_list, values = nil, {}, {}
  if flat then
    needed = {}
    local outputs = {}
    for i = 1, #flat, 2 do outputs[i], outputs[i + 1] = flat[i], math.max(flat[i + 1], 0) end
    for _, node in ipairs(core.graph_needs(g.handle, outputs)) do needed[node] = true end
  end
  for _, v in ipairs(g.variables) do
    local node = v.handle.node
    if not needed or needed[node] then
      local n = #pairs_list / 2 + 1
      pairs_list[2 * n - 1], pairs_list[2 * n] = node, v.trainable and 1 or 0
      values[n] = s and value_of(v, s) or false
    end
  end
  return pairs_list, values
end

--- A function that gives the bytes of what is to be written, with contexts or without.
local function writer(opts, form_bits)
  local outputs = opts.outputs
  local g = opts.graph or (outputs ~= nil and graph_of(outputs)) or graph.current()
  if getmetatable(g) ~= Graph then
    errors.bad('export_graph_def: graph is %s, a Graph is expected', errors.describe(g))
  end
  local flat
  if outputs ~= nil then
    flat = {}
    add(g, outputs, flat)
    if #flat == 0 then errors.bad('export_graph_def: outputs is empty') end
  end
  local s = opts.session
  if s ~= nil and getmetatable(s) ~= sessions.Session then
    errors.bad('export_graph_def: session is %s, a Session is expected', errors.describe(s))
  end
  if s and s.graph ~= g then
    errors.bad('export_graph_def: the session runs another graph than the one that is written')
  end
  if opts.frozen then s = s or sessions.default(g) end
  local variables, values = variables_of(g, flat, s)
  local form = form_bits + (opts.frozen and FROZEN or 0) + (opts.clear_devices and CLEAR or 0)
  return function(with_context)
    return core.tensor_bytes(core.export_graph_def(g.handle, flat, form + (with_context and CONTEXT or 0), variables,
        values))
  end
end

--- The bytes of the GraphDef that export_graph_def would write.
function M.graph_def_bytes(opts) return writer(opts, 0)(false) end

--- df.export_graph_def(path, {outputs =, with_context =, graph =, session =, frozen =, clear_devices =}): writes the
-- graph, or what `outputs` need of it, so that TensorFlow imports and runs it. The form is binary, or text where path
-- ends in `.pbtxt`. Variables have an operation `init` that gives them their initial values, or with `session` those
-- that they have in that session. frozen: variables are constants, with their values in the session (the default one);
-- without `outputs`, what changes a variable is then left out, with all that depends on it. With with_context a second
-- file, path .. '.meta', is a MetaGraphDef with the conds and loops as contexts and the variables as collections, so
-- that tf.compat.v1.train.import_meta_graph reads a graph that tf.gradients can differentiate and a Saver can save; a
-- path that ends in `.meta` is that file alone. Where nodes were asked to run is in their `device`, or `_class` for
-- those that are to be with another one; TensorFlow runs what was asked of a device that it does not have where
-- placement is soft, or with clear_devices, which leaves that out.
function M.export_graph_def(path, opts)
  if type(path) ~= 'string' or path == '' then
    errors.bad('export_graph_def takes a path, not %s', errors.describe(path))
  end
  opts = errors.options(opts, 'export_graph_def', known)
  local bytes = writer(opts, path:find('%.pbtxt$') and TEXT or 0)
  local meta = path:find('%.meta$') ~= nil
  if not meta then files.write(path, bytes(false)) end
  if meta or opts.with_context then files.write(meta and path or path .. '.meta', bytes(true)) end
end

return M
