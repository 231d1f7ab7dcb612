-- df.draw and :graph: graphs as let-form, tree, DOT and SVG, at the stages that they go through.
-- run: first
local df = require 'dflow'
local support = require 'spec.support'
local host_it = support.host_it(it, pending)
local core = require 'dflow.backend'
local draw = require 'dflow.draw'
local programs = require 'spec.random_program'

local function drawn(x, opts)
  opts = opts or {}
  opts.source = false
  return df.draw(x, opts)
end

local function count(text, piece)
  local n, at = 0, 1
  while true do
    local from, to = text:find(piece, at, true)
    if not from then return n end
    n, at = n + 1, to + 1
  end
end

local function loop(trips)
  local x = df.placeholder('float32', {}, 'x')
  local _, y = df.while_loop(function(i) return i:lt(trips or 10) end, function(i, v) return i + 1, v * x end, { df.int32(0), x })
  return y, x
end

local function choice()
  local x = df.placeholder('float32', {}, 'x')
  return df.cond(x:gt(0), function() return x * x end, function() return -x end), x
end

-- ---- is it well formed? ---------------------------------------------------------------------------------------------
--- The elements of an XML text, in order: {name, attributes, text, depth}; an error where it is not well formed.
local function elements(text)
  local list, open, at = {}, {}, 1
  while true do
    local from, to, close, name, attributes, alone = text:find('<(/?)([%w:]+)([^<>]-)(/?)>', at)
    local between = text:sub(at, (from or 0) - 1)
    assert(not between:gsub('&%a+;', ''):find '[<&]', 'a stray character: ' .. between)
    if #open > 0 then open[#open].text = open[#open].text .. between else assert(not between:find '%S', 'text outside: ' .. between) end
    if not from then break end
    if close == '/' then assert(table.remove(open).name == name, 'the end of ' .. name .. ' is in a wrong place')
    else
      local e = { name = name, text = '', depth = #open, attributes = {} }
      local rest = attributes:gsub('%s+([%w:-]+)="([^"<]*)"', function(key, value)
        assert(e.attributes[key] == nil, key .. ' twice')
        e.attributes[key] = value
        return ''
      end)
      assert(not rest:find '%S', 'not an attribute: ' .. rest)
      e.within = open[#open]
      list[#list + 1] = e
      if alone == '' then open[#open + 1] = e end
    end
    at = to + 1
  end
  assert(#open == 0, 'not closed')
  return list
end

local entities = { ['&lt;'] = '<', ['&gt;'] = '>', ['&amp;'] = '&', ['&quot;'] = '"' }

--- The first lines of what a picture says of each node: its tooltips.
local function tooltips(list)
  local lines = {}
  for _, e in ipairs(list) do
    if e.name == 'title' and (e.within.attributes.class or ''):find '^node' then
      for line in e.text:gmatch '[^\n]+' do lines[#lines + 1] = (line:gsub('&%a+;', entities)) end
    end
  end
  return lines
end

--- Statements, clusters and strings of a DOT text; an error where it is not well formed.
local function check_dot(text)
  local plain = text:gsub('\\.', ''):gsub('"[^"]*"', '""')
  local depth = 0
  for line in plain:gmatch '[^\n]+' do
    local ends = line:find '^digraph %w+ {$' or line:find '^%s+subgraph cluster_%d+ {$' or line:find '^%s*}$' or line:find ';$'
    assert(ends, 'no statement: ' .. line)
    if line:find '{$' then depth = depth + 1 elseif line:find '^%s*}$' then depth = depth - 1 end
    assert(depth >= 0, 'a } too many')
  end
  assert(depth == 0, 'a } is missing')
  local known = {}
  for id in plain:gmatch '\n%s+([nt]%d+) %[label' do known[id] = true end
  for from, to in plain:gmatch '\n%s+([nt]%d+) %-> ([nt]%d+)' do assert(known[from] and known[to], from .. ' -> ' .. to .. ': of no node') end
end

local function succeeded(status) return status == true or status == 0 end
local has_dot = succeeded(os.execute 'command -v dot >/dev/null 2>&1')

local function check_with_graphviz(text)
  if not has_dot then return end
  local path = os.tmpname()
  require('spec.shell').write(path, text)
  assert.is_true(succeeded(os.execute('dot -Tplain ' .. path .. ' >/dev/null 2>&1')), text)
  os.remove(path)
end

--- Boxes hold what is in them, and what stands side by side does not overlap.
local function check_boxes(box)
  for i, a in ipairs(box.items) do
    local inside = a.x >= box.x and a.y >= box.y and a.x + a.w <= box.x + box.w + 0.5 and a.y + a.h <= box.y + box.h + 0.5
    assert(inside, ('%s is not inside of %s'):format(a.name or a.title or a.op, box.title))
    for k = i + 1, #box.items do
      local b = box.items[k]
      local apart = a.x + a.w <= b.x or b.x + b.w <= a.x or a.y + a.h <= b.y or b.y + b.h <= a.y
      assert(apart, ('%s and %s overlap'):format(a.name or a.title or a.op, b.name or b.title or b.op))
    end
    if a.items then check_boxes(a) end
  end
end

--- Points of a path of M, L, C and Q.
local function points_of(d)
  local points, x, y = {}, 0, 0
  for command, numbers in d:gmatch '([MLCQ])([^MLCQ]*)' do
    local n = {}
    for v in numbers:gmatch '%-?[%d.e-]+' do n[#n + 1] = tonumber(v) end
    local x0, y0, last = x, y, #n
    for k = 1, command == 'M' and 1 or 5 do
      local t = k / 5
      local u = 1 - t
      if command == 'C' then
        x = u ^ 3 * x0 + 3 * u * u * t * n[1] + 3 * u * t * t * n[3] + t ^ 3 * n[5]
        y = u ^ 3 * y0 + 3 * u * u * t * n[2] + 3 * u * t * t * n[4] + t ^ 3 * n[6]
      elseif command == 'Q' then
        x, y = u * u * x0 + 2 * u * t * n[1] + t * t * n[3], u * u * y0 + 2 * u * t * n[2] + t * t * n[4]
      elseif command == 'L' then x, y = x0 + (n[1] - x0) * t, y0 + (n[2] - y0) * t
      end
      if command ~= 'M' then points[#points + 1] = { x, y } end
    end
    x, y = n[last - 1], n[last]
  end
  return points
end

--- No edge runs across a node.
local function check_edges(list)
  local nodes = {}
  for _, e in ipairs(list) do
    if e.name == 'rect' and e.within.attributes.class:find '^node' then
      local a = e.attributes
      nodes[#nodes + 1] = { x = tonumber(a.x), y = tonumber(a.y), right = a.x + a.width, bottom = a.y + a.height, name = e }
    end
  end
  for _, e in ipairs(list) do
    if e.name == 'path' and (e.attributes.class or ''):find '^edge' and e.within.name == 'g' then
      for _, p in ipairs(points_of(e.attributes.d)) do
        for _, n in ipairs(nodes) do
          local across = p[1] > n.x + 1 and p[1] < n.right - 1 and p[2] > n.y + 1 and p[2] < n.bottom - 1
          if across then error(('the edge %s runs across the node at %d, %d'):format(e.attributes.d, n.x, n.y)) end
        end
      end
    end
  end
end

-- ---- the forms --------------------------------------------------------------------------------------------------------
describe('the let-form of a graph', function()
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
    assert.are.equal([[
let
  x: float32[] = Placeholder(dtype=float32 shape=[])
  while/Exit: int32[], while/Exit_1: float32[] = while{
    while.i = 0
    while.v = x
    while while/Less: bool[] = Less(while.i, 10)
    do    while/Add: int32[] = Add(while.i, 1)
          while/Mul: float32[] = Mul(while.v, x)
    next  while/Add, while/Mul
  }
in while/Exit_1]], drawn((loop())))
  end)

  it('names loop variables as the table that they came in does', function()
    local r = df.while_loop(function(v) return v.n:lt(3) end, function(v) return { n = v.n + 1, sum = v.sum * 2 } end,
      { n = df.int32(0), sum = df.float32(1) }, { parallel_iterations = 1 })
    local text = drawn(r.sum)
    assert.is_truthy(text:find('= while{  -- parallel_iterations = 1\n    while.n = 0\n    while.sum = 1.\n', 1, true), text)
  end)

  it('names loop variables as the parameters of the body, but for names that two of them have', function()
    local i, x = df.while_loop(function(i) return i:lt(3) end, function(i, _, _) return i + 1, i * 2, i * 3 end,
      { df.int32(0), df.int32(0), df.int32(0) })
    assert.matches('while%.i = 0\n    while%.2 = 0\n', drawn{ i, x })
  end)

  it('nests a cond, outer values by their own names', function()
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
in cond/Merge]], drawn((choice())))
  end)

  it('nests one in the other, and shows gradients', function()
    local x = df.placeholder('float32', {}, 'x')
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, v)
      return i + 1, df.cond(v:gt(1), function() return v * x end, function() return v + x end)
    end, { df.int32(0), x })
    local text = drawn(y)
    assert.is_truthy(text:find('= cond{ while/Greater\n            then  while/cond/Mul: float32[] = Mul(while.v, x)', 1, true), text)
    local gradient = drawn(df.gradients(y, x))
    assert.are.equal(2, select(2, gradient:gsub('= while{', '')))
    assert.is_nil(gradient:find('?', 1, true), gradient)
  end)

  it('shows the constants that a cond chooses from', function()
    local p, x = df.placeholder('bool', {}, 'p'), df.placeholder('float32', {}, 'x')
    local function two() return x * 2 end
    local function three() return df.float32(3) end
    for said, y in pairs{ ['· else 3.'] = df.cond(p, two, three), ['3. else ·'] = df.cond(p, three, two),
                          ['5. else 3.'] = df.cond(p, function() return df.float32(5) end, three) } do
      assert.matches('>' .. said .. '<', df.draw(y, { as = 'svg' }), 1, true)
    end
    assert.is_nil(df.draw(df.cond(p, two, function() return x end), { as = 'svg' }):find(' else ', 1, true))
  end)

  it('shows what has an effect and no result, and what waits for it', function()
    local v = df.Variable(1.0, { name = 'v' })
    local i = df.while_loop(function(i) return i:lt(3) end, function(i)
      v:assign_add(1)
      return i + 1
    end, { df.int32(0) })
    local text = drawn(i)
    assert.is_truthy(text:find('while/AssignAddVariableOp: float32[] = AssignAddVariableOp(v, 1.', 1, true), text)
    local late = df.control_dependencies({ i }, function() return v:value() end)
    assert.is_truthy(drawn(late):find('ReadVariableOp(v, ^', 1, true), drawn(late))
  end)

  it('names the Lua lines, once each', function()
    local text = df.draw(df.float32{ 1, 2, 3, 4, 5 } * 2 + 1)
    assert.are.equal(1, select(2, text:gsub('draw_spec%.lua:%d+', '')))
  end)

  it('is cut where it is long', function()
    local x = df.placeholder('float32', {}, 'x')
    for _ = 1, 50 do x = x + 1 end
    local text = df.draw(x, { lines = 10 })
    assert.is_truthy(text:find('41 more lines', 1, true), text)
  end)

  it('may be asked of tables, variables, operations and whole graphs', function()
    local v = df.Variable(1.0, { name = 'v' })
    assert.is_truthy(drawn{ v, v:assign_add(1) }:find('AssignAddVariableOp', 1, true))
    assert.is_truthy(drawn(df.default_graph()):find('v: resource', 1, true))
    assert.has_error(function() drawn(3) end)
    assert.has_error(function() drawn{} end)
  end)

  it('shows the primitives and where a run reads in place, at lowered', function()
    local text = drawn((loop()), { at = 'lowered' })
    for _, line in ipairs{ '  frame while{\n', '    while/Enter_1: float32[] = Enter(x)\n', 'while/Merge: int32[], int32[] = Merge(while/Enter, while/NextIteration)  -- merged',
                           'while/Const: int32[] = Const(10, ^while/Merge)  -- read in place\n', 'while/Exit_1: float32[] = Exit(while/Switch_1:0)\n',
                           'while/Enter_2: float32[] = Enter(x; is_constant=true)', '-- a run of it: ', ' with tokens (engine: tokens)\n' } do
      assert.is_truthy(text:find(line, 1, true), line .. '\nis not in\n' .. text)
    end
  end)

  it('counts what a run needs and what it does not, at lowered', function()
    local y = loop()
    df.exp(y)
    local text = drawn(y, { at = 'lowered' })
    local size = df.default_graph():size()
    assert.is_truthy(text:find(('a run of it: %d of %d nodes of the graph needed'):format(#core.graph_needs(df.default_graph().handle, { y.node, 0 }), size), 1, true), text)
  end)

  it('says why there can be no run, at lowered', function()
    local kept
    df.while_loop(function(i) return i:lt(3) end, function(i)
      kept = i * 2
      return i + 1
    end, { df.int32(0) })
    assert.is_truthy(drawn(kept, { at = 'lowered' }):find('no run: .*is inside the loop'), drawn(kept, { at = 'lowered' }))
  end)

  it('puts the gradient below what it is the gradient of, and says which loop is whose', function()
    local y = loop()
    local text = drawn(y, { at = 'gradient' })
    assert.is_truthy(text:find('\n  forward{\n', 1, true) and text:find('\n  gradient{\n', 1, true), text)
    assert.is_truthy(text:find('while{  -- gradient of while\n', 1, true), text)
    assert.is_truthy(text:find('TensorArrayRead(gradients/while/Exit', 1, true), text)
  end)

  it('puts what is made of a gradient below that', function()
    local w = df.Variable(2.0, { name = 'w' })
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, v) return i + 1, v * w end, { df.int32(0), df.float32(1) })
    local step = df.train.SGD{ learning_rate = 0.1 }:minimize(y)
    local text = drawn(step, { at = 'gradient' })
    assert.matches('\n  forward{\n.*\n  gradient{\n.*\n  made of the gradient{\n.*ResourceApplyGradientDescent', text)
    local penalty = df.exp(df.gradients(y, w))
    text = drawn(df.gradients(penalty, w), { at = 'gradient' })
    assert.matches('\n  forward{\n.*\n  gradient 1{\n.*\n  made of gradient 1{\n.*\n  gradient 2{\n', text)
  end)

  it('says of loops and conds what is saved of them, as df.saved does', function()
    local y = loop()
    local text = drawn(y, { at = 'gradient' })
    assert.is_truthy(text:find('= while{  -- saves 4 bytes a trip\n', 1, true), text)
    local svg = df.draw(y, { at = 'gradient', as = 'svg' })
    assert.matches("<title>while_loop while, [^<]*draw_spec.lua:%d+, save = 'keep': 4 bytes a trip\n  saved +loop variable 2 ", svg)
    assert.is_truthy(drawn(choice():sin(), { at = 'gradient' }):find('cond{ Greater', 1, true))
  end)

  it('leaves the graph as it was when it draws a gradient', function()
    local y, x = loop()
    local before = df.default_graph():size()
    drawn(y, { at = 'gradient' })
    assert.are.equal(before, df.default_graph():size())
    assert.are.equal(11 * 2 ^ 10, df.run(df.gradients(y, x), { [x] = 2 }))
  end)

  it('draws a gradient that is there already with what it is the gradient of', function()
    local y, x = loop()
    local text = drawn(df.gradients(y, x), { at = 'gradient' })
    assert.is_truthy(text:find('forward{', 1, true) and text:find('gradient of while', 1, true), text)
    local second = drawn(df.gradients(df.gradients(y, x), x), { at = 'gradient' })
    assert.is_truthy(second:find('gradient 1{', 1, true) and second:find('gradient 2{', 1, true), second)
  end)

  it('says so where there is no gradient to draw', function()
    local why = support.error_of(drawn, df.int32(3) + 1, { at = 'gradient' })
    assert.matches('only a float Output has a gradient', tostring(why))
    why = support.error_of(drawn, df.float32(3) + 1, { at = 'gradient' })
    assert.matches('depends on no float Variable or placeholder', tostring(why))
  end)

  host_it('has one partition where there is one device', function()
    local text = drawn((loop()), { at = 'partitioned' })
    assert.is_truthy(text:find('one partition: nothing is sent', 1, true) and text:find('\n  device cpu:0{\n', 1, true), text)
  end)

  it('says which device was asked for where there is none such', function()
    local g = df.import_graph_def [[
      node { name: "x" op: "Placeholder" device: "/device:GPU:0" attr { key: "dtype" value { type: DT_FLOAT } } }
      node { name: "y" op: "Neg" input: "x" device: "/job:ps/task:0/cpu:0" attr { key: "T" value { type: DT_FLOAT } } }]]
    local text = drawn(g:output 'y', { at = 'partitioned' })
    assert.is_truthy(text:find('x: float32[...] = Placeholder(dtype=float32)  -- asked for /device:GPU:0\n', 1, true), text)
    assert.is_truthy(text:find('y: float32[...] = Neg(x)', 1, true), text)
  end)

  it('has a partition for each of several devices, and says what is sent', function()
    local g = df.import_graph_def [[
      node { name: "x" op: "Placeholder" device: "/device:CPU:0" attr { key: "dtype" value { type: DT_FLOAT } } }
      node { name: "y" op: "Neg" input: "x" device: "/device:CPU:1" attr { key: "T" value { type: DT_FLOAT } } }]]
    local model = require 'dflow.draw.model'
    local x, y = g:output('x').node, g:output('y').node
    local function made() return model.make(g.handle, { { y, 0 } }, 'partitioned', { [x] = 'cpu:0', [y] = 'cpu:1' }) end
    local text = require('dflow.draw.text').let(made(), { source = false })
    assert.is_truthy(text:find('2 partitions', 1, true), text)
    assert.is_truthy(text:find('y: float32[...] = Neg(Recv(cpu:0, x))', 1, true), text)
    assert.is_truthy(require('dflow.draw.dot').write(made()):find('label = "Send, Recv"', 1, true))
    assert.is_truthy(require('dflow.draw.svg').write(made(), {}):find('sent to another device', 1, true))
  end)
end)

describe('the picture of a graph on several devices', function()
  --- A loop over two devices.
  local function cut_loop()
    local x = df.placeholder('float32', { 2, 2 }, 'x')
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, y)
      local a = df.device('sim:0', function() return y:matmul(x, { name = 'a' }) end)
      return i + 1, df.device('sim:1', function() return a:matmul(x, { name = 'b' }) end)
    end, { df.int32(0), x })
    return y
  end

  host_it('has a partition for each device that a run has, and says what goes between them', function()
    local text = drawn(cut_loop(), { at = 'partitioned', source = false })
    assert.is_truthy(text:find('3 partitions', 1, true), text)
    assert.is_truthy(text:find('while/b: float32[2,2] = MatMul(Recv(sim:0, while/a)', 1, true), text)
    assert.is_truthy(text:find('while/Switch_1: float32[2,2], float32[2,2] = Switch(while/Merge_1, Recv(cpu:0, while/LoopCond))', 1, true), text)
  end)

  it('gives each device a colour, before it is cut too', function()
    local y = cut_loop()
    for _, at in ipairs{ 'built', 'lowered', 'partitioned' } do
      local svg = df.draw(y, { as = 'svg', at = at })
      assert.is_truthy(svg:find('class="node op da"', 1, true) and svg:find('class="node op db"', 1, true), at)
      local dot = df.draw(y, { as = 'dot', at = at })
      assert.is_truthy(dot:find('color = "#0072b2"', 1, true) and dot:find('color = "#d55e00"', 1, true), at)
      check_dot(dot)
    end
    assert.is_truthy(df.draw(y, { as = 'svg', at = 'partitioned' }):find('class="box device da"', 1, true))
    assert.is_falsy(df.draw(df.placeholder('float32', {}) * 2, { as = 'svg' }):find('class="node op d', 1, true))
  end)

  it('shows what was asked for where a run cannot have it', function()
    local y = df.device('gpu:7', function() return df.placeholder_with_default(1.0):sin() end)
    assert.is_truthy(drawn(y, { at = 'partitioned' }):find('asked for gpu:7', 1, true))
  end)
end)

describe('the tree of a graph', function()
  it('has boxes within boxes and a line for each node', function()
    assert.are.equal([[
cond/Merge
|-x: float32[] = Placeholder
|-Greater: bool[] = Greater
`-cond  -- if Greater
  |-then
  | `-cond/Mul: float32[] = Mul
  |-else
  | `-cond/Neg: float32[] = Neg
  `-cond/Merge: float32[] = cond/Mul else cond/Neg]], drawn(choice(), { as = 'tree' }))
  end)

  it('shows loop variables with what they begin with and become', function()
    local text = drawn(loop(), { as = 'tree' })
    assert.is_truthy(text:find('`-while\n  |-while.i: int32[] = 0, next while/Add\n  |-while.v: float32[] = x, next while/Mul\n  |-while\n  | `-while/Less', 1, true), text)
  end)

  it('has the Lua line of each', function()
    local y = choice()
    local line = y.source
    assert.are.equal('cond  -- if Greater; ' .. line, df.draw(y, { as = 'tree' }):match '`%-(cond[^\n]*)')
  end)
end)

describe('the graph for Graphviz', function()
  it('has a node for each op, a cluster for each cond and branch, and an edge for each value', function()
    local dot = drawn(choice(), { as = 'dot' })
    assert.is_truthy(dot:find('^digraph dflow {\n') and dot:find('\n}$'))
    assert.are.equal(3, count(dot, 'subgraph cluster_'))
    assert.is_truthy(dot:find('cond/Mul\\nMul', 1, true), dot)
    assert.is_truthy(dot:find('n%d+ %-> n%d+ %[label = "float32%[%]"%]'), dot)
    check_dot(dot)
    check_with_graphviz(dot)
  end)

  it('marks the way back of a loop, and what is only waited for', function()
    local dot = drawn(loop(), { as = 'dot', at = 'lowered' })
    assert.are.equal(2, count(dot, 'constraint = false'))
    assert.is_truthy(dot:find('style = dashed', 1, true) and dot:find('taillabel = "T"', 1, true), dot)
    check_with_graphviz(dot)
  end)

  it('survives any name', function()
    local x = df.placeholder('float32', {}, 'x')
    local y = df.name_scope('a', function() return x * 2 end)
    check_with_graphviz(drawn({ y, df.constant({ 'q"\\', 'n\n' }, 'string') }, { as = 'dot' }))
  end)
end)

describe('the picture of a graph', function()
  it('is an SVG without scripts or references that is light or dark as the system is', function()
    local svg = drawn((loop()), { as = 'svg' })
    local list = elements(svg)
    assert.are.equal('svg', list[1].name)
    assert.is_truthy(svg:find('prefers-color-scheme: dark', 1, true))
    assert.is_nil(svg:find('var(--', 1, true))          -- readers that know no CSS variables would paint it black
    assert.is_nil(svg:gsub('@media', ''):find('@%l'))
    for _, e in ipairs(list) do
      assert.is_false(e.name == 'script' or e.name == 'a' or e.name == 'image' or e.name == 'use')
      for key, value in pairs(e.attributes) do
        assert.is_nil(key:find 'href')
        assert.is_nil(key:find '^on')
        assert.is_true(not value:find '//' or key == 'xmlns', value)
      end
    end
    assert.is_nil(svg:find('@import', 1, true))
  end)

  it('has the Lua lines as tooltips, and beside names where there is room', function()
    local y = loop()
    local svg = df.draw(y, { as = 'svg' })
    assert.matches('<title>while/Mul: float32%[%] = Mul  [^<]*draw_spec%.lua:%d+</title>', svg)
    assert.matches('class="soft" dx="10">draw_spec%.lua:%d+</tspan>', svg)
    svg = df.draw(df.placeholder('float32', {}, 'a_rather_long_name_of_a_thing') * 2, { as = 'svg' })
    assert.matches('class="soft">draw_spec%.lua:%d+</text>', svg)
  end)

  it('draws the way back of each variable, and what is saved for a gradient', function()
    local svg = drawn((loop()), { as = 'svg' })
    assert.are.equal(2 + 1, count(svg, 'marker-end="url(#tip-back)"'))      -- and one in the legend
    svg = drawn((loop()), { as = 'svg', at = 'gradient' })
    assert.is_truthy(svg:find('class="edge saved"', 1, true) and svg:find('saved for the gradient', 1, true))
  end)

  it('keeps text within its box, also long and wide letters', function()
    local x = df.placeholder('float32', {}, ('long_name_'):rep(12))
    local t = df.constant({ '日本語日本語日本語日本語日本語', 'é' }, 'string')
    for _, at in ipairs{ 'built', 'lowered' } do
      local around
      for _, e in ipairs(elements(df.draw({ x * 2, t, (loop()) }, { as = 'svg', at = at }))) do
        if e.name == 'g' then around = nil end
        if e.name == 'rect' and e.within.attributes.class:find '^node' then around = e end
        if e.name == 'text' and around and e.within == around.within then
          local wide = 0
          for c in e.text:gsub('&%a+;', '.'):gmatch '[%z\1-\127\194-\244][\128-\191]*' do wide = wide + (#c == 3 and c ~= '…' and 2 or 1) end
          wide = wide * (e.attributes.class == 'soft' and 6.1 or 7.3)
          local from = tonumber(e.attributes.x) - (e.attributes['text-anchor'] == 'end' and wide or 0)
          local left = tonumber(around.attributes.x)
          assert.is_true(from >= left and from + wide <= left + tonumber(around.attributes.width), e.text)
        end
      end
    end
  end)

  it('draws a large graph at once: straight chains as one node, constants within their readers', function()
    local x = df.placeholder('float32', {}, 'x')
    local y, z = x, x
    for _ = 1, 500 do y = y:sin() end
    for i = 1, 250 do z = (z + x) * (i / 10) end
    local svg
    local effort = support.effort(function() svg = drawn({ y, z }, { as = 'svg' }) end)
    assert.is_true(effort > 1000 and effort < 10000, effort)
    assert.is_truthy(svg:find('>500 nodes, float32[]<', 1, true))
    local lines = tooltips(elements(svg))
    assert.are.equal(1001, #lines)
  end)

  it('draws what comes in alike and goes to one place as one node, where there is much of it', function()
    local xs = {}
    for i = 1, 200 do xs[i] = df.placeholder('float32', {}, 'x' .. i) end
    local svg = drawn(df.add_n(xs), { as = 'svg' })
    assert.is_truthy(svg:find('>Placeholder</text>\n<text[^>]*>200 of them, float32%[%]<'), svg)
    assert.are.equal(201, #tooltips(elements(svg)))
    assert.are.equal(1, count(svg, 'class="edge data"'))
    while #xs > 20 do table.remove(xs) end
    assert.are.equal(20, count(drawn(df.add_n(xs), { as = 'svg' }), 'marker-end="url(#tip)"'))
  end)

  it('goes to the file that path names, in the form that its name ends with', function()
    local y = loop()
    for ending, first in pairs{ svg = '<svg', dot = 'digraph', gv = 'digraph', txt = 'let' } do
      local path = os.tmpname()
      assert.is_nil(df.draw(y, { path = path .. '.' .. ending }))
      local file = assert(io.open(path .. '.' .. ending))
      assert.are.equal(first, file:read(#first))
      file:close()
      os.remove(path)
      os.remove(path .. '.' .. ending)
    end
    local why = support.error_of(df.draw, y, { path = '/no/such/folder/x.svg' })
    assert.matches('draw: .*No such file', tostring(why))
  end)
end)

describe('df.draw', function()
  it('says which forms and stages there are', function()
    local x = df.float32(1)
    for opts, message in pairs{ [{ as = 'png' }] = "'tree', 'let', 'dot' or 'svg', not the string \"png\"",
                                [{ at = 'end' }] = "'lowered', 'gradient' or 'partitioned', not the string \"end\"", [{ form = 'svg' }] = 'form' } do
      local why = support.error_of(df.draw, x, opts)
      assert.is_truthy(tostring(why):find(message, 1, true), tostring(why))
    end
  end)

  it('draws imported graphs, those of primitives alone with their frames', function()
    local g = df.import_graph_def 'spec/graphs/loop.pb'
    local ops = g:ops()
    local text = drawn(g, { at = 'lowered' })
    assert.is_truthy(text:find('frame ', 1, true) and text:find('\nin a graph of 42 operations$'), text)
    assert.is_truthy(text:find('a run of it: 42 of 42 nodes', 1, true), text)
    assert.is_truthy(drawn(g):find('while/cond/add: float32[?] = AddV2(while/while_context.2, 1.)', 1, true), drawn(g))
    for _, op in ipairs(ops) do assert.are.equal(1, count(text, ' ' .. op.name .. ': ') + count(text, ' ' .. op.name .. ' = '), op.name) end
    elements(df.draw(g, { as = 'svg' }))
    check_dot(df.draw(g, { as = 'dot' }))
  end)

  it('draws what is being built, beside what was given up', function()
    local x = df.placeholder('float32', {}, 'x')
    pcall(df.while_loop, function(i) return i:lt(3) end, function() error 'no' end, { df.int32(0) })
    pcall(df.while_loop, function() error 'no' end, function() error 'no' end, { df.int32(0) })
    pcall(df.cond, x:gt(0), function() return x end, function() error 'no' end)
    local texts = {}
    local function all(what, stages)
      for _, at in ipairs(stages) do
        for _, as in ipairs(draw.forms) do texts[#texts + 1] = drawn(what, { as = as, at = at }) end
      end
    end
    local _, y = df.while_loop(function(i) return i:lt(3) end, function(i, v)
      local u = v * 2
      all(u, { 'built', 'lowered', 'partitioned' })
      local why = support.error_of(drawn, u, { at = 'gradient' })
      assert.matches('draw inside of a cond or while_loop that is being built', tostring(why))
      return i + 1, u
    end, { df.int32(0), x })
    all({ y }, draw.stages)
    all(df.default_graph(), draw.stages)
    assert.are.equal(12 + 16 + 16, #texts)
    assert.has_error(function() drawn(df.Graph()) end)
  end)

  it('draws a call with the function that it calls', function()
    local g = df.import_graph_def [[
      node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
      node { name: "y" op: "half" input: "x" }
      library { function { signature { name: "half" input_arg { name: "a" type: DT_FLOAT } output_arg { name: "b" type: DT_FLOAT } }
        node_def { name: "n" op: "Neg" input: "a" attr { key: "T" value { type: DT_FLOAT } } } ret { key: "b" value: "n:y:0" } } }
      versions { producer: 1395 }]]
    assert.is_truthy(drawn(g:output 'y', { at = 'lowered' }):find('Neg(', 1, true), drawn(g:output 'y', { at = 'lowered' }))
  end)

  --- Every form at a stage: each node of the picture is there once, and all that was typed is in it.
  local function check(y, at, seed, g)
    g = g or df.default_graph()
    local function message(what, text) return ('%s, seed %d, at %s\n%s'):format(what, seed, at, text or '') end
    local function made() return draw.model(y, at) end
    local m = made()
    local here = {}
    for _, n in ipairs(m.nodes) do
      assert(not here[n.id], message(n.name .. ' is twice in it'))
      here[n.id] = n
    end
    local roles = core.flow_roles(g.handle)
    for _, id in ipairs(core.graph_needs(g.handle, { y.node, 0 })) do
      local typed = roles[3 * id + 1] == 0 and core.node_type(g.handle, id) ~= 'Const'
      if typed or at == 'lowered' or at == 'partitioned' then assert(here[id], message(core.node_name_of(g.handle, id) .. ' is missing')) end
    end
    for _, e in ipairs(at == 'gradient' and m.edges or {}) do
      local from, to = e.from.group or 0, e.to.group or math.huge
      assert(from <= to, message(('%s, of the gradient, leads to %s'):format(e.from.name, e.to.name)))
    end
    local text, dot = require 'dflow.draw.text', require 'dflow.draw.dot'
    for name, form in pairs{ let = text.let(made(), { lines = math.huge }), tree = text.tree(made(), { lines = math.huge }) } do
      local times, plain = {}, form:gsub('[|`]%-', ' ')
      for _, pattern in ipairs{ '(%S+): ', '(%S+) = ' } do
        for word in plain:gmatch(pattern) do times[word] = (times[word] or 0) + 1 end
      end
      for _, n in ipairs(m.nodes) do
        local called = n.variable and at ~= 'lowered' and at ~= 'partitioned' and n.variable or n.name
        if times[called] ~= 1 then error(message(('%s is %d times in the %s'):format(called, times[called] or 0, name), form)) end
      end
    end
    local graphviz = dot.write(made())
    check_dot(graphviz)
    local stated = {}
    for id in graphviz:gmatch '\n%s+n(%d+) %[label' do stated[id] = (stated[id] or 0) + 1 end
    for _, n in ipairs(m.nodes) do assert(stated[tostring(n.id)] == 1, message(n.name, graphviz)) end
    local pictured = made()
    local svg = require('dflow.draw.svg').write(pictured, {})
    local list = elements(svg)
    if seed % 3 == 1 then check_edges(list) end
    local lines, times = tooltips(list), {}
    for _, line in ipairs(lines) do
      local name = line:match '^(%S+): ' or line:match '^(%S+) = '
      if name then times[name] = (times[name] or 0) + 1 end
    end
    for _, n in ipairs(m.nodes) do
      if times[n.name] ~= 1 then error(message(('%s is %d times in the picture'):format(n.name, times[n.name] or 0))) end
    end
    check_boxes(pictured.top)
    return graphviz
  end

  it('has every node of random programs once in every form at every stage, boxes nested and nothing overlapping', function()
    for seed = 1, 8 do
      df.reset()
      local y = programs.build(df, programs.make(seed, 3))
      for _, at in ipairs(draw.stages) do
        local dot = check(y, at, seed)
        if seed == 2 then check_with_graphviz(dot) end
      end
    end
  end)

  it('has every node of gradients of random programs, and of gradients of gradients', function()
    for seed = 31, 33 do
      df.reset()
      local y, xs = programs.build(df, programs.make(seed, 2))
      local dx = {}
      for _, d in ipairs(df.gradients(y, xs, { unconnected = 'zero' })) do dx[#dx + 1] = d end
      local z = dx[1] + dx[2] + dx[3]
      for _, at in ipairs(draw.stages) do check(z, at, seed) end
      local again = df.gradients(z, xs, { unconnected = 'zero' })
      check(again[1] + again[2], 'gradient', seed)
    end
  end)

  host_it('has every node of TensorFlow\'s graphs', function()
    local shell, met = require 'spec.shell', 0
    for path in shell.run('ls spec/graphs/gradients/*.pb spec/graphs/session/*.pb').out:gmatch '[^\n]+' do
      local g = df.import_graph_def(path)
      local y
      for _, op in ipairs(g:ops()) do if #op.outputs > 0 then y = op.outputs[1] end end
      for _, at in ipairs{ 'built', 'lowered' } do check(y, at, 1, g) end
      met = met + 1
    end
    assert.is_true(met > 10, met)
  end)

  it('is cut to so many lines: the first ones, and a word of how much is left out', function()
    for seed = 1, 6 do
      df.reset()
      local y = programs.build(df, programs.make(seed, 3))
      for _, at in ipairs{ 'built', 'lowered' } do
        for form, lines in pairs{ let = 15, tree = 9 } do
          local whole, part = drawn(y, { as = form, at = at, lines = 1e6 }), drawn(y, { as = form, at = at, lines = lines })
          local n = select(2, part:gsub('\n', '')) + 1
          assert.is_true(n <= lines + 6, part)
          if part ~= whole then
            local first = part:match '^(.-)[^\n]*%f[%a]more%f[%A]' or part:match '^([^\n]*\n[^\n]*\n)'
            assert.equal(first, whole:sub(1, #first))
            assert.is_true(n >= lines - 2, part)
          end
        end
      end
    end
  end)
end)

describe('a picture of much', function()
  --- A network of layers with the step that trains it.
  local function network(blocks)
    local ids = df.placeholder('int32', { -1, 8 }, { name = 'ids' })
    local h = df.nn.Embedding(20, 8)(ids)
    for _ = 1, blocks do h = df.nn.TransformerBlock(2, 8)(h) end
    local loss = df.reduce_mean(df.square(df.nn.Dense(1)(h)))
    return { loss, df.train.Adam(0.01):minimize(loss) }
  end

  local function seen(what, view, at)
    local m = draw.model(what, at or 'built', view)
    local items, titles, inside = 0, {}, {}
    local function walk(box)
      for _, item in ipairs(box.items) do
        if item.items then
          titles[#titles + 1] = item.title
          walk(item)
        else
          items = items + 1
          assert(not inside[item])
          inside[item] = true
          if item.closed then titles[#titles + 1] = ('%s*%d'):format(item.title, item.times or 1) end
        end
      end
    end
    walk(m.top)
    for _, e in ipairs(m.edges) do assert(inside[e.from] and inside[e.to] and e.from ~= e.to, e.from.name) end
    return m, items, ' ' .. table.concat(titles, ' ') .. ' '
  end

  it('has some forty items: boxes are closed, those alike are one, and every node is in one of them', function()
    local what = network(5)
    local whole = draw.model(what, 'built')
    local m, items, titles = seen(what, { closes = true })
    assert.is_true(#whole.nodes > 1000 and items <= 45, items)
    assert.matches(' embedding ', titles)
    assert.matches(' transformer_block%*5 ', titles)
    assert.matches(' gradients%*1 ', titles)
    assert.matches(' AdamOptimizer%*1 ', titles)
    local count, reads = 0, 0
    for _, n in ipairs(m.nodes) do count = count + (n.count or 1) * (n.times or 1) end
    for _, n in ipairs(whole.nodes) do if n.op == 'ReadVariableOp' then reads = reads + 1 end end
    assert.is_true(count <= #whole.nodes and count >= #whole.nodes - reads, count .. ' of ' .. #whole.nodes)
    local svg = drawn(what, { as = 'svg' })
    elements(svg)
    assert.matches('transformer_block × 5', svg)
    assert.is_true(#svg < 60000)
  end)

  it('is opened to a depth', function()
    local what = network(1)
    local _, items, titles = seen(what, { depth = 1, closes = true, asked = true })
    assert.matches(' transformer_block%*1 ', titles)
    local _, more, deeper = seen(what, { depth = 2, closes = true, asked = true })
    assert.matches(' transformer_block norm1%*1 ', deeper)
    local _, most = seen(what, { depth = math.huge, closes = true, asked = true })
    assert.is_true(items < more and more < most)
  end)

  it('shows what has a name, or what is near a node', function()
    local what = network(2)
    local m = seen(what, { only = 'norm2', asked = true })
    for _, n in ipairs(m.nodes) do assert(n.neighbour or n.name) end
    local text = df.draw(what, { only = 'norm2', as = 'tree' })
    assert.matches('norm2/gamma', text)
    assert.is_nil(text:find('embedding/table', 1, true))
    local x = df.placeholder('float32', {}, 'x')
    local y = x
    for _ = 1, 9 do y = df.sin(y) end
    local near = df.draw(y, { around = 'Sin_4', within = 1, as = 'tree' })
    for name, is_there in pairs{ Sin_3 = true, Sin_4 = true, Sin_5 = true, Sin_2 = false, Sin_6 = false } do
      assert.equal(is_there, near:find('-' .. name .. ':', 1, true) ~= nil, name)
    end
    for opts, said in pairs{ [{ only = 'nothing' }] = 'is called', [{ around = 'nothing' }] = 'is called', [{ depth = 0 }] = 'from 1 up', [{ within = 2 }] = 'goes with around' } do
      local e = support.error_of(df.draw, y, opts)
      assert.matches(said, e.message)
    end
  end)

  --- Titles of the boxes around each node of a model, `gradients/dense`, by its id.
  local function boxes_of(m)
    local of = {}
    local function walk(box, path)
      for _, item in ipairs(box.items) do
        if item.items then walk(item, path .. item.title .. '/') elseif item.id then of[item.id] = path end
      end
    end
    walk(m.top, '')
    return of
  end

  it('has the gradient of each layer in a box of that name within the gradients, those of loops and conds too', function()
    local x = df.placeholder('float32', { -1, 4, 3 }, 'x')
    local dense, norm = df.nn.Dense(3), df.nn.LayerNorm()
    local h = df.rnn.dynamic_rnn(df.rnn.GRUCell(5), dense(x))
    h = df.cond(df.reduce_sum(h):gt(0), function() return norm(h) end, function() return h end)
    h = df.nn.TransformerBlock(1, 5, { dropout = 0.1 })(h, { training = true })
    local loss = df.reduce_mean(df.square(h))
    local g = loss.graph
    local from = g:size()
    local gradient = df.gradients(loss, { x, dense.kernel, dense.bias, norm.gamma })
    local of, parts = boxes_of(draw.model({ gradient, loss }, 'built', { depth = math.huge, asked = true })), {}
    for id, path in pairs(of) do
      local layers = id >= from and path:match 'gradients/(.*)$'
      for layer in (layers or ''):gmatch '[^/]+' do parts[layer] = (parts[layer] or 0) + 1 end
    end
    for _, layer in ipairs{ 'dense', 'gru_cell', 'layer_norm', 'transformer_block', 'attention', 'dropout' } do
      assert(parts[layer], layer .. ' has no box in the gradients')
    end
    for id, path in pairs(of) do                -- a layer without variables is within the one that calls it
      if path:find('dropout', 1, true) then assert.matches('transformer_block/', path, 1, true) end
      -- and what was not built by gradients is in none of their boxes
      if id < from then assert.is_nil(path:find '^gradients/', path) end
    end
  end)

  it('has some forty items of an imported graph too, however much has no scope, and nodes are with their scopes', function()
    local x = df.placeholder('float32', { -1, 8, 8 }, 'x')
    local h = x
    for k = 1, 6 do
      h = df.name_scope('block_' .. k, function() return (df.nn.TransformerBlock(2, 8)(h)) end)
    end
    local loss = df.name_scope('loss', function() return df.reduce_mean(df.square(h)) end)
    local what = { loss, df.train.Adam(0.01):minimize(loss) }
    local path = os.tmpname()
    df.export_graph_def(path, { outputs = what })
    local g = df.import_graph_def(path)
    os.remove(path)
    local m, items = seen(g, { closes = true })
    assert.is_true(g:size() > 2000 and items <= 45, items)
    local count = 0
    for _, n in ipairs(m.nodes) do count = count + (n.count or 1) * (n.times or 1) end
    assert.is_true(count > g:size() / 2)
    -- as TensorFlow names what a layer's call gives: Conv1D beside Conv1D/Squeeze
    local inner = df.name_scope('Conv1D', function() return df.sin(df.float32(1)) end)
    local both = df.cos(inner, { name = 'Conv1D' })
    local named = both.graph:op(both.op.name)
    local of = boxes_of(draw.model(df.tanh(both, { name = 'y' }), 'built', { depth = math.huge, asked = true }))
    assert.equal(named.name == 'Conv1D' and of[inner.node] or '', of[both.node])
  end)

  it('opens what was asked for, gradients too, and says of neighbours what it says of others', function()
    local what = network(3)
    local m = seen(what, { only = 'gradients', closes = true, asked = true })
    local open = false
    for _, box in ipairs(m.top.items) do open = open or box.items and box.title == 'gradients' end
    assert.is_true(open)
    local svg = drawn(what, { as = 'svg', only = 'AdamOptimizer' })
    assert.is_nil(svg:find('>true<', 1, true))
  end)

  it('forgets what a failed body built of layers', function()
    local g = df.default_graph()
    local layer = df.nn.Dense(3)
    pcall(df.cond, df.constant(true), function() return layer(df.ones{ 1, 2 }) end, function() error 'no' end)
    for _, group in ipairs(g.groups) do assert.is_true(group.last < g:size()) end
    df.nn.Dense(3)(df.ones{ 1, 2 })
    assert.equal(g:size() - 1, g.groups[#g.groups].last)
  end)
end)

describe(':graph', function()
  local shell = require 'spec.shell'
  local function session(...) return shell.run(shell.dflow .. ' -i', table.concat({ ... }, '\n') .. '\n').out end
  local program = "x = df.placeholder('float32', {}, 'x') y = cond(x:gt(0), function() return x * x end, function() return -x end)"

  it('takes a form and a stage, each by any unique beginning, in either order', function()
    local out = session(program, ':graph y as tr', ':graph y at low as l', ':graph tree y', ':grap y', ':graph y as tree at gradient')
    assert.matches('dflow> cond/Merge\n|%-x: float32%[%] = Placeholder  %-%- In%[1%]:1\n', out)
    assert.matches('cond/Merge: float32%[%], int32%[%] = Merge%(cond/Neg, cond/Mul%)', out)
    assert.are.equal(2, select(2, out:gsub('dflow> cond/Merge\n', '')))
    assert.matches('cond/Merge: float32%[%] = cond{ Greater', out)
    assert.matches('`%-gradient\n', out)
  end)

  it('goes to a file in the form that its name ends with, and through a filter', function()
    local path = os.tmpname()
    local out = session(program, ':graph y > ' .. path .. '.svg', ':graph y at lowered > ' .. path .. '.dot', ':graph y at lowered ~Switch', ':graph {y, x * 2}')
    for ending, first in pairs{ svg = '<svg', dot = 'digraph' } do
      local file = assert(io.open(path .. '.' .. ending))
      assert.are.equal(first, file:read(#first))
      file:close()
      os.remove(path .. '.' .. ending)
    end
    os.remove(path)
    assert.matches('Switch%(x, Greater%)', out)
    assert.is_nil(out:find('Placeholder()', 1, true))
    assert.matches('in cond/Merge, Mul\n', out)
  end)

  it('says what it takes', function()
    local out = session(':graph?')
    assert.matches(':graph x %[as form%] %[at stage%] %[depth n | only name | around node n%]\n  shows or draws the graph of x\n', out)
  end)
end)
