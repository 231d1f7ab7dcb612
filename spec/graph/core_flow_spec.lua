--- Conds and loops as dflow.core, and the header, have them: one call after another. A call out of its turn, or of what is not there, is an error,
-- after which the next one may be the right one.
local df = require 'dflow'
local support = require 'spec.support'
local core = require 'dflow.backend'
local graph = require 'dflow.front.graph'
local unpack = table.unpack or unpack

describe('the calls that build', function()
  local g
  before_each(function() g = df.default_graph() end)

  --- The error's code, a space, and its message.
  local function refused(fn, ...)
    local e = support.error_of(fn, ...)
    return e.code .. ' ' .. e.message
  end

  local function flat(...)
    local list = {}
    for _, o in ipairs{ ... } do list[#list + 1], list[#list + 2] = o.node, o.index end
    return list
  end

  describe('a loop', function()
    local function begin(init) return core.while_begin(g.handle, flat(unpack(init)), 10, -1, true, 'keep', nil, 'here') end
    local function output(list, i) return graph.output(g, list[2 * i - 1], list[2 * i]) end

    it('come one after the other', function()
      local zero = df.int32(0)
      assert.matches('^failed_precondition df_while_pred_end without df_while_begin', refused(core.while_pred_end, g.handle, zero.node, 0, 1))
      assert.matches('^failed_precondition df_while_end before df_while_pred_end', refused(core.while_end, g.handle, {}))
      assert.equal('failed_precondition a loop variable is added where no body is being built', refused(core.while_add_var, g.handle, zero.node, 0))
      local at = begin{ zero }
      assert.equal('failed_precondition a loop variable is added where no body is being built', refused(core.while_add_var, g.handle, zero.node, 0))
      assert.matches('^failed_precondition df_while_end before df_while_pred_end', refused(core.while_end, g.handle, at))
      assert.matches('^failed_precondition df_cond_end before both branches have ended', refused(core.cond_end, g.handle, 1))
      assert.matches('^failed_precondition df_cond_branch_end without a branch', refused(core.cond_branch_end, g.handle, {}))
      assert.matches('^failed_precondition df_cond_select_branch without a cond', refused(core.cond_select_branch, g.handle, true))
      local more = output(at, 1):lt(3)
      at = core.while_pred_end(g.handle, more.node, more.index, 1)
      assert.matches('^failed_precondition df_while_pred_end without df_while_begin', refused(core.while_pred_end, g.handle, more.node, more.index, 1))
      local exits = core.while_end(g.handle, flat(output(at, 1) + 1))
      assert.matches('^failed_precondition df_while_end before df_while_pred_end', refused(core.while_end, g.handle, exits))
      assert.equal(3, df.run(output(exits, 1)))
    end)

    it('take outputs of the graph, as many as there are variables, and may be asked again', function()
      local at = begin{ df.int32(0), df.float32(1) }
      for _, no in ipairs{ { -1, 0 }, { 100000, 0 }, { at[1], 2 }, { at[1], -1 } } do
        assert.matches('^invalid_argument while_loop: there is no output .- to be the predicate', refused(core.while_pred_end, g.handle, no[1], no[2], 2))
      end
      local i = output(at, 1)
      assert.matches('^invalid_argument the predicate of while_loop `while` must be a scalar bool, but is int32', refused(core.while_pred_end, g.handle, i.node, i.index, 2))
      local more = i:lt(3)
      at = core.while_pred_end(g.handle, more.node, more.index, 2)
      for _, no in ipairs{ { -1, 0 }, { 100000, 0 }, { at[1], 2 }, { at[1], -1 } } do
        assert.equal(('invalid_argument there is no output %d:%d in this graph'):format(no[1], no[2]), refused(core.while_add_var, g.handle, no[1], no[2]))
      end
      local next_i, x = output(at, 1) + 1, output(at, 2) * 2
      assert.matches('has 2 loop variables, but its body returns 1 value$', refused(core.while_end, g.handle, flat(next_i)))
      assert.matches('has 2 loop variables, but its body returns 3 values$', refused(core.while_end, g.handle, flat(next_i, x, x)))
      for _, no in ipairs{ { -1, 0 }, { 100000, 0 }, { x.node, 1 }, { x.node, -1 } } do
        assert.matches('^invalid_argument while_loop: result 2 of the body is no output of this graph',
                       refused(core.while_end, g.handle, { next_i.node, next_i.index, no[1], no[2] }))
      end
      local exits = core.while_end(g.handle, flat(next_i, x))
      assert.same({ 3, 8 }, df.run{ output(exits, 1), output(exits, 2) })
    end)

    it('refuse what a loop cannot be', function()
      local zero = df.int32(0)
      local function begun(list, parallel, save) return refused(core.while_begin, g.handle, list, parallel, -1, true, save or 'keep', nil, 'here') end
      assert.matches('^invalid_argument while_loop needs at least one loop variable, but has none', begun({}, 10))
      assert.matches('^invalid_argument parallel_iterations must be 1 or more, but is 0', begun(flat(zero), 0))
      assert.matches("^invalid_argument save must be 'keep', 'swap', 'recompute' or 'auto', but is 'lose'", begun(flat(zero), 1, 'lose'))
      assert.equal(0, df.run(zero))
      assert.equal('again', df.identity(zero, { name = 'again' }).op.name)               -- at the top: no scope is open
    end)
  end)

  describe('a cond', function()
    it('come one after the other, and the true branch gives as much as the false one', function()
      local p, one, two = df.constant(true), df.float32(1), df.float32(2)
      core.cond_begin(g.handle, p.node, p.index, nil, 'here')
      assert.matches('^failed_precondition df_while_pred_end', refused(core.while_pred_end, g.handle, p.node, 0, 1))
      assert.matches('^failed_precondition df_while_end', refused(core.while_end, g.handle, {}))
      assert.matches('^failed_precondition df_cond_end before both branches have ended', refused(core.cond_end, g.handle, 1))
      for _, no in ipairs{ { -1, 0 }, { 100000, 0 }, { one.node, 1 }, { one.node, -1 } } do
        assert.matches('^invalid_argument cond: result 1 of the true branch is no output of this graph', refused(core.cond_branch_end, g.handle, no))
      end
      core.cond_branch_end(g.handle, flat(one))
      assert.matches('^failed_precondition df_cond_end before both branches have ended', refused(core.cond_end, g.handle, 1))
      assert.matches('^failed_precondition df_cond_select_branch without a cond whose branches are open', refused(core.cond_select_branch, g.handle, true))
      assert.matches('returns 1 value, but the false branch returns 2', refused(core.cond_branch_end, g.handle, flat(one, two)))
      for _, no in ipairs{ { -1, 0 }, { 100000, 0 }, { two.node, 1 } } do
        assert.matches('cond: result 1 of the false branch is no output', refused(core.cond_branch_end, g.handle, no))
      end
      core.cond_branch_end(g.handle, flat(two))
      assert.matches('^failed_precondition df_cond_branch_end', refused(core.cond_branch_end, g.handle, flat(two)))
      local _, out = core.cond_end(g.handle, 1)
      assert.matches('^failed_precondition df_cond_end', refused(core.cond_end, g.handle, 1))
      assert.equal(1, df.run(graph.output(g, out[1], out[2])))
    end)
  end)

  describe('a Merge at the top level', function()
    local registry = require 'dflow.front.registry'
    local function first(...) return (registry.op('Merge', { { ... } })) end
    local function queue() return df.FIFOQueue(1, 'float32', { shapes = { {} } }) end
    local function stuck(fetches)
      local e = support.error_of(df.run, fetches)
      assert.matches('nothing can move', e.message)
    end

    it('is a race: the run ends without what loses it, by whatever way that would have come', function()
      local v, never = df.Variable(1.0), queue():dequeue()
      local deep = df.cond(df.less(v:value(), 5.0), function() return never * 2 end, function() return never end)
      local _, looped = df.while_loop(function(i) return i:lt(3) end, function(i, x)
        return i + 1, x + queue():dequeue()
      end, { df.int32(0), df.float32(0) })
      for _, slow in ipairs{ never, deep, looped, v:assign(never), first(deep, looped) } do
        assert.equal(6, df.run(first(slow, v:value() + 5)))
        local h = df.start(first(v:value() + 5, slow))
        assert.equal(6, h:wait())
      end
      assert.equal(1, df.run(v))
    end)

    it('is waited for as long as it may decide what is fetched', function()
      local never, other = queue():dequeue(), queue():dequeue()
      local fast = df.Variable(2.0):value()
      stuck(first(never, other))
      stuck{ first(fast, never), other }
      stuck{ first(fast, never), never + 1 }
      stuck{ first(fast, never), never.op }
      local q = queue()
      local h = df.start{ first(fast, never), q:dequeue() }
      df.run(q:enqueue(7))
      assert.same({ 2, 7 }, h:wait())
      local function branch() return first(fast, never) end
      assert.matches('made by cond and while_loop only', refused(df.cond, fast:lt(3), branch, function() return fast end))
    end)
  end)
end)
