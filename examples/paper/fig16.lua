--- Fig. 16: deep Q-learning as one graph, against the same pieces driven step by step from Lua. Real time.
--
-- A pole on a cart is balanced. In the graph a loop holds all of it: choosing an action, moving the cart, filling the replay memory, training on a batch of it every few
-- steps, copying the weights to the target network now and then; each of these is a cond. Driven from outside, the conds are Lua's and each piece is a run of its own.
local df = require 'dflow'

local M = { title = 'Fig. 16: deep Q-learning', clock = 'real', units = { 16, 32, 64, 128, 256 } }
M.published = 'a graph that holds an interaction, with its conds inside, is 21 % faster than the same driven step by step from the client.'
local MEMORY, BATCH, TRAIN_EVERY, COPY_EVERY, EXPLORE = 1024, 16, 4, 100, 0.1

-- ---- the pieces --------------------------------------------------------------------------------------------------------

--- The two networks and the replay memory.
local function agent(units)
  local function network() return df.nn.Sequential{ df.nn.Dense(units, { activation = df.relu }), df.nn.Dense(2) } end
  local a = { q = network(), target = network() }
  local function kept(shape, name) return df.Variable(df.zeros(shape), { name = name, trainable = false }) end
  a.before, a.after = kept({ MEMORY, 4 }, 'before'), kept({ MEMORY, 4 }, 'after')
  a.action, a.reward, a.goes_on = kept({ MEMORY }, 'action'), kept({ MEMORY }, 'reward'), kept({ MEMORY }, 'goes_on')
  a.adam = df.train.Adam(1e-3)
  return a
end

local function best_action(a, state) return df.argmax(a.q(df.expand_dims(state, 0)), 1, { output_type = 'int32' })[0] end

--- Where the cart and the pole are 20 ms later: the next state, and whether it still stands.
local function move(state, action)
  local x, speed, angle, turning = df.unpack(df.unstack(state))
  local force = df.where(action:eq(1), 10.0, -10.0)
  local sin, cos = angle:sin(), angle:cos()
  local pushed = (force + 0.05 * turning * turning * sin) / 1.1
  local turned = (9.8 * sin - cos * pushed) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
  local pulled = pushed - 0.05 * turned * cos / 1.1
  local after = df.stack{ x + 0.02 * speed, speed + 0.02 * pulled, angle + 0.02 * turning, turning + 0.02 * turned }
  return after, df.logical_and(after[0]:abs():lt(2.4), after[2]:abs():lt(0.21))
end

local function remember(a, i, before, action, after, stands)
  local at = df.reshape(i % MEMORY, { 1 })
  local function put(variable, value) return df.scatter_update(variable, at, df.expand_dims(value, 0)) end
  return df.group{ put(a.before, before), put(a.action, df.cast(action, 'float32')), put(a.after, after), put(a.reward, df.cast(stands, 'float32')),
    put(a.goes_on, df.cast(stands, 'float32')) }
end

--- A step of Adam on a batch of what is remembered of the first i steps.
local function train(a, i)
  local rows = df.random_uniform({ BATCH }, { min = 0, max = df.minimum(i, MEMORY), dtype = 'int32' })
  local best = df.reduce_max(a.target(df.gather(a.after, rows)), { axis = 1 })
  local wanted = df.stop_gradient(df.gather(a.reward, rows) + 0.99 * df.gather(a.goes_on, rows) * best)
  local taken = df.one_hot(df.cast(df.gather(a.action, rows), 'int32'), 2)
  local found = df.reduce_sum(a.q(df.gather(a.before, rows)) * taken, { axis = 1 })
  return a.adam:minimize(df.reduce_mean((found - wanted) ^ 2), { variables = a.q:parameters() })
end

local function copy(a)
  local list, from = {}, a.q:parameters()
  for k, w in ipairs(a.target:parameters()) do list[k] = w:assign(from[k]) end
  return df.group(list)
end

-- ---- both ways -----------------------------------------------------------------------------------------------------------

--- What makes n steps, in one run, and the placeholder of n. `window` is of the loop.
function M.in_graph(units, window)
  local a, n = agent(units), df.placeholder('int32', {})
  a.q(df.zeros{ 1, 4 })
  a.target(df.zeros{ 1, 4 })
  local function when(p, fn) df.cond(p, function() fn() return df.int32(1) end, function() return df.int32(0) end) end
  local state = df.Variable(df.zeros{ 4 }, { trainable = false })
  local last = df.train.loop(n, function(i)
    local now = state:value()
    local action = df.cond(df.random_uniform({}):lt(EXPLORE), function() return df.random_uniform({}, { min = 0, max = 2, dtype = 'int32' }) end,
      function() return best_action(a, now) end)
    local after, stands = move(now, action)
    remember(a, i, now, action, after, stands)
    state:assign(df.cond(stands, function() return after end, function() return df.random_uniform({ 4 }, { min = -0.05, max = 0.05 }) end))
    when((i % TRAIN_EVERY):eq(TRAIN_EVERY - 1), function() train(a, i) end)
    when((i % COPY_EVERY):eq(0), function() copy(a) end)
  end, { parallel_iterations = window })
  return last, n
