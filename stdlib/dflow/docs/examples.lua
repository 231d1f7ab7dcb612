--- Runs the examples of help and tells what each gives. The build writes what help shows, docs/outputs.lua, by `write`.
local df = require 'dflow'
local help = require 'dflow.docs.help'
local registry = require 'dflow.front.registry'
local text = require 'dflow.front.text'

local M = {}
local builtins = { df = df }
for _, name in ipairs{ 'cond', 'while_loop', 'TensorArray', 'gradients' } do builtins[name] = df[name] end

--- An example as a function that sees what the program has as globals.
local function compiled(example)
  local env = setmetatable({}, { __index = function(_, name)
    if builtins[name] then return builtins[name] end
    if rawget(_G, name) == nil then error('the example speaks of ' .. name, 0) end
    return rawget(_G, name)
  end, __newindex = function(_, name) error('the example sets the global ' .. name, 0) end })
  local chunk, why
  for _, source in ipairs{ 'return ' .. example, example } do
    if source:find('autograph', 1, true) then require('dflow.autograph').texts['=example'] = source end
    if setfenv then
      chunk, why = loadstring(source, '=example')
      if chunk then setfenv(chunk, env) end
    else
      chunk, why = load(source, '=example', 't', env)
    end
    if chunk then return chunk end
  end
  error(why, 0)
end

local function shown(v)
  local kind = df.type(v)
  if kind == 'output' then
    local ok, value = pcall(df.run, v)
    if ok then return shown(value) end
    return text.shape(v.dtype, v.shape)
  elseif kind == 'tensor' then
    return text.tensor(v)
  elseif type(v) == 'number' then
    if v == math.floor(v) and math.abs(v) < 1e15 then
      return (math.type and math.type(v) == 'integer') and ('%d'):format(v) or ('%.1f'):format(v)
    end
    return ('%.6g'):format(v)
  elseif type(v) == 'string' then
    return ('%q'):format(v)
  elseif require('dflow.front.errors').is_data(v) then
    local parts, names = {}, {}
    for i, x in ipairs(v) do parts[i] = shown(x) end
    for name in pairs(v) do if type(name) == 'string' then names[#names + 1] = name end end
    table.sort(names)
    for _, name in ipairs(names) do parts[#parts + 1] = name .. ' = ' .. shown(v[name]) end
    return '{' .. table.concat(parts, ', ') .. '}'
  end
  return (tostring(v):gsub('\n.*', ''))
end

--- What the example of a name gives, as text; nil and why when it fails.
function M.run(name)
  df.reset()
  local function finish(ok, ...)
    if not ok then return nil, tostring((...)) end
    local parts, lines = {}, false
    for i = 1, select('#', ...) do
      parts[i] = shown((select(i, ...)))
      lines = lines or parts[i]:find('\n')
    end
    return table.concat(parts, lines and '\n' or ', ')
  end
  local ok, chunk = pcall(compiled, help.example(name))
  if not ok then return nil, chunk end
  return finish(pcall(chunk))
end

--- An error where an op's entry (runtime/ops) does not say what everything else is made of.
local function check_entries()
  for _, type in ipairs(registry.types()) do
    local e = registry.entry(type)
    local facts = { doc = e.doc or false, example = e.example or not e.lua,
                    derivative = registry.about(type, 'derivative') or not (e.lua and e.gradient) }
    for name, given in pairs(facts) do
      if not given then error(('the entry of %s (runtime/ops) has no .%s'):format(type, name), 0) end
    end
  end
end

--- Writes what the examples give that no op's entry says: docs/outputs.lua, as the build does.
function M.write(path)
  check_entries()
  local lines, said = {}, {}
  require 'dflow.docs.about'('output', function(name) said[name] = true end)
  for _, name in ipairs(help.names()) do
    local output, why = nil, nil
    if help.example(name) and not said[name] then output, why = M.run(name) end
    if why then error(('the example of %s fails: %s'):format(name, why), 0) end
    if output and output ~= '' then lines[#lines + 1] = ('  [%q] = %q,'):format(name, output) end
  end
  local file = assert(io.open(path, 'w'))
  assert(file:write('return {\n', table.concat(lines, '\n'), '\n}\n'))
  file:close()
end

return M
