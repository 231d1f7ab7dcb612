-- The dflow program beside lua5.4: hundreds of command lines, each answered alike: output, complaints, tracebacks and status.
-- run: first
local shell = require 'spec.shell'
local quote = shell.quote

local folder = os.tmpname() .. '.d'
local flags = { '', '-E', '-W', '-v', '-i', "-e 'print(1)'", '-l string', '-l s=string', '--', '-' }

local scripts = {
  ['args.lua'] = 'print(#arg, arg[0], arg[1], arg[2], arg[-1], ...)\n',
  ['bang.lua'] = '#!/usr/bin/env dflow\nprint("ok", ...)\nerror("line 3")',
  ['syntax.lua'] = 'x = = 1\n',
  ['nonstring.lua'] = 'error({code = 2})\n',
  ['deep.lua'] = 'local function f(n) if n == 0 then error("deep") end return (f(n - 1)) end\nf(30)\n',
  ['marked.lua'] = '\239\187\191print("behind a byte order mark")',
  ['mod.lua'] = 'return ...',
  ['badmod.lua'] = 'error("in module")',
}

local chunks = {
  'os.exit()', 'os.exit(true)', 'os.exit(false)', 'os.exit(0)', 'os.exit(255)', 'os.exit(256)', 'os.exit(-1)', 'os.exit(3, true)', 'os.exit(true, true)',
  'error()', 'error(nil)', 'error("x", 0)', 'error("x", 2)', 'error{}', 'error(12)', 'error(true)', 'error(print)',
  'error(setmetatable({}, {__tostring = function() return 5 end}))', 'error(setmetatable({}, {__tostring = function() return "said so" end}))',
  'error(setmetatable({}, {__tostring = function() error "inner" end}))', 'return 1, 2', 'coroutine.wrap(error)("w")',
  'local x <close> = setmetatable({}, {__close = function() print "closed" end}) error("e")', 'local x <const> = 1; x = 2',
  'local t = setmetatable({}, {__gc = function() print "collected" end})', 'io.stdout:write("no newline")', 'io.stderr:write("err")', 'print(...)',
  'warn("@on") warn("a", "b")', 'warn("@on") warn("@off") warn("c")', 'warn("silent")', 'x = ', '=1', 'goto l', 'string.rep()', '("x"):nope()', 'nope.x = 1',
  'local a a.b.c = 1', 'print(#arg, arg[0], arg[-1])', 'print(select("#", ...))', 'collectgarbage("generational") print(collectgarbage("incremental"))',
  'require "nope"', 'dofile "/nope.lua"', 'assert(false)', 'assert(nil, "m")', 'assert(false, {1})', 'string.format("%d", 1.5)', 'for i = 1, 0, 0 do end',
  'local t = setmetatable({}, {__index = function(t, k) error(k) end}) print(t.x)', 'print(package.path ~= nil, package.config:sub(1, 1))',
  'debug.sethook(function() error "hook" end, "l") local x = 1', 'table.concat({{}})', 'print(_VERSION, math.maxinteger)', 'error(("x"):rep(2000))',
  'coroutine.wrap(function() error("inside") end)()', 'io.write(io.read("l"))',
}

local environments = {
  "LUA_INIT='print(1)'", "LUA_INIT='return'", "LUA_INIT='x x'", 'LUA_INIT=@/nope', 'LUA_INIT=@FOLDER/args.lua', "LUA_INIT_5_4=''",
  [[LUA_INIT_5_4='error("v")' LUA_INIT='print(2)']], "LUA_INIT='os.exit(4)'", "LUA_INIT='print(#arg, arg[0] ~= nil)'", "LUA_INIT='error{}'",
}

local words = {
  '-l mod -e "print(mod)"', '-lmod -e "print(mod)"', '-l m=mod -e "print(m)"', '-lm=mod -e "print(m)"', '-l badmod', '-l nope', '-l =mod', '-l m=', '-l a=b=c',
  '-l mod.x', '-l', '-l -e', '-e', '-e -l', '-e -', '-e --', '-l -', "-e '' -", '-x', '-ex', '-ii', '-iv', '-vi', '-vv', '-v -i', '-EE', '-W1', '-E1', '--x', '---', '-- -',
  '-- --', '-- -e', '- -e x', '-help', '-h', '-?', '-vE', '-Wv', '-i -', '-i --', '- -', '-e "print(1)" - x', '-e "x" -e "y="', '-e "error(1)" FOLDER/args.lua',
  "-e 'print(1)' -e 'error(\"second\")' -e 'print(3)'", 'FOLDER/nope.lua', 'FOLDER', '/dev/null', '/dev/stdin a', '-- FOLDER/args.lua -- x', 'FOLDER/args.lua -e x -i --',
  '-E -W -v -e "print(1)" -l string FOLDER/args.lua q', '-v FOLDER/args.lua', '-v -', '-v --', '-W -e "warn(1)"', '-W FOLDER/args.lua', '-i -e "os.exit(5)"',
  '-i FOLDER/syntax.lua', '-i -e "error(1)"', '-v -i -e "error(1)"', "-e 'arg = 1' FOLDER/args.lua", 'FOLDER/bin.luac 1 2',
}

