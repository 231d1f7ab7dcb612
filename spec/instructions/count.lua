--- Counts the instructions of loops.lua with valgrind. The build is one of its own (build/valgrind, no AVX-512); a count is the
-- difference between two trip counts, so start-up and building drop out.
local M = {}
local BUILD = 'build/valgrind'
-- Start-up differs by some 300,000 instructions from one process to the next: trips are so many that this is half a hundredth at most.
local LOOPS = { -- trips of the two counts, iterations of the innermost loop per trip
  counter = { 2000, 152000, 1 },
  nested = { 20, 1020, 100 },
  cond_in_loop = { 2000, 62000, 1 },
  rnn = { 200, 6200, 1 },
  lstm_gradient = { 10, 810, 1 },
  softmax = { 10, 1210, 1 },
}
-- Why a count is larger than the least that it has been. `make bench-quick COUNTS=write` writes it beside the count.
M.why = {
  cond_in_loop = '1636 before what waits for the window was opened by swapping, too (engine/tokens/frame.c)',
  ['counter values'] = '625 before reads of variables were lent (engine/tokens/borrowed_read.c), which is code in the same function',
  softmax = '51155 before short rows in place were copied first, which takes a quarter of the time (kernels/cpu/nn.c)',
}
M.names = { 'counter', 'nested', 'cond_in_loop', 'rnn', 'counter values', 'rnn values', 'lstm_gradient', 'softmax' }

function M.read(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read('*a')
  pipe:close()
  return text
end

--- Makes the build that is counted.
function M.build()
  assert(M.read('make -s MODE=valgrind lib core 2>&1; echo $?'):match('0\n$'), 'make MODE=valgrind lib core')
end

local function instructions(name, trips)
  local text = M.read(('LD_PRELOAD= LUA_PATH="stdlib/?.lua;;" LUA_CPATH="%s/lua/?.so;;" DFLOW_LIB=%s/libdflow.so '
    .. 'OPENBLAS_NUM_THREADS=1 DFLOW_ENGINE=tokens valgrind --tool=callgrind --callgrind-out-file=/dev/null '
    .. 'lua5.4 spec/instructions/loops.lua %s %d %s 2>&1'):format(BUILD, BUILD, name:match('^%S+'), trips, name:match(' (%S+)$') or ''))
  local collected = text:match('Collected : (%d+)')
  return assert(tonumber(collected), text)
end

--- Of one of M.names.
function M.per_iteration(name)
  local few, many, per_trip = (table.unpack or unpack)(LOOPS[name:match('^%S+')])
  return (instructions(name, many) - instructions(name, few)) / ((many - few) * per_trip)
end
return M
