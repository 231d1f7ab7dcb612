-- Machines that give little: dflow goes on where it can, and says what is missing where it cannot.
local shell = require 'spec.shell'
local host_it = require('spec.support').host_it(it, pending)       -- a driver of CUDA's is of no use to a child
local program = (os.getenv('DFLOW_BUILD') or 'build/release') .. '/dflow'
local sanitized = (os.getenv('DFLOW_MODE') or ''):find('san$') ~= nil
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
    if shell.run('id -u').out ~= '0\n' then pending 'what else this user runs counts, too' end
    if not shell.run('command -v setpriv').out:find('setpriv') then pending 'setpriv is not there' end
    local as = 'setpriv --reuid=65533 --clear-groups '
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

  it('of a disk for what is printed: that it is full is said, and no success', function()
    for _, ended in ipairs{ 'print(1)', 'print(1) os.exit(0)', 'for i = 1, 9999 do print(i) end' } do
      local r = shell.run(('%s -e %s >/dev/full'):format(program, shell.quote(ended)))
      assert.are.equal(1, r.status)
      assert.matches('dflow: cannot write what was printed', r.err)
    end
    assert.are.equal(0, shell.run(program .. ' -e "local x = 1" >/dev/full').status)
    assert.are.equal(0, shell.run(program .. ' -e "local x = 1" >&-').status)
  end)

  it('of patience: what never ends is read as far as a file may unpack', function()
    if sanitized then pending 'a sanitizer wants more addresses than that' end
    local r = behind('ulimit -v 8000000; DFLOW_UNPACK_LIMIT=3000000', [[
      local df = require 'dflow'
      for _, fn in ipairs{ df.load_npy, df.load_npz, df.import_onnx, df.data.csv, df.import_graph_def } do
        local ok, e = pcall(fn, '/dev/zero')
        print(ok, e.code, e.message:match 'does not end after 3000000 bytes; DFLOW_UNPACK_LIMIT')
      end]])
    assert.are.equal(('false\tresource_exhausted\tdoes not end after 3000000 bytes; DFLOW_UNPACK_LIMIT\n'):rep(5), r.out, r.err)
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

  it('has a copy of itself that goes on with what the parent built: at once, in the background, in a new session', function()
    if sanitized then pending 'a plain Lua cannot load a sanitized library' end
    if shell.run('luajit -v').status ~= 0 then pending 'there is no LuaJIT' end
    local text = [[
      local ffi = require 'ffi'
      ffi.cdef 'int fork(void); int waitpid(int, int *, int); void _exit(int); unsigned alarm(unsigned);'
      local df = require 'dflow'
      local x = df.random_normal({ 300, 300 }, { seed = 3 }):matmul(df.ones{ 300, 300 }):reduce_sum() * 0 + 5
      local i, y = df.while_loop(function(i) return i:lt(20) end, function(i, y) return i + 1, y + df.tanh(df.ones{ 300, 300 }) * 0 + 1 end, { df.int32(0), df.ones{ 300, 300 } })
      local z = y:reduce_mean()
      local function all()
        assert(df.run(x) == 5 and df.run(z) == 21 and df.start(z):wait() == 21)
        local s = df.Session{ graph = df.default_graph(), devices = { 'cpu:0', 'sim:0' }, owners = 2 }
        assert(s:run(z) == 21 and s:start(x):wait() == 5)
        s:close()
      end
      all()
      local ends = {}
      for k = 1, 3 do
        local child = ffi.C.fork()
        if child == 0 then
          ffi.C.alarm(60)
          local ok, e = pcall(all)
          if not ok then io.stderr:write(tostring(e)) end
          ffi.C._exit(ok and 0 or 3)
        end
        all()
        local status = ffi.new 'int[1]'
        ffi.C.waitpid(child, status, 0)
        ends[k] = status[0]
      end
      print(table.concat(ends, ' '))]]
    local path = os.tmpname()
    shell.write(path, text)
    local r = shell.run(('timeout 300 luajit %s'):format(path))
    os.remove(path)
    assert.are.equal('0 0 0\n', r.out, r.err)
  end)

  host_it('has a child that compiles loops and ends, though one was being compiled', function()
    if sanitized then pending 'a plain Lua cannot load a sanitized library' end
    if shell.run('luajit -v').status ~= 0 then pending 'there is no LuaJIT' end
    local path = os.tmpname()
    shell.write(path, [[
      local ffi = require 'ffi'
      ffi.cdef 'int fork(void); int waitpid(int, int *, int); void exit(int); unsigned alarm(unsigned);'
      local df = require 'dflow'
      local _, y = df.while_loop(function(i) return i:lt(1000000) end, function(i, y)
        for k = 1, 200 do y = y * 0.5 + df.cast(i:floormod(k + 1), 'float32') end
        return i + 1, y
      end, { df.int32(0), df.float32(1) })
      local s = df.Session{ engine = 'auto' }
      local h = s:start(y)
      repeat until not s:native():match 'it has not'
      local child = ffi.C.fork()
      if child == 0 then
        ffi.C.alarm(60)
        local mine = df.Session{ engine = 'native' }
        local _, z = df.while_loop(function(i) return i:lt(9) end, function(i, z) return i + 1, z * 2 end, { df.int32(0), df.float32(1) })
        local good = mine:run(z) == 512
        mine:close()
        ffi.C.exit(good and 0 or 3)
      end
      h:cancel()
      pcall(h.wait, h)
      local status = ffi.new 'int[1]'
      ffi.C.waitpid(child, status, 0)
      print(status[0])]])
    local r = shell.run(('timeout 300 luajit %s'):format(path))
    os.remove(path)
    assert.are.equal('0\n', r.out, r.err)
  end)
end)

