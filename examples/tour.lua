-- tour.lua: dflow in twenty short stops. Each says what it is about, shows its code (the lines of this very file)
-- and prints what that code gives. The last one trains a recurrent network on handwritten digits.
--
--   dflow examples/tour.lua [stop [epochs=N]]      all of it, or from that stop on
local df = require 'dflow'
local cond, while_loop, TensorArray, gradients = df.cond, df.while_loop, df.TensorArray, df.gradients
local unpack = table.unpack or unpack

local file = debug.getinfo(1, 'S').source:sub(2)
local here, first, epochs = file:match('^(.*)/') or '.', tonumber((...)) or 1, (select(2, ...))
local lines = {}
for line in io.lines(file) do lines[#lines + 1] = line end

local function say(...)
  local words = {}
  for i = 1, select('#', ...) do words[i] = tostring((select(i, ...))) end
  print('    → ' .. table.concat(words, '  '):gsub('\n', '\n      '))
end

--- Prints text in lines of a readable length.
local function paragraph(text)
  local line = '  '
  for word in text:gmatch('%S+') do
    if #line + #word > 96 then
      print(line)
      line = '  '
    end
    line = line .. ' ' .. word
  end
  print(line .. '\n')
end

local number = 0
local function stop(title, about, code)
  number = number + 1
  if number < first then return end
  print(('\n%d. %s'):format(number, title))
  paragraph(about)
  local info = debug.getinfo(code, 'S')
  for l = info.linedefined + 1, info.lastlinedefined - 1 do print('    | ' .. lines[l]:gsub('^  ', '')) end
  code()
end

stop('Tensors', [[A tensor is a dense array of one dtype. It is a plain value: it prints, it has a shape, and it
  turns into a Lua table and back.]], function()
  local t = df.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, 'float32')
  say(t.dtype, t.rank, t.size, t:at(1, 2))
  say(t)
end)

stop('Outputs', [[An op gives an Output: a place in a graph. It has a dtype and a shape, but no value yet. Its value
  comes when something is run.]], function()
  local x = df.constant({ { 1, 2 }, { 3, 4 } }, 'float32')
  local y = x:matmul(x) + 1
  say(y)
  say(df.run(y))
end)

stop('Every op is a function and a method', [[Options stand in a table, and axes count from 0.]], function()
  local x = df.float32{ { 1, 2, 3 }, { 4, 5, 6 } }
  say(df.run(x:reduce_sum{ axis = 0 }))
  say(df.run(df.concat({ x, -x }, 0)))
end)

stop('Feeds', [[A placeholder gets its value at each run. A run does only what its fetches need; it is compiled once
  and then remembered.]], function()
  local x = df.placeholder('float32', {}, 'x')
  local y = x * x + 1
  say(y:eval{ [x] = 3 }, y:eval{ [x] = 10 })
  say(df.run({ square = x * x, plus = { x + 1, x + 2 } }, { [x] = 5 }).plus[2])
end)

stop('cond', [[Both branches are built, one runs. Values from outside can be used inside.]], function()
  local x = df.placeholder('float32', {})
  local y = cond(x:gt(0), function() return x:log() end, function() return x * 100 end)
  say(y:eval{ [x] = 1 }, y:eval{ [x] = -2 })
end)

stop('while_loop', [[The predicate and the body are functions of the loop variables. They are called once, to build
  the graph of an iteration; the loop then runs in the graph, without Lua.]], function()
  local i, total = while_loop(
    function(i, total) return total:lt(1000) end,
    function(i, total) return i + 1, total + i * i end,
    { df.int32(0), df.int32(0) })
  say(df.run{ trips = i, total = total }.trips, df.run(total))
end)

stop('Nesting', [[Loops in loops, conds in loops: each loop that runs is a frame, and a value knows its frame and
  iteration. Here the trip count of the inner loop depends on the outer iteration.]], function()
  local _, sum = while_loop(function(i) return i:lt(5) end, function(i, sum)
    local _, row = while_loop(function(j) return j:lt(i) end, function(j, row)
      return j + 1, row + cond((j % 2):eq(0), function() return i end, function() return -j end)
    end, { df.int32(0), df.int32(0) })
    return i + 1, sum + row
  end, { df.int32(0), df.int32(0) })
  say(df.run(sum))
end)

stop('TensorArray', [[A loop keeps things in a TensorArray: each place is written once and read as often as one
  likes. A dynamic one grows.]], function()
  local _, ta = while_loop(function(i) return i:lt(8) end,
    function(i, ta) return i + 1, ta:write(i, i * i) end,
    { df.int32(0), TensorArray('int32', 0, { dynamic_size = true }) })
  say(df.run(ta:stack()))
  say(df.run(ta:gather{ 1, 3, 5 }))
end)

stop('The branch not taken', [[It does not run, not even to be thrown away: its division by zero is no error and its
  NaN poisons no gradient. Tokens that would have gone there are dead.]], function()
  local x = df.placeholder('int32', {})
  local y = cond(x:eq(0), function() return df.int32(-1) end, function() return df.floor_div(100, x) end)
  say(y:eval{ [x] = 7 }, y:eval{ [x] = 0 })
  local z = df.float32(0)
  local safe = cond(z:gt(0), function() return z:sqrt() end, function() return z * 2 end)
  say(df.run(gradients(safe, z)))
end)

