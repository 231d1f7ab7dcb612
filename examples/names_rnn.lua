-- names_rnn.lua: an LSTM learns to spell given names, then makes some up.
--
-- In training dynamic_rnn runs as long as the longest name of a batch; in dreaming a while_loop runs until the end mark is drawn, and nobody
-- knows when that will be.
-- Look at the nats per letter, and at the dreams: each took as many trips as it has letters, as h:stats().iterations would say.
--
--   dflow examples/names_rnn.lua [steps] [curve.svg]
local df = require 'dflow'
local here = debug.getinfo(1, 'S').source:match('^@(.*)/') or '.'
local STEPS, BATCH, HIDDEN, LETTERS, LONGEST, END = tonumber((...)) or 2000, 64, 128, 27, 16, 0
df.set_random_seed(3)
math.randomseed(3)

local names, held, line = {}, {}, 0
for name in io.lines(here .. '/data/names.txt') do
  line = line + 1
  local list = line % 10 == 0 and #held < 500 and held or names
  list[#list + 1] = name
end

-- ---- the network ----
local embed, head = df.nn.Embedding(LETTERS, 32), df.nn.Dense(LETTERS)
local keep = df.placeholder_with_default(df.float32(1), {})
local cell = df.rnn.DropoutWrapper(df.rnn.LSTMCell(HIDDEN), { output_keep_prob = keep, input_keep_prob = keep })
local text, lengths = df.placeholder('int32', { -1, LONGEST }), df.placeholder('int32', { -1 })     -- lengths count the end mark, too
local before = df.pad(df.slice(text, { 0, 0 }, { -1, LONGEST - 1 }), { { 0, 0 }, { 1, 0 } })
local seen = df.rnn.dynamic_rnn(cell, embed(before), { lengths = lengths })
local weights = df.cast(df.sequence_mask(lengths, LONGEST), 'float32')
local loss = df.nn.sparse_softmax_cross_entropy(text, head(seen), { weights = weights })
local rate = df.placeholder('float32', {})
local train = df.train.Adam{ learning_rate = rate, clip_norm = 5 }:minimize(loss)

-- A dream: draw a letter from what the network expects, feed it back, stop after the end mark.
local _, _, _, dream = df.while_loop(function(t, letter) return t:eq(0):logical_or(letter[0]:ne(END)) end,
  function(t, letter, state, out)
    local y, after = cell(embed(letter), state)
    local drawn = df.reshape(df.multinomial(head(y) * 1.3, 1, { output_dtype = 'int32' }), { 1 })
    return t + 1, drawn, after, out:write(t, drawn[0])
  end, { df.int32(0), df.int32{ END }, cell:zero_state(1), df.TensorArray('int32', 0, { dynamic_size = true }) }, { maximum_iterations = 20 })

local function batch(list, first, n)
  local rows, sizes = {}, {}
  for i = 1, n do
    local name = first and list[first + i - 1] or list[math.random(#list)]
    rows[i], sizes[i] = {}, math.min(#name + 1, LONGEST)
    for t = 1, LONGEST do rows[i][t] = (name:byte(t) or 96) - 96 end
  end
  return { [text] = rows, [lengths] = sizes }
end
local unseen = batch(held, 1, #held)

local curve = {}
for step = 1, STEPS do
  local feeds = batch(names, nil, BATCH)
  feeds[rate], feeds[keep] = 0.005 * 0.05 ^ (step / STEPS), 0.75
  local now = df.run({ loss = loss, train = train }, feeds)
  curve[step] = 0.95 * (curve[step - 1] or now.loss) + 0.05 * now.loss
  if step % 250 == 0 or step == STEPS then
    print(('step %4d  loss %.3f  held out %.3f nats per letter  %5.1f s'):format(step, now.loss, df.run(loss, unseen), os.clock()))
  end
end
local plot = df.plot(curve, { title = 'nats per letter', xlabel = 'step' })
print(plot:text{ columns = 72, rows = 12 })
if select(2, ...) then plot:save((select(2, ...))) end
print(('%.3f nats per letter of %d held-out names'):format(df.run(loss, unseen), #held))
local spelled = dream:stack()
for _ = 1, 20 do
  for _, letter in ipairs(df.run(spelled):totable()) do io.write(letter == END and ' ' or string.char(96 + letter)) end
end
print()
