--- Looking at a run, over FFI: what interp/binding_watch.c is to Lua 5.4. See dflow.ffi.
local ffi = require 'ffi'

--- Adds it to the core table.
-- @param own  what dflow.ffi keeps to itself: open, raise, value_of, err
return function(core, C, own)
  local open, raise, value_of, err = own.open, own.raise, own.value_of, own.err
  local new, str = ffi.new, ffi.string
  local stop = new('df_stop')

  local function run(r) return open(r, 'run') end
  local function number(v) return tonumber(v) end
  local function text(p) return p == nil and '' or str(p) end

  local function stop_table(state)
    return state, { reason = stop.reason, breakpoint = stop.breakpoint, node = stop.node, frame = stop.frame,
                    iteration = number(stop.iteration), dead = stop.dead }
  end

  function core.run_pause(r) return stop_table(C.df_run_pause(run(r), stop)) end
  function core.run_resume(r, step, n) C.df_run_resume(run(r), step or 0, n or 1) end
  function core.run_patience(r, seconds) C.df_run_patience(run(r), seconds) end
  function core.run_at(r) return C.df_run_at(run(r)) end
  function core.run_settle(r, seconds) return stop_table(C.df_run_settle(run(r), seconds, stop)) end

  function core.run_break(r, nodes, frame, iteration, conditions)
    local n, list = -1, nil
    if nodes then
      n = #nodes
      list = new('int32_t[?]', n + 1)
      for i = 1, n do list[i - 1] = nodes[i] end
    end
    local id = C.df_run_break(run(r), n, list, frame, iteration or -1, conditions or 0, err)
    if id == 0 then raise() end
    return id
  end

  function core.run_remains(r) return tonumber(C.df_run_remains(run(r))) end
  function core.run_forget(r) C.df_run_forget(run(r)) end
  function core.run_unbreak(r, id) return C.df_run_unbreak(run(r), id or 0) end

  local function token(t)
    return { node = t.node, frame = t.frame, iteration = number(t.iteration), state = t.state, missing = t.missing,
             dead = t.dead }
  end

  local function list_of(n, at, make)
    local list = {}
    for i = 1, n do list[i] = make(at[i - 1]) end
    return list
  end

  local function snapshot(s)
    if s == nil then raise() end
    return ffi.gc(s, C.df_snapshot_release)
  end
  function core.run_look(r) return snapshot(C.df_run_look(run(r), err)) end
  function core.run_frames(r, frame) return snapshot(C.df_run_frames(run(r), frame or -1, err)) end

  function core.snapshot_frames(s) return s.nframes end
  function core.snapshot_frame(s, i, into)
    local f = s.frame[i - 1]
    into.id, into.parent_iteration, into.first, into.next, into.limit = f.id, number(f.parent_iteration),
      number(f.first), number(f.next), number(f.limit)
    into.around, into.inside, into.ninside, into.enters_missing = f.around + 1, f.inside + 1, f.ninside,
      f.enters_missing
    into.live, into.dead, into.running, into.partial, into.deferred = f.live, f.dead, f.running, f.partial, f.deferred
    into.name, into.where = text(f.name), text(f.where)
  end
  function core.snapshot_place(s, id)
    for i = 0, s.nframes - 1 do if s.frame[i].id == id then return i + 1 end end
  end
  local sum = new('df_frame_info')
  function core.snapshot_sum(s, first, n)
    local frames = C.df_snapshot_sum(s, first - 1, n, sum)
    return { frames = frames, in_flight = number(sum.next), live = sum.live, dead = sum.dead, running = sum.running,
             partial = sum.partial, deferred = sum.deferred }
  end
  function core.snapshot_iterations(s, i)
    local f = s.frame[i - 1]
    local n = number(f.next - f.first)
    return list_of(f.iterations + n <= s.niterations and n or 0, s.iteration + f.iterations, function(t)
      return { number = number(t.number), ready = t.ready, dead = t.dead, running = t.running, partial = t.partial,
               outstanding = t.outstanding }
    end)
  end
  function core.snapshot_tokens(s, node)
    local list = {}
    for i = 0, s.ntokens - 1 do
      if node == nil or s.token[i].node == node then list[#list + 1] = token(s.token[i]) end
    end
    return list
  end
  function core.snapshot_arrays(s)
    return list_of(s.narrays, s.array, function(a)
      return { node = a.node, frame = a.frame, iteration = number(a.iteration), size = number(a.size),
               written = number(a.written), bytes = number(a.bytes), dtype = a.dtype, saved = a.saved,
               name = str(a.name), where = text(a.where) }
    end)
  end

  local ledger = new('df_ledger')
  function core.run_ledger(r)
    if C.df_run_ledger(run(r), ledger, err) ~= 0 then raise() end
    local d = ledger
    return { sent = number(d.sent), ran = number(d.ran), died = number(d.died), live = number(d.live),
             dead = number(d.dead), running = number(d.running), merged = number(d.merged), ended = number(d.ended),
             pending = number(d.pending), owed = number(d.owed), lost = number(d.lost), frames = number(d.open_frames),
             iterations = number(d.open_iterations), nodes_run = number(d.nodes_run),
             dead_tokens = number(d.dead_tokens) }
  end

  function core.run_history(r, n)
    n = math.max(0, math.min(n, 2^20))
    local t = new('df_token_info[?]', n + 1)
    return list_of(C.df_run_history(run(r), n, t), t, token)
  end

  function core.run_value(r, node, index, frame, iteration)
    local v = new('df_value')
    if C.df_run_value(run(r), node, index, frame, iteration, v, err) ~= 0 then raise() end
    if v.dead ~= 0 then return nil, true end
    return value_of(v)
  end

  function core.run_waits_for(r, node, frame, iteration)
    local state, pairs_ = new('int32_t[1]'), new('int32_t[128]')
    local n = C.df_run_waits_for(run(r), node, frame, iteration, state, 64, pairs_, err)
    if n < 0 then raise() end
    local list = {}
    for i = 1, 2 * math.min(n, 64) do list[i] = pairs_[i - 1] end
    return state[0], list
  end

  function core.run_events(r, first, n)
    n = math.max(0, math.min(n, 65536))
    local e = new('df_event[?]', n + 1)
    local found = math.min(n, number(C.df_run_events(run(r), first, n, e)))
    local list = {}
    for i = 0, found - 1 do
      local at, v = i * 10, e[i]
      list[at + 1], list[at + 2], list[at + 3], list[at + 4] = number(v.at), number(v.took), number(v.iteration),
        number(v.memory)
      list[at + 5], list[at + 6], list[at + 7], list[at + 8], list[at + 9], list[at + 10] = v.node, v.frame, v.scope,
        v.kind, v.dead, v.device
    end
    return list
  end

  function core.run_events_lost(r) return number(C.df_run_events_lost(run(r))) end

  local where = new('const char *[1]')
  function core.run_scope(r, i)
    local name = C.df_run_scope(run(r), i, where)
    if name == nil then return nil end
    return str(name), text(where[0])
  end
end
