--- Writes a file of a kind, for files_spec.lua: dflow spec/exchange/files_writer.lua KIND PATH [for ever]. Prints ok, or the error's code
-- and message.
local df = require 'dflow'
local kind, path, forever = arg[1], arg[2], arg[3]

local numbers = {}
for i = 1, 40000 do numbers[i] = i % 97 end
local t = df.tensor(numbers, 'float32')
local x = df.placeholder('float32', {}, 'x')
local _, y = df.while_loop(function(i) return i:lt(300) end, function(i, v) return i + 1, v * 1.01 end, { df.int32(0), x })

local kinds = {}
function kinds.npy() df.save_npy(path, t) end
function kinds.npz() df.save_npz(path, { a = t, b = t }) end
function kinds.safetensors() df.save_safetensors(path, { a = t, b = t }) end
function kinds.tfrecord() df.data.write_tfrecord(path, { ('record '):rep(9000), ('another '):rep(9000) }) end
function kinds.trace() df.run(y, { [x] = 1 }, { trace = path }) end
function kinds.report() df.run(y, { [x] = 1 }, { report = path }) end
function kinds.svg() df.draw(y, { path = path, as = 'svg' }) end
function kinds.graphdef() df.export_graph_def(path) end
local doubled = df.constant(t) * 2
function kinds.onnx() df.export_onnx(path, { outputs = { doubled } }) end
function kinds.save()
  local inputs = require('dflow.repl.session').inputs
  for i = 1, 3000 do inputs[i] = { text = ('local a%d = %d'):format(i, i), ok = true } end
  require 'dflow.repl.builtin'
  require('dflow.repl.commands').find('save').fn(path, function() end)
end

if not kinds[kind] then
  local names = {}
  for name in pairs(kinds) do names[#names + 1] = name end
  table.sort(names)
  print(table.concat(names, ' '))
  os.exit(0)
end
repeat
  local ok, e = pcall(kinds[kind])
  if not forever or not ok then print(ok and 'ok' or tostring(type(e) == 'table' and e.code or 'none') .. ' ' .. tostring(e)) end
until not forever or not ok
