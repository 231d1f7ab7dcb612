--- df.save and df.restore: the variables of a session in a safetensors file, and from there (or from NumPy's and
-- Keras's files) into a session.
--
-- A file is written whole or not at all. Restoring sets all variables or none: every name, dtype and shape is compared
-- before the first of them is changed. The metadata say where the session's random ops are, so that what goes on from a
-- checkpoint draws what would have been drawn.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local tensor = require 'dflow.front.tensor'
local session = require 'dflow.front.session'
local variable = require 'dflow.front.variable'
local files = require 'dflow.exchange.file'
local hdf5 = require 'dflow.exchange.hdf5'
local npy = require 'dflow.exchange.npy'
local zip = require 'dflow.exchange.zip'
local safetensors = require 'dflow.exchange.safetensors'
local shards = require 'dflow.train.shards'
local queues = require 'dflow.train.queues'

local M = {}
local POSITION = 'dflow.position'

--- The variables of a call by name. Given: nil (all of the graph), a list, or {name = Variable}.
function M.variables_of(given, g, what)
  local out, names = {}, {}
  local function add(name, v)
    if getmetatable(v) ~= variable.Variable then
      errors.bad('%s: variables is a list of Variables or {name = Variable}, %s is %s', what, tostring(name),
                 errors.describe(v))
    end
    if out[name] then errors.bad("%s: two variables have the name '%s'", what, name) end
    if g and v.graph ~= g then
      errors.bad('%s: the variable %s belongs to another graph than the session', what, v.name)
    end
    g = v.graph
    out[name] = v
    names[#names + 1] = name
  end
  if given == nil then
    g = g or graph.current()
    given = g.variables
  end
  if getmetatable(given) == variable.Variable then given = { given } end
  if not errors.is_data(given) then
    errors.bad('%s: variables is a list of Variables or {name = Variable}, not %s', what, errors.describe(given))
  end
  for key, v in pairs(given) do
    if type(key) == 'string' then add(key, v) end
  end
  for i, v in ipairs(given) do add(getmetatable(v) == variable.Variable and v.name or i, v) end
  if #names == 0 then
    errors.bad('%s: there are no variables: layers have some once they have been called, so build the model first',
               what)
  end
  table.sort(names)
  return out, names, g
end

local function session_of(s, g, what)
  if s == nil then return session.default(g) end
  if getmetatable(s) ~= session.Session then
    errors.bad('%s: session is %s, a Session is expected', what, errors.describe(s))
  end
  return s
end

--- The values of variables in a session: {name = Tensor}. One that has none yet gets the one it begins with.
local function values_of(s, vars, names)
  local out, missing = {}, {}
  for _, name in ipairs(names) do
    local ok, t = pcall(core.session_variable, s.handle, vars[name].handle.node, true)
    if ok then out[name] = t elseif type(t) == 'table'
      and t.code == 'failed_precondition' then missing[#missing + 1] = name else error(t, 0) end
  end
  if #missing > 0 then
    local fetch = {}
    for i, name in ipairs(missing) do fetch[i] = variable.as_output(vars[name]) end
    local got = s:run(fetch, nil, { tensors = true })
    for i, name in ipairs(missing) do out[name] = got[i] end
  end
  return out
end

--- The rank on which each variable lies: {name = rank}.
local function ranks_of(s, vars, names)
  local fetch, name_of, rank_of = {}, {}, {}
  for i, name in ipairs(names) do
    fetch[i] = variable.as_output(vars[name])
    name_of[vars[name].name] = name
    rank_of[name] = 0
  end
  for _, at in ipairs(s:placement(fetch)) do
    if name_of[at.node] then rank_of[name_of[at.node]] = tonumber(at.device:match '^/rank:(%d+)/' or 0) end
  end
  return rank_of
end

--- df.save(path, {variables =, session =, metadata =, shard_bytes =, by_rank =, queues =}): writes the variables'
-- values in a session.
-- @param variables    a list, or {name = Variable} to save under other names; nil: all of the default graph
-- @param metadata     {string = string} that df.restore gives back
-- @param queues       queues whose elements are written, too
-- @param shard_bytes  no file is larger than this: several are written, and <path>.index.json, which says what is where
-- @param by_rank      true: the variables of each rank have files of their own, and the same index: any number of ranks
--                     restores them
function M.save(path, opts) return M.save_now_or_later(path, opts, false) end

--- The same, written in the background: the values are those of now. Gives a function(wait): whether it is done; raises
-- what went wrong.
function M.save_later(path, opts) return M.save_now_or_later(path, opts, true) end

--- s:position() as a line for each random op, `times name`, behind one with the times of all others. Files of older
-- versions have a number.
local function position_text(s)
  local position, lines = s:position(), {}
  for name, times in pairs(position) do
    if name ~= 1 then lines[#lines + 1] = ('%.0f %s'):format(times, name) end
  end
  table.sort(lines)
  table.insert(lines, 1, ('%.0f'):format(position[1] or 0))
  return table.concat(lines, '\n')
end

local function position_of(text)
  if not text or not text:find '^%d+' then return nil end
  local position = { tonumber(text:match '^%d+') }
  for times, name in text:gmatch '\n(%d+) ([^\n]+)' do position[name] = tonumber(times) end
  return position
end

--- The metadata that the options say, beside those there are.
function M.metadata_of(opts, what, metadata)
  if opts.metadata ~= nil and not errors.is_data(opts.metadata) then
    errors.bad('%s: metadata is {name = text}, not %s', what, errors.describe(opts.metadata))
  end
  for key, v in pairs(opts.metadata or {}) do metadata[key] = v end
  return metadata
end

function M.save_now_or_later(path, opts, later)
  opts = errors.options(opts, 'save', { 'variables', 'session', 'metadata', 'shard_bytes', 'by_rank', 'queues' })
  files.path(path, 'save')
  local s = opts.session and session_of(opts.session, nil, 'save')
  local vars, names, g = M.variables_of(opts.variables, s and s.graph, 'save')
  s = s or session_of(nil, g, 'save')
  local metadata = M.metadata_of(opts, 'save', { format = 'dflow' })
  local values = values_of(s, vars, names)
  queues.save(queues.check(opts.queues, 'save'), s, values, metadata)
  metadata[POSITION] = position_text(s)
  if opts.by_rank ~= nil and type(opts.by_rank) ~= 'boolean' then
    errors.bad('save: by_rank is true or false, not %s', errors.describe(opts.by_rank))
  end
  if opts.shard_bytes ~= nil or opts.by_rank then
    return shards.write(path, values, metadata, opts.shard_bytes or math.huge, opts.by_rank and ranks_of(s, vars, names)
                        or nil)
  end
  if not later then return safetensors.write(path, values, metadata) end
  local start, order = safetensors.layout(values, metadata)
  local parts = { start }
  for i, name in ipairs(order) do parts[i + 1] = values[name] end
  return require 'dflow.exchange.file_later' (path, parts)
end

-- ---- restoring ------------------------------------------------------------------------------------------------------
--- A zip archive: Keras's, with a member of HDF5, or NumPy's.
local function open_zip(path)
  local archive = zip.open(path, path:find '%.keras$' and '.keras' or '.npz')
  for _, name in ipairs(archive.names) do
    if name == hdf5.MEMBER then return hdf5.open(path, archive.read(name)) end
  end
  local list, names = npy.arrays(archive), {}
  for name in pairs(list) do names[#names + 1] = name end
  table.sort(names)
  return { names = names, about = function(name) return list[name] end, tensor = function(name) return list[name] end,
           metadata = {} }
end

--- What is in a file of any kind: names, a function that gives the dtype and shape of one, one that gives its
-- tensor, metadata.
function M.open(path, what)
  core.file_size(files.path(path, what))                      -- a file, and no pipe that would be waited for
  local f = io.open(path, 'rb')
  local mark = f and f:read(4)
  if f then f:close() end
  if mark == '\137HDF' then return hdf5.open(path) end
  if mark == 'PK\3\4' or mark == 'PK\5\6' then return open_zip(path) end
  if path:find('%.json$') then return shards.open(path) end
  local file = safetensors.open(path)
  return { names = file.names, about = function(name) return file.entries[name] end,
           tensor = function(name) return safetensors.tensor(file, name) end,
           metadata = file.metadata }
end

local function fits(v, found)
  if found.dtype ~= v.dtype then return false end
  local shape = v.shape
  if not shape then return true end
  if #shape ~= #found.shape then return false end
  for i, d in ipairs(shape) do
    if d >= 0 and d ~= found.shape[i] then return false end
  end
  return true
end

--- The variable that each name of the file is for. map: {name in the file = Variable or its name}, or function(name) ->
-- that, or nil.
local function target_of(map, vars, by_name, what, sources, path, partial)
  if errors.is_data(map) and not partial then
    local there, names = {}, {}
    for _, file in ipairs(sources) do
      for _, name in ipairs(file.names) do
        there[name] = true
        names[#names + 1] = name
      end
    end
    for name in pairs(map) do
      if type(name) ~= 'string' then
        errors.bad('%s: map is {name in the file = Variable or its name}; a key of it is %s', what,
                   errors.describe(name))
      end
      if not there[name] then
        errors.raise('not_found',
                     "%s: map names '%s', which %s does not have%s (map goes from names in the file to variables)",
                       what, name, path,
                     errors.hint(name, names))
      end
    end
  end
  local function find(name, to)
    if type(to) == 'string' then
      if not vars[to] then
        errors.bad("%s: map sends '%s' to '%s', but no variable has that name%s", what, name, to,
                   errors.hint(to, by_name))
      end
      return vars[to]
    elseif getmetatable(to) == variable.Variable then
      return to
    end
    errors.bad("%s: map sends '%s' to %s, a Variable or its name is expected", what, name, errors.describe(to))
  end
  return function(name)
    if type(map) == 'function' then
      local to = map(name)
      if to == nil then return vars[name] end
      return to and find(name, to) or nil
    elseif map and map[name] ~= nil then
      return map[name] and find(name, map[name]) or nil
    end
    return vars[name]
  end
end

--- At most a few names, for a message.
local function some(list)
  if #list <= 6 then return table.concat(list, ', ') end
  return table.concat(list, ', ', 1, 5) .. (' and %d more'):format(#list - 5)
end

--- Reads `sources`, opened files, into variables: all or none.
function M.apply(sources, path, vars, names, s, opts, what)
  local target = target_of(opts.map, vars, names, what, sources, path, opts.partial)
  local from, wrong, extra, taken, skipped = {}, {}, {}, {}, {}
  for _, file in ipairs(sources) do
    for _, name in ipairs(file.names) do
      local v = not queues.is_part(name) and target(name)
      if v then
        if v.graph ~= s.graph then
          errors.bad('%s: the variable %s belongs to another graph than the session', what, v.name)
        end
        if taken[v] then
          errors.bad("%s: both '%s' and '%s' of %s are for the variable %s", what, taken[v], name, path, v.name)
        end
        taken[v] = name
        local about = file.about(name)
        local fit = fits(v, about)
        if not fit then
          local found, wanted = tensor.shape_text(about.dtype, about.shape), tensor.shape_text(v.dtype, v.shape)
          wrong[#wrong + 1] = ("'%s' is %s in the file, the variable %s is %s"):format(name, found, v.name, wanted)
          skipped[v.name] = ('it is %s, in the file %s'):format(wanted, found)
        end
        if fit or not opts.partial then from[#from + 1] = { v = v, file = file, name = name } end
      elseif not queues.is_part(name) then
        extra[#extra + 1] = "'" .. name .. "'"
        skipped[name] = 'there is no variable for it'
      end
    end
  end
  local missing = {}
  for _, name in ipairs(names) do
    if not taken[vars[name]] then
      missing[#missing + 1] = "'" .. name .. "'"
      skipped[name] = 'the file does not have it'
    end
  end
  local said = {}
  if #wrong > 0 and not opts.partial then said[#said + 1] = table.concat(wrong, '; ', 1, math.min(#wrong, 6)) end
  if #missing > 0 and not opts.partial then said[#said + 1] = ('it has no %s'):format(some(missing)) end
  if #said > 0 then
    if #extra > 0 then said[#said + 1] = ('it has %s, for which there is no variable'):format(some(extra)) end
    errors.raise((#wrong > 0) and 'invalid_argument' or 'not_found', '%s: %s does not fit: %s%s', what, path,
                 table.concat(said, '; '),
                 #wrong == 0 and '; partial = true restores what is there' or '')
  end
  if #from == 0 then
    errors.raise('not_found', '%s: %s has none of the variables%s; it has %s', what, path,
                 #wrong > 0 and ' as they are: ' .. table.concat(wrong, '; ', 1, math.min(#wrong, 6)) or '', #extra > 0
                 and some(extra) or 'no other')
  end
  for _, e in ipairs(from) do e.tensor = e.file.tensor(e.name) end        -- everything is read before anything changes
  local position = position_of(sources[1].metadata[POSITION])
  for _, e in ipairs(from) do core.session_set_variable(s.handle, e.v.handle.node, e.tensor) end
  if position and not opts.partial then s:seek(position) end
  local restored = {}
  for i, e in ipairs(from) do restored[i] = e.v.name end
  table.sort(restored)
  return restored, sources[1].metadata, skipped
end

--- df.restore(path, {variables =, session =, map =, partial =, queues =}): sets variables to what a file holds, all of
-- them or none.
-- @param map      {name in the file = Variable or its name}, or a function of the name; false leaves that tensor out
-- @param partial  true: what the file does not have, or has with another dtype or shape, keeps its value
-- @param queues   queues that are to hold what they held then, and nothing else, in one step: calls that wait go on
--                 with that
-- @return         the names of the variables that were set, the file's metadata, and what was not taken: {name = why}
function M.restore(path, opts)
  opts = errors.options(opts, 'restore', { 'variables', 'session', 'map', 'partial', 'queues' })
  if opts.map ~= nil and type(opts.map) ~= 'function' and not errors.is_data(opts.map) then
    errors.bad('restore: map is a table {name in the file = Variable}, not %s', errors.describe(opts.map))
  end
  local s = opts.session and session_of(opts.session, nil, 'restore')
  local file = opts.variables == nil and M.open(path, 'restore')          -- before variables are missing
  local vars, names, g = M.variables_of(opts.variables, s and s.graph, 'restore')
  s = s or session_of(nil, g, 'restore')
  file = file or M.open(path, 'restore')
  local fill = queues.restore(queues.check(opts.queues, 'restore'), file, path, s)
  local restored, metadata, skipped = M.apply({ file }, path, vars, names, s, opts, 'restore')
  fill()
  return restored, metadata, skipped
end

M.session_of = session_of
return M
