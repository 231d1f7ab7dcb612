-- life.lua: Conway's game of life on a torus; a while_loop that keeps every generation in a TensorArray.
-- What to look at: the board is a loop variable, one that is overwritten; the film is the array, one slot per iteration.
local df = require 'dflow'

local H, W = 9, 18
local GENERATIONS = tonumber((...)) or 24

-- A glider, as ones on a board of zeros.
local glider = df.scatter_nd({ { 0, 1 }, { 1, 2 }, { 2, 0 }, { 2, 1 }, { 2, 2 } }, df.int32{ 1, 1, 1, 1, 1 }, { H, W })

-- The board moved by d along an axis; what leaves on one side comes back on the other.
local function roll(x, d, axis)
  local n = axis == 0 and H or W
  return df.gather(x, (df.range(0, n, 1) + (n - d)) % n, { axis = axis })
end

local function next_generation(board)
  local rows = board + roll(board, 1, 0) + roll(board, -1, 0)
  local block = rows + roll(rows, 1, 1) + roll(rows, -1, 1)          -- the cell and its eight neighbours
  local born_or_stays = df.logical_or(block:eq(3), df.logical_and(block:eq(4), board:eq(1)))
  return df.cast(born_or_stays, 'int32')
end

local _, last, history = df.while_loop(
  function(i) return i:lt(GENERATIONS) end,
  function(i, board, history) return i + 1, next_generation(board), history:write(i, board) end,
  { df.int32(0), glider, df.TensorArray('int32', GENERATIONS) })

local film, cells = df.unpack(df.run{ history:stack(), df.reduce_sum(last) })
for first = 0, GENERATIONS - 1, 12 do                                 -- three frames side by side
  for row = 0, H - 1 do
    local line = {}
    for g = first, math.min(first + 8, GENERATIONS - 1), 4 do
      for column = 0, W - 1 do line[#line + 1] = film:at(g, row, column) == 1 and '#' or '.' end
      line[#line + 1] = '  '
    end
    print(table.concat(line))
  end
  print()
end
print(('%d generations, %d cells alive'):format(GENERATIONS, cells))
