-- The prompt as one lives in it: typed at in a terminal, its screens compared.
-- run: first, alone
local shell = require 'spec.shell'
local terminal = require 'spec.terminal'

local sizes = { { 80, 24 }, { 120, 40 } }

describe('the prompt in a terminal', function()
  if not terminal.available() then return pending('tmux is not there') end
  if (os.getenv('DFLOW_MODE') or ''):find('san$') then return pending('the sanitizers are too slow for a person to type at') end

  local t
  local function open(...) t = terminal.open(...) return t end
  after_each(function()
    if t then t:close() end
    t = nil
  end)

  for _, size in ipairs(sizes) do
    local columns, rows = size[1], size[2]
    describe(('of %d by %d'):format(columns, rows), function()
      it('reads on until the chunk is complete, indents, and moves the closing word back', function()
        open(columns, rows):line('for i = 1, 2 do'):line('if i > 1 then'):line('print(i)'):line('end'):type('end')
        assert.are.equal([[
dflow> for i = 1, 2 do
   ...   if i > 1 then
   ...     print(i)
   ...   end
   ...   end]], t:shows([[
dflow> for i = 1, 2 do
   ...   if i > 1 then
   ...     print(i)
   ...   end
   ...   end]]))
        t:keys('Enter')
        local done = [[
dflow> for i = 1, 2 do
   ...   if i > 1 then
   ...     print(i)
   ...   end
   ... end
2
dflow>]]
        assert.are.equal(done, t:shows(done))
      end)

      it('shows the signature of the call under the input', function()
        open(columns, rows):type('df.matmul(x, ')
        local shown = 'dflow> df.matmul(x,\ndf.matmul(a, b, {transpose_a = false, transpose_b = false})'
        assert.are.equal(shown, t:shows(shown))
        t:keys('C-c')
        assert.are.equal('dflow> df.matmul(x, ^C\ndflow>', t:shows('dflow> df.matmul(x, ^C\ndflow>'))
      end)

      it('lists what may stand there with a line of help for each, and takes the list away', function()
        open(columns, rows):type('math.fl'):keys('Tab'):type('; math.m'):keys('Tab')
        local screen = t:wait('math.max')
        assert.is_truthy(screen:find('dflow> math.floor; math.m\n', 1, true), screen)
        for _, name in ipairs{ 'max', 'min', 'maxinteger' } do assert.is_truthy(screen:find('\n  ' .. name), screen) end
        t:type('ax')
        assert.are.equal('dflow> math.floor; math.max', t:shows('dflow> math.floor; math.max'))
      end)

      it('keeps a line that is wider than the window, and the cursor with it', function()
        local long = 'x = ' .. ('1 + '):rep(40) .. '1'
        open(columns, rows):type(long)
        t:wait(function() return true end)
        local room = columns - 8
        local first = 'dflow> ' .. long:sub(1, room):gsub(' $', '')
        assert.are.equal(first, t:wait(first):match('(dflow> [^\n]*)'))
        t:keys('Enter'):line('x')
        assert.is_truthy(t:wait('\n41\n'):find('\n41\n', 1, true))
      end)
    end)
  end

  it('takes up from the history whole entries that begin as the line does', function()
    open(80, 24):line('abc = 1')
    t:wait('abc = 1\ndflow>')             -- what is typed before the prompt is there the terminal shows once more
    t:line('function f()'):line('return 7'):line('end'):line('xyz = 2')
    t:wait('xyz = 2\ndflow>')
    t:type('fun'):keys('Up')
    local entry = 'dflow> function f()\n   ...   return 7\n   ... end'
    local screen = t:wait(function(s) return select(2, s:gsub('return 7', '')) == 2 end)
    assert.are.equal(entry, screen:sub(-#entry))
    t:keys('C-c')
    t:wait(function(s) return s:sub(-7) == '\ndflow>' end)
    t:keys('Up', 'Up')
    screen = t:wait(function(s) return s:sub(-#entry) == entry end)
    assert.are.equal(entry, screen:sub(-#entry))
    t:keys('Down', 'Down')              -- within the entry: its last line
    t:wait(function() return select(2, t:cursor()) == select(2, screen:gsub('\n', '')) end)
    t:keys('Down')
    screen = t:wait(function(s) return s:sub(-7) == 'xyz = 2' end)
    assert.are.equal('dflow> xyz = 2', screen:sub(-14))
  end)

  it('shows the rest of an input of before grey behind what is typed; Right and End take it', function()
    open(80, 24):line('alpha = 1'):line('function beta()'):line('return alpha'):line('end')
    t:wait('... end\ndflow>')
    t:type('al')
    t:wait('dflow> alpha = 1\ndflow>')
    t:wait(function(s) return select(2, s:gsub('alpha = 1', '')) == 2 end)
    assert.matches('al\27%[[%d;]+mpha = 1', t:colors())
    assert.equal(9, (t:cursor()))
    t:keys('Right')
    t:wait(function() return t:cursor() == 16 end)
    t:keys('C-u'):type('fu')
    t:wait(function(s) return s:sub(-22) == 'dflow> function beta()' and t:cursor() == 9 end)
    t:keys('End', 'Enter')                                         -- all of its lines
    t:wait('... end\ndflow>')
    t:type('be'):keys('Enter')                                     -- what is grey does not run
    t:wait(function(s) return s:find('dflow> be\nnil\ndflow>$') end)
    t:line(':set suggest off'):type('al')
    t:wait(function(s) return s:sub(-9) == 'dflow> al' end)
  end)

  it('has the number of the input in the prompt where that is set, and such a session can be pasted', function()
    open(80, 24):line(':set numbers on'):line('7 * 6'):line('Out[1] + 1')
    t:wait('dflow 1> 7 * 6\n42\ndflow 2> Out[1] + 1\n43\ndflow 3>')
    t:paste('dflow 1> x = 5\ndflow 2> x\n5\n'):keys('Enter')
    t:wait('dflow 3> x = 5\ndflow 4> x\n5\ndflow 5>')
  end)

  it('marks prompts, answers and places of files for terminals that know such marks, and sends none to others', function()
    local typist = require 'spec.typist'
    if not typist.available() then return pending('there is no terminal to type at') end
    local file = os.tmpname() .. '.lua'
    shell.write(file, 'error "there"')
    local p = typist.open{ environment = 'TERM_PROGRAM=WezTerm', command = shell.dflow }
    assert.truthy(p:wait '\27]133;A\27\\')
    p:line(('dofile "%s"'):format(file))
    assert.truthy(p:wait '\27]133;C\27\\')
    assert.truthy(p:wait(('\27]8;;file://%s#1\27\\%s:1\27]8;;\27\\'):format(file, file)))
    assert.truthy(p:wait '\27]133;D;1\27\\')
    p:line('40 + 2')
    assert.truthy(p:wait '42\r\n\27]133;D;0\27\\\27]133;A\27\\')
    p:close()
    p = typist.open{ environment = 'TERM_PROGRAM=', command = shell.dflow }
    p:line('40 + 2')
    assert.truthy(p:wait '42\r\n')
    assert.is_nil(p:wait('\27]133', 0.5))
    p:close()
    os.remove(file)
  end)

  it('searches the history as one types, by some of the letters', function()
    open(80, 24):line('alpha = 1'):line('beta = 2'):keys('C-r'):type('aha')
    t:wait(function(s) return s:find('dflow> alpha = 1\nsearch: aha', 1, true) and s:find('\n> alpha = 1', 1, true) end)
    t:keys('Enter'):line('alpha')
    assert.is_truthy(t:wait('\n1\n'):find('\n1\n', 1, true))
  end)

  it('shows more words than fit by the screenful: Tab once more shows the next', function()
    open(80, 24):line('x = df.float32{1, 2}'):type('x:'):keys('Tab')
    local many = tonumber(t:wait('; Tab shows the next'):match('\n  1 to 13 of (%d+)'))
    t:keys('Tab')
    assert.is_falsy(t:wait('\n  14 to 26 of ' .. many):find('\n  abs ', 1, true))
    for _ = 1, math.ceil(many / 13) - 1 do t:keys('Tab') end
    assert.is_truthy(t:wait('\n  1 to 13 of ' .. many):find('\n  abs ', 1, true))
    t:type('matm'):keys('Tab')
    t:wait('x:matmul')
  end)

  it('goes to the next that fits with Ctrl-R, leaves what was typed with Escape, and takes what is found with Tab or an arrow', function()
    open(80, 24):line('alpha = 1'):line('alpine = 2'):type('half typed'):keys('Left', 'Left')
    t:wait(function() return t:cursor() == 15 end)
    t:keys('C-r'):type('al')
    t:wait('\n> alpine = 2')
    t:keys('C-r')
    t:wait(function(s) return s:find('dflow> alpha = 1\nsearch: al', 1, true) and s:find('\n> alpha = 1', 1, true) end)
    t:type('zz')
    t:wait(function(s) return s:find('dflow> half typed\nsearch: alzz   nothing fits', 1, true) end)
    t:keys('BSpace', 'BSpace')
    t:wait('\n> alpine = 2')
    t:keys('Escape')
    t:wait(function(s) return s:sub(-17) == 'dflow> half typed' and t:cursor() == 15 end)
    t:keys('C-r'):type('pha')
    t:wait('\n> alpha = 1')
    t:keys('Home')
    t:wait(function(s) return s:sub(-16) == 'dflow> alpha = 1' and t:cursor() == 7 end)
    t:keys('C-r'):type('pine')
    t:wait('\n> alpine = 2')
    t:keys('C-c')
    t:wait(function(s) return s:find('alpine = 2^C\ndflow>', 1, true) and s:sub(-6) == 'dflow>' end)
  end)

  it('begins a new line with Alt-Enter even when the chunk is complete', function()
    open(80, 24):type('x = 1'):keys('M-Enter'):line('y = x + 1')
    t:wait('y = x + 1\ndflow>')
    t:line('y')
    assert.are.equal('dflow> x = 1\n   ... y = x + 1\ndflow> y\n2\ndflow>', t:shows('dflow> x = 1\n   ... y = x + 1\ndflow> y\n2\ndflow>'))
  end)

  it('moves up and down within the buffer', function()
    open(80, 24):line('if true then'):type('x = 5'):keys('Up', 'C-a'):type('do end '):keys('Down', 'C-e'):line(' end')
    t:wait('x = 5 end\ndflow>')
    t:line('x')
    assert.is_truthy(t:wait('\n5\n'):find('dflow> do end if true then\n   ...   x = 5 end\ndflow> x\n5\n', 1, true), t:screen())
  end)

  local session = [[
dflow> function g(x)
   ...   return x + 1
   ... end
dflow> y = g(1)
dflow> y
2
dflow> ]]

  it('takes a pasted session without its answers; one undo takes all of it away', function()
    open(80, 24):paste(session)
    local shown = 'dflow> function g(x)\n   ...   return x + 1\n   ... end\ndflow> y = g(1)\ndflow> y'
    assert.are.equal(shown, t:shows(shown))
    t:keys('C-_')
    assert.are.equal('dflow>', t:shows('dflow>'))
  end)

  it('runs a pasted session as if it were typed: each input with its number and its entry of the history', function()
    open(80, 24):paste(session):keys('Enter')
    local shown = session:gsub(' $', '')
    assert.are.equal(shown, t:shows(shown))
    t:line('Out[3]')
    assert.are.equal(shown .. ' Out[3]\n2\ndflow>', t:shows(shown .. ' Out[3]\n2\ndflow>'))
    local history = 'function g(x)\\n  return x + 1\\nend\ny = g(1)\ny\nOut[3]\n'
    assert.are.equal(history, shell.run('cat ' .. t.home .. '/.local/state/dflow/history').out)
  end)

  it('leaves out what comes after an error in a pasted session', function()
    open(80, 24):paste('dflow> x = 1\ndflow> x + nil_\n?\ndflow> x = 2\ndflow> x\n2\n'):keys('Enter')
    t:wait('were left out\ndflow>')               -- what is typed while an input runs is echoed where it is typed
    local screen = t:line('x'):wait('\n1\n')
    assert.matches("dflow> x %+ nil_\n.-In%[2%]:1: attempt to perform arithmetic on a nil value %(global 'nil_'%).*"
      .. '\n2 more inputs of what was pasted were left out\ndflow> x\n1\n', screen)
  end)

  it('takes a paste of 10,000 lines', function()
    local lines = {}
    for i = 1, 10000 do lines[i] = ('local v%d = %d'):format(i % 500, i) end
    lines[#lines + 1] = 'done = v0 + v499'
    open(80, 24):paste(table.concat(lines, '\n'))
    assert.is_truthy(t:wait('done = v0 + v499'):find('done = v0 + v499', 1, true))
    t:keys('C-_')                       -- one undo takes all of it away
    assert.are.equal('dflow>', t:shows('dflow>'))
    t:paste(table.concat(lines, '\n'))
    t:wait('done = v0 + v499')
    t:keys('Enter'):line('done')
    assert.is_truthy(t:wait('\n19999\n'):find('\n19999\n', 1, true), t:screen())
  end)

  it('shows of a tensor that is longer than the window its corners and what it holds, of others all', function()
    open(80, 24)
    for k, shape in ipairs{ '{40, 2}', '{1000}', '{9, 20}', '{20}', '{3, 4}' } do
      t:line(('print(%d)'):format(1000 + k)):wait('\n' .. 1000 + k .. '\n')
      t:line('df.random_normal' .. shape)
      local screen = t:wait(function(s) return s:find '] float32%[[^\n]*\ndflow>$' or s:find '\nfloat32%[[^\n]*\ndflow>$' end)
      local shown = screen:match(1000 + k .. '\n(.*)$')
      assert.is_truthy(shown, 'more than the window: ' .. shape)
      assert.equal(k <= 3, shown:find '%.%.%.' ~= nil and shown:find ' sd ' ~= nil, shown)
    end
    t:line ':set print full':line('df.zeros{40, 1}')
    assert.is_nil(t:wait('float32[40,1]\ndflow>'):find('...', 1, true))
  end)

  it('paints itself anew when the window changes while one types', function()
    open(80, 24):line('for i = 1, 3 do'):type('print("' .. ('wide '):rep(10) .. '"')
    t:wait('wide "')
    t:resize(40, 12)
    t:wait(function(s) return s:find('\n       e wide') end)
    t:resize(120, 40):type(')')
    local shown = 'dflow> for i = 1, 3 do\n   ...   print("' .. ('wide '):rep(10) .. '")'
    assert.are.equal(shown, t:shows(shown))
  end)

  it('shows the next answer as wide as the window has become, long lines broken at blanks, and long help by the screenful', function()
    open(110, 40):line('x = 1')
    t:wait('dflow> x = 1\ndflow>')
    t:resize(60, 14):line(':help runs')
    local first = t:wait('Enter goes on, q leaves --')
    assert.matches('iterations in flight, live and\n', first, 1, true)
    assert.matches('\n%-%- Enter goes on, q leaves %-%-$', first)
    t:keys('Enter')
    t:wait(function(s) return s ~= first and s:find('q leaves %-%-$') end)
    t:type('q'):keys('Enter')
    t:wait('dflow>')
    t:line(':help runs ~device')          -- what is looked through is not stopped at
    local found = t:wait(function(s) return s:find 'device and host.*dflow>$' end)
    assert.matches('dflow>$', found)
    t:line('for _ = 1, 30 do df.tanh(1.0) end')
    t:wait('end\ndflow>')
    t:line(':nodes')                     -- of any command
    t:wait('Enter goes on, q leaves --')
    t:type('q'):keys('Enter')
    t:wait('\ndflow>')
    t:line('t = df.range(0.0, 30.0)'):line('df.run(t)')
    for line in t:wait('float32[30]'):gmatch('[^\n]+') do assert.is_true(#line <= 60, line) end
    t:line(':nonsense that is longer than the window is wide, so that its answer has to be broken somewhere')
    assert.matches("':nonsense'", t:wait("':nonsense'"), 1, true)
  end)

  it('stops for Ctrl-Z and comes back with what was typed', function()
    open(80, 24, { command = "bash --norc", environment = "PS1='sh$ '", wait = 'sh$' })
    t:line(terminal.program())
    t:wait('dflow>')
    t:line('if true then'):type('z = 1')
    t:wait('z = 1')                     -- Ctrl-Z drops what was not read yet
    t:keys('C-z')
    t:wait('Stopped')
    t:line('fg')
    t:wait(function(s) return select(2, s:gsub('z = 1', '')) == 2 end)
    t:line(' end')
    t:wait(function(s) return s:find('z = 1 end\ndflow>$') end)      -- what is typed before that is echoed by the terminal
    t:line('z')
    local screen = t:wait('\n1\n')
    assert.is_truthy(screen:find('\ndflow> if true then\n   ...   z = 1 end\ndflow> z\n1\n', 1, true), screen)
  end)

  it('drops the line at Ctrl-C, and stops Lua that runs', function()
    open(80, 24):type('half a line'):keys('C-c'):line('print(6 * 7) while true do end')
    t:wait(function(s) return s:find('\n42$') end)
    t:keys('C-c'):line('1 + 1')
    local screen = t:wait('\n2\n')
    assert.is_truthy(screen:find('half a line^C\n', 1, true) and screen:find('interrupted!', 1, true) and screen:find('\n2\n', 1, true), screen)
  end)

  it('minds the vi mode and the keys of an inputrc', function()
    open(80, 24, { files = { ['.inputrc'] = 'set editing-mode vi\nset show-mode-in-prompt on\n' } })
    t:type('abc = 41'):keys('Escape')
    t:wait('(cmd)dflow>')
    t:type('hx'):type('A'):keys('Enter'):line('abc')
    assert.is_truthy(t:wait('\n1\n'):find('\n1\n', 1, true), t:screen())
    t:close()
    open(80, 24, { files = { ['.inputrc'] = '"\\C-t": accept-line\n' } }):type('for i = 1, 1 do'):keys('C-t'):type('print("by T") end'):keys('C-t')
    local shown = 'dflow> for i = 1, 1 do\n   ...   print("by T") end\nby T\ndflow>'
    assert.are.equal(shown, t:shows(shown))
  end)

  it('keeps the lines of a buffer below each other behind the mark of a mode', function()
    open(80, 24, { files = { ['.inputrc'] = 'set editing-mode vi\nset show-mode-in-prompt on\n' } }):line('for i = 1, 2 do'):type('print(i)')
    local shown = '(ins)dflow> for i = 1, 2 do\n        ...   print(i)'
    assert.are.equal(shown, t:shows(shown))
  end)

  it('reads a history that it may not write, and works with one that is no file', function()
    local function started(with, files)
      return open(80, 24, { command = ('sh -c "%s \\$HOME/.local/state/dflow/history; exec %s"'):format(with, terminal.program()), files = files })
    end
    if shell.run('id -u').out:match('%d+') ~= '0' then       -- nothing is forbidden to root
      started('chmod 400', { ['.local/state/dflow/history'] = 'earlier = 1\n' }):keys('Up')
      assert.is_truthy(t:wait('earlier = 1'):find('earlier = 1', 1, true))
      t:close()
    end
    started('mkfifo', { ['.local/state/dflow/other'] = '' }):line('2 + 3')
    assert.is_truthy(t:wait('\n5\n'):find('\n5\n', 1, true), t:screen())
  end)

  it('writes what was typed to a file that two prompts share, each entry whole', function()
    open(80, 24):line('one = 1')
    local other = terminal.open(80, 24, { home = t.home })
    other:line('if true then'):line('two = 2'):line('end')
    other:wait('   ... end\ndflow>')
    t:line('three = 3')
    t:wait('three = 3\ndflow>')
    local text = shell.run('cat ' .. t.home .. '/.local/state/dflow/history').out
    other:close()
    assert.are.equal('one = 1\nif true then\\n  two = 2\\nend\nthree = 3\n', text)
  end)

  it('colours names that are not there, and nothing with NO_COLOR', function()
    open(80, 24):type('print(nowhere, df.no_such_op)')
    t:wait('no_such_op)')
    local colors = t:colors()
    assert.is_truthy(colors:find('31m[\27%[%dm]*nowhere'), colors)
    assert.is_truthy(colors:find('31m[\27%[%dm]*no_such_op'), colors)
    t:close()
    open(80, 24):type('function m:f() return self, _ENV end')
    t:wait('_ENV end')
    assert.is_nil(t:colors():find('31m[\27%[%dm]*self') or t:colors():find('31m[\27%[%dm]*_ENV'))
    t:close()
    open(80, 24, { environment = 'NO_COLOR=1' }):type('print(nowhere)')
    t:wait('nowhere)')
    assert.is_nil(t:colors():find('\27%[[%d;]*3[0-7]m'))
    t:close()
    open(80, 24, { environment = 'NO_COLOR=1', command = terminal.program() .. ' --color=always' }):type('print(nowhere)')
    t:wait('nowhere)')
    assert.is_truthy(t:colors():find('31m[\27%[%dm]*nowhere'))
  end)

  it('marks both brackets of a pair when the cursor stands behind one', function()
    for _, environment in ipairs{ 'LC_ALL=C.UTF-8', 'NO_COLOR=1' } do
      open(80, 24, { environment = environment }):type('print((1))')
      t:wait('print((1))')
      local marked = t:colors():gsub('\27%[[%d;]*7m', '<'):gsub('\27%[0m', '>'):gsub('\27%[[%d;]*m', ''):match('print[^\n]*')
      assert.are.equal('print<(>(1)<)', (marked:gsub('>?$', '')))
      t:close()
    end
  end)

  it('shows bytes that a C locale does not know', function()
    open(80, 24, { environment = 'LC_ALL=C' }):line("s = 'é'"):line('#s')
    local screen = t:wait('\n2\n')
    assert.is_truthy(screen:find([[s = '\xC3\xA9']], 1, true) and screen:find('\n2\n', 1, true), screen)
  end)

  it('is a plain prompt on a terminal that cannot move its cursor', function()
    open(80, 24, { environment = 'TERM=dumb' }):line('function f()')
    t:wait('\n  ...')
    t:line('return 3 end')
    t:wait('end\ndflow>')
    t:line('f()')
    local shown = 'dflow> function f()\n  ... return 3 end\ndflow> f()\n3\ndflow>'
    assert.are.equal(shown, t:shows(shown))
  end)

  it('runs init.lua, but not with -E', function()
    local files = { ['.config/dflow/init.lua'] = 'from_init = "yes"' }
    open(80, 24, { files = files }):line('from_init')
    assert.is_truthy(t:wait('\nyes\n'):find('\nyes\n', 1, true))
    t:close()
    open(80, 24, { files = files, command = terminal.program() .. ' -E' }):line('from_init')
    assert.is_truthy(t:wait('\nnil\n'):find('\nnil\n', 1, true))
  end)

  it('lets init.lua add commands and choose how things look, and goes on after a mistake in it', function()
    local init = 'repl.command("hi", function(rest, say) say("hi " .. rest) end, "hi NAME - greets")\nrepl.values.options.depth = 1\nerror "a mistake"'
    open(80, 24, { files = { ['.config/dflow/init.lua'] = init }, wait = 'a mistake' })
    t:wait(function(screen) return screen:find('a mistake.*\ndflow>') end)
    t:line(':hi there'):wait('hi there\ndflow>')
    t:line('{{{1}}}')
    local screen = t:wait('{{…}}')
    assert.is_truthy(screen:find('init.lua:3: a mistake', 1, true) and screen:find('\nhi there\n', 1, true), screen)
  end)

  it('takes up a session that crashed with --resume', function()
    open(80, 24):line('local v = df.Variable(40.0)'):line('df.run(v:assign_add(1))'):line('error("no")'):line('after = 1')
    t:wait('after = 1\ndflow>')
    local home = t.home
    local pid = shell.run(("tmux -L %s display -p '#{pane_pid}'"):format(t.socket)).out:match '%d+'
    shell.run(('tmux -L %s kill-server; while kill -0 %s 2>/dev/null; do sleep 0.05; done'):format(t.socket, pid))
    open(80, 24, { home = home, command = terminal.program() .. ' --resume', wait = 'were run again' })
    t:line('df.run(v:assign_add(1)), after')
    local screen = t:wait('42.0')
    assert.is_truthy(screen:find('3 inputs of .*were\n? ?run again') or screen:find('3 inputs of', 1, true), screen)
    assert.is_truthy(screen:find('42.0    1', 1, true), screen)
  end)

  it('asks before it runs again what took long', function()
    local files = { ['.local/state/dflow/sessions/1700000000-1.lua'] = '--[[ input, 0.01 s ]]\nx = 1\n-- a comment\ny = 2\n--[[ input, 95.20 s ]]\nx = x + y\n' }
    open(80, 24, { files = files, command = terminal.program() .. ' --resume', wait = 'y/n' })
    local screen = t:screen()
    assert.matches('2 inputs took 95 s in all: /', screen)
    assert.matches('\n +2  95%.2 s  x = x %+ y\n', screen)
    t:line('n'):line('x')
    assert.is_truthy(t:wait('\nnil\n'):find('\nnil\n', 1, true), t:screen())
    t:close()
    open(80, 24, { files = files, command = terminal.program() .. ' --resume', wait = 'y/n' }):line('y')
    t:wait('run again\ndflow>')
    t:line('x')
    assert.is_truthy(t:wait('\n3\n'):find('\n3\n', 1, true), t:screen())
  end)
end)

it('the prompt is there within 140 million instructions, some 30 ms of a processor', function()
  if os.getenv 'DFLOW_MODE' ~= 'release' and os.getenv 'DFLOW_MODE' then return pending('only the release build is measured') end
  if shell.run('command -v valgrind').out == '' then return pending('valgrind, which counts them, is not installed') end
  local home = shell.run('mktemp -d').out:match '%S+'       -- with an empty cache of compiled loops, whose list is read
  local r = shell.run(('HOME=%s XDG_CACHE_HOME=%s valgrind --tool=callgrind --callgrind-out-file=/dev/null %s -i </dev/null')
    :format(home, home, shell.dflow))
  os.execute('rm -rf ' .. home)
  local count = tonumber(r.err:match 'Collected : (%d+)')
  assert.is_true(count ~= nil and count > 1e7 and count < 1.4e8, tostring(count))
end)
