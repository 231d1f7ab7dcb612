-- addition.lua: a network reads "38+57" letter by letter and writes "95", by looking back at what it read.
--
-- Encoder and decoder are while_loops of as many trips as the longest example needs: in training the true digits come in, afterwards
-- the network's own, until each answer has ended. Look at `ends after` below, and at what it looks at while it writes.
--
--   dflow examples/addition.lua [steps] [curve.svg]
local df = require 'dflow'
local STEPS, BATCH, HIDDEN, LONGEST, ANSWER, PLUS, END = tonumber((...)) or 2000, 64, 64, 5, 4, 10, 11
df.set_random_seed(4)
math.randomseed(4)

-- ---- the exercises: all sums of two numbers below 100; each tenth is never learned from. Answers are written from their last digit. ----
local learned, held = {}, {}
for a = 0, 99 do
  for b = 0, 99 do
    local list = (a * 100 + b) * 7919 % 997 < 100 and held or learned
    list[#list + 1] = { ('%d+%d'):format(a, b), tostring(a + b):reverse() }
  end
end
local function ids(text, n)
  local row = {}
  for i = 1, n do row[i] = i > #text and END or text:sub(i, i) == '+' and PLUS or tonumber(text:sub(i, i)) end
  return row
end
local function batch(list, first, n)
  local x, nx, y, ny = {}, {}, {}, {}
  for i = 1, n do
    local e = first and list[first + i - 1] or list[math.random(#list)]
    x[i], nx[i], y[i], ny[i] = ids(e[1], LONGEST), #e[1], ids(e[2], ANSWER), #e[2] + 1
  end
  return x, nx, y, ny
end

-- ---- the network ----
local text, text_lengths = df.placeholder('int32', { -1, LONGEST }), df.placeholder('int32', { -1 })
local answer, answer_lengths = df.placeholder('int32', { -1, ANSWER }), df.placeholder('int32', { -1 })
local embed, head, n = df.nn.Embedding(12, 16), df.nn.Dense(12), df.dim(text, 0)
local memory, state = df.rnn.dynamic_rnn(df.rnn.GRUCell(HIDDEN), embed(text), { lengths = text_lengths })
local attention = df.rnn.BahdanauAttention(HIDDEN, memory, { lengths = text_lengths })
local cell = df.rnn.AttentionWrapper(df.rnn.GRUCell(HIDDEN), attention, { attention_size = HIDDEN })
local first = cell:zero_state(n)
first.cell = state
local start = df.fill(df.stack{ n }, df.int32(END))

local before = df.concat({ df.expand_dims(start, 1), df.slice(answer, { 0, 0 }, { -1, ANSWER - 1 }) }, 1)
local taught = df.rnn.decode{ cell = cell, output_layer = head, initial_state = first,
                              helper = df.rnn.TrainingHelper(embed(before), { lengths = answer_lengths }) }
local width = df.dim(taught.logits, 1)                  -- what the longest answer of this batch needs
local goal = df.slice(answer, df.int32{ 0, 0 }, df.stack{ -1, width })
local loss = df.nn.sparse_softmax_cross_entropy(goal, taught.logits, { weights = df.cast(df.sequence_mask(answer_lengths, width), 'float32') })
local rate = df.placeholder('float32', {})
local train = df.train.Adam{ learning_rate = rate, clip_norm = 5 }:minimize(loss)

local written, _, lengths = df.rnn.decode{ cell = cell, output_layer = head, initial_state = first, max_steps = ANSWER,
                                           helper = df.rnn.GreedyEmbeddingHelper(embed, start, END) }

--- How many of these sums are right to the last digit.
local function share(list)
  local right, trips = 0, 0
  for at = 1, #list, 250 do
    local x, nx = batch(list, at, math.min(250, #list - at + 1))
    local r = df.run({ written.ids, lengths }, { [text] = x, [text_lengths] = nx })
    trips = math.max(trips, r[1].shape[2])
    for i = 0, #x - 1 do
      local digits = {}
      for t = 0, r[2]:at(i) - 1 do digits[t + 1] = r[1]:at(i, t) < 10 and r[1]:at(i, t) or '' end
      if table.concat(digits) == list[at + i][2] then right = right + 1 end
    end
  end
  return 100 * right / #list, trips
end

print(('%d sums to learn from, %d held out'):format(#learned, #held))
local curve = {}
for step = 1, STEPS do
  local x, nx, y, ny = batch(learned, nil, BATCH)
  local now = df.run({ loss = loss, train = train },
                     { [text] = x, [text_lengths] = nx, [answer] = y, [answer_lengths] = ny, [rate] = 0.005 * 0.1 ^ (step / STEPS) })
  curve[step] = 0.95 * (curve[step - 1] or now.loss) + 0.05 * now.loss
  if step % 250 == 0 or step == STEPS then
    local right, trips = share(held)
    print(('step %5d  loss %.3f  held out %5.1f %%  ends after %d digits  %5.1f s'):format(step, now.loss, right, trips, os.clock()))
  end
end
local plot = df.plot(curve, { title = 'nats per digit', xlabel = 'step' })
print(plot:text{ columns = 72, rows = 12 })
if select(2, ...) then plot:save((select(2, ...))) end
for _, sum in ipairs{ '7+8', '38+57', '99+1' } do
  local r = df.run(written.ids, { [text] = { ids(sum, LONGEST) }, [text_lengths] = { #sum } }):totable()[1]
  local digits = {}
  for i, d in ipairs(r) do digits[i] = d < 10 and d or '' end
  print(sum .. ' = ' .. table.concat(digits):reverse())
end
print(('%.1f %% of the held-out sums are right'):format((share(held))))
