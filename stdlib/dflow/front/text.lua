--- How tensors look as text: as NumPy prints arrays, and in one line of what a large one holds.
local core = require 'dflow.backend'
local dtypes = require 'dflow.front.dtypes'

local M = {}

--- What can be set (`:set` at the prompt): more elements than `threshold` are shown as corners of `edge` elements;
-- lines are broken at `width` columns; `precision` is the most digits after the point.
M.options = { threshold = 1000, edge = 3, width = 80, precision = 4 }

--- 'float32[2,3]'; unknown dims are '?'.
function M.shape(dtype, shape)
  if not shape then return dtype .. '[...]' end
  local dims = {}
  for i = 1, #shape do
    local d = shape[i]
    if type(d) ~= 'number' or d ~= math.floor(d) then dims[i] = tostring(d) else dims[i] = d < 0 and '?'
        or ('%.0f'):format(d) end
  end
  return dtype .. '[' .. table.concat(dims, ',') .. ']'
end

-- ---- elements ----------------------------------------------------------------------------------------------------
--- A string as Lua writes it, on one line.
function M.quoted(s)
  return (('%q'):format(s):gsub('\\\n', '\\n'):gsub('\r', '\\r'):gsub('%z', '\\0'))
end

--- Columns that a text of UTF-8 takes: a wide letter of East Asia two, an accent that stands above the letter before it
-- none.
local function columns(s)
  if not s:find('[\128-\255]') then return #s end
  local n = 0
  for lead in s:gmatch('[%z\1-\127\194-\244][\128-\191]*') do
    local first, second = lead:byte(1, 2)
    second = second or 0                          -- bytes that are no UTF-8
    local wide = first >= 0xe3 and first <= 0xed or (first == 0xe2 and second >= 0xba)
      or (first == 0xef and second >= 0xbc and second <= 0xbd) or first == 0xf0
    local above = first == 0xcc or (first == 0xcd and second < 0xb0)
    n = n + (wide and 2 or above and 0 or 1)
  end
  return n
end
M.columns = columns

local function not_finite(v)
  if v ~= v then return 'nan' end
  if v == math.huge then return 'inf' elseif v == -math.huge then return '-inf' end
end

--- `1.` and `1.e+20`: a point tells a float from an integer.
local function pointed(s) return s:find('[.n]') and s or (s:gsub('^-?%d+', '%0.')) end

local MANTISSA = { float32 = 23, float16 = 10, bfloat16 = 7, float64 = 52 }       -- bits
local LEAST = { float32 = -126, float16 = -14, bfloat16 = -126 }                   -- the exponent of subnormal numbers

--- How far a text may be from a number of the dtype and still be nearest to it: half of what lies between it and the
-- next.
local function half_step(v, dtype)
  local size = math.abs(v)
  if size == 0 or dtype == 'float64' then return 0 end
  local exponent = math.floor(math.log(size) / math.log(2))
  if 2 ^ exponent > size then exponent = exponent - 1 elseif 2 ^ (exponent + 1) <= size then exponent = exponent + 1 end
  return 2 ^ (math.max(exponent, LEAST[dtype]) - MANTISSA[dtype] - 1) * 0.999
end

--- A number with as few digits as tell it from the others of its dtype: 0.1, not 0.10000000149012.
function M.scalar(v, dtype)
  if dtypes.is_complex_value(v) then
    local part = dtype == 'complex64' and 'float32' or 'float64'
    local im = M.scalar(v.im, part)
    return M.scalar(v.re, part) .. (im:find('^-') and '' or '+') .. im .. 'j'
  end
  if type(v) ~= 'number' or not MANTISSA[dtype] then
    return type(v) == 'string' and v or (tostring(v):gsub('%.0$', ''):gsub('U?LL$', ''))
  end
  local text = not_finite(v)
  if text then return text end
  local off = half_step(v, dtype)
  for digits = 1, 17 do
    text = ('%.' .. digits .. 'g'):format(v)
    if math.abs(tonumber(text) - v) <= off then break end
  end
  local size = math.abs(v)
  if text:find('e', 1, true) and size >= 1e-4 and size < 1e16 then text = ('%.0f'):format(tonumber(text)) end
  return text:find('[.e]') and text or text .. '.0'
end

