-- Names of nodes, given and automatic, in scopes, whichever looks like which: they are unique, found again, and do not depend on when they are asked for.
local df = require 'dflow'
local chance = require 'spec.chance'
local draw, one_of = chance.draw, chance.one_of

local given = { 'x', 'x_1', 'x_2', 'Neg', 'Neg_1', 'Neg_2', 'Neg_5', 'Neg_12', 'Neg_01', 'Neg_', 'Neg_0', '_1', 'Exp', 'Exp_3', 'Exp_3_1', 'a', 'a_1', 'Nega', 'Neg_1_1',
                'Neg_9999999999', ('long'):rep(40), ('n'):rep(63) .. '_2', 'Neg_2147483647', 'Neg_999999999' }

--- The names of random nodes: a list of {name, node, type, asked = name that was given}; each name asked for at once when `soon`.
local function named(seed, soon)
  df.reset()
  chance.set(seed * 7919)
  local x = df.placeholder('float32', {}, 'x0')
  local list = {}
  local function build(deep)
    for _ = 1, 4 + draw(8) do
      local what = draw(7)
      if what == 0 and deep < 4 then df.name_scope(one_of{ 'a', 'a_1', 'Neg', 'b' }, function() build(deep + 1) end)
      else
        local asked = what >= 5 and one_of(given) or nil
        x = what < 4 and df.neg(x) or what < 5 and df.exp(x) or df.neg(x, { name = asked })
        list[#list + 1] = { node = x, type = what == 4 and 'Exp' or 'Neg', asked = asked }
        if soon then list[#list].early = x.name end
        draw(5)
      end
    end
  end
  build(0)
  for _, n in ipairs(list) do n.name = n.node.name end
  return list
end

describe('names of nodes', function()
  for seed = 1, 30 do
    it('are unique, lead back to the nodes, and begin with what was asked for: seed ' .. seed, function()
      local list = named(seed)
      local seen = { ['x0:0'] = true }
      for _, n in ipairs(list) do
        assert.is_nil(seen[n.name], n.name)
        seen[n.name] = true
        assert.equal(n.node, df.default_graph():output(n.name))
        local last, base = n.name:match '([^/]*):0$', n.asked or n.type
        local number = last:match('^' .. base .. '_(%d+)$')
        assert.is_true(last == base or number ~= nil, n.name)
        if number and n.asked then assert.is_true(tonumber(number) <= #list, n.name) end          -- it does not run away
      end
    end)

    it('are the same whenever they are asked for: seed ' .. seed, function()
      local late = named(seed, false)
      for i, n in ipairs(late) do late[i] = n.name end
      for i, n in ipairs(named(seed, true)) do
        assert.equal(n.name, n.early)
        assert.equal(late[i], n.name)
      end
    end)
  end

  it('count the nodes of a type in a scope, from none', function()
    local x = df.placeholder('float32', {}, 'x0')
    local names = {}
    for i = 1, 4 do names[i] = df.neg(x).name end
    assert.same({ 'Neg:0', 'Neg_1:0', 'Neg_2:0', 'Neg_3:0' }, names)
    df.name_scope('a', function()
      assert.equal('a/Neg:0', df.neg(x).name)
      assert.equal('a/Exp:0', df.exp(x).name)
      assert.equal('a/Neg_1:0', df.neg(x).name)
    end)
    df.name_scope('a', function() assert.equal('a_1/Neg:0', df.neg(x).name) end)
    assert.equal('Neg_4:0', df.neg(x).name)
    assert.equal('Neg_9:0', df.neg(x, { name = 'Neg_9' }).name)          -- ahead of the count, which goes on behind it
    assert.equal('Neg_10:0', df.neg(x).name)
    assert.equal('Neg_9_1:0', df.neg(x, { name = 'Neg_9' }).name)
    assert.equal('y:0', df.neg(x, { name = 'y' }).name)
    assert.equal('y_1:0', df.neg(x, { name = 'y' }).name)
    assert.equal('y_2:0', df.neg(x, { name = 'y' }).name)
    assert.equal('y_2_1:0', df.neg(x, { name = 'y_2' }).name)
  end)

  it('are found however many there are', function()
    local x, nodes = df.placeholder('float32', {}), {}
    for i = 1, 3000 do nodes[i] = df.neg(x, { name = 'n' .. i * 7 % 3001 }) end
    for i = 1, 3000 do
      assert.equal('n' .. i * 7 % 3001 .. ':0', nodes[i].name)
      assert.equal(nodes[i], df.default_graph():output(nodes[i].name))
    end
  end)
end)
