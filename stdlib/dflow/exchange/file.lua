--- Files that are there whole or not at all: everything that dflow writes goes through here.
--
-- What is written lies beside the target until it is complete and on the disk, and then takes its name: see
-- runtime/base/writer.c. Errors name the path and what the system said; their code is permission_denied, not_found,
-- resource_exhausted (the disk is full) and so on.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'

local M = {}
local File = { __name = 'dflow.File' }
local methods = {}
File.__index = methods

--- A path, or an error that says what was given.
function M.path(path, what)
  if type(path) ~= 'string' then
    errors.bad('%s: a path is expected, not %s', what or 'write', errors.describe(path))
  end
  if path == '' then errors.bad('%s: the path is empty', what or 'write') end
  if path:find('\0', 1, true) then errors.bad('%s: the path %q holds a zero byte', what or 'write', path) end
  return path
end

--- Makes a folder, and those that it lies in, where it is not there; raises what is wrong with it.
function M.make_folder(folder)
  if pcall(core.folder_list, folder) then return end
  os.execute(("mkdir -p -- '%s' 2>/dev/null"):format(folder:gsub("'", "'\\''")))
  core.folder_list(folder)
end

--- The results of a call, whose errors begin with what the file is for.
local function named(what, ok, ...)
  if ok then return ... end
  local e = ...
  if what and errors.is(e) then e.message = what .. ': ' .. e.message end
  error(e, 0)
end

--- A new file; it is there once f:commit() was called, and never was if it is not.
-- @param what  for messages: 'trace'
function M.create(path, what)
  return setmetatable({ handle = named(what, pcall(core.file_create, M.path(path, what))), what = what }, File)
end

--- f:write(…): strings and Tensors (their elements' bytes), one after another.
function methods.write(f, ...)
  for i = 1, select('#', ...) do named(f.what, pcall(core.file_write, f.handle, (select(i, ...)))) end
  return f
end

--- The file takes its name. When that fails nothing has changed.
function methods.commit(f) named(f.what, pcall(core.file_commit, f.handle)) end

--- The file is given up.
function methods.discard(f) core.close(f.handle) end

--- Calls fn(f), and commits; where fn raises, or the disk is full, what was there stays.
function M.with(path, fn, what)
  local f = M.create(path, what)
  local ok, why = pcall(fn, f)
  if not ok then
    f:discard()
    error(why, 0)
  end
  f:commit()
end

--- Writes the strings and Tensors, one after another.
function M.write(path, ...)
  local n, parts = select('#', ...), { ... }
  M.with(path, function(f)
    for i = 1, n do f:write(parts[i]) end
  end)
end

--- Can this file be written? Better asked before long work than after. Raises what writing it would; leaves nothing.
function M.probe(path, what)
  M.create(path, what):discard()
end

return M
