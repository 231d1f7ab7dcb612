--- The pages of df.train, as docs/functions.lua has those of df.
local pages = require 'dflow.docs.pages'

local text = [==[
df.train
  Training: fit, optimizers with :minimize(loss), learning rate schedules, averages of weights,
  checkpoints, replicas and queue runners.
  example   local w = df.Variable(5.0)
            df.run(df.train.SGD(0.1):minimize(w * w))
            return df.run(w)

df.train.SGD(learning_rate, {…})
  Gradient descent: v -= learning_rate * gradient. GradientDescentOptimizer is its long name.
  option    clip_norm: number = nil  clips all gradients to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.SGD(0.1):minimize(w * w))
            return df.run(w)

df.train.Momentum(learning_rate, momentum = 0.9, {…})
  a = momentum * a + gradient; v -= learning_rate * a. MomentumOptimizer is its long name.
  option    use_nesterov: bool = false  true: Nesterov's momentum
  option    clip_norm: number = nil  clips all gradients to this global norm
  example   local w = df.Variable(5.0)
            local step = df.train.Momentum(0.1):minimize(w * w)
            df.run(step)
            df.run(step)
            return df.run(w)

df.train.Nesterov(learning_rate, momentum = 0.9, {…})
  Nesterov's momentum: v -= learning_rate * (gradient + momentum * a).
  option    clip_norm: number = nil  clips all gradients to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.Nesterov(0.1):minimize(w * w))
            return df.run(w)

df.train.Adagrad(learning_rate, initial_accumulator = 0.1, {…})
  a += gradient ^ 2; v -= learning_rate * gradient / sqrt(a). AdagradOptimizer is its long name.
  option    initial_accumulator_value: number = nil  TensorFlow's name for initial_accumulator
  option    clip_norm: number = nil  clips all gradients to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.Adagrad(0.1):minimize(w * w))
            return df.run(w)

df.train.Adadelta(learning_rate = 0.001, rho = 0.95, epsilon = 1e-8, {…})
  Steps as long as the root mean square of former steps over that of gradients (Zeiler, 2012).
  AdadeltaOptimizer is its long name.
  option    clip_norm: number = nil  clips all gradients to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.Adadelta(1):minimize(w * w))
            return df.run(w)

df.train.RMSProp(learning_rate, decay = 0.9, momentum = 0, epsilon = 1e-10, {…})
  Gradients over the root of their mean square, by TensorFlow's formula: epsilon is added to the
  mean square before the root is taken, where PyTorch adds it to the root. RMSPropOptimizer is its
  long name.
  option    centered: bool = false  true: divides by the standard deviation
  option    clip_norm: number = nil  clips all gradients to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.RMSProp(0.1):minimize(w * w))
            return df.run(w)

df.train.Ftrl(learning_rate, learning_rate_power = -0.5, initial_accumulator = 0.1, l1 = 0, l2 = 0, {…})
  Follow the regularised leader (McMahan et al., 2013): with l1 many weights end at 0. FtrlOptimizer
  is its long name.
  option    l2_shrinkage: number = 0  a penalty on the size of the weights, besides l2
  option    initial_accumulator_value: number = nil  TensorFlow's name for initial_accumulator
  option    l1_regularization_strength: number = nil  TensorFlow's name for l1
  option    l2_regularization_strength: number = nil  TensorFlow's name for l2
  option    l2_shrinkage_regularization_strength: number = nil  TensorFlow's name for l2_shrinkage
  option    clip_norm: number = nil  clips all gradients to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.Ftrl(0.1):minimize(w * w))
            return df.run(w)

df.train.Adam(learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, {…})
  Adam (Kingma and Ba, 2015), with its running means m of the gradient and v of its square, by
  TensorFlow's formula: w -= learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) +
  epsilon). So epsilon is the paper's `epsilon hat`, added before v is corrected; PyTorch and optax
  correct v first: epsilon * sqrt(1 - beta2^t) is in its place there, and in AdamW here.
  AdamOptimizer is its long name.
  option    use_nesterov: bool = false  true: Nesterov's momentum
  option    clip_norm: number = nil  clips all gradients to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.Adam(0.1):minimize(w * w))
            return df.run(w)

df.train.AdamW(learning_rate = 0.001, {…})
  Adam with decoupled weight decay, as PyTorch's: subtracts learning_rate * weight_decay * v from v before
  each step. A sparse gradient decays only its rows.
  option    weight_decay: number = 0.01  the fraction of the weights to subtract
  option    beta1: number = 0.9  the decay of the mean of gradients
  option    beta2: number = 0.999  the decay of the mean of their squares
  option    epsilon: number = 1e-8  added to the root of the mean of squares
  option    clip_norm: number = nil  clips all gradients to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.AdamW(0.1):minimize(w * w))
            return df.run(w)

