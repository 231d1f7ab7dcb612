-- The CPU's kernels and the reference at sizes and attributes of many kinds (spec/ops/cases.lua): both give the same, and what they gave when spec/pages/cases.txt
-- was written: of each result eight weighted sums of its parts, within what another machine's roundings do.
local df = require 'dflow'
local pages = require 'spec.pages'
local support = require 'spec.support'
local cases = require 'spec.ops.cases'
local it = support.host_it(it, pending)

local function number_of(v)
  if type(v) == 'table' then return v.re + 2 * v.im end
  if type(v) == 'boolean' then return v and 1 or 0 end
  v = tonumber(v) + 0.0
  if v == math.huge or v == -math.huge then return v > 0 and 54321 or -54321 end
  return v == v and v or 12345
end

--- Sums of eight parts of a Tensor's elements, the i-th of which counts 1 to 13 times, each beside the sum without signs.
local function sums(t)
  local list = support.is_tensor(t) and t:list() or { t }
  local out, n = {}, #list
  for part = 1, math.min(n, 8) do
    local sum, all = 0, 0
    for i = math.floor((part - 1) * n / 8) + 1, math.floor(part * n / 8) do
      local v = (i * 7 % 13 + 1) * number_of(list[i])
      sum, all = sum + v, all + math.abs(v)
    end
    out[part] = ('%.9g:%.3g'):format(sum, all)
  end
  return table.concat(out, ' ')
end

local function line_of(list)
  local out = {}
  for i, t in ipairs(list) do
    local tensor = support.is_tensor(t)
    out[i] = ('%s[%s] %s'):format(tensor and t.dtype or type(t), tensor and table.concat(t.shape, ',') or '', sums(t))
  end
  return table.concat(out, ' | ')
end

--- Is a line what it was, sums within rtol of what they would be without signs?
local function is_same(was, is, rtol)
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

describe('at sizes of many kinds', function()
  local by, names = cases.by_op()
  for _, op in ipairs(names) do
    it(op .. ' is what the reference says, and what it was', function()
      local lines, rtols = {}, {}
      for i, case in ipairs(by[op]) do
        local fed = cases.tensors(case)
        local rtol = cases.tolerance(case, fed)
        local found = support.cpu_equals_ref(function(...) return cases.build(case, ...) end, fed, { rtol = rtol, atol = rtol / 5, what = ('%s %d'):format(op, i) })
        lines[i], rtols[i] = line_of(found), rtol
      end
      pages.section('cases.txt', op, table.concat(lines, '\n'), function(was, is, k) return is_same(was, is, rtols[k] / 10) end)
    end)
  end

  it('a sum that is another is seen', function()
    assert.is_false(is_same('float32[2] 1.5:1.5 2:2', 'float32[2] 1.5:1.5 2.1:2.1', 1e-3))
    assert.is_false(is_same('float32[2] 1.5:1.5', 'float32[2] 1.5:1.5 2:2', 1e-3))
    assert.is_false(is_same('float32[2] 1.5:1.5', 'float32[3] 1.5:1.5', 1e-3))
    assert.is_true(is_same('float32[2] 1.5:1.5 2:2', 'float32[2] 1.50001:1.5 2:2', 1e-3))
    local list = {}
    for i = 1, 100 do list[i] = i end
    local before = line_of{ df.tensor(list, 'float32') }
    list[77] = 78
    assert.is_false(is_same(before, line_of{ df.tensor(list, 'float32') }, 1e-3))
  end)
end)
