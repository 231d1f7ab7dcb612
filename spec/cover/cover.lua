--- cover.lua: which spec files read which lines of the sources, so that `make mutants` asks those that can notice a change.
--
-- A first reading of every spec file, in a tree built with MODE=cover, leaves four files of each (read.sh): the places in the library
-- that it has been at (places.c), the lines of stdlib/ (lines.c), both for each test, and how long it took. `load` makes one index of
-- the files; in which tests of a file a line was read is looked up when it is asked.
local shell = require 'spec.shell'

local M = {}
local Cover = {}
Cover.__index = Cover

local LINES = 4096                                          -- as in lines.c

local lines_of = require('spec.shell').lines

--- Reads every spec file of `specs`, files or folders, that has not been read, some at a time, in `tree`; what is learnt lies in
-- `folder` (a whole path).
function M.record(folder, tree, make, specs)
  local words = { folder = folder, tree = tree, make = make, specs = specs }
  local function run(command)
    local ok = os.execute((command:gsub('{(%w+)}', words)))
    assert(ok == true or ok == 0, 'cover.lua: ' .. command)
  end
  run [[mkdir -p {folder}]]
  run [[cd {tree} && {make} --no-print-directory MODE=cover all build/cover/lua/dflow/lines.so build/cover/pty >{folder}/build.log 2>&1]]
  run [[ln -sfn cover {tree}/build/debug]]                  -- for specs that read others
  run [[cd {tree} && find stdlib -name '*.lua' | LC_ALL=C sort >{folder}/files]]
  -- What counts instructions takes minutes and notices what is dearer, not what is wrong.
  run [[cd {tree} && find {specs} -name '*_spec.lua' ! -name instructions_spec.lua | LC_ALL=C sort | xargs -P $(nproc) -n 1 spec/cover/read.sh {folder}]]
end