describe('a clock that jumps', function()
  it('changes no result, ends nothing early and lets nothing wait', function()
    if sanitized then pending 'a sanitizer wants to be loaded first' end
    local base = os.tmpname()
    shell.write(base .. '.c', [[
      #define _GNU_SOURCE
      #include <dlfcn.h>
      #include <sys/time.h>
      #include <time.h>
      static long jump(void) { static long n; return (++n % 2 ? 1 : -1) * (n % 7 + 1) * 86400 * 400; }
      static int (*real)(clockid_t, struct timespec *);
      int clock_gettime(clockid_t id, struct timespec *t) {
        if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
        int r = real(id, t);
        if (id == CLOCK_REALTIME) t->tv_sec += jump();
        return r;
      }
      int gettimeofday(struct timeval *t, void *z) {
        struct timespec s;
        clock_gettime(CLOCK_REALTIME, &s);
        t->tv_sec = s.tv_sec; t->tv_usec = s.tv_nsec / 1000;
        return 0;
      }
      time_t time(time_t *t) { struct timespec s; clock_gettime(CLOCK_REALTIME, &s); if (t) *t = s.tv_sec; return s.tv_sec; }
    ]])
    if shell.run(('cc -shared -fPIC -O1 %s.c -o %s.so -ldl'):format(base, base)).status ~= 0 then
      os.remove(base) os.remove(base .. '.c')
      pending 'there is no compiler'
    end
    local r = behind(('LD_PRELOAD=%s.so'):format(base), [[
      local df = require 'dflow'
      local a, b = os.time(), os.time()
      assert(math.abs(a - b) > 86400)                                     -- it does jump
      local i, x = df.while_loop(function(i) return i:lt(20000) end, function(i, x) return i + 1, x + 2 end, {df.int32(0), df.float32(0)})
      print(df.run(x, nil, {timeout = 60}), df.start(x, nil, {timeout = 60}):wait())
      local q = df.FIFOQueue(1, {'float32'}, {shapes = {{}}})
      local h = df.start(q:dequeue(), nil, {timeout = 60})
      df.run(q:enqueue(3.0))
      print(h:wait())
      local ok, e = pcall(df.run, q:dequeue(), nil, {timeout = 0.2})
      print(ok, e.code)
      local s = df.Session{graph = df.default_graph(), devices = {'cpu:0', 'sim:0'}, clock = 'virtual'}
      print(s:run(x))
    ]])
    for _, ending in ipairs{ '', '.c', '.so' } do os.remove(base .. ending) end
    assert.are.equal('40000.0\t40000.0\n3.0\nfalse\tdeadline_exceeded\n40000.0\n', r.out, r.err)
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
