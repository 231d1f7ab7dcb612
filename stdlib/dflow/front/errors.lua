--- Errors: tables {code=, message=, op=, frame=, source=, traceback=, ran=} whose tostring is the whole message: where,
-- what, the line as it was written with a caret, and how it is mended (see advice.lua), which is loaded when an error
-- is shown.
local core = require 'dflow.backend'
local nearest = require 'dflow.front.nearest'

local M = {}
local Error = core.Error
M.Error = Error

--- What a terminal would take for a command, as digits: names and files may hold anything. Lines and tabs stay.
function M.shown(text)
  if not text:find '[%z\1-\8\11-\31\127\194]' then return text end
  local function digits(c) return ('\\%03d'):format(c:byte()) end
  return (text:gsub('[%z\1-\8\11-\31\127]', digits):gsub('\194[\128-\159]',
      function(c) return (c:gsub('.', digits)) end))
end

Error.__name = 'dflow.Error'

--- What called the line that built an op, as text; front/graph.lua, which knows the graphs, has the function.
function M.callers_of() return nil end

--- Frames of the user's as they are shown behind a message that is about the line `last`: functions on one line are
-- one.
local function shown_frames(frames, last)
  local out = {}
  for line in (frames or ''):gmatch '[^\n]+' do
    if line ~= last then out[#out + 1] = '\n  called from ' .. line end
    last = line
  end
  return table.concat(out)
end

--- The frames of the user's that called the line of the error, and the line that ran it.
local function callers_of(e)
  return shown_frames(e.traceback, e.source) .. (e.ran and '\n  asked for at ' .. e.ran or '')
end
Error.__tostring = function(e)
  local text = e.message or '?'
  if e.source and text:sub(1, #e.source + 1) ~= e.source .. ':' then text = e.source .. ': ' .. text end
  if e.op then text = text .. '\n  in op ' .. e.op end
  if e.frame then text = text .. '\n  in frame ' .. e.frame end
  local called = callers_of(e)
  local ok, more = pcall(function() return require('dflow.front.advice').after(e) end)
  return M.shown((ok and text .. more or text) .. called)
end
--- What called the line that built the op is kept beside its graph, and looked up when it is asked for.
Error.__index = function(e, key)
  if key ~= 'traceback' or not rawget(e, 'op') then return nil end
  local text = M.callers_of(e.op, e.source)
  rawset(e, 'traceback', text or false)
  return text
end
Error.__concat = function(a, b) return tostring(a) .. tostring(b) end

--- Is `e` an error of dflow?
function M.is(e)
  return getmetatable(e) == Error
end

--- string.format that also takes numbers without an integer value for %d.
local function format(text, ...)
  local ok, made = pcall(string.format, text, ...)
  if ok then return made end
  local args = { ... }
  for i = 1, select('#', ...) do args[i] = tostring(args[i]) end
  return text:gsub('%%[%d.]*[dfg]', '%%s'):format((table.unpack or unpack)(args, 1, select('#', ...)))
end

--- The message, with the names on the user's line that are nil where it says that something is missing.
local function named(text)
  if not (text:find('is missing', 1, true) or text:find('nothing (nil)', 1, true) or text:find('is nil', 1, true)
          or text:find('not nil', 1, true) or text:find('nothing to fetch', 1, true)) then
    return text
  end
  local ok, names, known = pcall(function() return require('dflow.front.quote').nil_names(text) end)
  if not ok or #names == 0 or #names > 3 then return text end
  local near = #names == 1 and nearest(names[1], known)
  return ("%s; the variable%s '%s' %s nil%s"):format(text, #names > 1 and 's' or '', table.concat(names, "', '"),
      #names > 1 and 'are' or 'is',
    near and near ~= names[1] and ("; did you mean '%s'?"):format(near) or '')
end

--- Raises an error with this code; the rest is for string.format. `.source` is the user's line.
function M.raise(code, text, ...)
  if select('#', ...) > 0 then text = format(text, ...) end
  error(setmetatable({ code = code, message = M.shown(named(text)), source = (core.where()),
                       traceback = core.callers() }, Error), 0)
end

--- Raises invalid_argument.
function M.bad(text, ...)
  if select('#', ...) > 0 then text = format(text, ...) end
  error(setmetatable({ code = 'invalid_argument', message = M.shown(named(text)), source = (core.where()),
                       traceback = core.callers() }, Error), 0)
end

local warned = {}
--- Writes a warning about the user's line, or about `line`, once for each line; under DFLOW_STRICT=1 it is an error.
function M.warn(text, line)
  if os.getenv 'DFLOW_STRICT' == '1' then M.bad('%s', text) end
  line = line or core.where() or '?'
  if warned[line .. text] then return end
  warned[line .. text] = true
  io.stderr:write(line, ': warning: ', text, ' (DFLOW_STRICT=1 makes this an error)\n')
end

local left                      -- an error of Lua's own that has left functions of bodies: {message, depth, callers}

--- The user's frames of now, below each other.
local function frames_now()
  local where, callers = core.where(), core.callers()
  return (((where or '') .. '\n' .. (callers or '')):gsub('^\n', ''):gsub('\n+$', ''))
end

--- A message of Lua's own, with the line that it is about and a hint: what the program shows of an error that is none
-- of dflow's. The second result is true where the frames that called the line are in it, too.
function M.explain(message)
  local text = require('dflow.front.advice').explain(message)
  -- the same words may come again from elsewhere
  local now = left and left.message == message and frames_now()
  if not now or left.callers:sub(-#now) ~= now and now ~= '' then return text end
  return M.shown(text .. shown_frames(left.callers, left.callers:match '^[^\n]*')), true
end

--- Lua's own error leaves a function that something called which stands, at this depth of such functions: what called
-- its line is known here, and no more where the error goes on.
function M.leaves(message, depth)
  if not (left and left.message == message and left.depth > depth) then
    left = { message = message, callers = frames_now() }
  end
  left.depth = depth
end

--- What an unknown value is called in a message: `number`, `Output float32[2]`, ...
function M.describe(v)
  local kind = type(v)
  if kind == 'table' then
    local mt = getmetatable(v)
    local name = type(mt) == 'table' and rawget(mt, '__name')
    if name == 'dflow.Module' then
      return 'df itself (its functions are called with a point: df.zeros{2}, not df:zeros{2})'
    end
    return type(name) == 'string' and name:gsub('^dflow%.', '') or 'table'
  elseif kind == 'string' then
    return ('the string %q'):format(v)
  elseif kind == 'number' or kind == 'boolean' then
    return 'the ' .. kind .. ' ' .. (v ~= v and 'nan' or tostring(v))          -- its sign is the machine's
  end
  return kind
end

--- Is it a table of plain data? Objects of dflow have a metatable with a name; one that others gave a table, as readers
-- of JSON do, means nothing.
function M.is_data(v)
  if type(v) ~= 'table' then return false end
  local mt = getmetatable(v)
  if type(mt) ~= 'table' then return mt == nil end
  local name = rawget(mt, '__name')
  return not (type(name) == 'string' and name:find('^dflow%.'))
end

--- How deep tables may be nested: far deeper than any value; one that holds itself is found by it.
local DEEPEST = 100

--- depth + 1, on the way down into a table; nil counts as 0.
function M.deeper(depth)
  depth = (depth or 0) + 1
  if depth > DEEPEST then M.bad('a table is nested more than %d deep, or holds itself', DEEPEST) end
  return depth
end

--- What a function that only looks at its arguments stands in front of, to see the source.
local behind = setmetatable({}, { __mode = 'k' })
function M.in_front(wrapper, fn) behind[wrapper] = fn return wrapper end
function M.behind(fn)
  while behind[fn] do fn = behind[fn] end
  return fn
end

--- A switch: v, which is true, false or nil.
-- @param of  what takes it
function M.flag(v, of, name)
  if v ~= nil and type(v) ~= 'boolean' then M.bad('%s: %s is true or false, not %s', of, name, M.describe(v)) end
  return v
end

--- May a node, a scope, a variable or a function be called so?
function M.is_name(v) return type(v) == 'string' and v ~= '' and not v:find '[%s:^]' end

--- An option `name`, which is a name or nothing.
function M.name(v, of)
  if v ~= nil and v ~= '' and not M.is_name(v) then
    M.bad("%s: name is %s; a string without spaces, ':' and '^' is expected", of, M.describe(v))
  end
  return v
end

--- Makes methods say so when one is called with a point in place of its colon.
-- @param methods  a table of them; each is replaced by one that looks at its first argument
-- @param class    what must be its metatable
-- @param what     `a session`
-- @param as       what the message calls one: `s`
-- @param but      names of those that look for themselves
function M.with_colons(methods, class, what, as, but)
  for name, fn in pairs(methods) do
    if type(fn) == 'function' and not (but and but[name]) then
      methods[name] = M.in_front(function(self, ...)
        if getmetatable(self) ~= class then
          M.bad('%s is a method of %s: write %s:%s(…), with a colon; its first argument is %s', name, what, as, name,
                self == nil and 'nothing (nil)' or M.describe(self))
        end
        return fn(self, ...)
      end, fn)
    end
  end
  if class.__index == methods then M.no_other(methods, what) end
end

-- Where this library's own files are: they may ask an object for a field that it has not.
local home = debug.getinfo(1, 'S').source:match '^(@.*)front/errors%.lua$' or ''

--- Is the function at this level of the stack one of the user's, and none of this library's or of C's?
function M.asked_by_user(level)
  local info = debug.getinfo(level, 'S')
  return info ~= nil and info.what ~= 'C' and info.source:sub(1, #home) ~= home
end

--- Reading a field or method that an object's class does not have becomes an error that names what is like it.
-- @param methods  what the class has for __index; shared by all of its objects
-- @param what     `a session`
-- @param says     {name = what to say of it}, or nil
function M.no_other(methods, what, says)
  local asked = {}                                      -- by our own files: fields that may be nil
  setmetatable(methods, { __index = function(_, key)
    if type(key) ~= 'string' or asked[key] then return nil end
    if not M.asked_by_user(3) then
      asked[key] = true
      return nil
    end
    if says and says[key] then M.bad("%s has no method '%s'; %s", what, key, says[key]) end
    local names = {}
    for name in pairs(methods) do if not name:find '^_' then names[#names + 1] = name end end
    table.sort(names)
    local hint = M.hint_of_others(key, names)
    M.bad("%s has no field or method '%s'%s", what, key, hint ~= '' and hint
          or ('; its methods are %s'):format(table.concat(names, ', ')))
  end })
end

--- Names that the word is a part of, case aside, at most three and shortest first: 'optim' is in 'AdamOptimizer'.
local function holding(word, names)
  local list = {}
  if #word < 4 then return list end
  for _, name in ipairs(names) do
    if name:lower():find(word:lower(), 1, true) then list[#list + 1] = name end
  end
  table.sort(list, function(a, b) return #a < #b or (#a == #b and a < b) end)
  return { list[1], list[2], list[3] }
end

--- `; did you mean 'x'?`, `; there are 'x', 'y'`, or nothing.
function M.hint(word, names)
  if type(word) ~= 'string' then return '' end
  local near = nearest(word, names)
  if near then return ("; did you mean '%s'?"):format(near) end
  local list = holding(word, names)
  if #list == 0 then return '' end
  return ("; there %s '%s'"):format(#list == 1 and 'is' or 'are', table.concat(list, "', '"))
end

--- As hint, of names that other libraries have, too: `; NumPy's sum is df.reduce_sum(x, axis)`.
function M.hint_of_others(word, names)
  local says = type(word) == 'string' and require('dflow.front.glossary').says(word)
  return says and '; ' .. says or M.hint(word, names)
end

--- As hint_of_others; where nothing is like it, all there is.
function M.hint_or_all(word, names)
  local hint = M.hint_of_others(word, names)
  return hint ~= '' and hint or (' (it has: %s)'):format(table.concat(names, ', '))
end

--- Reading what a table of functions does not have becomes an error.
function M.strict(of, what)
  return setmetatable(of, { __index = function(_, name)
    local names = {}
    for known in pairs(of) do names[#names + 1] = known end
    table.sort(names)
    M.bad("%s has no '%s'%s", what, tostring(name), M.hint_or_all(name, names))
  end })
end

-- What other libraries call an option, and what it may be called here.
local options_elsewhere = {
  dim = { 'axis' }, axes = { 'axis' }, reduction_indices = { 'axis' }, keepdim = { 'keep_dims' },
  keepdims = { 'keep_dims' }, stride = { 'strides' },
  pad = { 'padding' }, bias = { 'use_bias' }, eps = { 'epsilon' }, p = { 'rate' }, swap = { 'save', 'swap_memory' },
  max_iterations = { 'maximum_iterations' }, max_iter = { 'maximum_iterations' }, parallel = { 'parallel_iterations' },
  type = { 'dtype' }, size = { 'shape' }, init = { 'kernel_initializer' }, low = { 'min' }, high = { 'max' },
  std = { 'stddev' }, k = { 'k' }, transpose = { 'transpose_a', 'transpose_b' }, gpu = { 'devices' },
  device = { 'devices' }, var_list = { 'variables' },
  sequence_length = { 'lengths' }, time_axis = { 'time_major' }, batch_first = { 'time_major' },
  lr = { 'learning_rate', 'optimizer' },
  rate = { 'learning_rate', 'optimizer' }, learning_rate = { 'optimizer' }, verbose = { 'progress' },
  callbacks = { 'progress' },
  validation_data = { 'validation' }, batch = { 'batch_size' }, n_epochs = { 'epochs' }, steps = { 'epochs' },
}

--- As hint, of the names of options.
function M.hint_of_option(word, names)
  for _, other in ipairs(type(word) == 'string' and options_elsewhere[word] or {}) do
    for _, name in ipairs(names) do
      if name == other then return ("; did you mean '%s'?"):format(name) end
    end
  end
  return M.hint(word, names)
end

--- Checks an options table: nil or a table that has only known keys; a name is a string.
-- @param what   for the message: `while_loop`
-- @param known  a list of names
-- @return       opts, or an empty table for nil
function M.options(opts, what, known)
  if opts == nil then return {} end
  if not M.is_data(opts) then
    M.bad('%s: its options are a table, not %s', what, M.describe(opts))
  end
  local unknown                         -- of several the first by name, in every process
  for key in pairs(opts) do
    local found = false
    for i = 1, #known do
      if known[i] == key then found = true break end
    end
    if not found and (unknown == nil or tostring(key) < tostring(unknown)) then unknown = key end
  end
  if unknown ~= nil then
    M.bad("%s has no option '%s'%s (it knows: %s)", what, type(unknown) == 'table' and M.describe(unknown)
          or tostring(unknown),
          M.hint_of_option(unknown, known), #known > 0 and table.concat(known, ', ') or 'none')
  end
  if opts.name ~= nil and type(opts.name) ~= 'string' then
    M.bad('%s: name is a string, not %s', what, M.describe(opts.name))
  end
  return opts
end

return M
