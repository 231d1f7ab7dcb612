--- The pages of df.train, as docs/functions.lua has those of df.
local pages = require 'dflow.docs.pages'

local text = [==[
df.train
  What one trains with: fit for a first afternoon; optimizers, each with :minimize(loss), learning
  rates that change with the step, averages of weights, checkpoints, replicas, queue runners.
  example   local w = df.Variable(5.0)
            df.run(df.train.SGD(0.1):minimize(w * w))
            return df.run(w)

df.train.SGD(learning_rate, {…})
  Gradient descent: v -= learning_rate * gradient. GradientDescentOptimizer is its long name.
  option    clip_norm: number = nil  all gradients are clipped to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.SGD(0.1):minimize(w * w))
            return df.run(w)

df.train.Momentum(learning_rate, momentum = 0.9, {…})
  a = momentum * a + gradient; v -= learning_rate * a. MomentumOptimizer is its long name.
  option    use_nesterov: bool = false  looks ahead along the momentum
  option    clip_norm: number = nil  all gradients are clipped to this global norm
  example   local w = df.Variable(5.0)
            local step = df.train.Momentum(0.1):minimize(w * w)
            df.run(step)
            df.run(step)
            return df.run(w)

df.train.Nesterov(learning_rate, momentum = 0.9, {…})
  Momentum that looks ahead: v -= learning_rate * (gradient + momentum * a).
  option    clip_norm: number = nil  all gradients are clipped to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.Nesterov(0.1):minimize(w * w))
            return df.run(w)

df.train.Adagrad(learning_rate, initial_accumulator = 0.1, {…})
  a += gradient ^ 2; v -= learning_rate * gradient / sqrt(a). AdagradOptimizer is its long name.
  option    initial_accumulator_value: number = nil  TensorFlow's name of initial_accumulator
  option    clip_norm: number = nil  all gradients are clipped to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.Adagrad(0.1):minimize(w * w))
            return df.run(w)

df.train.Adadelta(learning_rate = 0.001, rho = 0.95, epsilon = 1e-8, {…})
  Steps as long as the root mean square of former steps over that of gradients (Zeiler, 2012).
  AdadeltaOptimizer is its long name.
  option    clip_norm: number = nil  all gradients are clipped to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.Adadelta(1):minimize(w * w))
            return df.run(w)

df.train.RMSProp(learning_rate, decay = 0.9, momentum = 0, epsilon = 1e-10, {…})
  Gradients over the root of their mean square, by TensorFlow's formula: epsilon is added to the
  mean square before the root is taken, where PyTorch adds it to the root. RMSPropOptimizer is its
  long name.
  option    centered: bool = false  over their standard deviation
  option    clip_norm: number = nil  all gradients are clipped to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.RMSProp(0.1):minimize(w * w))
            return df.run(w)

df.train.Ftrl(learning_rate, learning_rate_power = -0.5, initial_accumulator = 0.1, l1 = 0, l2 = 0, {…})
  Follow the regularised leader (McMahan et al., 2013): with l1 many weights end at 0. FtrlOptimizer
  is its long name.
  option    l2_shrinkage: number = 0  a penalty on the weights' size, beside l2
  option    initial_accumulator_value: number = nil  TensorFlow's name of initial_accumulator
  option    l1_regularization_strength: number = nil  TensorFlow's name of l1
  option    l2_regularization_strength: number = nil  TensorFlow's name of l2
  option    l2_shrinkage_regularization_strength: number = nil  TensorFlow's name of l2_shrinkage
  option    clip_norm: number = nil  all gradients are clipped to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.Ftrl(0.1):minimize(w * w))
            return df.run(w)

df.train.Adam(learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, {…})
  Adam (Kingma and Ba, 2015), with its running means m of the gradient and v of its square, by
  TensorFlow's formula: w -= learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) +
  epsilon). So epsilon is the paper's `epsilon hat`, added before v is corrected; PyTorch and optax
  correct v first: epsilon * sqrt(1 - beta2^t) is in its place there, and in AdamW here.
  AdamOptimizer is its long name.
  option    use_nesterov: bool = false  looks ahead along the momentum
  option    clip_norm: number = nil  all gradients are clipped to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.Adam(0.1):minimize(w * w))
            return df.run(w)

df.train.AdamW(learning_rate = 0.001, {…})
  Adam whose weights decay on their own: learning_rate * weight_decay * v is taken off v before each
  step, as in PyTorch. A sparse gradient's decay is that of its rows.
  option    weight_decay: number = 0.01  how much of the weights
  option    beta1: number = 0.9  of the mean of gradients
  option    beta2: number = 0.999  of the mean of their squares
  option    epsilon: number = 1e-8  added to the root of that mean
  option    clip_norm: number = nil  all gradients are clipped to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.AdamW(0.1):minimize(w * w))
            return df.run(w)

