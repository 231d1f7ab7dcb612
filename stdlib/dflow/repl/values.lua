--- How the prompt shows a value: tensors as NumPy does, large ones with a line of what they hold; outputs with their
-- value where they need no feed and have no effect; tables with a depth, cycles marked.
local errors = require 'dflow.front.errors'
local quote = require 'dflow.front.quote'
local core = require 'dflow.backend'
local df = require 'dflow'
local graph = require 'dflow.front.graph'
local registry = require 'dflow.front.registry'
local tensor = require 'dflow.front.tensor'
local text = require 'dflow.front.text'
local listing = require 'dflow.front.listing'

local M = {}

--- What can be set with `:set`: how deep tables are shown, how many entries of each, and how tensors are: `full`,
-- `summary` (one line when they are large), or `auto` (corners and the line).
M.options = { depth = 4, entries = 20, print = 'auto', images = 'auto', numbers = false, suggest = true }

local terminal = { color = false, error_color = false, utf8 = true, columns = 80, rows = 24 }

-- ---- colours ------------------------------------------------------------------------------------------------------
--- Style characters of the editor and of what is printed, as SGR numbers. k keyword, t constant, d number, s string, c
-- comment, o operator, b builtin, f field, w unknown name, e error, M the marked brackets, p prompt, q its
-- continuation, h hint, H the current argument, m menu, D dim.
M.themes = {
  dark = { k = '1;35', t = '36', d = '33', s = '32', c = '90', b = '34', f = '', w = '4;31', e = '31', M = '1;7',
           p = '1;36', q = '36', h = '90', H = '1', m = '1', D = '90' },
  light = { k = '35', t = '36', d = '33', s = '32', c = '37', b = '34', f = '', w = '4;31', e = '31', M = '1;7',
            p = '34', q = '34', h = '2', H = '1', m = '1', D = '2' },
  -- Ethan Schoonover's sixteen colours, as a terminal that is set up for them has them: on its dark and on its light
  -- ground.
  solarised = { k = '32', t = '36', d = '35', s = '36', c = '92', b = '34', f = '', w = '4;91', e = '31', M = '1;7',
                p = '1;34', q = '34', h = '92', H = '1', m = '1', D = '92' },
  mono = { k = '1', M = '1;7', w = '4', h = '2', H = '1', m = '1', D = '2' },
}

-- Without colour meaning is not lost: what is marked or current is bold.
local PLAIN = { M = '1;7', H = '1', m = '1' }
local theme = {}

function M.terminal() return terminal end

--- The themes' names, sorted.
function M.theme_names()
  local names = {}
  for name in pairs(M.themes) do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- Chooses the theme: a name, or a table of styles.
function M.set_theme(name)
  if name == 'solarized' then name = 'solarised' end
  local wanted = type(name) == 'table' and name or M.themes[name]
  if not wanted then
    return nil, ("there is no theme '%s' (%s)%s")
      :format(tostring(name), table.concat(M.theme_names(), ', '), errors.hint(name, M.theme_names()))
  end
  theme = terminal.color and wanted or PLAIN
  local program = package.loaded['dflow.program']
  if program then
    for style in ('ktdscobfnweMpqhHmD'):gmatch('.') do program.theme(style, theme[style] or '') end
  end
  M.theme = name
  return true
end

function M.open(t)
  terminal = t
  text.options.width = math.max(20, t.columns)
  M.set_theme('dark')
end

--- The window may have another size by now: `t` is what the program says of it. A width that was set stays.
function M.resized(t)
  if text.options.width == math.max(20, terminal.columns) then text.options.width = math.max(20, t.columns) end
  terminal.columns, terminal.rows = t.columns, t.rows
end

