--- Ctrl-R: inputs of before by some of their letters, in their order; words in any. What fits best comes first, of
-- equals the latest.
local M = {}

-- places where a match is tried from; rows of the list; letters of an entry that are looked at
local STARTS, SHOWN, LONG = 6, 12, 4000

local function is_letter(text, at) return text:find('^[%w_]', at) ~= nil end

--- Where the letters of a word stand in a text, one after the other, and what that costs: 0 is a whole word, 1 the
--- beginning of one, 2 a part; more where there is something between them. nil: nowhere near each other.
local function place(text, word)
  local best, cost, first = nil, math.huge, 0
  for _ = 1, STARTS do
    first = text:find(word, first + 1, true)
    if not first then break end
    local inside, goes_on = first > 1 and is_letter(text, first - 1) and is_letter(text, first),
      is_letter(text, first + #word)
    local c = inside and 2 or goes_on and 1 or 0
    if c < cost then
      best, cost = {}, c
      for i = 1, #word do best[i] = first + i - 1 end
    end
  end
  if best then return best, cost end
  first = 0
  for _ = 1, STARTS do
    first = text:find(word:sub(1, 1), first + 1, true)
    if not first then break end
    local list, last = { first }, first
    for i = 2, #word do
      last = text:find(word:sub(i, i), last + 1, true)
      if not last then break end
      list[i] = last
    end
    if not last then break end
    local gaps = last - first + 1 - #word
    local c = gaps + (first > 1 and is_letter(text, first - 1) and 12 or 10)
    if c < cost and gaps <= 3 * #word + 6 then best, cost = list, c end
  end
  return best, cost
end

--- What of the entries, newest first, fits a pattern: {text, spots = {[place] = true}, last = the place behind the last
-- letter}.
function M.find(entries, pattern)
  local blind, words, list = not pattern:find('%u'), {}, {}        -- capitals count where there are some
  for word in pattern:gmatch('%S+') do words[#words + 1] = word end
  if #words == 0 then return list end
  for n, entry in ipairs(entries) do
    local text, sum = entry:sub(1, LONG), 0
    if blind then text = text:lower() end
    local found = { text = entry, spots = {}, number = n, last = 0 }
    for _, word in ipairs(words) do
      local spots, cost = place(text, word)
      if not spots then sum = nil break end
      sum = sum + cost
      for _, at in ipairs(spots) do
        found.spots[at] = true
        found.last = math.max(found.last, at)
      end
    end
    if sum then
      found.cost = sum
      list[#list + 1] = found
    end
  end
  table.sort(list, function(a, b) if a.cost ~= b.cost then return a.cost < b.cost end return a.number < b.number end)
  return list
end

--- Entries of a history, oldest first, as a search wants them: newest first, each once.
function M.newest(history)
  local list, seen = {}, {}
  for i = #history, 1, -1 do
    if not seen[history[i]] then
      seen[history[i]] = true
      list[#list + 1] = history[i]
    end
  end
  return list
end

--- A found entry as a row: the line of its first letter that fits, marked. Text and styles.
local function row(found, chosen, columns)
  local first = #found.text
  for at in pairs(found.spots) do first = math.min(first, at) end
  local from = first
  while from > 1 and found.text:sub(from - 1, from - 1) ~= '\n' do from = from - 1 end
  local to = (found.text:find('\n', from, true) or #found.text + 1) - 1
  local before, behind = from > 1 and '... ' or '', to < #found.text and ' ...' or ''
  local function room() return math.max(8, columns - 4 - #before - #behind) end
  if first - from > room() - math.min(24, math.floor(room() * 0.7)) then     -- what fits is to be seen
    before, from = '... ', first - math.min(10, math.floor(room() / 8))
    while from < first and found.text:find('^[\128-\191]', from) do from = from + 1 end
  end
  if to - from + 1 > room() then
    behind = ' ...'
    to = from + room() - 1
    while to > from and found.text:find('^[\128-\191]', to + 1) do to = to - 1 end
  end
  local text, styles = (chosen and '> ' or '  ') .. before, {}
  local plain = chosen and 'm' or ' '
  styles[1] = plain:rep(#text)
  for at = from, to do styles[#styles + 1] = found.spots[at] and 'M' or plain end
  return text .. found.text:sub(from, to):gsub('%c', ' ') .. behind, table.concat(styles) .. ('h'):rep(#behind)
end

--- What is shown below the input: text, styles, text, styles, …; `chosen` of the list is marked.
function M.menu(list, pattern, chosen, columns, rows)
  local said = ("search: %s"):format(pattern)
  local how = #list == 0 and pattern:find('%S') and '   nothing fits'
    or '   Ctrl-R next, Enter runs, Tab takes, Esc leaves'
  if #said + #how > columns - 1 then how = #list == 0 and ' (none)' or '' end
  local out = { said .. how, ('m'):rep(#said) .. ('h'):rep(#how) }
  local room = math.max(1, math.min(SHOWN, rows - 6))
  local first = math.max(1, chosen - room + 1)
  for i = first, math.min(#list, first + room - 1) do
    out[#out + 1], out[#out + 2] = row(list[i], i == chosen, columns)
  end
  if #list > first + room - 1 then
    local more = ('  %d more'):format(#list - first - room + 1)
    out[#out + 1], out[#out + 2] = more, ('h'):rep(#more)
  end
  return out
end

return M
