--- JSON: what notebooks, safetensors and pages about runs are told in. Strings are bytes; an empty table is an object
-- unless it is M.list{}.
local M = {}
local DEEPEST = 200

local list_mark = {}
--- A table that is written as a list, also when it is empty.
function M.list(t) return setmetatable(t or {}, list_mark) end
M.null = setmetatable({}, { __tostring = function() return 'null' end })

-- ---- writing --------------------------------------------------------------------------------------------------------
local escapes = { ['"'] = '\\"', ['\\'] = '\\\\', ['\n'] = '\\n', ['\r'] = '\\r', ['\t'] = '\\t', ['\b'] = '\\b',
                  ['\f'] = '\\f' }

--- A string as JSON; it may stand in a script of a page.
local function quote(s)
  return '"' .. s:gsub('[%c"\\<]', function(c) return escapes[c] or ('\\u%04x'):format(c:byte()) end) .. '"'
end
M.quote = quote

local function number_text(v)
  if v ~= v or v == math.huge or v == -math.huge then return 'null' end
  return v == math.floor(v) and math.abs(v) < 1e15 and ('%.0f'):format(v) or ('%.17g'):format(v)
end

--- A value as JSON, keys sorted. A table with numbers from 1 up is a list.
-- @param how  {number = function(number) -> text, empty = '[]': what an empty table is}; nil: all digits, {}
function M.encode(v, how)
  local kind = type(v)
  if v == nil or v == M.null then return 'null' end
  if kind == 'string' then return quote(v) end
  if kind == 'boolean' then return tostring(v) end
  if kind == 'number' then return (how and how.number or number_text)(v) end
  if kind ~= 'table' then error('no JSON for a ' .. kind, 0) end
  local out = {}
  if getmetatable(v) == list_mark or v[1] ~= nil then
    for i = 1, #v do out[i] = M.encode(v[i], how) end
    return '[' .. table.concat(out, ',') .. ']'
  end
  if next(v) == nil then return how and how.empty or '{}' end
  for key, x in pairs(v) do out[#out + 1] = quote(tostring(key)) .. ':' .. M.encode(x, how) end
  table.sort(out)
  return '{' .. table.concat(out, ',') .. '}'
end

-- ---- reading --------------------------------------------------------------------------------------------------------
local plain = { ['"'] = '"', ['\\'] = '\\', ['/'] = '/', b = '\b', f = '\f', n = '\n', r = '\r', t = '\t' }
local words = { ['true'] = true, ['false'] = false, null = M.null }

local function utf8_of(code)
  if code < 0x80 then return string.char(code) end
  if code < 0x800 then return string.char(0xc0 + math.floor(code / 64), 0x80 + code % 64) end
  if code < 0x10000 then
    return string.char(0xe0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
  end
  return string.char(0xf0 + math.floor(code / 262144), 0x80 + math.floor(code / 4096) % 64,
                     0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
end

--- The value of a JSON text; nil, what is wrong, and at which byte. `ordered`: objects keep the order of their keys in
-- [0].
function M.read(text, ordered)
  local at, depth = 1, 0
  local value
  local function fail(what) error({ what = what, at = at }, 0) end
  local function skip() at = text:find('[^ \t\r\n]', at) or #text + 1 end
  local function take(c)
    skip()
    if text:sub(at, at) ~= c then fail(("'%s' is expected"):format(c)) end
    at = at + 1
  end
  --- The code of \uXXXX at this place, or of two that are a pair.
  local function unicode()
    local hex = text:match('^\\u(%x%x%x%x)', at)
    if not hex then fail 'an escape is wrong' end
    local code = tonumber(hex, 16)
    if code >= 0xdc00 and code <= 0xdfff then fail 'half a surrogate pair' end
    at = at + 6
    if code < 0xd800 or code > 0xdfff then return code end
    local low = tonumber(text:match('^\\u(%x%x%x%x)', at) or '0', 16)
    if low < 0xdc00 or low > 0xdfff then fail 'half a surrogate pair' end
    at = at + 6
    return 0x10000 + (code - 0xd800) * 1024 + low - 0xdc00
  end
  local function str()
    take '"'
    local parts = {}
    while true do
      local stop = text:find('["\\%c]', at)
      if not stop then fail 'a string has no end' end
      parts[#parts + 1] = text:sub(at, stop - 1)
      at = stop
      local c, kind = text:sub(at, at), text:sub(at + 1, at + 1)
      if c == '"' then
        at = at + 1
        return table.concat(parts)
      elseif c == '\127' then
        parts[#parts + 1] = c
        at = at + 1
      elseif c ~= '\\' then fail 'a string holds a control character'
      elseif kind == 'u' then parts[#parts + 1] = utf8_of(unicode())
      elseif plain[kind] then
        parts[#parts + 1] = plain[kind]
        at = at + 2
      else fail 'an escape is wrong' end
    end
  end
  --- What stands between brackets, one after the other.
  local function each(close, fn)
    depth = depth + 1
    if depth > DEEPEST then fail 'it is nested too deeply' end
    at = at + 1
    skip()
    if text:sub(at, at) == close then at = at + 1
    else
      repeat
        fn()
        skip()
        local c = text:sub(at, at)
        if c ~= close and c ~= ',' then fail(("',' or '%s' is expected"):format(close)) end
        at = at + 1
      until c == close
    end
    depth = depth - 1
  end
  function value()
    skip()
    local c = text:sub(at, at)
    if c == '"' then return str() end
    if c == '{' then
      local out, order = {}, {}
      each('}', function()
        skip()
        local key = str()
        if out[key] ~= nil then fail(('the key %q comes twice'):format(key)) end
        take ':'
        order[#order + 1] = key
        out[key] = value()
      end)
      if ordered then out[0] = order end
      return out
    elseif c == '[' then
      local out = ordered and {} or M.list{}
      each(']', function() out[#out + 1] = value() end)
      return out
    end
    local word = text:match('^%l+', at)
    if word and words[word] ~= nil then
      at = at + #word
      return words[word]
    end
    local number = text:match('^-?%d+%.?%d*[eE]?[+-]?%d*', at)
    local v = number and tonumber(number)
    if not v then fail 'a value is expected' end
    at = at + #number
    return v
  end
  local ok, v = pcall(function()
    local v = value()
    skip()
    if at <= #text then fail 'there is more behind its end' end
    return v
  end)
  if ok then return v end
  if type(v) ~= 'table' or not v.what then error(v, 0) end
  return nil, v.what, v.at
end

--- The value of a JSON text; an error that says what is wrong, and where.
function M.decode(text)
  local v, what, at = M.read(text)
  if v == nil then error(('JSON: %s at byte %d'):format(what, at), 0) end
  return v
end

return M
