--- `dflow inspect`: what is in a model.
local df = require 'dflow'
local core = require 'dflow.backend'
local registry = require 'dflow.front.registry'
local options = require 'dflow.command.options'
local lists = require 'dflow.command.lists'
local shape_text = require('dflow.front.tensor').shape_text

local help = [[
usage: dflow inspect GRAPH [options]
Shows what is in a TensorFlow graph, an ONNX model or an HLO module: its inputs and outputs, ops, frames, loops and conds, variables and
sizes, and how it is run.

  --ops               all ops with their counts, not only the most frequent
  --nodes             every node with its op, dtypes, shapes and inputs
  --let               the outputs in let-form: loops and conds as they would be written
  --help              shows this text
]]

local known = { ops = 'flag', nodes = 'flag', let = 'flag' }
local TOP_OPS, TOP_NAMES = 20, 40

local M = {}

local function bytes_text(n)
  local units = { 'bytes', 'KiB', 'MiB', 'GiB' }
  local k = 1
  while n >= 1024 and k < #units do n, k = n / 1024, k + 1 end
  return (k == 1 and '%d %s' or '%.1f %s'):format(n, units[k])
end

local function size_of(output)
  local shape, n = output.shape, core.dtype_bytes and core.dtype_bytes(output.dtype) or nil
  local size = ({ float32 = 4, int32 = 4, uint32 = 4, float64 = 8, int64 = 8, uint64 = 8, complex64 = 8,
                  complex128 = 16, float16 = 2, bfloat16 = 2,
                  int16 = 2, uint16 = 2, string = 16 })[output.dtype] or n or 1
  for _, d in ipairs(shape or {}) do
    if d < 0 then return nil end
    size = size * d
  end
  return shape and size or nil
end

--- The value of an attribute, as text; nil where the node has none or the default.
local function attr(g, op, name)
  return (' ' .. core.node_attrs_text(g.handle, op.node) .. ' '):match(' ' .. name .. "='?([^%s']+)'?")
end


--- Does an op of this type name a variable?
local function variable(type) return registry.about(type, 'variable') ~= nil end

