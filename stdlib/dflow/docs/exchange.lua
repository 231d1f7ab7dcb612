--- The pages of files of others: NumPy, TensorFlow, ONNX, JAX. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.load_npy(path)
  The array of a NumPy file as a Tensor.
  example   local path = os.tmpname() df.save_npy(path, df.tensor{1.5, 2})
            local t = df.load_npy(path)
            os.remove(path)
            return t

df.save_npy(path, t)
  Writes a Tensor, or what df.tensor takes, as a NumPy file.
  example   local path = os.tmpname() df.save_npy(path, {1.5, 2})
            local t = df.load_npy(path)
            os.remove(path)
            return t

df.load_npz(path)
  The arrays of a zip of NumPy files: {name = Tensor}.
  example   local path = os.tmpname() df.save_npz(path, {w = {1.5, 2}})
            local t = df.load_npz(path)
            os.remove(path)
            return t.w

df.save_npz(path, {name = Tensor})
  Writes Tensors as numpy.savez does.
  example   local path = os.tmpname() df.save_npz(path, {w = {1.5, 2}, b = {0.5}})
            local t = df.load_npz(path)
            os.remove(path)
            return t.b

df.import_graph_def(path or bytes, {…})
  A TensorFlow graph as a Graph: a GraphDef (binary or text, gzipped or not), a MetaGraphDef or a
  SavedModel (its folder: variables begin with its checkpoint). An op that dflow does not know is
  an error when it has to run. Nodes keep their names: g:output('while/Exit:0'). All that works on
  a graph works on it, gradients too.
  option    into: Graph = nil  the graph it is put into; a new one otherwise
  option    prefix: string = nil  names begin with prefix/
  option    input_map: table = nil  {['x:0'] = Output of `into`}: these take the place of the
              file's
  option    signature: string = nil  of a SavedModel: the one that g.inputs and g.outputs are of, by
              name and as lists; serving_default or the only one otherwise. g.signatures has all
  option    files: bool = false  its operations (RestoreV2, SaveV2) may name files by themselves;
              otherwise they only touch files whose path begins with a string that the run is fed
  example   local path = os.tmpname()
            df.export_graph_def(path, {outputs = df.placeholder('float32', {}, 'x') * 2})
            local g = df.import_graph_def(path)
            os.remove(path)
            return df.run(g:output('Mul:0'), {[g:output('x:0')] = 4})

df.load_checkpoint(prefix)
  The tensors of a TensorFlow checkpoint (prefix.index, prefix.data-00000-of-00001) as
  {name = Tensor}. Their bytes are checked against their sums. A partitioned variable's parts are
  put together; one that is missing is named.
  example   local path = os.tmpname()
            df.save_checkpoint(path, {w = df.tensor{1, 2}})
            local t = df.load_checkpoint(path)
            for _, ending in ipairs{'', '.index', '.data-00000-of-00001'} do os.remove(path .. ending) end
            return t.w

df.save_checkpoint(prefix, {name = Tensor})
  Writes a TensorFlow checkpoint, which a Saver of TensorFlow restores. One that is there is
  whole until all is written; its files are removed then.
  example   local path = os.tmpname()
            df.save_checkpoint(path, {w = df.tensor{1, 2}, step = df.tensor(3, 'int64')})
            local t = df.load_checkpoint(path)
            for _, ending in ipairs{'', '.index', '.data-00000-of-00001'} do os.remove(path .. ending) end
            return t.step

df.export_graph_def(path, {…})
  Writes a graph as TensorFlow's GraphDef: binary, text where path ends in .pbtxt, a MetaGraphDef
  where it ends in .meta. Its operation `init` gives variables their initial values.
  option    outputs: Output or table = nil  only what leads to these; the whole graph otherwise
  option    with_context: bool = false  writes path .. '.meta' too, with loops and conds, so
              that tf.gradients goes through them, and the collections of variables
  option    graph: Graph = nil  the default graph otherwise
  option    session: Session = nil  `init` gives variables the values that they have in it
  option    frozen: bool = false  variables are constants, with their values in the session; what
              changes them is left out
  option    clear_devices: bool = false  where nodes were asked to run is not written, which is
              else in `device`, and in `_class` for those that are to be with another one
  example   local path = os.tmpname()
            df.export_graph_def(path, {outputs = {df.float32(2) * 3}})
            return
            os.remove(path)

