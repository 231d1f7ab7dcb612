-- names_rnn.lua: a GRU learns to spell given names, then makes some up.
--
-- In training a mask drops what is past a name's end; in dreaming the loop runs until the end mark is drawn, and
-- nobody knows when that will be.
local df = require 'dflow'
local here = debug.getinfo(1, 'S').source:match('^@(.*)/') or '.'
local STEPS, BATCH, HIDDEN, LETTERS, END = tonumber((...)) or 1500, 64, 96, 27, 0
df.set_random_seed(3)

local names, LONGEST = {}, 16      -- letters, with the end mark
for name in io.lines(here .. '/data/names.txt') do names[#names + 1] = name end

local function weights(rows, columns) return df.Variable(df.random_normal({ rows, columns }) * rows ^ -0.5) end
local E, V = weights(LETTERS, 32), weights(HIDDEN, LETTERS)
local Wg, Wc = weights(32 + HIDDEN, 2 * HIDDEN), weights(32 + HIDDEN, HIDDEN)

--- letter int32[n], h [n, hidden] -> the next h, and the logits of the next letter
local function gru(letter, h)
  local x = df.gather(E, letter)
  local r, z = df.unpack(df.split(df.sigmoid(df.matmul(df.concat({ x, h }, 1), Wg)), 2, { axis = 1 }))
  h = z * h + (1 - z) * df.tanh(df.matmul(df.concat({ x, r * h }, 1), Wc))
  return h, df.matmul(h, V)
end

-- text int32[time, batch], lengths count the end mark too.
local text, lengths = df.placeholder('int32', { LONGEST, BATCH }), df.placeholder('int32', { BATCH })
local letters = df.TensorArray('int32', LONGEST):unstack(text)
local _, _, _, total = df.while_loop(function(t) return t:lt(df.reduce_max(lengths)) end, function(t, before, h, total)
  local h2, logits = gru(before, h)
  local losses = df.sparse_softmax_cross_entropy_with_logits(logits, letters:read(t))
  return t + 1, letters:read(t), h2, total + df.reduce_sum(losses * df.cast(df.less(t, lengths), 'float32'))
end, { df.int32(0), df.fill({ BATCH }, df.int32(END)), df.zeros{ BATCH, HIDDEN }, df.float32(0) })
local loss = total / df.cast(df.reduce_sum(lengths), 'float32')
local train = df.train.Adam{ learning_rate = 0.004, clip_norm = 5 }:minimize(loss)

-- A dream: draw a letter from what the network expects, feed it back, stop after the end mark.
local _, _, _, dream = df.while_loop(function(t, letter) return t:eq(0):logical_or(letter[0]:ne(END)) end,
  function(t, letter, h, out)
    local h2, logits = gru(letter, h)
    local drawn = df.reshape(df.multinomial(logits * 1.3, 1, { output_dtype = 'int32' }), { 1 })
    return t + 1, drawn, h2, out:write(t, drawn[0])
  end, { df.int32(0), df.int32{ END }, df.zeros{ 1, HIDDEN }, df.TensorArray('int32', 0, { dynamic_size = true }) },
  { maximum_iterations = 20 })

for n = 1, STEPS do
  local rows, sizes = {}, {}
  for t = 1, LONGEST do rows[t] = {} end
  for i = 1, BATCH do
    local name = names[math.random(#names)]
    sizes[i] = #name + 1
    for t = 1, LONGEST do rows[t][i] = (name:byte(t) or 96) - 96 end
  end
  local now = df.run({ loss = loss, train = train }, { [text] = rows, [lengths] = sizes })
  if n % 250 == 0 or n == STEPS then print(('step %4d  loss %.3f per letter'):format(n, now.loss)) end
end
local spelled = dream:stack()
for _ = 1, 20 do
  for _, letter in ipairs(df.run(spelled):totable()) do io.write(letter == END and ' ' or string.char(96 + letter)) end
end
print()
