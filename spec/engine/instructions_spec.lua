-- How many instructions an iteration costs, counted by valgrind: the one measure of speed that is the same on a busy
-- machine. The build is one of its own (build/valgrind, no AVX-512), the count is the difference between two trip
-- counts, so start-up and building drop out.
--
-- When the executor gets faster, `lua5.4 spec/engine/instructions_spec.lua` prints the new counts to be written here.
--
-- What looking costs is in them. The counters cost nothing but for dead tokens, iterations and values of loops' Merges: tokens are counted by
-- the queue that they are in anyway (with a count of its own the counter loop took 748 instructions, and 715 without). `values` keeps every value.
local COUNTS = { -- instructions per iteration
  counter = 715,
  nested = 1163,
  cond_in_loop = 2104,
  rnn = 12620,
  ['counter values'] = 863,
  ['rnn values'] = 13590,
}
local SLACK = 1.10
local TRIPS = { counter = { 2000, 12000 }, nested = { 20, 120 }, cond_in_loop = { 2000, 12000 }, rnn = { 200, 1200 } }
local PER_TRIP = { counter = 1, nested = 100, cond_in_loop = 1, rnn = 1 }   -- iterations of the innermost loop per trip

local BUILD = 'build/valgrind'

local function read(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read('*a')
  pipe:close()
  return text
end

local function have(program) return read('command -v ' .. program) ~= '' end

local function instructions(name, trips)
  local text = read(('LD_PRELOAD= LUA_PATH="stdlib/?.lua;;" LUA_CPATH="%s/lua/?.so;;" DFLOW_LIB=%s/libdflow.so '
    .. 'OPENBLAS_NUM_THREADS=1 valgrind --tool=callgrind --callgrind-out-file=/dev/null '
    .. 'lua5.4 spec/instructions/loops.lua %s %d %s 2>&1'):format(BUILD, BUILD, name:match('^%S+'), trips, name:match(' (%S+)$') or ''))
  local collected = text:match('Collected : (%d+)')
  return assert(tonumber(collected), text)
end

local function per_iteration(name)
  local loop = name:match('^%S+')
  local few, many = TRIPS[loop][1], TRIPS[loop][2]
  return (instructions(name, many) - instructions(name, few)) / ((many - few) * PER_TRIP[loop])
end

local function build()
  assert(read('make -s MODE=valgrind lib core 2>&1; echo $?'):match('0\n$'), 'make MODE=valgrind lib core')
end

if not describe then
  build()
  for _, name in ipairs{ 'counter', 'nested', 'cond_in_loop', 'rnn', 'counter values', 'rnn values' } do
    print(('  [%q] = %.0f,'):format(name, per_iteration(name)))
  end
  return
end

describe('the token engine #instructions', function()
  local why = (os.getenv('DFLOW_LUA') or 'lua5.4') ~= 'lua5.4' and 'counted under lua5.4'
    or os.getenv('LD_PRELOAD') and os.getenv('LD_PRELOAD') ~= '' and 'not under a sanitizer'
    or not have('valgrind') and 'valgrind is not installed'
    or not read('uname -m'):match('x86_64') and 'the counts are those of x86-64'
  if why then
    pending('costs no more instructions than it did: ' .. why)
    return
  end

  setup(build)

  for name, known in pairs(COUNTS) do
    it(('spends at most %.0f instructions on an iteration of %s'):format(known * SLACK, name), function()
      local count = per_iteration(name)
      assert.is_true(count <= known * SLACK,
        ('%s: %.0f instructions per iteration, were %d'):format(name, count, known))
    end)
  end
end)