df.quantize_model(outputs, {…})
  A trained graph as one that computes in 8 bits. A convolution or a product with a filter that is
  constant or trained, what is added and multiplied for each channel (batch normalisation) and the
  ReLU behind it become one op of bytes; pools, reshapes and concatenations between them stay bytes;
  also in loops and branches. Values in between are rounded to 255 steps of the range they have.
  Gives a Graph whose placeholders and outputs have the same names, in lists .inputs and .outputs;
  .ranges has the ranges, .quantized what became of bytes. TensorFlow runs it once it is exported.
  option    feeds: table or function = nil  {[x] = value}, a list of such, or a function that
              gives one after the other: the graph is run with each to find the ranges
  option    ranges: table = nil  {[x] = {least, greatest}}, also by name: those that are known
  option    session: Session = nil  whose variables are trained
  option    skip: function = nil  skip(name) is true for a convolution or product that stays
  example   local x, w = df.placeholder('float32', {1, 2}, 'x'), df.float32{{1, -1}, {1, 1}}
            local q = df.quantize_model(df.matmul(x, w), {ranges = {x = {-1, 1}}})
            return df.rint(10 * q.outputs[1]:eval{[q.inputs[1]] = {{0.5, -1}}}) / 10

df.import_onnx(path or bytes, {…})
  An ONNX model as a Graph: its inputs are placeholders, and they and its outputs are found under
  their names, g:output('x'). g.onnx.inputs and g.onnx.outputs list them. Loop, If and Scan become
  while_loops and conds, so gradients go through them.
  option    into: Graph = nil  the graph it is put into; a new one otherwise
  option    prefix: string = nil  names begin with prefix/
  option    shapes: table = nil  {x = {1, 3, 224, 224}} says the shapes of inputs whose dimensions
              the model leaves open; the graph is for these alone then
  example   local path = os.tmpname()
            df.export_onnx(path, {outputs = {y = df.placeholder('float32', {}, 'x') * 2}})
            local g = df.import_onnx(path)
            os.remove(path)
            return df.run(g:output('y'), {[g:output('x')] = 4})

df.import_hlo(path or bytes, {…})
  A module of XLA's HLO as a Graph: what JAX gives of a function,
  jax.jit(f).lower(x).compiler_ir('hlo').as_serialized_hlo_module_proto(), plain or gzip.
  g.inputs and g.outputs are lists of Outputs, in order, the parts of a tuple one by one. while,
  conditional and call become loops, conds and nodes, so gradients go through them.
  option    into: Graph = nil  the graph it is put into; a new one otherwise
  option    prefix: string = nil  names of inputs begin with prefix/
  example   local hex = '1a3112121209706172616d657465721a02100b980201121712086d756c74'
            hex = hex .. '69706c791a02100b980202a00201a00201280130023001'
            local g = df.import_hlo((hex:gsub('..', function(h) return string.char(tonumber(h, 16)) end)))
            return df.run(g.outputs[1], {[g.inputs[1]] = 4})

df.export_onnx(path, {…})
  Writes what leads to the outputs as an ONNX model. Variables become initializers with their
  values in the session. A cond becomes an If, a while_loop a Loop; a TensorArray becomes a scan
  output where a loop writes it in order and it is only read afterwards, else a sequence. df.print
  hands on its value, df.assert is left out. What has no counterpart (random ops, assignments,
  queues, complex numbers, …) is one error that lists the ops with their Lua lines.
  option    outputs: Output, list or table  what the model gives; {name = Output} names them
  option    inputs: list or table = nil  what it is fed; all placeholders that are needed
              otherwise, in the order they were built
  option    opset: int = 17  from 16 to 21
  option    session: Session = nil  whose variables are written
  example   local x, path = df.placeholder('float32', {3}, 'x'), os.tmpname()
            df.export_onnx(path, {outputs = {y = x * 2}})
            return
            os.remove(path)
]==]
