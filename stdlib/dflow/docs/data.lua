--- The pages of df.data, as docs/functions.lua has those of df.
local pages = require 'dflow.docs.pages'

local text = [==[
df.data
  Readers of data sets: df.data.csv, df.data.tfrecord, df.data.text, df.data.idx. Iterators for
  training loops: df.data.pipeline, df.data.batches.
  example   type(df.data.idx)

df.data.csv(path, {…})
  Reads the columns of a CSV file, plain or gzip. Returns a table of Tensors by name and by number. An
  error names file and line.
  option    types: table or string = nil  one dtype, a list, or {name = dtype}; inferred otherwise
  option    header: bool or table = true  true: the first line has the names; a list gives the names
  option    separator: string = ','  the separator of fields
  option    missing: any = nil  the value of an empty field; else it is an error in a column of numbers whose
              type is given, and makes an inferred column one of strings
  option    comment: string = nil  skips lines that begin with it
  example   local path = os.tmpname()
            local f = io.open(path, 'w')
            f:write('name,size\nash,3\nelm,4\n') f:close()
            local t = df.data.csv(path)
            os.remove(path)
            return t.size, t[1]

df.data.tfrecord(path)
  Returns an iterator over the records, strings, of a TFRecord file or a list of files: call it until nil,
  or give it to df.data.pipeline. It verifies checksums. df.data.example decodes a tf.train.Example.
  example   local path = os.tmpname()
            df.data.write_tfrecord(path, {'one', 'two'})
            local records = df.data.tfrecord(path)
            os.remove(path, records)
            return type(records)

df.data.write_tfrecord(path, list)
  Writes a list of strings as a TFRecord file, with checksums, atomically.
  example   local path = os.tmpname()
            df.data.write_tfrecord(path, {'one', 'two'})
            local first = df.data.tfrecord(path)()
            os.remove(path)
            return first

df.data.example(bytes)
  Decodes the features of a tf.train.Example. Returns {name = Tensor}, each of rank 1: string, float32 or
  int64.
  example   df.data.example('\10\15\10\13\10\1a\18\8\26\6\10\4\1\2\3\5').a

df.data.image(path, {…})
  Reads a PNG, JPEG or PNM picture. Returns a Tensor uint8[height, width, channels].
  option    channels: int = 0  1: grey, 2: grey and alpha, 3: RGB, 4: RGB and alpha, 0: the file's
  example   local path = os.tmpname()
            local f = io.open(path, 'w')
            f:write('P2 3 1 10 0 5 10') f:close()
            local t = df.data.image(path)
            os.remove(path)
            return t:reshape{3}

df.data.images(path, {…})
  Returns an iterator over the pictures of a folder: call it until nil, or give it to df.data.pipeline. It
  returns a Tensor uint8[height, width, channels], the number of its class, and its path. The classes are
  the subfolders in the order of their names, listed in :classes; without subfolders there is one class.
  path may be a list of paths.
  option    channels: int = 0  as of df.data.image
  option    classes: table = nil  the subfolders to read, in the order of class numbers
  example   local path = os.tmpname()
            local f = io.open(path, 'w')
            f:write('P2 3 1 10 0 5 10') f:close()
            local picture, class = df.data.images{path}()
            os.remove(path)
            return picture.shape, class

df.data.text(path)
  Returns an iterator over the lines of a file or a list of files, plain or gzip: call it until nil, or
  give it to df.data.pipeline.
  example   local path = os.tmpname()
            local f = io.open(path, 'w')
            f:write('one\ntwo\n') f:close()
            local line = df.data.text(path)()
            os.remove(path)
            return line

df.data.pipeline(source)
  Makes a pipeline of elements. source is a Tensor, whose rows are the elements, a list of Tensors, or a
  function that returns the parts of the next element, and nil at the end.
  Stages: :shuffle(n, seed) :repeat_(n) :map(fn) :filter(fn) :take(n) :skip(n) :shard(n, k)
  :batch(n, {drop_remainder, pad, pad_value}) :padded_batch(n) :bucket_by_length(fn, boundaries, n)
  :prefetch(k). :each() returns an iterator for a loop; its :state() is its position, and :each{state =}
  continues there. ?Pipeline describes the stages.
  example   local p = df.data.pipeline(df.tensor({1, 2, 3, 4}, 'int32')):map(function(x) return x * x end):batch(2)
            local sum = 0
            for x in p:each() do sum = sum * 100 + x:at(1) end
            return sum

df.data.idx(path)
  Reads an IDX file (MNIST's format), plain or gzip. Returns a Tensor.
  example   local path = os.tmpname()
            local f = io.open(path, 'wb')
            f:write('\0\0\8\1\0\0\0\3abc') f:close()
            local t = df.data.idx(path)
            os.remove(path)
            return t

df.data.read(path)
  Returns the bytes of a file as a string; a gzip file is decompressed.
  example   local path = os.tmpname()
            local f = io.open(path, 'wb')
            f:write('abc') f:close()
            local s = df.data.read(path)
            os.remove(path)
            return s

df.data.permutation(n, seed)
  Returns the numbers from 0 to n - 1 in random order, the same for a seed under every Lua.
  example   df.data.permutation(5, 1)

df.data.batches(tensors, size, {…})
  Returns an iterator over batches of rows: the number of the batch from 1, then a Tensor for each tensor.
  option    shuffle: bool = true  shuffles the rows in each epoch
  option    seed: int = nil  the seed of the order; the time otherwise
  option    drop_remainder: bool = true  false: the last batch may be smaller
  option    epochs: int = 1  the number of passes over the rows
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
