--- The types, as pages.lua reads them: `Name (what df.type says, a letter for one)`, its fields, and
-- below it its methods.
local pages = require 'dflow.docs.pages'
local functions = require 'dflow.docs.functions'

local macros = {
  name = functions.macros.name, run = functions.macros.run,
  -- a run that stands before its first token
  paused = [[
local x, zero, one = df.placeholder('float32', {}), df.int32(0), df.float32(1)
            local i, y = while_loop(function(i, y) return i:lt(5) end,
                                    function(i, y) return i + 1, y * x end, {zero, one})
            local h = df.start(y, {[x] = 2}, {paused = true, values = true})]],
  writer = [[
  example   local folder = os.tmpname() os.remove(folder)
            local w = df.summary.FileWriter(folder)]],
  written = [[
            w:close() os.remove(w.path) os.remove(folder)
            return w.path:match 'tfevents']],
  filled = [[
local q = df.FIFOQueue(10, 'float32', {shapes = {}})
            df.run(q:enqueue_many{1, 2, 3})]],
}

local text = [==[
Plot (plot, p)
  A picture of numbers, made by df.plot and its kinds. tostring gives it in braille characters.
  example   df.plot.scatter({1, 2}, {1, 2}):text{columns = 4, rows = 2, ascii = true}

p:text{…}
  Returns the picture as lines of text, with axes.
  option    columns: int = 60  the width in characters
  option    rows: int = 15  the height in lines
  option    ascii: bool = false  true: for terminals without UTF-8
  option    colour: bool = false  true: images and several series in colours
  example   df.plot{1, 2, 3}:text{columns = 6, rows = 2, ascii = true}

p:svg{…}
  Returns the picture as an SVG document.
  option    width: number = 640  pixels
  option    height: number = 400  pixels
  example   df.plot{1, 2, 3}:svg():sub(1, 4)

p:png{…}
  Returns the picture as the bytes of a PNG. An image's pixels are enlarged by a whole number; other
  pictures need rsvg-convert.
  option    width: number = 640  pixels
  option    height: number = 400  pixels
  example   df.plot.image{{0, 1}, {1, 0}}:png():sub(2, 4)

p:save(path)
  Writes the picture to a file: .svg, .png or .txt.
  example   pcall(df.plot{1, 2}.save, df.plot{1, 2}, 'picture.bmp')

Output (output, x)
  One output of one node of a graph. It is symbolic and has no value until a run. Every op is a method,
  such as x:tanh(), and + - * / % ^ build nodes. x[i] is element i along axis 0. x[{0, {1, 3}, {},
  df.newaxis}] indexes each axis: by an element, by a range (first, end), by {} for all of it; and adds
  an axis. Two mentions of one output are the same Lua object.
  field     dtype  its dtype, a string
  field     shape  a list of dimensions, -1 for one not known yet; nil where even the rank is
              unknown
  field     name  'node:index'
  field     op  the operation that computes it
  field     index  which output of the operation, from 0
  field     graph  its Graph
  field     source  'file:line' that built it
  example   df.float32{1, 2}:square()[1]

x:eval(feeds?, {…})
  Runs x in the default session and returns its value.
@run
  example   df.float32(2):square():eval()

x:set_shape(shape)
  Adds to what is known of the static shape. Returns x.
  example   df.placeholder('float32'):set_shape{2, -1}.shape[2]

x:lt(y)
  Builds x < y, elementwise: df.less.
  example   df.float32{1, 2}:lt(2)

x:le(y)
  Builds x <= y, elementwise: df.less_equal.
  example   df.float32{1, 2}:le(1)

x:gt(y)
  Builds x > y, elementwise: df.greater.
  example   df.float32{1, 2}:gt(1)

x:ge(y)
  Builds x >= y, elementwise: df.greater_equal.
  example   df.float32{1, 2}:ge(2)

x:eq(y)
  Builds the elementwise comparison df.equal. x == y in Lua is true when both are the same output.
  example   df.float32{1, 2}:eq(2)

x:ne(y)
  Builds the elementwise comparison df.not_equal.
  example   df.float32{1, 2}:ne(2)

-- -------------------------------------------------------------------------------------------------

Operation (operation, op)
  A node of a graph. A run that fetches it returns true; it can be listed in control dependencies.
  field     name  the node's name
  field     type  the op type, such as 'MatMul'
  field     inputs  a list of Outputs
  field     outputs  a list of Outputs
  field     graph  its Graph
  field     source  'file:line' that built it
  example   df.float32(2):square().op.type

op:run(feeds?, {…})
  Runs the operation in the default session. Returns true.
@run
  example   df.Variable(1.0):assign(2).op:run()

-- -------------------------------------------------------------------------------------------------

Tensor (tensor, t)
  A dense array on the host. Runs and loaders return tensors, and tensors may be fed. df.tensor makes
  one. Indices count from 0, tables from 1. a == b compares dtype, shape and elements.
  field     dtype  its dtype, a string
  field     shape  a list of dimensions
  field     rank  the number of dimensions
  field     size  the number of elements
  example   df.tensor{{1.5, 2}, {3, 4}}

t:totable()
  Returns nested tables of the elements, or the element itself when the rank is 0.
  example   df.tensor{{1.5, 2}, {3, 4}}:totable()[2][1]

t:item()
  Returns the element of a tensor of size 1.
  example   df.tensor{2.5}:item()

t:astype(dtype)
  Returns the numbers in another dtype, converted as df.cast does.
  example   df.tensor{1.7, -1.7}:astype('int32')

t:reshape(shape)
  Returns the elements in another shape. One dimension may be -1.
  example   df.tensor{1.5, 2, 3, 4}:reshape{2, -1}

t:at(i, j, …)
  Returns element i, j, …, counted from 0; negative numbers count from the end. Fewer indices than
  the rank return a sub-tensor.
  example   df.tensor{{1.5, 2}, {3, 4}}:at(1, 0)

t:rows(list)
  Returns a new tensor of the rows with these numbers, counted from 0.
  example   df.tensor{{1.5, 2}, {3, 4}, {5, 6}}:rows{2, 0}

t:list()
  Returns all elements as a flat Lua list, in row-major order.
  example   #df.tensor{{1.5, 2}, {3, 4}}:list()

-- -------------------------------------------------------------------------------------------------

Optimizer (optimizer, o)
  Updates variables by gradients. df.train.SGD, df.train.Adam and others make one.
  example   local w = df.Variable(5.0)
            df.run(df.train.SGD(0.1):minimize(w * w))
            return df.run(w)

o:minimize(loss, {…})
  Returns the operation of a training step: compute_gradients, then apply_gradients. A list of
  variables may be given instead of options.
  option    variables: list = nil  the variables to train; all trainable ones otherwise
  option    var_list: list = nil  TensorFlow's name of variables
  option    global_step: Variable = nil  each step adds 1 to it
@name
  example   local w = df.Variable(5.0)
            df.run(df.train.SGD(0.1):minimize(w * w))
            return df.run(w)

o:compute_gradients(loss, vars?)
  Returns a list of {gradient, variable}; false in place of a gradient where the loss does not depend
  on the variable.
  example   local w = df.Variable(5.0) return df.train.SGD(0.1):compute_gradients(w * w)[1][1]

o:apply_gradients(list, {…})
  Returns the operation of a training step with a list of {gradient, variable}. The step counter and a
  name may also be positional arguments: o:apply_gradients(list, step, 'train').
  option    global_step: Variable = nil  each step adds 1 to it
  option    after: Output = nil  the step waits for it
@name
  example   local w = df.Variable(5.0)
            df.run(df.train.SGD(0.1):apply_gradients{{df.float32(2), w}})
            return df.run(w)

o:variables()
  Returns the optimizer's own variables, such as momenta.
  example   local o, w = df.train.Momentum(0.1), df.Variable(5.0) o:minimize(w * w)
            return #o:variables()

o:get_slot(v, name)
  Returns the optimizer's variable for v of that name, such as 'momentum' or 'm'; nil before
  apply_gradients has made it.
  example   local o, w = df.train.Momentum(0.1), df.Variable(5.0) o:minimize(w * w)
            return o:get_slot(w, 'momentum').name

o:get_slot_names()
  Returns the names of the optimizer's variables for each trained variable.
  example   local o, w = df.train.Adam(0.1), df.Variable(5.0) o:minimize(w * w)
            return o:get_slot_names()

-- -------------------------------------------------------------------------------------------------

IndexedSlices (indexed_slices, s)
  A sparse gradient: rows `indices` of a tensor are `values`, the others are zero. It becomes dense
  where an Output is needed.
  field     values  the rows, an Output
  field     indices  the row numbers, an Output
  field     dense_shape  the shape of the whole, or nil
  example   local v = df.Variable{1.0, 2.0}
            return gradients(df.embedding_lookup(v, {0, 0}), v).values

-- -------------------------------------------------------------------------------------------------

SparseTensor (sparse_tensor, s)
  A tensor of shape dense_shape with elements `values` at `indices`, and zeros elsewhere. It can be a
  loop variable, a branch's result, a feed and a fetch; the functions df.sparse_… are its methods.
  field     indices  int64[n, rank], the position of each element
  field     values  [n], the elements
  field     dense_shape  int64[rank], an Output
  field     dtype  that of the values
  field     shape  what is known of the shape, a list with -1 for the rest, or nil
  field     graph  the Graph it belongs to
  example   local s = df.SparseTensor({{0, 1}}, {2.0}, {2, 2}) return s.shape

s:eval(feeds?, session?)
  Runs it and returns a table of its indices, values and dense_shape.
  example   return df.SparseTensor({{0, 1}}, {2.0}, {2, 2}):eval().values
]==] .. '\n' .. require 'dflow.docs.types_state' .. '\n' .. require 'dflow.docs.types_runs' .. '\n' .. require 'dflow.docs.types_training'

--- By name: {what it is, example, kind =, letter =, fields =, methods = {[name] = page}}.
local M = {}
local current
for _, page in ipairs(pages.read(text, macros)) do
  local name, kind, letter = page[1]:match('^(%u%w+) %(([%w_]+), (%l+)%)$')
  if name then
    current = { page[2], page[3], kind = kind, letter = letter, fields = page.fields, methods = {} }
    M[name] = current
  else
    current.methods[page[1]:match('^%l+:([%w_]+)')] = page
  end
end

return M
