--- Before a graph is cut: nodes that compute the same are merged, and what is to be together is.
local df = require 'dflow'
local ordered_it = require('spec.support').ordered_it(it, pending)

local function on(spec, fn) return df.device(spec, fn) end
local function session() return df.Session{ devices = { 'cpu:0', 'sim:0', 'sim:1' } } end

local function placed(s, x)
  local at = {}
  for _, p in ipairs(s:placement(x)) do at[p.node] = p end
  return at
end

describe('nodes that compute the same', function()
  it('are one in a graph that is cut, and it crosses once', function()
    local x = df.placeholder('float32', { 4 })
    local a = on('sim:0', function() return (x * 2):sin() end)
    local b = on('sim:0', function() return (x * 2):sin() end)
    local y = on('sim:1', function() return a + b end)
    local s = session()
    local h = s:start(y, { [x] = { 0, 0, 0, 0 } })
    assert.same({ 0, 0, 0, 0 }, h:wait():totable())
    assert.equal(1, h:stats().transfers['sim:0 -> sim:1'].messages)
    assert.matches('computes what `' .. a.op.name .. '` does', placed(s, y)[b.op.name].why)
    assert.equal('sim:0', placed(s, y)[b.op.name].device)
    local r = s:run({ a, b }, { [x] = { 1, 2, 3, 4 } })
    assert.same(r[1]:totable(), r[2]:totable())
    s:close()
  end)

  it('are looked at under either name, and either can be waited for', function()
    local x = df.placeholder('float32', {})
    local a, b = on('sim:0', function() return x:exp(), x:exp() end)
    local y = on('sim:0', function() return a + b end)
    local s = session()
    local h = s:start(y, { [x] = 0 }, { paused = true })
    h:break_at{ op = b.op.name }
    h:resume()
    h:settle()
    assert.equal('paused', h:state())
    h:step()
    assert.equal(1, h:value(b))
    assert.equal(1, h:value(a))
    h:unbreak()
    h:resume()
    assert.equal(2, h:wait())
    s:close()
  end)

  it('stay apart where an attribute, an input, a device, a branch or a control edge differs, or something has state', function()
    local x, p = df.placeholder('float32', { 2, 2 }), df.placeholder('bool', {})
    local v = df.Variable(1.0)
    local y = on('sim:0', function()
      local parts = {
        x:matmul(x), x:matmul(x, { transpose_a = true }), x * 2, x * 3, on('sim:1', function() return x * 2 end),
        df.random_uniform({ 2, 2 }, { seed = 1 }), df.random_uniform({ 2, 2 }, { seed = 1 }),
        df.cond(p, function() return x:exp() end, function() return -(x:exp()) end),
        df.control_dependencies({ v:assign_add(1.0) }, function() return x * 2 end) }
      return parts
    end)
    local s = session()
    local merged = 0
    for _, n in ipairs(s:placement(y)) do if n.why:match 'which is kept' and n.op ~= 'Switch' then merged = merged + 1 end end
    assert.equal(0, merged)
    s:run(y, { [x] = { { 1, 2 }, { 3, 4 } }, [p] = true })
    assert.equal(2, s:run(v))
    s:close()
  end)

  it('are one in the body of a loop, too, and the gradient does not change', function()
    local function gradient(options)
      df.reset()
      local x = df.placeholder('float32', { 3 })
      local _, y = df.while_loop(function(i) return i:lt(5) end, function(i, y)
        return i + 1, on('sim:0', function() return (y * x + 1):tanh() + (y * x + 1):tanh() end)
      end, { df.int32(0), x })
      local s = df.Session(options)
      local r = s:run(df.gradients(y:reduce_sum(), x), { [x] = { 0.1, 0.2, 0.3 } }):totable()
      s:close()
      return r
    end
    assert.same(gradient{ devices = { 'cpu:0' }, soft_placement = true }, gradient{ devices = { 'cpu:0', 'sim:0' } })
  end)
end)

describe('what is to be with another node', function()
  ordered_it('is where that one is, wherever the placer put it', function()
    local x = df.placeholder('float32', { 64, 64 })
    local a = on('sim:1', function() return x:matmul(x) end)
    local b = a:tanh()
    local c = df.colocate_with(b, function() return x:cos() end)
    local s = session()
    local at = placed(s, { a, b, c, on('sim:1', function() return b + 1 end) })
    assert.equal(at[b.op.name].device, at[c.op.name].device)
    s:close()
  end)

  it('is so in imported graphs, which say it by _class', function()
    local text = [[
      node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'shape' value { shape { dim { size: 2 } } } } }
      node { name: 'a' op: 'Sin' input: 'x' device: '/job:worker/task:0/device:SIM:1' attr { key: 'T' value { type: DT_FLOAT } } }
      node { name: 'b' op: 'Cos' input: 'x' attr { key: 'T' value { type: DT_FLOAT } }
             attr { key: '_class' value { list { s: 'loc:@a' } } } }
      node { name: 'c' op: 'Exp' input: 'b' attr { key: 'T' value { type: DT_FLOAT } }
             attr { key: '_class' value { list { s: 'loc:@b' } } } }]]
    local g = df.import_graph_def(text)
    local s = df.Session{ graph = g, devices = { 'cpu:0', 'sim:0', 'sim:1' } }
    local at = placed(s, { g:output 'a:0', g:output 'c:0' })
    assert.equal('sim:1', at.b.device)
    assert.equal('sim:1', at.c.device)
    assert.matches('asked to be with', at.c.why)
    s:close()
  end)

  it('is so in exported graphs, too, and devices are written in the long form', function()
    local path = os.tmpname() .. '.pbtxt'
    local x = df.placeholder('float32', { 2 }, 'x')
    local a = on('sim:1', function() return x:sin{ name = 'a' } end)
    local b = df.colocate_with(a, function() return x:cos{ name = 'b' } end)
    local c = on('CPU', function() return x:exp{ name = 'c' } end)
    local d = on('/job:worker/task:0/device:GPU:1', function() return x:tan{ name = 'd' } end)
    local function written(opts)
      df.export_graph_def(path, opts)
      local text = require('spec.shell').read(path)
      local of = {}
      for node in ('\n' .. text):gmatch '\nnode (%b{})' do of[node:match 'name: "([^"]*)"'] = node end
      return of
    end
    local nodes = written{ outputs = { a, b, c, d } }
    assert.matches('device: "/device:SIM:1"', nodes.a, 1, true)
    assert.matches('device: "/device:CPU:0"', nodes.c, 1, true)
    assert.matches('device: "/job:worker/task:0/device:GPU:1"', nodes.d, 1, true)
    assert.matches('"_class"', nodes.b)
    assert.matches('loc:@a', nodes.b)
    assert.is_nil(nodes.x:match 'device')
    local g = df.import_graph_def(path)
    local s = df.Session{ graph = g, devices = { 'cpu:0', 'sim:0', 'sim:1' } }
    local at = placed(s, { g:output 'a:0', g:output 'b:0', g:output 'c:0' })
    assert.equal('sim:1', at.a.device)
    assert.equal('sim:1', at.b.device)
    assert.equal('cpu:0', at.c.device)
    s:close()
    assert.is_nil(written{ outputs = b }.b:match '_class')          -- what it is to be with is not there
    for _, node in pairs(written{ outputs = { a, b, c, d }, clear_devices = true }) do
      assert.is_nil(node:match 'device:')
      assert.is_nil(node:match '_class')
    end
    os.remove(path)
  end)
end)
