-- dqn.lua: deep Q-learning of CartPole, with environment, replay and exploration in the graph; and the same driven step by step.
--
-- The whole of it is one while_loop: an iteration acts (at random now and then: a cond would do, here a select), moves the cart, remembers,
-- and learns from what it remembers, in a cond that the first steps do not take. Nothing comes back to Lua until the pole stands.
-- Look at :frames while it runs, or take `report` away and see how little that changes.
--
--   dflow examples/dqn.lua [steps] [seed] [curve.svg]
local df = require 'dflow'
local STEPS, SEED = tonumber((...)) or 300000, tonumber((select(2, ...))) or 1
local cartpole = dofile((arg and arg[0] or 'examples/'):gsub('[^/]*$', '') .. 'cartpole.lua')
local physics, upright, LONGEST = cartpole.physics, cartpole.upright, cartpole.LONGEST
local ROOM, BATCH, WARM, DISCOUNT = 100000, 128, 1000, 0.99
df.set_random_seed(SEED)

-- ---- two networks, and what was seen ----
local function network() return df.nn.Sequential{ df.nn.Dense(64, { activation = df.tanh }), df.nn.Dense(64, { activation = df.tanh }), df.nn.Dense(2) } end
local q, slow = network(), network()
local function room(...) return df.Variable(df.zeros({ ROOM, ... }), { trainable = false }) end
local states, afters, actions, ends = room(4), room(4), room(), room()
local function greedy(state) return df.cast(df.argmax(q(state), 1), 'int32') end

local function keep(i, state, action, after, fell)
  local at = df.expand_dims(i % ROOM, 0)
  states:scatter_update(at, state)
  afters:scatter_update(at, after)
  actions:scatter_update(at, df.cast(action, 'float32'))
  return ends:scatter_update(at, df.cast(fell, 'float32'))
end

local function learn(i)
  local rows = df.random_uniform({ BATCH }, { max = df.minimum(i + 1, ROOM), min = df.int32(0), dtype = 'int32' })
  local function of(v) return df.gather(v, rows) end
  local best = df.reduce_sum(df.one_hot(greedy(of(afters)), 2) * slow(of(afters)), { axis = 1 })       -- double Q-learning
  local target = df.stop_gradient(1 + DISCOUNT * (1 - of(ends)) * best)
  local value = df.reduce_sum(df.one_hot(df.cast(of(actions), 'int32'), 2) * q(of(states)), { axis = 1 })
  local rate = df.train.polynomial_decay(5e-4, i, 40000, 5e-5)
  local step = df.train.Adam{ learning_rate = rate, clip_norm = 10 }:minimize(df.nn.huber_loss(target, value), { variables = q:parameters() })
  return df.control_dependencies({ step }, function()
    local moved = {}
    for k, w in ipairs(slow:parameters()) do moved[k] = w:assign_sub(0.01 * (w:value() - q:parameters()[k]:value())) end
    return df.group(moved)
  end)
end
local function explores(i) return df.maximum(0.01, 1 - df.cast(i, 'float32') / 5000) end
df.run(df.group(q(upright(1)), slow(upright(1))))
for k, w in ipairs(slow:parameters()) do w:load(df.run(q:parameters()[k])) end

-- ---- in the graph ----
local lengths = df.Variable(df.zeros{ 100 }, { trainable = false })          -- of the last hundred episodes
local function loop(steps, warm)
  return df.train.loop(steps, function(i, c)
    local action = df.where(df.random_uniform{ 1 }:lt(explores(i)), df.random_uniform({ 1 }, { min = df.int32(0), max = df.int32(2), dtype = 'int32' }),
                            greedy(c.state))
    local after, fell = physics(c.state, action)
    keep(i, c.state, action, after, fell)
    df.cond(i:ge(warm), function() learn(i) return true end, function() return false end)
    local age, over = c.age + 1, fell[0]:logical_or((c.age + 1):ge(LONGEST))
    local mean = df.cond(over, function()
      return df.reduce_mean(lengths:scatter_update(df.expand_dims(c.episodes % 100, 0), df.expand_dims(df.cast(age, 'float32'), 0)))
    end, function() return c.mean end)
    return { state = df.where(over, upright(1), after), age = df.where(over, df.int32(0), age), episodes = c.episodes + df.cast(over, 'int32'),
             mean = mean, curve = c.curve:write(i, mean) }
  end, cartpole.options({ state = upright(1), age = df.int32(0), episodes = df.int32(0), mean = df.float32(0),
                          curve = df.TensorArray('float32', 0, { dynamic_size = true }) }, 5000))
end
cartpole.run(loop(STEPS, WARM), 'DQN', (select(3, ...)))

-- ---- the same, driven step by step: four runs for each step, values to Lua and back in between ----
local i, state, action = df.placeholder('int32', {}), df.placeholder('float32', { 1, 4 }), df.placeholder('int32', { 1 })
local act = greedy(state)
local after, fell = physics(state, action)
local ended = df.placeholder('bool', { 1 })
local kept, learned, fresh = keep(i, state, action, state, ended), learn(i), upright(1)
local ROUNDS = math.floor(math.min(3000, STEPS / 10))
local in_graph = loop(ROUNDS, 0).episodes
cartpole.compare(ROUNDS, function() df.run(in_graph) end, function()
  local s, age = df.run(fresh), 0
  for k = 0, ROUNDS - 1 do
    local a = math.random() < 0.01 and df.tensor({ math.random(0, 1) }, 'int32') or df.run(act, { [state] = s })
    local now = df.run({ after = after, fell = fell }, { [state] = s, [action] = a })
    df.run(kept, { [i] = k, [state] = s, [action] = a, [ended] = now.fell })
    df.run(learned, { [i] = k })
    age = age + 1
    if now.fell:at(0) or age >= LONGEST then s, age = df.run(fresh), 0 else s = now.after end
  end
end)
