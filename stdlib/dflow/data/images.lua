--- Pictures: PNG, JPEG and PNM files as Tensors, and folders of them, in which a folder is a class.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local files = require 'dflow.exchange.file'

local M = {}
local Images = { __name = 'dflow.Source' }
Images.__index = Images
Images.__tostring = function(s) return ('images: %d of %d classes'):format(#s.paths, #s.classes) end
local endings = { png = true, jpg = true, jpeg = true, pnm = true, pbm = true, pgm = true, ppm = true }

local function channels_of(opts, what)
  local n = opts.channels or 0
  if type(n) ~= 'number' or n < 0 or n > 4 or n % 1 ~= 0 then
    errors.bad('%s: channels is 0 to 4, not %s', what, errors.describe(n))
  end
  return n
end

local function read(path, channels)
  local ok, t = pcall(core.decode_image, core.tensor_bytes(core.read_file(path)), channels)
  if ok then return t end
  if errors.is(t) then t.message = errors.shown(path .. ': ' .. t.message) end
  error(t, 0)
end

--- df.data.image(path, {channels = 0}): a picture as uint8[height, width, channels]. What is wrong with it is an error
-- that names the file.
function M.image(path, opts)
  opts = errors.options(opts, 'image', { 'channels' })
  return read(files.path(path, 'image'), channels_of(opts, 'image'))
end

--- The names in a folder: pictures, and folders.
local function look(folder)
  local pictures, folders = {}, {}
  for _, name in ipairs(core.tensor_list(core.folder_list(folder))) do
    if name:sub(-1) == '/' then
      folders[#folders + 1] = name:sub(1, -2)
    elseif endings[(name:match '%.(%w+)$' or ''):lower()] then
      pictures[#pictures + 1] = folder .. '/' .. name
    end
  end
  return pictures, folders
end

--- df.data.images(path, {channels = 0, classes =}): a source of (picture, class, path).
-- @param path     a folder, whose folders are the classes, in the order of their names (a folder without folders is one
--                 class), or a list of paths
-- @param classes  the names of the folders to take, in the order of their numbers
function M.images(path, opts)
  opts = errors.options(opts, 'images', { 'channels', 'classes' })
  local channels = channels_of(opts, 'images')
  local paths, numbers, classes = {}, {}, {}
  local function add(list, class)
    for _, p in ipairs(list) do
      paths[#paths + 1] = p
      numbers[#paths] = class
    end
  end
  if errors.is_data(path) then
    if opts.classes ~= nil then errors.bad('images: classes are folders in a folder, and a list of paths is given') end
    for _, p in ipairs(path) do files.path(p, 'images') end
    classes[1] = ''
    add(path, 0)
  else
    local folder = #files.path(path, 'images') > 1 and path:gsub('/+$', '') or path
    local pictures, folders = look(folder)
    if opts.classes ~= nil then
      if not errors.is_data(opts.classes) then
        errors.bad('images: classes is a list of names, not %s', errors.describe(opts.classes))
      end
      folders = opts.classes
    end
    if #folders == 0 then
      classes[1] = folder:match '[^/]*$'
      add(pictures, 0)
    end
    for i, name in ipairs(folders) do
      classes[i] = name
      add(look(folder .. '/' .. tostring(name)), i - 1)
    end
    if #paths == 0 then errors.raise('not_found', 'images: there is no PNG, JPEG or PNM file in %s', path) end
  end
  return setmetatable({ what = 'images', paths = paths, numbers = numbers, classes = classes, open = function()
    local i = 0
    return function()
      i = i + 1
      if paths[i] then return read(paths[i], channels), numbers[i], paths[i] end
    end
  end }, Images)
end

Images.__call = function(s)
  s.pull = s.pull or s.open()
  return s.pull()
end

return M