--- The positions of the bytes of a map that are not zero, from 0.
local function marks(map)
  local list, at = {}, 0
  while true do
    at = map:find('[\1\2]', at + 1)
    if not at then return list end
    list[#list + 1] = at - 1
  end
end

--- The lines of the library's places: place -> { path =, line = }. A call returns behind itself, so the byte before is asked for. What was found lies in
-- `folder`, so that only what is new is looked for.
local function lines_of_places(folder, tree, places)
  local lines, list, words = {}, {}, {}
  for place, path, line in (shell.read(folder .. '/found') or ''):gmatch '(%d+) (%S+) (%d+)\n' do lines[tonumber(place)] = { path = path, line = tonumber(line) } end
  for place in pairs(places) do if not lines[place] then list[#list + 1] = place end end
  table.sort(list)
  for i, place in ipairs(list) do words[i] = ('%x'):format(place - 1) end
  local asked = os.tmpname()
  shell.write(asked, table.concat(words, '\n') .. '\n')
  local root, told = lines_of('cd ' .. tree .. ' && pwd -P')[1] .. '/', {}
  for i, line in ipairs(#list > 0 and lines_of(('addr2line -e %s/build/cover/libdflow.so <%s'):format(tree, asked)) or {}) do
    local path, number = line:match '^(.-):(%d+)'
    local at = path:find('/kernels/', 1, true) or path:find('/runtime/', 1, true)
    if path:sub(1, #root) == root then path = path:sub(#root + 1) elseif at then path = path:sub(at + 1) end
    lines[list[i]] = { path = path:gsub('/%./', '/'), line = tonumber(number) or 0 }
    told[i] = ('%d %s %d\n'):format(list[i], lines[list[i]].path, lines[list[i]].line)
  end
  os.remove(asked)
  local f = assert(io.open(folder .. '/found', 'a'))
  f:write(table.concat(told))
  f:close()
  return lines
end

function Cover:mark(path, line, spec)
  local lines = self.at[path] or {}
  self.at[path] = lines
  lines[line] = lines[line] or {}
  lines[line][spec] = true
end

--- The tests that a log of busted has as failed, by their full names; nil where something else went wrong.
local function failures(log)
  local list, failed = {}, false
  for line in log:gmatch '[^\n]+' do
    if failed then list[#list + 1] = line end
    failed = line:find '^Failure %-> ' ~= nil or line:find '^Error %-> %S+ @ %d+$' ~= nil
    if line:find '^Error %-> ' and not failed then return nil end
  end
  return #list > 0 and list or nil
end

local function file_name(spec) return (spec.path:match '^spec/(.*)%.lua$':gsub('/', '.')) end

--- What the readings have left in `folder`.
function M.load(folder, tree)
  local c = setmetatable({ at = {}, specs = {}, folder = folder, tree = tree, values = {} }, Cover)
  for _, took in ipairs(lines_of('ls ' .. folder .. '/*.took')) do
    local status, clock, processor = shell.read(took):match '^(%S+) (%S+) (%S+)'
    local name = took:match '([^/]+)%.took$'
    local failed = tonumber(status) < 100 and failures(shell.read((took:gsub('%.took$', '.log'))) or '')      -- so many as its status says
    local known = failed and #failed == tonumber(status)
    c.specs[#c.specs + 1] = { path = 'spec/' .. name:gsub('%.', '/') .. '.lua', clock = tonumber(clock), processor = tonumber(processor),
                              holds = status == '0' or status == '124' or known, part = status == '124', except = known and failed or nil }
  end
  local files = {}
  for path in shell.read(folder .. '/files'):gmatch '[^\n]+' do
    files[#files + 1] = path
    c.values[path] = (#files - 1) * LINES                   -- what stands for its line 0 in a map
  end
  for _, spec in ipairs(c.specs) do
    for _, at in ipairs(marks(shell.read(folder .. '/' .. file_name(spec) .. '.lines') or '')) do
      c:mark(files[at // LINES + 1], at % LINES, spec)
    end
  end
  return c
end

--- The lines of the library's files, which take a minute to be found; those of Lua do without.
function Cover:with_library()
  if self.has_library then return end
  self.has_library = true
  local places, maps = {}, {}
  for _, spec in ipairs(self.specs) do
    maps[spec] = marks(shell.read(self.folder .. '/' .. file_name(spec) .. '.places') or '')
    for _, place in ipairs(maps[spec]) do places[place] = true end
  end
  local lines = lines_of_places(self.folder, self.tree, places)
  for place, line in pairs(lines) do
    if places[place] then
      local key = line.path .. ':' .. line.line
      self.values[key] = self.values[key] or {}
      table.insert(self.values[key], place)
    end
  end
  for spec, map in pairs(maps) do
    for _, place in ipairs(map) do
      local line = lines[place]
      if line then self:mark(line.path, line.line, spec) end
    end
  end
end

--- How many of the lines from..to any spec has read, and how many each has.
local function counted(lines, from, to)
  local all, of = 0, {}
  for line, specs in pairs(lines) do
    if line >= from and line <= to then
      all = all + 1
      for spec in pairs(specs) do of[spec] = (of[spec] or 0) + 1 end
    end
  end
  return all, of
end

--- Where the function, or whatever begins at the margin, around a line begins and ends.
function M.item(text, line)
  local from, to, number = 1, math.huge, 0
  for s in (text .. '\n'):gmatch '([^\n]*)\n' do
    number = number + 1
    if s:find '^[%a_#@]' and not s:find '^end' then
      if number <= line then from = number else to = math.min(to, number - 1) end
    end
  end
  return from, to
end

--- Is one of the values among those that are written there, four bytes each?
local function holds_any(words, values)
  for _, value in ipairs(values) do
    local word, at = ('<I4'):pack(value), 0
    repeat
      at = words:find(word, at + 1, true)
      if at and at % 4 == 1 then return true end
    until not at
  end
  return false
end

--- In which tests of a spec file any of these lines was read: { name =, clock = }; nil where that is outside of all (what makes each ready), or
-- not known.
function Cover:tests(spec, path, lines)
  local data = shell.read(('%s/%s.tests'):format(self.folder, file_name(spec)))
  local of_lua = type(self.values[path]) == 'number'
  local values, list, at = {}, {}, 1
  for _, line in ipairs(lines) do
    if of_lua then values[#values + 1] = self.values[path] + line end
    for _, value in ipairs(not of_lua and self.values[path .. ':' .. line] or {}) do values[#values + 1] = value end
  end
  while data and at <= #data do
    local places, read, clock, name, from = data:match('^(%d+) (%d+) (%d+) ([^\n]*)\n()', at)
    local first = of_lua and from + 4 * places or from
    at = from + 4 * (places + read)
    if holds_any(data:sub(first, of_lua and at - 1 or from + 4 * places - 1), values) then
      if name ~= '' then list[#list + 1] = { name = name, clock = clock / 1000 } end
    end
  end
  return #list > 0 and list or nil
end

--- The lines that tell who reads a line: itself, or, where it has no place of its own, what is known before and behind it. One of the two
-- may be another branch's, as what is freed where all goes well and where nothing does.
local function telling(lines, line, from, to)
  if lines[line] then return { line } end
  local before, behind
  for l in pairs(lines) do
    -- The first line of a function is read when it is made.
    if l < line and l > from and (not before or l > before) then before = l end
    if l > line and l <= to and (not behind or l < behind) then behind = l end
  end
  local list = { before }
  list[#list + 1] = behind
  return list
end

--- The specs that run a line: { spec =, share = how much of what stands around it, of = how much of its file, tests = }; those that run the
-- function (then the file) where none runs the line itself, which `nobody` tells.
function Cover:readers(path, text, line)
  if type(self.values[path]) ~= 'number' then self:with_library() end
  local lines = self.at[path]
  if not lines then return {}, true end
  local from, to = M.item(text, line)
  local all, of = counted(lines, from, to)
  local in_file, of_file = counted(lines, 1, math.huge)
  local near, list = telling(lines, line, from, to), {}
  local who = next(of) and of or of_file
  if #near > 0 then
    who = {}
    for _, l in ipairs(near) do for spec in pairs(lines[l]) do who[spec] = true end end
  end
  for spec in pairs(who) do
    list[#list + 1] = { spec = spec, share = (of[spec] or 0) / math.max(1, all), of = (of_file[spec] or 0) / math.max(1, in_file),
                        tests = #near > 0 and self:tests(spec, path, near) or nil }
  end
  return list, #near == 0
end

return M
