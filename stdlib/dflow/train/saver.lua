--- df.train.Saver: checkpoints of a training run, the last few of them, and the best.
--
-- A checkpoint is prefix-STEP.safetensors: all variables, those of optimizers included, and where the session's random
-- ops are. It is there whole or not at all, and an older one is removed only when the new one is on the disk.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local convert = require 'dflow.front.convert'
local variable = require 'dflow.front.variable'
local checkpoint = require 'dflow.train.checkpoint'
local shards = require 'dflow.train.shards'
local queues = require 'dflow.train.queues'
local files = require 'dflow.exchange.file'

local M = {}
local Saver = { __name = 'dflow.Saver' }
local methods = {}
Saver.__index = methods
Saver.__tostring = function(s)
  return s.max_to_keep and ('Saver that keeps %d'):format(s.max_to_keep) or 'Saver that keeps all'
end
local session_of_runs = require('dflow.front.session').Session
local ENDINGS = { '.safetensors', '.safetensors.index.json' }

--- df.train.Saver{max_to_keep = 5, variables =, queues =, best =, shard_bytes =, background =}
-- @param max_to_keep  0: all are kept
-- @param variables    as for df.save; nil: all of the graph, each time
-- @param queues       queues whose elements are saved and restored, too
-- @param best         'min' or 'max': the checkpoint with the best `metric` is kept besides
-- @param background   true: save returns at once, and the values that the variables had then are written while training
--                     goes on. What goes wrong is raised by the next call of a method; saver:wait() waits for the disk
function M.Saver(opts)
  if opts ~= nil and not errors.is_data(opts) then
    errors.bad('Saver takes a table of options, not %s', errors.describe(opts))
  end
  if opts and getmetatable(opts[1]) == variable.Variable then opts = { variables = opts } end
  opts = errors.options(opts, 'Saver', { 'max_to_keep', 'variables', 'queues', 'best', 'shard_bytes', 'background' })
  local keep = opts.max_to_keep
  if keep == nil then keep = 5 end
  if type(keep) ~= 'number' or keep < 0 or not dtypes.is_whole(keep) then
    errors.bad('Saver: max_to_keep is a whole number from 1 up, or 0 for all, not %s', errors.describe(keep))
  end
  if opts.best ~= nil and opts.best ~= 'min' and opts.best ~= 'max' then
    errors.bad("Saver: best is 'min' or 'max', not %s", errors.describe(opts.best))
  end
  if opts.background ~= nil and type(opts.background) ~= 'boolean' then
    errors.bad('Saver: background is true or false, not %s', errors.describe(opts.background))
  end
  if opts.variables ~= nil then checkpoint.variables_of(opts.variables, nil, 'Saver') end
  if opts.shard_bytes ~= nil then shards.size(opts.shard_bytes, 'Saver') end
  if opts.background and opts.shard_bytes then
    errors.bad('Saver: what is written in the background is one file: leave shard_bytes away')
  end
  local held = queues.prepare(queues.check(opts.queues, 'Saver'))
  return setmetatable({ queues = held, background = opts.background, max_to_keep = keep > 0 and keep or nil,
                        variables = opts.variables,
                        direction = opts.best, shard_bytes = opts.shard_bytes, kept = {} }, Saver)
end