stop('Gradients', [[gradients adds the nodes of the derivative to the graph; they are nodes like any other.]], function()
  local x, w = df.placeholder('float32', {}), df.float32(3)
  local y = df.sin(x) * w
  local dx, dw = unpack(gradients(y, { x, w }))
  local gx, gw = unpack(df.run({ dx, dw }, { [x] = 0.5 }))
  say(('%.6f  %.6f'):format(gx, gw), ('%.6f  %.6f'):format(3 * math.cos(0.5), math.sin(0.5)))
end)

stop('The gradient of a loop', [[Backward, the loop runs its trips in the opposite order and finds what it needs
  where the forward loop left it. While v < 100 do v = v² takes 2 to 256 = 2⁸: the gradient is 8·2⁷ = 1024. And the
  gradient is made of ordinary nodes, loops included, so it has a gradient of its own: 8·7·2⁶ = 3584.]], function()
  local v = df.float32(2)
  local y = while_loop(function(v) return v:lt(100) end, function(v) return v * v end, { v })
  local slope = gradients(y, v)
  say(unpack(df.run{ y, slope, gradients(slope, v) }))
end)

stop('Derivatives of derivatives', [[As far as one likes. x³ by a loop of three trips: 3x², 6x, 6, and then
  nothing.]], function()
  local x = df.float64(4)
  local _, y = while_loop(function(i) return i:lt(3) end, function(i, y) return i + 1, y * x end,
    { df.int32(0), df.float64(1) })
  local all = { y }
  for order = 2, 4 do all[order] = gradients(all[order - 1], x) end
  say(unpack(df.run(all)))
end)

stop('Variables', [[A variable keeps its value from run to run and is initialised by itself. Here it goes downhill on
  (w - 5)².]], function()
  local w = df.Variable(0.0, { name = 'w' })
  local loss = (w - 5) ^ 2
  local step = w:assign_sub(0.1 * gradients(loss, w))
  for _ = 1, 50 do df.run(step) end
  say(df.run(w), df.run(loss))
end)

stop('map_fn and scan', [[Made of while_loop and TensorArray only, so their gradients need no words of their own.]],
function()
  local x = df.float32{ 1, 2, 3, 4 }
  say(df.run(df.map_fn(function(v) return v * v end, x)))
  local sums = df.scan(function(sum, v) return sum + v end, x)
  say(df.run(sums), df.run(gradients(sums, x)))
end)

stop('Errors name the line', [[What is wrong is said when it is built, with the line that built it; what only shows
  in a run also says in which iteration.]], function()
  local ok, err = pcall(function() return df.float32{ 1, 2, 3 } + df.float32{ 1, 2 } end)
  say(ok, err)
  local _, ta = while_loop(function(i) return i:lt(10) end,
    function(i, ta) return i + 1, ta:write(df.minimum(i, 6), i) end,
    { df.int32(0), TensorArray('int32', 10, { name = 'squares' }) })
  ok, err = pcall(df.run, ta:stack())
  say(ok, err)
end)

stop('Looking inside', [[A run counts what it does: nodes, dead tokens, frames, iterations, values saved for a
  gradient.]], function()
  local x = df.float32(1.001)
  local _, y = while_loop(function(i) return i:lt(1000) end,
    function(i, y) return i + 1, cond((i % 2):eq(0), function() return y * x end, function() return y:sin() end) end,
    { df.int32(0), x })
  local h = df.start(gradients(y, x))
  say(h:wait())
  local s = h:stats()
  say(('%d nodes, %d dead tokens, %d frames, %d iterations, %d saved'):format(
    s.nodes_run, s.dead_tokens, s.frames, s.iterations, s.stack_pushes))
end)

stop('parallel_iterations', [[How many iterations of a loop may be under way at once. It never changes a
  result.]], function()
  for _, n in ipairs{ 1, 2, 32, 3500 } do
    local _, x = while_loop(function(i) return i:lt(10000) end,
      function(i, x) return i + 1, x + df.sin(df.cast(i, 'float64')) end,
      { df.int32(0), df.float64(0) }, { parallel_iterations = n })
    local t = os.clock()
    local value = df.run(x)
    say(('%4d at once: %.15f  %.1f ms'):format(n, value, 1000 * (os.clock() - t)))
  end
end)

stop('Random numbers', [[They come from a counter, not from a state: the same seed gives the same numbers on any
  number of threads.]], function()
  local function draw(threads)
    return df.Graph():as_default(function()
      df.set_random_seed(42)
      local x = df.random_normal({ 100000 })
      local s = df.Session{ graph = x.graph, threads = threads }
      local mean = s:run(df.reduce_mean(x))
      s:close()
      return mean
    end)
  end
  say(draw(1), draw(2), draw(1) == draw(2))
end)

stop('A gradient of one\'s own', [[custom_gradient takes a function that gives a value and the way back from it. Here
  rounding lets the gradient straight through, which its own derivative, zero, would not.]], function()
  local straight_round = df.custom_gradient(function(x)
    return df.round(x), function(dy) return dy end
  end)
  local x = df.float32{ 0.4, 1.6, 2.5 }
  local y = straight_round(x) * 2
  say(df.run(y), df.run(gradients(y, x)))
end)

stop('A recurrent network', [[Everything together: an LSTM reads handwritten digits row by row in a while_loop and
  learns by the gradient of that loop. See examples/digits_rnn.lua.]], function()
  local learn = assert(loadfile(here .. '/digits_rnn.lua'))
  learn(epochs)
end)
