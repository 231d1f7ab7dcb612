--- Session: runs what is fetched, keeps the variables' values. Run: one run in the background.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local protect = require 'dflow.front.protect'
local tensor = require 'dflow.front.tensor'
local graph = require 'dflow.front.graph'
local nest = require 'dflow.front.nest'
local listing = require 'dflow.front.listing'
local intern = require 'dflow.front.intern'
local convert = require 'dflow.front.convert'
local gradients = require 'dflow.front.gradients'
local tensor_array = require 'dflow.front.tensor_array'
local devices = require 'dflow.front.devices'
local numerics = require 'dflow.front.numerics'
local variable = require 'dflow.front.variable'
local Variable, variable_read = variable.Variable, variable.as_output

local M = {}
local Output, Operation, Tensor, Graph = graph.Output, graph.Operation, tensor.Tensor, graph.Graph
local Session, Run = { __name = 'dflow.Session' }, { __name = 'dflow.Run' }
M.Session, M.Run = Session, Run
local methods, run_methods = {}, {}
Session.__index, Run.__index = methods, run_methods

local getmetatable, setmetatable, type, next, pairs = getmetatable, setmetatable, type, next, pairs

-- ---- Ctrl-C ---------------------------------------------------------------------------------------------------------
local program = package.preload['dflow.program'] and require 'dflow.program'

--- A call of the library that Ctrl-C ends. The program stops Lua code a while after Ctrl-C, so that a call in progress
--- may say what it was at; a call that begins in that while does not know of it, and is not to begin.
local function interruptible(call)
  if not program then return call end
  return function(...)
    program.heed()
    return call(...)
  end
end

--- A call ended by this error.
local function ended_by(err)
  if program and type(err) == 'table' and err.code == 'cancelled' then program.heard() end
end

local session_run, session_start, run_wait = interruptible(core.session_run), interruptible(core.session_start),
  interruptible(core.run_wait)

-- ---- fetches --------------------------------------------------------------------------------------------------------
local function is_fetch_table(v) return nest.is_plain(v) end

