--- Devices as users write them: names, sizes, bandwidths, times; and the lines of text in which the core tells of them.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'

local M = {}

-- ---- names ----------------------------------------------------------------------------------------------------------
M.jobs = {}                             -- those that df.cluster.jobs names, in lower case: true

--- 'sim:1' of 'sim:1', 'SIM:1', '/device:SIM:1' or '/job:worker/task:0/device:SIM:1', '/rank:2/sim:1' where another
--- rank is named, '/job:worker/task:2/sim:1' where another task is, or one of M.jobs; nil where no device is.
function M.canonical(spec)
  local lower = spec:lower()
  local rank, job, task = lower:match '/rank:(%d+)', lower:match '/job:([^/]+)', lower:match '/task:(%d+)'
  local place = rank and tonumber(rank) > 0 and '/rank:' .. rank
    or not rank and (tonumber(task or 0) > 0 or M.jobs[job]) and ('%s/task:%s'):format(job and '/job:' .. job or '',
                                                                                      task or 0) or nil
  local last = lower:match '[^/]*$'
  if last:match '^job:' or last:match '^replica:' or last:match '^task:' or last:match '^rank:' then
    last = place and 'cpu:0' or ''
  end
  last = last:gsub('^device:', '')
  if last == '' then return nil end
  last = last:find(':', 1, true) and last or last .. ':0'
  return place and place .. '/' .. last or last
end

