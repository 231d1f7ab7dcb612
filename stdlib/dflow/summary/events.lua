--- What event files hold, of one run or of several beside each other: curves, histograms and pictures by tag, read on
-- as the files grow.
--
-- Any program's event files will do, and damaged ones: a record that is none ends its file, and says so. What is kept
-- is bounded: of a curve every n-th point once there are more than POINTS, of a picture the last.
local core = require 'dflow.backend'
local wire = require 'dflow.exchange.wire'
local records = require 'dflow.data.records'
local dtypes = require 'dflow.front.dtypes'
local nest = require 'dflow.front.nest'
local png = require 'dflow.exchange.png'

local M = {}
local POINTS, STEPS, TAGS, RUNS = 400, 40, 1000, 40
local PIECE, LARGEST, PICTURE = 2 ^ 22, 2 ^ 26, 2 ^ 18        -- bytes of a look, of a record, of a picture
local DEEPEST, ENTRIES = 6, 4000                               -- folders within folders, names of one

local folders = {}                    -- into which this program writes

--- A writer writes into a folder.
function M.note(folder)
  for _, known in ipairs(folders) do if known == folder then return end end
  folders[#folders + 1] = folder
end

local SCHEMAS = {
  event = { [2] = { 'step', 'int' }, [5] = { 'summary', 'message', 'summary' } },
  summary = { [1] = { 'values', 'message*', 'value' } },
  value = { [1] = { 'tag', 'bytes' }, [2] = { 'scalar', 'float' }, [4] = { 'image', 'message', 'image' },
            [5] = { 'histogram', 'message', 'histogram' }, [8] = { 'tensor', 'message', 'tensor' } },
  image = { [1] = { 'height', 'int' }, [2] = { 'width', 'int' }, [4] = { 'png', 'bytes' } },
  histogram = { [6] = { 'limits', 'raw*' }, [7] = { 'counts', 'raw*' } },
  tensor = { [1] = { 'dtype', 'int' }, [4] = { 'content', 'bytes' }, [5] = { 'floats', 'float*' } },
}

-- ---- what is kept ---------------------------------------------------------------------------------------------------
--- A value at a step: the series keeps at most `most`, evenly, and the last. A step that was passed already is where a
-- training went on again.
local function note(series, step, v, most)
  while #series > 0 and (series[#series] == series.loose or series[#series].step >= step) do series[#series] = nil end
  series.every, series.seen = series.every or 1, (series.seen or 0) + 1
  local point = { step = step, v = v }
  series[#series + 1], series.loose = point, series.seen % series.every ~= 0 and point or nil
  if #series <= most then return end
  local n = #series
  for i = 1, n do series[i] = i < n and series[2 * i - 1] or nil end
  if series[#series] ~= point then series[#series + 1] = point end
  series.every = series.every * 2
end

local function of_tag(run, kind, tag)
  local list, reader = run[kind], run.reader
  if not list[tag] and reader.tags < TAGS then list[tag], reader.tags = {}, reader.tags + 1 end
  return list[tag]
end

local function doubles(pieces)
  local bytes = table.concat(pieces)
  if #bytes == 0 or #bytes % 8 ~= 0 or #bytes > 8 * 1024 then return nil end
  return core.tensor_list(core.tensor_from_bytes(dtypes.number.float64, { #bytes / 8 }, bytes))
end

--- The number of a tensor, which newer writers have for a scalar.
local function scalar_of(t)
  if t.dtype ~= 1 then return nil end
  if t.content and #t.content == 4 then return core.tensor_from_bytes(dtypes.number.float32, {}, t.content):item() end
  return #t.floats == 1 and t.floats[1] or nil
end

local function take_value(run, step, v)
  local tag = (v.tag or ''):sub(1, 200)
  local scalar = v.scalar or (v.tensor and scalar_of(v.tensor))
  if scalar then
    local series = of_tag(run, 'scalars', tag)
    if series then note(series, step, scalar, POINTS) end
  elseif v.histogram then
    local limits, counts = doubles(v.histogram.limits), doubles(v.histogram.counts)
    local series = limits and counts and #limits == #counts and of_tag(run, 'histograms', tag)
    if series then note(series, step, { limits = limits, counts = counts }, STEPS) end
  elseif v.image and v.image.png and #v.image.png <= PICTURE and v.image.png:sub(1, 4) == '\137PNG' then
    local series = of_tag(run, 'images', tag)
    if series then series[1] = { step = step, v = png.base64(v.image.png) } end
  end
end

-- ---- files ----------------------------------------------------------------------------------------------------------
--- The records of a file that are there whole and were not read yet.
local function read_on(run, path)
  local file = run.files[path] or { at = 0 }
  run.files[path] = file
  if file.broken then return false end
  local f = io.open(path, 'rb')
  if not f then return false end
  f:seek('set', file.at)
  local bytes = f:read(PIECE) or ''
  local function broken(what) file.broken = ('%s at byte %.0f'):format(what, file.at) end
  local at = 1
  while not file.broken do
    local data, after, needs = records.record_at(bytes, at)
    if needs and needs <= LARGEST then
      if needs == 12 or at > 1 then break end
      bytes = bytes .. (f:read(needs - #bytes) or '')
      if #bytes < needs then break end                         -- it is being written
    elseif not data then
      broken 'no record'
    else
      local ok, event = pcall(wire.message, SCHEMAS, 'event', data, function() error 'no event' end)
      if not ok then broken 'no event' break end
      for _, v in ipairs(event.summary and event.summary.values or {}) do take_value(run, event.step or 0, v) end
      file.at, at = file.at + after - at, after
    end
  end
  f:close()
  return at > 1 or file.broken ~= nil
end

--- The event files below a folder, by the folders that they lie in.
local function find(folder, found, deep)
  local ok, names = pcall(core.folder_list, folder)
  if not ok or deep > DEEPEST then return found end
  names = core.tensor_list(names)
  for i = 1, math.min(#names, ENTRIES) do
    local inner = names[i]:match '^(.*)/$'
    if inner then
      find(folder .. '/' .. inner, found, deep + 1)
    elseif names[i]:find('tfevents', 1, true) then
      found[folder] = found[folder] or {}
      table.insert(found[folder], folder .. '/' .. names[i])
    end
  end
  return found
end

local Reader = {}
Reader.__index = Reader

--- A reader of what lies in `folder` (nil: nowhere) and of what this program writes.
function M.reader(folder) return setmetatable({ folder = folder, runs = {}, order = {}, tags = 0 }, Reader) end

--- Reads on. Was there anything new?
function Reader:read()
  local found, changed = self.folder and find(self.folder, {}, 1) or {}, false
  for _, folder in ipairs(folders) do
    if not found[folder] then find(folder, found, DEEPEST) end
  end
  for _, folder in ipairs(nest.keys(found)) do
    local run = self.runs[folder]
    if not run and #self.order < RUNS then
      run = { reader = self, name = folder, files = {}, scalars = {}, histograms = {}, images = {} }
      self.runs[folder] = run
      table.insert(self.order, run)
    end
    table.sort(found[folder])
    for _, path in ipairs(run and found[folder] or {}) do changed = read_on(run, path) or changed end
  end
  return changed
end

--- A run's name: its folder, without what all of them begin with.
local function names_of(order)
  local common = #order > 1 and order[1].name:match '^(.*/)' or ''
  for _, run in ipairs(order) do
    while run.name:sub(1, #common) ~= common do common = common:match '^(.*/)[^/]+/$' or '' end
  end
  local names = {}
  for i, run in ipairs(order) do names[i] = run.name:sub(#common + 1) end
  return names
end

--- All of it for the page: {runs = {{name, broken}}, scalars = {{tag, run, points}}, histograms = …, images = …}, runs
-- by number from 0.
function Reader:shown()
  local json = require 'dflow.exchange.json'
  local names = names_of(self.order)
  local out = { runs = json.list(), scalars = json.list(), histograms = json.list(), images = json.list() }
  for i, run in ipairs(self.order) do
    local broken
    for path, file in pairs(run.files) do
      broken = broken or (file.broken and ('%s: %s'):format(path:match '[^/]*$', file.broken))
    end
    out.runs[i] = { name = names[i], broken = broken }
    for _, kind in ipairs{ 'scalars', 'histograms', 'images' } do
      for _, tag in ipairs(nest.keys(run[kind])) do
        local steps, values = json.list(), json.list()
        for k, point in ipairs(run[kind][tag]) do
          steps[k], values[k] = point.step, point.v
        end
        table.insert(out[kind], { tag = tag, run = i - 1, steps = steps, values = values })
      end
    end
  end
  return json.encode(out)
end

return M
