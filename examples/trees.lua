-- trees.lua: a Tree-LSTM, by recursion: a network reads logical expressions as the trees that they are.
--
-- `encode` is a graph function that calls itself for the left and the right part of a node, so its frames have the shape of the tree at hand,
-- and gradients go back through the recursion (Tai et al., 2015; Jeong et al., 2018). The subtrees of a node are encoded at the same time.
-- It learns on small expressions and is asked about larger ones.
-- Look at the last lines: a tree of so many nodes took so many frames; in between, :frames shows calls in calls, left and right at once.
--
--   dflow examples/trees.lua [steps] [curve.svg]
local df = require 'dflow'
local STEPS, SIZE = tonumber((...)) or 1500, 24
df.set_random_seed(5)
math.randomseed(5)

-- ---- expressions: 0 and 1 are leaves, and or xor have two parts ----
local WORDS = { [0] = '0', '1', 'and', 'or', 'xor' }

--- A random tree with n leaves as lists by node: word, left, right (nodes from 0, parts before what is made of them); its value and text.
local function tree(n)
  local t = { word = {}, left = {}, right = {} }
  local function add(word, left, right)
    local i = #t.word
    t.word[i + 1], t.left[i + 1], t.right[i + 1] = word, left, right
    return i
  end
  local function grow(k)
    if k == 1 then
      local v = math.random(0, 1)
      return add(v, -1, -1), v, WORDS[v]
    end
    local at, op = math.random(k - 1), math.random(2, 4)
    local l, a, left = grow(at)
    local r, b, right = grow(k - at)
    local v = op == 2 and a * b or op == 3 and math.max(a, b) or (a + b) % 2
    return add(op, l, r), v, ('(%s %s %s)'):format(left, WORDS[op], right)
  end
  local _, value, text = grow(n)
  return t, value, text
end

-- ---- the network ----
local word, left, right = df.placeholder('int32', { -1 }), df.placeholder('int32', { -1 }), df.placeholder('int32', { -1 })
local embed, gates, head = df.nn.Embedding(5, SIZE), df.nn.Dense(5 * SIZE, { name = 'gates' }), df.nn.Dense(1)

local encode
encode = df.func('encode', { 'int32' }, function(node)
  local x = df.expand_dims(embed(word[node]), 0)
  local none = df.zeros{ 1, SIZE }
  local function part(which)            -- c and h of a part, zeros where there is none
    return df.cond(df.greater_equal(which[node], 0), function() return encode(which[node]) end, function() return none, none end)
  end
  local c1, h1 = part(left)
  local c2, h2 = part(right)
  local both = df.concat({ x, df.reshape(h1, { 1, SIZE }), df.reshape(h2, { 1, SIZE }) }, 1)
  local i, f1, f2, o, u = df.unpack(df.split(gates(both), 5, { axis = 1 }))
  local c = df.sigmoid(i) * df.tanh(u) + df.sigmoid(f1 + 1) * c1 + df.sigmoid(f2 + 1) * c2
  return df.reshape(c, { 1, SIZE }), df.sigmoid(o) * df.tanh(df.reshape(c, { 1, SIZE }))
end, { returns = { 'float32', 'float32' } })

local root, value = df.size(word) - 1, df.placeholder('float32', {})
local _, h = encode(root)
local logit = df.reshape(head(df.reshape(h, { 1, SIZE })), {})
local loss = df.sigmoid_cross_entropy_with_logits{ labels = value, logits = logit }
local rate = df.placeholder('float32', {})
local train = df.train.Adam{ learning_rate = rate, clip_norm = 1 }:minimize(loss)

local function feeds(t, v) return { [word] = t.word, [left] = t.left, [right] = t.right, [value] = v } end
local function share(leaves, count)
  local right_ones = 0
  for _ = 1, count do
    local t, v = tree(leaves)
    if (df.run(logit, feeds(t, v)) > 0) == (v == 1) then right_ones = right_ones + 1 end
  end
  return 100 * right_ones / count
end

local sum, curve = 0, {}
for step = 1, STEPS do
  local t, v = tree(math.random(6))
  local given = feeds(t, v)
  given[rate] = 0.01 * 0.05 ^ (step / STEPS)
  local now = df.run({ loss = loss, train = train }, given)
  sum = sum + now.loss
  curve[step] = 0.95 * (curve[step - 1] or now.loss) + 0.05 * now.loss
  if step % 250 == 0 then
    print(('step %5d  loss %.3f  of trees with 5 leaves %5.1f %% right, with 12 leaves %5.1f %%  %5.1f s'):format(step, sum / 250, share(5, 200),
      share(12, 200), os.clock()))
    sum = 0
  end
end
local plot = df.plot(curve, { title = 'nats per tree', xlabel = 'step' })
print(plot:text{ columns = 72, rows = 12 })
if select(2, ...) then plot:save((select(2, ...))) end
local t, v, text = tree(7)
print(('%s is %s: %d'):format(text, df.run(logit, feeds(t, v)) > 0 and 'true' or 'false', v))
local before = df.stats().frames
df.run(logit, feeds(t, v))
print(('its %d nodes took %d frames'):format(#t.word, df.stats().frames - before))
print(('%.1f %% of trees with 12 leaves are right'):format(share(12, 500)))
