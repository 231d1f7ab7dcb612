--- Pictures as PNG files, their rows stored as they are, and bytes as base64.
local core = require 'dflow.backend'

local M = {}

local function big(v)
  return string.char(math.floor(v / 16777216) % 256, math.floor(v / 65536) % 256, math.floor(v / 256) % 256, v % 256)
end

local function chunk(kind, data) return big(#data) .. kind .. data .. big(core.crc32(kind .. data)) end

local function adler(raw)
  local a, b = 1, 0
  for at = 1, #raw, 2048 do                            -- so many that sums stay exact before they are reduced
    for i = at, math.min(at + 2047, #raw) do
      a = a + raw:byte(i)
      b = b + a
    end
    a, b = a % 65521, b % 65521
  end
  return b * 65536 + a
end

--- Rows of bytes as a PNG.
-- @param channels  1 grey, 2 with alpha, 3 RGB, 4 with alpha
function M.write(height, width, channels, pixels)
  local rows, span = {}, width * channels
  for y = 0, height - 1 do rows[y + 1] = '\0' .. pixels:sub(y * span + 1, (y + 1) * span) end
  local raw, parts = table.concat(rows), { '\120\1' }
  for at = 1, #raw, 65535 do
    local part = raw:sub(at, at + 65534)
    local n = #part
    parts[#parts + 1] = string.char(at + n > #raw and 1 or 0, n % 256, math.floor(n / 256), 255 - n % 256,
                                    255 - math.floor(n / 256)) .. part
  end
  parts[#parts + 1] = big(adler(raw))
  local kind = ({ 0, 4, 2, 6 })[channels]
  return '\137PNG\r\n\26\n' .. chunk('IHDR', big(width) .. big(height) .. string.char(8, kind, 0, 0, 0))
    .. chunk('IDAT', table.concat(parts))
    .. chunk('IEND', '')
end

local DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

--- Bytes as base64.
function M.base64(s)
  local out = {}
  for at = 1, #s, 3 do
    local a, b, c = s:byte(at, at + 2)
    local v = a * 65536 + (b or 0) * 256 + (c or 0)
    for k, power in ipairs{ 262144, 4096, 64, 1 } do
      local digit = math.floor(v / power) % 64 + 1
      out[#out + 1] = (k == 3 and not b or k == 4 and not c) and '=' or DIGITS:sub(digit, digit)
    end
  end
  return table.concat(out)
end

return M
