--- fuzz_files.lua: files that are damaged in every way, or well formed and hostile, given to each reader there is.
--
--   dflow spec/fuzz_files.lua KIND|all SECONDS [SEED] [CORPUS]       lua5.4 and luajit, too; CORPUS is a folder, which grows
--   dflow spec/fuzz_files.lua KIND|all 0 [SEED] - COUNT              that many of each kind, in an empty folder
--   dflow spec/fuzz_files.lua KIND FILE…                             what becomes of these, to see again what was found
--
-- A reader gives what is in the file, or an error of ours that has a code and can be shown on a terminal. It takes no longer and no more
-- memory than a file of that size may, and nothing in it touches another file. An input that leads to a line or a message where none was
-- before is kept and damaged further. Checksums are mended in half of what is tried, so that what lies behind them is reached as well.
-- What is being tried lies in fuzz_files.last. It prints `N files, N errors, N new, N bad`, and fails if there are bad ones.
local df = require 'dflow'
local core = require 'dflow.backend'
local shell = require 'spec.shell'
local chance = require 'spec.chance'
local kinds = require(os.getenv 'FUZZ_KINDS' or 'spec.fuzz_kinds')        -- the spec has wrong ones

local MOST_BYTES, MOST_SECONDS, MOST_KEPT = 2 ^ 17, tonumber(os.getenv 'FUZZ_MOST_SECONDS' or 20), 3000
local MOST_MEMORY = tonumber(os.getenv 'FUZZ_MOST_MEGABYTES' or 700) * 2 ^ 20

local read, write = shell.read, shell.write

-- ---- chance: the same in every Lua ---------------------------------------------------------------------------------
local draw, one_of = chance.draw, chance.one_of

local telling = { '\0', '\1', '\255', '\127', '\128', '{', '}', '[', ']', '"', '\\', ',', ':', '-', '9', '\n', '\27[31m', 'e308', '0', '(', ')', '../', '/',
                  '\255\255\255\255', '\255\255\255\127', '\0\0\0\128', '\255\255\255\255\255\255\255\255\255\1', '-1', '99999999999', 'nan' }

