--- The pages of sessions and runs. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.progress(n | list | iterator, {…})
  Iterates with a progress bar on standard error: for i in df.progress(1000) do … end, for i, x in df.progress(list), for … in
  df.progress(iterator, {total = 60}). The bar is shown where standard error is a terminal, once the loop has run for half a second.
  option    total: int = nil  the number of iterations of an iterator; without it a rate is shown and no bar
  option    label: string = nil  a text before the bar
  option    every: number = 0.1  seconds between updates
  option    write: function = nil  called with each line instead of the terminal; '' erases it
  example   local sum = 0 for i, x in df.progress{ 3, 4 } do sum = sum + i * x end return sum

df.run(fetches, feeds?, {…})
  Runs the nodes that the fetches need. Returns the values in the structure of fetches. feeds is
  {[x] = value, …}.
@run
  example   local p = df.placeholder('float32')
            return df.run({p + 1, double = p * 2}, {[p] = 3})

df.start(fetches, feeds?, {…})
  Starts a run in the background. Returns a Run, with h:wait(), h:pause(), h:step(), h:frames() and the
  other methods that ?Run lists.
@run
  example   local h = df.start(df.float32(2) * 3) return h:wait()

df.Session({…})
  Makes a session, with its own values of variables; ?Session lists its methods.
  option    graph: Graph = nil  the graph to run; the default graph otherwise
  option    tensors: bool = false  true: results of rank 0 are Tensors, too
  option    threads: int = nil  threads that run kernels; as many as the machine has cores otherwise
  option    engine: string = 'auto'  'tokens' runs every node by tagged tokens. 'native' compiles
              loops to machine code before their first iteration. 'auto' compiles loops that are hot, in the
              background. 'primitives' runs tokens, and fires each Merge, LoopCond, Switch, constant and
              Identity separately. All engines give the same bits
  option    timeout: number = nil  seconds after which a run ends with deadline_exceeded
  option    timeout_rank: number = nil  seconds after which a rank without a sign of life counts as hung;
              df.cluster.timeout otherwise, which is 2
  option    devices: list = nil  such as {'cpu:0', 'sim:0', {'sim:1', memory = '64MB', bandwidth =
              '1GB/s', latency = '5us', speed = 2}}. 'cpu:1' and further are CPUs with their own memory
              counters, to which values are copied. A node without a device runs on the first one, unless
              the cost model finds another faster, by known shapes or by a recorded run. speed =
              'measured' is the speed of this machine's kernels; df.devices() lists it. launch = '5us' is
              the time to start a kernel by the virtual clock, by default 1 us divided by speed. To test
              failures, in each run: fail_at = n, the device fails at its n-th kernel; link_fail_at = n
              loses, link_stall_at = n delays for ever the n-th message to or from it. The run ends with
              `unavailable`
  option    owners: int = 1  threads that run the partitions of a graph. Each owner has its own devices
              with their frames, iterations and tokens, and sends messages to the others. One owner runs
              any number of devices, and is fastest where messages are many and kernels small. Stepping
              and breakpoints pause all owners together, with messages in flight. A run by the virtual
              clock, with a GPU or with recomputed values has one owner, as s:placement says, and other
              threads compute large kernels of simulated devices. A graph function runs on its caller's
              owner. Results do not depend on the number of owners
  option    clock: string = 'real'  'virtual' is a discrete-event clock of the simulated devices, by a
              cost model of flops and bytes: stats().seconds is the time on such hardware. Messages that a
              device sends at one time share its bandwidth equally, and so do those that it receives. One
              window of parallel iterations is shared by all devices, for any number of owners.
              'virtual_owners' gives each owner its own window, as in real time
  option    soft_placement: bool = false  true: a node that cannot run on the device it asks for runs elsewhere
  option    memory: int or string = nil  the most that 'cpu:0' may use during runs, such as '512MB'
  option    plan_cache: int or string = '64MB'  the most that compiled plans and their run states may
              take; past it the least recently used are freed (never the last 8)
  option    save: string = 'keep'  the default save policy of loops, for values that a gradient needs:
              'keep'; 'swap' moves them to the host when their device is half full; 'recompute' frees them
              and computes them again from about sqrt(2n) kept iterations; 'auto' keeps them while they
              fit, then swaps or recomputes, whichever costs less. All give the same bits; stats().saved
              lists what was done with each value, and why
  option    batch: bool or string = false  true: one kernel call computes the ready nodes of different
              iterations and calls whose inputs have equal shapes. 'auto' does so for graph functions whose
              first runs, measured with and without it, were faster. Values have the same bits, but the
              gradient of a matrix may be one product over all calls. :explain shows the batch sizes
  option    simplify: bool = true  false: runs the graph as it is written. By default a plan merges equal
              nodes, folds constants, computes what a loop's iterations share once, when it is first
              needed, and removes x * 1 and casts, transposes and reshapes that cancel, where each value
              keeps its bits. s:placement and :explain y name these nodes. A run that is started paused,
              logged or with values kept runs the graph as it is written
  option    kernels: string = nil  'ref' uses the reference kernels, for comparison
  example   local s = df.Session{threads = 1} return s:run(df.float32(2) * 3)

df.default_session()
  Returns the session of df.run and x:eval for the default graph. It is made when it is first needed.
  example   df.type(df.default_session())

df.stats()
  Returns the counters of the default session: runs, nodes_run, dead_tokens, frames, iterations,
  stack_pushes, stack_pops, memory = {[device] = {in_use, peak, limit}}, swap, seconds, transfers =
  {['cpu:0 -> sim:0'] = {messages, bytes, dead}}, plans = {made, kept, bytes, limit}, and owners =
  {{nodes_run}, …}, with owners.why where the last run had one owner. A session's peak is the most in use
  during its runs, a run's (h:stats()) during that run; swap.stall_seconds is the time of the run in
  which a read waited for the host. Under a save policy other than 'keep': saved = {{value, line, save,
  why, tensors, bytes, swapped, recomputed}, …} and iterations_again, the recomputed iterations. Where a
  GPU ran loops: graph_captures, graph_entries (entries that reuse a capture), graph_launches,
  graph_iterations; of loops that are one kernel persistent_launches, persistent_iterations.
  example   df.run(df.float32(2) * 3) return df.stats().runs

df.init()
  Marks the variables of the default session as uninitialised. The next run that needs one initialises
  it.
  example   local v = df.Variable(1.0) df.run(v:assign(5)) df.init() return df.run(v)

df.reset_peak_memory()
  Resets the peaks in stats().memory, of all sessions, runs and devices, to what is in use now.
  example   df.reset_peak_memory()
            local m = df.stats().memory['cpu:0']
            return m.peak == m.in_use

df.clock()
  Returns the seconds of a monotonic clock. The difference of two calls is elapsed time; os.clock() is
  processor time, of all threads.
  example   local began = df.clock()
            df.run(df.float32(2) * 3)
            return df.clock() - began < 60
]==]
