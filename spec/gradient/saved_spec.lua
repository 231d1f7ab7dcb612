-- df.saved: what gradients save of loops and conds, and that it is as little as can be.
local df = require 'dflow'
local unpack = table.unpack or unpack

local function trips(save, n, body, ...)
  local r = { df.while_loop(function(i) return i:lt(n) end, function(i, ...) return i + 1, body(i, ...) end, { df.int32(0), ... }, { save = save }) }
  return unpack(r, 2)
end
--- The names of the ops whose values came about in this way.
local function ops(loop, how)
  local list = {}
  for _, v in ipairs(loop or {}) do if v.how == how then list[#list + 1] = v.variable and 'variable ' .. v.variable or v.op end end
  table.sort(list)
  return table.concat(list, ' ')
end

describe('df.saved', function()
  before_each(function() df.reset() end)

  it('lists per loop what each trip saves, its line, its bytes and the op whose gradient wants it', function()
    local x, w = df.placeholder('float32', { 4, 8 }), df.Variable(df.ones { 8, 8 })
    local y = trips('keep', 5, function(_, u) return df.erf(df.matmul(u, w)) end, x)
    df.gradients(df.reduce_sum(y), w)
    local r = df.saved(y)
    assert(#r == 1 and r[1].kind == 'while_loop' and r[1].name == 'while' and r[1].save == 'keep')
    assert(r[1].line:find('saved_spec.lua:%d+'))
    assert(ops(r[1], 'saved') == 'MatMul ReadVariableOp variable 2', ops(r[1], 'saved'))      -- the variable as the trip read it
    assert(r[1].bytes == 2 * 4 * 8 * 4 + 8 * 8 * 4, tostring(r[1].bytes))
    for _, v in ipairs(r[1]) do
      if v.op == 'MatMul' then
        assert(v.dtype == 'float32' and v.shape[1] == 4 and v.shape[2] == 8 and v.bytes == 128)
        assert(v.wanted_op == 'Erf' and v.line:find('saved_spec.lua:%d+'))
      end
    end
  end)
  it('builds the gradient by the Variables and placeholders where none was built, or by those it is given', function()
    local x, c = df.placeholder('float32', {}), df.float32(2)
    local y = trips('keep', 5, function(_, u) return df.sin(u) * c end, x)
    assert(#df.saved(y) == 1)
    df.reset()
    x, c = df.placeholder('float32', {}), df.float32(2)
    y = trips('keep', 5, function(_, u) return u * c end, x)
    assert(ops(df.saved(y)[1], 'saved') == '')
    assert(ops(df.saved(y, c)[1], 'saved') == 'variable 2')
  end)
  it('finds outputs saved where the derivative is a function of the output, and of what the body returns nothing at all', function()
    local x = df.placeholder('float32', { 3 })
    local y = trips('keep', 5, function(_, u) return df.tanh(u) end, x)
    local r = df.saved(y)
    assert(ops(r[1], 'saved') == 'variable 2' and ops(r[1], 'carried') == 'Tanh' or ops(r[1], 'saved') == 'Tanh', tostring(r))
    assert(r[1].bytes == 12, tostring(r))
  end)
  it('finds cheap elementwise chains computed again, counters counted, loop constants not saved, and shapes in place of values', function()
    local x, w = df.placeholder('float32', { 3 }), df.placeholder('float32', { 3 })
    local y = trips('keep', 5, function(i, u) return df.sin(df.square(u) + w * df.cast(i, 'float32')) end, x)
    local r = df.saved(y)
    assert(ops(r[1], 'saved') == 'variable 2', tostring(r))
    assert(ops(r[1], 'computed again'):find('Square') and ops(r[1], 'counted') == 'variable 1', tostring(r))
    df.reset()
    x = df.placeholder('float32', nil)
    local _, z = df.while_loop(function(i) return i:lt(3) end, function(i, u) return i + 1, u + df.reduce_sum(df.erf(u * 2)) end,
                               { df.int32(0), x }, { shape_invariants = { [2] = false } })
    local text = tostring(df.saved(z))
    assert(text:find('the shape of'), text)
  end)
  it('finds the value saved, not the variable that it is made of, where that is of a wider dtype', function()
    local u = df.placeholder('float64', { 3 })
    local r = df.saved(trips('keep', 5, function(_, u) return df.cast(df.sin(df.cast(u, 'float32')), 'float64') end, u))
    assert(ops(r[1], 'saved') == 'Cast' and r[1].bytes == 12, tostring(r))
  end)
  it('says what save = recompute keeps and what it cannot repeat', function()
    local x = df.placeholder('float32', { 10 })
    local y = trips('recompute', 9, function(_, u) return df.erf(u) * df.random_uniform { 10 } end, x)
    local r = df.saved(y)
    assert(r[1].save == 'recompute' and r[1].kept_bytes == 40 and r[1].bytes == 40, tostring(r))
    assert(ops(r[1], 'kept') == 'variable 2' and ops(r[1], 'not repeated') == 'RandomUniform', tostring(r))
    assert(r[2].name:find('recompute$') and ops(r[2], 'saved') ~= '', tostring(r))
  end)
  it('says that on a CPU nothing need be moved for save = swap', function()
    local x = df.placeholder('float32', {})
    local y = trips('swap', 3, function(_, u) return u * u end, x)
    local r = df.saved(y)
    assert(r[1].save == 'swap' and tostring(r):find('host memory already'), tostring(r))
  end)
  it('reports conds, and says when nothing is saved', function()
    local x = df.placeholder('float32', {})
    local y = df.cond(x:gt(0), function() return df.erf(x * df.erf(x)) end, function() return x end)
    local r = df.saved(y)
    assert(r[1].kind == 'cond' and ops(r[1], 'saved'):find('Erf'), tostring(r))
    assert(tostring(df.saved(df.float32(1))) == 'No gradient saves anything of a loop or cond.')
  end)
end)
