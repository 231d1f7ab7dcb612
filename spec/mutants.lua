--- mutants.lua: the specs are tested. It changes the sources in seeded ways, one place at a time, and sees whether the specs notice.
--
--   lua5.4 spec/mutants.lua [count=300] [seed=1] [from=1] [part=1/2] [in=runtime/graph] [folder=build/mutants] [patience=240] [make='make CC=cc']
--     [specs='spec/exchange spec/ops'] [again=LOG]
--   lua5.4 spec/mutants.lua list in=runtime/graph/undo.c             the places, and what can be changed there
-- again: only what survived when LOG, what a run said, was written.
--
-- A mutant is one change: an operator for its neighbour, a constant one more, a condition turned round, a statement left out. It is
-- made in a copy of the tree, which is built (what does not compile is none), and those specs are read that should notice: who reads the
-- line, test by test, as a first reading of all specs (or of `specs`) has written down (`spec/cover/cover.lua`), and programs in C
-- by `readers`. Those come first that are quick, are much about the function, or have caught changes of the file before; patience is how
-- many seconds of the processor are spent on specs before a mutant has survived. What catches must hold by itself where nothing is changed. A
-- spec that fails, a crash and a hang catch it; fresh and freed memory is filled with junk, so that nothing is right there by chance. What
-- changes kernels is read behind fences (DFLOW_STRESS=fence: an element too many ends the process) and split as if for threads (split), and what survives in C once more, for
-- a quarter of the patience, where memory that is lost is an error (spec/memory/lost.sh).
-- Survivors are listed; each is worth a spec or a reason, and the reasons are in `spec/mutants_reasons.lua`. It fails when fewer than 95 of 100
-- are caught.
local M = {}
local unpack = table.unpack or unpack

-- ---- places ----------------------------------------------------------------------------------------------------

local function blank(s) return (s:gsub('[^\n]', ' ')) end

