-- The kernel for notebooks: its JSON, its signatures, what it refuses; and the whole of it where jupyter_client is installed.
local json = require 'dflow.exchange.json'
local shell = require 'spec.shell'

describe('the kernel\'s JSON', function()
  it('reads what it writes', function()
    local v = { a = json.list{ 1, 2.5, 'x\n"é\1', true, false, json.null }, b = {}, c = json.list{}, d = { e = 'f' } }
    local text = json.encode(v)
    assert.equal('{"a":[1,2.5,"x\\n\\"é\\u0001",true,false,null],"b":{},"c":[],"d":{"e":"f"}}', text)
    assert.equal(text, json.encode(json.decode(text)))
    assert.equal('\240\159\152\128é', json.decode('"\\ud83d\\ude00\\u00e9"'))
    assert.same({ x = -1.5e3 }, json.decode(' { "x" : -1.5e3 } '))
  end)
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
    os.remove(path)
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
