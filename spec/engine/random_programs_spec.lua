--- Random programs against a direct evaluation in Lua: values, first and second derivatives.
-- DFLOW_PROGRAMS sets how many (2000; 500 in `make test`), DFLOW_SEED where the seeds begin (1).
-- run: first
local df = require 'dflow'
local random_program = require 'spec.random_program'

local count = tonumber(os.getenv 'DFLOW_PROGRAMS') or require('spec.support').sample(500, 2000)
local first = tonumber(os.getenv 'DFLOW_SEED') or 1
local at = { 0.7, -0.4, 0.3 }

local function near(a, b, tolerance)
  return a == b or math.abs(a - b) <= tolerance * (1 + math.abs(a) + math.abs(b))
end

local function check(program, what, found, expected, tolerance)
  if not near(found, expected, tolerance) then
    error(('%s is %.17g, expected %.17g in\n%s'):format(what, found, expected, random_program.show(program)), 0)
  end
end

local function feeds(xs) return { [xs[1]] = at[1], [xs[2]] = at[2], [xs[3]] = at[3] } end

describe(('%d random programs from seed %d'):format(count, first), function()
  it('have the values that a direct evaluation has', function()
    for seed = first, first + count - 1 do
      df.reset()
      local program = random_program.make(seed, 3)
      local expected, _, _, tie = random_program.eval(program, at)
      if not tie then
        local ok, y, xs = pcall(random_program.build, df, program)
        assert(ok, ('%s in\n%s'):format(tostring(y), random_program.show(program)))
        local ran, found = pcall(df.run, y, feeds(xs))
        assert(ran, ('%s in\n%s'):format(tostring(found), random_program.show(program)))
        check(program, 'the value', found, expected, 1e-9)
      end
    end
  end)

  it('have the gradients that dual numbers have', function()
    for seed = first + 100000, first + 100000 + math.floor(count / 2) - 1 do
      df.reset()
      local program = random_program.make(seed, 3)
      local expected, slopes, _, tie = random_program.eval(program, at)
      if not tie then
        local y, xs = random_program.build(df, program)
        local ok, grads = pcall(df.gradients, y, xs, { unconnected = 'zero' })
        assert(ok, ('%s in\n%s'):format(tostring(grads), random_program.show(program)))
        local ran, found = pcall(df.run, { y, grads[1], grads[2], grads[3] }, feeds(xs))
        assert(ran, ('%s in\n%s'):format(tostring(found), random_program.show(program)))
        check(program, 'the value', found[1], expected, 1e-9)
        for i = 1, 3 do check(program, 'the derivative by ' .. program.inputs[i], found[i + 1], slopes[i], 1e-8) end
      end
    end
  end)

  it('have the second derivatives that differences of the first give', function()
    local h = 1e-5
    for seed = first + 200000, first + 200000 + math.floor(count / 10) - 1 do
      df.reset()
      local program = random_program.make(seed, 2)
      local _, _, trace, tie = random_program.eval(program, at)
      local _, up, trace_up = random_program.eval(program, { at[1] + h, at[2], at[3] })
      local _, down, trace_down = random_program.eval(program, { at[1] - h, at[2], at[3] })
      if not tie and trace == trace_up and trace == trace_down then
        local y, xs = random_program.build(df, program)
        local g = df.gradients(y, xs[1], { unconnected = 'zero' })
        local ok, gg = pcall(df.gradients, g, xs, { unconnected = 'zero' })
        assert(ok, ('%s in\n%s'):format(tostring(gg), random_program.show(program)))
        local ran, found = pcall(df.run, gg, feeds(xs))
        assert(ran, ('%s in\n%s'):format(tostring(found), random_program.show(program)))
        for i = 1, 3 do
          check(program, 'the second derivative by p, ' .. program.inputs[i],
                i == 1 and found[1] or found[i], i == 1 and (up[1] - down[1]) / (2 * h) or (up[i] - down[i]) / (2 * h), 2e-4)
        end
      end
    end
  end)

  it('have the gradients that the unrolled graph, differences and all ways of running give', function()
    for seed = first + 300000, first + 300000 + math.floor(count / 20) - 1 do
      df.reset()
      local program = random_program.make(seed, 3)
      local _, _, _, tie = random_program.eval(program, at)
      if not tie then
        local y, xs = random_program.build(df, program)
        local ran, ok, report = pcall(df.check_gradients, y, xs, { feeds = feeds(xs) })
        assert(ran and ok, ('%s in\n%s'):format(tostring(ran and report or ok), random_program.show(program)))
      end
    end
  end)

  it('have second derivatives that are right in the same ways', function()
    for seed = first + 400000, first + 400000 + math.floor(count / 100) - 1 do
      df.reset()
      local program = random_program.make(seed, 2)
      local _, _, _, tie = random_program.eval(program, at)
      if not tie then
        local y, xs = random_program.build(df, program)
        local ran, ok, report = pcall(df.check_gradients, y, xs, { feeds = feeds(xs), order = 2 })
        assert(ran and ok, ('%s in\n%s'):format(tostring(ran and report or ok), random_program.show(program)))
      end
    end
  end)
end)
