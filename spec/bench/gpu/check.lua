--- check.lua: everything that needs a GPU, in one go: `make gpu-check`. Writes report.json and report.md beside itself; on the driver for tests
--- strict.json and strict.md, which say in their first line that no hardware was seen.
--
--   1. probe     which device and driver, or why there is none: then it ends
--   2. agree     specs of ops, loops, gradients, arrays and variables, with everything placed on gpu:0; each op and its gradient, alone
--                and in kernels that NVRTC makes of what hangs together. All of CUDA's libraries must be there, and conditional nodes
--   3. figures   products, chains of small kernels, copies, a loop with its gradient: times beside the CPU's
--
-- DFLOW_CUDA_DRIVER=strict runs it on the driver for tests, whose times say nothing, and the report says so. DFLOW_BUILD is the build's folder.
local df = require 'dflow'
local build = os.getenv 'DFLOW_BUILD' or 'build/release'
local folder = 'spec/bench/gpu/'

local function output(command)
  local p = assert(io.popen(command .. ' 2>&1'))
  local text = p:read('*a')
  p:close()
  return (text:gsub('%s+$', ''))
end

--- The command (%s: where its limit goes), which says so where it took longer; of the driver for tests several times as long.
local function limited(seconds, command)
  if os.getenv 'DFLOW_CUDA_DRIVER' == 'strict' then seconds = seconds * 5 end
  return ('( %s || { [ $? = 124 ] && echo "ended after %d seconds"; } )'):format(command:format('timeout ' .. seconds), seconds)
end

--- Seconds that a machine has been up: the only clock of plain Lua that does not count this process alone.
local function now()
  local f = assert(io.open('/proc/uptime'))
  local seconds = tonumber(f:read('*l'):match('^%S+'))
  f:close()
  return seconds
end

--- Seconds a call of fn, over half a second at least.
local function timed(fn)
  fn()
  local n, began = 0, now()
  while true do
    for _ = 1, 4 do fn() end
    n = n + 4
    local took = now() - began
    if took > 0.5 then return took / n end
  end
end

local report = { figures = {}, specs = {} }

-- ---- probe ----
local ok, why = pcall(df.run, df.device('gpu:0', function() return df.constant{ 1.0, 2.0 } * 2 end))
report.strict = os.getenv 'DFLOW_CUDA_DRIVER' == 'strict'
report.device = report.strict and 'the strict driver for tests, on the CPU' or output('nvidia-smi --query-gpu=name,driver_version --format=csv,noheader')
report.commit = output('git rev-parse --short HEAD')
if not ok then
  io.stderr:write('gpu-check: ', tostring(why), '\n')
  os.exit(1)
end

-- ---- agree ----
local specs = { 'spec/ops/ops_math_spec.lua', 'spec/ops/ops_reduce_spec.lua', 'spec/ops/ops_array_spec.lua', 'spec/ops/ops_index_spec.lua',
  'spec/ops/ops_linalg_spec.lua', 'spec/ops/ops_nn_spec.lua', 'spec/ops/random_spec.lua', 'spec/ops/optimizer_ops_spec.lua',
  'spec/graph/cond_spec.lua', 'spec/graph/while_loop_spec.lua', 'spec/graph/control_flow_spec.lua', 'spec/gradient/gradients_spec.lua',
  'spec/device/gpu_loops_spec.lua', 'spec/device/gpu_arrays_spec.lua', 'spec/device/gpu_inner_spec.lua',
  'spec/resource/variables_spec.lua', 'spec/resource/tensor_array_spec.lua', 'spec/front/contract_spec.lua' }
