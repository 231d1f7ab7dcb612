--- The manual: a page per area, each of ten minutes. `dflow manual nn` and ?manual.nn show one;
-- spec/program/pages_spec.lua runs the code of every page (the lines that are indented) and compares what it prints
-- with the lines that begin with `-->`.
return {
  { 'nn', 'layers, losses and metrics', [==[
A layer is made once and called as often as one likes; its variables are made at the first call, when the shape of the input is
known, and later calls share them.

    local df    = require 'dflow'
    local model = df.nn.Sequential{ df.nn.Dense(16, { activation = df.relu }), df.nn.Dropout(0.5), df.nn.Dense(3) }
    local x     = df.placeholder('float32', { -1, 4 })
    local y     = df.placeholder('int32', { -1 })
    local seen, asked = model(x, { training = true }), model(x)      -- one set of weights; Dropout works in the first alone
    for _, v in ipairs(model:parameters()) do print(v.name, table.concat(v.shape, 'x')) end
    --> dense/kernel	4x16
    --> dense/bias	16
    --> dense_1/kernel	16x3
    --> dense_1/bias	3

`training` may be an Output, too, that is fed or computed. Layers in a body of a while_loop or a branch of a cond have their
variables outside of it, so a loop that calls a layer trains one set of weights.

Losses of df.nn give the mean over the batch; those of df (df.sparse_softmax_cross_entropy_with_logits) one number per example.
A metric is streaming: `update` adds a batch up, `value` is the metric of all that came.

    local loss = df.nn.sparse_softmax_cross_entropy(y, seen)
    local step = df.train.Adam(0.01):minimize(loss)
    local value, update = df.nn.metrics.accuracy(y, df.argmax(asked, 1))
    local flowers, kinds = { { 5, 3, 1, 0 }, { 6, 3, 5, 2 }, { 6, 3, 4, 1 } }, { 0, 2, 1 }
    for _ = 1, 200 do df.run(step, { [x] = flowers, [y] = kinds }) end
    df.run(update, { [x] = flowers, [y] = kinds })
    print(('%.0f %% right'):format(100 * df.run(value)))
    --> 100 % right

There are Dense, Conv1D, Conv2D, Conv3D, DepthwiseConv2D, their transposes, pooling, BatchNorm, LayerNorm, GroupNorm, RMSNorm,
Dropout, Embedding, attention (additive, dot-product, MultiHeadAttention with a cache that grows in a while_loop), TransformerBlock;
a layer of one's own is a function that calls others. ?nn lists them; each name has its page, ?nn.Conv2D.
What to look at: print(model) shows shapes and sizes, :graph loss the graph, df.saved(loss) what the gradient keeps.
]==] },
  { 'rnn', 'recurrent networks: cells, loops over time, decoders', [==[
A cell is called: cell(x, state) gives an output and the next state. dynamic_rnn runs it in a while_loop as long as the longest
example of a batch, whatever the lengths are: they are fed.

    local df = require 'dflow'
    df.set_random_seed(1)
    local cell    = df.rnn.MultiRNNCell{ df.rnn.GRUCell(8), df.rnn.ResidualWrapper(df.rnn.GRUCell(8)) }
    local x       = df.placeholder('float32', { -1, -1, 2 })
    local lengths = df.placeholder('int32', { -1 })
    local out, state = df.rnn.dynamic_rnn(cell, x, { lengths = lengths })
    local feeds = { [x] = { { { 1, 2 }, { 3, 4 }, { 5, 6 } }, { { 1, 2 }, { 9, 9 }, { 9, 9 } } }, [lengths] = { 2, 1 } }
    local y = df.run(out, feeds)
    print(table.concat(y.shape, 'x'), y:at(1, 1, 0) == 0)       -- zeros past an example's length
    --> 2x3x8	true
    print(df.run(df.reduce_max(df.abs(state[2])), feeds) > 0)
    --> true

`save = 'recompute'` keeps about the root of n iterations for the gradient and runs the others again; 'swap' moves what a full
device cannot hold; df.Session{save = 'auto'} chooses for each value. The numbers are the same.

    local g = df.gradients(df.reduce_sum(out), cell:parameters()[1])
    local out2 = df.rnn.dynamic_rnn(cell, x, { lengths = lengths, save = 'recompute' })
    local g2 = df.gradients(df.reduce_sum(out2), cell:parameters()[1])
    print(df.run(df.reduce_max(df.abs(g - g2)), feeds) < 1e-5)
    --> true

Decoders stop when every example has ended: df.rnn.decode with a helper (TrainingHelper feeds the target,
ScheduledEmbeddingTrainingHelper now and then what was drawn, GreedyEmbeddingHelper and SampleEmbeddingHelper the network's own),
df.rnn.beam_search with a step function. Here a "network" that counts, and ends at 5 (what follows the end is the end):

    local function count(ids, state)
      local next_id = df.one_hot(df.cast(ids, 'int32') + 1, 7, { on_value = df.float32(9), off_value = df.float32(0) })
      return df.log_softmax(next_id), state
    end
    local ids, scores = df.rnn.beam_search{ step = count, initial_state = df.zeros{ 1 }, start = 1, stop = 5, width = 2,
                                            max_steps = 9 }
    print(table.concat(df.run(ids):totable()[1][1], ' '))
    --> 2 3 4 5 5 5 5 5 5
    print(table.concat(df.run(scores).shape, 'x'))
    --> 1x2

A cell with attention looks at the memory of its example, whichever beam it is: cell:beams(2) is the same cell for two beams.

Wrappers: DropoutWrapper, ResidualWrapper, AttentionWrapper, ACTCell (thinks as long as each example needs).
What to look at: h = df.start(out, feeds, {paused = true}), then :step 2 iteration and :frames; the loop is called rnn/while.
Examples: digits_rnn, names_rnn, addition, act, trees.
]==] },
  { 'train', 'optimizers, loops, schedules', [==[
An optimizer's minimize gives an operation; running it is a step. Formulas and defaults are TensorFlow 1's; AdamW, SGD and others
agree with PyTorch's step for step.

    local df = require 'dflow'
    local w  = df.Variable({ 4.0, -2.0 }, { name = 'w' })
    local loss = df.reduce_sum(w * w)
    local at   = df.Variable(df.int32(0), { trainable = false, name = 'step' })
    local rate = df.train.cosine_decay(0.5, at, 60)
    local step = df.train.AdamW(rate, { weight_decay = 0, clip_norm = 5 }):minimize(loss, { global_step = at })
    for _ = 1, 60 do df.run(step) end
    print(df.run(loss) < 0.02, df.run(at) == 60)
    --> true	true

The same in the graph, where nothing comes back to Lua between steps: df.train.loop builds a step once, in a while_loop.

    local v = df.Variable(3.0, { name = 'v' })
    local done = df.train.loop(1000, function()
      return df.train.SGD(0.1):minimize(df.square(v - 1), { variables = { v } })
    end, { stop = function() return df.abs(v:value() - 1):lt(1e-3) end })
    print(df.run(done) < 100, ('%.2f'):format(df.run(v)))
    --> true	1.00

And df.train.fit has all of it for a first afternoon: shuffling, batches, progress, validation, patience.

    local x, y = df.tensor({ { 0 }, { 1 }, { 2 }, { 3 } }, 'float32'), df.tensor({ { 1 }, { 3 }, { 5 }, { 7 } }, 'float32')
    local h = df.train.fit(df.nn.Dense(1), { x, y }, { epochs = 300, optimizer = df.train.Adam(0.1), progress = false })
    print(('%.1f'):format(h:predict{ { 10 } }:at(0, 0)))
    --> 21.0

Besides: accumulation of gradients over steps, half precision with a loss scale, ExponentialMovingAverage, lbfgs and
conjugate_gradient as loops in the graph, synchronous replicas with backup workers. ?train lists them.
A loss that becomes NaN: df.run(step, feeds, {check_numerics = true}) ends at the first op that made one, and names it.
What to look at: df.progress(df.start(done)), :top, df.plot(h.loss).
]==] },
  { 'data', 'reading, and pipelines to a loop', [==[
Readers give Tensors: df.data.csv (typed columns), idx (MNIST's format), tfrecord, text, images (PNG, JPEG, PNM in folders),
df.load_npy and df.load_npz. A pipeline goes from any of them through stages to a Lua loop.

    local df = require 'dflow'
    local path = os.tmpname()
    local f = io.open(path, 'w')
    f:write('size,weight,kind\n1,2.5,oak\n2,5,ash\n3,7.5,oak\n')
    f:close()
    local t = df.data.csv(path)
    print(t.size.dtype, t.weight.dtype, t.kind.dtype, t.weight:at(2))
    --> int32	float32	string	7.5
    local p = df.data.pipeline{ t.size, t.weight }
      :shuffle(3, 1)                                            -- a seed: the same orders in each program
      :repeat_(2)
      :map(function(size, weight) return size, weight / size end)
      :batch(2)
      :prefetch(2)                                              -- the next are made while df.run uses the last
    local n, sum = 0, 0
    for size, density in p:each() do n, sum = n + size.shape[1], sum + density:at(0) end
    print(n, sum)
    --> 6	7.5

padded_batch and bucket_by_length are for elements of different lengths. A place in a pipeline can be kept in a checkpoint:

    local it = p:each()
    it()
    local place = it:state()
    local size = it()
    print(p:each{ state = place }():at(0) == size:at(0))
    --> true

What is wrong in a file is an error that names file and line:

    f = io.open(path, 'w')
    f:write('size\n1\ntwo\n')
    f:close()
    print(tostring(select(2, pcall(df.data.csv, path, { types = { size = 'int32' } }))):match(':3') ~= nil)
    --> true
    os.remove(path)
]==] },
  { 'checkpoints', 'saving and going on', [==[
df.save writes the variables of a session as safetensors, whole or not at all; df.restore sets all of them or none, after it has
compared names, dtypes and shapes. Optimizers' slots are variables; where the random ops are is kept, too: a run that goes on
computes what the other would have, bit for bit, whatever is looked at in between. A random op counts the runs in which it draws,
and draws anew in each; runs that read a variable, or evaluate the model without its dropout, count nowhere.

    local df = require 'dflow'
    local folder = os.tmpname() .. '.d'
    os.execute('mkdir ' .. folder)
    local w = df.Variable({ 1.0, 2.0 }, { name = 'w' })
    local step = df.train.Adam(0.1):minimize(df.reduce_sum(w * df.random_uniform{ 2 }))
    local saver = df.train.Saver{ max_to_keep = 2, background = true }
    for i = 1, 6 do
      df.run(step)
      if i % 2 == 0 then saver:save(folder .. '/net', { step = i }) end   -- returns at once, writes what the values are now
    end
    saver:wait()
    local after = df.run(w):totable()
    print(#saver:checkpoints(folder .. '/net'), saver:latest(folder .. '/net'):match '[^/]*$')
    --> 2	net-6.safetensors

Back to step 4, and two steps from there, are the same numbers:

    saver:restore(folder .. '/net-4')
    df.run(step) df.run(step)
    local again = df.run(w):totable()
    print(again[1] == after[1] and again[2] == after[2])
    --> true

A file of another model is an error that says what does not fit; `map` renames, `partial = true` takes what fits and tells
the rest. The files of PyTorch (safetensors), NumPy (npz) and Keras (.keras, .h5) are read the same way, and
df.load_checkpoint reads TensorFlow's.

    df.save_safetensors(folder .. '/other', { w = df.tensor{ 1.0, 2.0, 3.0 } })
    print(tostring(select(2, pcall(df.restore, folder .. '/other', { variables = { w } }))):match 'float32%[3%] in the file' ~= nil)
    --> true
    print(df.run(w):at(0) == again[1])                          -- nothing was changed
    --> true
    os.execute('rm -r ' .. folder)

A kill at any moment, a full disk, a bad sector leave the last good file. `best = 'min'` keeps the best by a metric besides;
`shard_bytes` writes several files with an index. The values of a background save are those of the call: what a step assigns
meanwhile goes to memory of its own, so there must be memory for two while it is written.
]==] },
  { 'summaries', "TensorBoard's files, and plots without it", [==[
A FileWriter writes event files that TensorBoard reads as they grow: scalars, histograms, images, texts, the graph
and how long its nodes took.

    local df = require 'dflow'
    local folder = os.tmpname() .. '.d'
    local w = df.summary.FileWriter(folder)
    local v = df.Variable(df.random_normal({ 100 }, { seed = 1 }), { name = 'v' })
    local loss = df.reduce_mean(v * v)
    local step = df.train.SGD(10):minimize(loss)
    w:graph()
    local losses = {}
    for i = 1, 20 do
      local l = df.run{ loss, step }[1]
      losses[i] = l
      w:scalar('loss', l, i)
      if i % 10 == 0 then w:histogram('weights', df.run(v), i) end
    end
    w:image('a picture', df.tensor({ { 0, 255 }, { 255, 0 } }, 'uint8'), 20)
    w:text('a note', 'it **fell**', 20)
    local h = df.start(step, nil, { log = true })               -- the times of its nodes, for the graph
    h:wait()
    w:run_metadata('step 20', h, 20)
    w:close()
    print(losses[20] < losses[1] / 10)
    --> true
    local records = 0
    for _ in df.data.tfrecord(w.path) do records = records + 1 end
    print(records)                                              -- the version, the graph, 20 + 2 + 1 + 1 + 1
    --> 27
    os.execute('rm -r ' .. folder)

then `tensorboard --logdir FOLDER`. Without TensorBoard: print(df.plot(losses)) draws in the terminal, df.plot(losses):save
'loss.svg' a picture, and df.run(step, feeds, {report = 'run.html'}) a page with the graph, its tokens and their times.
]==] },
  { 'linear', 'linear algebra, transforms, sorting', [==[
The functions are TensorFlow 1's, over the last two axes of any batch, by LAPACK; those that have a derivative have a gradient.

    local df = require 'dflow'
    local a = df.constant({ { 4, 1 }, { 1, 3 } }, 'float64')
    local b = df.constant({ { 1 }, { 2 } }, 'float64')
    local x = df.matrix_solve(a, b)
    local l = df.cholesky(a)
    print(df.run(df.reduce_max(df.abs(df.matmul(a, x) - b))) < 1e-12)
    --> true
    print(df.run(df.reduce_max(df.abs(df.cholesky_solve(l, b) - x))) < 1e-12)
    --> true
    print(('%.3f %.3f'):format(df.run(df.reduce_prod(df.self_adjoint_eigvals(a))), df.run(df.matrix_determinant(a))))
    --> 11.000 11.000

A solution can be differentiated, here d(sum x)/da, which is -a^-T 1 x^T, and a decomposition in a loop:

    local g = df.gradients(df.reduce_sum(x), a)
    local expected = -df.matmul(df.matrix_solve(df.transpose(a), df.ones({ 2, 1 }, 'float64')), df.transpose(x))
    print(df.run(df.reduce_max(df.abs(g - expected))) < 1e-12)
    --> true
    local _, q = df.while_loop(function(i) return i:lt(40) end, function(i, m)       -- the QR algorithm
      local q, r = df.qr(m)
      return i + 1, df.matmul(r, q)
    end, { df.int32(0), a })
    print(('%.4f %.4f'):format(df.run(q):at(0, 0), df.run(df.self_adjoint_eigvals(a)):at(1)))
    --> 4.6180 4.6180

There are matrix_triangular_solve, matrix_inverse, lstsq, svd, tridiagonal_solve; fft, rfft and their inverses; sort, argsort,
searchsorted, top_k, histogram_fixed_width, bincount, unique. df.HashTable turns words into numbers.
A matrix that has no inverse is an error that names the op and its line.
]==] },
  { 'functions', 'graph functions, recursion, Lua in the graph', [==[
df.func makes a graph function. It is called like a Lua function and may call itself; each call opens a frame, calls that do not
depend on each other run at the same time, and gradients go back through the recursion.

    local df = require 'dflow'
    local power
    power = df.func('power', { 'float32', 'int32' }, function(x, n)
      return df.cond(n:eq(0), function() return df.float32(1) end, function()
        local half = power(x, df.floordiv(n, 2))
        return half * half * df.cond(df.floormod(n, 2):eq(1), function() return x end, function() return df.float32(1) end)
      end)
    end, { returns = { 'float32' } })
    local x = df.placeholder('float32', {})
    local y = power(x, 10)
    print(('%.0f %.0f'):format(df.run(y, { [x] = 2 }), df.run(df.gradients(y, x), { [x] = 2 })))
    --> 1024 5120

df.lua_func is the other way round: a Lua function as an op, called when it runs, on the thread of the Lua state. For environments,
logging, whatever the graph does not know. With `gradient` it has one.

    local log = {}
    local square = df.lua_func(function(v) log[#log + 1] = v return v * v end, { x }, { 'float32' },
                               { gradient = function(v, _, dy) return 2 * v * dy end, shapes = { {} } })
    print(('%.0f %.0f %d'):format(df.run(square, { [x] = 3 }), df.run(df.gradients(square, x), { [x] = 3 }), #log))
    --> 9 6 1

df.custom_gradient gives a gradient of one's own to what is made of ops, df.checkpoint computes again what the gradient needs.

    local clipped = df.custom_gradient(function(v) return v * 10, function(dy) return df.clip_by_value(dy * 10, -1, 1) end end)
    print(('%.0f'):format(df.run(df.gradients(clipped(x), x), { [x] = 3 })))
    --> 1

What to look at: h = df.start(y, {[x] = 2}, {paused = true}), :step 50, :frames shows calls in calls. Example: trees.
]==] },
  { 'queues', 'queues, runners, replicas', [==[
A queue lives in the session: what one run puts in, another takes out; a full queue holds back producers, an empty one consumers. A
QueueRunner is a while_loop that fills one, in the background, without Lua; a Coordinator starts and ends runners.

    local df = require 'dflow'
    local q = df.FIFOQueue(4, 'float32', { shapes = { {} } })
    df.train.QueueRunner(q, function(i) return q:enqueue(df.cast(i, 'float32') * 2) end, { steps = 5 })
    local c = df.train.start_queue_runners()
    local x, sum = q:dequeue(), 0
    while true do
      local ok, v = pcall(c.run, c, x)
      if not ok then
        print(v.code)                                           -- the runner has ended, and the queue is empty
        break
      end
      sum = sum + v
    end
    --> out_of_range
    print(('%.0f'):format(sum))
    --> 20
    c:join()

What goes wrong in a runner is raised by the next c:run and by c:join. PaddingFIFOQueue pads what dequeue_many takes together,
RandomShuffleQueue and PriorityQueue choose what comes next:

    local p = df.PriorityQueue(9, { 'string' }, { shapes = { {} } })
    df.run(p:enqueue_many(df.int64{ 3, 1, 2 }, df.constant{ 'c', 'a', 'b' }))
    local order = df.run(select(2, p:dequeue_many(3)))
    print(order:at(0) .. order:at(1) .. order:at(2))
    --> abc

df.train.synchronous makes one step of those of several replicas, and leaves the late ones out: ?train.synchronous.
What to look at: :runs lists what runs in the background, :attach n and :frames show where a runner stands.
]==] },
}
