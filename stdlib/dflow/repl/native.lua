--- `:explain` and `:disasm`: which loops are machine code, why others are not, and what the code is; what a plan leaves
-- out of the graph.
local commands = require 'dflow.repl.commands'
local session = require 'dflow.repl.session'
local df = require 'dflow'

local function told(loop, code)
  local text = df.default_session():native{ loop = loop ~= '' and loop or nil, code = code }
  if text ~= '' then return (text:gsub('\n$', '')) end
  if loop ~= '' then
    error(code and ('no loop `%s` was compiled; :explain tells why'):format(loop)
          or ('no loop `%s` has run in this session'):format(loop), 0)
  end
  return code and 'no loop was compiled; :explain tells why' or 'no loop has run in this session'
end

--- What the text is an expression of; nil for what is none, as the name of a loop.
local function value_of(text)
  local chunk = text ~= '' and load('return ' .. text, '=command', 't', session.locals.environment({}))
  local ok, v = pcall(chunk or error)
  return chunk and ok and v or nil
end

--- Those of the list that have `key`: a line each under their number, in `lines`.
local function add(lines, list, key, said)
  local at, n = #lines + 1, 0
  for _, p in ipairs(list) do
    if p[key] then
      n = n + 1 lines[at + n] = ('%s (%s): %s'):format(p.node, p.op, p.why:match '^([^;]*); nothing asked' or p.why)
    end
  end
  if n > 0 then lines[at] = said:format(#list, n) end
end

--- What a run of the fetches does not compute, or not in each iteration, and what gives its value: lines.
local function simplified(fetches)
  local list, lines = df.default_session():placement(fetches), {}
  add(lines, list, 'left_out', 'of %d nodes that it needs a run leaves out %d')
  add(lines, list, 'once', 'of %d nodes that it needs iterations share %d')
  return lines[1] and table.concat(lines, '\n') or ('a run computes it as it is written: %d nodes'):format(#list)
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
change nothing; and those that one iteration of a loop computes for all, because nothing that they read changes.
A loop is named as :frames names it: while_1. It is compiled once it is hot; df.Session{engine = 'native'} compiles all that can be before
their first trip. `top level` is what df.run computes of numbers and small tensors without effects, from 16 nodes on, once it has been run
again and again.]])

commands.command('disasm', function(rest) return told(rest, 'machine') end,
  'disasm [loop] - the assembly of the loops that were compiled; :disasm > loop.s writes it to a file')
