-- What `?name` says is there for every public name, and true as far as a machine can tell.
local df = require 'dflow'
local docs = require 'dflow.docs'
local errors = require 'dflow.front.errors'
local graph = require 'dflow.front.graph'
local help = require 'dflow.docs.help'
local ops = require 'dflow.front.ops'
local registry = require 'dflow.front.registry'
local sessions = require 'dflow.front.session'
local examples = require 'dflow.docs.examples'
local host_it = require('spec.support').host_it(it, pending)       -- examples that say where a node runs

--- The table of methods that an __index function of a type keeps to itself.
local function methods_of(object, name)
  local index = getmetatable(object).__index
  if type(index) == 'table' then return index end
  for i = 1, 50 do
    local upvalue, v = debug.getupvalue(index, i)
    if upvalue == name then return v end
  end
end

--- Methods of an event file's writer, which takes a folder.
local function summaries()
  local folder = os.tmpname()
  os.remove(folder)
  local w = df.summary.FileWriter(folder)
  w:close()
  os.remove(w.path)
  os.remove(folder)
  return getmetatable(w).__index
end

--- Methods of every type as they are, not as help says.
local function real_methods()
  local g = df.Graph()
  return g:as_default(function()
    local list = {
      Run = sessions.Run.__index, Session = sessions.Session.__index, Tensor = require('dflow.front.tensor').methods, Operation = graph.operation_methods,
      Graph = methods_of(g, 'graph_methods'), TensorArray = methods_of(df.TensorArray('float32', 1), 'methods'),
      Queue = methods_of(df.FIFOQueue(1, 'float32'), 'methods'), Variable = methods_of(df.Variable(1.0), 'methods'), Output = {}, Optimizer = {},
      Plot = getmetatable(df.plot{ 1 }).__index, Pipeline = methods_of(df.data.pipeline(df.tensor{ 1 }), 'methods'),
      Saver = methods_of(df.train.Saver(), 'methods'), SparseTensor = methods_of(df.SparseTensor({}, {}, { 1 }), 'methods'), FileWriter = summaries(),
    }
    for name in pairs(graph.methods) do if not ops.find(name) then list.Output[name] = true end end
    for _, name in ipairs{ 'lt', 'le', 'gt', 'ge', 'eq', 'ne' } do list.Output[name] = true end
    local class = getmetatable(getmetatable(df.train.SGD(0.1))).__index
    for name, v in pairs(class) do
      if type(v) == 'function' and not name:find('^__') and name ~= 'prepare' and name ~= 'finish' then list.Optimizer[name] = v end
    end
    return list
  end)
end