--- The devices that every session has, or makes when a graph names them; the host's is the first.
function M.names()
  local list = {}
  for name in core.device_names():gmatch '%S+' do list[#list + 1] = name end
  return list
end

-- ---- amounts --------------------------------------------------------------------------------------------------------
local sizes = { B = 1, KB = 1024, MB = 1024 ^ 2, GB = 1024 ^ 3, TB = 1024 ^ 4, KIB = 1024, MIB = 1024 ^ 2,
                GIB = 1024 ^ 3, TIB = 1024 ^ 4, [''] = 1 }
local times = { s = 1, ms = 1e-3, us = 1e-6, ns = 1e-9, [''] = 1 }

local function amount(v, what, units, example, fold)
  local n, unit
  if type(v) == 'number' then n, unit = v, ''
  elseif type(v) == 'string' then
    n, unit = v:match '^%s*([%d.]+[eE]?[+-]?%d*)%s*(%a*)%s*$'
    n = tonumber(n)
  end
  local factor = unit and units[fold and fold(unit) or unit]
  if not n or not factor or n ~= n or n < 0 or n == math.huge then
    errors.bad("%s is %s, not %s", what, example, type(v) == 'string' and ("'%s'"):format(v) or errors.describe(v))
  end
  return n * factor
end

local ADDRESSES = 2 ^ 47

--- Bytes of 65536, '64KB', '64MB' or '1GB' (powers of 1024).
function M.bytes(v, what)
  local n = amount(v, what, sizes, "a number of bytes or a size such as '64KB', '64MB', '1GB'", string.upper)
  if n < 1 then errors.bad("%s is a size of at least one byte, not %s", what, tostring(v)) end
  if n > ADDRESSES then errors.bad('%s is at most 128TB, what a process can address, not %s', what, tostring(v)) end
  return math.floor(n)
end

--- Bytes a second of 1e9 or '1GB/s'.
function M.bandwidth(v, what)
  if type(v) == 'string' then
    local size = v:match '^(.-)%s*/%s*s$' or v
    local n = amount(size, what, sizes, "a number of bytes a second or such as '1GB/s'", string.upper)
    if n <= 0 then errors.bad("%s is more than nothing, not '%s'", what, v) end
    return n
  end
  local n = amount(v, what, sizes, "a number of bytes a second or such as '1GB/s'", string.upper)
  if n <= 0 then errors.bad('%s is more than nothing, not %s', what, tostring(v)) end
  return n
end

--- Seconds of 5e-6 or '5us'.
function M.seconds(v, what)
  return amount(v, what, times, "a number of seconds or a time such as '5us', '1ms', '2s'")
end

function M.speed(v, what)
  if v == 'measured' then return v end
  if type(v) ~= 'number' or v ~= v or v <= 0 or v == math.huge then
    errors.bad("%s is a positive number, 1 for the built-in cost model, or 'measured', not %s", what,
               errors.describe(v))
  end
  return v
end

-- ---- sessions -------------------------------------------------------------------------------------------------------
local function count(v, what)
  if type(v) ~= 'number' or v < 1 or v % 1 ~= 0 or v > 2 ^ 53 then
    errors.bad('%s is a whole number from 1 up, not %s', what, errors.describe(v))
  end
  return v
end
local fields = { memory = M.bytes, bandwidth = M.bandwidth, latency = M.seconds, speed = M.speed, launch = M.seconds,
                 fail_at = count, link_fail_at = count, link_stall_at = count }
local order = { 'memory', 'bandwidth', 'latency', 'speed', 'launch', 'fail_at', 'link_fail_at', 'link_stall_at' }

local function device_word(d, i)
  local t = errors.is_data(d) and d or { d }
  local name = t[1]
  if type(name) ~= 'string' then
    errors.bad("Session: devices[%d] is a name such as 'sim:0', or a table that begins with one, not %s", i,
               errors.describe(d))
  end
  local own = M.canonical(name)
  if not own or own:find '[^%w:/_]' then
    errors.bad("Session: there is no device '%s' (devices are: %s, and sim:0, sim:1, …)", name, M.names()[1])
  end
  for key in pairs(t) do
    if key ~= 1 and not fields[key] then
      errors.bad("Session: device %s has no option '%s' (options are: %s)", own, tostring(key),
                 table.concat(order, ', '))
    end
  end
  local words = { own }
  for _, key in ipairs(order) do
    if t[key] ~= nil then
      local v = fields[key](t[key], ('Session: the %s of %s'):format(key, own))
      words[#words + 1] = key .. '=' .. (type(v) == 'number' and ('%.17g'):format(v) or v)
    end
  end
  return 'device=' .. table.concat(words, ','), own
end

--- Appends the words for df_session_new that these options of a Session ask for.
function M.session_words(opts, words)
  if opts.soft_placement ~= nil and type(opts.soft_placement) ~= 'boolean' then
    errors.bad('Session: soft_placement is true or false, not %s', errors.describe(opts.soft_placement))
  end
  if opts.devices ~= nil then
    local list = type(opts.devices) == 'string' and { opts.devices } or opts.devices
    if type(list) ~= 'table' or #list == 0 then
      errors.bad("Session: devices is a list such as {'cpu:0', 'sim:0'}, not %s", type(list) == 'table'
                 and next(list) == nil and 'an empty one' or errors.describe(opts.devices))
    end
    local seen = {}
    for i, d in ipairs(list) do
      local word, name = device_word(d, i)
      if seen[name] then errors.bad('Session: devices has %s twice', name) end
      seen[name] = true
      words[#words + 1] = word
    end
  end
  if opts.owners ~= nil then
    if type(opts.owners) ~= 'number' or opts.owners < 1 or opts.owners > 1024 or opts.owners % 1 ~= 0 then
      errors.bad('Session: owners is a whole number of threads from 1 to 1024, not %s', errors.describe(opts.owners))
    end
    words[#words + 1] = ('owners=%d'):format(opts.owners)
  end
  if opts.clock ~= nil then
    if opts.clock ~= 'real' and opts.clock ~= 'virtual' and opts.clock ~= 'virtual_owners' then
      errors.bad("Session: clock is 'real', 'virtual' or 'virtual_owners', not %s", errors.describe(opts.clock))
    end
    words[#words + 1] = 'clock=' .. opts.clock
  end
  if opts.memory ~= nil then words[#words + 1] = ('memory=%.0f'):format(M.bytes(opts.memory, 'Session: memory')) end
  if opts.plan_cache ~= nil then
    words[#words + 1] = ('plans=%.0f'):format(M.bytes(opts.plan_cache, 'Session: plan_cache'))
  end
  if opts.soft_placement then words[#words + 1] = 'soft=yes' end
  if opts.simplify ~= nil then
    if type(opts.simplify) ~= 'boolean' then
      errors.bad('Session: simplify is true or false, not %s', errors.describe(opts.simplify))
    end
    words[#words + 1] = 'simplify=' .. (opts.simplify and 'yes' or 'no')
  end
  if opts.batch ~= nil then
    local word = ({ [true] = 'yes', [false] = 'no', auto = 'auto' })[opts.batch]
    if not word then errors.bad("Session: batch is true, false or 'auto', not %s", errors.describe(opts.batch)) end
    words[#words + 1] = 'batch=' .. word
  end
  if opts.save ~= nil then
    if not ({ keep = true, swap = true, recompute = true, auto = true })[opts.save] then
      errors.bad("Session: save is 'keep', 'swap', 'recompute' or 'auto', not %s", errors.describe(opts.save))
    end
    words[#words + 1] = 'save=' .. opts.save
  end
end

-- ---- what the core tells --------------------------------------------------------------------------------------------
--- Puts memory, transfers, swap and seconds into a table of counters.
function M.read_report(text, stats)
  stats.memory, stats.transfers, stats.saved = {}, {}, {}
  for line in text:gmatch '[^\n]+' do
    local kind, rest = line:match '^(%S+) (.*)$'
    if kind == 'seconds' then stats.seconds = tonumber(rest)
    elseif kind == 'memory' then
      local name, in_use, peak, limit = rest:match '^(%S+) (%S+) (%S+) (%S+)$'
      stats.memory[name] = { in_use = tonumber(in_use), peak = tonumber(peak), limit = tonumber(limit) }
    elseif kind == 'transfer' then
      local link, messages, bytes, dead = rest:match '^(%S+ %-> %S+) (%S+) (%S+) (%S+)$'
      stats.transfers[link] = { messages = tonumber(messages), bytes = tonumber(bytes), dead = tonumber(dead) }
    elseif kind == 'plans' then
      local made, kept, bytes, limit = rest:match '^(%S+) (%S+) (%S+) (%S+)$'
      stats.plans = { made = tonumber(made), kept = tonumber(kept), bytes = tonumber(bytes), limit = tonumber(limit) }
    elseif kind == 'owners' then
      stats.owners = {}
      for n in rest:gmatch '%S+' do stats.owners[#stats.owners + 1] = { nodes_run = tonumber(n) } end
    elseif kind == 'one' then stats.owners.why = rest
    elseif kind == 'again' then stats.iterations_again = tonumber(rest)
    elseif kind == 'graphs' then
      local names = { 'graph_captures', 'graph_entries', 'graph_launches', 'graph_iterations', 'persistent_launches',
                      'persistent_iterations' }
      for n in rest:gmatch '%S+' do stats[table.remove(names, 1)] = tonumber(n) end
    elseif kind == 'saved' then
      local value, where, save, elements, bytes, swapped, let_go, why =
        rest:match '^([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$'
      table.insert(stats.saved,
                   { value = value, line = where, save = save, tensors = tonumber(elements), bytes = tonumber(bytes),
                                  swapped = tonumber(swapped), recomputed = tonumber(let_go), why = why })
    elseif kind == 'swap' then
      local n = {}
      for word in rest:gmatch '%S+' do n[#n + 1] = tonumber(word) end
      stats.swap = { bytes_out = n[1], bytes_in = n[2], tensors_out = n[3], tensors_in = n[4], resident_bytes = n[5],
                     stall_seconds = n[6] }
    end
  end
  return stats
end

--- {{name =, kind =, memory =, rates =}, …} of a session; rates, where the speed is 'measured': flops and bytes a
-- second, and the seconds that a kernel takes to begin with. Of a GPU: what it is called, its launches, copies_in,
-- copies_out and copies_across (from other GPUs), and libraries: lines that say what computes with which of CUDA's
-- libraries, and which is missing.
function M.list(handle)
  local list, told = {}, core.session_devices(handle)
  for kind, name, in_use, peak, limit in told:gmatch '(%S+) memory (%S+) (%S+) (%S+) (%S+)\n' do
    list[#list + 1] = { name = name, kind = kind,
                        memory = { in_use = tonumber(in_use), peak = tonumber(peak), limit = tonumber(limit) } }
    list[name] = list[#list]
  end
  for name, flops, bytes, begin in told:gmatch 'rates (%S+) (%S+) (%S+) (%S+)\n' do
    list[name].rates = { flops = tonumber(flops), bytes = tonumber(bytes), begin = tonumber(begin) }
  end
  for name, launches, copies_in, copies_out, copies_across,
    called in told:gmatch 'gpu (gpu:%d+) (%d+) (%d+) (%d+) (%d+) ([^\n]*)\n' do
    local d = list[name]
    d.called, d.libraries, d.launches = called, {}, tonumber(launches)
    d.copies_in, d.copies_out, d.copies_across = tonumber(copies_in), tonumber(copies_out), tonumber(copies_across)
  end
  for name, line in told:gmatch 'library (%S+) ([^\n]*)\n' do table.insert(list[name].libraries, line) end
  for _, d in ipairs(list) do list[d.name] = nil end
  return list
end

--- {{node =, op =, device =, why =, left_out =, once =}, …} of the nodes that the fetches (flat pairs) need; left_out:
-- the plan was simplified, and `why` says what gives the node's value; once: so does `why` of which loop the iterations
-- share it. Of a session with several owners also `owners`, by device the number of the one that turns it in s:run, or
-- `one_owner`, why one turns them all.
function M.placement(handle, flat)
  local list, told = {}, core.session_placement(handle, flat)
  for node, op, device, id, why in told:gmatch '([^\t\n]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\n]*)\n' do
    list[#list + 1] = { node = node, op = op, device = device, id = tonumber(id:match '%d+'), why = why,
      left_out = id:find(' left out', 1, true) ~= nil, once = id:find(' once', 1, true) ~= nil }
  end
  list.one_owner = told:match '\none ([^\t\n]*)\n$'
  for device, owner in (told:match '\nowners ([^\t\n]*)\n$' or ''):gmatch '(%S+)=(%d+)' do
    list.owners = list.owners or {}
    list.owners[device] = tonumber(owner)
  end
  return list
end

local changes = { 'bandwidth', 'latency', 'speed', 'parallel_iterations', 'devices' }
local whatif_flags = { 'timeline', 'replace' }
local whatif_options = { 'bandwidth', 'latency', 'speed', 'parallel_iterations', 'devices', 'timeline', 'replace' }
local readers = { bandwidth = M.bandwidth, latency = M.seconds,
                  speed = function(v, what) return v == 'measured' and 1 or M.speed(v, what) end,
                  parallel_iterations = count,
                  devices = function(v, what) return count(type(v) == 'table' and #v or v, what) end }

--- An event of a timeline: what took time, where, from when to when.
local function timed(line, name_of)
  local id, kind, node, device, to, frame, iteration, begins, ends, bytes, cause,
    flops = line:match('^event' .. ('\t([^\t]*)'):rep(12) .. '$')
  node, begins, ends = tonumber(node), tonumber(begins), tonumber(ends)
  return { id = tonumber(id), kind = kind, node = name_of(node), number = node, device = device, to = to ~= device
           and to or nil, frame = tonumber(frame),
    iteration = tonumber(iteration), begins = begins, ends = ends, bytes = tonumber(bytes), flops = kind == 'work'
    and tonumber(flops) or nil,
      cause = cause ~= '0' and tonumber(cause) or nil }
end

--- The answer to h:whatif; name_of(node) is the name of a node.
function M.whatif(handle, opts, name_of)
  opts = errors.options(opts, 'whatif', whatif_options)
  local words = {}
  for _, key in ipairs(changes) do
    if opts[key] ~= nil then
      words[#words + 1] = ('%s=%.17g'):format(key, readers[key](opts[key], 'whatif: ' .. key))
    end
  end
  for _, key in ipairs(whatif_flags) do
    if opts[key] ~= nil and type(opts[key]) ~= 'boolean' then
      errors.bad('whatif: %s is a boolean, not %s', key, errors.describe(opts[key]))
    end
    if opts[key] then words[#words + 1] = key .. '=1' end
  end
  local result = { critical_path = {}, timeline = opts.timeline and {} or nil, places = opts.replace and 'anew'
                   or 'kept' }
  for line in core.run_whatif(handle, table.concat(words, ' ')):gmatch '[^\n]+' do
    local seconds = line:match '^seconds (.*)$'
    if seconds then result.seconds = tonumber(seconds)
    elseif line:find '^event\t' then result.timeline[#result.timeline + 1] = timed(line, name_of)
    else
      local op, iteration, device, took = line:match '^([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)$'
      table.insert(result.critical_path,
                   { op = op, iteration = tonumber(iteration), device = device, seconds = tonumber(took) })
    end
  end
  return result
end

return M
