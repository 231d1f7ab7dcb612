--- Convolutions of a size that goes to the fast ways, beside the reference, and on one thread and on three.
local df = require 'dflow'

local cases = {
  { n = 2, h = 24, w = 20, ci = 24, co = 20, k = 3, padding = 'SAME' },
  { n = 17, h = 12, w = 13, ci = 16, co = 24, k = 3, padding = 'VALID' },
  { n = 5, h = 17, w = 16, ci = 16, co = 33, k = 5, stride = 2, padding = 'SAME' },
  { n = 19, h = 14, w = 14, ci = 1, co = 32, k = 5, padding = 'SAME' },
  { n = 4, h = 20, w = 20, ci = 32, co = 16, k = 3, dilation = 2, padding = 'SAME' },
  { n = 6, h = 15, w = 15, ci = 20, co = 20, k = 3, stride = 2, padding = 'EXPLICIT', pads = { 0, 0, 2, 1, 0, 3, 0, 0 } },
  { n = 33, h = 8, w = 8, ci = 16, co = 64, k = 1, stride = 2, padding = 'VALID' },
}

--- y and the gradients of its sum, weighted, as flat tables; by these kernels on so many threads.
local function results(case, kernels, threads)
  df.reset()
  local s, d = case.stride or 1, case.dilation or 1
  local x = df.random_uniform({ case.n, case.h, case.w, case.ci }, -1, 1, { seed = 3 })
  local f = df.random_uniform({ case.k, case.k, case.ci, case.co }, -1, 1, { seed = 4 })
  local y = df.conv2d(x, f, { strides = { 1, s, s, 1 }, padding = case.padding, dilations = { 1, d, d, 1 }, explicit_paddings = case.pads })
  local g = df.gradients(df.reduce_sum(y * df.random_uniform(df.shape(y), -1, 1, { seed = 5 })), { x, f })
  local session = df.Session{ graph = df.default_graph(), kernels = kernels, threads = threads }
  local out = session:run{ y, g[1], g[2] }
  session:close()
  for i, t in ipairs(out) do out[i] = df.run(df.reshape(t, { -1 })):totable() end
  return out
end

describe('a convolution', function()
  for i, case in ipairs(cases) do
    it(('of %d images %dx%dx%d agrees with the reference within rounding, as its gradients do, on any number of threads (%d)'):format(
      case.n, case.h, case.w, case.ci, i), function()
      local one, three, ref = results(case, 'cpu', 1), results(case, 'cpu', 3), results(case, 'ref', 1)
      for o, name in ipairs{ 'result', 'gradient of the images', 'gradient of the filter' } do
        assert.same(one[o], three[o])
        -- A sum of n products of numbers below 1 is off by no more than n half units of its own greatest size.
        local terms = o == 3 and case.n * case.h * case.w or case.k * case.k * math.max(case.ci, case.co)
        local bound = terms * 2 ^ -24 * math.sqrt(terms)
        for j = 1, #ref[o] do
          local off = math.abs(one[o][j] - ref[o][j])
          if off > bound or off ~= off then
            error(('%s %d: %.9g, expected %.9g within %.2g'):format(name, j, one[o][j], ref[o][j], bound))
          end
        end
      end
    end)
  end
end)
