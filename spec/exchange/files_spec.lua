--- Whatever dflow writes is there whole, or as it was before: when the process is killed, when the disk is full, when the folder is not ours.
-- run: once
local df = require 'dflow'
local files = require 'dflow.exchange.file'
local support = require 'spec.support'

local build = os.getenv 'DFLOW_BUILD' or 'build/release'
local program = build .. '/dflow spec/exchange/files_writer.lua '
local sets = require 'spec.exchange.files_sets'
local sets_program = build .. '/dflow spec/exchange/files_sets.lua '

local function shell(line, ...)
  local pipe = io.popen('{ ' .. line:format(...) .. '; } 2>&1')
  local said = pipe:read '*a'
  pipe:close()
  return said
end

local read, write = require('spec.shell').read, require('spec.shell').write

local function left_in(folder) return shell('ls -A %s', folder):gsub('%s+', ' '):gsub(' $', '') end

local kills = tonumber(os.getenv 'DFLOW_KILLS') or support.sample(6, 25)        -- of each kind
local kinds = {}
for kind in shell(program .. 'list list'):gmatch '%S+' do kinds[#kinds + 1] = kind end
local can_mount = shell('unshare -m true'):match '%S' == nil
local is_root = shell('id -u'):match '^0' ~= nil

describe('a file that dflow writes', function()
  local folder
  before_each(function()
    folder = shell('mktemp -d'):match '%S+'
  end)
  after_each(function()
    shell('chmod 755 %s; rm -rf %s', folder, folder)
  end)

  it('is as it was where what writes it raises: what it raised is raised on as it is', function()
    local path, own = folder .. '/file', {}
    write(path, 'old')
    for _, raised in ipairs{ 'a string', own } do
      local ok, why = pcall(files.with, path, function(f)
        f:write('half of it')
        error(raised, 0)
      end)
      assert.is_false(ok)
      assert.equal(raised, why)
      assert.equal('old', read(path))
      assert.equal('file', left_in(folder))
    end
  end)

  it('is of one of these kinds', function()
    assert.is_true(#kinds >= 10, table.concat(kinds, ' '))
  end)

  for _, kind in ipairs(kinds) do
    -- What a kind's whole file is: its bytes, but for a trace and a report, in which times are.
    local function whole(bytes, reference)
      if kind == 'trace' then return bytes:find('^{"displayTimeUnit"') and bytes:find(']}\n$') ~= nil end
      if kind == 'report' then return bytes:find('^<!doctype html') ~= nil and bytes:find('</html>%s*$') ~= nil end
      if kind == 'save' then return bytes:gsub('%d%d%d%d%-%d%d%-%d%d %d%d:%d%d', '') == reference:gsub('%d%d%d%d%-%d%d%-%d%d %d%d:%d%d', '') end
      return bytes == reference
    end

    it(('is whole or as before when it is killed at any moment: %s'):format(kind), function()
      local path = folder .. '/file'
      local clock = require('dflow.backend').clock
      local began = clock()
      assert.matches('^ok', shell(program .. '%s %s', kind, path))
      local once = clock() - began
      local reference = read(path)
      assert.is_true(whole(reference, reference), reference:sub(1, 100))
      write(path, 'old')
      local changed, i = 0, 0
      while i < kills or changed == 0 and i < kills + 8 do          -- later and later, where the machine became slow meanwhile
        i = i + 1
        shell('timeout -s KILL %.3f ' .. program .. '%s %s for ever', once * (i > kills and i - kills + 1 or 0.6 + i * 37 % kills / kills), kind, path)
        local bytes = read(path)
        assert.is_true(bytes == 'old' or whole(bytes, reference), ('kill %d left %d bytes'):format(i, #bytes))
        if bytes ~= 'old' then
          changed = changed + 1
          write(path, 'old')
        end
      end
      assert.is_true(changed > 0, 'no kill came while the file was written')
    end)

    it(('stays as it was when there is no room for the new one: %s'):format(kind), function()
      local path = folder .. '/file'
      write(path, 'old')
      local said = shell('ulimit -f 0; ' .. program .. '%s %s', kind, path)
      assert.matches('^resource_exhausted', said)
      assert.is_truthy(said:find(path, 1, true), said)
      assert.equal('old', read(path))
      assert.equal('file', left_in(folder))
      if can_mount and is_root then
        said = shell("unshare -m sh -c 'mount -t tmpfs -o size=32k,mode=755 tmpfs %s && printf old > %s; head -c 99999 /dev/zero > %s/other 2>/dev/null; " .. program
                     .. "%s %s; cat %s; ls -A %s'", folder, path, folder, kind, path, path, folder)
        assert.matches('^resource_exhausted', said)
        assert.matches('No space left', said)
        assert.is_truthy(said:find('oldfile\nother', 1, true), said)
      end
    end)

    it(('is not begun where nothing may be written: %s'):format(kind), function()
      local path = folder .. '/file'
      write(path, 'old')
      local said
      if is_root then
        if not can_mount then return pending 'root may write everywhere, and cannot mount here' end
        said = shell("unshare -m sh -c 'mount -t tmpfs tmpfs %s && printf old > %s && mount -o remount,ro %s && " .. program .. "%s %s; cat %s; ls -A %s'",
                     folder, path, folder, kind, path, path, folder)
      else
        said = shell('chmod 555 %s; ' .. program .. '%s %s; cat %s; ls -A %s', folder, kind, path, path, folder)
      end
      assert.matches('^permission_denied', said)
      assert.is_truthy(said:find('oldfile', 1, true), said)
      said = shell(program .. '%s %s/none/file', kind, folder)
      assert.matches('^not_found', said)
    end)
  end

  it('keeps its permissions and the links that lead to it', function()
    local path, link = folder .. '/file', folder .. '/link'
    write(path, 'old')
    shell('chmod 640 %s; ln -s file %s; ln -s link %s/link2', path, link, folder)
    files.write(folder .. '/link2', 'new')
    assert.equal('new', read(path))
    assert.equal('640 file', (shell('stat -c "%%a" %s', path):gsub('%s', '')) .. ' ' .. shell('readlink %s', link):match '%S+')
    files.write(folder .. '/fresh', 'x')
    assert.equal(shell('touch %s/plain; stat -c %%a %s/plain', folder, folder), shell('stat -c %%a %s/fresh', folder))
    shell('ln -s nowhere %s/dangling', folder)
    files.write(folder .. '/dangling', 'there')
    assert.equal('there', read(folder .. '/nowhere'))
    shell('ln -s circle %s/circle', folder)
    assert.matches('symbolic link', tostring(select(2, pcall(files.write, folder .. '/circle', 'x'))))
  end)

  it('is written in place where it is no plain file', function()
    files.write('/dev/null', 'gone')
    local ok, e = pcall(files.write, '/dev/full', ('x'):rep(100))
    assert.is_false(ok)
    assert.equal('resource_exhausted', e.code)
    assert.matches('/dev/full: No space left', e.message)
  end)

  it('is not there when what writes it fails or forgets it', function()
    local path = folder .. '/file'
    assert.is_false(pcall(files.with, path, function(f)
      f:write('half')
      error 'no more'
    end))
    files.create(path):write('half'):discard()
    local f = files.create(path)
    f:write(('x'):rep(1e6))
    assert.equal('', left_in(folder))        -- nothing can be seen of it, or its name begins with a dot: see below
    f = nil
    collectgarbage() collectgarbage()
    assert.equal('', left_in(folder))
    assert.equal(nil, f)
  end)

  it('says so when it is used after its end, and what a path must be', function()
    local f = files.create(folder .. '/a')
    f:commit()
    assert.equal('failed_precondition', select(2, pcall(f.write, f, 'x')).code)
    f:discard()
    for _, path in ipairs{ '', 'a\0b', 3, {} } do
      local ok, e = pcall(df.save_npy, path, df.tensor{ 1 })
      assert.is_false(ok)
      assert.equal('invalid_argument', e.code)
    end
    assert.equal('invalid_argument', select(2, pcall(files.write, ('x'):rep(5000), '')).code)
  end)

  it('takes strings and tensors, much or little', function()
    local path = folder .. '/file'
    local t = df.tensor({ 1, 2, 3 }, 'uint8')
    files.write(path, 'a', t, '', ('b'):rep(70000), t, 'c', df.tensor({}, 'uint8', { 0 }))
    assert.equal('a\1\2\3' .. ('b'):rep(70000) .. '\1\2\3c', read(path))
    assert.is_false(pcall(files.write, path, df.tensor{ 'words' }))
    assert.equal(70008, #read(path))
  end)

  it('is the same where the disk is told to begin before all has been written', function()
    local path = folder .. '/large'
    local block = ('0123456789abcdef'):rep(2 ^ 21)
    files.write(path, 'head', block, 'x', block, block)
    local f = assert(io.open(path, 'rb'))
    assert.equal(3 * #block + 5, f:seek 'end')
    for _, at in ipairs{ 0, 4, #block + 4, #block + 5, 2 * #block + 5, 3 * #block + 1 } do
      f:seek('set', at)
      local expected = at == 0 and 'head' or at == #block + 4 and 'x012' or at == 3 * #block + 1 and 'cdef' or '0123'
      assert.equal(expected, f:read(4))
    end
    f:close()
    os.remove(path)
  end)

  it('has a checksum of Castagnoli that is known', function()
    local core = require 'dflow.backend'
    assert.equal(0xE3069283, core.crc32c('123456789'))
    assert.equal(0x8A9136AA, core.crc32c(('\0'):rep(32)))
    assert.equal(0, core.crc32c(''))
  end)
end)

describe('files that belong together', function()
  local folder, path
  before_each(function()
    folder = shell('mktemp -d'):match '%S+'
    path = folder .. '/model'
  end)
  after_each(function() shell('rm -rf %s', folder) end)

  local names = {}
  for name in pairs(sets) do names[#names + 1] = name end
  table.sort(names)

  for _, name in ipairs(names) do
    it(('are those of one moment when their writer is killed: %s'):format(name), function()
      local clock = require('dflow.backend').clock
      local began = clock()
      assert.matches('^ok', shell(sets_program .. '%s %s 1', name, path))
      local once = clock() - began
      local last, changed, i = 1, 0, 0
      while i < kills or changed == 0 and i < kills + 8 do
        i = i + 1
        shell('timeout -s KILL %.3f ' .. sets_program .. '%s %s %d for ever', once * (i > kills and i - kills + 1 or 0.7 + i * 37 % kills / kills), name, path, last + 1)
        local ok, k = pcall(sets[name].read, path)
        assert.is_true(ok, ('kill %d: %s'):format(i, tostring(k)))
        assert.is_true(k >= last, ('kill %d: number %s was there, now %s'):format(i, last, k))
        changed = changed + (k > last and 1 or 0)
        last = k
      end
      assert.is_true(changed > 0, 'no kill came while they were written')
    end)

    it(('are of one moment when a sector of the disk is bad, wherever it is, and the next ones are written: %s'):format(name), function()
      if (os.getenv 'DFLOW_MODE' or ''):find 'san$' then pending 'a sanitizer wants to be loaded first' end
      local library = folder .. '.so'
      if shell('cc -shared -fPIC -O1 spec/exchange/sectors.c -o %s -ldl', library):find '%S' then return pending 'there is no compiler' end
      local said = shell('SECTOR_FOLDER=%s LD_PRELOAD=%s ' .. sets_program .. '%s %s bad %d; rm %s', folder, library, name, path, kills, library)
      assert.is_true(tonumber(said:match '^met%s+(%d+)\n$' or 0) >= kills, said)
      assert.is_falsy(left_in(folder):find('.dflow-', 1, true))
    end)

    it(('are as they were when there is no room for new ones, or nothing may be written: %s'):format(name), function()
      assert.matches('^ok', shell(sets_program .. '%s %s 1', name, path))
      local there = left_in(folder)
      assert.matches('^resource_exhausted', shell('ulimit -f 0; ' .. sets_program .. '%s %s 2', name, path))
      assert.equal(1, sets[name].read(path))
      assert.equal(there, left_in(folder))
      if not (can_mount and is_root) then return end
      local again = "unshare -m sh -c 'mount -t tmpfs -o size=1m,mode=755 tmpfs %s && " .. sets_program .. '%s %s 1 && %s; ' .. sets_program
        .. "%s %s 2; ls -A %s; " .. build .. "/dflow -e \"print(require[[spec.exchange.files_sets]].%s.read([[%s]]))\"'"
      local said = shell(again, folder, name, path, ('head -c 9999999 /dev/zero > %s/other 2>/dev/null'):format(folder), name, path, folder, name, path)
      assert.matches('^ok\nresource_exhausted', said)
      assert.matches('\n1\n$', said)
      said = shell(again, folder, name, path, ('mount -o remount,ro %s'):format(folder), name, path, folder, name, path)
      assert.matches('^ok\npermission_denied', said)
      assert.matches('\n1\n$', said)
    end)
  end

  it('keep the permissions of those that they take the place of: a checkpoint', function()
    df.save_checkpoint(path, { a = df.tensor{ 1 } })
    shell('chmod 600 %s/*', folder)
    for k = 2, 4 do
      df.save_checkpoint(path, { a = df.tensor{ k } })
      assert.equal('600 600 ', (shell('stat -c "%%a" %s.index %s.data-00000-*', path, path):gsub('%s', ' ')))
      assert.same({ k }, df.load_checkpoint(path).a:totable())
      assert.equal(k % 2 == 0 and 'model.data-00000-of-00002 model.data-00001-of-00002 model.index' or 'model.data-00000-of-00001 model.index', left_in(folder))
    end
  end)

  it('say why the data of a checkpoint cannot be opened', function()
    df.save_checkpoint(path, { a = df.tensor{ 1 } })
    local data = path .. '.data-00000-of-00001'
    local function refused() return select(2, pcall(df.load_checkpoint, path)) end
    assert.is_true(os.remove(data))
    assert.equal('not_found', refused().code)
    shell("ln -s '%s' '%s'", data, data)                                      -- a link to itself
    assert.equal('invalid_argument', refused().code)                          -- as where one is to be written to
    assert.matches('cannot open ' .. data, refused().message, 1, true)
  end)

  it('are read from what is there when an index is broken: a checkpoint is written anew', function()
    write(path .. '.index', 'no index')
    df.save_checkpoint(path, { a = df.tensor{ 1 } })
    assert.equal('model.data-00000-of-00001 model.index', left_in(folder))
    assert.same({ 1 }, df.load_checkpoint(path).a:totable())
  end)
end)

describe("the prompt's history", function()
  local typist = require 'spec.typist'
  local typed_it = typist.available() and it or function(what) pending(what .. ' (there is no terminal to type at)') end

  --- Opens a prompt whose history this is, and ends it when it can be typed at; or it ends by itself.
  local function open(folder, command, ends)
    local t = typist.open{ command = command, environment = 'XDG_STATE_HOME=' .. folder }
    if ends then t:ended(5) else t:wait('dflow> ', 5) end
    t:close()
  end

  typed_it('is as it was or what is kept of it when the prompt is killed while it shortens it', function()
    local folder = shell('mktemp -d'):match '%S+'
    local path = folder .. '/dflow/history'
    local lines = {}
    for i = 1, 21000 do lines[i] = ('x%d = df.float32(%d)'):format(i, i) end
    local old, new = table.concat(lines, '\n') .. '\n', table.concat(lines, '\n', 11001) .. '\n'
    shell('mkdir %s/dflow', folder)
    write(path, old)
    local began = require('dflow.backend').clock()
    open(folder, require('spec.shell').dflow .. ' --color=never')
    local once = require('dflow.backend').clock() - began
    assert.equal(new, read(path))
    assert.equal('history', left_in(folder .. '/dflow'))
    local changed = 0
    for i = 1, kills do
      write(path, old)
      open(folder, ('timeout --foreground -s KILL %.4f %s --color=never'):format(once * (i * 37 % kills / kills), require('spec.shell').dflow), true)
      local there = read(path)
      assert.is_true(there == old or there == new, ('kill %d left %d bytes'):format(i, #there))
      changed = changed + (there == new and 1 or 0)
    end
    assert.is_true(changed > 0 and changed < kills, ('%d of %d kills came after it'):format(changed, kills))
    write(path, old)
    open(folder, ("sh -c 'ulimit -f 1; exec %s --color=never'"):format(require('spec.shell').dflow))
    assert.equal(old, read(path))
    shell('rm -rf %s', folder)
  end)
end)
