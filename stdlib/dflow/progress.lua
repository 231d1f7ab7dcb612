--- df.progress: a line about a Lua loop that takes its time.
--
-- It goes to standard error, once a loop has run for half a second, and only where that is a terminal; it is wiped away
-- at the end.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'

local M = {}
local AFTER, EVERY, WIDTH = 0.5, 0.1, 24
local clock = core.clock           -- what goes by on the wall: a loop may wait

-- What can be called, and gives no elements.
local NO_ITERATORS = { output = true, operation = true, variable = true, layer = true }

--- Can `for` call it, as it can a pipeline's iterator?
local function is_callable(v)
  local mt = getmetatable(v)
  return type(v) == 'function' or type(mt) == 'table' and rawget(mt, '__call') ~= nil
    and not NO_ITERATORS[require('dflow').type(v)]
end

--- Is standard error a terminal that takes a line back?
local function wanted()
  local program = package.loaded['dflow.program']
  if program then return program.terminal().errors end
  local term = os.getenv 'TERM'
  if not term or term == '' or term == 'dumb' then return false end
  local pipe = io.popen and io.popen('test -t 2 && echo yes', 'r')
  local yes = pipe and pipe:read('*l') == 'yes'
  if pipe then pipe:close() end
  return yes
end

--- `  340/1000  ########----------------  34%  128/s  5 s left`
function M.line(done, total, seconds, label)
  local rate = seconds > 0 and done / seconds or 0
  local text = label and label .. '  ' or ''
  if not total then return ('%s%d  %.3g/s'):format(text, done, rate) end
  local part = total > 0 and done / total or 1
  local full = math.floor(part * WIDTH + 0.5)
  local left = rate > 0 and (total - done) / rate or 0
  return ('%s%d/%d  %s%s %3.0f%%  %.3g/s  %.0f s left')
    :format(text, done, total, ('#'):rep(full), ('-'):rep(WIDTH - full), 100 * part, rate, left)
end

--- for i in df.progress(n), for i, x in df.progress(list), for … in df.progress(iterator): the same loop, with a line
-- about it.
-- @param what  a count: 1 … n; a list: its places and elements; an iterator, such as p:each(): as it is called by `for`
-- @param opts  {total = n of an iterator, label = 'epoch', every = 0.1 seconds, write = function(text) in place of the
--              terminal}; a number is the total
function M.progress(what, opts)
  if type(opts) == 'number' then opts = { total = opts } end
  opts = errors.options(opts, 'progress', { 'total', 'label', 'every', 'write' })
  for name, kind in pairs{ total = 'number', label = 'string', every = 'number', write = 'function' } do
    local v = opts[name]
    if v ~= nil and type(v) ~= kind then errors.bad('progress: %s is a %s, not %s', name, kind, errors.describe(v)) end
    if kind == 'number' and v ~= nil and not (v >= 0) then
      errors.bad('progress: %s is a number from 0 up, not %s', name, errors.describe(v))
    end
  end
  local kind, total, step = type(what), opts.total, nil
  if kind == 'number' then
    if what % 1 ~= 0 then errors.bad('progress: a whole number of rounds is expected, not %s', tostring(what)) end
    total = what
    step = function(i) if i <= what then return i end end
  elseif kind == 'table' and errors.is_data(what) and not is_callable(what) then
    total = #what
    step = function(i) if what[i] ~= nil then return i, what[i] end end
  elseif is_callable(what) then
    step = function() return what() end
  else
    errors.bad('progress takes a number of rounds, a list or an iterator, not %s', errors.describe(what))
  end
  local write, every = opts.write, opts.every or EVERY
  local began, last, shown, i, dead = clock(), clock(), false, 0, false
  if not write then
    local asked
    write = function(text)
      if asked == nil then asked = wanted() end
      if asked then
        io.stdout:flush()
        core.status_line(text)
      end
    end
  end
  local function finish(first, ...)
    if first == nil then
      dead = true
      if shown then write('') end
      return nil
    end
    return first, ...
  end
  local function round()
    if dead then return nil end
    local now = clock()
    if i > 0 and now - last >= every and (shown or now - began >= AFTER) then
      shown, last = true, now
      write(M.line(i, total, now - began, opts.label))
    end
    i = i + 1
    return finish(step(i))
  end
  -- a break, or an error, wipes it away too
  return round, nil, nil, setmetatable({}, { __close = function() finish(nil) end })
end

return M
