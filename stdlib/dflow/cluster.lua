--- df.cluster: several processes that turn one graph. This one is rank 0, the driver; workers hold sessions like its
-- own.
local core = require 'dflow.backend'
local devices = require 'dflow.front.devices'
local errors = require 'dflow.front.errors'

local M = {}

local function whole(v, least) return type(v) == 'number' and v == math.floor(v) and v >= least end

--- df.cluster.start(n or {host, …}): ranks 0 … n - 1, where rank 0 is this process and the others are started on this
-- host, or on the hosts of a list, a rank for each, by `ssh host dflow --host`.
-- @param n        how many, this one too
-- @param program  a dflow program; nil: the one that belongs to this library
function M.start(n, program)
  if program ~= nil and type(program) ~= 'string' then
    errors.bad('cluster.start: the program is a path, not %s', errors.describe(program))
  end
  if type(n) == 'table' and getmetatable(n) == nil and #n > 0 then
    for i, host in ipairs(n) do
      if type(host) ~= 'string' or not host:find '^[%w.:_@%%][%w.:_@%%-]*$' then
        errors.bad('cluster.start: host %d is a name or an address, not %s', i, errors.describe(host))
      end
    end
    return core.cluster_hosts(table.concat(n, ','), program)
  end
  if not whole(n, 1) or n >= 2 ^ 31 then
    errors.bad('cluster.start takes the number of ranks, this process too, not %s', errors.describe(n))
  end
  core.cluster_start(n, program)
end

--- df.cluster.restart(): new workers in the place of those that are dead or hung.
function M.restart() core.cluster_restart() end

--- df.cluster.stop(): the workers end; this process goes on alone.
function M.stop() core.cluster_stop() end

local STATES = { 'starting', 'alive', 'hung', 'dead' }           -- df_rank_state

--- df.cluster.ranks(): {{rank =, host =, pid =, state =, why =, sent =, received =, latency =, waits =}, …}; {} where
-- there is no cluster.
-- sent and received: messages and bytes from and to this process; latency: seconds that a message takes to it, measured
-- now waits: {rank =, seconds =, what =}: of the values of other ranks that runs wait for there, the one waited for
-- longest
function M.ranks()
  local list = {}
  for i, r in ipairs(core.cluster_ranks()) do
    list[i] = {
      rank = r.rank, host = r.host, pid = r.pid, state = STATES[r.state + 1], why = r.why ~= '' and r.why or nil,
      sent = { messages = r.messages_out, bytes = r.bytes_out },
      received = { messages = r.messages_in, bytes = r.bytes_in },
      latency = r.latency > 0 and r.latency or nil,
      waits = r.waits_what ~= '' and { rank = r.waits_for, seconds = r.waits_seconds, what = r.waits_what } or nil,
    }
  end
  return list
end

--- df.cluster.jobs{ps = {3}, worker = {0, 1, 2}}: which rank `/job:ps/task:0` is; nil: task k of any job is rank k
-- again.
function M.jobs(jobs)
  if jobs ~= nil and type(jobs) ~= 'table' then
    errors.bad("cluster.jobs takes a table such as {ps = {3}, worker = {0, 1, 2}}, not %s", errors.describe(jobs))
  end
  local names, parts = {}, {}
  for name, ranks in pairs(jobs or {}) do
    if type(name) ~= 'string' or not name:find '^[%a_][%w_]*$' then
      errors.bad('cluster.jobs: the name of a job is a word, not %s', errors.describe(name))
    end
    if type(ranks) ~= 'table' then
      errors.bad('cluster.jobs: job %s is a list of ranks, not %s', name, errors.describe(ranks))
    end
    for i, rank in ipairs(ranks) do
      if not whole(rank, 0) then
        errors.bad('cluster.jobs: task %d of job %s is a rank, not %s', i - 1, name, errors.describe(rank))
      end
    end
    names[#names + 1] = name
  end
  table.sort(names)
  for _, name in ipairs(names) do parts[#parts + 1] = name .. '=' .. table.concat(jobs[name], ',') end
  core.cluster_jobs(table.concat(parts, ';'))
  devices.jobs = {}
  for _, name in ipairs(names) do devices.jobs[name:lower()] = true end
end

--- df.cluster.timeout(seconds): a rank that gives no sign for so long is hung.
function M.timeout(seconds)
  if type(seconds) ~= 'number' or not (seconds > 0) then
    errors.bad('cluster.timeout takes seconds, not %s', errors.describe(seconds))
  end
  core.cluster_timeout(seconds)
end

local fields = { size = core.cluster_size, rank = core.cluster_rank, spmd = core.cluster_is_spmd }

return setmetatable(M, {
  __index = function(_, key)
    if fields[key] then return fields[key]() end
  end,
  -- df.cluster.spmd = true, before the first run: every rank runs the program.
  __newindex = function(_, key, value)
    if key ~= 'spmd' then errors.bad("cluster: there is no '%s' to set; df.cluster.spmd is", tostring(key)) end
    if value == core.cluster_is_spmd() then return end
    if value ~= true then errors.bad('cluster.spmd is true or stays as it is, not %s', errors.describe(value)) end
    core.cluster_spmd()
  end,
})
