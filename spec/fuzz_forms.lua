--- fuzz_forms.lua: changes of what a file says, for fuzz_files.lua. The file stays well formed: lengths, offsets and checksums fit, and
-- a number, a name or a part is hostile, missing, there twice or another one's.
local json = require 'dflow.exchange.json'
local records = require 'dflow.data.records'
local chance = require 'spec.chance'
local draw, one_of = chance.draw, chance.one_of

local M = {}

local words = { '', '/', '../x', 'x', '\0', '\255', '%s%n', 'a b', '-1', ('long'):rep(300), '^x', 'x:1', 'x:99999999999', 'float32', 'NaN' }
local numbers = { 0, -1, 1, 2, 3, -2, 7, 64, 255, 65536, 2 ^ 31 - 1, 2 ^ 31, -2 ^ 31, 2 ^ 40, 2 ^ 53, -2 ^ 63, 2 ^ 63, 1e308, 0.5, -1e-300 }

--- Leaves one of a list out, writes it twice, or lets two change places; the list is not empty.
local function shuffled(list)
  local how, i, k = draw(3), draw(#list) + 1, draw(#list) + 1
  if how == 0 then table.remove(list, i)
  elseif how == 1 then table.insert(list, k, list[i])
  else list[i], list[k] = list[k], list[i] end
end

-- ---- messages of protobuf -------------------------------------------------------------------------------------------------
local VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5

local function varint(v)
  local out = {}
  while v >= 128 do out[#out + 1], v = string.char(v % 128 + 128), math.floor(v / 128) end
  return table.concat(out) .. string.char(v)
end
local seven = string.char(255)
--- Whole numbers of 64 bits as they are written: small ones, and those at the ends of what 31, 32, 63 and 64 bits hold.
local varints = { varint(0), varint(1), varint(2), varint(3), varint(4), varint(7), varint(64), varint(127), varint(65536), varint(2 ^ 31 - 1), varint(2 ^ 31),
                  varint(2 ^ 40), varint(2 ^ 32 - 1), seven:rep(8) .. string.char(127), seven:rep(9) .. string.char(1),
                  string.char(128):rep(9) .. string.char(1), string.char(254) .. seven:rep(8) .. string.char(1) }
local fixed = { [EIGHT] = 8, [FOUR] = 4 }

--- The fields of a message: {field, kind, bytes}; nil where the bytes are none.
local function parse(bytes)
  local list, at = {}, 1
  while at <= #bytes do
    local raw, after = bytes:match('^([\128-\255]*[%z\1-\127])()', at)
    if not raw or #raw > 4 then return nil end
    local tag, scale = 0, 1
    for i = 1, #raw do tag, scale = tag + raw:byte(i) % 128 * scale, scale * 128 end
    local entry = { field = math.floor(tag / 8), kind = tag % 8, head = raw }
    if entry.field == 0 then return nil end
    if entry.kind == VARINT then entry.bytes, at = bytes:match('^([\128-\255]*[%z\1-\127])()', after)
    elseif fixed[entry.kind] then
      entry.bytes, at = bytes:sub(after, after + fixed[entry.kind] - 1), after + fixed[entry.kind]
      if #entry.bytes < fixed[entry.kind] then return nil end
    elseif entry.kind == BYTES then
      local length, from = bytes:match('^([\128-\255]*[%z\1-\127])()', after)
      if not length or #length > 4 then return nil end
      local n, by = 0, 1
      for i = 1, #length do n, by = n + length:byte(i) % 128 * by, by * 128 end
      entry.bytes, at = bytes:sub(from, from + n - 1), from + n
      if #entry.bytes < n then return nil end
    else return nil end
    if not entry.bytes then return nil end
    list[#list + 1] = entry
  end
  return list
end

local function written(list)
  local out = {}
  for i, e in ipairs(list) do out[i] = e.head .. (e.kind == BYTES and varint(#e.bytes) or '') .. e.bytes end
  return table.concat(out)
end

local function is_text(bytes) return #bytes > 0 and not bytes:find '[^%w_/:%.%-%^ ]' end

--- The texts in a message and those in it: names that may stand in each other's place.
local function texts(bytes, into, depth)
  for _, e in ipairs(depth < 12 and parse(bytes) or {}) do
    if e.kind == BYTES and is_text(e.bytes) then into[#into + 1] = e.bytes
    elseif e.kind == BYTES then texts(e.bytes, into, depth + 1) end
  end
  return into
end

local function changed(bytes, names, depth)
  local list = parse(bytes)
  if not list or #list == 0 then return nil end
  if draw(6) == 0 then
    shuffled(list)
    return written(list)
  end
  local e = one_of(list)
  local inside = e.kind == BYTES and not is_text(e.bytes) and depth < 12 and draw(8) > 0 and changed(e.bytes, names, depth + 1)
  if inside then e.bytes = inside
  elseif e.kind == VARINT then e.bytes = one_of(varints)
  elseif fixed[e.kind] then e.bytes = one_of{ '\0', '\255', '\127', '\128' }:rep(fixed[e.kind])
  elseif is_text(e.bytes) or #e.bytes == 0 then e.bytes = draw(3) > 0 and #names > 0 and one_of(names) or one_of(words)
  else                                                       -- packed numbers, or the elements of a tensor
    local how = draw(3)
    if how == 0 then e.bytes = e.bytes:sub(1, draw(#e.bytes + 1))
    else
      e.bytes = how == 1 and e.bytes or ''
      for _ = 0, draw(4) do e.bytes = e.bytes .. one_of(varints) end
    end
  end
  return written(list)
end

--- A message of protobuf with one to four changes.
function M.protobuf(bytes)
  local names = texts(bytes, {}, 0)
  for _ = 0, draw(4) do bytes = changed(bytes, names, 0) or bytes end
  return bytes
end

--- Records whose contents are messages.
function M.records(bytes)
  local out, at = {}, 1
  while at + 15 <= #bytes do
    local length = bytes:byte(at) + 256 * bytes:byte(at + 1)
    out[#out + 1], at = bytes:sub(at + 12, at + 11 + length), at + 16 + length
  end
  if #out == 0 then return bytes end
  local i = draw(#out) + 1
  out[i] = M.protobuf(out[i])
  if draw(4) == 0 then shuffled(out) end
  for k, one in ipairs(out) do out[k] = records.frame(one) end
  return table.concat(out)
end

-- ---- JSON -----------------------------------------------------------------------------------------------------------------
local function is_list(v) return getmetatable(v) == getmetatable(json.list{}) end

local function another(v, all)
  local kind = draw(8)
  if kind == 0 then return one_of(all) end
  if kind == 1 then return json.null end
  if kind == 2 then return json.list{} end
  if kind == 3 then return {} end
  if type(v) == 'string' then return draw(2) == 0 and one_of(words) or one_of(numbers) end
  return draw(6) == 0 and one_of(words) or one_of(numbers)
end

local function gathered(v, into)
  into[#into + 1] = v
  if type(v) == 'table' then for _, e in pairs(v) do gathered(e, into) end end
  return into
end

--- A value of JSON with one change in it: where there are parts, mostly in one of them.
function M.value(v, all)
  all = all or gathered(v, {})
  if type(v) ~= 'table' or v == json.null or next(v) == nil or draw(12) == 0 then return another(v, all) end
  if is_list(v) and draw(4) == 0 then
    local copy = json.list{}
    for i, e in ipairs(v) do copy[i] = e end
    shuffled(copy)
    return copy
  end
  local keys, copy = {}, is_list(v) and json.list{} or {}
  for key, e in pairs(v) do keys[#keys + 1], copy[key] = key, e end
  table.sort(keys)
  local key = one_of(keys)
  local how = is_list(v) and 9 or draw(10)
  if how == 0 then copy[key] = nil
  elseif how == 1 then copy[one_of(words)] = copy[key]
  else copy[key] = M.value(copy[key], all) end
  return copy
end

--- A text of JSON with one to three changes.
function M.json(text)
  local ok, v = pcall(json.decode, text)
  if not ok then return text end
  for _ = 0, draw(3) do v = M.value(v) end
  local fine, out = pcall(json.encode, v)
  return fine and out or text
end

--- A file of safetensors: a length, a header in JSON and the elements.
function M.safetensors(bytes)
  if #bytes < 8 then return bytes end
  local n = bytes:byte(1) + 256 * bytes:byte(2)
  local header = M.json((bytes:sub(9, 8 + n):gsub('%s+$', '')))
  return string.char(#header % 256, math.floor(#header / 256) % 256, 0, 0, 0, 0, 0, 0) .. header .. bytes:sub(9 + n)
end

return M
