--- The prompt's own commands.
local df = require 'dflow'
local help = require 'dflow.help'
local commands = require 'dflow.repl.commands'

local command = commands.command

command('help', function(rest, say)
  if rest ~= '' then
    local text, why = help.help(rest)
    return say(text or why)
  end
  say('?name        what there is to know about an op or a function, such as ?matmul; ??name: where it is defined')
  say('?pattern*    the names that match')
  for _, name in ipairs(commands.names()) do
    local usage, about = commands.about(name)
    say((':%-22s %s'):format(usage, about))
  end
  say('An expression prints its value; _ is the last one. Ctrl-C cancels a run, Ctrl-D leaves.')
end, 'help [name] - this list, or what there is to know about a name')

command('doc', function(rest, say)
  if rest ~= '' then
    local text, why = help.help(rest)
    return say(text or why)
  end
  local line = ''
  for _, name in ipairs(help.names()) do
    if #line + #name > 94 then
      say(line)
      line = ''
    end
    line = line .. name .. '  '
  end
  say(line)
end, 'doc [name] - what there is to know about a name; alone: all names')

command('stats', function(_, say)
  local stats, names = df.stats(), {}
  for name in pairs(stats) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    if type(stats[name]) ~= 'table' then say(('%-14s %s'):format(name, tostring(stats[name]))) end
  end
end, 'stats - counters of the default session')

command('quit', function() return true end, 'quit - leaves')
