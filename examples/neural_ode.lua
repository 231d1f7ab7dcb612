-- neural_ode.lua: a differential equation with a network on its right-hand side learns how hares and lynxes come and go.
--
-- The solver is a while_loop that chooses its own steps: a pair of Runge-Kutta formulas (Bogacki and Shampine, 1989) says how wrong a step is; a
-- step that is too wrong is taken back and tried again, shorter. So each iteration is data's own affair, and how many there are is known when they
-- are done. `gradients` goes back through it, step by step, as through any loop (Chen et al., 2018, solve a second equation for that).
-- Look at how many steps the solver tried and how many it took back: more of both as what is learned becomes steeper.
--
--   dflow examples/neural_ode.lua [steps] [table.csv] [curve.svg]
local df = require 'dflow'
local STEPS, SPAN, TOLERANCE = tonumber((...)) or 1500, 3, 1e-3
local path = select(2, ...) or (arg and arg[0] or 'examples/'):gsub('[^/]*$', '') .. 'data/hares.csv'
df.set_random_seed(3)

-- ---- the data: logarithms of two numbers, year by year ----
local table_ = df.data.csv(path)
local YEARS = table_.year.size
local numbers = df.log(df.stack({ df.cast(df.constant(table_.hare), 'float32'), df.cast(df.constant(table_.lynx), 'float32') }, { axis = 1 }))
local mean, variance = df.moments(numbers, { 0 })
local data = df.run{ (numbers - mean) / df.sqrt(variance) }[1]           -- [years, 2]
print(('%d years of %s'):format(YEARS, path:match('[^/]*$')))

-- ---- the equation, and its solver ----
local slope = df.nn.Sequential{ df.nn.Dense(24, { activation = df.tanh }), df.nn.Dense(2) }

--- From time 0 to 1 for all rows of y at once: y afterwards, steps taken, steps taken back.
local function year(y)
  local s = df.while_loop(function(s) return s.t:lt(1 - 1e-6):logical_and(s.taken:lt(500)) end, function(s)
    local h = df.minimum(s.h, 1 - s.t)
    local k1 = slope(s.y)
    local k2 = slope(s.y + h * 0.5 * k1)
    local k3 = slope(s.y + h * 0.75 * k2)
    local y3 = s.y + h * (2 / 9 * k1 + 1 / 3 * k2 + 4 / 9 * k3)
    local k4 = slope(y3)
    local wrong = df.stop_gradient(df.reduce_max(df.abs(h * (-5 / 72 * k1 + 1 / 12 * k2 + 1 / 9 * k3 - 1 / 8 * k4)))) / TOLERANCE
    local good = wrong:le(1)
    local longer = df.clip_by_value(0.9 * df.pow(wrong + 1e-6, -1 / 3), 0.2, 5.0)
    return { t = df.where(good, s.t + h, s.t), y = df.where(good, y3, s.y), h = df.stop_gradient(h) * longer,
             taken = s.taken + 1, back = s.back + df.cast(df.logical_not(good), 'int32') }
  end, { t = df.float32(0), y = y, h = df.float32(0.25), taken = df.int32(0), back = df.int32(0) }, { name = 'solver' })
  return s.y, s.taken, s.back
end

--- `years` of them from y: [years, rows, 2], and steps in all.
local function solve(y, years)
  local state = df.scan(function(s)
    local after, taken, back = year(s.y)
    return { y = after, taken = taken, back = back }
  end, df.range(years), { y = y, taken = df.int32(0), back = df.int32(0) })
  return state.y, state.taken, state.back
end

-- ---- learning: from each year on, the next SPAN years ----
local starts = df.constant(data):slice({ 0, 0 }, { YEARS - SPAN, 2 })
local goals = {}
for k = 1, SPAN do goals[k] = df.constant(data):slice({ k, 0 }, { YEARS - SPAN, 2 }) end
local found, taken, back = solve(starts, SPAN)
local loss = df.reduce_mean(df.square(found - df.stack(goals)))
local at = df.Variable(0, { dtype = 'int64', trainable = false })
local step = df.train.Adam{ learning_rate = df.train.cosine_decay(0.01, at, STEPS), clip_norm = 1 }:minimize(loss, { global_step = at })
for k = 1, STEPS do
  local now = df.run{ loss = loss, taken = taken, back = back, step = step }
  if k % 250 == 0 then
    print(('step %5d  squared error %.4f  steps of the solver for each year: %s, taken back: %s'):format(k, now.loss,
      table.concat(now.taken:totable(), ' '), table.concat(now.back:totable(), ' ')))
  end
end

-- ---- what it knows ----
local next_year = df.reduce_mean(df.square(year(df.constant(data):slice({ 0, 0 }, { YEARS - 1, 2 })) - df.constant(data):slice({ 1, 0 }, { YEARS - 1, 2 })))
local same = df.reduce_mean(df.square(df.constant(data):slice({ 0, 0 }, { YEARS - 1, 2 }) - df.constant(data):slice({ 1, 0 }, { YEARS - 1, 2 })))
local path_ = solve(df.constant(data):slice({ 0, 0 }, { 1, 2 }), YEARS - 1)
local got = df.run{ next_year = next_year, same = same, path = df.concat({ df.constant(data):slice({ 0, 0 }, { 1, 2 }), df.squeeze(path_, 1) }, 0) }
print(('next year is foreseen with a squared error of %.4f; "as this year" has %.4f'):format(got.next_year, got.same))
local lines = { hares = {}, ['hares, solved from 1900 on'] = {} }
for k = 1, YEARS do lines.hares[k], lines['hares, solved from 1900 on'][k] = data:at(k - 1, 0), got.path:at(k - 1, 0) end
local plot = df.plot(lines, { title = 'hares (logarithm, normalised)', xlabel = 'years after 1900' })
print(plot:text{ columns = 72, rows = 14 })
if select(3, ...) then plot:save((select(3, ...))) end
