-- run: once
--- Which ops df.vmap computes for all lanes at once, and why the others are computed one lane after the other. What each
--- gives by lanes is compared with what it gives of each lane in spec/ops/every_op_spec.lua.
local df = require 'dflow'
local support = require 'spec.support'
local core, registry = require 'dflow.backend', require 'dflow.front.registry'
require 'dflow.lanes'
local batch = require 'dflow.lanes.batch'

local WITHOUT = {
  ['how much it gives depends on the values of each lane'] = [[
    CTCBeamSearchDecoder CTCGreedyDecoder CombinedNonMaxSuppression ComputeAccidentalHits DenseToDenseSetOperation
    DenseToSparseSetOperation DynamicPartition DynamicStitch DynamicStitchGrad ListDiff NonMaxSuppression NonMaxSuppressionV2
    NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5 ParallelDynamicStitch RaggedGather RaggedRange
    RaggedTensorToSparse RaggedTensorToTensor Range SetSize SparseToSparseSetOperation Unique UniqueV2 UniqueWithCounts
    UniqueWithCountsV2 Where ]],
  ['the indices of a sparse or ragged tensor, of which each lane has as many as it has'] = [[
    RaggedBincount RaggedCross SparseAdd SparseAddGrad SparseBincount SparseConcat SparseCross SparseCrossV2
    SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul SparseFillEmptyRows SparseFillEmptyRowsGrad SparseReduceMax
    SparseReduceSum SparseReorder SparseReshape SparseSegmentMean SparseSegmentSqrtN SparseSegmentSum SparseSlice
    SparseSliceGrad SparseSoftmax SparseSparseMaximum SparseSparseMinimum SparseSplit SparseTensorDenseAdd SparseTensorDenseMatMul
    SparseToDense EditDistance ]],
  ['text, files, pictures in files and summaries: a lane takes longer than the loop around it'] = [[
    AudioSummary AudioSummaryV2 DecodeCSV DecodeImage DecodeJpeg DecodePng DecodeRaw HistogramSummary ImageSummary
    MergeSummary ParseExample ParseExampleV2 ParseSingleExample ReduceJoin RegexFullMatch RegexReplace ScalarSummary
    ShardedFilename StringFormat StringJoin StringNGrams StringSplit StringSplitV2 Substr TensorSummaryV2 UnicodeDecode
    UnicodeDecodeWithOffsets UnicodeEncode UnsortedSegmentJoin ]],
  ['draws from a seed: lanes have seeds of their own, and the numbers of one seed are those of one call'] = [[
    RandomIndexShuffle StatelessMultinomial StatelessRandomBinomial StatelessRandomGammaV2 StatelessRandomGammaV3
    StatelessRandomGetAlg StatelessRandomGetKeyCounter StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomPoisson
    StatelessRandomUniform StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatelessRandomUniformInt
    StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessTruncatedNormal StatelessTruncatedNormalV2 ]],
  ['a filter that each lane has its own derivative of: as many convolutions as there are lanes'] = [[
    Conv2DBackpropFilter Conv3DBackpropFilterV2 DepthwiseConv2dNativeBackpropFilter Dilation2DBackpropFilter
    Dilation2DBackpropInput ]],
  ['a statistic of the whole batch, and each lane has a batch of its own'] = [[
    FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3 Bincount
    DenseBincount HistogramFixedWidth FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVarsGradient
    FakeQuantWithMinMaxVarsPerChannelGradient ]],
  ['numbers in few bits, in a range that each tensor has for itself'] = [[
    Dequantize QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 QuantizeAndDequantizeV4Grad
    QuantizeDownAndShrinkRange QuantizeV2 QuantizedAvgPool QuantizedBiasAdd QuantizedConcat QuantizedConv2D
    QuantizedConv2DAndReluAndRequantize QuantizedConv2DAndRequantize QuantizedConv2DWithBiasAndReluAndRequantize
    QuantizedConv2DWithBiasAndRequantize QuantizedMatMul QuantizedMatMulWithBiasAndDequantize
    QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize QuantizedMaxPool QuantizedRelu
    QuantizedRelu6 QuantizedReshape RequantizationRange Requantize ]],
  ['of shapes and counts, which all lanes share as a rule'] = [[
    BroadcastArgs BroadcastGradientArgs ConcatOffset InvertPermutation LinSpace ReducedCount ReducedShape ToBool Transfer ]],
  ['rows of one lane that lie where its own ids say'] = [[
    LowerBound ReverseSequence SegmentGather SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum UpperBound
    CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage GatherNdLast InTopKV2 ]],
  ['part of a function, or of a gradient that is built anew for all lanes'] = [[
    FunctionArg FunctionBegin FunctionReturn ReadReferenceSaved ReadVariableSaved RegisteredGradient TensorArrayReadSaved ]],
  ['in imported graphs alone, or built so seldom that nobody has waited for it'] = [[
    BatchToSpace BatchToSpaceND Betainc BlockLSTM BlockLSTMGrad BlockLSTMGradV2 BlockLSTMV2 ExtractImagePatches
    GRUBlockCellGrad LSTMBlockCellGrad MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiagV2
    MatrixSetDiagV3 MaxPoolGradWithArgmax MaxPoolWithArgmax ParallelConcat ResizeNearestNeighborGrad Reverse
    ScaleAndTranslate ScaleAndTranslateGrad SpaceToBatch
    SpaceToBatchND ]],
}

