--- Random orders that are the same for a seed under every Lua.
local errors = require 'dflow.front.errors'

local M = {}

--- A generator of whole numbers below n: Park and Miller's, begun at the seed. Its first numbers would be alike for
-- seeds that follow each other.
function M.generator(seed)
  local state = math.floor(seed) % 2147483646 + 1
  for _ = 1, 5 do state = state * 16807 % 2147483647 end
  return function(n)
    state = state * 16807 % 2147483647
    return math.floor((state - 1) / 2147483646 * n)
  end
end

--- A permutation of 0 .. n-1.
function M.permutation(n, seed)
  if type(n) ~= 'number' or not (n >= 0 and n <= 2 ^ 31) or n % 1 ~= 0 then
    errors.bad('permutation takes a count of at most 2^31, not %s', errors.describe(n))
  end
  if seed ~= nil and type(seed) ~= 'number' then
    errors.bad('permutation: the seed is a number, not %s', errors.describe(seed))
  end
  local order, draw = {}, M.generator(seed or os.time())
  for i = 1, n do order[i] = i - 1 end
  for i = n, 2, -1 do
    local j = draw(i) + 1
    order[i], order[j] = order[j], order[i]
  end
  return order
end

return M
