--- replay: runs a recording of TensorFlow (spec/recordings/README.md says what is in one) against dflow.
--
--   local replay = require 'spec.replay'
--   for _, dir in ipairs(replay.list('spec/recordings')) do replay.check(dir) end      raises where dflow did otherwise
--
-- Every session is one df.Session on the imported graph. What happened then happens again in the order of the recording's
-- counter: a run starts at its first number and is awaited at its second, a session closes at its own. A run that
-- overlapped others is started in the background.
local df = require 'dflow'
local json = require 'dkjson'

local M = {}

-- ---- files ---------------------------------------------------------------------------------------------------------
local function read(path)
  local file = assert(io.open(path, 'rb'))
  local bytes = file:read('*a')
  file:close()
  return bytes
end

--- The folders of all recordings below `root`, sorted; those whose path matches `pattern` where one is given.
function M.list(root, pattern)
  local out = {}
  local pipe = assert(io.popen(("find '%s' -name case.json"):format(root)))
  for path in pipe:lines() do
    local dir = path:gsub('/case%.json$', '')
    if not pattern or dir:find(pattern) then out[#out + 1] = dir end
  end
  pipe:close()
  table.sort(out)
  return out
end

--- Who overlaps a run whose values differed from recording to recording races with it, though its own were the same each time.
local function mark_races(runs)
  local found = {}
  for _, run in ipairs(runs) do
    for _, other in ipairs(runs) do
      local apart = run.seq[2] < other.seq[1] or other.seq[2] < run.seq[1] or run.session ~= other.session
      if other.racy and not apart then found[run] = true end
    end
  end
  for run in pairs(found) do run.racy = true end
end

--- The recording in a folder: its case.json, with `dir` and `values` (key -> value, see `value`).
function M.load(dir)
  local case = assert(json.decode(read(dir .. '/case.json'), 1, nil, nil, nil))
  case.dir = dir
  mark_races(case.runs)
  local npz = next(case.arrays) and df.load_npz(dir .. '/case.npz') or {}
  case.values = {}
  for key, about in pairs(case.arrays) do case.values[key] = M.value(about, npz, key) end
  return case
end

-- ---- values ---------------------------------------------------------------------------------------------------------
local function strings(data, lengths)
  local bytes, out, at = {}, {}, 0
  for i, b in ipairs(data:list()) do bytes[i] = string.char(tonumber(b)) end
  bytes = table.concat(bytes)
  for i, n in ipairs(lengths:list()) do
    n = tonumber(n)
    out[i] = bytes:sub(at + 1, at + n)
    at = at + n
  end
  return out
end

--- The number whose bfloat16 bits these are.
local function from_bfloat16(bits)
  bits = tonumber(bits)
  local sign, power, part = bits >= 0x8000 and -1 or 1, math.floor(bits / 128) % 256, bits % 128
  if power == 255 then return part == 0 and sign * math.huge or 0 / 0 end
  if power == 0 then return sign * part * 2 ^ -133 end
  return sign * (1 + part / 128) * 2 ^ (power - 127)
end

--- One array of a recording: {dtype, shape, list}, its elements in row-major order, and `tensor` to feed.
function M.value(about, npz, key)
  local v = { dtype = about.dtype, shape = about.shape }
  if about.dtype == 'string' then
    v.list = strings(npz[key .. '.data'], npz[key .. '.len'])
  elseif about.dtype == 'bfloat16' then
    v.list = {}
    for i, bits in ipairs(npz[key]:list()) do v.list[i] = from_bfloat16(bits) end
  elseif about.dtype:find('^q') then
    v.list = npz[key]:list()
  else
    v.tensor = npz[key]
    v.list = v.tensor:list()
  end
  v.tensor = v.tensor or df.tensor(v.list, v.dtype, v.shape)
  return v
end

--- What a run gave, in the same form. A number, boolean or string has no dtype of its own.
local function found_value(x)
  if type(x) == 'table' and x.list then return { dtype = x.dtype, shape = x.shape, list = x:list() } end
  return { shape = {}, list = { x } }
end

local tolerance = {
  float64 = { 1e-9, 1e-12 }, complex128 = { 1e-9, 1e-12 }, float32 = { 1e-5, 1e-6 }, complex64 = { 1e-5, 1e-6 },
  float16 = { 2e-3, 1e-3 }, bfloat16 = { 1.6e-2, 1e-2 },
}

local function near(a, b, rtol, atol)
  if a == b or (a ~= a and b ~= b) then return true end
  return type(a) == 'number' and type(b) == 'number' and math.abs(a - b) <= atol + rtol * math.abs(b)
end

local function same(a, b, limits)
  if a == b then return true end
  if not limits then return false end
  if type(b) == 'table' then
    return type(a) == 'table' and near(a.re, b.re, limits[1], limits[2]) and near(a.im, b.im, limits[1], limits[2])
  end
  return near(a, b, limits[1], limits[2])
end

local function text(x)
  if type(x) == 'table' then return ('%s%+.9gi'):format(x.re, x.im) end
  if type(x) == 'number' then return ('%.9g'):format(x) end
  return type(x) == 'string' and ('%q'):format(x) or tostring(x)
end

local function shape_text(v)
  local dims = {}
  for i, d in ipairs(v.shape) do dims[i] = ('%d'):format(tonumber(d)) end
  return ('%s[%s]'):format(v.dtype or '', table.concat(dims, ','))
end

--- Where the two differ, as a line; nil where they do not. `loose`: only dtypes and shapes count.
local function difference(x, expected, loose)
  local found = found_value(x)
  local dtype = found.dtype or expected.dtype
  local shapes = #found.shape == #expected.shape
  for i = 1, #found.shape do shapes = shapes and tonumber(found.shape[i]) == tonumber(expected.shape[i]) end
  if dtype ~= expected.dtype or not shapes then
    return ('is %s, expected %s'):format(shape_text(found), shape_text(expected))
  end
  if loose then return nil end
  local limits, wrong, first = tolerance[expected.dtype], 0, nil
  for i = 1, #expected.list do
    if not same(found.list[i], expected.list[i], limits) then
      wrong, first = wrong + 1, first or i
    end
  end
  if wrong == 0 then return nil end
  return ('%s has %d wrong element%s; number %d is %s, expected %s'):format(shape_text(expected), wrong, wrong > 1 and 's' or '',
    first - 1, text(found.list[first]), text(expected.list[first]))
end

-- ---- the replay --------------------------------------------------------------------------------------------------------
--- 'InvalidArgumentError' -> 'invalid_argument'
local function code_of(class)
  return (class:gsub('Error$', ''):gsub('(%l)(%u)', '%1_%2'):lower())
end

--- What happened, in order: {at, kind, run or session}.
local function events(case)
  local list = {}
  for number, run in ipairs(case.runs) do
    run.number = number - 1
    list[#list + 1] = { at = run.seq[1], kind = 'start', run = run }
    list[#list + 1] = { at = run.seq[2], kind = 'end', run = run }
  end
  for _, close in ipairs(case.closes or {}) do
    list[#list + 1] = { at = close.seq, kind = 'close', session = close.session }
  end
  table.sort(list, function(a, b) return a.at < b.at end)
  for i, event in ipairs(list) do
    local next_one = list[i + 1]
    event.alone = event.kind == 'start' and next_one ~= nil and next_one.run == event.run
  end
  return list
end

local function new_session(case, run)
  local file = case.graphs[run.graph + 1].file
  local config = case.sessions[run.session + 1].config or ''
  local timeout = tonumber(config:match('operation_timeout_in_ms:%s*(%d+)') or 0)
  local graph = df.import_graph_def(case.dir .. '/' .. file)
  return df.Session{ graph = graph, timeout = timeout > 0 and timeout / 1000 or nil }
end

local function arguments(case, session, run)
  local fetches, feeds = {}, {}
  for i, name in ipairs(run.fetches) do
    fetches[i] = name:sub(1, 1) == '^' and session.graph:op(name:sub(2)) or session.graph:output(name)
  end
  for name, key in pairs(run.feeds) do feeds[session.graph:output(name)] = case.values[key].tensor end
  for name, key in pairs(run.pins or {}) do feeds[session.graph:output(name)] = case.values[key].tensor end
  return fetches, feeds, run.timeout_ms and { timeout = run.timeout_ms / 1000 } or nil
end

--- Compares what a run did with what it did in TensorFlow; appends lines to `wrong`.
local function judge(case, run, ok, results, wrong)
  local function say(...) wrong[#wrong + 1] = ('run %d: '):format(run.number) .. string.format(...) end
  if run.error then
    local expected = code_of(run.error.class)
    if ok then
      say('it gave a result, expected the error %s (%s)', expected, (run.error.message:gsub('\n.*', '')))
    elseif type(results) ~= 'table' or results.code ~= expected then
      say('the error is %s (%s), expected %s (%s)', type(results) == 'table' and results.code or '?', tostring(results), expected,
        (run.error.message:gsub('\n.*', '')))
    end
  elseif not ok then
    say('fetching %s failed: %s: %s', table.concat(run.fetches, ', '), type(results) == 'table' and results.code or '?',
      tostring(results))
  else
    local loose = run.racy or case.racy or (run.nondeterministic and not run.pinned)
    for i, name in ipairs(run.fetches) do
      local key = run.results[i]
      local found = key and difference(results[i], case.values[key], loose)
      if found then say('%s %s', name, found) end
    end
  end
end

--- Replays a recording; gives a list of lines that say what dflow did otherwise, empty when nothing.
function M.replay(dir)
  local case = M.load(dir)
  local sessions, started, wrong = {}, {}, {}
  for _, event in ipairs(events(case)) do
    local run = event.run
    if event.kind == 'close' then
      local session = sessions[event.session]
      if session then session:close() end
    elseif event.kind == 'start' then
      local ok, result = pcall(function()
        local session = sessions[run.session] or new_session(case, run)
        sessions[run.session] = session
        local fetches, feeds, opts = arguments(case, session, run)
        if event.alone then return session:run(fetches, feeds, opts) end
        started[run] = session:start(fetches, feeds, opts)
      end)
      if not started[run] then judge(case, run, ok, result, wrong) end
    elseif started[run] then
      local ok, result = pcall(started[run].wait, started[run])
      judge(case, run, ok, result, wrong)
    end
  end
  for _, session in pairs(sessions) do session:close() end
  return wrong
end

--- Replays a recording and raises an error that lists what dflow did otherwise.
function M.check(dir)
  local wrong = M.replay(dir)
  if #wrong > 0 then error(table.concat(wrong, '\n'), 0) end
end

return M