--- A line at blanks, where a screen would break it anywhere; what is drawn or painted stays as it is. `columns`: nil,
-- those of the prompt's window.
function M.wrapped(line, columns)
  columns = columns or terminal.editing and terminal.columns
  if not columns or #line <= columns or line:find('\27') or line:find('\226[\148-\151\160-\163]') then return line end
  local indent, out, at = line:match('^%s*') .. '  ', {}, ''
  for blank, word in line:gmatch('(%s*)(%S+)') do
    if at:find('%S') and text.columns(at .. blank .. word) > columns then
      out[#out + 1], at = at, indent .. word
    else
      at = at .. blank .. word
    end
  end
  out[#out + 1] = at
  return table.concat(out, '\n')
end

--- The text in a style, for standard output (or for `error_color`: standard error) if colours are on there.
function M.paint(s, style, where)
  local sgr = terminal[where or 'color'] and theme[style]
  return sgr and sgr ~= '' and ('\27[%sm%s\27[0m'):format(sgr, s) or s
end
local paint = M.paint

--- Text for a terminal that may not know UTF-8.
function M.plain(s)
  if terminal.utf8 then return s end
  return (s:gsub('…', '...'):gsub('─', '-'):gsub('·', '.'):gsub('→', '->'):gsub('[\128-\255]+', '?'))
end

-- ---- tensors --------------------------------------------------------------------------------------------------------
local function paint_element(s, v)
  if type(v) == 'number' and (v ~= v or v == math.huge or v == -math.huge) then return paint(s, 'e') end
  return s
end

--- make(t, paint_element) where tensors of more than `threshold` elements are large.
local function with_threshold(threshold, make, t)
  local usual = text.options.threshold
  text.options.threshold = threshold
  local ok, s = pcall(make, t, paint_element)
  text.options.threshold = usual
  if not ok then error(s, 0) end
  return s
end

local function tensor_text(t)
  local large = t.size > text.options.threshold
  if large and M.options.print == 'summary' then return text.summary(t, not terminal.utf8) end
  if not large or M.options.print == 'full' then
    local s = with_threshold(math.huge, text.tensor, t)
    local fits = not terminal.editing or M.options.print == 'full' or #t.shape == 0
      or select(2, s:gsub('\n', '')) < terminal.rows - 2
    if fits then return s end
  end
  return with_threshold(1, text.array, t) .. '\n' .. paint(text.summary(t, not terminal.utf8), 'D')
end

--- The inspector's: what an Output is in the run that the prompt stands in; nil where it stands in none.
function M.held() end

-- ---- outputs --------------------------------------------------------------------------------------------------------
--- tostring(o), where it was built on a line of its own if the window is too narrow for both.
local function own_line(o)
  local line = tostring(o)
  local narrow = terminal.editing and not line:find '\n' and #line > terminal.columns
  return (line:gsub('  %-%- [^\n]*$', function(where) return (narrow and '\n' or '') .. paint(where, 'D') end))
end

--- Does the op change a variable, put something into a queue, or print?
local function has_effect(op)
  local type = op.type
  return type:find '^Assign' ~= nil or type:find '^ResourceScatter' ~= nil or type:find '^QueueEnqueue' ~= nil
    or type:find '^Print' ~= nil or type:find '^Assert' ~= nil or registry.primitive(type) == 'NoOp'
end

local EFFECT = 'it happens in a run that fetches it: df.run(_)'

local SMALL_OPS, SMALL_SIZE = 100, 1000000       -- what is computed and shown unasked

--- Is it the same each time that it is computed, from few ops? `seen`: the names that were looked at, and how many.
local function is_fixed(op, seen)
  if seen[op.name] then return true end
  local e = registry.entry(op.type)
  seen[op.name], seen[1] = true, (seen[1] or 0) + 1
  -- loops may be long
  if not e or e.stateful or seen[1] > SMALL_OPS or registry.primitive(op.type) == 'Exit' then return false end
  for _, input in ipairs(op.inputs) do
    if not is_fixed(input.op, seen) then return false end
  end
  return true
end

--- Is its size known, and small?
local function is_small(o)
  local size = o.shape and 1
  for _, d in ipairs(o.shape or {}) do size = d >= 0 and size and size * d or nil end
  return size ~= nil and size <= SMALL_SIZE
end

--- `656.8408 float32[]`
function M.scalar(value, dtype) return text.scalar(value, dtype) .. ' ' .. tensor.shape_text(dtype, {}) end

--- `Add:0: float32[3] = Add(Mul:0, Const_1:0)  -- In[1]:1`, and the value below when a prompt may run it.
local function output_text(o)
  local g = o.graph
  local line = own_line(o)
  local held = M.held(o)
  if held then return line .. '\n' .. held end
  if not core.needs_nothing(g.handle, o.node, o.index) then
    return has_effect(o.op) and line .. '\n' .. paint(EFFECT, 'D') or line
  end
  local ok, value = pcall(function()
    if g == df.default_graph() then return df.run(o) end
    local s = df.Session{ graph = g }
    local value = s:run(o)
    s:close()
    return value
  end)
  if not ok then
    if type(value) == 'table' and value.code == 'cancelled' then error(value, 0) end
    return line .. '\n  ' .. tostring(value)
  end
  -- in quotes, what a terminal obeys escaped
  if type(value) == 'string' then value = tensor.tensor(value) end
  if getmetatable(value) == tensor.Tensor then return line .. '\n' .. tensor_text(value) end
  return line .. '\n' .. M.scalar(value, o.dtype)
end

--- A variable with the value that it has in the default session, or will begin with.
local function variable_text(v)
  local line, s, o = own_line(v), v.graph.session, v.initial
  local ok, value = pcall(function() return core.session_variable(s.handle, v.handle.node, true) end)
  local later = ''
  if not ok then
    if getmetatable(o) ~= graph.Output or o.graph ~= df.default_graph()
      or not core.needs_nothing(o.graph.handle, o.node, o.index)
       or not is_small(o) or not is_fixed(o.op, {}) then
      return line
    end
    ok, value = pcall(df.run, o, nil, { tensors = true })
    later = paint('  -- begins so, when a run first needs it', 'D')
  end
  if not ok then return line end
  if value.rank == 0 and value.dtype ~= 'variant' and value.dtype ~= 'string' then
    return line .. '\n' .. M.scalar(value:item(), value.dtype) .. later
  end
  return line .. '\n' .. tensor_text(value) .. later
end

--- A graph in let-form, as much of it as a screen holds; of an empty one its one line.
local function graph_text(g)
  local ok, drawn = pcall(df.draw, g, { lines = math.max(8, terminal.rows - 4) })
  return ok and drawn ~= '' and drawn or tostring(g)
end

-- ---- everything -----------------------------------------------------------------------------------------------------
local function has_text(v)
  local mt = getmetatable(v)
  return mt ~= nil and not listing.is(v)
    and (type(mt) ~= 'table' or rawget(mt, '__tostring') ~= nil or rawget(mt, '__name') ~= nil)
end

--- A value that has no parts. A function says where it was written; a number that is none, `nan`, whatever its sign.
local function plain_text(v)
  if v ~= v then return 'nan' end
  if type(v) ~= 'function' then return tostring(v) end
  local about = debug.getinfo(errors.behind(v), 'S')
  return about.what == 'C' and tostring(v)
    or ('%s  -- %s:%d'):format(tostring(v), quote.file_of(about), about.linedefined)
end

--- What a table with a __tostring of its own says of itself.
local function own_text(v)
  local ok, said = pcall(tostring, v)
  return ok and said or ('<its __tostring failed: %s>'):format(tostring(said):gsub('\n.*', ''))
end

--- What a plot is shown by: 'kitty', 'sixel' or 'text', as the setting says or the terminal can.
function M.graphics()
  if M.options.images ~= 'auto' then return M.options.images end
  return terminal.editing and require('dflow.plot.picture').terminal() or 'text'
end

--- A plot as the terminal can show it: pixels where it has them, else braille or blocks, in colours where there are
-- some.
function M.plot(p)
  local how = M.graphics()
  if how ~= 'text' then
    local ok, shown = pcall(require('dflow.plot.picture').shown, p, how, math.min(800, 8 * terminal.columns),
                            math.min(480, 12 * terminal.rows))
    if ok then return shown end
  end
  return p:text{ columns = math.max(20, math.min(100, terminal.columns - 14)),
                 rows = math.max(5, math.min(20, terminal.rows - 8)),
                 ascii = not terminal.utf8, colour = terminal.color and M.theme ~= 'mono' }
end

--- A Tensor that is in so many tables, whose lines begin further right.
local function nested_text(v, depth)
  local width = text.options.width
  text.options.width = math.max(20, width - 2 * depth)
  local ok, s = pcall(tensor_text, v)
  text.options.width = width
  if not ok then error(s, 0) end
  return s
end

--- What a run gives back, tables included: {256.0, name = 3}. Tables with a word of their own say that; a table that is
-- inside of itself is marked.
local function text_of(v, depth, open)
  if type(v) == 'string' then return depth > 0 and text.quoted(v) or v end
  if type(v) ~= 'table' then return plain_text(v) end
  local mt = getmetatable(v)
  if mt == tensor.Tensor then return nested_text(v, depth) end
  if mt == graph.Output and depth == 0 then return output_text(v) end
  if mt == graph.Operation and depth == 0 then
    return own_line(v) .. (has_effect(v) and '\n' .. paint(EFFECT, 'D') or '')
  end
  if depth == 0 and type(mt) == 'table' and rawget(mt, '__name') == 'dflow.Variable' then return variable_text(v) end
  if mt == graph.Graph and depth == 0 then return graph_text(v) end
  if depth == 0 and type(mt) == 'table' and rawget(mt, '__name') == 'dflow.Plot' then return M.plot(v) end
  if has_text(v) then return own_text(v) end
  return listing.text(v, depth, open, text_of,
                      { depth = M.options.depth, entries = M.options.entries, columns = terminal.columns })
end

--- A value as the prompt shows it.
function M.text(v) return M.plain(text_of(v, 0, {})) end

--- One short line of what a value is, for lists of names.
function M.brief(v)
  local kind = type(v)
  local line
  if kind == 'string' then
    line = text.quoted(v)
  elseif kind == 'table' and not has_text(v) then
    local n = 0
    for _ in next, v do n = n + 1 end
    line = ('table of %d'):format(n)
  elseif kind == 'table' and getmetatable(v) == tensor.Tensor then
    line = 'Tensor ' .. text.summary(v, not terminal.utf8)
  elseif kind == 'function' then
    local about = debug.getinfo(errors.behind(v), 'S')
    line = about.what == 'C' and 'function' or ('function  -- %s:%d'):format(quote.file_of(about), about.linedefined)
  else
    line = tostring(v)
  end
  line = line:gsub('\n.*', ' …')
  return M.plain(line)
end

--- Prints the values of an expression.
function M.show(...) print(M.texts(...)) end

--- The texts of several values, as they are shown: in a row, or below each other where one has several lines.
function M.texts(...)
  local words = {}
  for i = 1, select('#', ...) do words[i] = M.text((select(i, ...))) end
  local many = #words > 1 and table.concat(words):find('\n')
  return table.concat(words, many and '\n' or '\t')
end

return M
