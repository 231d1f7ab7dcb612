--- Strides, windows and dilations as TensorFlow lets one write them: a number for both axes of an image, two numbers, or all four.
local errors = require 'dflow.front.errors'
local nest = require 'dflow.front.nest'

local M = {}
local keys = { 'strides', 'ksize', 'dilations' }

--- n or {n}: {n, n}; {h, w} as it is; what has as many numbers as there are axes, and what is no list of numbers, is for the op to judge.
local function spatial(v)
  if type(v) == 'number' then return v, v end
  if nest.is_plain(v) and #v == 1 then return v[1], v[1] end
  if nest.is_plain(v) and #v == 2 then return v[1], v[2] end
end

--- The four numbers that an op wants, batch and channels being 1.
-- @param v  what the user gave
-- @return   a list of four, or v itself
function M.four(v)
  local h, w = spatial(v)
  if h == nil then return v end
  return { 1, h, w, 1 }
end

--- Replaces these options of an op that moves a window over images.
function M.widen(options)
  for _, key in ipairs(keys) do
    local v = options[key]
    if v ~= nil then options[key] = M.four(v) end
  end
end

--- {height, width} of a `rate`, given as a number, one number or two.
function M.rate(what, v)
  local h, w = spatial(v == nil and 1 or v)
  if h == nil then errors.bad('%s: rate is %s, a number or {height, width} is expected', what, errors.describe(v)) end
  return { 1, h, w, 1 }
end

return M
