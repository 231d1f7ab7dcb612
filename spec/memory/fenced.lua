--- The CPU's kernels at sizes of many kinds (spec/ops/cases.lua) where behind each tensor is memory that may not be touched:
--
--   DFLOW_STRESS=fence build/debug/dflow spec/memory/fenced.lua '^[A-C]'
--
-- The ops whose names match are run. An element too many that is read or written ends the process.
local df = require 'dflow'
local cases = require 'spec.ops.cases'

local by, names = cases.by_op()
local calls = 0
for _, op in ipairs(names) do
  if op:find(arg[1] or '') then
    for _, case in ipairs(by[op]) do
      df.reset()
      local fed = cases.tensors(case)
      local holders, feeds = {}, {}
      for i, t in ipairs(fed) do
        holders[i] = df.placeholder(t.dtype, t.shape)
        feeds[holders[i]] = t
      end
      io.stderr:write(op, '\n')                   -- so that the last line says who it was
      df.run({ cases.build(case, table.unpack(holders)) }, feeds)
      calls = calls + 1
    end
  end
end
print(('%d calls, nothing was touched that is not theirs'):format(calls))
