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

--- Is the text, of whole lines, what the section of spec/pages/NAME has?
function M.section(name, key, text)
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
  if text ~= wanted then error(difference(('%s, %s'):format(path, key), wanted .. '\n\1', text .. '\n\1'), 2) end
end

return M
