-- What the program does with signals and with the ends of its files, at the prompt, in a run, and in a script.
-- run: first, alone
local shell = require 'spec.shell'
local typist = require 'spec.typist'

local FOREVER = [[local df = require 'dflow'
  local x = df.while_loop(function(i) return i:ge(0) end, function(i) return (i + 1) % 1000 end, { df.int32(0) }) ]]
local INIT = 'e = while_loop(function(i) return i:ge(0) end, function(i) return (i + 1) % 1000 end, { df.int32(0) })'
local HUP, TERM = 1, 15

describe('a script', function()
  if (os.getenv('DFLOW_MODE') or ''):find('san$') then return pending('the sanitizers are too slow for milliseconds') end

  --- What becomes of a chunk that a signal interrupts.
  local function interrupted(program, signal, chunk)
    return shell.interrupted(signal, program, FOREVER .. 'ready() ' .. chunk .. ' print "not reached"')
  end

  local waits = { 'df.run(x)', 'df.start(x):wait()', 'df.start(x):settle()', 'coroutine.wrap(function() df.run(x) end)()',
                  'local h = df.start(x, nil, { paused = true }) h:settle() h:step(1e9)' }

  it('ends with 130 and a word when Ctrl-C comes in a run, a wait or a step', function()
    for _, chunk in ipairs(waits) do
      local r = interrupted(shell.dflow, 'INT', chunk)
      assert.are.equal(130, r.status, chunk .. r.err)
      assert.matches('interrupted', r.err)
    end
  end)

  it('ends with 130 and a word when Ctrl-C comes before a run, a wait or a step, which does not begin', function()
    for _, chunk in ipairs(waits) do
      local r = shell.run(('%s -e %s'):format(shell.dflow, shell.quote(FOREVER .. [[
        io.popen('kill -INT $PPID; echo sent'):read 'l'
        ]] .. chunk .. ' print "not reached"')))
      assert.are.equal(130, r.status, chunk .. r.err)
      assert.matches('interrupted', r.err)
      assert.are.equal('', r.out)
    end
  end)

  it('may run what it has to when Ctrl-C has ended a run', function()
    local r = shell.interrupted('INT', shell.dflow, FOREVER .. 'local y = df.constant(1) + 1 ready() print(pcall(df.run, x)) print(df.run(y))')
    assert.matches('^false\t[^\n]*interrupted.*\n2\n$', r.out)
    assert.are.equal(130, r.status)
  end)

  it('ends with 1 and a word there under other interpreters', function()
    for _, chunk in ipairs(waits) do
      local r = interrupted(rawget(_G, 'jit') and 'luajit' or 'lua5.4', 'INT', chunk)
      assert.are.equal(1, r.status, chunk .. r.err)
      assert.matches('interrupted', r.err)
      assert.are.equal('', r.out)
    end
  end)

  it('ends at once with SIGTERM and SIGHUP', function()
    for signal, status in pairs{ TERM = 143, HUP = 129 } do
      local r = interrupted(shell.dflow, signal, 'df.run(x)')
      assert.are.equal(status, r.status)
      assert.are.equal('', r.out .. r.err)
    end
  end)

  it('ends without a word when what it prints has no reader, as lua(1) does', function()
    for _, program in ipairs{ shell.dflow, 'lua5.4' } do
      local r = shell.run(('(%s -e %s; echo $? >&2) | head -1'):format(program, shell.quote('for i = 1, 1e6 do print(i) end')))
      assert.are.equal('1\n', r.out)
      assert.are.equal('141\n', r.err)
    end
  end)

  it('runs with its standard input closed, as lua(1) does', function()
    for _, arguments in ipairs{ "-e 'print(io.read())' <&-", '<&-', "- <&-", "-i <&-", "-e 'print(1)' >&-" } do
      local ours, theirs = shell.run(shell.dflow .. ' -E ' .. arguments), shell.run('lua5.4 ' .. arguments)
      assert.are.equal(theirs.status, ours.status, arguments)
      if not arguments:find('-i', 1, true) then assert.are.equal(theirs.out, ours.out, arguments) end
    end
  end)
end)

describe('the program in a terminal', function()
  if not typist.available() then return pending('there is no terminal to type at') end
  if (os.getenv('DFLOW_MODE') or ''):find('san$') then return pending('the sanitizers are too slow for milliseconds') end
  local t
  local function expect(text)
    local ms = t:wait(text, 20)
    return ms or error(('no %s\n%s'):format(text, t:seen()), 0)
  end
  local function open()
    t = typist.open{ init = INIT }
    expect 'dflow> '
  end
  after_each(function()
    t:close()
    t = nil
  end)

  for name, number in pairs{ SIGTERM = TERM, SIGHUP = HUP } do
    it('leaves the terminal as it was when ' .. name .. ' ends it', function()
      for _, at in ipairs{ 'the prompt', 'a run', 'a paused run', ':top' } do
        if t then t:close() end
        open()
        if at == ':top' then
          t:line('h = df.start(e)')
          t:line(':top')
          expect 'any key leaves'
        elseif at ~= 'the prompt' then
          t:line('df.run(e)')
          expect '\n'
          if at == 'a paused run' then
            t:type(typist.CTRL_C, 50)
            expect 'paused> '
          end
        end
        t:type('', 50)
        t:signal(number)
        assert.are.equal(128 + number, t:ended(10), at)
        assert.are.equal(t.before, t:modes(), at)
        if at == ':top' then assert.is_truthy(t:seen():find('\27[?1049l', 1, true)) end
      end
    end)
  end

  it('ends when its terminal goes away', function()
    open()
    t:hangup()
    assert.is_truthy(t:ended(10))
  end)

  it('ends when its terminal goes away in a run', function()
    open()
    t:line('df.run(e)')
    expect '\n'
    t:hangup()
    assert.is_truthy(t:ended(10))
  end)
end)
