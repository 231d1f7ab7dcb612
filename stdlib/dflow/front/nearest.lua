--- Which name was meant by one that there is not: for `did you mean`.
-- ---- did you mean -------------------------------------------------------------------------------------
--- How many letters are to be changed, put in, left out or exchanged with the next one to come from a to b.
local function distance(a, b)
  local previous, before = {}, nil
  for j = 0, #b do previous[j] = j end
  for i = 1, #a do
    local current = { [0] = i }
    for j = 1, #b do
      local cost = a:byte(i) == b:byte(j) and 0 or 1
      current[j] = math.min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + cost)
      if before and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        current[j] = math.min(current[j], before[j - 2] + 1)
      end
    end
    previous, before = current, previous
  end
  return previous[#b]
end

--- How many letters two words have in common at their beginning.
local function common(a, b)
  local n = 0
  while n < #a and a:byte(n + 1) == b:byte(n + 1) do n = n + 1 end
  return n
end

--- The name of the list that is most like `word`, or nil when none is. Of names that are as near, the one that begins
-- with the word, is as long, or begins with more of its letters, is likelier.
return function(word, names)
  local best, best_distance, nearest
  for _, name in ipairs(names) do
    local d = distance(word:lower(), name:lower())
    local unlikely = (#name ~= #word and 0.25 or 0) + (name:sub(1, #word):lower() ~= word:lower() and 0.5 or 0)
      - 0.1 * common(word:lower(), name:lower()) / math.max(1, #word)
    if not best or d + unlikely < nearest then best, best_distance, nearest = name, d, d + unlikely end
  end
  if best and best_distance <= math.max(1, math.floor(#word / 3)) then return best end
end
