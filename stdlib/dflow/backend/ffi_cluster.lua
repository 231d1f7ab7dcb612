--- The functions of interp/binding_cluster.c once more, over FFI: see dflow.ffi.
local ffi = require 'ffi'
local new, str = ffi.new, ffi.string

--- Adds them to the core table.
-- @param own  what dflow.ffi keeps to itself: raise, err
return function(core, C, own)
  local raise, err = own.raise, own.err

  function core.cluster_start(n, program)
    if C.df_cluster_start(n, program, err) ~= 0 then raise() end
  end

  function core.cluster_hosts(text, program)
    if C.df_cluster_hosts(text, program, err) ~= 0 then raise() end
  end

  function core.cluster_restart()
    if C.df_cluster_restart(err) ~= 0 then raise() end
  end

  function core.cluster_jobs(text)
    if C.df_cluster_jobs(text, err) ~= 0 then raise() end
  end

  function core.cluster_stop() C.df_cluster_stop(0) end
  function core.cluster_spmd()
    if C.df_cluster_spmd(err) ~= 0 then raise() end
  end

  function core.cluster_is_spmd() return C.df_cluster_is_spmd() end
  function core.cluster_size() return C.df_cluster_size() end
  function core.cluster_rank() return C.df_cluster_rank() end
  function core.cluster_most() return C.df_cluster_most() end
  function core.cluster_timeout(seconds) C.df_cluster_timeout(seconds) end
  function core.cluster_ranks()
    local room, list = C.df_cluster_size(), {}
    local info = new('df_rank_info[?]', room)
    for i = 0, math.min(C.df_cluster_ranks(room, info), room) - 1 do
      local r = info[i]
      list[i + 1] = {
        rank = r.rank, state = r.state, pid = tonumber(r.pid), host = str(r.host), why = str(r.why),
        latency = r.latency, messages_out = tonumber(r.messages_out), bytes_out = tonumber(r.bytes_out),
        messages_in = tonumber(r.messages_in), bytes_in = tonumber(r.bytes_in),
        waits_for = r.waits_for, waits_seconds = r.waits_seconds, waits_what = str(r.waits_what),
      }
    end
    return list
  end
end
