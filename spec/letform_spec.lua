-- Graphs as text: what was written, with its types, and where.
local df = require 'dflow'
local letform = require 'dflow.letform'

--- Without the Lua lines.
local function drawn(x) return letform.letform(x, { source = false }) end

describe('the let-form of a graph', function()
  before_each(df.reset)

  it('has a typed line for each node, after those it needs', function()
    local x = df.placeholder('float32', { -1, 3 }, 'x')
    local w = df.placeholder('float32', { 3, 2 }, 'w')
    assert.are.equal([[
let
  x: float32[?,3] = Placeholder(dtype=float32 shape=[?,3])
  w: float32[3,2] = Placeholder(dtype=float32 shape=[3,2])
  MatMul: float32[?,2] = MatMul(x, w)
  Tanh: float32[?,2] = Tanh(MatMul)
in Tanh]], drawn(x:matmul(w):tanh()))
  end)

  it('has the attributes that are no defaults, and small constants in their places', function()
    local x = df.placeholder('float32', { 2, 2 }, 'x')
    assert.are.equal([[
let
  x: float32[2,2] = Placeholder(dtype=float32 shape=[2,2])
  Mul: float32[2,2] = Mul(x, 2.)
  MatMul: float32[2,2] = MatMul(x, Mul; transpose_b=true)
in MatMul]], drawn(x:matmul(x * 2, { transpose_b = true })))
    assert.are.equal('3.', drawn(df.float32(3)))
  end)

  it('nests a loop', function()
    local x = df.placeholder('float32', {}, 'x')
    local _, y = df.while_loop(function(i) return i:lt(10) end, function(i, v) return i + 1, v * x end, { df.int32(0), x })
    assert.are.equal([[
let
  x: float32[] = Placeholder(dtype=float32 shape=[])
  while/Exit: int32[], while/Exit_1: float32[] = while{
    while.1 = 0
    while.2 = x
    while while/Less: bool[] = Less(while.1, 10)
    do    while/Add: int32[] = Add(while.1, 1)
          while/Mul: float32[] = Mul(while.2, x)
    next  while/Add, while/Mul
  }
in while/Exit_1]], drawn(y))
  end)

  it('nests a cond, outer values by their own names', function()
    local x = df.placeholder('float32', {}, 'x')
    local y = df.cond(x:gt(0), function() return x * x end, function() return -x end)
    assert.are.equal([[
let
  x: float32[] = Placeholder(dtype=float32 shape=[])
  Greater: bool[] = Greater(x, 0.)
  cond/Merge: float32[] = cond{ Greater
    then  cond/Mul: float32[] = Mul(x, x)
          give cond/Mul
    else  cond/Neg: float32[] = Neg(x)
          give cond/Neg
  }
in cond/Merge]], drawn(y))
  end)

  it('nests one in the other, and shows gradients', function()
    local x = df.placeholder('float32', {}, 'x')
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, v)
      return i + 1, df.cond(v:gt(1), function() return v * x end, function() return v + x end)
    end, { df.int32(0), x })
    local text = drawn(y)
    assert.is_truthy(text:find('= cond{ while/Greater\n            then  while/cond/Mul: float32[] = Mul(while.2, x)', 1, true), text)
    local gradient = drawn(df.gradients(y, x))
    assert.are.equal(2, select(2, gradient:gsub('= while{', '')))
    assert.is_nil(gradient:find('?', 1, true), gradient)
  end)

  it('names the Lua lines, once each', function()
    local text = letform.letform(df.float32{ 1, 2, 3, 4, 5 } * 2 + 1)
    assert.are.equal(1, select(2, text:gsub('letform_spec%.lua:%d+', '')))
  end)

  it('is cut where it is long', function()
    local x = df.placeholder('float32', {}, 'x')
    for _ = 1, 50 do x = x + 1 end
    local text = letform.letform(x, { lines = 10 })
    assert.is_truthy(text:find('41 more lines', 1, true), text)
  end)

  it('may be asked of tables, variables and operations', function()
    local v = df.Variable(1.0, { name = 'v' })
    assert.is_truthy(drawn{ v, v:assign_add(1) }:find('AssignAddVariableOp', 1, true))
    assert.has_error(function() drawn(3) end)
    assert.has_error(function() drawn{} end)
  end)
end)

describe('the tree of a graph', function()
  it('has each node below the one that uses it, and opens none twice', function()
    df.reset()
    local x = df.placeholder('float32', {}, 'x')
    local y = x:exp()
    assert.are.equal([[
Add: float32[] = Add
|-Mul: float32[] = Mul
| |-Exp: float32[] = Exp
| | `-x: float32[] = Placeholder
| `-Exp: float32[] = Exp …
`-1.]], letform.tree(y * y + 1))
  end)
end)

describe('the graph for Graphviz', function()
  it('has a node for each op, a box for each branch and body, and an edge for each value', function()
    df.reset()
    local x = df.placeholder('float32', {}, 'x')
    local dot = letform.dot(df.cond(x:gt(0), function() return x * x end, function() return -x end))
    assert.is_truthy(dot:find('^digraph dflow {\n') and dot:find('\n}$'))
    assert.are.equal(2, select(2, dot:gsub('subgraph cluster_', '')))
    assert.is_truthy(dot:find('cond/Mul\\nMul', 1, true), dot)
    assert.is_truthy(dot:find('n%d+ %-> n%d+ %[label = "float32%[%]"%]'), dot)
    assert.are.equal(select(2, dot:gsub('{', '')), select(2, dot:gsub('}', '')))
  end)
end)
