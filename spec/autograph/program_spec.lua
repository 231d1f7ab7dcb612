--- dflow --autograph, :autograph on, :explain and ??name of what was rewritten.
local shell = require 'spec.shell'
local host_it = require('spec.support').host_it(it, pending)

local function prompt(text, before) return shell.run((before or '') .. shell.dflow .. ' -i 2>&1', text).out end

describe('dflow --autograph', function()
  host_it('rewrites a script, -e, what comes in, and what is typed', function()
    local path = os.tmpname()
    shell.write(path, '#!/usr/bin/env dflow\nlocal x = df.float32(3)\nwhile x < 100 do x = x * x end\nprint(df.run(x), x.source:match(":(%d+)$"), ...)\n')
    local r = shell.run(shell.dflow .. ' --autograph ' .. path .. ' a b')
    assert.equal('6561.0\t3\ta\tb\n', r.out)
    assert.equal(0, r.status)
    os.remove(path)
    assert.equal('55\n', shell.run(shell.dflow .. " --autograph -e 'local s = df.int32(0) for i = 1, df.int32(10) do s = s + i end print(df.run(s))'").out)
    assert.equal('4.0\n', shell.run(shell.dflow .. ' --autograph', 'local x = df.float32(-4) if x < 0 then x = -x end print(df.run(x))').out)
    assert.matches('6561.0', shell.run(shell.dflow .. ' --autograph -E -i 2>&1', 'x = df.float32(3)\nwhile x < 100 do x = x * x end\nx\n').out, 1, true)
  end)

  host_it('stops a run by assert where an Output decides, and is Lua\'s assert where Lua does', function()
    local path = os.tmpname()
    shell.write(path, [[
      local fn = df.autograph(function(x, most)
        local i = x * 0
        while i < 3 do
          i = i + x
          assert(i < most, 'too large')
        end
        return i
      end)
      local later = df.autograph(function(x, most)
        local i = 0
        repeat
          i = i + x
          assert(i < most, 'too large')
        until i > 3
        return i
      end)
      for _, f in ipairs{ fn, later } do
        print(pcall(df.run, f(df.constant(1.0), 9)))
        for _, x in ipairs{ 1.0, 5.0 } do                 -- in a later iteration, and in the first one
          local ok, e = pcall(df.run, f(df.constant(x), 2.5))
          print(ok, e.code, (e.message:match 'too large'))
        end
      end
      local lua, object = df.autograph(function(...) return assert(...) end), {}
      print(lua(4, 'a', 3))
      print(pcall(lua, false)) print(pcall(lua, nil, 'words')) print(pcall(lua)) print(select(2, pcall(lua, false, object)) == object)
      print(pcall(df.autograph(function(x) local assert = print if x > 2 then assert(x, 'mine') end end), 3))
    ]])
    local r = shell.run(shell.dflow .. ' ' .. path)
    os.remove(path)
    assert.equal('', r.err)
    local failed = 'false\tinvalid_argument\ttoo large\n'
    assert.equal('true\t3\n' .. failed .. failed .. 'true\t4\n' .. failed .. failed .. "4\ta\t3\nfalse\tassertion failed!\nfalse\twords\n"
      .. "false\tbad argument #1 to 'assert' (value expected)\ntrue\n3\tmine\ntrue\n", (r.out:gsub('%.0', '')))
  end)

  host_it("says a mistake of Lua's in Lua's words", function()
    local path = os.tmpname()
    shell.write(path, 'print(1)\nwhile ) do\n')
    local r = shell.run(shell.dflow .. ' --autograph ' .. path)
    os.remove(path)
    assert.equal(1, r.status)
    assert.matches(":2: unexpected symbol near '%)'", r.err)
    assert.equal('', r.out)
  end)

  host_it('reads functions that -e defines without it, too', function()
    assert.equal('6561.0\n', shell.run(shell.dflow .. " -e 'print(df.run(df.autograph(function(x) while x < 100 do x = x * x end return x end)(df.float32(3))))'").out)
  end)
end)

