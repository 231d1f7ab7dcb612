--- What a file or a program is made of takes time in proportion to its size, and reading it ends, whatever it says.
local df = require 'dflow'
local shell = require 'spec.shell'
local flow = require 'spec.exchange.graphdef_text'

--- By how much more processor time fn takes where what it is given is eight times as much. In proportion: 8; the square: 64. Other programs take
-- no part in it, and the least of several readings counts.
local function growth(make, fn, n)
  local function least(size, readings)
    local best = math.huge
    for _ = 1, readings do
      local given = make(size)
      collectgarbage()
      local began = os.clock()
      fn(given)
      best = math.min(best, os.clock() - began)
    end
    return best
  end
  local ratio = math.huge
  for _ = 1, 3 do ratio = math.min(ratio, least(8 * n, 1) / math.max(least(n, 3), 1e-4)) end
  return ratio
end
local SQUARE = 32

describe('time in proportion', function()
  it('is what the import of nested Enters takes', function()
    assert.is_true(growth(function(n)
      local nodes = { flow.node('e0', 'Placeholder', {}, { dtype = 'DT_FLOAT' }) }
      for i = 1, n do nodes[i + 1] = flow.node('e' .. i, 'Enter', { 'e' .. i - 1 }, { T = 'DT_FLOAT', frame_name = 'f' .. i }) end
      return table.concat(nodes, '\n')
    end, df.import_graph_def, 800) < SQUARE)
  end)

  it('is what the export of an op of many inputs takes', function()
    local path = os.tmpname()
    assert.is_true(growth(function(n)
      local g, one = df.Graph(), {}
      g:as_default(function()
        one[1] = df.placeholder('float32', {})
        for i = 2, n do one[i] = one[1] end
        df.add_n(one)
      end)
      return g
    end, function(g) df.export_graph_def(path .. '.pb', { graph = g }) end, 4000) < SQUARE)
    os.remove(path)
    os.remove(path .. '.pb')
  end)

  it('is what a run with many feeds takes', function()
    assert.is_true(growth(function(n)
      df.reset()
      local all, feeds = {}, {}
      for i = 1, n do
        all[i] = df.placeholder('float32', {})
        feeds[all[i]] = 1
      end
      return { df.add_n(all), feeds }
    end, function(given) df.run(given[1], given[2]) end, 2500) < SQUARE)
    df.reset()
  end)

  it('is what a long field of a CSV takes, right or wrong', function()
    local path = os.tmpname()
    for _, middle in ipairs{ '7', ' ' } do
      assert.is_true(growth(function(n) shell.write(path, 'a,b\nx' .. middle:rep(n) .. 'x,1\n') end, function() df.data.csv(path) end, 20000) < SQUARE)
      assert.is_true(growth(function(n) shell.write(path, 'a,b\n7' .. middle:rep(n) .. '7,1\n') end, function()
        local ok, err = pcall(df.data.csv, path)
        if not ok then assert(#err.message < 600) end
      end, 20000) < SQUARE)
    end
    os.remove(path)
  end)

  it('is what an error with a long message takes', function()
    local errors = require 'dflow.front.errors'
    assert.is_true(growth(function(n) return ('7'):rep(n) end, function(text) tostring(select(2, pcall(errors.bad, '%s', text))) end, 20000) < SQUARE)
  end)
end)

describe('an import', function()
  --- A loop with a cond in it, as nodes by name.
  local function loop()
    local T, I = { T = 'DT_FLOAT' }, { T = 'DT_INT32' }
    local frame = { T = 'DT_FLOAT', frame_name = 'w', is_constant = false }
    local counter = { T = 'DT_INT32', frame_name = 'w', is_constant = false }
    return {
      { 'x', 'Placeholder', {}, { dtype = 'DT_FLOAT' } }, { 'p', 'Placeholder', {}, { dtype = 'DT_INT32' } },
      { 'enter', 'Enter', { 'p' }, counter }, { 'enter1', 'Enter', { 'x' }, frame },
      { 'merge', 'Merge', { 'enter', 'next' }, I }, { 'merge1', 'Merge', { 'enter1', 'next1' }, T },
      { 'less', 'Less', { 'merge', 'merge' }, I }, { 'go', 'LoopCond', { 'less' }, {} },
      { 'switch', 'Switch', { 'merge', 'go' }, I }, { 'switch1', 'Switch', { 'merge1', 'go' }, T },
      { 'i', 'Identity', { 'switch:1' }, I }, { 'y', 'Identity', { 'switch1:1' }, T },
      { 'k', 'Enter', { 'x' }, { T = 'DT_FLOAT', frame_name = 'w', is_constant = true } },
      { 'even', 'Equal', { 'i', 'i' }, I }, { 'pred', 'Identity', { 'even' }, { T = 'DT_BOOL' } },
      { 'a', 'Switch', { 'y', 'pred' }, T }, { 'b', 'Switch', { 'k', 'pred' }, T },
      { 'mul', 'Mul', { 'a:1', 'b:1' }, T }, { 'sin', 'Sin', { 'b' }, T }, { 'add', 'AddV2', { 'a', 'sin' }, T },
      { 'join', 'Merge', { 'add', 'mul' }, T },
      { 'next', 'NextIteration', { 'i' }, I }, { 'next1', 'NextIteration', { 'join' }, T },
      { 'exit', 'Exit', { 'switch1' }, T }, { 'after', 'Switch', { 'exit', 'pred' }, T },
    }
  end

  it('ends where any node of a loop and of a cond in it becomes an Enter, an Exit or a Merge of any frame', function()
    for place in ipairs(loop()) do
      for _, op in ipairs{ 'Enter', 'Exit', 'NextIteration', 'Switch', 'Merge', 'LoopCond' } do
        for _, name in ipairs(op == 'Enter' and { 'w', 'v' } or { 'w' }) do
          local nodes, text = loop(), {}
          local n = nodes[place]
          n[2], n[4] = op, { T = n[4].T or n[4].dtype or 'DT_FLOAT', frame_name = op == 'Enter' and name or nil }
          if op == 'Switch' then n[3] = { n[3][1] or 'x', 'pred' } else n[3][2] = op == 'Merge' and 'next1' or nil end
          for i, each in ipairs(nodes) do text[i] = flow.node((table.unpack or unpack)(each)) end
          local ok, err = pcall(df.import_graph_def, table.concat(text, '\n'))
          if not ok then assert.equal('invalid_argument', err.code) end
        end
      end
    end
  end)

  it('of a loop that is entered from inside keeps the nodes as they are', function()
    local nodes, text = loop(), {}
    nodes[12][2], nodes[12][4] = 'Enter', { T = 'DT_FLOAT', frame_name = 'w' }
    for i, each in ipairs(nodes) do text[i] = flow.node((table.unpack or unpack)(each)) end
    local g = df.import_graph_def(table.concat(text, '\n'))
    assert.equal('Enter', g:op('y').type)
    local ok, err = pcall(df.gradients, g:output 'exit:0', g:output 'x:0')
    assert.is_false(ok)
    assert.is_string(err.code)
  end)
end)
