--- SPMD: every rank runs the script; all make the same runs, or are told which rank differs, where.
-- run: first
local shell = require 'spec.shell'
local dflow = shell.dflow

--- Runs a script on n ranks.
local function ranks(n, text, options)
  local path = os.tmpname()
  shell.write(path, text)
  local r = shell.run(('timeout 120 %s -n %d %s %s'):format(dflow, n, options or '--spmd', path))
  r.path = path
  os.remove(path)
  return r
end

--- What was printed, in order of lines: ranks print in any order.
local lines = shell.sorted_lines

describe('--spmd', function()
  it('runs the script on every rank, with the values of one device', function()
    local r = ranks(3, [[
      local x = df.placeholder('float64', {}, 'x')
      local _, y = df.while_loop(function(i) return i:lt(20) end, function(i, a)
        local b = df.device('/rank:1/cpu:0', function() return df.sin(a) + x end)
        return i + 1, df.device('/rank:2/cpu:0', function() return b * 0.5 end)
      end, { df.int32(0), x })
      local v = df.device('/rank:2/cpu:0', function() return df.Variable(1.0, { name = 'v' }) end)
      local step = df.assign(v, v * 3)
      print(df.cluster.rank, df.cluster.size, ('%.17g'):format(df.run(y, { [x] = 0.3 })), df.run(step), df.run(step), df.run(v))
    ]])
    local alone = shell.run(dflow .. ' -', [[
      local y = 0.3
      local x = df.placeholder('float64', {}, 'x')
      local _, y = df.while_loop(function(i) return i:lt(20) end, function(i, a) return i + 1, (df.sin(a) + x) * 0.5 end, { df.int32(0), x })
      print(('%.17g'):format(df.run(y, { [x] = 0.3 })))
    ]]).out:match '%S+'
    assert.equal('', r.err)
    assert.equal(0, r.status)
    for k, line in ipairs(lines(r.out)) do
      assert.equal(('%d 3 %s 3 9 9'):format(k - 1, alone), (line:gsub('\t', ' '):gsub('%.0', '')))
    end
    assert.equal(3, #lines(r.out))
  end)

  it('can be asked for by the script, before its first run', function()
    local r = ranks(2, [[
      df.cluster.spmd = true
      print(df.cluster.spmd, df.cluster.rank, df.run(df.constant(2.0) * 3))
    ]], '')
    assert.equal('', r.err)
    assert.same({ 'true 0 6', 'true 1 6' }, lines((r.out:gsub('\t', ' '):gsub('%.0', ''))))
  end)

  it('feeds a placeholder with what the rank gives that it is placed on', function()
    local r = ranks(3, [[
      local parts = {}
      local feeds = {}
      for k = 0, 2 do
        local p = df.device(('/rank:%d/cpu:0'):format(k), function() return df.placeholder('float32', { 2 }) end)
        parts[#parts + 1] = p
        feeds[p] = df.tensor({ 10 * df.cluster.rank, 1 }, 'float32')
      end
      print(table.concat(df.run(df.concat(parts, 0), feeds):totable(), ' '))
    ]])
    assert.equal('', r.err)
    assert.same({ '0 1 10 1 20 1', '0 1 10 1 20 1', '0 1 10 1 20 1' }, lines((r.out:gsub('%.0', ''))))
  end)

  it('tells every rank of an error of the run, in step', function()
    local r = ranks(2, [[
      local x = df.placeholder('int32', {})
      local y = df.device('/rank:1/cpu:0', function() return df.gather(df.constant{ 1, 2, 3 }, x) end)
      local ok, e = pcall(df.run, y, { [x] = 7 })
      print(ok, e.code, df.run(y, { [x] = 1 }))
    ]])
    assert.equal('', r.err)
    local l = lines((r.out:gsub('\t', ' '):gsub('%.0', '')))
    assert.equal(l[1], l[2])
    assert.is_truthy(l[1]:find '^false %S+ 2$')
  end)

  it('says that no rank stands alone in a run, and does not hang', function()
    local r = ranks(3, "local y = df.constant(1.0) + 1\nif df.cluster.rank == 0 then df.run(y) end")
    assert.is_truthy(r.err:find('rank 1 has ended its program after 0 runs', 1, true), r.err)
    assert.is_truthy(r.err:find('failed_precondition', 1, true) or r.err:find('if df.cluster.rank == 0', 1, true), r.err)
    assert.equal(1, r.status)
    r = ranks(2, "local y = df.constant(1.0) + 1\nif df.cluster.rank == 1 then df.run(y) end")
    assert.is_truthy(r.err:find('rank 0 has ended its program', 1, true), r.err)
    assert.equal(1, r.status)
  end)

  it('names the first operation that differs, and both lines', function()
    local r = ranks(3, table.concat({
      "local x = df.placeholder('float32', {}, 'x')", 'local y', 'if df.cluster.rank == 2 then', '  y = x * 3', 'else', '  y = x + 3', 'end',
      'df.run(y, {[x] = 1})' }, '\n'))
    assert.is_truthy(r.err:find('the ranks build different graphs', 1, true), r.err)
    assert.is_truthy(r.err:find('%(Add%) at %S+:6 on rank 0') and r.err:find('%(Mul%) at %S+:4 on rank 2'), r.err)
    local _, all = r.err:gsub('the ranks build different graphs', '')
    assert.equal(3, all)
    assert.equal(1, r.status)
  end)

  it('sees constants with other values, and operations that only one rank has', function()
    local r = ranks(2, 'local y = df.constant{ 1.0, 2.0 + df.cluster.rank } * 2\ndf.run(y)')
    assert.is_truthy(r.err:find('operation %d+ is .- at %S+:1 on rank 0 and .- at %S+:1 on rank 1; %S+ differs'), r.err)
    r = ranks(2, "local y = df.constant(1.0) * 2\nif df.cluster.rank == 1 then df.constant(3.0)\nend df.run(y)")
    assert.is_truthy(r.err:find('the first that is not on both is .- at %S+:2, on rank 1'), r.err)
  end)

  it('sees fetches, feeds and shapes that differ', function()
    local r = ranks(2, [[
      local x = df.placeholder('float32', { -1 }, 'x')
      local y, z = df.exp(x), df.sin(x)
      print(pcall(df.run, df.cluster.rank == 0 and y or z, { [x] = df.tensor({ 1 }, 'float32') }))
      print(pcall(df.run, y, { [x] = df.tensor(df.cluster.rank == 0 and { 1, 2 } or { 1 }, 'float32') }))
      print(df.run(y, { [x] = df.tensor({ 0 }, 'float32') }))
    ]])
    assert.is_truthy(r.out:find('run 1 fetches `Exp:0` at %S+:2 on rank 0 and `Sin:0` at %S+:2 on rank 1'), r.out)
    assert.is_truthy(r.out:find('run 2 feeds `x:0`.- with float32%[2%] on rank 0 and float32%[1%] on rank 1'), r.out)
    assert.equal('', r.err)
    assert.equal(0, r.status)
  end)

  it('names a rank that lives and does not come, after the timeout of the session', function()
    local r = ranks(3, [[
      local s = df.Session{ timeout_rank = 2 }
      local y = df.constant(1.0) + 1
      if df.cluster.rank == 2 then os.execute('sleep 6') end
      local ok, e = pcall(s.run, s, y)
      print(ok, e.code, (e.message:match 'rank %d'))
    ]])
    assert.same({ 'false failed_precondition rank 2', 'false failed_precondition rank 2', 'false failed_precondition rank 2' },
                lines((r.out:gsub('\t', ' '))))
  end)

  it('ends as unavailable on every rank that is left when one dies', function()
    local r = ranks(3, [[
      local y = df.constant(1.0) + 1
      df.run(y)
      if df.cluster.rank == 1 then os.execute('kill -9 $PPID') end
      local ok, e = pcall(df.run, y)
      print(ok, e.code, e.rank)
    ]])
    assert.same({ 'false unavailable 1', 'false unavailable 1' }, lines((r.out:gsub('\t', ' '))))
    assert.equal(1, r.status)
  end)

  it('ends well where the others end while rank 0 is stopped', function()
    local r = ranks(3, [[
      print(df.run(df.constant(1.0) + 1))
      if df.cluster.rank == 0 then
        local gone = {}
        for _, rank in ipairs(df.cluster.ranks()) do
          if rank.rank > 0 then
            gone[#gone + 1] = ("while grep -qs '^State:.[^Z]' /proc/%d/status; do sleep 0.01; done"):format(rank.pid)
          end
        end
        os.execute(('p=$PPID; (%s; kill -CONT $p) >/dev/null 2>&1 & kill -STOP $p'):format(table.concat(gone, '; ')))
      else
        os.execute 'p=$(grep PPid: /proc/$PPID/status | cut -f2); until grep -q "^State:.T" /proc/$p/status; do sleep 0.01; done'
      end
    ]])
    assert.equal('', r.err)
    assert.equal('2.0\n2.0\n2.0\n', r.out)
    assert.equal(0, r.status)
  end)

  it('gives variables that are set, and their values, to every rank', function()
    local r = ranks(2, [[
      local v = df.device('/rank:1/cpu:0', function() return df.Variable(df.constant{ 1.5, 2 }, { name = 'v' }) end)
      df.run(df.assign(v, v * 2))
      print(table.concat(df.run(v):totable(), ' '))
    ]])
    assert.equal('', r.err)
    assert.same({ '3 4', '3 4' }, lines((r.out:gsub('%.0', ''))))
  end)

  it('is refused where the other ranks have no script to run', function()
    local r = shell.run(('timeout 60 %s -n 2 --spmd -'):format(dflow), 'print(1)')
    assert.is_truthy(r.err:find('SPMD needs a script in a file', 1, true), r.err)
    assert.equal(1, r.status)
    r = shell.run(('timeout 60 %s --spmd -e "print(1)"'):format(dflow))
    assert.is_truthy(r.err:find('there is no cluster', 1, true), r.err)
  end)
end)
