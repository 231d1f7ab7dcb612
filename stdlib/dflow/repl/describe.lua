--- What a value or a node is: the pages of `?x`, `?12` and `?name:0`.
local errors = require 'dflow.front.errors'
local core = require 'dflow.backend'
local df = require 'dflow'
local docs = require 'dflow.docs'
local graph = require 'dflow.front.graph'
local help = require 'dflow.docs.help'
local registry = require 'dflow.front.registry'
local text = require 'dflow.front.text'
local values = require 'dflow.repl.values'

local M = {}
local SEARCHED, SHOWN = 20000, 8          -- nodes that are looked through for the users of one; how many are named

local function shape_of(g, node, index)
  local o = graph.output(g, node, index)
  return text.shape(o.dtype, o.shape)
end

--- The nodes that read an output of this one, by name.
local function users(g, node)
  local list = {}
  for other = node + 1, math.min(g:size(), node + SEARCHED) - 1 do
    for i = 0, core.node_inputs(g.handle, other) - 1 do
      if core.node_input_of(g.handle, other, i) == node then
        list[#list + 1] = core.node_name_of(g.handle, other)
        break
      end
    end
    if #list > SHOWN then break end
  end
  if #list > SHOWN then list[#list] = '…' end
  return list
end

--- A node of a graph: what it computes of what, what of it is known, its users, and where it was built.
-- @param line_of  function('file:line') -> the text of that line, or nil
function M.node(g, node, line_of)
  local handle = g.handle
  local op = graph.operation(g, node)
  local e = registry.entry(op.type)
  local lines = { ('%s is node %d of the graph: %s%s')
    :format(op.name, node, op.type, e and e.lua and ', df.' .. e.lua or '') }
  for i = 0, core.node_inputs(handle, node) - 1 do
    local from, index = core.node_input_of(handle, node, i)
    local name = e and e.inputs[math.min(i + 1, #e.inputs)]
    lines[#lines + 1] = ('  %-9s %s:%d: %s%s'):format(i == 0 and 'inputs' or '', core.node_name_of(handle, from), index,
      shape_of(g, from, index), name and '  ' .. name.name or '')
  end
  for i = 0, core.node_outputs(handle, node) - 1 do
    lines[#lines + 1] = ('  %-9s %s:%d: %s'):format(i == 0 and 'outputs' or '', op.name, i, shape_of(g, node, i))
  end
  local attrs = core.node_attrs_text(handle, node)
  if attrs ~= '' then lines[#lines + 1] = '  options   ' .. attrs end
  local used = users(g, node)
  if #used > 0 then lines[#lines + 1] = '  used by   ' .. table.concat(used, ', ') end
  if op.source then
    lines[#lines + 1] = '  built at  ' .. op.source
    local source = line_of and line_of(op.source)
    if source then lines[#lines + 1] = '            ' .. source:gsub('^%s+', '') end
  end
  return table.concat(lines, '\n')
end

--- The names that the prompt itself gives.
local own = {
  df = 'the module: :doc lists its names, ?pattern* searches them; ?Output, ?Tensor, ?Variable, ?Session, ?Run '
    .. 'and so on tell of its types',
  Out = 'Out[n] is the value of input n; :history numbers the inputs',
  _ = 'the last value', __ = 'the value before the last', _err = 'the last error',
  repl = 'the prompt itself; repl.command(name, fn, doc) adds a command',
  ['repl.command'] = 'adds a command: fn(rest, say) gets the rest of its line and a function that prints; '
    .. 'doc is "usage - what it does"',
}

--- A function's parameters as a signature.
local function parameters(name, f)
  local about = debug.getinfo(errors.behind(f), 'u')
  local names = {}
  for i = 1, about.nparams or 0 do names[i] = debug.getlocal(f, i) or '?' end
  if about.isvararg then names[#names + 1] = '...' end
  return ('%s(%s)'):format(name, table.concat(names, ', '))
end

--- What the value of a name is.
function M.value(name, v, line_of)
  local kind = df.type(v)
  local type_name = docs.type_of[kind]
  local more = own[name] and '\n' .. help.wrap(own[name], '  ') or ''
  if type(v) == 'function' then return parameters(name, v) .. '  ' .. values.brief(v) .. more end
  if kind == 'output' or kind == 'operation' then
    return ('%s: an %s\n%s\n  ?%s lists its fields and methods')
      :format(name, type_name, M.node(v.graph, v.node, line_of), type_name)
  end
  local line = ('%s: %s'):format(name, values.brief(v)) .. more
  if type_name then line = line .. ('\n  a %s; ?%s lists its fields and methods'):format(type_name, type_name) end
  return line
end

return M
