--- Tables as text, and the lists and tables that runs give: plain tables, which say what they hold when they are
-- printed.
local text = require 'dflow.front.text'

local M = {}

--- What is on a line at most, as the prompt and `print` have it without a window.
local COLUMNS = 80

local function key_text(key, show)
  if type(key) == 'string' and key:find('^[%a_][%w_]*$') then return key end
  return '[' .. show(key) .. ']'
end

--- The list of keys, of any types, put in an order that a reader expects: numbers first, then names.
function M.sorted(keys)
  table.sort(keys, function(a, b)
    local ta, tb = type(a), type(b)
    if ta ~= tb then return ta == 'number' or (tb ~= 'number' and ta < tb) end
    if ta == 'number' or ta == 'string' then return a < b end
    return tostring(a) < tostring(b)
  end)
  return keys
end

--- Short words in as many columns as fit, for a list of many numbers; nil when they are not short.
local function in_rows(words, wide)
  local width = 0
  for i, word in ipairs(words) do
    if word:find('\n', 1, true) then return nil end
    if i < #words then width = math.max(width, #word) end
  end
  local columns = math.floor((wide - 4) / (width + 2))
  if columns < 4 then return nil end
  local rows = {}
  for at = 1, #words, columns do
    local row = {}
    for i = at, math.min(at + columns - 1, #words) do
      row[#row + 1] = (' '):rep(i < #words and width - #words[i] or 0) .. words[i]
    end
    rows[#rows + 1] = table.concat(row, ', ')
  end
  return '{\n  ' .. table.concat(rows, ',\n  ') .. '\n}'
end

--- The words in braces: on one line, in rows, or one below the other.
local function joined(words, named, columns)
  local line = table.concat(words, ', ')
  if not line:find('\n') and #line < columns - 10 then return '{' .. line .. '}' end
  local rows = not named and in_rows(words, columns)
  if rows then return rows end
  for i = 1, #words - 1 do           -- the comma stands before a comment
    local what, where = words[i]:match('^(.*)(  %-%- [^\n]*)$')
    words[i] = what and what .. ',' .. where or words[i] .. ','
  end
  return '{\n  ' .. table.concat(words, '\n'):gsub('\n', '\n  ') .. '\n}'
end

--- A table as text, {256.0, name = 3}; one that is inside of itself is marked.
-- @param depth  how many tables it is inside of
-- @param open   those, as a set
-- @param part   part(x, depth, open): what is in it as text
-- @param most   {depth =, entries =, columns =}: how much is shown
function M.text(v, depth, open, part, most)
  if open[v] then return '<cycle>' end
  if depth == most.depth then return next(v) == nil and '{}' or '{…}' end
  open[v] = true
  local words, keys, listed = {}, {}, 0
  while rawget(v, listed + 1) ~= nil do listed = listed + 1 end
  for i = 1, math.min(listed, most.entries) do words[i] = part(rawget(v, i), depth + 1, open) end
  local left = listed - #words
  for key in next, v do
    if not (type(key) == 'number' and key >= 1 and key <= listed and key == math.floor(key)) then
      keys[#keys + 1] = key
    end
  end
  for _, key in ipairs(M.sorted(keys)) do
    if #words >= most.entries then
      left = left + 1
    else
      words[#words + 1] = key_text(key, function(k) return part(k, depth + 1, open) end) .. ' = '
        .. part(rawget(v, key), depth + 1, open)
    end
  end
  open[v] = nil
  if left > 0 then words[#words + 1] = ('… %d more'):format(left) end
  return joined(words, #keys > 0, most.columns)
end

-- ---- what runs give -------------------------------------------------------------------------------------------------
local Results = {}

local function part_text(v, depth, open)
  if type(v) == 'string' then return text.quoted(v) end
  if v ~= v then return 'nan' end
  if type(v) ~= 'table' or (getmetatable(v) and not M.is(v)) then return tostring(v) end
  return M.text(v, depth, open, part_text, { depth = 100, entries = text.options.threshold, columns = COLUMNS })
end

Results.__tostring = function(t) return part_text(t, 0, {}) end
Results.__concat = function(a, b) return tostring(a) .. tostring(b) end

--- The table, which says from now on what it holds.
function M.of(t) return setmetatable(t, Results) end

--- Is it one of these?
function M.is(v) return getmetatable(v) == Results end

return M
