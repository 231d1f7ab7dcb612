-- make install lays everything down where it belongs, and what it laid down works from anywhere.
-- run: first
local shell = require 'spec.shell'

describe('make install', function()
  local root = os.tmpname()
  local prefix = root .. '.d/usr'
  -- the driver for tests is not installed
  local environment = 'unset DFLOW_LIB LD_PRELOAD DFLOW_CUDA_DRIVER DFLOW_DEFAULT_DEVICE; cd / && LD_LIBRARY_PATH='
  local mode = shell.build:match('[^/]*$')

  setup(function()
    local r = shell.run(('%s make -s DESTDIR=%s.d PREFIX=/usr install'):format(shell.as_built(), root))
    assert.are.equal(0, r.status, r.out .. r.err)
  end)
  teardown(function()
    os.execute('rm -rf ' .. root .. '.d ' .. root)
  end)

  it('puts every file in its place', function()
    for _, file in ipairs{ 'bin/dflow', 'lib/libdflow.so.0.1.0', 'lib/libdflow.so.0', 'lib/libdflow.so', 'include/dflow.h',
                           'lib/pkgconfig/dflow.pc', 'share/lua/5.4/dflow.lua', 'lib/lua/5.4/dflow/core.so',
                           'share/lua/5.1/dflow.lua', 'share/lua/5.1/dflow/backend/ffi.lua', 'share/man/man1/dflow.1',
                           'share/doc/dflow/README.md', 'share/doc/dflow/examples/digits_rnn.lua',
                           'share/doc/dflow/examples/data/names.txt' } do
      local f = io.open(prefix .. '/' .. file)
      assert.is_truthy(f, file)
      f:close()
    end
  end)

  local chunk = [['local df = require "dflow" print(df.run(df.int32(20) + 22))']]
  if not mode:match('san$') then
    it('gives lua5.4 the module', function()
      local r = shell.run(('%s LUA_PATH="%s/share/lua/5.4/?.lua" LUA_CPATH="%s/lib/lua/5.4/?.so" lua5.4 -e %s')
        :format(environment, prefix, prefix, chunk))
      assert.are.equal('42\n', r.out, r.err)
    end)

    it('gives luajit the module', function()
      local r = shell.run(('%s LUA_PATH="%s/share/lua/5.1/?.lua" luajit -e %s'):format(environment, prefix, chunk))
      assert.are.equal('42\n', r.out, r.err)
    end)
  end

  it('gives a program that needs no path', function()
    local r = shell.run(('unset LUA_PATH LUA_CPATH; %s %s/bin/dflow -e %s'):format(environment, prefix, chunk))
    assert.are.equal('42\n', r.out, r.err)
  end)

  it('gives the program under its other name, too, with its manual page', function()
    local r = shell.run(('unset LUA_PATH LUA_CPATH; %s %s/bin/dflow-repl -e %s'):format(environment, prefix, chunk))
    assert.are.equal('42\n', r.out, r.err)
    assert.are.equal('.so man1/dflow.1\n', shell.read(prefix .. '/share/man/man1/dflow-repl.1'))
  end)

  it('knows where ops are defined, though the sources are gone', function()
    local r = shell.run(('unset LUA_PATH LUA_CPATH; %s %s/bin/dflow -E -i'):format(environment, prefix), '??matmul\n??map_fn\n')
    assert.is_truthy(r.out:match('matmul: the op MatMul, runtime/ops/linalg%.c:%d+\n.*  gradient   runtime/ops/linalg%.c:%d+\n'
      .. '  reference  kernels/ref/linalg%.c:%d+\n  cpu        kernels/cpu/matmul%.c:%d+'), r.out .. r.err)
    assert.is_truthy(r.out:match('df%.map_fn: [^\n]*share/lua/5%.4/dflow/front/functional%.lua:%d+\n  function M%.map_fn'), r.out)
  end)

  it('tells pkg-config where things are', function()
    local ask = ('export PKG_CONFIG_PATH=%s/lib/pkgconfig; pkg-config --modversion dflow && pkg-config --libs dflow'):format(prefix)
    local r = shell.run(ask)
    assert.is_truthy(r.out:match('^0%.1%.0\n.*%-ldflow'), r.out .. r.err)
  end)

  it('lets a C program link', function()
    local source = root .. '.d/probe.c'
    shell.write(source, '#include <dflow.h>\n#include <stdio.h>\nint main(void) { puts(df_version()); return 0; }\n')
    local r = shell.run(('cc -I%s/include %s -o %s.d/probe -L%s/lib -ldflow -Wl,-rpath,%s/lib && %s.d/probe')
      :format(prefix, source, root, prefix, prefix, root))
    assert.are.equal(mode:match('san$') and r.out or '0.1.0\n', r.out, r.err)
  end)

  it('shows the linker nothing but df_ symbols', function()
    local r = shell.run(('nm -D --defined-only %s/lib/libdflow.so.0.1.0'):format(prefix))
    for name in r.out:gmatch('%x+ %u ([^\n]+)') do assert.is_truthy(name:match('^df_'), name) end
  end)

  it('takes it all away again', function()
    local r = shell.run(('make -s DESTDIR=%s.d PREFIX=/usr uninstall && find %s -type f'):format(root, prefix))
    assert.are.equal('', r.out, r.err)
  end)
end)
