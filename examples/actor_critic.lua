-- actor_critic.lua: an actor and a critic learn CartPole, with sixteen poles, their rollouts and the returns in the graph.
--
-- Two loops in a loop: an iteration of the outer one is a step of learning; in it a while_loop rolls sixteen carts out for a few steps, and
-- writes what it sees to TensorArrays; a scan in reverse adds up what it earned; gradients goes back through the networks alone. A pole that
-- has fallen begins anew within the rollout. With :frames one sees rollouts open and close below `train`.
--
--   dflow examples/actor_critic.lua [steps] [seed] [curve.svg]
local df = require 'dflow'
local STEPS, SEED = tonumber((...)) or 6000, tonumber((select(2, ...))) or 1
local cartpole = dofile((arg and arg[0] or 'examples/'):gsub('[^/]*$', '') .. 'cartpole.lua')
local physics, upright, LONGEST = cartpole.physics, cartpole.upright, cartpole.LONGEST
local POLES, TIME, DISCOUNT = 16, 16, 0.99
df.set_random_seed(SEED)

-- ---- the networks ----
local function network(outputs) return df.nn.Sequential{ df.nn.Dense(64, { activation = df.tanh }), df.nn.Dense(outputs) } end
local actor, critic = network(2), network(1)
local function worth(states) return df.squeeze(critic(states), -1) end
local function drawn(state) return df.squeeze(df.multinomial(actor(state), 1, { output_dtype = 'int32' }), 1) end
local optimizer = df.train.Adam{ learning_rate = 2e-3, clip_norm = 0.5 }

--- TIME steps of all poles: what was seen [TIME, poles, …], how the poles stand, the lengths of the last hundred episodes.
local function rollout(c)
  local function row(kind, ...) return df.TensorArray(kind or 'float32', TIME, { element_shape = { POLES, ... } }) end
  local r = df.while_loop(function(r) return r.t:lt(TIME) end, function(r)
    local action = drawn(r.state)
    local after, fell = physics(r.state, action)
    local age = r.age + 1
    local over = fell:logical_or(age:ge(LONGEST))
    local ended = df.squeeze(df.where(over), 1)                                -- which; none, mostly
    local n = df.size(ended)
    local at = (r.episodes + df.range(n)) % 100
    return { t = r.t + 1, state = df.where(df.expand_dims(over, 1), upright(POLES), after), age = df.where(over, df.zeros_like(age), age),
             episodes = r.episodes + n, lengths = df.tensor_scatter_update(r.lengths, df.expand_dims(at, 1), df.gather(age, ended)),
             states = r.states:write(r.t, r.state), actions = r.actions:write(r.t, action), afters = r.afters:write(r.t, after),
             fell = r.fell:write(r.t, df.cast(fell, 'float32')), over = r.over:write(r.t, df.cast(over, 'float32')) }
  end, { t = df.int32(0), state = c.state, age = c.age, episodes = c.episodes, lengths = c.lengths, states = row('float32', 4), actions = row('int32'),
         afters = row('float32', 4), fell = row(), over = row() }, { back_prop = false, name = 'rollout' })
  for _, name in ipairs{ 'states', 'actions', 'afters', 'fell', 'over' } do r[name] = r[name]:stack() end
  return r
end

--- A step of learning: advantages by generalised estimation (Schulman et al., 2016), the policy's gradient with some entropy.
local function learn(r)
  local value, next_value = worth(r.states), worth(r.afters)
  local surprise = 1 + DISCOUNT * (1 - r.fell) * next_value - value
  local advantage = df.stop_gradient(df.scan(function(later, now) return now[0] + DISCOUNT * 0.95 * (1 - now[1]) * later end,
                                             df.stack({ surprise, r.over }, { axis = 1 }), df.zeros{ POLES }, { reverse = true }))
  local log_p = df.log_softmax(actor(r.states))
  local chosen = df.reduce_sum(log_p * df.one_hot(r.actions, 2), { axis = 2 })
  local mean, variance = df.moments(advantage, { 0, 1 })
  local scaled = (advantage - mean) / (df.sqrt(variance) + 1e-6)
  local against_entropy = df.reduce_mean(df.reduce_sum(df.exp(log_p) * log_p, { axis = 2 }))
  local error = df.reduce_mean(df.square(value - df.stop_gradient(advantage + value)))
  return optimizer:minimize(0.5 * error - df.reduce_mean(chosen * scaled) + 0.01 * against_entropy)
end

cartpole.run(df.train.loop(STEPS, function(i, c)
  local r = rollout(c)
  learn(r)
  local mean = df.reduce_mean(r.lengths)
  return { state = r.state, age = r.age, episodes = r.episodes, lengths = r.lengths, mean = mean, curve = c.curve:write(i, mean) }
end, cartpole.options({ state = upright(POLES), age = df.zeros{ POLES }, episodes = df.int32(0), lengths = df.zeros{ 100 }, mean = df.float32(0),
                        curve = df.TensorArray('float32', 0, { dynamic_size = true }) }, 250)), 'actor-critic', (select(3, ...)))

-- ---- the same, driven step by step: a run for each step of the carts, and one to learn ----
local ROUNDS, t, rows, writes = 100, df.placeholder('int32', { 1 }), {}, {}
local one = df.train.loop(ROUNDS, function(_, state)
  local r = rollout{ state = state, age = df.zeros{ POLES }, episodes = df.int32(0), lengths = df.zeros{ 100 } }
  learn(r)
  return r.state
end, { carry = upright(POLES) })
local state = df.Variable(upright(POLES), { trainable = false })
local before = state:value()
local action = drawn(before)
local after, fell = physics(before, action)
for k, v in ipairs{ before, action, after, df.cast(fell, 'float32') } do
  rows[k] = df.Variable(df.zeros({ TIME, df.unpack(v.shape) }, v.dtype), { trainable = false })
  writes[k] = rows[k]:scatter_update(t, df.expand_dims(v, 0))
end
local moved = df.control_dependencies(writes, function() return state:assign(df.where(df.expand_dims(fell, 1), upright(POLES), after)).op end)
local step = learn{ states = rows[1]:value(), actions = rows[2]:value(), afters = rows[3]:value(), fell = rows[4]:value(), over = rows[4]:value() }
cartpole.compare(ROUNDS, function() df.run(one) end, function()
  for _ = 1, ROUNDS do
    for k = 0, TIME - 1 do df.run(moved, { [t] = { k } }) end
    df.run(step)
  end
end)
