--- Strides, windows and dilations as TensorFlow lets one write them: a number for all axes of an image or a volume, a
-- number for each, or one for each axis of the tensor.
local errors = require 'dflow.front.errors'
local nest = require 'dflow.front.nest'

local M = {}
local keys = { 'strides', 'ksize', 'dilations' }

--- v or {v}: n times; n numbers as they are; nil for anything else.
local function spatial(v, n)
  local list = nest.is_plain(v) and v or { v }
  if #list ~= 1 and #list ~= n or type(list[1]) ~= 'number' then return nil end
  local out = {}
  for d = 1, n do out[d] = #list == 1 and list[1] or list[d] end
  return out
end

--- The numbers that an op over n axes wants, batch and channels being 1.
-- @param v  what the user gave
-- @param n  how many axes the window moves along
-- @return   a list of n + 2, or v itself: what has as many numbers, and what is no list of numbers, is for the op to
--           judge
function M.each(v, n)
  local list = spatial(v, n)
  if not list then return v end
  table.insert(list, 1, 1)
  list[n + 2] = 1
  return list
end

--- Replaces these options of an op that moves a window along n axes.
function M.widen(options, n)
  for _, key in ipairs(keys) do
    local v = options[key]
    if v ~= nil then options[key] = M.each(v, n) end
  end
end

--- {1, height, width, 1} of a `rate`, given as a number, one number or two.
function M.rate(what, v)
  local list = M.each(v == nil and 1 or v, 2)
  if list == v then errors.bad('%s: rate is %s, a number or {height, width} is expected', what, errors.describe(v)) end
  return list
end

return M
