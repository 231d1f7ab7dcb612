--- The pages of devices and machines. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.all_reduce(list, {…})
  Sums the elements of the list, one on each device. Returns a list with the result on each device. All
  devices get the same bits. Large tensors use a ring, small ones a tree.
  option    op: string = 'sum'  or 'mean', 'max', 'min', 'prod'
  gradient  that of the ops it is made of
  example   return df.all_reduce({df.float32{1, 2}, df.float32{3, 5}})[2]

df.all_gather(list, {…})
  Concatenates the elements of the list, one on each device. Returns a list with the result on each
  device.
  option    axis: int = 0  the axis to concatenate along
  gradient  that of concat
  example   return df.all_gather({df.float32{1, 2}, df.float32{3}})[1]

df.broadcast(x, devices)
  Copies x to each device. Returns the list of copies.
  gradient  the sum of the copies' gradients
  example   return df.broadcast(df.float32{1, 2}, {'cpu:0', 'cpu:0'})[2]

df.cluster
  Runs one graph in several processes. This process is rank 0; the other ranks are workers with sessions
  like its own. df.device('/rank:1/cpu:0', fn) places nodes on a rank. The fields size and rank give the
  number of ranks and this one's. Under `dflow -n 4` or `mpirun -n 4`, df.cluster.spmd = true before the
  first run, or dflow --spmd, makes every rank run the script. All ranks make the same runs and get the
  same values; a placeholder is fed by the rank on which it is placed. A difference between ranks is a
  failed_precondition error that names both lines.
  example   return df.cluster.size

df.cluster.start(n or hosts, program?)
  Starts workers on this host until there are n ranks; this process is rank 0. A list of hosts starts a
  worker on each host, by `ssh host dflow --host` (DFLOW_RSH names another command than ssh), over an
  encrypted ZeroMQ connection, which needs libzmq on both. When a worker dies, or sends nothing for two
  seconds, the runs in which it takes part end with `unavailable`.
  example   df.cluster.start(1) return df.cluster.size

df.cluster.restart()
  Replaces dead and hung workers by new ones. Their variables are uninitialised.
  example   df.cluster.restart() return df.cluster.size

df.cluster.stop()
  Ends the workers. This process continues alone.
  example   df.cluster.stop() return df.cluster.size

df.cluster.ranks()
  Returns a list of {rank =, host =, pid =, state =, why =, sent =, received =, latency =, waits =}. The
  state is 'alive', 'hung' or 'dead', and why is the reason. latency is the time of a message to the
  rank, in seconds. waits = {rank =, seconds =, what =} is the value for which the rank has waited longest,
  and the rank that sends it. The list is empty without a cluster.
  example   return #df.cluster.ranks()

df.cluster.jobs(jobs)
  Maps the tasks of jobs to ranks: with {ps = {3}}, /job:ps/task:0 is rank 3. By default, and with nil,
  task k of any job is rank k.
  example   df.cluster.jobs(nil) return df.cluster.rank

df.cluster.timeout(seconds)
  Sets the time after which a rank that sends nothing counts as hung. It is two seconds by default.
  example   df.cluster.timeout(2) return df.cluster.rank

df.device(spec, fn)
  Places the nodes that fn builds on a device: 'cpu:0', 'sim:1', TensorFlow's '/device:SIM:1', or what a
  function of the node's op type returns. x.device is the requested device. A device that the session
  does not have is an error of the run. Returns what fn returns.
  example   df.device('sim:0', function() return df.float32(1) + 1 end).device

df.devices()
  Returns the devices of the default session: {{name =, kind =, memory = {in_use =, peak =, limit =}}, …},
  in bytes, the host first; with rates = {flops =, bytes =, begin =} where the speed is 'measured'. 'sim:N'
  are simulated accelerators with their own memory. A session without a list of devices has each one
  that the graph names.
  example   df.devices()[1].name

df.colocate_with(x, fn)
  Places the nodes that fn builds on the device of x. Returns what fn returns.
  example   local v = df.Variable(1.0)
            return df.colocate_with(v, function() return df.float32(1) + 1 end)
]==]
