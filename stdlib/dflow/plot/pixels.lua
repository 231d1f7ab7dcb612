--- Images as PNG, pixel by pixel.
local png = require 'dflow.exchange.png'

local M = {}

--- The pixels of an image, each `k` by `k` times.
-- @param image  {height =, width =, channels = 1 or 3, [1 … n] = 0 to 255}
function M.enlarged(image, k)
  local rows, span = {}, image.width * image.channels
  for y = 0, image.height - 1 do
    local row = {}
    for x = 0, image.width - 1 do
      local at = y * span + x * image.channels
      local pixel = image.channels == 1 and string.char(image[at + 1])
        or string.char(image[at + 1], image[at + 2], image[at + 3])
      row[x + 1] = pixel:rep(k)
    end
    rows[y + 1] = table.concat(row):rep(k)
  end
  return table.concat(rows)
end

--- How often a pixel of the image goes into width by height: at least once.
function M.times(image, width, height)
  return math.max(1, math.floor(math.min(width / image.width, height / image.height)))
end

--- An image as a PNG of at most width by height, or of its own size.
function M.of_image(image, width, height)
  local k = M.times(image, width, height)
  return png.write(image.height * k, image.width * k, image.channels, M.enlarged(image, k))
end

return M
