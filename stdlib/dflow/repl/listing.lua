--- Tokens and stacks of a run as lists of lines in columns: what :tokens and :stacks say.
local M = {}

local ORDER = { ready = 1, running = 2, waiting = 3, partial = 4 }
local MOST = 200             -- lines

local function pad(text, width) return text .. (' '):rep(width - #text) end

--- `3-7`, or `3, 5-9`: whole numbers in ascending order.
local function ranges(list)
  local words, i = {}, 1
  while i <= #list do
    local j = i
    while list[j + 1] == list[j] + 1 do j = j + 1 end
    words[#words + 1] = i == j and ('%.0f'):format(list[i]) or ('%.0f-%.0f'):format(list[i], list[j])
    i = j + 1
  end
  return table.concat(words, ', ')
end

--- Tokens of one node that differ in their iteration alone are one line: `while:5-20`. What can run comes first.
-- @param list  as h:tokens() gives it
-- @return      lines, each {text, dead =}
function M.tokens(list)
  local groups, by_key = {}, {}
  for at, t in ipairs(list) do
    local frame, iteration = t.tag:match('^(.*):(%d+)$')
    local key = table.concat({ t.state, t.op.name, frame or '', t.missing, tostring(t.dead) }, '|')
    local group = by_key[key]
    if not group then
      group = { t = t, frame = frame, iterations = {}, at = at }
      by_key[key], groups[#groups + 1] = group, group
    end
    group.iterations[#group.iterations + 1] = tonumber(iteration)
  end
  table.sort(groups, function(a, b)
    local x, y = ORDER[a.t.state] or 5, ORDER[b.t.state] or 5
    if x ~= y then return x < y end
    return a.at < b.at
  end)
  local names, tags = 28, 0
  for i = 1, math.min(#groups, MOST) do
    local group = groups[i]
    table.sort(group.iterations)
    group.tag = group.frame and group.frame .. ':' .. ranges(group.iterations) or group.t.tag
    names, tags = math.max(names, #group.t.op.name), math.max(tags, #group.tag)
  end
  local lines = {}
  for i, group in ipairs(groups) do
    local t = group.t
    if i > MOST then
      lines[i] = { ('… and %d more lines; :tokens NAME shows those of one node'):format(#groups - MOST) }
      break
    end
    local more = t.missing > 0 and ('  %d input%s to come'):format(t.missing, t.missing == 1 and '' or 's') or ''
    if t.dead then more = more .. '  dead' end
    local text = ('%-8s %s %s%s'):format(t.state, pad(t.op.name, names), pad(group.tag, tags), more)
    lines[i] = { (text:gsub(' +$', '')), dead = t.dead }
  end
  return lines
end

local function bytes(n)
  for _, unit in ipairs{ 'B', 'KiB', 'MiB', 'GiB' } do
    if n < 1024 or unit == 'GiB' then return unit == 'B' and ('%d B'):format(n) or ('%.1f %s'):format(n, unit) end
    n = n / 1024
  end
end
M.bytes = bytes

--- Saved values and TensorArrays; those of one name that hold nothing yet are one line.
-- @param list  as h:stacks() gives it
function M.stacks(list)
  local names, dtypes, frames, empty, rows = 30, 0, 0, {}, {}
  for _, s in ipairs(list) do
    local key = s.depth == 0 and s.size == 0 and s.name .. (s.where or '')
    if key and empty[key] then
      empty[key].more = (empty[key].more or 0) + 1
    else
      local row = { s = s }
      rows[#rows + 1] = row
      if key then empty[key] = row end
    end
  end
  for _, row in ipairs(rows) do
    row.frame = row.s.frame .. (row.more and (' and %d more'):format(row.more) or '')
    names, dtypes, frames = math.max(names, #row.s.name), math.max(dtypes, #row.s.dtype), math.max(frames, #row.frame)
  end
  local lines = {}
  for i, row in ipairs(rows) do
    local s = row.s
    local depth = s.depth == 0 and s.size == 0 and ('%16s'):format 'empty   ' or ('%6d of %-6d'):format(s.depth, s.size)
    lines[i] = ('%-10s %s %s %10s  %s  %s  %s'):format(s.saved and 'saved' or 'array', pad(s.name, names), depth,
        bytes(s.bytes),
      pad(s.dtype, dtypes), s.where and pad(row.frame, frames) or row.frame, s.where or '')
  end
  return lines
end

return M