df.train.Nadam(learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, {…})
  Adam with Nesterov's momentum, as TensorFlow 1's contrib.
  option    clip_norm: number = nil  clips all gradients to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.Nadam(0.1):minimize(w * w))
            return df.run(w)

df.train.Lamb(learning_rate = 0.001, {…})
  AdamW's step, scaled per variable by the norm of the weights over that of the step (You et al.,
  2020): for large batches.
  option    weight_decay: number = 0.01  the fraction of the weights to subtract
  option    beta1: number = 0.9  the decay of the mean of gradients
  option    beta2: number = 0.999  the decay of the mean of their squares
  option    epsilon: number = 1e-6  added to the root of the mean of squares
  option    clip_norm: number = nil  clips all gradients to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.Lamb(0.1):minimize(w * w))
            return df.run(w)

df.train.exponential_decay(learning_rate, global_step, decay_steps, decay_rate, staircase = false, {…})
  learning_rate * decay_rate ^ (global_step / decay_steps), a learning rate that decreases with the
  step. For a list of steps, such as df.range(100), it returns the curve.
  option    staircase: bool = false  true: changes at multiples of decay_steps only
@name
  example   df.train.exponential_decay(0.5, df.int32(10), 10, 0.9)

df.train.natural_exp_decay(learning_rate, global_step, decay_steps, decay_rate, staircase = false, {…})
  learning_rate * e ^ (-decay_rate * global_step / decay_steps).
  option    staircase: bool = false  true: changes at multiples of decay_steps only
@name
  example   df.train.natural_exp_decay(0.5, df.int32(10), 10, 0.9)

df.train.inverse_time_decay(learning_rate, global_step, decay_steps, decay_rate, staircase = false, {…})
  learning_rate / (1 + decay_rate * global_step / decay_steps).
  option    staircase: bool = false  true: changes at multiples of decay_steps only
@name
  example   df.train.inverse_time_decay(0.5, df.int32(10), 10, 0.9)

df.train.polynomial_decay(learning_rate, global_step, decay_steps, end_learning_rate = 0.0001, power = 1, {…})
  Decreases from learning_rate to end_learning_rate in decay_steps, along (1 - step / decay_steps) ^ power.
  option    cycle: bool = false  true: begins again, over more steps each time
@name
  example   df.train.polynomial_decay(0.1, df.int32(50), 100)

df.train.cosine_decay(learning_rate, global_step, decay_steps, alpha = 0, {…})
  Decreases from learning_rate to alpha * learning_rate in decay_steps, along half a cosine.
@name
  example   df.train.cosine_decay(0.1, df.int32(50), 100)

df.train.cosine_decay_restarts(learning_rate, global_step, first_decay_steps, t_mul = 2, m_mul = 1, alpha = 0, {…})
  Restarts cosine_decay repeatedly, each time t_mul as long and m_mul as high (Loshchilov and Hutter,
  2017).
@name
  example   df.train.cosine_decay_restarts(0.1, df.int32(200), 100)

df.train.linear_cosine_decay(learning_rate, global_step, decay_steps, num_periods = 0.5, alpha = 0, beta = 0.001, {…})
  learning_rate * ((alpha + 1 - step / decay_steps) * a cosine of num_periods + beta).
@name
  example   df.train.linear_cosine_decay(0.1, df.int32(50), 100)

df.train.piecewise_constant(x, boundaries, values, {…})
  Returns values[1] up to boundaries[1], values[2] up to boundaries[2], and so on; the last value beyond
  all boundaries. x is a step count.
@name
  example   df.train.piecewise_constant(df.int32(7), {5, 10}, {1.0, 0.5, 0.1})

df.train.ExponentialMovingAverage(decay, num_updates, {…})
  Averages variables. :apply(vars) returns the operation that updates the averages, shadow = decay * shadow
  + (1 - decay) * value; :average(v) returns the Variable of an average. With a step count as num_updates,
  early averages change faster. :variables_to_restore(vars) returns a map for df.restore.
  option    zero_debias: bool = false  true: corrects averages of outputs, which begin at zero
@name
  example   local v = df.Variable(1.0)
            local average = df.train.ExponentialMovingAverage(0.9)
            local move = average:apply{v}
            df.run(v:assign(2.0))
            df.run(move)
            return df.run(average:average(v))