--- The bytes, damaged in one to twelve places.
local function damaged(bytes, others)
  for _ = 1, 1 + draw(draw(4) > 0 and 3 or 12) do
    local at, length = draw(#bytes + 1), 1 + draw(draw(3) > 0 and 8 or 200)
    local before, after = bytes:sub(1, at), bytes:sub(at + 1)
    local how = draw(9)
    if how == 0 and #after > 0 then bytes = before .. string.char((after:byte() + 2 ^ draw(8)) % 256) .. after:sub(2)
    elseif how == 1 then bytes = before .. string.char(draw(256)) .. after:sub(2)
    elseif how == 2 then bytes = before .. one_of(telling) .. after:sub(2)
    elseif how == 3 then bytes = before .. one_of(telling) .. after
    elseif how == 4 then bytes = before .. after:sub(length + 1)
    elseif how == 5 then bytes = before .. after:sub(1, length) .. after
    elseif how == 6 then
      local other = one_of(others)
      local from = draw(#other + 1)
      bytes = before .. other:sub(from, from + draw(400)) .. after
    elseif how == 7 and draw(6) == 0 then bytes = before
    elseif how == 8 and #bytes > 8 then
      local from, to, n = draw(#bytes) + 1, draw(#bytes) + 1, 1 + draw(20)
      bytes = bytes:sub(1, to - 1) .. bytes:sub(from, from + n - 1) .. bytes:sub(to + n)
    end
    if #bytes > MOST_BYTES then bytes = bytes:sub(1, MOST_BYTES) end
  end
  return bytes
end

-- ---- trying ----------------------------------------------------------------------------------------------------------
local seen, news, here = {}, false, nil
local function place(key)
  if not seen[key] then seen[key], news = true, true end
end

--- Lines of the readers, where the interpreter tells them.
local function follow(_, line)
  local info = debug.getinfo(2, 'S')
  local source = info.source
  if source:find('dflow/exchange', 1, true) or source:find('dflow/data', 1, true) then place(here .. source:sub(-20) .. line) end
end

--- The most memory there was since it was last asked, in bytes, and what there is now.
local function memory()
  local most, now
  for line in io.lines '/proc/self/status' do
    most = most or line:match '^VmHWM:%s+(%d+)'
    now = now or line:match '^VmRSS:%s+(%d+)'
  end
  local f = io.open('/proc/self/clear_refs', 'w')
  if f then
    f:write '5'
    f:close()
  end
  return tonumber(most or 0) * 1024, tonumber(now or 0) * 1024
end

local tried, errors, bad, slowest = 0, 0, {}, 0
local function complain(kind, text)
  bad[#bad + 1] = ('%s: %s'):format(kind.name, text)
end

local function try(kind, bytes)
  local path = kind.path or './fuzzed' .. (kind.ending or '')
  write('fuzz_files.last', bytes)
  local argument = kind.write and kind.write(bytes) or path
  if not kind.write then write(path, bytes) end
  here, news = kind.name, false
  local _, before = memory()
  local began = os.clock()
  debug.sethook(follow, 'l')
  local ok, e = pcall(kind.read, argument, bytes)
  debug.sethook()
  local took, most = os.clock() - began, memory()
  tried, slowest = tried + 1, math.max(slowest, took)
  if took > MOST_SECONDS then complain(kind, ('it took %.1f s'):format(took)) end
  if most - before > MOST_MEMORY then complain(kind, ('it took %.0f MB for %d bytes'):format((most - before) / 2 ^ 20, #bytes)) end
  if ok then return news end
  errors = errors + 1
  if type(e) ~= 'table' or not e.code or type(e.message) ~= 'string' or e.message == '' then
    complain(kind, 'an error that is none of ours: ' .. tostring(e))
  else
    local text = tostring(e)
    if text:find '[%z\1-\8\11-\31\127]' then complain(kind, ('the message would be sent to a terminal: %q'):format(text)) end
    place(here .. e.code .. e.message:gsub("'[^']*'", ''):gsub('"[^"]*"', ''):gsub('`[^`]*`', ''):gsub('[%d%x]+', ''):sub(1, 60))
  end
  return news
end

--- Fuzzes one kind until done() says so; how many inputs were kept.
local function fuzz(kind, done, corpus)
  local list, kept = {}, 0
  for _, bytes in ipairs(kind.seeds()) do list[#list + 1] = bytes end
  local first = #list
  assert(first > 0, kind.name .. ' has nothing to begin with')
  if corpus then
    os.execute(("mkdir -p '%s/%s'"):format(corpus, kind.name))
    for _, name in ipairs(core.folder_list(corpus .. '/' .. kind.name):list()) do list[#list + 1] = read(corpus .. '/' .. kind.name .. '/' .. name) end
  end
  for i = 1, #list do
    local found = #bad
    try(kind, list[i])
    if i <= first and #bad == found and not pcall(kind.read, kind.write and kind.write(list[i]) or kind.path or './fuzzed' .. (kind.ending or ''), list[i]) then
      complain(kind, ('the undamaged file %d cannot be read'):format(i))
    end
  end
  while not done() and #bad == 0 do
    local bytes = list[draw(3) > 0 and draw(#list) + 1 or draw(first) + 1]
    bytes = kind.form and draw(2) == 0 and kind.form(bytes):sub(1, MOST_BYTES) or damaged(bytes, list)
    if kind.mend and draw(2) == 0 then bytes = kind.mend(bytes) end
    if try(kind, bytes) and #list < MOST_KEPT then
      list[#list + 1], kept = bytes, kept + 1
      if corpus then write(('%s/%s/%08x%08x'):format(corpus, kind.name, core.crc32c(bytes), core.crc32(bytes)), bytes) end
    end
  end
  return kept
end

local name, seconds = arg[1] or 'all', tonumber(arg[2])
local chosen = {}
for _, kind in ipairs(kinds) do
  if name == 'all' or name == kind.name then chosen[#chosen + 1] = kind end
end
assert(#chosen > 0, 'there is no kind ' .. name)
local kept = 0
if not seconds then
  chance.set(1)
  for i = 2, #arg do try(chosen[1], assert(read(arg[i]), arg[i])) end
else
  local corpus, count = arg[4] ~= '-' and arg[4] or nil, tonumber(arg[5])
  for i, kind in ipairs(chosen) do
    chance.set(((tonumber(arg[3]) or 1) * 7919 + i * 104729) % 2147483646 + 1)
    for _ = 1, 5 do draw(2) end
    local until_, n = os.time() + seconds / #chosen, 0
    kept = kept + fuzz(kind, function()
      n = n + 1
      if n % 200 == 0 then df.reset() collectgarbage() end
      return count and n > count or not count and os.time() >= until_
    end, corpus)
    if #bad > 0 then break end
  end
end
if #bad == 0 then os.remove 'fuzz_files.last' end
for _, text in ipairs(bad) do print(text) end
print(('%d files of %d kinds, %d errors, %d new, the slowest %.2f s, %d bad'):format(tried, #chosen, errors, kept, slowest, #bad))
os.exit(#bad == 0)
