--- Programs that live through the end of memory: spec/memory/failing_spec.lua fails their allocations one by one.
--
-- Each is {name, make}: make() prepares what is not looked at and gives a function, which may be called again and again and gives
-- the same text each time it succeeds.
local df = require 'dflow'

local function loop(n, w, opts)
  local _, y = df.while_loop(function(i) return i:lt(n) end, function(i, y) return i + 1, df.tanh(y * w) + 1 end,
                             { df.int32(0), df.float32(1) }, opts)
  return y
end

local function show(v) return type(v) == 'number' and ('%.6g'):format(v) or tostring(v) end

--- fn in a graph of its own, which is closed afterwards.
local function alone(fn)
  return function()
    local g = df.Graph()
    local s
    local ok, e = pcall(g.as_default, g, function()
      s = df.Session{ graph = g, threads = 1 }
      return s:as_default(fn, s, g)
    end)
    if s then s:close() end
    if not ok then error(e, 0) end
    return show(e)
  end
end

return {
  { 'build ops', function() return alone(function(_, g)
      local x = df.placeholder('float32', { 2, 3 }, 'x')
      local y = df.matmul(x, { { 1 }, { 2 }, { 3 } }):reshape{ 2 } + 1
      for i = 1, 70 do y = y * i end
      return df.name_scope('inner', function() return (y + 1).name end) .. g:size()
    end) end },
  { 'build a cond and loops', function() return alone(function(_, g)
      local w = df.Variable(0.5)
      local y = loop(3, w)
      local z = df.cond(y:gt(1), function() return loop(2, y) end, function() w:assign_add(1) return y * 2 end)
      return z.dtype .. g:size()
    end) end },
  { 'plan and run', function() return alone(function()
      local x = df.placeholder('float32', { -1 })
      local y = (df.cond(x:reduce_sum():gt(0), function() return x * 2 end, function() return x end) + 1):reduce_mean()
      return df.run(y, { [x] = { 1, 2, 3 } })
    end) end },
  { 'run a loop', function()
      local g = df.Graph()
      local y = g:as_default(function()
        local n, a = df.while_loop(function(i) return i:lt(40) end, function(i, a) return i + 1, a:write(i, df.float32(i) * 2) end,
          { df.int32(0), df.TensorArray('float32', 40) })
        return a:stack():reduce_sum() + df.float32(n)
      end)
      return function()
        local s = df.Session{ graph = g, threads = 1 }
        local ok, v = pcall(s.run, s, y)
        s:close()
        if not ok then error(v, 0) end
        return show(v)
      end
    end },
  { 'gradients of loops', function() return alone(function()
      local w = df.Variable(0.5)
      local y = df.cond(w:gt(0), function() return loop(4, w) end, function() return w * 2 end)
      local g = df.gradients(y, w)
      return df.run(df.gradients(g, w) + g)
    end) end },
  { 'gradients of a loop that recomputes', function() return alone(function()
      local w = df.Variable(0.5)
      return df.run(df.gradients(loop(9, w, { save = 'recompute' }), w))
    end) end },
  { 'functions that call themselves', function() return alone(function()
      local f
      f = df.func('f', { 'int32' }, function(n)
        return df.cond(n:lt(2), function() return n end, function() return f(n - 1) + f(n - 2) end)
      end, { returns = { 'int32' } })
      return df.run(f(7))
    end) end },
  { 'import and export', function() return alone(function(_, g)
      local x = df.placeholder('float32', {}, 'x')
      local y = df.identity(loop(5, x), { name = 'y' })
      local path = os.tmpname()
      local ok, h = pcall(function()
        df.export_graph_def(path, { outputs = { y } })
        return df.import_graph_def(path)
      end)
      os.remove(path)
      if not ok then error(h, 0) end
      local s = df.Session{ graph = h, threads = 1 }
      local v
      ok, v = pcall(s.run, s, h:output('y:0'), { [h:output('x:0')] = 0.5 })
      s:close()
      if not ok then error(v, 0) end
      return v
    end) end },
  { 'queues', function() return alone(function()
      local q = df.FIFOQueue(40, { 'float32', 'int32' }, { shapes = { {}, {} } })
      local put = q:enqueue(df.float32(1.5), df.int32(2))
      for _ = 1, 20 do df.run(put) end
      local a, b = q:dequeue_many(20)
      return df.run(a:reduce_sum() + df.cast(b:reduce_sum(), 'float32'))
    end) end },
  { 'inspection', function() return alone(function(s)
      local w = df.Variable(0.5)
      local y = loop(6, w)
      local h = s:start(y, nil, { paused = true })
      local ok, e = pcall(function()
        h:settle()
        h:break_at{ iteration = 3 }
        h:resume()
        h:settle()
        local frames, ledger = h:frames(), h:ledger()
        h:unbreak()
        h:resume()
        return #frames .. tostring(ledger ~= nil) .. show(h:wait())
      end)
      if not ok then           -- what ended the run says more than that it is over
        pcall(h.cancel, h)
        local waited, why = pcall(h.wait, h)
        error(not waited and why.code ~= 'cancelled' and why or e, 0)
      end
      return e
    end) end },
  { 'variables and optimizers', function() return alone(function()
      local w = df.Variable({ 1.0, 2.0 })
      local step = df.train.Adam(0.1):minimize((w * w):reduce_sum())
      for _ = 1, 3 do df.run(step) end
      return df.run(w:reduce_sum())
    end) end },
  { 'strings and lists', function() return alone(function()
      local _, parts = df.string_split({ 'a b c', 'd' }, ' ')
      local t = df.map_fn(function(v) return v * 2 end, df.range(30))
      return tostring(df.run(parts)) .. show(df.run(t:reduce_sum()))
    end) end },
  { 'files of tensors', function() return alone(function()
      local prefix = os.tmpname()
      local tensors = { a = df.tensor{ 1, 2, 3 }, b = df.tensor({ { 0.5 } }, 'float16'), words = df.tensor{ 'x', 'longer' } }
      local ok, e = pcall(function()
        df.save_checkpoint(prefix, tensors)
        df.save_npz(prefix .. '.npz', { a = tensors.a, b = tensors.b })
        local list = {}
        for _, file in ipairs{ df.load_checkpoint(prefix), df.load_npz(prefix .. '.npz') } do
          for name, t in pairs(file) do list[#list + 1] = name .. tostring(t) end
        end
        table.sort(list)
        return table.concat(list)
      end)
      os.execute(("rm -f '%s' '%s'.*"):format(prefix, prefix))
      if not ok then error(e, 0) end
      return e
    end) end },
}