df.train.lbfgs(fn, x0, {…})
  Minimises fn(x), a scalar, from x0. Returns x, fn(x) and the number of iterations. It is one loop in the
  graph, around a line search.
  option    memory: int = 10  the number of steps that approximate the curvature
  option    max_iterations: int = 100  the most iterations
  option    tolerance: number = 1e-5  ends when no element of the gradient is larger
@name
  example   local x = df.train.lbfgs(function(x) return df.reduce_sum((x - 3) ^ 2) end, df.zeros{2})
            return df.round(x)

df.train.conjugate_gradient(fn, x0, {…})
  Minimises fn as df.train.lbfgs does, by nonlinear conjugate gradients.
  option    max_iterations: int = 100  the most iterations
  option    tolerance: number = 1e-5  ends when no element of the gradient is larger
@name
  example   local function f(x) return df.reduce_sum((x - 3) ^ 2) end
            return df.round((df.train.conjugate_gradient(f, df.zeros{2})))

df.train.loop(steps, fn, {…})
  Builds a training loop in the graph. fn(i, carry) is called once, to build a step, and returns the next
  carry or nothing; its assignments happen in each step. Returns the last carry, or the number of steps.
  Fetch it to run the loop.
  option    carry: table = nil  a structure of values passed from step to step
  option    stop: function = nil  stop(i, carry) returns a scalar bool: true ends the loop
  option    report: function = nil  report(i, carry) builds effects, such as df.print
  option    every: int = 1  the number of steps between reports
  option    parallel_iterations: int = 1  as of while_loop
  option    save: string = 'keep'  as of while_loop
@name
  example   local w, o = df.Variable(5.0), df.train.SGD(0.1)
            df.run(df.train.loop(10, function() o:minimize(w * w) end))
            return df.run(w)

df.train.fit(model, data, {…})
  Trains a model, a layer or function(x, training), on data: {x, y}, or a pipeline of batches (x, y).
  Returns {loss = {of each epoch}, …} with :predict(x) and :evaluate(data).
  option    loss: function or string = nil  a function of labels and predictions, or a name in df.nn; without
            it sparse_softmax_cross_entropy where y is whole numbers, else mean_squared_error
  option    optimizer: table = Adam()  the optimizer, such as df.train.SGD(0.1)
  option    epochs: int = 1  the number of passes over the data
  option    batch_size: int = 32  the number of rows of a step
  option    shuffle: bool = true  shuffles the rows in each epoch
  option    seed: int = 0  the seed of these orders
  option    validation: table = nil  data to evaluate after each epoch
  option    metrics: table = nil  {name = function(labels, predictions)}; accuracy for classes
  option    patience: int = nil  ends when the loss has not decreased for so many epochs
  option    progress: bool or function = true  prints a line per epoch, or calls the function with it
  option    session: Session = nil  the default session otherwise
  option    check_numerics: bool = false  true: stops at the op that made the first NaN, and names it
  option    stop_on: string = nil  'nan': ends the training when the loss is not finite, and
            .stopped of what it gives says where; without it that is an error
  option    summary: string or FileWriter = nil  a folder of event files: for each step the loss and
            the gradients' norm, of each epoch metrics and histograms of the weights
  option    checkpoint: string = nil  a path, written when an epoch ends; where it is there, fit goes
            on from it, to the bits of a run that was never interrupted: same batches, same numbers
  option    checkpoint_steps: int = nil  written after so many steps each, too
  option    restarts: int = nil  so often, when a rank is lost: df.cluster.restart(), and on from it
  example   local x, y = df.tensor{{1.0}, {2.0}, {3.0}}, df.tensor{{3.0}, {5.0}, {7.0}}
            local o = {epochs = 300, optimizer = df.train.Adam(0.1), progress = false}
            local h = df.train.fit(df.nn.Dense(1), {x, y}, o)
            return df.round(h:predict{{10.0}})

df.train.Accumulate(optimizer, steps)
  Returns an optimizer that sums the gradients of `steps` runs and takes one step with their mean, for
  batches that do not fit into memory. global_step counts the steps.
  example   local w = df.Variable(5.0)
            local step = df.train.Accumulate(df.train.SGD(0.1), 2):minimize(w * w)
            df.run(step)
            df.run(step)
            return df.run(w)

