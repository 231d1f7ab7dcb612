--- The types that one trains with, for docs/types.lua: pipelines, checkpoints, event files, averages.
return [==[

Pipeline (pipeline, p)
  Elements from a source, through stages, to a loop: made by df.data.pipeline. Each stage gives
  another pipeline; nothing is read before p:each().
  example   tostring(df.data.pipeline(df.tensor{1, 2, 3}):shuffle(3):batch(2))

p:map(fn)
  fn gets an element's parts, as numbers and Tensors, and returns those of another. Tensors have
  arithmetic and methods that compute at once.
  example   df.data.pipeline(df.tensor{1, 2, 3}):map(function(x) return x, x * x end):skip(2):each()()

p:filter(fn)
  Only the elements for which fn returns something true.
  example   df.data.pipeline(df.tensor{1, 2, 3}):filter(function(x) return x > 1 end):each()()

p:shuffle(n, seed?)
  Random order: n elements wait at a time, and each that comes out makes room for the next; as many as
  there are make all orders equally likely. Each epoch, by p:each() or p:repeat_(), has another order;
  with a seed these orders are the same in each program.
  example   df.data.pipeline(df.tensor({1, 2, 3, 4}, 'int32')):shuffle(4, 1):batch(4):each()()

p:repeat_(n?)
  All of it n times, one after another; without n for ever. A shuffle before it is another each time, too.
  example   df.data.pipeline(df.tensor({1, 2}, 'int32')):repeat_(2):batch(4):each()()

p:take(n)
  The first n elements.
  example   df.data.pipeline(df.tensor({1, 2, 3}, 'int32')):take(2):batch(9):each()()

p:skip(n)
  All but the first n elements.
  example   df.data.pipeline(df.tensor({1, 2, 3}, 'int32')):skip(2):batch(9):each()()

p:shard(n?, k?)
  Every n-th element from number k on, 0 being the first: n programs have all of them between them.
  Without numbers n is the number of ranks and k this program's. What p:each()'s it:state() says is
  then the place of all n together: each{state =} goes on with another n, and no element is lost or
  read twice, where each stage behind it is a map, a batch or a prefetch.
  example   df.data.pipeline(df.tensor({1, 2, 3, 4, 5}, 'int32')):shard(2, 1):batch(9):each()()

p:batch(n, {…})
  n elements as one, whose parts have one axis more, in front.
  option    drop_remainder: bool = false  true: a last batch of fewer is left out
  option    pad: bool = false  true: parts of different shapes are filled up to the largest of the batch
  option    pad_value: any = nil  with what; 0, '' or false otherwise
  example   df.data.pipeline(df.tensor({1, 2, 3}, 'int32')):batch(2):each()()

p:padded_batch(n, {…})
  A batch of parts of different shapes: the smaller ones are filled up.
  option    drop_remainder: bool = false  true: a last batch of fewer is left out
  option    pad_value: any = nil  with what; 0, '' or false otherwise
  example   local p = df.data.pipeline(df.tensor({1, 2}, 'int32')):map(function(n) return df.fill({n}, n):eval() end)
            return p:padded_batch(2):each()()

p:bucket_by_length(length, boundaries, n, {…})
  Padded batches of elements of about one length. length(part, …) gives an element's; boundaries are
  numbers that rise, a bucket for lengths up to each and one for all above.
  option    drop_remainder: bool = false  true: what does not fill a batch is left out
  option    pad_value: any = nil  with what; 0, '' or false otherwise
  example   local p = df.data.pipeline(df.tensor({1, 5, 2}, 'int32')):map(function(n) return df.fill({n}, n):eval() end)
            return p:bucket_by_length(function(t) return t.size end, {3}, 2):each()()

p:prefetch(k)
  k elements are ready before they are asked for; the next ones are made beside the df.run that uses the
  last, at the same time where that takes long.
  example   df.data.pipeline(df.tensor({1, 2, 3}, 'int32')):batch(2):prefetch(2):each()()

p:each({…})
  An iterator for the loop, an epoch: for x, y in p:each() do … end. it:state() says where it is, as a
  string for a checkpoint.
  option    state: string = nil  what it:state() gave: goes on there
  example   local it = df.data.pipeline(df.tensor({1, 2, 3}, 'int32')):each()
            it()
            return it(), it:state()

Saver (saver, s)
  Checkpoints of a training run, made by df.train.Saver: the last few, and the best.
  example   tostring(df.train.Saver{max_to_keep = 3})

s:save(prefix, {…})
  Writes prefix-STEP.safetensors, whole or not at all, removes the oldest beyond max_to_keep, and gives
  its path. A folder that is not there is made.
  option    step: int = nil  the number of the step, or the Variable that counts them
  option    session: Session = nil  whose values; the default session's otherwise
  option    metric: number = nil  what best goes by
  option    metadata: table = nil  strings that are kept with it, as a pipeline's it:state()
  example   local v, prefix = df.Variable(1.0, {name = 'v'}), os.tmpname()
            local path = df.train.Saver():save(prefix, {step = 3})
            os.remove(path) os.remove(prefix)
            return path:sub(#prefix + 1), v.name

s:latest(prefix)
  The path of the checkpoint that was saved last; nil where there is none.
  example   df.train.Saver():latest('nowhere/model')

s:best(prefix)
  The path of the checkpoint with the best metric, and the metric: of a Saver with best = 'min' or 'max'.
  example   df.train.Saver{best = 'min'}:best('nowhere/model')

s:checkpoints(prefix)
  The paths of those that are kept, the oldest first.
  example   #df.train.Saver():checkpoints('nowhere/model')

s:restore(path, {…})
  Gives the variables the values of a checkpoint, and random ops their places. Its ending may be left out.
  option    session: Session = nil  whose variables; the default session's otherwise
  option    map: table = nil  {['name in the file'] = variable}
  option    partial: bool = false  true: variables that the file has not stay as they are
  example   local v, prefix = df.Variable(1.0, {name = 'v'}), os.tmpname()
            local path = df.train.Saver():save(prefix, {step = 3})
            v:load(7)
            df.train.Saver():restore(path)
            os.remove(path) os.remove(prefix)
            return df.run(v)

s:wait()
  Waits until what is written in the background is on the disk; raises what went wrong.
  example   df.train.Saver{background = true}:wait()

FileWriter (file_writer, w)
  An event file that TensorBoard shows, made by df.summary.FileWriter(folder).
  field     path  of the file
@writer
@written

w:scalar(tag, v, step)
  A point of a curve. v is a number, or a Tensor of one.
@writer
            w:scalar('loss', 0.5, 1)
@written

w:histogram(tag, t, step, {…})
  How the elements of a Tensor are spread; those that are not finite are left out.
  option    bins: int = 30  how many
@writer
            w:histogram('weights', df.tensor{1, 2, 2}, 1)
@written

w:image(tag, t, step)
  A picture: a Tensor [height, width], [height, width, channels] or [batch, height, width, channels] of 1
  to 4 channels; uint8, or floats from 0 to 1.
@writer
            w:image('digit', df.tensor{{0, 1}, {1, 0}}, 1)
@written

w:text(tag, s, step)
  A text, which TensorBoard shows as Markdown.
@writer
            w:text('note', 'a *first* try', 1)
@written

w:graph(g)
  The graph, for TensorBoard's page of graphs.
@writer
            w:graph(df.default_graph())
@written

w:run_metadata(tag, h, step)
  The times of a run of df.start(y, feeds, {log = true}), for the graph's page.
@writer
            local h = df.start(df.float32(1) + 1, nil, {log = true}) h:wait()
            w:graph(df.default_graph()) w:run_metadata('step 1', h, 1)
@written

w:flush()
  What was written so far can be read by others.
@writer
            w:flush()
@written

w:close()
  Closes the file.
@writer
@written

]==]