df.train.Nadam(learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, {…})
  Adam with Nesterov's momentum, as TensorFlow 1's contrib.
  option    clip_norm: number = nil  all gradients are clipped to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.Nadam(0.1):minimize(w * w))
            return df.run(w)

df.train.Lamb(learning_rate = 0.001, {…})
  AdamW's step, scaled per variable by the norm of the weights over that of the step (You et al.,
  2020): for large batches.
  option    weight_decay: number = 0.01  how much of the weights
  option    beta1: number = 0.9  of the mean of gradients
  option    beta2: number = 0.999  of the mean of their squares
  option    epsilon: number = 1e-6  added to the root of that mean
  option    clip_norm: number = nil  all gradients are clipped to this global norm
  example   local w = df.Variable(5.0)
            df.run(df.train.Lamb(0.1):minimize(w * w))
            return df.run(w)

df.train.exponential_decay(learning_rate, global_step, decay_steps, decay_rate, staircase = false, {…})
  learning_rate * decay_rate ^ (global_step / decay_steps), a learning rate that goes down with the
  step. Of many steps, such as df.range(100), it is the curve.
  option    staircase: bool = false  whole multiples of decay_steps only
@name
  example   df.train.exponential_decay(0.5, df.int32(10), 10, 0.9)

df.train.natural_exp_decay(learning_rate, global_step, decay_steps, decay_rate, staircase = false, {…})
  learning_rate * e ^ (-decay_rate * global_step / decay_steps).
  option    staircase: bool = false  whole multiples of decay_steps only
@name
  example   df.train.natural_exp_decay(0.5, df.int32(10), 10, 0.9)

df.train.inverse_time_decay(learning_rate, global_step, decay_steps, decay_rate, staircase = false, {…})
  learning_rate / (1 + decay_rate * global_step / decay_steps).
  option    staircase: bool = false  whole multiples of decay_steps only
@name
  example   df.train.inverse_time_decay(0.5, df.int32(10), 10, 0.9)

df.train.polynomial_decay(learning_rate, global_step, decay_steps, end_learning_rate = 0.0001, power = 1, {…})
  From learning_rate to end_learning_rate in decay_steps, along (1 - step / decay_steps) ^ power.
  option    cycle: bool = false  begins again, over more steps each time
@name
  example   df.train.polynomial_decay(0.1, df.int32(50), 100)

df.train.cosine_decay(learning_rate, global_step, decay_steps, alpha = 0, {…})
  From learning_rate to alpha * learning_rate in decay_steps, along half a cosine.
@name
  example   df.train.cosine_decay(0.1, df.int32(50), 100)

df.train.cosine_decay_restarts(learning_rate, global_step, first_decay_steps, t_mul = 2, m_mul = 1, alpha = 0, {…})
  cosine_decay that begins again and again, each time t_mul as long and m_mul as high (Loshchilov
  and Hutter, 2017).
@name
  example   df.train.cosine_decay_restarts(0.1, df.int32(200), 100)

df.train.linear_cosine_decay(learning_rate, global_step, decay_steps, num_periods = 0.5, alpha = 0, beta = 0.001, {…})
  learning_rate * ((alpha + 1 - step / decay_steps) * a cosine of num_periods + beta).
@name
  example   df.train.linear_cosine_decay(0.1, df.int32(50), 100)

df.train.piecewise_constant(x, boundaries, values, {…})
  values[1] up to boundaries[1], values[2] beyond it up to boundaries[2], and so on; the last one
  beyond them all. x is a step count.
@name
  example   df.train.piecewise_constant(df.int32(7), {5, 10}, {1.0, 0.5, 0.1})

df.train.ExponentialMovingAverage(decay, num_updates, {…})
  Averages of variables: :apply(vars) gives the operation that moves them once, shadow = decay *
  shadow + (1 - decay) * value; :average(v) the Variable that holds one. num_updates may be a step
  count: early averages move faster then. :variables_to_restore(vars) is a map for df.restore.
  option    zero_debias: bool = false  averages of outputs, which begin with zeros, are corrected for that
@name
  example   local v = df.Variable(1.0)
            local average = df.train.ExponentialMovingAverage(0.9)
            local move = average:apply{v}
            df.run(v:assign(2.0))
            df.run(move)
            return df.run(average:average(v))

df.train.lbfgs(fn, x0, {…})
  The x near x0 where fn(x), a scalar, is least: x, fn(x) and how many iterations that took. All of
  it is one loop in the graph, around one that searches along a line.
  option    memory: int = 10  how many steps back curvature is remembered
  option    max_iterations: int = 100  it ends after so many
  option    tolerance: number = 1e-5  it ends when no element of the gradient is larger
