-- run: once
--- `:nodes`, `:outputs`, `:grad`, `:sh`, `:alias`, `:whatif` and filters at the prompt.
local shell = require 'spec.shell'

--- What these lines print, all of it.
local function session(...)
  local r = shell.run(shell.dflow .. ' -p', table.concat({ ... }, '\n') .. '\n')
  return r.out .. r.err
end

describe('the prompt', function()
  it('lists the outputs that nothing takes, by Lua names', function()
    local out = session('x = df.placeholder("float32", {2})', 'y = x * 2', 'z = y + 1', ':outputs')
    assert.matches('z %(Add:0%) +float32%[2%] +In%[3%]:1', out)
    assert.is_nil(out:find 'Mul')
    assert.matches('no output that nothing takes', session ':outputs')
  end)

  it('lists nodes by names, ops and patterns; a filter may have a blank before its pattern', function()
    local lines = { 'x = df.placeholder("float32", {2})', 'y = df.tanh(x, {name = "lstm/out"}) * 2' }
    local function asked(...) return session(lines[1], lines[2], ...) end
    local all = asked ':nodes'
    assert.is_truthy(all:find 'lstm/out' and all:find 'Mul' and all:find '^x %(Placeholder%)')
    for _, line in ipairs{ ':nodes lstm', ':nodes ~ lstm', ':nodes ~lstm', ':nodes Tanh' } do
      local out = asked(line)
      assert.matches('^lstm/out +Tanh +float32%[2%] +In%[2%]:1\n$', out)
    end
    assert.matches("none of the graph's %d nodes has '%[' in its name or op", asked ':nodes [')
    assert.matches('^the graph has no nodes yet\n$', session ':nodes')
    assert.matches('In%[1%]  x = ', asked ':history ~ placeholder')
  end)

  it('says how long a run would take with other windows and devices, and what takes most of it', function()
    local loop = 'i, y = while_loop(function(i) return i:lt(4) end, function(i, y) return i + 1, y * 2 end, {0, 1.0})'
    local out = session(loop, ':whatif df.run(y) parallel_iterations=1,32 devices=1')
    assert.matches('^as it ran +[%d.]+ %ws  [█#]+\nparallel_iterations=1 devices=1 +[%d.]+ %ws +[█#]+\nparallel_iterations=32 devices=1 ', out)
    assert.matches('critical path[^\n]*\n +[%d.]+ %ws  %a+', session(loop, ':whatif y'))
    assert.matches('replace=false +[%d.]+ %ws.*replace=true +[%d.]+ %ws', session(loop, ':whatif df.run(y) speed=9 replace=false,true'))
    out = session(loop, ':whatif y window=3', ':whatif', ':whatif 3', ':whatif y devices=' .. ('1,'):rep(60))
    assert.matches("knows no 'window'.*usage: :whatif EXPRESSION.*that ran no graph.*60 combinations, and at most 40", out)
  end)

  it('says what a value waits for that has not come', function()
    local out = session('i, y = while_loop(function(i) return i:lt(4) end, function(i, y) return i + 1, y * 2 end, {0, 1.0})',
      'h = df.start(y, nil, {paused = true})', ':step 2 iteration', ':value y', ':value while/Mul', ':value no_such')
    assert.matches('not yet: y %(while/Exit_1:0%)\n  it waits for the loop while to end', out)
    assert.matches("has no operation 'no_such'", out)
  end)

  it('plots as a kind that is named behind it, too', function()
    assert.equal(session ':plot histogram {1, 2, 2}', session ':plot {1, 2, 2} as hist')
    assert.matches("'as pie' is none of line, scatter", session ':plot {1, 2} as pie')
  end)

  it('answers what is misspelt, or typed as elsewhere', function()
    for line, answer in pairs{ [':hlep'] = "did you mean 'help'%?", ['help matmul'] = '%?matmul tells of it', [':set theme ligth'] = "did you mean 'light'%?",
                               [':timeit nothing'] = "'nothing' is nil", [':time nothing'] = "'nothing' is nil", ['not x'] = '`not` on an Output is false',
                               ['not x:gt(3)'] = '`not` on an Output is false', ['df.run(nobody)'] = "the variable 'nobody' is nil" } do
      assert.matches(answer, shell.run(shell.dflow .. ' -E -i 2>&1', 'x = df.float32(1)\n' .. line .. '\n').out)
    end
    local out = shell.run(shell.dflow .. ' -E -i 2>&1', 'x = df.float32(1)\nprint(not nil, not (x == nil), not df.run(x))\n').out
    assert.is_nil(out:find('warning', 1, true), out)
  end)

  it('tells of each command in lines that fit the terminal', function()
    local lines = {}
    for name in session(':help'):gmatch ' :(%l+)' do lines[#lines + 1] = ':' .. name .. '?' end
    assert.is_true(#lines > 50)
    for line in session((table.unpack or unpack)(lines)):gmatch '[^\n]+' do
      assert.is_true(line:find '^:' ~= nil or require('dflow.front.text').columns(line) <= 80, line)
    end
  end)

  it('has a theme for the solarised colours', function()
    assert.equal('theme solarised\n', session(':set theme solarized', ':set theme'))
    assert.matches("no theme 'pink' %(dark, light, mono, solarised%)", session ':set theme pink')
  end)

  it('builds a gradient and shows it, with its value where it needs no feeds', function()
    local out = session('w = df.Variable(2.0, {name = "w"})', 'y = w * w * 3', ':grad y')
    assert.matches('by w:0: gradients/', out)
    assert.is_truthy(out:find('\n  12', 1, true), out)                             -- 6 w
    out = session('x = df.placeholder("float32", {})', 'y = x * x', ':grad y', ':grad y by x')
    assert.matches('by x .*by x ', out)
    assert.is_nil(out:find('not fed', 1, true), out)
    out = session(':grad', ':grad 3', 'y = df.float32(2) * 2', ':grad y')
    assert.matches('usage: :grad x', out)
    assert.matches('an Output is expected, not the number 3', out)
    assert.matches('depends on no Variable and no float placeholder', out)
  end)

  it('runs commands of the shell, and says how they ended', function()
    local path = os.tmpname()
    local out = session(':sh echo out; echo err >&2', ':sh exit 3', ':sh echo a > ' .. path, ':sh')
    assert.is_truthy(out:find('out\n', 1, true) and out:find('err\n', 1, true), out)
    assert.matches('it ended with status 3', out)
    assert.equal('a\n', shell.read(path))
    assert.matches('usage: :sh command', out)
    os.remove(path)
  end)

  it('takes short names for commands, and refuses those that would hide one', function()
    local out = session(':alias st stats ~runs', ':st', ':alias', ':alias stats mem', ':alias a nosuch', ':alias b st', ':st?', ':alias none')
    assert.matches('runs +0\n', out)
    assert.is_nil(out:find 'nodes_run')
    for _, said in ipairs{ ':st +:stats ~runs', ':stats is a command of its own', "no command ':nosuch'", ':st is an alias itself',
                           ':st … %- |  :stats ~runs', "no alias 'none'" } do
      local found = false
      for choice in said:gmatch '[^|]+' do found = found or out:find(choice) end
      assert.is_truthy(found, said .. '\n' .. out)
    end
    local home = shell.run 'mktemp -d'.out:match '%S+'                              -- as its help says
    os.execute('mkdir ' .. home .. '/dflow')
    shell.write(home .. '/dflow/init.lua', "repl.input ':alias st stats ~runs'")
    local r = shell.run(('XDG_CONFIG_HOME=%s %s -i'):format(home, shell.dflow), ':st\n')
    os.execute('rm -r ' .. home)
    assert.matches('runs +0\n', r.out .. r.err)
    assert.matches('in use.*:m2 +:stats\n', session(':alias m2 mem', ':m2', ':alias m2 stats', ':alias'))
  end)
end)
