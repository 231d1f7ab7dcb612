--- Reads the pages of help as docs/functions.lua and docs/types.lua hold them: blocks between blank
-- lines, each a signature and, indented below it, what it does and lines that begin with `option`,
-- `gradient`, `field` or `example`. `@word` stands for what is given for it.
local M = {}

local LABELS = { option = true, gradient = true, field = true, example = true }

--- An option or field line: `name: type = default  what it is for`.
local function option(line)
  local head, about = line:match('^(.-)  (.*)$')
  local name, rest = head:match('^([%w_]+): (.*)$')
  local kind, default = rest:match('^(.-) = (.*)$')
  return { name = name, type = kind or rest, default = default, about = about }
end

local function block(lines)
  local page = { lines[1], '', options = {}, fields = {} }
  local last, example                       -- what a line that is indented further goes on with
  local function put(text)
    if last == 'option' then page.options[#page.options + 1] = option(text)
    elseif last == 'field' then page.fields[#page.fields + 1] = { text:match('^(.-)  (.*)$') }
    elseif last == 'gradient' then page.gradient = text
    elseif last == 'about' then page[2] = text end
  end
  local text = nil
  for i = 2, #lines do
    local label, rest = lines[i]:match('^  (%l+) +(.*)$')
    if last == 'example' then
      example[#example + 1] = lines[i]:sub(13)
    elseif LABELS[label] and lines[i]:sub(12, 13):find('^ %S') then
      if text then put(text) end
      last, text = label, rest
      if label == 'example' then
        example, text = { rest }, nil
      end
    elseif text then
      text = text .. ' ' .. lines[i]:gsub('^%s+', '')
    else
      last, text = 'about', lines[i]:gsub('^%s+', '')
    end
  end
  if text then put(text) end
  page[3] = example and table.concat(example, '\n') or nil
  return page
end

--- The pages of a text: a list of {signature, what it does, example, options = {…}, gradient =, fields = {…}}.
-- @param macros  {word = lines}: what `@word` stands for
function M.read(text, macros)
  text = text:gsub('@(%l+)', macros or {})
  local pages, lines = {}, {}
  for line in (text .. '\n\n'):gmatch('([^\n]*)\n') do
    if line:find('^%-%-') then line = '' end
    if line ~= '' then
      lines[#lines + 1] = line
    elseif #lines > 0 then
      pages[#pages + 1] = block(lines)
      lines = {}
    end
  end
  return pages
end

return M
