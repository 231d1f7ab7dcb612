--- df.summary: what TensorBoard shows: event files of scalars, histograms, images, texts, the graph and its run times.
--
-- An event file grows while a run is watched, so it is no file that is written whole: it is a list of records with
-- checksums, each written at once, and what a killed process leaves can be read up to its last record. Formats:
-- tensorflow/core/util/event.proto and framework/summary.proto.
local core = require 'dflow.backend'
local wire = require 'dflow.exchange.wire'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local graph = require 'dflow.front.graph'
local tensor = require 'dflow.front.tensor'
local records = require 'dflow.data.records'
local files = require 'dflow.exchange.file'
local png = require 'dflow.exchange.png'
local events = require 'dflow.summary.events'

local M = {}
local Writer = { __name = 'dflow.FileWriter' }
local methods = {}
Writer.__index = methods
Writer.__tostring = function(w) return 'FileWriter of ' .. w.path end
local Tensor = tensor.Tensor

-- ---- protocol buffers -----------------------------------------------------------------------------------------------
local number, bytes = wire.int, wire.bytes
local function doubles(list) return core.tensor_bytes(core.tensor_new(dtypes.number.float64, { #list }, list)) end
local function double(field, v) return wire.fixed64(field, doubles{ v }) end
local function float(field, v)
  return wire.fixed32(field, core.tensor_bytes(core.tensor_new(dtypes.number.float32, { 1 }, { v })))
end

-- ---- writing --------------------------------------------------------------------------------------------------------
local opened = 0

--- Adds a record, whole: where there was no room for all of it, the half of it ends the file, as readers expect of one
-- whose writer died, and what comes goes to another file of the folder.
local function add(w, event)
  local ok, why = w.file:write(records.frame(double(1, os.time()) .. event))
  if ok then return end
  w.file:close()
  w.file = nil
  errors.raise('resource_exhausted', 'summary: cannot write %s: %s', w.path, why)
end

--- Opens the next event file of a writer's folder.
local function open(w)
  opened = opened + 1
  w.path = ('%s/events.out.tfevents.%010d.%06d.%d')
    :format(w.folder, os.time(), math.floor(core.clock() * 1e6) % 1e6, opened)
  local file, why = io.open(w.path, 'wb')
  if not file then errors.raise('permission_denied', 'FileWriter: cannot write %s', why) end
  file:setvbuf 'no'                            -- a record is written at once
  w.file = file
  add(w, bytes(3, 'brain.Event:2'))
end

local function put(w, event)
  if w.closed then errors.raise('failed_precondition', 'summary: the file %s is closed', w.path) end
  if not w.file then open(w) end
  add(w, event)
end

--- df.summary.FileWriter(folder, {graph =}): a writer of an event file in a folder, which is made if it is not there. A
-- Graph in place of the options is the graph, as in TensorFlow's Python.
-- Its methods: w:scalar(tag, v, step), w:histogram(tag, t, step), w:image(tag, t, step), w:text(tag, s, step),
-- w:graph(g),
-- w:run_metadata(tag, h, step), w:close().
function M.FileWriter(folder, opts)
  files.path(folder, 'FileWriter')
  if getmetatable(opts) == graph.Graph then opts = { graph = opts } end
  opts = errors.options(opts, 'FileWriter', { 'graph' })
  files.make_folder(folder)
  local w = setmetatable({ folder = (folder:gsub('(.)/+$', '%1')), closed = false }, Writer)
  open(w)
  events.note(w.folder)
  if opts.graph then w:graph(opts.graph) end
  return w
end

local function tag_of(tag, what)
  if type(tag) ~= 'string' or tag == '' then errors.bad('%s: the tag is a name, not %s', what, errors.describe(tag)) end
  return tag
end

local function step_of(step, what)
  if type(step) ~= 'number' or step < 0 or not dtypes.is_whole(step) then
    errors.bad('%s: step is a whole number from 0 up, not %s', what, errors.describe(step))
  end
  return number(2, step)
end

local function value(w, what, tag, step, body)
  tag = tag_of(tag, what)
  put(w, step_of(step, what) .. bytes(5, bytes(1, bytes(1, tag) .. body)))
end

--- Numbers as a list.
local function numbers_of(v, what)
  if type(v) == 'number' then return { v }, {} end
  if getmetatable(v) ~= Tensor then v = tensor.from(v, nil, nil, what) end
  local d = core.tensor_info(v)
  if dtypes.is_boxed(d) then errors.bad('%s: numbers are expected, not %s', what, v.dtype) end
  local list = core.tensor_list(v)
  for i, x in ipairs(list) do
    if type(x) == 'boolean' then list[i] = x and 1 or 0 end
  end
  return list, v.shape, v.dtype
end

--- w:scalar(tag, v, step): a point of a curve. v is a number or a Tensor of one.
function methods.scalar(w, tag, v, step)
  local list = numbers_of(v, 'scalar')
  if #list ~= 1 then errors.bad('scalar: one number is expected, not %d', #list) end
  value(w, 'scalar', tag, step, float(2, list[1]))
end

--- w:histogram(tag, t, step, {bins = 30}): how the elements of a Tensor are spread. Those that are not finite are left
-- out.
function methods.histogram(w, tag, t, step, opts)
  opts = errors.options(opts, 'histogram', { 'bins' })
  local bins = opts.bins or 30
  if type(bins) ~= 'number' or bins < 1 or not dtypes.is_whole(bins) then
    errors.bad('histogram: bins is a whole number from 1 up, not %s', errors.describe(bins))
  end
  local low, high, n, sum, squares, finite = math.huge, -math.huge, 0, 0, 0, {}
  for _, x in ipairs((numbers_of(t, 'histogram'))) do
    if x == x and math.abs(x) < math.huge then
      low, high, n, sum, squares = math.min(low, x), math.max(high, x), n + 1, sum + x, squares + x * x
      finite[n] = x
    end
  end
  if n == 0 then low, high = 0, 0 end
  local limits, counts, width = {}, {}, (high - low) / bins
  for i = 1, bins do limits[i], counts[i] = low + width * i, 0 end
  limits[bins] = high
  for _, x in ipairs(finite) do
    local i = width > 0 and math.min(bins, math.floor((x - low) / width) + 1) or bins
    counts[i] = counts[i] + 1
  end
  value(w, 'histogram', tag, step, bytes(5, double(1, low) .. double(2, high) .. double(3, n) .. double(4, sum)
                                         .. double(5, squares)
                                          .. bytes(6, doubles(limits)) .. bytes(7, doubles(counts))))
end

--- w:image(tag, t, step): t is [height, width], [height, width, channels] or [batch, height, width, channels] with 1 to
--- 4 channels; uint8, or floats from 0 to 1.
function methods.image(w, tag, t, step)
  if getmetatable(t) ~= Tensor then t = tensor.from(t, nil, nil, 'image') end
  local list, shape, d = numbers_of(t, 'image')
  if #shape == 2 then shape = { 1, shape[1], shape[2], 1 } elseif #shape == 3 then shape = { 1, shape[1], shape[2],
      shape[3] } end
  if #shape ~= 4 or shape[4] < 1 or shape[4] > 4 or shape[2] < 1 or shape[3] < 1 then
    errors.bad('image: [height, width], [height, width, channels] or [batch, height, width, channels] is expected, '
               .. 'not %s', tensor.shape_text(t.dtype, t.shape))
  end
  local scale, out = (d ~= 'uint8') and 255 or 1, {}
  local each = shape[2] * shape[3] * shape[4]
  for i, x in ipairs(list) do
    x = x == x and math.floor(x * scale + 0.5) or 0
    out[i] = string.char(math.max(0, math.min(255, x)))
  end
  for k = 0, shape[1] - 1 do
    local picture = png.write(shape[2], shape[3], shape[4], table.concat(out, '', k * each + 1, (k + 1) * each))
    value(w, 'image', shape[1] > 1 and ('%s/image/%d'):format(tag, k) or tag .. '/image', step,
          bytes(4, number(1, shape[2]) .. number(2, shape[3]) .. number(3, shape[4]) .. bytes(4, picture)))
  end
end

--- w:text(tag, s, step): a text, which may be Markdown.
function methods.text(w, tag, s, step)
  if type(s) ~= 'string' then errors.bad('text: a string is expected, not %s', errors.describe(s)) end
  value(w, 'text', tag, step, bytes(8, number(1, 7) .. bytes(2, bytes(2, number(1, 1))) .. bytes(8, s))
        .. bytes(9, bytes(1, bytes(1, 'text'))))
end

--- w:graph(g?): the graph, the default one unless given.
function methods.graph(w, g)
  g = g or graph.current()
  if getmetatable(g) ~= graph.Graph then errors.bad('graph: a Graph is expected, not %s', errors.describe(g)) end
  local path = os.tmpname()
  local ok, why = pcall(graph.with, g, require('dflow.exchange.export').export_graph_def, path)
  local def = ok and core.tensor_bytes(core.read_file(path))
  os.remove(path)
  if not ok then error(why, 0) end
  put(w, bytes(4, def))
end

--- w:run_metadata(tag, h, step): the times of a run's nodes, which TensorBoard shows with the graph (written by
-- w:graph): of a node that ran more than once, in a loop, the sum. Dead tokens take none. h is a run of df.start or the
-- last one, begun with {log = true}.
function methods.run_metadata(w, tag, h, step)
  if getmetatable(h) ~= require('dflow.front.session').Run then
    errors.bad('run_metadata: a run such as df.start(y, feeds, {log = true}) is expected, not %s', errors.describe(h))
  end
  if not h:done() then
    errors.raise('failed_precondition', 'run_metadata: the run is not over; h:wait() waits for it')
  end
  local logged, event = require 'dflow.inspect.events', require 'dflow.backend.enums'
  local names, places = logged.names(h), logged.places_of(h)
  local ran, order, away = {}, {}, {}
  local function of(node, device, at)
    local key = node .. '@' .. device
    if not ran[key] then
      ran[key] = { node = node, device = math.max(device, 0), first = at, took = 0, times = 0 }
      order[#order + 1] = ran[key]
    end
    return ran[key]
  end
  logged.each(h, function(at, took, iteration, _, node, frame, _, kind, dead, device)
    if kind == event.DF_EVENT_TOKEN and not dead and device >= 0 then
      local r = of(node, device, at)
      r.times, r.took = r.times + 1, r.took + took
      away[logged.token(node, frame, iteration, device)] = at + took
    elseif kind == event.DF_EVENT_DONE and device >= 0 then       -- a worker had it since then
      local key = logged.token(node, frame, iteration, device)
      local r = of(node, device, at)
      r.took = r.took + at - (away[key] or at)
    end
  end)
  if #order == 0 then
    errors.raise('failed_precondition', 'run_metadata: the run has no log; start it with {log = true}')
  end
  local began, devices = os.time() * 1e6, {}
  for _, r in ipairs(order) do
    local micros = math.floor(r.took / 1000 + 0.5)
    local what = names.node(r.node)
    devices[r.device] = devices[r.device] or {}
    table.insert(devices[r.device], bytes(2, bytes(1, what.name) .. number(2, began + math.floor(r.first / 1000))
                                          .. number(4, micros) .. number(5, micros)
      .. bytes(8, r.times == 1 and what.type or ('%s, %.0f times'):format(what.type, r.times))))
  end
  local stats = {}
  for i, name in ipairs(places) do
    local list = devices[i - 1]
    local kind, at = name:match '^(%a+):(%d+)$'
    if list then
      stats[#stats + 1] = bytes(1, bytes(1, ('/job:localhost/replica:0/task:0/device:%s:%s'):format(kind:upper(), at))
                                .. table.concat(list))
    end
  end
  put(w, step_of(step, 'run_metadata')
      .. bytes(8, bytes(1, tag_of(tag, 'run_metadata')) .. bytes(2, bytes(1, table.concat(stats)))))
end

--- w:flush() and w:close(). Every event is on its way to the file when it was written.
function methods.flush(w) if w.file then w.file:flush() end end
function methods.close(w)
  if w.file then w.file:close() end
  w.file, w.closed = nil, true
end
Writer.__close = methods.close

errors.with_colons(methods, Writer, 'a FileWriter', 'w')

return errors.strict(M, 'df.summary')
