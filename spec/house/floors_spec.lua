-- The house: which folder may know which.
local floors = require 'spec.floors'
local shell = require 'spec.shell'

describe('a beta of LuaJIT', function()
  it('compiles none of dflow, whose code it miscompiles now and then', function()
    if not rawget(_G, 'jit') or not jit.version:find('beta', 1, true) then pending 'this is none' end
    local r = shell.run([[luajit -e 'local seen = {}
      jit.attach(function(what, number, func) if what == "start" then seen[debug.getinfo(func, "S").source] = true end end, "trace")
      local df = require "dflow"
      for i = 1, 300 do df.reset() local x = df.float32{ i, 2 } df.run((x * 2 + 1):reduce_sum()) df.draw(x * 2) end
      local n = 0
      for i = 1, 1e5 do n = n + i % 7 end
      jit.attach(function() end)
      for source in pairs(seen) do print(source) end']])
    assert.are.equal('', r.err)
    assert.is_falsy(r.out:find('dflow', 1, true), r.out)
    assert.is_truthy(r.out:find('=(command line)', 1, true), r.out)          -- what the user wrote
  end)
end)

describe('lines of C and of stdlib/', function()
  it('end within 120 columns', function()
    assert.are.same({}, floors.long_lines())
  end)
end)

describe('the layers of runtime/', function()
  it('include downward only, and in no circle', function()
    assert.are.same({}, floors.check())
  end)

  it('call downward only, but for the interfaces in the list', function()
    local calls = floors.upward(shell.build)
    assert.is_table(calls, 'nothing is built')
    for i, call in ipairs(calls) do calls[i] = table.concat(call, ' ') end
    assert.are.same({}, calls)
  end)

  it('have an interface for each call upwards that is allowed, and no interface that nothing calls', function()
    local interfaces = floors.interfaces
    finally(function() floors.interfaces = interfaces end)
    floors.interfaces = {}
    local used, calls = {}, floors.upward(shell.build)
    for _, call in ipairs(calls) do
      for i, interface in ipairs(interfaces) do if call[2]:find(interface[1]) then used[i] = true end end
    end
    for i, interface in ipairs(interfaces) do assert.is_true(used[i], interface[1]) end
  end)

  it('are checked by something that sees an upward include, an unknown folder and a circle', function()
    local here = shell.run('pwd').out:gsub('%s+$', '')
    local dir = shell.run('mktemp -d').out:gsub('%s+$', '')
    local function write(path, text)
      shell.run(('mkdir -p %s/%s'):format(dir, path:match('^(.*)/')))
      shell.write(dir .. '/' .. path, text)
    end
    write('runtime/base/low.h', '#include "engine/high.h"\n')
    write('runtime/engine/high.h', '#include "engine/other.h"\n')
    write('runtime/engine/other.h', '#include "engine/high.h"\n')
    write('runtime/engine/clock/low.h', '#include "engine/native/high.h"\n')
    write('runtime/engine/native/high.h', '')
    write('runtime/attic/box.c', '#include "base/low.h"\n')
    write('runtime/engine/attic/box.c', '#include "base/low.h"\n')
    write('kernels/cpu/add.c', '#include "../../runtime/base/low.h"\n')
    write('interp/.keep', '')
    local r = shell.run(("cd %s && ${DFLOW_INTERPRETER:-lua5.4} %s/spec/floors.lua; echo status $?"):format(dir, here))
    shell.run('rm -rf ' .. dir)
    assert.is_truthy(r.out:find('runtime/base/low.h: includes runtime/engine/high.h, and engine is above base', 1, true), r.out)
    assert.is_truthy(r.out:find('runtime/engine/clock/low.h: includes runtime/engine/native/high.h, and engine/native is above engine/clock', 1, true), r.out)
    assert.is_truthy(r.out:find('runtime/engine/high.h -> runtime/engine/other.h -> runtime/engine/high.h', 1, true), r.out)
    assert.is_truthy(r.out:find('does not know the folder attic', 1, true), r.out)
    assert.is_truthy(r.out:find('does not know the folder engine/attic', 1, true), r.out)
    assert.is_truthy(r.out:find('kernels/cpu/add.c: includes runtime/base/low.h', 1, true), r.out)
    assert.is_truthy(r.out:find('status 1'), r.out)
  end)
end)
