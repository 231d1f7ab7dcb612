--- Where ops are defined in the C sources: their entry, shape function, gradient function and kernels, as `file:line`.
--
-- In a source tree the files themselves are read, so the lines are right also while one works on them. `make
-- install` writes what it found to dflow/docs/places.lua, where the sources are not at hand any more.
local M = {}

local FOLDERS = {
  'runtime/graph', 'runtime/op', 'runtime/check', 'runtime/ops', 'runtime/gradient', 'runtime/resource',
  'runtime/engine/tokens',
  'runtime/session',
  'kernels', 'kernels/ref', 'kernels/cpu',
}
local ROLES = { 'shapes', 'gradient', 'reference', 'cpu' }
M.roles = ROLES

--- The source tree that this module was loaded from, with a slash at its end; nil in an installed one.
function M.tree()
  local tree = debug.getinfo(1, 'S').source:match('^@(.*)stdlib/dflow/docs/sources%.lua$')
  local file = tree and io.open(tree .. 'runtime/dflow.h')
  if not file then return nil end
  file:close()
  return tree
end

--- Functions that begin at a line of a file, and words that a macro at the beginning of a line makes functions of.
local function read_functions(path, tree, functions, made)
  local at = 0
  for line in io.lines(tree .. path) do
    at = at + 1
    local place = ('%s:%d'):format(path, at)
    local name = line:match('^[%a][%w_ %*]-([%w_]+)%([^;]*$') or line:match('^[%a][%w_ %*]-([%w_]+)%(.*{')
    if name and not functions[name] then functions[name] = place end
    local words = line:match('^%u[%u%d_]*%((.-)[%),;]')
    if words then
      local key = path:match('^kernels/(%a+)/') or ''
      made[key .. ' ' .. words] = made[key .. ' ' .. words] or place
      if line:find '^GRAD%(' or line:find '^SLOPE%(' then made['grad ' .. words] = made['grad ' .. words] or place end
    end
  end
end

--- The entries of a file: {types = {…}, place =, text = {…}} each, in order. A macro may make several types of the
-- word it is given, with something in front ("ResourceApply" NAME), and families of versions ("TensorArrayRead" V).
local function read_entries(path, tree, entries)
  local at, entry, inside, macro = 0, nil, false, nil
  local prefixes = {}
  local function begin(types)
    entry = { types = types, place = ('%s:%d'):format(path, at), text = {} }
    entries[#entries + 1] = entry
  end
  for line in io.lines(tree .. path) do
    at = at + 1
    macro = line:match('^#define (%u[%u%d_]*)%(') or macro
    if line:find('^static const df_op ') or line:find('^const df_op ') then inside = true end
    if macro then
      prefixes[macro] = prefixes[macro] or {}
      for prefix in line:gmatch('"(%u%a+)" %u') do table.insert(prefixes[macro], prefix) end
      local family = line:match('%.type = "(%w+)" V')
      if family then begin{ family .. 'V2', family .. 'V3' } end
    elseif inside then
      local kind = line:match('%.type = "(%w+)"')
      if kind then begin{ kind } end
      for name, word in line:gmatch('%f[%w_](%u[%u%d_]*)%(([^()]-"%w+")') do
        if line:find('^  %u') then
          local key, types = word:match('"(%w+)"$'), {}
          for _, prefix in ipairs(prefixes[name] or {}) do types[#types + 1] = prefix .. key end
          types[#types + 1] = key
          begin(types)
        end
      end
    end
    if entry and (inside or macro) then entry.text[#entry.text + 1] = (line:gsub('"[^"]*"', '""')) end
    if line:find('^};') then inside, entry = false, nil end
    if macro and not line:find('\\$') then macro, entry = nil, nil end
  end
end

--- Where everything is, by op type: {entry =, shapes =, gradient =, reference =, cpu =}, what is known of these.
-- @param folder  function(path) -> names of the files in it
function M.scan(tree, folder)
  local functions, made, entries = {}, {}, {}
  for _, dir in ipairs(FOLDERS) do
    local names = folder(tree .. dir) or {}
    table.sort(names, function(a, b)      -- the kernels of scalars after those of tensors
      local x, y = a:find('scalar') and 1 or 0, b:find('scalar') and 1 or 0
      return x < y or (x == y and a < b)
    end)
    for _, name in ipairs(names) do
      if name:find('%.c$') then
        local path = dir .. '/' .. name
        read_functions(path, tree, functions, made)
        if dir:find('^runtime/') then read_entries(path, tree, entries) end
      end
    end
  end
  local by_type = {}
  for _, e in ipairs(entries) do
    local text = table.concat(e.text, ' ')
    local found = { entry = e.place }
    local function kernel(role, prefix, word)
      found[role] = found[role] or functions[prefix .. word] or made[role:sub(1, 3) .. ' ' .. word]
    end
    for role, word in text:gmatch('%[DF_(%u+)%] = ([%w_]+)') do
      role = role == 'REF' and 'reference' or 'cpu'
      found[role] = found[role] or functions[word]
    end
    for word in text:gmatch('[%a_][%w_]*') do
      if word:find('^ref_') then kernel('reference', 'ref_', word:sub(5))
      elseif word:find('^cpu_') then kernel('cpu', 'cpu_', word:sub(5))
      elseif word:find('^kernel_') then found.reference = found.reference or functions[word]
      elseif word:find('grad_') then
        found.gradient = found.gradient or functions[word] or made[' ' .. word]
          or made[' ' .. word:gsub('^.*grad_', '')]
      elseif word:find('shape_') then
        found.shapes = found.shapes or functions[word]
      end
    end
    for word in text:gmatch '%f[%w]%u[%u%d_]*%("", ([%l%d_]+)' do
      found.gradient = found.gradient or made['grad ' .. word]
    end
    for macro, word in text:gmatch('%f[%w]([%u_]*)%(([%l%d_]+)%)') do
      if macro:find('KERNEL') or macro == 'REFERENCE' then
        kernel('reference', 'ref_', word)
        if macro:find('^KERNELS$') or macro == 'KERNEL_PAIR' then kernel('cpu', 'cpu_', word) end
      elseif macro == 'GRAD' then
        found.gradient = found.gradient or made[' ' .. word]
      end
    end
    for _, name in ipairs(e.types) do by_type[name] = by_type[name] or found end
  end
  return by_type
end

local known

--- Where an op type is defined: {entry =, …} and the folder that the paths are in, '' when that is gone; nil when it
-- is not known.
function M.of(type_name, folder)
  local tree = M.tree()
  if not known then
    if tree and folder then
      known = M.scan(tree, folder)
    else
      require 'dflow.own'
      local ok, places = pcall(require, 'dflow.docs.places')
      known = ok and places or {}
    end
  end
  return known[type_name] or known[type_name:gsub('V%d$', '')], tree or ''
end

--- Writes what scan found as a Lua module: what `make install` calls.
function M.write(path, folder)
  local by_type, types, lines = M.scan(assert(M.tree(), 'this is no source tree'), folder), {}, {}
  for name in pairs(by_type) do types[#types + 1] = name end
  table.sort(types)
  for i, name in ipairs(types) do
    local parts = { ('entry = %q'):format(by_type[name].entry) }
    for _, role in ipairs(ROLES) do
      if by_type[name][role] then parts[#parts + 1] = ('%s = %q'):format(role, by_type[name][role]) end
    end
    lines[i] = ('  %s = { %s },\n'):format(name, table.concat(parts, ', '))
  end
  require('dflow.exchange.file').write(path,
                                       '--- Where the ops of this release are defined in its sources.\nreturn {\n',
                                         table.concat(lines), '}\n')
end

return M
