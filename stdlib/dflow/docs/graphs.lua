--- The pages of graphs, variables, values and their types. Text for pages.lua, which docs/functions.lua reads.
return [==[
df.draw(x, {…})
  Draws the graph that computes x, which is an Output, an operation, a Variable, a Graph, or a table of
  these: as text, for Graphviz, or as a picture. Returns the text, or nothing when it writes a file.
  At the prompt: :graph x as svg at lowered > x.svg.
  option    as: string = 'let'  'tree', 'let', 'dot' or 'svg'; by default by the path's extension
  option    at: string = 'built'  'built': as typed; 'lowered': the primitives, and what a run makes
            of them; 'gradient': with the gradient; 'partitioned': by device
  option    path: string = nil  the file to write
  option    lines: int = 400  the most lines of a let-form or tree
  option    source: bool = true  false: omits Lua lines
  option    depth: int = nil  the number of levels to which boxes of layers, scopes, loops and conds are open;
            without it an svg of more than 40 nodes closes as many as it takes
  option    only: string = nil  draws nodes with this in their name, and their neighbours
  option    around: Output or string = nil  draws a node, given itself or by name, and nodes near it
  option    within: int = 2  the most edges between `around` and a node that is drawn
  example   local x = df.placeholder('float32', {}, 'x') return df.draw(x * 2, {source = false})

df.tensor(v, dtype?, shape?)
  Makes a Tensor on the host of a number, a table or a Tensor; ?Tensor lists its methods.
  example   df.tensor{{1.5, 2}, {3, 4}}

df.Variable(init, {…})
  Makes a variable: a value that persists between runs and can be used as an Output. The first run that
  needs it initialises it. init may be a function that returns the value.
  option    name: string = nil  the variable's name
  option    trainable: bool = true  false: optimizers do not update it
  option    dtype: string = nil  the dtype; init's otherwise
  option    shape: shape = nil  the static shape, with -1 for dimensions that change; init's otherwise
  gradient  gradients by v are by the value that was read
  example   local v = df.Variable(1.0) df.run(v:assign_add(2)) return df.run(v)

df.trainable_variables()
  Returns the trainable variables of the default graph, in the order in which they were made.
  example   local a, b = df.Variable(1.0), df.Variable(0.0, {trainable = false})
            return #df.trainable_variables()

df.global_variables()
  Returns all variables of the default graph, in the order in which they were made.
  example   df.Variable(1.0, {name = 'w'}) return df.global_variables()[1].name

df.newaxis
  Adds an axis of size 1, in x[{…}].
  example   df.float32{1, 2}[{{}, df.newaxis}]

df.dtypes
  The names of all dtypes, as a list.
  example   df.dtypes[1]

df.type(x)
  Returns the type of x, such as 'output', 'tensor', 'variable', 'tensor_array', 'queue', 'operation',
  'graph', 'session', 'run', 'layer' or 'optimizer'; nil for a value that is not dflow's.
  example   df.type(df.float32(1))

df.names()
  Returns all names of this module, sorted.
  example   #df.names() > 300

df.unpack(list)
  table.unpack under Lua 5.4, unpack under LuaJIT.
  example   df.unpack{1.5, 2.5}

df._VERSION
  The version of dflow.
  example   df._VERSION:match("%a+")

df.Graph()
  Makes an empty graph. g:as_default(fn) builds in it; ?Graph lists its methods.
  example   local g = df.Graph() return g:as_default(function() return df.float32(2) * 3 end)

df.default_graph()
  Returns the graph to which ops are added.
  example   df.float32(1) return df.default_graph():size()

df.reset()
  Makes a new, empty default graph. The old one exists while a value of it is referenced.
  example   df.float32(1) df.reset() return df.default_graph():size()

df.name_scope(name, fn)
  Prefixes the names of the nodes that fn builds with name/. Returns what fn returns.
  example   df.name_scope('layer', function() return df.float32(1) end).name

df.variable_scope(name, {reuse}, fn)
  Prefixes the names of the variables that get_variable makes in fn with name/. reuse = true returns variables that exist; 'auto' makes those that do not.
  fn is called with the scope, which may be given instead of a name to enter it again. Returns what fn returns.
  example   local function layer() return df.get_variable('w', {2}, {initializer = 1}) end
            local a = df.variable_scope('layer', layer)
            local b = df.variable_scope('layer', {reuse = true}, layer)
            return a == b, a.name

df.get_variable(name, shape, {initializer, dtype = 'float32', trainable = true})
  Returns the variable of that name in the current variable scope. An initializer is a value, a function(shape, dtype) or the name of one of
  df.nn.initializers; the default is Glorot's uniform. Loops, branches and name scopes are not part of the name.
  example   df.get_variable('w', {2, 3}, {initializer = 0}):eval()

df.set_random_seed(n)
  Sets the graph's seed, so that random ops draw the same numbers in every new session, on any number of
  threads. Each op draws new numbers in each run, and counts its own runs: s:position().
  example   df.set_random_seed(1) return df.random_uniform{2}

df.tensor_list({Tensor, …}, dtype)
  Makes one value of a list of Tensors of one dtype, as ONNX models take for a sequence or an optional
  (a list of none or one). Shapes may differ; an empty list needs the dtype.
  example   local value = df.tensor_list({{1.5, 2}, {3}}, 'float32')
            return df.tensor_list_values(value, 'float32')[2]

df.tensor_list_values(value, dtype)
  Returns the Tensors of a list that a run returned; dtype is that of its elements.
  example   local value = df.tensor_list({{1.5, 2}, {3}}, 'float32')
            return #df.tensor_list_values(value, 'float32')
]==]