df.train.MixedPrecision(optimizer, {…})
  Trains variables of float16 or bfloat16 with float32 copies of them. It multiplies the loss by a scale,
  so that small gradients do not vanish, and skips a step whose gradients are not finite. :loss_scale()
  returns the scale as an Output.
  option    loss_scale: number or string = 'dynamic'  a fixed scale, or one that changes:
  option    initial_scale: number = 32768  the first scale
  option    multiplier: number = 2  the scale is divided by this after a skipped step
  option    period: int = 2000  and multiplied by it after so many steps without a skip
  example   local w = df.Variable(5.0, {dtype = 'float16'})
            local o = df.train.MixedPrecision(df.train.SGD(0.1), {loss_scale = 64})
            df.run(o:minimize(w * w))
            return df.run(w)

df.train.replicate(n or devices, fn, {…})
  Builds fn(k), a loss, on each device (a number: on so many ranks), and a step with the mean of their
  gradients. Returns {loss =, losses =, step =}. Make layers and variables before the call.
  option    optimizer: table = nil  the optimizer, such as df.train.SGD(0.1)
  option    backup: int = 0  the number of late devices whose gradients a step does not wait for
  option    mode: string = 'sync'  'async': step is a list with a separate step for each device: run
            each in a thread of its own (df.start); variables lie where they were made, on a
            parameter server, say
  example   local w, rows = df.Variable(0.0), df.constant{1.0, 3.0}
            local function loss(k) return (w - rows[k - 1]) ^ 2 end
            local o = {optimizer = df.train.SGD(0.25)}
            local r = df.train.replicate({'cpu:0', 'cpu:0'}, loss, o)
            for _ = 1, 20 do df.run(r.step) end
            return df.round(w)

df.train.synchronous(fn, {…})
  Builds synchronous training in one graph, by loops and queues: replicas compute gradients of the same
  weights, and a chief sums them and takes the step. fn(replica, step) builds the loss of a replica.
  Returns {steps =, loss =, late =, looks =}; fetch it to train.
  option    replicas: int = 2  the number of replicas
  option    backup: int = 0  the number of late replicas whose gradients a step does not wait for
  option    steps: int = nil  the number of steps
  option    optimizer: table = nil  the optimizer, such as df.train.SGD(0.1)
  option    variables: list = nil  the variables to train; all trainable ones otherwise
@name
  example   local w, rows = df.Variable(0.0), df.constant{1.0, 2.0, 6.0}
            local function loss(replica) return (w - rows[replica - 1]) ^ 2 end
            local o = {replicas = 3, steps = 40, optimizer = df.train.SGD(0.1)}
            df.run(df.train.synchronous(loss, o))
            return df.round(w)

df.train.QueueRunner(queue, fn, {…})
  Fills a queue in the background: fn(i) builds an enqueue, and a loop in the graph repeats it. The queue
  is closed when the loop ends. A Coordinator starts it.
  option    loops: int = 1  the number of concurrent loops
  option    steps: int = nil  the number of repetitions; otherwise until the queue is closed or the source ends
@name
  example   local q = df.FIFOQueue(4, 'int32', {shapes = {{}}})
            df.train.QueueRunner(q, function(i) return q:enqueue(i * i) end, {steps = 3})
            local c, x = df.train.start_queue_runners(), q:dequeue()
            local list = {c:run(x), c:run(x), c:run(x)}
            c:join()
            return list

df.train.Coordinator()
  Starts and stops queue runners together: :start(runners), :run(fetches), which raises a runner's error,
  :should_stop(), :request_stop(), :join{timeout = 60}.
  example   local c = df.train.Coordinator()
            c:request_stop()
            return c:should_stop()

df.train.start_queue_runners({…})
  Starts all queue runners of a session's graph. Returns their coordinator.
  option    session: Session = nil  the default session otherwise
  option    coordinator: table = nil  an existing coordinator to use
  example   local q = df.FIFOQueue(4, 'int32', {shapes = {{}}})
            df.train.QueueRunner(q, function(i) return q:enqueue(i) end)
            local c = df.train.start_queue_runners()
            c:run(q:dequeue())
            c:join()
            return c:should_stop()

df.train.Saver({…})
  Makes a Saver of checkpoints: :save(prefix, {step =, session =, metric =}) writes
  prefix-STEP.safetensors and removes the oldest; :latest(prefix) and :best(prefix) name one;
  :restore(path) reads one; :checkpoints(prefix) lists them; :wait() waits for the disk.
  option    max_to_keep: int = 5  the number of checkpoints to keep; 0: all
  option    variables: list = nil  the variables to save; all otherwise, with optimizers' slots
  option    queues: list = nil  queues whose elements are saved and restored, too
  option    best: string = nil  'min' or 'max': the one with the best metric is kept besides
  option    shard_bytes: int = nil  as for df.save
  option    background: bool = false  :save returns at once; it is written while training goes on
  example   local v, saver = df.Variable(1.0, {name = 'v'}), df.train.Saver{max_to_keep = 1}
            local prefix = os.tmpname()
            local path = saver:save(prefix, {step = 3})
            v:load(7)
            saver:restore(saver:latest(prefix))
            os.remove(path) os.remove(prefix)
            return df.run(v)

