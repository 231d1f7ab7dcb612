--- damaged.lua: what each reader makes of files that are damaged in an orderly way, for spec/exchange/damaged_spec.lua:
--   dflow spec/damaged.lua        in an empty folder; prints `KIND: what is wrong` for each that is, and `KIND N files, N messages` of each kind
-- A file of a kind (fuzz_kinds.lua) is read with a byte changed, one too few, one too many, and cut off, at places all over it.
local df = require 'dflow'
local shell = require 'spec.shell'
local TRIES = 300

local function set(text)
  local list = {}
  for word in text:gmatch '%S+' do list[word] = true end
  return list
end

local CODES = set 'data_loss unimplemented invalid_argument not_found out_of_range resource_exhausted failed_precondition'
-- Of these nothing is read that has a byte too few or too many; of those nothing that has another byte; and of most nothing that was cut off.
local COUNTED = set 'npy idx safetensors restore tfrecord events jpeg onnx hlo graphdef meta saved_v1 saved_v2 saved_keras'
local SEALED = set 'tfrecord events checkpoint_data'
local OPEN = set 'csv text json pbtxt'
local AT_RECORDS = set 'tfrecord events png gzip'          -- what is cut behind all that is read, or between records, is whole
local SAYS = { shards = './' }                             -- what is said to be missing may be another file

--- A byte is another, or not there, or there twice, or the end is.
local function damages(bytes, at)
  local before, after, byte = bytes:sub(1, at - 1), bytes:sub(at + 1), bytes:byte(at)
  return { { 'changed', before .. string.char((byte + 1) % 256) .. after }, { 'changed', before .. (byte == 255 and '\0' or '\255') .. after }, { 'lost', before .. after },
           { 'added', before .. string.char(byte, byte) .. after }, { 'cut', before } }
end

for _, kind in ipairs(require 'spec.fuzz_kinds') do
  local seeds, name, path = kind.seeds(), kind.name, kind.path or './fuzzed' .. (kind.ending or '')
  local files, messages, count, cut = 0, {}, 0, 0
  local function try(how, bytes, mended)
    if not kind.write then shell.write(path, bytes) end
    local ok, e = pcall(kind.read, kind.write and kind.write(bytes) or path, bytes)
    local function wrong(what) print(('%s: %s, %s: %s'):format(name, how, what, tostring(type(e) == 'table' and e.message or e))) end
    files = files + 1
    if ok then
      if how == 'cut' then cut = cut + 1 end
      if COUNTED[name] and (how == 'lost' or how == 'added') and not mended then wrong 'and it is read' end
      if SEALED[name] and how == 'changed' and not mended then wrong 'and it is read' end
      if how == 'cut' and not mended and not OPEN[name] and not AT_RECORDS[name] then wrong 'and it is read' end
      return
    end
    if how == 'whole' then return wrong 'and it is not read' end
    if type(e) ~= 'table' or not CODES[e.code] then return wrong 'which is no error of a reader' end
    if not e.message:find(SAYS[name] or path:match '^%./[^/.]*', 1, true) and not e.message:find '^the record is no' then wrong 'which does not name the file' end
    if e.message:find '%s$' or e.message:find '^%s' or #e.message < 20 then wrong 'which says little' end
    local key = e.message:gsub("'[^']*'", ''):gsub('`[^`]*`', ''):gsub('"[^"]*"', ''):gsub('%d+', ''):sub(1, 120)
    if not messages[key] then messages[key], count = true, count + 1 end
  end
  for _, bytes in ipairs(seeds) do
    try('whole', bytes)
    local step = math.max(1, math.ceil(#bytes * 5 * #seeds / TRIES))
    for at = 1, #bytes, step do
      for _, d in ipairs(damages(bytes, at)) do
        try(d[1], d[2])
        if kind.mend then try(d[1], kind.mend(d[2]), true) end
      end
    end
    df.reset()
  end
  if AT_RECORDS[name] and cut > files / 10 then print(name .. ': cut, and often read') end
  print(('%s %d files, %d messages'):format(name, files, count))
end