@name
  example   local x = df.train.lbfgs(function(x) return df.reduce_sum((x - 3) ^ 2) end, df.zeros{2})
            return df.round(x)

df.train.conjugate_gradient(fn, x0, {…})
  As df.train.lbfgs, by nonlinear conjugate gradients: it remembers one direction.
  option    max_iterations: int = 100  it ends after so many
  option    tolerance: number = 1e-5  it ends when no element of the gradient is larger
@name
  example   local function f(x) return df.reduce_sum((x - 3) ^ 2) end
            return df.round((df.train.conjugate_gradient(f, df.zeros{2})))

df.train.loop(steps, fn, {…})
  The whole training loop in the graph: fn(i, carry) builds a step once and gives the next carry, or
  nothing; what it assigns is assigned in each step. Gives the last carry; without one, the number
  of steps. Fetch it to run the loop.
  option    carry: table = nil  a structure that goes from step to step
  option    stop: function = nil  stop(i, carry) is a scalar bool: the loop ends early
  option    report: function = nil  report(i, carry), whose effects, such as df.print, happen
  option    every: int = 1  in each so many-th step
  option    parallel_iterations: int = 1  as for while_loop
  option    save: string = 'keep'  as for while_loop
@name
  example   local w, o = df.Variable(5.0), df.train.SGD(0.1)
            df.run(df.train.loop(10, function() o:minimize(w * w) end))
            return df.run(w)

df.train.fit(model, data, {…})
  Trains a model, a layer or function(x, training), on data: {x, y}, or a pipeline of batches
  (x, y). Gives {loss = {of each epoch}, …} with :predict(x) and :evaluate(data).
  option    loss: function or string = nil  of labels and predictions, or a name of df.nn; without
            it sparse_softmax_cross_entropy where y is whole numbers, else mean_squared_error
  option    optimizer: table = Adam()  such as df.train.SGD(0.1)
  option    epochs: int = 1  how often it goes through the data
  option    batch_size: int = 32  rows of a step
  option    shuffle: bool = true  the rows come in another order each epoch
  option    seed: int = 0  of these orders
  option    validation: table = nil  as data: looked at after each epoch
  option    metrics: table = nil  {name = function(labels, predictions)}; accuracy for classes
  option    patience: int = nil  it ends when the loss has not fallen for so many epochs
  option    progress: bool or function = true  a line per epoch, written or given to the function
  option    session: Session = nil  the default session otherwise
  option    check_numerics: bool = false  stops at the op that made the first NaN, and says which
  option    stop_on: string = nil  'nan': a loss that is no finite number ends the training, and
            .stopped of what it gives says where; without it that is an error
  option    summary: string or FileWriter = nil  a folder of event files: of each step the loss and
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
  An optimizer that adds up the gradients of so many runs and takes one step with their mean:
  batches that are larger than memory. global_step counts the steps that are taken.
  example   local w = df.Variable(5.0)
            local step = df.train.Accumulate(df.train.SGD(0.1), 2):minimize(w * w)
            df.run(step)
            df.run(step)
            return df.run(w)

df.train.MixedPrecision(optimizer, {…})
  Trains variables of float16 or bfloat16 by float32 copies of them, from gradients of the loss
  times a scale, so that small ones do not vanish. A step whose gradients are not all finite is left
  out. :loss_scale() is the scale as an Output.
  option    loss_scale: number or string = 'dynamic'  a scale that stays, or one that moves:
  option    initial_scale: number = 32768  where it begins
  option    multiplier: number = 2  it is divided by this after a step that was left out
  option    period: int = 2000  and multiplied by it after so many others in a row
  example   local w = df.Variable(5.0, {dtype = 'float16'})
            local o = df.train.MixedPrecision(df.train.SGD(0.1), {loss_scale = 64})
            df.run(o:minimize(w * w))
            return df.run(w)

df.train.replicate(n or devices, fn, {…})
  fn(k), a loss, on each of the devices (a number: of so many ranks), and a step that takes the
  mean of their gradients. Gives {loss =, losses =, step =}. Layers and variables are made before.
  option    optimizer: table = nil  such as df.train.SGD(0.1)
  option    backup: int = 0  so many devices may be late: their gradients of a step are dropped
  option    mode: string = 'sync'  'async': step is a list, of a step for each device by itself: run
            each in a thread of its own (df.start); variables lie where they were made, on a
            parameter server, say
  example   local w, rows = df.Variable(0.0), df.constant{1.0, 3.0}
            local function loss(k) return (w - rows[k - 1]) ^ 2 end
            local o = {optimizer = df.train.SGD(0.25)}
            local r = df.train.replicate({'cpu:0', 'cpu:0'}, loss, o)
            for _ = 1, 20 do df.run(r.step) end
            return df.round(w)

