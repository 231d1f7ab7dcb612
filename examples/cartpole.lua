-- cartpole.lua: the cart and its pole for dqn.lua and actor_critic.lua, as nodes of a graph: a step is a few ops on all carts at once. Run those.
--
-- The environment is in the graph, so that a training loop of it never leaves the graph: df.train.loop is a while_loop, and one of its trips is a step of
-- all carts and one of the network. What to look at: a pole that fell is set up again by df.where beside those that stand, with no cond and no trip of
-- its own, and what ends the loop (M.options) is a predicate on the last hundred episodes, computed where they are.
local df = require 'dflow'
local M = { LONGEST = 200 }          -- an episode ends after so many steps

--- CartPole (Barto, Sutton and Anderson, 1983; the numbers of Gym's): states [n, 4] (place, speed, angle, turning) and actions [n] (0 left, 1
--- right) to states, and which fell.
function M.physics(state, action)
  local x, v, angle, turn = df.unpack(df.unstack(state, { axis = 1 }))
  local c, s = df.cos(angle), df.sin(angle)
  local push = (df.cast(action, 'float32') * 20 - 10 + 0.05 * turn * turn * s) / 1.1
  local twist = (9.8 * s - c * push) / (0.5 * (4 / 3 - 0.1 * c * c / 1.1))
  x, v, angle, turn = x + 0.02 * v, v + 0.02 * (push - 0.05 * twist * c / 1.1), angle + 0.02 * turn, turn + 0.02 * twist
  return df.stack({ x, v, angle, turn }, { axis = 1 }), df.abs(x):gt(2.4):logical_or(df.abs(angle):gt(0.2095))
end

--- States in which n poles stand nearly upright, drawn anew each time they are needed.
function M.upright(n) return df.random_uniform({ n, 4 }, { min = -0.05, max = 0.05 }) end

--- Options of df.train.loop that say how it goes, and end it when the last hundred episodes were long enough: 195 steps in the mean.
function M.options(carry, every)
  return { carry = carry, every = every, stop = function(_, c) return c.episodes:ge(100):logical_and(c.mean:ge(195)) end, report = function(i, c)
    df.print(df.stack{ df.cast(i + 1, 'float32'), df.cast(c.episodes, 'float32'), c.mean }, { message = 'step, episode, mean length of the last 100: ' })
  end }
end

--- Runs the loop whose last carry is given, and shows what came of it.
function M.run(last, title, path)
  local began = os.clock()
  local got = df.run{ mean = last.mean, episodes = last.episodes, curve = last.curve:stack() }
  print(('mean length %.1f over 100 episodes, after %d episodes and %d steps, %.1f s'):format(got.mean, got.episodes, got.curve.size, os.clock() - began))
  local plot = df.plot(got.curve, { title = title .. ': mean length of the last 100 episodes', xlabel = 'step' })
  print(plot:text{ columns = 72, rows = 12 })
  if path then plot:save(path) end
end

--- How long `steps` steps take in the graph, and one by one.
function M.compare(steps, inside, outside)
  local took = {}
  for _ = 1, 2 do                                   -- the first time all is compiled
    for k, fn in ipairs{ inside, outside } do
      local began = os.clock()
      fn()
      took[k] = os.clock() - began
    end
  end
  print(('%d steps in the graph %.3f s, one by one %.3f s: %.1f times as fast in the graph'):format(steps, took[1], took[2], took[2] / took[1]))
end

return M
