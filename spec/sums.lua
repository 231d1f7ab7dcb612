--- What long results add up to: for pages (spec/pages.lua) of which nobody reads every number.
local support = require 'spec.support'

local M = {}

local function number_of(v)
  if type(v) == 'table' then return v.re + 2 * v.im end
  if type(v) == 'boolean' then return v and 1 or 0 end
  v = tonumber(v) + 0.0
  if v == math.huge or v == -math.huge then return v > 0 and 54321 or -54321 end
  return v == v and v or 12345
end

--- Sums of at most eight parts of a Tensor's elements, the i-th of which counts 1 to 13 times, each beside the sum without signs.
local function sums(t)
  local list = support.is_tensor(t) and t:list() or { t }
  local out, n, parts = {}, #list, math.min(#list, 8)
  for part = 1, parts do
    local sum, all = 0, 0
    for i = math.floor((part - 1) * n / parts) + 1, math.floor(part * n / parts) do
      local v = (i * 7 % 13 + 1) * number_of(list[i])
      sum, all = sum + v, all + math.abs(v)
    end
    out[part] = ('%.9g:%.3g'):format(sum, all):gsub('%-nan', 'nan')                -- its sign is the machine's
  end
  return table.concat(out, ' ')
end

--- Tensors and numbers as one line: dtype, shape and sums of each.
function M.line(list)
  local out = {}
  for i, t in ipairs(list) do
    local tensor = support.is_tensor(t)
    out[i] = ('%s[%s] %s'):format(tensor and t.dtype or type(t), tensor and table.concat(t.shape, ',') or '', sums(t))
  end
  return table.concat(out, ' | ')
end

--- Is a line what it was, sums within rtol of what they would be without signs?
function M.same(was, is, rtol)
  if #was == 0 then return false end
  local a, b = was:gmatch '%S+', is:gmatch '%S+'
  while true do
    local x, y = a(), b()
    if not x or not y then return x == y end
    local sum, all = x:match '^(.*):(.*)$'
    local found = y:match '^(.*):.*$'
    sum, all, found = tonumber(sum), tonumber(all), tonumber(found)
    if x ~= y and not (sum and found and math.abs(sum - found) <= rtol * (all + 1e-3)) then return false end
  end
end

return M
