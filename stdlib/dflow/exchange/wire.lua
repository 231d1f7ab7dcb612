--- Bytes of whole numbers, and the wire format of protocol buffers: what ONNX, event files, records and Perfetto's
-- traces are made of.
local core = require 'dflow.backend'

local M = {}
local char, byte, sub, floor, concat = string.char, string.byte, string.sub, math.floor, table.concat

-- ---- little-endian --------------------------------------------------------------------------------------------------
--- The n bytes of a whole number, the lowest first; of a negative one those of its two's complement.
function M.little(v, n)
  local out, negative = {}, v < 0
  if negative then v = -(v + 1) end
  for i = 1, n do
    local low = v % 256
    out[i] = char(negative and 255 - low or low)
    v = floor(v / 256)
  end
  return concat(out)
end

--- The whole number, 0 or more, that n bytes of s are, from place `at` on.
function M.number(s, at, n)
  local v = 0.0                                 -- a float: a length of 2^63 is no negative one
  for i = n - 1, 0, -1 do v = v * 256 + byte(s, at + i) end
  return v
end

-- ---- fields, written ------------------------------------------------------------------------------------------------
--- A whole number as a varint; a negative one is the two's complement of 64 bits.
local function varint(v)
  v = floor(v)
  if v >= 0 and v < 128 then return char(v) end
  local out, n = {}, 0
  if v < 0 then
    v = -(v + 1)
    for i = 1, 9 do
      out[i] = char(255 - v % 128)
      v = floor(v / 128)
    end
    return concat(out) .. '\1'
  end
  repeat
    local low = v % 128
    v = floor(v / 128)
    n = n + 1
    out[n] = char(v > 0 and low + 128 or low)
  until v == 0
  return concat(out)
end
M.varint = varint

function M.int(field, v) return varint(field * 8) .. varint(v) end
function M.bytes(field, s) return varint(field * 8 + 2) .. varint(#s) .. s end
--- A field of eight bytes, and one of four.
function M.fixed64(field, bytes) return varint(field * 8 + 1) .. bytes end
function M.fixed32(field, bytes) return varint(field * 8 + 5) .. bytes end

-- ---- fields, read ---------------------------------------------------------------------------------------------------
-- What is wrong goes to `broken(text, …)`, which raises; `last` is where what is read must have ended.

--- The groups of seven bits of a varint, lowest first, and where the next thing begins.
local function groups_of(s, at, last, broken)
  local groups = {}
  for i = 1, 10 do
    local b = at <= last and byte(s, at)
    if not b then broken('a number is cut at byte %d', at - 1) end
    at = at + 1
    groups[i] = b % 128
    if b < 128 then return groups, at end
  end
  broken('a number is too long at byte %d', at - 1)
end

--- A varint as a signed number of 64 bits, and where the next thing begins.
local function read_varint(s, at, last, broken)
  local b = at <= last and byte(s, at)
  if b and b < 128 then return b, at + 1 end
  local groups, after = groups_of(s, at, last, broken)
  local negative, v = groups[10] and groups[10] % 2 == 1, 0
  for i = math.min(#groups, 9), 1, -1 do v = v * 128 + (negative and 127 - groups[i] or groups[i]) end
  return negative and -v - 1 or v, after
end
M.read_varint = read_varint

--- A varint as eight bytes, which a float would round.
function M.varint_bytes(s, at, last, broken)
  local groups, after = groups_of(s, at, last, broken)
  local out, acc, bits = {}, 0, 0
  for i = 1, 10 do
    acc = acc + (groups[i] or 0) * 2 ^ bits
    bits = bits + 7
    if bits >= 8 and #out < 8 then
      out[#out + 1] = char(acc % 256)
      acc, bits = floor(acc / 256), bits - 8
    end
  end
  return concat(out), after
end

--- Calls fn(field, kind, start, stop, number) for each field of a message, s from `at` to `last`: where its value lies,
-- and of a varint (kind 0) what it is. Kinds: 0 varint, 1 eight bytes, 2 as many as it says, 5 four.
function M.fields(s, at, last, broken, fn)
  while at <= last do
    local tag, start, stop, v
    tag, at = read_varint(s, at, last, broken)
    local field, kind = floor(tag / 8), tag % 8
    if field < 1 then broken('a field has the number %d at byte %d', field, at - 1) end
    if kind == 0 then
      start = at
      v, at = read_varint(s, at, last, broken)
      stop = at - 1
    elseif kind == 1 or kind == 5 then
      start, stop = at, at + (kind == 1 and 7 or 3)
    elseif kind == 2 then
      local n
      n, start = read_varint(s, at, last, broken)
      if n < 0 then broken('a field has the length %d at byte %d', n, at - 1) end
      -- start + n may be more than an integer holds
      stop = n > last - start + 1 and last + 1 or start + n - 1
    else
      broken('a field has the wire type %d at byte %d', kind, at - 1)
    end
    if stop > last then broken('a field ends after its message, at byte %d', start - 1) end
    at = stop + 1
    fn(field, kind, start, stop, v)
  end
end

-- ---- messages, read by a schema -------------------------------------------------------------------------------------
local DEEPEST = 60

local function float_of(bytes) return core.tensor_from_bytes(1, {}, bytes):item() end

local function read(schemas, schema, s, at, last, deep, broken)
  if deep > DEEPEST then broken('messages within messages are more than %d deep', DEEPEST) end
  local m = {}
  for _, f in pairs(schema) do if f[2]:sub(-1) == '*' then m[f[1]] = {} end end
  M.fields(s, at, last, broken, function(number, has, start, stop, v)
    local f = schema[number]
    if not f then return end
    local name, kind = f[1], f[2]
    local list = m[name]
    if kind == 'int' and has == 0 then m[name] = v
    elseif kind == 'float' and has == 5 then m[name] = float_of(sub(s, start, stop))
    elseif kind == 'bytes' and has == 2 then m[name] = sub(s, start, stop)
    elseif kind == 'message' and has == 2 then m[name] = read(schemas, schemas[f[3]], s, start, stop, deep + 1, broken)
    elseif kind == 'message*'
    and has == 2 then list[#list + 1] = read(schemas, schemas[f[3]], s, start, stop, deep + 1, broken)
    elseif kind == 'bytes*' and has == 2 then list[#list + 1] = sub(s, start, stop)
    elseif kind == 'raw*' and has ~= 0 then list[#list + 1] = sub(s, start, stop)
    elseif kind == 'float*' and (has == 2 or has == 5) then
      for i = start, stop - 3, 4 do list[#list + 1] = float_of(sub(s, i, i + 3)) end
    elseif kind == 'int*' and (has == 0 or has == 2) then
      local i = start
      while i <= stop do list[#list + 1], i = read_varint(s, i, stop, broken) end
    elseif kind == 'int8*' and (has == 0 or has == 2) then
      local i = start
      while i <= stop do list[#list + 1], i = M.varint_bytes(s, i, stop, broken) end
    else
      broken('the field %s has the wire type %d at byte %d', name, has, start - 1)
    end
  end)
  return m
end

--- The message of that kind that the bytes are, as a Lua table. schemas[kind][field number] = { name, kind of value,
-- kind of message }.
-- Kinds of values: int, float, bytes, message; with a star a list of them; int8* gives each varint as eight bytes, raw*
-- bytes as they are. Fields that the schema does not name are left out. Nothing is made that the bytes do not pay for;
-- nesting ends at DEEPEST.
function M.message(schemas, kind, bytes, broken) return read(schemas, schemas[kind], bytes, 1, #bytes, 1, broken) end

return M
