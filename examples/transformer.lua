-- transformer.lua: a small transformer learns to spell names, then makes some up with a cache that grows.
--
-- In training all letters of a name are looked at together, each seeing those before it. In dreaming a while_loop adds a letter per trip; the
-- keys and values of the letters so far are loop variables that get longer (shape_invariants say so), so a trip looks at one letter only.
-- Look at df.saved(loss), which has no loop, and at :stacks while it dreams: the cache grows by a row per trip.
--
--   dflow examples/transformer.lua [steps] [curve.svg]
local df = require 'dflow'
local here = debug.getinfo(1, 'S').source:match('^@(.*)/') or '.'
local STEPS, BATCH, SIZE, HEADS, LETTERS, LONGEST, END = tonumber((...)) or 1500, 64, 48, 4, 27, 16, 0
df.set_random_seed(3)
math.randomseed(3)

local names, held, line = {}, {}, 0
for name in io.lines(here .. '/data/names.txt') do
  line = line + 1
  local list = line % 10 == 0 and #held < 500 and held or names
  list[#list + 1] = name
end

-- ---- the network: letters, places, two blocks ----
local embed, places = df.nn.Embedding(LETTERS, SIZE), df.nn.Embedding(LONGEST, SIZE)
local blocks = {}
for i = 1, 2 do blocks[i] = df.nn.TransformerBlock(HEADS, SIZE, { causal = true, dropout = 0.1 }) end
local norm, head = df.nn.LayerNorm(), df.nn.Dense(LETTERS)

--- letters int32 [batch, time], the first one at place `at`; caches of the blocks, or nil -> logits [batch, time, 27], longer caches
local function network(letters, at, caches, training)
  local x, longer = embed(letters) + places(df.range(df.dim(letters, 1)) + at), {}
  for i, block in ipairs(blocks) do x, longer[i] = block(x, { cache = caches and caches[i], training = training }) end
  return head(norm(x)), longer
end

local text, lengths = df.placeholder('int32', { -1, LONGEST }), df.placeholder('int32', { -1 })
local before = df.pad(df.slice(text, { 0, 0 }, { -1, LONGEST - 1 }), { { 0, 0 }, { 1, 0 } })       -- END comes in first
local weights = df.cast(df.sequence_mask(lengths, LONGEST), 'float32')
local function loss_of(training)
  return df.nn.sparse_softmax_cross_entropy(text, (network(before, 0, nil, training)), { weights = weights })
end
local loss, thinned = loss_of(false), loss_of(true)       -- the same weights; in training some connections are dropped
local rate = df.placeholder('float32', {})
local train = df.train.Adam{ learning_rate = rate, clip_norm = 1 }:minimize(thinned)

-- ---- a dream: letters are drawn until END is ----
local cache = { 1, HEADS, -1, SIZE / HEADS }
local grow = { keys = cache, values = cache }
local _, _, _, dream = df.while_loop(function(t, letter) return df.logical_or(t:eq(0), df.not_equal(letter[0][0], END)) end,
  function(t, letter, caches, out)
    local logits, longer = network(letter, t, caches)
    local drawn = df.multinomial(df.squeeze(logits, 1) * 1.3, 1, { output_dtype = 'int32' })
    return t + 1, drawn, longer, out:write(t, drawn[0][0])
  end, { df.int32(0), df.int32{ { END } }, { blocks[1]:empty_cache(1), blocks[2]:empty_cache(1) }, df.TensorArray('int32', 0, { dynamic_size = true }) },
  { shape_invariants = { [3] = { grow, grow } }, maximum_iterations = LONGEST, name = 'dream' })

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

print(('%d names to learn from, %d held out; %s'):format(#names, #held, tostring(blocks[1]):match('[^\n]*')))
local curve = {}
for step = 1, STEPS do
  local feeds = batch(names, nil, BATCH)
  feeds[rate] = 0.004 * math.min(1, step / 50) * 0.05 ^ (step / STEPS)
  local now = df.run({ loss = thinned, train = train }, feeds)
  curve[step] = 0.95 * (curve[step - 1] or now.loss) + 0.05 * now.loss
  if step % 150 == 0 or step == STEPS then
    print(('step %5d  loss %.3f  held out %.3f nats per letter  %5.1f s'):format(step, now.loss, df.run(loss, unseen), os.clock()))
  end
end
local plot = df.plot(curve, { title = 'nats per letter', xlabel = 'step' })
print(plot:text{ columns = 72, rows = 12 })
if select(2, ...) then plot:save((select(2, ...))) end
local spelled, words = dream:stack(), {}
for i = 1, 16 do
  local word = {}
  for _, letter in ipairs(df.run(spelled):totable()) do word[#word + 1] = letter == END and '' or string.char(96 + letter) end
  words[i] = table.concat(word)
end
print(table.concat(words, ' '))
print(('%.3f nats per letter of %d held-out names'):format(df.run(loss, unseen), #held))