--- Every case: a name of its group, the words, standard input, and what stands before the program.
local cases = {}
local function add(group, arguments, input, environment)
  cases[#cases + 1] = { group = group, arguments = arguments:gsub('FOLDER', folder), input = input or '', environment = (environment or ''):gsub('FOLDER', folder) }
end
local stdin = 'print("in", ...)\n'
for _, a in ipairs(flags) do
  for _, b in ipairs(flags) do
    add('flags', a .. ' ' .. b, stdin)
    add('flags', a .. ' ' .. b .. ' FOLDER/args.lua x y', stdin)
  end
end
for name, text in pairs(scripts) do
  add('scripts', 'FOLDER/' .. name .. ' a b')
  add('scripts', '-i FOLDER/' .. name .. ' a b', 'print(1)\n')
  add('scripts', '- a b', text)
  add('scripts', '', text)
end
for _, chunk in ipairs(chunks) do add('chunks', '-e ' .. quote(chunk), 'a line\n') end
for _, environment in ipairs(environments) do
  for _, a in ipairs{ "-e 'print(9)'", "-E -e 'print(9)'", 'FOLDER/args.lua x', '-i', '', '-v', '-W' } do add('environments', a, stdin, environment) end
end
for _, a in ipairs(words) do add('words', a, stdin, "LUA_PATH='FOLDER/?.lua;;'") end

local function contents(path)
  return shell.read(path)
end

--- Runs all cases with one program: a list of {out, err, status}, with what names the program or its version the same for both.
local function answers(program, at)
  local lines = {}
  for i, case in ipairs(cases) do
    local base = ('%s/%s%d'):format(folder, at, i)
    shell.write(base .. '.in', case.input)
    lines[i] = ('( %s %s %s ) <%s.in >%s.out 2>%s.err; echo $? >%s.status\n'):format(case.environment, program, case.arguments, base, base, base, base)
  end
  shell.write(folder .. '/all.sh', 'unset LUA_INIT LUA_INIT_5_4 LUA_PATH_5_4\nexport LUA_PATH=";;" LUA_CPATH=";;"\n' .. table.concat(lines))
  os.execute('sh ' .. folder .. '/all.sh')
  local list, plain = {}, program:gsub('%p', '%%%0')
  for i in ipairs(cases) do
    local base, r = ('%s/%s%d'):format(folder, at, i), {}
    for _, k in ipairs{ 'out', 'err', 'status' } do
      r[k] = contents(base .. '.' .. k):gsub(plain, 'PROGRAM'):gsub('0x%x+', 'ADDRESS'):gsub('Lua 5%.4%.%d[^\n]*', 'VERSION'):gsub('dflow %d[^\n]*', 'VERSION')
        :gsub('\n  %-%-help.-%-%-color=[^\n]*', ''):gsub('\n       PROGRAM %l+ [^\n]*', '')      -- the options that are only ours
        :gsub("\n\tno file '[^\n]*/stdlib/[^\n]*'", ''):gsub("\n\tno file '[^\n]*/build/[^\n]*'", '')
        :gsub('dflow> ', '> '):gsub('> print%b()\n', '> ')      -- readline echoes for lua5.4
    end
    r.err = r.err:gsub('\n +%d+ | [^\n]*\n +| +^+', ''):gsub('\n +%d+ | [^\n]*', ''):gsub('\n  help: [^\n]*', '')      -- the line it is about, quoted
    list[i] = r
  end
  return list
end

-- The program is the same whatever reads the specs: once is enough. `make test` takes a third, a sanitizer, which begins slowly, a tenth.
if rawget(_G, 'jit') then return end
local step = shell.build:find('san$') and 10 or require('spec.support').sample(3, 1)
if step > 1 then
  local few = {}
  for i = 1, #cases, step do few[#few + 1] = cases[i] end
  cases = few
end

describe('dflow does what lua(1) does', function()
  local theirs, ours
  setup(function()
    os.execute('mkdir -p ' .. folder)
    for name, text in pairs(scripts) do shell.write(folder .. '/' .. name, text) end
    shell.run(("lua5.4 -e 'io.open(\"%s/bin.luac\", \"wb\"):write(string.dump(load \"print(...)\"))'"):format(folder))
    theirs, ours = answers('lua5.4', 'a'), answers(shell.run('realpath ' .. shell.dflow).out:match('[^\n]+'), 'b')
  end)
  teardown(function() os.execute('rm -rf ' .. folder .. ' ' .. folder:gsub('%.d$', '')) end)

  for _, group in ipairs{ { 'flags', 'with every pair of flags, with a script and without' }, { 'scripts', 'with scripts that fail, by name, at the prompt, and piped' },
                          { 'chunks', 'with what -e may be given' }, { 'environments', 'with LUA_INIT and LUA_INIT_5_4' }, { 'words', 'with words in odd places' } } do
    it(group[2], function()
      local n = 0
      for i, case in ipairs(cases) do
        if case.group == group[1] then
          n = n + 1
          local what = case.environment .. ' dflow ' .. case.arguments
          assert.are.same({ what, theirs[i] }, { what, ours[i] })
        end
      end
      assert.is_true(n > 2, n)
    end)
  end
end)
