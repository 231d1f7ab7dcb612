--- Ranks on other hosts: here each is this host, by its address, and a script stands in for ssh. The connection is the true one.
local df = require 'dflow'
local shell = require 'spec.shell'

local error_of = require('spec.support').raised

local has_zmq = os.execute 'ldconfig -p 2>/dev/null | grep -q libzmq.so.5'
local it = (has_zmq == true or has_zmq == 0) and it or pending

describe('ranks on other hosts', function()
  local rsh = os.tmpname()
  setup(function()
    shell.write(rsh, '#!/bin/sh\nshift\nexec "$@"\n')
    os.execute('chmod +x ' .. rsh)
  end)
  teardown(function() os.remove(rsh) end)

  local PROGRAM = [[
    local df = require 'dflow'
    local function on(k, fn) return df.device(('/rank:%d/cpu:0'):format(k), fn) end
    local x, n, big = df.placeholder('float64', {}), df.placeholder('int32', {}), df.placeholder('float32', { -1 })
    local function loop(a, b)
      local _, y = df.while_loop(function(i) return i:lt(n) end, function(i, y)
        return i + 1, on(b, function() return on(a, function() return df.sin(y) + x end) * 0.5 + df.random_normal({}, { dtype = 'float64', seed = 3 }) end)
      end, { df.int32(0), df.float64(0) })
      return { y, (df.gradients(y, x)) }
    end
    local v = on(1, function() return df.Variable({ 1.0, 2 }, { name = 'v' }) end)
    local function tell()
      local got = df.run(loop(1, math.min(2, df.cluster.size - 1)), { [x] = 0.3, [n] = 50 })
      print(('%.17g %.17g'):format(got[1], got[2]))
      df.run(v:assign_add{ 1, 1 })
      print(tostring(df.run(v)))
      local far = on(1, function() return df.concat({ big * 2, big }, 0) end)
      print(df.run(df.reduce_max(far), { [big] = df.range(0, 700000):cast('float32'):eval() }))
      print(df.run(on(1, function() return df.string_upper(df.constant{ 'a', 'b' }) end)))
    end
  ]]

  local function run(words, program)
    return shell.run(('DFLOW_RSH=%s %s %s -'):format(rsh, shell.dflow, words), PROGRAM .. program)
  end

  it('give the values, random numbers and effects of ranks on this host', function()
    local here = run('-n 3', 'tell()')
    assert.equal(0, here.status, here.err)
    for _, hosts in ipairs{ '127.0.0.1,127.0.0.1', 'localhost,127.0.0.1' } do
      local there = run('--hosts=' .. hosts, 'tell()')
      assert.equal(0, there.status, there.err)
      assert.equal(here.out, there.out)
    end
  end)

  it('are told with their hosts, and none is left when the program ends', function()
    local r = run('--hosts=127.0.0.1,127.0.0.1', [[
      for k, r in ipairs(df.cluster.ranks()) do
        while r.rank > 0 and not r.latency do r = df.cluster.ranks()[k] end        -- it has not answered yet
        print(r.rank, r.host, r.state, r.rank == 0 or r.latency >= 0)
      end
      print(df.run(on(2, function() return df.constant(1) + df.placeholder_with_default(2, {}) end)))
      io.stdout:flush()
      os.execute "pgrep -f -c '^[^ ]*dflow --worker --host' >&2"
    ]])
    assert.equal(0, r.status, r.err)
    assert.matches('^0\t[^\t]+\talive\ttrue\n1\t127.0.0.1\talive\ttrue\n2\t127.0.0.1\talive\ttrue\n3\n$', r.out)
  end)

  it('end a run as unavailable when one is lost, which is named, and are started anew', function()
    local r = run('--hosts=127.0.0.1,127.0.0.1', [[
      df.run(loop(1, 2), { [x] = 1, [n] = 3 })
      for _, which in ipairs{ 'the shell there', 'the rank itself' } do
        local h = df.start(loop(1, 2), { [x] = 1, [n] = 2147483647 })
        local pid = df.cluster.ranks()[3].pid
        if which == 'the rank itself' then pid = io.open(('/proc/%d/task/%d/children'):format(pid, pid)):read '*n' end
        os.execute(('kill -KILL %d'):format(pid))
        local ok, err = pcall(h.wait, h)
        print(ok, err.code, err.rank, err.host, err.message:match 'was killed by signal %d+')
        df.cluster.restart()
        print(df.run(on(2, function() return x + 2 end), { [x] = 1 }))
      end
    ]])
    assert.equal(0, r.status, r.err)
    local told = 'false\tunavailable\t2\t127.0.0.1\twas killed by signal 9\n3.0*\n'
    assert.matches('^' .. told .. told .. '$', r.out)
  end)

  it('are not told as killed where ssh itself ends with 255', function()
    local ends = os.tmpname()
    shell.write(ends, '#!/bin/sh\nshift\n"$@"\nexit 255\n')
    os.execute('chmod +x ' .. ends)
    local r = shell.run(('DFLOW_RSH=%s %s --hosts=127.0.0.1 -'):format(ends, shell.dflow), PROGRAM .. [[
      local h = df.start(loop(1, 1), { [x] = 1, [n] = 2147483647 })
      local pid = df.cluster.ranks()[2].pid
      os.execute(('kill -KILL %d'):format(io.open(('/proc/%d/task/%d/children'):format(pid, pid)):read '*n'))
      local ok, err = pcall(h.wait, h)
      print(ok, err.code, err.rank, err.message:match 'signal %d+')
    ]])
    os.remove(ends)
    assert.equal(0, r.status, r.err)
    assert.equal('false\tunavailable\t1\n', (r.out:gsub('\tnil', '')))
  end)

  it('are errors that say what is missing', function()
    for words, why in pairs{
      ['--hosts='] = 'a list of hosts is expected', ['--hosts=a,,b'] = 'is no list of hosts', ['--hosts=127.0.0.1,-o'] = 'is no list of hosts',
      ['--hosts=192.0.2.7'] = 'cannot be listened on', ['--hosts=no.such.host.invalid'] = 'there is no address',
    } do
      local r = run(words, 'print(1)')
      assert.is_truthy(r.err:find(why, 1, true), words .. ': ' .. r.err)
      assert.equal('', r.out)
    end
    local r = shell.run(('DFLOW_RSH=/bin/false %s --hosts=127.0.0.1 -e "print(1)"'):format(shell.dflow))
    assert.is_truthy(r.err:find('has not started `dflow --host`', 1, true), r.err)
    r = shell.run(('DFLOW_RSH=%s.none %s --hosts=127.0.0.1 -e "print(1)"'):format(rsh, shell.dflow))
    assert.is_truthy(r.err:find('could not be run to reach host', 1, true), r.err)
    r = shell.run(shell.dflow .. ' --host')
    assert.is_truthy(r.err:find('how `dflow --hosts` starts a rank', 1, true), r.err)
    for _, bad in ipairs{ {}, { 3 }, { 'a b' }, { '-o' } } do
      assert.equal('invalid_argument', error_of(function() df.cluster.start(bad) end).code)
    end
  end)
end)