-- whole paths, as the program's own: where an error comes from is said of files that are not dflow's
local lpath = '--lpath="$PWD/?.lua;$PWD/stdlib/?.lua;$PWD/stdlib/?/init.lua"'
for _, path in ipairs(specs) do
  local text = output(limited(120, ('DFLOW_DEFAULT_DEVICE=gpu:0 %%s %s/dflow "$(command -v busted)" -f .busted %s -o plainTerminal %s')
    :format(build, lpath, path)))
  local passed, failed, errors = text:match('(%d+) success%S* / (%d+) failure%S* / (%d+) error')
  local first = text:match('\nFailure %-> ([^\n]+)') or text:match('\nError %-> ([^\n]+)') or not passed and text:match('ended after [^\n]*$')
  report.specs[#report.specs + 1] = { file = path, passed = tonumber(passed) or 0, failed = (tonumber(failed) or 1) + (tonumber(errors) or 0), first = first }
end

-- each op and its gradient beside the host's, and denormals, alone and with all that hangs together compiled into one kernel
local function agreement(program, how, seconds, wanted)
  local text = output(limited(seconds, ('DFLOW_STRESS=%s %%s %s/dflow %s'):format(how, build, program)))
  local agree = tonumber(text:match('(%d+) agree')) or 0
  wanted = wanted or tonumber(text:match('agree of (%d+)')) or agree + 1
  report.specs[#report.specs + 1] = { file = program .. ' ' .. how, passed = agree, failed = wanted - agree,
    first = agree < wanted and text:match('^[^\n]*') or nil }
end
for _, how in ipairs{ 'apart', 'groups' } do                  -- with nothing on the disk all of them are compiled
  agreement('spec/cuda/agree.lua', how, how == 'groups' and 1500 or 300, #require('spec.op_gradients').types())
  agreement('spec/cuda/denormals.lua', how, 60)
end
-- dflow does without these and says nothing, and then the figures are not of what they are called
agreement('spec/cuda/libraries.lua', 'groups,graphs', 120)

-- ---- figures ----
local function figure(name, unit, make, scale, engine)
  local row, session = { name = name, unit = unit }, engine and df.Session{ engine = engine }
  local function run(...) if session then return session:run(...) end return df.run(...) end
  for _, device in ipairs{ 'cpu:0', 'gpu:0' } do
    local fetch, feeds = df.device(device, make)
    row[device] = scale(timed(function() run(fetch, feeds) end))
  end
  if session then session:close() end
  report.figures[#report.figures + 1] = row
end
local sizes = report.strict and { 64 } or { 256, 1024, 4096 }
for _, n in ipairs(sizes) do
  local a = df.Variable(df.random_normal({ n, n }), { name = 'square' .. n })
  figure(('product of two %d x %d, float32'):format(n, n), 'GF/s', function() return a:matmul(a):reduce_sum() end,
    function(s) return 2 * n ^ 3 / s / 1e9 end)
end
figure('kernels in a chain, 8 elements each', 'us a kernel', function()
  local x = df.constant{ 1., 2., 3., 4., 5., 6., 7., 8. }
  for _ = 1, 200 do x = (x * 1.0001):sin() end
  return x
end, function(s) return s / 400 * 1e6 end)
figure('a run of one kernel that is fed 64 times 8 floats', 'us', function()
  local sum, feeds = {}, {}
  for i = 1, 64 do
    sum[i] = df.placeholder('float32', { 8 })
    feeds[sum[i]] = df.run(df.ones({ 8 }))
  end
  return df.add_n(sum), feeds
end, function(s) return s * 1e6 end)
local big = report.strict and 262144 or 16777216
figure(('sum of %d fed floats'):format(big), 'GB/s', function()
  local x = df.placeholder('float32', { big })
  return x:reduce_sum(), { [x] = df.run(df.ones({ big })) }
end, function(s) return 4 * big / s / 1e9 end)
for _, how in ipairs{ { { big }, 'sum' }, { { big / 16, 16 }, 'sums of 16 columns' } } do      -- at the memory's speed, if all goes well
  figure(('%s of %d floats that are there'):format(how[2], big), 'GB/s', function()
    return df.Variable(df.ones(how[1])):reduce_sum(0)
  end, function(s) return 4 * big / s / 1e9 end)
end
for _, how in ipairs{ { 'tokens', 'as tokens' }, { 'auto', 'as graphs and machine code' } } do
  local trips = report.strict and 200 or 20000
  figure('an iteration of a loop of two small kernels, ' .. how[2], 'us', function()
    local _, x = df.while_loop(function(i) return i:lt(trips) end, function(i, x) return i + 1, (x * 0.999):sin() end, { df.int32(0), df.ones({ 8 }) })
    return x
  end, function(s) return s / trips * 1e6 end, how[1])
end
figure('a step of a loop of tanh(x w), 64 x 128, with its gradient, 100 trips', 'us', function()
  local w = df.constant(0.01, 'float32', { 128, 128 })
  local _, x = df.while_loop(function(i) return i:lt(100) end, function(i, x) return i + 1, df.tanh(x:matmul(w)) end,
    { df.int32(0), df.ones({ 64, 128 }) })
  return df.gradients(x:reduce_sum(), w)
end, function(s) return s / 100 * 1e6 end)

-- ---- which of CUDA's libraries did it ----
report.libraries = {}
for _, d in ipairs(df.devices()) do
  for _, line in ipairs(d.libraries or {}) do report.libraries[#report.libraries + 1] = d.name .. ': ' .. line end
end

-- ---- the report ----
local function quoted(s) return ('%q'):format(s):gsub('\\\n', '\\n') end
local json = { '{', ('  "device": %s, "commit": %s, "strict": %s, "hardware": %s,'):format(quoted(report.device), quoted(report.commit), tostring(report.strict),
  tostring(not report.strict)), '  "specs": [' }
local md = { report.strict and '# gpu-check on the driver for tests: no report of hardware' or '# gpu-check', '', ('Device: %s; dflow %s.'):format(report.device, report.commit),
  report.strict and 'No GPU was there: the kernels ran on the CPU. What agrees agrees by the rules of CUDA; the times say nothing of a GPU.' or '',
  table.concat(report.libraries, '; '), '', '| spec with gpu:0 as the default device | passed | failed |', '|---|---|---|' }
local all, wrong = 0, 0
local name_of_report = report.strict and 'strict' or 'report'
for i, s in ipairs(report.specs) do
  json[#json + 1] = ('    {"file": %s, "passed": %d, "failed": %d}%s'):format(quoted(s.file), s.passed, s.failed, i < #report.specs and ',' or '')
  md[#md + 1] = ('| %s%s | %d | %d |'):format(s.file, s.first and ': ' .. s.first or '', s.passed, s.failed)
  all, wrong = all + s.passed, wrong + s.failed
end
json[#json + 1] = '  ],\n  "figures": ['
md[#md + 1] = '\n| figure | unit | cpu:0 | gpu:0 |\n|---|---|---|---|'
for i, f in ipairs(report.figures) do
  json[#json + 1] = ('    {"name": %s, "unit": %s, "cpu": %.6g, "gpu": %.6g}%s'):format(quoted(f.name), quoted(f.unit), f['cpu:0'], f['gpu:0'],
    i < #report.figures and ',' or '')
  md[#md + 1] = ('| %s | %s | %.4g | %.4g |'):format(f.name, f.unit, f['cpu:0'], f['gpu:0'])
end
local named = {}
for i, line in ipairs(report.libraries) do named[i] = quoted(line) end
json[#json + 1] = '  ],\n  "libraries": [' .. table.concat(named, ', ') .. ']\n}'
for ending, lines in pairs{ json = json, md = md } do
  local f = assert(io.open(folder .. name_of_report .. '.' .. ending, 'w'))
  f:write(table.concat(lines, '\n'), '\n')
  f:close()
end
for _, r in ipairs(report.specs) do if r.failed > 0 then print(('FAILED %s: %s'):format(r.file, r.first or r.failed)) end end
print(('%d passed, %d failed; %s%s.md'):format(all, wrong, folder, name_of_report))
os.exit(wrong == 0 and all > 0 and 0 or 1)
