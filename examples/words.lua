-- words.lua: words become vectors: those that stand in the same company come to lie near each other.
--
-- Skip-grams of a text: of each word its neighbours are to be guessed. A softmax over all words would look at all of them in every step;
-- sampled_softmax_loss looks at the true ones and SAMPLED others, and only the rows that were met are read, differentiated and changed.
-- Look at the neighbours at the end, and at what a pair of neighbours costs in nats beside the words' frequencies alone.
--
--   dflow examples/words.lua [steps] [text or ''] [curve.svg]               the text is what help says of every function, without one
local df = require 'dflow'
local STEPS, PATH, SVG = tonumber((...)) or 3000, select(2, ...)
local BATCH, SIZE, SAMPLED, WINDOW, LEAST = 64, 24, 16, 2, 8
df.set_random_seed(1)
math.randomseed(1)

-- ---- the text: words that come LEAST times, the frequent ones first (as the log-uniform sampler expects) ----
local pages, text, counts, words = {}, {}, {}, {}
if PATH and PATH ~= '' then
  for line in io.lines(PATH) do pages[#pages + 1] = line end
else
  local help = require 'dflow.docs.help'
  for i, name in ipairs(help.names()) do pages[i] = name .. ' ' .. (help.about(name) or '') end
end
for word in table.concat(pages, ' '):lower():gmatch('%a[%a_]*') do
  text[#text + 1] = word
  counts[word] = (counts[word] or 0) + 1
end
for word, n in pairs(counts) do if n >= LEAST then words[#words + 1] = word end end
table.sort(words, function(a, b) return counts[a] > counts[b] or (counts[a] == counts[b] and a < b) end)
local id = {}
for i, word in ipairs(words) do id[word] = i - 1 end

-- Pairs of a word and a neighbour; each tenth place of the text is held out.
local learned, held = {}, {}
for i, word in ipairs(text) do
  for j = math.max(1, i - WINDOW), math.min(#text, i + WINDOW) do
    if j ~= i and id[word] and id[text[j]] then
      local list = i % 10 == 0 and held or learned
      list[#list + 1] = { id[word], id[text[j]] }
    end
  end
end

-- ---- the model ----
local word, neighbour = df.placeholder('int32', { -1 }), df.placeholder('int32', { -1 })
local vectors = df.Variable(function() return df.random_uniform({ #words, SIZE }, { min = -0.5, max = 0.5 }) end)
local weights, biases = df.Variable(df.zeros{ #words, SIZE }), df.Variable(df.zeros{ #words })
local seen = df.embedding_lookup(vectors, word)
local loss = df.reduce_mean(df.sampled_softmax_loss(weights, biases, neighbour, seen, SAMPLED, #words))
local rate = df.placeholder('float32', {})
local train = df.train.Adagrad(rate):minimize(loss)

local all = df.matmul(seen, weights, { transpose_b = true }) + biases           -- for looking only: every word
local exact = df.nn.sparse_softmax_cross_entropy(neighbour, all)
local unit = df.l2_normalize(vectors, 1)
local near = df.matmul(df.gather(unit, word), unit, { transpose_b = true })

local function feeds(list, first, n)
  local a, b = {}, {}
  for i = 1, n do
    local pair = first and list[first + i - 1] or list[math.random(#list)]
    a[i], b[i] = pair[1], pair[2]
  end
  return { [word] = a, [neighbour] = b }
end
local unseen = feeds(held, 1, #held)

-- What it costs to guess by how frequent words are, whatever stands beside them.
local times, by_frequency = {}, 0
for _, pair in ipairs(learned) do times[pair[2]] = (times[pair[2]] or 0) + 1 end
for _, pair in ipairs(held) do by_frequency = by_frequency - math.log((times[pair[2]] or 0.5) / #learned) / #held end

print(('%d words, %d pairs to learn from, %d held out; by frequency %.3f nats'):format(#words, #learned, #held, by_frequency))
local curve = {}
for step = 1, STEPS do
  local given = feeds(learned, nil, BATCH)
  given[rate] = 0.3 * (1 - step / STEPS) + 0.01
  local now = df.run({ loss = loss, train = train }, given)
  curve[step] = 0.95 * (curve[step - 1] or now.loss) + 0.05 * now.loss
  if step % 500 == 0 or step == STEPS then
    print(('step %5d  sampled loss %.3f  held out %.3f nats  %5.1f s'):format(step, now.loss, df.run(exact, unseen), os.clock()))
  end
end
local plot = df.plot(curve, { title = 'nats of a sampled softmax', xlabel = 'step' })
print(plot:text{ columns = 72, rows = 12 })
if SVG then plot:save(SVG) end
for _, name in ipairs{ 'sum', 'rows', 'weights', 'one', words[1] } do
  if id[name] then
    local _, best = df.top_k(near[0], 5)
    local line = {}
    for i, k in ipairs(df.run(best, { [word] = { id[name] } }):totable()) do if i > 1 then line[#line + 1] = words[k + 1] end end
    print(('%-12s is near %s'):format(name, table.concat(line, ', ')))
  end
end
print(('%.3f nats per neighbour of %d held-out pairs, by frequency %.3f'):format(df.run(exact, unseen), #held, by_frequency))
