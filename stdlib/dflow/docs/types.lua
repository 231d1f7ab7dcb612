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
  A picture of numbers, made by df.plot and its kinds. Its tostring is the picture in braille.
  example   df.plot.scatter({1, 2}, {1, 2}):text{columns = 4, rows = 2, ascii = true}

p:text{…}
  The picture as lines of text, axes beside it.
  option    columns: int = 60  how many cells are wide
  option    rows: int = 15  how many are high
  option    ascii: bool = false  true: for terminals without UTF-8
  option    colour: bool = false  true: several series, and images, in colours
  example   df.plot{1, 2, 3}:text{columns = 6, rows = 2, ascii = true}

p:svg{…}
  The picture as an SVG document.
  option    width: number = 640  pixels
  option    height: number = 400  pixels
  example   df.plot{1, 2, 3}:svg():sub(1, 4)

p:png{…}
  The picture as the bytes of a PNG: an image's pixels, each as often as goes in; everything else by
  rsvg-convert, where it is there.
  option    width: number = 640  pixels
  option    height: number = 400  pixels
  example   df.plot.image{{0, 1}, {1, 0}}:png():sub(2, 4)

p:save(path)
  Writes it: as SVG or PNG, or as text where path ends in .txt.
  example   pcall(df.plot{1, 2}.save, df.plot{1, 2}, 'picture.bmp')

Output (output, x)
  One output of one node of a graph: symbolic, without a value until it is run. Every op is a
  method of it, x:tanh(), and + - * / % ^ build nodes. x[i] is element i along axis 0, and
  x[{0, {1, 3}, {}, df.newaxis}] takes along each axis an element, a part from and up to, or all of
  it, and a new axis. Two
  mentions of one output are one Lua object.
  field     dtype  its dtype, a string
  field     shape  a list of dimensions, -1 for one not known yet; nil where even the rank is
              unknown
  field     name  'node:index'
  field     op  the operation that makes it
  field     index  which output of the operation, from 0
  field     graph  its Graph
  field     source  'file:line' that built it
  example   df.float32{1, 2}:square()[1]

x:eval(feeds?, {…})
  Its value, from a run in the default session.
@run
  example   df.float32(2):square():eval()

x:set_shape(shape)
  Says what is known of its shape otherwise than by the graph; gives x.
  example   df.placeholder('float32'):set_shape{2, -1}.shape[2]

x:lt(y)
  x < y, elementwise: df.less.
  example   df.float32{1, 2}:lt(2)

x:le(y)
  x <= y, elementwise: df.less_equal.
  example   df.float32{1, 2}:le(1)

x:gt(y)
  x > y, elementwise: df.greater.
  example   df.float32{1, 2}:gt(1)

x:ge(y)
  x >= y, elementwise: df.greater_equal.
  example   df.float32{1, 2}:ge(2)

x:eq(y)
  Equal values, elementwise: df.equal. x == y asks whether both are one output.
  example   df.float32{1, 2}:eq(2)

x:ne(y)
  Different values, elementwise: df.not_equal.
  example   df.float32{1, 2}:ne(2)

-- -------------------------------------------------------------------------------------------------

Operation (operation, op)
  A node of a graph. It can be fetched, which gives true, and stand in control dependencies.
  field     name  its name
  field     type  its op, such as 'MatMul'
  field     inputs  a list of Outputs
  field     outputs  a list of Outputs
  field     graph  its Graph
  field     source  'file:line' that built it
  example   df.float32(2):square().op.type

op:run(feeds?, {…})
  Runs it in the default session; gives true.
@run
  example   df.Variable(1.0):assign(2).op:run()

-- -------------------------------------------------------------------------------------------------

Tensor (tensor, t)
  A concrete dense array on the host: what runs and loaders give, and what may be fed. df.tensor
  makes one. Its indices count from 0, tables from 1. a == b: the same dtype, shape and elements.
  field     dtype  its dtype, a string
  field     shape  a list of dimensions
  field     rank  the number of dimensions
  field     size  the number of elements
  example   df.tensor{{1.5, 2}, {3, 4}}

t:totable()
  Nested tables of its elements; the element itself when the rank is 0.
  example   df.tensor{{1.5, 2}, {3, 4}}:totable()[2][1]

