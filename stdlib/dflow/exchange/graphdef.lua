--- TensorFlow's graphs, read and written.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'

local M = {}
local Graph, Output, Operation = graph.Graph, graph.Output, graph.Operation
local known = { 'input_map', 'prefix', 'into', 'files' }

--- The bytes of a graph: those given, or those of the file (or of a SavedModel's folder) that was named. A graph's bytes have
-- control characters or a brace among them, which no path has.
local function read(source)
  if type(source) ~= 'string' then
    errors.bad('import_graph_def takes a path or the bytes of a graph, not %s', errors.describe(source))
  end
  if source == '' then errors.bad('import_graph_def: the path is empty') end
  if source:find('[%c{]') then return source end
  local ok, bytes = pcall(core.read_file, source)
  if ok then return bytes, source end
  local inside = source:gsub('/+$', '') .. '/saved_model.pb'
  local there, model = pcall(core.read_file, inside)
  if there then return model, inside end
  error(bytes, 0)
end

local function take_map(g, map)
  local names, to = {}, {}
  if map == nil then return names, to end
  if not errors.is_data(map) then
    errors.bad("import_graph_def: input_map is a table {['name:0'] = Output}, not %s", errors.describe(map))
  end
  for name in pairs(map) do
    if type(name) ~= 'string' then
      errors.bad('import_graph_def: the keys of input_map are names such as \'x:0\', this is %s', errors.describe(name))
    end
    names[#names + 1] = name
  end
  table.sort(names)
  for i, name in ipairs(names) do
    local x = map[name]
    local mt = getmetatable(x)
    if type(mt) == 'table' and rawget(mt, 'as_output') then
      x = mt.as_output(x)
      mt = getmetatable(x)
    end
    if mt ~= Output and mt ~= Operation then
      errors.bad("import_graph_def: input_map['%s'] is %s, an Output%s is expected", name, errors.describe(x),
                 name:sub(1, 1) == '^' and ' or operation' or '')
    end
    if x.graph ~= g then
      errors.bad("import_graph_def: input_map['%s'] belongs to another graph than the one imported into (say so with `into`)", name)
    end
    to[2 * i - 1], to[2 * i] = x.node, mt == Operation and -1 or x.index
  end
  return names, to
end

--- df.import_graph_def(path or bytes, {into =, prefix =, input_map =}): a TensorFlow graph as a Graph, a new one unless `into` is given.
-- Nodes are found by the names they have in the file, g:output('while/Exit:0'), behind prefix .. '/' where there is a prefix.
-- `input_map` replaces inputs: {['x:0'] = an Output of `into`, ['^init'] = an operation}.
function M.import_graph_def(source, opts)
  opts = errors.options(opts, 'import_graph_def', known)
  local g = opts.into
  if g == nil then g = graph.new_graph() end
  if getmetatable(g) ~= Graph then
    errors.bad('import_graph_def: into is %s, a Graph is expected', errors.describe(g))
  end
  local prefix = opts.prefix
  if prefix ~= nil and (type(prefix) ~= 'string' or prefix:find('[%s:^%c]')) then
    errors.bad('import_graph_def: prefix is %s, a name is expected', errors.describe(prefix))
  end
  local names, to = take_map(g, opts.input_map)
  if opts.files then core.graph_allow_files(g.handle) end
  local bytes, path = read(source)
  local ok, err = pcall(core.import_graph_def, g.handle, bytes, prefix, names, to, core.where())
  if not ok then
    if path and type(err) == 'table' and err.message then err.message = path .. ': ' .. err.message end
    error(err, 0)
  end
  return g
end

return M
