--- Axes: where the ticks of a range lie and how they are written.
local M = {}

--- The least and greatest finite number of lists; 0 and 1 where there is none, a little apart where they are one.
function M.range(lists)
  local low, high = math.huge, -math.huge
  for _, list in ipairs(lists) do
    for i = 1, #list do
      local v = list[i]
      if v == v and v > -math.huge and v < math.huge then
        if v < low then low = v end
        if v > high then high = v end
      end
    end
  end
  if low > high then return 0, 1 end
  if low == high then
    local apart = low == 0 and 1 or math.abs(low) * 0.5
    return low - apart, high + apart
  end
  return low, high
end

--- 1, 2 or 5 times a power of ten, so that about `n` steps make the range.
local function step_of(low, high, n)
  local rough = (high - low) / n
  local power = 10 ^ math.floor(math.log(rough) / math.log(10) + 1e-9)
  local digit = rough / power
  return (digit < 1.5 and 1 or digit < 3.5 and 2 or digit < 7.5 and 5 or 10) * power
end

--- Ticks within the range: {{at, text}, …}, about n of them.
function M.ticks(low, high, n)
  local step, list = step_of(low, high, n), {}
  -- not -0, which LuaJIT writes so
  local digits = math.max(0, -math.floor(math.log(step) / math.log(10) + 1e-9)) + 0
  local largest = math.max(math.abs(low), math.abs(high))
  local form = (largest >= 1e6 or digits > 5) and '%.3g' or ('%%.%df'):format(digits)
  for i = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) do
    list[#list + 1] = { i * step, (form:format(i * step):gsub('^%-(0%.?0*)$', '%1')) }
  end
  return list
end

--- Ticks of a logarithmic range: powers of ten, and between them 2 and 5 times these where the range is short; where it
-- has hardly any of these, those of any range.
local function log_ticks(low, high, n)
  local list, short = {}, high / low < 200
  for power = math.floor(math.log(low) / math.log(10) - 1e-9), math.ceil(math.log(high) / math.log(10) + 1e-9) do
    for _, digit in ipairs(short and { 1, 2, 5 } or { 1 }) do
      local at = digit * 10 ^ power
      if at >= low * (1 - 1e-9) and at <= high * (1 + 1e-9) then
        list[#list + 1] = { at, (at >= 1e4 and at < 1e7 and '%.0f' or '%.4g'):format(at) }
      end
    end
  end
  return #list < 2 and M.ticks(low, high, n) or list
end

--- An axis over lists of numbers: its ends, share(v) from 0 to 1 along it (NaN where v has no place), and ticks(n).
-- @param log   logarithmic: numbers up to 0 have no place
-- @param zero  it begins at 0, or ends there
function M.axis(lists, log, zero)
  local kept = lists
  if log then
    kept = {}
    for i, list in ipairs(lists) do
      kept[i] = {}
      for _, v in ipairs(list) do if v > 0 then kept[i][#kept[i] + 1] = v end end
    end
  elseif zero then
    kept = { { 0 } }
    for _, list in ipairs(lists) do kept[#kept + 1] = list end
  end
  local low, high = M.range(kept)
  if zero and not log and high > 0 then high = high + 0.05 * (high - low) end      -- the line does not lie on the frame
  if not log then
    return { low = low, high = high, share = function(v) return (v - low) / (high - low) end,
             ticks = function(n) return M.ticks(low, high, n) end }
  end
  if low <= 0 then low, high = 1, 10 end
  local wide = math.log(high / low)
  return { low = low, high = high, share = function(v) return v > 0 and math.log(v / low) / wide or 0 / 0 end,
           ticks = function(n) return log_ticks(low, high, n) end }
end

return M
