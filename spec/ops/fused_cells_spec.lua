--- TensorFlow's fused LSTM and GRU cells, against what TensorFlow 2.15.1 computed.
local df = require 'dflow'
local op = require('dflow.front.registry').op
local support = require 'spec.support'
local near = support.near
local cases = require('spec.support').recorded 'spec/tensorflow/lstm'

--- The outputs of a case, of BlockLSTM those steps that were taken.
local function outputs(case, dtype)
  local kind, args = case[1], {}
  for i, v in ipairs(case[2]) do
    args[i] = v[1] == 'int64' and df.int64(v[2]) or df.placeholder_with_default(df.constant(v, dtype or 'float32'))
  end
  local out = { op(kind, args, case[3]) }
  if kind == 'BlockLSTM' or kind == 'BlockLSTMV2' then
    for i, o in ipairs(out) do out[i] = df.slice(o, { 0, 0, 0 }, { case[2][1][2], -1, -1 }) end
  end
  return out
end

describe('a fused cell', function()
  for n, case in ipairs(cases) do
    it(('computes what TensorFlow computes: %s (%d), by both kinds of kernels'):format(case[1], n), function()
      local out = outputs(case)
      for _, kernels in ipairs{ 'cpu', 'ref' } do
        local s = df.Session{ graph = df.default_graph(), kernels = kernels }
        for i, o in ipairs(out) do near(s:run(o), case[4][i], { what = ('output %d (%s)'):format(i, kernels), atol = 1e-5 }) end
        s:close()
      end
    end)
  end

  it('takes halves', function()
    local case = cases[1]
    for i, o in ipairs(outputs(case, 'float16')) do near(df.run(o):astype('float32'), case[4][i], { rtol = 2e-2, atol = 2e-2 }) end
  end)

  it('gives zeros for the steps after seq_len_max', function()
    local args = { df.int64(1), df.ones{ 2, 1, 1 }, df.zeros{ 1, 1 }, df.zeros{ 1, 1 }, df.ones{ 2, 4 }, df.zeros{ 1 }, df.zeros{ 1 }, df.zeros{ 1 }, df.zeros{ 4 } }
    local all = { op('BlockLSTM', args, {}) }
    near(df.run(df.gather(all[7], 1)), { { 0 } })
    args[1] = df.int64(3)
    local ok, e = pcall(df.run, (op('BlockLSTM', args, {})))
    assert.is_false(ok)
    assert.equal('invalid_argument', e.code)
  end)

  it('says what shape a wrong input should have', function()
    local x, s, w, p = df.ones{ 2, 3 }, df.zeros{ 2, 4 }, df.placeholder_with_default(df.ones{ 6, 16 }), df.zeros{ 4 }
    local all = { op('LSTMBlockCell', { x, s, s, w, p, p, p, df.zeros{ 16 } }, {}) }
    assert.matches('w is float32%[6,16%]: expected %[7,16%]', support.message_of(df.run, all[7]))
  end)
end)
