--- The pages of sessions and runs. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.progress(n | list | iterator, {…})
  The same loop, with a line about it on standard error, below what is printed, once it has run for half a second, where that is a terminal: for i in
  df.progress(1000) do … end, for i, x in df.progress(list), for … in df.progress(iterator, {total = 60}).
  option    total: int = nil  how many rounds an iterator has; without, there is a rate and no bar
  option    label: string = nil  what stands before it
  option    every: number = 0.1  seconds between two lines
  option    write: function = nil  called with the line in place of the terminal; '' wipes it
  example   local sum = 0 for i, x in df.progress{ 3, 4 } do sum = sum + i * x end return sum

df.run(fetches, feeds?, {…})
  Runs what the fetches need and gives their values in the structure of fetches. feeds is {[x] =
  value, …}.
@run
  example   local p = df.placeholder('float32')
            return df.run({p + 1, double = p * 2}, {[p] = 3})

df.start(fetches, feeds?, {…})
  The same in the background: a Run, with h:wait(), h:pause(), h:step(), h:frames() and what else
  ?Run lists.
@run
  example   local h = df.start(df.float32(2) * 3) return h:wait()

df.Session({…})
  A session of its own, with its own values of the variables; ?Session tells what it can do.
  option    graph: Graph = nil  the default graph otherwise
  option    tensors: bool = false  results of rank 0 are Tensors, too, in all its runs
  option    threads: int = nil  as many as the machine has cores otherwise
  option    engine: string = 'auto'  'tokens': every node by tagged tokens; 'native': loops of
              numbers and small tensors as machine code from their first iteration on; 'auto': once
              they have become hot, compiled meanwhile. The results are the same, bit for bit;
              'primitives': as tokens, and every node of the graph fires on its own: each
              Merge, LoopCond, Switch, constant and Identity
  option    timeout: number = nil  seconds that a run may take
  option    timeout_rank: number = nil  seconds after which a rank that gives no sign counts as hung, in
              runs of this session; df.cluster.timeout's otherwise, which is 2
  option    devices: list = nil  such as {'cpu:0', 'sim:0', {'sim:1', memory = '64MB', bandwidth =
              '1GB/s', latency = '5us', speed = 2}}; 'cpu:1' and on are CPUs beside the host, whose
              values are copied and counted apart; the first takes what asks for no device,
              unless it takes less time beside what it needs or on a faster one, by the shapes that are
              known, or by what it took in a run that was recorded or logged.
              speed = 'measured': as fast as this machine's kernels are, and what is chosen by costs
              goes by the clock; df.devices() says what was measured. launch = '5us': what each kernel
              takes to begin, by the virtual clock; else 1 us by its speed. To try
              what happens then, in each run: fail_at = n, the device is dead at its n-th kernel;
              link_fail_at = n, link_stall_at = n: the n-th message to or from it is lost, or never
              comes. The run ends with `unavailable`
  option    owners: int = 1  how many threads turn the partitions of a run: each has devices of its own
              and their frames, iterations and tokens, and sends the others messages. One turns any
              number of devices, and is fastest where messages are many and kernels small. To be looked
              at, stepped or stopped at a breakpoint they pause together, with messages where
              they are. A run by the virtual clock, with a GPU or with values to be computed again has
              its books kept by one, which s:placement says, and the others compute the large
              kernels of the simulated devices. A graph function belongs to its caller. The results
              do not depend on it
  option    clock: string = 'real'  'virtual': a clock of the simulated devices, by a cost model of
              flops and bytes: stats().seconds is what such hardware would take. What a device sends
              to all others at one time shares its bandwidth equally, and so does what it receives
  option    soft_placement: bool = false  true: what cannot run where it was asked to runs elsewhere
  option    memory: int or string = nil  a limit for 'cpu:0' while runs go on, such as '512MB'
  option    plan_cache: int or string = '64MB'  what plans of signatures that ran may take, with the
              states of their runs; past it those go that were not used for longest (never the last 8)
  option    save: string = 'keep'  for loops that say nothing, what becomes of values that a gradient
              needs: 'keep'; 'swap': to the host when their device is half full; 'recompute': let go
              and computed again, from about sqrt(2n) iterations that are kept; 'auto': kept while they
              fit, then swapped or computed again, whatever costs less. The results are the same bits;
              stats().saved says what became of each value, and why
  option    batch: bool or string = false  true: ready nodes of different iterations and calls whose inputs
              have equal shapes are one kernel call; 'auto': those of calls of graph functions, where the
              first runs, with and without by turns, took less time with it. Values have the same bits, but gradients of matrices may be one product over all calls.
              :explain shows how many went together
  option    simplify: bool = true  false: a run computes the graph as it is written. By default nodes that
              compute the same are computed once, constants are computed when the plan is made, what the
              iterations of a loop share is computed by the first one that needs it, and x * 1,
              casts, transposes and reshapes that cancel are left out, wherever each value has the same
              bits without them. s:placement and :explain y name all that;
              a run that is started paused, logged or with its values kept is that of the graph as it is written
  option    kernels: string = nil  'ref': the reference kernels, to compare with
  example   local s = df.Session{threads = 1} return s:run(df.float32(2) * 3)

df.default_session()
  The session of df.run and x:eval for the default graph; made when it is first needed.
  example   df.type(df.default_session())

df.stats()
  Counters of the default session since it began: runs, nodes_run, dead_tokens, frames,
  iterations, stack_pushes, stack_pops, memory = {[device] = {in_use, peak, limit}}, swap, seconds,
  transfers = {['cpu:0 -> sim:0'] = {messages, bytes, dead}}, plans = {made, kept, bytes, limit},
  A session's peak is the most in use while its runs went on, a run's (h:stats()) while that run
  did; swap.stall_seconds is the time of the run in which a read waited for the host.
  owners = {{nodes_run}, …}: what each of a Session's owners turned; owners.why: why one turned the last run.
  Where a Session's save says more than 'keep': saved = {{value, line, save, why, tensors, bytes,
  swapped, recomputed}, …} and iterations_again, those that ran a second time. Where a GPU ran
  loops: graph_captures, graph_entries (without one), graph_launches, graph_iterations, and of loops
  that are one kernel persistent_launches, persistent_iterations.
  example   df.run(df.float32(2) * 3) return df.stats().runs

df.init()
  Sets the variables of the default session back: the next run that needs them initialises them.
  example   local v = df.Variable(1.0) df.run(v:assign(5)) df.init() return df.run(v)

df.reset_peak_memory()
  The peaks in stats().memory of all sessions, runs and devices begin anew, from what is in use now.
  example   df.reset_peak_memory()
            local m = df.stats().memory['cpu:0']
            return m.peak == m.in_use

df.clock()
  Seconds that only go forward, from some moment on: the difference of two of them is how long
  something took on the wall. os.clock() is the processor's time, of all threads.
  example   local began = df.clock()
            df.run(df.float32(2) * 3)
            return df.clock() - began < 60
]==]
