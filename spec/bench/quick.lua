-- quick.lua: instructions per iteration beside those of spec/instructions/counts.lua; the same on a busy machine as on a quiet one.
-- `make bench-quick` fails where one has grown by more than a tenth; `make bench-quick COUNTS=write` writes the new counts down.
local count, known = require 'spec.instructions.count', require 'spec.instructions.counts'
local SLACK, FILE = 1.10, 'spec/instructions/counts.lua'
local now, worse = {}, false

count.build()
print('| loop | instructions now | before | now ÷ before |\n|---|---|---|---|')
for _, name in ipairs(count.names) do
  now[name] = count.per_iteration(name)
  local ratio = known[name] and now[name] / known[name]
  worse = worse or (ratio or 0) > SLACK
  print(('| %s | %.0f | %s | %s |'):format(name, now[name], known[name] or '–', ratio and ('%.3f'):format(ratio) or '–'))
  io.stdout:flush()
end
if arg[1] == 'write' then
  local f = assert(io.open(FILE, 'w'))
  f:write('--- Instructions per iteration of the loops of loops.lua, as `make bench-quick COUNTS=write` wrote them down.\nreturn {\n')
  for _, name in ipairs(count.names) do f:write(('  [%q] = %.0f,%s\n'):format(name, now[name], count.why[name] and '   -- ' .. count.why[name] or '')) end
  f:write('}\n')
  f:close()
elseif worse then
  os.exit(1)
end
