-- names_rnn.lua: a GRU learns to spell given names, then makes some up.
--
-- Names have different lengths: in training the loop runs to the longest of the batch and a mask drops what is past
-- the end; in dreaming it runs until the end mark is drawn, and nobody knows beforehand when that will be.
local df = require 'dflow'
local here = debug.getinfo(1, 'S').source:match('^@(.*)/') or '.'
local STEPS, BATCH, HIDDEN, LETTERS, END = tonumber((...)) or 1500, 64, 96, 27, 0
df.set_random_seed(3)
math.randomseed(3)

local names = {}
for name in io.lines(here .. '/data/names.txt') do names[#names + 1] = name end

local function weights(rows, columns) return df.Variable(df.random_normal({ rows, columns }) * rows ^ -0.5) end
local E, V = weights(LETTERS, 32), weights(HIDDEN, LETTERS)
local Wg, Wc = weights(32 + HIDDEN, 2 * HIDDEN), weights(32 + HIDDEN, HIDDEN)

--- letter int32[n], h [n, hidden] -> h, logits [n, letters]
local function gru(letter, h)
  local x = df.gather(E, letter)
  local r, z = df.unpack(df.split(df.sigmoid(df.matmul(df.concat({ x, h }, 1), Wg)), 2, { axis = 1 }))
  local new = df.tanh(df.matmul(df.concat({ x, r * h }, 1), Wc))
  h = z * h + (1 - z) * new
  return h, df.matmul(h, V)
end

-- text int32[time, batch]: each row the letters at one place; lengths count the end mark too.
local text = df.placeholder('int32', { -1, BATCH }, 'text')
local lengths = df.placeholder('int32', { BATCH }, 'lengths')
local letters = df.TensorArray('int32', df.dim(text, 0)):unstack(text)
local start = df.fill({ BATCH }, df.int32(END))
local _, _, _, total = df.while_loop(
  function(t) return t:lt(df.dim(text, 0)) end,
  function(t, before, h, total)
    local letter, logits = letters:read(t), nil
    h, logits = gru(before, h)
    local loss = df.sparse_softmax_cross_entropy_with_logits(logits, letter) * df.cast(df.less(t, lengths), 'float32')
    return t + 1, letter, h, total + df.reduce_sum(loss)
  end,
  { df.int32(0), start, df.fill({ BATCH, HIDDEN }, df.float32(0)), df.float32(0) })
local loss = total / df.cast(df.reduce_sum(lengths), 'float32')
local train = df.train.Adam{ learning_rate = 0.004, clip_norm = 5 }:minimize(loss)

-- A dream: draw a letter from what the network expects, feed it back, stop at the end mark.
local _, _, _, dream = df.while_loop(
  function(t, before) return df.logical_and(t:lt(20), df.logical_or(t:eq(0), df.reduce_all(before:ne(END)))) end,
  function(t, before, h, out)
    local logits
    h, logits = gru(before, h)
    local letter = df.reshape(df.cast(df.multinomial(logits * 1.3, 1), 'int32'), { 1 })
    return t + 1, letter, h, out:write(t, df.reshape(letter, {}))
  end,
  { df.int32(0), df.int32{ END }, df.fill({ 1, HIDDEN }, df.float32(0)), df.TensorArray('int32', 0, { dynamic_size = true }) })
local spelled = dream:stack()

for n = 1, STEPS do
  local chosen, size, longest = {}, {}, 0
  for i = 1, BATCH do
    chosen[i] = names[math.random(#names)]
    size[i] = #chosen[i] + 1
    longest = math.max(longest, size[i])
  end
  local rows = {}
  for t = 1, longest do
    rows[t] = {}
    for i = 1, BATCH do rows[t][i] = t < size[i] and chosen[i]:byte(t) - 96 or END end
  end
  local now = df.run({ loss = loss, train = train }, { [text] = rows, [lengths] = size })
  if n % 250 == 0 or n == STEPS then print(('step %4d  loss %.3f per letter'):format(n, now.loss)) end
end

local made = {}
for i = 1, 20 do
  made[i] = df.run(spelled):totable()
  for k, letter in ipairs(made[i]) do made[i][k] = letter == END and '' or string.char(96 + letter) end
  made[i] = table.concat(made[i])
end
print(table.concat(made, ' '))
