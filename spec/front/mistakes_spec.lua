-- The commonest mistakes of users of NumPy, PyTorch and TensorFlow 2, and of those new to graphs. Each is
-- to end in an error that says what is wrong, where, and how it is mended; none passes unheard.
local df = require 'dflow'
local errors = require 'dflow.front.errors'
local quote = require 'dflow.front.quote'
local conditions = require 'dflow.check.conditions'

local has_integers = math.type ~= nil

-- {code, what the message says, how it is mended}; plain texts
local mistakes = {
  -- NumPy's ways
  { 'local x = df.constant{1.0,2,3} local y = x.T', "'T'", 'df.transpose(x)' },
  { 'local x = df.ones{2} local y = x:reduce_sum(axis = 0)', "near '='", 'x:reduce_sum{axis = 0}' },
  { '// a comment', "near '/", 'two dashes' },
  { 'for x in df.data.pipeline(df.tensor{1,2}):each do end', "near 'do'", 'p:each()' },
  { 'df.help()', "df has no 'help'", '?name at the prompt' },
  { 'dir(df)', "global 'dir'", 'Tab behind' },
  { 'df.tran.SGD(0.1)', "df has no 'tran'", "'train'" },
  { 'df.mean_squared_error(1, 2)', "'mean_squared_error'", 'df.nn.mean_squared_error(' },
  { 'local x = df.float32(2) gradients(function(x) return x * x end, x)', 'function was given', 'gradients(f(x), x)' },
  { 'local y = df.plot local p = df.summary("a")', "call a table value", '?summary' },
  { 'local x = df.ones{2} df.run(x, x, {1, 2})', 'the options are a table', '{[x] = value}' },
  { 'df.vmap(df.ones{3})', 'vmap takes a function', 'not Output' },
  { 'local x = df.constant{{1.0,2},{3,4}} local y = x:sum()', "'sum'", 'df.reduce_sum(x, axis)' },
  { 'local y = df.sum(df.constant{1.0,2})', "df has no 'sum'", 'df.reduce_sum' },
  { 'local y = df.mean(df.constant{1.0,2})', "df has no 'mean'", 'df.reduce_mean' },
  { 'local x = df.array{1,2,3}', "df has no 'array'", 'df.constant(v)' },
  { 'local x = df.constant{1,2,3} print(x.shape())', "'shape'", 'needs no parentheses' },
  { 'local x = df.constant{1,2,3} print(x:shape())', "'shape'", 'needs no parentheses' },
  { 'local v = df.Variable(df.zeros{2}) print(v:shape())', "'shape'", 'needs no parentheses' },
  { 'local t = df.tensor{1,2,3} print(t:shape())', "'shape'", 'needs no parentheses' },
  { 'local t = df.tensor{1,2,3} print(t[1])', 'a Tensor is indexed', 't:at(1)' },
  { 'local x = df.constant{1,2,3} for i, v in ipairs(x) do end', 'past the end of axis 0', 'df.unstack(x)' },
  { 'local x = df.constant{1,2,3} print(#x)', '# of an Output', 'df.dim(x, 0)', lua54 = true },   -- LuaJIT asks no table for its length
  { 'local x = df.constant{1.0,2} local y = math.sin(x)', "bad argument #1 to 'sin'", 'df.sin(x)' },
  { 'local x = df.constant{1.0,2} local y = math.exp(x)', "bad argument #1 to 'exp'", 'df.exp(x)' },
  { 'local x = df.constant{1.0,2} local y = math.max(x, 3)', 'the result of <', 'df.maximum(a, b)' },
  { "local x = df.constant({1,2}, 'float')", "'float' is no dtype", "it is 'float32'" },
  { "local x = df.constant({1,2}, 'int')", "'int' is no dtype", "it is 'int32'" },
  { "local x = df.constant({1,2}, 'double')", "'double' is no dtype", "it is 'float64'" },
  { 'local x = df.constant({1,2}, df.float32)', 'df.float32 is a function', "write 'float32'" },
  { 'local x = df.constant{{1,2},{3}}', 'not rectangular', 'every row has the same length' },
  { 'local x = df.zeros(2, 3)', 'the shape is one list', 'write {2, 3}' },
  { "local x = df.ones('2,3')", 'shape is the string', 'a list of whole numbers' },
  { 'local x = df.zeros[3]', "index a function value (field 'zeros')", 'df.zeros{…}' },
  { 'local x = df.tensor(1, 2, 3)', 'a shape is a list of dimensions', 'df.tensor{1, 2, 3}' },
  { 'local x = df.gather(df.ones{3}, 1.5)', '1.5 cannot be held by dtype int32', 'math.floor(v)' },
  { 'local x = df.int32(1.5)', '1.5 cannot be held by dtype int32', 'a whole number is expected' },
  { 'local x = df.sigmoid 3', "near '3'", 'df.sigmoid(3)' },
  { 'local x = df.ones{2} local y = df.run("x")', "no operation 'x'", 'df.run(x)' },
  { "local x = df.placeholder('float32', {}) print(df.run(x, {['x'] = 3}))", "no operation 'x'", '{[x] = value}' },
  { 'local y = df.run(z)', 'nothing to fetch', "the variable 'z' is nil" },
  { 'local y = df.nn.dense(3)', 'units is a whole number', 'df.nn.Dense(units)' },
  { 'local f = df.func("f", function(x) return x end)', 'third argument', "df.func(name, {'float32'}," },
  { 'local y = df.vmap(function(a) return a * 2 end)(3)', 'no axis 0 for lanes', 'in_axes = false' },
  { 'local h = df.start(df.ones{2}) h:wiat()', "'wiat'", "did you mean 'wait'?" },
  { 'local x = df.concat(df.ones{2}, df.ones{2})', 'the values are one list', 'df.concat({a, b}, 0)' },
  { 'local x = df.concatenate({df.ones{2}, df.ones{2}}, 0)', "'concatenate'", 'df.concat(list, axis)' },
  { 'local x = df.stack(df.ones{2}, df.ones{3})', 'takes a list of values', 'df.stack({a, b}, axis)' },
  { 'local x = df.stack{df.ones{2}, df.ones{3}}', 'expected one shape', 'df.concat({a, b}, axis)' },
  { 'local x = df.ones{2}:reshape(2, 1)', 'at most 2 arguments', 'x:reshape{2, 1}' },
  { 'local x = df.ones{4}:reshape{3, 2}', 'has 4 elements', 'may be -1' },
  { 'local x = df.ones{2,3} * df.ones{2}', 'cannot be broadcast', 'df.expand_dims(y, 1)' },
  { 'local x = df.ones{2} * df.ones{2,3}', 'cannot be broadcast', 'df.expand_dims(x, 1)' },
  { 'local x = df.ones{2,3} + df.ones{4}', 'cannot be broadcast', 'aligned at the last one' },
  { 'local x = df.ones{4} + df.ones{2,3}', 'cannot be broadcast', 'aligned at the last one' },
  { 'local x = df.matmul(df.ones{2,3}, df.ones{2,3})', 'the inner dimensions differ', 'transpose_b = true' },
  { 'local x = df.matmul(df.ones{2,3}, df.ones{4,2})', 'the inner dimensions differ', 'df.matmul(b, a)' },
  { 'local x = df.ones{2,3} @ df.ones{3,2}', "near '@'", 'df.matmul(a, b)' },
  { 'local x = df.dot(df.ones{2,3}, df.ones{3,2})', "'dot'", 'df.matmul(a, b)' },
  { "local x = df.int32{1,2,3} + df.constant{1.5,2,3}", 'different dtypes, int32', "df.cast(x, 'float32')" },
  { 'local x = df.int32{1,2,3} + 0.5', 'cannot be held by dtype int32', "df.cast(x, 'float32')" },
  { 'local x = df.reduce_sum(df.ones{2,3}, {axis = 2})', 'axis 2 is out of range', 'axes count from 0' },
  { 'local x = df.reduce_sum(df.ones{2,3}, {axes = 1})', "no option 'axes'", "did you mean 'axis'?" },
  { 'local x = df.ones{2,3}:reduce_mean{dim = 1}', "no option 'dim'", "did you mean 'axis'?" },
  { 'local x = df.ones{2,3}:reduce_mean{axis = 1, keepdim = true}', "no option 'keepdim'", "did you mean 'keep_dims'?" },
  { "local x = df.reduce_sum(df.ones{2,3}, 'axis')", 'axis is the string', 'a whole number is expected' },
  { 'local x = df.argmax(df.ones{2,3}, 5)', 'axis 5 is out of range', 'axes count from 0' },
  { 'local x = df.ones{3} x[0] = 5', 'cannot be changed', 'df.where(mask, a, b)' },
  { 'local x = df.tensor{1,2,3} x[0] = 5', 'a Tensor never changes', 'df.tensor' },
  { 'local x = df.linspace(0, 1)', 'num is missing', 'df.linspace(start, stop, num)' },
  { 'local x = df.arange(10)', "'arange'", 'df.range(' },
  { 'local x = df.eye(3, 3, 3, 3)', 'at most 2 arguments', 'df.eye(n' },
  { 'local x = df.random.normal({2,3})', "'random'", 'df.random_normal(shape)' },
  { 'local x = df.random_normal(2, 3)', 'the shape is one list', 'write {2, 3}' },
  { 'local x = df.where(df.ones{2}, 1, 2)', 'bool is expected', 'x:gt(0)' },
  { 'local x = df.clip(df.ones{2}, 0, 1)', "'clip'", 'df.clip_by_value' },
  { 'local x = df.ones{2,3}:transpose(1, 0)', 'at most 2 arguments', 'it is one list' },
  { 'local x = df.ones{2,3}[5]', 'x[5] is past the end', 'df.unstack(x)' },
  { 'local x = df.ones{2,3}[{0, 1, 2}]', 'about 3 axes', 'has 2' },
  { "local x = df.ones{2,3}[{0, '1'}]", 'is the string "1"', 'df.newaxis is expected' },
  { "local x = 'a' + df.ones{2}", 'the string "a"', 'strings and numbers do not mix' },
  { 'local x = df.ones{2} .. df.ones{2}', 'has no value while building', 'run it first' },
  { 'local t = df.tensor{1.0,2} print(t > 1)', 'element by element', 't:gt(1)' },
  { 'local x = df.gather(df.ones{3}, 7)', 'index 7 is not in [0, 3)', 'indices count from 0' },
  { 'local x = df.one_hot(df.int32{0, 1})', 'depth is missing', 'df.one_hot(indices, depth' },
  { "local x = df.cast(df.ones{2}, 'float31')", "'float31' is no dtype", "did you mean 'float32'?" },
  { "local x = df.cast('int32', df.ones{2})", 'a dtype is a string', 'the value comes first' },
  { 'local x = df.split(df.ones{5}, 2, 0)', 'does not split into 2 equal parts', 'df.split(x, {2, 3})' },
  { 'local x = df.expand_dims(df.ones{5})', 'axis is missing', 'df.expand_dims(x, axis)' },
  { 'local x = df.squeeze(df.ones{5}, {axis = 0})', 'is 5: expected 1', 'only dimensions of 1' },
  { "local x = df.load_npy('nothere.npy')", 'cannot open nothere.npy', 'paths go by the folder' },
  -- PyTorch's ways
  { 'local x = df.Tensor{1,2}', 'df.Tensor is the type', 'df.tensor{1, 2}' },
  { 'local x = df.Tensor(2, 3)', 'df.Tensor is the type', 'df.zeros{2, 3}' },
  { 'local x = df.constant{1.0} x.requires_grad = true', "'requires_grad'", 'gradients(y, x)' },
  { 'local w = df.Variable(df.float32(1)) local loss = w * w loss:backward()', "'backward'", 'gradients(loss, {w, b})' },
  { 'local w = df.Variable(df.float32(1)) print(w.grad)', "'grad'", 'gradients(y, x)' },
  { 'local x = df.constant{1.0} print(x:item())', "'item'", 'df.run(x)' },
  { 'local x = df.constant{1.0} print(x:numpy())', "'numpy'", 'df.run(x)' },
  { 'local x = df.constant{1.0} print(x:detach())', "'detach'", 'df.stop_gradient(x)' },
  { 'local x = df.ones{2,3}:view(6)', "'view'", 'df.reshape(x, shape)' },
  { 'local x = df.ones{2,3}:size(0)', "'size'", 'df.size(x)' },
  { 'local l = df.nn.Linear(3, 4)', "'Linear'", 'df.nn.Dense(units)' },
  { 'local l = df.nn.Dense(3, 4)', 'its options are a table', 'the width of the input is taken from the input' },
  { 'local l = df.nn.Dense{units = 3}', 'units is a whole number', 'df.nn.Dense(64)' },
  { 'local l = df.nn.Dense(3) local y = l(df.ones{2})', 'its input is float32[2]', 'a batch of one' },
  { 'local m = df.nn.Sequential(df.nn.Dense(3), df.nn.Dense(2))', 'its options are a table', 'the layers are one list' },
  { 'local m = df.nn.Conv2D(8, 3) local y = m(df.ones{28, 28})', '[batch, height, width, channels] is expected', 'df.expand_dims(x, 0)' },
  { 'local m = df.nn.Conv2D(8, 3, {stride = 2})', "no option 'stride'", "'strides'" },
  { 'local opt = df.optim.Adam(0.1)', "'optim'", 'df.train.Adam' },
  { 'local opt = df.train.Adam{lr = 0.1}', "no option 'lr'", 'df.train.Adam(1e-3)' },
  { 'local w = df.Variable(df.float32(1)) local opt = df.train.SGD({w}, 0.1)', 'at most 1 arguments', 'minimize(loss' },
  { 'local opt = df.train.SGD(0.1) opt:zero_grad()', "'zero_grad'", 'not needed' },
  { 'local opt = df.train.SGD(0.1) opt:step()', "'step'", 'df.run(train)' },
  { 'local x = df.ones{2}:cuda()', "'cuda'", "df.device('gpu:0'" },
  { "local x = df.ones{2}:to('cuda')", "'to'", "df.device('gpu:0'" },
  { 'local x = df.cat({df.ones{2}, df.ones{2}}, 0)', "'cat'", 'df.concat(list, axis)' },
  { 'local l = df.cross_entropy(df.ones{2,3}, df.int32{0, 1})', "'cross_entropy'", 'df.sparse_softmax_cross_entropy_with_logits' },
  { 'local l = df.softmax_cross_entropy(df.ones{2,3}, df.int32{0, 1})', "'softmax_cross_entropy'", 'df.softmax_cross_entropy_with_logits' },
  { 'local l = df.softmax_cross_entropy_with_logits(df.ones{2,3}, df.int32{0, 1})', 'different dtypes', "df.cast(x, 'float32')" },
  { 'local l = df.sparse_softmax_cross_entropy_with_logits(df.ones{2,3}, df.float32{0, 1})', '(labels) is float32', "df.cast(x, 'int32')" },
  -- TensorFlow's ways
  { "local x = df.placeholder({3,4}, 'float32')", 'the dtype comes first', "df.placeholder('float32', {" },
  { "local x = df.placeholder('float32', 3, 4)", 'the shape is one list', '{3, 4}' },
  { "local x = df.placeholder('float32', {3}) print(df.run(x, {[x] = df.ones{3}}))", 'Output was fed', 'v:eval()' },
  { "local x = df.placeholder('float32', {3}) print(df.run(x))", 'was not fed', 'df.run(y, {[x] = value})' },
  { "local x = df.placeholder('float32', {3}) print(df.run({[x] = {1,2,3}}, x))", 'not Output', 'feeds come second' },
  { "local x = df.placeholder('float32', {3}) print(df.run(x, {x = {1,2,3}}))", "no operation 'x'", 'write {[x] = value}' },
  { "local x = df.placeholder('float32', {3}) print(df.run(x, {[x] = {1,2}}))", 'was fed float32[2]', 'takes any size' },
  { "local x = df.placeholder('float32', {3}) print(df.run(x, {feed_dict = {[x] = {1,2,3}}}))", "'feed_dict'", '{[x] = value}' },
  { "local v = df.Variable(1.0, {name = 'w'}) print(df.run(v * 2, {[v] = 5}))", 'a variable has its value from the session', 'w:load(x)' },
  { "local x = df.placeholder('int32', {}) print(df.run(x, {[x] = 1.5}))", 'the number 1.5', 'feed a whole number' },
  { 'local x, y = df.ones{2}, df.ones{3} print(df.run(x, y))', 'feeds is a table', 'df.run{x, y}' },
  { 'df.run(df.global_variables_initializer())', "'global_variables_initializer'", 'not needed' },
  { 'local w = df.Variable(df.float32(1)) w = w - 0.1 w:assign(3)', 'is an Output, not a Variable', 'w:assign_sub(0.1)' },
  { 'local w = df.Variable(df.float32(1)) w.value = 3', "'value' was to be set", 'assign(x)' },
  { 'local w = df.Variable(df.float32(1)) w:assign({1.0, 2.0})', 'holds float32[] but is given float32[2]', 'keeps its shape' },
  { 'local w = df.Variable(df.int32(1)) local g = gradients(w * w, w)', 'only float values have gradients', 'cast it to float32' },
  { 'local w = df.Variable(df.float32(1)) local g = df.grad(w * w, w)', "'grad'", 'gradients(y, x)' },
  { 'local w = df.Variable(df.float32(1)) local g = df.gradients(w * w)', 'xs is missing', 'gradients(loss, {w, b})' },
  { 'local a, b = df.constant{1.0}, df.constant{2.0} local g = gradients(a, b)', 'does not depend on x', "unconnected = 'zero'" },
  { 'prnt(1)', "global 'prnt'", "did you mean 'print'?" },
  { 'local a = 1 if a < b then end', 'compare number with nil', "'b' is nil there" },
  { 'local a = 1 if a > b then end', 'compare nil with number', "'b' is nil there" },
  { 'local t = {} if 0 >= t.n then end', 'compare nil with number', "'t.n' is nil there" },
  { "local x = df.tensor({'yes'}, 'bool')", 'cannot be an element of dtype bool', 'without quotes' },
  { "local x = df.tensor({true}, 'string')", 'cannot be an element of dtype string', 'tostring(b)' },
  { 'local initial = nil df.run(initial)', 'nothing to fetch', "'initial' is nil" },
  { 'local y = while_loop(i < 3, i + 1, {0})', 'attempt to compare', "'i' is nil there; while_loop takes functions" },
  { 'local y = while_loop(function(i) return i:lt(3) end, function(i) i + 1 end, {0})', "near '+'", 'is `return` missing? function(…) return i + 1 end' },
  { 'local x = df.ones{2} print(x:shape', 'near', 'x.shape' },
  { 'local x = df.ones{2} local y = x:tanh', 'function arguments expected', 'x:tanh()' },
  { 'local y = 3 ** 2', "near '*'", 'x ^ 2' },
  { "local v = df.Variable(0, 'w')", 'not the string "w"', "df.Variable(value, {name = 'w'})" },
  { 'local c = df.rnn.LSTMCell(10, 20)', 'not the number 20', 'the call is df.rnn.LSTMCell(units, {forget_bias' },
  { 'local l = df.nn.Conv2D(3, 8, 3)', 'not the number 3', 'the call is df.nn.Conv2D(filters, size, {' },
  { 'local l = df.nn.LayerNorm(8)', 'not the number 8', 'the call is df.nn.LayerNorm({epsilon' },
  { 'local l = df.nn.Dense(3, df.relu)', 'not function', '{activation = df.relu}' },
  { 'local o = df.train.SGD(0.1, {momentum = 0.9})', "no option 'momentum'", 'df.train.Momentum(0.1, 0.9)' },
  { 'local r = df.train.exponential_decay(0.1, df.Variable(0), 100, 0.96, 3)', 'staircase is true or false', 'not the number 3' },
  { 'local s = df.Session() s:run(df.init())', 'nothing to fetch', 'variables are initialised when a run first needs them' },
  { 'df.run(df.init)', 'function cannot be fetched', 'variables are initialised when a run first needs them' },
  { 'local v, s = df.Variable(1.0), df.Session() v:eval(s)', 'not Session', 's:run(x, feeds)' },
  { 'local v, s = df.Variable(1.0), df.Session() df.run(v, {}, {session = s})', "no option 'session'", 's:run(x, feeds)' },
  { 'local x = df.ones{2} local t = df.tensor(x)', 'no value outside a run', 'df.run(x) gives its value' },
  { 'local s = df.Session() s:run()', 'nothing to fetch', 's:run(y)' },
  { 'local s = df.Session() s.run(df.ones{2})', 'run is a method of a session', 'with a colon' },
  { 'local s = df.Session{gpu = true}', "no option 'gpu'", "{devices = {'gpu:0'}}" },
  { 'local t = df.GradientTape()', "'GradientTape'", 'gradients(y, x)' },
  { "df.device('gpu:7', function() return df.run(df.ones{2} * 2) end)", "no device 'gpu:7'", 'df.devices()' },
  -- what a graph is
  { "local x = df.float32(1) if x > 0 then print('pos') end", 'the result of <', 'cond(x:gt(0)' },
  { 'local x = df.float32(1) local y = x > 0 and x or -x', 'the result of <', 'df.where(p, a, b)' },
  { 'local x = df.float32(1) local y = df.cond(x == 1, function() return x end, function() return -x end)', 'the Lua boolean false', 'i:eq(3)' },
  { 'local x = df.float32(1) local y = df.cond(x, function() return x end, function() return -x end)', 'must be a scalar bool', 'x:gt(0)' },
  { 'local x = df.float32(1) local y = df.cond(x:gt(0), x, -x)', 'two functions', 'the branches are functions' },
  { 'local x = df.float32(1) local y = df.cond(x:gt(0), function() return x end)', 'the second one is nil', 'both branches are needed' },
  { 'local x = df.float32(1) local y = df.cond(x:gt(0), function() return x end, function() local y = -x end)', 'the false branch 0', '`return` missing in the false' },
  { 'local x = df.float32(1) local y = df.cond(x:gt(0), function() return x end, function() return df.int32(1) end)', 'int32 in the false branch', 'cast one of them' },
  { 'local x = df.constant{1.0, 2.0} local y = df.cond(x:gt(0), function() return x end, function() return -x end)', 'is bool[2]', 'df.where(p, x, y)' },
  { 'local y = df.while_loop(function(i) return i < 10 end, function(i) return i + 1 end, {df.int32(0)})', 'the result of <', 'a:lt(b)' },
  { 'local y = df.while_loop(function(i) return i:lt(10) end, function(i) i = i + 1 end, {df.int32(0)})', 'its body returns 0 values', '`return` missing' },
  { 'local y = df.while_loop(function(i) i:lt(10) end, function(i) return i + 1 end, {df.int32(0)})', 'the predicate returns nothing', '`return` missing' },
  { 'local y = df.while_loop(function(i) return i:lt(10) end, function(i) return i + 0.5 end, {df.int32(0)})', 'cannot be held by dtype int32', 'df.cast' },
  { 'local y = df.while_loop(function(i, y) return i:lt(10) end, function(i, y) return i + 1, y * 2 end, {i = df.int32(0), y = df.float32(1)})',
    'its variables have names', 'v.y' },
  { 'local y = df.while_loop(function(i, y) return i:lt(10) end, function(i, y) return i + 1 end, {df.int32(0), df.float32(1)})', 'its body returns 1 value',
    'of each loop variable' },
  { 'local y = df.while_loop(function(i, y) return i:lt(10) end, function(i, y) return y * 2, i + 1 end, {df.int32(0), df.float32(1)})',
    'loop variable 1 (i) enters as int32', 'in the order of the loop variables' },
  { 'local y = df.while_loop(function(i, y) return i:lt(10) end, function(i, y) return i + 1, df.concat({y, y}, 0) end, {df.int32(0), df.ones{2}})',
    'loop variable 2 (y) enters as float32[2]', 'shape_invariants = {[2] = {-1}}' },
  { 'local y = df.while_loop(10, function(i) return i + 1 end, {df.int32(0)})', 'the predicate is the number 10', 'function(i) return i:lt(10) end' },
  { 'local y = df.while_loop(function(i) return i:lt(10) end, function(i) return i + 1 end)', 'the loop variables are missing', '{df.int32(0), x}' },
  { 'local y = df.while_loop(function(i) return i:lt(10) end, function(i) return i + 1 end, {df.int32(0)}, {parallel = 3})', "no option 'parallel'", "'parallel_iterations'" },
  { 'local y = df.while_loop(function(i) return 10 end, function(i) return i + 1 end, {df.int32(0)})', 'no value of dtype bool', 'i:lt(10)' },
  { 'local i = df.int32(0) while i:lt(10) do break end', 'an Output is always true', 'while_loop' },
  { "local x = df.float32(1) if x:gt(0) then print('pos') end", 'an Output is always true', 'cond' },
  { 'for i = 1, df.int32(3) do print(i) end', "'for' limit", 'while_loop' },
  { "local ta = df.TensorArray('float32', 3) ta:write(0, 1.0) df.run(ta:stack())", 'was never written', 'ta = ta:write(i, v)' },
  { 'local ta = df.TensorArray(3)', 'the dtype comes first', "TensorArray('float32', 3)" },
  { "local ta = df.TensorArray('float32', 3) df.run(ta:read(5))", 'index 5 is out of range', 'slots count from 0' },
  { "local ta = df.TensorArray('float32', 3) ta[0] = 1.0", 'ta = ta:write(i, v)', 'ta = ta:write(i, v)' },
  { 'local y = df.map_fn(df.ones{3}, function(x) return x end)', 'takes a function first', 'df.map_fn(function(row)' },
  { 'local q = df.FIFOQueue(10)', 'the dtypes are missing', "df.FIFOQueue(10, {'float32'})" },
  -- Lua's ways
  { 'local x = df.ones{2} + undefinedname', "the variable 'undefinedname' is nil", 'is nil' },
  { 'local weight = df.ones{2} local x = df.ones{2} * wieght', "the variable 'wieght' is nil", "did you mean 'weight'?" },
  { 'local w local x = df.matmul(df.ones{2,2}, w)', "the variable 'w' is nil", 'is nil' },
  { 'local x = matmul(df.ones{2,2}, df.ones{2,2})', "global 'matmul'", 'df.matmul' },
  { 'local x = df.matmull(df.ones{2,2}, df.ones{2,2})', "'matmull'", "did you mean 'matmul'?" },
  { 'local x = df.ones{2,2} local y = df.matmul(x)', 'b is missing', 'df.matmul(a, b' },
  { 'local x = df.ones{2,2} local y = x.reduce_sum{axis = 0}', 'x is missing', 'with a colon: x:reduce_sum(…)' },
  { 'local x = df.ones{2,2} local y = x.matmul(x)', 'b is missing', 'with a colon: x:matmul(…)' },
  { 'local x = df.ones{2} x:evaluate()', "'evaluate'", 'x:eval(feeds)' },
  { 'local x = df.ones{2} x()', 'cannot be called', 'df.run(x, feeds)' },
  { 'local x = df.ones{2} local y = x + {a = 1}', "the key 'a'", 'options go with functions' },
  { 'local x = df.ones{2} local y = df.relu(x, 0.1, 3)', 'takes 1 input and', 'df.relu(features)' },
  { 'local x = 1 x += 1', "near '+'", 'Lua has no +=' },
  { 'local x = [1, 2, 3]', "near '['", '{1, 2, 3}' },
  { 'local x = df.ones{2} if x != 1 then end', "near '!'", '~=' },

  -- what was said, and not how it is mended
  { "local x = df.placeholder('float32', {nil, 3})", 'dimension 0 of the shape is nil', '-1: {-1, 3}', lua54 = true },
  { "local x = df.placeholder('float32', {'?', 3})", 'the string "?"', '-1: {-1, 3}' },
  { "local w = df.get_variable('w', {3, 2}, df.zeros)", 'its options are a table', 'initializer' },
  { "local w = df.Variable('w', df.zeros{2})", 'its options are a table', 'the value comes first' },
  { "local x = df.placeholder('int32', {2}) df.run(x * 2, {[x] = {1.5, 2}})", 'the number 1.5', 'a whole number is expected there' },
  { 'local x = df.ones{3} local y = df.matmul(x, x)', 'needs two matrices', 'df.expand_dims(x, 0)' },
  { 'local x = df.ones{2, 3} local y = x[1:2]', "near ':'", 'x:slice({1}, {2})' },
  { 'local x = df.float32(1) local y = df.cond(x:gt(0), function() return x, x end, function() return x end)', 'returns 2 values', 'as many values' },
  { "local x = df.float32(1) print(string.format('%f', x))", "bad argument #2 to 'format'", 'df.run(x) gives one' },
  { 'local x = df.float32(1) print(x.value)', "'value'", 'df.run(x)' },
  { 'local l = df.nn.Dense(3) local y = l.forward(df.ones{1, 3})', "'forward'", 'the call of the layer itself: l(x)' },
  { "local l = df.nn.Dense(3, 'relu')", 'its options are a table', '{activation = df.relu}' },
  { 'local c = df.rnn.LSTMCell(3) local y = df.rnn.dynamic_rnn(df.ones{2, 3, 4}, c)', 'the cell is Output', 'the cell comes first' },
  { 'local c = df.rnn.LSTMCell(3) local y = df.rnn.dynamic_rnn(c, df.ones{2, 3})', 'x is float32[2,3]', 'a batch of one' },
  { 'local t = df.train.Adam(0.1):minimize(df.float32(2))', 'no trainable variables', 'df.Variable' },
  { 'local t = df.train.Adam(0.1):minimize()', 'takes a loss', 'optimizer:minimize(loss)' },
  { 'df.losses.mse(1, 2)', "df has no 'losses'", 'df.nn' },
  { 'df.train.fit(df.nn.Dense(1), df.ones{2, 2}, df.ones{2, 1})', 'its options are a table', 'df.train.fit(model, {x, y}' },
  { 'df.save()', 'a path is expected', "df.save('model.safetensors')" },
  { "df.device('gpu:0')", 'takes a function', 'function() … end' },
  { 'local x = df.constant{1, nil, 3}', 'has a hole', 'each element is a value' },
  { "local x = df.constant{1, 'a'}", 'both int32 and string', 'of one dtype', lua54 = true },
  { 'local y = df.conv2d(df.ones{1, 5, 5, 1}, df.ones{3, 3, 1, 2})', 'needs the attribute strides', 'df.nn.Conv2D(filters, size)' },
  { 'local y = df.max_pool(df.ones{1, 4, 4, 1}, 2)', 'needs the attribute', 'ksize = {1, 2, 2, 1}' },
  { 'local x = df.placeholder(3, 4)', 'the dtype comes first, then the shape, one list', "df.placeholder('float32', {3, 4})" },
  { 'local x = df.placeholder(3)', 'the dtype comes first', "df.placeholder('float32', {…})" },
  { 'local x = df.placeholder{3, 4}', 'the dtype comes first', "df.placeholder('float32', {…})" },
  { "local x = df.constant('float32', 3)", "a dtype is a string such as 'float32', not the number 3", 'value, dtype, shape' },
  { "local x = df.tensor({1, 2}, {2})", "a dtype is a string such as 'float32', not table", 'value, dtype, shape' },
  { 'local x = df.cast(df.ones{2}, 3)', "a dtype is a string such as 'float32', not the number 3", 'the value comes first' },
  { "local x = df.zeros('float32', {2})", 'shape is the string "float32"', 'the dtype stands behind it' },
  { "local w = df.Variable('float32', {2})", "no option '1'", 'the value comes first' },
  { "local a = df.TensorArray(3, 'float32')", 'the dtype comes first', "TensorArray('float32', 3)" },
  { 'local x = df.reshape({2, 3}, df.ones{3, 2})', 'input 1 (shape) is float32', 'the call is df.reshape(x, shape)' },
  { 'local x = df.reduce_sum(0, df.ones{2})', 'reduction_indices', 'the call is df.reduce_sum(x, axis' },
  { 'local x = df.gather({0, 1}, df.ones{3, 2})', 'indices', 'the call is df.gather(x, indices' },
  { 'local x = df.split(2, df.ones{4, 2})', 'size_splits', 'the call is df.split(x, parts' },
  { 'local x = df.expand_dims(0, df.ones{3})', 'is float32', 'the call is df.expand_dims(x, axis)' },
  { 'local x = df.one_hot(3, {0, 1})', 'depth is', 'the indices come first' },
  { 'local x = df.concat(0, {df.ones{2}, df.ones{2}})', 'a list of values, not the number 0', 'df.concat({a, b}, 0)' },
  { 'local x = df.eye({2})', 'n is a table', 'df.eye(3)' },
  { 'local x = df.where(df.ones{2}, df.ones{2}:gt(0), df.ones{2})', 'the condition is float32[2], bool is expected', 'df.where(p, x, y)' },
  { 'local x = df.clip_by_value(0, 1, df.ones{2})', 'what is clipped comes first', 'df.clip_by_value(x, 0, 1)' },
  { 'local l = df.sparse_softmax_cross_entropy_with_logits(df.int32{1, 2}, df.ones{2, 3})', 'input 0 (features) is int32', 'logits come first' },
  { 'local q = df.quantize({1.0}, 0, 1)', 'QuantizeV2 needs the attribute T (a dtype)', 'the call is df.quantize(' },
  { 'local y = df.depth_to_space(df.ones{1, 1, 1, 4})', 'needs the attribute block_size', 'the call is df.depth_to_space(' },
  { "local x = df.constant({1, 300}, 'uint8')", 'the number 300', 'uint8 goes from 0 to 255' },
  { "local x = df.tensor({1, -129}, 'int8')", 'the number -129', 'int8 goes from -128 to 127' },
  { "local x = df.tensor({1, 2.5}, 'int32')", 'the number 2.5', 'a whole number is expected' },
  { "local x = df.constant({1, 0}, 'bool')", 'an element of dtype bool', 'a comparison makes a bool' },
  { "local x = df.constant({1, 2}, 'string')", 'an element of dtype string', 'tostring(n)' },
  { "local x = df.constant({true, false}, 'float32')", 'an element of dtype float32', "df.cast(p, 'float32')" },
  { 'local x = df.ones{2}.range(3)', "no field or method 'range'", 'df.range(…)' },

  { 'local x = df.constant{1, 2, 3} for i, v in pairs(x) do end', 'nothing to go over', 'df.unstack(x)', lua54 = true },
  { 'local v = df.Variable{1.0, 2} for i, v in pairs(v) do end', 'nothing to go over', 'df.unstack(x)', lua54 = true },
  { 'local t = df.tensor{1, 2} for i, v in pairs(t) do end', 'gone over as a table', 't:totable()', lua54 = true },
  { 'local y = df.tahn(df.ones{2})', "df has no 'tahn'", "did you mean 'tanh'?" },
  { 'local x df.run(df.ones{2}, {[x] = 3})', 'index is nil', "'x' is nil there" },
  { 'local x = df.ones{2} local y = x if x[0] == 1 then y = x * 2 end', '`==` on an Output', 'use x:eq(' },
  { 'local x = df.ones{2} local same = x:reduce_sum() ~= 2', '`~=` on an Output', 'use x:ne(' },
  { 'local x = df.ones{2} local same = 3 == (x + 1)[0]', '`==` on an Output', 'use x:eq(' },
  { 'local x = df.run(df.ones{2}) print("x = " .. x)', 'concatenate a dflow.Tensor', 'tostring(x)' },
  { 'local x = df.string{"a"} print(x .. "c")', 'joins strings of Lua', 'x + y' },
  { 'local x = df.ones{2} print(x:sqrt)', 'function arguments expected', 'x:sqrt()' },
  { 'local x = df.ones{2} print(df.sqrt x)', "near 'x'", 'df.sqrt(x)' },
  { 'local p = df.data.pipeline{df.tensor{1}}:shuffle() for x in p:each() do end', 'not nil', 'a whole number from 1 up' },
  { 'local y = df.reduce_sum{df.ones{2}, axis = 0}', "no option '1'", 'df.reduce_sum(x, {' },
  { 'df.set_seed(3)', "'set_seed'", 'df.set_random_seed(n)' },
  { 'local y = df.case({df.constant(true), function() return 1 end})', 'pair 1 is Output', '{predicate, function} is expected' },
  { 'local y = df.ones{2}:evl()', "'evl'", "did you mean 'eval'?" },
  { 'local loss = df.ones{2} df.run(los)', "'los' is nil", "did you mean 'loss'?" },
  { 'df.stat()', "df has no 'stat'", "did you mean 'stats'?" },
  { 'local m = {} function m.loss(x) x = x * x end df.run(m.loss(df.ones{2}))', 'nothing to fetch', 'm.loss(…) gives nothing' },
  { 'local y = df.scan(function(a, x) return a + x end, df.float32(0), df.ones{2})', 'is a scalar', 'what it begins with third' },
  { 'local l = df.nn.softmax_cross_entropy(df.ones{1, 2}, df.ones{1})', 'the labels are float32[1,2]', 'the labels come first' },
  { 'local n = 10 local i = df.while_loop(function(i) return i:lt(n) end, function(i) n = n - 1 return i + 1 end, {df.int32(0)})', '`n` is counted once', 'a loop variable' },
  { 'local n = 0 local y = df.cond(df.float32(1):gt(0), function() n = n + 1 return 1.0 end, function() return 2.0 end)', '`n` is counted once', 'a df.Variable' },

  -- what five users met in an afternoon
  { 'local l = df.sigmoid_cross_entropy_with_logits(df.ones{2, 1}, df.ones{2})', 'of one shape, these are float32[2] and float32[2,1]', 'df.expand_dims(labels, 1)' },
  { 'local m = df.nn.Sequential{df.nn.Conv2D(4, 3), df.nn.Dense(10)} df.sparse_softmax_cross_entropy_with_logits(m(df.ones{2, 8, 8, 1}), df.int32{1, 2})',
    'logits are float32[2,6,6,10], labels int32[2]', 'df.nn.Flatten()' },
  { 'df.run(df.sparse_softmax_cross_entropy_with_logits(df.ones{2, 3}, df.int32{1, 7}))', 'labels[1] is 7', 'classes count from 0' },
  { 'local m = df.nn.Conv2D(8, 5) local y = m(df.ones{1, 4, 4, 1})', 'reaches over 5 does not fit into the 4 of axis 1', "padding = 'SAME'" },
  { 'local m = df.nn.MaxPool2D(5) local y = m(df.ones{1, 3, 3, 1})', 'reaches over 5 does not fit into the 3 of axis 1', "padding = 'SAME'" },
  { 'local w = df.Variable(df.zeros{2}) w:assign(df.ones{2}) print(df.run(w))', 'builds an operation that nothing runs', 'df.run(it)' },
  { 'local opt, w = df.train.Adam(1e-3), df.Variable(1.0) for i = 1, 3 do opt:minimize(w * w) end', 'builds an operation that nothing runs', 'df.run(it)' },
  { "local x = df.float32(3) print(x:gt(2) and 'big' or 'small')", '`and` on Outputs', 'df.where(p, a, b)' },
  { "local x = df.placeholder('float32', {}) if x == 3 then print 'a' else print 'b' end", '`==` on an Output', 'use x:eq(' },
  { "local x = df.placeholder('float32') df.run(x + 1, {x, 3})", 'the keys of the feeds are Outputs', 'write {[x] = value}' },
  { 'local x = df.random_uniform(0, 1, {2})', 'the shape is one list', 'df.random_uniform({2}, {min = 0, max = 1})' },
  { 'df.seed(1)', "df has no 'seed'", 'df.set_random_seed(n)' },
  { 'local x = df.tensor{{1,2},{3,4}} print(x[{0,1}])', 'not with table in brackets', 't:at(0, 1)' },
  { 'local p = df.data.pipeline({df.ones{4, 2}, df.ones{4}}):batch(2)', 'part 1 of the source is Output', 'df.run(x) gives one' },
  { 'local p = df.data.pipeline{df.tensor(1), df.tensor(2)}', 'part 1 of the source is int32[]', 'as df.tensor{1, 2}', lua54 = true },
  { 'for x in df.data.pipeline(df.tensor{1,2,3}):batch(2) do print(x) end', 'gone through by its iterator', 'in p:each() do' },
  { 'for x in df.data.pipeline(df.tensor{1,2,3}):repeat(3):each() do end', "near 'repeat'", 'p:repeat_(n)' },
  { "df.restore('model.safetensors')", 'cannot open model.safetensors', 'paths go by the folder' },
  { "local opt = df.train.Adam(learning_rate)", 'the learning rate is nil', "'learning_rate' is nil" },
  { 'local w = df.Variable(df.int32(2)) local t = df.train.SGD(0.1):minimize(df.cast(w, "float32"))', 'no trainable variables', 'only floats have gradients' },
  { 'local w = df.Variable(2.0) local t = df.train.SGD(0.1):minimize(w:square()) t()', 'an operation cannot be called', 'df.run(o)' },
  { 'local x = df.ones{4, 4} local y = x:slice(1, 2)', 'expected a vector', 'x:slice({1, 0}, {2, 3})' },
  { 'local x = df.fill(0, {2})', 'expected a scalar', 'df.fill({2}, 0)' },
  { 'local x = df.constant(1, {2, 3})', 'a dtype is a string', "df.constant(1, 'float32', {2, 3})" },
  { "local x = df.placeholder('float32', {-1, 3}) local y = df.zeros{x.shape[1], 2}", 'dims[0] is -1', 'df.dim(x, 0)' },
  { 'local x = df.ones{2, 3} print(x.shape[0] * 2)', 'begins at 1', 'x.shape[1] is its first dimension' },
  { 'local x = df.zeros{2, 3, 4, 5} print(x.shape[-2])', 'begins at 1', 'x.shape[3] is its third dimension' },
  { 'local x = df.zeros{} print(x.shape[-1])', 'begins at 1', 'this one has 0 dimensions' },
  { 'local a, b = df.split(df.ones{4, 2}, 2) print(a + b)', "(local 'a')", 'the elements are a[1]' },
  { 'local w = df.Variable(2.0) local g = df.gradients(w * w, {w}) print(0.1 * g)', "(local 'g')", 'the elements are g[1]' },
  { 'local x = df.float32(2) local g = df.gradients(x * x, x)[1]', 'x[i] of a scalar', 'of {x, y} a list' },
  { 'local x = df.float32(2) local y = df.run(x * x) local g = df.gradients(y, x)', 'does not depend on x', 'give gradients the Output' },
  { "local x = df.float32(2) local g = df.gradients(x * x, 'x')", 'the string "x"', 'an Output or Variable is expected' },
  { 'local x = df.placeholder("float32", {}) local p = x:lt(2):and_(x:gt(0))', "'and_'", 'df.logical_and(p, q)' },
  { 'local x = df.ones{2, 3}:gt(0) local y = x + x', 'is bool but must be one of', "df.cast(x, 'float32')" },
  { 'local y = df.sqrt(df.int32(4))', 'is int32 but must be one of', "df.cast(x, 'float32')" },
  { 'local y = df.argmax(df.ones{2, 3}, 1):eq(df.int32{0, 0})', 'different dtypes, int64', "df.cast(x, 'int64')" },
  { 'local l = df.nn.mse(df.ones{2}, df.ones{2})', "df.nn has no 'mse'", 'df.nn.mean_squared_error(labels, predictions)' },
  { "df.train.fit(df.nn.Dense(1), {{{1, 2}, {3, 4}}, {1, 2}}, {loss = 'mse'})", "no loss 'mse'", "it is 'mean_squared_error'" },
  { 'df.train.fit(df.nn.Dense(1), {df.ones{4, 2}, df.ones{4, 1}})', 'x is an Output, which has no value yet', 'df.tensor(list)' },
  { 'df.train.fit(df.nn.Dense(1), {df.tensor{{1.0}, {3}}, df.tensor{1.0, 2, 3}}, {epochs = 1})', '2 rows of x and 3 of y', 'rows' },
  { 'local m = df.nn.Sequential{df.nn.Dense(2)} m:fit{}', "'fit'", 'df.train.fit(model, {x, y}' },
  { 'local m = df.nn.Sequential()', 'takes a list of layers, not nil', 'a list of layers' },
  { 'local m = df.nn.Dense(3) print(m.kernel)', "no 'kernel' yet", 'made at its first call' },
  { 'local m = df.nn.Dense(3) m(df.ones{1, 4}) m(df.ones{1, 5})', 'has 5 features', 'its kernel is for 4' },
  { 'local m = df.nn.Dropout(1.5)', 'not the number 1.5', 'from 0 to below 1' },
  { 'local m = df.nn.Dropout(0.5) m(df.ones{2, 3}, true)', 'value 2 is the boolean true', 'a table of options' },
  { 'local e = df.nn.Embedding(10, 4) e(df.float32{1, 2})', 'its ids are float32', "df.cast(ids, 'int32')" },
  { 'local c = df.rnn.LSTMCell(3) c(df.ones{2, 4})', 'its state is missing', 'cell:zero_state(batch)' },
  { 'local c = df.rnn.LSTMCell(3) df.rnn.dynamic_rnn(c, df.ones{2, 5, 3}, {sequence_length = df.int32{1, 2}})', "no option 'sequence_length'", "'lengths'" },
  { 'local c = df.rnn.LSTMCell(3) df.rnn.dynamic_rnn(c, df.ones{2, 5, 3}, {lengths = {1, 9}})', 'length 1 is 9', 'x has 5 steps' },
  { "local q = df.FIFOQueue(2, {'float32'}) df.run(q:dequeue())", 'waits for 1 element from queue', 'df.run(q:enqueue(v))' },
  { "local q = df.FIFOQueue(1, {'float32'}) df.run(q:enqueue(1.0)) df.run(q:enqueue(1.0))", 'waits for room', 'df.run(q:dequeue()) makes room' },
  { 'local y = df.map_fn(function(x) x = x * 2 end, df.ones{3})', 'the function returns nothing', '`return` missing' },
  { 'local y = df.foldl(df.ones{3}, function(a, x) return a + x end)', 'takes a function first', 'df.foldl(function(a, row)' },
  { 'local f = df.func(function(x) return x * 2 end)', 'takes a name', "df.func('square', {'float32'}" },
  { 'local f = df.lua_func(function(x) return x * 2 end, {df.float32(1)})', 'its third argument is a list of the dtypes', "{x}, {'float32'})" },
  { 'local d = df.data.Dataset.from_tensor_slices(df.ones{2})', "df.data has no 'Dataset'", 'df.data.pipeline{x, y}' },
  { 'local c = df.nn.rnn_cell.LSTMCell(3)', "df.nn has no 'rnn_cell'", 'df.rnn.LSTMCell(units)' },
  { 'local x = df.linalg.inv(df.eye(3))', "df has no 'linalg'", 'df.matrix_inverse' },
  { 'df.train.fit(df.nn.Dense(1), {df.tensor{{1.0}}, df.tensor{{1.0}}}, {lr = 0.1})', "no option 'lr'", "'optimizer'" },
  { 'local y = df.case({{df.less(1, 2), function() return 1 end}}, {default = function() return 3 end})', "no option 'default'", 'default = h' },
  { "local h = df.start(df.float32(1)) h:wait() h:value()", 'the run is over', 'h:wait() gives' },
  { 'local t = {} df.while_loop(function(i) return i:lt(3) end, function(i) t[1] = i return i + 1 end, {df.int32(0)}) df.run(t[1])', 'inside the loop `while`',
    'return it from the body' },
  { 'df.while_loop(function(i) return i:lt(3) end, function(i) local w = df.Variable(i) return i + 1 end, {df.int32(0)})', 'the variable lives outside',
    'give a function that builds it' },

  -- values of dtypes between which there is no cast, or none without a loss
  { "local x = df.float32(1) + df.string 'a'", 'different dtypes', 'df.string_to_number(x' },
  { "local x = df.log(df.string '1')", 'is string', 'df.string_to_number(x)' },
  { "local v = df.Variable 'a' v:assign(df.int32(1))", 'the value is int32', 'as in df.as_string(x)' },
  { "local v = df.Variable(1.5) v:assign(df.string 'a')", 'the value is string', "as in df.string_to_number(x, 'float32')" },
  { 'local x = df.float32(1) + df.complex(df.float32(1), df.float32(2))', 'different dtypes', "df.cast(x, 'complex64')" },
  { 'local v = df.Variable(1.5) v:assign(df.complex(df.float32(1), df.float32(2)))', 'the value is complex64', 'as in df.real(x)' },
  { "local y = df.ones{3}[df.constant('a')]", 'string', 'df.string_to_number(x)' },
  { 'local y = df.ones{3}[df.constant(-1.0)]', 'float32', "df.cast(x, 'int32')" },
  { 'local x = df.floor(df.complex(df.float32(1), df.float32(2)))', 'is complex64', 'df.complex_abs(x)' },
  { 'local x = df.uint8(256)', 'cannot be held', 'uint8 goes from 0 to 255' },
  { 'local x = df.int32(2 ^ 40)', 'cannot be held', 'int32 goes from -2147483648 to 2147483647' },
  -- functions that return too little
  { 'local y = df.foldl(function(a, x) a = a + x end, df.ones{3})', 'the function returns nothing', '`return` missing' },
  { 'local y = df.foldr(function(a, x) a = a + x end, df.ones{3}, df.float32(0))', 'the function returns nothing', '`return` missing' },
  { 'local y = df.scan(function(a, x) a = a + x end, df.ones{3})', 'the function returns nothing', '`return` missing' },
  { 'local x = df.ones{3} df.gradients(df.custom_gradient(function(a) return a, function(dy) dy = dy * 2 end end)(x), x)', 'the function of dy returns nothing',
    '`return` missing' },
  { 'local a, b = df.ones{}, df.ones{} df.gradients(df.custom_gradient(function(a, b) return a * b, function(dy) return dy * b end end)(a, b), {a, b})',
    'returns 1 value, but there are 2 inputs', 'one for each' },
  { 'local function each(f) f() end each(function() local y local z = df.float32(1) + y end)', 'is missing', "; the variable 'y' is nil" },

  -- thirty more, of calls that are almost right
  { 'local x = df:ones{2, 3}', 'df itself', 'df.ones(…)' },
  { 'local x = df.ones{2} df:run(x)', 'cannot be fetched', 'called with a point: df.run(…)' },
  { "local x = df:placeholder('float32', {2})", 'the dtype comes first', 'df.placeholder(…)' },
  { 'local i, x = df.while_loop(function(i, x) return i:lt(3) end, function(i, x) return i + 1, x end, df.int32(0), df.float32(1))', 'not Output',
    'the loop variables are one list' },
  { 'local w, b = df.Variable(1.0), df.Variable(2.0) local g = df.gradients(w * b, w, b)', 'not Variable', 'gradients(loss, {w, b})' },
  { 'local w, b = df.Variable(1.0), df.Variable(2.0) local g = df.gradients({w, b}, w * b)', 'does not depend', 'comes first' },
  { 'local x = df.ones{4}:reshape(-1)', 'expected a vector', 'x:reshape{-1}' },
  { 'local x = df.tile(df.ones{2}, 3)', 'expected a vector', 'df.tile(x, {2, 1})' },
  { 'local x = df.pad(df.ones{2}, 1)', 'paddings is int32[]', 'two numbers for each axis', lua54 = true },
  { 'local x = df.range{0, 10}', 'expected a scalar', 'df.range(0, 10)' },
  { 'local y = df.while_loop(function(i) return i:lt(3) end, function(i) return {i + 1} end, {df.int32(0)})', 'the body returns int32[1]', 'are they in braces?' },
  { "local x = df.placeholder('float32', {}) df.run(x, {[x] = 3}, {[x] = 4})", "no option 'Output'", 'feeds are one table' },
  { 'local t = df.tensor{1.0, 2} print(t.totable())', 'not a Tensor', 'with a colon: t:totable()' },
  { 'local t = df.tensor{1.0, 2} print(("%d"):format(t))', "to 'format'", 't:item()' },
  { 'local x = df.float32(3) io.write(x)', "to 'write'", 'df.run(x) gives one' },
  { 'local x = df.float32(3) print(tonumber(x) + 1)', 'on a nil value', 'df.run(x) gives the number' },
  { 'local w = df.Variable(1.0) local t = df.train.Adam:minimize(w * w)', 'index a function value', 'df.train.Adam(…)' },
  { 'local w = df.Variable(1.0) local t = df.train.Adam(0.1).minimize(w * w)', 'a method of an optimizer', 'with a colon' },
  { "local w = df.Variable(1.0, {trainable = 'no'})", 'not the string "no"', 'true or false' },
  { "df.save_npy(df.tensor{1.0, 2}, 'x.npy')", 'a path is expected', 'the path comes first' },
  { 'local y = df.switch_case(df.int32(0), function() return 1 end)', 'a list of functions', 'df.switch_case(i, {f, g}' },
  { 'local f = df.custom_gradient(df.ones{2}, function(x) return x end)', 'not Output', 'function(dy) return dx end' },
  { "df.name_scope('a')", 'not nil', "df.name_scope('layer1', function()" },
  { 'local h = df.start(df.float32(1)) print(h.result)', "no field or method 'result'", 'h:wait()' },
  { 'local x = df.float32(3) df.print(x)', 'builds an operation that nothing runs', 'y = df.print(x)' },
  { 'local x = df.float32(3) df.assert(x:gt(0), {x})', 'builds an operation that nothing runs', 'df.control_dependencies' },
  { "local q = df.FIFOQueue(2, {'float32'}) q:enqueue(1.0) print(df.run(q:size()))", 'builds an operation that nothing runs', 'df.run(it)' },
  { "local x = df.placeholder('float32', {None, 3})", 'dimension 0 of the shape is nil', 'is -1: {-1, 3}' },
  { "local x = df.placeholder('float32', {'?', 3})", 'the string "?"', 'is -1: {-1, 3}' },
  { 'local e = df.nn.Embedding(10, 4) e(df.int32{11}):eval()', 'indices[0] = 11 is not in [0, 10)', 'indices count from 0' },
  { "local m = df.nn.Sequential{df.nn.Dense(3), 'relu'} m(df.ones{1, 2})", 'step 2 is the string "relu"', 'a layer or a function is expected' },
  { "local x = df.placeholder('float32', {2}) df.run(x, {[x] = nil})", 'was not fed', 'feeds are the second argument' },

  -- and thirty-nine, of whole scripts as students write them
  { 'local t = df.tensor{{1,2},{3,4}} print(t:size(1))', "attempt to call", 't.shape[1] the first dimension' },
  { 'local x = df.constant{1.0, -2, 3} local y = x[x:gt(0)]', 'a whole number, not bool', 'df.boolean_mask(x, mask)' },
  { 'local w = df.Variable(1.0) local g = df.gradients(w*w, {w}) df.train.SGD(0.1):apply_gradients(g, {w})', "no option '1'", '{{gradient, variable}, …}' },
  { 'for i in df.range(0, 10) do print(i) end', 'an Output cannot be called', 'ipairs(df.unstack(x))' },
  { 'local s = df.Session() s:as_default() print(df.run(df.ones{1}))', 'takes a function to call, not nil', 's:as_default(function() … end)' },
  { 'local g = df.Graph() g:as_default() local x = df.ones{2}', 'takes a function to call, not nil', 'it is in effect while that runs' },
  { 'local a, b = df.split(df.ones{4}, 2, 0) print(df.run(a + b))', 'arithmetic on', 'local a, b = df.unpack(list)' },
  { 'local l = df.run{df.float32(1)} if l < 0.5 then print(1) end', 'compare table with number', 'l[1], l[2]' },
  { "local l = df.run{df.float32(1)} print(string.format('%.2f', l))", "to 'format'", 'l[1], l[2]' },
  { "local d = require 'Dflow'", "module 'Dflow' not found", 'in small letters' },
  { 'local y = df.map_fn(function(a, b) return a * b end, df.ones{3}, df.ones{3})', 'not Output', 'is one list: df.map_fn(' },
  { 'local w = df.Variable(df.ones{3}) local t = df.train.SGD(0.1):minimize(w, {w}, 3)', '3 values were given', '{variables = {w}' },
  { 'local w = df.Variable(1.0) for i = 1, 3 do df.train.SGD(0.1):minimize(w * w) end', 'builds an operation that nothing runs', 'df.run(it)' },
  { 'local a, b = df.constant(true), df.constant(false) local c = a and b', '`and` on Outputs gives one of them', 'df.logical_and' },
  { 'local a = df.constant(true) local b = df.constant(false) print(a or b)', '`or` on Outputs gives one of them', 'df.logical_or' },
  { 'local w = df.Variable{shape = {2, 1}}', 'a table with names was given', 'df.Variable(df.zeros{2, 1})' },
  { 'local w = df.Variable(1.0) local a = w:assign(w - 0.1) a:run()', "'run'", 'x:eval(feeds)' },
  { 'local x = df.constant({{1, 2, 3}}) print(x.shape[1][1])', 'attempt to index', 'x.shape[2] the second' },
  { 'local t = df.tensor{1, 2, 3} t:set(0, 5)', "'set'", 'a Tensor never changes' },
  { "local x = df.placeholder('float32', {-1}) local ta = df.TensorArray('float32', x.shape[1])", 'is -1', 'df.dim(x, 0)' },
  { "local x = df.placeholder('float32') local n = x.shape[1]", "'shape'", "df.placeholder('float32', {-1, 3}) has one" },
  { 'local y = df.while_loop(function(i, l) return i:lt(3) end, function(i, l) table.insert(l, i) return i + 1, l end, {df.int32(0), {}})', '# of an Output',
    'ta = ta:write(i, v)', lua54 = true },
  { 'local cell = df.rnn.GRUCell{8}', 'units is a whole number', 'df.rnn.GRUCell(64)' },
  { 'local cell = df.rnn.LSTMCell(8) local _, s = df.rnn.dynamic_rnn(cell, df.ones{4, 10, 3}) local y = df.nn.Dense(2)(s)', 'a table with names', 'state.h' },
  { 'local m = df.nn.Dense(3) local g = df.gradients(df.reduce_mean(m(df.ones{2, 4})), m)', 'xs holds Layer', 'layer:parameters()' },
  { 'local m = df.nn.Dense(3) local g = df.gradients(df.reduce_mean(m(df.ones{2, 4})), m.parameters)', 'xs holds function', 'with a colon: layer:parameters()' },
  { "local m = df.nn.Dense(3) df.save('m.safetensors', m)", 'not Layer', '{variables = layer:parameters()}' },
  { "df.train.fit(df.nn.Dense(2), {df.tensor{{1.0}, {2}}, df.tensor({0, 1}, 'int32')}, {loss = df.sparse_softmax_cross_entropy_with_logits, epochs = 1})",
    '(features) is int32', 'loss(labels, predictions)' },
  { "local q = df.FIFOQueue(3, 'float32') local y = q:dequeue(2)", 'dequeue gives one element', 'q:dequeue_many(n)' },
  { 'local h = df.start(df.ones{2}) print(h + 1)', 'arithmetic on', 'h:wait()' },
  { 'local s = df.Session() s:run(df.ones{2}, {timeout = 1})', "'timeout'", 'behind the feeds: df.run(y, nil, {timeout = …})' },
  { 'local g = df.Graph() local x = g:as_default(function() return df.ones{2} end) df.run(x + df.ones{2})', 'belongs to another graph', 'is built in one' },
  { "local f = df.lua_func(function(x) return x:item() * 2 end, {df.float32(1)}, {'float32'}) df.run(f)", 'lua_func', 'a scalar comes as a number of Lua' },
  { 'df.plot.line(df.ones{3})', 'makes a plot that nobody shows', 'print(df.plot(y))' },
  { 'local p = df.plot.plot{1, 2}', "df.plot has no 'plot'", 'it has: line' },
  { "local a = df.assert(df.ones{2}:gt(0), 'all positive')", 'must be a scalar bool', 'df.reduce_all(p)' },
  { 'local y = df.linspace(0, 1, 0.1)', 'num is how many numbers there are', 'df.range(start, stop, step)' },
  { "local y = df.conv2d(df.ones{1, 4, 4, 1}, df.ones{3, 3, 1, 2}, {1, 1, 1}, 'SAME')", 'strides has 3 numbers', '{strides = {1, 1, 1, 1}}' },
  { 'local m = df.nn.Sequential{df.nn.Dense(3), df.nn.Dropout(0.5)} m.eval()', 'a method of a layer', 'with a colon' },

  -- what passed unheard, and gave nil or other numbers
  { 'local x, w = df.float32(2), df.float32(3) local gx, gw = df.gradients(x * w, {x, w})', '`gradients` gives one list for a list', 'df.unpack(…)' },
  { 'local x, y = df.float32(2), df.float32(3) local a, b = df.run{x, y}', '`run` gives one list for a list', 'df.unpack(…)' },
  { 'local x = df.float32(2) local l = df.run{x, xx}', '`xx` is a variable that nothing sets', 'nil' },
  { 'local x, w = df.float32(2), nil\nlocal l = df.run{w, x}', 'entry 1 of the list', "the variable 'w' is nil" },
  { 'local x = df.ones{2} local j = df.jacobian(x, x * 2)', 'does not depend on x', 'swap them' },
  { 'local x = df.ones{2} local j = df.jvp(x, x * 2, df.ones{2})', 'does not depend on x', 'swap them' },
  { 'local a, b = df.ones{3, 4}, df.ones{3, 4} local y = df.scan(function(s, e) return s + e[0] * e[1] end, {a, b}, 0)', 'the function is called with the accumulator and 2 values',
    'write function(acc, x, y)' },
  { 'local a, b = df.ones{3, 4}, df.ones{3, 4} local y = df.map_fn(function(e) return e[0] * e[1] end, {a, b})', 'the function is called with 2 values', 'write function(x, y)' },
  { 'local x = df:float32(1)', 'df itself', 'df.float32(…)' },
  { 'local x = df.ones{2} + df', 'df itself', 'called with a point' },
  { 'local m = {df.nn.Dense(2), df.nn.Dense(3)} local y = m(df.ones{1, 2})', 'a list of layers, which cannot be called', 'df.nn.Sequential{l1, l2}' },
  { 'local m = {} m[1] = df.nn.Dense(2) local y = m(df.ones{1, 2})', 'call a table value', 'df.nn.Sequential{l1, l2}' },
  { 'local x\n# a comment', "near '#'", '-- like this' },
  { 'local x = 1 # a comment', "near '#'", '-- like this' },
  { 'local function f(x, p, opts)\n  local y = df.matmul(x, p.w, opts)\n  return y\nend\nlocal y = f(df.ones{2, 2}, {})', 'b is missing', "the variable 'p.w' is nil" },
  { 'local function f(x, w, b)\n  local y = df.matmul(x, w) + (b or 0)\n  return y\nend\nlocal y = f(df.ones{2, 2})', 'b is missing', "the variable 'w' is nil" },
}

