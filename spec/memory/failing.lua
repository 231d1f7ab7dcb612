--- Fails the allocations of spec/memory/programs.lua one by one, and looks at what becomes of it.
--   [dflow|luajit] spec/memory/failing.lua [every Nth = 1] [how many in a row = 1] [program's number]
local core = require 'dflow.backend'
local programs = require 'spec.memory.programs'

local M = {}

local function pieces()
  collectgarbage()
  collectgarbage()
  return (select(2, core.memory_fail(-1)))
end

--- Fails every `step`-th allocation of one program, from `first` on, `times` in a row.
-- @return {allocations=, errors=, fine=, faults = {text, …}}: `fine` are runs that succeeded all the same
function M.program(program, first, step, times)
  local run = program[2]()
  local want
  for _ = 1, 3 do want = run() end
  core.memory_fail(0)
  run()
  local n = core.memory_fail(-1)
  local r, before = { allocations = n, errors = 0, fine = 0, faults = {} }, pieces()
  local function fault(i, text) r.faults[#r.faults + 1] = ('%s, allocation %d of %d: %s'):format(program[1], i, n, text) end
  for i = first, n, step do
    core.memory_fail(i, times)
    local ok, e = pcall(run)
    core.memory_fail(-1)
    if ok then
      r.fine = r.fine + 1
      if e ~= want then fault(i, ('gave %s, not %s'):format(tostring(e), want)) end
    else
      r.errors = r.errors + 1
      if type(e) ~= 'table' or e.code ~= 'resource_exhausted' then fault(i, 'ended with ' .. tostring(e)) end
    end
    ok, e = pcall(run)
    if not ok or e ~= want then fault(i, 'afterwards it gave ' .. tostring(e)) end
    local after = pieces()
    if after > before then
      fault(i, ('left %d pieces behind'):format(after - before))
      before = after
    end
  end
  return r
end

if arg and arg[0] and arg[0]:match 'failing%.lua$' then
  local step, times, only, faults = tonumber(arg[1] or 1), tonumber(arg[2] or 1), tonumber(arg[3]), 0
  local seen = 0
  for k, program in ipairs(programs) do
    if not only or only == k then
      local r = M.program(program, 1, step, times)
      print(('%-36s %6d allocations, %6d errors, %4d fine, %d faults'):format(program[1], r.allocations, r.errors, r.fine, #r.faults))
      for _, text in ipairs(r.faults) do print('  ' .. text) end
      if r.allocations == 0 or r.errors == 0 then
        print('  nothing failed')
        faults = faults + 1
      end
      faults, seen = faults + #r.faults, seen + 1
    end
  end
  os.exit(faults == 0 and seen > 0 and 0 or 1)
end

return M
