-- maml.lua: weights from which a network learns a new kind of digit in a few steps (model-agnostic meta-learning, Finn et al., 2017).
--
-- A task is three kinds of digits and five pictures of each. The inner loop is a while_loop whose body calls `gradients` and takes a step of
-- descent; the outer step differentiates through all of that: a gradient of gradients through a loop, whose number of iterations is fed. Look
-- at the rate of its steps, which is learned, too, and at the end: how right it is of digits 7, 8 and 9, kept until then, before the loop and after.
--
--   dflow examples/maml.lua [steps] [curve.svg]
local df = require 'dflow'
local STEPS, WAYS, SHOTS, ASKED, TASKS, UNITS = tonumber((...)) or 1500, 3, 5, 10, 4, 48
local here = (arg and arg[0] or 'examples/'):gsub('[^/]*$', '') .. 'data/'
df.set_random_seed(2)
-- ---- tasks ----
local images, labels = df.data.idx(here .. 'train-images-idx3-ubyte.gz'), df.data.idx(here .. 'train-labels-idx1-ubyte.gz'):totable()
local COUNT, ROWS, COLUMNS = df.unpack(images.shape)
local PIXELS, sides, list = ROWS * COLUMNS, df.cast(images, 'float32') / 255, {}
for k = 0, 7 do                                                  -- turned and mirrored digits are kinds of their own
  local x = k % 2 < 1 and sides or df.reverse(sides, { 1 })
  x = k % 4 < 2 and x or df.reverse(x, { 2 })
  list[k + 1] = df.reshape(k < 4 and x or df.transpose(x, { 0, 2, 1 }), { COUNT, PIXELS })
end
local pixels = df.constant(df.run{ df.concat(list, 0) }[1])
local rows, learned = {}, {}                                     -- by kind: which pictures
for k, digit in ipairs(labels) do
  for side = 0, 7 do
    local kind = digit + 10 * side
    if not rows[kind] and digit < 7 then learned[#learned + 1] = kind end
    rows[kind] = rows[kind] or {}
    table.insert(rows[kind], k - 1 + COUNT * side)
  end
end
local random = df.data.permutation
--- Rows of TASKS tasks among these kinds: int32 [tasks, ways, shots + asked], of each way pictures of one digit.
local function tasks(kinds, seed)
  local out = {}
  for t = 1, TASKS do
    local order = random(#kinds, seed * 100 + t)
    out[t] = {}
    for way = 1, WAYS do
      local of, list = rows[kinds[order[way] + 1]], {}
      local pick = random(#of, seed * 1000 + 10 * t + way)
      for k = 1, SHOTS + ASKED do list[k] = of[pick[k] + 1] end
      out[t][way] = list
    end
  end
  return df.tensor(out, 'int32')
end
-- ---- the network, by its weights ----
local function weights(n, m) return df.Variable(df.nn.glorot_uniform(n, m)) end
local start = { weights(PIXELS, UNITS), df.Variable(df.zeros{ UNITS }), weights(UNITS, WAYS), df.Variable(df.zeros{ WAYS }) }
local rate = df.Variable(0.4)                                    -- of the inner steps: learned, too (Li et al., 2017)
local function logits(x, w) return df.matmul(df.tanh(df.matmul(x, w[1]) + w[2]), w[3]) + w[4] end
local function error_of(x, w, truth)
  return df.reduce_mean(df.sparse_softmax_cross_entropy_with_logits{ labels = truth, logits = logits(x, w) })
end
local function truth_of(n) return df.reshape(df.tile(df.expand_dims(df.range(WAYS), 1), { 1, n }), { -1 }) end

local chosen, adapts = df.placeholder('int32', { TASKS, WAYS, SHOTS + ASKED }), df.placeholder('int32', {})
--- A task: the weights after the inner steps, the error of what is asked then, and how much is right, before and after.
local function task(which)
  local function part(from, n) return df.gather(pixels, df.reshape(which:slice({ 0, from }, { WAYS, n }), { WAYS * n })) end
  local x, asked = part(0, SHOTS), part(SHOTS, ASKED)
  local first = {}
  for k, w in ipairs(start) do first[k] = w:value() end
  local last = df.while_loop(function(s) return s.i:lt(adapts) end, function(s)
    local slopes, moved = df.gradients(error_of(x, s.w, truth_of(SHOTS)), s.w), {}
    for k, w in ipairs(s.w) do moved[k] = w - rate * slopes[k] end
    return { i = s.i + 1, w = moved }
  end, { i = df.int32(0), w = first }, { name = 'adapt' }).w
  local function right(w)
    return df.reduce_mean(df.cast(df.equal(df.cast(df.argmax(logits(asked, w), 1), 'int32'), truth_of(ASKED)), 'float32'))
  end
  return { error = error_of(asked, last, truth_of(ASKED)), before = right(first), after = right(last) }
end
local all = df.map_fn(task, chosen)
local loss, before, after = df.reduce_mean(all.error), df.reduce_mean(all.before), df.reduce_mean(all.after)
local step = df.train.Adam{ learning_rate = 2e-3, clip_norm = 5 }:minimize(loss)

local function unseen(n, inner)          -- tasks of 7, 8 and 9
  local sum, sum_before = 0, 0
  for k = 1, n do
    local got = df.run({ after = after, before = before }, { [chosen] = tasks({ 7, 8, 9 }, 90000 + k), [adapts] = inner })
    sum, sum_before = sum + got.after / n, sum_before + got.before / n
  end
  return sum, sum_before
end
local curve, fresh = {}, unseen(25, 5)
for k = 1, STEPS do
  local now = df.run({ loss = loss, after = after, step = step }, { [chosen] = tasks(learned, k), [adapts] = 5 })
  curve[k] = k == 1 and now.after or 0.98 * curve[k - 1] + 0.02 * now.after
  if k % 250 == 0 then print(('step %5d  error after five inner steps %.3f, right %.1f %%, rate %.2f'):format(k, now.loss, 100 * curve[k], df.run(rate))) end
end
local got, unadapted = unseen(25, 5)
local ten = unseen(25, 10)
print(('digits 7, 8, 9 from five pictures each: right %.1f %% before adapting, %.1f %% after 5 steps, %.1f %% after 10'):format(
  100 * unadapted, 100 * got, 100 * ten))
print(('from weights that nobody had trained: %.1f %%'):format(100 * fresh))
local plot = df.plot(curve, { title = 'right after five inner steps, kinds of 0 to 6', xlabel = 'step' })
print(plot:text{ columns = 72, rows = 12 })
if select(2, ...) then plot:save((select(2, ...))) end