--- The text with comments, strings and lines of the preprocessor (but for what #define stands for) blanked, of the same length.
function M.masked(text, language)
  local out, at = {}, 1
  local function put(to, hidden)
    local piece = text:sub(at, to)
    out[#out + 1], at = hidden and blank(piece) or piece, to + 1
  end
  local function find_end(pattern, from)
    local _, e = text:find(pattern, from)
    return e or #text
  end
  while at <= #text do
    local c, two = text:sub(at, at), text:sub(at, at + 1)
    local level = language == 'lua' and text:match('^%-?%-?%[(=*)%[', at)
    if level and (c == '[' or two == '--') then put(find_end('%]' .. level .. '%]', at), true)
    elseif language == 'lua' and two == '--' or language == 'c' and two == '//' then put(find_end('[^\n]*', at), true)
    elseif language == 'c' and two == '/*' then put(find_end('%*/', at), true)
    elseif c == '"' or c == "'" then
      local e = at + 1
      while e <= #text and text:sub(e, e) ~= c do e = e + (text:sub(e, e) == '\\' and 2 or 1) end
      put(e, true)
    else put(at) end
  end
  local masked = table.concat(out)
  if language == 'c' then
    masked = ('\n' .. masked):gsub('(\n[ \t]*#[^\n]*)', function(line)
      local head = line:match('^\n[ \t]*#%s*define%s+[%w_]+%b()') or line:match('^\n[ \t]*#%s*define%s+[%w_]+')
      return head and blank(head) .. line:sub(#head + 1) or blank(line)
    end):sub(2)
  end
  return masked
end

local others = {
  c = { ['<'] = '<=', ['<='] = '<', ['>'] = '>=', ['>='] = '>', ['=='] = '!=', ['!='] = '==', ['&&'] = '||', ['||'] = '&&', ['+'] = '-',
        ['-'] = '+', ['*'] = '/', ['/'] = '*', ['%'] = '/', ['+='] = '-=', ['-='] = '+=', ['<<'] = '>>', ['>>'] = '<<', ['&'] = '|', ['|'] = '&' },
  lua = { ['<'] = '<=', ['<='] = '<', ['>'] = '>=', ['>='] = '>', ['=='] = '~=', ['~='] = '==', ['and'] = 'or', ['or'] = 'and', ['+'] = '-',
          ['-'] = '+', ['*'] = '/', ['/'] = '*', ['%'] = '/' },
}

local function balanced(s)
  local depth = 0
  for c in s:gmatch '[(){}%[%]]' do
    depth = depth + (c:match '[({%[]' and 1 or -1)
    if depth < 0 then return false end
  end
  return depth == 0
end

--- A whole statement on a line of its own: a call or an assignment, no declaration and no assertion.
local function is_statement(line, language)
  local s = line:match '^%s+(.-)%s*$'
  if not s or not balanced(s) or s:find 'assert' or s:find '^case ' then return false end
  if language == 'c' then
    local body = s:match '^([^;]+);$'
    if not body then return false end
    return body:find '^[%w_]+%(.*%)$' ~= nil and not body:find '^return' or body:find '^%*?[%w_%->%.%[%]%(%)]+ [%+%-%*/|&]?= ' ~= nil
      or body == 'break' or body == 'continue' or body:find '^[%w_%->%.%[%]]+[%+%-][%+%-]$' ~= nil
  end
  if s:find '^local ' or s:find '^return' or s:find '%f[%w]function%f[%W]' or s:find '%f[%w]end%f[%W]' or s:find '[,{]$' then return false end
  return s:find '^[%w_%.:%[%]]+%(.*%)$' ~= nil or s:find '^[%w_%.%[%]]+ = .+$' ~= nil
end

--- `if (x < 0) x = 0;`, which is the same with <=.
local function is_bound(line)
  local x, bound, to, value = line:match 'if %(([%w_%->%.]+) [<>]=? ([%w_]+)%) ([%w_%->%.]+) = ([%w_]+);'
  return x ~= nil and x == to and bound == value
end

--- The line with what stands in brackets of that kind behind a name (an index, arguments) blanked, and what `for`, `sizeof` and casts have not.
local function without(line, brackets) return (line:gsub('([%w_%)%]])(' .. brackets .. ')', function(name, inside) return name .. blank(inside) end)) end

--- The sizes of arrays in a declaration: `int a[4], *b[8] = { 0 }`.
local function declared_sizes(line, list)
  local word, rest = line:match '^%s*([%a_][%w_]*)[ %*]+()[%a_][%w_ %*]*%[%d'
  if not word then word, rest = line:match '^%s*([%a_][%w_]*)[ %*]+()[%a_][%w_ %*]*[,=]' end
  if not word or word == 'return' or word == 'else' or word == 'case' or word == 'goto' then return end
  local text, value = line:gsub('%b{}', blank):gsub('%b()', blank), false
  for at, c in text:gmatch '()([%[=,;])' do
    if c == '=' then value = true elseif c == ',' then value = false
    elseif c == '[' and at >= rest and not value then
      local digits = text:match('^%[()%d+%]', at)
      if digits then list[digits] = true end
    end
  end
end

--- What is allocated: whole factors and summands of the sizes.
local function allocated(line, list)
  for at, arguments in line:gmatch 'alloc()(%b())' do
    local inside = without(without('(' .. arguments:sub(2, -2):gsub('%(size_t%)', '        ') .. ')', '%b[]'), '%b()')
    for more in inside:gmatch '[%(,%+%*] *()%d+%f[^%w_.]' do
      if not inside:sub(1, more - 1):find '[%-/] *$' then list[at + more - 1] = true end
    end
  end
end

--- Constants of C that may as well be greater: how long an array of a declaration is, how far a list grows, what is allocated, how far the
-- bits of a hash are moved, what setjmp gives the second time, what a function of numbers would be of a kind that its op does not take. Their positions in the line.
local function greater_is_same(line)
  local list = {}
  declared_sizes(line, list)
  allocated(line, list)
  local function both(pattern)
    for first, second in line:gmatch(pattern) do list[first], list[second] = true, true end
  end
  both '%? [^%s?:]+ %* ()%d+ : ()%d+'
  for _, name in ipairs{ 'cap', 'capacity', 'room' } do
    both('%f[%w]' .. name .. '%)? %* ()%d+ %+ ()%d+')
    both('_' .. name .. '%)? %* ()%d+ %+ ()%d+')
    both('%? ()%d+ %* [%w_%->%.%(]*' .. name .. '%)? : ()%d+')
    for at in line:gmatch('%f[%w]' .. name .. ' %*= ()%d+') do list[at] = true end
  end
  for at in line:gmatch '%^ %(?[%w_]+ >> ()%d+' do list[at] = true end
  for at in line:gmatch 'longjmp%(.-, ()%d+%)' do list[at] = true end
  for at in (line:match '^[UB]N?I?NARY(%(.*)$' or ''):gmatch ', ()0%f[,%)]' do list[at + #line:match '^[UB]N?I?NARY'] = true end
  return list
end

--- The argument number n of the call whose bracket opens at `open`: where it begins and ends.
local function argument(line, open, n)
  local from, depth = open + 1, 0
  for at = open + 1, #line do
    local c = line:sub(at, at)
    if c:find '[%(%[{]' then depth = depth + 1
    elseif depth > 0 and c:find '[%)%]}]' then depth = depth - 1
    elseif c == ',' and depth == 0 or c == ')' then
      n = n - 1
      if n == 0 then return from, at - 1 end
      if c == ')' then return end
      from = at + 1
    end
  end
end

--- What of a line of C decides how fast it is and nothing else, as { from, to } pairs: how much is worth a thread, whether it is asked whether
-- there is one, what a processor may expect or fetch. Results do not depend on how work is split; that is held by specs of their own.
local function only_speed(line, following)
  local list = {}
  local function add(from, to) if from then list[#list + 1] = { from, to } end end
  for open in line:gmatch 'dfk_parallel()%(' do add(argument(line, open, 3)) end
  for open in line:gmatch '__builtin_expect()%(' do add(argument(line, open, 2)) end
  for from, to in line:gmatch '%f[%w]grain =()[^,;]*()' do add(from, to - 1) end
  for from, to in line:gmatch '%f[%w][%u_]*GRAIN[%u_]* = ()%d+()' do add(from, to - 1) end
  for from, to in line:gmatch 'EW_%u+ = ()%d+()' do add(from, to - 1) end
  if line:find '^static double cost_[%w_]+%(.*}$' then add(1, #line) end
  if line:find '^%s*if %(s%->far.*come' then add(1, #line) end               -- what is fetched beforehand
  local fn = line:match '^%s*if %b() ([%w_]+)%(.*, 0, [%w_]+%);'
  if fn and following:find('^%s*else dfk_parallel%(.*, ' .. fn .. ', .*;') then add(1, #line) end
  return list
end

--- Does a minus that is a sign stand before the digits there? -1 and one more is 0.
local function is_negative(line, at)
  local before = line:sub(1, at - 1)
  return before:find '[%(%[{,=%?:<>&|]%s*%-$' ~= nil or before:find '%f[%w_]return %-$' ~= nil or before:find ' [%+%*/%%%-] %-$' ~= nil
    or before:find '%f[%w]and %-$' ~= nil or before:find '%f[%w]or %-$' ~= nil
end

--- Every change that can be made: {at =, to =, with =, kind =, line =}; bytes at..to become `with`.
function M.places(text, language)
  local masked, list = M.masked(text, language), {}
  local number, idle, costs = 0, {}, false          -- within a function of an op's costs: whether it is worth a thread
  local function add(kind, at, to, with)
    for _, range in ipairs(idle) do if at >= range[1] and at <= range[2] then return end end
    if text:sub(at, to) ~= with then list[#list + 1] = { kind = kind, at = at, to = to, with = with, line = number } end
  end
  for from, line in masked:gmatch '()([^\n]*)\n?' do
    number = number + 1
    idle = language == 'c' and only_speed(line, masked:match('^[^\n]*', from + #line + 1)) or {}
    for _, range in ipairs(idle) do range[1], range[2] = from + range[1] - 1, from + range[2] - 1 end
    if language == 'c' and line:find '^static double cost_[%w_]+%(.*{ *$' then costs = true elseif line:find '^}' then costs = false end
    local skip = costs or line:find 'assert' or line:find '^#' or line:find '__attribute__' or line:find 'require ' or line:find '__builtin_prefetch'
    if not skip then
      for at, operator, to in line:gmatch '%f[^%s]()(%S+)()%f[%s\0]' do
        local other = others[language][operator]
        if other and line:sub(1, at - 1):find '%S' and not is_bound(line) then add('operator', from + at - 1, from + to - 2, other) end
      end
      local same = language == 'c' and greater_is_same(line) or {}
      for at, digits, to in line:gmatch '%f[%w_.]()(%d+)()%f[^%w_]' do
        local minus = is_negative(line, at)
        if line:sub(to, to) ~= '.' and not same[at] then
          local more = (minus and -1 or 1) * (tonumber(digits) or 0) + 1
          add('constant', from + at - (minus and 2 or 1), from + to - 2, ('%d'):format(more))
        end
      end
      if language == 'c' then
        for at, condition in line:gmatch '%f[%w_]()if (%b())' do
          add('condition', from + at - 1, from + at + 1 + #condition, 'if (!' .. text:sub(from + at + 2, from + at + 1 + #condition) .. ')')
        end
        for at in line:gmatch '[%s(]()!%f[%w_(]' do add('condition', from + at - 1, from + at - 1, '') end
      else
        local at, condition, to = line:match '%f[%w_]()if%f[%s] (.-) ()then%f[%s\0]'
        if at then add('condition', from + at - 1, from + to - 2, 'if not (' .. text:sub(from + at + 2, from + at + 1 + #condition) .. ') ') end
        for n in line:gmatch '()%f[%w_]not ' do add('condition', from + n - 1, from + n + 2, '') end
      end
      if is_statement(line, language) then
        local first = line:find '%S'
        add('statement', from + first - 1, from + #line - 1, language == 'c' and ';' or 'do end')
      end
    end
  end
  return list
end

function M.changed(text, place) return text:sub(1, place.at - 1) .. place.with .. text:sub(place.to + 1) end

--- What was changed, as people read it: the line before and after.
function M.told(text, place)
  local from = place.at
  while from > 1 and text:sub(from - 1, from - 1) ~= '\n' do from = from - 1 end
  local before = text:sub(from):match '^[^\n]*'
  local after = M.changed(text, place):sub(from):match '^[^\n]*'
  return before:match '^%s*(.-)%s*$', after:match '^%s*(.-)%s*$'
end

-- ---- who should notice ---------------------------------------------------------------------------------------------

--- Who is asked besides those that read the line: files or folders. Programs in C are linked with the objects, and LuaJIT's own files
-- are read by LuaJIT. What `alone` says are asked where nobody is known to read the line: a program that was begun with -E tells
-- nobody where it has been, nor does code that was inlined without a branch of its own.
M.readers = {
  { '^stdlib/dflow/backend/ffi_watch', 'spec/inspect', luajit = true },
  { '^stdlib/dflow/backend/ffi', 'spec/front spec/engine/session_spec.lua spec/resource spec/exchange/npy_spec.lua spec/inspect spec/device', luajit = true },
  { '^stdlib/dflow/check', 'spec/gradient/check_gradients_program_spec.lua spec/program/conditions_spec.lua', alone = true },
  { '^stdlib/dflow/command', 'spec/program', alone = true },
  { '^stdlib/dflow/docs', 'spec/repl/help_spec.lua spec/repl/help_gradients_spec.lua spec/repl/prompt_help_spec.lua spec/program/manual_spec.lua '
    .. 'spec/program/editors_spec.lua spec/front/glossary_spec.lua spec/program/install_spec.lua spec/program/examples_spec.lua', alone = true },
  { '^stdlib/dflow/inspect', 'spec/inspect spec/repl/looking_spec.lua', alone = true },
  { '^stdlib/dflow/learn', 'spec/program/learn_spec.lua', alone = true },
  { '^stdlib/dflow/repl', 'spec/repl spec/program spec/inspect', alone = true },
  { '^interp/main', 'spec/program/lua_program_spec.lua spec/program/program_spec.lua spec/program/signals_spec.lua spec/program/limits_spec.lua '
    .. 'spec/program/command_spec.lua' },
  { '^interp/p[ar][go][eg][sr]', 'spec/program spec/repl' },                                       -- pages, program
  { '^interp/prompt', 'spec/repl' },
  { '^interp/kernel', 'spec/program/kernel_spec.lua' },
  { '^interp/binding_check', 'spec/gradient/check_gradients_program_spec.lua spec/gradient' },
  { '^interp/binding_draw', 'spec/inspect spec/program' },
  { '^interp/binding_file', 'spec/exchange spec/data spec/training' },
  { '^interp/binding_import', 'spec/exchange' },
  { '^interp/binding_run', 'spec/engine/session_spec.lua spec/inspect/run_handles_spec.lua spec/resource spec/front spec/training' },
  { '^interp/binding_watch', 'spec/inspect' },
  { '^interp/', 'spec/front spec/graph spec/engine/session_spec.lua spec/exchange/import_spec.lua spec/inspect' },
  { '^runtime/base/', 'spec/base.c spec/runs.c' },
  { '^runtime/device/', 'spec/runs.c spec/counter.c spec/engine/repeated_spec.lua' },
  { '^runtime/engine/native/', 'spec/audit.c' },
  { '^runtime/engine/owners/', 'spec/rings.c spec/device/ranks_spec.lua' },
  { '^runtime/engine/tokens/kernel%.c', 'spec/memory/fence_spec.lua spec/runs.c spec/audit.c spec/counter.c' },        -- split
  { '^runtime/engine/', 'spec/runs.c spec/audit.c spec/engine_ops.c spec/counter.c spec/engine/repeated_spec.lua' },
  { '^runtime/inspect/', 'spec/runs.c spec/engine/repeated_spec.lua' },
  { '^runtime/plan/', 'spec/counter.c spec/runs.c spec/engine/repeated_spec.lua' },
  { '^runtime/session/', 'spec/runs.c' },
  { '^runtime/gradient/', 'spec/engine/repeated_spec.lua' },
  { '^runtime/tensorflow/', 'spec/engine/repeated_spec.lua spec/exchange/written_spec.lua' },
  { '^runtime/ops/', 'spec/ops/every_op_spec.lua' },
  { '^kernels/', 'spec/ops spec/gradient/check_gradients_ops_spec.lua spec/exchange/tensorflow_ops_spec.lua spec/engine/groups_spec.lua', alone = true },
}

--- The specs, files or folders, the Lua, and whether they are asked in place of nobody.
function M.readers_of(path)
  for _, r in ipairs(M.readers) do
    if path:find(r[1]) then
      local list = {}
      for spec in r[2]:gmatch '%S+' do list[#list + 1] = spec end
      return list, r.luajit and 'luajit' or 'lua5.4', r.alone
    end
  end
  return {}, 'lua5.4'
end

-- ---- the work ------------------------------------------------------------------------------------------------------

local cover = require 'spec.cover.cover'
local read, write = require('spec.shell').read, require('spec.shell').write

local lines_of = require('spec.shell').lines

--- The exit status of a command.
local function status_of(command)
  local ok, how, code = os.execute(command)
  if type(ok) == 'number' then return ok >= 256 and math.floor(ok / 256) or ok end
  return ok and 0 or how == 'signal' and 128 + code or code
end

--- A number between 0 and 2^31 that follows from a text: the same in every Lua.
local function number_of(text)
  local h = 1
  for i = 1, #text do h = (h * 48271 + text:byte(i) + 1) % 2147483647 end
  for _ = 1, 5 do h = h * 48271 % 2147483647 end
  return h
end

--- The places of one file, each with its turn: a number that follows from the seed, the file's name and the line before and after. What is
-- changed elsewhere leaves it as it is, so that a seed goes on to mean the same mutants. Lines that are alike are counted.
local function add_places(list, path, seed)
  local text, seen = read(path), {}
  for _, place in ipairs(M.places(text, path:find '%.lua$' and 'lua' or 'c')) do
    local key = table.concat({ seed, path, M.told(text, place) }, '\n')
    seen[key] = (seen[key] or 0) + 1
    place.path, place.turn = path, number_of(('%s\n%d'):format(key, seen[key]))
    list[#list + 1] = place
  end
end

--- Every place of the sources, in seeded order.
function M.all_places(seed, inside)
  local list = {}
  for _, path in ipairs(lines_of "git ls-files 'runtime/*.c' 'interp/*.c' 'kernels/*.c' 'kernels/cpu/*.h' 'stdlib/*.lua' | LC_ALL=C sort") do
    if path:find(inside, 1, true) == 1 and not path:find '^kernels/cuda/' and not path:find '/llvm/' then add_places(list, path, seed) end
  end
  table.sort(list, function(a, b)
    if a.turn ~= b.turn then return a.turn < b.turn end
    if a.path ~= b.path then return a.path < b.path end
    if a.at ~= b.at then return a.at < b.at end
    return a.with < b.with
  end)
  return list
end

local function options_of(words)
  local o = { count = '300', seed = '1', from = '1', part = '1/1', ['in'] = '', folder = 'build/mutants', patience = '240', make = 'make', specs = 'spec',
    again = '' }
  for _, word in ipairs(words) do
    local key, v = word:match '^(%w+)=(.*)$'
    if word == 'list' then o.list = true
    elseif key and o[key] then o[key] = v
    else error(('mutants.lua: %s is not known'):format(word), 0) end
  end
  return o
end

local Workshop = {}
Workshop.__index = Workshop

--- Copies the sources; what was built there before, and belongs to what is copied, stays.
local function copy(tree)
  assert(status_of(('mkdir -p %s/build && cd %s && rm -rf build/unchanged build/debug/libdflow.so && find . -maxdepth 1 ! -name build ! -name . -exec rm -rf {} +')
    :format(tree, tree)) == 0)
  for _, kept in ipairs(lines_of(('find %s/build -name "*.kept"'):format(tree))) do
    assert(status_of(('mv %s %s'):format(kept, (kept:gsub('%.kept$', '')))) == 0)        -- of a run that was ended amid a mutant
  end
  assert(status_of(('git ls-files -z -co --exclude-standard | tar -c --null -T - | tar -x -C %s'):format(tree)) == 0)
  status_of(('[ ! -d build/cuda ] || cp -a build/cuda %s/build/'):format(tree))
end

--- A copy of the tree, built, and what the first reading of the specs has told. Parts of a run share the reading.
function M.workshop(o)
  local root = lines_of 'pwd'[1] .. '/' .. o.folder
  local w = setmetatable({ folder = o.folder, tree = o.folder .. '/tree' .. o.part:gsub('/.*', ''), make = o.make, catches = {}, alone = {},
                           whole = {}, patience = tonumber(o.patience), way = 'plain' }, Workshop)
  w.log, w.told = w.tree .. '.build.log', w.tree .. '.read.log'
  local complete = read(root .. '/cover/complete')
  if complete ~= o.specs then
    if not complete then copy(root .. '/covertree') end
    cover.record(root .. '/cover', root .. '/covertree', o.make, o.specs)
    write(root .. '/cover/complete', o.specs)
  end
  w.cover = cover.load(root .. '/cover', root .. '/covertree')
  for _, spec in ipairs(w.cover.specs) do
    for _, name in ipairs(spec.except or {}) do print(('holds not even unchanged, and is left out: %s: %s'):format(spec.path, name)) end
    if not spec.holds then print('holds not even unchanged, and is left out: ' .. spec.path) end
  end
  copy(w.tree)
  w.root = lines_of('cd ' .. w.tree .. ' && pwd')[1]
  assert(w:built 'all build/debug/pty', 'mutants.lua: the tree does not build: see ' .. w.log)
  assert(status_of(('cp -a %s/build/debug %s/build/unchanged'):format(w.tree, w.tree)) == 0)
  w.commands, w.link = w:how_built()
  for line in (read(o.folder .. '/catches') or ''):gmatch '[^\n]+' do w.catches[line] = (w.catches[line] or 0) + 1 end
  for line in (read(o.folder .. '/alone') or ''):gmatch '[^\n]+' do w.alone[line:sub(3)] = line:sub(1, 1) == '+' end
  return w
end

--- Nobody reads a mutant in a debugger.
function Workshop:built(what)
  return status_of(("cd %s && %s --no-print-directory MODE=debug %s >%s/../%s 2>&1"):format(self.tree, self.make, what or 'lib',
                   self.root, self.log:match '[^/]*$')) == 0
end

--- The command that makes the object of each C file, { object =, command = } by path, and the one that links the library: make itself takes
--- longer to find out that they are all.
function Workshop:how_built()
  local commands, link = {}, nil
  local printed = table.concat(lines_of(("cd %s && %s --no-print-directory -n -B V=1 MODE=debug lib 2>/dev/null"):format(self.tree, self.make)), '\n')
  for line in printed:gsub('\\\n', ' '):gmatch '[^\n]+' do
    local path, object = line:match ' %-c ([%w_/]+%.c) %-o (%S+)$'
    if path then commands[path] = { object = object, command = (line:gsub('^ccache ', '', 1)) } end
    if line:find ' %-shared .*%-o %S+/libdflow%.so$' then link = line end
  end
  return commands, assert(link, 'mutants.lua: make does not say how the library is linked')
end

--- Builds the library with that file as it is now; false where it does not compile. What `mend` is to put back is kept.
function Workshop:compiled(path)
  local c = self.commands[path]
  if not c then return self:built 'all' end
  local function at_tree(command) return status_of(("cd %s && { %s; } >%s/../%s 2>&1"):format(self.tree, command, self.root, self.log:match '[^/]*$')) == 0 end
  assert(at_tree(('cp -p %s %s.kept'):format(c.object, c.object)))
  return at_tree(c.command) and at_tree(self.link)
end

--- The library as it is where nothing is changed; the sources are already.
function Workshop:mend(path)
  local c = self.commands[path]
  if not c then return self:built 'all' end
  assert(status_of(('cd %s && mv %s.kept %s && touch %s && cp build/unchanged/libdflow.so build/debug/libdflow.so')
    :format(self.tree, c.object, c.object, c.object)) == 0)
end

local hung = { [124] = true, [137] = true, [152] = true }    -- ended by timeout, or by the limit of the processor

--- Which tests of them only.lua is to read.
local function wanted(specs)
  local lines = {}
  for _, spec in ipairs(specs) do
    for _, test in ipairs(spec.tests or { { name = '' } }) do lines[#lines + 1] = spec.path .. '\t' .. test.name .. '\n' end
    for _, name in ipairs(spec.except or {}) do lines[#lines + 1] = '!' .. spec.path .. '\t' .. name .. '\n' end
  end
  return table.concat(lines)
end

--- How specs are read: as they are, behind fences, or where lost memory is an error.
M.ways = { plain = '', fence = 'env DFLOW_STRESS=fence,split', lost = 'spec/memory/lost.sh' }

--- In which of these a change is shown, one after the other: what gives memory back, or does not, is looked at for that first.
function M.ways_of(path, line)
  if path:find '%.lua$' then return { 'plain' } end
  local usual = path:find '^kernels/' and 'fence' or 'plain'
  for _, word in ipairs{ 'free', 'release', 'drop', 'close', 'destroy', 'forget', 'unref', 'let_go', 'take_back' } do
    if line:find('%f[%w]' .. word .. '[%w_]*%(') or line:find('_' .. word .. '[%w_]*%(') then return { 'lost', usual } end
  end
  return { usual, 'lost' }
end

--- Reads specs that take so many seconds, of the clock and of the processor, with `build`; true where all hold, false, and whether they
-- hung: what takes far more of the processor hangs; by the clock, which says little on a busy machine, minutes more.
function Workshop:hold(specs, lua, clock, processor, build)
  local programs, files = {}, {}
  for _, spec in ipairs(specs) do
    local list = spec.path:find '%.c$' and programs or files
    list[#list + 1] = spec.path
  end
  local log, only = self.root .. '/../' .. self.told:match '[^/]*$', self.root .. '.only'
  local way = M.ways[self.way]
  -- Of memory what may be written counts (-d): a browser, and what stands for a GPU, only reserve a hundred times as many addresses.
  local limits = ('export MALLOC_PERTURB_=165 && ulimit -c 0 && ulimit -d 6000000 && ulimit -t %d && timeout -k 5 %d')
    :format(math.ceil(processor * 3 + 5), math.ceil(clock * 10 + 180))
  for _, spec in ipairs(programs) do
    local program = 'build/debug/' .. spec:gsub('%.c$', '')
    local status = self:built(program) and status_of(('cd %s && %s %s %s >%s 2>&1 </dev/null'):format(self.tree, limits, way, program, log)) or 1
    if status ~= 0 then return false, hung[status] end
  end
  if #files == 0 then return true end
  write(only, wanted(specs))
  local shell = ([[cd '%s' && export DFLOW_MODE=debug DFLOW_BUILD="$PWD/build/%s" DFLOW_LUA=%s DFLOW_ONLY='%s' LUA_PATH="$PWD/?.lua;$PWD/stdlib/?.lua;;" && \
    export DFLOW_LIB="$DFLOW_BUILD/libdflow.so" LUA_CPATH="$DFLOW_BUILD/lua/?.so;;" && \
    %s %s %s "$(command -v busted)" -f .busted --helper=spec/cover/only.lua --cpath="$DFLOW_BUILD/lua/?.so" --no-keep-going -o plainTerminal %s >%s 2>&1 </dev/null]])
    :format(self.root, build or 'debug', lua, only, limits, way, lua, table.concat(files, ' '), log)
  local status = status_of(shell)
  return status == 0, hung[status]
end

local function now() return tonumber(lines_of('date +%s.%N')[1]) end

--- What changes of a source file are caught by, written down: it is read earlier the next time, and told from.
function Workshop:remember(source, by)
  for _, at in ipairs{ source, source:match '^.*/' } do
    local line = at .. ' ' .. by:gsub(':%d+$', '')
    self.catches[line] = (self.catches[line] or 0) + 1
    local f = assert(io.open(self.folder .. '/catches', 'a'))
    f:write(line, '\n')
    f:close()
  end
end

--- Seconds of the processor; of who waits, some of the clock, which says little on a busy machine.
local function cost(spec) return math.max(spec.processor, spec.clock / 10) end

--- What a spec costs beside what may be hoped of it.
function Workshop:price(spec, source)
  local of = function(at) return self.catches[at .. ' ' .. spec.path] or 0 end
  return (cost(spec) + 0.05) / (spec.hope * (1 + 20 * of(source) + 4 * of(source:match '^.*/')))
end

--- A file, or some of its tests, and how long they take; those that are known not to hold without the others take the file.
function Workshop:part(file, tests)
  local clock = 0.3
  for _, test in ipairs(tests or {}) do
    clock = clock + test.clock
    if self.alone[file.path .. '\t' .. test.name] == false then tests = nil break end
  end
  if not tests or clock > file.clock then tests, clock = nil, file.clock end
  return { path = file.path, tests = tests, clock = clock, processor = file.processor * clock / math.max(0.01, file.clock) }
end

--- Who should notice a change there: { path =, clock =, processor = }, the one that is worth most for its time first.
function Workshop:files(place, text)
  local list, specs = {}, {}
  local named, lua, alone = M.readers_of(place.path)
  local readers, nobody = self.cover:readers(place.path, text, place.line)
  for _, spec in ipairs(self.cover.specs) do specs[spec.path] = spec end
  local function add(path, hope, tests)
    local known = specs[path] or { clock = 6, processor = 6, holds = true }
    if not known.holds or list[path] then return end
    self.whole[path] = { path = path, clock = known.clock, processor = known.processor }
    self.whole[path].except = known.except
    local spec = self:part(self.whole[path], tests)
    spec.except = known.except
    if known.part and not spec.tests then return end     -- no run has shown that all of its tests pass
    if cost(spec) > self.patience then return end
    list[path], list[#list + 1] = true, spec
    list[#list].hope = hope
    list[#list].price = self:price(list[#list], place.path)
  end
  for _, at in ipairs(alone and not nobody and {} or named) do
    for _, path in ipairs(at:find '%.c$' and { at } or lines_of(("cd %s && find %s -name '*_spec.lua'"):format(self.tree, at))) do
      if not path:find 'instructions_spec' then add(path, 0.3) end
    end
  end
  for _, reader in ipairs(lua == 'lua5.4' and readers or {}) do
    add(reader.spec.path, (0.1 + reader.share) * (0.05 + reader.of), reader.tests)
  end
  table.sort(list, function(a, b)
    if a.price ~= b.price then return a.price < b.price end
    return a.path < b.path
  end)
  return list, lua
end

--- The file and line of the test that failed, and its name.
local function caught_by(log)
  local by
  for line in (log or ''):gmatch '[^\n]+' do
    if by then return by, line end
    local kind, path, at = line:match '^(%a+) %-> (%S+) @ (%d+)'
    if path and kind ~= 'Pending' and path:find 'spec/' then by = path:gsub('^.*/(spec/)', '%1') .. ':' .. at end
  end
  return by or 'a crash, a hang or a program'
end

--- Does it hold by itself where nothing is changed? What does not (it needs the tests before it) has noticed nothing.
function Workshop:holds_unchanged(spec, lua, clock, processor)
  local key = wanted{ spec }:gsub('\n$', '') .. (self.way == 'plain' and '' or '\t' .. self.way)
  if spec.path:find '%.c$' then return true end
  if self.alone[key] == nil then
    local now = self.changed
    write(now.path, now.before)
    self.alone[key] = self:hold({ spec }, lua, clock, processor, 'unchanged')
    write(now.path, now.after)
    local f = assert(io.open(self.folder .. '/alone', 'a'))
    f:write(self.alone[key] and '+ ' or '- ', key, '\n')
    f:close()
  end
  return self.alone[key]
end

--- Does each of them, read behind fences or for what is lost, which takes its time?
function Workshop:all_hold_unchanged(batch, lua)
  for _, spec in ipairs(batch) do
    if not self:holds_unchanged(spec, lua, spec.clock or 6, spec.processor or 6) then return false end
  end
  return true
end

--- Those of a batch that are to be read again where that test failed; all of it where it is not known which did.
local function suspects(batch, by, name)
  local path = by:match '^(.*):%d+$'
  for _, spec in ipairs(path and batch or {}) do
    if spec.path == path then return { { path = path, tests = spec.tests and { { name = name } } } } end
  end
  return batch
end

--- The batch without that test of that file.
local function rest_of(batch, path, name)
  local list = {}
  for i, spec in ipairs(batch) do
    list[i] = spec
    if spec.path == path then
      list[i] = { path = path, tests = spec.tests, except = { name, unpack(spec.except or {}) } }
    end
  end
  return list
end

--- Does what failed fail again, and hold where nothing is changed? Otherwise, says why it has noticed nothing. Where all of a batch ended and nobody
--- said at which test, each of it is asked alone.
function Workshop:is_sure(again, by, lua, clock, processor)
  local why = 'failed once, and held when read again: ' .. by
  for _, spec in ipairs(again) do
    if not self:hold({ spec }, lua, clock, processor) then
      if self:holds_unchanged(spec, lua, clock, processor) then return true end
      why = 'does not hold by itself: ' .. by
    end
  end
  return false, why
end

--- Do these specs notice, and which? What fails only beside others, or once, has noticed nothing, and the others are read without it.
function Workshop:notice(batch, lua, clock, processor)
  for _ = 1, 5 do
    local held, hangs = self:hold(batch, lua, clock, processor)
    if held then return nil end
    if hangs and (self.way == 'plain' or self:all_hold_unchanged(batch, lua)) then return 'a hang' end
    local by, name = caught_by(read(self.told))
    local again = suspects(batch, by, name)
    local sure, why = self:is_sure(again, by, lua, clock, processor)
    if sure then return by end
    print(why)
    local spec = again[1]
    if again == batch then return nil end
    if why:find '^does not hold' and spec.tests then        -- it may need the tests before it
      local whole = { path = spec.path, clock = self.whole[spec.path].clock, processor = self.whole[spec.path].processor,
                        except = spec.except }
      if not self:hold({ whole }, lua, whole.clock, whole.processor) and self:holds_unchanged(whole, lua, whole.clock, whole.processor) then return by end
    end
    batch = rest_of(batch, spec.path, name)
  end
end

--- The next specs to read together: a first few of seconds, then more.
local function next_batch(files, i)
  local batch, clock, processor, all = {}, 0, 0, 0
  repeat
    local spec = files[i]
    batch[#batch + 1], clock, processor, all, i = spec, clock + spec.clock, processor + spec.processor, all + cost(spec), i + 1
  until i > #files or all + cost(files[i]) > math.min(2 * i, 10) or (files[i].path:find '%.c$' or spec.path:find '%.c$')
  return batch, i, clock, processor, all
end

--- Shows a change to these specs, in one of `ways`, for so many seconds of the processor: what has caught it, or nil, and how many were asked.
function Workshop:show(way, files, lua, source, left)
  local i, list = 1, {}
  self.way = way
  for _, spec in ipairs(files) do                             -- what a program in C loses in the end is not the library's alone
    if way ~= 'lost' or not spec.path:find '%.c$' then list[#list + 1] = spec end
  end
  while i <= #list and left > 0 do
    local batch, behind, clock, processor, all = next_batch(list, i)
    local by = self:notice(batch, lua, clock, processor)
    i, left = behind, left - all
    if by then
      self:remember(source, #batch == 1 and batch[1].path or by)
      return by, i - 1
    end
  end
  return nil, i - 1
end

--- 'caught' and by what, 'survived' and who was asked, or nil for what does not compile.
function Workshop:try(place)
  local path = self.tree .. '/' .. place.path
  local text = read(path)
  local files, lua = self:files(place, text)
  local changed = M.changed(text, place)
  if place.path:find '%.lua$' and not load(changed) then return nil end
  local of_c = not place.path:find '%.lua$'
  write(path, changed)
  self.changed = { path = path, before = text, after = changed }
  local verdict, by
  if not of_c or self:compiled(place.path) then
    local ways, asked = M.ways_of(place.path, place.kind == 'statement' and M.told(text, place) or ''), 0
    for _, way in ipairs(ways) do
      if not by then
        local n
        by, n = self:show(way, files, lua, place.path, self.patience / (way == 'lost' and 4 or 1))
        asked = math.max(asked, n)
      end
    end
    verdict = by and 'caught' or 'survived'
    by = by or ('%d of %d specs that read it were asked'):format(asked, #files)
  end
  write(path, text)
  if of_c then self:mend(place.path) end
  return verdict, by
end

--- What survived, by file and change, when this was said.
function M.survivors(text)
  local list = {}
  for path, before, after in text:gmatch '%d+ survived +%d+ s  ([^:\n]+):%d+: [^\n]*\n +%- ([^\n]*)\n +%+ ([^\n]*)' do
    list[path .. '\n' .. before .. '\n' .. after] = true
  end
  return list
end

local function reason_for(reasons, place, before, after)
  for _, r in ipairs(reasons) do
    if r.file == place.path and r.before == before and r.after == after then return r.reason end
  end
end

function M.main(words)
  local o = options_of(words)
  local places = M.all_places(tonumber(o.seed), o['in'])
  if o.list then
    table.sort(places, function(a, b) if a.path ~= b.path then return a.path < b.path end return a.at < b.at end)
    for _, p in ipairs(places) do
      local _, after = M.told(read(p.path), p)
      print(('%s:%d: %s: %s'):format(p.path, p.line, p.kind, after))
    end
    return true
  end
  local w, reasons = M.workshop(o), dofile 'spec/mutants_reasons.lua'
  local again = o.again ~= '' and M.survivors(read(o.again))
  local part, parts = o.part:match '^(%d+)/(%d+)$'
  part, parts = tonumber(part), tonumber(parts)
  local caught, survived, excused, made, k = 0, 0, 0, 0, 0
  print(('%d places; %s mutants of seed %s, from number %s'):format(#places, o.count, o.seed, o.from))
  while made < tonumber(o.count) and k < #places do
    k = k + 1
    local place = places[k]
    if k >= tonumber(o.from) and k % parts == part % parts then
      local before, after = M.told(read(w.tree .. '/' .. place.path), place)
      local reason = reason_for(reasons, place, before, after)
      local began = now()
      local verdict, by
      if again and not again[place.path .. '\n' .. before .. '\n' .. after] then verdict = nil            -- it was caught, or not made
      elseif reason then verdict, by = 'excused', reason else verdict, by = w:try(place) end
      if verdict then
        made = made + 1
        caught = caught + (verdict == 'caught' and 1 or 0)
        survived = survived + (verdict == 'survived' and 1 or 0)
        excused = excused + (verdict == 'excused' and 1 or 0)
        print(('%4d %-8s %5.0f s  %s:%d: %s\n       - %s\n       + %s\n       %s'):format(k, verdict, now() - began, place.path, place.line,
              place.kind, before, after, by or ''))
        io.stdout:flush()
      end
    end
  end
  local share = 100 * caught / math.max(1, caught + survived)
  print(('%d mutants: %d caught, %d survived, %d with a reason; %.1f %% caught'):format(made, caught, survived, excused, share))
  return share >= 95
end

if arg and arg[0] and arg[0]:match 'mutants%.lua$' then os.exit(M.main(arg) and 0 or 1) end

return M
