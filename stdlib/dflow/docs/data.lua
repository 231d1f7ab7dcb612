--- The pages of df.data, as docs/functions.lua has those of df.
local pages = require 'dflow.docs.pages'

local text = [==[
df.data
  Readers of data sets: df.data.csv, df.data.tfrecord, df.data.text, df.data.idx; and what brings
  them to a loop: df.data.pipeline, df.data.batches.
  example   type(df.data.idx)

df.data.csv(path, {…})
  The columns of a table of text as Tensors, by name and by number. What is wrong is an error that
  names file and line. A gzip file is unpacked.
  option    types: table or string = nil  a dtype for all, a list, or {name = dtype}; guessed otherwise
  option    header: bool or table = true  the first line has the names; a list: these are the names
  option    separator: string = ','  between fields
  option    missing: any = nil  what an empty field is; an error otherwise
  option    comment: string = nil  lines that begin with it are left out
  example   local path = os.tmpname()
            local f = io.open(path, 'w')
            f:write('name,size\nash,3\nelm,4\n') f:close()
            local t = df.data.csv(path)
            os.remove(path)
            return t.size, t[1]

df.data.tfrecord(path)
  The records of a TFRecord file, or of a list of them, as strings, their checksums compared: call
  it until nil, or give it to df.data.pipeline. df.data.example reads a tf.train.Example.
  example   local path = os.tmpname()
            df.data.write_tfrecord(path, {'one', 'two'})
            local records = df.data.tfrecord(path)
            os.remove(path, records)
            return type(records)

df.data.write_tfrecord(path, list)
  Writes strings as records of a TFRecord file, with their checksums; whole or not at all.
  example   local path = os.tmpname()
            df.data.write_tfrecord(path, {'one', 'two'})
            local first = df.data.tfrecord(path)()
            os.remove(path)
            return first

df.data.example(bytes)
  The features of a tf.train.Example as {name = Tensor}, each of rank 1: string, float32 or int64.
  example   df.data.example('\10\15\10\13\10\1a\18\8\26\6\10\4\1\2\3\5').a

df.data.image(path, {…})
  A PNG, JPEG or PNM picture as a Tensor uint8[height, width, channels].
  option    channels: int = 0  1 gray, 2 with alpha, 3 RGB, 4 with alpha; 0: as many as it has
  example   local path = os.tmpname()
            local f = io.open(path, 'w')
            f:write('P2 3 1 10 0 5 10') f:close()
            local t = df.data.image(path)
            os.remove(path)
            return t:reshape{3}

df.data.images(path, {…})
  The pictures of a folder: call it until nil, or give it to df.data.pipeline; each time a Tensor
  uint8[height, width, channels], the number of its class, and its path. The classes are the
  folders in it, in the order of their names, in :classes; a folder without folders is one class. A
  list of paths will do.
  option    channels: int = 0  as for df.data.image
  option    classes: table = nil  the folders to take, in the order of their numbers
  example   local path = os.tmpname()
            local f = io.open(path, 'w')
            f:write('P2 3 1 10 0 5 10') f:close()
            local picture, class = df.data.images{path}()
            os.remove(path)
            return picture.shape, class

df.data.text(path)
  The lines of a file, or of a list of them, without their ends, plain or gzip: call it until nil,
  or give it to df.data.pipeline.
  example   local path = os.tmpname()
            local f = io.open(path, 'w')
            f:write('one\ntwo\n') f:close()
            local line = df.data.text(path)()
            os.remove(path)
            return line

df.data.pipeline(source)
  Elements from a source through stages to a loop. source is a Tensor, whose rows are the elements,
  a list of Tensors, or a function that gives the parts of an element each time, nil at the end.
  Stages: :shuffle(n, seed) :repeat_(n) :map(fn) :filter(fn) :take(n) :skip(n) :shard(n, k)
  :batch(n, {drop_remainder, pad, pad_value}) :padded_batch(n) :bucket_by_length(fn, boundaries, n)
  :prefetch(k): k elements are ready, and the next are made beside the df.run that uses the last.
  :each() is the iterator for the loop; its :state() is where it is, and
  :each{state =} goes on there.
  example   local p = df.data.pipeline(df.tensor({1, 2, 3, 4}, 'int32')):map(function(x) return x * x end):batch(2)
            local sum = 0
            for x in p:each() do sum = sum * 100 + x:at(1) end
            return sum

df.data.idx(path)
  The Tensor of an IDX file (MNIST's format), plain or gzip.
  example   local path = os.tmpname()
            local f = io.open(path, 'wb')
            f:write('\0\0\8\1\0\0\0\3abc') f:close()
            local t = df.data.idx(path)
            os.remove(path)
            return t

df.data.read(path)
  A file's bytes as a string; a gzip file comes unpacked.
  example   local path = os.tmpname()
            local f = io.open(path, 'wb')
            f:write('abc') f:close()
            local s = df.data.read(path)
            os.remove(path)
            return s

df.data.permutation(n, seed)
  The numbers from 0 to n - 1 in random order, the same for a seed under every Lua.
  example   df.data.permutation(5, 1)

df.data.batches(tensors, size, {…})
  An iterator over batches of rows: the number of the batch from 1, then a Tensor for each tensor.
  option    shuffle: bool = true  each epoch in another random order
  option    seed: int = nil  of that order; the time otherwise
  option    drop_remainder: bool = true  false: the last batch may be smaller
  option    epochs: int = 1  how often all rows come
  example   local n = 0
            for i, x in df.data.batches(df.tensor{1.5, 2, 3, 4}, 2, {seed = 1}) do
              n = n + x.size
            end
            return n
]==]

--- By name without `df.`: a page.
return function(macros)
  local found = {}
  for _, page in ipairs(pages.read(text, macros)) do
    found[page[1]:gsub('^df%.', ''):match('^[%w_.]+')] = page
  end
  return found
end