--- The checkpoints of a prefix that lie in its folder: {path, step}, the lowest step first.
local function found(prefix)
  files.path(prefix, 'Saver')
  local folder, base = prefix:match('^(.*/)([^/]*)$')
  base = base or prefix                           -- in the folder the program was started in
  local ok, names = pcall(core.folder_list, folder or '.')
  if not ok then
    if names.code == 'not_found' then return {} end
    error(names, 0)
  end
  local list = {}
  for _, name in ipairs(core.tensor_list(names)) do
    for _, ending in ipairs(ENDINGS) do
      local step = name:sub(1, #base) == base and name:sub(-#ending) == ending and name:sub(#base + 1, -#ending - 1)
      if step and (step == '' or step:find('^%-%d+$')) then
        list[#list + 1] = { path = (folder or '') .. name, step = step == '' and -1 or tonumber(step:sub(2)) }
      end
    end
  end
  table.sort(list, function(a, b) return a.step < b.step end)
  return list
end

--- What this Saver knows of a prefix: those that were there before it, then its own in the order they were saved.
local function list_of(s, prefix)
  if not s.kept[prefix] then
    s.kept[prefix] = found(prefix)
    if s.direction then
      for _, e in ipairs(s.kept[prefix]) do
        local ok, file = pcall(checkpoint.open, e.path, 'Saver')
        e.metric = ok and tonumber(file.metadata['dflow.metric']) or nil
      end
    end
  end
  return s.kept[prefix]
end

local function best_of(s, list)
  local best
  for _, e in ipairs(list) do
    local better = e.metric and e.metric == e.metric and (not best or (s.direction == 'min' and e.metric < best.metric)
                                                          or (s.direction == 'max' and e.metric > best.metric))
    if better then best = e end
  end
  return best
end

local function remove(e)
  if e.path:find('%.json$') then shards.remove(e.path) else os.remove(e.path) end
end

--- The number of a step: a number, or a Variable or scalar Output, which is read in the session.
local function step_of(step, s)
  if step == nil then return nil end
  if type(step) ~= 'number' and convert.typed(step) then step = s:run(convert.to_output(step)) end
  if type(step) ~= 'number' or step < 0 or not dtypes.is_whole(step) then
    errors.bad('save: step is a whole number from 0 up, not %s', errors.describe(step))
  end
  return step
end

--- A checkpoint lies on the disk: it is noted, and what is too many removed.
local function written(s, list, path, step, metric)
  for i = #list, 1, -1 do
    if list[i].path == path then table.remove(list, i) end
  end
  list[#list + 1] = { path = path, step = step or -1, metric = metric }
  local best = s.direction and best_of(s, list)
  local at = 1
  while s.max_to_keep and #list - (best and best ~= list[#list] and 1 or 0) > s.max_to_keep and at < #list do
    if list[at] == best then
      at = at + 1
    else
      remove(table.remove(list, at))
    end
  end
end

--- Says so where TensorFlow 1's order is written, saver:save(sess, path, step).
local function as_in_python(prefix, opts, step, what)
  if getmetatable(prefix) == session_of_runs and type(opts) == 'string' then
    errors.bad("%s: the path comes first: saver:%s('%s', {session = s%s})", what, what:match '%w+$', opts, step ~= nil
               and ', step = n' or '')
  end
end

--- saver:save(prefix, {step =, session =, metric =, metadata =}): writes a checkpoint and removes the oldest beyond
-- max_to_keep; gives its path.
-- Its folder is made if it is not there.
function methods.save(s, prefix, opts, ...)
  as_in_python(prefix, opts, (...), 'Saver:save')
  opts = errors.options(opts, 'Saver:save', { 'step', 'session', 'metric', 'metadata' })
  files.path(prefix, 'Saver:save')
  s:wait()
  if s.direction and type(opts.metric) ~= 'number' then
    errors.bad("save: this Saver keeps the best checkpoint: metric is a number, not %s", errors.describe(opts.metric))
  end
  if opts.metric ~= nil and type(opts.metric) ~= 'number' then
    errors.bad('Saver:save: metric is a number, not %s', errors.describe(opts.metric))
  end
  local vars, _, g = checkpoint.variables_of(s.variables, opts.session and checkpoint.session_of(opts.session, nil,
      'Saver:save').graph, 'Saver:save')
  local session = checkpoint.session_of(opts.session, g, 'Saver:save')
  local step = step_of(opts.step, session)
  local list = list_of(s, prefix)
  local path = step and ('%s-%.0f.safetensors'):format(prefix, step) or prefix .. '.safetensors'
  local folder = path:match '^(.*)/[^/]*$'
  if folder and folder ~= '' then files.make_folder(folder) end
  local metadata = checkpoint.metadata_of(opts, 'Saver:save', {})
  if step then metadata['dflow.step'] = ('%.0f'):format(step) end
  if opts.metric then metadata['dflow.metric'] = ('%.17g'):format(opts.metric) end
  local what = { variables = vars, session = session, metadata = metadata, shard_bytes = s.shard_bytes,
                 queues = s.queues }
  if s.background then
    s.writing = { done = checkpoint.save_later(path, what), list = list, path = path, step = step,
                  metric = opts.metric }
  else
    written(s, list, checkpoint.save(path, what) or path, step, opts.metric)
  end
  return path
end

--- saver:wait(): waits until what is written in the background is on the disk; raises what went wrong.
function methods.wait(s)
  local w = s.writing
  s.writing = nil
  if w and w.done(true) then written(s, w.list, w.path, w.step, w.metric) end
end

--- saver:latest(prefix): the path of the checkpoint that was saved last (of those of other programs: the highest step),
-- nil where there is none.
function methods.latest(s, prefix)
  s:wait()
  local list = list_of(s, prefix)
  for i = #list, 1, -1 do
    if pcall(core.file_size, list[i].path) then return list[i].path end
  end
  list = found(prefix)
  s.kept[prefix] = nil
  return #list > 0 and list[#list].path or nil
end

--- saver:best(prefix): the path of the checkpoint with the best metric, and the metric; nil where none has one.
function methods.best(s, prefix)
  s:wait()
  if not s.direction then errors.bad("best: this Saver was made without best = 'min' or 'max'") end
  local e = best_of(s, list_of(s, prefix))
  if e then return e.path, e.metric end
end

--- saver:checkpoints(prefix): the paths that are kept, the oldest first.
function methods.checkpoints(s, prefix)
  s:wait()
  local paths = {}
  for i, e in ipairs(list_of(s, prefix)) do paths[i] = e.path end
  return paths
end

--- saver:restore(path, {session =, map =, partial =}): as df.restore, for this Saver's variables. The ending may be
-- left out.
function methods.restore(s, path, opts)
  as_in_python(path, opts, nil, 'Saver:restore')
  opts = errors.options(opts, 'Saver:restore', { 'session', 'map', 'partial' })
  files.path(path, 'Saver:restore')
  for _, ending in ipairs(ENDINGS) do
    if not pcall(core.file_size, path) and pcall(core.file_size, path .. ending) then path = path .. ending end
  end
  return checkpoint.restore(path, { variables = s.variables, session = opts.session, map = opts.map,
      partial = opts.partial, queues = s.queues })
end

errors.with_colons(methods, Saver, 'a Saver', 'saver')

return M
