--- Native code on the disk: made once, and never trusted further than it can be.
local shell = require 'spec.shell'
local native_it = require('spec.support').native_it(it, pending)

local program = [==[
  local function run(k)
    local i, y = df.while_loop(function(i) return i:lt(50) end, function(i, y) return i + 1, y * k + 0.5 end, { df.int32(0), df.float32(1) })
    local s = df.Session{ engine = 'native' }
    local r = s:run{ i, y }
    local how = s:native():match('; ([%l ]+) in [%d.]+ ms')
    s:close()
    df.reset()
    return ('%s %d %a'):format(how, r[1], r[2])
  end
  print(run(1.25))
]==]

describe('the cache of native code', function()
  local folder
  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
  end)
  after_each(function() os.execute('rm -rf ' .. folder) end)

  local function run(text, cache)
    local r = shell.run(('DFLOW_NATIVE_CACHE=%s %s -e %s'):format(cache or folder, shell.dflow, shell.quote(text or program)))
    assert.equal('', r.err)
    return (r.out:gsub('\n$', ''))
  end
  local function command(text) return (shell.run(text:gsub('FOLDER', folder)).out:gsub('\n$', '')) end
  local function files() return tonumber(command 'ls FOLDER | wc -l') end

  native_it('keeps what one process compiled for the next, which gets the same bits', function()
    local first = run()
    assert.matches('^compiled 50 ', first)
    assert.equal(1, files())
    assert.equal((first:gsub('compiled', 'from the disk')), run())
    assert.matches('^compiled', run(program:gsub('1%.25', '1.5'), nil))
    assert.equal(2, files())
  end)

  native_it('needs no compiler for what it has', function()
    local text = program .. [==[
      local maps, n = io.open '/proc/self/maps', 0
      for line in maps:lines() do if line:find('LLVM', 1, true) or line:find('libdflow_jit', 1, true) then n = n + 1 end end
      print(n > 0 and 'the compiler is there' or 'no compiler')]==]
    local machine = command 'uname -m'
    local first = run(text)
    assert.matches('^compiled 50 .*\nthe compiler is there$', first)
    local again = first:gsub('compiled', 'from the disk')
    if machine == 'x86_64' then again = again:gsub('the compiler is there', 'no compiler') end
    assert.equal(again, run(text))
    assert.matches('; from the disk in .*\n[^\n]*ret', run((program:gsub("local r = s:run{ i, y }",
      "%0 print(s:native()) print((s:native{ code = 'machine' }:match '[^\\n]*retq?'))"))))
  end)

  native_it('makes it once for all plans with the same loop', function()
    local first, second = run(program .. 'print(run(1.25))'):match('^(.-)\n(.*)$')
    assert.equal((first:gsub('compiled', 'from the disk')), second)
    assert.matches('^compiled.*\nshared', run(program:gsub('print.*', '') .. [==[
      local function loop() return (df.while_loop(function(i) return i:lt(50) end, function(i) return i + 2 end, { df.int32(0) })) end
      local s = df.Session{ engine = 'native' }
      local a = loop()
      s:run(a)
      s:run(a + 1)
      for how in s:native():gmatch('; ([%l ]+) in [%d.]+ ms') do print(how) end]==]))
  end)

  native_it('keeps nothing where it is told to', function()
    assert.matches('^compiled', run(nil, "''"))
    assert.matches('^compiled', run(nil, 'a/relative/path'))
    assert.equal('', command 'ls FOLDER 2>/dev/null; ls a 2>/dev/null')
  end)

  native_it('ignores files that are cut, damaged, of another key, a link, or another user can write', function()
    local first = run()
    local from_disk = first:gsub('compiled', 'from the disk')
    local function mend() assert.equal(from_disk, run()) end
    for _, damage in ipairs{ 'truncate -s 100 $f', 'truncate -s 0 $f', 'truncate -s +8 $f', 'printf x | dd of=$f bs=1 seek=2000 conv=notrunc 2>/dev/null',
        'printf x | dd of=$f bs=1 seek=9 conv=notrunc 2>/dev/null', 'chmod 666 $f', 'mv $f FOLDER/x && ln -s x $f', 'rm $f && mkfifo $f' } do
      command('for f in FOLDER/*.o; do ' .. damage .. '; done')
      assert.equal(first, run(), damage)
      command 'rm -f FOLDER/x'
      if damage:find 'chmod' then command 'rm FOLDER/*.o' assert.equal(first, run()) end
      mend()
    end
    command 'chmod 777 FOLDER'
    assert.equal(first, run())
  end)

  native_it('lets what was not used for longest go where there is too much', function()
    run()
    local kept = command 'ls FOLDER'
    command [[cd FOLDER && for i in 1 2 3; do truncate -s 30M 0000000000000000000000000000000$i.o && touch -d "$i hours ago" 0000000000000000000000000000000$i.o; done;
      touch notes.txt]]
    assert.matches('^from the disk', run())
    run(program:gsub('print%(run%(1%.25%)%)', 'for k = 1, 150 do run(k + 0.5) end'), nil)      -- one file in sixteen has the folder looked at
    local left = command 'ls FOLDER'
    assert.matches(kept, left, 1, true)
    assert.matches('notes.txt', left, 1, true)
    assert.matches('000001.o', left, 1, true)
    assert.is_nil(left:find('000003.o', 1, true))
    assert.is_nil(left:find('000002.o', 1, true))
  end)
end)
