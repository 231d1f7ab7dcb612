--- `:explain` and `:disasm`: which loops are machine code, why others are not, and what the code is.
local commands = require 'dflow.repl.commands'
local session = require 'dflow.repl.session'
local df = require 'dflow'

local function told(loop, code)
  local text = df.default_session():native{ loop = loop ~= '' and loop or nil, code = code }
  if text ~= '' then return (text:gsub('\n$', '')) end
  if loop ~= '' then
    error(code and ('no loop `%s` was compiled; :explain tells why'):format(loop) or ('no loop `%s` has run in this session'):format(loop), 0)
  end
  return code and 'no loop was compiled; :explain tells why' or 'no loop has run in this session'
end

--- The Lua function that a name or an expression is; nil for what is none.
local function function_of(text)
  local chunk = text ~= '' and load('return ' .. text, '=command', 't', session.locals.environment({}))
  local ok, f = pcall(chunk or error)
  return chunk and ok and type(f) == 'function' and f or nil
end

commands.command('explain', function(rest)
  local f = function_of(rest)
  if not f then return told(rest) end
  local text, why = require('dflow.autograph').text(f)
  return text or ('autograph cannot rewrite %s: %s'):format(rest, why)
end,
  [[explain [loop | f] - which loops ran as machine code or as graphs of a GPU, and why others ran as tokens; what autograph makes of a function
A loop is named as :frames names it: while_1. It is compiled once it is hot; df.Session{engine = 'native'} compiles all that can be before
their first trip. `top level` is what df.run computes of numbers and small tensors without effects, from 16 nodes on, once it has been run
again and again.]])

commands.command('disasm', function(rest) return told(rest, 'machine') end,
  'disasm [loop] - the assembly of the loops that were compiled; :disasm > loop.s writes it to a file')
