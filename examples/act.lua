-- act.lua: adaptive computation time: a network thinks about each input for as long as it needs, and learns to need less.
--
-- At each step it is given some signs, a few of them 0, and is to say whether the number of minus signs is odd. ACTCell runs the cell inside
-- it in a while_loop, a loop in the loop over time, until its halting unit has said enough; each example halts for itself. The loss adds
-- TAU times the ponder cost (how often it ran, and what was left), so while the answers become right, thinking becomes short.
-- Look at how often it `ran`: the longest of a batch is how many trips the inner loop made, fewer and fewer.
--
--   dflow examples/act.lua [steps] [curve.svg]
local df = require 'dflow'
local STEPS, BATCH, TIME, BITS, HIDDEN, TAU = tonumber((...)) or 1200, 64, 4, 4, 32, 0.03
df.set_random_seed(2)

-- ---- the task: drawn in the graph ----
local signs = df.cast(df.random_uniform({ BATCH, TIME, BITS }, { min = df.int32(0), max = df.int32(2), dtype = 'int32' }), 'float32') * 2 - 1
local count = df.random_uniform({ BATCH, TIME, 1 }, { min = df.int32(1), max = df.int32(BITS + 1), dtype = 'int32' })
local seen = df.less(df.reshape(df.range(BITS), { 1, 1, BITS }), count)
local x = signs * df.cast(seen, 'float32')
local minus = df.reduce_sum(df.cast(x:lt(0), 'int32'), { axis = 2 })
local odd = df.cast(df.floormod(minus, 2), 'float32')

-- ---- the network ----
local cell = df.rnn.ACTCell(df.rnn.GRUCell(HIDDEN), { halting_bias = -1, max_steps = 20 })
local y, last = df.rnn.dynamic_rnn(cell, x)
local logits = df.squeeze(df.nn.Dense(1)(y), 2)
local wrong = df.nn.sigmoid_cross_entropy(odd, logits)
local ponder, ran = df.reduce_mean(last.ponder) / TIME, df.reduce_mean(last.steps) / TIME
local train = df.train.Adam{ learning_rate = 0.005, clip_norm = 1 }:minimize(wrong + TAU * ponder)
local right = df.reduce_mean(df.cast(df.equal(logits:gt(0), odd:gt(0.5)), 'float32'))
local longest = df.reduce_max(last.steps) / TIME

local sums, n, most, now, curve = { right = 0, ponder = 0, ran = 0, longest = 0 }, 0, 0, nil, {}
for step = 1, STEPS do
  local r = df.run{ right = right, ponder = ponder, ran = ran, longest = longest, train = train }
  for name in pairs(sums) do sums[name] = sums[name] + r[name] end
  n = n + 1
  curve[step] = 0.95 * (curve[step - 1] or r.ponder) + 0.05 * r.ponder
  if step % 150 == 0 or step == STEPS then
    now = {}
    for name, v in pairs(sums) do now[name], sums[name] = v / n, 0 end
    n, most = 0, math.max(most, now.ponder)
    local bar = ('#'):rep(math.floor(now.ponder * 4 + 0.5))
    print(('step %5d  right %5.1f %%  ran %.2f times (%.2f the longest)  ponder cost %5.2f %s'):format(step, 100 * now.right, now.ran, now.longest,
      now.ponder, bar))
  end
end
local plot = df.plot(curve, { title = 'ponder cost', xlabel = 'step' })
print(plot:text{ columns = 72, rows = 12 })
if select(2, ...) then plot:save((select(2, ...))) end
print(('%.1f %% right; the ponder cost fell from %.2f to %.2f'):format(100 * now.right, most, now.ponder))