--- The tensors at the top level that no node takes, in the graph's order, by name.
function M.outputs(g)
  local used, names = {}, {}
  local ops = g:ops()
  for _, op in ipairs(ops) do
    for i = 0, core.node_inputs(g.handle, op.node) - 1 do used[(core.node_input_of(g.handle, op.node, i))] = true end
  end
  for _, op in ipairs(ops) do
    if not used[op.node] and core.node_outputs(g.handle, op.node) > 0 and core.node_context(g.handle, op.node) == 0
       and registry.primitive(op.type) ~= 'Const' and not variable(op.type) then
      names[#names + 1] = op.name .. ':0'
    end
  end
  return names
end

local function line(text) io.stdout:write(text, '\n') end

local function section(title, list)
  if #list == 0 then return end
  line(('%s (%d)'):format(title, #list))
  for i = 1, math.min(#list, TOP_NAMES) do line('  ' .. list[i]) end
  if #list > TOP_NAMES then line(('  … and %d more'):format(#list - TOP_NAMES)) end
end

local function describe(output) return ('%s  %s'):format(output.name, shape_text(output.dtype, output.shape)) end

--- The inputs or outputs of an ONNX model, under its own names.
local function model_values(g, names)
  local texts = {}
  for i, name in ipairs(names) do
    local kind, length, what = lists.kind(g, name), g.onnx.sequences[name]
    if length then what = ('sequence of %d'):format(length)
    elseif kind then what = (kind.optional and 'optional ' or '')
        .. ((kind.of_lists or not kind.optional) and 'sequence of ' or '') .. kind.dtype
    else what = shape_text(g:output(name).dtype, g:output(name).shape) end
    texts[i] = ('%s  %s'):format(name, what)
  end
  return texts
end

--- The command that runs it: what is to be fed, and, where no model says so, what to fetch.
local function how_to_run(g, path, inputs, outputs)
  local words, feeds, signature = { 'dflow run', (path:find '[^%w_./-]' and "'%s'" or '%s'):format(path) }, {}, nil
  for name in pairs(g.signatures or {}) do
    if signature ~= 'serving_default' and (name == 'serving_default' or not signature or name < signature) then
      signature = name
    end
  end
  if signature then
    words[#words + 1] = '--signature ' .. signature
    for name in pairs(g.signatures[signature].inputs) do feeds[#feeds + 1] = name end
    table.sort(feeds)
  else
    for i, text in ipairs(inputs) do feeds[i] = text:match '^(.-)  ':gsub(':0$', '') end
  end
  for _, name in ipairs(feeds) do words[#words + 1] = ('--feed %s=…'):format(name) end
  if not signature and not g.results and outputs[1] then
    words[#words + 1] = '--fetch ' .. outputs[1]:match '^(.-)  '
  end
  return table.concat(words, ' ')
end

--- How often each op occurs, most frequent first.
local function count_ops(ops)
  local count, types = {}, {}
  for _, op in ipairs(ops) do
    local t = op.type
    if not count[t] then types[#types + 1] = t end
    count[t] = (count[t] or 0) + 1
  end
  table.sort(types, function(a, b) return count[a] ~= count[b] and count[a] > count[b] or count[a] == count[b]
      and a < b end)
  return types, count
end

--- One text per frame: how many variables and constants enter it.
local function frame_texts(g, ops)
  local order, by = {}, {}
  for _, op in ipairs(ops) do
    if registry.primitive(op.type) == 'Enter' then
      local name = attr(g, op, 'frame_name') or '?'
      local f = by[name]
      if not f then
        f = { name = name, variables = 0, constants = 0, parallel = attr(g, op, 'parallel_iterations') }
        by[name] = f
        order[#order + 1] = f
      end
      if attr(g, op, 'is_constant') == 'true' then f.constants = f.constants + 1 else f.variables = f.variables + 1 end
    end
  end
  for i, f in ipairs(order) do
    order[i] = ('%s  %d variables, %d constants%s')
      :format(f.name, f.variables, f.constants, f.parallel and ', parallel_iterations ' .. f.parallel or '')
  end
  return order
end

--- How many loops and conds were recognised, and how many primitives are part of none.
local function count_structures(g, ops)
  local seen, loops, conds = {}, 0, 0
  for _, op in ipairs(ops) do
    local t = registry.primitive(op.type)
    local about = (t == 'Exit' or t == 'Merge') and core.flow_describe(g.handle, op.node)
    if about then
      local key = about[1] .. ':' .. about[2]
      if not seen[key] then
        seen[key] = true
        if about[1] == 2 then loops = loops + 1 else conds = conds + 1 end
      end
    end
  end
  return loops, conds
end

local function show(g, path, opts)
  local ops = g:ops()
  local inputs, vars, constant_bytes, variable_bytes, resources = {}, {}, 0, 0, {}
  for _, op in ipairs(ops) do
    local t = op.type
    if registry.primitive(t) == 'Placeholder' or t == 'PlaceholderWithDefault' then
      inputs[#inputs + 1] = describe(op.outputs[1])
    elseif variable(t) then
      local size = size_of(op.outputs[1])
      local shape, dtype = attr(g, op, 'shape'), attr(g, op, 'dtype')
      if t == 'VarHandleOp' and shape and not shape:find('?', 1, true) then
        size = size_of{ dtype = dtype or 'float32',
                        shape = (function() local s = {} for d in shape:gmatch(
                            '%d+') do s[#s + 1] = tonumber(d) end return s end)() }
      end
      variable_bytes = variable_bytes + (size or 0)
      vars[#vars + 1] = ('%s  %s%s')
        :format(op.name, (dtype or op.outputs[1].dtype) .. (shape or ''), size and ', ' .. bytes_text(size) or '')
    elseif registry.primitive(t) == 'Const' then
      constant_bytes = constant_bytes + (size_of(op.outputs[1]) or 0)
    elseif t:match('Queue') and not t:match('^Queue') then
      resources[#resources + 1] = ('%s  %s'):format(op.name, t)
    end
  end
  local loops, conds = count_structures(g, ops)
  line(('%s: %d nodes, constants %s%s')
    :format(path, #ops, bytes_text(constant_bytes), #vars > 0 and ', variables ' .. bytes_text(variable_bytes) or ''))
  if loops + conds > 0 then
    line(('%d loop%s, %d cond%s'):format(loops, loops == 1 and '' or 's', conds, conds == 1 and '' or 's'))
  end
  local signatures = {}
  for name, s in pairs(g.signatures or {}) do
    local sides = {}
    for i, side in ipairs{ 'inputs', 'outputs' } do
      local names = {}
      for key, tensor in pairs(s[side]) do names[#names + 1] = key .. ' = ' .. tensor end
      table.sort(names)
      sides[i] = table.concat(names, ', ')
    end
    signatures[#signatures + 1] = ('%s: (%s) -> %s'):format(name, sides[1], sides[2])
  end
  table.sort(signatures)
  section('signatures', signatures)
  local outputs = {}
  for _, name in ipairs(M.outputs(g)) do outputs[#outputs + 1] = describe(g:output(name)) end
  if g.onnx then inputs, outputs = model_values(g, g.onnx.inputs), model_values(g, g.onnx.outputs) end
  section('inputs', inputs)
  section('outputs', outputs)
  line('run it: ' .. how_to_run(g, path, inputs, outputs))
  section('variables', vars)
  section('queues', resources)
  section('frames', frame_texts(g, ops))
  local types, count = count_ops(ops)
  line(('ops (%d kinds)'):format(#types))
  for i = 1, opts.ops and #types or math.min(#types, TOP_OPS) do
    line(('  %-28s %d'):format(types[i], count[types[i]]))
  end
  if not opts.ops and #types > TOP_OPS then line(('  … and %d more kinds: --ops'):format(#types - TOP_OPS)) end
  if opts.nodes then
    line 'nodes'
    for _, op in ipairs(ops) do
      local ins, outs = {}, {}
      for i, x in ipairs(op.inputs) do ins[i] = x.name:gsub(':0$', '') end
      for i, x in ipairs(op.outputs) do outs[i] = shape_text(x.dtype, x.shape) end
      line(('  %s: %s = %s(%s)'):format(op.name, table.concat(outs, ', '), op.type, table.concat(ins, ', ')))
    end
  end
  if opts.let and #outputs > 0 then
    local list = {}
    for i, name in ipairs(M.outputs(g)) do list[i] = g:output(name) end
    line(df.draw(list, { as = 'let' }))
  end
end

local function inspect(words)
  local opts, rest = options.parse(words, known)
  if #rest == 0 then options.wrong('no graph was named') end
  for _, path in ipairs(rest) do show(require('dflow.exchange.source').open(path), path, opts) end
end

return setmetatable(M, { __call = function(_, ...) return options.main('inspect', help, inspect, { ... }) end })
