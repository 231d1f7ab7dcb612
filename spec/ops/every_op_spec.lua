-- run: once
--- What holds of every op of the registry, whatever it is given (spec/every_op.lua): the CPU's kernels are the reference's, each dtype
-- gives what the widest gives, what is known while building is true in a run, what is refused is well told, and lanes are computed together
-- as each by itself.
local every = require 'spec.every_op'
local support = require 'spec.support'
local it = support.host_it(it, pending)

local COUNT = support.sample(3, 40)                -- trials of an op, besides its dtypes and attributes
local SAME_SHAPES = support.sample(true, false)    -- shapes hardly depend on the dtype: each is asked in `make test-all` only

-- How large their results are is known in a run only.
local OPEN = {}
for name in ([[ComputeAccidentalHits DecodeRaw DynamicPartition ListDiff RaggedRange ReduceJoin SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum
  SparseSegmentMean SparseSegmentSqrtN SparseSegmentSum StringNGrams Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 Where]]):gmatch '%S+' do OPEN[name] = true end

-- No more than 8 dimensions; an internal op that is given a shape which it never is; results that are left empty.
local NOT_BY_LANES = { Diag = true, SumToShape = true, SelfAdjointEigV2 = true, Svd = true }

describe('every op', function()
  local ops = every.ops()

  --- Says what is wrong of the first calls for which a property does not hold.
  local function holds(property, op)
    local wrong, open = {}, 0
    for _, call in ipairs(every.calls(op, COUNT)) do
      local why, left
      if not SAME_SHAPES or property ~= 'shapes' or not call.dtype then why, left = every[property](op, call) end
      if why and #wrong < 3 then wrong[#wrong + 1] = every.told(op, call) .. ': ' .. why end
      open = open + (left or 0)
    end
    assert.same({}, wrong)
    return open
  end

  it('is asked', function() assert.is_true(#ops > 300, #ops) end)

  for _, op in ipairs(ops) do
    it('computes with the CPU\'s kernels what the reference computes: ' .. op.type, function() holds('kernels', op) end)
    it('gives in each dtype what the widest gives: ' .. op.type, function() holds('dtypes', op) end)
    it('tells what is wrong, with code, op, line and what was found: ' .. op.type, function() holds('messages', op) end)
    if not NOT_BY_LANES[op.type] then
      it('gives by lanes what it gives of each lane: ' .. op.type, function() holds('lanes', op) end)
    end
    it('knows nothing while building that a run does not give, and the more the more it is told: ' .. op.type, function()
      local open = holds('shapes', op)
      if not OPEN[op.type] then assert.equal(0, open, 'dimensions that constants leave open') end
    end)
  end
end)
