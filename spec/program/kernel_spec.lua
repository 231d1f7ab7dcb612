-- The kernel for notebooks: its JSON, its signatures, what it refuses; and the whole of it where jupyter_client is installed.
local json = require 'dflow.exchange.json'
local shell = require 'spec.shell'

describe('the kernel\'s JSON', function()
  it('says where a text is wrong, and ends at a depth', function()
    for _, text in ipairs{ '', '{', '[1,', '{"a" 1}', '"', '"\\x"', '1 2', '{1:2}', 'nul', ('['):rep(100000) } do
      local ok, why = pcall(json.decode, text)
      assert.is_false(ok, text:sub(1, 10))
      assert.matches('^JSON: .* at byte %d+', why)
    end
  end)
end)

describe('dflow --kernel', function()
  local there = shell.run(shell.dflow .. " -e 'require \"dflow.sockets\"'").status == 0

  it('says so where it was built without libzmq', function()
    local r = shell.run(shell.dflow .. " --kernel /nowhere/at/all.json; echo status $?")
    assert.matches('status 1', r.out)
    assert.matches(there and '/nowhere/at/all.json' or 'without libzmq', r.err, 1, true)
  end)

  it('signs by HMAC-SHA256', function()
    if not there then return pending('this dflow was built without libzmq') end
    -- RFC 4231, cases 1, 2 and 6
    local out = shell.run(shell.dflow .. [[ -e 'local s = require "dflow.sockets" print(s.hmac(("\11"):rep(20), "Hi There"))
      print(s.hmac("Jefe", "what do ya want ", "for nothing?")) print(s.hmac(("\170"):rep(131), "Test Using Larger Than Block-Size Key - Hash Key First"))']]).out
    assert.equal('b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7\n'
      .. '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843\n'
      .. '60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54\n', out)
  end)

  it('refuses a connection without a key, with another scheme, and elsewhere than on the loopback address', function()
    if not there then return pending('this dflow was built without libzmq') end
    local path = os.tmpname()
    local function refused(text)
      shell.write(path, text)
      local r = shell.run(shell.dflow .. ' --kernel ' .. path .. '; echo status $?')
      assert.matches('status 1', r.out)
      return r.err
    end
    assert.matches('has no key', refused('{"ip":"127.0.0.1","key":""}'))
    assert.matches('not by hmac%-md5', refused('{"key":"k","signature_scheme":"hmac-md5"}'))
    assert.matches('0.0.0.0 is not the loopback address', refused('{"ip":"0.0.0.0","key":"k","signature_scheme":"hmac-sha256"}'), 1, true)
    assert.matches('no connection file: JSON', refused('{'), 1, true)
    local function ports(changed)
      local list = {}
      for _, name in ipairs{ 'shell', 'control', 'stdin', 'iopub', 'hb' } do list[#list + 1] = (',"%s_port":%s'):format(name, changed[name] or '0') end
      return '{"key":"k"' .. (changed.more or '') .. table.concat(list):gsub(',"%w+_port":none', '') .. '}'
    end
    assert.matches('shell_port is missing, where a whole number from 0 to 65535 is expected', refused(ports{ shell = 'none' }), 1, true)
    assert.matches('hb_port is "abc"', refused(ports{ hb = '"abc"' }), 1, true)
    assert.matches('iopub_port is 1.5', refused(ports{ iopub = '1.5' }), 1, true)
    assert.matches('transport is "inproc"', refused(ports{ more = ',"transport":"inproc"' }), 1, true)
    assert.matches('^dflow %-%-kernel: tcp://127.0.0.1.evil:0: ', refused(ports{ more = ',"ip":"127.0.0.1.evil"' }))
    assert.matches('cannot be read: it is a folder', shell.run(shell.dflow .. ' --kernel /tmp').err, 1, true)
    os.remove(path)
  end)

  it('loads what it needs in C from where dflow is installed, not from the current folder', function()
    local folder = os.tmpname()
    os.remove(folder)
    shell.run('mkdir -p ' .. folder .. '/dflow/docs')
    for _, name in ipairs{ 'sockets', 'pages', 'core', 'libpath', 'own', 'backend', 'plot', 'program', 'docs/places', 'docs/sources' } do
      shell.write(('%s/dflow/%s.lua'):format(folder, name), "io.stdout:write('from here\\n') os.exit(7)")
    end
    local dflow = shell.run('realpath ' .. shell.dflow).out:gsub('%s+$', '')
    local r = shell.run(('cd %s && (%s --kernel /nowhere.json; printf ":serve\\n?matmul\\n??matmul\\ndf.plot{1, 2}\\n" | %s -i)'):format(folder, dflow, dflow))
    local host = shell.run(('cd %s && %s -e "local df = require [[dflow]] print(df.plot ~= nil, df.run(df.constant(1) + 1))"'):format(folder,
      rawget(_G, 'jit') and 'luajit' or 'lua5.4'))
    shell.run('rm -rf ' .. folder)
    assert.not_matches('from here', r.out .. host.out, 1, true)
    assert.matches(there and '/nowhere.json' or 'without libzmq', r.err, 1, true)
    assert.matches('^true%s+2', host.out)
  end)

  it('answers each request, whatever it says: what it cannot do anything with is an error in the reply', function()
    local r = shell.run(shell.dflow .. ' spec/kernel_messages.lua 300 ' .. (os.getenv 'FUZZ_SEED' or '1'))
    assert.equal(0, r.status, r.out .. r.err)
    assert.is_true(tonumber(r.out:match '(%d+) errors') > 10, r.out)
    for _, words in ipairs{ 'code is %S+, where a text is expected', 'cursor_pos is %S+, where a whole number', 'are to be objects' } do
      assert.matches(words, r.err)
    end
  end)

  it('ends with status 0, and not by what its threads do while it ends', function()
    if not there then return pending('this dflow was built without libzmq') end
    local path = os.tmpname()
    shell.write(path, '{"key":"k","shell_port":0,"iopub_port":0,"stdin_port":0,"control_port":0,"hb_port":0}')
    local r = shell.run(([[sh -c 'echo $$' > %s.gone
      for i in 1 2 3 4 5 6 7 8; do (JPY_PARENT_PID=$(cat %s.gone) timeout 60 %s --kernel %s </dev/null >/dev/null 2>&1; echo $?) & done; wait; rm %s.gone]])
      :format(path, path, shell.dflow, path, path))
    os.remove(path)
    assert.equal(('0\n'):rep(8), r.out)
  end)

  it('ends when the program that started it has ended', function()
    if not there then return pending('this dflow was built without libzmq') end
    local path = os.tmpname()
    shell.write(path, '{"ip":"127.0.0.1","key":"k","signature_scheme":"hmac-sha256","transport":"tcp","shell_port":0,"iopub_port":0,"stdin_port":0,"control_port":0,"hb_port":0}')
    local r = shell.run(([[sh -c 'JPY_PARENT_PID=$$ %s --kernel %s </dev/null >/dev/null 2>&1 & echo $!' > %s.pid
      kernel=$(cat %s.pid); tries=0
      while kill -0 $kernel 2>/dev/null && [ $tries -lt 300 ]; do tries=$((tries + 1)); sleep 0.1; done
      kill $kernel 2>/dev/null && echo still there || echo gone]]):format(shell.dflow, path, path, path))
    os.remove(path)
    os.remove(path .. '.pid')
    assert.equal('gone\n', r.out)
  end)

  it('does for a notebook what jupyter_client asks of it', function()
    if not there then return pending('this dflow was built without libzmq') end
    if (os.getenv('DFLOW_MODE') or ''):find('san$') then return pending('the sanitizers are too slow for a notebook') end
    for _, python in ipairs{ os.getenv 'DFLOW_JUPYTER' or 'python3', 'build/peers/jt/bin/python' } do
      if shell.run(python .. ' -c "import jupyter_client"').status == 0 then
        local r = shell.run(python .. ' spec/kernel_check.py ' .. shell.dflow)
        assert.equal(0, r.status, r.out .. r.err)
        return
      end
    end
    pending('jupyter_client is not installed')
  end)
end)
