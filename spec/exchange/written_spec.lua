--- What is exported is read again as what it was: every op that has a gradient, with it, and programs of loops and conds, as GraphDefs and as
-- ONNX models, compute the same when they come back, and are written again as they were. What a format has no form for is refused by name.
-- run: first
local df = require 'dflow'
local graphs = require 'spec.op_gradients'
local random_program = require 'spec.random_program'
local shell = require 'spec.shell'
local support = require 'spec.support'

--- What fn(path) writes, as a path that goes with the test; or nil and its error.
local function written(ending, fn)
  local base = os.tmpname()
  finally(function() os.remove(base .. ending) end)
  local ok, why = pcall(fn, base .. ending)
  return ok and base .. ending or nil, why
end

--- Refused because there is no form for it, or too little known, which is said by name.
local function has_no_form(why)
  if not why.message:find 'the rank of the output %S+ is not known' then assert.equal('unimplemented', why.code, why.message) end
  assert.matches("[`'%(%u]%w+", why.message)
end

local function flat(v) return df.type(v) == 'tensor' and v:list() or v end

--- Do outputs of graph g, found by find(i), give what the originals gave?
local function same_values(g, find, outputs, wanted, feeds)
  local again, fed = df.Session{ graph = g }, {}
  for p, v in pairs(feeds) do
    local ok, x = pcall(g.output, g, p.name)                   -- one that nothing needs is not written
    if not ok then ok, x = pcall(g.output, g, (p.name:gsub(':0$', ''))) end
    if ok then fed[x] = v end
  end
  for i in ipairs(outputs) do
    support.near(flat(again:run(find(i), fed)), flat(wanted[i]), { rtol = 1e-4, atol = 1e-5, what = outputs[i].name })
  end
  again:close()
end

--- Writes outputs as a GraphDef, reads them and compares what they give; not of what reads variables, whose values are not written.
local function graph_def(outputs, feeds, wanted, options)
  local path, why = written('.pbtxt', function(path)
    df.export_graph_def(path, { outputs = outputs, with_context = options and options.with_context })
  end)
  if not path then return has_no_form(why) end
  local g = df.import_graph_def(path)
  for _, op in ipairs(g:ops()) do if op.type == 'VarHandleOp' or op.type == 'VariableV2' then return g end end
  same_values(g, function(i) return g:output(outputs[i].name) end, outputs, wanted, feeds)
  return g
end

local function onnx(outputs, feeds, wanted)
  local names = {}
  for i, y in ipairs(outputs) do names['y' .. i] = df.identity(y) end
  local path, why = written('.onnx', function(path) df.export_onnx(path, { outputs = names }) end)
  if not path then return has_no_form(why) end
  local g = df.import_onnx(path)
  same_values(g, function(i) return g:output('y' .. i) end, outputs, wanted, feeds)
end

local function both(y, slopes)
  local list = { y }
  for _, s in ipairs(slopes) do list[#list + 1] = s * 1 end     -- dense
  return list
end

describe('what is exported of every op', function()
  for _, kind in ipairs(graphs.types()) do
    it('computes the same when it is read again, its gradients, too: ' .. kind, function()
      local b = graphs.builder 'fed'
      local y, xs = graphs.build(kind, b)
      local outputs = both(y, df.gradients(df.reduce_sum(y), xs, { unconnected = 'zero' }))
      local wanted = df.run(outputs, b.feeds)
      graph_def(outputs, b.feeds, wanted)
      onnx({ outputs[1] }, b.feeds, wanted)
      onnx({ (table.unpack or unpack)(outputs, 2) }, b.feeds, { (table.unpack or unpack)(wanted, 2) })
    end)
  end
end)

describe('what is exported of programs', function()
  for seed = 700, 707 do
    it('computes the same when it is read again, as a GraphDef and as ONNX: random program ' .. seed, function()
      local y, xs = random_program.build(df, random_program.make(seed, 2))
      local outputs, feeds = both(y, df.gradients(y, xs, { unconnected = 'zero' })), {}
      for i, x in ipairs(xs) do feeds[x] = ({ 0.7, -0.4, 0.3 })[i] end
      local wanted = df.run(outputs, feeds)
      graph_def(outputs, feeds, wanted)
      onnx({ outputs[1] }, feeds, wanted)
    end)
  end

  for seed = 710, 717 do
    it('has its loops and conds again when it was read without their contexts, so that it has gradients: random program ' .. seed, function()
      local y, xs = random_program.build(df, random_program.make(seed, 3))
      local feeds = {}
      for i, x in ipairs(xs) do feeds[x] = ({ 0.7, -0.4, 0.3 })[i] end
      local slopes = both(y, df.gradients(y, xs, { unconnected = 'zero' }))
      local wanted = df.run(slopes, feeds)
      local g = graph_def({ y }, feeds, wanted, { with_context = false })
      local fed, at, places = {}, {}, {}
      for i, x in ipairs(xs) do
        local ok, found = pcall(g.output, g, x.name)
        if ok then at[#at + 1], places[#places + 1], fed[found] = found, i, feeds[x] end
      end
      g:as_default(function()
        local again = df.gradients(g:output(y.name), at, { unconnected = 'zero' })
        for k, i in ipairs(places) do support.near(df.run(again[k], fed), wanted[i + 1], { rtol = 1e-4, atol = 1e-5 }) end
      end)
    end)
  end

  -- Lua goes through names in an order that is another in each process.
  it('is the same in every process: states, results and metrics that have names', function()
    local script = os.tmpname()
    shell.write(script, [[
      local df = require 'dflow'
      require('spec.exchange.trained_models').sequences()
      local metrics = {}
      for k, name in ipairs{ 'abs', 'square', 'exp', 'sin', 'cos', 'tanh' } do
        metrics[name] = function(a, b) return df.reduce_mean(df[name](a - b)) * k end
      end
      df.train.fit(df.nn.Dense(1), { df.run(df.ones{ 8, 3 }), df.run(df.ones{ 8, 1 }) }, { batch_size = 4, metrics = metrics, progress = false })
      df.rnn.MultiRNNCell{ df.rnn.LSTMCell(2), df.rnn.LSTMCell(3) }:zero_state(df.dim(df.placeholder('float32', { -1 }), 0))
      df.while_loop(function(_, s) return s.one:lt(3) end, function(i, s)
        return i + 1, { one = s.one + 1, two = s.two * 2, three = s.three - s.one }
      end, { df.int32(0), { one = df.float32(1), two = df.float32(2), three = df.float32(3) } })
      print(df.draw(df.default_graph(), { source = false, lines = 100000 }))
    ]])
    local first
    for _ = 1, 6 do
      local r = shell.run('LUA_PATH="./?.lua;stdlib/?.lua;;" ' .. shell.dflow .. ' ' .. script)
      assert.equal(0, r.status, r.err)
      first = first or r.out
      assert.equal(first, r.out)
    end
    os.remove(script)
  end)
end)
