--- Runs the examples of help and writes down what each gives: stdlib/dflow/docs/outputs.lua is made by `dflow spec/help_examples.lua`.
local df = require 'dflow'
local help = require 'dflow.docs.help'
local text = require 'dflow.front.text'

local M = {}
local builtins = { cond = df.cond, while_loop = df.while_loop, TensorArray = df.TensorArray, gradients = df.gradients, df = df }
local unpack = table.unpack or unpack

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

if arg and arg[0] and arg[0]:find('help_examples%.lua$') then
  local lines, seen, said = {}, {}, {}
  require('dflow.docs').each_about('output', function(name) said[name] = true end)       -- their entries say it
  for _, name in ipairs(help.names()) do
    local example = help.example(name)
    local output, why = nil, nil
    if example then output, why = M.run(name) end
    if why then io.stderr:write(name, ': ', example, '\n  ', why, '\n') end
    if output and output ~= '' and not seen[name] and not said[name] then lines[#lines + 1] = ('  [%q] = %q,'):format(name, output):gsub('\\\n', '\\n') end
  end
  print('--- What the examples of help give; made by spec/help_examples.lua, compared by spec/repl/help_spec.lua.\nreturn {')
  print(table.concat(lines, '\n'))
  print('}')
end

M.unpack = unpack
return M
