--- `mpirun -n 4 dflow`, and what stands for it: ranks that a launcher started find each other by their environment.
-- run: first
local shell = require 'spec.shell'
local dflow = shell.dflow

local SCRIPT = [[
local x = df.placeholder('float64', {}, 'x')
local y = df.device('/rank:2/cpu:0', function() return df.sin(x) end)
local z = df.device('/rank:1/cpu:0', function() return y * 2 end)
print(df.cluster.rank, df.cluster.size, ('%.17g'):format(df.run(z, {[x] = 0.5})))
]]

local function with_script(text, fn)
  local path = os.tmpname()
  shell.write(path, text)
  local r = fn(path)
  os.remove(path)
  return r
end

local lines = shell.sorted_lines

local ALONE = shell.run(dflow .. ' -', "local y = df.sin(df.constant(0.5, 'float64')) * 2\nprint(('%.17g'):format(df.run(y)))").out:match '%S+'
local jobs = 0

--- Starts `n` processes as a launcher of this kind does, with its environment; rank r runs command(r).
local function launch(kind, n, command)
  jobs = jobs + 1
  local job = ('%d-%d'):format(os.time(), jobs)
  local parts = {}
  for r = n - 1, 0, -1 do
    local env = kind == 'openmpi' and ('OMPI_COMM_WORLD_SIZE=%d OMPI_COMM_WORLD_RANK=%d OMPI_COMM_WORLD_LOCAL_SIZE=%d PMIX_NAMESPACE=%s'):format(n, r, n, job)
      or kind == 'slurm' and ('PMIX_RANK=%d SLURM_STEP_NUM_TASKS=%d SLURM_STEP_NUM_NODES=1 SLURM_JOB_ID=7 SLURM_STEP_ID=%s PMIX_NAMESPACE=%s'):format(r, n, job, job)
      or ('PMI_SIZE=%d PMI_RANK=%d MPI_LOCALNRANKS=%d'):format(n, r, n)
    parts[#parts + 1] = ('env %s %s%s'):format(env, command(r), r > 0 and ' &' or '')
  end
  return shell.run('timeout 120 sh -c ' .. shell.quote(table.concat(parts, '\n') .. '; s=$?; wait; exit $s'))
end

describe('processes that a launcher started', function()
  for _, kind in ipairs{ 'openmpi', 'mpich', 'slurm' } do
    it('are ranks of one cluster, by the environment of ' .. kind, function()
      local r = with_script(SCRIPT, function(path) return launch(kind, 3, function() return dflow .. ' ' .. path end) end)
      assert.equal('', r.err)
      assert.equal(('0\t3\t%s\n'):format(ALONE), r.out)
      assert.equal(0, r.status)
    end)
  end

  it('run the script on each with --spmd', function()
    local r = with_script(SCRIPT, function(path) return launch('openmpi', 3, function() return dflow .. ' --spmd ' .. path end) end)
    assert.equal('', r.err)
    assert.same({ '0\t3\t' .. ALONE, '1\t3\t' .. ALONE, '2\t3\t' .. ALONE }, lines(r.out))
  end)

  it('are waited for by their launcher, and not killed, where they end more slowly than rank 0', function()
    local r = with_script([[
      local rank = df.cluster.rank
      keep = setmetatable({}, { __gc = function() os.execute('sleep ' .. 0.4 * rank) io.write(rank, ' is over\n') end })
    ]], function(path) return launch('openmpi', 2, function() return dflow .. ' --spmd ' .. path end) end)
    assert.same({ '0 is over', '1 is over' }, lines(r.out))
  end)

  it('end with the status of rank 0, and its error once', function()
    local r = with_script("local y = df.constant(1.0) + 1\nprint(df.run(y))\nerror('enough')",
                          function(path) return launch('openmpi', 2, function() return dflow .. ' ' .. path end) end)
    local _, often = r.err:gsub('enough\n', '')
    assert.is_true(often >= 1)
    assert.equal(1, r.status)
  end)

  it('name the rank that is lost', function()
    local r = with_script([[
      local y = df.device('/rank:1/cpu:0', function() return df.placeholder('float32', {}, 'x') * 2 end)
      local x = df.default_graph():output 'x:0'
      df.run(y, { [x] = 1 })
      os.execute('kill -9 ' .. df.cluster.ranks()[2].pid)
      df.run(y, { [x] = 1 })
      df.run(y, { [x] = 1 })
    ]], function(path) return launch('openmpi', 2, function() return dflow .. ' ' .. path end) end)
    local major, minor = shell.run('uname -r').out:match '^(%d+)%.(%d+)'
    local told = tonumber(major) * 1000 + tonumber(minor) >= 6015           -- what became of another one's child
    assert.is_truthy(r.err:find('dflow: rank 1 %(host %S+, pid %d+%) has ended'), r.err)
    assert.is_truthy(r.err:find('rank 1 %(host %S+, pid %d+%) ' .. (told and 'was killed by signal 9' or 'has ended') .. '\n.*df.run'), r.err)
    assert.equal(1, r.status)
  end)

  local bare = not shell.read(shell.build .. '/libdflow_mpi_openmpi.so');
  (bare and it or pending)('are refused on several hosts where there is no plug-in for their MPI', function()
    local r = shell.run('OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2 ' .. dflow .. ' -e "print(1)"')
    assert.is_truthy(r.err:find('2 of the 4 ranks were started on this host', 1, true), r.err)
    assert.is_truthy(r.err:find('mpicc.openmpi', 1, true), r.err)
    assert.equal(1, r.status)
  end)

  it('are refused beside -n, and where they are too many', function()
    local r = shell.run('OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0 ' .. dflow .. ' -n 2 -e "print(1)"')
    assert.is_truthy(r.err:find('-n 2, but 4 processes were started', 1, true), r.err)
    r = shell.run('OMPI_COMM_WORLD_SIZE=65 OMPI_COMM_WORLD_RANK=0 ' .. dflow .. ' -e "print(1)"')
    assert.is_truthy(r.err:find('1 to 64 ranks, not 65', 1, true), r.err)
  end)

  it('do not take what a rank starts for a rank', function()
    local r = with_script(("local p = io.popen('%s -e \"print(df.cluster.size)\"') print(p:read 'a') p:close()"):format(dflow),
                          function(path) return launch('openmpi', 2, function() return dflow .. ' ' .. path end) end)
    assert.equal('1', r.out:match '%S+', r.err)
  end)

  it('meet where only this user can: another mode of the folder is refused', function()
    local folder = os.tmpname()
    os.remove(folder)
    shell.run(('mkdir -p %s/dflow-$(id -u); chmod 755 %s/dflow-$(id -u)'):format(folder, folder))
    local r = shell.run(('TMPDIR=%s OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 timeout 20 %s -e "print(1)"'):format(folder, dflow))
    assert.is_truthy(r.err:find("this user's alone", 1, true), r.err)
    shell.run('rm -r ' .. folder)
  end)
end)

--- The real ones, where they are.
describe('mpirun', function()
  for name, options in pairs{ ['mpirun.openmpi'] = '--allow-run-as-root --oversubscribe', ['mpirun.mpich'] = '' } do
    local is = shell.run(('command -v %s && %s %s -n 1 true'):format(name, name, options)).status == 0
    if is then
      it(('starts the ranks: %s'):format(name), function()
        local r = with_script(SCRIPT, function(path) return shell.run(('timeout 120 %s %s -n 3 %s %s'):format(name, options, dflow, path)) end)
        assert.equal(('0\t3\t%s\n'):format(ALONE), r.out)
        assert.equal(0, r.status)
        r = with_script(SCRIPT, function(path) return shell.run(('timeout 120 %s %s -n 3 sh -c "%s --spmd %s"'):format(name, options, dflow, path)) end)
        assert.same({ '0\t3\t' .. ALONE, '1\t3\t' .. ALONE, '2\t3\t' .. ALONE }, lines(r.out))
        r = with_script('error("enough")', function(path) return shell.run(('timeout 120 %s %s -n 2 %s %s'):format(name, options, dflow, path)) end)
        assert.is_true(r.status ~= 0)
      end)
    else
      pending(('starts the ranks: %s, which is not here'):format(name))
    end
  end
end)

--- Hosts are network namespaces with names of their own (which root can make), and a script stands in for ssh. NAME is this
-- run's, so that another one is not in the way.
local NAMESPACES = [[
for h in 1 2; do ip netns add NAME$h || exit 1; done
ip link add wire0 netns NAME1 type veth peer name wire0 netns NAME2 || exit 1
for h in 1 2; do
  ip -n NAME$h addr add 10.77.0.$h/24 dev wire0 && ip -n NAME$h link set lo up && ip -n NAME$h link set wire0 up || exit 1
done
for h in 1 2; do until ip -n NAME$h link show wire0 | grep -q LOWER_UP; do sleep 0.05; done; done]]
local RSH = [[
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
h=${1##*.}
shift
exec ip netns exec NAME$h unshare --uts sh -c "hostname dflow$h; exec /bin/sh -c \"\$0\"" "$*"
]]

describe('mpirun on several hosts', function()
  local rsh = os.tmpname()
  local name = rsh:match '%w+$'
  local function has(mpi) return shell.read(('%s/libdflow_mpi_%s.so'):format(shell.build, mpi)) ~= nil end
  local hosts = (has 'openmpi' or has 'mpich') and shell.run((NAMESPACES:gsub('NAME', name))).status == 0
  shell.write(rsh, (RSH:gsub('NAME', name)))
  os.execute('chmod +x ' .. rsh)
  teardown(function()
    os.remove(rsh)
    if hosts then shell.run(('ip netns del %s1; ip netns del %s2'):format(name, name)) end
  end)

  local kinds = {
    { name = 'mpirun.openmpi', n = 4, options = '--allow-run-as-root --host 10.77.0.1:2,10.77.0.2:2 --bind-to none --mca plm_rsh_agent ' .. rsh
        .. ' --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24' },
    { name = 'mpirun.mpich', n = 2, options = '-hosts 10.77.0.1,10.77.0.2 -iface wire0 -launcher rsh -launcher-exec ' .. rsh },
  }
  for _, kind in ipairs(kinds) do
    local function run(words, text)
      return with_script(text, function(path)
        return shell.run(("UCX_TLS=tcp,self UCX_NET_DEVICES=wire0 timeout 60 %s 10.77.0.1 'exec %s %s -n %d %s %s %s'"):format(rsh, kind.name, kind.options,
                         kind.n, dflow:find '^/' and dflow or shell.output 'pwd':match '%C+' .. '/' .. dflow, words, path))
      end)
    end
    -- A program of MPICH that does nothing but begin and end crashes or hangs under this sanitizer.
    local judged = not (kind.name == 'mpirun.mpich' and os.getenv 'DFLOW_MODE' == 'tsan')
    local it = hosts and has(kind.name:match '%w+$') and judged and it or pending

    it('runs one loop over ranks of both, and ends well: ' .. kind.name, function()
      local r = run('', [[
        local n, x = df.placeholder('int32', {}), df.placeholder('float64', {})
        local function on(k, fn) return df.device(('/rank:%d/cpu:0'):format(k), fn) end
        local last = df.cluster.size - 1
        local function loop(a, b)
          local _, y = df.while_loop(function(i) return i:lt(n) end, function(i, y)
            return i + 1, on(a, function() return on(b, function() return df.sin(y) + x end) * 0.5 end)
          end, { df.int32(0), df.float64(0) })
          return { y, (df.gradients(y, x)) }
        end
        local function tell(a, b)
          local got = df.run(loop(a, b), { [x] = 0.3, [n] = 100 })
          return ('%.17g %.17g'):format(got[1], got[2])
        end
        local big = df.range(0, 500000):cast 'float32'
        print(tell(0, last) == tell(0, 0), last < 2 or tell(2, last) == tell(0, 0))
        print(df.run(df.reduce_max(on(last, function() return df.concat({ big * 2, big }, 0) end))), df.cluster.ranks()[1].host, df.cluster.ranks()[last + 1].host)
      ]])
      assert.equal('true\ttrue\n999998.0\tdflow1\tdflow2\n', r.out, r.err)
      assert.equal(0, r.status, r.err)
    end)

    it('runs the script on each with --spmd: ' .. kind.name, function()
      local r = run('--spmd', SCRIPT:gsub('/rank:[12]/', '/rank:1/'):gsub('print%((.*)%)', "io.write(table.concat({%1}, '\\t') .. '\\n')"))
      assert.equal(0, r.status, r.err)
      for k = 0, kind.n - 1 do assert.is_truthy(r.out:find(('%d\t%d\t%s'):format(k, kind.n, ALONE), 1, true), r.out) end
    end)

    it('ends well however rank 0 does, and tells of what went wrong: ' .. kind.name, function()
      local r = run('', 'df.cluster.stop() df.cluster.start(2) os.exit(df.cluster.size == 2)')
      assert.equal(0, r.status, r.err)
      r = run('', "error 'enough'")
      assert.is_truthy(r.err:find('enough', 1, true), r.err)
      assert.is_true(r.status ~= 0)
    end)
  end
end)

describe('dflow --restarts', function()
  it('runs a command again until it ends well, and not more often than it may', function()
    local chunk = "local n = tonumber(os.getenv 'DFLOW_RESTART') print(n) os.exit(n < 2 and 3 or 0)"
    local r = shell.run(('%s --restarts 3 -- %s -e "%s"'):format(dflow, dflow, chunk))
    assert.equal('0\n1\n2\n', r.out)
    assert.equal(0, r.status)
    assert.is_truthy(r.err:find('status 3: it is started again (1 of 3)', 1, true))
    r = shell.run(('%s --restarts 1 -- %s -e "%s"'):format(dflow, dflow, chunk))
    assert.equal('0\n1\n', r.out)
    assert.equal(3, r.status)
  end)

  it('gives the status of a command that is not there, or ends by a signal', function()
    assert.equal(127, shell.run(dflow .. ' --restarts 3 -- /no/such/command').status)
    assert.equal(137, shell.run(dflow .. " --restarts 0 -- sh -c 'kill -9 $$'").status)
  end)

  it('says how it is used', function()
    for _, words in ipairs{ '', ' x -- true', ' 3', ' 3 --', ' 3 true', ' -1 -- true' } do
      local r = shell.run(dflow .. ' --restarts' .. words)
      assert.is_truthy(r.err:find('--restarts n -- command', 1, true), words)
      assert.equal(1, r.status)
    end
  end)
end)
