--- What the importers share: where a model comes from, where it goes, and the names that its nodes get.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'

local M = {}

--- A name that TensorFlow's graphs allow, made of any text.
function M.plain(name)
  name = name:gsub('[^%w_./%-]', '_')
  return name:find('^[%w.]') and name or '.' .. name
end

--- A name made of that one which no node of g has.
function M.free(g, name)
  local base, k = M.plain(name), 1
  name = base
  while core.node_by_name(g.handle, name) >= 0 do
    name = base .. '_' .. k
    k = k + 1
  end
  return name
end

--- The arguments of an importer, checked: the Graph to build in, the prefix of names ('' or ending with /), the bytes,
-- and the path that they were read from, if any. `more` is another option that is known. `from` is a path, or the bytes
-- themselves where it holds a control character.
function M.arguments(fn, from, opts, more)
  opts = errors.options(opts, fn, { 'into', 'prefix', more })
  local g, prefix = opts.into, opts.prefix
  if g == nil then g = graph.new_graph() end
  if getmetatable(g) ~= graph.Graph then errors.bad('%s: into is %s, a Graph is expected', fn, errors.describe(g)) end
  if prefix ~= nil and (type(prefix) ~= 'string' or prefix:find('[%s:^%c]')) then
    errors.bad('%s: prefix is %s, a name is expected', fn, errors.describe(prefix))
  end
  prefix = prefix and prefix ~= '' and prefix:gsub('/*$', '') .. '/' or ''
  if type(from) ~= 'string' then
    errors.bad('%s takes a path or the bytes of a model, not %s', fn, errors.describe(from))
  end
  if from == '' then errors.bad('%s: the path is empty', fn) end
  if from:find('%c') then return g, prefix, from end
  return g, prefix, core.tensor_bytes(core.read_file(from)), from
end

--- The Graph of a model's file, imported by what its name ends with: .onnx, .hlo.pb or .hlo.pb.gz, else a GraphDef or
-- SavedModel, of which one signature is meant.
function M.open(path, signature)
  local df = require 'dflow'
  if path:find '%.onnx$' then return df.import_onnx(path) end
  if path:find '%.hlo%.pb$' or path:find '%.hlo%.pb%.gz$' then return df.import_hlo(path) end
  return df.import_graph_def(path, { signature = signature })
end

return M
