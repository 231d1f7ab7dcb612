--- One ONNX model for packages.py: dflow spec/models/packages.lua MODEL IN.npz OUT.npz. Prints the least processor time
-- of a run.
local df = require 'dflow'

local g = df.import_onnx(arg[1])
local feeds, fetches = {}, {}
for name, value in pairs(df.load_npz(arg[2])) do feeds[g:output(name)] = value end
for _, name in ipairs(g.onnx.outputs) do
  if not g.onnx.sequences[name] then fetches[name] = g:output(name) end
end
local s = df.Session{ graph = g, threads = 1 }
local results = s:run(fetches, feeds, { tensors = true })
df.save_npz(arg[3], results)

--- Processor time of one of so many runs.
local function batch(count)
  local start = os.clock()
  for _ = 1, count do s:run(fetches, feeds, { tensors = true }) end
  return (os.clock() - start) / count
end
local count = math.max(1, math.floor(0.005 / math.max(batch(3), 1e-6)))
local best, stop = math.huge, os.clock() + 1.5
repeat best = math.min(best, batch(count)) until os.clock() > stop
print(('%.8f'):format(best))