--- What a user reads then: the error as the program shows it, or the warning that comes before it runs.
local function shown(code)
  local warnings = {}
  for i, w in ipairs(conditions.find(code, true)) do warnings[i] = ('lesson.lua:%d: %s\n'):format(w.line, w.message) end
  local compile = rawget(_G, 'loadstring') or load
  local chunk, why = compile(code, '@lesson.lua')
  if not chunk then return errors.explain(why) end
  local env = setmetatable({ df = df, gradients = df.gradients, print = function() end }, { __index = _G })
  if rawget(_G, 'setfenv') then _G.setfenv(chunk, env) else chunk = load(code, '@lesson.lua', 't', env) end
  local ok, e = pcall(chunk)
  if ok then return table.concat(warnings) end
  return table.concat(warnings) .. (type(e) == 'string' and errors.explain(e) or tostring(e))
end

describe('a beginner\'s mistake', function()
  local typed
  local function reader(file, line)
    local at = 0
    for row in (file == 'lesson.lua' and typed or ''):gmatch '[^\n]+' do
      at = at + 1
      if at == line then return row end
    end
  end

  before_each(function() quote.read_line = reader end)
  after_each(function() quote.read_line = nil end)

  it('is never silent, and most errors say what is wrong, where and how it is mended', function()
    local poor = {}
    for _, m in ipairs(mistakes) do
      if m.lua54 and not has_integers then m = mistakes[1] end
      df.reset()
      typed = m[1]
      local text = shown(m[1])
      assert.is_truthy(text:find('%S'), 'nothing is said of: ' .. m[1])
      local last
      for line in text:gmatch '\n  called from ([^\n]*)' do
        assert.are_not.equal(last, line)
        last = line
      end
      local words = {}
      if not text:find(m[2], 1, true) then words[#words + 1] = 'what' end
      if not text:find 'lesson%.lua:%d' then words[#words + 1] = 'where' end
      if not text:find(m[3], 1, true) then words[#words + 1] = 'how' end
      if #words > 0 then poor[#poor + 1] = ('no %s in the error of\n  %s\n%s'):format(table.concat(words, ', '), m[1], text) end
    end
    -- LuaJIT has no names of globals for some errors, and other words for a few
    assert.is_true(#mistakes >= 100 and #poor <= (has_integers and 0 or 0.08) * #mistakes, #poor .. ' of ' .. #mistakes .. ':\n' .. table.concat(poor, '\n'))
  end)

  it('of users of Python or JavaScript is answered in Lua', function()
    local ways = {
      { 'import numpy as np', "local df = require 'dflow'" }, { 'from math import sin', "local df = require 'dflow'" }, { 'def f(x): return x', 'function f(x) return x end' },
      { 'x = True', 'Lua writes true' }, { 'x = None', 'Lua writes nil' }, { 'local x = 1 if x > 0: print(x)', 'if … then … end' }, { 'local x = 1 x++', 'x = x + 1' },
      { 'for i in range(10): print(i)', 'for … do … end' }, { 'for i in range(10) do print(i) end', 'for i = 1, 10 do' }, { 'f = lambda x: x * 2', 'function(x) return x end' },
      { 'x = [i for i in a]', '{1, 2, 3}' }, { "local x = 1 if x == 1 && x then print 'a' end", '`and`' }, { 'local x = 1 if x == 1 then f() elif x == 2 then f() end', 'elseif' },
      { 'local x = 1 if x == 1 then x = 3 else if x == 2 then x = 4 end', 'in one word' }, { 'print(f"{x}")', '("%d of %d"):format' }, { "local s = 'a' + 'b'", "'a' .. 'b'" },
      { 'local s = "n is " .. nil', 'a misspelt name' }, { 'local t = {1, 2, 3} print(t[0] + 1)', 'begin at 1' }, { 'local t = {1, 2, 3} print(len(t))', '#t counts' },
      { 'local t = {1, 2, 3} t.append(4)', 'table.insert' }, { 'local t = {a: 1}', '{a = 1}' }, { 'const x = 1', 'local x = 1' }, { 'let x = 1', 'local x = 1' },
      { 'function f(x) { return x }', 'no braces' }, { 'local f = (x) => x', 'function(x) return x end' }, { 'local x = df.ones{2} print(x[0, 1])', 'x[0][1]' },
      { 'local x = df.ones{2} print(x[:1])', 'x:slice(' }, { 'tf.constant(1)', 'here it is df' }, { 'torch.ones(3)', 'here it is df' },
      { "local np = require 'numpy'", 'no modules of Python' },
      { 'local x = df.constant([1,2])', '{1, 2, 3}' }, { 'x: int = 3', 'annotations' }, { 'assert x == 3, "no"', 'assert(x == 3' },
      { 'raise ValueError("x")', 'error("what is wrong")' },
      { 'try: x = 1', 'pcall' }, { 'with df.Session() as s: pass', 'df.run(y) has a session' },
      { 'class Net: pass', 'no classes' }, { 'local y = 5 print(y.shape)', 'a number of Lua' },
      { 'local a = {1, 2} print(a * 2)', 'df.tensor(a)' },
    }
    local poor = {}
    for _, m in ipairs(ways) do
      typed = m[1]
      local text = shown(m[1])
      if not text:find(m[2], 1, true) or not text:find('lesson.lua:[12]') then poor[#poor + 1] = m[1] .. '\n' .. text end
    end
    assert.is_true(#poor == 0, #poor .. ' of ' .. #ways .. ':\n' .. table.concat(poor, '\n'))
  end)

  it('is marked where it stands, behind letters that are two columns wide and those that take none; none is cut in two', function()
    local columns = quote.columns
    quote.columns = function() return 44 end
    typed = 'local y = df.ones{3} * "日本語のテキスト" .. "日本語のテキスト"'
    assert.matches('\n    1 | …= df.ones{3} * "日本語のテキ…\n      |               ^\n', shown(typed), 1, true)
    typed = 'local s, x = "日本e\204\129", 1 + wieght'
    local text = shown(typed)
    quote.columns = columns
    assert.matches('\n      | ' .. (' '):rep(25) .. '^^^^^^', text, 1, true)
    if not has_integers then return end                   -- LuaJIT takes such names
    typed = 'local größe = 1'
    assert.matches('a to z', shown(typed), 1, true)
  end)

  it('is not answered with what is true of another', function()
    for code, wrong in pairs{
      ['local x = df.ones{2} print(df.run(df.gradients(df.floor(x), x)))'] = 'what df.run gives',
      ['local x, z = df.float32(2), df.float32(3) print(df.run(df.gradients(z * 2, x)))'] = 'what df.run gives',
      ["df.run(df.quantize({1.0}, 0, 1, {T = 'float32'}))"] = 'df.cast',
      ["local x = df.constant({1, 300}, 'uint8')"] = 'strings and numbers',
      ['local cfg = {} print(cfg.input.shape)'] = 'io.read', ['local items print(items.x)'] = 'pairs(t)',
      ["local t = {} t.open('x')"] = 'io.open', ["local str str('x')"] = 'tostring(x)', ['local m = {} m.log(3)'] = 'math.log',
      ['local x = df.ones{2}.range(3)'] = 'did you mean',
    } do
      typed = code
      local text = shown(code)
      assert.is_truthy(text:find('lesson.lua:1: %S'), text)
      assert.is_nil(text:find(wrong, 1, true), text)
    end
  end)

  local function after(code)
    typed = code
    return shown(code):gsub('^[^\n]*\n', '')
  end

  it('is shown with its line and a caret under what is meant', function()
    assert.matches('1 | local x = df.ones{2} * wieght\n      |                        ^^^^^^', after('local x = df.ones{2} * wieght'), 1, true)
    assert.matches('| ' .. (' '):rep(33) .. '^^^^', after('local y = df.ones{2}:reduce_sum{ axes = 0 }'), 1, true)
    assert.matches('| ' .. (' '):rep(25) .. '^^^^^^^', after("local y = df.ones({ 2 }, 'float')"), 1, true)
  end)

  it('is pointed at from its first character to its last, wherever it stands and whatever spaces are around it', function()
    local function at(line, message)
      local first, last = quote.place(line, message)
      return first and line:sub(first, last)
    end
    for _, wrong in ipairs{ '-12', '7', 'x * 2', '{ 2, 3 }', "f('a, b', c)" } do
      for _, line in ipairs{ 'y = df.reshape(%s)', 'y = df.reshape(  %s )', 'y = df.reshape(x ,%s)', 'y = df.reshape(x,  %s  , nil)' } do
        local which = line:find 'x ?,' and 2 or 1
        assert.equal(wrong, at(line:format(wrong), ('reshape: it is wrong (number %d)'):format(which)))
      end
      if tonumber(wrong) then assert.equal(wrong, at('y = df.gather(x,  ' .. wrong .. ' )', 'index ' .. wrong .. ' is out of range')) end
    end
  end)

  it('is said by every function that is called with nothing: what is missing, or what it takes', function()
    for name, fn in pairs(require('dflow.front.ops').functions) do
      local ok, e = pcall(fn)
      local text = tostring(type(e) == 'table' and e.message or e)
      assert.is_true(ok and (name == 'group' or name == 'no_op') or text:find ' missing' ~= nil or text:find ' takes ' ~= nil,
                     name .. ': ' .. text)
    end
  end)

  it('names no variable as nil that the line itself sets', function()
    local lines = { 'layer = df.nn.Dense() layer(df.ones{2, 3})', 'ta = df.TensorArray("float32") ta:write(0, 1)' }
    local function after(line)
      typed = line
      return shown(line)
    end
    for _, line in ipairs(lines) do assert.is_falsy(after(line):find('is nil', 1, true), line) end
    assert.matches("the variable 'units' is nil", after('layer = df.nn.Dense(units) layer(df.ones{2, 3})'), 1, true)
  end)

  it('has no caret where it could stand at two places, nor in a string', function()
    assert.is_falsy(after('local y = df.ones{2} + df.ones{2} + df.ones{3}'):find('%^'))
    assert.matches('| ' .. (' '):rep(37) .. '^', after("local s, y = 'a+b', df.ones{2} y = y + df.ones{3}"), 1, true)
  end)

  it('keeps its message as it was', function()
    local ok, e = pcall(function() return df.ones{2,3} + df.ones{4} end)
    assert.is_false(ok)
    assert.equal('Add: shapes cannot be broadcast: float32[2,3] and float32[4]', e.message)
  end)
end)
