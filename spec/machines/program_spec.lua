--- `dflow -n 4`: ranks from the command line, at the prompt, and what a worker by itself says.
-- run: first
local shell = require 'spec.shell'
local dflow = shell.dflow

describe('dflow -n', function()
  it('starts so many ranks before the script', function()
    local r = shell.run(dflow .. ' -n 3 -', [[
      local y = df.device('/rank:2/cpu:0', function() return df.constant(20.0) * 2 + 2 end)
      print(df.cluster.size, df.run(y))
      for _, rank in ipairs(df.cluster.ranks()) do print(rank.rank, rank.state) end
    ]])
    assert.equal('3\t42.0\n0\talive\n1\talive\n2\talive\n', (r.out:gsub('\t42\n', '\t42.0\n')))
    assert.equal('', r.err)
    assert.equal(0, r.status)
    assert.equal('2\n', shell.run(dflow .. ' -n2 -e "print(df.cluster.size)"').out)
  end)

  it('refuses what is no number of ranks', function()
    local most = tonumber(shell.run(dflow .. ' -', "print(require('dflow.core').cluster_most())").out)
    for _, bad in ipairs{ '-n', '-n x', '-n 0', '-n ' .. most + 1, '-n 4294967298', '-n 3x', '-nx' } do
      local r = shell.run(dflow .. ' ' .. bad .. ' -e "print(1)"')
      assert.equal('', r.out)
      assert.is_truthy(r.err:find("'-n' needs the number of ranks", 1, true), bad .. r.err)
      assert.equal(1, r.status)
    end
  end)

  it('ends its workers when it ends, also by a signal', function()
    local r = shell.run(dflow .. ' -n 2 -', [[
      local ranks = df.cluster.ranks()
      print(ranks[2].pid)
      io.stdout:flush()
      os.execute('kill -9 ' .. ranks[1].pid)
    ]])
    local pid = r.out:match '%d+'
    local gone = false
    for _ = 1, 500 do
      gone = shell.run('kill -0 ' .. pid).status ~= 0
      if gone then break end
      os.execute('sleep 0.01')
    end
    assert.is_true(gone)
  end)

  it('says what --worker is for when it is typed', function()
    local r = shell.run(dflow .. ' --worker')
    assert.is_truthy(r.err:find('df.cluster.start', 1, true))
    assert.equal(1, r.status)
  end)

  it('has the command :cluster at the prompt', function()
    local r = shell.run(dflow .. ' -p', ':cluster\n:cluster 2\n:cluster stop\n')
    assert.is_truthy(r.out:find('one rank, this process', 1, true), r.out)
    assert.is_truthy(r.out:find('/rank:1', 1, true) and r.out:find('alive', 1, true), r.out)
  end)
end)
