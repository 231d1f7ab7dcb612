-- run.lua: measures dflow and every peer that can be imported, one after the other, and prints them side by side.
-- A number in brackets says how many times faster dflow is. `PYTHON=… make bench` chooses the Python of the peers;
-- `make bench BENCH="counter lstm"` measures some workloads only.
local here = debug.getinfo(1, 'S').source:match('^@(.*)/') or '.'
local build = os.getenv('DFLOW_BUILD') or here .. '/../../build/release'
local python = os.getenv('PYTHON') or 'python3'
local names = table.concat(arg, ' ')

local rows, order, columns, units = {}, {}, {}, {}

local function measure(who, command)
  io.stderr:write('measuring ', who, '\n')
  columns[#columns + 1] = who
  local pipe = assert(io.popen(command))
  for line in pipe:lines() do
    local title, work, value, unit = line:match('"who": "(.-)", "work": "(.-)", "value": (%S-), "unit": "(.-)"')
    if work then
      if not rows[work] then
        rows[work] = {}
        order[#order + 1] = work
      end
      columns[#columns] = title
      rows[work][#columns], units[work] = tonumber(value), unit
    else
      print(line)
    end
  end
  pipe:close()
end

measure('dflow', ('%s/dflow %s/bench.lua %s'):format(build, here, names))
if names == '' then
  measure('dflow', build .. '/bench_c')
  for _, row in pairs(rows) do row[1], row[2] = row[1] or row[2], nil end
  columns[2] = nil
end
for _, peer in ipairs{ { 'tensorflow', 'tf1' }, { 'jax', 'jax' }, { 'torch', 'torch' } } do
  local module, file = peer[1], peer[2]
  if os.execute(('%s -c "import %s" >/dev/null 2>&1'):format(python, module)) then
    measure(module, ('%s %s/peer_%s.py %s'):format(python, here, file, names))
  else
    io.stderr:write(module, ' is not installed for ', python, '\n')
  end
end

local function short(v)
  if v >= 1e6 then return ('%.2f M'):format(v / 1e6) end
  if v >= 1e4 then return ('%.1f k'):format(v / 1e3) end
  return ('%.3g'):format(v)
end

local head = { ('%-22s %-12s'):format('workload', 'unit') }
for _, title in ipairs(columns) do head[#head + 1] = ('%24s'):format(title) end
print(table.concat(head))
for _, work in ipairs(order) do
  local line, ours = { ('%-22s %-12s'):format(work, units[work]) }, rows[work][1]
  for c = 1, #columns do
    local v, text = rows[work][c], '-'
    if v then
      text = short(v)
      local more_is_better = units[work]:match('/s$')
      if c > 1 and ours then text = ('%s (%.3gx)'):format(text, more_is_better and ours / v or v / ours) end
    end
    line[#line + 1] = ('%24s'):format(text)
  end
  print(table.concat(line))
end
