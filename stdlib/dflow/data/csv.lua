--- df.data.csv: a table of text as typed columns. RFC 4180: fields between commas, quoted where they hold commas,
-- quotes or newlines.
local core = require 'dflow.backend'
local errors = require 'dflow.front.errors'
local dtypes = require 'dflow.front.dtypes'
local files = require 'dflow.exchange.file'

local M = {}

--- The records of a text: an iterator of line number, list of fields, list of which were quoted.
local function records(text, separator, path)
  local at, line, n = 1, 1, #text
  local stop = '[%' .. separator .. '\r\n]'
  if text:sub(1, 3) == '\239\187\191' then at = 4 end
  return function()
    if at > n then return nil end
    local fields, quoted, began = {}, {}, line
    while true do
      local field
      if text:sub(at, at) == '"' then
        local parts, from = {}, at + 1
        while true do
          local close = text:find('"', from, true)
          if not close then
            errors.raise('data_loss', '%s:%d: field %d begins with a quote that never ends', path, began, #fields + 1)
          end
          parts[#parts + 1] = text:sub(from, close - 1)
          from = close + 1
          if text:sub(from, from) ~= '"' then break end
          parts[#parts + 1] = '"'
          from = from + 1
        end
        field = table.concat(parts)
        line = line + select(2, field:gsub('\n', ''))
        quoted[#fields + 1] = true
        at = from
        local c = text:sub(at, at)
        if c ~= '' and c ~= separator and c ~= '\r' and c ~= '\n' then
          errors.raise('data_loss', '%s:%d: field %d goes on with %q behind its closing quote', path, line, #fields + 1,
                       c)
        end
      else
        local to = text:find(stop, at) or n + 1
        field = text:sub(at, to - 1)
        at = to
      end
      fields[#fields + 1] = field
      local c = text:sub(at, at)
      at = at + 1
      if c ~= separator then
        if c == '\r' and text:sub(at, at) == '\n' then at = at + 1 end
        line = line + 1
        return began, fields, quoted
      end
    end
  end
end

local words = { ['nan'] = 0 / 0, ['inf'] = math.huge, ['-inf'] = -math.huge, ['+inf'] = math.huge,
                ['infinity'] = math.huge, ['-infinity'] = -math.huge }

--- The text without the blanks around it. In one pass: `^%s*(.-)%s*$` takes time that is the square of the blanks
-- inside.
local function trimmed(s) return s:match '^%s*(.*%S)' or '' end

--- A decimal number, or nil.
local function number(s)
  if not s:find('^%s*[+-]?%.?%d') then return words[trimmed(s:lower())] end
  if s:find('[xXpP]') then return nil end
  return tonumber((s:gsub('^%s*%+', '')))
end

local truths = { ['true'] = true, ['false'] = false, ['1'] = true, ['0'] = false }

local readers = {
  string = function(s) return s end,
  bool = function(s) return truths[trimmed(s:lower())] end,
}
local function reader(d) return readers[d] or number end

--- What a message shows of a field: of a long one its beginning.
local function shown(s) return #s <= 60 and s or s:sub(1, 60) .. '...' end

--- What all fields of a column can be.
local function guess(column, quoted)
  local whole, large = true, false
  for i, s in ipairs(column) do
    local v = not quoted[i] and number(s)
    if not v then return 'string' end
    if not s:find('^%s*[+-]?%d+%s*$') then whole = false end
    large = large or math.abs(v) >= 2 ^ 31
  end
  return #column == 0 and 'string' or whole and (large and 'int64' or 'int32') or 'float32'
end

--- df.data.csv(path, {types =, header = true, separator = ',', missing =, comment =}): the columns as Tensors, by name
-- and by number (from 1).
-- @param types      a dtype for all, a list, or {name = dtype}; what is not said is int32, int64, float32 or string, as
--                   the column's fields are
-- @param header     true: the first line has the names; false: there are none; a list: these are the names, and the
--                   first line is data
-- @param missing    what an empty field is in a column that is no string; without it an empty field is an error
-- @param comment    lines that begin with it are left out
-- What is wrong is an error that names file and line.
function M.csv(path, opts)
  opts = errors.options(opts, 'csv', { 'types', 'header', 'separator', 'missing', 'comment' })
  if type(path) ~= 'string' then errors.bad('csv takes a path, not %s', errors.describe(path)) end
  local separator = opts.separator or ','
  if type(separator) ~= 'string' or #separator ~= 1 or separator:find '[%w"\r\n]' then
    errors.bad('csv: separator is one character, not %s', errors.describe(separator))
  end
  if opts.comment ~= nil and (type(opts.comment) ~= 'string' or opts.comment == '') then
    errors.bad('csv: comment is what such a line begins with, not %s', errors.describe(opts.comment))
  end
  local header, types = opts.header, opts.types
  if header == nil then header = true end
  if type(header) ~= 'boolean' and not errors.is_data(header) then
    errors.bad('csv: header is true, false or a list of names, not %s', errors.describe(header))
  end
  if type(types) == 'string' then dtypes.of(types) elseif types ~= nil and not errors.is_data(types) then
    errors.bad('csv: types is a dtype, a list or {name = dtype}, not %s', errors.describe(types))
  end
  local text = core.tensor_bytes(core.read_file(files.path(path, 'csv')))
  local names = type(header) == 'table' and header or nil
  local columns, quotes, lines, count = nil, nil, {}, 0
  for line, fields, quoted in records(text, separator, path) do
    local blank = #fields == 1 and fields[1]:find '^%s*$' and not quoted[1] and (not columns or #columns ~= 1)
    local comment = opts.comment and fields[1]:sub(1, #opts.comment) == opts.comment
    if blank or comment then                                  -- luacheck: ignore 542
    elseif header == true and not names then
      names = fields
      for i, name in ipairs(names) do names[i] = trimmed(name) end
    else
      local want = names and #names or columns and #columns or #fields
      if #fields ~= want then
        errors.raise('data_loss', '%s:%d: the line has %d fields, %d are expected', path, line, #fields, want)
      end
      if not columns then
        columns, quotes = {}, {}
        for i = 1, want do columns[i], quotes[i] = {}, {} end
      end
      count = count + 1
      lines[count] = line
      for i, field in ipairs(fields) do
        columns[i][count] = field
        if quoted[i] then quotes[i][count] = true end
      end
    end
  end
  if not columns then
    if not names then errors.raise('data_loss', '%s holds no data', path) end
    columns, quotes = {}, {}
    for i = 1, #names do columns[i], quotes[i] = {}, {} end
  end
  local seen = {}
  for i, name in ipairs(names or {}) do
    if seen[name] then
      errors.raise('data_loss', '%s: columns %d and %d have the name %q', path, seen[name], i, name)
    end
    seen[name] = i
  end
  if errors.is_data(types) then
    for key, d in pairs(types) do
      dtypes.of(d)
      if (type(key) == 'string' and not seen[key]) or (type(key) == 'number' and not columns[key]) then
        errors.bad("csv: types names the column %s, which %s does not have%s", tostring(key), path,
                   errors.hint(key, names or {}))
      end
    end
  end
  local out = {}
  for i, column in ipairs(columns) do
    local name = names and names[i]
    local d = type(types) == 'string' and types or (types and (types[i] or (name and types[name])))
      or guess(column, quotes[i])
    local read, values = reader(d), {}
    for k, field in ipairs(column) do
      local v = read(field)
      if v == nil and field:find '^%s*$' then v = opts.missing end
      if v == nil then
        errors.raise('invalid_argument', '%s:%d: column %s: %s', path, lines[k], name and ('%q'):format(name) or i,
                     field:find '^%s*$' and 'the field is empty (missing = v would fill it)'
                     or ('%q is no %s'):format(shown(field), d))
      end
      values[k] = v
    end
    local t, wrong = core.tensor_new(dtypes.of(d), { count }, count > 0 and values
                                     or { read == number and 0 or read == readers.bool and false or '' })
    if not t then
      errors.raise('invalid_argument', '%s:%d: column %s: %s cannot be held by %s', path, lines[wrong], name
                   and ('%q'):format(name) or i, shown(column[wrong]), d)
    end
    out[i] = t
    if name and name ~= '' then out[name] = t end
  end
  return out
end

return M
