--- Derivatives by differences.
local M = {}
local unpack = table.unpack or unpack
local abs, max, min, huge = math.abs, math.max, math.min, math.huge

--- Numbers between -1 and 1, or weights between 0.5 and 1.5, that do not repeat: the same for the same seed.
function M.random(n, seed)
  local list, state = {}, (seed * 7919 + 12345) % 2147483646 + 1
  for _ = 1, 3 do state = state * 16807 % 2147483647 end
  for i = 1, n do
    state = state * 16807 % 2147483647
    list[i] = 2 * state / 2147483647 - 1
  end
  return list
end
function M.weights(n, seed)
  local list = M.random(n, seed)
  for i = 1, n do list[i] = 1 + list[i] / 2 end
  return list
end

--- The slope of a function of one number at 0, by central differences of two steps and Richardson's extrapolation.
-- Where the two disagree smaller steps are tried, and the step where they agree best counts.
-- @param f     function(t) -> number
-- @param step  the first step
-- @param eps   the precision of what f gives
-- @return      slope, by how much the steps disagree, how much is rounding
function M.slope(f, step, eps)
  local best, apart, noise = 0 / 0, huge, huge
  local h = step
  for _ = 1, eps > 1e-12 and 1 or 4 do
    local a, b, c, d = f(h), f(-h), f(h / 2), f(-h / 2)
    local wide, narrow = (a - b) / (2 * h), (c - d) / h
    local off, round = abs(wide - narrow) / 3, 32 * eps * max(abs(a), abs(b), abs(c), abs(d)) / h
    if off + round == off + round and off + round < apart + noise then
      best, apart, noise = (4 * narrow - wide) / 3, off, round
    end
    if apart <= 1e-9 * abs(best) + noise then break end
    h = h / 16
  end
  return best, apart, noise
end

--- The slopes from the left and from the right.
function M.sides(f, h)
  local here, above, below = f(0), f(h), f(-h)
  return (here - below) / h, (above - here) / h
end

--- Does a derivative agree with differences? At a kink (the two sides differ) it does when it lies between them.
-- @param found  what the gradient says
-- @param f      the function of one number
-- @param scale  how large such derivatives are: what is far smaller than this is zero
-- @param how    { step, eps, tolerance }
-- @return       true, or false and what the differences say
function M.agrees(found, f, scale, how)
  local slope, apart, noise = M.slope(f, how.step, how.eps)
  if slope ~= slope then return true, slope end             -- f is not defined around here
  -- steps that disagree prove nothing small, but do not excuse everything
  local size = max(abs(found), abs(slope)) + 0.01 * scale
  if abs(found - slope) <= how.tolerance * size + noise + min(4 * apart, 0.05 * size) then return true, slope end
  local left, right = M.sides(f, how.step * how.kink)
  if abs(left - right) > 1e-2 * (abs(left) + abs(right)) then
    local slack = 1e-2 * (abs(left) + abs(right))
    if found >= min(left, right) - slack and found <= max(left, right) + slack then return true, slope end
  end
  return false, slope
end

--- How to go about it: sharp for float64, loose for what rounds early.
function M.how(sharp, opts)
  return { step = opts.step or (sharp and 1e-3 or 2e-2), eps = sharp and 2.3e-16 or 6e-8, kink = sharp and 1e-3 or 1,
           tolerance = opts.tolerance or (sharp and 1e-5 or 2e-2), sharp = sharp }
end

--- Compares a gradient with a function of many numbers: element by element where they are few, else along some random
-- directions and at some elements.
-- @param at     the numbers
-- @param found  the gradient, as many numbers
-- @param run    function(numbers) -> number
-- @return       nil, or { element, found, expected } of the worst element looked at (element nil: along a direction)
function M.compare(at, found, run, how, most)
  local n, scale = #at, 0
  for i = 1, n do
    if found[i] ~= found[i] or abs(found[i]) == huge then scale = huge else scale = max(scale, abs(found[i])) end
  end
  if scale == huge then
    for i = 1, n do if found[i] ~= found[i] or abs(found[i]) == huge then
      local expected = M.slope(function(t) local p = { unpack(at, 1, n) } p[i] = p[i] + t return run(p) end, how.step,
                               how.eps)
      if expected == expected and abs(expected) < huge then
        return { element = i - 1, found = found[i], expected = expected }
      end
    end end
    return nil
  end
  local function along(direction, size)
    return function(t)
      local moved = {}
      for i = 1, n do moved[i] = at[i] + t * size * direction[i] end
      return run(moved) / size
    end
  end
  local function element(i)
    local unit = {}
    for k = 1, n do unit[k] = k == i and 1 or 0 end
    local fine, expected = M.agrees(found[i], along(unit, max(0.1, abs(at[i]))), scale, how)
    if not fine then
      return { element = i - 1, found = found[i], expected = expected, size = abs(found[i] - expected) }
    end
  end
  local worst
  local function note(w) if w and (not worst or w.size > worst.size) then worst = w end end
  if n <= most then
    for i = 1, n do note(element(i)) end
    return worst
  end
  for k = 1, how.few and 1 or 3 do
    local direction, sum, square = M.random(n, 100 + k), 0, 0
    for i = 1, n do
      sum = sum + direction[i] * found[i]
      square = square + (direction[i] * found[i]) ^ 2
    end
    local largest = 0.1
    for i = 1, n do largest = max(largest, abs(at[i])) end
    local fine, expected = M.agrees(sum, along(direction, largest), square ^ 0.5, how)
    if not fine then note{ found = sum, expected = expected, size = abs(sum - expected) } end
  end
  local pick, spots = M.random(8, n), {}
  for k = 1, how.few and 1 or 8 do spots[math.floor((pick[k] + 1) / 2 * (n - 1)) + 1] = true end
  local top = 1
  for i = 2, n do if abs(found[i]) > abs(found[top]) then top = i end end
  spots[top] = true
  local seen
  for i in pairs(spots) do
    local w = element(i)
    if w and (not seen or w.size > seen.size) then seen = w end
  end
  return seen or worst
end

return M
