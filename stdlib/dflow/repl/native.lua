--- `:explain` and `:disasm`: which loops are machine code, why others are not, and what the code is; what a plan leaves out of the graph.
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

--- What the text is an expression of; nil for what is none, as the name of a loop.
local function value_of(text)
  local chunk = text ~= '' and load('return ' .. text, '=command', 't', session.locals.environment({}))
  local ok, v = pcall(chunk or error)
  return chunk and ok and v or nil
end

--- What a run of the fetches does not compute, and what gives its value: lines.
local function simplified(fetches)
  local list, lines = df.default_session():placement(fetches), {}
  for _, p in ipairs(list) do
    if p.left_out then lines[#lines + 1] = ('%s (%s): %s'):format(p.node, p.op, p.why) end
  end
  if not lines[1] then return ('a run computes it as it is written: %d nodes'):format(#list) end
  table.insert(lines, 1, ('of %d nodes that it needs a run leaves out %d'):format(#list, #lines))
  return table.concat(lines, '\n')
end

commands.command('explain', function(rest)
  local v = value_of(rest)
  if type(v) == 'table' and (getmetatable(v) or {}).__name == 'dflow.Output' then return simplified(v) end
  if type(v) ~= 'function' then return told(rest) end
  local text, why = require('dflow.autograph').text(v)
  return text or ('autograph cannot rewrite %s: %s'):format(rest, why)
end,
  [[explain [loop | f | x] - which loops ran as machine code or as graphs of a GPU, and why others ran as tokens; what autograph makes of a function
:explain x names the nodes that a run of x does not compute, because another node computes the same, or only constants go into them, or they
change nothing.
A loop is named as :frames names it: while_1. It is compiled once it is hot; df.Session{engine = 'native'} compiles all that can be before
their first trip. `top level` is what df.run computes of numbers and small tensors without effects, from 16 nodes on, once it has been run
again and again.]])

commands.command('disasm', function(rest) return told(rest, 'machine') end,
  'disasm [loop] - the assembly of the loops that were compiled; :disasm > loop.s writes it to a file')