describe('the prompt', function()
  host_it('builds the graph of statements after :autograph on, of session locals and globals', function()
    local out = prompt(':autograph on\nlocal x = df.float32(3)\nwhile x < 100 do x = x * x end\nx\nn = df.int32(0)\nfor i = 1, df.int32(4) do n = n + i end\nn\n'
      .. 'x > 3 and n or -n\n:autograph off\nif n < 3 then end\n', 'XDG_STATE_HOME=$(mktemp -d) ')
    assert.matches('6561.0 float32', out, 1, true)
    assert.matches('10 int32', out, 1, true)
    assert.matches('Merge.*10 int32', out)
    assert.matches('Lua turns the result of < into a boolean', out, 1, true)
    assert.matches(':autograph on at the prompt', (out:gsub('%s+', ' ')), 1, true)
    assert.is_nil(out:find('warning', 1, true))
  end)

  host_it('shows what a staged statement gave, and what its run did', function()
    local out = prompt(table.concat({ ':autograph on', 'x = df.float32(1.5)', 'while x < 100 do x = x * x end', 'm = df.ones{2, 2}',
      'repeat m = m * 2 until df.reduce_sum(m) > 50', 'p = df.placeholder("float32", {})', 'if p > 0 then q = p else q = -p end',
      'v = df.Variable(1.0)', 'k = df.int32(0)', 'while k < 3 do v:assign_add(1) k = k + 1 end', '=df.run(v)',
      'w = df.float32(1)', 'while w > 0 do w = w + 1 end', 'for i = 1, 3 do z = i end', 'y = while_loop(function(i) return i < 3 end, function(i) return i + 1 end, {x})' }, '\n') .. '\n')
    assert.matches('> x = 656%.8408 float32%[%]\nwhile: 1 run, %d+ nodes, 4 iterations  %(:step x', out)
    assert.matches('m =\n%[%[16%. 16%.%]\n %[16%. 16%.%]%] float32%[2,2%]\nwhile_1: 1 run, %d+ nodes, 3 iterations', out)
    assert.matches('q: float32%[%]\ncond: not computed: it needs feeds or has effects', out)
    assert.matches('k: int32%[%]\nwhile_2: not computed: [^\n]+\ndflow> 1%.0\n', out)      -- no assignment happened
    assert.matches('w: float32%[%]\nwhile_3: not computed within 1 s', out)
    assert.is_nil(out:find 'z[ =:]')          -- Lua decided it
    assert.is_nil(out:find 'y[ =:]')          -- nor is this a statement of autograph's
  end)

  host_it('remembers :autograph on for the sessions that come, and -E asks for none of it', function()
    local home = os.tmpname()
    os.remove(home)
    local where = 'XDG_STATE_HOME=' .. home .. ' '
    assert.matches('autograph is on', prompt(':autograph on\n', where), 1, true)
    assert.matches('autograph is on', prompt(':autograph\n', where), 1, true)
    assert.matches('autograph is off', shell.run(where .. shell.dflow .. ' -E -i', ':autograph\n').out, 1, true)
    assert.matches('autograph is off', prompt(':autograph off\n', where), 1, true)
    assert.matches('autograph is off', prompt(':autograph\n', where), 1, true)
    os.execute('rm -r ' .. home)
  end)

  host_it('shows the rewritten text of a function', function()
    local out = shell.run(shell.dflow .. ' -E -i 2>&1', 'f = function(a)\n  if a > 3 then a = a * 2 end\n  return a\nend\n:explain f\n:explain print\n'
      .. 'g = df.autograph(f)\n??g\n').out
    assert.matches('__ag:if_%(1, __ag:gt%(a, 3%), function%(%)', out)
    assert.matches('autograph cannot rewrite print: it is a function written in C', out, 1, true)
    assert.matches('g: In%[1%]:1\n  f = function%(a%).*autograph makes of it:\nfunction%(a%)\n', out)
  end)
end)