describe('df.vmap', function()
  it('has a rule for each op that has no state, or a reason', function()
    local reason, wrong = {}, {}
    for why, ops in pairs(WITHOUT) do
      for name in ops:gmatch '%a%w*' do
        if reason[name] then wrong[#wrong + 1] = name .. ' is listed twice' end
        reason[name] = why
      end
    end
    for id = 0, core.op_count() - 1 do
      local e = core.op_info(id)
      local has = batch.rules[e.type] or batch.is_elementwise(e.type) or registry.primitive(e.type)
      if not e.stateful and not has and not reason[e.type] then wrong[#wrong + 1] = e.type .. ' has no rule and no reason' end
      if has and reason[e.type] then wrong[#wrong + 1] = e.type .. ' is listed and has a rule' end
      reason[e.type] = nil
    end
    for name in pairs(reason) do wrong[#wrong + 1] = name .. ' is listed and is no op' end
    table.sort(wrong)
    assert.same({}, wrong)
  end)

  it('makes no loop of what networks are built of, nor of their gradients', function()
    local filter, weights = df.fill({ 2, 2, 1, 2 }, 0.25), df.fill({ 3, 4 }, 0.5)
    local function batch_of(v) return df.reshape(v, { 1, 3, 3, 1 }) end
    local ways = {
      gather = function(v) return df.gather(v, { 2, 0, 2 }) end,
      gather_at = function(v) return df.gather(v, df.cast(v[0], 'int32')) end,
      strided_slice = function(v) return df.strided_slice(v, { 1 }, { 9 }, { 3 }) end,
      index = function(v) return v[1] * v[-1] end,
      roll = function(v) return df.roll(v, 2, 0) * v end,
      bias_add = function(v) return df.bias_add(df.reshape(v, { 3, 3 }), df.slice(v, { 0 }, { 3 })) end,
      convolution = function(v) return df.nn.conv2d(batch_of(v), filter, { strides = { 1, 1, 1, 1 }, padding = 'SAME' }) end,
      mean_pool = function(v) return df.nn.avg_pool(batch_of(v), { ksize = { 1, 2, 2, 1 }, strides = { 1, 1, 1, 1 }, padding = 'VALID' }) end,
      top = function(v) return (df.top_k(v, 2)) end,
      cumprod = function(v) return df.cumprod(v, { axis = 0 }) end,
      pad = function(v) return df.pad(df.reshape(v, { 3, 3 }), { { 1, 1 }, { 0, 2 } }, { mode = 'REFLECT' }) end,
      diag = function(v) return df.diag(v) end,
      attention = function(v)
        local q = df.reshape(v, { 3, 3 })
        return df.nn.scaled_dot_product_attention(q, q * 0.5, q + 1, { mask = df.reshape(v:gt(0.1), { 3, 3 }) })
      end,
      dense = function(v) return df.softmax(df.tanh(df.matmul(df.reshape(v, { 3, 3 }), weights))) end,
    }
    local list = {}
    for k = 1, 36 do list[k] = (k * 7 % 11) / 3 + (k % 9 == 1 and 1 or 0) end
    for name, fn in pairs(ways) do
      df.reset()
      filter, weights = df.fill({ 2, 2, 1, 2 }, 0.25), df.fill({ 3, 4 }, 0.5)
      local x = df.reshape(df.constant(list, 'float32'), { 4, 9 })
      local function both(v)
        local y = fn(v)
        return y, df.gradients((y * y):reduce_sum(), v) + 0
      end
      local y, g = df.vmap(both)(x)
      for _, op in ipairs(df.default_graph():ops()) do assert.is_not_equal('LoopCond', op.type, name) end
      local a, b = df.unpack(df.map_fn(both, x))
      local ok, why = pcall(support.near, df.run{ y, g }, df.run{ a, b }, { rtol = 1e-5, atol = 1e-5 })
      assert(ok, name .. ': ' .. tostring(why))
    end
  end)
end)
