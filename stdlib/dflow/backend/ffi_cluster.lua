--- The functions of interp/binding_cluster.c once more, over FFI: see dflow.ffi.

--- Adds them to the core table.
-- @param own  what dflow.ffi keeps to itself: raise, err, text_of
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
  function core.cluster_timeout(seconds) C.df_cluster_timeout(seconds) end
  function core.cluster_report() return own.text_of(function(room, out) return C.df_cluster_report(room, out) end) end
end