--- Every public name.
local function public()
  local list = {}
  for _, name in ipairs(df.names()) do list[#list + 1] = name end
  for name in pairs(ops.aliases) do list[#list + 1] = name end
  for _, part in ipairs{ 'train', 'nn', 'rnn', 'data', 'plot', 'image', 'signal' } do
    for name, v in pairs(df[part]) do
      if type(v) == 'function' and not ops.find(name) then list[#list + 1] = part .. '.' .. name end
    end
  end
  for type_name, methods in pairs(real_methods()) do
    list[#list + 1] = type_name
    for name in pairs(methods) do list[#list + 1] = type_name .. ':' .. name end
  end
  return list
end

describe('help', function()
  local taken, plain = {}, errors.options
  setup(function()
    errors.options = function(opts, what, known)
      taken[what] = known
      return plain(opts, what, known)
    end
  end)
  teardown(function() errors.options = plain end)
  it('finds the arguments and the options of a signature, whatever stands in brackets', function()
    local signature = 'df.f(x, list of {a, b}, {axis = {0, 1}, keep = false, shape = ({2}), last = [1, 2]})'
    local arguments, options = help.parts(signature)
    for i, a in ipairs(arguments) do arguments[i] = signature:sub(a[1], a[2]) end
    assert.same({ 'x', 'list of {a, b}', '{axis = {0, 1}, keep = false, shape = ({2}), last = [1, 2]}' }, arguments)
    for i, o in ipairs(options) do options[i] = o.name .. ':' .. signature:sub(o.first, o.last) end
    assert.same({ 'axis:axis = {0, 1}', 'keep:keep = false', 'shape:shape = ({2})', 'last:last = [1, 2]' }, options)
  end)

  it('has of every public name a signature, a sentence and an example', function()
    local n = 0
    for _, name in ipairs(public()) do
      local text = help.help(name)
      assert.is_truthy(text, name)
      if not docs.types[name] then
        local last = name:match('[^.:]*$')
        assert.is_truthy((help.signature(name) or ''):find(last, 1, true), name .. ' has no signature')
      end
      local about = (help.about(name) or ''):gsub('^%S.- = [%w_]+%b()', '')      -- the sentence, without what only repeats the signature
      assert.is_true(select(2, about:gsub('%a+', '')) >= 2, ('%s: no sentence: %s'):format(name, about))
      assert.is_truthy(name == 'variant' or help.example(name), name .. ' has no example')
      n = n + 1
    end
    assert.is_true(n > 400, n)
  end)

  it('is not built where an entry has no sentence or no example: the op and the fact are named', function()
    local entry = registry.entry 'Softsign'
    for _, fact in ipairs{ 'doc', 'example' } do
      local given = entry[fact]
      entry[fact] = nil
      local ok, why = pcall(examples.write, '/dev/null')
      entry[fact] = given
      assert.same({ false, 'the entry of Softsign (runtime/ops) has no .' .. fact }, { ok, why })
    end
  end)

  it('speaks of nothing that is not there', function()
    local methods = real_methods()
    for _, name in ipairs(help.names()) do
      local owner, method = name:match('^(%w+):([%w_]+)$')
      if owner then
        assert.is_truthy(owner == 'Variable' and (methods.Variable[method] or graph.methods[method]) or methods[owner][method] or graph.methods[method], name)
      elseif not docs.types[name] then
        local v = df
        for word in name:gmatch('[^.]+') do v = v[word] end
        assert.is_truthy(v, name)
      end
    end
    for _, line in ipairs(docs.families) do
      for name in line:gmatch('%S+') do assert.is_truthy(help.signature(name) or docs.types[name], name) end
    end
  end)

  host_it('shows an example of every name that runs, and what it gives', function()
    local n = 0
    for _, name in ipairs(help.names()) do
      if name ~= 'variant' then
        local output, why = examples.run(name)
        assert.is_nil(why, name)
        n = n + 1
        -- LuaJIT knows no integers: what a bare 1 becomes is another dtype there.
        if math.type then assert.are.equal(name .. ': ' .. (docs.outputs[name] or ''), name .. ': ' .. output) end
      end
    end
    assert.is_true(n > 400, n)
  end)

  it('lists for every op its inputs, outputs, dtypes, each option with type and default, its gradient and what to see', function()
    for _, name in ipairs(registry.names()) do
      local text = help.help(name)
      for _, part in ipairs{ '\n  inputs    ', '\n  outputs   ', '\n  gradient  ', '\n  see also  ' } do
        assert.is_truthy(text:find(part, 1, true), name .. part .. '\n' .. text)
      end
      for _, o in ipairs(help.options(name)) do
        assert.is_truthy(o.type ~= '?' and (o.default or o.required), name .. ': ' .. o.name)
        assert.is_truthy(text:find(o.name .. ': ' .. o.type, 1, true), name .. ': ' .. o.name)
      end
      assert.is_true(#help.gradient(name)[1] > 1, name)
    end
  end)

  it('knows the options and arguments that the functions take', function()
    for _, name in ipairs{ 'while_loop', 'gradients', 'Session', 'check_gradients', 'TensorArray', 'Run:break_at', 'nn.dynamic_rnn', 'data.batches',
                           'train.exponential_decay',
                           'Queue:close', 'Variable', 'import_graph_def', 'export_graph_def', 'export_onnx', 'map_fn', 'scan', 'foldl', 'case', 'cond', 'run', 'FIFOQueue',
                           'RandomShuffleQueue', 'PriorityQueue', 'PaddingFIFOQueue', 'clip_by_global_norm', 'nn.dense',
                           'nn.lstm_cell', 'nn.gru_cell', 'Optimizer:apply_gradients' } do
      assert.is_nil((select(2, examples.run(name))), name)
    end
    local checked = 0
    for what, known in pairs(taken) do
      for _, name in ipairs{ what, 'nn.' .. what, 'rnn.' .. what, 'data.' .. what, 'train.' .. what, 'Queue:' .. what, 'Run:' .. what, 'Optimizer:' .. what } do
        local list = help.signature(name) and not registry.entry(name) and help.options(name) or {}
        if #list > 0 then
          checked = checked + 1
          local told = {}
          for _, o in ipairs(list) do told[o.name] = true end
          for _, option in ipairs(known) do
            assert.is_truthy(told[option], ('%s takes %s'):format(name, option))
            told[option] = nil
          end
          assert.is_nil(next(told), ('%s takes no %s'):format(name, tostring(next(told))))
        end
      end
    end
    assert.is_true(checked > 20, checked)
    for name, given in pairs(ops.arguments) do
      local signature = help.signature(name)
      for i = 1, 2 do
        for _, word in ipairs(given[i]) do
          -- A list is written {values, …}; seq_dim and batch_dim are TensorFlow's older names of seq_axis and batch_axis.
          local hidden = (i == 1 and (word == 'values' or word == 'data' or word == 'parts' or word == 'labels'
            or word == 'logits')) or word == 'seq_dim' or word == 'batch_dim'
          local told = signature:find('%f[%w_]' .. word .. '%f[^%w_]')
          for _, o in ipairs(help.options(name)) do told = told or o.name == word end
          assert.is_truthy(told or hidden, ('%s takes %s: %s'):format(name, word, signature))
        end
      end
    end
  end)

  it('fits the page', function()
    for _, name in ipairs(help.names()) do
      for line in help.help(name):gmatch('[^\n]+') do
        if line:sub(1, 12) ~= '  example   ' and not line:find('^            local ') and not line:find('^            return ') then
          assert.is_true(#line <= 150, name .. ': ' .. line)
        end
      end
    end
  end)

  it('tells of an option, of a type, and of a method by its name alone', function()
    local function tells(name, ...)
      local text = help.help(name)
      for _, part in ipairs{ ... } do assert.is_truthy(text and text:find(part, 1, true), ('%s: %s: %s'):format(name, part, tostring(text))) end
    end
    tells('parallel_iterations', 'is an option', 'int = 32', 'while_loop')
    tells('keep_dims', 'bool = false', 'reduce_sum')
    tells('Run', 'h:step(', 'h:whynot(', 'h.session')
    tells('Run:step', "unit = 'token'", 'iteration')
    tells('run:step', "unit = 'token'")
    tells('whynot', 'h:whynot(')
    tells('stack', 'Pack', '?TensorArray:stack')
    tells('TensorArray', 'dynamic_size: bool = false', 'ta:write(i, v)')
    tells('mul', 'another name of df.multiply', 'x: dy * y')
    tells('df.while_loop', 'parallel_iterations: int = 32', 'gradient')
    tells('floor', 'none: it rises in steps')
    tells('reduce_sum', 'keep_dims: bool = false', 'axis: int or list = nil', 'see also  reduce_mean', '[4 6]')
    tells('MatMul', 'transpose_a')
    tells('float32', 'A constant of dtype float32')
    tells('TensorArrayReadV3', 'imported graphs')
    tells('string.format', 'Lua: ')
  end)

  it('finds names by pattern', function()
    assert.are.same({ 'reduce_max', 'reduce_mean', 'reduce_min' }, help.matching('reduce_m*'))
    assert.are.same({ 'reduce_mean' }, help.matching('reduce_mea?'))
    assert.are.same({ 'Run:why', 'Run:whynot' }, help.matching('Run:why*'))
    assert.are.equal(0, #help.matching('nothing_*'))
  end)

  it('says when it knows nothing, and what was meant', function()
    local text, why = help.help('matmull')
    assert.is_nil(text)
    assert.is_truthy(why:find('matmul', 1, true), why)
    assert.is_truthy(select(2, help.help('whille_loop')):find('while_loop', 1, true))
  end)

  it('knows a name by its end, and shows whose it is', function()
    for name, wanted in pairs{ LSTMCell = 'df.rnn.LSTMCell(units', Adam = 'df.train.Adam(', lstmcell = 'df.rnn.LSTMCell(units', accuracy = 'df.nn.metrics.accuracy(labels',
                               exponential_decay = 'df.train.exponential_decay(', he_normal = 'df.nn.initializers.he_normal({', prefetch = 'p:prefetch(k)',
                               Saver = 'df.train.Saver({', pipeline = 'df.data.pipeline(source)', ['nn.relu'] = 'df.relu(' } do
      assert.equal(wanted, (help.help(name) or ''):sub(1, #wanted), name)
    end
    local text = help.help 'Saver'
    assert.matches('\n  methods   s:best(prefix)', text, 1, true)
    text = help.help 'precision'                      -- a metric, and an option of another function
    assert.matches('df.nn.metrics.precision(labels', text, 1, true)
    assert.matches('precision is an option', text, 1, true)
    text = help.help 'mean'
    assert.matches("NumPy's mean is df.reduce_mean(x, axis)", text, 1, true)
    assert.matches('df.nn.metrics.mean(values', text, 1, true)
    assert.matches('glorot_uniform%(rows, columns.*\n\ndf%.nn%.initializers%.glorot_uniform', help.help 'glorot_uniform')
    assert.is_nil((help.help 'no_such_thing'))
  end)

  it('has a page of each metric and each initializer', function()
    local n = 0
    for _, part in ipairs{ 'metrics', 'initializers' } do
      for name in pairs(df.nn[part]) do
        if part == 'metrics' or (name ~= 'check' and name ~= 'value') then
          assert.is_truthy(docs.functions[('nn.%s.%s'):format(part, name)], name)
          n = n + 1
        end
      end
    end
    assert.equal(24, n)
  end)

  it('knows the functions that messages speak of', function()
    assert.equal('rnn.LSTMCell', help.full_name 'LSTMCell')
    assert.equal('nn.metrics.accuracy', help.full_name 'metrics.accuracy')
    assert.equal('nn.Conv2D', help.full_name 'Conv2D')        -- an op's type, too
    assert.equal('matmul', help.full_name 'matmul')
    assert.is_nil(help.full_name 'no_such_thing')
  end)
end)
