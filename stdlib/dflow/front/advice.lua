--- What an error adds to its message when it is shown: the line it is about, quoted, and how it is mended where the
-- message itself does not say so. Also for Lua's own errors, which the program shows.
--
-- An entry is a pattern of the message and a sentence, or a function of the captures and the line that gives one (nil:
-- none).
local quote = require 'dflow.front.quote'

local M = {}
local df_names = function() return package.loaded['dflow'] and package.loaded['dflow'].names() or {} end

--- The call of an op as its help shows it.
local function usage(name)
  local ok, text = pcall(function()
    local help = require 'dflow.docs.help'
    return help.signature(help.full_name(name) or name)
  end)
  return ok and text and text ~= '' and ('the call is %s'):format(text:gsub('\n.*', '')) or nil
end

--- Lua's own function that was given an Output, and the op that was meant.
local lua_math = { sin = 'sin', cos = 'cos', tan = 'tan', asin = 'asin', acos = 'acos', atan = 'atan', exp = 'exp',
                   log = 'log', sqrt = 'sqrt', abs = 'abs', floor = 'floor', ceil = 'ceil', max = 'maximum',
                   min = 'minimum', pow = 'pow', fmod = 'floormod', tanh = 'tanh' }

local function transposed(text, a, b)
  local rows = {}
  for _, shape in ipairs{ a, b } do
    local list = {}
    for d in shape:gmatch('[%d?]+') do list[#list + 1] = d end
    rows[#rows + 1] = list
  end
  a, b = rows[1], rows[2]
  if #a < 2 or #b < 2 then return 'matmul takes matrices: df.expand_dims(x, axis) gives a vector another dimension' end
  if a[#a] == b[#b] then return 'a times b transposed is df.matmul(a, b, {transpose_b = true})' end
  if a[#a - 1] == b[#b - 1] then return 'a transposed times b is df.matmul(a, b, {transpose_a = true})' end
  if a[#a - 1] == b[#b] then return 'the other way round they fit: df.matmul(b, a)' end
  return ('the last dimension of a, %s, has to be the last but one of b, which is %s'):format(a[#a], b[#b - 1])
end

--- A number that an integer cannot be.
local function not_within(_, number, dtype)
  local signed, bits = not dtype:find('u'), tonumber(dtype:match('%d+'))
  local n = tonumber(number)
  if not n or n ~= n or n ~= math.floor(n) then return "a whole number is expected there; 'float32' takes others" end
  return bits < 64 and ('%s goes from %.0f to %.0f')
    :format(dtype, signed and -2 ^ (bits - 1) or 0, 2 ^ (signed and bits - 1 or bits) - 1) or nil
end

--- The same of a whole number alone: one that is none has another advice.
local function too_large(_, number, dtype)
  local n = tonumber(number)
  return n and n == math.floor(n) and not_within(_, number, dtype) or nil
end

--- What makes of values of the dtype `found` some that an op takes.
local function converted(_, found, wanted)
  if found == 'string' then return 'df.string_to_number(x) reads numbers' end
  if wanted == 'string' then return 'df.as_string(x) writes numbers' end
  if found:find '^complex' and not wanted:find '^complex' then
    return 'df.complex_abs(x), df.real(x) and df.imag(x) make real numbers of complex ones'
  end
  return ("df.cast(x, '%s') converts it"):format(wanted)
end

--- Floats where whole numbers are expected: is it the order of the arguments? `text`: the line, which says by what name
-- the op was called.
local function whole_numbers(text, type)
  local registry = require 'dflow.front.registry'
  local lua, call = registry.has(type) and registry.need(type).lua, nil
  for _, name in ipairs{ lua or '', lua and lua:gsub('_v%d?$', '') or '' } do
    if not call and name ~= '' and (not text or text:find('%f[%w_]' .. name .. '%f[^%w_]')) then call = usage(name) end
  end
  return (call and call .. '; ' or '') .. "df.cast(x, 'int32') makes whole numbers of floats"
end

local entries = {
  -- shapes
  { 'shapes cannot be broadcast: %w+%[(.-)%] and %w+%[(.-)%]', function(_, a, b)
    local first = a:match('^(%d+)')
    if first and b == first then
      return ('the last dimensions are aligned: df.expand_dims(y, 1) makes [%s] a column, [%s,1]'):format(b, b)
    end
    first = b:match('^(%d+)')
    if first and a == first then
      return ('the last dimensions are aligned: df.expand_dims(x, 1) makes [%s] a column, [%s,1]'):format(a, a)
    end
    return 'dimensions are aligned at the last one, and equal or 1'
  end },
  { 'inner dimensions differ, .-: a is %w+%[(.-)%], b is %w+%[(.-)%]', transposed },
  { 'has %d+ elements, but the shape', 'one dimension of the new shape may be -1: it becomes what is left' },
  { 'cannot be reshaped to', 'one dimension of the new shape may be -1: it becomes what is left' },
  { 'does not split into', 'df.split(x, {2, 3}) takes the sizes of the parts, which may differ' },
  { 'values%[%d+%] is .- and values%[%d+%] is .-: expected one shape',
    'df.stack joins equal shapes along a new axis; df.concat({a, b}, axis) joins along one they have' },
  { "dimension %d+ of the shape is nil, a whole", 'a dimension that is not known yet is -1: {-1, 3}' },
  { "dimension %d+ of the shape is the string", 'a dimension that is not known yet is -1: {-1, 3}' },
  { 'needs two matrices, got .-%] and',
    'df.expand_dims(x, 0) makes a vector a row, df.expand_dims(x, 1) a column; df.reduce_sum(x * y) is their product' },
  { 'a table holds both %w+ and string',
    'the elements of a tensor are of one dtype; texts and numbers are two tensors' },
  { 'the table has a hole', 'each element is a value: 0, or 0/0 where none is known; a misspelt variable is nil, too' },
  { 'the table is not rectangular',
    'every row has the same length; shorter ones are filled up, with zeros for example' },
  { '^Squeeze: ', 'only dimensions of 1 can be squeezed; df.squeeze(x) takes all of them' },
  { '^random_%w+: %d numbers were given; the shape is one list: write {0, 1}',
    'the shape comes first: df.random_uniform({2}, {min = 0, max = 1})' },
  { '^Slice: %w+ is %w+%[%]: expected a vector',
    'begin and size are lists, a number for each axis: x:slice({1, 0}, {2, 3})' },
  { '^Fill: value is .-: expected a scalar', 'the shape comes first: df.fill({2}, 0)' },
  { '^Fill: dims%[%d+%] is %-1', 'a size that is known when the graph runs only is df.dim(x, 0), or df.shape(x)' },
  { 'x%[i%] of a scalar: gradients', 'gradients of one x is one Output, of {x, y} a list' },
  { 'labels%[%d+%] is %-?%d+: expected a class from 0',
    'classes count from 0, and the last layer has a unit for each' },
  { 'labels must have the shape of the logits without',
    'logits are [batch, classes], labels [batch]; df.nn.Flatten() goes between images and Dense' },
  { 'labels and logits are of one shape', 'df.expand_dims(labels, 1) makes a column of a vector' },
  { 'axis %-?%d+ is out of range', 'axes count from 0, and -1 is the last' },
  { 'index %-%d+ is not in %[0, %d+%)', 'indices count from 0; x[{i}] counts a negative one from the end' },
  { 'is not in %[0, %d+%)', 'indices count from 0' },
  { '^OneHot: depth is .-: expected a scalar',
    'the indices come first, then how many there are: df.one_hot({0, 2}, 3)' },
  { '^concat takes a list of values, not the number', 'the list comes first, then the axis: df.concat({a, b}, 0)' },
  { "^Variable has no option '1'",
    "the value comes first, then options by name: df.Variable(df.zeros{2}, {name = 'w'})" },
  { '^S%w*SoftmaxCrossEntropyWithLogits: input 0 %(features%) is int', function(text)
    return text and text:find('%f[%w]fit%f[%W]')
    and "fit calls its loss as loss(labels, predictions): {loss = 'sparse_softmax_cross_entropy'}" or nil
  end },
  { '^S%w*SoftmaxCrossEntropyWithLogits: input 0 %(features%) is int',
    'logits come first, labels second: df.sparse_softmax_cross_entropy_with_logits(logits, labels)' },
  -- dtypes
  { 'condition is %w+%S*, bool is expected', 'a comparison makes a bool: x:gt(0), x:ne(0)' },
  { 'number [%d.]+ is no value of dtype bool', 'a comparison makes a bool: i:lt(10)' },
  { 'predicate of %w+ must be a scalar bool, but `[^`]*` is bool%[',
    'df.reduce_all(p) or df.reduce_any(p) makes one of them; element by element it is df.where(p, x, y)' },
  { 'predicate of %w+ must be a scalar bool, but `[^`]*` is %w+%[%]', 'a comparison makes a bool: x:gt(0), x:ne(0)' },
  { 'the number %-?%d+%.%d+ for .- cannot be an element of dtype',
    "a whole number is expected there; df.placeholder('float32', shape) takes others" },
  { 'the string .- cannot be an element of dtype bool',
    'true and false are values of Lua, without quotes; s == "true" makes one of a text' },
  { 'the boolean .- cannot be an element of dtype string', 'tostring(b) writes one' },
  { 'the string .- cannot be an element of dtype', 'strings and numbers do not mix: tonumber(s) reads one' },
  { 'the boolean .- cannot be an element of dtype', "df.cast(p, 'float32') makes 0 and 1 of a bool" },
  { 'the number .- cannot be an element of dtype string', 'strings and numbers do not mix: tostring(n) writes one' },
  { 'the number .- cannot be an element of dtype bool',
    'a comparison makes a bool: x:gt(0), x:ne(0); in a list true and false' },
  { 'the number (.-) for .- cannot be an element of dtype (u?q?u?int%d+)', not_within },
  { 'the number (.-) cannot be an element of dtype (u?q?u?int%d+)', not_within },
  { '^%u%w+: the attribute [%w_]+ is %w+ but must be one of', nil },
  { '^(%u%w+): input %d+ %([%w_]+%) is %a*float%d+ but must be one of int32, int64$', whole_numbers },
  { 'is (%w+) but must be one of (%w+)', converted },
  { 'is (%w+) but must be (string)$', converted },
  { 'feed: the number .- for .- cannot be held', "feed a whole number, or make it df.placeholder('float32', shape)" },
  { "a dtype is a string such as 'float32', not", function(text)
    if not text then return nil end
    return text:find('%f[%w]cast%f[%W]') and "the value comes first: df.cast(x, 'float32')"
      or text:find('%f[%w]constant%f[%W]') and "value, dtype, shape: df.constant(1, 'float32', {2, 3})"
      or text:find('%f[%w]tensor%f[%W]') and "value, dtype, shape: df.tensor({1, 2}, 'float32')" or nil
  end },
  { '^gradients: y %(`([^`]*)`, built at [^`]- does not depend on x [^`]*`[^`]*`[^`]*: y is not computed from it',
    function(text, y)
    local is_value = y:find('%f[^/%z]Const_?%d*$')
    return text and text:find('df%.run') and is_value
    and 'what df.run gives is a value, which has forgotten its graph: give gradients the Output' or nil
  end },
  -- calls
  { "^an Output has no field or method 'run'", 'as in x:eval(feeds), or df.run(x, feeds)' },
  { "^apply_gradients has no option '1'",
    'its pairs are one list, {{gradient, variable}, …}, as optimizer:compute_gradients(loss) gives it; minimize does '
    .. 'both' },
  { '^as_default takes a function',
    'it is in effect while that runs: s:as_default(function() … end); without, s:run(y) runs in s' },
  { '^map_fn: its options are a table, not [OTV]%a',
    'what is gone through together is one list: df.map_fn(function(a, b) return a * b end, {x, y})' },
  { '^Variable: a table with names was given', 'what it begins with comes first: df.Variable(df.zeros{2, 1})' },
  { 'a table with names was given where an Output is expected',
    'one of its values is meant, by its name: state.h of an LSTM, for example' },
  { 'gradients: ys: function was given', 'what the function gives is differentiated: gradients(f(x), x)' },
  { 'gradients: xs holds Layer', 'the variables of a layer are layer:parameters()' },
  { 'gradients: xs holds function', 'a method is called, with a colon: layer:parameters()' },
  { '^save: its options are a table, not Layer', 'as in df.save(path, {variables = layer:parameters()})' },
  { '^Assert: the condition is bool%[.-%] but must be a scalar', 'df.reduce_all(p) is true where all of them are' },
  { '^Conv3D%w*: strides has %d',
    'as in {strides = {1, 1, 1, 1, 1}}: batch, depth, height, width, channels; {strides = 2} is 2 along the three in '
    .. 'the middle' },
  { '^Conv%w*: strides has %d',
    'as in {strides = {1, 1, 1, 1}}: batch, height, width, channels; df.nn.Conv2D(filters, size, {strides = 2}) is a '
    .. 'layer' },
  { '^lua_func: .*attempt to index a number value', 'a scalar comes as a number of Lua, everything else as a Tensor' },
  { 'belongs to another graph$',
    'what is built together is built in one: g:as_default(function() … end); df.default_graph() is where all else is' },
  { '^TensorArray: the size of a TensorArray is %-1',
    'a size that is known when the graph runs only is df.dim(x, 0); {dynamic_size = true} lets an array grow' },
  { '^# of an Output', function(text)
    return text and text:find('table%.insert')
    and 'table.insert is for lists of Lua; a list in the graph is a TensorArray: ta = ta:write(i, v)' or nil
  end },
  { '^while_loop: its options are a table, not [OTV]%a',
    'the loop variables are one list: while_loop(pred, body, {i, x})' },
  { '^gradients: its options are a table, not [OV]%a',
    'what it is differentiated by is one list: gradients(loss, {w, b})' },
  { '^Reshape: shape is %w+%[%]: expected a vector', 'a shape is a list: x:reshape{-1} makes a vector of everything' },
  { '^Tile: multiples is', 'how often along each axis: df.tile(x, {2, 1})' },
  { '^Pad: paddings is', 'two numbers for each axis, before and behind: df.pad(x, {{1, 1}, {0, 2}})' },
  { '^Range: limit is .-: expected a scalar', 'its bounds are numbers, not a list: df.range(0, 10)' },
  { '^loop variable .- enters as (%w+)%[%] but the body returns (%w+)%[1%]', function(_, entered, returned)
    return entered == returned and 'are they in braces? The body returns the values themselves: return i + 1, x' or nil
  end },
  { "^run has no option 'Output'", 'feeds are one table: df.run(y, {[x] = 3, [z] = 4})' },
  { '^argument 1 is not a Tensor', function(text)
    local method = text and text:match('%f[%w_][%w_]+%.([%a_][%w_]*)%s*%(')
    return method and ('a method is called with a colon: t:%s()'):format(method) or nil
  end },
  { '^switch_case takes an index', 'as in df.switch_case(i, {f, g}, h): f for 0, g for 1, h for all else' },
  { '^custom_gradient takes a function',
    'as in df.custom_gradient(function(x) return y, function(dy) return dx end end), which gives a function' },
  { '^name_scope takes a function',
    "what is built in it is called after it: df.name_scope('layer1', function() … end)" },
  { '^variable_scope takes a function',
    "what is built in it is called after it: df.variable_scope('layer1', function() … end)" },
  { '^write: a path is expected, not',
    "the path comes first: df.save_npy('x.npy', t), df.save_npz('all.npz', {x = t})" },
  { "; the variables? '", nil },      -- that is what is wrong
  { "run: feeds is a table {%[x%] = value}, not Session", 's:run(x, feeds) runs in the session s' },
  { "run has no option 'session'", 's:run(x, feeds) runs in the session s' },
  { 'fetch: function cannot be fetched', function(text)
    return text and text:find('%f[%w_]init%f[^%w]')
    and 'variables are initialised when a run first needs them; df.init() sets them back'
           or 'a function is called, and what it gives is fetched'
  end },
  { "run: feeds is a table {%[x%] = value}, not", 'what is fetched together is one list: df.run{x, y}' },
  { 'an Output cannot be called', function(text)
    return text and text:find('%f[%w]for%f[%W].-%f[%w]in%f[%W]')
    and 'its rows are ipairs(df.unstack(x)); for i = 0, 9 do … end counts in Lua, while_loop in the graph'
      or 'df.run(x, feeds) and x:eval(feeds) compute its value'
  end },
  { "a table with the key '.-' was given where an Output",
    'options go with functions, not with operators: df.add(x, y, {name = …})' },
  { 'Queue: the dtypes are missing', "as in df.FIFOQueue(10, {'float32'})" },
  { '^func takes a Lua function as its third argument', function() return "the call is df.func(name, {'float32'}, "
      .. "function(x) … end): dtypes of the inputs come second" end },
  { '^scan: the function returns %w+ where the accumulator is a table',
    'the accumulator comes first, then the element: function(a, e); with a table of elems, e[1] and e[2]' },
  { '^dense: units is a whole number',
    function() return 'the call is df.nn.dense(x, units); a layer that keeps its weights is df.nn.Dense(units)' end },
  { 'the number (%S+) cannot be held by dtype (u?int%d+)$', too_large },
  { 'the number .- cannot be held by dtype u?int%d+$',
    "a whole number is expected there: math.floor(v) makes one in Lua, df.cast(x, 'int32') in the graph" },
  { 'a shape is a list of dimensions, not the number', function(text)
    return text and text:find('%f[%w]tensor%s*%(%s*[%d.-]')
    and "the values are one list: df.tensor{1, 2, 3}; a shape comes third, df.tensor(0, 'float32', {2, 3})" or nil
  end },
  { '^([%w_]+): [%a_][%w_, ]* is missing', function(text, op)
    if text and text:find('[%w_%]%)]%s*%.%s*' .. op .. '%s*[%(%{]') and not text:find('df%.?%w*%s*%.%s*' .. op) then
      return ('a method is called with a colon: x:%s(…)'):format(op)
    end
    return usage(op)
  end },
  { '^([%w_]+): the input [%w_]+ %(number %d%) is missing', function(text, op)
    if text and text:find('[%w_%]%)]%s*%.%s*' .. op .. '%s*[%(%{]') and not text:find('df%.?%w*%s*%.%s*' .. op) then
      return ('a method is called with a colon: x:%s(…)'):format(op)
    end
    return usage(op)
  end },
  { '^GradientDescentOptimizer takes at most',
    'the rate comes first; variables are given to minimize: df.train.SGD(0.1):minimize(loss, {variables = {w}})' },
  { 'Optimizer takes at most',
    'the rate comes first, then options; variables are given to minimize: opt:minimize(loss, {variables = {w}})' },
  { '^([%w_]+) takes at most %d+ arguments %(x, (%w+)%)', function(_, op,
    list) return (list == 'shape' or list == 'perm') and ('it is one list: x:%s{2, 1}'):format(op) or usage(op) end },
  { '^([%w_]+) takes at most %d+ arguments', function(_, op) return usage(op) end },
  { '^([%w_]+) takes %d+ inputs? and %d+ options?', function(_, op) return usage(op) end },
  { '([%w_]+) takes a function first', function(_, op)
    if op == 'foldl' or op == 'foldr' or op == 'scan' then
      return ('the function comes first: df.%s(function(a, row) return … end, rows, initial)'):format(op)
    end
    return op ~= 'lua_func' and 'the function comes first: df.map_fn(function(row) return … end, rows)' or usage(op)
  end },
  { '^func takes a name', "as in df.func('square', {'float32'}, function(x) return x * x end)" },
  { "^case has no option 'default'", 'it is one of the cases: df.case{{p, f}, {q, g}, default = h}' },
  { '^lua_func: its third argument', "as in df.lua_func(function(x) return x + 1 end, {x}, {'float32'})" },
  { ': its state is missing', nil },
  { '^restore: .- does not fit',
    'was it saved by another model? {partial = true} takes what fits, {map = …} gives other names' },
  { 'waits for %d+ elements? from queue',
    'a queue gives what was put into it: df.run(q:enqueue(v)) before, or at the same time' },
  { 'waits for room for %d+ elements? in queue',
    'a queue takes as many as its capacity, its first argument; df.run(q:dequeue()) makes room' },
  { '^value: the run is over',
    'h:wait() gives what the run was to compute; values inside are kept with df.start(y, feeds, {values = true})' },
  { '^(%u%w+): its options are a table, not the string', function(_, layer)
    local text = usage(layer)
    return text and text:find('activation =', 1, true)
    and ('options are named: df.nn.%s(…, {activation = df.relu})'):format(layer) or nil
  end },
  { '^Dense: its options are a table, not function', 'options are named: df.nn.Dense(…, {activation = df.relu})' },
  { '^Dense: its options are a table, not the number',
    'df.nn.Dense(units): the width of the input is taken from the input' },
  { '^get_variable: its options are a table', "as in df.get_variable('w', {3, 2}, {initializer = df.zeros{3, 2}})" },
  { '^Variable: its options are a table', "the value comes first: df.Variable(value, {name = 'w'})" },
  { '^fit: its options are a table', 'as in df.train.fit(model, {x, y}, {epochs = 10})' },
  { 'dynamic_rnn: the cell is', 'the cell comes first: df.rnn.dynamic_rnn(cell, x)' },
  { 'dynamic_rnn: x is .-, %[batch, time', 'df.expand_dims(x, 0) makes one sequence a batch of one' },
  { 'there are no trainable variables', 'what is trained is a df.Variable, or a layer that has been called' },
  { 'takes a loss, an Output, not', 'as in optimizer:minimize(loss)' },
  { 'device takes a function as its last',
    "what the function builds is placed there: df.device('gpu:0', function() … end)" },
  { '^Conv3D%w* needs the attribute strides',
    "as in df.conv3d(x, filter, 1, 'SAME'); df.nn.Conv3D(filters, size) is a layer" },
  { '^Conv%w+ needs the attribute strides',
    "as in df.conv2d(x, filter, {strides = {1, 1, 1, 1}, padding = 'SAME'}); df.nn.Conv2D(filters, size) is a layer" },
  { 'Pool3D needs the attribute', "as in df.max_pool3d(x, 2, 2, 'VALID'): the window, the strides, and the padding" },
  { 'Pool needs the attribute',
    "as in df.max_pool(x, {ksize = {1, 2, 2, 1}, strides = {1, 2, 2, 1}, padding = 'VALID'})" },
  { '^(%u%w+) needs the attribute', function(_, type)
    local registry = require 'dflow.front.registry'
    local lua = registry.has(type) and registry.need(type).lua
    return lua and usage(lua)
  end },
  { 'save: a path is expected', "as in df.save('model.safetensors')" },
  { 'the true branch returns (%d+) values?, but the false branch (%d+)$', function(_, a, b)
    return a ~= '0' and b ~= '0' and 'both branches return as many values, alike in dtype' or nil
  end },
  { '^Sequential: its options are a table',
    'the layers are one list: df.nn.Sequential{df.nn.Dense(64), df.nn.Dense(10)}' },
  { '^Saver:save: its options are a table, not the number', 'as in saver:save(path, {step = n})' },
  { '^([%w_.]+): its options are a table, not', function(_, name) return usage(name) end },
  { '^(%u%w+): units is a whole number from 1 up', function(_, layer)
    return ('the count comes first, by itself: df.%s.%s(64)'):format(layer:find('Cell$') and 'rnn' or 'nn', layer)
  end },
  { "^GradientDescentOptimizer has no option 'momentum'", 'that is df.train.Momentum(0.1, 0.9)' },
  { "Optimizer has no option 'l[re]", 'the learning rate comes first, by itself: df.train.Adam(1e-3)' },
  { "Optimizer has no option 'learning_rate'", 'the learning rate comes first, by itself: df.train.Adam(1e-3)' },
  { 'its input is %w+%[.-%], %[batch', 'df.expand_dims(x, 0) makes one example a batch of one' },
  { 'gradients takes ys and xs', 'as in gradients(loss, {w, b})' },
  -- runs
  { 'the placeholder (.-) %(`.-`%), .-, was not fed',
    function(_, name) return ('feeds are the second argument: df.run(y, {[%s] = value})'):format(name) end },
  { 'the placeholder `(.-)`, .-, was not fed', function(_, name)
    return ('feeds are the second argument: df.run(y, {[x] = value}), x being what df.placeholder gave for `%s`')
      :format(name)
  end },
  { 'feed: Output was fed', 'a feed is a value, which no graph computes: v:eval() or df.run(v) gives it' },
  { 'was fed %w+%[.-%], but it is %w+%[', 'a dimension of -1 in the placeholder takes any size' },
  { 'keys that are numbers or strings, not Output', 'feeds come second: df.run(y, {[x] = value})' },
  { "the graph has no operation 'feed_dict'", 'feeds are the table itself: df.run(y, {[x] = value})' },
  { "the graph has no operation '([^/']+)'", function(text, name)
    if name == 'timeout' or name == 'trace' or name == 'report' or name == 'paused' then
      return ('options of a run are its third argument, behind the feeds: df.run(y, nil, {%s = …})'):format(name)
    end
    if text and (text:find('[{,]%s*' .. name:gsub('%p', '%%%0') .. '%s*=[^=]')) then
      return ('in braces a bare name is a string: write {[%s] = value}, with brackets, for the placeholder itself')
        :format(name)
    end
    local quoted = '["\']' .. name:gsub('%p', '%%%0') .. '["\']'
    if text and text:find('%[%s*' .. quoted .. '%s*%]%s*=') then
      return ('without quotes it is what the variable %s holds: {[%s] = value}'):format(name, name)
    end
    return text and text:find('run%s*%(?%s*' .. quoted)
    and ('a string names a node of the graph; what the variable %s holds is df.run(%s)'):format(name, name) or nil
  end },
  { "^(%l[%w_]*) has no option '1'", function(_, name)
    return require('dflow.front.registry').entry(name)
      and ('what it computes of comes before the table of options: df.%s(x, {…})'):format(name) or nil
  end },
  { '^scalar: numbers are expected', 'the tag comes first: w:scalar(tag, value, step)' },
  { '^([%w_]+): elems .- is a scalar', function(_, name)
    return name ~= 'map_fn' and ('what it goes over comes second, what it begins with third: df.%s(fn, elems, init)')
      :format(name) or nil
  end },
  { '^([%w_]+): the labels are .-, the predictions', 'the labels come first: df.nn.%s(labels, predictions)' },
  { 'there is nothing to fetch$', function(text)
    local name = text and text:match('[.:]run%s*%(%s*([%a_][%w_]*)%s*[,)]')
    if name and name ~= 'init' and name ~= 'nil' then return ("the variable '%s' is nil"):format(name) end
    local fn = text and text:match('[.:]run%s*%(%s*([%a_][%w_.:]*)%s*%b()')
    if fn and fn ~= 'df.init' then
      return ('%s(…) gives nothing: is `return` missing in it, or is what it returns nil?'):format(fn)
    end
    return text and text:find('%f[%w_]init%f[^%w]')
    and 'variables are initialised when a run first needs them, and nothing has to be run for it'
      or text and text:find('df%.run') and 'as in df.run(y) or df.run({y, z})' or 'as in s:run(y) or s:run({y, z})'
  end },
  { "Session has no option 'gpu'",
    "devices are named: df.Session{devices = {'gpu:0'}}; without, every gpu there is takes part" },
  { "Session has no option '(%w+)'", function(_, name) return (name == 'config' or name == 'device')
      and "devices are named: df.Session{devices = {'gpu:0'}}" or nil end },
  { "the least that dflow's kernels are built for", 'what asks for no device runs on the CPU' },
  { 'there is no device', 'df.devices() lists what is here' },
  { 'out of memory for .- on gpu:%d',
    "smaller batches, save = 'recompute' for what a loop's gradient keeps, or df.device for a part of the graph" },
  { 'it waits for (gpu:%d+), where a kernel',
    function(_, gpu) return (
        'where it hangs, %s is of use again when the program starts anew; the CPU is now'):format(gpu) end },
  { "index %d+ is read but was never written",
    "ta:write(i, v) returns the array with it: write ta = ta:write(i, v) and go on with that" },
  { 'index %-?%d+ is out of range: the array has', 'slots count from 0; {dynamic_size = true} lets an array grow' },
  { "variable '.-' holds .- but is given", "a variable keeps its shape; one of another shape is another variable" },
  { 'cannot write (.-): No such file', function(_, path)
    local folder = path:match('^(.*)/[^/]*$')
    return folder and ('the folder comes first: mkdir -p %s'):format(folder) or nil
  end },
  { 'cannot open (.-): No such file', 'paths go by the folder that the program was started in' },
  -- control
  { 'cond takes a predicate and two functions; the second one is nil',
    'both branches are needed, and give alike values: function() return x end' },
  { 'cond takes a predicate and two functions; the %w+ one is',
    'the branches are functions: cond(p, function() return a end, function() return b end)' },
  { 'while_loop takes two functions',
    'as in while_loop(function(i) return i:lt(10) end, function(i) return i + 1 end, {df.int32(0)})' },
  { 'while_loop: the loop variables are missing',
    'the third argument is a table of what they begin with: {df.int32(0), x}' },
  { '^loop variable .- enters as %w+ but the body returns %w+[ :]',
    'the body returns its values in the order of the loop variables' },
  { 'the predicate returns nothing', 'is `return` missing? function(i) return i:lt(10) end' },
  { 'its body returns 0 values', 'is `return` missing? The body returns the next value of each loop variable' },
  { 'its body returns %d+ value', 'the body returns the next value of each loop variable, changed or not' },
  { 'branch returns %d+ values?, but the false branch 0', 'is `return` missing in the false branch?' },
  { 'the true branch returns 0 values, but the false branch', 'is `return` missing in the true branch?' },
  { '^TensorArrayWrite: .- are given float32%[0%]', 'did the function return something?' },
  { 'the result of <', function(text)
    local name = text and text:match('math%.(m[axin]+)')
    if name then return ('math.%s is Lua\'s own; the op is df.%simum(a, b)'):format(name, name) end
    if text and text:find('[<>][^=]-%sand%s.-%sor%s') then
      return 'a choice in the graph is df.where(p, a, b), or cond(p, f, g)'
    end
    if text and text:find('%f[%w]if%f[%W]') then
      return 'a decision in the graph is cond(x:gt(0), function() … end, function() … end); df.autograph(fn) makes it '
             .. 'of `if`'
    end
  end },
  { 'an Output cannot be changed %(the field \'%-?%d+\'',
    'df.where(mask, a, b) makes one with other elements; a df.Variable or TensorArray can be written' },
  { 'the field \'requires_grad\'', 'not needed: gradients(y, x) goes by any x' },
}

--- A function of df that was called as a method of it, `df:ones{2}`: its first argument is df then.
local function called_of_df(text)
  local name = text and text:match('%f[%w_]df:([%a_][%w_]*)%s*[%(%{\'"]')
  for _, known in ipairs(name and df_names() or {}) do
    if known == name then return ('the functions of df are called with a point: df.%s(…)'):format(name) end
  end
end

-- What the patterns look at: some take time that is the square of what they search.
local MOST_CHARACTERS = 2000

--- How the error is mended; nil where the message says it, or there is no advice.
function M.advice(message, text)
  local of_df = called_of_df(text)
  if of_df then return of_df end
  for _, entry in ipairs(entries) do
    local found = { message:find(entry[1]) }
    if found[1] then
      local says = entry[2]
      if says == nil then return nil end
      if type(says) == 'function' then says = says(text, (table.unpack or unpack)(found, 3)) end
      if says then return says end
    end
  end
end

--- What follows the message of an error of dflow: the line and the advice.
function M.after(e)
  local message = (e.message or ''):sub(1, MOST_CHARACTERS)
  local quoted = e.source and quote.text(e.source, message, e.op) or ''
  local advice = M.advice(message, e.source and quote.line(e.source) or nil)
  return quoted .. (advice and '\n  help: ' .. advice or '')
end

-- ---- Lua's own errors -----------------------------------------------------------------------------------------------
local dflow_fields = { shape = 'x.shape, and x.shape[1] for its first dimension', dtype = 'x.dtype', name = 'x.name',
                       op = 'x.op', graph = 'x.graph' }

local raw = {
  { "attempt to call a number value %(method '(%w+)'%)", function(word)
    return word == 'size' and 't.size is how many elements there are, t.shape[1] the first dimension' or word == 'rank'
    and 't.rank is a field, with a point' or nil
  end },
  { 'attempt to index a nil value %(field \'shape\'%)', function()
    return "its shape is not known, and x.shape nil; df.placeholder('float32', {-1, 3}) has one, and df.dim(x, 0) is "
           .. "a dimension in the graph"
  end },
  { 'attempt to index .*a? ?number value', function(_, text)
    return text and text:find('shape%s*%[')
    and 'a shape is one list: x.shape[1] is the first dimension, x.shape[2] the second' or nil
  end },
  { 'attempt to perform arithmetic on a dflow%.Run',
    function() return 'a run in the background: h:wait() gives its results' end },
  { 'attempt to compare %w+ with %w+', function(_, text, says)
    return says:find('table')
    and 'of a list the elements are l[1], l[2], …; what df.run{x, y} gives is one, df.run(x) gives a scalar as a number'
      or nil
  end },
  { "bad argument #%d+ to 'format' %(%w+ expected, got table%)",
    function() return 'of a list the elements are l[1], l[2], …; what df.run{x, y} gives is one, df.run(x) gives a '
                      .. 'scalar as a number' end },
  { "attempt to call a %w+ value %(%w+ '([%w_]+)'%)", function(word, _, says)
    if word == 'Tensor' then return 'df.tensor{1, 2} makes a Tensor; df.Tensor is the type' end
    if dflow_fields[word] then
      return ('%s is a field and needs no parentheses: %s'):format(word, dflow_fields[word])
    end
    if package.loaded['dflow.' .. word] then return ('it is a part of df: ?%s lists what is in it'):format(word) end
    if says:find('call a table value', 1, true) then
      return ("'%s' is a table of Lua, which is no function; layers in a row are one layer: df.nn.Sequential{l1, l2}")
        :format(word)
    end
  end },
  { "bad argument #%d+ to '(%w+)' %(number expected, got d?f?l?o?w?%.?%w+%)", function(word)
    if lua_math[word] then
      return ('math.%s is Lua\'s own, for Lua numbers; the op is df.%s(x)'):format(word, lua_math[word])
    end
  end },
  { "bad 'for' %w+ %(number expected, got dflow%.Output%)",
    function()
      return 'how often is known when the graph runs: while_loop repeats there, and df.autograph(fn) makes it of '
             .. '`for`; '
        .. 'df.run(n) gives a Lua number now'
    end },
  { "'for' %w+ must be a number", function()
    return 'an Output has no value yet: while_loop repeats in the graph; df.run(n) gives a Lua number now'
  end },
  { 'attempt to compare number with dflow%.Tensor',
    function() return 'a Tensor is compared element by element: t:gt(1); t:item() is its one number' end },
  { 'attempt to compare dflow%.Tensor with number',
    function() return 'a Tensor is compared element by element: t:lt(1); t:item() is its one number' end },
  { "bad argument #%d+ to 'format' %(n?u?m?b?e?r?s?t?r?i?n?g? ?e?x?p?e?c?t?e?d?, got dflow%.Output%)",
    function()
      return 'an Output has no value yet: df.run(x) gives one, df.print(x) shows it while the graph runs'
    end },
  { "bad argument #%d+ to '%w+' %([%w ]+, got dflow%.Tensor%)",
    function()
      return 't:item() is the number of a Tensor of one element, t:at(0) that of a vector; tostring(t) shows all of '
             .. 'them'
    end },
  { "bad argument #%d+ to 'write' %(string expected, got dflow%.Output%)",
    function()
      return 'an Output has no value yet: df.run(x) gives one, df.print(x) shows it while the graph runs'
    end },
  { "attempt to index a function value %(field '(%w+)'%)", function(word, text)
    local made = text and text:match('(df%.[%w_.]*' .. word .. ')%s*[:.]')
    if made then return ('%s is a function, and what it gives has methods: %s(…)'):format(made, made) end
    made = text and text:match('(df%.[%w_.]*' .. word .. ')%s*%[')
    return made and ('%s is a function, which is called with parentheses or a list: %s(…), %s{…}')
      :format(made, made, made) or nil
  end },
  { 'attempt to perform arithmetic on a nil value', function(_, text)
    return text and text:find('tonumber%s*%(')
    and 'tonumber gives nil of what is no text of a number; df.run(x) gives the number of a scalar Output' or nil
  end },
  { "'%]' expected near ':'",
    function() return 'a part of a tensor is x:slice({1}, {2}), which begins at 1 and has 2 elements, or '
                      .. 'df.strided_slice' end },
  { "function arguments expected near", function(_, text)
    local word = text and text:match(':([%a_][%w_]*)%s*%f[%),}%z]')
    return word and (dflow_fields[word] and ('%s is a field, with a point: %s'):format(word, dflow_fields[word])
                     or ('a method is called with parentheses, x:%s(); a field has a point, x.%s'):format(word, word))
                     or nil
  end },
  { "near '%*'", function(_, text) return text and text:find('%*%*') and 'a power is written with ^: x ^ 2'
      or nil end },
  { "near '<\\%d+>'", function() return 'the letters of names are a to z and A to Z; others stand in quotes' end },
  { "near '#'", function(_, text) return text and text:find('#%s*[%a%p]')
      and 'a comment begins with two dashes: -- like this' or nil end },
  { "attempt to get length of a nil value", function(_, text)
    return text and text:find('^%s*#') and 'a comment begins with two dashes: -- like this' or nil
  end },
  { "near '@'", function() return 'the product of matrices is df.matmul(a, b)' end },
  { "near '!'", function() return 'Lua writes ~= for "is not equal" and not for "not"; in the graph x:ne(y), '
                                  .. 'df.logical_not(p)' end },
  { "near '[-+*/]'", function(_, text)
    local body = text and text:match('%f[%w]function%s*%b()%s*([%w_]+%s*[-+*/][^;]-)%s*%f[%w]end%f[%W]')
    return body and ('is `return` missing? function(…) return %s end'):format(body) or nil
  end },
  { "near '%+=?'", function(_, text) return text and text:find('%+=')
      and 'Lua has no +=: x = x + 1; of a variable df.run(v:assign_add(1))' or nil end },
  { "near '='", function(_, text) return text and text:find('[-+*/]=') and 'Lua has no ' .. text:match('[-+*/]=')
      .. ': x = x + 1 is written out' or nil end },
  { "attempt to perform arithmetic on a table value %(%w+ '([%w_]+)'%)",
    function(word, text)
      if text and text:find('%f[%w_]' .. word .. '%s*,.-=') then
        return ("'%s' is the whole list, and the elements are %s[1], %s[2], …: local a, b = df.unpack(list)")
          :format(word, word, word)
      end
      return ("'%s' is a table of Lua: of a list the elements are %s[1], %s[2], …; df.tensor(%s) makes a value of "
              .. "numbers, df.stack(%s) a tensor of Outputs")
        :format(word, word, word, word, word)
    end },
  { 'index is nil', function(_, text)
    local name = text and (text:match '[{,]%s*%[%s*([%a_][%w_.]*)%s*%]%s*='
                           or text:match '%[%s*([%a_][%w_.]*)%s*%]%s*=')
    return name and ("'%s' is nil there, and a key of a table is not"):format(name) or nil
  end },
  { "attempt to perform arithmetic on a nil value %(field '[^']+'%)", function(_, text)
    return text and text:find('shape%s*%[')
    and 'shapes are lists of Lua and begin at x.shape[1]; unknown ones are -1 there, df.dim(x, 0) in the graph' or nil
  end },
  { "<name> expected near 'repeat'",
    function() return 'repeat is a word of Lua\'s own; of a pipeline it is p:repeat_(n)' end },
  { "near '%['", function(_, text) return text and text:find('=%s*%[') and 'lists are written in braces: {1, 2, 3}'
      or nil end },
  { "near ':'", function(_, text) return text and text:find('%f[%w]for%f[%W]')
      and 'blocks are for … do … end, if … then … end, function(x) … end' or nil end },
  { "'=' expected near '(%w+)'", function(_, text) return text and text:find('^%s*import ')
      and "modules are loaded by local df = require 'dflow'" or nil end },
  { "near '(%w+)'", function(_, text)
    local asked = text and text:match('^%s*help%s+([%a_][%w_.]*)%s*$')
    return asked and ('?%s tells of it, :help of the prompt'):format(asked) or nil
  end },
  { "near '([%d.]+)'", function(number, text)
    local call = text and text:match('%f[%w_]([%a_][%w_.:]*)%s+' .. number:gsub('%p', '%%%0'))
    return call and call:find('[.:][%a_]')
    and ('parentheses may be left out around a string or a table alone: %s(%s)'):format(call, number) or nil
  end },
  { "near '([%a_][%w_]*)'", function(word, text)
    local call = text and text:match('%f[%w_]([%a_][%w_]*[.:][%w_.:]*%w)%s+' .. word .. '%f[^%w_]')
    return call and ('parentheses may be left out around a string or a table alone: %s(%s)'):format(call, word) or nil
  end },
  { "attempt to concatenate a dflow%.(%w+) value",
    function() return 'tostring(x) is its text: "x = " .. tostring(x)' end },
  { "near '(%w+)'", function(_, text) return text and text:find('%f[%w]lambda%f[%W]')
      and 'a function is written function(x) return x end' or nil end },
  { "attempt to call a nil value %(global '(%w+)'%)", function(word)
    local nearest, df = require 'dflow.front.nearest', package.loaded['dflow']
    for _, name in ipairs(df and df_names() or {}) do if name == word then return ('it is df.%s'):format(word) end end
    local says = require('dflow.front.glossary').says(word)
    if says then return says end
    local names = {}
    for key in next, _G do if type(key) == 'string' then names[#names + 1] = key end end
    local near = nearest(word, names)
    if near then return ("did you mean '%s'?"):format(near) end
    near = nearest(word, df_names())
    return near and ('did you mean df.%s?'):format(near) or nil
  end },
}

--- An error message of Lua's with the line it is about and what to do; the message alone where nothing is known.
function M.explain(message)
  local source, says = message:sub(1, MOST_CHARACTERS):match('^([^\n]-:%d+): ([^\n]*)')
  if not source or says:find('^interrupted!') then return message end
  local text = quote.line(source)
  -- LuaJIT's words in Lua's order
  says = says:gsub("^(attempt to [%w ]-) (%w+) '([%w_]+)' %(a (%w+) value%)", "%1 a %4 value (%2 '%3')")
  -- what was never closed
  local begun = says:match('at line (%d+)%) near')
    or (not text and says:find('near <eof>', 1, true) and source:match('%d+$') - 1)
  local asked = begun and quote.line((source:gsub('%d+$', ('%d'):format(begun)))) or text or ''
  local advice
  for _, entry in ipairs(raw) do
    local found = { says:find(entry[1]) }
    if found[1] then
      advice = entry[2](found[3], text, says)
      if advice then break end
    end
  end
  local elsewhere = require('dflow.front.elsewhere').says(says, quote.masked(asked))
  if elsewhere and (not advice or says:find("global '")) then advice = elsewhere end
  return message .. quote.text(source, says) .. (advice and '\n  help: ' .. advice or '')
end

return M