--- The most digits after the point, up to `most`, that one of these texts of numbers needs.
local function digits_needed(values, format, most)
  local needed = 0
  for _, v in ipairs(values) do
    if not not_finite(v) then
      needed = math.max(needed, most - #format:format(v):match('^[^e]*'):match('%.?%d*$'):match('0*$'))
    end
  end
  return needed
end

--- A function that gives each of these values as text, all with the same digits.
local function number_format(values, is_float)
  if dtypes.is_complex_value(values[1]) then
    local re, im = {}, {}
    for i, v in ipairs(values) do re[i], im[i] = v.re, v.im end
    local real, imaginary = number_format(re, true), number_format(im, true)
    return function(v) return real(v.re) .. (imaginary(v.im):gsub('^[^-]', '+%0')) .. 'j' end
  end
  if not is_float then
    return function(v)
      return type(v) == 'string' and M.quoted(v) or (tostring(v):gsub('%.0$', ''):gsub('U?LL$', ''))
    end
  end
  local most = M.options.precision
  local whole, largest, smallest = true, 0, math.huge
  for _, v in ipairs(values) do
    if not not_finite(v) then
      if v ~= math.floor(v) then whole = false end
      local size = math.abs(v)
      if size > largest then largest = size end
      if size > 0 and size < smallest then smallest = size end
    end
  end
  local scientific = largest >= 1e8 or (smallest < 10 ^ -most and smallest < math.huge)
  local digits = 0
  if most > 0 and (scientific or not whole) then   -- as many digits as the numbers need
    digits = digits_needed(values, ('%%.%d%s'):format(most, scientific and 'e' or 'f'), most)
    if not scientific then digits = math.max(digits, 1) end
  end
  local format = ('%%.%d%s'):format(digits, scientific and 'e' or 'f')
  return function(v) return not_finite(v) or pointed(format:format(v)) end
end

--- A number by itself, short: at most `digits` significant ones.
function M.number(v, digits)
  return not_finite(v) or (('%.' .. (digits or 4) .. 'g'):format(v))
end

-- ---- arrays ------------------------------------------------------------------------------------------------------
--- Aligned columns between brackets; the corners only of a tensor of more than `threshold` elements. `paint(text,
-- value)`, when it is given, may colour the text of an element.
function M.array(t, paint)
  local options = M.options
  local edge = options.edge
  local shape, size = core.tensor_shape(t), t.size
  if size == 0 then return '[]' end
  local summary = size > options.threshold
  local strides, stride = {}, 1
  for axis = #shape, 1, -1 do
    strides[axis] = stride
    stride = stride * shape[axis]
  end
  local function places(axis)   -- the indices shown along an axis; false is an ellipsis
    local list, n = {}, shape[axis]
    if summary and n > 2 * edge then
      for i = 0, edge - 1 do list[#list + 1] = i end
      list[#list + 1] = false
      for i = n - edge, n - 1 do list[#list + 1] = i end
    else
      for i = 0, n - 1 do list[#list + 1] = i end
    end
    return list
  end
  local shown = {}
  local function collect(axis, at)
    if axis > #shape then
      shown[#shown + 1] = core.tensor_get(t, at)
      return
    end
    for _, i in ipairs(places(axis)) do
      if i then collect(axis + 1, at + i * strides[axis]) end
    end
  end
  collect(1, 0)
  local format = number_format(shown, dtypes.is_float(dtypes.number[t.dtype]))
  if #shape == 0 then
    local text = type(shown[1]) == 'string' and M.quoted(shown[1]) or (M.scalar(shown[1], t.dtype):gsub('%.0$', '.'))
    return paint and paint(text, shown[1]) or text
  end
  local texts, wide, width = {}, {}, 0
  for i, v in ipairs(shown) do
    texts[i] = format(v)
    wide[i] = columns(texts[i])
    if wide[i] > width then width = wide[i] end
  end
  local next_text, rank = 0, #shape
  local left = type(shown[1]) == 'string'       -- strings stand on the left, numbers on the right
  local function element(last)
    next_text = next_text + 1
    local text, pad = texts[next_text], (' '):rep(width - wide[next_text])
    local painted = paint and paint(text, shown[next_text]) or text
    return left and painted .. (last and '' or pad) or pad .. painted
  end
  -- elements of a row before it is broken
  local in_line = math.max(1, math.floor((options.width - rank - 1) / (width + 1)))
  local function render(axis)
    local parts = {}
    if axis == rank then
      local lines = {}
      local at = places(axis)
      for k, i in ipairs(at) do
        if #parts == in_line then
          lines[#lines + 1] = table.concat(parts, ' ')
          parts = {}
        end
        parts[#parts + 1] = i and element(k == #at or #parts == in_line - 1) or '...'
      end
      lines[#lines + 1] = table.concat(parts, ' ')
      return '[' .. table.concat(lines, '\n' .. (' '):rep(rank)) .. ']'
    end
    for _, i in ipairs(places(axis)) do parts[#parts + 1] = i and render(axis + 1) or '...' end
    return '[' .. table.concat(parts, ('\n'):rep(rank - axis) .. (' '):rep(axis)) .. ']'
  end
  return render(1)
end

--- The array, then dtype and shape.
function M.tensor(t, paint)
  return M.array(t, paint) .. ' ' .. M.shape(t.dtype, core.tensor_shape(t))
end

-- ---- one line ----------------------------------------------------------------------------------------------------
local BARS = { '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█' }
local ASCII_BARS = { '.', ':', '-', '=', '+', '*', '#', '@' }

--- Counts as bars of different heights; a count of 0 is a blank.
function M.sparkline(counts, ascii)
  local bars, largest, out = ascii and ASCII_BARS or BARS, 0, {}
  for _, n in ipairs(counts) do largest = math.max(largest, n) end
  for i, n in ipairs(counts) do
    out[i] = n == 0 and ' ' or bars[math.max(1, math.ceil(n / largest * #bars))]
  end
  return table.concat(out)
end

--- `float32[64,64]  min -1  mean 0.01  sd 0.5  max 1  2 nan  ▂▅█▅▂`: a Tensor of numbers in one line; dtype and shape
-- alone for others.
function M.summary(t, ascii)
  local head = M.shape(t.dtype, core.tensor_shape(t))
  local s = core.tensor_summary(t)
  if not s then return head end
  local words = { head }
  if s.finite > 0 then
    local sd = s.min < s.max and 'sd ' .. M.number(s.deviation, 4) .. '  ' or ''
    words[#words + 1] = ('min %s  mean %s  %smax %s'):format(M.number(s.min), M.number(s.mean), sd, M.number(s.max))
  end
  if s.nan > 0 then words[#words + 1] = ('%.0f nan'):format(s.nan) end
  if s.inf > 0 then words[#words + 1] = ('%.0f inf'):format(s.inf) end
  if s.finite > 0 and s.min < s.max then words[#words + 1] = M.sparkline(s.histogram, ascii) end
  return table.concat(words, '  ')
end

return M
