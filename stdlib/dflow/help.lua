--- What `?name` says: of ops from the registry, of the functions made in Lua from the list below.
local core = require 'dflow.backend'
local registry = require 'dflow.registry'
local errors = require 'dflow.errors'
local dtypes = require 'dflow.dtypes'
local docs = require 'dflow.docs'

local M = {}
local functions = docs.functions

--- Text broken at words, each line with `indent` before it.
local function wrap(text, indent, width)
  local lines, line = {}, ''
  for word in text:gmatch('%S+') do
    if line ~= '' and #line + #word >= (width or 96) - #indent then
      lines[#lines + 1] = indent .. line
      line = word
    else
      line = line == '' and word or line .. ' ' .. word
    end
  end
  lines[#lines + 1] = indent .. line
  return table.concat(lines, '\n')
end

--- How ops are called whose function takes its arguments differently from the node.
local calls = {
  concat = 'df.concat({values, …}, axis)', dynamic_partition = 'df.dynamic_partition(data, partitions, num_partitions)',
  expand_dims = 'df.expand_dims(x, axis)', fill = 'df.fill(shape, value)',
  gather = 'df.gather(x, indices, {axis = 0, batch_dims = 0})', linspace = 'df.linspace(start, stop, num)',
  one_hot = 'df.one_hot(indices, depth, {on_value = 1, off_value = 0, axis = -1, dtype =})',
  pad = "df.pad(x, paddings, {mode = 'constant', constant_values = 0})", range = 'df.range(start = 0, limit, delta = 1)',
  reverse = 'df.reverse(x, axis)', reverse_sequence = 'df.reverse_sequence(x, lengths, {seq_dim =, batch_dim = 0})',
  split = 'df.split(x, parts or sizes, {axis = 0})', squeeze = 'df.squeeze(x, axis?)', stack = 'df.stack({values, …}, {axis = 0})',
  strided_slice = 'df.strided_slice(x, begin, end_, strides?, {begin_mask =, end_mask =, shrink_axis_mask =, …})',
  transpose = 'df.transpose(x, perm?)', unstack = 'df.unstack(x, {axis = 0, num =})', where = 'df.where(condition, x?, y?)',
}

local function signature(e)
  if calls[e.lua] then return calls[e.lua] end
  local words, options = {}, {}
  for _, a in ipairs(e.inputs) do words[#words + 1] = a.list and '{' .. a.name .. ', …}' or a.name end
  for _, a in ipairs(e.attrs) do options[#options + 1] = a.name .. (a.required and ' =' or ' = ' .. a.default) end
  if #options > 0 then words[#words + 1] = '{' .. table.concat(options, ', ') .. '}' end
  return ('df.%s(%s)'):format(e.lua, table.concat(words, ', '))
end

--- The signature of an op, a function of df or a dtype: `df.matmul(a, b, {transpose_a = false, …})`; nil when there is none.
function M.signature(name)
  if functions[name] then return functions[name][1] end
  local e = registry.entry(name)
  if e and e.lua then return signature(e) end
  if dtypes.number[name] and name ~= 'resource' then return ('df.%s(v)'):format(name) end
end

--- One line of what a name is for; nil when nothing is known.
function M.about(name)
  local f = functions[name]
  if f then return (f[2]:match('^.-%.%s') or f[2]):gsub('%s+$', '') end
  local e = registry.entry(name)
  if e and e.doc then return (e.doc:match('^(.-)[;.]%s') or e.doc) end
  if dtypes.number[name] then return ('a constant of dtype %s, or x cast to it'):format(name) end
end

--- An example of a name, which runs as it stands.
function M.example(name)
  if docs.examples[name] then return docs.examples[name] end
  if functions[name] then return functions[name][3] end
  local e = registry.entry(name)
  return e and e.example ~= '' and e.example or nil
end

local see_also

--- Names that belong to a name, as a list.
function M.see_also(name)
  if not see_also then
    see_also = {}
    for _, line in ipairs(docs.families) do
      local members = {}
      for word in line:gmatch('%S+') do
        if functions[word] or registry.entry(word) then members[#members + 1] = word end
      end
      for _, word in ipairs(members) do
        see_also[word] = see_also[word] or {}
        for _, other in ipairs(members) do
          if other ~= word and #see_also[word] < 8 then table.insert(see_also[word], other) end
        end
      end
    end
  end
  return see_also[name] or {}
end

--- What stands below the doc: the example, and what to see.
local function add_rest(lines, name)
  local example, others = M.example(name), M.see_also(name)
  if example then lines[#lines + 1] = '  example   ' .. example end
  if #others > 0 then lines[#lines + 1] = '  see also  ' .. table.concat(others, ', ') end
  return table.concat(lines, '\n')
end

local function of_op(e)
  local lines = { wrap(signature(e), '') .. '    ' .. e.type, wrap(e.doc or '', '  ') }
  local types = e.info.types or ''
  if types ~= '' then types = '    (' .. types:gsub('=', ': '):gsub('|', ' ') .. ')' end
  lines[#lines + 1] = ('  inputs    %s%s'):format(e.info.inputs or 'none', types)
  lines[#lines + 1] = ('  outputs   %s'):format(e.info.outputs or 'none')
  local options = {}
  for i, a in ipairs(e.attrs) do
    options[i] = ('%s: %s%s'):format(a.name, a.kind or '?', a.required and '' or ' = ' .. (a.default == '' and "''" or a.default))
  end
  if #options > 0 then lines[#lines + 1] = '  options   ' .. (wrap(table.concat(options, ',  '), '            '):gsub('^%s+', '')) end
  lines[#lines + 1] = ('  gradient  %s'):format(e.gradient and 'yes' or 'no')
  if e.stateful then lines[#lines + 1] = '  stateful  yes' end
  return add_rest(lines, e.lua)
end

--- Every name that has help, sorted.
function M.names()
  local list, seen = registry.names(), {}
  for _, name in ipairs(list) do seen[name] = true end
  for name in pairs(functions) do
    if not seen[name] then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

--- The help of `name`: an op by its Lua name or its type, a function of df, a dtype. nil and a message when there is none.
function M.help(name)
  name = name:gsub('^df%.', '')
  local f = functions[name]
  if f then
    local lines = { wrap(f[1], ''), wrap(f[2], '  ') }
    return add_rest(lines, name)
  end
  local e = registry.entry(name)
  if e then
    if e.lua then return of_op(e) end
    return ('%s is an op that the runtime uses; no function builds it\n%s'):format(e.type, wrap(e.doc or '', '  '))
  end
  if docs.lua[name] then
    return ('%s\n  Lua: %s'):format(docs.lua[name][1], docs.lua[name][2])
  end
  if dtypes.number[name] then
    return ("df.%s(v)\n  A constant of dtype %s, or x cast to it.\n  example   df.%s(3)"):format(name, name, name)
  end
  return nil, ("nothing is known of '%s'%s"):format(name, errors.hint(name, M.names()))
end

--- Names that match a pattern with * and ?, or that contain a word, sorted.
function M.matching(pattern)
  local list = {}
  local lua = '^' .. pattern:gsub('[%^%$%(%)%%%.%[%]%+%-]', '%%%0'):gsub('%*', '.*'):gsub('%?', '.') .. '$'
  for _, name in ipairs(M.names()) do
    if name:find(lua) then list[#list + 1] = name end
  end
  return list
end

M.version = core.version

return M
