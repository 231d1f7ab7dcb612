-- newton.lua: Newton's method in a loop whose body asks `gradients` for the derivative.
--
-- And because the loop has a gradient of its own, so has the root: how sqrt(a) moves when a does comes out of the
-- iteration that found it, without a word about square roots.
-- Look at the number of steps, and with :graph at what `gradients` put into the body, and at the loop that it made for the second one.
local df = require 'dflow'

--- The root of f near x, and the number of steps it took. df.autograph makes a while_loop of it, whose predicate asks for f(x) only while
-- steps are left.
local newton = df.autograph(function(f, x)
  local steps = df.int32(0)
  while steps < 50 and df.abs(f(x)) > 1e-12 do
    local y = f(x)
    steps, x = steps + 1, x - y / df.gradients(y, x)
  end
  return x, steps
end)

local function show(name, f, x0)
  local x, steps = df.unpack(df.run{ newton(f, df.float64(x0)) })
  print(('%-22s from %-5g root %.12f   %d steps'):format(name, x0, x, steps))
end
show('x^3 - 2x - 5 = 0', function(x) return x * x * x - 2 * x - 5 end, 2)
show('cos x = x', function(x) return df.cos(x) - x end, 1)
show('x e^x = 1', function(x) return x * df.exp(x) - 1 end, 0.5)

local a = df.placeholder('float64', {}, 'a')
local root = newton(function(x) return x * x - a end, df.float64(1))
local slope = df.gradients(root, a)
print('\n     a      sqrt(a)   d/da by gradients   1 / (2 sqrt a)')
for _, v in ipairs{ 2, 9, 100 } do
  local r, s = df.unpack(df.run({ root, slope }, { [a] = v }))
  print(('%6g %12.8f   %17.12f   %.12f'):format(v, r, s, 1 / (2 * math.sqrt(v))))
end
