--- The types that one trains with, for docs/types.lua: pipelines, checkpoints, event files, averages.
return [==[

Pipeline (pipeline, p)
  A sequence of elements from a source, through stages, to a loop. df.data.pipeline makes one. Each stage
  returns a new pipeline. Nothing is read before p:each().
  example   tostring(df.data.pipeline(df.tensor{1, 2, 3}):shuffle(3):batch(2))

p:map(fn)
  Calls fn with each element's parts, as numbers and Tensors. fn returns the new parts. Arithmetic and
  methods of Tensors compute immediately.
  example   df.data.pipeline(df.tensor{1, 2, 3}):map(function(x) return x, x * x end):skip(2):each()()

p:filter(fn)
  Keeps the elements for which fn returns true.
  example   df.data.pipeline(df.tensor{1, 2, 3}):filter(function(x) return x > 1 end):each()()

p:shuffle(n, seed?)
  Shuffles elements through a buffer of n. With n the number of elements all orders are equally likely.
  Each epoch, of p:each() or p:repeat_(), has another order. A seed makes these orders the same in each
  program.
  example   df.data.pipeline(df.tensor({1, 2, 3, 4}, 'int32')):shuffle(4, 1):batch(4):each()()

p:repeat_(n?)
  Repeats the pipeline n times, or without end. A shuffle before it uses another order each time.
  example   df.data.pipeline(df.tensor({1, 2}, 'int32')):repeat_(2):batch(4):each()()

p:take(n)
  Keeps the first n elements.
  example   df.data.pipeline(df.tensor({1, 2, 3}, 'int32')):take(2):batch(9):each()()

p:skip(n)
  Skips the first n elements.
  example   df.data.pipeline(df.tensor({1, 2, 3}, 'int32')):skip(2):batch(9):each()()

p:shard(n?, k?)
  Keeps every n-th element from number k on, counted from 0, so that n programs share the elements. By
  default n is the number of ranks and k this rank. it:state() then is a position for all n programs:
  each{state =} continues with another n and neither loses nor repeats an element, where the stages
  after it are maps, batches and prefetches.
  example   df.data.pipeline(df.tensor({1, 2, 3, 4, 5}, 'int32')):shard(2, 1):batch(9):each()()

p:batch(n, {…})
  Stacks n elements into one, along a new axis 0 of each part.
  option    drop_remainder: bool = false  true: omits a last batch that is smaller
  option    pad: bool = false  true: pads parts of different shapes to the largest of the batch
  option    pad_value: any = nil  the padding; by default 0, '' or false
  example   df.data.pipeline(df.tensor({1, 2, 3}, 'int32')):batch(2):each()()

p:padded_batch(n, {…})
  Makes batches of parts of different shapes; smaller ones are padded.
  option    drop_remainder: bool = false  true: omits a last batch that is smaller
  option    pad_value: any = nil  the padding; by default 0, '' or false
  example   local p = df.data.pipeline(df.tensor({1, 2}, 'int32')):map(function(n) return df.fill({n}, n):eval() end)
            return p:padded_batch(2):each()()

p:bucket_by_length(length, boundaries, n, {…})
  Makes padded batches of elements of similar length. length(part, …) returns an element's length;
  boundaries is an increasing list: each bucket holds lengths up to a boundary, the last all others.
  option    drop_remainder: bool = false  true: omits elements that do not fill a batch
  option    pad_value: any = nil  the padding; by default 0, '' or false
  example   local p = df.data.pipeline(df.tensor({1, 5, 2}, 'int32')):map(function(n) return df.fill({n}, n):eval() end)
            return p:bucket_by_length(function(t) return t.size end, {3}, 2):each()()

p:prefetch(k)
  Prepares k elements in advance, while df.run uses earlier ones.
  example   df.data.pipeline(df.tensor({1, 2, 3}, 'int32')):batch(2):prefetch(2):each()()

p:each({…})
  Returns an iterator over one epoch: for x, y in p:each() do … end. it:state() returns its position, as a
  string for a checkpoint.
  option    state: string = nil  a result of it:state(): continues there
  example   local it = df.data.pipeline(df.tensor({1, 2, 3}, 'int32')):each()
            it()
            return it(), it:state()

Saver (saver, s)
  Writes and reads checkpoints of a training, and keeps the last few and the best. df.train.Saver makes
  one.
  example   tostring(df.train.Saver{max_to_keep = 3})

s:save(prefix, {…})
  Writes prefix-STEP.safetensors atomically and removes the oldest checkpoints beyond max_to_keep. Makes
  a missing folder. Returns the path.
  option    step: int = nil  the number of the step, or the Variable that counts steps
  option    session: Session = nil  the session whose values are saved; the default session otherwise
  option    metric: number = nil  the value by which s:best compares
  option    metadata: table = nil  strings saved with it, such as a pipeline's it:state()
  example   local v, prefix = df.Variable(1.0, {name = 'v'}), os.tmpname()
            local path = df.train.Saver():save(prefix, {step = 3})
            os.remove(path) os.remove(prefix)
            return path:sub(#prefix + 1), v.name

s:latest(prefix)
  Returns the path of the newest checkpoint; nil where there is none.
  example   df.train.Saver():latest('nowhere/model')

s:best(prefix)
  Returns the path of the checkpoint with the best metric, and the metric, of a Saver with best = 'min' or
  'max'.
  example   df.train.Saver{best = 'min'}:best('nowhere/model')

s:checkpoints(prefix)
  Returns the paths of the checkpoints, the oldest first.
  example   #df.train.Saver():checkpoints('nowhere/model')

s:restore(path, {…})
  Restores variables and positions of random ops from a checkpoint. The extension may be left out.
  option    session: Session = nil  the session whose variables are set; the default session otherwise
  option    map: table = nil  {['name in the file'] = variable}
  option    partial: bool = false  true: variables that the file lacks keep their values
  example   local v, prefix = df.Variable(1.0, {name = 'v'}), os.tmpname()
            local path = df.train.Saver():save(prefix, {step = 3})
            v:load(7)
            df.train.Saver():restore(path)
            os.remove(path) os.remove(prefix)
            return df.run(v)

s:wait()
  Waits until background writes are on the disk. Raises their errors.
  example   df.train.Saver{background = true}:wait()

FileWriter (file_writer, w)
  Writes an event file, for :serve and TensorBoard. df.summary.FileWriter(folder) makes one.
  field     path  the file's path
@writer
@written

w:scalar(tag, v, step)
  Writes a point of a curve. v is a number, or a Tensor of size 1.
@writer
            w:scalar('loss', 0.5, 1)
@written

w:histogram(tag, t, step, {…})
  Writes a histogram of the finite elements of a Tensor.
  option    bins: int = 30  the number of bins
@writer
            w:histogram('weights', df.tensor{1, 2, 2}, 1)
@written

w:image(tag, t, step)
  Writes a picture: a Tensor [height, width], [height, width, channels] or [batch, height, width, channels] of 1
  to 4 channels; uint8, or floats from 0 to 1.
@writer
            w:image('digit', df.tensor{{0, 1}, {1, 0}}, 1)
@written

w:text(tag, s, step)
  Writes a text, which TensorBoard shows as Markdown.
@writer
            w:text('note', 'a *first* try', 1)
@written

w:graph(g)
  Writes the graph, for TensorBoard's page of graphs.
@writer
            w:graph(df.default_graph())
@written

w:run_metadata(tag, h, step)
  Writes the times of a run of df.start(y, feeds, {log = true}), for the graph's page.
@writer
            local h = df.start(df.float32(1) + 1, nil, {log = true}) h:wait()
            w:graph(df.default_graph()) w:run_metadata('step 1', h, 1)
@written

w:flush()
  Flushes the file, so that other programs can read what was written.
@writer
            w:flush()
@written

w:close()
  Closes the file.
@writer
@written

]==]
