--- The gradient of every op is the same wherever the op stands, and whatever its inputs are.
--
-- Each op is built at the top level, in a branch, in a while_loop and in a map_fn, with inputs that are fed, constants,
-- variables, and computed there; the gradient with respect to what stands outside must be that of the op at the top level, as often
-- as the place runs. (That this one is right is check_gradients_ops_spec.lua's.)
-- run: first
local df = require 'dflow'
local graphs = require 'spec.op_gradients'
local near = require('spec.support').near

--- Ops that change what they read: from one trip to the next the value is another.
local changes = { AssignVariableOp = true, AssignAddVariableOp = true, AssignSubVariableOp = true }

--- What save = 'recompute' refuses, with a message: it changes a variable, or reads one and more.
local refused = { AssignAddVariableOp = true, AssignSubVariableOp = true, ResourceGather = true, ResourceGatherNd = true }

--- y as one number, each element with a weight of its own.
local function total(y)
  local flat = df.cast(df.reshape(y, { -1 }), 'float64')
  return df.reduce_sum(flat * (df.cast(df.range(df.size(flat)), 'float64') * 0.25 + 0.5))
end

--- Each place builds fn() and gives a number that is `times` what fn gave.
local places = {
  { 'at the top level', 1, function(fn) return fn() end },
  { 'in a branch', 1, function(fn)
    local p = df.placeholder_with_default(df.constant(true), {})
    return df.cond(p, fn, function() return df.float64(0) end)
  end },
  { 'in a while_loop', 3, function(fn)
    local _, sum = df.while_loop(function(i) return i:lt(2) end, function(i, sum) return i + 1, sum + fn() * df.cast(i + 1, 'float64') end,
                                 { df.int32(0), df.float64(0) })
    return sum
  end },
  { 'in a while_loop that recomputes', 3, function(fn)
    local _, sum = df.while_loop(function(i) return i:lt(2) end, function(i, sum) return i + 1, sum + fn() * df.cast(i + 1, 'float64') end,
                                 { df.int32(0), df.float64(0) }, { save = 'recompute' })
    return sum
  end, recomputes = true },
  { 'in a map_fn', 3, function(fn) return df.reduce_sum(df.map_fn(function(x) return x * fn() end, df.float64 { 1, 2 })) end },
  { 'in a branch in a while_loop', 1, function(fn)
    local _, sum = df.while_loop(function(i) return i:lt(2) end, function(i, sum)
      return i + 1, sum + df.cond(i:eq(1), fn, function() return df.float64(0) end)
    end, { df.int32(0), df.float64(0) })
    return sum
  end },
}

--- The gradients of op `kind` in a place with inputs made so, and the feeds; the xs in the order in which the builder made them.
local function build(kind, place, made)
  local b = graphs.builder(made)
  local variables = {}
  local y = place[3](function()
    local out, xs = graphs.build(kind, b)
    variables = {}
    for _, x in ipairs(xs) do if getmetatable(x).handle_of then variables[#variables + 1] = x end end
    return total(out)
  end)
  local xs, mine = {}, {}
  for i, x in ipairs(b.outside) do xs[i], mine[x] = x, true end
  for _, v in ipairs(variables) do if not mine[v] then xs[#xs + 1] = v end end
  return df.gradients(y, xs, { unconnected = 'zero' }), b.feeds
end

describe('the gradient of every op', function()
  for _, place in ipairs(places) do
    it('is the same ' .. place[1] .. ', of inputs that are fed, constants, variables, and computed there', function()
      local wrong = {}
      for _, kind in ipairs(graphs.types()) do
        df.reset()
        local expected
        for _, made in ipairs { 'fed', 'constant', 'variable', 'computed' } do
          local ok, e = pcall(function()
            if not expected then
              local g, feeds = build(kind, places[1], 'fed')
              expected = df.run(g, feeds)
            end
            local g, feeds = build(kind, place, made)
            local found = df.run(g, feeds)
            if changes[kind] then return end
            assert(#found == #expected, ('%d gradients, not %d'):format(#found, #expected))
            for i = 1, #found do
              local want = df.run(df.constant(expected[i]) * place[2])
              near(found[i], type(want) == 'number' and want or want:totable(), { rtol = 1e-5, atol = 1e-6, what = 'the gradient of input ' .. i })
            end
          end)
          if not ok and place.recomputes and refused[kind] and tostring(e):find('cannot be run again', 1, true) then ok = true end
          if not ok then wrong[#wrong + 1] = ('%s, %s: %s'):format(kind, made, tostring(e)) end
        end
      end
      assert(#wrong == 0, ('%d\n%s'):format(#wrong, table.concat(wrong, '\n')))
    end)
  end

  it('is the same of inputs whose shapes are not known while building, or is refused for that', function()
    local wrong, said = {}, {}
    for _, kind in ipairs(graphs.types()) do
      df.reset()
      local g, feeds = build(kind, places[1], 'fed')
      local expected = df.run(g, feeds)
      for _, made in ipairs{ 'dims', 'rank' } do
        local built, found, fed = pcall(build, kind, places[1], made)
        local ok, e = built, found
        if built then ok, e = pcall(function() near(df.run(found, fed), expected, { rtol = 1e-9, atol = 1e-12 }) end) end
        if not ok and not built and tostring(e):find 'known while building' then said[kind] = true ok = true end
        if not ok then wrong[#wrong + 1] = ('%s, %s: %s'):format(kind, made, tostring(e)) end
      end
    end
    assert(#wrong == 0, ('%d\n%s'):format(#wrong, table.concat(wrong, '\n')))
    local names = {}
    for kind in pairs(said) do names[#names + 1] = kind end
    table.sort(names)
    assert.same({ 'SegmentMean', 'SparseSegmentMean', 'SparseSegmentSqrtN', 'SparseToDense', 'Unpack' }, names)
  end)

  it('has the shape of what was broadcast, though that was not known', function()
    local function ones(...) return df.run(df.ones({ ... }, 'float64')) end
    local function shapes(build_it, known, values)
      df.reset()
      local feeds, xs = {}, {}
      for i, v in ipairs(values) do
        xs[i] = df.placeholder(v.dtype, known[i] or nil)
        feeds[xs[i]] = v
      end
      local t = {}
      for i, v in ipairs(df.run(df.gradients(build_it(df.unpack(xs)), { df.unpack(xs, 1, #known) }, { unconnected = 'zero' }), feeds)) do
        t[i] = table.concat(v.shape, 'x')
      end
      return table.concat(t, ' ')
    end
    local function to(dims) return function(x) return df.broadcast_to(x, dims) end end
    assert.equal('1', shapes(to{ 5 }, { { -1 } }, { ones(1) }))
    assert.equal('5', shapes(to{ 5 }, { { -1 } }, { ones(5) }))
    assert.equal('1x3', shapes(to{ 5, 3 }, { { -1, 3 } }, { ones(1, 3) }))
    assert.equal('2x1x3', shapes(to{ 4, 2, 5, 3 }, { { -1, -1, 3 } }, { ones(2, 1, 3) }))
    assert.equal('1x1x3', shapes(to{ 2, 5, 3 }, { false }, { ones(1, 1, 3) }))
    for _, op in ipairs{ 'add', 'subtract', 'multiply', 'divide', 'maximum', 'squared_difference', 'pow', 'atan2', 'floormod' } do
      for _, n in ipairs{ { 1, 5 }, { 5, 1 }, { 5, 5 } } do
        assert.equal(('%dx3 %d'):format(n[1], n[2] == 1 and 1 or 3),
          shapes(df[op], { { -1, 3 }, { -1 } }, { ones(n[1], 3), ones(n[2] == 1 and 1 or 3) }), op)
      end
    end
    assert.equal('1x2x3 5x3x4', shapes(df.matmul, { { -1, 2, 3 }, { -1, 3, 4 } }, { ones(1, 2, 3), ones(5, 3, 4) }))
    assert.equal('1 3', shapes(function(x, y) return df.where(df.constant{ true, false, true }, x, y) end, { { -1 }, { -1 } }, { ones(1), ones(3) }))
  end)
end)
