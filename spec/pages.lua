--- Texts that are compared whole with what is written down in spec/pages: pictures, pages of help, exported models. After a change that is
-- meant, `DFLOW_PAGES=write` before the spec writes them anew: look at their diff.
local shell = require 'spec.shell'

local M = {}
local writes = os.getenv 'DFLOW_PAGES' == 'write'
local sections = {}      -- of the pages that were asked for: { [path] = { [key] = text, list of the keys } }

--- The first line in which two texts differ.
local function difference(name, wanted, found)
  local at, number = 1, 0
  while true do
    number = number + 1
    local a, b = wanted:match('^[^\n]*', at), found:match('^[^\n]*', at)
    if a ~= b then return ('%s:%d is another line now (DFLOW_PAGES=write, if that is meant)\n  was: %s\n  is:  %s'):format(name, number, a, b) end
    at = at + #a + 1
  end
end

local function write(path, text)
  if not shell.read(path) then os.execute('mkdir -p ' .. path:match '^.*/') end
  shell.write(path, text)
end

--- Is the text what spec/pages/NAME has?
function M.same(name, text)
  local path = 'spec/pages/' .. name
  if writes then write(path, text) end
  local wanted = assert(shell.read(path), path .. ' is not there: DFLOW_PAGES=write makes it')
  if text ~= wanted then error(difference(path, wanted .. '\n\1', text .. '\n\1'), 2) end
end

--- What stands below the lines '== key' of a page.
local function sections_of(path)
  if sections[path] then return sections[path] end
  local list = {}
  for key, text in ('\n' .. (not writes and shell.read(path) or '')):gsub('\n== ', '\n\1'):gmatch '\1([^\n]*)\n([^\1]*)' do
    list[#list + 1], list[key] = key, text:gsub('\n$', '')
  end
  sections[path] = list
  return list
end

--- Has spec/pages/NAME that section, or will it have?
function M.has(name, key) return writes or sections_of('spec/pages/' .. name)[key] ~= nil end

--- The text with each line that is `alike` the one it is compared with as that one is.
local function settled(wanted, text, alike)
  local was, number = wanted:gmatch '[^\n]*\n?', 0
  return (text:gsub('[^\n]+', function(line)
    number = number + 1
    local old = (was() or ''):gsub('\n$', '')
    return alike(old, line, number) and old or line
  end))
end

--- Is the text, of whole lines, what the section of spec/pages/NAME has? Are lines compared by more than their bytes: alike(was, is, number).
function M.section(name, key, text, alike)
  local path = 'spec/pages/' .. name
  local list = sections_of(path)
  text = text:gsub('\n$', '')
  if writes then
    if not list[key] then list[#list + 1] = key end
    list[key] = text
    local all = {}
    for i, k in ipairs(list) do all[i] = ('== %s\n%s\n'):format(k, list[k]) end
    write(path, table.concat(all))
  end
  local wanted = assert(list[key], ('%s has no section %s: DFLOW_PAGES=write makes it'):format(path, key))
  if alike then text = settled(wanted, text, alike) end
  if text ~= wanted then error(difference(('%s, %s'):format(path, key), wanted .. '\n\1', text .. '\n\1'), 2) end
end

--- What a long text adds up to: its lines, its bytes, and a number that any change of it changes. For texts of which nobody wants to read a
-- thousand: the page has a line for each.
function M.sum(text)
  local sum, lines = 0, select(2, text:gsub('\n', ''))
  for at = 1, #text do sum = (sum * 31 + text:byte(at)) % 4294967291 end
  return ('%d lines, %d bytes, %08x'):format(lines, #text, sum)
end

return M