end

local function graph_run(units)
  local last, n = M.in_graph(units)
  return function(s, steps) s:run(last, { [n] = steps }) end
end

--- The same, driven from Lua.
local function step_by_step(units)
  local a = agent(units)
  local i, now, chosen = df.placeholder('int32', {}), df.placeholder('float32', { 4 }), df.placeholder('int32', {})
  local after_in, stood = df.placeholder('float32', { 4 }), df.placeholder('bool', {})
  local choose, after, stands = best_action(a, now), move(now, chosen)
  a.target(df.zeros{ 1, 4 })
  local put, learn, sync = remember(a, i, now, chosen, after_in, stood), train(a, i), copy(a)
  return function(s, steps)
    local state = { 0, 0, 0, 0 }
    for k = 0, steps - 1 do
      local action = math.random() < EXPLORE and math.random(0, 1) or s:run(choose, { [now] = state })
      local moved = s:run({ after, stands }, { [now] = state, [chosen] = action })
      s:run(put, { [i] = k, [now] = state, [chosen] = action, [after_in] = moved[1], [stood] = moved[2] })
      if moved[2] then state = moved[1]
      else
        state = {}
        for d = 1, 4 do state[d] = (math.random() - 0.5) * 0.1 end
      end
      if k % TRAIN_EVERY == TRAIN_EVERY - 1 then s:run(learn, { [i] = k }) end
      if k % COPY_EVERY == 0 then s:run(sync) end
    end
  end
end

--- As the paper has it: a run for each step, in which choosing, remembering, training and copying are conds.
local function run_a_step(units)
  local a = agent(units)
  local i, now = df.placeholder('int32', {}), df.placeholder('float32', { 4 })
  a.q(df.zeros{ 1, 4 })
  a.target(df.zeros{ 1, 4 })
  local function when(p, fn)
    return df.cond(p, function()
      local done = fn()
      return df.control_dependencies({ done }, function() return df.int32(1) end)
    end, function() return df.int32(0) end)
  end
  local action = df.cond(df.random_uniform({}):lt(EXPLORE), function() return df.random_uniform({}, { min = 0, max = 2, dtype = 'int32' }) end,
    function() return best_action(a, now) end)
  local after, stands = move(now, action)
  local put = remember(a, i, now, action, after, stands)
  local state = df.cond(stands, function() return after end, function() return df.random_uniform({ 4 }, { min = -0.05, max = 0.05 }) end)
  local trained, copied = df.control_dependencies({ put }, function()
    return when((i % TRAIN_EVERY):eq(TRAIN_EVERY - 1), function() return train(a, i) end), when((i % COPY_EVERY):eq(0), function() return copy(a) end)
  end)
  return function(s, steps)
    local at = { 0, 0, 0, 0 }
    for k = 0, steps - 1 do at = s:run({ state, trained, copied }, { [i] = k, [now] = at })[1] end
  end
end

--- Steps a second of processor time, the best of three times.
local function rate(make, steps, units)
  local g = df.Graph()
  return g:as_default(function()
    local go = make(units)
    local s, best = df.Session{ graph = g, threads = 1 }, 0      -- one thread, so that the time of the processor is all of it
    go(s, 50)
    for _ = 1, 3 do
      local began = os.clock()
      go(s, steps)
      best = math.max(best, steps / (os.clock() - began))
    end
    return best
  end)
end

function M.measure(opts)
  local rows, steps = {}, opts.steps or 2000
  for i, units in ipairs(opts.units or M.units) do
    local driven, one, graph = rate(step_by_step, steps, units), rate(run_a_step, steps, units), rate(graph_run, steps, units)
    rows[i] = { units, driven, one, one / driven, graph, graph / driven }
  end
  return { columns = { 'hidden_units', 'driven_steps_per_second', 'run_a_step', 'ratio', 'loop_in_graph', 'loop_ratio' }, rows = rows }
end

function M.draw(result)
  local x, graph, one, driven = {}, {}, {}, {}
  for i, row in ipairs(result.rows) do x[i], driven[i], one[i], graph[i] = row[1], row[2], row[3], row[5] end
  return df.plot.line(x, { ['a loop in the graph'] = graph, ['a run a step'] = one, ['step by step'] = driven }, { title = M.title .. ' (real)',
    xlabel = 'hidden units of the network', ylabel = 'steps a second',
    log = 'x', zero = true, points = true })
end

function M.says(result)
  local low, high, loop = math.huge, 0, 0
  for _, row in ipairs(result.rows) do low, high, loop = math.min(low, row[4]), math.max(high, row[4]), math.max(loop, row[6]) end
  return ('made as there, a run for each interaction is %.2f to %.2f times as fast as the pieces one by one (1.21 there: its environment takes longer, and what it takes is '
    .. 'the same both ways); with the loop in '
    .. 'the graph, too, up to %.1f times.'):format(low, high, loop)
end

return M
