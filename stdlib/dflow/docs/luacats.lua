--- Annotations of everything public for lua-language-server, made from what help knows: `make install` writes them to
-- share/dflow/luals, and `dflow -e "require('dflow.docs.luacats').write('library/dflow.lua')"` anywhere else.
--
-- One file that begins with ---@meta, and is never run: classes with fields, operators and methods, functions with
-- parameters, options as tables of named fields, and what they return.
local help = require 'dflow.docs.help'
local docs = require 'dflow.docs'
local registry = require 'dflow.front.registry'
local graph = require 'dflow.front.graph'
local files = require 'dflow.exchange.file'

local M = {}

local keywords = {}
for word in ('and break do else elseif end false for function goto if in local nil not or repeat return then true '
             .. 'until while'):gmatch('%a+') do
  keywords[word] = true
end

-- What help calls a type, in the words of the annotations.
local types = { int = 'integer', number = 'number', float = 'number', bool = 'boolean', string = 'string',
                table = 'table', list = 'table', shape = 'integer[]', ['function'] = 'function', value = 'any',
                dtype = 'dflow.DType', ints = 'integer[]', types = 'dflow.DType[]', shapes = 'table',
                tensor = 'dflow.Value' }

local function type_of(text)
  if not text then return 'any' end
  local out = {}
  for word in (text:gsub(' or ', '|'):gsub(',%s*', '|')):gmatch('[%w_.]+') do
    out[#out + 1] = types[word] or (docs.types[word] and 'dflow.' .. word) or 'any'
  end
  local seen, unique = {}, {}
  for _, word in ipairs(out) do
    if word == 'any' then return 'any' end
    if not seen[word] then
      seen[word] = true
      unique[#unique + 1] = word
    end
  end
  return #unique > 0 and table.concat(unique, '|') or 'any'
end

-- What parameters of these names are, wherever they stand; inputs of ops are operands.
local parameter_types = { units = 'integer', filters = 'integer', keep_dims = 'boolean', name = 'string',
                          path = 'string', prefix = 'string', dtype = 'dflow.DType', axis = 'integer|table',
                          fn = 'function|table', cell = 'dflow.Layer', learning_rate = 'dflow.Operand',
                          labels = 'dflow.Operand', predictions = 'dflow.Operand', logits = 'dflow.Operand' }

-- What functions return that are no ops.
local returns = {}
for kind, names in pairs{
  ['dflow.FileWriter'] = 'summary.FileWriter',
  ['dflow.Graph'] = 'Graph default_graph import_graph_def import_onnx import_hlo quantize_model',
  ['dflow.Operation'] = 'Optimizer:minimize Optimizer:apply_gradients',
  ['dflow.Output'] = 'constant placeholder placeholder_with_default dim TensorArray:read TensorArray:stack '
    .. 'TensorArray:concat Variable:assign Variable:assign_add Variable:assign_sub',
  ['dflow.Pipeline'] = 'data.pipeline',
  ['dflow.Plot'] = 'plot',
  ['dflow.Queue'] = 'FIFOQueue RandomShuffleQueue PriorityQueue PaddingFIFOQueue',
  ['dflow.Run'] = 'start Session:start',
  ['dflow.Saver'] = 'train.Saver',
  ['dflow.Session'] = 'Session default_session',
  ['dflow.Tensor'] = 'tensor_list tensor load_npy',
  ['dflow.TensorArray'] = 'TensorArray TensorArray:write TensorArray:unstack',
  ['dflow.Variable'] = 'Variable get_variable',
  string = 'Run:state',
} do
  for name in names:gmatch '%S+' do returns[name] = kind end
end

--- A comment of a text's first sentence and example.
local function comment(name, out)
  local about = help.about(name)
  if about then out[#out + 1] = '---' .. about:gsub('%s+', ' ') end
  local example = help.example(name)
  if example and not example:find('\n') then
    out[#out + 1] = '---'
    out[#out + 1] = '---    ' .. example
  end
end

--- Parameters of a signature: {name, optional} each, and is there a table of options?
local function parameters(signature)
  local list, options, seen = {}, false, {}
  local spans = help.parts(signature)
  for i, span in ipairs(spans) do
    local text = signature:sub(span[1], span[2])
    local braces = text:sub(1, 1) == '{'
    local listed = braces and (text:match('^{%s*([%a_][%w_]*)%s*,%s*…%s*}')
                               or i < #spans and text:match('^{%s*([%a_][%w_]*)%s*}'))
    if braces and not listed then
      options = true
    else
      local word = listed or text:match('[%a_][%w_]*') or 'value'
      if keywords[word] then word = word .. '_' end
      if text:find('^…') or text == '...' then word = '...' end
      if seen[word] then word = word .. (#list + 1) end
      seen[word] = true
      list[#list + 1] = { word, text:find('%?') ~= nil or text:find('=') ~= nil or (word ~= '...' and options) }
    end
  end
  return list, options
end

-- An option of a layer, a loss or a cell that has one of these types may be an Output, too.
local in_graph = { integer = true, number = true, boolean = true }

local function option_type(name)
  local words, may = {}, name:find '^nn%.' or name:find '^rnn%.'
  for _, o in ipairs(help.options(name)) do
    local of = type_of(o.type)
    if may and in_graph[of] then of = of .. '|dflow.Output' end
    if o.name:find('^[%a_][%w_]*$') then words[#words + 1] = ('%s?: %s'):format(o.name, of) end
  end
  return #words > 0 and '{ ' .. table.concat(words, ', ') .. ' }' or 'table'
end

--- The lines of a function or method: `as` is what stands in front of its parentheses, skip: parameters that a colon
-- gives.
local function define(name, as, out, skip, result)
  local signature = help.signature(name)
  if not signature or not signature:find('[({]') then return end
  local list, options = parameters(signature)
  comment(name, out)
  local words = {}
  for i = 1 + (skip or 0), #list do
    local p = list[i]
    words[#words + 1] = p[1]
    local op = registry.entry(name:match('[%w_]+$'))
    out[#out + 1] = ('---@param %s%s %s'):format(p[1], p[2] and p[1] ~= '...' and '?' or '', op and i <= #op.inputs
        and 'dflow.Operand' or parameter_types[p[1]] or 'any')
  end
  if options or #help.options(name) > 0 then
    if words[#words] == '...' then
      out[#out] = '---@param ... any'
    else
      words[#words + 1] = 'opts'
      out[#out + 1] = '---@param opts? ' .. option_type(name)
    end
  end
  local first, second = list[1 + (skip or 0)], list[2 + (skip or 0)]
  if first and first[2] and second and not second[2] and second[1] ~= '...' then            -- df.range(limit)
    out[#out + 1] = ('---@overload fun(%s: dflow.Operand): %s'):format(second[1], result or 'any')
  end
  if result then out[#out + 1] = '---@return ' .. result end
  out[#out + 1] = ('function %s(%s) end'):format(as, table.concat(words, ', '))
  out[#out + 1] = ''
end

--- What a value is in the words of the annotations.
local function class_of(v)
  local mt = getmetatable(v)
  local word = type(mt) == 'table' and tostring(rawget(mt, '__name')):match '^dflow%.(%w+)$'
  return word and docs.types[word] and 'dflow.' .. word or nil
end

--- What the call that is the whole example of a function gives, in a graph that is thrown away; nil where there is no
-- such example.
local function result_of_example(name)
  local example = help.example(name)
  local call = example and example:match('^df%.' .. name:gsub('%p', '%%%0') .. '%s*%b()$') or example
    and example:match('^df%.' .. name:gsub('%p', '%%%0') .. '%s*%b{}$')
  local chunk = call and (rawget(_G, 'loadstring') or load)("local df = require 'dflow' return " .. call)
  if not chunk then return nil end
  local ok, v = pcall(graph.with, graph.new_graph(), chunk)
  return ok and class_of(v) or nil
end

--- What a layer or an optimizer is made by.
local function made_by(name)
  if name:find '^nn%.%u' then return 'dflow.Layer' end
  local make = name:match '^train%.(%u%w*)$' and rawget(require 'dflow.train', name:match '%w+$')
  local ok, made = pcall(make or error, 0.1)
  return ok and class_of(made) or nil
end

local function result_of(name)
  if returns[name] or made_by(name) then return returns[name] or made_by(name) end
  local e = registry.entry(name)
  if e then
    if e.has_list_output then return 'dflow.Output[]' end
    if e.noutputs == 0 then return 'dflow.Operation' end
    local words = {}
    for i = 1, e.noutputs do words[i] = 'dflow.Output' end
    return table.concat(words, ', ')
  end
  return docs.dtypes[name] and 'dflow.Output' or result_of_example(name) or 'any'
end

-- Fields that are the same wherever they are.
local fields = { dtype = 'dflow.DType', shape = 'integer[]', name = 'string', op = 'dflow.Operation',
                 index = 'integer', graph = 'dflow.Graph', source = 'string?', session = 'dflow.Session',
                 rank = 'integer', size = 'integer', path = 'string' }

local OPERATORS = { 'add', 'sub', 'mul', 'div', 'mod', 'pow', 'idiv' }

--- A class: its fields, its operators and its methods.
local function class(name, t, out)
  out[#out + 1] = ('---%s'):format((t[1] or ''):gsub('%s+', ' '))
  out[#out + 1] = '---@class dflow.' .. name
  for _, f in ipairs(t.fields or {}) do
    local word = type(f) == 'table' and f[1] or tostring(f)
    local about = type(f) == 'table' and f[2] or ''
    if word:find('^[%a_][%w_]*$') then
      out[#out + 1] = ('---@field %s %s %s'):format(word, fields[word] or 'any', about:gsub('%s+', ' '))
    end
  end
  if name == 'Output' or name == 'Variable' then
    for _, index in ipairs{ 'integer', 'dflow.Output', 'table' } do
      out[#out + 1] = ('---@field [%s] dflow.Output'):format(index)
    end
  end
  if name == 'Output' or name == 'Variable' or name == 'Tensor' then
    for _, op in ipairs(OPERATORS) do
      out[#out + 1] = ('---@operator %s(dflow.Operand): %s'):format(op, name == 'Tensor' and 'dflow.Tensor'
          or 'dflow.Output')
    end
    out[#out + 1] = '---@operator unm: ' .. (name == 'Tensor' and 'dflow.Tensor' or 'dflow.Output')
  end
  local holder = 'dflow_' .. name
  out[#out + 1] = ('local %s = {}'):format(holder)
  out[#out + 1] = ''
  local methods = {}
  for method in pairs(t.methods) do methods[#methods + 1] = method end
  table.sort(methods)
  for _, method in ipairs(methods) do
    define(name .. ':' .. method, holder .. ':' .. method, out, nil, returns[name .. ':' .. method] or 'any')
  end
  return holder
end

--- The type of a function from the lines that define it: `fun(y: any, opts?: table): dflow.Plot`.
function M.overload(lines)
  local words, result = {}, 'any'
  for _, line in ipairs(lines) do
    local name, of = line:match '^%-%-%-@param (%S+) (.*)$'
    if name then words[#words + 1] = ('%s: %s'):format(name, of) end
    result = line:match '^%-%-%-@return (.*)$' or result
  end
  return ('fun(%s): %s'):format(table.concat(words, ', '), result)
end

--- The whole file as text.
function M.text()
  local out = { '---@meta dflow', '-- Made from the help of dflow; not to be run.', '' }
  local dtypes = {}
  for name in pairs(docs.dtypes) do dtypes[#dtypes + 1] = "'" .. name .. "'" end
  table.sort(dtypes)
  out[#out + 1] = '---@alias dflow.DType ' .. table.concat(dtypes, '|')
  out[#out + 1] = '---@alias dflow.Value number|boolean|string|table|dflow.Tensor'
  out[#out + 1] = '---@alias dflow.Operand dflow.Output|dflow.Variable|dflow.Value'
  out[#out + 1] = ''
  out[#out + 1] = '---A layer: called with its input it gives its output.'
  out[#out + 1] = '---@class dflow.Layer\n---@field name string\n---@field [string] any\n'
    .. '---@overload fun(...: any): any'
  out[#out + 1] = 'local dflow_Layer = {}\n'
  local names, holders = {}, {}
  for name in pairs(docs.types) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    if name:find('^[%a_][%w_]*$') then holders[name] = class(name, docs.types[name], out) end
  end
  -- ops are methods of what goes in first
  local all = help.names()
  for _, name in ipairs(all) do
    local e = registry.entry(name)
    local taken = docs.types.Output.methods[name]
      or ({ shape = 1, dtype = 1, name = 1, op = 1, index = 1, graph = 1, rank = 1, size = 1 })[name]
    if e and e.lua == name and #e.inputs > 0 and not e.takes_handle and not taken and not keywords[name] then
      define(name, holders.Output .. ':' .. name, out, 1, result_of(name))
    end
  end
  out[#out + 1] = '---Dynamic dataflow for Lua: graphs with conditionals, loops, TensorArrays and gradients.'
  out[#out + 1] = '---@class dflow'
  out[#out + 1] = 'local df = {}'
  out[#out + 1] = ''
  local tables, callable = {}, {}
  for _, name in ipairs(all) do callable[name:match '^(.*)%.' or ''] = true end
  for _, name in ipairs(all) do
    if not name:find(':', 1, true) and (name:find('^[%a_][%w_]*$') or name:find('^[%a_][%w_]*%.[%a_][%w_.]*$'))
      and not keywords[name] then
      local parent = name:match('^(.*)%.[^.]*$')
      local path = ''
      for word in (parent or ''):gmatch('[^.]+') do
        path = path .. '.' .. word
        if not tables[path] then
          tables[path] = true
          out[#out + 1] = ('df%s = df%s or {}'):format(path, path)
        end
      end
      if docs.functions[name] and callable[name] then        -- a function that has fields
        local lines = {}
        define(name, 'fun', lines, nil, result_of(name))
        comment(name, out)
        out[#out + 1] = '---@class dflow.df_' .. name
        out[#out + 1] = '---@overload ' .. M.overload(lines)
        out[#out + 1] = ('df.%s = {}\n'):format(name)
        tables['.' .. name] = true
      elseif not (docs.types[name] and not docs.functions[name]) then
        define(name, 'df.' .. name, out, nil, result_of(name))
      end
    end
  end
  out[#out + 1] = 'return df'
  return table.concat(out, '\n') .. '\n'
end

--- Writes the file; with `config` beside it what makes it an add-on of the language server.
function M.write(path, config)
  files.write(path, M.text())
  if config then
    files.write(config, '{\n  "name": "dflow",\n  "words": ["require[%(%s]*[\'\\"]dflow[\'\\"]", "%f[%w]df%."],\n'
      .. '  "settings": {\n    "Lua.diagnostics.globals": ["df", "cond", "while_loop", "TensorArray", "gradients"]\n  '
         .. '}\n}\n')
  end
end

return M