t:item()
  The one element of a tensor of size 1.
  example   df.tensor{2.5}:item()

t:astype(dtype)
  The same numbers in another dtype, converted as df.cast does.
  example   df.tensor{1.7, -1.7}:astype('int32')

t:reshape(shape)
  The same elements in another shape; one dimension may be -1.
  example   df.tensor{1.5, 2, 3, 4}:reshape{2, -1}

t:at(i, j, …)
  Element i, j, … counted from 0; negative numbers count from the end. Fewer indices than the
  rank give a part.
  example   df.tensor{{1.5, 2}, {3, 4}}:at(1, 0)

t:rows(list)
  Rows of these numbers, counted from 0, as a new tensor.
  example   df.tensor{{1.5, 2}, {3, 4}, {5, 6}}:rows{2, 0}

t:list()
  All elements as a flat Lua list, in row-major order.
  example   #df.tensor{{1.5, 2}, {3, 4}}:list()

-- -------------------------------------------------------------------------------------------------

Optimizer (optimizer, o)
  An optimizer: df.train.SGD, df.train.Adam and their like make one.
  example   local w = df.Variable(5.0)
            df.run(df.train.SGD(0.1):minimize(w * w))
            return df.run(w)

o:minimize(loss, {…})
  The operation that does one step: compute_gradients, then apply_gradients. A list of variables
  may stand in the place of the options.
  option    variables: list = nil  what is trained; all trainable variables otherwise
  option    var_list: list = nil  TensorFlow's name of variables
  option    global_step: Variable = nil  1 is added to it
@name
  example   local w = df.Variable(5.0)
            df.run(df.train.SGD(0.1):minimize(w * w))
            return df.run(w)

o:compute_gradients(loss, vars?)
  A list of {gradient, variable}; false where the loss does not depend on the variable.
  example   local w = df.Variable(5.0) return df.train.SGD(0.1):compute_gradients(w * w)[1][1]

o:apply_gradients(list, {…})
  The operation that does one step with a list of {gradient, variable}. The step counter and a name
  may stand by place, too: o:apply_gradients(list, step, 'train').
  option    global_step: Variable = nil  1 is added to it
  option    after: Output = nil  the step waits for it
@name
  example   local w = df.Variable(5.0)
            df.run(df.train.SGD(0.1):apply_gradients{{df.float32(2), w}})
            return df.run(w)

o:variables()
  The optimizer's own variables, such as momenta.
  example   local o, w = df.train.Momentum(0.1), df.Variable(5.0) o:minimize(w * w)
            return #o:variables()

o:get_slot(v, name)
  The variable that the optimizer keeps beside v, such as 'momentum' or 'm'; nil before
  apply_gradients made it.
  example   local o, w = df.train.Momentum(0.1), df.Variable(5.0) o:minimize(w * w)
            return o:get_slot(w, 'momentum').name

o:get_slot_names()
  The names of what the optimizer keeps beside its variables.
  example   local o, w = df.train.Adam(0.1), df.Variable(5.0) o:minimize(w * w)
            return o:get_slot_names()

-- -------------------------------------------------------------------------------------------------

IndexedSlices (indexed_slices, s)
  Rows `indices` of a tensor are `values`, the others are zero: a sparse gradient. It turns dense
  wherever an Output is needed.
  field     values  the rows, an Output
  field     indices  their numbers, an Output
  field     dense_shape  the shape of the whole, or nil
  example   local v = df.Variable{1.0, 2.0}
            return gradients(df.embedding_lookup(v, {0, 0}), v).values

-- -------------------------------------------------------------------------------------------------

SparseTensor (sparse_tensor, s)
  Elements `values` at `indices` of a tensor of shape dense_shape, zeros elsewhere. In loops,
  branches, feeds and fetches it stands for its parts; the functions df.sparse_… are its methods.
  field     indices  int64[n, rank], where each element lies
  field     values  [n], the elements
  field     dense_shape  int64[rank], an Output
  field     dtype  that of the values
  field     shape  what is known of the shape, a list with -1 for the rest, or nil
  field     graph  the Graph it belongs to
  example   local s = df.SparseTensor({{0, 1}}, {2.0}, {2, 2}) return s.shape

s:eval(feeds?, session?)
  What a run gives of it: a table of its indices, values and dense_shape.
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
