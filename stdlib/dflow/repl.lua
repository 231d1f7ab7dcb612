--- What the prompt of the `dflow` program says: values, help, commands. The terminal is interp/repl.c's business.
local core = require 'dflow.backend'
local df = require 'dflow'
local graph = require 'dflow.graph'
local tensor = require 'dflow.tensor'
local help = require 'dflow.help'

local M = {}
local unpack = table.unpack or unpack

-- ---- values ---------------------------------------------------------------------------------------------------
--- An Output that needs no feed and changes nothing is shown with its value.
local function output_text(o)
  local g = o.graph
  local text = tostring(o)
  if not core.needs_nothing(g.handle, o.node, o.index) then return text end
  local ok, value = pcall(function()
    if g == df.default_graph() then return df.run(o) end
    local s = df.Session{ graph = g }
    local value = s:run(o)
    s:close()
    return value
  end)
  if not ok then
    if type(value) == 'table' and value.code == 'cancelled' then error(value, 0) end
    return text .. '\n  ' .. tostring(value)
  end
  local shown = getmetatable(value) == tensor.Tensor and '%s' or '%s ' .. tensor.shape_text(o.dtype, {})
  return text .. '\n' .. shown:format(tostring(value))
end

local ENTRIES, DEPTH = 20, 3

--- What a run gives back, tables included: {256.0, name = 3}. Tables with a word of their own say that.
local function text_of(v, depth)
  local mt = getmetatable(v)
  if depth == 0 and mt == graph.Output then return output_text(v) end
  if type(v) == 'string' and depth > 0 then return ('%q'):format(v) end
  if type(v) ~= 'table' or mt ~= nil or depth == DEPTH then return tostring(v) end
  local words, listed = {}, #v
  for i = 1, listed do words[i] = i <= ENTRIES and text_of(v[i], depth + 1) or nil end
  local left = listed - #words
  for key, value in pairs(v) do
    local in_list = type(key) == 'number' and key >= 1 and key <= listed
    if not in_list and #words >= ENTRIES then
      left = left + 1
    elseif not in_list then
      local name = type(key) == 'string' and key:match('^[%a_][%w_]*$') or '[' .. text_of(key, depth + 1) .. ']'
      words[#words + 1] = name .. ' = ' .. text_of(value, depth + 1)
    end
  end
  if left > 0 then words[#words + 1] = ('… %d more'):format(left) end
  local line = table.concat(words, ', ')
  if not line:find('\n') and #line < 90 then return '{' .. line .. '}' end
  return '{\n  ' .. table.concat(words, ',\n'):gsub('\n', '\n  ') .. '\n}'
end

--- Prints the values of an expression; the first is kept in `_`.
function M.show(...)
  local words = {}
  for i = 1, select('#', ...) do words[i] = text_of((select(i, ...)), 0) end
  _G._ = (...)
  print(unpack(words))
end

-- ---- commands ---------------------------------------------------------------------------------------------------
local commands, order = {}, {}

local function command(name, about, fn)
  commands[name] = { about = about, fn = fn }
  order[#order + 1] = name
end

local function print_help(name)
  local text, why = help.help(name)
  print(text or why)
end

command('help', 'this list; :help name is ?name', function(rest)
  if rest ~= '' then return print_help(rest) end
  print('?name        what there is to know about an op or a function, such as ?matmul')
  for _, name in ipairs(order) do print((':%-11s %s'):format(name, commands[name].about)) end
  print('An expression prints its value; _ is the last one. Ctrl-C cancels a run, Ctrl-D leaves.')
end)

command('doc', 'what there is to know about a name; alone: all names', function(rest)
  if rest ~= '' then return print_help(rest) end
  local line = ''
  for _, name in ipairs(help.names()) do
    if #line + #name > 94 then
      print(line)
      line = ''
    end
    line = line .. name .. '  '
  end
  print(line)
end)

command('stats', 'counters of the default session', function()
  local stats, names = df.stats(), {}
  for name in pairs(stats) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local v = stats[name]
    if type(v) ~= 'table' then
      print(('%-14s %s'):format(name, tostring(v)))
    elseif name == 'memory' then
      for device, m in pairs(v) do
        print(('%-14s %s: %d bytes in use, %d at the peak'):format(name, device, m.in_use, m.peak))
      end
    end
  end
end)

command('quit', 'leaves', function() return true end)

--- A line that begins with ? or :. Any unique beginning of a command's name will do.
-- @return false when the prompt is to be left
function M.command(line)
  local asked = line:match('^%?+%s*(.-)%s*$')
  if asked then
    if asked == '' then asked = 'help' end
    if asked == 'help' then commands.help.fn('') else print_help(asked) end
    return true
  end
  local word, rest = line:match('^:%s*(%S*)%s*(.-)%s*$')
  local found = {}
  for _, name in ipairs(order) do
    if name == word then
      found = { name }
      break
    end
    if name:sub(1, #word) == word then found[#found + 1] = name end
  end
  if #found == 1 then return not commands[found[1]].fn(rest) end
  if #found == 0 then
    print(("there is no command ':%s'; :help lists them"):format(word))
  else
    print((":%s may be :%s"):format(word, table.concat(found, ' or :')))
  end
  return true
end

return M
