--- JSON as the notebook's messages need it: strings are bytes, an empty table is an object unless it is M.list{}.
local M = {}

local list_mark = {}
--- A table that is written as a list, also when it is empty.
function M.list(t) return setmetatable(t or {}, list_mark) end
M.null = setmetatable({}, { __tostring = function() return 'null' end })

local escapes = { ['"'] = '\\"', ['\\'] = '\\\\', ['\n'] = '\\n', ['\r'] = '\\r', ['\t'] = '\\t', ['\b'] = '\\b', ['\f'] = '\\f' }
local function quoted(s)
  return '"' .. s:gsub('[%c"\\\127]', function(c) return escapes[c] or ('\\u%04x'):format(c:byte()) end) .. '"'
end

--- A value as JSON. A table with numbers from 1 up is a list.
function M.encode(v)
  local kind = type(v)
  if v == nil or v == M.null then return 'null' end
  if kind == 'string' then return quoted(v) end
  if kind == 'boolean' then return tostring(v) end
  if kind == 'number' then
    if v ~= v or v == math.huge or v == -math.huge then return 'null' end
    return v == math.floor(v) and math.abs(v) < 1e15 and ('%d'):format(v) or ('%.17g'):format(v)
  end
  if kind ~= 'table' then error('no JSON for a ' .. kind, 0) end
  local out = {}
  if getmetatable(v) == list_mark or v[1] ~= nil then
    for i = 1, #v do out[i] = M.encode(v[i]) end
    return '[' .. table.concat(out, ',') .. ']'
  end
  for key, x in pairs(v) do out[#out + 1] = quoted(tostring(key)) .. ':' .. M.encode(x) end
  table.sort(out)
  return '{' .. table.concat(out, ',') .. '}'
end

local DEEPEST = 200

local function utf8_of(code)
  if code < 0x80 then return string.char(code) end
  if code < 0x800 then return string.char(0xc0 + math.floor(code / 64), 0x80 + code % 64) end
  if code < 0x10000 then return string.char(0xe0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64) end
  return string.char(0xf0 + math.floor(code / 262144), 0x80 + math.floor(code / 4096) % 64, 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
end

local plain = { ['"'] = '"', ['\\'] = '\\', ['/'] = '/', b = '\b', f = '\f', n = '\n', r = '\r', t = '\t' }

--- The value of a JSON text; an error that names the place of a mistake.
function M.decode(text)
  local at = 1
  local function fail(what) error(('JSON: %s at byte %d'):format(what, at), 0) end
  local value
  local function skip() at = text:find('%S', at) or #text + 1 end
  local function string_()
    local out = {}
    at = at + 1
    while true do
      local stop = text:find('["\\]', at)
      if not stop then fail 'a string does not end' end
      out[#out + 1] = text:sub(at, stop - 1)
      at = stop + 1
      if text:sub(stop, stop) == '"' then return table.concat(out) end
      local c = text:sub(at, at)
      if plain[c] then
        out[#out + 1] = plain[c]
        at = at + 1
      elseif c == 'u' then
        local code = tonumber(text:match('^%x%x%x%x', at + 1) or fail 'a bad escape', 16)
        at = at + 5
        if code >= 0xd800 and code < 0xdc00 then
          local low = text:match('^\\u(%x%x%x%x)', at)
          low = low and tonumber(low, 16)
          if low and low >= 0xdc00 and low < 0xe000 then
            code = 0x10000 + (code - 0xd800) * 1024 + low - 0xdc00
            at = at + 6
          end
        end
        out[#out + 1] = utf8_of(code)
      else
        fail 'a bad escape'
      end
    end
  end
  function value(depth)
    if depth > DEEPEST then fail 'too deep' end
    skip()
    local c = text:sub(at, at)
    if c == '"' then return string_() end
    if c == '{' or c == '[' then
      local t = c == '[' and M.list{} or {}
      at = at + 1
      skip()
      local close = c == '[' and ']' or '}'
      if text:sub(at, at) == close then
        at = at + 1
        return t
      end
      while true do
        if c == '[' then
          t[#t + 1] = value(depth + 1)
        else
          skip()
          if text:sub(at, at) ~= '"' then fail 'a key is expected' end
          local key = string_()
          skip()
          if text:sub(at, at) ~= ':' then fail 'a colon is expected' end
          at = at + 1
          t[key] = value(depth + 1)
        end
        skip()
        local sign = text:sub(at, at)
        at = at + 1
        if sign == close then return t end
        if sign ~= ',' then fail 'a comma is expected' end
      end
    end
    for word, v in pairs{ ['true'] = true, ['false'] = false, null = M.null } do
      if text:sub(at, at + #word - 1) == word then
        at = at + #word
        return v
      end
    end
    local number = text:match('^-?%d+%.?%d*[eE]?[+-]?%d*', at)
    if not number or not tonumber(number) then fail 'a value is expected' end
    at = at + #number
    return tonumber(number)
  end
  local v = value(0)
  skip()
  if at <= #text then fail 'the text goes on' end
  return v
end

return M
