-- experts.lua: a mixture of experts inside a recurrent network; an expert that is not asked does not run.
--
-- A point is moved step by step; a symbol says how: four moves, each a matrix of its own. At each step a gate deals the examples out to the
-- experts (dynamic_partition), each expert works in a cond on those it was given, if any, and dynamic_stitch puts the parts together. What
-- is in the branch that is not taken becomes dead tokens: they are counted below, and `how often an expert ran` with them.
--
--   dflow examples/experts.lua [steps] [curve.svg]
local df = require 'dflow'
local STEPS, BATCH, TIME, MOVES, EXPERTS, SIZE = tonumber((...)) or 3000, 4, 6, 4, 4, 2
df.set_random_seed(6)

-- ---- the task: points [batch, 2] moved by one of four matrices at each step ----
local moves = df.constant{ { { 0.6, -0.8 }, { 0.8, 0.6 } }, { { 0, 1 }, { 1, 0 } }, { { -1, 0 }, { 0, 1 } }, { { 0.5, 0.5 }, { -0.5, 0.5 } } }
local symbols = df.random_uniform({ TIME, BATCH }, { min = df.int32(0), max = df.int32(MOVES), dtype = 'int32' })
local start = df.random_normal{ BATCH, SIZE }
local goals = df.scan(function(at, symbol)
  return df.squeeze(df.matmul(df.gather(moves, symbol), df.expand_dims(at, 2)), 2)
end, symbols, start)                                       -- [TIME, batch, 2]

-- ---- the network ----
local gate, experts, runs = df.nn.Dense(EXPERTS), {}, df.Variable(df.zeros{ EXPERTS }, { trainable = false, name = 'runs' })
for k = 1, EXPERTS do experts[k] = df.nn.Dense(SIZE, { name = 'expert' .. k }) end

--- points [n, 2], choice int32 [n] -> what the chosen experts make of them [n, 2]
local function mixture(points, choice)
  local parts, order = df.dynamic_partition(points, choice, EXPERTS), df.dynamic_partition(df.range(BATCH), choice, EXPERTS)
  for k = 1, EXPERTS do
    parts[k] = df.cond(df.size(order[k]):gt(0), function()
      runs:scatter_add({ k - 1 }, { 1.0 })            -- an effect of the branch: it happens when the expert runs
      return experts[k](parts[k])
    end, function() return parts[k] end)
  end
  return df.dynamic_stitch(order, parts):set_shape{ BATCH, SIZE }
end

local noise = df.placeholder_with_default(df.float32(0), {})
local _, _, total, balance = df.while_loop(function(t) return t:lt(TIME) end, function(t, point, total, balance)
  local p = df.softmax(gate(df.one_hot(symbols[t], MOVES)))
  local tried = df.log(p) + noise * df.random_normal{ BATCH, EXPERTS }       -- in training also others are tried
  local choice = df.cast(df.argmax(tried, 1), 'int32')
  local picked = df.one_hot(choice, EXPERTS)
  local weight = df.reduce_sum(p * picked, { axis = 1, keep_dims = true })
  -- The gate learns through the weight of what it chose, which is 1; that all experts are asked is worth something, too.
  local even = df.reduce_sum(df.reduce_mean(p, { axis = 0 }) * df.reduce_mean(picked, { axis = 0 })) * EXPERTS
  point = mixture(point, choice) * (weight / df.stop_gradient(weight))
  return t + 1, point, total + df.reduce_mean(df.square(point - goals[t])), balance + even
end, { df.int32(0), start, df.float32(0), df.float32(0) })
local loss = total / TIME
local rate = df.placeholder('float32', {})
local train = df.train.Adam{ learning_rate = rate, clip_norm = 1 }:minimize(loss + 0.01 * balance / TIME)

local curve = {}
for step = 1, STEPS do
  local left = 1 - step / STEPS
  local now = df.run({ loss = loss, train = train }, { [rate] = 0.02 * left + 1e-4, [noise] = left })
  curve[step] = 0.95 * (curve[step - 1] or now.loss) + 0.05 * now.loss
  if step % 300 == 0 or step == STEPS then print(('step %5d  squared error %.5f  %5.1f s'):format(step, now.loss, os.clock())) end
end
local plot = df.plot(curve, { title = 'squared error', xlabel = 'step', log = 'y' })
print(plot:text{ columns = 72, rows = 12 })
if select(2, ...) then plot:save((select(2, ...))) end

-- ---- which of them run ----
df.run(runs:assign(df.zeros{ EXPERTS }))
local ROUNDS, sum = 50, 0
local before = df.stats().dead_tokens
for _ = 1, ROUNDS do sum = sum + df.run(loss) end
local counts, parts = df.run(runs), {}
for k = 0, EXPERTS - 1 do parts[k + 1] = ('%3.0f %%'):format(100 * counts:at(k) / (ROUNDS * TIME)) end
local symbol = df.run(df.argmax(gate(df.eye(MOVES)), 1)):totable()
print('\nexpert that each move goes to:              ' .. table.concat(symbol, ' '))
print('share of the steps in which an expert ran:  ' .. table.concat(parts, ' '))
print(('dead tokens in a run of %d steps:            %.0f'):format(TIME, (df.stats().dead_tokens - before) / ROUNDS))
print(('squared error %.5f'):format(sum / ROUNDS))
