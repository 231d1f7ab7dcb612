--- Builds, runs and lets go of each op again and again, and looks whether all the memory has come back: the library's own pieces, and the tensors'.
--   [dflow|luajit] spec/memory/leaks.lua ops|gradients [pattern of op types]         with a debug build, which counts its pieces
--   [dflow|luajit] spec/memory/leaks.lua programs [pattern of names]                 those of let_go.lua
local df = require 'dflow'
local core = require 'dflow.backend'

local kind, pattern = arg[1], arg[2] or ''
-- What is made once, when it is first needed, is made in the first of ROUNDS. What is kept for later, up to a number (threads of runs in the
-- background, of which one more is made where the last has not put itself back yet), may grow by one in each of a few on a busy machine: a
-- leak grows in all of SURE.
local ROUNDS, SURE = 4, 60

--- Pieces and bytes of tensors that are there when everything has been let go.
local function held()
  df.reset()
  collectgarbage()
  collectgarbage()
  return (select(2, core.memory_fail(-1))), (core.memory())
end

local seen, leaks = 0, 0

--- Does fn, done again and again, leave more and more behind?
local function look(name, fn)
  local pieces, bytes, grown = nil, nil, { pieces = true, bytes = true }
  local round = 0
  while round < ROUNDS or round < SURE and (grown.pieces or grown.bytes) do
    round = round + 1
    fn()
    local p, b = held()
    if round > 1 then grown.pieces, grown.bytes = grown.pieces and p > pieces, grown.bytes and b > bytes end
    pieces, bytes = p, b
  end
  seen = seen + 1
  if not grown.pieces and not grown.bytes then return end
  leaks = leaks + 1
  print(('%s leaves %s behind each time'):format(name, grown.pieces and 'pieces of memory' or 'tensors'))
end

if kind == 'ops' then
  local every = require 'spec.every_op'
  for _, op in ipairs(every.ops()) do
    if op.type:find(pattern) then
      local calls = every.calls(op, 9)
      look(op.type, function()
        for i, call in ipairs(calls) do if i <= 9 or call.changed and i % 3 == 0 then every.run(op, call) end end
      end)
    end
  end
elseif kind == 'programs' then
  for _, program in ipairs(require 'spec.memory.let_go') do
    if program[1]:find(pattern) then
      look(program[1], function()
        df.reset()
        program[2]()
      end)
    end
  end
else
  local graphs = require 'spec.op_gradients'
  for _, name in ipairs(graphs.types()) do
    if name:find(pattern) then
      look(name, function()
        df.reset()
        local b = graphs.builder()
        local y, xs = graphs.build(name, b)
        pcall(df.run, df.gradients(df.reduce_sum(df.cast(y, 'float64')), xs, { unconnected = 'zero' }), b.feeds)
      end)
    end
  end
end
print(('%d looked at, %d leaks%s'):format(seen, leaks, held() == 0 and ', of tensors alone: this build counts no pieces' or ''))
os.exit(leaks == 0 and seen > 0)
