--- The pages of graphs, variables, values and their types. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.draw(x, {…})
  The graph that leads to x, which is an Output, an operation, a Variable, a Graph, or a table of
  these: as text, for Graphviz, or as a picture. Gives the text, or nothing when it went to a file.
  At the prompt: :graph x as svg at lowered > x.svg.
  option    as: string = 'let'  'tree', 'let', 'dot' or 'svg'; without it as path ends
  option    at: string = 'built'  'built': as typed; 'lowered': the primitives, and what a run makes
            of them; 'gradient': with the gradient; 'partitioned': by device
  option    path: string = nil  a file to write
  option    lines: int = 400  so many of a let-form or tree at most
  option    source: bool = true  false: without the Lua lines
  option    depth: int = nil  boxes of layers, scopes, loops and conds are open to so many levels;
            without it an svg of more than 40 nodes closes as many as it takes
  option    only: string = nil  what has this in its name, and what is next to it
  option    around: Output or string = nil  a node, itself or by its name, and what is near it
  option    within: int = 2  how many edges that is
  example   local x = df.placeholder('float32', {}, 'x') return df.draw(x * 2, {source = false})

df.tensor(v, dtype?, shape?)
  A Tensor on the host of a number, a table or a Tensor; ?Tensor tells what it can do.
  example   df.tensor{{1.5, 2}, {3, 4}}

df.Variable(init, {…})
  A value that stays from run to run, usable wherever an Output is. Initialised by itself the
  first time a run needs it. init may be a function that gives the value.
  option    name: string = nil  what it is called
  option    trainable: bool = true  false: optimizers leave it alone
  option    dtype: string = nil  that of init otherwise
  option    shape: shape = nil  that of init otherwise; -1 where values differ
  gradient  gradients by v are by the value that was read
  example   local v = df.Variable(1.0) df.run(v:assign_add(2)) return df.run(v)

df.trainable_variables()
  The trainable variables of the default graph, in the order they were made.
  example   local a, b = df.Variable(1.0), df.Variable(0.0, {trainable = false})
            return #df.trainable_variables()

df.global_variables()
  All variables of the default graph, in the order they were made.
  example   df.Variable(1.0, {name = 'w'}) return df.global_variables()[1].name

df.newaxis
  In x[{…}], a new axis of size 1.
  example   df.float32{1, 2}[{{}, df.newaxis}]

df.dtypes
  The names of all dtypes, as a list.
  example   df.dtypes[1]

df.type(x)
  'output', 'tensor', 'variable', 'tensor_array', 'queue', 'operation', 'graph', 'session', 'run',
  'indexed_slices', or nil.
  example   df.type(df.float32(1))

df.names()
  All names of this module, sorted.
  example   #df.names() > 300

df.unpack(list)
  table.unpack under Lua 5.4, unpack under LuaJIT.
  example   df.unpack{1.5, 2.5}

df._VERSION
  The version of dflow.
  example   df._VERSION:match("%a+")

df.Graph()
  A graph of its own. g:as_default(fn) builds in it; ?Graph tells what else it can do.
  example   local g = df.Graph() return g:as_default(function() return df.float32(2) * 3 end)

df.default_graph()
  The graph that is built in now.
  example   df.float32(1) return df.default_graph():size()

df.reset()
  A new, empty default graph; the old one lives as long as something of it is held.
  example   df.float32(1) df.reset() return df.default_graph():size()

df.name_scope(name, fn)
  Names of what fn builds begin with name/. Returns what fn returns.
  example   df.name_scope('layer', function() return df.float32(1) end).name

df.variable_scope(name, {reuse}, fn)
  Variables that get_variable makes in fn are called name/...; reuse = true shares those that are there, 'auto' makes the others. fn gets the scope, which
  may be entered again in the place of a name. Returns what fn returns.
  example   local function layer() return df.get_variable('w', {2}, {initializer = 1}) end
            local a = df.variable_scope('layer', layer)
            local b = df.variable_scope('layer', {reuse = true}, layer)
            return a == b, a.name

df.get_variable(name, shape, {initializer, dtype = 'float32', trainable = true})
  The variable of that name in the current variable scope. An initializer is a value, a function(shape, dtype) or the name of one of
  df.nn.initializers; without one Glorot's uniform is drawn. Loops, branches and name scopes have no part in the name.
  example   df.get_variable('w', {2, 3}, {initializer = 0}):eval()

df.set_random_seed(n)
  The seed of the graph: random ops draw the same numbers in every new session, on any number of
  threads. Each draws anew in every run in which it draws, and counts these alone: s:position().
  example   df.set_random_seed(1) return df.random_uniform{2}

df.tensor_list({Tensor, …}, dtype)
  A list of Tensors of one dtype as one value: what a model in ONNX takes for a sequence, or for a
  value that is optional (a list of none or one). Shapes may differ; an empty list needs the dtype.
  example   local value = df.tensor_list({{1.5, 2}, {3}}, 'float32')
            return df.tensor_list_values(value, 'float32')[2]

df.tensor_list_values(value, dtype)
  The Tensors of a list that a run gave; dtype is that of its elements.
  example   local value = df.tensor_list({{1.5, 2}, {3}}, 'float32')
            return #df.tensor_list_values(value, 'float32')
]==]
