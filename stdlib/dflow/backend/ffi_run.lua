--- Sessions and runs under LuaJIT: see dflow.ffi.
local ffi = require 'ffi'
local element = require 'dflow.backend.ffi_element'
local callback = require 'dflow.backend.ffi_callback'
local unpack = unpack
local new, str, gc = ffi.new, ffi.string, ffi.gc
local put, take, holds, VARIANT = element.put, element.take, element.holds, element.VARIANT

--- Adds them to the core table. Buffers are made once and reused: a run makes no garbage but its results.
-- @param own  what dflow.ffi keeps to itself; gains value_of
return function(core, C, own)
  local err, raise, fail, open, charge, wrap = own.err, own.raise, own.fail, own.open, own.charge, own.wrap
  local SCALAR, TENSOR, release_tensor = own.SCALAR, own.TENSOR, C.df_tensor_release
  local one_value = new('df_value[1]')

  -- A box is {p = pointer}. The pointer has the finalizer, so that nothing which the finalizer's table keeps leads back
  -- to it.
  function core.session_new(g, options)
    local s = C.df_session_new(g, options, err)
    if s == nil then raise() end
    charge(65536)
    return { p = gc(s, C.df_session_release), release = C.df_session_release }
  end

  function core.close(box)
    local p = type(box) == 'table' and box.p
    if not p then return end
    box.p = nil
    box.release(gc(p, nil))
  end

  function core.session_reset(s) C.df_session_reset(open(s, 'session')) end
  function core.session_told_growth(s) C.df_session_told_growth(open(s, 'session')) end

  local room = 16
  local fetch_buffer, feed_buffer = new('int32_t[?]', 2 * room), new('int32_t[?]', 2 * room)
  local values, results = new('df_value[?]', room), new('df_value[?]', room)

  local function grow(n)
    while room < n do room = room * 2 end
    fetch_buffer, feed_buffer = new('int32_t[?]', 2 * room), new('int32_t[?]', 2 * room)
    values, results = new('df_value[?]', room), new('df_value[?]', room)
  end

  -- ---- functions that are ops ----------------------------------------------------------------------------
  local host, host_number, host_callback, host_end

  --- Answers a call: host(id, values, n) gives a list of Tensors, or nil, a code and what went wrong. It may run
  -- things, so the buffers of the run that stands behind it are set aside.
  local function on_host(_, id, nin, inputs, nout, out, e)
    local saved = { fetch_buffer, feed_buffer, values, results, room }
    grow(room)
    local list = {}
    for i = 1, nin do list[i] = own.value_of(inputs[i - 1]) inputs[i - 1].kind = 0 end
    local ok, given, code, message = pcall(host, tonumber(id), list, nin)
    fetch_buffer, feed_buffer, values, results, room = unpack(saved)
    if not ok then given, code, message = nil, 13, tostring(given) end
    if not given then
      e.code = code or 3
      e.message = tostring(message):sub(1, ffi.sizeof(e.message) - 1)
      return e.code
    end
    for i = 1, nout do out[i - 1] = C.df_tensor_retain(given[i].handle) end
    return 0
  end
  jit.off(on_host, true)

  function core.host(fn)
    host = fn
    if not host_number then
      host_callback = callback('df_host_fn', on_host)
      host_number = C.df_host_open(host_callback, nil)
      host_end = gc(new('int32_t[1]', host_number), function(n) C.df_host_close(n[0]) end)
      for _, name in ipairs { 'session_run', 'session_run_one', 'run_wait', 'run_done', 'run_settle' } do
        jit.off(core[name])
      end
      jit.flush()               -- a callback must not happen inside compiled code
    end
    return host_number, host_end
  end

  --- Fills the buffers from (fetches, feeds); returns their counts.
  local function take_request(fetches, feeds)
    local nfetch, nfeed = #fetches / 2, feeds and #feeds / 4 or 0
    if nfetch > room or nfeed > room then grow(nfetch > nfeed and nfetch or nfeed) end
    local buffer = fetch_buffer
    for i = 0, 2 * nfetch - 1 do buffer[i] = fetches[i + 1] end
    buffer = feed_buffer
    for i = 0, nfeed - 1 do
      local at = 4 * i
      buffer[2 * i], buffer[2 * i + 1] = feeds[at + 1], feeds[at + 2]
      local dtype, x, v = feeds[at + 3], feeds[at + 4], values[i]
      if type(x) == 'table' then
        v.kind, v.dtype, v.as.tensor = TENSOR, C.df_tensor_dtype(x.handle), x.handle
      elseif put[dtype] and holds(dtype, x) then
        v.kind, v.dtype = SCALAR, dtype
        put[dtype](v, x)
      else
        fail('invalid_argument', ('the fed value %s cannot be held by dtype %s')
          :format(tostring(x), str(C.df_dtype_name(dtype))))
      end
    end
    return nfetch, nfeed
  end

  --- A result as a Lua value; consumes what v holds.
  local function value_of(v)
    local kind = v.kind
    if kind == SCALAR then return take[v.dtype](v) end
    if kind ~= TENSOR then
      C.df_value_release(v)
      return true
    end
    local t = v.as.tensor
    v.kind = 0
    if C.df_tensor_rank(t) > 0 or C.df_tensor_dtype(t) == VARIANT then return wrap(t) end
    local x = element.get(C, t, C.df_tensor_dtype(t), 0)
    release_tensor(t)
    return x
  end

  --- The same, but rank 0 stays a tensor.
  local function tensor_of(v)
    if v.kind ~= SCALAR and v.kind ~= TENSOR then return value_of(v) end
    local t = v.as.tensor
    if v.kind == SCALAR then
      t = C.df_tensor_new(v.dtype, 0, nil, err)
      if t == nil then raise() end
      ffi.copy(C.df_tensor_data(t), v.as, C.df_dtype_bytes(v.dtype))
    end
    v.kind = 0
    return wrap(t)
  end

  local function give_results(n, from, tensors)
    local give = tensors and tensor_of or value_of
    if n == 1 then return give(from[0]) end
    local list = {}
    for i = 1, n do list[i] = give(from[i - 1]) end
    return list
  end

  function core.session_run(s, fetches, feeds, timeout, tensors)
    local p = s.p or open(s, 'session')
    local nfetch, nfeed = take_request(fetches, feeds)
    if C.df_session_run_guarded(p, nfetch, fetch_buffer, nfeed, feed_buffer, values, timeout or 0, results,
                                err) ~= 0 then
      raise()
    end
    return give_results(nfetch, results, tensors)
  end

  function core.session_run_one(s, node, index, feed_node, feed_index, dtype, x)
    local p = s.p or open(s, 'session')
    local nfeed = 0
    fetch_buffer[0], fetch_buffer[1] = node, index
    if feed_node then
      local v = values[0]
      if not holds(dtype, x) then
        fail('invalid_argument', ('the fed value %s cannot be held by dtype %s')
          :format(tostring(x), str(C.df_dtype_name(dtype))))
      end
      feed_buffer[0], feed_buffer[1], nfeed = feed_node, feed_index, 1
      v.kind, v.dtype = SCALAR, dtype
      put[dtype](v, x)
    end
    if C.df_session_run_guarded(p, 1, fetch_buffer, nfeed, feed_buffer, values, 0, results, err) ~= 0 then raise() end
    return value_of(results[0])
  end

  function core.session_start(s, fetches, feeds, timeout, options)
    local p = open(s, 'session')
    local nfetch, nfeed = take_request(fetches, feeds)
    local r = C.df_session_start(p, nfetch, fetch_buffer, nfeed, feed_buffer, values, timeout or 0, options, err)
    if r == nil then raise() end
    return { p = gc(r, C.df_run_release), release = C.df_run_release, session = s }
  end

  function core.run_wait(r, nfetch, tensors)
    local own = new('df_value[?]', nfetch + 1)
    if C.df_run_wait_guarded(open(r, 'run'), own, err) ~= 0 then raise() end
    return give_results(nfetch, own, tensors)
  end

  function core.run_done(r) return C.df_run_done(open(r, 'run')) end
  function core.run_cancel(r) C.df_run_cancel(open(r, 'run')) end

  local stats = new('df_stats')
  local function stats_table()
    return { runs = tonumber(stats.runs), nodes_run = tonumber(stats.nodes_run),
             dead_tokens = tonumber(stats.dead_tokens),
             frames = tonumber(stats.frames), iterations = tonumber(stats.iterations),
             stack_pushes = tonumber(stats.stack_pushes), stack_pops = tonumber(stats.stack_pops) }
  end

  function core.session_stats(s)
    C.df_session_stats(open(s, 'session'), stats)
    return stats_table()
  end

  function core.run_stats(r)
    C.df_run_stats(open(r, 'run'), stats)
    return stats_table()
  end

  --- Lines of text whose length is not known before: fill(room, buffer) gives the length.
  local function text_of(fill)
    local room = 800
    while true do
      local buffer = new('char[?]', room + 1)
      local n = fill(room + 1, buffer)
      if n < 0 then raise() end
      if n <= room then return str(buffer, n) end
      room = n + math.floor(n / 2)   -- it may grow meanwhile
    end
  end

  own.text_of = text_of

  function core.session_devices(s)
    local p = open(s, 'session')
    return text_of(function(room, out) return C.df_session_devices(p, room, out) end)
  end
  function core.device_names() return text_of(function(room, out) return C.df_device_names(room, out) end) end
  function core.session_report(s)
    local p = open(s, 'session')
    return text_of(function(room, out) return C.df_session_report(p, room, out) end)
  end
  function core.run_report(r)
    local p = open(r, 'run')
    return text_of(function(room, out) return C.df_run_report(p, room, out) end)
  end
  function core.run_whatif(r, options)
    local p = open(r, 'run')
    return text_of(function(room, out) return C.df_run_whatif(p, options, room, out, err) end)
  end
  function core.session_placement(s, fetches)
    local p, list = open(s, 'session'), own.pairs_of(fetches)
    return text_of(function(room, out) return C.df_session_placement(p, #fetches / 2, list, room, out, err) end)
  end
  function core.session_native(s, what, loop)
    local p = open(s, 'session')
    return text_of(function(room, out) return C.df_session_native(p, what, loop, room, out) end)
  end

  function core.session_plans(s) return C.df_session_plans(open(s, 'session')) end

  function core.session_variable(s, node, tensor)
    if C.df_session_variable(open(s, 'session'), node, one_value, err) ~= 0 then raise() end
    return (tensor and tensor_of or value_of)(one_value[0])
  end

  function core.session_set_variable(s, node, object)
    local v = one_value[0]
    v.kind, v.dtype, v.as.tensor = TENSOR, C.df_tensor_dtype(object.handle), object.handle
    local code = C.df_session_set_variable(open(s, 'session'), node, one_value, err)
    v.kind = 0
    if code ~= 0 then raise() end
  end

  function core.session_position(s)
    local n = C.df_session_position(open(s, 'session'), 0, nil, nil)
    local nodes, times, out = new('int32_t[?]', n), new('int64_t[?]', n), {}
    n = math.min(n, C.df_session_position(s.p, n, nodes, times))
    for i = 0, n - 1 do out[nodes[i]] = tonumber(times[i]) end
    return out
  end

  function core.session_seek(s, position)
    local n, i = 0, 0
    for _ in pairs(position) do n = n + 1 end
    local nodes, times = new('int32_t[?]', n), new('int64_t[?]', n)
    for node, t in pairs(position) do nodes[i], times[i], i = node, t, i + 1 end
    if C.df_session_seek(open(s, 'session'), n, nodes, times, err) ~= 0 then raise() end
  end

  own.value_of = value_of
end
