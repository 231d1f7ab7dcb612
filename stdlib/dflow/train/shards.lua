--- Checkpoints in several files: safetensors, and an index of them as Hugging Face writes it: {"metadata": {…},
-- "weight_map": {name = file}}.
--
-- The files of a save have names of their own and the index is written last, so that an index never names files of two
-- saves; those that the index before it named are removed after that.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local files = require 'dflow.exchange.file'
local json = require 'dflow.exchange.json'
local safetensors = require 'dflow.exchange.safetensors'

local M = {}
local saves = 0

local function split_path(path)
  local folder, base = path:match('^(.*/)([^/]*)$')
  return folder or '', base or path
end

local function is_there(path) return (pcall(core.file_size, path)) end

--- The index as a table, or an error that names it.
local function read_index(path)
  local bytes = core.tensor_bytes(core.read_file(path))
  local index, what, where = json.read(bytes, true)
  if type(index) ~= 'table' or type(index.weight_map) ~= 'table' then
    errors.raise('data_loss', '%s is no index of safetensors: %s', path, what and ('%s at byte %d'):format(what, where)
                 or 'it has no weight_map')
  end
  for _, name in ipairs(index.weight_map[0] or {}) do
    local file = index.weight_map[name]
    if type(file) ~= 'string' or file == '' or file:find '/' or file == '..' then
      errors.raise('data_loss', "%s: '%s' lies in %s, the name of a file beside it is expected", path, name,
                   errors.describe(file))
    end
  end
  return index
end

local function files_of(index)
  local list, seen = {}, {}
  for _, name in ipairs(index.weight_map[0] or {}) do
    local file = index.weight_map[name]
    if not seen[file] then
      seen[file] = true
      list[#list + 1] = file
    end
  end
  return list
end

--- Removes an index and the files it names.
function M.remove(path)
  local folder = split_path(path)
  local ok, index = pcall(read_index, path)
  os.remove(path)
  for _, file in ipairs(ok and files_of(index) or {}) do os.remove(folder .. file) end
end

--- Does the index name one of these files? It may though writing it failed: it had its name, but the disk did not say
-- that it keeps that.
local function names_any(path, list)
  local ok, index = pcall(read_index, path)
  local named = {}
  for _, file in ipairs(ok and files_of(index) or {}) do named[file] = true end
  for _, file in ipairs(list) do
    if named[file] then return true end
  end
  return false
end

--- The size that no file may exceed, checked.
function M.size(bytes, what)
  if type(bytes) ~= 'number' or not (bytes >= 1) then
    errors.bad('%s: shard_bytes is a number of bytes, not %s', what, errors.describe(bytes))
  end
  return bytes
end

--- Writes {name = Tensor} to files of at most `bytes` each (a larger tensor has one by itself) and path ..
-- '.index.json'.
-- @param rank_of  {name = rank} where each rank has files of its own; nil: all have the same
function M.write(path, list, metadata, bytes, rank_of)
  M.size(bytes, 'save')
  rank_of = rank_of or {}
  local names, groups, used, total, last = {}, {}, math.huge, 0, nil
  for name in pairs(list) do names[#names + 1] = name end
  table.sort(names, function(a, b)
    local x, y = rank_of[a] or 0, rank_of[b] or 0
    return x < y or x == y and a < b
  end)
  for _, name in ipairs(names) do
    local size = list[name].size * safetensors.width(list[name].dtype, name)
    if used + size > bytes or rank_of[name] ~= last then
      groups[#groups + 1] = {}
      used, last = 0, rank_of[name]
    end
    groups[#groups][name] = list[name]
    used, total = used + size, total + size
  end
  local folder, base = split_path(path)
  local stem, index_path = base:gsub('%.safetensors$', ''), path .. '.index.json'
  local before = is_there(index_path) and select(2, pcall(read_index, index_path)) or nil
  saves = saves + 1
  local id = ('%08x%04x'):format(os.time() % 2 ^ 32, (saves + math.floor(core.clock() * 1e6)) % 65536)
  local written, map = {}, {}
  local ok, why = pcall(function()
    for i, group in ipairs(groups) do
      local file = ('%s-%s-%05d-of-%05d.safetensors'):format(stem, id, i, #groups)
      safetensors.write(folder .. file, group, metadata)
      written[#written + 1] = file
      for name in pairs(group) do map[name] = file end
    end
    local lines = {}
    for i, name in ipairs(names) do lines[i] = ('    %s: %s'):format(json.quote(name), json.quote(map[name])) end
    files.write(index_path, ('{\n  "metadata": {"total_size": %.0f},\n  "weight_map": {\n')
      :format(total), table.concat(lines, ',\n'), '\n  }\n}\n')
  end)
  if not ok then
    if not names_any(index_path, written) then
      for _, file in ipairs(written) do os.remove(folder .. file) end
    end
    error(why, 0)
  end
  if type(before) == 'table' and before.weight_map then
    for _, file in ipairs(files_of(before)) do os.remove(folder .. file) end
  end
  return index_path
end

--- What the files of an index hold, as one: names, about, tensor, metadata.
function M.open(path)
  local index, folder = read_index(path), split_path(path)
  local opened, names = {}, {}
  for _, file in ipairs(files_of(index)) do opened[file] = safetensors.open(folder .. file) end
  for _, name in ipairs(index.weight_map[0] or {}) do
    local file = opened[index.weight_map[name]]
    if not file.entries[name] then
      errors.raise('data_loss', "%s says that '%s' lies in %s, which does not have it", path, name, file.path)
    end
    names[#names + 1] = name
  end
  local first = opened[files_of(index)[1] or '']
  local function file_of(name) return opened[index.weight_map[name]] end
  return { names = names, metadata = first and first.metadata or {},
           about = function(name) return file_of(name).entries[name] end,
           tensor = function(name) return safetensors.tensor(file_of(name), name) end }
end

return M
