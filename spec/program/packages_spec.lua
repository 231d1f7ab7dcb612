-- run: once test-all
-- A rock, Debian packages and a program in C: each is made of what this build has, installed elsewhere, and runs from there.
local shell = require 'spec.shell'

local mode = shell.build:match '[^/]*$'
local environment = 'unset LUA_PATH LUA_CPATH DFLOW_LIB DFLOW_DEFAULT_DEVICE DFLOW_CUDA_DRIVER; ' .. shell.as_built()
local chunk = [['local df = require "dflow" print(df.run(df.int32(20) + 22))']]

-- Where a tool is not installed, or a sanitizer's library would have to come first, there is nothing to test.
local function with(tool, name, test)
  local missing = mode:match 'san$' and 'a sanitizer' or shell.run('command -v ' .. tool).status ~= 0 and tool .. ' is not installed'
  if missing then pending(name .. ': ' .. missing) else it(name, test) end
end

local function done(command)
  local r = shell.run(command)
  assert.equal(0, r.status, command .. '\n' .. r.out .. r.err)
  return r.out
end

describe('a package', function()
  local root
  before_each(function() root = done 'mktemp -d':match '%S+' end)
  after_each(function() os.execute('rm -rf ' .. root) end)

  with('luarocks', 'is a rock from which Lua 5.4 and LuaJIT load the module', function()
    done(('%s luarocks --lua-version 5.4 --tree %s/tree make dflow-scm-1.rockspec'):format(environment, root))
    local tree = root .. '/tree/'
    done(('mkdir -p %s/share/lua/5.1 %s/lib/lua/5.1 && cp -r %s/share/lua/5.4/. %s/share/lua/5.1 && cp -r %s/lib/lua/5.4/. %s/lib/lua/5.1')
      :format(tree, tree, tree, tree, tree, tree))
    assert.equal('42\n', done(('%s cd / && LUA_PATH="%sshare/lua/5.4/?.lua" LUA_CPATH="%slib/lua/5.4/?.so" lua5.4 -e %s')
      :format(environment, tree, tree, chunk)))
    assert.equal('42\n', done(('%s cd / && LUA_PATH="%sshare/lua/5.1/?.lua" luajit -e %s'):format(environment, tree, chunk)))
  end)

  with('dpkg-shlibdeps', 'is a set of Debian packages that split the files, depend on each other, and run where they are unpacked', function()
    local made = done(environment .. 'make -s deb')
    local of = {}
    for path, name in made:gmatch '(build/deb/([%w-]+)_%S+%.deb)' do of[name] = path end
    for name, file in pairs{ dflow = './usr/bin/dflow', libdflow0 = './usr/lib/libdflow.so.0', ['libdflow-dev'] = './usr/include/dflow.h' } do
      assert.is_truthy(done('dpkg-deb -c ' .. of[name]):find(file, 1, true), file)
    end
    assert.matches('libdflow0 %(= 0%.1%.0%)', done('dpkg-deb -f ' .. of.dflow .. ' Depends'))
    assert.matches('libc6', done('dpkg-deb -f ' .. of.libdflow0 .. ' Depends'))
    local owners = {}
    for name, path in pairs(of) do
      for line in done('dpkg-deb -c ' .. path):gmatch '[^\n]+' do
        local file = line:match '^[-l]r%S+ .-%s(%./%S+)'
        if file then
          assert.is_nil(owners[file], file .. ' is in two packages')
          owners[file] = name
        end
      end
      done(('dpkg-deb -x %s %s/unpacked'):format(path, root))
    end
    assert.equal('42\n', done(('%s cd / && %s/unpacked/usr/bin/dflow -e %s'):format(environment, root, chunk)))
  end)

  with('pkg-config', 'lets the example in C be built by the line in its head', function()
    done(('%s make -s DESTDIR=%s PREFIX=/usr install'):format(environment, root))
    local line = shell.read 'examples/embed.c':match 'cc embed%.c %$%(pkg%-config [^)]*%)'
    done(('cd examples && export PKG_CONFIG_PATH=%s/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=%s && %s -Wall -Werror -o %s/embed')
      :format(root, root, line, root))
    local ran = ('%s LD_LIBRARY_PATH=%s/usr/lib %s/embed %%s'):format(environment, root, root)
    assert.equal('y = 256, dy/dx = 1024\n', done(ran:format '2'))                  -- ((2²)²)², and 8 · 2⁷
    assert.equal('y = 6561, dy/dx = 17496\n', done(ran:format '3'))                -- 3⁸, and 8 · 3⁷
  end)
end)
