--- The pages of devices and machines. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.all_reduce(list, {…})
  The sum of the list's elements, one on each device, for all of them: a list, each result where
  its input is. All places have the same bits. Large ones go round a ring, small ones by a tree.
  option    op: string = 'sum'  or 'mean', 'max', 'min', 'prod'
  gradient  that of the ops it is made of
  example   return df.all_reduce({df.float32{1, 2}, df.float32{3, 5}})[2]

df.all_gather(list, {…})
  The list's elements side by side along an axis: a list, each result where its input is.
  option    axis: int = 0  along which
  gradient  that of concat
  example   return df.all_gather({df.float32{1, 2}, df.float32{3}})[1]

df.broadcast(x, devices)
  A list of x on each of the devices.
  gradient  the sum of theirs
  example   return df.broadcast(df.float32{1, 2}, {'cpu:0', 'cpu:0'})[2]

df.cluster
  Several processes that turn one graph: rank 0 is this one, workers hold sessions like its own.
  df.device('/rank:1/cpu:0', fn) says what runs there. size and rank are fields. spmd is one, too:
  df.cluster.spmd = true before the first run (or dflow --spmd) has every rank run the script, under
  `dflow -n 4` or `mpirun -n 4`. All make the same runs and get the same values; a placeholder is
  fed by the rank that it is placed on. What differs is failed_precondition and names both lines.
  example   return df.cluster.size

df.cluster.start(n or hosts, program?)
  Starts workers on this host, so that there are n ranks; this process is rank 0. A list of hosts
  has a worker on each, by `ssh host dflow --host` (DFLOW_RSH is run in place of ssh): an encrypted
  ZeroMQ connection, which needs libzmq on both. A worker that
  dies, or gives no sign for two seconds, ends the runs it has a part in as `unavailable`.
  example   df.cluster.start(1) return df.cluster.size

df.cluster.restart()
  New workers in the place of those that are dead or hung. Their variables are uninitialised.
  example   df.cluster.restart() return df.cluster.size

df.cluster.stop()
  Ends the workers; this process goes on alone.
  example   df.cluster.stop() return df.cluster.size

df.cluster.ranks()
  A list of {rank =, host =, pid =, state =, why =, sent =, received =, latency =, waits =}; state
  is 'alive', 'hung' or 'dead', why says what became of it. latency: seconds that a message takes
  to it. waits = {rank =, seconds =, what =}: of the values that runs there wait for, the one that
  has not come from another rank for longest. Empty where there is no cluster.
  example   return #df.cluster.ranks()

df.cluster.jobs(jobs)
  Which ranks the tasks of jobs are: /job:ps/task:0 is rank 3 with {ps = {3}}. Without it, or with
  nil, task k of any job is rank k.
  example   df.cluster.jobs(nil) return df.cluster.rank

df.cluster.timeout(seconds)
  A rank that gives no sign for so long is hung. Two seconds at first.
  example   df.cluster.timeout(2) return df.cluster.rank

df.device(spec, fn)
  What fn builds is to be placed on that device: 'cpu:0', 'sim:1', TensorFlow's '/device:SIM:1', or a
  function of a node's op type that returns one. x.device is what was asked for. A device that the
  session does not have is an error of the run. Returns what fn returns.
  example   df.device('sim:0', function() return df.float32(1) + 1 end).device

df.devices()
  The devices of the default session: {{name =, kind =, memory = {in_use =, peak =, limit =}}, …}, in
  bytes, the host first; with rates = {flops =, bytes =, begin =} where the speed is 'measured'. 'sim:N' are simulated accelerators, with memory of their own, that every
  session has which lists no devices; they are there once a graph names them.
  example   df.devices()[1].name

df.colocate_with(x, fn)
  What fn builds is to be placed where x is. Returns what fn returns.
  example   local v = df.Variable(1.0)
            return df.colocate_with(v, function() return df.float32(1) + 1 end)
]==]