df.train.synchronous(fn, {…})
  Replicas that compute gradients of the same weights, and a chief that adds them up and steps: all
  of it loops and queues of one graph. fn(replica, step) builds the loss of a replica. Gives {steps
  =, loss =, late =, looks =}; fetch it to train.
  option    replicas: int = 2  how many there are
  option    backup: int = 0  so many may be late: their gradients are dropped when they come
  option    steps: int = nil  how many steps are taken
  option    optimizer: table = nil  such as df.train.SGD(0.1)
  option    variables: list = nil  what is trained; all trainable variables otherwise
@name
  example   local w, rows = df.Variable(0.0), df.constant{1.0, 2.0, 6.0}
            local function loss(replica) return (w - rows[replica - 1]) ^ 2 end
            local o = {replicas = 3, steps = 40, optimizer = df.train.SGD(0.1)}
            df.run(df.train.synchronous(loss, o))
            return df.round(w)

df.train.QueueRunner(queue, fn, {…})
  What fills a queue in the background: fn(i) builds an enqueue, and a loop in the graph runs that
  again and again. The queue is closed when the loop has ended. A Coordinator starts it.
  option    loops: int = 1  so many loops at once
  option    steps: int = nil  rounds; otherwise until the queue is closed or the source ends
@name
  example   local q = df.FIFOQueue(4, 'int32', {shapes = {{}}})
            df.train.QueueRunner(q, function(i) return q:enqueue(i * i) end, {steps = 3})
            local c, x = df.train.start_queue_runners(), q:dequeue()
            local list = {c:run(x), c:run(x), c:run(x)}
            c:join()
            return list

df.train.Coordinator()
  Starts queue runners, and sees to it that all end together: :start(runners), :run(fetches), which
  raises what went wrong in a runner, :should_stop(), :request_stop(), :join{timeout = 60}.
  example   local c = df.train.Coordinator()
            c:request_stop()
            return c:should_stop()

df.train.start_queue_runners({…})
  A coordinator that has started all queue runners of a session's graph.
  option    session: Session = nil  the default session otherwise
  option    coordinator: table = nil  one that is there already
  example   local q = df.FIFOQueue(4, 'int32', {shapes = {{}}})
            df.train.QueueRunner(q, function(i) return q:enqueue(i) end)
            local c = df.train.start_queue_runners()
            c:run(q:dequeue())
            c:join()
            return c:should_stop()

df.train.Saver({…})
  Checkpoints of a training run: :save(prefix, {step =, session =, metric =}) writes
  prefix-STEP.safetensors and removes the oldest; :latest(prefix) and :best(prefix) name one;
  :restore(path) reads one; :checkpoints(prefix) lists them; :wait() waits for the disk.
  option    max_to_keep: int = 5  how many are kept; 0: all
  option    variables: list = nil  what is saved; all variables otherwise, with optimizers' slots
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
  What TensorBoard shows: df.summary.FileWriter.
  example   type(df.summary.FileWriter)

df.summary.FileWriter(folder, {…})
  Writes an event file into a folder, which is made if it is not there: :scalar(tag, v, step),
  :histogram(tag, t, step), :image(tag, t, step), :text(tag, s, step), :graph(g), :close();
  :run_metadata(tag, h, step) writes the times of a run of df.start(y, feeds, {log = true}) for the graph.
  option    graph: Graph = nil  is written at once
  example   local folder = os.tmpname()
            os.remove(folder)
            local w = df.summary.FileWriter(folder)
            for step = 0, 9 do w:scalar('loss', 1 / (step + 1), step) end
            w:close()
            os.remove(w.path)
            os.remove(folder)
            return w.path:match('tfevents')

df.save(path, {…})
  Writes the values that variables have in a session to a safetensors file, whole or not at all,
  and where the session's random ops are.
  option    variables: list = nil  a list or {name = Variable}; all of the default graph otherwise
  option    session: Session = nil  the default session otherwise
  option    metadata: table = nil  {string = string}, which df.restore gives back
  option    shard_bytes: int = nil  several files, none larger, and an index of them
  option    by_rank: bool = false  a file for the variables of each rank, and an index of them, which
            df.restore takes with any number of ranks
  option    queues: list = nil  queues whose elements are written, too
  example   local path = os.tmpname()
            local v = df.Variable(1.0, {name = 'v'})
            df.save(path)
            v:load(7)
            df.restore(path)
            os.remove(path)
            return df.run(v)

df.restore(path, {…})
  Sets variables to what a safetensors file, its index or an .npz file holds, all of them or none;
  gives the names of those that were set, the file's metadata, and {name = why} of what was not
  taken. What does not fit is an error that says so.
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
