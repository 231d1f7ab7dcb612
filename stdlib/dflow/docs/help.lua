--- What `?name` says: of ops from the registry, of everything else from docs.lua.
--
-- A name is that of an op or function (`matmul`, `train.SGD`), a dtype, a type (`Run`), a method of one
-- (`Run:wait`), or an option that functions have (`parallel_iterations`).
local core = require 'dflow.backend'
local registry = require 'dflow.front.registry'
local ops = require 'dflow.front.ops'
local errors = require 'dflow.front.errors'
local docs = require 'dflow.docs'

local M = {}
local functions = docs.functions

--- Columns of a page; the prompt makes them those of its terminal.
M.width = 96

--- Text broken at words, each line with `indent` before it; two blanks stay two.
local function wrap(text, indent)
  local lines, line = {}, ''
  for blank, word in text:gmatch('(%s*)(%S+)') do
    if line ~= '' and #line + #word >= M.width - #indent then
      lines[#lines + 1] = indent .. line
      line = word
    else
      line = line == '' and word or line .. (#blank > 1 and '  ' or ' ') .. word
    end
  end
  lines[#lines + 1] = indent .. line
  return table.concat(lines, '\n')
end

M.wrap = wrap

-- ---- which thing a name is ------------------------------------------------------------------------------------------
--- A method by `Run:wait`, `Run.wait` or `run:wait`: the type's name, the method's, and what docs say of it.
local function method_of(name)
  local owner, method = name:match('^([%w_]+)[:.]([%w_]+)$')
  if not owner then return nil end
  for type_name, t in pairs(docs.types) do
    if (owner == type_name or owner == t.kind) and t.methods[method] then
      return type_name, method, t.methods[method]
    end
  end
end

local alias_of = {}
for name, other in pairs(ops.aliases) do
  if not registry.entry(name) and registry.entry(other) then alias_of[name] = other end
end

--- The entry of an op that has a function, also by its other names.
local function op_of(name)
  local e = registry.entry(alias_of[name] or name)
  return e and e.lua and e or nil
end

-- ---- signatures and their parts -------------------------------------------------------------------------------------
local function braces(list)
  local words = {}
  for i, o in ipairs(list) do words[i] = o.name .. (o.default and ' = ' .. o.default or ' =') end
  return '{' .. table.concat(words, ', ') .. '}'
end

--- A page's signature with its options in it.
local function with_options(page)
  return (page[1]:gsub('{…}', function() return braces(page.options) end))
end

local function op_signature(e)
  if docs.calls[e.lua] then return docs.calls[e.lua] end
  local words, options = {}, {}
  for _, a in ipairs(e.inputs) do words[#words + 1] = a.list and '{' .. a.name .. ', …}' or a.name end
  for _, a in ipairs(e.attrs) do
    options[#options + 1] = a.name .. (a.required and ' =' or ' = ' .. (a.default == 'invalid' and 'nil' or a.default))
  end
  if #options > 0 then words[#words + 1] = '{' .. table.concat(options, ', ') .. '}' end
  return ('df.%s(%s)'):format(e.lua, table.concat(words, ', '))
end

--- The signature of a name: `df.matmul(a, b, {transpose_a = false, …})`; nil when there is none.
function M.signature(name)
  local f = functions[name]
  if f then return with_options(f) end
  local _, _, method = method_of(name)
  if method then return with_options(method) end
  local e = op_of(name)
  if e then return (op_signature(e):gsub('^df%.[%w_]+', 'df.' .. (alias_of[name] and name or e.lua))) end
  if docs.dtypes[name] then return ('df.%s(v)'):format(name) end
end

--- Arguments of a signature: first and last byte of each, and the options in braces as {name =, first =, last =}.
function M.parts(signature)
  local arguments, options = {}, {}
  local open = signature:find('[({]')
  if not open then return arguments, options end
  local depth, start = 0, open + 1
  local function argument(last)
    local first = signature:find('%S', start)
    if first and first <= last then arguments[#arguments + 1] = { first, last } end
    start = last + 2
  end
  if signature:sub(open, open) == '{' then start = open end
  local i = start
  while i <= #signature do
    local c = signature:sub(i, i)
    if c == '(' or c == '{' or c == '[' then
      depth = depth + 1
    elseif depth == 0 and (c == ')' or c == ',') then
      argument(i - 1)
      if c == ')' then break end
    elseif c == ')' or c == '}' or c == ']' then
      depth = depth - 1
      if depth == 0 and start == open and c == '}' then
        argument(i)
        break
      end
    end
    i = i + 1
  end
  for _, a in ipairs(arguments) do
    if signature:sub(a[1], a[1]) == '{' then
      local at = a[1] + 1
      while at <= a[2] do
        local first, _, name = signature:find('([%a_][%w_]*)%s*=', at)
        if not first or first > a[2] then break end
        local name_last = first + #name - 1
        local stop, level, j = a[2] - 1, 0, name_last
        while j < a[2] do
          j = j + 1
          local c = signature:sub(j, j)
          if c == '{' or c == '(' or c == '[' then level = level + 1
          elseif c == '}' or c == ')' or c == ']' then level = level - 1 end
          if level < 0 or (level == 0 and c == ',') then
            stop = j - 1
            break
          end
        end
        options[#options + 1] = { name = name, first = first, last = stop }
        at = stop + 2
      end
    end
  end
  return arguments, options
end

--- What may be given by name to an op: the options, and the arguments with a default.
local function op_options(e)
  local list, seen = {}, {}
  local function add(name, default)
    if seen[name] then return end
    seen[name] = true
    local a = e.attr[name]
    local kind = a and a.kind or docs.kinds[name] or '?'
    if default == '' then default = "''" end
    list[#list + 1] = { name = name, type = kind == 'dtype' and 'string' or kind, required = default == nil,
                        default = default ~= 'invalid' and default or 'nil' }
  end
  local text = op_signature(e)
  local arguments, options = M.parts(text)
  for _, a in ipairs(arguments) do
    local name, default = text:sub(a[1], a[2]):match('^([%w_]+) = (.*)$')
    if not name then name, default = text:sub(a[1], a[2]):match('^([%w_]+)%?$'), 'nil' end
    if name then add(name, default) end
  end
  for _, o in ipairs(options) do
    local default = text:sub(o.first, o.last):match('=%s*(.-)%s*$')
    add(o.name, default ~= '' and default or nil)
  end
  if not docs.calls[e.lua] then
    for _, a in ipairs(e.attrs) do add(a.name, not a.required and a.default or nil) end
  end
  if e.noutputs > 0 or #e.inputs > 0 then add('name', 'nil') end
  return list
end

--- The options of a name: a list of {name, type, default, about, required}.
function M.options(name)
  if functions[name] then return functions[name].options end
  local e = op_of(name)
  if e then return op_options(e) end
  local _, _, method = method_of(name)
  return method and method.options or {}
end

--- One line of what an option of a name is for: type, default, and what docs say.
function M.about_option(name, option)
  for _, o in ipairs(M.options(name)) do
    if o.name == option then
      return ('%s%s%s'):format(o.type, o.default and ' = ' .. o.default or '', o.about and '  ' .. o.about or '')
    end
  end
end

--- Functions that have an option of this name, sorted.
function M.with_option(option)
  local list = {}
  for _, name in ipairs(M.names()) do
    if not name:find(':', 1, true) then
      for _, o in ipairs(M.options(name)) do if o.name == option then list[#list + 1] = name break end end
    end
  end
  return list
end

-- ---- what else is known ---------------------------------------------------------------------------------------------
--- One line of what a name is for; nil when nothing is known.
function M.about(name)
  local _, _, method = method_of(name)
  local text = functions[name] and functions[name][2] or method and method[2] or docs.types[name]
    and docs.types[name][1]
  if text then return ((text:match('^.-[^.]%.%s') or text):gsub('%s+$', '')) end
  local e = op_of(name) or registry.entry(name)
  if e and e.doc then          -- what it does, without the shapes in front
    local sentence = e.doc:match('^%S.- = [%w_]+%b(): (.*)$') or e.doc
    return (sentence:match('^(.-[^.])[;.]%s') or sentence)
  end
  if docs.dtypes[name] then return ('a constant of dtype %s, or x cast to it: %s'):format(name, docs.dtypes[name]) end
end

local dtype_values = { bool = '{true, false}', string = "'abc'", complex64 = '{re = 1, im = 2}',
                       complex128 = '{re = 1, im = 2}' }

--- An example of a name, which runs as it stands; nil when there is none.
function M.example(name)
  if functions[name] then return functions[name][3] end
  local e = op_of(name)
  if e then
    local text = e.example:gsub('%s*%-%-.*$', '')
    return text ~= '' and (text:gsub('df%.' .. e.lua .. '%f[^%w_]', 'df.' .. (alias_of[name] and name or e.lua), 1))
      or nil
  end
  local _, _, method = method_of(name)
  if method then return method[3] end
  if docs.types[name] then return docs.types[name][2] end
  if docs.dtypes[name] and name ~= 'variant' then return ('df.%s(%s)'):format(name, dtype_values[name] or '{1, 2}') end
end

--- What the example gives, as it is shown.
function M.output(name) return docs.outputs[name] end

local see_also

--- Names that belong to a name, as a list.
function M.see_also(name)
  if not see_also then
    see_also = {}
    for _, line in ipairs(docs.families) do
      local members = {}
      for word in line:gmatch('%S+') do members[#members + 1] = word end
      for _, word in ipairs(members) do
        see_also[word] = see_also[word] or {}
        for _, other in ipairs(members) do
          local list = see_also[word]
          if other ~= word and #list < 8 and not list[other] then
            list[#list + 1] = other
            list[other] = true
          end
        end
      end
    end
  end
  return see_also[name] or see_also[alias_of[name]] or {}
end

--- What the gradient of an op or function is, as lines; nil where the question makes no sense.
local function gradient_of(name)
  local f = functions[name]
  if f then return f.gradient and { f.gradient } end
  local e = op_of(name)
  if not e then return docs.dtypes[name] and { 'as df.cast' } or nil end
  local formulas = docs.formulas[e.lua]
  if formulas then
    local lines = {}
    for _, a in ipairs(e.inputs) do
      if formulas[a.name] then lines[#lines + 1] = ('%s: %s'):format(a.name, formulas[a.name]) end
    end
    return lines
  end
  if e.gradient then return { docs.words[e.lua] } end
  if docs.none[e.lua] then return { 'none: ' .. docs.none[e.lua] } end
  if e.noutputs == 0 then return { 'none: an operation has no value' } end
  local what = 'integers'
  for _, a in ipairs(e.outputs) do
    if a.words == 'bool' or a.words == 'string' then what = a.words .. 's' end
  end
  return { ('none: %s have no derivative'):format(what) }
end
M.gradient = gradient_of

-- ---- pages ----------------------------------------------------------------------------------------------------------
local function add(lines, label, list)
  for i, text in ipairs(list or {}) do
    local indent = '            '
    lines[#lines + 1] = ('  %-9s '):format(i == 1 and label or '') .. (wrap(text, indent):gsub('^%s+', ''))
  end
end

local function option_lines(list)
  local out = {}
  for i, o in ipairs(list) do
    local about = o.about or (o.required and '(needed)')
    out[i] = ('%s: %s%s%s')
      :format(o.name, o.type, o.default and ' = ' .. o.default or '', about and '  ' .. about or '')
  end
  return out
end

--- What stands below the doc: options, gradient, the example and what it gives, and what to see.
local function add_rest(lines, name)
  add(lines, 'options', option_lines(M.options(name)))
  add(lines, 'gradient', gradient_of(name))
  local example, others = M.example(name), M.see_also(name)
  if example then
    lines[#lines + 1] = '  example   ' .. example:gsub('\n', '\n            ')
    for line in ((M.output(name) or '') .. '\n'):gmatch('([^\n]*)\n') do
      if line ~= '' then lines[#lines + 1] = '            ' .. line end
    end
  end
  if #others > 0 then add(lines, 'see also', { table.concat(others, ', ') }) end
  return table.concat(lines, '\n')
end

--- 'a: T, values: list of T, handle: Variable'.
local function arguments_text(arguments)
  local words = {}
  for _, a in ipairs(arguments) do
    local kind = a.words
    if a.list then kind = ('list of %s%s'):format(a.count and a.count ~= kind and a.count .. ' ' or '', kind)
    elseif kind == 'handle' then kind = 'Variable'
    elseif a.optional then kind = kind .. ' or nothing' end
    words[#words + 1] = a.name .. ': ' .. kind
  end
  return #words > 0 and table.concat(words, ', ') or 'none'
end

local function of_op(e, name)
  local lines = { wrap(M.signature(name), '') .. '    ' .. e.type, wrap(e.doc or '', '  ') }
  if alias_of[name] then lines[#lines + 1] = ('  another name of df.%s'):format(e.lua) end
  add(lines, 'inputs', { arguments_text(e.inputs) })
  add(lines, 'outputs', { arguments_text(e.outputs) })
  local types = {}
  for _, t in ipairs(e.type_words) do types[#types + 1] = ('%s: %s'):format(t[1], (t[2]:gsub('|', ', '))) end
  add(lines, 'dtypes', types)
  if e.stateful then
    add(lines, 'stateful', {
        'it draws or keeps something: two of them are never made one, and a run does it once each time' })
  end
  return add_rest(lines, name)
end

--- Other things of this name: 'ta:stack()  All elements …'.
local function add_methods(text, name)
  local lines, kinds = { text }, {}
  for type_name, t in pairs(docs.types) do
    if t.methods[name] then kinds[#kinds + 1] = type_name end
  end
  table.sort(kinds)
  if docs.lua[name] then lines[#lines + 1] = ("  %s is Lua's own: %s"):format(docs.lua[name][1], docs.lua[name][2]) end
  for _, type_name in ipairs(kinds) do
    lines[#lines + 1] = ('  ?%s:%s   %s'):format(type_name, name, docs.types[type_name].methods[name][1])
  end
  return table.concat(lines, '\n')
end

local function of_type(name)
  local t = docs.types[name]
  local lines = { wrap(M.signature(name) or name, ''), wrap(t[1], '  ') }
  local fields = {}
  for i, f in ipairs(t.fields) do fields[i] = ('%s.%s  %s'):format(t.letter, f[1], f[2]) end
  add(lines, 'fields', fields)
  local methods = {}
  for method in pairs(t.methods) do methods[#methods + 1] = method end
  table.sort(methods)
  for i, method in ipairs(methods) do
    methods[i] = ('%s  %s'):format((t.methods[method][1]:gsub('{.*}', '{…}')), M.about(name .. ':' .. method))
  end
  add(lines, 'methods', methods)
  return add_rest(lines, name)
end

local function of_option(option)
  local users = M.with_option(option)
  if #users == 0 then return nil end
  local lines, groups, order = { ('%s is an option'):format(option) }, {}, {}
  for _, name in ipairs(users) do
    local about = M.about_option(name, option)
    if not groups[about] then
      groups[about] = {}
      order[#order + 1] = about
    end
    table.insert(groups[about], name)
  end
  for _, about in ipairs(order) do
    lines[#lines + 1] = wrap(about, '  ')
    local names = groups[about]
    if #names > 12 then names = { table.concat(names, ', ', 1, 12), ('and %d more'):format(#names - 12) } end
    lines[#lines + 1] = wrap('of ' .. table.concat(names, ', '), '    ')
  end
  return table.concat(lines, '\n')
end

local all_names

--- Every name that has help, sorted: ops and functions, dtypes, types, and methods as `Run:wait`.
function M.names()
  if all_names then return all_names end
  local list, seen = {}, {}
  local function put(name)
    if not seen[name] then
      seen[name] = true
      list[#list + 1] = name
    end
  end
  for _, name in ipairs(registry.names()) do put(name) end
  for name in pairs(alias_of) do put(name) end
  for name in pairs(functions) do put(name) end
  for name in pairs(docs.dtypes) do put(name) end
  for name, t in pairs(docs.types) do
    put(name)
    for method in pairs(t.methods) do put(name .. ':' .. method) end
  end
  table.sort(list)
  all_names = list
  return list
end

--- The list of the manual's pages, or one of them: `manual`, `manual.nn`; nil when there is none.
function M.manual(area)
  local lines = { 'The manual: a page per area, ten minutes each. `dflow manual nn` or, at the prompt, ?manual.nn' }
  for _, page in ipairs(docs.manual) do
    if page[1] == area then return ('%s: %s\n\n%s'):format(page[1], page[2], (page[3]:gsub('\n$', ''))) end
    lines[#lines + 1] = ('  %-12s %s'):format(page[1], page[2])
  end
  return area == nil and table.concat(lines, '\n') or nil
end

--- Has the manual a page of this area?
local function has_page(area)
  for _, page in ipairs(docs.manual) do
    if page[1] == area then return true end
  end
end

--- Names whose last part this is: 'LSTMCell' is rnn.LSTMCell's, 'prefetch' Pipeline:prefetch's; case aside where none
-- is spelled so.
local function ending_in(name)
  local exact, blind = {}, {}
  for _, other in ipairs(M.names()) do
    local last = other:match('[.:]([%w_]+)$')
    if last == name then exact[#exact + 1] = other end
    if last and last:lower() == name:lower() then blind[#blind + 1] = other end
  end
  return #exact > 0 and exact or blind
end

--- The name by which help knows what a message calls `LSTMCell` or `metrics.accuracy`; nil when it knows none, or
-- several.
function M.full_name(name)
  local e = op_of(name)
  if functions[name] or e and (e.lua == name or alias_of[name]) then return name end
  local found
  for _, other in ipairs(M.names()) do
    if functions[other] and other:sub(-#name - 1) == '.' .. name then
      if found then return nil end
      found = other
    end
  end
  return found or e and name
end

--- What a name means that is no name of help by itself: the end of one, the option of a function, or an op under the
-- part's name (nn.relu).
local function within(name)
  local texts, last = {}, name:match('^nn%.([%w_]+)$')
  if last and op_of(last) then return M.help(last) end
  local says = require('dflow.front.glossary').says(name)
  local list = ending_in(name)
  if says and #list > 0 and not says:find('df.' .. list[1], 1, true) then texts[1] = says end
  for i = 1, math.min(#list, 3) do texts[#texts + 1] = M.help(list[i]) end
  if #list > 3 then texts[#texts + 1] = 'besides: ' .. table.concat(list, ', ', 4) end
  texts[#texts + 1] = of_option(name)
  if #texts > 0 then return table.concat(texts, '\n\n') end
  return nil, ("nothing is known of '%s'%s"):format(name, errors.hint_of_others(name, M.names()))
end

--- The help of `name`. nil and a message when there is none.
function M.help(name)
  name = name:gsub('^df%.', ''):gsub('%(.*$', '')
  if name:find('^manual%f[%z.]') then
    local text = M.manual(name:match '^manual%.(.*)$')
    if text then return text end
  end
  local e = op_of(name)
  if e then
    local text = of_op(e, alias_of[name] and name or e.lua)
    return add_methods(text, name)
  end
  if docs.types[name] then
    local texts = {}
    for _, maker in ipairs(ending_in(name)) do
      if functions[maker] then texts[#texts + 1] = M.help(maker) end
    end
    texts[#texts + 1] = of_type(name)
    return table.concat(texts, '\n\n')
  end
  local type_name, method, of_method = method_of(name)
  if functions[name] or of_method then
    local lines = { wrap(M.signature(name), ''), wrap(of_method and of_method[2] or functions[name][2], '  ') }
    if of_method then name = type_name .. ':' .. method end
    local text = add_methods(add_rest(lines, name), name)
    return has_page(name) and text .. ('\n  manual    ?manual.%s'):format(name) or text
  end
  e = registry.entry(name)
  if e then
    return ('%s is an op that the runtime and imported graphs use; no function builds it\n%s')
      :format(e.type, wrap(e.doc or '', '  '))
  end
  if docs.lua[name] then return ('%s\n  Lua: %s'):format(docs.lua[name][1], docs.lua[name][2]) end
  if docs.dtypes[name] then
    local about = ('  A constant of dtype %s, or x cast to it: %s.'):format(name, docs.dtypes[name])
    return add_rest({ ('df.%s(v, shape?)'):format(name), about }, name)
  end
  if docs.methods[name] then
    local kinds, out = {}, {}
    for t_name, t in pairs(docs.types) do
      if t.methods[name] then kinds[#kinds + 1] = t_name end
    end
    table.sort(kinds)
    for i, t_name in ipairs(kinds) do out[i] = M.help(t_name .. ':' .. name) end
    return table.concat(out, '\n')
  end
  return within(name)
end

--- Names that match a pattern with * and ?, or that contain a word, sorted.
function M.matching(pattern)
  local list, blind = {}, not pattern:find('%u')             -- capitals count where there are some
  local lua = '^' .. pattern:gsub('[%^%$%(%)%%%.%[%]%+%-]', '%%%0'):gsub('%*', '.*'):gsub('%?', '.') .. '$'
  for _, name in ipairs(M.names()) do
    if (blind and name:lower() or name):find(lua) then list[#list + 1] = name end
  end
  return list
end

--- Names whose description mentions a word, besides those that have it in their name.
function M.mentioning(word)
  local list = {}
  word = word:lower()
  for _, name in ipairs(M.names()) do
    if not name:lower():find(word, 1, true) and (M.about(name) or ''):lower():find(word, 1, true) then
      list[#list + 1] = name
    end
  end
  return list
end

M.version = core.version

return M
