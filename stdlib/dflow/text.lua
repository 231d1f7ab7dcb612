--- How tensors look as text: as NumPy prints arrays, and in one line of what a large one holds.
local core = require 'dflow.backend'
local dtypes = require 'dflow.dtypes'

local M = {}

--- What can be set (`:set` at the prompt): more elements than `threshold` are shown as corners of `edge` elements; lines are broken
-- at `width` columns; `precision` is the most digits after the point.
M.options = { threshold = 1000, edge = 3, width = 80, precision = 4 }

--- 'float32[2,3]'; unknown dims are '?'.
function M.shape(dtype, shape)
  if not shape then return dtype .. '[...]' end
  local dims = {}
  for i = 1, #shape do
    local d = shape[i]
    if type(d) ~= 'number' or d ~= math.floor(d) then dims[i] = tostring(d) else dims[i] = d < 0 and '?' or ('%.0f'):format(d) end
  end
  return dtype .. '[' .. table.concat(dims, ',') .. ']'
end

-- ---- numbers -----------------------------------------------------------------------------------------------------
--- A function that gives each of these values as text, all with the same digits.
local function number_format(values, is_float)
  if dtypes.is_complex_value(values[1]) then
    local re, im = {}, {}
    for i, v in ipairs(values) do re[i], im[i] = v.re, v.im end
    local real, imaginary = number_format(re, true), number_format(im, true)
    return function(v) return real(v.re) .. (imaginary(v.im):gsub('^[^-]', '+%0')) .. 'j' end
  end
  if not is_float then
    return function(v) return type(v) == 'string' and ('%q'):format(v) or (tostring(v):gsub('%.0$', ''):gsub('LL$', '')) end
  end
  local most = M.options.precision
  local whole, largest, smallest = true, 0, math.huge
  for _, v in ipairs(values) do
    if v == v and v ~= math.huge and v ~= -math.huge then
      if v ~= math.floor(v) then whole = false end
      local size = math.abs(v)
      if size > largest then largest = size end
      if size > 0 and size < smallest then smallest = size end
    end
  end
  local scientific = largest >= 1e8 or (smallest < 10 ^ -most and smallest < math.huge)
  local digits = 1
  if not whole and not scientific then   -- as many digits as the numbers need
    local fixed = '%.' .. most .. 'f'
    for _, v in ipairs(values) do
      local zeros = v == v and math.abs(v) < math.huge and #fixed:format(v):match('0*$') or most
      if most - zeros > digits then digits = most - zeros end
    end
  end
  return function(v)
    if v ~= v then return 'nan' end
    if v == math.huge then return 'inf' elseif v == -math.huge then return '-inf' end
    if scientific then return ('%.' .. most .. 'e'):format(v) end
    if whole then return ('%d.'):format(v) end
    return ('%.' .. digits .. 'f'):format(v)
  end
end

--- A number by itself, short: at most `digits` significant ones.
function M.number(v, digits)
  if v ~= v then return 'nan' end
  if v == math.huge then return 'inf' elseif v == -math.huge then return '-inf' end
  return (('%.' .. (digits or 4) .. 'g'):format(v))
end

-- ---- arrays ------------------------------------------------------------------------------------------------------
--- Aligned columns between brackets; the corners only of a tensor of more than `threshold` elements. `paint(text, value)`, when it is
-- given, may colour the text of an element.
function M.array(t, paint)
  local options = M.options
  local edge = options.edge
  local shape, size = core.tensor_shape(t), t.size
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
  local texts, width = {}, 0
  for i, v in ipairs(shown) do
    texts[i] = format(v)
    if #texts[i] > width then width = #texts[i] end
  end
  local next_text, rank = 0, #shape
  local function element()
    next_text = next_text + 1
    local text = texts[next_text]
    local pad = (' '):rep(width - #text)
    return pad .. (paint and paint(text, shown[next_text]) or text)
  end
  if rank == 0 then return element() end
  local in_line = math.max(1, math.floor((options.width - rank - 1) / (width + 1)))   -- elements of a row before it is broken
  local function render(axis)
    local parts = {}
    if axis == rank then
      local lines = {}
      for _, i in ipairs(places(axis)) do
        if #parts == in_line then
          lines[#lines + 1] = table.concat(parts, ' ')
          parts = {}
        end
        parts[#parts + 1] = i and element() or '...'
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

--- `float32[64,64]  min -1  mean 0.01  max 1  2 nan  ▂▅█▅▂`: a Tensor of numbers in one line; dtype and shape alone for others.
function M.summary(t, ascii)
  local head = M.shape(t.dtype, core.tensor_shape(t))
  local s = core.tensor_summary(t)
  if not s then return head end
  local words = { head }
  if s.finite > 0 then
    words[#words + 1] = ('min %s  mean %s  max %s'):format(M.number(s.min), M.number(s.mean), M.number(s.max))
  end
  if s.nan > 0 then words[#words + 1] = ('%.0f nan'):format(s.nan) end
  if s.inf > 0 then words[#words + 1] = ('%.0f inf'):format(s.inf) end
  if s.finite > 0 and s.min < s.max then words[#words + 1] = M.sparkline(s.histogram, ascii) end
  return table.concat(words, '  ')
end

return M
