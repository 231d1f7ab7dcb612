--- dflow --check-gradients: the gradients that a script asked for, when it has ended.
local shell = require 'spec.shell'

local function run(text, arguments)
  local script = os.tmpname()
  shell.write(script, text)
  local r = shell.run(('%s --check-gradients %s %s'):format(shell.dflow, script, arguments or ''))
  os.remove(script)
  r.out = r.out:gsub(script:gsub('%p', '%%%0'), 'SCRIPT')
  return r
end

local training = [[
local x, t = df.placeholder('float32', {-1, 3}), df.placeholder('float32', {-1, 1})
local w, b = df.Variable({{0.1}, {0.2}, {-0.3}}, {name = 'w'}), df.Variable({0.0}, {name = 'b'})
local _, h = while_loop(function(i) return i:lt(3) end, function(i, h) return i + 1, df.tanh(h:matmul(w) + b) * df.ones{1, 3} end, {0, x})
local loss = df.reduce_mean(df.square(h:matmul(w) - t))
local step = df.train.AdamOptimizer(0.01):minimize(loss)
for i = 1, 3 do df.run(step, {[x] = {{1, 2, 3}, {4, 5, 6}}, [t] = {{0.5}, {-0.5}}}) end
print(arg[1])
]]

local wrong = [[
local double = df.custom_gradient(function(a)
  return a * 2, function(dy) return dy * 3 end
end)
local x = df.float64(1.5)
local y = double(x * x)
print(df.run(gradients(y, x)))
]]

describe('dflow --check-gradients', function()
  it('says what each gradient was compared with', function()
    local r = run([[
local x, w = df.placeholder('float32', {3}), df.Variable({1.0, 2.0, 3.0}, {name = 'w'})
local _, h = while_loop(function(i) return i:lt(3) end, function(i, h) return i + 1, df.tanh(h * w) end, {0, x})
df.run(df.gradients(h, w), {[x] = {1, 2, 3}})
df.run(df.gradients((w * x):reduce_sum(), w), {[x] = {1, 2, 3}})
local narrow = {gradient = function(dy) return dy * 2 end, stateful = false, shapes = {{}}}     -- there is none of float64
df.run(df.gradients(df.lua_func(function(v) return v * 2 end, {w[0]}, 'float32', narrow), w))
]])
    assert.matches('ok +SCRIPT:3  d [^\n]* by w: float64 differences, unrolled, ways of running\n', r.out)
    assert.matches('ok +SCRIPT:4  d [^\n]* by w: float64 differences, ways of running\n', r.out)
    assert.matches('ok +SCRIPT:6  d [^\n]* by w: differences, ways of running\n', r.out)
  end)

  it('checks the gradients of an optimizer with the last feeds and the values that the variables end with', function()
    local r = run(training, 'argument')
    assert.equal('', r.err)
    assert.equal(0, r.status)
    assert.matches('^argument\ngradients: 1 to check\nok +SCRIPT:5  d Mean by w, b: ', r.out)
    assert.matches('\n1 right, 0 wrong, 0 not checked\n$', r.out)
  end)

  it('ends with status 1 and names the line when one is wrong, also when the script calls os.exit', function()
    for _, ending in ipairs{ '', 'os.exit(0)', 'os.exit()', 'os.exit(true)' } do
      local r = run(wrong .. ending)
      assert.equal(1, r.status, ending)
      assert.matches('\nWRONG +SCRIPT:6 ', r.out)
      assert.matches('the first wrong node is CustomGradient[^\n]*SCRIPT:5', r.out)
      assert.matches('\n0 right, 1 wrong, 0 not checked\n$', r.out)
    end
    assert.equal(7, run(wrong .. 'os.exit(7)').status)
  end)

  it('says what it could not check, and why', function()
    local r = run "local p = df.placeholder('float32', {}, 'p') gradients(p * p, p)"
    assert.equal(0, r.status)
    assert.matches('not checked  SCRIPT:1 [^\n]*no run fed p:0', r.out)
  end)

  it('checks gradients of gradients, and not what gradient functions ask for', function()
    local r = run "local x = df.float64(2) local f = df.checkpoint(function(a) return df.sin(a) * a end) local g = gradients(f(x), x) gradients(g, x)"
    assert.equal('', r.err)
    assert.matches('gradients: 2 to check\n', r.out)
    assert.matches('\n2 right, 0 wrong, 0 not checked\n$', r.out)
  end)
end)