--- Appends what a leaf needs to the flat list and returns how it is put together again: a place, or false, or a
-- function.
local function add_fetch(s, x, flat)
  local g = s.graph
  if type(x) == 'string' then      -- a name, as TensorFlow's users write it
    x = x:find(':%d+$') and g:output(x) or g:op((x:gsub('^%^', '')))
  end
  local mt = getmetatable(x)
  if mt == Variable then
    x = variable_read(x)
    mt = Output
  end
  if x == false then return false end
  if mt == Output then
    if x.graph ~= g then errors.bad('fetch: %s belongs to another graph than the session', x.name) end
    local has_value = graph.dtype(x) ~= dtypes.RESOURCE     -- a handle has none: it comes back as its operation does
    flat[#flat + 1], flat[#flat + 2] = x, has_value and x.index or -1
    return #flat / 2
  elseif mt == Operation then
    if x.graph ~= g then
      errors.bad('fetch: the operation %s belongs to another graph than the session', x.name)
    end
    flat[#flat + 1], flat[#flat + 2] = x, -1
    return #flat / 2
  elseif mt == gradients.IndexedSlices then
    local values, indices = add_fetch(s, x.values, flat), add_fetch(s, x.indices, flat)
    local shape = x.dense_shape and add_fetch(s, x.dense_shape, flat)
    local dense = shape and add_fetch(s, gradients.IndexedSlices.as_output(x), flat)
    return function(results)      -- the dense Tensor, which has the slices as fields
      local t = dense and results[dense] or {}
      rawset(t, 'values', results[values])
      rawset(t, 'indices', results[indices])
      rawset(t, 'dense_shape', shape and results[shape])
      return t
    end
  elseif nest.is_composite(x) then
    local parts = {}
    for k, part in pairs(x) do parts[k] = add_fetch(s, part, flat) end
    return parts
  elseif mt == tensor_array.TensorArray then
    errors.bad('fetch: %s cannot leave a run; fetch ta:stack(), ta:concat() or ta:read(i)', tostring(x))
  end
  errors.bad('fetch: %s cannot be fetched; expected an Output, an operation, a Variable or a table of these',
             errors.describe(x))
end

-- ---- feeds ----------------------------------------------------------------------------------------------------------
--- Value v as the placeholder o takes it: a number or boolean as it is, everything else a Tensor.
local function feed_value(o, v)
  local d = graph.dtype(o)
  local kind = type(v)
  if (kind == 'number' or kind == 'boolean' or kind == 'cdata') and not dtypes.is_boxed(d) then return v end
  local mt = getmetatable(v)
  if mt == Tensor then
    local own = core.tensor_info(v)
    if own ~= d then
      errors.bad("feed: a Tensor of %s was fed for %s, which is %s%s", dtypes.name[own], o.name,
                 dtypes.name[d], dtypes.advised(own, d))
    end
    return v
  end
  if mt == Output or (mt and kind == 'table' and not errors.is_data(v)) then
    errors.bad('feed: %s was fed for %s; a number, a table or a Tensor is expected', errors.describe(v), o.name)
  end
  return tensor.from(v, d, nil, o.name)
end

local function feed_key(s, k)
  local mt = getmetatable(k)
  if mt == Output then
    if k.graph ~= s.graph then errors.bad('feed: %s belongs to another graph than the session', k.name) end
    return k
  end
  if type(k) == 'string' then return s.graph:output(k) end
  if type(mt) == 'table' and rawget(mt, '__name') == 'dflow.Variable' then
    errors.bad('feed: a variable has its value from the session, and is not fed: %s:load(x) sets it, and a '
               .. 'placeholder is what is fed', k.name)
  end
  errors.bad('feed: the keys of the feeds are Outputs, this is %s: write {[x] = value}, x being the placeholder',
             errors.describe(k))
end

local function check_fed(o, v)
  local d = graph.dtype(o)
  if type(v) == 'number' and dtypes.is_whole_only(d) then
    errors.bad('feed: the number %s for %s cannot be held by dtype %s', tostring(v), o.name, dtypes.name[d])
  end
  errors.bad('feed: %s for %s is no value of dtype %s', errors.describe(v), o.name, dtypes.name[d])
end

--- Feeds in which what stands for several Outputs (a SparseTensor) is those: fn of its metatable takes its value apart.
local function spread_feeds(feeds)
  local out = {}
  for k, v in pairs(feeds) do
    if nest.is_composite(k) then getmetatable(k).feed(k, v, out) else out[k] = v end
  end
  return out
end

local feed_buffer = {}     -- reused by every run: {node, index, dtype, value, ...}
local feed_count = 0

local function take_feeds(s, feeds)
  local buffer, n = feed_buffer, 0
  if feeds ~= nil then
    if not errors.is_data(feeds) then
      errors.bad('run: feeds is a table {[x] = value}, not %s', errors.describe(feeds))
    end
    for k, v in pairs(feeds) do
      local o = k
      if getmetatable(k) ~= Output or k.graph ~= s.graph then
        if nest.is_composite(k) then return take_feeds(s, spread_feeds(feeds)) end
        o = feed_key(s, k)
      end
      local d = rawget(o, 'd') or graph.dtype(o)
      if type(v) ~= 'number' or dtypes.is_boxed(d) then v = feed_value(o, v) end
      if type(v) == 'number' and d ~= 1 and d ~= 2 and (not dtypes.is_whole_only(d) or not dtypes.is_whole(v)) then
        check_fed(o, v)
      end
      if type(v) == 'boolean' and d ~= 10 then check_fed(o, v) end
      buffer[n + 1], buffer[n + 2], buffer[n + 3], buffer[n + 4] = o.node, o.index, d, v
      n = n + 4
    end
  end
  for i = n + 1, feed_count do buffer[i] = nil end
  feed_count = n
  return buffer
end

--- Values are not to outlive the run in the buffer.
local function drop_feeds()
  for i = 4, feed_count, 4 do
    if type(feed_buffer[i]) == 'table' then feed_buffer[i] = false end
  end
end

local run_options = { 'timeout', 'trace', 'report', 'paused', 'values', 'log', 'tensors', 'record', 'remains',
                      'check_numerics', 'finally', 'at_once', 'primitives' }
local switches = { 'tensors', 'paused', 'values', 'record', 'remains', 'at_once', 'primitives' }
local function timeout_of(opts)
  if opts == nil then return 0 end
  if not errors.is_data(opts) then
    errors.bad('run: the options are a table such as {timeout = 1}, not %s; what is fetched together is one list: '
               .. 'df.run{x, y}', errors.describe(opts))
  end
  if opts[1] ~= nil then
    errors.bad('run: the options are a table such as {timeout = 1}, not a list; what is fed is one table, the second '
               .. 'argument: {[x] = value}')
  end
  errors.options(opts, 'run', run_options)
  for i = 1, #switches do errors.flag(opts[switches[i]], 'run', switches[i]) end
  numerics.check(opts.check_numerics)
  for _, key in ipairs{ 'trace', 'report' } do
    if opts[key] ~= nil and type(opts[key]) ~= 'string' then
      errors.bad('run: %s is the path of a file to write, not %s', key, errors.describe(opts[key]))
    end
  end
  local log = opts.log
  if log ~= nil and type(log) ~= 'boolean' and (type(log) ~= 'number' or log < 1 or log % 1 ~= 0) then
    errors.bad('run: log is true, or how many events it may hold, not %s', errors.describe(log))
  end
  local t = opts.timeout
  if t == nil then return 0 end
  if type(t) ~= 'number' or t ~= t or t <= 0 then
    errors.bad('run: timeout is a positive number of seconds, not %s', errors.describe(t))
  end
  return t
end

--- A plan (places, functions and false, in tables) with the results in it.
local function filled(plan, results)
  if type(plan) == 'number' then return results[plan] end
  if type(plan) ~= 'table' then return plan and plan(results) end
  local out = {}
  for k, part in pairs(plan) do out[k] = filled(part, results) end
  return listing.of(out)
end

--- Raises when a list of fetches has a hole where the user's line reads a name that is nil: a misspelt one. (Of one at
-- the end Lua keeps nothing; `dflow --check` and the prompt find it in the text.)
local function check_hole(fetches)
  local highest, n = 0, 0
  for k in pairs(fetches) do
    if type(k) ~= 'number' then return end
    highest, n = k > highest and k or highest, n + 1
  end
  if highest == n then return end
  local names = require('dflow.front.quote').nil_names()
  for i = 1, #names > 0 and highest or 0 do
    if fetches[i] == nil then
      errors.bad("run: entry %d of the list of what is to be fetched is nil", i)
    end
  end
end

--- Flattens any fetch; returns the flat list {node, index, …} and a function that puts the results together.
local function prepare(s, fetches, feeds)
  local flat = {}
  if nest.is_plain(fetches) then
    check_hole(fetches)
    local plan = nest.map(fetches, is_fetch_table, function(x) return add_fetch(s, x, flat) end)
    local n = #flat / 2
    return intern.settle(flat, feeds), function(results) return filled(plan, n == 1 and { results } or results) end
  end
  local at = add_fetch(s, fetches, flat)
  local n = #flat / 2
  return intern.settle(flat, feeds), function(results)
    if at and type(at) ~= 'number' then return filled(at, n == 1 and { results } or results) end
    return results
  end
end

--- What a run gave, or its error with the names of Lua's variables.
local function given(g, ok, ...)
  if ok then return ... end
  ended_by((...))
  error(require('dflow.front.naming').explain((...), g), 0)
end

local session_run_one = interruptible(core.session_run_one)
local function run_one(g, ...) return given(g, pcall(session_run_one, ...)) end
local watch         -- nil, or a function that is told of each run: session, feeds
function M.watch(fn) watch = fn end

-- nil, or {make = function, slow = bool}: what is to be made beside the next run, once (a pipeline's elements)
local beside
function M.beside(work) beside = work end

--- s:run by a handle of its own, with `work()` meanwhile: a wait that ends early ends the run.
local function run_started(s, fetches, feeds, opts, work)
  local h = methods.start(s, fetches, feeds, opts)
  local ok, result = pcall(function()
    if work then work() end
    return h:wait()
  end)
  if ok then return result end
  if not h.over then
    h:cancel()
    pcall(h.wait, h)
  end
  error(result, 0)
end

--- s:run(…), and `work` at the same time where that pays.
local function run_with(work, s, fetches, feeds, opts)
  if not work.slow then
    local result = methods.run(s, fetches, feeds, opts)
    work.make()
    return result
  end
  local with = { at_once = true }
  for key, v in pairs(opts or {}) do with[key] = v end
  return run_started(s, fetches, feeds, with, work.make)
end

--- The flat list and the keys of a table of Outputs that is one level deep; nil when it is anything else.
local function flat_table(s, fetches, feeds)
  local flat, keys, n, g = {}, {}, 0, s.graph
  for k, x in pairs(fetches) do
    if getmetatable(x) ~= Output or x.graph ~= g or graph.dtype(x) == 20 then return nil end
    n = n + 1
    flat[2 * n - 1], flat[2 * n], keys[n] = x, x.index, k
  end
  return n > 0 and intern.settle(flat, feeds) or nil, keys, n
end

--- Set by the prompt: `foreground(s, fetches, feeds, opts)` runs in place of s:run, so that Ctrl-C can pause the run
-- and look at it; `started(handle)` hears of every run in the background.
-- `attend(handle)` is called before one is waited for.
-- `remains`: runs in the background can be looked at when they are over, unless they say otherwise.
-- `shown`: options that every run has besides its own, while runs are shown elsewhere; `held`: those that a paused one
-- has.
M.foreground, M.started, M.attend, M.remains, M.shown, M.held = nil, nil, nil, nil, nil, nil
M.primitives = true             -- runs of which a page is drawn fire every node, unless they say otherwise

--- Runs what an imported model says is to run before all else (a SavedModel's initializer, which fills its tables),
-- once in a session.
local function begin(s)
  for i, start in ipairs(s.graph.starts) do
    if i > (s.begun or 0) then
      local before = s.begun
      s.begun = i                                        -- what follows is a run itself
      local ok, err = pcall(M.run_now, s, start.op, start.feeds)
      if not ok then
        s.begun = before
        if type(err) == 'table' and err.message then
          err.message = errors.shown(("the model's initializer '%s': %s"):format(start.op.name, err.message))
        end
        error(err, 0)
      end
    end
  end
end

--- s:run(fetches, feeds?, opts?): the value of an Output, true for an operation, or a table of these.
--- opts.check_numerics ends it at the first op that makes a NaN. `here`, for M.run_now: on this thread, whatever
-- M.foreground is.
local function run(s, fetches, feeds, opts, here)
  if getmetatable(s) ~= Session then
    errors.bad('run is a method of a session: write s:run(y, feeds), with a colon; its first argument is %s',
               errors.describe(s))
  end
  if opts ~= nil then timeout_of(opts) end
  s.graph.period = (s.graph.period or 0) + 1          -- what is built from now on may be what was built before
  if s.graph.period % 64 == 0 then intern.note_growth(s.graph, s.handle) end
  if s.graph.starts and s.begun ~= #s.graph.starts then begin(s) end
  if opts and opts.check_numerics then return run_started(s, fetches, feeds, opts) end
  local foreground = M.foreground
  if foreground and fetches ~= nil and not here then return foreground(s, fetches, feeds, opts) end
  if opts and (opts.trace or opts.report or opts.finally or opts.paused or opts.primitives) then
    return run_started(s, fetches, feeds, opts)
  end
  if beside then
    local work = beside
    beside = nil
    return run_with(work, s, fetches, feeds, opts)
  end
  if watch then watch(s, feeds) end
  local tensors = s.tensors
  if opts and opts.tensors ~= nil then tensors = opts.tensors end
  local mt, flat, finish, keys, n = getmetatable(fetches), nil, nil, nil, nil
  if mt == Output and opts == nil and not tensors and fetches.graph == s.graph
    and (rawget(fetches, 'd') or graph.dtype(fetches)) ~= 20 then
    if feeds == nil then
      return run_one(s.graph, s.handle, rawget(fetches, 'node') or intern.alone(fetches), fetches.index)
    end
    local k, v
    if type(feeds) == 'table' then k, v = next(feeds) end
    if type(v) == 'number' and getmetatable(k) == Output and k.graph == s.graph and next(feeds, k) == nil
      and getmetatable(feeds) == nil then
      local d = rawget(k, 'd') or graph.dtype(k)
      if d == 1 or d == 2 or (dtypes.is_whole_only(d) and dtypes.is_whole(v)) then
        return run_one(s.graph, s.handle, rawget(fetches, 'node') or intern.alone(fetches, k), fetches.index, k.node,
                       k.index, d, v)
      end
    end
  end
  if mt == Operation and feeds == nil and opts == nil and fetches.graph == s.graph then
    run_one(s.graph, s.handle, rawget(fetches, 'node') or intern.alone(fetches), -1)
    return true
  end
  if fetches == nil then errors.bad('run: there is nothing to fetch') end
  local timeout = timeout_of(opts)
  if mt == nil and type(fetches) == 'table' then
    if fetches[1] == nil then check_hole(fetches) end
    flat, keys, n = flat_table(s, fetches, feeds)
  end
  if not flat then flat, finish = prepare(s, fetches, feeds) end
  local buffer = take_feeds(s, feeds)
  local ok, result = pcall(session_run, s.handle, flat, buffer, timeout, tensors)
  drop_feeds()
  if not ok then given(s.graph, false, result) end
  if finish then return finish(result) end
  if n == 1 then return listing.of{ [keys[1]] = result } end
  local out = {}
  for i = 1, n do out[keys[i]] = result[i] end
  return listing.of(out)
end

methods.run = run

--- s:run as a call, on this thread.
function M.run_now(s, fetches, feeds, opts) return run(s, fetches, feeds, opts, true) end

--- s:run(x, feeds) in the foreground, watched or not: of what is over at once.
function M.run_here(s, x, feeds)
  local foreground, looked = M.foreground, watch
  M.foreground, watch = nil, nil
  local ok, v = pcall(methods.run, s, x, feeds)
  M.foreground, watch = foreground, looked
  if not ok then error(v, 0) end
  return v
end

--- Why not every node of a run of the session can fire on its own; nil if it can.
function M.why_not_all(s)
  return s.virtual and 'the session has a virtual clock' or core.cluster_size() > 1 and 'the session is of a cluster'
    or #s:devices() > 1 and 'the session has more than one device' or nil
end

--- Does every node of a run fire on its own? By default where it can and a page is drawn of it, which shows Switch and
-- Merge as the graph has them, and where the prompt is to stop at one.
local function fires_all(s, opts)
  local all = opts and opts.primitives
  local default = all == nil and M.primitives
  if default then
    all = opts and (opts.report or (M.shown and M.shown.log)) or (M.breakpoints and M.breakpoints.at_primitives())
  end
  local why_not = all and M.why_not_all(s)
  if why_not and not default then
    errors.bad('start: primitives = true takes one device and the real clock, and %s', why_not)
  end
  return all and not why_not
end

--- Words for df_session_start; nil for none. all: fires_all
local function start_options(s, opts, all)
  local remains = M.remains
  if opts and opts.remains ~= nil then remains = opts.remains end
  remains = remains or (opts and opts.report)                 -- the page shows values
  local last = remains and 'remains=yes ' or ''
  local paused = opts and (opts.paused or opts.check_numerics)
  if not opts or not (paused or opts.values or opts.log or opts.trace or opts.report or opts.record or opts.finally
                      or opts.at_once or all) then
    return remains and last or nil
  end
  if opts.finally ~= nil then
    if getmetatable(opts.finally) ~= Operation or opts.finally.graph ~= s.graph then
      errors.bad('start: finally is %s, an operation of the session\'s graph is expected',
                 errors.describe(opts.finally))
    end
    last = last .. ('finally=%d '):format(opts.finally.node)
  end
  return last .. (paused and 'paused=yes ' or '') .. (opts.at_once and 'at_once=yes ' or '')
    .. ((opts.record or (opts.trace and s.virtual)) and 'record=yes ' or '')
    .. ((opts.values or opts.report) and 'log=values ' or '')
      .. ((opts.log or opts.trace or opts.report) and 'log=tokens ' or '')
    .. (all and 'primitives=yes ' or '')
    .. (type(opts.log) == 'number' and ('events=%.0f'):format(opts.log) or '')
end

--- Can the files be written that a run is to leave behind? Better asked before it than after.
local function try_files(opts)
  for _, what in ipairs{ 'trace', 'report' } do
    if opts and opts[what] then require('dflow.exchange.file').probe(opts[what], what) end
  end
end

--- s:start(fetches, feeds?, opts?): the same in the background; gives a handle. opts.paused stops it before its first
--- token, opts.remains lets it be looked at when it is over, as it was at its end or error;
--- opts.values keeps the last few thousand values that its nodes made, for h:value; opts.log every token with its time,
--- for a trace (a number: at most so many events). opts.finally is an operation that runs when the run has ended,
--- however it did.
--- opts.at_once does without the moment in which runs that are started one after the other come to a queue in that
--- order.
--- opts.trace and opts.report are files that h:wait() writes, however the run ends. With opts.check_numerics it pauses
--- behind the first op that makes a NaN, to be looked at; h:wait() and h:done() end it there.
function methods.start(s, fetches, feeds, opts)
  if fetches == nil then errors.bad('start: there is nothing to fetch') end
  local timeout = timeout_of(opts)
  if s.graph.starts and s.begun ~= #s.graph.starts then begin(s) end
  if watch then watch(s, feeds) end
  local besides = M.shown or (opts and opts.paused and M.held)
  -- the prompt's breakpoints are set while it stands before its first token
  local breakpoints, paused = M.started and M.breakpoints and M.breakpoints.pending() and M.breakpoints, opts
    and opts.paused
  if besides or breakpoints then
    local with = {}
    for key, v in pairs(besides or with) do with[key] = v end
    for key, v in pairs(opts or with) do with[key] = v end
    with.paused = with.paused or breakpoints and true or nil
    opts = with
  end
  local flat, finish = prepare(s, fetches, feeds)
  s.graph.period = (s.graph.period or 0) + 1
  local buffer = take_feeds(s, feeds)
  try_files(opts)
  local _, peak = core.memory()
  local tensors = s.tensors
  if opts and opts.tensors ~= nil then tensors = opts.tensors end
  local all = fires_all(s, opts)
  local ok, handle = pcall(session_start, s.handle, flat, buffer, timeout, start_options(s, opts, all))
  drop_feeds()
  if not ok then error(handle, 0) end
  local run = setmetatable({ handle = handle, session = s, flat = flat, count = #flat / 2, finish = finish,
    recorded = opts and opts.trace and s.virtual, trace = opts and opts.trace, report = opts and opts.report,
    primitives = all or nil, peak_before = peak, tensors = tensors,
    remains = M.remains or (opts and opts.remains) or nil }, Run)
  if opts and opts.check_numerics then numerics.watch(run, opts.check_numerics, opts.paused) end
  if M.started then M.started(run) end
  if breakpoints then
    breakpoints.set(run)
    if not paused then run:resume() end
  end
  return run
end

--- Sets all variables back: the next run that needs one initialises it.
function methods.init(s)
  core.session_reset(s.handle)
end

--- s:position(): where its random ops are, {[name of the op] = in how many runs it drew}; s:seek(position) puts them
-- there, so that a session which goes on where another was saved draws what that one would have drawn. Each op counts
-- for itself: runs that it does not draw in, as those that read a variable, do not count. [1] is the count of the ops
-- that are not named, where it is not 0; a number n stands for {n}.
function methods.position(s)
  local out = {}
  for node, times in pairs(core.session_position(s.handle)) do
    out[node < 0 and 1 or core.node_name_of(s.graph.handle, node)] = times
  end
  return out
end
function methods.seek(s, position)
  local function bad(v)
    errors.bad('seek takes what s:position() gave, or a whole number from 0 up, not %s', errors.describe(v))
  end
  if type(position) == 'number' then position = { position } end
  if not errors.is_data(position) then bad(position) end
  local out = {}
  for name, times in pairs(position) do
    if type(times) ~= 'number' or times < 0 or not dtypes.is_whole(times) then bad(times) end
    if name ~= 1 and type(name) ~= 'string' then bad(name) end
    local node = name == 1 and -1 or core.node_by_name(s.graph.handle, name)
    if name == 1 or node >= 0 then out[node] = times end
  end
  core.session_seek(s.handle, out)
end

function methods.close(s)
  if s.closed then return end
  s.closed = true
  core.close(s.handle)
  if s.graph.session == s then s.graph.session = nil end
end

--- Counters since the session began, with what devices did.
function methods.stats(s)
  return devices.read_report(core.session_report(s.handle), core.session_stats(s.handle))
end

--- s:devices(): {{name =, kind =, memory = {in_use =, peak =, limit =}}, …}.
function methods.devices(s) return devices.list(s.handle) end

--- s:placement(fetches): {{node =, op =, device =, why =, left_out =, once =}, …} of the nodes that a run of them
-- needs.
function methods.placement(s, fetches)
  if fetches == nil then errors.bad('placement: there is nothing to fetch') end
  return devices.placement(s.handle, (prepare(s, fetches)))
end

local native_code = { llvm = 1, machine = 2 }

--- What became of the loops of its runs as machine code, as text.
function methods.native(s, opts)
  opts = errors.options(opts, 'Session:native', { 'code', 'loop' })
  if opts.code ~= nil and not native_code[opts.code] then
    errors.bad("Session:native: code is 'llvm' or 'machine', not %s", errors.describe(opts.code))
  end
  if opts.loop ~= nil and type(opts.loop) ~= 'string' then
    errors.bad('Session:native: loop is the name of a loop, not %s', errors.describe(opts.loop))
  end
  return core.session_native(s.handle, native_code[opts.code] or 0, opts.loop)
end

--- How many plans were compiled so far.
function methods.plans(s)
  return core.session_plans(s.handle)
end

--- Makes s the session of df.run, x:eval and so on while fn runs.
function methods.as_default(s, fn, ...)
  if type(fn) ~= 'function' then
    errors.bad('as_default takes a function to call, not %s', errors.describe(fn))
  end
  graph.enter_session(s)
  local function finish(ok, ...)
    graph.leave_session()
    if not ok then error((...), 0) end
    return ...
  end
  return finish(protect(graph.with, s.graph, fn, ...))
end

Session.__call = function(s, ...) return methods.run(s, ...) end
Session.__tostring = function(s)
  return s.closed and 'Session (closed)' or ('Session of a %s'):format(tostring(s.graph))
end
Session.__close = function(s) s:close() end

-- ---- making sessions ------------------------------------------------------------------------------------------------
local known = { 'graph', 'devices', 'threads', 'engine', 'timeout', 'timeout_rank', 'kernels', 'owners', 'clock',
                'soft_placement', 'memory', 'plan_cache', 'save', 'simplify',
                'batch', 'tensors' }
local engines = { auto = true, tokens = true, native = true, primitives = true, program = true }

--- df.Session{graph=, threads=, engine=, timeout=, timeout_rank=, kernels=, devices=, owners=, clock=, soft_placement=,
-- memory=, plan_cache=, save=, simplify=, batch=}
-- @param batch  true: ready nodes of different iterations and calls are computed as one kernel call where their shapes
--               are equal; 'auto': those of calls of graph functions, where runs with it took less time than runs
--               without. Values are the same to the bit; a weight's gradient may be one product over all calls. false
--               (the default)
function M.new(opts)
  opts = errors.options(opts, 'Session', known)
  local g = opts.graph or graph.current()
  if getmetatable(g) ~= Graph then
    errors.bad('Session: graph is %s, a Graph is expected', errors.describe(g))
  end
  local words = { 'lone=yes' }        -- a Lua state has one thread: no other starts runs
  if opts.threads ~= nil then
    if type(opts.threads) ~= 'number' or opts.threads < 1 or not dtypes.is_whole(opts.threads) then
      errors.bad('Session: threads is a whole number from 1 up, not %s', errors.describe(opts.threads))
    end
    words[#words + 1] = ('threads=%d'):format(opts.threads)
  end
  if opts.engine ~= nil then
    if not engines[opts.engine] then
      errors.bad("Session: engine is 'auto', 'tokens', 'native' or 'primitives', not %s", errors.describe(opts.engine))
    end
    words[#words + 1] = 'engine=' .. opts.engine        -- 'auto', too: DFLOW_ENGINE does not overrule what was said
  end
  for _, key in ipairs{ 'timeout', 'timeout_rank' } do
    local t = opts[key]
    if t ~= nil then
      if type(t) ~= 'number' or t ~= t or t <= 0 then
        errors.bad('Session: %s is a positive number of seconds, not %s', key, errors.describe(t))
      end
      words[#words + 1] = ('%s=%.9g'):format(key, t)
    end
  end
  if opts.kernels ~= nil then
    if opts.kernels ~= 'cpu' and opts.kernels ~= 'ref' then
      errors.bad("Session: kernels is 'cpu' or 'ref', not %s", errors.describe(opts.kernels))
    end
    words[#words + 1] = 'kernels=' .. opts.kernels
  end
  devices.session_words(opts, words)
  local handle = core.session_new(g.handle, #words > 0 and table.concat(words, ' ') or nil)
  if opts.tensors ~= nil and type(opts.tensors) ~= 'boolean' then
    errors.bad('Session: tensors is true or false, not %s', errors.describe(opts.tensors))
  end
  return setmetatable({ handle = handle, graph = g, tensors = opts.tensors or false, closed = false,
                        engine = opts.engine, virtual = (opts.clock or 'real') ~= 'real' }, Session)
end

--- The session that df.run uses for a graph; made when it is first needed.
function M.default(g)
  g = g or graph.current()
  local s = g.session
  if not s then
    s = M.new{ graph = g }
    g.session = s
  end
  return s
end
local default = M.default
variable.default_session = default

--- Another default session of the graph in the place of the one it has; variables keep their values.
function M.renew(g, opts)
  local old, values = g.session, {}
  if old and not old.closed then
    for i, v in ipairs(g.variables) do
      local ok, value = pcall(methods.run, old, v, nil, { tensors = true })
      if ok then values[i] = value end
    end
  end
  local with = { graph = g }
  for k, v in pairs(opts) do with[k] = v end
  g.session = M.new(with)
  for i, v in ipairs(g.variables) do if values[i] then v:load(values[i], g.session) end end
  return g.session
end

--- df.run(fetches, feeds?, opts?) in the default session of the graph that the fetches belong to.
function M.run(fetches, feeds, opts)
  local g = getmetatable(fetches) == Output and fetches.graph or convert.graph_of(fetches) or graph.current()
  return methods.run(g.session or default(g), fetches, feeds, opts)
end

function M.start(fetches, feeds, opts)
  return methods.start(default(convert.graph_of(fetches)), fetches, feeds, opts)
end

--- df.init(): all variables of the default session uninitialised again.
function M.init()
  return default():init()
end

function M.stats()
  return default():stats()
end

--- df.devices(): those of the default session.
function M.devices()
  return default():devices()
end

--- x:eval(feeds?, opts?) in the default session.
function graph.methods.eval(x, feeds, opts)
  local mt = getmetatable(x)
  if mt ~= Output and not (mt and rawget(mt, 'as_output')) then
    errors.bad('eval is a method: write x:eval(feeds), with a colon; its first argument is %s', errors.describe(x))
  end
  local g = x.graph
  return methods.run(g.session or default(g), x, feeds, opts)
end
function graph.operation_methods.run(op, feeds, opts)
  if getmetatable(op) ~= graph.Operation then
    errors.bad('run is a method of an operation: write op:run(feeds), with a colon; its first argument is %s',
               errors.describe(op))
  end
  return methods.run(default(op.graph), op, feeds, opts)
end

-- ---- runs in the background -----------------------------------------------------------------------------------------
--- Waits for the run and returns (or raises) what run would have. May be called again.
function run_methods.wait(r)
  if r.numerics and not r.over then numerics.settle(r) end
  if M.attend and not r.over then M.attend(r) end
  if not r.over then
    local ok, result = pcall(run_wait, r.handle, r.count, r.tensors)
    if not ok then ended_by(result) end
    if not ok and not core.run_done(r.handle) then
      error(result, 0)                     -- it is paused, or the wait was interrupted: it may be waited for later
    end
    local found = r.numerics and r.numerics.found          -- made by its last op, it has come to its end all the same
    if found then ok, result = false, found end
    r.over = true
    r.ok = ok
    if ok then r.result = r.finish(result) else r.result = require('dflow.front.naming').explain(result,
        r.session.graph) end
    for _, what in ipairs{ 'trace', 'report' } do
      if r[what] then
        local written, why = pcall(require('dflow.inspect.' .. what).write, r, r[what])
        if not written and ok then error(why, 0) end        -- else what the run says is more important
      end
    end
  end
  if not r.ok then error(r.result, 0) end
  return r.result
end

--- Is it over?
function run_methods.done(r)
  if r.numerics and not r.over and numerics.met(r) then pcall(r.wait, r) end
  return r.over or core.run_done(r.handle)
end

--- Asks it to stop; wait then raises `cancelled`, unless it was over already.
function run_methods.cancel(r)
  r.cancelled = true
  if not r.over then core.run_cancel(r.handle) end
end

--- Counters of this run.
function run_methods.stats(r)
  return devices.read_report(core.run_report(r.handle), core.run_stats(r.handle))
end

--- How long the run, made with {record = true}, would take otherwise: {seconds =, critical_path = {{op =, iteration =,
-- device =, seconds =}, …}}.
function run_methods.whatif(r, opts)
  return devices.whatif(r.handle, opts, function(node) return graph.operation(r.session.graph, node).name end)
end

for name, method in pairs(require('dflow.inspect').methods) do run_methods[name] = method end
--- Texts of the inspector, which are loaded when one is asked for.
function run_methods.why(r, ...) return require('dflow.inspect.why').why(r, ...) end
function run_methods.whynot(r, ...) return require('dflow.inspect.why').whynot(r, ...) end
errors.with_colons(methods, Session, 'a session', 's', { run = true })
errors.with_colons(run_methods, Run, 'a run', 'h')

Run.__tostring = function(r)
  if not (r.over or core.run_done(r.handle)) then
    return r:state() == 'paused' and 'Run (paused)' or 'Run (in progress)'
  end
  if not r.over then pcall(r.wait, r) end
  local code = r.over and not r.ok and type(r.result) == 'table' and r.result.code
  return code and (code == 'cancelled' and 'Run (cancelled)' or ('Run (failed: %s)'):format(code)) or 'Run (done)'
end

return M
