--- TensorFlow's graphs, read and written.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local convert = require 'dflow.front.convert'
local signatures = require 'dflow.exchange.signatures'

local M = {}
local Graph, Output, Operation = graph.Graph, graph.Output, graph.Operation
local known = { 'input_map', 'prefix', 'into', 'files', 'signature' }

--- The bytes of a graph: those given, or those of the file (or of a SavedModel's folder) that was named. A graph's
-- bytes have control characters or a brace among them, which no path has.
local function read(source)
  if type(source) ~= 'string' then
    errors.bad('import_graph_def takes a path or the bytes of a graph, not %s', errors.describe(source))
  end
  if source == '' then errors.bad('import_graph_def: the path is empty') end
  if source:find('[%c{]') then return source end
  local ok, bytes = pcall(core.read_file, source)
  if ok then return bytes, source end
  local folder = source:gsub('/+$', '')
  if not pcall(core.folder_list, folder) then error(bytes, 0) end
  for _, name in ipairs{ 'saved_model.pb', 'saved_model.pbtxt' } do
    local model = folder .. '/' .. name
    local there, why = pcall(core.file_size, model)           -- a pipe, say, is none
    if there then return core.read_file(model), model, folder end
    if why.code ~= 'not_found' then error(why, 0) end
  end
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
      errors.bad("import_graph_def: input_map['%s'] belongs to another graph than the one imported into (say so with "
                 .. "`into`)", name)
    end
    to[2 * i - 1], to[2 * i] = x.node, mt == Operation and -1 or x.index
  end
  return names, to
end

-- ---- variables ----------------------------------------------------------------------------------------------------
--- The node and index behind all that hands a value on.
local function origin(g, node, index)
  while true do
    local type_name = core.node_type(g.handle, node)
    local i = type_name == 'Identity' and 0 or type_name == 'IdentityN' and index
    if not i then return node, index end
    node, index = core.node_input_of(g.handle, node, i)
  end
end

--- Which tensor of a checkpoint each variable is restored from, and which part of it: {[node] = {key, part}}, as the
-- graph's own restoring operations have it.
local function restored_keys(g, first)
  local keys = {}
  for node = first, core.graph_nodes(g.handle) - 1 do
    local type_name = core.node_type(g.handle, node)
    if type_name == 'AssignVariableOp' or type_name == 'Assign' then
      local from, index = origin(g, core.node_input_of(g.handle, node, 1))
      if core.node_type(g.handle, from) == 'RestoreV2' then
        local names = core.output_constant(g.handle, core.node_input_of(g.handle, from, 1))
        local parts = core.output_constant(g.handle, core.node_input_of(g.handle, from, 2))
        keys[(origin(g, core.node_input_of(g.handle, node, 0)))] = names and parts
          and { names:list()[index + 1], parts:list()[index + 1] }
      end
    end
  end
  return keys
end

--- Makes Variables of the variables of an imported graph. `facts` is int32[n,4] as dflow.h says; those of a SavedModel
-- begin with what its checkpoint holds.
local function adopt(g, first, facts, folder)
  local list, variable = facts:list(), require 'dflow.front.variable'
  local prefix = folder and folder .. '/variables/variables'
  local keys = prefix and #list > 0 and pcall(core.read_file, prefix .. '.index') and restored_keys(g, first) or {}
  core.push_top(g.handle)
  local ok, err = pcall(function()
    for i = 1, #list, 4 do
      local node, trainable, init, index = list[i], list[i + 1], list[i + 2], list[i + 3]
      local initial = init >= 0 and graph.output(g, init, index) or nil
      if keys[node] then
        initial = convert.constant(g, core.checkpoint_read(prefix, keys[node][1], keys[node][2]))
      end
      local known = nil
      if trainable >= 0 then known = trainable == 1 end
      variable.adopt(graph.output(g, node, 0), known, initial)
    end
  end)
  core.pop_top(g.handle)
  if not ok then error(err, 0) end
end

--- Has sessions of g run the model's initializer before all else, fed with the paths of its assets: so it may read
-- these, and no other files.
local function add_start(g, start, under, folder)
  if not start or core.node_by_name(g.handle, under .. start.op) < 0 then return end
  local feeds = {}
  for name, file in pairs(start.assets) do
    if folder then feeds[g:output(under .. name)] = folder .. '/assets/' .. file end
  end
  g.starts = g.starts or {}
  table.insert(g.starts, { op = g:op(under .. start.op), feeds = next(feeds) and feeds })
end

--- df.import_graph_def(path or bytes, {into =, prefix =, input_map =, signature =}): a TensorFlow graph as a Graph, a
-- new one unless `into` is given.
-- Nodes are found by the names they have in the file, g:output('while/Exit:0'), behind prefix .. '/' where there is a
-- prefix.
-- `input_map` replaces inputs: {['x:0'] = an Output of `into`, ['^init'] = an operation}. Its variables are
-- df.Variables, trainable as the file's collections say; those of a SavedModel's folder begin with what its checkpoint
-- holds. `files` lets its operations read and write files by themselves; without it they do under a path that a run
-- feeds. Of a SavedModel g.signatures has what it takes and gives, as {name = {inputs = {name = 'node:0'}, outputs =,
-- method =}}; of the one that `signature` names (serving_default, or the only one) g.inputs and g.outputs are the
-- Outputs, by name and as lists in the order of names, and g.results the names of the outputs. Its initializer, which
-- fills its tables, is run by each session before all else (g.starts).
function M.import_graph_def(source, opts)
  opts = errors.options(opts, 'import_graph_def', known)
  local g = opts.into
  if g == nil then g = graph.new_graph() end
  if getmetatable(g) ~= Graph then
    errors.bad('import_graph_def: into is %s, a Graph is expected', errors.describe(g))
  end
  errors.flag(opts.files, 'import_graph_def', 'files')
  local prefix = opts.prefix
  if prefix ~= nil and (type(prefix) ~= 'string' or prefix:find('[%s:^%c]')) then
    errors.bad('import_graph_def: prefix is %s, a name is expected', errors.describe(prefix))
  end
  local names, to = take_map(g, opts.input_map)
  if opts.files then core.graph_allow_files(g.handle) end
  local bytes, path, folder = read(source)
  --- What fn gives; where it fails the error names the file.
  local function of_file(fn, ...)
    local ok, result, second = pcall(fn, ...)
    if ok then return result, second end
    if path and type(result) == 'table' and result.message then
      result.message = errors.shown(path .. ': ' .. result.message)
    end
    error(result, 0)
  end
  local found, start = of_file(signatures.read, bytes)
  local chosen = signatures.choose(found, opts.signature)
  local first = core.graph_nodes(g.handle)
  g.may_last = true
  local result = of_file(core.import_graph_def, g.handle, bytes, prefix, names, to, core.where())
  adopt(g, first, result, folder)
  if found then
    local under, said = prefix and prefix ~= '' and prefix:gsub('/*$', '') .. '/' or '', found[chosen]
      or { inputs = {}, outputs = {} }
    g.signatures, g.inputs = found, signatures.outputs(g, said.inputs, under)
    g.outputs, g.results = signatures.outputs(g, said.outputs, under)
    add_start(g, start, under, folder)
  end
  return g
end

return M
