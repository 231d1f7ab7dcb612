-- Machines that give little: dflow goes on where it can, and says what is missing where it cannot.
local shell = require 'spec.shell'
local program = (os.getenv('DFLOW_BUILD') or 'build/release') .. '/dflow'
if program:sub(1, 1) ~= '/' then program = shell.run('pwd').out:gsub('%s+$', '') .. '/' .. program end

local script = [[
local df = require 'dflow'
local x = df.random_normal({64, 64})
local i, y = df.while_loop(function(i) return i:lt(20) end, function(i, y) return i + 1, df.tanh(df.matmul(y, x)) end, {df.int32(0), x})
print(df.run(i))
print(type(df.run(df.conv2d(df.ones({2,9,9,2}), df.ones({3,3,2,4}), {strides = {1,1,1,1}, padding = 'SAME'}):reduce_sum())))
local ok, e = pcall(function() return df.start(y:reduce_sum()):wait() end)
print(ok or e.code)
print(df.run(df.int32(40) + 2))
]]

--- Runs the script behind that shell prefix; standard output.
local function behind(prefix, text)
  local path = os.tmpname()
  shell.write(path, text or script)
  shell.run('chmod 644 ' .. path)
  local r = shell.run(('%s timeout 100 %s %s'):format(prefix, program, path))
  os.remove(path)
  return r
end

describe('a machine that gives little', function()
  it('of descriptors: sixteen are enough', function()
    assert.are.equal('20\nnumber\ntrue\n42\n', behind('ulimit -n 16;').out)
  end)

  it('of threads: what needs none runs, and a background run says that it got none', function()
    if shell.run('id -u').out:match('^0') and not shell.run('command -v setpriv').out:find('setpriv') then pending 'setpriv is not there' end
    local as = shell.run('id -u').out:match('^0') and 'setpriv --reuid=65533 --clear-groups ' or ''
    local path = os.tmpname()
    shell.write(path, script)
    shell.run('chmod 644 ' .. path)
    local r = shell.run(("%sbash -c 'test -r %s && ulimit -u 2 && exec timeout 100 %s %s'"):format(as, program, program, path))
    os.remove(path)
    if r.out == '' and r.err:find('ermission', 1, true) or shell.run(('%stest -r %s; echo $?'):format(as, program)).out ~= '0\n' then
      pending 'another user cannot read this folder'
    end
    assert.is_truthy(r.out == '20\nnumber\nresource_exhausted\n42\n' or r.out == '20\nnumber\ntrue\n42\n', r.out .. r.err)
  end)

  it('of folders: neither a home nor one for temporary files is needed', function()
    assert.are.equal('20\nnumber\ntrue\n42\n', behind('env -u HOME TMPDIR=/nonexistent').out)
    assert.are.equal('20\nnumber\ntrue\n42\n', behind('env HOME=/nonexistent XDG_STATE_HOME=/nonexistent TMPDIR=/nonexistent').out)
    assert.are.equal('20\nnumber\ntrue\n42\n', behind('env HOME=/proc TMPDIR=/proc').out)
  end)

  it('of an environment: an empty one is enough', function()
    assert.are.equal('20\nnumber\ntrue\n42\n', behind('env -i').out)
  end)
end)

describe('a program that forks', function()
  it('has a child that runs graphs of its own after its parent did', function()
    local r = behind('', [[
      local df = require 'dflow'
      print(df.run(df.random_normal({300, 300}):matmul(df.ones({300, 300})):reduce_sum()) ~= nil)
      local pipe = io.popen(arg[-1] .. ' -e "print(df.run(df.int32(20) + 1))"')
      print(pipe:read('*n'))
      pipe:close()
      print(df.run(df.int32(20) + 2))
    ]])
    assert.are.equal('true\n21\n22\n', r.out, r.err)
  end)
end)

describe('signals in storms', function()
  it('change no result', function()
    local path, out = os.tmpname(), os.tmpname()
    shell.write(path, [[
      local df = require 'dflow'
      local i, x = df.while_loop(function(i) return i:lt(300000) end, function(i, x) return i + 1, x + 2 end, {df.int32(0), df.float32(0)})
      for n = 1, 5 do assert(df.run(x) == 600000) end
      local h = df.start(x)
      assert(h:wait() == 600000)
      print 'done'
    ]])
    local r = shell.run(([[timeout 100 %s %s > %s & p=$!
      n=0; while kill -0 $p 2>/dev/null && [ $n -lt 3000 ]; do
        kill -WINCH $p; kill -CONT $p; kill -CHLD $p; kill -URG $p; n=$((n + 1)); done 2>/dev/null
      wait $p; echo status $?; cat %s]]):format(program, path, out, out))
    os.remove(path)
    os.remove(out)
    assert.are.equal('status 0\ndone\n', r.out, r.err)
  end)
end)
