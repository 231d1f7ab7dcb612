-- mandelbrot.lua: the whole picture in one while_loop; every point counts the steps for which it stays small.
-- What to look at: the loop ends when no point is left, so a picture of the outside is done after a few of its steps (:time says how long).
--
--   dflow examples/mandelbrot.lua [columns] [steps]
local df = require 'dflow'

local W, STEPS = tonumber((...)) or 76, tonumber((select(2, ...))) or 200
local H = math.floor(W * 0.42)

-- The constant c = cr + ci·i of each point, [H, W].
local zeros = df.fill({ H, W }, df.float32(0))
local cr = zeros + df.reshape(df.linspace(-2.2, 0.8, W), { 1, W })
local ci = zeros + df.reshape(df.linspace(-1.2, 1.2, H), { H, 1 })

local function small(re, im) return (re * re + im * im):lt(4) end

-- z becomes z² + c everywhere at once, until no point is left or the steps are used up. What has escaped goes on to
-- infinity and NaN, of which no comparison is true.
local _, _, _, count = df.while_loop(
  function(i, re, im) return df.logical_and(i:lt(STEPS), df.reduce_any(small(re, im))) end,
  function(i, re, im, count)
    return i + 1, re * re - im * im + cr, 2 * re * im + ci, count + df.cast(small(re, im), 'int32')
  end,
  { df.int32(0), zeros, zeros, df.cast(zeros, 'int32') })

local ramp = ' .:-=+*#%@'
local picture = df.run(count)
for row = 0, H - 1 do
  local line = {}
  for column = 0, W - 1 do
    local n = picture:at(row, column)
    local shade = n >= STEPS and 1 or 1 + math.floor(math.log(n) / math.log(STEPS) * (#ramp - 1) + 0.5)
    line[#line + 1] = ramp:sub(shade, shade)
  end
  print((table.concat(line):gsub('%s+$', '')))
end
