--- size.lua: how large the project is, and how tangled: a table of what is, beside what it is to be. `make size` prints it.
--
--   lua5.4 spec/size.lua        in the top folder of a checkout; upward calls are those of build/debug or build/release, whichever was built last
local floors = require 'spec.floors'

local M = {}

local lines_of = floors.lines_of

--- Lines of the files that git knows below some folders; keep(path) says which count.
function M.lines(folders, keep)
  local sum = 0
  for _, path in ipairs(lines_of('git ls-files ' .. folders)) do
    local file = keep(path) and io.open(path, 'rb')
    if file then
      sum = sum + select(2, file:read '*a':gsub('\n', ''))
      file:close()
    end
  end
  return sum
end

local CODE = { lua = true, c = true, h = true, cc = true, cu = true, cuh = true, py = true, sh = true, mk = true }
local function is_code(path) return CODE[path:match '%.(%w+)$'] or false end
local function is_data(path) return not is_code(path) and not path:find '%.md$' end
local function is_page(path) return path:find '^spec/pages/' or path:find '^spec/screens/' end

--- Pairs of files where each includes the other's folder: {folder, folder} each, folders of runtime/ and of runtime/engine/.
function M.knots()
  local of, list = {}, {}
  for _, line in ipairs(lines_of "grep -rHE '^#include \"' runtime --include=*.[ch]") do
    local path, name = line:match '^(%S-):#include "([^"]+)"'
    local here, there = path:match '^runtime/(.*)/', name:match '^(.*)/'
    if here and there and here ~= there then of[here .. ' ' .. there] = true end
  end
  for pair in pairs(of) do
    local a, b = pair:match '^(%S+) (%S+)$'
    if a < b and of[b .. ' ' .. a] then list[#list + 1] = { a, b } end
  end
  return list
end

--- Seconds that all tests of a Lua took: the sum of build/seconds, as far as there is any, or of spec/seconds.
function M.seconds(pair)
  local sum, seen = 0, {}
  for _, path in ipairs{ 'build/seconds', 'spec/seconds' } do
    local file = io.open(path)
    for line in file and file:lines() or function() end do
      local seconds, name, spec = line:match '^([%d.]+) (%S+) (%S+)'
      if name == pair and not seen[spec] then sum, seen[spec] = sum + tonumber(seconds), true end
    end
    if file then file:close() end
  end
  return sum
end

--- The rows of the table: what, how much there is, how much there is to be.
function M.rows()
  local function newest()
    local best = lines_of 'ls -td build/debug build/release 2>/dev/null'
    return best[1]
  end
  local up = newest() and floors.upward(newest())
  local titles, long = lines_of 'git log -100 --format=%s', 0
  for _, title in ipairs(titles) do if #title > 72 then long = long + 1 end end
  local function number(n) return ('%d'):format(n) end
  return {
    { 'lines of code (runtime, kernels, stdlib, interp)', number(M.lines('runtime kernels stdlib interp', is_code)), '150000' },
    { 'lines of tests', number(M.lines('spec', is_code)), '60000' },
    { 'lines of data of tests', number(M.lines('spec', is_data)), '60000' },
    { 'lines of pages and screens among these', number(M.lines('spec/pages spec/screens', is_page)), '8000' },
    { 'upward calls in runtime/ (symbols)', up and number(#up) or 'nothing is built', '0' },
    { 'pairs of folders that include each other', number(#M.knots()), '0' },
    { 'seconds of all tests under Lua 5.4, one at a time', ('%.0f'):format(M.seconds 'lua5.4:debug'), '' },
    { 'seconds of all tests under LuaJIT, one at a time', ('%.0f'):format(M.seconds 'luajit:release'), '' },
    { 'titles of more than 72 characters, of the last ' .. #titles, number(long), '0' },
  }
end

if arg and arg[0] and arg[0]:find 'size%.lua$' then
  print(('%-52s %10s %10s'):format('', 'now', 'at most'))
  for _, row in ipairs(M.rows()) do print(('%-52s %10s %10s'):format(row[1], row[2], row[3])) end
  local most = {}
  for _, call in ipairs(floors.upward 'build/debug' or floors.upward 'build/release' or {}) do most[call[3]] = (most[call[3]] or 0) + 1 end
  for layer, n in pairs(most) do print(('  %d upward calls to %s'):format(n, layer)) end
end

return M
