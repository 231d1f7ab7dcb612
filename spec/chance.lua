--- Numbers by chance from a seed, the same in every Lua.
local M = {}

--- A function of 1 … below, and of its state alone.
function M.dice(seed)
  local s = seed * 2654435761 % 4294967296
  return function(below)
    s = (s * 1664525 + 1013904223) % 4294967296
    return math.floor(s / 65536) % below + 1
  end
end

--- The same of Lehmer's minimal standard, by which older programs' seeds have been drawn.
function M.minimal(seed)
  local s = seed * 2 + 1
  return function(below)
    s = s * 16807 % 2147483647
    return math.floor(s / 2147483647 * below) + 1
  end
end

local state

--- Where draw begins: 1 … 2147483646.
function M.set(seed) state = seed end
--- One of 0 … n - 1.
function M.draw(n)
  state = state * 48271 % 2147483647
  return math.floor(state / 2147483647 * n)
end
function M.one_of(list) return list[M.draw(#list) + 1] end

return M
