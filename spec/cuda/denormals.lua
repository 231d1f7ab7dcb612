--- denormals.lua: what a run makes of denormal float32 on the host and with a GPU, as ops or (DFLOW_STRESS=groups) as one kernel, whose compilers
-- are told apart: prints what differs and how many numbers agree. Values that an op passes on (a maximum, a sign) are left out: either may keep them.
local df = require 'dflow'
local list = { 1e-40, -1e-40, 1.1e-38, -1e-45, 1.2e-38, 3, 0 }
local x = df.placeholder('float32', { #list })

local function values(device)
  local y = df.device(device, function()
    local chain = ((x * 3 + 1e-39) * 0.5 - x) / 1e-7
    return { x * 1, x + x, x / 1e-5, df.sqrt(df.abs(x * 1)), x * 1e-30 * 1e10, df.cast(x * 1, 'float64') * 1e10, df.cast(df.greater(x, 0), 'int32'),
      df.cast(df.equal(x, 0), 'int32'), df.exp(x) - 1, df.reduce_sum(chain), chain, df.cast(df.cast(x, 'float64') * 1e-30, 'float32') }
  end)
  local all = {}
  for _, t in ipairs(df.run(y, { [x] = list })) do
    for _, v in ipairs(type(t) == 'number' and { t } or t:totable()) do all[#all + 1] = v end
  end
  return all
end

local host, there, agree = values 'cpu:0', values 'gpu:0', 0
for i, v in ipairs(host) do
  if v == there[i] or math.abs(v) > 1e-30 and math.abs(v - there[i]) < 1e-6 * math.abs(v) then agree = agree + 1
  else print(('number %d is %s, there %s'):format(i, v, there[i])) end
end
print(('%d agree of %d'):format(agree, #host))