df.summary
  Event files, for :serve and TensorBoard: df.summary.FileWriter.
  example   type(df.summary.FileWriter)

df.summary.FileWriter(folder, {…})
  Writes an event file into a folder, which is made if it is not there: :scalar(tag, v, step),
  :histogram(tag, t, step), :image(tag, t, step), :text(tag, s, step), :graph(g), :close();
  :run_metadata(tag, h, step) writes the times of a run of df.start(y, feeds, {log = true}) for the graph.
  option    graph: Graph = nil  a graph to write first
  example   local folder = os.tmpname()
            os.remove(folder)
            local w = df.summary.FileWriter(folder)
            for step = 0, 9 do w:scalar('loss', 1 / (step + 1), step) end
            w:close()
            os.remove(w.path)
            os.remove(folder)
            return w.path:match('tfevents')

df.save(path, {…})
  Writes the variables of a session and the positions of its random ops to a safetensors file,
  atomically.
  option    variables: list = nil  a list or {name = Variable}; all of the default graph otherwise
  option    session: Session = nil  the default session otherwise
  option    metadata: table = nil  {string = string}, which df.restore returns
  option    shard_bytes: int = nil  the largest size of a file; writes several files and an index
  option    by_rank: bool = false  true: writes a file for the variables of each rank and an index, which
            df.restore takes with any number of ranks
  option    queues: list = nil  queues whose elements are saved, too
  example   local path = os.tmpname()
            local v = df.Variable(1.0, {name = 'v'})
            df.save(path)
            v:load(7)
            df.restore(path)
            os.remove(path)
            return df.run(v)

df.restore(path, {…})
  Sets variables to what a safetensors file, its index, an .npz file or Keras's .h5 and .keras hold,
  all of them or none; gives the names of those that were set, the file's metadata, and {name = why}
  of what was not taken. What does not fit is an error that says so. A tensor of Keras has the path
  of its dataset as its name, such as 'layers/dense/vars/0' or 'model_weights/dense/dense/kernel:0';
  libhdf5 reads them (Debian's libhdf5-103-1).
  option    variables: list = nil  a list or {name = Variable}; all of the default graph otherwise
  option    session: Session = nil  the default session otherwise
  option    map: table or function = nil  name in the file -> Variable or its name; false: left out
  option    partial: bool = false  true: what the file lacks, or has with another shape or dtype, keeps its value
  option    queues: list = nil  queues that are to hold what they held then, in one step: calls that wait go on with that
  example   local path = os.tmpname()
            local v = df.Variable(1.0, {name = 'v'})
            df.save_safetensors(path, {old = df.tensor(5.0)})
            local names = df.restore(path, {map = {old = v}})
            os.remove(path)
            return names

df.load_safetensors(path)
  {name = Tensor} of a safetensors file, and its metadata. Damaged files are an error of code
  data_loss that names the file.
  example   local path = os.tmpname()
            df.save_safetensors(path, {x = df.tensor{1.0, 2.0}})
            local list = df.load_safetensors(path)
            os.remove(path)
            return list.x

df.save_safetensors(path, list, metadata?)
  Writes {name = Tensor} to a safetensors file. metadata is {string = string}.
  example   local path = os.tmpname()
            df.save_safetensors(path, {x = df.tensor{1.0, 2.0}})
            local list = df.load_safetensors(path)
            os.remove(path)
            return list.x
]==]

-- The optimizers' longer names.
local long_names = { SGD = 'GradientDescentOptimizer', Momentum = 'MomentumOptimizer', Adagrad = 'AdagradOptimizer',
                     Adadelta = 'AdadeltaOptimizer', RMSProp = 'RMSPropOptimizer', Ftrl = 'FtrlOptimizer',
                     Adam = 'AdamOptimizer' }

--- By name without `df.`: a page.
return function(macros)
  local found = {}
  for _, page in ipairs(pages.read(text, macros)) do
    found[page[1]:gsub('^df%.', ''):match('^[%w_.]+')] = page
  end
  for short, long in pairs(long_names) do
    local page = found['train.' .. short]
    local about = page[2]:gsub(long .. ' is its long name', short .. ' is its short name')
    local signature = page[1]:gsub('%.' .. short, '.' .. long)
    found['train.' .. long] = { signature, about, page[3], options = page.options, fields = page.fields }
  end
  return found
end
